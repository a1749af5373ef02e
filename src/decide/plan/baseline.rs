//! Settings that other tools would make here, to compare with: OpenWrt's packet steering,
//! irqbalance, and "all CPUs everywhere".

use std::collections::BTreeMap;

use super::intake::Intake;
use super::{name, threads};
use crate::model::cpuset::CpuSet;
use crate::model::evidence::{PollerOwner, PollerRole};
use crate::model::knob::{Knob, Value};
use crate::model::order::InOrder;
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{Bus, Irq, Movable, NetDev, Snapshot};
use crate::model::units::CpuId;

/// RPS of a queue, as a change.
fn rps(device: &NetDev, queue: u32, after: &CpuSet, reason: &str) -> Option<Change> {
    let before = device.rx_queues.iter().find(|q| q.index == queue)?.rps.clone()?;
    Some(Change {
        knob: Knob::RpsCpus { device: device.name.clone(), queue },
        before: Value::Cpus(before),
        after: Value::Cpus(after.clone()),
        reason: reason.into(),
    })
}

fn affinity(irq: &Irq, after: CpuSet, reason: String) -> Option<Change> {
    Some(Change {
        knob: Knob::IrqAffinity { irq: irq.id.clone() },
        before: Value::Cpus(irq.affinity.clone()?),
        after: Value::Cpus(after),
        reason,
    })
}

/// Every mask of every device is all CPUs, as many a forum post has it (and OpenWrt before 24.10,
/// but for the interrupt's own CPU).
///
/// # Errors
/// An error with the reason if the rule makes no sense on this machine.
pub(super) fn all_cpus(snapshot: &Snapshot) -> Result<Candidate, String> {
    let all = snapshot.usable_cpus();
    if all.len() < 2 {
        return Err("there is only one usable CPU".into());
    }
    let mut settings = Vec::new();
    for irq in Intake::of(snapshot).movable() {
        settings.extend(affinity(irq, all.clone(), "any CPU".into()));
    }
    for device in snapshot.netdevs.iter().filter(|d| d.operstate != "down") {
        for queue in &device.rx_queues {
            settings.extend(rps(device, queue.index, &all, "all CPUs"));
        }
        for queue in device.tx_queues.iter().filter(|_| device.tx_queues.len() > 1) {
            settings.extend(queue.xps.clone().map(|before| Change {
                knob: Knob::XpsCpus { device: device.name.clone(), queue: queue.index },
                before: Value::Cpus(before),
                after: Value::Cpus(all.clone()),
                reason: "all CPUs".into(),
            }));
        }
    }
    if settings.is_empty() {
        return Err("there is no mask to set".into());
    }
    Ok(Candidate {
        name: name::ALL_CPUS.into(),
        title: "every mask of every device all CPUs".into(),
        reason: "a common recipe, to compare with: RPS twice where devices stand on each other"
            .into(),
        settings,
    })
}

/// A CPU as OpenWrt's script keeps it.
struct Cpu {
    id: CpuId,
    core: Option<i32>,
    /// Load in sixteenths: three quarters of three quarters is a whole number of them.
    load: u32,
}

/// Load that polling puts on a CPU, in sixteenths.
const NAPI: u32 = 16;
const RX: u32 = 12;
const BIAS: u32 = 32;

/// OpenWrt's packet-steering.uc (24.10 and later), whose CPUs count every other CPU with the same
/// `core_id` as a sibling, also one of another cluster.
struct Script<'a> {
    snapshot: &'a Snapshot,
    cpus: Vec<Cpu>,
    all: bool,
    settings: Vec<Change>,
}

/// A thread that polls or sends, with the CPUs that it may run on where it can be placed.
type Thread = (Knob, Option<CpuSet>);

