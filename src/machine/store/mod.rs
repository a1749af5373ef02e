//! Our own files: the state directory with its lock and journals, and the formats of plans and
//! results. In come paths, bytes and values to keep; out go files and the values read from them, or
//! an error with its path. Nothing may be touched but the state directory, files that the user
//! named with those beside them, and the files below a [`disk::Root`] that `persist` writes.
//!
//! ```text
//!   /run/linerate/            mode 0755; made on demand, removed when empty
//!     lock                    who is changing settings right now (flock); its owner's alone
//!     journal-0001 ...        what was changed, to what, from what: oldest first
//!     damaged-0001 ...        a journal that can't be undone from, kept for a person
//!     deadman.json            the change that waits to be confirmed
//!     undone.json             the last one that nobody confirmed
//!     watch.json              the watch that runs
//! ```
//!
//! Runtime settings vanish with the boot, and so does /run: journals need no better place.
//! `LINERATE_STATE_DIR` names another directory.

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

pub mod bisect;
pub mod board;
mod check;
pub mod copies;
mod damaged;
pub mod deadman;
pub mod disk;
pub mod fleet;
pub mod journal;
pub mod json;
pub mod labs;
pub(crate) mod lines;
mod lock;
pub mod measured;
pub mod plan;
#[cfg(feature = "top")]
pub mod recording;
pub mod result;
pub mod swap;
pub mod unfinished;
pub mod watch;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

pub use damaged::Damaged;
pub use lines::Lines;
pub use lock::{Lock, LockRefused};

use crate::error::{Error, ExitCode, Result, words};

/// Names another state directory than `/run/linerate`.
pub const STATE_DIR_VARIABLE: &str = "LINERATE_STATE_DIR";

const STATE_DIR: &str = "/run/linerate";

/// Directory in which this program remembers what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
}

/// The state directory of this machine: `/run/linerate`, or the one that `LINERATE_STATE_DIR`
/// names.
#[must_use]
pub fn state_dir() -> StateDir {
    let named = std::env::var_os(STATE_DIR_VARIABLE).filter(|value| !value.is_empty());
    StateDir::at(named.map_or_else(|| PathBuf::from(STATE_DIR), PathBuf::from))
}

impl StateDir {
    /// A state directory at `path`. Nothing is made yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory where it is missing, and makes sure that nobody else can write to it:
    /// its files decide what root writes when something is rolled back.
    fn create(&self) -> Result<()> {
        match fs::DirBuilder::new().mode(0o755).create(&self.path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(self.refused("make", &self.path, &e)),
        }
        self.check_private().map(drop)
    }

    /// True if the directory exists.
    ///
    /// # Errors
    /// An error if something else has its name, or others can write to it.
    fn check_private(&self) -> Result<bool> {
        let meta = match fs::metadata(&self.path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(self.refused("read", &self.path, &e)),
        };
        let what = format!("use state directory {}", self.path.display());
        if !meta.is_dir() {
            return Err(Error::usage(what, "it is not a directory")
                .hint(format!("{STATE_DIR_VARIABLE} names another place for it")));
        }
        let own = rustix::process::geteuid().as_raw();
        if (meta.uid() != own && meta.uid() != 0) || meta.mode() & 0o022 != 0 {
            return Err(Error::not_permitted(what, "others than its user can write to it").hint(
                format!(
                    "what lies in it decides what a rollback writes; chmod 700 it, or name \
                     another directory with {STATE_DIR_VARIABLE}"
                ),
            ));
        }
        Ok(true)
    }

    /// An error of our own files, with a remedy.
    fn refused(&self, verb: &str, path: &Path, error: &io::Error) -> Error {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "run it as root".to_owned(),
            io::ErrorKind::StorageFull => format!("free some space on {}", self.path.display()),
            _ => format!("{STATE_DIR_VARIABLE} names another place for the state directory"),
        };
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => ExitCode::NotPermitted,
            _ => ExitCode::NotSupported,
        };
        Error::new(code, format!("{verb} {}", path.display()), words(error)).hint(hint)
    }
}

