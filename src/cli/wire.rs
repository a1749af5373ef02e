//! `--lan HOST --wan HOST`: measuring over real wires, for `bench`, `sweep` and `tune`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::args::BenchArgs;
use super::context::Context;
use super::{agent, bench as bench_verb, interrupt};
use crate::agent::Agent;
use crate::bench::Bed;
use crate::bench::beside::{Beside, Seen, measure_directions};
use crate::bench::wire::{Agents, Wire};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::model::measurement::{EvidenceClass, Measurement, Protocol, Scenario};
use crate::model::party::Party;
use crate::model::units::BitRate;
use crate::store;
use crate::store::measured::Origin;

/// This machine, in the place of an agent's address.
const HERE: &str = "here";

/// Who takes part
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Over real wires (docs/agent.md)")]
pub struct WireArgs {
    /// Measure between two hosts instead: this is the one behind the router, where `linerate agent`
    /// runs, or `here`. The scenario then only says what the router does
    #[arg(long, value_name = "HOST[:PORT]", requires = "wan")]
    pub lan: Option<String>,
    /// The host before the router, where another agent runs, or `here`
    #[arg(long, value_name = "HOST[:PORT]", requires = "lan")]
    pub wan: Option<String>,
    /// The router's own agent, or `here`, to see its CPUs and compare its counters; `tune` changes
    /// the router and wants `here`
    #[arg(long, value_name = "HOST[:PORT]", requires = "lan")]
    pub router: Option<String>,
    /// Where the LAN host finds the WAN host [default: the HOST of --wan]
    #[arg(long, value_name = "ADDRESS", requires = "lan")]
    pub wan_address: Option<IpAddr>,
    /// The secret that the agents were started with [default: $LINERATE_TOKEN]
    #[arg(long, value_name = "FILE", requires = "lan")]
    pub token_file: Option<PathBuf>,
}

impl WireArgs {
    /// The two hosts, where it is they that measure.
    pub(super) fn hosts(&self) -> Option<(&str, &str)> {
        self.lan.as_deref().zip(self.wan.as_deref())
    }

    /// Connects to everybody, and tells who they are.
    ///
    /// # Errors
    /// What an agent answered, or that it is not there; usage where the WAN's address is not known.
    pub(super) fn connect(&self, context: &Context, what: &str, stop: &AtomicBool) -> Result<Wire> {
        let token = agent::token(context.live(what)?, self.token_file.as_deref())?;
        let connect = |role: &str, address: &str| match address {
            HERE => Ok(Agent::here(role)),
            there => Agent::connect(role, there, token.as_ref(), stop),
        };
        let (lan, wan) = self.hosts().unwrap_or((HERE, HERE));
        let (lan, wan) = (connect("lan", lan)?, connect("wan", wan)?);
        let router = self.router.as_deref().map(|router| connect("router", router)).transpose()?;
        let address = match (self.wan_address, wan.peer()) {
            (Some(address), _) => address,
            (None, Some(peer)) if !peer.is_loopback() => peer,
            _ => {
                return Err(Error::usage(
                    what,
                    "where the LAN host finds the WAN host is not known",
                )
                .hint(
                    "--wan is this machine or leads through a tunnel; add --wan-address with the \
                         WAN host's own",
                ));
            }
        };
        let wire = Wire::new(Agents { lan, wan, router }, address)?;
        wire.parties.iter().for_each(|party| context.out.say(describe(party)));
        Ok(wire)
    }
}

/// `bench --json` over real wires.
#[derive(serde::Serialize)]
struct Benched<'a> {
    format: &'static str,
    version: u32,
    class: EvidenceClass,
    origin: Origin,
    candidate: &'a str,
    scenario: Scenario,
    wan_address: IpAddr,
    agents: &'a [Party],
    runs: &'a [Measurement],
    #[serde(flatten)]
    beside: &'a Seen,
}

