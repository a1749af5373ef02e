//! From an experiment's record to what it shows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::effect::{BAND, Effect};
use super::effects::{self, FactorEffect};
use super::levels::Levels;
use super::line::{self, AtLine, usable_rate};
use super::verdict::{self, Best, Verdict};
use super::{CONFIDENCE, MIN_BLOCKS, stats};
use crate::model::goal::Design;
use crate::model::measurement::{Direction, Experiment, RefusalCode};
use crate::model::units::BitRate;

/// Rate of a candidate in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rate {
    /// Which way.
    pub direction: Direction,
    /// Cells that count.
    pub cells: usize,
    /// Cells that were refused.
    pub refused: usize,
    /// Cells at 98 % of the line's rate or more.
    pub censored: usize,
    /// Geometric mean of the blocks; where cells dip the middle by ranks, as the ratios are.
    pub mean: Option<BitRate>,
    /// Interval of the mean over the blocks. It holds what changed between blocks too, so two
    /// overlapping ones do not say that two candidates are equal: that is what the paired
    /// [`Effect`] is for.
    pub interval: Option<(BitRate, BitRate)>,
}

/// Ratios to the baseline as they came out, however few blocks they rest on: no interval, so no
/// claim.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Observed {
    /// Over all directions.
    pub overall: Option<f64>,
    /// In each.
    pub directions: Vec<(Direction, Option<f64>)>,
}

/// Results of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateResult {
    /// Name.
    pub name: String,
    /// Rates per direction, in the experiment's order.
    pub rates: Vec<Rate>,
    /// Against the baseline over all directions; p by max-T over the candidates.
    pub overall: Option<Effect>,
    /// Against the baseline per direction; p by sign-flip, Holm over candidates and directions.
    pub directions: Vec<(Direction, Option<Effect>)>,
    /// The bare ratios, which need no three blocks.
    pub observed: Observed,
    /// The claim that the figures allow.
    pub verdict: Verdict,
}

/// Change of the baseline over the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Drift {
    /// Change from one block to the next, as a share (0.01 is +1 %).
    pub per_block: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
}

impl Drift {
    /// True if the interval leaves no change out.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// How much the baseline differs from itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Noise {
    /// Coefficient of variation of one cell (0.05 is 5 %), from the baseline that opened and the
    /// one that closed the same block.
    pub cv: Option<f64>,
    /// Pairs that it rests on.
    pub pairs: usize,
    /// Change over the run.
    pub drift: Option<Drift>,
}

/// Refused cells by reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusalCount {
    /// Which rule.
    pub code: RefusalCode,
    /// Cells that it refused (a cell refused by two rules counts for both).
    pub cells: usize,
    /// The first such cell's explanation.
    pub example: String,
}

/// Results of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// Why nothing can be said, where that is so (exit code 6).
    pub refused: Option<String>,
    /// Why the outcome is exploratory and no proof, where that is so.
    pub exploratory: Vec<String>,
    /// Blocks that were begun.
    pub blocks: usize,
    /// Blocks in which something could be compared.
    pub usable_blocks: usize,
    /// In the experiment's order.
    pub candidates: Vec<CandidateResult>,
    /// The best set; `None` where there is nothing to compare.
    pub best: Option<Best>,
    /// Effects of each factor, and of each two together; empty unless it is a full factorial.
    pub effects: Vec<FactorEffect>,
    /// The noise floor.
    pub noise: Noise,
    /// Directions in which the line sets the rate.
    pub at_line: Vec<AtLine>,
    /// Cells that ran.
    pub cells: usize,
    /// Cells that were refused.
    pub refused_cells: usize,
    /// Why they were.
    pub refusals: Vec<RefusalCount>,
    /// Experiment that would tell what was left open; `None` where nothing was.
    pub settle: Option<Settle>,
    /// Notes that a reader must know.
    pub notes: Vec<String>,
}

/// The experiment that would tell what one left open.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Settle {
    /// Blocks in which nine of ten experiments show a difference of 3 %, or such as came out if that
    /// is more.
    pub blocks: u32,
    /// Minutes that they take, about.
    pub minutes: f64,
}

