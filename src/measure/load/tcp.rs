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

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};

use super::half::{Half, Role, Run, Side, SocketPlace, Stream};
use super::partner::{Key, NONCE, Nonce, PROOF, nonce};
use super::workers::{CONNECT_DEADLINE, Moved, Outcome, RunView, SOCKET_TIMEOUT, due};
use super::{LoadSpec, still_waiting, udp};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::sys::poll::{Wanted, is_ready};
use crate::machine::sys::socket::{set_tcp_maxseg, set_tcp_notsent_lowat, tcp_info};
use crate::model::measurement::Direction;

/// Bytes handed to the kernel per call.
const CHUNK: usize = 128 << 10;
/// Bytes taken from the kernel per call: as much as a stream can have under way.
const TAKE: usize = 256 << 10;
/// Send buffers of all streams of a direction together, and the bounds for one of them. The kernel
/// doubles the value for its own bookkeeping. 1000 packets (`netdev_max_backlog`) are 1.5 MB.
const SEND_BUFFERS: usize = 1 << 20;
const SEND_BUFFER: (usize, usize) = (64 << 10, 256 << 10);
/// Round trip up to which buffers of this size are enough: 1.6 Gbit/s. Beyond they grow with it, up
/// to what the fastest line over half of the world needs.
const NEAR: Duration = Duration::from_millis(5);
const LARGEST_BUFFER: usize = 16 << 20;
/// Round trip from which a receiver's buffer is set as well: before Linux 6.16 the kernel's own
/// stops at 6 MB (`tcp_rmem`), which is 3 MB for a window.
const FAR: Duration = Duration::from_millis(100);

/// Size of the LAN's first bytes on a stream: a message with the run's name, the stream's number and
/// one to prove.
const GREETING: usize = udp::HEADER + 4 + NONCE;
/// Size of the WAN's answer: a number of its own, and its proof.
const ANSWER: usize = NONCE + PROOF;
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

/// Opens all streams from the LAN at once.
pub(super) fn connect(
    half: &mut Half,
    place: &SocketPlace,
    run: &Run,
    ports: &[u16],
    stop: &AtomicBool,
) -> Result<()> {
    // Of the next stream: a line of a few seconds takes as long for all of them as for one.
    let deadline = || clock::monotonic() + CONNECT_DEADLINE;
    let [port] = ports else {
        return Err(Error::usage("load", "TCP has one port for all streams"));
    };
    let to = SocketAddr::new(run.address, *port);
    let what = format!("connect to {to}");
    let failed = |e: Errno| Error::new(ExitCode::Refused, what.clone(), e);
    let key = run.key();
    let mut opening = Vec::new();
    for &direction in run.spec.directions() {
        for _ in 0..run.spec.streams {
            opening.push((direction, open(place, to, run.spec.mss)?));
        }
    }
    let mut greeted = Vec::new();
    for (number, (direction, socket)) in (0_u32..).zip(opening) {
        ready(&socket, Wanted::Write, deadline(), stop, &what)?;
        sockopt::socket_error(&socket).and_then(|answer| answer).map_err(failed)?;
        let near = nonce().map_err(|e| Error::not_supported("make a nonce", e))?;
        let mut greeting = udp::message(STREAM, key.name()).to_vec();
        greeting.extend_from_slice(&number.to_be_bytes());
        greeting.extend_from_slice(&near);
        // Nothing was sent yet: so few bytes always fit.
        rustix::net::send(&socket, &greeting, SendFlags::NOSIGNAL).map_err(failed)?;
        greeted.push((direction, socket, number, near));
    }
    let payload: Arc<[u8]> = payload().into();
    for (direction, socket, number, near) in greeted {
        let mut answer = [0; ANSWER];
        let (mut got, deadline) = (0, deadline());
        while got < ANSWER {
            ready(&socket, Wanted::Read, deadline, stop, &what)?;
            let room = answer.get_mut(got..).unwrap_or_default();
            match rustix::net::recv(&socket, room, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(failed(Errno::CONNRESET)),
                Ok((_, more)) => got += more,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let proven = answer
            .split_first_chunk::<NONCE>()
            .filter(|(far, proof)| key.is_proof(proof, Side::Wan, number, &near, far));
        let Some((far, _)) = proven else {
            let why = "it does not prove to be of this run: something else answers there";
            return Err(Error::new(ExitCode::Refused, what, why));
        };
        let proof = key.proof(Side::Lan, number, &near, far);
        rustix::net::send(&socket, &proof, SendFlags::NOSIGNAL).map_err(failed)?;
        add(half, Side::Lan, direction, socket, &run.spec, &payload)?;
    }
    Ok(())
}

/// A connection that has not yet proven to be a stream of ours.
struct Guest {
    socket: TcpStream,
    /// Number of the stream, and what both sides have to prove, once it has greeted.
    asked: Option<(usize, Nonce, Nonce)>,
}

/// Outcome of a look at a guest.
enum Seen {
    Waits,
    Leaves,
    Proven(usize),
}

impl Guest {
    /// Takes what has come, and answers.
    fn look(&mut self, key: &Key) -> Seen {
        let Some((number, near, far)) = self.asked else { return self.greeted(key) };
        let mut proof = [0; PROOF];
        match self.take(&mut proof) {
            Some(true) => {}
            Some(false) => return Seen::Leaves,
            None => return Seen::Waits,
        }
        let stream = u32::try_from(number).unwrap_or(u32::MAX);
        match key.is_proof(&proof, Side::Lan, stream, &near, &far) {
            true => Seen::Proven(number),
            false => Seen::Leaves,
        }
    }

    fn greeted(&mut self, key: &Key) -> Seen {
        let mut greeting = [0; GREETING];
        match self.take(&mut greeting) {
            Some(true) => {}
            Some(false) => return Seen::Leaves,
            None => return Seen::Waits,
        }
        let parts = greeting.split_at(udp::HEADER).1.split_first_chunk::<4>();
        let parts = parts.and_then(|(number, near)| Some((number, near.first_chunk::<NONCE>()?)));
        let (Some((number, near)), Ok(far)) = (parts, nonce()) else { return Seen::Leaves };
        let stream = u32::from_be_bytes(*number);
        if udp::kind(&greeting) != Some((STREAM, key.name())) {
            return Seen::Leaves;
        }
        let answer = [&far[..], &key.proof(Side::Wan, stream, near, &far)].concat();
        let Ok(number) = usize::try_from(stream) else { return Seen::Leaves };
        self.asked = Some((number, *near, far));
        // Nothing was sent yet: so few bytes always fit.
        match rustix::net::send(&self.socket, &answer, SendFlags::NOSIGNAL) {
            Ok(_) => Seen::Waits,
            Err(_) => Seen::Leaves,
        }
    }

    /// Fills the buffer: `None` while there is less than that, false where no more will come.
    fn take(&self, buffer: &mut [u8]) -> Option<bool> {
        match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::PEEK) {
            Err(Errno::AGAIN | Errno::INTR) => None,
            Ok((got, _)) if got == buffer.len() => {
                Some(rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty()).is_ok())
            }
            Ok((got, _)) if got > 0 => None,
            _ => Some(false),
        }
    }
}

