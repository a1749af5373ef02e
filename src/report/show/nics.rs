//! Network devices: one line each, and in detail what ethtool and netlink report.

use crate::model::nic::{Numbers, Rss};
use crate::model::order::OneByOne;
use crate::model::snapshot::{Bus, NetDev, Snapshot};
use crate::report::document::{Block, Table};

pub(super) fn nics(snapshot: &Snapshot, detail: bool) -> Vec<Block> {
    if snapshot.netdevs.is_empty() {
        return vec![Block::note("no network devices but loopback")];
    }
    let mut table =
        Table::new(&["device", "driver", "on", "link", "mtu", "queues", "offloads", "qdisc"])
            .gives_way(&[6, 7, 4, 1]);
    for d in &snapshot.netdevs {
        table.row([
            d.name.clone(),
            d.driver.clone().or_else(|| d.kind.clone()).unwrap_or_else(|| "-".into()),
            place(d),
            link(d),
            d.mtu.to_string(),
            format!("{} rx {} tx", d.rx_queues.len(), d.tx_queues.len()),
            offloads(d),
            qdisc(d),
        ]);
    }
    let mut lines = vec![Block::Table(table)];
    if detail {
        for d in &snapshot.netdevs {
            lines.push(Block::Heading(d.name.clone()));
            let mut facts: Vec<(String, String)> =
                facts(d).into_iter().map(|(what, value)| (what.to_owned(), value)).collect();
            let features = d.features.iter().flatten();
            let on: Vec<&str> =
                features.filter(|(_, s)| s.active).map(|(name, _)| name.as_str()).collect();
            if !on.is_empty() {
                facts.push(("on".to_owned(), on.join(" ")));
            }
            lines.push(Block::Facts(facts));
        }
    }
    lines
}

/// Facts of a device, a line each.
fn facts(d: &NetDev) -> Vec<(&'static str, String)> {
    let s = &d.settings;
    let numbers = |n: &Option<Numbers>| {
        let n = n.as_ref()?;
        let shown = n.iter().filter(|(_, value)| **value > 0);
        let words: Vec<String> = shown.map(|(name, value)| format!("{name} {value}")).collect();
        Some(if words.is_empty() { "all 0".into() } else { words.join(", ") })
    };
    let mut facts = Vec::new();
    let mut add = |what, value: Option<String>| facts.extend(value.map(|v| (what, v)));
    let versions = [&s.driver_version, &s.firmware];
    let versions: Vec<&str> = versions.into_iter().flatten().map(String::as_str).collect();
    add("version", (!versions.is_empty()).then(|| versions.join(", firmware ")));
    add("channels", numbers(&s.channels));
    add("rings", numbers(&s.rings));
    add("coalescing", numbers(&s.coalesce));
    add("pause", numbers(&s.pause));
    add("eee", numbers(&s.eee));
    add("rss", s.rss.as_ref().map(rss));
    add("ntuple", ntuple(d));
    add("napi", napi(d));
    let drops = (!d.drops.is_empty()).then(|| numbers(&Some(d.drops.clone()))).flatten();
    add("lost", drops);
    // Many drivers count again what the kernel's statistics have already.
    let own: Numbers = d
        .counters
        .iter()
        .filter(|(n, v)| d.drops.get(*n) != Some(v))
        .map(|(n, v)| (n.clone(), *v))
        .collect();
    add("driver lost", (!own.is_empty()).then(|| numbers(&Some(own))).flatten());
    add("xdp", d.link.xdp.then(|| "a program is attached".to_owned()));
    add(
        "switch",
        d.switch.as_ref().map(|id| match &d.port {
            Some(port) => format!("{id}, port {port}"),
            None => id.clone(),
        }),
    );
    facts
}

fn rss(rss: &Rss) -> String {
    let queues: std::collections::BTreeSet<u32> = rss.table.iter().copied().one_by_one();
    let function = match rss.function {
        1 => "Toeplitz",
        2 => "XOR",
        4 => "CRC32",
        _ => "hash not told",
    };
    format!("{function}, {} buckets over {} queues", rss.table.len(), queues.len())
}

