//! Offloads: packets that cards and the kernel handle in bulk.

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
];

fn feature(device: &NetDev, name: &str) -> Option<FeatureState> {
    device.features.as_ref()?.get(name).copied()
}

fn blind(subject: &Subject<'_>) -> Option<String> {
    let known = subject.intake.devices.iter().any(|d| d.features.is_some());
    (!known).then(|| "no card's offload features can be read".to_owned())
}

fn off(subject: &Subject<'_>, name: &str) -> Vec<String> {
    let is_off = |d: &&&NetDev| feature(d, name).is_some_and(|f| !f.active && f.changeable);
    subject.intake.devices.iter().filter(is_off).map(|d| d.name.clone()).collect()
}

fn gro(subject: &Subject<'_>) -> Looked {
    if let Some(why) = blind(subject) {
        return Err(why);
    }
    let found = off(subject, "rx-gro").into_iter().map(|name| {
        Found::new(subject.on_router(Severity::Warning), format!("GRO is off on {name}"))
            .seen(format!("ethtool -k {name}: generic-receive-offload"), "off")
            .cost(0.4)
            .remedy(format!("ethtool -K {name} gro on"))
    });
    Ok(found.collect())
}

fn lro(subject: &Subject<'_>) -> Looked {
    if let Some(why) = blind(subject) {
        return Err(why);
    }
    if subject.forwards() != Some(true) {
        return Ok(Vec::new());
    }
    let on =
        subject.intake.devices.iter().filter(|d| feature(d, "rx-lro").is_some_and(|f| f.active));
    let found = on.map(|d| {
        Found::new(Severity::Warning, format!("LRO is on on {}, which forwards", d.name))
            .seen(format!("ethtool -k {}: large-receive-offload", d.name), "on")
            .seen("/proc/sys/net/ipv4/ip_forward", 1)
            .cost(0.3)
            .remedy(format!("ethtool -K {} lro off", d.name))
    });
    Ok(found.collect())
}

fn tso(subject: &Subject<'_>) -> Looked {
    if let Some(why) = blind(subject) {
        return Err(why);
    }
    let off = off(subject, "tx-tcp-segmentation");
    // Realtek's cards come with it off: some of them hang with it (r8169_main.c, rtl_init_one).
    let found = off.into_iter().filter_map(|name| {
        let device = subject.snapshot.netdev(&name)?;
        if device.driver.as_deref() == Some("r8169") {
            return None;
        }
        let found = Found::new(Severity::Notice, format!("TSO is off on {name}"))
            .seen(format!("ethtool -k {name}: tx-tcp-segmentation"), "off")
            .cost(0.05)
            .sure(Confidence::Likely);
        Some(found.remedy(format!("ethtool -K {name} tso on")))
    });
    Ok(found.collect())
}
