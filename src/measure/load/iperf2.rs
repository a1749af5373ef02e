//! The installed `iperf` (2.x), for servers that have no other.
//!
//! This program always exits with 0, and its CSV leaves out the server's report of UDP, so its text
//! is read. Its figure for TCP that it sends is only the count of bytes that its own kernel took.

use super::LoadSpec;
use super::iperf3::{IperfFlow, Report, Unusable};
use crate::model::measurement::{Direction, Protocol};
use crate::model::units::BitRate;

/// Port on which an iperf 2 server listens.
pub const PORT: u16 = 5001;
/// Port to which the other side connects with `-d`.
const BACK: u16 = 5002;

/// One line of figures: `[  1] 0.0000-1.0042 sec  660800 Bytes  5264086 bits/sec ...`
struct Line<'a> {
    seconds: f64,
    bytes: u64,
    rate: f64,
    /// Rest of the line: `0.002 ms 0/472 (0%)`.
    rest: &'a str,
}

/// Reads what a client with `-f b` wrote, standard error included.
///
/// # Errors
/// [`Unusable`], with the reason.
pub fn parse(
    output: &[u8],
    spec: &LoadSpec,
    version: &str,
) -> std::result::Result<Report, Unusable> {
    let text = String::from_utf8_lossy(output);
    let mut reverse = Vec::new();
    let (mut up, mut down) = (Sum::default(), Sum::default());
    let mut of_server = false;
    for line in text.lines() {
        let Some((id, rest)) = identified(line) else { continue };
        if rest.contains(" connected with ") {
            let came_back = rest.contains(&format!(" port {BACK} connected"));
            reverse.extend((came_back || rest.contains("(reverse)")).then_some(id));
        } else if rest.starts_with("Server Report") {
            of_server = true;
        } else if let Some(found) = figures(rest) {
            let coming = reverse.contains(&id);
            let side = if coming { &mut down } else { &mut up };
            side.add(&found, coming || std::mem::take(&mut of_server));
        }
    }
    if let Some(failed) = text.lines().find(|l| l.contains("failed:") && up.is_empty(&down)) {
        return Err(Unusable::Failed(failed.trim().to_owned()));
    }
    if up.is_empty(&down) {
        return Err(Unusable::NotAReport(text.trim().chars().take(120).collect()));
    }
    let mut flows = Vec::new();
    for direction in spec.directions() {
        let sum = if *direction == Direction::Down { &down } else { &up };
        flows.push(sum.flow(*direction, spec)?);
    }
    Ok(Report { version: version.to_owned(), flows, cpu: [None, None], processes: 1 })
}

/// The lines of one direction.
#[derive(Default)]
struct Sum {
    /// By the sender's count, and by the receiver's.
    sent: Figures,
    got: Figures,
    datagrams: Option<(u64, u64)>,
    reports: u32,
}

#[derive(Default)]
struct Figures {
    seconds: f64,
    bytes: u64,
    rate: f64,
}

impl Sum {
    fn add(&mut self, line: &Line<'_>, by_receiver: bool) {
        let side = if by_receiver { &mut self.got } else { &mut self.sent };
        side.seconds = side.seconds.max(line.seconds);
        side.bytes += line.bytes;
        side.rate += line.rate;
        if by_receiver {
            self.reports += 1;
            if let Some((lost, total)) = lost_of(line.rest) {
                let (packets, gone) = self.datagrams.unwrap_or_default();
                self.datagrams = Some((packets + total, gone + lost));
            }
        }
    }

    fn is_empty(&self, other: &Self) -> bool {
        [self, other].iter().all(|sum| sum.sent.bytes == 0 && sum.got.bytes == 0)
    }

    fn flow(
        &self,
        direction: Direction,
        spec: &LoadSpec,
    ) -> std::result::Result<IperfFlow, Unusable> {
        if self.reports < spec.streams || self.got.bytes == 0 {
            return Err(Unusable::Missing(match (direction, spec.protocol) {
                (Direction::Down, _) => "data from the server",
                (_, Protocol::Udp) => "server report for every stream",
                (_, Protocol::Tcp) => "figure of the server (iperf 2 never has one of TCP)",
            }));
        }
        if spec.protocol == Protocol::Udp && self.datagrams.is_none() {
            return Err(Unusable::Missing("count of lost datagrams"));
        }
        Ok(IperfFlow {
            direction,
            goodput: BitRate(self.got.rate),
            sent: (self.sent.rate > 0.0).then_some(BitRate(self.sent.rate)),
            seconds: self.got.seconds,
            bytes: self.got.bytes,
            retransmits: None,
            datagrams: self.datagrams.filter(|_| spec.protocol == Protocol::Udp),
        })
    }
}

