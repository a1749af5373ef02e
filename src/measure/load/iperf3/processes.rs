//! iperf3 at work: one process at each end, or several on consecutive ports, as a version before
//! 3.16 has one thread for all its streams.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{PORT, Report, Unusable, parse};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostError, clock, command};
use crate::measure::load::{Ends, LoadSpec};
use crate::model::measurement::{Direction, Protocol};
use crate::model::units::BitRate;

/// Time over the test's own for connecting and exchanging results.
const GRACE: Duration = Duration::from_secs(10);
/// Number of times that a server that is not up yet, or still busy, is asked again, and the pause
/// between.
const TRIES: u32 = 20;
const RETRY: Duration = Duration::from_millis(100);

/// Servers in `wan`, ready for tests until they are dropped.
pub struct Servers(Vec<command::Running>);

/// Starts as many servers, on consecutive ports.
///
/// # Errors
/// Not supported if iperf3 is not installed.
pub fn serve(ends: &Ends, processes: u32) -> Result<Servers> {
    let mut servers = Servers(Vec::new());
    for port in (PORT..).take(processes.max(1) as usize) {
        let arguments = ["-s", "-p", &port.to_string()].map(String::from);
        servers.0.push(command::start(&ends.wan, "iperf3", &arguments).map_err(missing)?);
    }
    Ok(servers)
}

/// Runs one test against the servers, with a client for each; the report is the sum of theirs.
///
/// # Errors
/// A usage error from [`LoadSpec::check`]; refused when there is no usable report of one of them;
/// interrupted when `stop` is raised.
pub fn run(
    servers: &mut Servers,
    ends: &Ends,
    spec: &LoadSpec,
    stop: &AtomicBool,
) -> Result<Report> {
    spec.check()?;
    let shares = shares(spec, u32::try_from(servers.0.len()).unwrap_or(1));
    let commands = command_lines(&shares, &ends.wan_address.to_string(), PORT);
    let limit = Duration::from_secs_f64(spec.seconds + spec.omit) + GRACE;
    let mut tries = 0;
    loop {
        let start = |line: &[String]| command::start(&ends.lan, "iperf3", line);
        let ended = command::together(&start, &commands, limit, stop).map_err(missing)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::interrupted("iperf3"));
        }
        tries += 1;
        match read(&ended, &shares, PORT) {
            Ok(report) => return Ok(report),
            Err(why) if why.is_transient() && tries < TRIES && servers.are_alive() => {
                clock::sleep(RETRY);
            }
            Err(why) => return Err(Error::new(ExitCode::Refused, "iperf3", why)),
        }
    }
}

impl Servers {
    fn are_alive(&mut self) -> bool {
        self.0.iter_mut().all(command::Running::is_alive)
    }
}

/// Share of the load for each of so many processes: streams, and with them the rate, as even as
/// possible.
#[must_use]
pub fn shares(spec: &LoadSpec, processes: u32) -> Vec<LoadSpec> {
    let processes = processes.clamp(1, spec.streams.max(1));
    let share = |nth: u32| {
        let streams = spec.streams / processes + u32::from(nth < spec.streams % processes);
        let part = f64::from(streams) / f64::from(spec.streams.max(1));
        let rate = spec.rate.map(|rate| BitRate(rate.0 * part));
        LoadSpec { streams, rate, ..spec.clone() }
    };
    (0..processes).map(share).collect()
}

/// The command lines of clients of servers on consecutive ports.
#[must_use]
pub fn command_lines(shares: &[LoadSpec], server: &str, port: u16) -> Vec<Vec<String>> {
    let ports = port..=u16::MAX;
    shares.iter().zip(ports).map(|(share, port)| arguments(share, server, port)).collect()
}

/// The sum of what processes with these shares said.
///
/// # Errors
/// [`Unusable`] of the first that is, with its port where there are several: what is missing can't
/// be made up for by the others.
pub fn read(
    ended: &[command::Ended],
    shares: &[LoadSpec],
    port: u16,
) -> std::result::Result<Report, Unusable> {
    let mut sum: Option<Report> = None;
    for ((ended, share), port) in ended.iter().zip(shares).zip(port..=u16::MAX) {
        let report = parse(&ended.output, share).and_then(|report| {
            ended.failure().map_or(Ok(report), |why| Err(Unusable::Failed(why)))
        });
        let report = report.map_err(|why| match why {
            Unusable::Failed(why) if shares.len() > 1 => {
                Unusable::Failed(format!("the process on port {port}: {why}"))
            }
            why => why,
        })?;
        match &mut sum {
            None => sum = Some(report),
            Some(sum) => sum.add(&report),
        }
    }
    sum.ok_or(Unusable::Missing("process"))
}

impl Report {
    /// Adds the report of another process that ran at the same time. A figure that one of them does
    /// not report is unknown in the sum.
    fn add(&mut self, other: &Self) {
        for (sum, flow) in self.flows.iter_mut().zip(&other.flows) {
            sum.goodput.0 += flow.goodput.0;
            sum.sent = sum.sent.zip(flow.sent).map(|(a, b)| BitRate(a.0 + b.0));
            sum.seconds = sum.seconds.max(flow.seconds);
            sum.bytes += flow.bytes;
            sum.retransmits = sum.retransmits.zip(flow.retransmits).map(|(a, b)| a + b);
            let both = sum.datagrams.zip(flow.datagrams);
            sum.datagrams = both.map(|(a, b)| (a.0 + b.0, a.1 + b.1));
        }
        for (sum, cpu) in self.cpu.iter_mut().zip(other.cpu) {
            *sum = sum.zip(cpu).map(|(a, b)| a + b);
        }
        self.processes += other.processes;
    }
}

