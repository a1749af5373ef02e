//! Numbered datagrams with a final acknowledgement.
//!
//! ```text
//!   lan                                wan
//!    │ HELLO, proofs (partner.rs) ────▶ │   opens the NAT mapping; repeated until answered
//!    │ DATA 0, 1, 2 ... ──────────────▶ │   (up; for down the other way, on the same mapping)
//!    │ END n ─────────────────────────▶ │   repeated until answered, bounded
//!    │ ◀─────────────────────── REPORT  │   received, duplicates, reordered
//! ```
//!
//! Loss is known from the report alone: without it nothing is known of the datagrams that arrived.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, sendmmsg, sockopt};

use super::frames::{self, Exit, Listener, Way};
use super::half::{Half, Role, Run, Side, SocketPlace, Stream};
use super::pace::Pace;
use super::partner::{Door, Reply};
use super::tcp::local;
use super::workers::{CONNECT_DEADLINE, Moved, Outcome, RunView, SOCKET_TIMEOUT};
use super::{Datagrams, LoadSpec, Sender, still_waiting};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::model::measurement::Direction;

/// Magic, kind, number.
pub(super) const HEADER: usize = 16;
/// A report: the header and three counters.
const REPORT: usize = HEADER + 24;
const MAGIC: u32 = u32::from_be_bytes(*b"lnrt");
pub(super) const DATA: u32 = 2;
const END: u32 = 3;
const ANSWER: u32 = 4;
/// Time for which the end is announced again and again, each with a wait for an answer: the answer
/// to the first may need seconds.
const END_PATIENCE: Duration = Duration::from_secs(8);
/// Datagrams per system call. At a limited rate no more than 1 ms worth goes out at once.
pub(super) const BATCH: usize = 64;
/// Byte that fills a datagram behind its header.
pub(super) const PADDING: u8 = 0x5a;
/// A burst that the receiving thread's wake-up takes to read must fit: 4 MiB.
const RECEIVE_BUFFER: usize = 4 << 20;

/// State by which one end of a flow sends.
struct Flow {
    socket: UdpSocket,
    /// Past the sender's IP stack, where that was asked for.
    exit: Option<Exit>,
}

/// A socket of the WAN that waits for its flow.
pub(super) struct Waiting {
    direction: Direction,
    socket: UdpSocket,
    listener: Option<Listener>,
    /// Where the LAN appears, once it has proven itself.
    met: Option<SocketAddr>,
}

/// Number of answers by the WAN to each greeting: at least one must get back.
const ANSWERS: u32 = 3;
/// Wait of the first reading of a greeting.
const GREETING: Duration = Duration::from_millis(20);

/// Opens a port for each flow of a run, in the order of the directions.
pub(super) fn listen(place: &SocketPlace, run: &Run) -> Result<(Vec<Waiting>, Vec<u16>)> {
    let what = format!("listen on {}", run.address);
    let (mut waiting, mut ports) = (Vec::new(), Vec::new());
    for &direction in run.spec.directions() {
        for _ in 0..run.spec.streams {
            let address = SocketAddr::new(run.address, 0);
            let socket = place.inside(&what, move || UdpSocket::bind(local(address)?))?;
            let port = socket.local_addr().and_then(|a| {
                socket.set_write_timeout(Some(SOCKET_TIMEOUT))?;
                socket.set_nonblocking(true)?;
                Ok(a.port())
            });
            ports.push(port.map_err(|e| Error::not_supported(what.clone(), e))?);
            let sends = Role::of(Side::Wan, direction) == Role::Sender;
            let listener = if sends { frames_wanted(place, run)? } else { None };
            waiting.push(Waiting { direction, socket, listener, met: None });
        }
    }
    Ok((waiting, ports))
}

/// Listener for frames, where they were asked for: it must be open before the other side's greeting
/// can come.
fn frames_wanted(place: &SocketPlace, run: &Run) -> Result<Option<Listener>> {
    if run.spec.sender == Sender::Socket {
        return Ok(None);
    }
    frames::check(run.address).map_err(|e| Error::not_supported("send ready-made frames", e))?;
    Listener::open(place).map(Some)
}

