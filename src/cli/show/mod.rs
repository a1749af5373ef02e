//! `linerate show`: what this router is, on one screen.

mod kernel;
mod knobs;
mod nics;
mod path;
mod stack;

use super::args::{Part, ShowArgs};
use super::context::Context;
use super::table::{Table, wrap};
use crate::apply::inventory::{Item, inventory};
use crate::discover;
use crate::error::Result;
use crate::exit_code::ExitCode;
use crate::model::capacity::Source;
use crate::model::cpuset::CpuSet;
use crate::model::order::InOrder;
use crate::model::snapshot::{Cpu, Irq, Movable, Snapshot};
use crate::plan::Intake;

/// Runs the command.
pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<ExitCode> {
    let snapshot = discover::snapshot(context.reader());
    let out = &context.out;
    if args.part == Some(Part::Knobs) {
        let items = inventory(context.reader(), &snapshot);
        if out.json {
            out.json(&Settings { format: "linerate-knobs", version: 1, knobs: &items })?;
        } else {
            out.data(knobs::knobs(context, &snapshot, &items).join("\n"))?;
        }
        return Ok(ExitCode::Done);
    }
    if out.json {
        out.json(&Shown { format: "linerate-show", version: 1, snapshot: &snapshot })?;
        return Ok(ExitCode::Done);
    }
    let parts = match args.part {
        Some(part) => vec![part],
        None => vec![Part::Cpus, Part::Nics, Part::Irqs, Part::Stack, Part::Path],
    };
    let mut lines = Vec::new();
    if args.part.is_none() {
        lines.extend(machine(context, &snapshot));
    }
    for part in parts {
        let detail = args.part.is_some();
        let told = match part {
            Part::Cpus if detail => cpus(context, &snapshot),
            Part::Cpus => cpu_summary(context, &snapshot),
            Part::Nics => nics::nics(context, &snapshot, detail),
            Part::Irqs if detail => irqs(context, &snapshot),
            Part::Irqs => queues(context, &snapshot),
            Part::Stack => stack::stack(context, &snapshot, detail),
            Part::Path if detail => path::path(context, &snapshot),
            Part::Path => path::summary(context, &snapshot),
            Part::Kernel => kernel::kernel(context, &snapshot),
            // Shown alone, above.
            Part::Knobs => Vec::new(),
        };
        if !lines.is_empty() && !told.is_empty() {
            lines.push(String::new());
        }
        lines.extend(told);
    }
    if !snapshot.gaps.is_empty() {
        lines.push(String::new());
        lines.push(out.bold("not learnt"));
        for gap in &snapshot.gaps {
            let text = format!("{}: {}", gap.what, gap.why);
            let words: Vec<&str> = text.split_whitespace().collect();
            for (at, line) in wrap(&words, 96).iter().enumerate() {
                let indent = if at == 0 { "  " } else { "    " };
                lines.push(out.warn(format!("{indent}{line}")));
            }
        }
    }
    out.data(lines.join("\n"))?;
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    snapshot: &'a Snapshot,
}

#[derive(serde::Serialize)]
struct Settings<'a> {
    format: &'static str,
    version: u32,
    knobs: &'a [Item],
}

fn machine(context: &Context, snapshot: &Snapshot) -> Vec<String> {
    let m = &snapshot.machine;
    let name = if m.hostname.is_empty() { "this machine" } else { &m.hostname };
    let mut first = vec![context.out.bold(name)];
    first.extend(m.board.clone());
    first.extend(m.os.clone());
    first.push(format!("Linux {} {}", m.kernel, m.arch));
    let mut lines = vec![first.join(", ")];
    let mut more = Vec::new();
    more.extend(m.cpu_model.clone());
    more.extend(m.virtualisation.as_ref().map(|v| format!("virtual machine ({v})")));
    more.extend(snapshot.kernel.preemption.as_ref().map(|p| format!("preemption {p}")));
    if m.irq_time_accounting == Some(false) {
        more.push("softirq time sampled by the tick only".into());
    }
    if !more.is_empty() {
        lines.push(context.out.dim(more.join(", ")));
    }
    lines
}

/// One line per group of like CPUs, biggest first.
fn cpu_summary(context: &Context, snapshot: &Snapshot) -> Vec<String> {
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
    heading(context, &table)
}

fn cpus(context: &Context, snapshot: &Snapshot) -> Vec<String> {
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
    ]);
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
    let mut lines = heading(context, &table);
    let present: CpuSet = snapshot.cpus.iter().map(|c| c.id).collect();
    for cpu in snapshot.cpus.iter().filter(|c| !c.isolated_by.is_empty()) {
        lines.push(context.out.dim(format!("{} isolated: {}", cpu.id, cpu.isolated_by.join(", "))));
    }
    let absent = snapshot.possible.difference(&present);
    if !absent.is_empty() {
        lines.push(context.out.dim(format!("room for more: {absent}")));
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

/// Where each queue's packets are handled today, and what can't be moved.
fn queues(context: &Context, snapshot: &Snapshot) -> Vec<String> {
    let intake = Intake::of(snapshot);
    if intake.sources.is_empty() {
        return vec![context.out.dim("no receive queue is up: no packets to handle")];
    }
    let mut table =
        Table::new(&["packets of", "arrive by", "on", "then (RPS)", "XPS of the queue"]);
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
    let mut lines = heading(context, &table);
    lines.extend(concentration(&intake).map(|text| context.out.warn(text)));
    lines
}

/// Says so when one CPU does all the work while others could.
fn concentration(intake: &Intake<'_>) -> Option<String> {
    let mut busy = CpuSet::empty();
    for source in &intake.sources {
        let steered = source.queue.rps.as_ref().filter(|set| !set.is_empty());
        let cpus = steered.or_else(|| source.irq.and_then(Irq::lands_on))?;
        cpus.iter().for_each(|cpu| busy.insert(cpu));
    }
    let free = intake.usable.difference(&busy).len();
    let cpu = busy.first().filter(|_| busy.len() == 1 && free > 0)?;
    Some(format!(
        "all packets are handled on {cpu}; {free} other CPU{} could help: linerate plan",
        if free == 1 { "" } else { "s" }
    ))
}

fn moved(irq: &Irq) -> &'static str {
    match irq.movable {
        Movable::Presumed => "",
        Movable::Fixed => ", fixed",
        Movable::Unknown => ", affinity unknown",
    }
}

fn irqs(context: &Context, snapshot: &Snapshot) -> Vec<String> {
    if snapshot.irqs.is_empty() {
        return vec![context.out.dim("no network interrupts")];
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
    ]);
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
    let mut lines = heading(context, &table);
    for irq in &snapshot.irqs {
        if let (Movable::Fixed, Some(why)) = (irq.movable, &irq.movable_by) {
            lines.push(context.out.warn(format!("irq {} stays where it is: {why}", irq.line)));
        }
    }
    lines
}

fn heading(context: &Context, table: &Table) -> Vec<String> {
    let mut lines = table.lines();
    if let Some(first) = lines.first_mut() {
        *first = context.out.bold(&*first);
    }
    lines
}
