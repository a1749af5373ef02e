//! Machines that are traps, as text (fixtures/scenes), through discovery: what it must say of them.

pub(crate) mod agreement;
pub(crate) mod check;
mod owners;
mod reported;

use std::path::{Path, PathBuf};

use crate::scene;
use linerate::decide::plan;
use linerate::machine::discover;
use linerate::machine::host::Tree;
use linerate::model::capacity::Source;
use linerate::model::cpuset::CpuSet;
use linerate::model::snapshot::{Cpu, Irq, IrqRole, Movable, Snapshot};
use linerate::model::stack::{Layer, Side};

/// A scene, unpacked for as long as the test runs.
struct Scene(PathBuf);

impl Drop for Scene {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn unpack(name: &str) -> Scene {
    let file = format!("{}/fixtures/scenes/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let nodes = scene::read(&text).unwrap_or_else(|line| panic!("{name}: {line}"));
    let thread = std::thread::current().name().unwrap().replace(':', "-");
    let root = std::env::temp_dir().join(format!("linerate-scene-{}-{thread}", std::process::id()));
    scene::unpack(&nodes, &root).unwrap();
    Scene(root)
}

fn look(name: &str) -> Snapshot {
    let scene = unpack(name);
    discover::snapshot(&Tree::open(&scene.0).unwrap())
}

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn cpu(snapshot: &Snapshot, id: u32) -> &Cpu {
    snapshot.cpus.iter().find(|c| c.id.0 == id).unwrap()
}

fn irq(snapshot: &Snapshot, line: u32) -> &Irq {
    snapshot.irqs.iter().find(|i| i.line.0 == line).unwrap_or_else(|| panic!("no line {line}"))
}

fn is(irq: &Irq, device: &str, queue: u32, role: IrqRole) {
    assert_eq!(
        (irq.id.device.as_str(), irq.id.queue, irq.id.role),
        (device, queue, role),
        "{irq:?}"
    );
}

/// A tree as `wan:pppoe-wan(pppoe)>eth0.7(vlan 7)>...`, several layers below in brackets.
fn tree(layer: &Layer) -> String {
    let below: Vec<String> = layer.below.iter().map(tree).collect();
    let side = match layer.role.as_ref().map(|r| r.side) {
        Some(Side::Wan) => "wan:",
        Some(Side::Lan) => "lan:",
        None => "",
    };
    let own = format!("{side}{}({})", layer.device, layer.kind);
    match below.as_slice() {
        [] => own,
        [one] => format!("{own}>{one}"),
        many => format!("{own}>[{}]", many.join(" ")),
    }
}

#[test]
fn many_cpus_two_nodes_masks_with_commas_and_an_offline_cpu() {
    let s = look("server-96-mlx5-2node");
    assert_eq!(s.possible, set("0-127"));
    assert_eq!(s.cpus.len(), 96);
    assert!(!cpu(&s, 95).online);
    assert_eq!(s.usable_cpus(), set("0-89"));
    assert_eq!((cpu(&s, 47).node, cpu(&s, 48).node), (Some(0), Some(1)));
    assert_eq!((cpu(&s, 9).package, cpu(&s, 60).package), (Some(0), Some(1)));
    assert_eq!(cpu(&s, 9).l3, set("8-15"));
    assert_eq!(cpu(&s, 9).l2, set("9"));
    assert_eq!(cpu(&s, 9).cluster, set("8-15"), "those that share the last level cache");
    assert_eq!(cpu(&s, 3).siblings, set("3"));
    let ens1 = s.netdev("ens1").unwrap();
    assert_eq!(ens1.numa_node, Some(1));
    assert_eq!(ens1.rx_queues[1].rps, Some(set("0-3,95")));
    assert_eq!(ens1.tx_queues[0].xps, Some(set("32")));
    is(irq(&s, 200), "ens1", 0, IrqRole::Control);
    is(irq(&s, 202), "ens1", 1, IrqRole::Combined);
    assert_eq!(irq(&s, 202).hint, Some(set("48")));
    assert_eq!(irq(&s, 202).node, Some(1));
    assert_eq!(irq(&s, 202).trigger.as_deref(), Some("edge"));
    assert_eq!(irq(&s, 202).counts.len(), 2, "columns are what the table has");
    // Whatever the planner makes of it, it stays on usable CPUs.
    let found = plan::candidates(&s);
    let made = found.list.iter().filter(|c| c.name != "as-found");
    for change in made.flat_map(|c| &c.settings) {
        if let linerate::model::knob::Value::Cpus(cpus) = &change.after {
            assert!(cpus.is_subset(&set("0-89")), "{change:?}");
        }
    }
}

#[test]
fn hybrid_cores_are_told_apart_and_names_that_begin_alike() {
    let s = look("hybrid-12-igc");
    let (p, e) = (cpu(&s, 0), cpu(&s, 9));
    assert_eq!((p.core_type.as_deref(), e.core_type.as_deref()), (Some("P-core"), Some("E-core")));
    assert_eq!((p.capacity.value, p.capacity.source), (1024, Source::Firmware));
    assert_eq!((e.capacity.value, e.capacity.source), (544, Source::Firmware));
    assert_eq!((p.siblings.clone(), e.siblings.clone()), (set("0-1"), set("9")));
    assert_eq!(e.cluster, set("8-11"));
    assert_eq!(p.cluster, set("0-11"), "two threads of a core are no cluster");
    assert!(cpu(&s, 10).nohz_full && cpu(&s, 10).isolated && cpu(&s, 10).rcu_nocb);
    assert!(!e.isolated && e.rcu_nocb);
    assert_eq!(s.kernel.rcu_nocbs, Some(set("8-11")));
    assert_eq!(s.kernel.preemption.as_deref(), Some("none"));
    assert_eq!(s.kernel.preemption_source.as_deref(), Some("kernel command line"));
    assert!(p.crypto.iter().any(|c| c == "vaes"));

    is(irq(&s, 130), "enp1", 0, IrqRole::Control);
    is(irq(&s, 132), "enp1", 1, IrqRole::Combined);
    is(irq(&s, 141), "enp10", 0, IrqRole::Combined);
    assert_eq!(irq(&s, 132).movable, Movable::Fixed);
    assert!(irq(&s, 132).movable_by.as_deref().unwrap().contains("manages"));
    assert_eq!(irq(&s, 131).movable, Movable::Presumed);
    assert!(s.irqs.iter().all(|i| i.line.0 != 122), "a PCI port's own line is no card's");
}

#[test]
fn big_endian_mips_with_dsa_pppoe_over_vlan_over_a_switch_port() {
    let s = look("xrx200-2-dsa-openwrt");
    assert_eq!(s.machine.board.as_deref(), Some("xRX200 rev 1.2"));
    assert_eq!(s.machine.os.as_deref(), Some("OpenWrt 24.10.0"));
    assert_eq!(cpu(&s, 1).capacity.source, Source::Assumed);
    is(irq(&s, 72), "eth0", 0, IrqRole::Rx);
    is(irq(&s, 73), "eth0", 0, IrqRole::Tx);
    assert_eq!(irq(&s, 72).affinity, Some(set("0-1")), "the mask file alone is enough");
    assert!(irq(&s, 72).shared_with.is_empty(), "switch ports have no line: {:?}", irq(&s, 72));
    let trees: Vec<String> = s.stack.iter().map(tree).collect();
    assert_eq!(
        trees,
        [
            "wan:pppoe-wan(pppoe)>wan.7(vlan 7)>wan(dsa port)>eth0(nic)",
            "lan:br-lan(bridge)>[lan1(dsa port)>eth0(nic) lan2(dsa port)>eth0(nic)]",
        ]
    );
    assert_eq!(s.stack[0].ground(), ["eth0"]);
    assert_eq!(s.stack[0].role.as_ref().unwrap().reason, "firewall zone wan");
    assert_eq!(s.netdev("lan2").unwrap().conduit.as_deref(), Some("eth0"));
    assert_eq!(s.netdev("lan2").unwrap().switch.as_deref(), Some("00000000"));
    assert_eq!((s.path.ipv4, s.path.conntrack_max), (Some(true), Some(15872)));
    assert_eq!(s.path.openwrt["flow_offloading"], "1");
    let steering = s.services.iter().find(|s| s.name.contains("steering")).unwrap();
    assert!(steering.evidence.contains("unset"), "24.10: unset means on");
}

#[test]
fn equal_core_ids_in_different_clusters_are_different_cores() {
    let s = look("rk3588-8-clusters");
    assert_eq!((cpu(&s, 0).core, cpu(&s, 4).core), (Some(0), Some(0)));
    assert_eq!(cpu(&s, 0).siblings, set("0"));
    assert_eq!((cpu(&s, 1).cluster.clone(), cpu(&s, 4).cluster.clone()), (set("0-3"), set("4-5")));
    assert_eq!((cpu(&s, 0).capacity.value, cpu(&s, 0).capacity.source), (414, Source::Kernel));
    assert!(!cpu(&s, 7).online);
}

#[test]
fn a_container_without_proc_irq_tells_what_it_can() {
    let s = look("container-2");
    assert_eq!(s.usable_cpus(), set("0-1"));
    assert_eq!(s.machine.virtualisation.as_deref(), Some("container: lxc"));
    assert_eq!(s.irqs, []);
    assert_eq!(s.netdev("eth0").unwrap().rx_queues.len(), 1);
    assert!(s.gaps.iter().any(|g| g.what == "CPUs"), "{:?}", s.gaps);
    assert_eq!(s.kernel.preemption.as_deref(), Some("none or voluntary"));
}

#[test]
fn cm4_has_one_line_that_can_not_move_and_two_that_look_alike() {
    let s = look("cm4-4-bcmgenet+r8169");
    is(irq(&s, 41), "eth0", 0, IrqRole::Rx);
    is(irq(&s, 42), "eth0", 0, IrqRole::Tx);
    is(irq(&s, 57), "eth1", 0, IrqRole::Combined);
    assert_eq!(irq(&s, 57).movable, Movable::Fixed);
    assert!(irq(&s, 57).movable_by.as_deref().unwrap().contains("BRCM STB PCIe MSI"));
    assert_eq!(irq(&s, 41).movable, Movable::Presumed);
    assert_eq!(s.machine.board_facts.as_ref().unwrap().name, "raspberry-pi-4");
    assert_eq!(s.kernel.preemption.as_deref(), Some("full"));
    assert_eq!(s.kernel.crypto["chacha20"], "chacha20-neon");
    assert_eq!(s.kernel.crypto_modules, ["chacha_neon"]);
    let names: Vec<&str> = s.services.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["irqbalance", "/etc/rc.local"]);
    assert!(s.services[0].evidence.contains("IRQBALANCE_BANNED_CPUS=1"), "{:?}", s.services);
    assert_eq!(s.services[1].effect, "sets interrupts, RPS");
}

#[test]
fn a_bond_of_multi_queue_cards_whose_lines_only_the_kernel_can_tell() {
    let s = look("virtio-4-bond");
    is(irq(&s, 31), "lan0", 1, IrqRole::Combined);
    is(irq(&s, 40), "lan1", 0, IrqRole::Rx);
    assert_eq!(irq(&s, 31).learnt, "netdev netlink");
    let trees: Vec<String> = s.stack.iter().map(tree).collect();
    assert_eq!(trees, ["wan:bond0(bond)>[lan0(nic) lan1(nic)]"]);
    let lan0 = s.netdev("lan0").unwrap();
    assert_eq!((lan0.threaded, lan0.napi_threads.as_slice()), (Some(true), &[71, 72][..]));
    assert_eq!(lan0.settings.channels.as_ref().unwrap()["combined-max"], 4);
    assert_eq!(lan0.settings.rss.as_ref().unwrap().table, [0, 1, 0, 1]);
    assert_eq!(lan0.drops["rx_missed_errors"], 17);
    assert_eq!(s.path.nftables.as_ref().unwrap().forward_rules, 7);
    assert!(s.gaps.iter().any(|g| g.why == "not in this capture"), "{:?}", s.gaps);
}

#[test]
fn lines_of_one_name_are_told_apart_by_what_their_driver_does() {
    let s = look("mt7986-4-dsa");
    is(irq(&s, 20), "eth0", 0, IrqRole::Tx);
    is(irq(&s, 21), "eth0", 0, IrqRole::Rx);
    assert_eq!(irq(&s, 21).shared_with, ["eth1"], "both MACs use them");
    is(irq(&s, 30), "eth2", 0, IrqRole::Combined);
    assert_eq!(irq(&s, 31).id.role, IrqRole::Control, "wake-up carries no packets");
    assert_eq!(s.machine.board_facts.as_ref().unwrap().name, "mt7986");
}

#[test]
fn old_dumps_with_masks_only() {
    let s = look("old-8-masks");
    assert_eq!(s.usable_cpus(), set("0-5"));
    assert_eq!(s.cpus.len(), 8, "the offline ones are present");
    assert_eq!((cpu(&s, 1).siblings.clone(), cpu(&s, 4).siblings.clone()), (set("0-1"), set("4")));
    assert_eq!((cpu(&s, 2).cluster.clone(), cpu(&s, 4).cluster.clone()), (set("0-3"), set("4-5")));
    assert_eq!((cpu(&s, 2).l2.clone(), cpu(&s, 5).package), (set("0-3"), Some(3)));
    assert_eq!((cpu(&s, 3).node, cpu(&s, 5).node), (Some(0), Some(1)));
    assert_eq!(s.gaps.iter().find(|g| g.what == "CPUs"), None);
}

#[test]
fn types_of_cores_say_more_than_their_frequencies() {
    // An RK3399 whose old kernel states no capacity: 485/1024 work per cycle at 1.42 of 1.80 GHz.
    let dir = format!("{}/fixtures/hosts/rk3399-6-dwmac+r8169-5.4", env!("CARGO_MANIFEST_DIR"));
    let s = discover::snapshot(&Tree::open(Path::new(&dir)).unwrap());
    assert_eq!((cpu(&s, 5).capacity.value, cpu(&s, 5).capacity.source), (1024, Source::CoreType));
    assert!((350..420).contains(&cpu(&s, 0).capacity.value), "{:?}", cpu(&s, 0).capacity);
}

#[test]
fn every_scene_goes_through_json_unchanged() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/scenes")).unwrap()
    {
        let path = entry.unwrap().path();
        let snapshot = look(path.file_stem().unwrap().to_str().unwrap());
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot, "{path:?}");
    }
}

