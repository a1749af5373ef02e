//! From cells to one response per candidate, direction and block.

use std::collections::{BTreeMap, BTreeSet};

use super::effect::Effect;
use super::line::{self, AtLine, usable_rate};
use super::{CONFIDENCE, stats};
use crate::model::goal::Quantity;
use crate::model::measurement::{CellRole, Direction, Experiment};

/// By block, candidate and direction.
type Responses<'a> = BTreeMap<(u32, &'a str, Direction), Vec<f64>>;

/// The responses of an experiment's valid cells.
pub(super) struct Levels<'a> {
    experiment: &'a Experiment,
    /// Rates as logarithms.
    rates: Responses<'a>,
    /// The response by which a direction is compared: rates, or CPU time where they fill the line.
    responses: Responses<'a>,
    /// Values of each term of the objective.
    terms: Vec<Responses<'a>>,
    /// Where candidates fill the line.
    pub(super) at_line: Vec<AtLine>,
    /// Blocks that were begun, ascending.
    pub(super) blocks: Vec<u32>,
    /// Cells that lie far below others of their candidate and block, where there are several: then
    /// candidates are compared one cell with one cell, by ranks. The mean of the baseline's three
    /// cells would dip more often than a candidate's one, and less deep.
    pub(super) dips: Option<usize>,
}

/// A cell dips that lies so many robust standard deviations below, and at least by 15 %.
const DIP: (f64, f64) = (6.0, 0.162_5);
/// From so many on, and such a share of all, dips are no accident.
const DIPS: (usize, f64) = (2, 0.02);

impl<'a> Levels<'a> {
    pub(super) fn new(experiment: &'a Experiment) -> Self {
        Self::of(experiment, dips(experiment))
    }

    /// Cells one against one, whether they dip or not.
    pub(super) fn one_by_one(experiment: &'a Experiment) -> Self {
        Self::of(experiment, Some(0))
    }

    fn of(experiment: &'a Experiment, dips: Option<usize>) -> Self {
        let at_line = line::at_line(experiment);
        let (mut rates, mut responses) = (Responses::new(), Responses::new());
        let objective = experiment.goal.objective.terms();
        let mut terms = vec![Responses::new(); objective.len()];
        let mut blocks = BTreeSet::new();
        // Where one cell stands for the baseline, the one among the others does, if it is there.
        let (body, ends): (Vec<_>, Vec<_>) =
            experiment.cells.iter().partition(|cell| cell.role == CellRole::Body);
        for cell in body.into_iter().chain(ends) {
            blocks.insert(cell.block);
            let Some(rate) = usable_rate(cell) else { continue };
            let direction = cell.measurement.direction;
            let key = (cell.block, cell.candidate.as_str(), direction);
            if dips.is_some() && rates.contains_key(&key) {
                continue;
            }
            let by_cpu = at_line
                .iter()
                .any(|at| at.by_cpu && at.direction == direction)
                .then(|| line::per_cpu_second(cell, experiment.class))
                .flatten();
            rates.entry(key).or_default().push(rate.ln());
            responses.entry(key).or_default().push(by_cpu.unwrap_or(rate.ln()));
            for (term, found) in objective.iter().zip(&mut terms) {
                let own = term.subject.response(&cell.measurement, experiment.class);
                let instead = by_cpu.filter(|_| term.subject.quantity == Quantity::Throughput);
                if let Some(ln) = own {
                    found.entry(key).or_default().push(instead.unwrap_or(ln));
                }
            }
        }
        let blocks = blocks.into_iter().collect();
        Self { experiment, rates, responses, terms, at_line, blocks, dips }
    }

    /// The effect that contrasts show.
    pub(super) fn effect(&self, contrasts: &[Option<f64>]) -> Option<Effect> {
        match self.dips {
            Some(_) => Effect::by_ranks(contrasts, CONFIDENCE),
            None => Effect::of(contrasts, CONFIDENCE),
        }
    }

    /// Mean response of a candidate in a block. The baseline runs three times per block (open,
    /// body, close), the others once; whatever of it is valid counts.
    pub(super) fn at(&self, block: u32, name: &str, direction: Direction) -> Option<f64> {
        stats::mean(self.responses.get(&(block, name, direction))?)
    }

