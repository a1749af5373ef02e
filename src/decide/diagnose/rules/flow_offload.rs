//! Established flows past netfilter: by a flowtable in software, or by hardware.

use crate::decide::diagnose::subject::listed;
use crate::decide::diagnose::{Found, Load, Looked, Outlook, Rule, Subject};
use crate::model::feature::Qdisc;
use crate::model::finding::{Confidence, Severity};
use crate::model::path::Flowtable;
use crate::model::snapshot::NetDev;
use crate::model::stack::Layer;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "flow-offload-off",
        what: "flow offload is there and off",
        costs: "every packet of a known connection goes through all rules and routing; a software \
                flowtable does it in about a third of the work. On a FortiGate 50E it took upload \
                under full load from 1.81 to 4.15 Mbit/s and softirq from 8.2 to 6.1 %",
        source: "field report FG50E (2x2x2 experiment); Documentation/networking/nf_flowtable.rst",
        reads: "OpenWrt's firewall options, flowtables, whether the kernel offers them",
        load: Load::Better,
        look: off,
    },
    Rule {
        id: "flow-offload-devices",
        what: "a flowtable over the wrong devices",
        costs: "flows that enter elsewhere are not taken, and with the port under PPPoE in the list \
                it made 200 instead of 560 Mbit/s",
        source: "openwrt issues 14365, 10224",
        reads: "flowtables, device stack",
        load: Load::Apart,
        look: devices,
    },
    Rule {
        id: "flow-offload-unbound",
        what: "flow offload is on and no flow is bound to it",
        costs: "it costs its rule and brings nothing: every packet takes the long way as before",
        source: "openwrt issues 10354, 10224; net/netfilter/nft_flow_offload.c",
        reads: "flowtables, conntrack entries with the status OFFLOAD",
        load: Load::Better,
        look: unbound,
    },
    Rule {
        id: "flow-offload-sqm",
        what: "flow offload beside a shaper that it passes by",
        costs: "flows taken over by hardware never meet the shaper, and its latency control is gone",
        source: "OpenWrt wiki, SQM: hardware flow offloading and SQM exclude each other; \
                 Documentation/networking/nf_flowtable.rst",
        reads: "flowtables, queueing disciplines",
        load: Load::Apart,
        look: sqm,
    },
    Rule {
        id: "hardware-offload-unused",
        what: "hardware that could forward established flows by itself, unused",
        costs: "the CPU does what the packet engine would do at line rate with no CPU time at all",
        source: "drivers/net/ethernet/mediatek/mtk_ppe_offload.c; NETIF_F_HW_TC",
        reads: "hw-tc-offload of the ports, packet engines, flowtables",
        load: Load::Apart,
        look: hardware,
    },
    Rule {
        id: "shaper-ceiling",
        what: "a shaper that is full before any CPU",
        costs: "packets of a shaper pass one lock, so that one CPU's worth of shaping is the most there \
                is; spreading lines and masks brings nothing beyond. How much that is here was not \
                measured",
        source: "cost model (docs/planning.md); net/sched/sch_generic.c (qdisc_lock)",
        reads: "queueing disciplines, interrupt affinity, RPS masks",
        load: Load::Apart,
        look: ceiling,
    },
    Rule {
        id: "forgotten-qdisc",
        what: "a queueing discipline that slows or drops by itself (netem, a narrow tbf)",
        costs: "netem delays and drops as it was told, for a test; a token bucket ends the rate however \
                fast the link is, and drops what its short queue does not hold",
        source: "tc-netem(8), tc-tbf(8)",
        reads: "queueing disciplines with their options, speed of each port",
        load: Load::Apart,
        look: forgotten,
    },
];

