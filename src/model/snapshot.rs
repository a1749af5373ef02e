//! A router at one moment: CPUs, devices with their queues, and interrupts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::capacity::Capacity;
use super::cpuset::CpuSet;
use super::feature::{Features, Qdisc};
use super::nic::{LinkFacts, Napi, NicSettings, Numbers};
use super::path::{ForwardPath, KernelFacts, Service};
use super::stack::Layer;
use super::units::{CpuId, IrqLine};

/// Everything that discovery learnt, and what it could not learn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Kernel, architecture and board.
    pub machine: Machine,
    /// Possible CPUs that are present, by ascending number.
    pub cpus: Vec<Cpu>,
    /// Network devices except loopback, by name.
    pub netdevs: Vec<NetDev>,
    /// Interrupt lines that belong to network devices (or to the controller a network device
    /// hangs on), by number.
    pub irqs: Vec<Irq>,
    /// What could not be learnt, and why.
    pub gaps: Vec<Gap>,
    /// CPU numbers that the kernel keeps room for, whether or not there is a CPU.
    pub possible: CpuSet,
    /// From each device that bears an IP address down to the ports.
    pub stack: Vec<Layer>,
    /// What a forwarded packet meets.
    pub path: ForwardPath,
    /// Preemption, tick, crypto.
    pub kernel: KernelFacts,
    /// Programs and scripts that set what we set.
    pub services: Vec<Service>,
}

impl Snapshot {
    /// CPUs that work may be placed on: online and not isolated.
    #[must_use]
    pub fn usable_cpus(&self) -> CpuSet {
        self.cpus.iter().filter(|c| c.online && !c.isolated).map(|c| c.id).collect()
    }

    /// The device of that name.
    #[must_use]
    pub fn netdev(&self, name: &str) -> Option<&NetDev> {
        self.netdevs.iter().find(|d| d.name == name)
    }

    /// The interrupt lines of a device.
    pub fn irqs_of<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a Irq> {
        self.irqs.iter().filter(move |irq| irq.id.device == device)
    }
}

/// What machine this is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub hostname: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// Board or product name, where device tree or DMI tells.
    pub board: Option<String>,
    /// `PRETTY_NAME` of os-release.
    pub os: Option<String>,
    /// CPU model name where /proc/cpuinfo tells.
    pub cpu_model: Option<String>,
    /// Hypervisor, where one shows itself.
    pub virtualisation: Option<String>,
    /// First 16 hex digits of a hash of /etc/machine-id (never the id itself); `None` without one.
    pub id: Option<String>,
    /// Whether the kernel accounts softirq time exactly (CONFIG_IRQ_TIME_ACCOUNTING); `None` when
    /// the kernel's configuration can't be read. Without it softirq time is sampled by the tick.
    pub irq_time_accounting: Option<bool>,
    /// `compatible` of the device tree, most specific first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compatible: Vec<String>,
    /// What is known of this board beside what its kernel tells: `boards/<name>.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board_facts: Option<BoardFacts>,
}

/// Facts about a board, from a file of ours; each is someone's observation, and the kernel's own
/// facts win over them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BoardFacts {
    /// Name of the file without `.toml`.
    pub name: String,
    /// The file: `boards/<name>.toml`, compiled in, or a path of this machine.
    pub file: String,
    /// The board or system on chip in words.
    pub title: String,
    /// Work per cycle by CPU number (`capacity-dmips-mhz` of the kernel's device tree), for
    /// kernels that state no capacity.
    pub per_cycle: Vec<u32>,
    /// Interrupt controllers (their names in /proc/interrupts) whose lines can't be moved.
    pub fixed_chips: Vec<String>,
    /// Things to know.
    pub notes: Vec<String>,
    /// Where the facts come from.
    pub source: String,
}

