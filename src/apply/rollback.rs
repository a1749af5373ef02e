//! Back to the state before, from the journals: on request, or because a process died.

use std::path::{Path, PathBuf};

use super::collateral::moved;
use super::knob::{meaning, read_text, reshapes};
use super::place::{Place, place};
use super::renamed::Devices;
use super::undo::{Left, Now, Restore, undo};
use super::write::{listed, restore};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{HostRead, HostWrite};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::store::journal::{Entry, Journal, Phase, Step};
use crate::store::{Lock, StateDir};

/// What a rollback did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RolledBack {
    /// What was written.
    pub restored: Vec<Restore>,
    /// What somebody else had set since and was left alone.
    pub foreign: Vec<Left>,
    /// Transactions that are undone or void now.
    pub journals: usize,
    /// What a person should know, a line each.
    pub notes: Vec<String>,
}

/// A transaction that is in force, or was cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// The journal.
    pub journal: Journal,
    /// Where its settings are.
    pub place: Place,
}

/// What is in force, oldest first. Needs no lock; an unfinished one may be at work right now.
///
/// # Errors
/// When the state directory can't be read, or holds a journal that this version can't read.
pub fn status(host: &dyn HostRead, state: &StateDir) -> Result<Vec<InForce>> {
    let (journals, _) = state.journals()?;
    let placed = journals
        .into_iter()
        .map(|journal| InForce { place: place(host, &journal.header.host), journal });
    Ok(placed.collect())
}

/// Undoes every transaction that is in force here, newest first, back to the state before the
/// first.
///
/// # Errors
/// Rollback incomplete (exit 8) with a list of what is left, by path and value: what could not be
/// written, and, unless `force`, what somebody else set since. The journals stay then.
pub fn rollback(host: &dyn HostWrite, lock: &Lock, force: bool) -> Result<RolledBack> {
    rollback_since(host, lock, 0, force)
}

/// As [`rollback`], of the transactions whose journals are newer than number `after` alone.
///
/// # Errors
/// As [`rollback`].
pub(super) fn rollback_since(
    host: &dyn HostWrite,
    lock: &Lock,
    after: u32,
    force: bool,
) -> Result<RolledBack> {
    let (mut result, left) = unwind(host, lock, &Mode::Rollback { after, force })?;
    if !left.is_empty() || !result.foreign.is_empty() {
        let hint = if left.is_empty() {
            "to overwrite what somebody else set: linerate rollback --force"
        } else {
            "linerate rollback tries again"
        };
        let all: Vec<Left> = left.into_iter().chain(result.foreign).collect();
        return Err(incomplete(&all).hint(hint));
    }
    if result == RolledBack::default() {
        result.notes.push("nothing to roll back".into());
    }
    Ok(result)
}