#[test]
fn boards_are_known_by_their_device_tree_and_so_are_their_lines() {
    let name = |s: &Snapshot| s.machine.board_facts.as_ref().unwrap().name.clone();

    let s = look("mt7621-4-dsa");
    assert_eq!(name(&s), "mt7621");
    assert_eq!(cpu(&s, 1).siblings, set("0-1"), "two threads of one core");
    assert_eq!(cpu(&s, 2).siblings, set("2-3"));
    assert_eq!(s.usable_cpus(), set("0-3"));
    is(irq(&s, 23), "dsa", 0, IrqRole::Combined);
    assert_eq!(s.irqs.len(), 1, "the switch's own line counts for no port: {:?}", s.irqs);
    assert_eq!(s.netdev("eth4").unwrap().conduit.as_deref(), Some("dsa"));

    let s = look("mt7988-4-dsa");
    assert_eq!(name(&s), "mt7988");
    is(irq(&s, 104), "eth0", 0, IrqRole::Tx);
    is(irq(&s, 105), "eth0", 0, IrqRole::Rx);
    assert_eq!(irq(&s, 105).shared_with, ["eth1", "eth2"]);
    assert_eq!(s.netdev("lan3").unwrap().conduit.as_deref(), Some("eth0"));

    let s = look("ipq8074-4-nss-dp");
    assert_eq!(name(&s), "ipq807x");
    is(irq(&s, 49), "lan1", 0, IrqRole::Rx);
    is(irq(&s, 47), "lan1", 0, IrqRole::Tx);
    assert_eq!(irq(&s, 48).id.role, IrqRole::Control, "gives buffers back");
    assert_eq!(irq(&s, 49).shared_with, ["lan2", "lan3"]);
    assert!(s.services.iter().any(|s| s.name == "/etc/init.d/smp_affinity"), "{:?}", s.services);

    let s = look("jh7110-4-dwmac");
    assert_eq!(name(&s), "visionfive-2");
    assert_eq!(s.machine.cpu_model.as_deref(), Some("sifive,u74-mc"));
    is(irq(&s, 40), "end0", 0, IrqRole::Combined);
    is(irq(&s, 44), "end1", 0, IrqRole::Combined);
    let control = |line| irq(&s, line).id.role == IrqRole::Control;
    assert!([41, 42, 45, 46].into_iter().all(control), "wake-up and LPI carry no packets");
}

