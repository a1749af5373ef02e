//! The report on an experiment: what `tune` ends with, and `report` makes of its result file.
//!
//! In come the record and its analysis; out goes a document that depends on nothing else. Nothing
//! is read, written or measured. The terminal gets the verdict, the tables and how far to trust
//! them; pages and Markdown get every measurement, the settings and the machine too.

mod cpu;
mod factors;
mod predicted;
mod rates;
mod results;
mod run;
mod trust;
mod usage;
mod verdict;

pub use verdict::headline;

use super::document::{Block, Cell, Document, Section, Table, Tone, Weight};
use super::words::quoted;
use crate::decide::experiment::{Analysis, Decision, decide};
use crate::model::measurement::{EvidenceClass, Experiment};

/// The report on an experiment.
#[must_use]
pub fn document(experiment: &Experiment, analysis: &Analysis) -> Document {
    let name = &experiment.scenario.name;
    let mut document =
        Document::new(format!("linerate: {name} on {}", experiment.machine.hostname));
    document.origin = vec![
        run::machine_in_short(experiment),
        format!("{}, linerate {}", experiment.started, experiment.program),
    ];
    document.closing = "made from the result file alone".to_owned();
    document.section(conclusion(experiment, analysis));
    document.section(results::section(experiment, analysis));
    document.section(results::ratios(experiment, analysis));
    document.section(factors::section(analysis));
    document.section(rates::section(experiment, analysis));
    document.section(rates::over_time(experiment));
    document.section(cpu::section(experiment));
    document.section(predicted::section(experiment, analysis));
    document.section(trust::section(experiment, analysis));
    document.section(settings(experiment));
    document.section(candidates(experiment));
    document.section(Section::folded("Machine").with([Block::Facts(run::machine(experiment))]));
    document.section(Section::folded("Load").with([Block::Facts(run::scenario(experiment))]));
    document.section(repeat(experiment));
    document.section(application(experiment, analysis));
    document
}

fn conclusion(experiment: &Experiment, analysis: &Analysis) -> Section {
    let refused = analysis.refused.is_some();
    let (restored, settings) = trust::settings(experiment);
    let mut blocks = vec![Block::Prose(Tone::Lead, headline(experiment, analysis))];
    if !restored {
        blocks.push(Block::alarm(&settings));
    }
    blocks.push(Block::List(
        verdict::next_steps(experiment, analysis)
            .into_iter()
            .map(|step| format!("next: {step}"))
            .collect(),
    ));
    blocks.push(Block::note(format!("evidence: {}", experiment.class.meaning())));
    Section { weight: Weight::Verdict { refused }, blocks, ..Section::default() }
}

fn settings(experiment: &Experiment) -> Section {
    if experiment.settings.is_empty() {
        return Section::default();
    }
    let mut table = Table::new(&["setting", "path", "before", "after", ""]);
    for setting in &experiment.settings {
        let same = match setting.before == setting.after {
            true => Cell::toned(Tone::Good, "identical"),
            false => Cell::toned(Tone::Bad, "DIFFERENT"),
        };
        let code = |text: &str| Cell::toned(Tone::Code, text);
        table.row([
            setting.name.as_str().into(),
            code(&setting.path),
            code(&setting.before),
            code(&setting.after),
            same,
        ]);
    }
    Section::folded("The router's settings before and after").with([Block::Table(table)])
}

fn candidates(experiment: &Experiment) -> Section {
    let mut section = Section::folded("What was compared");
    for candidate in &experiment.candidates {
        section.blocks.push(Block::Heading(format!("{}: {}", candidate.name, candidate.title)));
        section.blocks.push(Block::prose(&candidate.reason));
        let change = |change: &crate::model::plan::Change| {
            let reason = match change.reason == candidate.reason {
                true => String::new(),
                false => format!(" ({})", change.reason),
            };
            format!("{}: {} \u{2192} {}{reason}", change.knob, change.before, change.after)
        };
        let changes: Vec<String> = candidate.changes().map(change).collect();
        section.blocks.push(match changes.is_empty() {
            true => Block::note("it changes nothing"),
            false => Block::List(changes),
        });
    }
    section
}

fn repeat(experiment: &Experiment) -> Section {
    Section::folded("Repeat it").with([
        Block::Command(run::command(experiment)),
        Block::note(format!(
            "the seed {} gives the same random order of the cells",
            experiment.seed
        )),
    ])
}

/// Section on how the advised candidate gets onto a router and off it again; empty where nothing is
/// advised.
fn application(experiment: &Experiment, analysis: &Analysis) -> Section {
    let Decision::Apply { candidate: name } = decide(experiment, analysis) else {
        return Section::default();
    };
    let name = name.as_str();
    // Factors of a search among placements are devices and queues: `rps:wan0/0`.
    let by_device = |word: &str| word.starts_with("irq:") || word.starts_with("rps:");
    let of_lab = experiment.class != EvidenceClass::Wire && name.split(' ').any(by_device);
    let (plan, does) = if of_lab {
        (
            "linerate plan -o plan.toml".to_owned(),
            "makes a placement for the router's own devices: the one found here names the lab's, \
             which it does not have",
        )
    } else {
        (
            format!("linerate plan --candidate {} -o plan.toml", quoted(name)),
            "what it would change there, and why",
        )
    };
    let rest = [
        (
            "linerate apply --confirm 60 plan.toml",
            "sets it: journal first, read back, all or nothing; and undoes it after 60 s unless you say \
             linerate confirm",
        ),
        ("linerate verify plan.toml", "tells whether it is still in force"),
        ("linerate persist plan.toml", "keeps it over reboots; linerate unpersist ends that"),
        ("linerate rollback", "puts back exactly what was there before"),
    ];
    let rest = rest.into_iter().map(|(command, does)| (command.to_owned(), does));
    let steps = std::iter::once((plan, does)).chain(rest);
    Section::detail(format!("Put {name} on a router, and take it off again"))
        .with(steps.flat_map(|(command, does)| [Block::Command(command), Block::note(does)]))
}
