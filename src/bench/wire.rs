//! Measuring between other machines: the load's two sides and the router are asked through their
//! agents.
//!
//! ```text
//!   lan agent ── data connections ──▶ router (agent, where there is one) ──▶ wan agent
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::rules::DeviceFacts;
use super::series::Reading;
use super::{Bed, Held, each_direction, measure_on};
use crate::agent::wire::{Answer, Facts, Request, WayOut};
use crate::agent::{Agent, ClockOffset, Files, Sample};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::lab::Counted;
use crate::load::half::{Run, drive};
use crate::load::{LoadResult, LoadSpec, Moment};
use crate::model::measurement::{
    CpuUse, Direction, EvidenceClass, Measurement, Refusal, RefusalCode,
};
use crate::sample::{DeviceCounters, DevicesUse, Settings};

/// A CPU of a host above this share of its time had nothing left for more load.
const BUSY: f64 = 0.90;

/// One agent's machine, for the record.
#[derive(Debug, Clone, Serialize)]
pub struct Party {
    /// `lan`, `wan` or `router`.
    pub role: &'static str,
    /// What the agent says of its machine.
    #[serde(flatten)]
    pub facts: Facts,
    /// How its clocks differed from the controller's at the beginning.
    pub clock: ClockOffset,
    /// Its settings at the beginning; the router's only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    #[serde(skip)]
    agent: Agent,
}

/// The machines of a measurement.
pub struct Wire {
    /// LAN, WAN, and the router where it has an agent.
    pub parties: Vec<Party>,
    /// Where the LAN finds the WAN.
    pub address: IpAddr,
    /// Whether some of them are one machine.
    pub shared: bool,
    /// Readings of the hosts' CPUs at the window's ends, and of their devices around the run.
    seen: Mutex<Vec<Vec<Sample>>>,
}

impl Wire {
    /// Asks the agents for everything that must be known before a run.
    ///
    /// # Errors
    /// What an agent answered, or that it is gone; no way from one side to the other.
    pub fn new(lan: Agent, wan: Agent, router: Option<Agent>, address: IpAddr) -> Result<Self> {
        let lan = party("lan", lan, &[address])?;
        let from: Vec<IpAddr> = lan.facts.ways.iter().map(|way| way.from).collect();
        let mut wan = party("wan", wan, &[])?;
        let router = match router {
            None => None,
            Some(router) => {
                let to: Vec<IpAddr> = from.iter().copied().chain([address]).collect();
                let mut router = party("router", router, &to)?;
                router.settings = settings(&router.agent)?;
                Some(router)
            }
        };
        // The WAN host's way back leads to the router, or to the LAN; behind NAT it may know none.
        let back = router.iter().flat_map(|r| &r.facts.ways).find(|w| w.to == address);
        let back = back.map(|w| w.from).or(from.first().copied());
        if let Some(back) = back
            && let Ok(facts) = facts(&wan.agent, &[back])
        {
            wan.facts = facts;
        }
        let parties: Vec<Party> = [lan, wan].into_iter().chain(router).collect();
        let boots: std::collections::BTreeSet<&str> =
            parties.iter().map(|p| p.facts.boot.as_str()).collect();
        let shared = boots.len() < parties.len();
        Ok(Self { parties, address, shared, seen: Mutex::default() })
    }

    /// What a figure from here is evidence of: agents on one machine make no wire.
    #[must_use]
    pub fn class(&self) -> EvidenceClass {
        if self.shared { EvidenceClass::Lab } else { EvidenceClass::Wire }
    }

    /// Largest IP packet on all of the ways that are known, bytes.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        let ways = self.parties.iter().flat_map(|p| &p.facts.ways);
        ways.map(|way| way.mtu).min().unwrap_or(1500)
    }

    /// Settings of the router that are not what they were at the beginning.
    ///
    /// # Errors
    /// When the router's agent is gone.
    fn changed(&self) -> Result<Vec<String>> {
        let Some(router) = self.router() else { return Ok(Vec::new()) };
        let now = settings(&router.agent)?;
        let then = &router.settings;
        let names: std::collections::BTreeSet<&String> = then.keys().chain(now.keys()).collect();
        let show = |value: Option<&String>| value.map_or("gone", String::as_str).to_owned();
        let differing = names.into_iter().filter(|name| then.get(*name) != now.get(*name));
        Ok(differing
            .map(|name| format!("{name}: {} became {}", show(then.get(name)), show(now.get(name))))
            .collect())
    }

    fn router(&self) -> Option<&Party> {
        self.parties.iter().find(|p| p.role == "router")
    }

    /// The router's way to the LAN (true) or to the WAN.
    fn way(&self, lan: bool) -> Option<&WayOut> {
        let ways = &self.router()?.facts.ways;
        ways.iter().find(|way| (way.to == self.address) != lan)
    }

    /// All samples now, in the order of the parties.
    fn samples(&self) -> Result<Vec<Sample>> {
        self.parties.iter().map(Party::sample).collect()
    }

    /// What was read before the run.
    fn first(&self) -> Option<Vec<Sample>> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).first().cloned()
    }

    fn note(&self, samples: &[Sample]) {
        let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        seen.push(samples.to_vec());
    }
}