#[test]
fn numbers_of_cpus_with_holes_and_offline_ones() {
    let s = look("sparse-6-offline");
    assert_eq!((s.possible.clone(), s.usable_cpus()), (set("0-15"), set("0,2,10-11")));
    assert_eq!(s.cpus.iter().map(|c| c.id.0).collect::<Vec<_>>(), [0, 2, 3, 8, 10, 11]);
    assert!(!cpu(&s, 3).online && !cpu(&s, 8).online);
    assert_eq!(cpu(&s, 11).siblings, set("10-11"));
    let counts: Vec<(u32, u64)> = irq(&s, 41).counts.iter().map(|(c, n)| (c.0, *n)).collect();
    assert_eq!(counts, [(0, 0), (2, 9), (10, 0), (11, 11)], "columns carry their CPU's number");
    assert_eq!(irq(&s, 40).lands_on(), Some(&set("10")));
    assert_eq!(s.netdev("eth0").unwrap().rx_queues[0].rps, Some(set("2,10-11")));
    let rows: Vec<(u32, u32)> = s.path.softnet.iter().map(|r| (r.cpu.0, r.packets)).collect();
    assert_eq!(rows, [(0, 1), (2, 2), (10, 3), (11, 4)]);
    for change in plan::candidates(&s).list.iter().flat_map(|c| c.changes()) {
        if let linerate::model::knob::Value::Cpus(cpus) = &change.after {
            assert!(cpus.is_subset(&set("0,2,10-11")), "{change:?}");
        }
    }
}

