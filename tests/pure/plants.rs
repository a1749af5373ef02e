//! Faults planted into captured and made machines: what a person would do, or what the kernel's files
//! look like when something is broken. `check` must name each of them first, and both of a pair
//! among the first three; a remedy that is followed must end its finding.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use linerate::decide::diagnose::{Diagnosis, Outlook, PLACEMENT, Subject};
use linerate::decide::plan::{Request, in_force};
use linerate::machine::host::{Archive, Captured, HostRead};
use linerate::model::condition::Condition;
use linerate::model::cpuset::CpuSet;
use linerate::model::finding::{Finding, Severity};
use linerate::model::path::Flowtable;
use linerate::model::plan::Candidate;
use linerate::model::snapshot::{Bus, IrqRole, Movable, NetDev, Snapshot};
use linerate::model::units::CpuId;

use crate::outcomes::Planned;
use crate::scene::{self, Node, Nodes};
use crate::scenes::agreement;
use crate::scenes::check::{check, look};

/// Machines that faults are planted into.
const MACHINES: &[&str] = &[
    "hosts/armada385-2-mvneta+mv88e6xxx-5.15",
    "hosts/bcm2711-4-bcmgenet+r8169-5.10",
    "hosts/rk3328-4-dwmac+r8152-6.6",
    "hosts/rk3399-6-dwmac+r8169-5.4",
    "hosts/rk3576-8-r8169x2-6.1",
    "scenes/owner-erx-4-dsa.txt",
    "scenes/owner-n100-4-igc.txt",
    "scenes/owner-rpi5-4-usb.txt",
    "scenes/owner-server-16-ixgbe.txt",
    "scenes/well-tuned-4-igb.txt",
    "scenes/well-tuned-4-r5s.txt",
    "scenes/well-tuned-8-virtio.txt",
    "scenes/jh7110-4-dwmac.txt",
    "scenes/well-tuned-4-bpi-r4.txt",
    "scenes/owner-mt7986-4-wed.txt",
    "scenes/hybrid-12-igc.txt",
    "scenes/virtio-4-bond.txt",
    "scenes/bcm2712-4-macb-6.6.txt",
    "scenes/k1-8-emac+r8125.txt",
    "scenes/mt7621-4-dsa.txt",
];

/// A machine, well as far as its plan can make it.
struct Base {
    nodes: Nodes,
    door: Captured,
    /// The plan for it as it was found.
    plan: Candidate,
    planned: (Snapshot, Condition),
    ports: Vec<NetDev>,
}

/// Files below a directory, as nodes.
fn walk(root: &Path, at: &Path, into: &mut Nodes) {
    let mut entries: Vec<_> = at.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(root, &path, into);
        } else {
            let name = format!("/{}", path.strip_prefix(root).unwrap().display());
            into.push((name, Node::File(std::fs::read(&path).unwrap())));
        }
    }
}

fn nodes(name: &str) -> Nodes {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    if file.is_dir() {
        let mut nodes = Nodes::new();
        walk(&file, &file, &mut nodes);
        nodes.retain(|(path, _)| !path.starts_with("/expected/"));
        return nodes;
    }
    scene::read(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// A capture of those files, open.
fn open(nodes: &Nodes) -> Captured {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plants");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{}-{number}.tar.gz", std::process::id()));
    std::fs::write(&file, scene::archive(nodes, 0)).unwrap();
    let archive = Archive::open(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    archive
}

impl Base {
    fn of(name: &'static str) -> Self {
        let mut nodes = nodes(name);
        // As its owner's experiment found it best.
        for (path, node) in &mut nodes {
            if let (true, Node::File(text)) = (path.as_str() == "/etc/config/firewall", node) {
                let own = String::from_utf8_lossy(text);
                *text = own.replace("flow_offloading '0'", "flow_offloading '1'").into();
            }
        }
        let door = open(&nodes);
        let (snapshot, condition) = look(&door);
        let ports = snapshot.netdevs.iter().filter(|d| d.is_hardware() && d.operstate != "down");
        let ports: Vec<NetDev> =
            ports.filter(|d| d.kind.as_deref() != Some("wlan")).cloned().collect();
        assert!(!ports.is_empty(), "{name} has no port to plant a fault at");
        let made = Planned::of(name.into(), snapshot, Request::default());
        let plan = made.chosen().clone();
        let planned = in_force(&made.snapshot, &plan);
        Self { nodes, door, plan, planned: (planned, condition), ports }
    }

    fn snapshot(&self) -> &Snapshot {
        &self.planned.0
    }

    /// Directory of a device.
    fn dir(&self, device: &str) -> String {
        let class = Path::new("/sys/class/net").join(device);
        self.door.resolve(&class).unwrap_or(class).display().to_string()
    }

    /// The machine with faults in it, and the rest of its plan in force; `later` are files that somebody
    /// writes then.
    fn with(&self, faults: &[&Fault], later: &str) -> (Snapshot, Condition) {
        let mut nodes = self.nodes.clone();
        for files in faults.iter().map(|f| f.files.as_str()).chain([later]) {
            let patch = scene::read(files).unwrap_or_else(|l| panic!("no line: {l}"));
            nodes.retain(|(path, _)| patch.iter().all(|(other, _)| other != path));
            nodes.extend(patch);
        }
        let (snapshot, condition) = look(&open(&nodes));
        let mut planned = in_force(&snapshot, &self.plan);
        for fault in faults {
            (fault.change)(&mut planned);
        }
        (planned, condition)
    }
}

/// A fault, by files that are otherwise or by what discovery would make of them.
struct Fault {
    what: &'static str,
    files: String,
    change: Box<dyn Fn(&mut Snapshot)>,
    /// Rules that name it.
    rules: &'static [&'static str],
}

fn file(what: &'static str, rules: &'static [&'static str], files: String) -> Fault {
    Fault { what, files, change: Box::new(|_| ()), rules }
}

fn change(
    what: &'static str,
    rules: &'static [&'static str],
    change: impl Fn(&mut Snapshot) + 'static,
) -> Fault {
    Fault { what, files: String::new(), change: Box::new(change), rules }
}

