//! The journal of one transaction: the settings that are about to be written, with old and new
//! values.
//!
//! ```text
//!   {"format":"linerate-journal","version":1,"boot_id":..,"netns":..,"entries":[..]}\n   fsynced
//!   {"more":[..]}\n  settings that could only be looked up later; fsynced
//!   {"begin":0}\n   before the first setting is written
//!   {"done":0}\n    it was written and read back
//!   ...
//!   {"applied":true}\n   all of it is in force
//!   {"undo":true}\n      rolling back has begun
//! ```
//!
//! The header is on the disk, file and directory, before the first write. So a torn header means
//! that nothing was written. The lines after it are not fsynced: runtime settings outlive a killed
//! process, and so does what it wrote to the page cache; they do not outlive the power, and then
//! the boot id says that the journal is void. Losing any of these lines is harmless too, for what
//! has to be undone is decided by the values found (see `apply::undo`).

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Lock, StateDir, sync_directory, words};
use crate::error::{Error, Result};
use crate::model::identity::HostIdentity;
use crate::model::knob::Knob;
use crate::model::order::InOrder;

const FORMAT: &str = "linerate-journal";
const VERSION: u32 = 1;

/// One setting of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Setting.
    pub knob: Knob,
    /// The kernel's file.
    pub path: PathBuf,
    /// Exact text of the file before.
    pub before: String,
    /// The texts that the transaction may write to it; an experiment writes several in turn.
    pub after: Vec<String>,
    /// Path that exists as long as `path` still is this knob's: interrupt numbers are given to
    /// other lines when a driver re-creates its queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<PathBuf>,
    /// Number of the knob's device, which a rename leaves as it is and no other device gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifindex: Option<u32>,
}

/// The first line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    format: String,
    version: u32,
    /// Boot and network namespace that the settings belong to.
    #[serde(flatten)]
    pub host: HostIdentity,
    /// Time when the transaction was begun: milliseconds since boot (CLOCK_BOOTTIME).
    pub started_ms: u64,
    /// The command line's verb and its subject.
    pub what: String,
    /// Every setting that may be written.
    pub entries: Vec<Entry>,
}

impl Header {
    /// The header of a transaction that begins now, `started_ms` milliseconds after the boot.
    #[must_use]
    pub fn new(host: HostIdentity, started_ms: u64, what: String, entries: Vec<Entry>) -> Self {
        Self { format: FORMAT.into(), version: VERSION, host, started_ms, what, entries }
    }
}

/// A line after the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalLine {
    /// Entries behind those of the header: settings that come with queues which the transaction
    /// itself made.
    More(Vec<Entry>),
    /// The entry of this number is about to be written.
    Begin(usize),
    /// The entry was written and read back.
    Done(usize),
    /// The whole transaction is in force, on purpose.
    Applied(bool),
    /// The transaction is being undone.
    Undo(bool),
}

/// Progress of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Progress {
    /// The entry was not touched, as far as the journal shows.
    #[default]
    Untouched,
    /// Writing had begun; the value now may be anything that a write can leave.
    Begun,
    /// The entry was written and read back.
    Done,
}

/// Progress of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The transaction is neither finished nor undone: its process was killed, or is still at it.
    Unfinished,
    /// The transaction is in force, on purpose.
    Applied,
}

/// A journal as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Number; higher is newer.
    pub number: u32,
    /// The first line.
    pub header: Header,
    /// Progress of each entry, in the order of the header's entries.
    pub progress: Vec<Progress>,
    /// Progress of the whole.
    pub phase: Phase,
}

impl Journal {
    fn new(number: u32, header: Header) -> Self {
        let progress = vec![Progress::Untouched; header.entries.len()];
        Self { number, header, progress, phase: Phase::Unfinished }
    }

    /// Reads a journal file. `None` when its first line is not complete: then it was never
    /// acted upon. A line torn or damaged later is passed over.
    ///
    /// # Errors
    /// An error that says what is wrong with a complete first line: another format, a newer
    /// version.
    pub fn parse(number: u32, content: &[u8]) -> std::result::Result<Option<Self>, String> {
        let Some(end) = content.iter().position(|&b| b == b'\n') else { return Ok(None) };
        let (first, rest) = content.split_at(end);
        let head: serde_json::Value =
            serde_json::from_slice(first).map_err(|e| format!("its first line is damaged: {e}"))?;
        if head.get("format").and_then(|v| v.as_str()) != Some(FORMAT) {
            return Err("it is not a journal of linerate".into());
        }
        match head.get("version").and_then(serde_json::Value::as_u64) {
            Some(v) if v == u64::from(VERSION) => {}
            Some(v) if v > u64::from(VERSION) => {
                return Err(format!(
                    "a newer linerate wrote it (format {v}, this one knows {VERSION})"
                ));
            }
            _ => return Err("its version is not known".into()),
        }
        let header: Header =
            serde_json::from_value(head).map_err(|e| format!("its first line is damaged: {e}"))?;
        let mut journal = Self::new(number, header);
        for line in rest.split_inclusive(|&b| b == b'\n') {
            let whole = line.strip_suffix(b"\n").and_then(|l| serde_json::from_slice(l).ok());
            if let Some(step) = whole {
                journal.take(step);
            }
        }
        Ok(Some(journal))
    }

