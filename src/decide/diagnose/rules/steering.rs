//! RPS where it does not help.

use crate::decide::diagnose::outlook::Misplaced;
use crate::decide::diagnose::places::{affinity, rps, rps_file};
use crate::decide::diagnose::subject::listed;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::decide::plan::Source;
use crate::model::cpuset::CpuSet;
use crate::model::finding::{Confidence, Evidence, Severity};
use crate::model::knob::Knob;
use crate::model::plan::Change;
use crate::model::snapshot::NetDev;
use crate::model::units::CpuId;

use super::placement::union;

pub(super) const RULES: &[Rule] = &[
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
        id: "decimal-mask",
        what: "a CPU mask that looks as if a decimal number was written into a hexadecimal file",
        costs: "packets go to other CPUs than meant: 16 written for CPU 4 is CPU 1, 2 and 4. \
                Armbian's scripts shipped this mistake",
        source: "Documentation/core-api/irq/irq-affinity.rst; Armbian's smp_affinity scripts",
        reads: "RPS masks, interrupt affinity",
        load: Load::Apart,
        look: decimal,
    },
    Rule {
        id: "offline-mask",
        what: "an RPS mask of CPUs that are offline",
        costs: "packets that would go there stay on the CPU that polls: with none of the mask left RPS \
                does nothing",
        source: "net/core/dev.c (get_rps_cpu: cpu_online)",
        reads: "online CPUs, RPS masks",
        load: Load::Apart,
        look: offline,
    },
];

/// Queues whose RPS mask has CPUs that are offline; those first that have none else.
fn dead<'s, 'a>(subject: &'s Subject<'a>) -> (Vec<&'s Source<'a>>, CpuSet) {
    let offline = subject.offline();
    let all = || subject.intake.sources.iter().filter(|s| s.queue.rps.is_some());
    let mask = |s: &&Source<'_>| s.queue.rps.clone().unwrap_or_default();
    let alone: Vec<_> =
        all().filter(|s| !mask(s).is_empty() && mask(s).is_subset(&offline)).collect();
    let some = all().filter(|s| !mask(s).intersection(&offline).is_empty());
    (if alone.is_empty() { some.collect() } else { alone }, offline)
}

/// True if masks name none but CPUs that are offline.
pub(super) fn names_offline(subject: &Subject<'_>) -> bool {
    let (queues, offline) = dead(subject);
    queues.iter().any(|s| s.queue.rps.as_ref().is_some_and(|mask| mask.is_subset(&offline)))
}

fn offline(subject: &Subject<'_>) -> Looked {
    if let Some(why) = no_rps(subject) {
        return Err(why);
    }
    let (queues, offline) = dead(subject);
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let names = listed(queues.iter().map(|s| s.device.name.as_str()));
    let title = format!("RPS of {names} hands packets to CPU {offline}, which is offline");
    let alone = names_offline(subject);
    let misplaced = subject.misplaced();
    let cost = misplaced.map_or(0.0, |worse| worse.better.cost);
    let severity = match (alone, cost > 0.0) {
        (true, true) => Severity::Warning,
        (false, true) => Severity::Notice,
        // Where the plan leaves such masks they do not matter.
        (_, false) => Severity::Info,
    };
    let mut found = Found::new(subject.on_router(severity), title)
        .cost(cost)
        .seen("/sys/devices/system/cpu/offline", &offline)
        .all_seen(queues.iter().map(|s| rps(s)))
        .remedy("linerate plan  # steers to CPUs that are there");
    for one in queues.iter().take(MOST_STEPS) {
        let (device, queue) = (&one.device.name, one.queue.index);
        let left = one.queue.rps.as_ref().map(|mask| mask.difference(&offline));
        let mask = subject.steered_anew(device, queue).cloned().or(left).unwrap_or_default();
        found = found.remedy(format!(
            "or by hand: echo {} > {}",
            mask.to_mask(),
            rps_file(device, queue)
        ));
    }
    Ok(vec![found])
}

fn no_rps(subject: &Subject<'_>) -> Option<String> {
    let known = subject.intake.sources.iter().any(|s| s.queue.rps.is_some());
    (!known).then(|| "no receive queue has an RPS mask that can be read".to_owned())
}

/// True if one of these rules says why the placement costs what it does.
pub(super) fn is_named(subject: &Subject<'_>, worse: &Misplaced<'_>) -> bool {
    let told = [own_cpu(subject), with_queues(subject), twice(subject), offline(subject)];
    told.into_iter().flatten().any(|found| found.iter().any(|one| one.cost >= worse.better.cost))
}

