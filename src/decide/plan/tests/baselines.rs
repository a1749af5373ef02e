//! Other tools' placements, worked out by hand from their sources.

use super::*;
use crate::model::plan::Change;

/// RPS mask of each device's queues, as text.
fn masks(candidate: &Candidate) -> Vec<String> {
    let rps = candidate.settings.iter().filter(|c| matches!(c.knob, Knob::RpsCpus { .. }));
    rps.map(|c| c.after.to_string()).collect()
}

/// CPUs with those core_ids, and so many one-queue cards.
fn board(cores: &[i32], cards: usize) -> Snapshot {
    let mut cpus = cpus(&vec![1024; cores.len()]);
    for (cpu, core) in cpus.iter_mut().zip(cores) {
        cpu.core = Some(*core);
    }
    let devices = (0..cards).map(|i| {
        let mut card = netdev(&format!("eth{i}"), Bus::Pci(format!("0000:0{i}:00.0")), 1);
        card.sysfs = format!("/sys/devices/card{i}/net/eth{i}").into();
        card
    });
    machine(cpus, devices.collect(), vec![])
}

fn openwrt(snapshot: &Snapshot, name: &str) -> Candidate {
    candidates(snapshot).get(name).unwrap().clone()
}

#[test]
fn openwrt_1_takes_the_big_cluster_for_siblings_of_the_little_one() {
    // core_id restarts in each cluster: picking CPU0 adds three quarters to CPU4 as well, so the
    // two big CPUs come last.
    let made = openwrt(&board(&[0, 1, 2, 3, 0, 1], 5), name::OPENWRT_1);
    assert_eq!(masks(&made), ["CPU 0", "CPU 1", "CPU 2", "CPU 3", "CPU 4"]);
}

#[test]
fn openwrt_1_fills_cores_before_threads() {
    // Loads after two: 0.75, 0.5625, 0.75, 0.5625.
    let made = openwrt(&board(&[0, 0, 1, 1], 4), name::OPENWRT_1);
    assert_eq!(masks(&made), ["CPU 0", "CPU 2", "CPU 1", "CPU 3"]);
}

#[test]
fn openwrt_keeps_rps_away_from_the_napi_thread() {
    let mut snapshot = board(&[0, 1, 2, 3], 2);
    snapshot.netdevs[0].napi_threads = vec![70];
    // eth0: thread on 0, RPS on 1 (0.75); eth1: RPS on 2.
    assert_eq!(masks(&openwrt(&snapshot, name::OPENWRT_1)), ["CPU 1", "CPU 2"]);
}

#[test]
fn openwrt_goes_round_where_queues_cover_the_cpus() {
    let queues = |queues: u32| {
        let mut snapshot = board(&[0, 1, 2, 3], 1);
        snapshot.netdevs[0].rx_queues = (0..queues)
            .map(|index| RxQueue { index, rps: Some(CpuSet::empty()), flow_cnt: Some(7) })
            .collect();
        snapshot.netdevs[0].napi_threads = (0..queues).collect();
        snapshot
    };
    let round = ["CPU 1", "CPU 2", "CPU 3", "CPU 0"];
    assert_eq!(masks(&openwrt(&queues(4), name::OPENWRT_1)), round);
    assert_eq!(masks(&openwrt(&queues(4), name::OPENWRT_2)), round, "mode 2 is not asked here");
    // Threads on 0 and 2, each queue on the least loaded but that.
    assert_eq!(masks(&openwrt(&queues(2), name::OPENWRT_1)), ["CPU 1", "CPU 3"]);
    assert_eq!(masks(&openwrt(&queues(2), name::OPENWRT_2)), ["CPUs 0-3", "CPUs 0-3"]);
    let counts = openwrt(&queues(2), name::OPENWRT_1);
    let zero =
        |c: &&Change| matches!(c.knob, Knob::RpsFlowCnt { .. }) && c.after == Value::Count(0);
    assert_eq!(counts.settings.iter().filter(zero).count(), 2, "RFS entries are written too");
}

#[test]
fn openwrt_steers_wired_devices_first_and_no_stacked_ones() {
    let mut snapshot = board(&[0, 1, 2], 3);
    snapshot.netdevs[0].kind = Some("wlan".into());
    snapshot.netdevs[2].lower = vec!["eth1".into()];
    let made = openwrt(&snapshot, name::OPENWRT_1);
    let of = |device: &str| {
        let rps =
            |c: &&Change| matches!(c.knob, Knob::RpsCpus { .. }) && c.knob.device() == Some(device);
        made.settings.iter().find(rps).map(|c| (c.after.to_string(), c.before == c.after))
    };
    assert_eq!(of("eth1").unwrap().0, "CPU 0");
    assert_eq!(of("eth0").unwrap().0, "CPU 1");
    assert!(of("eth2").is_none_or(|(_, as_found)| as_found));
}

#[test]
fn irqbalance_gives_a_pci_card_one_cpu_and_a_platform_line_its_package() {
    let mut snapshot = r4s();
    snapshot
        .cpus
        .iter_mut()
        .for_each(|c| c.l2 = if c.id.0 < 4 { "0-3" } else { "4-5" }.parse().unwrap());
    let made = candidates(&snapshot).get(name::IRQBALANCE).unwrap().clone();
    assert_eq!(setting(&made, "eth0", true).to_string(), "0-5", "class other: the whole package");
    // The first domain has no line of the class yet; its first CPU comes last.
    assert_eq!(setting(&made, "eth1", true).to_string(), "1", "it knows nothing of capacities");
    assert!(predict(&snapshot, &made).largest > 3.0);
}

#[test]
fn what_another_tool_leaves_alone_is_as_found_after_any_candidate() {
    let mut snapshot = r4s();
    snapshot.netdevs[0].sysfs = "/sys/devices/a/net/eth0".into();
    snapshot.netdevs[1].sysfs = "/sys/devices/b/net/eth1".into();
    let found = candidates(&snapshot);
    let made = found.get(name::OPENWRT_1).unwrap();
    assert_eq!(setting(made, "eth0", true).to_string(), "0-5", "the interrupts' masks are stated");
    let mut two = vec![found.get(name::AS_FOUND).unwrap().clone(), made.clone()];
    complete(&mut two);
    let knobs = |c: &Candidate| {
        c.settings.iter().map(|c| c.knob.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(knobs(&two[0]), knobs(&two[1]));
}