/// Takes all flows at the WAN: each socket is connected to where the LAN appears from here.
pub(super) fn accept(
    half: &mut Half,
    place: &SocketPlace,
    mut waiting: Vec<Waiting>,
    run: &Run,
    stop: &AtomicBool,
) -> Result<()> {
    // The other side needs a round trip more than the first that it waits for.
    let mut deadline = clock::monotonic() + 2 * CONNECT_DEADLINE;
    let what = "accept a UDP flow";
    let failed = |e: io::Error| Error::new(ExitCode::Refused, what, e);
    let door = Door::new(run.key()).map_err(failed)?;
    let mut buffer = [0; 128];
    while waiting.iter().any(|w| w.met.is_none()) {
        still_waiting(deadline, stop, what)?;
        let mut idle = true;
        for one in waiting.iter_mut().filter(|w| w.met.is_none()) {
            let Ok((length, peer)) = one.socket.recv_from(&mut buffer) else { continue };
            idle = false;
            match door.reply(buffer.get(..length).unwrap_or_default(), peer) {
                Reply::Ignore => {}
                // One that can't be sent is asked for again.
                Reply::Challenge(packet) => drop(one.socket.send_to(&packet, peer)),
                Reply::Accepted(packet) => {
                    one.socket.connect(peer).map_err(failed)?;
                    for _ in 0..ANSWERS {
                        one.socket.send(&packet).map_err(failed)?;
                    }
                    one.met = Some(peer);
                    deadline = clock::monotonic() + 2 * CONNECT_DEADLINE;
                }
            }
        }
        if idle {
            clock::sleep(Duration::from_millis(1));
        }
    }
    let mut met = Vec::new();
    for one in waiting {
        one.socket.set_nonblocking(false).map_err(failed)?;
        let port = one.socket.local_addr().map_err(failed)?.port();
        let way = way(one.listener, (port, one.met), run, deadline, stop)?;
        met.push((one.direction, one.socket, way));
    }
    add_all(half, place, Side::Wan, met, &run.spec)
}

fn way(
    listener: Option<Listener>,
    between: (u16, Option<SocketAddr>),
    run: &Run,
    deadline: Duration,
    stop: &AtomicBool,
) -> Result<Option<Way>> {
    listener.map(|seen| seen.way(between, run.spec.datagram, deadline, stop)).transpose()
}

/// Why there was no answer to a greeting.
enum Tried {
    Over(Error),
    Failed(io::Error),
}

