//! Report on a router: the machine in short, or one part of it in detail.
//!
//! In comes a snapshot; out goes a document, or the blocks of one part. Nothing is read or written.

mod kernel;
mod nics;
mod path;
mod stack;

use super::document::{Block, Document, Section, Table};
use crate::decide::plan::cost::Model;
use crate::decide::plan::{self, Gain, Intake, Request};
use crate::model::capacity::Source;
use crate::model::cpuset::CpuSet;
use crate::model::evidence::PollerRole;
use crate::model::order::InOrder;
use crate::model::plan::Candidate;
use crate::model::snapshot::{Cpu, Irq, IrqRole, Movable, Snapshot};

/// A part of what is known of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// CPUs with capacity, cluster and governor.
    Cpus,
    /// Network devices with queues and offloads.
    Nics,
    /// Network interrupts.
    Irqs,
    /// Devices, and those that they stand on.
    Stack,
    /// Stages that a forwarded packet passes.
    Path,
    /// Kernel and board.
    Kernel,
}

/// The machine and the most important of all parts, on one screen.
#[must_use]
pub fn summary(snapshot: &Snapshot) -> Document {
    let mut document = machine(snapshot);
    if let Some(verdict) = verdict(snapshot) {
        document.origin.insert(0, std::mem::replace(&mut document.title, verdict));
    }
    document.blocks(cpu_summary(snapshot));
    document.blocks(nics::nics(snapshot, false));
    document.blocks(queues(snapshot));
    document.blocks(stack::stack(snapshot, false));
    document.blocks(path::summary(snapshot));
    document.section(gaps(snapshot));
    document
}

/// All that is known of one part.
#[must_use]
pub fn detail(snapshot: &Snapshot, part: Part) -> Document {
    let mut document = Document::default();
    document.blocks(match part {
        Part::Cpus => cpus(snapshot),
        Part::Nics => nics::nics(snapshot, true),
        Part::Irqs => irqs(snapshot),
        Part::Stack => stack::stack(snapshot, true),
        Part::Path => path::path(snapshot),
        Part::Kernel => kernel::kernel(snapshot),
    });
    document.section(gaps(snapshot));
    document
}

fn machine(snapshot: &Snapshot) -> Document {
    let m = &snapshot.machine;
    let name = if m.hostname.is_empty() { "this machine" } else { &m.hostname };
    let mut first = vec![name.to_owned()];
    first.extend(m.board.clone());
    first.extend(m.os.clone());
    first.push(format!("Linux {} {}", m.kernel, m.arch));
    let mut document = Document::new(first.join(", "));
    let mut more = Vec::new();
    more.extend(m.cpu_model.clone());
    more.extend(m.virtualisation.as_ref().map(|v| format!("virtual machine ({v})")));
    more.extend(snapshot.kernel.preemption.as_ref().map(|p| format!("preemption {p}")));
    if m.irq_time_accounting == Some(false) {
        more.push("softirq time sampled by the tick only".into());
    }
    document.origin = vec![more.join(", ")];
    document
}

fn gaps(snapshot: &Snapshot) -> Section {
    let gaps = snapshot.gaps.iter();
    Section::new("not learnt").with(gaps.map(|g| Block::alarm(format!("{}: {}", g.what, g.why))))
}

/// Lines on the CPUs, one per group of like ones, biggest first.
fn cpu_summary(snapshot: &Snapshot) -> Vec<Block> {
    let mut groups: Vec<(u32, Source, Vec<&Cpu>)> = Vec::new();
    for cpu in snapshot.cpus.iter().filter(|c| c.online) {
        let key = (cpu.capacity.value, cpu.capacity.source);
        match groups.iter_mut().find(|g| (g.0, g.1) == key) {
            Some(group) => group.2.push(cpu),
            None => groups.push((key.0, key.1, vec![cpu])),
        }
    }
    groups.order_by_key(|g| std::cmp::Reverse(g.0));
    let alike = groups.len() == 1;
    let mut table = Table::new(&["CPUs", "capacity", "frequency", "governor", ""]);
    for (value, source, cpus) in groups {
        let set: CpuSet = cpus.iter().map(|c| c.id).collect();
        let isolated: CpuSet = cpus.iter().filter(|c| c.isolated).map(|c| c.id).collect();
        let mut notes = Vec::new();
        if !isolated.is_empty() {
            notes.push(format!("isolated: {isolated}"));
        }
        if let Some(kind) = cpus.first().and_then(|c| c.core_type.as_ref()).filter(|_| !alike) {
            notes.push(kind.clone());
        }
        if cpus.iter().any(|c| c.siblings.len() > 1) {
            notes.push("threads share cores".to_owned());
        }
        table.row([
            set.to_string(),
            if alike { "all alike".into() } else { format!("{value}{}", learnt(source)) },
            ghz(cpus.first().and_then(|c| c.max_khz)),
            governor(cpus.first().copied()),
            notes.join(", "),
        ]);
    }
    let offline: CpuSet = snapshot.cpus.iter().filter(|c| !c.online).map(|c| c.id).collect();
    if !offline.is_empty() {
        table.row([offline.to_string(), "offline".into()]);
    }
    vec![Block::Table(table)]
}

