//! From a router to numbers: what each stage of its packets' way costs, and where it may run.
//!
//! The costs are relative (1.0 is one NATed stack stage) and defaults until [`super::fit()`] finds
//! them; they order placements and promise no rate.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::costs::Costs;
use super::intake::{Intake, Source};
use super::patterns::{Pattern, patterns};
use super::problem::{Each, Flows, Handing, Line, Place, Problem, Queue, each, micro, plus};
use super::profile::Profile;
use crate::model::measurement::Direction;
use crate::model::order::InOrder;
use crate::model::snapshot::{Cpu, Irq, Movable, NetDev, Snapshot};
use crate::model::stack::{Layer, Side};
use crate::model::units::CpuId;

/// What is known of the traffic and of what it costs. Nothing by default: both directions equal, no
/// other programs, default costs.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    /// Packets received per second by device; only their ratios count.
    pub packets: BTreeMap<String, f64>,
    /// Share of a CPU, 0 to 1, that other programs take, by CPU number.
    pub busy: BTreeMap<String, f64>,
    /// How many flows; 16 when not told, and 0 for so many that every share is even.
    pub flows: Option<u32>,
    /// Whether the flows take what they get, as those of a measurement with TCP do.
    #[serde(skip)]
    pub adapting: bool,
    /// Which ways it goes: both at once and each alone when not told.
    #[serde(skip)]
    pub directions: Vec<Direction>,
    /// What the stages cost.
    #[serde(skip)]
    pub costs: Costs,
}

impl Traffic {
    /// How many flows to plan for.
    #[must_use]
    pub fn flows(&self) -> Flows {
        match self.flows.unwrap_or(16) {
            0 => Flows::Many,
            n if self.adapting => Flows::Adapting(n),
            n => Flows::Count(n),
        }
    }

    /// What in it can't be meant.
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

    fn busy(&self, cpu: CpuId) -> f64 {
        self.busy.get(&cpu.0.to_string()).copied().unwrap_or(0.0).clamp(0.0, 1.0)
    }
}

/// What a device's packets cost in the stack, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct StackCost {
    /// In NATed stack stages.
    pub cost: f64,
    /// Of what it is made.
    pub words: String,
}

/// What forwarding costs a packet that comes in on that device.
#[must_use]
pub fn stack_cost(snapshot: &Snapshot, device: &NetDev, costs: &Costs) -> StackCost {
    let above = above(snapshot, &device.name);
    let path = &snapshot.path;
    let tables = path.nftables.iter().flat_map(|n| &n.flowtables);
    let mut bound = tables.filter(|t| {
        t.devices.iter().any(|d| *d == device.name || above.names.contains(d.as_str()))
    });
    let (first, rest) = (bound.next(), bound);
    let hardware = first.iter().copied().chain(rest).any(|t| t.hardware);
    if hardware {
        return StackCost { cost: 0.0, words: "flows offloaded to hardware 0.00".into() };
    }
    let mut parts = Vec::new();
    let nat = path.nftables.as_ref().map(|n| n.nat);
    let old_nat = path.iptables.iter().any(|t| t == "nat");
    let (base, word) = if first.is_some() {
        (costs.flowtable, "software flowtable")
    } else if nat == Some(true) || old_nat {
        (costs.nat, "NAT and routing")
    } else if nat == Some(false) && path.iptables.is_empty() {
        (costs.route, "routing")
    } else {
        (costs.nat, "routing with NAT (assumed: the rules can't be seen)")
    };
    let mut add = |cost: f64, word: &str| {
        parts.push(format!("{word} {cost:.2}"));
        cost
    };
    let mut cost = add(base, word);
    if above.encapsulations > 0 {
        let count = above.encapsulations;
        let word = format!("{count} VLAN or PPPoE layer{}", if count == 1 { "" } else { "s" });
        cost += add(costs.layer * f64::from(count), &word);
    }
    if above.bridged {
        cost += add(costs.bridge, "bridge");
    }
    let rules = path.nftables.as_ref().map_or(0, |n| n.forward_rules);
    if rules > 0 && first.is_none() {
        cost += add(costs.rule * f64::from(rules), &format!("{rules} rules"));
    }
    StackCost { cost, words: parts.join(" + ") }
}

