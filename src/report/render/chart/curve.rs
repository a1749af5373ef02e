//! Values over other values: the baseline from block to block, what arrived and what was lost.

use maud::{Markup, html as markup};

use super::{LABELS, Scale, axis, per_cent, round_steps};
use crate::report::document::{Curve, MarkKind};

/// Room above for the names of what was found, a line for each, or for the name of the top level.
const NAMES: f64 = 15.0;

/// Two names of levels are at least this far apart, in pixels.
const LEVELS: f64 = 13.0;

/// Most numbers of blocks below the axis.
const BLOCKS: usize = 10;

pub(super) fn draw(curve: &Curve) -> Option<(f64, Markup)> {
    let points = curve.points.iter().map(|p| p.0).chain(curve.line.iter().map(|p| p.0));
    let lowest = (!curve.counts).then_some(0.0);
    let across = Scale::around(points.chain(lowest))?;
    let named = curve.found.iter().filter(|(_, name)| !name.is_empty()).count();
    let top = if named > 0 { NAMES * named as f64 + 4.0 } else { NAMES };
    let bottom = top + curve.height;
    let depth = |up: f64| if curve.by_root { up.max(0.0).sqrt() } else { up };
    let (low, high) = (depth(curve.range.0), depth(curve.range.1));
    let y = |up: f64| {
        let share = (depth(up) - low) / (high - low).max(1e-12);
        bottom - share.clamp(0.0, 1.0) * curve.height
    };
    let x = |value: f64| per_cent(across.at(value));
    let ticks: Vec<(f64, String)> = if curve.counts {
        let step = (curve.line.len() / BLOCKS).max(1);
        let shown = curve.line.iter().step_by(step);
        shown.map(|(block, _)| (across.at(*block), format!("{block}"))).collect()
    } else {
        round_steps(across.high).into_iter().map(|v| (across.at(v), format!("{v}"))).collect()
    };
    let mut levels: Vec<(f64, &str)> = Vec::new();
    for (level, name) in &curve.levels {
        let at = y(*level);
        let within = (curve.range.0..=curve.range.1).contains(level);
        if within && levels.last().is_none_or(|(last, _)| (last - at).abs() >= LEVELS) {
            levels.push((at, name));
        }
    }
    let content = markup! {
        (axis(&ticks, 0.0, bottom))
        @if let Some((from, to)) = curve.shaded {
            @let width = (across.at(to) - across.at(from)).max(0.0);
            rect.band x=(x(from)) width=(per_cent(width)) y="0" height=(bottom) {}
        }
        @for (found, _) in &curve.found {
            line.one x1=(x(*found)) x2=(x(*found)) y1="0" y2=(bottom) {}
        }
        @for (at, name) in levels {
            line.grid x1="0" x2="100%" y1=(at) y2=(at) {}
            text.value x="0" y=(at - 3.0) { (name) }
        }
        @if let Some(zero) = curve.zero {
            line.one x1="0" x2="100%" y1=(y(zero)) y2=(y(zero)) {}
        }
        @if curve.diagonal {
            line.grid x1=(x(0.0)) y1=(bottom) x2=(x(curve.range.1)) y2=(y(curve.range.1)) {}
        }
        @for kind in [MarkKind::Trial, MarkKind::Single, MarkKind::Mean] {
            @if kind == MarkKind::Single {
                @for pair in curve.line.windows(2) { @if let [from, to] = pair {
                    line.thread x1=(x(from.0)) y1=(y(from.1)) x2=(x(to.0)) y2=(y(to.1)) {}
                } }
            }
            @for point in curve.points.iter().filter(|point| point.2 == kind) {
                circle class=(class(kind)) cx=(x(point.0)) cy=(y(point.1)) r="4" {}
            }
        }
        @for (n, (found, name)) in (1_u32..).zip(curve.found.iter().filter(|f| !f.1.is_empty())) {
            @let right = across.at(*found) > 50.0;
            text.boxed x=(x(*found)) y=(NAMES * f64::from(n) - 3.0) dx=(if right { "-5" } else { "5" })
                text-anchor=(if right { "end" } else { "start" }) { (name) }
        }
    };
    Some((bottom + LABELS, content))
}

fn class(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Single => "dot",
        MarkKind::Trial => "ends",
        MarkKind::Mean => "mean",
        MarkKind::Ring => "ring",
    }
}
