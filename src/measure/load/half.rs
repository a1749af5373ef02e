//! Sides of a run, and the exchange by which two of them make one.
//!
//! ```text
//!   drive       LAN side                          WAN side
//!   listen      ........................................ opens ports
//!   open        connects, and each proves to be of this run (partner.rs); anything else is dropped
//!   go          both begin at one moment, and each times its window by itself
//!   quiet       its senders stop; until what they sent is acknowledged (TCP) or reported (UDP)
//!   finish      its receivers end                        its receivers end
//! ```
//!
//! The figure is what the receivers had when the window closed. What is under way then is waited
//! for as long as it arrives, so that devices' counters can be held against all that was sent; a
//! stream that takes longer (16 of them in the queue of a line of 1 Mbit/s) is cut.
//!
//! Whatever runs a side is behind [`End`]: threads of this process ([`Local`]), in a namespace or
//! not, or an agent on another machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::partner::{Key, Secret};
use super::workers::{
    Arrived, DRAIN_DEADLINE, DRAIN_LIMIT, DirectionTotal, Moved, Window, Workers, edges,
};
use super::{Datagrams, FlowResult, LoadPiece, LoadResult, LoadSpec, Moment, RoundTrips, tcp, udp};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::sys::netns::NetnsThread;
use crate::machine::sys::socket::{TcpInfo, tcp_info};
use crate::model::cpuset::CpuSet;
use crate::model::measurement::{Direction, Protocol};

/// Interval at which a wait checks the stop flag.
const SLICE: Duration = Duration::from_millis(10);
/// Interval at which both sides are asked if they are still there.
const WATCH: Duration = Duration::from_millis(500);
/// Longest time for which a side keeps whoever asks it if it is quiet.
const TURN: Duration = Duration::from_millis(50);

/// Description of a run that both sides must know.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Load to send.
    pub spec: LoadSpec,
    /// Number of the run: a stream that does not name it is no stream of this run.
    pub id: u64,
    /// Address at which the LAN reaches the WAN.
    pub address: IpAddr,
    /// Secret that both sides share; it stays on each machine.
    pub secret: Secret,
}

impl Run {
    /// Key by which the two sides prove that they are of this run.
    pub(super) fn key(&self) -> Key {
        Key::of(&self.secret, self.id)
    }
}

/// A side of the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that opens all connections, as NAT demands.
    Lan,
    /// The side that answers.
    Wan,
}

/// End of a stream that a thread serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The end that sends the payload.
    Sender,
    /// The end that takes the payload.
    Receiver,
}

impl Role {
    /// Role of `side` for the payload of one direction.
    #[must_use]
    pub fn of(side: Side, direction: Direction) -> Self {
        match (side, direction) {
            (Side::Wan, Direction::Down) | (Side::Lan, Direction::Up | Direction::Both) => {
                Self::Sender
            }
            (Side::Lan, Direction::Down) | (Side::Wan, Direction::Up | Direction::Both) => {
                Self::Receiver
            }
        }
    }
}

/// Place where sockets are opened: a namespace, or that of this process.
#[derive(Clone, Default)]
pub struct SocketPlace(pub Option<Arc<NetnsThread>>);

impl SocketPlace {
    /// Runs a socket-making job there.
    ///
    /// # Errors
    /// The error of the job; refused if the namespace is gone.
    pub(super) fn inside<T: Send + 'static>(
        &self,
        what: &str,
        job: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = match &self.0 {
            None => job(),
            Some(netns) => {
                netns.run(job).map_err(|gone| Error::new(ExitCode::Refused, what, gone))?
            }
        };
        done.map_err(|e| Error::not_supported(what, e))
    }
}

