//! Rows on one axis: ratios with their intervals, rates with every measurement, boards among others.

use maud::{Markup, html as markup};

use super::{LABELS, LETTERS, Scale, axis, folded, per_cent, round_steps};
use crate::report::document::{Axis, Mark, MarkKind, Strip, Strips};

/// Height of the line that names a row, above its marks.
const NAME: f64 = 20.0;

/// Height of the marks where there is no lane, and what is free below a lane.
const MARKS: f64 = 18.0;
const BELOW: f64 = 6.0;

/// Distance by which the name of a part is moved to the right, in pixels.
const PART: &str = "12";

pub(super) fn draw(strips: &Strips) -> Option<(f64, Markup)> {
    let Strips { axis: kind, rows, .. } = strips;
    let values = || rows.iter().flat_map(values_of);
    let place = |value: f64| match kind {
        Axis::Ratio { .. } => value.ln(),
        Axis::FromZero { .. } => value,
        Axis::Decades => value.max(f64::MIN_POSITIVE).log10(),
    };
    let all = values().map(place).filter(|v| v.is_finite());
    let scale = match kind {
        // A little air around the band, or around 1 where there is none.
        Axis::Ratio { band } => {
            let air = (2.0 * band.ln()).max(0.02);
            values().next()?;
            Scale::around(all.chain([-air, air]))
        }
        Axis::FromZero { highest } => {
            Scale::around(all.chain([0.0, *highest])).filter(|scale| scale.high > 0.0)
        }
        Axis::Decades => Scale::around(all),
    }?;
    let at = |value: f64| per_cent(scale.at(place(value)));
    let ticks = ticks(*kind, scale);
    let mut top = 0.0;
    let mut body = Vec::new();
    for (n, strip) in rows.iter().enumerate() {
        // Parts follow their whole closely.
        if n > 0 && !strip.is_part {
            top += BELOW;
        }
        let names = named(strip);
        body.push(row(strip, &names, top, &at));
        top += NAME * names.len() as f64 + strip.lane.max(MARKS);
    }
    let bottom = top + BELOW;
    let content = markup! {
        (axis(&ticks, 0.0, bottom))
        @if let Axis::Ratio { band } = kind {
            @if *band > 1.0 {
                @let (left, right) = (scale.at(-band.ln()), scale.at(band.ln()));
                rect.band x=(per_cent(left)) y="0" width=(per_cent(right - left)) height=(bottom) {}
            }
            line.one x1=(at(1.0)) x2=(at(1.0)) y1="0" y2=(bottom) {}
        }
        @for part in body { (part) }
    };
    Some((bottom + LABELS, content))
}

fn values_of(strip: &Strip) -> impl Iterator<Item = f64> {
    let ends = [strip.interval, strip.between].into_iter().flatten();
    let ends = ends.flat_map(|(low, high)| [low, high]).chain(strip.bar);
    ends.chain(strip.marks.iter().map(|mark| mark.at))
}

/// Lines of a row's name and of its values in words, as a phone has room for them.
fn named(strip: &Strip) -> Vec<(String, &str)> {
    let mut lines: Vec<(String, &str)> =
        folded(&strip.name).into_iter().map(|line| (line, "")).collect();
    let words = strip.words.as_str();
    match lines.last_mut() {
        Some((name, beside)) if name.chars().count() + words.chars().count() < LETTERS => {
            *beside = words;
        }
        _ => lines.push((String::new(), words)),
    }
    lines
}

fn row(strip: &Strip, names: &[(String, &str)], top: f64, at: &dyn Fn(f64) -> String) -> Markup {
    let lane = top + NAME * names.len() as f64;
    let height = strip.lane.max(MARKS);
    let middle = lane + height / 2.0;
    // Dots of the first and the last measurement stay within the lane.
    let level = |mark: &Mark| match strip.lane > 0.0 {
        true => lane + 4.0 + mark.height * (height - 8.0),
        false => middle,
    };
    let (single, mean): (Vec<&Mark>, Vec<&Mark>) =
        strip.marks.iter().partition(|m| matches!(m.kind, MarkKind::Single | MarkKind::Trial));
    markup! {
        g class=(if strip.is_part { "thin" } else { "main" }) {
            @for ((name, words), n) in names.iter().zip(0_u32..) {
                @let y = top + NAME * f64::from(n) + 14.0;
                @if !name.is_empty() {
                    text x="0" dx=[strip.is_part.then_some(PART)] y=(y) { (name) }
                }
                @if !words.is_empty() { text.value x="100%" y=(y) text-anchor="end" { (words) } }
            }
            @if strip.lane > 0.0 {
                rect.lane x="0" y=(lane) width="100%" height=(height) rx="4" opacity="0.55" {}
            }
            @if let Some(end) = strip.bar {
                line class=(if strip.is_best { "bar best" } else { "bar" })
                    x1=(at(0.0)) x2=(at(end)) y1=(middle) y2=(middle) {}
            }
            @for mark in single { (self::mark(mark, &at(mark.at), level(mark), strip.is_part)) }
            @if let Some((from, to)) = strip.between {
                line.grid x1=(at(from)) x2=(at(to)) y1=(middle) y2=(middle) {}
            }
            @if let Some((low, high)) = strip.interval {
                line.ci x1=(at(low)) x2=(at(high)) y1=(middle) y2=(middle) {}
            }
            @for mark in mean { (self::mark(mark, &at(mark.at), level(mark), strip.is_part)) }
        }
    }
}

fn mark(mark: &Mark, x: &str, y: f64, is_part: bool) -> Markup {
    let (class, radius) = match mark.kind {
        MarkKind::Single => ("dot", "3"),
        MarkKind::Trial => ("ends", "2.5"),
        MarkKind::Mean if is_part => ("mean", "3.5"),
        MarkKind::Ring if is_part => ("ring", "3.5"),
        MarkKind::Mean => ("mean", "5.5"),
        MarkKind::Ring => ("ring", "5.5"),
    };
    markup! {
        circle class=(class) cx=(x) cy=(y) r=(radius) {
            @if !mark.words.is_empty() { title { (mark.words) } }
        }
    }
}

fn ticks(axis: Axis, scale: Scale) -> Vec<(f64, String)> {
    match axis {
        Axis::Ratio { .. } => ratios(scale),
        Axis::FromZero { .. } => {
            round_steps(scale.high).into_iter().map(|v| (scale.at(v), format!("{v}"))).collect()
        }
        Axis::Decades => {
            let powers = (0..6).map(f64::from);
            let inside = powers.filter(|p| (scale.low..=scale.high).contains(p));
            let rate = |power: f64| match 10_f64.powf(power) {
                mbps if mbps >= 1000.0 => format!("{} Gbit/s", mbps / 1000.0),
                mbps => format!("{mbps} Mbit/s"),
            };
            inside.map(|power| (scale.at(power), rate(power))).collect()
        }
    }
}

/// Round ratios, the more important first, as far as they do not crowd.
fn ratios(scale: Scale) -> Vec<(f64, String)> {
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
