//! What each setting does to a forwarded packet, for `plan --explain`.

/// A setting that plans speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name in plan files.
    pub name: &'static str,
    /// What else it is called.
    pub also: &'static [&'static str],
    /// What it does, and when it can't matter.
    pub text: &'static str,
}

/// All of them. Sources: the kernel's Documentation/networking/scaling.rst and napi.rst.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "irq-affinity",
        also: &["irq", "interrupt", "smp_affinity"],
        text: "The CPUs that an interrupt may go to. The driver's poll (NAPI, GRO) runs where the \
               interrupt does, and without RPS the rest of the packet's way too: the first thing \
               to place. Some lines can't be moved.",
    },
    Setting {
        name: "rps-cpus",
        also: &["rps", "rps_cpus"],
        text: "Receive packet steering: hands packets, by a hash of their flow, from the \
               interrupt's CPU to those of the mask, for the stack stage. It adds work and moves \
               it; right for one-queue devices and lines that can't be moved, wrong where hardware \
               queues cover the CPUs.",
    },
    Setting {
        name: "rps-flow-cnt",
        also: &["rfs", "rps_flow_cnt", "rps_sock_flow_entries"],
        text: "Receive flow steering: hands packets to the CPU of the program that reads them. \
               Forwarded packets are read by none: no effect on them.",
    },
    Setting {
        name: "channels",
        also: &["queues", "combined", "rss"],
        text: "How many hardware queues a card has, each with an interrupt of its own. The card \
               hashes flows over them, so that CPUs share the work without handing packets to each \
               other. No effect where the hash fails: PPPoE on most cards, switch tags.",
    },
    Setting {
        name: "xps-cpus",
        also: &["xps", "xps_cpus", "xps-rxqs"],
        text: "Transmit packet steering: which TX queue a CPU uses. No effect with one TX queue; \
               drivers with several set it themselves.",
    },
    Setting {
        name: "governor",
        also: &["cpufreq", "frequency", "min-frequency", "max-frequency"],
        text: "How the CPU's frequency follows its load. Softirq work is seen badly by schedutil; \
               performance avoids slow starts, costs power and heat.",
    },
    Setting {
        name: "coalesce",
        also: &["coalescing", "rx-usecs", "interrupt-moderation"],
        text: "How long a card gathers packets before it interrupts: fewer interrupts, more delay.",
    },
    Setting {
        name: "flow-offload",
        also: &["flowtable", "flow offload", "offload"],
        text: "A flowtable takes established flows past netfilter and routing, in software or in \
               the card; rules see a connection's first packets only. It counts only once flows \
               bind: linerate show path.",
    },
    Setting {
        name: "threaded-napi",
        also: &["threaded", "napi"],
        text: "Polls run in kernel threads instead of in softirq. Then it is the threads that have \
               a place, not the interrupts.",
    },
    Setting {
        name: "netdev-max-backlog",
        also: &["backlog", "net.core.netdev_max_backlog"],
        text: "How many packets may wait on a CPU that RPS handed them to. Matters when the second \
               column of /proc/net/softnet_stat rises.",
    },
    Setting {
        name: "netdev-budget",
        also: &["budget", "net.core.netdev_budget"],
        text: "How many packets one round of polling may handle. Matters when the third column of \
               /proc/net/softnet_stat rises.",
    },
    Setting {
        name: "tcp",
        also: &["bbr", "tcp_congestion_control", "sysctl"],
        text: "Settings of TCP sockets on this machine. Forwarded connections have theirs \
               elsewhere: no effect on them.",
    },
    Setting {
        name: "service",
        also: &["irqbalance"],
        text: "Programs and scripts that set what linerate sets. irqbalance is stopped where a plan \
               moves interrupts: lines to leave alone are told to it by number, and read at its \
               start only.",
    },
    Setting {
        name: "packet-steering",
        also: &["packet_steering", "steering"],
        text: "OpenWrt's own steering, which writes RPS masks anew after every interface event. A \
               plan that sets masks takes it over: set to 0, and its service stopped.",
    },
];

/// The setting of that name.
#[must_use]
pub fn about(name: &str) -> Option<&'static Setting> {
    let name = name.to_ascii_lowercase();
    SETTINGS.iter().find(|s| s.name == name || s.also.contains(&name.as_str()))
}
