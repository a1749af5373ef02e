//! Path of a forwarded packet: switches of the whole machine, rules, conntrack, counters.

use std::collections::BTreeMap;
use std::path::Path;

use super::openwrt::OpenWrt;
use super::{Gaps, engines, net_file, number};
use crate::machine::host::{HostRead, Query, offers_flow_offload, query_as};
use crate::machine::parse::softnet::softnet;
use crate::model::path::{BoundFlows, ForwardPath, IptablesTable, Nftables, SoftnetCpu};
use crate::model::snapshot::Cpu;

/// Settings that bound or steer the receive path.
const SYSCTLS: &[&str] = &[
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.dev_weight",
    "net.core.rps_sock_flow_entries",
    "net.core.netdev_tstamp_prequeue",
    "net.ipv4.conf.all.rp_filter",
    "net.netfilter.nf_conntrack_buckets",
];

pub(super) fn discover(
    host: &dyn HostRead,
    cpus: &[Cpu],
    openwrt: &OpenWrt,
    gaps: &mut Gaps,
) -> ForwardPath {
    let sysctl = |name: &str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        number::<u64>(host, Path::new(&path))
    };
    let lines = |file: &str| -> Vec<String> {
        let names = String::from_utf8_lossy(&net_file(host, file)).into_owned();
        names.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect()
    };
    let asked = query_as(host, &Query::Nftables);
    let options = [
        ("packet_steering", openwrt.global("packet_steering")),
        ("steering_flows", openwrt.global("steering_flows")),
        ("flow_offloading", openwrt.firewall_default("flow_offloading")),
        ("flow_offloading_hw", openwrt.firewall_default("flow_offloading_hw")),
    ];
    let nftables = nftables(gaps, asked);
    let (iptables, ip6tables) = (lines("ip_tables_names"), lines("ip6_tables_names"));
    let iptables_rules = match iptables.is_empty() && ip6tables.is_empty() {
        true => Vec::new(),
        false => {
            let what = "iptables rules (iptables-legacy -S lists them)";
            gaps.keep(what, query_as(host, &Query::Iptables)).unwrap_or_default()
        }
    };
    let bound = bound(host, gaps, openwrt, nftables.as_ref(), &iptables_rules);
    ForwardPath {
        ipv4: sysctl("net.ipv4.ip_forward").map(|v| v != 0),
        ipv6: sysctl("net.ipv6.conf.all.forwarding").map(|v| v != 0),
        nftables,
        iptables,
        ip6tables,
        iptables_rules,
        can_offload: openwrt.has_firewall() || offers_flow_offload(host).is_ok(),
        firewall: openwrt.has_firewall(),
        bound,
        engines: engines::discover(host),
        conntrack_count: sysctl("net.netfilter.nf_conntrack_count"),
        conntrack_max: sysctl("net.netfilter.nf_conntrack_max"),
        bridge_nf: sysctl("net.bridge.bridge-nf-call-iptables").map(|v| v != 0),
        sysctls: SYSCTLS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), sysctl(name)?)))
            .collect(),
        softnet: softnet_cpus(host, cpus),
        openwrt: options
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect::<BTreeMap<_, _>>(),
    }
}

/// Rules of nf_tables: a kernel without nf_tables has none, which is no gap.
fn nftables(
    gaps: &mut Gaps,
    asked: crate::machine::host::HostResult<Nftables>,
) -> Option<Nftables> {
    use rustix::io::Errno;
    let missing = [Errno::OPNOTSUPP, Errno::PROTONOSUPPORT, Errno::INVAL];
    match asked {
        Err(e) if missing.contains(&e.errno) => None,
        other => gaps.keep("nftables rules", other),
    }
}

/// Number of flows that are bound, where something may bind them: with no flowtable the answer is
/// known, and the kernel would have to look through all connections for it.
fn bound(
    host: &dyn HostRead,
    gaps: &mut Gaps,
    openwrt: &OpenWrt,
    nftables: Option<&Nftables>,
    iptables: &[IptablesTable],
) -> Option<BoundFlows> {
    let offloads = nftables.is_some_and(|n| !n.flowtables.is_empty())
        || iptables.iter().any(|t| t.flow_offload)
        || openwrt.firewall_default("flow_offloading") == Some("1");
    if !offloads {
        return None;
    }
    gaps.keep("flows bound by flowtables", query_as(host, &Query::BoundFlows))
}

pub(super) fn softnet_cpus(host: &dyn HostRead, cpus: &[Cpu]) -> Vec<SoftnetCpu> {
    let bytes = host.read(Path::new("/proc/net/softnet_stat")).unwrap_or_default();
    // Before kernel 5.10 row n is the n-th online CPU.
    let online =
        cpus.iter().filter(|c| c.online).map(|c| Some(c.id)).chain(std::iter::repeat(None));
    let rows = softnet(&bytes).into_iter().zip(online);
    rows.filter_map(|(row, by_order)| {
        Some(SoftnetCpu {
            cpu: row.cpu.or(by_order)?,
            packets: row.packets,
            dropped: row.dropped,
            squeezed: row.squeezed,
            received_rps: row.received_rps,
        })
    })
    .collect()
}
