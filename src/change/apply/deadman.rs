//! Undone unless confirmed: for a change that may cut off whoever made it.
//!
//! ```text
//!   apply --confirm 60s ─▶ arm (file) ─▶ guard (a process of its own) ─▶ apply
//!                            │              │ every 100 ms: is the file still there?
//!                            │              │ every second: do the gateways still answer?
//!   confirm ─▶ disarm ───────┘              └ deadline, or silence: lock, note why, roll back ─▶ disarm
//!                                               ▲                                     │ failed
//!                                               └── 0.1 s, 0.2 s, 0.4 s ... 5 s ◀─────┘
//! ```
//!
//! The guard is in a session of its own, so it outlives the terminal and its parent, however that
//! ends. It has in memory what the files say (`memory.rs`): those that are damaged or removed confirm
//! nothing, and are written anew. What was confirmed says so in its journals. Whoever has the lock at the deadline and
//! does not let go, a stopped process say, is ended.
//!
//! Should the guard itself be killed, a second one undoes (`cli/shared/second.rs`), or else the next
//! call that may write finds the change overdue and does. While a change waits, nothing else may be begun: what was never confirmed must
//! not become permanent because something else was put on top of it, and nothing may hold the lock
//! when the deadline comes.
//!
//! A rollback may fail in part: a driver that is busy, a file system that is read-only for a moment.
//! The change then stays armed, marked as being undone, until a rollback succeeds or nothing is left
//! that is ours to undo: values that somebody else set since are theirs.

use std::time::Duration;

use super::changer::{time_left, waits_elsewhere};
use super::memory::Memory;
use super::place::{Whereabouts, place};
use super::rollback::{Attempt, RolledBack, roll_back_since};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock::{self, Clock, System};
use crate::machine::host::{HostRead, HostWrite};
use crate::machine::store::deadman::{Armed, Target, Undoing, Undone};
use crate::machine::store::journal::{Journal, Phase};
use crate::machine::store::{Damaged, Lock, LockRefused, StateDir};
use crate::machine::sys::process;

/// Interval at which the guard looks; a deadline is missed by no more than this and the writes.
const LOOK: Duration = Duration::from_millis(100);

/// Milliseconds before the deadline in which gateways are asked no more: a look at their ports waits while
/// another program has the kernel's lock of all devices (`carrier_show`), and nothing is won by it.
const LAST_ASKED: u64 = 2000;

/// Grace period in which a process that tries settings may put them back itself when its time is
/// over.
const GRACE: Duration = Duration::from_secs(10);

/// Grace period in which any other process that has the lock at the deadline may come to its end.
const LET_GO: Duration = Duration::from_millis(300);

/// Verb for which a guard takes the lock.
const GUARD: &str = "dead-man";

/// Looks at the start until the change is given up that can't be read.
const FIRST_TRIES: u32 = 50;

/// The first pause after a rollback that failed; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two rollbacks.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// End of the guard's watch.
#[derive(Debug)]
pub enum Watch {
    /// The change was confirmed, undone by hand, or replaced by a later change.
    Settled,
    /// The change was undone.
    Undone(Undone),
}

/// Outcome of `confirm`.
#[derive(Debug)]
pub enum Confirmed {
    /// The change stays; it would have been undone so much later.
    Kept(Duration),
    /// The change was undone before.
    TooLate(Undone),
    /// No change waits to be confirmed.
    Nothing,
}

/// Reason why a change is undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// The deadline has passed.
    Overdue,
    /// The deadline has passed, and nobody but the caller is there to undo it.
    Unguarded,
    /// The process that tried settings has ended.
    Orphaned,
    /// `apply` was killed in the middle.
    CutShort,
    /// Something that answered before does not any more.
    Lost(String),
    /// An earlier try was begun for this reason.
    Begun(String),
    /// The caller's own reason.
    GivenUp(String),
}

