//! The ledger of lost packets on captured machines: text, JSON and its schema.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program;
use crate::scene;
use crate::schema::Schema;

/// A router on kernel 6.6 that loses packets everywhere. Forms: net/ipv4/proc.c, net/ipv6/proc.c,
/// net/netfilter/nf_conntrack_standalone.c, net/core/neighbour.c; the figures are made up so that
/// they add up: IPv4 counts what the forward hook drops as not forwarded there.
const SCENE: &str = "
/linerate/arch: x86_64
/proc/sys/kernel/hostname: leaky
/proc/sys/kernel/osrelease: 6.6.30
/proc/cpuinfo: processor\t: 0
/sys/devices/system/cpu/present: 0-1
/sys/devices/system/cpu/online: 0-1
/proc/net/softnet_stat <<
00001000 00000009 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
00001000 00000004 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000100 00000000 00000000 00000001
.
/proc/net/snmp <<
Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates
Ip: 1 64 10000 12 0 8800 0 0 700 500 0 0 0 6 3 0 0 25 0
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 100 17 0 40 0 0 0 0 0
.
/proc/net/netstat <<
IpExt: InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts
IpExt: 31 0 90 0 0 0
.
/proc/net/snmp6 <<
Ip6InReceives                   \t200
Ip6OutForwDatagrams             \t180
Ip6InDelivers                   \t20
.
/proc/net/stat/nf_conntrack <<
entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart
00000100  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 0000001e 00000002 00000000  00000000 00000000 00000000 00000000
00000100  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 0000000a 00000000 00000000  00000000 00000000 00000000 00000000
.
/proc/net/stat/arp_cache <<
entries  allocs   destroys hash_grows lookups  hits     res_failed rcv_probes_mcast rcv_probes_ucast periodic_gc_runs forced_gc_runs unresolved_discards table_fulls
00000002 00000001 00000000 00000000   00000000 00000000 00000000   00000000         00000000         0000002e         00000000       00000040            00000003
.
/linerate/drop_rules.json: [{\"place\":\"nft inet fw4 handle_reject handle 40\",\"leg\":\"in\",\"packets\":55},{\"place\":\"nft inet fw4 forward policy\",\"leg\":\"forward\",\"packets\":null},{\"place\":\"iptables filter FORWARD rule 2\",\"leg\":\"forward\",\"packets\":300}]
/linerate/qdisc_counts.json: [{\"device\":\"eth0\",\"kind\":\"tbf\",\"place\":\"root\",\"rate\":100000000,\"drops\":77,\"overlimits\":900,\"requeues\":0},{\"device\":\"eth0\",\"kind\":\"bfifo\",\"place\":\"class 8001:1\",\"inner\":true,\"drops\":77}]
/linerate/counters/eth0.json: {\"rx_no_buffer_count\":8,\"tx_flow_control_xoff\":5}
/sys/class/net/eth0/ifindex: 2
/sys/class/net/eth0/address: 02:00:00:00:00:01
/sys/class/net/eth0/carrier_changes: 41
/sys/class/net/eth0/queues/tx-0/tx_timeout: 1
/sys/class/net/eth0/statistics/rx_packets: 10300
/sys/class/net/eth0/statistics/tx_packets: 9400
/sys/class/net/eth0/statistics/rx_crc_errors: 6
/sys/class/net/eth0/statistics/rx_errors: 6
/sys/class/net/eth0/statistics/rx_missed_errors: 8
/sys/class/net/eth0/statistics/rx_dropped: 13
";

struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let root =
            std::env::temp_dir().join(format!("linerate-losses-{}-{name}", std::process::id()));
        scene::unpack(&scene::read(SCENE).unwrap(), &root).unwrap();
        Self(root)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn told(host: &Path, args: &[&str]) -> String {
    let mut command = Command::new(program::path());
    command.args(["check", "--losses"]).args(args).arg("--host").arg(host).env("COLUMNS", "200");
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn a_captured_machine_tells_where_it_lost_packets_since_boot() {
    let machine = Machine::new("all");
    let value: Value = serde_json::from_str(&told(&machine.0, &["--json"])).unwrap();
    let entries = value["entries"].as_array().unwrap().iter();
    let found: Vec<String> = entries
        .map(|e| {
            let text = |field: &str| e[field].as_str().unwrap().to_owned();
            let wide = if e["machine_wide"] == true { " (wide)" } else { "" };
            let (stage, place, counter) = (text("stage"), text("place"), text("counter"));
            format!("{stage} | {place} | {counter} | {} | {}{wide}", text("kind"), e["since_boot"])
        })
        .collect();
    let expected = [
        "wire | eth0 | rx_crc_errors | lost | 6",
        "ring | eth0 | rx_missed_errors | lost | 8",
        "ring | eth0 | rx_no_buffer_count | detail | 8",
        "driver | eth0 | rx_dropped | lost | 13",
        "backlog | CPU0 | dropped | detail | 9 (wide)",
        "rps-backlog | CPU1 | dropped | detail | 4 (wide)",
        "ip |  | InHdrErrors | lost | 12",
        "conntrack |  | drop | lost | 40",
        "conntrack |  | early_drop | sign | 2",
        "netfilter | iptables filter FORWARD rule 2 | forward | by-rule | 300",
        "netfilter | nft inet fw4 handle_reject handle 40 | in | by-rule | 55",
        "routing |  | FragFails | lost | 25",
        "routing |  | InNoRoutes | lost | 31",
        "socket |  | NoPorts | consumed | 17",
        "neighbour | arp_cache | table_fulls | lost | 3 (wide)",
        "neighbour | arp_cache | unresolved_discards | lost | 64 (wide)",
        "qdisc | eth0 class 8001:1 bfifo inner | drops | detail | 77",
        "qdisc | eth0 root tbf 100000 kbit/s | drops | lost | 77",
        "qdisc | eth0 root tbf 100000 kbit/s | overlimits | sign | 900",
        "transmit | eth0 | tx_timeout | sign | 1",
        "link | eth0 | carrier_changes | sign | 41",
        "link | eth0 | tx_flow_control_xoff | sign | 5",
    ];
    assert_eq!(found, expected);
    let balance = &value["balance"];
    // 10,200 = 8,980 forwarded + 720 delivered + 3 merged + 463 lost + 34.
    for (field, expected) in [
        ("received", 10_200),
        ("forwarded", 8_980),
        ("delivered", 720),
        ("merged", 3),
        ("lost", 12 + 40 + 300 + 55 + 25 + 31),
        ("unexplained", 34),
        ("lost_behind", 77),
        ("frames_in", 10_300),
    ] {
        assert_eq!(balance[field], expected, "{field}: {balance:#}");
    }
    let may_be = balance["may_be"].to_string();
    assert!(may_be.contains("nft inet fw4 forward policy"), "{may_be}");
    assert!(may_be.contains("at most (90)"), "{may_be}");
    assert_eq!(value["gaps"], serde_json::json!([]));
    let wrong = Schema::new("losses").check(&value);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_text_names_the_place_the_meaning_and_what_to_do() {
    let machine = Machine::new("text");
    let text = told(&machine.0, &[]);
    for words in [
        "leaky: 279 packets lost since boot, and 355 dropped by rules on purpose",
        "queueing discipline  eth0 root tbf 100000 kbit/s",
        "at a shaper that nobody wants",
        "arp_cache, whole machine",
        "net.ipv4.neigh.default.gc_thresh3",
        "not explained",
    ] {
        assert!(text.contains(words), "{words:?} is not in:\n{text}");
    }
}

#[test]
fn the_ledger_of_any_machine_fits_the_schema_and_says_what_the_capture_lacks() {
    let hosts = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts");
    for entry in std::fs::read_dir(hosts).unwrap() {
        let path = entry.unwrap().path();
        let capture = path.join("capture.tar.gz");
        let path = if capture.exists() { capture } else { path };
        let value: Value = serde_json::from_str(&told(&path, &["--json"])).unwrap();
        let wrong = Schema::new("losses").check(&value);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", path.display());
        let gaps: Vec<_> = value["gaps"].as_array().unwrap().iter().map(|g| &g["what"]).collect();
        assert!(gaps.contains(&&"rules that drop".into()), "{}: {gaps:?}", path.display());
    }
}

#[test]
fn watching_a_capture_is_refused() {
    let machine = Machine::new("watch");
    let mut command = Command::new(program::path());
    command.args(["check", "--losses", "5", "--host"]).arg(&machine.0);
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", String::from_utf8_lossy(&out.stderr));
}
