//! Answers of the planner for routers that people have tuned by hand, and the rules it never
//! breaks.

use proptest::prelude::*;

use super::*;
use crate::model::measurement::Direction;
use crate::model::path::{Flowtable, IptablesTable, Nftables};
use crate::model::plan::NotMade;
use crate::model::stack::{Layer, Role, Side};

fn plan(snapshot: &Snapshot) -> Planned {
    plan_of(snapshot, &Traffic::default(), Profile::Router)
}

fn pci(name: &str) -> NetDev {
    netdev(name, Bus::Pci(format!("0000:0{}:00.0", &name[3..])), 1)
}

fn not_made<'a>(planned: &'a Planned, setting: &str) -> &'a str {
    let found: Vec<&NotMade> = planned.not_made.iter().filter(|n| n.setting == setting).collect();
    assert_eq!(found.len(), 1, "{setting}: {:?}", planned.not_made);
    &found[0].reason
}

fn reason<'a>(planned: &'a Planned, device: &str, irq: bool) -> &'a str {
    let change = planned.candidate.settings.iter().find(|c| {
        c.knob.device() == Some(device) && matches!(c.knob, Knob::IrqAffinity { .. }) == irq
    });
    &change.unwrap().reason
}

/// Every one of a tree's layers from the top down to one card.
fn layers(side: Side, names: &[(&str, &str)]) -> Layer {
    let (first, rest) = names.split_first().unwrap();
    let below = if rest.is_empty() { vec![] } else { vec![layers(side, rest)] };
    let role = Some(Role { side, reason: "a test".into() });
    let by = "a test".into();
    Layer { device: first.0.into(), kind: first.1.into(), role, by, below }
}

#[test]
fn r4s_each_port_on_a_big_cpu_and_no_rps() {
    let snapshot = r4s();
    let made = plan(&snapshot);
    assert_eq!(setting(&made.candidate, "eth0", true).to_string(), "4");
    assert_eq!(setting(&made.candidate, "eth1", true).to_string(), "5");
    assert!(setting(&made.candidate, "eth0", false).is_empty());
    assert!(setting(&made.candidate, "eth1", false).is_empty());
    let why = reason(&made, "eth0", false);
    assert!(why.contains("the links are full before any CPU"), "{why}");
    assert!(reason(&made, "eth0", true).contains("capacity 1024"), "figures, not adjectives");
    assert_eq!(not_made(&made, "xps-cpus"), "one TX queue on each device: no effect");
    assert!(not_made(&made, "rps-flow-cnt").contains("nothing for forwarded packets"));
    for expected in ["coalesce", "governor", "flow-offload", "tcp"] {
        assert!(!not_made(&made, expected).is_empty());
    }
    // Interrupt, stack and completion, and a quarter of that for acknowledgements.
    let loads = predict(&snapshot, &made.candidate).loads;
    assert!((loads[&Direction::Both] - 1.5 * 1.25).abs() < 1e-6, "{loads:?}");
    // Nobody said which of them is the WAN: one way alone is predicted of neither direction.
    assert_eq!(loads.len(), 1);
    // What the greedy rule of thumb found is the same, and said to be; and nothing is gained by it.
    let found = candidates(&snapshot);
    assert_eq!(found.folded, [(name::PLANNED, name::IRQ_SPREAD.to_owned())]);
    assert_eq!(found.preferred, name::AS_FOUND);
    let as_found = found.get(name::AS_FOUND).unwrap();
    let line = headline(&snapshot, &Request::default(), &found, as_found).unwrap();
    assert!(line.starts_with("expected gain: none: the links are full"), "{line}");
    // On faster links a big CPU for each line is worth a lot, and the small ones take no part.
    let mut faster = snapshot;
    faster.netdevs.iter_mut().for_each(|d| d.speed = Some(10_000));
    let found = candidates(&faster);
    let chosen = found.get(&found.preferred).unwrap();
    let line = headline(&faster, &Request::default(), &found, chosen).unwrap();
    assert!(line.starts_with("expected gain: about "), "{line}");
}

