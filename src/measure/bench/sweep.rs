//! Series of measurements, and searches over the offered rate.
//!
//! ```text
//!   Search ── rate, seconds ──▶ run of numbered datagrams ──▶ who lost them?
//!     ▲                                                        │ router: an outcome
//!     ├────────────────────────────────────────────────────────┤
//!     └── cap ◀── the sender could not send it, or its receiver lost what the router forwarded
//! ```
//!
//! A limit of the generator says nothing about the router: the rate that the generator could do
//! becomes the maximum, and a goal that holds there is "at or above" it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Bed, measure, measure_with};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::measure::load::{LoadSpec, MIN_DATAGRAM, Sender};
use crate::measure::search::{Outcome, Proposal, Search, Trial};
use crate::model::ethernet::{Frame, PacketRate};
use crate::model::measurement::{Direction, Measurement, RefusalCode};
use crate::model::sweep::{Goal, Limit, RateSearch, SweepEnd, SweepPoint};

/// Time of a run besides its window, in seconds: opening flows, settling, the last report.
const OVERHEAD: f64 = 0.25;
/// Runs in a row that may be refused for a reason that passes before a series is given up.
const PATIENCE: u32 = 5;
/// Runs in a row in which a rate could not be sent, before it is taken for more than can be: once
/// may be a moment's trouble of this machine, and a maximum never grows back.
const TRIES: u32 = 3;
/// Number of times that the generator may turn out to do less than it did before.
const MOST_CAPS: u32 = 12;
/// The lowest rate of a search, as a share of the highest.
const LOWEST_SHARE: f64 = 0.001;
/// Packets that the shortest trial must have, where the highest rate allows it: of fewer, all may
/// get through a router that loses a tenth.
const FEWEST_PACKETS: f64 = 100.0;
/// The slowest that the generator sends, bit/s of payload (see [`LoadSpec::check`]).
const SLOWEST: f64 = 1000.0;
/// Seconds at the start of a TCP run that do not count: the window of a stream grows.
pub const TCP_OMIT: f64 = 0.2;
/// Ethernet, IPv4 and TCP header with timestamps: what device counters count beside the payload.
const TCP_HEADERS: f64 = 66.0;

/// One router, and how it is loaded throughout a sweep.
pub struct Sweeper<'a> {
    /// The router and the generator.
    pub bed: &'a dyn Bed,
    /// Direction of the payload; never [`Direction::Both`].
    pub direction: Direction,
    /// Parallel streams.
    pub streams: u32,
    /// Method by which datagrams leave.
    pub sender: Sender,
    /// Cell for the name of the interface by which ready-made frames left.
    pub sent_by: Option<&'a RefCell<Option<String>>>,
    /// Time at which to end, on the monotonic clock.
    pub deadline: Option<Duration>,
    /// Raised to end at once.
    pub stop: &'a AtomicBool,
    /// Called with each run.
    pub on: &'a mut dyn FnMut(&SweepPoint),
}