fn cpus(snapshot: &Snapshot) -> Vec<Block> {
    let mut table = Table::new(&[
        "CPU",
        "state",
        "type",
        "capacity",
        "frequency",
        "package",
        "node",
        "cluster",
        "threads",
        "L2 with",
        "L3 with",
        "governor",
        "crypto",
    ])
    .gives_way(&[12, 9, 10, 5, 6, 11]);
    let list = |set: &CpuSet| if set.is_empty() { "-".into() } else { set.to_string() };
    for cpu in &snapshot.cpus {
        let state = match (cpu.online, cpu.nohz_full, cpu.isolated) {
            (false, ..) => "offline",
            (true, true, _) => "tickless",
            (true, false, true) => "isolated",
            (true, false, false) => "online",
        };
        table.row([
            cpu.id.to_string(),
            state.into(),
            cpu.core_type.clone().unwrap_or_else(|| "-".into()),
            format!("{}{}", cpu.capacity.value, learnt(cpu.capacity.source)),
            ghz(cpu.max_khz),
            cpu.package.filter(|p| *p >= 0).map_or_else(|| "-".into(), |p| p.to_string()),
            cpu.node.map_or_else(|| "-".into(), |n| n.to_string()),
            cpu.cluster.to_string(),
            cpu.siblings.to_string(),
            list(&cpu.l2),
            list(&cpu.l3),
            governor(Some(cpu)),
            if cpu.crypto.is_empty() { "-".into() } else { cpu.crypto.join(" ") },
        ]);
    }
    table.drop_empty();
    let mut lines = vec![Block::Table(table)];
    let present: CpuSet = snapshot.cpus.iter().map(|c| c.id).collect();
    for cpu in snapshot.cpus.iter().filter(|c| !c.isolated_by.is_empty()) {
        lines.push(Block::note(format!("{} isolated: {}", cpu.id, cpu.isolated_by.join(", "))));
    }
    let absent = snapshot.possible.difference(&present);
    if !absent.is_empty() {
        lines.push(Block::note(format!("room for more: {absent}")));
    }
    lines
}

fn learnt(source: Source) -> &'static str {
    match source {
        Source::Kernel => "",
        Source::Frequency => " (by frequency)",
        Source::Firmware => " (by firmware)",
        Source::CoreType => " (by core type)",
        Source::Board => " (by board file)",
        Source::Assumed => " (assumed)",
    }
}

fn ghz(khz: Option<u64>) -> String {
    khz.map_or_else(|| "-".into(), |khz| format!("{:.2} GHz", khz as f64 / 1e6))
}

fn governor(cpu: Option<&Cpu>) -> String {
    cpu.and_then(|c| c.governor.as_ref()).map_or_else(|| "-".into(), |g| g.current.clone())
}

/// Lines on where each queue's packets are handled today, and on lines that can't be moved.
fn queues(snapshot: &Snapshot) -> Vec<Block> {
    let intake = Intake::of(snapshot);
    if intake.sources.is_empty() {
        return vec![Block::note("no receive queue is up: no packets to handle")];
    }
    let mut table =
        Table::new(&["packets of", "arrive by", "on", "then (RPS)", "XPS of the queue"])
            .gives_way(&[4, 3]);
    for source in &intake.sources {
        let irq = source.irq.map_or_else(
            || "no interrupt: the sender's CPU".to_owned(),
            |irq| format!("irq {} ({}){}", irq.line, irq.action, moved(irq)),
        );
        let on = source
            .irq
            .and_then(Irq::lands_on)
            .map_or_else(|| "-".into(), |set| format!("CPU {set}"));
        let rps = match &source.queue.rps {
            Some(set) if set.is_empty() => "the same CPU".into(),
            Some(set) => format!("CPU {set}"),
            None => "no RPS here".into(),
        };
        let xps = source
            .device
            .tx_queues
            .get(source.queue.index as usize)
            .and_then(|q| q.xps.as_ref())
            .map_or_else(
                || "-".into(),
                |set| if set.is_empty() { "off".into() } else { format!("CPU {set}") },
            );
        table.row([format!("{} rx-{}", source.device.name, source.queue.index), irq, on, rps, xps]);
    }
    vec![Block::Table(table)]
}

