//! Interrupt lines: the device, queue and role that each belongs to, and the CPUs it may go to.
//!
//! Sources in this order: the kernel's own table (netdev netlink, 6.8 and later); the lines in the
//! device's `msi_irqs`; names; its `irq`. A USB adapter's lines are its host controller's, and a
//! DSA user port has none.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::irq_drivers::{
    alike, as_the_driver_counts, by_address, by_rank, fixed_by_driver, in_order_of_the_driver,
    of_card, of_wifi_driver,
};
use super::{Gaps, cpu_list, number, text};
use crate::machine::host::{HostRead, Query, query_as};
use crate::machine::parse::interrupts::{Interrupts, Row, interrupts};
use crate::machine::parse::{cpumask, irq_name};
use crate::model::cpuset::CpuSet;
use crate::model::order::InOrder;
use crate::model::snapshot::{BoardFacts, Bus, Irq, IrqId, IrqRole, Movable, NetDev};
use crate::model::units::{CpuId, IrqLine};

pub(super) fn discover(
    host: &dyn HostRead,
    netdevs: &[NetDev],
    board: Option<&BoardFacts>,
    gaps: &mut Gaps,
) -> Vec<Irq> {
    let Some(bytes) = gaps.keep("interrupts", host.read(Path::new("/proc/interrupts"))) else {
        return Vec::new();
    };
    let table = interrupts(&bytes);
    // Kernels before 6.12 and captures of earlier versions do not report it.
    let fixed: Vec<u32> = query_as(host, &Query::FixedIrqs).unwrap_or_default();
    let known = Known {
        table: &table,
        board,
        fixed: &fixed,
        designware: designware_arch(&host.arch()),
        early_rp1: is_before(host, EARLY_RP1),
    };
    let index = Index::of(netdevs, &table);
    if table.skipped > 0 {
        gaps.add("interrupts", format!("{} lines were not understood", table.skipped));
    }
    let mut irqs: BTreeMap<IrqLine, Irq> = BTreeMap::new();
    let mut without = Vec::new();
    for device in netdevs.iter().filter(|d| has_lines(d)) {
        let mut lines = lines_of(host, device, netdevs, &table, &index);
        if lines.is_empty() {
            lines = of_wifi_driver(device, netdevs, &table);
        }
        if lines.is_empty() {
            lines.extend(in_order_of_the_driver(device, netdevs, &table));
        }
        by_rank(device, &mut lines);
        // NXP's DPAA2 has a line for link events only; packets come by the portals.
        let receives = |lines: &[Found<'_>]| lines.iter().any(|line| line.role.receives());
        let wireless = device.kind.as_deref() == Some("wlan");
        let own_bus = matches!(device.bus, Bus::Platform(_) | Bus::Other(_));
        if !receives(&lines) && own_bus && !wireless {
            let mut lines = switch_lines(host, &table);
            by_rank(device, &mut lines);
            without.push((device, lines));
        }
        add(host, &known, &mut irqs, device, &lines);
    }
    // Ports without a line of their own share those of their switch.
    for (device, lines) in without {
        add(host, &known, &mut irqs, device, &lines);
    }
    if !irqs.is_empty() && irqs.values().all(|i| i.affinity.is_none()) {
        gaps.add("where interrupts may go", "/proc/irq can't be read here (a container?)");
    }
    irqs.into_values().collect()
}

/// Facts that hold for all lines.
struct Known<'a> {
    table: &'a Interrupts<'a>,
    board: Option<&'a BoardFacts>,
    /// Lines that the kernel lets nobody move.
    fixed: &'a [u32],
    /// True if the chip [`DESIGNWARE`] can be none but DesignWare's here.
    designware: bool,
    /// True if the kernel is older than the affinity of RP1's interrupts.
    early_rp1: bool,
}

