//! What discovery says on the evidence of single files and answers: boards.d, cpusets, packet
//! engines, bound flows, old iptables, affinity files that nobody may write, drivers' counters.

use std::path::PathBuf;
use std::process::Command;

use crate::program;
use linerate::machine::discover;
use linerate::machine::host::Tree;
use linerate::model::snapshot::{Irq, Movable, Snapshot};
use linerate::model::stack::Side;

/// A machine of a few files, for as long as the test runs.
struct Machine(PathBuf);

impl Drop for Machine {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

impl Machine {
    /// Four CPUs, one card of two queues.
    fn new() -> Self {
        let thread = std::thread::current().name().unwrap().replace(':', "-");
        let name = format!("linerate-evidence-{}-{thread}", std::process::id());
        let mut machine = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(machine.0.join("sys/class/net")).unwrap();
        let cpu = "sys/devices/system/cpu";
        machine = machine
            .put(&format!("{cpu}/online"), "0-3")
            .put(&format!("{cpu}/present"), "0-3")
            .put("proc/sys/kernel/osrelease", "6.12.9")
            .put("linerate/arch", "aarch64")
            .put("sys/devices/pci0000:00/0000:00:03.0/net/eth0/mtu", "1500")
            .put("sys/devices/pci0000:00/0000:00:03.0/net/eth0/ifindex", "2")
            .put("sys/devices/pci0000:00/0000:00:03.0/net/eth0/queues/rx-0/rps_cpus", "0")
            .put("sys/devices/pci0000:00/0000:00:03.0/vendor", "0x8086")
            .put("sys/bus/pci/x", "");
        let dir = machine.0.join("sys/devices/pci0000:00/0000:00:03.0");
        let link = |target: &str, at: PathBuf| std::os::unix::fs::symlink(target, at).unwrap();
        link("../..", dir.join("net/eth0/device"));
        link("../../../bus/pci", dir.join("subsystem"));
        link(
            "../../devices/pci0000:00/0000:00:03.0/net/eth0",
            machine.0.join("sys/class/net/eth0"),
        );
        machine
            .put(
                "proc/interrupts",
                "           CPU0       CPU1       CPU2       CPU3\n \
                 30:          1          0          0          0 PCI-MSIX-0000:00:03.0   0-edge      eth0-rx-0\n \
                 31:          0          5          0          0 PCI-MSIX-0000:00:03.0   1-edge      eth0-tx-0",
            )
            .put("proc/irq/30/smp_affinity_list", "0-3")
            .put("proc/irq/31/smp_affinity_list", "1")
    }

    fn put(self, path: &str, content: &str) -> Self {
        let at = self.0.join(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, format!("{content}\n")).unwrap();
        self
    }

    fn look(&self) -> Snapshot {
        discover::snapshot(&Tree::open(&self.0).unwrap())
    }

