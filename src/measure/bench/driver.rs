//! Other people's generators against servers that already exist: iperf3, iperf 2, and the
//! speed-test clients of a WAN line.
//!
//! They run on this machine as it is; the CPUs that are sampled beside them are this machine's, and
//! so are the devices where it is itself under test ([`own_traffic`]).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::rules::{self, Facts, FlowFacts};
use super::{DRAIN, SETTLE, pause, told};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostError, Live, clock, command};
use crate::measure::load::iperf3::{self, IperfFlow, Report, Unusable};
use crate::measure::load::speedtest::{self, Line, Way};
use crate::measure::load::{LoadSpec, iperf2};
use crate::measure::sample::{CpuCounters, DeviceCounters, Health};
use crate::model::measurement::{Direction, Flow, Measurement, Refusal, RefusalCode};

/// Time over the test's own for connecting and exchanging results.
const GRACE: Duration = Duration::from_secs(15);
/// The longest that a speed test takes by itself.
const LINE: Duration = Duration::from_secs(180);
/// Time for which a server that is busy with somebody else's test is asked again.
const BUSY: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(1);
/// Time for which a server that does not listen is asked again.
const SOON: Duration = Duration::from_secs(2);
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

    /// True if the program chooses streams, time and direction by itself.
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

/// Server at the other end, and the number of processes here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host name or address; of speed tests the server's number or name, or none for their choice.
    pub server: Option<String>,
    /// `None` is where its server listens by default.
    pub port: Option<u16>,
    /// Processes here, each with a server of its own on the next port; of iperf3.
    pub processes: u32,
}

/// Result of a run by another program.
#[derive(Debug, Clone, PartialEq)]
pub struct Driven {
    /// `iperf 3.12`, `Speedtest by Ookla 1.2.0.84`.
    pub version: String,
    /// One with iperf, one each way with a speed test.
    pub runs: Vec<Measurement>,
    /// Further results of a speed test.
    pub line: Option<Line>,
}

/// Runs the program once where this process is, and looks at this machine's CPUs and `devices`
/// beside it. A figure that can't be trusted is no error: it carries its refusals.
///
/// # Errors
/// Not supported when the program is not here, with how to get it; refused when it failed or gave
/// no usable report; interrupted when `stop` is raised; a usage error for a server it can't have.
pub fn run(
    host: &Live,
    devices: &[&str],
    driver: Driver,
    target: &Target,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<Driven> {
    spec.check()?;
    let version = version(driver)?;
    let port = target.port.unwrap_or(iperf3::PORT);
    let shares = iperf3::shares(spec, target.processes);
    let commands = match driver {
        Driver::Iperf3 => iperf3::command_lines(&shares, needed(driver, target)?, port),
        _ => vec![arguments(driver, target, spec)?],
    };
    let limit = match driver {
        Driver::Iperf3 | Driver::Iperf2 => {
            Duration::from_secs_f64(spec.seconds + spec.omit) + GRACE
        }
        Driver::Ookla | Driver::Librespeed => LINE,
    };
    let failed = |e: HostError| missing(driver, &e);
    let start = |line: &[String]| command::start_here(driver.program(), line);
    pause(SETTLE, stop);
    let first = clock::monotonic();
    loop {
        let health = Health::read(host);
        let counted = told(DeviceCounters::read(host, devices))?;
        let before = told(CpuCounters::read(host))?;
        let ended = command::together(&start, &commands, limit, stop).map_err(failed)?;
        let after = told(CpuCounters::read(host))?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::interrupted(driver.program()));
        }
        let read = parsed(driver, &ended, &shares, port, spec, &version);
        let waited = clock::monotonic().saturating_sub(first);
        match read {
            Ok((mut runs, line)) => {
                pause(DRAIN, stop);
                let moved = told(DeviceCounters::read(host, devices))?.since(&counted);
                let now = Health::read(host);
                let mut refusals = Vec::new();
                let mut refuse = |code, why| refusals.push(Refusal { code, why });
                let throttled = now.throttled_since(&health);
                if !throttled.is_empty() {
                    refuse(RefusalCode::Throttled, throttled.join("; "));
                }
                if !moved.changed.is_empty() {
                    refuse(RefusalCode::LinkChanged, moved.changed.join("; "));
                }
                let packets: u64 = moved.devices.iter().map(|d| d.rx_packets).sum();
                let bytes: u64 = moved.devices.iter().map(|d| d.rx_bytes).sum();
                for run in &mut runs {
                    run.cpus = after.since(&before);
                    run.devices.clone_from(&moved.devices);
                    if packets > 0 {
                        run.packet_bytes = bytes as f64 / packets as f64;
                    }
                    run.beside.hottest = now.celsius();
                    run.notes.push(note(&version, commands.len(), target, line.as_ref()));
                    run.refusals.extend(refusals.iter().cloned());
                }
                return Ok(Driven { version, runs, line });
            }
            Err(why) if why.is_busy() && waited < BUSY => pause(RETRY, stop),
            // A server between two tests, or one that just comes up.
            Err(why) if why.is_transient() && waited < SOON => pause(RETRY / 5, stop),
            Err(why) => {
                let all: Vec<u8> = ended.into_iter().flat_map(|e| e.output).collect();
                return Err(failure(driver, &why, &all));
            }
        }
    }
}

