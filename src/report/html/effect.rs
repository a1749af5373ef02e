//! Ratios with their intervals as a dot plot: candidates against the baseline, and what each factor
//! does.

use maud::{Markup, html as markup};

use super::chart::{Scale, axis, drawing, per_cent};
use crate::experiment::{Analysis, BAND, CandidateResult, Effect};
use crate::model::measurement::Experiment;
use crate::report::{factors, words};

const HEAD: f64 = 22.0;
const ROW: f64 = 24.0;

/// A ratio of the plot.
struct Line {
    label: String,
    ratio: f64,
    /// `None` where too few blocks stand behind it: drawn as a ring.
    ends: Option<(f64, f64)>,
    figures: String,
    main: bool,
}

impl Line {
    fn of(label: &str, effect: &Effect, main: bool) -> Self {
        let figures = if main { words::ratio(effect) } else { words::figures(effect).0 };
        Self {
            label: label.to_owned(),
            ratio: effect.ratio,
            ends: Some((effect.low, effect.high)),
            figures,
            main,
        }
    }

    fn bare(label: &str, ratio: f64, main: bool) -> Self {
        let figures = words::bare(ratio);
        Self { label: label.to_owned(), ratio, ends: None, figures, main }
    }
}

/// Lines under one heading.
type Group = (String, Vec<Line>);

/// Candidates against the baseline.
pub(super) fn section(experiment: &Experiment, analysis: &Analysis) -> Markup {
    let groups: Vec<Group> = analysis
        .candidates
        .iter()
        .map(|c| (c.name.clone(), lines(c)))
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    let baseline = &experiment.baseline;
    let title = format!("Ratio of each candidate to {baseline}");
    let Some(plot) = plot(&title, &groups) else { return markup! {} };
    let claimable = analysis.candidates.iter().any(|c| c.overall.is_some());
    markup! {
        section {
            h2 { "Ratio to " (baseline) }
            figure {
                (plot)
                figcaption {
                    @if claimable {
                        "Right of 1 is better. Bars are 95 % intervals from paired blocks, on a \
                         logarithmic scale. The green band is \u{b1}1 %: within it, no practical \
                         difference. A candidate is called better or worse only if its interval \
                         lies wholly outside the band and p is at most 0.05."
                    } @else {
                        "Right of 1 is better, on a logarithmic scale. Rings are ratios that came \
                         out of too few blocks for an interval: noise alone may have made them."
                    }
                }
            }
        }
    }
}

/// What each factor does.
pub(super) fn of_factors(analysis: &Analysis) -> Markup {
    let rows = factors::rows(analysis);
    let groups: Vec<Group> = analysis
        .effects
        .iter()
        .zip(&rows)
        .filter_map(|(effect, row)| {
            let line = match &effect.effect {
                Some(found) => Line::of("", found, true),
                None => Line::bare("", effect.observed?, true),
            };
            Some((row.name.clone(), vec![line]))
        })
        .collect();
    let Some(plot) = plot("What each factor does", &groups) else { return markup! {} };
    markup! {
        section {
            h2 { "What each factor does" }
            figure { (plot) figcaption { "How to read it: " (factors::RULE) "." } }
            table.results {
                thead { tr {
                    th scope="col" { "effect" }
                    th scope="col" { "times (95 % CI)" }
                    th scope="col" { "verdict" }
                } }
                tbody { @for row in &rows { tr {
                    th scope="row" { (row.name) }
                    td.ratio data-label="times (95 % CI)" { (row.ratio) }
                    td data-label="verdict" { span.chip { (row.verdict) } }
                } } }
            }
        }
    }
}

