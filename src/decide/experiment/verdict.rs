//! Verdicts: the claims that the figures allow, and those that they do not.

use serde::Serialize;

use super::effect::{BAND, Effect, Leaning};
use super::levels::Levels;
use super::{CONFIDENCE, MIN_BLOCKS, stats};
use crate::model::measurement::Experiment;

/// A candidate against the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "leaning")]
pub enum Verdict {
    /// It is the baseline.
    Baseline,
    /// Faster: the interval lies above the band and p is at most 0.05.
    Better,
    /// Slower, likewise.
    Worse,
    /// The whole interval lies within the band.
    NoPracticalDifference,
    /// Neither shown to differ nor shown to be the same; may lean one way.
    Undecided(Option<Leaning>),
    /// Too few usable blocks to say anything.
    NotMeasured,
}

/// The verdict that an overall effect with its p (of the max-T test) supports.
pub(super) fn judge(effect: Option<&Effect>) -> Verdict {
    let Some(effect) = effect else { return Verdict::NotMeasured };
    let shown = effect.p.is_some_and(|p| p <= 1.0 - CONFIDENCE + 1e-12);
    match effect.side() {
        Some(Leaning::Better) if shown => Verdict::Better,
        Some(Leaning::Worse) if shown => Verdict::Worse,
        Some(leaning) => Verdict::Undecided(Some(leaning)),
        None if effect.low >= 1.0 / BAND && effect.high <= BAND => Verdict::NoPracticalDifference,
        None => Verdict::Undecided(None),
    }
}

/// A candidate that was shown to be slower than the leader.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trailing {
    /// Candidate name.
    pub name: String,
    /// Leader against it, with an interval wide enough to hold for all comparisons at once.
    pub behind_by: Effect,
}

/// The candidates among which no difference was shown, and those that fell behind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// Highest mean. It is *the* best only if nothing is tied with it.
    pub leader: String,
    /// Not shown to be slower than the leader.
    pub tied: Vec<String>,
    /// Shown to be slower than the leader.
    pub behind: Vec<Trailing>,
    /// Not comparable with the leader for want of blocks.
    pub unknown: Vec<String>,
}

impl Best {
    /// True if a candidate may be the best one.
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        self.leader == name || self.tied.iter().any(|t| t == name)
    }
}

/// Finds the leader and what is tied with it.
///
/// Means are compared as contrasts with the baseline, so that a candidate that missed a slow
/// block gains nothing. The leader was chosen by its result, which would make plain intervals too
/// optimistic: Bonferroni over the k-1 comparisons makes up for it.
pub(super) fn best(experiment: &Experiment, levels: &Levels<'_>) -> Option<Best> {
    let standing: Vec<(&str, Option<f64>)> = experiment
        .candidates
        .iter()
        .map(|c| {
            let values: Vec<f64> = levels
                .contrasts(&c.name, &experiment.baseline, None)
                .into_iter()
                .flatten()
                .collect();
            (c.name.as_str(), stats::mean(&values).filter(|_| values.len() >= MIN_BLOCKS))
        })
        .collect();
    let measured = standing.iter().filter(|(_, mean)| mean.is_some()).count();
    if measured < 2 {
        return None;
    }
    let (leader, _) = standing
        .iter()
        .filter_map(|(n, m)| Some((*n, (*m)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let confidence = 1.0 - (1.0 - CONFIDENCE) / (measured - 1) as f64;

    let mut best = Best {
        leader: leader.to_owned(),
        tied: Vec::new(),
        behind: Vec::new(),
        unknown: Vec::new(),
    };
    for (name, mean) in standing {
        if name == leader {
            continue;
        }
        let effect =
            mean.and_then(|_| Effect::of(&levels.contrasts(leader, name, None), confidence));
        match effect {
            None => best.unknown.push(name.to_owned()),
            Some(effect) if effect.side() == Some(Leaning::Better) => {
                best.behind.push(Trailing { name: name.to_owned(), behind_by: effect });
            }
            Some(_) => best.tied.push(name.to_owned()),
        }
    }
    Some(best)
}
