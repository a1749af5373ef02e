//! A made machine of any size: CPUs in packages with their caches and nodes, cards with many
//! queues whose lines only msi_irqs and names tell, and storage that has most of the lines.

use std::fmt::Write;

use super::{Node, Nodes};

/// How large.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// CPUs, all online; 64 to a package, 8 to a level 3 cache.
    pub(crate) cpus: u32,
    /// Network cards.
    pub(crate) cards: u32,
    /// Queues of each card, each with a line.
    pub(crate) queues: u32,
    /// Interrupt lines in all.
    pub(crate) lines: u32,
}

impl Size {
    /// The machine of the budget: `show` of its capture in 200 ms and 64 MB.
    pub(crate) const BUDGET: Self = Self { cpus: 512, cards: 8, queues: 64, lines: 4000 };

    /// Half the cards and lines, on as many CPUs: the table of interrupts is lines times CPUs.
    pub(crate) const HALF: Self = Self { cards: 4, lines: 2000, ..Self::BUDGET };
}

/// The machine.
pub(crate) fn machine(size: Size) -> Nodes {
    let mut made = Nodes::new();
    let mut file =
        |path: String, text: &str| made.push((path, Node::File(format!("{text}\n").into())));
    file("/linerate/arch".into(), "x86_64");
    file("/proc/sys/kernel/osrelease".into(), "6.12.0");
    file("/proc/sys/kernel/hostname".into(), "big");
    let last = size.cpus - 1;
    let root = "/sys/devices/system/cpu";
    for name in ["possible", "present", "online"] {
        file(format!("{root}/{name}"), &format!("0-{last}"));
    }
    let group =
        |cpu: u32, of: u32| format!("{}-{}", cpu / of * of, (cpu / of * of + of - 1).min(last));
    for cpu in 0..size.cpus {
        let dir = format!("{root}/cpu{cpu}");
        file(format!("{dir}/topology/core_cpus_list"), &group(cpu, 2));
        file(format!("{dir}/topology/package_cpus_list"), &group(cpu, 64));
        file(format!("{dir}/topology/physical_package_id"), &(cpu / 64).to_string());
        file(format!("{dir}/topology/core_id"), &(cpu % 64 / 2).to_string());
        file(format!("{dir}/topology/die_id"), "0");
        file(format!("{dir}/topology/cluster_id"), "65535");
        for (index, of) in [(2, 2), (3, 8)] {
            file(format!("{dir}/cache/index{index}/level"), &index.to_string());
            file(format!("{dir}/cache/index{index}/shared_cpu_list"), &group(cpu, of));
        }
        file(format!("{dir}/cpufreq/cpuinfo_max_freq"), "3700000");
        file(format!("{dir}/cpufreq/scaling_governor"), "performance");
    }
    for node in 0..size.cpus.div_ceil(64) {
        let list = group(node * 64, 64);
        file(format!("/sys/devices/system/node/node{node}/cpulist"), &list);
    }
    let mut softnet = String::new();
    for cpu in 0..size.cpus {
        writeln!(softnet, "0001e240 00000000 {}{cpu:08x}", "00000000 ".repeat(10)).unwrap();
    }
    file("/proc/net/softnet_stat".into(), softnet.trim_end());
    file("/proc/interrupts".into(), table(size).trim_end());
    for line in 0..size.lines {
        let cpu = line % size.cpus;
        let dir = format!("/proc/irq/{line}");
        file(format!("{dir}/smp_affinity"), &mask(size.cpus, 0, last));
        file(format!("{dir}/smp_affinity_list"), &format!("0-{last}"));
        file(format!("{dir}/effective_affinity"), &mask(size.cpus, cpu, cpu));
        file(format!("{dir}/effective_affinity_list"), &cpu.to_string());
        file(format!("{dir}/node"), &(cpu / 64).to_string());
    }
    for card in 0..size.cards {
        let device = device(card);
        let dir = format!("{device}/net/ens{card}");
        file(format!("{dir}/ifindex"), &(card + 2).to_string());
        file(format!("{dir}/mtu"), "1500");
        file(format!("{dir}/operstate"), "up");
        file(format!("{dir}/speed"), "100000");
        file(format!("{device}/numa_node"), &(card % size.cpus.div_ceil(64)).to_string());
        for queue in 0..size.queues {
            let queues = format!("{dir}/queues");
            file(format!("{queues}/rx-{queue}/rps_cpus"), &mask(size.cpus, 1, 0));
            file(format!("{queues}/rx-{queue}/rps_flow_cnt"), "0");
            file(format!("{queues}/tx-{queue}/xps_cpus"), &mask(size.cpus, queue, queue));
            file(format!("{device}/msi_irqs/{}", card * size.queues + queue), "msix");
        }
    }
    file("/sys/bus/pci/drivers_autoprobe".into(), "1");
    for card in 0..size.cards {
        let (device, up) = (device(card), "../".repeat(3));
        let mut link = |path: String, to: String| made.push((path, Node::Link(to)));
        link(format!("/sys/class/net/ens{card}"), format!("{device}/net/ens{card}"));
        link(format!("{device}/net/ens{card}/device"), "../..".into());
        link(format!("{device}/subsystem"), format!("{up}bus/pci"));
    }
    made
}

fn device(card: u32) -> String {
    format!("/sys/devices/pci0000:{card:02x}/0000:{card:02x}:00.0")
}

/// The CPUs from `first` to `last` (none where that is less) as the kernel prints a mask.
fn mask(cpus: u32, first: u32, last: u32) -> String {
    let words = (0..cpus.div_ceil(32)).rev().map(|word| {
        let bits = (0..32).filter(|bit| (first..=last).contains(&(word * 32 + bit)));
        format!("{:08x}", bits.fold(0_u32, |word, bit| word | 1 << bit))
    });
    words.collect::<Vec<_>>().join(",")
}

fn table(size: Size) -> String {
    let mut text = String::from("     ");
    for cpu in 0..size.cpus {
        write!(text, " {:>10}", format!("CPU{cpu}")).unwrap();
    }
    for line in 0..size.lines {
        write!(text, "\n{line:>4}:").unwrap();
        for cpu in 0..size.cpus {
            let count = if cpu == line % size.cpus { 1_000_000 + line } else { 0 };
            write!(text, " {count:>10}").unwrap();
        }
        let (card, queue) = (line / size.queues, line % size.queues);
        let action = match card < size.cards {
            true => format!("mlx5_comp{queue}@pci:0000:{card:02x}:00.0"),
            false => format!("nvme{}q{}", line / 128, line % 128),
        };
        write!(text, "  IR-PCI-MSIX-0000:{card:02x}:00.0 {queue:>4}-edge      {action}").unwrap();
    }
    text
}
