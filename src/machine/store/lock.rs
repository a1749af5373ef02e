//! Lock for one at a time: a process that changes settings holds an exclusive flock for as long as
//! that lasts. The kernel frees the lock of a process that died, however it died.

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{StateDir, read_own};
use crate::error::{Error, Result, words};

/// The exclusive right to change settings; given back when it is dropped.
#[derive(Debug)]
pub struct Lock {
    state: StateDir,
    verb: String,
    path: PathBuf,
    guarded: Cell<Option<u64>>,
    // Held for its flock.
    _file: File,
}

impl Lock {
    /// State directory that the lock guards.
    #[must_use]
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// Command line that the lock was taken for, e.g. `tune nat`.
    #[must_use]
    pub fn verb(&self) -> &str {
        &self.verb
    }

    /// Number of the arming that was made under this lock and is in force: what is changed from then
    /// on is its guard's to undo.
    pub(super) fn guarded(&self) -> Option<u64> {
        self.guarded.get()
    }

    pub(super) fn guard(&self, token: Option<u64>) {
        self.guarded.set(token);
    }
}

/// Reason why the lock could not be taken.
#[derive(Debug)]
pub enum LockRefused {
    /// Another process has it, and may be done in a moment.
    Busy(Error),
    /// The state directory can't be used.
    Unusable(Error),
}

impl From<LockRefused> for Error {
    fn from(refused: LockRefused) -> Self {
        match refused {
            LockRefused::Busy(error) | LockRefused::Unusable(error) => error,
        }
    }
}

impl StateDir {
    /// Takes the exclusive right to change settings, for `verb` (`apply plan.toml`, `tune nat`).
    ///
    /// # Errors
    /// Not supported (exit 5) while another process has the lock; that or not permitted if the state
    /// directory can't be used.
    pub fn lock(&self, verb: &str) -> Result<Lock> {
        Ok(self.try_lock(verb)?)
    }

    /// Takes the lock as [`StateDir::lock`] does, with an error that shows if waiting can
    /// help.
    ///
    /// # Errors
    /// Fails as [`StateDir::lock`] does.
    pub fn try_lock(&self, verb: &str) -> std::result::Result<Lock, LockRefused> {
        let path = self.path().join("lock");
        // Another round is only needed when the holder removed file or directory just now.
        for _ in 0..100 {
            self.create().map_err(LockRefused::Unusable)?;
            let mut options = fs::OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let mut file = match options.open(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(LockRefused::Unusable(self.refused("open", &path, &e))),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(LockRefused::Busy(busy(&mut file))),
                Err(Errno::INTR) => continue,
                Err(e) => {
                    return Err(LockRefused::Unusable(self.refused("lock", &path, &e.into())));
                }
            }
            if !same_file(&file, &path) {
                continue;
            }
            let named = file.set_len(0).and_then(|()| {
                file.write_all(format!("{}\n{verb}\n", std::process::id()).as_bytes())
            });
            // The flock is the lock; on a full disk others can't read the holder's name, and that
            // is all.
            if let Err(e) = named {
                log::debug!("{}: {}", path.display(), words(&e));
            }
            let (state, verb, guarded) = (self.clone(), verb.to_owned(), Cell::new(None));
            return Ok(Lock { state, verb, path, guarded, _file: file });
        }
        Err(LockRefused::Busy(
            Error::not_supported(
                "change settings",
                "other linerate processes come and go too quickly",
            )
            .hint("wait for them, or end them"),
        ))
    }

    /// True if somebody has the lock, or was killed with it.
    #[must_use]
    pub fn has_lock_file(&self) -> bool {
        self.path().join("lock").exists()
    }

    /// Process that wrote its name into the lock's file, and its verb: the present holder of the
    /// lock, or the last one. Where the disk was too full for the name, the process that the kernel
    /// lists for the lock, and no verb. `None` where nobody is known.
    #[must_use]
    pub fn lock_holder(&self) -> Option<(u32, String)> {
        let path = self.path().join("lock");
        let text = String::from_utf8(read_own(&path).ok()?).ok()?;
        let mut lines = text.lines();
        if let Some(pid) = lines.next().and_then(|pid| pid.parse().ok()) {
            return Some((pid, lines.next().unwrap_or_default().to_owned()));
        }
        let file = fs::metadata(&path).ok()?;
        let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
        let of_file = format!("{major:02x}:{minor:02x}:{}", file.ino());
        // "1: FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF" (fs/locks.c lock_get_status)
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let mut held = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let pid = held.find_map(|words| match *words.as_slice() {
            [_, "FLOCK", _, "WRITE", pid, file, ..] if file == of_file => pid.parse().ok(),
            _ => None,
        })?;
        Some((pid, String::new()))
    }
}

/// True if `path` still is the file that was locked: its last holder removes it.
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
        // The holder has the lock and has not written its name yet.
        _ => "another linerate".to_owned(),
    };
    Error::not_supported("change settings", format!("{who} is changing settings"))
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
    use crate::error::ExitCode;

    #[test]
    fn the_second_one_hears_who_has_it_and_what_for() {
        let dir = crate::machine::testing::scratch("lock").join("state");
        let state = StateDir::at(&dir);
        let first = state.lock("tune nat").unwrap();
        let error = state.lock("apply").unwrap_err();
        assert_eq!(error.code(), ExitCode::NotSupported);
        let said = error.to_string();
        let pid = std::process::id();
        assert!(said.contains(&format!("another linerate (pid {pid}, \"tune nat\")")), "{said}");
        assert_eq!(state.lock_holder(), Some((pid, "tune nat".to_owned())));
        // A full disk has no room for the name; the kernel knows who has it.
        fs::write(dir.join("lock"), "").unwrap();
        assert_eq!(state.lock_holder(), Some((pid, String::new())));
        drop(first);
        assert!(!dir.exists(), "an empty state directory must go");
        drop(state.lock("apply").unwrap());
        fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    }

    #[test]
    fn never_two_at_once_however_often_it_changes_hands() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let dir = crate::machine::testing::scratch("lock-race");
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
