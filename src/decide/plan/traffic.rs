//! The traffic that a router is planned for: where packets come in and leave, and how much of it is
//! whose. Counters say so where they can; else the structure of the machine does.
//!
//! ```text
//!             WAN entries receive       LAN entries receive
//!   down      1                         acks
//!   up        acks                      1
//! ```
//!
//! Where the LAN is wired and has Wi-Fi too, and nothing was counted, each is a variant of its own:
//! a placement has to be good for both.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::costs::Costs;
use super::intake::Intake;
use super::worlds::Flows;
use crate::model::evidence::{Evidence, Window};
use crate::model::measurement::Direction;
use crate::model::snapshot::{NetDev, Snapshot};
use crate::model::stack::{Layer, Side};
use crate::model::units::CpuId;

/// Fewer packets than this since boot say nothing of who carries the traffic; in a sample fewer per
/// second.
pub(super) const ENOUGH: u64 = 100_000;
const ENOUGH_PER_SECOND: f64 = 1000.0;

/// Known facts of the traffic and of its costs. Nothing by default: both directions equal, no other
/// programs, default costs.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    /// Packets received per second by device; only their ratios count.
    pub packets: BTreeMap<String, f64>,
    /// Share of a CPU, 0 to 1, that other programs take, by CPU number.
    pub busy: BTreeMap<String, f64>,
    /// Number of flows; 16 that adapt when not given, and 0 for so many that every share is even.
    pub flows: Option<u32>,
    /// True if the flows take what they get, as those of a measurement with TCP do.
    #[serde(skip)]
    pub adapting: bool,
    /// Directions of the traffic: both at once and each alone when not given.
    #[serde(skip)]
    pub directions: Vec<Direction>,
    /// Costs of the stages.
    #[serde(skip)]
    pub costs: Costs,
}

impl Traffic {
    /// Number of flows to plan for.
    #[must_use]
    pub fn flows(&self) -> Flows {
        match self.flows {
            None => Flows::Adapting(16),
            Some(0) => Flows::Many,
            Some(n) if self.adapting => Flows::Adapting(n),
            Some(n) => Flows::Count(n),
        }
    }

    /// Refuses figures that are no rates and no shares.
    ///
    /// # Errors
    /// Names the entry.
    pub fn check(&self) -> Result<(), String> {
        for (device, rate) in &self.packets {
            if !(rate.is_finite() && *rate >= 0.0) {
                return Err(format!("packets: {device} = {rate} is no rate"));
            }
        }
        for (cpu, share) in &self.busy {
            if cpu.parse::<u32>().is_err() || !(0.0..=1.0).contains(share) {
                return Err(format!("busy: {cpu} = {share} is not a CPU and a share from 0 to 1"));
            }
        }
        if !self.packets.is_empty() && self.packets.values().sum::<f64>() <= 0.0 {
            return Err("packets: no device receives any".into());
        }
        Ok(())
    }

    /// Share of a CPU that other programs take: as given, else as sampled.
    pub(super) fn busy(&self, snapshot: &Snapshot, cpu: CpuId) -> f64 {
        if let Some(told) = self.busy.get(&cpu.0.to_string()) {
            return told.clamp(0.0, 1.0);
        }
        let evidence = snapshot.evidence.as_ref();
        let sampled = evidence.filter(|e| matches!(e.window, Window::Sampled { .. }));
        sampled.map_or(0.0, |evidence| background(evidence, cpu))
    }
}

/// Share of a CPU that went to programs while it was watched, without the threads that poll. A tenth
/// is what a quiet machine has at times.
fn background(evidence: &Evidence, cpu: CpuId) -> f64 {
    let Some(time) = evidence.cpus.get(&cpu) else { return 0.0 };
    let all = time.user + time.system + time.irq + time.softirq + time.idle;
    let polling = evidence.pollers.iter().filter(|p| p.last_cpu == Some(cpu));
    let polling: f64 = polling.filter_map(|p| p.cpu_seconds).sum();
    let share = (time.user + time.system - polling).max(0.0) / all.max(1e-9);
    if share < 0.1 { 0.0 } else { share.min(1.0) }
}

