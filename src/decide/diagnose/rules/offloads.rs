//! Offloads: packets that cards and the kernel handle in bulk.

use crate::decide::diagnose::subject::listed;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::feature::FeatureState;
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::NetDev;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "gro-off",
        what: "GRO is off on a port that packets are forwarded from",
        costs: "every 1500 bytes go through rules, routing and queues by themselves instead of up to \
                64 KiB at once: TCP forwarding costs several times the CPU time",
        source: "Documentation/networking/segmentation-offloads.rst",
        reads: "offload features",
        load: Load::Apart,
        look: gro,
    },
    Rule {
        id: "lro-on",
        what: "LRO is on on a router",
        costs: "LRO merges packets in a way that can't be undone exactly: forwarded packets come out \
                larger than the MTU and are dropped or slow; the kernel switches it off when \
                forwarding is switched on, so somebody switched it on again",
        source: "net/core/dev.c, dev_disable_lro; net/ipv4/devinet.c, inet_forward_change",
        reads: "offload features, ip_forward",
        load: Load::Apart,
        look: lro,
    },
    Rule {
        id: "tso-off",
        what: "segmentation by the card is off although it can",
        costs: "packets that GRO merged are cut up again by the CPU before they are sent",
        source: "Documentation/networking/segmentation-offloads.rst",
        reads: "offload features",
        load: Load::Apart,
        look: tso,
    },
    Rule {
        id: "checksum-off",
        what: "checksums by the CPU on a card that can do them",
        costs: "the CPU reads every byte of a packet, received ones before GRO may merge them, sent ones \
                that were merged when they are cut up again; without it cards get no TSO and no packets \
                in pieces either. How much that costs here was not measured",
        source: "Documentation/networking/checksum-offloads.rst; net/core/dev.c (netdev_fix_features)",
        reads: "offload features",
        load: Load::Apart,
        look: checksum,
    },
];

fn feature(device: &NetDev, name: &str) -> Option<FeatureState> {
    device.features.as_ref()?.get(name).copied()
}

fn blind(subject: &Subject<'_>) -> Option<String> {
    let known = subject.intake.devices.iter().any(|d| d.features.is_some());
    (!known).then(|| "no card's offload features can be read".to_owned())
}

/// Cards on which a feature is off that they could have on: a virtual end has no hardware's work to
/// save, and what is sent into it was merged before.
fn off<'a>(subject: &Subject<'a>, name: &str) -> Vec<&'a NetDev> {
    let is_off = |d: &&NetDev| feature(d, name).is_some_and(|f| !f.active && f.changeable);
    let cards = subject.intake.devices.iter().copied().filter(|d| d.is_hardware());
    cards.filter(is_off).collect()
}

fn gro(subject: &Subject<'_>) -> Looked {
    if let Some(why) = blind(subject) {
        return Err(why);
    }
    let mut devices = off(subject, "rx-gro");
    // A card that can't verify checksums leaves that to GRO, which then costs more than it saves:
    // OpenWrt has it off there (openwrt pull request 23463).
    devices.retain(|d| feature(d, "rx-checksum").is_none_or(|sums| sums.active || sums.changeable));
    let title = |names: &str| format!("GRO is off on {names}");
    Ok(together(
        devices,
        subject.on_router(Severity::Warning),
        title,
        "generic-receive-offload",
        "gro on",
    )
    .map(|found| found.rank(0.4))
    .into_iter()
    .collect())
}

/// One finding for all devices on which a feature is as it should not be.
fn together(
    devices: Vec<&NetDev>,
    severity: Severity,
    title: impl Fn(&str) -> String,
    feature: &str,
    remedy: &str,
) -> Option<Found> {
    let names = listed(devices.iter().map(|d| d.name.as_str()));
    let state = if remedy.ends_with("on") { "off" } else { "on" };
    let found = (!devices.is_empty()).then(|| Found::new(severity, title(&names)));
    found.map(|found| {
        devices.iter().fold(found, |found, device| {
            let name = &device.name;
            found
                .seen(format!("ethtool -k {name}: {feature}"), state)
                .remedy(format!("ethtool -K {name} {remedy}"))
        })
    })
}

fn lro(subject: &Subject<'_>) -> Looked {
    if let Some(why) = blind(subject) {
        return Err(why);
    }
    if subject.forwards() != Some(true) {
        return Ok(Vec::new());
    }
    let is_on = |d: &&NetDev| d.is_hardware() && feature(d, "rx-lro").is_some_and(|f| f.active);
    let on: Vec<&NetDev> = subject.intake.devices.iter().copied().filter(is_on).collect();
    let title = |names: &str| format!("LRO is on on {names}, which forwards");
    let found = together(on, Severity::Warning, title, "large-receive-offload", "lro off");
    Ok(found.map(|f| f.seen("/proc/sys/net/ipv4/ip_forward", 1).rank(0.3)).into_iter().collect())
}

/// The ways of a card to fill in checksums. The kernel lets only one be on (net/core/dev.c,
/// netdev_fix_features), so that the others look switched off.
const FILLED_IN: &[&str] = &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];

/// Cards that could fill in checksums and do not. Those that can't do it for long frames switch it
/// off by themselves.
fn unsummed<'a>(subject: &Subject<'a>) -> Vec<&'a NetDev> {
    let sums = |d: &NetDev| {
        FILLED_IN.iter().any(|name| feature(d, name).is_some_and(|state| state.active))
    };
    let mut found: Vec<&NetDev> = Vec::new();
    for device in FILLED_IN.iter().flat_map(|name| off(subject, name)) {
        let known = found.iter().any(|other| other.name == device.name);
        if !known && device.mtu <= 1500 && !sums(device) {
            found.push(device);
        }
    }
    found
}

fn checksum(subject: &Subject<'_>) -> Looked {
    if let Some(why) = blind(subject) {
        return Err(why);
    }
    let sent = unsummed(subject);
    let mut received = off(subject, "rx-checksum");
    received.retain(|device| device.mtu <= 1500);
    let severity = subject.on_router(Severity::Warning);
    let title = |names: &str| format!("the CPU does the checksums of {names}");
    let sent = together(sent, severity, title, "tx-checksumming", "tx on");
    let received = together(received, severity, title, "rx-checksumming", "rx on");
    let one = match (received, sent) {
        (Some(mut both), Some(sent)) => {
            both.evidence.extend(sent.evidence);
            both.remedy.extend(sent.remedy);
            Some(both)
        }
        (received, sent) => received.or(sent),
    };
    Ok(one.map(|found| found.rank(0.12).sure(Confidence::Likely)).into_iter().collect())
}

fn tso(subject: &Subject<'_>) -> Looked {
    if let Some(why) = blind(subject) {
        return Err(why);
    }
    // Realtek's cards come with it off: some of them hang with it (r8169_main.c, rtl_init_one).
    let mut off = off(subject, "tx-tcp-segmentation");
    // Without checksums there is none, which `checksum-off` tells.
    let unsummed = unsummed(subject);
    let told = |device: &NetDev| unsummed.iter().any(|other| other.name == device.name);
    off.retain(|device| device.driver.as_deref() != Some("r8169") && !told(device));
    let title = |names: &str| format!("TSO is off on {names}");
    let found = together(off, Severity::Notice, title, "tx-tcp-segmentation", "tso on");
    Ok(found.map(|f| f.rank(0.05).sure(Confidence::Likely)).into_iter().collect())
}
