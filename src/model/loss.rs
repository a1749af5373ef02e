//! Counters of lost packets from the wire to the wire, as they were read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::snapshot::Gap;

/// The kernel's place of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// `/sys/class/net/<device>/statistics`, `carrier_changes`, and `tx_timeout` of the queues.
    Device,
    /// A driver's own counters (`ethtool -S`) that tell of loss.
    Driver,
    /// `/proc/net/softnet_stat`, column 2: of the whole machine.
    Softnet,
    /// A rule or a policy of netfilter that drops.
    Rule,
    /// `/proc/net/stat/nf_conntrack`.
    Conntrack,
    /// `/proc/net/stat/rt_cache`: of the whole machine.
    RouteCache,
    /// `/proc/net/snmp`, `Ip`.
    Ip,
    /// `/proc/net/netstat`, `IpExt` and `TcpExt`.
    Netstat,
    /// `/proc/net/snmp6`.
    Ip6,
    /// `/proc/net/snmp`, `Udp`.
    Udp,
    /// `/proc/net/stat/arp_cache` and `ndisc_cache`: of the whole machine.
    Neighbour,
    /// A queueing discipline.
    Qdisc,
}

impl Source {
    /// True if the counter covers all network namespaces of the machine together.
    #[must_use]
    pub fn is_machine_wide(self) -> bool {
        matches!(self, Self::Softnet | Self::RouteCache | Self::Neighbour)
    }
}

/// Identity of a counter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counter {
    /// The kernel's place.
    pub source: Source,
    /// Device, CPU, rule, queue or table; empty where there is only one.
    pub place: String,
    /// The kernel's name.
    pub name: String,
}

/// All counters at one moment, zeros included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// Values.
    pub counts: BTreeMap<Counter, u64>,
    /// Rules and policies that drop and count nothing.
    pub uncounted: Vec<String>,
    /// Facts that could not be read.
    pub gaps: Vec<Gap>,
}

impl Reading {
    /// Adds a value.
    pub fn add(&mut self, source: Source, place: &str, name: &str, value: u64) {
        let counter = Counter { source, place: place.to_owned(), name: name.to_owned() };
        self.counts.insert(counter, value);
    }
}

/// Stretch of a packet's way that a rule of netfilter stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leg {
    /// Before IP: ingress hooks and bridges.
    Early,
    /// Between IP's count of received packets and its decision: prerouting, input.
    In,
    /// The forward hook.
    Forward,
    /// Behind the decision: output, postrouting.
    Out,
}

impl Leg {
    /// Name, which is that of the counter in a [`Reading`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Early => "early",
            Self::In => "in",
            Self::Forward => "forward",
            Self::Out => "out",
        }
    }
}

/// A rule or a policy of netfilter that drops packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropRule {
    /// Place in words that lead to it: `nft inet fw4 forward handle 12`.
    pub place: String,
    /// Stretch that it stands on.
    pub leg: Leg,
    /// True if IPv6 packets alone meet it.
    #[serde(default)]
    pub ipv6: bool,
    /// Packets that it dropped; `None` where it counts nothing.
    pub packets: Option<u64>,
}

/// Counters of a queueing discipline.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QdiscCounts {
    /// Device name.
    pub device: String,
    /// Kind: `fq_codel`, `tbf`, ...
    pub kind: String,
    /// Place under the device: `root`, `queue 3`, `class 1:10`, `ingress`.
    pub place: String,
    /// True if one above it counts its packets as well.
    pub inner: bool,
    /// Rate that a `tbf` shapes to in bit/s.
    pub rate: Option<u64>,
    /// Packets dropped.
    pub drops: u32,
    /// Packets that came when the rate was used up.
    pub overlimits: u32,
    /// Packets that the driver gave back.
    pub requeues: u32,
}

/// Counters of a device's `statistics` that tell of loss, or of packets at all.
pub const DEVICE: &[&str] = &[
    "rx_packets",
    "tx_packets",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_length_errors",
    "rx_errors",
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_dropped",
    "rx_nohandler",
    "tx_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "tx_dropped",
    "collisions",
];
