//! How the packets' work is spread over the CPUs, where none of the plain patterns tells.

use crate::decide::diagnose::places::{affinity, cluster, rps};
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::decide::plan::Source;
use crate::model::cpuset::CpuSet;
use crate::model::finding::{Confidence, Severity};
use crate::model::knob::Knob;
use crate::model::plan::Change;
use crate::model::snapshot::{Irq, IrqRole, Movable};
use crate::model::units::CpuId;

use super::placement::{is_named, known, union};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "isolated-cpus",
        what: "packets on CPUs that are isolated, or on their siblings",
        costs: "whatever the CPU was isolated for is interrupted by packets, which isolation does not \
                keep away: it takes a CPU from the scheduler, not from a mask that names it",
        source: "Documentation/admin-guide/kernel-parameters.txt (isolcpus=, nohz_full=)",
        reads: "isolated and nohz_full CPUs, their siblings, interrupt affinity, RPS masks",
        load: Load::Apart,
        look: isolated,
    },
    Rule {
        id: "uneven-load",
        what: "packets spread so that one CPU is full long before the others",
        costs: "the rate ends where the fullest CPU is full, whatever the others could do",
        source: "cost model (docs/planning.md); Documentation/networking/scaling.rst",
        reads: "interrupt affinity, RPS masks, threads that poll, CPU capacities and caches",
        load: Load::Apart,
        look: uneven,
    },
    Rule {
        id: "idle-cpus",
        what: "CPUs that no packet may use, offline or isolated, while the others are full",
        costs: "what those CPUs could do is lost: `maxcpus=`, `isolcpus=` or a CPU that was switched \
                off leave their packets to the rest",
        source: "Documentation/admin-guide/kernel-parameters.txt (maxcpus=, nr_cpus=, isolcpus=); \
                 Documentation/core-api/cpu_hotplug.rst",
        reads: "present, online and isolated CPUs",
        load: Load::Apart,
        look: idle,
    },
];

fn isolated(subject: &Subject<'_>) -> Looked {
    if subject.snapshot.cpus.is_empty() {
        return Err("the CPUs can't be read".into());
    }
    let online = subject.snapshot.cpus.iter().filter(|c| c.online);
    let kept: CpuSet =
        online.map(|c| c.id).filter(|id| !subject.intake.usable.contains(*id)).collect();
    if kept.is_empty() || subject.intake.usable.is_empty() {
        return Ok(Vec::new());
    }
    let mut seen = Vec::new();
    let mut on = CpuSet::empty();
    for source in subject.intake.sources.iter().filter(|s| !subject.is_idle(s)) {
        let at = subject.arrives_on(source).filter(|cpu| kept.contains(*cpu));
        let line = source.irq.filter(|irq| irq.movable == Movable::Presumed);
        if let Some((line, cpu)) = line.zip(at).filter(|(line, _)| subject.moves(line)) {
            on.insert(cpu);
            seen.push(affinity(line));
        }
        let steered = source.queue.rps.as_ref().map(|mask| mask.intersection(&kept));
        let anew = || subject.steered_anew(&source.device.name, source.queue.index);
        if let Some(mask) = steered.filter(|mask| !mask.is_empty() && anew().is_some()) {
            on = union(&[on, mask]);
            seen.push(rps(source));
        }
    }
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    let worse = subject.misplaced();
    let severity = worse.as_ref().map_or(Severity::Info, |w| w.better.severity());
    let severity = severity.max(Severity::Notice);
    let files = subject.snapshot.cpus.iter().flat_map(|c| &c.isolated_by).next();
    let place = files.map_or("/sys/devices/system/cpu/isolated", String::as_str);
    let found = Found::new(
        subject.on_router(severity),
        format!("packets are handled on CPU {on}, which is isolated or beside an isolated one"),
    );
    let isolated: CpuSet =
        subject.snapshot.cpus.iter().filter(|c| c.isolated).map(|c| c.id).collect();
    let found = found.sure(Confidence::Likely).seen(place, isolated).all_seen(seen);
    Ok(vec![match worse.filter(|w| w.better.cost > 0.0) {
        Some(worse) => worse.told(found),
        None => found
            .remedy("linerate plan  # leaves such CPUs out")
            .remedy("linerate apply plan.toml --confirm 60"),
    }])
}

