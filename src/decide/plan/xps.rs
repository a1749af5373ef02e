//! Transmit queues of a machine that sends by itself: each CPU by a queue of its own. A forwarded
//! packet leaves by the queue of the number that it came in on, whatever the masks say.

use std::collections::BTreeMap;

use super::intake::Intake;
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::order::OneByOne;
use crate::model::plan::Change;
use crate::model::snapshot::Snapshot;
use crate::model::units::CpuId;

/// Masks for cards whose driver set none: a CPU sends by the queue whose line `settings` put on it,
/// else by the next in turn (Documentation/networking/scaling.rst, XPS).
pub(super) fn masks(snapshot: &Snapshot, intake: &Intake<'_>, settings: &[Change]) -> Vec<Change> {
    let mut all = Vec::new();
    for device in intake.devices.iter().filter(|d| d.is_hardware() && d.tx_queues.len() > 1) {
        if device.tx_queues.iter().any(|q| q.xps.as_ref().is_none_or(|set| !set.is_empty())) {
            continue;
        }
        let placed: BTreeMap<CpuId, u32> = settings
            .iter()
            .filter_map(|change| match (&change.knob, &change.after) {
                (Knob::IrqAffinity { irq }, Value::Cpus(set)) if irq.device == device.name => {
                    let line = snapshot.irqs.iter().find(|i| i.id == *irq)?;
                    let at = if set.len() == 1 { Some(set) } else { line.lands_on() };
                    Some((at?.first()?, irq.queue))
                }
                _ => None,
            })
            .one_by_one();
        let turn = |at: usize| device.tx_queues.get(at % device.tx_queues.len()).map(|q| q.index);
        let of = |(at, cpu): (usize, CpuId)| {
            let own = placed.get(&cpu).copied();
            let own = own.filter(|n| device.tx_queues.iter().any(|q| q.index == *n));
            Some((cpu, own.or_else(|| turn(at))?))
        };
        let queues: Vec<(CpuId, u32)> = intake.usable.iter().enumerate().filter_map(of).collect();
        all.extend(device.tx_queues.iter().map(|queue| {
            let own = queues.iter().filter(|(_, number)| *number == queue.index);
            let set: CpuSet = own.map(|(cpu, _)| *cpu).collect();
            Change {
                knob: Knob::XpsCpus { device: device.name.clone(), queue: queue.index },
                before: Value::Cpus(CpuSet::empty()),
                after: Value::Cpus(set),
                reason: "a CPU that sends by a queue of its own waits for no other's lock, and \
                         completes what it sent"
                    .into(),
            }
        }));
    }
    all
}
