//! Handling of a change that waits to be confirmed, for every verb.

use std::time::Duration;

use super::second;
#[cfg(feature = "measure")]
use crate::change::apply::Hold;
use crate::change::apply::deadman;
use crate::change::apply::probe::{self, Before};
use crate::cli::context::Context;
use crate::error::{Error, Result};
use crate::machine::host::{HostRead, clock};
use crate::machine::store::deadman::{Armed, Target, Undone};
use crate::machine::store::{self, Lock};
use crate::machine::sys::spawn;

/// Time that a verb which ends something waits for whoever holds the lock: an `apply` at its last
/// writes, or the guard that was quicker.
pub(in crate::cli) const PATIENCE: Duration = Duration::from_secs(5);

/// Says what was undone, when and why.
pub(in crate::cli) fn sentence(undone: &Undone) -> String {
    let ago = clock::boottime().saturating_sub(Duration::from_millis(undone.at_ms)).as_secs();
    let what = match &undone.left {
        None => format!("{} settings were put back", undone.restored),
        Some(error) => error.clone(),
    };
    format!("undone {ago} s ago, {}: {what}", undone.why)
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

/// Arms the dead-man and starts its guard; to be called before the first write.
pub(in crate::cli) fn arm(
    context: &Context,
    lock: &Lock,
    probes: &Probes<'_>,
    seconds: f64,
) -> Result<Armed> {
    let host = context.live("apply --confirm")?;
    let watched = watched(context, host, probes);
    let armed = deadman::arm(host, lock, Duration::from_secs_f64(seconds), watched)?;
    start_guard(host, lock, &armed)?;
    Ok(armed)
}

/// Arms the dead-man for a run that tries settings on this machine while it holds `lock`.
#[cfg(feature = "measure")]
pub(in crate::cli) fn arm_trial(context: &Context, lock: &Lock, wait: Duration) -> Result<Armed> {
    let host = context.live("tune")?;
    let armed = deadman::arm_trial(host, lock, wait)?;
    start_guard(host, lock, &armed)?;
    Ok(armed)
}

fn start_guard(host: &dyn HostRead, lock: &Lock, armed: &Armed) -> Result<()> {
    let first = spawn::detached(&["dead-man".to_owned(), armed.token.to_string()]);
    match first.and_then(|()| second::start(host, armed)) {
        Ok(()) => Ok(()),
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