/// Runs `bench`.
pub(super) fn run(context: &Context, args: &BenchArgs) -> Result<ExitCode> {
    let spec = bench_verb::load_spec(args)?;
    let stop = interrupt::stop_flag()?;
    let started = crate::host::clock::wall();
    let wire = args.wire.connect(context, "bench", &stop)?;
    within_link(&wire, spec.rate)?;
    let spec = bench_verb::fitting(&spec, args.datagram, wire.address.is_ipv6(), wire.mtu());
    let beside = match (args.latency, args.headroom) {
        (true, _) => Beside::Latency,
        (_, true) => Beside::Headroom,
        _ => Beside::Nothing,
    };
    let (runs, seen) = measure_directions(&wire, &spec, beside, &stop)?;
    let out = &context.out;
    if out.json {
        let datagram = u32::try_from(spec.datagram).ok();
        out.json(&Benched {
            format: store::measured::BENCH_FORMAT,
            version: store::measured::BENCH_VERSION,
            class: wire.class(),
            origin: origin(&wire, started),
            candidate: "as-found",
            scenario: Scenario {
                name: args.scenario.to_string(),
                mtu: wire.mtu(),
                rate: spec.rate,
                datagram: datagram.filter(|_| spec.protocol == Protocol::Udp),
                ..args.load.scenario_of(args.scenario, args.protocol)
            },
            wan_address: wire.address,
            agents: &wire.parties,
            runs: &runs,
            beside: &seen,
        })?;
    } else {
        let lan = args.wire.lan.as_deref().unwrap_or_default();
        let line = format!("{lan} to {}, packets up to {} bytes", wire.address, wire.mtu());
        out.data(bench_verb::text(context, &line, "as found", wire.class(), &runs))?;
        let beside = bench_verb::beside_lines(context, &seen);
        if !beside.is_empty() {
            out.data(beside.join("\n"))?;
        }
        if wire.shared {
            out.data(out.dim(SHARED))?;
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Error::interrupted("bench"));
    }
    if seen.headroom.iter().any(|one| one.disturbed) {
        return Ok(ExitCode::Refused);
    }
    Ok(bench_verb::verdict(context, args, &runs))
}

/// What agents on one machine are.
pub(super) const SHARED: &str = "some of the agents are on one machine: that is a lab, not a wire";

/// What made it, on which router.
pub(super) fn origin(wire: &Wire, started: String) -> Origin {
    Origin {
        program: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        started,
        machine: wire.machine(),
        fingerprint: wire.router().map(|router| router.facts.snapshot.clone()),
    }
}

/// A rate that a link on the way can't carry is known to fail before anything is sent.
pub(super) fn within_link(wire: &Wire, rate: Option<BitRate>) -> Result<()> {
    let Some(rate) = rate else { return Ok(()) };
    for party in &wire.parties {
        for way in &party.facts.ways {
            if let Some(speed) = way.speed
                && rate.mbps() > f64::from(speed)
            {
                let (role, device) = (&party.role, &way.device);
                let why = format!("{device} of the {role} host is a link of {speed} Mbit/s");
                return Err(Error::usage(format!("rate of {:.0} Mbit/s", rate.mbps()), why)
                    .hint("ask for less, or for nothing: TCP then finds the rate itself"));
            }
        }
    }
    Ok(())
}

/// `lan: pc1 (Linux 6.8.0, 8 CPUs, load on 2-3), to 203.0.113.9 by eth0 (1000 Mbit/s, MTU 1500); its
/// clock is 12.3 ms ahead ...`
fn describe(party: &Party) -> String {
    let facts = &party.facts;
    let ways = facts.ways.iter().map(|w| {
        let speed = w.speed.map(|mbit| format!("{mbit} Mbit/s, ")).unwrap_or_default();
        format!(", to {} by {} ({speed}MTU {})", w.to, w.device, w.mtu)
    });
    let ways = ways.collect::<String>();
    let placed = facts.load_cpus.as_ref().map(|cpus| format!(", load on {cpus}"));
    let ahead = if party.clock.wall < 0.0 { "behind" } else { "ahead" };
    format!(
        "{}: {} (Linux {}, {} CPUs{}){ways}; its clock is {:.1} ms {ahead} of ours, within {:.1} ms",
        party.role,
        facts.hostname,
        facts.kernel,
        facts.cpus,
        placed.unwrap_or_default(),
        party.clock.wall.abs() * 1e3,
        party.clock.uncertainty * 1e3 + 0.5
    )
}
