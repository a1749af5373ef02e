//! `linerate`: get a Linux router to forward at line rate, safely, and prove it.
//!
//! Data goes through the modules in this order:
//!
//! ```text
//!   host ─▶ parse ─▶ discover ─▶ Snapshot ─▶ plan ─▶ Candidates ─▶ apply ─▶ verify
//!     └─▶ capture ─▶ one file ─▶ host (elsewhere)         │            │
//!                    lab ─▶ load + sample ─▶ bench ─▶ experiment ◀────┘
//!                                                        │
//!                                        store ◀─────────┴─────────▶ report
//! ```
//!
//! Effects outside, knowledge inside: `model` imports nothing; `parse`, `plan` and `experiment`
//! import `model` only and are pure; only `apply` and `lab` write; `cli` and `report` sit on top.
//! `tests/architecture.rs` holds this.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests set their own scene"))]

pub mod error;
pub mod exit_code;

pub mod model;

pub mod parse;

pub mod sys;

pub mod host;

pub mod discover;

pub mod capture;

pub mod kernel;

pub mod profile;

pub mod plan;

pub mod diagnose;

pub mod store;

pub mod apply;

pub mod verify;

pub mod persist;

pub mod lab;

pub mod load;

pub mod sample;

pub mod agent;

pub mod bench;

pub mod tune;

pub mod search;

pub mod experiment;

pub mod rank;

pub mod report;

pub mod cli;

#[cfg(test)]
pub(crate) mod testing;
