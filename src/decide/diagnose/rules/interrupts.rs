//! How often a card interrupts.

use crate::decide::diagnose::subject::listed;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Evidence, Severity};
use crate::model::snapshot::Bus;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "coalescing-off",
    what: "a card that interrupts for each packet although it could wait for several",
    costs: "on a Raspberry Pi CM4 rx-usecs 100 with rx-frames 10 left the rate as it was and gave \
            about 14 % more CPU to other work",
    source: "field report CM4; ethtool(8) -C",
    reads: "coalescing settings; with --load interrupts per second",
    load: Load::Better,
    look,
}];

/// Drivers that leave it off by themselves: nobody switched it off there.
const OFF_BY_DEFAULT: &[&str] = &["r8169", "bcmgenet", "r8152", "dwmac", "stmmac", "mvneta", "ena"];

fn look(subject: &Subject<'_>) -> Looked {
    let known: Vec<_> =
        subject.intake.devices.iter().filter(|d| d.settings.coalesce.is_some()).collect();
    if known.is_empty() {
        return Err("no card's coalescing can be read".into());
    }
    let mut chatty: Vec<Chatty<'_>> = Vec::new();
    // What a virtual card tells is the hypervisor's business.
    for device in known.into_iter().filter(|d| !matches!(d.bus, Bus::Virtio(_))) {
        let of = |name: &str| device.settings.coalesce.as_ref().and_then(|c| c.get(name)).copied();
        let Some(usecs) = of("rx-usecs") else { continue };
        if usecs > 0 || of("rx-frames").unwrap_or(0) > 1 || of("use-adaptive-rx") == Some(1) {
            continue;
        }
        let driver = device.driver.as_deref().unwrap_or("");
        let by_default = OFF_BY_DEFAULT.iter().any(|known| driver.contains(known));
        let lines = subject.window.into_iter().flat_map(|w| &w.rates.irqs);
        let mine = subject.intake.lines.iter().filter(|l| l.id.device == device.name);
        let mine: Vec<&str> = mine.map(|l| l.action.as_str()).collect();
        let rate: f64 =
            lines.filter(|l| mine.contains(&l.irq.as_str())).filter_map(|l| l.total).sum();
        let busy = rate >= 20_000.0;
        // Deferred polling does the same by other means.
        let deferred = device.defer_hard_irqs.is_some_and(|n| n > 0)
            && device.gro_flush_timeout.is_some_and(|n| n > 0);
        if deferred && !busy {
            continue;
        }
        let severity = match (busy, by_default) {
            (true, _) => Severity::Warning,
            (false, false) => subject.on_router(Severity::Warning),
            (false, true) => Severity::Notice,
        };
        let name = &device.name;
        let frames = of("rx-frames").map_or_else(|| "-".into(), |n| n.to_string());
        let mut seen = vec![Evidence {
            place: format!("ethtool -c {name}: rx-usecs, rx-frames"),
            value: format!("{usecs}, {frames}"),
        }];
        if busy {
            let value = format!("{rate:.0} per second for {name}");
            seen.push(Evidence { place: "/proc/interrupts".into(), value });
        }
        if by_default {
            let value = format!("{driver} leaves it off by itself");
            seen.push(Evidence { place: format!("driver of {name}"), value });
        }
        chatty.push(Chatty { name, severity, busy, seen });
    }
    let mut found = Vec::new();
    while let Some(first) = chatty.first() {
        let severity = first.severity;
        let alike: Vec<Chatty<'_>> = chatty.extract_if(.., |c| c.severity == severity).collect();
        found.push(together(severity, alike));
    }
    Ok(found)
}

/// A card that interrupts for each packet.
struct Chatty<'a> {
    name: &'a str,
    severity: Severity,
    busy: bool,
    seen: Vec<Evidence>,
}

/// One finding for cards that are equally grave.
fn together(severity: Severity, cards: Vec<Chatty<'_>>) -> Found {
    let names = listed(cards.iter().map(|c| c.name));
    let verb = if cards.len() == 1 { "interrupts" } else { "interrupt" };
    let busy = cards.iter().any(|c| c.busy);
    let mut found = Found::new(severity, format!("{names} {verb} for each packet"))
        // The report behind it had CPU time back, and the same rate.
        .rank(if busy { 0.1 } else { 0.02 })
        .sure(if busy { Confidence::Certain } else { Confidence::Likely });
    for card in cards {
        let step = format!("ethtool -C {} rx-usecs 50  # up to 50 us more delay", card.name);
        found = found.all_seen(card.seen).remedy(step);
    }
    found.remedy("not where latency matters more than CPU time; measure both")
}