/// `[  1] rest` and `[ *1] rest`; sums are left out.
fn identified(line: &str) -> Option<(u32, &str)> {
    let (id, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((id.trim().trim_start_matches('*').parse().ok()?, rest.trim()))
}

fn figures(rest: &str) -> Option<Line<'_>> {
    let (interval, rest) = rest.split_once(" sec")?;
    let (start, end) = interval.split_once('-')?;
    let seconds = end.trim().parse::<f64>().ok()? - start.trim().parse::<f64>().ok()?;
    let (bytes, rest) = rest.split_once(" Bytes")?;
    let (rate, rest) = rest.split_once(" bits/sec")?;
    let rate = rate.trim().parse::<f64>().ok().filter(|r| r.is_finite())?;
    let whole = seconds.is_finite() && seconds > 0.0;
    Some(Line { seconds, bytes: bytes.trim().parse().ok()?, rate, rest }).filter(|_| whole)
}

/// `0.002 ms 3/472 (0%)`: lost and total.
fn lost_of(rest: &str) -> Option<(u64, u64)> {
    let (_, counts) = rest.split_once(" ms")?;
    let counts = counts.split('(').next()?.replace(' ', "");
    let (lost, total) = counts.split_once('/')?;
    Some((lost.parse().ok()?, total.parse().ok()?))
}

/// The command line of a client of `server`.
#[must_use]
pub fn arguments(spec: &LoadSpec, server: &str, port: u16) -> Vec<String> {
    let mut all: Vec<String> = ["-f", "b", "-c", server].map(str::to_owned).into();
    let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
    add("-p", port.to_string());
    add("-P", spec.streams.to_string());
    add("-t", format!("{:.0}", spec.seconds.ceil()));
    if let Some(rate) = spec.rate {
        add("-b", format!("{:.0}", rate.0 / f64::from(spec.streams)));
    }
    if spec.protocol == Protocol::Udp {
        add("-l", spec.datagram.to_string());
    }
    if spec.direction == Direction::Both {
        add("-L", BACK.to_string());
    }
    let flag = |on: bool, flag: &str| on.then(|| flag.to_owned());
    all.extend(flag(spec.protocol == Protocol::Udp, "-u"));
    all.extend(flag(spec.direction == Direction::Down, "-R"));
    all.extend(flag(spec.direction == Direction::Both, "-d"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! real {
        ($name:literal) => {
            include_bytes!(concat!("../../../fixtures/iperf2/", $name, ".txt"))
        };
    }

    fn spec(direction: Direction, protocol: Protocol, streams: u32) -> LoadSpec {
        LoadSpec { protocol, ..LoadSpec::tcp(direction, streams, 1.0, 0.0) }
    }

    #[test]
    fn what_the_receiver_says_is_taken_and_nothing_else() {
        let read = |text: &[u8], spec: &LoadSpec| parse(text, spec, "iperf 2.1.8");
        let udp = spec(Direction::Up, Protocol::Udp, 2);
        let report = read(real!("udp-up"), &udp).unwrap();
        let flow = &report.flows[0];
        assert_eq!((flow.bytes, flow.datagrams), (1_321_600, Some((944, 0))));
        assert!((flow.goodput.0 - (5_262_796.0 + 5_264_086.0)).abs() < 0.5, "{flow:?}");
        assert!((flow.sent.unwrap().0 - (5_264_390.0 + 5_264_720.0)).abs() < 0.5);
        let down = read(real!("tcp-rev"), &spec(Direction::Down, Protocol::Tcp, 2)).unwrap();
        assert_eq!(down.flows[0].bytes, 13_369_344);

        // One report missing, TCP that only we counted, nobody there: no figure.
        let cut = String::from_utf8_lossy(real!("udp-up"));
        let (cut, _) = cut.rsplit_once("Server Report").unwrap();
        for (text, spec, why) in [
            (cut.as_bytes(), &udp, "every stream"),
            (real!("tcp-up"), &spec(Direction::Up, Protocol::Tcp, 2), "never has one of TCP"),
            (real!("udp-noserver"), &spec(Direction::Up, Protocol::Udp, 1), "server report"),
            (real!("refused"), &spec(Direction::Up, Protocol::Tcp, 1), "Connection refused"),
            (b"", &udp, "not a report"),
        ] {
            let refused = read(text, spec).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn with_d_the_stream_that_came_back_is_the_way_down() {
        let both = spec(Direction::Both, Protocol::Tcp, 1);
        let refused = parse(real!("tcp-dual"), &both, "iperf 2.1.8").unwrap_err();
        assert!(refused.to_string().contains("never has one of TCP"), "the way up: {refused}");
        let down = parse(real!("tcp-dual"), &spec(Direction::Down, Protocol::Tcp, 1), "").unwrap();
        assert_eq!(down.flows[0].bytes, 6_684_672, "not the 6684732 that were sent");
        let line = arguments(&both, "192.0.2.1", PORT).join(" ");
        assert_eq!(line, "-f b -c 192.0.2.1 -p 5001 -P 1 -t 1 -L 5002 -d");
    }

    proptest::proptest! {
        #[test]
        fn any_output_is_survived(bytes: Vec<u8>, cut in 0usize..2000) {
            let udp = spec(Direction::Up, Protocol::Udp, 2);
            proptest::prop_assert!(parse(&bytes, &udp, "").is_err());
            let real = real!("udp-up");
            let some = real.get(..cut.min(real.len())).unwrap_or(real);
            if let Ok(report) = parse(some, &udp, "") {
                proptest::prop_assert!(report.flows[0].bytes > 0);
            }
        }
    }
}