/// Writes a file that the user named: all of it or, whatever happens, the old content stays. `kind`
/// is the word for it in errors (`plan`, `result`, `report`). A file that is not regular
/// (/dev/stdout, a pipe) is written straight through.
///
/// # Errors
/// A usage error (exit 2) with the path and why; not permitted (exit 4).
pub fn write_file(kind: &str, path: &Path, content: &[u8]) -> Result<()> {
    write_with(kind, path, content, 0o644)
}

/// As [`write_file`], of what is nobody else's business: a new file is for its owner alone.
///
/// # Errors
/// As [`write_file`].
pub fn write_private(kind: &str, path: &Path, content: &[u8]) -> Result<()> {
    write_with(kind, path, content, 0o600)
}

fn write_with(kind: &str, path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let failed = |e: io::Error| {
        self::failed(format!("write {kind} {}", path.display()), &e)
            .hint("name another file with -o")
    };
    match straight(path).map_err(failed)? {
        Some(mut file) => file.write_all(content).map_err(failed),
        None if path.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
        None => replace(path, content, mode).map_err(failed),
    }
}

/// An error of a file that the user named, or that lies beside one.
fn failed(what: String, error: &io::Error) -> Error {
    Error::new(code_of(error), what, words(error))
}

/// The exit code of an error of a file that the user named: usage only where the name is to blame.
fn code_of(error: &io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ExitCode::NotPermitted,
        io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::FileTooLarge
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::StaleNetworkFileHandle
        | io::ErrorKind::Other => ExitCode::NotSupported,
        _ => ExitCode::Usage,
    }
}

/// A file that is not regular (/dev/stdout, a pipe), opened to be written straight through; `None` for
/// any other path. One that became a regular file meanwhile is refused.
fn straight(path: &Path) -> io::Result<Option<File>> {
    if !fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return Ok(None);
    }
    let file = fs::OpenOptions::new().write(true).open(path)?;
    if file.metadata()?.is_file() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(Some(file))
}

/// Content of a file that the user named, of at most `most` bytes; `kind` is the word for it in
/// errors.
///
/// # Errors
/// A usage error (exit 2) if it can't be read or is longer; not permitted (exit 4).
pub fn read_file(kind: &str, path: &Path, most: u64, hint: &str) -> Result<Vec<u8>> {
    read_from(Source::Any, kind, path, most, hint)
}

/// Demands on a file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// None: also a pipe or a device.
    Any,
    /// A regular file.
    Regular,
    /// A regular file that nobody but its owner can read.
    Secret,
}

/// As [`read_file`], of a file that meets the demands.
///
/// # Errors
/// As [`read_file`]; a usage error if it does not meet them.
pub fn read_from(
    source: Source,
    kind: &str,
    path: &Path,
    most: u64,
    hint: &str,
) -> Result<Vec<u8>> {
    let what = format!("read {kind} {}", path.display());
    let fail = |e: io::Error| Error::new(code_of(&e), what.clone(), words(&e)).hint(hint);
    let mut bytes = Vec::new();
    // A pipe without a writer is not waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(fail)?;
    let kind_of = file.metadata().map_err(fail)?.file_type();
    match source {
        Source::Regular | Source::Secret if !kind_of.is_file() => {
            return Err(Error::usage(what, "it is no regular file").hint(hint));
        }
        Source::Secret if file.metadata().map_err(fail)?.mode() & 0o077 != 0 => {
            return Err(Error::usage(what, "others than its owner may read or write it").hint(
                format!("chmod 600 {}; and make it anew if it ever was read", path.display()),
            ));
        }
        // One that is asked for by name is waited for.
        Source::Any if !kind_of.is_file() => {
            rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(|e| fail(e.into()))?;
        }
        _ => {}
    }
    file.take(most + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > most {
        return Err(Error::usage(what, format!("it is far too long for a {kind}")).hint(hint));
    }
    Ok(bytes)
}

/// Content of a file of ours in the state directory. What has its name and is no regular file is not
/// waited for: it is damaged, as one with another content is.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Makes way for a file of ours where a directory has its name.
fn make_way(path: &Path) -> io::Result<()> {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    if is_dir { fs::remove_dir_all(path) } else { Ok(()) }
}

/// Replaces a file as a whole: whoever reads it, also after a power cut, finds the old content or
/// the new one. The directory must exist.
///
/// # Errors
/// Fails with the file system's error; the old file is then still there.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, content, 0o644)
}

