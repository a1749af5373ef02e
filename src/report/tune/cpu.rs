//! Drawings of each CPU's work under each candidate.

use super::trust::softirq_note;
use super::usage::{self, CpuMean};
use crate::model::measurement::Experiment;
use crate::model::units::CpuId;
use crate::report::document::{Block, Chart, Figure, Heat, Section, Shares};

/// Softirq time of all candidates at a glance, then each candidate's CPUs.
pub(super) fn section(experiment: &Experiment) -> Section {
    let mut blocks: Vec<Block> = heat(experiment).into_iter().map(Block::Figure).collect();
    for candidate in &experiment.candidates {
        let cpus = usage::means(experiment, &candidate.name);
        if !cpus.is_empty() {
            blocks.push(Block::Figure(bars(&candidate.name, &cpus)));
        }
    }
    if blocks.is_empty() {
        return Section::default();
    }
    blocks.push(Block::note(
        "mean over the candidate's valid cells. Figures on the right: packets per second that \
         entered the CPU's queue, and its share of all. The rate ends where the busiest CPU has no \
         idle time left",
    ));
    blocks.extend(softirq_note(experiment).map(|note| Block::prose(format!("note: {note}"))));
    Section::folded("What each CPU did").with(blocks)
}

/// Softirq share of each CPU: a row for each candidate and direction.
fn heat(experiment: &Experiment) -> Option<Figure> {
    let mut rows: Vec<(String, Vec<(CpuId, CpuMean)>)> = Vec::new();
    for candidate in &experiment.candidates {
        for &direction in &experiment.directions {
            let cpus = usage::means_of(experiment, &candidate.name, Some(direction));
            if !cpus.is_empty() {
                rows.push((format!("{} {direction}", candidate.name), cpus));
            }
        }
    }
    let most = rows.iter().max_by_key(|(_, cpus)| cpus.len())?;
    let columns = most.1.iter().map(|(cpu, _)| cpu.to_string()).collect();
    let shares = |cpus: Vec<(CpuId, CpuMean)>| cpus.into_iter().map(|(_, c)| c.softirq).collect();
    Some(Figure {
        heading: "Soft interrupts by CPU, % of its time".to_owned(),
        title: "Share of each CPU's time in soft interrupts, by candidate and direction".to_owned(),
        chart: Chart::Heat(Heat {
            name: "soft interrupts".to_owned(),
            columns,
            rows: rows.into_iter().map(|(name, cpus)| (name, shares(cpus))).collect(),
        }),
        caption: String::new(),
        in_table: false,
    })
}

fn bars(name: &str, cpus: &[(CpuId, CpuMean)]) -> Figure {
    let total: f64 = cpus.iter().map(|(_, c)| c.packets).sum();
    let packets = |mean: &CpuMean| match total > 0.0 {
        true => format!("{}/s, {:.0} %", short(mean.packets), mean.packets / total * 100.0),
        false => String::new(),
    };
    let row = |(cpu, mean): &(CpuId, CpuMean)| {
        (cpu.to_string(), [mean.softirq, mean.other], packets(mean))
    };
    Figure {
        heading: name.to_owned(),
        title: format!("Use of each CPU under {name}"),
        chart: Chart::Shares(Shares {
            name: "CPU".to_owned(),
            parts: [
                "soft interrupts (forwarding)",
                "other work (load generator, programs)",
                "idle",
            ]
            .map(str::to_owned),
            beside: "packets, share of all".to_owned(),
            rows: cpus.iter().map(row).collect(),
        }),
        caption: String::new(),
        in_table: false,
    }
}

/// `812`, `81k`, `1.2M`.
fn short(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{:.1}M", v / 1e6),
        v if v >= 10_000.0 => format!("{:.0}k", v / 1e3),
        v if v >= 1000.0 => format!("{:.1}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}