#[test]
fn one_line_of_two_cards_and_a_single_queue_without_xps() {
    let s = look("intx-2-shared");
    is(irq(&s, 16), "eth0", 0, IrqRole::Combined);
    assert_eq!(irq(&s, 16).shared_with, ["eth1"]);
    is(irq(&s, 43), "eth10", 0, IrqRole::Rx);
    is(irq(&s, 44), "eth10", 0, IrqRole::Tx);
    assert_eq!(irq(&s, 45).id.role, IrqRole::Control, "link events");
    assert!(s.irqs.iter().all(|i| i.line.0 != 17), "a USB controller's own line");
    for name in ["eth0", "eth1"] {
        assert_eq!(s.netdev(name).unwrap().tx_queues[0].xps, None, "{name}");
    }
    // Nothing is planned for what can't be set.
    let changes = plan::candidates(&s).list.into_iter().flat_map(|c| c.settings);
    for change in changes {
        assert!(!matches!(change.knob, linerate::model::knob::Knob::XpsCpus { .. }), "{change:?}");
    }
}

/// Dumps of CPU topologies that other projects test with; fixtures/README.md tells how all of them
/// were compared with what those projects say of them.
#[test]
fn public_dumps_are_read_as_their_projects_read_them() {
    /// Groups of CPUs, in the order of their first.
    fn groups(s: &Snapshot, of: impl Fn(&Cpu) -> CpuSet) -> Vec<String> {
        let mut found: Vec<CpuSet> = Vec::new();
        for group in s.cpus.iter().filter(|c| c.online).map(of) {
            if !found.contains(&group) {
                found.push(group);
            }
        }
        found.iter().map(ToString::to_string).collect()
    }
    /// Online, cores, packages, memory nodes, last level caches.
    type Known = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);
    let known: [(Known, &[&str], &[&str]); 6] = [
        (("dump-armv7-2", "0-1", &["0", "1"], &["0-1"]), &[], &[]),
        (
            (
                "dump-s390-20-offline",
                "1-5,8-19",
                &[
                    "1", "2", "3", "4", "5", "8", "9", "10", "11", "12", "13", "14", "15", "16",
                    "17", "18", "19",
                ],
                &["1-2", "3-5", "8-10", "11-14", "15", "16-18", "19"],
            ),
            &[],
            &[],
        ),
        (
            (
                "dump-power7-16",
                "0-15",
                &["0-3", "4-7", "8-11", "12-15"],
                &["0-3", "4-7", "8-11", "12-15"],
            ),
            &["0-15"],
            &[],
        ),
        (
            ("dump-ia64-8-threads", "0-7", &["0-1", "2-3", "4-5", "6-7"], &["0-3", "4-7"]),
            &["0-7"],
            &["0-1", "2-3", "4-5", "6-7"],
        ),
        (
            ("dump-ia64-16-packages", "0-15", &SIXTEEN, &SIXTEEN),
            &["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"],
            &SIXTEEN,
        ),
        (
            (
                "dump-xeon-16-offline",
                "0-1,3-4,6-12,15",
                &["0,8", "1,9", "3,11", "4,12", "6", "7,15", "10"],
                &["0,4,8,12", "1,9", "3,7,11,15", "6,10"],
            ),
            &["0-1,3-4,6-12,15"],
            &["0,4,8,12", "1,9", "3,7,11,15", "6,10"],
        ),
    ];
    for ((name, online, cores, packages), nodes, l3) in known {
        let s = look(name);
        assert_eq!(s.usable_cpus(), set(online), "{name}");
        assert_eq!(groups(&s, |c| c.siblings.clone()), cores, "{name}: cores");
        let alike = |of: &dyn Fn(&Cpu) -> Option<i64>, cpu: &Cpu| -> CpuSet {
            let mine = of(cpu);
            s.cpus.iter().filter(|c| c.online && of(c) == mine).map(|c| c.id).collect()
        };
        let package = |c: &Cpu| c.package.map(i64::from);
        assert_eq!(groups(&s, |c| alike(&package, c)), packages, "{name}: packages");
        let node = |c: &Cpu| c.node.map(i64::from);
        if !nodes.is_empty() {
            assert_eq!(groups(&s, |c| alike(&node, c)), nodes, "{name}: memory nodes");
        }
        let l3 = if l3.is_empty() { &[""][..] } else { l3 };
        assert_eq!(groups(&s, |c| c.l3.clone()), l3, "{name}: last level caches");
    }
    assert_eq!(look("dump-armv7-2").cpus[1].core_type.as_deref(), Some("Cortex-A15"));
    assert_eq!(look("dump-s390-20-offline").machine.cpu_model.as_deref(), Some("IBM 2817"));
}

