//! Planning: settings that could be made on this router, and the gain that the cost model expects.
//!
//! ```text
//!   Snapshot, evidence ─▶ Intake, traffic (who the packets are of) ─▶ pose: the problem
//!                  ├─▶ rules of thumb, baselines of other tools ─▶ peers │
//!                  │                                                     ▼
//!                  │                  worlds ◀── judged in ──▶ search ─▶ planned ──┐
//!                  └─▶ recipes, channels, flow offload ────────────────────────────┤
//!                        gain: what it is expected to bring ◀── candidates ◀───────┘
//! ```
//!
//! In come a snapshot of the router, what is known of its traffic, and a request; out go candidates
//! with their reasons and with rates that the cost model predicts. Everything here is computed: no
//! file, device or setting is read or written.
//!
//! `docs/planning.md` has the model on two pages, and how it did on published outcomes.
//!
//! A candidate states the whole of what it steers (every receive queue's RPS mask and every
//! movable line of the intake devices), so that candidates can follow each other in any order and
//! none inherits from the one before.

mod baseline;
mod candidates;
mod channels;
mod choice;
mod cores;
pub mod cost;
mod costs;
pub mod factor;
mod fit;
mod flow;
mod gain;
mod gro;
mod in_force;
mod index;
mod intake;
mod judge;
mod lookup;
mod not_made;
mod owned;
mod places;
mod planned;
mod pose;
mod problem;
mod profile;
mod recipe;
mod regret;
mod search;
mod spread;
#[cfg(test)]
pub(crate) mod tests;
mod threads;
mod traffic;
mod unsteered;
mod way;
mod worlds;
mod xps;

pub use candidates::{Candidates, Request, candidates, candidates_for, complete, peers};
pub use choice::{Explanation, Wanted, explain, plan_of};
pub use costs::Costs;
pub use fit::{Fit, LEAST_ERROR, Term, Tested, fit};
pub use gain::{Gain, LEAST, Rated, calibrated, headline, rated, widened};
pub use in_force::in_force;
pub use index::Bug;
pub use intake::{Intake, Source};
pub use lookup::{CandidateName, NoCandidate, find, named};
pub use planned::{Planned, planned};
pub use profile::Profile;
pub use recipe::{Recipe, recipe, recipes};
pub use traffic::Traffic;
pub use way::{StackCost, stack_cost};
pub use worlds::Flows;

use crate::model::plan::{Candidate, DeviceFact, Plan};
use crate::model::snapshot::Snapshot;

/// Names of the candidates; the command line, result files and reports use them.
pub mod name {
    /// The router as it is.
    pub use crate::model::plan::AS_FOUND;
    pub use crate::model::plan::ONE_CPU;
    /// RPS to every CPU but the interrupt's.
    pub const RPS_OTHERS: &str = "rps-others";
    /// RPS to all CPUs.
    pub const RPS_ALL: &str = "rps-all";
    /// Interrupt lines spread over the CPUs, RPS off.
    pub const IRQ_SPREAD: &str = "irq-spread";
    /// Interrupt lines spread over the CPUs, RPS to the others.
    pub const IRQ_SPREAD_RPS: &str = "irq-spread-rps";
    /// The least regret in all worlds, found by search.
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
    /// Established connections past the CPUs.
    pub const HARDWARE: &str = "flowtable-hardware";
    /// Flow offload, and the placement for a router that has it.
    pub const OFFLOAD_PLANNED: &str = "flowtable-planned";
    /// Packets of a flow as a list through the stack.
    pub const GRO_LIST: &str = "gro-list";
    /// UDP packets put together for forwarding.
    pub const UDP_GRO: &str = "udp-gro-forwarding";
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
