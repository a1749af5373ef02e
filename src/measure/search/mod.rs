//! Searches over the offered rate, for the rate that a router forwards.
//!
//! (`climb` and `belief` are another search: for the best of many combinations of settings.)
//!
//! In come goals and the outcomes of trials, or points of offered and achieved rate; out go the
//! next trial, bounds for each goal, or a knee. Nothing is touched: there is no clock, no traffic
//! and no file here, and the caller measures.
//!
//! ```text
//!            ┌───────── Trial { rate, seconds } ────────▶┐
//!   goals ─▶ Search                     a simulation, the lab or a wire
//!     │      └◀──── Outcome { sent, lost, seconds } ────┘
//!     ▼
//!   lower bound, upper bound, conditional throughput       (one each per goal)
//!
//!   (offered, achieved) with repeats ─▶ knee
//! ```
//!
//! Terms, of draft-ietf-bmwg-mlrsearch. A *trial* is traffic at one rate for some seconds. A *goal*
//! says how much may be lost, and how long one must have looked. A *load* is a rate with all its
//! trials; for each goal it is a *lower bound* (met), an *upper bound* (not met) or undecided. The
//! *relevant* bounds are the lowest upper bound and the highest lower bound below it: where a
//! higher rate loses less than a lower one, the lower one counts. *NDR* and *PDR* are the non-drop
//! and the partial drop rate: the results for a goal that allows no loss, and for one that allows a
//! little.

mod belief;
mod climb;
mod goal;
mod knee;
mod load;
mod mlr;

pub use climb::{Climb, Point as Combination, Prior};
pub use goal::{BadGoal, Preset, check};
pub use knee::{Point, TOLERANCE, knee};
pub use load::{Judgement, Load, Outcome, OutcomeError, Target};
pub use mlr::{Proposal, Search, Trial};