impl Party {
    /// Its counters now.
    fn sample(&self) -> Result<Sample> {
        let mut devices: Vec<String> = Vec::new();
        for way in &self.facts.ways {
            for device in way.counted.iter().chain([&way.device]) {
                if !devices.contains(device) {
                    devices.push(device.clone());
                }
            }
        }
        match self.agent.ask(&Request::Sample(devices.clone()))? {
            Answer::Sample(files) => Sample::read(&Files::sent(files), &devices),
            _ => Err(self.agent.unexpected()),
        }
    }
}

fn party(role: &'static str, agent: Agent, to: &[IpAddr]) -> Result<Party> {
    let clock = agent.compare_clocks()?;
    let facts = facts(&agent, to)?;
    Ok(Party { role, facts, clock, settings: BTreeMap::new(), agent })
}

fn facts(agent: &Agent, to: &[IpAddr]) -> Result<Facts> {
    match agent.ask(&Request::Facts(to.to_vec()))? {
        Answer::Facts(facts) => Ok(*facts),
        _ => Err(agent.unexpected()),
    }
}

fn settings(agent: &Agent) -> Result<BTreeMap<String, String>> {
    match agent.ask(&Request::Settings)? {
        Answer::Settings(settings) => Ok(settings),
        _ => Err(agent.unexpected()),
    }
}

/// Each direction that `spec` consists of alone, and then both at once if that is what is asked.
///
/// # Errors
/// As [`drive`]; when an agent is gone before there is anything to tell.
pub fn measure_directions(
    wire: &Wire,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<Vec<Measurement>> {
    each_direction(spec, &mut |spec| {
        wire.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        measure_on(&mut WireBed(wire), spec, stop, &mut |_| ())
    })
}

struct WireBed<'a>(&'a Wire);

