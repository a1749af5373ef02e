//! A sweep as a page: what arrived and what was lost over the rate, with NDR, PDR and the knee; or a
//! row for each size.

use maud::{DOCTYPE, Markup, html as markup};

use super::chart::{Scale, axis, drawing, per_cent, round_steps};
use super::{head, sentence};
use crate::experiment::stats::mean;
use crate::model::order::InOrder;
use crate::model::sweep::{Sweep, SweepKind, SweepPoint};
use crate::model::wire::PacketRate;
use crate::report::sweep::{Grid, told};
use crate::report::words;

/// Heights of the two drawings of a rate series, and of a row of the others.
const ARRIVED: f64 = 170.0;
const LOST: f64 = 130.0;
const ROW: f64 = 44.0;
/// Room above for the names of the marks, a line for each of them.
const NAMES: f64 = 15.0;
/// The least that two labels of one axis need between them.
const LABEL: f64 = 13.0;

/// A rate that was found.
struct Mark {
    name: String,
    packets: f64,
}

/// A self-contained page.
#[must_use]
pub fn page(sweep: &Sweep) -> String {
    let told = told(sweep);
    let title = format!("linerate: {} on {}", told.title, sweep.machine.hostname);
    let found = sweep.searches.iter().flat_map(|search| {
        let said = move |r: &crate::model::sweep::GoalResult| {
            let rate = r.lower.map(PacketRate);
            let holds = rate.map_or_else(
                || "-".to_owned(),
                |rate| {
                    let mbit = rate.bits(search.frame.udp_payload()).mbps();
                    format!("{rate}, {mbit:.0} Mbit/s")
                },
            );
            format!("{} of {} bytes: {holds} ({})", r.goal.name, search.frame.0, r.outcome)
        };
        search.results.iter().map(said)
    });
    let said: Vec<String> =
        told.knee.iter().map(|knee| format!("Knee: {knee}")).chain(found).collect();
    markup! {
        (DOCTYPE)
        html lang="en" {
            (head(&title))
            body { main {
                header {
                    h1 { (title) }
                    p { (sweep.started) ", linerate " (sweep.program) }
                }
                section class=(if told.doubts.is_empty() { "verdict" } else { "verdict refused" }) {
                    h2 class="soft" { "Found" }
                    @if said.is_empty() { p { "Nothing was searched for: see the table." } }
                    ul { @for line in &said { li { strong { (line) } } } }
                    @for why in &told.doubts { p.alarm { (sentence(why)) } }
                    p { span.chip { "evidence: " (sweep.class) } }
                }
                @if sweep.kind == SweepKind::Rate { (curve(sweep)) } @else { (rows(sweep)) }
                @for grid in &told.grids { (table(grid)) }
                section {
                    h2 { "How far to trust it" }
                    ul { @for note in told.notes.iter().chain([&told.evidence]) { li { (sentence(note)) } } }
                }
                section { h2 { "Repeat it" } pre { (words::shell(&sweep.command)) } }
                footer { "Made from the record alone. Nothing on this page comes from the network." }
            } }
        }
    }
    .into_string()
}

fn table(grid: &Grid) -> Markup {
    markup! {
        section {
            h2 { (grid.title) }
            div.scroll { table {
                thead { tr { @for name in &grid.heading { th.num scope="col" { (name) } } } }
                tbody { @for row in &grid.rows { tr { @for cell in row { td.num { (cell) } } } } }
            } }
        }
    }
}

/// Payload rate in Mbit/s of so many packets of the point's frame.
fn mbit(point: &SweepPoint, packets: f64) -> f64 {
    PacketRate(packets).bits(point.frame.udp_payload()).mbps()
}

/// Where a share of loss stands, from the bottom: by its root, for a thousandth must be told from
/// none although another rate lost half.
fn depth(loss: f64) -> f64 {
    loss.clamp(0.0, 1.0).sqrt()
}

