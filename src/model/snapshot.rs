//! A router at one moment: CPUs, devices with their queues, and interrupts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::capacity::Capacity;
use super::cpuset::CpuSet;
use super::evidence::Evidence;
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
    /// Facts that could not be learnt, each with the reason.
    pub gaps: Vec<Gap>,
    /// CPU numbers that the kernel keeps room for, including those without a CPU.
    pub possible: CpuSet,
    /// Layers of devices, from each device that bears an IP address down to the ports.
    pub stack: Vec<Layer>,
    /// Settings, rules and counters that a forwarded packet meets.
    pub path: ForwardPath,
    /// Preemption, tick, crypto.
    pub kernel: KernelFacts,
    /// Programs and scripts that set what this program sets too.
    pub services: Vec<Service>,
    /// Wi-Fi radios, by name of their phy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub radios: Vec<Radio>,
    /// Counters that show where the work is; `None` in snapshots of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
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

/// Identity of the machine: kernel, architecture and board.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub hostname: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// Board or product name, where the device tree or DMI states it.
    pub board: Option<String>,
    /// `PRETTY_NAME` of os-release.
    pub os: Option<String>,
    /// CPU model name, where /proc/cpuinfo states it.
    pub cpu_model: Option<String>,
    /// Hypervisor, where one shows itself.
    pub virtualisation: Option<String>,
    /// First 16 hex digits of a hash of /etc/machine-id (never the id itself); `None` without one.
    pub id: Option<String>,
    /// True if the kernel accounts softirq time exactly (CONFIG_IRQ_TIME_ACCOUNTING); `None` when
    /// the kernel's configuration can't be read. Without it softirq time is sampled by the tick.
    pub irq_time_accounting: Option<bool>,
    /// `compatible` of the device tree, most specific first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compatible: Vec<String>,
    /// Facts about this board beyond those that its kernel reports: `boards/<name>.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board_facts: Option<BoardFacts>,
}

impl Machine {
    /// True if its chip has a packet engine that a flowtable can use (MediaTek's mtk_ppe, from MT7621
    /// on).
    #[must_use]
    pub fn has_packet_engine(&self) -> bool {
        let names = [
            "mediatek,mt7621-soc",
            "mediatek,mt7621",
            "mediatek,mt7622",
            "mediatek,mt7986a",
            "mediatek,mt7986b",
            "mediatek,mt7986",
            "mediatek,mt7981",
            "mediatek,mt7981b",
            "mediatek,mt7988a",
            "mediatek,mt7988",
        ];
        self.compatible.iter().flat_map(|c| c.split_whitespace()).any(|c| names.contains(&c))
    }
}

/// Facts about a board, from a board file; each is someone's observation, and the kernel's own
/// facts win over them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BoardFacts {
    /// Name of the file without `.toml`.
    pub name: String,
    /// Path of the file: `boards/<name>.toml`, compiled in, or a path of this machine.
    pub file: String,
    /// The board or system on chip in words.
    pub title: String,
    /// Work per cycle by CPU number (`capacity-dmips-mhz` of the kernel's device tree), for
    /// kernels that state no capacity.
    pub per_cycle: Vec<u32>,
    /// Interrupt controllers (their names in /proc/interrupts) whose lines can't be moved.
    pub fixed_chips: Vec<String>,
    /// Notes for people.
    pub notes: Vec<String>,
    /// Nanoseconds that forwarding a packet with NAT takes at most in the stack of a CPU of capacity
    /// 1024, where somebody measured how much this board forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_ns: Option<f64>,
    /// True if packet steering was measured to make the board slower.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub steering_hurts: bool,
    /// True if software flow offload was measured to make it faster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offload_helps: bool,
    /// Source of the facts.
    pub source: String,
}

