//! Spreads interrupt lines over CPUs by what they cost and what the CPUs can do.
//!
//! Longest processing time first: deterministic, within 4/3 of the best on equal CPUs (Graham
//! 1969). A candidate to compare with; the planner's own answer is `planned`, by search.

use std::collections::BTreeMap;

use super::costs::Costs;
use crate::model::order::InOrder;
use crate::model::snapshot::{Irq, IrqId, IrqRole, Snapshot};
use crate::model::units::CpuId;

/// A CPU for every line. The first usable CPU runs the housekeeping, so among equals it is taken
/// last.
pub(super) fn spread<'a>(
    snapshot: &Snapshot,
    lines: impl Iterator<Item = &'a Irq>,
) -> BTreeMap<IrqId, CpuId> {
    let usable = snapshot.usable_cpus();
    let housekeeping = usable.first();
    let mut load: Vec<(CpuId, f64, f64)> = snapshot
        .cpus
        .iter()
        .filter(|c| usable.contains(c.id))
        .map(|c| (c.id, f64::from(c.capacity.value.max(1)), 0.0))
        .collect();
    let mut lines: Vec<&Irq> = lines.collect();
    lines.order_by(|a, b| {
        weight(b.id.role).total_cmp(&weight(a.id.role)).then_with(|| a.id.cmp(&b.id))
    });
    let mut placed = BTreeMap::new();
    for line in lines {
        let added = weight(line.id.role);
        let best = load.iter_mut().min_by(|a, b| {
            let after = |x: &(CpuId, f64, f64)| (x.2 + added) / x.1;
            let last = |x: &(CpuId, f64, f64)| Some(x.0) == housekeeping;
            after(a).total_cmp(&after(b)).then(last(a).cmp(&last(b))).then(a.0.cmp(&b.0))
        });
        if let Some((cpu, _, sum)) = best {
            *sum += added;
            placed.insert(line.id.clone(), *cpu);
        }
    }
    placed
}

/// Work that follows a line, per packet.
fn weight(role: IrqRole) -> f64 {
    let costs = Costs::DEFAULT;
    match role {
        IrqRole::Tx => costs.completion,
        IrqRole::Rx => costs.interrupt + costs.nat,
        IrqRole::Combined | IrqRole::Controller => costs.interrupt + costs.nat + costs.completion,
        IrqRole::Control => 0.0,
    }
}
