//! `linerate confirm`, and the guard that undoes what nobody confirms.

use std::path::Path;
use std::time::Duration;

use super::context::Context;
use crate::apply::deadman::{self, Watch};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{HostWrite, clock};
use crate::store;
use crate::store::Lock;
use crate::store::deadman::Armed;
use crate::sys::spawn;

/// Runs `confirm`.
pub(super) fn run(context: &Context) -> Result<ExitCode> {
    context.live("confirm")?;
    let state = store::state_dir();
    let none = || {
        Error::usage("confirm", "nothing waits to be confirmed")
            .hint("linerate status tells what is in force")
    };
    if state.armed()?.is_none() {
        return Err(none());
    }
    let lock = state.lock("confirm")?;
    // The guard may have been quicker.
    let armed = state.armed()?.ok_or_else(none)?;
    state.disarm(&lock)?;
    let left = left(&armed).as_secs_f64();
    context.out.say(format_args!("kept, {left:.0} s before it would have been undone"));
    Ok(ExitCode::Done)
}

/// Arms the dead-man and starts its guard; to be called before the first write.
pub(super) fn arm(context: &Context, lock: &Lock, seconds: f64) -> Result<Armed> {
    let host = context.live("apply --confirm")?;
    let armed = deadman::arm(host, lock, Duration::from_secs_f64(seconds))?;
    match spawn::detached(&["dead-man".to_owned(), armed.token.to_string()]) {
        Ok(()) => Ok(armed),
        Err(e) => {
            lock.state().disarm(lock)?;
            Err(Error::not_supported("start the guard of apply --confirm", e)
                .hint("nothing was changed; without --confirm no guard is needed"))
        }
    }
}

/// How long until it is undone.
pub(super) fn left(armed: &Armed) -> Duration {
    Duration::from_millis(armed.deadline_ms).saturating_sub(clock::boottime())
}

/// Undoes what is overdue because its guard was killed, and says so.
pub(super) fn undo_overdue(context: &Context, lock: &Lock) -> Result<()> {
    let host = context.live("roll back")?;
    if let Some(undone) = deadman::undo_overdue(host, lock)? {
        context.out.say(format_args!(
            "a change that was never confirmed is undone now: {} settings restored",
            undone.restored.len()
        ));
    }
    Ok(())
}

/// The guard itself. It has no terminal; what it did goes to the kernel's log.
pub(super) fn guard(context: &Context, token: u64) -> Result<ExitCode> {
    let host = context.live("dead-man")?;
    let outcome = deadman::watch(host, &store::state_dir(), token);
    let told = match &outcome {
        Ok(Watch::Settled) => return Ok(ExitCode::Done),
        Ok(Watch::Undone(undone)) => format!(
            "not confirmed in time: {} settings restored to what they were",
            undone.restored.len()
        ),
        Err(e) => format!("not confirmed in time: {e}"),
    };
    if let Err(e) = host.write(Path::new("/dev/kmsg"), format!("linerate: {told}\n").as_bytes()) {
        log::warn!("{e}");
    }
    outcome.map(|_| ExitCode::Done)
}
