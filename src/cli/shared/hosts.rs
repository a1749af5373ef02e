//! `--lan HOST --wan HOST`: measuring over real wires, for `bench`, `sweep` and `tune`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::cli::context::Context;
use crate::error::{Error, Result};
use crate::machine::store::{Source, read_from};
use crate::measure::agent::Agent;
use crate::measure::agent::token::{self, Token};
use crate::measure::bench::hosts::Hosts;
use crate::model::party::{Parties, Party};
use crate::model::units::BitRate;

/// This machine, in the place of an agent's address.
const HERE: &str = "here";

/// The environment variable that may hold the token.
const TOKEN: &str = "LINERATE_TOKEN";

/// The hosts that take part
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Over real wires (docs/agent.md)")]
pub struct HostsArgs {
    /// Measure between two hosts instead: this is the one behind the router, where `linerate agent`
    /// runs, or `here`. The scenario then only says what the router does
    #[arg(long, value_name = "HOST[:PORT]", requires = "wan", value_parser = NonEmptyStringValueParser::new())]
    pub lan: Option<String>,
    /// The host before the router, where another agent runs, or `here`
    #[arg(long, value_name = "HOST[:PORT]", requires = "lan", value_parser = NonEmptyStringValueParser::new())]
    pub wan: Option<String>,
    /// The router's own agent, or `here`, to see its CPUs and compare its counters; `tune` changes
    /// the router and wants `here`
    #[arg(long, value_name = "HOST[:PORT]", requires = "lan", value_parser = NonEmptyStringValueParser::new())]
    pub router: Option<String>,
    /// Address at which the LAN host finds the WAN host [default: the HOST of --wan]
    #[arg(long, value_name = "ADDRESS", requires = "lan")]
    pub wan_address: Option<IpAddr>,
    /// The secret that the agents were started with [default: $LINERATE_TOKEN]
    #[arg(long, value_name = "FILE", requires = "lan")]
    pub token_file: Option<PathBuf>,
}

impl HostsArgs {
    /// The two hosts, where it is they that measure.
    pub(in crate::cli) fn hosts(&self) -> Option<(&str, &str)> {
        self.lan.as_deref().zip(self.wan.as_deref())
    }

    /// Connects to all parties, and says who they are.
    ///
    /// # Errors
    /// An agent's answer, or that it is not there; usage where the WAN's address is not known.
    pub(in crate::cli) fn connect(
        &self,
        context: &Context,
        what: &str,
        stop: &AtomicBool,
    ) -> Result<Hosts> {
        context.live(what)?;
        let token = token(self.token_file.as_deref())?;
        let connect = |role: &str, address: &str| match address {
            HERE => Ok(Agent::here(role, token.as_ref())),
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
        let wire = Hosts::new(Parties { lan, wan, router }, address)?;
        wire.parties.iter().for_each(|party| context.out.say(describe(party)));
        Ok(wire)
    }
}

/// The warning about agents on one machine.
pub(in crate::cli) const SHARED: &str =
    "some of the agents are on one machine: that is a lab, not a wire";

/// A rate that a link on the way can't carry is known to fail before anything is sent.
pub(in crate::cli) fn within_link(wire: &Hosts, rate: Option<BitRate>) -> Result<()> {
    let Some(rate) = rate else { return Ok(()) };
    for party in wire.parties.iter() {
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

/// The token of a file, or of the environment; `None` where there is none.
///
/// # Errors
/// Usage for one that can't be read or used.
pub(in crate::cli) fn token(file: Option<&Path>) -> Result<Option<Token>> {
    if let Some(file) = file {
        let name = file.display().to_string();
        let bytes = read_from(Source::Secret, "token", file, 8192, token::HINT)?;
        return Token::new(&bytes, &name).map(Some);
    }
    match std::env::var_os(TOKEN) {
        Some(text) => Token::new(text.as_encoded_bytes(), TOKEN).map(Some),
        None => Ok(None),
    }
}
