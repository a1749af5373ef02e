//! Where the time of packets goes: call chains of the kernel, sorted by what they were doing.
//!
//! In come samples of call chains with the names of their functions; out go shares of each CPU's
//! time by purpose. Nothing is read or written.
//!
//! A chain belongs to packets when it runs in softirq, in a NAPI thread or in a worker of WireGuard.
//! What it was doing is told by the innermost function that says so; helpers that everything calls
//! (locks, copies, memory) are groups of their own, because that is what costs there.

use std::collections::BTreeMap;

use crate::model::order::InOrder;

/// Purpose of a function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The network device's own code, its DMA and its ring.
    Driver,
    /// Joining packets after receiving them.
    Gro,
    /// Filter rules, connection tracking, NAT, flowtables.
    Netfilter,
    /// IPv4, IPv6, routes, neighbours.
    Routing,
    /// Bridges, VLANs, PPPoE and other devices on top of devices.
    Stacking,
    /// Queueing disciplines and handing to the device.
    Qdisc,
    /// Ciphers and checksums of tunnels, WireGuard itself.
    Crypto,
    /// Copying and summing up bytes.
    Copy,
    /// Getting and giving back memory of packets.
    Memory,
    /// Tracers and checks of the kernel on itself.
    Tracing,
    /// Waiting for and taking locks.
    Spinlock,
    /// TCP, UDP and sockets: traffic that ends here.
    Sockets,
    /// Timers, RCU, the scheduler: not packets.
    Housekeeping,
    /// Everything else.
    Other,
}

impl Group {
    /// All of them, in the order of a packet's way.
    pub const ALL: [Self; 14] = [
        Self::Driver,
        Self::Gro,
        Self::Netfilter,
        Self::Routing,
        Self::Stacking,
        Self::Qdisc,
        Self::Crypto,
        Self::Copy,
        Self::Memory,
        Self::Tracing,
        Self::Spinlock,
        Self::Sockets,
        Self::Housekeeping,
        Self::Other,
    ];

    /// Name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Gro => "GRO",
            Self::Netfilter => "netfilter",
            Self::Routing => "routing",
            Self::Stacking => "stacking",
            Self::Qdisc => "qdisc",
            Self::Crypto => "crypto",
            Self::Copy => "copy",
            Self::Memory => "memory",
            Self::Tracing => "tracing",
            Self::Spinlock => "spinlock",
            Self::Sockets => "sockets",
            Self::Housekeeping => "housekeeping",
            Self::Other => "other",
        }
    }
}

