//! What may happen to hosts and networks while they are measured.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::hosts::{Hosts, json, refusals, unshare, why};
use super::{PATIENCE, Running, alone, bench, output, pair, stderr};
use crate::shaped::{Line, Way};

#[test]
#[ignore = "slow: make test runs it"]
fn a_network_that_is_cut_in_the_middle_ends_the_run_in_time_with_its_reason() {
    // Most of it is waiting for somebody who does not answer: beside the others.
    let Some(hosts) = Hosts::start("cut", false) else { return };
    let forward = |value: &'static str| {
        let file = "/proc/sys/net/ipv4/ip_forward";
        hosts.lab.router.run(move || std::fs::write(file, value)).unwrap().unwrap();
    };
    let long = ["--direction", "up", "--seconds", "2.5", "--rate", "20", "-P", "2", "--latency"];
    // From the router itself agents are still reached: the load alone is cut.
    let mut command = hosts.command(&["bench"], &["--router", "here", "--json"]);
    command.args(long);
    let child = hosts.spawn(&hosts.lab.router, command);
    hosts.lan.wait_for("run: TCP up");
    thread::sleep(Duration::from_millis(500));
    forward("0");
    let done = child.wait_with_output().unwrap();
    forward("1");
    let found = json(&done);
    assert_eq!(done.status.code(), Some(6), "{}", stderr(&done));
    assert!(why(&found, "no-acknowledgement").is_some(), "{found}");

    // From the LAN the WAN's agent is cut off as well: it is given up, by each side for itself.
    let begun = Instant::now();
    let found = hosts.bench_beside(&long[..8], || {
        thread::sleep(Duration::from_millis(500));
        forward("0");
    });
    assert!(begun.elapsed() < PATIENCE, "it took {:?}", begun.elapsed());
    let told = why(&found, "no-acknowledgement").unwrap_or_else(|| panic!("{found}"));
    assert!(told.contains("wan agent 198.18.2.2"), "{told}");
    forward("1");
    hosts.wan.wait_for("given up");
    hosts.stands(&["--direction", "up", "--seconds", "0.5", "--rate", "5", "-P", "1"]);
}

#[test]
#[ignore = "slow: make test runs it"]
fn an_agent_whose_clocks_are_an_hour_off_measures_as_well_and_is_told_so() {
    let _alone = alone();
    let (lan, mut wan) = pair();
    let far = ["--direction", "up", "--seconds", "0.5", "--rate", "5", "--json"];
    let stands = |lan: &Running, wan: &Running| {
        let until = Instant::now() + PATIENCE;
        loop {
            let done = output(None, bench(lan, wan, &far));
            let found = json(&done);
            if refusals(&found).is_empty() {
                return found;
            }
            assert!(Instant::now() < until, "{:?}", refusals(&found));
        }
    };
    // The time since boot of a time namespace (5.6) is whatever one likes.
    let wrap = "unshare --fork --kill-child -T --monotonic 3600 --boottime 3600";
    let wrap: Vec<String> = wrap.split(' ').map(str::to_owned).collect();
    if unshare(&wrap) {
        let late = Running::start_in(&wrap, None, "127.0.0.1:0", None);
        let found = stands(&lan, &late);
        let clock = found["agents"][1]["clock"]["monotonic"].as_f64().unwrap();
        assert!((clock - 3600.0).abs() < 5.0, "{found}");
    } else {
        eprintln!("SKIPPED wire: a monotonic clock that is an hour off: no time namespaces here");
    }

    // The wall clock is the whole machine's: somebody between the two turns it back.
    let real = wan.address.clone();
    wan.address = behind(&real, hour_back);
    let found = stands(&lan, &wan);
    let clock = found["agents"][1]["clock"]["wall"].as_f64().unwrap();
    assert!((clock + 3600.0).abs() < 5.0, "{found}");
    assert!(found["agents"][1]["clock"]["monotonic"].as_f64().unwrap().abs() < 5.0, "{found}");
    let told = stderr(&output(None, bench(&lan, &wan, &far)));
    assert!(told.contains("ms behind of ours"), "{told}");

    // Somebody who makes nonsense of an answer is named, and nothing is measured.
    wan.address = behind(&real, nonsense);
    let done = output(None, bench(&lan, &wan, &far));
    assert_eq!(done.status.code(), Some(6), "{}", stderr(&done));
    assert!(stderr(&done).contains("an answer makes no sense"), "{}", stderr(&done));
}

fn hour_back(line: String) -> String {
    let words: Vec<&str> = line.trim_end().split('\t').collect();
    match words.as_slice() {
        ["clock", monotonic, wall] => {
            format!("clock\t{monotonic}\t{}\n", wall.parse::<u64>().unwrap() - 3_600_000)
        }
        _ => line,
    }
}

fn nonsense(line: String) -> String {
    if line.starts_with("facts") { "facts\t\u{1b}[2Jgarbage\n".into() } else { line }
}

/// An address whose connections go to an agent's, with its answers changed on the way.
fn behind(agent: &str, change: fn(String) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, agent) = (listener.local_addr().unwrap().to_string(), agent.to_owned());
    thread::spawn(move || {
        for controller in listener.incoming().flatten() {
            let agent = TcpStream::connect(&agent).unwrap();
            let (mut asked, mut asks) =
                (controller.try_clone().unwrap(), agent.try_clone().unwrap());
            thread::spawn(move || {
                drop(std::io::copy(&mut asked, &mut asks));
                drop(asks.shutdown(std::net::Shutdown::Write));
            });
            thread::spawn(move || {
                let (mut lines, mut to) = (BufReader::new(agent), controller);
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|n| n > 0) {
                    let changed = change(std::mem::take(&mut line));
                    if to.write_all(changed.as_bytes()).is_err() {
                        break;
                    }
                }
                drop(to.shutdown(std::net::Shutdown::Both));
            });
        }
    });
    address
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_far_side_600_ms_away_over_a_slow_line_is_measured_and_not_lost() {
    let _alone = alone();
    let Some(hosts) = Hosts::start("far", false) else { return };
    let way = Way::of(2.0, 300);
    let Some(line) = Line::between(&hosts.lab, way, way, 1500) else {
        eprintln!("SKIPPED wire: a far side: ip, ethtool or packet sockets are missing");
        return;
    };
    // At a rate, for which no longer window is needed.
    let paced = ["--direction", "up", "-P", "4", "--rate", "1", "--omit", "4", "--seconds", "5"];
    let found = hosts.bench(&paced);
    assert_eq!(refusals(&found), [], "{found}");
    let mbit = found["runs"][0]["flows"][0]["goodput"].as_f64().unwrap() / 1e6;
    assert!((0.95..1.05).contains(&mbit), "{mbit}: {found}");
    drop(line);
}
