//! `linerate bench --lan HOST --wan HOST`: the measurement over real wires.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::args::BenchArgs;
use super::context::Context;
use super::{agent, bench as bench_verb, interrupt};
use crate::agent::Agent;
use crate::bench::wire::{Party, Wire, measure_directions};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::model::measurement::{EvidenceClass, Scenario};
use crate::model::units::BitRate;
use crate::store;

/// `bench --lan --wan`
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Over real wires (docs/agent.md)")]
pub struct WireArgs {
    /// Measure between two hosts instead: this is the one behind the router, where `linerate agent`
    /// runs. The scenario then only says what the router does
    #[arg(long, value_name = "HOST[:PORT]", requires = "wan", conflicts_with_all = [
        "list", "board", "rules", "flows", "flowtable", "nat66", "frames", "latency", "headroom",
        "candidate", "against", "mtu", "driver",
    ])]
    pub lan: Option<String>,
    /// The host before the router, where another agent runs
    #[arg(long, value_name = "HOST[:PORT]", requires = "lan")]
    pub wan: Option<String>,
    /// The router's own agent, to see its CPUs and compare its counters
    #[arg(long, value_name = "HOST[:PORT]", requires = "lan")]
    pub router: Option<String>,
    /// Where the LAN host finds the WAN host [default: the HOST of --wan]
    #[arg(long, value_name = "ADDRESS", requires = "lan")]
    pub wan_address: Option<IpAddr>,
    /// The secret that the agents were started with [default: $LINERATE_TOKEN]
    #[arg(long, value_name = "FILE", requires = "lan")]
    pub token_file: Option<PathBuf>,
}

#[derive(serde::Serialize)]
struct Benched<'a> {
    format: &'static str,
    version: u32,
    class: EvidenceClass,
    candidate: &'a str,
    scenario: Scenario,
    command: Vec<String>,
    started: String,
    wan_address: IpAddr,
    agents: &'a [Party],
    runs: &'a [crate::model::measurement::Measurement],
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &BenchArgs, lan: &str, wan: &str) -> Result<ExitCode> {
    let spec = bench_verb::load_spec(args)?;
    let token = agent::token(context.live("bench")?, args.wire.token_file.as_deref())?;
    let stop = interrupt::stop_flag()?;
    let started = crate::host::clock::wall();
    let connect = |role, address: &str| Agent::connect(role, address, token.as_ref(), &stop);
    let (near, far) = (connect("lan", lan)?, connect("wan", wan)?);
    let router = args.wire.router.as_deref().map(|router| connect("router", router)).transpose()?;
    let address = match args.wire.wan_address {
        Some(address) => address,
        None if !far.peer().is_loopback() => far.peer(),
        None => {
            return Err(Error::usage(
                "bench",
                "where the LAN host finds the WAN host is not known",
            )
            .hint("--wan leads through a tunnel; add --wan-address with the WAN host's own"));
        }
    };
    let wire = Wire::new(near, far, router, address)?;
    within_link(&wire, spec.rate)?;
    let mtu = wire.mtu();
    let spec = bench_verb::fitting(&spec, args.datagram, address.is_ipv6(), mtu);
    for party in &wire.parties {
        context.out.say(describe(party));
    }
    let runs = measure_directions(&wire, &spec, &stop)?;
    let out = &context.out;
    if out.json {
        out.json(&Benched {
            format: store::measured::BENCH_FORMAT,
            version: store::measured::BENCH_VERSION,
            class: wire.class(),
            candidate: "as-found",
            scenario: Scenario {
                name: args.scenario.to_string(),
                mtu,
                ..args.load.scenario_of(args.scenario, args.protocol)
            },
            command: std::env::args().collect(),
            started,
            wan_address: address,
            agents: &wire.parties,
            runs: &runs,
        })?;
    } else {
        let line = format!("{lan} to {address}, packets up to {mtu} bytes");
        out.data(bench_verb::text(context, &line, "as found", wire.class(), &runs))?;
        if wire.shared {
            out.data(out.dim("some of the agents are on one machine: that is a lab, not a wire"))?;
        }
    }
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Error::interrupted("bench"));
    }
    Ok(bench_verb::verdict(context, args, &runs))
}

/// A rate that a link on the way can't carry is known to fail before anything is sent.
fn within_link(wire: &Wire, rate: Option<BitRate>) -> Result<()> {
    let Some(rate) = rate else { return Ok(()) };
    for party in &wire.parties {
        for way in &party.facts.ways {
            if let Some(speed) = way.speed
                && rate.mbps() > f64::from(speed)
            {
                let (role, device) = (party.role, &way.device);
                let why = format!("{device} of the {role} host is a link of {speed} Mbit/s");
                return Err(Error::usage(format!("bench: rate of {:.0} Mbit/s", rate.mbps()), why)
                    .hint("ask for less, or for nothing: TCP then finds the rate itself"));
            }
        }
    }
    Ok(())
}

/// `lan: pc1 (Linux 6.8.0, 8 CPUs), by eth0 from 192.168.1.5; its clock is 12.3 ms ahead ...`
fn describe(party: &Party) -> String {
    let facts = &party.facts;
    let ways = facts.ways.iter().map(|w| format!(", to {} by {}", w.to, w.device));
    let ways = ways.collect::<String>();
    let ahead = if party.clock.wall < 0.0 { "behind" } else { "ahead" };
    format!(
        "{}: {} (Linux {}, {} CPUs){ways}; its clock is {:.1} ms {ahead} of ours, within {:.1} ms",
        party.role,
        facts.hostname,
        facts.kernel,
        facts.cpus,
        party.clock.wall.abs() * 1e3,
        party.clock.uncertainty * 1e3 + 0.5
    )
}