    /// Follows one line.
    fn take(&mut self, step: JournalLine) {
        match step {
            JournalLine::Begin(i) | JournalLine::Done(i) => {
                if let Some(progress) = self.progress.get_mut(i) {
                    *progress =
                        if step == JournalLine::Done(i) { Progress::Done } else { Progress::Begun };
                }
            }
            JournalLine::More(entries) => {
                self.header.entries.extend(entries);
                self.progress.resize(self.header.entries.len(), Progress::Untouched);
            }
            JournalLine::Applied(yes) => {
                self.phase = if yes { Phase::Applied } else { Phase::Unfinished };
            }
            JournalLine::Undo(_) => self.phase = Phase::Unfinished,
        }
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Writer {
    journal: Journal,
    file: File,
    path: PathBuf,
    directory: PathBuf,
}

impl Writer {
    /// Begins a transaction: its header is on the disk when this returns.
    ///
    /// # Errors
    /// A not-supported or not-permitted error if the state directory can't be written; nothing of
    /// the journal stays then.
    pub fn create(lock: &Lock, header: Header) -> Result<Self> {
        let state = lock.state();
        let number = state.numbers()?.last().map_or(1, |last| last + 1);
        let path = state.file(number);
        let fail = |e: io::Error| state.refused("write", &path, &e);
        let mut line = serde_json::to_vec(&header).map_err(|e| fail(e.into()))?;
        line.push(b'\n');
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(fail)?;
        let written = file
            .write_all(&line)
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_directory(state.path()));
        if let Err(e) = written {
            // Nothing was set yet, so the journal must not stay and claim otherwise.
            return Err(match fs::remove_file(&path) {
                Ok(()) => fail(e),
                Err(_) => fail(e).hint(format!("remove {}", path.display())),
            });
        }
        let directory = state.path().to_owned();
        Ok(Self { journal: Journal::new(number, header), file, path, directory })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// A not-supported error if the state directory is full or gone.
    pub fn step(&mut self, step: JournalLine) -> Result<()> {
        append(&mut self.file, &self.path, &step)?;
        self.journal.take(step);
        Ok(())
    }

    /// Adds entries, which are on the disk when this returns.
    ///
    /// # Errors
    /// Fails as [`Writer::step`] does.
    pub fn more(&mut self, entries: Vec<Entry>) -> Result<()> {
        self.step(JournalLine::More(entries))?;
        self.file
            .sync_all()
            .map_err(|e| Error::not_supported(format!("write {}", self.path.display()), words(&e)))
    }

    /// The journal as written so far.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Removes the journal: nothing is left to undo.
    ///
    /// # Errors
    /// Fails with the file system's error.
    pub fn remove(&self) -> Result<()> {
        remove(&self.path, &self.directory)
    }
}

fn append(file: &mut File, path: &Path, step: &JournalLine) -> Result<()> {
    let fail = |e: io::Error| {
        Error::not_supported(format!("write {}", path.display()), words(&e))
            .hint("free some space there; LINERATE_STATE_DIR names another place")
    };
    let mut line = serde_json::to_vec(step).map_err(|e| fail(e.into()))?;
    line.push(b'\n');
    file.write_all(&line).map_err(fail)
}

fn remove(path: &Path, directory: &Path) -> Result<()> {
    fs::remove_file(path)
        .and_then(|()| sync_directory(directory))
        .map_err(|e| Error::not_supported(format!("remove {}", path.display()), words(&e)))
}

impl StateDir {
    fn file(&self, number: u32) -> PathBuf {
        self.path().join(format!("journal-{number:04}"))
    }

    /// The numbers of all journals, ascending.
    pub(super) fn numbers(&self) -> Result<Vec<u32>> {
        if !self.check_private()? {
            return Ok(Vec::new());
        }
        let fail = |e: io::Error| self.refused("read", self.path(), &e);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(self.path()).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            let number = name.to_str().and_then(|n| n.strip_prefix("journal-"));
            numbers.extend(number.and_then(|n| n.parse::<u32>().ok()));
        }
        numbers.order_by(Ord::cmp);
        Ok(numbers)
    }

    /// All journals, oldest first, and the numbers of those whose header never got complete: those
    /// were not acted upon.
    ///
    /// # Errors
    /// An error if the directory can't be read; usage if a journal is damaged or from a newer
    /// version.
    pub fn journals(&self) -> Result<(Vec<Journal>, Vec<u32>)> {
        let (mut whole, mut torn) = (Vec::new(), Vec::new());
        for number in self.numbers()? {
            let path = self.file(number);
            let content = match fs::read(&path) {
                Ok(content) => content,
                // Another process finished it just now.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(self.refused("read", &path, &e)),
            };
            match Journal::parse(number, &content) {
                Ok(Some(journal)) => whole.push(journal),
                Ok(None) => torn.push(number),
                Err(why) => {
                    return Err(Error::usage(format!("read {}", path.display()), why).hint(
                        "what it changed can't be undone from here: use the version that wrote \
                         it, or remove the file and reboot, which resets what it set",
                    ));
                }
            }
        }
        Ok((whole, torn))
    }

    /// Adds a line to a journal that an earlier process wrote.
    ///
    /// # Errors
    /// A not-supported error if the state directory is full.
    pub fn add_step(&self, _lock: &Lock, number: u32, step: JournalLine) -> Result<()> {
        let path = self.file(number);
        let opened = fs::OpenOptions::new().append(true).open(&path);
        let mut file = opened.map_err(|e| self.refused("write", &path, &e))?;
        // The last line may be torn: it must not swallow this one.
        file.write_all(b"\n").map_err(|e| self.refused("write", &path, &e))?;
        append(&mut file, &path, &step)
    }

    /// Removes a journal: nothing is left to undo.
    ///
    /// # Errors
    /// Fails with the file system's error.
    pub fn remove_journal(&self, _lock: &Lock, number: u32) -> Result<()> {
        remove(&self.file(number), self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &[u8] = include_bytes!("../../../fixtures/formats/journal-v1");

    #[test]
    fn the_first_version_of_the_format_stays_readable() {
        let journal = Journal::parse(3, FIXTURE).unwrap().unwrap();
        assert_eq!(journal.header.what, "apply plan.toml (irq-spread-rps)");
        assert_eq!(journal.header.host.netns, 4_026_531_840);
        let paths: Vec<_> = journal.header.entries.iter().map(|e| e.path.as_path()).collect();
        assert_eq!(
            paths,
            [
                Path::new("/proc/irq/24/smp_affinity"),
                Path::new("/sys/class/net/eth0/queues/rx-0/rps_cpus"),
                Path::new("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"),
            ]
        );
        assert_eq!(journal.progress, [Progress::Done, Progress::Begun, Progress::Untouched]);
        assert_eq!(journal.phase, Phase::Unfinished);
    }

    #[test]
    fn a_journal_of_a_newer_version_or_of_none_is_refused() {
        let text = std::str::from_utf8(FIXTURE).unwrap();
        let with = |version: &str| {
            let text = text.replacen("\"version\":1", version, 1);
            Journal::parse(1, text.as_bytes()).unwrap_err()
        };
        assert!(with("\"version\":2").contains("a newer linerate wrote it (format 2"));
        assert!(with("\"version\":18446744073709551615").contains("newer"));
        for odd in ["\"version\":0", "\"version\":-1", "\"version\":\"1\"", "\"v\":1"] {
            assert!(with(odd).contains("its version is not known"), "{odd}");
        }
    }

    #[test]
    fn its_last_word_counts() {
        let phase = |lines: &str| {
            let text = [FIXTURE, lines.as_bytes()].concat();
            Journal::parse(1, &text).unwrap().unwrap().phase
        };
        assert_eq!(phase("{\"applied\":true}\n"), Phase::Applied);
        assert_eq!(phase("{\"applied\":true}\n{\"undo\":true}\n"), Phase::Unfinished);
        // Added entries stay in front of the lines about them.
        let more = "{\"more\":[{\"knob\":{\"kind\":\"threaded-napi\",\"device\":\"eth0\"},\
                    \"path\":\"/sys/class/net/eth0/threaded\",\"before\":\"0\",\"after\":[\"1\"]}]}\n";
        let text = [FIXTURE, more.as_bytes(), b"{\"done\":3}\n"].concat();
        let grown = Journal::parse(1, &text).unwrap().unwrap();
        assert_eq!((grown.header.entries.len(), grown.progress.len()), (4, 4));
        assert_eq!(grown.progress[3], Progress::Done);
        // A torn line must not swallow what a later run adds.
        assert_eq!(phase("{\"appl\n{\"applied\":true}\n"), Phase::Applied);
        assert_eq!(phase("{\"done\":99}\n{\"applied\":true}"), Phase::Unfinished);
    }
}