/// A finding about masks, which the plan changes or which can't matter now: as grave as the placement
/// is where masks are all that the plan changes.
fn about_masks(subject: &Subject<'_>, title: String, changed: bool) -> Found {
    let mask = |change: &&Change| matches!(change.knob, Knob::RpsCpus { .. });
    let worse = subject.misplaced().filter(|worse| worse.changes.iter().all(mask));
    let severity = match worse.as_ref() {
        Some(worse) if worse.better.is_sure() => Severity::Warning,
        _ if subject.outlook().is_some() && !changed => Severity::Info,
        _ => Severity::Notice,
    };
    let cost = worse.map_or(0.0, |worse| worse.better.cost);
    Found::new(subject.on_router(severity), title).cost(cost).sure(Confidence::Likely)
}

/// True if the plan leaves a queue's mask as it is although it would matter: then nothing is wrong
/// with it.
fn stays(subject: &Subject<'_>, device: &str, queue: u32) -> bool {
    let known = subject.outlook().is_some() && !subject.is_carried();
    known && subject.steered_anew(device, queue).is_none()
}

/// A queue whose packets RPS hands to the CPU that polls it.
struct Kept<'s, 'a> {
    source: &'s Source<'a>,
    cpu: CpuId,
    others: CpuSet,
}

fn own_cpu(subject: &Subject<'_>) -> Looked {
    if let Some(why) = no_rps(subject) {
        return Err(why);
    }
    let all = subject.intake.sources.iter().filter_map(|source| {
        let mask = source.queue.rps.as_ref().filter(|m| !m.is_empty())?;
        let cpu = subject.polls_on(source).filter(|cpu| mask.contains(*cpu))?;
        let others = mask.difference(&CpuSet::single(cpu));
        // To that CPU alone is a detour on any machine.
        let (device, queue) = (&source.device.name, source.queue.index);
        let fine = !others.is_empty() && stays(subject, device, queue);
        (!fine).then_some(Kept { source, cpu, others })
    });
    let (alone, among): (Vec<Kept<'_, '_>>, Vec<Kept<'_, '_>>) =
        all.partition(|kept| kept.others.is_empty());
    let groups = [among, alone].into_iter().filter(|group| !group.is_empty());
    Ok(groups.map(|group| kept(subject, &group)).collect())
}

/// One finding for all queues with the same slip.
fn kept(subject: &Subject<'_>, group: &[Kept<'_, '_>]) -> Found {
    let names = listed(group.iter().map(|k| k.source.device.name.as_str()));
    let alone = group.iter().all(|kept| kept.others.is_empty());
    let title = match (group, alone) {
        ([one], true) => format!(
            "RPS of {names} rx-{} hands packets to CPU{} alone, where they are",
            one.source.queue.index, one.cpu.0
        ),
        ([one], false) => format!(
            "RPS of {names} rx-{} includes CPU{}, which takes the interrupts already",
            one.source.queue.index, one.cpu.0
        ),
        (many, true) => {
            format!("RPS of {} queues of {names} hands packets to where they are", many.len())
        }
        (many, false) => format!(
            "RPS of {} queues of {names} includes the CPU that takes their interrupts",
            many.len()
        ),
    };
    let anew = |k: &Kept<'_, '_>| {
        subject.steered_anew(&k.source.device.name, k.source.queue.index).is_some()
    };
    let changed = group.iter().any(anew);
    let mut found = about_masks(subject, title, alone || changed);
    // Where the links are full first the plan is to leave all as it is.
    let planned = changed && !subject.is_carried();
    let mut told: Vec<CpuId> = Vec::new();
    for one in group {
        found = found.all_seen([rps(one.source)]).all_seen(one.source.irq.map(affinity));
        let busy = subject.interrupted(one.cpu).filter(|busy| *busy >= 0.8);
        if let Some(busy) = busy.filter(|_| !told.contains(&one.cpu)) {
            let words = format!("CPU{} {:.0} % in interrupts", one.cpu.0, busy * 100.0);
            told.push(one.cpu);
            found.severity = found.severity.max(Severity::Warning);
            found = found.seen("/proc/stat", words).rank(0.1).sure(Confidence::Certain);
        }
    }
    if planned {
        found = found.remedy("linerate plan  # leaves the polling CPU out");
    }
    for one in group.iter().take(MOST_STEPS) {
        let (device, queue) = (&one.source.device.name, one.source.queue.index);
        let mask = subject.steered_anew(device, queue).unwrap_or(&one.others).to_mask();
        let or = if planned { "or by hand: " } else { "" };
        found = found.remedy(format!("{or}echo {mask} > {}", rps_file(device, queue)));
    }
    found
}

