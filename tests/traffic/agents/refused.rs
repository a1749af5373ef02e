//! Every reason to refuse a figure of three hosts, on real traffic, with a near miss.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::hosts::{Hosts, refusals, why};
use super::{PATIENCE, alone};

/// A load that this machine sends whatever else it does.
const SMALL: [&str; 6] = ["--direction", "up", "--rate", "20", "-P", "1"];

fn sh(netns: &linerate::machine::sys::netns::NetnsThread, line: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stderr(std::process::Stdio::null());
    netns.run(move || command.status()).unwrap().unwrap().success()
}

/// What `attempt` comes to, after as many as it takes: this machine does other things too, and what is
/// to happen within a run may come too late.
fn until<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(why) => assert!(Instant::now() < until, "waited in vain: {what}: {why}"),
        }
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn each_rule_names_what_happened_between_three_hosts_and_lets_a_near_miss_stand() {
    let _alone = alone();
    let Some(hosts) = Hosts::start("refused", false) else { return };
    let seconds = |s: &'static str| [&SMALL[..], &["--seconds", s, "--omit", "0"]].concat();

    // A load of its own, and one packet in a hundred of somebody else's through the same router: it
    // stands. One in ten does not.
    let stranger = |gap: Duration, hosts: &Hosts| {
        let socket = hosts.lab.lan.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            // That nobody listens there is told at the next call.
            drop(socket.send_to(&[0; 1000], "198.18.1.1:9"));
            thread::sleep(gap);
        }
    };
    hosts.stands(&seconds("0.5"));
    let few = hosts.bench_beside(&seconds("2"), || stranger(Duration::from_millis(100), &hosts));
    assert_eq!(why(&few, "counters-disagree"), None, "{few}");
    let many = hosts.bench_beside(&seconds("2"), || stranger(Duration::from_millis(1), &hosts));
    let told = why(&many, "counters-disagree").unwrap_or_else(|| panic!("{many}"));
    assert!(told.contains("lan0 counted") && told.contains("MB received"), "{told}");

    // More than any machine can send, in datagrams of 16 bytes.
    let much = ["--protocol", "udp", "--rate", "9000", "--datagram", "16", "--seconds", "0.5"];
    let short = hosts.bench(&[&much[..], &["--direction", "up", "-P", "2"]].concat());
    let told = why(&short, "under-sent").unwrap_or_else(|| panic!("{short}"));
    assert!(told.contains("of 9000.0 asked"), "{told}");

    // The link of a host goes and comes back; and a setting of the router is changed, and put back.
    until("a link that changed", || {
        let flap = || assert!(sh(&hosts.lab.router, "ip link set lan0 down; ip link set lan0 up"));
        let told = refusals(&hosts.bench_beside(&seconds("1.5"), flap));
        let of_host = |(code, why): &(String, String)| {
            code == "link-changed" && why.contains("lan host: eth0")
        };
        told.iter().any(of_host).then_some(()).ok_or(format!("{told:?}"))
    });
    let file = "/sys/class/net/wan0/queues/rx-0/rps_cpus";
    let write = |value: &'static str| {
        hosts.lab.router.run(move || std::fs::write(file, value)).unwrap().unwrap();
    };
    let changed = hosts.bench_beside(&seconds("1"), || write("1"));
    let told = why(&changed, "settings-differ").unwrap_or_else(|| panic!("{changed}"));
    assert!(told.contains("wan0") && told.contains("rps_cpus"), "{told}");
    write("0");
    let kept = hosts.bench_beside(&seconds("1"), || write("0"));
    assert_eq!(why(&kept, "settings-differ"), None, "{kept}");
    // Each agent hears what its own machine's kernel tells, also when it was put back.
    for (host, who) in [(&hosts.lab.router, "router: MTU"), (&hosts.lab.wan, "wan host: MTU")] {
        let device = if who.starts_with("router") { "wan0" } else { "eth0" };
        until(who, || {
            let there = format!("ip link set {device} mtu 1490; ip link set {device} mtu 1500");
            let told = hosts.bench_beside(&seconds("1.5"), || assert!(sh(host, &there)));
            let told = why(&told, "settings-differ").unwrap_or_default();
            told.contains(who).then_some(()).ok_or(told)
        });
    }

    // Both at once: the router lets less than a third of one way through, as soon as both run.
    if !sh(&hosts.lab.router, "nft list ruleset >/dev/null") {
        eprintln!("SKIPPED wire: a starved direction: no nft here");
        return;
    }
    let both = ["--direction", "both", "--rate", "10", "-P", "1", "--seconds", "1", "--omit", "0"];
    let told = until("a starved direction", || {
        sh(&hosts.lab.router, "nft delete table ip greed");
        let all = || hosts.lan.said().matches("run: TCP both").count();
        let before = all();
        let starve = || {
            let until = Instant::now() + PATIENCE;
            while all() == before && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            let rules = "nft add table ip greed; \
                 nft 'add chain ip greed forward { type filter hook forward priority 1; }'; \
                 nft add rule ip greed forward oifname lan0 meta length '>' 200 \
                 limit rate over 100 kbytes/second drop";
            assert!(sh(&hosts.lab.router, rules));
        };
        let starved = hosts.bench_beside(&both, starve);
        why(&starved, "direction-starved").ok_or(format!("{starved}"))
    });
    assert!(told.starts_with("down had "), "{told}");
}

#[test]
#[ignore = "slow: make test runs it"]
fn hosts_on_machines_of_their_own_are_a_wire_and_are_refused_when_they_have_no_cpu_left() {
    let _alone = alone();
    let Some(hosts) = Hosts::start("apart", true) else { return };
    let told = until("no CPU is left", || {
        let bound = hosts.bench(&["--direction", "up", "-P", "4", "--seconds", "1"]);
        // A router that is a virtual machine has no card of its own.
        let virtual_router = bound["agents"][2]["virtualisation"] != "";
        assert_eq!(bound["class"], if virtual_router { "vm" } else { "wire" }, "{bound}");
        // Or somebody else's programs took what the load would have.
        why(&bound, "generator-bound").ok_or(format!("{bound}"))
    });
    assert!(told.contains(" of a CPU") || told.contains("the bottleneck"), "{told}");
}
