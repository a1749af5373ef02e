//! Guards: which candidates keep them, and which candidate may be applied.

use std::collections::BTreeMap;

use serde::Serialize;

use super::BAND;
use super::analyse::{Analysis, compare, second_look};
use super::line::usable_rate;
use super::stats;
use super::verdict::Verdict;
use crate::model::goal::{Guard, Limit, Quantity};
use crate::model::measurement::{Cell, Experiment};
use crate::model::plan::AS_FOUND;

/// How a candidate stands to a guard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kept {
    /// Candidate name.
    pub candidate: String,
    /// Which guard.
    pub guard: Guard,
    /// Measured value: a change as a share, or a figure, as the guard's limit is; `None` where it
    /// was not measured.
    pub found: Option<f64>,
}

impl Kept {
    /// True if the guard is kept. What was not measured is not kept: nobody knows.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.found.is_some_and(|found| self.guard.allows(found))
    }

    /// For a person: `p99 +7.1 % (p99<=+5%)`.
    #[must_use]
    pub fn told(&self) -> String {
        let quantity = self.guard.subject.quantity;
        let found = match (self.found, self.guard.limit) {
            (None, _) => "not measured".to_owned(),
            (Some(share), Limit::Change(_)) => format!("{:+.1} %", share * 100.0),
            (Some(figure), Limit::Figure(_)) => format!("{figure:.2} {}", quantity.unit()),
        };
        format!("{} {found} ({})", self.guard.subject, self.guard)
    }
}

/// Every candidate but the baseline against every guard.
#[must_use]
pub fn kept(experiment: &Experiment) -> Vec<Kept> {
    let others = experiment.candidates.iter().filter(|c| c.name != experiment.baseline);
    let each = |name: &String| {
        experiment
            .goal
            .guards
            .iter()
            .map(|guard| Kept {
                candidate: name.clone(),
                guard: *guard,
                found: found(experiment, name, guard),
            })
            .collect::<Vec<_>>()
    };
    others.flat_map(|c| each(&c.name)).collect()
}

fn found(experiment: &Experiment, name: &str, guard: &Guard) -> Option<f64> {
    let value = |cell: &Cell| {
        usable_rate(cell)?;
        guard.subject.value(&cell.measurement, experiment.class)
    };
    let of = |name: &str| -> Vec<(u32, f64)> {
        let cells = experiment.cells.iter().filter(|c| c.candidate == name);
        cells.filter_map(|c| Some((c.block, value(c)?))).collect()
    };
    match guard.limit {
        // No average makes a router cooler.
        Limit::Figure(_) if guard.subject.quantity == Quantity::Temperature => {
            of(name).into_iter().map(|(_, v)| v).reduce(f64::max)
        }
        Limit::Figure(_) => stats::mean(&of(name).into_iter().map(|(_, v)| v).collect::<Vec<_>>()),
        Limit::Change(_) => {
            let by_block = |name: &str| {
                let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
                for (block, value) in of(name).into_iter().filter(|(_, v)| *v > 0.0) {
                    blocks.entry(block).or_default().push(value.ln());
                }
                blocks
            };
            let base = by_block(&experiment.baseline);
            let contrasts: Vec<f64> = by_block(name)
                .iter()
                .filter_map(|(block, values)| {
                    Some(stats::mean(values)? - stats::mean(base.get(block)?)?)
                })
                .collect();
            stats::mean(&contrasts).map(f64::exp_m1)
        }
    }
}

/// Decision about a router after an experiment on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "decision")]
pub enum Decision {
    /// This candidate is better than the baseline beyond the band, and keeps every guard.
    Apply {
        /// Name.
        candidate: String,
    },
    /// Nothing is: the router stays as it was found.
    Leave {
        /// Why.
        why: String,
    },
}

/// The candidate that its user has today, if it was measured; else the baseline.
#[must_use]
pub fn yardstick(experiment: &Experiment) -> &str {
    let as_found = experiment.candidates.iter().any(|c| c.name == AS_FOUND);
    if as_found { AS_FOUND } else { &experiment.baseline }
}

/// Largest p of a candidate that is advised: where all are equal, one in a hundred experiments would
/// advise something, for half of what chance shows is worse and not better.
pub const ADVISED: f64 = 0.02;

/// The candidate that may be applied and that reports advise: of those that were shown to be better
/// than the baseline, and than what was found, by more than the band, once more by ranks, and that
/// keep every guard, the one with the largest effect.
#[must_use]
pub fn decide(experiment: &Experiment, analysis: &Analysis) -> Decision {
    let leave = |why: String| Decision::Leave { why };
    if let Some(why) = &analysis.refused {
        return leave(why.clone());
    }
    let kept = kept(experiment);
    let broken = |name: &str| kept.iter().find(|k| k.candidate == name && !k.holds());
    let effect = |c: &super::CandidateResult| c.overall.as_ref().map_or(0.0, |e| e.ratio);
    let base = yardstick(experiment);
    let beats_found = |name: &str| {
        base == experiment.baseline || compare(experiment, name, base).is_some_and(|e| e.low > BAND)
    };
    let faster = analysis.candidates.iter().filter(|c| c.verdict == Verdict::Better);
    let (faster, by_chance): (Vec<_>, Vec<_>) = faster
        .filter(|c| beats_found(&c.name))
        .partition(|c| c.overall.as_ref().is_some_and(|e| e.p.is_some_and(|p| p <= ADVISED)));
    let (better, doubtful): (Vec<_>, Vec<_>) = faster.into_iter().partition(|c| {
        second_look(experiment, &c.name, &experiment.baseline).is_some_and(|e| e.low > 1.0)
    });
    let within = better.iter().filter(|c| broken(&c.name).is_none());
    if let Some(best) = within.max_by(|a, b| effect(a).total_cmp(&effect(b))) {
        return Decision::Apply { candidate: best.name.clone() };
    }
    let told: Vec<String> = better
        .iter()
        .filter_map(|c| Some(format!("{}: {}", c.name, broken(&c.name)?.told())))
        .collect();
    if let ([], Some(first)) = (told.as_slice(), doubtful.first()) {
        return leave(format!(
            "{} looks better than {base}, but not by ranks and one cell against one: a few cells, or \
             those that open and close the blocks, make the difference",
            first.name
        ));
    }
    if let ([], Some(first)) = (told.as_slice(), by_chance.first()) {
        return leave(format!(
            "{} looks better than {base}, but chance alone shows as much in more than one of {:.0} \
             experiments; more blocks tell",
            first.name,
            1.0 / ADVISED
        ));
    }
    if told.is_empty() {
        let percent = (BAND - 1.0) * 100.0;
        return leave(format!(
            "nothing was shown to be better than {base} by more than {percent:.0} %"
        ));
    }
    leave(format!("what was better did not keep what had to be kept: {}", told.join("; ")))
}
