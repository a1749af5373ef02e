//! Links: speed, duplex, pause, damaged frames.

use crate::decide::diagnose::subject::{count, listed};
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::Condition;
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::{NetDev, Snapshot};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "half-duplex",
        what: "a link at half duplex",
        costs: "both sides can't send at once, and with a partner that is set to full duplex by hand \
                frames collide late and are lost: a few Mbit/s remain",
        source: "IEEE 802.3, clause 28 (parallel detection falls back to half duplex)",
        reads: "duplex and speed of each port",
        load: Load::Apart,
        look: half_duplex,
    },
    Rule {
        id: "slow-link",
        what: "a port at 10 or 100 Mbit/s on a gigabit card, or below what both ends offer",
        costs: "everything through this port ends at that speed; one broken pair in the cable is enough \
                for 100 Mbit/s, and a bad one for less than 2.5 Gbit/s",
        source: "IEEE 802.3, clauses 40 and 126: 1000BASE-T and faster need all four pairs",
        reads: "speed of each port, what both ends offer, the others' of the same driver",
        load: Load::Apart,
        look: slow,
    },
    Rule {
        id: "damaged-frames",
        what: "frames arrive damaged (CRC errors)",
        costs: "each is a packet lost; TCP takes it for congestion",
        source: "Documentation/networking/statistics.rst (rx_crc_errors)",
        reads: "rx_crc_errors and the driver's counters, packets received",
        load: Load::Better,
        look: damaged,
    },
    Rule {
        id: "pause-storm",
        what: "the partner or this card sends pause frames all the time",
        costs: "one slow receiver stops the sender for everybody behind it",
        source: "IEEE 802.3, annex 31B; ethtool(8) -a",
        reads: "pause frames as the kernel or the driver counts them, packets",
        load: Load::Better,
        look: pause,
    },
    Rule {
        id: "pause-mismatch",
        what: "flow control that the two ends of a link do not agree on",
        costs: "where one end is set by hand its pause frames are not heeded, and where it was negotiated \
                off nothing holds the faster side back: what does not fit into the card or the switch is \
                lost. How much that is here was not measured",
        source: "IEEE 802.3, annexes 28B and 31B; drivers/net/phy/linkmode.c (linkmode_resolve_pause)",
        reads: "ethtool -a of each port, what both ends offer, speeds, frames lost for want of room",
        load: Load::Better,
        look: pause_mismatch,
    },
    Rule {
        id: "flapping-link",
        what: "a link that comes and goes",
        costs: "each time nothing passes for seconds, routes and sessions are made anew, and all that was \
                set on the device by hand may be lost",
        source: "Documentation/ABI/testing/sysfs-class-net (carrier_changes)",
        reads: "carrier_changes of each port, time since boot",
        load: Load::Better,
        look: flaps,
    },
    Rule {
        id: "eee",
        what: "energy-efficient Ethernet in use at a port where it lost packets or links",
        costs: "the link sleeps between packets, and some pairs of PHYs wake badly: on a Raspberry Pi 4 \
                packets were lost and the port hardly answered, behind an MT7530 links went down again and \
                again; elsewhere it costs microseconds for a packet after a pause. How much that is here \
                was not measured",
        source: "raspberrypi/linux issue 4289; openwrt issue 17351; IEEE 802.3, clause 78",
        reads: "ethtool --show-eee of each port, its driver, carrier_changes, damaged frames",
        load: Load::Apart,
        look: eee,
    },
];

/// Drivers under which it is known to have lost packets or links.
const WAKES_BADLY: &[&str] = &["bcmgenet", "mt7530", "mt7530-mdio", "mt7530-mmio"];

fn eee(subject: &Subject<'_>) -> Looked {
    if subject.ports().all(|d| d.settings.eee.is_none()) {
        return Err("no port tells whether it saves energy (EEE)".into());
    }
    let told = |d: &NetDev, name: &str| d.settings.eee.as_ref().and_then(|e| e.get(name)).copied();
    let active: Vec<&NetDev> =
        subject.ports().filter(|d| told(d, "active").is_some_and(|on| on != 0)).collect();
    let suspect = |d: &NetDev| {
        let flaps = subject.device(&d.name).and_then(|c| c.carrier_changes).unwrap_or(0) >= 40;
        let known = d.driver.as_deref().is_some_and(|driver| WAKES_BADLY.contains(&driver));
        flaps || known || counted(subject, d, is_damage).0 >= 100
    };
    let (bad, plain): (Vec<&NetDev>, Vec<&NetDev>) = active.into_iter().partition(|d| suspect(d));
    let found = [(bad, Severity::Notice), (plain, Severity::Info)].into_iter();
    let found = found.filter(|(devices, _)| !devices.is_empty()).map(|(devices, severity)| {
        let names = listed(devices.iter().map(|d| d.name.as_str()));
        let title = format!("energy-efficient Ethernet is active on {names}");
        let one = Found::new(severity, title).sure(Confidence::Possible);
        devices.iter().fold(one, |one, device| {
            let name = &device.name;
            let changes = subject.device(name).and_then(|c| c.carrier_changes);
            let one = one.seen(format!("ethtool --show-eee {name}"), "enabled, active");
            let one = match changes {
                Some(changes) => {
                    one.seen(format!("/sys/class/net/{name}/carrier_changes"), changes)
                }
                None => one,
            };
            one.remedy(format!(
                "ethtool --set-eee {name} eee off  # and see whether it gets better"
            ))
        })
    });
    Ok(found.collect())
}

