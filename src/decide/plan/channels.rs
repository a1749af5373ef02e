//! More hardware queues, where a card has fewer than it could and there are CPUs to serve them:
//! then the card spreads flows over the CPUs itself, for which RPS would charge a hand-off.

use super::intake::Intake;
use super::name;
use super::planned;
use super::profile::Profile;
use super::traffic::Traffic;
use super::way;
use crate::model::knob::{Knob, Value};
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{Irq, Movable, NetDev, RxQueue, Snapshot, TxQueue};
use crate::model::units::IrqLine;

/// Growth that a card has room for: more queues of one kind.
struct Growth {
    device: String,
    direction: &'static str,
    now: u64,
    then: u64,
    most: u64,
    cpus: usize,
}

/// Cards that could have a queue for more of the CPUs near them; else why none is better off.
fn growths(snapshot: &Snapshot, intake: &Intake<'_>) -> Result<Vec<Growth>, String> {
    let mut why = Vec::new();
    let mut all = Vec::new();
    for device in intake.devices.iter().filter(|d| d.is_hardware()) {
        match growth(snapshot, intake, device) {
            Ok(found) => all.push(found),
            Err(reason) => why.push(reason),
        }
    }
    match (all.is_empty(), why.is_empty()) {
        (false, _) => Ok(all),
        (true, false) => Err(why.join("; ")),
        (true, true) => Err("there is no network card".into()),
    }
}

fn growth(snapshot: &Snapshot, intake: &Intake<'_>, device: &NetDev) -> Result<Growth, String> {
    let name = &device.name;
    let known = device.settings.channels.as_ref();
    let number = |key: &str| known.and_then(|c| c.get(key)).copied().filter(|n| *n > 0);
    let of = |direction: &'static str| {
        Some((direction, number(direction)?, number(&format!("{direction}-max"))?))
    };
    let (direction, now, most) =
        of("combined").or_else(|| of("rx")).ok_or(format!("{name} has no channels to set"))?;
    let near = |c: &&crate::model::snapshot::Cpu| {
        intake.usable.contains(c.id) && (device.numa_node.is_none() || c.node == device.numa_node)
    };
    let near = snapshot.cpus.iter().filter(near).count();
    let cpus = if near == 0 { intake.usable.len() } else { near };
    let then = most.min(cpus as u64);
    let mut lines = intake.lines.iter().filter(|i| i.id.device == *name);
    if then <= now {
        return Err(if now >= most {
            format!("{name} has all of its {now} channels")
        } else {
            format!("{name} has {now} channels for the {cpus} CPUs near it already")
        });
    }
    if let Some(why) = way::rss_would_fail(snapshot, device) {
        return Err(format!("more channels would bring {name} nothing: {why}"));
    }
    if device.threaded == Some(true) {
        return Err(format!("{name}'s NAPI runs in threads: which would serve which is not known"));
    }
    if !lines.clone().any(|i| i.id.role.receives()) || lines.any(|i| i.movable != Movable::Presumed)
    {
        return Err(format!("{name}'s interrupts are not known, or can't be moved"));
    }
    Ok(Growth { device: name.clone(), direction, now, then, most, cpus })
}

/// The router with those queues, and a line for each that may go anywhere, as the kernel makes them.
fn grown(snapshot: &Snapshot, growths: &[Growth]) -> Snapshot {
    let mut other = snapshot.clone();
    let usable = snapshot.usable_cpus();
    // No line of today has these numbers.
    let mut number = u32::MAX;
    for growth in growths {
        let Some(device) = other.netdevs.iter_mut().find(|d| d.name == growth.device) else {
            continue;
        };
        let (rx, tx) = (device.rx_queues.last().cloned(), device.tx_queues.last().cloned());
        let upto = u32::try_from(growth.then).unwrap_or(0);
        let first = u32::try_from(growth.now).unwrap_or(upto);
        for index in first..upto {
            device.rx_queues.extend(rx.iter().cloned().map(|queue| RxQueue { index, ..queue }));
            if growth.direction == "combined" {
                device.tx_queues.extend(tx.iter().cloned().map(|queue| TxQueue { index, ..queue }));
            }
            let of = |i: &&Irq| i.id.device == growth.device && i.id.queue + 1 == first;
            for line in snapshot.irqs.iter().filter(of).filter(|i| i.id.role.carries_packets()) {
                if growth.direction == "rx" && !line.id.role.receives() {
                    continue;
                }
                let mut line = line.clone();
                line.line = IrqLine(number);
                line.id.queue = index;
                line.affinity = Some(usable.clone());
                line.effective = None;
                number -= 1;
                other.irqs.push(line);
            }
        }
        if let Some(channels) = &mut device.settings.channels {
            channels.insert(growth.direction.to_owned(), growth.then);
        }
        // The driver spreads its hash over all of them.
        device.settings.rss = None;
    }
    other
}

/// The router as it would be with the channels that a candidate asks for, where those are more than
/// there are.
pub(super) fn asked(snapshot: &Snapshot, candidate: &Candidate) -> Option<Snapshot> {
    let growths: Vec<Growth> = candidate
        .changes()
        .filter_map(|change| match (&change.knob, &change.before, &change.after) {
            (Knob::Channels { device, direction }, Value::Count(now), Value::Count(then)) => {
                let direction = ["combined", "rx"].into_iter().find(|d| d == direction)?;
                let (now, then) = (*now, *then);
                let device = device.clone();
                (now < then).then_some(Growth { device, direction, now, then, most: then, cpus: 0 })
            }
            _ => None,
        })
        .collect();
    (!growths.is_empty()).then(|| grown(snapshot, &growths))
}

/// A queue for each CPU near the card, and the plan for the router as it then is.
///
/// # Errors
/// An error with the reason if no card is better off with more queues.
pub(super) fn candidate(
    snapshot: &Snapshot,
    traffic: &Traffic,
    profile: Profile,
) -> Result<Candidate, String> {
    let growths = growths(snapshot, &Intake::of(snapshot))?;
    let grown = grown(snapshot, &growths);
    let planned = planned::planned(&grown, traffic, profile)?;
    let mut settings: Vec<Change> = growths
        .iter()
        .map(|g| Change {
            knob: Knob::Channels { device: g.device.clone(), direction: g.direction.to_owned() },
            before: Value::Count(g.now),
            after: Value::Count(g.then),
            reason: format!(
                "it has {} of at most {}, and there are {} CPUs near it: the card then spreads the \
                 flows itself",
                g.now, g.most, g.cpus
            ),
        })
        .collect();
    settings.extend(planned.candidate.settings);
    Ok(Candidate {
        name: name::CHANNELS.into(),
        title: "a hardware queue for each CPU near the card".into(),
        reason: format!(
            "most cards lose their link for a moment when their channels change; {}",
            planned.candidate.reason
        ),
        settings,
    })
}

/// Remark of a plan that leaves the number of queues alone; `None` where there is nothing to say.
pub(super) fn not_made(snapshot: &Snapshot, intake: &Intake<'_>) -> Option<String> {
    let growths = growths(snapshot, intake).ok()?;
    let each: Vec<String> = growths
        .iter()
        .map(|g| format!("{} has {} of at most {} for {} CPUs", g.device, g.now, g.most, g.cpus))
        .collect();
    Some(format!(
        "{}; the card would spread flows over more CPUs by itself, and may lose its link for a moment \
         when it is set. Try: linerate plan --candidate {}",
        each.join(", "),
        name::CHANNELS
    ))
}
