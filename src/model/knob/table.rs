//! The knobs: for each kind the variant that names one setting of it, and the row that holds all
//! else. `docs/knobs.md` is made from the rows.
//!
//! To add a knob:
//! 1. Of a kind that is here (`sysctl`, `coalesce`, `offload`, `service`): write a row.
//! 2. Of a new kind: write a variant of [`Knob`], its line in [`Knob::parts`], and a row.
//! 3. A file takes no more than that. What is no file has to be read and written by
//!    `machine/host/setting.rs` as well.
//! 4. `cargo test --lib knob` says what a row lacks.
//! 5. `LINERATE_WRITE_KNOBS=1 cargo test --test pure table_of_knobs` writes docs/knobs.md anew.

use serde::{Deserialize, Serialize};

use super::forms::{
    CHANNELS, DEVICE, OFFLOAD, ON_REQUEST, POLICY, RING, RX_QUEUE, TX_QUEUE, bridge, coalesce,
    conntrack, dragged, dragged_of_device, factor, global, moderation, offload, sysctl,
};
use super::spec::{
    Absent, Fixed, Keep, KnobSpec, Order, Range, Reshapes, Rival, Rule, Same, Scope, Shape, Vary,
};
use super::{Parts, topics};
use crate::model::path::Sort;
use crate::model::snapshot::IrqId;

/// A setting of the router, named so that the name stays valid over a reboot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Knob {
    /// CPUs that an interrupt line may go to.
    IrqAffinity {
        /// Identity of the line: device, queue and role.
        #[serde(flatten)]
        irq: IrqId,
    },
    /// Receive packet steering of a queue; the empty set is "off".
    RpsCpus {
        /// Device name.
        device: String,
        /// Receive queue.
        queue: u32,
    },
    /// Transmit packet steering of a queue.
    XpsCpus {
        /// Device name.
        device: String,
        /// Transmit queue.
        queue: u32,
    },
    /// Transmit queue chosen by the queue that a packet came in on.
    XpsRxqs {
        /// Device name.
        device: String,
        /// Transmit queue.
        queue: u32,
    },
    /// Receive flow steering entries of a queue.
    RpsFlowCnt {
        /// Device name.
        device: String,
        /// Receive queue.
        queue: u32,
    },
    /// Polling of a device's NAPI in kernel threads (kernel 5.12).
    ThreadedNapi {
        /// Device name.
        device: String,
    },
    /// Number of polls that may come up empty before interrupts are switched on again (kernel 5.8);
    /// takes effect with `GroFlushTimeout` above 0 only.
    NapiDeferHardIrqs {
        /// Device name.
        device: String,
    },
    /// Nanoseconds until GRO lets packets go, and until a put-off poll.
    GroFlushTimeout {
        /// Device name.
        device: String,
    },
    /// Frequency governor of a policy.
    Governor {
        /// Policy directory name.
        policy: String,
    },
    /// Lowest frequency of a policy in kHz.
    MinFrequency {
        /// Policy directory name.
        policy: String,
    },
    /// Highest frequency of a policy in kHz.
    MaxFrequency {
        /// Policy directory name.
        policy: String,
    },
    /// CPUs of a kernel thread that polls for a device (`napi/<device>-<NAPI number>`).
    NapiThread {
        /// Device name.
        device: String,
        /// Number of the thread, from 0 in the order of NAPI numbers: mostly that of the queues.
        #[serde(rename = "queue")]
        thread: u32,
    },
    /// CPUs of a kernel thread that polls or transmits for no network device of its own: for a
    /// radio, or for all devices of a driver.
    PollerCpus {
        /// Owner, role and index ([`crate::model::evidence::PollerKey`]).
        name: String,
    },
    /// Interrupt moderation of a device (`ethtool -C`).
    Coalesce {
        /// Device name.
        device: String,
        /// Name of the parameter, as ethtool has it.
        #[serde(rename = "name")]
        parameter: String,
    },
    /// Descriptors of each ring of a device (`ethtool -G`). Most drivers stop the card for it.
    Ring {
        /// Device name.
        device: String,
        /// `rx` or `tx`.
        #[serde(rename = "name")]
        direction: String,
    },
    /// Queues of a device (`ethtool -L`). Queues, interrupt lines and what is set for them come
    /// and go with it.
    Channels {
        /// Device name.
        device: String,
        /// `combined`, `rx` or `tx`.
        #[serde(rename = "name")]
        direction: String,
    },
    /// An offload of a device (`ethtool -K`).
    Offload {
        /// Device name.
        device: String,
        /// The kernel's name (`rx-gro-list`), not ethtool's short one.
        #[serde(rename = "name")]
        feature: String,
    },
    /// Queue that each hash bucket of received packets goes to (`ethtool -X`): a count spreads them
    /// equally over the first queues, a word lists the queue of each bucket (`0,0,1,1`).
    RssTable {
        /// Device name.
        device: String,
    },
    /// The queueing discipline at a device's root; `default` is the one that the kernel puts there
    /// by itself (mq where there are several queues).
    Qdisc {
        /// Device name.
        device: String,
    },
    /// A service that sets what this program sets: running or not.
    ///
    /// irqbalance is stopped rather than given a list of lines to leave alone (`--banirq`,
    /// `IRQBALANCE_ARGS`): a ban is a number, which the next boot gives to another line; it is read
    /// at the start only, so the program has to be started anew all the same; its file is kept by
    /// four distributions in four forms; and of the lines left to it, it takes away only those that
    /// carry no packets. The rest of its work is not worth a second way to get it wrong.
    Service {
        /// Name of the service.
        name: String,
    },
    /// A file under /proc/sys. No other than those of the table can be set by a plan: a plan file
    /// is data, and root writes what it names.
    Sysctl {
        /// Dotted name.
        name: String,
    },
    /// A file of a device under /proc/sys/net that the kernel changes with a sysctl of all devices.
    DeviceSysctl {
        /// Device name.
        device: String,
        /// Dotted name, without the device's.
        name: String,
    },
    /// Established connections past netfilter and routing: `off`, or `software` or `hardware`
    /// with the devices that the flowtable takes packets from (`software eth0 eth1`). On OpenWrt
    /// its firewall knows the devices, and the word stands alone.
    FlowOffload,
    /// OpenWrt's own packet steering (`network.globals.packet_steering`); `unset` means 1 from
    /// OpenWrt 24.10 on and 0 before.
    PacketSteering,
}

