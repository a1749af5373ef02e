//! Counters beside the load: what each CPU did, what each device moved, and whether the machine
//! stayed the same machine while it was measured.
//!
//! In come a door to the machine, and the names of devices; out go counters at a moment, and their
//! differences. Files are read and none is written.
//!
//! ```text
//!   run     ├─ omit ─┼──── measured window ────┼─ drain ─┤
//!   CPUs             ●─────────────────────────●               /proc/stat, softnet_stat
//!   devices ●────────────────────────────────────────────●     statistics, carrier_changes
//!   clocks  ●────────────────────────────────────────────●     frequency limits, throttle counts
//! ```
//!
//! `/proc/stat` and `softnet_stat` cover the whole machine, whichever namespace reads them; device
//! counters are the router's.

mod health;
mod held;
mod programs;
mod sensors;
mod settings;
mod telemetry;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

pub use health::Health;
pub use held::{Held, NotHeld, Watched};
pub use programs::{Others, Programs};
pub use settings::Settings;
pub use telemetry::{Telemetry, Watch};

use crate::machine::host::{HostError, HostRead, HostResult, clock};
use crate::machine::parse::net_counters::{NetCounters, number};
use crate::machine::parse::softnet::{SoftnetRow, softnet};
use crate::machine::parse::stat::{CpuTicks, TICKS_PER_SECOND, cpu_ticks};
use crate::model::measurement::{CpuUse, DeviceUse};
use crate::model::units::CpuId;

/// Counters of all CPUs at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuCounters {
    at: Duration,
    ticks: BTreeMap<CpuId, CpuTicks>,
    softnet: BTreeMap<CpuId, SoftnetRow>,
}

impl CpuCounters {
    /// Reads them now.
    ///
    /// # Errors
    /// The error of the kernel for `/proc/stat`. A missing `softnet_stat` counts as no packets.
    pub fn read(host: &dyn HostRead) -> HostResult<Self> {
        let at = clock::monotonic();
        let ticks = cpu_ticks(&host.read(Path::new("/proc/stat"))?);
        let rows = match host.read(Path::new("/proc/net/softnet_stat")) {
            Ok(bytes) => softnet(&bytes),
            Err(error) if error.is_absent() => Vec::new(),
            Err(error) => return Err(error),
        };
        // Before kernel 5.10 rows do not name their CPU; they are those of the online CPUs in order,
        // as in /proc/stat.
        let named =
            rows.iter().zip(ticks.iter().map(|t| Some(t.cpu)).chain(std::iter::repeat(None)));
        let softnet = named.filter_map(|(row, nth)| Some((row.cpu.or(nth)?, *row))).collect();
        Ok(Self { at, ticks: ticks.into_iter().map(|t| (t.cpu, t)).collect(), softnet })
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.ticks.len()
    }

    /// Use of each CPU between `before` and this. A CPU that was not online at both ends is left
    /// out.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<CpuUse> {
        let both =
            self.ticks.iter().filter_map(|(cpu, after)| Some((after, before.ticks.get(cpu)?)));
        both.map(|(after, then)| {
            let spent = spent(after, then);
            let total = spent.iter().sum::<u64>().max(1) as f64;
            let [user, system, irq, softirq, idle, steal] = spent.map(|ticks| ticks as f64 / total);
            let (packets, dropped, squeezed) = self.softnet_since(before, after.cpu);
            let cpu = after.cpu;
            CpuUse { cpu, user, system, irq, softirq, idle, steal, packets, dropped, squeezed }
        })
        .collect()
    }

    /// CPU seconds between `before` and this in which any CPU was not idle; time taken by the
    /// hypervisor is not counted.
    #[must_use]
    pub fn busy_seconds_since(&self, before: &Self) -> f64 {
        let both =
            self.ticks.iter().filter_map(|(cpu, after)| Some((after, before.ticks.get(cpu)?)));
        let ticks: u64 = both
            .map(|(after, then)| {
                let [user, system, irq, softirq, ..] = spent(after, then);
                user + system + irq + softirq
            })
            .sum();
        ticks as f64 / TICKS_PER_SECOND
    }

    /// Seconds between the two moments.
    #[must_use]
    pub fn seconds_since(&self, before: &Self) -> f64 {
        self.at.saturating_sub(before.at).as_secs_f64()
    }

    /// Packets that other CPUs passed to `cpu` between `before` and this.
    fn received_rps_since(&self, before: &Self, cpu: CpuId) -> Option<u64> {
        let (now, then) = (self.softnet.get(&cpu)?, before.softnet.get(&cpu)?);
        Some(u64::from(now.received_rps.wrapping_sub(then.received_rps)))
    }

    fn softnet_since(&self, before: &Self, cpu: CpuId) -> (u64, u64, u64) {
        // The kernel's counters are `unsigned int` and wrap.
        let wrapped = |after: u32, before: u32| u64::from(after.wrapping_sub(before));
        match (self.softnet.get(&cpu), before.softnet.get(&cpu)) {
            (Some(a), Some(b)) => (
                wrapped(a.packets, b.packets),
                wrapped(a.dropped, b.dropped),
                wrapped(a.squeezed, b.squeezed),
            ),
            _ => (0, 0, 0),
        }
    }
}

