//! Cost of a packet's stack stage on its way through this router, and the reason.

use super::costs::Costs;
use super::traffic::{Above, above};
use crate::model::snapshot::{NetDev, Snapshot};

/// Cost of a device's packets in the stack, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct StackCost {
    /// Cost in NATed stack stages.
    pub cost: f64,
    /// The parts that it is made of.
    pub words: String,
    /// True if the hardware forwards its established flows.
    pub hardware: bool,
}

/// Cost of forwarding a packet that comes in on that device, without its layers.
pub(super) fn base(
    snapshot: &Snapshot,
    device: &NetDev,
    above: &Above<'_>,
    costs: &Costs,
) -> StackCost {
    let path = &snapshot.path;
    let tables = path.nftables.iter().flat_map(|n| &n.flowtables);
    let bound: Vec<_> = tables
        .filter(|t| t.devices.iter().any(|d| *d == device.name || above.names.contains(d.as_str())))
        .collect();
    if bound.iter().any(|t| t.hardware) {
        let words = "flows offloaded to hardware 0.00".into();
        return StackCost { cost: 0.0, words, hardware: true };
    }
    let mut parts = Vec::new();
    let mut add = |cost: f64, word: &str| {
        parts.push(format!("{word} {cost:.2}"));
        cost
    };
    let nat = path.nftables.as_ref().map(|n| n.nat);
    let old_nat = path.iptables.iter().any(|t| t == "nat");
    let mut cost = if !bound.is_empty() {
        add(costs.flowtable, "software flowtable")
    } else if nat == Some(true) || old_nat {
        add(costs.nat, "NAT and routing")
    } else if nat == Some(false) && path.iptables.is_empty() {
        add(costs.route, "routing")
    } else {
        add(costs.nat, "routing with NAT (assumed: the rules can't be seen)")
    };
    let rules = path.nftables.as_ref().map_or(0, |n| n.forward_rules);
    if rules > 0 && bound.is_empty() {
        cost += add(costs.rule * f64::from(rules), &format!("{rules} rules"));
    }
    StackCost { cost, words: parts.join(" + "), hardware: false }
}

/// Cost of forwarding a packet that comes in on that device.
#[must_use]
pub fn stack_cost(snapshot: &Snapshot, device: &NetDev, costs: &Costs) -> StackCost {
    let above = above(snapshot, &device.name);
    let StackCost { mut cost, mut words, hardware } = base(snapshot, device, &above, costs);
    if hardware {
        return StackCost { cost, words, hardware };
    }
    let mut add = |more: f64, word: &str| {
        cost += more;
        words += &format!(" + {word} {more:.2}");
    };
    if above.layers > 0 {
        let plural = if above.layers == 1 { "" } else { "s" };
        let word = format!("{} VLAN or PPPoE layer{plural}", above.layers);
        add(costs.layer * f64::from(above.layers), &word);
    }
    if above.bridged {
        add(costs.bridge, "bridge");
    }
    StackCost { cost, words, hardware }
}

/// Reason why all of a device's packets come in on one of its queues, where that is known.
#[must_use]
pub(super) fn rss_defeated(snapshot: &Snapshot, device: &NetDev) -> Option<String> {
    if device.rx_queues.len() < 2 {
        return None;
    }
    if let Some(why) = rss_would_fail(snapshot, device) {
        return Some(why);
    }
    let table = device.settings.rss.as_ref().map(|r| r.table.as_slice())?;
    let first = table.first()?;
    table.iter().all(|q| q == first).then(|| format!("{}'s RSS table has one queue", device.name))
}

/// Reason why a device's hash puts all packets on one queue, however many there are.
#[must_use]
pub(super) fn rss_would_fail(snapshot: &Snapshot, device: &NetDev) -> Option<String> {
    let port = snapshot.netdevs.iter().find(|d| d.conduit.as_deref() == Some(device.name.as_str()));
    let seen = device.tag.as_ref().and_then(|t| t.hashed) == Some(true);
    if let Some(port) = port.filter(|_| !seen) {
        return Some(format!(
            "{} carries the switch's tags (port {}), which cards do not hash",
            device.name, port.name
        ));
    }
    if let Some(session) = above(snapshot, &device.name).pppoe {
        return Some(format!(
            "{session} is PPPoE on {}: most cards put all of it on one queue",
            device.name
        ));
    }
    None
}
