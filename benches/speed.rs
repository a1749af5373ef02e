//! How long the program keeps its user waiting: `cargo bench` prints it, nothing asserts it, for
//! absolute times say little on a shared machine; what it takes of a CPU is told beside them.
//! Budgets: show 30 ms (of the largest machine 200 ms and 64 MB), a plan 20 ms and of the largest
//! machine 1 s, apply of 200 masks 50 ms, an event 100 ms of its own time.
//!
//! The generator and the sampler have their own: `benches/generators.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a bench prints")]

#[path = "../tests/scene/mod.rs"]
mod scene;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linerate::change::apply::{Changer, Hold, RolledBack};
use linerate::machine::host::{FakeHost, HostRead, Live};
use linerate::machine::sys::netns::NetnsThread;
use linerate::model::plan::{Candidate, Plan};
use linerate::model::snapshot::Snapshot;
use linerate::{decide::plan, machine::discover, machine::store};
use scene::big::{Size, machine};

/// Median and worst of `times` runs.
fn time(what: &str, times: usize, mut job: impl FnMut() -> Duration) {
    let mut all: Vec<Duration> = (0..times).map(|_| job()).collect();
    all.sort();
    println!("{what}: median {:?}, worst {:?} of {times}", all[times / 2], all[times - 1]);
}