/// Lines that take packets in are on the CPU of `at`, which gets device and queue, where they can be
/// moved; nothing is steered.
fn placed(snapshot: &mut Snapshot, at: impl Fn(&str, u32) -> u32) {
    for irq in snapshot.irqs.iter_mut().filter(|i| i.movable == Movable::Presumed) {
        let on = CpuSet::single(CpuId(at(&irq.id.device, irq.id.queue)));
        (irq.affinity, irq.effective) = (Some(on.clone()), Some(on));
    }
    steered(snapshot, |_| CpuSet::empty());
    for poller in snapshot.evidence.iter_mut().flat_map(|e| &mut e.pollers) {
        poller.cpus = None;
    }
}

/// Every queue's packets are steered to the CPUs of `to`, which gets its device.
fn steered(snapshot: &mut Snapshot, to: impl Fn(&NetDev) -> CpuSet) {
    for device in &mut snapshot.netdevs {
        let mask = to(device);
        for queue in device.rx_queues.iter_mut().filter(|q| q.rps.is_some()) {
            queue.rps = Some(mask.clone());
        }
    }
}

/// A sysctl's file.
fn sysctl(name: &str, value: u64) -> String {
    format!("/proc/sys/{}: {value}\n", name.replace('.', "/"))
}

fn softnet(cpus: usize, dropped: &str, squeezed: &str) -> String {
    let row = |cpu: usize| {
        format!(
            "017d7840 {dropped} {squeezed} {}{cpu:08x} 00000000 00000000",
            "00000000 ".repeat(9)
        )
    };
    let rows: Vec<String> = (0..cpus).map(row).collect();
    format!("/proc/net/softnet_stat <<\n{}\n.\n", rows.join("\n"))
}

