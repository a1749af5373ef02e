//! The installed `iperf3` as a second driver, to check the built-in generator against, and for
//! servers that already exist.
//!
//! The JSON of iperf3 is read with distrust: 3.11 to 3.13 exit with 0 after a failure, 3.9 reports
//! its failure behind the JSON, `end.sum` mixes the sender's bytes with the receiver's time, `nan`
//! is not JSON, warnings stand around the text, and before 3.11 both directions of `--bidir` have
//! the same keys. Real output of several versions is in `fixtures/iperf3`.

mod processes;

use serde_json::Value;

pub use processes::{Servers, command_lines, read, run, serve, shares};

use super::LoadSpec;
use crate::model::measurement::{Direction, Protocol};
use crate::model::units::BitRate;

/// Port on which an iperf3 server listens by default.
pub const PORT: u16 = 5201;

/// Report of a run by iperf3.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// `iperf 3.12`.
    pub version: String,
    /// One per direction, in the order of [`LoadSpec::directions`].
    pub flows: Vec<IperfFlow>,
    /// CPU seconds per second of the client's processes, and of the servers'; `None` where it does
    /// not say.
    pub cpu: [Option<f64>; 2],
    /// Processes at each end.
    pub processes: u32,
}

impl Report {
    /// Number of CPUs that its processes can use for so many streams.
    #[must_use]
    pub fn threads(&self, streams: u32) -> u32 {
        if is_threaded(&self.version) { streams } else { self.processes }
    }
}

/// True if that version has a thread for each stream; before 3.16 all of them share one.
#[must_use]
pub fn is_threaded(version: &str) -> bool {
    let numbers = version.rsplit(' ').next().unwrap_or_default();
    let mut numbers = numbers
        .split('.')
        .map_while(|n| n.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (3, 16)
}

/// One direction by the receiver's report.
#[derive(Debug, Clone, PartialEq)]
pub struct IperfFlow {
    /// Direction of the payload; never [`Direction::Both`].
    pub direction: Direction,
    /// Payload at the receiver.
    pub goodput: BitRate,
    /// Payload by the sender's own count; `None` where it does not say.
    pub sent: Option<BitRate>,
    /// Length of the measured time, seconds.
    pub seconds: f64,
    /// Payload bytes at the receiver.
    pub bytes: u64,
    /// TCP segments sent again; `None` where it does not say.
    pub retransmits: Option<u64>,
    /// Datagrams sent and lost; `None` for TCP.
    pub datagrams: Option<(u64, u64)>,
}

/// Reason why a report can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The report itself says that the run failed.
    #[error("{0}")]
    Failed(String),
    /// The output is not a report.
    #[error("not a report: {0}")]
    NotAReport(String),
    /// A sum that the figure is taken from is missing or zero.
    #[error("no {0} in its report: the receiver did not acknowledge")]
    Missing(&'static str),
    /// This version never reports what the figure is taken from.
    #[error("{version} does not report {what}; iperf 3.12 and later do")]
    TooOld {
        /// `iperf 3.9`.
        version: String,
        /// Name of the missing part.
        what: &'static str,
    },
}

impl Unusable {
    /// True if trying again may help: the server is not up yet, or busy with another test.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let Self::Failed(why) = self else { return false };
        // A server that takes its next client when it is done with the last resets the one before.
        let passes = ["busy", "Connection refused", "unable to send cookie"];
        passes.iter().any(|said| why.contains(said)) || self.is_vague()
    }

    /// True if the server may be at work for somebody else.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let Self::Failed(why) = self else { return false };
        why.contains("busy") || (why.contains("Broken pipe") && self.is_vague())
    }

    /// True for the message that 3.9 gives both for a busy server and for none.
    fn is_vague(&self) -> bool {
        let Self::Failed(why) = self else { return false };
        why.contains("control message")
    }
}

