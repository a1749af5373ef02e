//! Tests: answers that the planner must give on machines that are known.

mod baselines;
mod boards;
mod factor;
mod flow;
pub(crate) mod oracle;
mod recipes;

use super::*;
use crate::model::capacity::{Capacity, Source as Learnt};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::snapshot::*;
use crate::model::units::{CpuId, IrqLine};

fn cpus(capacities: &[u32]) -> Vec<Cpu> {
    (0..)
        .map(CpuId)
        .zip(capacities)
        .map(|(id, &value)| Cpu {
            id,
            online: true,
            isolated: false,
            capacity: Capacity { value, source: Learnt::Kernel },
            max_khz: None,
            siblings: CpuSet::single(id),
            cluster: CpuSet::single(id),
            governor: None,
            ..Cpu::default()
        })
        .collect()
}

fn netdev(name: &str, bus: Bus, rx: u32) -> NetDev {
    NetDev {
        name: name.into(),
        ifindex: 2,
        kind: (bus == Bus::Virtual).then(|| "veth".to_owned()),
        driver: None,
        bus,
        sysfs: format!("/sys/devices/{name}").into(),
        operstate: "up".into(),
        speed: None,
        full_duplex: None,
        mtu: 1500,
        numa_node: None,
        rx_queues: (0..rx)
            .map(|index| RxQueue { index, rps: Some(CpuSet::empty()), flow_cnt: Some(0) })
            .collect(),
        tx_queues: vec![TxQueue { index: 0, xps: None }],
        lower: vec![],
        master: None,
        threaded: None,
        features: None,
        qdiscs: vec![],
        ..NetDev::default()
    }
}

fn irq(line: u32, device: &str, queue: u32, role: IrqRole, on: &str, all: &str) -> Irq {
    Irq {
        line: IrqLine(line),
        id: IrqId { device: device.into(), queue, role },
        action: device.into(),
        chip: "GICv3".into(),
        counts: vec![],
        affinity: Some(all.parse().unwrap()),
        effective: Some(on.parse().unwrap()),
        movable: Movable::Presumed,
        shared_with: vec![],
        learnt: "name".into(),
        ..Irq::default()
    }
}

fn machine(cpus: Vec<Cpu>, netdevs: Vec<NetDev>, irqs: Vec<Irq>) -> Snapshot {
    Snapshot { machine: Machine::default(), cpus, netdevs, irqs, ..Snapshot::default() }
}

pub(super) fn lab(n: usize) -> Snapshot {
    let devices = vec![netdev("lan0", Bus::Virtual, 1), netdev("wan0", Bus::Virtual, 1)];
    machine(cpus(&vec![1024; n]), devices, vec![])
}

fn r4s() -> Snapshot {
    let mut devices = vec![
        netdev("eth0", Bus::Platform("fe300000.ethernet".into()), 1),
        netdev("eth1", Bus::Pci("0000:01:00.0".into()), 1),
    ];
    let irqs = vec![
        irq(27, "eth0", 0, IrqRole::Combined, "0", "0-5"),
        irq(234, "eth1", 0, IrqRole::Combined, "0", "0-5"),
    ];
    devices.iter_mut().for_each(|d| d.speed = Some(1000));
    let mut cpus = cpus(&[400, 400, 400, 400, 1024, 1024]);
    for cpu in &mut cpus {
        let big = cpu.capacity.value == 1024;
        cpu.core_type = Some(if big { "Cortex-A72" } else { "Cortex-A53" }.into());
        cpu.max_khz = Some(if big { 1_800_000 } else { 1_416_000 });
    }
    let mut snapshot = machine(cpus, devices, irqs);
    // As boards/nanopi-r4s.toml has it: both links were full with everything on CPU0.
    let facts = BoardFacts { unit_ns: Some(700.0), ..BoardFacts::default() };
    snapshot.machine.board_facts = Some(facts);
    snapshot
}

fn setting(candidate: &Candidate, device: &str, irq: bool) -> CpuSet {
    let change = candidate.settings.iter().find(|c| {
        c.knob.device() == Some(device) && matches!(c.knob, Knob::IrqAffinity { .. }) == irq
    });
    match &change.unwrap().after {
        Value::Cpus(set) => set.clone(),
        other => panic!("{other:?}"),
    }
}