/// Undoes the transactions whose process died in the middle. Called by every verb that changes
/// something, before it looks at the machine. Values that somebody else set since are left alone
/// and said in a note.
///
/// # Errors
/// Rollback incomplete (exit 8) with a list of what is left.
pub fn settle(host: &dyn HostWrite, lock: &Lock) -> Result<RolledBack> {
    let (mut result, left) = unwind(host, lock, &Mode::Settle)?;
    if !left.is_empty() {
        return Err(incomplete(&left).hint("linerate rollback tries again"));
    }
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

fn incomplete(left: &[Left]) -> Error {
    let what = format!("{} not as before:{}", is_are(left.len()), listed(left));
    Error::new(ExitCode::RollbackIncomplete, "roll back", what)
}

fn is_are(n: usize) -> String {
    format!("{} {}", counted(n, "setting"), if n == 1 { "is" } else { "are" })
}

pub(super) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What is undone, and what becomes of values that somebody else set.
enum Mode {
    /// What was cut short; others' values are theirs from now on.
    Settle,
    /// Everything newer than a journal; others' values are overwritten, or wait for that.
    Rollback { after: u32, force: bool },
}

/// Undoes the chosen journals and removes those of which nothing is left to undo. The second
/// value is what could not be restored, other people's values apart.
fn unwind(host: &dyn HostWrite, lock: &Lock, mode: &Mode) -> Result<(RolledBack, Vec<Left>)> {
    let state = lock.state();
    let (journals, torn) = state.journals()?;
    let mut result = RolledBack::default();
    for number in torn {
        // Its header never got complete, so it was never acted upon.
        state.remove_journal(lock, number)?;
    }
    let chosen = |journal: &Journal| match mode {
        Mode::Settle => journal.phase == Phase::Unfinished,
        Mode::Rollback { after, .. } => journal.number > *after,
    };
    let (mut todo, mut void) = (Vec::new(), Vec::new());
    for mut journal in journals.into_iter().rev().filter(chosen) {
        let what = journal.header.what.clone();
        match place(host, &journal.header.host) {
            Place::Here => todo.push(journal),
            Place::EarlierBoot => {
                result.notes.push(format!("{what}: it was undone by the reboot since"));
                void.push(journal.number);
            }
            Place::GoneNamespace => {
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
            Place::OtherNamespace => {
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
        result.notes.extend(devices.follow(host, journal));
    }
    result.notes.dedup();
    // From here on it is unfinished: should this process be killed, the next one goes on.
    for journal in todo.iter().filter(|journal| journal.phase == Phase::Applied) {
        if let Err(e) = state.add_step(lock, journal.number, Step::Undo(true)) {
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
    let finished: Vec<u32> = todo.iter().filter(|j| !stays(j)).map(|j| j.number).collect();
    for number in finished {
        state.remove_journal(lock, number)?;
        result.journals += 1;
    }
    Ok((result, left))
}

/// What came of going back.
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
    // Once more when queues or threads came or went by it: what hangs on those that are back is
    // restored then, and interrupt lines have other numbers.
    loop {
        let mut plan = undo(journals, |entry| devices.now(host, entry), force);
        let foreign = std::mem::take(&mut plan.foreign);
        let gone = std::mem::take(&mut plan.gone);
        let (done, left) = restore(host, plan);
        let again = std::mem::take(&mut first) && done.iter().any(|r| reshapes(&r.knob));
        restored.extend(done);
        if !again {
            let ours = |knob: &Knob| restored.iter().any(|r| r.knob == *knob);
            // What went because its queue was undone too is as it was before.
            let gone = gone.into_iter().filter(|(knob, _)| !ours(knob)).collect();
            return Back { restored, foreign, left, gone };
        }
    }
}

/// What is in an entry's file.
pub(super) fn now(host: &dyn HostRead, entry: &Entry) -> Now {
    let absent = |path: &PathBuf| host.list(path).is_err_and(|e| e.is_absent());
    if entry.witness.as_ref().is_some_and(absent)
        && let Some(elsewhere) = moved(host, entry)
    {
        return elsewhere;
    }
    if entry.witness.as_ref().is_some_and(|handler| is_anothers(host, handler)) {
        return Now::Gone;
    }
    match read_text(host, &entry.path) {
        Ok(text) if lost_its_cpus(host, entry, &text) => Now::Displaced(text),
        Ok(text) => Now::Text(text),
        Err(e) if e.is_absent() => Now::Gone,
        Err(e) => Now::Unreadable(format!("it can't be read ({})", e.reason())),
    }
}

/// Whether an interrupt number is another line's by now. Without any handler it is nobody's: its
/// driver frees the handler when the device is set down, and the mask waits there for the next
/// (kernel/irq/manage.c `irq_setup_affinity` keeps what a user has set).
fn is_anothers(host: &dyn HostRead, handler: &Path) -> bool {
    let is_gone = |path: &Path| host.list(path).is_err_and(|e| e.is_absent());
    let Some(line) = handler.parent().filter(|_| is_gone(handler)) else { return false };
    let names = host.list(line).unwrap_or_default();
    // Only handlers are directories there.
    names.iter().any(|name| host.list(&line.join(name)).is_ok())
}

/// Whether the CPUs that a line was sent to are all offline, and the kernel has let it go to every
/// other (kernel/irq/cpuhotplug.c `migrate_one_irq`).
fn lost_its_cpus(host: &dyn HostRead, entry: &Entry, now: &str) -> bool {
    let cpus = |text: &str| match meaning(&entry.knob, text) {
        Ok(Value::Cpus(set)) => Some(set),
        _ => None,
    };
    let is_irq = matches!(entry.knob, Knob::IrqAffinity { .. });
    let (true, Some(now)) = (is_irq, cpus(now)) else { return false };
    let online = host.text(Path::new("/sys/devices/system/cpu/online")).ok();
    let Some(online) = online.and_then(|list| list.parse::<CpuSet>().ok()) else { return false };
    let away =
        |text: &String| cpus(text).is_some_and(|set| !set.iter().any(|cpu| online.contains(cpu)));
    online.is_subset(&now) && !entry.after.is_empty() && entry.after.iter().all(away)
}

/// Interrupts and governors are the machine's, not the namespace's: those stay to be undone.
fn keep_global(journal: &mut Journal) {
    let entries = std::mem::take(&mut journal.header.entries);
    let progress = std::mem::take(&mut journal.progress);
    (journal.header.entries, journal.progress) =
        entries.into_iter().zip(progress).filter(|(entry, _)| entry.knob.is_global()).unzip();
}