impl Sweeper<'_> {
    /// Sends datagrams that fill `frame` at `rate`, or as fast as it goes.
    ///
    /// # Errors
    /// As [`measure`]; usage for a frame that datagrams of the generator can't have.
    pub fn offer(
        &mut self,
        frame: Frame,
        rate: Option<PacketRate>,
        seconds: f64,
    ) -> Result<SweepPoint> {
        let payload = payload(frame, self.bed.facts().mtu)?;
        let bits = rate.map(|rate| rate.bits(payload));
        let mut spec = LoadSpec::udp(self.direction, self.streams, seconds, bits);
        spec.datagram = payload as usize;
        spec.sender = self.sender;
        // Loss at a rate that was not asked for would be taken for that of the one that was.
        spec.steady = true;
        let run = measure(self.bed, &spec, self.stop)?;
        let flow = run.flows.first();
        let lost = flow.and_then(|f| f.lost);
        let sent = flow.and_then(|f| Some(f.lost? + f.received?));
        if let (Some(by), Some(note)) = (flow.and_then(|f| f.sent_by.as_ref()), self.sent_by) {
            note.replace(Some(format!("frames left by {by}")));
        }
        let goodput = run.rate();
        let point = SweepPoint {
            size: frame.0,
            frame,
            asked: rate,
            offered: sent.map(|sent| offered(sent, run.seconds, rate)),
            achieved: PacketRate(goodput.0 / 8.0 / f64::from(payload)),
            goodput,
            sent,
            lost,
            seconds: run.seconds,
            busiest_cpu: busiest(&run),
            limit: self.limit(&run, rate, sent, lost),
            refusals: run.refusals,
        };
        (self.on)(&point);
        Ok(point)
    }

    /// Bulk TCP by `load`, whose window grows where the line needs it; `size` is the MSS, or else the
    /// MTU that the lab was built with.
    fn tcp(&mut self, size: u32, mss: Option<u32>, load: &mut LoadSpec) -> Result<SweepPoint> {
        load.mss = mss;
        let (run, used) = measure_with(self.bed, load, self.stop, 0.0, &mut |_| ())?;
        *load = used;
        let goodput = run.rate();
        let payload = run.packet_bytes - TCP_HEADERS;
        let point = SweepPoint {
            size,
            frame: mss.map_or_else(|| Frame::of_ip_packet(self.bed.facts().mtu), Frame::of_mss),
            asked: None,
            offered: None,
            achieved: PacketRate(if payload > 0.0 { goodput.0 / 8.0 / payload } else { 0.0 }),
            goodput,
            sent: None,
            lost: None,
            seconds: run.seconds,
            busiest_cpu: busiest(&run),
            limit: self.limit(&run, None, None, None),
            refusals: run.refusals,
        };
        (self.on)(&point);
        Ok(point)
    }

    /// Offers each rate so often, back and forth, so that a drift of the machine meets all of them
    /// alike. Ends early by the budget or the stop flag; what was measured stays.
    ///
    /// # Errors
    /// As [`Self::offer`].
    pub fn series(
        &mut self,
        frame: Frame,
        rates: &[PacketRate],
        repeats: u32,
        seconds: f64,
        points: &mut Vec<SweepPoint>,
    ) -> Result<SweepEnd> {
        let mut order: Vec<PacketRate> = rates.to_vec();
        for _ in 0..repeats {
            for &rate in &order {
                if let Some(halt) = self.halt(seconds) {
                    return Ok(halt);
                }
                match kept(self.offer(frame, Some(rate), seconds))? {
                    Some(point) => points.push(point),
                    None => return Ok(SweepEnd::Interrupted),
                }
            }
            order.reverse();
        }
        Ok(SweepEnd::Complete)
    }

    /// Bulk TCP once per size and repeat, as [`Self::series`] does. On a slow or long line the window
    /// of all that follow is what the first ones turned out to need.
    ///
    /// # Errors
    /// As [`measure`].
    pub fn tcp_series(
        &mut self,
        sizes: &[(u32, Option<u32>)],
        repeats: u32,
        seconds: f64,
        points: &mut Vec<SweepPoint>,
    ) -> Result<SweepEnd> {
        let mut order = sizes.to_vec();
        let load = LoadSpec::tcp(self.direction, self.streams, seconds, TCP_OMIT);
        let mut load = LoadSpec { stretch: true, ..load };
        for _ in 0..repeats {
            for &(size, mss) in &order {
                if let Some(halt) = self.halt(load.seconds) {
                    return Ok(halt);
                }
                match kept(self.tcp(size, mss, &mut load))? {
                    Some(point) => points.push(point),
                    None => return Ok(SweepEnd::Interrupted),
                }
            }
            order.reverse();
        }
        Ok(SweepEnd::Complete)
    }

    /// Searches for all goals at one frame size, up to `maximum`; without one, up to what the
    /// generator sends when nothing holds it back.
    ///
    /// # Errors
    /// As [`Self::offer`]; usage for goals that make no sense; refused (exit 6) where nothing at
    /// all can be said.
    pub fn search(
        &mut self,
        frame: Frame,
        goals: &[Goal],
        maximum: Option<PacketRate>,
    ) -> Result<RateSearch> {
        let first = goals.iter().map(|g| g.initial_trial).fold(0.1, f64::max).min(1.0);
        let mut record = RateSearch {
            frame,
            maximum: maximum.unwrap_or(PacketRate(0.0)),
            capped: None,
            gave_up: None,
            trials: Vec::new(),
            results: Vec::new(),
            ended: SweepEnd::Complete,
        };
        let maximum = match maximum {
            Some(maximum) => maximum,
            None => match self.most(frame, first, &mut record.trials)? {
                Some(most) => {
                    let line = self.bed.facts().link.map(|link| frame.most_per_second(link));
                    let why = match line {
                        Some(line) if most >= line => "the link carries no more",
                        _ => "the sender could not send more",
                    };
                    record.capped = Some(why.to_owned());
                    most
                }
                None => {
                    record.ended = self.ending();
                    return Ok(record);
                }
            },
        };
        record.maximum = maximum;
        let slowest = SLOWEST / PacketRate(1.0).bits(payload(frame, self.bed.facts().mtu)?).0;
        let shortest = goals.iter().map(|g| g.initial_trial).fold(f64::INFINITY, f64::min);
        let enough = (FEWEST_PACKETS / shortest).min(maximum.0 * 0.5);
        let minimum = (maximum.0 * LOWEST_SHARE).max(slowest).max(enough);
        let mut search = Search::new(goals, minimum, maximum.0)
            .map_err(|e| Error::usage("sweep: search for NDR and PDR", e))?;
        let ended = self.drive(&mut search, &mut record)?;
        record.ended = ended;
        record.maximum = PacketRate(search.maximum());
        record.results = search.results();
        Ok(record)
    }

    /// Rate that the generator sends when nothing holds it back, and its link carries: drops above
    /// that rate in the sender's own queue would pass for the router's loss. `None` if the search
    /// ended before it is known. The runs that it took are added to `tried`.
    ///
    /// # Errors
    /// As [`Self::offer`]; refused (exit 6) where the rate can't be found out.
    pub fn most(
        &mut self,
        frame: Frame,
        seconds: f64,
        tried: &mut Vec<SweepPoint>,
    ) -> Result<Option<PacketRate>> {
        for _ in 0..PATIENCE {
            if self.halt(seconds).is_some() {
                return Ok(None);
            }
            let Some(point) = kept(self.offer(frame, None, seconds))? else { return Ok(None) };
            let offered = point.offered.filter(|rate| rate.0 > 0.0);
            tried.push(point);
            if let Some(PacketRate(offered)) = offered {
                let line = self.bed.facts().link.map(|link| frame.most_per_second(link).0);
                return Ok(Some(PacketRate(line.map_or(offered, |line| offered.min(line)))));
            }
        }
        Err(Error::new(ExitCode::Refused, "sweep: find the highest rate", why_refused(tried)))
    }

    /// Reason why the search ends now, if it has to.
    #[must_use]
    pub fn ending(&self) -> SweepEnd {
        if self.stop.load(Ordering::Relaxed) { SweepEnd::Interrupted } else { SweepEnd::Budget }
    }

    fn drive(&mut self, search: &mut Search, record: &mut RateSearch) -> Result<SweepEnd> {
        let (mut refused, mut caps) = (0, 0);
        let mut missed: Option<(Trial, u32, f64)> = None;
        while let Proposal::Trial(trial) = search.next() {
            if let Some(halt) = self.halt(trial.seconds) {
                return Ok(halt);
            }
            let asked = Some(PacketRate(trial.rate));
            let Some(point) = kept(self.offer(record.frame, asked, trial.seconds))? else {
                return Ok(SweepEnd::Interrupted);
            };
            let said = judge(&point, &trial);
            record.trials.push(point);
            match said {
                Said::Outcome(outcome) if search.take(&trial, &outcome).is_ok() => refused = 0,
                Said::Cap(rate, why) => {
                    let before = missed.filter(|(before, ..)| *before == trial);
                    let (tries, best) = before
                        .map_or((1, rate.0), |(_, tries, best)| (tries + 1, best.max(rate.0)));
                    missed = Some((trial, tries, best));
                    if tries < TRIES {
                        continue;
                    }
                    caps += 1;
                    // A rate that shrinks each time is no maximum of anything.
                    if !search.cap(best) || caps > MOST_CAPS {
                        record.gave_up = Some(format!("{why}; no rate could be offered steadily"));
                        return Ok(SweepEnd::Refused);
                    }
                    record.capped = Some(why);
                }
                Said::Outcome(_) | Said::Nothing => {
                    refused += 1;
                    if refused >= PATIENCE {
                        let what = "sweep: search for NDR and PDR";
                        if record.trials.len() <= PATIENCE as usize {
                            return Err(Error::new(
                                ExitCode::Refused,
                                what,
                                why_refused(&record.trials),
                            ));
                        }
                        record.gave_up = Some(why_refused(&record.trials));
                        return Ok(SweepEnd::Refused);
                    }
                }
            }
        }
        Ok(SweepEnd::Complete)
    }

    /// Reason why a run of so many seconds must not begin.
    fn halt(&self, seconds: f64) -> Option<SweepEnd> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(SweepEnd::Interrupted);
        }
        let needed = Duration::try_from_secs_f64(seconds + OVERHEAD).ok()?;
        let over = self.deadline.is_some_and(|deadline| clock::monotonic() + needed > deadline);
        over.then_some(SweepEnd::Budget)
    }

    fn limit(
        &self,
        run: &Measurement,
        asked: Option<PacketRate>,
        sent: Option<u64>,
        lost: Option<u64>,
    ) -> Option<Limit> {
        let refused = |code| run.refusals.iter().any(|r| r.code == code);
        // At a few packets a second the one that fell out of the window is more than 2 %.
        let short = asked
            .zip(sent)
            .is_none_or(|(asked, sent)| is_short(asked, run.seconds, sent, self.streams));
        if short && refused(RefusalCode::UnderSent) {
            return Some(Limit::Sender);
        }
        match (sent, lost) {
            (Some(_), Some(0)) => None,
            (Some(sent), Some(lost)) => {
                let behind = self.bed.lost_behind(run, sent.saturating_sub(lost), self.streams);
                Some(if behind * 2 > lost { Limit::Receiver } else { Limit::Router })
            }
            _ => refused(RefusalCode::GeneratorBound).then_some(Limit::Sender),
        }
    }
}

