//! `sweep` and `bench` against a router whose capacity, loss and delay are known: a token bucket, a
//! random drop and a delay of the guest's kernel on the way out. The emulated machine stands still now
//! and then, and a busy host leaves it too little to send what is asked: so what is held is that
//! nothing but the truth is claimed, also where less than all can be said. That a search finds the
//! capacity is held where there is CPU for it, in tests/traffic/load/known.rs.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::codes;
use linerate_vm::guest::Contents;
use linerate_vm::{Machine, Nic};
use serde_json::Value;

/// Payload that the token bucket lets through, Mbit/s: between two of the rates that are offered. The
/// bucket counts 1514 bytes for 1472 of payload (tbf takes `qdisc_pkt_len`, without the FCS).
const CAPACITY: f64 = 2.0;
const BUCKET: f64 = CAPACITY * 1514.0 / 1472.0;
/// What it lets through at once, and what waits before it, bytes. What is in there at the end of a
/// trial still arrives, so that so much more passes in each (see [`credit`]). A sender that waits for
/// a CPU sends up to eight datagrams at once, which must find room.
const BURST: u32 = 3028;
const QUEUE: u32 = 20_000;
const DROP: f64 = 0.10;
const DELAY: f64 = 0.02;
/// A trial may be 2 % short of what it was asked for, bounds are 2 % apart, and a datagram more or less
/// makes half a percent of a second's.
const ERROR: f64 = 0.05;
/// How far below the truth a search may end, because whatever stands still loses capacity: what the
/// bucket would have let through meanwhile.
const STALLS: f64 = 0.15;

