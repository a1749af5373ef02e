//! Telemetry of the router, interval after interval. Only the last reading is kept, so an hour
//! costs no more memory than a second.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::sensors::Sensors;
use super::{CpuCounters, Device, Health, device};
use crate::machine::host::{HostRead, HostResult, Query, clock, query_as};
use crate::machine::parse::interrupts::interrupts;
use crate::machine::parse::softirqs::{NetSoftirqs, net_softirqs};
use crate::model::evidence::QueueMoved;
use crate::model::measurement::CpuUse;
use crate::model::order::InOrder;
use crate::model::order::OneByOne;
use crate::model::snapshot::Snapshot;
use crate::model::telemetry::{CpuRates, DeviceRates, Interval, IrqRates, QueueRates};
use crate::model::units::{CpuId, IrqLine};

/// CPUs, devices and interrupt lines that are recorded.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// CPUs, online or not.
    pub cpus: Vec<CpuId>,
    /// Network devices.
    pub devices: Vec<String>,
    /// Interrupt lines with their names in /proc/interrupts. A name that is the only one of its
    /// kind is followed when its number changes.
    pub irqs: Vec<(IrqLine, String)>,
    /// True if the drivers are asked for the packets of each queue as well.
    pub queues: bool,
}

impl Watch {
    /// All of a machine, or the devices of those names.
    #[must_use]
    pub fn of(snapshot: &Snapshot, wanted: &[String]) -> Self {
        let asked = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let devices = snapshot.netdevs.iter().map(|d| d.name.clone()).filter(|name| asked(name));
        let mut irqs: Vec<_> = snapshot
            .irqs
            .iter()
            .filter(|irq| asked(&irq.id.device) || irq.shared_with.iter().any(|name| asked(name)))
            .map(|irq| (irq.line, irq.action.clone()))
            .collect();
        irqs.order_by(Ord::cmp);
        irqs.dedup();
        Self {
            cpus: snapshot.cpus.iter().map(|cpu| cpu.id).collect(),
            devices: devices.collect(),
            irqs,
            queues: false,
        }
    }
}

/// A recording that goes on.
pub struct Telemetry<'a> {
    host: &'a dyn HostRead,
    watch: Watch,
    sensors: Sensors,
    start: Duration,
    last: Reading,
}

struct Reading {
    at: Duration,
    cpus: CpuCounters,
    softirqs: BTreeMap<CpuId, NetSoftirqs>,
    devices: Vec<Option<Device>>,
    irqs: Vec<Option<BTreeMap<CpuId, u64>>>,
    health: Health,
    queues: QueueCounts,
}

/// Packets received and sent, by device and queue.
type QueueCounts = BTreeMap<(String, u32), (Option<u64>, Option<u64>)>;

impl<'a> Telemetry<'a> {
    /// Takes the first reading.
    ///
    /// # Errors
    /// The error of the kernel for `/proc/stat`. Anything else that is missing is absent in the
    /// intervals.
    pub fn start(host: &'a dyn HostRead, watch: Watch) -> HostResult<Self> {
        let sensors = Sensors::find(host);
        let last = Reading::take(host, &watch)?;
        Ok(Self { host, watch, sensors, start: last.at, last })
    }

    /// Watches something else from here on. Rates of what was watched before go on, those of what is new
    /// begin with the interval after the next.
    pub fn follow(&mut self, watch: Watch) {
        let (before, last) = (&self.watch, &mut self.last);
        let mut devices: BTreeMap<_, _> = before.devices.iter().zip(&last.devices).collect();
        let devices = watch.devices.iter().map(|name| devices.remove(name).copied().flatten());
        let devices = devices.collect();
        let mut irqs: BTreeMap<_, _> =
            before.irqs.iter().zip(std::mem::take(&mut last.irqs)).collect();
        last.irqs = watch.irqs.iter().map(|line| irqs.remove(line).flatten()).collect();
        last.devices = devices;
        self.watch = watch;
    }

