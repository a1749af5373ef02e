//! The built-in generator and iperf3 side by side in one lab.
//!
//! Absolute rates of a shared machine mean little; runs in turn, in pairs whose order alternates,
//! are compared with each other.

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::driver::{self, Driver};
use super::{Context, measure, pause, told};
use crate::decide::experiment::stats::median;
use crate::error::{Error, ExitCode, Result};
use crate::measure::load::{LoadSpec, iperf3};
use crate::measure::sample::CpuCounters;
use crate::model::measurement::RefusalCode;
use crate::model::units::BitRate;

/// Result of a generator in one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Payload at the receivers, all directions together.
    pub goodput: BitRate,
    /// CPU seconds of the whole machine per gigabit (10^9 bits) of payload: generator and router,
    /// everything that was not idle during the run.
    pub cpu_per_gigabit: f64,
}

/// One run of each, next to each other in time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The built-in generator.
    pub ours: Side,
    /// iperf3.
    pub theirs: Side,
}

/// The comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgainstIperf3 {
    /// `iperf 3.12`.
    pub version: String,
    /// Processes of it at each end.
    pub processes: u32,
    /// All pairs in the order they ran.
    pub pairs: Vec<Pair>,
    /// Median of our goodput over theirs, pair by pair; above 1 we are faster.
    pub goodput_ratio: f64,
    /// Median of our CPU per gigabit over theirs; below 1 we are cheaper.
    pub cpu_ratio: f64,
    /// Median of ours.
    pub ours: Side,
    /// Median of theirs.
    pub theirs: Side,
}

/// Runs `pairs` pairs. iperf3 takes whole seconds; `spec` should ask for such. Its omitted time
/// does not count as traffic, so none is omitted for either. A version with one thread for all its
/// streams runs as so many processes as this machine has CPUs.
///
/// # Errors
/// As [`measure`] and [`iperf3::run`]; refused when one of our runs is refused for another reason
/// than a device counter or link of the lab.
pub fn against_iperf3(
    context: &Context,
    spec: &LoadSpec,
    pairs: u32,
    stop: &AtomicBool,
) -> Result<AgainstIperf3> {
    if pairs == 0 {
        return Err(Error::usage("pairs", "0: at least 1"));
    }
    let spec = LoadSpec { omit: 0.0, seconds: spec.seconds.ceil(), ..spec.clone() };
    spec.check()?;
    let mut version = driver::version(Driver::Iperf3)?;
    let processes = if iperf3::is_threaded(&version) {
        1
    } else {
        let cpus = told(CpuCounters::read(&context.router))?.cpus();
        u32::try_from(cpus).unwrap_or(1).clamp(1, spec.streams)
    };
    let mut server = iperf3::serve(&context.ends, processes)?;
    let mut done = Vec::new();
    for pair in 0..pairs {
        let mut theirs = || {
            let (side, said) = their_run(&mut server, context, &spec, stop)?;
            version = said;
            Ok::<_, Error>(side)
        };
        done.push(if pair % 2 == 0 {
            let ours = our_run(context, &spec, stop)?;
            Pair { ours, theirs: theirs()? }
        } else {
            let theirs = theirs()?;
            Pair { ours: our_run(context, &spec, stop)?, theirs }
        });
    }
    Ok(AgainstIperf3 { processes, ..summary(version, done) })
}

fn our_run(context: &Context, spec: &LoadSpec, stop: &AtomicBool) -> Result<Side> {
    pause(super::SETTLE, stop);
    let before = told(CpuCounters::read(&context.router))?;
    let run = measure(context, spec, stop)?;
    let after = told(CpuCounters::read(&context.router))?;
    if run.refusals.iter().any(|r| r.code == RefusalCode::Interrupted) {
        return Err(Error::interrupted("bench"));
    }
    if let Some(refusal) = run.refusals.first() {
        return Err(Error::new(ExitCode::Refused, "bench against iperf3", &refusal.why));
    }
    let bytes = run.flows.iter().map(|f| f.bytes).sum();
    Ok(Side {
        goodput: run.rate(),
        cpu_per_gigabit: per_gigabit(after.busy_seconds_since(&before), bytes),
    })
}

fn their_run(
    server: &mut iperf3::Servers,
    context: &Context,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<(Side, String)> {
    pause(super::SETTLE, stop);
    let before = told(CpuCounters::read(&context.router))?;
    let report = iperf3::run(server, &context.ends, spec, stop)?;
    let after = told(CpuCounters::read(&context.router))?;
    let bytes = report.flows.iter().map(|f| f.bytes).sum();
    let side = Side {
        goodput: BitRate(report.flows.iter().map(|f| f.goodput.0).sum()),
        cpu_per_gigabit: per_gigabit(after.busy_seconds_since(&before), bytes),
    };
    Ok((side, report.version))
}

fn per_gigabit(cpu_seconds: f64, bytes: u64) -> f64 {
    let gigabits = bytes as f64 * 8.0 / 1e9;
    if gigabits > 0.0 { cpu_seconds / gigabits } else { f64::INFINITY }
}

fn summary(version: String, pairs: Vec<Pair>) -> AgainstIperf3 {
    let of = |value: fn(&Pair) -> f64| {
        median(&pairs.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    AgainstIperf3 {
        goodput_ratio: of(|p| p.ours.goodput.0 / p.theirs.goodput.0),
        cpu_ratio: of(|p| p.ours.cpu_per_gigabit / p.theirs.cpu_per_gigabit),
        ours: Side {
            goodput: BitRate(of(|p| p.ours.goodput.0)),
            cpu_per_gigabit: of(|p| p.ours.cpu_per_gigabit),
        },
        theirs: Side {
            goodput: BitRate(of(|p| p.theirs.goodput.0)),
            cpu_per_gigabit: of(|p| p.theirs.cpu_per_gigabit),
        },
        version,
        processes: 1,
        pairs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_pairs_and_not_of_medians() {
        let side = |rate, cpu| Side { goodput: BitRate(rate), cpu_per_gigabit: cpu };
        // The machine was twice as fast while the second pair ran.
        let pairs = vec![
            Pair { ours: side(110.0, 0.9), theirs: side(100.0, 1.0) },
            Pair { ours: side(220.0, 0.45), theirs: side(200.0, 0.5) },
            Pair { ours: side(130.0, 0.8), theirs: side(100.0, 1.0) },
        ];
        let found = summary("iperf 3".into(), pairs);
        assert!((found.goodput_ratio - 1.1).abs() < 1e-9);
        assert!((found.cpu_ratio - 0.9).abs() < 1e-9);
        assert_eq!(found.ours.goodput, BitRate(130.0));
    }

    #[test]
    fn cpu_per_gigabit_of_nothing_is_not_cheap() {
        assert!((per_gigabit(2.0, 250_000_000) - 1.0).abs() < 1e-12);
        assert_eq!(per_gigabit(2.0, 0), f64::INFINITY);
        assert!(summary("iperf 3".into(), vec![]).goodput_ratio.is_nan());
    }
}
