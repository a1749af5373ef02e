//! Every kind of lab on a distribution's kernel, which has what this machine's kernel may lack: VLAN,
//! WireGuard, flowtables.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "looks for the programs of this machine")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{assert_same, codes};
use linerate_vm::guest::Contents;
use linerate_vm::{Machine, Nic, Outcome};
use serde_json::Value;

/// Name, and the largest packet that gets from end to end.
const SHAPES: [(&str, u64); 8] = [
    ("route", 1500),
    ("nat", 1500),
    ("nat+flowtable", 1500),
    ("nat+vlan", 1500),
    ("nat+flowtable+vlan", 1500),
    ("nat+bridge", 1500),
    ("route+wireguard", 1420),
    ("route+ipv6", 1500),
];

const MODULES: [&str; 3] = ["8021q", "bridge", "nf_conntrack"];

/// Modules bring sysctls: they are loaded before the first look. The kernel's own list of what the
/// flowtable carries is read from outside, by the threads that hold the namespaces.
const SCRIPT: &str = r#"
modprobe -a veth 8021q bridge nf_flow_table nft_flow_offload nft_masq nft_chain_nat nft_ct wireguard || exit 92
ip link set eth0 up
step warm linerate bench nat+flowtable --seconds 0.1 --omit 0 -P 1 --direction up
step list linerate bench --list
state before
for shape in route nat nat+flowtable nat+vlan nat+flowtable+vlan nat+bridge route+wireguard route+ipv6; do
    step $shape linerate bench $shape --rules 20 --seconds 0.6 --omit 0.2 -P 4 --json
