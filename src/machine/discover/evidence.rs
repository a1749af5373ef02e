//! Places where the work is done: counters since boot, and the same for a sample of live traffic.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{net_file, number, queues, text};
use crate::machine::host::{HostRead, Query, clock, query_as};
use crate::machine::parse::interrupts::interrupts;
use crate::machine::parse::stat::{TICKS_PER_SECOND, cpu_ticks};
use crate::machine::parse::{net_dev, task};
use crate::model::evidence::{CpuTime, Evidence, Moved, Poller, QueueMoved, Window};
use crate::model::path::SoftnetCpu;
use crate::model::snapshot::{Irq, NetDev, Snapshot};
use crate::model::units::{CpuId, IrqLine};

/// Counters since boot of everything that discovery has found already.
pub(super) fn since_boot(
    host: &dyn HostRead,
    netdevs: &[NetDev],
    irqs: &[Irq],
    softnet: &[SoftnetCpu],
    pollers: Vec<Poller>,
) -> Evidence {
    let lines = irqs.iter().map(|irq| (irq.line, taken(irq.counts.iter().copied()))).collect();
    counters(host, netdevs, lines, softnet.to_vec(), pollers)
}

/// Counters as they are now, of the devices, lines and threads that `snapshot` holds. Two of them,
/// some seconds apart, are a sample ([`Evidence::difference`]).
#[must_use]
pub fn look(host: &dyn HostRead, snapshot: &Snapshot) -> Evidence {
    let bytes = host.read(Path::new("/proc/interrupts")).unwrap_or_default();
    let table = interrupts(&bytes);
    let rows: HashMap<IrqLine, _> = table.rows.iter().map(|row| (row.line, row)).collect();
    let lines = snapshot.irqs.iter().filter_map(|irq| {
        // A number that another line has taken over is not the same line.
        let row = rows.get(&irq.line).filter(|row| row.actions.contains(&irq.action))?;
        let counts = row.counts(table.cpus.len());
        Some((irq.line, taken(table.cpus.iter().copied().zip(counts))))
    });
    let lines = lines.collect();
    let softnet = super::path::softnet_cpus(host, &snapshot.cpus);
    let known = snapshot.evidence.iter().flat_map(|e| &e.pollers);
    let pollers = known.filter_map(|poller| {
        let path = PathBuf::from(format!("/proc/{}/stat", poller.pid));
        let stat = task::stat(&host.read(&path).ok()?)?;
        Some(Poller {
            last_cpu: stat.last_cpu,
            cpu_seconds: Some(stat.cpu_seconds),
            ..poller.clone()
        })
    });
    let pollers = pollers.collect();
    counters(host, &snapshot.netdevs, lines, softnet, pollers)
}

/// Packets that a sample needs to be better evidence than the counters since boot.
const ENOUGH: u64 = 100_000;

/// Looks at the traffic of the running machine for `duration`, and puts the sample in place of the
/// counters since boot if there was enough traffic to go by.
pub fn sample(host: &dyn HostRead, snapshot: &mut Snapshot, duration: Duration) {
    let begin = clock::monotonic();
    let earlier = look(host, snapshot);
    clock::sleep(duration);
    let seconds = clock::monotonic().saturating_sub(begin).as_secs_f64();
    let seen = Evidence::difference(&earlier, &look(host, snapshot), seconds);
    if seen.received() >= ENOUGH {
        queues::prove(&mut snapshot.netdevs, &snapshot.irqs, &seen);
        snapshot.evidence = Some(seen);
    }
}

/// CPUs that took any interrupt.
fn taken(counts: impl Iterator<Item = (CpuId, u64)>) -> BTreeMap<CpuId, u64> {
    counts.filter(|(_, count)| *count > 0).collect()
}

fn counters(
    host: &dyn HostRead,
    netdevs: &[NetDev],
    lines: BTreeMap<IrqLine, BTreeMap<CpuId, u64>>,
    softnet: Vec<SoftnetCpu>,
    pollers: Vec<Poller>,
) -> Evidence {
    let uptime = text(host, Path::new("/proc/uptime"));
    let seconds = uptime.and_then(|t| t.split_whitespace().next()?.parse::<f64>().ok());
    let seconds = seconds.filter(|s| s.is_finite() && *s >= 0.0);
    let all: HashMap<String, Moved> =
        net_dev::devices(&net_file(host, "dev")).into_iter().collect();
    let mut devices = BTreeMap::new();
    let mut queues = BTreeMap::new();
    for device in netdevs {
        if let Some(moved) =
            all.get(&device.name).copied().or_else(|| statistics(host, &device.name))
        {
            devices.insert(device.name.clone(), moved);
        }
        // A driver with one queue each way reports nothing beyond the device's own counters.
        if device.is_hardware() && (device.rx_queues.len() > 1 || device.tx_queues.len() > 1) {
            let asked =
                query_as::<Vec<QueueMoved>>(host, &Query::QueueCounters(device.name.clone()));
            if let Some(told) = asked.ok().filter(|told| !told.is_empty()) {
                queues.insert(device.name.clone(), of_rings(device, told));
            }
        }
    }
    let found = Evidence {
        window: Window::SinceBoot { seconds },
        devices,
        queues,
        lines,
        softnet,
        cpus: cpu_times(host),
        pollers,
        changed: Vec::new(),
    };
    if found.is_empty() { Evidence { window: Window::None, ..found } } else { found }
}