fn plan_of(snapshot: &Snapshot, traffic: &Traffic, profile: Profile) -> Planned {
    planned(snapshot, traffic, profile).unwrap()
}

fn predict(snapshot: &Snapshot, candidate: &Candidate) -> cost::Prediction {
    cost::predict(snapshot, candidate).unwrap().unwrap()
}

/// Traffic as `tune` measures it: each way alone, 16 streams of TCP.
fn measured() -> Traffic {
    use crate::model::measurement::Direction;
    let directions = vec![Direction::Down, Direction::Up];
    Traffic { adapting: true, directions, ..Traffic::default() }
}

#[test]
fn a_lab_has_the_lone_interrupt_case_as_an_explicit_mask() {
    let snapshot = lab(2);
    let found = candidates(&snapshot);
    let names: Vec<_> = found.list.iter().map(|c| c.name.as_str()).collect();
    let rules = [name::AS_FOUND, name::ONE_CPU, name::RPS_OTHERS, name::RPS_ALL];
    assert_eq!(names, rules);
    assert_eq!(setting(found.get(name::ONE_CPU).unwrap(), "wan0", false).to_string(), "0");
    assert_eq!(setting(found.get(name::RPS_OTHERS).unwrap(), "lan0", false).to_string(), "1");
    assert_eq!(setting(found.get(name::RPS_ALL).unwrap(), "lan0", false).to_string(), "0-1");
    // A CPU for each way would have nothing but acknowledgements when one is used: measured, 1.1 of
    // the lone interrupt's rate, and both CPUs for both ways 2.0.
    assert_eq!(found.folded, [(name::PLANNED, name::RPS_ALL.to_owned())]);
    assert_eq!(found.preferred, name::RPS_ALL);
    let model = cost::Model::new(&snapshot, &measured(), Profile::default());
    let load = |name: &str| model.predict(found.get(name).unwrap()).unwrap().unwrap().largest;
    assert!((load(name::ONE_CPU) / load(name::RPS_ALL) - 2.0).abs() < 0.01);
    assert!((load(name::ONE_CPU) / load(name::RPS_OTHERS) - 1.0).abs() < 0.01);
    // Asked for twice, a direction counts once.
    let twice = Traffic { directions: measured().directions.repeat(3), ..measured() };
    let again = cost::Model::new(&snapshot, &twice, Profile::default());
    let one = found.get(name::ONE_CPU).unwrap();
    assert_eq!(again.predict(one), model.predict(one));
    let mut split = found.get(name::RPS_ALL).unwrap().clone();
    for (change, cpu) in split.settings.iter_mut().zip([0, 1]) {
        change.after = Value::Cpus(CpuSet::single(CpuId(cpu)));
    }
    let apart = load(name::ONE_CPU) / model.predict(&split).unwrap().unwrap().largest;
    assert!((1.05..1.3).contains(&apart), "{apart}");
    let left_out: Vec<_> = found.left_out.iter().map(|(name, _)| *name).collect();
    let lines = [name::IRQ_SPREAD, name::IRQ_SPREAD_RPS];
    assert_eq!(
        left_out,
        [
            &lines[..],
            &[name::CHANNELS, name::FLOWTABLE, name::HARDWARE, name::OFFLOAD_PLANNED],
            &[name::OPENWRT_1, name::OPENWRT_2, name::IRQBALANCE],
        ]
        .concat()
    );
}

#[test]
fn one_cpu_leaves_nothing_to_spread() {
    let found = candidates(&lab(1));
    let names: Vec<_> = found.list.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, [name::AS_FOUND, name::ONE_CPU]);
}

#[test]
fn r4s_interrupts_go_to_the_two_big_cpus() {
    let found = candidates(&r4s());
    let spread = found.get(name::IRQ_SPREAD).unwrap();
    assert_eq!(setting(spread, "eth0", true).to_string(), "4");
    assert_eq!(setting(spread, "eth1", true).to_string(), "5");
    assert!(setting(spread, "eth0", false).is_empty(), "RPS off");
    let predict = |name| predict(&r4s(), found.get(name).unwrap()).largest;
    assert!(predict(name::IRQ_SPREAD) < predict(name::AS_FOUND));
    assert_eq!(found.preferred, name::AS_FOUND, "the links are full as it is");
}

