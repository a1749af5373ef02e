//! Shares of a whole: what each CPU did, as bars and as the depth of a colour.

use maud::{Markup, html as markup};

use super::{LETTERS, folded, per_cent};
use crate::report::document::{Heat, Shares};

/// Height of a bar with what is free around it.
const ROW: f64 = 24.0;

/// Height of a line of a row's name, and of its boxes with what is free below them.
const NAME: f64 = 18.0;
const BOXES: f64 = 28.0;

/// Place where bars begin, per cent of the width; names stand left of them.
const START: f64 = 15.0;

/// Width of a full bar, per cent; figures stand right of it and need 80 pixels on a phone.
const FULL: f64 = 58.0;

/// Boxes of more columns than this have no room for figures: on a phone a box of a sixteenth is as
/// wide as two digits.
const WITH_FIGURES: usize = 12;

/// Key of the colours.
pub(in crate::report::render) fn key(shares: &Shares) -> Markup {
    let [first, second, rest] = &shares.parts;
    markup! {
        p.soft {
            span.key.softirq {} (first)
            span.key.other {} (second)
            span.key.idle {} (rest)
        }
    }
}

pub(super) fn bars(shares: &Shares) -> Option<(f64, Markup)> {
    let content = markup! {
        @for ((name, [first, second], words), index) in shares.rows.iter().zip(0_u32..) {
            @let top = f64::from(index) * ROW;
            @let (first, second) = (first * FULL, second * FULL);
            text x="0" y=(top + 15.0) { (name) }
            rect.idle x=(per_cent(START)) y=(top + 2.0) width=(per_cent(FULL)) height="17" {}
            rect.softirq x=(per_cent(START)) y=(top + 2.0) width=(per_cent(first)) height="17" {}
            rect.other x=(per_cent(START + first)) y=(top + 2.0) width=(per_cent(second)) height="17" {}
            text.value x="100%" y=(top + 15.0) text-anchor="end" { (words) }
        }
    };
    (!shares.rows.is_empty()).then_some((shares.rows.len() as f64 * ROW, content))
}

pub(super) fn heat(heat: &Heat) -> Option<(f64, Markup)> {
    let columns = heat.columns.len();
    if columns == 0 || heat.rows.is_empty() {
        return None;
    }
    let width = 100.0 / columns as f64;
    let with_figures = columns <= WITH_FIGURES;
    let longest = heat.columns.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let every = (longest * columns).div_ceil(LETTERS).max(1);
    let mut below = 0.0;
    let mut rows = Vec::new();
    for (name, shares) in &heat.rows {
        let lines = folded(name);
        let boxes = below + NAME * lines.len() as f64;
        rows.push((below, boxes, lines, name, shares));
        below = boxes + BOXES;
    }
    let content = markup! {
        @for (top, boxes, lines, name, shares) in rows {
            @for (line, n) in lines.iter().zip(0_u32..) {
                text x="0" y=(top + NAME * f64::from(n) + 13.0) { (line) }
            }
            @for ((share, column), at) in shares.iter().zip(&heat.columns).zip(0_u32..) {
                @let x = f64::from(at) * width;
                @let percent = format!("{:.0}", share * 100.0);
                rect.idle x=(per_cent(x)) y=(boxes) width=(per_cent(width * 0.97)) height="22" {}
                rect.softirq x=(per_cent(x)) y=(boxes) width=(per_cent(width * 0.97)) height="22"
                    opacity=(format!("{share:.3}")) {
                    title { (name) ", " (column) ": " (percent) " %" }
                }
                @if with_figures {
                    text.boxed x=(per_cent(x + width * 0.485)) y=(boxes + 15.0) text-anchor="middle" {
                        (percent)
                    }
                }
            }
        }
        @for (column, at) in heat.columns.iter().zip(0_u32..) {
            @if (at as usize).is_multiple_of(every) {
                text.axis x=(per_cent(f64::from(at) * width + width * 0.485)) y=(below + 10.0)
                    text-anchor="middle" { (column) }
            }
        }
    };
    Some((below + 16.0, content))
}
