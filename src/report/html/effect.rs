//! Ratio to the baseline: interval per candidate, over all directions and in each.

use maud::{Markup, html as markup};

use super::chart::{Scale, axis, drawing, per_cent};
use crate::experiment::{Analysis, BAND, CandidateResult, Effect};
use crate::model::measurement::Experiment;
use crate::report::words;

const HEAD: f64 = 22.0;
const ROW: f64 = 24.0;

pub(super) fn section(experiment: &Experiment, analysis: &Analysis) -> Markup {
    let shown: Vec<&CandidateResult> =
        analysis.candidates.iter().filter(|c| c.overall.is_some()).collect();
    if shown.is_empty() {
        return markup! {};
    }
    let ends = shown
        .iter()
        .flat_map(|c| lines(c))
        .flat_map(|(_, e, _)| [e.low.ln(), e.high.ln()])
        // The band must be seen as such, and a little air around it.
        .chain([-2.0 * BAND.ln(), 2.0 * BAND.ln()]);
    let Some(scale) = Scale::around(ends) else { return markup! {} };

    let mut top = 0.0;
    let mut body = Vec::new();
    let mut description = Vec::new();
    for candidate in shown {
        body.push(markup! { text x="0" y=(top + 16.0) { (candidate.name) } });
        top += HEAD;
        for (label, effect, main) in lines(candidate) {
            body.push(row(&label, effect, main, top, scale));
            let figures = words::ratio(effect);
            description.push(format!("{} {label}: {figures}", candidate.name));
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
    let baseline = &experiment.baseline;
    markup! {
        section {
            h2 { "Ratio to " (baseline) }
            figure {
                (drawing(
                    top + 22.0,
                    &format!("Ratio of each candidate's rate to {baseline}"),
                    &description.join("; "),
                    &content,
                ))
                figcaption {
                    "Right of 1 is faster. Bars are 95 % intervals from paired blocks, on a \
                     logarithmic scale. The green band is \u{b1}1 %: within it, no practical \
                     difference. A candidate is called better or worse only if its interval lies \
                     wholly outside the band and p is at most 0.05."
                }
            }
        }
    }
}

/// Overall first, then each direction where there is more than one.
fn lines(candidate: &CandidateResult) -> Vec<(String, &Effect, bool)> {
    let mut lines: Vec<(String, &Effect, bool)> =
        candidate.overall.iter().map(|e| ("overall".to_owned(), e, true)).collect();
    if candidate.directions.len() > 1 {
        lines.extend(
            candidate
                .directions
                .iter()
                .filter_map(|(d, e)| Some((d.to_string(), e.as_ref()?, false))),
        );
    }
    lines
}

fn row(label: &str, effect: &Effect, main: bool, top: f64, scale: Scale) -> Markup {
    let middle = top + 14.0;
    let (x1, x2) = (scale.at(effect.low.ln()), scale.at(effect.high.ln()));
    let figures = if main {
        format!("{label} {}", words::ratio(effect))
    } else {
        format!("{label} {}", words::figures(effect).0)
    };
    // The label goes to the side that has more room.
    let left_of = x1 > 100.0 - x2;
    let (x, anchor, shift) = if left_of { (x1, "end", "-8") } else { (x2, "start", "8") };
    let radius = if main { 5.5 } else { 3.5 };
    markup! {
        g class=(if main { "main" } else { "thin" }) {
            line.ci x1=(per_cent(x1)) x2=(per_cent(x2)) y1=(middle) y2=(middle) {}
            circle.mean cx=(per_cent(scale.at(effect.ratio.ln()))) cy=(middle) r=(radius) {}
            text.value x=(per_cent(x)) dx=(shift) y=(middle + 4.0) text-anchor=(anchor) { (figures) }
        }
    }
}

/// Round ratios, the more important first, as far as they do not crowd.
fn ticks(scale: Scale) -> Vec<(f64, String)> {
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