fn flaps(subject: &Subject<'_>) -> Looked {
    let known = |d: &NetDev| subject.device(&d.name).and_then(|c| c.carrier_changes);
    if subject.ports().all(|d| known(d).is_none()) {
        return Err("no port tells how often its link changed".into());
    }
    let mut found = Vec::new();
    for device in subject.ports() {
        let Some(all) = known(device) else { continue };
        let of = |_: &Snapshot, c: &Condition| {
            c.devices.get(&device.name).and_then(|d| d.carrier_changes).unwrap_or(0)
        };
        let rose = subject.rose(of);
        let hours = subject.condition.uptime.map(|seconds| (seconds / 3600.0).max(0.1));
        let hourly = hours.map(|hours| all as f64 / hours);
        // A few belong to booting, and a PC at a switch's port sleeps now and then.
        let side = device.switch.is_some() || device.conduit.is_some();
        let (severity, title) = match (rose, hourly) {
            (Some(rose @ 2..), _) => (
                Severity::Critical,
                format!("{}'s link changed {rose} times in the window", device.name),
            ),
            (None, Some(hourly)) if all >= 40 && hourly >= 2.0 => (
                if side { Severity::Notice } else { Severity::Warning },
                format!(
                    "{}'s link changed {all} times since boot, {hourly:.0} an hour",
                    device.name
                ),
            ),
            _ => continue,
        };
        found.push(
            Found::new(severity, title)
                .seen(format!("/sys/class/net/{}/carrier_changes", device.name), all)
                .sure(if rose.is_some() { Confidence::Certain } else { Confidence::Likely })
                .remedy("another cable, then another port or transceiver; dmesg says when")
                .remedy(format!(
                    "ethtool --set-eee {} eee off  # some pairs lose the link by it",
                    device.name
                )),
        );
    }
    Ok(found)
}

fn half_duplex(subject: &Subject<'_>) -> Looked {
    if subject.ports().all(|d| d.full_duplex.is_none()) {
        return Err("no port tells its duplex".into());
    }
    let half = subject.ports().filter(|d| d.full_duplex == Some(false) && d.operstate == "up");
    let found = half.map(|d| {
        let speed = d.speed.map_or_else(String::new, |s| format!(" at {s} Mbit/s"));
        let place = format!("/sys/class/net/{}", d.name);
        let mut one =
            Found::new(Severity::Critical, format!("{} runs at half duplex{speed}", d.name))
                .seen(format!("{place}/duplex"), "half")
                .rank(0.6);
        if let Some(speed) = d.speed {
            one = one.seen(format!("{place}/speed"), speed);
        }
        one.remedy("let both ends negotiate: remove a fixed speed at either of them")
            .remedy(format!("ethtool -s {} autoneg on; then another cable, another port", d.name))
    });
    Ok(found.collect())
}

/// Drivers of cards that can do a gigabit at least; stmmac and others have slower siblings.
const GIGABIT: &[&str] = &[
    "igb", "igc", "e1000e", "e1000", "ixgbe", "i40e", "ice", "bcmgenet", "mvneta", "mvpp2",
    "atlantic", "tg3", "bnx2", "alx", "sky2", "r8125", "r8126",
];

fn gigabit(d: &NetDev) -> bool {
    d.driver.as_deref().is_some_and(|driver| GIGABIT.contains(&driver))
}

