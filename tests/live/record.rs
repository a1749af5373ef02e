//! `linerate record` on the running kernel: what it says against what the kernel counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::program;
use linerate::machine::host::Live;
use linerate::measure::lab::{Lab, LabSpec};
use linerate::measure::sample::{Telemetry, Watch};
use linerate::model::units::CpuId;

/// A directory of the calling test's own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = std::thread::current().name().unwrap().replace(':', "-");
        let dir = std::env::temp_dir().join(format!("linerate-rec-{}-{name}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn record(args: &[&str]) -> Command {
    let mut command = Command::new(program::path());
    command.arg("record").args(args);
    command
}

/// Header and rows of a table without quotation marks in it.
fn table(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn the_packets_of_a_recording_are_those_that_the_kernel_counted() {
    let lab = match Lab::build(&LabSpec::default()) {
        Ok(lab) => lab,
        Err(e) => return eprintln!("SKIPPED the_packets_of_a_recording: {e}"),
    };
    let scratch = Scratch::new();
    let file = scratch.0.join("out.csv");
    let sent = 500_u64;
    let output = file.display().to_string();
    let args = ["--device", "wan0", "--interval", "0.2", "--seconds", "20", "-o"];
    let start = move || {
        let mut command = record(&args);
        command.arg(output).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let mut running = lab.router.run(start).unwrap().unwrap();
    // The header comes with the first interval: from then on it counts.
    while fs::read_to_string(&file).map_or(true, |text| text.lines().count() < 2) {
        std::thread::sleep(Duration::from_millis(20));
    }
    lab.wan
        .run(move || {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            for _ in 0..sent {
                // Nobody listens there; what counts is the arrival.
                socket.send_to(&[0; 400], "198.18.2.1:9").unwrap();
            }
        })
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(0), "Ctrl-C is how a recording ends");
    let (header, rows) = table(&file);
    let column = |name: &str| header.iter().position(|c| c == name).expect(name);
    let (seconds, pps) = (column("interval_s"), column("wan0_rx_packets_per_s"));
    let number = |cell: &String| cell.parse::<f64>().unwrap();
    let seen: f64 = rows.iter().map(|r| number(&r[seconds]) * number(&r[pps])).sum();
    assert!((seen - sent as f64).abs() < 20.0, "{seen} of {sent} packets\n{header:?}");
    assert!(!header.iter().any(|c| c.starts_with("lan0")), "only the device asked for");
    assert!(rows.iter().all(|row| row.len() == header.len()));
}

#[test]
fn a_recording_is_never_lost_to_the_next_one() {
    let scratch = Scratch::new();
    let file = scratch.0.join("mine.csv");
    fs::write(&file, "an hour of work\n").unwrap();
    let out = record(&["--seconds", "0.1", "-o"]).arg(&file).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("exists"), "{out:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "an hour of work\n");
}

#[test]
fn json_lines_begin_with_their_format_and_a_closed_reader_ends_them() {
    let out = record(&["--seconds", "0.3", "--interval", "0.1", "--json"]).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["format"], "linerate-recording");
    assert!(lines.len() >= 3, "{text}");
    assert!(lines[1]["cpus"][0]["idle"].is_number(), "{text}");
    let mut running = record(&["--interval", "0.1"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take());
    assert_eq!(running.wait().unwrap().code(), Some(0));
}

#[test]
fn what_does_not_fit_the_disk_leaves_whole_lines_and_says_so() {
    let scratch = Scratch::new();
    // A file system of its own in a mount namespace of its own, full after a few rows.
    let script = "mount -t tmpfs -o size=8k none \"$1\" && \"$2\" record --interval 0.1 --seconds 5 \
                  --json -o \"$1/out.jsonl\"; code=$?; cat \"$1/out.jsonl\"; exit $code";
    let out = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(&scratch.0)
        .arg(program::path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    if told.contains("unshare") || told.contains("mount:") {
        return eprintln!("SKIPPED what_does_not_fit_the_disk: {told}");
    }
    assert_eq!(out.status.code(), Some(5), "{told}");
    assert!(told.contains("no space left") && told.contains("what was written is kept"), "{told}");
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.lines().count() > 1 && text.ends_with('\n'), "{text}");
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("whole lines only");
    }
}

#[test]
fn intervals_are_not_kept() {
    const ROLE: &str = "LINERATE_TEST_COUNTS_ITS_MEMORY";
    if std::env::var_os(ROLE).is_none() {
        // In a process of its own: other tests take memory of this one.
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", "record::intervals_are_not_kept", "--nocapture"]).env(ROLE, "1");
        let told = own.output().unwrap();
        let said = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(told.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let anonymous = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line =
            status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let host = Live::here();
    // One interval of as many CPUs takes some 50 KB.
    let watch = Watch { cpus: (0..256).map(CpuId).collect(), ..Watch::default() };
    let mut telemetry = Telemetry::start(&host, watch).unwrap();
    let mut go_on = |times| (0..times).for_each(|_| drop(telemetry.advance().unwrap()));
    go_on(20);
    let early = anonymous();
    go_on(300);
    let late = anonymous();
    assert!(late < early + 4096, "{early} KB after 20 intervals, {late} KB after 320");
}

#[test]
fn ten_a_second_to_one_in_ten_seconds_are_taken_and_every_column_is_documented() {
    for wrong in ["0.05", "11", "0", "often"] {
        let out = record(&["--interval", wrong, "--seconds", "0.1"]).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{wrong}");
    }
    let docs = include_str!("../../docs/record.md");
    for right in ["0.1", "10"] {
        let out = record(&["--interval", right, "--seconds", "0.3"]).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        let text = String::from_utf8(out.stdout).unwrap();
        let header = text.lines().next().unwrap();
        assert!(text.lines().count() > 1, "the end closes the last interval: {text}");
        for column in header.split(',').filter(|c| !c.contains(' ')) {
            // cpu0_net_rx_per_s is described as `_net_rx_` of cpuN.
            let of_cpu = column.strip_prefix("cpu").and_then(|c| c.split_once('_')).map(|c| c.1);
            let name = of_cpu.map(|c| c.trim_end_matches("_share").trim_end_matches("_per_s"));
            let known = match name {
                Some(name) => docs.contains(&format!("_{name}_")),
                None => {
                    let ends = |end: &str| column.ends_with(end) && docs.contains(end);
                    docs.contains(&format!("`{column}`"))
                        || [
                            "_rx_bits_per_s",
                            "_rx_packets_per_s",
                            "_tx_bits_per_s",
                            "_tx_packets_per_s",
                            "_drops_per_s",
                        ]
                        .into_iter()
                        .any(ends)
                        || (column.starts_with("irq_") && (ends("_per_s") || ends("_busiest_cpu")))
                }
            };
            assert!(known, "{column} is not in docs/record.md");
        }
    }
}
