//! Where a journal's settings live: this boot and namespace, or one that may be gone.

use std::path::{Path, PathBuf};

use crate::host::HostRead;
use crate::model::identity::HostIdentity;

/// Where the settings of a journal are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Here.
    Here,
    /// In an earlier boot: gone.
    EarlierBoot,
    /// In a network namespace that is gone, and its devices with it.
    GoneNamespace,
    /// In another network namespace that still exists.
    OtherNamespace,
}

/// Where settings made on `there` are, seen from `host`.
pub(super) fn place(host: &dyn HostRead, there: &HostIdentity) -> Place {
    let here = host.identity();
    let told = here.netns_cookie.zip(there.netns_cookie);
    if here.boot_id != there.boot_id {
        Place::EarlierBoot
    } else if told.is_some_and(|(here, there)| here == there) {
        Place::Here
    } else if told.is_some() && here.netns == there.netns {
        // Another namespace that was given the inode number of the one that is gone.
        Place::GoneNamespace
    } else if here.netns == there.netns || here.netns == 0 || there.netns == 0 {
        Place::Here
    } else if namespace_lives(host, there.netns) {
        Place::OtherNamespace
    } else {
        Place::GoneNamespace
    }
}

/// Whether a thread lives in that network namespace, or a name holds it.
fn namespace_lives(host: &dyn HostRead, inode: u64) -> bool {
    let is = |path: PathBuf| host.inode(&path).ok().map(|found| found == inode);
    let list = |path: &Path| host.list(path).unwrap_or_default();
    let named = Path::new("/run/netns");
    if list(named).iter().any(|name| is(named.join(name)) == Some(true)) {
        return true;
    }
    let mut looked = false;
    let proc = Path::new("/proc");
    for pid in list(proc).iter().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) {
        // Threads, for one thread of a process can be in another namespace than the others.
        let tasks = proc.join(pid).join("task");
        for task in list(&tasks) {
            match is(tasks.join(task).join("ns/net")) {
                Some(true) => return true,
                Some(false) => looked = true,
                None => {}
            }
        }
    }
    // Who can't see any namespace does not know.
    !looked
}
