//! Data only: what a router is, what can be set on it, and what was measured.
//!
//! Nothing here reads, writes or decides; nothing here imports from the rest of the program.

pub mod board;
pub mod capacity;
pub mod condition;
pub mod cpuset;
pub mod feature;
pub mod finding;
pub mod goal;
pub mod histogram;
pub mod identity;
pub mod kconfig;
pub mod knob;
pub mod measurement;
pub mod nic;
pub mod order;
pub mod party;
pub mod path;
pub mod plan;
pub mod snapshot;
pub mod stack;
pub mod starved;
pub mod sweep;
pub mod sysctl;
pub mod telemetry;
pub mod units;
pub mod wire;
