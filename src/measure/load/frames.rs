//! Datagrams as whole Ethernet frames.
//!
//! Addresses are not looked up: the other side's HELLO has come this way, so the way back is its
//! headers with source and destination exchanged.
//!
//! They leave by AF_XDP where that can be had for all streams of a side, each by a transmit queue
//! of its own, and else by AF_PACKET; the result says which of them it was.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::half::SocketPlace;
use super::udp::{BATCH, DATA, HEADER, PADDING, kind, message};
use super::{Sender, still_waiting};
use crate::error::{Error, Result};
use crate::machine::host::clock;
use crate::machine::sys::packet::PacketSocket;
use crate::machine::sys::xsk::XdpSender;

/// Ethernet, IPv4 without options, UDP.
pub(super) const PREFIX: usize = 14 + 20 + 8;
/// Bytes in which the frames of a flow differ: all up to the end of the datagram's number.
const HEAD: usize = PREFIX + HEADER;

/// Listens for the other side's HELLO; to be opened before it is sent.
pub(super) struct Listener(PacketSocket);

/// The other side of one flow, as seen from the Ethernet device.
pub(super) struct Way {
    ifindex: u32,
    template: Template,
}

/// Head of a flow's frames, and the sums of what is the same in all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Template {
    head: [u8; HEAD],
    ip: u32,
    udp: u32,
}

impl Template {
    /// For datagrams of `size` bytes behind these headers.
    fn new(prefix: &[u8; PREFIX], size: usize) -> Self {
        let mut head = [0; HEAD];
        head[..PREFIX].copy_from_slice(prefix);
        head[PREFIX..].copy_from_slice(&message(DATA, 0));
        (head[24], head[25]) = (0, 0);
        let padding = u32::from(PADDING);
        let rest = u32::try_from(size.saturating_sub(HEADER)).unwrap_or(0);
        let rest = rest / 2 * (padding << 8 | padding) + rest % 2 * (padding << 8);
        // The addresses, the protocol and the length once more are the pseudo-header (RFC 768).
        let pseudo = words(&head[26..34]) + 17 + words(&head[38..40]);
        let udp = pseudo + words(&head[34..]) + rest;
        Self { head, ip: words(&head[14..34]), udp }
    }

    /// Writes the head of the frame with that number: its identification is the number's end, and both
    /// checksums are right.
    fn stamp(&self, number: u64, head: &mut [u8; HEAD]) {
        *head = self.head;
        let bytes = number.to_be_bytes();
        head[18..20].copy_from_slice(&bytes[6..]);
        head[24..26].copy_from_slice(&folded(self.ip + words(&bytes[6..])).to_be_bytes());
        // 0 would say that there is none.
        let udp = match folded(self.udp + words(&bytes)) {
            0 => u16::MAX,
            sum => sum,
        };
        head[40..42].copy_from_slice(&udp.to_be_bytes());
        head[HEAD - 8..].copy_from_slice(&bytes);
    }
}

/// Kernel interface by which frames leave.
pub(super) enum Exit {
    Packet(PacketSocket, Template),
    Xdp(XdpSender, Template),
}

/// Number of times that the end of a run checks if all frames have left, and the pause in between.
const LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_millis(1);
/// A queue is given back a moment after its socket was closed, by a work item of the kernel
/// (net/xdp/xsk_buff_pool.c `xp_release_deferred`): the last run's would look taken.
const GIVEN_BACK: Duration = Duration::from_millis(500);

impl Listener {
    pub(super) fn open(place: &SocketPlace) -> Result<Self> {
        place.inside("open a packet socket", PacketSocket::open).map(Self)
    }

    /// The way back of what has come to our port from the partner, for datagrams of `size` bytes.
    pub(super) fn way(
        self,
        (port, peer): (u16, Option<SocketAddr>),
        size: usize,
        deadline: Duration,
        stop: &AtomicBool,
    ) -> Result<Way> {
        let what = "find the Ethernet way to the other side";
        loop {
            let frame = self.0.next().map_err(|e| Error::not_supported(what, e))?;
            let Some(frame) = frame else {
                still_waiting(deadline, stop, what)?;
                clock::sleep(Duration::from_millis(1));
                continue;
            };
            if let Some(prefix) = way_back(&frame.bytes, (port, peer), size) {
                let template = Template::new(&prefix, size);
                return Ok(Way { ifindex: frame.ifindex, template });
            }
        }
    }
}

