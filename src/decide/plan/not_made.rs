//! Settings that a profile makes beside the placement, and settings that one might expect and that
//! are not made.

use super::channels;
use super::costs::Costs;
use super::flow;
use super::intake::Intake;
use super::owned;
use super::pose::SHAPERS;
use super::problem::Problem;
use super::profile::Profile;
use super::threads;
use crate::model::evidence::PollerOwner;
use crate::model::knob::{Knob, Value};
use crate::model::order::InOrder;
use crate::model::plan::{Candidate, Change, NotMade};
use crate::model::snapshot::{Movable, NetDev, Snapshot};

/// Entries of the flow table for sockets: the kernel's own advice for a moderately busy server
/// (Documentation/networking/scaling.rst).
const SOCKET_FLOWS: u64 = 32_768;

/// Settings that the profile asks for beside the placement.
pub(super) fn profile_settings(
    snapshot: &Snapshot,
    intake: &Intake<'_>,
    profile: Profile,
) -> Vec<Change> {
    match profile {
        Profile::Router => Vec::new(),
        Profile::Vpn => threads_for_tunnels(snapshot),
        Profile::Endpoint => socket_steering(snapshot, intake),
        Profile::LowLatency => at_once(snapshot, intake),
    }
}

fn threads_for_tunnels(snapshot: &Snapshot) -> Vec<Change> {
    let tunnels = snapshot.netdevs.iter().filter(|d| d.kind.as_deref() == Some("wireguard"));
    tunnels
        .filter_map(|device| {
            Some(Change {
                knob: Knob::ThreadedNapi { device: device.name.clone() },
                before: Value::Switch(device.threaded?),
                after: Value::Switch(true),
                reason: "decrypted packets are handled in a thread for each peer, which the \
                         scheduler can move away from a busy CPU; newer kernels switch it on \
                         themselves (drivers/net/wireguard/device.c, wg_newlink)"
                    .into(),
            })
        })
        .collect()
}

fn socket_steering(snapshot: &Snapshot, intake: &Intake<'_>) -> Vec<Change> {
    let name = "net.core.rps_sock_flow_entries";
    let queues = intake.sources.iter().filter_map(|s| Some((s, s.queue.flow_cnt?)));
    let queues: Vec<_> = queues.collect();
    let (Some(&before), false) = (snapshot.path.sysctls.get(name), queues.is_empty()) else {
        return Vec::new();
    };
    let mut all = vec![Change {
        knob: Knob::Sysctl { name: name.into() },
        before: Value::Count(before),
        after: Value::Count(before.max(SOCKET_FLOWS)),
        reason: "packets go to the CPU of the program that reads them (RFS), for traffic that \
                 ends here"
            .into(),
    }];
    // The table is shared out (Documentation/networking/scaling.rst).
    let each = SOCKET_FLOWS / (queues.len() as u64).max(1);
    let each = if each.is_power_of_two() { each } else { each.next_power_of_two() / 2 };
    all.extend(queues.into_iter().map(|(source, before)| Change {
        knob: Knob::RpsFlowCnt { device: source.device.name.clone(), queue: source.queue.index },
        before: Value::Count(before),
        after: Value::Count(before.max(each)),
        reason: "this queue's part of the RFS table".into(),
    }));
    all
}

fn at_once(snapshot: &Snapshot, intake: &Intake<'_>) -> Vec<Change> {
    let mut all = Vec::new();
    for device in &intake.devices {
        let zero = |knob: Knob, before: Option<u64>| {
            before.filter(|b| *b > 0).map(|before| Change {
                knob,
                before: Value::Count(before),
                after: Value::Count(0),
                reason: "packets wait for it".into(),
            })
        };
        let name = || device.name.clone();
        all.extend(zero(Knob::GroFlushTimeout { device: name() }, device.gro_flush_timeout));
        all.extend(zero(Knob::NapiDeferHardIrqs { device: name() }, device.defer_hard_irqs));
        for parameter in ["rx-usecs", "tx-usecs"] {
            let before = device.settings.coalesce.as_ref().and_then(|c| c.get(parameter));
            let knob = Knob::Coalesce { device: name(), parameter: parameter.into() };
            all.extend(zero(knob, before.copied()));
        }
    }
    let mut policies = std::collections::BTreeMap::new();
    for governor in snapshot.cpus.iter().filter_map(|c| c.governor.as_ref()) {
        policies.insert(&governor.policy, governor);
    }
    for (policy, governor) in policies {
        if governor.available.iter().any(|g| g == "performance") {
            all.push(Change {
                knob: Knob::Governor { policy: policy.clone() },
                before: Value::Word(governor.current.clone()),
                after: Value::Word("performance".into()),
                reason:
                    "no packet waits for a CPU to speed up; watch the temperature: a throttled \
                         CPU is slower than before"
                        .into(),
            });
        }
    }
    all
}

/// The kind of a service's setting.
pub(super) const SERVICE: &str = "service";