impl From<io::Error> for Tried {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Opens all flows from the LAN: greets until the WAN answers, which opens the NAT mapping and
/// shows that there is a way back, or the report could never arrive.
pub(super) fn connect(
    half: &mut Half,
    place: &SocketPlace,
    run: &Run,
    ports: &[u16],
    stop: &AtomicBool,
) -> Result<()> {
    let what = format!("open a UDP flow to {}", run.address);
    let failed = |e: io::Error| Error::new(ExitCode::Refused, what.clone(), e);
    let any: SocketAddr =
        if run.address.is_ipv6() { ([0u16; 8], 0).into() } else { ([0u8; 4], 0).into() };
    let key = run.key();
    let mut ports = ports.iter();
    let mut met = Vec::new();
    for &direction in run.spec.directions() {
        for _ in 0..run.spec.streams {
            let Some(port) = ports.next() else {
                return Err(Error::usage("load", "UDP has a port for each flow"));
            };
            let socket = place.inside(&what, move || UdpSocket::bind(any))?;
            socket.set_read_timeout(Some(GREETING)).map_err(failed)?;
            socket.set_write_timeout(Some(SOCKET_TIMEOUT)).map_err(failed)?;
            let sends = Role::of(Side::Lan, direction) == Role::Sender;
            let listener = if sends { frames_wanted(place, run)? } else { None };
            let peer = SocketAddr::new(run.address, *port);
            socket.connect(peer).map_err(failed)?;
            let deadline = clock::monotonic() + CONNECT_DEADLINE;
            key.greet(&socket, || still_waiting(deadline, stop, &what).map_err(Tried::Over))
                .map_err(|tried| match tried {
                    Tried::Over(error) => error,
                    Tried::Failed(error) => failed(error),
                })?;
            let port = socket.local_addr().map_err(failed)?.port();
            let way = way(listener, (port, Some(peer)), run, deadline, stop)?;
            met.push((direction, socket, way));
        }
    }
    add_all(half, place, Side::Lan, met, &run.spec)
}

/// Makes connected sockets the streams of this side.
fn add_all(
    half: &mut Half,
    place: &SocketPlace,
    side: Side,
    met: Vec<(Direction, UdpSocket, Option<Way>)>,
    spec: &LoadSpec,
) -> Result<()> {
    let (mut sockets, mut ways) = (Vec::new(), Vec::new());
    for (direction, socket, way) in met {
        sockets.push((direction, socket, way.is_some()));
        ways.extend(way);
    }
    let mut exits = Vec::new().into_iter();
    if !ways.is_empty() {
        let (opened, word) = frames::exits(place, ways, spec.sender, spec.datagram)?;
        half.sent_by = Some(word);
        exits = opened.into_iter();
    }
    for (direction, socket, framed) in sockets {
        let exit = if framed { exits.next() } else { None };
        add(half, side, direction, Flow { socket, exit }, spec)?;
    }
    Ok(())
}

/// Makes a connected socket a stream of this side.
fn add(
    half: &mut Half,
    side: Side,
    direction: Direction,
    mut flow: Flow,
    spec: &LoadSpec,
) -> Result<()> {
    let role = Role::of(side, direction);
    if role == Role::Sender {
        fits(&flow.socket, spec.datagram)?;
    }
    let wait = if role == Role::Sender { SOCKET_TIMEOUT } else { SOCKET_TIMEOUT / 2 };
    flow.socket
        .set_read_timeout(Some(wait))
        .map_err(|e| Error::not_supported("set up a UDP flow", e))?;
    let moved = Arc::new(Moved::default());
    let stream = Stream { direction, role, moved: moved.clone(), socket: None };
    match role {
        Role::Sender => {
            let (size, steady) = (spec.datagram, spec.steady);
            let rate = spec.rate.map(|r| r.0 / 8.0 / f64::from(spec.streams));
            half.add(stream, move |view| {
                let now = clock::monotonic();
                let pace = rate.map(|rate| Pace::new(rate, size, steady, now));
                send(&mut flow, &moved, size, pace, view)
            })
        }
        Role::Receiver => {
            receive_buffer(&flow.socket);
            half.add(stream, move |view| receive(&flow.socket, &moved, view))
        }
    }
}

/// Lets datagrams leave in one piece or not at all, and checks that those of the load do, as far as
/// the kernel knows the path.
fn fits(socket: &UdpSocket, size: usize) -> Result<()> {
    let what = "keep datagrams in one piece";
    let address = socket.local_addr().map_err(|e| Error::not_supported(what, e))?;
    let done = if address.is_ipv6() {
        sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)
    } else {
        sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)
    };
    done.map_err(|e| Error::not_supported(what, e))?;
    let (packet, mtu) = path(socket, size);
    if packet <= mtu {
        return Ok(());
    }
    let why = format!("a packet of {packet} bytes, and the way takes {mtu} in one piece");
    Err(Error::usage(format!("datagram {size}"), why)
        .hint(format!("--datagram {} at most", size.saturating_sub(packet - mtu))))
}

/// Size of the packet with a datagram of `size` bytes, and the path's MTU as the kernel knows it.
fn path(socket: &UdpSocket, size: usize) -> (usize, usize) {
    let six = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    let mtu = if six { sockopt::ipv6_mtu(socket) } else { sockopt::ip_mtu(socket) };
    let mtu = mtu.ok().and_then(|mtu| usize::try_from(mtu).ok()).unwrap_or(usize::MAX);
    (size + if six { 48 } else { 28 }, mtu)
}

fn receive_buffer(socket: &UdpSocket) {
    if sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER).is_err()
        && let Err(error) = sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER)
    {
        log::debug!("a larger UDP receive buffer is not to be had: {error}");
    }
}

pub(super) fn message(kind: u32, number: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let (magic, rest) = bytes.split_at_mut(4);
    magic.copy_from_slice(&MAGIC.to_be_bytes());
    let (what, which) = rest.split_at_mut(4);
    what.copy_from_slice(&kind.to_be_bytes());
    which.copy_from_slice(&number.to_be_bytes());
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}