impl Reason {
    pub(super) fn words(&self) -> &str {
        match self {
            Self::Overdue => "not confirmed in time",
            Self::Unguarded => "not confirmed in time, and its guard was gone",
            Self::Orphaned => "the program that tried it ended without putting it back",
            Self::CutShort => "it was cut short before all of it was in force",
            Self::Lost(why) | Self::Begun(why) | Self::GivenUp(why) => why,
        }
    }
}

/// Way in which a guard comes to undo its change.
enum Turn {
    /// The change is settled by now.
    Settled,
    /// The lock is the guard's.
    Locked(Lock),
    /// The lock is not to be had, for this reason: the state directory is gone and can't be made anew,
    /// or can't be used; or somebody has the lock for good.
    Alone(Error),
}

/// Arms the dead-man for what is about to be applied under `lock`.
///
/// # Errors
/// Fails if the state directory can't be used.
pub fn arm(
    host: &dyn HostWrite,
    lock: &Lock,
    wait: Duration,
    watched: Vec<Target>,
) -> Result<Armed> {
    let armed = Armed {
        token: fastrand::u64(..),
        deadline_ms: milliseconds(clock::boottime() + wait),
        host: host.identity(),
        after: lock.state().newest_journal()?,
        watched,
        holder: None,
        undoing: None,
    };
    lock.state().forget_undone(lock)?;
    lock.state().arm(lock, &armed)?;
    Ok(armed)
}

/// Arms it for a process that tries one setting after the other and holds `lock` all the while:
/// the guard acts as soon as the lock is free, and at the deadline, which [`put_off`] moves, it
/// ends that process first.
///
/// # Errors
/// Fails if the state directory can't be used.
pub fn arm_trial(host: &dyn HostWrite, lock: &Lock, wait: Duration) -> Result<Armed> {
    let mut armed = arm(host, lock, wait, Vec::new())?;
    armed.holder = Some(std::process::id());
    lock.state().arm(lock, &armed)?;
    Ok(armed)
}

/// Moves the deadline to `wait` from now.
///
/// # Errors
/// Fails if the state directory can't be used.
pub fn put_off(lock: &Lock, armed: &mut Armed, wait: Duration) -> Result<()> {
    armed.deadline_ms = milliseconds(clock::boottime() + wait);
    lock.state().arm(lock, armed)
}

/// Undoes what was made since it was armed, and takes it away.
///
/// # Errors
/// Rollback incomplete (exit 8); the guard then goes on trying.
pub fn give_up(host: &dyn HostWrite, lock: &Lock, armed: &Armed, why: &str) -> Result<RolledBack> {
    undo_and_tell(host, lock, armed.clone(), &Reason::GivenUp(why.to_owned()))
}

/// Takes the dead-man away: what is in force stays. What was begun and could not be put back is left
/// to the guard instead, which then tries at once and need not wait for the deadline.
///
/// # Errors
/// Fails if the state directory can't be used.
pub fn release(lock: &Lock, armed: &Armed) -> Result<()> {
    if !is_cut_short(lock.state(), armed)? {
        return lock.state().disarm(lock, armed.token);
    }
    mark(lock, &mut armed.clone(), Undoing::begun(Reason::CutShort.words()));
    Ok(())
}

/// True if a transaction since the change was armed is neither in force as a whole nor undone.
fn is_cut_short(state: &StateDir, armed: &Armed) -> Result<bool> {
    let cut_short =
        |journal: &Journal| journal.number > armed.after && journal.phase == Phase::Unfinished;
    Ok(state.journals()?.whole.iter().any(cut_short))
}

/// The guard of one change. It gives up for no reason but that somebody else settled it: as long as
/// the change waits, nobody else would undo it.
pub struct Guard<'a> {
    /// The door to the machine.
    pub host: &'a dyn HostWrite,
    /// State directory in which the change waits.
    pub state: &'a StateDir,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Told with every look that the journals of the change are in memory.
    pub remembers: &'a mut dyn FnMut(),
    /// Names a reason to wait no longer; asked with every look, and must not wait itself.
    pub lost: &'a mut dyn FnMut() -> Option<String>,
    /// Reporter of each failure to undo, called before the next try.
    pub failed: &'a mut dyn FnMut(&Error),
}