/// The faults that can be planted here.
fn faults(base: &Base) -> Vec<Fault> {
    let snapshot = base.snapshot();
    let mut all = Vec::new();
    let usable: Vec<_> =
        snapshot.cpus.iter().filter(|c| snapshot.usable_cpus().contains(c.id)).collect();
    let (first, last) = (usable[0].id.0, usable[usable.len() - 1].id.0);
    let most = usable.iter().map(|c| c.capacity.value).max().unwrap();
    let little: Vec<u32> =
        usable.iter().filter(|c| c.capacity.value * 5 < most * 4).map(|c| c.id.0).collect();
    let port = &base.ports[0].name;
    let dir = base.dir(port);
    let lines = |s: &Snapshot| {
        let mine = |d: &&NetDev| base.ports.iter().any(|p| p.name == d.name);
        let devices: Vec<_> = s.netdevs.iter().filter(mine).map(|d| d.name.clone()).collect();
        s.irqs.iter().filter(|i| devices.contains(&i.id.device) && i.id.role.receives()).count()
    };
    if lines(snapshot) > 0 {
        all.push(change(
            "all lines on one CPU",
            &["lone-cpu", "little-cores", "immovable-line", "uneven-load"],
            move |s| placed(s, |_, _| first),
        ));
        all.push(change(
            "RPS hands to the CPU that polls",
            &["rps-own-cpu", "lone-cpu", "little-cores"],
            move |s| {
                placed(s, |_, _| first);
                steered(s, |_| CpuSet::single(CpuId(first)));
            },
        ));
    }
    if let [one, .., other] = little.as_slice() {
        let (one, other) = (*one, *other);
        let name = port.clone();
        all.push(change("all lines on slow CPUs", &["little-cores", "lone-cpu"], move |s| {
            placed(s, |device, _| if device == name { one } else { other });
        }));
        all.push(file(
            "irqbalance on unequal CPUs",
            &["irqbalance"],
            "/proc/77/comm: irqbalance\n/proc/77/cmdline: /usr/sbin/irqbalance\n".into(),
        ));
    }
    let several = |d: &&NetDev| {
        let own = |i: &&linerate::model::snapshot::Irq| {
            i.id.device == d.name && i.id.role == IrqRole::Combined
        };
        snapshot.irqs.iter().filter(own).count() > 3
    };
    if let Some(card) = base.ports.iter().find(several) {
        let name = card.name.clone();
        all.push(change("all queues of one card on one CPU", &["uneven-load"], move |s| {
            for irq in s.irqs.iter_mut().filter(|i| i.id.device == name) {
                let on = CpuSet::single(CpuId(last));
                (irq.affinity, irq.effective) = (Some(on.clone()), Some(on));
            }
        }));
    }
    let conduit = snapshot.netdevs.iter().find_map(|d| d.conduit.clone());
    if conduit.is_some() {
        all.push(change("RPS on conduit and ports", &["steered-twice"], move |s| {
            let others: CpuSet = (first + 1..=last).map(CpuId).collect();
            steered(s, |_| others.clone());
        }));
    }
    if usable.len() > 2 && lines(snapshot) > 0 {
        all.push(Fault {
            what: "isolcpus, and everything on the one that is left",
            files: format!("/sys/devices/system/cpu/isolated: {}-{last}\n", first + 1),
            change: Box::new(move |s| placed(s, |_, _| first)),
            rules: &["idle-cpus"],
        });
        let gone = format!("{}-{last}", first + 1);
        let mut files = format!("/sys/devices/system/cpu/online: {first}\n");
        for cpu in first + 1..=last {
            files += &format!("/sys/devices/system/cpu/cpu{cpu}/online: 0\n");
        }
        files += &format!("/sys/devices/system/cpu/offline: {gone}\n");
        all.push(Fault {
            what: "all CPUs but one offline",
            files,
            change: Box::new(move |s| placed(s, |_, _| first)),
            rules: &["idle-cpus"],
        });
    }
    let policies: Vec<String> = base.planned.1.policies.keys().cloned().collect();
    let cpufreq = "/sys/devices/system/cpu/cpufreq";
    let by_hardware =
        |p: &linerate::model::condition::Policy| p.driver.as_deref() == Some("intel_pstate");
    if !policies.is_empty() && !base.planned.1.policies.values().any(by_hardware) {
        let of = |file: &str, value: &str| -> String {
            policies.iter().map(|p| format!("{cpufreq}/{p}/{file}: {value}\n")).collect()
        };
        let limits = of("cpuinfo_max_freq", "2000000") + &of("cpuinfo_min_freq", "400000");
        let slow = limits.clone()
            + &of("scaling_min_freq", "400000")
            + &of("scaling_max_freq", "2000000")
            + &of("scaling_driver", "cpufreq-dt")
            + &of("scaling_governor", "powersave");
        all.push(file("governor powersave", &["governor"], slow));
        let capped = limits
            + &of("scaling_min_freq", "400000")
            + &of("scaling_max_freq", "800000")
            + &of("scaling_governor", "performance");
        all.push(file("frequency limited to 40 %", &["frequency-limit"], capped));
    }
    all.push(file(
        "throttled by heat",
        &["throttled"],
        "/sys/class/thermal/cooling_device0/type: cpufreq-cpu0\n\
         /sys/class/thermal/cooling_device0/cur_state: 3\n"
            .into(),
    ));
    if snapshot.machine.compatible.iter().any(|c| c.contains("raspberrypi")) {
        all.push(file(
            "supply voltage too low",
            &["under-voltage"],
            "/sys/class/hwmon/hwmon9/name: rpi_volt\n/sys/class/hwmon/hwmon9/in0_lcrit_alarm: 1\n"
                .into(),
        ));
    }
    if snapshot.machine.arch == "x86_64" {
        let clock = "/sys/devices/system/clocksource/clocksource0";
        all.push(file(
            "clock hpet",
            &["slow-clock"],
            format!(
                "{clock}/current_clocksource: hpet\n{clock}/available_clocksource: tsc hpet acpi_pm\n"
            ),
        ));
    }
    all.push(file(
        "link at 100 Mbit/s on a gigabit pair",
        &["slow-link"],
        format!(
            "{dir}/speed: 100\n{dir}/operstate: up\n/linerate/nic/{port}.json: \
             {{\"speeds\":{{\"able\":1000,\"advertised\":1000,\"partner\":1000}}}}\n"
        ),
    ));
    all.push(file(
        "half duplex",
        &["half-duplex"],
        format!("{dir}/duplex: half\n{dir}/speed: 100\n{dir}/operstate: up\n"),
    ));
    let counted = |name: &str, n: u64| {
        format!("{dir}/statistics/rx_packets: 80000000\n{dir}/statistics/{name}: {n}\n")
    };
    all.push(file("frames damaged", &["damaged-frames"], counted("rx_crc_errors", 90_000)));
    all.push(file(
        "flapping link",
        &["flapping-link"],
        format!("{dir}/carrier_changes: 900\n/proc/uptime: 36000.00 1\n"),
    ));
    let rings = |now: u32| {
        format!("/linerate/nic/{port}.json: {{\"rings\":{{\"rx\":{now},\"rx-max\":4096}}}}\n")
    };
    all.push(file(
        "tiny ring that loses packets",
        &["short-rings"],
        counted("rx_missed_errors", 400_000) + &rings(64),
    ));
    all.push(file(
        "full ring that loses packets",
        &["ring-overflow"],
        counted("rx_missed_errors", 400_000) + &rings(4096),
    ));
    all.push(file(
        "pause frames all the time",
        &["pause-storm"],
        format!(
            "{dir}/statistics/rx_packets: 80000000\n\
             /linerate/counters/{port}.json: {{\"rx_flow_control_xoff\":90000000}}\n"
        ),
    ));
    all.push(file(
        "forgotten netem",
        &["forgotten-qdisc"],
        format!(
            "/linerate/qdiscs.json: [{{\"device\":\"{port}\",\"kind\":\"netem\",\"queue\":null}}]\n"
        ),
    ));
    let rate: String = 1_250_000_u32.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect();
    all.push(file(
        "forgotten token bucket of 10 Mbit/s",
        &["forgotten-qdisc"],
        format!(
            "{dir}/speed: 1000\n/linerate/qdiscs.json: [{{\"device\":\"{port}\",\"kind\":\"tbf\",\
             \"queue\":null,\"options\":\"28000100{}{rate}{}\"}}]\n",
            "00".repeat(8),
            "00".repeat(24)
        ),
    ));
    let conntrack = |n: u64| {
        sysctl("net.netfilter.nf_conntrack_max", 16384)
            + &sysctl("net.netfilter.nf_conntrack_count", n)
    };
    all.push(file("table of connections full", &["conntrack-full"], conntrack(16300)));
    all.push(file("table of connections nearly full", &["conntrack-full"], conntrack(14000)));
    all.push(file("backlog 10", &["odd-limits"], sysctl("net.core.netdev_max_backlog", 10)));
    all.push(file("budget 1", &["odd-limits"], sysctl("net.core.netdev_budget", 1)));
    all.push(file("budget of 0 us", &["odd-limits"], sysctl("net.core.netdev_budget_usecs", 0)));
    all.push(file("weight 1", &["odd-limits"], sysctl("net.core.dev_weight", 1)));
    all.push(file(
        "64 buckets of connections",
        &["odd-limits"],
        sysctl("net.netfilter.nf_conntrack_buckets", 64)
            + &sysctl("net.netfilter.nf_conntrack_max", 65536)
            + &sysctl("net.netfilter.nf_conntrack_count", 9000),
    ));
    all.push(file(
        "packets dropped for a full backlog",
        &["backlog-drops"],
        softnet(snapshot.cpus.len(), "00020000", "00000010") + "/proc/uptime: 86400.00 1\n",
    ));
    all.push(file(
        "no room for neighbours",
        &["neighbour-overflow"],
        "/proc/net/stat/arp_cache <<\nentries  table_fulls\n00000400 0000031f\n.\n".into(),
    ));
    let features = |gro: bool, lro: bool, tso: bool| {
        format!(
            "/linerate/features/{port}.json: {{\"rx-gro\":{{\"active\":{gro},\"changeable\":true}},\
             \"rx-lro\":{{\"active\":{lro},\"changeable\":true}},\
             \"tx-tcp-segmentation\":{{\"active\":{tso},\"changeable\":true}}}}\n"
        )
    };
    all.push(file("GRO off", &["gro-off"], features(false, false, true)));
    if snapshot.path.ipv4 == Some(true) {
        all.push(file("LRO on", &["lro-on"], features(true, true, true)));
    }
    all.push(file("all offloads off", &["gro-off", "tso-off"], features(false, false, false)));
    // The rules as they are, with more of them.
    let rules = |rules: u32, clamps: bool| {
        let mut own = snapshot.path.nftables.clone().unwrap_or_default();
        if own.flowtables.is_empty() && snapshot.path.asks_for_offload() {
            // A session's device stands for the port under it.
            let over = |port: &NetDev| {
                let all = &snapshot.netdevs;
                let session = all.iter().find(|d| {
                    let under = d.pppoe_over.as_deref();
                    under.is_some_and(|u| u.split('.').next() == Some(&port.name))
                });
                session.map_or_else(|| port.name.clone(), |d| d.name.clone())
            };
            let devices = base.ports.iter().map(over).collect();
            let name = "inet fw4 ft".to_owned();
            own.flowtables = vec![Flowtable { name, devices, hardware: false }];
        }
        own.nat = true;
        (own.rules, own.forward_rules) = (own.rules + rules, own.forward_rules + rules);
        own.established_rules = Some(own.established_rules.unwrap_or(0) + rules);
        own.clamps_mss = Some(clamps);
        format!(
            "/linerate/nftables.json: {}
",
            serde_json::to_string(&own).unwrap()
        )
    };
    let clamped = base.planned.1.mtu_fix.values().any(|on| *on);
    if snapshot.netdevs.iter().all(|d| d.pppoe_over.is_none()) {
        all.push(file(
            "MTU 1200 on one port",
            &["odd-mtu"],
            format!("{dir}/mtu: 1200\n") + &rules(0, false),
        ));
        if !clamped {
            all.push(file(
                "MTU 1492 and nothing clamps",
                &["odd-mtu", "no-mss-clamp"],
                format!("{dir}/mtu: 1492\n") + &rules(0, false),
            ));
        }
    }
    all.push(file(
        "2,000 rules before anything is accepted",
        &["large-rule-set"],
        rules(2000, true),
    ));
    // Flowtables, or OpenWrt's options, ask for offload that old rules alone do not have.
    if !snapshot.path.asks_for_offload() && !snapshot.path.offloads() {
        all.push(file(
            "1,500 rules of the old iptables",
            &["large-rule-set"],
            "/proc/net/ip_tables_names: filter\n/linerate/iptables.json: [{\"table\":\"filter\",\"ipv6\":false,\"rules\":1510,\
             \"forward_rules\":1500,\"nat\":false,\"masquerade_devices\":[],\"flow_offload\":false,\
             \"hardware\":false}]\n/linerate/nftables.json: {\"rules\":0,\"forward_rules\":0,\
             \"nat\":false,\"masquerade_devices\":[],\"flowtables\":[]}\n"
                .into(),
        ));
    }
    all.push(file(
        "a program that takes every packet",
        &["packet-taps"],
        "/proc/net/packet <<\nsk RefCnt Type Proto  Iface R Rmem   User   Inode\n\
         00 3      3    0003   0     1 0      0      81467\n.\n"
            .into(),
    ));
    all.push(file(
        "function tracer on",
        &["tracer-on"],
        "/sys/kernel/tracing/current_tracer: function\n/sys/kernel/tracing/tracing_on: 1\n".into(),
    ));
    let release = &snapshot.machine.kernel;
    let config = |lines: &str| format!("/boot/config-{release} <<\n{lines}\n.\n");
    if base.door.read(Path::new("/proc/config.gz")).is_err() && !release.is_empty() {
        all.push(file(
            "lock debugging",
            &["debug-kernel"],
            config("CONFIG_SMP=y\nCONFIG_PREEMPT_NONE=y\nCONFIG_PROVE_LOCKING=y\nCONFIG_LOCKDEP=y"),
        ));
        all.push(file(
            "a sanitizer",
            &["debug-kernel"],
            config("CONFIG_SMP=y\nCONFIG_PREEMPT_NONE=y\nCONFIG_KASAN=y\nCONFIG_KASAN_GENERIC=y"),
        ));
    }
    all.extend(further(base));
    all
}

