//! Which CPUs the packets are on.

use std::collections::BTreeMap;

use super::steering::names_offline;
use crate::decide::diagnose::outlook::Misplaced;
use crate::decide::diagnose::places::{affinity, rps};
use crate::decide::diagnose::subject::{listed, softnet_shares};
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::decide::plan::Source;
use crate::model::cpuset::CpuSet;
use crate::model::evidence::Poller;
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::{Irq, Movable};
use crate::model::units::CpuId;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "worker-shares-cpu",
        what: "a Wi-Fi card's thread on the CPU of its other thread, or of the wired packets",
        costs: "both wait for one CPU while others idle: on a Banana Pi R4 Wi-Fi made 2.09 instead of \
                1.45 Gbit/s with mt76's transmit thread off the CPU of the card's NAPI thread",
        source: "openwrt issue 24697",
        reads: "threads that poll or transmit for radios and their CPUs, interrupt affinity, RPS masks",
        load: Load::Apart,
        look: worker,
    },
    Rule {
        id: "lone-cpu",
        what: "one CPU handles all packets while others could help",
        costs: "the router's rate ends where that CPU is full: on a Raspberry Pi CM4 both ways at \
                once made 247 + 887 Mbit/s with everything on CPU0 and 937 + 923 spread over three \
                CPUs; on a NanoPi R76S 606 against 2162 Mbit/s",
        source: "field reports CM4 and R76S; Documentation/networking/scaling.rst",
        reads: "interrupt affinity, RPS masks, softnet_stat",
        load: Load::Better,
        look: lone_cpu,
    },
    Rule {
        id: "saturated-cpu",
        what: "a CPU full of interrupts while others idle",
        costs: "packets queue and are dropped while most of the machine does nothing: a CM4 whose \
                CPU0 was at 100 % crawled at 247 Mbit/s one way, and made 937 with the work spread",
        source: "field report CM4",
        reads: "/proc/stat over the window",
        load: Load::Needed,
        look: saturated,
    },
    Rule {
        id: "little-cores",
        what: "packets on slow CPUs while fast ones have none",
        costs: "a slow core does a fraction of a fast one's packets; an irqbalance that ignored \
                this made 300 instead of 900 Mbit/s on a big.LITTLE board",
        source: "irqbalance issue 338; NanoPi R4S field report",
        reads: "CPU capacities, interrupt affinity, RPS masks",
        load: Load::Apart,
        look: little_cores,
    },
    Rule {
        id: "immovable-line",
        what: "an interrupt that can't be moved shares its CPU with other packet work",
        costs: "what can move should make room: on a CM4 whose PCIe card can't leave CPU0, moving \
                the other card's two lines and steering this one's packets by RPS took both ways \
                from 247 + 887 to 937 + 923 Mbit/s",
        source: "field report CM4",
        reads: "what is known of each line's movability, affinity, RPS masks",
        load: Load::Better,
        look: immovable,
    },
];

/// The CPUs of each queue that has packets.
pub(super) fn known(subject: &Subject<'_>) -> Result<Vec<CpuSet>, String> {
    if subject.intake.sources.is_empty() {
        return Err("no receive queue of a network card is known".into());
    }
    let busy = subject.intake.sources.iter().filter(|s| !subject.is_idle(s));
    busy.map(|s| subject.handled_on(s))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| "it is not known which CPUs the packets arrive on".into())
}

pub(super) fn union(sets: &[CpuSet]) -> CpuSet {
    sets.iter().flat_map(CpuSet::iter).collect()
}

/// The CPU that all packets are on while others could help.
fn lone(subject: &Subject<'_>) -> Result<Option<(CpuId, CpuSet)>, String> {
    let on = union(&known(subject)?);
    let others = subject.intake.usable.difference(&on);
    Ok(on.first().filter(|_| on.len() == 1 && !others.is_empty()).map(|cpu| (cpu, others)))
}

/// As grave as the placement is; a notice where `lone-cpu` or `offline-mask` tells the same cause
/// already.
fn beside(subject: &Subject<'_>, worse: &Misplaced<'_>, title: String) -> Found {
    let severity = subject.on_router(worse.better.severity());
    let aside = names_offline(subject) || lone(subject).is_ok_and(|lone| lone.is_some());
    let severity = if aside { severity.min(Severity::Notice) } else { severity };
    Found { aside, ..Found::new(severity, title) }
}

/// True if a rule here says why the placement costs what it does.
pub(super) fn is_named(subject: &Subject<'_>, worse: &Misplaced<'_>) -> bool {
    let told = [lone_cpu(subject), little_cores(subject), immovable(subject)];
    let graver = |found: &Found| found.cost >= worse.better.cost;
    told.into_iter().flatten().any(|found| found.iter().any(graver))
}

