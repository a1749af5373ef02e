//! Effects of settings on a forwarded packet, for `plan --explain`: one text for settings of one
//! idea.
//! Sources: the kernel's Documentation/networking/scaling.rst and napi.rst.

use super::spec::Topic;

pub(super) static IRQ_AFFINITY: Topic = Topic {
    name: "irq-affinity",
    also: &["irq", "interrupt", "smp_affinity"],
    text: "The CPUs that an interrupt may go to. The driver's poll (NAPI, GRO) runs where the \
           interrupt does, and without RPS the rest of the packet's way too: the first thing \
           to place. Some lines can't be moved.",
};

pub(super) static RPS_CPUS: Topic = Topic {
    name: "rps-cpus",
    also: &["rps", "rps_cpus"],
    text: "Receive packet steering: hands packets, by a hash of their flow, from the \
           interrupt's CPU to those of the mask, for the stack stage. It adds work and moves \
           it; right for one-queue devices and lines that can't be moved, wrong where hardware \
           queues cover the CPUs.",
};

pub(super) static RPS_FLOW_CNT: Topic = Topic {
    name: "rps-flow-cnt",
    also: &["rfs", "rps_flow_cnt", "rps_sock_flow_entries"],
    text: "Receive flow steering: hands packets to the CPU of the program that reads them. \
           Forwarded packets are read by none: no effect on them.",
};

pub(super) static CHANNELS: Topic = Topic {
    name: "channels",
    also: &["queues", "combined", "rss"],
    text: "How many hardware queues a card has, each with an interrupt of its own. The card \
           hashes flows over them, so that CPUs share the work without handing packets to each \
           other. No effect where the hash fails: PPPoE on most cards, switch tags.",
};

pub(super) static XPS_CPUS: Topic = Topic {
    name: "xps-cpus",
    also: &["xps", "xps_cpus", "xps-rxqs"],
    text: "Transmit packet steering: which TX queue a CPU uses. No effect with one TX queue; \
           drivers with several set it themselves.",
};

pub(super) static GOVERNOR: Topic = Topic {
    name: "governor",
    also: &["cpufreq", "frequency", "min-frequency", "max-frequency"],
    text: "How the CPU's frequency follows its load. Softirq work is seen badly by schedutil; \
           performance avoids slow starts, costs power and heat.",
};

pub(super) static COALESCE: Topic = Topic {
    name: "coalesce",
    also: &["coalescing", "rx-usecs", "interrupt-moderation"],
    text: "How long a card gathers packets before it interrupts: fewer interrupts, more delay.",
};

pub(super) static FLOW_OFFLOAD: Topic = Topic {
    name: "flow-offload",
    also: &["flowtable", "flow offload", "offload"],
    text: "A flowtable takes established flows past netfilter and routing, in software or in \
           the card; rules see a connection's first packets only. It counts only once flows \
           bind: linerate show path.",
};

pub(super) static THREADED_NAPI: Topic = Topic {
    name: "threaded-napi",
    also: &["threaded", "napi"],
    text: "Polls run in kernel threads instead of in softirq. Then it is the threads that have \
           a place, not the interrupts.",
};

pub(super) static NETDEV_MAX_BACKLOG: Topic = Topic {
    name: "netdev-max-backlog",
    also: &["backlog", "net.core.netdev_max_backlog"],
    text: "How many packets may wait on a CPU that RPS handed them to. Matters when the second \
           column of /proc/net/softnet_stat rises.",
};

pub(super) static NETDEV_BUDGET: Topic = Topic {
    name: "netdev-budget",
    also: &["budget", "net.core.netdev_budget"],
    text: "How many packets one round of polling may handle. Matters when the third column of \
           /proc/net/softnet_stat rises.",
};

pub(super) static TCP: Topic = Topic {
    name: "tcp",
    also: &["bbr", "tcp_congestion_control", "sysctl"],
    text: "Settings of TCP sockets on this machine. Forwarded connections have theirs \
           elsewhere: no effect on them.",
};

pub(super) static SERVICE: Topic = Topic {
    name: "service",
    also: &["irqbalance"],
    text: "Programs and scripts that set what linerate sets. irqbalance is stopped where a plan \
           moves interrupts: lines to leave alone are told to it by number, and read at its \
           start only.",
};

pub(super) static PACKET_STEERING: Topic = Topic {
    name: "packet-steering",
    also: &["packet_steering", "steering"],
    text: "OpenWrt's own steering, which writes RPS masks anew after every interface event. A \
           plan that sets masks takes it over: set to 0, and its service stopped.",
};

pub(super) static RING: Topic = Topic {
    name: "ring",
    also: &["rings", "descriptors"],
    text: "How many packets a card can hold until the CPU takes them. A longer ring rides out a \
           pause of the CPU; what it holds is no longer in the cache, and waits. Most drivers stop \
           the card to change it.",
};

pub(super) static OFFLOADS: Topic = Topic {
    name: "offloads",
    also: &["gro", "gso", "tso", "lro", "checksum"],
    text: "What the card or the stack does for many packets at once. GRO puts received packets of \
           a flow together, so that the stack's work is done once for all of them, and GSO takes \
           them apart when they are sent. LRO loses what a router has to keep: never for forwarding.",
};

pub(super) static QDISC: Topic = Topic {
    name: "qdisc",
    also: &["queueing", "fq_codel", "fq", "cake", "default_qdisc"],
    text: "How packets wait for a device to send them. It matters where the device is slower than \
           what arrives, and costs a little everywhere else. Shapers have options that linerate \
           could not put back, and are left alone.",
};

pub(super) static GRO_TIMER: Topic = Topic {
    name: "gro-flush-timeout",
    also: &["napi-defer", "napi_defer_hard_irqs", "napi-defer-hard-irqs"],
    text: "After an empty poll the kernel may wait for more packets, as often as \
           napi_defer_hard_irqs and as long as gro_flush_timeout say, before the card may interrupt \
           again: fewer interrupts and longer GRO packets, more delay. One without the other has \
           little effect.",
};

pub(super) static FORWARDING: Topic = Topic {
    name: "forwarding",
    also: &["ip_forward"],
    text: "Whether packets for others are passed on at all.",
};

pub(super) static CONNTRACK: Topic = Topic {
    name: "conntrack",
    also: &["nf_conntrack", "connections"],
    text: "Room for tracked connections. New ones are dropped when the table is full, and a table \
           with few buckets is searched slowly.",
};

pub(super) static BRIDGE: Topic = Topic {
    name: "bridge-netfilter",
    also: &["br_netfilter"],
    text: "Whether bridged packets pass the rules for routed ones too: work for each of them that \
           most routers do not want.",
};

pub(super) static FLOW_LIMIT: Topic = Topic {
    name: "flow-limit",
    also: &["flow_limit"],
    text: "Drops packets of the largest flows first when the backlog of a CPU that RPS hands \
           packets to is half full.",
};
