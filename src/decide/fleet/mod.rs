//! Many machines: what each kind of them gains from which settings, what another kernel does to
//! them, and what is found on them.
//!
//! ```text
//!   records (tune, bench, sweep) ─┬─▶ ratio of each machine ─▶ pooled over the machines of a kind
//!   captures ─────────────────────┴─▶ findings and predicted gain of each ─▶ counted
//! ```
//!
//! A machine counts once, however often it was measured: what an operator has to know is how much
//! machines differ, and no number of blocks on one of them tells that.

mod pool;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::pool::Pool;
pub use self::pool::Spread;
use super::diagnose;
use super::experiment::compared::{Figure, Side};
use super::experiment::stats::median;
use super::experiment::{Analysis, between};
use super::kernel::regression::version;
use crate::model::finding::{Finding, Severity};
use crate::model::measurement::Experiment;
use crate::model::order::InOrder;
use crate::model::snapshot::Machine;

/// A file of `tune`, `bench` or `sweep`.
pub struct Record {
    /// What was measured, and how.
    pub side: Side,
    /// The machine on which it was measured.
    pub machine: Machine,
    /// What each candidate gave over the baseline, where it was an experiment.
    pub gains: Vec<Gained>,
}

/// What a candidate gave over the baseline.
pub struct Gained {
    /// The candidate.
    pub candidate: String,
    /// The baseline.
    pub baseline: String,
    /// Rate of the candidate over that of the baseline, all directions together.
    pub ratio: f64,
}

impl Record {
    /// The record of an experiment with its analysis.
    #[must_use]
    pub fn of_experiment(file: String, experiment: Experiment, analysis: &Analysis) -> Self {
        let baseline = &experiment.baseline;
        let gains = analysis.candidates.iter().filter(|c| c.name != *baseline);
        let gains = gains.filter_map(|c| {
            let (candidate, baseline) = (c.name.clone(), baseline.clone());
            c.overall.map(|effect| Gained { candidate, baseline, ratio: effect.ratio })
        });
        let (gains, machine) = (gains.collect(), experiment.machine.clone());
        Self { side: Side::of_experiment(file, experiment), machine, gains }
    }

    /// The conditions under which it was measured: only what has the same is pooled.
    fn conditions(&self) -> String {
        let Side { kind, class, scenario: s, .. } = &self.side;
        // An experiment and a single run measure the same thing.
        let kind = if kind.starts_with("sweep") { format!("{kind}, ") } else { String::new() };
        let protocol = format!("{:?}", s.protocol).to_uppercase();
        let mut text = format!("{kind}{class}, {}, {} rules, ", s.name, s.rules);
        text += &format!("{} {protocol} streams, MTU {}", s.streams, s.mtu);
        text.extend((s.flows > 0).then(|| format!(", {} tracked connections", s.flows)));
        text.extend(s.rate.map(|rate| format!(", asked for {rate}")));
        text.extend(s.datagram.map(|bytes| format!(", datagrams of {bytes} bytes")));
        text
    }
}

/// A capture, looked at.
pub struct Looked {
    /// The file or directory.
    pub file: String,
    /// The machine that was captured.
    pub machine: Machine,
    /// Rules that found something, with the severity.
    pub findings: BTreeMap<String, Severity>,
    /// Predicted rate with the plan over the rate as found; 1 where no gain is expected.
    pub gain: f64,
}

impl Looked {
    /// A capture with what `check` and `plan` say of it.
    #[must_use]
    pub fn of(file: String, machine: Machine, findings: &[Finding], gain: Option<f64>) -> Self {
        let mut gravest: BTreeMap<String, Severity> = BTreeMap::new();
        for finding in findings {
            let severity = gravest.entry(finding.rule.clone()).or_insert(finding.severity);
            *severity = finding.severity.max(*severity);
        }
        Self { file, machine, findings: gravest, gain: gain.unwrap_or(1.0) }
    }
}

