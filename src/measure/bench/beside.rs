//! Effects of a load on others: round trips and the CPU time that is left, beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::{Bed, measure_with};
use crate::decide::experiment::CONFIDENCE;
use crate::decide::experiment::stats::t_interval;
use crate::error::Result;
use crate::machine::host::clock;
use crate::measure::load::latency;
use crate::measure::load::spinner::{self, Progress, Spinning};
use crate::measure::load::{LoadSpec, Moment};
use crate::model::histogram::{Histogram, RESOLUTION};
use crate::model::measurement::{Direction, Measurement};
use crate::model::units::CpuId;

/// Seconds of probing without load: as long as the window, within these.
const IDLE: (f64, f64) = (1.0, 5.0);

/// The share of the round trips that responsiveness is the mean of: without the longest, as in
/// draft-ietf-ippm-responsiveness.
const RESPONSIVE: f64 = 0.95;

/// Pieces of the window from which the interval is computed.
const SLICE: Duration = Duration::from_millis(100);

/// Largest distance between two calibrations of a quiet machine (turbo frequencies).
const CALIBRATION_ERROR: f64 = 0.05;

/// Round trips in seconds. A quantile is `None` where fewer than ten probes lie beyond it, or
/// where so many were lost that it is no finite time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Half of the probes were back within this, in seconds; of 20 probes on.
    pub p50: Option<f64>,
    /// 99 of 100; of 1000 probes on.
    pub p99: Option<f64>,
    /// 999 of 1000; of 10,000 probes on.
    pub p999: Option<f64>,
    /// Probes sent.
    pub probes: u64,
    /// Probes that were not back when there was no more hope: four times the longest round trip after
    /// the last was sent, but a second at least, and ten at most.
    pub lost: u64,
    /// Probes a second, as it came out; [`LatencyBeside::asked`] were asked for.
    pub rate: f64,
}

impl Latency {
    fn of(seen: &Histogram, seconds: f64) -> Self {
        let probes = seen.total();
        let carried = |q: f64| Some(q).filter(|q| probes >= Histogram::needed(*q));
        let at = |q| Some(seen.quantile(carried(q)?)? as f64 / 1e9);
        let rate =
            if seconds > 0.0 { (probes as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 };
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), probes, lost: seen.lost, rate }
    }
}

/// Latency without and with the load of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyBeside {
    /// Direction of the load.
    pub direction: Direction,
    /// Just before the load.
    pub idle: Latency,
    /// In the measured window.
    pub loaded: Latency,
    /// By how much the load makes the median of the round trips longer, in seconds.
    pub increase: Option<f64>,
    /// Round trips one after the other that fit into a minute beside the load: by the mean of all but
    /// the longest 5 %.
    pub per_minute: Option<f64>,
    /// Probes a second that were asked for.
    pub asked: f64,
    /// Largest relative error of a time.
    pub resolution: f64,
}

impl LatencyBeside {
    fn of(direction: Direction, idle: &Latency, seen: &Histogram, seconds: f64) -> Self {
        let loaded = Latency::of(seen, seconds);
        let microseconds = |seconds: f64| (seconds * 1e6).round() / 1e6;
        Self {
            direction,
            increase: loaded.p50.zip(idle.p50).map(|(loaded, idle)| microseconds(loaded - idle)),
            per_minute: seen.mean_of_shortest(RESPONSIVE).map(|ns| (60e9 / ns).round()),
            idle: idle.clone(),
            loaded,
            asked: 1.0 / latency::GAP.as_secs_f64(),
            resolution: RESOLUTION,
        }
    }
}

/// Time that one CPU had left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Left {
    /// Number of the CPU.
    pub cpu: CpuId,
    /// Work that a thread of the lowest priority still got done, as a share of what it does on the
    /// idle CPU.
    pub share: f64,
    /// Half of the 95 % interval of the share, by the tenths of a second of the window; `None` of a
    /// window shorter than two of them.
    pub half: Option<f64>,
}

/// Headroom beside the load of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headroom {
    /// Direction of the load.
    pub direction: Direction,
    /// Per CPU.
    pub cpus: Vec<Left>,
    /// Sum of the shares: how many whole idle CPUs are left.
    pub idle_cpus: f64,
    /// The machine was not idle while the spinners were calibrated: a thread got further beside
    /// the load than before it, or did not run at all. The shares mean nothing then.
    pub disturbed: bool,
}

