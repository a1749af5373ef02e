//! Charts as SVG.
//!
//! In come the data of a figure; out goes markup. Nothing is read or written.
//!
//! The drawings have no `viewBox`: lengths across are per cent, heights and fonts are pixels, so
//! that text keeps its size from a phone to a desktop. Hence no paths (they know no per cent).

mod curve;
pub mod flame;
mod shares;
mod strips;

use maud::{Markup, html as markup};

use crate::report::document::{Chart, Figure, Row};
use crate::report::render::text::wrap;

pub(super) use shares::key;

/// Left and right of the plot stay free, per cent, for the labels of the outermost ticks.
const MARGIN: f64 = 3.0;

/// Below the plot, in pixels, for the labels of the axis.
const LABELS: f64 = 22.0;

/// So many letters fit in a line on a phone.
const LETTERS: usize = 36;

/// A name in lines that a phone has room for.
fn folded(name: &str) -> Vec<String> {
    wrap(name, LETTERS, LETTERS)
}

/// A figure's drawing with its text for those who do not see it, and its height in pixels; `None`
/// where there is nothing to draw.
pub(super) fn draw(figure: &Figure) -> Option<(f64, Markup)> {
    let (height, content) = match &figure.chart {
        Chart::Strips(chart) => strips::draw(chart),
        Chart::Curve(chart) => curve::draw(chart),
        Chart::Shares(chart) => shares::bars(chart),
        Chart::Heat(chart) => shares::heat(chart),
    }?;
    let row = |row: &Row| {
        let mut cells = row.cells.iter().map(|cell| cell.text.as_str());
        let name = cells.next().unwrap_or_default();
        format!("{name}: {}", cells.collect::<Vec<_>>().join(", "))
    };
    let description: Vec<String> = figure.chart.table().rows.iter().map(row).collect();
    let drawing = markup! {
        svg role="img" aria-label=(figure.title) width="100%" height=(height) {
            title { (figure.title) }
            desc { (description.join("; ")) }
            (content)
        }
    };
    Some((height, drawing))
}

/// A linear scale from values to per cent of the width.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// A scale that holds all of the finite values given, and some width in any case.
    fn around(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = values
            .filter(|v| v.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        (low <= high).then(|| {
            let some = (low.abs() * 1e-6).max(1e-9);
            Self { low, high: high.max(low + some) }
        })
    }

    /// Place of a value, per cent of the width.
    fn at(self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        MARGIN + share.clamp(0.0, 1.0) * (100.0 - 2.0 * MARGIN)
    }
}

/// A length as an attribute.
fn per_cent(at: f64) -> String {
    format!("{at:.2}%")
}

/// Vertical grid lines with labels below.
fn axis(ticks: &[(f64, String)], top: f64, bottom: f64) -> Markup {
    markup! {
        @for (at, label) in ticks {
            @let x = per_cent(*at);
            line.grid x1=(x) x2=(x) y1=(top) y2=(bottom) {}
            text.axis x=(x) y=(bottom + 15.0) text-anchor="middle" { (label) }
        }
    }
}

/// Round steps from zero to `high`: some four of them.
#[must_use]
pub fn round_steps(high: f64) -> Vec<f64> {
    if !high.is_finite() || high <= 0.0 {
        return vec![0.0];
    }
    let rough = high / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|s| *s >= rough)
        .unwrap_or(power * 10.0);
    (0..=8).map(|n| f64::from(n) * step).take_while(|v| *v <= high * 1.0001).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_within() {
        assert_eq!(round_steps(2600.0), [0.0, 1000.0, 2000.0]);
        assert_eq!(round_steps(0.7), [0.0, 0.2, 0.4, 0.6000000000000001]);
        assert_eq!(round_steps(0.0), [0.0]);
        assert_eq!(round_steps(f64::NAN), [0.0]);
    }

    #[test]
    fn a_scale_of_one_value_is_a_scale() {
        let scale = Scale::around([5.0, f64::NAN].into_iter()).unwrap();
        assert!(scale.at(5.0).is_finite());
        assert!(Scale::around([f64::NAN].into_iter()).is_none());
    }
}
