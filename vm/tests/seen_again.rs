//! A guest captured inside and seen again outside is the same machine: `show --json` in the guest
//! against `show --json --host CAPTURE` here, by the same program. And what discovery says of a
//! flowtable, on a kernel that binds flows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "tests run the program and keep files")]

mod common;

use std::process::Command;

use common::codes;
use linerate_vm::{Machine, Nic};
use serde_json::Value;

const SCRIPT: &str = r#"
modprobe nf_conntrack
ip addr add 198.18.0.1/24 dev eth0
for nic in eth0 eth1 eth2; do ip link set $nic up; done
echo 2 >/sys/class/net/eth1/queues/rx-0/rps_cpus
first=$(lines_of eth1 | head -n 1)
echo 4 >/proc/irq/$first/smp_affinity
# Links come up, and vectors move with the next interrupt, in their own time.
for nic in eth0 eth1 eth2; do
    for i in 1 2 3 4 5 6 7 8 9 10; do [ "$(cat /sys/class/net/$nic/carrier)" = 1 ] || sleep 1; done
done
for i in 1 2 3; do
    step before$i linerate show --json
    step capture$i linerate capture -o /out/machine$i.tar.gz --samples 2 --interval 0.1
    step after$i linerate show --json
    sleep 2
done
step text linerate show
"#;

/// Without what moves while it is looked at, and what a capture replaces.
fn still(text: &str) -> Value {
    let mut shown: Value = serde_json::from_str(text).expect("JSON");
    for name in ["hostname", "id"] {
        shown["machine"].as_object_mut().unwrap().remove(name);
    }
    for irq in shown["irqs"].as_array_mut().unwrap() {
        irq.as_object_mut().unwrap().remove("counts").expect("counts");
    }
    for device in shown["netdevs"].as_array_mut().unwrap() {
        for name in ["drops", "counters"] {
            device.as_object_mut().unwrap().remove(name).expect(name);
        }
    }
    let path = shown["path"].as_object_mut().unwrap();
    for name in ["softnet", "conntrack_count"] {
        path.remove(name).expect(name);
    }
    // Of the evidence it stays who polls.
    if let Some(evidence) = shown["evidence"].as_object_mut() {
        evidence.retain(|name, _| name == "pollers");
        let pollers = evidence.get_mut("pollers").and_then(Value::as_array_mut);
        for poller in pollers.into_iter().flatten().filter_map(Value::as_object_mut) {
            poller.retain(|name, _| !["cpu_seconds", "last_cpu"].contains(&name.as_str()));
        }
    }
    shown
}

#[test]
fn a_guest_seen_again_elsewhere_is_the_same_machine() {
    let machine = Machine::new(4, &[Nic::Vmxnet3, Nic::E1000e, Nic::VirtioNet]);
    let contents = common::contents(&["virtio_pci", "vmxnet3", "e1000e", "virtio_net"], SCRIPT);
    let Some(outcome) = common::run(&machine, &contents) else { return };
    let codes = codes(&outcome);
    for step in codes.keys() {
        assert_eq!(codes[step], 0, "{step}: {}", outcome.output);
    }
    // The first capture during which the machine stood still.
    let (round, live) = (1..=3)
        .map(|round| (round, still(&outcome.text(&format!("before{round}.out")))))
        .find(|(round, before)| *before == still(&outcome.text(&format!("after{round}.out"))))
        .expect("the guest never stands still");
    let file = std::env::temp_dir().join(format!("linerate-guest-{}.tar.gz", std::process::id()));
    std::fs::write(&file, &outcome.files[&format!("machine{round}.tar.gz")]).unwrap();
    // A new fixture of it is made by this very test (fixtures/hosts).
    if let Some(keep) = std::env::var_os("LINERATE_KEEP_CAPTURE") {
        std::fs::copy(&file, keep).unwrap();
    }
    let again = Command::new(common::linerate())
        .args(["show", "--json", "--host"])
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let again = still(&String::from_utf8(again.stdout).unwrap());
    for (field, value) in live.as_object().unwrap() {
        assert_eq!(again[field], *value, "{field} is another in the capture");
    }
    assert_eq!(again, live);

    // And both are the machine that QEMU was told to make.
    let drivers: Vec<&str> =
        live["netdevs"].as_array().unwrap().iter().map(|d| d["driver"].as_str().unwrap()).collect();
    assert_eq!(drivers, ["vmxnet3", "e1000e", "virtio_net"]);
    let lines = |device: &str| {
        let all = live["irqs"].as_array().unwrap().iter();
        all.filter(|i| i["id"]["device"] == device && i["id"]["role"] != "control").count()
    };
    assert_eq!((lines("eth0"), lines("eth1"), lines("eth2")), (4, 2, 2), "{}", live["irqs"]);
    assert_eq!(live["cpus"].as_array().unwrap().len(), 4);
    assert!(outcome.text("text.out").contains("eth0"), "{}", outcome.text("text.out"));
}

/// A flow through the lab's flowtable, asked for while it lasts; the peer's answer takes it past
/// the first packets, which the rules see.
const FLOW: &str = r#"
modprobe nf_flow_table && modprobe nft_flow_offload && modprobe nf_conntrack_netlink
step up linerate lab up --flowtable
step idle linerate lab shell router -- linerate show --json
linerate lab shell wan -- nc -l -p 5001 -e cat >/dev/null 2>&1 &
sleep 1
(for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 1; done) |
    linerate lab shell lan -- nc 198.18.2.2 5001 >/out/echoed &
flow=$!
sleep 4
step busy linerate lab shell router -- linerate show --json
linerate lab shell router -- cat /proc/net/nf_conntrack >/out/table
step words linerate lab shell router -- linerate show path
wait $flow
step down linerate lab down
"#;

#[test]
fn a_flowtable_that_binds_flows_is_told_from_one_that_does_not() {
    let machine = Machine::new(2, &[Nic::Vmxnet3]);
    let mut contents = common::contents(&["vmxnet3"], FLOW);
    contents.offer.push("nf_conntrack_netlink");
    let Some(outcome) = common::run(&machine, &contents) else { return };
    let codes = codes(&outcome);
    for step in ["up", "idle", "busy", "words", "down"] {
        assert_eq!(codes[step], 0, "{step}: {}", outcome.output);
    }
    let bound = |step: &str| {
        let shown: Value = serde_json::from_str(&outcome.text(&format!("{step}.out"))).unwrap();
        let told = shown["path"]["bound"].clone();
        (told["bound"].as_u64(), told["hardware"].as_u64(), told["complete"].as_bool())
    };
    assert!(!outcome.text("echoed").is_empty(), "no flow: {}", outcome.output);
    // The lab's own trial of its path may have left a flow.
    assert_eq!(bound("idle").2, Some(true), "{}", outcome.text("idle.out"));
    let table = outcome.text("table");
    let ours = table.lines().find(|l| l.contains("dport=5001")).expect("our flow is tracked");
    assert!(ours.contains("[OFFLOAD]"), "{table}");
    let told = u64::try_from(table.lines().filter(|l| l.contains("[OFFLOAD]")).count()).unwrap();
    assert_eq!(bound("busy"), (Some(told), Some(0), Some(true)), "{table}");
    let words = outcome.text("words.out");
    assert!(words.contains(&format!("{told} of")) && words.contains("flows bound"), "{words}");
}
