//! The threads that poll for a device, and which of its lines each polls for.

use crate::model::cpuset::CpuSet;
use crate::model::order::InOrder;
use crate::model::snapshot::{Irq, IrqRole, NetDev};

/// The thread that polls for a line, counted as `Knob::NapiThread` does, and its CPUs; `None`
/// where NAPI does not run in threads, or it is not known which is whose.
///
/// Newer kernels report it (netdev netlink, 6.8). Before, there are names: `napi/eth0-8193`,
/// numbered in
/// the order in which the driver made them. With as many threads as lines those are taken in order
/// of queues, the transmit line of a queue first where there are two (ipqess: edma_probe); where a
/// device has others, nothing is guessed.
pub(super) fn thread_of(device: &NetDev, line: &Irq, lines: &[&Irq]) -> Option<(u32, CpuSet)> {
    if device.threaded != Some(true) || line.id.device != device.name {
        return None;
    }
    let threads = threads_of(device);
    let told = device.napis.iter().find(|n| n.irq == Some(line.line.0)).and_then(|n| n.pid);
    let index = if device.napis.iter().all(|n| n.pid.is_none()) {
        let mut own: Vec<&Irq> =
            lines.iter().copied().filter(|i| i.id.device == device.name).collect();
        own.order_by_key(|i| (i.id.queue, i.id.role != IrqRole::Tx));
        let index = own.iter().position(|i| i.id == line.id)?;
        (own.len() == threads.len()).then_some(index)?
    } else {
        threads.iter().position(|pid| Some(*pid) == told)?
    };
    let cpus = device.napi_thread_cpus.get(threads.get(index)?)?;
    Some((u32::try_from(index).ok()?, cpus.clone()))
}

/// The threads that poll for a device, in the order that `Knob::NapiThread` counts them: by their
/// NAPI, where the kernel tells which is whose.
pub(super) fn threads_of(device: &NetDev) -> Vec<u32> {
    let mut told: Vec<_> = device.napis.iter().filter_map(|n| Some((n.id, n.pid?))).collect();
    if told.is_empty() {
        return device.napi_threads.clone();
    }
    told.order_by(Ord::cmp);
    told.into_iter().map(|(_, pid)| pid).collect()
}
