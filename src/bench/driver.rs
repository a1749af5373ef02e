//! Other people's generators against servers that already exist: iperf3, iperf 2, and the
//! speed-test clients of a WAN line.
//!
//! They run on this machine, where it is; what is sampled beside them are this machine's CPUs.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::rules::{self, Facts, FlowFacts};
use super::told;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{HostError, Live, clock, command};
use crate::load::iperf3::{self, IperfFlow, Report, Unusable};
use crate::load::speedtest::{self, Line, Way};
use crate::load::{LoadSpec, iperf2};
use crate::model::measurement::{Direction, Flow, Measurement, Refusal, RefusalCode, SideFigures};
use crate::sample::{CpuCounters, Health};

/// Time over the test's own for connecting and exchanging results.
const GRACE: Duration = Duration::from_secs(15);
/// The longest that a speed test takes by itself.
const LINE: Duration = Duration::from_secs(180);
/// How long a server that is busy with somebody else's test is asked again.
const BUSY: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(1);
/// Above this share of all the CPU that a process of it can use, it was the bottleneck.
const BOUND: f64 = 0.90;

/// A program that makes traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// `iperf3`.
    Iperf3,
    /// `iperf` 2.x.
    Iperf2,
    /// Ookla's `speedtest`.
    Ookla,
    /// `librespeed-cli`.
    Librespeed,
}

impl Driver {
    /// The program's file name.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            Self::Iperf2 => "iperf",
            Self::Ookla => "speedtest",
            Self::Librespeed => "librespeed-cli",
        }
    }

    /// Whether it chooses streams, time and direction by itself.
    #[must_use]
    pub fn is_speed_test(self) -> bool {
        matches!(self, Self::Ookla | Self::Librespeed)
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Iperf3 => "install it: `apt install iperf3` or `opkg install iperf3`",
            Self::Iperf2 => "install it: `apt install iperf` or `opkg install iperf`",
            Self::Ookla => {
                "get it from https://www.speedtest.net/apps/cli and run `speedtest` once by hand: \
                 its licence is yours to accept"
            }
            Self::Librespeed => "get it from https://github.com/librespeed/speedtest-cli/releases",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iperf3 => "iperf3",
            Self::Iperf2 => "iperf2",
            Self::Ookla => "ookla",
            Self::Librespeed => "librespeed",
        })
    }
}

/// Where the other end is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host name or address; of speed tests the server's number or name, or none for their choice.
    pub server: Option<String>,
    /// `None` is where its server listens by default.
    pub port: Option<u16>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Driven {
    /// `iperf 3.12`, `Speedtest by Ookla 1.2.0.84`.
    pub version: String,
    /// One with iperf, one each way with a speed test.
    pub runs: Vec<Measurement>,
    /// What a speed test said besides.
    pub line: Option<Line>,
}

