//! Flow offload: which devices, what it would bring, and when it is not for this router.

use crate::model::knob::{Knob, Value};
use crate::model::path::{Flowtable, Nftables};
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{NetDev, Snapshot};
use crate::model::stack::Layer;

use super::name;
use super::pose::SHAPERS;
use super::way::{Taken, taken};
use crate::model::order::InOrder;

/// The router as it would be with the flow offload that a candidate asks for; `None` where it asks
/// for none, or for what is there already.
pub(super) fn offloaded(snapshot: &Snapshot, candidate: &Candidate) -> Option<Snapshot> {
    let change = candidate.changes().find(|c| c.knob == Knob::FlowOffload)?;
    let Value::Word(words) = &change.after else { return None };
    let mode = words.split(' ').next()?;
    let mut other = snapshot.clone();
    let rules = other.path.nftables.get_or_insert_with(Nftables::default);
    rules.flowtables.clear();
    if mode != "off" {
        // By the firewall, which takes all that it has zones for.
        let devices = snapshot.netdevs.iter().map(|d| d.name.clone()).collect();
        rules.flowtables.push(Flowtable {
            name: String::new(),
            devices,
            hardware: mode == "hardware",
        });
    }
    if by_firewall(snapshot) {
        for (option, on) in
            [("flow_offloading", mode != "off"), ("flow_offloading_hw", mode == "hardware")]
        {
            other.path.openwrt.insert(option.into(), u8::from(on).to_string());
        }
    }
    Some(other)
}

/// True if OpenWrt's firewall is there to be asked: then it knows the devices. It is the machine's,
/// and knows nothing of a lab, where nothing is hardware.
fn by_firewall(snapshot: &Snapshot) -> bool {
    snapshot.path.firewall && snapshot.netdevs.iter().any(NetDev::is_hardware)
}

/// The value for a mode.
///
/// # Errors
/// An error with the reason if the mode has no value here.
pub(super) fn wanted(snapshot: &Snapshot, mode: &str) -> Result<Value, String> {
    if mode == "off" || by_firewall(snapshot) {
        return Ok(Value::Word(mode.to_owned()));
    }
    let devices = devices(snapshot, mode == "hardware")?;
    Ok(Value::Word(format!("{mode} {}", devices.join(" "))))
}

/// Mode that is in force, as far as discovery knows.
pub(super) fn found(snapshot: &Snapshot) -> Value {
    let on = |name: &str| snapshot.path.openwrt.get(name).is_some_and(|v| v == "1");
    let mode = match (on("flow_offloading"), on("flow_offloading_hw")) {
        (true, true) => "hardware",
        (true, false) => "software",
        (false, _) => "off",
    };
    Value::Word(mode.into())
}

/// Devices that the flowtable has to take packets from.
///
/// In software those that packets are routed over, that is, which bear the addresses: the PPPoE
/// session rather than the port below, the bridge rather than its ports. From kernel 5.13 on the
/// flowtable looks through VLAN, PPPoE, bridge and DSA down to the port
/// (net/netfilter/nft_flow_offload.c, `nft_dev_forward_path`) and takes packets there, but only
/// where the port is in its list; else it stays with the routed device, as older kernels do. What
/// it saves by looking through is little, and what it costs where drivers and layers do not play
/// along is much: with the port in the list, PPPoE made 200 Mbit/s instead of 560 (openwrt#14365), and
/// did not bind at all (openwrt#10224). OpenWrt's firewall lists the routed devices since 24.10.
///
/// For hardware offload the list holds ports, those that can (`hw-tc-offload`).
///
/// # Errors
/// An error with the reason if there are fewer than two devices.
fn devices(snapshot: &Snapshot, hardware: bool) -> Result<Vec<String>, String> {
    let routed = routed(snapshot);
    let mut found: Vec<String> = if hardware {
        let able = |name: &str| {
            let features = snapshot.netdev(name).and_then(|d| d.features.as_ref());
            features.and_then(|f| f.get("hw-tc-offload")).is_some_and(|f| f.active)
        };
        let ports = routed.iter().flat_map(|top| ports(top));
        ports.filter(|name| able(name)).map(str::to_owned).collect()
    } else {
        routed.iter().map(|top| top.device.clone()).collect()
    };
    found.order_by(Ord::cmp);
    found.dedup();
    match (found.len(), hardware) {
        (2.., _) => Ok(found),
        (_, true) => Err("fewer than two ports have hw-tc-offload on".into()),
        (_, false) => Err("fewer than two devices are known that packets are routed over".into()),
    }
}

