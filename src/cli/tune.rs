//! `linerate tune`: the main job. Builds the lab, measures every candidate in random order, says
//! which is best and how sure that is, and puts everything back.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::args::{ReportFormat, TuneArgs};
use super::context::Context;
use super::output::Output;
use super::{confirm, interrupt, plan as plan_verb, report as report_verb, scenarios};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::experiment::{analyse, refuse_starved};
use crate::host::clock;
use crate::model::goal::{Design, Goal};
use crate::model::measurement::{Direction, Ended, EvidenceClass, Experiment, Protocol};
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;
use crate::plan::{self, Candidates, name};
use crate::store;
use crate::tune::{Limits, Progress, Workbench};

/// Blocks of a full experiment (measuring.md) and of a quick, exploratory one.
const BLOCKS: u32 = 10;
const QUICK_BLOCKS: u32 = 5;

/// Runs the command.
pub(super) fn run(context: &Context, args: &TuneArgs) -> Result<ExitCode> {
    context.live("tune")?;
    let out = &context.out;
    refuse_unwritable(&args.output)?;
    if let Some(report) = &args.report {
        refuse_unwritable(report)?;
    }
    let stop = interrupt::stop_flag()?;
    let spec = scenarios::lab(&args.load, args.scenario)?;
    let lock = confirm::lock(context, &format!("tune {}", spec.shape))?;
    let bench = Workbench::build(&spec, lock, &stop)?;

    bench.notes.iter().for_each(|note| out.say(note));
    let found = plan::candidates(bench.snapshot());
    let baseline = args.baseline.clone().unwrap_or_else(|| default_baseline(&found));
    let candidates = choose(&found, &baseline, args)?;
    for (name, why) in &found.left_out {
        out.say(out.dim(format!("{name} left out: {why}")));
    }
    for (name, other) in &found.folded {
        out.say(out.dim(format!("{name} is the same as {other}: measured once")));
    }
    let mut experiment = blank(args, bench.snapshot(), &candidates, baseline);
    let limits = Limits {
        budget: args.budget.map(Duration::from_secs_f64),
        stop_when_precise: !args.quick && args.blocks.is_none() && !args.aa,
    };
    announce(out, &experiment, args);
    let ran = bench.experiment(
        &mut experiment,
        &args.load.spec(Direction::Down),
        limits,
        &stop,
        &mut |p| show_progress(out, p),
    );
    out.progress_done();
    // The lab is taken down before anything else can fail.
    drop(bench);
    ran?;
    refuse_starved(&mut experiment);
    finish(context, args, &experiment, &stop)
}

fn finish(
    context: &Context,
    args: &TuneArgs,
    experiment: &Experiment,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let out = &context.out;
    let analysis = analyse(experiment);
    store::result::write(&args.output, experiment)?;
    if let Some(path) = &args.report {
        let html = report_verb::render(ReportFormat::Html, experiment, &analysis);
        store::write_file("report", path, html.as_bytes())?;
    }
    if out.json {
        out.json(&Tuned { format: "linerate-tune", version: 1, experiment, analysis: &analysis })?;
    } else {
        out.data(report_verb::render(ReportFormat::Text, experiment, &analysis))?;
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
        return Ok(ExitCode::Interrupted);
    }
    Ok(report_verb::code(&analysis))
}

#[derive(serde::Serialize)]
struct Tuned<'a> {
    format: &'static str,
    version: u32,
    experiment: &'a Experiment,
    analysis: &'a crate::experiment::Analysis,
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

/// The lone interrupt is what routers come with; as found, a lab spreads the work over the senders'
/// CPUs, which no hardware does.
fn default_baseline(found: &Candidates) -> String {
    found.get(name::ONE_CPU).map_or(name::AS_FOUND, |_| name::ONE_CPU).to_owned()
}

fn choose(found: &Candidates, baseline: &str, args: &TuneArgs) -> Result<Vec<Candidate>> {
    let base = plan_verb::find(found, baseline)?;
    if args.aa {
        let again = Candidate {
            name: format!("{baseline}-again"),
            title: format!("{} (the same settings under another name)", base.title),
            reason: "shows what noise alone looks like here".into(),
            settings: base.settings.clone(),
        };
        return Ok(vec![base.clone(), again]);
    }
    if args.candidates.is_empty() {
        return Ok(found.list.clone());
    }
    let mut chosen = vec![base.clone()];
    for name in args.candidates.iter().filter(|n| *n != baseline) {
        let candidate = plan_verb::find(found, name)?;
        if !chosen.iter().any(|c| c.name == candidate.name) {
            chosen.push(candidate.clone());
        }
    }
    // None inherits from the one before it.
    plan::complete(&mut chosen);
    Ok(chosen)
}

fn blank(
    args: &TuneArgs,
    snapshot: &Snapshot,
    candidates: &[Candidate],
    baseline: String,
) -> Experiment {
    let blocks = args.blocks.unwrap_or(if args.quick { QUICK_BLOCKS } else { BLOCKS });
    let mut directions = args.directions.clone();
    directions.dedup();
    Experiment {
        program: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        started: clock::wall(),
        seed: args.seed.unwrap_or_else(|| fastrand::u64(..)),
        class: EvidenceClass::Lab,
        machine: snapshot.machine.clone(),
        cpus: snapshot.cpus.iter().filter(|c| c.online).map(|c| c.id).collect(),
        scenario: args.load.scenario_of(args.scenario, Protocol::Tcp),
        link: None,
        quick: args.quick,
        baseline,
        goal: Goal::default(),
        design: Design::Named,
        candidates: candidates.to_vec(),
        predictions: Vec::new(),
        directions,
        blocks,
        cells: Vec::new(),
        ended: Ended::Complete,
        settings: Vec::new(),
        notes: Vec::new(),
    }
}

fn announce(out: &Output, experiment: &Experiment, args: &TuneArgs) {
    let s = &experiment.scenario;
    let names: Vec<&str> = experiment.candidates.iter().map(|c| c.name.as_str()).collect();
    let cells = (names.len() + 2) * experiment.directions.len();
    let block = cells as f64 * (s.seconds + s.omit + 0.1);
    let whole = block * f64::from(experiment.blocks);
    let time = args.budget.map_or(whole, |b| b.min(whole));
    out.say(format_args!(
        "measuring {} in {} blocks, {} streams through NAT with {} rules: about {:.0} s",
        names.join(", "),
        experiment.blocks,
        s.streams,
        s.rules,
        time
    ));
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
        out.progress(format_args!(
            "{percent:3} %  block {} of {}  {candidate} {direction}{last}{left}",
            p.block, p.blocks
        ));
    } else if !out.has_live_progress() {
        out.say(format_args!("block {} of {} done{left}", p.block, p.blocks));
    }
}