#[test]
fn cm4_plans_around_the_line_that_can_not_move() {
    let devices = vec![netdev("eth0", Bus::Platform("fd580000.ethernet".into()), 1), pci("eth1")];
    let mut irqs = vec![
        irq(41, "eth0", 0, IrqRole::Rx, "0", "0-3"),
        irq(42, "eth0", 0, IrqRole::Tx, "0", "0-3"),
        irq(57, "eth1", 0, IrqRole::Combined, "0", "0-3"),
    ];
    irqs[2].movable = Movable::Fixed;
    let snapshot = machine(cpus(&[1024; 4]), devices, irqs);
    let made = plan(&snapshot);
    let moved = setting(&made.candidate, "eth1", false);
    assert!(!moved.is_empty() && !moved.contains(CpuId(0)), "{moved}");
    for change in &made.candidate.settings {
        if let (Knob::IrqAffinity { irq }, Value::Cpus(set)) = (&change.knob, &change.after) {
            assert_eq!(irq.device, "eth0", "the other stays");
            let receives = irq.role.receives();
            assert!(set.len() == 1 && !(receives && set.contains(CpuId(0))), "{set}");
        }
    }
    assert!(not_made(&made, "irq-affinity").contains("eth1: line 57 can't be moved"));
    assert!(not_made(&made, "coalesce").contains("14 % more CPU"));
}

fn r76s() -> Snapshot {
    let mut devices = vec![pci("eth0"), pci("eth1")];
    for name in ["eth0.835", "pppoe-wan", "br-lan"] {
        let mut device = netdev(name, Bus::Virtual, 1);
        device.kind = None;
        device.rx_queues[0].rps = Some("0-7".parse().unwrap());
        devices.push(device);
    }
    let irqs = vec![
        irq(100, "eth0", 0, IrqRole::Combined, "0", "0-7"),
        irq(101, "eth1", 0, IrqRole::Combined, "0", "0-7"),
    ];
    let mut cpus = cpus(&[400, 400, 400, 400, 1024, 1024, 1024, 1024]);
    for cpu in &mut cpus {
        cpu.cluster = if cpu.id.0 < 4 { "0-3" } else { "4-7" }.parse().unwrap();
    }
    let mut snapshot = machine(cpus, devices, irqs);
    let wan = [("pppoe-wan", "pppoe"), ("eth0.835", "vlan 835"), ("eth0", "nic")];
    snapshot.stack =
        vec![layers(Side::Wan, &wan), layers(Side::Lan, &[("br-lan", "bridge"), ("eth1", "nic")])];
    let table = Flowtable {
        name: "ft".into(),
        devices: vec!["eth0".into(), "eth1".into()],
        hardware: false,
    };
    snapshot.path.nftables =
        Some(Nftables { nat: true, flowtables: vec![table], ..Nftables::default() });
    snapshot
}

#[test]
fn r76s_works_on_the_big_cpus_and_steers_once() {
    let snapshot = r76s();
    let made = plan(&snapshot);
    let lines: CpuSet = ["eth0", "eth1"]
        .iter()
        .flat_map(|d| setting(&made.candidate, d, true).iter().collect::<Vec<_>>())
        .collect();
    let big: CpuSet = "4-7".parse().unwrap();
    assert!(lines.len() == 2 && lines.is_subset(&big), "{lines}");
    let (wan, lan) =
        (setting(&made.candidate, "eth0", false), setting(&made.candidate, "eth1", false));
    assert!(!wan.is_empty() && wan.intersection(&lines).is_empty(), "{wan}");
    assert!(!lan.is_empty() && lan.intersection(&lines).is_empty(), "{lan}");
    for device in ["eth0.835", "pppoe-wan", "br-lan"] {
        assert!(
            setting(&made.candidate, device, false).is_empty(),
            "{device} is not steered again"
        );
        assert!(reason(&made, device, false).contains("second hand-off only costs"));
    }
    let cost = |name: &str| stack_cost(&snapshot, snapshot.netdev(name).unwrap(), &Costs::DEFAULT);
    assert!((cost("eth0").cost - 0.65).abs() < 1e-9, "{}", cost("eth0").words);
    assert!((cost("eth1").cost - 0.45).abs() < 1e-9, "{}", cost("eth1").words);
    assert!(not_made(&made, "flow-offload").contains("software offload is on already"));
}

