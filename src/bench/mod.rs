//! One measurement: load through a router, counters beside it, and the reasons to refuse it.
//!
//! ```text
//!   settle ─▶ devices, health ─▶ load::run ┬ window opens:  CPUs ┐
//!                                          └ window closes: CPUs ┘ ─▶ devices, health ─▶ rules
//! ```

pub mod against;
pub mod beside;
pub mod rules;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::host::{HostError, HostResult, Live, clock};
use crate::lab::{self, Lab};
use crate::load::{self, Ends, FlowResult, LoadResult, LoadSpec, Moment};
use crate::model::cpuset::CpuSet;
use crate::model::measurement::{DeviceUse, Direction, Flow, Measurement, Protocol};
use crate::model::units::BitRate;
use crate::sample::{CpuCounters, DeviceCounters, DevicesUse, Health};
use rules::{DeviceFacts, Facts, FlowFacts, Rates};

/// Quiet time before a run, so that the last one's connections are closed on both sides.
const SETTLE: Duration = Duration::from_millis(50);
/// Quiet time after a run: the last acknowledgements pass the router.
const DRAIN: Duration = Duration::from_millis(20);
/// How often waiting looks at the stop flag.
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
    /// Whether the generator runs on the CPUs that forward.
    pub shared_cpus: bool,
    /// Largest IP packet on the path, bytes.
    pub mtu: u32,
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
                wan_address: lab::WAN_ADDRESS.into(),
                cpus: generator,
            },
            router: lab.router_host(),
            lan_device: lab::ROUTER_LAN.into(),
            wan_device: lab::ROUTER_WAN.into(),
            mtu,
        }
    }

    /// The device on which the router receives the payload of `direction`.
    fn loaded_device(&self, direction: Direction) -> &str {
        match direction {
            Direction::Down => &self.wan_device,
            Direction::Up | Direction::Both => &self.lan_device,
        }
    }
}

/// Runs the load once and says what came of it. An untrustworthy result is no error: it carries
/// its refusals.
///
/// # Errors
/// As [`load::run`]; not supported or not permitted when counters can't be read.
pub fn measure(context: &Context, spec: &LoadSpec, stop: &AtomicBool) -> Result<Measurement> {
    measure_with(context, spec, stop, &mut |_| ())
}

/// [`measure`], telling `on` of each [`Moment`] from the calling thread.
fn measure_with(
    context: &Context,
    spec: &LoadSpec,
    stop: &AtomicBool,
    on: &mut dyn FnMut(Moment),
) -> Result<Measurement> {
    spec.check()?;
    pause(SETTLE, stop);
    let devices = [context.lan_device.as_str(), context.wan_device.as_str()];
    let before = told(DeviceCounters::read(&context.router, &devices))?;
    let health = Health::read(&context.router);
    let mut edges = Vec::new();
    let mut edge = |moment: Moment| {
        on(moment);
        edges.push(CpuCounters::read(&context.router));
    };
    let load = load::run(&context.ends, spec, stop, &mut edge)?;
    pause(DRAIN, stop);
    let moved = told(DeviceCounters::read(&context.router, &devices))?.since(&before);
    let throttled = Health::read(&context.router).throttled_since(&health);
    let edges = edges.into_iter().collect::<HostResult<Vec<_>>>();
    let cpus = match told(edges)?.as_slice() {
        [open, close] => close.since(open),
        _ => Vec::new(),
    };
    let facts = facts(context, spec, &load, &moved, throttled, stop.load(Ordering::Relaxed));
    Ok(Measurement {
        direction: spec.direction,
        flows: load.flows.iter().map(|flow| flow_of(flow, load.seconds)).collect(),
        seconds: load.seconds,
        packet_bytes: packet_bytes(&facts),
        cpus,
        devices: moved.devices,
        refusals: rules::refusals(&facts),
        notes: notes(context, &load),
    })
}

/// Measures each direction that `spec` consists of alone, and then both at once if that is what
/// is asked; the last result is refused where a direction starved in it.
///
/// # Errors
/// As [`measure`].
pub fn measure_directions(
    context: &Context,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<Vec<Measurement>> {
    let once = |direction| measure(context, &LoadSpec { direction, ..spec.clone() }, stop);
    if spec.direction != Direction::Both {
        return Ok(vec![once(spec.direction)?]);
    }
    let (down, up) = (once(Direction::Down)?, once(Direction::Up)?);
    let mut both = once(Direction::Both)?;
    let alone = Rates { down: down.rate(), up: up.rate() };
    let rate = |direction| {
        let flow = both.flows.iter().find(|f| f.direction == direction);
        flow.map_or(BitRate(0.0), |f| f.goodput)
    };
    let together = Rates { down: rate(Direction::Down), up: rate(Direction::Up) };
    both.refusals.extend(rules::starved(alone, together));
    Ok(vec![down, up, both])
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
    let until = clock::monotonic() + duration;
    while clock::monotonic() < until && !stop.load(Ordering::Relaxed) {
        clock::sleep(SLICE.min(duration));
    }
}

fn facts(
    context: &Context,
    spec: &LoadSpec,
    load: &LoadResult,
    moved: &DevicesUse,
    throttled: Vec<String>,
    stopped: bool,
) -> Facts {
    let flows = load.flows.iter().map(|flow| FlowFacts {
        direction: flow.direction,
        asked: spec.rate,
        sent_rate: BitRate::of(flow.window_sent, load.seconds),
        window_bytes: flow.window_bytes,
        bytes: flow.bytes,
        sent_at_most: match spec.protocol {
            Protocol::Tcp => flow.retransmitted_bytes.map(|again| flow.bytes + again),
            Protocol::Udp => Some(flow.sent),
        },
        unacknowledged: flow.unacknowledged,
        error: flow.error.clone(),
        busiest_thread: flow.busiest_thread,
        header_bytes: flow.header_bytes,
        device: device(moved, context.loaded_device(flow.direction)),
    });
    Facts {
        flows: flows.collect(),
        interrupted: load.interrupted || stopped,
        shared_cpus: context.shared_cpus,
        mtu: context.mtu,
        throttled,
        changed: moved.changed.clone(),
    }
}

fn device(moved: &DevicesUse, name: &str) -> Option<DeviceFacts> {
    let found: &DeviceUse = moved.devices.iter().find(|d| d.device == name)?;
    Some(DeviceFacts { name: name.into(), packets: found.rx_packets, bytes: found.rx_bytes })
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
    }
}

fn notes(context: &Context, load: &LoadResult) -> Vec<String> {
    let mut notes = Vec::new();
    if context.shared_cpus {
        // Time in softirq is charged to whatever thread it interrupts, so a share of CPU says little
        // about the generator itself here.
        let busiest = load.flows.iter().map(|f| f.busiest_thread).fold(0.0, f64::max);
        notes.push(format!(
            "the load generator shared the router's CPUs; its busiest thread used {:.0} % of one",
            busiest * 100.0
        ));
    }
    for flow in &load.flows {
        if let Some(error) = &flow.error {
            notes.push(format!("{}: {error}", flow.direction));
        }
    }
    notes
}
