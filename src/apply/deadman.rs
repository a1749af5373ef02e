//! Undone unless confirmed: for a change that may cut off whoever made it.
//!
//! ```text
//!   apply --confirm 60s ─▶ arm (file) ─▶ guard (a process of its own) ─▶ apply
//!                            │              │ every 100 ms: is the file still there?
//!   confirm ─▶ disarm ───────┘              └ deadline: lock, roll back, read back, disarm
//! ```
//!
//! The guard is in a session of its own, so it outlives the terminal and its parent, however that
//! ends. Should the guard itself be killed, the next `apply` finds the change overdue.

use std::time::Duration;

use super::rollback::{RolledBack, rollback_since};
use crate::error::Result;
use crate::host::{HostWrite, clock};
use crate::store::deadman::Armed;
use crate::store::{Lock, StateDir};

/// How often the guard looks; a deadline is missed by no more than this and the writes.
const LOOK: Duration = Duration::from_millis(100);

/// How the guard's watch ended.
#[derive(Debug)]
pub enum Watch {
    /// It was confirmed, undone by hand, or replaced by a later change.
    Settled,
    /// The deadline came, and everything was put back.
    Undone(RolledBack),
}

/// Arms the dead-man for what is about to be applied under `lock`.
///
/// # Errors
/// When the state directory can't be used.
pub fn arm(host: &dyn HostWrite, lock: &Lock, wait: Duration) -> Result<Armed> {
    let deadline = clock::boottime() + wait;
    let armed = Armed {
        token: fastrand::u64(..),
        deadline_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
        boot_id: host.identity().boot_id,
        after: lock.state().newest_journal()?,
    };
    lock.state().arm(lock, &armed)?;
    Ok(armed)
}

/// The guard: waits for the end of `token`'s time and undoes what was not confirmed.
///
/// # Errors
/// Rollback incomplete (exit 8); when the lock can't be had for ten seconds.
pub fn watch(host: &dyn HostWrite, state: &StateDir, token: u64) -> Result<Watch> {
    loop {
        let Some(armed) = state.armed()?.filter(|a| a.token == token) else {
            return Ok(Watch::Settled);
        };
        if is_due(host, &armed) {
            break;
        }
        clock::sleep(LOOK);
    }
    // Whoever has the lock now may be confirming.
    let patience = clock::boottime() + Duration::from_secs(10);
    let lock = loop {
        match state.lock("dead-man") {
            Ok(lock) => break lock,
            Err(e) if clock::boottime() > patience => return Err(e),
            Err(_) => clock::sleep(LOOK / 4),
        }
    };
    match state.armed()?.filter(|a| a.token == token) {
        Some(armed) => undo(host, &lock, &armed).map(Watch::Undone),
        None => Ok(Watch::Settled),
    }
}

/// Undoes a change whose time is over and whose guard did not do it. `None` when nothing is
/// overdue.
///
/// # Errors
/// Rollback incomplete (exit 8).
pub fn undo_overdue(host: &dyn HostWrite, lock: &Lock) -> Result<Option<RolledBack>> {
    match lock.state().armed()? {
        Some(armed) if is_due(host, &armed) => undo(host, lock, &armed).map(Some),
        _ => Ok(None),
    }
}

fn is_due(host: &dyn HostWrite, armed: &Armed) -> bool {
    // Of an earlier boot: its settings are gone with it, and its clock means nothing.
    armed.boot_id != host.identity().boot_id
        || clock::boottime() >= Duration::from_millis(armed.deadline_ms)
}

fn undo(host: &dyn HostWrite, lock: &Lock, armed: &Armed) -> Result<RolledBack> {
    let undone = rollback_since(host, lock, armed.after, false);
    // Whatever could not be undone is in its journal; the dead-man has nothing more to try.
    lock.state().disarm(lock)?;
    undone
}