/// Thousands of rules for new connections below the one that accepts established ones cost nothing:
/// taken for met, they would make the hand-off look cheap.
#[test]
fn rules_cost_as_far_as_packets_of_established_connections_meet_them() {
    let irqs = vec![irq(20, "eth0", 0, IrqRole::Combined, "0", "0-1")];
    let mut snapshot = machine(cpus(&[1024; 2]), vec![pci("eth0")], irqs);
    let mut cost = |nft: Option<u32>, old: Option<u32>| {
        let path = &mut snapshot.path;
        path.nftables = Some(Nftables {
            forward_rules: 3000,
            established_rules: nft,
            nat: true,
            ..Nftables::default()
        });
        path.iptables_rules = vec![IptablesTable {
            table: "filter".into(),
            forward_rules: 500,
            established_rules: old,
            ..IptablesTable::default()
        }];
        stack_cost(&snapshot, &snapshot.netdevs[0], &Costs::DEFAULT).cost
    };
    let [all, most, few] =
        [(None, None), (Some(3000), Some(0)), (Some(2), Some(3))].map(|(n, o)| cost(n, o));
    let rule = Costs::DEFAULT.rule;
    assert!(
        (all - most - 500.0 * rule).abs() < 1e-9,
        "the old tables' rules cost as much: {all} {most}"
    );
    assert!((few - (Costs::DEFAULT.nat + 5.0 * rule)).abs() < 1e-9, "{few}");
}

/// Packets of a veth have no interrupt: the work that their masks place was left out of the bound,
/// and a plan said that nothing could be more than 73099999900 % better.
#[test]
fn the_bound_of_a_lab_counts_the_work_that_its_masks_place() {
    let made = plan(&lab(2));
    let (largest, bound) = (made.model.largest, made.model.bound);
    assert!(bound > largest / 3.0 && bound <= largest, "{bound} {largest}");
    let words = |bound: f64| planned::gap(0.731, bound);
    assert!(words(0.5).contains("more than 46 % better"), "{}", words(0.5));
    assert!(words(0.0).contains("is not known"), "{}", words(0.0));
    assert!(words(0.731).contains("no placement does better"), "{}", words(0.731));
}

#[test]
fn fg50e_is_told_what_was_measured_on_it() {
    let devices = vec![pci("eth0"), pci("eth1")];
    let irqs = vec![
        irq(20, "eth0", 0, IrqRole::Combined, "0", "0-1"),
        irq(21, "eth1", 0, IrqRole::Combined, "0", "0-1"),
    ];
    let mut snapshot = machine(cpus(&[1024; 2]), devices, irqs);
    let note =
        "best found by experiment: software flow offload and irqbalance on, packet steering off";
    snapshot.machine.board_facts = Some(BoardFacts {
        notes: vec![note.into()],
        source: "field report FG50E".into(),
        steering_hurts: true,
        ..BoardFacts::default()
    });
    let made = plan(&snapshot);
    assert_ne!(setting(&made.candidate, "eth0", true), setting(&made.candidate, "eth1", true));
    assert!(setting(&made.candidate, "eth0", false).is_empty());
    assert!(reason(&made, "eth0", false).contains("field report FG50E"));
    assert!(not_made(&made, "flow-offload").contains("Try it first here"));
    assert!(candidates(&snapshot).get(name::RPS_OTHERS).is_some(), "a candidate all the same");
}

#[test]
fn r2s_lines_stay_off_cpu0() {
    let devices = vec![
        netdev("eth0", Bus::Platform("ff540000.ethernet".into()), 1),
        netdev("eth1", Bus::Usb("xhci-hcd.0.auto".into()), 1),
    ];
    let irqs = vec![
        irq(29, "eth0", 0, IrqRole::Combined, "0", "0-3"),
        irq(167, "eth1", 0, IrqRole::Controller, "0", "0-3"),
    ];
    let made = plan(&machine(cpus(&[1024; 4]), devices, irqs));
    let (a, b) = (setting(&made.candidate, "eth0", true), setting(&made.candidate, "eth1", true));
    assert!(a != b && !a.contains(CpuId(0)) && !b.contains(CpuId(0)), "{a} {b}");
}