/// The command line of a client of `server`. iperf3 takes whole seconds only; fractions are rounded
/// up.
fn arguments(spec: &LoadSpec, server: &str, port: u16) -> Vec<String> {
    let mut all: Vec<String> = vec!["-J".into(), "-c".into(), server.to_owned()];
    let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
    add("-p", port.to_string());
    add("-P", spec.streams.to_string());
    add("-t", format!("{:.0}", spec.seconds.ceil()));
    if spec.omit > 0.0 {
        add("-O", format!("{:.0}", spec.omit.ceil()));
    }
    // Its limit is per stream; without one, UDP would stop at 1 Mbit/s.
    let per_stream = spec.rate.map(|rate| format!("{:.0}", rate.0 / f64::from(spec.streams)));
    match spec.protocol {
        Protocol::Udp => {
            add("-l", spec.datagram.to_string());
            add("-b", per_stream.unwrap_or_else(|| "0".into()));
        }
        Protocol::Tcp => {
            if let Some(rate) = per_stream {
                add("-b", rate);
            }
            if let Some(mss) = spec.mss {
                add("-M", mss.to_string());
            }
        }
    }
    let flag = |on: bool, flag: &str| on.then(|| flag.to_owned());
    all.extend(flag(spec.protocol == Protocol::Udp, "-u"));
    all.extend(flag(spec.direction == Direction::Down, "-R"));
    all.extend(flag(spec.direction == Direction::Both, "--bidir"));
    all
}

fn missing(error: HostError) -> Error {
    let hint = "install it: `apt install iperf3` or `opkg install iperf3`";
    let absent = error.is_absent();
    let error = Error::not_supported("run iperf3", error.reason());
    if absent { error.hint(hint) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(direction: Direction) -> LoadSpec {
        LoadSpec::tcp(direction, 1, 1.0, 0.0)
    }

    #[test]
    fn the_rate_is_split_over_the_streams() {
        let spec =
            LoadSpec { rate: Some(BitRate(80e6)), ..LoadSpec::udp(Direction::Down, 4, 1.5, None) };
        let line = arguments(&spec, "198.18.2.2", PORT).join(" ");
        assert_eq!(line, "-J -c 198.18.2.2 -p 5201 -P 4 -t 2 -l 1472 -b 20000000 -u -R");
    }

    fn ended(version: &str, case: &str) -> command::Ended {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/iperf3");
        let output = std::fs::read(format!("{dir}/{version}/{case}.json")).unwrap();
        command::Ended { code: Some(0), output }
    }

    #[test]
    fn streams_and_rate_are_shared_out_and_none_is_lost() {
        let spec =
            LoadSpec { rate: Some(BitRate(70e6)), ..LoadSpec::udp(Direction::Up, 7, 1.0, None) };
        for (processes, streams) in
            [(1, &[7][..]), (3, &[3, 2, 2]), (7, &[1; 7]), (9, &[1; 7]), (0, &[7])]
        {
            let shares = shares(&spec, processes);
            let found: Vec<u32> = shares.iter().map(|s| s.streams).collect();
            assert_eq!(found, streams, "{processes}");
            for share in &shares {
                assert_eq!(share.rate, Some(BitRate(f64::from(share.streams) * 10e6)));
            }
        }
        let lines = command_lines(&shares(&spec, 2), "198.18.2.2", 65_534);
        let line = |n: usize| lines[n].join(" ");
        assert!(
            line(0).contains("-p 65534 -P 4 ") && line(1).contains("-p 65535 -P 3 "),
            "{lines:?}"
        );
        assert!(line(0).contains("-b 10000000 ") && line(1).contains("-b 10000000 "), "{lines:?}");
    }

    #[test]
    fn what_several_processes_said_is_one_report_and_one_that_failed_is_no_report() {
        for (version, processes) in [("3.12", 2), ("3.18", 2)] {
            let spec = LoadSpec { streams: 4, ..tcp(Direction::Up) };
            let (shares, case) = (shares(&spec, processes), ended(version, "tcp-up"));
            let one = parse(&case.output, &spec).unwrap();
            let sum = read(&[case.clone(), case.clone()], &shares, PORT).unwrap();
            let (flow, single) = (&sum.flows[0], &one.flows[0]);
            assert_eq!((flow.bytes, flow.seconds), (2 * single.bytes, single.seconds));
            assert!((flow.goodput.0 - 2.0 * single.goodput.0).abs() < 1.0);
            assert_eq!(flow.retransmits, single.retransmits.map(|n| 2 * n));
            assert_eq!(sum.cpu[0], one.cpu[0].map(|cpu| 2.0 * cpu));
            assert_eq!((sum.processes, sum.threads(4)), (2, if version == "3.12" { 2 } else { 4 }));
            for (bad, transient) in [("refused", true), ("busy", true), ("killed", false)] {
                let why = read(&[case.clone(), ended(version, bad)], &shares, PORT).unwrap_err();
                assert!(why.to_string().starts_with("the process on port 5202: "), "{why}");
                assert_eq!(why.is_transient(), transient, "{why}");
            }
            let cut = command::Ended { code: None, ..case.clone() };
            assert!(read(&[cut, case.clone()], &shares, PORT).is_err(), "cut short is no figure");
        }
        let spec = LoadSpec::udp(Direction::Up, 2, 1.0, Some(BitRate(10e6)));
        let case = ended("3.12", "udp-up");
        let (sent, lost) = parse(&case.output, &spec).unwrap().flows[0].datagrams.unwrap();
        let sum = read(&[case.clone(), case], &shares(&spec, 2), PORT).unwrap();
        assert_eq!(sum.flows[0].datagrams, Some((2 * sent, 2 * lost)));
        assert_eq!(read(&[], &[], PORT), Err(Unusable::Missing("process")));
    }
}
