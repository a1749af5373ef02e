//! The cost model's predictions beside what was measured.

use super::usage;
use crate::decide::experiment::{Analysis, CandidateResult};
use crate::model::measurement::{Direction, Experiment};
use crate::model::units::{BitRate, CpuId};
use crate::report::document::{
    Axis, Block, Chart, Figure, Mark, MarkKind, Section, Strip, Strips, Table,
};
use crate::report::words::{count, mbps, percent};

/// Advice on how to read the table.
const RULE: &str = "predicted: the rate divided by the baseline's, by the planner's cost model \
    (load of the busiest CPU in the directions that are measured), before anything was measured; \
    it is a model and no claim";

/// Predicted and measured ratios; empty where nothing was predicted.
pub(super) fn section(experiment: &Experiment, analysis: &Analysis) -> Section {
    let pairs = pairs(experiment, analysis);
    if pairs.is_empty() {
        return Section::default();
    }
    let mut table = Table::new(&[
        "candidate",
        "predicted",
        "measured",
        "Mbit/s predicted/measured",
        "fills first",
        "busiest",
    ])
    .figures([1, 2]);
    pairs.iter().for_each(|pair| table.row(cells(pair)));
    let strips: Vec<Strip> = pairs.iter().filter_map(strip).collect();
    let mut section = Section::new("Predicted and measured");
    if !strips.is_empty() {
        section.blocks.push(Block::Figure(Figure {
            heading: String::new(),
            title: "Ratios predicted and measured".to_owned(),
            chart: Chart::Strips(Strips {
                axis: Axis::Ratio { band: 1.0 },
                name: "candidate".to_owned(),
                value: "predicted, measured".to_owned(),
                rows: strips,
            }),
            caption: format!("ring: predicted; dot: measured; ratios to {}", experiment.baseline),
            in_table: true,
        }));
    }
    section.blocks.push(Block::Table(table));
    section.blocks.extend(summary(&pairs).map(Block::note));
    section.with([Block::note(RULE)])
}

fn strip(pair: &Pair) -> Option<Strip> {
    let (predicted, measured) = (pair.ratio?, pair.measured?);
    Some(Strip {
        name: pair.name.clone(),
        words: format!("{predicted:.2} predicted, {measured:.2} measured"),
        between: Some((predicted, measured)),
        marks: vec![Mark::new(MarkKind::Ring, predicted), Mark::new(MarkKind::Mean, measured)],
        ..Strip::default()
    })
}

/// A candidate as predicted and as measured.
struct Pair {
    name: String,
    /// Rate against the baseline's by the model; `None` for the baseline, or where the model has no
    /// figure for it.
    ratio: Option<f64>,
    /// Rate against the baseline's as measured: geometric mean over the directions.
    measured: Option<f64>,
    /// Each direction's rate by the model, where its costs were fitted, and as measured (mean).
    rates: Vec<(Direction, BitRate, Option<BitRate>)>,
    /// The CPU that fills first by the model.
    bottleneck: CpuId,
    /// The CPU that had most to do, and its share of time in soft interrupts.
    busiest: Option<(CpuId, f64)>,
    /// Share of time in soft interrupts of the CPU that was to fill first.
    named: Option<f64>,
}

/// CPUs whose shares of time are this close are equally busy: a sample of a second at 100 Hz has a
/// grain of a hundredth, and where work is spread evenly none is meant to be the first.
const AS_BUSY: f64 = 0.05;