/// Faults that are there in pieces: counters with limits, masks with CPUs that are gone.
fn further(base: &Base) -> Vec<Fault> {
    let snapshot = base.snapshot();
    let mut all = Vec::new();
    let usable: Vec<u32> = snapshot.usable_cpus().iter().map(|c| c.0).collect();
    let (first, last) = (usable[0], usable[usable.len() - 1]);
    let port = &base.ports[0].name;
    let dir = base.dir(port);
    let index = base.ports[0].ifindex;
    let receives = |s: &Snapshot, name: &str| {
        s.irqs.iter().any(|i| i.id.device == name && i.id.role.receives())
    };
    let known = base.ports.iter().any(|p| receives(snapshot, &p.name));
    if known && usable.len() > 2 {
        all.push(change(
            "all lines on the last CPU, and the kernel's word from before",
            &["lone-cpu", "little-cores", "immovable-line", "uneven-load"],
            move |s| {
                placed(s, |_, _| last);
                for irq in s.irqs.iter_mut().filter(|i| i.movable == Movable::Presumed) {
                    irq.effective = Some(CpuSet::single(CpuId(first)));
                }
            },
        ));
        let gone = format!(
            "/sys/devices/system/cpu/online: {first}-{}\n/sys/devices/system/cpu/offline: {last}\n\
             /sys/devices/system/cpu/cpu{last}/online: 0\n",
            last - 1
        );
        all.push(Fault {
            what: "RPS to a CPU that is offline",
            files: gone,
            change: Box::new(move |s| {
                placed(s, |_, _| first);
                steered(s, |_| CpuSet::single(CpuId(last)));
            }),
            rules: &["offline-mask"],
        });
        all.push(Fault {
            what: "all lines on a CPU with nohz_full",
            files: format!("/sys/devices/system/cpu/nohz_full: {last}\n"),
            change: Box::new(move |s| placed(s, |_, _| last)),
            rules: &["isolated-cpus", "lone-cpu", "little-cores"],
        });
        all.push(Fault {
            what: "all lines on an isolated CPU",
            files: format!("/sys/devices/system/cpu/isolated: {last}\n"),
            change: Box::new(move |s| placed(s, |_, _| last)),
            rules: &["isolated-cpus", "lone-cpu", "little-cores"],
        });
        all.push(change(
            "RPS of all to one CPU",
            &[
                "lone-cpu",
                "little-cores",
                "uneven-load",
                "rps-own-cpu",
                "steered-twice",
                "rps-with-queues",
            ],
            move |s| {
                placed(s, |_, _| first);
                steered(s, |_| CpuSet::single(CpuId(last)));
            },
        ));
    }
    all.push(file(
        "backlog of 100 that drops",
        &["backlog-drops"],
        softnet(snapshot.cpus.len(), "00020000", "00000010")
            + "/proc/uptime: 86400.00 1\n"
            + &sysctl("net.core.netdev_max_backlog", 100),
    ));
    all.push(file(
        "connections thrown out of a full table",
        &["conntrack-full"],
        sysctl("net.netfilter.nf_conntrack_max", 65536)
            + &sysctl("net.netfilter.nf_conntrack_count", 1200)
            + "/proc/net/stat/nf_conntrack <<\nentries  drop early_drop\n000004b0 00001000 00002000\n.\n",
    ));
    all.push(file(
        "as many neighbours as there is room for",
        &["neighbour-overflow"],
        "/proc/net/stat/arp_cache <<\nentries  table_fulls\n00000400 00000000\n.\n".to_owned()
            + &sysctl("net.ipv4.neigh.default.gc_thresh3", 1024),
    ));
    all.push(file(
        "reverse path filter on a second uplink",
        &["reverse-path"],
        "/proc/net/netstat <<\nTcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 0 9000000\n.\n\
         /proc/net/snmp <<\nIp: Forwarding InReceives ForwDatagrams FragFails FragCreates\n\
         Ip: 1 90000000 80000000 0 0\n.\n"
            .into(),
    ));
    all.push(file(
        "every packet is too big",
        &["fragments"],
        "/proc/net/snmp <<\nIp: Forwarding InReceives ForwDatagrams FragFails FragCreates\n\
         Ip: 1 90000000 80000000 900000 7000000\n.\n"
            .into(),
    ));
    let features = |rx: bool, tx: bool| {
        format!(
            "/linerate/features/{port}.json: {{\"rx-gro\":{{\"active\":true,\"changeable\":true}},\
             \"rx-checksum\":{{\"active\":{rx},\"changeable\":true}},\
             \"tx-checksum-ip-generic\":{{\"active\":{tx},\"changeable\":true}},\
             \"tx-tcp-segmentation\":{{\"active\":{tx},\"changeable\":true}}}}\n"
        )
    };
    all.push(file("received checksums by the CPU", &["checksum-off"], features(false, true)));
    all.push(file("all checksums by the CPU", &["checksum-off"], features(false, false)));
    all.push(file(
        "sent checksums by the CPU",
        &["checksum-off", "tso-off"],
        features(true, false),
    ));
    all.push(file(
        "txqueuelen 10",
        &["odd-limits"],
        format!(
            "{dir}/tx_queue_len: 10\n/linerate/qdiscs.json: \
             [{{\"device\":\"{port}\",\"kind\":\"pfifo_fast\",\"queue\":null}}]\n"
        ),
    ));
    if snapshot.cpus.iter().any(|c| c.crypto.iter().any(|f| f == "aes"))
        && ["x86_64", "aarch64"].contains(&snapshot.machine.arch.as_str())
    {
        all.push(file(
            "IPsec by the portable AES",
            &["slow-ipsec"],
            "/proc/crypto <<\nname         : echainiv(authenc(hmac(sha256),cbc(aes)))\n\
             driver       : echainiv(authenc(hmac(sha256-generic),cbc(aes-generic)))\n\
             module       : echainiv\npriority     : 100\nselftest     : passed\n.\n"
                .into(),
        ));
    }
    all.push(file(
        "three captures of the first port",
        &["packet-taps"],
        format!(
            "/proc/net/packet <<\nsk RefCnt Type Proto  Iface R Rmem   User   Inode\n{}.\n",
            format!("00 3      3    0003   {index}     1 0      0      81467\n").repeat(3)
        ),
    ));
    all.push(file(
        "polls that end early",
        &["budget-squeezes"],
        softnet(snapshot.cpus.len(), "00000000", "00100000"),
    ));
    all.push(file(
        "10 Mbit/s on a gigabit port",
        &["slow-link"],
        format!(
            "{dir}/speed: 10\n{dir}/operstate: up\n{dir}/duplex: full\n/linerate/nic/{port}.json: \
             {{\"speeds\":{{\"able\":1000,\"advertised\":10,\"partner\":1000}}}}\n"
        ),
    ));
    all.push(file(
        "2.5 Gbit/s port that negotiates 1",
        &["slow-link"],
        format!(
            "{dir}/speed: 1000\n{dir}/operstate: up\n{dir}/duplex: full\n/linerate/nic/{port}.json: \
             {{\"speeds\":{{\"able\":2500,\"advertised\":2500,\"partner\":2500}}}}\n"
        ),
    ));
    all.push(file(
        "energy-efficient Ethernet at a port with damage",
        &["eee", "damaged-frames"],
        format!(
            "/linerate/nic/{port}.json: {{\"eee\":{{\"active\":1,\"enabled\":1}}}}\n\
             {dir}/statistics/rx_packets: 80000000\n{dir}/statistics/rx_crc_errors: 200\n"
        ),
    ));
    // What a virtual card tells is the hypervisor's business.
    if !matches!(base.ports[0].bus, Bus::Virtio(_)) {
        all.push(file(
            "card that interrupts for each packet",
            &["coalescing-off"],
            format!(
                "/linerate/nic/{port}.json: {{\"coalesce\":{{\"rx-usecs\":0,\"rx-frames\":0}}}}\n"
            ),
        ));
    }
    if base.dir(port).contains("pci") && base.ports[0].speed.is_some_and(|s| s >= 1000) {
        let device = Path::new(&dir).parent().unwrap().parent().unwrap().display().to_string();
        all.push(file(
            "one lane of the first generation under 2.5 Gbit/s",
            &["pcie-link"],
            format!(
                "{dir}/speed: 2500\n{dir}/operstate: up\n{device}/current_link_speed: 2.5 GT/s PCIe\n\
                 {device}/current_link_width: 1\n{device}/max_link_speed: 5.0 GT/s PCIe\n\
                 {device}/max_link_width: 1\n"
            ),
        ));
    }
    all.push(file(
        "a transmit queue that hangs",
        &["transmit-hang"],
        format!("{dir}/queues/tx-0/tx_timeout: 9\n"),
    ));
    // Between ports of one switch the switch forwards.
    let is_bridge = |d: &&NetDev| d.kind.as_deref() == Some("bridge") && d.lower.len() > 1;
    let by_cpu = |name: &String| {
        snapshot.netdev(name).is_some_and(|d| d.is_hardware() && d.switch.is_none())
    };
    if snapshot.netdevs.iter().filter(is_bridge).any(|bridge| bridge.lower.iter().any(by_cpu)) {
        let files = sysctl("net.bridge.bridge-nf-call-iptables", 1);
        all.push(file("bridged frames go through iptables", &["bridge-netfilter"], files));
    }
    all.push(file(
        "tracer of switched-off interrupts",
        &["tracer-on"],
        "/sys/kernel/tracing/current_tracer: irqsoff\n/sys/kernel/tracing/tracing_on: 1\n".into(),
    ));
    all.push(file(
        "events of the network traced",
        &["tracer-on"],
        "/sys/kernel/tracing/current_tracer: nop\n/sys/kernel/tracing/tracing_on: 1\n\
         /sys/kernel/tracing/events/enable: X\n"
            .into(),
    ));
    let release = &snapshot.machine.kernel;
    if base.door.read(Path::new("/proc/config.gz")).is_err() && !release.is_empty() {
        for (what, option) in [
            ("IRQSOFF_TRACER", "CONFIG_IRQSOFF_TRACER=y"),
            ("leaks of memory looked for", "CONFIG_DEBUG_KMEMLEAK=y"),
            ("every allocation checked", "CONFIG_SLUB_DEBUG_ON=y"),
        ] {
            let lines = format!("CONFIG_SMP=y\nCONFIG_PREEMPT_NONE=y\n{option}");
            all.push(file(
                what,
                &["debug-kernel"],
                format!("/boot/config-{release} <<\n{lines}\n.\n"),
            ));
        }
    }
    if let Some(policy) = base.planned.1.policies.keys().next()
        && base.planned.1.policies.values().all(|p| p.driver.as_deref() != Some("intel_pstate"))
    {
        let dir = format!("/sys/devices/system/cpu/cpufreq/{policy}");
        all.push(file(
            "frequency left where the boot loader put it",
            &["governor"],
            format!(
                "{dir}/scaling_governor: userspace\n{dir}/scaling_setspeed: 600000\n\
                 {dir}/cpuinfo_max_freq: 2000000\n{dir}/scaling_max_freq: 2000000\n\
                 {dir}/scaling_min_freq: 600000\n"
            ),
        ));
    }
    all
}