/// Beginnings of function names, the longest match counts. From the sources under net/, lib/,
/// mm/, kernel/ and drivers/net.
const BEGINNINGS: &[(Group, &[&str])] = &[
    (
        Group::Driver,
        &[
            "napi_poll",
            "__napi_",
            "napi_complete",
            "napi_schedule",
            "net_rx_action",
            "dma_",
            "swiotlb_",
            "iommu_",
            "arm_smmu",
            "page_pool_",
            "veth_",
            "virtnet_",
            "vmxnet3_",
            "e1000",
            "igb_",
            "igc_",
            "ixgbe_",
            "i40e_",
            "ice_",
            "mlx4_",
            "mlx5",
            "rtl8169",
            "rtl_",
            "r8169",
            "r8125",
            "bcmgenet",
            "bgmac",
            "mtk_",
            "mvneta",
            "mvpp2",
            "stmmac",
            "dwmac",
            "fec_",
            "gmac_",
            "ag71xx",
            "qca",
            "ipqess",
            "edma_",
            "ena_",
            "gve_",
            "tg3_",
            "bnxt",
            "usbnet",
            "xhci_",
            "tun_",
            "gro_cells",
            "virtqueue_",
            "vring_",
            "cpsw_",
            "dsa_",
        ],
    ),
    (
        Group::Gro,
        &[
            "napi_gro", "dev_gro", "inet_gro", "ipv6_gro", "tcp4_gro", "tcp6_gro", "tcp_gro",
            "udp4_gro", "udp6_gro", "udp_gro", "skb_gro", "gro_", "vlan_gro", "eth_gro",
        ],
    ),
    (
        Group::Netfilter,
        &[
            "nf_",
            "nft_",
            "nfqnl",
            "ipt_",
            "ip6t_",
            "xt_",
            "__nf_",
            "__nft",
            "ebt_",
            "br_nf",
            "nfnetlink",
            "iptable_",
            "ip6table_",
            "ipv4_conntrack",
            "ipv6_conntrack",
            "set_match",
        ],
    ),
    (
        Group::Routing,
        &[
            "ip_",
            "ip6_",
            "__ip_",
            "ipv4_",
            "ipv6_",
            "fib_",
            "fib6_",
            "__fib",
            "inet_",
            "rt_",
            "rt6_",
            "__mkroute",
            "neigh_",
            "__neigh",
            "arp_",
            "ndisc_",
            "dst_",
            "icmp",
            "inet6_",
            "eth_header",
            "eth_type_trans",
        ],
    ),
    (
        Group::Stacking,
        &[
            "br_",
            "vlan_",
            "__vlan",
            "pppoe_",
            "ppp_",
            "__ppp",
            "macvlan",
            "bond_",
            "team_",
            "ip_tunnel",
            "iptunnel",
            "gre_",
            "vxlan",
            "__netif_receive_skb",
            "netif_receive_skb",
            "netif_rx",
            "process_backlog",
            "enqueue_to_backlog",
            "get_rps_cpu",
            "__skb_flow",
            "skb_flow",
            "rps_",
            "__skb_get_hash",
            "l2tp_",
        ],
    ),
    (
        Group::Qdisc,
        &[
            "__dev_queue_xmit",
            "dev_queue_xmit",
            "dev_hard_start_xmit",
            "sch_",
            "__qdisc",
            "qdisc_",
            "fq_",
            "cake_",
            "pfifo",
            "htb_",
            "hfsc_",
            "tbf_",
            "netem",
            "net_tx_action",
            "validate_xmit",
            "netdev_core_pick_tx",
            "netdev_pick_tx",
            "tcf_",
            "tc_",
            "ifb_",
            "xmit_one",
            "dql_",
        ],
    ),
    (
        Group::Crypto,
        &[
            "chacha",
            "poly1305",
            "curve25519",
            "aes",
            "gcm_",
            "ghash",
            "sha",
            "blake2",
            "crypto_",
            "wg_",
            "xfrm",
            "esp",
            "aead",
            "xchacha",
            "hchacha",
            "kernel_neon",
            "kernel_fpu",
        ],
    ),
    (
        Group::Copy,
        &[
            "memcpy",
            "__memcpy",
            "memmove",
            "__memmove",
            "memset",
            "__memset",
            "copy_",
            "_copy_",
            "__arch_copy",
            "skb_copy",
            "__skb_copy",
            "csum_",
            "do_csum",
            "__skb_checksum",
            "skb_checksum",
            "pskb_expand_head",
            "skb_push",
            "skb_pull",
            "__pskb_pull",
            "arch_memcpy",
        ],
    ),
    (
        Group::Memory,
        &[
            "kmem_cache",
            "__kmem",
            "kmalloc",
            "__kmalloc",
            "kfree",
            "slab_",
            "___slab",
            "__slab",
            "alloc_skb",
            "__alloc_skb",
            "build_skb",
            "__build_skb",
            "napi_build_skb",
            "napi_alloc",
            "__napi_alloc",
            "__netdev_alloc",
            "netdev_alloc",
            "skb_release",
            "consume_skb",
            "kfree_skb",
            "napi_consume",
            "__kfree",
            "page_frag",
            "free_unref",
            "get_page",
            "__alloc_pages",
            "free_pages",
            "__free_pages",
            "rmqueue",
            "skb_free",
            "skb_clone",
            "sk_skb",
            "memcg_",
            "mod_",
            "__mod_",
        ],
    ),
    (
        Group::Tracing,
        &[
            "trace_",
            "__trace",
            "ftrace",
            "tracer_",
            "tracing_",
            "function_trace",
            "irqsoff",
            "check_critical",
            "start_critical",
            "stop_critical",
            "lockdep",
            "lock_acquire",
            "lock_release",
            "__lock_acquire",
            "lock_is_held",
            "check_preemption",
            "debug_",
            "preempt_count_",
            "__kasan",
            "kasan_",
            "kcsan",
            "__tsan",
            "__asan",
            "kmemleak",
            "ring_buffer",
            "rb_",
            "bpf_trace",
            "perf_trace",
            "perf_",
            "mcount",
            "__fentry",
            "__ubsan",
            "kfence_",
            "stack_trace",
            "arch_stack_walk",
            "unwind_",
        ],
    ),
    (
        Group::Spinlock,
        &[
            "_raw_spin",
            "_raw_read",
            "_raw_write",
            "native_queued_spin",
            "queued_spin",
            "queued_read",
            "queued_write",
            "__pv_queued",
            "rt_spin",
            "rtlock",
            "rt_mutex",
            "mutex_spin",
            "osq_lock",
            "__local_bh",
            "local_bh",
            "do_raw_spin",
            "arch_spin",
        ],
    ),
    (
        Group::Sockets,
        &[
            "tcp_",
            "__tcp",
            "tcp4_",
            "tcp6_",
            "tcp_v4",
            "tcp_v6",
            "udp_",
            "__udp",
            "udp4_",
            "udp6_",
            "sock_",
            "__sock",
            "sk_",
            "__sk_",
            "sctp_",
            "packet_",
            "tpacket",
            "unix_",
            "__inet_lookup",
            "__inet6_lookup",
            "inet_lookup",
            "inet6_lookup",
        ],
    ),
    (
        Group::Housekeeping,
        &[
            "rcu_",
            "__rcu",
            "note_gp",
            "run_timer",
            "call_timer",
            "hrtimer",
            "__hrtimer",
            "tick_",
            "update_",
            "sched_",
            "scheduler_",
            "try_to_wake",
            "ttwu_",
            "select_task",
            "enqueue_task",
            "__schedule",
            "run_rebalance",
            "load_balance",
            "tasklet_",
            "blk_",
            "irqtime",
            "ktime_",
            "read_hpet",
            "clockevents",
            "timekeeping",
            "smp_call",
            "__flush_smp",
            "cpuidle",
            "idle_",
            "irq_exit",
            "irq_enter",
            "raise_softirq",
            "wake_up",
            "__wake_up",
            "profile_",
        ],
    ),
];

