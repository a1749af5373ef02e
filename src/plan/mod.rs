//! What could be set on this router, and what the cost model expects of it.
//!
//! ```text
//!   Snapshot ─▶ Intake (where packets enter) ─▶ candidates, each with its reasons
//!                                                   └─▶ cost: largest load / capacity
//! ```
//!
//! A candidate states the whole of what it steers (every receive queue's RPS mask and every
//! movable line of the intake devices), so that candidates can follow each other in any order and
//! none inherits from the one before.

mod candidates;
pub mod cost;
mod intake;
mod spread;
#[cfg(test)]
mod tests;

pub use candidates::{Candidates, candidates};
pub use intake::{Intake, Source};

use crate::model::plan::{Candidate, DeviceFact, Plan};
use crate::model::snapshot::Snapshot;

/// Names of the candidates; the command line, result files and reports use them.
pub mod name {
    /// The router as it is.
    pub const AS_FOUND: &str = "as-found";
    pub use crate::model::plan::ONE_CPU;
    /// RPS to every CPU but the interrupt's.
    pub const RPS_OTHERS: &str = "rps-others";
    /// RPS to all CPUs.
    pub const RPS_ALL: &str = "rps-all";
    /// Interrupt lines spread over the CPUs, RPS off.
    pub const IRQ_SPREAD: &str = "irq-spread";
    /// Interrupt lines spread over the CPUs, RPS to the others.
    pub const IRQ_SPREAD_RPS: &str = "irq-spread-rps";
}

/// Binds a candidate to the machine it was made for.
#[must_use]
pub fn plan_for(snapshot: &Snapshot, candidate: Candidate) -> Plan {
    let touched: std::collections::BTreeSet<&str> =
        candidate.settings.iter().filter_map(|c| c.knob.device()).collect();
    let devices = snapshot
        .netdevs
        .iter()
        .filter(|d| touched.contains(d.name.as_str()))
        .map(|d| DeviceFact {
            name: d.name.clone(),
            sysfs: d.sysfs.display().to_string(),
            driver: d.driver.clone().unwrap_or_default(),
            rx_queues: u32::try_from(d.rx_queues.len()).unwrap_or(u32::MAX),
        })
        .collect();
    Plan {
        machine: snapshot.machine.id.clone(),
        hostname: snapshot.machine.hostname.clone(),
        cpus: snapshot.usable_cpus(),
        devices,
        candidate,
    }
}
