//! Path of a forwarded packet through the kernel, and other programs that set what we set.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cpuset::CpuSet;
use super::units::CpuId;

/// The forwarding path of the whole machine. `None` is "not known here", never "off".
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ForwardPath {
    /// net.ipv4.ip_forward.
    pub ipv4: Option<bool>,
    /// net.ipv6.conf.all.forwarding.
    pub ipv6: Option<bool>,
    /// nf_tables: base chains, rules and flowtables.
    pub nftables: Option<Nftables>,
    /// Tables of the old iptables that are loaded (`/proc/net/ip_tables_names`).
    pub iptables: Vec<String>,
    /// The same for IPv6.
    pub ip6tables: Vec<String>,
    /// The rules of those tables, where they could be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub iptables_rules: Vec<IptablesTable>,
    /// True if a flowtable could be made: the kernel has them, or OpenWrt's firewall is there to
    /// be asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub can_offload: bool,
    /// True if OpenWrt's firewall is there to be asked for flow offload.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub firewall: bool,
    /// Flows that a flowtable has taken over; asked only where something offloads flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundFlows>,
    /// Traces of packet engines beside the CPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<Engine>,
    /// Connections tracked now.
    pub conntrack_count: Option<u64>,
    /// Most connections that can be tracked.
    pub conntrack_max: Option<u64>,
    /// True if bridged IPv4 packets go through iptables; `None` without br_netfilter.
    pub bridge_nf: Option<bool>,
    /// Network settings of the whole machine by sysctl name (`net.core.netdev_budget`).
    pub sysctls: BTreeMap<String, u64>,
    /// Receive path counters per CPU since boot.
    pub softnet: Vec<SoftnetCpu>,
    /// OpenWrt's flow_offloading / flow_offloading_hw / packet_steering options as written.
    pub openwrt: BTreeMap<String, String>,
}

impl ForwardPath {
    /// True if some flowtable is on, as far as that can be seen.
    #[must_use]
    pub fn offloads(&self) -> bool {
        self.nftables.as_ref().is_some_and(|n| !n.flowtables.is_empty())
            || self.iptables_rules.iter().any(|t| t.flow_offload)
            || (self.nftables.is_none() && self.asks_for_offload())
    }

    /// Rules that an IPv4 packet of an established connection meets at most: those of nftables, and
    /// those of the old iptables. Where it was not counted how far such a packet gets, all that
    /// forwarded packets may meet.
    #[must_use]
    pub fn rules_met(&self) -> (u32, u32) {
        let new =
            self.nftables.as_ref().map_or(0, |n| n.established_rules.unwrap_or(n.forward_rules));
        // Rules of NAT see the first packet of a connection only.
        let tables = self.iptables_rules.iter().filter(|t| !t.ipv6 && t.table != "nat");
        let old = tables.map(|t| t.established_rules.unwrap_or(t.forward_rules));
        (new, old.fold(0, u32::saturating_add))
    }

    /// True if OpenWrt's firewall is told to offload flows.
    #[must_use]
    pub fn asks_for_offload(&self) -> bool {
        self.openwrt.get("flow_offloading").is_some_and(|v| v == "1")
    }
}

/// Receive path counters of a CPU since boot (32 bits in the kernel; they wrap).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftnetCpu {
    /// Which CPU.
    pub cpu: CpuId,
    /// Packets taken in.
    pub packets: u32,
    /// Packets dropped for a full backlog.
    pub dropped: u32,
    /// Polls that ended with work left.
    pub squeezed: u32,
    /// Times other CPUs handed packets over (RPS).
    pub received_rps: u32,
}

/// Counts of the nf_tables rule set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Nftables {
    /// Rules in all chains.
    pub rules: u32,
    /// Rules in chains hooked to forward or prerouting/postrouting, and in chains of their tables
    /// that are no base chains (they may be jumped to).
    pub forward_rules: u32,
    /// Rules that an IPv4 packet of an established connection meets at most: up to the one that accepts
    /// such, behind jumps too, without those of NAT; `None` where it was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub established_rules: Option<u32>,
    /// True if some rule masquerades or rewrites the source.
    pub nat: bool,
    /// Devices that masquerade rules name as outgoing.
    pub masquerade_devices: Vec<String>,
    /// True if some rule writes TCP's maximum segment size; `None` where it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clamps_mss: Option<bool>,
    /// Flowtables.
    pub flowtables: Vec<Flowtable>,
}

