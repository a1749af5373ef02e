//! A captured machine as a directory: `DIR/proc`, `DIR/sys`, `DIR/etc` as they were there.
//!
//! Links resolve inside the directory, absolute ones too, and never leave it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::captured::Captured;
use super::files::{Files, Kind};
use super::{HostError, HostResult, bounded};

/// Opens directories that stand for a machine.
pub struct Tree;

impl Tree {
    /// The machine captured in `root`.
    ///
    /// # Errors
    /// When `root` is not a directory with a `proc` or `sys` in it.
    pub fn open(root: &Path) -> HostResult<Captured> {
        let fail = |errno| HostError::new("open", root, errno);
        let meta = fs::metadata(root).map_err(|e| HostError::from_io("open", root, &e))?;
        if !meta.is_dir() {
            return Err(fail(Errno::NOTDIR));
        }
        if !root.join("proc").is_dir() && !root.join("sys").is_dir() {
            return Err(fail(Errno::NOENT));
        }
        Ok(Captured::new(Box::new(Directory { root: root.to_owned() })))
    }
}

struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Where a link-free machine path lies on this machine.
    fn outside(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Files for Directory {
    fn kind(&self, path: &Path) -> Result<Kind, Errno> {
        let outside = self.outside(path);
        let kind = fs::symlink_metadata(&outside).map_err(|e| errno(&e))?.file_type();
        Ok(if kind.is_symlink() {
            Kind::Link(fs::read_link(&outside).map_err(|e| errno(&e))?)
        } else if kind.is_dir() {
            Kind::Directory
        } else if kind.is_file() {
            Kind::File
        } else {
            Kind::Other
        })
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Errno> {
        bounded::read(&self.outside(path))
    }

    fn names(&self, path: &Path) -> Result<Vec<String>, Errno> {
        bounded::names(&self.outside(path))
    }
}
