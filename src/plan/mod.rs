//! What could be set on this router, and what the cost model expects of it.
//!
//! ```text
//!   Snapshot ─▶ Intake (where packets enter) ─▶ stages: what each costs, where it may run
//!                  │                                └─▶ problem ─▶ solve ─▶ planned ──┐
//!                  ├─▶ rules of thumb (one-cpu, rps-all, irq-spread, ...) ────────────┤
//!                  └─▶ baseline (OpenWrt's, irqbalance's, all CPUs), recipes ─────────┤
//!                                      cost: largest load / capacity ◀── candidates ◀─┘
//! ```
//!
//! A candidate states the whole of what it steers (every receive queue's RPS mask and every
//! movable line of the intake devices), so that candidates can follow each other in any order and
//! none inherits from the one before.

mod amount;
mod baseline;
mod bound;
mod candidates;
mod channels;
pub mod cost;
mod costs;
mod explain;
pub mod factor;
mod fit;
mod flow;
mod intake;
mod not_made;
mod owned;
mod patterns;
mod planned;
mod problem;
mod profile;
mod recipe;
mod solve;
mod spread;
mod stages;
#[cfg(test)]
mod tests;

pub use candidates::{Candidates, Request, candidates, candidates_for, complete};
pub use costs::Costs;
pub use explain::{SETTINGS, Setting, about};
pub use fit::{Fit, Term, fit};
pub use intake::{Intake, Source};
pub use planned::{Planned, planned};
pub use problem::Flows;
pub use profile::Profile;
pub use recipe::{Recipe, recipe, recipes};
pub use stages::{StackCost, Traffic, stack_cost};

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
    /// The least largest load, found by search.
    pub const PLANNED: &str = "planned";
    /// OpenWrt's packet steering, mode 1.
    pub const OPENWRT_1: &str = "openwrt-1";
    /// OpenWrt's packet steering, mode 2.
    pub const OPENWRT_2: &str = "openwrt-2";
    /// All CPUs everywhere.
    pub const ALL_CPUS: &str = "all-cpus";
    /// A hardware queue for each CPU near the card.
    pub const CHANNELS: &str = "channels";
    /// Established connections past netfilter and routing.
    pub const FLOWTABLE: &str = "flowtable";
    /// irqbalance's first placement.
    pub const IRQBALANCE: &str = "irqbalance";
}

/// Binds a candidate to the machine it was made for.
#[must_use]
pub fn plan_for(snapshot: &Snapshot, candidate: Candidate) -> Plan {
    let touched = |name: &str| candidate.settings.iter().any(|change| change.concerns(name));
    let devices = snapshot
        .netdevs
        .iter()
        .filter(|d| touched(&d.name))
        .map(|d| DeviceFact {
            name: d.name.clone(),
            sysfs: d.sysfs.display().to_string(),
            driver: d.driver.clone().unwrap_or_default(),
            rx_queues: u32::try_from(d.rx_queues.len()).unwrap_or(u32::MAX),
            // Made and removed while the router runs.
            pending: matches!(d.kind.as_deref(), Some("ppp" | "tun" | "wireguard" | "wwan")),
        })
        .collect();
    Plan {
        machine: snapshot.machine.id.clone(),
        hostname: snapshot.machine.hostname.clone(),
        cpus: snapshot.usable_cpus(),
        devices,
        model: None,
        not_made: Vec::new(),
        candidate,
    }
}
