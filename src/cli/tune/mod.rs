//! `linerate tune`: the main job. Measures every candidate in random order, in a lab or on this
//! router itself, says which is best and how sure that is, and puts everything back; with `--apply`
//! what was shown to be better than as found stays.
//!
//! In come arguments, the router or the hosts that they name, and costs; out go a result file, its
//! report and, with `--apply`, a plan. Settings are changed only by way of `measure` and `change`.

mod args;
mod keep;
mod text;

pub(super) use args::TuneArgs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::args::FactorArg;
use super::context::Context;
use super::interrupt;
use super::output::Output;
use super::shared::costs::CostsFile;
use super::shared::files::Force;
use super::shared::rendered;
use super::shared::waiting;
use crate::decide::experiment::{Decision, Kept, analyse, decide, kept, refuse_starved};
use crate::decide::plan::Costs;
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::clock;
use crate::machine::store;
use crate::machine::store::unfinished::{Record, result_of};
use crate::measure::tune::{
    self, BedLoad, Chosen, Hunt, Limits, Menu, Progress, Router, Source, Workbench,
};
use crate::model::goal::{Goal, Quantity};
use crate::model::measurement::{Direction, Ended, Experiment, Protocol};
use crate::model::snapshot::Snapshot;
use crate::report::render::{Html, Render};
use crate::report::tune as report;

/// Blocks of a full experiment: so many that a difference of 3 % shows in nine of ten where one cell
/// varies by 2 %. Then those of a quick, exploratory one.
const BLOCKS: u32 = 10;
const BLOCKS_ONE_WAY: u32 = 17;
const QUICK_BLOCKS: u32 = 5;
/// The fewest blocks in which a difference can be shown.
const PROOF_BLOCKS: u32 = 6;
/// Part of the time allowed that all blocks may take after a search; where they would take more,
/// the search leaves time for the fewest.
const PROOF_SHARE: f64 = 0.75;
/// Ratio of the trials that an experiment with every combination takes to those of a search.
const SEARCH_PART: usize = 4;
/// Trials of a search among more combinations than that would leave anybody time for, and of one
/// among so few that noise of 5 % would mislead a shorter one.
const SEARCH_MOST: usize = 400;
const SEARCH_LEAST: usize = 96;

/// Runs the command.
pub(super) fn run(context: &Context, args: &TuneArgs) -> Result<ExitCode> {
    context.live("tune")?;
    let out = &context.out;
    let result = args.result();
    // What is gone on with may be its own result.
    let goes_on = args.resume.as_deref().is_some_and(|record| result_of(record) == result);
    Force { force: args.force.force || goes_on }.check(&result)?;
    if let Some(report) = &args.report {
        args.force.check(report)?;
    }
    let plan = args.plan.clone().unwrap_or_else(|| args.force.usual("linerate-best.toml"));
    if args.apply {
        args.force.check(&plan)?;
    }
    if args.apply && !args.is_here() {
        return Err(Error::usage("tune --apply", "a lab's router is thrown away afterwards")
            .hint("measure this router: --server HOST, or --lan HOST --wan HOST --router here"));
    }
    let goal = args.goal();
    let costs = CostsFile::read(args.costs.as_deref())?;
    let earlier = args.resume.as_deref().map(unfinished).transpose()?;
    let stop = interrupt::stop_flag()?;
    let job = Job {
        context,
        args,
        costs: &costs,
        goal: &goal,
        earlier: earlier.as_ref(),
        stop: &stop,
        result,
        plan,
    };
    if args.is_here() {
        return keep::run(&job);
    }
    let spec = args.load.permitted_lab(args.scenario)?;
    let lock = waiting::lock(context, &format!("tune {}", spec.shape))?;
    let bench = Workbench::build(&spec, lock, &stop)?;
    bench.router().notes.iter().for_each(|note| out.say(note));
    if args.factor.contains(&FactorArg::List) {
        let menu = Menu::of(bench.router(), Costs::DEFAULT, args.asked());
        text::factors(out, menu.offers())?;
        return Ok(ExitCode::Done);
    }
    let load = args.load.spec(Direction::Down);
    let source = BedLoad::new(bench.bench(), load, &goal);
    let measured = measure(&job, bench.router(), &source);
    out.progress_done();
    // The lab is taken down before anything else can fail.
    drop(bench);
    let (code, _) = finish(&job, &mut measured?)?;
    Ok(code)
}

/// Job that the command is to do.
#[derive(Clone)]
struct Job<'a> {
    context: &'a Context,
    args: &'a TuneArgs,
    costs: &'a CostsFile,
    goal: &'a Goal,
    /// The experiment to go on with.
    earlier: Option<&'a Experiment>,
    stop: &'a AtomicBool,
    /// File for the result.
    result: PathBuf,
    /// File for what is kept, as a plan.
    plan: PathBuf,
}

/// An experiment that has ended.
struct Measured {
    experiment: Experiment,
    /// Record that the experiment was kept in while it ran; `None` once that is removed.
    record: Option<Record>,
    /// Failure that ended the experiment, if one did.
    failure: Option<Error>,
}

