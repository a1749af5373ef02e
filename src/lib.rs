//! `linerate`: get a Linux router to forward at line rate, safely, and prove it.
//!
//! Data goes through the folders in this order; each one's `mod.rs` says what comes in, what goes
//! out and what it may touch.
//!
//! ```text
//!   the kernel ─▶ machine ─▶ Snapshot ─▶ decide ─▶ Candidates ─▶ change ─▶ the kernel
//!                                          ▲                       │
//!                                       Analysis                set, verified
//!                                          │                       ▼
//!                  record ◀────────────────┴──────────────────── measure
//!                     └─▶ report ─▶ cli ─▶ people and scripts
//! ```
//!
//! Effects are outside and knowledge is inside: `model` uses nothing of ours, `decide` is pure,
//! only `change` and `measure` write to the system, and `report` and `cli` sit on top.
//! `tests/pure/architecture.rs` holds this.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests set their own scene"))]

pub mod error;

pub mod model;

pub mod machine;

pub mod decide;

pub mod change;

pub mod measure;

pub mod report;

pub mod cli;
