//! What a change of channels takes with it: queues that go lose their steering, and interrupt
//! lines are made anew and go to any CPU. All of it is journalled with the change, so that undoing
//! it restores that too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Write;
use super::knob::{path, read_text, witness};
use super::renamed::Devices;
use super::undo::Now;
use crate::host::HostRead;
use crate::model::knob::Knob;
use crate::model::order::OneByOne;
use crate::model::snapshot::Snapshot;
use crate::store::journal::Entry;

/// Entries without a value of ours, for everything that hangs on the channels that `writes` change
/// and that can be read.
pub(super) fn of(host: &dyn HostRead, snapshot: &Snapshot, writes: &[Write]) -> Vec<Entry> {
    let channels = writes.iter().filter(|w| matches!(w.knob, Knob::Channels { .. }));
    let devices: BTreeSet<&str> = channels.filter_map(|w| w.knob.device()).one_by_one();
    let numbers = Devices::of(host);
    let of = |device| of_channels(host, snapshot, device, numbers.ifindex(device));
    devices.into_iter().flat_map(of).collect()
}

fn of_channels(
    host: &dyn HostRead,
    snapshot: &Snapshot,
    device: &str,
    ifindex: Option<u32>,
) -> Vec<Entry> {
    let Some(netdev) = snapshot.netdev(device) else { return Vec::new() };
    let name = || device.to_owned();
    let mut knobs: Vec<Knob> = Vec::new();
    for queue in netdev.rx_queues.iter().map(|q| q.index) {
        knobs.push(Knob::RpsCpus { device: name(), queue });
        knobs.push(Knob::RpsFlowCnt { device: name(), queue });
    }
    for queue in netdev.tx_queues.iter().map(|q| q.index) {
        knobs.push(Knob::XpsCpus { device: name(), queue });
        knobs.push(Knob::XpsRxqs { device: name(), queue });
    }
    knobs.extend(snapshot.irqs_of(device).map(|i| Knob::IrqAffinity { irq: i.id.clone() }));
    knobs.push(Knob::RssTable { device: name() });
    let entry = |knob: Knob| {
        let path = path(&knob, snapshot).ok()?;
        let before = read_text(host, &path).ok()?;
        let witness = witness(&knob, snapshot).filter(|path| host.list(path).is_ok());
        Some(Entry { knob, path, before, after: Vec::new(), witness, ifindex })
    };
    knobs.into_iter().filter_map(entry).collect()
}

/// Where an interrupt line of a journal's entry is now that its number may be another: the
/// handler's directory tells (`register_handler_proc`, kernel/irq/proc.c).
pub(super) fn moved(host: &dyn HostRead, entry: &Entry) -> Option<Now> {
    // Values of ours are not carried over to a line that was made anew by others.
    if !entry.after.is_empty() {
        return None;
    }
    let action = entry.witness.as_ref()?.file_name()?;
    let lines = host.list(Path::new("/proc/irq")).ok()?;
    let mut found = lines.iter().filter(|line| line.parse::<u32>().is_ok()).filter_map(|line| {
        let directory = Path::new("/proc/irq").join(line);
        host.list(&directory.join(action)).is_ok().then_some(directory)
    });
    let line: PathBuf = found.next()?.join("smp_affinity");
    // Two lines of one name: nobody knows which it was.
    if found.next().is_some() {
        return None;
    }
    let text = read_text(host, &line).ok()?;
    Some(Now::Elsewhere { path: line, text })
}
