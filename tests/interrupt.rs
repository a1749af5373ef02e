//! Ended at any moment, by Ctrl-C or by kill -9: the machine is as it was before.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::print_stderr, reason = "tests set their own scene")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What must be the same afterwards, byte for byte.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    masks: BTreeMap<PathBuf, String>,
    sysctls: BTreeMap<PathBuf, String>,
    steering: BTreeMap<PathBuf, String>,
    named_namespaces: Vec<String>,
    namespaces: BTreeSet<PathBuf>,
    processes: BTreeSet<String>,
}

impl Machine {
    fn now() -> Self {
        let mut masks = BTreeMap::new();
        for irq in names("/proc/irq") {
            keep(&mut masks, &Path::new("/proc/irq").join(irq).join("smp_affinity"));
        }
        let mut sysctls = BTreeMap::new();
        walk(Path::new("/proc/sys/net"), &mut sysctls);
        let mut steering = BTreeMap::new();
        for device in names("/sys/class/net") {
            for queue in names(format!("/sys/class/net/{device}/queues")) {
                let dir = format!("/sys/class/net/{device}/queues/{queue}");
                for file in ["rps_cpus", "xps_cpus", "rps_flow_cnt"] {
                    keep(&mut steering, &Path::new(&dir).join(file));
                }
            }
        }
        // Programs that we started, and what they started: they carry our state directory. Others on
        // this machine may come and go.
        let ours = format!("LINERATE_STATE_DIR={}", marker().display());
        let mut namespaces = BTreeSet::new();
        let mut processes = BTreeSet::new();
        for pid in names("/proc").iter().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if !environment.windows(ours.len()).any(|part| part == ours.as_bytes()) {
                continue;
            }
            namespaces.extend(fs::read_link(format!("/proc/{pid}/ns/net")));
            processes.insert(pid.clone());
        }
        Self {
            masks,
            sysctls,
            steering,
            named_namespaces: names("/run/netns"),
            namespaces,
            processes,
        }
    }

    /// Once it stands still: what earlier tests left to the kernel takes a moment to be gone.
    fn settled() -> Self {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut last = Self::now();
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = Self::now();
            if now == last || Instant::now() > deadline {
                return now;
            }
            last = now;
        }
    }
}

/// What the names of all our scratch directories begin with.
fn marker() -> PathBuf {
    std::env::temp_dir().join(format!("linerate-{}-", std::process::id()))
}

fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn keep(map: &mut BTreeMap<PathBuf, String>, path: &Path) {
    if let Ok(text) = fs::read_to_string(path) {
        map.insert(path.to_owned(), text);
    }
}

/// Every setting below a sysctl directory, but for counters and what changes by itself.
fn walk(dir: &Path, map: &mut BTreeMap<PathBuf, String>) {
    for name in names(dir) {
        let path = dir.join(&name);
        if path.is_dir() {
            walk(&path, map);
        } else if !name.ends_with("_count") && !name.ends_with("-count") {
            keep(map, &path);
        }
    }
}

