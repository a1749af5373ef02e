//! What the factors of an experiment do, in words.

use super::words::{bare, p_value, ratio};
use crate::experiment::{Analysis, FactorEffect, Leaning, Verdict};

/// One line of the table of effects.
pub(super) struct EffectRow {
    /// `flow: off to on`, or `flow on with irq on`.
    pub(super) name: String,
    /// `1.27 (1.20 to 1.34)`.
    pub(super) ratio: String,
    pub(super) verdict: String,
}

/// What each factor does, then what each two do together.
pub(super) fn rows(analysis: &Analysis) -> Vec<EffectRow> {
    let row = |effect: &FactorEffect| EffectRow {
        name: effect_name(effect),
        ratio: match (&effect.effect, effect.observed) {
            (Some(effect), _) => ratio(effect),
            (None, Some(observed)) => bare(observed),
            (None, None) => "-".to_owned(),
        },
        verdict: effect_verdict(effect),
    };
    analysis.effects.iter().map(row).collect()
}

fn effect_name(effect: &FactorEffect) -> String {
    match effect.steps.as_slice() {
        [one] => format!("{}: {} to {}", one.factor, one.from, one.to),
        steps => {
            let parts: Vec<String> =
                steps.iter().map(|s| format!("{} {}", s.factor, s.to)).collect();
            parts.join(" with ")
        }
    }
}

fn effect_verdict(effect: &FactorEffect) -> String {
    let p = effect.effect.as_ref().and_then(|e| e.p).map(|p| format!(", p {}", p_value(p)));
    let p = p.unwrap_or_default();
    let alone = effect.steps.len() < 2;
    let (up, down) = if alone { ("gain", "loss") } else { ("more together", "less together") };
    match effect.verdict {
        Verdict::Better => format!("{up}{p}"),
        Verdict::Worse => format!("{down}{p}"),
        Verdict::NoPracticalDifference if alone => "no practical difference".to_owned(),
        Verdict::NoPracticalDifference => "independent".to_owned(),
        Verdict::Undecided(None) => "none shown".to_owned(),
        Verdict::Undecided(Some(Leaning::Better)) => format!("exploratory: looks like {up}{p}"),
        Verdict::Undecided(Some(Leaning::Worse)) => format!("exploratory: looks like {down}{p}"),
        Verdict::Baseline | Verdict::NotMeasured if effect.observed.is_some() => {
            "no claim".to_owned()
        }
        Verdict::Baseline | Verdict::NotMeasured => "not measured".to_owned(),
    }
}

/// How to read the table of effects.
pub(super) const RULE: &str = "a factor's effect is averaged over the levels of the others; \
    of two factors: what both do together beyond their two effects (1: each does the same whatever \
    the other is); p by sign-flip over the blocks, Holm over all of these";
