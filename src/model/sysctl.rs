//! The sysctls that matter to a router, each with the form of its text. No other can be set by a
//! plan: a plan file is data, and root writes what it names.

use super::knob::Shape;

/// One sysctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sysctl {
    /// Its dotted name.
    pub name: &'static str,
    /// What its text is.
    pub shape: Shape,
    /// Whether it belongs to the machine rather than to a network namespace; other namespaces
    /// than the first do not have it, or not for writing.
    pub global: bool,
}

const fn global(name: &'static str, shape: Shape) -> Sysctl {
    Sysctl { name, shape, global: true }
}

const fn own(name: &'static str, shape: Shape) -> Sysctl {
    Sysctl { name, shape, global: false }
}

/// By name. Which are the namespace's: net/core/sysctl_net_core.c (`netns_core_table` has none of
/// these), net/ipv4/sysctl_net_ipv4.c, net/netfilter/nf_conntrack_standalone.c (the table's size
/// is writable in the first namespace alone), net/bridge/br_netfilter_hooks.c (since 5.3).
pub const SYSCTLS: &[Sysctl] = &[
    global("net.core.default_qdisc", Shape::Word),
    global("net.core.dev_weight", Shape::Count),
    global("net.core.flow_limit_cpu_bitmap", Shape::Cpus),
    global("net.core.flow_limit_table_len", Shape::Count),
    global("net.core.netdev_budget", Shape::Count),
    global("net.core.netdev_budget_usecs", Shape::Count),
    global("net.core.netdev_max_backlog", Shape::Count),
    global("net.core.rps_sock_flow_entries", Shape::Count),
    own("net.bridge.bridge-nf-call-arptables", Shape::Switch),
    own("net.bridge.bridge-nf-call-ip6tables", Shape::Switch),
    own("net.bridge.bridge-nf-call-iptables", Shape::Switch),
    // Setting it sets forwarding of every device (net/ipv4/devinet.c inet_forward_change), and
    // setting it back does not tell them apart again.
    own("net.ipv4.ip_forward", Shape::Switch),
    own("net.ipv4.ip_local_port_range", Shape::Words),
    own("net.ipv4.tcp_congestion_control", Shape::Word),
    own("net.ipv4.tcp_fastopen", Shape::Count),
    own("net.ipv4.tcp_fin_timeout", Shape::Count),
    own("net.ipv4.tcp_tw_reuse", Shape::Count),
    own("net.ipv6.conf.all.forwarding", Shape::Switch),
    global("net.netfilter.nf_conntrack_buckets", Shape::Count),
    global("net.netfilter.nf_conntrack_max", Shape::Count),
];

/// The sysctl of that name, if it is one of them.
#[must_use]
pub fn find(name: &str) -> Option<&'static Sysctl> {
    SYSCTLS.iter().find(|s| s.name == name)
}

impl Sysctl {
    /// Its file. None of the names has a dot or a slash within a part.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/sys/{}", self.name.replace('.', "/"))
    }
}