/// The pattern behind an uneven spread.
enum Pattern<'a> {
    /// Several queues of a card arrive on one CPU.
    Queues { device: &'a str, count: usize, cpu: CpuId },
    /// Packets are on a slow CPU while a fast one has none.
    Slow { device: &'a str, on: CpuSet, fast: CpuSet },
    /// Receive and transmit completion of one queue are on CPUs without a common cache.
    Split { device: &'a str, queue: u32, receives: CpuId, completes: CpuId },
    /// Only the masks of RPS are to change.
    Steered { device: &'a str, queue: u32, off: bool },
    /// None of these.
    Uneven,
}

impl Pattern<'_> {
    fn title(&self, full: &str, free: &CpuSet) -> String {
        let while_free = match free.is_empty() {
            true => String::new(),
            false => format!(" while CPU {free} could help"),
        };
        match self {
            Self::Queues { device, count, cpu } => {
                format!("{count} queues of {device} arrive on CPU{}{while_free}", cpu.0)
            }
            Self::Slow { device, on, fast } => format!(
                "packets of {device} are handled on the slow CPU {on} while the fast CPU {fast} has none"
            ),
            Self::Split { device, queue, receives, completes } => format!(
                "queue {queue} of {device} receives on CPU{} and completes what it sent on CPU{}, \
                 which share no cache",
                receives.0, completes.0
            ),
            Self::Steered { device, queue, off } => {
                let slip = if *off { "is off" } else { "does not go where there is room" };
                format!("RPS of {device} rx-{queue} {slip}: {full} is full first{while_free}")
            }
            Self::Uneven => {
                format!("packets are spread unevenly: {full} is full first{while_free}")
            }
        }
    }
}

fn uneven(subject: &Subject<'_>) -> Looked {
    if subject.intake.sources.is_empty() {
        return Err("no receive queue of a network card is known".into());
    }
    let Some(outlook) = subject.outlook() else {
        return Err(
            "the cost model has no verdict: it is not known where packets are handled".into()
        );
    };
    let Some(worse) = subject.misplaced() else { return Ok(Vec::new()) };
    let told = isolated(subject).unwrap_or_default();
    if is_named(subject, &worse)
        || super::steering::is_named(subject, &worse)
        || told.iter().any(|found| found.cost >= worse.better.cost)
    {
        return Ok(Vec::new());
    }
    let places = known(subject);
    let busy: Vec<&Source<'_>> =
        subject.intake.sources.iter().filter(|s| !subject.is_idle(s)).collect();
    let arriving: CpuSet = busy.iter().filter_map(|s| subject.arrives_on(s)).collect();
    let used = union(&[union(places.as_deref().unwrap_or_default()), arriving]);
    let free = match places {
        Ok(_) => subject.intake.usable.difference(&used),
        Err(_) => CpuSet::empty(),
    };
    let title = pattern(subject, &busy, &worse.changes, &free).title(&outlook.full_first(), &free);
    // What is only assumed about where packets arrive is no ground for a warning.
    let sure = places.is_ok() && worse.better.is_sure();
    let (severity, confidence) = match (sure, worse.better.cost > 0.0) {
        (true, _) => (Severity::Warning, Confidence::Likely),
        (false, true) => (Severity::Notice, Confidence::Possible),
        (false, false) => (Severity::Info, Confidence::Possible),
    };
    let found = Found::new(subject.on_router(severity), title)
        .sure(confidence)
        .all_seen(subject.places())
        .consequence(format!(
            "the rate ends where the fullest CPU is full; by the cost model the plan lets through {}",
            worse.better.gain.words()
        ));
    Ok(vec![worse.told(found)])
}

fn pattern<'a>(
    subject: &Subject<'a>,
    busy: &[&Source<'a>],
    changes: &[&Change],
    free: &CpuSet,
) -> Pattern<'a> {
    for source in busy {
        let Some(cpu) = subject.arrives_on(source) else { continue };
        let here = |other: &&&Source<'_>| {
            other.device.name == source.device.name
                && subject.arrives_on(other) == Some(cpu)
                && other.queue.rps.as_ref().is_none_or(CpuSet::is_empty)
        };
        let mut lines: Vec<u32> = Vec::new();
        for line in busy.iter().filter(here).filter_map(|s| Some(s.irq?.line.0)) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        if lines.len() > 1 {
            return Pattern::Queues { device: &source.device.name, count: lines.len(), cpu };
        }
    }
    let capacity = |id: CpuId| subject.cpu(id).map_or(0, |c| c.capacity.value);
    let most = |set: &CpuSet| set.iter().map(capacity).max().unwrap_or(0);
    let all = most(&subject.intake.usable);
    let fast: CpuSet = free.iter().filter(|id| capacity(*id) * 5 >= all * 4).collect();
    for source in busy.iter().filter(|_| !fast.is_empty()) {
        let Some(on) = subject.handled_on(source) else { continue };
        if most(&on) * 5 < all * 4 {
            return Pattern::Slow { device: &source.device.name, on, fast };
        }
    }
    if let Some(pattern) = split(subject, changes) {
        return pattern;
    }
    let mask = |change: &&Change| matches!(change.knob, Knob::RpsCpus { .. });
    if changes.iter().all(mask) {
        for source in busy {
            if subject.steered_anew(&source.device.name, source.queue.index).is_some() {
                let (device, queue) = (source.device.name.as_str(), source.queue.index);
                let off = source.queue.rps.as_ref().is_none_or(CpuSet::is_empty);
                return Pattern::Steered { device, queue, off };
            }
        }
    }
    Pattern::Uneven
}

