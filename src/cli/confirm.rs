//! `linerate confirm`, the guard that undoes what nobody confirms, and what every other verb has to
//! do with a change that waits.

use std::path::Path;
use std::time::Duration;

use super::args::{ApplyArgs, Verb};
use super::context::Context;
use crate::apply::deadman::{self, Watch};
use crate::apply::probe::{self, Before, Watcher};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{HostRead, HostWrite, clock};
use crate::store::deadman::{Armed, Target, Undone};
use crate::store::{self, Lock, StateDir};
use crate::sys::spawn;

/// How long `confirm` and `rollback` wait for whoever holds the lock: an `apply` at its last writes, or the guard
/// that was quicker.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `confirm`.
pub(super) fn run(context: &Context) -> Result<ExitCode> {
    let host = context.live("confirm")?;
    let state = store::state_dir();
    if state.armed()?.is_none() && undone(host, &state)?.is_none() {
        return Err(nothing_waits());
    }
    let lock = lock_patiently(&state, "confirm")?;
    if deadman::undo_overdue(host, &lock)?.is_none()
        && let Some(armed) = state.armed()?
    {
        if armed.host != host.identity() {
            return Err(waits_elsewhere("confirm"));
        }
        state.disarm(&lock)?;
        let left = left(&armed).as_secs_f64();
        context.out.say(format_args!("kept, {left:.0} s before it would have been undone"));
        return Ok(ExitCode::Done);
    }
    // The guard may have been quicker, or it was this very call that came too late.
    let told = undone(host, &state)?.ok_or_else(nothing_waits)?;
    state.forget_undone(&lock)?;
    Err(Error::new(ExitCode::RolledBack, "confirm", format!("too late: {}", sentence(&told)))
        .hint("nothing of it is in force; to make it again: linerate apply"))
}

fn nothing_waits() -> Error {
    Error::usage("confirm", "nothing waits to be confirmed")
        .hint("linerate status tells what is in force")
}

fn waits_elsewhere(verb: &str) -> Error {
    Error::usage(verb, "a change in another network namespace waits to be confirmed")
        .hint("linerate confirm or rollback there: ip netns exec NAME linerate ...")
}

/// The lock, waiting a little for whoever has it.
pub(super) fn lock_patiently(state: &StateDir, verb: &str) -> Result<Lock> {
    let end = clock::monotonic() + PATIENCE;
    loop {
        match state.lock(verb) {
            Err(e) if e.code() == ExitCode::Usage && clock::monotonic() < end => {
                clock::sleep(Duration::from_millis(50));
            }
            answer => return answer,
        }
    }
}

/// What was undone for want of a `confirm`, in this boot.
pub(super) fn undone(host: &dyn HostRead, state: &StateDir) -> Result<Option<Undone>> {
    let boot = host.identity().boot_id;
    Ok(state.undone()?.filter(|undone| undone.host.boot_id == boot))
}

/// What was undone, when and why.
pub(super) fn sentence(undone: &Undone) -> String {
    let ago = clock::boottime().saturating_sub(Duration::from_millis(undone.at_ms)).as_secs();
    let what = match &undone.left {
        None => format!("{} settings were put back", undone.restored),
        Some(error) => error.clone(),
    };
    format!("undone {ago} s ago, {}: {what}", undone.why)
}

/// The right to change something, for every verb that does: what is overdue is undone first, and
/// while a change waits to be confirmed nothing else is begun.
///
/// # Errors
/// As [`StateDir::lock`]; usage while a change waits; rollback incomplete.
pub(super) fn lock(context: &Context, verb: &str) -> Result<Lock> {
    let host = context.live(verb)?;
    let lock = store::state_dir().lock(verb)?;
    undo_overdue(context, &lock)?;
    let Some(armed) = lock.state().armed()? else { return Ok(lock) };
    if armed.host != host.identity() {
        return Err(waits_elsewhere(verb));
    }
    let left = left(&armed).as_secs_f64();
    Err(Error::usage(verb, format!("a change waits to be confirmed, for {left:.0} s more"))
        .hint("linerate confirm keeps it, linerate rollback undoes it; then try again"))
}

/// After everything here was rolled back: nothing waits to be confirmed any more, unless it is
/// another network namespace's.
pub(super) fn no_longer_waits(host: &dyn HostRead, lock: &Lock) -> Result<()> {
    let state = lock.state();
    let overdue = deadman::overdue(host, state)?.is_some();
    if overdue || state.armed()?.is_some_and(|armed| armed.host == host.identity()) {
        state.disarm(lock)?;
    }
    state.forget_undone(lock)
}

