//! Whereabouts of a journal's settings: this boot and namespace, or one that may be gone. In comes
//! the identity that the journal has; out comes where that is, seen from here; only names and
//! inodes of namespaces are read.

use std::path::{Path, PathBuf};

use crate::machine::host::HostRead;
use crate::model::identity::HostIdentity;

/// Whereabouts of the settings of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// Here.
    Here,
    /// The change was made in an earlier boot: gone.
    EarlierBoot,
    /// The change was made in a network namespace that is gone, and its devices with it.
    GoneNamespace,
    /// The change was made in another network namespace that still exists.
    OtherNamespace,
}

/// Finds the settings that were made on `there`, seen from `host`.
pub(super) fn place(host: &dyn HostRead, there: &HostIdentity) -> Whereabouts {
    let here = host.identity();
    let told = here.netns_cookie.zip(there.netns_cookie);
    if here.boot_id != there.boot_id {
        Whereabouts::EarlierBoot
    } else if told.is_some_and(|(here, there)| here == there) {
        Whereabouts::Here
    } else if told.is_some() && here.netns == there.netns {
        // Another namespace that was given the inode number of the one that is gone.
        Whereabouts::GoneNamespace
    } else if here.netns == there.netns || here.netns == 0 || there.netns == 0 {
        Whereabouts::Here
    } else if namespace_lives(host, there.netns) {
        Whereabouts::OtherNamespace
    } else {
        Whereabouts::GoneNamespace
    }
}

/// True where a thread lives in that network namespace, or a name holds it.
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