/// A queue whose two lines are on CPUs without a common cache, and which the plan moves.
fn split<'a>(subject: &Subject<'a>, changes: &[&Change]) -> Option<Pattern<'a>> {
    let lines = &subject.intake.lines;
    let of = |irq: &Irq, role: IrqRole| {
        lines.iter().find(|l| {
            l.id.device == irq.id.device && l.id.queue == irq.id.queue && l.id.role == role
        })
    };
    let moved = |irq: &Irq| {
        changes.iter().any(|c| matches!(&c.knob, Knob::IrqAffinity { irq: id } if *id == irq.id))
    };
    lines.iter().filter(|l| l.id.role == IrqRole::Rx).find_map(|rx| {
        let tx = of(rx, IrqRole::Tx)?;
        let (receives, completes) = (rx.lands_on()?.first()?, tx.lands_on()?.first()?);
        let near = cluster(subject.cpu(receives)?);
        let apart = receives != completes && !near.contains(completes);
        (apart && (moved(rx) || moved(tx))).then(|| Pattern::Split {
            device: &rx.id.device,
            queue: rx.id.queue,
            receives,
            completes,
        })
    })
}

fn idle(subject: &Subject<'_>) -> Looked {
    if subject.snapshot.cpus.is_empty() {
        return Err("the CPUs can't be read".into());
    }
    let offline: CpuSet =
        subject.snapshot.cpus.iter().filter(|c| !c.online).map(|c| c.id).collect();
    let isolated: CpuSet =
        subject.snapshot.cpus.iter().filter(|c| c.online && c.isolated).map(|c| c.id).collect();
    let usable = &subject.intake.usable;
    // Half of the CPUs may be away on purpose (SMT that was switched off), all but one hardly: that is
    // told also where the links or the hardware leave that one little to do.
    let away = !offline.is_empty() || !isolated.is_empty();
    let lone = away && usable.len() == 1 && subject.snapshot.cpus.len() > 2;
    let (cost, severity) = match subject.with_all_cpus() {
        Some(better) => (better.cost, better.severity()),
        None if lone => (0.0, Severity::Notice),
        None => return Ok(Vec::new()),
    };
    // Half of the CPUs and more may be away on purpose: SMT that was switched off, power.
    let most = if usable.len() == 1 { Severity::Warning } else { Severity::Notice };
    let severity = severity.min(most);
    let what = match (offline.is_empty(), isolated.is_empty()) {
        (false, true) => format!("CPU {offline} is offline"),
        (true, _) => format!("CPU {isolated} is isolated"),
        (false, false) => format!("CPU {offline} is offline and CPU {isolated} isolated"),
    };
    let title = format!("{what}: all packets are left to CPU {usable}");
    // Where packets are on them all the same, that comes first.
    let aside = self::isolated(subject).is_ok_and(|found| !found.is_empty());
    let mut found =
        Found::new(subject.on_router(severity), title).cost(cost).sure(Confidence::Likely);
    found.aside = aside;
    if !offline.is_empty() {
        found = found
            .seen("/sys/devices/system/cpu/present, online", format!("offline: {offline}"))
            .remedy("look in /proc/cmdline for maxcpus=, nr_cpus=, nosmp; boot without it")
            .remedy(format!(
                "or for i in {}; do echo 1 > /sys/devices/system/cpu/cpu$i/online; done, then linerate plan",
                offline.iter().map(|c| c.0.to_string()).collect::<Vec<_>>().join(" ")
            ));
    }
    if !isolated.is_empty() {
        let by = subject.snapshot.cpus.iter().flat_map(|c| &c.isolated_by).next();
        found = found
            .seen(by.map_or("/sys/devices/system/cpu/isolated", String::as_str), isolated)
            .remedy("boot without isolcpus= and nohz_full= if nothing else needs these CPUs; then linerate plan");
    }
    Ok(vec![found])
}
