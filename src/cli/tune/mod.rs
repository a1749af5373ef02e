//! `linerate tune`: the main job. Measures every candidate in random order, in a lab or on this
//! router itself, says which is best and how sure that is, and puts everything back; with `--apply`
//! what was shown to be better than as found stays.

mod args;
mod choose;
mod keep;

pub(super) use args::TuneArgs;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::args::FactorArg;
use self::choose::{Chosen, Menu};
use super::args::ReportFormat;
use super::context::Context;
use super::fit::Given;
use super::output::Output;
use super::{confirm, interrupt, report as report_verb, scenarios};
use crate::discover;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::experiment::{Decision, Kept, analyse, decide, kept, refuse_starved};
use crate::host::clock;
use crate::model::goal::{Goal, Quantity};
use crate::model::measurement::{Direction, Ended, Experiment, Protocol};
use crate::model::snapshot::Snapshot;
use crate::plan::Costs;
use crate::store;
use crate::tune::{BedLoad, Hunt, Limits, Progress, Router, Source, Workbench};

/// Blocks of a full experiment (measuring.md) and of a quick, exploratory one.
const BLOCKS: u32 = 10;
const QUICK_BLOCKS: u32 = 5;
/// Of the time allowed, what a search may take; the rest is for the experiment after it.
const SEARCH_SHARE: f64 = 0.6;
/// One search in so many of the trials of an experiment with every combination.
const SEARCH_PART: usize = 4;
/// Trials of a search among more combinations than that would leave anybody time for.
const SEARCH_MOST: usize = 400;

/// Runs the command.
pub(super) fn run(context: &Context, args: &TuneArgs) -> Result<ExitCode> {
    context.live("tune")?;
    let out = &context.out;
    refuse_unwritable(&args.output)?;
    if let Some(report) = &args.report {
        refuse_unwritable(report)?;
    }
    if args.apply {
        refuse_unwritable(&args.plan)?;
    }
    if args.apply && !args.is_here() {
        return Err(Error::usage("tune --apply", "a lab's router is thrown away afterwards")
            .hint("measure this router: --server HOST, or --lan HOST --wan HOST --router here"));
    }
    let goal = args.goal();
    let given = Given::read(args.costs.as_deref())?;
    let stop = interrupt::stop_flag()?;
    if args.is_here() {
        return keep::run(context, args, &given, &goal, &stop);
    }
    let spec = scenarios::lab(&args.load, args.scenario)?;
    let lock = confirm::lock(context, &format!("tune {}", spec.shape))?;
    let bench = Workbench::build(&spec, lock, &stop)?;
    bench.router().notes.iter().for_each(|note| out.say(note));
    if args.factor.contains(&FactorArg::List) {
        Menu::of(bench.router(), Costs::DEFAULT, args).list(out)?;
        return Ok(ExitCode::Done);
    }
    let load = args.load.spec(Direction::Down);
    let source = BedLoad::new(bench.bench(), load, &goal);
    let measured = measure(args, &given, bench.router(), &source, &goal, out, &stop);
    out.progress_done();
    // The lab is taken down before anything else can fail.
    drop(bench);
    let experiment = measured?;
    let (code, _) = finish(context, args, &experiment, &stop)?;
    Ok(code)
}

/// Chooses, searches where that is asked for, and runs the experiment.
fn measure(
    args: &TuneArgs,
    given: &Given,
    router: &Router,
    source: &dyn Source,
    goal: &Goal,
    out: &Output,
    stop: &AtomicBool,
) -> Result<Experiment> {
    let begun = clock::monotonic();
    let menu = Menu::of(router, given.on(&router.snapshot().machine, out), args);
    let mut searched = Vec::new();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let chosen = if args.search {
        search(args, &menu, router, source, goal, seed, out, stop, &mut searched)?
    } else {
        menu.choose(args, out)?
    };
    let mut experiment = blank(args, router.snapshot(), chosen, goal, source, seed);
    experiment.notes.extend(searched);
    if !goal.objective.is_throughput() {
        experiment.notes.push(format!(
            "candidates are compared by the objective {}, not by their rates",
            goal.objective
        ));
    }
    menu.predict(args, &mut experiment);
    let spent = clock::monotonic().saturating_sub(begun);
    let limits = Limits {
        budget: args.budget.map(|b| Duration::from_secs_f64(b).saturating_sub(spent)),
        stop_when_precise: !args.quick && args.blocks.is_none() && !args.aa,
    };
    announce(out, &experiment, limits, goal);
    router.experiment(&mut experiment, source, limits, stop, &mut |p| show_progress(out, p))?;
    refuse_starved(&mut experiment);
    Ok(experiment)
}