/// `show` of a captured machine of 512 CPUs, 8 cards of 64 queues and 4000 lines, and of one with half
/// the cards and lines: time and peak memory. Budget: 200 ms and 64 MB, growing linearly.
fn large_machines() {
    for (what, size) in [("half", Size::HALF), ("whole", Size::BUDGET)] {
        let name = format!("linerate-bench-{}-{what}", std::process::id());
        let (file, root) =
            (std::env::temp_dir().join(format!("{name}.tar.gz")), std::env::temp_dir().join(name));
        let nodes = machine(size);
        std::fs::write(&file, scene::archive(&nodes, 6)).unwrap();
        scene::unpack(&nodes, &root).unwrap();
        drop(nodes);
        for (kind, path) in [("capture", &file), ("directory", &root)] {
            let mut peak = 0;
            let before = children();
            time(&format!("show of a {kind}, {what} of {size:?}"), 10, || {
                let start = Instant::now();
                let mut show = Command::new(env!("CARGO_BIN_EXE_linerate"))
                    .args(["show", "--host"])
                    .arg(path)
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .unwrap();
                // Read before the end: what is left of a process then has no memory any more. Its
                // text is longer than a page, and it waits for room.
                let status = format!("/proc/{}/status", show.id());
                let mut output = show.stdout.take().unwrap();
                rustix::pipe::fcntl_setpipe_size(&output, 4096).unwrap();
                let mut first = [0; 1];
                std::io::Read::read_exact(&mut output, &mut first).unwrap();
                let status = std::fs::read_to_string(status).unwrap_or_default();
                let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
                let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
                peak = peak.max(kib.unwrap_or(0));
                std::io::copy(&mut output, &mut std::io::sink()).unwrap();
                assert!(show.wait().unwrap().success());
                start.elapsed()
            });
            let own = (children() - before) / 10;
            println!("  of its own time: {own:?} on average; peak memory {peak} KiB");
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
    }
}

fn main() {
    large_machines();
    time("linerate show, the whole process", 50, || {
        let start = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_linerate")).arg("show").output().unwrap();
        assert!(output.status.success());
        start.elapsed()
    });

    // Budgets: 20 ms and 1 s. Between two devices there are ways that differ: three patterns.
    let devices = |count: usize, queues: u32| -> Vec<(String, u32)> {
        (0..count).map(|i| (format!("eth{i}"), queues)).collect()
    };
    for (cpus, devices) in [
        (8, devices(2, 8)),
        (8, devices(2, 4)),
        (8, devices(4, 4)),
        (8, devices(2, 1)),
        (256, devices(2, 256)),
        (256, devices(8, 64)),
    ] {
        let named: Vec<(&str, u32)> = devices.iter().map(|(n, q)| (n.as_str(), *q)).collect();
        let snapshot = FakeHost::router(cpus, &named).snapshot();
        let queues: u32 = devices.iter().map(|d| d.1).sum();
        let mut said = String::new();
        time(&format!("plan for {cpus} CPUs x {queues} queues"), 10, || {
            let start = cpu();
            let traffic = plan::Traffic::default();
            let made = plan::planned(&snapshot, &traffic, plan::Profile::Router);
            let took = cpu() - start;
            let m = made.unwrap().model;
            said = format!("largest load {}, bound {}, {} nodes", m.largest, m.bound, m.nodes);
            took
        });
        println!("  (CPU time) {said}");
    }

    let netns = match NetnsThread::create() {
        Ok(netns) => Arc::new(netns),
        Err(e) => {
            println!("apply of 200 masks: not run, no network namespace: {e}");
            return;
        }
    };
    // The product makes veths of one queue; two hundred need iproute2.
    let made = netns.run(|| {
        let peer = ["type", "veth", "peer", "name", "peer0", "numrxqueues", "200"];
        let add = ["link", "add", "eth0", "numrxqueues", "200"];
        let up = |name| Command::new("ip").args(["link", "set", name, "up"]).status();
        Command::new("ip")
            .args(add)
            .args(peer)
            .status()
            .and_then(|_| up("eth0"))
            .and_then(|_| up("peer0"))
    });
    if !made.unwrap().is_ok_and(|status| status.success()) {
        println!("apply of 200 masks: not run, needs ip from iproute2");
        return;
    }
    let host = Live::in_netns(Arc::clone(&netns));
    let place = std::path::PathBuf::from(format!("/dev/shm/linerate-bench-{}", std::process::id()));
    let state = store::StateDir::at(place.join("state"));
    let snapshot = discover::snapshot(&host);
    let candidates = plan::candidates(&snapshot);
    let mut candidate = candidates.get(plan::name::RPS_ALL).expect("two CPUs").clone();
    candidate.settings.retain(|c| c.knob.device() == Some("eth0"));
    candidate.settings.truncate(200);
    std::fs::create_dir_all(place.join("etc/linerate")).unwrap();
    apply_all(&host, &snapshot, &candidate, &state);
    event(&netns, &host, &place, &plan::plan_for(&snapshot, candidate), &state);
    std::fs::remove_dir_all(&place).unwrap();
}

fn apply_all(host: &Live, snapshot: &Snapshot, candidate: &Candidate, state: &store::StateDir) {
    let count = candidate.settings.len();
    let mut own = Vec::new();
    time(&format!("apply of {count} masks, journal and read-back included"), 20, || {
        let look = |_: &dyn HostRead| snapshot.clone();
        let mut changer = Changer::begin(host, state, "bench", Duration::ZERO, look).unwrap();
        drop(changer.snapshot().clone());
        let (start, busy) = (Instant::now(), cpu());
        let stop = AtomicBool::new(false);
        let applied = changer.apply(candidate, &stop).unwrap();
        let took = start.elapsed();
        own.push(cpu() - busy);
        assert_eq!(applied.writes.len(), count);
        drop(changer);
        roll_back(host, state);
        took
    });
    own.sort();
    println!("  of this process's own time: median {:?}", own[own.len() / 2]);
}

fn roll_back(host: &Live, state: &store::StateDir) -> RolledBack {
    Hold::take(host, state, "bench", Duration::ZERO).unwrap().roll_back(false).unwrap()
}

/// What udev and hotplug start when a device appears: a whole process, with the plan's settings of
/// that device to make. Budget: 100 ms of its own time.
fn event(
    netns: &NetnsThread,
    host: &Live,
    place: &std::path::Path,
    plan: &Plan,
    state: &store::StateDir,
) {
    let text = store::plan::to_text(plan).unwrap();
    std::fs::write(place.join("etc/linerate/plan.toml"), text).unwrap();
    let times = 20;
    let before = children();
    time(&format!("event with {} settings to make", plan.candidate.settings.len()), times, || {
        let mut linerate = Command::new(env!("CARGO_BIN_EXE_linerate"));
        linerate.args(["event", "--", "eth0"]).env("LINERATE_ROOT_DIR", place);
        linerate.env("LINERATE_STATE_DIR", place.join("state"));
        let start = Instant::now();
        let status = netns.run(move || linerate.status()).unwrap().unwrap();
        let took = start.elapsed();
        assert!(status.success());
        let back = roll_back(host, state);
        assert_eq!(back.restored.len(), plan.candidate.settings.len());
        took
    });
    println!("  of its own time: {:?} on average", (children() - before) / times as u32);
}

/// CPU time of this process.
fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// CPU time of its children that ended: cutime and cstime of proc(5), in hundredths.
fn children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[13..15].iter().map(|t| t.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
