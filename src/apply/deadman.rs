//! Undone unless confirmed: for a change that may cut off whoever made it.
//!
//! ```text
//!   apply --confirm 60s ─▶ arm (file) ─▶ guard (a process of its own) ─▶ apply
//!                            │              │ every 100 ms: is the file still there?
//!                            │              │ every second: do the gateways still answer?
//!   confirm ─▶ disarm ───────┘              └ deadline, or silence: lock, roll back, read back,
//!                                             keep the reason, disarm
//! ```
//!
//! The guard is in a session of its own, so it outlives the terminal and its parent, however that
//! ends. Should the guard itself be killed, the next call that may write finds the change overdue
//! and undoes it. While a change waits, nothing else may be begun: what was never confirmed must
//! not become permanent because something else was put on top of it, and nothing may hold the lock
//! when the deadline comes.

use std::time::Duration;

use super::place::{Place, place};
use super::rollback::{RolledBack, rollback_since};
use crate::error::Result;
use crate::host::{HostRead, HostWrite, clock};
use crate::store::deadman::{Armed, Target, Undone};
use crate::store::{Lock, StateDir};
use crate::sys::process;

/// How often the guard looks; a deadline is missed by no more than this and the writes.
const LOOK: Duration = Duration::from_millis(100);

/// How long a process that tries settings has to put them back itself when its time is over.
const MERCY: Duration = Duration::from_secs(10);

/// How the guard's watch ended.
#[derive(Debug)]
pub enum Watch {
    /// It was confirmed, undone by hand, or replaced by a later change.
    Settled,
    /// It was undone, and why.
    Undone(Undone),
}

