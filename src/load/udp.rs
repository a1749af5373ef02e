//! Numbered datagrams with a final acknowledgement.
//!
//! ```text
//!   lan                                wan
//!    │ HELLO ─────────────────────────▶ │   opens the NAT mapping; repeated until answered
//!    │ ◀──────────────────────── HELLO  │
//!    │ DATA 0, 1, 2 ... ──────────────▶ │   (up; for down the other way, on the same mapping)
//!    │ END n ─────────────────────────▶ │   repeated until answered, bounded
//!    │ ◀─────────────────────── REPORT  │   received, duplicates, reordered
//! ```
//!
//! What is lost is known from the report alone: without it nothing is known of what arrived.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, sendmmsg, sockopt};

use super::crew::{
    CONNECT_DEADLINE, Crew, Lane, Moved, Outcome, Role, SOCKET_TIMEOUT, Shift, due, result,
};
use super::frames::{self, Listener, Way};
pub(super) use super::tcp::inside;
use super::{Datagrams, Ends, LoadResult, LoadSpec, Moment, Sender, still_waiting};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::clock;
use crate::model::measurement::Direction;

/// Magic, kind, number.
pub(super) const HEADER: usize = 16;
/// A report: the header and three counters.
const REPORT: usize = HEADER + 24;
const MAGIC: u32 = u32::from_be_bytes(*b"lnrt");
pub(super) const HELLO: u32 = 1;
pub(super) const DATA: u32 = 2;
const END: u32 = 3;
const ANSWER: u32 = 4;
/// How often the end is told, and how long each time an answer is waited for.
const END_TRIES: u32 = 15;
/// Datagrams per system call. At a limited rate no more than 1 ms worth goes out at once.
pub(super) const BATCH: usize = 64;
/// What a stall of the sender held back is sent at no more than this multiple of the rate: as a
/// burst it would overflow queues on the way, and look like loss at a rate that was never asked for.
const CATCH_UP: f64 = 1.1;
/// A burst that the receiving thread's wake-up takes to read must fit: 4 MiB.
const RECEIVE_BUFFER: usize = 4 << 20;

struct Pair {
    from: UdpSocket,
    to: UdpSocket,
    /// Past the sender's IP stack, where that was asked for.
    way: Option<Way>,
}

pub(super) fn run(
    ends: &Ends,
    spec: &LoadSpec,
    stop: &AtomicBool,
    on: &mut dyn FnMut(Moment),
) -> Result<LoadResult> {
    let deadline = clock::monotonic() + CONNECT_DEADLINE;
    let mut crew = Crew::new(ends);
    let mut all = Vec::new();
    let mut lanes = Vec::new();
    for &direction in spec.directions() {
        let mut streams = Vec::new();
        for _ in 0..spec.streams {
            let pair = Arc::new(connect(ends, spec, direction, deadline, stop)?);
            let moved = Arc::new(Moved::default());
            let rate = spec.rate.map(|r| r.0 / 8.0 / f64::from(spec.streams));
            let size = spec.datagram;
            {
                let (pair, moved) = (pair.clone(), moved.clone());
                crew.spawn(direction, Role::Sender, move |shift| {
                    send(&pair, &moved, size, rate, shift)
                })?;
            }
            {
                let moved = moved.clone();
                crew.spawn(direction, Role::Receiver, move |shift| {
                    receive(&pair.to, &moved, shift)
                })?;
            }
            all.push(moved.clone());
            streams.push(moved);
        }
        let ip = if ends.wan_address.is_ipv6() { 40 } else { 20 };
        lanes.push(Lane {
            direction,
            streams,
            header_bytes: 14 + ip + 8,
            retransmits: None,
            retransmitted_bytes: None,
        });
    }
    let started = clock::monotonic();
    crew.start(stop)?;
    let window = crew.window(spec, stop, &all, on);
    // No socket call blocks for longer than SOCKET_TIMEOUT, so nothing needs to be cut.
    crew.finish(window.interrupted, stop, || {});
    let homes = crew.home(window.seconds);
    let total = clock::monotonic().saturating_sub(started).as_secs_f64();
    Ok(result(&window, total, &lanes, homes))
}

