//! A captured machine in one file (`linerate capture`, `capture.sh`): a compressed tar of the tree
//! that `--host DIR` takes, with a manifest. Held in memory; nothing is unpacked to disk.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::{DeflateDecoder, GzDecoder};
use flate2::write::DeflateEncoder;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::captured::Captured;
use super::files::{Files, Kind};
use super::tar::{self, Limits, TarError};
use super::{MAX_READ, bounded};
use crate::machine::parse::gzip;

/// Where the manifest lies in the archive.
pub const MANIFEST: &str = "manifest.json";

/// Samples are for rates and can be larger than all the rest; a machine's description needs none.
const SAMPLES: &[u8] = b"linerate/samples/";

/// A machine with 512 CPUs, 4000 interrupt lines and 512 queues has some 50 000 files; its
/// /proc/interrupts is 22 MB, and so is each sample of it.
const LIMITS: Limits = Limits { entries: 200_000, total: 512 << 20, file: MAX_READ };

/// Files from this size on are kept compressed, bytes.
const LARGE: usize = 256 << 10;

/// Deepest directory; sysfs has fewer than 30 levels.
const MAX_DEPTH: usize = 64;

/// Manifest of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`Manifest::FORMAT`].
    pub format: String,
    /// [`Manifest::VERSION`] or an older one.
    pub version: u32,
    /// Kernel release.
    pub kernel: String,
    /// Wall time, RFC 3339; routers without a clock of their own may be wrong by years.
    pub created: String,
    /// Samples of counters in it.
    pub samples: u32,
    /// The program that made it, with its version.
    #[serde(default)]
    pub made_by: String,
}

impl Manifest {
    /// Tells a capture from other archives.
    pub const FORMAT: &str = "linerate-capture";
    /// The newest version that this program reads, and the one that it writes.
    pub const VERSION: u32 = 1;
}

/// Why a capture can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file itself can't be read.
    #[error("{}", super::error::describe(*.0))]
    Read(Errno),
    /// Not compressed: no capture.
    #[error("it is not a capture (no gzip file)")]
    NotGzip,
    /// A part of the archive is unreadable.
    #[error("{0}")]
    Tar(#[from] TarError),
    /// A name that would lead out, or one that contradicts another.
    #[error("entry {0:?} has no place in a captured machine")]
    BadName(String),
    /// Another kind of archive.
    #[error("it is not a capture (no {MANIFEST} of format {format:?})", format = Manifest::FORMAT)]
    NoManifest,
    /// Made by a newer program.
    #[error("it is a capture of version {0}; this program reads up to {newest}", newest = Manifest::VERSION)]
    Newer(u32),
}

/// Opens captures.
pub struct Archive;

impl Archive {
    /// The machine captured in the file `path`.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path) -> Result<Captured, OpenError> {
        Self::from_bytes(&bounded::read(path).map_err(OpenError::Read)?)
    }

    /// The machine captured in the bytes of such a file.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn from_bytes(packed: &[u8]) -> Result<Captured, OpenError> {
        Self::within(packed, LIMITS)
    }

    fn within(packed: &[u8], limits: Limits) -> Result<Captured, OpenError> {
        if !gzip::is_packed(packed) {
            return Err(OpenError::NotGzip);
        }
        let mut memory = Memory::new(limits.entries);
        let mut reader = tar::Reader::new(GzDecoder::new(packed), limits);
        while let Some(entry) = reader.next(is_sample)? {
            let bad = || OpenError::BadName(String::from_utf8_lossy(&entry.name).into_owned());
            let path = machine_path(&entry.name).ok_or_else(bad)?;
            let node = match entry.kind {
                tar::Kind::File(_) if is_sample(&entry.name) => continue,
                tar::Kind::File(content) if content.len() >= LARGE => Node::packed(&content),
                tar::Kind::File(content) => Node::File(content),
                tar::Kind::Directory => Node::Directory(Vec::new()),
                tar::Kind::Link(target) => Node::Link(PathBuf::from(OsStr::from_bytes(&target))),
                tar::Kind::Other => Node::Other,
            };
            match memory.insert(path, node) {
                Ok(()) => {}
                Err(Refused::Contradiction) => return Err(bad()),
                Err(Refused::TooMany) => return Err(TarError::TooMuch("directories").into()),
            }
        }
        reader.finish()?;
        check_manifest(&memory)?;
        Ok(Captured::new(Box::new(memory)))
    }
}

fn is_sample(name: &[u8]) -> bool {
    name.strip_prefix(b"./").unwrap_or(name).starts_with(SAMPLES)
}

/// Only the version is needed to say that a capture is too new: the rest may have changed.
fn check_manifest(memory: &Memory) -> Result<(), OpenError> {
    #[derive(Deserialize)]
    struct Header {
        format: String,
        version: u32,
    }
    let json = memory.read(&Path::new("/").join(MANIFEST)).map_err(|_| OpenError::NoManifest)?;
    let header: Header = serde_json::from_slice(&json).map_err(|_| OpenError::NoManifest)?;
    if header.format != Manifest::FORMAT || header.version == 0 {
        return Err(OpenError::NoManifest);
    }
    if header.version > Manifest::VERSION {
        return Err(OpenError::Newer(header.version));
    }
    Ok(())
}

