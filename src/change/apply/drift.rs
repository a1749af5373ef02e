//! Settings that are not as linerate left them: the journals against what is there now.

use std::collections::BTreeSet;

use super::knob::{meaning, remnant, same_text, told};
use super::renamed::Devices;
use super::undo::Now;
use super::{InForce, Whereabouts};
use crate::machine::host::HostRead;
use crate::machine::store::journal::Phase;
use crate::model::knob::{Knob, Value};

/// A setting that somebody else set since.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Drifted {
    /// Setting.
    pub knob: Knob,
    /// Value that linerate left there.
    pub wanted: String,
    /// The same as a value that can be set; `None` where its text is none.
    #[serde(skip)]
    pub value: Option<Value>,
    /// Value that is there now; `None` where it can't be read.
    pub is: Option<String>,
}

/// The settings in force here that are not as they were left, the last made first. What is gone with
/// its device, or can't be read, is not called changed.
#[must_use]
pub fn drift(host: &dyn HostRead, in_force: &[InForce]) -> Vec<Drifted> {
    let devices = Devices::of(host);
    let (mut seen, mut drifted) = (BTreeSet::new(), Vec::new());
    let here =
        |one: &&InForce| one.place == Whereabouts::Here && one.journal.phase == Phase::Applied;
    for one in in_force.iter().rev().filter(here) {
        let mut journal = one.journal.clone();
        devices.follow(host, &mut journal);
        for entry in journal.header.entries {
            // What only came with it has no value of ours.
            let Some(wanted) = entry.after.last() else { continue };
            if !seen.insert(entry.knob.clone()) {
                continue;
            }
            let (Now::Text(is) | Now::Elsewhere { text: is, .. } | Now::Displaced(is)) =
                devices.now(host, &entry)
            else {
                continue;
            };
            if same_text(&entry.knob, wanted, &is) || remnant(&entry.knob, wanted, &is) {
                continue;
            }
            let value = meaning(&entry.knob, wanted).ok();
            let (wanted, is) = (told(&entry.knob, wanted), Some(told(&entry.knob, &is)));
            drifted.push(Drifted { knob: entry.knob, wanted, value, is });
        }
    }
    drifted
}
