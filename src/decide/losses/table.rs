//! Meaning of each counter: its stage, whether it counts lost packets, and what to do about it.

use serde::Serialize;

use crate::model::loss::Source;

/// Stages in the order that a packet meets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Cable, optics, PHY and MAC.
    Wire,
    /// The card's memory and its receive ring.
    Ring,
    /// Programs of XDP.
    Xdp,
    /// The driver, and the kernel's first step behind it.
    Driver,
    /// The backlog of a CPU.
    Backlog,
    /// The backlog of a CPU that RPS hands packets to.
    RpsBacklog,
    /// Filters at ingress, before IP.
    Ingress,
    /// The header of the packet.
    Ip,
    /// Connection tracking.
    Conntrack,
    /// Rules of netfilter.
    Netfilter,
    /// The routing decision.
    Routing,
    /// Sockets of this machine.
    Socket,
    /// Resolution of the neighbour's hardware address.
    Neighbour,
    /// Queueing disciplines.
    Qdisc,
    /// The driver and the card, sending.
    Transmit,
    /// The link as a whole.
    Link,
}

impl Stage {
    /// Words for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Wire => "wire (PHY, CRC)",
            Self::Ring => "receive ring",
            Self::Xdp => "XDP",
            Self::Driver => "driver, receiving",
            Self::Backlog => "backlog",
            Self::RpsBacklog => "backlog of RPS",
            Self::Ingress => "ingress filters",
            Self::Ip => "IP header",
            Self::Conntrack => "connection tracking",
            Self::Netfilter => "netfilter rules",
            Self::Routing => "routing",
            Self::Socket => "sockets here",
            Self::Neighbour => "neighbours",
            Self::Qdisc => "queueing discipline",
            Self::Transmit => "driver, sending",
            Self::Link => "link",
        }
    }
}

/// Whether a counter counts lost packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Each is a packet lost.
    Lost,
    /// Each is a packet that a rule drops on purpose.
    ByRule,
    /// A part of another counter, or the same packets in other words.
    Detail,
    /// Pressure, or an event: no packet is lost by it alone.
    Sign,
    /// A packet for this machine that no program took.
    Consumed,
}

/// Stretch of the way that the ledger sums up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// From the wire to IP.
    Before,
    /// From IP's count of received packets to its decision.
    Ip,
    /// The forward hook and the check of the MTU. Kernels differ in whether such a packet counts as
    /// forwarded.
    Forward,
    /// Behind the decision.
    Behind,
}

/// Meaning of a counter.
pub(super) struct Class {
    pub(super) source: Source,
    pub(super) name: &'static str,
    pub(super) stage: Stage,
    pub(super) kind: Kind,
    pub(super) part: Part,
    pub(super) means: &'static str,
    pub(super) remedy: &'static str,
}