fn slow(subject: &Subject<'_>) -> Looked {
    if subject.ports().all(|d| d.speed.is_none()) {
        return Err("no port tells its speed".into());
    }
    let mut found = Vec::new();
    for device in subject.ports().filter(|d| d.operstate == "up") {
        let Some(speed) = device.speed else { continue };
        let told = |name: &str| device.settings.speeds.as_ref()?.get(name).copied();
        let more = |most: u64| most > u64::from(speed);
        let (able, offered, partner) = (told("able"), told("advertised"), told("partner"));
        // The port itself or the other end can't do more: nothing is broken.
        if able.or(partner).is_some_and(|most| !more(most)) || partner.is_some_and(|p| !more(p)) {
            continue;
        }
        // Its twin shows what such a port can do.
        let twin = subject.ports().find(|d| {
            d.name != device.name && d.driver == device.driver && d.speed.is_some_and(|s| s >= 1000)
        });
        if able.is_none() && !gigabit(device) && twin.is_none() {
            continue;
        }
        // At a switch's port a printer may be what it is for.
        let side = device.switch.is_some() || device.conduit.is_some();
        let severity = if side { Severity::Info } else { Severity::Warning };
        let could = able.unwrap_or(1000).min(partner.unwrap_or(u64::MAX));
        let title = format!("{} runs at {speed} Mbit/s and could do {could}", device.name);
        // Whatever else is slow here, this much is gone.
        let lost = 1.0 - f64::from(speed) / (could.max(1) as f64);
        let held = offered.is_some_and(|most| !more(most));
        let broken = !held && partner.is_some();
        // Above 100 Mbit/s there is no lost pair that explains it: both ends have to say that they
        // could do more, and who limits a card of 2.5 Gbit/s to one has a reason as a rule.
        if speed > 100 && (able.is_none() || !broken) {
            continue;
        }
        let mut one = Found::new(severity, title)
            .seen(format!("/sys/class/net/{}/speed", device.name), speed)
            .cost(if side { 0.0 } else { lost })
            .sure(if broken || held { Confidence::Certain } else { Confidence::Likely });
        for (what, most) in
            [("advertised link modes", offered), ("link partner advertised link modes", partner)]
        {
            if let Some(most) = most {
                let place = format!("ethtool {}, {what}, highest", device.name);
                one = one.seen(place, format!("{most} Mbit/s"));
            }
        }
        if let Some(twin) = twin {
            let place = format!("/sys/class/net/{}/speed", twin.name);
            one = one.seen(place, twin.speed.unwrap_or_default());
        }
        found.push(match (held, broken) {
            (true, _) => one.remedy(format!(
                "ethtool -s {} autoneg on  # this side offers no more than it runs at: look who set it",
                device.name
            )),
            (_, true) => one.remedy(
                "both ends offer more: another cable (all four pairs), then another port, then what \
                 lies between",
            ),
            _ => {
                let ask = format!("ethtool {}  # what the partner advertises", device.name);
                one.remedy(ask).remedy(
                    "if the partner can do more: another cable, then another port; if not, all is well",
                )
            }
        });
    }
    Ok(found)
}

/// A counter of a device, from the kernel's own, else the driver's; at the end or in the window.
fn counted(
    subject: &Subject<'_>,
    device: &NetDev,
    wanted: fn(&str) -> bool,
) -> (u64, &'static str) {
    let of = |snapshot: &Snapshot| {
        let Some(device) = snapshot.netdev(&device.name) else { return 0 };
        match count(&device.drops, wanted) {
            0 => count(&device.counters, wanted),
            n => n,
        }
    };
    match subject.rose(|snapshot, _| of(snapshot)) {
        Some(rose) => (rose, "in the window"),
        None => (of(subject.snapshot), "since it came up"),
    }
}

/// Packets received, in the window or all.
fn received(subject: &Subject<'_>, device: &NetDev) -> Option<u64> {
    let all = subject.device(&device.name)?.rx_packets?;
    let before = subject
        .window
        .map_or(Some(0), |w| w.before_condition.devices.get(&device.name)?.rx_packets)?;
    Some(all.saturating_sub(before))
}

fn is_damage(name: &str) -> bool {
    name.contains("crc") || name.contains("fcs")
}

fn damaged(subject: &Subject<'_>) -> Looked {
    if subject.ports().next().is_none() {
        return Err("there is no network card".into());
    }
    let mut found = Vec::new();
    for device in subject.ports() {
        let (errors, when) = counted(subject, device, is_damage);
        if errors == 0 {
            continue;
        }
        let packets = received(subject, device);
        let share = packets.map(|all| errors as f64 / (all.max(1)) as f64);
        // IEEE 802.3 asks for one bit error in 10^10 at most: with 1500 bytes about one frame in a
        // million. A handful may be somebody plugging a cable.
        let severity = match share {
            Some(share) if share >= 1e-4 && errors >= 100 => Severity::Warning,
            Some(share) if share >= 1e-6 && errors >= 10 => Severity::Notice,
            Some(_) => continue,
            None if errors >= 1000 => Severity::Notice,
            None => continue,
        };
        let title = format!("{errors} frames arrived damaged at {} {when}", device.name);
        let mut one = Found::new(severity, title)
            .seen(
                format!("/sys/class/net/{}/statistics/rx_crc_errors, ethtool -S", device.name),
                errors,
            )
            .rank(share.map_or(0.02, |share| (share * 100.0).min(0.5)));
        if let Some(packets) = packets {
            one =
                one.seen(format!("/sys/class/net/{}/statistics/rx_packets", device.name), packets);
        }
        found.push(
            one.remedy("another cable; then another port, transceiver, and away from power lines"),
        );
    }
    Ok(found)
}