/// Opens an exit for the frames of each stream of one side, in their order, and names its kind.
///
/// # Errors
/// The error of the packet socket.
pub(super) fn exits(
    place: &SocketPlace,
    ways: Vec<Way>,
    sender: Sender,
    size: usize,
) -> Result<(Vec<Exit>, String)> {
    let mut word = "AF_PACKET".to_owned();
    // Cheaper at every size that it takes (benches/generators.rs, `exits`).
    if sender != Sender::Packet {
        match by_xdp(place, &ways, size) {
            Ok(exits) => return Ok((exits, "AF_XDP in copy mode".to_owned())),
            Err((queue, error)) => {
                let why = match Errno::from_io_error(&error) {
                    Some(Errno::AFNOSUPPORT) => "this kernel lacks CONFIG_XDP_SOCKETS".to_owned(),
                    Some(Errno::INVAL) if queue > 0 => format!(
                        "each of the {} streams needs a transmit queue of its own, and there are \
                         {queue}",
                        ways.len()
                    ),
                    _ => format!("transmit queue {queue}: {error}"),
                };
                word = format!("{word}, as AF_XDP could not be had ({why})");
            }
        }
    }
    let by_packet = |way: Way| {
        let open = move || PacketSocket::sender(way.ifindex);
        Ok(Exit::Packet(place.inside("open a packet socket", open)?, way.template))
    };
    Ok((ways.into_iter().map(by_packet).collect::<Result<_>>()?, word))
}

fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}

fn by_xdp(
    place: &SocketPlace,
    ways: &[Way],
    size: usize,
) -> std::result::Result<Vec<Exit>, (u32, io::Error)> {
    let mut exits = Vec::new();
    for (queue, way) in (0..).zip(ways) {
        let mut frame = way.template.head.to_vec();
        frame.resize(PREFIX + size, PADDING);
        let ifindex = way.ifindex;
        let patience = clock::monotonic() + GIVEN_BACK;
        let sender = loop {
            let frame = frame.clone();
            let open = move || Ok(XdpSender::open(ifindex, queue, &frame, HEAD));
            let opened = place.inside("open an XDP socket", open);
            match opened.map_err(|e| (queue, io::Error::other(e)))? {
                Err(e) if is_busy(&e) && clock::monotonic() < patience => clock::sleep(LOOK),
                opened => break opened.map_err(|e| (queue, e))?,
            }
        };
        exits.push(Exit::Xdp(sender, way.template));
    }
    Ok(exits)
}

impl Exit {
    /// Sends up to `count` datagrams from number `first` on; returns how many went.
    pub(super) fn burst(
        &mut self,
        first: u64,
        count: usize,
        padding: &[u8],
    ) -> std::result::Result<usize, Errno> {
        let (socket, template) = match self {
            Self::Xdp(sender, template) => {
                let stamp = |number, head: &mut [u8]| {
                    if let Ok(head) = head.try_into() {
                        template.stamp(number, head);
                    }
                };
                return sender.send(first, count.min(BATCH), stamp);
            }
            Self::Packet(socket, template) => (socket, template),
        };
        let headers = (first..).take(count.min(BATCH)).map(|number| {
            let mut head = [0; HEAD];
            template.stamp(number, &mut head);
            head
        });
        let headers: Vec<[u8; HEAD]> = headers.collect();
        let slices: Vec<[IoSlice<'_>; 2]> =
            headers.iter().map(|h| [IoSlice::new(h), IoSlice::new(padding)]).collect();
        let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
            headers.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<MMsgHdr<'_>> =
            slices.iter().zip(&mut controls).map(|(s, c)| MMsgHdr::new(s, c)).collect();
        sendmmsg(socket, &mut messages, SendFlags::DONTWAIT)
    }

    /// Number of the last datagrams that never left, after a short wait for them.
    pub(super) fn left(&mut self) -> std::result::Result<u32, Errno> {
        let Self::Xdp(sender, _) = self else { return Ok(0) };
        for _ in 0..LOOKS {
            if sender.left()? == 0 {
                return Ok(0);
            }
            clock::sleep(LOOK);
        }
        sender.left()
    }
}

/// Headers of the way back of one of our messages from `peer` to `port`; `None` for any other frame.
fn way_back(
    frame: &[u8],
    (port, peer): (u16, Option<SocketAddr>),
    size: usize,
) -> Option<[u8; PREFIX]> {
    let head: &[u8; PREFIX] = frame.first_chunk()?;
    let to = head.get(..6)?;
    let from = head.get(6..12)?;
    let ip = head.get(14..34)?;
    let udp = head.get(34..)?;
    let plain_udp = head.get(12..14)? == [8, 0] && *ip.first()? == 0x45 && *ip.get(9)? == 17;
    let to_port = u16::from_be_bytes([*udp.get(2)?, *udp.get(3)?]);
    let from_port = u16::from_be_bytes([*udp.first()?, *udp.get(1)?]);
    let sender = Ipv4Addr::new(*ip.get(12)?, *ip.get(13)?, *ip.get(14)?, *ip.get(15)?);
    let is_peer = peer.is_some_and(|p| p == SocketAddr::from((sender, from_port)));
    if !plain_udp || to_port != port || !is_peer || kind(frame.get(PREFIX..)?).is_none() {
        return None;
    }
    let length = |header: usize| u16::try_from(header + size).map(u16::to_be_bytes).ok();
    let mut way = Vec::with_capacity(PREFIX);
    way.extend_from_slice(from);
    way.extend_from_slice(to);
    way.extend_from_slice(&[8, 0]);
    let mut back = Vec::with_capacity(20);
    back.extend_from_slice(&[0x45, 0]);
    back.extend_from_slice(&length(28)?);
    // No identification, don't fragment, 64 hops, UDP, checksum to come.
    back.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
    back.extend_from_slice(ip.get(16..20)?);
    back.extend_from_slice(ip.get(12..16)?);
    let sum = checksum(&back);
    way.extend_from_slice(back.get(..10)?);
    way.extend_from_slice(&sum.to_be_bytes());
    way.extend_from_slice(back.get(12..)?);
    way.extend_from_slice(udp.get(2..4)?);
    way.extend_from_slice(udp.get(..2)?);
    way.extend_from_slice(&length(8)?);
    // The checksum depends on the payload's number.
    way.extend_from_slice(&[0, 0]);
    way.try_into().ok()
}

/// RFC 1071, over whole words.
fn checksum(bytes: &[u8]) -> u16 {
    folded(words(bytes))
}

/// Sum of 16-bit words; of up to 65536 of them it does not overflow.
fn words(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2).map(|w| match w {
        [a, b] => u32::from(u16::from_be_bytes([*a, *b])),
        _ => 0,
    });
    words.sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Checks that ready-made frames can be sent to `address`.
pub(super) fn check(address: std::net::IpAddr) -> io::Result<()> {
    if address.is_ipv4() {
        return Ok(());
    }
    Err(io::Error::other("ready-made frames are IPv4 only"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::partner::HELLO;
    use super::*;

    fn from(port: u16) -> (u16, Option<SocketAddr>) {
        (port, Some("198.18.2.2:4000".parse().unwrap()))
    }

    /// A HELLO from 198.18.2.2:4000 to 198.18.1.2:5000, as it came off the wire.
    fn hello() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 44, 0x12, 0x34, 0x40, 0, 63, 17, 0, 0]);
        frame.extend([198, 18, 2, 2, 198, 18, 1, 2]);
        frame.extend([0x0f, 0xa0, 0x13, 0x88, 0, 24, 0xab, 0xcd]);
        frame.extend(message(HELLO, 0));
        frame
    }