/// `limit PID QDISC...` puts the queueing discipline on the router of the run that has this PID, as
/// soon as that stands: its namespaces have no name, but its threads are in them. The lowest rates come
/// first, which it would not touch anyway.
const SCRIPT: &str = r#"
modprobe nft_masq && modprobe nft_chain_nat && modprobe veth || exit 92
limit() {
    pid=$1; shift
    here=$(readlink /proc/self/ns/net)
    for i in $(seq 500); do
        for task in /proc/$pid/task/*; do
            [ "$(readlink $task/ns/net)" = "$here" ] && continue
            nsenter --net=$task/ns/net ip link show wan0 >/dev/null 2>&1 || continue
            nsenter --net=$task/ns/net real-tc qdisc add dev wan0 root "$@" && return 0
        done
        usleep 20000
    done
    echo "no router to limit"; exit 93
}
SWEEP="linerate sweep rate --direction up -P 1 --run 1"
$SWEEP --from 0.8 --to 3.2 --steps 4 --repeats 3 --seconds 60 -o /out/bucket.json >/out/bucket.out 2>&1 &
limit $! tbf rate BUCKETkbit burst BURST limit QUEUE
wait $!; code=$?; cat /out/bucket.out
echo "bucket $code" >>/out/steps
$SWEEP --from 1.6 --to 3.2 --steps 2 --repeats 2 --seconds 20 -o /out/drop.json >/out/drop.out 2>&1 &
limit $! netem loss DROP% limit 10000
wait $!; echo "drop $?" >>/out/steps; cat /out/drop.out
linerate bench nat --latency --direction up --rate 1 -P 1 --seconds 3 --json >/out/delay.json &
limit $! netem delay DELAYms limit 10000
wait $!; echo "delay $?" >>/out/steps; cat /out/delay.json
"#;

/// The installed `tc` with its libraries; `None` where there is none.
fn tc(contents: &mut Contents) -> Option<()> {
    let program = Path::new("/usr/sbin/tc");
    let listed = Command::new("ldd").arg(program).output().ok()?;
    let listed = String::from_utf8(listed.stdout).ok()?;
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    let mut files: Vec<PathBuf> = libraries.map(PathBuf::from).collect();
    files.push(program.to_owned());
    for file in files {
        // By its own name, busybox would take its own, which knows no token bucket.
        let to =
            if file == program { Path::new("bin/real-tc") } else { file.strip_prefix("/").ok()? };
        contents.copy(&file, to.to_str()?, 0o755).ok()?;
    }
    Some(())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Payload of so many packets a second, Mbit/s.
fn mbit(packets: &Value) -> f64 {
    number(packets) * 1472.0 * 8.0 / 1e6
}

/// Bytes of payload that a trial may have above what the capacity gives, as a share of it.
fn credit(seconds: f64) -> f64 {
    f64::from(BURST + QUEUE) * 1472.0 / 1514.0 / (CAPACITY * 1e6 / 8.0 * seconds)
}

#[test]
fn a_known_capacity_loss_and_delay_come_out() {
    let script = SCRIPT
        .replace("BUCKET", &format!("{:.0}", BUCKET * 1000.0))
        .replace("BURST", &BURST.to_string())
        .replace("QUEUE", &QUEUE.to_string())
        .replace("DROP", &format!("{:.0}", DROP * 100.0))
        .replace("DELAY", &format!("{:.0}", DELAY * 1e3));
    let machine = Machine::new(2, &[Nic::Vmxnet3]);
    let mut contents = common::contents(&["sch_tbf", "sch_netem"], &script);
    if tc(&mut contents).is_none() {
        return common::skip("no tc (package iproute2)");
    }
    let Some(outcome) = common::run(&machine, &contents) else { return };
    assert_eq!(outcome.code, 0, "{}", outcome.output);
    let codes = codes(&outcome);
    // Refused where the sender could not send what was asked.
    for run in ["bucket", "drop", "delay"] {
        assert!([0, 6].contains(&codes[run]), "{}", outcome.output);
    }

    let bucket: Value = serde_json::from_str(&outcome.text("bucket.json")).unwrap();
    let most = 1.0 + ERROR + credit(1.0);
    let knee = &bucket["knee"];
    println!("knee: {knee}");
    // A moment in which the machine stood still widens the bracket; what must never happen is that the
    // truth is not in it.
    assert_ne!(knee["verdict"], "none-up-to-maximum", "{knee}");
    if knee["holds_up_to"].is_number() {
        assert!(mbit(&knee["holds_up_to"]) < CAPACITY * most, "{knee}");
    }
    if knee["fails_at"].is_number() {
        assert!(mbit(&knee["fails_at"]) > CAPACITY * (1.0 - ERROR), "{knee}");
    }
    // Between two rates that are 40 % apart.
    if knee["has_intervals"] == true && knee["verdict"] == "found" {
        let estimate = mbit(&knee["estimate"]) / CAPACITY;
        assert!((0.75..=1.25).contains(&estimate), "{estimate} of the capacity: {knee}");
    }
    for result in bucket["searches"][0]["results"].as_array().unwrap() {
        let lower = mbit(&result["lower"]) / CAPACITY;
        println!("{}: {lower:.3} of the capacity, {}", result["goal"]["name"], result["outcome"]);
        assert!(lower <= most, "{lower} of the capacity: {result}");
        match result["outcome"].as_str().unwrap() {
            "found" => {
                let upper = mbit(&result["upper"]) / CAPACITY;
                assert!(upper >= 1.0 - STALLS, "{upper} of the capacity: {result}");
            }
            "at-or-above-maximum" => {
                assert!(bucket["searches"][0]["capped"].is_string(), "{}", bucket["searches"]);
            }
            outcome => assert_eq!(outcome, "unfinished", "{result}"),
        }
    }

    // Far above it, the loss is what is left over.
    let points = bucket["points"].as_array().unwrap();
    let mut through = Vec::new();
    for point in points.iter().filter(|p| mbit(&p["asked"]) > 1.4 * CAPACITY) {
        let (Some(sent), Some(lost)) = (point["sent"].as_f64(), point["lost"].as_f64()) else {
            continue;
        };
        if point["limit"] != "router" {
            continue;
        }
        let passed = (1.0 - lost / sent) / (CAPACITY / mbit(&point["offered"]));
        assert!(passed <= most, "{passed} of the capacity passed: {point}");
        through.push(passed);
    }
    // A run in which the machine stood still for a part lets less through: the one in the middle did not.
    through.sort_by(f64::total_cmp);
    println!("far above the capacity, shares of it that passed: {through:?}");
    assert!(through.is_empty() || through[through.len() / 2] >= 1.0 - STALLS, "{through:?}");

    let drop: Value = serde_json::from_str(&outcome.text("drop.json")).unwrap();
    for wrong in ["found", "none-up-to-maximum"] {
        assert_ne!(drop["knee"]["verdict"], wrong, "{}", drop["knee"]);
    }
    // The first run may have begun before the drop was there.
    let points = &drop["points"].as_array().unwrap()[1..];
    let sum = |what: &str| points.iter().filter_map(|p| p[what].as_f64()).sum::<f64>();
    let (sent, lost) = (sum("sent"), sum("lost"));
    // Four standard errors of a share.
    let error = 4.0 * (DROP * (1.0 - DROP) / sent).sqrt();
    assert!(sent > 200.0 && (lost / sent - DROP).abs() < error, "{lost} of {sent}, ± {error}");
    for result in drop["searches"][0]["results"].as_array().unwrap() {
        assert_ne!(result["outcome"], "found", "nothing holds where a tenth is lost: {result}");
        assert_ne!(result["outcome"], "at-or-above-maximum", "{result}");
    }

    let delay: Value = serde_json::from_str(&outcome.text("delay.json")).unwrap();
    let seen = &delay["latency"][0];
    for when in ["idle", "loaded"] {
        // The first probes may have gone before the delay was there. What an emulated machine adds is
        // its own affair, but it is less than the delay in the middle.
        let time = number(&seen[when]["p50"]);
        assert!((DELAY..=2.0 * DELAY).contains(&time), "{when}: {seen}");
        assert!(seen[when]["p99"].is_null(), "600 probes carry no p99: {seen}");
    }
}