/// One side of a run, wherever it is. The calls come in this order; dropping it ends its threads.
pub trait End: Send {
    /// WAN only: opens what the LAN will connect to; the ports, one or one for each stream.
    ///
    /// # Errors
    /// Fails if a socket or thread can't be had there.
    fn listen(&mut self, run: &Run) -> Result<Vec<u16>>;
    /// Opens the streams (LAN) or takes them (WAN).
    ///
    /// # Errors
    /// Refused if the other side does not answer in time.
    fn open(&mut self, run: &Run, ports: &[u16], stop: &AtomicBool) -> Result<()>;
    /// Begins at `start` (monotonic, of this machine).
    ///
    /// # Errors
    /// Fails if the side is gone, or has nothing open.
    fn go(&mut self, start: Duration) -> Result<()>;
    /// Checks that the side is still there.
    ///
    /// # Errors
    /// Fails if the side is gone, with the reason.
    fn watch(&mut self) -> Result<()>;
    /// Stops its senders; true once nothing of what they sent is under way any more, or what is
    /// has been given up. To be called until then.
    ///
    /// # Errors
    /// Fails if the side is gone.
    fn quiet(&mut self, at_once: bool) -> Result<bool>;
    /// Ends its receivers, and says how it went.
    ///
    /// # Errors
    /// Fails if the side is gone.
    fn finish(&mut self, at_once: bool) -> Result<HalfResult>;
    /// Time before the start of a run by which this side must know that start.
    fn lead(&self) -> Duration {
        Duration::ZERO
    }
}

/// Result of a run as one side saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct HalfResult {
    /// Length of the window by this side's clock.
    pub seconds: f64,
    /// Length of the whole run.
    pub total_seconds: f64,
    /// True if the window was not cut short.
    pub whole: bool,
    /// One per direction.
    pub flows: Vec<HalfFlow>,
    /// Ends of the window's pieces, in seconds from its opening by this side's clock.
    pub pieces: Vec<f64>,
}

/// Result of one direction as one side saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct HalfFlow {
    /// Direction of the payload.
    pub direction: Direction,
    /// Role of this side.
    pub role: Role,
    /// Payload bytes moved in the window.
    pub window_bytes: u64,
    /// Payload bytes that came in the window, by the arrival of TCP's segments; the receiver knows.
    pub arrived: Option<u64>,
    /// Payload bytes moved from the window's opening to the end of each piece.
    pub pieces: Vec<u64>,
    /// Payload bytes moved in all.
    pub bytes: u64,
    /// Bytes of link, network and transport header per packet; 0 where nobody knows.
    pub header_bytes: u64,
    /// As in [`FlowResult`]; the sender knows.
    pub retransmits: Option<u64>,
    /// As in [`FlowResult`]; the sender knows.
    pub retransmitted_bytes: Option<u64>,
    /// As in [`FlowResult`]; the sender knows.
    pub round_trips: Option<RoundTrips>,
    /// Datagrams by the receiver's report; the sender knows it.
    pub datagrams: Option<Datagrams>,
    /// Streams whose end this side knows to be acknowledged.
    pub acknowledged: u32,
    /// Interface by which ready-made frames left, in words; the sender knows it.
    pub sent_by: Option<String>,
    /// The first thing that went wrong on a stream.
    pub error: Option<String>,
    /// CPU seconds of its threads within the window.
    pub cpu_seconds: f64,
    /// The largest share of one CPU that one of them used.
    pub busiest_thread: f64,
}

/// A stream's socket and thread on this side.
pub(super) struct Stream {
    pub(super) direction: Direction,
    pub(super) role: Role,
    pub(super) moved: Arc<Moved>,
    /// Socket of a TCP stream.
    pub(super) socket: Option<Arc<TcpStream>>,
}

/// All streams of one side, ready to go or on their way.
pub(super) struct Half {
    workers: Workers,
    streams: Vec<Stream>,
    spec: LoadSpec,
    /// Interface by which ready-made frames leave, in words.
    pub(super) sent_by: Option<String>,
    /// True if the packets are IPv6, whose header is longer than that of IPv4.
    ipv6: bool,
    began: Duration,
    drain: Option<Drain>,
    timekeeper: Option<JoinHandle<Window>>,
}