/// Kind and number of one of our messages.
pub(super) fn kind(bytes: &[u8]) -> Option<(u32, u64)> {
    (u32_at(bytes, 0)? == MAGIC).then_some(())?;
    Some((u32_at(bytes, 4)?, u64_at(bytes, 8)?))
}

fn send(
    flow: &mut Flow,
    moved: &Moved,
    size: usize,
    mut pace: Option<Pace>,
    view: &mut RunView,
) -> Outcome {
    let mut outcome = Outcome::default();
    let socket = &flow.socket;
    let padding = vec![PADDING; size.saturating_sub(HEADER)];
    let mut next = 0u64;
    while view.sending() {
        view.tick();
        let mut count = BATCH;
        let mut now = Duration::ZERO;
        if let Some(pace) = &mut pace {
            view.pause_until(pace.when());
            now = clock::monotonic();
            count = pace.count(now);
        }
        let burst = match &mut flow.exit {
            None => burst(socket, next, count, &padding),
            Some(exit) => exit.burst(next, count, &padding),
        };
        if let Some(pace) = &mut pace {
            pace.went(now, count, *burst.as_ref().unwrap_or(&0));
        }
        match burst {
            Ok(sent) => {
                next += sent as u64;
                moved.add((sent * size) as u64);
            }
            // An ICMP error of an earlier datagram, or no buffer for a moment: that one is lost, as
            // the receiver's count will show.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::CONNREFUSED) => {}
            // A router has told of a narrower way (ICMP).
            Err(Errno::MSGSIZE) => {
                let (packet, mtu) = path(socket, size);
                outcome.error = Some(io::Error::other(format!(
                    "packets of {packet} bytes, and the way takes {mtu} in one piece: --datagram {}",
                    size.saturating_sub(packet.saturating_sub(mtu))
                )));
                break;
            }
            Err(error) => {
                outcome.error = Some(error.into());
                break;
            }
        }
    }
    // What never left was not sent.
    match flow.exit.as_mut().map_or(Ok(0), Exit::left) {
        Ok(left) => next -= u64::from(left).min(next),
        Err(error) => outcome.error = outcome.error.or(Some(error.into())),
    }
    let mut answer = [0u8; REPORT];
    let until = clock::monotonic() + END_PATIENCE;
    while !view.aborted() && clock::monotonic() < until {
        if let Err(error) = socket.send(&message(END, next)) {
            outcome.error.get_or_insert(error);
            clock::sleep(Duration::from_millis(20));
            continue;
        }
        if let Ok(REPORT) = socket.recv(&mut answer)
            && kind(&answer) == Some((ANSWER, next))
            && let (Some(received), Some(duplicates), Some(reordered)) =
                (u64_at(&answer, HEADER), u64_at(&answer, HEADER + 8), u64_at(&answer, HEADER + 16))
        {
            outcome.acknowledged = true;
            let lost = next.saturating_sub(received);
            outcome.datagrams =
                Some(Datagrams { sent: next, received, lost, duplicates, reordered });
            return outcome;
        }
    }
    outcome.error.get_or_insert_with(|| io::Error::other("no report from the receiver"));
    outcome
}