/// Runs the program once. A figure that can't be trusted is no error: it carries its refusals.
///
/// # Errors
/// Not supported when the program is not here, with how to get it; refused when it failed or gave
/// no usable report; interrupted when `stop` is raised; a usage error for a server it can't have.
pub fn run(driver: Driver, target: &Target, spec: &LoadSpec, stop: &AtomicBool) -> Result<Driven> {
    let host = Live::here();
    let version = version(driver)?;
    let arguments = arguments(driver, target, spec)?;
    let limit = match driver {
        Driver::Iperf3 | Driver::Iperf2 => {
            Duration::from_secs_f64(spec.seconds + spec.omit) + GRACE
        }
        Driver::Ookla | Driver::Librespeed => LINE,
    };
    let health = Health::read(&host);
    let patience = clock::monotonic() + BUSY;
    loop {
        let before = told(CpuCounters::read(&host))?;
        let failed = |e: HostError| missing(driver, &e);
        let client = command::start_here(driver.program(), &arguments).map_err(failed)?;
        let ended = client.wait(limit, stop).map_err(failed)?;
        let after = told(CpuCounters::read(&host))?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::interrupted(driver.program()));
        }
        let read = match driver {
            Driver::Iperf3 => iperf3::parse(&ended.output, spec).map(|r| by_iperf(&r, spec)),
            Driver::Iperf2 => {
                iperf2::parse(&ended.output, spec, &version).map(|r| by_iperf(&r, spec))
            }
            Driver::Ookla => speedtest::ookla(&ended.output).map(by_line),
            Driver::Librespeed => speedtest::librespeed(&ended.output).map(by_line),
        };
        match read {
            Ok(_) if ended.code != Some(0) => {
                let code = ended.code.map_or("a signal or its time limit".to_owned(), |code| {
                    format!("exit code {code}")
                });
                return Err(refused(driver, &format!("ended by {code}")));
            }
            Ok((mut runs, line)) => {
                let throttled = Health::read(&host).throttled_since(&health);
                for run in &mut runs {
                    run.cpus = after.since(&before);
                    run.notes.push(note(&version, target, line.as_ref()));
                    if !throttled.is_empty() {
                        let why = throttled.join("; ");
                        run.refusals.push(Refusal { code: RefusalCode::Throttled, why });
                    }
                }
                return Ok(Driven { version, runs, line });
            }
            Err(why) if why.is_busy() && clock::monotonic() < patience => {
                // Raised, it is seen above.
                let _whole = clock::wait_until(clock::monotonic() + RETRY, RETRY / 10, stop);
            }
            Err(why) => return Err(failure(driver, &why, &ended.output)),
        }
    }
}

fn note(version: &str, target: &Target, line: Option<&Line>) -> String {
    let server = line.map(|line| line.server.as_str()).filter(|name| !name.is_empty());
    format!(
        "{version} on this machine with {}; nothing between them was sampled, and on the router \
         itself nothing was forwarded",
        server.or(target.server.as_deref()).unwrap_or("a server of its choice")
    )
}

fn refused(driver: Driver, why: &str) -> Error {
    Error::new(ExitCode::Refused, driver.program(), why)
}

fn failure(driver: Driver, why: &Unusable, output: &[u8]) -> Error {
    let error = refused(driver, &why.to_string());
    let text = String::from_utf8_lossy(output).to_lowercase();
    if driver == Driver::Ookla && text.contains("license") {
        return error.hint("run `speedtest` once by hand: its licence is yours to accept");
    }
    if why.is_busy() {
        return error.hint("its server runs somebody else's test; try again later");
    }
    if text.contains("connection refused") {
        let server = match driver {
            Driver::Iperf2 => "iperf -s",
            _ => "iperf3 -s",
        };
        return error.hint(format!("start its server on the other side: `{server}`"));
    }
    error
}

fn missing(driver: Driver, error: &HostError) -> Error {
    let told = Error::not_supported(format!("run {}", driver.program()), error.reason());
    if error.is_absent() { told.hint(driver.remedy()) } else { told }
}

/// What the program calls itself, which also says whether it is the right one.
fn version(driver: Driver) -> Result<String> {
    let flag = if driver == Driver::Iperf2 { "-v" } else { "--version" };
    let ended = command::run(driver.program(), &[flag], GRACE).map_err(|e| missing(driver, &e))?;
    let text = String::from_utf8_lossy(&ended.output);
    let first = text.lines().next().unwrap_or_default().trim();
    let right = match driver {
        Driver::Iperf3 => first.starts_with("iperf 3"),
        Driver::Iperf2 => first.starts_with("iperf version 2"),
        // The Python program of the same name calls itself speedtest-cli.
        Driver::Ookla => first.contains("Ookla"),
        Driver::Librespeed => true,
    };
    if !right {
        let why = format!("the one here is another program ({first})");
        let what = format!("run {}", driver.program());
        return Err(Error::not_supported(what, why).hint(driver.remedy()));
    }
    // `iperf 3.12 (cJSON 1.7.15)`, `iperf version 2.1.8 (12 August 2022) pthreads`.
    Ok(first.split(" (").next().unwrap_or(first).replace(" version ", " "))
}