impl Guard<'_> {
    /// Waits for the end of `token`'s time, or for a reason to wait no longer, and undoes what was
    /// not confirmed, trying again with growing pauses until that succeeds.
    ///
    /// # Errors
    /// Fails if the state directory can't be read in the first seconds.
    pub fn watch(&mut self, token: u64) -> Result<Watch> {
        let mut tries = 0..FIRST_TRIES;
        let armed = loop {
            let seen = match self.state.armed() {
                Ok(None) => unconfirmed(self.state),
                seen => seen,
            };
            match seen {
                Ok(armed) => break armed,
                // Out of memory or descriptors, say.
                Err(e) if tries.next().is_none() => return Err(e),
                Err(_) => self.clock.sleep(LOOK),
            }
        };
        let Some(armed) = armed.filter(|armed| armed.token == token) else {
            return Ok(Watch::Settled);
        };
        let mut known = Memory::of(armed);
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(reason) = self.wait(&mut known) else { return Ok(Watch::Settled) };
            let turn = self.lock(&mut known);
            // Whoever held the lock may have put the deadline off, or handed the change over.
            if reason == Reason::Overdue && !self.is_due(&known.armed) {
                continue;
            }
            let undone = match turn {
                Turn::Settled => return Ok(Watch::Settled),
                Turn::Locked(lock) => {
                    let undone = undo(self.host, &lock, &mut known.armed, &reason);
                    known.take_in_anew(self.state);
                    // `confirm` and `rollback` get their turn.
                    drop(lock);
                    match undone {
                        // Not the settings refuse, but the files, and not for a moment only.
                        Err(e)
                            if e.code() != ExitCode::RollbackIncomplete
                                && pause > LET_GO
                                && known.leads_back() =>
                        {
                            known.undo(self.host, &reason, &e)
                        }
                        undone => undone.map(|(undone, _)| undone),
                    }
                }
                Turn::Alone(why) => known.undo(self.host, &reason, &why),
            };
            match undone {
                Ok(undone) => return Ok(Watch::Undone(undone)),
                Err(e) => (self.failed)(&e),
            }
            self.clock.sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until there is a reason to undo; `None` when somebody else settled it.
    fn wait(&mut self, known: &mut Memory) -> Option<Reason> {
        loop {
            if !self.still_waits(known, None) {
                return None;
            }
            if known.is_complete() {
                (self.remembers)();
            }
            let armed = &known.armed;
            if let Some(undoing) = &armed.undoing {
                return Some(Reason::Begun(undoing.why.clone()));
            }
            if self.is_due(armed) {
                return Some(Reason::Overdue);
            }
            if self.is_orphan(known) {
                return Some(Reason::Orphaned);
            }
            if self.is_left(known) {
                return Some(Reason::CutShort);
            }
            let due = known.armed.deadline_ms;
            let left = due.saturating_sub(milliseconds(self.clock.boottime()));
            if left > LAST_ASKED
                && let Some(why) = (self.lost)()
            {
                return Some(Reason::Lost(why));
            }
            self.clock.sleep(if known.is_complete() { LOOK } else { LOOK / 2 });
        }
    }

    /// Takes in what the files say now, for deadline and holder may have changed, and writes anew what
    /// is not as it was. False when the change does not wait any more.
    fn still_waits(&self, known: &mut Memory, lock: Option<&Lock>) -> bool {
        self.goes_on(self.state.armed(), known, lock)
    }

    /// As [`Guard::still_waits`], by an arming that was `seen` a moment ago.
    fn goes_on(
        &self,
        seen: Result<Option<Armed>>,
        known: &mut Memory,
        lock: Option<&Lock>,
    ) -> bool {
        match seen {
            Ok(Some(now)) if now.token == known.armed.token => {
                // A mark that found no room on the disk counts all the same.
                let undoing = known.armed.undoing.take();
                known.armed = now;
                known.armed.undoing = known.armed.undoing.take().or(undoing);
            }
            // Nothing is begun on top of a change that waits.
            Ok(Some(_)) => return false,
            Ok(None) => return !self.is_settled(known, lock),
            // Out of memory or descriptors, say: no reason to believe that it was confirmed.
            Err(_) => return true,
        }
        let is_at_it = lock.is_none() && self.state.has_lock_file();
        known.take_in(self.state, is_at_it);
        if !is_at_it && known.lacks_any(self.state) {
            self.locked(lock, |lock| {
                // Between the two looks the other guard may have undone it, files and all.
                if matches!(self.state.armed(), Ok(Some(now)) if now.token == known.armed.token) {
                    known.put_back(lock);
                }
            });
        }
        true
    }

    /// True if the arming was taken away on purpose: nothing of its change is in force, or it is noted
    /// as kept. Files that were removed or damaged say neither, and are written anew.
    fn is_settled(&self, known: &mut Memory, lock: Option<&Lock>) -> bool {
        // Whoever has the lock may be about to change something.
        if lock.is_none() && self.state.has_lock_file() {
            return false;
        }
        if self.says_settled(known) {
            return true;
        }
        // The lock is taken for this alone: nobody who comes meanwhile shall find it taken.
        self.locked(lock, |lock| {
            if !matches!(self.state.armed(), Ok(None)) || self.says_settled(known) {
                return;
            }
            known.put_back(lock);
            if let Err(e) = self.state.arm(lock, &known.armed) {
                log::warn!("{e}");
            }
        });
        false
    }

    /// True if the journals say that nothing of the change is its guard's any more, and so do the
    /// settings where journals are gone.
    fn says_settled(&self, known: &Memory) -> bool {
        let Ok(journals) = self.state.journals() else { return false };
        let of_it = |j: &Journal| j.header.guarded == Some(known.armed.token) && !j.is_kept;
        let unknown = |d: &Damaged| d.number > known.armed.after && !d.is_aside;
        !journals.whole.iter().any(of_it)
            && !journals.damaged.iter().any(unknown)
            && !known.is_in_force(self.host, &journals.whole)
    }

    /// Runs `work` under the lock, unless somebody else has it: the next look comes soon.
    fn locked(&self, lock: Option<&Lock>, work: impl FnOnce(&Lock)) {
        let own = match lock {
            Some(_) => None,
            None => self.state.lock(GUARD).ok(),
        };
        if let Some(lock) = lock.or(own.as_ref()) {
            work(lock);
        }
    }

    /// True if it is a trial whose process does not hold the lock any more.
    fn is_orphan(&self, known: &mut Memory) -> bool {
        if known.armed.holder.is_none() {
            return false;
        }
        let Ok(lock) = self.state.lock(GUARD) else { return false };
        // Between the two looks it may have become a change that waits to be confirmed.
        self.still_waits(known, Some(&lock)) && known.armed.holder.is_some()
    }

    /// True if whoever made or undid the change was killed in the middle: its lock is free, and the
    /// lock's file is still there.
    fn is_left(&self, known: &mut Memory) -> bool {
        if !self.state.has_lock_file() {
            return false;
        }
        let Ok(lock) = self.state.lock(GUARD) else { return false };
        self.still_waits(known, Some(&lock))
            && is_cut_short(self.state, &known.armed).unwrap_or(false)
    }

    /// The lock, as soon as whoever has it is done.
    fn lock(&self, known: &mut Memory) -> Turn {
        let begun = self.clock.boottime();
        let mut ended = None;
        loop {
            if !self.still_waits(known, None) {
                return Turn::Settled;
            }
            let refused = match self.state.try_lock(GUARD) {
                // Whoever had the lock until now may have confirmed.
                Ok(lock) if self.still_waits(known, Some(&lock)) => return Turn::Locked(lock),
                Ok(_) => return Turn::Settled,
                Err(refused) => refused,
            };
            let armed = &known.armed;
            let waited = self.clock.boottime().saturating_sub(begun);
            let (patience, why) = match refused {
                LockRefused::Unusable(why) => (LET_GO, why),
                // Whoever of us has it is ended by then; so it is nobody whom that would help against.
                LockRefused::Busy(why) => (GRACE + LET_GO, why),
            };
            if waited > patience && known.leads_back() {
                return Turn::Alone(why);
            }
            if self.is_due(armed)
                && let Some((holder, at_once)) = self.to_be_ended(armed, waited)
                && ended != Some((holder, at_once))
            {
                ended = Some((holder, at_once));
                process::end(holder, at_once);
            }
            self.clock.sleep(LOOK / 4);
        }
    }

    /// The process that has the lock when the time is over and does not let go, and whether it is to
    /// be ended rather than asked. A trial is asked at once, and ended after a grace period; any other
    /// is ended, for what it leaves half done has its journal.
    fn to_be_ended(&self, armed: &Armed, waited: Duration) -> Option<(u32, bool)> {
        let known = self.state.lock_holder();
        let pid = known.as_ref().map(|(pid, _)| *pid);
        // The number is that process's own only as long as it is the one that has the lock.
        if let Some(trial) = armed.holder.filter(|trial| pid.is_none_or(|pid| pid == *trial)) {
            return Some((trial, waited > GRACE));
        }
        let (pid, verb) = known?;
        let undoes = verb == GUARD || armed.undoing.is_some();
        let patience = if undoes { GRACE } else { LET_GO };
        (waited > patience && pid != std::process::id()).then_some((pid, true))
    }

    fn is_due(&self, armed: &Armed) -> bool {
        is_due(self.host, armed, self.clock)
    }
}

