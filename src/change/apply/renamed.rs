//! Devices that got another name since they were written to: their settings went with them.
//!
//! A device keeps its number (ifindex) when it is renamed, and a new device gets a new one
//! (net/core/dev.c `dev_new_index`): so a journal follows a device to its new name, and leaves alone
//! one that was given the old name since.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::found::now;
use super::undo::Now;
use crate::machine::host::HostRead;
use crate::machine::store::journal::{Entry, Journal};
use crate::model::knob::{Knob, Parts};

const DEVICES: &str = "/sys/class/net";

/// The devices of now, by number; those whose number the kernel does not report are left out.
#[derive(Default)]
pub(super) struct Devices(BTreeMap<u32, String>);

impl Devices {
    pub(super) fn of(host: &dyn HostRead) -> Self {
        let names = host.list(Path::new(DEVICES)).unwrap_or_default();
        let numbered = |name: String| {
            let text = host.text(&Path::new(DEVICES).join(&name).join("ifindex")).ok()?;
            Some((text.parse().ok()?, name))
        };
        Self(names.into_iter().filter_map(numbered).collect())
    }

    /// The names of all devices.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }

    /// The number of a device.
    pub(super) fn ifindex(&self, device: &str) -> Option<u32> {
        self.0.iter().find(|(_, name)| *name == device).map(|(number, _)| *number)
    }

    /// Makes the entries of a journal name their devices as they are called now. Gives what a
    /// person should know of it.
    pub(super) fn follow(&self, host: &dyn HostRead, journal: &mut Journal) -> Vec<String> {
        let mut notes = Vec::new();
        for entry in &mut journal.header.entries {
            let (Some(old), Some(new)) = (entry.knob.device().map(str::to_owned), self.name(entry))
            else {
                continue;
            };
            if *new == old {
                continue;
            }
            let renamed = Parts { device: Some(new), ..entry.knob.parts() };
            let Ok(knob) = Knob::of(&renamed) else { continue };
            entry.witness =
                entry.witness.take().map(|handler| handler_called(host, handler, &old, new));
            // An interrupt line's file has the line's number and not the device's name.
            if !matches!(knob, Knob::IrqAffinity { .. }) {
                entry.path = knob.address().into();
            }
            entry.knob = knob;
            let note = format!("{old} is called {new} now");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    fn name(&self, entry: &Entry) -> Option<&String> {
        self.0.get(&entry.ifindex?)
    }

    /// Reads an entry's file; gone, where another device has the name of the entry's.
    pub(super) fn now(&self, host: &dyn HostRead, entry: &Entry) -> Now {
        let is_devices =
            entry.knob.device().is_some() && !matches!(entry.knob, Knob::IrqAffinity { .. });
        if is_devices && entry.ifindex.is_some() && self.name(entry).is_none() {
            return Now::Gone;
        }
        now(host, entry)
    }
}

/// A handler keeps its name until the device is set down and up again; then it is named after the
/// new one.
fn handler_called(host: &dyn HostRead, handler: PathBuf, old: &str, new: &str) -> PathBuf {
    let name = handler.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let renamed = handler.with_file_name(name.replacen(old, new, 1));
    if host.list(&renamed).is_ok() { renamed } else { handler }
}
