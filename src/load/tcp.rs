//! Bulk TCP.
//!
//! What was measured against `iperf3 -P 16` in the lab (packets of 1500 bytes, two CPUs, pairs in
//! turn) decides the details: discarding on receipt (`MSG_TRUNC`) saves the copy to user space; a
//! bounded send buffer keeps queues inside the router short, so that packets stay in the cache and
//! none is dropped and sent again, which was worth more than everything else; cubic needs no pacing
//! timer per packet as bbr does. `sendfile` from memory was no better than `send`.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};

use super::crew::{
    CONNECT_DEADLINE, Crew, Lane, Moved, Outcome, Role, SOCKET_TIMEOUT, Shift, due, result,
};
use super::{Ends, LoadResult, LoadSpec, Moment, still_waiting};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::clock;
use crate::model::measurement::Direction;
use crate::sys::netns::NetnsThread;
use crate::sys::socket::{set_tcp_maxseg, tcp_info};

/// Bytes handed to the kernel per call.
const CHUNK: usize = 128 << 10;
/// Bytes taken from the kernel per call: as much as a stream can have under way.
const TAKE: usize = 256 << 10;
/// Send buffers of all streams of a direction together, and the bounds for one of them. The kernel
/// doubles the value for its own bookkeeping. 1000 packets (`netdev_max_backlog`) are 1.5 MB.
const SEND_BUFFERS: usize = 1 << 20;
const SEND_BUFFER: (usize, usize) = (64 << 10, 256 << 10);

/// A connection: `from` sends, `to` receives. The descriptors close with the last user.
struct Pair {
    from: TcpStream,
    to: TcpStream,
}

pub(super) fn run(
    ends: &Ends,
    spec: &LoadSpec,
    stop: &AtomicBool,
    on: &mut dyn FnMut(Moment),
) -> Result<LoadResult> {
    let lanes = connect(ends, spec, stop)?;
    let mut crew = Crew::new(ends);
    let payload: Arc<[u8]> = payload().into();
    let mut counters = Vec::new();
    let mut pairs = Vec::new();
    let mut moved = Vec::new();
    for (direction, lane) in lanes {
        let mut streams = Vec::new();
        for pair in lane {
            let (pair, count) = (Arc::new(pair), Arc::new(Moved::default()));
            let rate = spec.rate.map(|r| r.0 / 8.0 / f64::from(spec.streams));
            {
                let (pair, count, payload) = (pair.clone(), count.clone(), payload.clone());
                crew.spawn(direction, Role::Sender, move |shift| {
                    send(&pair.from, &count, &payload, rate, shift)
                })?;
            }
            {
                let (pair, count) = (pair.clone(), count.clone());
                crew.spawn(direction, Role::Receiver, move |shift| {
                    receive(&pair.to, &count, shift)
                })?;
            }
            counters.push(count.clone());
            streams.push(count);
            pairs.push((direction, pair));
        }
        moved.push((direction, streams));
    }
    let started = clock::monotonic();
    crew.start(stop)?;
    let window = crew.window(spec, stop, &counters, on);
    crew.finish(window.interrupted, stop, || {
        for (_, pair) in &pairs {
            cut(&pair.from);
            cut(&pair.to);
        }
    });
    let homes = crew.home(window.seconds);
    let total = clock::monotonic().saturating_sub(started).as_secs_f64();
    let lanes: Vec<Lane> = moved
        .into_iter()
        .map(|(direction, streams)| {
            let mine = pairs.iter().filter(|(d, _)| *d == direction).map(|(_, pair)| &**pair);
            lane(direction, streams, mine)
        })
        .collect();
    Ok(result(&window, total, &lanes, homes))
}

