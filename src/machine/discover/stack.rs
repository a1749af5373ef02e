//! Layers from each device that bears an IP address down to the ports, and the side of each.

use super::net_file;
use super::openwrt::OpenWrt;
use super::processes::{Process, arguments};
use crate::machine::host::HostRead;
use crate::machine::parse::{pppoe, route};
use crate::model::order::InOrder;
use crate::model::path::ForwardPath;
use crate::model::snapshot::NetDev;
use crate::model::stack::{Layer, Role, Side};

/// Limit on the layers that are followed. No real stack is deeper; devices that stand on each other
/// in a circle end here.
const DEEPEST: usize = 12;

/// Fills in lower devices that the kernel's `lower_*` links do not show: DSA conduits and PPPoE
/// sessions.
pub(super) fn link(
    host: &dyn HostRead,
    netdevs: &mut [NetDev],
    processes: &[Process],
    openwrt: &OpenWrt,
) {
    let names: Vec<(u32, String)> = netdevs.iter().map(|d| (d.ifindex, d.name.clone())).collect();
    let named = |name: &str| names.iter().any(|(_, n)| n == name);
    let carriers = pppoe::devices(&net_file(host, "pppoe"));
    let dialled = dialled(host, processes);
    let sessions = netdevs.iter().filter(|d| d.kind.as_deref() == Some("ppp")).count();
    for device in netdevs {
        match device.kind.as_deref() {
            Some("dsa") => {
                let of = |index| names.iter().find(|(i, _)| *i == index).map(|(_, n)| n.clone());
                let lower = device.lower.first().cloned();
                device.conduit = device.link.link.and_then(of).or(lower);
            }
            Some("ppp") => {
                let by_daemon =
                    || dialled.iter().find(|(ppp, _)| *ppp == device.name).map(|(_, d)| d.clone());
                // The kernel's list does not name the ppp device; alone it can be no other.
                let alone = || match carriers.as_slice() {
                    [one] if sessions == 1 => Some(one.clone()),
                    _ => None,
                };
                let over = openwrt.pppoe_over(&device.name).or_else(by_daemon).or_else(alone);
                device.pppoe_over = over.filter(|d| named(d));
            }
            _ => {}
        }
    }
}

/// Pairs of ppp device and the device under it, by pppd's arguments:
/// `... nic-eth0.7 ... ifname pppoe-wan`.
fn dialled(host: &dyn HostRead, processes: &[Process]) -> Vec<(String, String)> {
    let daemons = processes.iter().filter(|p| p.name == "pppd");
    daemons
        .filter_map(|daemon| {
            let words = arguments(host, daemon.pid);
            let after = |key: &str| {
                words.iter().position(|w| w == key).and_then(|at| words.get(at + 1)).cloned()
            };
            let carrier = words.iter().find_map(|w| w.strip_prefix("nic-")).map(str::to_owned);
            let unit = || after("unit").map(|n| format!("ppp{n}"));
            Some((after("ifname").or_else(unit)?, carrier?))
        })
        .collect()
}

/// The trees, WAN first, then LAN, each by name.
pub(super) fn discover(
    host: &dyn HostRead,
    netdevs: &[NetDev],
    openwrt: &OpenWrt,
    path: &ForwardPath,
) -> Vec<Layer> {
    let bears = |d: &NetDev| d.link.ipv4 > 0 || d.link.ipv6 > 0;
    let mut tops: Vec<&NetDev> = netdevs.iter().filter(|d| bears(d)).collect();
    if tops.is_empty() {
        // No addresses are known: take the devices that nothing else stands on.
        let carried: Vec<&str> =
            netdevs.iter().flat_map(|d| below(d, netdevs).0).map(|d| d.name.as_str()).collect();
        tops = netdevs.iter().filter(|d| !carried.contains(&d.name.as_str())).collect();
    }
    let roles = Roles::read(host, openwrt, path);
    let mut trees: Vec<Layer> = tops
        .into_iter()
        .map(|d| Layer { role: roles.of(d), ..layer(d, netdevs, DEEPEST) })
        .collect();
    let order = |layer: &Layer| match layer.role.as_ref().map(|r| r.side) {
        Some(Side::Wan) => 0,
        Some(Side::Lan) => 1,
        None => 2,
    };
    trees.order_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.device.cmp(&b.device)));
    trees
}

fn layer(device: &NetDev, all: &[NetDev], deeper: usize) -> Layer {
    let (under, by) = if deeper == 0 { (Vec::new(), "") } else { below(device, all) };
    Layer {
        device: device.name.clone(),
        kind: kind(device),
        role: None,
        by: by.to_owned(),
        below: under.into_iter().map(|d| layer(d, all, deeper - 1)).collect(),
    }
}

