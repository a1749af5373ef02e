//! What `check` must find and what it must not: each rule against a router with one thing broken, and
//! against one that looks alike and is well; the five field systems before and after their tuning.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::program;
use linerate::decide::diagnose::{self, Diagnosis, Subject, Window};
use linerate::decide::kernel::regression;
use linerate::machine::discover;
use linerate::machine::host::{Archive, HostRead, Tree};
use linerate::model::condition::Condition;
use linerate::model::finding::Severity;
use linerate::model::snapshot::Snapshot;
use linerate::model::telemetry::{CpuRates, Interval, IrqRates};
use linerate::model::units::CpuId;

use crate::scene;

/// A directory for as long as a test needs it.
struct Machine(PathBuf);

impl Drop for Machine {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

fn directory() -> Machine {
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("linerate-check-{}-{number}", std::process::id());
    Machine(std::env::temp_dir().join(name))
}

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The well tuned router with lines of a scene that replace or add files.
fn tuned_with(patch: &str) -> (Snapshot, Condition) {
    let text = std::fs::read_to_string(format!("{ROOT}/fixtures/scenes/well-tuned-4-igb.txt"));
    let patch = scene::read(patch).unwrap_or_else(|line| panic!("no line of a scene: {line}"));
    let mut nodes = scene::read(&text.unwrap()).unwrap();
    nodes.retain(|(path, _)| patch.iter().all(|(other, _)| other != path));
    // Of a patch made of several, the last word counts.
    let last = |at: usize, path: &String| patch.iter().skip(at + 1).all(|(other, _)| other != path);
    let patch = patch.iter().enumerate().filter(|(at, (path, _))| last(*at, path));
    nodes.extend(patch.map(|(_, node)| node.clone()));
    // One file rather than hundreds, for each of many cases.
    let machine = directory();
    std::fs::create_dir_all(&machine.0).unwrap();
    let file = machine.0.join("capture.tar.gz");
    std::fs::write(&file, scene::archive(&nodes, 0)).unwrap();
    look(&Archive::open(&file).unwrap())
}

pub(crate) fn look(host: &dyn HostRead) -> (Snapshot, Condition) {
    let snapshot = discover::snapshot(host);
    let condition = discover::condition(host, &snapshot);
    (snapshot, condition)
}

pub(crate) fn check((snapshot, condition): &(Snapshot, Condition)) -> Diagnosis {
    diagnose::diagnose(&Subject::new(snapshot, condition, None), &[])
}

fn named(told: &Diagnosis) -> Vec<(Severity, &str)> {
    told.findings.iter().map(|f| (f.severity, f.rule.as_str())).collect()
}

fn grave(told: &Diagnosis) -> Vec<&str> {
    let grave = told.findings.iter().filter(|f| f.severity >= Severity::Warning);
    grave.map(|f| f.rule.as_str()).collect()
}

use Severity::{Critical, Info, Notice, Warning};

const GENERIC: &str = "/proc/crypto <<\nname         : chacha20\ndriver       : chacha20-generic\n\
                       module       : kernel\npriority     : 100\n.\n";

/// The first card at 100 Mbit/s, with what both ends tell.
fn speeds(told: &str) -> String {
    format!("{}/speed: 100\n/linerate/nic/eth0.json: {{\"speeds\":{{{told}}}}}\n", eth(0))
}

fn at_1000(told: &str) -> String {
    speeds(told).replace("speed: 100\n", "speed: 1000\n")
}

const PPPOE: &str = "\
/linerate/link_kinds.json: {\"ppp0\":\"ppp\"}
/linerate/links.json: {\"ppp0\":{\"ipv4\":1},\"eth1\":{\"ipv4\":1}}
/sys/class/net/ppp0 -> ../../devices/virtual/net/ppp0
/sys/devices/virtual/net/ppp0/ifindex: 9
/sys/devices/virtual/net/ppp0/type: 512
/sys/devices/virtual/net/ppp0/operstate: unknown
/sys/devices/virtual/net/ppp0/mtu: 1492
/sys/devices/virtual/net/ppp0/queues/rx-0/rps_cpus: 0
/proc/net/pppoe <<
Id       Address              Device
00000100 02:00:00:00:00:01    eth0
.
/proc/net/route <<
Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
ppp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0
.
/linerate/nftables.json: {\"rules\":30,\"forward_rules\":18,\"nat\":true,\"masquerade_devices\":[\"ppp0\"],\"clamps_mss\":true,\"flowtables\":[{\"name\":\"inet ft\",\"devices\":[\"ppp0\",\"eth1\"],\"hardware\":false}]}
";
const ETH0_RPS: &str =
    "/sys/devices/pci0000:00/0000:01:00.0/net/eth0/queues/rx-{0-3}/rps_cpus: f\n";
const NO_FLOWTABLE: &str = "/linerate/nftables.json: {\"rules\":30,\"forward_rules\":18,\"nat\":true,\"masquerade_devices\":[\"eth0\"],\"clamps_mss\":true,\"flowtables\":[]}\n";
const SWITCH: &str = "\
/linerate/link_kinds.json: {\"lan1\":\"dsa\"}
/sys/class/net/lan1 -> ../../devices/platform/sw/net/lan1
/sys/devices/platform/sw/net/lan1/ifindex: 12
/sys/devices/platform/sw/net/lan1/iflink: 3
/sys/devices/platform/sw/net/lan1/operstate: up
/sys/devices/platform/sw/net/lan1/mtu: 1500
/sys/devices/platform/sw/net/lan1/uevent: DEVTYPE=dsa
";
const ONE_QUEUE: &str = "\
/proc/interrupts <<
            CPU0       CPU1       CPU2       CPU3
 40:   25000000          0          0          0  PCI-MSIX-0000:01:00.0    1-edge      eth0-TxRx-0
 41:          0   25000000          0          0  PCI-MSIX-0000:01:00.0    2-edge      eth0-TxRx-1
 42:          0          0   25000000          0  PCI-MSIX-0000:01:00.0    3-edge      eth0-TxRx-2
 43:          0          0          0   25000000  PCI-MSIX-0000:01:00.0    4-edge      eth0-TxRx-3
 50:   90000000          0          0          0  PCI-MSIX-0000:02:00.0    1-edge      eth1-TxRx-0
 51:          0         80          0          0  PCI-MSIX-0000:02:00.0    2-edge      eth1-TxRx-1
 52:          0          0         90          0  PCI-MSIX-0000:02:00.0    3-edge      eth1-TxRx-2
 53:          0          0          0         70  PCI-MSIX-0000:02:00.0    4-edge      eth1-TxRx-3
.
";
const BRIDGE: &str = "\
/linerate/link_kinds.json: {\"br0\":\"bridge\"}
/sys/class/net/br0 -> ../../devices/virtual/net/br0
/sys/devices/virtual/net/br0/ifindex: 20
/sys/devices/virtual/net/br0/operstate: up
/sys/devices/virtual/net/br0/mtu: 1500
/sys/devices/virtual/net/br0/bridge/bridge_id: 8000.020000000001
/sys/devices/pci0000:00/0000:01:00.0/net/eth0/master -> ../../../../virtual/net/br0
/sys/devices/pci0000:00/0000:02:00.0/net/eth1/master -> ../../../../virtual/net/br0
";
const LITTLE: &str = "\
/sys/devices/system/cpu/cpu{0-1}/cpu_capacity: 400
/sys/devices/system/cpu/cpu{2-3}/cpu_capacity: 1024
";
const TUNNEL: &str = "\
/linerate/link_kinds.json: {\"wg0\":\"wireguard\"}
/sys/class/net/wg0 -> ../../devices/virtual/net/wg0
/sys/devices/virtual/net/wg0/ifindex: 30
/sys/devices/virtual/net/wg0/operstate: unknown
/sys/devices/virtual/net/wg0/mtu: 1420
";
const USB_NIC: &str = "\
/sys/class/net/eth2 -> ../../devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/net/eth2
/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/net/eth2/ifindex: 7
/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/net/eth2/operstate: up
/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/net/eth2/mtu: 1500
/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/net/eth2/device -> ../../../1-2:1.0
/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/subsystem -> ../../../../../../bus/usb
/sys/bus/usb/drivers/x: y
/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/version: 2.10
";

/// All lines of both cards on some CPU.
fn lines_on(first: &str, second: &str) -> String {
    format!(
        "/proc/irq/{{40-43}}/smp_affinity_list: {first}\n\
         /proc/irq/{{40-43}}/effective_affinity_list: {first}\n\
         /proc/irq/{{50-53}}/smp_affinity_list: {second}\n\
         /proc/irq/{{50-53}}/effective_affinity_list: {second}\n"
    )
}

fn eth(n: u32) -> String {
    format!("/sys/devices/pci0000:00/0000:0{}:00.0/net/eth{n}", n + 1)
}

/// Ports that one CPU can't fill.
const FAST: &str = "\
/sys/devices/pci0000:00/0000:01:00.0/net/eth0/speed: 10000
/sys/devices/pci0000:00/0000:02:00.0/net/eth1/speed: 10000
";

/// CPUs as the kernel lists them: online, isolated.
fn cpus(online: &str, isolated: &str) -> String {
    format!(
        "/sys/devices/system/cpu/online: {online}\n/sys/devices/system/cpu/isolated: {isolated}\n"
    )
}

/// Both cards are igc's.
const IGC: &str = "\
/sys/devices/pci0000:00/0000:01:00.0/driver -> ../../../bus/pci/drivers/igc
/sys/bus/pci/drivers/igc/uevent: x
";

/// CAKE on these devices, as the only one.
fn shaped(devices: &[&str]) -> String {
    let one =
        |device: &&str| format!("{{\"device\":\"{device}\",\"kind\":\"cake\",\"queue\":null}}");
    let all: Vec<String> = devices.iter().map(one).collect();
    format!("/linerate/qdiscs.json: [{}]\n", all.join(","))
}

/// The first card is faster than the second.
const FAST_FIRST: &str = "\
/sys/devices/pci0000:00/0000:01:00.0/net/eth0/speed: 2500
/sys/devices/pci0000:00/0000:02:00.0/net/eth1/speed: 1000
";

/// Both cards in a bond, which sent so many packets by each.
fn bond(mode: &str, policy: &str, sent: [u64; 2]) -> String {
    let port = |n: u32, sent: u64| {
        format!(
            "{0}/statistics/tx_packets: {sent}\n{0}/operstate: up\n\
             /sys/devices/virtual/net/bond0/lower_eth{n} -> {0}\n",
            eth(n)
        )
    };
    format!(
        "/sys/class/net/bond0 -> ../../devices/virtual/net/bond0\n\
         /sys/devices/virtual/net/bond0/ifindex: 31\n\
         /sys/devices/virtual/net/bond0/operstate: up\n\
         /sys/devices/virtual/net/bond0/bonding/mode: {mode}\n\
         /sys/devices/virtual/net/bond0/bonding/xmit_hash_policy: {policy}\n{}{}",
        port(0, sent[0]),
        port(1, sent[1])
    )
}

/// Four CPUs, and so many ticks stolen from each.
fn ticks(stolen: u32) -> String {
    let line = |cpu: u32| format!("cpu{cpu} 5100 0 7800 900000 30 0 22000 {stolen} 0 0\n");
    format!("/proc/stat <<\n{}.\n", (0..4).map(line).collect::<String>())
}

/// The first card with another driver.
fn driver(name: &str) -> String {
    format!(
        "/sys/devices/pci0000:00/0000:01:00.0/driver -> ../../../bus/pci/drivers/{name}\n\
         /sys/bus/pci/drivers/{name}/uevent: x\n"
    )
}

/// The first card's flow control: negotiated, sending, and what both ends offer.
fn pause(autoneg: u8, tx: u8, own: u8, partner: u8) -> String {
    format!(
        "/linerate/nic/eth0.json: {{\"pause\":{{\"autoneg\":{autoneg},\"rx\":{tx},\"tx\":{tx},\
         \"advertised\":{own},\"partner\":{partner}}}}}\n"
    )
}

/// Sixteen CPUs, and the cards' packets handed to all that take no interrupts.
fn steered_over_sixteen() -> String {
    let cpus = |file: &str| format!("/sys/devices/system/cpu/{file}: 0-15\n");
    let masks = |n: u32| format!("{}/queues/rx-{{0-3}}/rps_cpus: fff0\n", eth(n));
    ["online", "present", "possible"].map(cpus).concat() + &masks(0) + &masks(1)
}

/// A token bucket on the first card, of so many bytes a second; as a big-endian machine tells it too.
fn token_bucket(rate: u32) -> String {
    bucket(&rate.to_le_bytes(), "28000100")
}

fn bucket(rate: &[u8], head: &str) -> String {
    let rate: String = rate.iter().map(|byte| format!("{byte:02x}")).collect();
    let options = format!("{head}{}{rate}{}", "00".repeat(8), "00".repeat(24));
    format!(
        "/linerate/qdiscs.json: [{{\"device\":\"eth0\",\"kind\":\"tbf\",\"queue\":null,\"options\":\"{options}\"}}]\n"
    )
}

/// Rule, how grave where it must be found, and what makes the well tuned router so; `None` for what
/// looks alike and is well.
type Case = (&'static str, Option<Severity>, String);

fn cases() -> Vec<Case> {
    let yes = |rule, severity, patch: String| (rule, Some(severity), patch);
    let no = |rule, patch: String| (rule, None, patch);
    let openwrt = |options: &str| {
        format!(
            "/etc/config/firewall <<\nconfig defaults\n{options}\nconfig zone\n\toption name 'wan'\n\
             \toption masq '1'\n\toption mtu_fix '1'\n\toption network 'wan'\n.\n\
             /etc/config/network <<\nconfig interface 'wan'\n\toption device 'eth0'\n\
             config globals 'globals'\n\toption packet_steering '0'\n.\n"
        )
    };
    let steering =
        "/etc/config/network <<\nconfig globals 'globals'\n\toption packet_steering '1'\n.\n";
    let script = "/etc/rc.local: echo f > /sys/class/net/eth0/queues/rx-0/rps_cpus\n";
    let irqbalance = "/proc/77/comm: irqbalance\n/proc/77/cmdline: /usr/sbin/irqbalance\n";
    let masks = |mask: &str| -> String {
        [0, 1].map(|n| format!("{}/queues/rx-{{0-3}}/rps_cpus: {mask}\n", eth(n))).concat()
    };
    let checksums = |rx: bool, sent: &str| {
        format!(
            "/linerate/features/eth0.json: {{\"rx-checksum\":{{\"active\":{rx},\"changeable\":true}},\
             \"rx-gro\":{{\"active\":true,\"changeable\":true}},{sent}}}\n"
        )
    };
    let strays = |dropped: u64, received: u64| {
        format!(
            "/proc/net/netstat <<\nTcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 0 {dropped}\n.\n\
             /proc/net/snmp <<\nIp: Forwarding InReceives ForwDatagrams\nIp: 1 {received} {received}\n.\n"
        )
    };
    let thrown = |early: &str| {
        format!(
            "/proc/net/stat/nf_conntrack <<\nentries  early_drop\n00000064 {early}\n00000064 00000000\n.\n"
        )
    };
    let waiting = |length: u32, kind: &str| {
        format!(
            "{}/tx_queue_len: {length}\n/linerate/qdiscs.json: \
             [{{\"device\":\"eth0\",\"kind\":\"{kind}\",\"queue\":null}}]\n",
            eth(0)
        )
    };
    let esp = |driver: &str| {
        format!(
            "/proc/crypto <<\nname         : seqiv(rfc4106(gcm(aes)))\ndriver       : {driver}\n\
             module       : seqiv\npriority     : 100\nselftest     : passed\n.\n"
        )
    };
    let aes = "/proc/cpuinfo <<\nprocessor\t: 0\nflags\t\t: fpu ssse3 aes avx2\n.\n";
    let statistics =
        |n: u32, name: &str, count: u64| format!("{}/statistics/{name}: {count}\n", eth(n));
    let pcie = "/sys/devices/pci0000:00/0000:01:00.0";
    let policy = "/sys/devices/system/cpu/cpufreq/policy{0-3}";
    let config = |lines: &str| format!("/boot/config-6.6.30 <<\n{lines}\n.\n");
    let nic = |rest: &str| {
        format!(
            "/linerate/nic/eth0.json: {{\"channels\":{{\"combined\":4,\"combined-max\":4}},{rest}}}\n"
        )
    };
    let features = |gro: bool, lro: bool, tso: bool| {
        format!(
            "/linerate/features/eth0.json: {{\"rx-gro\":{{\"active\":{gro},\"changeable\":true}},\
             \"rx-lro\":{{\"active\":{lro},\"changeable\":true}},\
             \"tx-tcp-segmentation\":{{\"active\":{tso},\"changeable\":true}}}}\n"
        )
    };
    let usb_at = |speed: u32, link: u32| {
        let at = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2";
        format!("{USB_NIC}{at}/speed: {speed}\n{at}/1-2:1.0/net/eth2/speed: {link}\n")
    };
    let rules = |n: u32, table: bool| {
        let table = if table {
            "{\"name\":\"inet ft\",\"devices\":[\"eth0\",\"eth1\"],\"hardware\":false}"
        } else {
            ""
        };
        format!(
            "/linerate/nftables.json: {{\"rules\":{n},\"forward_rules\":{n},\"nat\":true,\"masquerade_devices\":[\"eth0\"],\"clamps_mss\":true,\"flowtables\":[{table}]}}\n"
        )
    };
    let old_rules = |early: &str| {
        format!(
            "/proc/net/ip_tables_names: filter\n{NO_FLOWTABLE}/linerate/iptables.json: \
             [{{\"table\":\"filter\",\"rules\":1510,\"forward_rules\":1500,{early}\"nat\":false}}]\n"
        )
    };
    let snmp = |created: u64| {
        format!(
            "/proc/net/snmp <<\nIp: ForwDatagrams FragFails FragCreates\nIp: 80000000 12 {created}\n.\n"
        )
    };
    let softnet = |dropped: &str, squeezed: &str| {
        let row = |cpu: u32| {
            let zeros = "00000000 ".repeat(9);
            format!("017d7840 {dropped} {squeezed} {zeros}{cpu:08x} 00000000 00000000\n")
        };
        format!("/proc/net/softnet_stat <<\n{}{}{}{}.\n", row(0), row(1), row(2), row(3))
    };
    let hardware = "/linerate/arch: aarch64\n/proc/device-tree/compatible: x,y mediatek,mt7986a\n";
    let sqm = |table: &str| {
        format!(
            "/linerate/qdiscs.json: [{{\"device\":\"eth0\",\"kind\":\"cake\",\"queue\":null}}]\n\
             /linerate/nftables.json: {{\"rules\":3,\"forward_rules\":2,\"nat\":true,\"masquerade_devices\":[\"eth0\"],\"clamps_mss\":true,\"flowtables\":[{table}]}}\n"
        )
    };
    let soft = "{\"name\":\"inet ft\",\"devices\":[\"eth0\",\"eth1\"],\"hardware\":false}";
    let hard = "{\"name\":\"inet ft\",\"devices\":[\"eth0\",\"eth1\"],\"hardware\":true}";
    let kernel = |release: &str| {
        format!(
            "/proc/sys/kernel/osrelease: {release}\n/boot/config-{release}: CONFIG_PREEMPT_NONE=y\n"
        )
    };
    vec![
        yes("lone-cpu", Warning, lines_on("0", "0") + FAST),
        // Two links of a gigabit are full before that CPU.
        yes("lone-cpu", Info, lines_on("0", "0")),
        // The kernel's word is from before the mask was written.
        yes("lone-cpu", Warning, lines_on("0", "0").replace("effective_affinity_list: 0", "effective_affinity_list: 2") + FAST),
        // An idle port elsewhere.
        yes("lone-cpu", Warning, lines_on("0", "1") + &statistics(1, "rx_packets", 70) + FAST + NO_FLOWTABLE),
        no("lone-cpu", lines_on("0", "1") + FAST),
        yes("isolated-cpus", Notice, cpus("0-3", "2-3") + FAST),
        no("isolated-cpus", cpus("0-3", "2-3") + FAST + &lines_on("0", "1")),
        no("isolated-cpus", cpus("0-3", "") + FAST),
        yes("uneven-load", Info, lines_on("0", "1") + FAST),
        yes("uneven-load", Notice, lines_on("0", "1") + FAST + NO_FLOWTABLE),
        no("uneven-load", FAST.to_owned()),
        // What a plain pattern tells is told once.
        no("uneven-load", lines_on("0", "0") + FAST),
        yes("idle-cpus", Warning, cpus("0", "") + FAST),
        yes("idle-cpus", Warning, cpus("0-3", "1-3") + FAST),
        yes("idle-cpus", Info, cpus("0-1", "") + FAST),
        yes("idle-cpus", Notice, cpus("0-1", "") + FAST + NO_FLOWTABLE),
        no("idle-cpus", FAST.to_owned()),
        yes("idle-cpus", Notice, cpus("0", "") + "/linerate/bound_flows.json: {\"bound\":900,\"hardware\":890,\"complete\":true,\"by\":\"ctnetlink\"}\n"),
        no("lone-cpu", lines_on("0", "0") + &format!("{}/queues/rx-{{0-3}}/rps_cpus: e\n", eth(1))),
        no("lone-cpu", lines_on("0", "0") + "/sys/devices/system/cpu/isolated: 1-3\n"),
        // A mask of several says nothing of where they go.
        no("lone-cpu", lines_on("0-3", "0-3") + &ONE_QUEUE.replace("25000000", "7").replace("90000000", "9")),
        no("lone-cpu", lines_on("0", "0") + &format!("{}/threaded: 1\n{}/threaded: 1\n", eth(0), eth(1))),
        yes("little-cores", Warning, LITTLE.to_owned() + &lines_on("0", "1") + FAST),
        no("little-cores", LITTLE.to_owned() + &lines_on("2", "3")),
        no("little-cores", lines_on("0", "1")),
        // One cause, one warning: that is `lone-cpu`'s.
        yes("immovable-line", Notice, lines_on("0", "0") + "/linerate/fixed_irqs.json: [40,41,42,43]\n" + FAST),
        no("immovable-line", "/linerate/fixed_irqs.json: [40,41,42,43]\n".to_owned() + &lines_on("0", "1")),
        no("immovable-line", lines_on("0", "0")),
        yes("rps-own-cpu", Notice, lines_on("0", "0") + &format!("{}/queues/rx-{{0-3}}/rps_cpus: f\n", eth(0))),
        yes("rps-own-cpu", Notice, format!("{}/queues/rx-2/rps_cpus: 4\n", eth(0))),
        no("rps-own-cpu", lines_on("0", "0") + &format!("{}/queues/rx-{{0-3}}/rps_cpus: e\n", eth(0))),
        yes("rps-with-queues", Notice, format!("{}/queues/rx-{{0-3}}/rps_cpus: f\n", eth(0))),
        no("rps-with-queues", lines_on("0", "1") + &format!("{}/queues/rx-{{0-3}}/rps_cpus: e\n", eth(0))),
        yes("steered-twice", Notice, PPPOE.replace("ppp0/queues/rx-0/rps_cpus: 0", "ppp0/queues/rx-0/rps_cpus: e") + FAST + ETH0_RPS),
        // The same CPUs again: a packet stays where it is.
        no("steered-twice", PPPOE.replace("ppp0/queues/rx-0/rps_cpus: 0", "ppp0/queues/rx-0/rps_cpus: f") + FAST + ETH0_RPS),
        yes("steered-twice", Info, PPPOE.replace("ppp0/queues/rx-0/rps_cpus: 0", "ppp0/queues/rx-0/rps_cpus: f")),
        no("steered-twice", PPPOE.to_owned()),
        no("steered-twice", lines_on("0", "1") + &PPPOE.replace("ppp0/queues/rx-0/rps_cpus: 0", "ppp0/queues/rx-0/rps_cpus: e")),
        // The masks were written before the CPUs went away.
        yes("offline-mask", Warning, cpus("0-1", "") + FAST + NO_FLOWTABLE + &lines_on("0", "0") + &masks("c")),
        no("lone-cpu", cpus("0-3", "") + FAST + NO_FLOWTABLE + &lines_on("0", "0") + &masks("c")),
        // One cause, one finding.
        no("lone-cpu", cpus("0-1", "") + FAST + NO_FLOWTABLE + &lines_on("0", "0") + &masks("c")),
        yes("offline-mask", Info, cpus("0-1", "") + &masks("4")),
        no("offline-mask", cpus("0-1", "") + &masks("2")),
        no("offline-mask", masks("c")),
        yes("decimal-mask", Notice, format!("{}/queues/rx-0/rps_cpus: 15\n/sys/devices/system/cpu/{{0-0}}/x: 0\n", eth(0)) + SIX_CPUS),
        no("decimal-mask", format!("{}/queues/rx-0/rps_cpus: e\n", eth(0)) + SIX_CPUS),
        no("decimal-mask", format!("{}/queues/rx-0/rps_cpus: 10\n", eth(0)) + SIX_CPUS),
        yes("rss-defeated", Warning, SWITCH.to_owned() + ONE_QUEUE),
        no("rss-defeated", SWITCH.to_owned()),
        no("rss-defeated", ONE_QUEUE.to_owned()),
        no("rss-defeated", SWITCH.to_owned() + ONE_QUEUE + &format!("{}/queues/rx-0/rps_cpus: e\n", eth(1))),
        yes("flow-offload-off", Notice, NO_FLOWTABLE.into()),
        yes("flow-offload-off", Notice, openwrt("\toption flow_offloading '0'") + NO_FLOWTABLE),
        no("flow-offload-off", NO_FLOWTABLE.replace("\"nat\":true", "\"nat\":false")),
        no("flow-offload-off", NO_FLOWTABLE.to_owned() + "/proc/sys/net/ipv4/ip_forward: 0\n/proc/sys/net/ipv6/conf/all/forwarding: 0\n"),
        yes("flow-offload-devices", Warning, PPPOE.replace("[\"ppp0\",\"eth1\"]", "[\"eth0\",\"eth1\"]")),
        yes("flow-offload-devices", Warning, rules(9, true).replace("[\"eth0\",\"eth1\"]", "[\"eth1\",\"wlan7\"]")),
        no("flow-offload-devices", PPPOE.to_owned()),
        yes("flow-offload-unbound", Warning, "/linerate/bound_flows.json: {\"bound\":0,\"hardware\":0,\"complete\":true,\"by\":\"ctnetlink\"}\n".into()),
        yes("flow-offload-unbound", Warning, openwrt("\toption flow_offloading '1'") + NO_FLOWTABLE),
        no("flow-offload-unbound", "/linerate/bound_flows.json: {\"bound\":0,\"hardware\":0,\"complete\":true,\"by\":\"ctnetlink\"}\n/proc/sys/net/netfilter/nf_conntrack_count: 7\n".into()),
        no("flow-offload-unbound", "/linerate/bound_flows.json: {\"bound\":0,\"hardware\":0,\"complete\":false,\"by\":\"ctnetlink\"}\n".into()),
        yes("flow-offload-sqm", Warning, sqm(hard)),
        no("flow-offload-sqm", sqm("")),
        no("flow-offload-sqm", sqm(soft)),
        yes("hardware-offload-unused", Notice, hardware.into()),
        no("hardware-offload-unused", hardware.to_owned() + &rules(9, true).replace("\"hardware\":false", "\"hardware\":true")),
        no("hardware-offload-unused", "/linerate/arch: aarch64\n/proc/device-tree/compatible: x,y rockchip,rk3399\n".into()),
        yes("bridge-netfilter", Warning, BRIDGE.to_owned() + "/proc/sys/net/bridge/bridge-nf-call-iptables: 1\n"),
        no("bridge-netfilter", BRIDGE.to_owned() + "/proc/sys/net/bridge/bridge-nf-call-iptables: 0\n"),
        no("bridge-netfilter", "/proc/sys/net/bridge/bridge-nf-call-iptables: 1\n".into()),
        yes("large-rule-set", Warning, rules(900, false)),
        yes("large-rule-set", Notice, rules(900, true)),
        no("large-rule-set", rules(60, false)),
        // As Docker and old scripts have it, by the old iptables: counted, and behind an early accept.
        yes("large-rule-set", Warning, old_rules("")),
        yes("large-rule-set", Warning, old_rules("\"established_rules\":1490,")),
        no("large-rule-set", old_rules("\"established_rules\":2,")),
        // 900 rules behind one that accepts established connections.
        no("large-rule-set", rules(900, false).replace("\"nat\"", "\"established_rules\":3,\"nat\"")),
        yes("large-rule-set", Warning, rules(900, false).replace("\"nat\"", "\"established_rules\":900,\"nat\"")),
        yes("conntrack-full", Critical, "/proc/sys/net/netfilter/nf_conntrack_count: 65000\n".into()),
        yes("conntrack-full", Warning, "/proc/sys/net/netfilter/nf_conntrack_count: 55000\n".into()),
        no("conntrack-full", "/proc/sys/net/netfilter/nf_conntrack_count: 40000\n".into()),
        // Half empty now, and full some time ago.
        yes("conntrack-full", Warning, thrown("00002710")),
        // Four an hour.
        no("conntrack-full", thrown("000003e8")),
        no("conntrack-full", thrown("00000003")),
        yes("backlog-drops", Warning, softnet("00002000", "00000010")),
        yes("backlog-drops", Notice, softnet("00000002", "00000010")),
        no("backlog-drops", softnet("00000000", "00000010")),
        yes("budget-squeezes", Notice, softnet("00000000", "00020000")),
        no("budget-squeezes", softnet("00000000", "00002000")),
        yes("short-rings", Warning, statistics(0, "rx_missed_errors", 40_000)),
        no("short-rings", statistics(0, "rx_missed_errors", 0)),
        no("short-rings", statistics(0, "rx_missed_errors", 40_000) + &nic("\"rings\":{\"rx\":4096,\"rx-max\":4096}")),
        yes("ring-overflow", Warning, statistics(0, "rx_missed_errors", 400_000) + &nic("\"rings\":{\"rx\":4096,\"rx-max\":4096}")),
        no("ring-overflow", statistics(0, "rx_missed_errors", 900) + &nic("\"rings\":{\"rx\":4096,\"rx-max\":4096}")),
        // A short ring is told as such.
        no("ring-overflow", statistics(0, "rx_missed_errors", 400_000)),
        yes("odd-limits", Warning, "/proc/sys/net/core/netdev_budget: 8\n".into()),
        yes("odd-limits", Warning, "/proc/sys/net/core/netdev_budget_usecs: 0\n".into()),
        no("odd-limits", "/proc/sys/net/core/netdev_budget_usecs: 1\n".into()),
        yes("odd-limits", Warning, "/proc/sys/net/core/dev_weight: 1\n".into()),
        yes("odd-limits", Warning, "/proc/sys/net/core/netdev_max_backlog: 10\n".into()),
        yes("odd-limits", Notice, "/proc/sys/net/netfilter/nf_conntrack_buckets: 1024\n".into()),
        yes("odd-limits", Warning, "/proc/sys/net/netfilter/nf_conntrack_buckets: 1024\n/proc/sys/net/netfilter/nf_conntrack_count: 30000\n".into()),
        // As kernels before 5.15 have it: eight connections for each bucket.
        no("odd-limits", "/proc/sys/net/netfilter/nf_conntrack_buckets: 8192\n/proc/sys/net/core/netdev_budget: 600\n".into()),
        yes("odd-limits", Warning, waiting(10, "pfifo_fast")),
        no("odd-limits", waiting(10, "fq_codel")),
        no("odd-limits", waiting(1000, "pfifo_fast")),
        yes("neighbour-overflow", Warning, "/proc/net/stat/arp_cache <<\nentries  table_fulls\n000003ff 00000000\n.\n/proc/sys/net/ipv4/neigh/default/gc_thresh3: 1024\n".into()),
        no("neighbour-overflow", "/proc/net/stat/arp_cache <<\nentries  table_fulls\n000000ff 00000000\n.\n/proc/sys/net/ipv4/neigh/default/gc_thresh3: 1024\n".into()),
        yes("neighbour-overflow", Warning, "/proc/net/stat/arp_cache <<\nentries  table_fulls\n00000400 0000001f\n00000400 00000001\n.\n".into()),
        no("neighbour-overflow", "/proc/net/stat/arp_cache <<\nentries  table_fulls\n00000200 00000000\n.\n".into()),
        yes("flapping-link", Warning, format!("{}/carrier_changes: 400\n/proc/uptime: 36000.00 1\n", eth(0))),
        yes("pause-mismatch", Notice, pause(0, 1, 3, 0)),
        no("pause-mismatch", pause(0, 1, 3, 3)),
        no("pause-mismatch", pause(1, 1, 3, 0)),
        yes("pause-mismatch", Notice, pause(1, 0, 3, 0) + FAST_FIRST + &statistics(0, "rx_missed_errors", 4000)),
        yes("pause-mismatch", Notice, pause(1, 0, 0, 3) + FAST_FIRST + &statistics(0, "rx_missed_errors", 4000)),
        no("pause-mismatch", pause(1, 0, 3, 1) + FAST_FIRST + &statistics(0, "rx_missed_errors", 4000)),
        // Nobody sends faster than the other can take.
        no("pause-mismatch", pause(1, 0, 3, 0) + &statistics(0, "rx_missed_errors", 4000)),
        no("pause-mismatch", pause(1, 0, 3, 0) + FAST_FIRST),
        no("flapping-link", format!("{}/carrier_changes: 400\n/proc/uptime: 8640000.00 1\n", eth(0))),
        no("flapping-link", format!("{}/carrier_changes: 12\n/proc/uptime: 900.00 1\n", eth(0))),
        // openwrt issue 14167.
        yes("transmit-hang", Warning, format!("{}/queues/tx-0/tx_timeout: 7\n", eth(0))),
        yes("transmit-hang", Notice, format!("{}/queues/tx-0/tx_timeout: 1\n", eth(0))),
        no("transmit-hang", format!("{}/queues/tx-0/tx_timeout: 0\n", eth(0))),
        // openmediavault issue 1542; Documentation/networking/bonding.rst.
        yes("bond-hash", Notice, bond("802.3ad 4", "layer2 0", [90_000_000, 12_000])),
        no("bond-hash", bond("802.3ad 4", "layer2 0", [50_000_000, 40_000_000])),
        no("bond-hash", bond("802.3ad 4", "layer3+4 1", [90_000_000, 12_000])),
        no("bond-hash", bond("active-backup 1", "layer2 0", [90_000_000, 12_000])),
        // openwrt issue 23085: full duplex, and a driver that does not know.
        no("half-duplex", format!("{}/duplex: half\n{}/operstate: up\n", eth(0), eth(0)) + &driver("cdc_ncm")),
        // libpcap pull request 1329: vmxnet3 has no rx_missed_errors.
        yes("short-rings", Warning, format!("/linerate/counters/eth0.json: {{\"pkts rx OOB\":40000}}\n{}/statistics/rx_packets: 80000000\n", eth(0)) + &nic("\"rings\":{\"rx\":256,\"rx-max\":4096}")),
        no("short-rings", format!("/linerate/counters/eth0.json: {{\"pkts rx err\":40000}}\n{}/statistics/rx_packets: 80000000\n", eth(0)) + &nic("\"rings\":{\"rx\":256,\"rx-max\":4096}")),
        yes("eee", Info, nic("\"eee\":{\"active\":1,\"enabled\":1}")),
        yes("eee", Notice, nic("\"eee\":{\"active\":1,\"enabled\":1}") + &statistics(0, "rx_crc_errors", 900)),
        // Offered and not taken by the other end.
        no("eee", nic("\"eee\":{\"active\":0,\"enabled\":1}") + &statistics(0, "rx_crc_errors", 900)),
        yes("stolen-time", Warning, ticks(60_000)),
        yes("stolen-time", Notice, ticks(5_000)),
        no("stolen-time", ticks(900)),
        // vyos/vyatta-cfg-system pull request 107.
        yes("ipv6-routes-full", Warning, "/proc/net/rt6_stats: 0010 0008 0020 001c 0000 1000 0000\n/proc/sys/kernel/osrelease: 5.10.1\n".into()),
        no("ipv6-routes-full", "/proc/net/rt6_stats: 0010 0008 0020 001c 0000 0800 0000\n/proc/sys/kernel/osrelease: 5.10.1\n".into()),
        // Linux 6.3 and later.
        no("ipv6-routes-full", "/proc/net/rt6_stats: 0010 0008 0020 001c 0000 11940 0000\n/proc/sys/kernel/osrelease: 6.6.30\n".into()),
        yes("slow-clock", Notice, "/sys/devices/system/clocksource/clocksource0/current_clocksource: hpet\n".into()),
        no("slow-clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource: kvm-clock\n".into()),
        yes("packet-taps", Notice, "/proc/net/packet <<\nsk RefCnt Type Proto  Iface R Rmem   User   Inode\n00 3      3    0003   2     1 0      0      81467\n.\n".into()),
        no("packet-taps", "/proc/net/packet <<\nsk RefCnt Type Proto  Iface R Rmem   User   Inode\n00 3      2    0800   2     1 0      0      81467\n00 3      3    0003   2     0 0      0      7\n.\n".into()),
        yes("pcie-sleep", Info, format!("{pcie}/link/l1_aspm: 1\n{IGC}")),
        yes("pcie-sleep", Notice, format!("{pcie}/link/l1_aspm: 1\n{IGC}") + &statistics(0, "rx_missed_errors", 9)),
        no("pcie-sleep", format!("{pcie}/link/l1_aspm: 1\n")),
        no("pcie-sleep", IGC.to_owned()),
        yes("iommu-strict", Notice, format!("{pcie}/iommu_group/type: DMA\n{}/speed: 10000\n", eth(0))),
        no("iommu-strict", format!("{pcie}/iommu_group/type: DMA\n")),
        no("iommu-strict", format!("{pcie}/iommu_group/type: identity\n{}/speed: 10000\n", eth(0))),
        yes("shaper-ceiling", Notice, shaped(&["eth0"]) + FAST + NO_FLOWTABLE + &steered_over_sixteen()),
        // With four CPUs it is they that are full first.
        no("shaper-ceiling", shaped(&["eth0"]) + FAST + NO_FLOWTABLE),
        no("shaper-ceiling", FAST.into()),
        yes("forgotten-qdisc", Warning, "/linerate/qdiscs.json: [{\"device\":\"eth0\",\"kind\":\"netem\",\"queue\":null}]\n".into()),
        yes("forgotten-qdisc", Notice, token_bucket(1_250_000)),
        no("forgotten-qdisc", token_bucket(112_500_000)),
        yes("forgotten-qdisc", Notice, bucket(&1_250_000_u32.to_be_bytes(), "00280001")),
        no("forgotten-qdisc", bucket(&112_500_000_u32.to_be_bytes(), "00280001")),
        no("forgotten-qdisc", "/linerate/qdiscs.json: [{\"device\":\"eth0\",\"kind\":\"fq_codel\",\"queue\":null}]\n".into()),
        // Segments that are clamped: whoever set the MTU knows.
        no("odd-mtu", format!("{}/mtu: 1492\n", eth(1))),
        yes("odd-mtu", Warning, format!("{}/mtu: 1492\n", eth(1)) + &NO_FLOWTABLE.replace("\"clamps_mss\":true", "\"clamps_mss\":false")),
        // 2 in 10,000, and long ago.
        yes("backlog-drops", Notice, softnet("00002000", "00000010") + "/proc/uptime: 8640000.00 1\n"),
        yes("backlog-drops", Warning, softnet("00020000", "00000010") + "/proc/uptime: 86400.00 1\n"),
        yes("coalescing-off", Warning, nic("\"coalesce\":{\"rx-usecs\":0,\"rx-frames\":0}")),
        no("coalescing-off", nic("\"coalesce\":{\"rx-usecs\":0,\"rx-frames\":0,\"use-adaptive-rx\":1}")),
        no("coalescing-off", nic("\"coalesce\":{\"rx-usecs\":0,\"rx-frames\":32}")),
        yes("gro-off", Warning, features(false, false, true)),
        no("gro-off", features(true, false, true)),
        // openwrt pull request 23463: bgmac can't verify checksums, and OpenWrt leaves GRO off there.
        no("gro-off", features(false, false, true).replace("{\"rx-gro\"", "{\"rx-checksum\":{\"active\":false,\"changeable\":false},\"rx-gro\"")),
        yes("lro-on", Warning, features(true, true, true)),
        no("lro-on", features(true, true, true) + "/proc/sys/net/ipv4/ip_forward: 0\n/proc/sys/net/ipv6/conf/all/forwarding: 0\n"),
        yes("tso-off", Notice, features(true, false, false)),
        no("tso-off", features(true, false, true)),
        yes("checksum-off", Warning, checksums(false, "\"tx-checksum-ip-generic\":{\"active\":true,\"changeable\":true}")),
        yes("checksum-off", Warning, checksums(true, "\"tx-checksum-ipv4\":{\"active\":false,\"changeable\":true}")),
        // Without them the kernel lets no card segment: one cause.
        no("tso-off", checksums(true, "\"tx-checksum-ipv4\":{\"active\":false,\"changeable\":true},\"tx-tcp-segmentation\":{\"active\":false,\"changeable\":true}")),
        // One way to fill them in is enough; a card without any is what it is.
        no("checksum-off", checksums(true, "\"tx-checksum-ip-generic\":{\"active\":true,\"changeable\":true},\"tx-checksum-ipv4\":{\"active\":false,\"changeable\":true}")),
        no("checksum-off", checksums(true, "\"tx-checksum-ipv4\":{\"active\":false,\"changeable\":false}")),
        no("checksum-off", checksums(false, "\"tx-checksum-ip-generic\":{\"active\":false,\"changeable\":true}") + &format!("{}/mtu: 9000\n", eth(0))),
        yes("reverse-path", Warning, strays(5_000_000, 80_000_000)),
        yes("reverse-path", Notice, strays(200_000, 80_000_000)),
        no("reverse-path", strays(20_000, 80_000_000)),
        no("reverse-path", strays(500, 800)),
        yes("half-duplex", Critical, format!("{}/duplex: half\n", eth(0))),
        no("half-duplex", format!("{}/duplex: unknown\n", eth(0))),
        no("half-duplex", format!("{}/duplex: half\n{}/operstate: down\n", eth(0), eth(0))),
        yes("slow-link", Warning, format!("{}/speed: 100\n", eth(0))),
        // Both ends offer more, or this one does not; the other can't, or the port can't.
        yes("slow-link", Warning, speeds("\"able\":1000,\"advertised\":1000,\"partner\":1000")),
        yes("slow-link", Warning, speeds("\"able\":1000,\"advertised\":100")),
        no("slow-link", speeds("\"able\":1000,\"advertised\":1000,\"partner\":100")),
        no("slow-link", speeds("\"able\":100,\"advertised\":100,\"partner\":100")),
        no("slow-link", format!("{}/speed: -1\n", eth(0))),
        no("slow-link", format!("{}/speed: 2500\n", eth(0))),
        yes("slow-link", Warning, at_1000("\"able\":2500,\"advertised\":2500,\"partner\":5000")),
        no("slow-link", at_1000("\"able\":2500,\"advertised\":2500,\"partner\":1000")),
        no("slow-link", at_1000("\"able\":2500,\"advertised\":1000,\"partner\":2500")),
        no("slow-link", at_1000("\"able\":2500,\"advertised\":2500")),
        yes("damaged-frames", Warning, statistics(0, "rx_crc_errors", 50_000)),
        no("damaged-frames", statistics(0, "rx_crc_errors", 9)),
        yes("pause-storm", Notice, "/linerate/counters/eth0.json: {\"rx_flow_control_xoff\":9000000}\n".into()),
        no("pause-storm", "/linerate/counters/eth0.json: {\"rx_flow_control_xoff\":900}\n".into()),
        yes("pppoe-mtu", Warning, PPPOE.replace("mtu: 1492", "mtu: 1500")),
        no("pppoe-mtu", PPPOE.replace("mtu: 1492", "mtu: 1500") + &format!("{}/mtu: 1508\n", eth(0))),
        no("pppoe-mtu", PPPOE.to_owned()),
        yes("no-mss-clamp", Warning, PPPOE.replace("\"clamps_mss\":true", "\"clamps_mss\":false")),
        no("no-mss-clamp", PPPOE.to_owned()),
        no("no-mss-clamp", openwrt("") + &PPPOE.replace("\"clamps_mss\":true", "\"clamps_mss\":false")),
        no("no-mss-clamp", PPPOE.replace("\"clamps_mss\":true,", "")),
        yes("fragments", Notice, snmp(900_000)),
        yes("fragments", Warning, snmp(7_000_000)),
        no("fragments", snmp(900)),
        yes("odd-mtu", Warning, format!("{}/mtu: 1200\n", eth(1))),
        yes("odd-mtu", Notice, format!("{}/mtu: 9000\n", eth(1))),
        no("odd-mtu", format!("{}/mtu: 1508\n", eth(1))),
        yes("pcie-link", Warning, format!("{}/speed: 2500\n{pcie}/current_link_speed: 2.5 GT/s PCIe\n{pcie}/current_link_width: 1\n", eth(0))),
        no("pcie-link", format!("{}/speed: 2500\n{pcie}/current_link_width: 1\n", eth(0))),
        no("pcie-link", format!("{pcie}/current_link_speed: 2.5 GT/s PCIe\n{pcie}/current_link_width: 1\n")),
        yes("usb2", Warning, usb_at(480, 1000)),
        no("usb2", usb_at(5000, 1000)),
        no("usb2", usb_at(480, 100)),
        yes("governor", Warning, format!("{policy}/scaling_governor: powersave\n")),
        yes("governor", Info, format!("{policy}/scaling_governor: schedutil\n")),
        // Boards whose way up is long: 48 to 716 MHz on IPQ40xx.
        yes("governor", Notice, format!("/linerate/arch: armv7l\n{policy}/scaling_governor: ondemand\n{policy}/scaling_min_freq: 48000\n")),
        // As OpenWrt's filogic has it by default: well where the boot loader left it fast.
        yes("governor", Warning, format!("{policy}/scaling_governor: userspace\n{policy}/scaling_setspeed: 800000\n")),
        no("governor", format!("{policy}/scaling_governor: userspace\n{policy}/scaling_setspeed: 2700000\n")),
        no("governor", format!("{policy}/scaling_governor: powersave\n{policy}/scaling_driver: intel_pstate\n")),
        yes("frequency-limit", Warning, format!("{policy}/scaling_max_freq: 1200000\n")),
        no("frequency-limit", format!("{policy}/scaling_max_freq: 2690000\n")),
        yes("throttled", Critical, "/sys/class/thermal/cooling_device0/cur_state: 3\n".into()),
        yes("throttled", Notice, "/sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count: 41\n".into()),
        no("throttled", "/sys/class/thermal/cooling_device1/type: pwm-fan\n/sys/class/thermal/cooling_device1/cur_state: 3\n".into()),
        yes("under-voltage", Critical, "/sys/class/hwmon/hwmon0/name: rpi_volt\n/sys/class/hwmon/hwmon0/in0_lcrit_alarm: 1\n".into()),
        no("under-voltage", "/sys/class/hwmon/hwmon0/name: rpi_volt\n/sys/class/hwmon/hwmon0/in0_lcrit_alarm: 0\n".into()),
        no("under-voltage", "/sys/class/hwmon/hwmon0/name: ina219\n/sys/class/hwmon/hwmon0/in0_lcrit_alarm: 1\n".into()),
        yes("irqbalance", Notice, irqbalance.into()),
        yes("irqbalance", Warning, irqbalance.to_owned() + LITTLE),
        yes("irqbalance", Warning, irqbalance.to_owned() + "/etc/rc.local: echo 2 > /proc/irq/40/smp_affinity\n"),
        no("irqbalance", "/proc/77/comm: irqbalance-ui\n".into()),
        no("irqbalance", irqbalance.to_owned() + LITTLE + "/etc/default/irqbalance: IRQBALANCE_BANNED_CPULIST=0\n"),
        yes("packet-steering", Warning, steering.to_owned() + script),
        yes("packet-steering", Notice, steering.to_owned()),
        no("packet-steering", steering.to_owned() + NO_FLOWTABLE),
        no("packet-steering", steering.replace("'1'", "'0'") + script),
        yes("slow-crypto", Warning, TUNNEL.to_owned() + "/proc/crypto <<\nname         : chacha20\ndriver       : chacha20-generic\nmodule       : kernel\npriority     : 100\n.\n"),
        no("slow-crypto", TUNNEL.to_owned()),
        yes("slow-crypto", Warning, TUNNEL.to_owned() + GENERIC + "/linerate/arch: riscv64\n/proc/cpuinfo <<\nprocessor\t: 0\nisa\t: rv64imafdcv_zvkb\n.\n"),
        no("slow-crypto", TUNNEL.to_owned() + GENERIC + "/linerate/arch: riscv64\n/proc/cpuinfo <<\nprocessor\t: 0\nisa\t: rv64imafdc_zbb\n.\n"),
        yes("slow-crypto", Warning, TUNNEL.to_owned() + GENERIC + "/linerate/arch: mips\n/proc/cpuinfo <<\nprocessor\t: 0\nisa\t: mips1 mips32r1 mips32r2\n.\n"),
        no("slow-crypto", TUNNEL.to_owned() + GENERIC + "/linerate/arch: mips\n/proc/modules: chacha_mips 1 0 - Live 0x0\n/proc/cpuinfo <<\nprocessor\t: 0\nisa\t: mips1 mips32r1 mips32r2\n.\n"),
        no("slow-crypto", "/proc/crypto <<\nname         : chacha20\ndriver       : chacha20-generic\nmodule       : kernel\npriority     : 100\n.\n".into()),
        yes("slow-ipsec", Warning, esp("seqiv(rfc4106(gcm_base(ctr(aes-generic),ghash-generic)))") + aes),
        no("slow-ipsec", esp("seqiv(rfc4106-gcm-aesni)") + aes),
        no("slow-ipsec", esp("seqiv(rfc4106(gcm_base(ctr(aes-generic),ghash-generic)))") + &aes.replace(" aes ", " ")),
        yes("tracer-on", Warning, "/sys/kernel/tracing/current_tracer: function\n".into()),
        yes("tracer-on", Notice, "/sys/kernel/tracing/events/enable: X\n".into()),
        no("tracer-on", "/sys/kernel/tracing/events/enable: X\n/sys/kernel/tracing/tracing_on: 0\n".into()),
        yes("debug-kernel", Warning, config("CONFIG_PREEMPT_NONE=y\nCONFIG_PROVE_LOCKING=y")),
        no("debug-kernel", config("CONFIG_PREEMPT_NONE=y\n# CONFIG_PROVE_LOCKING is not set\nCONFIG_UBSAN=y\nCONFIG_DEBUG_PAGEALLOC=y")),
        yes("debug-kernel", Warning, config("CONFIG_PREEMPT_NONE=y\nCONFIG_SLUB_DEBUG_ON=y")),
        no("debug-kernel", config("CONFIG_PREEMPT_NONE=y\nCONFIG_SLUB_DEBUG_ON=y") + "/proc/cmdline: quiet slub_debug=-\n"),
        yes("debug-kernel", Notice, config("CONFIG_PREEMPT_NONE=y\nCONFIG_DEBUG_PREEMPT=y")),
        yes("debug-kernel", Warning, config("CONFIG_FUNCTION_TRACER=y\n# CONFIG_DYNAMIC_FTRACE is not set")),
        // What an excerpt leaves out is not known; PREEMPT has a rule of its own.
        no("debug-kernel", config("CONFIG_PREEMPT=y\nCONFIG_FUNCTION_TRACER=y\nCONFIG_SMP=y")),
        yes("preemption", Info, config("CONFIG_PREEMPT=y")),
        yes("preemption", Notice, config("CONFIG_PREEMPT=y") + TUNNEL),
        yes("preemption", Warning, config("CONFIG_PREEMPT=y") + TUNNEL + "/linerate/arch: aarch64\n"),
        no("preemption", config("CONFIG_PREEMPT_VOLUNTARY=y") + TUNNEL),
        yes("blind-softirq-time", Info, config("CONFIG_PREEMPT_NONE=y\nCONFIG_HZ=100")),
        no("blind-softirq-time", String::new()),
        yes("kernel-regression", Warning, PPPOE.to_owned() + &kernel("5.15.120")),
        no("kernel-regression", PPPOE.to_owned() + &kernel("5.15.157")),
        no("kernel-regression", PPPOE.to_owned() + &kernel("5.15.0-105-generic")),
        no("kernel-regression", kernel("5.15.120")),
        yes("no-effect", Info, "/proc/sys/net/core/rps_sock_flow_entries: 65536\n/proc/sys/net/ipv4/tcp_congestion_control: bbr\n".into()),
        no("no-effect", "/proc/sys/net/core/rps_sock_flow_entries: 0\n".into()),
    ]
}

/// Two more CPUs, which bring no packets.
const SIX_CPUS: &str = "\
/sys/devices/system/cpu/online: 0-5
/sys/devices/system/cpu/present: 0-5
/sys/devices/system/cpu/possible: 0-5
";

/// Tested apart: what happens over time, and what needs threads.
const BY_RATES: &[&str] = &["saturated-cpu", "worker-shares-cpu"];

#[test]
fn nothing_is_found_on_a_well_tuned_router_and_every_rule_could_look() {
    let told = check(&tuned_with(""));
    assert_eq!(named(&told), [], "{:#?}", told.findings);
    let blind: Vec<&str> = told.unseen.iter().map(|u| u.rule.as_str()).collect();
    assert_eq!(blind, ["saturated-cpu"], "{:#?}", told.unseen);
}

#[test]
#[ignore = "slow: make test runs it"]
fn each_rule_finds_its_fault_and_not_what_looks_alike() {
    let mut wrong = Vec::new();
    for (rule, expected, patch) in cases() {
        let told = check(&tuned_with(&patch));
        let found = told.findings.iter().find(|f| f.rule == rule);
        if found.map(|f| f.severity) != expected {
            let unseen = told.unseen.iter().find(|u| u.rule == rule);
            let all: Vec<_> = told.findings.iter().map(|f| (&f.rule, f.severity)).collect();
            wrong.push(format!("{rule}: {expected:?}, not {found:?} {unseen:?} {all:?}\n{patch}"));
        }
        if let Some(found) = found {
            assert!(!found.evidence.is_empty(), "{rule} has no evidence");
            assert!(!found.remedy.is_empty(), "{rule} says not what to do");
            assert!((0.0..=1.0).contains(&found.cost), "{rule}: {}", found.cost);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_rule_is_tested_both_ways() {
    let all: BTreeSet<&str> = diagnose::rules().map(|r| r.id).collect();
    assert_eq!(all.len(), diagnose::rules().count(), "a name is there twice");
    for present in [true, false] {
        let tested: BTreeSet<&str> = cases()
            .iter()
            .filter(|(_, severity, _)| severity.is_some() == present)
            .map(|(rule, ..)| *rule)
            .chain(BY_RATES.iter().copied())
            .collect();
        assert_eq!(tested, all, "with the fault: {present}");
    }
}

/// A window of ten seconds from `before` to `now`, CPU 0 that busy and the others idle.
fn window(before: (Snapshot, Condition), busy: f64, irqs: f64) -> Window {
    let cpu = |n: u32, softirq: f64| CpuRates {
        cpu: CpuId(n),
        user: Some(0.0),
        system: Some(0.0),
        irq: Some(0.01),
        softirq: Some(softirq),
        idle: Some(0.98 - softirq),
        net_rx: None,
        net_tx: None,
        packets: Some(softirq * 1e5),
        dropped: Some(0.0),
        squeezed: Some(0.0),
        received_rps: Some(0.0),
    };
    let line = |name: &str| IrqRates { irq: name.into(), total: Some(irqs), by_cpu: Vec::new() };
    Window {
        seconds: 10.0,
        rates: Interval {
            seconds: 10.0,
            cpus: vec![cpu(0, busy), cpu(1, 0.02), cpu(2, 0.02), cpu(3, 0.02)],
            irqs: vec![line("eth0-TxRx-0")],
            ..Interval::default()
        },
        before: before.0,
        before_condition: before.1,
    }
}

fn watched(before: &str, after: &str, busy: f64, irqs: f64) -> Diagnosis {
    let (snapshot, condition) = tuned_with(after);
    let window = window(tuned_with(before), busy, irqs);
    diagnose::diagnose(&Subject::new(&snapshot, &condition, Some(&window)), &[])
}

#[test]
fn under_load_a_full_cpu_is_critical_and_an_even_or_idle_router_is_not() {
    let all_on_one = lines_on("0", "0");
    let told = watched(&all_on_one, &all_on_one, 0.95, 100.0);
    assert_eq!(told.findings[0].rule, "saturated-cpu", "{:?}", named(&told));
    assert_eq!(told.findings[0].severity, Critical);
    let idle = watched(&all_on_one, &all_on_one, 0.3, 100.0);
    assert!(idle.findings.iter().all(|f| f.rule != "saturated-cpu"), "{:?}", named(&idle));
    assert_eq!(named(&watched("", "", 0.3, 100.0)), []);
}

#[test]
fn what_was_lost_before_the_window_is_not_lost_in_it() {
    let old = format!("{}/statistics/rx_crc_errors: 50000\n", eth(0));
    assert_eq!(named(&watched(&old, &old, 0.1, 1.0)), []);
    let told =
        watched("", &(old + &format!("{}/statistics/rx_packets: 100400000\n", eth(0))), 0.1, 1.0);
    assert_eq!(grave(&told), ["damaged-frames"]);
}

#[test]
fn under_load_rates_make_notices_warnings() {
    let realtek = "/sys/bus/pci/drivers/r8169/uevent: x\n";
    let off = "/linerate/nic/eth0.json: {\"coalesce\":{\"rx-usecs\":0,\"rx-frames\":0}}\n";
    let told = watched(&(realtek.to_owned() + off), off, 0.5, 40_000.0);
    assert_eq!(grave(&told), ["coalescing-off"]);
}

/// A field system with files of its tuning written over it.
fn field(host: &str, after: &[(&str, &str)]) -> Diagnosis {
    let from = PathBuf::from(format!("{ROOT}/fixtures/hosts/{host}"));
    let machine = directory();
    let copied = std::process::Command::new("cp").arg("-r").arg(&from).arg(&machine.0).status();
    assert!(copied.unwrap().success());
    for (path, value) in after {
        let at = machine.0.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, format!("{value}\n")).unwrap();
    }
    check(&look(&Tree::open(&machine.0).unwrap()))
}

#[test]
fn r76s_is_told_before_and_left_alone_after() {
    let host = "rk3576-8-r8169x2-6.1";
    let before = field(host, &[]);
    assert_eq!(grave(&before), ["lone-cpu"]);
    for aside in ["little-cores", "immovable-line"] {
        assert!(named(&before).contains(&(Notice, aside)), "{:?}", named(&before));
    }
    let eth0 =
        "/sys/devices/platform/soc/22000000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0/net/eth0";
    let eth1 =
        "/sys/devices/platform/soc/22400000.pcie/pci0001:20/0001:20:00.0/0001:21:00.0/net/eth1";
    let (rx0, rx1) = (format!("{eth0}/queues/rx-0"), format!("{eth1}/queues/rx-0"));
    let after = field(
        host,
        &[
            (&format!("{rx0}/rps_cpus"), "ff"),
            (&format!("{rx1}/rps_cpus"), "ff"),
            (&format!("{rx0}/rps_flow_cnt"), "32768"),
            (&format!("{rx1}/rps_flow_cnt"), "32768"),
            (&format!("{eth0}/queues/tx-0/xps_cpus"), "ff"),
            ("/proc/sys/net/core/rps_sock_flow_entries", "65536"),
            ("/proc/sys/net/core/netdev_max_backlog", "250000"),
            ("/proc/sys/net/ipv4/tcp_congestion_control", "bbr"),
            ("/proc/sys/net/ipv4/tcp_fastopen", "3"),
        ],
    );
    assert_eq!(grave(&after), [] as [&str; 0], "{:#?}", after.findings);
    // The report's own settings that can't matter are named as such.
    assert!(named(&after).contains(&(Info, "no-effect")), "{:?}", named(&after));
    assert!(named(&after).contains(&(Notice, "rps-own-cpu")), "{:?}", named(&after));
}

#[test]
fn wg_has_both_culprits_named_and_none_in_the_kernel_without_them() {
    let host = "bcm2711-4-bcmgenet+wireguard-6.1";
    let before = field(host, &[]);
    assert_eq!(grave(&before), ["preemption", "debug-kernel"]);
    let after = field(
        host,
        &[
            ("/proc/config.gz", "not packed"),
            ("/proc/sys/kernel/version", "#1 SMP Mon Jan 1 00:00:00 UTC 2024"),
            ("/boot/config-6.1.61", "CONFIG_PREEMPT_NONE=y\n# CONFIG_IRQSOFF_TRACER is not set"),
        ],
    );
    assert_eq!(grave(&after), [] as [&str; 0], "{:#?}", after.findings);
}

#[test]
fn r4s_is_told_before_and_left_alone_after() {
    let host = "rk3399-6-dwmac+r8169-5.4";
    let before = field(host, &[]);
    // Its links were full with everything on CPU0, as the report measured.
    assert_eq!(grave(&before), [] as [&str; 0]);
    assert_eq!(before.findings[0].rule, "lone-cpu", "{:?}", named(&before));
    assert_eq!(before.findings[0].severity, Info);
    let after = field(
        host,
        &[
            ("/proc/irq/27/smp_affinity_list", "4"),
            ("/proc/irq/27/effective_affinity_list", "4"),
            ("/proc/irq/234/smp_affinity_list", "5"),
            ("/proc/irq/234/effective_affinity_list", "5"),
            ("/sys/devices/platform/fe300000.ethernet/net/eth0/queues/rx-0/rps_cpus", "10"),
            (
                "/sys/devices/platform/f8000000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0/net/eth1/queues/rx-0/rps_cpus",
                "20",
            ),
        ],
    );
    assert_eq!(grave(&after), [] as [&str; 0], "{:#?}", after.findings);
    // RPS to the interrupt's own CPU is a detour.
    assert!(named(&after).contains(&(Notice, "rps-own-cpu")), "{:?}", named(&after));
}

#[test]
fn fg50e_is_told_of_offload_before_and_left_alone_with_what_its_experiment_found_best() {
    let host = "armada385-2-mvneta+mv88e6xxx-5.15";
    let before = field(host, &[]);
    assert_eq!(grave(&before), ["flow-offload-off"]);
    let root = format!("{ROOT}/fixtures/hosts/{host}");
    let firewall = std::fs::read_to_string(format!("{root}/etc/config/firewall")).unwrap();
    let after = firewall.replace("flow_offloading '0'", "flow_offloading '1'");
    assert_ne!(after, firewall);
    let irqbalance = "config irqbalance 'irqbalance'\n\toption enabled '1'";
    let after =
        field(host, &[("/etc/config/firewall", &after), ("/etc/config/irqbalance", irqbalance)]);
    assert_eq!(grave(&after), [] as [&str; 0], "{:#?}", after.findings);
    assert!(named(&after).contains(&(Notice, "irqbalance")), "{:?}", named(&after));
}

#[test]
fn cm4_is_told_before_and_left_alone_after() {
    let host = "bcm2711-4-bcmgenet+r8169-5.10";
    let before = field(host, &[]);
    assert_eq!(grave(&before), ["lone-cpu"]);
    assert!(named(&before).contains(&(Notice, "immovable-line")), "{:?}", named(&before));
    let after = field(
        host,
        &[
            ("/proc/irq/41/smp_affinity_list", "1"),
            ("/proc/irq/41/effective_affinity_list", "1"),
            ("/proc/irq/42/smp_affinity_list", "2"),
            ("/proc/irq/42/effective_affinity_list", "2"),
            (
                "/sys/devices/platform/scb/fd500000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0/net/eth1/queues/rx-0/rps_cpus",
                "8",
            ),
        ],
    );
    assert_eq!(grave(&after), [] as [&str; 0], "{:#?}", after.findings);
}

#[test]
fn a_machine_of_which_nothing_is_known_is_not_judged() {
    let machine = directory();
    scene::unpack(&Vec::new(), &machine.0).unwrap();
    let told = check(&look(&Tree::open(&machine.0).unwrap()));
    assert_eq!(named(&told), []);
    assert!(told.unseen.len() > 15, "{:?}", told.unseen);
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let program = std::process::Command::new(program::path())
        .args(args)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (program.status.code(), text(program.stdout), text(program.stderr))
}

#[test]
fn scripts_get_an_exit_code_by_level_and_versioned_json() {
    let host = format!("{ROOT}/fixtures/hosts/bcm2711-4-bcmgenet+r8169-5.10");
    assert_eq!(run(&["check", "--host", &host]).0, Some(1));
    assert_eq!(run(&["check", "--host", &host, "--fail-on", "critical"]).0, Some(0));
    assert_eq!(run(&["check", "--host", &host, "gro-off", "governor"]).0, Some(0));
    let (code, json, _) = run(&["check", "--host", &host, "--json", "lone-cpu", "gro-off"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(code, Some(1));
    assert_eq!((&json["format"], &json["version"]), (&"linerate-check".into(), &1.into()));
    assert_eq!(json["findings"][0]["rule"], "lone-cpu");
    assert_eq!(json["findings"][0]["severity"], "warning");
    assert!(
        json["findings"][0]["evidence"][0]["place"].as_str().unwrap().starts_with("/proc/irq/")
    );
    assert_eq!(json["unseen"][0]["rule"], "gro-off");
    assert!(json["model"]["found"].as_f64() > json["model"]["planned"].as_f64());

    let (code, _, said) = run(&["check", "--host", &host, "coalescing"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("hint: did you mean coalescing-off?"), "{said}");
    let (code, _, said) = run(&["check", "--host", &host, "--load", "1s"]);
    assert_eq!(code, Some(2), "{said}");
    let (code, list, _) = run(&["check", "--list"]);
    assert_eq!(code, Some(0));
    assert!(diagnose::rules().all(|r| list.contains(r.id)));
}

#[test]
fn this_machine_is_watched_for_the_time_asked() {
    let (code, told, said) = run(&["check", "--load", "1s", "-v"]);
    assert!(matches!(code, Some(0 | 1)), "{said}");
    assert!(said.contains("watching for 1 s"), "{said}");
    assert!(!told.contains("needs rates"), "{told}");
}

#[test]
fn regressions_are_of_one_form_and_each_has_a_link() {
    let all: Vec<_> = regression::regressions(regression::REGRESSIONS).collect();
    let lines = regression::REGRESSIONS.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    assert_eq!(all.len(), lines.count(), "a line is not of the form");
    for one in all {
        assert!(one.source.contains("https://"), "{one:?}");
        assert!(!one.only.is_empty(), "{one:?} would be told of every machine");
    }
}

#[test]
fn the_table_of_rules_in_the_documents_is_the_programs() {
    let printed =
        std::process::Command::new(program::path()).args(["check", "--markdown"]).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let file = format!("{ROOT}/docs/rules.md");
    let document = std::fs::read_to_string(&file).unwrap();
    let (head, _) = document.split_once("| rule |").unwrap();
    let wanted = format!("{head}{printed}");
    if std::env::var_os("LINERATE_WRITE_RULES").is_some() {
        std::fs::write(&file, &wanted).unwrap();
        return;
    }
    assert_eq!(document, wanted, "LINERATE_WRITE_RULES=1 writes docs/rules.md anew");
}

/// A share of the rate is worked out on this machine or was measured somewhere that is named; where
/// neither is so, the finding says that nobody measured it.
#[test]
fn a_rule_that_names_a_figure_names_the_place_that_it_is_from() {
    const PLACES: &[&str] = &[
        "issue",
        "report",
        "docs/",
        "field",
        "#",
        "Documentation/",
        "802.3",
        "RFC",
        "specification",
    ];
    for rule in diagnose::rules() {
        let figures = ["%", "Mbit/s", "Gbit/s", " times"];
        if figures.iter().any(|unit| rule.costs.contains(unit)) {
            assert!(PLACES.iter().any(|p| rule.source.contains(p)), "{}: {}", rule.id, rule.source);
        }
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_finding_whose_cost_nobody_worked_out_says_so() {
    let (mut worked_out, mut not) = (0, 0);
    for (rule, expected, patch) in cases() {
        if expected.is_none_or(|severity| severity < Notice) {
            continue;
        }
        let told = check(&tuned_with(&patch));
        let found = told.findings.iter().find(|f| f.rule == rule).unwrap();
        let says_not = found.consequence.contains("not measured");
        if found.cost > 0.0 {
            worked_out += 1;
            assert!(!found.consequence.ends_with("what it costs here was not measured"), "{rule}");
        } else if !says_not {
            // Neither a share nor a word on it: then it is no warning for its cost alone.
            assert!(!found.title.contains('%'), "{rule}: {}", found.title);
        }
        not += i32::from(says_not);
    }
    assert!(worked_out > 10 && not > 20, "{worked_out} {not}");
}