impl Analysis {
    /// The result of a candidate.
    #[must_use]
    pub fn candidate(&self, name: &str) -> Option<&CandidateResult> {
        self.candidates.iter().find(|c| c.name == name)
    }
}

/// Analyses an experiment.
#[must_use]
pub fn analyse(experiment: &Experiment) -> Analysis {
    let levels = Levels::new(experiment);
    let usable_blocks = usable_blocks(experiment, &levels);
    let refusals = refusals(experiment);
    let refused_cells = experiment.cells.iter().filter(|c| usable_rate(c).is_none()).count();
    let mut candidates = effects(experiment, &levels);
    let alone = candidates.iter().all(|c| c.name == experiment.baseline);
    let compared = candidates.iter().any(|c| c.overall.is_some());
    let refused = (usable_blocks < MIN_BLOCKS || !(alone || compared))
        .then(|| why_refused(experiment, &levels, usable_blocks, refused_cells));
    for candidate in &mut candidates {
        candidate.rates = experiment
            .directions
            .iter()
            .map(|d| rate(experiment, &levels, &candidate.name, *d))
            .collect();
        if candidate.name != experiment.baseline {
            candidate.verdict = verdict::judge(candidate.overall.as_ref());
        }
    }

    let best = if refused.is_none() { verdict::best(experiment, &levels) } else { None };
    let settle = if refused.is_none() { settle(experiment, &levels, &candidates) } else { None };
    Analysis {
        settle,
        exploratory: exploratory(experiment, &candidates, refused.is_some()),
        blocks: levels.blocks.len(),
        usable_blocks,
        best,
        effects: effects::effects(experiment, &levels),
        noise: noise(experiment, &levels),
        cells: experiment.cells.len(),
        refused_cells,
        refusals,
        notes: notes(experiment, &levels, &candidates, settle, refused.is_some()),
        at_line: levels.at_line,
        refused,
        candidates,
    }
}

/// `a` against `b` over all directions, with the interval of that one comparison; `None` with
/// fewer than [`MIN_BLOCKS`] blocks that hold both, or for a name compared with itself.
#[must_use]
pub fn compare(experiment: &Experiment, a: &str, b: &str) -> Option<Effect> {
    if a == b {
        return None;
    }
    let levels = Levels::new(experiment);
    levels.effect(&levels.contrasts(a, b, None))
}

/// `a` against `b` once more by ranks, one cell against one: what a few cells, or those that open
/// and close the blocks, have claimed does not show here.
#[must_use]
pub fn second_look(experiment: &Experiment, a: &str, b: &str) -> Option<Effect> {
    let levels = Levels::one_by_one(experiment);
    levels.effect(&levels.contrasts(a, b, None))
}

/// Blocks in which a difference of `share` is shown in nine of ten experiments, where one cell varies
/// by `cv`: its mean contrast must lie beyond the band by the interval's half and its own spread.
#[must_use]
pub fn blocks_to_show(share: f64, cv: f64, directions: usize) -> u32 {
    // The baseline is measured three times in a block.
    blocks_for(share.ln_1p(), cv * (4.0 / 3.0 / directions.max(1) as f64).sqrt())
}

/// Blocks in which a ratio is shown whose logarithm is that, where contrasts vary by `sd`.
fn blocks_for(ln: f64, sd: f64) -> u32 {
    let beyond = ln - BAND.ln();
    let enough = |blocks: &u32| {
        let n = f64::from(*blocks);
        let t = stats::t_quantile(CONFIDENCE, n - 1.0).unwrap_or(f64::INFINITY);
        // One in ten standard normal values is below -1.2816.
        beyond >= (t + 1.2816) * sd / n.sqrt()
    };
    (SHOWN_FROM..MOST_BLOCKS).find(enough).unwrap_or(MOST_BLOCKS)
}

/// Time between two cells: setting, reading back, settling, connecting.
const BETWEEN_CELLS: f64 = 0.5;