/// Takes all streams at the WAN. Whoever else connects, and does not prove to be of this run, is
/// dropped.
pub(super) fn accept(
    half: &mut Half,
    listener: &TcpListener,
    run: &Run,
    stop: &AtomicBool,
) -> Result<()> {
    let what = "accept a TCP stream";
    // The other side needs a round trip more than the first that it waits for.
    let mut deadline = clock::monotonic() + 2 * CONNECT_DEADLINE;
    let directions = run.spec.directions();
    let per_direction = usize::try_from(run.spec.streams).unwrap_or(0);
    let all = directions.len() * per_direction;
    let mut places: Vec<Option<TcpStream>> = (0..all).map(|_| None).collect();
    let key = run.key();
    let mut waiting: Vec<Guest> = Vec::new();
    let mut missing = all;
    while missing > 0 {
        still_waiting(deadline, stop, what)?;
        is_ready(listener, Wanted::Read, Duration::from_millis(1))
            .map_err(|e| Error::not_supported(what, e))?;
        while let Ok((socket, _)) = listener.accept() {
            // More than could ever be ours are not kept; those that say nothing go first.
            if waiting.len() > 2 * all {
                waiting.remove(0);
            }
            if socket.set_nonblocking(true).is_ok() {
                waiting.push(Guest { socket, asked: None });
            }
        }
        let mut still = Vec::new();
        for mut guest in waiting.drain(..) {
            match guest.look(&key) {
                Seen::Waits => still.push(guest),
                Seen::Leaves => {}
                Seen::Proven(number) => {
                    if let Some(place @ None) = places.get_mut(number) {
                        *place = Some(guest.socket);
                        missing -= 1;
                        deadline = clock::monotonic() + 2 * CONNECT_DEADLINE;
                    }
                }
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
    let mut backlog = Backlog::new(socket, started);
    while view.sending() {
        view.tick();
        backlog.look(sent);
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

/// Bytes that may wait for their first transmission: as much as a fifth of a second carries, so that
/// a slow line is not full of what must drain after the window.
struct Backlog<'a> {
    socket: &'a TcpStream,
    bytes: u32,
    looked: Duration,
    sent: u64,
}

impl<'a> Backlog<'a> {
    /// Interval at which the rate is looked at.
    const LOOK: Duration = Duration::from_millis(100);
    const SHARE: f64 = 0.2;
    /// A few packets, so that the thread need not be woken for each.
    const LEAST: u32 = 16 << 10;
    /// As much as is written at once; beyond, the send buffer's size is bound enough.
    const MOST: u32 = CHUNK as u32;

    fn new(socket: &'a TcpStream, now: Duration) -> Self {
        let mut backlog = Self { socket, bytes: 0, looked: now, sent: 0 };
        backlog.set(Self::LEAST);
        backlog
    }

    fn look(&mut self, sent: u64) {
        let now = clock::monotonic();
        let took = now.saturating_sub(self.looked);
        if took < Self::LOOK {
            return;
        }
        let rate = (sent - self.sent) as f64 / took.as_secs_f64();
        (self.looked, self.sent) = (now, sent);
        self.set((rate * Self::SHARE) as u32);
    }

    fn set(&mut self, bytes: u32) {
        let bytes = match bytes.max(Self::LEAST) {
            bytes if bytes >= Self::MOST => u32::MAX,
            bytes => bytes,
        };
        if bytes != self.bytes
            && let Err(error) = set_tcp_notsent_lowat(self.socket, bytes)
        {
            log::debug!("what waits in a send buffer can't be limited: {error}");
        }
        self.bytes = bytes;
    }
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
    let trip = tcp_info(socket).ok().and_then(|info| info.shortest_round_trip);
    let trip = trip.unwrap_or_default();
    match role {
        Role::Sender => {
            let streams = usize::try_from(spec.streams).unwrap_or(1).max(1);
            let near = (SEND_BUFFERS / streams).clamp(SEND_BUFFER.0, SEND_BUFFER.1);
            if trip <= NEAR {
                return Ok(sockopt::set_socket_send_buffer_size(socket, near)?);
            }
            let far = near as f64 * trip.as_secs_f64() / NEAR.as_secs_f64();
            let far = (far as usize).min(LARGEST_BUFFER);
            larger(sockopt::set_socket_send_buffer_size_force(socket, far));
        }
        Role::Receiver if trip >= FAR => {
            larger(sockopt::set_socket_recv_buffer_size_force(socket, LARGEST_BUFFER));
        }
        Role::Receiver => {}
    }
    Ok(())
}

/// Without privileges the kernel's limit would hold for good; what grows by itself is larger.
fn larger(done: rustix::io::Result<()>) {
    if let Err(error) = done {
        log::debug!("a buffer for a long line is left to the kernel: {error}");
    }
}

/// The same algorithm on every machine, so that results compare: cubic is the kernel's own default.
/// Where it is missing, the machine's default is used.
fn congestion(socket: impl std::os::fd::AsFd) {
    if let Err(error) = sockopt::set_tcp_congestion(socket, "cubic") {
        log::debug!("cubic congestion control is not to be had: {error}");
    }
}

/// Begins to connect.
fn open(place: &SocketPlace, to: SocketAddr, mss: Option<u32>) -> Result<TcpStream> {
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
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(Error::new(ExitCode::Refused, what, error)),
    }
}

/// Waits until the socket is ready, in slices that look at the stop flag.
fn ready(
    socket: impl std::os::fd::AsFd,
    wanted: Wanted,
    deadline: Duration,
    stop: &AtomicBool,
    what: &str,
) -> Result<()> {
    loop {
        still_waiting(deadline, stop, what)?;
        match is_ready(&socket, wanted, Duration::from_millis(20)) {
            Ok(false) => {}
            Ok(true) => return Ok(()),
            Err(error) => return Err(Error::not_supported(what, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::super::partner::Secret;
    use super::*;

    fn run(address: IpAddr) -> Run {
        let spec = LoadSpec::tcp(Direction::Up, 1, 1.0, 0.0);
        Run { spec, id: 7, address, secret: Secret(b"token".to_vec()) }
    }

    #[test]
    fn a_stranger_behind_the_port_gets_no_load() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let stranger = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut greeting = [0; GREETING];
            socket.read_exact(&mut greeting).unwrap();
            // A number of its own, and in the place of a proof what it was told.
            socket
                .write_all(
                    &[[1; NONCE].as_slice(), greeting.last_chunk::<PROOF>().unwrap()].concat(),
                )
                .unwrap();
            let mut more = Vec::new();
            drop(socket.read_to_end(&mut more));
            more
        });
        let (run, place, stop) = (run(to.ip()), SocketPlace::default(), AtomicBool::new(false));
        let mut half = Half::new(&run, None);
        let refused = connect(&mut half, &place, &run, &[to.port()], &stop).unwrap_err();
        assert!(refused.to_string().contains("does not prove"), "{refused}");
        assert!(stranger.join().unwrap().is_empty(), "it got something");
    }

    #[test]
    fn a_stranger_that_knows_the_runs_name_is_no_stream() {
        let run = run("127.0.0.1".parse().unwrap());
        let (listener, port) = listen(&SocketPlace::default(), &run).unwrap();
        let stop = AtomicBool::new(false);
        let mut half = Half::new(&run, None);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let mut greeting = udp::message(STREAM, run.key().name()).to_vec();
                greeting.resize(GREETING, 0);
                socket.write_all(&greeting).unwrap();
                let mut answer = [0; ANSWER];
                socket.read_exact(&mut answer).unwrap();
                // The WAN's own proof, sent back.
                socket.write_all(&answer[NONCE..]).unwrap();
                let mut more = Vec::new();
                drop(socket.read_to_end(&mut more));
                assert!(more.is_empty());
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            assert!(accept(&mut half, &listener, &run, &stop).is_err());
        });
    }
}
