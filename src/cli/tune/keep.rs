//! `tune` on this router itself: every setting under the dead-man, and what was shown to be better
//! stays.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::args::{FactorArg, TuneArgs};
use super::choose::Menu;
use super::{finish, measure, resolve};
use crate::cli::confirm;
use crate::cli::context::Context;
use crate::cli::fit::Given;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::experiment::Decision;
use crate::model::goal::{Goal, Quantity};
use crate::model::measurement::{Direction, Experiment};
use crate::plan::{self, Costs};
use crate::store;
use crate::tune::{Router, ServerLoad, Source};

/// Over the time that a cell takes when all is well: its server may be busy for a while, services
/// take time to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the command on this machine.
pub(super) fn run(
    context: &Context,
    args: &TuneArgs,
    given: &Given,
    goal: &Goal,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let out = &context.out;
    for quantity in [Quantity::P99, Quantity::Headroom] {
        if goal.needs(quantity) {
            return Err(Error::usage(
                "tune --server",
                format!("{} is only measured in a lab", quantity.title()),
            )
            .hint("here there are throughput, pps, cpu and temperature"));
        }
    }
    let server = resolve(args.server.as_deref().unwrap_or_default())?;
    let lock = confirm::lock(context, &format!("tune --server {server}"))?;
    let mut router = Router::here(lock)?;
    router.notes.iter().for_each(|note| out.say(note));
    if args.factor.contains(&FactorArg::List) {
        Menu::of(&router, Costs::DEFAULT, args).list(out)?;
        return Ok(ExitCode::Done);
    }
    out.say(out.dim(
        "this measures the router's own traffic with the server: nothing is forwarded, so what costs \
         forwarding alone (NAT, rules, flow offload) shows little",
    ));
    let source = ServerLoad::new(&router, server, args.load.spec(Direction::Down));
    source.check(stop)?;
    let cell = Duration::from_secs_f64(args.load.seconds + args.load.omit);
    let directions = u32::try_from(args.directions.len()).unwrap_or(1);
    let reach = (cell + Duration::from_secs(2)) * directions + PATIENCE;
    router.tie(confirm::arm_trial(context, router.lock(), reach)?, reach);
    let measured = measure(args, given, &router, &source, goal, out, stop);
    out.progress_done();
    let experiment = match measured {
        Ok(experiment) => experiment,
        Err(e) => {
            // Everything is as found again, or its journal says what is not.
            router.untie()?;
            return Err(e);
        }
    };
    let (code, decision) = match finish(context, args, &experiment, stop) {
        Ok(done) => done,
        Err(e) => {
            router.untie()?;
            return Err(e);
        }
    };
    if code == ExitCode::Interrupted || !args.apply {
        router.untie()?;
        if let (Decision::Apply { candidate }, false) = (&decision, args.apply) {
            out.say(format_args!(
                "left as found; {candidate} is better: tune --apply would keep it"
            ));
        }
        return Ok(code);
    }
    match decision {
        Decision::Leave { why } => {
            router.untie()?;
            out.say(out.warn(format_args!("left as found: {why}")));
            Ok(code)
        }
        Decision::Apply { candidate } => {
            apply(context, args, &mut router, &source, &experiment, &candidate, stop)?;
            Ok(code)
        }
    }
}

/// Applies the best, tries it once more, and only then lets the dead-man go.
fn apply(
    context: &Context,
    args: &TuneArgs,
    router: &mut Router,
    source: &dyn Source,
    experiment: &Experiment,
    name: &str,
    stop: &AtomicBool,
) -> Result<()> {
    let out = &context.out;
    let Some(best) = experiment.candidates.iter().find(|c| c.name == name) else {
        return router.untie();
    };
    let applied = match router.apply(best, stop) {
        Ok(applied) => applied,
        Err(e) => {
            router.untie()?;
            return Err(e);
        }
    };
    applied.notes.iter().for_each(|note| out.say(note));
    let tried = try_out(source, &experiment.directions, stop);
    if let Some(why) = tried {
        router.give_up(&why)?;
        return Err(Error::new(
            if stop.load(Ordering::Relaxed) { ExitCode::Interrupted } else { ExitCode::RolledBack },
            format!("keep {name}"),
            format!("{why}; everything is as found again"),
        ));
    }
    let mut plan = plan::plan_for(router.snapshot(), best.clone());
    plan.candidate.name = best.name.replace(' ', "+");
    let written = store::plan::write(&args.plan, &plan);
    match args.confirm {
        Some(wait) => {
            router.hand_over(Duration::from_secs_f64(wait))?;
            out.say(out.warn(format_args!(
                "{name} is in force: {} settings; undone in {wait:.0} s unless you say: linerate confirm",
                applied.writes.len()
            )));
        }
        None => {
            router.untie()?;
            out.say(out.good(format_args!(
                "{name} is in force: {} settings, tried once more and kept until the next boot",
                applied.writes.len()
            )));
        }
    }
    written?;
    out.say(format_args!(
        "undo: linerate rollback; keep it over reboots: linerate persist {}",
        args.plan.display()
    ));
    Ok(())
}

/// What is wrong with what is in force, if anything.
fn try_out(source: &dyn Source, directions: &[Direction], stop: &AtomicBool) -> Option<String> {
    for &direction in directions {
        match source.measure(direction, stop) {
            Err(e) => return Some(e.to_string()),
            Ok(measured) => {
                if let Some(refusal) = measured.refusals.first() {
                    return Some(format!("{direction}: {}", refusal.why));
                }
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Some("interrupted".into());
        }
    }
    None
}
