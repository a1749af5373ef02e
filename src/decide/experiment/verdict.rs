//! Verdicts: the claims that the figures allow, and those that they do not.

use serde::Serialize;

use super::effect::{Effect, Leaning};
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
        None if effect.is_within_band() => Verdict::NoPracticalDifference,
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

/// The fastest candidate, and how the others stand to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// Highest mean. It is *the* best only if all others are behind.
    pub leader: String,
    /// Shown to be as fast as the leader: the whole interval of their ratio lies within the band.
    pub tied: Vec<String>,
    /// Not shown to be slower than the leader, nor shown to be as fast.
    pub undecided: Vec<String>,
    /// Shown to be slower than the leader.
    pub behind: Vec<Trailing>,
    /// Not comparable with the leader for want of blocks.
    pub unknown: Vec<String>,
}

impl Best {
    /// True if a candidate may be the best one.
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        let among = |names: &[String]| names.iter().any(|other| other == name);
        self.leader == name || among(&self.tied) || among(&self.undecided)
    }
}

/// How far the means of equal candidates may lie apart.
struct Range {
    /// Studentised range times the standard deviation of one candidate's response in one block.
    width: f64,
}

impl Range {
    fn of(levels: &Levels<'_>, names: &[&str]) -> Self {
        let (mut variances, mut blocks) = (Vec::new(), usize::MAX);
        for (at, one) in names.iter().enumerate() {
            for other in names.iter().skip(at + 1) {
                let values: Vec<f64> =
                    levels.contrasts(one, other, None).into_iter().flatten().collect();
                let Some(mean) = stats::mean(&values).filter(|_| values.len() >= MIN_BLOCKS) else {
                    continue;
                };
                let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
                // A contrast has the variance of two responses.
                variances.push(squares / (values.len() as f64 - 1.0) / 2.0);
                blocks = blocks.min(values.len());
            }
        }
        let freedom = (names.len().saturating_sub(1) * blocks.saturating_sub(1)) as f64;
        let range = stats::studentised_range(CONFIDENCE, names.len(), freedom);
        let sd = stats::mean(&variances).map_or(f64::INFINITY, f64::sqrt);
        Self { width: range.unwrap_or(f64::INFINITY) * sd }
    }

    /// Half of the interval of a difference over so many blocks.
    fn half(&self, blocks: usize) -> f64 {
        self.width / (blocks as f64).sqrt()
    }
}

/// Finds the leader and what is tied with it.
///
/// Means are compared as contrasts with the baseline, so that a candidate that missed a slow
/// block gains nothing. The leader was chosen by its result among all, which would make plain
/// intervals too optimistic: a difference must exceed what the range of as many equal candidates
/// does (Tukey's studentised range, the spread being that of all pairs), and its own interval, for
/// candidates may differ in how much they vary.
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
    let names = standing.iter().filter(|(_, mean)| mean.is_some()).map(|(name, _)| *name);
    let range = Range::of(levels, &names.collect::<Vec<_>>());

    let mut best = Best {
        leader: leader.to_owned(),
        tied: Vec::new(),
        undecided: Vec::new(),
        behind: Vec::new(),
        unknown: Vec::new(),
    };
    for (name, mean) in standing {
        if name == leader {
            continue;
        }
        let effect = mean.and_then(|_| levels.effect(&levels.contrasts(leader, name, None)));
        let Some(effect) = effect else {
            best.unknown.push(name.to_owned());
            continue;
        };
        let behind_by = effect.widened(range.half(effect.blocks));
        if behind_by.side() == Some(Leaning::Better) {
            best.behind.push(Trailing { name: name.to_owned(), behind_by });
        } else if effect.is_within_band() {
            best.tied.push(name.to_owned());
        } else {
            best.undecided.push(name.to_owned());
        }
    }
    Some(best)
}
