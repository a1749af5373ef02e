//! Machines as people posted them in reports and as other projects test with them: whose each line is,
//! and what is seen first.

use linerate::decide::diagnose::{self, Diagnosis, Subject};
use linerate::decide::plan::Intake;
use linerate::machine::discover;
use linerate::machine::host::{HostRead, Tree};
use linerate::model::finding::Severity;
use linerate::model::snapshot::{IrqRole, Movable};
use linerate::model::units::CpuId;

use super::{irq, is, look, set, unpack};

/// What `check` says of a machine.
fn told(host: &dyn HostRead) -> Diagnosis {
    let snapshot = discover::snapshot(host);
    let condition = discover::condition(host, &snapshot);
    diagnose::diagnose(&Subject::new(&snapshot, &condition, None), &[])
}

#[test]
fn more_drivers_lines_mean_what_their_sources_say() {
    let s = look("vectors-2-drivers");
    // Google's card under its former driver's name, which forgot to put the device's into it.
    is(irq(&s, 101), "ens4", 1, IrqRole::Tx);
    is(irq(&s, 102), "ens4", 0, IrqRole::Rx);
    is(irq(&s, 104), "ens4", 0, IrqRole::Control);
    // StarFive's own dwmac: the second is for waking up.
    is(irq(&s, 110), "end0", 0, IrqRole::Combined);
    is(irq(&s, 111), "end0", 0, IrqRole::Control);
    // Each CPU's own on Armada 385, and on no other controller.
    assert_eq!(irq(&s, 115).movable, Movable::Fixed);
    // Two ports on one function do not take each other's, and InfiniBand's carry no packets.
    is(irq(&s, 120), "eth2", 0, IrqRole::Control);
    is(irq(&s, 123), "eth2", 1, IrqRole::Combined);
    is(irq(&s, 125), "eth3", 1, IrqRole::Combined);
    assert_eq!(irq(&s, 124).shared_with, [""; 0]);
    // The first queue is with the first CPU's portal, whatever that is called; both ports share it.
    is(irq(&s, 130), "dp0", 0, IrqRole::Combined);
    is(irq(&s, 131), "dp0", 1, IrqRole::Combined);
    let intake = Intake::of(&s);
    let line = |device: &str, queue: u32| {
        let mut sources = intake.sources.iter();
        let found = sources.find(|q| q.device.name == device && q.queue.index == queue);
        found.and_then(|q| q.irq).map(|irq| irq.line.0)
    };
    assert_eq!([line("dp0", 1), line("dp1", 0), line("dp1", 1)], [Some(131), Some(130), Some(131)]);
    // Realtek's driver asks for more vectors than it has queues.
    is(irq(&s, 140), "rt0", 0, IrqRole::Combined);
    assert_eq!(irq(&s, 142).id.role, IrqRole::Control);
}

#[test]
fn lines_that_bear_only_their_drivers_name_are_found_by_order() {
    let s = look("axp-2-mvneta-4.1");
    is(irq(&s, 26), "eth0", 0, IrqRole::Combined);
    is(irq(&s, 27), "eth1", 0, IrqRole::Combined);
    assert_eq!(irq(&s, 27).learnt, "name of the driver, order");
}

#[test]
fn an_early_raspberry_pi_5_cannot_move_its_own_port_and_a_later_one_can() {
    let s = look("bcm2712-4-macb-6.6");
    assert_eq!(irq(&s, 106).movable, Movable::Fixed, "{:?}", irq(&s, 106));
    // Its effective affinity is empty: it is where it was counted.
    assert_eq!(irq(&s, 106).lands_on(), Some(&set("0")));
    assert_eq!(irq(&s, 171).movable, Movable::Presumed);
    let scene = unpack("bcm2712-4-macb-6.6");
    std::fs::write(scene.0.join("proc/sys/kernel/osrelease"), "6.6.31+rpt-rpi-2712\n").unwrap();
    let later = discover::snapshot(&Tree::open(&scene.0).unwrap());
    assert_eq!(irq(&later, 106).movable, Movable::Presumed);
    assert_eq!(irq(&later, 106).effective, None, "an empty effective affinity says nothing");
}