/// Experiment that would tell the undecided candidates from the baseline.
fn settle(
    experiment: &Experiment,
    levels: &Levels<'_>,
    candidates: &[CandidateResult],
) -> Option<Settle> {
    let undecided = candidates.iter().filter(|c| matches!(c.verdict, Verdict::Undecided(_)));
    let needed = undecided.filter_map(|c| {
        let effect = c.overall.as_ref()?;
        let n = effect.blocks as f64;
        let t = stats::t_quantile(CONFIDENCE, n - 1.0)?;
        let sd = effect.half_width().ln_1p() * n.sqrt() / t;
        Some(blocks_for(effect.ratio.ln().abs().max(WORTH_FINDING.ln_1p()), sd))
    });
    let run = levels.blocks.len();
    // Where it was just not enough, as many again.
    let again = u32::try_from(2 * run).unwrap_or(MOST_BLOCKS);
    let blocks = match needed.max()? {
        few if few as usize <= run => again.min(MOST_BLOCKS),
        blocks => blocks,
    };
    let cells = experiment.cells.len() as f64 / run.max(1) as f64;
    let seconds = experiment.scenario.seconds + experiment.scenario.omit + BETWEEN_CELLS;
    Some(Settle { blocks, minutes: f64::from(blocks) * cells * seconds / 60.0 })
}

/// The fewest blocks in which a sign-flip test can show anything, and the most that are worth naming.
const SHOWN_FROM: u32 = 6;
const MOST_BLOCKS: u32 = 1000;
/// A difference that an experiment should not miss.
const WORTH_FINDING: f64 = 0.03;

/// True if more blocks would be a waste: every candidate's ratio to the baseline is known to 1 %
/// or better. It looks at the width alone and never at the outcome, for stopping as soon as a
/// difference shows would find differences where there are none. Not before there are enough
/// blocks for a difference to be shown at all.
#[must_use]
pub fn precise_enough(experiment: &Experiment) -> bool {
    let levels = Levels::new(experiment);
    let mut others =
        experiment.candidates.iter().filter(|c| c.name != experiment.baseline).peekable();
    others.peek().is_some()
        && others.all(|c| {
            levels.effect(&levels.contrasts(&c.name, &experiment.baseline, None)).is_some_and(|e| {
                stats::smallest_p(e.blocks) <= 1.0 - CONFIDENCE && e.half_width() <= BAND - 1.0
            })
        })
}

/// Blocks in which the baseline and, if there is another candidate, one such are complete.
fn usable_blocks(experiment: &Experiment, levels: &Levels<'_>) -> usize {
    let mut others =
        experiment.candidates.iter().filter(|c| c.name != experiment.baseline).peekable();
    let alone = others.peek().is_none();
    let others: Vec<&str> = others.map(|c| c.name.as_str()).collect();
    levels
        .blocks
        .iter()
        .filter(|&&block| {
            levels.overall(block, &experiment.baseline).is_some()
                && (alone || others.iter().any(|name| levels.overall(block, name).is_some()))
        })
        .count()
}

fn why_refused(
    experiment: &Experiment,
    levels: &Levels<'_>,
    usable: usize,
    refused_cells: usize,
) -> String {
    let cells = experiment.cells.len();
    let baseline_lost = !levels.blocks.is_empty()
        && levels.blocks.iter().all(|b| levels.overall(*b, &experiment.baseline).is_none());
    if cells == 0 {
        "no cell was measured".to_owned()
    } else if refused_cells == cells {
        format!("all {cells} cells were refused")
    } else if baseline_lost {
        format!(
            "the baseline {} has no complete block: there is nothing to compare with",
            experiment.baseline
        )
    } else if usable < MIN_BLOCKS {
        match usable {
            0 => format!("no usable block; at least {MIN_BLOCKS} are needed"),
            1 => format!(
                "1 usable block: one replicate has no interval, so what came out is shown and \
                 nothing is claimed; at least {MIN_BLOCKS} are needed"
            ),
            _ => format!("{usable} usable blocks; at least {MIN_BLOCKS} are needed"),
        }
    } else {
        format!("no candidate has {MIN_BLOCKS} blocks that can be compared")
    }
}

