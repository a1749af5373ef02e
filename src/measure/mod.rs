//! Measuring: traffic through a router, counters beside it, and the loop that compares settings.
//!
//! In come a scenario, candidates and a bed (a lab, or agents on other machines); out go
//! measurements with the reasons to doubt them. Traffic goes only through namespaces that `lab` made
//! or between agents that agreed to it; settings are changed only by way of `change`.
//!
//! ```text
//!   lab ─▶ load + sample ─▶ bench ─▶ tune ─▶ record
//!   agent ──┘                 search ─┘
//! ```

#[cfg(feature = "measure")]
pub mod agent;
#[cfg(feature = "measure")]
pub mod bench;
#[cfg(feature = "measure")]
pub mod lab;
#[cfg(feature = "measure")]
pub mod load;
pub mod sample;
#[cfg(feature = "measure")]
pub mod search;
#[cfg(feature = "measure")]
pub mod tune;