/// Chip of the interrupts of the Raspberry Pi 5's Ethernet, which is inside the south bridge RP1:
/// it could not move them before this version (raspberrypi/linux issue 6077, pull request 6090).
const RP1: &str = "rp1_irq_chip";
const EARLY_RP1: [u32; 3] = [6, 6, 25];

/// True if the kernel is older than `version`; false where its version can't be read.
fn is_before(host: &dyn HostRead, version: [u32; 3]) -> bool {
    let release = text(host, Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    let mut parts =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    match [parts.next(), parts.next(), parts.next()] {
        [Some(major), Some(minor), patch] => [major, minor, patch.unwrap_or(0)] < version,
        _ => false,
    }
}

/// Name of the interrupt controller inside DesignWare PCIe hosts that have no other for MSI
/// (drivers/pci/controller/dwc/pcie-designware-host.c, `dw_pcie_msi_irq_chip`): 32 messages share
/// one line of the parent, so `dw_pci_msi_set_affinity` answers EINVAL, and before 4.17 there was
/// none. From 6.17 on it is called `DW-PCI-MSI...` and the mode of smp_affinity shows it, which is
/// as well, for later kernels can move it.
const DESIGNWARE: &str = "PCI-MSI";

/// True if [`DESIGNWARE`] may be DesignWare's on this architecture. Others of that very name are
/// x86's, which move (arch/x86/kernel/apic/msi.c), and those of s390 and sparc. A chip behind
/// another controller is called by it (`ITS-MSI`, `GICv2m-...`), and from 6.2 on by its device
/// (`PCI-MSI-0000:01:00.0`).
fn designware_arch(arch: &str) -> bool {
    ["aarch64", "arm", "riscv"].iter().any(|family| arch.starts_with(family))
}

/// True if the device has lines of its own: Wi-Fi has them too; a DSA user port's packets come by
/// its conduit.
fn has_lines(device: &NetDev) -> bool {
    device.is_hardware() && device.kind.as_deref() != Some("dsa")
}

fn add(
    host: &dyn HostRead,
    known: &Known<'_>,
    irqs: &mut BTreeMap<IrqLine, Irq>,
    device: &NetDev,
    lines: &[Found<'_>],
) {
    for found in lines {
        match irqs.get_mut(&found.row.line) {
            // A shared line: the first device by name keeps it, the others are named.
            Some(irq) => irq.shared_with.push(device.name.clone()),
            None => {
                irqs.insert(found.row.line, irq(host, known, device, found));
            }
        }
    }
}

/// Lines by names that stand for a whole switch.
fn switch_lines<'a>(host: &dyn HostRead, table: &'a Interrupts<'a>) -> Vec<Found<'a>> {
    let found = table.rows.iter().filter_map(|row| {
        let named = row.actions.iter().find_map(|a| Some((a, irq_name::of_switch(a)?)));
        let (action, (queue, role)) = named?;
        Some(Found { row, action: action.clone(), queue, role, learnt: "name of the switch" })
    });
    let mut found: Vec<Found<'a>> = found.collect();
    by_portal(host, &mut found);
    make_unique(&mut found);
    found
}

/// Numbers NXP's portals by CPU: each serves one, and receive queue n belongs to the nth CPU that
/// has one (dpaa2-eth.c, dpaa2_eth_set_fq_affinity); the portals' own numbers say nothing of it.
fn by_portal(host: &dyn HostRead, found: &mut [Found<'_>]) {
    let is_portal = |line: &Found<'_>| line.action.starts_with("dpio.");
    let mut order: Vec<(CpuId, IrqLine)> = Vec::new();
    for line in found.iter().filter(|l| is_portal(l)) {
        let dir = Path::new("/proc/irq").join(line.row.line.to_string());
        let on = cpu_list(host, &dir.join("smp_affinity_list")).filter(|set| set.len() == 1);
        let Some(cpu) = on.and_then(|set| set.first()) else { return };
        order.push((cpu, line.row.line));
    }
    order.order_by(Ord::cmp);
    for line in found.iter_mut().filter(|l| is_portal(l)) {
        let rank = order.iter().position(|(_, irq)| *irq == line.row.line);
        line.queue = rank.and_then(|rank| u32::try_from(rank).ok()).unwrap_or(line.queue);
    }
}

pub(super) struct Found<'a> {
    pub(super) row: &'a Row<'a>,
    pub(super) action: String,
    pub(super) queue: u32,
    pub(super) role: IrqRole,
    pub(super) learnt: &'static str,
}

/// Rows of the table by the keys that lead to them: with thousands of lines, not every device may
/// look at every one.
struct Index {
    /// Place in the table by line.
    lines: HashMap<IrqLine, usize>,
    /// Places by the names of devices and of their places on the bus that occur in an action, as
    /// [`irq_name::of_device`] wants them: whole words of it.
    names: HashMap<String, Vec<usize>>,
}

impl Index {
    fn of(netdevs: &[NetDev], table: &Interrupts<'_>) -> Self {
        let lines = table.rows.iter().enumerate().map(|(at, row)| (row.line, at)).collect();
        let mut names: HashMap<String, Vec<usize>> = HashMap::new();
        for name in netdevs.iter().flat_map(own_names).filter(|name| !name.is_empty()) {
            names.entry(name.into_owned()).or_default();
        }
        let longest = names.keys().map(String::len).max().unwrap_or(0);
        for (at, row) in table.rows.iter().enumerate() {
            for action in &row.actions {
                for word in irq_name::words(action, longest) {
                    if let Some(places) = names.get_mut(word)
                        && places.last() != Some(&at)
                    {
                        places.push(at);
                    }
                }
            }
        }
        Self { lines, names }
    }

    /// Places of rows that may be the device's, in the table's order.
    fn candidates(&self, device: &NetDev, msi: &[IrqLine]) -> BTreeSet<usize> {
        let by_kernel = device.napis.iter().filter_map(|napi| napi.irq.map(IrqLine));
        let by_line = by_kernel.chain(msi.iter().copied());
        let mut found: BTreeSet<usize> =
            by_line.filter_map(|line| self.lines.get(&line).copied()).collect();
        for name in own_names(device) {
            found.extend(self.names.get(name.as_ref()).into_iter().flatten());
        }
        found
    }
}

/// Names that drivers may give the device in the names of its lines.
fn own_names(device: &NetDev) -> [Cow<'_, str>; 2] {
    let bus_name = match &device.bus {
        Bus::Pci(name) | Bus::Platform(name) | Bus::Virtio(name) => Cow::Borrowed(name.as_str()),
        // .../dpni.1/net/eth0
        Bus::Other(bus) => {
            let parent = device.sysfs.parent().and_then(Path::parent).and_then(Path::file_name);
            let name = parent.and_then(|name| name.to_str()).unwrap_or_default();
            // xen-netfront.c, xennet_init_queue: `vif0-q1-rx` is of the device vif-0.
            if bus == "xen" { name.replacen('-', "", 1).into() } else { name.into() }
        }
        Bus::Usb(_) | Bus::Virtual => Cow::Borrowed(""),
    };
    [Cow::Borrowed(&device.name), bus_name]
}

fn lines_of<'a>(
    host: &dyn HostRead,
    device: &NetDev,
    netdevs: &[NetDev],
    table: &'a Interrupts<'a>,
    index: &Index,
) -> Vec<Found<'a>> {
    if let Bus::Usb(controller) = &device.bus {
        return controller_lines(host, device, controller, table);
    }
    let [name, place] = own_names(device);
    let names = [name.as_ref(), place.as_ref()];
    // Both ports of a ConnectX-3 are one function.
    let of_sibling = |action: &str| {
        let mut siblings = netdevs.iter().filter(|d| d.bus == device.bus && d.name != device.name);
        siblings.any(|d| irq_name::of_device(action, &[&d.name]).is_some())
    };
    let mut found = Vec::new();
    let msi = msi_lines(host, device);
    let candidates = index.candidates(device, &msi);
    for row in candidates.into_iter().filter_map(|at| table.rows.get(at)) {
        if let Some(known) = by_kernel(device, row) {
            found.push(known);
            continue;
        }
        let own = msi.binary_search(&row.line).is_ok();
        let by_name = row
            .actions
            .iter()
            .find_map(|a| irq_name::of_device(a, &names).map(|(q, r)| (a.clone(), q, r)));
        // A line in msi_irqs that nobody asked for yet has no action and counts for nothing.
        let by_order = || {
            let next = u32::try_from(found.len()).unwrap_or(u32::MAX);
            if let Some((action, role)) = of_card(&row.actions) {
                return Some((action.clone(), next, role));
            }
            let action = row.actions.first().filter(|action| !of_sibling(action))?;
            let known = irq_name::queue_and_role(action);
            let (queue, role) = known.unwrap_or((next, IrqRole::Combined));
            Some((action.clone(), queue, role))
        };
        let (learnt, hit) = if own {
            let learnt = if by_name.is_some() { "msi_irqs and name" } else { "msi_irqs and order" };
            (learnt, by_name.or_else(by_order))
        } else {
            ("name", by_name)
        };
        if let Some((action, queue, role)) = hit {
            found.push(Found { row, action, queue, role, learnt });
        }
    }
    if found.is_empty()
        && let Some(line) = number::<u32>(host, &class_path(device).join("device/irq"))
        && let Some(row) = index.lines.get(&IrqLine(line)).and_then(|at| table.rows.get(*at))
        && line != 0
        && row.actions.iter().any(|a| !is_port_service(a))
    {
        let action = row.actions.join(", ");
        found.push(Found { row, action, queue: 0, role: IrqRole::Combined, learnt: "device/irq" });
    }
    // dpaa2-eth.c, dpaa2_eth_setup_irqs: its own line is for link events.
    if device.driver.as_deref() == Some("fsl_dpaa2_eth") {
        found.iter_mut().for_each(|line| line.role = IrqRole::Control);
    }
    by_address(device, &mut found);
    as_the_driver_counts(device, &mut found);
    if let Some(roles) = alike(device, &found) {
        for (line, role) in found.iter_mut().zip(roles) {
            (line.role, line.learnt) = (role, "name, order of the driver");
        }
        make_unique(&mut found);
        return found;
    }
    // Where queues have lines of their own, the one with the bare name is for link events
    // (e1000e: eth4-rx-0, eth4-tx-0, eth4).
    if found.iter().any(|f| f.action != device.name && f.role.carries_packets()) {
        found.iter_mut().filter(|f| f.action == device.name).for_each(|f| {
            f.role = IrqRole::Control;
        });
    }
    make_unique(&mut found);
    found
}