/// All candidates that the model said something of.
fn pairs(experiment: &Experiment, analysis: &Analysis) -> Vec<Pair> {
    let said = |name: &str| experiment.predictions.iter().find(|p| p.candidate == name);
    let baseline = said(&experiment.baseline).map(|p| p.largest);
    let level = |result: &CandidateResult| {
        let logs: Option<Vec<f64>> =
            result.rates.iter().map(|r| r.mean.map(|m| m.0.ln())).collect();
        logs.filter(|l| !l.is_empty()).map(|l| l.iter().sum::<f64>() / l.len() as f64)
    };
    let base_level = analysis.candidate(&experiment.baseline).and_then(level);
    experiment
        .candidates
        .iter()
        .filter_map(|candidate| {
            let own = said(&candidate.name)?;
            let other = candidate.name != experiment.baseline;
            let ratio = baseline.filter(|b| other && *b > 0.0 && own.largest > 0.0);
            let measured = analysis.candidate(&candidate.name).and_then(level);
            let cpus = usage::means(experiment, &candidate.name);
            let busiest = cpus.iter().max_by(|a, b| a.1.softirq.total_cmp(&b.1.softirq));
            Some(Pair {
                name: candidate.name.clone(),
                ratio: ratio.map(|b| b / own.largest),
                measured: measured.zip(base_level).filter(|_| other).map(|(m, b)| (m - b).exp()),
                rates: own
                    .rates
                    .iter()
                    .map(|(direction, rate)| {
                        let result = analysis.candidate(&candidate.name);
                        let mut each = result.into_iter().flat_map(|c| &c.rates);
                        let came = each.find(|r| r.direction == *direction);
                        (*direction, BitRate(*rate), came.and_then(|r| r.mean))
                    })
                    .collect(),
                bottleneck: own.bottleneck,
                busiest: busiest.map(|(cpu, mean)| (*cpu, mean.softirq)),
                named: cpus.iter().find(|(cpu, _)| *cpu == own.bottleneck).map(|(_, m)| m.softirq),
            })
        })
        .collect()
}

/// Error of the model, in one line; `None` where nothing can be compared.
fn summary(pairs: &[Pair]) -> Option<String> {
    let off = |p: &Pair| Some((p.measured? / p.ratio?).ln().abs());
    let errors: Vec<f64> = pairs.iter().filter_map(off).filter(|e| e.is_finite()).collect();
    if errors.is_empty() {
        return None;
    }
    let squares: f64 = errors.iter().map(|e| e * e).sum();
    let mean = (squares / errors.len() as f64).sqrt().exp_m1();
    let worst = errors.iter().copied().fold(0.0, f64::max).exp_m1();
    let as_busy = |p: &Pair| Some(p.busiest?.1 - p.named? <= AS_BUSY);
    let right: Vec<bool> = pairs.iter().filter_map(as_busy).collect();
    let hits = right.iter().filter(|r| **r).count();
    let mut said = format!(
        "the cost model's ratios were off by {} (rms), {} at most; no CPU was busier than the one it \
         named for {hits} of {}",
        percent(mean),
        percent(worst),
        count(right.len(), "candidate")
    );
    let rates = pairs.iter().flat_map(|p| &p.rates);
    let logs: Vec<f64> = rates
        .filter_map(|(_, predicted, came)| Some((came.as_ref()?.0 / predicted.0).ln()))
        .filter(|e| e.is_finite())
        .collect();
    if !logs.is_empty() {
        let count = logs.len() as f64;
        let squares: f64 = logs.iter().map(|e| e * e).sum();
        said += &format!(
            "; its rates by {} (rms), what was measured being {:.2} times as much on the whole",
            percent((squares / count).sqrt().exp_m1()),
            (logs.iter().sum::<f64>() / count).exp()
        );
    }
    Some(said)
}

fn cells(pair: &Pair) -> [String; 6] {
    let ratio = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
    let rates = pair.rates.iter().map(|(direction, predicted, came)| {
        let came = came.map_or_else(|| "-".to_owned(), mbps);
        format!("{direction} {}/{came}", mbps(*predicted))
    });
    let rates: Vec<String> = rates.collect();
    let busiest = |(cpu, share): (CpuId, f64)| format!("{cpu} ({:.0} % softirq)", share * 100.0);
    [
        pair.name.clone(),
        ratio(pair.ratio),
        ratio(pair.measured),
        if rates.is_empty() { "-".to_owned() } else { rates.join(" ") },
        pair.bottleneck.to_string(),
        pair.busiest.map_or_else(|| "-".to_owned(), busiest),
    ]
}