/// A pair of sockets, each connected to where the other appears from its side.
fn connect(
    ends: &Ends,
    spec: &LoadSpec,
    direction: Direction,
    deadline: Duration,
    stop: &AtomicBool,
) -> Result<Pair> {
    let here = SocketAddr::new(ends.wan_address, 0);
    let any: SocketAddr = if here.is_ipv6() { ([0u16; 8], 0).into() } else { ([0u8; 4], 0).into() };
    let what = format!("open a UDP flow to {}", ends.wan_address);
    let wan = inside(&ends.wan, &what, move || UdpSocket::bind(here))?;
    let lan = inside(&ends.lan, &what, move || UdpSocket::bind(any))?;
    let failed = |e: io::Error| Error::new(ExitCode::Refused, what.clone(), e);
    for socket in [&wan, &lan] {
        socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(failed)?;
        socket.set_write_timeout(Some(SOCKET_TIMEOUT)).map_err(failed)?;
    }
    lan.connect(wan.local_addr().map_err(failed)?).map_err(failed)?;
    let sending = if direction == Direction::Down { &ends.wan } else { &ends.lan };
    let listener = match spec.sender {
        Sender::Socket => None,
        Sender::Frames => {
            frames::check(ends.wan_address)
                .map_err(|e| Error::not_supported("send ready-made frames", e))?;
            Some(Listener::open(sending)?)
        }
    };
    let hello = message(HELLO, 0);
    let mut buffer = [0u8; HEADER];
    loop {
        still_waiting(deadline, stop, &what)?;
        // A refusal (ICMP) of an earlier HELLO may surface at any call: try again until time is up.
        if lan.send(&hello).is_err() {
            clock::sleep(Duration::from_millis(20));
            continue;
        }
        let Ok((_, peer)) = wan.recv_from(&mut buffer) else { continue };
        if kind(&buffer) == Some((HELLO, 0)) {
            wan.connect(peer).map_err(failed)?;
            break;
        }
    }
    // The way back must be open too, or the report could never arrive.
    while clock::monotonic() < deadline && !stop.load(Ordering::Relaxed) {
        if wan.send(&hello).is_ok()
            && lan.recv(&mut buffer).is_ok()
            && kind(&buffer) == Some((HELLO, 0))
        {
            let (from, to) = match direction {
                Direction::Down => (wan, lan),
                Direction::Up | Direction::Both => (lan, wan),
            };
            let port = from.local_addr().map_err(failed)?.port();
            let way = match listener {
                None => None,
                Some(seen) => Some(seen.way(sending, port, spec.datagram, deadline, stop)?),
            };
            let pair = Pair { from, to, way };
            pair.from.set_read_timeout(Some(SOCKET_TIMEOUT)).map_err(failed)?;
            pair.to.set_read_timeout(Some(SOCKET_TIMEOUT / 2)).map_err(failed)?;
            receive_buffer(&pair.to);
            return Ok(pair);
        }
    }
    Err(Error::new(ExitCode::Refused, what, "no way back from the WAN in time"))
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

fn send(pair: &Pair, moved: &Moved, size: usize, rate: Option<f64>, shift: &mut Shift) -> Outcome {
    let mut outcome = Outcome::default();
    let socket = &pair.from;
    let padding = vec![0x5a; size.saturating_sub(HEADER)];
    let batch = rate.map_or(BATCH, |r| ((r * 0.001 / size as f64) as usize).clamp(1, BATCH));
    let started = clock::monotonic();
    let mut next = 0u64;
    let mut earliest = started;
    while shift.sending() {
        shift.tick();
        if let Some(rate) = rate {
            shift.pause_until(due(started, next * size as u64, rate).max(earliest));
            earliest = due(clock::monotonic(), (batch * size) as u64, rate * CATCH_UP);
        }
        let burst = match &pair.way {
            None => burst(socket, next, batch, &padding),
            Some(way) => way.burst(next, batch, &padding),
        };
        match burst {
            Ok(sent) => {
                next += sent as u64;
                moved.sent.add((sent * size) as u64);
            }
            // An ICMP error of an earlier datagram, or no buffer for a moment: that one is lost, as
            // the receiver's count will show.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::CONNREFUSED) => {}
            Err(error) => {
                outcome.error = Some(error.into());
                break;
            }
        }
    }
    let mut answer = [0u8; REPORT];
    for _ in 0..END_TRIES {
        if shift.aborted() {
            break;
        }
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

fn receive(socket: &UdpSocket, moved: &Moved, shift: &mut Shift) -> Outcome {
    let mut outcome = Outcome::default();
    let mut seen = Seen::default();
    let mut buffer = [0u8; HEADER];
    while !shift.aborted() {
        shift.tick();
        // The real length is told although only the header is copied.
        match rustix::net::recv(socket, &mut buffer, RecvFlags::TRUNC) {
            Ok((_, length)) => match kind(&buffer) {
                Some((DATA, number)) if length >= HEADER && seen.take(number) => {
                    moved.got.add(length as u64);
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
                if shift.senders_gone() {
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

/// Which numbers have arrived.
///
/// The last [`Seen::SPAN`] numbers are remembered one by one; one that comes later than that is
/// counted as a duplicate, so that what is lost is never told too small. No queue on the way is as
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
