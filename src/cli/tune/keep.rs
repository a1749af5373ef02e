//! `tune` on this router itself: every setting under the dead-man, and what was shown to be better
//! stays.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::args::{FactorArg, TuneArgs};
use super::{Job, finish, measure, text};
use crate::cli::context::Context;
use crate::cli::shared::hosts::SHARED;
use crate::cli::shared::loads::LoadArgs;
use crate::cli::shared::waiting;
use crate::decide::experiment::Decision;
use crate::decide::plan::{self, Costs};
use crate::error::{Error, ExitCode, Result};
use crate::measure::bench::hosts::Hosts;
use crate::measure::load::address::find;
use crate::measure::load::{LoadSpec, iperf3};
use crate::measure::tune::{BedLoad, Menu, Router, ServerLoad, Source};
use crate::model::goal::{Goal, Quantity};
use crate::model::measurement::{Direction, Experiment, RefusalCode};
use crate::{machine::store, measure::bench};

/// Over the time that a cell takes when all is well: its server may be busy for a while, services
/// take time to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Traffic that this router is loaded with.
enum Through {
    /// Traffic of its own with an iperf3 server, by name and address.
    Server(String, SocketAddr),
    /// Traffic that it forwards between two agents.
    Hosts(Box<Hosts>),
}

impl Through {
    fn of(context: &Context, args: &TuneArgs, goal: &Goal, stop: &AtomicBool) -> Result<Self> {
        if args.wire.hosts().is_some() {
            let remote = |why: &str| {
                Err(Error::usage("tune --lan --wan", why).hint(
                    "settings are tried out where the command runs: run it on the router, with \
                     --router here",
                ))
            };
            return match args.wire.router.as_deref() {
                Some("here") => {
                    let hosts = args.wire.connect(context, "tune", stop)?;
                    Ok(Self::Hosts(Box::new(hosts)))
                }
                Some(_) => remote("a router is not tuned from afar"),
                None => remote("it must run on the router itself"),
            };
        }
        for quantity in [Quantity::P99, Quantity::Headroom] {
            if goal.needs(quantity) {
                let why = format!("{} is not measured with a server", quantity.title());
                return Err(Error::usage("tune --server", why).hint(
                    "it is in a lab, and between two hosts (--lan, --wan); here there are \
                     throughput, pps, cpu and temperature",
                ));
            }
        }
        let name = args.server.clone().unwrap_or_default();
        let server = find("server", &name, iperf3::PORT)?;
        Ok(Self::Server(name, server))
    }

    fn name(&self) -> String {
        match self {
            Self::Server(_, server) => format!("--server {server}"),
            Self::Hosts(wire) => format!("--wan {}", wire.address),
        }
    }

    /// The load, after a look at whether it gets through at all: before anything is set.
    fn source(&self, router: &Router, job: &Job<'_>) -> Result<(Box<dyn Source + '_>, LoadSpec)> {
        let Job { context, args, goal, stop, .. } = *job;
        let out = &context.out;
        let mut load = args.load.spec(Direction::Down);
        match self {
            Self::Server(name, server) => {
                out.say(out.dim(
                    "this measures the router's own traffic with the server: nothing is forwarded, \
                     so what costs forwarding alone (NAT, rules, flow offload) shows little",
                ));
                let source = ServerLoad::new(router, *server, name, load.clone());
                source.check(stop)?;
                Ok((Box::new(source), load))
            }
            Self::Hosts(wire) => {
                let runs = if let Some(earlier) = job.earlier {
                    // What is gone on with keeps its window.
                    load.seconds = load.seconds.max(earlier.scenario.seconds);
                    load.omit = load.omit.max(earlier.scenario.omit);
                    let short = LoadSpec { seconds: 0.5, omit: 0.0, ..load.clone() };
                    vec![bench::measure(wire.as_ref(), &short, stop)?]
                } else {
                    let (fitted, runs) =
                        bench::fitted(wire.as_ref(), &load, &args.directions, stop)?;
                    load = fitted;
                    runs
                };
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::interrupted("tune"));
                }
                let lacking = [RefusalCode::NoTraffic, RefusalCode::NoAcknowledgement];
                let mut refusals = runs.iter().flat_map(|run| &run.refusals);
                if let Some(refusal) = refusals.find(|r| lacking.contains(&r.code)) {
                    return Err(Error::new(ExitCode::Refused, "try the way once", &refusal.why)
                        .hint("nothing was set; linerate bench with the same hosts tells more"));
                }
                if wire.shared {
                    out.say(out.warn(SHARED));
                }
                if load.seconds > args.load.seconds || load.omit > args.load.omit {
                    out.say(format_args!(
                        "the line needs a longer window: each run has {:.1} s after {:.1} s",
                        load.seconds, load.omit
                    ));
                }
                Ok((Box::new(BedLoad::new(wire.as_ref(), load.clone(), goal)), load))
            }
        }
    }
}

