//! What the cost model said, beside what came out.

use maud::{Markup, html as markup};

use super::chart::{Scale, axis, drawing, per_cent};
use super::effect::ticks;
use super::sentence;
use crate::experiment::Analysis;
use crate::model::measurement::Experiment;
use crate::report::predicted;

const ROW: f64 = 44.0;

pub(super) fn section(experiment: &Experiment, analysis: &Analysis) -> Markup {
    let pairs = predicted::pairs(experiment, analysis);
    if pairs.is_empty() {
        return markup! {};
    }
    let both: Vec<(&str, f64, f64)> =
        pairs.iter().filter_map(|p| Some((p.name.as_str(), p.ratio?, p.measured?))).collect();
    let values = both.iter().flat_map(|(_, a, b)| [a.ln(), b.ln()]).chain([-0.05, 0.05]);
    let scale = Scale::around(values).filter(|_| !both.is_empty());
    markup! {
        section {
            h2 { "Foretold and measured" }
            @if let Some(summary) = predicted::summary(&pairs) { p { (sentence(&summary)) } }
            @if let Some(scale) = scale { figure {
                (figure(&both, scale))
                figcaption { "Ring: foretold. Dot: measured. Ratios to " (experiment.baseline) "." }
            } }
            table.results {
                thead { tr { @for head in predicted::HEAD { th scope="col" { (head) } } } }
                tbody { @for pair in &pairs { tr {
                    @for (cell, head) in predicted::cells(pair).into_iter().zip(predicted::HEAD) {
                        @if head == "candidate" { th scope="row" { (cell) } }
                        @else { td data-label=(head) { (cell) } }
                    }
                } } }
            }
            p.soft { (sentence(predicted::RULE)) }
        }
    }
}

fn figure(both: &[(&str, f64, f64)], scale: Scale) -> Markup {
    let bottom = both.len() as f64 * ROW;
    let one = per_cent(scale.at(0.0));
    let content = markup! {
        (axis(&ticks(scale), 0.0, bottom))
        line.one x1=(one) x2=(one) y1="0" y2=(bottom) {}
        @for ((name, foretold, measured), index) in both.iter().zip(0_u32..) {
            @let top = f64::from(index) * ROW;
            @let (a, b) = (per_cent(scale.at(foretold.ln())), per_cent(scale.at(measured.ln())));
            text x="0" y=(top + 14.0) { (name) }
            text.value x="100%" y=(top + 14.0) text-anchor="end" {
                (format!("{foretold:.2} foretold, {measured:.2} measured"))
            }
            line.grid x1=(a) x2=(b) y1=(top + 28.0) y2=(top + 28.0) {}
            circle.ring cx=(a) cy=(top + 28.0) r="5" {}
            circle.mean cx=(b) cy=(top + 28.0) r="5" {}
        }
    };
    let description: Vec<String> =
        both.iter().map(|(n, a, b)| format!("{n}: {a:.2} foretold, {b:.2} measured")).collect();
    drawing(bottom + 22.0, "Ratios foretold and measured", &description.join("; "), &content)
}
