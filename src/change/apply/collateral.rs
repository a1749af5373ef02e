//! Settings that the kernel may change with one of ours (`drags` in the table of knobs): with the
//! channels, queues that go lose their steering, and interrupt lines are made anew and go to any
//! CPU. All of it is journalled with the change, so that undoing it restores that too.

use std::collections::BTreeSet;

use super::Write;
use super::knob::{path, read_text, witness};
use super::renamed::Devices;
use crate::machine::host::HostRead;
use crate::machine::store::journal::Entry;
use crate::model::knob::{Knob, rows};
use crate::model::snapshot::Snapshot;

/// Entries without a value of ours, for everything that hangs on the settings that `writes` change
/// and that can be read.
pub(super) fn of(host: &dyn HostRead, snapshot: &Snapshot, writes: &[Write]) -> Vec<Entry> {
    let numbers = Devices::of(host);
    let mut hanging: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut entries = Vec::new();
    for write in writes {
        let (Some(spec), Some(device)) = (write.knob.spec(), write.knob.device()) else { continue };
        let Some(netdev) = snapshot.netdev(device) else { continue };
        for kind in spec.drags {
            if !hanging.insert((device, kind)) {
                continue;
            }
            let knobs = rows(kind).flat_map(|row| row.of_device(snapshot, netdev));
            let entry = |knob: Knob| {
                let path = path(&knob, snapshot).ok()?;
                let before = read_text(host, &path).ok()?;
                let witness = witness(&knob, snapshot).filter(|path| host.list(path).is_ok());
                let ifindex = numbers.ifindex(device);
                Some(Entry { knob, path, before, after: Vec::new(), witness, ifindex })
            };
            entries.extend(knobs.filter_map(entry));
        }
    }
    entries
}