/// Arms the dead-man and starts its guard; to be called before the first write.
pub(super) fn arm(context: &Context, lock: &Lock, args: &ApplyArgs, seconds: f64) -> Result<Armed> {
    let host = context.live("apply --confirm")?;
    let watched = watched(context, host, args);
    let armed = deadman::arm(host, lock, Duration::from_secs_f64(seconds), watched)?;
    start_guard(lock, &armed)?;
    Ok(armed)
}

/// Arms the dead-man for a run that tries settings on this machine while it holds `lock`.
pub(super) fn arm_trial(context: &Context, lock: &Lock, wait: Duration) -> Result<Armed> {
    let armed = deadman::arm_trial(context.live("tune")?, lock, wait)?;
    start_guard(lock, &armed)?;
    Ok(armed)
}

fn start_guard(lock: &Lock, armed: &Armed) -> Result<()> {
    match spawn::detached(&["dead-man".to_owned(), armed.token.to_string()]) {
        Ok(()) => Ok(()),
        Err(e) => {
            lock.state().disarm(lock)?;
            Err(Error::not_supported("start the guard that undoes what is not confirmed", e)
                .hint("nothing was changed"))
        }
    }
}

/// What answers before the change: only that can be lost by it.
fn watched(context: &Context, host: &dyn HostRead, args: &ApplyArgs) -> Vec<Target> {
    if args.no_probe {
        return Vec::new();
    }
    let asked_for = !args.probe.is_empty();
    let targets = if asked_for { args.probe.clone() } else { probe::gateways(host) };
    let out = &context.out;
    let mut watched = Vec::new();
    for (target, before) in probe::ask(targets) {
        let why = match before {
            Before::Answers => {
                watched.push(target);
                continue;
            }
            Before::AsNeighbour => {
                out.say(out.dim(format_args!(
                    "{target} answers no ping: it is asked for its hardware address instead (ARP, \
                     neighbour discovery)"
                )));
                watched.push(Target { as_neighbour: true, ..target });
                continue;
            }
            Before::Silent => "it does not answer now".to_owned(),
            Before::Unasked(why) => why,
        };
        let told = format!("{target} is not watched: {why}");
        out.say(if asked_for { out.warn(told) } else { out.dim(told) });
    }
    if !watched.is_empty() {
        out.say(out.dim(format_args!(
            "watching {}: undone early after {} s without an answer, or some more while a port has \
             no carrier or its bridge does not forward yet",
            names(&watched),
            probe::EVERY.as_secs() * u64::from(probe::MISSES)
        )));
    }
    watched
}

/// Targets in a row.
pub(super) fn names(targets: &[Target]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
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
        undone.notes.iter().for_each(|note| context.out.say(note));
    }
    Ok(())
}

/// Verbs that change nothing name what is overdue; those that do undo it when they take the lock.
pub(super) fn name_overdue(context: &Context, verb: &Verb) {
    let reads = matches!(
        verb,
        Verb::Show(_) | Verb::Plan(_) | Verb::Verify(_) | Verb::Capture(_) | Verb::Report(_)
    );
    // A captured machine is another one; and who can't read the state directory can't know.
    let Ok(host) = context.live("look") else { return };
    let state = store::state_dir();
    let late = if reads { deadman::overdue(host, &state).ok().flatten() } else { None };
    if let Some(armed) = late {
        context.out.say(context.out.warn(late_by(&armed)));
    }
}

/// That a change is overdue, and what to do.
pub(super) fn late_by(armed: &Armed) -> String {
    let late = clock::boottime().saturating_sub(Duration::from_millis(armed.deadline_ms));
    format!(
        "a change that was never confirmed is still in force, {} s after its deadline; undo it: \
         linerate rollback",
        late.as_secs()
    )
}

/// The guard itself. It has no terminal; what it did goes to the kernel's log, and to whoever says
/// `confirm` or `status`.
pub(super) fn guard(context: &Context, token: u64) -> Result<ExitCode> {
    let host = context.live("dead-man")?;
    let state = store::state_dir();
    let targets = state.armed()?.map(|armed| armed.watched).unwrap_or_default();
    let mut watcher = Watcher::new(host, &targets);
    let outcome = deadman::watch(host, &state, token, &mut || watcher.lost(host));
    let told = match &outcome {
        Ok(Watch::Settled) => return Ok(ExitCode::Done),
        Ok(Watch::Undone(undone)) => {
            format!("{}: {} settings restored to what they were", undone.why, undone.restored)
        }
        Err(e) => format!("a change that nobody confirmed: {e}"),
    };
    if let Err(e) = host.write(Path::new("/dev/kmsg"), format!("linerate: {told}\n").as_bytes()) {
        log::warn!("{e}");
    }
    outcome.map(|_| ExitCode::Done)
}
