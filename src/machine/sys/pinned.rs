//! Network namespaces with a name, kept where `ip netns` keeps them: a bind mount on a file in
//! /run/netns (ip-netns(8)).

#![expect(clippy::disallowed_methods, reason = "handles of namespaces, not settings")]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::model::order::InOrder;

/// Where named network namespaces live.
pub const DIRECTORY: &str = "/run/netns";

/// Keeps a network namespace under `name`, also when nobody uses it any more.
///
/// # Errors
/// EEXIST for a name that is taken; EPERM without CAP_SYS_ADMIN; EROFS and the like.
pub fn pin(netns: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    match rustix::fs::mkdir(DIRECTORY, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(e.into()),
    }
    let path = Path::new(DIRECTORY).join(name);
    fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    // The namespace may belong to a thread in another mount namespace; its descriptor is ours.
    mount_bind(format!("/proc/self/fd/{}", netns.as_raw_fd()), &path)?;
    Ok(())
}

/// Gives up a name; whether there was one. A file on which nothing is mounted (left by a crash
/// between the two steps of [`pin`]) goes too.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; EROFS and the like.
pub fn unpin(name: &str) -> io::Result<bool> {
    let path = Path::new(DIRECTORY).join(name);
    match unmount(&path, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
        Err(e) => return Err(e.into()),
    }
    // This also takes the mount out of mount namespaces that copied it (detach_mounts).
    fs::remove_file(&path)?;
    // An empty directory is of use to nobody; one that is a mount of `ip netns` is busy.
    match rustix::fs::rmdir(DIRECTORY) {
        Ok(()) | Err(Errno::NOTEMPTY | Errno::BUSY | Errno::EXIST | Errno::NOENT) => {}
        Err(e) => log::debug!("{DIRECTORY} stays: {e}"),
    }
    Ok(true)
}

/// The names in use, sorted.
///
/// # Errors
/// What the kernel answered; a missing directory is an empty list.
pub fn names() -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(DIRECTORY) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.order_by(Ord::cmp);
    Ok(names)
}
