//! The CPUs that work may be put on: how much each can do, and what it shares with others.

use super::index::{IxVec, OfPlaces, PlaceIx};
use super::problem::Place;
use super::traffic::Traffic;
use crate::model::cpuset::CpuSet;
use crate::model::snapshot::{Cpu, Snapshot};
use crate::model::units::CpuId;

/// A CPU with more than this part of the biggest one's capacity is big too.
const BIG: f64 = 0.8;
/// Cores that work in order, and wait for each packet that is not in their cache.
const IN_ORDER: &[&str] =
    &["Cortex-A7", "Cortex-A35", "Cortex-A53", "Cortex-A55", "Cortex-A510", "Cortex-A520"];
/// Part of its capacity that such a core has for packets beside big ones: the capacity is of a loop
/// that fits into its cache. A NanoPi R6S did 1.75 times as much with its lines on big cores
/// (`docs/planning.md`), where capacity alone says 1.25.
const FOR_PACKETS: f64 = 0.7;

/// The CPUs of a router.
pub(super) fn places(snapshot: &Snapshot, traffic: &Traffic) -> IxVec<OfPlaces, Place> {
    let online: Vec<&Cpu> = snapshot.cpus.iter().filter(|c| c.online).collect();
    let usable = usable(snapshot);
    let biggest = online.iter().filter(|c| usable.contains(c.id)).map(|c| c.capacity.value).max();
    let mut clusters = Vec::new();
    // Where the kernel reports no cluster, every CPU is its own: then there are none.
    let told = online.iter().any(|c| c.cluster.len() > 1 || c.l3.len() > 1);
    let mut places: IxVec<OfPlaces, Place> = IxVec::default();
    for cpu in &online {
        let of = if told { (cpu.cluster.clone(), cpu.l3.clone()) } else { Default::default() };
        let known = clusters.iter().position(|c| *c == of);
        let cluster = known.unwrap_or_else(|| {
            clusters.push(of);
            clusters.len() - 1
        });
        let left = 1.0 - traffic.busy(snapshot, cpu.id);
        // Someone always gets a turn.
        let mut capacity = f64::from(cpu.capacity.value.max(1)) / 1024.0 * left.max(0.05);
        let big = f64::from(cpu.capacity.value) >= BIG * f64::from(biggest.unwrap_or(0));
        if !big && cpu.core_type.as_deref().is_some_and(|own| IN_ORDER.contains(&own)) {
            capacity *= FOR_PACKETS;
        }
        places.push(Place {
            id: cpu.id,
            capacity,
            usable: usable.contains(cpu.id),
            siblings: Vec::new(),
            cluster,
            node: cpu.node,
            big,
        });
    }
    let own: Vec<(PlaceIx, CpuId)> = places.each().map(|(at, p)| (at, p.id)).collect();
    for (place, cpu) in places.iter_mut().zip(&online) {
        let others = own.iter().filter(|(_, id)| *id != cpu.id && cpu.siblings.contains(*id));
        place.siblings = others.map(|(at, _)| *at).collect();
    }
    places
}

/// CPUs that work may be put on: not isolated, and, as long as there are others, no sibling of an
/// isolated one, which would be disturbed by it.
pub(super) fn usable(snapshot: &Snapshot) -> CpuSet {
    let all = snapshot.usable_cpus();
    let isolated: CpuSet =
        snapshot.cpus.iter().filter(|c| c.online && c.isolated).map(|c| c.id).collect();
    let beside = |cpu: &&Cpu| !cpu.siblings.intersection(&isolated).is_empty();
    let disturbing: CpuSet = snapshot.cpus.iter().filter(beside).map(|c| c.id).collect();
    let quiet = all.difference(&disturbing);
    if quiet.is_empty() { all } else { quiet }
}