fn curve(sweep: &Sweep) -> Markup {
    let series: Vec<&SweepPoint> =
        sweep.points.iter().filter(|p| p.loss_ratio().is_some()).collect();
    let trials = sweep.searches.iter().flat_map(|s| &s.trials);
    let trials: Vec<&SweepPoint> = trials.filter(|p| p.loss_ratio().is_some()).collect();
    let all = || series.iter().chain(&trials);
    let Some(first) = all().next() else { return markup! {} };
    let offered = |p: &SweepPoint| mbit(p, p.offered.map_or(0.0, |r| r.0));
    let highest = all().map(|p| offered(p)).fold(0.0, f64::max);
    let Some(across) = Scale::around([0.0, highest].into_iter()) else { return markup! {} };
    let x = |packets: f64| per_cent(across.at(mbit(first, packets)));
    let lost = |p: &SweepPoint| p.loss_ratio().unwrap_or(0.0);
    let worst = depth(all().map(|p| lost(p)).fold(0.01, f64::max));
    let results = sweep.searches.iter().flat_map(|s| &s.results);
    let marks: Vec<Mark> = results
        .filter_map(|r| Some(Mark { name: r.goal.name.clone(), packets: r.lower? }))
        .collect();
    let top = NAMES * marks.len() as f64 + 4.0;
    let down = |loss: f64| top + LOST * (1.0 - depth(loss) / worst);
    let up = |rate: f64| ARRIVED * (1.0 - rate / highest.max(1e-9));
    let means = means(&series);
    let ticks: Vec<(f64, String)> =
        round_steps(highest).into_iter().map(|v| (across.at(v), format!("{v}"))).collect();
    let band = |bottom: f64| {
        let knee = sweep.knee.as_ref();
        let ends = knee.and_then(|k| Some((k.holds_up_to?, k.fails_at?)));
        markup! {
            @if let Some((from, to)) = ends {
                @let width = across.at(mbit(first, to)) - across.at(mbit(first, from));
                rect.band x=(x(from)) width=(per_cent(width.max(0.0))) y="0" height=(bottom) {}
            }
            @for mark in &marks {
                line.one x1=(x(mark.packets)) x2=(x(mark.packets)) y1="0" y2=(bottom) {}
            }
        }
    };
    let arrived = markup! {
        (axis(&ticks, 0.0, ARRIVED))
        (band(ARRIVED))
        @for level in round_steps(highest) { (level_line(up(level), &format!("{level}"))) }
        line.grid x1=(x(0.0)) y1=(ARRIVED) x2=(per_cent(across.at(highest))) y2=(up(highest)) {}
        @for pair in means.windows(2) { @if let [from, to] = pair {
            line.thread x1=(x(from.0)) y1=(up(mbit(first, from.0 * (1.0 - from.1))))
                x2=(x(to.0)) y2=(up(mbit(first, to.0 * (1.0 - to.1)))) {}
        } }
        @for p in &series {
            circle.dot cx=(per_cent(across.at(offered(p)))) cy=(up(offered(p) * (1.0 - lost(p)))) r="4" {}
        }
    };
    let mut levels: Vec<f64> = Vec::new();
    for level in [0.0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0] {
        let apart = levels.last().is_none_or(|last| down(*last) - down(level) >= LABEL);
        if apart && depth(level) <= worst {
            levels.push(level);
        }
    }
    let losses = markup! {
        (axis(&ticks, 0.0, top + LOST))
        (band(top + LOST))
        @for level in &levels { (level_line(down(*level), &format!("{} %", level * 100.0))) }
        @for p in &trials { circle.ends cx=(per_cent(across.at(offered(p)))) cy=(down(lost(p))) r="3.5" {} }
        @for pair in means.windows(2) { @if let [from, to] = pair {
            line.thread x1=(x(from.0)) y1=(down(from.1)) x2=(x(to.0)) y2=(down(to.1)) {}
        } }
        @for p in &series { circle.dot cx=(per_cent(across.at(offered(p)))) cy=(down(lost(p))) r="4" {} }
        @for (n, mark) in (1_u32..).zip(&marks) {
            @let right = across.at(mbit(first, mark.packets)) > 50.0;
            text.boxed x=(x(mark.packets)) y=(NAMES * f64::from(n) - 3.0) dx=(if right { "-5" } else { "5" })
                text-anchor=(if right { "end" } else { "start" }) {
                (mark.name) " " (format!("{:.0}", mbit(first, mark.packets))) " Mbit/s"
            }
        }
    };
    let each: Vec<String> = means
        .iter()
        .map(|(rate, loss)| format!("{:.0} Mbit/s: {:.2} % lost", mbit(first, *rate), loss * 100.0))
        .collect();
    let each = each.join("; ");
    markup! {
        section {
            h2 { "What arrived and what was lost, by the rate offered" }
            h3 { "Lost share" span.soft { ", over Mbit/s of payload offered" } }
            figure { (drawing(top + LOST + 22.0, "Lost share by offered rate", &each, &losses)) }
            h3 { "Arrived, Mbit/s" span.soft { ", over Mbit/s of payload offered" } }
            figure {
                (drawing(ARRIVED + 22.0, "Arrived by offered rate", &each, &arrived))
                figcaption {
                    "Dots: runs of the series, the line through their means. Rings: trials of the \
                     search. Dashed: the highest rates that met the goals; shaded: the knee lies in \
                     there. The share lost is drawn by its root. Below the thin line in the second \
                     drawing packets are missing."
                }
            }
        }
    }
}

/// A level across the drawing with what it stands for.
fn level_line(at: f64, name: &str) -> Markup {
    markup! {
        line.grid x1="0" x2="100%" y1=(at) y2=(at) {}
        text.value x="0" y=(at - 3.0) { (name) }
    }
}