#[expect(clippy::too_many_arguments, reason = "what one command has at hand, used once")]
fn search(
    args: &TuneArgs,
    menu: &Menu<'_>,
    router: &Router,
    source: &dyn Source,
    goal: &Goal,
    seed: u64,
    out: &Output,
    stop: &AtomicBool,
    notes: &mut Vec<String>,
) -> Result<Chosen> {
    let space = menu.space(args, out)?;
    let all = space.count();
    let trials = all
        .and_then(|n| n.checked_mul(QUICK_BLOCKS as usize))
        .map_or(SEARCH_MOST, |n| (n / SEARCH_PART).clamp(8, SEARCH_MOST));
    let words: Vec<String> =
        space.factors.iter().map(|f| format!("{}={}", f.name, f.levels.join(","))).collect();
    out.say(format_args!(
        "searching {} combinations of {} in at most {trials} trials",
        all.map_or_else(|| "very many".into(), |n| n.to_string()),
        words.join(" "),
    ));
    let mut directions = args.directions.clone();
    directions.dedup();
    let make = |point: &[usize]| menu.combination(&space, point);
    let hunt = Hunt {
        climb: menu.climb(&space, trials, seed),
        make: &make,
        objective: &goal.objective,
        directions: &directions,
        class: source.class(),
        budget: args.budget.map(|b| Duration::from_secs_f64(b * SEARCH_SHARE)),
        trials,
    };
    let found = router.search(hunt, &space.levels, source, stop, &mut |p| show_progress(out, p))?;
    out.progress_done();
    let chosen = menu.finalists(args, &space, &found.best)?;
    let told = format!(
        "a search made {} trials among {} combinations; its best are measured anew here, for what \
         it chose them by is no proof",
        found.trials,
        all.map_or_else(|| "very many".into(), |n| n.to_string())
    );
    out.say(&told);
    notes.push(told);
    Ok(chosen)
}

/// Writes and prints what was found.
fn finish(
    context: &Context,
    args: &TuneArgs,
    experiment: &Experiment,
    stop: &AtomicBool,
) -> Result<(ExitCode, Decision)> {
    let out = &context.out;
    let analysis = analyse(experiment);
    let kept = kept(experiment);
    let decision = decide(experiment, &analysis);
    store::result::write(&args.output, experiment)?;
    if let Some(path) = &args.report {
        let html = report_verb::render(ReportFormat::Html, experiment, &analysis);
        store::write_file("report", path, html.as_bytes())?;
    }
    if out.json {
        out.json(&Tuned {
            format: "linerate-tune",
            version: 1,
            experiment,
            analysis: &analysis,
            guards: &kept,
            decision: &decision,
        })?;
    } else {
        out.data(report_verb::render(ReportFormat::Text, experiment, &analysis))?;
        let lines: Vec<String> = kept
            .iter()
            .map(|k| {
                let mark = if k.holds() { out.good("kept") } else { out.warn("NOT kept") };
                format!("{}: {mark}: {}", k.candidate, k.told())
            })
            .collect();
        if !lines.is_empty() {
            out.data(lines.join("\n"))?;
        }
    }
    out.say(format_args!("result: {}", args.output.display()));
    match &args.report {
        Some(path) => out.say(format_args!("report: {}", path.display())),
        None => out.say(format_args!(
            "as a page: linerate report {} -o report.html",
            args.output.display()
        )),
    }
    if stop.load(Ordering::Relaxed) || experiment.ended == Ended::Interrupted {
        out.say("interrupted: what was measured is kept, and everything was put back");
        return Ok((ExitCode::Interrupted, decision));
    }
    Ok((report_verb::code(&analysis), decision))
}

#[derive(serde::Serialize)]
struct Tuned<'a> {
    format: &'static str,
    version: u32,
    experiment: &'a Experiment,
    analysis: &'a crate::experiment::Analysis,
    guards: &'a [Kept],
    decision: &'a Decision,
}