/// The tops of the stack between which packets are forwarded.
fn routed(snapshot: &Snapshot) -> Vec<&Layer> {
    // What carries another has an address of its own by chance (IPv6 gives every device one), or
    // to reach a modem; the port under PPPoE is just the one that must not be in the list.
    let mut carried: Vec<&str> = Vec::new();
    let mut todo: Vec<&Layer> = snapshot.stack.iter().flat_map(|top| &top.below).collect();
    while let Some(layer) = todo.pop() {
        carried.push(&layer.device);
        todo.extend(&layer.below);
    }
    let tops = || {
        let own = |l: &&Layer| l.device != "lo" && !carried.contains(&l.device.as_str());
        snapshot.stack.iter().filter(own)
    };
    // Sides are not known in a lab.
    let sided: Vec<&Layer> = tops().filter(|l| l.role.is_some()).collect();
    if sided.len() >= 2 { sided } else { tops().collect() }
}

/// Ports below a device; a DSA user port is one, its conduit is not.
fn ports(layer: &Layer) -> Vec<&str> {
    if layer.below.is_empty() || layer.kind.starts_with("dsa") {
        return vec![&layer.device];
    }
    layer.below.iter().flat_map(ports).collect()
}

/// The change that takes flows back from hardware which is known to lose them on this kernel, and
/// the router as it is then: its owner wants flow offload, and gets more of it in software.
pub(super) fn mended(snapshot: &Snapshot) -> Option<(Change, Snapshot)> {
    let before = found(snapshot);
    let Taken::Lost(why) = taken(snapshot, true) else { return None };
    if before != Value::Word("hardware".into()) || !by_firewall(snapshot) {
        return None;
    }
    let change = Change {
        knob: Knob::FlowOffload,
        before,
        after: wanted(snapshot, "software").ok()?,
        reason: format!("Linux {}: {} ({})", snapshot.machine.kernel, why.what, why.source),
    };
    let alone = Candidate { settings: vec![change.clone()], ..Candidate::default() };
    let then = offloaded(snapshot, &alone)?;
    matches!(taken(&then, false), Taken::InSoftware).then_some((change, then))
}

/// Flow offload as a candidate, `mode` being `software` or `hardware`. By name only, and never a
/// part of the plan: rules then see a connection's first packets only, which its owner has to want.
///
/// # Errors
/// An error with the reason if flow offload is not offered here.
pub(super) fn candidate(snapshot: &Snapshot, mode: &str) -> Result<Candidate, String> {
    let path = &snapshot.path;
    let hardware = mode == "hardware";
    match (path.ipv4, path.ipv6) {
        (Some(true), _) | (_, Some(true)) => {}
        (None, None) => return Err("it is not known whether this machine forwards".into()),
        _ => return Err("this machine forwards nothing (net.ipv4.ip_forward)".into()),
    }
    let before = found(snapshot);
    let on = |table: &&Flowtable| table.hardware || !hardware;
    if let Some(table) = path.nftables.iter().flat_map(|n| &n.flowtables).find(on) {
        return Err(format!("flowtable {} is there already", table.name));
    }
    if before == Value::Word("hardware".into())
        || (before != Value::Word("off".into()) && !hardware)
    {
        return Err("it is on in the firewall's configuration".into());
    }
    if hardware && !(snapshot.machine.has_packet_engine() && by_firewall(snapshot)) {
        return Err("no packet engine is known here that takes routed flows".into());
    }
    let shaped = snapshot.netdevs.iter().find_map(|device| {
        let shaper = device.qdiscs.iter().find(|q| SHAPERS.contains(&q.kind.as_str()))?;
        Some(format!(
            "{} shapes {}: SQM and flow offload do not go together",
            shaper.kind, device.name
        ))
    });
    if let Some(why) = shaped {
        return Err(why);
    }
    if !path.can_offload {
        return Err("no module nf_flow_table was found (CONFIG_NF_FLOW_TABLE)".into());
    }
    let made = Candidate {
        name: if hardware { name::HARDWARE } else { name::FLOWTABLE }.into(),
        title: if hardware {
            "established connections past the CPUs"
        } else {
            "established connections past netfilter and routing"
        }
        .into(),
        reason: "less work for each packet, wherever it is done; rules, accounting and marks then \
                 see a connection's first packets only"
            .into(),
        settings: vec![Change {
            knob: Knob::FlowOffload,
            before,
            after: wanted(snapshot, mode)?,
            reason: "from a connection's reply on its packets are looked up once, by \
                     address and port; check that they bind: linerate show path"
                .into(),
        }],
    };
    if let Some(then) = offloaded(snapshot, &made)
        && let Taken::Lost(why) = taken(&then, hardware)
    {
        let kernel = &snapshot.machine.kernel;
        return Err(format!("Linux {kernel}: {} ({})", why.what, why.source));
    }
    Ok(made)
}