    /// The objective in a block: the weighted mean of its terms, each the mean over the directions
    /// that it is about; `None` if one is missing, as the rest would not be comparable with a block
    /// that has them all.
    pub(super) fn overall(&self, block: u32, name: &str) -> Option<f64> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (term, found) in self.experiment.goal.objective.terms().iter().zip(&self.terms) {
            let about = |d: &&Direction| term.subject.direction.is_none_or(|only| only == **d);
            let directions = self.experiment.directions.iter().filter(about);
            let each: Option<Vec<f64>> = directions
                .map(|d| stats::mean(found.get(&(block, name, *d)).map_or(&[][..], Vec::as_slice)))
                .collect();
            sum += term.weight * stats::mean(&each?)?;
            weights += term.weight;
        }
        (weights > 0.0).then_some(sum / weights)
    }

    /// `a` against `b` within each block; in one direction, or over all.
    pub(super) fn contrasts(
        &self,
        a: &str,
        b: &str,
        direction: Option<Direction>,
    ) -> Vec<Option<f64>> {
        let level = |block, name| match direction {
            Some(direction) => self.at(block, name, direction),
            None => self.overall(block, name),
        };
        self.blocks.iter().map(|&block| Some(level(block, a)? - level(block, b)?)).collect()
    }

    /// Rates of a candidate in one direction as logarithms, one per block that has one.
    pub(super) fn series(&self, name: &str, direction: Direction) -> Vec<f64> {
        let rate = |block: u32| stats::mean(self.rates.get(&(block, name, direction))?);
        self.blocks.iter().filter_map(|&block| rate(block)).collect()
    }

    /// Responses of the baseline that opened and closed each block, where both are valid.
    pub(super) fn open_and_close(&self) -> Vec<(f64, f64)> {
        let mut ends: BTreeMap<(u32, Direction), [Option<f64>; 2]> = BTreeMap::new();
        for cell in &self.experiment.cells {
            let Some(rate) = usable_rate(cell) else { continue };
            let [open, close] = ends.entry((cell.block, cell.measurement.direction)).or_default();
            match cell.role {
                CellRole::Open => *open = Some(rate.ln()),
                CellRole::Close => *close = Some(rate.ln()),
                CellRole::Body => {}
            }
        }
        ends.into_values().filter_map(|[open, close]| Some((open?, close?))).collect()
    }
}

/// Cells that dip, where there are enough of them for it to be no accident.
fn dips(experiment: &Experiment) -> Option<usize> {
    let mut cells: Vec<((&str, Direction), u32, f64)> = Vec::new();
    for cell in &experiment.cells {
        if let Some(rate) = usable_rate(cell) {
            cells.push(((&cell.candidate, cell.measurement.direction), cell.block, rate.ln()));
        }
    }
    // What is left of each without the middle of its candidate and direction, then of its block.
    let mut by_candidate: BTreeMap<(&str, Direction), Vec<f64>> = BTreeMap::new();
    cells.iter().for_each(|(kind, _, y)| by_candidate.entry(*kind).or_default().push(*y));
    let middle = |of: &[f64]| stats::median(of).unwrap_or(0.0);
    let usual: BTreeMap<_, f64> =
        by_candidate.iter().map(|(kind, of)| (*kind, middle(of))).collect();
    let mut by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (kind, block, y) in &mut cells {
        *y -= usual.get(kind).copied().unwrap_or(0.0);
        by_block.entry(*block).or_default().push(*y);
    }
    let of_block: BTreeMap<u32, f64> = by_block.iter().map(|(b, of)| (*b, middle(of))).collect();
    let left = cells.iter().map(|(_, block, y)| y - of_block.get(block).copied().unwrap_or(0.0));
    let left: Vec<f64> = left.collect();
    let spread = 1.4826 * middle(&left.iter().map(|y| y.abs()).collect::<Vec<_>>());
    let deep = left.iter().filter(|y| **y < -(DIP.0 * spread).max(DIP.1)).count();
    (deep >= DIPS.0 && deep as f64 >= DIPS.1 * left.len() as f64).then_some(deep)
}
