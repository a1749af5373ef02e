//! Bulk TCP.
//!
//! Comparisons with `iperf3 -P 16` in the lab (packets of 1500 bytes, two CPUs, pairs in turn)
//! decide the details: discarding on receipt (`MSG_TRUNC`) saves the copy to user space; a bounded
//! send buffer keeps queues inside the router short, so that packets stay in the cache and none is
//! dropped and sent again, which was worth more than everything else; cubic needs no pacing timer
//! per packet as bbr does. `sendfile` from memory was no better than `send`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};

use super::half::{Half, Role, Run, Side, SocketPlace, Stream};
use super::workers::{CONNECT_DEADLINE, Moved, Outcome, RunView, SOCKET_TIMEOUT, due};
use super::{LoadSpec, still_waiting, udp};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::sys::socket::set_tcp_maxseg;
use crate::model::measurement::Direction;

/// Bytes handed to the kernel per call.
const CHUNK: usize = 128 << 10;
/// Bytes taken from the kernel per call: as much as a stream can have under way.
const TAKE: usize = 256 << 10;
/// Send buffers of all streams of a direction together, and the bounds for one of them. The kernel
/// doubles the value for its own bookkeeping. 1000 packets (`netdev_max_backlog`) are 1.5 MB.
const SEND_BUFFERS: usize = 1 << 20;
const SEND_BUFFER: (usize, usize) = (64 << 10, 256 << 10);

/// Size of the LAN's first bytes on a stream: a message with the run's number, and the stream's
/// number.
const GREETING: usize = udp::HEADER + 4;
/// A stream's first message.
const STREAM: u32 = 5;

/// Opens the port of a run.
pub(super) fn listen(place: &SocketPlace, run: &Run) -> Result<(TcpListener, u16)> {
    let what = format!("listen on {}", run.address);
    let address = SocketAddr::new(run.address, 0);
    let listener = place.inside(&what, move || TcpListener::bind(local(address)?))?;
    let setup = |e: io::Error| Error::not_supported(what.clone(), e);
    listener.set_nonblocking(true).map_err(setup)?;
    congestion(&listener);
    let port = listener.local_addr().map_err(setup)?.port();
    Ok((listener, port))
}

/// The address itself, or any where it is not one of this machine's own: that of a NAT before it.
pub(super) fn local(address: SocketAddr) -> io::Result<SocketAddr> {
    match UdpSocket::bind(SocketAddr::new(address.ip(), 0)) {
        Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => {
            let any: IpAddr = if address.is_ipv6() {
                Ipv6Addr::UNSPECIFIED.into()
            } else {
                Ipv4Addr::UNSPECIFIED.into()
            };
            Ok(SocketAddr::new(any, address.port()))
        }
        Err(e) => Err(e),
        Ok(_) => Ok(address),
    }
}

/// Opens all streams from the LAN, one by one.
pub(super) fn connect(
    half: &mut Half,
    place: &SocketPlace,
    run: &Run,
    ports: &[u16],
    stop: &AtomicBool,
) -> Result<()> {
    let deadline = clock::monotonic() + CONNECT_DEADLINE;
    let [port] = ports else {
        return Err(Error::usage("load", "TCP has one port for all streams"));
    };
    let to = SocketAddr::new(run.address, *port);
    let payload: Arc<[u8]> = payload().into();
    let mut number = 0_u32;
    for &direction in run.spec.directions() {
        for _ in 0..run.spec.streams {
            let socket = open(place, to, run.spec.mss, deadline, stop)?;
            let mut greeting = udp::message(STREAM, run.id).to_vec();
            greeting.extend_from_slice(&number.to_be_bytes());
            let what = format!("connect to {to}");
            // Nothing was sent yet: so few bytes always fit.
            rustix::net::send(&socket, &greeting, SendFlags::NOSIGNAL)
                .map_err(|e| Error::new(ExitCode::Refused, what, e))?;
            add(half, Side::Lan, direction, socket, &run.spec, &payload)?;
            number += 1;
        }
    }
    Ok(())
}

