//! Cost of a payload on an Ethernet link, and the ceilings that follow.
//!
//! ```text
//!   preamble and start  Ethernet   IP packet ......................  FCS  gap between frames
//!        8                 14      20 IPv4 + 20 TCP + 12 + payload    4       12
//!                      └──────────────── frame ──────────────────────┘
//!   └──────────────────────────────── on the wire: frame + 20 ──────────────────────────────┘
//! ```
//!
//! A *frame* is what RFC 2544 calls so: from the destination address to the FCS. The sizes are those
//! of IEEE 802.3 (4A.4.2: gap and preamble; 3.4: frame), IEEE 802.1Q (tag), RFC 2516 (PPPoE) and
//! drivers/net/wireguard (`MESSAGE_MINIMUM_LENGTH`, `skb_padding`).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::units::BitRate;

/// Preamble with start delimiter, and the gap between two frames.
const BETWEEN_FRAMES: u32 = 8 + 12;
/// Addresses and type.
const ETHERNET: u32 = 14;
/// Frame check sequence.
const FCS: u32 = 4;
/// Shorter frames are padded.
const SHORTEST_FRAME: u32 = 64;
const VLAN_TAG: u32 = 4;
/// PPPoE header (6) and PPP protocol (2); within the MTU of the Ethernet device.
const PPPOE: u32 = 8;
const IPV4: u32 = 20;
const TCP: u32 = 20;
const UDP: u32 = 8;
/// The timestamp option with its padding, on every segment of a usual connection.
const TCP_TIMESTAMPS: u32 = 12;
/// Outer IPv4 and UDP, message header (16) and authentication tag (16).
const WIREGUARD_OVER_IPV4: u32 = IPV4 + UDP + 32;
/// Bytes that wg's devices leave free of the lower MTU: enough for IPv6 outside (1500 gives 1420).
const WIREGUARD_MTU_ROOM: u32 = 80;

/// Packets per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PacketRate(pub f64);

impl PacketRate {
    /// Rate of `packets` moved in `seconds`; zero when no time has passed.
    #[must_use]
    pub fn of(packets: u64, seconds: f64) -> Self {
        if seconds > 0.0 { Self(packets as f64 / seconds) } else { Self(0.0) }
    }

    /// Bits per second of `bytes` in each packet.
    #[must_use]
    pub fn bits(self, bytes: u32) -> BitRate {
        BitRate(self.0 * f64::from(bytes) * 8.0)
    }
}

impl fmt::Display for PacketRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} packets/s", self.0)
    }
}

/// An Ethernet frame: bytes with header and FCS, without preamble and gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frame(pub u32);

impl Frame {
    /// The frame of an IP packet of so many bytes.
    #[must_use]
    pub fn of_ip_packet(bytes: u32) -> Self {
        Self(bytes.saturating_add(ETHERNET + FCS).max(SHORTEST_FRAME))
    }

    /// The frame of a UDP datagram over IPv4 with so many bytes of payload.
    #[must_use]
    pub fn of_udp_payload(bytes: u32) -> Self {
        Self::of_ip_packet(bytes.saturating_add(IPV4 + UDP))
    }

    /// The frame of a full TCP segment over IPv4. The MSS counts the options in (RFC 6691).
    #[must_use]
    pub fn of_mss(mss: u32) -> Self {
        Self::of_ip_packet(mss.saturating_add(IPV4 + TCP))
    }

    /// Payload of the UDP datagram over IPv4 that fills this frame.
    #[must_use]
    pub fn udp_payload(self) -> u32 {
        self.0.saturating_sub(ETHERNET + FCS + IPV4 + UDP)
    }

    /// Bytes of time that it takes on the wire.
    #[must_use]
    pub fn wire_bytes(self) -> u32 {
        self.0.saturating_add(BETWEEN_FRAMES)
    }

    /// How many of them a link can carry.
    #[must_use]
    pub fn most_per_second(self, link: BitRate) -> PacketRate {
        PacketRate(link.0 / (8.0 * f64::from(self.wire_bytes())))
    }
}

/// Encapsulation between IP and the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// Nothing: IP in Ethernet.
    Plain,
    /// One 802.1Q tag.
    Vlan,
    /// PPPoE; the packets inside have 8 bytes less.
    Pppoe,
    /// PPPoE in a VLAN, as most fibre lines have it.
    PppoeVlan,
    /// WireGuard over IPv4; the tunnel's MTU is 80 below.
    WireGuard,
}

