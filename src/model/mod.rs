//! Data only: what a router is, what can be set on it, and what was measured.
//!
//! Everything else passes these values on: in come facts that somebody read or measured, out go the
//! same facts with types, units and words for people. Nothing here reads, writes or decides, and
//! nothing here imports from the rest of the program.

pub mod bisect;
pub mod board;
pub mod capacity;
pub mod condition;
pub mod cpuset;
pub mod ethernet;
pub mod evidence;
pub mod feature;
pub mod finding;
pub mod goal;
pub mod histogram;
pub mod identity;
pub mod kconfig;
pub mod knob;
pub mod loss;
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
pub mod telemetry;
pub mod units;
pub mod watch;
