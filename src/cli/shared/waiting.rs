//! Handling of a change that waits to be confirmed, for every verb.

use std::io::PipeReader;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{second, session, syslog};
use crate::change::apply::deadman::{self, Confirmed};
use crate::change::apply::probe::{self, Before};
use crate::change::apply::{Hold, time_left};
use crate::cli::context::Context;
use crate::cli::interrupt;
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostRead, clock};
use crate::machine::store::deadman::{Armed, Target, Undone};
use crate::machine::store::{self, Lock, StateDir};
use crate::machine::sys::poll::{Wanted, is_ready};
use crate::machine::sys::spawn;
use crate::model::watch::Running;

/// Time that a verb which ends something waits for whoever holds the lock: an `apply` at its last
/// writes, or the guard that was quicker.
pub(in crate::cli) const PATIENCE: Duration = Duration::from_secs(5);

/// Time in which a guard, also of a machine that is busy, has looked at what was made.
const LOOKED: Duration = Duration::from_secs(2);

/// The watch that runs.
pub(in crate::cli) fn watching(host: &dyn HostRead, state: &StateDir) -> Option<Running> {
    let own = |running: &Running| {
        let comm = Path::new("/proc").join(running.pid.to_string()).join("comm");
        running.pid != std::process::id() && host.text(&comm).is_ok_and(|name| name == "linerate")
    };
    state.watching().filter(own)
}

/// Says what was undone, when and why.
pub(in crate::cli) fn sentence(undone: &Undone) -> String {
    let ago = ago(Duration::from_millis(undone.at_ms));
    let what = match &undone.left {
        None => format!("{} settings were put back", undone.restored),
        Some(error) => error.clone(),
    };
    format!("undone {ago} ago, {}: {what}", undone.why)
}

/// Time that has passed since `then` (CLOCK_BOOTTIME), in one unit.
pub(in crate::cli) fn ago(then: Duration) -> String {
    in_one_unit(clock::boottime().saturating_sub(then).as_secs())
}

/// A length of time in one unit.
pub(in crate::cli) fn in_one_unit(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Keeps the change that waits.
///
/// # Errors
/// Not supported (exit 5) where nothing waits; rolled back (exit 7) where it was too late.
pub(in crate::cli) fn confirm(context: &Context) -> Result<ExitCode> {
    let host = context.live("confirm")?;
    let state = store::state_dir();
    deadman::await_file(&state)?;
    if state.armed()?.is_none() && deadman::last_undone(host, &state)?.is_none() {
        return Err(nothing_waits());
    }
    let later = context.out.later();
    let confirmed = Hold::take(host, &state, "confirm", PATIENCE)?.confirm()?;
    later.print()?;
    match confirmed {
        Confirmed::Kept(left) => {
            syslog::note(context, "confirm: the change that waited is kept");
            let left = left.as_secs_f64();
            if context.out.json {
                let (format, version) = ("linerate-confirm", 1);
                context.out.json(&Kept { format, version, seconds_left: left })?;
            }
            context.out.say(format_args!("kept, {left:.0} s before it would have been undone"));
            Ok(ExitCode::Done)
        }
        Confirmed::TooLate(undone) => {
            let why = format!("too late: {}", sentence(&undone));
            Err(Error::new(ExitCode::RolledBack, "confirm", why)
                .hint("nothing of it is in force; to make it again: linerate apply --confirm 60"))
        }
        Confirmed::Nothing => Err(nothing_waits()),
    }
}

/// `confirm --json`.
#[derive(serde::Serialize)]
struct Kept {
    format: &'static str,
    version: u32,
    /// Time after which it would have been undone.
    seconds_left: f64,
}

fn nothing_waits() -> Error {
    Error::not_supported("confirm", "nothing waits to be confirmed")
        .hint("linerate status shows what is in force")
}

/// Counts down at the terminal until the change is confirmed, here by Enter or elsewhere, or undone,
/// here by Ctrl-C. The lock is free meanwhile, and the guard does not depend on what is read here.
///
/// # Errors
/// Rolled back (exit 7) where it was undone; interrupted (exit 130); as [`confirm`].
pub(in crate::cli) fn count_down(
    context: &Context,
    armed: &Armed,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let host = context.live("apply --confirm")?;
    let (out, state) = (&context.out, store::state_dir());
    let pressed = interrupt::ctrl_c()?;
    session::forget_typed();
    loop {
        deadman::await_file(&state)?;
        if state.armed()?.is_none_or(|now| now.token != armed.token) {
            break;
        }
        out.progress(match time_left(armed).as_secs() {
            0 => "not confirmed in time: it is being undone".to_owned(),
            left => format!("undone in {left} s; Enter keeps it, Ctrl-C undoes it now"),
        });
        let typed = session::is_line_typed();
        if stop.load(Ordering::Relaxed) {
            out.progress_done();
            // Whoever lost the terminal may come back by another way, and confirm.
            if !pressed.load(Ordering::Relaxed) {
                return Ok(ExitCode::Done);
            }
            let hold = Hold::take(host, &state, "apply --confirm", PATIENCE)?;
            deadman::give_up(host, hold.lock(), armed, "interrupted at its terminal")?;
            return Err(Error::interrupted("apply --confirm"));
        }
        if typed {
            out.progress_done();
            return match session::line() {
                Some(_) => confirm(context),
                None => Ok(ExitCode::Done),
            };
        }
    }
    out.progress_done();
    if let Some(undone) = deadman::last_undone(host, &state)? {
        return Err(Error::new(ExitCode::RolledBack, "apply --confirm", sentence(&undone)));
    }
    let mut journals = state.journals()?.whole.into_iter();
    if journals.any(|journal| journal.header.guarded == Some(armed.token)) {
        out.say("kept: it was confirmed elsewhere");
        return Ok(ExitCode::Done);
    }
    Err(Error::new(ExitCode::RolledBack, "apply --confirm", "it was rolled back elsewhere"))
}

/// The lock for a verb that measures: nothing waits to be confirmed, and nothing else is begun
/// meanwhile.
///
/// # Errors
/// As [`Hold::take`] and [`Hold::admit`].
#[cfg(feature = "measure")]
pub(in crate::cli) fn lock(context: &Context, verb: &str) -> Result<Hold<'static>> {
    let host = context.live(verb)?;
    let hold = Hold::take(host.clone(), &store::state_dir(), verb, Duration::ZERO)?;
    hold.admit()?.iter().for_each(|note| context.out.say(note));
    Ok(hold)
}