/// How long a stop may take: that it ends, not how fast a busy machine is.
const PROMPTLY: Duration = Duration::from_secs(60);

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = PathBuf::from(format!("{}{name}", marker().display()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn tune(&self, blocks: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(["tune", "nat", "--seconds", "0.2", "--omit", "0.1", "--rules", "20"])
            .args(["--blocks", blocks, "-o"])
            .arg(self.0.join("result.json"))
            .env("LINERATE_STATE_DIR", self.0.join("state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// A short experiment in a lab of its own, with more arguments behind.
    fn short(&self, more: &[&str]) -> Command {
        let mut command = self.program("tune");
        command.args(["nat", "--candidates", "one-cpu,rps-all", "--seconds", "0.2", "--omit", "0"]);
        command.args(["--directions", "up,down", "-P", "2", "--blocks", "3", "--seed", "7"]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn program(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.arg(verb).current_dir(&self.0).env("LINERATE_STATE_DIR", self.0.join("state"));
        // Sentences are looked for in one line, wherever the measured figures would break it.
        command.env("COLUMNS", "200");
        command
    }

    /// Until the program has its lock, and its handlers of signals before that.
    fn await_lock(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while names(self.0.join("state")).is_empty() {
            assert!(Instant::now() < deadline, "it does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn settle(&self) {
        let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(["lab", "down"])
            .env("LINERATE_STATE_DIR", self.0.join("state"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Namespaces and processes are taken apart by the kernel a moment after the process is gone.
fn assert_as_before(before: &Machine, context: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let now = Machine::now();
        if now == *before || Instant::now() > deadline {
            assert_eq!(now, *before, "{context}");
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The tests here one after the other: each counts what of this program is on the machine.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn can_run() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED interrupt tests: network namespaces need root");
    }
    root
}

#[test]
fn whenever_it_is_stopped_the_machine_is_as_it_was() {
    let _alone = alone();
    if !can_run() {
        return;
    }
    let before = Machine::settled();
    let mut rng = fastrand::Rng::with_seed(20);
    for round in 0..16 {
        let scratch = Scratch::new(&format!("kill-{round}"));
        let mut child = scratch.tune("100");
        std::thread::sleep(Duration::from_millis(rng.u64(1..1000)));
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        scratch.settle();
        assert_as_before(&before, &format!("killed in round {round}"));
        assert!(names(scratch.0.join("state")).is_empty(), "no journal, no lock is left");
    }
    for (round, which) in [Signal::INT, Signal::TERM, Signal::HUP, Signal::INT].iter().enumerate() {
        let scratch = Scratch::new(&format!("stop-{round}"));
        let child = scratch.tune("100");
        scratch.await_lock();
        std::thread::sleep(Duration::from_millis(rng.u64(1..1500)));
        let asked = Instant::now();
        signal(&child, *which);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{text}");
        assert!(asked.elapsed() < PROMPTLY, "it took {:?}", asked.elapsed());
        assert!(text.contains("interrupted"), "{text}");
        assert_as_before(&before, &format!("stopped by {which:?}"));
        assert!(names(scratch.0.join("state")).is_empty(), "no journal, no lock is left");
    }
}

/// What ran, in order, without the figures.
fn order(result: &serde_json::Value) -> Vec<String> {
    let cells = result["cells"].as_array().unwrap().iter();
    cells
        .map(|c| {
            let direction = &c["measurement"]["direction"];
            format!("{} {} {} {direction}", c["block"], c["position"], c["candidate"])
        })
        .collect()
}

fn read(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn killed_in_the_middle_every_cell_is_reported_and_the_same_experiment_goes_on() {
    let _alone = alone();
    if !can_run() {
        return;
    }
    let scratch = Scratch::new("kept");
    let done = scratch.short(&["-o", "whole.json"]).output().unwrap();
    let whole = order(&read(&scratch.0.join("whole.json")));
    assert_eq!(whole.len(), 3 * 4 * 2, "{}", text(&done));
    assert!(!scratch.0.join("whole.json.unfinished").exists(), "the result has it all");

    let record = scratch.0.join("r.json.unfinished");
    let lines = || fs::read(&record).map_or(0, |t| t.iter().filter(|b| **b == b'\n').count());
    let mut child = scratch.short(&["-o", "r.json"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    // In the second of three blocks.
    while lines() < 1 + 10 {
        assert!(Instant::now() < deadline, "it does not measure");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = lines() - 1;
    assert!((10..24).contains(&kept) && !scratch.0.join("r.json").exists());

    let report = scratch.program("report").args(["r.json.unfinished", "-o", "-"]).output().unwrap();
    assert!(text(&report).contains("the process was killed"), "{}", text(&report));
    // Torn by a power cut: the cell that is not whole is measured again.
    let bytes = fs::read(&record).unwrap();
    fs::write(&record, &bytes[..bytes.len() - 9]).unwrap();
    // Another load is another experiment.
    let other = ["--resume", "r.json.unfinished", "--rules", "9"];
    let refused = scratch.short(&other).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("scenario"), "{}", text(&refused));
    // A new experiment of that name leaves the record to its owner.
    let mut new = scratch.short(&["-o", "r.json"]).spawn().unwrap();
    while !scratch.0.join("r.json.unfinished-1").exists() {
        assert!(Instant::now() < deadline + Duration::from_secs(60), "it is not kept");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&new, Signal::INT);
    new.wait().unwrap();

    let resumed = scratch.short(&["--resume", "r.json.unfinished-1"]).output().unwrap();
    assert!([Some(0), Some(6)].contains(&resumed.status.code()), "{}", text(&resumed));
    let result = read(&scratch.0.join("r.json"));
    assert_eq!(order(&result), whole, "the cells of the seed, in its order");
    assert_eq!((&result["ended"], &result["seed"]), (&"complete".into(), &7.into()));
    let cells = result["cells"].as_array().unwrap();
    let before: Vec<serde_json::Value> = String::from_utf8(bytes)
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["cell"].take())
        .collect();
    assert_eq!(cells[..kept - 1], before[..kept - 1], "what was measured before stays as it was");
}

#[test]
fn a_full_disk_ends_it_with_a_report_and_the_cells_that_fitted() {
    let _alone = alone();
    if !can_run() {
        return;
    }
    let scratch = Scratch::new("full");
    let script = "mount -t tmpfs -o size=72k none . && cd . && \
                  \"$0\" tune nat --candidates one-cpu,rps-all --seconds 0.2 --omit 0 -P 2 \
                  --directions up --blocks 50 --seed 7 -o r.json; code=$?; \
                  \"$0\" report r.json.unfinished -o /dev/stderr; ls >&2; exit $code";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_linerate")]);
    command.current_dir(&scratch.0).env("LINERATE_STATE_DIR", scratch.0.join("state"));
    command.env("COLUMNS", "200");
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("unshare:") || said.contains("mount:") {
        eprintln!("SKIPPED a_full_disk_ends_it_with_a_report_and_the_cells_that_fitted: {said}");
        return;
    }
    assert_eq!(done.status.code(), Some(5), "{}", text(&done));
    assert!(said.contains("no space left") && said.contains("hint: "), "{said}");
    let report = String::from_utf8_lossy(&done.stdout);
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("the record could not be written"), "{report}");
    // What fitted can be reported on.
    assert!(said.contains("times one-cpu") && said.contains("r.json.unfinished"), "{said}");
}
