//! Devices and queues where packets enter the router, and the CPU on which each queue's packets
//! arrive.

use std::collections::BTreeMap;

use crate::model::cpuset::CpuSet;
use crate::model::order::InOrder;
use crate::model::snapshot::{Irq, Movable, NetDev, RxQueue, Snapshot};
use crate::model::units::CpuId;

/// A receive queue of a device on which packets enter.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    /// The device.
    pub device: &'a NetDev,
    /// The queue.
    pub queue: &'a RxQueue,
    /// The line on which its packets arrive; `None` without interrupts (veth) or where it is not
    /// known.
    pub irq: Option<&'a Irq>,
}

impl Source<'_> {
    /// The CPU on which its packets arrive today.
    #[must_use]
    pub fn arrives_on(&self) -> Option<CpuId> {
        self.irq?.lands_on()?.first()
    }
}

/// The places where packets enter.
#[derive(Debug, Clone)]
pub struct Intake<'a> {
    /// Devices, by name.
    pub devices: Vec<&'a NetDev>,
    /// Receive queues that can be steered, by device and queue.
    pub sources: Vec<Source<'a>>,
    /// Packet-carrying lines of those devices, by number.
    pub lines: Vec<&'a Irq>,
    /// CPUs that work may be placed on.
    pub usable: CpuSet,
}

impl<'a> Intake<'a> {
    /// Finds the intake: NICs that are up (the whole machine's, bridge and bond ports included),
    /// else, in a lab, its veth ends. Wi-Fi, DSA user ports and stacked devices are left out: the
    /// packets were steered before they get there.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let up = |d: &&NetDev| d.operstate != "down" && !d.rx_queues.is_empty();
        let apart = |d: &&NetDev| matches!(d.kind.as_deref(), Some("wlan" | "dsa" | "wwan"));
        let mut devices: Vec<&NetDev> = snapshot
            .netdevs
            .iter()
            .filter(|d| d.is_hardware() && d.lower.is_empty())
            .filter(up)
            .filter(|d| !apart(d))
            .collect();
        if devices.is_empty() {
            devices = snapshot.netdevs.iter().filter(|d| d.is_veth()).filter(up).collect();
        }
        devices.order_by(|a, b| a.name.cmp(&b.name));
        let mut lines: Vec<&Irq> = snapshot
            .irqs
            .iter()
            .filter(|irq| irq.id.role.carries_packets())
            .filter(|irq| {
                let of = |d: &&NetDev| d.name == irq.id.device || irq.shared_with.contains(&d.name);
                devices.iter().any(of)
            })
            .collect();
        lines.order_by_key(|irq| irq.line.0);
        let mut receiving: BTreeMap<&str, Vec<&'a Irq>> = BTreeMap::new();
        let mut shared: BTreeMap<&str, Vec<&'a Irq>> = BTreeMap::new();
        for irq in lines.iter().filter(|irq| irq.id.role.receives()) {
            receiving.entry(&irq.id.device).or_default().push(irq);
            for name in &irq.shared_with {
                shared.entry(name).or_default().push(irq);
            }
        }
        let sources = devices
            .iter()
            .flat_map(|device| device.rx_queues.iter().map(move |queue| (*device, queue)))
            .filter(|(_, queue)| queue.rps.is_some())
            .map(|(device, queue)| {
                let of = |lines: &BTreeMap<&str, Vec<&'a Irq>>| {
                    lines.get(device.name.as_str()).cloned().unwrap_or_default()
                };
                let irq = line_of(&of(&receiving), &of(&shared), queue);
                Source { device, queue, irq }
            })
            .collect();
        Self { devices, sources, lines, usable: super::places::usable(snapshot) }
    }

    /// Lines that may be moved.
    pub fn movable(&self) -> impl Iterator<Item = &'a Irq> + '_ {
        self.lines.iter().copied().filter(|irq| irq.movable == Movable::Presumed)
    }

    /// Receive queues of a device that can be on CPUs of their own: mvneta has eight behind one line.
    #[must_use]
    pub fn spread(&self, device: &NetDev) -> usize {
        let mine = self.sources.iter().filter(|s| s.device.name == device.name);
        let mut lines: Vec<u32> = mine.filter_map(|s| Some(s.irq?.line.0)).collect();
        lines.order_by(Ord::cmp);
        lines.dedup();
        let queues = device.rx_queues.len();
        if lines.is_empty() { queues } else { queues.min(lines.len()) }
    }

    /// The CPU that takes the packets today, or that stands in for it where there is no interrupt:
    /// the one on which most receive lines land, else the lowest usable CPU.
    #[must_use]
    pub fn lone_cpu(&self) -> Option<CpuId> {
        let mut counts = BTreeMap::<CpuId, usize>::new();
        for cpu in self.sources.iter().filter_map(Source::arrives_on) {
            *counts.entry(cpu).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|(cpu, n)| (**n, std::cmp::Reverse(**cpu)));
        most.map(|(cpu, _)| *cpu).filter(|c| self.usable.contains(*c)).or(self.usable.first())
    }
}

/// The line of a queue: its own among its device's receiving ones, else the only one, else, the same
/// way, one that it shares with other devices (both MACs of a MediaTek SoC are on one line, all
/// ports of an NXP one on a line for each CPU).
fn line_of<'a>(own: &[&'a Irq], shared: &[&'a Irq], queue: &RxQueue) -> Option<&'a Irq> {
    let among = |lines: &[&'a Irq]| match lines {
        [one] => Some(*one),
        _ => lines.iter().find(|i| i.receives(queue.index)).copied(),
    };
    among(own).or_else(|| among(shared))
}
