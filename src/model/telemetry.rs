//! Telemetry of a router in one interval of time: rates, each absent where it is not known.

use serde::Serialize;

use super::units::CpuId;

/// All rates of one interval. Lists keep their order and length from one interval to the next.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
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
}

/// One CPU; everything absent while it is offline.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
pub struct Sensor {
    /// Name of the sensor: `policy0 MHz`, `thermal_zone0 cpu C`, `hwmon0 ina219 power1 W`.
    pub name: String,
    /// Value; absent while it can't be read.
    pub value: Option<f64>,
}
