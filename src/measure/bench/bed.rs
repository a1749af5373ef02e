//! The bed that a load runs on: what generates it ([`Generate`]), what reads the router's counters
//! beside it ([`Observe`]), and what is known of both beforehand ([`BedFacts`]).

use std::sync::atomic::AtomicBool;

use super::rules::DeviceFacts;
use super::series::Reading;
use super::{Context, device, told};
use crate::error::{Error, Result};
use crate::machine::host::Live;
use crate::measure::lab;
use crate::measure::load::latency::{self, Probing};
use crate::measure::load::spinner::{Spinners, Spinning};
use crate::measure::load::{self, LoadResult, LoadSpec, Moment};
use crate::measure::sample::{DeviceCounters, DevicesUse, Health, Held, NotHeld, Watched};
use crate::model::measurement::{Direction, EvidenceClass, Experiment, Measurement, Protocol};
use crate::model::units::BitRate;

/// A router with a load generator at each side: a lab on this machine, or agents on others.
pub trait Bed: Generate + Observe {
    /// Facts about the bed that are known before anything is sent.
    fn facts(&self) -> BedFacts;
    /// Notes in the record of an experiment what its load runs on.
    fn note(&self, _experiment: &mut Experiment) {}
}

/// Facts about a bed that are known before anything is sent over it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BedFacts {
    /// The kind of evidence that its figures are.
    pub class: EvidenceClass,
    /// True if the generator runs on the CPUs that forward.
    pub shared_cpus: bool,
    /// Largest IP packet on the path, bytes.
    pub mtu: u32,
    /// Rate of the slowest link on the path that is known, bit/s on the wire.
    pub link: Option<BitRate>,
    /// True if a way that does not carry the load now may do so in a moment, as real links may.
    pub comes_up_slowly: bool,
}

/// Generation of work for the router: the load, and the probes and spinners beside it.
pub trait Generate: Sync {
    /// Runs the load.
    ///
    /// # Errors
    /// As [`load::run`].
    fn load(
        &self,
        spec: &LoadSpec,
        stop: &AtomicBool,
        on: &mut dyn FnMut(Moment),
    ) -> Result<LoadResult>;
    /// Starts probing round trips.
    ///
    /// # Errors
    /// Fails if the probe can't be had.
    fn probe(&self) -> Result<Box<dyn Probing>>;
    /// Starts a spinner of the lowest priority on each of the router's CPUs.
    ///
    /// # Errors
    /// Fails if the spinners can't be had.
    fn spin(&self) -> Result<Box<dyn Spinning>>;
    /// Error after which nothing more can be measured: an agent is gone. `None` as long as all are
    /// there.
    fn lost(&self) -> Option<Error> {
        None
    }
}

/// Observation beside a load: the router's counters, and all else that decides if a run stands.
pub trait Observe: Sync {
    /// Everything that is compared over the whole run; called before and after it.
    ///
    /// # Errors
    /// The error of the kernel.
    fn around(&self, edge: Edge) -> Result<Around>;
    /// The router's counters now; called at both ends of the window and where its pieces meet.
    ///
    /// # Errors
    /// The error of the kernel.
    fn reading(&self, moment: Moment) -> Result<Reading>;
    /// Device where the router counted the payload of `direction`; `None` where nobody knows.
    fn device(&self, moved: &DevicesUse, direction: Direction) -> Option<DeviceFacts>;
    /// Connections of the load that are in the router's flowtable now; `None` where there is none.
    fn offloaded(&self, _spec: &LoadSpec) -> Option<u64> {
        None
    }
    /// Packets of a run one way that passed the router and that its receiver did not get;
    /// `received` is what it got.
    fn lost_behind(&self, run: &Measurement, received: u64, streams: u32) -> u64;
    /// The temperature of the router's hottest zone now, degrees Celsius.
    fn celsius(&self) -> Option<f64>;
    /// Adds what else is known after a run; `offloaded` is the most that [`Observe::offloaded`]
    /// returned.
    fn conclude(&self, spec: &LoadSpec, offloaded: Option<u64>, measured: &mut Measurement);
}