fn lone_cpu(subject: &Subject<'_>) -> Looked {
    let Some((cpu, others)) = lone(subject)? else { return Ok(Vec::new()) };
    let Some(worse) = subject.misplaced() else { return Ok(Vec::new()) };
    // That is `offline-mask`'s to tell.
    if names_offline(subject) {
        return Ok(Vec::new());
    }
    // A machine that forwards nothing has no rate to lose, unless its card spreads by itself and
    // is kept from it.
    let queues = subject.intake.devices.iter().any(|d| {
        let lines = subject.intake.lines.iter().filter(|l| l.id.device == d.name);
        lines.filter(|l| l.id.role.receives() && l.movable == Movable::Presumed).count() > 1
    });
    let severity = worse.better.severity();
    let severity = if queues { severity } else { subject.on_router(severity) };
    let busy = subject.intake.sources.iter().filter(|s| !subject.is_idle(s));
    let names = listed(busy.map(|s| s.device.name.as_str()));
    let title =
        format!("all packets of {names} are handled on CPU{} while CPU {others} could help", cpu.0);
    let mut found = Found::new(severity, title).all_seen(subject.places());
    let (by_cpu, all) = softnet_shares(subject.snapshot);
    // Where others took more, those were veth's and loopback's: no word on the cards.
    if let Some(taken) = by_cpu.get(&cpu).filter(|taken| all > 10_000 && **taken * 5 > all * 4) {
        let words = format!("CPU{} took {taken} of {all} packets since boot", cpu.0);
        found = found.seen("/proc/net/softnet_stat", words);
    }
    if let Some(busy) = subject.interrupted(cpu) {
        let words = format!("CPU{} {:.0} % in interrupts in the window", cpu.0, busy * 100.0);
        found = found.seen("/proc/stat", words);
    }
    Ok(vec![worse.told(found)])
}

fn worker(subject: &Subject<'_>) -> Looked {
    let Some(worse) = subject.misplaced() else { return Ok(Vec::new()) };
    let busy: Vec<&Source<'_>> =
        subject.intake.sources.iter().filter(|s| !subject.is_idle(s)).collect();
    // The CPU of a source that has but one.
    let wired = |s: &Source<'_>| -> Vec<CpuId> {
        let stack = subject.handled_on(s).filter(|set| set.len() == 1).and_then(|set| set.first());
        subject.polls_on(s).into_iter().chain(stack).collect()
    };
    let threads: Vec<(&Poller, CpuId)> = subject.radio_threads().collect();
    let beside = |(thread, cpu): &(&Poller, CpuId)| {
        threads.iter().any(|(o, at)| at == cpu && o.owner == thread.owner && o.pid != thread.pid)
    };
    let meets = |cpu: CpuId| busy.iter().filter(move |s| wired(s).contains(&cpu));
    let Some((_, cpu)) = threads.iter().find(|t| beside(t) || meets(t.1).next().is_some()) else {
        return Ok(Vec::new());
    };
    let shared = || threads.iter().filter(|(_, at)| at == cpu);
    let mut title = format!("{}: on CPU{}", listed(shared().map(|(t, _)| t.name.as_str())), cpu.0);
    let devices = listed(meets(*cpu).map(|s| s.device.name.as_str()));
    match devices.is_empty() {
        true => title += " together",
        false => title += &format!(" with the packets of {devices}"),
    }
    let mut found = Found::new(subject.on_router(worse.better.severity()), title);
    for (thread, _) in shared() {
        let place = format!("/proc/{}/status, Cpus_allowed_list ({})", thread.pid, thread.name);
        found = found.seen(place, cpu.0);
    }
    Ok(vec![worse.told(found.sure(Confidence::Likely).all_seen(subject.places()))])
}

