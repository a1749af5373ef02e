//! One at a time: who changes settings holds an exclusive flock for as long as it lasts. The
//! kernel frees the lock of a process that died, however it died.

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::StateDir;
use crate::error::{Error, Result};

/// The exclusive right to change settings; given back when it is dropped.
#[derive(Debug)]
pub struct Lock {
    state: StateDir,
    verb: String,
    path: PathBuf,
    // Held for its flock.
    _file: File,
}

impl Lock {
    /// The state directory it guards.
    #[must_use]
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// What it was taken for, e.g. `tune nat`.
    #[must_use]
    pub fn verb(&self) -> &str {
        &self.verb
    }
}

impl StateDir {
    /// Takes the exclusive right to change settings, for `verb` (`apply plan.toml`, `tune nat`).
    ///
    /// # Errors
    /// Usage (exit 2) while another process has it; not permitted or not supported when the state
    /// directory can't be used.
    pub fn lock(&self, verb: &str) -> Result<Lock> {
        let path = self.path().join("lock");
        // Another round is only needed when the holder removed file or directory just now.
        for _ in 0..100 {
            self.create()?;
            let mut options = fs::OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let mut file = match options.open(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(self.refused("open", &path, &e)),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(busy(&mut file)),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(self.refused("lock", &path, &e.into())),
            }
            if !same_file(&file, &path) {
                continue;
            }
            let told = file.set_len(0).and_then(|()| {
                file.write_all(format!("{}\n{verb}\n", std::process::id()).as_bytes())
            });
            told.map_err(|e| self.refused("write", &path, &e))?;
            return Ok(Lock { state: self.clone(), verb: verb.to_owned(), path, _file: file });
        }
        Err(Error::usage("change settings", "other linerate processes come and go too quickly")
            .hint("wait for them, or end them"))
    }
}

/// Whether `path` still is the file that was locked: its last holder removes it.
fn same_file(file: &File, path: &std::path::Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn busy(file: &mut File) -> Error {
    let mut told = String::new();
    let read = file.rewind().and_then(|()| file.take(4096).read_to_string(&mut told));
    let mut lines = told.lines();
    let who = match (read, lines.next(), lines.next()) {
        (Ok(_), Some(pid), Some(verb)) => format!("another linerate (pid {pid}, \"{verb}\")"),
        // It has the lock and has not written its name yet.
        _ => "another linerate".to_owned(),
    };
    Error::usage("change settings", format!("{who} is changing settings"))
        .hint("wait for it, or end it")
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while still held, so that a process which opened it meanwhile notices
        // (`same_file`) and starts over.
        if let Err(e) = fs::remove_file(&self.path) {
            log::warn!("{} stays: {e}", self.path.display());
        }
        match fs::remove_dir(self.state.path()) {
            Ok(()) => {}
            // Journals are in it, or another process came and went in between.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound
                ) => {}
            Err(e) => log::warn!("{} stays: {e}", self.state.path().display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit_code::ExitCode;

    #[test]
    fn the_second_one_hears_who_has_it_and_what_for() {
        let dir = crate::testing::scratch("lock").join("state");
        let state = StateDir::at(&dir);
        let first = state.lock("tune nat").unwrap();
        let error = state.lock("apply").unwrap_err();
        assert_eq!(error.code(), ExitCode::Usage);
        let said = error.to_string();
        let pid = std::process::id();
        assert!(said.contains(&format!("another linerate (pid {pid}, \"tune nat\")")), "{said}");
        drop(first);
        assert!(!dir.exists(), "an empty state directory must go");
        drop(state.lock("apply").unwrap());
        fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    }

    #[test]
    fn never_two_at_once_however_often_it_changes_hands() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let dir = crate::testing::scratch("lock-race");
        let state = StateDir::at(dir.join("state"));
        let (inside, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    // However the machine's other work falls, until it has changed hands often.
                    while taken.load(Ordering::SeqCst) < 500 {
                        if let Ok(lock) = state.lock("race") {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            taken.fetch_add(1, Ordering::SeqCst);
                            // Long enough that a second holder would be seen.
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
        assert!(taken.load(Ordering::SeqCst) >= 500);
        fs::remove_dir_all(&dir).unwrap();
    }
}
