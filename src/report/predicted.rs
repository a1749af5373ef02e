//! What the cost model said beforehand, beside what came out.

use super::{usage, words};
use crate::experiment::{Analysis, CandidateResult};
use crate::model::measurement::{Direction, Experiment};
use crate::model::units::{BitRate, CpuId};

/// A candidate as foretold and as measured.
pub(super) struct Pair {
    pub(super) name: String,
    /// Rate against the baseline's by the model; `None` for the baseline, or where the model has no
    /// figure for it.
    pub(super) ratio: Option<f64>,
    /// The same as measured: geometric mean over the directions.
    pub(super) measured: Option<f64>,
    /// Each direction's rate by the model, where its costs were fitted, and as measured (mean).
    pub(super) rates: Vec<(Direction, BitRate, Option<BitRate>)>,
    /// The CPU that fills first by the model.
    pub(super) bottleneck: CpuId,
    /// The CPU that had most to do, and its share of time in soft interrupts.
    pub(super) busiest: Option<(CpuId, f64)>,
    /// That share of the CPU that was to fill first.
    named: Option<f64>,
}

/// CPUs whose shares of time are this close are equally busy: a sample of a second at 100 Hz has a
/// grain of a hundredth, and where work is spread evenly none is meant to be the first.
const AS_BUSY: f64 = 0.05;

/// All candidates that the model said something of.
pub(super) fn pairs(experiment: &Experiment, analysis: &Analysis) -> Vec<Pair> {
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

/// How far off the model was, in one line; `None` where nothing can be compared.
pub(super) fn summary(pairs: &[Pair]) -> Option<String> {
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
        words::percent(mean),
        words::percent(worst),
        words::count(right.len(), "candidate")
    );
    let rates = pairs.iter().flat_map(|p| &p.rates);
    let logs: Vec<f64> = rates
        .filter_map(|(_, foretold, came)| Some((came.as_ref()?.0 / foretold.0).ln()))
        .filter(|e| e.is_finite())
        .collect();
    if !logs.is_empty() {
        let count = logs.len() as f64;
        let squares: f64 = logs.iter().map(|e| e * e).sum();
        said += &format!(
            "; its rates by {} (rms), what was measured being {:.2} times as much on the whole",
            words::percent((squares / count).sqrt().exp_m1()),
            (logs.iter().sum::<f64>() / count).exp()
        );
    }
    Some(said)
}

/// A row of a table: candidate, ratio foretold, ratio measured, rates foretold and measured, CPU
/// foretold, busiest CPU.
pub(super) fn cells(pair: &Pair) -> [String; 6] {
    let ratio = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
    [
        pair.name.clone(),
        ratio(pair.ratio),
        ratio(pair.measured),
        match pair.rates.as_slice() {
            [] => "-".to_owned(),
            rates => rates
                .iter()
                .map(|(direction, foretold, came)| {
                    let came = came.map_or_else(|| "-".to_owned(), words::mbps);
                    format!("{direction} {}/{came}", words::mbps(*foretold))
                })
                .collect::<Vec<_>>()
                .join(" "),
        },
        pair.bottleneck.to_string(),
        pair.busiest.map_or_else(
            || "-".to_owned(),
            |(cpu, share)| format!("{cpu} ({:.0} % softirq)", share * 100.0),
        ),
    ]
}

/// Headings of [`cells`].
pub(super) const HEAD: [&str; 6] =
    ["candidate", "foretold", "measured", "Mbit/s foretold/measured", "fills first", "busiest"];

/// How to read it.
pub(super) const RULE: &str = "foretold: rate against the baseline's by the largest load of a CPU \
    in the planner's cost model, in the directions that are measured, said before anything was; it \
    is a model and no claim";