/// Wait for what the senders have under way.
struct Drain {
    since: Duration,
    /// Round trips of the TCP streams when their senders stopped.
    round_trips: Option<RoundTrips>,
    /// Senders at work, streams not over, and bytes not acknowledged or not known to be; and the
    /// time since which that has not changed.
    left: (usize, usize, u64),
    unchanged: Duration,
}

impl Half {
    pub(super) fn new(run: &Run, cpus: Option<&CpuSet>) -> Self {
        Self {
            workers: Workers::new(cpus),
            streams: Vec::new(),
            spec: run.spec.clone(),
            sent_by: None,
            ipv6: run.address.is_ipv6(),
            began: clock::monotonic(),
            drain: None,
            timekeeper: None,
        }
    }

    /// Adds a stream with its thread.
    pub(super) fn add(
        &mut self,
        stream: Stream,
        body: impl FnOnce(&mut super::workers::RunView) -> super::workers::Outcome + Send + 'static,
    ) -> Result<()> {
        self.workers.spawn(stream.direction, stream.role, body)?;
        self.streams.push(stream);
        Ok(())
    }

    fn go(&mut self, start: Duration) -> Result<()> {
        if self.timekeeper.is_some() {
            return Err(Error::usage("load", "the run is on its way already"));
        }
        let moved = self.streams.iter().map(|s| Arc::clone(&s.moved)).collect();
        let receives =
            |stream: &Stream| stream.socket.clone().filter(|_| stream.role == Role::Receiver);
        let receivers: Vec<_> = self.streams.iter().map(receives).collect();
        let arrivals = move || {
            let of = |socket: &Option<Arc<TcpStream>>| tcp_info(socket.as_ref()?).ok()?.arrived;
            receivers.iter().map(of).collect()
        };
        let thread = self.workers.keep_time(&self.spec, start, moved, arrivals);
        self.began = start;
        self.timekeeper =
            Some(thread.map_err(|e| Error::not_supported("start a load generator thread", e))?);
        Ok(())
    }

    fn quiet(&mut self, at_once: bool) -> bool {
        let until = clock::monotonic() + TURN;
        loop {
            if at_once || self.is_drained() {
                self.workers.quiet();
                return true;
            }
            if clock::monotonic() >= until {
                return false;
            }
            clock::sleep(Duration::from_millis(2));
        }
    }

    /// True once nothing is under way any more, or what is has been given up.
    fn is_drained(&mut self) -> bool {
        // The window is over by the clock of whoever says so; here it may have a moment to go.
        if self.timekeeper.as_ref().is_some_and(|time| !time.is_finished()) {
            return false;
        }
        let senders = self.workers.quiet();
        let now = clock::monotonic();
        let sockets = self.streams.iter().filter(|stream| stream.role == Role::Sender);
        let infos = sockets.filter_map(|stream| tcp_info(stream.socket.as_ref()?).ok());
        let infos: Vec<_> = infos.collect();
        let open = infos.iter().filter(|info| !info.over).count();
        let arrived = infos.iter().filter_map(|info| info.acknowledged).sum();
        let left = (senders, open, arrived);
        let drain = self.drain.get_or_insert_with(|| Drain {
            since: now,
            round_trips: round_trips(&infos),
            left,
            unchanged: now,
        });
        if drain.left != left {
            (drain.left, drain.unchanged) = (left, now);
        }
        let trip = drain.round_trips.map_or(0.0, |trips| trips.loaded);
        let patience = DRAIN_DEADLINE + Duration::from_secs_f64(trip * 4.0);
        // A sender of datagrams gives up by itself when no report comes.
        let silent = senders == 0 && now.saturating_sub(drain.unchanged) > patience;
        (senders == 0 && open == 0) || silent || now.saturating_sub(drain.since) > DRAIN_LIMIT
    }