/// A way on which packets enter and leave: a network card or radio, and a way up through what
/// stands on it.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    /// The card or radio's device.
    pub(super) device: &'a NetDev,
    /// Devices above it, from below.
    pub(super) above: Vec<&'a str>,
    pub(super) side: Option<Side>,
    /// VLAN and PPPoE layers.
    pub(super) layers: u32,
    pub(super) bridged: bool,
    /// True if a switch's tag comes off.
    pub(super) tagged: bool,
    pub(super) air: bool,
    /// Part of its side's traffic.
    pub(super) weight: f64,
    /// Number of its tree: packets between two entries of one bridge are not routed.
    pub(super) tree: Option<usize>,
}

impl Entry<'_> {
    /// The device that its packets are counted on: a port rather than the conduit.
    fn counted(&self) -> &str {
        self.above.first().copied().unwrap_or(&self.device.name)
    }
}

/// Traffic between two groups of entries, each way.
#[derive(Debug, Clone)]
pub(super) struct Variant<'a> {
    pub(super) wan: Vec<Entry<'a>>,
    pub(super) lan: Vec<Entry<'a>>,
    /// True if it is known which is which.
    pub(super) sided: bool,
    /// Name of the variant, where there are several.
    pub(super) words: &'static str,
    /// Parts of both directions, where they were counted.
    pub(super) measured: Option<(f64, f64)>,
}

impl Variant<'_> {
    /// True if the ways differ in nothing: the same entries on both sides.
    pub(super) fn is_alike(&self) -> bool {
        let pairs = || self.wan.iter().zip(&self.lan);
        let same = |(a, b): (&Entry<'_>, &Entry<'_>)| {
            (&a.device.name, &a.above) == (&b.device.name, &b.above)
        };
        !self.sided && self.wan.len() == self.lan.len() && pairs().all(same)
    }
}

/// The groups that the traffic flows between, and how that is known.
#[derive(Debug, Clone)]
pub(super) struct Flowing<'a> {
    pub(super) variants: Vec<Variant<'a>>,
    /// True if the weights come from counters.
    pub(super) counted: bool,
}

/// Finds where packets go between.
pub(super) fn flowing<'a>(
    snapshot: &'a Snapshot,
    intake: &Intake<'a>,
    traffic: &Traffic,
) -> Flowing<'a> {
    let mut entries = entries(snapshot, intake);
    let counts = counts(snapshot, &entries);
    let counted = counts.is_some();
    if let Some(counts) = &counts {
        for (entry, (rx, tx)) in entries.iter_mut().zip(counts) {
            entry.weight = rx + tx;
        }
        // A port with a ten-thousandth of the traffic is idle.
        let all: f64 = entries.iter().map(|e| e.weight).sum();
        entries.retain(|e| e.weight > all * 1e-4);
    }
    let sided = |side: Side| entries.iter().any(|e| e.side == Some(side));
    let (wan, lan): (Vec<Entry<'_>>, Vec<Entry<'_>>) = if sided(Side::Wan) && entries.len() > 1 {
        // An entry without a side may serve users; it is not taken for idle.
        entries.into_iter().partition(|e| e.side == Some(Side::Wan))
    } else {
        (Vec::new(), entries)
    };
    if wan.is_empty() || lan.is_empty() {
        let one = if wan.is_empty() { lan } else { wan };
        return Flowing { variants: unsided(one), counted };
    }
    let measured = counts.as_ref().and_then(|_| directions(snapshot, &wan, &lan, &traffic.costs));
    let (air, wire): (Vec<_>, Vec<_>) = lan.iter().cloned().partition(|e| e.air);
    let variant = |lan: Vec<Entry<'a>>, words| Variant {
        wan: weighted(wan.clone(), counted),
        lan: weighted(lan, counted),
        sided: true,
        words,
        measured,
    };
    let variants = if counted || air.is_empty() || wire.is_empty() {
        vec![variant(lan, "")]
    } else {
        vec![variant(wire, " by cable"), variant(air, " by Wi-Fi")]
    };
    Flowing { variants, counted }
}

