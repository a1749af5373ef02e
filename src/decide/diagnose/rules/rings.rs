//! Descriptor rings that are too short.

use crate::decide::diagnose::subject::count;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};

pub(super) const RULES: &[Rule] = &[Rule {
    id: "short-rings",
    what: "a card that loses packets with its receive ring far below what it can have",
    costs: "a burst that comes while the CPU is elsewhere is lost in the card, before anything can be \
            done about it",
    source: "Documentation/networking/statistics.rst (rx_missed_errors); ethtool(8) -g",
    reads: "ring sizes, counters of loss",
    load: Load::Better,
    look,
}];

/// Counters of packets that found no descriptor.
fn starved(name: &str) -> bool {
    let words =
        ["missed", "fifo", "no_buf", "nobuf", "out_of_buf", "no_desc", "no_dma", "over_errors"];
    words.iter().any(|word| name.contains(word)) && !name.starts_with("tx")
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
        // The kernel's own counter, and where it tells nothing the driver's; not both, which may
        // count the same packet.
        let lost = |snapshot: &crate::model::snapshot::Snapshot| {
            let Some(device) = snapshot.netdev(&device.name) else { return 0 };
            match count(&device.drops, starved) {
                0 => count(&device.counters, starved),
                n => n,
            }
        };
        let (lost, when) = match subject.rose(|snapshot, _| lost(snapshot)) {
            Some(rose) => (rose, "in the window"),
            None => (lost(subject.snapshot), "since it came up"),
        };
        if lost == 0 || now.saturating_mul(2) > most {
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
            .cost(if grave { 0.1 } else { 0.02 })
            .sure(Confidence::Likely);
        if let Some(all) = received {
            one = one.seen(format!("/sys/class/net/{name}/statistics/rx_packets"), all);
        }
        let wanted = most.min(now.saturating_mul(4).max(1024));
        found.push(
            one.remedy(format!(
                "ethtool -G {name} rx {wanted}  # the link may go down for a moment"
            ))
            .remedy("if the loss goes on, a CPU is full: linerate check --load 10s"),
        );
    }
    Ok(found)
}
