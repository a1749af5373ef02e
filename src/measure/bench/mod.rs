//! One measurement: load through a router, counters beside it, and the reasons to refuse it.
//!
//! In come a bed (a lab, or agents on other machines) and the load to send; out go measurements
//! with the reasons to refuse them. Traffic goes only over the bed, or to the server that the user
//! named; settings are compared and never changed.
//!
//! ```text
//!   settle ─▶ devices, health, ─▶ load::run ┬ window opens:  CPUs ┐
//!             settings                      └ window closes: CPUs ┘ ─▶ all of these ─▶ rules
//! ```

pub mod against;
mod bed;
pub mod beside;
pub mod board;
pub mod driver;
pub mod hosts;
pub mod rules;
pub mod scenarios;
mod series;
pub mod sweep;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostError, HostResult, Live, clock};
use crate::measure::lab::{self, Counted, Lab, Programs};
use crate::measure::load::{Ends, FlowResult, LoadResult, LoadSpec, Moment};
use crate::measure::sample::DevicesUse;
use crate::model::cpuset::CpuSet;
use crate::model::measurement::{DeviceUse, Direction, Flow, Measurement, Protocol, SideFigures};
use crate::model::starved::{Rates, starved};
use crate::model::units::BitRate;
pub use bed::{Around, Bed, BedFacts, Edge, Generate, Observe};
use rules::{DeviceFacts, Facts, FlowFacts};

/// Quiet time before a run, so that the last one's connections are closed on both sides.
const SETTLE: Duration = Duration::from_millis(50);
/// Quiet time after a run: the last acknowledgements pass the router.
const DRAIN: Duration = Duration::from_millis(20);
/// The most that the option for selective acknowledgements adds to a packet, beside the option for
/// timestamps: three blocks and their header (RFC 2018).
const SACK: u64 = 28;
/// Times that a run is made again because its window was too short for the line.
const WINDOWS: u32 = 2;
/// Interval at which a wait checks the stop flag.
const SLICE: Duration = Duration::from_millis(10);

/// A router with a load generator at each side.
#[derive(Clone)]
pub struct Context {
    /// The generator's two ends.
    pub ends: Ends,
    /// The router.
    pub router: Live,
    /// The router's Ethernet device towards the LAN.
    pub lan_device: String,
    /// The router's Ethernet device towards the WAN.
    pub wan_device: String,
    /// True if the generator runs on the CPUs that forward.
    pub shared_cpus: bool,
    /// Largest IP packet on the path, bytes.
    pub mtu: u32,
    /// Device and way in which the router counts the packets that the WAN sends.
    pub counted: Counted,
    /// True if the router has a flowtable that connections should be in.
    pub flowtable: bool,
    /// The CPUs that forward; empty until it is known what the router is.
    pub router_cpus: CpuSet,
    /// Programs of the lab, which run as long as this is there.
    pub programs: Arc<Programs>,
}

impl Context {
    /// A lab on this machine. With `generator` the load's threads stay on those CPUs and the
    /// caller keeps forwarding off them; without, they share the router's CPUs.
    #[must_use]
    pub fn of_lab(lab: &Lab, mtu: u32, generator: Option<CpuSet>) -> Self {
        Self {
            shared_cpus: generator.is_none(),
            ends: Ends {
                lan: Arc::clone(&lab.lan),
                wan: Arc::clone(&lab.wan),
                wan_address: lab.wan_address,
                cpus: generator,
            },
            router: lab.router_host(),
            lan_device: lab::ROUTER_LAN.into(),
            wan_device: lab::ROUTER_WAN.into(),
            mtu,
            counted: lab.counted,
            flowtable: lab.spec.shape.flowtable,
            router_cpus: CpuSet::empty(),
            programs: Arc::clone(&lab.programs),
        }
    }

    fn devices(&self) -> [&str; 2] {
        [&self.lan_device, &self.wan_device]
    }

    /// Device and way in which the router counts the packets with the payload of `direction`.
    fn counted(&self, direction: Direction) -> Counted {
        match direction {
            Direction::Down => self.counted,
            Direction::Up | Direction::Both => {
                Counted { device: lab::ROUTER_LAN, ..Counted::PLAIN }
            }
        }
    }
}

/// Runs the load once and says what came of it. An untrustworthy result is no error: it carries
/// its refusals.
///
/// # Errors
/// As [`crate::measure::load::run`]; not supported or not permitted if counters can't be read.
pub fn measure(bed: &dyn Bed, spec: &LoadSpec, stop: &AtomicBool) -> Result<Measurement> {
    measure_with(bed, spec, stop, 0.0, &mut |_| ()).map(|(measured, _)| measured)
}