/// A file that is there keeps its mode; a new one gets `mode`, less what the umask takes.
fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let kept = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let kept = kept.map(|meta| meta.permissions());
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let (scratch, mut file) = scratch(directory, name, mode)?;
    let written = (|| {
        if let Some(permissions) = kept {
            file.set_permissions(permissions)?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&scratch, path)?;
        sync_directory(directory)
    })();
    if written.is_err() && scratch.exists() {
        // The first error is the one to report; a scratch file that stays harms nobody.
        if let Err(e) = fs::remove_file(&scratch) {
            log::warn!("{} stays: {e}", scratch.display());
        }
    }
    written
}

/// A new file beside the one of that name. A name that is taken, by a file that was left or by one that
/// somebody has put there, is not used: another is tried.
fn scratch(directory: &Path, name: &OsStr, mode: u32) -> io::Result<(PathBuf, File)> {
    let mut tries = 0;
    loop {
        let mut scratch = std::ffi::OsString::from(".");
        scratch.push(name);
        scratch.push(format!(".{:08x}", fastrand::u32(..)));
        let scratch = directory.join(scratch);
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create_new(true).mode(mode);
        match options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&scratch) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < 16 => tries += 1,
            opened => return opened.map(|file| (scratch, file)),
        }
    }
}

/// Makes the names in a directory safe: a file's name is only safe when its directory is.
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_stays() {
        let dir = crate::machine::testing::scratch("atomic");
        let path = dir.join("plan.toml");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert!(write_atomically(&dir.join("none/plan.toml"), b"x").is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_private_one_is_for_its_owner() {
        let dir = crate::machine::testing::scratch("modes");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = dir.join("report");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_file("report", &path, b"one").unwrap();
        assert_eq!(mode(&path), 0o640);
        write_private("capture", &dir.join("capture"), b"one").unwrap();
        assert_eq!(mode(&dir.join("capture")), 0o600);
        // A link in the place of the scratch file leads nowhere.
        let (name, other) = (dir.join("plan"), dir.join("other"));
        std::os::unix::fs::symlink(&other, dir.join(format!(".plan.{}", std::process::id())))
            .unwrap();
        write_file("plan", &name, b"one").unwrap();
        assert!(!other.exists() && name.is_file());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn pipes_and_what_others_can_read_are_refused_where_it_matters() {
        let dir = crate::machine::testing::scratch("sources");
        let (pipe, token) = (dir.join("pipe"), dir.join("token"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let refused = |source, path: &Path| read_from(source, "x", path, 9, "y").unwrap_err();
        assert!(refused(Source::Regular, &pipe).to_string().contains("no regular file"));
        assert!(
            refused(Source::Regular, Path::new("/dev/zero")).to_string().contains("no regular")
        );
        fs::write(&token, "x").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(refused(Source::Secret, &token).remedy().unwrap().contains("chmod 600"));
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_from(Source::Secret, "x", &token, 9, "y").unwrap(), b"x");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_state_directory_that_others_can_write_to_is_refused() {
        let dir = crate::machine::testing::scratch("shared-state");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let error = StateDir::at(&dir).lock("apply").unwrap_err();
        assert_eq!(error.code(), ExitCode::NotPermitted, "{error}");
        assert!(StateDir::at(&dir).journals().is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