/// Findings in order, with their levels.
fn told(found: &Diagnosis) -> String {
    let one = |f: &Finding| format!("{}:{:?}:{:.2}", f.rule, f.severity, f.cost);
    found.findings.iter().take(4).map(one).collect::<Vec<_>>().join(" ")
}

/// Findings that the machine does not have without the fault.
fn fresh<'a>(own: &Diagnosis, found: &'a Diagnosis) -> Vec<&'a Finding> {
    let known =
        |f: &&Finding| own.findings.iter().any(|o| o.rule == f.rule && o.severity >= f.severity);
    found.findings.iter().filter(|f| !known(f)).collect()
}

/// Rules that go by counters since boot, which no remedy takes back.
const SINCE_BOOT: &[&str] = &[
    "damaged-frames",
    "flapping-link",
    "ring-overflow",
    "backlog-drops",
    "neighbour-overflow",
    "budget-squeezes",
];

/// The files that a step of a remedy writes; `None` for one that is no command, or not one of those
/// whose effect is known here.
fn written(base: &Base, fault: &Fault, step: &str) -> Option<String> {
    let command = step.split("  #").next().unwrap().trim();
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["sysctl", "-w", pairs @ ..] => {
            let pairs = pairs.iter().filter_map(|pair| pair.trim_end_matches(',').split_once('='));
            Some(
                pairs
                    .map(|(name, value)| format!("/proc/sys/{}: {value}\n", name.replace('.', "/")))
                    .collect(),
            )
        }
        ["echo", value, ">", path] if path.starts_with('/') => Some(format!("{path}: {value}\n")),
        ["for", "f", "in", pattern, "do", "echo", value, ">", ..] => {
            let (before, after) = pattern.trim_end_matches(';').split_once('*').unwrap();
            let fits = |path: &&String| path.starts_with(before) && path.ends_with(after);
            let own = scene::read(&fault.files).unwrap();
            let mut paths: Vec<&String> = base.nodes.iter().chain(&own).map(|(p, _)| p).collect();
            paths.retain(fits);
            Some(paths.iter().map(|path| format!("{path}: {value}\n")).collect())
        }
        ["ip", "link", "set", device, "mtu", mtu] => {
            Some(format!("{}/mtu: {mtu}\n", base.dir(device)))
        }
        ["systemctl", "disable", "--now", _] => Some("/proc/77/comm: sleep\n".into()),
        ["tc", "qdisc", "del", "dev", _, "root"] => Some("/linerate/qdiscs.json: []\n".into()),
        ["ethtool", "-K", device, feature, state] => {
            let names: &[&str] = match *feature {
                "gro" => &["rx-gro"],
                "lro" => &["rx-lro"],
                "tso" => &["tx-tcp-segmentation"],
                "rx" => &["rx-checksum"],
                // The card's other offloads of what is sent come back with it.
                "tx" => &["tx-checksum-ip-generic", "tx-tcp-segmentation"],
                _ => return None,
            };
            let state = format!("{{\"active\":{},\"changeable\":true}}", *state == "on");
            let features: Vec<String> = names.iter().map(|n| format!("\"{n}\":{state}")).collect();
            Some(format!("/linerate/features/{device}.json: {{{}}}\n", features.join(",")))
        }
        ["ethtool", "-G", device, "rx", ring] => Some(format!(
            "/linerate/nic/{device}.json: {{\"rings\":{{\"rx\":{ring},\"rx-max\":4096}}}}\n"
        )),
        ["ethtool", "-C", device, settings @ ..] => {
            let pairs = settings.chunks(2).map(|pair| format!("\"{}\":{}", pair[0], pair[1]));
            let pairs = pairs.collect::<Vec<_>>().join(",");
            Some(format!("/linerate/nic/{device}.json: {{\"coalesce\":{{{pairs}}}}}\n"))
        }
        ["ethtool", "--set-eee", device, "eee", "off"] => Some(format!(
            "/linerate/nic/{device}.json: {{\"eee\":{{\"active\":0,\"enabled\":0}}}}\n"
        )),
        ["ip", "link", "set", device, "txqueuelen", length] => {
            Some(format!("{}/tx_queue_len: {length}\n", base.dir(device)))
        }
        _ => None,
    }
}

