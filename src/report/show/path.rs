//! The way of a forwarded packet, and programs that set what we set.

use crate::model::order::InOrder;
use crate::model::path::{BoundFlows, Engine, ForwardPath, IptablesTable, Nftables};
use crate::model::snapshot::{NetDev, Snapshot};
use crate::report::document::{Block, Table};

/// The path in one line, and a warning for each program that sets what we set.
pub(super) fn summary(snapshot: &Snapshot) -> Vec<Block> {
    let words: Vec<String> =
        rows(snapshot).into_iter().map(|(what, value)| format!("{what} {value}")).collect();
    let mut lines = Vec::new();
    if !words.is_empty() {
        lines.push(Block::prose(format!("forwarding {}", words.join("; "))));
    }
    lines.extend(services(snapshot));
    lines
}

/// All of it.
pub(super) fn path(snapshot: &Snapshot) -> Vec<Block> {
    let path = &snapshot.path;
    let mut facts: Vec<(String, String)> =
        rows(snapshot).into_iter().map(|(what, value)| (what.to_owned(), value)).collect();
    let options = path.openwrt.iter().map(|(name, value)| (name.clone(), value.clone()));
    let sysctls = path.sysctls.iter().map(|(name, value)| (name.clone(), value.to_string()));
    facts.extend(options.chain(sysctls));
    let mut lines = vec![Block::Heading("forwarding path".to_owned()), Block::Facts(facts)];
    if !path.softnet.is_empty() {
        let mut table =
            Table::new(&["CPU", "packets", "dropped", "squeezed", "by RPS"]).figures(1..=4);
        for row in &path.softnet {
            table.row([
                row.cpu.to_string(),
                row.packets.to_string(),
                row.dropped.to_string(),
                row.squeezed.to_string(),
                row.received_rps.to_string(),
            ]);
        }
        lines.extend(vec![Block::Table(table)]);
    }
    let services = services(snapshot);
    if !services.is_empty() {
        lines.extend(services);
    }
    lines
}

fn services(snapshot: &Snapshot) -> Vec<Block> {
    let line = |s: &crate::model::path::Service| {
        Block::alarm(format!("{} {} ({})", s.name, s.effect, s.evidence))
    };
    snapshot.services.iter().map(line).collect()
}

fn rows(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let path = &snapshot.path;
    let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
    let mut rows = Vec::new();
    let mut add = |what, value: Option<String>| rows.extend(value.map(|v| (what, v)));
    add("IPv4", path.ipv4.map(switch));
    add("IPv6", path.ipv6.map(switch));
    add("nftables", path.nftables.as_ref().filter(|n| n.rules > 0).map(rules));
    add("iptables", iptables(path));
    add("flowtables", path.nftables.as_ref().and_then(flowtables));
    add("flow offload", path.bound.as_ref().map(|b| bound(b, path.conntrack_count)));
    let engines: Vec<String> = path.engines.iter().map(engine).collect();
    add("engine", (!engines.is_empty()).then(|| engines.join(", ")));
    add(
        "conntrack",
        match (path.conntrack_count, path.conntrack_max) {
            (Some(count), Some(max)) => Some(format!("{count} of {max}")),
            _ => None,
        },
    );
    add("bridged packets through iptables", path.bridge_nf.filter(|on| *on).map(switch));
    add(
        "hw-tc-offload",
        devices(snapshot, |d| {
            d.features.as_ref().and_then(|f| f.get("hw-tc-offload")).is_some_and(|f| f.active)
        }),
    );
    add("XDP", devices(snapshot, |d| d.link.xdp));
    add(
        "SQM",
        devices(snapshot, |d| {
            d.qdiscs.iter().any(|q| matches!(q.kind.as_str(), "cake" | "cake_mq" | "htb" | "hfsc"))
        }),
    );
    rows
}

fn rules(nftables: &Nftables) -> String {
    let nat = if nftables.nat { ", NAT" } else { "" };
    let (met, all) = (nftables.forward_rules, nftables.rules);
    format!("{met} of {all} rules may meet a forwarded packet{nat}")
}

fn iptables(path: &ForwardPath) -> Option<String> {
    let mut tables: Vec<&str> =
        path.iptables.iter().chain(&path.ip6tables).map(String::as_str).collect();
    tables.order_by(Ord::cmp);
    tables.dedup();
    if tables.is_empty() {
        return None;
    }
    let read = &path.iptables_rules;
    if read.is_empty() {
        return Some(format!("tables {}", tables.join(", ")));
    }
    let sum = |of: fn(&IptablesTable) -> u32| read.iter().map(of).fold(0, u32::saturating_add);
    let nat = if read.iter().any(|t| t.nat) { ", NAT" } else { "" };
    let (met, all) = (sum(|t| t.forward_rules), sum(|t| t.rules));
    let offload = match (read.iter().any(|t| t.flow_offload), read.iter().any(|t| t.hardware)) {
        (true, true) => ", flows offloaded to hardware",
        (true, false) => ", flows offloaded",
        _ => "",
    };
    let tables = tables.join(", ");
    Some(format!("{met} of {all} rules may meet a forwarded packet{nat}{offload} ({tables})"))
}

/// A flowtable that nothing binds to does nothing, and nothing else says so.
fn bound(bound: &BoundFlows, tracked: Option<u64>) -> String {
    let least = if bound.complete { "" } else { "at least " };
    let tracked = tracked.map(|n| format!(" of {}", n.max(bound.bound))).unwrap_or_default();
    let hardware = match bound.hardware {
        0 => String::new(),
        n => format!(", {n} in hardware"),
    };
    format!("{least}{}{tracked} flows bound{hardware}", bound.bound)
}

fn engine(engine: &Engine) -> String {
    let state = match (engine.bound, engine.enabled) {
        (Some(n), _) => format!("{n} flows bound, "),
        (None, Some(true)) => "on, ".into(),
        (None, Some(false)) => "off, ".into(),
        (None, None) => String::new(),
    };
    format!("{} ({state}{})", engine.name, engine.evidence)
}

fn flowtables(nftables: &Nftables) -> Option<String> {
    let one = |f: &crate::model::path::Flowtable| {
        let hardware = if f.hardware { ", hardware" } else { "" };
        format!("{} ({}{hardware})", f.name, f.devices.join(", "))
    };
    let all: Vec<String> = nftables.flowtables.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn devices(snapshot: &Snapshot, wanted: impl Fn(&NetDev) -> bool) -> Option<String> {
    let names: Vec<&str> =
        snapshot.netdevs.iter().filter(|d| wanted(d)).map(|d| d.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
