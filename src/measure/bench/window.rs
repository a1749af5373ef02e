//! Windows that are long enough for the line.
//!
//! A line of 1 Mbit/s carries eighty packets in a second, and one of 600 ms is not yet full after
//! one: the window that does for a router in a lab says nothing of either. What a run tells of its
//! line decides if it is made again with a longer one.

use crate::measure::load::{LoadResult, LoadSpec};
use crate::model::measurement::Protocol;

/// Round trips, under load, of a window: what a stream holds back behind a lost packet at an edge of
/// the window is a round trip's worth.
const WINDOW_TRIPS: f64 = 30.0;
/// Round trips before the window: slow start doubles its rate in each.
const OMIT_TRIPS: f64 = 10.0;
/// Packets of a window, in all and for each stream: at an edge, one that is lost holds back a few of
/// its stream.
const PACKETS: f64 = 600.0;
const PACKETS_OF_STREAM: f64 = 100.0;
const PACKET: f64 = 1448.0;
/// So many bytes, without a long way, are of a line for which any window does.
const PLENTY: u64 = 3_000_000;
/// Shortest round trip of a long way, in seconds.
const LONG: f64 = 0.005;
/// Growth from the first to the second half of a window that is still a start, and the shortest
/// round trip, in seconds, that makes a start last.
const RISING: f64 = 1.03;
const SLOW_START: f64 = 0.05;
/// Longest window, and time before it, that nobody asked for, in seconds.
const MOST: f64 = 90.0;
const MOST_OMIT: f64 = 60.0;
/// Least shortfall, as a share, that is worth another run.
const MISSING: f64 = 1.25;

/// The load with a window that does for the line that a run has seen, and why; `None` if the window
/// was long enough, or if nothing can be said.
pub(super) fn longer(spec: &LoadSpec, run: &LoadResult) -> Option<(LoadSpec, String)> {
    if !spec.stretch || spec.protocol != Protocol::Tcp || spec.rate.is_some() || run.interrupted {
        return None;
    }
    let trips = run.flows.iter().filter_map(|flow| flow.round_trips);
    let loaded = trips.clone().map(|trips| trips.loaded).fold(0.0, f64::max);
    let shortest = trips.map(|trips| trips.shortest).fold(0.0, f64::max);
    let fewest = run.flows.iter().map(|flow| flow.window_bytes).min()?;
    if loaded == 0.0 || (fewest >= PLENTY && shortest < LONG) {
        return None;
    }
    let packets = fewest as f64 / PACKET / run.seconds.max(f64::MIN_POSITIVE);
    let wanted = PACKETS.max(PACKETS_OF_STREAM * f64::from(spec.streams));
    let enough = if packets > 0.0 { wanted / packets } else { 0.0 };
    let window = (WINDOW_TRIPS * loaded).max(enough).clamp(spec.seconds, MOST.max(spec.seconds));
    let omit = (OMIT_TRIPS * loaded).clamp(spec.omit, MOST_OMIT.max(spec.omit));
    let again = |omit, seconds| LoadSpec { omit, seconds, ..spec.clone() };
    if window > spec.seconds * MISSING || omit > spec.omit * MISSING {
        let why = format!(
            "a round trip takes {:.0} ms under load, and {packets:.0} packets come in a second",
            loaded * 1e3
        );
        return Some((again(omit, window), why));
    }
    if shortest < SLOW_START {
        return None;
    }
    let risen = run.flows.iter().enumerate().find_map(|(number, _)| rise(run, number));
    let later = (spec.omit + spec.seconds).min(MOST_OMIT.max(spec.omit));
    risen.filter(|_| later > spec.omit * MISSING).map(|rise| {
        let why = format!(
            "the rate was still rising, by {:.0} % from the first to the second half of the window",
            (rise - 1.0) * 100.0
        );
        (again(later, spec.seconds), why)
    })
}

