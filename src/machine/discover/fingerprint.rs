//! One short text that two machines, or two moments of one machine, share if nothing that matters
//! for forwarding differs between them.

use super::machine::hash;
use crate::model::snapshot::Snapshot;

/// FNV-1a, 64 bits, over the snapshot's JSON without its counters: 16 hexadecimal digits.
#[must_use]
pub fn fingerprint(snapshot: &Snapshot) -> String {
    let mut still = snapshot.clone();
    for irq in &mut still.irqs {
        irq.counts.clear();
    }
    for device in &mut still.netdevs {
        device.drops = Default::default();
        device.counters = Default::default();
    }
    still.path.softnet.clear();
    still.evidence = None;
    still.path.conntrack_count = None;
    still.path.bound = None;
    for engine in &mut still.path.engines {
        engine.bound = None;
    }
    // The reason why something could not be learnt may be a matter of the moment, and says nothing
    // of it.
    still.gaps.clear();
    hash(&serde_json::to_vec(&still).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::snapshot::Irq;
    use crate::model::units::{CpuId, IrqLine};

    #[test]
    fn counters_change_nothing_and_a_setting_does() {
        let irq = |count, affinity: &str| Irq {
            line: IrqLine(27),
            counts: vec![(CpuId(0), count)],
            affinity: affinity.parse().ok(),
            ..Irq::default()
        };
        let of = |irq| {
            let mut snapshot = Snapshot { irqs: vec![irq], ..Snapshot::default() };
            snapshot.path.conntrack_count = Some(7);
            fingerprint(&snapshot)
        };
        assert_eq!(of(irq(1, "0-3")), of(irq(2, "0-3")));
        assert_ne!(of(irq(1, "0-3")), of(irq(1, "3")));
        assert_eq!(of(irq(1, "0")).len(), 16);
    }
}
