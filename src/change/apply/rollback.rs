//! Back to the state before, from the journals: on request, or because a process died.

use std::path::PathBuf;

use super::knob::reshapes;
use super::place::{Whereabouts, place};
use super::renamed::Devices;
use super::undo::{Left, Restore, undo};
use super::write::{listed, restore};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostRead, HostWrite, settle_notes};
use crate::machine::store::journal::{Journal, JournalLine, Phase, Progress, lines_damaged};
use crate::machine::store::{Damaged, Lock, StateDir};
use crate::model::knob::Knob;

/// Outcome of a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RolledBack {
    /// Settings that were restored.
    pub restored: Vec<Restore>,
    /// Settings that somebody else had set since; they were left alone.
    pub foreign: Vec<Left>,
    /// Transactions that are undone or void now.
    pub journals: usize,
    /// Remarks for a person, a line each.
    pub notes: Vec<String>,
}

/// A transaction that is in force, or was cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// The journal.
    pub journal: Journal,
    /// Boot and namespace of its settings, seen from here.
    pub place: Whereabouts,
}

/// Transactions that are in force or were cut short, oldest first. Needs no lock; an unfinished one
/// may be at work right now.
///
/// # Errors
/// Fails if the state directory can't be read, or holds a journal that this version can't read.
pub fn status(host: &dyn HostRead, state: &StateDir) -> Result<Vec<InForce>> {
    let placed = state
        .journals()?
        .whole
        .into_iter()
        .map(|journal| InForce { place: place(host, &journal.header.host), journal });
    Ok(placed.collect())
}

/// Outcome of one try to undo.
#[derive(Default)]
pub(super) struct Attempt {
    /// Settings that were restored, and those that somebody else set since.
    pub(super) done: RolledBack,
    /// Settings that could not be restored, other people's values apart.
    left: Vec<Left>,
    /// Journals that were found damaged, and are kept aside.
    damaged: Vec<Damaged>,
}

impl Attempt {
    /// True if another try can't restore more: nothing is left but values of somebody else.
    pub(super) fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// Error on everything that is not as before, for a person; `None` where nothing is.
    pub(super) fn error(&self) -> Option<Error> {
        let all: Vec<&Left> = self.left.iter().chain(&self.done.foreign).collect();
        let hint = match (self.left.is_empty(), self.done.foreign.is_empty()) {
            (false, _) => "linerate rollback tries again",
            (_, false) => "to overwrite what somebody else set: linerate rollback --force",
            _ => "look at those settings; a reboot resets all that linerate sets",
        };
        let some = !all.is_empty() || !self.damaged.is_empty();
        some.then(|| incomplete(&all, &self.damaged).hint(hint))
    }

    /// The outcome; an error where some settings are not as before.
    pub(super) fn into_result(mut self) -> Result<RolledBack> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        if self.done == RolledBack::default() {
            self.done.notes.push("nothing to roll back".into());
        }
        Ok(self.done)
    }
}

/// Undoes the transactions whose journals are newer than number `after`, newest first, back to the
/// state before the first; values that somebody else set since are overwritten with `force` alone.
/// The journals of what is not as before stay.
///
/// # Errors
/// Fails if the journals can't be read.
pub(super) fn roll_back_since(
    host: &dyn HostWrite,
    lock: &Lock,
    after: u32,
    force: bool,
) -> Result<Attempt> {
    unwind(host, lock, &Mode::Rollback { after, force })
}

/// Undoes the transactions whose process died in the middle. Values that somebody else set since are
/// left alone and said in a note.
///
/// # Errors
/// Rollback incomplete (exit 8) with a list of what is left.
pub(super) fn settle(host: &dyn HostWrite, lock: &Lock) -> Result<RolledBack> {
    let Attempt { done: mut result, left, damaged } = unwind(host, lock, &Mode::Settle)?;
    if !left.is_empty() {
        let all: Vec<&Left> = left.iter().collect();
        return Err(incomplete(&all, &damaged).hint("linerate rollback tries again"));
    }
    result.notes.extend(damaged.iter().map(ToString::to_string));
    let put_back = settle_notes(host).map_err(|e| {
        Error::new(ExitCode::RollbackIncomplete, "put back what somebody committed of ours", e)
            .hint("linerate rollback tries again")
    })?;
    result.notes.extend(put_back);
    if !result.restored.is_empty() {
        result.notes.insert(
            0,
            format!(
                "an earlier run was cut short: {} restored to what it was before",
                counted(result.restored.len(), "setting")
            ),
        );
    }
    let theirs = result.foreign.iter().map(|l| {
        let actual = l.actual.as_deref().unwrap_or("unknown");
        format!("{} is left at {actual}: {}", l.path.display(), l.why)
    });
    result.notes.extend(theirs);
    Ok(result)
}

