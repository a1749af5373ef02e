//! What the cost model says of a candidate: which CPU has most to do for its size. It orders
//! candidates before anything was measured; with costs that were fitted on the machine it also
//! foretells a rate. Only a measurement is a claim.

use std::collections::BTreeMap;

use super::flow;
use super::intake::Intake;
use super::problem::{Micro, ONE, Placement, Problem};
use super::profile::Profile;
use super::stages::{self, Traffic};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::order::OneByOne;
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;
use crate::model::units::CpuId;

/// What the model says of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Largest load of a CPU relative to its capacity; smaller is better. 1.0 is the NATed stack
    /// stage of every packet of one direction on a CPU of full capacity.
    pub largest: f64,
    /// The CPU that has it.
    pub bottleneck: CpuId,
    /// Packets handed from one CPU to another, of those of one direction.
    pub handovers: f64,
    /// Packets per second of each direction, both at once, at which that CPU is full; `None`
    /// without costs that were fitted.
    pub packets: Option<f64>,
}

impl Prediction {
    /// Payload at that rate, bit/s, of so many directions together, with so many bytes in a packet.
    #[must_use]
    pub fn rate(&self, payload: u32, directions: u32) -> Option<f64> {
        Some(f64::from(directions) * self.packets? * 8.0 * f64::from(payload))
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
        if let Some(offloading) = flow::offloaded(self.snapshot, candidate) {
            let mut steering = candidate.clone();
            steering.settings.retain(|c| c.knob != Knob::FlowOffload);
            return Model::new(&offloading, &self.traffic, self.profile).predict(&steering);
        }
        let placement = self.placement(candidate);
        let of_senders = |(queue, mask): (&super::problem::Queue, &Vec<usize>)| {
            queue.line.is_none() && mask.is_empty() && queue.stack > 0
        };
        if self.problem.queues.iter().zip(&placement.masks).any(of_senders)
            || self.problem.queues.iter().all(|q| q.stack == 0 && q.interrupt == 0)
            || self.problem.is_adrift(&placement)
        {
            return None;
        }
        let tally = self.problem.tally(&placement);
        let (largest, at) = tally.largest();
        let bottleneck = self.problem.places.get(at)?.id;
        let handovers = figure(tally.minor.handovers);
        let largest = figure(largest);
        let unit = self.traffic.costs.unit_ns.filter(|_| largest > 0.0);
        let packets = unit.map(|ns| 1e9 / (ns * largest));
        Some(Prediction { largest, bottleneck, handovers, packets })
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
