//! Kernel configurations: which options cost forwarding, how two configurations differ, and which of
//! the differences matters; and kernels that are known to be slow (`regression`).
//!
//! In come the texts of configurations and the rates of kernels that were built from them; out go
//! findings, differences and the next kernel to build. Nothing is read or written.

pub mod bisect;
pub mod check;
pub mod diff;
mod family;
pub mod mixed;
pub mod preemption;
pub mod regression;
pub mod relevance;
pub mod session;
pub mod table;