/// What stands on a device.
#[derive(Default)]
pub(super) struct Above<'a> {
    /// Its upper devices.
    pub(super) names: BTreeSet<&'a str>,
    /// Most VLAN and PPPoE layers on one way up.
    encapsulations: u32,
    bridged: bool,
    /// A PPPoE session, if one does.
    pub(super) pppoe: Option<&'a str>,
    /// Sides that its trees are on.
    pub(super) sides: Vec<Side>,
}

pub(super) fn above<'a>(snapshot: &'a Snapshot, device: &str) -> Above<'a> {
    let mut found = Above::default();
    for tree in &snapshot.stack {
        let mut way = Vec::new();
        if climb(tree, device, &mut way, &mut found)
            && let Some(role) = &tree.role
            && !found.sides.contains(&role.side)
        {
            found.sides.push(role.side);
        }
    }
    found
}

/// Walks down to `device`; `way` holds the layers above.
fn climb<'a>(
    layer: &'a Layer,
    device: &str,
    way: &mut Vec<&'a Layer>,
    found: &mut Above<'a>,
) -> bool {
    if layer.device == device {
        let kind = |word: &str| way.iter().filter(|l| l.kind.starts_with(word)).count();
        let count = u32::try_from(kind("vlan") + kind("pppoe")).unwrap_or(u32::MAX);
        found.encapsulations = found.encapsulations.max(count);
        found.bridged |= kind("bridge") > 0;
        let session = way.iter().find(|l| l.kind.starts_with("pppoe"));
        found.pppoe = found.pppoe.or(session.map(|l| l.device.as_str()));
        found.names.extend(way.iter().map(|l| l.device.as_str()));
        return true;
    }
    way.push(layer);
    let mut any = false;
    for below in &layer.below {
        any |= climb(below, device, way, found);
    }
    way.pop();
    any
}

/// Why all of a device's packets come in on one of its queues, where that is known.
#[must_use]
pub(super) fn rss_defeated(snapshot: &Snapshot, device: &NetDev) -> Option<String> {
    if device.rx_queues.len() < 2 {
        return None;
    }
    if let Some(why) = rss_would_fail(snapshot, device) {
        return Some(why);
    }
    let table = device.settings.rss.as_ref().map(|r| r.table.as_slice())?;
    let first = table.first()?;
    table.iter().all(|q| q == first).then(|| format!("{}'s RSS table has one queue", device.name))
}

/// Why a device's hash puts all packets on one queue, however many there are.
#[must_use]
pub(super) fn rss_would_fail(snapshot: &Snapshot, device: &NetDev) -> Option<String> {
    if let Some(port) =
        snapshot.netdevs.iter().find(|d| d.conduit.as_deref() == Some(device.name.as_str()))
    {
        return Some(format!(
            "{} carries the switch's tags (port {}), which cards do not hash",
            device.name, port.name
        ));
    }
    if let Some(session) = above(snapshot, &device.name).pppoe {
        return Some(format!(
            "{session} is PPPoE on {}: most cards put all of it on one queue",
            device.name
        ));
    }
    None
}

