//! What the verbs that change something print with `--json` is what `docs/schema/` says.

use crate::program::{has, lacks};
use crate::router::{Place, Router, need_root, stderr};
use crate::schema::assert_fits;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Output, Stdio};

#[track_caller]
fn printed(output: &Output, format: &str) -> Value {
    let told = stderr(output);
    let value: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {told}"));
    assert_eq!(value["format"], format!("linerate-{format}"), "{value}");
    assert_fits(format, &value);
    value
}

#[test]
fn what_a_change_tells_fits_its_schemas() {
    need_root!();
    let router = Router::new("schemas");
    let run = |line: &str| router.run(&line.split(' ').collect::<Vec<_>>());
    printed(&run("plan --candidate one-cpu --json"), "plans");
    printed(&run("apply --dry-run --json"), "writes");
    let writes = printed(&run("apply --confirm 100 --no-probe --json"), "writes");
    assert_ne!(writes["writes"].as_array().map(Vec::len), Some(0));
    let waiting = printed(&run("status --json"), "status");
    assert_eq!(waiting["waiting"]["watched"], serde_json::json!([]), "{waiting}");
    let kept = printed(&run("confirm --json"), "confirm");
    assert!(kept["seconds_left"].as_f64().unwrap() > 0.0, "{kept}");
    printed(&run("verify --json"), "verify");
    router.set("lan0", "0");
    printed(&run("verify --json"), "verify");
    let drifted = printed(&run("status --json"), "status");
    assert_ne!(drifted["drift"].as_array().map(Vec::len), Some(0), "{drifted}");
    let restored = printed(&run("rollback --force --json"), "rollback");
    assert_ne!(restored["restored"].as_array().map(Vec::len), Some(0), "{restored}");
    if has("tune") {
        printed(&run("tune --factor list --json"), "factors");
    }
}

#[test]
fn what_persisting_tells_fits_its_schemas() {
    need_root!();
    let place = Place::new("schemas-persist");
    let plan = place.run(&["plan", "--candidate", "as-found"]);
    assert!(plan.status.success(), "{}", stderr(&plan));
    let root = place.dir.join("root");
    std::fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
    let run = |words: &[&str]| {
        let mut command = place.command(words);
        command.env("LINERATE_ROOT_DIR", &root).output().unwrap()
    };
    printed(&run(&["persist", "--init", "systemd", "--print", "--json"]), "persist-files");
    let files = printed(&run(&["persist", "--init", "systemd", "--json"]), "persist");
    assert_ne!(files["files"].as_array().map(Vec::len), Some(0), "{files}");
    printed(&run(&["status", "--json"]), "status");
    printed(&run(&["unpersist", "--json"]), "unpersist");
}

#[test]
fn an_agent_tells_where_it_listens() {
    if lacks("agent") {
        return;
    }
    let place = Place::new("schemas-agent");
    let mut command = place.command(&["agent", "--listen", "127.0.0.1:0", "--json", "-q"]);
    let mut agent = command.stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(agent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut lines: Vec<String> = Vec::new();
    for line in said {
        let ends = line == "}";
        lines.push(line);
        if ends {
            break;
        }
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
    let told: Value = serde_json::from_str(&lines.concat()).unwrap();
    assert_fits("agent", &told);
    let address: SocketAddr = told["address"].as_str().unwrap().parse().unwrap();
    assert!(address.ip().is_loopback() && address.port() > 0, "{told}");
}

#[test]
fn what_labs_tell_fits_their_schemas() {
    need_root!();
    if lacks("lab") {
        return;
    }
    let place = Place::new("schemas-lab");
    let labs = printed(&place.run(&["lab", "up", "--json"]), "labs");
    let id = labs["labs"][0]["id"].as_str().unwrap().to_owned();
    let listed = printed(&place.run(&["lab", "list", "--json"]), "labs");
    let removed = printed(&place.run(&["lab", "down", &id, "--json"]), "labs-removed");
    assert!(listed["labs"].as_array().unwrap().iter().any(|lab| lab["id"] == id.as_str()));
    assert_eq!(removed["labs"][0], id.as_str());
}