/// An nf_tables flowtable.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Flowtable {
    /// Name, with the table's.
    pub name: String,
    /// Devices.
    pub devices: Vec<String>,
    /// True if it asks for hardware offload.
    pub hardware: bool,
}

/// A table of the old iptables, counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IptablesTable {
    /// Name: `filter`, `nat`, `mangle`, `raw`, ...
    pub table: String,
    /// True if it is ip6tables'.
    pub ipv6: bool,
    /// Rules in all chains, policies not counted.
    pub rules: u32,
    /// Rules in the chains PREROUTING, FORWARD and POSTROUTING, and in those that they jump to.
    pub forward_rules: u32,
    /// Those that a packet of an established connection meets at most; `None` where it was not looked
    /// for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub established_rules: Option<u32>,
    /// True if some of those masquerades or rewrites the source.
    pub nat: bool,
    /// Devices that masquerade rules name as outgoing.
    pub masquerade_devices: Vec<String>,
    /// True if some rule writes TCP's maximum segment size (TCPMSS); `None` where it was not looked
    /// for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clamps_mss: Option<bool>,
    /// True if some rule offloads flows (OpenWrt's target FLOWOFFLOAD, before nftables).
    pub flow_offload: bool,
    /// True if it asks for hardware offload.
    pub hardware: bool,
}

/// How many tracked connections are forwarded by a flowtable, past the rules.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BoundFlows {
    /// Connections with the status OFFLOAD.
    pub bound: u64,
    /// Those of them with HW_OFFLOAD: forwarded by hardware.
    pub hardware: u64,
    /// True if all connections were looked at; if not, there may be more of both.
    pub complete: bool,
    /// How it was learnt: `ctnetlink` or `nf_conntrack` (the file).
    pub by: String,
}

/// A packet engine beside the CPUs that may forward flows by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Engine {
    /// `ppe` (MediaTek's packet engine), `wed` (its way to Wi-Fi), `nss` (Qualcomm's).
    pub name: String,
    /// True if it is switched on, where something tells.
    pub enabled: Option<bool>,
    /// Flows that it forwards now, where it tells.
    pub bound: Option<u64>,
    /// The file or module that was found.
    pub evidence: String,
}

/// A program or script that sets what we set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Service {
    /// Name of the program, or path of the script.
    pub name: String,
    /// Words for what it does to our settings.
    pub effect: String,
    /// Words for how it was found.
    pub evidence: String,
    /// Sorts of settings that it sets.
    #[serde(default)]
    pub sets: Vec<Sort>,
    /// State in which it was found.
    #[serde(default)]
    pub found: ServiceFound,
    /// Interrupt lines that it was told to leave alone, in the words of its configuration.
    #[serde(default)]
    pub spares: Vec<String>,
}

/// State in which discovery found a [`Service`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceFound {
    /// A process runs.
    Running,
    /// A configuration says so; whether it runs is not known.
    #[default]
    Configured,
    /// A script has words of such settings.
    Script,
}

/// Settings that programs and scripts set together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// Where interrupts go.
    Interrupts,
    /// Receive packet steering.
    Rps,
    /// Receive flow steering.
    Rfs,
    /// Transmit packet steering.
    Xps,
    /// Frequencies.
    Governor,
    /// Files under /proc/sys.
    Sysctls,
    /// Offloads, rings, coalescing and other settings of a card.
    Card,
}

/// Kernel options about CPUs and time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFacts {
    /// `uname -v`.
    pub version: Option<String>,
    /// `none`, `voluntary`, `full`, `lazy` or `rt`: the one in force.
    pub preemption: Option<String>,
    /// How the preemption model was learnt.
    pub preemption_source: Option<String>,
    /// True if it can be chosen at boot (PREEMPT_DYNAMIC).
    pub preempt_dynamic: Option<bool>,
    /// Ticks per second.
    pub hz: Option<u32>,
    /// Options that cost every packet and are on.
    pub costly: Vec<String>,
    /// True if the configuration could be read, and from where.
    pub config: Option<String>,
    /// The implementation in force per algorithm: the driver of highest priority in /proc/crypto.
    pub crypto: BTreeMap<String, String>,
    /// Loaded modules that are crypto implementations. WireGuard uses the kernel's library, whose
    /// fast versions are such modules; built-in ones can't be seen.
    pub crypto_modules: Vec<String>,
    /// CPUs that `rcu_nocbs=` takes RCU callbacks off.
    pub rcu_nocbs: Option<CpuSet>,
    /// Kernel command line parameters that matter here, as given.
    pub parameters: Vec<String>,
}