    /// Asks the drivers for the packets of each queue, or no longer.
    pub fn ask_queues(&mut self, on: bool) {
        self.watch.queues = on;
    }

    /// Interval since the last call, or since the start.
    ///
    /// # Errors
    /// As [`Telemetry::start`].
    pub fn advance(&mut self) -> HostResult<Interval> {
        let now = Reading::take(self.host, &self.watch)?;
        let mut interval = now.since(&self.last, &self.watch);
        interval.utc = clock::wall();
        interval.at = now.at.saturating_sub(self.start).as_secs_f64();
        interval.sensors = self.sensors.read(self.host);
        self.last = now;
        Ok(interval)
    }
}

impl Reading {
    fn take(host: &dyn HostRead, watch: &Watch) -> HostResult<Self> {
        let cpus = CpuCounters::read(host)?;
        let softirqs = host.read(Path::new("/proc/softirqs")).unwrap_or_default();
        Ok(Self {
            at: clock::monotonic(),
            cpus,
            softirqs: net_softirqs(&softirqs).into_iter().map(|row| (row.cpu, row)).collect(),
            devices: watch.devices.iter().map(|name| device(host, name).ok()).collect(),
            irqs: irqs(host, watch),
            health: Health::read(host),
            queues: queues(host, watch),
        })
    }

    fn since(&self, before: &Self, watch: &Watch) -> Interval {
        let seconds = self.at.saturating_sub(before.at).as_secs_f64();
        let per_second = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        let used: BTreeMap<CpuId, CpuUse> =
            self.cpus.since(&before.cpus).into_iter().map(|used| (used.cpu, used)).one_by_one();
        let cpu = |cpu: &CpuId| {
            let used = used.get(cpu);
            let share = |of: fn(&CpuUse) -> f64| used.map(of);
            let rate = |of: fn(&CpuUse) -> u64| used.and_then(|used| per_second(of(used)));
            let softirqs = |of: fn(&NetSoftirqs) -> u32| {
                let (now, then) = (self.softirqs.get(cpu)?, before.softirqs.get(cpu)?);
                used.and_then(|_| per_second(u64::from(of(now).wrapping_sub(of(then)))))
            };
            CpuRates {
                cpu: *cpu,
                user: share(|u| u.user),
                system: share(|u| u.system),
                irq: share(|u| u.irq),
                softirq: share(|u| u.softirq),
                idle: share(|u| u.idle),
                net_rx: softirqs(|s| s.rx),
                net_tx: softirqs(|s| s.tx),
                packets: rate(|u| u.packets),
                dropped: rate(|u| u.dropped),
                squeezed: rate(|u| u.squeezed),
                received_rps: used
                    .and_then(|_| per_second(self.cpus.received_rps_since(&before.cpus, *cpu)?)),
            }
        };
        let devices = watch.devices.iter().zip(self.devices.iter().zip(&before.devices));
        let irqs = watch.irqs.iter().zip(self.irqs.iter().zip(&before.irqs));
        Interval {
            seconds,
            cpus: watch.cpus.iter().map(cpu).collect(),
            devices: devices
                .map(|(name, (now, then))| device_rates(name, *now, *then, per_second))
                .collect(),
            irqs: irqs
                .map(|((_, name), (now, then))| irq_rates(name, now, then, per_second))
                .collect(),
            throttled: self.health.throttled_since(&before.health),
            queues: self.queue_rates(before, per_second),
            ..Interval::default()
        }
    }

    fn queue_rates(
        &self,
        before: &Self,
        per_second: impl Fn(u64) -> Option<f64>,
    ) -> Vec<QueueRates> {
        let rate = |now: Option<u64>, then: Option<u64>| per_second(now?.checked_sub(then?)?);
        let rates = self.queues.iter().map(|((device, queue), (rx, tx))| {
            let then = before.queues.get(&(device.clone(), *queue));
            let (rx_then, tx_then) = then.copied().unwrap_or_default();
            QueueRates {
                device: device.clone(),
                queue: *queue,
                rx_packets: rate(*rx, rx_then),
                tx_packets: rate(*tx, tx_then),
            }
        });
        rates.collect()
    }
}

