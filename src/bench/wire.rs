//! Measuring between other machines: the load's two sides and the router are asked through their
//! agents.
//!
//! ```text
//!   lan agent ── data connections ──▶ router (agent, where there is one) ──▶ wan agent
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Bed;
use super::bed::{Edge, Held};
use super::rules::DeviceFacts;
use super::series::Reading;
use crate::agent::wire::{Answer, Request, plain};
use crate::agent::{self, Agent, Files, Sample};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{Live, clock};
use crate::lab::Counted;
use crate::load::half::{Run, drive};
use crate::load::latency::Probing;
use crate::load::spinner::Spinning;
use crate::load::{LoadResult, LoadSpec, Moment};
use crate::model::measurement::{
    CpuUse, Direction, EvidenceClass, Experiment, Measurement, Refusal, RefusalCode,
};
use crate::model::party::{Facts, Party, WayOut};
use crate::model::snapshot::Machine;
use crate::model::units::BitRate;
use crate::sample::{DeviceCounters, DevicesUse, Settings};

/// A CPU of a host above this share of its time had nothing left for more load.
const BUSY: f64 = 0.90;
/// How often every agent hears of its controller, whatever else goes on: settings may take long to
/// settle, and agents give up a controller that is silent for ten seconds.
const BEAT: Duration = Duration::from_secs(2);

/// The machines of a measurement.
pub struct Wire {
    /// LAN, WAN, and the router where it has an agent; for the record.
    pub parties: Vec<Party>,
    /// Where the LAN finds the WAN.
    pub address: IpAddr,
    /// Whether some of them are one machine.
    pub shared: bool,
    /// In the order of the parties.
    agents: Vec<Agent>,
    /// The router is this machine: what is tried out on it is looked after elsewhere.
    here: bool,
    /// Readings of all at the window's ends and around the run.
    seen: Mutex<Vec<Vec<Sample>>>,
    /// What all had said when the run began.
    said: AtomicU64,
    over: Arc<AtomicBool>,
}

/// Who takes part.
pub struct Agents {
    /// The host behind the router.
    pub lan: Agent,
    /// The host before it.
    pub wan: Agent,
    /// The router, where it has one.
    pub router: Option<Agent>,
}

impl Wire {
    /// Asks the agents for everything that must be known before a run.
    ///
    /// # Errors
    /// What an agent answered, or that it is gone; no way from one side to the other.
    pub fn new(agents: Agents, address: IpAddr) -> Result<Self> {
        let Agents { lan, wan, router } = agents;
        let here = router.as_ref().is_some_and(|router| router.peer().is_none());
        let near = party("lan", &lan, &[address])?;
        let from: Vec<IpAddr> = near.facts.ways.iter().map(|way| way.from).collect();
        let mut far = party("wan", &wan, &[])?;
        let middle = match &router {
            None => None,
            Some(router) => {
                let to: Vec<IpAddr> = from.iter().copied().chain([address]).collect();
                let mut middle = party("router", router, &to)?;
                if !here {
                    middle.settings = settings(router)?;
                }
                Some(middle)
            }
        };
        // The WAN host's way back leads to the router, or to the LAN; behind NAT it may know none.
        let back = middle.iter().flat_map(|r| &r.facts.ways).find(|w| w.to == address);
        let back = back.map(|w| w.from).or(from.first().copied());
        // Then it is the device that has the address by which it is found, unless that is a router's.
        let known = back.and_then(|back| facts(&wan, &[back]).ok());
        if let Some(facts) = known.or_else(|| facts(&wan, &[address]).ok()) {
            far.facts = facts;
        }
        let parties: Vec<Party> = [near, far].into_iter().chain(middle).collect();
        let boots: BTreeSet<&str> = parties.iter().map(|p| p.facts.boot.as_str()).collect();
        let shared = boots.len() < parties.len();
        let agents: Vec<Agent> = [lan, wan].into_iter().chain(router).collect();
        let over = Arc::new(AtomicBool::new(false));
        beat(agents.clone(), Arc::clone(&over))?;
        let (seen, said) = (Mutex::default(), AtomicU64::new(0));
        Ok(Self { parties, address, shared, agents, here, seen, said, over })
    }

