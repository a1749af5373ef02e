//! What a load runs on: who sends it, who reads the router's counters, and who can look beside it.

use std::sync::atomic::AtomicBool;

use super::rules::DeviceFacts;
use super::series::Reading;
use super::{Context, device, told};
use crate::error::Result;
use crate::host::Live;
use crate::lab;
use crate::load::latency::{self, Probing};
use crate::load::spinner::{Spinners, Spinning};
use crate::load::{self, LoadResult, LoadSpec, Moment};
use crate::model::measurement::{Direction, EvidenceClass, Experiment, Measurement, Protocol};
use crate::model::units::BitRate;
use crate::sample::{DeviceCounters, DevicesUse, Health, Settings};

/// A router with a load generator at each side: a lab on this machine, or agents on others.
pub trait Bed: Sync {
    /// What its figures are evidence of.
    fn class(&self) -> EvidenceClass;
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
    /// The router's counters now; called at both ends of the window and where its pieces meet.
    ///
    /// # Errors
    /// What the kernel answered.
    fn reading(&self, moment: Moment) -> Result<Reading>;
    /// The router's devices now, and what must stay as it is; called before and after the run.
    ///
    /// # Errors
    /// What the kernel answered.
    fn around(&self, edge: Edge) -> Result<(DeviceCounters, Held)>;
    /// Where the router counted the payload of `direction`; `None` where nobody can tell.
    fn device(&self, moved: &DevicesUse, direction: Direction) -> Option<DeviceFacts>;
    /// Header bytes per packet beside the IP packet's, as that device counts them.
    fn link_header(&self, direction: Direction) -> u32;
    /// Bytes that were said beside the load since the run began, and that may have passed the router.
    fn talked(&self) -> u64 {
        0
    }
    /// Whether the generator ran on the CPUs that forward.
    fn shared_cpus(&self) -> bool;
    /// Largest IP packet on the path, bytes.
    fn mtu(&self) -> u32;
    /// Rate of the slowest link on the path that is known, bit/s on the wire.
    fn link(&self) -> Option<BitRate> {
        None
    }
    /// Connections of the load that are in the router's flowtable now; `None` where there is none.
    fn offloaded(&self, _spec: &LoadSpec) -> Option<u64> {
        None
    }
    /// Packets of a run one way that passed the router and that its receiver did not get;
    /// `received` is what it got.
    fn lost_behind(&self, run: &Measurement, received: u64, streams: u32) -> u64;
    /// Starts probing round trips.
    ///
    /// # Errors
    /// When the probe can't be had.
    fn probe(&self) -> Result<Box<dyn Probing>>;
    /// Starts a spinner of the lowest priority on each of the router's CPUs.
    ///
    /// # Errors
    /// When they can't be had.
    fn spin(&self) -> Result<Box<dyn Spinning>>;
    /// The router's hottest zone now.
    fn celsius(&self) -> Option<f64>;
    /// Whether a way that does not carry the load now may do so in a moment: real links come up slowly.
    fn may_come_back(&self) -> bool {
        false
    }
    /// Notes in the record of an experiment what its load runs on.
    fn note(&self, _experiment: &mut Experiment) {}
    /// What else is known after a run; `offloaded` is the most that [`Bed::offloaded`] told.
    fn add(&self, spec: &LoadSpec, offloaded: Option<u64>, measured: &mut Measurement);
}

/// An end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Before anything is sent.
    Before,
    /// After everything has arrived.
    After,
}

/// What must stay as it is while it is measured.
pub struct Held {
    pub(super) health: Health,
    pub(super) settings: Settings,
}

/// What did not.
pub(super) struct NotHeld {
    pub(super) throttled: Vec<String>,
    pub(super) differing: Vec<String>,
}

impl Held {
    pub(super) fn read(router: &Live) -> Self {
        Self { health: Health::read(router), settings: Settings::read(router) }
    }

    pub(super) fn since(&self, before: &Self) -> NotHeld {
        NotHeld {
            throttled: self.health.throttled_since(&before.health),
            differing: self.settings.changed_since(&before.settings),
        }
    }
}

/// Packets of a stream beside its data: greetings, ends and answers, some of them repeated.
const TALK_PER_STREAM: u64 = 40;

impl Bed for Context {
    fn class(&self) -> EvidenceClass {
        EvidenceClass::Lab
    }

    fn load(
        &self,
        spec: &LoadSpec,
        stop: &AtomicBool,
        on: &mut dyn FnMut(Moment),
    ) -> Result<LoadResult> {
        load::run(&self.ends, spec, stop, on)
    }

    fn reading(&self, _: Moment) -> Result<Reading> {
        told(Reading::take(&self.router, &self.devices()))
    }

    fn around(&self, _: Edge) -> Result<(DeviceCounters, Held)> {
        let counters = told(DeviceCounters::read(&self.router, &self.devices()))?;
        Ok((counters, Held::read(&self.router)))
    }

    fn device(&self, moved: &DevicesUse, direction: Direction) -> Option<DeviceFacts> {
        device(moved, self.counted(direction))
    }

    fn link_header(&self, direction: Direction) -> u32 {
        self.counted(direction).header
    }

    fn shared_cpus(&self) -> bool {
        self.shared_cpus
    }

    fn mtu(&self) -> u32 {
        self.mtu
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

    fn probe(&self) -> Result<Box<dyn Probing>> {
        latency::start(&self.ends)
    }

    fn spin(&self) -> Result<Box<dyn Spinning>> {
        Ok(Box::new(Spinners::start(&self.router_cpus)?))
    }

    fn celsius(&self) -> Option<f64> {
        Health::read(&self.router).celsius()
    }

    fn add(&self, spec: &LoadSpec, offloaded: Option<u64>, measured: &mut Measurement) {
        measured.notes.extend(flowtable(self, spec, offloaded));
    }
}

/// By its name in the kernel's list of connections.
fn protocol(spec: &LoadSpec) -> &'static str {
    match spec.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

/// What is known of a flowtable's part in it.
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