/// Measures once, with probes beside the load. Their round trips are missing where a side was lost;
/// the measurement then says so.
///
/// # Errors
/// As [`super::measure`]; not supported when the probe can't be started.
pub fn with_latency(
    bed: &dyn Bed,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<(Measurement, Option<LatencyBeside>)> {
    let seconds = spec.seconds.clamp(IDLE.0, IDLE.1);
    let idle = Latency::of(&latency::idle(bed.probe()?, seconds, stop)?, seconds);
    let (measured, seen) = probed(bed, spec, stop)?;
    let seen = seen.map(|seen| LatencyBeside::of(spec.direction, &idle, &seen, measured.seconds));
    Ok((measured, seen))
}

/// As [`with_latency`], without a look at the idle router before: the round trips beside the load.
///
/// # Errors
/// As [`with_latency`].
pub fn probed(
    bed: &dyn Bed,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<(Measurement, Option<Histogram>)> {
    let probe = bed.probe()?;
    let measured = measure_with(bed, spec, stop, latency::TALK, &mut |moment| {
        if moment != Moment::Within {
            probe.window(moment == Moment::WindowOpens);
        }
    });
    let loaded = probe.finish();
    let (measured, _) = measured?;
    match loaded {
        Err(_) if !measured.is_valid() => Ok((measured, None)),
        loaded => Ok((measured, Some(loaded?))),
    }
}

/// Measures once, with a spinner of the lowest priority on each of the router's CPUs; they are
/// calibrated just before. What they did is missing where the router was lost.
///
/// # Errors
/// As [`super::measure`]; not supported when a spinner can't be put on its CPU.
pub fn with_headroom(
    bed: &dyn Bed,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<(Measurement, Option<Headroom>)> {
    let spinners = bed.spin()?;
    let spinners = &*spinners;
    let alone = spinner::calibrate(spinners, stop)?;
    let mut edges = Vec::new();
    let inside = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let (measured, slices) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| slices(spinners, &inside, &over));
        let measured = measure_with(bed, spec, stop, 0.0, &mut |moment| {
            if moment != Moment::Within {
                edges.extend(spinners.progress());
            }
            inside.store(moment != Moment::WindowCloses, Ordering::Relaxed);
        });
        over.store(true, Ordering::Relaxed);
        (measured, sampler.join().unwrap_or_default())
    });
    let (measured, _) = measured?;
    // Of the last window, where there was more than one.
    let [.., open, close] = edges.as_slice() else { return Ok((measured, None)) };
    let beside = close.since(open);
    let left = beside.iter().zip(&alone).enumerate().filter(|(_, (_, (_, alone)))| *alone > 0.0);
    let left = left.map(|(nth, ((cpu, got), (_, alone)))| {
        let share = |slice: &Vec<(CpuId, f64)>| Some(slice.get(nth)?.1 / alone);
        let shares: Vec<f64> = slices.iter().filter_map(share).collect();
        let half = t_interval(&shares, CONFIDENCE).map(|interval| interval.half);
        Left { cpu: *cpu, share: got / alone, half }
    });
    let cpus: Vec<Left> = left.collect();
    let idle_cpus = cpus.iter().fold(0.0, |sum, left| sum + left.share);
    // Where a thread did not run at all while nothing was to be in its way, what it does beside the
    // load is a share of nothing: no CPU left would be a claim.
    let disturbed =
        cpus.len() < beside.len() || cpus.iter().any(|left| left.share > 1.0 + CALIBRATION_ERROR);
    Ok((measured, Some(Headroom { direction: spec.direction, cpus, idle_cpus, disturbed })))
}

/// Work per second in each tenth of a second of the window.
fn slices(
    spinners: &dyn Spinning,
    inside: &AtomicBool,
    over: &AtomicBool,
) -> Vec<Vec<(CpuId, f64)>> {
    let mut seen = Vec::new();
    let mut before: Option<Progress> = None;
    while !over.load(Ordering::Relaxed) {
        let now = if inside.load(Ordering::Relaxed) { spinners.progress().ok() } else { None };
        if let (Some(then), Some(now)) = (&before, &now) {
            seen.push(now.since(then));
        }
        before = now;
        clock::sleep(SLICE);
    }
    seen
}

/// Measurements that are taken beside a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// Round trips.
    Latency,
    /// The CPU time left on the router.
    Headroom,
}

/// Measurements beside the loads of several runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Seen {
    /// One per run, where round trips were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<LatencyBeside>,
    /// One per run, where the time left was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headroom: Vec<Headroom>,
}

/// As [`super::measure_directions`], looking beside each run.
///
/// # Errors
/// As [`with_latency`] and [`with_headroom`].
pub fn measure_directions(
    bed: &dyn Bed,
    spec: &LoadSpec,
    beside: Beside,
    stop: &AtomicBool,
) -> Result<(Vec<Measurement>, Seen)> {
    let mut seen = Seen::default();
    let runs = super::each_direction(spec, &mut |spec| match beside {
        Beside::Nothing => super::measure(bed, spec, stop),
        Beside::Latency => {
            let (measured, latency) = with_latency(bed, spec, stop)?;
            seen.latency.extend(latency);
            Ok(measured)
        }
        Beside::Headroom => {
            let (measured, headroom) = with_headroom(bed, spec, stop)?;
            seen.headroom.extend(headroom);
            Ok(measured)
        }
    })?;
    Ok((runs, seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips(count: u64, ns: u64) -> Histogram {
        let mut seen = Histogram::default();
        (0..count).for_each(|_| seen.add(ns));
        seen
    }

    #[test]
    fn a_quantile_is_told_only_where_ten_probes_lie_beyond_it() {
        let of = |count| Latency::of(&round_trips(count, 1_000_000), 5.0);
        let told = |l: Latency| [l.p50, l.p99, l.p999].map(|q| q.is_some());
        assert_eq!(told(of(19)), [false; 3]);
        assert_eq!(told(of(999)), [true, false, false]);
        assert_eq!(told(of(1000)), [true, true, false]);
        assert_eq!(told(of(10_000)), [true; 3]);
        assert_eq!(of(1000).rate, 200.0);
    }

    #[test]
    fn what_the_load_does_to_round_trips_is_told_as_people_know_it() {
        let idle = Latency::of(&round_trips(1000, 250_000), 5.0);
        let told = LatencyBeside::of(Direction::Up, &idle, &round_trips(2000, 20_000_000), 10.0);
        assert!((told.increase.unwrap() - 0.019_75).abs() < 0.000_4, "{told:?}");
        // 60 s through 20 ms.
        assert!((told.per_minute.unwrap() - 3000.0).abs() < 60.0, "{told:?}");
        let mut lost = round_trips(1000, 1000);
        lost.lost = 1000;
        let told = LatencyBeside::of(Direction::Up, &idle, &lost, 10.0);
        assert_eq!((told.per_minute, told.loaded.p99), (None, None));
    }
}