/// One CPU each.
const SIXTEEN: [&str; 16] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];

/// Lines whose names alone mislead: what the driver is known to do with them wins.
#[test]
fn drivers_that_count_their_lines_in_ways_of_their_own() {
    let s = look("vectors-4-drivers");
    // Broadcom's BCM5720 receives nothing by the first vector.
    is(irq(&s, 40), "eno1", 0, IrqRole::Tx);
    is(irq(&s, 41), "eno1", 0, IrqRole::Rx);
    is(irq(&s, 44), "eno1", 3, IrqRole::Rx);
    // Google's virtual card: the first half transmits.
    is(irq(&s, 50), "ens4", 0, IrqRole::Tx);
    is(irq(&s, 51), "ens4", 1, IrqRole::Tx);
    is(irq(&s, 52), "ens4", 0, IrqRole::Rx);
    is(irq(&s, 53), "ens4", 1, IrqRole::Rx);
    is(irq(&s, 54), "ens4", 0, IrqRole::Control);
    // bnx2 has no such meaning of 16 as Realtek's own driver.
    is(irq(&s, 60), "eth2", 16, IrqRole::Combined);
    is(irq(&s, 65), "eth3", 0, IrqRole::Tx);
    // Aquantia calls every line the same; the last is for link events.
    is(irq(&s, 70), "eth4", 0, IrqRole::Combined);
    is(irq(&s, 71), "eth4", 1, IrqRole::Combined);
    assert_eq!(irq(&s, 72).id.role, IrqRole::Control);
    // Marvell's too, and they stay where they are.
    is(irq(&s, 80), "eth5", 0, IrqRole::Combined);
    is(irq(&s, 81), "eth5", 1, IrqRole::Combined);
    assert_eq!(irq(&s, 80).movable, Movable::Fixed);
    assert_eq!(irq(&s, 82).id.role, IrqRole::Control);
    // NXP's portals, one for each CPU; the card's own line is for link events.
    is(irq(&s, 90), "eth6", 0, IrqRole::Control);
    is(irq(&s, 91), "eth6", 0, IrqRole::Combined);
    is(irq(&s, 92), "eth6", 1, IrqRole::Combined);
    // The switch of AM335x.
    is(irq(&s, 95), "eth7", 0, IrqRole::Rx);
    is(irq(&s, 96), "eth7", 0, IrqRole::Tx);
}
