//! Packet sizes that do not fit each other.

use crate::decide::diagnose::subject::listed;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::NetDev;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "pppoe-mtu",
        what: "a PPPoE session whose packets do not fit the port under it",
        costs: "full packets are fragmented or lost: PPPoE takes 8 bytes of each frame",
        source: "RFC 2516, section 7; RFC 4638",
        reads: "MTU of the session and of what it stands on",
        load: Load::Apart,
        look: pppoe,
    },
    Rule {
        id: "no-mss-clamp",
        what: "a narrower WAN without clamping of TCP's segment size",
        costs: "hosts send 1500 bytes into 1492: each connection depends on ICMP that many networks \
                drop, and then hangs",
        source: "RFC 2923, section 2.1; iptables-extensions(8), TCPMSS",
        reads: "MTU of WAN and LAN, nftables, iptables, OpenWrt's mtu_fix",
        load: Load::Apart,
        look: clamp,
    },
    Rule {
        id: "fragments",
        what: "packets are fragmented or fail to be",
        costs: "a fragmented packet costs two packets' work and is lost with either; one that may not \
                be fragmented is dropped",
        source: "RFC 8900; /proc/net/snmp (FragCreates, FragFails)",
        reads: "/proc/net/snmp",
        load: Load::Better,
        look: fragments,
    },
    Rule {
        id: "odd-mtu",
        what: "a port with an MTU that does not go with the others",
        costs: "packets of 1500 bytes from the other side are fragmented or refused at this port; \
                below 1280 IPv6 is off",
        source: "RFC 8200, section 5; RFC 2923",
        reads: "MTU of ports, VLANs and bridges",
        load: Load::Apart,
        look: odd,
    },
];

/// RFC 2516: six bytes of PPPoE, two of PPP.
const PPPOE: u32 = 8;

fn file(device: &str) -> String {
    format!("/sys/class/net/{device}/mtu")
}

fn pppoe(subject: &Subject<'_>) -> Looked {
    let mut found = Vec::new();
    for (session, over) in subject.pppoe() {
        let Some(carrier) = subject.snapshot.netdev(over) else { continue };
        // A VLAN can't carry more than what is under it; its own MTU may claim so.
        let under = carrier.lower.iter().filter_map(|name| subject.snapshot.netdev(name));
        let narrow = under.chain([carrier]).filter(|d| d.mtu > 0).min_by_key(|d| d.mtu);
        let Some(narrow) = narrow.filter(|d| session.mtu > 0 && session.mtu + PPPOE > d.mtu) else {
            continue;
        };
        let title = format!(
            "{} has an MTU of {}, and {} under it carries {} less {PPPOE}",
            session.name, session.mtu, narrow.name, narrow.mtu
        );
        found.push(
            Found::new(Severity::Warning, title)
                .seen(file(&session.name), session.mtu)
                .seen(file(&narrow.name), narrow.mtu)
                .rank(0.3)
                .remedy(format!(
                    "ip link set {} mtu {}  # if the provider takes such frames (RFC 4638), and the \
                     devices between likewise",
                    narrow.name,
                    session.mtu + PPPOE
                ))
                .remedy(format!("else ip link set {} mtu {}", session.name, narrow.mtu.saturating_sub(PPPOE))),
        );
    }
    Ok(found)
}

/// True if something clamps TCP's segment size; `None` where that is not known.
fn clamps(subject: &Subject<'_>) -> Option<bool> {
    let path = &subject.snapshot.path;
    let nft = path.nftables.as_ref().and_then(|n| n.clamps_mss);
    let old: Option<bool> = match path.iptables_rules.is_empty() {
        // Tables that are there and can't be read may hold it.
        true if path.iptables.is_empty() => Some(false),
        true => None,
        false => Some(path.iptables_rules.iter().any(|t| t.clamps_mss == Some(true))),
    };
    let by_option = subject.condition.mtu_fix.values().any(|on| *on);
    match (nft, old) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        _ if by_option => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn clamp(subject: &Subject<'_>) -> Looked {
    let wide = subject.ports().map(|d| d.mtu).max().unwrap_or(0);
    let narrow: Vec<&NetDev> = subject
        .snapshot
        .netdevs
        .iter()
        .filter(|d| d.kind.as_deref() == Some("ppp") && d.mtu > 0 && d.mtu < wide)
        .collect();
    let Some(first) = narrow.first() else { return Ok(Vec::new()) };
    if subject.forwards() == Some(false) {
        return Ok(Vec::new());
    }
    let fixed: Vec<_> = subject.condition.mtu_fix.iter().collect();
    match clamps(subject) {
        Some(true) => return Ok(Vec::new()),
        None if fixed.is_empty() => return Err("the rules can't be read".into()),
        _ => {}
    }
    let mut found = Found::new(
        Severity::Warning,
        format!("nothing clamps TCP's segments to {}'s MTU of {}", first.name, first.mtu),
    )
    .seen(file(&first.name), first.mtu)
    .seen("MTU of the ports", wide)
    .rank(0.2)
    .sure(Confidence::Likely);
    for (zone, _) in &fixed {
        found =
            found.seen(format!("/etc/config/firewall, zone {zone}, mtu_fix"), 0).remedy(format!(
                "uci set firewall.@zone[N].mtu_fix=1 for zone {zone}; uci commit firewall; \
                             /etc/init.d/firewall reload"
            ));
    }
    if fixed.is_empty() {
        found = found.seen("nft list ruleset, iptables-save: rules that set maxseg", "none").remedy(format!(
            "nft add rule inet filter forward oifname {} tcp flags syn tcp option maxseg size set rt mtu",
            first.name
        ));
    }
    Ok(vec![found.remedy(
        "or iptables -t mangle -A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS \
                          --clamp-mss-to-pmtu",
    )])
}

fn fragments(subject: &Subject<'_>) -> Looked {
    let ip = |name: &'static str| {
        move |_: &crate::model::snapshot::Snapshot, c: &crate::model::condition::Condition| {
            c.ip.get(name).copied().unwrap_or(0)
        }
    };
    if subject.condition.ip.is_empty() {
        return Err("/proc/net/snmp can't be read".into());
    }
    let counted = |name: &'static str| match subject.rose(ip(name)) {
        Some(rose) => (rose, "in the window"),
        None => (ip(name)(subject.snapshot, subject.condition), "since boot"),
    };
    let (created, when) = counted("FragCreates");
    let (failed, _) = counted("FragFails");
    let (forwarded, _) = counted("ForwDatagrams");
    let most = created.max(failed);
    let share = most as f64 / (forwarded.max(1)) as f64;
    // A few at the start of each connection are how path MTU discovery works.
    if most < 100 || share < 1e-3 || subject.forwards() == Some(false) {
        return Ok(Vec::new());
    }
    let grave = share >= if subject.window.is_some() { 0.01 } else { 0.05 };
    let severity = if grave { Severity::Warning } else { Severity::Notice };
    let title = format!("{created} fragments were made and {failed} packets were too big {when}");
    Ok(vec![
        Found::new(severity, title)
            .seen("/proc/net/snmp, Ip: FragCreates", created)
            .seen("/proc/net/snmp, Ip: FragFails", failed)
            .seen("/proc/net/snmp, Ip: ForwDatagrams", forwarded)
            .cost(share.min(0.5))
            .sure(Confidence::Likely)
            .remedy(
                "clamp TCP's segment size (see no-mss-clamp) and look at the MTU of tunnels: \
                     linerate show stack",
            )
            .remedy(
                "where the packets are UDP (a tunnel through this router), lower the tunnel's MTU",
            ),
    ])
}