fn arguments(driver: Driver, target: &Target, spec: &LoadSpec) -> Result<Vec<String>> {
    let server = target.server.as_deref();
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let needed = || {
        server.ok_or_else(|| {
            Error::usage(format!("bench --driver {driver}"), "it needs a server")
                .hint("name the host that runs it: --server HOST")
        })
    };
    // A name from the command line must not become an option.
    if let Some(odd) = server.filter(|name| name.starts_with('-') || name.is_empty()) {
        return Err(Error::usage("server", format!("\"{odd}\" is no host")));
    }
    Ok(match driver {
        Driver::Iperf3 => iperf3::arguments(spec, needed()?, target.port.unwrap_or(iperf3::PORT)),
        Driver::Iperf2 => iperf2::arguments(spec, needed()?, target.port.unwrap_or(iperf2::PORT)),
        Driver::Ookla => {
            let mut all: Vec<String> = words(&["--format=json", "--progress=no"]);
            all.extend(server.map(|name| {
                let number = name.bytes().all(|b| b.is_ascii_digit());
                if number { format!("--server-id={name}") } else { format!("--host={name}") }
            }));
            all
        }
        Driver::Librespeed => {
            let mut all: Vec<String> = words(&["--json"]);
            if let Some(name) = server {
                if !name.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(Error::usage(
                        "server",
                        format!("{name}: librespeed-cli takes a number"),
                    )
                    .hint("`librespeed-cli --list` has them"));
                }
                all.extend(["--server".to_owned(), name.to_owned()]);
            }
            all
        }
    })
}

fn by_iperf(report: &Report, spec: &LoadSpec) -> (Vec<Measurement>, Option<Line>) {
    let facts = report.flows.iter().map(|flow| FlowFacts {
        direction: flow.direction,
        asked: spec.rate,
        // Where it does not say, there is nothing to hold against it.
        sent_rate: flow.sent.or(spec.rate).unwrap_or(flow.goodput),
        window_bytes: flow.bytes,
        bytes: flow.bytes,
        sent_at_most: None,
        unacknowledged: 0,
        error: None,
        busiest_thread: 0.0,
        header_bytes: 0,
        device: None,
    });
    let mut refusals = rules::refusals(&Facts {
        flows: facts.collect(),
        interrupted: false,
        shared_cpus: true,
        mtu: u32::MAX,
        throttled: Vec::new(),
        beside: 0,
        changed: Vec::new(),
        differing: Vec::new(),
    });
    refusals.extend(bound(report, spec));
    let [client, _] = report.cpu;
    let run = Measurement {
        seconds: report.flows.iter().map(|f| f.seconds).fold(0.0, f64::max),
        flows: report.flows.iter().map(|f| flow_of(f, client)).collect(),
        refusals,
        ..blank(spec.direction)
    };
    (vec![run], None)
}

/// Whether the program itself was the bottleneck, at either end. The other end's version is not
/// known; it is taken for the same.
fn bound(report: &Report, spec: &LoadSpec) -> Option<Refusal> {
    let directions = u32::try_from(spec.directions().len()).unwrap_or(1);
    let most = f64::from(report.threads(spec.streams.saturating_mul(directions)));
    let ends = ["here", "at its server"].into_iter().zip(report.cpu);
    let (end, used) =
        ends.filter_map(|(end, used)| Some((end, used?))).find(|(_, used)| *used > BOUND * most)?;
    let one = if most > 1.0 { "" } else { "; before 3.16 all its streams share one CPU" };
    let why = format!(
        "{} {end} used {:.0} % of the {most:.0} CPUs that it can{one}",
        report.version,
        used / most * 100.0
    );
    Some(Refusal { code: RefusalCode::GeneratorBound, why })
}

/// A flow as iperf3 told it, and the share of a CPU that its client took.
pub(super) fn flow_of(flow: &IperfFlow, cpu: Option<f64>) -> Flow {
    Flow {
        direction: flow.direction,
        goodput: flow.goodput,
        bytes: flow.bytes,
        retransmits: flow.retransmits,
        lost: flow.datagrams.map(|(_, lost)| lost),
        received: flow.datagrams.map(|(sent, lost)| sent.saturating_sub(lost)),
        generator_cpu: cpu.unwrap_or(0.0),
        sent_by: None,
    }
}