/// Makes the planner's question of a router.
pub(super) fn pose(
    snapshot: &Snapshot,
    intake: &Intake<'_>,
    traffic: &Traffic,
    profile: Profile,
) -> Problem {
    let patterns = patterns(snapshot, intake, traffic);
    // What a device receives or sends in a pattern.
    let of = |device: &str, pattern: usize, list: fn(&Pattern) -> &[f64]| -> f64 {
        let at = intake.devices.iter().position(|d| d.name == device);
        let list = patterns.get(pattern).map(list);
        at.and_then(|i| list?.get(i)).copied().unwrap_or(0.0)
    };
    let places = places(snapshot, traffic, profile, &patterns);
    let at = |cpu: CpuId| places.iter().position(|p| p.id == cpu);
    let mut irqs: Vec<&Irq> = intake.lines.clone();
    irqs.order_by(|a, b| a.id.cmp(&b.id).then(a.line.0.cmp(&b.line.0)));
    let lines: Vec<Line> = irqs
        .iter()
        .map(|irq| {
            let served = || std::iter::once(&irq.id.device).chain(&irq.shared_with);
            let mut completion = Each::default();
            if !matches!(irq.id.role, crate::model::snapshot::IrqRole::Rx) {
                for device in served() {
                    let lines = irqs.iter().filter(|i| {
                        (i.id.device == *device || i.shared_with.contains(device))
                            && !matches!(i.id.role, crate::model::snapshot::IrqRole::Rx)
                    });
                    let own = traffic.costs.completion / lines.count().max(1) as f64;
                    let sent = |p| micro(own * of(device, p, |pattern| &pattern.sends));
                    completion = plus(&completion, &each(sent));
                }
            }
            // The interrupt only wakes a thread, which polls wherever the scheduler has it.
            let device = snapshot.netdev(&irq.id.device);
            let threaded = device.is_some_and(|d| d.threaded == Some(true));
            let thread = device.and_then(|d| thread_of(d, irq, &irqs));
            let movable =
                if threaded { thread.is_some() } else { irq.movable == Movable::Presumed };
            let mask = if threaded { thread.as_ref().map(|t| &t.1) } else { irq.affinity.as_ref() };
            let single = mask.filter(|set| set.len() == 1);
            // Among several CPUs a thread has no place of its own.
            let home = if threaded { single } else { irq.lands_on() };
            let home = home.and_then(|set| at(set.first()?));
            Line {
                irq: irq.id.clone(),
                completion,
                home,
                fixed: !movable,
                pinned: single.and_then(|set| at(set.first()?)),
                node: device.and_then(|d| d.numa_node),
                thread,
            }
        })
        .collect();
    let mut sources: Vec<&Source<'_>> = intake.sources.iter().collect();
    sources.order_by_key(|s| (s.device.name.as_str(), s.queue.index));
    let queues = sources
        .iter()
        .map(|source| {
            let device = source.device;
            let line = source.irq.and_then(|irq| irqs.iter().position(|i| i.line == irq.line));
            let share = match rss_defeated(snapshot, device) {
                Some(_) => f64::from(u8::from(source.queue.index == 0)),
                None => traffic.flows().largest_share(device.rx_queues.len()),
            };
            let packets = |p| share * of(&device.name, p, |pattern| &pattern.receives);
            let cost = stack_cost(snapshot, device, &traffic.costs).cost;
            let known =
                line.and_then(|l| lines.get(l)).is_some_and(|l| !l.fixed || l.home.is_some());
            let stage = |cost: f64| -> Each {
                if known || device.is_veth() {
                    each(|p| micro(packets(p) * cost))
                } else {
                    Each::default()
                }
            };
            // Without an interrupt a packet's whole way, from one end of the veth to the other, is
            // one softirq, on the CPU that its mask says (drivers/net/veth.c, veth_xmit;
            // net/core/dev.c, netif_rx).
            let around = if device.is_veth() {
                traffic.costs.interrupt + traffic.costs.completion
            } else {
                0.0
            };
            let rps = source.queue.rps.as_ref();
            Queue {
                device: device.name.clone(),
                index: source.queue.index,
                line: line.filter(|_| known),
                packets: each(|p| micro(packets(p))),
                interrupt: if known { stage(traffic.costs.interrupt) } else { Each::default() },
                stack: stage(cost + around),
                unsteered: unsteered(snapshot, intake, source, known, cost),
                before: rps.map_or_else(Vec::new, |set| set.iter().filter_map(at).collect()),
            }
        })
        .collect();
    let busiest = snapshot
        .cpus
        .iter()
        .filter(|c| traffic.busy(c.id) > 0.0)
        .max_by(|a, b| traffic.busy(a.id).total_cmp(&traffic.busy(b.id)).then(b.id.cmp(&a.id)));
    let stuck = lines.iter().filter(|l| l.fixed).filter_map(|l| l.home).min();
    let first = intake.usable.first().and_then(at);
    let housekeeping = busiest.and_then(|c| at(c.id)).or(stuck).or(first).unwrap_or(0);
    let wide = profile != Profile::LowLatency;
    let mut problem = Problem::new(places, lines, queues, housekeeping, traffic.flows(), wide);
    problem.carried = carried(snapshot, traffic, &patterns);
    problem.patterns = patterns;
    let costs = &traffic.costs;
    problem.handing =
        Handing { give: micro(costs.give), take: micro(costs.take), cross: micro(costs.cross) };
    problem
}