fn plot(title: &str, groups: &[Group]) -> Option<Markup> {
    if groups.is_empty() {
        return None;
    }
    let ends = groups
        .iter()
        .flat_map(|(_, lines)| lines)
        .flat_map(|l| l.ends.map_or([l.ratio, l.ratio], |(low, high)| [low, high]))
        .map(f64::ln)
        // The band must be seen as such, and a little air around it.
        .chain([-2.0 * BAND.ln(), 2.0 * BAND.ln()]);
    let scale = Scale::around(ends)?;

    let mut top = 0.0;
    let mut body = Vec::new();
    let mut description = Vec::new();
    for (name, lines) in groups {
        body.push(markup! { text x="0" y=(top + 16.0) { (name) } });
        top += HEAD;
        for line in lines {
            body.push(row(line, top, scale));
            description.push(format!("{name} {}: {}", line.label, line.figures));
            top += ROW;
        }
        top += 10.0;
    }
    let (left, right) = (scale.at(-BAND.ln()), scale.at(BAND.ln()));
    let one = per_cent(scale.at(0.0));
    let content = markup! {
        (axis(&ticks(scale), 0.0, top))
        rect.band x=(per_cent(left)) y="0" width=(per_cent(right - left)) height=(top) {}
        line.one x1=(one) x2=(one) y1="0" y2=(top) {}
        @for part in body { (part) }
    };
    Some(drawing(top + 22.0, title, &description.join("; "), &content))
}

/// Overall first, then each direction where there is more than one.
fn lines(candidate: &CandidateResult) -> Vec<Line> {
    let observed = &candidate.observed;
    let overall = match (&candidate.overall, observed.overall) {
        (Some(effect), _) => Some(Line::of("overall", effect, true)),
        (None, ratio) => ratio.map(|r| Line::bare("overall", r, true)),
    };
    let mut lines: Vec<Line> = overall.into_iter().collect();
    if candidate.directions.len() > 1 {
        for ((direction, effect), (_, ratio)) in
            candidate.directions.iter().zip(&observed.directions)
        {
            lines.extend(match (effect, ratio) {
                (Some(effect), _) => Some(Line::of(&direction.to_string(), effect, false)),
                (None, ratio) => ratio.map(|r| Line::bare(&direction.to_string(), r, false)),
            });
        }
    }
    lines
}

/// Per cent of a drawing's width that hold no label.
const NARROW: f64 = 14.0;

fn row(line: &Line, top: f64, scale: Scale) -> Markup {
    let middle = top + 14.0;
    let at = scale.at(line.ratio.ln());
    let (x1, x2) = line.ends.map_or((at, at), |(l, h)| (scale.at(l.ln()), scale.at(h.ln())));
    let text = format!("{} {}", line.label, line.figures);
    // The label goes to the side that has more room.
    let left_of = x1 > 100.0 - x2;
    // An interval from side to side leaves room above itself only.
    let across = x1.max(100.0 - x2) < NARROW;
    let (x, anchor, shift, lift) = match (across, left_of) {
        (true, _) => (50.0, "middle", "0", -6.0),
        (false, true) => (x1, "end", "-8", 4.0),
        (false, false) => (x2, "start", "8", 4.0),
    };
    let radius = if line.main { 5.5 } else { 3.5 };
    let dot = if line.ends.is_some() { "mean" } else { "ring" };
    markup! {
        g class=(if line.main { "main" } else { "thin" }) {
            @if line.ends.is_some() {
                line.ci x1=(per_cent(x1)) x2=(per_cent(x2)) y1=(middle) y2=(middle) {}
            }
            circle class=(dot) cx=(per_cent(at)) cy=(middle) r=(radius) {}
            text.value x=(per_cent(x)) dx=(shift) y=(middle + lift) text-anchor=(anchor) {
                (text.trim())
            }
        }
    }
}

/// Round ratios, the more important first, as far as they do not crowd.
pub(super) fn ticks(scale: Scale) -> Vec<(f64, String)> {
    const WANTED: [&str; 25] = [
        "1", "2", "0.5", "4", "0.25", "10", "0.1", "1.5", "0.7", "3", "0.3", "1.2", "0.8", "0.6",
        "0.9", "1.1", "1.05", "0.95", "1.02", "0.98", "1.01", "0.99", "0.4", "100", "0.01",
    ];
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for label in WANTED {
        let Ok(value) = label.parse::<f64>() else { continue };
        let at = scale.at(value.ln());
        let inside = at > 3.01 && at < 96.99;
        if inside && ticks.iter().all(|(other, _)| (at - other).abs() > 10.0) {
            ticks.push((at, label.to_owned()));
        }
    }
    ticks
}