impl Bed for WireBed<'_> {
    fn load(
        &self,
        spec: &LoadSpec,
        stop: &AtomicBool,
        on: &mut dyn FnMut(Moment),
    ) -> Result<LoadResult> {
        let run = Run { spec: spec.clone(), id: fastrand::u64(..), address: self.0.address };
        let [lan, wan, ..] = self.0.parties.as_slice() else {
            return Err(Error::usage("bench", "two sides are needed"));
        };
        let ran = drive(&mut lan.agent.clone(), &mut wan.agent.clone(), &run, stop, on);
        ran.map_err(|error| match error.remedy() {
            None if error.code() == ExitCode::Refused => error.hint(
                "if that is about data and not control: does a firewall on the WAN host let the \
                 LAN's connections in, and is --wan-address where the LAN finds it?",
            ),
            _ => error,
        })
    }

    fn reading(&self, moment: Moment) -> Result<Reading> {
        let sample = if moment == Moment::Within {
            self.0.router().and_then(|router| router.sample().ok())
        } else {
            // A party that is lost during the run is told by the load, which then has no
            // acknowledgement; its counters are not the point any more.
            self.0.samples().ok().and_then(|samples| {
                self.0.note(&samples);
                samples.into_iter().nth(2)
            })
        };
        let (cpus, devices) = sample.map(|s| (s.cpus, s.devices)).unwrap_or_default();
        Ok(Reading { cpus, devices })
    }

    fn around(&self) -> Result<(DeviceCounters, Held)> {
        let samples = match self.0.samples() {
            Ok(samples) => samples,
            // Lost on the way: the load says so, and nothing is known to have been counted since.
            Err(error) => self.0.first().ok_or(error)?,
        };
        self.0.note(&samples);
        let router = samples.into_iter().nth(2);
        let (devices, health) = router.map(|r| (r.devices, r.health)).unwrap_or_default();
        // All settings of the router are compared in `add`, by another request.
        Ok((devices, Held { health, settings: Settings::default() }))
    }

    fn device(&self, moved: &DevicesUse, direction: Direction) -> Option<DeviceFacts> {
        let way = self.0.way(direction != Direction::Down)?;
        let ports = moved.devices.iter().filter(|d| way.counted.contains(&d.device));
        let (packets, bytes) = ports.fold((0, 0), |(packets, bytes), port| {
            (packets + port.rx_packets, bytes + port.rx_bytes)
        });
        let name = way.counted.join("+");
        let header = Counted::ETHERNET;
        (!way.counted.is_empty()).then_some(DeviceFacts { name, header, packets, bytes })
    }

    fn link_header(&self, _: Direction) -> u32 {
        Counted::ETHERNET
    }

    fn shared_cpus(&self) -> bool {
        self.0.shared
    }

    fn mtu(&self) -> u32 {
        self.0.mtu()
    }

    fn add(&self, measured: &mut Measurement) {
        let wire = self.0;
        let mut refuse = |code, why| measured.refusals.push(Refusal { code, why });
        let seen = wire.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let [before, open, close, after] = seen.as_slice() {
            for (at, party) in wire.parties.iter().enumerate().take(2) {
                let at = |samples: &[Sample]| samples.get(at).cloned();
                let (Some(before), Some(open), Some(close), Some(after)) =
                    (at(before), at(open), at(close), at(after))
                else {
                    continue;
                };
                if !wire.shared
                    && let Some(why) = busy(party.role, &close.cpus.since(&open.cpus))
                {
                    refuse(RefusalCode::GeneratorBound, why);
                }
                let changed = after.devices.since(&before.devices).changed;
                if !changed.is_empty() {
                    let why = format!("{} host: {}", party.role, changed.join("; "));
                    refuse(RefusalCode::LinkChanged, why);
                }
                let throttled = after.health.throttled_since(&before.health);
                if !throttled.is_empty() {
                    let why = format!("{} host: {}", party.role, throttled.join("; "));
                    refuse(RefusalCode::Throttled, why);
                }
            }
        }
        match wire.changed() {
            Ok(changed) if changed.is_empty() => {}
            Ok(changed) => refuse(RefusalCode::SettingsDiffer, changed.join("; ")),
            Err(error) => {
                let why = format!("whether the router's settings stayed is not known: {error}");
                refuse(RefusalCode::SettingsDiffer, why);
            }
        }
        if wire.router().is_none() {
            measured.notes.push(
                "without an agent on the router nothing is known of its CPUs, and no counter of its \
                 devices confirms the figure (--router HOST)"
                    .into(),
            );
        } else if [true, false]
            .iter()
            .any(|lan| wire.way(*lan).is_none_or(|w| w.counted.is_empty()))
        {
            measured.notes.push(
                "a device of the router counts no whole frames (PPP, VLAN, tunnel): that direction \
                 is not compared with its counters"
                    .into(),
            );
        }
    }
}

/// Whether a host had no CPU left, and where.
fn busy(role: &str, cpus: &[CpuUse]) -> Option<String> {
    let busiest = cpus.iter().min_by(|a, b| a.idle.total_cmp(&b.idle))?;
    let share = 1.0 - busiest.idle;
    (share > BUSY).then(|| {
        format!(
            "{role} host: {} was busy for {:.0} % of the time, above {:.0} %: the host was the \
             bottleneck, not the router",
            busiest.cpu,
            share * 100.0,
            BUSY * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::units::CpuId;

    #[test]
    fn a_host_without_a_cpu_to_spare_was_the_bottleneck() {
        let cpu = |id, idle: f64| CpuUse {
            cpu: CpuId(id),
            user: 0.0,
            system: 1.0 - idle,
            irq: 0.0,
            softirq: 0.0,
            idle,
            packets: 0,
            dropped: 0,
            squeezed: 0,
        };
        assert_eq!(busy("lan", &[]), None);
        assert_eq!(busy("lan", &[cpu(0, 0.11), cpu(1, 0.9)]), None);
        let why = busy("wan", &[cpu(0, 0.8), cpu(1, 0.02)]).unwrap();
        assert!(why.starts_with("wan host: CPU1 was busy for 98 %"), "{why}");
    }
}