/// Files of several steps: of one device's offloads each step has its own.
fn together(files: &str) -> String {
    let mut offloads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut rest = String::new();
    for line in files.lines() {
        match line.strip_prefix("/linerate/features/").and_then(|l| l.split_once(": ")) {
            Some((file, object)) => {
                offloads.entry(file).or_default().push(&object[1..object.len() - 1]);
            }
            None => rest += &format!("{line}\n"),
        }
    }
    let merged = offloads.into_iter();
    let merged = merged.map(|(f, all)| format!("/linerate/features/{f}: {{{}}}\n", all.join(",")));
    rest + &merged.collect::<String>()
}

/// The finding of a fault that is still there when its remedy was followed, if it names settings.
fn left_after_its_remedy(
    base: &Base,
    fault: &Fault,
    planted: &(Snapshot, Condition),
    found: &Diagnosis,
) -> Option<String> {
    let finding = found.findings.iter().find(|f| {
        fault.rules.contains(&f.rule.as_str())
            && !SINCE_BOOT.contains(&f.rule.as_str())
            && !f.evidence.iter().any(|seen| seen.place.ends_with(": early_drop"))
    })?;
    let plans = |step: &&String| step.starts_with("linerate plan") && !step.contains("--");
    let first =
        finding.remedy.iter().find(|step| plans(step) || written(base, fault, step).is_some())?;
    let then = if plans(&first) {
        let made = Planned::of(String::new(), planted.0.clone(), Request::default());
        (in_force(&made.snapshot, made.chosen()), planted.1.clone())
    } else if fault.files.is_empty() {
        // What was never in a file is not mended by writing one.
        return None;
    } else {
        let files: String =
            finding.remedy.iter().filter_map(|step| written(base, fault, step)).collect();
        base.with(&[fault], &together(&files))
    };
    let again = check(&then);
    let grave = || again.findings.iter().filter(|f| f.severity >= Severity::Notice);
    let left = grave().find(|f| f.rule == finding.rule);
    // Nor does it bring another.
    let known = |f: &Finding| found.findings.iter().any(|other| other.rule == f.rule);
    let left = left.or_else(|| grave().find(|f| !known(f)))?;
    Some(format!("{} {}: {:?}", left.rule, left.title, finding.remedy))
}

