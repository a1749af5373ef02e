//! RPS where it does not help.

use crate::decide::diagnose::subject::{affinity, rps, rps_file};
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::cpuset::CpuSet;
use crate::model::finding::{Confidence, Evidence, Severity};
use crate::model::snapshot::NetDev;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "rps-own-cpu",
        what: "RPS keeps part of the packets on the CPU that takes their interrupts",
        costs: "the interrupt's CPU keeps a share of the work that RPS was to take off it; a mask of \
                that CPU alone only adds a detour",
        source: "Documentation/networking/scaling.rst (RPS: suggested configuration)",
        reads: "RPS masks, interrupt affinity; with --load the CPU's time",
        load: Load::Better,
        look: own_cpu,
    },
    Rule {
        id: "rps-with-queues",
        what: "RPS on a card that has a hardware queue for every CPU",
        costs: "the card spreads the packets already; RPS adds an interrupt between CPUs to each \
                (one user measured 10 % more softirq time)",
        source: "Documentation/networking/scaling.rst (RPS: suggested configuration)",
        reads: "queues, interrupt affinity, RPS masks",
        load: Load::Apart,
        look: with_queues,
    },
    Rule {
        id: "steered-twice",
        what: "RPS on a VLAN, PPPoE or bridge device over one that spreads its packets already",
        costs: "packets change CPUs twice: the hash at the port looks inside VLAN and PPPoE, so the \
                second step costs an interrupt between CPUs for nothing",
        source: "net/core/flow_dissector.c (__skb_flow_dissect: ETH_P_8021Q, ETH_P_PPP_SES)",
        reads: "RPS masks of devices without hardware, and of those under them",
        load: Load::Apart,
        look: twice,
    },
    Rule {
        id: "decimal-mask",
        what: "a CPU mask that looks as if a decimal number was written into a hexadecimal file",
        costs: "packets go to other CPUs than meant: 16 written for CPU 4 is CPU 1, 2 and 4. \
                Armbian's scripts shipped this mistake",
        source: "Documentation/core-api/irq/irq-affinity.rst; Armbian's smp_affinity scripts",
        reads: "RPS masks, interrupt affinity",
        load: Load::Apart,
        look: decimal,
    },
];

fn no_rps(subject: &Subject<'_>) -> Option<String> {
    let known = subject.intake.sources.iter().any(|s| s.queue.rps.is_some());
    (!known).then(|| "no receive queue has an RPS mask that can be read".to_owned())
}

fn own_cpu(subject: &Subject<'_>) -> Looked {
    if let Some(why) = no_rps(subject) {
        return Err(why);
    }
    let mut found: Vec<Found> = Vec::new();
    let mut told: Vec<(&str, bool, usize)> = Vec::new();
    for source in &subject.intake.sources {
        let Some(mask) = source.queue.rps.as_ref().filter(|m| !m.is_empty()) else { continue };
        let Some(cpu) = subject.arrives_on(source).filter(|cpu| mask.contains(*cpu)) else {
            continue;
        };
        let others = mask.difference(&CpuSet::single(cpu));
        let busy = subject.interrupted(cpu).filter(|busy| *busy >= 0.8);
        // A card's queues are one matter, as long as none of their CPUs is full.
        let card = source.device.name.as_str();
        if busy.is_none() {
            let same = |(name, alone, _): &&(&str, bool, usize)| {
                *name == card && *alone == others.is_empty()
            };
            if let Some(first) = told.iter().find(same).and_then(|(.., at)| found.get_mut(*at)) {
                first.title = match others.is_empty() {
                    true => {
                        format!("RPS of several queues of {card} hands packets to where they are")
                    }
                    false => format!(
                        "RPS of several queues of {card} includes the CPU that takes their interrupts"
                    ),
                };
                first.evidence.push(rps(source));
                first.evidence.extend(source.irq.map(affinity));
                continue;
            }
            told.push((card, others.is_empty(), found.len()));
        }
        let name = format!("{} rx-{}", source.device.name, source.queue.index);
        let file = rps_file(&source.device.name, source.queue.index);
        let (severity, title, mask) = if others.is_empty() {
            let title =
                format!("RPS of {name} hands packets to CPU{} alone, where they are", cpu.0);
            (Severity::Notice, title, CpuSet::empty())
        } else {
            let title =
                format!("RPS of {name} includes CPU{}, which takes the interrupts already", cpu.0);
            let severity = if busy.is_some() { Severity::Warning } else { Severity::Notice };
            (severity, title, others)
        };
        let mut one = Found::new(severity, title).all_seen([rps(source)]);
        one = one.all_seen(source.irq.map(affinity));
        if let Some(busy) = busy {
            let words = format!("CPU{} {:.0} % in interrupts", cpu.0, busy * 100.0);
            one = one.seen("/proc/stat", words).cost(0.1);
        } else {
            one = one.sure(Confidence::Likely);
        }
        found.push(
            one.remedy("linerate plan  # leaves the interrupt's CPU out where that is better")
                .remedy(format!("or by hand: echo {} > {file}", mask.to_mask())),
        );
    }
    Ok(found)
}

