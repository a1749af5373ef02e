//! Effects of an experiment's factors: a table and a drawing.

use super::results::strip;
use crate::decide::experiment::{Analysis, BAND, FactorEffect, Leaning, Verdict};
use crate::report::document::{
    Axis, Block, Cell, Chart, Figure, Section, Strip, Strips, Table, Tone,
};
use crate::report::words::{bare, p_value, ratio};

/// The effect of each factor, then of each two together; empty where nothing was varied.
pub(super) fn section(analysis: &Analysis) -> Section {
    if analysis.effects.is_empty() {
        return Section::default();
    }
    let mut table = Table::new(&["effect", "times (95 % CI)", "verdict"]).whole(1);
    for effect in &analysis.effects {
        table.row([
            Cell::from(effect_name(effect)),
            Cell::from(match (&effect.effect, effect.observed) {
                (Some(effect), _) => ratio(effect),
                (None, Some(observed)) => bare(observed),
                (None, None) => "-".to_owned(),
            }),
            Cell::toned(Tone::Mark, effect_verdict(effect)),
        ]);
    }
    let strips = analysis.effects.iter();
    let strips = strips.filter_map(|e| strip(&effect_name(e), e.effect.as_ref(), e.observed));
    let rows: Vec<Strip> = strips.collect();
    let figure = Figure {
        heading: String::new(),
        title: "What each factor does".to_owned(),
        chart: Chart::Strips(Strips {
            axis: Axis::Ratio { band: BAND },
            name: "effect".to_owned(),
            value: "times".to_owned(),
            rows,
        }),
        caption: String::new(),
        in_table: true,
    };
    Section::new("What each factor does").with([
        Block::Figure(figure),
        Block::Table(table),
        Block::note(RULE),
    ])
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

/// Advice on how to read the table of effects.
const RULE: &str = "a factor's effect is averaged over the levels of the others; \
    of two factors: what both do together beyond their two effects (1: each does the same whatever \
    the other is); p by sign-flip over the blocks, Holm over all of these";
