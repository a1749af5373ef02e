//! Limits of the kernel that are set far from what works.

use crate::decide::diagnose::subject::listed;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::{Condition, Neighbours};
use crate::model::finding::{Confidence, Severity};
use crate::model::kconfig::release;
use crate::model::snapshot::{NetDev, Snapshot};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "odd-limits",
        what: "limits of packet processing set far below what the kernel comes with",
        costs: "a poll ends after a few packets and packets wait for the next softirq, a backlog is full \
                at once, or each packet walks through long lists of connections; how much that costs \
                here was not measured",
        source: "Documentation/admin-guide/sysctl/net.rst (netdev_budget, dev_weight, \
                 netdev_max_backlog); Documentation/networking/nf_conntrack-sysctl.rst \
                 (nf_conntrack_buckets)",
        reads: "net.core.netdev_budget, netdev_budget_usecs, dev_weight and netdev_max_backlog, \
                nf_conntrack_buckets, nf_conntrack_max and nf_conntrack_count, tx_queue_len and \
                queueing discipline of each port",
        load: Load::Apart,
        look: limits,
    },
    Rule {
        id: "neighbour-overflow",
        what: "a table of neighbours that has, or had, no room for another host",
        costs: "packets to a host that finds no room are dropped (`neighbour: arp_cache: neighbor table \
                overflow!`), and the kernel searches the whole table for something to throw out",
        source: "net/core/neighbour.c (neigh_alloc); Documentation/networking/ip-sysctl.rst \
                 (neigh/default/gc_thresh3)",
        reads: "/proc/net/stat/arp_cache (entries) and ndisc_cache (table_fulls), gc_thresh3",
        load: Load::Better,
        look: neighbours,
    },
    Rule {
        id: "ipv6-routes-full",
        what: "as many routes of IPv6 as the kernel takes, before Linux 6.3",
        costs: "packets to further destinations are dropped (`Route cache is full: consider increasing \
                sysctl net.ipv6.route.max_size`); 4096 are less than a full table, and each path with an \
                MTU of its own counts",
        source: "net/ipv6/route.c (ip6_dst_gc); Linux commit af6d10345ca7; \
                 vyos/vyatta-cfg-system pull request 107",
        reads: "/proc/net/rt6_stats, net.ipv6.route.max_size",
        load: Load::Apart,
        look: routes6,
    },
];

/// A limit of net.core, the least that works, and the kernel's own value (net/core/hotdata.c,
/// net/core/dev.h). A device's weight is 64: with a smaller budget one device ends the poll of all.
const LEAST: &[(&str, u64, u64)] = &[
    ("net.core.netdev_budget", 64, 300),
    // Any more is rounded up to a tick of the clock, which is long enough.
    ("net.core.netdev_budget_usecs", 1, 2000),
    ("net.core.dev_weight", 16, 64),
    ("net.core.netdev_max_backlog", 100, 1000),
];

fn limits(subject: &Subject<'_>) -> Looked {
    let path = &subject.snapshot.path;
    let value = |name: &str| path.sysctls.get(name).copied();
    let buckets = value("net.netfilter.nf_conntrack_buckets");
    let mut found: Vec<Found> = queue_length(subject).into_iter().collect();
    let blind = buckets.is_none() && LEAST.iter().all(|(name, ..)| value(name).is_none());
    if blind && found.is_empty() {
        return Err("/proc/sys/net/core can't be read".into());
    }
    for (name, least, usual) in LEAST {
        let Some(now) = value(name).filter(|now| now < least) else { continue };
        let title = format!("{name} is {now}; the kernel comes with {usual}");
        found.push(
            Found::new(subject.on_router(Severity::Warning), title)
                .seen(format!("/proc/sys/{}", name.replace('.', "/")), now)
                .sure(Confidence::Likely)
                .remedy(format!(
                    "sysctl -w {name}={usual}, and look who sets it: grep -r {name} /etc/sysctl*"
                )),
        );
    }
    if let (Some(buckets), Some(most)) = (buckets.filter(|n| *n > 0), path.conntrack_max) {
        // Each connection is in two lists. The kernel's own limit is eight connections for each bucket
        // at most (before 5.15, net/netfilter/nf_conntrack_core.c).
        let entries = |connections: u64| connections.saturating_mul(2) / buckets;
        let now = path.conntrack_count.unwrap_or(0);
        if most / buckets > 8 {
            let grave = entries(now) >= 8;
            let severity = if grave { Severity::Warning } else { Severity::Notice };
            let wanted = (most / 4).max(buckets);
            let title = format!(
                "{buckets} buckets for up to {most} connections: a list has {} of {now} now, and could \
                 have {}",
                entries(now),
                entries(most)
            );
            found.push(
                Found::new(subject.on_router(severity), title)
                    .seen("/proc/sys/net/netfilter/nf_conntrack_buckets", buckets)
                    .seen("/proc/sys/net/netfilter/nf_conntrack_max", most)
                    .seen("/proc/sys/net/netfilter/nf_conntrack_count", now)
                    .sure(Confidence::Likely)
                    .remedy(format!("sysctl -w net.netfilter.nf_conntrack_buckets={wanted}")),
            );
        }
    }
    Ok(found)
}