/// Source of a line that the kernel itself names for its queue.
pub(super) const BY_KERNEL: &str = "netdev netlink";

/// Line by the kernel's own table: the queues that its NAPI instance polls.
fn by_kernel<'a>(device: &NetDev, row: &'a Row<'a>) -> Option<Found<'a>> {
    let napi = device.napis.iter().find(|n| n.irq == Some(row.line.0))?;
    let action = row.actions.first()?.clone();
    let (queue, role) = match (napi.rx.first(), napi.tx.first()) {
        (Some(queue), None) => (*queue, IrqRole::Rx),
        (None, Some(queue)) => (*queue, IrqRole::Tx),
        (Some(queue), Some(_)) => (*queue, IrqRole::Combined),
        // Queues are reported only while the device is up and by drivers that link them.
        (None, None) => irq_name::queue_and_role(&action).unwrap_or((0, IrqRole::Combined)),
    };
    Some(Found { row, action, queue, role, learnt: BY_KERNEL })
}

/// True if the action is one of the PCI port that a card sits on: power management, errors, hot
/// plug.
fn is_port_service(action: &str) -> bool {
    ["PCIe PME", "aerdrv", "pciehp", "PCIe BW", "bwctrl", "dpc", "s2idle"]
        .iter()
        .any(|service| action.contains(service))
}

