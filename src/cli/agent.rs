//! `linerate agent`: one end of a measurement over real wires, at a controller's command.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;

use super::context::Context;
use super::interrupt;
use super::shared::hosts::token;
use super::shared::loads::megabits;
use super::shared::seconds;
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::HostRead;
use crate::measure::agent::limits::{Limits, Net};
use crate::measure::agent::{PORT, Server, serve};
use crate::model::cpuset::CpuSet;
use crate::model::units::BitRate;

/// `agent`
#[derive(Debug, Args)]
#[command(after_help = "\
Start it on the host behind the router (lan), on one before it (wan) and, to see what the router \
does meanwhile, on the router. Then measure from anywhere that reaches them: linerate bench nat \
--lan HOST --wan HOST --router HOST

Nothing is encrypted. By default it listens on 127.0.0.1 alone, for ssh -L 19821:127.0.0.1:19820 \
HOST. On a link that you trust: --listen ADDRESS --token-file FILE, the same file on all sides; the \
token itself never travels. It changes no setting, and runs until Ctrl-C. See docs/agent.md.

Examples:
  linerate agent                      # for this machine and its tunnels
  linerate agent --listen 198.18.0.7 --token-file token --max-rate 500M")]
pub struct AgentArgs {
    /// Address to listen on, with or without a port; others than 127.0.0.1 need a token
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1", value_parser = listen)]
    pub listen: SocketAddr,
    /// The secret that controllers must have: 16 bytes or more [default: $LINERATE_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// CPUs for the load's threads, away from those that the card interrupts [default: any]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Refuse runs without --rate, and those that ask for more than this in a direction
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub max_rate: Option<BitRate>,
    /// Refuse runs that take longer, and end those that do
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub max_seconds: Option<f64>,
    /// Serve controllers of this network alone, and send to no other; may be repeated
    #[arg(long, value_name = "CIDR")]
    pub allow: Vec<Net>,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &AgentArgs) -> Result<ExitCode> {
    let host = context.live("agent")?;
    if let Some(cpus) = &args.cpus {
        refuse_absent(host, cpus)?;
    }
    let token = token(args.token_file.as_deref())?;
    let stop = interrupt::stop_flag()?;
    let server = Server::bind(args.listen, token.as_ref())?;
    let who = match &token {
        Some(_) => "for whoever has the token",
        None => "for this user on this machine",
    };
    let out = context.out;
    if out.json {
        let (format, version) = ("linerate-agent", 1);
        let (address, token) = (server.address(), token.is_some());
        out.json(&Listening { format, version, address, token })?;
    }
    out.say(format_args!("agent on {}, {who}; Ctrl-C ends it", server.address()));
    out.say("on request it sends and takes test traffic and reads counters; it changes no setting");
    let allow = args.allow.clone();
    let limits = Limits { rate: args.max_rate, seconds: args.max_seconds, allow };
    serve(&server, token.as_ref(), args.cpus.as_ref(), &limits, &stop, &|line| out.say(line))?;
    out.say("agent: stopped");
    Ok(ExitCode::Done)
}

/// `agent --json`, once it listens.
#[derive(serde::Serialize)]
struct Listening {
    format: &'static str,
    version: u32,
    address: SocketAddr,
    /// Controllers must have the secret.
    token: bool,
}

/// Refuses CPUs that are not here before a controller finds it out.
fn refuse_absent(host: &dyn HostRead, wanted: &CpuSet) -> Result<()> {
    let text = host.text(Path::new("/sys/devices/system/cpu/online")).unwrap_or_default();
    let Ok(online) = text.parse::<CpuSet>() else { return Ok(()) };
    let absent = wanted.difference(&online);
    if online.is_empty() || absent.is_empty() {
        return Ok(());
    }
    Err(Error::usage("agent: --cpus", format!("CPU {absent} is not online here"))
        .hint(format!("CPUs here: {online}")))
}

fn rate(text: &str) -> std::result::Result<BitRate, String> {
    megabits(text).map(|mbit| BitRate(mbit * 1e6))
}

fn cpus(text: &str) -> std::result::Result<CpuSet, String> {
    let set: CpuSet = text.parse().map_err(|e| format!("{e}"))?;
    if set.is_empty() { Err("no CPU in it; as 2-3 or 1,3".into()) } else { Ok(set) }
}

fn listen(text: &str) -> std::result::Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let ip = text.trim_matches(['[', ']']).parse();
    ip.map(|ip| SocketAddr::new(ip, PORT))
        .map_err(|_| "not an address: 127.0.0.1, 198.51.100.7:19820, [2001:db8::1]:19820".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_come_with_a_port() {
        assert_eq!(listen("127.0.0.1").unwrap().to_string(), "127.0.0.1:19820");
        assert_eq!(listen("198.18.1.2:5").unwrap().to_string(), "198.18.1.2:5");
        assert_eq!(listen("::1").unwrap().to_string(), "[::1]:19820");
        assert_eq!(listen("[2001:db8::1]:7").unwrap().port(), 7);
        for bad in ["", "host", "1.2.3.4:99999", ":80"] {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }
}
