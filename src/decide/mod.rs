//! Deciding: what a machine's state, a kernel's configuration or a series of measurements means.
//!
//! In come values of `model`; out go candidates, findings, verdicts and reasons. Everything here is
//! pure: the same input gives the same output, and nothing is read or written.

pub mod diagnose;
pub mod experiment;
pub mod fleet;
pub mod kernel;
pub mod losses;
pub mod plan;
pub mod profile;
pub mod rank;
pub mod watch;