/// Makes identities unique: two lines of a device must not pass for the same (queue, role), so the
/// later one takes the next free queue number.
fn make_unique(found: &mut [Found<'_>]) {
    let mut taken = BTreeSet::new();
    for line in found.iter_mut().filter(|f| f.role.carries_packets()) {
        while !taken.insert((line.queue, line.role)) {
            line.queue = line.queue.saturating_add(1);
        }
    }
}

fn controller_lines<'a>(
    host: &dyn HostRead,
    device: &NetDev,
    controller: &str,
    table: &'a Interrupts<'a>,
) -> Vec<Found<'a>> {
    // .../<controller>/usbN/...: the part above usbN is the controller's own directory.
    let mut dir = PathBuf::new();
    let mut hub = String::new();
    let mut parts = device.sysfs.iter().map(|p| p.to_string_lossy().into_owned());
    for part in parts.by_ref() {
        dir.push(&part);
        if part == controller {
            break;
        }
    }
    if let Some(next) = parts.next() {
        hub = next;
    }
    let own = msi_in(host, &dir);
    let legacy = number::<u32>(host, &dir.join("irq")).filter(|&n| n != 0);
    // A controller of USB 3 has two buses and one line, named after the first (drivers/usb/core/hcd.c,
    // usb_add_hcd: only the primary one requests it), and a fast adapter is on the second.
    let mut buses = host.list(&dir).unwrap_or_default();
    buses.retain(|name| name.strip_prefix("usb").is_some_and(|n| n.parse::<u32>().is_ok()));
    buses.push(hub);
    // `xhci-hcd:usb4`, `ehci_hcd:usb1`, `xhci-hcd.0.auto` never: the bus is after the colon.
    let named = |action: &String| {
        action.split_once(':').is_some_and(|(_, bus)| buses.iter().any(|b| b == bus))
    };
    let mut found: Vec<Found<'a>> = table
        .rows
        .iter()
        .filter(|row| !row.actions.is_empty())
        .filter_map(|row| {
            let learnt = if own.contains(&row.line) {
                "msi_irqs of the host controller"
            } else if row.actions.iter().any(named) {
                "name of the USB bus"
            } else if legacy == Some(row.line.0) {
                "irq of the host controller"
            } else {
                return None;
            };
            let action = row.actions.iter().find(|a| named(a)).or(row.actions.first())?.clone();
            Some(Found { row, action, queue: 0, role: IrqRole::Controller, learnt })
        })
        .collect();
    make_unique(&mut found);
    found
}