/// Many machines, as `compare --fleet --json` prints them.
#[derive(Debug, Serialize)]
pub struct Fleet {
    format: &'static str,
    version: u32,
    /// Machines in all.
    pub machines: usize,
    /// Files with figures.
    pub records: usize,
    /// Captures.
    pub captures: usize,
    /// Kinds of machines, the one with most machines first.
    pub kinds: Vec<Kind>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Machines with one processor.
#[derive(Debug, Serialize)]
pub struct Kind {
    /// The processor: the device tree's name of the chip, else the CPU's model name.
    pub processor: String,
    /// Machines of that kind.
    pub machines: usize,
    /// Boards that they are.
    pub boards: Vec<String>,
    /// What candidates gave over the baseline.
    pub gains: Vec<Row>,
    /// What a newer kernel did to the same machines.
    pub kernels: Vec<Row>,
    /// Captures that were looked at.
    pub captures: usize,
    /// Findings on them, the gravest first, of equally grave ones the most frequent.
    pub findings: Vec<Found>,
    /// Captures whose plan has an expected gain.
    pub could_gain: usize,
    /// The gain that is predicted of those: lowest, middle, highest; absent without any.
    pub predicted: Option<[f64; 3]>,
}

/// A ratio, pooled over machines.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The candidate, or the figure.
    pub what: String,
    /// The baseline, or both kernels.
    pub against: String,
    /// The conditions under which it was measured.
    pub conditions: String,
    /// The ratio over the machines.
    #[serde(flatten)]
    pub spread: Spread,
}

/// A rule that found something.
#[derive(Debug, Serialize)]
pub struct Found {
    /// The rule.
    pub rule: String,
    /// What it looks for.
    pub what: &'static str,
    /// The gravest that it was.
    pub severity: Severity,
    /// Captures on which it found something.
    pub machines: usize,
}

impl Fleet {
    /// Brings records and captures together.
    #[must_use]
    pub fn of(records: &[Record], captures: &[Looked], mut notes: Vec<String>) -> Self {
        let mut kinds: BTreeMap<String, (Vec<&Record>, Vec<&Looked>)> = BTreeMap::new();
        for record in records {
            kinds.entry(processor(&record.machine)).or_default().0.push(record);
        }
        for looked in captures {
            kinds.entry(processor(&looked.machine)).or_default().1.push(looked);
        }
        let mut kinds: Vec<Kind> = kinds
            .into_iter()
            .map(|(processor, (records, captures))| Kind::of(processor, &records, &captures))
            .collect();
        kinds.order_by(|a, b| b.machines.cmp(&a.machines));
        if records.iter().any(|r| r.machine.id.is_none()) {
            notes.push(
                "a record without the machine's identity counts as a machine of its own".into(),
            );
        }
        Self {
            format: "linerate-fleet",
            version: 1,
            machines: kinds.iter().map(|kind| kind.machines).sum(),
            records: records.len(),
            captures: captures.len(),
            kinds,
            notes,
        }
    }
}

impl Kind {
    fn of(processor: String, records: &[&Record], captures: &[&Looked]) -> Self {
        let of_records = records.iter().map(|r| (&r.machine, &r.side.file));
        let of_captures = captures.iter().map(|c| (&c.machine, &c.file));
        let all: Vec<(&Machine, &String)> = of_records.chain(of_captures).collect();
        let machines: BTreeSet<&str> = all.iter().map(|(m, file)| identity(m, file)).collect();
        let boards: BTreeSet<&String> = all.iter().filter_map(|(m, _)| m.board.as_ref()).collect();
        let gains: Vec<f64> = captures.iter().map(|c| c.gain).filter(|gain| *gain > 1.0).collect();
        let predicted = median(&gains).map(|middle| {
            let end = |pick: fn(f64, f64) -> f64| gains.iter().copied().fold(middle, pick);
            [end(f64::min), middle, end(f64::max)]
        });
        Self {
            processor,
            machines: machines.len(),
            boards: boards.into_iter().cloned().collect(),
            gains: over_baseline(records),
            kernels: over_kernels(records),
            captures: captures.len(),
            findings: frequent(captures),
            could_gain: gains.len(),
            predicted,
        }
    }
}

/// The name of a kind of machines.
fn processor(machine: &Machine) -> String {
    // The device tree names the board first and the chip last.
    let chip = machine.compatible.last().filter(|_| machine.compatible.len() > 1);
    // A core's name (Cortex-A53) is that of many chips; on a PC it is the board that says little.
    let (cpu, board) = (machine.cpu_model.as_ref(), machine.board.as_ref());
    let is_pc = machine.arch.starts_with("x86") || machine.arch.ends_with("86");
    let name = chip.or(if is_pc { cpu } else { board }).or(cpu).or(board);
    let name = name.map_or_else(|| machine.arch.clone(), Clone::clone);
    match &machine.virtualisation {
        Some(hypervisor) => format!("{name} ({hypervisor} guest)"),
        None => name,
    }
}