    fn finish(mut self, at_once: bool) -> HalfResult {
        // What the senders still had under way has arrived by now, or never will.
        let patience = if at_once { Duration::ZERO } else { DRAIN_DEADLINE };
        self.workers.finish(clock::monotonic() + patience, || {
            self.streams.iter().filter_map(|s| s.socket.as_ref()).for_each(|s| tcp::cut(s));
        });
        let window = self.timekeeper.take().map(JoinHandle::join);
        let window = window.and_then(std::thread::Result::ok).unwrap_or_default();
        let totals = self.workers.join(window.seconds);
        let total = clock::monotonic().saturating_sub(self.began).as_secs_f64();
        let mut flows = flows(&self.streams, &window, totals, &self.spec, self.ipv6);
        let round_trips = self.drain.and_then(|drain| drain.round_trips);
        for flow in flows.iter_mut().filter(|flow| flow.role == Role::Sender) {
            flow.sent_by.clone_from(&self.sent_by);
            flow.round_trips = round_trips;
        }
        HalfResult {
            seconds: window.seconds,
            total_seconds: total,
            whole: window.whole,
            flows,
            pieces: window.pieces.iter().map(|(at, _)| *at).collect(),
        }
    }
}

/// Part of a stream's payload that came in the window: all that the program got, by the segments that
/// came in the window and those that came in all. A segment behind a lost one waits in the kernel
/// until that one is sent again, and the program gets both late.
fn share(moved: u64, arrived: Option<u64>, counted: Option<Arrived>) -> Option<u64> {
    let (all, counted) = (arrived?.checked_sub(counted?.before)?, counted?);
    match all {
        0 => Some(0),
        all => Some((moved as f64 * (counted.within / all as f64).min(1.0)) as u64),
    }
}

fn round_trips(infos: &[TcpInfo]) -> Option<RoundTrips> {
    let shortest = infos.iter().filter_map(|info| info.shortest_round_trip).min();
    let loaded = infos.iter().map(|info| info.round_trip).max()?.as_secs_f64();
    Some(RoundTrips { shortest: shortest.map_or(loaded, |time| time.as_secs_f64()), loaded })
}

fn flows(
    streams: &[Stream],
    window: &Window,
    mut totals: BTreeMap<Direction, DirectionTotal>,
    spec: &LoadSpec,
    ipv6: bool,
) -> Vec<HalfFlow> {
    let mut flows: Vec<HalfFlow> = Vec::new();
    let mut later = BTreeSet::new();
    let udp = spec.protocol == Protocol::Udp;
    let ip = 14 + if ipv6 { 40 } else { 20 };
    for (number, stream) in streams.iter().enumerate() {
        let at = match flows.iter().position(|f| f.direction == stream.direction) {
            Some(at) => at,
            None => {
                let total = totals.remove(&stream.direction).unwrap_or_default();
                let sends = stream.role == Role::Sender;
                flows.push(HalfFlow {
                    direction: stream.direction,
                    role: stream.role,
                    window_bytes: 0,
                    arrived: (!sends && !udp).then_some(0),
                    pieces: vec![0; window.pieces.len()],
                    bytes: 0,
                    header_bytes: if udp { ip + 8 } else { 0 },
                    retransmits: (sends && !udp).then_some(0),
                    retransmitted_bytes: (sends && !udp).then_some(0),
                    round_trips: None,
                    datagrams: total.datagrams,
                    acknowledged: total.acknowledged,
                    sent_by: None,
                    error: total.error,
                    cpu_seconds: total.cpu_seconds,
                    busiest_thread: total.busiest,
                });
                flows.len() - 1
            }
        };
        let Some(flow) = flows.get_mut(at) else { continue };
        flow.window_bytes += window.moved.get(number).copied().unwrap_or(0);
        for (sum, (_, moved)) in flow.pieces.iter_mut().zip(&window.pieces) {
            *sum += moved.get(number).copied().unwrap_or(0);
        }
        let moved = stream.moved.get();
        flow.bytes += moved;
        if moved > window.closed.get(number).copied().unwrap_or(0) {
            later.insert(stream.direction);
        }
        let Some(socket) = &stream.socket else { continue };
        let Ok(info) = tcp_info(socket) else {
            (flow.retransmits, flow.retransmitted_bytes, flow.arrived) = (None, None, None);
            continue;
        };
        let add = |sum: Option<u64>, more: Option<u64>| Some(sum? + more?);
        if stream.role == Role::Receiver {
            let counted = window.arrived.get(number).copied().flatten();
            flow.arrived = add(flow.arrived, share(moved, info.arrived, counted));
            continue;
        }
        flow.retransmits = add(flow.retransmits, Some(info.retransmits));
        flow.retransmitted_bytes = add(flow.retransmitted_bytes, info.retransmitted_bytes);
        // TCP, and the timestamp option with its padding.
        flow.header_bytes = ip + 20 + if info.timestamps { 12 } else { 0 };
    }
    // Payload came after the close: until then the way was there, and the count is right whether or
    // not the rest of each stream was waited for.
    let stands = |flow: &&mut HalfFlow| flow.role == Role::Receiver && flow.error.is_none();
    for flow in flows.iter_mut().filter(stands) {
        if !udp && window.whole && later.contains(&flow.direction) {
            flow.acknowledged = spec.streams;
        }
    }
    flows
}

