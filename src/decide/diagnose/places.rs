//! Where packets arrive, are polled and go through the stack.

use super::{Evidence, Subject};
use crate::decide::plan::Source;
use crate::model::cpuset::CpuSet;
use crate::model::evidence::{Poller, PollerOwner, PollerRole};
use crate::model::order::InOrder;
use crate::model::snapshot::{Cpu, Irq, NetDev, Snapshot};
use crate::model::units::CpuId;

impl<'a> Subject<'a> {
    /// The CPU on which a queue's packets arrive: by the mask where it names one, else by the kernel's
    /// word, else by its counts; a mask of several does not tell.
    pub(super) fn arrives_on(&self, source: &Source<'_>) -> Option<CpuId> {
        let irq = source.irq?;
        let one = |set: &&CpuSet| set.len() == 1;
        match irq.affinity.as_ref().filter(one).or(irq.lands_on().filter(one)) {
            Some(set) => set.first(),
            None => {
                let allowed = |cpu| irq.affinity.as_ref().is_none_or(|set| set.contains(cpu));
                busiest(irq).map(|(cpu, _)| cpu).filter(|cpu| allowed(*cpu))
            }
        }
    }

    /// The thread that polls a queue, where NAPI runs in threads.
    fn thread(&self, source: &Source<'_>) -> Option<&'a Poller> {
        let snapshot = self.snapshot;
        let all = snapshot.evidence.iter().flat_map(|e| &e.pollers);
        let mine = |p: &&Poller| p.role == PollerRole::Napi && p.serves(&source.device.name);
        let mut threads: Vec<&Poller> = all.filter(mine).collect();
        threads.order_by_key(|p| p.index);
        let queue = source.queue.index;
        let turn = queue as usize % threads.len().max(1);
        threads.iter().find(|p| p.rx.contains(&queue)).or_else(|| threads.get(turn)).copied()
    }

    /// The CPU that polls a queue: its thread's, where NAPI runs in threads, else the interrupt's.
    pub(super) fn polls_on(&self, source: &Source<'_>) -> Option<CpuId> {
        match self.thread(source) {
            Some(poller) => poller.cpus.as_ref().filter(|set| set.len() == 1)?.first(),
            None if source.device.threaded == Some(true) => None,
            None => self.arrives_on(source),
        }
    }

    /// Threads of radios that are bound to one CPU, with it.
    pub(super) fn radio_threads(&self) -> impl Iterator<Item = (&'a Poller, CpuId)> + '_ {
        let snapshot = self.snapshot;
        let all = snapshot.evidence.iter().flat_map(|e| &e.pollers);
        all.filter(|p| matches!(p.owner, PollerOwner::Radio(_)) && !p.devices.is_empty())
            .filter_map(|p| {
                let one = p.cpus.as_ref().filter(|set| set.len() == 1)?;
                Some((p, one.first()?))
            })
    }

    /// True if next to none of the packets came by this queue or its device, so that where they
    /// would arrive does not matter.
    pub(super) fn is_idle(&self, source: &Source<'_>) -> bool {
        const ENOUGH: u64 = 100_000;
        let few = |own: u64, all: u64| all >= ENOUGH && own < all / 1000;
        let taken = |irq: &Irq| irq.counts.iter().map(|(_, n)| *n).sum::<u64>();
        let receiving = self.intake.lines.iter().filter(|irq| irq.id.role.receives());
        let all: u64 = receiving.map(|irq| taken(irq)).fold(0, u64::saturating_add);
        let received = |d: &NetDev| self.device(&d.name).and_then(|d| d.rx_packets);
        let arrived = self.intake.devices.iter().filter_map(|d| received(d));
        let arrived: u64 = arrived.fold(0, u64::saturating_add);
        source.irq.is_some_and(|irq| few(taken(irq), all))
            || received(source.device).is_some_and(|own| few(own, arrived))
            || source
                .device
                .receiving
                .as_ref()
                .is_some_and(|r| !r.queues.contains(&source.queue.index))
    }

    /// CPUs that are there and offline.
    pub(super) fn offline(&self) -> CpuSet {
        self.snapshot.cpus.iter().filter(|c| !c.online).map(|c| c.id).collect()
    }

    /// The CPUs on which a queue's packets go through the stack, those that devices above hand them
    /// to included.
    pub(super) fn handled_on(&self, source: &Source<'_>) -> Option<CpuSet> {
        let own = self.handled_below(source)?;
        let above = above(self.snapshot, &source.device.name, 0);
        let masks = above.into_iter().flat_map(|d| &d.rx_queues).filter_map(|q| q.rps.as_ref());
        Some(own.iter().chain(masks.flat_map(CpuSet::iter)).collect())
    }

    fn handled_below(&self, source: &Source<'_>) -> Option<CpuSet> {
        // A CPU that is offline takes nothing (net/core/dev.c, get_rps_cpu).
        let mask = source.queue.rps.as_ref().map(|mask| mask.difference(&self.offline()));
        if mask.as_ref().is_some_and(|mask| !mask.is_empty()) {
            return mask;
        }
        // Where the threads may run; where that is not known, anywhere.
        if let Some(cpus) = self.thread(source).and_then(|thread| thread.cpus.clone()) {
            return Some(cpus);
        }
        if source.device.threaded == Some(true) {
            return Some(self.intake.usable.clone());
        }
        self.arrives_on(source).map(CpuSet::single)
    }

    /// Where the packets of each queue arrive and go, as seen in files.
    pub(super) fn places(&self) -> Vec<Evidence> {
        let mut seen: Vec<Evidence> = Vec::new();
        for irq in self.intake.lines.iter().filter(|irq| irq.id.role.receives()) {
            seen.push(affinity(irq));
        }
        // Queues of a device that are steered alike are one line.
        let mut at = 0;
        while let Some(first) = self.intake.sources.get(at) {
            let rest = self.intake.sources.iter().skip(at);
            let alike = |s: &&Source<'_>| {
                s.device.name == first.device.name && s.queue.rps == first.queue.rps
            };
            let run = rest.take_while(alike).count().max(1);
            let mut one = rps(first);
            if run > 1 {
                let last = first.queue.index.saturating_add(u32::try_from(run - 1).unwrap_or(0));
                let queues = format!("rx-{}..{last}", first.queue.index);
                one.place = one.place.replace(&format!("rx-{}", first.queue.index), &queues);
            }
            seen.push(one);
            at += run;
        }
        seen
    }
}

/// The CPU that took most of a line's interrupts, if it took nearly all, and how many.
fn busiest(irq: &Irq) -> Option<(CpuId, u64)> {
    let total: u64 = irq.counts.iter().map(|(_, n)| *n).sum();
    let (cpu, most) = irq.counts.iter().max_by_key(|(_, n)| *n)?;
    (total >= 1000 && most * 10 >= total * 9).then_some((*cpu, *most))
}

/// A line's affinity, as its file says; a mask of several with what was counted.
pub(super) fn affinity(irq: &Irq) -> Evidence {
    let one = irq.affinity.as_ref().filter(|set| set.len() == 1);
    let (file, set) = match (one, irq.lands_on()) {
        (None, Some(set)) if irq.effective.as_ref() == Some(set) => {
            ("effective_affinity_list", set.to_string())
        }
        (Some(set), _) | (None, Some(set)) => ("smp_affinity_list", set.to_string()),
        _ => ("smp_affinity_list", "can't be read".to_owned()),
    };
    let counted = match busiest(irq) {
        Some((cpu, most)) if !set.bytes().all(|b| b.is_ascii_digit()) => {
            format!("; {most} interrupts on CPU{} since boot", cpu.0)
        }
        _ => String::new(),
    };
    let place = format!("/proc/irq/{}/{file}", irq.line);
    Evidence { place, value: format!("{set} ({}{counted})", irq.id) }
}

/// A queue's RPS mask, as its file says.
pub(super) fn rps(source: &Source<'_>) -> Evidence {
    let mask = source.queue.rps.as_ref();
    Evidence {
        place: rps_file(&source.device.name, source.queue.index),
        value: mask.map_or_else(|| "absent".into(), CpuSet::to_mask),
    }
}

pub(super) fn rps_file(device: &str, queue: u32) -> String {
    format!("/sys/class/net/{device}/queues/rx-{queue}/rps_cpus")
}

/// Devices without an interrupt of their own that a device's packets go through: VLANs, PPPoE, bridges,
/// a switch's user ports.
fn above<'a>(snapshot: &'a Snapshot, name: &str, depth: usize) -> Vec<&'a NetDev> {
    const DEEPEST: usize = 5;
    let over = |d: &&NetDev| {
        d.conduit.as_deref() == Some(name)
            || d.pppoe_over.as_deref() == Some(name)
            || (!d.is_hardware() && d.lower.iter().any(|below| below == name))
    };
    let direct = snapshot.netdevs.iter().filter(over).filter(|_| depth < DEEPEST);
    let mut all: Vec<&NetDev> = direct.collect();
    for next in all.clone() {
        all.extend(above(snapshot, &next.name, depth + 1));
    }
    all
}

/// CPUs that share a cache with one: its cluster, and what has its last level cache.
pub(super) fn cluster(cpu: &Cpu) -> CpuSet {
    cpu.cluster.iter().chain(cpu.l3.iter()).chain([cpu.id]).collect()
}
