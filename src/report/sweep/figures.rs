//! Drawings of a sweep: what arrived and what was lost over the rate, with the knee and the rates
//! that met the goals; or a row for each size.

use crate::decide::experiment::stats::mean;
use crate::model::ethernet::PacketRate;
use crate::model::order::InOrder;
use crate::model::sweep::{RateSearch, Sweep, SweepKind, SweepPoint};
use crate::report::document::{
    Axis, Block, Chart, Curve, Figure, Mark, MarkKind, Section, Strip, Strips,
};
use crate::report::render::chart::round_steps;

/// Heights of the drawings of what arrived and what was lost, and of a lane, in pixels.
const ARRIVED: f64 = 170.0;
const LOST: f64 = 130.0;
const LANE: f64 = 18.0;

/// Shares of loss that are named beside the drawing.
const LEVELS: [f64; 8] = [0.0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0];

/// The drawings; empty where no run stands.
pub(super) fn section(sweep: &Sweep) -> Section {
    match sweep.kind {
        SweepKind::Rate => over_rate(sweep),
        SweepKind::Frame | SweepKind::Mss | SweepKind::Mtu => by_size(sweep),
    }
}

/// Payload rate in Mbit/s of so many packets of the point's frame.
fn mbit(point: &SweepPoint, packets: f64) -> f64 {
    PacketRate(packets).bits(point.frame.udp_payload()).mbps()
}