/// A side that threads of this process serve.
#[derive(Default)]
pub struct Local {
    place: SocketPlace,
    cpus: Option<CpuSet>,
    listening: Option<Listening>,
    half: Option<Half>,
}

/// Sockets that a WAN side has opened.
enum Listening {
    Tcp(std::net::TcpListener),
    Udp(Vec<udp::Waiting>),
}

impl Local {
    /// A side whose sockets are opened at `place`, with its threads on `cpus`.
    #[must_use]
    pub fn new(place: SocketPlace, cpus: Option<CpuSet>) -> Self {
        Self { place, cpus, listening: None, half: None }
    }

    /// Stops at once and leaves nothing; the same as never having run.
    pub fn abort(&mut self) {
        self.listening = None;
        if let Some(half) = self.half.take() {
            drop(half.finish(true));
        }
    }

    fn half(&mut self) -> Result<&mut Half> {
        self.half.as_mut().ok_or_else(|| Error::usage("load", "no streams are open"))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.abort();
    }
}

impl End for Local {
    fn listen(&mut self, run: &Run) -> Result<Vec<u16>> {
        run.spec.check()?;
        self.abort();
        let (listening, ports) = match run.spec.protocol {
            Protocol::Tcp => {
                let (listener, port) = tcp::listen(&self.place, run)?;
                (Listening::Tcp(listener), vec![port])
            }
            Protocol::Udp => {
                let (waiting, ports) = udp::listen(&self.place, run)?;
                (Listening::Udp(waiting), ports)
            }
        };
        self.listening = Some(listening);
        Ok(ports)
    }

    fn open(&mut self, run: &Run, ports: &[u16], stop: &AtomicBool) -> Result<()> {
        run.spec.check()?;
        self.half = None;
        let mut half = Half::new(run, self.cpus.as_ref());
        match (self.listening.take(), run.spec.protocol) {
            (Some(Listening::Tcp(listener)), Protocol::Tcp) => {
                tcp::accept(&mut half, &listener, run, stop)?;
            }
            (Some(Listening::Udp(waiting)), Protocol::Udp) => {
                udp::accept(&mut half, &self.place, waiting, run, stop)?;
            }
            (None, Protocol::Tcp) => tcp::connect(&mut half, &self.place, run, ports, stop)?,
            (None, Protocol::Udp) => udp::connect(&mut half, &self.place, run, ports, stop)?,
            _ => return Err(Error::usage("load", "another protocol was announced")),
        }
        half.workers.ready(stop)?;
        self.half = Some(half);
        Ok(())
    }

