//! `linerate bench --driver`: somebody else's generator against a server that exists.

use clap::{Args, ValueEnum};

use super::args::BenchArgs;
use super::{load_spec, origin, runs_lines, verdict};
use crate::cli::context::Context;
use crate::cli::interrupt;
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::{Live, clock};
use crate::machine::store::measured::{BENCH_FORMAT, BENCH_VERSION, Origin};
use crate::measure::bench::driver::{self, Driven, Driver, Target};
use crate::measure::load::speedtest::Line;
use crate::measure::load::{LoadSpec, iperf3};
use crate::model::measurement::{
    EvidenceClass, Measurement, Protocol, Refusal, RefusalCode, Scenario,
};

/// `bench --driver`
#[derive(Debug, Clone, Args)]
pub struct DriverArgs {
    /// Build no lab: run this program from here against a server that exists; ookla and librespeed
    /// measure the WAN line
    #[arg(long, value_name = "NAME", conflicts_with_all = ["against", "latency", "headroom", "frames", "sender", "board", "lan"])]
    pub driver: Option<Name>,
    /// The server: host of iperf3 or iperf2; number or host for ookla, number for librespeed
    #[arg(long, value_name = "HOST", requires = "driver")]
    pub server: Option<String>,
    /// The server's port [default: 5201 of iperf3, 5001 of iperf2]
    #[arg(long, value_name = "N", requires = "driver", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Share the streams out to N processes, each with a server of its own (`iperf3 -s -p`) on the
    /// ports from --port on: one process of iperf3 before 3.16 uses one CPU
    #[arg(long, value_name = "N", requires = "driver", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub ports: Option<u32>,
}

/// Names of programs that make traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// The installed iperf3, 3.9 or later
    Iperf3,
    /// The installed iperf 2
    Iperf2,
    /// Ookla's speedtest
    Ookla,
    /// librespeed-cli
    Librespeed,
}

impl Name {
    fn driver(self) -> Driver {
        match self {
            Self::Iperf3 => Driver::Iperf3,
            Self::Iperf2 => Driver::Iperf2,
            Self::Ookla => Driver::Ookla,
            Self::Librespeed => Driver::Librespeed,
        }
    }
}

/// As `bench --json` prints it.
#[derive(serde::Serialize)]
struct BenchDocument<'a> {
    format: &'static str,
    version: u32,
    class: EvidenceClass,
    origin: Origin,
    candidate: &'static str,
    scenario: Scenario,
    driver: DriverDocument<'a>,
    runs: &'a [Measurement],
}

#[derive(serde::Serialize)]
struct DriverDocument<'a> {
    name: String,
    version: &'a str,
    server: Option<&'a str>,
    line: Option<&'a Line>,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &BenchArgs, name: Name) -> Result<ExitCode> {
    let which = name.driver();
    let spec = load_spec(args)?;
    let stop = interrupt::stop_flag()?;
    let target = target(which, &args.driver, &spec)?;
    let started = clock::wall();
    let driven = driver::run(&Live::here(), &[], which, &target, &spec, &stop)?;
    if context.out.json {
        context.out.json(&BenchDocument {
            format: BENCH_FORMAT,
            version: BENCH_VERSION,
            class: EvidenceClass::Wire,
            origin: origin(&discover::snapshot(context.reader()), started),
            candidate: "as-found",
            scenario: scenario(which, &target, &spec),
            driver: DriverDocument {
                name: which.to_string(),
                version: &driven.version,
                server: target.server.as_deref(),
                line: driven.line.as_ref(),
            },
            runs: &driven.runs,
        })?;
    } else {
        let mut lines = text(context, &driven);
        let bound = |r: &Refusal| r.code == RefusalCode::GeneratorBound;
        if driven.runs.iter().any(|run| run.refusals.iter().any(bound))
            && target.processes == 1
            && spec.streams > 1
        {
            lines.push("hint: --ports N runs N processes, each with a server of its own".into());
        }
        context.out.tell(lines.join("\n"))?;
    }
    Ok(verdict(context, args, &driven.runs))
}

fn target(driver: Driver, args: &DriverArgs, spec: &LoadSpec) -> Result<Target> {
    let processes = args.ports.unwrap_or(1);
    let bad = |why: String| {
        Err(Error::usage("bench --ports", why).hint("leave --ports out, or name a lower number"))
    };
    if processes > 1 && driver != Driver::Iperf3 {
        return bad(format!("{driver} is one process"));
    }
    if processes > spec.streams {
        return bad(format!("{processes} processes for {} streams", spec.streams))
            .map_err(|e| e.hint("each needs a stream of its own: --streams N"));
    }
    let first = args.port.unwrap_or(iperf3::PORT);
    if u32::from(first) + processes - 1 > u32::from(u16::MAX) {
        return bad(format!("there are not {processes} ports from {first} on"));
    }
    Ok(Target { server: args.server.clone(), port: args.port, processes })
}

/// Unknown parts of the way are 0: rules, MTU, and what a speed test chooses by itself.
fn scenario(driver: Driver, target: &Target, spec: &LoadSpec) -> Scenario {
    let by_itself = driver.is_speed_test();
    let server = target.server.as_deref().unwrap_or("a server of its choice");
    Scenario {
        name: format!("{driver} with {server}"),
        rules: 0,
        streams: if by_itself { 0 } else { spec.streams },
        mtu: 0,
        protocol: spec.protocol,
        seconds: if by_itself { 0.0 } else { spec.seconds.ceil() },
        omit: if by_itself { 0.0 } else { spec.omit.ceil() },
        flows: 0,
        rate: spec.rate,
        datagram: (spec.protocol == Protocol::Udp)
            .then(|| u32::try_from(spec.datagram).ok())
            .flatten(),
    }
}

fn text(context: &Context, driven: &Driven) -> Vec<String> {
    let mut lines = vec![driven.version.clone()];
    lines.extend(runs_lines(&context.out, &driven.runs));
    let Some(line) = &driven.line else { return lines };
    let ms = |what: &str, value: Option<f64>| value.map(|ms| format!("{what} {ms:.1} ms"));
    let trips = [
        ms("idle", line.idle),
        ms("loaded down", line.down.loaded),
        ms("loaded up", line.up.loaded),
        ms("jitter", line.jitter),
        line.loss.map(|loss| format!("{loss:.1} % of small packets lost")),
    ];
    let trips: Vec<String> = trips.into_iter().flatten().collect();
    if !trips.is_empty() {
        lines.push(format!("round trips: {}", trips.join(", ")));
    }
    lines.extend(line.url.clone());
    lines
}