/// Where packets are handled, and what the plan is expected to bring; `None` where no queue is up or it
/// is not known where its packets go.
fn verdict(snapshot: &Snapshot) -> Option<String> {
    let place = place(snapshot, &Intake::of(snapshot))?;
    let request = Request::default();
    let model = Model::new(snapshot, &request.traffic, request.profile);
    let told = |candidate: &Candidate| model.predict(candidate).ok().flatten();
    let Some(now) = told(&Candidate::default()) else { return Some(place) };
    let planned = plan::planned(snapshot, &request.traffic, request.profile).ok();
    let gain = planned.and_then(|then| Gain::of(&now, &told(&then.candidate)?));
    Some(match gain {
        Some(gain) if gain.is_any() => {
            format!("{place}; `linerate plan` should give {}", gain.words())
        }
        Some(gain) if gain.small.is_some() => {
            format!("{place}; expected gain of `linerate plan`: {}", gain.words())
        }
        _ if now.carried => format!("{place}; the links are full before any CPU"),
        _ if snapshot.usable_cpus().len() < 2 => place,
        _ => format!("{place}; no other placement is expected to give more"),
    })
}

/// The CPUs that packets are handled on.
fn place(snapshot: &Snapshot, intake: &Intake<'_>) -> Option<String> {
    let threads = |device: &str| -> CpuSet {
        let all = snapshot.evidence.iter().flat_map(|e| &e.pollers);
        all.filter(|p| p.role == PollerRole::Napi && p.polls != Some(IrqRole::Tx))
            .filter(|p| p.serves(device))
            .flat_map(|p| p.cpus.iter().flat_map(CpuSet::iter))
            .collect()
    };
    let mut busy = CpuSet::empty();
    for source in &intake.sources {
        let steered = source.queue.rps.as_ref().filter(|set| !set.is_empty());
        let polled = Some(threads(&source.device.name)).filter(|set| !set.is_empty());
        let cpus = steered.or(polled.as_ref()).or_else(|| source.irq.and_then(Irq::lands_on))?;
        cpus.iter().for_each(|cpu| busy.insert(cpu));
    }
    match busy.len() {
        0 => None,
        1 => Some(format!("all packets are handled on CPU{busy}")),
        _ => Some(format!("packets are handled on CPUs {busy}")),
    }
}

fn moved(irq: &Irq) -> &'static str {
    match irq.movable {
        Movable::Presumed => "",
        Movable::Fixed => ", fixed",
        Movable::Unknown => ", affinity unknown",
    }
}

fn irqs(snapshot: &Snapshot) -> Vec<Block> {
    if snapshot.irqs.is_empty() {
        return vec![Block::note("no network interrupts")];
    }
    let mut table = Table::new(&[
        "irq",
        "device",
        "queue",
        "role",
        "may go to",
        "goes to",
        "count",
        "chip",
        "learnt by",
    ])
    .figures([6])
    .gives_way(&[8, 7, 6]);
    let list = |set: &Option<CpuSet>| set.as_ref().map_or_else(|| "?".into(), ToString::to_string);
    for irq in &snapshot.irqs {
        let mut device = irq.id.device.clone();
        if !irq.shared_with.is_empty() {
            device = format!("{device}, {}", irq.shared_with.join(", "));
        }
        table.row([
            irq.line.to_string(),
            device,
            irq.id.queue.to_string(),
            irq.id.role.to_string(),
            list(&irq.affinity),
            list(&irq.effective),
            irq.counts.iter().map(|(_, n)| n).fold(0u64, |a, n| a.saturating_add(*n)).to_string(),
            irq.chip.clone(),
            irq.learnt.clone(),
        ]);
    }
    let mut lines = vec![Block::Table(table)];
    for irq in &snapshot.irqs {
        if let (Movable::Fixed, Some(why)) = (irq.movable, &irq.movable_by) {
            lines.push(Block::alarm(format!("irq {} stays where it is: {why}", irq.line)));
        }
    }
    lines
}