/// Arms the dead-man for what is about to be applied under `lock`.
///
/// # Errors
/// When the state directory can't be used.
pub fn arm(
    host: &dyn HostWrite,
    lock: &Lock,
    wait: Duration,
    watched: Vec<Target>,
) -> Result<Armed> {
    let deadline = clock::boottime() + wait;
    let armed = Armed {
        token: fastrand::u64(..),
        deadline_ms: milliseconds(deadline),
        host: host.identity(),
        after: lock.state().newest_journal()?,
        watched,
        holder: None,
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
/// When the state directory can't be used.
pub fn arm_trial(host: &dyn HostWrite, lock: &Lock, wait: Duration) -> Result<Armed> {
    let mut armed = arm(host, lock, wait, Vec::new())?;
    armed.holder = Some(std::process::id());
    lock.state().arm(lock, &armed)?;
    Ok(armed)
}

/// Moves the deadline to `wait` from now.
///
/// # Errors
/// When the state directory can't be used.
pub fn put_off(lock: &Lock, armed: &mut Armed, wait: Duration) -> Result<()> {
    armed.deadline_ms = milliseconds(clock::boottime() + wait);
    lock.state().arm(lock, armed)
}

/// Undoes what was made since it was armed, and takes it away.
///
/// # Errors
/// Rollback incomplete (exit 8).
pub fn give_up(host: &dyn HostWrite, lock: &Lock, armed: &Armed, why: &str) -> Result<RolledBack> {
    undo(host, lock, armed, why.to_owned()).map(|(rolled, _)| rolled)
}

/// The guard: waits for the end of `token`'s time, or for `lost` to name a reason to wait no
/// longer, and undoes what was not confirmed. It gives up for no reason but that somebody else
/// settled it: as long as the change waits, nobody else would undo it.
///
/// # Errors
/// Rollback incomplete (exit 8); when the state directory can't be read at the start.
pub fn watch(
    host: &dyn HostWrite,
    state: &StateDir,
    token: u64,
    lost: &mut dyn FnMut() -> Option<String>,
) -> Result<Watch> {
    let Some(mut armed) = state.armed()?.filter(|a| a.token == token) else {
        return Ok(Watch::Settled);
    };
    // Its deadline and its holder may have changed.
    let mine = |armed: &mut Armed| match state.armed() {
        Ok(Some(now)) if now.token == token => {
            *armed = now;
            true
        }
        Ok(_) => false,
        // Out of memory or descriptors, say: no reason to believe that it was confirmed.
        Err(_) => true,
    };
    let why = loop {
        if !mine(&mut armed) {
            return Ok(Watch::Settled);
        }
        if is_due(host, &armed) {
            break "not confirmed in time".to_owned();
        }
        if armed.holder.is_some()
            && let Ok(lock) = state.lock("dead-man")
        {
            if !mine(&mut armed) {
                return Ok(Watch::Settled);
            }
            // Between the two looks it may have been handed over to whoever confirms.
            if armed.holder.is_some() {
                let why = "the program that tried it ended without putting it back";
                let (_, undone) = undo(host, &lock, &armed, why.to_owned())?;
                return Ok(Watch::Undone(undone));
            }
        }
        if let Some(why) = lost() {
            break why;
        }
        clock::sleep(LOOK);
    };
    let late = clock::monotonic();
    let mut told = None;
    let lock = loop {
        match state.lock("dead-man") {
            Ok(lock) => break lock,
            // Whoever has the lock now may be confirming.
            Err(_) if !mine(&mut armed) => return Ok(Watch::Settled),
            Err(_) => clock::sleep(LOOK / 4),
        }
        // As long as the lock is taken its holder is alive, so the number still is its own.
        if let Some(holder) = armed.holder.filter(|_| is_due(host, &armed)) {
            let kill = clock::monotonic().saturating_sub(late) > MERCY;
            if told != Some(kill) {
                told = Some(kill);
                process::end(holder, kill);
            }
        }
    };
    if !mine(&mut armed) {
        return Ok(Watch::Settled);
    }
    let (_, undone) = undo(host, &lock, &armed, why)?;
    Ok(Watch::Undone(undone))
}

/// The change of this machine and network namespace whose time is over and whose guard did not
/// undo it. Needs no lock: its guard may be about to.
///
/// # Errors
/// When the state directory can't be read.
pub fn overdue(host: &dyn HostRead, state: &StateDir) -> Result<Option<Armed>> {
    Ok(state.armed()?.filter(|armed| is_due(host, armed)))
}

/// Undoes what is [`overdue`]. `None` when nothing is.
///
/// # Errors
/// Rollback incomplete (exit 8).
pub fn undo_overdue(host: &dyn HostWrite, lock: &Lock) -> Result<Option<RolledBack>> {
    // Who tries settings holds the lock: that we have it says that nobody does any more.
    let orphan = lock
        .state()
        .armed()?
        .filter(|a| a.holder.is_some() && !matches!(place(host, &a.host), Place::OtherNamespace));
    match overdue(host, lock.state())?.or(orphan) {
        Some(armed) => {
            let why = "not confirmed in time, and its guard was gone";
            undo(host, lock, &armed, why.into()).map(|(rolled, _)| Some(rolled))
        }
        None => Ok(None),
    }
}

fn is_due(host: &dyn HostRead, armed: &Armed) -> bool {
    match place(host, &armed.host) {
        // Its settings are gone with that boot, and its clock means nothing.
        Place::EarlierBoot => true,
        // Only what is in there can undo it.
        Place::OtherNamespace => false,
        Place::Here | Place::GoneNamespace => milliseconds(clock::boottime()) >= armed.deadline_ms,
    }
}

fn undo(
    host: &dyn HostWrite,
    lock: &Lock,
    armed: &Armed,
    why: String,
) -> Result<(RolledBack, Undone)> {
    let rolled = rollback_since(host, lock, armed.after, false);
    let undone = Undone {
        at_ms: milliseconds(clock::boottime()),
        host: armed.host.clone(),
        why,
        restored: rolled.as_ref().map_or(0, |rolled| rolled.restored.len()),
        left: rolled.as_ref().err().map(ToString::to_string),
    };
    if let Err(e) = lock.state().keep_undone(lock, &undone) {
        // The router is back; that nobody will be told why is the smaller harm.
        log::warn!("{e}");
    }
    // Whatever could not be undone is in its journal; the dead-man has nothing more to try.
    lock.state().disarm(lock)?;
    rolled.map(|rolled| (rolled, undone))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
