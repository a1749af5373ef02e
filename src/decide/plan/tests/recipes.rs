//! The field reports' configurations.

use super::*;
use crate::model::plan::NotMade;

/// A router on which every setting is there, and off.
fn off(knob: &Knob) -> Option<Value> {
    use crate::model::knob::Shape;
    Some(match knob.shape()? {
        Shape::Cpus => Value::Cpus(CpuSet::single(CpuId(0))),
        Shape::Count => Value::Count(0),
        Shape::Switch => Value::Switch(false),
        _ => Value::Word("none".into()),
    })
}

fn why<'a>(not_made: &'a [NotMade], setting: &str) -> &'a str {
    &not_made.iter().find(|n| n.setting == setting).unwrap_or_else(|| panic!("{not_made:?}")).reason
}

#[test]
fn every_recipe_file_can_be_read() {
    let names: Vec<&str> = recipes().iter().map(|r| r.name).collect();
    assert_eq!(names, ["cm4", "fg50e", "r4s", "r76s", "wireguard"]);
    assert!(recipe("r5s", &r4s(), &off).unwrap_err().contains("no such recipe"));
}

#[test]
fn the_r4s_masks_are_those_of_the_report() {
    let (made, not_made) = recipe("r4s", &r4s(), &off).unwrap();
    assert_eq!(not_made, []);
    let masks: Vec<String> = made.settings.iter().map(|c| c.after.to_kernel()).collect();
    assert_eq!(masks, ["10", "10", "20", "20"], "in hexadecimal, as the report writes them");
}

#[test]
fn what_can_not_matter_to_forwarded_packets_is_marked() {
    let (made, not_made) = recipe("r76s", &r4s(), &off).unwrap();
    let of = |part: &str| made.settings.iter().find(|c| c.knob.to_string().contains(part)).unwrap();
    for part in
        ["rps_sock_flow_entries", "tcp_congestion", "tcp_fastopen", "port_range", "RFS entries"]
    {
        assert!(of(part).reason.starts_with("no effect on forwarded packets"), "{part}");
    }
    for part in ["RPS of eth0", "netdev_max_backlog", "default_qdisc"] {
        assert!(!of(part).reason.contains("no effect"), "{part}");
    }
    assert_eq!(of("RPS of eth1").after.to_string(), "CPUs 0-5");
    assert!(why(&not_made, "xps-cpus").contains("one TX queue"));
    assert!(why(&not_made, "rps-cpus").contains("no device here is pppoe-*"));
    assert!(why(&not_made, "governor").contains("no frequency governor"));
}

#[test]
fn flow_offload_and_packet_steering_are_set_where_a_recipe_has_them() {
    let mut snapshot = r4s();
    let layer = |device: &str| crate::model::stack::Layer {
        device: device.into(),
        kind: "nic".into(),
        role: None,
        by: String::new(),
        below: vec![],
    };
    snapshot.stack = vec![layer("eth0"), layer("eth1")];
    let (r76s, _) = recipe("r76s", &snapshot, &off).unwrap();
    let of = |made: &Candidate, knob: &Knob| {
        made.settings.iter().find(|c| c.knob == *knob).map(|c| c.after.to_string())
    };
    assert_eq!(of(&r76s, &Knob::FlowOffload).unwrap(), "software eth0 eth1");
    // Without devices it is said so, not set by halves.
    let (r76s, not_made) = recipe("r76s", &r4s(), &off).unwrap();
    assert_eq!(of(&r76s, &Knob::FlowOffload), None);
    assert!(why(&not_made, "flow-offload").contains("fewer than two devices"));
    // On OpenWrt the firewall knows the devices.
    snapshot.path.firewall = true;
    let (fg50e, not_made) = recipe("fg50e", &snapshot, &off).unwrap();
    assert_eq!(of(&fg50e, &Knob::FlowOffload).unwrap(), "software");
    assert_eq!(of(&fg50e, &Knob::PacketSteering).unwrap(), "0");
    assert_eq!(of(&fg50e, &Knob::Service { name: "irqbalance".into() }).unwrap(), "on");
    assert_eq!(not_made, []);
}

#[test]
fn a_recipe_for_another_board_says_what_is_missing() {
    let why = recipe("cm4", &r4s(), &off).unwrap_err();
    assert!(why.contains("no device here is driver:bcmgenet"), "{why}");
    let why = recipe("wireguard", &r4s(), &off).unwrap_err();
    assert!(why.contains("another kernel"), "{why}");
    let nothing = |_: &Knob| None;
    let mut fixed = r4s();
    fixed.irqs.iter_mut().for_each(|i| i.affinity = None);
    fixed.netdevs.iter_mut().for_each(|d| d.rx_queues[0].rps = None);
    let why = recipe("r4s", &fixed, &nothing).unwrap_err();
    assert!(why.contains("no such setting on this machine"), "{why}");
}

#[test]
fn the_cm4_placement_is_the_reports() {
    let devices = vec![
        netdev("end0", Bus::Platform("fd580000.ethernet".into()), 1),
        netdev("eth1", Bus::Pci("0000:01:00.0".into()), 1),
    ];
    let irqs = vec![
        irq(41, "end0", 0, IrqRole::Rx, "0", "0-3"),
        irq(42, "end0", 0, IrqRole::Tx, "0", "0-3"),
    ];
    let mut snapshot = machine(cpus(&[1024; 4]), devices, irqs);
    snapshot.netdevs[0].driver = Some("bcmgenet".into());
    snapshot.netdevs[1].driver = Some("r8169".into());
    let (made, _) = recipe("cm4", &snapshot, &off).unwrap();
    let of = |part: &str| made.settings.iter().find(|c| c.knob.to_string().contains(part)).unwrap();
    assert_eq!(of("end0 queue 0 rx").after.to_string(), "CPU 1");
    assert_eq!(of("end0 queue 0 tx").after.to_string(), "CPU 2");
    assert_eq!(of("RPS of eth1").after.to_string(), "CPU 3");
    assert_eq!(of("rx-usecs of end0").after, Value::Count(100));
    assert_eq!(of("rx-frames of end0").after, Value::Count(10));
}