/// Counts per queue from counts per ring: IPQ40xx counts 8 receive and 16 transmit rings, of which
/// each queue has an equal share (ipqess_ethtool.c, edma_ethtool.c); elsewhere rings are queues.
fn of_rings(device: &NetDev, told: Vec<QueueMoved>) -> Vec<QueueMoved> {
    let driver = device.driver.as_deref().unwrap_or_default();
    if !driver.contains("ipqess") && !driver.contains("essedma") {
        return told;
    }
    let mut found: BTreeMap<u32, QueueMoved> = BTreeMap::new();
    let rings =
        |of: fn(&QueueMoved) -> Option<u64>| told.iter().filter(|t| of(t).is_some()).count();
    let (rx_rings, tx_rings) = (rings(|t| t.rx), rings(|t| t.tx));
    let queue = |index: u32, rings: usize, queues: usize| {
        let each = rings.checked_div(queues).unwrap_or(1).max(1);
        u32::try_from(index as usize / each).unwrap_or(u32::MAX)
    };
    let add = |sum: &mut Option<u64>, count: u64| {
        *sum = Some(sum.unwrap_or(0).saturating_add(count));
    };
    let entry = |index: u32| QueueMoved { index, ..QueueMoved::default() };
    for ring in &told {
        if let Some(count) = ring.rx {
            let index = queue(ring.index, rx_rings, device.rx_queues.len());
            add(&mut found.entry(index).or_insert_with(|| entry(index)).rx, count);
        }
        if let Some(count) = ring.tx {
            let index = queue(ring.index, tx_rings, device.tx_queues.len());
            add(&mut found.entry(index).or_insert_with(|| entry(index)).tx, count);
        }
    }
    found.into_values().collect()
}

/// Packets by `/sys/class/net/<device>/statistics`, where a captured machine has no /proc/net/dev.
fn statistics(host: &dyn HostRead, device: &str) -> Option<Moved> {
    let dir = Path::new("/sys/class/net").join(device).join("statistics");
    Some(Moved {
        rx: number(host, &dir.join("rx_packets"))?,
        tx: number(host, &dir.join("tx_packets"))?,
    })
}

fn cpu_times(host: &dyn HostRead) -> BTreeMap<CpuId, CpuTime> {
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    let all = cpu_ticks(&host.read(Path::new("/proc/stat")).unwrap_or_default());
    let times = all.into_iter().map(|ticks| {
        let time = CpuTime {
            user: seconds(ticks.user),
            system: seconds(ticks.system),
            irq: seconds(ticks.irq),
            softirq: seconds(ticks.softirq),
            idle: seconds(ticks.idle),
        };
        (ticks.cpu, time)
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::snapshot::{RxQueue, TxQueue};

    #[test]
    fn ipq40xx_rings_are_counted_for_their_queues() {
        let device = NetDev {
            driver: Some("ipqess-edma".into()),
            rx_queues: (0..4).map(|index| RxQueue { index, rps: None, flow_cnt: None }).collect(),
            tx_queues: (0..4).map(|index| TxQueue { index, xps: None }).collect(),
            ..NetDev::default()
        };
        // Rings 0, 2, 4 and 6 receive; 0, 4, 8 and 12 send.
        let told = (0..16).map(|index| QueueMoved {
            index,
            rx: (index < 8).then_some(if index % 2 == 0 { 10 + u64::from(index) } else { 0 }),
            tx: Some(if index % 4 == 0 { 100 + u64::from(index) } else { 0 }),
        });
        let found = of_rings(&device, told.collect());
        let found: Vec<_> = found.iter().map(|q| (q.index, q.rx, q.tx)).collect();
        assert_eq!(
            found,
            [
                (0, Some(10), Some(100)),
                (1, Some(12), Some(104)),
                (2, Some(14), Some(108)),
                (3, Some(16), Some(112)),
            ]
        );
    }
}
