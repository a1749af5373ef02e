//! The table of results, and the ratios as a drawing.

use super::rates;
use super::verdict::{marked, rule};
use crate::decide::experiment::{Analysis, BAND, CandidateResult, Effect, Leaning, Rate, Verdict};
use crate::model::measurement::Experiment;
use crate::report::document::{
    Axis, Block, Cell, Chart, Figure, Mark, MarkKind, Section, Strip, Strips, Table, Tone,
};
use crate::report::words::{bare, mbps, p_value, ratio};

/// Candidates with their rates, ratios and verdicts.
pub(super) fn section(experiment: &Experiment, analysis: &Analysis) -> Section {
    let directions = &experiment.directions;
    let mut headings = vec!["candidate".to_owned()];
    headings.extend(directions.iter().map(|d| format!("{d} Mbit/s")));
    headings.push(format!("times {} (95 % CI)", experiment.baseline));
    headings.push("verdict".to_owned());
    let mut table = Table::new(&headings).figures(1..=directions.len()).whole(directions.len() + 1);
    let marked = marked(experiment, analysis);
    for result in &analysis.candidates {
        let mut cells = vec![Cell::from(result.name.as_str())];
        cells.extend(result.rates.iter().map(|r| Cell::from(rate(r))));
        cells.extend([
            Cell::from(match (&result.overall, result.observed.overall) {
                (Some(effect), _) => ratio(effect),
                (None, _) if result.name == experiment.baseline => "1".to_owned(),
                (None, Some(observed)) => bare(observed),
                (None, None) => "-".to_owned(),
            }),
            verdict(result),
        ]);
        table.mark(marked.contains(&result.name), cells);
    }
    table.drop_empty();
    let bars = rates::bars(experiment, analysis, &marked).map(Block::Figure);
    let mut section = Section::new("Results").with(bars).with([Block::Table(table)]);
    let rule = rule(experiment, analysis);
    section.blocks.extend(rule.map(|rule| Block::note(format!("marked: {rule}"))));
    section.with([Block::List(by_direction(analysis))])
}

/// The mean over the blocks, or why there is none.
fn rate(rate: &Rate) -> String {
    match rate.mean {
        Some(mean) => mbps(mean),
        None if rate.refused > 0 => "refused".to_owned(),
        None => "-".to_owned(),
    }
}

fn verdict(result: &CandidateResult) -> Cell {
    let p = result.overall.as_ref().and_then(|e| e.p).map(|p| format!(", p {}", p_value(p)));
    let p = p.unwrap_or_default();
    let words = match result.verdict {
        Verdict::Baseline => "baseline".to_owned(),
        Verdict::Better => format!("better{p}"),
        Verdict::Worse => format!("worse{p}"),
        Verdict::NoPracticalDifference => "no practical difference".to_owned(),
        Verdict::Undecided(None) => "not shown to differ".to_owned(),
        Verdict::Undecided(Some(Leaning::Better)) => format!("exploratory: looks better{p}"),
        Verdict::Undecided(Some(Leaning::Worse)) => format!("exploratory: looks worse{p}"),
        Verdict::NotMeasured if result.observed.overall.is_some() => "no claim".to_owned(),
        Verdict::NotMeasured => "not measured".to_owned(),
    };
    let tone = match result.verdict {
        Verdict::Better => Tone::Good,
        Verdict::Worse => Tone::Bad,
        _ => Tone::Mark,
    };
    Cell::toned(tone, words)
}

/// Ratios of each direction by itself, where they are all there is: the directions of a candidate
/// that has no ratio over all of them.
fn by_direction(analysis: &Analysis) -> Vec<String> {
    let mut lines = Vec::new();
    for result in &analysis.candidates {
        if result.overall.is_some() || result.observed.overall.is_some() {
            continue;
        }
        let each = result.observed.directions.iter();
        let known: Vec<String> = each
            .filter_map(|(direction, observed)| {
                let effect = result.directions.iter().find(|(d, _)| d == direction);
                let shown = match effect.and_then(|(_, e)| e.as_ref()) {
                    Some(effect) => ratio(effect),
                    None => bare((*observed)?),
                };
                let at = analysis.at_line.iter().find(|at| at.direction == *direction);
                let by = if at.is_some_and(|at| at.by_cpu) { " by CPU time" } else { "" };
                Some(format!("{direction}{by} {shown}"))
            })
            .collect();
        if !known.is_empty() {
            lines.push(format!("{} by direction: {}", result.name, known.join(", ")));
        }
    }
    lines
}

/// Ratios with their intervals as a drawing.
pub(super) fn ratios(experiment: &Experiment, analysis: &Analysis) -> Section {
    let rows: Vec<Strip> = analysis.candidates.iter().flat_map(strips).collect();
    if rows.is_empty() {
        return Section::default();
    }
    let claimable = analysis.candidates.iter().any(|c| c.overall.is_some());
    let baseline = &experiment.baseline;
    let caption = if claimable {
        "right of 1 is better. Bars are 95 % intervals from paired blocks, on a logarithmic scale. \
         The green band is \u{b1}1 %: within it, no practical difference. A candidate is called \
         better or worse only if its interval lies wholly outside the band and p is at most 0.05"
    } else {
        "right of 1 is better, on a logarithmic scale. Rings are ratios that came out of too few \
         blocks for an interval: noise alone may have made them"
    };
    let figure = Figure {
        heading: String::new(),
        title: format!("Ratio of each candidate to {baseline}"),
        chart: Chart::Strips(Strips {
            axis: Axis::Ratio { band: BAND },
            name: "candidate".to_owned(),
            value: format!("times {baseline}"),
            rows,
        }),
        caption: caption.to_owned(),
        in_table: false,
    };
    Section::folded(format!("Ratio to {baseline}")).with([
        Block::Figure(figure),
        Block::note(
            "rates are geometric means over the blocks; ratios are paired: each block compares what ran in \
             it, so what the machine did to the whole block cancels out; p is by sign-flip \
             permutation over the blocks, adjusted for the number of candidates",
        ),
    ])
}

/// The ratio over all directions first, then each direction where there is more than one.
fn strips(candidate: &CandidateResult) -> Vec<Strip> {
    let observed = &candidate.observed;
    let overall = strip(&candidate.name, candidate.overall.as_ref(), observed.overall);
    let mut rows: Vec<Strip> = overall.into_iter().collect();
    if candidate.directions.len() > 1 {
        for ((direction, effect), (_, ratio)) in
            candidate.directions.iter().zip(&observed.directions)
        {
            // A candidate without a ratio over all directions is named by the first row.
            let name = match rows.is_empty() {
                true => format!("{} {direction}", candidate.name),
                false => direction.to_string(),
            };
            let is_part = !rows.is_empty();
            let strip = strip(&name, effect.as_ref(), *ratio);
            rows.extend(strip.map(|strip| Strip { is_part, ..strip }));
        }
    }
    rows
}

/// A ratio with its interval; without one where too few blocks stand behind it.
pub(super) fn strip(name: &str, effect: Option<&Effect>, observed: Option<f64>) -> Option<Strip> {
    let name = name.to_owned();
    if let Some(effect) = effect {
        return Some(Strip {
            name,
            words: ratio(effect),
            interval: Some((effect.low, effect.high)),
            marks: vec![Mark::new(MarkKind::Mean, effect.ratio)],
            ..Strip::default()
        });
    }
    observed.map(|ratio| Strip {
        name,
        words: bare(ratio),
        marks: vec![Mark::new(MarkKind::Ring, ratio)],
        ..Strip::default()
    })
}
