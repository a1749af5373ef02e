//! Devices that got another name since they were written to: their settings went with them.
//!
//! A device keeps its number (ifindex) when it is renamed, and a new device gets a new one
//! (net/core/dev.c `dev_new_index`): so a journal follows a device to its new name, and leaves alone
//! one that was given the old name since.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::knob::static_path;
use super::rollback::now;
use super::undo::Now;
use crate::host::HostRead;
use crate::model::knob::Knob;
use crate::store::journal::{Entry, Journal};

const DEVICES: &str = "/sys/class/net";

/// The devices of now, by number; those of which the kernel does not tell it are not in it.
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
            let Some(knob) = called(&entry.knob, new) else { continue };
            entry.witness =
                entry.witness.take().map(|handler| handler_called(host, handler, &old, new));
            // An interrupt line's file has the line's number and not the device's name.
            if !matches!(knob, Knob::IrqAffinity { .. }) {
                entry.path = static_path(&knob);
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

    /// What is in an entry's file; gone, where another device has its name.
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

/// The same knob of a device of another name. Every knob says `device` in the journal's form, so
/// none can be forgotten here.
fn called(knob: &Knob, device: &str) -> Option<Knob> {
    let mut form = serde_json::to_value(knob).ok()?;
    *form.get_mut("device")? = device.into();
    serde_json::from_value(form).ok()
}
