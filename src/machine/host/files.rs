//! Where the files of a captured machine come from: a directory, an archive, either with links as text.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The node that a path without links leads to.
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, with where it points.
    Link(PathBuf),
    /// A pipe, a device, ...: never opened.
    Other,
}

/// Captured files; every path is a machine path without links in its directories.
pub(super) trait Files: Send + Sync {
    /// The node there.
    fn kind(&self, path: &Path) -> Result<Kind, Errno>;
    /// The content of a regular file.
    fn read(&self, path: &Path) -> Result<Vec<u8>, Errno>;
    /// The names in a directory.
    fn names(&self, path: &Path) -> Result<Vec<String>, Errno>;
}
