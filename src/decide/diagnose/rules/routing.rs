//! Packets that routing throws away.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::Condition;
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::Snapshot;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "reverse-path",
    what: "packets dropped because the way back to their sender is by another device",
    costs: "each is a packet lost: with two uplinks, a VPN or policy routing the strict filter throws \
            away what came the other way, and half of a connection never arrives",
    source: "Documentation/networking/ip-sysctl.rst (rp_filter); RFC 3704; net/ipv4/fib_frontend.c \
             (__fib_validate_source)",
    reads: "/proc/net/netstat (IPReversePathFilter), /proc/net/snmp (InReceives)",
    load: Load::Better,
    look,
}];

fn look(subject: &Subject<'_>) -> Looked {
    let counter = |name: &'static str| {
        let of = move |c: &Condition| c.ip.get(name).copied();
        let rose = subject.rose(move |_: &Snapshot, c| of(c).unwrap_or(0));
        of(subject.condition).map(|all| rose.unwrap_or(all))
    };
    let Some(dropped) = counter("IPReversePathFilter") else {
        return Err("/proc/net/netstat can't be read, or has no IPReversePathFilter".into());
    };
    let received = counter("InReceives");
    let share = dropped as f64 / received.unwrap_or(0).max(1) as f64;
    // Strangers' addresses come from any uplink now and then: that is what the filter is for.
    if received.is_none() || dropped < 1000 || share < 1e-3 {
        return Ok(Vec::new());
    }
    let severity = if share >= 0.01 { Severity::Warning } else { Severity::Notice };
    let when = if subject.window.is_some() { "in the window" } else { "since boot" };
    let title = format!("{dropped} packets were dropped by the reverse path filter {when}");
    Ok(vec![
        Found::new(subject.on_router(severity), title)
            .seen("/proc/net/netstat, TcpExt: IPReversePathFilter", dropped)
            .seen("/proc/net/snmp, Ip: InReceives", received.unwrap_or_default())
            .cost(share)
            .sure(Confidence::Likely)
            .remedy("which packets: sysctl -w net.ipv4.conf.all.log_martians=1, then dmesg")
            .remedy("with several uplinks, a VPN or policy routing: sysctl -w net.ipv4.conf.all.rp_filter=2")
            .remedy("if they are forged, the filter does its work: drop them before routing (nft, at the device)"),
    ])
}
