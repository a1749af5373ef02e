//! Flow offload, and what is taken over so that a plan stays.

use super::*;
use crate::decide::plan::flow;
use crate::model::feature::{FeatureState, Qdisc};
use crate::model::path::{Flowtable, Nftables, Service, ServiceFound};
use crate::model::stack::{Layer, Role, Side};

fn layer(device: &str, kind: &str, below: Vec<Layer>) -> Layer {
    Layer { device: device.into(), kind: kind.into(), role: None, by: String::new(), below }
}

fn on(side: Side, layer: Layer) -> Layer {
    Layer { role: Some(Role { side, reason: "test".into() }), ..layer }
}

/// PPPoE over a VLAN, a bridge of DSA ports; the port under PPPoE has an address too.
fn router() -> Snapshot {
    let mut snapshot = r4s();
    let nic = |name: &str| layer(name, "nic dwmac", vec![]);
    let vlan = layer("eth0.7", "vlan 7", vec![nic("eth0")]);
    let port = |name: &str| layer(name, "dsa port", vec![nic("eth1")]);
    snapshot.stack = vec![
        on(Side::Wan, layer("pppoe-wan", "pppoe", vec![vlan])),
        on(Side::Lan, layer("br-lan", "bridge", vec![port("lan1"), port("lan2")])),
        on(Side::Lan, nic("eth0")),
        layer("wg0", "wireguard", vec![]),
    ];
    snapshot.path.ipv4 = Some(true);
    snapshot.path.can_offload = true;
    snapshot
}

fn words(value: Result<Value, String>) -> String {
    value.map_or_else(|why| why, |value| value.to_string())
}

#[test]
fn software_offload_is_on_the_devices_that_packets_are_routed_over() {
    let snapshot = router();
    // Never on the port under PPPoE (openwrt#14365), whose address is there to reach the modem.
    assert_eq!(words(flow::wanted(&snapshot, "software")), "software br-lan pppoe-wan");
    assert_eq!(words(flow::wanted(&snapshot, "off")), "off");
    assert!(flow::wanted(&r4s(), "software").unwrap_err().contains("fewer than two"));
}

#[test]
fn hardware_offload_is_on_the_ports_that_can() {
    let mut snapshot = router();
    assert!(flow::wanted(&snapshot, "hardware").unwrap_err().contains("hw-tc-offload"));
    for name in ["eth0", "eth1", "lan1", "lan2"] {
        let mut port = netdev(name, Bus::Platform(name.into()), 1);
        let able = FeatureState { active: true, changeable: true };
        port.features = Some([("hw-tc-offload".to_owned(), able)].into());
        snapshot.netdevs.retain(|d| d.name != name);
        snapshot.netdevs.push(port);
    }
    // A switch's user ports, not the conduit behind them.
    assert_eq!(words(flow::wanted(&snapshot, "hardware")), "hardware eth0 lan1 lan2");
}

#[test]
fn a_plan_is_bound_to_the_devices_that_its_flowtable_names() {
    let mut snapshot = router();
    snapshot.netdevs.push(netdev("pppoe-wan", Bus::Virtual, 1));
    let candidate = flow::candidate(&snapshot, "software").unwrap();
    let plan = plan_for(&snapshot, candidate);
    let names: Vec<&str> = plan.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["pppoe-wan"], "those of them that are here");
}

#[test]
fn openwrts_firewall_knows_the_devices_and_a_lab_has_none() {
    let mut snapshot = router();
    snapshot.path.firewall = true;
    assert_eq!(words(flow::wanted(&snapshot, "software")), "software");
    let mut lab = lab(2);
    lab.path.firewall = true;
    lab.stack = vec![layer("wan0", "veth", vec![]), layer("lan0", "veth", vec![])];
    assert_eq!(words(flow::wanted(&lab, "software")), "software lan0 wan0");
}

