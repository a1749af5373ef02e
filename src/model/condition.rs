//! The condition that a machine is in beside its settings: heat, frequencies, power, buses, tracing,
//! counters. What can't be read is absent.

use std::collections::BTreeMap;

use super::kconfig::KernelConfig;
use super::nic::Numbers;

/// All of it, at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Condition {
    /// Seconds since boot.
    pub uptime: Option<f64>,
    /// Per network device.
    pub devices: BTreeMap<String, DeviceCondition>,
    /// Frequency policies, by name.
    pub policies: BTreeMap<String, Policy>,
    /// Cooling devices that slow CPUs down, by name (`cooling_device0 cpufreq-cpu0`), and the steps
    /// that each is at.
    pub cooling: BTreeMap<String, u64>,
    /// Temperatures in thousandths of a degree Celsius, by zone and type.
    pub zones: BTreeMap<String, i64>,
    /// Times that CPUs were throttled for heat since boot (x86), summed over CPUs.
    pub throttled: Option<u64>,
    /// The file of the Raspberry Pi's alarm for low supply voltage, and whether it is raised.
    pub under_voltage: Option<(String, bool)>,
    /// Function and event tracing.
    pub tracing: Option<Tracing>,
    /// The running kernel's configuration; the snapshot says where it was read.
    pub kernel: Option<KernelConfig>,
    /// Counters of IPv4 of the namespace since boot (`/proc/net/snmp`; `IPReversePathFilter` of
    /// `/proc/net/netstat`).
    pub ip: Numbers,
    /// Counters of connection tracking of the namespace since boot (`/proc/net/stat/nf_conntrack`).
    pub conntrack: Numbers,
    /// Settings of sockets, as text by sysctl name.
    pub sockets: BTreeMap<String, String>,
    /// Clock that the kernel reads the time from, e.g. `tsc`.
    pub clocksource: Option<String>,
    /// Clocks that it could take.
    pub clocksources: Vec<String>,
    /// Ticks since boot that programs and the kernel ran, and ticks that a hypervisor gave to others
    /// meanwhile (`/proc/stat`).
    pub stolen: Option<(u64, u64)>,
    /// Routes of IPv6 that the kernel holds, cached ones included, and the most it takes.
    pub routes6: Option<(u64, u64)>,
    /// Interface indices that packet sockets for all protocols are bound to, 0 for all devices; `None`
    /// where they can't be read.
    pub taps: Option<Vec<u32>>,
    /// Tables of neighbours.
    pub neighbours: Option<Neighbours>,
    /// True if OpenWrt's firewall clamps the segment size towards the WAN (`mtu_fix`), by zone.
    pub mtu_fix: BTreeMap<String, bool>,
}

/// The tables of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Neighbours {
    /// Times that an entry found no room since boot, of IPv4 and IPv6.
    pub overflows: u64,
    /// Entries of IPv4's table, those of all namespaces.
    pub entries: Option<u64>,
    /// Most entries that IPv4's takes (`gc_thresh3`).
    pub most: Option<u64>,
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceCondition {
    /// Packets received since it was made.
    pub rx_packets: Option<u64>,
    /// Packets sent since it was made.
    pub tx_packets: Option<u64>,
    /// Times that the link came or went since the device was made.
    pub carrier_changes: Option<u64>,
    /// Packets that may wait to be sent, for queueing disciplines that have no limit of their own
    /// (`tx_queue_len`).
    pub tx_queue_len: Option<u64>,
    /// Times that a transmit queue hung since the device was made (`tx_timeout`), summed over queues.
    pub tx_timeouts: Option<u64>,
    /// Mode (`802.3ad`) of a bond, and how it chooses the port to send by (`layer2`).
    pub bond: Option<(String, String)>,
    /// Type of its IOMMU group: `DMA` (strict), `DMA-FQ` (lazy), `identity`.
    pub iommu: Option<String>,
    /// PCIe link.
    pub pcie: Option<PcieLink>,
    /// USB connection.
    pub usb: Option<UsbLink>,
}

/// A PCIe link: lanes, and each lane's rate in tenths of GT/s.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PcieLink {
    /// The device's directory.
    pub place: String,
    /// Tenths of GT/s now.
    pub speed: u32,
    /// Lanes now.
    pub width: u32,
    /// Tenths of GT/s that the device can do.
    pub speed_max: Option<u32>,
    /// Lanes that the device has.
    pub width_max: Option<u32>,
    /// True if the link may sleep in state L1 (ASPM); `None` where the kernel does not tell.
    pub sleeps: Option<bool>,
}

impl PcieLink {
    /// Mbit/s of data that the link carries, before the headers of its packets: 8 of 10 bits up to
    /// 5 GT/s, 128 of 130 above (PCI Express base specification).
    #[must_use]
    pub fn megabits(&self) -> u64 {
        let raw = u64::from(self.speed) * 100 * u64::from(self.width);
        if self.speed <= 50 { raw * 8 / 10 } else { raw * 128 / 130 }
    }
}

/// A USB connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsbLink {
    /// The USB device's directory.
    pub place: String,
    /// Mbit/s as negotiated.
    pub megabits: u32,
    /// The device's USB version, e.g. `3.00`.
    pub version: Option<String>,
}

/// A frequency policy. Frequencies are in kHz.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The driver, e.g. `cpufreq-dt`.
    pub driver: Option<String>,
    /// The governor.
    pub governor: Option<String>,
    /// The frequency that a program asked for, under the governor `userspace`.
    pub asked: Option<u64>,
    /// CPUs of the policy, as the kernel lists them.
    pub cpus: String,
    /// Lowest allowed.
    pub min: Option<u64>,
    /// Highest allowed.
    pub max: Option<u64>,
    /// Lowest that the hardware can.
    pub hardware_min: Option<u64>,
    /// Highest that the hardware can.
    pub hardware_max: Option<u64>,
}

/// The traced events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tracing {
    /// The directory of tracefs.
    pub place: String,
    /// `nop` when no tracer runs.
    pub tracer: String,
    /// True if the ring buffer takes entries.
    pub on: bool,
    /// True if any event is enabled: all (`1`) or some (`X`).
    pub events: bool,
}
