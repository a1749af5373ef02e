//! Measuring between other machines: the load's two sides and the router are asked through their
//! agents.
//!
//! ```text
//!   lan agent ── data connections ──▶ router (agent, where there is one) ──▶ wan agent
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bed::{Around, Bed, BedFacts, Edge, Generate, Observe};
use super::rules::DeviceFacts;
use super::series::{Beside, Reading};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{Live, clock};
use crate::measure::agent::protocol::{Answer, Request, plain};
use crate::measure::agent::{self, Agent, Files, Sample};
use crate::measure::lab::Counted;
use crate::measure::load::half::{Run, drive};
use crate::measure::load::latency::Probing;
use crate::measure::load::partner::Secret;
use crate::measure::load::spinner::Spinning;
use crate::measure::load::{LoadResult, LoadSpec, Moment};
use crate::measure::sample::{DevicesUse, Held, NotHeld};
use crate::model::measurement::{
    CpuUse, Direction, EvidenceClass, Experiment, Measurement, Refusal, RefusalCode,
};
use crate::model::party::{Facts, Parties, Party, PartyRole, WayOut};
use crate::model::snapshot::Machine;
use crate::model::units::BitRate;

/// A CPU of a host above this share of its time had nothing left for more load.
const BUSY: f64 = 0.90;
/// Interval at which every agent hears of its controller, whatever else goes on: settings may take
/// long to settle, a far agent each answer, and agents give up a controller that is silent.
const BEAT: Duration = Duration::from_secs(2);

/// The machines of a measurement: a host on each side of the router, each with its agent.
pub struct Hosts {
    /// Facts about each party, for the record.
    pub parties: Parties<Party>,
    /// Address at which the LAN reaches the WAN.
    pub address: IpAddr,
    /// True if some of the parties are one machine.
    pub shared: bool,
    agents: Parties<Agent>,
    /// The router is this machine: what is tried out on it is looked after elsewhere.
    here: bool,
    /// Readings of all, at the window's ends and around the run.
    seen: Mutex<Vec<Parties<Sample>>>,
    _beats: Beats,
}

impl Hosts {
    /// Asks the agents for everything that must be known before a run.
    ///
    /// # Errors
    /// The failure that an agent reported, or that it is gone; no way from one side to the other.
    pub fn new(agents: Parties<Agent>, address: IpAddr) -> Result<Self> {
        let here = agents.router.as_ref().is_some_and(|router| router.peer().is_none());
        let beats = Beats::start(agents.iter())?;
        let lan = party(PartyRole::Lan, &agents.lan, &[address])?;
        let from: Vec<IpAddr> = lan.facts.ways.iter().map(|way| way.from).collect();
        let mut wan = party(PartyRole::Wan, &agents.wan, &[])?;
        let router = match &agents.router {
            None => None,
            Some(agent) => {
                let to: Vec<IpAddr> = from.iter().copied().chain([address]).collect();
                let mut router = party(PartyRole::Router, agent, &to)?;
                if !here {
                    router.settings = settings(agent)?;
                }
                Some(router)
            }
        };
        // The WAN host's way back leads to the router, or to the LAN; behind NAT it may know none.
        let back = router.iter().flat_map(|r| &r.facts.ways).find(|w| w.to == address);
        let back = back.map(|w| w.from).or(from.first().copied());
        // Then it is the device that has the address by which it is found, unless that is a router's.
        let known = back.and_then(|back| facts(&agents.wan, &[back]).ok());
        if let Some(facts) = known.or_else(|| facts(&agents.wan, &[address]).ok()) {
            wan.facts = facts;
        }
        let parties = Parties { lan, wan, router };
        let boots: BTreeSet<&str> = parties.iter().map(|p| p.facts.boot.as_str()).collect();
        let shared = boots.len() < parties.iter().count();
        Ok(Self { parties, address, shared, agents, here, seen: Mutex::default(), _beats: beats })
    }

    /// Facts about each party, as records keep them: LAN, WAN, router.
    #[must_use]
    pub fn for_record(&self) -> Vec<Party> {
        self.parties.iter().cloned().collect()
    }