    #[test]
    fn the_way_back_is_the_way_here_turned_round() {
        let way = way_back(&hello(), from(5000), 18).unwrap();
        assert_eq!(&way[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        assert_eq!(&way[26..34], [198, 18, 1, 2, 198, 18, 2, 2]);
        assert_eq!(&way[34..], [0x13, 0x88, 0x0f, 0xa0, 0, 26, 0, 0]);
        assert_eq!(u16::from_be_bytes([way[16], way[17]]), 46, "IP and UDP headers and 18 bytes");
        // A header with its checksum sums to nothing (RFC 1071).
        assert_eq!(checksum(&way[14..34]), 0);
        assert_eq!(way_back(&hello(), from(5001), 18), None, "another flow's");
        let stranger = (5000, Some("198.18.2.3:4000".parse().unwrap()));
        assert_eq!(way_back(&hello(), stranger, 18), None, "of somebody else");
        assert_eq!(way_back(&hello(), from(5000), 70_000), None, "no datagram is as long");
    }

    proptest! {
        #[test]
        fn every_frame_has_an_identification_and_right_checksums(number: u64, size in 16_usize..1473) {
            let template = Template::new(&way_back(&hello(), from(5000), size).unwrap(), size);
            let mut head = [0; HEAD];
            template.stamp(number, &mut head);
            prop_assert_eq!(kind(&head[PREFIX..]), Some((DATA, number)));
            prop_assert_eq!(&head[18..20], &(number as u16).to_be_bytes());
            // A header with its checksum sums to nothing (RFC 1071), also with the pseudo-header.
            prop_assert_eq!(checksum(&head[14..34]), 0);
            let mut all = [&head[26..34], &[0, 17], &head[38..40], &head[34..]].concat();
            all.resize(all.len() + size - HEADER, PADDING);
            all.resize(all.len().next_multiple_of(2), 0);
            prop_assert_eq!(checksum(&all), 0);
            prop_assert!(head[40..42] != [0, 0]);
        }

        #[test]
        fn any_frame_is_survived(bytes: Vec<u8>, size in 0_usize..70_000) {
            way_back(&bytes, from(5000), size);
        }
    }
}
