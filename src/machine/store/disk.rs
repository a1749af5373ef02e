//! Ordinary files on the router's flash, below a root that tests and image builders may choose.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Size limit, in bytes, of a file that is replaced or copied.
const MAX_LENGTH: u64 = 1 << 20;

/// Object under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Thing {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// Bytes.
        content: Content,
    },
    /// A symbolic link to this path.
    Link(String),
}

impl Thing {
    /// A file of text.
    #[must_use]
    pub fn text(mode: u32, text: impl Into<String>) -> Self {
        Self::File { mode, content: Content::Text(text.into()) }
    }

    /// The text of a file; `None` for anything else.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::File { content: Content::Text(text), .. } => Some(text),
            _ => None,
        }
    }
}

/// The bytes of a file: as text where they are text, for whoever reads a record of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Content {
    fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|e| Self::Bytes(e.into_bytes()), Self::Text)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Operations that changing files comes down to; each is one that can fail or be the last. Paths
/// are those of the router (`/etc/...`).
pub trait Disk: Send + Sync {
    /// Looks at `path`; a path below a missing directory is absent.
    ///
    /// # Errors
    /// Fails with the file system's error; unsupported for a directory, a pipe and the like.
    fn look(&self, path: &Path) -> io::Result<Thing>;
    /// Makes something new, its bytes on the disk when this returns. Does nothing for
    /// [`Thing::Absent`].
    ///
    /// # Errors
    /// Fails with the file system's error; already exists.
    fn create(&self, path: &Path, thing: &Thing) -> io::Result<()>;
    /// Gives a file or link another name, replacing the one that has that name.
    ///
    /// # Errors
    /// Fails with the file system's error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or link.
    ///
    /// # Errors
    /// Fails with the file system's error.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// True if the path is that of a directory.
    fn is_directory(&self, path: &Path) -> bool;
    /// Makes one directory.
    ///
    /// # Errors
    /// Fails with the file system's error.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    ///
    /// # Errors
    /// Fails with the file system's error.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory safe against a power cut.
    ///
    /// # Errors
    /// Fails with the file system's error.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The router's files below a directory that stands for `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    root: PathBuf,
}

/// Names another root than `/` for what `persist` writes: for images and tests.
pub const ROOT_VARIABLE: &str = "LINERATE_ROOT_DIR";

impl Root {
    /// The root `/`, or the one that `LINERATE_ROOT_DIR` names.
    #[must_use]
    pub fn of_environment() -> Self {
        let named = std::env::var_os(ROOT_VARIABLE).filter(|value| !value.is_empty());
        Self::at(named.map_or_else(|| PathBuf::from("/"), PathBuf::from))
    }