/// True for a placement that costs nothing on that machine: hardware forwards, its links are full
/// first, or no other placement is better.
fn is_no_fault(fault: &Fault, planted: &Snapshot) -> bool {
    if fault.rules == ["idle-cpus"] {
        return agreement::is_by_hardware(planted);
    }
    let gains = || {
        let condition = Condition::default();
        let subject = Subject::new(planted, &condition, None);
        subject.outlook().and_then(Outlook::gain).as_ref().is_some_and(agreement::is_clear)
    };
    fault.rules.iter().all(|rule| PLACEMENT.contains(rule))
        && (agreement::is_by_hardware(planted) || !gains())
}

#[test]
#[ignore = "slow: make test runs it"]
fn planted_faults_are_named_first() {
    let only = std::env::var("PLANTS").unwrap_or_default();
    let (mut all, mut right, mut strictly) = (0, 0, 0);
    let (mut pairs, mut both) = (0, 0);
    let (mut wrong, mut remedies, mut unwell) = (Vec::new(), Vec::new(), Vec::new());
    let mut by_fault: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (number, name) in MACHINES.iter().enumerate().filter(|(_, n)| n.contains(&only)) {
        let base = Base::of(name);
        let own = check(&base.planned);
        let graver: Vec<_> =
            own.findings.iter().filter(|f| f.severity >= Severity::Warning).collect();
        if !graver.is_empty() {
            unwell.push(format!("{name}: as planned: {}", told(&own)));
        }
        // A third of them on each machine: all on all take minutes, and say no more.
        let faults: Vec<Fault> = faults(&base)
            .into_iter()
            .enumerate()
            .filter(|(at, _)| (at + number) % 3 == 0 || !only.is_empty())
            .map(|(_, fault)| fault)
            .collect();
        for fault in &faults {
            let planted = base.with(&[fault], "");
            if is_no_fault(fault, &planted.0) {
                continue;
            }
            let found = check(&planted);
            if let Some(left) = left_after_its_remedy(&base, fault, &planted, &found) {
                remedies.push(format!("{name}: {}: {left}", fault.what));
            }
            let is_it = |f: &Finding| fault.rules.contains(&f.rule.as_str());
            strictly += i32::from(found.findings.first().is_some_and(is_it));
            let named = fresh(&own, &found).first().is_some_and(|f| is_it(f));
            all += 1;
            right += i32::from(named);
            let count = by_fault.entry(fault.what).or_default();
            *count = (count.0 + u32::from(named), count.1 + 1);
            if !named {
                wrong.push(format!("{name}: {}: {}", fault.what, told(&found)));
            }
        }
        for (at, first) in faults.iter().enumerate() {
            // Another fault of another sort: a third of the list further, and so on.
            let Some(second) = faults.get((at + faults.len() / 3) % faults.len()) else { continue };
            let clash = scene::read(&first.files).unwrap().iter().any(|(path, _)| {
                scene::read(&second.files).unwrap().iter().any(|(other, _)| other == path)
            });
            if clash || at % 3 != 0 {
                continue;
            }
            let planted = base.with(&[first, second], "");
            if is_no_fault(first, &planted.0) || is_no_fault(second, &planted.0) {
                continue;
            }
            let found = check(&planted);
            let few: Vec<_> = fresh(&own, &found).into_iter().take(3).collect();
            let names = |fault: &Fault| few.iter().any(|f| fault.rules.contains(&f.rule.as_str()));
            let named = names(first) && names(second);
            pairs += 1;
            both += i32::from(named);
            if !named {
                wrong.push(format!("{name}: {} + {}: {}", first.what, second.what, told(&found)));
            }
        }
    }
    let table: Vec<String> = by_fault
        .iter()
        .filter(|(_, (named, all))| named < all)
        .map(|(what, (named, all))| format!("{what}: {named} of {all}"))
        .collect();
    let words = format!(
        "{right} of {all} first ({strictly} of all findings), {both} of {pairs} pairs\n{}\n\n{}\n{}\n{}",
        table.join("\n"),
        wrong.join("\n"),
        remedies.join("\n"),
        unwell.join("\n"),
    );
    eprintln!("{words}");
    assert!(right * 100 >= all * 95 && both * 100 >= pairs * 95, "{words}");
    assert!(unwell.is_empty(), "warnings about machines that are well:\n{}", unwell.join("\n"));
    assert!(remedies.is_empty(), "left after their remedies:\n{}", remedies.join("\n"));
}

