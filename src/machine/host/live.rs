//! This machine, seen from the calling process or from inside one network namespace.

#![expect(clippy::disallowed_methods, reason = "the door to the system")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::{Contents, HostError, HostRead, HostResult, HostWrite, Query, Setting, bounded, query};
use crate::machine::sys::fd;
use crate::machine::sys::monitor::Monitor;
use crate::machine::sys::netns::NetnsThread;
use crate::machine::sys::socket;
use crate::model::identity::HostIdentity;

/// The running system. In a network namespace every operation runs on that namespace's thread,
/// which has its own /sys: the same code serves a lab's router and a real one.
#[derive(Clone, Default)]
pub struct Live {
    netns: Option<Arc<NetnsThread>>,
}

impl Live {
    /// The system as the calling process sees it.
    #[must_use]
    pub fn here() -> Self {
        Self { netns: None }
    }

    /// The system as seen from inside a network namespace.
    #[must_use]
    pub fn in_netns(netns: Arc<NetnsThread>) -> Self {
        Self { netns: Some(netns) }
    }

    /// Listens to what changes the set-up of its network.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn monitor(&self) -> HostResult<Monitor> {
        self.run("listen", Path::new("netlink"), |path| {
            Monitor::open().map_err(|e| HostError::from_io("listen", path, &e))
        })
    }

    /// State of its network that is in no file.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn contents(&self) -> HostResult<Contents> {
        self.run("query", Path::new("netlink"), |path| {
            Contents::read().map_err(|e| HostError::from_io("query", path, &e))
        })
    }

    fn check_reach(&self, operation: &'static str, setting: &Setting) -> HostResult<()> {
        if self.netns.is_some() && setting.is_of_the_machine() {
            return Err(HostError::new(operation, &setting.address(), Errno::NOENT));
        }
        Ok(())
    }

    fn as_seen(&self, setting: Setting) -> Setting {
        if self.netns.is_some() { setting.inside() } else { setting }
    }

    fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &Path,
        job: impl FnOnce(&Path) -> HostResult<T> + Send + 'static,
    ) -> HostResult<T> {
        match &self.netns {
            None => job(path),
            Some(netns) => {
                let owned = path.to_owned();
                netns
                    .run(move || job(&owned))
                    .unwrap_or_else(|_gone| Err(HostError::new(operation, path, Errno::SRCH)))
            }
        }
    }
}

impl HostRead for Live {
    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        if let Some(setting) = Setting::at(path) {
            self.check_reach("read", &setting)?;
            return self.as_seen(setting).read(self);
        }
        self.run("read", path, |path| {
            bounded::read(path).map_err(|errno| HostError::new("read", path, errno))
        })
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        self.run("list", path, |path| {
            bounded::names(path).map_err(|errno| HostError::new("list", path, errno))
        })
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        self.run("resolve", path, |path| {
            fs::canonicalize(path).map_err(|e| HostError::from_io("resolve", path, &e))
        })
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        let asked = query.clone();
        self.run("query", Path::new(&query.name()), move |_| query::live(&asked))
    }

    fn arch(&self) -> String {
        rustix::system::uname().machine().to_string_lossy().into_owned()
    }

    fn identity(&self) -> HostIdentity {
        let boot_id = self.text(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
        let netns = self.inode(Path::new("/proc/thread-self/ns/net")).unwrap_or(0);
        let cookie = self.run("query", Path::new("SO_NETNS_COOKIE"), |path| {
            socket::netns_cookie().map_err(|e| HostError::from_io("query", path, &e))
        });
        HostIdentity { boot_id, netns, netns_cookie: cookie.ok().filter(|n| *n != 0) }
    }

    fn inode(&self, path: &Path) -> HostResult<u64> {
        self.run("resolve", path, |path| {
            use std::os::unix::fs::MetadataExt;
            let found = fs::metadata(path);
            found.map(|m| m.ino()).map_err(|e| HostError::from_io("resolve", path, &e))
        })
    }
}

impl HostWrite for Live {
    fn write(&self, path: &Path, value: &[u8]) -> HostResult<()> {
        let value = value.to_owned();
        if let Some(setting) = Setting::at(path) {
            self.check_reach("write", &setting)?;
            let setting = self.as_seen(setting);
            // On the namespace's thread, which sees what is in it.
            let here = Self::here();
            return self.run("write", path, move |_| setting.write(&here, &value));
        }
        self.run("write", path, move |path| {
            let fail = |e: &std::io::Error| HostError::from_io("write", path, e);
            let mut file = fs::OpenOptions::new().write(true).open(path).map_err(|e| fail(&e))?;
            let written = file.write(&value).map_err(|e| fail(&e))?;
            if written != value.len() {
                return Err(HostError::new("write", path, Errno::IO));
            }
            // Closing can fail too; `File`'s drop would swallow that.
            fd::close(file).map_err(|e| fail(&e))
        })
    }
}
