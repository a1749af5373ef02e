//! Rates as drawings: every cell a dot, the mean with its interval.

use crate::decide::experiment::{Analysis, CandidateResult, Rate, usable_rate};
use crate::model::measurement::{Cell, CellRole, Direction, Experiment};
use crate::model::units::BitRate;
use crate::report::document::{Axis, Block, Chart, Figure, Mark, MarkKind, Section, Strip, Strips};
use crate::report::words::mbps;

/// Height of the lane that holds a candidate's dots, in pixels.
const LANE: f64 = 32.0;

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
    let mut section = Section::detail("Rates");
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
