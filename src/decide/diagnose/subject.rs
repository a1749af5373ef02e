//! The subject of the rules, with the questions that several of them ask.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::Evidence;
use crate::decide::plan::cost::Model;
use crate::decide::plan::{self, Intake, Profile, Source, Traffic};
use crate::model::condition::{Condition, DeviceCondition};
use crate::model::cpuset::CpuSet;
use crate::model::finding::Severity;
use crate::model::nic::Numbers;
use crate::model::path::{Flowtable, Nftables};
use crate::model::plan::Candidate;
use crate::model::snapshot::{Cpu, Irq, NetDev, Snapshot};
use crate::model::telemetry::{CpuRates, Interval};
use crate::model::units::CpuId;

/// Counters and rates of the time in which the router was watched.
#[derive(Debug, Clone)]
pub struct Window {
    /// Length in seconds.
    pub seconds: f64,
    /// Rates over it.
    pub rates: Interval,
    /// The router at its beginning.
    pub before: Snapshot,
    /// Condition of the router at that time.
    pub before_condition: Condition,
}

/// Verdict of the cost model: largest load over capacity, smaller is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// As it is.
    pub found: f64,
    /// As the planner would have it.
    pub planned: f64,
    /// As it is, with established flows past netfilter.
    pub offloaded: Option<f64>,
}

impl Outlook {
    /// Share of the rate that the placement costs.
    #[must_use]
    pub fn placement(&self) -> f64 {
        share(self.found, self.planned)
    }

    /// Share of the rate that work without flow offload costs.
    #[must_use]
    pub fn offload(&self) -> f64 {
        self.offloaded.map_or(0.0, |offloaded| share(self.found, offloaded))
    }
}

fn share(found: f64, better: f64) -> f64 {
    if found > 0.0 { (1.0 - better / found).clamp(0.0, 1.0) } else { 0.0 }
}

/// A router and all that is known of it.
pub struct Subject<'a> {
    /// The router as it is; at the end of the window where there is one.
    pub snapshot: &'a Snapshot,
    /// In which condition.
    pub condition: &'a Condition,
    /// The window that was watched, with `--load`.
    pub window: Option<&'a Window>,
    /// Where packets enter.
    pub intake: Intake<'a>,
    /// Asked for by few rules, and dear: the planner searches.
    outlook: OnceCell<Option<Outlook>>,
}

/// The placement costs enough to be sure that it is no rounding of the model.
pub(super) const CLEAR_LOSS: f64 = 0.2;

impl<'a> Subject<'a> {
    /// Looks at a router.
    #[must_use]
    pub fn new(
        snapshot: &'a Snapshot,
        condition: &'a Condition,
        window: Option<&'a Window>,
    ) -> Self {
        let intake = Intake::of(snapshot);
        Self { snapshot, condition, window, intake, outlook: OnceCell::new() }
    }

    /// Verdict of the cost model; `None` where it has none.
    #[must_use]
    pub fn outlook(&self) -> Option<Outlook> {
        *self.outlook.get_or_init(|| outlook(self.snapshot))
    }

    /// True if it forwards; `None` where it is not known.
    pub(super) fn forwards(&self) -> Option<bool> {
        match (self.snapshot.path.ipv4, self.snapshot.path.ipv6) {
            (None, None | Some(false)) => None,
            (v4, v6) => Some(v4 == Some(true) || v6 == Some(true)),
        }
    }

    /// A warning on a router; a notice on a machine that is known to forward nothing.
    pub(super) fn on_router(&self, severity: Severity) -> Severity {
        if self.forwards() == Some(false) { severity.min(Severity::Notice) } else { severity }
    }

    /// Further facts about a device.
    pub(super) fn device(&self, name: &str) -> Option<&'a DeviceCondition> {
        self.condition.devices.get(name)
    }

    /// Ports with hardware behind them that are in use, Wi-Fi left out.
    pub(super) fn ports(&self) -> impl Iterator<Item = &'a NetDev> + '_ {
        let wireless = |d: &&NetDev| matches!(d.kind.as_deref(), Some("wlan" | "wwan"));
        let snapshot = self.snapshot;
        let ports = snapshot.netdevs.iter().filter(|d| d.is_hardware() && d.operstate != "down");
        ports.filter(move |d| !wireless(d))
    }

    /// The CPU on which a queue's packets arrive: by the kernel's word, else by its counts; a mask of
    /// several does not tell.
    pub(super) fn arrives_on(&self, source: &Source<'_>) -> Option<CpuId> {
        let irq = source.irq?;
        match irq.effective.as_ref().or(irq.affinity.as_ref()).filter(|set| set.len() == 1) {
            Some(set) => set.first(),
            None => busiest(irq).map(|(cpu, _)| cpu),
        }
    }

    /// True if next to none of the packets came by this queue, so that where they would arrive does
    /// not matter.
    pub(super) fn is_idle(&self, source: &Source<'_>) -> bool {
        const ENOUGH: u64 = 100_000;
        let taken = |irq: &Irq| irq.counts.iter().map(|(_, n)| *n).sum::<u64>();
        let receiving = self.intake.lines.iter().filter(|irq| irq.id.role.receives());
        let all: u64 = receiving.map(|irq| taken(irq)).fold(0, u64::saturating_add);
        source.irq.is_some_and(|irq| all >= ENOUGH && taken(irq) < all / 1000)
    }

    /// The CPUs on which a queue's packets go through the stack.
    pub(super) fn handled_on(&self, source: &Source<'_>) -> Option<CpuSet> {
        let mask = source.queue.rps.as_ref().filter(|mask| !mask.is_empty());
        if mask.is_some() {
            return mask.cloned();
        }
        if source.device.threaded == Some(true) {
            // Where the threads may run; where that is not known, anywhere.
            let threads = source.device.napi_thread_cpus.values();
            let on: CpuSet = threads.flat_map(CpuSet::iter).collect();
            return Some(if on.is_empty() { self.intake.usable.clone() } else { on });
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

    /// The rates of a CPU in the window.
    pub(super) fn rates(&self) -> impl Iterator<Item = &'a CpuRates> + '_ {
        self.window.into_iter().flat_map(|w| &w.rates.cpus)
    }

    /// Share of a CPU's time in interrupts of both kinds, in the window.
    pub(super) fn interrupted(&self, cpu: CpuId) -> Option<f64> {
        let rates = self.rates().find(|r| r.cpu == cpu)?;
        Some(rates.softirq? + rates.irq.unwrap_or(0.0))
    }

    /// Increase of a counter in the window.
    pub(super) fn rose(&self, of: impl Fn(&Snapshot, &Condition) -> u64) -> Option<u64> {
        let window = self.window?;
        let before = of(&window.before, &window.before_condition);
        Some(of(self.snapshot, self.condition).saturating_sub(before))
    }

    /// The CPU of that number.
    pub(super) fn cpu(&self, id: CpuId) -> Option<&'a Cpu> {
        self.snapshot.cpus.iter().find(|c| c.id == id)
    }

    /// True if a flowtable or an engine forwards established flows, or is asked to.
    pub(super) fn offloads(&self) -> bool {
        offloads(self.snapshot)
    }

    /// A PPPoE device that is there, with the device under it.
    pub(super) fn pppoe(&self) -> impl Iterator<Item = (&'a NetDev, &'a str)> + '_ {
        let snapshot = self.snapshot;
        snapshot.netdevs.iter().filter_map(|d| Some((d, d.pppoe_over.as_deref()?)))
    }
}

