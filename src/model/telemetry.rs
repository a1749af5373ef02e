//! Telemetry of a router in one interval of time: rates, each absent where it is not known.

#[cfg(feature = "top")]
use serde::Deserialize;
use serde::Serialize;

use super::units::CpuId;

/// All rates of one interval. Lists keep their order and length from one interval to the next.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct Interval {
    /// Wall time at the end, RFC 3339 in UTC; routers without a clock tell nonsense here.
    pub utc: String,
    /// Seconds from the start of the recording to the end of this interval (CLOCK_MONOTONIC).
    pub at: f64,
    /// Length of this interval in seconds: what the rates are divided by.
    pub seconds: f64,
    /// Per CPU.
    pub cpus: Vec<CpuRates>,
    /// Per network device.
    pub devices: Vec<DeviceRates>,
    /// Per network interrupt.
    pub irqs: Vec<IrqRates>,
    /// Frequencies, temperatures and power, at the end of the interval.
    pub sensors: Vec<Sensor>,
    /// Bottleneck of the machine during the interval, in words; empty when nothing is known to.
    pub throttled: Vec<String>,
    /// Packets of each queue, where that was asked for and the driver counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueRates>,
    /// Facts that stand for longer than an interval; absent where they are those of the interval before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Box<Standing>>,
}

/// One CPU; everything absent while it is offline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct CpuRates {
    /// Which CPU.
    pub cpu: CpuId,
    /// Share of time in user space, 0 to 1.
    pub user: Option<f64>,
    /// Share in the kernel on behalf of a process.
    pub system: Option<f64>,
    /// Share in hard interrupts.
    pub irq: Option<f64>,
    /// Share in soft interrupts.
    pub softirq: Option<f64>,
    /// Share idle.
    pub idle: Option<f64>,
    /// NET_RX softirqs per second.
    pub net_rx: Option<f64>,
    /// NET_TX softirqs per second.
    pub net_tx: Option<f64>,
    /// Packets per second through its softnet queue.
    pub packets: Option<f64>,
    /// Packets dropped from its backlog, per second.
    pub dropped: Option<f64>,
    /// Polls per second that ended with work left.
    pub squeezed: Option<f64>,
    /// Packets per second that arrived from other CPUs by RPS.
    pub received_rps: Option<f64>,
}

/// One device; everything absent while it is not there, and for the interval in which it was made
/// anew.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct DeviceRates {
    /// Device name.
    pub device: String,
    /// Bits per second received, link-layer header included.
    pub rx_bits: Option<f64>,
    /// Packets per second received.
    pub rx_packets: Option<f64>,
    /// Bits per second sent.
    pub tx_bits: Option<f64>,
    /// Packets per second sent.
    pub tx_packets: Option<f64>,
    /// Packets per second dropped, both ways.
    pub dropped: Option<f64>,
}

/// One interrupt line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct IrqRates {
    /// Name in /proc/interrupts; it stays when the number does not.
    pub irq: String,
    /// Interrupts per second on all CPUs; absent while the line is not there.
    pub total: Option<f64>,
    /// Interrupts per second on each CPU that took any.
    pub by_cpu: Vec<(CpuId, f64)>,
}

/// A reading that is no rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct Sensor {
    /// Name of the sensor: `policy0 MHz`, `thermal_zone0 cpu C`, `hwmon0 ina219 power1 W`.
    pub name: String,
    /// Value; absent while it can't be read.
    pub value: Option<f64>,
}

/// Packets of one queue of a device, by its driver's own count.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct QueueRates {
    /// Device name.
    pub device: String,
    /// Queue number.
    pub queue: u32,
    /// Packets per second received.
    pub rx_packets: Option<f64>,
    /// Packets per second sent.
    pub tx_packets: Option<f64>,
}

/// Facts beside the rates, which are looked at less often: who serves what, what was set, what is lost.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct Standing {
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Links of the network devices.
    pub links: Vec<Link>,
    /// Queues that each CPU serves, by CPU, device and queue.
    pub serves: Vec<Serves>,
    /// Names of the changes in force, the oldest first.
    pub applied: Vec<String>,
    /// Name of the plan that is persisted.
    pub persisted: Option<String>,
    /// Settings that are no longer as they were left.
    pub drift: Vec<Drift>,
    /// Packets lost, the most frequent first, over the last few intervals.
    pub losses: Vec<Loss>,
}

/// The link of a network device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct Link {
    /// Device name.
    pub device: String,
    /// Speed in bit/s, where the device states it.
    pub speed: Option<f64>,
    /// Operational state: `up`, `down`, `unknown`.
    pub state: String,
}

/// A CPU that handles the packets of a receive queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct Serves {
    /// CPU.
    pub cpu: CpuId,
    /// Device name.
    pub device: String,
    /// Receive queue.
    pub queue: u32,
    /// Way by which the packets get there.
    pub by: Way,
    /// Name of the interrupt line in /proc/interrupts, for [`Way::Irq`].
    pub irq: Option<String>,
}

/// Way by which packets of a queue get to a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The queue's interrupt.
    Irq,
    /// A thread of NAPI.
    Thread,
    /// A hand-off by RPS.
    Rps,
}

/// A setting that is not as it was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct Drift {
    /// Name of the setting.
    pub setting: String,
    /// Value that it was left with.
    pub wanted: String,
    /// Value that it has; absent where it can't be read.
    pub is: Option<String>,
}

/// Packets lost at one counter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "top", derive(Deserialize))]
pub struct Loss {
    /// Stage of the packet's way, in words.
    pub stage: String,
    /// Device, CPU, rule, queue or table; empty for the whole namespace.
    pub place: String,
    /// Name of the counter.
    pub counter: String,
    /// Packets per second.
    pub per_second: f64,
}
