//! Three hosts in three namespaces, each with its agent; where that is asked for, each on a machine
//! of its own as far as an agent can see.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use linerate::error::ExitCode;
use linerate::machine::sys::netns::NetnsThread;
use linerate::measure::lab::{Lab, LabSpec};
use serde_json::Value;

use super::{PATIENCE, Running, output, program, scratch, spawn, stderr, token_file};

pub(super) struct Hosts {
    pub(super) lan: Running,
    pub(super) wan: Running,
    pub(super) router: Running,
    pub(super) lab: Lab,
    pub(super) dir: PathBuf,
    token: PathBuf,
}

impl Hosts {
    /// `None` where this can't be had, which is then told.
    pub(super) fn start(name: &str, apart: bool) -> Option<Self> {
        let skipped = |why: &dyn std::fmt::Display| eprintln!("SKIPPED wire::{name}: {why}");
        let lab = match Lab::build(&LabSpec::default()) {
            Ok(lab) => lab,
            Err(e) if matches!(e.code(), ExitCode::NotPermitted | ExitCode::NotSupported) => {
                skipped(&e);
                return None;
            }
            Err(e) => panic!("{e}"),
        };
        let dir = scratch(name);
        let token = token_file(&dir, "token", "a secret for this test alone\n");
        let start = |netns: &NetnsThread, at: &str| {
            let wrap = if apart { boot(&dir, at) } else { Vec::new() };
            Running::start_in(&wrap, Some(netns), at, Some(&token))
        };
        if apart && !unshare(&boot(&dir, "trial")) {
            skipped(&"no mount namespaces here to give each host a boot of its own");
            return None;
        }
        let lan = start(&lab.lan, "198.18.1.2");
        let router = start(&lab.router, "198.18.1.1");
        let wan = start(&lab.wan, "198.18.2.2");
        Some(Self { lan, wan, router, lab, dir, token })
    }

    /// The program with these hosts; its state is its own.
    pub(super) fn command(&self, verb: &[&str], more: &[&str]) -> Command {
        let mut command = program();
        command.args(verb).args(["--lan", "198.18.1.2", "--wan", "198.18.2.2", "--token-file"]);
        command.arg(&self.token).args(more).current_dir(&self.dir);
        command.env("LINERATE_STATE_DIR", self.dir.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `bench`, controlled from the LAN, with the router's agent: what it printed.
    pub(super) fn bench(&self, more: &[&str]) -> Value {
        json(&output(Some(&self.lab.lan), self.bench_command(more)))
    }

    /// The same, with something done once the LAN's agent has begun the run.
    pub(super) fn bench_beside(&self, more: &[&str], act: impl FnOnce()) -> Value {
        let begun = |hosts: &Self| hosts.lan.said().matches("run: ").count();
        let before = begun(self);
        let child = self.spawn(&self.lab.lan, self.bench_command(more));
        let until = Instant::now() + PATIENCE;
        while begun(self) == before && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        act();
        json(&child.wait_with_output().unwrap())
    }

    pub(super) fn bench_command(&self, more: &[&str]) -> Command {
        let mut command = self.command(&["bench", "nat"], &["--router", "198.18.1.1", "--json"]);
        command.args(more);
        command
    }

    pub(super) fn spawn(&self, netns: &Arc<NetnsThread>, command: Command) -> Child {
        spawn(Some(netns), command)
    }

    /// Until a bench like this stands: other programs take their CPU time from this one.
    pub(super) fn stands(&self, more: &[&str]) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let json = self.bench(more);
            if refusals(&json).is_empty() {
                return json;
            }
            assert!(Instant::now() < until, "{:?}", refusals(&json));
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// What a command of `sh -c` must do first to be on another boot: the kernel's number of it is a file.
fn boot(dir: &std::path::Path, name: &str) -> Vec<String> {
    let file = token_file(dir, &format!("boot-{name}"), &format!("boot of {name}\n"));
    let bind = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    ["unshare", "-m", "sh", "-c", bind, file.to_str().unwrap()].map(str::to_owned).to_vec()
}

/// Whether these words can go before a command here.
pub(super) fn unshare(wrap: &[String]) -> bool {
    let mut command = Command::new(&wrap[0]);
    command.args(&wrap[1..]).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

pub(super) fn json(done: &Output) -> Value {
    let told: Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(done)));
    crate::schema::assert_fits("a measurement", &told);
    told
}

/// `(code, why)` of every run.
pub(super) fn refusals(json: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let runs = json["runs"].as_array().unwrap().iter();
    let all = runs.flat_map(|run| run["refusals"].as_array().unwrap());
    all.map(|r| (text(&r["code"]), text(&r["why"]))).collect()
}

/// Why a run was refused by this rule, if it was.
pub(super) fn why(json: &Value, code: &str) -> Option<String> {
    refusals(json).into_iter().find(|(found, _)| found == code).map(|(_, why)| why)
}