/// Sends up to `count` datagrams from number `first` on; returns how many went.
fn burst(
    socket: &UdpSocket,
    first: u64,
    count: usize,
    padding: &[u8],
) -> std::result::Result<usize, Errno> {
    let headers: Vec<[u8; HEADER]> =
        (first..).take(count).map(|number| message(DATA, number)).collect();
    let slices: Vec<[IoSlice<'_>; 2]> =
        headers.iter().map(|h| [IoSlice::new(h), IoSlice::new(padding)]).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        headers.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let mut messages: Vec<MMsgHdr<'_>> =
        slices.iter().zip(&mut controls).map(|(s, c)| MMsgHdr::new(s, c)).collect();
    sendmmsg(socket, &mut messages, SendFlags::NOSIGNAL)
}

fn receive(socket: &UdpSocket, moved: &Moved, view: &mut RunView) -> Outcome {
    let mut outcome = Outcome::default();
    let mut seen = Seen::default();
    let mut buffer = [0u8; HEADER];
    while !view.aborted() {
        view.tick();
        // The real length is returned although only the header is copied.
        match rustix::net::recv(socket, &mut buffer, RecvFlags::TRUNC) {
            Ok((_, length)) => match kind(&buffer) {
                Some((DATA, number)) if length >= HEADER && seen.take(number) => {
                    moved.add(length as u64);
                }
                Some((END, sent)) => {
                    if let Err(error) = socket.send(&seen.report(sent)) {
                        outcome.error.get_or_insert(error);
                    }
                }
                _ => {}
            },
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {
                // The senders leave when they have their report or have given up on it.
                if view.senders_gone() {
                    break;
                }
            }
            Err(error) => {
                outcome.error.get_or_insert(error.into());
                break;
            }
        }
    }
    outcome
}

/// Record of the numbers that have arrived.
///
/// The last [`Seen::SPAN`] numbers are remembered one by one; one that comes later than that is
/// counted as a duplicate, so that the reported loss is never too small. No queue on the way is as
/// long.
struct Seen {
    bits: Vec<u64>,
    /// One more than the highest number.
    next: u64,
    received: u64,
    duplicates: u64,
    reordered: u64,
}

impl Default for Seen {
    fn default() -> Self {
        let words = usize::try_from(Self::SPAN / 64).unwrap_or(1);
        Self { bits: vec![0; words], next: 0, received: 0, duplicates: 0, reordered: 0 }
    }
}

impl Seen {
    /// 32 KiB of bits.
    const SPAN: u64 = 1 << 18;

    /// Notes `number`; false when it is not the first of its kind.
    fn take(&mut self, number: u64) -> bool {
        if number >= self.next {
            self.forget(number);
            self.next = number.saturating_add(1);
        } else if number < self.next.saturating_sub(Self::SPAN) || self.bit(number) {
            self.duplicates += 1;
            return false;
        } else {
            self.reordered += 1;
        }
        if let Some(word) = self.word(number) {
            *word |= 1 << (number % 64);
        }
        self.received += 1;
        true
    }

    /// Clears the places that `number` and those skipped before it will use.
    fn forget(&mut self, number: u64) {
        let first = self.next.max(number.saturating_sub(Self::SPAN - 1));
        for place in first..=number {
            if let Some(word) = self.word(place) {
                *word &= !(1 << (place % 64));
            }
        }
    }

    fn bit(&mut self, number: u64) -> bool {
        self.word(number).is_some_and(|word| *word & 1 << (number % 64) != 0)
    }

    fn word(&mut self, number: u64) -> Option<&mut u64> {
        self.bits.get_mut(usize::try_from(number % Self::SPAN / 64).ok()?)
    }

    fn report(&self, sent: u64) -> Vec<u8> {
        let mut bytes = message(ANSWER, sent).to_vec();
        for value in [self.received, self.duplicates, self.reordered] {
            bytes.extend_from_slice(&value.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repeated_or_very_late_number_is_no_new_datagram() {
        let mut seen = Seen::default();
        for number in [0, 1, 3, 2, 3, Seen::SPAN + 10, 4] {
            seen.take(number);
        }
        assert_eq!((seen.received, seen.reordered, seen.duplicates), (5, 1, 2));
        assert!(seen.take(u64::MAX), "a wild number is survived");
        assert!(!seen.take(u64::MAX - Seen::SPAN - 5));
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_plain_set(numbers in prop::collection::vec(0u64..500, 0..300)) {
            let (mut seen, mut set) = (Seen::default(), HashSet::new());
            for &number in &numbers {
                prop_assert_eq!(seen.take(number), set.insert(number));
            }
            prop_assert_eq!(seen.received, set.len() as u64);
            prop_assert_eq!(seen.received + seen.duplicates, numbers.len() as u64);
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            prop_assert!(kind(&bytes).is_none() || bytes.starts_with(b"lnrt"));
        }

        #[test]
        fn a_message_is_read_back(what: u32, number: u64) {
            prop_assert_eq!(kind(&message(what, number)), Some((what, number)));
        }
    }
}
