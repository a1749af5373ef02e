//! Experiments: the order of the runs, and the claims that their outcome allows.
//!
//! In come candidates, directions and a seed, or a finished experiment; out go the blocks to run, or
//! an analysis with its verdicts. Nothing is touched: the same input gives the same output.
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

mod analyse;
mod between;
pub mod compared;
mod design;
mod effect;
mod effects;
mod goal;
mod levels;
mod line;
mod shift;
pub mod stats;
#[cfg(test)]
mod tests;
mod verdict;

pub use analyse::{
    Analysis, CandidateResult, Drift, Noise, Observed, Rate, RefusalCount, Settle, analyse,
    blocks_to_show, compare, precise_enough, second_look,
};
pub use between::{Between, between};
pub use design::{Block, DesignError, Turn, design};
pub use effect::{BAND, Effect, Leaning};
pub use effects::{FactorEffect, FactorStep};
pub use goal::{ADVISED, Decision, Kept, decide, kept, yardstick};
pub use line::{AtLine, ceiling, payload, refuse_starved, usable_rate};
pub use shift::{LevelShift, level_shift};
pub use verdict::{Best, Trailing, Verdict};

/// The fewest blocks from which anything is said: with two, an interval has one degree of freedom
/// and is too wide to mean anything.
pub const MIN_BLOCKS: usize = 3;

/// Confidence of every interval, and one minus the level of every test.
pub const CONFIDENCE: f64 = 0.95;