/// One logical CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Number of the CPU.
    pub id: CpuId,
    /// True if the CPU is online.
    pub online: bool,
    /// True if the CPU is isolated from scheduling or ticks (`isolated`, `nohz_full`).
    pub isolated: bool,
    /// Files that list the CPU as isolated: `/sys/devices/system/cpu/isolated` (`isolcpus=`) and
    /// `nohz_full`, or a cpuset's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub isolated_by: Vec<String>,
    /// Capacity of the CPU, and the source of that figure.
    pub capacity: Capacity,
    /// Highest frequency in kHz (`cpuinfo_max_freq`).
    pub max_khz: Option<u64>,
    /// SMT siblings, the CPU itself included.
    pub siblings: CpuSet,
    /// CPUs of the same cluster or package, the CPU itself included.
    pub cluster: CpuSet,
    /// Frequency policy that governs the CPU.
    pub governor: Option<Governor>,
    /// True if the tick stops on the CPU (`nohz_full`); it then counts as isolated too.
    pub nohz_full: bool,
    /// True if RCU callbacks are taken off the CPU (`rcu_nocbs`).
    pub rcu_nocb: bool,
    /// Type of the core, e.g. `Cortex-A72`, `P-core`, `E-core`.
    pub core_type: Option<String>,
    /// Core number; unique within its cluster and package only.
    pub core: Option<i32>,
    /// Package number; -1 where the firmware states none.
    pub package: Option<i32>,
    /// Die number within the package.
    pub die: Option<i32>,
    /// NUMA node.
    pub node: Option<u32>,
    /// CPUs that share the level 2 cache, the CPU itself included; empty where the kernel reports
    /// none.
    pub l2: CpuSet,
    /// CPUs that share the level 3 cache, the CPU itself included; empty where the kernel reports
    /// none.
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
    /// Governors that can be chosen.
    pub available: Vec<String>,
}

/// Hardware that a device is attached to.
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
    /// Kind of a device that is not a plain one: rtnetlink's link kind (`veth`, `vlan`, `bridge`,
    /// `wireguard`), else the `DEVTYPE` of its uevent (`wlan`, `dsa`).
    pub kind: Option<String>,
    /// Driver name; `None` for virtual devices that report none.
    pub driver: Option<String>,
    /// Hardware that the device is attached to.
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
    /// True if NAPI runs in threads; `None` where the kernel has no such setting.
    pub threaded: Option<bool>,
    /// Offload features; `None` where they could not be read.
    pub features: Option<Features>,
    /// Queueing disciplines; empty where they could not be read.
    pub qdiscs: Vec<Qdisc>,
    /// Channels, rings, coalescing, RSS, pause, firmware.
    pub settings: NicSettings,
    /// NAPI instances, where the kernel reports them (6.8 and later).
    pub napis: Vec<Napi>,
    /// Threads of NAPI by process id, from the names `napi/<device>-<id>`.
    pub napi_threads: Vec<u32>,
    /// CPUs that those NAPI threads may run on, by process id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub napi_thread_cpus: BTreeMap<u32, CpuSet>,
    /// Number of empty polls for which hard interrupts stay put off (`napi_defer_hard_irqs`).
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
    /// Switch that the device is a port of (`phys_switch_id`).
    pub switch: Option<String>,
    /// Name of the port on its switch or card (`phys_port_name`).
    pub port: Option<String>,
    /// Device that the packets of a DSA user port go through.
    pub conduit: Option<String>,
    /// Device under a PPPoE session.
    pub pppoe_over: Option<String>,
    /// Receive queues that packets really arrive on; `None` where nothing is known against any of
    /// [`Self::rx_queues`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiving: Option<Receiving>,
    /// Tag on the packets of a DSA switch's conduit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<SwitchTag>,
    /// Name of the phy of a Wi-Fi device's radio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radio: Option<String>,
    /// Device through which received packets are sent first: the ifb device that a shaper of the
    /// download stands on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_to: Option<String>,
}

/// Receive queues of a device that packets really arrive on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Receiving {
    /// Queue numbers, ascending.
    pub queues: Vec<u32>,
    /// Source of that knowledge, in words.
    pub by: String,
}

/// The tag that a switch puts on every packet of a conduit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchTag {
    /// Name of the tagging protocol (`/sys/class/net/<conduit>/dsa/tagging`).
    pub protocol: String,
    /// True if the conduit's hash sees the flow behind the tag; `None` where that is not known.
    pub hashed: Option<bool>,
    /// Source of that knowledge, in words.
    pub by: String,
}