/// Modules whose whole code is of one group.
const MODULES: &[(Group, &[&str])] = &[
    (Group::Netfilter, &["nf_", "nft_", "ip_tables", "ip6_tables", "x_tables", "xt_", "ebtable"]),
    (
        Group::Crypto,
        &["wireguard", "libchacha", "libpoly", "chacha", "poly1305", "curve25519", "aes"],
    ),
    (
        Group::Stacking,
        &["bridge", "8021q", "pppoe", "ppp_", "pppox", "bonding", "macvlan", "vxlan"],
    ),
    (Group::Qdisc, &["sch_", "cls_", "act_", "ifb"]),
    (
        Group::Driver,
        &[
            "veth", "virtio", "vmxnet3", "e1000", "igb", "igc", "ixgbe", "i40e", "ice", "mlx",
            "r8169", "r8125", "genet", "mtk", "mvneta", "mvpp2", "stmmac", "dwmac", "ena", "gve",
            "tg3", "bnxt", "usbnet", "xhci", "tun", "mt76", "ath", "iwl", "rtw",
        ],
    ),
];

/// Purpose of a function, by its name and its module.
#[must_use]
pub fn group_of(name: &str, module: &str) -> Group {
    let mut best = (0, Group::Other);
    for (group, beginnings) in BEGINNINGS {
        for beginning in *beginnings {
            if beginning.len() > best.0 && name.starts_with(beginning) {
                best = (beginning.len(), *group);
            }
        }
    }
    if best.1 != Group::Other || module.is_empty() {
        return best.1;
    }
    let of = MODULES.iter().find(|(_, names)| names.iter().any(|n| module.starts_with(n)));
    of.map_or(Group::Other, |(group, _)| *group)
}

/// Functions that a chain of packets goes through.
const ENTRIES: &[&str] = &[
    "__do_softirq",
    "handle_softirqs",
    // What kallsyms calls __do_softirq where both begin at one address.
    "__softirqentry_text_start",
    "do_softirq",
    "net_rx_action",
    "net_tx_action",
    "napi_threaded_poll",
    "napi_threaded_poll_loop",
    "wg_packet_encrypt_worker",
    "wg_packet_decrypt_worker",
    "wg_packet_tx_worker",
    "wg_packet_handshake_receive_worker",
];

/// A frame of a chain: function and module.
pub type Frame<'a> = (&'a str, &'a str);

/// The part of a chain (innermost first) that is of packets, from where it enters to what it was
/// doing, outermost first; `None` when it is not of packets.
#[must_use]
pub fn packet_part<'a>(chain: &[Frame<'a>]) -> Option<Vec<Frame<'a>>> {
    let entry = chain.iter().rposition(|(name, _)| ENTRIES.contains(name))?;
    chain.get(..=entry).map(|part| part.iter().rev().copied().collect())
}

/// Purpose of a chain (outermost first): that of the innermost function that is of a known group.
#[must_use]
pub fn doing(chain: &[Frame<'_>]) -> Group {
    let groups = chain.iter().rev().map(|(name, module)| group_of(name, module));
    groups.into_iter().find(|group| *group != Group::Other).unwrap_or(Group::Other)
}

/// Samples of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuProfile {
    /// Number.
    pub cpu: u32,
    /// Samples in all, outside the kernel included.
    pub samples: u64,
    /// Those that are of packets.
    pub packets: u64,
    /// Those by what they were doing.
    pub groups: BTreeMap<Group, u64>,
}