/// Reads the output of `iperf3 -J`.
///
/// # Errors
/// [`Unusable`], with the reason.
pub fn parse(output: &[u8], spec: &LoadSpec) -> std::result::Result<Report, Unusable> {
    let value = json(output)?;
    if let Some(error) = value.get("error") {
        return Err(Unusable::Failed(error.as_str().unwrap_or("failed without words").into()));
    }
    if let Some(said) = error_beside(output) {
        return Err(Unusable::Failed(said));
    }
    let end = value.get("end").ok_or(Unusable::Missing("end"))?;
    let version = value.pointer("/start/version").and_then(Value::as_str).unwrap_or("iperf 3");
    let flow = |direction, sent, received: &'static str| {
        flow(end, spec.protocol, direction, sent, received).map_err(|why| match why {
            // Either direction's keys would do here: an old version has neither.
            Unusable::Missing(_) if old(end, spec) => Unusable::TooOld {
                version: version.to_owned(),
                what: match spec.protocol {
                    Protocol::Udp => "what the receiver of UDP got",
                    Protocol::Tcp => "the directions of --bidir under names of their own",
                },
            },
            why => why,
        })
    };
    let flows = match spec.direction {
        Direction::Both => vec![
            flow(Direction::Down, "sum_sent_bidir_reverse", "sum_received_bidir_reverse")?,
            flow(Direction::Up, "sum_sent", "sum_received")?,
        ],
        one => vec![flow(one, "sum_sent", "sum_received")?],
    };
    let cpu = |key| {
        let percent = end.get("cpu_utilization_percent")?.get(key)?.as_f64();
        percent.filter(|p| p.is_finite() && *p >= 0.0).map(|p| p / 100.0)
    };
    let cpu = [cpu("host_total"), cpu("remote_total")];
    Ok(Report { version: version.to_owned(), flows, cpu, processes: 1 })
}

/// True if the report has the sums of versions before 3.12, and not those of later ones.
fn old(end: &Value, spec: &LoadSpec) -> bool {
    match spec.protocol {
        Protocol::Udp => end.get("sum").is_some() && end.get("sum_sent").is_none(),
        Protocol::Tcp => {
            spec.direction == Direction::Both
                && end.get("sum_received").is_some()
                && end.get("sum_received_bidir_reverse").is_none()
        }
    }
}

/// Message that 3.9 writes to standard error after a failure.
fn error_beside(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let said = text.lines().find_map(|line| line.trim().strip_prefix("iperf3: error - "))?;
    Some(said.to_owned())
}

fn flow(
    end: &Value,
    protocol: Protocol,
    direction: Direction,
    sent: &str,
    received: &'static str,
) -> std::result::Result<IperfFlow, Unusable> {
    let arrived = end.get(received).ok_or(Unusable::Missing(received))?;
    let positive = |key| {
        let number = arrived.get(key).and_then(Value::as_f64);
        number.filter(|n| n.is_finite() && *n > 0.0).ok_or(Unusable::Missing(received))
    };
    let sent = end.get(sent);
    let count = |key| sent?.get(key)?.as_u64();
    let datagrams = match protocol {
        Protocol::Tcp => None,
        Protocol::Udp => {
            let lost = arrived.get("lost_packets").and_then(Value::as_i64);
            // Datagrams out of order can make it negative.
            let lost = lost.map(|lost| lost.max(0).unsigned_abs());
            let packets = count("packets").ok_or(Unusable::Missing("sum_sent.packets"))?;
            Some((packets, lost.ok_or(Unusable::Missing("lost_packets"))?))
        }
    };
    Ok(IperfFlow {
        direction,
        goodput: BitRate(positive("bits_per_second")?),
        sent: sent.and_then(|s| s.get("bits_per_second")?.as_f64()).map(BitRate),
        seconds: arrived.get("seconds").and_then(Value::as_f64).unwrap_or(0.0),
        bytes: positive("bytes")? as u64,
        retransmits: count("retransmits"),
        datagrams,
    })
}