/// A counter of a device: its own, the driver's, 0 where it is not there (absent means zero).
pub(super) fn count(numbers: &Numbers, wanted: impl Fn(&str) -> bool) -> u64 {
    numbers.iter().filter(|(name, _)| wanted(name)).map(|(_, n)| *n).sum()
}

fn offloads(snapshot: &Snapshot) -> bool {
    let path = &snapshot.path;
    path.nftables.as_ref().is_some_and(|n| !n.flowtables.is_empty())
        || path.iptables_rules.iter().any(|t| t.flow_offload)
        || (path.nftables.is_none() && asks_for_offload(snapshot))
}

fn asks_for_offload(snapshot: &Snapshot) -> bool {
    snapshot.path.openwrt.get("flow_offloading").is_some_and(|v| v == "1")
}

/// The CPU that took most of a line's interrupts, if it took nearly all, and how many.
fn busiest(irq: &Irq) -> Option<(CpuId, u64)> {
    let total: u64 = irq.counts.iter().map(|(_, n)| *n).sum();
    let (cpu, most) = irq.counts.iter().max_by_key(|(_, n)| *n)?;
    (total >= 1000 && most * 10 >= total * 9).then_some((*cpu, *most))
}

/// A line's affinity, as its file says; a mask of several with what was counted.
pub(super) fn affinity(irq: &Irq) -> Evidence {
    let (file, set) = match (&irq.effective, &irq.affinity) {
        (Some(set), _) if !set.is_empty() => ("effective_affinity_list", set.to_string()),
        (_, Some(set)) => ("smp_affinity_list", set.to_string()),
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

/// A list of names for a sentence.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen.join(", ")
}

/// As the router is: a candidate that asks for nothing.
fn as_found() -> Candidate {
    Candidate {
        name: plan::name::AS_FOUND.into(),
        title: String::new(),
        reason: String::new(),
        settings: Vec::new(),
    }
}

fn outlook(snapshot: &Snapshot) -> Option<Outlook> {
    // A capture without netlink's answers says of OpenWrt's flow offload only that it was asked for.
    let blind = snapshot.path.nftables.is_none() && asks_for_offload(snapshot);
    let assumed;
    let (snapshot, bound) = if blind {
        assumed = with_flowtable(snapshot);
        (&assumed, true)
    } else {
        (snapshot, offloads(snapshot))
    };
    let traffic = Traffic::default();
    let largest = |of: &Snapshot, candidate: &Candidate| {
        let told = Model::new(of, &traffic, Profile::Router).predict(candidate);
        told.ok().flatten().map(|p| p.largest)
    };
    let found = largest(snapshot, &as_found())?;
    let planned = plan::planned(snapshot, &traffic, Profile::Router, &plan::peers(snapshot)).ok();
    let planned = planned.and_then(|p| largest(snapshot, &p.candidate)).unwrap_or(found);
    let offloaded = if bound { None } else { largest(&with_flowtable(snapshot), &as_found()) };
    Some(Outlook { found, planned: planned.min(found), offloaded })
}

/// The same router with a flowtable over all devices.
fn with_flowtable(snapshot: &Snapshot) -> Snapshot {
    let mut other = snapshot.clone();
    let devices = snapshot.netdevs.iter().map(|d| d.name.clone()).collect();
    let table = Flowtable { name: String::new(), devices, hardware: false };
    other.path.nftables.get_or_insert_with(Nftables::default).flowtables = vec![table];
    other
}

/// Packets that each CPU took in since boot, and all.
pub(super) fn softnet_shares(snapshot: &Snapshot) -> (BTreeMap<CpuId, u64>, u64) {
    let mut by_cpu = BTreeMap::new();
    let mut all = 0;
    for row in &snapshot.path.softnet {
        by_cpu.insert(row.cpu, u64::from(row.packets));
        all += u64::from(row.packets);
    }
    (by_cpu, all)
}
