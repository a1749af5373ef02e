//! Changing the router, all or nothing, and getting back exactly.
//!
//! ```text
//!   Candidate ─▶ knob (where?) ─▶ prepare (what differs?) ─▶ journal, fsynced
//!                                                              │
//!                            done ◀── read back ◀── write ◀────┤ one by one
//!                                         │ any failure,       │
//!                                         ▼ or a stop          │
//!            exactly as before ◀── undo (pure) ◀───────────────┘ also after a kill -9:
//!                                                  settle, on the next call
//! ```
//!
//! Every function that writes takes a [`Lock`]: one process at a time.

mod collateral;
mod covered;
pub mod deadman;
pub mod failure;
pub mod inventory;
pub mod knob;
pub mod pending;
mod place;
pub mod probe;
mod renamed;
mod rollback;
mod session;
pub mod undo;
mod write;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

pub use covered::forget_covered;
pub use place::Place;
pub use rollback::{InForce, RolledBack, rollback, settle, status};
pub use session::Session;

use self::failure::Class;
use self::knob::{Target, meaning, read_text, reshapes, resolve, same};
use self::renamed::Devices;
use self::undo::Left;
use self::write::{Trouble, listed, set};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{HostError, HostRead, HostWrite, clock};
use crate::model::knob::{Knob, Value};
use crate::model::order::InOrder;
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::Snapshot;
use crate::store::Lock;
use crate::store::journal::{Entry, Header, Step, Writer};

/// A write that is to be made, or was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What is set.
    pub knob: Knob,
    /// The kernel's file.
    pub path: PathBuf,
    /// What it means now.
    pub before: Value,
    /// What it is to mean.
    pub after: Value,
    /// Its exact text now.
    pub before_text: String,
    /// The exact text to write.
    pub after_text: String,
    witness: Option<PathBuf>,
}

/// What applying a candidate comes down to on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prepared {
    /// What differs and has to be written, in this order.
    pub writes: Vec<Write>,
    /// How many settings are as wanted already.
    pub already: usize,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// What was written; empty when everything was as wanted already.
    pub writes: Vec<Write>,
    /// How many settings were as wanted already.
    pub already: usize,
    /// What a person should know, a line each.
    pub notes: Vec<String>,
}

/// The exact writes that [`apply`] would make. Changes nothing (`--dry-run`).
///
/// # Errors
/// Usage when the candidate can't be meant; not supported when a setting is not there or can't be
/// read.
pub fn prepare(
    host: &dyn HostRead,
    snapshot: &Snapshot,
    candidate: &Candidate,
) -> Result<Prepared> {
    let mut prepared = Prepared::default();
    for target in resolve(snapshot, candidate)? {
        let write = current(host, target)?;
        if same(&write.knob, &write.after, &write.before) {
            prepared.already += 1;
        } else {
            prepared.writes.push(write);
        }
    }
    // The kernel keeps the lowest frequency below the highest one (cpufreq_set_policy): room is
    // made before it is used.
    prepared.writes.order_by_key(|w| match (&w.knob, &w.before, &w.after) {
        (Knob::MinFrequency { .. }, ..) => 1,
        (Knob::MaxFrequency { .. }, Value::Count(before), Value::Count(after)) => {
            if after > before { 0 } else { 2 }
        }
        _ => 0,
    });
    Ok(prepared)
}

/// Looks up what a target is now.
fn current(host: &dyn HostRead, target: Target) -> Result<Write> {
    let Target { knob, path, wanted, witness } = target;
    let before_text = read_text(host, &path).map_err(|e| unreadable(host, &knob, &e))?;
    let before = meaning(&knob, &before_text)
        .map_err(|why| Error::not_supported(format!("read {knob}: {}", path.display()), why))?;
    if !same(&knob, &wanted, &before)
        && let Some(why) = knob::irreplaceable(&knob, &before_text)
    {
        let hint = match knob {
            Knob::FlowOffload => "two would fight over the same flows; remove that one first",
            _ => "take this setting out of the plan, or remove that queueing discipline first",
        };
        return Err(Error::not_supported(format!("set {knob}: {}", path.display()), why).hint(hint));
    }
    // Only a witness that is there can go away.
    let witness = witness.filter(|path| host.list(path).is_ok());
    let after_text = wanted.to_kernel();
    Ok(Write { knob, path, before, after: wanted, before_text, after_text, witness })
}

fn unreadable(host: &dyn HostRead, knob: &Knob, error: &HostError) -> Error {
    if error.is_absent() {
        return knob::absent(host, knob, &error.path);
    }
    let what = format!("read {knob}: {}", error.path.display());
    if error.is_denied() {
        return Error::not_permitted(what, error.reason()).hint("run it as root");
    }
    Error::not_supported(what, error.reason())
}

