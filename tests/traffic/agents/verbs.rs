//! `sweep` and `tune` over the wire, and what is looked at beside a load.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::hosts::{Hosts, json};
use super::{PATIENCE, alone, output, stderr};

#[test]
#[ignore = "slow: make test runs it"]
fn round_trips_headroom_and_small_frames_are_seen_between_agents() {
    let _alone = alone();
    let Some(hosts) = Hosts::start("beside", false) else { return };
    let short =
        ["--direction", "down", "--seconds", "1", "--omit", "0.1", "--rate", "10", "-P", "1"];
    let found = hosts.bench(&[&short[..], &["--latency"]].concat());
    let beside = &found["latency"][0];
    assert_eq!(beside["direction"], "down", "{found}");
    for when in ["idle", "loaded"] {
        let seen = &beside[when];
        let at = |q: &str| seen[q].as_f64().unwrap_or_else(|| panic!("{seen}"));
        assert!((20..=300).contains(&seen["probes"].as_u64().unwrap()), "{seen}");
        assert!(at("p50") > 1e-6 && at("p50") < 0.5 && seen["p999"].is_null(), "{seen}");
    }
    let found = hosts.bench(&[&short[..], &["--headroom"]].concat());
    let cpus = found["headroom"][0]["cpus"].as_array().unwrap_or_else(|| panic!("{found}"));
    assert!(!cpus.is_empty(), "{found}");
    let spinning = |pid: u32| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let names = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("comm")).ok());
        names.filter(|name| name.starts_with("lr-")).count()
    };
    for agent in [&hosts.lan, &hosts.wan, &hosts.router] {
        let until = Instant::now() + PATIENCE;
        while spinning(agent.child.id()) > 0 {
            assert!(Instant::now() < until, "a spinner or a probe is left: {}", agent.said());
            thread::sleep(Duration::from_millis(20));
        }
    }
    // Without the router's agent nobody can spin there, and it says so.
    let mut command = hosts.command(&["bench"], &short);
    command.arg("--headroom");
    let done = output(Some(&hosts.lab.lan), command);
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert!(stderr(&done).contains("--router HOST"), "{}", stderr(&done));

    // 64 bytes on the wire each: 46 of IP, 18 of payload.
    for direction in ["up", "down"] {
        let small =
            ["--protocol", "udp", "--rate", "0.5", "--datagram", "18", "--frames", "-P", "2"];
        let small = [&small[..], &["--direction", direction, "--seconds", "1"]].concat();
        let until = Instant::now() + PATIENCE;
        loop {
            let run = &hosts.bench(&small)["runs"][0];
            if run["refusals"].as_array().unwrap().is_empty() {
                assert!(run["flows"][0]["received"].as_u64() > Some(1000), "{run}");
                let mean = run["packet_bytes"].as_f64().unwrap();
                assert!((59.0..=70.0).contains(&mean), "14 + 20 + 8 + 18 bytes: {run}");
                break;
            }
            assert!(Instant::now() < until, "{run}");
        }
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_sweep_between_agents_searches_and_is_compared_like_any_other() {
    let _alone = alone();
    let Some(hosts) = Hosts::start("sweep", false) else { return };
    let sweep = |what: &str, more: &[&str]| {
        let mut command = hosts.command(&["sweep", what, "--json"], more);
        command.args(["--repeats", "2", "-P", "1"]);
        output(Some(&hosts.lab.lan), command)
    };
    let rate = ["--to", "4", "--from", "2", "--steps", "2", "--run", "0.3", "--seconds", "20"];
    let rate = [&rate[..], &["--router", "198.18.1.1", "-o", "rate.json"]].concat();
    let found = json(&sweep("rate", &rate));
    assert_eq!((&found["class"], &found["candidate"]), (&"lab".into(), &"as-found".into()));
    assert_eq!(found["agents"].as_array().unwrap().len(), 3, "{found}");
    assert_eq!(found["machine"]["hostname"], found["agents"][2]["hostname"]);
    let points = found["points"].as_array().unwrap();
    assert_eq!(points.len(), 4, "{found}");
    let cpu = |point: &Value| point["busiest_cpu"].as_f64();
    assert!(points.iter().all(|p| cpu(p).is_some()), "the router was not looked at: {found}");
    assert!(found["knee"].is_object() && !found["searches"].as_array().unwrap().is_empty());

    let found = json(&sweep("mss", &["--sizes", "536,1400", "--run", "0.3", "-o", "mss.json"]));
    let points = found["points"].as_array().unwrap();
    assert_eq!(points.len(), 4, "{found}");
    assert!(points.iter().all(|p| cpu(p).is_none()), "nobody looked at the router: {found}");
    assert!(found["notes"][0].as_str().unwrap().contains("--router"), "{found}");
    // Behind NAT the WAN host knows no way to the LAN, but the device that has its own address.
    let way = &found["agents"][1]["ways"][0];
    assert_eq!((&way["device"], &way["mtu"]), (&"eth0".into(), &1500.into()), "{found}");

    // On a busy machine a size may have no run that stands; then it has no figure either.
    let stands = |p: &&Value| p["refusals"].as_array().unwrap().is_empty();
    let sizes: BTreeSet<u64> =
        points.iter().filter(stands).map(|p| p["size"].as_u64().unwrap()).collect();

    let done = sweep("mtu", &[]);
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert!(stderr(&done).contains("agents change no setting"), "{}", stderr(&done));
    let done = sweep("rate", &["--to", "900000"]);
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));

    let mut command = super::program();
    command.args(["compare", "mss.json", "mss.json", "--json"]).current_dir(&hosts.dir);
    let done = output(None, command);
    if sizes.is_empty() {
        assert_eq!(done.status.code(), Some(6), "{}", stderr(&done));
    } else {
        let rows = json(&done);
        assert_eq!(rows["rows"].as_array().map(Vec::len), Some(sizes.len()), "{rows}");
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn tune_between_agents_leaves_this_router_as_found_however_it_ends() {
    let _alone = alone();
    let Some(hosts) = Hosts::start("tune", false) else { return };
    let tune = |more: &[&str]| {
        let mut command = hosts.command(&["tune", "nat"], more);
        command.args(["--factor", "rps=off,all", "--seconds", "0.3", "--omit", "0", "-P", "2"]);
        command.args(["--directions", "up", "--json"]);
        command
    };
    let mask = || {
        let file = "/sys/class/net/lan0/queues/rx-0/rps_cpus";
        let text = hosts.lab.router.run(move || std::fs::read_to_string(file)).unwrap().unwrap();
        u64::from_str_radix(&text.trim().replace(',', ""), 16).unwrap()
    };
    let settled = |what: &str, done: &dyn Fn() -> bool| {
        let until = Instant::now() + PATIENCE;
        while !done() {
            assert!(Instant::now() < until, "waited in vain: {what}");
            thread::sleep(Duration::from_millis(5));
        }
    };
    // Where it can't work it says so before anything is set.
    for (more, words) in [(&[][..], "on the router itself"), (&["--router", "198.18.1.1"], "afar")]
    {
        let done = output(Some(&hosts.lab.router), tune(more));
        assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
        assert!(stderr(&done).contains(words), "{}", stderr(&done));
    }
    let here = ["--router", "here"];
    let whole =
        [&here[..], &["--blocks", "3", "-o", "result.json", "--report", "r.html", "--apply"]]
            .concat();
    let done = output(Some(&hosts.lab.router), tune(&whole));
    let found = json(&done);
    let experiment = &found["experiment"];
    assert_eq!((&experiment["class"], &experiment["baseline"]), (&"lab".into(), &"rps=off".into()));
    assert_eq!(experiment["agents"].as_array().unwrap().len(), 3, "{experiment}");
    assert_eq!(experiment["cells"].as_array().unwrap().len(), 12, "{experiment}");
    for setting in experiment["settings"].as_array().unwrap() {
        assert_eq!(setting["before"], setting["after"], "{setting}");
    }
    // Three blocks can prove nothing, so nothing is kept.
    assert!(stderr(&done).contains("left as found"), "{}", stderr(&done));
    assert_eq!(mask(), 0);
    let page = std::fs::read_to_string(hosts.dir.join("r.html")).unwrap();
    assert!(page.contains("LAN host") && page.contains("MTU 1500"), "who took part is told");

    let long = [&here[..], &["--blocks", "500"]].concat();
    for end in ["KILL", "HUP", "the WAN's agent"] {
        let mut command = tune(&long);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = hosts.spawn(&hosts.lab.router, command);
        settled("a setting on trial", &|| mask() != 0);
        let signal = |signal| kill_process(Pid::from_child(&child), signal).unwrap();
        match end {
            "KILL" => signal(Signal::KILL),
            "HUP" => signal(Signal::HUP),
            _ => hosts.wan.signal(Signal::KILL),
        }
        let status = child.wait().unwrap();
        assert!(!status.success(), "{end}: {status}");
        settled("as found", &|| mask() == 0);
        let state = hosts.dir.join("state");
        settled("the guard's end", &|| {
            !state.join("deadman.json").exists() && !state.join("lock").exists()
        });
        // The agents are free again.
        hosts.lan.wait_for_again("done", "in control");
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_lost_agent_ends_tune_as_ctrl_c_does() {
    let _alone = alone();
    let Some(hosts) = Hosts::start("tunelost", false) else { return };
    let mut command = hosts.command(&["tune", "nat", "--router", "here", "--json"], &[]);
    command.args(["--factor", "rps=off,all", "--seconds", "0.3", "--omit", "0", "-P", "2"]);
    command.args(["--directions", "up", "--blocks", "10", "-o", "lost.json"]);
    let child = hosts.spawn(&hosts.lab.router, command);
    let record = hosts.dir.join("lost.json.unfinished");
    let until = Instant::now() + PATIENCE;
    // A first line, four cells a block: in the third of ten.
    while std::fs::read_to_string(&record).map_or(0, |t| t.lines().count()) < 1 + 9 {
        assert!(Instant::now() < until, "it does not measure");
        thread::sleep(Duration::from_millis(5));
    }
    hosts.wan.signal(Signal::KILL);
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(6), "{}", stderr(&done));
    assert!(stderr(&done).contains("wan agent"), "{}", stderr(&done));
    let found = json(&done);
    let text = std::fs::read_to_string(hosts.dir.join("lost.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&result["ended"], &found["experiment"]["cells"]),
        (&"lost-agent".into(), &result["cells"])
    );
    assert!(result["cells"].as_array().unwrap().len() >= 9, "{text}");
    for setting in result["settings"].as_array().unwrap() {
        assert_eq!(setting["before"], setting["after"], "{setting}");
    }
    assert!(!record.exists());
}