/// Cores that do at least as much per cycle as a Cortex-A72.
const LIKE_A72: &[&str] = &[
    "Cortex-A72",
    "Cortex-A73",
    "Cortex-A75",
    "Cortex-A76",
    "Cortex-A77",
    "Cortex-A78",
    "Cortex-A710",
    "Cortex-A715",
    "Cortex-A720",
    "Neoverse-N1",
];

/// What 1.0 takes on such a core, in its cycles. Field report CM4 (4x Cortex-A72 at 1.5 GHz, kernel
/// 5.10): 85,000 packets a second, through NAT, PPPoE and a VLAN, fill one CPU with the interrupt
/// and stack stages of one way, 0.35 + 1.0 + 2 * 0.15 of work.
const A72_CYCLES: f64 = 1.5e9 / (85_000.0 * 1.65);

/// The largest load in each pattern at which the links are full nevertheless; `None` where it is
/// not known what these CPUs can do, or how fast the links are.
fn carried(snapshot: &Snapshot, traffic: &Traffic, patterns: &[Pattern]) -> Option<Each> {
    let usable = snapshot.usable_cpus();
    let largest = |c: &&Cpu| usable.contains(c.id) && c.capacity.value >= 1024;
    let by_type = || {
        let cpu = snapshot.cpus.iter().find(largest)?;
        let known = cpu.core_type.as_deref().is_some_and(|t| LIKE_A72.contains(&t));
        Some(1e6 * A72_CYCLES / cpu.max_khz.filter(|_| known)? as f64)
    };
    let unit_ns = traffic.costs.unit_ns.or_else(by_type)?;
    let mut all = Each::default();
    for (most, pattern) in all.iter_mut().zip(patterns) {
        *most = micro(1e9 / (unit_ns * pattern.link?));
    }
    Some(all)
}

fn places(
    snapshot: &Snapshot,
    traffic: &Traffic,
    profile: Profile,
    patterns: &[Pattern],
) -> Vec<Place> {
    let online: Vec<_> = snapshot.cpus.iter().filter(|c| c.online).collect();
    let usable = snapshot.usable_cpus();
    let mut clusters = Vec::new();
    let tunnels = snapshot.netdevs.iter().any(|d| d.kind.as_deref() == Some("wireguard"));
    let each_cpu = traffic.costs.wireguard / usable.len().max(1) as f64;
    let crypto = each(|p| match patterns.get(p) {
        Some(pattern) if profile == Profile::Vpn && tunnels => {
            micro(each_cpu * pattern.receives.iter().sum::<f64>())
        }
        _ => 0,
    });
    // Where the kernel tells nothing, every CPU is its own cluster: then there are none.
    let told = online.iter().any(|c| c.cluster.len() > 1 || c.l3.len() > 1);
    let mut places: Vec<Place> = Vec::new();
    for cpu in &online {
        let of = if told { (cpu.cluster.clone(), cpu.l3.clone()) } else { Default::default() };
        let known = clusters.iter().position(|c| *c == of);
        let cluster = known.unwrap_or_else(|| {
            clusters.push(of);
            clusters.len() - 1
        });
        let left = 1.0 - traffic.busy(cpu.id);
        // Someone always gets a turn.
        let capacity = f64::from(cpu.capacity.value.max(1)) * left.max(0.05);
        let siblings = online.iter().enumerate();
        let siblings = siblings.filter(|(_, c)| c.id != cpu.id && cpu.siblings.contains(c.id));
        places.push(Place {
            id: cpu.id,
            capacity: (micro(capacity) / 1000).max(1),
            usable: usable.contains(cpu.id),
            siblings: siblings.map(|(index, _)| index).collect(),
            cluster,
            node: cpu.node,
            base: if usable.contains(cpu.id) { crypto } else { Each::default() },
        });
    }
    places
}

