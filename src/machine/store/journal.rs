//! The journal of one transaction: the settings that are about to be written, with old and new
//! values.
//!
//! ```text
//!   {"format":"linerate-journal","version":2,"boot_id":..,"netns":..,"entries":[..]} 1c291ca3\n
//!   {"more":[..]} 08d96023\n  settings that could only be looked up later; fsynced, as the first
//!   {"begin":0} ...\n   before the first setting is written
//!   {"done":0} ...\n    it was written and read back
//!   ...
//!   {"applied":true} ...\n   all of it is in force
//!   {"kept":true} ...\n      its guard has nothing to do with it any more
//!   {"undo":true} ...\n      rolling back has begun
//! ```
//!
//! The header is on the disk, file and directory, before the first write, and only then has the file
//! its name. So a file without its name means that nothing was written, and a header that is cut or
//! fails its checksum (`check.rs`; version 1 had none) was damaged since: see `damaged.rs`. The lines
//! after it are not fsynced: runtime settings outlive a killed process, and so does what it wrote to
//! the page cache; they do not outlive the power, and then the boot id says that the journal is void.
//! Losing any of these lines is harmless too, for what has to be undone is decided by the values
//! found (see `apply::undo`); one that is damaged is passed over and reported.

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::check::{checked, with_check};
use super::damaged::Damaged;
use super::{Lock, StateDir, read_own, sync_directory};
use crate::error::{Error, Result, words};
use crate::model::identity::HostIdentity;
use crate::model::knob::Knob;
use crate::model::order::InOrder;

const FORMAT: &str = "linerate-journal";
const VERSION: u32 = 2;

/// The version whose lines have no checksum.
const UNCHECKED: u64 = 1;

/// Ending of a journal's name until its header is on the disk.
const UNBORN: &str = ".new";

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
    /// Person who made the change, and where from, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Number of the arming whose guard undoes the transaction unless it is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarded: Option<u64>,
    /// Every setting that may be written.
    pub entries: Vec<Entry>,
}

impl Header {
    /// The header of a transaction that begins now, `started_ms` milliseconds after the boot.
    #[must_use]
    pub fn new(host: HostIdentity, started_ms: u64, what: String, entries: Vec<Entry>) -> Self {
        let (format, version) = (FORMAT.into(), VERSION);
        Self { format, version, host, started_ms, what, by: None, guarded: None, entries }
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
    /// The transaction was confirmed, or what its guard left of it is not the guard's any more.
    Kept(bool),
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
    /// True if its guard has nothing to do with it any more.
    pub is_kept: bool,
    /// Numbers of the lines that are damaged, from 1; what they said is lost.
    pub damaged: Vec<usize>,
}

/// Reason why a journal can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// The first line is not as it was written.
    Damaged(String),
    /// A newer version of this program wrote it.
    Newer(String),
}

/// All journals of a state directory.
#[derive(Debug, Default)]
pub struct Journals {
    /// Journals that can be undone from, oldest first.
    pub whole: Vec<Journal>,
    /// Journals whose first line is damaged.
    pub damaged: Vec<Damaged>,
    /// Files that never became journals: they were not acted upon.
    unborn: Vec<PathBuf>,
}

impl Journal {
    /// A journal of which nothing is done yet.
    #[must_use]
    pub fn new(number: u32, header: Header) -> Self {
        let progress = vec![Progress::Untouched; header.entries.len()];
        let (phase, damaged) = (Phase::Unfinished, Vec::new());
        Self { number, header, progress, phase, is_kept: false, damaged }
    }