/// Addresses that are asked for an answer while a change waits.
pub(in crate::cli) enum Probes<'a> {
    /// Nothing.
    None,
    /// The default gateways.
    Gateways,
    /// These.
    Named(&'a [Target]),
}

/// Arms the dead-man and starts its guard, whose pipe is for [`await_memory`]; to be called before the
/// first write.
pub(in crate::cli) fn arm(
    context: &Context,
    lock: &Lock,
    probes: &Probes<'_>,
    seconds: f64,
) -> Result<(Armed, PipeReader)> {
    let host = context.live("apply --confirm")?;
    let watched = watched(context, host, probes);
    let armed = deadman::arm(host, lock, Duration::from_secs_f64(seconds), watched)?;
    let guard = start_guard(host, lock, &armed)?;
    Ok((armed, guard))
}

/// Waits until the guard has the journals of what was just made in memory, or is gone: from then on it
/// does not depend on their files.
pub(in crate::cli) fn await_memory(guard: &PipeReader) {
    if !is_ready(guard, Wanted::Read, LOOKED).is_ok_and(|done| done) {
        log::warn!("the guard has not looked at what was made yet");
    }
}

/// Arms the dead-man for a run that tries settings on this machine while it holds `lock`.
#[cfg(feature = "measure")]
pub(in crate::cli) fn arm_trial(context: &Context, lock: &Lock, wait: Duration) -> Result<Armed> {
    let host = context.live("tune")?;
    let armed = deadman::arm_trial(host, lock, wait)?;
    start_guard(host, lock, &armed)?;
    Ok(armed)
}

fn start_guard(host: &dyn HostRead, lock: &Lock, armed: &Armed) -> Result<PipeReader> {
    let first = spawn::detached(&["dead-man".to_owned(), armed.token.to_string()]);
    match first.and_then(|guard| second::start(host, armed).map(|()| guard)) {
        Ok(guard) => Ok(guard),
        Err(e) => {
            lock.state().disarm(lock, armed.token)?;
            Err(Error::not_supported("start the guard that undoes what is not confirmed", e)
                .hint("nothing was changed"))
        }
    }
}

/// Targets that answer before the change: only those can be lost by it.
fn watched(context: &Context, host: &dyn HostRead, probes: &Probes<'_>) -> Vec<Target> {
    let (asked_for, targets) = match probes {
        Probes::None => return Vec::new(),
        Probes::Gateways => (false, probe::gateways(host)),
        Probes::Named(targets) => (true, targets.to_vec()),
    };
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
pub(in crate::cli) fn names(targets: &[Target]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Verbs that change nothing name what is overdue; those that do undo it when they take the lock.
pub(in crate::cli) fn name_overdue(context: &Context) {
    // A captured machine is another one; and who can't read the state directory can't know.
    let Ok(host) = context.live("look") else { return };
    let late = deadman::overdue(host, &store::state_dir()).ok().flatten();
    if let Some(armed) = late {
        context.out.say(context.out.warn(late_by(&armed)));
    }
}

/// That a change is overdue, and what to do.
pub(in crate::cli) fn late_by(armed: &Armed) -> String {
    let late = clock::boottime().saturating_sub(Duration::from_millis(armed.deadline_ms));
    format!(
        "a change that was never confirmed is still in force, {} s after its deadline; undo it: \
         linerate rollback",
        late.as_secs()
    )
}