/// The change of this machine and network namespace whose time is over and whose guard did not
/// undo it. Needs no lock: its guard may be about to.
///
/// # Errors
/// Fails if the state directory can't be read.
pub fn overdue(host: &dyn HostRead, state: &StateDir) -> Result<Option<Armed>> {
    Ok(state.armed()?.filter(|armed| is_due(host, armed, &System)))
}

/// The change that waits to be confirmed and whose file is gone, as far as its journals tell: due at
/// once. A guard that has it in memory writes the file anew.
fn unconfirmed(state: &StateDir) -> Result<Option<Armed>> {
    let journals = state.journals()?.whole;
    let mut unkept = journals.iter().filter(|journal| !journal.is_kept);
    Ok(unkept.find_map(|journal| {
        Some(Armed {
            token: journal.header.guarded?,
            deadline_ms: 0,
            host: journal.header.host.clone(),
            after: journal.number.saturating_sub(1),
            watched: Vec::new(),
            holder: None,
            undoing: None,
        })
    }))
}

/// Waits a moment for the guard to write the files of a change anew that are damaged or gone.
///
/// # Errors
/// Fails if the state directory can't be read.
pub fn await_file(state: &StateDir) -> Result<()> {
    for _ in 0..5 {
        let is_whole = match state.armed()? {
            Some(armed) => {
                state.journals()?.whole.iter().any(|j| j.header.guarded == Some(armed.token))
            }
            None => unconfirmed(state)?.is_none(),
        };
        if is_whole {
            break;
        }
        clock::sleep(LOOK);
    }
    Ok(())
}