/// Measures each of the directions once, and the load with a window that does for the line that all of
/// these have seen: for many measurements that are to have the same.
///
/// # Errors
/// As [`measure`].
pub fn fitted(
    bed: &dyn Bed,
    spec: &LoadSpec,
    directions: &[Direction],
    stop: &AtomicBool,
) -> Result<(LoadSpec, Vec<Measurement>)> {
    let (mut fitted, mut runs) = (spec.clone(), Vec::new());
    for &direction in directions {
        let stretched = LoadSpec { direction, stretch: true, ..fitted.clone() };
        let (run, used) = measure_with(bed, &stretched, stop, 0.0, &mut |_| ())?;
        (fitted.seconds, fitted.omit) = (used.seconds, used.omit);
        runs.push(run);
    }
    Ok((fitted, runs))
}

/// [`measure`], telling `on` of each [`Moment`] from the calling thread; with a longer window where
/// the line turns out to need it: then it is in the load that is returned, `on` hears of every
/// window, and the last one is meant. `talk` is the bytes a second, each way, that go beside the load.
fn measure_with(
    bed: &dyn Bed,
    spec: &LoadSpec,
    stop: &AtomicBool,
    talk: f64,
    on: &mut dyn FnMut(Moment),
) -> Result<(Measurement, LoadSpec)> {
    let mut spec = spec.clone();
    let (mut measured, mut longer) = measure_once(bed, &spec, stop, talk, on)?;
    let (mut notes, mut tries) = (Vec::new(), 0);
    while let Some((again, why)) = longer {
        let words = format!("{:.1} s after {:.1} s", again.seconds, again.omit);
        let short = format!("the window, {:.1} s after {:.1} s", spec.seconds, spec.omit);
        let failed = if tries == WINDOWS {
            format!("as much as {WINDOWS} longer ones have led to")
        } else {
            match measure_once(bed, &again, stop, talk, on) {
                Ok(done) => {
                    notes
                        .push(format!("{short}, was too short for this line ({why}): now {words}"));
                    (measured, longer) = done;
                    (spec, tries) = (again, tries + 1);
                    continue;
                }
                Err(error) if error.code() == ExitCode::Interrupted => return Err(error),
                Err(error) => error.to_string(),
            }
        };
        notes.push(format!("{short}, is short for this line ({why}); not {words}: {failed}"));
        break;
    }
    measured.notes.extend(notes);
    Ok((measured, spec))
}

/// Measures with the window that was asked for; and the longer one that the line needs, with why.
fn measure_once(
    bed: &dyn Bed,
    spec: &LoadSpec,
    stop: &AtomicBool,
    talk: f64,
    on: &mut dyn FnMut(Moment),
) -> Result<(Measurement, Option<(LoadSpec, String)>)> {
    spec.check()?;
    pause(SETTLE, stop);
    let before = bed.around(Edge::Before)?;
    let mut readings = Vec::new();
    // While the connections are still there: each side closes its own when its window is over, which
    // may be before the last moment. A list of many connections is not read more often than twice.
    let mut carried = None;
    let mut edge = |moment: Moment| {
        on(moment);
        let wanted = match moment {
            Moment::WindowOpens => false,
            Moment::Within => carried.is_none(),
            Moment::WindowCloses => true,
        };
        if wanted {
            carried = carried.max(bed.offloaded(spec));
        }
        readings.push(bed.reading(moment));
    };
    let load = bed.load(spec, stop, &mut edge)?;
    pause(DRAIN, stop);
    let after = bed.around(Edge::After)?;
    let moved = after.devices.since(&before.devices);
    let readings = readings.into_iter().collect::<Result<Vec<_>>>()?;
    let cpus = series::cpus(&readings);
    let mut not_held = after.held.since(&before.held);
    let within =
        before.held.settings().map(|then| series::changed(&readings, then)).unwrap_or_default();
    for changed in within.into_iter().chain(after.told.differing) {
        if !not_held.differing.contains(&changed) {
            not_held.differing.push(changed);
        }
    }
    not_held.noted.extend(after.told.noted);
    let talked = after.talked.saturating_sub(before.talked);
    let talked = talked + (talk * load.total_seconds.max(0.0)) as u64;
    let facts = Facts {
        interrupted: load.interrupted || stop.load(Ordering::Relaxed),
        throttled: std::mem::take(&mut not_held.throttled),
        differing: std::mem::take(&mut not_held.differing),
        stolen: rules::stolen(&cpus),
        ..facts(bed, spec, &load, &moved, talked)
    };
    let mut measured = Measurement {
        direction: spec.direction,
        flows: load.flows.iter().map(|flow| flow_of(flow, load.seconds)).collect(),
        seconds: load.seconds,
        packet_bytes: packet_bytes(&facts),
        series: series::pieces(&load.pieces, &readings),
        shift: series::shift(&load.pieces),
        precision: series::precision(&load.pieces),
        settings: Vec::new(),
        devices: moved.devices,
        beside: SideFigures::default(),
        refusals: rules::refusals(&facts),
        notes: notes(bed.facts().shared_cpus, &load),
        cpus,
    };
    let forwarding = rules::forwarding(&measured.cpus);
    let others = series::others(&readings, &forwarding);
    measured.notes.extend(rules::disturbances(&measured, &forwarding, others.as_ref()));
    measured.notes.extend(not_held.noted);
    bed.conclude(spec, carried, &mut measured);
    Ok((measured, window::longer(spec, &load)))
}