fn by_line(line: Line) -> (Vec<Measurement>, Option<Line>) {
    let one = |direction, way: Way| Measurement {
        seconds: way.seconds,
        flows: vec![Flow {
            direction,
            goodput: way.rate,
            bytes: way.bytes,
            retransmits: None,
            lost: None,
            received: None,
            generator_cpu: 0.0,
            sent_by: None,
        }],
        ..blank(direction)
    };
    (vec![one(Direction::Down, line.down), one(Direction::Up, line.up)], Some(line))
}

fn blank(direction: Direction) -> Measurement {
    Measurement {
        direction,
        flows: Vec::new(),
        seconds: 0.0,
        packet_bytes: 0.0,
        cpus: Vec::new(),
        devices: Vec::new(),
        beside: SideFigures::default(),
        refusals: Vec::new(),
        notes: Vec::new(),
        series: Vec::new(),
        settings: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::units::BitRate;

    fn report(version: &str, cpu: [Option<f64>; 2]) -> Report {
        let flow = IperfFlow {
            direction: Direction::Up,
            goodput: BitRate(90e6),
            sent: Some(BitRate(95e6)),
            seconds: 1.0,
            bytes: 11_250_000,
            retransmits: None,
            datagrams: Some((1000, 50)),
        };
        Report { version: version.into(), flows: vec![flow], cpu }
    }

    fn codes(report: &Report, spec: &LoadSpec) -> Vec<RefusalCode> {
        by_iperf(report, spec).0[0].refusals.iter().map(|r| r.code).collect()
    }

    #[test]
    fn one_cpu_for_all_streams_is_a_bound_before_3_16_and_a_share_of_several_is_not() {
        let spec = LoadSpec::tcp(Direction::Up, 8, 1.0, 0.0);
        for (version, cpu, bound) in [
            ("iperf 3.15", [Some(0.95), None], true),
            ("iperf 3.9", [Some(0.5), Some(0.97)], true),
            ("iperf 3.16", [Some(0.95), Some(3.0)], false),
            ("iperf 3.16", [Some(7.5), None], true),
            ("iperf 3.20-mt1", [Some(1.5), None], false),
            ("iperf 3.12", [None, None], false),
        ] {
            let found = codes(&report(version, cpu), &spec);
            assert_eq!(found == [RefusalCode::GeneratorBound], bound, "{version} {found:?}");
        }
    }

    #[test]
    fn less_than_was_asked_for_is_refused_and_loss_is_a_result() {
        let spec = LoadSpec::udp(Direction::Up, 1, 1.0, Some(BitRate(100e6)));
        let report = report("iperf 3.18", [None, None]);
        assert_eq!(codes(&report, &spec), [RefusalCode::UnderSent]);
        let asked = LoadSpec { rate: Some(BitRate(95e6)), ..spec };
        let (runs, _) = by_iperf(&report, &asked);
        assert_eq!((runs[0].flows[0].lost, runs[0].flows[0].received), (Some(50), Some(950)));
        assert!(runs[0].is_valid(), "{:?}", runs[0].refusals);
    }

    #[test]
    fn a_server_is_needed_by_iperf_and_is_never_an_option() {
        let spec = LoadSpec::tcp(Direction::Down, 2, 1.0, 0.0);
        let line = |driver, server: Option<&str>| {
            let target = Target { server: server.map(str::to_owned), port: None };
            arguments(driver, &target, &spec).map(|words| words.join(" "))
        };
        assert_eq!(line(Driver::Iperf3, None).unwrap_err().code(), ExitCode::Usage);
        assert!(line(Driver::Iperf2, Some("--output=/x")).is_err());
        assert!(line(Driver::Librespeed, Some("london")).is_err());
        assert_eq!(line(Driver::Ookla, None).unwrap(), "--format=json --progress=no");
        assert!(line(Driver::Ookla, Some("15047")).unwrap().ends_with("--server-id=15047"));
        assert!(line(Driver::Iperf3, Some("192.0.2.1")).unwrap().contains("-c 192.0.2.1 -p 5201"));
    }
}