/// Traffic where the sides are not known: between two devices, or on all of them.
fn unsided(entries: Vec<Entry<'_>>) -> Vec<Variant<'_>> {
    let mut names: Vec<&str> = entries.iter().map(|e| e.device.name.as_str()).collect();
    names.dedup();
    let (wan, lan) = match names.as_slice() {
        // Towards the users is by Wi-Fi, else the first device: some way has to be.
        [first, second] => {
            let air = entries.iter().any(|e| e.air && e.device.name == *second);
            let from = if air { *first } else { *second };
            entries.clone().into_iter().partition(|e| e.device.name == from)
        }
        _ => (entries.clone(), entries),
    };
    let (wan, lan) = (weighted(wan, false), weighted(lan, false));
    vec![Variant { wan, lan, sided: false, words: "", measured: None }]
}

/// Weights that sum to one: as counted, else each device the same, and each way up it.
fn weighted(mut entries: Vec<Entry<'_>>, counted: bool) -> Vec<Entry<'_>> {
    if !counted {
        let names: Vec<String> = entries.iter().map(|e| e.device.name.clone()).collect();
        for entry in &mut entries {
            let same = names.iter().filter(|n| **n == entry.device.name).count();
            entry.weight = 1.0 / same.max(1) as f64;
        }
    }
    let all: f64 = entries.iter().map(|e| e.weight).sum();
    entries.iter_mut().for_each(|e| e.weight /= all.max(1e-12));
    entries
}

/// Every way from a card up to what bears the addresses, by device and tree.
fn entries<'a>(snapshot: &'a Snapshot, intake: &Intake<'a>) -> Vec<Entry<'a>> {
    let mut all = Vec::new();
    let airs: Vec<&NetDev> = snapshot.netdevs.iter().filter(|d| is_air(d)).collect();
    for device in intake.devices.iter().copied().chain(airs) {
        let before = all.len();
        for (number, tree) in snapshot.stack.iter().enumerate() {
            let mut way = Vec::new();
            climb(tree, &device.name, &mut way, &mut |way| {
                let kind = |word: &str| way.iter().filter(|l| l.kind.starts_with(word)).count();
                let layers = u32::try_from(kind("vlan") + kind("pppoe")).unwrap_or(u32::MAX);
                all.push(Entry {
                    device,
                    above: way.iter().rev().map(|l| l.device.as_str()).collect(),
                    side: tree.role.as_ref().map(|r| r.side),
                    layers,
                    bridged: kind("bridge") > 0,
                    tagged: kind("dsa") > 0,
                    air: is_air(device),
                    weight: 0.0,
                    tree: Some(number),
                });
            });
        }
        if all.len() == before && !is_air(device) {
            all.push(Entry {
                device,
                above: Vec::new(),
                side: None,
                layers: 0,
                bridged: false,
                tagged: false,
                air: false,
                weight: 0.0,
                tree: None,
            });
        }
    }
    // Ports without a cable carry nothing, as long as some have one.
    let up = |e: &Entry<'_>| {
        let port = snapshot.netdev(e.counted());
        port.is_none_or(|p| p.operstate != "down" && p.operstate != "lowerlayerdown")
    };
    if all.iter().any(up) {
        all.retain(up);
    }
    // Without trees on either side of it a card is no part of what is routed.
    if all.iter().any(|e| e.side == Some(Side::Wan))
        && all.iter().any(|e| e.side == Some(Side::Lan))
    {
        let carries = |d: &NetDev| snapshot.netdevs.iter().any(|n| n.lower.contains(&d.name));
        all.retain(|e| e.tree.is_some() || !carries(e.device));
    }
    all
}

fn is_air(device: &NetDev) -> bool {
    device.kind.as_deref() == Some("wlan") && device.operstate != "down" && device.is_hardware()
}

/// Walks down to `device`, and reports each way there.
fn climb<'a>(
    layer: &'a Layer,
    device: &str,
    way: &mut Vec<&'a Layer>,
    tell: &mut dyn FnMut(&[&'a Layer]),
) {
    if layer.device == device {
        tell(way);
        return;
    }
    way.push(layer);
    for below in &layer.below {
        climb(below, device, way, tell);
    }
    way.pop();
}

/// Packets that each entry received and sent; `None` where they were not counted, or too few.
fn counts(snapshot: &Snapshot, entries: &[Entry<'_>]) -> Option<Vec<(f64, f64)>> {
    let evidence = snapshot.evidence.as_ref()?;
    let enough = match evidence.window {
        Window::None => return None,
        Window::SinceBoot { .. } => ENOUGH as f64,
        Window::Sampled { seconds } => ENOUGH_PER_SECOND * seconds.max(1.0),
    };
    let mut all = Vec::new();
    for entry in entries {
        let moved = evidence.devices.get(entry.counted());
        let moved = moved.or_else(|| evidence.devices.get(&entry.device.name))?;
        // Several ways up one counted device share what it moved.
        let same = entries.iter().filter(|e| e.counted() == entry.counted()).count() as f64;
        all.push((moved.rx as f64 / same, moved.tx as f64 / same));
    }
    let sum: f64 = all.iter().map(|(rx, tx)| rx + tx).sum();
    (sum >= enough).then_some(all)
}

/// Parts of the data that went down and up, as counted: each side received the other's
/// acknowledgements too.
fn directions(
    snapshot: &Snapshot,
    wan: &[Entry<'_>],
    lan: &[Entry<'_>],
    costs: &Costs,
) -> Option<(f64, f64)> {
    let evidence = snapshot.evidence.as_ref()?;
    let received = |entries: &[Entry<'_>]| -> Option<f64> {
        let mut names: Vec<&str> = entries.iter().map(Entry::counted).collect();
        names.sort_unstable();
        names.dedup();
        names.iter().map(|name| Some(evidence.devices.get(*name)?.rx as f64)).sum()
    };
    let (wan, lan) = (received(wan)?, received(lan)?);
    let (down, up) = ((wan - costs.ack * lan).max(0.0), (lan - costs.ack * wan).max(0.0));
    let all = down + up;
    (all > 0.0).then(|| (down / all, up / all))
}

/// Devices that stand on a device.
#[derive(Default)]
pub(super) struct Above<'a> {
    /// Names of the upper devices.
    pub(super) names: std::collections::BTreeSet<&'a str>,
    /// Most VLAN and PPPoE layers on one way up.
    pub(super) layers: u32,
    pub(super) bridged: bool,
    /// A PPPoE session, if one does.
    pub(super) pppoe: Option<&'a str>,
}

/// Devices that stand on a device of that name.
pub(super) fn above<'a>(snapshot: &'a Snapshot, device: &str) -> Above<'a> {
    let mut found = Above::default();
    for tree in &snapshot.stack {
        climb(tree, device, &mut Vec::new(), &mut |way| {
            let kind = |word: &str| way.iter().filter(|l| l.kind.starts_with(word)).count();
            let layers = u32::try_from(kind("vlan") + kind("pppoe")).unwrap_or(u32::MAX);
            found.layers = found.layers.max(layers);
            found.bridged |= kind("bridge") > 0;
            let session = way.iter().find(|l| l.kind.starts_with("pppoe"));
            found.pppoe = found.pppoe.or(session.map(|l| l.device.as_str()));
            found.names.extend(way.iter().map(|l| l.device.as_str()));
        });
    }
    found
}
