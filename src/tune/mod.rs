//! Runs an experiment: sets each candidate in its random turn, measures it, and keeps the record.
//!
//! ```text
//!   design ─▶ block ─▶ step: rig.set(candidate) ─▶ rig.measure(direction) ─▶ Cell ─▶ Experiment
//!                └─ stop? budget used up, intervals narrow enough, user
//! ```
//!
//! What is set and measured stands behind [`Rig`], so that the same loop runs a lab, a simulation
//! in a test, and one day a real router.

mod hunt;
mod router;
mod source;
#[cfg(test)]
mod tests;
mod workbench;

pub use hunt::{Found, Hunt, hunt};
pub use router::Router;
pub use source::{BedLoad, ServerLoad, Source};
pub use workbench::Workbench;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::experiment::{self, Block};
use crate::host::clock;
use crate::model::measurement::{Cell, Direction, Ended, Experiment, Measurement};
use crate::model::plan::Candidate;
use crate::model::units::BitRate;

/// What an experiment is made on.
pub trait Rig {
    /// Sets the router up as the candidate says, and reads it back.
    ///
    /// # Errors
    /// When it can't be set; the router is then as it was before the call.
    fn set(&mut self, candidate: &Candidate) -> Result<()>;

    /// Measures one direction, and reads the settings back once more.
    ///
    /// # Errors
    /// When nothing could be measured at all; a doubtful figure is a refusal in the measurement.
    fn measure(&mut self, candidate: &Candidate, direction: Direction) -> Result<Measurement>;
}

/// When to stop before all blocks have run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// No block is begun that would, by the mean of those before, end after this time.
    pub budget: Option<Duration>,
    /// Stop when every interval is narrow enough.
    pub stop_when_precise: bool,
}

/// What is going on, for the person who waits.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Block from 1.
    pub block: u32,
    /// Blocks in all.
    pub blocks: u32,
    /// Cells done in all blocks.
    pub done: usize,
    /// Cells in all.
    pub cells: usize,
    /// The cell that runs now; `None` when a block has just ended.
    pub now: Option<(String, Direction)>,
    /// The figure of the cell that ended last, and whether it stands.
    pub last: Option<(BitRate, bool)>,
    /// Since the start.
    pub elapsed: Duration,
    /// About how long it will still take.
    pub left: Option<Duration>,
}

/// Runs all blocks of `experiment` (whose `cells` are empty) and fills in its cells and how it
/// ended. A stop by the user keeps what was measured.
///
/// # Errors
/// When the design makes no sense, or when setting or measuring fails.
pub fn run(
    experiment: &mut Experiment,
    rig: &mut dyn Rig,
    limits: Limits,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<()> {
    let names: Vec<String> = experiment.candidates.iter().map(|c| c.name.clone()).collect();
    let blocks = experiment::design(
        &names,
        &experiment.baseline,
        &experiment.directions,
        experiment.blocks,
        experiment.seed,
    )
    .map_err(|e| Error::usage("design the experiment", e))?;
    let start = clock::monotonic();
    let total = blocks.iter().map(cells_of).sum();
    let mut state = Progress {
        block: 0,
        blocks: experiment.blocks,
        done: 0,
        cells: total,
        now: None,
        last: None,
        elapsed: Duration::ZERO,
        left: None,
    };
    experiment.ended = Ended::Complete;
    for block in &blocks {
        if let Some(budget) = limits.budget
            && block.number > 0
        {
            let spent = clock::monotonic().saturating_sub(start);
            if spent + spent / block.number > budget {
                experiment.ended = Ended::Budget;
                break;
            }
        }
        state.block = block.number + 1;
        run_block(experiment, rig, block, stop, &mut |experiment, now| {
            state.done = experiment.cells.len();
            state.elapsed = clock::monotonic().saturating_sub(start);
            state.left = left(&state, limits.budget);
            state.last =
                experiment.cells.last().map(|c| (c.measurement.rate(), c.measurement.is_valid()));
            state.now = now;
            progress(&state);
        })?;
        if stop.load(Ordering::Relaxed) {
            experiment.ended = Ended::Interrupted;
            break;
        }
        if limits.stop_when_precise && experiment::precise_enough(experiment) {
            experiment.ended = Ended::Precise;
            break;
        }
    }
    Ok(())
}

fn cells_of(block: &Block) -> usize {
    block.steps.iter().map(|s| s.directions.len()).sum()
}

fn left(state: &Progress, budget: Option<Duration>) -> Option<Duration> {
    let done = u32::try_from(state.done).ok().filter(|&n| n > 0)?;
    let rest = u32::try_from(state.cells.saturating_sub(state.done)).ok()?;
    let by_cells = state.elapsed / done * rest;
    Some(budget.map_or(by_cells, |b| by_cells.min(b.saturating_sub(state.elapsed))))
}

/// Told of every cell that begins, and with `None` of the block's end.
type Report<'a> = dyn FnMut(&Experiment, Option<(String, Direction)>) + 'a;

fn run_block(
    experiment: &mut Experiment,
    rig: &mut dyn Rig,
    block: &Block,
    stop: &AtomicBool,
    report: &mut Report<'_>,
) -> Result<()> {
    for step in &block.steps {
        let candidate = experiment
            .candidates
            .iter()
            .find(|c| c.name == step.candidate)
            .cloned()
            .ok_or_else(|| {
                Error::new(ExitCode::Usage, "run the experiment", "the design names no candidate")
            })?;
        rig.set(&candidate)?;
        for &direction in &step.directions {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            report(experiment, Some((candidate.name.clone(), direction)));
            let measurement = match rig.measure(&candidate, direction) {
                // Stopped before its traffic began: nothing of this cell, all of those before.
                Err(e) if e.code() == ExitCode::Interrupted => return Ok(()),
                measured => measured?,
            };
            experiment.cells.push(Cell {
                block: block.number,
                position: step.position,
                role: step.role,
                candidate: candidate.name.clone(),
                measurement,
            });
        }
    }
    report(experiment, None);
    Ok(())
}