fn ceiling(subject: &Subject<'_>) -> Looked {
    if subject.snapshot.netdevs.iter().all(|d| d.qdiscs.is_empty()) {
        return Err("the queueing disciplines can't be read".into());
    }
    let Some(device) = subject.outlook().and_then(Outlook::shaper) else { return Ok(Vec::new()) };
    let kinds = shapers(subject).into_iter().filter(|q| q.device == device);
    let kind = kinds.map(|q| q.kind.as_str()).next().unwrap_or("shaper");
    Ok(vec![
        Found::new(Severity::Notice, format!("the {kind} on {device} is full before any CPU"))
            .seen(format!("tc qdisc show dev {device}"), kind)
            .sure(Confidence::Likely)
            .remedy("shape one direction only, or a little below what this CPU shapes: measure it")
            .remedy(
                "a simpler shaper costs less: fq_codel with htb (simplest.qos) instead of cake, cake \
                 with `besteffort` and without `nat`; cake_mq where the kernel has it",
            ),
    ])
}

/// Rate of a token bucket in bit/s, of its options as netlink attributes in hexadecimal: `TCA_TBF_PARMS`
/// begins with a `tc_ratespec`, whose last word is bytes a second; `TCA_TBF_RATE64` has more bits
/// (linux/pkt_sched.h).
fn token_rate(options: &str) -> Option<u64> {
    let digits = options
        .as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
    let bytes: Vec<u8> = digits.collect::<Option<_>>()?;
    let little = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |n, b| n << 8 | u64::from(*b));
    let big = |bytes: &[u8]| bytes.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
    // In the machine's order of bytes, which is the one in which the first length fits.
    let is_little = little(bytes.get(..2)?) <= bytes.len() as u64;
    let number = |bytes: &[u8]| if is_little { little(bytes) } else { big(bytes) };
    let mut rest = bytes.as_slice();
    let mut rate = None;
    while let Some((length, kind)) = rest.get(..2).zip(rest.get(2..4)) {
        let length = usize::try_from(number(length)).ok()?;
        let body = rest.get(4..length)?;
        rate = match number(kind) & 0x3fff {
            1 if rate.is_none() => body.get(8..12).map(number),
            4 => body.get(..8).map(number),
            _ => rate,
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    rate.map(|bytes| bytes.saturating_mul(8))
}

fn share(rate: u64, speed: u32) -> f64 {
    rate as f64 / (f64::from(speed.max(1)) * 1e6)
}

/// Rate of a token bucket, and the speed of its port, of which it is a small part.
fn narrow(device: &NetDev, qdisc: &Qdisc) -> Option<(u64, u32)> {
    let rate = qdisc.options.as_deref().and_then(token_rate);
    let found = rate.zip(device.speed).filter(|_| qdisc.kind == "tbf");
    found.filter(|(rate, speed)| share(*rate, *speed) < 0.5)
}

fn forgotten(subject: &Subject<'_>) -> Looked {
    if subject.snapshot.netdevs.iter().all(|d| d.qdiscs.is_empty()) {
        return Err("the queueing disciplines can't be read".into());
    }
    let mut found = Vec::new();
    for device in &subject.snapshot.netdevs {
        for qdisc in &device.qdiscs {
            let place = format!("tc qdisc show dev {}", device.name);
            let remove = format!("tc qdisc del dev {} root", device.name);
            if qdisc.kind == "netem" {
                let title = format!("netem on {} delays or drops packets on purpose", device.name);
                found.push(
                    Found::new(Severity::Warning, title)
                        .seen(place, "netem")
                        .sure(Confidence::Likely)
                        .rank(0.3)
                        .remedy(format!("{remove}  # if the test is over")),
                );
                continue;
            }
            let Some((rate, speed)) = narrow(device, qdisc) else { continue };
            let share = share(rate, speed);
            let title = format!(
                "a token bucket lets {:.1} Mbit/s out by {}, of {speed}",
                rate as f64 / 1e6,
                device.name
            );
            found.push(
                Found::new(Severity::Notice, title)
                    .seen(place, format!("tbf rate {rate} bit/s"))
                    .seen(format!("/sys/class/net/{}/speed", device.name), speed)
                    .sure(Confidence::Possible)
                    .cost(1.0 - share)
                    .remedy(format!("{remove}  # if nobody means it"))
                    .remedy("else cake or htb with fq_codel at the line's rate: a bucket has no fair queue"),
            );
        }
    }
    Ok(found)
}

fn option(subject: &Subject<'_>, name: &str) -> Option<bool> {
    subject.snapshot.path.openwrt.get(name).map(|v| v == "1")
}

fn tables<'a>(subject: &Subject<'a>) -> &'a [Flowtable] {
    subject.snapshot.path.nftables.as_ref().map_or(&[], |n| &n.flowtables)
}