fn class_path(device: &NetDev) -> PathBuf {
    Path::new("/sys/class/net").join(&device.name)
}

/// MSI lines of the device, or of the PCI function that a virtio device sits on.
fn msi_lines(host: &dyn HostRead, device: &NetDev) -> Vec<IrqLine> {
    let Ok(mut dir) = host.resolve(&class_path(device).join("device")) else { return Vec::new() };
    if matches!(device.bus, Bus::Virtio(_)) {
        dir.pop();
    }
    msi_in(host, &dir)
}

fn msi_in(host: &dyn HostRead, dir: &Path) -> Vec<IrqLine> {
    let names = host.list(&dir.join("msi_irqs")).unwrap_or_default();
    let mut lines: Vec<IrqLine> =
        names.iter().filter_map(|n| n.parse().ok()).map(IrqLine).collect();
    lines.order_by(Ord::cmp);
    lines
}

fn irq(host: &dyn HostRead, known: &Known<'_>, device: &NetDev, found: &Found<'_>) -> Irq {
    let line = found.row.line;
    let dir = Path::new("/proc/irq").join(line.to_string());
    let affinity = cpu_list(host, &dir.join("smp_affinity_list"))
        .or_else(|| cpumask::mask(&host.read(&dir.join("smp_affinity")).ok()?).ok());
    let effective = cpu_list(host, &dir.join("effective_affinity_list"))
        .or_else(|| cpumask::mask(&host.read(&dir.join("effective_affinity")).ok()?).ok())
        // Some chips never fill it in (rp1_irq_chip, raspberrypi/linux issue 7101).
        .filter(|set| !set.is_empty());
    let fixed_by = fixed_by(host, known, found.row).or_else(|| fixed_by_driver(device, found));
    let counts: Vec<(CpuId, u64)> =
        known.table.cpus.iter().copied().zip(found.row.counts(known.table.cpus.len())).collect();
    // A line that stays where it is goes where it was counted (per-CPU lines have no file for it).
    let counted = || -> Option<CpuSet> {
        fixed_by.as_ref()?;
        let taken = counts.iter().filter(|(_, count)| *count > 0).map(|(cpu, _)| *cpu);
        Some(taken.collect::<CpuSet>()).filter(|set| !set.is_empty())
    };
    let effective = effective.or_else(counted);
    let movable = match (&affinity, &fixed_by) {
        (_, Some(_)) => Movable::Fixed,
        (Some(_), None) => Movable::Presumed,
        (None, None) => Movable::Unknown,
    };
    let hint = host.read(&dir.join("affinity_hint")).ok();
    Irq {
        line,
        id: IrqId { device: device.name.clone(), queue: found.queue, role: found.role },
        action: found.action.clone(),
        chip: found.row.chip.clone(),
        counts,
        affinity,
        effective,
        movable,
        shared_with: Vec::new(),
        learnt: found.learnt.to_owned(),
        movable_by: fixed_by,
        trigger: text(host, &Path::new("/sys/kernel/irq").join(line.to_string()).join("type"))
            .or_else(|| found.row.trigger.map(str::to_owned)),
        hint: hint.and_then(|h| cpumask::mask(&h).ok()).filter(|set| !set.is_empty()),
        node: number::<i32>(host, &dir.join("node")).and_then(|n| u32::try_from(n).ok()),
        rx: Vec::new(),
        tx: Vec::new(),
    }
}