/// An end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Before anything is sent.
    Before,
    /// After everything has arrived.
    After,
}

/// State that is compared over a run, at one end of it.
pub struct Around {
    /// The router's devices.
    pub(super) devices: DeviceCounters,
    /// State that must stay the same during the run, of hosts on this machine.
    pub(super) held: Held,
    /// Changes that agents saw on other machines.
    pub(super) told: NotHeld,
    /// Bytes that were said so far beside loads, and that may have passed the router.
    pub(super) talked: u64,
}

/// Packets of a stream beside its data: greetings, ends and answers, some of them repeated.
const TALK_PER_STREAM: u64 = 40;

impl Bed for Context {
    fn facts(&self) -> BedFacts {
        BedFacts {
            class: EvidenceClass::Lab,
            shared_cpus: self.shared_cpus,
            mtu: self.mtu,
            link: None,
            comes_up_slowly: false,
        }
    }
}

impl Generate for Context {
    fn load(
        &self,
        spec: &LoadSpec,
        stop: &AtomicBool,
        on: &mut dyn FnMut(Moment),
    ) -> Result<LoadResult> {
        load::run(&self.ends, spec, stop, on)
    }

    fn probe(&self) -> Result<Box<dyn Probing>> {
        latency::start(&self.ends)
    }

    fn spin(&self) -> Result<Box<dyn Spinning>> {
        Ok(Box::new(Spinners::start(&self.router_cpus)?))
    }
}

impl Observe for Context {
    fn around(&self, edge: Edge) -> Result<Around> {
        let devices = told(DeviceCounters::read(&self.router, &self.devices()))?;
        let end = |name, netns| Watched {
            name,
            host: Live::in_netns(std::sync::Arc::clone(netns)),
            interrupts: false,
        };
        let hosts = [
            Watched { name: "the router", host: self.router.clone(), interrupts: true },
            end("the LAN's host", &self.ends.lan),
            end("the WAN's host", &self.ends.wan),
        ];
        let held = match edge {
            Edge::Before => Held::before(&hosts),
            Edge::After => Held::after(&hosts),
        };
        Ok(Around { devices, held, told: NotHeld::default(), talked: 0 })
    }

    fn reading(&self, moment: Moment) -> Result<Reading> {
        told(Reading::take(&self.router, &self.devices(), moment))
    }

    fn device(&self, moved: &DevicesUse, direction: Direction) -> Option<DeviceFacts> {
        device(moved, self.counted(direction))
    }

    fn offloaded(&self, spec: &LoadSpec) -> Option<u64> {
        if self.flowtable { lab::offloaded(&self.router, protocol(spec)) } else { None }
    }

    fn lost_behind(&self, run: &Measurement, received: u64, streams: u32) -> u64 {
        let out = match run.direction {
            Direction::Down => &self.lan_device,
            Direction::Up | Direction::Both => &self.wan_device,
        };
        let forwarded = run.devices.iter().find(|d| d.device == *out).map_or(0, |d| d.tx_packets);
        forwarded.saturating_sub(received + TALK_PER_STREAM * u64::from(streams))
    }

    fn celsius(&self) -> Option<f64> {
        Health::read(&self.router).celsius()
    }

    fn conclude(&self, spec: &LoadSpec, offloaded: Option<u64>, measured: &mut Measurement) {
        measured.notes.extend(flowtable(self, spec, offloaded));
    }
}

/// The protocol's name in the kernel's list of connections.
fn protocol(spec: &LoadSpec) -> &'static str {
    match spec.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

/// Note about the flowtable's part in a run; `None` without a flowtable.
fn flowtable(context: &Context, spec: &LoadSpec, carried: Option<u64>) -> Option<String> {
    let streams = spec.streams as usize * spec.directions().len();
    context.flowtable.then(|| match carried {
        Some(carried) => format!(
            "the flowtable carried {carried} {} connections; the load has {streams}",
            protocol(spec)
        ),
        None => "whether the flowtable carried the connections is not known: this kernel does not \
                 list them (CONFIG_NF_CONNTRACK_PROCFS)"
            .to_owned(),
    })
}
