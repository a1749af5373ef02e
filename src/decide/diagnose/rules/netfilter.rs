//! Rules that forwarded packets meet.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::NetDev;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "bridge-netfilter",
        what: "bridged frames go through iptables",
        costs: "frames between ports of a bridge pay for connection tracking and rules that are \
                meant for routed packets; br_netfilter is loaded by Docker and old virtualisation \
                tools",
        source: "net/bridge/br_netfilter_hooks.c; https://wiki.linuxfoundation.org/networking/bridge",
        reads: "net.bridge.bridge-nf-call-iptables, bridges and their ports",
        load: Load::Apart,
        look: bridge,
    },
    Rule {
        id: "large-rule-set",
        what: "many rules on the forwarding path",
        costs: "each rule costs every packet of a connection that is not offloaded, some 0.2 % of \
                what NAT and routing cost: 500 rules double a packet's work",
        source: "cost model (`rule` in src/decide/plan/costs.rs), by `linerate tune nat --rules` as in docs/fit.md",
        reads: "nftables and iptables, counted",
        load: Load::Apart,
        look: rules,
    },
];

fn bridge(subject: &Subject<'_>) -> Looked {
    let devices = &subject.snapshot.netdevs;
    let Some(on) = subject.snapshot.path.bridge_nf else {
        // Without br_netfilter there is no such file: known to be off, where anything is known.
        return if subject.snapshot.path.ipv4.is_some() {
            Ok(Vec::new())
        } else {
            Err("net.bridge.bridge-nf-call-iptables can't be read".into())
        };
    };
    if !on {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for bridge in devices.iter().filter(|d| d.kind.as_deref() == Some("bridge")) {
        let ports: Vec<&NetDev> =
            devices.iter().filter(|d| d.master.as_deref() == Some(&bridge.name)).collect();
        // Between ports of one switch the switch forwards, and a lone port has no other.
        let by_cpu: Vec<&&NetDev> =
            ports.iter().filter(|d| d.is_hardware() && d.switch.is_none()).collect();
        if ports.len() < 2 || by_cpu.is_empty() {
            continue;
        }
        let names: Vec<&str> = ports.iter().map(|d| d.name.as_str()).collect();
        let title = format!("frames bridged by {} go through iptables", bridge.name);
        found.push(
            Found::new(Severity::Warning, title)
                .seen("/proc/sys/net/bridge/bridge-nf-call-iptables", 1)
                .seen(format!("ports of {}", bridge.name), names.join(", "))
                .rank(0.1)
                .sure(Confidence::Likely)
                .remedy("sysctl -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0")
                .remedy("first look whether a container or guest needs it: Docker's isolation between \
                         containers of one network does"),
        );
    }
    Ok(found)
}

/// Rules that cost as much as NAT and routing together.
const AS_MUCH_AS_NAT: u32 = 500;

fn rules(subject: &Subject<'_>) -> Looked {
    let path = &subject.snapshot.path;
    if path.nftables.is_none() && path.iptables_rules.is_empty() {
        return Err("the rules can't be read".into());
    }
    let exact = path.nftables.as_ref().and_then(|n| n.established_rules);
    let (nft, old) = path.rules_met();
    let all = nft.saturating_add(old);
    if all < AS_MUCH_AS_NAT / 5 || subject.forwards() == Some(false) {
        return Ok(Vec::new());
    }
    let severity = match all >= AS_MUCH_AS_NAT && !subject.offloads() {
        true => Severity::Warning,
        false => Severity::Notice,
    };
    let work = f64::from(all) / f64::from(AS_MUCH_AS_NAT);
    let mut found =
        Found::new(severity, format!("packets of known connections meet up to {all} rules"))
            .cost(if subject.offloads() { 0.0 } else { work / (1.0 + work) })
            .sure(Confidence::Likely);
    if nft > 0 {
        let place = match exact {
            Some(_) => "nft list ruleset: rules until an established packet is accepted",
            None => "nft list ruleset: rules reached from prerouting, forward, postrouting",
        };
        found = found.seen(place, nft);
    }
    if old > 0 {
        found = found.seen(
            "iptables-save: rules from PREROUTING, FORWARD, POSTROUTING that established packets meet",
            old,
        );
    }
    Ok(vec![
        found
            .remedy("accept established connections first: `ct state established,related accept` on top")
            .remedy("put addresses and ports into sets or maps instead of one rule each")
            .remedy("linerate plan --candidate flowtable  # only first packets then meet the rules"),
    ])
}