/// Sets everything a candidate asks for, all or nothing: journal first, then each write with its
/// read-back. When everything is as wanted already, nothing is written at all. What an earlier
/// run left half done is settled first.
///
/// # Errors
/// Before anything is written: usage, not permitted, not supported. After that: rolled back
/// (exit 7) with what failed and why, everything being as before; rollback incomplete (exit 8)
/// with the list of what is left; interrupted (exit 130) when `stop` was set, everything being as
/// before.
pub fn apply(
    host: &dyn HostWrite,
    snapshot: &Snapshot,
    candidate: &Candidate,
    lock: &Lock,
    stop: &AtomicBool,
) -> Result<Applied> {
    apply_looking(host, snapshot, &|| snapshot.clone(), candidate, lock, stop)
}

/// As [`apply`]; where the candidate changes channels or threaded NAPI, `look` describes the
/// machine anew after that, for other queues, interrupt lines and threads are there then.
///
/// # Errors
/// As [`apply`].
pub fn apply_looking(
    host: &dyn HostWrite,
    snapshot: &Snapshot,
    look: &dyn Fn() -> Snapshot,
    candidate: &Candidate,
    lock: &Lock,
    stop: &AtomicBool,
) -> Result<Applied> {
    let notes = settle(host, lock)?.notes;
    let (shaping, rest) = stages(host, snapshot, candidate)?;
    let first = prepare(host, snapshot, &shaping)?;
    let mut transaction = Transaction { host, lock, name: &candidate.name, stop, journal: None };
    let mut seen = None;
    if !first.writes.is_empty() {
        transaction.make(&first.writes, collateral::of(host, snapshot, &first.writes))?;
        seen = Some(look());
    }
    let second = prepare(host, seen.as_ref().unwrap_or(snapshot), &rest)
        .map_err(|e| transaction.abandon(e))?;
    transaction.make(&second.writes, Vec::new())?;
    let mut applied = Applied {
        writes: first.writes.into_iter().chain(second.writes).collect(),
        already: first.already + second.already,
        notes,
    };
    if !transaction.finish()? {
        applied.notes.push(format!("{} is in force already: nothing to write", candidate.name));
    }
    Ok(applied)
}

/// Writes in the making; an error of any of these has put everything back.
struct Transaction<'a> {
    host: &'a dyn HostWrite,
    lock: &'a Lock,
    name: &'a str,
    stop: &'a AtomicBool,
    /// From the first write on.
    journal: Option<Writer>,
}

impl Transaction<'_> {
    fn halted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Journals and makes some writes. `hanging` is what comes and goes with them: not written by
    /// us, and ours all the same, for whatever is there later is our doing.
    fn make(&mut self, writes: &[Write], hanging: Vec<Entry>) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        let hang = hanging.len();
        let devices = Devices::of(self.host);
        // In front, for undoing goes backwards: it is restored last.
        let entries: Vec<Entry> = hanging
            .into_iter()
            .chain(writes.iter().map(|w| entry(w, vec![w.after_text.clone()], &devices)))
            .collect();
        let (mut journal, base) = match self.journal.take() {
            None if self.halted() => {
                return Err(Error::interrupted(format!("apply {}", self.name)));
            }
            None => (begin(self.host, self.lock, self.name, entries)?, 0),
            Some(mut journal) => {
                let base = journal.journal().header.entries.len();
                match journal.more(entries) {
                    Ok(()) => (journal, base),
                    Err(e) => return Err(back_out(self.host, &journal, Cause::Journal(e))),
                }
            }
        };
        for number in base..base + hang {
            if let Err(e) = journal.step(Step::Begin(number)) {
                return Err(back_out(self.host, &journal, Cause::Journal(e)));
            }
        }
        for (number, write) in (base + hang..).zip(writes) {
            if self.halted() {
                return Err(back_out(self.host, &journal, Cause::Stopped(self.name)));
            }
            if let Err(cause) = one(self.host, &mut journal, number, write) {
                return Err(back_out(self.host, &journal, cause));
            }
        }
        self.journal = Some(journal);
        Ok(())
    }

    /// Puts everything back because what comes next can't be looked up.
    fn abandon(&self, why: Error) -> Error {
        match &self.journal {
            Some(journal) => back_out(self.host, journal, Cause::Later(why)),
            None => why,
        }
    }

    /// Leaves all of it in force; whether there was anything to write.
    fn finish(self) -> Result<bool> {
        let halted = self.halted();
        let Some(mut journal) = self.journal else { return Ok(false) };
        if halted {
            return Err(back_out(self.host, &journal, Cause::Stopped(self.name)));
        }
        match journal.step(Step::Applied(true)) {
            Ok(()) => Ok(true),
            Err(e) => Err(back_out(self.host, &journal, Cause::Journal(e))),
        }
    }
}