/// The CPUs of a device's receive lines, where each queue has a line of its own.
fn spread(subject: &Subject<'_>, device: &NetDev) -> Option<CpuSet> {
    let sources = subject.intake.sources.iter().filter(|s| s.device.name == device.name);
    let lines: Vec<_> = sources.map(|s| Some((s.irq?.line, subject.arrives_on(s)?))).collect();
    let lines: Vec<_> = lines.into_iter().collect::<Option<_>>()?;
    let distinct = lines
        .iter()
        .enumerate()
        .all(|(at, (line, _))| lines.iter().skip(at + 1).all(|(other, _)| other != line));
    distinct.then(|| lines.into_iter().map(|(_, cpu)| cpu).collect())
}

fn with_queues(subject: &Subject<'_>) -> Looked {
    if let Some(why) = no_rps(subject) {
        return Err(why);
    }
    let mut found = Vec::new();
    for device in &subject.intake.devices {
        let steered: Vec<_> = subject
            .intake
            .sources
            .iter()
            .filter(|s| s.device.name == device.name)
            .filter(|s| s.queue.rps.as_ref().is_some_and(|m| !m.is_empty()))
            .collect();
        let Some(first) = steered.first() else { continue };
        let enough = spread(subject, device)
            .is_some_and(|on| subject.intake.usable.is_subset(&on) && on.len() > 1);
        if !enough || super::rss::all_on_one_queue(device, subject).is_some() {
            continue;
        }
        let title = format!(
            "RPS is on for {} of {}'s {} queues although they are on every CPU already",
            steered.len(),
            device.name,
            device.rx_queues.len()
        );
        found.push(
            Found::new(Severity::Notice, title)
                .all_seen([rps(first)])
                .all_seen(first.irq.map(affinity))
                .cost(0.05)
                .sure(Confidence::Likely)
                .remedy("linerate plan  # switches it off where the card does the spreading")
                .remedy(format!(
                    "or by hand: for f in /sys/class/net/{}/queues/rx-*/rps_cpus; do echo 0 > $f; done",
                    device.name
                )),
        );
    }
    Ok(found)
}

fn twice(subject: &Subject<'_>) -> Looked {
    let devices = &subject.snapshot.netdevs;
    let mut stacked = devices.iter().filter(|d| !d.is_hardware() && !d.is_veth()).peekable();
    let unread = |d: &NetDev| d.rx_queues.iter().all(|q| q.rps.is_none());
    if stacked.peek().is_some() && stacked.all(unread) {
        return Err("no stacked device has an RPS mask that can be read".into());
    }
    let mut found = Vec::new();
    for device in devices.iter().filter(|d| !d.is_hardware() && !d.is_veth()) {
        let on =
            |d: &NetDev| d.rx_queues.iter().any(|q| q.rps.as_ref().is_some_and(|m| !m.is_empty()));
        if !on(device) {
            continue;
        }
        let ground = ground(subject, &device.name);
        let below = ground.iter().filter_map(|name| subject.snapshot.netdev(name));
        let spread: Vec<&NetDev> =
            below.filter(|d| on(d) || spread(subject, d).is_some_and(|on| on.len() > 1)).collect();
        let Some(port) = spread.first() else { continue };
        let mask = |d: &NetDev| {
            let queue = d.rx_queues.iter().find(|q| q.rps.as_ref().is_some_and(|m| !m.is_empty()));
            queue.map(|q| Evidence {
                place: rps_file(&d.name, q.index),
                value: q.rps.as_ref().map(CpuSet::to_mask).unwrap_or_default(),
            })
        };
        let title = format!("packets are steered at {} and again at {}", port.name, device.name);
        found.push(
            Found::new(Severity::Notice, title)
                .all_seen(mask(port))
                .all_seen(mask(device))
                .cost(0.05)
                .sure(Confidence::Likely)
                .remedy(format!(
                    "echo 0 > {}  # the port's steering is enough; linerate plan says so too",
                    rps_file(&device.name, 0)
                )),
        );
    }
    Ok(found)
}