/// Offered rate (packets/s) and lost share of each rate that was asked for, over its repeats.
fn means(points: &[&SweepPoint]) -> Vec<(f64, f64)> {
    let asked = |p: &SweepPoint| p.asked.map_or(0.0, |r| r.0);
    let mut sorted = points.to_vec();
    sorted.order_by(|a, b| asked(a).total_cmp(&asked(b)));
    let groups = sorted.chunk_by(|a, b| asked(a) == asked(b));
    let of = |group: &[&SweepPoint]| {
        let offered: Vec<f64> = group.iter().filter_map(|p| Some(p.offered?.0)).collect();
        let lost: Vec<f64> = group.iter().filter_map(|p| p.loss_ratio()).collect();
        Some((mean(&offered)?, mean(&lost)?))
    };
    groups.filter_map(of).collect()
}

/// One size: the figures that mark it, in Mbit/s.
struct Row {
    name: String,
    /// Runs.
    dots: Vec<f64>,
    /// Results, with what they are.
    found: Vec<(String, f64)>,
}

fn rows(sweep: &Sweep) -> Markup {
    let mut rows: Vec<Row> = Vec::new();
    for search in &sweep.searches {
        let result = |r: &crate::model::sweep::GoalResult| {
            let wire = PacketRate(r.lower?).bits(search.frame.wire_bytes()).mbps();
            Some((r.goal.name.clone(), wire))
        };
        rows.push(Row {
            name: format!("{} bytes", search.frame.0),
            dots: Vec::new(),
            found: search.results.iter().filter_map(result).collect(),
        });
    }
    let mut points: Vec<&SweepPoint> = sweep.points.iter().filter(|p| p.is_valid()).collect();
    points.order_by(|a, b| a.size.cmp(&b.size));
    for group in points.chunk_by(|a, b| a.size == b.size) {
        let dots: Vec<f64> = group.iter().map(|p| p.goodput.mbps()).collect();
        let size = group.first().map_or(0, |p| p.size);
        let found = mean(&dots).map(|mean| (String::new(), mean)).into_iter().collect();
        rows.push(Row { name: format!("{} {size}", sweep.kind), dots, found });
    }
    let values =
        rows.iter().flat_map(|r| r.dots.iter().copied().chain(r.found.iter().map(|f| f.1)));
    let highest = values.fold(0.0, f64::max);
    let Some(scale) = Scale::around([0.0, highest].into_iter()).filter(|_| highest > 0.0) else {
        return markup! {};
    };
    let bottom = rows.len() as f64 * ROW;
    let ticks: Vec<(f64, String)> =
        round_steps(highest).into_iter().map(|v| (scale.at(v), format!("{v}"))).collect();
    let words = |row: &Row| {
        let found = row.found.iter().map(|(name, mbit)| format!("{name} {mbit:.0}"));
        found.collect::<Vec<_>>().join(", ").trim().to_owned()
    };
    let frames = sweep.kind == SweepKind::Frame;
    let unit = if frames { "Mbit/s on the wire" } else { "Mbit/s of payload" };
    let content = markup! {
        (axis(&ticks, 0.0, bottom))
        @for (row, n) in rows.iter().zip(0_u32..) {
            @let lane = f64::from(n) * ROW + 18.0;
            text x="0" y=(lane - 4.0) { (row.name) }
            text.value x="100%" y=(lane - 4.0) text-anchor="end" { (words(row)) }
            rect.lane x="0" y=(lane) width="100%" height="18" rx="4" opacity="0.55" {}
            @for dot in &row.dots { circle.dot cx=(per_cent(scale.at(*dot))) cy=(lane + 9.0) r="3" {} }
            @for (n, (_, mbit)) in row.found.iter().enumerate() {
                circle class=(if n == 0 { "mean" } else { "ring" }) cx=(per_cent(scale.at(*mbit))) cy=(lane + 9.0) r="5" {}
            }
        }
    };
    let each: Vec<String> = rows.iter().map(|r| format!("{}: {}", r.name, words(r))).collect();
    markup! {
        section {
            h2 { "By " (sweep.kind) ", " (unit) }
            figure {
                (drawing(bottom + 22.0, &format!("{unit} by {}", sweep.kind), &each.join("; "), &content))
                figcaption {
                    @if frames {
                        "The highest rates that met the goals, the first (" (goal_names(sweep))
                        ") filled; preamble and gap between frames count."
                    } @else { "Small dots: single runs. Large: their mean." }
                }
            }
        }
    }
}

fn goal_names(sweep: &Sweep) -> String {
    let first = sweep.searches.first();
    let names = first.iter().flat_map(|s| &s.results).map(|r| r.goal.name.clone());
    names.collect::<Vec<_>>().join(", then ")
}
