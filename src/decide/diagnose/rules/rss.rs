//! Cards whose hardware spreads nothing.

use crate::decide::diagnose::{Found, Load, Looked, Outlook, Rule, Subject};
use crate::model::finding::{Confidence, Evidence, Severity};
use crate::model::snapshot::NetDev;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "rss-defeated",
    what: "a card with several queues that puts (nearly) all packets into one",
    costs: "the other queues' CPUs get nothing: cards that can't parse a switch's tag or PPPoE put \
            all of it into queue 0. Tagging that the card can parse, or RPS, spreads it",
    source: "OpenWrt issue 19644 (DSA tag); drivers that hash IP only put PPPoE on queue 0",
    reads: "interrupts per queue since boot, or in the window",
    load: Load::Better,
    look,
}];

/// Interrupts that show all packets of a device in one of its queues: the queue, its share and the
/// evidence.
pub(super) fn all_on_one_queue(
    device: &NetDev,
    subject: &Subject<'_>,
) -> Option<(u32, f64, Vec<Evidence>)> {
    let lines: Vec<_> = subject
        .intake
        .lines
        .iter()
        .filter(|l| l.id.device == device.name && l.id.role.receives() && l.shared_with.is_empty())
        .collect();
    if lines.len() < 2 || lines.len() < device.rx_queues.len() {
        return None;
    }
    let counts: Vec<(u32, u64)> =
        lines.iter().map(|l| (l.id.queue, l.counts.iter().map(|(_, n)| *n).sum())).collect();
    let all: u64 = counts.iter().map(|(_, n)| *n).sum();
    let (queue, most) = counts.iter().max_by_key(|(_, n)| *n)?;
    let share = *most as f64 / all.max(1) as f64;
    if all < 100_000 || share < 0.97 {
        return None;
    }
    let seen = lines.iter().zip(&counts).take(8).map(|(line, (_, count))| Evidence {
        place: format!("/proc/interrupts, line {} ({})", line.line, line.action),
        value: format!("{count} since boot"),
    });
    Some((*queue, share, seen.collect()))
}

fn look(subject: &Subject<'_>) -> Looked {
    let several: Vec<_> = subject.intake.devices.iter().filter(|d| d.rx_queues.len() > 1).collect();
    let mut found = Vec::new();
    for device in several {
        let Some((queue, share, seen)) = all_on_one_queue(device, subject) else { continue };
        let snapshot = subject.snapshot;
        let tagged =
            snapshot.netdevs.iter().any(|d| d.conduit.as_deref() == Some(device.name.as_str()));
        let pppoe = subject.pppoe().any(|(_, over)| {
            over == device.name
                || snapshot.netdev(over).is_some_and(|d| d.lower.contains(&device.name))
        });
        let why = match (tagged, pppoe) {
            (true, _) => "a switch's tag hides the addresses",
            (_, true) => "PPPoE hides the addresses",
            // One peer, or one flow: nothing is wrong with the card.
            _ => continue,
        };
        // RPS does by software what the card can't.
        let mut queues = device.rx_queues.iter().filter(|q| q.index == queue);
        let steered = queues.any(|q| q.rps.as_ref().is_some_and(|m| m.len() > 1));
        if steered {
            continue;
        }
        let title = format!(
            "{:.0} % of {}'s interrupts are queue {queue}'s of {}: {why}",
            share * 100.0,
            device.name,
            device.rx_queues.len()
        );
        let cost = subject.outlook().map_or(0.0, Outlook::placement);
        found.push(
            Found::new(subject.on_router(Severity::Warning), title)
                .all_seen(seen)
                .sure(Confidence::Likely)
                .cost(cost)
                .rank(0.2)
                .remedy("linerate plan --candidate rps-others  # RPS spreads it; then apply it with --confirm 60")
                .remedy("or a tag that the card can parse (mtk_eth_soc, qca: driver and DSA notes)"),
        );
    }
    Ok(found)
}