/// `./proc/stat` and `proc/stat` as `/proc/stat`; `None` for a name that is absolute, goes up, or
/// is absurd.
fn machine_path(name: &[u8]) -> Option<Vec<u8>> {
    if name.is_empty() || name.starts_with(b"/") || name.len() > 4096 {
        return None;
    }
    let mut path = Vec::with_capacity(name.len() + 1);
    let mut depth = 1;
    for part in name.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return None,
            name => {
                path.push(b'/');
                path.extend(name);
                depth += 1;
            }
        }
    }
    if path.is_empty() {
        path.push(b'/');
    }
    (depth <= MAX_DEPTH).then_some(path)
}

/// The directory above a path, and its name there; `None` of the root.
fn above(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|b| *b == b'/')?;
    let name = path.get(slash + 1..).filter(|name| !name.is_empty())?;
    Some((path.get(..slash.max(1))?, name))
}

/// Files in memory by the bytes of their path: a [`Path`] is hashed and compared part by part.
struct Memory {
    nodes: HashMap<Vec<u8>, Node>,
    most: usize,
}

enum Node {
    File(Vec<u8>),
    /// A large one, compressed: tables of numbers become a twentieth, and most are read once.
    Packed {
        content: Vec<u8>,
        length: usize,
    },
    Directory(Vec<OsString>),
    Link(PathBuf),
    Other,
}

impl Node {
    fn packed(plain: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        match encoder.write_all(plain).and_then(|()| encoder.finish()) {
            Ok(content) => Self::Packed { content, length: plain.len() },
            // Memory takes anything; if not, it stays as it is.
            Err(_) => Self::File(plain.to_vec()),
        }
    }
}

fn unpacked(content: &[u8], length: usize) -> Result<Vec<u8>, Errno> {
    let mut plain = Vec::with_capacity(length);
    DeflateDecoder::new(content).read_to_end(&mut plain).map_err(|_| Errno::IO)?;
    Ok(plain)
}

enum Refused {
    /// Something below a file or a link, or a directory in place of one.
    Contradiction,
    /// More directories than entries allow.
    TooMany,
}

impl Memory {
    fn new(most: usize) -> Self {
        let nodes = HashMap::from([(b"/".to_vec(), Node::Directory(Vec::new()))]);
        Self { nodes, most }
    }

    fn get(&self, path: &Path) -> Option<&Node> {
        self.nodes.get(path.as_os_str().as_bytes())
    }

    /// Puts `node` at `path`, with the directories above it. A second file of a name replaces the
    /// first, as tar has it.
    fn insert(&mut self, path: Vec<u8>, node: Node) -> Result<(), Refused> {
        match (self.nodes.get_mut(&path), node) {
            (Some(Node::Directory(_)), Node::Directory(_)) => return Ok(()),
            (Some(Node::Directory(_)), _) | (Some(_), Node::Directory(_)) => {
                return Err(Refused::Contradiction);
            }
            (Some(there), node) => *there = node,
            (None, node) => {
                self.hang(&path)?;
                self.nodes.insert(path, node);
            }
        }
        Ok(())
    }

    /// Names a new path in the directory above it, made where it is missing.
    fn hang(&mut self, mut path: &[u8]) -> Result<(), Refused> {
        // The path itself is not among them yet.
        let mut more = 1;
        loop {
            if self.nodes.len() + more > self.most {
                return Err(Refused::TooMany);
            }
            let Some((directory, name)) = above(path) else { return Ok(()) };
            let name = OsStr::from_bytes(name).to_owned();
            match self.nodes.get_mut(directory) {
                Some(Node::Directory(names)) => {
                    names.push(name);
                    return Ok(());
                }
                Some(_) => return Err(Refused::Contradiction),
                None => {
                    self.nodes.insert(directory.to_vec(), Node::Directory(vec![name]));
                    more = 0;
                    path = directory;
                }
            }
        }
    }
}

impl Files for Memory {
    fn kind(&self, path: &Path) -> Result<Kind, Errno> {
        match self.get(path) {
            Some(Node::File(_) | Node::Packed { .. }) => Ok(Kind::File),
            Some(Node::Directory(_)) => Ok(Kind::Directory),
            Some(Node::Link(target)) => Ok(Kind::Link(target.clone())),
            Some(Node::Other) => Ok(Kind::Other),
            None => match path.parent().and_then(|above| self.get(above)) {
                Some(Node::File(_) | Node::Packed { .. } | Node::Other) => Err(Errno::NOTDIR),
                _ => Err(Errno::NOENT),
            },
        }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Errno> {
        match self.get(path) {
            Some(Node::File(content)) => Ok(content.clone()),
            Some(Node::Packed { content, length }) => unpacked(content, *length),
            Some(Node::Directory(_)) => Err(Errno::ISDIR),
            Some(_) => Err(Errno::INVAL),
            None => Err(Errno::NOENT),
        }
    }

    fn names(&self, path: &Path) -> Result<Vec<String>, Errno> {
        match self.get(path) {
            Some(Node::Directory(names)) => {
                Ok(names.iter().map(|n| n.to_string_lossy().into_owned()).collect())
            }
            Some(_) => Err(Errno::NOTDIR),
            None => Err(Errno::NOENT),
        }
    }
}