impl Knob {
    /// Kind and fields, under the names that files give them.
    #[must_use]
    pub fn parts(&self) -> Parts<'_> {
        match self {
            Self::IrqAffinity { irq } => Parts {
                role: Some(irq.role),
                ..Parts::queue("irq-affinity", &irq.device, irq.queue)
            },
            Self::RpsCpus { device, queue } => Parts::queue("rps-cpus", device, *queue),
            Self::XpsCpus { device, queue } => Parts::queue("xps-cpus", device, *queue),
            Self::XpsRxqs { device, queue } => Parts::queue("xps-rxqs", device, *queue),
            Self::RpsFlowCnt { device, queue } => Parts::queue("rps-flow-cnt", device, *queue),
            Self::ThreadedNapi { device } => Parts::device("threaded-napi", device),
            Self::NapiDeferHardIrqs { device } => Parts::device("napi-defer-hard-irqs", device),
            Self::GroFlushTimeout { device } => Parts::device("gro-flush-timeout", device),
            Self::Governor { policy } => Parts::policy("governor", policy),
            Self::MinFrequency { policy } => Parts::policy("min-frequency", policy),
            Self::MaxFrequency { policy } => Parts::policy("max-frequency", policy),
            Self::NapiThread { device, thread } => Parts::queue("napi-thread", device, *thread),
            Self::PollerCpus { name } => Parts::machine("poller-cpus", Some(name)),
            Self::Coalesce { device, parameter } => Parts::named("coalesce", device, parameter),
            Self::Ring { device, direction } => Parts::named("ring", device, direction),
            Self::Channels { device, direction } => Parts::named("channels", device, direction),
            Self::Offload { device, feature } => Parts::named("offload", device, feature),
            Self::RssTable { device } => Parts::device("rss-table", device),
            Self::Qdisc { device } => Parts::device("qdisc", device),
            Self::Service { name } => Parts::machine("service", Some(name)),
            Self::Sysctl { name } => Parts::machine("sysctl", Some(name)),
            Self::DeviceSysctl { device, name } => Parts::named("device-sysctl", device, name),
            Self::FlowOffload => Parts::machine("flow-offload", None),
            Self::PacketSteering => Parts::machine("packet-steering", None),
        }
    }
}

