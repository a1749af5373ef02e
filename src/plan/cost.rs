//! A coarse model of what forwarding costs each CPU, to order candidates before anything was
//! measured. It predicts no rate; only a measurement is a claim.

use std::collections::BTreeMap;

use super::intake::Intake;
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::plan::Candidate;
use crate::model::snapshot::{IrqRole, Snapshot};
use crate::model::units::CpuId;

/// Driver, NAPI and GRO, per packet; the unit is one NATed stack stage.
pub const INTERRUPT: f64 = 0.35;
/// Netfilter with NAT, routing and transmit.
pub const STACK_NAT: f64 = 1.0;
/// Transmit completion.
pub const COMPLETION: f64 = 0.15;
/// Handing a packet over by RPS costs the CPU that gives ...
pub const RPS_GIVE: f64 = 0.15;
/// ... and the CPU that takes.
pub const RPS_TAKE: f64 = 0.10;

/// Flows that a mask of several CPUs is spread over when nothing better is known.
const FLOWS: f64 = 16.0;

/// What the model says of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Largest load of a CPU relative to its capacity; smaller is better. 1.0 is one packet's
    /// whole work on a CPU of full capacity.
    pub largest: f64,
    /// The CPU that has it.
    pub bottleneck: CpuId,
}

/// Largest share that one of `cpus` CPUs gets when flows are hashed onto them.
#[must_use]
pub fn largest_share(cpus: usize) -> f64 {
    let k = cpus.max(1) as f64;
    (1.0 / k * (1.0 + ((k - 1.0) / FLOWS).sqrt())).min(1.0)
}

/// Predicts a candidate. `None` where packets are handled on the CPU of whoever sends them (veth
/// without RPS): the model knows nothing of the senders.
#[must_use]
pub fn predict(snapshot: &Snapshot, candidate: &Candidate) -> Option<Prediction> {
    let intake = Intake::of(snapshot);
    let wanted: BTreeMap<&Knob, &Value> =
        candidate.settings.iter().map(|c| (&c.knob, &c.after)).collect();
    let cpus = |knob: &Knob| match wanted.get(knob) {
        Some(Value::Cpus(set)) => Some(set.clone()),
        _ => None,
    };
    let mut load = BTreeMap::<CpuId, f64>::new();
    let mut add = |cpu: CpuId, work: f64| *load.entry(cpu).or_default() += work;
    if intake.sources.is_empty() {
        return None;
    }
    for source in &intake.sources {
        let queues = source.device.rx_queues.len().max(1) as f64;
        let packets = 1.0 / queues;
        let arrival = source.irq.and_then(|irq| {
            let set = cpus(&Knob::IrqAffinity { irq: irq.id.clone() })
                .or_else(|| irq.lands_on().cloned())?;
            set.first()
        });
        let knob = Knob::RpsCpus { device: source.device.name.clone(), queue: source.queue.index };
        let rps = cpus(&knob).or_else(|| source.queue.rps.clone()).unwrap_or_default();
        if let Some(cpu) = arrival {
            add(cpu, packets * INTERRUPT);
        }
        match (arrival, rps.is_empty()) {
            (None, true) => return None,
            (Some(cpu), true) => add(cpu, packets * STACK_NAT),
            (arrival, false) => {
                let share = largest_share(rps.len());
                for target in rps.iter() {
                    let here = arrival == Some(target);
                    let take = if here { 0.0 } else { RPS_TAKE };
                    add(target, packets * share * (STACK_NAT + take));
                }
                if let Some(cpu) = arrival {
                    let others = rps.difference(&CpuSet::single(cpu)).len() as f64;
                    add(cpu, packets * RPS_GIVE * others / rps.len() as f64);
                }
            }
        }
    }
    for irq in intake.lines.iter().filter(|i| !matches!(i.id.role, IrqRole::Rx)) {
        let knob = Knob::IrqAffinity { irq: irq.id.clone() };
        if let Some(cpu) =
            cpus(&knob).or_else(|| irq.lands_on().cloned()).and_then(|set| set.first())
        {
            let lines = intake
                .lines
                .iter()
                .filter(|i| i.id.device == irq.id.device && !matches!(i.id.role, IrqRole::Rx));
            add(cpu, COMPLETION / lines.count().max(1) as f64);
        }
    }
    load.into_iter()
        .map(|(cpu, work)| {
            let known = snapshot.cpus.iter().find(|c| c.id == cpu);
            let capacity = known.map_or(1024, |c| c.capacity.value.max(1));
            Prediction { largest: work * 1024.0 / f64::from(capacity), bottleneck: cpu }
        })
        .max_by(|a, b| a.largest.total_cmp(&b.largest).then(b.bottleneck.cmp(&a.bottleneck)))
}