/// The thread that polls for a line, counted as [`crate::model::knob::Knob::NapiThread`] does, and
/// its CPUs; `None` where NAPI does not run in threads, or it is not known which is whose.
///
/// Newer kernels tell (netdev netlink, 6.8). Before, there are names: `napi/eth0-8193`, numbered in
/// the order in which the driver made them. With as many threads as lines those are taken in order;
/// where a device has others, nothing is guessed.
pub(super) fn thread_of(
    device: &NetDev,
    line: &Irq,
    lines: &[&Irq],
) -> Option<(u32, crate::model::cpuset::CpuSet)> {
    if device.threaded != Some(true) || line.id.device != device.name {
        return None;
    }
    let mut told: Vec<_> = device.napis.iter().filter(|n| n.pid.is_some()).collect();
    told.order_by_key(|n| n.id);
    let (index, pid) = if told.is_empty() {
        let mut own: Vec<&Irq> =
            lines.iter().copied().filter(|i| i.id.device == device.name).collect();
        own.order_by_key(|i| i.id.queue);
        own.dedup_by_key(|i| i.id.queue);
        let same = own.len() == lines.iter().filter(|i| i.id.device == device.name).count();
        let index = own.iter().position(|i| i.id == line.id)?;
        let known = same && own.len() == device.napi_threads.len();
        (index, device.napi_threads.get(index).copied().filter(|_| known)?)
    } else {
        let index = told.iter().position(|n| n.irq == Some(line.line.0))?;
        (index, told.get(index)?.pid?)
    };
    let cpus = device.napi_thread_cpus.get(&pid)?;
    Some((u32::try_from(index).ok()?, cpus.clone()))
}

/// Why a queue gets no RPS whatever the loads.
fn unsteered(
    snapshot: &Snapshot,
    intake: &Intake<'_>,
    source: &Source<'_>,
    known: bool,
    stack: f64,
) -> Option<String> {
    let device = source.device;
    let cpus = intake.usable.len();
    if device.is_veth() {
        return None;
    }
    if device.threaded == Some(true) && !known {
        return Some("it is not known which CPU polls: its NAPI runs in threads".into());
    }
    if !known {
        return Some("it is not known which CPU takes its interrupts".into());
    }
    if cpus < 2 {
        return Some("there is only one usable CPU".into());
    }
    if stack == 0.0 {
        return Some("its flows are offloaded to hardware: there is no stack stage to move".into());
    }
    let board = snapshot.machine.board_facts.as_ref();
    if let Some(facts) = board
        && let Some(note) = facts.notes.iter().find(|n| n.contains("packet steering off"))
    {
        return Some(format!("{note} ({})", facts.source));
    }
    if rss_defeated(snapshot, device).is_some() {
        return None;
    }
    let movable = |d: &NetDev| {
        intake
            .lines
            .iter()
            .filter(|i| i.id.device == d.name)
            .all(|i| i.movable == Movable::Presumed)
    };
    let own = intake.spread(device);
    if own >= cpus && movable(device) {
        return Some(format!(
            "{} has {own} hardware queues for {cpus} CPUs: RPS would only add interrupts between \
             CPUs",
            device.name
        ));
    }
    let hardware = || intake.devices.iter().filter(|d| d.is_hardware());
    let all: usize = hardware().map(|d| intake.spread(d)).sum();
    if own > 1
        && all >= cpus
        && hardware().all(|d| movable(d) && rss_defeated(snapshot, d).is_none())
    {
        return Some(format!(
            "the devices have {all} hardware queues for {cpus} CPUs: RPS would only add \
             interrupts between CPUs"
        ));
    }
    None
}
