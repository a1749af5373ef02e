//! Rates as drawings: every cell a dot, the mean with its interval.

use crate::decide::experiment::stats::mean;
use crate::decide::experiment::{Analysis, CandidateResult, Rate, usable_rate};
use crate::model::measurement::{Cell, CellRole, Direction, Experiment};
use crate::model::units::BitRate;
use crate::report::document::{
    Axis, Block, Chart, Curve, Figure, Mark, MarkKind, Section, Strip, Strips,
};
use crate::report::render::chart::round_steps;
use crate::report::words::mbps;

/// Height of the lane that holds a candidate's dots, in pixels.
const LANE: f64 = 32.0;

/// Height of a drawing of rates over time, in pixels.
const OVER_TIME: f64 = 90.0;

/// Most single values in a drawing of rates over time; of more, some are drawn.
const POINTS: usize = 600;

/// A plain bar for each candidate, or each of its directions; `None` where nothing was measured.
pub(super) fn bars(
    experiment: &Experiment,
    analysis: &Analysis,
    marked: &[String],
) -> Option<Figure> {
    let alone = experiment.directions.len() == 1;
    let mut rows = Vec::new();
    for candidate in &analysis.candidates {
        let is_best = marked.contains(&candidate.name);
        for (n, rate) in candidate.rates.iter().enumerate() {
            rows.push(Strip {
                name: match alone {
                    true => candidate.name.clone(),
                    false => format!("{} {}", candidate.name, rate.direction),
                },
                words: rate.mean.map_or_else(|| in_words(rate), mbps),
                is_part: n > 0,
                bar: rate.mean.map(BitRate::mbps),
                is_best,
                ..Strip::default()
            });
        }
    }
    let title = match experiment.directions.as_slice() {
        [direction] => format!("Mbit/s {direction} of each candidate"),
        _ => "Mbit/s of each candidate".to_owned(),
    };
    rows.iter().any(|row| row.bar.is_some()).then(|| Figure {
        heading: String::new(),
        title,
        chart: Chart::Strips(Strips {
            axis: Axis::FromZero { highest: 0.0 },
            name: "candidate".to_owned(),
            value: "Mbit/s".to_owned(),
            rows,
        }),
        caption: match marked.is_empty() {
            true => "mbit/s of payload, mean over the blocks".to_owned(),
            false => "mbit/s of payload, mean over the blocks; what is marked below stands out"
                .to_owned(),
        },
        in_table: true,
    })
}

/// The rate within the measured windows: a drawing for each candidate and direction.
pub(super) fn over_time(experiment: &Experiment) -> Section {
    let cells = || experiment.cells.iter().filter(|cell| usable_rate(cell).is_some());
    let all = cells().flat_map(pieces).map(|(_, rate)| rate);
    let highest = all.fold(0.0, f64::max);
    let mut section = Section::folded("Rate over time");
    for candidate in &experiment.candidates {
        for &direction in &experiment.directions {
            let own =
                |c: &&Cell| c.candidate == candidate.name && c.measurement.direction == direction;
            let series: Vec<Vec<(f64, f64)>> = cells().filter(own).map(pieces).collect();
            let longest = series.iter().map(Vec::len).max().unwrap_or(0);
            let line = (0..longest).filter_map(|n| {
                let at: Vec<(f64, f64)> = series.iter().filter_map(|s| s.get(n)).copied().collect();
                let (seconds, rates): (Vec<f64>, Vec<f64>) = at.into_iter().unzip();
                Some((mean(&seconds)?, mean(&rates)?))
            });
            let line: Vec<(f64, f64)> = line.collect();
            if line.len() < 2 {
                continue;
            }
            let every = series.iter().map(Vec::len).sum::<usize>().div_ceil(POINTS).max(1);
            let points = series.iter().flatten().step_by(every);
            section.blocks.push(Block::Figure(Figure {
                heading: format!("{} {direction}, Mbit/s over seconds", candidate.name),
                title: format!("Rate {direction} under {} over time", candidate.name),
                chart: Chart::Curve(Curve {
                    across: "seconds".to_owned(),
                    up: "Mbit/s".to_owned(),
                    counts: false,
                    range: (0.0, highest),
                    height: OVER_TIME,
                    by_root: false,
                    levels: round_steps(highest).into_iter().map(|v| (v, format!("{v}"))).collect(),
                    zero: None,
                    diagonal: false,
                    shaded: None,
                    found: Vec::new(),
                    points: points.map(|(at, rate)| (*at, *rate, MarkKind::Trial)).collect(),
                    line,
                    words: |rate| format!("{rate:.0}"),
                }),
                caption: String::new(),
                in_table: false,
            }));
        }
    }
    if !section.blocks.is_empty() {
        section.blocks.push(Block::note(
            "rings: pieces of the measured windows, one window for each measurement that stands; \
             line: their mean. A rate that holds is level; one that falls tells of heat, of a \
             slow start or of other work",
        ));
    }
    section
}