/// Undoes what is [`overdue`], and what waits and has lost its file. `None` when nothing does.
///
/// # Errors
/// Rollback incomplete (exit 8).
pub(super) fn undo_overdue(host: &dyn HostWrite, lock: &Lock) -> Result<Option<RolledBack>> {
    // Who tries settings holds the lock: that we have it says that nobody does any more.
    let is_orphan = |a: &Armed| {
        a.holder.is_some() && !matches!(place(host, &a.host), Whereabouts::OtherNamespace)
    };
    let late = match lock.state().armed()? {
        None => unconfirmed(lock.state())?.filter(|a| is_due(host, a, &System)),
        armed => armed.filter(|a| is_due(host, a, &System) || is_orphan(a)),
    };
    match late {
        Some(armed) => undo_and_tell(host, lock, armed, &Reason::Unguarded).map(Some),
        None => Ok(None),
    }
}

/// Keeps what waits to be confirmed, unless it is too late for that.
pub(super) fn confirm(host: &dyn HostWrite, lock: &Lock) -> Result<Confirmed> {
    let state = lock.state();
    let too_late = |e: Error| {
        if e.code() != ExitCode::RollbackIncomplete {
            return e;
        }
        Error::new(e.code(), "confirm", format!("too late, and undoing it failed so far: {e}"))
            .hint("its guard goes on trying; linerate rollback tries at once, status tells more")
    };
    if undo_overdue(host, lock).map_err(too_late)?.is_none()
        && let Some(armed) = state.armed()?
    {
        if armed.host != host.identity() {
            return Err(waits_elsewhere("confirm"));
        }
        // What the next call would undo must not be said to be kept.
        if !is_cut_short(state, &armed)? {
            state.disarm(lock, armed.token)?;
            return Ok(Confirmed::Kept(time_left(&armed)));
        }
        undo_and_tell(host, lock, armed, &Reason::CutShort).map_err(too_late)?;
    }
    // The guard may have been quicker, or it was this very call that came too late.
    let Some(undone) = last_undone(host, state)? else { return Ok(Confirmed::Nothing) };
    state.forget_undone(lock)?;
    Ok(Confirmed::TooLate(undone))
}