#[test]
fn r2s_interrupts_leave_cpu0_alone() {
    let devices = vec![
        netdev("eth0", Bus::Platform("ff540000.ethernet".into()), 1),
        netdev("eth1", Bus::Usb("xhci-hcd.0.auto".into()), 1),
    ];
    let irqs = vec![
        irq(29, "eth0", 0, IrqRole::Combined, "0", "0-3"),
        irq(167, "eth1", 0, IrqRole::Controller, "0", "0-3"),
    ];
    let found = candidates(&machine(cpus(&[1024; 4]), devices, irqs));
    let spread = found.get(name::IRQ_SPREAD).unwrap();
    let (a, b) = (setting(spread, "eth0", true), setting(spread, "eth1", true));
    assert_ne!(a, b);
    assert!(!a.contains(CpuId(0)) && !b.contains(CpuId(0)), "{a} {b}");
}

#[test]
fn a_queue_per_cpu_needs_no_rps() {
    let devices = vec![netdev("eth0", Bus::Pci("0000:03:00.0".into()), 8)];
    let irqs = (0..8).map(|q| irq(40 + q, "eth0", q, IrqRole::Combined, "0", "0-7")).collect();
    let found = candidates(&machine(cpus(&[1024; 8]), devices, irqs));
    assert!(found.get(name::RPS_ALL).is_none() && found.get(name::RPS_OTHERS).is_none());
    let spread = found.get(name::IRQ_SPREAD).unwrap();
    let used: CpuSet = (0..8)
        .flat_map(|q| {
            let knob = Knob::IrqAffinity {
                irq: IrqId { device: "eth0".into(), queue: q, role: IrqRole::Combined },
            };
            let change = spread.settings.iter().find(|c| c.knob == knob).unwrap();
            let Value::Cpus(set) = &change.after else { panic!() };
            assert_eq!(set.len(), 1);
            set.iter().collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(used.to_string(), "0-7", "one line per CPU");
    assert_eq!(found.preferred, name::IRQ_SPREAD);
}

#[test]
fn an_immovable_line_stays_and_isolated_cpus_are_left_alone() {
    let mut snapshot = r4s();
    snapshot.irqs[1].movable = Movable::Fixed;
    snapshot.cpus[3].isolated = true;
    snapshot.cpus[2].online = false;
    let found = candidates(&snapshot);
    for candidate in found.list.iter().filter(|c| c.name != name::AS_FOUND) {
        for change in &candidate.settings {
            if let Knob::IrqAffinity { irq } = &change.knob {
                assert_ne!(irq.device, "eth1", "{}", candidate.name);
            }
            if let Value::Cpus(set) = &change.after
                && matches!(change.knob, Knob::RpsCpus { .. })
            {
                assert!(!set.contains(CpuId(2)) && !set.contains(CpuId(3)), "{change:?}");
            }
        }
    }
    assert!(found.left_out.iter().any(|(n, why)| *n == name::IRQ_SPREAD && why.contains("one")));
}

#[test]
fn nothing_up_means_nothing_to_do() {
    let found = candidates(&machine(cpus(&[1024; 4]), vec![], vec![]));
    assert_eq!(found.list.len(), 1);
    assert_eq!(found.preferred, name::AS_FOUND);
    assert_eq!(found.list[0].settings, []);
}

#[test]
fn an_uneven_hash_is_expected() {
    let flows = Flows::Count(16);
    assert!((flows.largest_share(1) - 1.0).abs() < 1e-12);
    // (1/2)(1 + sqrt(1/16)) = 0.625
    assert!((flows.largest_share(2) - 0.625).abs() < 1e-12);
    assert!(flows.largest_share(64) <= 1.0);
    assert!((Flows::Count(1).largest_share(4) - 1.0).abs() < 1e-12, "one flow does not split");
    assert!((Flows::Many.largest_share(4) - 0.25).abs() < 1e-12);
}
