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

mod spread;

use serde::Serialize;

pub use self::spread::Spread;
use super::diagnose;
use super::experiment::analyse;
use super::experiment::compared::{Figure, Side};
use super::experiment::stats::{mean, median};
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

impl Gained {
    /// What each candidate of an experiment gave over its baseline, as far as that can be told.
    #[must_use]
    pub fn of_experiment(experiment: &Experiment) -> Vec<Self> {
        let baseline = &experiment.baseline;
        let others = analyse(experiment).candidates.into_iter().filter(|c| c.name != *baseline);
        let gained = others.filter_map(|c| {
            let (ratio, baseline) = (c.overall?.ratio, baseline.clone());
            Some(Self { candidate: c.name, baseline, ratio })
        });
        gained.collect()
    }
}

impl Record {
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
    /// Rules that found something, each once, with the severity.
    pub findings: Vec<(String, Severity)>,
    /// Predicted rate with the plan over the rate as found; 1 where no gain is expected.
    pub gain: f64,
}

impl Looked {
    /// A capture with what `check` and `plan` say of it.
    #[must_use]
    pub fn of(file: String, machine: Machine, findings: &[Finding], gain: Option<f64>) -> Self {
        let mut gravest: Vec<(String, Severity)> = Vec::new();
        for finding in findings {
            match gravest.iter_mut().find(|(rule, _)| *rule == finding.rule) {
                Some((_, severity)) => *severity = finding.severity.max(*severity),
                None => gravest.push((finding.rule.clone(), finding.severity)),
            }
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
        let of_records = records.iter().map(|record| processor(&record.machine));
        let of_captures = captures.iter().map(|looked| processor(&looked.machine));
        let mut kinds: Vec<Kind> = distinct(of_records.chain(of_captures))
            .into_iter()
            .map(|processor| Kind::of(processor, records, captures))
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
    fn of(name: String, records: &[Record], captures: &[Looked]) -> Self {
        let records: Vec<&Record> =
            records.iter().filter(|r| processor(&r.machine) == name).collect();
        let captures: Vec<&Looked> =
            captures.iter().filter(|c| processor(&c.machine) == name).collect();
        let of_records = records.iter().map(|r| (&r.machine, &r.side.file));
        let of_captures = captures.iter().map(|c| (&c.machine, &c.file));
        let all: Vec<(&Machine, &String)> = of_records.chain(of_captures).collect();
        let machines = distinct(all.iter().map(|(m, file)| identity(m, file).to_owned()));
        let boards = distinct(all.iter().filter_map(|(m, _)| m.board.clone()));
        let gains: Vec<f64> = captures.iter().map(|c| c.gain).filter(|gain| *gain > 1.0).collect();
        let predicted = median(&gains).map(|middle| {
            let end = |pick: fn(f64, f64) -> f64| gains.iter().copied().fold(middle, pick);
            [end(f64::min), middle, end(f64::max)]
        });
        Self {
            processor: name,
            machines: machines.len(),
            boards,
            gains: pooled(over_baseline(&records)),
            kernels: pooled(over_kernels(&records)),
            captures: captures.len(),
            findings: frequent(&captures),
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

/// Every text once, in order.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = texts.collect();
    all.order_by(Ord::cmp);
    all.dedup();
    all
}

/// The logarithm of a ratio, or of a rate, that was measured on one machine.
struct Entry<'a> {
    conditions: String,
    against: String,
    what: &'a str,
    machine: &'a str,
    log: f64,
}

impl Entry<'_> {
    fn row(&self) -> (&str, &str, &str) {
        (&self.conditions, &self.against, self.what)
    }
}

/// What every candidate gave over its baseline.
fn over_baseline<'a>(records: &[&'a Record]) -> Vec<Entry<'a>> {
    let mut found = Vec::new();
    for record in records {
        for Gained { candidate, baseline, ratio } in &record.gains {
            found.push(Entry {
                conditions: record.conditions(),
                against: baseline.clone(),
                what: candidate,
                machine: identity(&record.machine, &record.side.file),
                log: ratio.ln(),
            });
        }
    }
    found
}