/// The last change of this boot that was undone because nobody confirmed it.
///
/// # Errors
/// Fails if the state directory can't be read.
pub fn last_undone(host: &dyn HostRead, state: &StateDir) -> Result<Option<Undone>> {
    let boot = host.identity().boot_id;
    Ok(state.undone()?.filter(|undone| undone.host.boot_id == boot))
}

/// Undoes everything that is in force here, and with it what waits to be confirmed, unless that is
/// another network namespace's.
pub(super) fn roll_back(host: &dyn HostWrite, lock: &Lock, force: bool) -> Result<RolledBack> {
    let state = lock.state();
    let attempt = roll_back_since(host, lock, 0, force)?;
    let ours = |armed: &Armed| armed.host == host.identity() || is_due(host, armed, &System);
    if let Some(mut armed) = state.armed()?.filter(ours) {
        if attempt.is_over() {
            state.disarm(lock, armed.token)?;
        } else {
            // Its guard tries again, and need not wait for the deadline.
            let mut undoing = Undoing::begun("rolled back by hand");
            undoing.restored = attempt.done.restored.len();
            undoing.left = attempt.error().map(|e| e.to_string());
            mark(lock, &mut armed, undoing);
        }
    }
    state.forget_undone(lock)?;
    attempt.into_result()
}

fn is_due(host: &dyn HostRead, armed: &Armed, clock: &dyn Clock) -> bool {
    match place(host, &armed.host) {
        // Its settings are gone with that boot, and its clock means nothing.
        Whereabouts::EarlierBoot => true,
        // Only what is in there can undo it.
        Whereabouts::OtherNamespace => false,
        Whereabouts::Here | Whereabouts::GoneNamespace => {
            armed.undoing.is_some() || milliseconds(clock.boottime()) >= armed.deadline_ms
        }
    }
}

/// Marks a change as being undone: from here on it is too late for `confirm`, also where the deadline
/// has not come yet.
fn mark(lock: &Lock, armed: &mut Armed, undoing: Undoing) {
    // That we have the lock says that a process which tried settings does not hold it any more.
    (armed.undoing, armed.holder) = (Some(undoing), None);
    if let Err(e) = lock.state().arm(lock, armed) {
        // A full disk must not keep the router from being restored.
        log::warn!("{e}");
    }
}