/// The record of an experiment that can be gone on with.
fn unfinished(path: &Path) -> Result<Experiment> {
    let record = store::result::read(path)?;
    if record.ended.is_over() {
        let what = format!("go on with {}", path.display());
        let why = format!("nothing is left to measure: {}", record.ended.words());
        return Err(Error::usage(what, why).hint("linerate report shows it"));
    }
    Ok(record)
}

/// Chooses, searches where that is asked for, and runs the experiment or what is left of one.
fn measure(job: &Job<'_>, router: &Router, source: &dyn Source) -> Result<Measured> {
    let Job { args, goal, stop, .. } = *job;
    let out = &job.context.out;
    let begun = clock::monotonic();
    let menu = Menu::of(router, job.costs.on(&router.snapshot().machine, out), args.asked());
    let mut searched = Vec::new();
    let earlier = job.earlier;
    let seed = args.seed.or(earlier.map(|e| e.seed)).unwrap_or_else(|| fastrand::u64(..));
    let chosen = match earlier {
        // What a search chose is part of its record.
        Some(earlier) if args.search => Chosen {
            candidates: earlier.candidates.clone(),
            design: earlier.design.clone(),
            baseline: earlier.baseline.clone(),
            remarks: Vec::new(),
        },
        None if args.search => search(job, &menu, router, source, (seed, begun), &mut searched)?,
        _ => menu.choose()?,
    };
    text::remarks(out, &chosen.remarks);
    let mut experiment = blank(args, router.snapshot(), chosen, goal, source, seed);
    if let Some(earlier) = earlier {
        experiment = tune::go_on(earlier.clone(), &experiment).map_err(|differs| {
            let what = "go on with the experiment";
            Error::usage(what, differs)
                .hint(format!("it was begun with: {}", earlier.command.join(" ")))
        })?;
    } else {
        experiment.notes.extend(searched);
        if !goal.objective.is_throughput() {
            experiment.notes.push(format!(
                "candidates are compared by the objective {}, not by their rates",
                goal.objective
            ));
        }
        menu.predict(&mut experiment);
    }
    let spent = clock::monotonic().saturating_sub(begun);
    let limits = Limits {
        budget: args.budget.map(|b| Duration::from_secs_f64(b).saturating_sub(spent)),
        stop_when_precise: !args.quick && args.blocks.is_none() && !args.aa,
    };
    announce(out, &experiment, limits, goal);
    let mut record = Record::beside(&job.result);
    // The record that is gone on with is replaced as a whole by one that begins with its cells.
    if record.path() != args.resume.as_deref()
        && let Some(kept) = record.set_earlier_aside(&job.result)?
    {
        out.say(out.warn(format_args!(
            "an earlier experiment that was not finished is kept as {}: linerate report shows it, \
             linerate tune --resume goes on with it",
            kept.display()
        )));
    }
    let mut tell = |p: &Progress| show_progress(out, p);
    let failure =
        router.experiment(&mut experiment, source, limits, stop, &mut record, &mut tell)?;
    refuse_starved(&mut experiment);
    Ok(Measured { experiment, record: Some(record), failure })
}