    fn go(&mut self, start: Duration) -> Result<()> {
        self.half()?.go(start)
    }

    fn watch(&mut self) -> Result<()> {
        Ok(())
    }

    fn quiet(&mut self, at_once: bool) -> Result<bool> {
        Ok(self.half()?.quiet(at_once))
    }

    fn finish(&mut self, at_once: bool) -> Result<HalfResult> {
        let half = self.half.take();
        half.map(|half| half.finish(at_once))
            .ok_or_else(|| Error::usage("load", "no streams are open"))
    }
}

/// A run between two sides. `on` is called from the calling thread at each [`Moment`].
///
/// A side that is lost on the way is no error: its report is missing in the result, whose flows
/// then have no acknowledgement.
///
/// # Errors
/// A usage error from [`LoadSpec::check`]; the error of a side that could not open its sockets;
/// interrupted if `stop` was raised before traffic began.
pub fn drive(
    lan: &mut dyn End,
    wan: &mut dyn End,
    run: &Run,
    stop: &AtomicBool,
    on: &mut dyn FnMut(Moment),
) -> Result<LoadResult> {
    let spec = &run.spec;
    spec.check()?;
    let ports = wan.listen(run)?;
    let called_off = AtomicBool::new(false);
    let (opened, taken) = std::thread::scope(|scope| {
        let wan = scope.spawn(|| wan.open(run, &ports, &called_off));
        let opened = lan.open(run, &ports, stop);
        called_off.store(opened.is_err(), Ordering::Relaxed);
        let gone = || Err(Error::new(ExitCode::Refused, "load", "a thread panicked"));
        (opened, wan.join().unwrap_or_else(|_| gone()))
    });
    opened?;
    taken?;
    if stop.load(Ordering::Relaxed) {
        return Err(Error::interrupted("load"));
    }
    let start = clock::monotonic() + lan.lead().max(wan.lead());
    let mut lost = lan.go(start).and_then(|()| wan.go(start)).err();
    let mut seen = clock::monotonic();
    let mut wait = |due: Duration, lan: &mut dyn End, wan: &mut dyn End| {
        while lost.is_none() {
            let now = clock::monotonic();
            if now >= due || stop.load(Ordering::Relaxed) {
                break;
            }
            if now >= seen + WATCH {
                seen = now;
                lost = lan.watch().and_then(|()| wan.watch()).err();
            }
            let next = due.min(now + SLICE);
            let _whole = clock::wait_until(next, SLICE, stop);
        }
        lost.is_none() && !stop.load(Ordering::Relaxed)
    };
    let open = start + Duration::from_secs_f64(spec.omit);
    wait(open, lan, wan);
    on(Moment::WindowOpens);
    for due in edges(spec.seconds) {
        if wait(open + Duration::from_secs_f64(due), lan, wan) {
            on(Moment::Within);
        }
    }
    let whole = wait(open + Duration::from_secs_f64(spec.seconds), lan, wan);
    on(Moment::WindowCloses);
    let mut at_once = !whole;
    let mut loud = [true, true];
    while loud.contains(&true) {
        at_once |= stop.load(Ordering::Relaxed) || lost.is_some();
        let ends: [&mut dyn End; 2] = [&mut *lan, &mut *wan];
        for (end, loud) in ends.into_iter().zip(&mut loud) {
            match if *loud { end.quiet(at_once) } else { Ok(true) } {
                Ok(quiet) => *loud = !quiet && !at_once,
                Err(error) => {
                    *loud = false;
                    lost.get_or_insert(error);
                }
            }
        }
    }
    let mut half = |answer: Result<HalfResult>| match answer {
        Ok(half) => Some(half),
        Err(error) => {
            lost.get_or_insert(error);
            None
        }
    };
    let (near, far) = (half(lan.finish(at_once)), half(wan.finish(at_once)));
    let interrupted = stop.load(Ordering::Relaxed) && !whole;
    Ok(merge(spec, [near, far], interrupted, lost.as_ref()))
}