fn parsed(
    driver: Driver,
    ended: &[command::Ended],
    shares: &[LoadSpec],
    port: u16,
    spec: &LoadSpec,
    version: &str,
) -> std::result::Result<(Vec<Measurement>, Option<Line>), Unusable> {
    let one = ended.first().ok_or(Unusable::Missing("process"))?;
    let read = match driver {
        Driver::Iperf3 => iperf3::read(ended, shares, port).map(|r| by_iperf(&r, spec)),
        Driver::Iperf2 => iperf2::parse(&one.output, spec, version).map(|r| by_iperf(&r, spec)),
        Driver::Ookla => speedtest::ookla(&one.output).map(by_line),
        Driver::Librespeed => speedtest::librespeed(&one.output).map(by_line),
    };
    // What it says itself is the better reason, where it says one.
    let read = read?;
    one.failure().map_or(Ok(read), |why| Err(Unusable::Failed(why)))
}

/// As [`run`] for a machine that is itself what is measured: a server that does not answer, or an
/// unusable report, is a refused measurement, and a client that takes a whole CPU is part of what
/// this machine can do.
///
/// # Errors
/// As [`run`], but for those two.
pub fn own_traffic(
    host: &Live,
    devices: &[&str],
    target: &Target,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<Measurement> {
    let mut run = match run(host, devices, Driver::Iperf3, target, spec, stop) {
        Ok(driven) => {
            driven.runs.into_iter().next().unwrap_or_else(|| Measurement::blank(spec.direction))
        }
        Err(e) if e.code() == ExitCode::Refused => {
            let mut none = Measurement::blank(spec.direction);
            let why = e.to_string();
            none.refusals.push(Refusal { code: RefusalCode::NoAcknowledgement, why });
            none
        }
        Err(e) => return Err(e),
    };
    run.notes.insert(0, "the router's own traffic with the server: nothing was forwarded".into());
    let bound = |r: &Refusal| r.code == RefusalCode::GeneratorBound;
    let why: Vec<String> =
        run.refusals.iter().filter(|r| bound(r)).map(|r| r.why.clone()).collect();
    run.notes.extend(why);
    run.refusals.retain(|r| !bound(r));
    Ok(run)
}

fn note(version: &str, processes: usize, target: &Target, line: Option<&Line>) -> String {
    let server = line.map(|line| line.server.as_str()).filter(|name| !name.is_empty());
    let many = if processes > 1 { format!(" ({processes} processes)") } else { String::new() };
    format!(
        "{version}{many} on this machine with {}; nothing between them was sampled, and on the router \
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
        let server = match (driver, &why) {
            (Driver::Iperf2, _) => "iperf -s",
            (_, Unusable::Failed(said)) if said.contains("process on port") => "iperf3 -s -p PORT",
            _ => "iperf3 -s",
        };
        return error.hint(format!("start its server on the other side: `{server}`"));
    }
    error.hint(format!("what {} says when it is run by hand may tell more", driver.program()))
}

fn missing(driver: Driver, error: &HostError) -> Error {
    let told = Error::not_supported(format!("run {}", driver.program()), error.reason());
    if error.is_absent() { told.hint(driver.remedy()) } else { told }
}

/// Name and version that the program reports, which also shows that it is the right one.
pub(super) fn version(driver: Driver) -> Result<String> {
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

/// The server that was named. A name from the command line must not become an option.
fn checked(target: &Target) -> Result<Option<&str>> {
    let server = target.server.as_deref();
    if let Some(odd) = server.filter(|name| name.starts_with('-') || name.is_empty()) {
        return Err(Error::usage("server", format!("\"{odd}\" is no host"))
            .hint("name the host that runs it: --server HOST"));
    }
    let has_port = |name: &&str| name.contains(':') && name.parse::<std::net::IpAddr>().is_err();
    if let Some(both) = server.filter(has_port) {
        return Err(Error::usage("server", format!("\"{both}\" is more than a host"))
            .hint("its port is named by --port N"));
    }
    Ok(server)
}

fn needed(driver: Driver, target: &Target) -> Result<&str> {
    checked(target)?.ok_or_else(|| {
        Error::usage(format!("bench --driver {driver}"), "it needs a server")
            .hint("name the host that runs it: --server HOST")
    })
}

fn arguments(driver: Driver, target: &Target, spec: &LoadSpec) -> Result<Vec<String>> {
    let server = checked(target)?;
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Ok(match driver {
        // Has several command lines.
        Driver::Iperf3 => Vec::new(),
        Driver::Iperf2 => {
            let port = target.port.unwrap_or(iperf2::PORT);
            iperf2::arguments(spec, needed(driver, target)?, port)
        }
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
        against: None,
        acknowledged: true,
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
        stolen: 0.0,
        seconds: 0.0,
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
        ..Measurement::blank(spec.direction)
    };
    (vec![run], None)
}

/// Refusal if the program itself was the bottleneck, at either end. The other end's version is not
/// known; it is taken for the same.
fn bound(report: &Report, spec: &LoadSpec) -> Option<Refusal> {
    let directions = u32::try_from(spec.directions().len()).unwrap_or(1);
    let most = f64::from(report.threads(spec.streams.saturating_mul(directions)));
    let ends = ["here", "at its server"].into_iter().zip(report.cpu);
    let (end, used) =
        ends.filter_map(|(end, used)| Some((end, used?))).find(|(_, used)| *used > BOUND * most)?;
    let one = if iperf3::is_threaded(&report.version) {
        ""
    } else {
        "; before 3.16 all streams of a process share one CPU"
    };
    let why = format!(
        "{} {end} used {:.0} % of the {most:.0} CPUs that it can{one}",
        report.version,
        used / most * 100.0
    );
    Some(Refusal { code: RefusalCode::GeneratorBound, why })
}

/// A flow as iperf3 reported it, and the share of a CPU that its client took.
fn flow_of(flow: &IperfFlow, cpu: Option<f64>) -> Flow {
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
        ..Measurement::blank(direction)
    };
    (vec![one(Direction::Down, line.down), one(Direction::Up, line.up)], Some(line))
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
        Report { version: version.into(), flows: vec![flow], cpu, processes: 1 }
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
    fn as_many_cpus_as_there_are_processes_before_3_16() {
        let spec = LoadSpec::tcp(Direction::Up, 8, 1.0, 0.0);
        for (cpu, bound) in [(1.5, false), (1.9, true)] {
            let two = Report { processes: 2, ..report("iperf 3.12", [Some(cpu), None]) };
            assert_eq!(codes(&two, &spec) == [RefusalCode::GeneratorBound], bound, "{cpu}");
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
        let target = |server: Option<&str>| Target {
            server: server.map(str::to_owned),
            port: None,
            processes: 1,
        };
        let line = |driver, server: Option<&str>| {
            arguments(driver, &target(server), &spec).map(|words| words.join(" "))
        };
        for server in [None, Some("--logfile=/x"), Some("")] {
            let error = needed(Driver::Iperf3, &target(server)).unwrap_err();
            assert_eq!(error.code(), ExitCode::Usage);
        }
        assert!(line(Driver::Iperf2, Some("--output=/x")).is_err());
        assert!(line(Driver::Librespeed, Some("london")).is_err());
        assert_eq!(line(Driver::Ookla, None).unwrap(), "--format=json --progress=no");
        assert!(line(Driver::Ookla, Some("15047")).unwrap().ends_with("--server-id=15047"));
        assert!(line(Driver::Iperf2, Some("192.0.2.1")).unwrap().contains("-c 192.0.2.1"));
    }
}
