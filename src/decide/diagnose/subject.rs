//! The subject of the rules, with the questions that several of them ask.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::{Evidence, Found};
use crate::decide::plan::cost::{Model, Prediction};
use crate::decide::plan::{self, Gain, Intake, Profile, Source, Traffic};
use crate::model::condition::{Condition, DeviceCondition};
use crate::model::cpuset::CpuSet;
use crate::model::evidence::{Poller, PollerOwner, PollerRole};
use crate::model::finding::{Confidence, Severity};
use crate::model::knob::{Knob, Value};
use crate::model::nic::Numbers;
use crate::model::order::InOrder;
use crate::model::path::{BoundFlows, Flowtable, Nftables};
use crate::model::plan::{Candidate, Change};
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

/// Verdict of the cost model.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// As it is.
    now: Prediction,
    /// As the planner would have it.
    planned: Option<Prediction>,
    /// As it is, with established flows past netfilter.
    offloaded: Option<Prediction>,
    /// The planner's settings, those that are as wanted included.
    settings: Vec<Change>,
}

impl Outlook {
    /// Largest load over capacity as it is; smaller is better.
    #[must_use]
    pub fn found(&self) -> f64 {
        self.now.largest
    }

    /// Largest load over capacity as the planner would have it.
    #[must_use]
    pub fn planned(&self) -> f64 {
        self.planned.as_ref().map_or(self.now.largest, |p| p.largest.min(self.now.largest))
    }

    /// Gain of the planner's placement; `None` where it has none to propose.
    #[must_use]
    pub fn gain(&self) -> Option<Gain> {
        Gain::of(&self.now, self.planned.as_ref()?)
    }

    /// Share of the rate that the placement costs.
    #[must_use]
    pub fn placement(&self) -> f64 {
        share(self.gain())
    }

    /// Share of the rate that work without flow offload costs.
    #[must_use]
    pub fn offload(&self) -> f64 {
        share(self.offloaded.as_ref().and_then(|then| Gain::of(&self.now, then)))
    }

    /// Device of the shaper that is full before any CPU as it is.
    pub(super) fn shaper(&self) -> Option<&str> {
        self.now.shaper.as_deref()
    }

    /// Name of what is full first as it is.
    pub(super) fn full_first(&self) -> String {
        self.now.full_first()
    }

    /// The settings that the planner would change.
    fn changes(&self) -> impl Iterator<Item = &Change> {
        self.settings.iter().filter(|c| c.before != c.after)
    }
}

/// Share of the rate that is lost as long as a gain is not made.
fn share(gain: Option<Gain>) -> f64 {
    gain.filter(Gain::is_any).map_or(0.0, |g| 1.0 - 1.0 / g.times.mid)
}

/// A gain below this may be a rounding of the model.
const CLEAR: f64 = 1.15;
/// A gain that no link lets be made is told from this on.
const LATENT: f64 = 1.25;

/// Something that the cost model has clearly better.
pub(super) struct Better {
    /// Gain over what there is.
    pub(super) gain: Gain,
    /// Share of the rate that is lost as it is.
    pub(super) cost: f64,
}

impl Better {
    /// Compares two predictions: `None` where the second is not clearly better, whatever the links
    /// carry.
    fn of(now: &Prediction, then: &Prediction) -> Option<Self> {
        let gain = Gain::of(now, then)?;
        let clear = gain.is_any() && gain.times.mid >= CLEAR;
        let cost = if clear { 1.0 - 1.0 / gain.times.mid } else { 0.0 };
        (clear || now.largest >= LATENT * then.largest).then_some(Self { gain, cost })
    }

    /// A warning where a fault that is known to be one costs a fifth and more; where the links are
    /// full first it costs nothing.
    pub(super) fn severity(&self) -> Severity {
        match (self.cost >= 0.2 || self.is_sure(), self.cost > 0.0) {
            (true, _) => Severity::Warning,
            (false, true) => Severity::Notice,
            (false, false) => Severity::Info,
        }
    }

    /// True if the gain is clear in every world of the model.
    pub(super) fn is_sure(&self) -> bool {
        self.cost > 0.0 && self.gain.times.low >= CLEAR
    }
}

/// A placement that the planner would make clearly better.
pub(super) struct Misplaced<'a> {
    /// Gain of the planner's placement.
    pub(super) better: Better,
    /// The settings that the planner would change.
    pub(super) changes: Vec<&'a Change>,
}