/// Puts the result together from what each side knows.
fn merge(
    spec: &LoadSpec,
    halves: [Option<HalfResult>; 2],
    interrupted: bool,
    lost: Option<&Error>,
) -> LoadResult {
    let halves: Vec<HalfResult> = halves.into_iter().flatten().collect();
    let mut seconds = None;
    let mut flow = |direction| {
        let of = |role| {
            halves.iter().find_map(|half| {
                let found = half.flows.iter().find(|f| f.direction == direction && f.role == role);
                found.map(|flow| (half.seconds, flow))
            })
        };
        let (sender, receiver) = (of(Role::Sender), of(Role::Receiver));
        // By the receiver's clock.
        seconds = seconds.or(receiver.map(|(seconds, _)| seconds));
        let (sender, receiver) = (sender.map(|s| s.1), receiver.map(|r| r.1));
        let both = || [sender, receiver].into_iter().flatten();
        // The kernel ends the streams of a sender that was killed in order: nobody knows what it sent.
        let acknowledged = match (sender, receiver) {
            (Some(sender), Some(receiver)) => sender.acknowledged + receiver.acknowledged,
            _ => 0,
        };
        let unacknowledged = spec.streams.saturating_sub(acknowledged);
        FlowResult {
            direction,
            // Where nothing was lost, what came and what the program got is one.
            window_bytes: receiver.map_or(0, |f| match sender.and_then(|s| s.retransmits) {
                Some(1..) => f.arrived.unwrap_or(f.window_bytes),
                _ => f.window_bytes,
            }),
            window_sent: sender.map_or(0, |f| f.window_bytes),
            bytes: receiver.map_or(0, |f| f.bytes),
            sent: sender.map_or(0, |f| f.bytes),
            header_bytes: sender.map_or(0, |f| f.header_bytes),
            retransmits: sender.and_then(|f| f.retransmits),
            retransmitted_bytes: sender.and_then(|f| f.retransmitted_bytes),
            round_trips: sender.and_then(|f| f.round_trips),
            datagrams: sender.and_then(|f| f.datagrams).filter(|_| unacknowledged == 0),
            unacknowledged,
            sent_by: sender.and_then(|f| f.sent_by.clone()),
            error: lost.map(ToString::to_string).or_else(|| both().find_map(|f| f.error.clone())),
            cpu_seconds: both().map(|f| f.cpu_seconds).sum(),
            busiest_thread: both().map(|f| f.busiest_thread).fold(0.0, f64::max),
        }
    };
    let flows: Vec<FlowResult> = spec.directions().iter().map(|d| flow(*d)).collect();
    let longest = |value: fn(&HalfResult) -> f64| halves.iter().map(value).fold(0.0, f64::max);
    LoadResult {
        seconds: seconds.unwrap_or_else(|| longest(|half| half.seconds)),
        total_seconds: longest(|half| half.total_seconds),
        flows,
        pieces: pieces(spec, &halves),
        interrupted: interrupted || (lost.is_none() && halves.iter().any(|half| !half.whole)),
    }
}

