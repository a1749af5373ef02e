//! A machine captured and seen again is the same machine, with nothing in the file that says whose.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program;
use linerate::machine::capture::Capture;
use linerate::machine::discover::{self, snapshot};
use linerate::machine::host::{Archive, Captured, HostRead, Live, Query, Recorder, Tree, query_as};
use linerate::measure::lab::{Lab, LabSpec};
use linerate::model::evidence::{CpuTime, Moved, Window};
use linerate::model::feature::Features;
use linerate::model::snapshot::Snapshot;
use rustix::io::Errno;
use serde_json::Value;

/// A directory of the calling test's own.
fn scratch() -> PathBuf {
    let name = std::thread::current().name().unwrap().replace(':', "-");
    let dir = std::env::temp_dir().join(format!("linerate-capture-{}-{name}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    dir
}

/// Without what moves while it is looked at, and without name and id, which are others in a
/// capture.
fn still(mut found: Snapshot) -> Value {
    found.machine.hostname = "some name".into();
    found.machine.id = found.machine.id.map(|_| "some id".into());
    for irq in &mut found.irqs {
        irq.counts.iter_mut().for_each(|(_, count)| *count = 0);
    }
    // Both belong to the whole machine and rise with every other test's traffic.
    for cpu in &mut found.path.softnet {
        (cpu.packets, cpu.dropped, cpu.squeezed, cpu.received_rps) = (0, 0, 0, 0);
    }
    for device in &mut found.netdevs {
        device.drops.clear();
        device.counters.clear();
    }
    found.path.conntrack_count = found.path.conntrack_count.map(|_| 0);
    // Of the evidence what it is about stays: devices, queues, lines, CPUs and threads.
    if let Some(evidence) = &mut found.evidence {
        evidence.window = Window::None;
        evidence.devices.values_mut().for_each(|moved| *moved = Moved::default());
        evidence.lines.clear();
        evidence.softnet = found.path.softnet.clone();
        evidence.cpus.values_mut().for_each(|time| *time = CpuTime::default());
        for queue in evidence.queues.values_mut().flatten() {
            (queue.rx, queue.tx) = (None, None);
        }
        for poller in &mut evidence.pollers {
            (poller.cpu_seconds, poller.last_cpu) = (None, None);
        }
    }
    serde_json::to_value(found).unwrap()
}

/// Captures `host`, opens the capture and compares what discovery says of both.
fn same_seen_again(host: &dyn HostRead) -> Captured {
    let mut live = None;
    let capture = Capture::take(host, |door| live = Some(snapshot(door)));
    let mut redactor = capture.redactor();
    let (packed, summary) = capture.pack(&mut redactor).unwrap();
    assert!(summary.files > 20 && summary.answers >= 3, "{summary:?}");
    let again = Archive::from_bytes(&packed).unwrap();
    let live = serde_json::to_vec(&still(live.unwrap())).unwrap();
    let live: Value = serde_json::from_slice(&redactor.text(&live)).unwrap();
    let seen = still(snapshot(&again));
    assert_eq!(seen, live, "the capture tells another machine than the live one");
    // A second look through the live door agrees with the recorder's: it changes no answer.
    let direct = serde_json::to_vec(&still(snapshot(host))).unwrap();
    assert_eq!(live, serde_json::from_slice::<Value>(&redactor.text(&direct)).unwrap());
    again
}

#[test]
fn this_machine_seen_again_is_the_same() {
    let again = same_seen_again(&Live::here());
    let cpus = again.text(Path::new("/sys/devices/system/cpu/online")).unwrap();
    assert_eq!(cpus, Live::here().text(Path::new("/sys/devices/system/cpu/online")).unwrap());
}

#[test]
fn a_labs_router_seen_again_is_the_same() {
    let lab = match Lab::build(&LabSpec::default()) {
        Ok(lab) => lab,
        Err(e) => {
            eprintln!("SKIPPED a_labs_router_seen_again_is_the_same: {e}");
            return;
        }
    };
    let host = lab.router_host();
    let again = same_seen_again(&host);
    let offloads: Features = query_as(&again, &Query::Features("lan0".into())).unwrap();
    assert!(!offloads["rx-gro"].active);
    let missing = again.query(&Query::Features("eth99".into())).unwrap_err();
    assert_eq!(missing.errno, Errno::NODATA, "nobody asked");
}

#[test]
fn a_capture_of_a_capture_is_the_same_machine() {
    let again = |host: &dyn HostRead, name: &str| {
        let capture = Capture::take(host, |door| drop(snapshot(door)));
        let (packed, _) = capture.pack(&mut capture.redactor()).unwrap();
        let again = Archive::from_bytes(&packed).unwrap();
        assert_eq!(still(snapshot(&again)), still(snapshot(host)), "{name}");
    };
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts");
    for name in ["rk3399-6-dwmac+r8169-5.4", "rk3328-4-dwmac+r8152-6.6"] {
        again(&Tree::open(&fixtures.join(name)).unwrap(), name);
    }
    // As it was packed by the version of its day.
    let guest = "x86-4-vmxnet3+e1000e+virtio-6.1/capture.tar.gz";
    again(&Archive::open(&fixtures.join(guest)).unwrap(), guest);
}

/// A machine with one device and every kind of failure, as a directory.
fn machine(root: &Path) {
    let device = root.join("sys/devices/pci0000:00/0000:00:03.0/net/enxa8a159010203");
    for dir in
        ["proc/sys/kernel", "sys/class/net", "sys/devices/system/cpu", "etc/config", "linerate"]
    {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    std::fs::create_dir_all(&device).unwrap();
    let put = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
    put("proc/sys/kernel/hostname", "annas-router\n");
    put("proc/sys/kernel/osrelease", "6.6.30\n");
    put("sys/devices/system/cpu/online", "0-1\n");
    put("sys/devices/system/cpu/present", "0-1\n");
    put("etc/machine-id", "8d1b31a8a0f84f2b9a3e5c7d9b1f3e5a\n");
    put(
        "etc/config/network",
        "config interface 'wan'\n\toption username 'anna@isp.example'\n\toption password 'geheim!1'\n\
         \toption ipaddr '84.12.3.4'\n\toption ip6addr '2a02:1:2:3::5/64'\n\toption macaddr 'A8:A1:59:01:02:03'\n",
    );
    put("proc/cmdline", "console=ttyS0 ip=84.12.3.4 host=annas-router\n");
    put(
        "linerate/errors",
        "read EINVAL /sys/class/net/enxa8a159010203/speed\nlist EACCES /proc/irq\nquery EOPNOTSUPP qdiscs\n",
    );
    std::fs::write(device.join("mtu"), "1500\n").unwrap();
    std::fs::write(device.join("address"), "a8:a1:59:01:02:03\n").unwrap();
    std::fs::write(device.join("speed"), "").unwrap();
    std::os::unix::fs::symlink(
        "../../devices/pci0000:00/0000:00:03.0/net/enxa8a159010203",
        root.join("sys/class/net/enxa8a159010203"),
    )
    .unwrap();
}

#[test]
fn failures_are_seen_again_as_they_were() {
    let root = scratch();
    machine(&root);
    let tree = Tree::open(&root).unwrap();
    let device = Path::new("/sys/class/net/enxa8a159010203");
    let wanted = |host: &dyn HostRead, device: &Path| {
        let errno =
            |answer: Result<Vec<u8>, linerate::machine::host::HostError>| answer.unwrap_err().errno;
        assert_eq!(errno(host.read(&device.join("speed"))), Errno::INVAL);
        assert_eq!(host.list(Path::new("/proc/irq")).unwrap_err().errno, Errno::ACCESS);
        assert_eq!(errno(host.query(&Query::Qdiscs)), Errno::OPNOTSUPP);
        assert_eq!(errno(host.read(Path::new("/proc/none"))), Errno::NOENT);
        assert_eq!(errno(host.read(device)), Errno::ISDIR);
        assert_eq!(host.text(&device.join("mtu")).unwrap(), "1500");
    };
    wanted(&tree, device);
    let capture = Capture::take(&tree, |door| {
        wanted(door, device);
        drop(snapshot(door));
    });
    let (packed, _) = capture.pack(&mut capture.redactor()).unwrap();
    let again = Archive::from_bytes(&packed).unwrap();
    let device = Path::new("/sys/class/net/enx020000000001");
    wanted(&again, device);
    // The machine has an address file, and nobody captured it: not the same as having none.
    assert_eq!(again.read(&device.join("address")).unwrap_err().errno, Errno::NODATA);
    assert_eq!(
        again.resolve(device).unwrap(),
        Path::new("/sys/devices/pci0000:00/0000:00:03.0/net/enx020000000001")
    );
    std::fs::remove_dir_all(root).unwrap();
}

/// The whole archive, unpacked, as one heap of bytes.
pub(crate) fn unpacked(packed: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

fn holds(heap: &[u8], needle: &str) -> bool {
    heap.windows(needle.len()).any(|w| w.eq_ignore_ascii_case(needle.as_bytes()))
}

const PRIVATE: [&str; 8] = [
    "annas-router",
    "a8:a1:59",
    "a8a159010203",
    "84.12.3.4",
    "2a02:1:2:3",
    "geheim",
    "anna@isp",
    "8d1b31a8a0f84f2b",
];

#[test]
fn nothing_in_a_capture_says_whose_machine_it_is() {
    let root = scratch();
    machine(&root);
    let tree = Tree::open(&root).unwrap();
    let mut capture = Capture::take(&tree, |door| {
        drop(snapshot(door));
        door.read(Path::new("/sys/class/net/enxa8a159010203/address")).unwrap();
    });
    capture.sample(&tree);
    let (packed, summary) = capture.pack(&mut capture.redactor()).unwrap();
    let heap = unpacked(&packed);
    for private in PRIVATE {
        assert!(!holds(&heap, private), "{private} is in the capture");
    }
    assert!(summary.redacted >= 5, "{summary:?}");
    let again = Archive::from_bytes(&packed).unwrap();
    let address = again.text(Path::new("/sys/class/net/enx020000000001/address")).unwrap();
    let config = again.text(Path::new("/etc/config/network")).unwrap();
    assert!(config.contains(&format!("macaddr '{address}'")), "equal stays equal: {config}");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn the_recorder_keeps_links_as_links() {
    let root = scratch();
    machine(&root);
    let tree = Tree::open(&root).unwrap();
    let recorder = Recorder::new(&tree);
    recorder.read(Path::new("/sys/class/net/enxa8a159010203/mtu")).unwrap();
    let record = recorder.into_record();
    let real = Path::new("/sys/devices/pci0000:00/0000:00:03.0/net/enxa8a159010203");
    assert_eq!(record.links[Path::new("/sys/class/net/enxa8a159010203")], real);
    assert_eq!(record.files[&real.join("mtu")], b"1500\n");
    assert!(record.errors.is_empty());
    std::fs::remove_dir_all(root).unwrap();
}

fn linerate(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(program::path());
    command.args(args).env("NO_COLOR", "1").output().unwrap()
}

#[test]
fn the_command_writes_a_file_that_show_takes() {
    let dir = scratch();
    let file = dir.join("c.tar.gz");
    let file = file.to_str().unwrap();
    let made = linerate(&["capture", "-o", file, "--samples", "2", "--interval", "0.1"]);
    let text = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(text.contains("2 samples of counters") && text.contains("show --host"), "{text}");
    let shown = linerate(&["show", "cpus", "--host", file]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert_eq!(shown.stdout, linerate(&["show", "cpus"]).stdout);
    // Any tar unpacks it, to a directory that --host takes as well.
    let open = dir.join("open");
    std::fs::create_dir(&open).unwrap();
    let tar = Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(&open).status();
    if tar.is_ok_and(|status| status.success()) {
        for n in ["0", "1"] {
            let sample = open.join("linerate/samples").join(n);
            assert!(sample.join("at").is_file() && sample.join("proc/stat").is_file());
        }
        let tree = linerate(&["show", "--json", "--host", open.to_str().unwrap()]);
        assert_eq!(tree.stdout, linerate(&["show", "--json", "--host", file]).stdout);
    } else {
        panic!("tar does not read it");
    }
    let review = linerate(&["capture", "--force", "-o", file, "--samples", "0", "--review"]);
    let text = String::from_utf8(review.stdout).unwrap();
    assert!(
        text.contains("/proc/cmdline\n    ") && text.contains("/proc/interrupts\n    "),
        "{text}"
    );
    let refused = linerate(&["capture", "--host", file]);
    assert_eq!(refused.status.code(), Some(2));
    std::fs::remove_dir_all(dir).unwrap();
}

/// The script under busybox's own shell, with no other program in its path.
pub(crate) fn script(args: &[&str]) -> Option<std::process::Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/capture.sh");
    let tools = scratch();
    for tool in ["awk", "cat", "date", "find", "grep", "gzip", "ln", "ls", "mkdir", "mktemp", "rm"]
        .iter()
        .chain(&["sed", "sleep", "tar", "uname", "wc"])
    {
        std::os::unix::fs::symlink("/usr/bin/busybox", tools.join(tool)).unwrap();
    }
    let mut command = Command::new("/usr/bin/busybox");
    command.arg("ash").arg(script).args(args).env("PATH", &tools);
    let output = command.output().ok();
    std::fs::remove_dir_all(tools).unwrap();
    output
}

#[test]
fn the_script_makes_a_capture_of_this_machine_without_netlink() {
    let file = std::env::temp_dir().join(format!("linerate-script-{}", std::process::id()));
    let name = file.to_str().unwrap();
    let Some(made) = script(&["-o", name, "-n", "2", "-i", "0"]) else {
        eprintln!("SKIPPED the_script_makes_a_capture_of_this_machine_without_netlink: no busybox");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let archive = Archive::open(&file).unwrap();
    let fixed = |host: &dyn HostRead| query_as::<Vec<u32>>(host, &Query::FixedIrqs).unwrap();
    assert_eq!(fixed(&archive), fixed(&Live::here()), "lines that nobody may move");
    let seen = snapshot(&archive);
    let live = snapshot(&Live::here());
    assert_eq!(seen.cpus, live.cpus);
    let lines = |s: &Snapshot| -> Vec<_> {
        s.irqs.iter().map(|i| (i.line, i.id.clone(), i.affinity.clone())).collect()
    };
    assert_eq!(lines(&seen), lines(&live));
    for (seen, live) in seen.netdevs.iter().zip(&live.netdevs) {
        let of = |d: &linerate::model::snapshot::NetDev| {
            (d.name.clone(), d.bus.clone(), d.mtu, d.rx_queues.clone(), d.sysfs.clone())
        };
        assert_eq!(of(seen), of(live));
        assert_eq!(seen.features, None);
    }
    assert_eq!(seen.netdevs.len(), live.netdevs.len());
    // What `check` goes by: limits, and counters since boot.
    let names = |s: &Snapshot| s.path.sysctls.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&seen), names(&live));
    let known = |host: &dyn HostRead, s: &Snapshot| {
        let c = discover::condition(host, s);
        let neighbours = c.neighbours.map(|n| (n.entries.is_some(), n.most));
        let counted: Vec<_> = c.conntrack.keys().chain(c.ip.keys()).cloned().collect();
        let devices: Vec<_> = c.devices.into_values().map(|d| (d.tx_timeouts, d.bond)).collect();
        (neighbours, counted, c.routes6.is_some(), c.stolen.is_some(), c.taps.is_some(), devices)
    };
    assert_eq!(known(&archive, &seen), known(&Live::here(), &live));
    assert!(
        seen.gaps.iter().any(|gap| gap.what.contains("queueing disciplines")),
        "{:?}",
        seen.gaps
    );
    let shown = linerate(&["show", "--host", name]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn the_script_redacts_too() {
    // `scratch` is for the tools.
    let root = std::env::temp_dir().join(format!("linerate-openwrt-{}", std::process::id()));
    machine(&root);
    let file = root.join("capture.tar.gz");
    let args = ["-r", root.to_str().unwrap(), "-o", file.to_str().unwrap(), "-n", "0"];
    let Some(made) = script(&args) else {
        eprintln!("SKIPPED the_script_redacts_too: no busybox");
        return;
    };
    let words = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{words}");
    assert!(words.contains("stay: enxa8a159010203"), "it says what it can't do: {words}");
    let packed = std::fs::read(&file).unwrap();
    let heap = unpacked(&packed);
    // A name of a device can't be replaced there.
    for private in PRIVATE.iter().filter(|p| **p != "a8a159010203") {
        assert!(!holds(&heap, private), "{private} is in the capture");
    }
    let again = Archive::from_bytes(&packed).unwrap();
    let address = again.text(Path::new("/sys/class/net/enxa8a159010203/address")).unwrap();
    let config = again.text(Path::new("/etc/config/network")).unwrap();
    let mac = format!("macaddr '{address}'");
    for line in [mac.as_str(), "ipaddr '240.0.1.1'", "ip6addr '3fff::1/64'"] {
        assert!(config.contains(line), "{config}");
    }
    assert!(address.starts_with("02:00:00:00:00:"), "{address}");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn the_script_uses_nothing_that_openwrt_lacks() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/capture.sh");
    let text = std::fs::read_to_string(script).unwrap();
    let shell = text.split("<<'AWK'").next().unwrap();
    // What stands where a command does.
    for command in shell.split(['|', ';', '&', '(', '\n']) {
        let first = command.trim().split(' ').next().unwrap();
        let lacking =
            ["nproc", "stat", "timeout", "realpath", "readlink", "od", "base64", "install"];
        assert!(!lacking.contains(&first), "{command}");
    }
    assert!(!shell.contains("[["), "not in every ash");
}