/// Rate in the second half of the window over that in the first, where it rose.
fn rise(run: &LoadResult, number: usize) -> Option<f64> {
    let half = |of: &[crate::measure::load::LoadPiece]| {
        let bytes: u64 = of.iter().filter_map(|piece| piece.bytes.get(number)).sum();
        bytes as f64 / of.iter().map(|piece| piece.seconds).sum::<f64>()
    };
    let (first, second) = run.pieces.split_at_checked(run.pieces.len() / 2)?;
    Some(half(second) / half(first)).filter(|rise| *rise > RISING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::load::{FlowResult, LoadPiece, RoundTrips};
    use crate::model::measurement::Direction;
    use crate::model::units::BitRate;

    /// A run of one second over a line of that rate, after the usual 0.3.
    fn run(mbit: f64, shortest: f64, loaded: f64, seconds: f64) -> LoadResult {
        let bytes = (mbit * 1e6 / 8.0 * seconds) as u64;
        let flow = FlowResult {
            direction: Direction::Up,
            window_bytes: bytes,
            window_sent: bytes,
            bytes,
            sent: bytes,
            header_bytes: 66,
            retransmits: Some(0),
            retransmitted_bytes: Some(0),
            round_trips: Some(RoundTrips { shortest, loaded }),
            datagrams: None,
            unacknowledged: 0,
            sent_by: None,
            error: None,
            cpu_seconds: 0.0,
            busiest_thread: 0.0,
        };
        let piece = |number: u64| LoadPiece {
            at: seconds * number as f64 / 10.0,
            seconds: seconds / 10.0,
            bytes: vec![bytes / 10],
        };
        LoadResult {
            seconds,
            total_seconds: seconds,
            flows: vec![flow],
            pieces: (1..=10).map(piece).collect(),
            interrupted: false,
        }
    }

    fn spec(seconds: f64, omit: f64) -> LoadSpec {
        LoadSpec { stretch: true, ..LoadSpec::tcp(Direction::Up, 1, seconds, omit) }
    }

    fn needed(spec: &LoadSpec, run: &LoadResult) -> Option<(f64, f64)> {
        longer(spec, run).map(|(spec, _)| (spec.omit, spec.seconds))
    }

    #[test]
    fn a_window_grows_with_the_round_trip_and_the_time_that_packets_take() {
        let usual = spec(1.0, 0.3);
        let close = |found: Option<(f64, f64)>, omit: f64, seconds: f64| {
            let (o, s) = found.unwrap();
            assert!((o / omit - 1.0).abs() < 0.02 && (s / seconds - 1.0).abs() < 0.02, "{found:?}");
        };
        // A lab, however long its queues are on a busy machine.
        assert_eq!(needed(&usual, &run(2000.0, 0.0005, 0.05, 1.0)), None);
        // Few packets; a long queue; a long way, at which nothing has arrived yet; and a fast one.
        close(needed(&usual, &run(0.5, 0.03, 0.03, 1.0)), 0.3, 13.9);
        close(needed(&usual, &run(1.0, 0.001, 0.8, 1.0)), 8.0, 24.0);
        let sixteen = LoadSpec { streams: 16, ..usual.clone() };
        close(needed(&sixteen, &run(1.0, 0.001, 0.1, 1.0)), 1.0, 18.5);
        close(needed(&usual, &run(0.0, 2.0, 2.0, 1.0)), 20.0, 60.0);
        close(needed(&usual, &run(500.0, 0.08, 0.1, 1.0)), 1.0, 3.0);
        // There is an end to it.
        close(needed(&usual, &run(0.1, 2.0, 20.0, 1.0)), 60.0, 90.0);
        // Asked for as long as that, it is long enough.
        assert_eq!(needed(&spec(25.0, 8.0), &run(1.0, 0.001, 0.8, 25.0)), None);
        // A rate that was asked for is the generator's and not the line's; UDP has no start.
        let paced = LoadSpec { rate: Some(BitRate(1e6)), ..usual.clone() };
        assert_eq!(needed(&paced, &run(1.0, 0.001, 0.8, 1.0)), None);
        let udp = LoadSpec { protocol: Protocol::Udp, ..usual.clone() };
        let fixed = LoadSpec { stretch: false, ..usual };
        assert_eq!(needed(&fixed, &run(1.0, 0.001, 0.8, 1.0)), None);
        assert_eq!(needed(&udp, &run(1.0, 0.001, 0.8, 1.0)), None);
    }

    #[test]
    fn a_rate_that_still_rises_has_its_window_moved_on_once() {
        let mut rising = run(20.0, 0.2, 0.21, 10.0);
        let used = spec(10.0, 3.0);
        assert_eq!(needed(&used, &rising), None);
        for (number, piece) in rising.pieces.iter_mut().enumerate() {
            piece.bytes = vec![1_000_000 + 50_000 * number as u64];
        }
        assert_eq!(needed(&used, &rising), Some((13.0, 10.0)));
        assert_eq!(needed(&spec(10.0, 60.0), &rising), None);
    }
}
