//! The bus that a card hangs on.

use crate::decide::diagnose::subject::{count, listed};
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::PcieLink;
use crate::model::finding::{Confidence, Severity};
use crate::model::snapshot::{Bus, NetDev};

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
    Rule {
        id: "pcie-sleep",
        what: "a card whose PCIe link may sleep (ASPM L1), of a driver for which that lost packets",
        costs: "waking the link takes tens of microseconds: bursts overflow the card's buffer, and some \
                boards lose the card; how much that costs here was not measured",
        source: "drivers/net/ethernet/realtek/r8169_main.c (rtl_init_one switches ASPM L1 off by default); \
                 drivers/pci/pcie/aspm.c",
        reads: "link/l1_aspm of each card, its driver, counters of loss",
        load: Load::Apart,
        look: sleep,
    },
    Rule {
        id: "iommu-strict",
        what: "a fast card behind an IOMMU that forgets each mapping at once",
        costs: "each buffer that is given back waits for the IOMMU to forget it; page pools keep \
                received ones mapped, sent ones pay. What that costs here was not measured",
        source: "Documentation/admin-guide/kernel-parameters.txt (iommu.strict=); \
                 Documentation/ABI/testing/sysfs-kernel-iommu_groups",
        reads: "type of each card's IOMMU group, its speed",
        load: Load::Apart,
        look: iommu,
    },
];

/// Drivers whose cards were reported to lose packets or to vanish with it.
const LIGHT_SLEEPERS: &[&str] = &["r8169", "r8125", "r8126", "r8168", "igc"];

fn sleep(subject: &Subject<'_>) -> Looked {
    let links =
        || subject.ports().filter_map(|d| Some((d, subject.device(&d.name)?.pcie.as_ref()?)));
    let known = |link: &PcieLink| link.sleeps.is_some();
    if subject.ports().any(|d| matches!(d.bus, Bus::Pci(_))) && !links().any(|(_, l)| known(l)) {
        return Err("no card tells whether its PCIe link may sleep".into());
    }
    let light = |d: &NetDev| d.driver.as_deref().is_some_and(|n| LIGHT_SLEEPERS.contains(&n));
    let on: Vec<_> = links().filter(|(d, l)| light(d) && l.sleeps == Some(true)).collect();
    if on.is_empty() {
        return Ok(Vec::new());
    }
    let names = listed(on.iter().map(|(d, _)| d.name.as_str()));
    let missed = |d: &NetDev| count(&d.drops, |name| name.contains("missed"));
    let lost: u64 = on.iter().map(|(d, _)| missed(d)).sum();
    let severity = if lost > 0 { Severity::Notice } else { Severity::Info };
    let mut found = Found::new(severity, format!("the PCIe link of {names} may sleep (ASPM L1)"))
        .sure(Confidence::Possible);
    for (device, link) in on {
        found = found
            .seen(format!("{}/link/l1_aspm", link.place), 1)
            .remedy(format!("echo 0 > {}/link/l1_aspm", link.place));
        if missed(device) > 0 {
            let place = format!("/sys/class/net/{}/statistics/rx_missed_errors", device.name);
            found = found.seen(place, missed(device));
        }
    }
    Ok(vec![found.remedy("for good: pcie_aspm.policy=performance on the kernel's command line")])
}

fn iommu(subject: &Subject<'_>) -> Looked {
    let kind = |d: &NetDev| subject.device(&d.name).and_then(|c| c.iommu.as_deref());
    if subject.ports().all(|d| kind(d).is_none()) {
        return Err("no card has an IOMMU group that tells its type".into());
    }
    let fast = |d: &&NetDev| d.speed.is_some_and(|speed| speed >= 10_000);
    let strict: Vec<&NetDev> =
        subject.ports().filter(|d| kind(d) == Some("DMA")).filter(fast).collect();
    if strict.is_empty() {
        return Ok(Vec::new());
    }
    let names = listed(strict.iter().map(|d| d.name.as_str()));
    let title = format!("the IOMMU forgets each buffer of {names} at once (strict)");
    let found = Found::new(Severity::Notice, title).sure(Confidence::Possible);
    let found = strict.iter().fold(found, |found, d| {
        found.seen(format!("/sys/class/net/{}/device/iommu_group/type", d.name), "DMA")
    });
    Ok(vec![
        found
            .remedy("boot with iommu.strict=0 (buffers are forgotten in batches), or iommu.passthrough=1")
            .remedy("not where guests or strangers' devices share the machine: strict keeps them apart"),
    ])
}

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
            .rank(0.6);
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