/// The middle of each piece of a cell's window in seconds, and its rate in Mbit/s.
fn pieces(cell: &Cell) -> Vec<(f64, f64)> {
    let series = cell.measurement.series.iter().filter(|piece| piece.seconds > 0.0);
    let pieces = series.map(|piece| {
        let bits = 8.0 * piece.bytes.iter().sum::<u64>() as f64 / piece.seconds;
        (piece.at - piece.seconds / 2.0, BitRate(bits).mbps())
    });
    pieces.filter(|(at, rate)| at.is_finite() && rate.is_finite()).collect()
}

/// A drawing for each direction.
pub(super) fn section(experiment: &Experiment, analysis: &Analysis) -> Section {
    // One scale for all directions, from zero, so that lengths can be compared.
    let rates = experiment.cells.iter().filter_map(usable_rate);
    let intervals = analysis
        .candidates
        .iter()
        .flat_map(|c| &c.rates)
        .filter_map(|r| Some(r.interval?.1.mbps()));
    let highest = rates.map(|rate| BitRate(rate).mbps()).chain(intervals).fold(0.0, f64::max);
    let mut section = Section::folded("Rates");
    for &direction in &experiment.directions {
        let of = |candidate| strip(experiment, candidate, direction);
        let rows: Vec<Strip> = analysis.candidates.iter().filter_map(of).collect();
        let heading = format!("{direction}, Mbit/s");
        if rows.iter().all(|row| row.marks.is_empty()) {
            section.blocks.push(Block::Heading(heading));
            section.blocks.push(Block::note("no valid measurement"));
            continue;
        }
        section.blocks.push(Block::Figure(Figure {
            heading,
            title: format!("Rate {direction} per candidate in Mbit/s"),
            chart: Chart::Strips(Strips {
                axis: Axis::FromZero { highest },
                name: "candidate".to_owned(),
                value: format!("{direction} Mbit/s, mean (95 % CI)"),
                rows,
            }),
            caption: String::new(),
            in_table: false,
        }));
    }
    section.with([Block::note(
        "each dot is one measurement, the first block on top; rings are the baseline that opens and \
         closes each block. Bar and figures are the mean over the blocks with its 95 % interval. \
         That holds what changed from block to block too, so two candidates can differ although \
         their bars overlap: the ratios above tell",
    )])
}

fn strip(
    experiment: &Experiment,
    candidate: &CandidateResult,
    direction: Direction,
) -> Option<Strip> {
    let rate = candidate.rates.iter().find(|r| r.direction == direction)?;
    let blocks = experiment.cells.iter().map(|c| c.block).max().unwrap_or(0) + 1;
    let own = |c: &&Cell| c.candidate == candidate.name && c.measurement.direction == direction;
    let dot = |cell: &Cell| {
        let kind = match cell.role {
            CellRole::Body => MarkKind::Single,
            _ => MarkKind::Trial,
        };
        let mark = Mark::new(kind, BitRate(usable_rate(cell)?).mbps());
        Some(Mark { height: (f64::from(cell.block) + 0.5) / f64::from(blocks), ..mark })
    };
    let mut marks: Vec<Mark> = experiment.cells.iter().filter(own).filter_map(dot).collect();
    marks.extend(rate.mean.map(|mean| Mark::new(MarkKind::Mean, mean.mbps())));
    Some(Strip {
        name: candidate.name.clone(),
        words: in_words(rate),
        lane: LANE,
        interval: rate.interval.map(|(low, high)| (low.mbps(), high.mbps())),
        marks,
        ..Strip::default()
    })
}

fn in_words(rate: &Rate) -> String {
    match (rate.mean, rate.interval) {
        (Some(mean), Some((low, high))) => {
            format!("{} ({} to {})", mbps(mean), mbps(low), mbps(high))
        }
        (Some(mean), None) => mbps(mean),
        (None, _) if rate.refused > 0 => "refused".to_owned(),
        (None, _) => "not measured".to_owned(),
    }
}
