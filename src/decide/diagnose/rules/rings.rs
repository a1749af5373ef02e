//! Descriptor rings that are too short.

use crate::decide::diagnose::subject::count;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::{NetDev, Snapshot};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "short-rings",
        what: "a card that loses packets with its receive ring far below what it can have",
        costs: "a burst that comes while the CPU is elsewhere is lost in the card, before anything can be \
            done about it",
        source: "Documentation/networking/statistics.rst (rx_missed_errors); ethtool(8) -g",
        reads: "ring sizes, counters of loss",
        load: Load::Better,
        look,
    },
    Rule {
        id: "ring-overflow",
        what: "a card that loses packets although its receive ring is long",
        costs: "the CPU that empties the ring does not keep up: what arrives beyond is lost in the card, \
                and a longer ring only delays it",
        source: "Documentation/networking/statistics.rst (rx_missed_errors); ethtool(8) -g",
        reads: "ring sizes, counters of loss, packets received, time since boot",
        load: Load::Better,
        look: overflow,
    },
];

/// Counters of packets that found no descriptor.
fn starved(name: &str) -> bool {
    let words = [
        "missed",
        "fifo",
        "no_buf",
        "nobuf",
        "out_of_buf",
        "no_desc",
        "no_dma",
        "over_errors",
        // vmxnet3, whose packets without a descriptor the kernel has among `rx_dropped`.
        "rx OOB",
    ];
    words.iter().any(|word| name.contains(word)) && !name.starts_with("tx")
}

/// Descriptors of a ring that is long enough, whatever the card could have.
const LONG: u64 = 2048;

fn is_short(now: u64, most: u64) -> bool {
    now < LONG && now.saturating_mul(2) <= most
}

/// Packets that found no descriptor: the kernel's own counter, and where it tells nothing the driver's;
/// not both, which may count the same packet.
fn losses(subject: &Subject<'_>, device: &NetDev) -> (u64, &'static str) {
    let lost = |snapshot: &Snapshot| {
        let Some(device) = snapshot.netdev(&device.name) else { return 0 };
        match count(&device.drops, starved) {
            0 => count(&device.counters, starved),
            n => n,
        }
    };
    match subject.rose(|snapshot, _| lost(snapshot)) {
        Some(rose) => (rose, "in the window"),
        None => (lost(subject.snapshot), "since it came up"),
    }
}

fn overflow(subject: &Subject<'_>) -> Looked {
    let mut known = subject.intake.devices.iter().filter(|d| d.is_hardware()).peekable();
    if known.peek().is_none() {
        return Err("there is no network card".into());
    }
    let mut found = Vec::new();
    for device in known {
        let of = |name: &str| device.settings.rings.as_ref().and_then(|r| r.get(name)).copied();
        // A ring that is far from full length is told by `short-rings`; what was lost since boot may
        // have been lost before it was made longer.
        let ring = of("rx").zip(of("rx-max"));
        let boot = subject.window.is_none();
        if ring.is_some_and(|(now, most)| is_short(now, most) || boot && now < most) {
            continue;
        }
        let (lost, when) = losses(subject, device);
        let received = subject.device(&device.name).and_then(|d| d.rx_packets);
        let share = received.map(|all| lost as f64 / (all.max(1)) as f64);
        let severity = match (subject.window.is_some(), share) {
            (true, _) if lost > 0 => Severity::Warning,
            // One packet in a thousand since boot is more than a burst now and then.
            (false, Some(share)) if share >= 1e-3 => Severity::Warning,
            (false, Some(share)) if share >= 1e-4 && ring.is_none() => Severity::Notice,
            _ => continue,
        };
        let name = &device.name;
        let words = match ring {
            Some((now, most)) => format!(" with a ring of {now} of {most} descriptors"),
            None => String::new(),
        };
        let title = format!("{name} lost {lost} packets {when}{words}: its CPU does not keep up");
        let place =
            format!("/sys/class/net/{name}/statistics, ethtool -S: packets without a descriptor");
        let mut one = Found::new(subject.on_router(severity), title)
            .seen(place, lost)
            .sure(Confidence::Likely);
        if let Some(all) = received {
            one = one.seen(format!("/sys/class/net/{name}/statistics/rx_packets"), all);
        }
        found.push(
            one.rank(share.map_or(0.1, |share| (share * 100.0).clamp(0.05, 0.5)))
                .remedy("linerate check --load 10s  # which CPU is full while traffic flows")
                .remedy("linerate plan  # spreads the work where that helps"),
        );
    }
    Ok(found)
}

fn look(subject: &Subject<'_>) -> Looked {
    let known: Vec<_> =
        subject.intake.devices.iter().filter(|d| d.settings.rings.is_some()).collect();
    if known.is_empty() {
        return Err("no card's ring sizes can be read".into());
    }
    let mut found = Vec::new();
    for device in known {
        let of = |name: &str| device.settings.rings.as_ref().and_then(|r| r.get(name)).copied();
        let (Some(now), Some(most)) = (of("rx"), of("rx-max")) else { continue };
        let (lost, when) = losses(subject, device);
        if lost == 0 || !is_short(now, most) {
            continue;
        }
        let received = subject.device(&device.name).and_then(|d| d.rx_packets);
        let share = received.map(|all| lost as f64 / (all.max(1)) as f64);
        let grave = share.is_some_and(|share| share >= 1e-5) || subject.window.is_some();
        let severity = if grave { Severity::Warning } else { Severity::Notice };
        let name = &device.name;
        let title =
            format!("{name} lost {lost} packets {when} with a ring of {now} of {most} descriptors");
        let mut one = Found::new(severity, title)
            .seen(format!("ethtool -g {name}: RX, of maximum"), format!("{now}, {most}"))
            .seen(
                format!(
                    "/sys/class/net/{name}/statistics, ethtool -S: packets without a descriptor"
                ),
                lost,
            )
            .rank(if grave { 0.1 } else { 0.02 })
            .sure(Confidence::Likely);
        if let Some(all) = received {
            one = one.seen(format!("/sys/class/net/{name}/statistics/rx_packets"), all);
        }
        let wanted = most.min(now.saturating_mul(4).max(LONG));
        found.push(
            one.remedy(format!(
                "ethtool -G {name} rx {wanted}  # the link may go down for a moment"
            ))
            .remedy("if the loss goes on, a CPU is full: linerate check --load 10s"),
        );
    }
    Ok(found)
}