/// Runs the command on this machine.
pub(super) fn run(job: &Job<'_>) -> Result<ExitCode> {
    let Job { context, args, goal, stop, .. } = *job;
    let out = &context.out;
    let through = Through::of(context, args, goal, stop)?;
    let lock = waiting::lock(context, &format!("tune {}", through.name()))?;
    let mut router = Router::here(lock)?;
    router.notes.iter().for_each(|note| out.say(note));
    if args.factor.contains(&FactorArg::List) {
        text::factors(out, Menu::of(&router, Costs::DEFAULT, args.asked()).offers())?;
        return Ok(ExitCode::Done);
    }
    let (source, load) = through.source(&router, job)?;
    let source = &*source;
    let args = &TuneArgs {
        load: LoadArgs { seconds: load.seconds, omit: load.omit, ..args.load.clone() },
        ..args.clone()
    };
    let job = &Job { args, ..job.clone() };
    // Round trips are probed idle for a second first; the time left takes a run of its own.
    let cell = Duration::from_secs_f64(args.load.seconds + args.load.omit);
    let beside = [Quantity::P99, Quantity::Headroom].into_iter().filter(|q| goal.needs(*q)).count();
    let directions = u32::try_from(args.directions.len() * beside.max(1)).unwrap_or(1);
    let reach = (cell + Duration::from_secs(4)) * directions + PATIENCE;
    router.arm(waiting::arm_trial(context, router.lock(), reach)?, reach);
    let measured = measure(job, &router, source);
    out.progress_done();
    let finished = measured.and_then(|mut measured| {
        let (code, decision) = finish(job, &mut measured)?;
        Ok((measured.experiment, code, decision))
    });
    let (experiment, code, decision) = match finished {
        Ok(finished) => finished,
        Err(e) => {
            // Everything is as found again, or its journal says what is not.
            router.disarm()?;
            return Err(e);
        }
    };
    if code == ExitCode::Interrupted || !args.apply {
        router.disarm()?;
        if let (Decision::Apply { candidate }, false) = (&decision, args.apply) {
            out.say(format_args!(
                "left as found; {candidate} is better: tune --apply would keep it"
            ));
        }
        return Ok(code);
    }
    match decision {
        Decision::Leave { why } => {
            router.disarm()?;
            out.say(out.warn(format_args!("left as found: {why}")));
            Ok(code)
        }
        Decision::Apply { candidate } => {
            apply(job, &mut router, source, &experiment, &candidate)?;
            Ok(code)
        }
    }
}

/// Applies the best, tries it once more, and only then lets the dead-man go.
fn apply(
    job: &Job<'_>,
    router: &mut Router,
    source: &dyn Source,
    experiment: &Experiment,
    name: &str,
) -> Result<()> {
    let Job { args, stop, .. } = *job;
    let (out, file) = (&job.context.out, &job.plan);
    let Some(best) = experiment.candidates.iter().find(|c| c.name == name) else {
        return router.disarm();
    };
    let applied = match router.apply(best, stop) {
        Ok(applied) => applied,
        Err(e) => {
            router.disarm()?;
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
    let written = store::plan::write(file, &plan);
    match args.confirm {
        Some(wait) => {
            router.hand_over(Duration::from_secs_f64(wait))?;
            out.say(out.warn(format_args!(
                "{name} is in force: {} settings; undone in {wait:.0} s unless you say: linerate confirm",
                applied.writes.len()
            )));
        }
        None => {
            router.disarm()?;
            out.say(out.good(format_args!(
                "{name} is in force: {} settings, tried once more and kept until the next boot",
                applied.writes.len()
            )));
        }
    }
    written?;
    out.say(format_args!(
        "undo: linerate rollback; keep it over reboots: linerate persist {}",
        file.display()
    ));
    Ok(())
}

/// Trouble with the settings in force, if there is any.
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