impl Script<'_> {
    fn add(&mut self, id: CpuId, weight: u32) {
        let core = self.cpus.iter().find(|c| c.id == id).and_then(|c| c.core);
        for cpu in &mut self.cpus {
            if cpu.id == id {
                cpu.load += weight;
            } else if core.is_some() && cpu.core == core {
                cpu.load += weight * 3 / 4;
            }
        }
    }

    /// The least loaded CPU, or the next when that is `avoid`; its load grows by `weight`.
    fn pick(&mut self, weight: u32, avoid: Option<CpuId>) -> Option<CpuId> {
        let mut order: Vec<(u32, CpuId)> = self.cpus.iter().map(|c| (c.load, c.id)).collect();
        order.order_by(Ord::cmp);
        let first = order.first()?.1;
        let chosen = if Some(first) == avoid { order.get(1)?.1 } else { first };
        self.add(chosen, weight);
        Some(chosen)
    }

    fn everyone(&self) -> CpuSet {
        self.cpus.iter().map(|c| c.id).collect()
    }

    fn steer(&mut self, netdevs: &[&NetDev], queue: Option<u32>, cpu: Option<CpuId>) {
        let mask = cpu.map_or_else(|| self.everyone(), CpuSet::single);
        for device in netdevs {
            let queues = device.rx_queues.iter().filter(|q| queue.is_none_or(|n| q.index == n));
            for rx in queues {
                self.settings.extend(rps(device, rx.index, &mask, "as packet-steering.uc picks"));
                self.settings.extend(rx.flow_cnt.map(|before| Change {
                    knob: Knob::RpsFlowCnt { device: device.name.clone(), queue: rx.index },
                    before: Value::Count(before),
                    after: Value::Count(0),
                    reason: "packet-steering.uc writes steering_flows, 0 by default".into(),
                }));
            }
        }
    }

    /// The threads of a piece of hardware: of its devices, of its radios, and of the dummy device by
    /// which mtk_eth_soc polls for all of its ports.
    fn threads(&self, netdevs: &[&NetDev]) -> Vec<Thread> {
        let of = |device: &&NetDev| -> Vec<Thread> {
            let knob = |thread| Knob::NapiThread { device: device.name.clone(), thread };
            let own = (0..).zip(threads::threads_of(device));
            own.map(|(n, pid)| (knob(n), device.napi_thread_cpus.get(&pid).cloned())).collect()
        };
        let mut all: Vec<Thread> = netdevs.iter().flat_map(of).collect();
        let pollers = self.snapshot.evidence.iter().flat_map(|e| &e.pollers);
        let shared = pollers.filter(|p| {
            matches!(p.owner, PollerOwner::Dummy(_) | PollerOwner::Radio(_))
                && p.role != PollerRole::Workqueue
                && netdevs.iter().any(|d| p.serves(&d.name))
        });
        all.extend(shared.filter_map(|p| {
            Some((p.knob()?, p.cpus.clone().filter(|_| p.movable != Some(false))))
        }));
        all
    }

    fn pin(&mut self, (knob, before): &Thread, cpu: Option<CpuId>) {
        if let (Some(before), Some(cpu)) = (before, cpu) {
            self.settings.push(Change {
                knob: knob.clone(),
                before: Value::Cpus(before.clone()),
                after: Value::Cpus(CpuSet::single(cpu)),
                reason: "as packet-steering.uc pins the threads that poll".into(),
            });
        }
    }

    /// Steers one piece of hardware; the CPU of its NAPI threads.
    fn assign(&mut self, netdevs: &[&NetDev]) -> Option<CpuId> {
        let first = netdevs.first()?;
        let queues: Vec<u32> = first.rx_queues.iter().map(|q| q.index).collect();
        let threads = self.threads(netdevs);
        if queues.len() > 1 && threads.len() > 1 {
            let count = queues.len().max(threads.len());
            let cpus = self.cpus.len();
            for i in 0..count {
                let wraps = count >= cpus;
                let turn = |n: usize| self.cpus.get(n % cpus.max(1)).map(|c| c.id);
                let own = match i < threads.len() {
                    _ if wraps => turn(i),
                    true => self.pick(NAPI, None),
                    false => None,
                };
                threads.get(i).into_iter().for_each(|thread| self.pin(thread, own));
                let Some(queue) = queues.get(i) else { continue };
                let cpu = if wraps {
                    self.cpus.get((i + 1) % cpus.max(1)).map(|c| c.id)
                } else if self.all {
                    None
                } else {
                    self.pick(NAPI, own)
                };
                self.steer(netdevs, Some(*queue), cpu);
            }
            return None;
        }
        let napi = if threads.is_empty() { None } else { self.pick(NAPI, None) };
        threads.iter().for_each(|thread| self.pin(thread, napi));
        let cpu = if self.all { None } else { self.pick(RX, napi) };
        self.steer(netdevs, None, cpu);
        napi
    }
}

/// Settings that OpenWrt's script would write: mode 1 one CPU for each device, mode 2 all of them.
///
/// # Errors
/// An error with the reason if the script would write nothing.
pub(super) fn openwrt(snapshot: &Snapshot, all: bool) -> Result<Candidate, String> {
    let online = snapshot.cpus.iter().filter(|c| c.online).take(64);
    let cpus: Vec<Cpu> = online.map(|c| Cpu { id: c.id, core: c.core, load: 0 }).collect();
    if cpus.len() < 2 {
        return Err("OpenWrt's script does nothing with one CPU".into());
    }
    let mut script = Script { snapshot, cpus, all, settings: Vec::new() };
    let mut netdevs: Vec<&NetDev> =
        snapshot.netdevs.iter().filter(|d| d.bus != Bus::Virtual && d.lower.is_empty()).collect();
    netdevs.order_by(|a, b| a.name.cmp(&b.name));
    // One piece of hardware may have several netdevs: .../<hardware>/net/<name>.
    let mut hardware: Vec<(Option<&std::path::Path>, Vec<&NetDev>)> = Vec::new();
    for device in netdevs {
        let path = device.sysfs.parent().and_then(|net| net.parent());
        match hardware.iter_mut().find(|(p, _)| *p == path && path.is_some()) {
            Some((_, list)) => list.push(device),
            None => hardware.push((path, vec![device])),
        }
    }
    let wireless = |list: &[&NetDev]| list.iter().any(|d| d.kind.as_deref() == Some("wlan"));
    let (air, wire): (Vec<_>, Vec<_>) = hardware.into_iter().partition(|(_, l)| wireless(l));
    let napi: Vec<CpuId> = wire.iter().filter_map(|(_, list)| script.assign(list)).collect();
    for cpu in napi {
        script.add(cpu, BIAS);
    }
    for (_, list) in &air {
        script.assign(list);
    }
    if script.settings.is_empty() {
        return Err("OpenWrt's script leaves devices without hardware alone".into());
    }
    let (name, title) = if all {
        (name::OPENWRT_2, "OpenWrt's packet steering, mode 2: RPS to all CPUs")
    } else {
        (name::OPENWRT_1, "OpenWrt's packet steering, mode 1: RPS to one CPU for each device")
    };
    Ok(Candidate {
        name: name.into(),
        title: title.into(),
        reason: "to compare with: what packet-steering.uc of OpenWrt 24.10 writes".into(),
        settings: script.settings,
    })
}