/// Conclusion from a trial.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    /// An outcome of the router.
    Outcome(Outcome),
    /// A limit of the generator, which could do this much.
    Cap(PacketRate, String),
    /// No conclusion about either.
    Nothing,
}

fn judge(point: &SweepPoint, trial: &Trial) -> Said {
    // Where nothing arrived and the receiver says so, all was lost; a busy generator that sent enough
    // and lost nothing itself did what it should.
    let passes = |code| {
        matches!(
            code,
            RefusalCode::NoTraffic | RefusalCode::GeneratorBound | RefusalCode::UnderSent
        )
    };
    if point.refusals.iter().any(|r| !passes(r.code)) {
        return Said::Nothing;
    }
    let (Some(sent), Some(lost), Some(offered)) = (point.sent, point.lost, point.offered) else {
        return Said::Nothing;
    };
    match point.limit {
        Some(Limit::Sender) => Said::Cap(offered, "the sender could not send more".to_owned()),
        Some(Limit::Receiver) => Said::Cap(
            point.achieved,
            "the receiver lost what the router forwarded above that".to_owned(),
        ),
        _ => Said::Outcome(Outcome { sent, lost, seconds: trial.seconds }),
    }
}

/// `None` for a run that was stopped: it is no error of a sweep, which keeps what it has.
fn kept(run: Result<SweepPoint>) -> Result<Option<SweepPoint>> {
    match run {
        Ok(point) if point.refusals.iter().any(|r| r.code == RefusalCode::Interrupted) => Ok(None),
        Ok(point) => Ok(Some(point)),
        Err(error) if error.code() == ExitCode::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

fn why_refused(tried: &[SweepPoint]) -> String {
    let last = tried.last().map(|p| p.refusals.iter().map(|r| r.why.as_str()));
    let why = last.map(|whys| whys.collect::<Vec<_>>().join("; ")).unwrap_or_default();
    let why = if why.is_empty() { "nothing was sent".to_owned() } else { why };
    format!("{PATIENCE} runs in a row were refused: {why}")
}

fn payload(frame: Frame, mtu: u32) -> Result<u32> {
    let payload = frame.udp_payload();
    let (least, most) = (Frame::of_udp_payload(MIN_DATAGRAM as u32), Frame::of_ip_packet(mtu));
    if (payload as usize) < MIN_DATAGRAM || frame > most {
        let why = format!("{} bytes: from {} to {} with an MTU of {mtu}", frame.0, least.0, most.0);
        return Err(Error::usage("frame", why)
            .hint("a frame counts from the Ethernet header to the FCS; --mtu allows larger ones"));
    }
    Ok(payload)
}

/// The rate of what was sent. Senders go on a few milliseconds after the window has closed, but
/// never faster than they were asked to.
fn offered(sent: u64, seconds: f64, asked: Option<PacketRate>) -> PacketRate {
    let rate = PacketRate::of(sent, seconds);
    PacketRate(asked.map_or(rate.0, |asked| rate.0.min(asked.0)))
}

/// True if more is missing from the load that was asked for than a packet at each end of each
/// stream's run.
fn is_short(asked: PacketRate, seconds: f64, sent: u64, streams: u32) -> bool {
    asked.0 * seconds - sent as f64 > 2.0 * f64::from(streams)
}

fn busiest(run: &Measurement) -> Option<f64> {
    run.cpus.iter().map(|cpu| (1.0 - cpu.idle).max(0.0)).reduce(f64::max)
}

/// The rates of a series: evenly from `from` to `to`, both included.
#[must_use]
pub fn ladder(from: PacketRate, to: PacketRate, steps: u32) -> Vec<PacketRate> {
    let last = f64::from(steps.max(2) - 1);
    let rate = |i: u32| PacketRate(from.0 + (to.0 - from.0) * f64::from(i) / last);
    (0..steps.max(2)).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::measurement::Refusal;
    use crate::model::units::BitRate;

    const TRIAL: Trial = Trial { rate: 1000.0, seconds: 1.0 };

    fn point(change: impl FnOnce(&mut SweepPoint)) -> SweepPoint {
        let mut point = SweepPoint {
            size: 64,
            frame: Frame(64),
            asked: Some(PacketRate(1000.0)),
            offered: Some(PacketRate(1000.0)),
            achieved: PacketRate(900.0),
            goodput: BitRate(1e6),
            sent: Some(1000),
            lost: Some(100),
            seconds: 1.0,
            busiest_cpu: Some(0.5),
            limit: Some(Limit::Router),
            refusals: Vec::new(),
        };
        change(&mut point);
        point
    }

    fn refuse(code: RefusalCode) -> impl FnOnce(&mut SweepPoint) {
        move |point| point.refusals.push(Refusal { code, why: "because".into() })
    }

    #[test]
    fn loss_in_the_router_is_an_outcome_and_loss_of_the_generator_is_a_maximum() {
        let lost = Said::Outcome(Outcome { sent: 1000, lost: 100, seconds: 1.0 });
        assert_eq!(judge(&point(|_| {}), &TRIAL), lost);
        assert_eq!(judge(&point(refuse(RefusalCode::GeneratorBound)), &TRIAL), lost);
        let starved = |p: &mut SweepPoint| {
            p.limit = Some(Limit::Sender);
            p.offered = Some(PacketRate(700.0));
        };
        assert!(matches!(judge(&point(starved), &TRIAL), Said::Cap(PacketRate(700.0), _)));
        let deaf = |p: &mut SweepPoint| p.limit = Some(Limit::Receiver);
        assert!(matches!(judge(&point(deaf), &TRIAL), Said::Cap(PacketRate(900.0), _)));
    }

    #[test]
    fn a_trial_that_is_refused_or_not_acknowledged_says_nothing() {
        for code in
            [RefusalCode::NoAcknowledgement, RefusalCode::LinkChanged, RefusalCode::Throttled]
        {
            assert_eq!(judge(&point(refuse(code)), &TRIAL), Said::Nothing, "{code:?}");
        }
        assert_eq!(judge(&point(|p| p.lost = None), &TRIAL), Said::Nothing);
    }

    #[test]
    fn frames_that_do_not_fit_are_usage_errors() {
        assert_eq!(payload(Frame(64), 1500).unwrap(), 18);
        assert_eq!(payload(Frame(1518), 1500).unwrap(), 1472);
        for (frame, mtu) in [(61, 1500), (1519, 1500), (0, 1500), (9018, 1500)] {
            assert_eq!(payload(Frame(frame), mtu).unwrap_err().code(), ExitCode::Usage);
        }
    }

    #[test]
    fn a_packet_more_or_less_does_not_make_the_sender_the_limit() {
        // 4.3 packets asked for in half a second: found in the emulated machine, where the search for
        // a rate without loss took it for the most that could be offered.
        assert!(!is_short(PacketRate(8.6), 0.5, 4, 1));
        assert!(is_short(PacketRate(1000.0), 1.0, 950, 1));
        assert!(!is_short(PacketRate(1000.0), 1.0, 1003, 1));
    }

    #[test]
    fn a_ladder_has_both_its_ends() {
        let rates = ladder(PacketRate(10.0), PacketRate(100.0), 10);
        assert_eq!(rates.len(), 10);
        assert_eq!((rates[0].0, rates[9].0), (10.0, 100.0));
    }
}