/// Payload that arrived in each piece of the window, by the clock of the first direction's
/// receiver.
fn pieces(spec: &LoadSpec, halves: &[HalfResult]) -> Vec<LoadPiece> {
    let receivers = spec.directions().iter().map(|direction| {
        halves.iter().find_map(|half| {
            let takes = |f: &&HalfFlow| f.direction == *direction && f.role == Role::Receiver;
            half.flows.iter().find(takes).map(|flow| (half, flow))
        })
    });
    let receivers: Vec<Option<(&HalfResult, &HalfFlow)>> = receivers.collect();
    let Some((clock, _)) = receivers.iter().flatten().next() else { return Vec::new() };
    let moved = |flow: &HalfFlow, number: usize| {
        let by = |number: usize| flow.pieces.get(number).copied();
        let then = number.checked_sub(1).and_then(by).unwrap_or(0);
        by(number).map_or(0, |now| now.saturating_sub(then))
    };
    let mut then = 0.0;
    let pieces = clock.pieces.iter().enumerate().map(|(number, &at)| {
        let bytes = receivers.iter().map(|r| r.map_or(0, |(_, flow)| moved(flow, number)));
        let seconds = at - std::mem::replace(&mut then, at);
        LoadPiece { at, seconds, bytes: bytes.collect() }
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(side: Side, bytes: u64, seconds: f64) -> HalfResult {
        let role = Role::of(side, Direction::Down);
        let flow = HalfFlow {
            direction: Direction::Down,
            role,
            window_bytes: bytes,
            arrived: (role == Role::Receiver).then_some(bytes + 10),
            pieces: vec![bytes / 4, bytes],
            bytes,
            header_bytes: if role == Role::Sender { 66 } else { 0 },
            retransmits: (role == Role::Sender).then_some(3),
            retransmitted_bytes: None,
            round_trips: None,
            datagrams: None,
            acknowledged: if role == Role::Receiver { 2 } else { 0 },
            sent_by: None,
            error: None,
            cpu_seconds: 0.25,
            busiest_thread: 0.5,
        };
        HalfResult {
            seconds,
            total_seconds: seconds,
            whole: true,
            flows: vec![flow],
            pieces: vec![seconds / 2.0, seconds],
        }
    }

    #[test]
    fn what_arrived_is_the_receivers_figure_by_its_own_clock() {
        let spec = LoadSpec::tcp(Direction::Down, 2, 1.0, 0.0);
        let halves = [Some(half(Side::Lan, 1000, 1.25)), Some(half(Side::Wan, 1100, 1.0))];
        let run = merge(&spec, halves, false, None);
        assert_eq!((run.seconds, run.interrupted), (1.25, false));
        let flow = &run.flows[0];
        // Three segments were lost on the way: what came behind them waited for them.
        assert_eq!((flow.window_bytes, flow.window_sent, flow.unacknowledged), (1010, 1100, 0));
        assert_eq!((flow.retransmits, flow.header_bytes), (Some(3), 66));
        assert_eq!((flow.cpu_seconds, flow.busiest_thread), (0.5, 0.5));
        let piece = |at, bytes| LoadPiece { at, seconds: 0.625, bytes: vec![bytes] };
        assert_eq!(run.pieces, [piece(0.625, 250), piece(1.25, 750)]);
    }

    #[test]
    fn payload_counts_when_it_came_and_not_when_the_program_got_it() {
        let counted = |within| Some(Arrived { before: 2, within });
        assert_eq!(share(10_000, Some(12), counted(4.0)), Some(4_000));
        assert_eq!(share(0, Some(2), counted(0.0)), Some(0));
        assert_eq!(share(10_000, Some(12), None), None);
        assert_eq!(share(10_000, None, counted(4.0)), None);
    }

    #[test]
    fn a_side_that_is_lost_leaves_no_acknowledgement_and_its_reason() {
        let spec = LoadSpec::tcp(Direction::Down, 2, 1.0, 0.0);
        let lost = Error::new(ExitCode::Refused, "lan agent", "gone");
        let run = merge(&spec, [None, Some(half(Side::Wan, 1100, 1.0))], false, Some(&lost));
        let flow = &run.flows[0];
        assert_eq!((flow.window_bytes, flow.unacknowledged), (0, 2));
        assert_eq!(flow.error.as_deref(), Some("lan agent: gone"));
        assert!(!run.interrupted, "the loss is the reason, not the user");
        // The receiver saw the end of each stream, in the middle of the run.
        let run = merge(&spec, [Some(half(Side::Lan, 1000, 0.4)), None], false, Some(&lost));
        assert_eq!((run.flows[0].window_bytes, run.flows[0].unacknowledged), (1000, 2));
    }
}