/// Contrasts with the baseline and their tests.
fn effects(experiment: &Experiment, levels: &Levels<'_>) -> Vec<CandidateResult> {
    let baseline = experiment.baseline.as_str();
    let mut results: Vec<CandidateResult> = experiment
        .candidates
        .iter()
        .map(|c| {
            let of = |direction| {
                (c.name != baseline)
                    .then(|| levels.effect(&levels.contrasts(&c.name, baseline, direction)))
                    .flatten()
            };
            CandidateResult {
                name: c.name.clone(),
                rates: Vec::new(),
                overall: of(None),
                directions: experiment.directions.iter().map(|d| (*d, of(Some(*d)))).collect(),
                observed: observed(experiment, levels, &c.name),
                verdict: Verdict::Baseline,
            }
        })
        .collect();

    let mut tested: Vec<&mut CandidateResult> =
        results.iter_mut().filter(|r| r.overall.is_some()).collect();
    let columns: Vec<_> =
        tested.iter().map(|r| levels.contrasts(&r.name, baseline, None)).collect();
    for (result, p) in tested.iter_mut().zip(stats::sign_flip_max_t(&columns, experiment.seed)) {
        if let Some(effect) = &mut result.overall {
            effect.p = p;
        }
    }

    let mut per_direction: Vec<(&mut Effect, f64)> = Vec::new();
    for result in &mut results {
        for (direction, effect) in &mut result.directions {
            let Some(effect) = effect else { continue };
            let column = levels.contrasts(&result.name, baseline, Some(*direction));
            if let Some(Some(p)) = stats::sign_flip_max_t(&[column], experiment.seed).first() {
                per_direction.push((effect, *p));
            }
        }
    }
    let adjusted = stats::holm(&per_direction.iter().map(|(_, p)| *p).collect::<Vec<_>>());
    for ((effect, _), p) in per_direction.into_iter().zip(adjusted) {
        effect.p = Some(p);
    }
    results
}

fn observed(experiment: &Experiment, levels: &Levels<'_>, name: &str) -> Observed {
    let baseline = experiment.baseline.as_str();
    if name == baseline {
        return Observed::default();
    }
    let of = |direction| {
        let contrasts = levels.contrasts(name, baseline, direction);
        let known: Vec<f64> = contrasts.into_iter().flatten().collect();
        stats::mean(&known).map(f64::exp)
    };
    Observed {
        overall: of(None),
        directions: experiment.directions.iter().map(|d| (*d, of(Some(*d)))).collect(),
    }
}

fn rate(experiment: &Experiment, levels: &Levels<'_>, name: &str, direction: Direction) -> Rate {
    let cells = || {
        experiment
            .cells
            .iter()
            .filter(move |c| c.candidate == name && c.measurement.direction == direction)
    };
    let usable = || cells().filter(|c| usable_rate(c).is_some());
    let ceiling = line::ceiling(experiment);
    let censored = usable().filter(|c| line::fills(c, ceiling)).count();
    let series = levels.series(name, direction);
    let back = |ln: f64| BitRate(ln.exp());
    let shown = levels.effect(&series.iter().copied().map(Some).collect::<Vec<_>>());
    Rate {
        direction,
        cells: usable().count(),
        refused: cells().count() - usable().count(),
        censored,
        mean: shown.map(|e| BitRate(e.ratio)).or_else(|| stats::mean(&series).map(back)),
        interval: shown.map(|e| (BitRate(e.low), BitRate(e.high))),
    }
}

fn noise(experiment: &Experiment, levels: &Levels<'_>) -> Noise {
    let pairs = levels.open_and_close();
    // The difference of two equal cells has twice the variance of one.
    let cv = stats::mean(&pairs.iter().map(|(a, b)| (a - b).powi(2) / 2.0).collect::<Vec<_>>())
        .map(f64::sqrt);
    let points: Vec<(f64, f64)> = levels
        .blocks
        .iter()
        .filter_map(|&b| Some((f64::from(b), levels.overall(b, &experiment.baseline)?)))
        .collect();
    let drift = stats::slope(&points, CONFIDENCE).map(|s| Drift {
        per_block: s.mean.exp_m1(),
        low: s.low().exp_m1(),
        high: s.high().exp_m1(),
    });
    Noise { cv, pairs: pairs.len(), drift }
}

