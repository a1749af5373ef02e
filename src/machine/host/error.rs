//! Answers of the kernel, with the operation and the path.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A failed operation on the system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {}: {}", path.display(), describe(*errno))]
pub struct HostError {
    /// `read`, `write`, `list`, `resolve`, `ethtool`, ...
    pub operation: &'static str,
    /// The file, or the device for netlink queries.
    pub path: PathBuf,
    /// The kernel's answer.
    pub errno: Errno,
}

/// Result of an operation on the system.
pub type HostResult<T> = Result<T, HostError>;

impl HostError {
    /// From an I/O error; one that carries no kernel answer counts as EIO.
    #[must_use]
    pub fn from_io(operation: &'static str, path: &Path, error: &io::Error) -> Self {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        Self { operation, path: path.to_owned(), errno }
    }

    /// From a kernel answer.
    #[must_use]
    pub fn new(operation: &'static str, path: &Path, errno: Errno) -> Self {
        Self { operation, path: path.to_owned(), errno }
    }

    /// True if the thing does not exist (no such file, device or attribute).
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.errno, Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::NOTDIR)
    }

    /// True if a permission is missing.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self.errno, Errno::ACCESS | Errno::PERM)
    }

    /// The kernel's answer in words, without the path.
    #[must_use]
    pub fn reason(&self) -> String {
        describe(self.errno)
    }
}

pub(super) fn describe(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}