#[test]
fn mt7621_has_its_stack_on_all_cpus_but_the_pollers() {
    let mut cpus = cpus(&[1024; 4]);
    for cpu in &mut cpus {
        cpu.siblings = if cpu.id.0 < 2 { "0-1" } else { "2-3" }.parse().unwrap();
        cpu.cluster = "0-3".parse().unwrap();
    }
    let devices = vec![netdev("eth0", Bus::Platform("1e100000.ethernet".into()), 1)];
    let irqs = vec![irq(21, "eth0", 0, IrqRole::Combined, "0", "0-3")];
    let mut snapshot = machine(cpus, devices, irqs);
    snapshot.stack = vec![
        layers(Side::Wan, &[("wan", "dsa port"), ("eth0", "nic")]),
        layers(Side::Lan, &[("br-lan", "bridge"), ("lan1", "dsa port"), ("eth0", "nic")]),
    ];
    let made = plan(&snapshot);
    let line = setting(&made.candidate, "eth0", true).first().unwrap();
    let stack = setting(&made.candidate, "eth0", false);
    // All four threads did 1.6 to 2.4 times what one target did (openwrt#19369).
    let others = snapshot.usable_cpus().difference(&CpuSet::single(line));
    assert_eq!(stack, others, "{line}");
}

#[test]
fn a_server_card_gets_a_cpu_of_its_node_for_each_queue_and_no_rps() {
    let mut cpus = cpus(&[1024; 16]);
    for cpu in &mut cpus {
        cpu.node = Some(cpu.id.0 / 8);
        cpu.cluster = if cpu.id.0 < 8 { "0-7" } else { "8-15" }.parse().unwrap();
    }
    let mut card = netdev("eth0", Bus::Pci("0000:03:00.0".into()), 8);
    card.numa_node = Some(1);
    card.tx_queues =
        (0..8).map(|index| TxQueue { index, xps: Some(CpuSet::single(CpuId(index))) }).collect();
    let mut other = netdev("eth1", Bus::Pci("0000:04:00.0".into()), 8);
    other.numa_node = Some(0);
    let irqs = (0..16).map(|i| {
        irq(40 + i, if i < 8 { "eth0" } else { "eth1" }, i % 8, IrqRole::Combined, "0", "0-15")
    });
    let made = plan(&machine(cpus, vec![card, other], irqs.collect()));
    let mut used = [CpuSet::empty(), CpuSet::empty()];
    for change in &made.candidate.settings {
        let Value::Cpus(set) = &change.after else { panic!("{change:?}") };
        match &change.knob {
            Knob::IrqAffinity { irq } => {
                set.iter().for_each(|c| used[usize::from(irq.device == "eth1")].insert(c))
            }
            _ => assert!(set.is_empty(), "{change:?}"),
        }
    }
    assert_eq!((used[0].to_string().as_str(), used[1].to_string().as_str()), ("8-15", "0-7"));
    assert!(not_made(&made, "xps-cpus").contains("driver's own masks stay"));
}

#[test]
fn pppoe_on_one_queue_of_many_is_steered_all_the_same() {
    let many = |pppoe: bool| {
        let irqs = (0..4).map(|q| irq(40 + q, "eth0", q, IrqRole::Combined, "0", "0-3")).collect();
        let card = netdev("eth0", Bus::Pci("0000:03:00.0".into()), 4);
        let mut snapshot = machine(cpus(&[1024; 4]), vec![card], irqs);
        if pppoe {
            snapshot.stack = vec![layers(Side::Wan, &[("ppp0", "pppoe"), ("eth0", "nic")])];
        }
        plan(&snapshot)
    };
    assert!(setting(&many(false).candidate, "eth0", false).is_empty());
    assert!(!setting(&many(true).candidate, "eth0", false).is_empty(), "RSS is defeated");
}

#[test]
fn hardware_offload_leaves_no_stack_stage_to_steer() {
    let mut snapshot = r76s();
    snapshot.path.nftables.as_mut().unwrap().flowtables[0].hardware = true;
    let made = plan(&snapshot);
    assert!(setting(&made.candidate, "eth0", false).is_empty());
    assert!(reason(&made, "eth0", false).contains("offloaded to hardware"));
}

#[test]
fn threads_that_poll_are_not_taken_for_interrupts() {
    let mut snapshot = r4s();
    snapshot.netdevs[0].threaded = Some(true);
    let made = plan(&snapshot);
    assert!(made.candidate.settings.iter().all(|c| c.knob.device() != Some("eth0")), "{made:?}");
    assert!(not_made(&made, "threaded-napi").contains("eth0: on"));
}