/// Ports at the bottom of a device.
fn ground(subject: &Subject<'_>, device: &str) -> Vec<String> {
    let mut todo: Vec<_> = subject.snapshot.stack.iter().collect();
    while let Some(layer) = todo.pop() {
        if layer.device == device {
            let ground = layer.ground().into_iter().filter(|d| *d != device);
            return ground.map(str::to_owned).collect();
        }
        todo.extend(&layer.below);
    }
    Vec::new()
}

/// Decimal numbers that stand for one CPU (from 4 on) or for all of the first few, written as
/// hexadecimal; others could be meant.
fn meant(mask: &CpuSet) -> Option<(u64, CpuSet)> {
    let text = mask.to_mask();
    let text = text.trim_start_matches(['0', ',']);
    let decimal: u64 = text.parse().ok().filter(|_| text.len() >= 2)?;
    let all = decimal.checked_add(1).is_some_and(u64::is_power_of_two) && decimal >= 15;
    let one = decimal.is_power_of_two() && decimal >= 16;
    let set: CpuSet =
        (0..64).filter(|bit| decimal >> bit & 1 == 1).map(crate::model::units::CpuId).collect();
    (all || one).then_some((decimal, set))
}

fn decimal(subject: &Subject<'_>) -> Looked {
    let mut places: Vec<(String, &CpuSet)> = Vec::new();
    for irq in &subject.intake.lines {
        places.extend(
            irq.affinity.as_ref().map(|set| (format!("/proc/irq/{}/smp_affinity", irq.line), set)),
        );
    }
    for source in &subject.intake.sources {
        let file = rps_file(&source.device.name, source.queue.index);
        places.extend(source.queue.rps.as_ref().map(|set| (file, set)));
    }
    if places.is_empty() {
        return Err("no mask can be read".into());
    }
    let mut found: Vec<Found> = Vec::new();
    let mut told: Vec<(&CpuSet, usize)> = Vec::new();
    for (place, mask) in places {
        let Some((number, wanted)) = meant(mask) else { continue };
        // One script writes one number into many files.
        let same = told.iter().find(|(known, _)| *known == mask);
        if let Some(first) = same.and_then(|(_, at)| found.get_mut(*at)) {
            first.evidence.push(Evidence { place, value: mask.to_mask() });
            continue;
        }
        // Only what this machine could have been meant to have.
        if !wanted.is_subset(&subject.intake.usable) || wanted == *mask {
            continue;
        }
        let title = format!(
            "the mask {} is CPU {mask}; as a decimal number it would be CPU {wanted}",
            mask.to_mask()
        );
        told.push((mask, found.len()));
        // CPUs 1, 2 and 4 are nobody's choice.
        let odd = mask.len() > 1 && wanted.len() == 1;
        found.push(
            Found::new(Severity::Notice, title)
                .seen(place.clone(), mask.to_mask())
                .cost(if odd { 0.1 } else { 0.0 })
                .sure(if odd { Confidence::Likely } else { Confidence::Possible })
                .remedy(format!("if CPU {wanted} was meant: echo {} > {place}", wanted.to_mask()))
                .remedy(format!(
                    "and look for {number} in the script that writes it: linerate show path"
                )),
        );
    }
    Ok(found)
}