#[test]
fn it_is_offered_by_name_and_never_a_part_of_the_plan() {
    let found = candidates(&router());
    let offered = found.get(name::FLOWTABLE).unwrap();
    let change = offered.changes().next().unwrap();
    assert_eq!((&change.knob, offered.changes().count()), (&Knob::FlowOffload, 1));
    assert!(found.list.iter().all(|c| !c.settings.iter().any(|s| s.knob == Knob::FlowOffload)));
    let not_made = &found.planned.as_ref().unwrap().not_made;
    let why = &not_made.iter().find(|n| n.setting == "flow-offload").unwrap().reason;
    assert!(why.contains("linerate plan --candidate flowtable"), "{why}");
    let load = |name| predict(&router(), found.get(name).unwrap()).largest;
    assert!(load(name::FLOWTABLE) < load(name::AS_FOUND) * 0.7, "it takes most of the stack away");
}

#[test]
fn it_is_not_offered_where_it_would_do_harm_or_nothing() {
    let refused = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = router();
        change(&mut snapshot);
        flow::candidate(&snapshot, "software").expect_err("offered")
    };
    assert!(refused(&|s| s.path.ipv4 = Some(false)).contains("forwards nothing"));
    assert!(refused(&|s| s.path.ipv4 = None).contains("not known"));
    assert!(refused(&|s| s.path.can_offload = false).contains("nf_flow_table"));
    let cake = Qdisc {
        device: "eth0".into(),
        kind: "cake".into(),
        queue: None,
        handle: None,
        options: None,
    };
    assert!(refused(&|s| s.netdevs[0].qdiscs.push(cake.clone())).contains("cake shapes eth0"));
    let fast = Flowtable { name: "fw4 ft".into(), ..Flowtable::default() };
    let rules = Nftables { flowtables: vec![fast], ..Nftables::default() };
    assert!(refused(&|s| s.path.nftables = Some(rules.clone())).contains("fw4 ft"));
    let option = ("flow_offloading".to_owned(), "1".to_owned());
    assert!(refused(&|s| s.path.openwrt.extend([option.clone()])).contains("configuration"));
}

fn service(name: &str, found: ServiceFound) -> Service {
    Service { name: name.into(), effect: "test".into(), found, ..Service::default() }
}

fn taken<'a>(found: &'a Candidates, of: &str, knob: &Knob) -> Option<&'a Value> {
    let change = found.get(of).unwrap().changes().find(|c| c.knob == *knob)?;
    assert!(!change.reason.is_empty());
    Some(&change.after)
}

#[test]
fn irqbalance_is_stopped_where_it_runs_and_interrupts_are_moved_and_only_there() {
    let knob = Knob::Service { name: "irqbalance".into() };
    let mut snapshot = r4s();
    assert_eq!(taken(&candidates(&snapshot), name::IRQ_SPREAD, &knob), None);
    snapshot.services = vec![service("irqbalance", ServiceFound::Running)];
    let found = candidates(&snapshot);
    assert_eq!(taken(&found, name::IRQ_SPREAD, &knob), Some(&Value::Switch(false)));
    assert_eq!(taken(&found, name::RPS_ALL, &knob), None, "it moves no interrupt");
    assert_eq!(taken(&found, name::AS_FOUND, &knob), None);
    let notes = &found.planned.as_ref().unwrap().not_made;
    assert!(!notes.iter().any(|n| n.setting == "service"), "it is not left running: {notes:?}");
    snapshot.services = vec![service("irqbalance", ServiceFound::Configured)];
    assert_eq!(taken(&candidates(&snapshot), name::IRQ_SPREAD, &knob), None, "it does not run");
}

#[test]
fn openwrts_packet_steering_is_owned_where_a_plan_steers_and_only_there() {
    let steering = service("OpenWrt packet steering", ServiceFound::Configured);
    let mut snapshot = r4s();
    snapshot.services = vec![steering.clone()];
    let found = candidates(&snapshot);
    let owned = found.get(name::RPS_ALL).unwrap();
    let change = owned.changes().find(|c| c.knob == Knob::PacketSteering).unwrap();
    assert_eq!((change.before.to_string(), change.after.to_string()), ("unset".into(), "0".into()));
    assert_eq!(taken(&found, name::AS_FOUND, &Knob::PacketSteering), None);
    // A lab's devices it never touches, and a lab can't reach it.
    let mut lab = lab(2);
    lab.services = vec![steering];
    assert_eq!(taken(&candidates(&lab), name::RPS_ALL, &Knob::PacketSteering), None);
}
