//! Programs that set what a plan sets, or that could as well be left out.

use crate::decide::diagnose::places::affinity;
use crate::decide::diagnose::{Found, Load, Looked, Outlook, Rule, Subject};
use crate::model::cpuset::CpuSet;
use crate::model::finding::{Confidence, Severity};
use crate::model::path::{Service, ServiceFound, Sort};
use crate::model::snapshot::Movable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "irqbalance",
        what: "irqbalance that moves nothing, knows nothing of CPU sizes, or undoes a placement",
        costs: "on one-package boards it leaves network interrupts where they are; where it moves them \
                it takes a slow CPU for a fast one (300 instead of 900 Mbit/s), and a placement made \
                by hand does not last",
        source: "irqbalance issues 336 and 338; field reports R76S and FG50E",
        reads: "running programs, OpenWrt's configuration, interrupt lines, CPU capacities",
        load: Load::Apart,
        look: irqbalance,
    },
    Rule {
        id: "packet-steering",
        what: "OpenWrt's packet steering beside steering of one's own, or beside flow offload",
        costs: "it rewrites every RPS mask on each interface event, and where flows are offloaded it only \
                costs: on a FortiGate 50E upload was 4.15 Mbit/s with offload alone and 2.21 with \
                steering too",
        source: "field report FG50E; OpenWrt /usr/libexec/network/packet-steering.uc",
        reads: "network.globals.packet_steering, scripts that set steering, flow offload",
        load: Load::Apart,
        look: packet_steering,
    },
];

fn service<'a>(subject: &Subject<'a>, name: &str) -> Option<&'a Service> {
    subject.snapshot.services.iter().find(|s| s.name == name)
}

/// Scripts that set such settings.
fn scripts<'a>(subject: &Subject<'a>, sort: Sort) -> impl Iterator<Item = &'a Service> {
    let all = subject.snapshot.services.iter();
    all.filter(move |s| s.found == ServiceFound::Script && s.sets.contains(&sort))
}

fn irqbalance(subject: &Subject<'_>) -> Looked {
    let Some(service) = service(subject, "irqbalance") else { return Ok(Vec::new()) };
    let lines: Vec<_> = subject.intake.lines.iter().filter(|l| l.id.role.receives()).collect();
    let movable: Vec<_> = lines.iter().filter(|l| l.movable == Movable::Presumed).collect();
    let capacities: Vec<u32> = subject.snapshot.cpus.iter().map(|c| c.capacity.value).collect();
    let unequal = capacities.iter().min() != capacities.iter().max();
    let script = scripts(subject, Sort::Interrupts).next();
    // Masks that only a hand or a plan makes: one CPU each, and not all the same.
    let single: Vec<&CpuSet> =
        movable.iter().filter_map(|l| l.affinity.as_ref()).filter(|set| set.len() == 1).collect();
    let place = "irqbalance";
    let found = |severity, title: &str| {
        Found::new(severity, title).seen(place, &service.evidence).sure(Confidence::Likely)
    };
    let stop = |found: Found| {
        found
            .remedy(
                "systemctl disable --now irqbalance  # OpenWrt: uci set \
                     irqbalance.irqbalance.enabled=0; uci commit; /etc/init.d/irqbalance stop",
            )
            .remedy(
                "or linerate plan  # stops it where it moves interrupts; rollback starts it again",
            )
    };
    let banned = !service.spares.is_empty();
    if let Some(script) = script.filter(|_| !banned && !movable.is_empty()) {
        let one = found(Severity::Warning, "irqbalance undoes what a script sets")
            .seen(&script.name, &script.effect)
            .cost(subject.outlook().map_or(0.0, Outlook::placement))
            .rank(0.1);
        return Ok(vec![stop(one)]);
    }
    if !lines.is_empty() && movable.is_empty() {
        let one =
            found(Severity::Notice, "irqbalance runs, and no network interrupt here can be moved")
                .all_seen(lines.iter().take(4).map(|l| affinity(l)))
                .consequence(
                    "it does nothing for the network here; other interrupts it may spread",
                );
        return Ok(vec![one.remedy("nothing has to be done; a plan steers by RPS instead")]);
    }
    if unequal && !banned {
        let one = found(Severity::Warning, "irqbalance takes slow and fast CPUs for equal")
            .seen("CPU capacities", format!("{:?}", capacities))
            .cost(subject.outlook().map_or(0.0, Outlook::placement))
            .rank(0.1);
        return Ok(vec![stop(one)]);
    }
    if banned {
        return Ok(Vec::new());
    }
    let one = found(
        Severity::Notice,
        "irqbalance moves interrupts: a placement of one's own does not last",
    )
    .all_seen(movable.iter().take(4).map(|l| affinity(l)))
    .consequence(if single.is_empty() {
        "on a machine with equal CPUs and many queues it does no harm by itself"
    } else {
        "what was placed by hand may be moved at its next look (every 10 s)"
    });
    Ok(vec![stop(one)])
}

fn packet_steering(subject: &Subject<'_>) -> Looked {
    if subject.snapshot.path.openwrt.is_empty()
        && service(subject, "OpenWrt packet steering").is_none()
    {
        return Ok(Vec::new());
    }
    let Some(service) = service(subject, "OpenWrt packet steering") else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let place = "/etc/config/network";
    if let Some(script) = scripts(subject, Sort::Rps).find(|s| !s.name.contains("/platform/")) {
        found.push(
            Found::new(
                Severity::Warning,
                "OpenWrt's packet steering overwrites what a script sets",
            )
            .seen(place, &service.evidence)
            .seen(&script.name, &script.effect)
            .rank(0.1)
            .sure(Confidence::Likely)
            .remedy(
                "uci set network.globals.packet_steering=0; uci commit network; \
                         /etc/init.d/packet_steering restart",
            )
            .remedy("linerate apply --confirm 60s and linerate persist take it over by themselves"),
        );
    } else if subject.offloads() {
        let table = subject.snapshot.path.nftables.as_ref();
        let hardware = table.is_some_and(|n| n.flowtables.iter().any(|t| t.hardware));
        let title = match hardware {
            true => "packet steering is on beside hardware offload",
            false => "packet steering is on beside flow offload",
        };
        found.push(
            Found::new(Severity::Notice, title)
                .seen(place, &service.evidence)
                .seen("flow offload", "on")
                .rank(0.2)
                .sure(Confidence::Possible)
                .remedy(
                    "compare both: uci set network.globals.packet_steering=0; uci commit network; \
                         /etc/init.d/packet_steering restart",
                ),
        );
    }
    Ok(found)
}
