//! Effects of the factors of a full factorial, and how far two factors depend on each other.
//!
//! Within a block, a *main effect* is the mean response of all combinations with one level less
//! that with the factor's first level: what the factor does averaged over the others. An
//! *interaction* of two factors is what both levels together do beyond their two effects:
//! (a,b) - (a,first) - (first,b) + (first,first), averaged over the other factors; as a ratio, 1
//! means that each does the same whatever the other is.

use serde::Serialize;

use super::effect::Effect;
use super::levels::Levels;
use super::stats;
use super::verdict::{self, Verdict};
use crate::model::goal::{Design, Varied};
use crate::model::measurement::Experiment;

/// A level of a factor against the factor's first level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FactorStep {
    /// Which factor.
    pub factor: String,
    /// First level.
    pub from: String,
    /// The level that is compared with it.
    pub to: String,
}

/// An effect of one factor, or an interaction of two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FactorEffect {
    /// One step for a main effect, two for an interaction.
    pub steps: Vec<FactorStep>,
    /// Geometric mean of the blocks' ratios, however few they are; `None` without a whole block.
    pub observed: Option<f64>,
    /// With its interval, and p by sign-flip, Holm over all effects; `None` for too few blocks.
    pub effect: Option<Effect>,
    /// The claim that the figures allow.
    pub verdict: Verdict,
}

/// A combination's name, and the index of its level of each factor.
type Combination<'a> = (&'a str, Vec<usize>);

/// A factor's index, and the index of one of its levels.
type At = (usize, usize);

/// The effects of a full factorial; empty for anything else.
pub(super) fn effects(experiment: &Experiment, levels: &Levels<'_>) -> Vec<FactorEffect> {
    let Design::Factorial(varied) = &experiment.design else { return Vec::new() };
    let Some(combinations) = whole(varied) else { return Vec::new() };
    let mut found: Vec<(Vec<At>, Vec<Option<f64>>)> = Vec::new();
    let mut add = |at: Vec<At>| {
        let contrast = levels.blocks.iter().map(|b| contrast(levels, *b, &combinations, &at));
        let contrast = contrast.collect();
        found.push((at, contrast));
    };
    let steps: Vec<At> = varied
        .factors
        .iter()
        .enumerate()
        .flat_map(|(factor, it)| (1..it.levels.len()).map(move |level| (factor, level)))
        .collect();
    for step in &steps {
        add(vec![*step]);
    }
    for (index, first) in steps.iter().enumerate() {
        for second in steps.iter().skip(index + 1).filter(|s| s.0 != first.0) {
            add(vec![*first, *second]);
        }
    }

    let mut effects: Vec<FactorEffect> = found
        .iter()
        .map(|(at, contrast)| {
            let values: Vec<f64> = contrast.iter().copied().flatten().collect();
            FactorEffect {
                steps: at.iter().filter_map(|(f, level)| step(varied, *f, *level)).collect(),
                observed: stats::mean(&values).map(f64::exp),
                effect: levels.effect(contrast),
                verdict: Verdict::NotMeasured,
            }
        })
        .collect();
    let mut tested: Vec<(&mut Effect, f64)> = Vec::new();
    for (effect, (_, contrast)) in effects.iter_mut().zip(&found) {
        let Some(effect) = &mut effect.effect else { continue };
        let p = stats::sign_flip_max_t(std::slice::from_ref(contrast), experiment.seed);
        if let Some(Some(p)) = p.first() {
            tested.push((effect, *p));
        }
    }
    let adjusted = stats::holm(&tested.iter().map(|(_, p)| *p).collect::<Vec<_>>());
    for ((effect, _), p) in tested.into_iter().zip(adjusted) {
        effect.p = Some(p);
    }
    for effect in &mut effects {
        effect.verdict = verdict::judge(effect.effect.as_ref());
    }
    effects
}

fn step(varied: &Varied, factor: usize, level: usize) -> Option<FactorStep> {
    let factor = varied.factors.get(factor)?;
    let (from, to) = (factor.levels.first()?, factor.levels.get(level)?);
    Some(FactorStep { factor: factor.name.clone(), from: from.clone(), to: to.clone() })
}

/// The combinations with indices for levels; `None` unless every one is there exactly once, for
/// only then do means over them compare like with like.
fn whole(varied: &Varied) -> Option<Vec<Combination<'_>>> {
    let mut all: Vec<Combination<'_>> = Vec::new();
    for combination in &varied.combinations {
        if combination.levels.len() != varied.factors.len() {
            // The baseline, where it is no combination.
            continue;
        }
        let indices: Option<Vec<usize>> = varied
            .factors
            .iter()
            .zip(&combination.levels)
            .map(|(factor, level)| factor.levels.iter().position(|l| l == level))
            .collect();
        let indices = indices?;
        if all.iter().any(|(_, known)| *known == indices) {
            return None;
        }
        all.push((combination.candidate.as_str(), indices));
    }
    let cells = varied.factors.iter().try_fold(1_usize, |n, f| n.checked_mul(f.levels.len()))?;
    (cells > 1 && all.len() == cells).then_some(all)
}

/// The contrast in a block; `None` if a combination is missing there.
fn contrast(
    levels: &Levels<'_>,
    block: u32,
    combinations: &[Combination<'_>],
    at: &[At],
) -> Option<f64> {
    // For each factor of the contrast, whether a combination is at its level (+) or at the first
    // (-); the others take no part.
    let mut sums = vec![(0.0, 0.0); 1 << at.len()];
    for (name, indices) in combinations {
        let response = levels.overall(block, name)?;
        let mut which = Some(0_usize);
        for (place, (factor, level)) in at.iter().enumerate() {
            which = match indices.get(*factor) {
                Some(own) if own == level => which.map(|w| w | 1 << place),
                Some(0) => which,
                _ => None,
            };
        }
        if let Some((sum, count)) = which.and_then(|w| sums.get_mut(w)) {
            *sum += response;
            *count += 1.0;
        }
    }
    sums.iter().enumerate().try_fold(0.0, |total, (which, (sum, count))| {
        let minus = (at.len() as u32).abs_diff(which.count_ones()) % 2 == 1;
        let mean = (*count > 0.0).then_some(sum / count)?;
        Some(if minus { total - mean } else { total + mean })
    })
}