fn saturated(subject: &Subject<'_>) -> Looked {
    if subject.window.is_none() {
        return Err("needs rates: linerate check --load 10s, under traffic".into());
    }
    let mut found = Vec::new();
    for rates in subject.rates() {
        let Some(busy) = subject.interrupted(rates.cpu) else { continue };
        let others: Vec<f64> = subject
            .rates()
            .filter(|r| r.cpu != rates.cpu && subject.intake.usable.contains(r.cpu))
            .filter_map(|r| r.idle)
            .collect();
        let idle = others.iter().sum::<f64>() / (others.len().max(1)) as f64;
        if busy < 0.85 || others.is_empty() || idle < 0.4 {
            continue;
        }
        let title = format!(
            "CPU{} is full of packets ({:.0} % in interrupts) while the others idle {:.0} %",
            rates.cpu.0,
            busy * 100.0,
            idle * 100.0
        );
        let words = format!(
            "CPU{} softirq {:.0} %, irq {:.0} %, {:.0} packets/s",
            rates.cpu.0,
            rates.softirq.unwrap_or(0.0) * 100.0,
            rates.irq.unwrap_or(0.0) * 100.0,
            rates.packets.unwrap_or(0.0)
        );
        let worse = subject.misplaced();
        let one = Found::new(Severity::Critical, title).seen("/proc/stat", words).rank(0.3);
        let one = one.all_seen(subject.places());
        found.push(match worse.filter(|w| w.better.cost > 0.0) {
            Some(worse) => worse.told(one),
            None => one
                .remedy("by the cost model no other placement is clearly better: less work for each packet")
                .remedy("linerate plan --candidate flowtable  # established flows past the rules")
                .remedy("one connection alone fills one CPU: compare with many at once"),
        });
    }
    Ok(found)
}

fn little_cores(subject: &Subject<'_>) -> Looked {
    let usable: Vec<_> =
        subject.snapshot.cpus.iter().filter(|c| subject.intake.usable.contains(c.id)).collect();
    let most = usable.iter().map(|c| c.capacity.value).max().unwrap_or(0);
    let is_big = |value: u32| value * 5 >= most * 4;
    let big: CpuSet = usable.iter().filter(|c| is_big(c.capacity.value)).map(|c| c.id).collect();
    if big.len() == usable.len() {
        return Ok(Vec::new());
    }
    let on = union(&known(subject)?);
    if on.is_empty() || !on.intersection(&big).is_empty() {
        return Ok(Vec::new());
    }
    let Some(worse) = subject.misplaced() else { return Ok(Vec::new()) };
    let capacity = |set: &CpuSet| {
        set.iter().filter_map(|id| subject.cpu(id)).map(|c| c.capacity.value).max().unwrap_or(0)
    };
    let (slow, fast) = (capacity(&on), capacity(&big));
    let title = format!(
        "packets are handled on the slow CPU {on} (capacity {slow} of {fast}); the fast CPU {big} \
         has none"
    );
    let place = "/sys/devices/system/cpu/cpu*/cpu_capacity (or derived: linerate show cpus)";
    let found = beside(subject, &worse, title)
        .seen(place, format!("{slow} for CPU {on}, {fast} for CPU {big}"))
        .all_seen(subject.places());
    Ok(vec![worse.told(found)])
}

fn immovable(subject: &Subject<'_>) -> Looked {
    known(subject)?;
    let Some(worse) = subject.misplaced() else { return Ok(Vec::new()) };
    // Fixed lines whose packets stay where they arrive, by CPU.
    let mut stuck: BTreeMap<CpuId, Vec<(&Irq, &Source<'_>)>> = BTreeMap::new();
    let fixed = subject.intake.lines.iter().filter(|l| l.movable == Movable::Fixed);
    for line in fixed.filter(|l| l.id.role.receives()) {
        let mine = |s: &&Source<'_>| s.irq.is_some_and(|irq| irq.line == line.line);
        let mut queues = subject.intake.sources.iter().filter(mine);
        let kept = |s: &Source<'_>| s.queue.rps.as_ref().is_some_and(CpuSet::is_empty);
        let Some(first) = queues.next().filter(|s| kept(s) && queues.all(kept)) else { continue };
        if let Some(cpu) = subject.arrives_on(first) {
            stuck.entry(cpu).or_default().push((line, first));
        }
    }
    let mut found = Vec::new();
    for (cpu, lines) in stuck {
        let on = |s: &&Source<'_>| subject.handled_on(s).is_some_and(|set| set.contains(cpu));
        let here = listed(subject.intake.sources.iter().filter(on).map(|s| s.device.name.as_str()));
        let busy = subject.interrupted(cpu).filter(|busy| *busy >= 0.7);
        if !here.contains(',') && busy.is_none() {
            continue;
        }
        let numbers: Vec<String> =
            lines.iter().map(|(line, _)| format!("{} of {}", line.line, line.id.device)).collect();
        let title = format!(
            "interrupt {} can't leave CPU{}, which handles the packets of {here}",
            numbers.join(" and "),
            cpu.0
        );
        let mut one = beside(subject, &worse, title);
        for (line, source) in &lines {
            let why = line.movable_by.as_deref().unwrap_or("its affinity can't be changed");
            one = one
                .all_seen([affinity(line)])
                .seen(format!("/proc/irq/{}", line.line), why)
                .all_seen([rps(source)]);
        }
        found.push(worse.told(one));
    }
    Ok(found)
}
