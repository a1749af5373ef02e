//! Cost of a packet's stack stage on its way through this router, and the reason.

use super::costs::Costs;
use super::traffic::{Above, above};
use crate::decide::kernel::regression::{self, Regression};
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

/// The way that established flows take where a flowtable is on.
pub(super) enum Taken {
    /// They pass the CPUs by.
    InHardware,
    /// They pass netfilter and routing by.
    InSoftware,
    /// They go the long way, for the reason that is given.
    Lost(Regression<'static>),
}

/// Finds the way of flows with a flowtable in hardware or in software: what is asked for is not
/// always what happens.
pub(super) fn taken(snapshot: &Snapshot, hardware: bool) -> Taken {
    let path = &snapshot.path;
    let counted: Vec<u64> = path.engines.iter().filter_map(|e| e.bound).collect();
    let in_engine = counted.iter().any(|flows| *flows > 0)
        || path.bound.as_ref().is_some_and(|bound| bound.hardware > 0);
    if hardware && in_engine {
        return Taken::InHardware;
    }
    if hardware && !counted.is_empty() && path.bound.as_ref().is_some_and(|b| b.bound > 0) {
        return Taken::InSoftware;
    }
    let known = regression::met_by(snapshot).unwrap_or_default().into_iter();
    let loses = |r: &Regression<'_>| {
        let mut words = r.only.split_whitespace();
        words.any(|w| w == regression::OVER_PPPOE || (hardware && w == regression::HARDWARE))
    };
    match ({ known }.find(loses), hardware) {
        (Some(regression), _) => Taken::Lost(regression),
        (None, true) => Taken::InHardware,
        (None, false) => Taken::InSoftware,
    }
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
    let taken = (!bound.is_empty()).then(|| taken(snapshot, bound.iter().any(|t| t.hardware)));
    if matches!(taken, Some(Taken::InHardware)) {
        let words = "flows offloaded to hardware 0.00".into();
        return StackCost { cost: 0.0, words, hardware: true };
    }
    let in_software = matches!(taken, Some(Taken::InSoftware));
    let mut parts = Vec::new();
    let mut add = |cost: f64, word: &str| {
        parts.push(format!("{word} {cost:.2}"));
        cost
    };
    let nat = path.nftables.as_ref().map(|n| n.nat);
    let old_nat = path.iptables.iter().any(|t| t == "nat");
    let mut cost = if in_software {
        add(costs.flowtable, "software flowtable")
    } else if nat == Some(true) || old_nat {
        add(costs.nat, "NAT and routing")
    } else if nat == Some(false) && path.iptables.is_empty() {
        add(costs.route, "routing")
    } else {
        add(costs.nat, "routing with NAT (assumed: the rules can't be seen)")
    };
    let (new, old) = path.rules_met();
    let rules = new.saturating_add(old);
    if rules > 0 && !in_software {
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