/// Settings that are not made, and why. The names are those of the settings, as `--explain` takes
/// them.
pub(super) fn list(
    snapshot: &Snapshot,
    intake: &Intake<'_>,
    problem: &Problem,
    made: &Candidate,
    profile: Profile,
) -> Vec<NotMade> {
    let mut all = Vec::new();
    let mut say = |setting: &str, reason: String| {
        all.push(NotMade { setting: setting.into(), reason });
    };
    for (line, device) in stuck(intake) {
        say("irq-affinity", format!("{device}: {line}"));
    }
    for queue in problem.queues.iter() {
        if let Some(why) = queue.unsteered.as_ref().filter(|why| why.is_unknown()) {
            say("rps-cpus", format!("{} rx-{}: {why}", queue.device, queue.index));
        }
    }
    if let Some(more) = channels::not_made(snapshot, intake) {
        say("channels", more);
    }
    if !made.changes().any(|c| matches!(c.knob, Knob::XpsCpus { .. })) {
        say("xps-cpus", xps(intake));
    }
    if profile != Profile::Endpoint {
        let set: u64 = intake.sources.iter().filter_map(|s| s.queue.flow_cnt).sum();
        let also = if set > 0 { "; what is set does no harm" } else { "" };
        say(
            "rps-flow-cnt",
            format!("RFS follows sockets that end here: nothing for forwarded packets{also}"),
        );
        say(
            "tcp",
            "congestion control, fastopen, port range and timeouts are for sockets that end here: \
             nothing for forwarded packets"
                .into(),
        );
    } else {
        say(
            "tcp",
            "congestion control and queueing need modules (tcp_bbr, sch_fq) that may not be there, \
             and what they bring depends on the path: compare them, do not assume"
                .into(),
        );
    }
    if !made.settings.iter().any(|c| matches!(c.knob, Knob::Coalesce { .. })) {
        say("coalesce", coalescing(intake, profile));
    }
    if !made.settings.iter().any(|c| matches!(c.knob, Knob::Governor { .. })) {
        say("governor", governor(snapshot));
    }
    say("flow-offload", flow_offload(snapshot));
    softnet(snapshot, &mut say);
    threads(snapshot, intake, profile, &mut say);
    all.extend(services(snapshot, &made.settings));
    all
}

/// Services that go on running beside these settings.
pub(super) fn services(snapshot: &Snapshot, settings: &[Change]) -> impl Iterator<Item = NotMade> {
    let left = snapshot.services.iter().filter(|s| !owned::is_taken_over(s, settings));
    left.map(|service| NotMade {
        setting: SERVICE.into(),
        reason: format!(
            "{} {} ({}): it may overwrite this plan, which leaves it running; stop it or tell it \
             to keep off first",
            service.name, service.effect, service.evidence
        ),
    })
}

fn stuck<'a>(intake: &'a Intake<'_>) -> impl Iterator<Item = (String, &'a str)> {
    intake.lines.iter().filter(|i| i.movable != Movable::Presumed).map(|irq| {
        let by = irq.movable_by.as_deref().unwrap_or("its affinity can't be read");
        let stays = irq.lands_on().filter(|set| !set.is_empty());
        let stays = stays.map_or_else(String::new, |s| format!("; planned around, on CPU {s}"));
        (format!("line {} can't be moved: {by}{stays}", irq.line), irq.id.device.as_str())
    })
}

fn xps(intake: &Intake<'_>) -> String {
    let several: Vec<&str> =
        intake.devices.iter().filter(|d| d.tx_queues.len() > 1).map(|d| d.name.as_str()).collect();
    if several.is_empty() {
        return "one TX queue on each device: no effect".into();
    }
    let unset = intake
        .devices
        .iter()
        .filter(|d| d.tx_queues.len() > 1)
        .all(|d| d.tx_queues.iter().all(|q| q.xps.as_ref().is_none_or(|set| set.is_empty())));
    let names = several.join(", ");
    if unset {
        format!("{names}: without a mask the kernel hashes flows over the TX queues, which is even")
    } else {
        format!("{names}: the driver's own masks stay; the cost model says nothing against them")
    }
}

fn coalescing(intake: &Intake<'_>, profile: Profile) -> String {
    let known = intake.devices.iter().filter_map(|d| {
        let usecs = d.settings.coalesce.as_ref()?.get("rx-usecs")?;
        Some(format!("{} rx-usecs {usecs}", d.name))
    });
    let known: Vec<String> = known.collect();
    let now = if known.is_empty() { String::new() } else { format!(" (now {})", known.join(", ")) };
    if profile == Profile::LowLatency {
        return format!("no device is known to gather packets before it interrupts{now}");
    }
    format!(
        "fewer interrupts for more delay{now}; on a Raspberry Pi CM4 rx-usecs 100 rx-frames 10 \
         left the rate as it was and gave 14 % more CPU to other programs: worth trying where they \
         need it"
    )
}

