//! The cost model's verdict on a router: as it is, as the planner would have it, and what lies between.

use super::{Found, Subject};
use crate::decide::plan::cost::{Model, Prediction};
use crate::decide::plan::{self, Gain, Profile, Traffic};
use crate::model::cpuset::CpuSet;
use crate::model::finding::{Confidence, Severity};
use crate::model::knob::{Knob, Value};
use crate::model::path::{BoundFlows, Flowtable, Nftables};
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{Irq, Snapshot};

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

impl Subject<'_> {
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

    /// True if the plan names a queue's RPS mask and leaves it as it is.
    pub(super) fn keeps_mask(&self, device: &str, queue: u32) -> bool {
        let knob = Knob::RpsCpus { device: device.to_owned(), queue };
        let kept = |c: &Change| c.knob == knob && c.before == c.after;
        self.outlook().is_some_and(|o| o.settings.iter().any(kept))
    }

    /// True if the plan moves a line.
    pub(super) fn moves(&self, irq: &Irq) -> bool {
        let knob = Knob::IrqAffinity { irq: irq.id.clone() };
        self.outlook().is_none_or(|o| o.changes().any(|c| c.knob == knob))
    }
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

/// The verdict on a router; `None` where the model has none.
pub(super) fn outlook(snapshot: &Snapshot) -> Option<Outlook> {
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
    let planned = plan::planned(snapshot, &traffic, Profile::Router).ok();
    let then = planned.as_ref().and_then(|p| told(&model, &p.candidate));
    let offloading = (!bound).then(|| with_flowtable(snapshot));
    let offloaded = offloading.and_then(|offloading| {
        told(&Model::new(&offloading, &traffic, Profile::Router), &as_found())
    });
    let settings = planned.map(|p| p.candidate.settings).unwrap_or_default();
    Some(Outlook { now, planned: then, offloaded, settings })
}

/// The same router with a flowtable over all devices.
fn with_flowtable(snapshot: &Snapshot) -> Snapshot {
    let mut other = snapshot.clone();
    let devices = snapshot.netdevs.iter().map(|d| d.name.clone()).collect();
    let table = Flowtable { name: String::new(), devices, hardware: false };
    other.path.nftables.get_or_insert_with(Nftables::default).flowtables = vec![table];
    other
}