/// Shapers: whoever has one wants packets to meet it.
fn shapers<'a>(subject: &Subject<'a>) -> Vec<&'a Qdisc> {
    let kinds = ["cake", "cake_mq", "htb", "hfsc", "tbf"];
    let all = subject.snapshot.netdevs.iter().flat_map(|d| &d.qdiscs);
    all.filter(|q| kinds.contains(&q.kind.as_str())).collect()
}

fn off(subject: &Subject<'_>) -> Looked {
    let path = &subject.snapshot.path;
    if path.nftables.is_none() && path.openwrt.is_empty() && path.iptables_rules.is_empty() {
        return Err("neither the rules nor OpenWrt's firewall options can be read".into());
    }
    let routes = subject.forwards() != Some(false);
    if subject.offloads() || !path.can_offload || !routes {
        return Ok(Vec::new());
    }
    // Without connection tracking there is nothing that it would save.
    let tracks = path.nftables.as_ref().is_some_and(|n| n.nat)
        || path.iptables_rules.iter().any(|t| t.nat)
        || option(subject, "flow_offloading").is_some();
    if !tracks {
        return Ok(Vec::new());
    }
    let board = subject.snapshot.machine.board_facts.as_ref().filter(|facts| facts.offload_helps);
    let shaped = !shapers(subject).is_empty();
    let full = subject.rates().any(|r| r.softirq.is_some_and(|s| s >= 0.85));
    // It passes rules, counters and shapers by: not everybody's wish, so a warning only where it is
    // known to be best, or where a CPU is full.
    let severity = match (shaped, board.is_some() || full) {
        (false, true) => Severity::Warning,
        _ => Severity::Notice,
    };
    let mut found = Found::new(severity, "flow offload is off: every packet takes the long way")
        .cost(subject.outlook().map_or(0.0, Outlook::offload))
        .rank(if subject.outlook().is_none() { 0.3 } else { 0.0 })
        .sure(Confidence::Likely);
    found = match option(subject, "flow_offloading") {
        Some(_) => found.seen("/etc/config/firewall, defaults.flow_offloading", "0"),
        None => found.seen("nft list flowtables", "none"),
    };
    if let Some(facts) = board {
        let notes = facts.notes.join("; ");
        let words = if notes.is_empty() { "offload_helps".to_owned() } else { notes };
        found = found.seen(format!("boards/{}", facts.name), words);
    }
    if shaped {
        found = found.remedy(
            "a shaper is set up here, which offloaded flows may pass by: only if its rate is not met",
        );
    }
    found = found
        .remedy("linerate plan --candidate flowtable")
        .remedy("linerate apply plan.toml --confirm 60");
    Ok(vec![found])
}

/// Names of a layer and of all below it.
fn within<'a>(layer: &'a Layer, found: &mut Vec<&'a str>) {
    found.push(&layer.device);
    for below in &layer.below {
        within(below, found);
    }
}