/// Steps by hand that are told; a plan has the others.
const MOST_STEPS: usize = 4;

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
        let kept = steered.iter().all(|s| stays(subject, &device.name, s.queue.index));
        if !enough || kept || super::rss::all_on_one_queue(device, subject).is_some() {
            continue;
        }
        let title = format!(
            "RPS is on for {} of {}'s {} queues although they are on every CPU already",
            steered.len(),
            device.name,
            device.rx_queues.len()
        );
        let anew = |s: &&Source<'_>| subject.steered_anew(&device.name, s.queue.index).is_some();
        let found_here = about_masks(subject, title, steered.iter().any(anew));
        found.push(
            found_here
                .rank(0.05)
                .all_seen([rps(first)])
                .all_seen(first.irq.map(affinity))
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
    // A switch's user port is one more device over the conduit.
    let upper = |d: &&NetDev| (!d.is_hardware() && !d.is_veth()) || d.conduit.is_some();
    let mut stacked = devices.iter().filter(upper).peekable();
    let unread = |d: &NetDev| d.rx_queues.iter().all(|q| q.rps.is_none());
    if stacked.peek().is_some() && stacked.all(unread) {
        return Err("no stacked device has an RPS mask that can be read".into());
    }
    let steered = |d: &NetDev| {
        let queue = d.rx_queues.iter().find(|q| q.rps.as_ref().is_some_and(|m| !m.is_empty()));
        queue.map(|q| Evidence {
            place: rps_file(&d.name, q.index),
            value: q.rps.as_ref().map(CpuSet::to_mask).unwrap_or_default(),
        })
    };
    let mut again: Vec<(&NetDev, Evidence)> = Vec::new();
    let mut ports: Vec<&NetDev> = Vec::new();
    for device in devices.iter().filter(upper) {
        let kept = device.rx_queues.iter().all(|q| {
            stays(subject, &device.name, q.index) && subject.keeps_mask(&device.name, q.index)
        });
        let Some(mask) = steered(device).filter(|_| !kept) else { continue };
        let ground = match &device.conduit {
            Some(conduit) => vec![conduit.clone()],
            None => ground(subject, &device.name),
        };
        let below = ground.iter().filter_map(|name| subject.snapshot.netdev(name));
        let mut grounds = below
            .filter(|d| steered(d).is_some() || spread(subject, d).is_some_and(|on| on.len() > 1));
        let Some(port) = grounds.next() else { continue };
        // Where both are the same CPU, packets stay there.
        let all = device.rx_queues.iter().chain(&port.rx_queues).filter_map(|q| q.rps.clone());
        if union(&all.collect::<Vec<_>>()).len() < 2 && spread(subject, port).is_none() {
            continue;
        }
        again.push((device, mask));
        if !ports.iter().any(|known| known.name == port.name) {
            ports.push(port);
        }
    }
    if again.is_empty() {
        return Ok(Vec::new());
    }
    let title = format!(
        "packets are steered at {} and again at {}",
        listed(ports.iter().map(|d| d.name.as_str())),
        listed(again.iter().map(|(d, _)| d.name.as_str()))
    );
    let anew = |(d, _): &(&NetDev, Evidence)| {
        d.rx_queues.iter().any(|q| subject.steered_anew(&d.name, q.index).is_some())
    };
    let found = about_masks(subject, title, again.iter().any(anew));
    let mut found = found.rank(0.05).all_seen(ports.iter().filter_map(|d| steered(d)));
    for (_, mask) in again {
        found = found.remedy(format!("echo 0 > {}", mask.place)).all_seen([mask]);
    }
    Ok(vec![found.remedy("the port's steering is enough; linerate plan says so too")])
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
                .rank(if odd { 0.1 } else { 0.0 })
                .sure(if odd { Confidence::Likely } else { Confidence::Possible })
                .remedy(format!("if CPU {wanted} was meant: echo {} > {place}", wanted.to_mask()))
                .remedy(format!(
                    "and look for {number} in the script that writes it: linerate show path"
                )),
        );
    }
    Ok(found)
}