fn incomplete(left: &[&Left], damaged: &[Damaged]) -> Error {
    let mut parts: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    if !left.is_empty() {
        let list = listed(left.iter().copied());
        parts.insert(0, format!("{} not as before:{list}", is_are(left.len())));
    }
    let what = parts.join("\n");
    Error::new(ExitCode::RollbackIncomplete, "roll back", what)
}

fn is_are(n: usize) -> String {
    format!("{} {}", counted(n, "setting"), if n == 1 { "is" } else { "are" })
}

pub(super) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Choice of the transactions to undo, and treatment of values that somebody else set.
enum Mode {
    /// Transactions that were cut short; others' values are theirs from now on.
    Settle,
    /// Transactions newer than a journal; others' values are overwritten, or wait for that.
    Rollback { after: u32, force: bool },
}

/// Undoes the chosen journals and removes those of which nothing is left to undo.
fn unwind(host: &dyn HostWrite, lock: &Lock, mode: &Mode) -> Result<Attempt> {
    let state = lock.state();
    let all = state.journals()?;
    let mut result = RolledBack::default();
    if let Err(e) = state.clear_unborn(lock, &all) {
        // It keeps nothing from being restored.
        log::warn!("{e}");
    }
    let (journals, mut damaged) = (all.whole, Vec::new());
    for mut one in all.damaged {
        match mode {
            Mode::Rollback { after, .. } if one.number <= *after => {}
            _ if !one.is_aside => {
                one.path = state.set_aside(lock, one.number)?;
                damaged.push(one);
            }
            // It was reported when it was found.
            Mode::Rollback { .. } => result.notes.push(one.to_string()),
            Mode::Settle => {}
        }
    }
    let chosen = |journal: &Journal| match mode {
        Mode::Settle => journal.phase == Phase::Unfinished,
        Mode::Rollback { after, .. } => journal.number > *after,
    };
    let (mut todo, mut void) = (Vec::new(), Vec::new());
    for mut journal in journals.into_iter().rev().filter(chosen) {
        let what = journal.header.what.clone();
        match place(host, &journal.header.host) {
            Whereabouts::Here => todo.push(journal),
            Whereabouts::EarlierBoot => {
                result.notes.push(format!("{what}: it was undone by the reboot since"));
                void.push(journal.number);
            }
            Whereabouts::GoneNamespace => {
                result
                    .notes
                    .push(format!("{what}: its network namespace is gone, and its devices"));
                keep_global(&mut journal);
                if journal.header.entries.is_empty() {
                    void.push(journal.number);
                } else {
                    todo.push(journal);
                }
            }
            Whereabouts::OtherNamespace => {
                result.notes.push(format!(
                    "{what}: left as it is, for it belongs to another network namespace ({})",
                    journal.header.host.netns
                ));
            }
        }
    }
    for number in void {
        state.remove_journal(lock, number)?;
        result.journals += 1;
    }
    let devices = if todo.is_empty() { Devices::default() } else { Devices::of(host) };
    for journal in &mut todo {
        if !journal.damaged.is_empty() {
            let lines = lines_damaged(&journal.damaged);
            result.notes.push(format!(
                "journal {:04} of {}: {lines}; settings that only they named are not undone",
                journal.number, journal.header.what
            ));
        }
        result.notes.extend(devices.follow(host, journal));
    }
    result.notes.dedup();
    // From here on it is unfinished: should this process be killed, the next one goes on.
    for journal in todo.iter().filter(|journal| journal.phase == Phase::Applied) {
        if let Err(e) = state.add_step(lock, journal.number, JournalLine::Undo(true)) {
            // A full disk must not keep the router from being restored.
            log::warn!("{e}");
        }
    }
    let list: Vec<&Journal> = todo.iter().collect();
    let force = matches!(mode, Mode::Rollback { force: true, .. });
    let done = bring_back(host, &list, &devices, force);
    for (knob, path) in &done.gone {
        result.notes.push(format!("{knob} ({}) is not here any more", path.display()));
    }
    let left = done.left;
    result.foreign = done.foreign;
    result.restored = done.restored;
    let waits = matches!(mode, Mode::Rollback { .. });
    let stays = |journal: &Journal| {
        let holds = |l: &Left| journal.header.entries.iter().any(|e| e.knob == l.knob);
        left.iter().any(holds) || (waits && result.foreign.iter().any(holds))
    };
    for journal in todo.iter().filter(|journal| !stays(journal)) {
        if journal.damaged.is_empty() {
            state.remove_journal(lock, journal.number)?;
        } else {
            state.set_aside(lock, journal.number)?;
        }
        result.journals += 1;
    }
    Ok(Attempt { done: result, left, damaged })
}