/// Faults of different sorts, two of which may well come together.
const COMMON: &[&str] = &[
    "all lines on one CPU",
    "governor powersave",
    "throttled by heat",
    "link at 100 Mbit/s on a gigabit pair",
    "frames damaged",
    "tiny ring that loses packets",
    "pause frames all the time",
    "forgotten token bucket of 10 Mbit/s",
    "table of connections full",
    "packets dropped for a full backlog",
    "weight 1",
    "GRO off",
    "2,000 rules before anything is accepted",
    "a program that takes every packet",
    "function tracer on",
    "lock debugging",
];

/// Two faults at once: each is found, one of them first and the other within the first three.
#[test]
#[ignore = "slow: make test runs it"]
fn of_two_faults_neither_hides_the_other() {
    let only = std::env::var("PLANTS").unwrap_or_default();
    let captured = [
        "hosts/bcm2711-4-bcmgenet+r8169-5.10",
        "hosts/rk3399-6-dwmac+r8169-5.4",
        "hosts/rk3576-8-r8169x2-6.1",
    ];
    let (mut all, mut wrong) = (0, Vec::new());
    for name in captured.into_iter().filter(|n| n.contains(&only)) {
        let base = Base::of(name);
        let own = check(&base.planned);
        let mut faults = faults(&base);
        faults.retain(|fault| COMMON.contains(&fault.what));
        let files: Vec<Nodes> = faults.iter().map(|f| scene::read(&f.files).unwrap()).collect();
        for (at, first) in faults.iter().enumerate() {
            for (other, second) in faults.iter().enumerate().skip(at + 1) {
                let clash = files[at]
                    .iter()
                    .any(|(path, node)| files[other].iter().any(|(p, n)| p == path && n != node));
                if clash {
                    continue;
                }
                let planted = base.with(&[first, second], "");
                if is_no_fault(first, &planted.0) || is_no_fault(second, &planted.0) {
                    continue;
                }
                let found = check(&planted);
                let few: Vec<&Finding> = fresh(&own, &found).into_iter().take(3).collect();
                let place =
                    |fault: &Fault| few.iter().position(|f| fault.rules.contains(&f.rule.as_str()));
                all += 1;
                let places = (place(first), place(second));
                if !matches!(places, (Some(0), Some(_)) | (Some(_), Some(0))) {
                    wrong.push(format!(
                        "{name}: {} + {}: {places:?} {}",
                        first.what,
                        second.what,
                        told(&found)
                    ));
                }
            }
        }
    }
    assert!(all > 200, "{all}");
    assert!(wrong.is_empty(), "{} of {all}\n{}", wrong.len(), wrong.join("\n"));
}