fn devices(subject: &Subject<'_>) -> Looked {
    if subject.snapshot.path.nftables.is_none() {
        return Err("the nftables rules can't be read".into());
    }
    let mut found = Vec::new();
    for table in tables(subject).iter().filter(|t| !t.hardware) {
        let has = |name: &str| table.devices.iter().any(|d| d == name);
        for (session, over) in subject.pppoe() {
            let base = subject.snapshot.netdev(over);
            let carriers = base.into_iter().flat_map(|d| d.lower.iter().map(String::as_str));
            let under: Vec<&str> =
                std::iter::once(over).chain(carriers).filter(|name| has(name)).collect();
            if under.is_empty() || has(&session.name) {
                continue;
            }
            let title = format!(
                "flowtable {} lists {} under PPPoE, and not {}",
                table.name,
                listed(under.iter().copied()),
                session.name
            );
            found.push(
                Found::new(Severity::Warning, title)
                    .seen("nft list flowtables", table.devices.join(", "))
                    .sure(Confidence::Likely)
                    .rank(0.4)
                    .remedy(
                        "linerate plan --candidate flowtable  # lists what packets are routed over",
                    )
                    .remedy("linerate apply plan.toml --confirm 60"),
            );
        }
        let sided: Vec<&Layer> =
            subject.snapshot.stack.iter().filter(|l| l.role.is_some()).collect();
        let missing: Vec<&str> = sided
            .iter()
            .filter(|layer| {
                let mut names = Vec::new();
                within(layer, &mut names);
                !names.iter().any(|name| has(name))
            })
            .map(|layer| layer.device.as_str())
            .collect();
        let met = sided.len() - missing.len();
        if sided.len() >= 2 && met < 2 && found.is_empty() {
            let title = format!(
                "flowtable {} has no device of {}: flows that pass there are not taken",
                table.name,
                missing.join(", ")
            );
            found.push(
                Found::new(Severity::Warning, title)
                    .seen("nft list flowtables", table.devices.join(", "))
                    .sure(Confidence::Likely)
                    .rank(0.4)
                    .remedy("linerate plan --candidate flowtable")
                    .remedy("linerate apply plan.toml --confirm 60"),
            );
        }
    }
    Ok(found)
}

fn unbound(subject: &Subject<'_>) -> Looked {
    let path = &subject.snapshot.path;
    let asked = option(subject, "flow_offloading") == Some(true);
    if asked && path.nftables.is_some() && !subject.offloads() {
        let place = "/etc/config/firewall, defaults.flow_offloading";
        return Ok(vec![
            Found::new(Severity::Warning, "flow offload is asked for, and there is no flowtable")
                .seen(place, "1")
                .seen("nft list flowtables", "none")
                .cost(subject.outlook().map_or(0.0, Outlook::offload))
        .rank(if subject.outlook().is_none() { 0.3 } else { 0.0 })
                .remedy("/etc/init.d/firewall reload, and read what it says")
                .remedy("kmod-nft-offload (OpenWrt) or nf_flow_table and nft_flow_offload must be there"),
        ]);
    }
    if !subject.offloads() {
        return Ok(Vec::new());
    }
    let Some(bound) = &path.bound else {
        return Err("the connections' OFFLOAD status can't be read".into());
    };
    let flows = path.conntrack_count.unwrap_or(0);
    // A few connections may all be too short, or end on the router.
    if bound.bound > 0 || !bound.complete || flows < 50 {
        return Ok(Vec::new());
    }
    let title = format!("flow offload is on, and none of {flows} connections is bound to it");
    Ok(vec![
        Found::new(Severity::Warning, title)
            .seen(format!("connections with OFFLOAD (by {})", bound.by), 0)
            .seen("/proc/sys/net/netfilter/nf_conntrack_count", flows)
            .sure(Confidence::Likely)
            .rank(0.4)
            .remedy(
                "start a download from the LAN and look: grep -c OFFLOAD /proc/net/nf_conntrack",
            )
            .remedy(
                "if it stays 0: check the flowtable's devices (nft list flowtables), and that its \
                     rule comes before any rule that accepts established connections",
            ),
    ])
}

fn sqm(subject: &Subject<'_>) -> Looked {
    let path = &subject.snapshot.path;
    if subject.snapshot.netdevs.iter().all(|d| d.qdiscs.is_empty()) {
        return Err("the queueing disciplines can't be read".into());
    }
    let mut shapers = shapers(subject);
    // A bucket that was forgotten is nobody's latency control: `forgotten-qdisc` tells of it.
    shapers.retain(|q| subject.snapshot.netdev(&q.device).is_none_or(|d| narrow(d, q).is_none()));
    let Some(first) = shapers.first().filter(|_| subject.offloads()) else { return Ok(Vec::new()) };
    let hardware = tables(subject).iter().any(|t| t.hardware)
        || path.iptables_rules.iter().any(|t| t.hardware);
    // In software packets still meet the device's egress; what an IFB shapes on ingress they pass by
    // only when they are taken before it.
    let ingress = shapers.iter().any(|q| q.device.starts_with("ifb"));
    if !hardware && !ingress {
        return Ok(Vec::new());
    }
    let how = if hardware { "hardware" } else { "software" };
    let severity = if hardware { Severity::Warning } else { Severity::Notice };
    let title = format!("{how} flow offload beside a shaper ({} on {})", first.kind, first.device);
    let mut found = Found::new(severity, title)
        .sure(if hardware { Confidence::Certain } else { Confidence::Possible })
        .seen(format!("tc qdisc show dev {}", first.device), &first.kind);
    if !hardware {
        found = found.consequence(
            "what is shaped on its way in may be taken before it gets there: compare the shaper's \
             counters (tc -s qdisc) with the device's",
        );
    }
    Ok(vec![found.remedy(
        "choose one: offload for rate, or the shaper for latency (on OpenWrt the options \
         firewall.@defaults[0].flow_offloading_hw and sqm.*.enabled)",
    )])
}