/// Rolls back what was made since the change was armed, and disarms it once nothing is left that
/// another try could restore.
fn undo(
    host: &dyn HostWrite,
    lock: &Lock,
    armed: &mut Armed,
    reason: &Reason,
) -> Result<(Undone, Attempt)> {
    let state = lock.state();
    let begun = armed.undoing.take();
    let mut undoing = begun.unwrap_or_else(|| Undoing::begun(reason.words()));
    mark(lock, armed, undoing.clone());
    let attempt = roll_back_since(host, lock, armed.after, false)?;
    let error = attempt.error();
    undoing.restored += attempt.done.restored.len();
    undoing.left = error.as_ref().map(ToString::to_string);
    if let Some(error) = error
        && !attempt.is_over()
    {
        mark(lock, armed, undoing);
        return Err(error);
    }
    let undone = Undone {
        at_ms: milliseconds(clock::boottime()),
        host: armed.host.clone(),
        why: undoing.why,
        restored: undoing.restored,
        left: undoing.left,
    };
    if let Err(e) = state.keep_undone(lock, &undone) {
        // The router is back; that nobody will learn why is the smaller harm.
        log::warn!("{e}");
    }
    state.disarm(lock, armed.token)?;
    Ok((undone, attempt))
}

fn undo_and_tell(
    host: &dyn HostWrite,
    lock: &Lock,
    mut armed: Armed,
    reason: &Reason,
) -> Result<RolledBack> {
    undo(host, lock, &mut armed, reason)?.1.into_result()
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::change::apply::Changer;
    use crate::machine::host::FakeHost;
    use crate::model::cpuset::CpuSet;
    use crate::model::knob::{Knob, Value};
    use crate::model::plan::{Candidate, Change};
    use crate::model::units::CpuId;

    fn one_setting() -> Candidate {
        let value = Value::Cpus(CpuSet::single(CpuId(1)));
        let knob = Knob::RpsCpus { device: "eth0".into(), queue: 0 };
        let change = Change { knob, before: value.clone(), after: value, reason: "a test".into() };
        let name = || "test".to_owned();
        Candidate { name: name(), title: name(), reason: name(), settings: vec![change] }
    }

    /// Both guards wake at the deadline. The first undoes all of it, files included, between the
    /// second one's look at the arming and its look at the journals.
    #[test]
    fn what_the_other_guard_has_undone_between_two_looks_is_not_written_anew() {
        let dir = crate::machine::testing::scratch("two-guards");
        let (fake, state) = (FakeHost::router(2, &[("eth0", 1)]), StateDir::at(dir.join("state")));
        let old = fake.content();
        let look = |_: &dyn HostRead| fake.snapshot();
        let mut changer = Changer::begin(&fake, &state, "apply", Duration::ZERO, look).unwrap();
        let armed = arm(&fake, changer.lock(), Duration::from_secs(60), Vec::new()).unwrap();
        changer.apply(&one_setting(), &AtomicBool::new(false)).unwrap();
        drop(changer);
        let (mut known, clock) = (Memory::of(armed.clone()), System);
        let guard = Guard {
            host: &fake,
            state: &state,
            clock: &clock,
            remembers: &mut || {},
            lost: &mut || None,
            failed: &mut |e| panic!("{e}"),
        };
        assert!(guard.still_waits(&mut known, None), "it has the journals in memory now");
        let seen = state.armed();
        assert!(matches!(&seen, Ok(Some(now)) if now.token == armed.token));
        let lock = state.lock("dead-man").unwrap();
        undo(&fake, &lock, &mut armed.clone(), &Reason::Overdue).unwrap();
        drop(lock);
        assert!(guard.goes_on(seen, &mut known, None), "as far as it saw");
        assert_eq!(state.journals().unwrap().whole, [], "the journal is not written anew");
        assert!(!guard.still_waits(&mut known, None), "the next look settles it");
        assert_eq!(fake.content(), old);
        let undone = state.undone().unwrap().unwrap();
        assert_eq!((undone.restored, state.armed().unwrap()), (1, None));
        assert!(!state.path().join("journal-0001").exists() && Path::new(&dir).exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
