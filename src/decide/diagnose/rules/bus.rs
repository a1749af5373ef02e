//! The bus that a card hangs on.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::Bus;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "pcie-link",
        what: "a PCIe link that carries less than the card's port",
        costs: "the card can't be fed: RTL8125 (2.5GbE) on one lane at 2.5 GT/s has 2 Gbit/s, headers \
                not counted, for both directions each",
        source: "PCI Express base specification; Documentation/ABI/testing/sysfs-bus-pci",
        reads: "current_link_speed, current_link_width, speed of the port",
        load: Load::Apart,
        look: pcie,
    },
    Rule {
        id: "usb2",
        what: "a gigabit adapter at USB 2",
        costs: "480 Mbit/s on the wire are some 300 of payload, both directions together",
        source: "USB 2.0 specification, section 5.8.4",
        reads: "speed of the USB device, its version, its driver",
        load: Load::Apart,
        look: usb,
    },
];

fn pcie(subject: &Subject<'_>) -> Looked {
    let links =
        || subject.ports().filter_map(|d| Some((d, subject.device(&d.name)?.pcie.as_ref()?)));
    if links().next().is_none() && subject.ports().any(|d| matches!(d.bus, Bus::Pci(_))) {
        return Err("no card tells its PCIe link".into());
    }
    let mut found = Vec::new();
    for (device, link) in links() {
        // Ports of one card share its link; their addresses differ in the function alone.
        let card =
            |place: &str| place.rsplit_once('.').map_or(place.to_owned(), |(c, _)| c.to_owned());
        let wanted: u64 = links()
            .filter(|(_, other)| card(&other.place) == card(&link.place))
            .filter_map(|(d, _)| d.speed)
            .map(u64::from)
            .sum();
        // Headers of packets of 128 to 256 bytes take some 10 to 15 %.
        let carried = link.megabits() * 87 / 100;
        let below = link.speed_max.is_some_and(|max| link.speed < max)
            || link.width_max.is_some_and(|max| link.width < max);
        let starved = wanted > 0 && carried < wanted;
        if !starved {
            continue;
        }
        let title = format!(
            "{}'s PCIe link carries some {carried} Mbit/s each way, and its card's ports {wanted}",
            device.name
        );
        let speed = |tenths: u32| format!("{:.1} GT/s", f64::from(tenths) / 10.0);
        let most = |value: Option<String>| value.map_or_else(String::new, |v| format!(" (of {v})"));
        let one = Found::new(Severity::Warning, title)
            .seen(
                format!("{}/current_link_speed", link.place),
                format!("{}{}", speed(link.speed), most(link.speed_max.map(speed))),
            )
            .seen(
                format!("{}/current_link_width", link.place),
                format!("{}{}", link.width, most(link.width_max.map(|w| w.to_string()))),
            )
            .seen(format!("/sys/class/net/{}/speed", device.name), device.speed.unwrap_or(0))
            .cost(1.0 - carried as f64 / wanted.max(1) as f64)
            .sure(Confidence::Certain);
        found.push(if below {
            one.remedy(
                "the card can do more than the slot gives: another slot, seat it again, and look \
                        for a limit in the firmware's settings (link speed) or the device tree \
                        (max-link-speed)",
            )
        } else {
            one.remedy("the card itself can't do more: use one of its ports less, or another card")
        });
    }
    Ok(found)
}

/// Drivers of USB adapters that do a gigabit and more; r8152 has a sibling with 100 Mbit/s, which its
/// link's speed tells.
const FAST: &[&str] = &["ax88179_178a", "aqc111", "lan78xx"];

fn usb(subject: &Subject<'_>) -> Looked {
    let links =
        || subject.ports().filter_map(|d| Some((d, subject.device(&d.name)?.usb.as_ref()?)));
    if links().next().is_none() && subject.ports().any(|d| matches!(d.bus, Bus::Usb(_))) {
        return Err("no USB card tells its bus's speed".into());
    }
    let slow = links().filter(|(device, link)| {
        let fast = device.speed.is_some_and(|s| s >= 1000)
            || device.driver.as_deref().is_some_and(|driver| FAST.contains(&driver));
        link.megabits <= 480 && fast
    });
    let found = slow.map(|(device, link)| {
        let version = link.version.as_deref().map(str::trim);
        // lan78xx is USB 2 by its nature on a Raspberry Pi 3B+.
        let able = version.is_some_and(|v| v != "2.00" && !v.starts_with('1'));
        let title =
            format!("{} is a gigabit adapter at USB 2 ({} Mbit/s)", device.name, link.megabits);
        let mut one = Found::new(Severity::Warning, title)
            .seen(format!("{}/speed", link.place), link.megabits)
            .cost(0.6);
        if let Some(version) = version {
            one = one.seen(format!("{}/version", link.place), version);
        }
        if let Some(speed) = device.speed {
            one = one.seen(format!("/sys/class/net/{}/speed", device.name), speed);
        }
        if able {
            one.remedy(
                "the adapter can do USB 3: plug it into a USB 3 port (blue), without a USB 2 hub \
                        or cable between; push the plug in fully and quickly",
            )
        } else {
            one.remedy("this adapter is USB 2 by itself: one with USB 3, or a card on PCIe")
        }
    });
    Ok(found.collect())
}
