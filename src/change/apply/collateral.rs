//! Settings that the kernel may change with one of ours (`drags` in the table of knobs): with the
//! channels, queues that go lose their steering, and interrupt lines are made anew and go to any
//! CPU; with forwarding, that of every device. All of it is journalled with the change, so that
//! undoing it restores that too.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::Write;
use super::knob::{path, read_text, witness};
use super::renamed::Devices;
use crate::machine::host::HostRead;
use crate::machine::store::journal::Entry;
use crate::model::knob::spec::Scope;
use crate::model::knob::{Knob, KnobSpec, Parts};
use crate::model::snapshot::Snapshot;

/// Entries without a value of ours, for everything that hangs on the settings that `writes` change
/// and that can be read.
pub(super) fn of(host: &dyn HostRead, snapshot: &Snapshot, writes: &[Write]) -> Vec<Entry> {
    let drags = |write: &&Write| write.knob.spec().is_some_and(|spec| !spec.drags.is_empty());
    let mut dragging = writes.iter().filter(drags).peekable();
    if dragging.peek().is_none() {
        return Vec::new();
    }
    let devices = Devices::of(host);
    let mut hanging: BTreeSet<Knob> = BTreeSet::new();
    let mut entries = Vec::new();
    for write in dragging {
        for row in write.knob.spec().into_iter().flat_map(KnobSpec::dragged) {
            for knob in knobs(row, snapshot, write.knob.device(), &devices) {
                let ours = writes.iter().any(|w| w.knob == knob);
                if ours || !hanging.insert(knob.clone()) {
                    continue;
                }
                let place = match write.knob.device() {
                    Some(_) => path(&knob, snapshot).ok(),
                    // Also of devices that the snapshot is not about.
                    None => Some(PathBuf::from(knob.address())),
                };
                let Some(path) = place else { continue };
                let Ok(before) = read_text(host, &path) else { continue };
                let witness = witness(&knob, snapshot).filter(|path| host.list(path).is_ok());
                let ifindex = knob.device().and_then(|device| devices.ifindex(device));
                entries.push(Entry { knob, path, before, after: Vec::new(), witness, ifindex });
            }
        }
    }
    entries
}

/// The settings of a row that hang on one of `device`, or on one of the machine.
fn knobs(
    row: &KnobSpec,
    snapshot: &Snapshot,
    device: Option<&str>,
    devices: &Devices,
) -> Vec<Knob> {
    match device {
        Some(device) => {
            snapshot.netdev(device).map_or_else(Vec::new, |netdev| row.of_device(snapshot, netdev))
        }
        None if row.scope == Scope::Machine => row.of_machine().into_iter().collect(),
        None => {
            let of = |device| {
                Knob::of(&Parts {
                    kind: row.kind,
                    device: Some(device),
                    name: row.name,
                    ..Parts::default()
                })
                .ok()
            };
            devices.names().filter_map(of).collect()
        }
    }
}