/// Outcome of going back.
pub(super) struct Back {
    pub(super) restored: Vec<Restore>,
    pub(super) foreign: Vec<Left>,
    pub(super) left: Vec<Left>,
    gone: Vec<(Knob, PathBuf)>,
}

/// Undoes `journals`, which come newest first.
pub(super) fn bring_back(
    host: &dyn HostWrite,
    journals: &[&Journal],
    devices: &Devices,
    force: bool,
) -> Back {
    let mut restored: Vec<Restore> = Vec::new();
    let mut first = true;
    // Once more when queues or threads came or went by it, or the kernel changed others with it: what
    // hangs on those that are back is restored then, and interrupt lines have other numbers.
    loop {
        let mut plan = undo(journals, |entry| devices.now(host, entry), force);
        let foreign = std::mem::take(&mut plan.foreign);
        let gone = std::mem::take(&mut plan.gone);
        let (done, left) = restore(host, plan);
        let drags = |knob: &Knob| knob.spec().is_some_and(|spec| !spec.drags.is_empty());
        let moves = |knob: &Knob| reshapes(knob) || drags(knob);
        let again = std::mem::take(&mut first) && done.iter().any(|r| moves(&r.knob));
        restored.extend(done);
        if !again {
            let ours = |knob: &Knob| restored.iter().any(|r| r.knob == *knob);
            // What went because its queue was undone too is as it was before.
            let gone = gone.into_iter().filter(|(knob, _)| !ours(knob)).collect();
            return Back { restored, foreign, left, gone };
        }
    }
}

/// Undoes `ours`, oldest first, whose files can't be used: nothing is noted.
pub(super) fn undo_unfiled(host: &dyn HostWrite, mut ours: Vec<Journal>) -> Attempt {
    let devices = Devices::of(host);
    ours.retain(|journal| matches!(place(host, &journal.header.host), Whereabouts::Here));
    for journal in &mut ours {
        devices.follow(host, journal);
    }
    let newest_first: Vec<&Journal> = ours.iter().rev().collect();
    let Back { restored, foreign, left, .. } = bring_back(host, &newest_first, &devices, false);
    let done = RolledBack { restored, foreign, ..RolledBack::default() };
    Attempt { done, left, damaged: Vec::new() }
}

/// True if a setting is still as `ours` made it, oldest first, and none of `others` names it. A value
/// that neither left there is somebody else's.
pub(super) fn is_made(host: &dyn HostRead, mut ours: Vec<Journal>, others: &[Journal]) -> bool {
    let devices = Devices::of(host);
    for journal in &mut ours {
        devices.follow(host, journal);
        journal.progress.fill(Progress::Done);
    }
    let newest_first: Vec<&Journal> = ours.iter().rev().collect();
    let named = |knob: &Knob| {
        others.iter().any(|journal| journal.header.entries.iter().any(|e| e.knob == *knob))
    };
    let plan = undo(&newest_first, |entry| devices.now(host, entry), false);
    plan.restore.iter().any(|restore| !named(&restore.knob))
}

/// Interrupts and governors are the machine's, not the namespace's: those stay to be undone.
fn keep_global(journal: &mut Journal) {
    let entries = std::mem::take(&mut journal.header.entries);
    let progress = std::mem::take(&mut journal.progress);
    (journal.header.entries, journal.progress) =
        entries.into_iter().zip(progress).filter(|(entry, _)| entry.knob.is_global()).unzip();
}