fn governor(snapshot: &Snapshot) -> String {
    let mut all: Vec<&str> = snapshot
        .cpus
        .iter()
        .filter_map(|c| c.governor.as_ref())
        .map(|g| g.current.as_str())
        .collect();
    all.order_by(Ord::cmp);
    all.dedup();
    if all.is_empty() {
        return "the kernel shows no frequency governor here".into();
    }
    if all == ["performance"] {
        return "performance already".into();
    }
    format!(
        "{} stays: performance takes away the time to speed up, not more, and costs heat; a board \
         that throttles is slower than before. Measure it with its temperature",
        all.join(", ")
    )
}

fn flow_offload(snapshot: &Snapshot) -> String {
    let tables = snapshot.path.nftables.as_ref().map(|n| n.flowtables.as_slice());
    if let Some([first, ..]) = tables {
        let how = if first.hardware { "hardware" } else { "software" };
        let shaped = |d: &&NetDev| d.qdiscs.iter().any(|q| SHAPERS.contains(&q.kind.as_str()));
        let shaped = snapshot.netdevs.iter().find(shaped).filter(|_| first.hardware);
        let beside = shaped.map_or_else(String::new, |device| {
            format!(
                ". It and the shaper on {} exclude each other: flows in hardware never meet it",
                device.name
            )
        });
        return format!(
            "{how} offload is on already, for {}; it counts only if flows bind to it (OFFLOAD in \
             conntrack){beside}",
            first.devices.join(", ")
        );
    }
    let option = |name: &str| snapshot.path.openwrt.get(name).is_some_and(|v| v == "1");
    if option("flow_offloading") {
        return "on in the firewall's configuration, and no flowtable was seen: check that it \
                binds"
            .into();
    }
    let first = snapshot
        .machine
        .board_facts
        .as_ref()
        .and_then(|f| f.notes.iter().find(|n| n.contains("flow offload")))
        .map_or_else(String::new, |note| format!(" Try it first here: {note}."));
    let how = match flow::candidate(snapshot, "software") {
        Ok(_) => format!(" Try: linerate plan --candidate {}", super::name::FLOWTABLE),
        Err(why) => format!(" Not offered here: {why}"),
    };
    format!(
        "not set by this plan; a software flowtable takes established flows past netfilter and \
         routing ({:.2} instead of {:.2} of work), more than any placement can; rules then see a \
         connection's first packets only.{first}{how}",
        Costs::DEFAULT.flowtable,
        Costs::DEFAULT.nat
    )
}

fn softnet(snapshot: &Snapshot, say: &mut impl FnMut(&str, String)) {
    let stats = &snapshot.path.softnet;
    let dropped: u64 = stats.iter().map(|s| u64::from(s.dropped)).sum();
    let squeezed: u64 = stats.iter().map(|s| u64::from(s.squeezed)).sum();
    if stats.is_empty() {
        return;
    }
    say(
        "netdev-max-backlog",
        if dropped == 0 {
            "no packet was dropped for a full backlog since boot".into()
        } else {
            format!(
                "{dropped} packets dropped for a full backlog since boot; should the number rise \
                 under load with RPS on, raise net.core.netdev_max_backlog"
            )
        },
    );
    say(
        "netdev-budget",
        if squeezed == 0 {
            "no poll ran out of budget since boot".into()
        } else {
            format!(
                "{squeezed} polls ended with work left since boot; should the number rise under \
                 load, try net.core.netdev_budget and netdev_budget_usecs"
            )
        },
    );
}

fn threads(
    snapshot: &Snapshot,
    intake: &Intake<'_>,
    profile: Profile,
    say: &mut impl FnMut(&str, String),
) {
    // With a place for each thread there is nothing left unsaid.
    let unknown = |device: &&&crate::model::snapshot::NetDev| {
        let mut own = intake.lines.iter().filter(|irq| irq.id.device == device.name).peekable();
        own.peek().is_none()
            || own.any(|irq| threads::thread_of(device, irq, &intake.lines).is_none())
    };
    // Nor with those of a driver's own device, which are placed by name.
    let own = |device: &&&crate::model::snapshot::NetDev| {
        let mut all = snapshot.evidence.iter().flat_map(|e| &e.pollers);
        all.any(|p| matches!(p.owner, PollerOwner::Dummy(_)) && p.serves(&device.name))
    };
    let on = intake.devices.iter().filter(|d| d.threaded == Some(true));
    let on = on.filter(unknown).filter(|device| !own(device));
    for device in on {
        say(
            "threaded-napi",
            format!(
                "{}: on; its polls run in threads that the scheduler moves, so its interrupt's \
                 place decides little and is left alone; which thread polls for which line is \
                 not known here",
                device.name
            ),
        );
    }
    if profile == Profile::Vpn
        && !snapshot.netdevs.iter().any(|d| d.kind.as_deref() == Some("wireguard"))
    {
        say("threaded-napi", "there is no WireGuard device here: planned as for a router".into());
    }
}
