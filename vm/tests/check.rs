//! `check` on a router whose faults are planted one at a time: each is named while it is there, and
//! by no run after it was taken back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::collections::BTreeMap;

use common::codes;
use linerate_vm::{Machine, Nic, Outcome};
use serde_json::Value;

/// eth0 and eth2 are the router's, eth1 is the peer of both.
const SCRIPT: &str = r#"
peer
ip addr add 198.18.1.1/24 dev eth2
ip link set eth2 up
nsenter -t $peer -n ip addr add 198.18.1.2/24 dev eth1
echo 1 >/proc/sys/net/ipv4/ip_forward
mount -t tracefs tracefs /sys/kernel/tracing
traffic() { pings; ping -q -c 10 -i 0.02 -W 5 198.18.1.2 >/dev/null || { echo "no answer on eth2"; exit 91; }; }
traffic
check() { name=$1; shift; step $name linerate check --json "$@"; }
check booted
step plan linerate plan -o /tmp/plan.toml
step apply linerate apply /tmp/plan.toml
traffic # an interrupt moves when the next one arrives
check tuned

# What is planted is taken back before the next.
masks() { for n in $(lines_of eth0) $(lines_of eth2); do echo "$n $(cat /proc/irq/$n/smp_affinity)"; done; }
masks >/tmp/masks
while read n mask; do echo 1 >/proc/irq/$n/smp_affinity; done </tmp/masks
for file in /sys/class/net/eth?/queues/rx-*/rps_cpus; do echo "$file $(cat $file)"; echo 0 >$file; done >/tmp/rps
traffic
check lone-cpu
while read n mask; do echo $mask >/proc/irq/$n/smp_affinity; done </tmp/masks
while read file mask; do echo $mask >$file; done </tmp/rps
traffic
check lone-cpu-back lone-cpu

rps=/sys/class/net/eth2/queues/rx-0/rps_cpus
was=$(cat $rps)
echo f >$rps
check rps-own-cpu
echo $was >$rps

usecs=$(ethtool -c eth2 | sed -n 's/^rx-usecs:[^0-9]*//p')
ethtool -C eth2 rx-usecs 0
check coalescing-off
ethtool -C eth2 rx-usecs $usecs

ethtool -K eth0 gro off
check gro-off
ethtool -K eth0 gro on

# The card starts anew for it, and a port without a link is not judged.
mtu() { ip link set eth2 mtu $1; until grep -q up /sys/class/net/eth2/operstate; do usleep 50000; done; }
mtu 1400
check odd-mtu
mtu 1500

# Of one function alone: it is the tracer that is to be seen, and all would take minutes here.
echo ip_rcv >/sys/kernel/tracing/set_ftrace_filter
echo function >/sys/kernel/tracing/current_tracer
check tracer-on
echo nop >/sys/kernel/tracing/current_tracer

# A program of that name stands in for it: what is asked is whether it is seen.
printf '#!/bin/sh\nwhile sleep 1; do :; done\n' >/bin/irqbalance
chmod 755 /bin/irqbalance
irqbalance &
balancer=$!
until [ "$(cat /proc/$balancer/comm)" = irqbalance ]; do usleep 10000; done
check irqbalance
kill $balancer
wait $balancer

modprobe bridge
modprobe br_netfilter
# It stays down: both ports hang on one wire, and packets would go round.
brctl addbr br0
brctl addif br0 eth0
brctl addif br0 eth2
check bridge-netfilter
brctl delbr br0

check last

# Where packets are lost and where their time goes, on a kernel that gives its reasons. The table of
# connections is full with one, so that of twelve probes, each a connection, ten or more are dropped.
modprobe -a veth nft_masq nft_chain_nat nft_ct
step up linerate lab up
echo 1 >/proc/sys/net/netfilter/nf_conntrack_max
(sleep 1; linerate lab shell lan -- traceroute -n -f 64 -m 64 -q 12 -w 1 198.18.2.2) >/dev/null 2>&1 &
step reasons linerate check --losses 16 --json
step full linerate lab shell router -- linerate check --losses --json
echo 65536 >/proc/sys/net/netfilter/nf_conntrack_max
step down linerate lab down

linerate bench nat --seconds 20 --omit 0 -P 2 --direction down >/dev/null 2>&1 &
bench=$!
sleep 4
step profile linerate profile 3 --json --top 400
echo 500 >/proc/sys/kernel/perf_event_max_sample_rate
step profile-slow linerate profile 2 --json
kill $bench 2>/dev/null
wait $bench || : # it was ended
"#;

/// The findings at that level or above, by rule.
fn found(text: &str, levels: &[&str]) -> BTreeMap<String, Value> {
    let told: Value = serde_json::from_str(text).expect("check --json prints JSON");
    let all = told["findings"].as_array().unwrap().clone().into_iter();
    let all = all.filter(|f| levels.contains(&f["severity"].as_str().unwrap()));
    all.map(|f| (f["rule"].as_str().unwrap().to_owned(), f)).collect()
}