impl NetDev {
    /// True if packets enter the machine here (a physical or emulated NIC), rather than through
    /// another device of the same machine.
    #[must_use]
    pub fn is_hardware(&self) -> bool {
        self.bus != Bus::Virtual
    }

    /// True if the device is one end of a veth pair.
    #[must_use]
    pub fn is_veth(&self) -> bool {
        self.kind.as_deref() == Some("veth")
    }
}

/// Software steering of a receive queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RxQueue {
    /// Queue number.
    pub index: u32,
    /// RPS mask; empty means off; `None` where the kernel has no RPS.
    pub rps: Option<CpuSet>,
    /// RFS flow table size of the queue; `None` where the kernel has no RFS.
    pub flow_cnt: Option<u64>,
}

/// CPU mapping of a transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxQueue {
    /// Queue number.
    pub index: u32,
    /// XPS mask; `None` where the kernel refuses it (ENOENT with one transmit queue).
    pub xps: Option<CpuSet>,
}

/// Purpose of an interrupt line.
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
    /// True if packets arrive or complete on a line of this role.
    #[must_use]
    pub fn carries_packets(self) -> bool {
        self != Self::Control
    }

    /// True if received packets arrive on a line of this role.
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
    /// Purpose of the line.
    pub role: IrqRole,
}

impl std::fmt::Display for IrqId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} queue {} {}", self.device, self.queue, self.role)
    }
}

/// Prospect of moving an interrupt line, as far as it is known without writing.
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

/// Wi-Fi radio: the hardware that its network devices share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Radio {
    /// Name of its phy (`phy0`).
    pub name: String,
    /// Driver of the card, e.g. `mt7996e`, `ath10k_ahb`.
    pub driver: Option<String>,
    /// Name of the card's device on the bus. Radios of one card share lines and threads.
    pub card: String,
    /// Network devices of the radio.
    pub devices: Vec<String>,
    /// Interrupt lines of the card that carry packets.
    pub lines: Vec<IrqLine>,
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
    /// CPUs that the interrupt does go to, where the kernel reports them.
    pub effective: Option<CpuSet>,
    /// Prospect of moving the line.
    pub movable: Movable,
    /// Other devices on the same line.
    pub shared_with: Vec<String>,
    /// Source from which device, queue and role were learnt.
    pub learnt: String,
    /// Further facts about moving the line beyond [`Movable`], with their source.
    pub movable_by: Option<String>,
    /// `edge` or `level`.
    pub trigger: Option<String>,
    /// CPUs that the driver wishes it on.
    pub hint: Option<CpuSet>,
    /// NUMA node of the interrupt.
    pub node: Option<u32>,
    /// Receive queues of its device whose packets arrive on it, ascending, where more is known than
    /// the one of [`Irq::id`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rx: Vec<u32>,
    /// Transmit queues of its device that complete on it, in the same way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tx: Vec<u32>,
}

/// True if a line that may go to `allowed` is still where it was before that was said: it was idle since,
/// and its next interrupt moves it (kernel/irq/migration.c). A plan is in force for it all the same.
#[must_use]
pub fn moves_next(allowed: &CpuSet, effective: &CpuSet) -> bool {
    !effective.is_subset(allowed)
}

impl Irq {
    /// The CPUs that take it now: effective where known and not left behind ([`moves_next`]), else
    /// allowed.
    #[must_use]
    pub fn lands_on(&self) -> Option<&CpuSet> {
        let current = |e: &&CpuSet| {
            !e.is_empty() && self.affinity.as_ref().is_none_or(|set| !moves_next(set, e))
        };
        self.effective.as_ref().filter(current).or(self.affinity.as_ref())
    }

    /// True if packets of that receive queue of the line's device arrive on it.
    #[must_use]
    pub fn receives(&self, queue: u32) -> bool {
        match self.rx.as_slice() {
            [] => self.id.role.receives() && self.id.queue == queue,
            queues => queues.contains(&queue),
        }
    }
}

/// Fact that could not be learnt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Name of the fact.
    pub what: String,
    /// Reason why it could not be learnt.
    pub why: String,
}