fn lane<'a>(
    direction: Direction,
    streams: Vec<Arc<Moved>>,
    pairs: impl Iterator<Item = &'a Pair>,
) -> Lane {
    let mut lane = Lane {
        direction,
        streams,
        header_bytes: 0,
        retransmits: Some(0),
        retransmitted_bytes: Some(0),
    };
    for pair in pairs {
        let Ok(info) = tcp_info(&pair.from) else {
            (lane.retransmits, lane.retransmitted_bytes) = (None, None);
            continue;
        };
        let add = |sum: Option<u64>, more: Option<u64>| Some(sum? + more?);
        lane.retransmits = add(lane.retransmits, Some(info.retransmits));
        lane.retransmitted_bytes = add(lane.retransmitted_bytes, info.retransmitted_bytes);
        // Ethernet, IP, TCP, and the timestamp option with its padding.
        let ip = if pair.from.local_addr().is_ok_and(|a| a.is_ipv6()) { 40 } else { 20 };
        lane.header_bytes = 14 + ip + 20 + if info.timestamps { 12 } else { 0 };
    }
    lane
}

/// Bytes that no link compresses away, the same in every run.
fn payload() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut bytes = vec![0; CHUNK];
    random.fill(&mut bytes);
    bytes
}

fn send(
    socket: &TcpStream,
    moved: &Moved,
    payload: &[u8],
    rate: Option<f64>,
    shift: &mut Shift,
) -> Outcome {
    let mut outcome = Outcome::default();
    let started = clock::monotonic();
    // With a rate: pieces of at most 5 ms, so that it is even within any window.
    let piece = rate.map_or(CHUNK, |r| ((r * 0.005) as usize).clamp(1, CHUNK));
    let piece = payload.get(..piece).unwrap_or(payload);
    let mut sent = 0;
    while shift.sending() {
        shift.tick();
        if let Some(rate) = rate {
            shift.pause_until(due(started, sent, rate));
        }
        match rustix::net::send(socket, piece, SendFlags::NOSIGNAL) {
            Ok(bytes) => {
                sent += bytes as u64;
                moved.sent.add(bytes as u64);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => {
                if !shift.aborted() {
                    outcome.error = Some(error.into());
                }
                break;
            }
        }
    }
    // The other end learns that this was all. On a connection that has failed there is nobody to
    // tell, and `outcome` says so already.
    if let Err(error) = rustix::net::shutdown(socket, Shutdown::Write)
        && outcome.error.is_none()
        && !shift.aborted()
    {
        outcome.error = Some(error.into());
    }
    outcome
}

fn receive(socket: &TcpStream, moved: &Moved, shift: &mut Shift) -> Outcome {
    let mut outcome = Outcome::default();
    // TCP with MSG_TRUNC counts and discards (tcp(7)): the pages behind this are never touched, and
    // so never allocated.
    let mut nowhere = vec![0u8; TAKE];
    loop {
        shift.tick();
        match rustix::net::recv(socket, &mut *nowhere, RecvFlags::TRUNC) {
            Ok((_, 0)) => {
                outcome.acknowledged = !shift.aborted();
                return outcome;
            }
            Ok((_, bytes)) => moved.got.add(bytes as u64),
            Err(Errno::AGAIN | Errno::INTR) if !shift.aborted() => {}
            Err(error) => {
                if !shift.aborted() {
                    outcome.error = Some(error.into());
                }
                return outcome;
            }
        }
    }
}

/// Wakes whoever is blocked on the socket. ENOTCONN means that there is nobody.
fn cut(socket: &TcpStream) {
    match socket.shutdown(std::net::Shutdown::Both) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
        Err(error) => log::debug!("cut a stream short: {error}"),
    }
}