/// Reason why a line can't be moved, where that is known without trying.
fn fixed_by(host: &dyn HostRead, known: &Known<'_>, row: &Row<'_>) -> Option<String> {
    // CONFIG_GENERIC_IRQ_DEBUGFS; kernel/irq/debugfs.c names the flags.
    let debug = Path::new("/sys/kernel/debug/irq/irqs").join(row.line.to_string());
    let flags = text(host, &debug).unwrap_or_default();
    let flag = [
        ("IRQD_AFFINITY_MANAGED", "the kernel manages it"),
        ("_IRQ_PER_CPU", "it is per CPU"),
        ("IRQD_PER_CPU", "it is per CPU"),
        ("_IRQ_NO_BALANCING", "its driver forbids it"),
        ("IRQD_NO_BALANCING", "its driver forbids it"),
    ]
    .iter()
    .find(|(flag, _)| flags.contains(flag));
    if let Some((flag, why)) = flag {
        return Some(format!("{why} ({flag})"));
    }
    if known.fixed.contains(&row.line.0) {
        return Some("the kernel lets nobody write its smp_affinity (mode 0444)".to_owned());
    }
    if let Some(board) = known.board.filter(|b| b.fixed_chips.contains(&row.chip)) {
        return Some(format!("{} can't move interrupts ({})", row.chip, board.source));
    }
    if known.early_rp1 && row.chip == RP1 {
        return Some(format!("{RP1} can't move interrupts before Linux 6.6.25 (rp1.c)"));
    }
    (known.designware && row.chip == DESIGNWARE).then(|| {
        format!(
            "{DESIGNWARE} of a DesignWare PCIe host can't move interrupts \
             (pcie-designware-host.c, dw_pci_msi_set_affinity)"
        )
    })
}