/// Three minutes of measuring must not end at a directory that is not there.
pub(super) fn refuse_unwritable(file: &Path) -> Result<()> {
    let dir = file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if file.is_dir() {
        return Err(Error::usage(format!("write {}", file.display()), "it is a directory"));
    }
    if !dir.is_dir() {
        return Err(Error::usage(format!("write {}", file.display()), "no such directory")
            .hint(format!("make it first: mkdir -p {}", dir.display())));
    }
    Ok(())
}

fn blank(
    args: &TuneArgs,
    snapshot: &Snapshot,
    chosen: Chosen,
    goal: &Goal,
    source: &dyn Source,
    seed: u64,
) -> Experiment {
    let blocks = args.blocks.unwrap_or(if args.quick { QUICK_BLOCKS } else { BLOCKS });
    let mut directions = args.directions.clone();
    directions.dedup();
    let mut experiment = Experiment {
        program: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        started: clock::wall(),
        seed,
        class: source.class(),
        machine: snapshot.machine.clone(),
        fingerprint: Some(discover::fingerprint(snapshot)),
        cpus: snapshot.cpus.iter().filter(|c| c.online).map(|c| c.id).collect(),
        scenario: args.load.scenario_of(args.scenario, Protocol::Tcp),
        link: None,
        agents: Vec::new(),
        quick: args.quick,
        baseline: chosen.baseline,
        goal: goal.clone(),
        design: chosen.design,
        candidates: chosen.candidates,
        predictions: Vec::new(),
        directions,
        blocks,
        cells: Vec::new(),
        ended: Ended::Complete,
        settings: Vec::new(),
        notes: Vec::new(),
    };
    source.note(&mut experiment);
    experiment
}

fn announce(out: &Output, experiment: &Experiment, limits: Limits, goal: &Goal) {
    let s = &experiment.scenario;
    let names: Vec<&str> = experiment.candidates.iter().map(|c| c.name.as_str()).collect();
    let cells = (names.len() + 2) * experiment.directions.len();
    // Round trips are probed idle for a second first; the time left takes a run of its own.
    let idle = if goal.needs(Quantity::P99) { 1.0 } else { 0.0 };
    let twice = goal.needs(Quantity::P99) && goal.needs(Quantity::Headroom);
    let cell = (s.seconds + s.omit + 0.1) * if twice { 2.0 } else { 1.0 } + idle;
    let whole = cells as f64 * cell * f64::from(experiment.blocks);
    let time = limits.budget.map_or(whole, |b| b.as_secs_f64().min(whole));
    let through = match s.name.strip_prefix("iperf3 server ") {
        Some(server) => format!("with the iperf3 server {server}"),
        None if !experiment.agents.is_empty() => format!("through this router ({})", s.name),
        None => format!("through {} with {} rules", s.name, s.rules),
    };
    out.say(format_args!(
        "measuring {} in {} blocks, {} streams {through}: about {time:.0} s",
        names.join(", "),
        experiment.blocks,
        s.streams,
    ));
    if !goal.is_plain() {
        let guards: Vec<String> = goal.guards.iter().map(ToString::to_string).collect();
        let kept = if guards.is_empty() {
            String::new()
        } else {
            format!("; to be kept: {}", guards.join(", "))
        };
        out.say(format_args!("objective: {}{kept}", goal.objective));
    }
}

fn show_progress(out: &Output, p: &Progress) {
    let left = p.left.map_or_else(String::new, |l| {
        let seconds = l.as_secs();
        format!(", {}:{:02} left", seconds / 60, seconds % 60)
    });
    if let Some((candidate, direction)) = &p.now {
        let last = p.last.map_or_else(String::new, |(rate, valid)| {
            let mark = if valid { "" } else { " (refused)" };
            format!("  last {rate}{mark}")
        });
        let percent = p.done * 100 / p.cells.max(1);
        let place = match p.blocks {
            0 => "search".to_owned(),
            blocks => format!("block {} of {blocks}", p.block),
        };
        out.progress(format_args!("{percent:3} %  {place}  {candidate} {direction}{last}{left}"));
    } else if !out.has_live_progress() {
        out.say(format_args!("block {} of {} done{left}", p.block, p.blocks));
    }
}

/// An address to measure with.
fn resolve(server: &str) -> Result<std::net::SocketAddr> {
    args::server(server).map_err(|why| Error::usage(format!("find server {server}"), why))
}