fn over_rate(sweep: &Sweep) -> Section {
    let stands = |p: &&SweepPoint| p.loss_ratio().is_some();
    let series: Vec<&SweepPoint> = sweep.points.iter().filter(stands).collect();
    let trials = sweep.searches.iter().flat_map(|s| &s.trials);
    let trials: Vec<&SweepPoint> = trials.filter(stands).collect();
    let all = || series.iter().chain(&trials);
    let Some(first) = all().next() else { return Section::default() };
    let offered = |p: &SweepPoint| mbit(p, p.offered.map_or(0.0, |r| r.0));
    let lost = |p: &SweepPoint| p.loss_ratio().unwrap_or(0.0);
    let highest = all().map(|p| offered(p)).fold(0.0, f64::max);
    let worst = all().map(|p| lost(p)).fold(0.01, f64::max);
    let means = means(&series);
    let knee = sweep.knee.as_ref();
    let knee = knee.and_then(|k| Some((k.holds_up_to?, k.fails_at?)));
    let results = sweep.searches.iter().flat_map(|s| &s.results);
    let found = results.filter_map(|r| {
        let at = mbit(first, r.lower?);
        Some((at, format!("{} {at:.0} Mbit/s", r.goal.name)))
    });
    let found: Vec<(f64, String)> = found.collect();
    let across = "Mbit/s of payload offered";
    let losses = Curve {
        across: across.to_owned(),
        up: "lost share".to_owned(),
        counts: false,
        range: (0.0, worst),
        height: LOST,
        // A thousandth must differ visibly from nothing although another rate lost half.
        by_root: true,
        levels: LEVELS.map(|level| (level, format!("{} %", level * 100.0))).to_vec(),
        zero: None,
        diagonal: false,
        shaded: knee.map(|(from, to)| (mbit(first, from), mbit(first, to))),
        found: found.clone(),
        line: means.iter().map(|(rate, lost)| (mbit(first, *rate), *lost)).collect(),
        points: trials
            .iter()
            .map(|p| (offered(p), lost(p), MarkKind::Trial))
            .chain(series.iter().map(|p| (offered(p), lost(p), MarkKind::Single)))
            .collect(),
        words: |lost| format!("{:.2} %", lost * 100.0),
    };
    let arrived = |rate: f64, lost: f64| rate * (1.0 - lost);
    let arrivals = Curve {
        up: "arrived, Mbit/s".to_owned(),
        range: (0.0, highest),
        height: ARRIVED,
        by_root: false,
        levels: round_steps(highest).into_iter().map(|v| (v, format!("{v}"))).collect(),
        diagonal: true,
        found: found.into_iter().map(|(at, _)| (at, String::new())).collect(),
        line: losses.line.iter().map(|(rate, lost)| (*rate, arrived(*rate, *lost))).collect(),
        points: series
            .iter()
            .map(|p| (offered(p), arrived(offered(p), lost(p)), MarkKind::Single))
            .collect(),
        words: |rate| format!("{rate:.1}"),
        ..losses.clone()
    };
    let figure = |heading: &str, curve: Curve, caption: &str| {
        Block::Figure(Figure {
            heading: format!("{heading}, over {across}"),
            title: format!("{heading} by offered rate"),
            chart: Chart::Curve(curve),
            caption: caption.to_owned(),
            in_table: true,
        })
    };
    Section::detail("What arrived and what was lost, by the rate offered").with([
        figure("Lost share", losses, ""),
        figure(
            "Arrived, Mbit/s",
            arrivals,
            "dots: runs of the series, the line through their means. Rings: trials of the search. \
             Dashed: the highest rates that met the goals; shaded: the knee lies in there. The \
             share lost is drawn by its root. Below the thin line in the second drawing packets \
             are missing",
        ),
    ])
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

/// A row for each frame size that was searched and each size of a series.
fn by_size(sweep: &Sweep) -> Section {
    let mut rows: Vec<Strip> = sweep.searches.iter().map(searched).collect();
    let mut points: Vec<&SweepPoint> = sweep.points.iter().filter(|p| p.is_valid()).collect();
    points.order_by(|a, b| a.size.cmp(&b.size));
    for group in points.chunk_by(|a, b| a.size == b.size) {
        let rates: Vec<f64> = group.iter().map(|p| p.goodput.mbps()).collect();
        let mean = mean(&rates);
        let mut marks: Vec<Mark> =
            rates.iter().map(|rate| Mark::new(MarkKind::Single, *rate)).collect();
        marks.extend(mean.map(|mean| Mark::new(MarkKind::Mean, mean)));
        rows.push(Strip {
            name: format!("{} {}", sweep.kind, group.first().map_or(0, |p| p.size)),
            words: mean.map_or_else(String::new, |mean| format!("{mean:.0}")),
            lane: LANE,
            marks,
            ..Strip::default()
        });
    }
    if rows.iter().all(|row| row.marks.is_empty()) {
        return Section::default();
    }
    let (unit, caption) = match sweep.kind {
        SweepKind::Frame => {
            let results = sweep.searches.first().into_iter().flat_map(|s| &s.results);
            let names: Vec<&str> = results.map(|r| r.goal.name.as_str()).collect();
            let caption = format!(
                "the highest rates that met the goals, the first ({}) filled; preamble and gap \
                 between frames count",
                names.join(", then ")
            );
            ("Mbit/s on the wire", caption)
        }
        _ => ("Mbit/s of payload", "small dots: single runs; large: their mean".to_owned()),
    };
    let chart = Chart::Strips(Strips {
        axis: Axis::FromZero { highest: 0.0 },
        name: sweep.kind.to_string(),
        value: unit.to_owned(),
        rows,
    });
    Section::detail(format!("By {}, {unit}", sweep.kind)).with([Block::Figure(Figure {
        heading: String::new(),
        title: format!("{unit} by {}", sweep.kind),
        chart,
        caption,
        in_table: true,
    })])
}

fn searched(search: &RateSearch) -> Strip {
    let mut found: Vec<(&str, f64)> = Vec::new();
    for result in &search.results {
        let wire = |packets: f64| PacketRate(packets).bits(search.frame.wire_bytes()).mbps();
        found.extend(result.lower.map(|packets| (result.goal.name.as_str(), wire(packets))));
    }
    let words: Vec<String> = found.iter().map(|(name, mbit)| format!("{name} {mbit:.0}")).collect();
    let mark = |(n, (_, mbit)): (usize, &(&str, f64))| {
        Mark::new(if n == 0 { MarkKind::Mean } else { MarkKind::Ring }, *mbit)
    };
    Strip {
        name: format!("{} bytes", search.frame.0),
        words: words.join(", "),
        lane: LANE,
        marks: found.iter().enumerate().map(mark).collect(),
        ..Strip::default()
    }
}
