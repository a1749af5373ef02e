//! Changing: a candidate put in force, checked, kept over a reboot, and undone.
//!
//! In come candidates and a door to a machine; out go what was set, what differs and what was undone.
//! `apply` writes settings, `persist` writes files that the system reads at boot, `verify` only reads.

pub mod apply;
pub mod persist;
pub mod verify;