/// What a newer kernel gave over an older one, on machines that were measured with both.
fn over_kernels<'a>(records: &[&'a Record]) -> Vec<Entry<'a>> {
    let mut rates: Vec<([u32; 3], Entry<'_>)> = Vec::new();
    for record in records {
        let kernel = &record.machine.kernel;
        let Some(number) = version(kernel) else { continue };
        for Figure { name, values, .. } in record.side.figures.iter().filter(|f| !f.is_floor) {
            let logs: Vec<f64> = values.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect();
            let Some(log) = mean(&logs) else { continue };
            let machine = identity(&record.machine, &record.side.file);
            let (conditions, against) = (record.conditions(), kernel.clone());
            rates.push((number, Entry { conditions, against, what: name, machine, log }));
        }
    }
    let place = |entry: &Entry<'a>| (entry.conditions.clone(), entry.what, entry.machine);
    rates.order_by(|(n, a), (m, b)| {
        place(a).cmp(&place(b)).then_with(|| (n, &a.against).cmp(&(m, &b.against)))
    });
    let mut found = Vec::new();
    for same in rates.chunk_by(|(_, a), (_, b)| place(a) == place(b)) {
        let kernels = same.chunk_by(|(_, a), (_, b)| a.against == b.against);
        let kernels: Vec<_> = kernels
            .filter_map(|runs| {
                let logs: Vec<f64> = runs.iter().map(|(_, run)| run.log).collect();
                Some((runs.first()?, mean(&logs)?))
            })
            .collect();
        for ((older, before), (newer, after)) in kernels.iter().zip(kernels.iter().skip(1)) {
            let against = step((older.0, &older.1.against), (newer.0, &newer.1.against));
            let Entry { conditions, what, machine, .. } = &newer.1;
            let (conditions, log) = (conditions.clone(), after - before);
            found.push(Entry { conditions, against, what, machine, log });
        }
    }
    found
}

/// Brings the entries of machines together: of each of the conditions the largest ratio first.
fn pooled(mut entries: Vec<Entry<'_>>) -> Vec<Row> {
    entries.retain(|entry| entry.log.is_finite());
    entries.order_by(|a, b| (a.row(), a.machine).cmp(&(b.row(), b.machine)));
    let mut rows: Vec<Row> = Vec::new();
    let compared =
        |a: &Entry<'_>, b: &Entry<'_>| (&a.conditions, &a.against) == (&b.conditions, &b.against);
    for compared in entries.chunk_by(compared) {
        let rivals = compared.chunk_by(|a, b| a.row() == b.row()).count();
        for one in compared.chunk_by(|a, b| a.row() == b.row()) {
            // A machine that was measured twice counts once.
            let machines = one.chunk_by(|a, b| a.machine == b.machine);
            let logs = machines
                .filter_map(|runs| mean(&runs.iter().map(|run| run.log).collect::<Vec<_>>()));
            let logs: Vec<f64> = logs.collect();
            let (Some(entry), Some(spread)) = (one.first(), Spread::of(&logs, rivals)) else {
                continue;
            };
            let (conditions, against) = (entry.conditions.clone(), entry.against.clone());
            rows.push(Row { what: entry.what.to_owned(), against, conditions, spread });
        }
    }
    rows.order_by(|a, b| {
        let same = a.conditions.cmp(&b.conditions);
        same.then_with(|| b.spread.ratio.total_cmp(&a.spread.ratio))
    });
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
    let mut all: Vec<&(String, Severity)> = captures.iter().flat_map(|c| &c.findings).collect();
    all.order_by(Ord::cmp);
    let same = all.chunk_by(|(a, _), (b, _)| a == b);
    let mut found: Vec<Found> = same
        .filter_map(|same| {
            let (rule, severity) = same.last()?;
            let what = diagnose::rules().find(|r| r.id == *rule).map_or("", |r| r.what);
            let machines = same.len();
            Some(Found { rule: rule.clone(), what, severity: *severity, machines })
        })
        .collect();
    found.order_by(|a, b| (b.severity, b.machines).cmp(&(a.severity, a.machines)));
    found
}

#[cfg(test)]
mod tests;
