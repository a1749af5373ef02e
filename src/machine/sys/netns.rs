//! A thread that lives in a network namespace of its own and runs jobs there.
//!
//! The namespace is held by nothing but this thread (and the sockets opened in it): when the
//! process ends, however it ends, the kernel removes the namespace and every device in it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

type Job = Box<dyn FnOnce() + Send>;

/// The thread of a namespace is gone (it ended with the process's last use of it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the network namespace's thread is gone")]
pub struct Gone;

/// A thread inside a network namespace, with that namespace's /sys mounted for it alone.
pub struct NetnsThread {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Option<JoinHandle<()>>,
    netns: OwnedFd,
}

impl NetnsThread {
    /// A new, empty network namespace.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN; ENOSPC or EINVAL where namespaces are limited or missing.
    pub fn create() -> io::Result<Self> {
        Self::start(None, || Ok(()))
    }

    /// A second thread in the same network namespace, with mounts of its own. `prepare` runs on it
    /// before anything else: what it mounts or unshares holds for this thread and the programs
    /// started on it.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN; what `prepare` answered.
    pub fn beside(
        &self,
        prepare: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        Self::start(Some(self.netns.try_clone()?), prepare)
    }

    /// An existing network namespace, by its file (e.g. `/run/netns/NAME`).
    ///
    /// # Errors
    /// ENOENT when there is none; EPERM without CAP_SYS_ADMIN; EINVAL for another kind of file.
    #[expect(clippy::disallowed_methods, reason = "a namespace handle, not a setting")]
    pub fn enter(file: &Path) -> io::Result<Self> {
        Self::start(Some(File::open(file)?.into()), || Ok(()))
    }

    fn start(
        existing: Option<OwnedFd>,
        prepare: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        let (ready, started) = channel::<io::Result<OwnedFd>>();
        let thread = std::thread::Builder::new().name("netns".into()).spawn(move || {
            let here = move_in(existing).and_then(|netns| prepare().map(|()| netns));
            let go = here.is_ok();
            if ready.send(here).is_ok() && go {
                todo.iter().for_each(|job| job());
            }
        })?;
        let netns = started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Some(thread), netns })
    }

    /// Runs `job` in the namespace and waits for its result.
    ///
    /// # Errors
    /// [`Gone`] when the thread has ended (a job panicked).
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Gone> {
        let (give, take) = channel();
        let jobs = self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        jobs.ok_or(Gone)?
            .send(Box::new(move || {
                // The receiver only goes away with the caller's thread.
                drop(give.send(job()));
            }))
            .map_err(|_| Gone)?;
        take.recv().map_err(|_| Gone)
    }
}

/// The namespace itself.
impl AsFd for NetnsThread {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netns.as_fd()
    }
}

impl Drop for NetnsThread {
    fn drop(&mut self) {
        // Closing the queue ends the thread.
        self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::warn!("a network namespace's thread panicked");
        }
    }
}

/// Moves the calling thread into `existing` or a new network namespace, and gives it a /sys of
/// that namespace in a mount namespace of its own.
#[expect(clippy::disallowed_methods, reason = "a namespace handle, not a setting")]
fn move_in(existing: Option<OwnedFd>) -> io::Result<OwnedFd> {
    let flags = if existing.is_some() {
        UnshareFlags::NEWNS
    } else {
        UnshareFlags::NEWNS | UnshareFlags::NEWNET
    };
    #[expect(unsafe_code, reason = "unshare(2) of this thread alone")]
    // SAFETY: no flag used here (NEWNS, NEWNET; NEWNS implies FS) unshares the file table, so no
    // descriptor that another thread relies on changes its meaning.
    unsafe {
        rustix::thread::unshare_unsafe(flags)?;
    }
    if let Some(netns) = &existing {
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    own_sys().map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => e,
        _ => io::Error::other(format!("mount a /sys of its own: {e}")),
    })?;
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Mounts the namespace's /sys over the machine's, for this thread alone.
fn own_sys() -> io::Result<()> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    // Without this the new /sys would show up for the whole machine where mounts are shared
    // (systemd). In a chroot / is no mount point (EINVAL), but /sys is one, and what is mounted over
    // it spreads by its own setting.
    mount_change("/", private).or_else(|_| mount_change("/sys", private))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("sysfs", "/sys", "sysfs", flags, None::<&std::ffi::CStr>)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_has_its_own_sys_and_ours_stays() {
        let before = names();
        let Ok(netns) = NetnsThread::create() else {
            crate::skip!("network namespaces need root");
        };
        assert_eq!(netns.run(names).unwrap(), ["lo"]);
        assert_eq!(names(), before);
    }

    fn names() -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir("/sys/class/net")
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}