/// Takes all streams at the WAN. Whoever else connects, and does not name run and stream, is
/// dropped.
pub(super) fn accept(
    half: &mut Half,
    listener: &TcpListener,
    run: &Run,
    stop: &AtomicBool,
) -> Result<()> {
    let what = "accept a TCP stream";
    let deadline = clock::monotonic() + CONNECT_DEADLINE;
    let directions = run.spec.directions();
    let per_direction = usize::try_from(run.spec.streams).unwrap_or(0);
    let all = directions.len() * per_direction;
    let mut places: Vec<Option<TcpStream>> = (0..all).map(|_| None).collect();
    let mut waiting: Vec<TcpStream> = Vec::new();
    let mut missing = all;
    while missing > 0 {
        still_waiting(deadline, stop, what)?;
        let slice = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&slice)) {
            Err(error) if error != Errno::INTR => return Err(Error::not_supported(what, error)),
            _ => {}
        }
        while let Ok((socket, _)) = listener.accept() {
            // More than could ever be ours are not kept.
            if waiting.len() <= 2 * all && socket.set_nonblocking(true).is_ok() {
                waiting.push(socket);
            }
        }
        let mut still = Vec::new();
        for socket in waiting.drain(..) {
            let mut greeting = [0; GREETING];
            match rustix::net::recv(&socket, &mut greeting, RecvFlags::PEEK) {
                Err(Errno::AGAIN | Errno::INTR) => still.push(socket),
                Ok((got, _)) if got > 0 && got < GREETING => still.push(socket),
                Ok((GREETING, _)) => {
                    let number = greeting.last_chunk().map(|n| u32::from_be_bytes(*n));
                    let number = number.and_then(|n| usize::try_from(n).ok());
                    let place = number.and_then(|n| places.get_mut(n));
                    if udp::kind(&greeting) == Some((STREAM, run.id))
                        && let Some(place @ None) = place
                        && rustix::net::recv(&socket, &mut greeting, RecvFlags::empty()).is_ok()
                    {
                        *place = Some(socket);
                        missing -= 1;
                    }
                }
                _ => {}
            }
        }
        waiting = still;
    }
    let payload: Arc<[u8]> = payload().into();
    for (number, socket) in places.into_iter().flatten().enumerate() {
        let direction = directions.get(number / per_direction.max(1)).copied();
        let direction = direction.unwrap_or(Direction::Up);
        add(half, Side::Wan, direction, socket, &run.spec, &payload)?;
    }
    Ok(())
}

/// Makes a connection a stream of this side.
fn add(
    half: &mut Half,
    side: Side,
    direction: Direction,
    socket: TcpStream,
    spec: &LoadSpec,
    payload: &Arc<[u8]>,
) -> Result<()> {
    let role = Role::of(side, direction);
    prepare(&socket, role, spec).map_err(|e| Error::not_supported("set up a TCP stream", e))?;
    let (socket, moved) = (Arc::new(socket), Arc::new(Moved::default()));
    let stream = Stream { direction, role, moved: moved.clone(), socket: Some(socket.clone()) };
    match role {
        Role::Sender => {
            let rate = spec.rate.map(|r| r.0 / 8.0 / f64::from(spec.streams));
            let payload = payload.clone();
            half.add(stream, move |view| send(&socket, &moved, &payload, rate, view))
        }
        Role::Receiver => half.add(stream, move |view| receive(&socket, &moved, view)),
    }
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
    view: &mut RunView,
) -> Outcome {
    let mut outcome = Outcome::default();
    let started = clock::monotonic();
    // With a rate: pieces of at most 5 ms, so that it is even within any window.
    let piece = rate.map_or(CHUNK, |r| ((r * 0.005) as usize).clamp(1, CHUNK));
    let piece = payload.get(..piece).unwrap_or(payload);
    let mut sent = 0;
    while view.sending() {
        view.tick();
        if let Some(rate) = rate {
            view.pause_until(due(started, sent, rate));
        }
        match rustix::net::send(socket, piece, SendFlags::NOSIGNAL) {
            Ok(bytes) => {
                sent += bytes as u64;
                moved.add(bytes as u64);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => {
                if !view.aborted() {
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
        && !view.aborted()
    {
        outcome.error = Some(error.into());
    }
    outcome
}

fn receive(socket: &TcpStream, moved: &Moved, view: &mut RunView) -> Outcome {
    let mut outcome = Outcome::default();
    // TCP with MSG_TRUNC counts and discards (tcp(7)): the pages behind this are never touched, and
    // so never allocated.
    let mut nowhere = vec![0u8; TAKE];
    loop {
        view.tick();
        match rustix::net::recv(socket, &mut *nowhere, RecvFlags::TRUNC) {
            Ok((_, 0)) => {
                outcome.acknowledged = !view.aborted();
                return outcome;
            }
            Ok((_, bytes)) => moved.add(bytes as u64),
            Err(Errno::AGAIN | Errno::INTR) if !view.aborted() => {}
            Err(error) => {
                if !view.aborted() {
                    outcome.error = Some(error.into());
                }
                return outcome;
            }
        }
    }
}

/// Wakes whoever is blocked on the socket. ENOTCONN means that there is nobody.
pub(super) fn cut(socket: &TcpStream) {
    match socket.shutdown(std::net::Shutdown::Both) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
        Err(error) => log::debug!("cut a stream short: {error}"),
    }
}

fn prepare(socket: &TcpStream, role: Role, spec: &LoadSpec) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(SOCKET_TIMEOUT))?;
    socket.set_write_timeout(Some(SOCKET_TIMEOUT))?;
    if role == Role::Sender {
        let streams = usize::try_from(spec.streams).unwrap_or(1).max(1);
        let buffer = (SEND_BUFFERS / streams).clamp(SEND_BUFFER.0, SEND_BUFFER.1);
        sockopt::set_socket_send_buffer_size(socket, buffer)?;
    }
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
    place: &SocketPlace,
    to: SocketAddr,
    mss: Option<u32>,
    deadline: Duration,
    stop: &AtomicBool,
) -> Result<TcpStream> {
    let what = format!("connect to {to}");
    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket: OwnedFd = place.inside(&what, move || {
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
