//! OpenWrt's configuration, where this is OpenWrt: interfaces, firewall zones, steering.

use std::collections::BTreeMap;
use std::path::Path;

use crate::machine::host::HostRead;
use crate::machine::parse::uci::{Section, sections, staged};

/// Contents of OpenWrt's own files. Empty elsewhere.
#[derive(Default)]
pub(super) struct OpenWrt {
    network: Vec<Section>,
    firewall: Vec<Section>,
    irqbalance: Vec<Section>,
    /// Options that were set and not committed, by name; `None` where one was taken away.
    staged: BTreeMap<&'static str, Option<String>>,
}

/// Options that this program sets in a package, each of a name that only one kind of section there
/// has.
const STAGED: [(&str, &[&str]); 2] = [
    ("network", &["packet_steering", "steering_flows"]),
    ("firewall", &["flow_offloading", "flow_offloading_hw"]),
];

/// A firewall zone with the devices that its networks stand for.
pub(super) struct Zone {
    pub(super) name: String,
    pub(super) masquerades: bool,
    pub(super) devices: Vec<String>,
}

impl OpenWrt {
    pub(super) fn read(host: &dyn HostRead) -> Self {
        let file = |name: &str| {
            host.read(&Path::new("/etc/config").join(name))
                .map(|bytes| sections(&bytes))
                .unwrap_or_default()
        };
        let mut found = BTreeMap::new();
        for (package, options) in STAGED {
            let delta = host.read(&Path::new("/tmp/.uci").join(package)).unwrap_or_default();
            found.extend(
                options.iter().filter_map(|option| Some((*option, staged(&delta, option)?))),
            );
        }
        Self {
            staged: found,
            network: file("network"),
            firewall: file("firewall"),
            irqbalance: file("irqbalance"),
        }
    }

    /// True if there is such a configuration at all.
    pub(super) fn is_there(&self) -> bool {
        !self.network.is_empty()
    }

    /// An option of network's `globals` section.
    pub(super) fn global(&self, option: &str) -> Option<&str> {
        let committed =
            || self.network.iter().filter(|s| s.kind == "globals").find_map(|s| s.option(option));
        self.staged.get(option).map_or_else(committed, Option::as_deref)
    }

    /// True if the configuration has a firewall that can be asked to offload flows.
    pub(super) fn has_firewall(&self) -> bool {
        self.firewall.iter().any(|s| s.kind == "defaults")
    }

    /// An option of firewall's `defaults` section.
    pub(super) fn firewall_default(&self, option: &str) -> Option<&str> {
        let committed =
            || self.firewall.iter().filter(|s| s.kind == "defaults").find_map(|s| s.option(option));
        self.staged.get(option).map_or_else(committed, Option::as_deref)
    }

    /// True if irqbalance is to run, and the lines it must leave alone.
    pub(super) fn irqbalance(&self) -> Option<(bool, Vec<&str>)> {
        let section = self.irqbalance.iter().find(|s| s.kind == "irqbalance")?;
        Some((section.option("enabled") == Some("1"), section.list("banirq").collect()))
    }

    /// Zones that masquerade, each with true if it clamps the segment size (`mtu_fix`).
    pub(super) fn clamps(&self) -> Vec<(String, bool)> {
        let zones = self.firewall.iter().filter(|s| s.kind == "zone");
        zones
            .filter(|zone| zone.option("masq") == Some("1"))
            .map(|zone| {
                let name = zone.option("name").unwrap_or_default().to_owned();
                (name, zone.option("mtu_fix") == Some("1"))
            })
            .collect()
    }

    /// Zones in the file's order.
    pub(super) fn zones(&self) -> Vec<Zone> {
        let zones = self.firewall.iter().filter(|s| s.kind == "zone");
        zones
            .map(|zone| Zone {
                name: zone.option("name").unwrap_or_default().to_owned(),
                masquerades: zone.option("masq") == Some("1"),
                devices: zone
                    .list("network")
                    .flat_map(|network| self.devices(network))
                    .chain(zone.list("device").map(str::to_owned))
                    .collect(),
            })
            .collect()
    }

    /// Devices that a network stands for: for a dialled one the device that netifd makes of it.
    fn devices(&self, network: &str) -> Vec<String> {
        let interface = self.network.iter().find(|s| s.kind == "interface" && s.name == network);
        let Some(interface) = interface else { return Vec::new() };
        if let Some(proto @ ("pppoe" | "pppoa" | "ppp" | "pptp" | "l2tp")) =
            interface.option("proto")
        {
            return vec![format!("{proto}-{network}")];
        }
        if interface.option("proto") == Some("wireguard") {
            return vec![network.to_owned()];
        }
        if interface.option("type") == Some("bridge") {
            return vec![format!("br-{network}")];
        }
        under(interface).collect()
    }

    /// The device that a PPPoE device of netifd's is dialled over.
    pub(super) fn pppoe_over(&self, device: &str) -> Option<String> {
        let network = device.strip_prefix("pppoe-")?;
        let interface = self.network.iter().find(|s| s.kind == "interface" && s.name == network)?;
        under(interface).next()
    }
}

/// `device`, or `ifname` before OpenWrt 21.02. `@lan` stands for another network and is left out.
fn under(interface: &Section) -> impl Iterator<Item = String> + '_ {
    let named = interface.list("device").chain(interface.list("ifname"));
    named.filter(|d| !d.starts_with('@')).map(str::to_owned)
}
