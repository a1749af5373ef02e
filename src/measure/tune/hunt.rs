//! A search on a rig: sets and measures what [`Climb`] asks for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Progress, Rig};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::measure::search::{Climb, Combination};
use crate::model::goal::Objective;
use crate::model::measurement::{Direction, EvidenceClass, Measurement};
use crate::model::plan::Candidate;

/// Search for the best combination of a menu's factors, and its limits.
pub struct Hunt<'a> {
    /// The search.
    pub climb: Climb<'a>,
    /// The candidate of a combination.
    pub make: &'a dyn Fn(&[usize]) -> Result<Candidate>,
    /// Quantity that is to be as good as possible.
    pub objective: &'a Objective,
    /// Directions to measure in each trial.
    pub directions: &'a [Direction],
    /// Kind of evidence.
    pub class: EvidenceClass,
    /// Moment at which the search and `proof` further measurements must be over: no batch is begun
    /// that would, by the mean of those before, leave too little time for these.
    pub until: Option<Duration>,
    /// Measurements of the experiment in which what was found is proven.
    pub proof: usize,
    /// Trials at most.
    pub trials: usize,
}

/// Result of a search.
pub struct Found {
    /// Combinations worth an experiment, best first.
    pub best: Vec<Combination>,
    /// Trials it took.
    pub trials: usize,
}

/// Number of combinations worth an experiment.
pub const WORTH: usize = 3;

/// Time kept for the proof, as a multiple of what its measurements took in the search.
const RESERVE: f64 = 1.2;

/// Searches until the trials or the time are used up, or the user stops it.
///
/// # Errors
/// Interrupted by the user; also fails if setting or measuring fails.
pub fn hunt(
    what: &mut Hunt<'_>,
    rig: &mut dyn Rig,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Found> {
    let start = clock::monotonic();
    let mut state = Progress {
        block: 0,
        blocks: 0,
        done: 0,
        cells: what.trials * what.directions.len(),
        now: None,
        last: None,
        elapsed: Duration::ZERO,
        left: None,
    };
    loop {
        let batch = what.climb.next_batch();
        if batch.is_empty() {
            break;
        }
        if let Some(until) = what.until
            && state.done > 0
        {
            let now = clock::monotonic();
            let each = now.saturating_sub(start).as_secs_f64() / state.done as f64;
            let to_come =
                (batch.len() * what.directions.len()) as f64 + RESERVE * what.proof as f64;
            if each * to_come > until.saturating_sub(now).as_secs_f64() {
                break;
            }
        }
        let mut responses = Vec::with_capacity(batch.len());
        for point in &batch {
            let candidate = (what.make)(point)?;
            rig.set(&candidate)?;
            let mut seen: Vec<Measurement> = Vec::new();
            for &direction in what.directions {
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::interrupted("search"));
                }
                state.now = Some((candidate.name.clone(), direction));
                state.elapsed = clock::monotonic().saturating_sub(start);
                progress(&state);
                let measured = match rig.measure(&candidate, direction) {
                    Err(e) if e.code() == ExitCode::Interrupted => {
                        return Err(Error::interrupted("search"));
                    }
                    measured => measured?,
                };
                state.done += 1;
                state.last = Some((measured.rate(), measured.is_valid()));
                seen.push(measured);
            }
            responses.push(what.objective.response(&seen, what.class));
        }
        what.climb.take(&responses);
    }
    Ok(Found { best: what.climb.best(WORTH), trials: state.done / what.directions.len().max(1) })
}