/// Packets of each queue as the drivers count them; empty unless they are asked for.
fn queues(host: &dyn HostRead, watch: &Watch) -> QueueCounts {
    let asked = watch.devices.iter().filter(|_| watch.queues);
    let of = |name: &String| {
        let told: Option<Vec<QueueMoved>> =
            query_as(host, &Query::QueueCounters(name.clone())).ok();
        let name = name.clone();
        told.into_iter().flatten().map(move |q| ((name.clone(), q.index), (q.rx, q.tx)))
    };
    asked.flat_map(of).collect()
}

fn device_rates(
    name: &str,
    now: Option<Device>,
    then: Option<Device>,
    per_second: impl Fn(u64) -> Option<f64>,
) -> DeviceRates {
    let moved = now.zip(then).and_then(|(now, then)| {
        let (moved, reset) = now.counters.since(&then.counters);
        (!reset && now.ifindex == then.ifindex).then_some(moved)
    });
    let rate = |count: Option<u64>| count.and_then(&per_second);
    DeviceRates {
        device: name.to_owned(),
        rx_bits: rate(moved.map(|m| m.rx_bytes.saturating_mul(8))),
        rx_packets: rate(moved.map(|m| m.rx_packets)),
        tx_bits: rate(moved.map(|m| m.tx_bytes.saturating_mul(8))),
        tx_packets: rate(moved.map(|m| m.tx_packets)),
        dropped: rate(moved.map(|m| m.rx_dropped.saturating_add(m.tx_dropped))),
    }
}

fn irq_rates(
    name: &str,
    now: &Option<BTreeMap<CpuId, u64>>,
    then: &Option<BTreeMap<CpuId, u64>>,
    per_second: impl Fn(u64) -> Option<f64>,
) -> IrqRates {
    let mut by_cpu = Vec::new();
    let mut total = None;
    if let (Some(now), Some(then)) = (now, then) {
        let mut sum = 0_u64;
        for (cpu, count) in now {
            let before = then.get(cpu).copied().unwrap_or(*count);
            // `unsigned int` in the kernel (struct irq_desc kstat_irqs): wraps at 2^32. A line that
            // was taken down and asked for again starts from 0 and looks like a wrap by far too
            // much; no line takes 2^31 interrupts between two readings.
            let moved = (*count as u32).wrapping_sub(before as u32);
            let moved = if moved >= 1 << 31 { 0 } else { u64::from(moved) };
            sum += moved;
            if moved > 0 {
                by_cpu.extend(per_second(moved).map(|rate| (*cpu, rate)));
            }
        }
        total = per_second(sum);
    }
    IrqRates { irq: name.to_owned(), total, by_cpu }
}

/// The counts of each watched line; `None` for one that is not there.
fn irqs(host: &dyn HostRead, watch: &Watch) -> Vec<Option<BTreeMap<CpuId, u64>>> {
    if watch.irqs.is_empty() {
        return Vec::new();
    }
    let bytes = host.read(Path::new("/proc/interrupts")).unwrap_or_default();
    let table = interrupts(&bytes);
    let named = |name: &str| {
        let mut rows = table.rows.iter().filter(|row| row.actions.join(", ") == name);
        rows.next().filter(|_| rows.next().is_none())
    };
    let counts = |(line, name): &(IrqLine, String)| {
        let by_number =
            table.rows.iter().find(|row| row.line == *line && row.actions.join(", ") == *name);
        let row = by_number.or_else(|| named(name))?;
        Some(table.cpus.iter().copied().zip(row.counts(table.cpus.len())).collect())
    };
    watch.irqs.iter().map(counts).collect()
}
