//! Since when a setting is as it is, and who is likely to have changed it: as far as that can be
//! known, and not a word further.

use serde::Serialize;

use super::{Check, State};
use crate::change::apply::knob::same_text;
use crate::change::apply::{InForce, Whereabouts};
use crate::machine::host::{HostRead, clock};
use crate::model::knob::Knob;
use crate::model::snapshot::Snapshot;

/// Time and verb with which linerate wrote a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Since {
    /// Verb and object of the command line, as the journal has it.
    pub by: String,
    /// Time when that verb began, in milliseconds since boot (CLOCK_BOOTTIME).
    pub boottime_ms: u64,
    /// Seconds since then.
    pub seconds_ago: u64,
}

/// A program that may have changed a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suspect {
    /// A program, a script, or a change of linerate's own.
    pub who: String,
    /// Evidence for that.
    pub evidence: String,
    /// True if the value that is there now is one that it wrote; else it is only known to be there and
    /// to write such settings.
    pub certain: bool,
}

/// Adds to a check what the journals and the machine know of its history.
pub(super) fn trace(
    host: &dyn HostRead,
    snapshot: &Snapshot,
    in_force: &[InForce],
    check: &mut Check,
) {
    let Some(path) = check.path.clone() else { return };
    let now = host.read(&path).ok().map(|text| String::from_utf8_lossy(&text).into_owned());
    // Newest first: the last one that wrote it counts.
    let ours = in_force.iter().rev().filter(|one| one.place == Whereabouts::Here).find_map(|one| {
        let entry = one.journal.header.entries.iter().find(|e| e.path == path)?;
        let is_there = now
            .as_ref()
            .is_some_and(|now| entry.after.iter().any(|after| same_text(&check.knob, after, now)));
        Some((one, is_there))
    });
    let since = |one: &InForce| Since {
        by: one.journal.header.what.clone(),
        boottime_ms: one.journal.header.started_ms,
        seconds_ago: seconds_since(one.journal.header.started_ms),
    };
    match (&check.state, ours) {
        (State::InForce, Some((one, true))) => check.since = Some(since(one)),
        (State::Drifted, Some((one, true))) => {
            check.since = Some(since(one));
            check.suspects.push(Suspect {
                who: format!("linerate {}", one.journal.header.what),
                evidence: format!("journal-{:04} says that it wrote this", one.journal.number),
                certain: true,
            });
        }
        (State::Drifted, ours) => {
            // It was set, and is not so any more.
            check.since = ours.map(|(one, _)| since(one));
            check.suspects = suspects(snapshot, &check.knob);
        }
        _ => {}
    }
}

fn seconds_since(started_ms: u64) -> u64 {
    let now = u64::try_from(clock::boottime().as_millis()).unwrap_or(u64::MAX);
    now.saturating_sub(started_ms) / 1000
}

/// Programs and scripts found on the machine that set this sort of setting.
#[must_use]
pub fn suspects(snapshot: &Snapshot, knob: &Knob) -> Vec<Suspect> {
    let Some(sort) = knob.spec().and_then(|spec| spec.sort) else { return Vec::new() };
    snapshot
        .services
        .iter()
        .filter(|service| service.sets.contains(&sort))
        .map(|service| Suspect {
            who: service.name.clone(),
            evidence: format!("{}; it {}", service.evidence, service.effect),
            certain: false,
        })
        .collect()
}