#[test]
fn threads_that_poll_are_placed_and_their_interrupts_are_left_alone() {
    let mut snapshot = r4s();
    for (device, pid) in snapshot.netdevs.iter_mut().zip([70, 71]) {
        device.threaded = Some(true);
        device.napi_threads = vec![pid];
        device.napi_thread_cpus = [(pid, "0-5".parse().unwrap())].into();
    }
    let threads = |snapshot: &Snapshot| -> Vec<(String, String)> {
        let made = plan(snapshot);
        let places = made.candidate.settings.iter().filter_map(|c| match (&c.knob, &c.after) {
            (Knob::NapiThread { device, thread: 0 }, Value::Cpus(set)) => {
                assert!(c.reason.starts_with("polls in this thread"), "{}", c.reason);
                Some((device.clone(), set.to_string()))
            }
            (knob, _) => {
                assert!(!matches!(knob, Knob::IrqAffinity { .. }), "{knob}");
                None
            }
        });
        places.collect()
    };
    // Each on a big CPU, as their interrupts would be.
    let want = [("eth0".to_owned(), "4".to_owned()), ("eth1".to_owned(), "5".to_owned())];
    assert_eq!(threads(&snapshot), want);
    let found = candidates(&snapshot);
    assert_eq!(found.preferred, name::AS_FOUND, "the links are full wherever they poll");
    // Newer kernels report which thread is whose.
    let napi = |id, ifindex, irq, pid| crate::model::nic::Napi {
        id,
        ifindex,
        irq: Some(irq),
        pid: Some(pid),
        ..Default::default()
    };
    snapshot.netdevs[0].napis = vec![napi(9, 2, 27, 70)];
    snapshot.netdevs[1].napis = vec![napi(8, 2, 234, 71)];
    assert_eq!(threads(&snapshot), want);
    // Pinned there already, there is nothing to do.
    snapshot.netdevs[0].napi_thread_cpus = [(70, "4".parse().unwrap())].into();
    snapshot.netdevs[1].napi_thread_cpus = [(71, "5".parse().unwrap())].into();
    assert_eq!(candidates(&snapshot).preferred, name::AS_FOUND);
    // Two threads for one line: which of them polls for it is not guessed.
    snapshot.netdevs[0].napis.clear();
    snapshot.netdevs[0].napi_threads = vec![70, 72];
    assert_eq!(threads(&snapshot).len(), 1);
    assert!(not_made(&plan(&snapshot), "threaded-napi").contains("eth0: on"));
}

#[test]
fn busy_cpus_and_measured_traffic_change_the_plan() {
    let devices = vec![pci("eth0"), pci("eth1")];
    let irqs = vec![
        irq(20, "eth0", 0, IrqRole::Combined, "0", "0-3"),
        irq(21, "eth1", 0, IrqRole::Combined, "0", "0-3"),
    ];
    let mut snapshot = machine(cpus(&[1024; 4]), devices, irqs);
    for device in &mut snapshot.netdevs {
        device.rx_queues[0].rps = Some(CpuSet::empty());
    }
    let mut traffic = Traffic::default();
    traffic.busy.insert("2".into(), 0.9);
    let made = plan_of(&snapshot, &traffic, Profile::Router);
    for change in made.candidate.changes() {
        if let Value::Cpus(set) = &change.after {
            assert!(!set.contains(CpuId(2)), "{change:?}");
        }
    }
    traffic.busy.clear();
    traffic.packets = [("eth0".to_owned(), 80_000.0), ("eth1".to_owned(), 0.0)].into();
    let made = plan_of(&snapshot, &traffic, Profile::Router);
    assert!(setting(&made.candidate, "eth1", false).is_empty(), "nothing comes in there");
    assert!(traffic.check().is_ok());
    traffic.packets.insert("eth1".into(), -1.0);
    assert!(traffic.check().unwrap_err().contains("eth1"));
}