/// One logical CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Whether it is online.
    pub online: bool,
    /// Whether it is isolated from scheduling or ticks (`isolated`, `nohz_full`).
    pub isolated: bool,
    /// The files that say so: `/sys/devices/system/cpu/isolated` (`isolcpus=`) and `nohz_full`, or a
    /// cpuset's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub isolated_by: Vec<String>,
    /// How much it can do.
    pub capacity: Capacity,
    /// Highest frequency in kHz (`cpuinfo_max_freq`).
    pub max_khz: Option<u64>,
    /// SMT siblings, itself included.
    pub siblings: CpuSet,
    /// CPUs of the same cluster or package, itself included.
    pub cluster: CpuSet,
    /// The frequency policy that governs it.
    pub governor: Option<Governor>,
    /// Whether the tick stops on it (`nohz_full`); it then counts as isolated too.
    pub nohz_full: bool,
    /// Whether RCU callbacks are taken off it (`rcu_nocbs`).
    pub rcu_nocb: bool,
    /// Type of the core, e.g. `Cortex-A72`, `P-core`, `E-core`.
    pub core_type: Option<String>,
    /// Core number; unique within its cluster and package only.
    pub core: Option<i32>,
    /// Package number; -1 where the firmware tells none.
    pub package: Option<i32>,
    /// Die number within the package.
    pub die: Option<i32>,
    /// NUMA node.
    pub node: Option<u32>,
    /// CPUs that share its level 2 cache, itself included; empty where the kernel tells none.
    pub l2: CpuSet,
    /// CPUs that share its level 3 cache.
    pub l3: CpuSet,
    /// Instructions for cryptography (`aes`, `pmull`, `neon`, `avx2`, ...).
    pub crypto: Vec<String>,
}

/// Governor of a frequency policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Governor {
    /// Policy directory name, e.g. `policy0`.
    pub policy: String,
    /// Current governor.
    pub current: String,
    /// Those that can be chosen.
    pub available: Vec<String>,
}

/// What a device hangs on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "bus", content = "path")]
pub enum Bus {
    /// A PCI function, by its address.
    Pci(String),
    /// A platform device, by its sysfs name.
    Platform(String),
    /// A USB device, by the sysfs name of its host controller.
    Usb(String),
    /// A virtio device, by its sysfs name (`virtio1`).
    Virtio(String),
    /// No hardware (veth, bridge, VLAN, ...).
    #[default]
    Virtual,
    /// Another bus, by its name.
    Other(String),
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NetDev {
    /// Current name.
    pub name: String,
    /// Interface index; valid for this boot only.
    pub ifindex: u32,
    /// What kind it is where it is not a plain device: rtnetlink's link kind (`veth`, `vlan`,
    /// `bridge`, `wireguard`), else the `DEVTYPE` of its uevent (`wlan`, `dsa`).
    pub kind: Option<String>,
    /// Driver name, `None` for virtual devices that tell none.
    pub driver: Option<String>,
    /// What it hangs on.
    pub bus: Bus,
    /// Path under /sys/devices: the device's identity over reboots.
    pub sysfs: PathBuf,
    /// Operational state, e.g. `up`.
    pub operstate: String,
    /// Link speed in Mbit/s, where known.
    pub speed: Option<u32>,
    /// Full duplex, where known.
    pub full_duplex: Option<bool>,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// NUMA node, `None` where the kernel says -1 or nothing.
    pub numa_node: Option<u32>,
    /// Receive queues by number.
    pub rx_queues: Vec<RxQueue>,
    /// Transmit queues by number.
    pub tx_queues: Vec<TxQueue>,
    /// Names of the devices below it (`lower_*`).
    pub lower: Vec<String>,
    /// Name of the bridge or bond it belongs to.
    pub master: Option<String>,
    /// Whether NAPI runs in threads; `None` where the kernel has no such setting.
    pub threaded: Option<bool>,
    /// Offload features; `None` where they could not be read.
    pub features: Option<Features>,
    /// Queueing disciplines; empty where they could not be read.
    pub qdiscs: Vec<Qdisc>,
    /// Channels, rings, coalescing, RSS, pause, firmware.
    pub settings: NicSettings,
    /// NAPI instances, where the kernel tells (6.8 and later).
    pub napis: Vec<Napi>,
    /// Threads of NAPI by process id, from the names `napi/<device>-<id>`.
    pub napi_threads: Vec<u32>,
    /// CPUs that those threads may run on, by process id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub napi_thread_cpus: BTreeMap<u32, CpuSet>,
    /// Hard interrupts put off while polls come up empty.
    pub defer_hard_irqs: Option<u64>,
    /// Nanoseconds until GRO lets packets go.
    pub gro_flush_timeout: Option<u64>,
    /// Counters of loss since boot that are not zero: `rx_dropped`, `rx_missed_errors`, ...
    pub drops: Numbers,
    /// The driver's own counters of loss since boot that are not zero (`ethtool -S`, chosen by
    /// name); those of single queues are summed, with `*` for their number.
    pub counters: Numbers,
    /// Addresses, VLAN number, XDP.
    pub link: LinkFacts,
    /// The switch that it is a port of (`phys_switch_id`).
    pub switch: Option<String>,
    /// Name of the port on its switch or card (`phys_port_name`).
    pub port: Option<String>,
    /// For a DSA user port: the device that its packets go through.
    pub conduit: Option<String>,
    /// For a PPPoE session: the device under it.
    pub pppoe_over: Option<String>,
}

impl NetDev {
    /// Whether packets enter the machine here (a physical or emulated NIC), rather than through
    /// another device of the same machine.
    #[must_use]
    pub fn is_hardware(&self) -> bool {
        self.bus != Bus::Virtual
    }