fn search(
    job: &Job<'_>,
    menu: &Menu<'_>,
    router: &Router,
    source: &dyn Source,
    (seed, begun): (u64, Duration),
    notes: &mut Vec<String>,
) -> Result<Chosen> {
    let Job { args, goal, stop, .. } = *job;
    let out = &job.context.out;
    let space = menu.space()?;
    text::remarks(out, &space.remarks);
    let all = space.count();
    let trials = all
        .and_then(|n| n.checked_mul(QUICK_BLOCKS as usize))
        .map_or(SEARCH_MOST, |n| (n / SEARCH_PART).clamp(SEARCH_LEAST, SEARCH_MOST));
    let words: Vec<String> =
        space.factors.iter().map(|f| format!("{}={}", f.name, f.levels.join(","))).collect();
    out.say(format_args!(
        "searching {} combinations of {} in at most {trials} trials",
        all.map_or_else(|| "very many".into(), |n| n.to_string()),
        words.join(" "),
    ));
    let mut directions = args.directions.clone();
    directions.dedup();
    let proof = proof(args, goal, directions.len())?;
    let make = |point: &[usize]| menu.combination(&space, point);
    let hunt = Hunt {
        climb: menu.climb(&space, trials, seed),
        make: &make,
        objective: &goal.objective,
        directions: &directions,
        class: source.class(),
        until: args.budget.map(|b| begun + Duration::from_secs_f64(b)),
        proof,
        trials,
    };
    let found = router.search(hunt, &space.levels, source, stop, &mut |p| show_progress(out, p))?;
    out.progress_done();
    let chosen = menu.finalists(&space, &found.best)?;
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
///
/// # Errors
/// Fails with the error that ended the experiment, once it is reported, or if the result can't be
/// written, which its record then still has.
fn finish(job: &Job<'_>, measured: &mut Measured) -> Result<(ExitCode, Decision)> {
    let (args, out) = (job.args, &job.context.out);
    let experiment = &measured.experiment;
    let result = &job.result;
    let analysis = analyse(experiment);
    let kept = kept(experiment);
    let decision = decide(experiment, &analysis);
    let written = store::result::write(result, experiment);
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
        out.document(&report::document(experiment, &analysis))?;
        let lines: Vec<String> = kept
            .iter()
            .map(|k| {
                let mark = if k.holds() { out.good("kept") } else { out.warn("NOT kept") };
                format!("{}: {mark}: {}", k.candidate, k.told())
            })
            .collect();
        if !lines.is_empty() {
            out.tell(lines.join("\n"))?;
        }
    }
    if let (Err(_), Some(path)) = (&written, measured.record.as_ref().and_then(Record::path)) {
        out.say(format_args!("every cell that was measured is in {}", path.display()));
    }
    written?;
    measured.record.take().map_or(Ok(()), Record::remove)?;
    out.say(format_args!("result: {}", result.display()));
    match &args.report {
        Some(path) => {
            let html = Html.render(&report::document(experiment, &analysis));
            store::write_file("report", path, html.as_bytes())?;
            out.say(format_args!("report: {}", path.display()));
        }
        None => {
            out.say(format_args!("as a page: linerate report {} -o report.html", result.display()))
        }
    }
    let stopped = job.stop.load(Ordering::Relaxed) || experiment.ended == Ended::Interrupted;
    if experiment.ended.is_cut_short() {
        let how = if stopped { "interrupted" } else { experiment.ended.words() };
        out.say(format_args!(
            "{how}: what was measured is kept, and everything was put back; to go on: the same command \
             with --resume {}",
            result.display()
        ));
    }
    if let Some(failure) = measured.failure.take() {
        return Err(failure);
    }
    if stopped {
        return Ok((ExitCode::Interrupted, decision));
    }
    Ok((rendered::code(&analysis), decision))
}

#[derive(serde::Serialize)]
struct Tuned<'a> {
    format: &'static str,
    version: u32,
    experiment: &'a Experiment,
    analysis: &'a crate::decide::experiment::Analysis,
    guards: &'a [Kept],
    decision: &'a Decision,
}

fn blank(
    args: &TuneArgs,
    snapshot: &Snapshot,
    chosen: Chosen,
    goal: &Goal,
    source: &dyn Source,
    seed: u64,
) -> Experiment {
    let blocks = blocks(args);
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

/// About how long a measurement takes whose load runs for `load` seconds.
fn cell_seconds(load: f64, goal: &Goal) -> f64 {
    // Round trips are probed idle for a second first; the time left takes a run of its own.
    let idle = if goal.needs(Quantity::P99) { 1.0 } else { 0.0 };
    let twice = goal.needs(Quantity::P99) && goal.needs(Quantity::Headroom);
    (load + 0.1) * if twice { 2.0 } else { 1.0 } + idle
}

/// The measurements for which a search leaves time: those of all blocks, or of the fewest that can
/// show anything where the time allowed is short.
fn proof(args: &TuneArgs, goal: &Goal, directions: usize) -> Result<usize> {
    let cell = cell_seconds(args.load.seconds + args.load.omit, goal);
    // The best combinations, the baseline, and it again at both ends.
    let cells = |blocks: u32| (tune::WORTH + 3) * directions * blocks as usize;
    let seconds = |cells: usize| cells as f64 * cell;
    let all = blocks(args);
    let Some(budget) = args.budget else { return Ok(cells(all)) };
    if seconds(cells(all)) <= budget * PROOF_SHARE {
        return Ok(cells(all));
    }
    let fewest = cells(all.min(PROOF_BLOCKS));
    let needed = seconds(fewest + SEARCH_LEAST / 4 * directions);
    if needed > budget {
        let why = format!(
            "{budget:.0} s are too short for a search and for {} blocks that prove what it finds",
            all.min(PROOF_BLOCKS)
        );
        return Err(Error::usage("search", why).hint(format!(
            "allow at least --budget {:.0}, or make the runs shorter: --seconds",
            needed.ceil()
        )));
    }
    Ok(fewest)
}

fn blocks(args: &TuneArgs) -> u32 {
    let mut directions = args.directions.clone();
    directions.dedup();
    let usual = if directions.len() == 1 { BLOCKS_ONE_WAY } else { BLOCKS };
    args.blocks.unwrap_or(if args.quick { QUICK_BLOCKS } else { usual })
}

fn announce(out: &Output, experiment: &Experiment, limits: Limits, goal: &Goal) {
    let s = &experiment.scenario;
    let names: Vec<&str> = experiment.candidates.iter().map(|c| c.name.as_str()).collect();
    let cells = (names.len() + 2) * experiment.directions.len();
    let whole =
        cells as f64 * cell_seconds(s.seconds + s.omit, goal) * f64::from(experiment.blocks);
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
