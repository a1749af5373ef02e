//! Sending: queues that hang, and a bond that sends by one port.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::Condition;
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::{NetDev, Snapshot};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "transmit-hang",
        what: "a card that stopped sending until the kernel reset it (NETDEV WATCHDOG)",
        costs: "nothing leaves through the port for five seconds and more each time, and what waited in \
                the card is lost",
        source: "net/sched/sch_generic.c (dev_watchdog); openwrt issues 14167 and 21827",
        reads: "tx_timeout of each transmit queue",
        load: Load::Better,
        look: hangs,
    },
    Rule {
        id: "bond-hash",
        what: "a bond that sends nearly all by one of its ports",
        costs: "the bond is as fast as one port: by default the port is chosen by MAC addresses, and behind \
                a router there is but one pair of them",
        source: "Documentation/networking/bonding.rst (xmit_hash_policy); openmediavault issue 1542",
        reads: "mode and xmit_hash_policy of each bond, packets that its ports sent",
        load: Load::Apart,
        look: bonds,
    },
];

fn hangs(subject: &Subject<'_>) -> Looked {
    let known = |d: &NetDev| subject.device(&d.name).and_then(|c| c.tx_timeouts);
    if subject.ports().all(|d| known(d).is_none()) {
        return Err("no port tells how often its queues hung".into());
    }
    let found = subject.ports().filter_map(|device| {
        let name = &device.name;
        let all = known(device)?;
        let of = |_: &Snapshot, c: &Condition| {
            c.devices.get(name).and_then(|d| d.tx_timeouts).unwrap_or(0)
        };
        let (severity, count, when) = match (subject.rose(of), all) {
            (Some(rose @ 1..), _) => (Severity::Critical, rose, "in the window"),
            // Once or twice may have been a cable that was pulled under load.
            (None, 3..) => (Severity::Warning, all, "since it came up"),
            (None, 1..) => (Severity::Notice, all, "since it came up"),
            _ => return None,
        };
        let title = format!("{name} stopped sending {count} times {when} and was reset");
        let place = format!("/sys/class/net/{name}/queues/tx-*/tx_timeout");
        let found = Found::new(severity, title).seen(place, all).rank(0.3).remedy(
            "dmesg | grep -A3 'timed out'  # when, and what the driver says of it",
        );
        Some(
            found
                .remedy(format!(
                    "ethtool -A {name} rx off tx off  # a partner's pause frames stop a queue as well"
                ))
                .remedy("a newer kernel or driver: it is the driver's fault or the card's"),
        )
    });
    Ok(found.collect())
}

fn bonds(subject: &Subject<'_>) -> Looked {
    let bonds = subject.snapshot.netdevs.iter().filter(|d| d.kind.as_deref() == Some("bond"));
    let mut found = Vec::new();
    for bond in bonds.filter(|d| d.operstate != "down") {
        let name = &bond.name;
        let Some((mode, policy)) = subject.device(name).and_then(|c| c.bond.as_ref()) else {
            return Err(format!("the mode of {name} can't be read"));
        };
        let up = bond.lower.iter().filter_map(|lower| subject.snapshot.netdev(lower));
        let up = up.filter(|port| port.operstate == "up");
        let sent = |port: &NetDev| subject.device(&port.name).and_then(|c| c.tx_packets);
        let ports: Vec<(&str, u64)> =
            up.filter_map(|port| Some((port.name.as_str(), sent(port)?))).collect();
        let all: u64 = ports.iter().map(|(_, n)| *n).sum();
        let Some((most, count)) = ports.iter().max_by_key(|(_, n)| *n) else { continue };
        let hashes = ["802.3ad", "balance-xor"].contains(&mode.as_str());
        let lone = ports.len() > 1 && all >= 1_000_000 && count.saturating_mul(20) >= all * 19;
        if !(hashes && lone && policy == "layer2") {
            continue;
        }
        let title = format!(
            "{name} sent {:.0} % of its packets by {most}, one of {} ports",
            *count as f64 / all as f64 * 100.0,
            ports.len()
        );
        let place = format!("/sys/class/net/{name}/bonding");
        found.push(
            Found::new(subject.on_router(Severity::Notice), title)
                .sure(Confidence::Likely)
                .rank(0.05)
                .seen(format!("{place}/mode, xmit_hash_policy"), format!("{mode}, {policy}"))
                .seen(format!("/sys/class/net/{most}/statistics/tx_packets"), count)
                .remedy(format!("echo layer3+4 > {place}/xmit_hash_policy")),
        );
    }
    Ok(found)
}
