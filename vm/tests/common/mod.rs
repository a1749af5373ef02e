//! Shared by the tests in a virtual machine: the guest's side as shell, and an independent reading
//! of what it brings back (none of linerate's own parsers).
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    dead_code,
    unreachable_pub,
    reason = "part of each test binary, where clippy does not see that it is test code"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_vm::guest::Contents;
use linerate_vm::kernel::repository;
use linerate_vm::{Error, Machine, Outcome};

/// What the guest's lab may ask the kernel for, as any router has it.
pub const ROUTER_MODULES: [&str; 9] = [
    "veth",
    "nf_tables",
    "nft_masq",
    "nft_ct",
    "nft_chain_nat",
    "nf_flow_table",
    "nf_flow_table_inet",
    "nft_flow_offload",
    "wireguard",
];

/// Functions of the guest's scripts.
///
/// - `step NAME COMMAND...` keeps the command's streams and exit code under that name.
/// - `state NAME` writes down all that linerate could change: masks, steering, sysctls, devices,
///   namespaces and processes (kernel threads come and go by themselves).
/// - `peer` moves eth1 into a namespace of its own and gives both ends addresses (RFC 2544's).
/// - `pings` sends a few packets to each of the peer's addresses, so that several queues see some.
pub const FUNCTIONS: &str = r#"
step() {
    name=$1; shift
    "$@" >/out/$name.out 2>/out/$name.err
    code=$?
    echo "$name $code" >>/out/steps
    echo "step $name: $code"; cat /out/$name.err
}
state() {
    # Few processes: starting one is what costs most in an emulated machine.
    {
        grep -H '' /proc/irq/*/smp_affinity
        grep -H '' /sys/class/net/*/queues/*/rps_cpus /sys/class/net/*/queues/*/xps_cpus
        grep -r '' /proc/sys/net | grep -v -e nf_conntrack_count -e /random/
        for entry in /sys/class/net/*; do echo "device $entry"; done
        for entry in /run/netns/*; do echo "named namespace $entry"; done
        ls -l /proc/[0-9]*/ns/net | sed 's/.* -> /namespace /' | sort -u
    } >/tmp/state 2>/dev/null
    # Kernel threads have no program.
    for entry in /proc/[0-9]*; do
        if [ -e $entry/exe ]; then read -r comm <$entry/comm; echo "process $comm"; fi
    done >>/tmp/state
    sort /tmp/state >/out/$1
}
peer() {
    unshare -n sleep 1000 &
    peer=$!
    while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do usleep 10000; done
    ip link set eth1 netns $peer
    ip addr add 198.18.0.1/24 dev eth0
    ip link set eth0 up
    nsenter -t $peer -n ip link set lo up
    nsenter -t $peer -n ip link set eth1 up
    for i in 2 3 4 5 6 7 8 9; do nsenter -t $peer -n ip addr add 198.18.0.$i/24 dev eth1; done
    i=0
    until ping -q -c 1 -W 1 198.18.0.2 >/dev/null; do
        i=$((i + 1)); [ $i -lt 10 ] || { echo "no answer from the peer"; exit 90; }
    done
}
pings() {
    for i in 2 3 4 5 6 7 8 9; do
        ping -q -c 10 -i 0.02 -W 1 198.18.0.$i >/dev/null || { echo "no answer from 198.18.0.$i"; exit 91; }
    done
}
lines_of() { awk -v d="^$1\$|^$1-" '$NF ~ d { sub(":", "", $1); print $1 }' /proc/interrupts; }
"#;

/// Set by a test whose guest is of another processor: continuous integration must have root,
/// namespaces and a guest like itself, and everything else only where it can be had.
static OPTIONAL: AtomicBool = AtomicBool::new(false);

/// From now on what can't run in this test binary is skipped without offence to anybody.
pub fn optional() {
    OPTIONAL.store(true, Ordering::Relaxed);
}

/// Says that the test that runs now can't, in the form that `make test` counts.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let optional = if OPTIONAL.load(Ordering::Relaxed) { "(optional) " } else { "" };
    eprintln!("SKIPPED {optional}{}: {}", thread.name().unwrap_or("?"), why.replace('\n', " "));
}

/// Boots; `None` (after saying so) where there is no virtual machine to be had.
pub fn run(machine: &Machine, contents: &Contents) -> Option<Outcome> {
    match machine.run(contents) {
        Ok(outcome) => {
            told(&outcome);
            Some(outcome)
        }
        Err(Error::Unavailable(why)) => {
            skip(&why);
            None
        }
        Err(Error::Failed(why)) => panic!("{why}"),
    }
}

/// Prints what a guest said.
pub fn told(outcome: &Outcome) {
    println!("guest: {:.1} s\n{}", outcome.elapsed.as_secs_f64(), outcome.output);
}

