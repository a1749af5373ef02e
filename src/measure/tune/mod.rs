//! Runs an experiment: sets each candidate in its random turn, measures it, and keeps the record.
//! In come candidates, a router with the right to change it and a load; out comes an experiment
//! whose cells are on the disk as soon as they are measured. It changes the router's settings
//! through `change::apply` alone, and leaves all of them as found.
//!
//! ```text
//!   design ─▶ block ─▶ step: rig.set(candidate) ─▶ rig.measure(direction) ─▶ Cell ─▶ Record, Experiment
//!                └─ end? budget used up, intervals narrow enough, user, agent lost, failure
//! ```
//!
//! The router and the load stand behind [`Rig`], so that the same loop runs a lab, a real router
//! and a simulation in a test.

mod hunt;
mod menu;
mod resume;
mod router;
mod source;
#[cfg(test)]
mod tests;
mod workbench;

pub use hunt::{Found, Hunt, WORTH, hunt};
pub use menu::{Asked, Chosen, Menu, Remark, Space};
pub use resume::{Differs, go_on};
pub use router::Router;
pub use source::{BedLoad, ServerLoad, Source};
pub use workbench::Workbench;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::decide::experiment::{self, Block};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::store::unfinished::Record;
use crate::model::measurement::{Cell, Direction, Ended, Experiment, Measurement};
use crate::model::plan::Candidate;
use crate::model::units::BitRate;

/// Router and load on which an experiment is run.
pub trait Rig {
    /// Sets the router up as the candidate says, and reads it back.
    ///
    /// # Errors
    /// Fails if the candidate can't be set; the router is then as it was before the call.
    fn set(&mut self, candidate: &Candidate) -> Result<()>;

    /// Measures one direction, and reads the settings back once more.
    ///
    /// # Errors
    /// Fails if nothing could be measured at all; a doubtful figure is a refusal in the
    /// measurement.
    fn measure(&mut self, candidate: &Candidate, direction: Direction) -> Result<Measurement>;

    /// Error after which nothing more can be measured: an agent is gone. `None` as long as all are
    /// there.
    fn lost(&self) -> Option<Error> {
        None
    }
}

/// Limits at which an experiment stops before all blocks have run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// No block is begun that would, by the mean of those before, end after this time.
    pub budget: Option<Duration>,
    /// Stop when every interval is narrow enough.
    pub stop_when_precise: bool,
}

/// Events of an experiment, for the person who waits.
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

/// Runs the cells that `experiment` does not have yet, in the order of its seed, keeps each in
/// `record` as it is measured, and says in the experiment how it ended. Returns the failure that
/// ended it, if one did: what was measured before is kept all the same.
///
/// # Errors
/// A usage error if the design makes no sense, or if the experiment's own cells are not those that
/// the design begins with.
pub fn run(
    experiment: &mut Experiment,
    rig: &mut dyn Rig,
    limits: Limits,
    stop: &AtomicBool,
    record: &mut Record,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Option<Error>> {
    let blocks = resume::rest(experiment)?;
    let start = clock::monotonic();
    let mut state = Progress {
        block: 0,
        blocks: experiment.blocks,
        done: 0,
        cells: blocks.iter().map(cells_of).sum(),
        now: None,
        last: None,
        elapsed: Duration::ZERO,
        left: None,
    };
    let before = experiment.cells.len();
    experiment.ended = Ended::Complete;
    for (block, behind) in blocks.iter().zip(0..) {
        if let Some(budget) = limits.budget
            && behind > 0
        {
            let spent = clock::monotonic().saturating_sub(start);
            if spent + spent / behind > budget {
                experiment.ended = Ended::Budget;
                break;
            }
        }
        state.block = block.number + 1;
        let ran = run_block(experiment, rig, block, stop, record, &mut |experiment, now| {
            state.done = experiment.cells.len() - before;
            state.elapsed = clock::monotonic().saturating_sub(start);
            state.left = left(&state, limits.budget);
            state.last =
                experiment.cells.last().map(|c| (c.measurement.rate(), c.measurement.is_valid()));
            state.now = now;
            progress(&state);
        });
        if let Err(Cut { ended, failure }) = ran {
            experiment.ended = ended;
            experiment.notes.extend(failure.as_ref().map(|e| format!("it ended early: {e}")));
            return Ok(failure);
        }
        if limits.stop_when_precise && experiment::precise_enough(experiment) {
            experiment.ended = Ended::Precise;
            break;
        }
    }
    Ok(None)
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

/// Hears of every cell that begins, and with `None` of the block's end.
type Report<'a> = dyn FnMut(&Experiment, Option<(String, Direction)>) + 'a;

/// Cause that ended an experiment in the middle of a block; a stop by the user is no failure.
struct Cut {
    ended: Ended,
    failure: Option<Error>,
}

impl Cut {
    const STOPPED: Self = Self { ended: Ended::Interrupted, failure: None };

    fn by(ended: Ended) -> impl Fn(Error) -> Self {
        move |error| match error.code() {
            // Stopped before its traffic began: nothing of this cell, all of those before.
            ExitCode::Interrupted => Self::STOPPED,
            _ => Self { ended, failure: Some(error) },
        }
    }
}

fn run_block(
    experiment: &mut Experiment,
    rig: &mut dyn Rig,
    block: &Block,
    stop: &AtomicBool,
    record: &mut Record,
    report: &mut Report<'_>,
) -> std::result::Result<(), Cut> {
    let stopped = || if stop.load(Ordering::Relaxed) { Err(Cut::STOPPED) } else { Ok(()) };
    for step in &block.steps {
        let found = experiment.candidates.iter().find(|c| c.name == step.candidate);
        let candidate = found.cloned().ok_or_else(|| {
            Cut::by(Ended::FailedSet)(Error::usage(
                "run the experiment",
                format!("its design names {}, which is no candidate", step.candidate),
            ))
        })?;
        rig.set(&candidate).map_err(Cut::by(Ended::FailedSet))?;
        for &direction in &step.directions {
            stopped()?;
            report(experiment, Some((candidate.name.clone(), direction)));
            let measurement = rig.measure(&candidate, direction).map_err(|error| {
                let lost = rig.lost().is_some();
                Cut::by(if lost { Ended::LostAgent } else { Ended::FailedMeasurement })(error)
            })?;
            let refused = !measurement.is_valid();
            let cell = Cell {
                block: block.number,
                position: step.position,
                role: step.role,
                candidate: candidate.name.clone(),
                measurement,
            };
            let kept = record.cell(&cell);
            experiment.cells.push(cell);
            kept.map_err(Cut::by(Ended::RecordNotWritten))?;
            stopped()?;
            if refused && let Some(error) = rig.lost() {
                return Err(Cut::by(Ended::LostAgent)(error));
            }
        }
    }
    report(experiment, None);
    Ok(())
}