    /// The router, as far as it is known.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let Some(router) = self.router() else {
            let hostname = "a router without an agent".to_owned();
            return Machine { hostname, ..Machine::default() };
        };
        let facts = router.facts.clone();
        let told = |text: String| Some(text).filter(|text| !text.is_empty());
        Machine {
            hostname: facts.hostname,
            kernel: facts.kernel,
            arch: facts.arch,
            board: told(facts.board),
            cpu_model: told(facts.cpu_model),
            virtualisation: told(facts.virtualisation),
            id: told(facts.id),
            ..Machine::default()
        }
    }

    /// Settings of the router that are not what they were at the beginning.
    ///
    /// # Errors
    /// When the router's agent is gone.
    fn changed(&self) -> Result<Vec<String>> {
        let (Some(router), Some(agent), false) = (self.router(), self.agents.get(2), self.here)
        else {
            return Ok(Vec::new());
        };
        let now = settings(agent)?;
        let then = &router.settings;
        let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
        let show = |value: Option<&String>| value.map_or("gone", String::as_str).to_owned();
        let differing = names.into_iter().filter(|name| then.get(*name) != now.get(*name));
        Ok(differing
            .map(|name| format!("{name}: {} became {}", show(then.get(name)), show(now.get(name))))
            .map(|line| plain(line.as_bytes(), 400))
            .collect())
    }

    /// The router, where it has an agent.
    #[must_use]
    pub fn router(&self) -> Option<&Party> {
        self.parties.get(2)
    }

    /// The router's way to the LAN (true) or to the WAN.
    fn way(&self, lan: bool) -> Option<&WayOut> {
        let ways = &self.router()?.facts.ways;
        ways.iter().find(|way| (way.to == self.address) != lan)
    }

    fn sample(&self, at: usize) -> Result<Option<Sample>> {
        let (Some(party), Some(agent)) = (self.parties.get(at), self.agents.get(at)) else {
            return Ok(None);
        };
        let mut devices: Vec<String> = Vec::new();
        for way in &party.facts.ways {
            for device in way.counted.iter().chain([&way.device]) {
                if !devices.contains(device) {
                    devices.push(device.clone());
                }
            }
        }
        match agent.ask(&Request::Sample(devices.clone()))? {
            Answer::Sample(files) => Sample::read(&Files::sent(files), &devices).map(Some),
            _ => Err(agent.unexpected()),
        }
    }

    /// Bytes of all requests and answers so far, with their headers where each is a few packets.
    fn all_said(&self) -> u64 {
        self.agents.iter().map(Agent::talked).sum::<u64>() * 2
    }

    /// All samples now, in the order of the parties.
    fn samples(&self) -> Result<Vec<Sample>> {
        let all = (0..self.parties.len()).map(|at| self.sample(at).map(Option::into_iter));
        Ok(all.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Vec<Sample>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a party's samples were at the run's and the window's ends.
    fn edges(&self, at: usize) -> Option<[Sample; 4]> {
        let seen = self.seen();
        let of = |samples: &Vec<Sample>| samples.get(at).cloned();
        let [before, open, close, after] = seen.as_slice() else { return None };
        Some([of(before)?, of(open)?, of(close)?, of(after)?])
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Not waited for: an agent that is gone may keep it for seconds.
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Tells the agents that their controller is there.
fn beat(agents: Vec<Agent>, over: Arc<AtomicBool>) -> Result<()> {
    let work = move || {
        while clock::wait_until(clock::monotonic() + BEAT, BEAT / 10, &over) {
            for agent in &agents {
                // One that is gone says so to whoever wants something of it.
                drop(agent.ask(&Request::Watch));
            }
        }
    };
    let thread = std::thread::Builder::new().name("lr-beat".into()).stack_size(128 << 10);
    thread.spawn(work).map(drop).map_err(|e| Error::not_supported("start a thread", e))
}

fn party(role: &str, agent: &Agent, to: &[IpAddr]) -> Result<Party> {
    let clock = agent.compare_clocks()?;
    let facts = facts(agent, to)?;
    Ok(Party { role: role.to_owned(), facts, clock, settings: BTreeMap::new() })
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

impl Bed for Wire {
    /// Agents on one machine make no wire, and a virtual router has no card of its own.
    fn class(&self) -> EvidenceClass {
        match self.router() {
            _ if self.shared => EvidenceClass::Lab,
            Some(router) if !router.facts.virtualisation.is_empty() => EvidenceClass::Vm,
            _ => EvidenceClass::Wire,
        }
    }

    fn load(
        &self,
        spec: &LoadSpec,
        stop: &AtomicBool,
        on: &mut dyn FnMut(Moment),
    ) -> Result<LoadResult> {
        let run = Run { spec: spec.clone(), id: fastrand::u64(..), address: self.address };
        let [lan, wan, ..] = self.agents.as_slice() else {
            return Err(Error::usage("bench", "two sides are needed"));
        };
        let ran = drive(&mut lan.clone(), &mut wan.clone(), &run, stop, on);
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
            self.sample(2).ok().flatten()
        } else {
            // A party that is lost during the run is told by the load, which then has no
            // acknowledgement; its counters are not the point any more.
            self.samples().ok().and_then(|samples| {
                self.seen().push(samples.clone());
                samples.into_iter().nth(2)
            })
        };
        let (cpus, devices) = sample.map(|s| (s.cpus, s.devices)).unwrap_or_default();
        Ok(Reading { cpus, devices })
    }

    fn around(&self, edge: Edge) -> Result<(DeviceCounters, Held)> {
        if edge == Edge::Before {
            self.seen().clear();
            self.said.store(self.all_said(), Ordering::Relaxed);
        }
        let samples = match self.samples() {
            Ok(samples) => samples,
            // Lost on the way: the load says so, and nothing is known to have been counted since.
            Err(error) => self.seen().first().cloned().ok_or(error)?,
        };
        self.seen().push(samples.clone());
        let router = samples.into_iter().nth(2);
        let (devices, health) = router.map(|r| (r.devices, r.health)).unwrap_or_default();
        // All settings of another machine are compared in `add`, by another request.
        let settings = if self.here { Settings::read(&Live::here()) } else { Settings::default() };
        Ok((devices, Held { health, settings }))
    }

    fn device(&self, moved: &DevicesUse, direction: Direction) -> Option<DeviceFacts> {
        let way = self.way(direction != Direction::Down)?;
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

    fn talked(&self) -> u64 {
        self.all_said().saturating_sub(self.said.load(Ordering::Relaxed))
    }

    fn shared_cpus(&self) -> bool {
        self.shared
    }

    fn mtu(&self) -> u32 {
        let ways = self.parties.iter().flat_map(|p| &p.facts.ways);
        ways.map(|way| way.mtu).min().unwrap_or(1500)
    }

    /// Namespaces of one machine have none.
    fn link(&self) -> Option<BitRate> {
        let ways = self.parties.iter().flat_map(|p| &p.facts.ways).filter(|_| !self.shared);
        ways.filter_map(|way| way.speed).min().map(|mbit| BitRate(f64::from(mbit) * 1e6))
    }

    /// By what the receiving host itself says that it dropped: its card's counters would take others'
    /// packets for ours.
    fn lost_behind(&self, run: &Measurement, _: u64, _: u32) -> u64 {
        let receiver = usize::from(run.direction != Direction::Down);
        let Some([before, .., after]) = self.edges(receiver) else { return 0 };
        let backlog: u64 = after.cpus.since(&before.cpus).iter().map(|cpu| cpu.dropped).sum();
        let devices = after.devices.since(&before.devices).devices;
        let card: u64 = devices.iter().map(|device| device.dropped).sum();
        after.overflowed.saturating_sub(before.overflowed) + backlog + card
    }

    fn probe(&self) -> Result<Box<dyn Probing>> {
        match self.agents.as_slice() {
            [lan, wan, ..] => agent::probe(lan, wan, self.address),
            _ => Err(Error::usage("probe round trips", "two sides are needed")),
        }
    }

    fn spin(&self) -> Result<Box<dyn Spinning>> {
        let router = self.agents.get(2).ok_or_else(|| {
            Error::usage("measure what the router has left", "it has no agent")
                .hint("run `linerate agent` on the router too, and name it with --router HOST")
        })?;
        agent::spin(router)
    }

    fn celsius(&self) -> Option<f64> {
        self.sample(2).ok().flatten()?.health.celsius()
    }

    /// As long as everybody is there.
    fn may_come_back(&self) -> bool {
        self.agents.iter().all(|agent| agent.ask(&Request::Watch).is_ok())
    }

    fn note(&self, experiment: &mut Experiment) {
        experiment.link = self.link();
        experiment.agents.clone_from(&self.parties);
        experiment.scenario.rules = 0;
        experiment.scenario.mtu = self.mtu();
    }

    fn add(&self, _: &LoadSpec, _: Option<u64>, measured: &mut Measurement) {
        let mut refuse = |code, why| measured.refusals.push(Refusal { code, why });
        for (at, party) in self.parties.iter().enumerate().take(2) {
            let Some([before, open, close, after]) = self.edges(at) else { continue };
            let role = &party.role;
            if !self.shared
                && let Some(why) = busy(role, &close.cpus.since(&open.cpus))
            {
                refuse(RefusalCode::GeneratorBound, why);
            }
            let changed = after.devices.since(&before.devices).changed;
            if !changed.is_empty() {
                refuse(RefusalCode::LinkChanged, format!("{role} host: {}", changed.join("; ")));
            }
            let throttled = after.health.throttled_since(&before.health);
            if !throttled.is_empty() {
                refuse(RefusalCode::Throttled, format!("{role} host: {}", throttled.join("; ")));
            }
        }
        match self.changed() {
            Ok(changed) if changed.is_empty() => {}
            Ok(changed) => refuse(RefusalCode::SettingsDiffer, changed.join("; ")),
            Err(error) => {
                let why = format!("whether the router's settings stayed is not known: {error}");
                refuse(RefusalCode::SettingsDiffer, why);
            }
        }
        if self.router().is_none() {
            measured.notes.push(
                "without an agent on the router nothing is known of its CPUs, and no counter of its \
                 devices confirms the figure (--router HOST)"
                    .into(),
            );
        } else if [true, false]
            .iter()
            .any(|lan| self.way(*lan).is_none_or(|w| w.counted.is_empty()))
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
