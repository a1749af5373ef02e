//! Our own files: the state directory with its lock and journals, and the formats of plans and
//! results.
//!
//! ```text
//!   /run/linerate/            mode 0700; made on demand, removed when empty
//!     lock                    who is changing settings right now (flock)
//!     journal-0001 ...        what was changed, to what, from what: oldest first
//! ```
//!
//! Runtime settings vanish with the boot, and so does /run: journals need no better place.
//! `LINERATE_STATE_DIR` names another directory.

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

pub mod bisect;
pub mod board;
pub mod deadman;
pub mod disk;
pub mod journal;
pub mod labs;
mod lock;
pub mod measured;
pub mod plan;
pub mod result;
pub mod swap;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use lock::Lock;

use crate::error::{Error, Result};
use crate::exit_code::ExitCode;

/// Names another state directory than `/run/linerate`.
pub const STATE_DIR_VARIABLE: &str = "LINERATE_STATE_DIR";

const STATE_DIR: &str = "/run/linerate";

/// Where this program remembers what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
}

/// The state directory of this machine: `/run/linerate`, or what `LINERATE_STATE_DIR` says.
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

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory where it is missing, and makes sure that nobody else can write to it:
    /// what lies in it decides what root writes when something is rolled back.
    fn create(&self) -> Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(&self.path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(self.refused("make", &self.path, &e)),
        }
        self.check_private().map(drop)
    }

    /// Whether it exists.
    ///
    /// # Errors
    /// When something else has its name, or others can write to it.
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

    /// An error of our own files, with what to do about it.
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

/// Writes a file that the user named: all of it or, whatever happens, what was there before.
/// `kind` says in errors what it is (`plan`, `result`, `report`). What is no regular file
/// (/dev/stdout, a pipe) is written straight through.
///
/// # Errors
/// Usage (exit 2) with the path and why; not permitted (exit 4).
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

/// A file that grows line by line; what was written stays, whatever happens next.
#[derive(Debug)]
pub struct Lines {
    what: String,
    file: File,
    /// Bytes of whole lines.
    length: u64,
}

impl Lines {
    /// Makes the file. A regular file that is there already is left alone; what is none
    /// (/dev/stdout, a pipe) is written straight through.
    ///
    /// # Errors
    /// Usage (exit 2) with the path and why; not permitted (exit 4).
    pub fn create(kind: &str, path: &Path) -> Result<Self> {
        let what = format!("write {kind} {}", path.display());
        let special = fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(!special).mode(0o644);
        match options.open(path) {
            Ok(file) => Ok(Self { what, file, length: 0 }),
            Err(e) => Err(Self::failed(&what, &e).hint("name another file with -o")),
        }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// As [`Lines::create`]; the lines before are in the file.
    pub fn put(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        if let Err(e) = self.file.write_all(line.as_bytes()) {
            // Half a line would spoil the file for its readers. A pipe can't be cut; nor need it.
            drop(self.file.set_len(self.length));
            let hint = match e.kind() {
                io::ErrorKind::StorageFull => "the file system is full; what was written is kept",
                _ => "what was written is kept",
            };
            return Err(Self::failed(&self.what, &e).hint(hint));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    fn failed(what: &str, e: &io::Error) -> Error {
        let code = match e.kind() {
            io::ErrorKind::PermissionDenied => ExitCode::NotPermitted,
            _ => ExitCode::Usage,
        };
        Error::new(code, what, words(e))
    }
}

/// A file that the user named, of at most `most` bytes; `kind` says in errors what it is.
///
/// # Errors
/// Usage (exit 2) when it can't be read or is longer; not permitted (exit 4).
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
/// What the file system answered; the old file is then still there.
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
        // The first error is the one to tell; a scratch file that stays harms nobody.
        if let Err(e) = fs::remove_file(&scratch) {
            log::warn!("{} stays: {e}", scratch.display());
        }
    }
    written
}

/// A file's name is only safe when its directory is.
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// The answer without "(os error N)".
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
        let dir = crate::testing::scratch("atomic");
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
        let dir = crate::testing::scratch("shared-state");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let error = StateDir::at(&dir).lock("apply").unwrap_err();
        assert_eq!(error.code(), ExitCode::NotPermitted, "{error}");
        assert!(StateDir::at(&dir).journals().is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