/// The JSON object within the output, whatever stands around it.
fn json(output: &[u8]) -> std::result::Result<Value, Unusable> {
    let text = String::from_utf8_lossy(output);
    let bad = |text: &str| Unusable::NotAReport(text.trim().chars().take(120).collect());
    let inner = text
        .find('{')
        .zip(text.rfind('}'))
        .and_then(|(first, last)| text.get(first..=last))
        .ok_or_else(|| bad(&text))?;
    serde_json::from_str(inner)
        .or_else(|_| serde_json::from_str(&without_nan(inner)))
        .map_err(|_| bad(&text))
}

/// C's printf writes `nan` and `-nan` where a figure is divided by zero. Only a bare value is
/// replaced, not a text.
fn without_nan(text: &str) -> String {
    let lines =
        text.lines().map(|line| match line.trim_end().trim_end_matches(',').rsplit_once(':') {
            Some((key, value)) if matches!(value.trim(), "nan" | "-nan" | "inf" | "-inf") => {
                let comma = if line.trim_end().ends_with(',') { "," } else { "" };
                format!("{key}: null{comma}")
            }
            _ => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of iperf 3.12 in the lab; intervals and single streams taken out.
    macro_rules! real {
        ($name:literal) => {
            include_bytes!(concat!("../../../fixtures/iperf3/3.12-", $name, ".json"))
        };
    }

    fn tcp(direction: Direction) -> LoadSpec {
        LoadSpec::tcp(direction, 1, 1.0, 0.0)
    }

    #[test]
    fn tcp_is_the_receivers_bytes_over_the_receivers_time() {
        let report = parse(real!("tcp-up"), &tcp(Direction::Up)).unwrap();
        assert_eq!(report.version, "iperf 3.12");
        let flow = &report.flows[0];
        assert_eq!((flow.bytes, flow.retransmits), (243_007_488, Some(5)));
        assert!((flow.goodput.mbps() - 1929.46).abs() < 0.01, "not the sender's 1936.97");
    }

    #[test]
    fn both_directions_are_told_apart_or_refused() {
        let report = parse(real!("tcp-bidir"), &tcp(Direction::Both)).unwrap();
        let found: Vec<_> = report.flows.iter().map(|f| (f.direction, f.bytes)).collect();
        assert_eq!(found, [(Direction::Down, 126_222_336), (Direction::Up, 160_563_200)]);
        // Before 3.11 there is one sum under two equal keys.
        let refused = parse(real!("tcp-up"), &tcp(Direction::Both)).unwrap_err();
        assert!(refused.to_string().contains("--bidir"), "{refused}");
    }

    #[test]
    fn udp_loss_is_the_receivers_report() {
        let udp = LoadSpec::udp(Direction::Up, 1, 1.0, None);
        let report = parse(real!("udp-up"), &udp).unwrap();
        assert_eq!(report.flows[0].datagrams, Some((4461, 0)));
        // Without the server's report there is no loss of zero.
        let text = String::from_utf8_lossy(real!("udp-up")).replace("sum_received", "gone");
        assert_eq!(parse(text.as_bytes(), &udp), Err(Unusable::Missing("sum_received")));
    }

    #[test]
    fn a_failure_with_exit_code_0_is_a_failure() {
        let refused = parse(real!("refused"), &tcp(Direction::Up)).unwrap_err();
        assert_eq!(refused.to_string(), "unable to connect to server: Connection refused");
        let busy = parse(real!("busy"), &tcp(Direction::Up)).unwrap_err();
        assert!(refused.is_transient() && busy.is_transient());
        assert!(!Unusable::Missing("end").is_transient());
    }

    #[test]
    fn zero_nan_and_text_around_it_are_met() {
        let up = tcp(Direction::Up);
        let report = |rate: &str| {
            format!(
                "warning: {{x}} is old\n{{\n\"end\": {{\n\"sum_received\": {{\n\"bytes\": 5,\n\
                 \"lost_percent\":\tnan,\n\"bits_per_second\": {rate}\n}}}}}}\niperf Done.\n"
            )
        };
        // The brace in the warning is not ours to guess at.
        assert!(matches!(parse(report("7").as_bytes(), &up), Err(Unusable::NotAReport(_))));
        let plain = |rate| report(rate).replace("{x}", "x");
        assert_eq!(parse(plain("7").as_bytes(), &up).unwrap().flows[0].goodput, BitRate(7.0));
        for rate in ["0", "nan", "-nan", "\"7\""] {
            let refused = parse(plain(rate).as_bytes(), &up);
            assert_eq!(refused, Err(Unusable::Missing("sum_received")), "{rate}");
        }
        assert!(matches!(parse(b"", &up), Err(Unusable::NotAReport(_))));
    }

    /// Everything that versions 3.9 to 3.22 said, case by case (fixtures/iperf3/PROVENANCE.md).
    #[test]
    fn versions_3_9_to_3_22_are_read_or_refused_in_words() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/iperf3");
        for version in ["3.9", "3.12", "3.16", "3.18", "3.20", "3.22"] {
            let case = |name: &str, direction, protocol| {
                let path = format!("{dir}/{version}/{name}.json");
                let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
                parse(&bytes, &LoadSpec { protocol, ..tcp(direction) })
            };
            for (name, direction) in
                [("tcp-up", Direction::Up), ("tcp-down", Direction::Down), ("omit", Direction::Up)]
            {
                let report = case(name, direction, Protocol::Tcp).unwrap();
                assert_eq!(report.version, format!("iperf {version}"));
                let flow = &report.flows[0];
                // 50 Mbit/s for each of two streams, 20 for the one with an omitted second.
                let asked = if name == "omit" { 20e6 } else { 100e6 };
                assert!((flow.goodput.0 / asked - 1.0).abs() < 0.2, "{version} {name} {flow:?}");
                assert!(flow.seconds > 0.9 && flow.retransmits.is_some(), "{flow:?}");
                assert!(report.cpu[0].is_some_and(|share| share < 1.0), "{report:?}");
                assert_eq!(report.threads(8) == 8, !matches!(version, "3.9" | "3.12"));
            }
            let old = version == "3.9";
            for (name, direction, protocol) in [
                ("tcp-bidir", Direction::Both, Protocol::Tcp),
                ("udp-up", Direction::Up, Protocol::Udp),
                ("udp-down", Direction::Down, Protocol::Udp),
                ("udp-bidir", Direction::Both, Protocol::Udp),
            ] {
                match case(name, direction, protocol) {
                    Ok(report) => {
                        assert!(!old, "{name}: nobody can tell the sums of 3.9 apart");
                        for flow in report.flows {
                            let asked = if protocol == Protocol::Udp { 5e6 } else { 50e6 };
                            assert!((flow.goodput.0 / asked - 1.0).abs() < 0.2, "{flow:?}");
                            assert_eq!(flow.datagrams.is_some(), protocol == Protocol::Udp);
                        }
                    }
                    Err(why) => {
                        assert!(old, "{version} {name}: {why}");
                        assert!(why.to_string().starts_with("iperf 3.9 does not"), "{why}");
                    }
                }
            }
            for name in ["refused", "busy", "killed", "killed-down", "killed-udp"] {
                let protocol = if name == "killed-udp" { Protocol::Udp } else { Protocol::Tcp };
                let why = case(name, Direction::Up, protocol).unwrap_err();
                assert!(matches!(why, Unusable::Failed(_)), "{version} {name}: {why}");
                assert_eq!(why.is_transient(), !name.starts_with("killed"), "{why}");
                assert_eq!(why.is_busy(), name == "busy", "{version} {name}: {why}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_output_is_survived(bytes: Vec<u8>, cut in 0usize..1600) {
            proptest::prop_assert!(parse(&bytes, &tcp(Direction::Up)).is_err());
            let real = real!("tcp-up");
            let cut = real.get(..cut.min(real.len())).unwrap_or(real);
            let parsed = parse(cut, &tcp(Direction::Up));
            proptest::prop_assert!(parsed.is_err() || cut.len() + 2 >= real.len());
        }
    }
}