/// User, system, irq, softirq, idle, steal. The kernel's idle time is known to go back by a tick
/// now and then (fs/proc/stat.c, `get_idle_time`): that is no time.
fn spent(after: &CpuTicks, before: &CpuTicks) -> [u64; 6] {
    [
        after.user.saturating_sub(before.user),
        after.system.saturating_sub(before.system),
        after.irq.saturating_sub(before.irq),
        after.softirq.saturating_sub(before.softirq),
        after.idle.saturating_sub(before.idle),
        after.steal.saturating_sub(before.steal),
    ]
}

/// Counters of the router's devices at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    devices: Vec<(String, Device)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Device {
    counters: NetCounters,
    /// Times that the link went up or down; `None` before kernel 3.15.
    carrier_changes: Option<u64>,
    /// Identity: a device made anew under the same name has another.
    ifindex: Option<u64>,
}

/// Difference of the devices' counters between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicesUse {
    /// Per device, in the order asked for.
    pub devices: Vec<DeviceUse>,
    /// Devices whose link changed, or that were made anew or vanished, with what happened.
    pub changed: Vec<String>,
}

impl DeviceCounters {
    /// Reads the counters of `devices` now. One that is not there is left out, and so shows up as
    /// changed when it was there before.
    ///
    /// # Errors
    /// The error of the kernel, other than that the device is absent.
    pub fn read(host: &dyn HostRead, devices: &[&str]) -> HostResult<Self> {
        let mut all = Vec::new();
        for &name in devices {
            match device(host, name) {
                Ok(found) => all.push((name.to_owned(), found)),
                // EINVAL is what a device answers while it is being taken down.
                Err(error) if error.is_absent() || error.errno == rustix::io::Errno::INVAL => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { devices: all })
    }

    /// Difference of the counters between `before` and this.
    #[must_use]
    pub fn since(&self, before: &Self) -> DevicesUse {
        let mut changed = Vec::new();
        let mut devices = Vec::new();
        for (name, then) in &before.devices {
            let Some((_, now)) = self.devices.iter().find(|(n, _)| n == name) else {
                changed.push(format!("{name} vanished"));
                continue;
            };
            let (moved, reset) = now.counters.since(&then.counters);
            if reset || now.ifindex != then.ifindex {
                changed.push(format!("{name} was made anew"));
            } else if let (Some(now), Some(then)) = (now.carrier_changes, then.carrier_changes)
                && now != then
            {
                changed.push(format!("{name}: the link changed {} times", now.abs_diff(then)));
            }
            devices.push(DeviceUse {
                device: name.clone(),
                rx_packets: moved.rx_packets,
                rx_bytes: moved.rx_bytes,
                tx_packets: moved.tx_packets,
                tx_bytes: moved.tx_bytes,
                dropped: moved.rx_dropped + moved.tx_dropped,
            });
        }
        DevicesUse { devices, changed }
    }
}

fn device(host: &dyn HostRead, name: &str) -> HostResult<Device> {
    let dir = Path::new("/sys/class/net").join(name);
    let mut values = [0; 6];
    for (value, file) in values.iter_mut().zip(NetCounters::FILES) {
        let path = dir.join("statistics").join(file);
        *value = number(&host.read(&path)?)
            .ok_or_else(|| HostError::new("read", &path, rustix::io::Errno::IO))?;
    }
    let optional = |file: &str| host.read(&dir.join(file)).ok().and_then(|bytes| number(&bytes));
    Ok(Device {
        counters: NetCounters::from_files(values),
        carrier_changes: optional("carrier_changes"),
        ifindex: optional("ifindex"),
    })
}

#[cfg(test)]
mod tests;