/// Measures each direction that `spec` consists of alone, and then both at once if that is what
/// is asked; the last result is refused where a direction starved in it.
///
/// # Errors
/// As [`measure`].
pub fn measure_directions(
    bed: &dyn Bed,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<Vec<Measurement>> {
    each_direction(spec, &mut |spec| measure(bed, spec, stop))
}

/// [`measure_directions`] with another way to measure one.
fn each_direction(
    spec: &LoadSpec,
    one: &mut dyn FnMut(&LoadSpec) -> Result<Measurement>,
) -> Result<Vec<Measurement>> {
    let mut once = |direction| one(&LoadSpec { direction, stretch: true, ..spec.clone() });
    if spec.direction != Direction::Both {
        return Ok(vec![once(spec.direction)?]);
    }
    let mut runs = Vec::new();
    for direction in [Direction::Down, Direction::Up, Direction::Both] {
        match once(direction) {
            Ok(run) => runs.push(run),
            // What was measured is kept; why there is no more follows from why it was refused.
            Err(error) => match runs.last_mut() {
                // Stopped between two runs, those that were made are kept.
                Some(_) if error.code() == ExitCode::Interrupted => return Ok(runs),
                Some(last) if !last.is_valid() => {
                    last.notes.push(format!("no run after this one: {error}"));
                    return Ok(runs);
                }
                _ => return Err(error),
            },
        }
    }
    let [down, up, both] = runs.as_mut_slice() else { return Ok(runs) };
    let rates = Rates { down: down.rate(), up: up.rate() };
    let rate = |direction| {
        let flow = both.flows.iter().find(|f| f.direction == direction);
        flow.map_or(BitRate(0.0), |f| f.goodput)
    };
    let together = Rates { down: rate(Direction::Down), up: rate(Direction::Up) };
    both.refusals.extend(starved(rates, together));
    Ok(runs)
}

fn told<T>(answer: HostResult<T>) -> Result<T> {
    answer.map_err(|error: HostError| {
        let what = format!("{} {}", error.operation, error.path.display());
        if error.is_denied() {
            Error::not_permitted(what, error.reason())
        } else {
            Error::not_supported(what, error.reason())
        }
    })
}

fn pause(duration: Duration, stop: &AtomicBool) {
    // Cut short, what comes next looks at the flag itself.
    let _whole = clock::wait_until(clock::monotonic() + duration, SLICE, stop);
}

fn facts(
    bed: &dyn Bed,
    spec: &LoadSpec,
    load: &LoadResult,
    moved: &DevicesUse,
    talked: u64,
) -> Facts {
    let bed_facts = bed.facts();
    let alone = spec.direction != Direction::Both;
    let flows = load.flows.iter().map(|flow| {
        let device = bed.device(moved, flow.direction);
        let link_header = device.as_ref().map_or(Counted::ETHERNET, |device| device.header);
        FlowFacts {
            direction: flow.direction,
            asked: spec.rate,
            sent_rate: BitRate::of(flow.window_sent, load.seconds),
            window_bytes: flow.window_bytes,
            bytes: flow.bytes,
            sent_at_most: match spec.protocol {
                Protocol::Tcp => flow.retransmitted_bytes.map(|again| {
                    let packets = device.as_ref().map_or(0, |device| device.packets);
                    let blocks = if answers_losses(load, flow) { packets * SACK } else { 0 };
                    flow.sent.max(flow.bytes) + again + blocks
                }),
                Protocol::Udp => Some(flow.sent),
            },
            unacknowledged: flow.unacknowledged,
            error: flow.error.clone(),
            busiest_thread: flow.busiest_thread,
            // The load counts an Ethernet header, and nothing where it could not ask.
            header_bytes: (flow.header_bytes + u64::from(link_header))
                .saturating_sub(Counted::ETHERNET.into()),
            against: alone.then(|| bed.device(moved, against(flow.direction))).flatten(),
            acknowledged: spec.protocol == Protocol::Tcp,
            device,
        }
    });
    Facts {
        flows: flows.collect(),
        interrupted: load.interrupted,
        shared_cpus: bed_facts.shared_cpus,
        mtu: bed_facts.mtu,
        throttled: Vec::new(),
        stolen: 0.0,
        seconds: load.total_seconds,
        beside: talked,
        changed: moved.changed.clone(),
        differing: Vec::new(),
    }
}

/// The other direction.
fn against(direction: Direction) -> Direction {
    match direction {
        Direction::Down => Direction::Up,
        Direction::Up | Direction::Both => Direction::Down,
    }
}

/// True if packets of the flow may also tell the other direction's sender what it has lost.
fn answers_losses(load: &LoadResult, flow: &FlowResult) -> bool {
    let others = load.flows.iter().filter(|other| other.direction != flow.direction);
    others.filter_map(|other| other.retransmits).any(|again| again > 0)
}

fn device(moved: &DevicesUse, counted: Counted) -> Option<DeviceFacts> {
    let found: &DeviceUse = moved.devices.iter().find(|d| d.device == counted.device)?;
    let (packets, bytes) = if counted.leaving {
        (found.tx_packets, found.tx_bytes)
    } else {
        (found.rx_packets, found.rx_bytes)
    };
    Some(DeviceFacts { name: found.device.clone(), header: counted.header, packets, bytes })
}

fn packet_bytes(facts: &Facts) -> f64 {
    let devices = || facts.flows.iter().filter_map(|flow| flow.device.as_ref());
    let packets: u64 = devices().map(|d| d.packets).sum();
    let bytes: u64 = devices().map(|d| d.bytes).sum();
    if packets > 0 { bytes as f64 / packets as f64 } else { 0.0 }
}

fn flow_of(flow: &FlowResult, seconds: f64) -> Flow {
    Flow {
        direction: flow.direction,
        goodput: BitRate::of(flow.window_bytes, seconds),
        bytes: flow.bytes,
        retransmits: flow.retransmits,
        lost: flow.datagrams.map(|d| d.lost),
        received: flow.datagrams.map(|d| d.received),
        generator_cpu: if seconds > 0.0 { flow.cpu_seconds / seconds } else { 0.0 },
        sent_by: flow.sent_by.clone(),
    }
}

fn notes(shared_cpus: bool, load: &LoadResult) -> Vec<String> {
    let mut notes = Vec::new();
    if shared_cpus {
        // Time in softirq is charged to whatever thread it interrupts, so a share of CPU says little
        // about the generator itself here.
        let busiest = load.flows.iter().map(|f| f.busiest_thread).fold(0.0, f64::max);
        notes.push(format!(
            "the load generator shared the router's CPUs; its busiest thread used {:.0} % of one",
            busiest * 100.0
        ));
    }
    for flow in &load.flows {
        if let Some(by) = &flow.sent_by {
            notes.push(format!("{}: frames left by {by}", flow.direction));
        }
        if let Some(error) = &flow.error {
            notes.push(format!("{}: {error}", flow.direction));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_before_a_stop_between_two_runs_is_kept() {
        let spec = LoadSpec::tcp(Direction::Both, 1, 1.0, 0.0);
        let run = |direction| Measurement {
            direction,
            flows: Vec::new(),
            seconds: 1.0,
            packet_bytes: 0.0,
            cpus: Vec::new(),
            devices: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
            beside: SideFigures::default(),
            series: Vec::new(),
            shift: None,
            precision: None,
            settings: Vec::new(),
        };
        let until = |most: usize, error: fn() -> Error| {
            let mut made = 0;
            each_direction(&spec, &mut |spec| {
                made += 1;
                if made > most { Err(error()) } else { Ok(run(spec.direction)) }
            })
        };
        let stop = || Error::interrupted("load");
        let directions =
            |runs: Vec<Measurement>| -> Vec<_> { runs.iter().map(|run| run.direction).collect() };
        assert_eq!(until(0, stop).unwrap_err().code(), ExitCode::Interrupted);
        assert_eq!(directions(until(1, stop).unwrap()), [Direction::Down]);
        assert_eq!(directions(until(2, stop).unwrap()), [Direction::Down, Direction::Up]);
        assert_eq!(until(3, stop).unwrap().len(), 3);
        // What is no stop is no result.
        let broken = || Error::not_supported("load", "no sockets");
        assert_eq!(until(2, broken).unwrap_err().code(), ExitCode::NotSupported);
    }
}
