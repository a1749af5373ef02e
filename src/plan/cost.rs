//! What the cost model says of a candidate: which CPU has most to do for its size. It orders
//! candidates before anything was measured; with costs that were fitted on the machine it also
//! foretells a rate. Only a measurement is a claim.

use std::collections::BTreeMap;

use super::intake::Intake;
use super::problem::{Micro, ONE, Placement, Problem};
use super::profile::Profile;
use super::stages::{self, Traffic};
use super::{channels, flow};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::measurement::Direction;
use crate::model::order::OneByOne;
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;
use crate::model::units::CpuId;

/// What the model says of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Largest load of a CPU relative to its capacity, in the geometric mean over the patterns of
    /// traffic; smaller is better. 1.0 is the NATed stack stage of every packet of one direction on
    /// a CPU of full capacity.
    pub largest: f64,
    /// The CPU that has most to do, each pattern at the rate at which its busiest CPU is full.
    pub bottleneck: CpuId,
    /// Packets handed from one CPU to another, of those of one direction.
    pub handovers: f64,
    /// The largest load in each pattern whose direction is known.
    pub loads: BTreeMap<Direction, f64>,
    /// What 1.0 takes, ns; `None` without costs that were fitted.
    unit_ns: Option<f64>,
}

impl Prediction {
    /// Packets of data per second each way at which the busiest CPU is full in that pattern; `None`
    /// without costs that were fitted.
    #[must_use]
    pub fn packets(&self, direction: Direction) -> Option<f64> {
        let load = self.loads.get(&direction).filter(|load| **load > 0.0)?;
        Some(1e9 / (self.unit_ns? * load))
    }

    /// Payload at that rate, bit/s, with so many bytes in a packet; of both directions at once
    /// their sum.
    #[must_use]
    pub fn rate(&self, payload: u32, direction: Direction) -> Option<f64> {
        let ways = if direction == Direction::Both { 2.0 } else { 1.0 };
        Some(ways * self.packets(direction)? * 8.0 * f64::from(payload))
    }
}

/// As a figure.
pub(super) fn figure(micro: Micro) -> f64 {
    micro as f64 / ONE as f64
}

/// A router in the cost model: many candidates are judged by it.
#[derive(Debug)]
pub struct Model<'a> {
    snapshot: &'a Snapshot,
    traffic: Traffic,
    profile: Profile,
    problem: Problem,
    opaque: bool,
}

impl<'a> Model<'a> {
    /// The model of a router for that traffic and profile.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, traffic: &Traffic, profile: Profile) -> Self {
        let intake = Intake::of(snapshot);
        let problem = stages::pose(snapshot, &intake, traffic, profile);
        let opaque = intake.sources.is_empty();
        Self { snapshot, traffic: traffic.clone(), profile, problem, opaque }
    }

    /// Judges a candidate. `None` where packets are handled on the CPU of whoever sends them (veth
    /// without RPS): the model knows nothing of the senders.
    #[must_use]
    pub fn predict(&self, candidate: &Candidate) -> Option<Prediction> {
        if self.opaque {
            return None;
        }
        if let Some(grown) = channels::asked(self.snapshot, candidate) {
            let mut steering = candidate.clone();
            steering.settings.retain(|c| !matches!(c.knob, Knob::Channels { .. }));
            return Model::new(&grown, &self.traffic, self.profile).predict(&steering);
        }
        if let Some(offloading) = flow::offloaded(self.snapshot, candidate) {
            let mut steering = candidate.clone();
            steering.settings.retain(|c| c.knob != Knob::FlowOffload);
            return Model::new(&offloading, &self.traffic, self.profile).predict(&steering);
        }
        let placement = self.placement(candidate);
        let of_senders = |(queue, mask): (&super::problem::Queue, &Vec<usize>)| {
            queue.line.is_none() && mask.is_empty() && queue.works()
        };
        if self.problem.queues.iter().zip(&placement.masks).any(of_senders)
            || !self.problem.queues.iter().any(super::problem::Queue::works)
            || self.problem.is_adrift(&placement)
        {
            return None;
        }
        let tally = self.problem.tally(&placement);
        let bottleneck = self.problem.places.get(tally.busiest())?.id;
        let each = tally.largest();
        let loads = self.problem.patterns.iter().zip(each);
        Some(Prediction {
            largest: figure(tally.mean()),
            bottleneck,
            handovers: figure(tally.minor.handovers),
            loads: loads.filter_map(|(p, load)| Some((p.direction?, figure(load)))).one_by_one(),
            unit_ns: self.traffic.costs.unit_ns,
        })
    }

    /// Where a candidate puts lines and stack stages.
    fn placement(&self, candidate: &Candidate) -> Placement {
        let wanted: BTreeMap<&Knob, &Value> =
            candidate.settings.iter().map(|c| (&c.knob, &c.after)).one_by_one();
        let cpus = |knob: &Knob| match wanted.get(knob) {
            Some(Value::Cpus(set)) => Some(set),
            _ => None,
        };
        let at = |cpu: CpuId| self.problem.places.iter().position(|p| p.id == cpu);
        let lines = self.problem.lines.iter().map(|line| {
            let set = cpus(&line.knob());
            let irq = self.snapshot.irqs.iter().find(|i| i.id == line.irq);
            let before = match &line.thread {
                Some((_, cpus)) => Some(cpus),
                None => irq.and_then(|i| i.affinity.as_ref()),
            };
            // Within a mask of several the kernel picks one; where it may stay, it does.
            let stays = |set: &CpuSet| {
                line.home.is_some_and(|home| {
                    self.problem.places.get(home).is_some_and(|p| set.contains(p.id))
                })
            };
            match set {
                Some(set) if before != Some(set) && !stays(set) => set.first().and_then(at),
                _ => line.home,
            }
        });
        let masks = self.problem.queues.iter().map(|queue| {
            let knob = Knob::RpsCpus { device: queue.device.clone(), queue: queue.index };
            let set = cpus(&knob);
            set.map_or_else(|| queue.before.clone(), |set| set.iter().filter_map(at).collect())
        });
        Placement { lines: lines.collect(), masks: masks.collect() }
    }
}

/// Predicts a candidate for a router of which nothing more is known.
#[must_use]
pub fn predict(snapshot: &Snapshot, candidate: &Candidate) -> Option<Prediction> {
    Model::new(snapshot, &Traffic::default(), Profile::Router).predict(candidate)
}