#[test]
fn profiles_set_what_is_theirs() {
    let mut snapshot = r4s();
    snapshot.path.sysctls.insert("net.core.rps_sock_flow_entries".into(), 0);
    let governor = Governor {
        policy: "policy0".into(),
        current: "schedutil".into(),
        available: vec!["schedutil".into(), "performance".into()],
    };
    snapshot.cpus.iter_mut().for_each(|c| c.governor = Some(governor.clone()));
    let mut tunnel = netdev("wg0", Bus::Virtual, 1);
    tunnel.kind = Some("wireguard".into());
    tunnel.threaded = Some(false);
    snapshot.netdevs.push(tunnel);
    let of = |profile| plan_of(&snapshot, &Traffic::default(), profile);
    let sets = |made: &Planned, wanted: fn(&Knob) -> bool| {
        made.candidate.changes().any(|c| wanted(&c.knob))
    };
    let rfs = |k: &Knob| matches!(k, Knob::RpsFlowCnt { .. });
    let performance = |k: &Knob| matches!(k, Knob::Governor { .. });
    let threads = |k: &Knob| matches!(k, Knob::ThreadedNapi { .. });
    let router = of(Profile::Router);
    assert!(!sets(&router, rfs) && !sets(&router, performance) && !sets(&router, threads));
    let endpoint = of(Profile::Endpoint);
    assert!(sets(&endpoint, rfs) && !endpoint.not_made.iter().any(|n| n.setting == "rps-flow-cnt"));
    snapshot.netdevs[0].settings.coalesce = Some([("rx-usecs".to_owned(), 50)].into());
    let latency = plan_of(&snapshot, &Traffic::default(), Profile::LowLatency);
    assert!(sets(&latency, performance));
    let usecs = latency.candidate.changes().find(|c| matches!(c.knob, Knob::Coalesce { .. }));
    assert_eq!(usecs.unwrap().after, Value::Count(0));
    let narrow = |c: &crate::model::plan::Change| match &c.after {
        Value::Cpus(set) => set.len() < 2,
        _ => true,
    };
    assert!(latency.candidate.settings.iter().all(narrow), "no masks of several");
    let vpn = plan_of(&snapshot, &Traffic::default(), Profile::Vpn);
    assert!(sets(&vpn, threads));
    assert!(vpn.model.largest > router.model.largest, "encryption takes its part of every CPU");
}

/// Settings that are invalid whatever the router: each of these would take one down or lie.
fn never(snapshot: &Snapshot, made: &Planned) {
    let usable = snapshot.usable_cpus();
    for change in made.candidate.changes() {
        assert_eq!(change.knob.check(&change.after), Ok(()), "{change:?}");
        assert!(!change.reason.is_empty());
        if let Value::Cpus(set) = &change.after {
            assert!(set.is_subset(&usable), "{change:?}");
        }
        if let Knob::IrqAffinity { irq } = &change.knob {
            let line = snapshot.irqs.iter().find(|i| i.id == *irq).unwrap();
            assert_eq!(line.movable, Movable::Presumed, "{change:?}");
        }
    }
    assert!(made.model.bound <= made.model.largest);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_order_in_which_devices_are_found_does_not_matter(
        sizes in prop::collection::vec(prop::sample::select(vec![400u32, 1024]), 1..7),
        shape in prop::collection::vec((1..4u32, any::<bool>(), 0..2u32), 1..4),
        isolated in any::<bool>(),
        turn in 0..12usize,
    ) {
        let all = format!("0-{}", sizes.len() - 1);
        let mut irqs = Vec::new();
        let devices: Vec<NetDev> = shape.iter().enumerate().map(|(i, (queues, fixed, at))| {
            let name = format!("eth{i}");
            for queue in 0..*queues {
                let at = (at % sizes.len() as u32).to_string();
                let mut line = irq(50 + 10 * i as u32 + queue, &name, queue, IrqRole::Combined, &at, &all);
                if *fixed {
                    line.movable = Movable::Fixed;
                }
                irqs.push(line);
            }
            netdev(&name, Bus::Pci(format!("0000:0{i}:00.0")), *queues)
        }).collect();
        let mut cpus = cpus(&sizes);
        let last = cpus.len() - 1;
        cpus[last].isolated = isolated && last > 0;
        let one = machine(cpus, devices, irqs);
        let mut other = one.clone();
        other.netdevs.reverse();
        let count = other.irqs.len();
        other.irqs.rotate_left(turn % count);
        let (a, b) = (plan(&one), plan(&other));
        never(&one, &a);
        prop_assert_eq!(a.candidate, b.candidate);
        prop_assert_eq!(a.model, b.model);
    }
}