/// All connections of all directions, opened one by one from the LAN, so that the n-th to connect
/// is the n-th to be accepted.
fn connect(ends: &Ends, spec: &LoadSpec, stop: &AtomicBool) -> Result<Vec<(Direction, Vec<Pair>)>> {
    let deadline = clock::monotonic() + CONNECT_DEADLINE;
    let listening = SocketAddr::new(ends.wan_address, 0);
    let what = format!("listen on {}", ends.wan_address);
    let listener = inside(&ends.wan, &what, move || TcpListener::bind(listening))?;
    let setup = |e: io::Error| Error::not_supported(what.clone(), e);
    listener.set_nonblocking(true).map_err(setup)?;
    congestion(&listener);
    let address = listener.local_addr().map_err(setup)?;
    let mut lanes = Vec::new();
    for &direction in spec.directions() {
        let mut lane = Vec::new();
        for _ in 0..spec.streams {
            let lan = open(ends, address, spec.mss, deadline, stop)?;
            let wan = accept(&listener, deadline, stop)?;
            let pair = match direction {
                Direction::Down => Pair { from: wan, to: lan },
                Direction::Up | Direction::Both => Pair { from: lan, to: wan },
            };
            prepare(&pair, spec).map_err(|e| Error::not_supported("set up a TCP stream", e))?;
            lane.push(pair);
        }
        lanes.push((direction, lane));
    }
    Ok(lanes)
}

fn prepare(pair: &Pair, spec: &LoadSpec) -> io::Result<()> {
    for socket in [&pair.from, &pair.to] {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(SOCKET_TIMEOUT))?;
        socket.set_write_timeout(Some(SOCKET_TIMEOUT))?;
    }
    let streams = usize::try_from(spec.streams).unwrap_or(1).max(1);
    let buffer = (SEND_BUFFERS / streams).clamp(SEND_BUFFER.0, SEND_BUFFER.1);
    sockopt::set_socket_send_buffer_size(&pair.from, buffer)?;
    Ok(())
}

/// The same algorithm on every machine, so that results compare: cubic is the kernel's own default.
/// Where it is missing, the machine's default is used.
fn congestion(socket: impl std::os::fd::AsFd) {
    if let Err(error) = sockopt::set_tcp_congestion(socket, "cubic") {
        log::debug!("cubic congestion control is not to be had: {error}");
    }
}

fn open(
    ends: &Ends,
    to: SocketAddr,
    mss: Option<u32>,
    deadline: Duration,
    stop: &AtomicBool,
) -> Result<TcpStream> {
    let what = format!("connect to {to}");
    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket: OwnedFd = inside(&ends.lan, &what, move || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
    })?;
    if let Some(mss) = mss {
        // Said in the SYN, it limits the other side as well.
        set_tcp_maxseg(&socket, mss).map_err(|e| Error::usage(format!("mss {mss}"), e))?;
    }
    congestion(&socket);
    let failed = |e: io::Error| Error::new(ExitCode::Refused, what.clone(), e);
    match rustix::net::connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            ready(&socket, PollFlags::OUT, deadline, stop, &what)?;
            sockopt::socket_error(&socket)
                .and_then(|answer| answer)
                .map_err(|e| failed(e.into()))?;
        }
        Err(error) => return Err(failed(error.into())),
    }
    Ok(socket.into())
}

fn accept(listener: &TcpListener, deadline: Duration, stop: &AtomicBool) -> Result<TcpStream> {
    ready(listener, PollFlags::IN, deadline, stop, "accept a TCP stream")?;
    let accepted = listener.accept();
    accepted.map(|(s, _)| s).map_err(|e| Error::not_supported("accept a TCP stream", e))
}

/// Runs a socket-making job on the namespace's thread.
pub(super) fn inside<T: Send + 'static>(
    netns: &NetnsThread,
    what: &str,
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    netns
        .run(job)
        .map_err(|gone| Error::new(ExitCode::Refused, what, gone))?
        .map_err(|e| Error::not_supported(what, e))
}

/// Waits until the socket is ready, in slices that look at the stop flag.
fn ready(
    socket: impl std::os::fd::AsFd,
    flags: PollFlags,
    deadline: Duration,
    stop: &AtomicBool,
    what: &str,
) -> Result<()> {
    loop {
        still_waiting(deadline, stop, what)?;
        let slice = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        match poll(&mut [PollFd::new(&socket, flags)], Some(&slice)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(Error::not_supported(what, error)),
        }
    }
}