/// The result of irqbalance's first pass (placement.c, calculate_placement): package, then cache
/// domain, then CPU, each time the one with the fewest lines of the class so far. Lines of PCI
/// network cards are of the class "ethernet" and get one CPU; others are "other" and get their
/// package (classify.c, map_class_to_level), but for lines named eth* on ARM, which newer versions
/// take for ethernet. It knows no capacities, and isolated CPUs are banned.
///
/// # Errors
/// An error with the reason if irqbalance would move nothing.
pub(super) fn irqbalance(snapshot: &Snapshot) -> Result<Candidate, String> {
    let intake = Intake::of(snapshot);
    let usable: Vec<_> = snapshot.cpus.iter().filter(|c| intake.usable.contains(c.id)).collect();
    let lines: Vec<&Irq> =
        intake.lines.iter().copied().filter(|i| i.movable == Movable::Presumed).collect();
    if lines.is_empty() {
        return Err("there is no network interrupt that can be moved".into());
    }
    if usable.len() < 2 {
        return Err("there is only one usable CPU".into());
    }
    let arm = snapshot.machine.arch.starts_with("arm") || snapshot.machine.arch == "aarch64";
    let ethernet = |irq: &Irq| {
        let device = snapshot.netdev(&irq.id.device);
        let pci = device.is_some_and(|d| matches!(d.bus, Bus::Pci(_) | Bus::Virtio(_)));
        pci || (arm && irq.action.starts_with("eth"))
    };
    let mut packages: BTreeMap<i32, CpuSet> = BTreeMap::new();
    for cpu in &usable {
        packages.entry(cpu.package.unwrap_or(-1)).or_default().insert(cpu.id);
    }
    let node_of = |package: &CpuSet| {
        package.first().and_then(|id| usable.iter().find(|c| c.id == id)).and_then(|c| c.node)
    };
    let domain_of = |id: CpuId| -> CpuSet {
        let cpu = usable.iter().find(|c| c.id == id);
        let l2 = cpu.map(|c| c.l2.clone()).unwrap_or_default();
        if l2.is_empty() { CpuSet::single(id) } else { l2 }
    };
    let mut in_package: BTreeMap<(bool, i32), usize> = BTreeMap::new();
    let mut in_domain: BTreeMap<CpuSet, usize> = BTreeMap::new();
    let mut on_cpu: BTreeMap<CpuId, usize> = BTreeMap::new();
    let mut settings = Vec::new();
    for irq in &lines {
        let class = ethernet(irq);
        let most = lines.iter().filter(|i| ethernet(i) == class).count().div_ceil(packages.len());
        let node = snapshot.netdev(&irq.id.device).and_then(|d| d.numa_node);
        let package = packages.iter().min_by_key(|(number, set)| {
            let count = in_package.get(&(class, **number)).copied().unwrap_or(0);
            let away = node.is_some() && node_of(set).is_some() && node != node_of(set);
            (count >= most, away, count, **number)
        });
        let Some((number, package)) = package else { continue };
        *in_package.entry((class, *number)).or_default() += 1;
        if !class {
            let reason = "class \"other\": anywhere in its package".into();
            settings.extend(affinity(irq, package.clone(), reason));
            continue;
        }
        let cpu = package.iter().min_by_key(|id| {
            let domain = domain_of(*id);
            let first = domain.first() == Some(*id);
            let lines = in_domain.get(&domain).copied().unwrap_or(0);
            // Domains in order; within one the first CPU comes last among equals.
            (lines, domain.first(), on_cpu.get(id).copied().unwrap_or(0), first, *id)
        });
        let Some(cpu) = cpu else { continue };
        *in_domain.entry(domain_of(cpu)).or_default() += 1;
        *on_cpu.entry(cpu).or_default() += 1;
        let reason = "class \"ethernet\": the CPU with the fewest such lines".into();
        settings.extend(affinity(irq, CpuSet::single(cpu), reason));
    }
    Ok(Candidate {
        name: name::IRQBALANCE.into(),
        title: "irqbalance's first placement, without knowing any load".into(),
        reason: "to compare with; a running irqbalance moves lines again by their load".into(),
        settings,
    })
}
