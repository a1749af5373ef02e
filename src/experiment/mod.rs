//! What is run in which order, and what may be said of the outcome.
//!
//! ```text
//!   candidates, directions, seed ─▶ design ─▶ Blocks ─▶ (bench runs them) ─▶ Experiment
//!                                                                                │
//!                                                  report ◀─ Analysis ◀─ analyse ◀┘
//! ```
//!
//! Terms. A *cell* is one candidate measured in one direction in one block. A *block* holds every
//! candidate once in a fresh random order, with the baseline before and after. The *response* is
//! the natural logarithm of the rate, so that a difference is a ratio. A *contrast* is the
//! difference of two candidates' responses within one block: whatever the machine did to all of
//! the block (another job, a warm CPU) cancels out.
//!
//! Pure: same input, same output, no clock, no files.

mod analyse;
mod between;
mod design;
mod effects;
mod goal;
mod levels;
mod line;
pub mod stats;
mod verdict;

pub use analyse::{
    Analysis, CandidateResult, Drift, Effect, Noise, Observed, Rate, RefusalCount, analyse,
    compare, precise_enough,
};
pub use between::{Between, between};
pub use design::{Block, DesignError, Step, design};
pub use effects::{FactorEffect, Step as FactorStep};
pub use goal::{Decision, Kept, decide, kept};
pub use levels::usable_rate;
pub use line::{AtLine, ceiling, payload, refuse_starved};
pub use verdict::{BAND, Best, Leaning, Trailing, Verdict};

/// The fewest blocks from which anything is said: with two, an interval has one degree of freedom
/// and is too wide to mean anything.
pub const MIN_BLOCKS: usize = 3;

/// Confidence of every interval, and one minus the level of every test.
pub const CONFIDENCE: f64 = 0.95;