#[test]
fn planted_faults_are_named_and_gone_when_taken_back() {
    let machine = Machine::new(4, &[Nic::Vmxnet3, Nic::Vmxnet3, Nic::E1000e]);
    let mut contents = common::contents(&["vmxnet3", "e1000e"], SCRIPT);
    contents.offer.extend(["bridge", "br_netfilter"]);
    if !common::copy_program(&mut contents, "ethtool", "/usr/sbin/ethtool") {
        common::skip("ethtool is not installed here, to plant faults with");
        return;
    }
    let Some(outcome) = common::run(&machine, &contents) else { return };
    assert_eq!(outcome.code, 0, "{}", outcome.output);
    let codes = codes(&outcome);
    let grave = ["warning", "critical"];
    let all = ["info", "notice", "warning", "critical"];
    let of = |step: &str, levels: &[&str]| found(&outcome.text(&format!("{step}.out")), levels);

    for step in [
        "booted",
        "plan",
        "apply",
        "tuned",
        "lone-cpu-back",
        "last",
        "up",
        "reasons",
        "full",
        "down",
    ] {
        assert_eq!(codes[step], 0, "{step}: {}", outcome.text(&format!("{step}.out")));
    }
    for step in ["booted", "tuned", "last"] {
        assert!(of(step, &grave).is_empty(), "{step}: {:#?}", of(step, &grave));
    }
    for (rule, level) in [
        ("lone-cpu", "warning"),
        ("rps-own-cpu", "notice"),
        ("coalescing-off", "warning"),
        ("gro-off", "warning"),
        ("odd-mtu", "warning"),
        ("tracer-on", "warning"),
        ("irqbalance", "notice"),
        ("bridge-netfilter", "warning"),
    ] {
        let seen = of(rule, &all);
        let finding = seen.get(rule).unwrap_or_else(|| panic!("{rule} among {seen:#?}"));
        assert_eq!(finding["severity"], level, "{finding:#}");
        assert_eq!(codes[rule], i32::from(grave.contains(&level)), "exit code with {rule}");
        let others: Vec<_> = of(rule, &grave).into_keys().filter(|other| other != rule).collect();
        assert!(others.is_empty(), "planted {rule}, and found {others:?} too");
        for step in ["tuned", "last"] {
            assert!(!of(step, &all).contains_key(rule), "{rule} in {step}, where it is not");
        }
    }
    assert_losses(&outcome);
    assert_profiles(&outcome);
}

/// The ledger names the full table, and the kernel's own reason for what it dropped.
fn assert_losses(outcome: &Outcome) {
    let told = |step: &str| -> Value {
        serde_json::from_str(&outcome.text(&format!("{step}.out"))).expect("JSON")
    };
    let full = told("full");
    let entries = full["entries"].as_array().unwrap();
    let count = |name: &str| {
        let of = |e: &&Value| e["stage"] == "conntrack" && e["counter"] == name;
        entries.iter().find(of).map_or(0, |e| e["since_boot"].as_u64().unwrap())
    };
    let dropped = count("drop") + count("early_drop");
    assert!((10..=12).contains(&dropped), "{full:#}");
    let reasons = &told("reasons")["reasons"];
    let named = |name: &str| {
        let one = reasons.as_array().unwrap().iter().find(|r| r["reason"] == name);
        one.map_or(0, |r| r["watched"].as_u64().unwrap())
    };
    assert!(named("NETFILTER_DROP") + 2 >= count("drop"), "{reasons:#} {full:#}");
}

/// A profile of a slow machine under load, and at the frequency that the kernel allows.
fn assert_profiles(outcome: &Outcome) {
    let codes = codes(outcome);
    for step in ["profile", "profile-slow"] {
        assert_eq!(codes[step], 0, "{step}: {}", outcome.text(&format!("{step}.err")));
        let told: Value = serde_json::from_str(&outcome.text(&format!("{step}.out"))).unwrap();
        let cpus = told["cpus"].as_array().unwrap();
        let sum = |of: &str| cpus.iter().map(|c| c[of].as_u64().unwrap()).sum::<u64>();
        assert!(sum("samples") > 50, "{step}: {told:#}");
        // The load may have ended before the second.
        if step == "profile" {
            assert!(sum("packets") > 50, "{told:#}");
            assert!(!told["functions"].as_array().unwrap().is_empty(), "{told:#}");
        }
    }
    let slow: Value = serde_json::from_str(&outcome.text("profile-slow.out")).unwrap();
    assert!(slow["frequency"].as_u64().unwrap() <= 500, "{slow:#}");
}