impl Encapsulation {
    /// Largest IP packet inside, where the Ethernet device takes `mtu` bytes.
    #[must_use]
    pub fn inner_mtu(self, mtu: u32) -> u32 {
        mtu.saturating_sub(match self {
            Self::Plain | Self::Vlan => 0,
            Self::Pppoe | Self::PppoeVlan => PPPOE,
            Self::WireGuard => WIREGUARD_MTU_ROOM,
        })
    }

    /// The frame of an IP packet of so many bytes inside. WireGuard pads to 16 bytes, but not beyond
    /// the tunnel's MTU: a full packet has no padding.
    #[must_use]
    pub fn frame(self, inner: u32) -> Frame {
        let (tag, around) = match self {
            Self::Plain => (0, 0),
            Self::Vlan => (VLAN_TAG, 0),
            Self::Pppoe => (0, PPPOE),
            Self::PppoeVlan => (VLAN_TAG, PPPOE),
            Self::WireGuard => (0, WIREGUARD_OVER_IPV4),
        };
        let untagged = Frame::of_ip_packet(inner.saturating_add(around));
        Frame(untagged.0.saturating_add(tag))
    }
}

/// The most TCP payload (IPv4, timestamps, full segments) that a link of this rate carries, where
/// its Ethernet devices take packets of `mtu` bytes.
#[must_use]
pub fn tcp_ceiling(link: BitRate, encapsulation: Encapsulation, mtu: u32) -> BitRate {
    let inner = encapsulation.inner_mtu(mtu);
    encapsulation.frame(inner).most_per_second(link).bits(tcp_payload(encapsulation, mtu))
}

/// Payload of a full TCP segment (IPv4, timestamps) inside, bytes.
#[must_use]
pub fn tcp_payload(encapsulation: Encapsulation, mtu: u32) -> u32 {
    encapsulation.inner_mtu(mtu).saturating_sub(IPV4 + TCP + TCP_TIMESTAMPS)
}

/// The most UDP payload (IPv4, full datagrams) that such a link carries.
#[must_use]
pub fn udp_ceiling(link: BitRate, encapsulation: Encapsulation, mtu: u32) -> BitRate {
    let inner = encapsulation.inner_mtu(mtu);
    encapsulation.frame(inner).most_per_second(link).bits(inner.saturating_sub(IPV4 + UDP))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: BitRate = BitRate(1e9);

    #[test]
    fn a_gigabit_carries_what_every_table_says_it_does() {
        for (frame, packets) in [(64, 1_488_095), (512, 234_962), (1518, 81_274)] {
            let rate = Frame(frame).most_per_second(GIGABIT);
            assert_eq!(rate.0.floor() as u64, packets, "{frame} bytes: {rate}");
        }
    }

    #[test]
    fn the_ceiling_of_udp_is_a_full_datagram_at_a_time() {
        let ours = udp_ceiling(GIGABIT, Encapsulation::Plain, 1500).mbps();
        assert!((ours - 81_274.4 * 1472.0 * 8.0 / 1e6).abs() < 0.01, "{ours}");
        assert_eq!(udp_ceiling(GIGABIT, Encapsulation::Plain, 20), BitRate(0.0));
    }

    #[test]
    fn ceilings_of_tcp_are_those_of_the_field() {
        use Encapsulation::*;
        for (what, ceiling) in
            [(Plain, 941.5), (Vlan, 939.0), (Pppoe, 936.3), (PppoeVlan, 933.9), (WireGuard, 901.2)]
        {
            let ours = tcp_ceiling(GIGABIT, what, 1500).mbps();
            assert!((ours - ceiling).abs() <= 0.0501, "{what:?}: {ours} and {ceiling}");
        }
        assert_eq!(WireGuard.inner_mtu(1500), 1420);
        assert_eq!(Pppoe.inner_mtu(1500), 1492);
    }

    #[test]
    fn the_smallest_segment_takes_166_bytes_of_wire() {
        let frame = Frame::of_mss(88);
        assert_eq!((frame, frame.wire_bytes()), (Frame(146), 166));
        assert_eq!(frame.most_per_second(GIGABIT).0.round() as u64, 753_012);
    }

    #[test]
    fn payload_and_frame_of_a_datagram_belong_together() {
        for size in [64, 128, 256, 512, 1024, 1280, 1518] {
            assert_eq!(Frame::of_udp_payload(Frame(size).udp_payload()), Frame(size));
        }
        assert_eq!(Frame(64).udp_payload(), 18);
        assert_eq!(Frame::of_udp_payload(1), Frame(64), "what is shorter is padded");
        assert_eq!(Frame(10).udp_payload(), 0);
        assert_eq!(Frame::of_ip_packet(u32::MAX).wire_bytes(), u32::MAX);
        assert_eq!(tcp_ceiling(GIGABIT, Encapsulation::WireGuard, 68), BitRate(0.0));
    }
}