/// Every knob, in the order of `linerate show knobs`. Of an open kind the row for all other names
/// comes last.
pub static KNOBS: &[KnobSpec] = &[
    KnobSpec { name: Some("combined"), what: "queues that receive and send", ..CHANNELS },
    KnobSpec { name: Some("rx"), what: "queues that receive alone", ..CHANNELS },
    KnobSpec { name: Some("tx"), what: "queues that send alone", ..CHANNELS },
    KnobSpec {
        name: Some("rx"),
        what: "receive ring",
        vary: Vary { further: "descriptors", ..factor("ring", &["256", "1024"]) },
        ..RING
    },
    KnobSpec { name: Some("tx"), what: "transmit ring", ..RING },
    KnobSpec {
        kind: "rss-table",
        path: "ethtool/{device}/rss",
        shape: Shape::Spread,
        range: Range::Spread,
        order: Order::Spread,
        absent: Absent::Driver,
        label: "RSS table of {device}",
        title: "RSS table",
        what: "which queue the card gives each flow to: over how many, or a list of queues",
        topic: &topics::CHANNELS,
        ..DEVICE
    },
    KnobSpec {
        vary: Vary {
            further: "microseconds",
            rule: Rule::Coalescing,
            ..factor("coalescing", &["0", "50", "adaptive"])
        },
        ..moderation("rx-usecs", "how long a card waits before it interrupts")
    },
    coalesce("rx-frames", Shape::Count, "how many packets a card gathers before it interrupts"),
    moderation("tx-usecs", "how long a card waits before it tells what was sent"),
    coalesce("tx-frames", Shape::Count, "how many packets it sends before it tells"),
    coalesce("adaptive-rx", Shape::Switch, "the driver chooses for received packets"),
    coalesce("adaptive-tx", Shape::Switch, "the driver chooses for sent packets"),
    KnobSpec {
        kind: "irq-affinity",
        scope: Scope::Line,
        global: true,
        path: "/proc/irq/{line}/smp_affinity",
        shape: Shape::Cpus,
        range: Range::SomeCpu,
        fixed: Fixed::Line,
        rival: Rival::Irqbalance,
        sort: Some(Sort::Interrupts),
        label: "IRQ affinity of {device} queue {queue} {role}",
        title: "interrupt {role}",
        what: "where network interrupts go",
        topic: &topics::IRQ_AFFINITY,
        vary: Vary { further: "all, CPUs", rule: Rule::Irq, ..factor("irq", &["one", "spread"]) },
        ..DEVICE
    },
    KnobSpec {
        kind: "rps-cpus",
        path: "/sys/class/net/{device}/queues/rx-{queue}/rps_cpus",
        shape: Shape::Cpus,
        rival: Rival::Steering,
        sort: Some(Sort::Rps),
        label: "RPS of {device} rx-{queue}",
        title: "RPS rx",
        what: "the stack's work by receive queue",
        topic: &topics::RPS_CPUS,
        vary: Vary {
            further: "others, CPUs (0-1 or 0+2)",
            rule: Rule::Rps,
            ..factor("rps", &["off", "one", "all"])
        },
        ..RX_QUEUE
    },
    KnobSpec {
        kind: "rps-flow-cnt",
        path: "/sys/class/net/{device}/queues/rx-{queue}/rps_flow_cnt",
        same: Same::PowerOfTwo,
        rival: Rival::Steering,
        sort: Some(Sort::Rfs),
        label: "RFS entries of {device} rx-{queue}",
        title: "RFS entries rx",
        what: "flows to where their program runs",
        topic: &topics::RPS_FLOW_CNT,
        vary: Vary { further: "entries", rule: Rule::Rfs, ..factor("rfs", &["off", "on"]) },
        ..RX_QUEUE
    },
    KnobSpec {
        kind: "xps-cpus",
        path: "/sys/class/net/{device}/queues/tx-{queue}/xps_cpus",
        shape: Shape::Cpus,
        rival: Rival::Steering,
        sort: Some(Sort::Xps),
        label: "XPS of {device} tx-{queue}",
        title: "XPS tx",
        what: "transmit queue by CPU",
        vary: Vary { further: "CPUs", ..factor("xps", &["off", "all"]) },
        ..TX_QUEUE
    },
    KnobSpec {
        kind: "xps-rxqs",
        path: "/sys/class/net/{device}/queues/tx-{queue}/xps_rxqs",
        shape: Shape::Queues,
        label: "XPS by receive queue of {device} tx-{queue}",
        title: "XPS by rx queue tx",
        what: "transmit queue by the queue that a packet came in on",
        ..TX_QUEUE
    },
    KnobSpec {
        kind: "threaded-napi",
        path: "/sys/class/net/{device}/threaded",
        shape: Shape::Switch,
        order: Order::Threads,
        reshapes: Reshapes::Threads("napi-thread"),
        fixed: Fixed::Veth,
        label: "threaded NAPI of {device}",
        title: "threaded NAPI",
        what: "polling in kernel threads",
        topic: &topics::THREADED_NAPI,
        vary: factor("napi-threads", &["off", "on"]),
        ..DEVICE
    },
    KnobSpec {
        kind: "napi-thread",
        scope: Scope::Thread,
        path: "napi/{device}/{queue}",
        shape: Shape::Cpus,
        range: Range::SomeCpu,
        rival: Rival::Steering,
        label: "NAPI thread {queue} of {device}",
        title: "NAPI thread",
        what: "CPUs of a kernel thread that polls",
        topic: &topics::THREADED_NAPI,
        ..DEVICE
    },
    KnobSpec {
        kind: "poller-cpus",
        open: true,
        scope: Scope::Machine,
        global: true,
        path: "poller/{name}",
        shape: Shape::Cpus,
        range: Range::SomeCpu,
        rival: Rival::Steering,
        label: "CPUs of thread {name}",
        title: "{name}",
        heading: "threads",
        what: "CPUs of a kernel thread that polls or transmits for a radio or a driver",
        topic: &topics::THREADED_NAPI,
        vary: Vary { rule: Rule::Never, ..ON_REQUEST },
        ..DEVICE
    },
    KnobSpec {
        kind: "napi-defer-hard-irqs",
        path: "/sys/class/net/{device}/napi_defer_hard_irqs",
        label: "napi_defer_hard_irqs of {device}",
        title: "napi_defer_hard_irqs",
        what: "empty polls before interrupts are switched on again",
        topic: &topics::GRO_TIMER,
        vary: Vary { further: "polls", ..factor("napi-defer", &["0", "2"]) },
        ..DEVICE
    },
    KnobSpec {
        kind: "gro-flush-timeout",
        path: "/sys/class/net/{device}/gro_flush_timeout",
        range: Range::Unit("nanoseconds"),
        label: "gro_flush_timeout of {device}",
        title: "gro_flush_timeout",
        what: "how long GRO keeps packets",
        topic: &topics::GRO_TIMER,
        vary: Vary { further: "nanoseconds", ..factor("gro-flush-timeout", &["0", "20000"]) },
        ..DEVICE
    },
    KnobSpec {
        kind: "qdisc",
        path: "qdisc/{device}",
        shape: Shape::Word,
        // All without options.
        range: Range::Words(&["default", "fq", "fq_codel", "cake", "pfifo_fast"]),
        absent: Absent::Down,
        fixed: Fixed::Qdisc,
        label: "root qdisc of {device}",
        title: "root qdisc",
        what: "queueing discipline",
        topic: &topics::QDISC,
        vary: Vary {
            further: "cake, pfifo_fast",
            ..factor("qdisc", &["fq_codel", "fq", "default"])
        },
        ..DEVICE
    },
    // The kernel has sixty offloads; these matter to packets that are passed on.
    offload("rx-checksum", "the card checks received packets"),
    KnobSpec {
        vary: factor("gro", &["on", "off"]),
        ..offload("rx-gro", "received packets put together")
    },
    offload(
        "rx-gro-hw",
        "received packets put together by the card, so that they can be taken apart",
    ),
    KnobSpec {
        vary: factor("gro-list", &["off", "on"]),
        ..offload("rx-gro-list", "received packets put together for forwarding")
    },
    offload("rx-udp-gro-forwarding", "UDP packets put together that are passed on"),
    KnobSpec {
        vary: factor("lro", &["off", "on"]),
        ..offload("rx-lro", "received packets put together by the card: never for a router")
    },
    offload("rx-hashing", "the card's hash of a flow, which RPS uses too"),
    offload("rx-ntuple-filter", "flows to queues by rules in the card"),
    offload("tx-checksum-ip-generic", "the card fills in checksums"),
    offload("tx-scatter-gather", "packets in several pieces; others need it"),
    KnobSpec {
        vary: factor("tso", &["on", "off"]),
        ..offload("tx-tcp-segmentation", "packets segmented by the card")
    },
    KnobSpec {
        vary: factor("gso", &["on", "off"]),
        ..offload("tx-generic-segmentation", "packets segmented late")
    },
    offload("tx-udp-segmentation", "UDP packets segmented by the card"),
    offload("hw-tc-offload", "flows and filters in the card"),
    KnobSpec { open: true, ..OFFLOAD },
    KnobSpec {
        kind: "governor",
        path: "/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor",
        shape: Shape::Word,
        range: Range::Governors,
        label: "governor of {policy}",
        title: "governor",
        what: "frequency",
        vary: factor("governor", &["performance", "schedutil", "ondemand"]),
        ..POLICY
    },
    KnobSpec {
        kind: "min-frequency",
        path: "/sys/devices/system/cpu/cpufreq/{policy}/scaling_min_freq",
        label: "lowest frequency of {policy}",
        title: "lowest frequency",
        what: "lowest frequency that the governor may choose, in kHz",
        ..POLICY
    },
    KnobSpec {
        kind: "max-frequency",
        path: "/sys/devices/system/cpu/cpufreq/{policy}/scaling_max_freq",
        label: "highest frequency of {policy}",
        title: "highest frequency",
        what: "highest frequency that the governor may choose, in kHz",
        ..POLICY
    },
    KnobSpec {
        kind: "service",
        sort: None,
        name: Some("irqbalance"),
        scope: Scope::Machine,
        global: true,
        path: "service/{name}",
        shape: Shape::Switch,
        order: Order::Service,
        absent: Absent::Program,
        keep: Keep::Late,
        label: "service {name}",
        title: "{name}",
        heading: "services",
        what: "the daemon that moves interrupts",
        topic: &topics::SERVICE,
        vary: factor("irqbalance", &["off", "on"]),
        ..DEVICE
    },
    KnobSpec {
        kind: "packet-steering",
        sort: None,
        scope: Scope::Machine,
        global: true,
        path: "packet-steering",
        shape: Shape::Word,
        range: Range::Words(&["unset", "0", "1", "2"]),
        order: Order::Steering,
        absent: Absent::OpenWrt,
        keep: Keep::Uci,
        label: "OpenWrt packet steering",
        title: "OpenWrt packet_steering",
        heading: "services",
        what: "OpenWrt's packet steering, or its masks elsewhere",
        topic: &topics::PACKET_STEERING,
        vary: Vary { further: "1, 2", rule: Rule::Steering, ..factor("steering", &["off", "on"]) },
        ..DEVICE
    },
    KnobSpec {
        kind: "flow-offload",
        sort: None,
        scope: Scope::Machine,
        path: "flow-offload",
        shape: Shape::Words,
        range: Range::Mode(&["off", "software", "hardware"]),
        same: Same::DeviceSet,
        absent: Absent::Flowtable,
        fixed: Fixed::Flowtable,
        label: "flow offload",
        title: "flow offload",
        heading: "forwarding",
        what: "established connections past netfilter",
        topic: &topics::FLOW_OFFLOAD,
        vary: Vary {
            rule: Rule::FlowOffload,
            ..factor("flow_offload", &["off", "software", "hardware"])
        },
        ..DEVICE
    },
    global("net.core.default_qdisc", Shape::Word, &topics::QDISC, "what new devices get"),
    KnobSpec {
        vary: Vary { levels: &["64", "256"], ..ON_REQUEST },
        ..global(
            "net.core.dev_weight",
            Shape::Count,
            &topics::NETDEV_BUDGET,
            "packets of one device's turn",
        )
    },
    global(
        "net.core.flow_limit_cpu_bitmap",
        Shape::Cpus,
        &topics::FLOW_LIMIT,
        "CPUs whose backlog spares small flows",
    ),
    global(
        "net.core.flow_limit_table_len",
        Shape::Count,
        &topics::FLOW_LIMIT,
        "buckets by which that tells flows apart",
    ),
    KnobSpec {
        vary: Vary { levels: &["300", "600"], ..ON_REQUEST },
        ..global(
            "net.core.netdev_budget",
            Shape::Count,
            &topics::NETDEV_BUDGET,
            "packets of one round of polling",
        )
    },
    global(
        "net.core.netdev_budget_usecs",
        Shape::Count,
        &topics::NETDEV_BUDGET,
        "microseconds of one round of polling",
    ),
    global(
        "net.core.netdev_max_backlog",
        Shape::Count,
        &topics::NETDEV_MAX_BACKLOG,
        "packets that may wait for RPS",
    ),
    KnobSpec {
        same: Same::PowerOfTwo,
        ..global(
            "net.core.rps_sock_flow_entries",
            Shape::Count,
            &topics::RPS_FLOW_CNT,
            "entries of the socket table of RFS",
        )
    },
    bridge("net.bridge.bridge-nf-call-arptables", "bridged ARP past arptables"),
    bridge("net.bridge.bridge-nf-call-ip6tables", "bridged IPv6 past ip6tables"),
    bridge("net.bridge.bridge-nf-call-iptables", "bridged IPv4 past iptables"),
    // Setting it sets forwarding of every device, and takes LRO from all (net/ipv4/devinet.c
    // `inet_forward_change`); setting it back alone can't restore their differences.
    KnobSpec {
        drags: &[
            "sysctl net.ipv4.conf.all.accept_redirects",
            "sysctl net.ipv4.conf.default.forwarding",
            "device-sysctl ipv4.forwarding",
            "offload rx-lro",
        ],
        vary: Vary { rule: Rule::Never, ..ON_REQUEST },
        ..sysctl("net.ipv4.ip_forward", Shape::Switch, &topics::FORWARDING, "forwarding of IPv4")
    },
    sysctl(
        "net.ipv4.ip_local_port_range",
        Shape::Words,
        &topics::TCP,
        "ports that connections of this machine begin at",
    ),
    KnobSpec {
        range: Range::File("/proc/sys/net/ipv4/tcp_available_congestion_control"),
        ..sysctl(
            "net.ipv4.tcp_congestion_control",
            Shape::Word,
            &topics::TCP,
            "congestion control of this machine's connections",
        )
    },
    sysctl(
        "net.ipv4.tcp_fastopen",
        Shape::Count,
        &topics::TCP,
        "data in the first packet, as bits",
    ),
    sysctl("net.ipv4.tcp_fin_timeout", Shape::Count, &topics::TCP, "seconds of FIN-WAIT-2"),
    sysctl("net.ipv4.tcp_tw_reuse", Shape::Count, &topics::TCP, "whether TIME-WAIT may be reused"),
    // The same for IPv6 (net/ipv6/addrconf.c `addrconf_fixup_forwarding`); force_forwarding is there
    // from Linux 6.17 on.
    KnobSpec {
        drags: &[
            "sysctl net.ipv6.conf.all.force_forwarding",
            "sysctl net.ipv6.conf.default.forwarding",
            "device-sysctl ipv6.force_forwarding",
            "device-sysctl ipv6.forwarding",
            "offload rx-lro",
        ],
        fixed: Fixed::AdvertisedRoute,
        vary: Vary { rule: Rule::Never, ..ON_REQUEST },
        ..sysctl(
            "net.ipv6.conf.all.forwarding",
            Shape::Switch,
            &topics::FORWARDING,
            "forwarding of IPv6",
        )
    },
    dragged("net.ipv4.conf.all.accept_redirects", "whether hosts' redirects are followed"),
    dragged("net.ipv4.conf.default.forwarding", "forwarding of IPv4 for new devices"),
    dragged("net.ipv6.conf.all.force_forwarding", "forwarding of IPv6 by device alone"),
    dragged("net.ipv6.conf.default.forwarding", "forwarding of IPv6 for new devices"),
    dragged_of_device(
        "ipv4.forwarding",
        "/proc/sys/net/ipv4/conf/{device}/forwarding",
        "forwarding of what IPv4 comes in there",
    ),
    dragged_of_device(
        "ipv6.forwarding",
        "/proc/sys/net/ipv6/conf/{device}/forwarding",
        "forwarding of what IPv6 comes in there",
    ),
    dragged_of_device(
        "ipv6.force_forwarding",
        "/proc/sys/net/ipv6/conf/{device}/force_forwarding",
        "forwarding of what IPv6 comes in there, whatever the others do",
    ),
    KnobSpec {
        same: Same::Page,
        ..conntrack("net.netfilter.nf_conntrack_buckets", "buckets of the table of connections")
    },
    conntrack("net.netfilter.nf_conntrack_max", "most connections in the table"),
];