const fn class(
    source: Source,
    name: &'static str,
    stage: Stage,
    kind: Kind,
    part: Part,
    words: [&'static str; 2],
) -> Class {
    let [means, remedy] = words;
    Class { source, name, stage, kind, part, means, remedy }
}

const DAMAGED: [&str; 2] = [
    "the frame was damaged on the way, or has an impossible length",
    "replace the cable or the module, compare speed and duplex of both ends, look at the other end's counters",
];
const RING: [&str; 2] = [
    "the card had no free descriptor: the CPU that polls the queue came too late",
    "spread the queues over CPUs (linerate plan), then enlarge the receive ring (ethtool -G)",
];
const SENDING: [&str; 2] = [
    "the driver or the card could not send the packet",
    "look at the link and at the kernel's log (dmesg)",
];
const HEADER: [&str; 2] = [
    "the header is invalid, or the TTL ran out",
    "look for a routing loop (traceroute) and for whoever sends such packets (tcpdump)",
];
const TRUNCATED: [&str; 2] =
    ["the packet is shorter than its header says", "look for a broken sender"];
const ADDRESS: [&str; 2] = [
    "the packet is for an address that this machine neither has nor forwards to",
    "switch forwarding on if this is a router; look for wrong routes of the neighbours",
];
const NO_ROUTE: [&str; 2] = [
    "the routing table has no way to the destination",
    "add the route, or a default route; with a VPN or several uplinks look at the rules too (ip rule)",
];
const NO_MEMORY: [&str; 2] = [
    "the kernel had no memory for the packet, or IPv6 is off on the device",
    "look at free memory and at net.ipv6.conf.<device>.disable_ipv6",
];
const NO_PROTOCOL: [&str; 2] = [
    "the packet is for this machine, in a protocol that nobody here speaks",
    "nothing, unless a tunnel should take it",
];
const TOO_BIG: [&str; 2] = [
    "the packet is larger than the outgoing MTU and must not be fragmented; the sender is told by ICMP",
    "let ICMP through, clamp TCP's segment size to the path's MTU, or make the MTUs equal",
];
const NEIGHBOUR: [&str; 2] = [
    "the queue of packets that wait for the neighbour's hardware address was full",
    "find out why the neighbour does not answer; net.ipv4.neigh.default.unres_qlen_bytes is the queue",
];
const SENT_NO_ROUTE: [&str; 2] = [
    "a packet of this machine had no route",
    "add the route that this machine's own programs need",
];
const SENT_DISCARDED: [&str; 2] = [
    "a packet was thrown away behind the routing decision: no memory, or the device refused it",
    "look at the queueing discipline and at the device that it leaves by",
];
const BY_RULE: [&str; 2] = [
    "a rule or a policy of the firewall drops it",
    "nothing, if the rule is meant; the place names it (nft -a list ruleset, iptables -vnL)",
];

/// Counters with what they mean. Names that are not here tell of no loss.
pub(super) const CLASSES: &[Class] = {
    use Kind::{ByRule, Consumed, Detail, Lost, Sign};
    use Part::{Before, Behind, Forward, Ip as InIp};
    use Source::{Conntrack, Device, Ip, Ip6, Neighbour, Netstat, RouteCache, Rule, Softnet, Udp};
    use Stage as S;
    &[
        class(Device, "rx_crc_errors", S::Wire, Lost, Before, DAMAGED),
        class(Device, "rx_frame_errors", S::Wire, Lost, Before, DAMAGED),
        class(Device, "rx_length_errors", S::Wire, Lost, Before, DAMAGED),
        class(Device, "rx_errors", S::Wire, Lost, Before, DAMAGED),
        class(
            Device,
            "collisions",
            S::Wire,
            Sign,
            Behind,
            ["half duplex: two ends sent at once", "full duplex on both ends"],
        ),
        class(Device, "rx_missed_errors", S::Ring, Lost, Before, RING),
        class(Device, "rx_fifo_errors", S::Ring, Lost, Before, RING),
        class(Device, "rx_over_errors", S::Ring, Lost, Before, RING),
        class(
            Device,
            "rx_dropped",
            S::Driver,
            Lost,
            Before,
            [
                "the kernel took the frame and dropped it before IP: a full backlog, no memory, or a \
             protocol that nobody here speaks (STP, LLDP, an unknown VLAN)",
                "compare with the backlogs below; tcpdump shows the protocols",
            ],
        ),
        class(
            Device,
            "rx_nohandler",
            S::Driver,
            Sign,
            Before,
            ["frames for a standby port of a bond or a bridge", "nothing"],
        ),
        class(
            Softnet,
            "dropped",
            S::Backlog,
            Detail,
            Before,
            [
                "the backlog of that CPU was full (net.core.netdev_max_backlog); counted with rx_dropped of \
             the device",
                "spread the work over more CPUs (linerate plan), then enlarge net.core.netdev_max_backlog",
            ],
        ),
        class(Rule, "early", S::Ingress, ByRule, Before, BY_RULE),
        class(Rule, "early6", S::Ingress, ByRule, Before, BY_RULE),
        class(Ip, "InHdrErrors", S::Ip, Lost, InIp, HEADER),
        class(Netstat, "InCsumErrors", S::Ip, Detail, InIp, HEADER),
        class(Netstat, "InTruncatedPkts", S::Ip, Lost, InIp, TRUNCATED),
        class(Ip, "InDiscards", S::Ip, Lost, InIp, NO_MEMORY),
        class(Ip, "InUnknownProtos", S::Ip, Lost, InIp, NO_PROTOCOL),
        class(Ip6, "Ip6InHdrErrors", S::Ip, Lost, InIp, HEADER),
        class(Ip6, "Ip6InTruncatedPkts", S::Ip, Lost, InIp, TRUNCATED),
        class(Ip6, "Ip6InDiscards", S::Ip, Lost, InIp, NO_MEMORY),
        class(Ip6, "Ip6InUnknownProtos", S::Ip, Lost, InIp, NO_PROTOCOL),
        class(
            Ip,
            "ReasmFails",
            S::Ip,
            Sign,
            InIp,
            [
                "fragments whose datagram did not become whole in time",
                "look for loss before this router, and for an MTU that forces fragments",
            ],
        ),
        class(
            Ip6,
            "Ip6ReasmFails",
            S::Ip,
            Sign,
            InIp,
            [
                "fragments whose datagram did not become whole in time",
                "look for loss before this router, and for an MTU that forces fragments",
            ],
        ),
        class(
            Conntrack,
            "drop",
            S::Conntrack,
            Lost,
            InIp,
            [
                "no entry could be made for the connection: the table is full, or two packets raced for one \
             entry",
                "compare net.netfilter.nf_conntrack_count with nf_conntrack_max and enlarge the latter; \
             shorten the timeouts",
            ],
        ),
        class(
            Conntrack,
            "early_drop",
            S::Conntrack,
            Sign,
            InIp,
            [
                "the table was full, and an older connection was thrown out for a new one",
                "enlarge net.netfilter.nf_conntrack_max",
            ],
        ),
        class(
            Conntrack,
            "insert_failed",
            S::Conntrack,
            Detail,
            InIp,
            [
                "the entry was there already, or its chain was too long; the packet is counted with drop",
                "enlarge net.netfilter.nf_conntrack_buckets; DNS through NAT does this when two queries share \
             a port",
            ],
        ),
        class(Rule, "in", S::Netfilter, ByRule, InIp, BY_RULE),
        class(Rule, "in6", S::Netfilter, ByRule, InIp, BY_RULE),
        class(Rule, "forward", S::Netfilter, ByRule, Forward, BY_RULE),
        class(Rule, "forward6", S::Netfilter, ByRule, Forward, BY_RULE),
        class(Rule, "out", S::Netfilter, ByRule, Behind, BY_RULE),
        class(Rule, "out6", S::Netfilter, ByRule, Behind, BY_RULE),
        class(Netstat, "InNoRoutes", S::Routing, Lost, InIp, NO_ROUTE),
        class(Ip6, "Ip6InNoRoutes", S::Routing, Lost, InIp, NO_ROUTE),
        class(Ip, "InAddrErrors", S::Routing, Lost, InIp, ADDRESS),
        class(Ip6, "Ip6InAddrErrors", S::Routing, Lost, InIp, ADDRESS),
        class(
            Netstat,
            "IPReversePathFilter",
            S::Routing,
            Lost,
            InIp,
            [
                "the way back to the sender is by another device (reverse path filter)",
                "with several uplinks or a VPN: net.ipv4.conf.*.rp_filter=2",
            ],
        ),
        class(
            RouteCache,
            "in_martian_src",
            S::Routing,
            Detail,
            InIp,
            [
                "the source address is impossible on that device; those of the reverse path filter are among \
             them",
                "net.ipv4.conf.all.log_martians=1 writes them to the kernel's log",
            ],
        ),
        class(
            RouteCache,
            "in_martian_dst",
            S::Routing,
            Detail,
            InIp,
            [
                "the destination address is impossible (127.0.0.0/8, 0.0.0.0)",
                "net.ipv4.conf.all.log_martians=1 writes them to the kernel's log",
            ],
        ),
        class(
            RouteCache,
            "in_no_route",
            S::Routing,
            Detail,
            InIp,
            [
                "no route, or one of the type unreachable or prohibit",
                "ip route get <destination> from <source> iif <device> says which",
            ],
        ),
        class(Ip, "FragFails", S::Routing, Lost, Forward, TOO_BIG),
        class(Ip6, "Ip6InTooBigErrors", S::Routing, Lost, InIp, TOO_BIG),
        class(
            Udp,
            "NoPorts",
            S::Socket,
            Consumed,
            Behind,
            ["the packet came for a closed UDP port of this machine", "nothing"],
        ),
        class(
            Udp,
            "RcvbufErrors",
            S::Socket,
            Consumed,
            Behind,
            [
                "the program read too late, and its socket's buffer was full",
                "enlarge net.core.rmem_max and what the program asks for",
            ],
        ),
        class(
            Netstat,
            "ListenDrops",
            S::Socket,
            Consumed,
            Behind,
            [
                "a program here took connections too late",
                "enlarge net.core.somaxconn and the program's backlog",
            ],
        ),
        class(Neighbour, "unresolved_discards", S::Neighbour, Lost, Behind, NEIGHBOUR),
        class(
            Neighbour,
            "table_fulls",
            S::Neighbour,
            Lost,
            Behind,
            [
                "the neighbour table was full, and the packet's neighbour got no entry",
                "enlarge net.ipv4.neigh.default.gc_thresh3 (net.ipv6 likewise), with gc_thresh2 below it",
            ],
        ),
        class(
            Neighbour,
            "res_failed",
            S::Neighbour,
            Sign,
            Behind,
            [
                "a neighbour did not answer, and what waited for it was dropped (not counted by packets)",
                "find out who asks for addresses that nobody has: often a scan of an empty network",
            ],
        ),
        class(Ip, "OutNoRoutes", S::Routing, Lost, Behind, SENT_NO_ROUTE),
        class(Ip6, "Ip6OutNoRoutes", S::Routing, Lost, Behind, SENT_NO_ROUTE),
        class(Ip, "OutDiscards", S::Transmit, Lost, Behind, SENT_DISCARDED),
        class(Ip6, "Ip6OutDiscards", S::Transmit, Lost, Behind, SENT_DISCARDED),
        class(
            Source::Qdisc,
            "drops",
            S::Qdisc,
            Lost,
            Behind,
            [
                "more packets wanted to leave than the link or the shaper lets through, and the queue was full",
                "TCP needs some of these to find its rate; at a shaper that nobody wants: tc qdisc del dev \
             <device> root (parent <class> in a class)",
            ],
        ),
        class(
            Source::Qdisc,
            "overlimits",
            S::Qdisc,
            Sign,
            Behind,
            [
                "the shaper held packets back",
                "nothing, if the shaper is meant; one that was forgotten goes with tc qdisc del dev <device> root",
            ],
        ),
        class(
            Source::Qdisc,
            "requeues",
            S::Qdisc,
            Sign,
            Behind,
            ["the card's transmit ring was full, and the packet waited again", "nothing"],
        ),
        class(Device, "tx_dropped", S::Transmit, Lost, Behind, SENDING),
        class(Device, "tx_errors", S::Transmit, Lost, Behind, SENDING),
        class(Device, "tx_aborted_errors", S::Transmit, Lost, Behind, SENDING),
        class(Device, "tx_carrier_errors", S::Transmit, Lost, Behind, SENDING),
        class(Device, "tx_fifo_errors", S::Transmit, Lost, Behind, SENDING),
        class(
            Device,
            "tx_timeout",
            S::Transmit,
            Sign,
            Behind,
            [
                "the card sent nothing for seconds, and the driver reset it: all that it held is lost",
                "look at the kernel's log (NETDEV WATCHDOG); update firmware and kernel, switch EEE and ASPM off",
            ],
        ),
        class(
            Device,
            "carrier_changes",
            S::Link,
            Sign,
            Behind,
            [
                "the link went up or down",
                "once up since boot is 1 or 2; more: the cable, EEE, or the other end",
            ],
        ),
    ]
};

/// Words of drivers' own names, and the stage that they tell of; the first that fits counts.
const DRIVERS: &[(&[&str], Stage, Kind, [&str; 2])] = &[
    (
        &["xdp"],
        Stage::Xdp,
        Kind::Detail,
        [
            "a program of XDP dropped it or could not pass it on",
            "ask the program (bpftool net, bpftool prog)",
        ],
    ),
    (
        &["pause", "xon", "xoff"],
        Stage::Link,
        Kind::Sign,
        [
            "flow control: one end asked the other to wait",
            "received: the other end is too slow; sent: this router is; ethtool -a shows what was negotiated",
        ],
    ),
    (&["timeout", "hang"], Stage::Transmit, Kind::Detail, SENDING),
    (&["tx"], Stage::Transmit, Kind::Detail, SENDING),
    (
        &[
            "crc",
            "fcs",
            "jabber",
            "undersize",
            "oversize",
            "symbol",
            "align",
            "phy",
            "length",
            "frame",
        ],
        Stage::Wire,
        Kind::Detail,
        DAMAGED,
    ),
    (
        &[
            "miss",
            "no_buf",
            "nobuf",
            "no_desc",
            "no_dma",
            "out_of",
            "overrun",
            "fifo",
            "overflow",
            "ring_full",
            "exhaust",
            "starv",
            "alloc",
        ],
        Stage::Ring,
        Kind::Detail,
        RING,
    ),
    (
        &[],
        Stage::Driver,
        Kind::Detail,
        [
            "the driver's own counter of loss, by its name",
            "the driver's documentation says what it counts",
        ],
    ),
];

/// Names of losses that the kernel's own counters know nothing of in these drivers: r8152; mvneta;
/// mvpp2; bcmgenet and bcmsysport; fec; cpsw; ixgbe (descriptors of single queues); the switches of
/// mt7530, qca8k, mv88e6xxx, b53 and ksz (drivers/net/ethernet, drivers/net/usb, drivers/net/dsa).
const ALONE: &[(&[&str], Stage)] = &[
    (
        &[
            "rx_missed",
            "rx_discard",
            "rx_overrun",
            "rx_fifo_or_parser_overrun_drops",
            "rxq_*_queue_full_drops",
            "rxq_*_packets_bm_drops",
            "rbuf_ovflow_cnt",
            "rdma_ovflow_cnt",
            "ieee_rx_macerr",
            "rx start of frame overruns",
            "rx middle of frame overruns",
            "rx dma overruns",
            "rx_no_dma_resources",
        ],
        Stage::Ring,
    ),
    (
        &["rxdrop", "rxingressdrop", "rxoverflow", "sw_in_discards", "rxdroppkts", "rx_discards"],
        Stage::Driver,
    ),
    (&["txdrop", "txdroppkts", "tx_discards"], Stage::Transmit),
];

/// The kernel's own counters of a stage.
const OWN: &[(Stage, &[&str])] = &[
    (Stage::Ring, &["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"]),
    (Stage::Driver, &["rx_missed_errors", "rx_dropped"]),
    (Stage::Transmit, &["tx_dropped", "tx_errors"]),
];

const SWITCH: [&str; 2] = [
    "the switch had no room for the frame, or it is not allowed at that port",
    "a fast port that sends to a slower one fills the switch's memory: flow control (ethtool -a), or a \
     shaper at the slower port's rate",
];

/// Stage, kind, and words for a driver's own counter, with what the kernel counts at that device. It
/// counts lost packets where only the driver knows of them.
pub(super) fn of_driver(
    name: &str,
    kernels: impl Fn(&str) -> u64,
) -> (Stage, Kind, [&'static str; 2]) {
    let name = name.to_ascii_lowercase();
    let is_alone = |one: &&str| match one.split_once('*') {
        Some((before, after)) => name.starts_with(before) && name.ends_with(after),
        None => name == **one,
    };
    let alone = ALONE.iter().find(|(names, _)| names.iter().any(&is_alone));
    if let Some((_, stage)) = alone {
        let own = OWN.iter().filter(|(of, _)| of == stage).flat_map(|(_, names)| *names);
        let kind = if own.map(|n| kernels(n)).all(|n| n == 0) { Kind::Lost } else { Kind::Detail };
        return (*stage, kind, if *stage == Stage::Ring { RING } else { SWITCH });
    }
    let fits = |(words, ..): &&(&[&str], Stage, Kind, [&'static str; 2])| {
        words.is_empty() || words.iter().any(|word| name.contains(word))
    };
    DRIVERS
        .iter()
        .find(fits)
        .map_or((Stage::Driver, Kind::Detail, [""; 2]), |(_, stage, kind, words)| {
            (*stage, *kind, *words)
        })
}
