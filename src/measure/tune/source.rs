//! Sources of an experiment's load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::router::Router;
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{Live, clock};
use crate::measure::bench::driver::{self, Driver, Target};
use crate::measure::bench::{self, Bed, beside};
use crate::measure::load::LoadSpec;
use crate::model::goal::{Goal, Quantity};
use crate::model::measurement::{
    Direction, EvidenceClass, Experiment, Measurement, Refusal, RefusalCode,
};
use crate::model::snapshot::NetDev;

/// Something that loads a router and measures what came of it.
pub trait Source {
    /// Class of evidence to which the figures of this source belong.
    fn class(&self) -> EvidenceClass;

    /// Notes in the record of an experiment where its load comes from.
    fn note(&self, experiment: &mut Experiment);

    /// Measures one direction.
    ///
    /// # Errors
    /// Fails if nothing could be measured at all; a doubtful figure is a refusal in the
    /// measurement.
    fn measure(&self, direction: Direction, stop: &AtomicBool) -> Result<Measurement>;

    /// Error after which nothing more can be measured: an agent is gone. `None` as long as all are
    /// there.
    fn lost(&self) -> Option<Error> {
        None
    }
}

/// Longest time in which a link carries traffic again after a setting of its card has changed:
/// autonegotiation takes seconds.
const LINK: Duration = Duration::from_secs(10);

/// A load through a router, of a lab or between agents, and what is looked at beside it for a goal.
pub struct BedLoad<'a> {
    bed: &'a dyn Bed,
    load: LoadSpec,
    latency: bool,
    headroom: bool,
    temperature: bool,
}

impl<'a> BedLoad<'a> {
    /// `load` in each direction, and beside it what `goal` needs.
    #[must_use]
    pub fn new(bed: &'a dyn Bed, load: LoadSpec, goal: &Goal) -> Self {
        Self {
            bed,
            load,
            latency: goal.needs(Quantity::P99),
            headroom: goal.needs(Quantity::Headroom),
            temperature: goal.needs(Quantity::Temperature),
        }
    }
}

impl Source for BedLoad<'_> {
    fn class(&self) -> EvidenceClass {
        self.bed.facts().class
    }

    fn note(&self, experiment: &mut Experiment) {
        self.bed.note(experiment);
    }

    fn lost(&self) -> Option<Error> {
        self.bed.lost()
    }

    fn measure(&self, direction: Direction, stop: &AtomicBool) -> Result<Measurement> {
        let patience = clock::monotonic() + LINK;
        loop {
            match self.once(direction, stop) {
                Err(e)
                    if e.code() == ExitCode::Refused
                        && !stop.load(Ordering::Relaxed)
                        && self.bed.facts().comes_up_slowly
                        && self.bed.lost().is_none() =>
                {
                    if clock::monotonic() >= patience {
                        let refusal = Refusal { code: RefusalCode::NoTraffic, why: e.to_string() };
                        return Ok(Measurement {
                            refusals: vec![refusal],
                            ..Measurement::blank(direction)
                        });
                    }
                    clock::sleep(LINK / 20);
                }
                measured => return measured,
            }
        }
    }
}

impl BedLoad<'_> {
    fn once(&self, direction: Direction, stop: &AtomicBool) -> Result<Measurement> {
        let spec = LoadSpec { direction, ..self.load.clone() };
        let mut measured = None;
        if self.latency {
            let (mut run, seen) = beside::probed(self.bed, &spec, stop)?;
            // A cell has too few probes for a p99 of its own; the blocks together have enough.
            let at = |q| Some(seen.as_ref()?.quantile(q)? as f64 / 1e6);
            (run.beside.p50_ms, run.beside.p99_ms) = (at(0.5), at(0.99));
            measured = Some(run);
        }
        if self.headroom {
            // Spinners would make probes wait: a run of its own, where both are wanted.
            let (run, seen) = beside::with_headroom(self.bed, &spec, stop)?;
            let idle = seen.filter(|seen| !seen.disturbed).map(|seen| seen.idle_cpus);
            measured.get_or_insert(run).beside.idle_cpus = idle;
        }
        let mut measured = match measured {
            Some(run) => run,
            None => bench::measure(self.bed, &spec, stop)?,
        };
        if self.temperature {
            measured.beside.hottest = self.bed.celsius();
        }
        Ok(measured)
    }
}

/// This router's own traffic with an iperf3 server: what a router without machines on both its
/// sides can be loaded with. Nothing of it is forwarded.
pub struct ServerLoad {
    host: Live,
    devices: Vec<String>,
    server: SocketAddr,
    /// As the user calls it.
    name: String,
    load: LoadSpec,
}

impl ServerLoad {
    /// Traffic with `server`.
    #[must_use]
    pub fn new(router: &Router, server: SocketAddr, name: &str, load: LoadSpec) -> Self {
        let devices = router.snapshot().netdevs.iter();
        // What stands on others carries the same packets once more.
        let carries = |d: &&NetDev| (d.is_hardware() || d.is_veth()) && d.operstate != "down";
        let devices = devices.filter(carries).map(|d| d.name.clone()).collect();
        Self { host: router.host().clone(), devices, server, name: name.to_owned(), load }
    }

    /// Checks that the server answers at all, before anything is set.
    ///
    /// # Errors
    /// Refused if the server does not answer; not supported without iperf3.
    pub fn check(&self, stop: &AtomicBool) -> Result<()> {
        let spec = LoadSpec { seconds: 1.0, omit: 0.0, streams: 1, ..self.load.clone() };
        match driver::run(&self.host, &[], Driver::Iperf3, &self.target(), &spec, stop) {
            Err(e) if e.code() == ExitCode::Refused => {
                Err(Error::new(ExitCode::Refused, format!("measure with {}", self.server), e)
                    .hint("on that machine: iperf3 -s"))
            }
            answer => answer.map(drop),
        }
    }

    fn target(&self) -> Target {
        let server = Some(self.server.ip().to_string());
        Target { server, port: Some(self.server.port()), processes: 1 }
    }
}

impl Source for ServerLoad {
    fn class(&self) -> EvidenceClass {
        EvidenceClass::Wire
    }

    fn note(&self, experiment: &mut Experiment) {
        experiment.scenario.name = format!("iperf3 server {}", self.name);
        experiment.scenario.rules = 0;
    }

    fn measure(&self, direction: Direction, stop: &AtomicBool) -> Result<Measurement> {
        let spec = LoadSpec { direction, ..self.load.clone() };
        let devices: Vec<&str> = self.devices.iter().map(String::as_str).collect();
        driver::own_traffic(&self.host, &devices, &self.target(), &spec, stop)
    }
}