/// Queueing disciplines whose limit is the device's (net/sched/sch_generic.c, pfifo_fast_init;
/// net/sched/sch_fifo.c, fifo_init): the others have their own.
const BY_DEVICE: &[&str] = &["pfifo_fast", "pfifo", "bfifo"];

/// Ports that let next to nothing wait to be sent.
fn queue_length(subject: &Subject<'_>) -> Option<Found> {
    const LEAST: u64 = 64;
    let of = |d: &NetDev| subject.device(&d.name).and_then(|c| c.tx_queue_len);
    let by_device = |d: &&NetDev| d.qdiscs.iter().any(|q| BY_DEVICE.contains(&q.kind.as_str()));
    // Where it was 0 from the start there is no queue at all.
    let short = |d: &&NetDev| of(d).is_some_and(|length| length > 0 && length < LEAST);
    let ports: Vec<&NetDev> = subject.ports().filter(short).filter(by_device).collect();
    let names = listed(ports.iter().map(|d| d.name.as_str()));
    let least = ports.iter().filter_map(|d| of(d)).min()?;
    let title = format!("only {least} packets may wait to be sent by {names}; usual are 1000");
    let mut found = Found::new(subject.on_router(Severity::Warning), title)
        .rank(0.1)
        .consequence("what a burst brings beyond that is dropped")
        .sure(Confidence::Likely);
    for device in ports {
        let place = format!("/sys/class/net/{}/tx_queue_len", device.name);
        found = found
            .seen(place, of(device).unwrap_or_default())
            .remedy(format!("ip link set {} txqueuelen 1000", device.name));
    }
    Some(found.remedy("or fq_codel, which has a limit of its own"))
}

fn neighbours(subject: &Subject<'_>) -> Looked {
    let Some(table) = subject.condition.neighbours else {
        return Err("/proc/net/stat/arp_cache can't be read, or does not count overflows".into());
    };
    let of = |_: &Snapshot, c: &Condition| c.neighbours.map_or(0, |n: Neighbours| n.overflows);
    let (times, when) = match subject.rose(of) {
        Some(rose) => (rose, "in the window"),
        None => (table.overflows, "since boot"),
    };
    // At the limit the next one finds no room, unless one can be thrown out.
    let full = table.most.zip(table.entries).filter(|(most, now)| now * 20 >= most * 19);
    let (title, severity) = match (times, full) {
        (0, None) => return Ok(Vec::new()),
        (0, Some((most, now))) => {
            (format!("the table of neighbours has {now} entries of {most}"), Severity::Warning)
        }
        _ => {
            let now = subject.window.is_some();
            let severity = if now { Severity::Critical } else { Severity::Warning };
            (format!("the table of neighbours had no room {times} times {when}"), severity)
        }
    };
    let mut found = Found::new(severity, title)
        .rank(if full.is_some() { 0.3 } else { 0.1 })
        .seen("/proc/net/stat/arp_cache, ndisc_cache: table_fulls", times)
        .remedy(
            "look how many there are, and whether a scan or a loop made them: ip -s neigh | wc -l",
        );
    if let Some(entries) = table.entries {
        found = found.seen("/proc/net/stat/arp_cache: entries", entries);
    }
    if let Some(most) = table.most {
        let wanted = most.saturating_mul(4);
        found = found.seen("/proc/sys/net/ipv4/neigh/default/gc_thresh3", most).remedy(format!(
            "sysctl -w net.ipv4.neigh.default.gc_thresh3={wanted} net.ipv4.neigh.default.gc_thresh2={} \
             (net.ipv6 likewise)",
            wanted / 2
        ));
    }
    Ok(vec![found])
}

fn routes6(subject: &Subject<'_>) -> Looked {
    let Some((now, most)) = subject.condition.routes6 else {
        return match subject.snapshot.path.ipv6 {
            Some(_) => Err("/proc/net/rt6_stats or net.ipv6.route.max_size can't be read".into()),
            None => Ok(Vec::new()),
        };
    };
    // Later kernels heed the limit no more.
    let heeded = release(&subject.snapshot.machine.kernel).is_some_and(|version| version < (6, 3));
    if !heeded || now.saturating_mul(20) < most.saturating_mul(19) {
        return Ok(Vec::new());
    }
    let title = format!("the kernel holds {now} routes of IPv6, and takes {most}");
    Ok(vec![
        Found::new(subject.on_router(Severity::Warning), title)
            .rank(0.3)
            .seen("/proc/net/rt6_stats: sixth number", format!("{now:x} (hexadecimal)"))
            .seen("/proc/sys/net/ipv6/route/max_size", most)
            .remedy(format!("sysctl -w net.ipv6.route.max_size={}", most.saturating_mul(64))),
    ])
}
