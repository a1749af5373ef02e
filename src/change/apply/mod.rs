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
//! In come candidates and a door to a machine; out go what was set and what was undone. It may write
//! settings and our journals, and every function that does holds the [`Lock`]: one process at a time.
//! A verb gets that right, and its snapshot, from a [`Changer`] alone.

mod changer;
mod collateral;
mod covered;
pub mod deadman;
mod drift;
pub mod failure;
mod fits;
mod found;
pub mod inventory;
pub mod knob;
mod memory;
pub mod pending;
mod place;
pub mod probe;
mod renamed;
mod rollback;
mod session;
pub mod undo;
mod who;
mod write;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

pub use changer::{Changer, Door, Hold, time_left, waits_elsewhere};
pub use covered::forget_covered;
pub use drift::{Drifted, drift};
pub use fits::check_fits;
pub use place::Whereabouts;
pub use rollback::{InForce, RolledBack, status};
pub use session::Session;

use self::failure::Class;
use self::knob::{Target, meaning, read_text, resolve, same};
use self::renamed::Devices;
use self::undo::Left;
use self::write::{Trouble, listed, set};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostError, HostRead, HostWrite, clock};
use crate::machine::store::Lock;
use crate::machine::store::journal::{Entry, Header, JournalLine, Writer};
use crate::model::knob::spec::Reshapes;
use crate::model::knob::{Knob, Value};
use crate::model::order::InOrder;
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::Snapshot;

/// A write that is to be made, or was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Setting.
    pub knob: Knob,
    /// The kernel's file.
    pub path: PathBuf,
    /// Value now.
    pub before: Value,
    /// Value asked for.
    pub after: Value,
    /// Exact text of the file now.
    pub before_text: String,
    /// The exact text to write.
    pub after_text: String,
    witness: Option<PathBuf>,
}

/// Writes that applying a candidate takes on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prepared {
    /// Settings that differ and have to be written, in this order.
    pub writes: Vec<Write>,
    /// Number of settings that are as wanted already.
    pub already: usize,
}

/// Outcome of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// Settings that were written; empty when everything was as wanted already.
    pub writes: Vec<Write>,
    /// Number of settings that were as wanted already.
    pub already: usize,
    /// Remarks for a person, a line each.
    pub notes: Vec<String>,
}

/// The exact writes that [`Changer::apply`] would make. Changes nothing (`--dry-run`).
///
/// # Errors
/// Usage when a setting of the candidate is invalid; not supported when one is not there or can't be
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
        && let Some(why) = knob::irreplaceable(host, &knob, &before_text)
    {
        let what = format!("set {knob}: {}", path.display());
        return Err(Error::not_supported(what, format!("fixed: {why}")).hint(why.hint()));
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

/// Makes a candidate's settings under a changer's lock; [`Changer::apply`] lists what may fail.
fn make(changer: &mut Changer<'_>, candidate: &Candidate, stop: &AtomicBool) -> Result<Applied> {
    let (shaping, rest) = stages(changer.host(), changer.snapshot(), candidate)?;
    let first = prepare(changer.host(), changer.snapshot(), &shaping)?;
    if first.writes.is_empty() {
        return transact(changer, candidate, first, Vec::new(), &rest, stop);
    }
    let hanging = collateral::of(changer.host(), changer.snapshot(), &first.writes);
    // Its queues and lines are others from the first part on, and others again when it is undone.
    changer.look_again();
    let done = transact(changer, candidate, first, hanging, &rest, stop);
    if done.is_err() {
        changer.look_again();
    }
    done
}

/// Makes `first`, which `hanging` hangs on, and then looks up and makes `rest`: all in one journal.
fn transact(
    changer: &Changer<'_>,
    candidate: &Candidate,
    first: Prepared,
    hanging: Vec<Entry>,
    rest: &Candidate,
    stop: &AtomicBool,
) -> Result<Applied> {
    let (host, lock, name) = (changer.host(), changer.lock(), candidate.name.as_str());
    let mut transaction = Transaction { host, lock, name, stop, journal: None };
    transaction.make(&first.writes, hanging)?;
    let second = prepare(host, changer.snapshot(), rest).map_err(|e| transaction.abandon(e))?;
    let hanging = collateral::of(host, changer.snapshot(), &second.writes);
    transaction.make(&second.writes, hanging)?;
    let mut applied = Applied {
        writes: first.writes.into_iter().chain(second.writes).collect(),
        already: first.already + second.already,
        notes: Vec::new(),
    };
    if !transaction.finish()? {
        applied.notes.push(format!("{name} is in force already: nothing to write"));
    }
    Ok(applied)
}

/// Writes in the making; an error of any of these has put everything back.
struct Transaction<'a> {
    host: &'a dyn HostWrite,
    lock: &'a Lock,
    name: &'a str,
    stop: &'a AtomicBool,
    /// The journal, from the first write on.
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
            if let Err(e) = journal.step(JournalLine::Begin(number)) {
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
        match journal.step(JournalLine::Applied(true)) {
            Ok(()) => Ok(true),
            Err(e) => Err(back_out(self.host, &journal, Cause::Journal(e))),
        }
    }
}

/// Splits a candidate into what has to be set before the rest can be looked up, and the rest. The
/// first part is empty where nothing of it is to be changed.
fn stages(
    host: &dyn HostRead,
    snapshot: &Snapshot,
    candidate: &Candidate,
) -> Result<(Candidate, Candidate)> {
    let part = |settings| Candidate { settings, ..candidate.clone() };
    let all = || candidate.settings.iter().cloned();
    let first = |change: &Change| match change.knob.spec().map(|spec| spec.reshapes) {
        None | Some(Reshapes::Nothing) => false,
        Some(Reshapes::Queues) => true,
        Some(Reshapes::Threads(kind)) => {
            let device = change.knob.device();
            all().any(|c| c.knob.kind() == kind && c.knob.device() == device)
        }
    };
    let shaping = part(all().filter(first).collect());
    if shaping.settings.is_empty() || prepare(host, snapshot, &shaping)?.writes.is_empty() {
        return Ok((part(Vec::new()), candidate.clone()));
    }
    // What is invalid is refused before anything is written.
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
    let mut header = Header::new(host.identity(), now, what, entries);
    header.by = who::who(host);
    Writer::create(lock, header)
}

/// One write between its two lines of the journal.
fn one<'a>(
    host: &dyn HostWrite,
    journal: &mut Writer,
    number: usize,
    write: &'a Write,
) -> std::result::Result<(), Cause<'a>> {
    journal.step(JournalLine::Begin(number)).map_err(Cause::Journal)?;
    set(host, &write.knob, &write.path, &write.after_text).map_err(|trouble| Cause::Failed {
        number,
        write,
        trouble,
    })?;
    journal.step(JournalLine::Done(number)).map_err(Cause::Journal)
}

/// Reason why a transaction does not go on.
enum Cause<'a> {
    /// The transaction was asked to stop, while doing this.
    Stopped(&'a str),
    /// A setting could not be made; it was the write of this number.
    Failed { number: usize, write: &'a Write, trouble: Trouble },
    /// The journal could not be written.
    Journal(Error),
    /// The queues or threads that the rest is to be set on are not there after the first part.
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
                // The first write shows whether we may write here at all.
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

    /// The first failure in words, for the case that restoring fails too.
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