/// The static program: LINERATE_VM_BINARY, or built now (nothing to do when it is up to date).
pub fn linerate() -> PathBuf {
    if let Some(path) = std::env::var_os("LINERATE_VM_BINARY") {
        return path.into();
    }
    let script = repository().join("scripts/build.sh");
    let out = Command::new(&script).arg("-q").output().expect("scripts/build.sh starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Path::new(String::from_utf8_lossy(&out.stdout).trim()).to_owned()
}

/// The static program for another processor, built now; `None` (after saying so) where Rust has no
/// library for it.
pub fn linerate_for(triple: &str) -> Option<PathBuf> {
    let script = repository().join("scripts/build.sh");
    let build = Command::new(&script).args(["-q", "--target", triple]).output();
    let out = build.expect("scripts/build.sh starts");
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.code() == Some(5) {
        skip(said.trim());
        return None;
    }
    assert!(out.status.success(), "{said}");
    Some(Path::new(String::from_utf8_lossy(&out.stdout).trim()).to_owned())
}

/// Its bytes.
pub fn program() -> Vec<u8> {
    std::fs::read(linerate()).expect("the static linerate")
}

/// Contents with linerate, the functions and a script.
pub fn contents(load: &[&'static str], script: &str) -> Contents {
    contents_with(&linerate(), load, script)
}

/// The same with this program.
pub fn contents_with(linerate: &Path, load: &[&'static str], script: &str) -> Contents {
    let mut contents = Contents {
        load: load.to_vec(),
        offer: ROUTER_MODULES.to_vec(),
        script: format!("{FUNCTIONS}\n{script}"),
        ..Contents::default()
    };
    contents.copy(linerate, "bin/linerate", 0o755).expect("the static linerate");
    contents
}

/// A program of this machine with what it is linked against; `false` where there is none.
pub fn copy_program(contents: &mut Contents, name: &str, program: &str) -> bool {
    let Ok(linked) = Command::new("ldd").arg(program).output() else { return false };
    if !linked.status.success() || !Path::new(program).exists() {
        return false;
    }
    let text = String::from_utf8_lossy(&linked.stdout).into_owned();
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        contents
            .copy(Path::new(library), library.trim_start_matches('/'), 0o755)
            .expect("a file that ldd names");
    }
    contents
        .copy(Path::new(program), &format!("bin/{name}"), 0o755)
        .expect("a program that is there");
    true
}

/// The exit code of each step.
pub fn codes(outcome: &Outcome) -> BTreeMap<String, i32> {
    outcome
        .text("steps")
        .lines()
        .map(|l| l.split_once(' ').expect("NAME CODE"))
        .map(|(name, code)| (name.to_owned(), code.parse().expect("a code")))
        .collect()
}

/// Both must be equal byte for byte; names the lines that differ.
#[track_caller]
pub fn assert_same(outcome: &Outcome, before: &str, after: &str) {
    let (a, b) = (outcome.text(before), outcome.text(after));
    assert!(a.lines().count() > 100, "{before} is too short to mean anything: {a}");
    let (left, right): (Vec<_>, Vec<_>) = (a.lines().collect(), b.lines().collect());
    let gone: Vec<_> = left.iter().filter(|l| !right.contains(l)).collect();
    let new: Vec<_> = right.iter().filter(|l| !left.contains(l)).collect();
    assert_eq!(a, b, "{before} and {after} differ; only before: {gone:#?}; only after: {new:#?}");
}

/// An interrupt line as /proc/interrupts shows it.
#[derive(Debug, Clone)]
pub struct Line {
    pub number: u32,
    pub name: String,
    /// By CPU column.
    pub counts: Vec<u64>,
}

/// The numbered lines of /proc/interrupts.
pub fn interrupts(text: &str) -> Vec<Line> {
    let mut lines = text.lines();
    let cpus = lines.next().unwrap_or_default().split_whitespace().count();
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let number = words.next()?.strip_suffix(':')?.parse().ok()?;
            let counts = words.by_ref().take(cpus).map(|w| w.parse().expect("a count")).collect();
            Some(Line { number, name: words.last()?.to_owned(), counts })
        })
        .collect()
}

/// What each line of a device counted between two readings: number, name, counts by CPU.
pub fn moved(before: &str, after: &str, device: &str) -> Vec<Line> {
    let of_device = |l: &Line| l.name == device || l.name.starts_with(&format!("{device}-"));
    let old = interrupts(before);
    interrupts(after)
        .into_iter()
        .filter(of_device)
        .map(|mut line| {
            let was = old.iter().find(|o| o.number == line.number).expect("the same lines");
            assert_eq!(was.name, line.name);
            for (count, was) in line.counts.iter_mut().zip(&was.counts) {
                *count -= was;
            }
            line
        })
        .collect()
}

/// The mask of an interrupt in a state, as a number.
pub fn mask(state: &str, number: u32) -> u64 {
    let prefix = format!("/proc/irq/{number}/smp_affinity:");
    let text = state.lines().find_map(|l| l.strip_prefix(&prefix)).expect("a mask");
    u64::from_str_radix(&text.replace(',', ""), 16).expect("hexadecimal")
}

/// The files that a log of `strace -y` says were changed: opened for writing, made, removed,
/// renamed. Not what is no file (sockets, pipes), what refused, and what takes any program's output.
pub fn changed(strace: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in strace.lines() {
        let call = line.split_whitespace().nth(1).unwrap_or_default();
        let call = call.split('(').next().unwrap_or_default();
        let failed = line.rsplit_once(" = ").is_none_or(|(_, result)| result.starts_with('-'));
        let opened = call.starts_with("open");
        let to_write =
            ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|f| line.contains(f));
        if failed || (opened && !to_write) || call.starts_with("write") || call == "pwrite64" {
            continue;
        }
        if call.starts_with("fchmod(") || call == "fchmod" || call == "ftruncate" {
            let file = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
            found.extend(file.map(|(path, _)| path.to_owned()));
            continue;
        }
        // What a link says is no file.
        let link = usize::from(call.starts_with("symlink"));
        let quoted = line.split('"').skip(1).step_by(2).skip(link);
        found.extend(quoted.map(str::to_owned));
    }
    found.retain(|path| !["/dev/null", "/dev/tty"].contains(&path.as_str()));
    found
}