    /// The directory that stands for `/`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// True if the root is `/` itself: then its files are in force here.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Path on this machine of a path of the router's.
    #[must_use]
    pub fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Disk for Root {
    fn look(&self, path: &Path) -> io::Result<Thing> {
        let path = self.path(path);
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Thing::Absent),
            Err(e) => return Err(e),
        };
        if meta.is_symlink() {
            let target = fs::read_link(&path)?.into_os_string();
            let target = target.into_string().map_err(|_| io::ErrorKind::InvalidData)?;
            return Ok(Thing::Link(target));
        }
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is no regular file"));
        }
        let mut bytes = Vec::new();
        File::open(&path)?.take(MAX_LENGTH + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_LENGTH {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is far too long"));
        }
        Ok(Thing::File { mode: meta.permissions().mode() & 0o7777, content: Content::of(bytes) })
    }

    fn create(&self, path: &Path, thing: &Thing) -> io::Result<()> {
        let path = self.path(path);
        match thing {
            Thing::Absent => Ok(()),
            Thing::Link(target) => symlink(target, &path),
            Thing::File { mode, content } => {
                let mut options = fs::OpenOptions::new();
                let mut file = options.write(true).create_new(true).mode(*mode).open(&path)?;
                // Whatever the umask of the caller is.
                file.set_permissions(fs::Permissions::from_mode(*mode))?;
                file.write_all(content.bytes())?;
                file.sync_all()
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.path(path).is_dir()
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o755).create(self.path(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(self.path(path))?.sync_all()
    }
}

/// A disk that fails, or whose process dies, at the operation of a given number.
#[cfg(test)]
pub(crate) mod faulty {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Kind of fault.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Fault {
        /// The operation fails once and does nothing.
        Once(io::ErrorKind),
        /// From this operation on there is no more room than what is removed gives back.
        Full,
        /// From this operation on nothing reaches the disk: killed before it.
        Killed,
        /// The file is there, in part: the power went in the middle of writing it.
        Torn,
    }

    pub(crate) struct FaultyDisk {
        pub(crate) root: Root,
        at: usize,
        fault: Fault,
        count: AtomicUsize,
        /// Bytes that were given back since the disk is full.
        room: AtomicUsize,
    }

    impl FaultyDisk {
        pub(crate) fn new(root: Root, at: usize, fault: Fault) -> Self {
            let (count, room) = Default::default();
            Self { root, at, fault, count, room }
        }

        /// Number of operations tried that change something.
        pub(crate) fn count(&self) -> usize {
            self.count.load(Ordering::Relaxed)
        }

        /// `bytes` are those that it takes, if it is something that takes any.
        fn step(&self, bytes: Option<usize>) -> io::Result<()> {
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            match self.fault {
                Fault::Once(kind) if number == self.at => Err(kind.into()),
                Fault::Full if number >= self.at => {
                    let left = self.room.load(Ordering::Relaxed).checked_sub(bytes.unwrap_or(0));
                    let left = left.ok_or(io::ErrorKind::StorageFull)?;
                    self.room.store(left, Ordering::Relaxed);
                    Ok(())
                }
                Fault::Killed | Fault::Torn if number >= self.at => {
                    Err(io::ErrorKind::Interrupted.into())
                }
                _ => Ok(()),
            }
        }
    }

    impl Disk for FaultyDisk {
        fn look(&self, path: &Path) -> io::Result<Thing> {
            self.root.look(path)
        }
        fn create(&self, path: &Path, thing: &Thing) -> io::Result<()> {
            let bytes = match thing {
                Thing::File { content, .. } => content.bytes().len() + 1,
                _ => 1,
            };
            if let Err(e) = self.step(Some(bytes)) {
                if self.fault == Fault::Torn && self.count() == self.at + 1 {
                    let torn = match thing {
                        Thing::File { mode, content } => Thing::File {
                            mode: *mode,
                            content: Content::of(
                                content.bytes()[..content.bytes().len() / 2].to_vec(),
                            ),
                        },
                        other => other.clone(),
                    };
                    self.root.create(path, &torn)?;
                }
                return Err(e);
            }
            self.root.create(path, thing)
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.step(None)?;
            self.root.rename(from, to)
        }
        fn remove(&self, path: &Path) -> io::Result<()> {
            self.step(None)?;
            let freed = match self.root.look(path) {
                Ok(Thing::File { content, .. }) => content.bytes().len(),
                _ => 0,
            };
            self.root.remove(path)?;
            let full = self.count() > self.at;
            self.room.fetch_add(if full { freed } else { 0 }, Ordering::Relaxed);
            Ok(())
        }
        fn is_directory(&self, path: &Path) -> bool {
            self.root.is_directory(path)
        }
        fn make_directory(&self, path: &Path) -> io::Result<()> {
            self.step(Some(1))?;
            self.root.make_directory(path)
        }
        fn remove_directory(&self, path: &Path) -> io::Result<()> {
            self.step(None)?;
            self.root.remove_directory(path)
        }
        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            self.step(None)?;
            self.root.sync_directory(path)
        }
    }
}