done
step flows linerate bench route --flows 2000 --seconds 0.3 --omit 0.1 -P 2 --direction up --json
step nat66 linerate bench nat+ipv6
linerate bench nat+flowtable --seconds 3 -P 4 --direction down >/dev/null 2>&1 &
bench=$!
i=0
carried=0
while [ $i -lt 40 ] && [ "$carried" -lt 4 ]; do
    usleep 200000
    carried=$(cat /proc/$bench/task/*/net/nf_conntrack 2>/dev/null | grep -c 'tcp .*\[OFFLOAD\]')
    i=$((i + 1))
done
echo $carried >/out/carried
[ -e /proc/1/net/nf_conntrack ] || echo none >/out/carried
# The worst end: nothing may stay.
kill -9 $bench
wait $bench 2>/dev/null
step down linerate lab down
step board linerate bench wireguard --board --board-seconds 1 --repeats 1 --seconds 0.4 --omit 0.1 -P 2 -o /out/board.json
step rank linerate rank /out/board.json -o /out/rank.svg
# What the kernel takes down in its own time may take long on a busy machine.
i=0
state after
until cmp -s /out/before /out/after || [ $i -ge 100 ]; do usleep 200000; state after; i=$((i + 1)); done
"#;

/// Traffic flows, nothing is refused but what an emulated machine may bring about, and packets
/// are as large as the layers leave room for.
fn check(outcome: &Outcome, shape: &str, path_mtu: u64) {
    let told = outcome.text(&format!("{shape}.out"));
    let bench: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(bench["lab"]["path_mtu"], path_mtu, "{shape}");
    assert_eq!(bench["scenario"]["name"], shape);
    let runs = bench["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3, "{shape}");
    for run in runs {
        for flow in run["flows"].as_array().unwrap() {
            assert!(flow["goodput"].as_f64().unwrap() > 1e6, "{shape}: {flow}");
        }
        for refusal in run["refusals"].as_array().unwrap() {
            // Two emulated CPUs for both directions and the load.
            assert_eq!(refusal["code"], "direction-starved", "{shape}: {refusal}");
        }
        let bytes = run["packet_bytes"].as_f64().unwrap();
        // At most the Ethernet header and, where it stands in the packet, a tag.
        let most = path_mtu as f64 + 18.0;
        let least = if run["direction"] == "both" { 300.0 } else { path_mtu as f64 * 0.9 };
        assert!((least..=most).contains(&bytes), "{shape}: {bytes} bytes");
        let notes = run["notes"].to_string();
        if shape.contains("flowtable") {
            let streams = if run["direction"] == "both" { 8 } else { 4 };
            // How many of them within a moment is the emulated machine's affair, none where it is busy;
            // that all get there is waited for further down.
            let told =
                |carried| format!("carried {carried} tcp connections; the load has {streams}");
            let some = (0..=streams).any(|carried| notes.contains(&told(carried)));
            assert!(some || notes.contains("not known"), "{shape}: {notes}");
        }
    }
}

#[test]
fn every_kind_of_lab_carries_traffic_and_leaves_nothing_behind() {
    let machine = Machine::new(2, &[Nic::Vmxnet3]);
    let mut contents = common::contents(&["vmxnet3"], SCRIPT);
    contents.offer.extend(MODULES);
    let Some(outcome) = common::run(&machine, &contents) else { return };
    assert_eq!(outcome.code, 0, "{}", outcome.output);
    let codes = codes(&outcome);
    for (shape, path_mtu) in SHAPES {
        assert!([0, 6].contains(&codes[shape]), "{shape}: {}", outcome.output);
        check(&outcome, shape, path_mtu);
    }
    assert_eq!(codes["flows"], 0, "{}", outcome.output);
    let flows: Value = serde_json::from_str(&outcome.text("flows.out")).unwrap();
    let tracked = flows["lab"]["tracked"].as_u64().unwrap();
    assert!((2000..2100).contains(&tracked), "{tracked} connections");
    assert_eq!(codes["nat66"], 2, "NAT66 needs insisting");
    assert!(outcome.text("nat66.err").contains("--nat66"));
    let carried = outcome.text("carried");
    // `none` where this kernel lists no connections; then nobody can look from outside.
    assert!(["4", "none"].contains(&carried.trim()), "{carried} of 4 in the flowtable");
    let list = outcome.text("list.out");
    for part in ["vlan", "flowtable", "wireguard", "bridge"] {
        let line = list.lines().find(|l| l.starts_with(part)).unwrap();
        assert_ne!(line.split_whitespace().nth(1), Some("no"), "{list}");
    }
    let pppoe = list.lines().find(|l| l.starts_with("pppoe")).unwrap();
    assert_eq!(pppoe.split_whitespace().nth(1), Some("no"), "no pppd in this guest: {list}");
    assert_board(&outcome);
    assert_same(&outcome, "before", "after");
}

fn assert_board(outcome: &Outcome) {
    let codes = codes(outcome);
    assert_eq!((codes["board"], codes["rank"]), (0, 0), "{}", outcome.output);
    let row = outcome.text("board.out");
    let row = row.lines().nth(2).unwrap();
    assert!(row.starts_with("| ") && row.matches('|').count() == 5, "{row}");
    assert!(row.contains("bit/s") && row.contains("1 s instead of 10"), "{row}");
    let board: Value = serde_json::from_str(&outcome.text("board.json")).unwrap();
    assert_eq!((&board["tunnel_mtu"], &board["version"]), (&1420.into(), &1.into()));
    let runs = board["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4, "one repeat of two directions, one and two streams");
    for run in runs.iter().chain([&board["comparable"]]) {
        assert!(run["receiver"].as_f64().unwrap() > 1e6, "{run}");
        assert_eq!(run["refusals"], serde_json::json!([]), "{run}");
    }
    assert!(!board["cores_used"].as_array().unwrap().is_empty(), "the record names the cores");
    assert!(outcome.text("rank.svg").contains("http://www.w3.org/2000/svg"));
}

/// pppd and pppoe-server as installed here, with the libraries they need.
fn add_ppp(contents: &mut Contents) -> bool {
    let programs = ["/usr/sbin/pppd", "/usr/sbin/pppoe-server", "/usr/sbin/pppoe"];
    let mut files: Vec<String> = programs.map(str::to_owned).to_vec();
    let Ok(versions) = std::fs::read_dir("/usr/lib/pppd") else { return false };
    for version in versions {
        for plugin in ["pppoe.so", "rp-pppoe.so"] {
            let path = version.as_ref().unwrap().path().join(plugin);
            if path.exists() {
                files.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    let programs = files.clone();
    for program in &programs {
        let Ok(out) = Command::new("ldd").arg(program).output() else { return false };
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let libraries = text.split_whitespace().filter(|w| w.starts_with('/'));
        files.extend(libraries.map(str::to_owned));
    }
    files.sort();
    files.dedup();
    files.iter().all(|file| {
        // /usr/sbin and /sbin are links to /bin in the guest.
        let to = file.replacen("/usr/sbin/", "/bin/", 1);
        contents.copy(Path::new(file), to.trim_start_matches('/'), 0o755).is_ok()
    })
}

#[test]
fn pppoe_by_the_real_programs_carries_traffic_and_leaves_no_process() {
    const SCRIPT: &str = r#"
modprobe -a veth 8021q pppoe ppp_async nft_masq nft_chain_nat || exit 92
mkdir -p /etc/ppp /var && ln -s /run /var/run
echo 'plugin nonsense.so' >/etc/ppp/options
ip link set eth0 up
step warm linerate bench nat --seconds 0.1 --omit 0 -P 1 --direction up
state before
for shape in nat+pppoe nat+vlan+pppoe; do
    step $shape linerate bench $shape --seconds 0.6 --omit 0.2 -P 4 --json
done
linerate bench nat+pppoe --seconds 30 -P 2 --direction up >/dev/null 2>&1 &
bench=$!
i=0
until [ "$(pidof pppd | wc -w)" -ge 2 ] || [ $i -ge 100 ]; do usleep 100000; i=$((i + 1)); done
pidof pppd | wc -w >/out/daemons
kill -9 $bench
wait $bench 2>/dev/null
gone() { i=0; until [ -z "$(pidof pppd)" ] || [ $i -ge 300 ]; do usleep 100000; i=$((i + 1)); done; }
gone
step down linerate lab down
# Ctrl-C while the session comes up, which it never does: this server is mute.
mkdir /tmp/mute
printf '#!/bin/sh\nexec sleep 1000\n' >/tmp/mute/pppoe-server
chmod +x /tmp/mute/pppoe-server
PATH=/tmp/mute:$PATH linerate bench nat+pppoe --seconds 30 -P 2 --direction up >/dev/null 2>/out/stopped.err &
bench=$!
i=0
until [ -n "$(pidof pppd)" ] || [ $i -ge 300 ]; do usleep 100000; i=$((i + 1)); done
pidof pppd | wc -w >/out/dialling
kill -INT $bench
wait $bench
echo "stopped $?" >>/out/steps
gone
pidof pppd | wc -w >/out/left
ls -l /etc/ppp /run >/out/files
state after
"#;
    let machine = Machine::new(2, &[Nic::Vmxnet3]);
    let mut contents = common::contents(&["vmxnet3"], SCRIPT);
    contents.offer.extend(MODULES);
    contents.offer.extend(["pppoe", "ppp_async"]);
    if !add_ppp(&mut contents) {
        return common::skip("pppd or pppoe-server is not installed");
    }
    let Some(outcome) = common::run(&machine, &contents) else { return };
    let codes = codes(&outcome);
    for shape in ["nat+pppoe", "nat+vlan+pppoe"] {
        assert!([0, 6].contains(&codes[shape]), "{shape}: {}", outcome.output);
        let told: Value = serde_json::from_str(&outcome.text(&format!("{shape}.out"))).unwrap();
        assert_eq!(told["lab"]["path_mtu"], 1492);
        for run in told["runs"].as_array().unwrap() {
            // How much says nothing here.
            let flows = run["flows"].as_array().unwrap();
            let bytes: u64 = flows.iter().map(|flow| flow["bytes"].as_u64().unwrap()).sum();
            assert!(bytes > 0, "{run}");
            for refusal in run["refusals"].as_array().unwrap() {
                // Debian's server sends every packet through two programs: emulated, it is so slow
                // that a stream's end may not arrive within the patience that there is.
                let code = refusal["code"].as_str().unwrap();
                let slow = ["direction-starved", "no-acknowledgement"].contains(&code);
                assert!(slow, "{shape}: {refusal}");
            }
        }
    }
    assert_eq!(outcome.text("daemons").trim(), "2", "one pppd at each end while it ran");
    // Busybox's shell gives the programs that it starts in the background SIGINT back.
    assert_eq!(outcome.text("dialling").trim(), "1", "the router's pppd, dialling");
    assert_eq!(codes["stopped"], 130, "{}", outcome.text("stopped.err"));
    assert!(!outcome.text("stopped.err").contains("no session"), "waited for the session's end");
    assert_eq!(outcome.text("left").trim(), "0", "a pppd was left behind");
    assert!(!outcome.text("files").contains("pid"), "{}", outcome.text("files"));
    assert_same(&outcome, "before", "after");
}