fn odd(subject: &Subject<'_>) -> Looked {
    let mut found = Vec::new();
    let ports: Vec<&NetDev> =
        subject.ports().filter(|d| d.mtu > 0 && d.conduit.is_none()).collect();
    if ports.is_empty() {
        return Err("no port's MTU can be read".into());
    }
    let most = ports.iter().map(|d| d.mtu).max().unwrap_or(0);
    // Bridge ports follow; tunnels that come as USB or PCI cards (LTE) have what they have.
    let narrow: Vec<&&NetDev> =
        ports.iter().filter(|d| d.mtu < 1280 || (d.mtu < 1500 && most >= 1500)).collect();
    // Whoever clamps the segments knows that the path is narrower.
    let clamped = clamps(subject) == Some(true);
    let small = narrow.iter().any(|d| d.mtu < 1280);
    if let Some(least) = narrow.iter().map(|d| d.mtu).min().filter(|_| small || !clamped) {
        let names = listed(narrow.iter().map(|d| d.name.as_str()));
        let what = if small { "too small for IPv6" } else { "smaller than the others" };
        let mut one = Found::new(
            subject.on_router(Severity::Warning),
            format!("{names}'s MTU of {least} is {what}"),
        )
        .rank(0.2)
        .sure(Confidence::Likely);
        for device in &narrow {
            one = one.seen(file(&device.name), device.mtu);
        }
        if let Some(other) = ports.iter().find(|d| d.mtu == most && d.mtu > least) {
            one = one.seen(file(&other.name), most);
        }
        // What lies behind decides: a larger MTU on a narrower path loses packets.
        one = one.remedy(
            "what the path behind it carries: ping -M do -s 1472 HOST BEHIND IT  # 1472 + 28 = 1500",
        );
        for device in &narrow {
            one = one.remedy(format!("if that answers: ip link set {} mtu 1500", device.name));
        }
        found.push(one.remedy(
            "if not, it is meant so: clamp TCP's segment size (linerate check no-mss-clamp)",
        ));
    }
    let jumbo: Vec<&&NetDev> = ports.iter().filter(|d| d.mtu > 2000).collect();
    if let (Some(one), Some(other)) = (jumbo.first(), ports.iter().find(|d| d.mtu == 1500)) {
        let title = format!("{} takes {} bytes and {} 1500", one.name, one.mtu, other.name);
        found.push(
            Found::new(Severity::Notice, title)
                .seen(file(&one.name), one.mtu)
                .seen(file(&other.name), other.mtu)
                .sure(Confidence::Possible)
                .remedy(
                    "give hosts behind it the MTU of the way out (DHCP option 26, RA), or clamp \
                         TCP's segment size",
                ),
        );
    }
    for device in &subject.snapshot.netdevs {
        let under = device.lower.iter().filter_map(|name| subject.snapshot.netdev(name));
        let Some(under) = under.filter(|d| d.mtu > 0 && d.mtu < device.mtu).min_by_key(|d| d.mtu)
        else {
            continue;
        };
        if !matches!(device.kind.as_deref(), Some("vlan" | "macvlan" | "bridge")) {
            continue;
        }
        let title = format!(
            "{} has an MTU of {} over {}, which carries {}",
            device.name, device.mtu, under.name, under.mtu
        );
        found.push(
            Found::new(Severity::Warning, title)
                .seen(file(&device.name), device.mtu)
                .seen(file(&under.name), under.mtu)
                .rank(0.2)
                .remedy(format!("ip link set {} mtu {}", device.name, under.mtu))
                .remedy(format!(
                    "or, if the path behind carries them: ip link set {} mtu {}",
                    under.name, device.mtu
                )),
        );
    }
    Ok(found)
}