fn hardware(subject: &Subject<'_>) -> Looked {
    let path = &subject.snapshot.path;
    let able = |d: &&NetDev| {
        let feature = d.features.as_ref().and_then(|f| f.get("hw-tc-offload"));
        feature.is_some_and(|f| f.active || f.changeable)
    };
    let known = subject.ports().any(|d| d.features.is_some());
    let ports: Vec<&str> = subject.ports().filter(able).map(|d| d.name.as_str()).collect();
    let engine = subject.snapshot.machine.has_packet_engine();
    if !known && !engine && path.engines.is_empty() {
        return Err("the cards' features can't be read, and no packet engine is known".into());
    }
    let used = tables(subject).iter().any(|t| t.hardware)
        || path.iptables_rules.iter().any(|t| t.hardware)
        || option(subject, "flow_offloading_hw") == Some(true)
            && option(subject, "flow_offloading") == Some(true)
        || path.engines.iter().any(|e| e.bound.is_some_and(|n| n > 0) || e.name == "nss");
    // Cards that offload tc rules can rarely offload NAT: only what is known to is told.
    if used || !engine || subject.forwards() == Some(false) || !shapers(subject).is_empty() {
        return Ok(Vec::new());
    }
    let counted = path.engines.iter().any(|e| e.bound.is_some());
    if path.nftables.is_none() && path.openwrt.is_empty() && !counted {
        return Err("whether flows are in the packet engine can't be read".into());
    }
    let board = subject.snapshot.machine.compatible.join(" ");
    let mut found = Found::new(
        Severity::Notice,
        "this chip can forward established flows in hardware, and does not",
    )
    .sure(Confidence::Likely)
    .rank(0.5)
    .seen("/proc/device-tree/compatible", board);
    if !ports.is_empty() {
        found = found.seen(format!("ethtool -k {}: hw-tc-offload", ports.join(", ")), "available");
    }
    if let Some(on) = option(subject, "flow_offloading_hw") {
        found = found
            .seen("/etc/config/firewall, defaults.flow_offloading_hw", u8::from(on))
            .remedy("uci set firewall.@defaults[0].flow_offloading=1")
            .remedy("uci set firewall.@defaults[0].flow_offloading_hw=1; uci commit firewall")
            .remedy("/etc/init.d/firewall reload");
    } else {
        found = found.remedy("give the flowtable `flags offload;` and the ports as its devices");
    }
    Ok(vec![found.remedy("then switch RPS off: bound flows never reach a CPU")])
}

#[cfg(test)]
mod tests {
    use super::token_rate;

    #[test]
    fn the_rate_of_a_token_bucket_is_read_from_its_attributes() {
        // By struct tc_tbf_qopt: rate 125000 bytes/s in TCA_TBF_PARMS of 36 bytes.
        let parms = format!("28000100{}48e80100{}", "00".repeat(8), "00".repeat(24));
        assert_eq!(token_rate(&parms), Some(1_000_000));
        let wide = format!("{parms}0c00040000e40b5402000000");
        assert_eq!(token_rate(&wide), Some(80_000_000_000));
        for bad in ["", "zz", "2800", "ffff0100", "00000000"] {
            assert_eq!(token_rate(bad), None, "{bad}");
        }
    }
}
