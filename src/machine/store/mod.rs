//! Our own files: the state directory with its lock and journals, and the formats of plans and
//! results. In come paths, bytes and values to keep; out go files and the values read from them, or
//! an error with its path. Nothing may be touched but the state directory, files that the user
//! named with those beside them, and the files below a [`disk::Root`] that `persist` writes.
//!
//! ```text
//!   /run/linerate/            mode 0700; made on demand, removed when empty
//!     lock                    who is changing settings right now (flock)
//!     journal-0001 ...        what was changed, to what, from what: oldest first
//!     damaged-0001 ...        a journal that can't be undone from, kept for a person
//!     deadman.json            the change that waits to be confirmed
//!     undone.json             the last one that nobody confirmed
//! ```
//!
//! Runtime settings vanish with the boot, and so does /run: journals need no better place.
//! `LINERATE_STATE_DIR` names another directory.

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

pub mod bisect;
pub mod board;
mod check;
mod damaged;
pub mod deadman;
pub mod disk;
pub mod journal;
pub mod labs;
pub(crate) mod lines;
mod lock;
pub mod measured;
pub mod plan;
pub mod result;
pub mod swap;
pub mod unfinished;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use damaged::Damaged;
pub use lines::Lines;
pub use lock::{Lock, LockRefused};

use crate::error::{Error, ExitCode, Result};

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
        match fs::DirBuilder::new().mode(0o700).create(&self.path) {
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
            return Err(Error::usage(what, "it is not a directory"));
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
    let failed = |e: io::Error| {
        let code = match e.kind() {
            io::ErrorKind::PermissionDenied => ExitCode::NotPermitted,
            _ => ExitCode::Usage,
        };
        Error::new(code, format!("write {kind} {}", path.display()), words(&e))
            .hint("name another file with -o")
    };
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
        Ok(meta) if !meta.is_file() => {
            let mut file = fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
            file.write_all(content).map_err(failed)
        }
        _ => write_atomically(path, content).map_err(failed),
    }
}

/// Content of a file that the user named, of at most `most` bytes; `kind` is the word for it in
/// errors.
///
/// # Errors
/// A usage error (exit 2) if it can't be read or is longer; not permitted (exit 4).
pub fn read_file(kind: &str, path: &Path, most: u64, hint: &str) -> Result<Vec<u8>> {
    let what = format!("read {kind} {}", path.display());
    let fail = |e: io::Error| {
        let code = match e.kind() {
            io::ErrorKind::PermissionDenied => ExitCode::NotPermitted,
            _ => ExitCode::Usage,
        };
        Error::new(code, what.clone(), words(&e)).hint(hint)
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > most {
        return Err(Error::usage(what, format!("it is far too long for a {kind}")).hint(hint));
    }
    Ok(bytes)
}

/// Replaces a file as a whole: whoever reads it, also after a power cut, finds the old content or
/// the new one. The directory must exist.
///
/// # Errors
/// Fails with the file system's error; the old file is then still there.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut scratch = std::ffi::OsString::from(".");
    scratch.push(name);
    scratch.push(format!(".{}", std::process::id()));
    let scratch = directory.join(scratch);
    let written = (|| {
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o644).open(&scratch)?;
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

/// Makes the names in a directory safe: a file's name is only safe when its directory is.
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Words of the error without "(os error N)".
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_lowercase())
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
    fn a_state_directory_that_others_can_write_to_is_refused() {
        let dir = crate::machine::testing::scratch("shared-state");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let error = StateDir::at(&dir).lock("apply").unwrap_err();
        assert_eq!(error.code(), ExitCode::NotPermitted, "{error}");
        assert!(StateDir::at(&dir).journals().is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