    /// What `linerate show PART` prints of it.
    fn show(&self, part: &str) -> String {
        let mut command = Command::new(program::path());
        command.arg("show").args(Some(part).filter(|p| !p.is_empty()));
        let out = command
            .arg("--host")
            .arg(&self.0)
            .env("NO_COLOR", "1")
            .env("COLUMNS", "200")
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}

fn irq(snapshot: &Snapshot, line: u32) -> &Irq {
    snapshot.irqs.iter().find(|i| i.line.0 == line).unwrap()
}

/// The example of docs/boards.md, for this machine's card.
fn own_board() -> String {
    let text = include_str!("../../docs/boards.md");
    let example = text.split("```toml").nth(1).unwrap().split("```").next().unwrap();
    assert!(example.contains("\"PCI-MSI\""));
    example.replace("PCI-MSI", "PCI-MSIX-0000:00:03.0").replace("[485, 485, ", "[")
}

#[test]
fn a_board_file_of_ones_own_wins_over_ours() {
    let machine = Machine::new()
        .put("proc/device-tree/compatible", "friendlyarm,nanopi-r4s\0rockchip,rk3399\0")
        .put("etc/linerate/boards.d/anna.toml", &own_board())
        .put("etc/linerate/boards.d/README", "not a board");
    let seen = machine.look();
    let facts = seen.machine.board_facts.as_ref().unwrap();
    assert_eq!((facts.name.as_str(), facts.title.as_str()), ("anna", "Anna's router"));
    let told = machine.show("kernel");
    assert!(told.contains("Anna's router (/etc/linerate/boards.d/anna.toml)"), "{told}");
    assert_eq!(irq(&seen, 30).movable, Movable::Fixed, "{:?}", irq(&seen, 30));
    assert!(irq(&seen, 30).movable_by.as_ref().unwrap().contains("measured on it"));
    assert!(seen.cpus[3].capacity.value > seen.cpus[0].capacity.value);
}

#[test]
fn a_bad_board_file_is_told_by_name_and_line_and_ours_is_used() {
    let machine = Machine::new()
        .put("proc/device-tree/compatible", "friendlyarm,nanopi-r4s\0")
        .put(
            "etc/linerate/boards.d/a.toml",
            "title = \"x\"\nsource = \"y\"\n[match]\ncompatibel = []",
        )
        .put("etc/linerate/boards.d/b.toml", "title = \"x\nsource");
    std::fs::write(machine.0.join("etc/linerate/boards.d/c.toml"), [0xff, 0xfe]).unwrap();
    let seen = machine.look();
    assert_eq!(seen.machine.board_facts.as_ref().unwrap().name, "nanopi-r4s");
    let gap = |name: &str| {
        let what = format!("board file /etc/linerate/boards.d/{name}");
        seen.gaps.iter().find(|g| g.what == what).unwrap_or_else(|| panic!("{:?}", seen.gaps))
    };
    assert!(gap("a.toml").why.starts_with("line 4: ") && gap("a.toml").why.contains("compatibel"));
    assert!(gap("b.toml").why.starts_with("line "), "{:?}", gap("b.toml"));
    assert!(gap("c.toml").why.contains("UTF-8"));
    assert!(machine.show("").contains("boards.d/a.toml"), "{}", machine.show(""));
}

#[test]
fn cpus_of_isolated_cpusets_are_not_used() {
    let of = |files: &[(&str, &str)]| {
        let machine = files.iter().fold(Machine::new(), |m, (path, text)| m.put(path, text));
        let seen = machine.look();
        let isolated = seen.cpus.iter().filter(|c| c.isolated);
        let isolated: Vec<(u32, String)> =
            isolated.map(|c| (c.id.0, c.isolated_by.join(" "))).collect();
        assert_eq!(seen.usable_cpus().len(), 4 - isolated.len());
        isolated
    };
    let v2 = "/sys/fs/cgroup/cpuset.cpus.isolated";
    assert_eq!(of(&[(&v2[1..], "3")]), [(3, v2.to_owned())]);
    assert_eq!(of(&[(&v2[1..], "")]), []);
    // Before kernel 6.7 each partition tells for itself.
    let old = [
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu"),
        ("sys/fs/cgroup/rt/cpuset.cpus.partition", "isolated"),
        ("sys/fs/cgroup/rt/cpuset.cpus.effective", "2-3"),
        ("sys/fs/cgroup/bad/cpuset.cpus.partition", "isolated invalid (no CPUs)"),
        ("sys/fs/cgroup/bad/cpuset.cpus.effective", "0-1"),
    ];
    let file = "/sys/fs/cgroup/rt/cpuset.cpus.partition".to_owned();
    assert_eq!(of(&old), [(2, file.clone()), (3, file)]);
    // Version 1: the root does not balance, one group does.
    let v1 = [
        ("sys/fs/cgroup/cpuset/cpuset.sched_load_balance", "0"),
        ("sys/fs/cgroup/cpuset/cpuset.cpus", "0-3"),
        ("sys/fs/cgroup/cpuset/tasks", ""),
        ("sys/fs/cgroup/cpuset/system/cpuset.sched_load_balance", "1"),
        ("sys/fs/cgroup/cpuset/system/cpuset.cpus", "0-2"),
        ("sys/fs/cgroup/cpuset/rt/cpuset.sched_load_balance", "0"),
        ("sys/fs/cgroup/cpuset/rt/cpuset.cpus", "3"),
    ];
    let file = "/sys/fs/cgroup/cpuset/cpuset.sched_load_balance".to_owned();
    assert_eq!(of(&v1), [(3, file)]);
    // A container manager's sets in a root that balances isolate nothing.
    let ordinary = [
        ("sys/fs/cgroup/cpuset/cpuset.sched_load_balance", "1"),
        ("sys/fs/cgroup/cpuset/docker/cpuset.sched_load_balance", "0"),
        ("sys/fs/cgroup/cpuset/docker/cpuset.cpus", "3"),
    ];
    assert_eq!(of(&ordinary), []);
}

#[test]
fn a_line_whose_affinity_nobody_may_write_stays_where_it_is() {
    let machine = Machine::new().put("linerate/fixed_irqs.json", "[31]");
    let seen = machine.look();
    assert_eq!(
        (irq(&seen, 30).movable, irq(&seen, 31).movable),
        (Movable::Presumed, Movable::Fixed)
    );
    assert!(irq(&seen, 31).movable_by.as_ref().unwrap().contains("0444"));
    assert!(machine.show("irqs").contains("irq 31 stays where it is"), "{}", machine.show("irqs"));
}

const FLOWTABLE: &str = r#"{"rules": 9, "forward_rules": 5, "nat": true,
    "flowtables": [{"name": "fw4 ft", "devices": ["eth0"], "hardware": false}]}"#;

/// The same machine with its lines behind another controller.
fn behind(arch: &str, chip: &str) -> Irq {
    let machine = Machine::new().put("linerate/arch", arch).put(
        "proc/interrupts",
        &format!(
            "           CPU0       CPU1       CPU2       CPU3\n \
             30:          1          0          0          0 {chip} 524288 Edge      eth0-rx-0"
        ),
    );
    irq(&machine.look(), 30).clone()
}

#[test]
fn messages_of_a_designware_host_stay_and_those_of_an_its_move() {
    for arch in ["aarch64", "armv7l", "riscv64"] {
        let line = behind(arch, "PCI-MSI");
        assert_eq!(line.movable, Movable::Fixed, "{arch}: {line:?}");
        assert!(line.movable_by.as_ref().unwrap().contains("dw_pci_msi_set_affinity"));
    }
    // x86's own chip has the name too; an unknown machine may be one.
    for (arch, chip) in [
        ("x86_64", "PCI-MSI"),
        ("i686", "PCI-MSI"),
        ("", "PCI-MSI"),
        ("aarch64", "ITS-MSI"),
        ("aarch64", "ITS-PCI-MSI-0000:00:03.0"),
        ("riscv64", "PCI-MSI-0000:00:03.0"),
        ("aarch64", "DW-PCI-MSI-0000:00:03.0"),
    ] {
        let line = behind(arch, chip);
        assert_eq!(line.movable, Movable::Presumed, "{arch} {chip}: {line:?}");
    }
}

#[test]
fn a_flowtable_says_how_many_flows_it_has_taken_over() {
    let machine = Machine::new()
        .put("linerate/nftables.json", FLOWTABLE)
        .put("proc/sys/net/netfilter/nf_conntrack_count", "120")
        .put("proc/sys/net/netfilter/nf_conntrack_max", "65536")
        .put("linerate/bound_flows.json", r#"{"bound": 0, "complete": true, "by": "ctnetlink"}"#);
    assert!(machine.show("path").contains("0 of 120 flows bound"), "{}", machine.show("path"));
    let bound = r#"{"bound": 40, "hardware": 7, "complete": false, "by": "nf_conntrack"}"#;
    let machine = machine.put("linerate/bound_flows.json", bound);
    let told = machine.show("path");
    assert!(told.contains("at least 40 of 120 flows bound, 7 in hardware"), "{told}");
    // An old capture does not say; that is a gap and not a nought.
    std::fs::remove_file(machine.0.join("linerate/bound_flows.json")).unwrap();
    let seen = machine.look();
    assert_eq!(seen.path.bound, None);
    assert!(seen.gaps.iter().any(|g| g.what.contains("flows bound")), "{:?}", seen.gaps);
}

#[test]
fn without_a_flowtable_no_flow_is_looked_for() {
    let seen = Machine::new().look();
    assert_eq!(seen.path.bound, None);
    assert!(!seen.gaps.iter().any(|g| g.what.contains("flows bound")), "{:?}", seen.gaps);
}

#[test]
fn packet_engines_leave_traces() {
    let machine = Machine::new()
        .put("linerate/ppe_flows.json", r#"{"/sys/kernel/debug/ppe0/bind": 12}"#)
        .put("sys/module/mt7915e/parameters/wed_enable", "Y")
        .put("proc/modules", "ecm 1 0 - Live 0x0\necmless 1 0 - Live 0x0");
    let told = machine.show("path");
    assert!(told.contains("ppe (12 flows bound, /sys/kernel/debug/ppe0/bind)"), "{told}");
    assert!(told.contains("wed (on, /sys/module/mt7915e/parameters/wed_enable)"), "{told}");
    assert!(told.contains("nss (module ecm)"), "{told}");
    assert_eq!(machine.look().path.engines.len(), 3);
}

#[test]
fn rules_of_the_old_iptables_count_and_tell_the_way_out() {
    let rules = r#"[
        {"table": "filter", "rules": 40, "forward_rules": 12, "flow_offload": true},
        {"table": "nat", "rules": 3, "forward_rules": 2, "nat": true, "masquerade_devices": ["eth+"]}]"#;
    let machine = Machine::new()
        .put("proc/net/ip_tables_names", "nat\nfilter")
        .put("linerate/iptables.json", rules)
        .put("linerate/links.json", r#"{"eth0": {"ipv4": 1}}"#)
        .put("linerate/bound_flows.json", r#"{"bound": 3, "complete": true, "by": "ctnetlink"}"#);
    let told = machine.show("path");
    assert!(
        told.contains("14 of 43 rules may meet a forwarded packet, NAT, flows offloaded"),
        "{told}"
    );
    assert!(told.contains("3 flows bound"), "{told}");
    let role = machine.look().stack[0].role.clone().unwrap();
    assert_eq!((role.side, role.reason.contains("iptables masquerades")), (Side::Wan, true));
    // Loaded, and nobody asked what is in them.
    std::fs::remove_file(machine.0.join("linerate/iptables.json")).unwrap();
    let gaps = machine.look().gaps;
    assert!(gaps.iter().any(|g| g.what.contains("iptables-legacy -S")), "{gaps:?}");
}

#[test]
fn what_the_card_lost_is_shown_once() {
    let statistics = "sys/devices/pci0000:00/0000:00:03.0/net/eth0/statistics";
    let machine = Machine::new()
        .put(&format!("{statistics}/rx_missed_errors"), "17")
        .put(&format!("{statistics}/rx_crc_errors"), "2")
        .put(&format!("{statistics}/rx_packets"), "99")
        .put(&format!("{statistics}/tx_errors"), "0")
        .put("linerate/counters/eth0.json", r#"{"rx_missed_errors": 17, "rx_queue_*_drops": 5}"#);
    let seen = machine.look();
    let drops: Vec<_> = seen.netdevs[0].drops.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    assert_eq!(drops, [("rx_crc_errors", 2), ("rx_missed_errors", 17)]);
    assert_eq!(seen.netdevs[0].counters["rx_queue_*_drops"], 5);
    let told = machine.show("nics");
    assert!(told.contains("rx_crc_errors 2, rx_missed_errors 17"), "{told}");
    assert!(told.contains("rx_queue_*_drops 5"), "{told}");
    assert_eq!(told.matches("rx_missed_errors 17").count(), 1, "{told}");
}

#[test]
fn napi_threads_are_told_with_the_cpus_that_they_may_run_on() {
    let machine = Machine::new()
        .put("proc/71/comm", "napi/eth0-8193")
        .put("proc/71/status", "Name:\tnapi/eth0-8193\nCpus_allowed_list:\t2-3")
        .put("sys/devices/pci0000:00/0000:00:03.0/net/eth0/threaded", "1")
        .put("sys/devices/pci0000:00/0000:00:03.0/net/eth0/napi_defer_hard_irqs", "2")
        .put("sys/devices/pci0000:00/0000:00:03.0/net/eth0/gro_flush_timeout", "20000");
    let seen = machine.look();
    let eth0 = &seen.netdevs[0];
    assert_eq!((eth0.threaded, eth0.napi_threads.as_slice()), (Some(true), &[71][..]));
    assert_eq!(eth0.napi_thread_cpus[&71].to_string(), "2-3");
    assert_eq!((eth0.defer_hard_irqs, eth0.gro_flush_timeout), (Some(2), Some(20000)));
    let told = machine.show("nics");
    assert!(told.contains("thread 71 on CPU 2-3, defer hard irqs 2"), "{told}");
}

#[test]
fn flow_rules_and_moderation_are_shown() {
    let settings = r#"{"ntuple": {"rules": 3, "rules-max": 1024},
        "coalesce": {"rx-usecs": 50, "use-adaptive-rx": 1},
        "rss": {"table": [0, 1, 0, 1], "key": "6d5a", "function": 1}}"#;
    let features = r#"{"rx-ntuple-filter": {"active": true, "changeable": true}}"#;
    let machine = Machine::new()
        .put("linerate/nic/eth0.json", settings)
        .put("linerate/features/eth0.json", features);
    let told = machine.show("nics");
    assert!(told.contains("on, 3 of 1024 rules"), "{told}");
    assert!(
        told.contains("use-adaptive-rx 1") && told.contains("4 buckets over 2 queues"),
        "{told}"
    );
}

/// The card's directory on its bus.
const CARD: &str = "sys/devices/pci0000:00/0000:00:03.0";

#[test]
fn a_renamed_device_keeps_the_lines_that_carry_its_old_name() {
    let machine = Machine::new()
        .put(
            "proc/interrupts",
            "           CPU0       CPU1       CPU2       CPU3\n \
             30:          1          0          0          0 PCI-MSIX-0000:00:03.0   0-edge      i40e-0000:00:03.0:misc\n \
             31:          0          5          0          0 PCI-MSIX-0000:00:03.0   1-edge      i40e-eth7-TxRx-0\n \
             32:          0          5          0          0 PCI-MSIX-0000:00:03.0   2-edge      i40e-eth7-TxRx-1",
        )
        .put(&format!("{CARD}/numa_node"), "-1")
        .put(&format!("{CARD}/msi_irqs/30"), "msix")
        .put(&format!("{CARD}/msi_irqs/31"), "msix")
        .put(&format!("{CARD}/msi_irqs/32"), "msix");
    let seen = machine.look();
    let found: Vec<String> = seen.irqs.iter().map(|i| i.id.to_string()).collect();
    assert_eq!(found, ["eth0 queue 0 control", "eth0 queue 0 rx+tx", "eth0 queue 1 rx+tx"]);
    assert_eq!(seen.netdevs[0].numa_node, None, "-1 is no node");
}

#[test]
fn counts_belong_to_the_online_cpus_that_the_table_names() {
    let machine = Machine::new().put("sys/devices/system/cpu/online", "0,3").put(
        "proc/interrupts",
        "           CPU0       CPU3\n \
             30:          7          9 PCI-MSIX-0000:00:03.0   0-edge      eth0-rx-0",
    );
    let counts: Vec<_> = irq(&machine.look(), 30).counts.iter().map(|(c, n)| (c.0, *n)).collect();
    assert_eq!(counts, [(0, 7), (3, 9)]);
    assert_eq!(machine.look().usable_cpus().to_string(), "0,3");
}

#[test]
fn a_macvlan_over_a_vlan_stands_on_the_card() {
    let virtual_device = |machine: Machine, name: &str, index: &str, below: &str| {
        let dir = format!("sys/devices/virtual/net/{name}");
        let machine =
            machine.put(&format!("{dir}/ifindex"), index).put(&format!("{dir}/iflink"), below);
        let target = format!("../../devices/virtual/net/{name}");
        std::os::unix::fs::symlink(target, machine.0.join("sys/class/net").join(name)).unwrap();
        machine
    };
    let machine = virtual_device(Machine::new(), "eth0.7", "3", "2");
    // A macvlan without its lower link, as kernels before 3.14 have none; a veth's iflink is its
    // other end, and nothing to stand on.
    let machine = virtual_device(machine, "mac0", "4", "3");
    let machine = virtual_device(machine, "veth0", "5", "2")
        .put(
            "linerate/link_kinds.json",
            r#"{"eth0.7": "vlan", "mac0": "macvlan", "veth0": "veth"}"#,
        )
        .put(
            "linerate/links.json",
            r#"{"mac0": {"ipv4": 1}, "veth0": {"ipv4": 1}, "eth0.7": {"vlan": 7}}"#,
        );
    let seen = machine.look();
    let of = |name: &str| seen.stack.iter().find(|l| l.device == name).unwrap();
    assert_eq!(of("mac0").ground(), ["eth0"]);
    assert_eq!(of("mac0").below[0].kind, "vlan 7");
    assert_eq!(of("veth0").below, []);
}