/// What has to be set before the rest can be looked up, and the rest. All of it is the rest where
/// nothing of the former is to be changed.
fn stages(
    host: &dyn HostRead,
    snapshot: &Snapshot,
    candidate: &Candidate,
) -> Result<(Candidate, Candidate)> {
    let part = |settings| Candidate { settings, ..candidate.clone() };
    let all = || candidate.settings.iter().cloned();
    // Threads matter to nothing but what is set for them.
    let threads = |device: &str| {
        all().any(|c| matches!(&c.knob, Knob::NapiThread { device: d, .. } if d == device))
    };
    let first = |c: &Change| {
        reshapes(&c.knob)
            && match &c.knob {
                Knob::ThreadedNapi { device } => threads(device),
                _ => true,
            }
    };
    let shaping = part(all().filter(first).collect());
    if shaping.settings.is_empty() || prepare(host, snapshot, &shaping)?.writes.is_empty() {
        return Ok((part(Vec::new()), candidate.clone()));
    }
    // What can't be meant at all is said before anything is written.
    for change in all() {
        change
            .knob
            .check(&change.after)
            .map_err(|bad| Error::usage(format!("set {}", change.knob), bad))?;
    }
    Ok((shaping, part(all().filter(|c| !first(c)).collect())))
}

fn entry(write: &Write, after: Vec<String>, devices: &Devices) -> Entry {
    Entry {
        knob: write.knob.clone(),
        path: write.path.clone(),
        before: write.before_text.clone(),
        after,
        witness: write.witness.clone(),
        ifindex: write.knob.device().and_then(|device| devices.ifindex(device)),
    }
}

fn begin(host: &dyn HostRead, lock: &Lock, name: &str, entries: Vec<Entry>) -> Result<Writer> {
    let now = u64::try_from(clock::boottime().as_millis()).unwrap_or(u64::MAX);
    let what = format!("{} ({name})", lock.verb());
    Writer::create(lock, Header::new(host.identity(), now, what, entries))
}

/// One write between its two lines of the journal.
fn one<'a>(
    host: &dyn HostWrite,
    journal: &mut Writer,
    number: usize,
    write: &'a Write,
) -> std::result::Result<(), Cause<'a>> {
    journal.step(Step::Begin(number)).map_err(Cause::Journal)?;
    set(host, &write.knob, &write.path, &write.after_text).map_err(|trouble| Cause::Failed {
        number,
        write,
        trouble,
    })?;
    journal.step(Step::Done(number)).map_err(Cause::Journal)
}

/// Why a transaction does not go on.
enum Cause<'a> {
    /// It was asked to stop, while doing this.
    Stopped(&'a str),
    /// A setting could not be made; it was the write of this number.
    Failed { number: usize, write: &'a Write, trouble: Trouble },
    /// The journal could not be written.
    Journal(Error),
    /// What was to be set on the queues or threads that the first part made is not there.
    Later(Error),
}

impl Cause<'_> {
    /// The error to show when everything is as before again.
    fn into_error(self) -> Error {
        match self {
            Self::Stopped(name) => Error::interrupted(format!("apply {name}")),
            Self::Journal(e) => {
                let error = Error::new(
                    ExitCode::RolledBack,
                    "keep the journal",
                    format!("{e}; everything was rolled back"),
                );
                match e.remedy() {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
            Self::Later(e) => {
                let error = Error::new(
                    ExitCode::RolledBack,
                    "set the rest",
                    format!("{e}; everything was rolled back"),
                );
                match e.remedy() {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
            Self::Failed { number, write, trouble } => {
                let what = format!("set {}: {}", write.knob, write.path.display());
                let class = trouble.class();
                // The first write tells whether we may write here at all.
                let nothing_yet =
                    number == 0 && matches!(class, Some(Class::Denied | Class::ReadOnly));
                let error = if nothing_yet {
                    Error::not_permitted(what, format!("{trouble}; nothing was changed"))
                } else {
                    let why = format!("{trouble}; everything was rolled back");
                    Error::new(ExitCode::RolledBack, what, why)
                };
                match class.and_then(Class::hint) {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
        }
    }

    /// What went wrong first, for the case that restoring goes wrong too.
    fn first(&self) -> String {
        match self {
            Self::Stopped(name) => format!("apply {name}: interrupted"),
            Self::Journal(e) | Self::Later(e) => e.to_string(),
            Self::Failed { write, trouble, .. } => {
                format!("set {}: {}: {trouble}", write.knob, write.path.display())
            }
        }
    }
}

/// Puts everything back, and says what happened.
fn back_out(host: &dyn HostWrite, journal: &Writer, cause: Cause<'_>) -> Error {
    let left = put_back(host, journal);
    if left.is_empty() { cause.into_error() } else { incomplete(&cause.first(), &left) }
}

/// Undoes an unfinished transaction of this very process, and removes its journal when nothing is
/// left. Gives what could not be restored.
fn put_back(host: &dyn HostWrite, journal: &Writer) -> Vec<Left> {
    let mut back = rollback::bring_back(host, &[journal.journal()], &Devices::of(host), false);
    let mut left = std::mem::take(&mut back.left);
    left.append(&mut back.foreign);
    if left.is_empty()
        && let Err(e) = journal.remove()
    {
        // Harmless: the next run finds everything as before and removes it.
        log::warn!("{e}");
    }
    left
}

fn incomplete(first: &str, left: &[Left]) -> Error {
    let why = format!(
        "failed, and {} could not be restored:{}",
        rollback::counted(left.len(), "setting"),
        listed(left)
    );
    Error::new(ExitCode::RollbackIncomplete, first, why)
        .hint("linerate rollback tries again; --force also overwrites what somebody else set")
}