    /// The router, as far as it is known.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let Some(router) = &self.parties.router else {
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
    /// Fails if the router's agent is gone.
    fn changed(&self) -> Result<Vec<String>> {
        let (Some(router), Some(agent), false) =
            (&self.parties.router, &self.agents.router, self.here)
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

    /// Changes that the agents have seen since they were told to hold their machines' set-up. An agent
    /// that is lost is reported by the load.
    fn told(&self) -> NotHeld {
        let mut told = NotHeld::default();
        for (party, agent) in self.parties.iter().zip(self.agents.iter()) {
            let Ok(Answer::Changed(differing, noted)) = agent.ask(&Request::Held) else { continue };
            let named = |what: String| match party.role {
                PartyRole::Router => format!("router: {what}"),
                end => format!("{end} host: {what}"),
            };
            told.differing.extend(differing.into_iter().map(named));
            told.noted.extend(noted.into_iter().map(named));
        }
        told
    }

    /// The router's way to the LAN (true) or to the WAN.
    fn way(&self, lan: bool) -> Option<&WayOut> {
        let ways = &self.parties.router.as_ref()?.facts.ways;
        ways.iter().find(|way| (way.to == self.address) != lan)
    }

    /// Bytes of all requests and answers so far, with their headers where each is a few packets.
    fn all_said(&self) -> u64 {
        self.agents.iter().map(Agent::talked).sum::<u64>() * 2
    }

    /// The counters of all parties now.
    fn samples(&self) -> Result<Parties<Sample>> {
        self.parties.as_ref().zip(self.agents.as_ref()).try_map(sample)
    }

    /// The router's counters now, where it has an agent that answers.
    fn router_sample(&self) -> Option<Sample> {
        let router = self.parties.router.as_ref().zip(self.agents.router.as_ref());
        sample(router?).ok()
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Parties<Sample>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The samples of a host at the run's and the window's ends.
    fn edges(&self, host: fn(&Parties<Sample>) -> &Sample) -> Option<[Sample; 4]> {
        let seen = self.seen();
        let [before, open, close, after] = seen.as_slice() else { return None };
        Some([before, open, close, after].map(|all| host(all).clone()))
    }

    /// All ways that the load takes.
    fn ways(&self) -> impl Iterator<Item = &WayOut> {
        self.parties.iter().flat_map(|party| &party.facts.ways)
    }
}

fn sample((party, agent): (&Party, &Agent)) -> Result<Sample> {
    let mut devices: Vec<String> = Vec::new();
    for way in &party.facts.ways {
        for device in way.counted.iter().chain([&way.device]) {
            if !devices.contains(device) {
                devices.push(device.clone());
            }
        }
    }
    match agent.ask(&Request::Sample(devices.clone()))? {
        Answer::Sample(files) => Sample::read(&Files::sent(files), &devices),
        _ => Err(agent.unexpected()),
    }
}

/// Asks agents regularly until it is dropped, so that they know that their controller is there.
struct Beats(Arc<AtomicBool>);

impl Beats {
    /// Each agent has a thread: one that is slow to answer keeps none of the others waiting.
    fn start<'a>(agents: impl Iterator<Item = &'a Agent>) -> Result<Self> {
        let beats = Self(Arc::default());
        for agent in agents {
            let (agent, over) = (agent.clone(), Arc::clone(&beats.0));
            let work = move || {
                while clock::wait_until(clock::monotonic() + BEAT, BEAT / 10, &over) {
                    // One that is gone says so to whoever wants something of it.
                    drop(agent.ask(&Request::Watch));
                }
            };
            let thread = std::thread::Builder::new().name("lr-beat".into()).stack_size(128 << 10);
            thread.spawn(work).map_err(|e| Error::not_supported("start a thread", e))?;
        }
        Ok(beats)
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        // Not waited for: an agent that is gone may keep it for seconds.
        self.0.store(true, Ordering::Relaxed);
    }
}

fn party(role: PartyRole, agent: &Agent, to: &[IpAddr]) -> Result<Party> {
    let clock = agent.compare_clocks()?;
    let facts = facts(agent, to)?;
    Ok(Party { role, facts, clock, settings: BTreeMap::new() })
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

impl Bed for Hosts {
    fn facts(&self) -> BedFacts {
        // Agents on one machine make no wire, and a virtual router has no card of its own.
        let class = match &self.parties.router {
            _ if self.shared => EvidenceClass::Lab,
            Some(router) if !router.facts.virtualisation.is_empty() => EvidenceClass::Vm,
            _ => EvidenceClass::Wire,
        };
        // Namespaces of one machine have no link.
        let speed = self.ways().filter(|_| !self.shared).filter_map(|way| way.speed).min();
        BedFacts {
            class,
            shared_cpus: self.shared,
            mtu: self.ways().map(|way| way.mtu).min().unwrap_or(1500),
            link: speed.map(|mbit| BitRate(f64::from(mbit) * 1e6)),
            comes_up_slowly: true,
        }
    }

    fn note(&self, experiment: &mut Experiment) {
        let facts = self.facts();
        experiment.link = facts.link;
        experiment.agents = self.for_record();
        experiment.scenario.rules = 0;
        experiment.scenario.mtu = facts.mtu;
    }
}

impl Generate for Hosts {
    fn load(
        &self,
        spec: &LoadSpec,
        stop: &AtomicBool,
        on: &mut dyn FnMut(Moment),
    ) -> Result<LoadResult> {
        let (spec, secret) = (spec.clone(), Secret::default());
        let run = Run { spec, id: fastrand::u64(..), address: self.address, secret };
        let ran = drive(&mut self.agents.lan.clone(), &mut self.agents.wan.clone(), &run, stop, on);
        ran.map_err(|error| match error.remedy() {
            None if error.code() == ExitCode::Refused => error.hint(
                "if that is about data and not control: does a firewall on the WAN host let the \
                 LAN's connections in, and is --wan-address where the LAN finds it?",
            ),
            _ => error,
        })
    }

    fn probe(&self) -> Result<Box<dyn Probing>> {
        agent::probe(&self.agents.lan, &self.agents.wan, self.address)
    }

    fn spin(&self) -> Result<Box<dyn Spinning>> {
        let router = self.agents.router.as_ref().ok_or_else(|| {
            Error::usage("measure what the router has left", "it has no agent")
                .hint("run `linerate agent` on the router too, and name it with --router HOST")
        })?;
        agent::spin(router)
    }

    fn lost(&self) -> Option<Error> {
        self.agents.iter().find_map(|agent| agent.ask(&Request::Watch).err())
    }
}

impl Observe for Hosts {
    fn around(&self, edge: Edge) -> Result<Around> {
        let talked = self.all_said();
        if edge == Edge::Before {
            self.seen().clear();
            for (party, agent) in self.parties.iter().zip(self.agents.iter()) {
                agent.ask(&Request::Hold(party.role == PartyRole::Router))?;
            }
        }
        let samples = match self.samples() {
            Ok(samples) => samples,
            // Lost on the way: the load says so, and nothing is known to have been counted since.
            Err(error) => self.seen().first().cloned().ok_or(error)?,
        };
        self.seen().push(samples.clone());
        let router = samples.router.map(|router| (router.devices, router.health));
        let (devices, health) = router.unwrap_or_default();
        let told = if edge == Edge::After { self.told() } else { NotHeld::default() };
        // The samples themselves are said within the run, at both of its ends.
        let talked = if edge == Edge::Before { talked } else { self.all_said() };
        Ok(Around { devices, held: Held::default().with_health(health), told, talked })
    }

    fn reading(&self, moment: Moment) -> Result<Reading> {
        let router = if moment == Moment::Within {
            self.router_sample()
        } else {
            // A party that is lost during the run is reported by the load, which then has no
            // acknowledgement; its counters are not the point any more.
            self.samples().ok().and_then(|samples| {
                self.seen().push(samples.clone());
                samples.router
            })
        };
        let (cpus, devices) = router.map(|s| (s.cpus, s.devices)).unwrap_or_default();
        // On a machine that is host and router at once nobody knows whose programs are whose.
        let alone = self.here && !self.shared && moment != Moment::Within;
        let beside = if alone { Beside::look(&Live::here(), moment) } else { Beside::default() };
        Ok(Reading { cpus, devices, beside })
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

    /// By what the receiving host itself says that it dropped: its card's counters would take
    /// others' packets for ours.
    fn lost_behind(&self, run: &Measurement, _: u64, _: u32) -> u64 {
        let edges = match run.direction {
            Direction::Down => self.edges(|all| &all.lan),
            Direction::Up | Direction::Both => self.edges(|all| &all.wan),
        };
        let Some([before, .., after]) = edges else { return 0 };
        let backlog: u64 = after.cpus.since(&before.cpus).iter().map(|cpu| cpu.dropped).sum();
        let devices = after.devices.since(&before.devices).devices;
        let card: u64 = devices.iter().map(|device| device.dropped).sum();
        after.overflowed.saturating_sub(before.overflowed) + backlog + card
    }

    fn celsius(&self) -> Option<f64> {
        self.router_sample()?.health.celsius()
    }

    fn conclude(&self, _: &LoadSpec, _: Option<u64>, measured: &mut Measurement) {
        let known = measured.refusals.iter().any(|r| r.code == RefusalCode::SettingsDiffer);
        let mut refuse = |code, why| measured.refusals.push(Refusal { code, why });
        let hosts = [
            (PartyRole::Lan, self.edges(|all| &all.lan)),
            (PartyRole::Wan, self.edges(|all| &all.wan)),
        ];
        for (role, edges) in hosts {
            let Some([before, open, close, after]) = edges else { continue };
            if !self.shared
                && let Some(why) = busy(role, &close.cpus.since(&open.cpus))
            {
                refuse(RefusalCode::GeneratorBound, why);
            }
            let unassembled = after.unassembled.saturating_sub(before.unassembled);
            if unassembled > 0 {
                measured.notes.push(format!(
                    "{role} host: {unassembled} packets came in fragments that could not be put \
                     together: something on the way cuts packets in pieces"
                ));
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
            Ok(changed) if changed.is_empty() || known => {}
            Ok(changed) => refuse(RefusalCode::SettingsDiffer, changed.join("; ")),
            Err(error) => {
                let why = format!("whether the router's settings stayed is not known: {error}");
                refuse(RefusalCode::SettingsDiffer, why);
            }
        }
        if self.parties.router.is_none() {
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

/// Message that names the busiest CPU of a host that had none left; `None` otherwise.
fn busy(role: PartyRole, cpus: &[CpuUse]) -> Option<String> {
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
            steal: 0.0,
            packets: 0,
            dropped: 0,
            squeezed: 0,
        };
        assert_eq!(busy(PartyRole::Lan, &[]), None);
        assert_eq!(busy(PartyRole::Lan, &[cpu(0, 0.11), cpu(1, 0.9)]), None);
        let why = busy(PartyRole::Wan, &[cpu(0, 0.8), cpu(1, 0.02)]).unwrap();
        assert!(why.starts_with("wan host: CPU1 was busy for 98 %"), "{why}");
    }
}
