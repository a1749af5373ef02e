//! Wi-Fi radios: their cards, devices and interrupt lines.

use std::path::{Path, PathBuf};

use super::text;
use crate::machine::host::HostRead;
use crate::model::order::InOrder;
use crate::model::snapshot::{Irq, NetDev, Radio};

/// Names the radio of each Wi-Fi device: the phy that its `phy80211` leads to.
pub(super) fn name(host: &dyn HostRead, netdevs: &mut [NetDev]) {
    for device in netdevs.iter_mut().filter(|d| d.kind.as_deref() == Some("wlan")) {
        let dir = Path::new("/sys/class/net").join(&device.name).join("phy80211");
        let by_link = || {
            let leads = host.resolve(&dir).ok()?;
            let name = leads.file_name()?.to_string_lossy().into_owned();
            (name != "phy80211").then_some(name)
        };
        // net/wireless/sysfs.c: `name` and `index` of the phy.
        let by_index = || text(host, &dir.join("index")).map(|index| format!("phy{index}"));
        device.radio = text(host, &dir.join("name")).or_else(by_link).or_else(by_index);
    }
}

/// The radios by name: those of /sys/class/ieee80211, and those that network devices name.
pub(super) fn discover(host: &dyn HostRead, netdevs: &[NetDev], irqs: &[Irq]) -> Vec<Radio> {
    let class = Path::new("/sys/class/ieee80211");
    let mut names = host.list(class).unwrap_or_default();
    names.extend(netdevs.iter().filter_map(|d| d.radio.clone()));
    names.order_by(Ord::cmp);
    names.dedup();
    let card_of = |device: &NetDev| -> Option<PathBuf> {
        host.resolve(&Path::new("/sys/class/net").join(&device.name).join("device")).ok()
    };
    let radio = |name: String| {
        let own: Vec<&NetDev> =
            netdevs.iter().filter(|d| d.radio.as_deref() == Some(&name)).collect();
        let place = class.join(&name).join("device");
        let card =
            host.resolve(&place).ok().or_else(|| own.first().and_then(|device| card_of(device)));
        // Both bands of a card are radios of their own, on the same lines.
        let on_card: Vec<&str> = netdevs
            .iter()
            .filter(|d| d.radio.is_some())
            .filter(|d| d.radio.as_ref() == Some(&name) || card.is_some() && card_of(d) == card)
            .map(|d| d.name.as_str())
            .collect();
        let of_card = |irq: &&Irq| {
            on_card.contains(&irq.id.device.as_str())
                || irq.shared_with.iter().any(|d| on_card.contains(&d.as_str()))
        };
        let base = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
        let driver = || base(&host.resolve(&place.join("driver")).ok()?);
        Radio {
            driver: own.iter().find_map(|d| d.driver.clone()).or_else(driver),
            card: card.as_deref().and_then(base).unwrap_or_default(),
            devices: own.iter().map(|d| d.name.clone()).collect(),
            lines: irqs
                .iter()
                .filter(of_card)
                .filter(|irq| irq.id.role.carries_packets())
                .map(|irq| irq.line)
                .collect(),
            name,
        }
    };
    names.into_iter().map(radio).collect()
}
