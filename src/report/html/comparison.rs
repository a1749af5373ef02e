//! Two files side by side: as a page, and as a drawing of its own.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::chart::{Scale, axis, drawing, per_cent};
use super::effect::ticks;
use super::{STYLE, head, sentence};

const ROW: f64 = 44.0;

/// A figure that both files have.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Of what.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// The first's value, in words.
    pub a: String,
    /// The second's.
    pub b: String,
    /// Second over first, where it is known.
    pub ratio: Option<f64>,
    /// Its 95 % interval, where there are repeats.
    pub interval: Option<(f64, f64)>,
    /// Ratio and interval in words.
    pub words: String,
}

/// What the page says.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// `B against A`.
    pub title: String,
    /// Figures of both.
    pub pairs: Vec<Pair>,
    /// What only one has, and what to doubt.
    pub notes: Vec<String>,
}

/// A self-contained page.
#[must_use]
pub fn page(comparison: &Comparison) -> String {
    let title = format!("linerate: {}", comparison.title);
    markup! {
        (DOCTYPE)
        html lang="en" {
            (head(&title))
            body { main {
                header { h1 { (title) } }
                section {
                    h2 { "B against A" }
                    @if let Some((_, figure)) = figure(&comparison.pairs) {
                        figure {
                            (figure)
                            figcaption {
                                "Right of 1: B has more. Bars are 95 % intervals by what repeats of \
                                 a run differ by; rings have no interval, for there was one value."
                            }
                        }
                    }
                    table.results {
                        thead { tr {
                            th scope="col" { "figure" }
                            th.num scope="col" { "A" }
                            th.num scope="col" { "B" }
                            th scope="col" { "B / A (95 % interval)" }
                        } }
                        tbody { @for pair in &comparison.pairs { tr {
                            th scope="row" { (pair.name) ", " (pair.unit) }
                            td.num data-label="A" { (pair.a) }
                            td.num data-label="B" { (pair.b) }
                            td data-label="B / A (95 % interval)" { (pair.words) }
                        } } }
                    }
                }
                section {
                    h2 { "How far to trust it" }
                    ul { @for note in &comparison.notes { li { (sentence(note)) } } }
                }
                footer { "Made from the two files alone. Nothing on this page comes from the network." }
            } }
        }
    }
    .into_string()
}

/// The drawing alone, as a file.
#[must_use]
pub fn svg(comparison: &Comparison) -> String {
    let (height, figure) = figure(&comparison.pairs).unwrap_or((0.0, markup! {}));
    // Alone it has to say itself what A and B are: the title and the first note.
    let files = comparison.notes.first().map(|note| sentence(note)).unwrap_or_default();
    markup! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        // The page's style makes drawings as wide as the page; here that is what the file says.
        svg xmlns="http://www.w3.org/2000/svg" width="760" height=(height + 60.0) style="width: 760px" font-family="sans-serif" font-size="14" {
            title { (comparison.title) }
            style { (PreEscaped(STYLE)) }
            rect width="100%" height="100%" fill="var(--card)" {}
            svg x="16" y="12" width="720" height=(height) style="width: 720px" { (figure) }
            text.axis x="16" y=(height + 34.0) { "B / A; right of 1: B has more. Bars are 95 % intervals; rings have none." }
            text.axis x="16" y=(height + 49.0) { (files) }
        }
    }
    .into_string()
}

/// Ratios as dots, with the drawing's height; `None` where no ratio is known.
fn figure(pairs: &[Pair]) -> Option<(f64, Markup)> {
    let known: Vec<(&Pair, f64)> = pairs
        .iter()
        .filter_map(|p| Some((p, p.ratio?)))
        .filter(|(_, ratio)| ratio.is_finite() && *ratio > 0.0)
        .collect();
    if known.is_empty() {
        return None;
    }
    let ends = known
        .iter()
        .flat_map(|(p, ratio)| p.interval.map_or([*ratio, *ratio], |(low, high)| [low, high]))
        .map(f64::ln)
        .chain([-0.02, 0.02]);
    let scale = Scale::around(ends)?;
    let at = |ratio: f64| per_cent(scale.at(ratio.ln()));
    let bottom = known.len() as f64 * ROW;
    let content = markup! {
        (axis(&ticks(scale), 0.0, bottom))
        line.one x1=(at(1.0)) x2=(at(1.0)) y1="0" y2=(bottom) {}
        @for ((pair, ratio), index) in known.iter().zip(0_u32..) {
            @let top = f64::from(index) * ROW;
            text x="0" y=(top + 14.0) { (pair.name) }
            text.value x="100%" y=(top + 14.0) text-anchor="end" { (format!("{ratio:.3}")) }
            @if let Some((low, high)) = pair.interval {
                line.ci x1=(at(low)) x2=(at(high)) y1=(top + 28.0) y2=(top + 28.0) {}
                circle.mean cx=(at(*ratio)) cy=(top + 28.0) r="5" {}
            } @else {
                circle.ring cx=(at(*ratio)) cy=(top + 28.0) r="5" {}
            }
        }
    };
    let description: Vec<String> =
        known.iter().map(|(p, _)| format!("{}: {}", p.name, p.words)).collect();
    let height = bottom + 22.0;
    Some((height, drawing(height, "Ratios of B to A", &description.join("; "), &content)))
}
