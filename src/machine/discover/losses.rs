//! Counters of lost packets, from the wire to the wire, as they are now.

use std::path::Path;

use super::{net_file, number};
use crate::machine::host::{HostRead, HostResult, Query, query_as};
use crate::machine::parse::{per_cpu, snmp};
use crate::model::loss::{DEVICE, DropRule, QdiscCounts, Reading, Source};
use crate::model::nic::Numbers;
use crate::model::snapshot::{Gap, NetDev, Snapshot};

/// Reads them; what can't be read is a gap.
#[must_use]
pub fn losses(host: &dyn HostRead, snapshot: &Snapshot) -> Reading {
    let mut reading = Reading::default();
    // IP's counters and the rules' close together: they are compared.
    protocols(host, &mut reading);
    let rules: Option<Vec<DropRule>> =
        keep(&mut reading, "rules that drop", query_as(host, &Query::DropRules));
    for rule in rules.into_iter().flatten() {
        match rule.packets {
            Some(packets) => {
                let family = if rule.ipv6 { "6" } else { "" };
                let name = format!("{}{family}", rule.leg.name());
                reading.add(Source::Rule, &rule.place, &name, packets);
            }
            None => reading.uncounted.push(rule.place),
        }
    }
    let qdiscs: Option<Vec<QdiscCounts>> =
        keep(&mut reading, "queueing disciplines", query_as(host, &Query::QdiscCounts));
    for q in qdiscs.into_iter().flatten() {
        let rate = q.rate.map(|rate| format!(" {} kbit/s", rate / 1000)).unwrap_or_default();
        let inner = if q.inner { " inner" } else { "" };
        let place = format!("{} {} {}{rate}{inner}", q.device, q.place, q.kind);
        for (name, value) in
            [("drops", q.drops), ("overlimits", q.overlimits), ("requeues", q.requeues)]
        {
            reading.add(Source::Qdisc, &place, name, u64::from(value));
        }
    }
    for row in super::path::softnet_cpus(host, &snapshot.cpus) {
        let place = row.cpu.to_string();
        reading.add(Source::Softnet, &place, "dropped", row.dropped.into());
        reading.add(Source::Softnet, &place, "received_rps", row.received_rps.into());
    }
    // A bond's counters are the sums of its members'.
    let sums = |d: &&NetDev| matches!(d.kind.as_deref(), Some("bond" | "team"));
    for device in snapshot.netdevs.iter().filter(|d| !sums(d)) {
        of_device(host, device, &mut reading);
    }
    // IP counts what a machine sends to itself as well.
    for name in ["rx_packets", "tx_packets"] {
        let count = number(host, &Path::new("/sys/class/net/lo/statistics").join(name));
        reading.add(Source::Device, "lo", name, count.unwrap_or(0));
    }
    reading
}

fn protocols(host: &dyn HostRead, reading: &mut Reading) {
    let file = |name: &str| net_file(host, name);
    let (snmp, netstat) = (file("snmp"), file("netstat"));
    if snmp.is_empty() {
        reading.gaps.push(gap("packets of IP", "/proc/net/snmp can't be read"));
    }
    let mut all = |source, counts: Numbers| {
        for (name, value) in counts {
            reading.add(source, "", &name, value);
        }
    };
    all(Source::Ip, snmp::counters(&snmp, "Ip"));
    all(Source::Udp, snmp::counters(&snmp, "Udp"));
    all(Source::Netstat, snmp::counters(&netstat, "IpExt"));
    let mut tcp = snmp::counters(&netstat, "TcpExt");
    tcp.retain(|name, _| matches!(name.as_str(), "IPReversePathFilter" | "ListenDrops"));
    all(Source::Netstat, tcp);
    all(Source::Ip6, snmp::flat(&file("snmp6")));
    all(Source::Conntrack, per_cpu::sums(&file("stat/nf_conntrack")));
    all(Source::RouteCache, per_cpu::sums(&file("stat/rt_cache")));
    for table in ["arp_cache", "ndisc_cache"] {
        // One count for the whole machine, which only the first namespace has a file of
        // (net/core/neighbour.c, neigh_table_init).
        let name = format!("stat/{table}");
        let first = || host.read(&Path::new("/proc/1/net").join(&name)).unwrap_or_default();
        let bytes = Some(file(&name)).filter(|b| !b.is_empty()).unwrap_or_else(first);
        for (name, value) in per_cpu::sums(&bytes) {
            reading.add(Source::Neighbour, table, &name, value);
        }
    }
}

fn of_device(host: &dyn HostRead, device: &NetDev, reading: &mut Reading) {
    let dir = Path::new("/sys/class/net").join(&device.name);
    let mut add = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            reading.add(Source::Device, &device.name, name, value);
        }
    };
    // Packets of a stack of devices count at its bottom only.
    let is_bottom =
        device.lower.is_empty() && device.conduit.is_none() && device.pppoe_over.is_none();
    for name in DEVICE.iter().filter(|name| is_bottom || !name.ends_with("_packets")) {
        add(name, number(host, &dir.join("statistics").join(name)));
    }
    add("carrier_changes", number(host, &dir.join("carrier_changes")));
    let timeouts = device.tx_queues.iter().filter_map(|queue| {
        number::<u64>(host, &dir.join(format!("queues/tx-{}/tx_timeout", queue.index)))
    });
    add("tx_timeout", timeouts.reduce(u64::saturating_add));
    let own: Option<Numbers> = query_as(host, &Query::Counters(device.name.clone())).ok();
    for (name, value) in own.into_iter().flatten() {
        reading.add(Source::Driver, &device.name, &name, value);
    }
}

fn keep<T>(reading: &mut Reading, what: &str, answer: HostResult<T>) -> Option<T> {
    answer
        .map_err(|e| {
            let why = match e.errno {
                rustix::io::Errno::NODATA => "not in this capture".to_owned(),
                _ => e.to_string(),
            };
            reading.gaps.push(gap(what, &why));
        })
        .ok()
}

fn gap(what: &str, why: &str) -> Gap {
    Gap { what: what.to_owned(), why: why.to_owned() }
}