fn pause(subject: &Subject<'_>) -> Looked {
    let known = subject.ports().any(|d| !d.counters.is_empty() || d.settings.pause.is_some());
    if !known {
        return Err("no card's own counters can be read".into());
    }
    let pauses = |name: &str| {
        (name.contains("pause") || name.contains("xoff")) && !name.contains("storm_warn")
    };
    let mut found = Vec::new();
    for device in subject.ports() {
        let (frames, when) = counted(subject, device, pauses);
        let packets = received(subject, device);
        let rate = subject.window.map(|w| frames as f64 / w.seconds.max(0.1));
        let share = packets.map(|all| frames as f64 / (all.max(1)) as f64);
        let severity = match (rate, share) {
            (Some(rate), _) if rate >= 1000.0 => Severity::Warning,
            (None, Some(share)) if share >= 0.01 && frames >= 10_000 => Severity::Notice,
            _ => continue,
        };
        let title = format!("{frames} pause frames at {} {when}", device.name);
        let mut one = Found::new(severity, title)
            .seen(format!("ethtool -S {}: pause frames", device.name), frames)
            .rank(0.1)
            .sure(Confidence::Likely);
        if let Some(packets) = packets {
            one =
                one.seen(format!("/sys/class/net/{}/statistics/rx_packets", device.name), packets);
        }
        found.push(
            one.remedy(
                "received ones: the partner can't take it, look there; sent ones: this router \
                        can't, linerate check --load 10s",
            )
            .remedy(format!(
                "to lose packets instead of stopping everybody: ethtool -A {} rx off tx off",
                device.name
            )),
        );
    }
    Ok(found)
}

/// Frames that a card or a switch had no room for.
fn is_full(name: &str) -> bool {
    let words =
        ["missed", "fifo", "no_buf", "over_errors", "txdrop", "rxdrop", "overflow", "discards"];
    let name = name.to_ascii_lowercase();
    words.iter().any(|word| name.contains(word)) && !name.starts_with("tx_fifo")
}

fn pause_mismatch(subject: &Subject<'_>) -> Looked {
    let told =
        |d: &NetDev, name: &str| d.settings.pause.as_ref().and_then(|p| p.get(name)).copied();
    if subject.ports().all(|d| told(d, "partner").is_none()) {
        return Err("no port tells what its partner offers of flow control".into());
    }
    let slowest = subject.ports().filter(|d| d.operstate == "up").filter_map(|d| d.speed).min();
    let mut found = Vec::new();
    for device in subject.ports().filter(|d| d.operstate == "up") {
        let Some(partner) = told(device, "partner") else { continue };
        let own = told(device, "advertised").unwrap_or(0);
        let is_on = |name| told(device, name) == Some(1);
        let by_hand = told(device, "autoneg") == Some(0);
        let name = &device.name;
        let (title, step) = if by_hand && is_on("tx") && partner == 0 {
            let title =
                format!("{name} sends pause frames, and its partner offers no flow control");
            (title, format!("ethtool -A {name} autoneg on  # both ends do what both can"))
        } else {
            // Symmetric at both ends, or asymmetric at both: else the link has none.
            let none = partner & own == 0;
            // A faster side sends to a slower one: only there does somebody have to wait.
            let unequal = device.speed.zip(slowest).is_some_and(|(mine, least)| mine > least);
            let (lost, _) = counted(subject, device, is_full);
            let share = received(subject, device).map(|all| lost as f64 / (all.max(1)) as f64);
            if !none || by_hand || !unequal || lost < 100 || share.is_none_or(|s| s < 1e-5) {
                continue;
            }
            let title = format!(
                "{name} lost {lost} frames for want of room, and flow control was negotiated off"
            );
            let who = if own == 0 { "this end" } else { "the partner" };
            (title, format!("ethtool -A {name} rx on tx on, at both ends; {who} offers none now"))
        };
        found.push(
            Found::new(Severity::Notice, title)
                .sure(Confidence::Possible)
                .rank(0.02)
                .seen(format!("ethtool {name}: advertised pause frame use"), own)
                .seen(format!("ethtool {name}: link partner advertised pause frame use"), partner)
                .remedy(step)
                .remedy("a shaper at the slower port's rate does it without stopping everybody"),
        );
    }
    Ok(found)
}