impl Misplaced<'_> {
    /// The finding with its cost and with what to do.
    pub(super) fn told(&self, found: Found) -> Found {
        if self.better.cost > 0.0 {
            return found
                .cost(self.better.cost)
                .remedy("linerate plan  # shows what it would set, and why; writes plan.toml")
                .remedy(
                    "linerate apply plan.toml --confirm 60  # undone unless `linerate confirm` \
                     follows",
                );
        }
        found
            .sure(Confidence::Likely)
            .consequence(
                "nothing as long as the packets are large: by the cost model the links are full \
                 before any CPU. Small packets or a faster line change that",
            )
            .remedy("nothing has to be done; linerate plan --candidate planned would spread it")
    }
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
    pub fn outlook(&self) -> Option<&Outlook> {
        self.outlook.get_or_init(|| outlook(self.snapshot)).as_ref()
    }

    /// True if the links are full before any CPU as it is, so that no placement matters to full
    /// packets.
    pub(super) fn is_carried(&self) -> bool {
        self.outlook().is_some_and(|o| o.now.carried)
    }

    /// True if hardware forwards nearly all: the CPUs see the first packets of a connection only.
    fn is_by_hardware(&self) -> bool {
        let nearly = |b: &BoundFlows| b.complete && b.bound > 0 && b.hardware * 10 >= b.bound * 9;
        self.snapshot.path.bound.as_ref().is_some_and(nearly)
    }

    /// The placement, where the planner would make it clearly better.
    pub(super) fn misplaced(&self) -> Option<Misplaced<'_>> {
        if self.is_by_hardware() {
            return None;
        }
        let outlook = self.outlook()?;
        let better = Better::of(&outlook.now, outlook.planned.as_ref()?)?;
        let changes: Vec<&Change> = outlook.changes().collect();
        (!changes.is_empty()).then_some(Misplaced { better, changes })
    }

    /// The same router with CPUs that are offline or isolated, where it would be clearly better.
    pub(super) fn with_all_cpus(&self) -> Option<Better> {
        if self.is_by_hardware() || self.snapshot.cpus.iter().all(|c| c.online && !c.isolated) {
            return None;
        }
        let mut other = self.snapshot.clone();
        let online = other.cpus.iter().filter(|c| c.online);
        let most = online.map(|c| c.capacity).max_by_key(|c| c.value)?;
        for cpu in other.cpus.iter_mut().filter(|c| !c.online || c.isolated) {
            // What an offline CPU can do can't be read.
            if !cpu.online {
                cpu.capacity = most;
            }
            (cpu.online, cpu.isolated, cpu.nohz_full) = (true, false, false);
        }
        Better::of(self.outlook()?.planned.as_ref()?, outlook(&other)?.planned.as_ref()?)
    }

    /// The RPS mask that a queue has in the plan; `None` where the plan leaves it as it is.
    pub(super) fn steered_anew(&self, device: &str, queue: u32) -> Option<&CpuSet> {
        let knob = Knob::RpsCpus { device: device.to_owned(), queue };
        match &self.outlook()?.changes().find(|c| c.knob == knob)?.after {
            Value::Cpus(set) => Some(set),
            _ => None,
        }
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

    /// True if the plan moves a line.
    pub(super) fn moves(&self, irq: &Irq) -> bool {
        let knob = Knob::IrqAffinity { irq: irq.id.clone() };
        self.outlook().is_none_or(|o| o.changes().any(|c| c.knob == knob))
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

    /// The CPUs on which a queue's packets go through the stack, those that devices above hand them
    /// to included.
    pub(super) fn handled_on(&self, source: &Source<'_>) -> Option<CpuSet> {
        let own = self.handled_below(source)?;
        let above = above(self.snapshot, &source.device.name, 0);
        let masks = above.into_iter().flat_map(|d| &d.rx_queues).filter_map(|q| q.rps.as_ref());
        Some(own.iter().chain(masks.flat_map(CpuSet::iter)).collect())
    }

    fn handled_below(&self, source: &Source<'_>) -> Option<CpuSet> {
        let mask = source.queue.rps.as_ref().filter(|mask| !mask.is_empty());
        if mask.is_some() {
            return mask.cloned();
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
        self.snapshot.path.offloads()
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
    let blind = snapshot.path.nftables.is_none() && snapshot.path.asks_for_offload();
    let assumed;
    let (snapshot, bound) = if blind {
        assumed = with_flowtable(snapshot);
        (&assumed, true)
    } else {
        (snapshot, snapshot.path.offloads())
    };
    let traffic = Traffic::default();
    let model = Model::new(snapshot, &traffic, Profile::Router);
    let told = |model: &Model<'_>, candidate: &Candidate| model.predict(candidate).ok().flatten();
    let now = told(&model, &as_found())?;
    let planned = plan::planned(snapshot, &traffic, Profile::Router, &plan::peers(snapshot)).ok();
    let then = planned.as_ref().and_then(|p| told(&model, &p.candidate));
    let offloading = (!bound).then(|| with_flowtable(snapshot));
    let offloaded = offloading.and_then(|offloading| {
        told(&Model::new(&offloading, &traffic, Profile::Router), &as_found())
    });
    let settings = planned.map(|p| p.candidate.settings).unwrap_or_default();
    Some(Outlook { now, planned: then, offloaded, settings })
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
