//! Rate per candidate and direction: every cell a dot, the mean with its interval.

use maud::{Markup, html as markup};

use super::chart::{Scale, axis, drawing, per_cent, round_steps};
use crate::experiment::{Analysis, Rate, usable_rate};
use crate::model::measurement::{Cell, CellRole, Direction, Experiment};
use crate::model::units::BitRate;
use crate::report::words;

const ROW: f64 = 58.0;
const LANE_TOP: f64 = 20.0;
const LANE: f64 = 32.0;

pub(super) fn section(experiment: &Experiment, analysis: &Analysis) -> Markup {
    // One scale for all directions, from zero, so that lengths can be compared.
    let rates = experiment.cells.iter().filter(|c| is_usable(c)).map(|c| c.measurement.rate());
    let intervals =
        analysis.candidates.iter().flat_map(|c| &c.rates).filter_map(|r| Some(r.interval?.1));
    let highest = rates.chain(intervals).map(BitRate::mbps).fold(0.0, f64::max);
    markup! {
        section {
            h2 { "Rates" }
            @for &direction in &experiment.directions {
                (figure(experiment, analysis, direction, highest))
            }
            p.soft {
                "Each dot is one measurement, the first block on top; rings are the baseline that \
                 opens and closes each block. Bar and figures are the mean over the blocks with \
                 its 95 % interval. That holds what changed from block to block too, so two \
                 candidates can differ although their bars overlap: the ratios above tell."
            }
        }
    }
}

fn figure(
    experiment: &Experiment,
    analysis: &Analysis,
    direction: Direction,
    highest: f64,
) -> Markup {
    let rows: Vec<(&str, &Rate, Vec<&Cell>)> = analysis
        .candidates
        .iter()
        .filter_map(|c| {
            let rate = c.rates.iter().find(|r| r.direction == direction)?;
            Some((c.name.as_str(), rate, usable(experiment, &c.name, direction)))
        })
        .collect();
    let heading = markup! { h3 { (direction) ", Mbit/s" } };
    let any = rows.iter().any(|(_, _, cells)| !cells.is_empty());
    let Some(scale) = Scale::around([0.0, highest].into_iter()).filter(|_| any) else {
        return markup! { (heading) p.soft { "No valid measurement." } };
    };

    let bottom = rows.len() as f64 * ROW;
    let ticks: Vec<(f64, String)> =
        round_steps(highest).into_iter().map(|v| (scale.at(v), format!("{v}"))).collect();
    let blocks = experiment.cells.iter().map(|c| c.block).max().unwrap_or(0) + 1;
    let content = markup! {
        (axis(&ticks, 0.0, bottom))
        @for ((name, rate, cells), index) in rows.iter().zip(0_u32..) {
            (row(name, rate, cells, f64::from(index) * ROW, scale, blocks))
        }
    };
    let description: Vec<String> =
        rows.iter().map(|(name, rate, _)| format!("{name}: {}", in_words(rate))).collect();
    markup! {
        (heading)
        figure {
            (drawing(
                bottom + 22.0,
                &format!("Rate {direction} per candidate in Mbit/s"),
                &description.join("; "),
                &content,
            ))
        }
    }
}

fn usable<'a>(experiment: &'a Experiment, name: &str, direction: Direction) -> Vec<&'a Cell> {
    experiment
        .cells
        .iter()
        .filter(|c| c.candidate == name && c.measurement.direction == direction)
        .filter(|c| is_usable(c))
        .collect()
}

fn is_usable(cell: &Cell) -> bool {
    usable_rate(cell).is_some()
}

fn row(name: &str, rate: &Rate, cells: &[&Cell], top: f64, scale: Scale, blocks: u32) -> Markup {
    let lane = top + LANE_TOP;
    let middle = lane + LANE / 2.0;
    let height =
        |block: u32| lane + 4.0 + (f64::from(block) + 0.5) / f64::from(blocks) * (LANE - 8.0);
    markup! {
        text x="0" y=(top + 14.0) { (name) }
        text.value x="100%" y=(top + 14.0) text-anchor="end" { (in_words(rate)) }
        rect.lane x="0" y=(lane) width="100%" height=(LANE) rx="4" opacity="0.55" {}
        @for cell in cells {
            @let x = per_cent(scale.at(cell.measurement.rate().mbps()));
            @if cell.role == CellRole::Body {
                circle.dot cx=(x) cy=(height(cell.block)) r="3" {}
            } @else {
                circle.ends cx=(x) cy=(height(cell.block)) r="2.5" {}
            }
        }
        @if let Some((low, high)) = rate.interval {
            line.ci x1=(per_cent(scale.at(low.mbps()))) x2=(per_cent(scale.at(high.mbps())))
                y1=(middle) y2=(middle) {}
        }
        @if let Some(mean) = rate.mean {
            circle.mean cx=(per_cent(scale.at(mean.mbps()))) cy=(middle) r="5" {}
        }
    }
}

fn in_words(rate: &Rate) -> String {
    match (rate.mean, rate.interval) {
        (Some(mean), Some((low, high))) => {
            format!("{} ({} to {})", words::mbps(mean), words::mbps(low), words::mbps(high))
        }
        (Some(mean), None) => words::mbps(mean),
        (None, _) if rate.refused > 0 => "refused".to_owned(),
        (None, _) => "not measured".to_owned(),
    }
}