/// What tells machines apart: the hash of the machine's id, else the file.
fn identity<'a>(machine: &'a Machine, file: &'a str) -> &'a str {
    machine.id.as_deref().unwrap_or(file)
}

/// What every candidate gave over its baseline, the largest gain first.
fn over_baseline(records: &[&Record]) -> Vec<Row> {
    let mut pools: BTreeMap<(String, String, String), Pool> = BTreeMap::new();
    for record in records {
        let machine = identity(&record.machine, &record.side.file);
        for Gained { candidate, baseline, ratio } in &record.gains {
            let key = (record.conditions(), baseline.clone(), candidate.clone());
            pools.entry(key).or_default().add(machine, *ratio);
        }
    }
    let rivals = |conditions: &str, baseline: &str| {
        pools.keys().filter(|(c, b, _)| c == conditions && b == baseline).count()
    };
    let mut rows: Vec<Row> = Vec::new();
    for ((conditions, against, what), pool) in &pools {
        let Some(spread) = pool.spread(rivals(conditions, against)) else { continue };
        let (what, against) = (what.clone(), against.clone());
        rows.push(Row { what, against, conditions: conditions.clone(), spread });
    }
    rows.order_by(|a, b| {
        let same = a.conditions.cmp(&b.conditions);
        same.then_with(|| b.spread.ratio.total_cmp(&a.spread.ratio))
    });
    rows
}

/// What a newer kernel gave over an older one, on machines that were measured with both.
fn over_kernels(records: &[&Record]) -> Vec<Row> {
    // All values of a figure, by where and how it was measured, the machine and the kernel.
    type Kernels<'a> = BTreeMap<([u32; 3], &'a str), Vec<f64>>;
    let mut measured: BTreeMap<(String, &str), BTreeMap<&str, Kernels<'_>>> = BTreeMap::new();
    for record in records {
        let Some(number) = version(&record.machine.kernel) else { continue };
        let machine = identity(&record.machine, &record.side.file);
        for Figure { name, values, .. } in record.side.figures.iter().filter(|f| !f.is_floor) {
            let figure = measured.entry((record.conditions(), name)).or_default();
            let kernel = (number, record.machine.kernel.as_str());
            figure.entry(machine).or_default().entry(kernel).or_default().extend(values);
        }
    }
    let mut rows = Vec::new();
    for ((conditions, name), machines) in measured {
        let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
        for (machine, kernels) in machines {
            let kernels: Vec<_> = kernels.into_iter().collect();
            for ((older, before), (newer, after)) in kernels.iter().zip(kernels.iter().skip(1)) {
                let Some(ratio) = between(before, after).map(|b| b.ratio) else { continue };
                pools.entry(step(*older, *newer)).or_default().add(machine, ratio);
            }
        }
        let rivals = pools.len();
        for (against, pool) in pools {
            let Some(spread) = pool.spread(rivals) else { continue };
            let conditions = conditions.clone();
            rows.push(Row { what: name.to_owned(), against, conditions, spread });
        }
    }
    rows
}

/// The step from one kernel to the next: by series where these differ, for updates within one are many.
fn step(older: ([u32; 3], &str), newer: ([u32; 3], &str)) -> String {
    let ([a, b, _], [c, d, _]) = (older.0, newer.0);
    if (a, b) == (c, d) {
        return format!("{} to {}", older.1, newer.1);
    }
    format!("{a}.{b} to {c}.{d}")
}

/// Findings by severity and frequency.
fn frequent(captures: &[&Looked]) -> Vec<Found> {
    let mut counted: BTreeMap<&str, (Severity, usize)> = BTreeMap::new();
    for (rule, severity) in captures.iter().flat_map(|c| &c.findings) {
        let (gravest, machines) = counted.entry(rule).or_insert((*severity, 0));
        *gravest = (*gravest).max(*severity);
        *machines += 1;
    }
    let mut found: Vec<Found> = counted
        .into_iter()
        .map(|(rule, (severity, machines))| Found {
            rule: rule.to_owned(),
            what: diagnose::rules().find(|r| r.id == rule).map_or("", |r| r.what),
            severity,
            machines,
        })
        .collect();
    found.order_by(|a, b| (b.severity, b.machines).cmp(&(a.severity, a.machines)));
    found
}

#[cfg(test)]
mod tests;