    /// Reads a journal file. A later line that is damaged is passed over and counted; a last one that
    /// was cut is passed over.
    ///
    /// # Errors
    /// The reason why the first line can't be followed.
    pub fn parse(number: u32, content: &[u8]) -> std::result::Result<Self, Unreadable> {
        let damaged = |why: &str| Unreadable::Damaged(why.to_owned());
        let mut lines = content.split_inclusive(|&b| b == b'\n');
        let first = lines.next().and_then(|line| line.strip_suffix(b"\n"));
        let first = first.ok_or_else(|| damaged("its first line is cut"))?;
        let json = checked(first);
        let head: serde_json::Value = serde_json::from_slice(json.unwrap_or(first))
            .map_err(|_| damaged("its first line is not what was written"))?;
        if head.get("format").and_then(|v| v.as_str()) != Some(FORMAT) {
            return Err(damaged("it is not a journal of linerate"));
        }
        let version = head.get("version").and_then(serde_json::Value::as_u64);
        match version {
            Some(v) if v > u64::from(VERSION) => {
                let why =
                    format!("a newer linerate wrote it (format {v}, this one knows {VERSION})");
                return Err(Unreadable::Newer(why));
            }
            Some(v) if v == u64::from(VERSION) && json.is_some() => {}
            Some(UNCHECKED) if json.is_none() => {}
            _ => return Err(damaged("its version is not known")),
        }
        let header: Header = serde_json::from_value(head)
            .map_err(|_| damaged("its first line is not what was written"))?;
        let mut journal = Self::new(number, header);
        for (number, line) in (2..).zip(lines) {
            // The last one may have been cut by a kill, as it was written.
            let Some(line) = line.strip_suffix(b"\n").filter(|line| !line.is_empty()) else {
                continue;
            };
            let json = checked(line).or((version == Some(UNCHECKED)).then_some(line));
            match json.and_then(|json| serde_json::from_slice(json).ok()) {
                Some(step) => journal.take(step),
                None => journal.damaged.push(number),
            }
        }
        Ok(journal)
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
            JournalLine::Kept(yes) => self.is_kept = yes,
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
    pub fn create(lock: &Lock, mut header: Header) -> Result<Self> {
        let state = lock.state();
        let number = state.newest_journal()? + 1;
        let path = state.file(number);
        let unborn = state.path().join(format!("journal-{number:04}{UNBORN}"));
        let fail = |e: io::Error| state.refused("write", &path, &e);
        header.guarded = lock.guarded();
        let line = with_check(&header).map_err(|e| fail(e.into()))?;
        // One that a killed process left is nobody's.
        drop(fs::remove_file(&unborn));
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o644)
            .open(&unborn)
            .map_err(fail)?;
        let written = file
            .write_all(&line)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&unborn, &path))
            .and_then(|()| sync_directory(state.path()));
        if let Err(e) = written {
            // Nothing was set yet, so the journal must not stay and claim otherwise.
            drop(fs::remove_file(&unborn));
            return Err(match fs::remove_file(&path) {
                Err(gone) if gone.kind() != io::ErrorKind::NotFound => {
                    fail(e).hint(format!("remove {}", path.display()))
                }
                _ => fail(e),
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
    let line = with_check(step).map_err(|e| fail(e.into()))?;
    file.write_all(&line).map_err(fail)
}

fn remove(path: &Path, directory: &Path) -> Result<()> {
    fs::remove_file(path)
        .and_then(|()| sync_directory(directory))
        .map_err(|e| Error::not_supported(format!("remove {}", path.display()), words(&e)))
}

impl StateDir {
    pub(super) fn file(&self, number: u32) -> PathBuf {
        self.path().join(format!("journal-{number:04}"))
    }

    fn aside(&self, number: u32) -> PathBuf {
        self.path().join(format!("damaged-{number:04}"))
    }

    /// Names of the state directory's files; none without the directory.
    fn names(&self) -> Result<Vec<String>> {
        if !self.check_private()? {
            return Ok(Vec::new());
        }
        let fail = |e: io::Error| self.refused("read", self.path(), &e);
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path()).map_err(fail)? {
            names.extend(entry.map_err(fail)?.file_name().into_string());
        }
        names.order_by(Ord::cmp);
        Ok(names)
    }

    /// Number of the newest journal, one that is kept aside included; 0 without any.
    ///
    /// # Errors
    /// An error if the state directory can't be read.
    pub fn newest_journal(&self) -> Result<u32> {
        let names = self.names()?;
        Ok(names.iter().filter_map(|name| numbered(name)).map(|(n, _)| n).max().unwrap_or(0))
    }

    /// All journals.
    ///
    /// # Errors
    /// An error if the directory can't be read; usage if a journal is from a newer version.
    pub fn journals(&self) -> Result<Journals> {
        let mut all = Journals::default();
        for name in self.names()? {
            let path = self.path().join(&name);
            if name.ends_with(UNBORN) || name.starts_with('.') {
                all.unborn.push(path);
                continue;
            }
            let Some((number, is_aside)) = numbered(&name) else { continue };
            let content = match read_own(&path) {
                Ok(content) => content,
                // Another process finished it just now.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(self.refused("read", &path, &e)),
            };
            match Journal::parse(number, &content) {
                Ok(journal) if !is_aside => all.whole.push(journal),
                Err(Unreadable::Newer(why)) if !is_aside => {
                    return Err(Error::usage(format!("read {}", path.display()), why).hint(
                        "what it changed can't be undone from here: use the version that wrote \
                         it, or remove the file and reboot, which resets what it set",
                    ));
                }
                Ok(journal) => {
                    let why = lines_damaged(&journal.damaged);
                    all.damaged.push(Damaged::new(number, path, is_aside, why, &content));
                }
                Err(Unreadable::Newer(why) | Unreadable::Damaged(why)) => {
                    all.damaged.push(Damaged::new(number, path, is_aside, why, &content));
                }
            }
        }
        all.whole.order_by_key(|journal| journal.number);
        Ok(all)
    }

    /// Removes what never became a journal or another file of ours: it was not acted upon.
    ///
    /// # Errors
    /// Fails with the file system's error.
    pub fn clear_unborn(&self, _lock: &Lock, journals: &Journals) -> Result<()> {
        journals.unborn.iter().try_for_each(|path| remove(path, self.path()))
    }

    /// Keeps a journal out of the way of all others, for a person to read; gives the new path.
    ///
    /// # Errors
    /// Fails with the file system's error.
    pub fn set_aside(&self, _lock: &Lock, number: u32) -> Result<PathBuf> {
        let (path, aside) = (self.file(number), self.aside(number));
        let moved = fs::rename(&path, &aside).and_then(|()| sync_directory(self.path()));
        moved.map_err(|e| self.refused("rename", &path, &e))?;
        Ok(aside)
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

/// Number of a journal's file, and whether it is kept aside.
fn numbered(name: &str) -> Option<(u32, bool)> {
    let (digits, is_aside) = match name.strip_prefix("damaged-") {
        Some(digits) => (digits, true),
        None => (name.strip_prefix("journal-")?, false),
    };
    Some((digits.parse().ok()?, is_aside))
}

/// The damaged lines of a journal, for a person.
#[must_use]
pub fn lines_damaged(lines: &[usize]) -> String {
    let numbers: Vec<String> = lines.iter().map(usize::to_string).collect();
    let plural = if lines.len() == 1 { "line" } else { "lines" };
    format!("{plural} {} not what was written", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &[u8] = include_bytes!("../../../fixtures/formats/journal-v1");
    const SECOND: &[u8] = include_bytes!("../../../fixtures/formats/journal-v2");

    #[test]
    fn the_first_version_of_the_format_stays_readable() {
        let journal = Journal::parse(3, FIXTURE).unwrap();
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
        for newer in ["3", "18446744073709551615"] {
            let why = format!("a newer linerate wrote it (format {newer}, this one knows 2)");
            assert_eq!(with(&format!("\"version\":{newer}")), Unreadable::Newer(why));
        }
        // Version 2 has checksums, and a line without is none of its.
        let odd =
            ["\"version\":0", "\"version\":-1", "\"version\":\"1\"", "\"v\":1", "\"version\":2"];
        for odd in odd {
            assert!(matches!(with(odd), Unreadable::Damaged(_)), "{odd}");
        }
    }

    #[test]
    fn a_journal_of_the_second_version_stays_readable_and_has_no_digit_changed() {
        let journal = Journal::parse(3, SECOND).unwrap();
        assert_eq!(journal.header.what, "apply plan.toml (irq-spread-rps)");
        assert_eq!(journal.header.guarded, Some(9_876_543_210));
        assert_eq!(journal.progress, [Progress::Done, Progress::Begun]);
        assert!(journal.is_kept && journal.damaged.is_empty(), "{journal:?}");
        let header = SECOND.iter().position(|&b| b == b'\n').unwrap();
        for at in 0..SECOND.len() {
            let mut flipped = SECOND.to_vec();
            flipped[at] ^= 1;
            match Journal::parse(3, &flipped) {
                Ok(read) => {
                    assert!(at > header, "{at}: a damaged header was followed");
                    assert_eq!(read.header, journal.header);
                    // The last newline, without which nothing is lost, may be any byte.
                    let end = at + 1 == SECOND.len();
                    assert!(end || !read.damaged.is_empty(), "{at} is not noticed");
                }
                Err(why) => assert!(matches!(why, Unreadable::Damaged(_)), "{at}: {why:?}"),
            }
        }
    }

    #[test]
    fn its_last_word_counts() {
        let phase = |lines: &str| {
            let text = [FIXTURE, lines.as_bytes()].concat();
            Journal::parse(1, &text).unwrap().phase
        };
        assert_eq!(phase("{\"applied\":true}\n"), Phase::Applied);
        assert_eq!(phase("{\"applied\":true}\n{\"undo\":true}\n"), Phase::Unfinished);
        // Added entries stay in front of the lines about them.
        let more = "{\"more\":[{\"knob\":{\"kind\":\"threaded-napi\",\"device\":\"eth0\"},\
                    \"path\":\"/sys/class/net/eth0/threaded\",\"before\":\"0\",\"after\":[\"1\"]}]}\n";
        let text = [FIXTURE, more.as_bytes(), b"{\"done\":3}\n"].concat();
        let grown = Journal::parse(1, &text).unwrap();
        assert_eq!((grown.header.entries.len(), grown.progress.len()), (4, 4));
        assert_eq!(grown.progress[3], Progress::Done);
        // A torn line must not swallow what a later run adds.
        assert_eq!(phase("{\"appl\n{\"applied\":true}\n"), Phase::Applied);
        assert_eq!(phase("{\"done\":99}\n{\"applied\":true}"), Phase::Unfinished);
    }
}
