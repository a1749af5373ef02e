//! Limits of the kernel that are set far from what works.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::{Condition, Neighbours};
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::Snapshot;

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
                nf_conntrack_buckets, nf_conntrack_max and nf_conntrack_count",
        load: Load::Apart,
        look: limits,
    },
    Rule {
        id: "neighbour-overflow",
        what: "a table of neighbours that had no room for another host",
        costs: "packets to a host that finds no room are dropped (`neighbour: arp_cache: neighbor table \
                overflow!`), and the kernel searches the whole table for something to throw out",
        source: "net/core/neighbour.c (neigh_alloc); Documentation/networking/ip-sysctl.rst \
                 (neigh/default/gc_thresh3)",
        reads: "/proc/net/stat/arp_cache and ndisc_cache (table_fulls), gc_thresh3",
        load: Load::Better,
        look: neighbours,
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
    if buckets.is_none() && LEAST.iter().all(|(name, ..)| value(name).is_none()) {
        return Err("/proc/sys/net/core can't be read".into());
    }
    let mut found = Vec::new();
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

fn neighbours(subject: &Subject<'_>) -> Looked {
    let Some(table) = subject.condition.neighbours else {
        return Err("/proc/net/stat/arp_cache can't be read, or does not count overflows".into());
    };
    let of = |_: &Snapshot, c: &Condition| c.neighbours.map_or(0, |n: Neighbours| n.overflows);
    let (times, when) = match subject.rose(of) {
        Some(rose) => (rose, "in the window"),
        None => (table.overflows, "since boot"),
    };
    if times == 0 {
        return Ok(Vec::new());
    }
    let severity = if subject.window.is_some() { Severity::Critical } else { Severity::Warning };
    let title = format!("the table of neighbours had no room {times} times {when}");
    let mut found = Found::new(severity, title)
        .seen("/proc/net/stat/arp_cache, ndisc_cache: table_fulls", times)
        .remedy(
            "look how many there are, and whether a scan or a loop made them: ip -s neigh | wc -l",
        );
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