/// Devices that a device stands on, and the source of that knowledge.
fn below<'a>(device: &NetDev, all: &'a [NetDev]) -> (Vec<&'a NetDev>, &'static str) {
    let find = |name: &str| all.iter().find(|d| d.name == name && d.name != device.name);
    if let Some(over) = device.pppoe_over.as_deref().and_then(find) {
        return (vec![over], "PPPoE session");
    }
    if let Some(conduit) = device.conduit.as_deref().and_then(find) {
        return (vec![conduit], "DSA conduit");
    }
    let lower: Vec<&NetDev> = device.lower.iter().filter_map(|name| find(name)).collect();
    if !lower.is_empty() {
        return (lower, "lower link");
    }
    // Bridges and bonds of old kernels link upwards only.
    let ports: Vec<&NetDev> =
        all.iter().filter(|d| d.master.as_deref() == Some(device.name.as_str())).collect();
    if !ports.is_empty() {
        return (ports, "master link");
    }
    // A veth's iflink is its other end, a tunnel's the device that its packets leave by.
    let stands = matches!(device.kind.as_deref(), Some("vlan" | "macvlan" | "ipvlan" | "macsec"));
    let link = device.link.link.filter(|_| stands);
    let under = link.and_then(|l| all.iter().find(|d| d.ifindex == l && d.name != device.name));
    (under.into_iter().collect(), "iflink")
}

fn kind(device: &NetDev) -> String {
    let words = match device.kind.as_deref() {
        Some("vlan") => match device.link.vlan {
            Some(id) => format!("vlan {id}"),
            None => "vlan".into(),
        },
        Some("ppp") if device.pppoe_over.is_some() => "pppoe".into(),
        Some("dsa") => "dsa port".into(),
        Some("wlan") => "wifi".into(),
        Some(kind) => kind.to_owned(),
        None if device.is_hardware() => "nic".into(),
        None => "virtual".into(),
    };
    match &device.driver {
        Some(driver) if device.is_hardware() && device.kind.as_deref() != Some("dsa") => {
            format!("{words} {driver}")
        }
        _ => words,
    }
}

/// Devices that rules masquerade towards, each with the packet filter that holds the rule.
fn masqueraded(path: &ForwardPath) -> Vec<(String, &'static str)> {
    let nftables = path.nftables.iter().flat_map(|n| &n.masquerade_devices);
    let iptables = path.iptables_rules.iter().flat_map(|t| &t.masquerade_devices);
    let named = |by| move |name: &String| (name.clone(), by);
    nftables.map(named("nftables")).chain(iptables.map(named("iptables"))).collect()
}

/// True if a rule's device is this one: `ppp+` of iptables and `ppp*` of nftables match all names
/// that begin so.
fn names(rule: &str, device: &str) -> bool {
    let begin = rule.strip_suffix(['+', '*']);
    begin.map_or(rule == device, |begin| device.starts_with(begin))
}

/// Evidence that distinguishes the sides.
struct Roles {
    routes: Vec<String>,
    zones: Vec<super::openwrt::Zone>,
    masqueraded: Vec<(String, &'static str)>,
}

impl Roles {
    fn read(host: &dyn HostRead, openwrt: &OpenWrt, path: &ForwardPath) -> Self {
        let v4 = route::defaults(&net_file(host, "route"));
        let v6 = route::defaults_v6(&net_file(host, "ipv6_route"));
        Self {
            routes: v4.into_iter().chain(v6).map(|r| r.device).collect(),
            zones: openwrt.zones(),
            masqueraded: masqueraded(path),
        }
    }

    fn of(&self, device: &NetDev) -> Option<Role> {
        let has = |list: &[String]| list.contains(&device.name);
        let role = |side, reason: String| Some(Role { side, reason });
        if let Some(zone) = self.zones.iter().find(|z| has(&z.devices)) {
            if zone.masquerades || zone.name == "wan" {
                return role(Side::Wan, format!("firewall zone {}", zone.name));
            }
            if zone.name == "lan" {
                return role(Side::Lan, "firewall zone lan".into());
            }
        }
        if has(&self.routes) {
            return role(Side::Wan, "default route".into());
        }
        if let Some((_, by)) = self.masqueraded.iter().find(|(name, _)| names(name, &device.name)) {
            return role(Side::Wan, format!("{by} masquerades what leaves by it"));
        }
        // Tunnels and the machine's own little networks are neither.
        let inner = matches!(device.kind.as_deref(), Some("wireguard" | "tun" | "veth" | "dummy"));
        let known = !self.routes.is_empty() || !self.masqueraded.is_empty();
        if known && !inner {
            return role(Side::Lan, "bears an address; the default route is elsewhere".into());
        }
        None
    }
}