fn refusals(experiment: &Experiment) -> Vec<RefusalCount> {
    let mut counts: BTreeMap<RefusalCode, RefusalCount> = BTreeMap::new();
    for cell in &experiment.cells {
        let measurement = &cell.measurement;
        let mut why: Vec<(RefusalCode, String)> =
            measurement.refusals.iter().map(|r| (r.code, r.why.clone())).collect();
        if why.is_empty() && usable_rate(cell).is_none() {
            // The record claims to be valid, but there is no rate to take a logarithm of.
            why.push((RefusalCode::NoTraffic, "the rate is not a positive number".to_owned()));
        }
        let mut counted = BTreeSet::new();
        for (code, example) in why {
            let count =
                counts.entry(code).or_insert_with(|| RefusalCount { code, cells: 0, example });
            count.cells += usize::from(counted.insert(code));
        }
    }
    counts.into_values().collect()
}

fn exploratory(
    experiment: &Experiment,
    candidates: &[CandidateResult],
    refused: bool,
) -> Vec<String> {
    let mut why = Vec::new();
    if experiment.quick {
        why.push("it was asked to be quick".to_owned());
    }
    let fewest = candidates.iter().filter_map(|c| Some(c.overall.as_ref()?.blocks)).min();
    if let Some(blocks) = fewest.filter(|_| !refused) {
        let smallest = stats::smallest_p(blocks);
        if smallest > 1.0 - CONFIDENCE {
            why.push(format!(
                "with {blocks} blocks the smallest p that can come out is 1 in {:.0}, so no \
                 difference from the baseline can be proven",
                1.0 / smallest
            ));
        }
    }
    why
}

fn notes(
    experiment: &Experiment,
    levels: &Levels<'_>,
    candidates: &[CandidateResult],
    settle: Option<Settle>,
    refused: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let ceiling = line::ceiling(experiment).map_or(0.0, BitRate::mbps);
    for at in &levels.at_line {
        let full = format!(
            "{}: {} reached 98 % of what the line can carry ({ceiling:.0} Mbit/s): there the line \
             limits, not the router",
            at.direction,
            at.candidates.join(", ")
        );
        notes.push(if at.by_cpu {
            format!(
                "{full}. So {} is compared by packets per second of CPU time and not by rate",
                at.direction
            )
        } else {
            format!(
                "{full}, so ratios to them are lower bounds and equal rates do not mean equal \
                 settings; small packets would tell them apart"
            )
        });
    }
    let unmeasured: Vec<&str> = candidates
        .iter()
        .filter(|c| c.verdict == Verdict::NotMeasured)
        .map(|c| c.name.as_str())
        .collect();
    if let Design::Factorial(varied) = &experiment.design
        && effects::effects(experiment, levels).is_empty()
    {
        let names: Vec<&str> = varied.factors.iter().map(|f| f.name.as_str()).collect();
        notes.push(format!(
            "no effects of {} by themselves: not every combination of their levels is there",
            names.join(", ")
        ));
    }
    if let Some(deep) = levels.dips {
        notes.push(format!(
            "{deep} cells lie far below the others of their candidate: something else used the machine \
             now and then. So candidates are compared one cell with one cell, by ranks"
        ));
    }
    if let (Some(cv), Some(settle)) = (noise(experiment, levels).cv, settle) {
        notes.push(format!(
            "at this noise ({:.1} % a cell) a difference of {:.0} % may be missed; {}{} blocks show it, \
             or what came out if that is more, in nine of ten experiments",
            cv * 100.0,
            WORTH_FINDING * 100.0,
            if settle.blocks == MOST_BLOCKS { "more than " } else { "" },
            settle.blocks,
        ));
    }
    // Of all of them the refusal tells.
    if !(unmeasured.is_empty() || refused) {
        notes.push(format!(
            "{} could not be compared with {}: fewer than {MIN_BLOCKS} usable blocks",
            unmeasured.join(", "),
            experiment.baseline
        ));
    }
    notes
}