/// Words on flow rules: if flows may be steered to queues by rule, and how many are.
fn ntuple(d: &NetDev) -> Option<String> {
    let rules = d.settings.ntuple.as_ref()?;
    let of = |name| rules.get(name).copied().unwrap_or(0);
    let feature = d.features.as_ref().and_then(|f| f.get("rx-ntuple-filter"));
    let state = match feature {
        Some(f) if f.active => "on",
        Some(f) if f.changeable => "off",
        _ => "not supported",
    };
    Some(match (of("rules"), of("rules-max")) {
        (0, 0) => state.to_owned(),
        (rules, 0) => format!("{state}, {rules} rules"),
        (rules, most) => format!("{state}, {rules} of {most} rules"),
    })
}

fn napi(d: &NetDev) -> Option<String> {
    let mut words = Vec::new();
    match (d.threaded, d.napi_threads.len()) {
        (Some(true), n) if d.napi_thread_cpus.is_empty() => words.push(format!("in {n} threads")),
        (Some(true), _) => words.extend(
            d.napi_thread_cpus.iter().map(|(pid, cpus)| format!("thread {pid} on CPU {cpus}")),
        ),
        (Some(false), _) => words.push("in softirq".into()),
        (None, _) => {}
    }
    let put =
        |what: &str, value: Option<u64>| value.filter(|v| *v > 0).map(|v| format!("{what} {v}"));
    words.extend(put("defer hard irqs", d.defer_hard_irqs));
    words.extend(put("gro flush timeout ns", d.gro_flush_timeout));
    (!words.is_empty()).then(|| words.join(", "))
}

fn place(d: &NetDev) -> String {
    if let Some(conduit) = &d.conduit {
        return format!("switch behind {conduit}");
    }
    match &d.bus {
        Bus::Pci(at) => format!("pci {}", at.strip_prefix("0000:").unwrap_or(at)),
        Bus::Platform(at) => at.clone(),
        Bus::Usb(at) => format!("usb of {at}"),
        Bus::Virtio(at) => at.clone(),
        Bus::Virtual if !d.lower.is_empty() => format!("over {}", d.lower.join(", ")),
        Bus::Virtual => {
            d.pppoe_over.as_ref().map_or_else(|| "-".into(), |under| format!("over {under}"))
        }
        Bus::Other(bus) => bus.clone(),
    }
}

fn link(d: &NetDev) -> String {
    let speed = d.speed.map(|s| match s {
        2500 => " 2.5G".to_owned(),
        s if s >= 1000 && s % 1000 == 0 => format!(" {}G", s / 1000),
        s => format!(" {s}M"),
    });
    let half = if d.full_duplex == Some(false) { " half" } else { "" };
    format!("{}{}{half}", d.operstate, speed.unwrap_or_default())
}

/// The features that decide how large a packet the router's stack sees.
fn offloads(d: &NetDev) -> String {
    let Some(features) = &d.features else { return "?".into() };
    let on = |name: &str| features.get(name).is_some_and(|s| s.active);
    let shown: Vec<&str> = [
        ("gro", "rx-gro"),
        ("tso", "tx-tcp-segmentation"),
        ("gso", "tx-generic-segmentation"),
        ("lro", "rx-lro"),
        ("hw-tc", "hw-tc-offload"),
    ]
    .iter()
    .filter(|(_, kernel)| on(kernel))
    .map(|(short, _)| *short)
    .collect();
    if shown.is_empty() { "none".into() } else { shown.join(" ") }
}

fn qdisc(d: &NetDev) -> String {
    let root = d.qdiscs.iter().find(|q| q.queue.is_none());
    let below = d.qdiscs.iter().find(|q| q.queue.is_some());
    match (root, below) {
        (Some(root), Some(below)) => format!("{} of {}", root.kind, below.kind),
        (Some(root), None) => root.kind.clone(),
        (None, _) => "?".into(),
    }
}