#[test]
fn network_processors_queues_and_xens_are_lines_of_their_ports() {
    let s = look("ipq8074-4-nss");
    is(irq(&s, 47), "eth0", 0, IrqRole::Rx);
    is(irq(&s, 50), "eth0", 3, IrqRole::Rx);
    assert_eq!(irq(&s, 47).shared_with, ["eth1"]);
    assert_eq!(irq(&s, 52).id.role, IrqRole::Control);
    let s = look("xen-4-vif");
    is(irq(&s, 70), "eth0", 0, IrqRole::Tx);
    is(irq(&s, 77), "eth0", 3, IrqRole::Rx);
    is(irq(&s, 79), "eth1", 0, IrqRole::Rx);
}

#[test]
fn old_cards_of_one_machine_keep_their_queues_apart() {
    let s = look("xeon-12-bnx2+mlx4-3.10");
    assert_eq!(irq(&s, 60).id.role, IrqRole::Control, "InfiniBand's");
    is(irq(&s, 64), "eth2", 0, IrqRole::Combined);
    is(irq(&s, 71), "eth2", 7, IrqRole::Combined);
    is(irq(&s, 93), "eth1", 7, IrqRole::Combined);
}

#[test]
fn queues_that_took_nothing_do_not_hide_that_one_cpu_takes_all() {
    for name in ["k1-8-emac+r8125", "quad-4-mlx5-3.10"] {
        let scene = unpack(name);
        let said = told(&Tree::open(&scene.0).unwrap());
        let first = said.findings.first().unwrap_or_else(|| panic!("{name}: nothing found"));
        assert_eq!(first.rule, "lone-cpu", "{name}: {first:?}");
        assert!(first.title.contains("CPU0"), "{}", first.title);
    }
    // The card's lines are behind a controller that can't move them; the vectors of no queue are no
    // evidence.
    let s = look("k1-8-emac+r8125");
    assert_eq!(irq(&s, 38).movable, Movable::Fixed);
    assert_eq!(irq(&s, 38).counts.first(), Some(&(CpuId(0), 16_876_872)));
    is(irq(&s, 54), "eth2", 0, IrqRole::Tx);
    assert_eq!(irq(&s, 45).id.role, IrqRole::Control);
}

#[test]
fn two_queues_on_one_cpu_beside_an_idle_one_are_named() {
    let scene = unpack("odroid-4-atlantic");
    let said = told(&Tree::open(&scene.0).unwrap());
    let first = said.findings.first().expect("nothing found");
    assert_eq!(first.rule, "uneven-load", "{first:?}");
    assert_eq!(first.title, "2 queues of enp1s0 arrive on CPU3 while CPU 2 could help");
}

#[test]
fn well_tuned_machines_raise_no_alarm() {
    for name in ["well-tuned-4-r5s", "well-tuned-4-bpi-r4", "well-tuned-8-virtio"] {
        let scene = unpack(name);
        let said = told(&Tree::open(&scene.0).unwrap());
        let alarms: Vec<_> =
            said.findings.iter().filter(|f| f.severity >= Severity::Warning).collect();
        assert!(alarms.is_empty(), "{name}: {alarms:#?}");
        // What hardware forwards needs no steering.
        let steer = said.findings.iter().any(|f| f.rule == "lone-cpu");
        assert!(!steer, "{name}: {:#?}", said.findings);
    }
}

#[test]
fn a_slow_link_is_named_before_what_would_not_show_on_it() {
    let scene = unpack("quad-4-mlx5-3.10");
    let port = scene.0.join("sys/devices/pci0000:00/0000:00:19.0/net/eth0/speed");
    std::fs::write(port, "100\n").unwrap();
    let said = told(&Tree::open(&scene.0).unwrap());
    let rules: Vec<&str> = said.findings.iter().map(|f| f.rule.as_str()).collect();
    assert_eq!(rules.get(..2), Some(&["slow-link", "lone-cpu"][..]), "{rules:?}");
}