    /// Whether it is one end of a veth pair.
    #[must_use]
    pub fn is_veth(&self) -> bool {
        self.kind.as_deref() == Some("veth")
    }
}

/// A receive queue's software steering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RxQueue {
    /// Queue number.
    pub index: u32,
    /// RPS mask; empty means off; `None` where the kernel has no RPS.
    pub rps: Option<CpuSet>,
    /// RFS flow table size of the queue; `None` where the kernel has no RFS.
    pub flow_cnt: Option<u64>,
}

/// A transmit queue's CPU mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxQueue {
    /// Queue number.
    pub index: u32,
    /// XPS mask; `None` where the kernel refuses it (ENOENT with one transmit queue).
    pub xps: Option<CpuSet>,
}

/// What an interrupt line is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum IrqRole {
    /// Receive of one queue.
    Rx,
    /// Transmit completion of one queue.
    Tx,
    /// Receive and transmit of one queue, or the whole device on one line.
    #[default]
    Combined,
    /// Host controller that a USB NIC hangs on.
    Controller,
    /// Link state, configuration, admin queue: no packets.
    Control,
}

impl IrqRole {
    /// Whether packets arrive or complete on it.
    #[must_use]
    pub fn carries_packets(self) -> bool {
        self != Self::Control
    }

    /// Whether received packets arrive on it.
    #[must_use]
    pub fn receives(self) -> bool {
        matches!(self, Self::Rx | Self::Combined | Self::Controller)
    }
}

impl std::fmt::Display for IrqRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
            Self::Combined => "rx+tx",
            Self::Controller => "controller",
            Self::Control => "control",
        })
    }
}

/// Identity of an interrupt line: survives a reboot that renumbers everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct IrqId {
    /// Device name.
    pub device: String,
    /// Queue number; for a device with a single line, 0.
    pub queue: u32,
    /// What it is for.
    pub role: IrqRole,
}

impl std::fmt::Display for IrqId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} queue {} {}", self.device, self.queue, self.role)
    }
}

/// Whether an interrupt line can be moved, as far as is known without writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Movable {
    /// Nothing speaks against it; only a write proves it.
    Presumed,
    /// The kernel manages or refuses it.
    Fixed,
    /// The affinity file is not there or can't be read.
    #[default]
    Unknown,
}

/// An interrupt line of a network device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Irq {
    /// Number in this boot.
    pub line: IrqLine,
    /// Device, queue and role.
    pub id: IrqId,
    /// Action name in /proc/interrupts.
    pub action: String,
    /// Interrupt controller, e.g. `PCI-MSIX-0000:00:03.0`.
    pub chip: String,
    /// Count per online CPU since boot.
    pub counts: Vec<(CpuId, u64)>,
    /// CPUs that it may go to; `None` where it can't be read.
    pub affinity: Option<CpuSet>,
    /// CPUs that it does go to, where the kernel tells.
    pub effective: Option<CpuSet>,
    /// Whether it can be moved.
    pub movable: Movable,
    /// Other devices on the same line.
    pub shared_with: Vec<String>,
    /// How device, queue and role were learnt.
    pub learnt: String,
    /// What is known about moving it beyond [`Movable`], and how.
    pub movable_by: Option<String>,
    /// `edge` or `level`.
    pub trigger: Option<String>,
    /// CPUs that the driver wishes it on.
    pub hint: Option<CpuSet>,
    /// NUMA node of the interrupt.
    pub node: Option<u32>,
}

impl Irq {
    /// The CPUs that take it now: effective where known, else allowed.
    #[must_use]
    pub fn lands_on(&self) -> Option<&CpuSet> {
        self.effective.as_ref().filter(|e| !e.is_empty()).or(self.affinity.as_ref())
    }
}

/// Something that could not be learnt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}
