//! A place for other people's programs to run in and leave nothing behind.
//!
//! Directories are covered by empty ones in memory, so that neither the machine's own configuration
//! is used (hook scripts of its pppd would run for ours) nor anything is written to it. The first
//! program started is the init of a PID namespace: with it the kernel ends all that it has started,
//! however it ends (pid_namespace.c, zap_pid_ns_processes).

#![expect(clippy::disallowed_methods, reason = "files in a directory that only our programs see")]

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::thread::UnshareFlags;

/// The view of the system that programs get.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    /// Directories that are empty there; those that do not exist are passed over.
    pub covered: Vec<PathBuf>,
    /// Files in them, with their content.
    pub files: Vec<(PathBuf, String)>,
    /// Symbolic links in them, and where they lead.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Sockets that lead nowhere there, such as the system log's.
    pub mute: Vec<PathBuf>,
}

impl Sandbox {
    /// Puts the calling thread into it; its mounts must be its own already. It can start one
    /// program then, and no thread.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN; what mounting or writing answered.
    pub fn enter(&self) -> io::Result<()> {
        for socket in &self.mute {
            if socket.exists() {
                mount_bind("/dev/null", socket)?;
            }
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        for directory in &self.covered {
            // Through links: /var/run mostly leads to /run.
            if let Ok(directory) = fs::canonicalize(directory) {
                mount("tmpfs", &directory, "tmpfs", flags, None::<&std::ffi::CStr>)?;
            }
        }
        let parent = |path: &PathBuf| path.parent().map_or(Ok(()), fs::create_dir_all);
        for (path, content) in &self.files {
            parent(path)?;
            fs::write(path, content)?;
        }
        for (path, target) in &self.links {
            parent(path)?;
            std::os::unix::fs::symlink(target, path)?;
        }
        #[expect(unsafe_code, reason = "unshare(2) of this thread alone")]
        // SAFETY: NEWPID changes nothing for this process itself, only where children appear.
        unsafe {
            rustix::thread::unshare_unsafe(UnshareFlags::NEWPID)?;
        }
        Ok(())
    }
}
