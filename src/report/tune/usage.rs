//! Mean CPU use of a candidate, in all directions or one.

use std::collections::BTreeMap;

use crate::decide::experiment::usable_rate;
use crate::model::measurement::{Direction, Experiment};
use crate::model::units::CpuId;

/// Usage of one CPU, mean over a candidate's valid cells.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CpuMean {
    /// Share in soft interrupts, 0 to 1.
    pub(super) softirq: f64,
    /// Share in all else but idle.
    pub(super) other: f64,
    /// Packets per second through its softnet queue.
    pub(super) packets: f64,
}

/// Per CPU; empty where no valid cell has it.
pub(super) fn means(experiment: &Experiment, candidate: &str) -> Vec<(CpuId, CpuMean)> {
    means_of(experiment, candidate, None)
}

/// [`means`] of one direction, or of all.
pub(super) fn means_of(
    experiment: &Experiment,
    candidate: &str,
    direction: Option<Direction>,
) -> Vec<(CpuId, CpuMean)> {
    let mut sums: BTreeMap<CpuId, (CpuMean, f64)> = BTreeMap::new();
    let cells = experiment.cells.iter().filter(|c| {
        c.candidate == candidate
            && direction.is_none_or(|d| d == c.measurement.direction)
            && usable_rate(c).is_some()
    });
    for cell in cells {
        let seconds = cell.measurement.seconds;
        for cpu in &cell.measurement.cpus {
            let (sum, count) = sums.entry(cpu.cpu).or_default();
            sum.softirq += share(cpu.softirq);
            sum.other += share(cpu.user + cpu.system + cpu.irq);
            sum.packets += if seconds > 0.0 { cpu.packets as f64 / seconds } else { 0.0 };
            *count += 1.0;
        }
    }
    sums.into_iter()
        .map(|(cpu, (sum, count))| {
            let softirq = sum.softirq / count;
            let mean = CpuMean {
                softirq,
                // Ticks are counted, not timed: shares may add up to a little over one.
                other: (sum.other / count).min(1.0 - softirq),
                packets: sum.packets / count,
            };
            (cpu, mean)
        })
        .collect()
}

fn share(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, 1.0) } else { 0.0 }
}