/// The whole that a CPU's samples of packets are a share of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Whole {
    /// All its samples: a clock ticks on an idle CPU too.
    Samples,
    /// So many that a busy CPU would have given: an idle one has no cycles.
    Expected(f64),
}

impl CpuProfile {
    /// The share of the CPU's time that went to packets.
    #[must_use]
    pub fn busy(&self, whole: Whole) -> f64 {
        let packets = self.packets as f64;
        match whole {
            Whole::Samples => packets / self.samples.max(1) as f64,
            Whole::Expected(samples) => (packets / samples.max(1.0)).min(1.0),
        }
    }
}

/// A tree of calls, with how often each was seen; the root stands for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    /// Samples in it or below.
    pub count: u64,
    /// Functions that it called, by name and module.
    pub below: BTreeMap<(String, String), Calls>,
}

/// Where the time of packets went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Per CPU.
    pub cpus: Vec<CpuProfile>,
    /// The calls of packets.
    pub calls: Calls,
    /// How often each function was the innermost.
    functions: BTreeMap<(String, String), u64>,
    /// Samples that had no room.
    pub lost: u64,
    /// Times that the kernel stopped sampling for a while.
    pub throttled: u64,
}

impl Profile {
    /// Takes in what a CPU did: chains of the kernel, innermost first, and how many samples were
    /// outside it.
    pub fn add<'a>(&mut self, cpu: u32, chains: impl Iterator<Item = Vec<Frame<'a>>>, user: u64) {
        let mut own = CpuProfile { cpu, samples: user, ..CpuProfile::default() };
        for chain in chains {
            own.samples += 1;
            let Some(part) = packet_part(&chain) else { continue };
            own.packets += 1;
            *own.groups.entry(doing(&part)).or_default() += 1;
            if let Some((name, module)) = part.last() {
                *self.functions.entry(((*name).to_owned(), (*module).to_owned())).or_default() += 1;
            }
            self.calls.count += 1;
            let mut at = &mut self.calls;
            for (name, module) in part {
                at = at.below.entry((name.to_owned(), module.to_owned())).or_default();
                at.count += 1;
            }
        }
        self.cpus.push(own);
    }

    /// Samples of packets on all CPUs.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.cpus.iter().map(|c| c.packets).sum()
    }

    /// Samples of a group on all CPUs.
    #[must_use]
    pub fn of(&self, group: Group) -> u64 {
        self.cpus.iter().filter_map(|c| c.groups.get(&group)).sum()
    }

    /// The functions that were innermost most often: name, module, samples.
    #[must_use]
    pub fn dearest(&self, most: usize) -> Vec<(&str, &str, u64)> {
        let mut all: Vec<(&str, &str, u64)> =
            self.functions.iter().map(|((n, m), count)| (n.as_str(), m.as_str(), *count)).collect();
        all.order_by(|a, b| b.2.cmp(&a.2));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_told_by_its_name_and_then_by_its_module() {
        for (name, module, group) in [
            ("nft_do_chain", "nf_tables", Group::Netfilter),
            ("ip_forward", "", Group::Routing),
            ("ip_tunnel_rcv", "", Group::Stacking),
            ("napi_gro_receive", "", Group::Gro),
            ("napi_complete_done", "", Group::Driver),
            ("tcp_gro_receive", "", Group::Gro),
            ("chacha20_neon", "", Group::Crypto),
            ("_raw_spin_lock", "", Group::Spinlock),
            ("__copy_skb_header", "", Group::Other),
            ("start_critical_timings", "", Group::Tracing),
            ("some_static_thing", "r8169", Group::Driver),
            ("what_is_this", "", Group::Other),
        ] {
            assert_eq!(group_of(name, module), group, "{name} [{module}]");
        }
    }

    #[test]
    fn only_what_runs_for_packets_counts_and_a_helper_counts_for_itself() {
        let mut profile = Profile::default();
        let softirq = ("handle_softirqs", "");
        let chains = vec![
            vec![
                ("memcpy", ""),
                ("skb_copy_bits", ""),
                ("net_rx_action", ""),
                softirq,
                ("irq_exit", ""),
            ],
            vec![("unknown", ""), ("nft_do_chain", "nf_tables"), softirq],
            vec![("do_syscall_64", "")],
        ];
        profile.add(3, chains.into_iter(), 4);
        let cpu = &profile.cpus[0];
        assert_eq!((cpu.samples, cpu.packets), (7, 2));
        assert_eq!((profile.of(Group::Copy), profile.of(Group::Netfilter)), (1, 1));
        assert_eq!(profile.calls.count, 2);
        let top = &profile.calls.below[&("handle_softirqs".to_owned(), String::new())];
        assert_eq!((top.count, top.below.len()), (2, 2));
        assert_eq!(profile.dearest(1).len(), 1);
    }
}
