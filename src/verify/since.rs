//! Since when a setting is as it is, and who is likely to have changed it: as far as that can be
//! known, and not a word further.

use std::path::Path;

use serde::Serialize;

use super::{Check, State};
use crate::apply::knob::same_text;
use crate::apply::{InForce, Place};
use crate::host::{HostRead, clock};
use crate::model::snapshot::Snapshot;

/// When a linerate wrote a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Since {
    /// Its verb and what it was about, as the journal has it.
    pub by: String,
    /// When that began, in milliseconds since boot (CLOCK_BOOTTIME).
    pub boottime_ms: u64,
    /// How long ago that is.
    pub seconds_ago: u64,
}

/// Who may have changed a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suspect {
    /// A program, a script, or a change of linerate's own.
    pub who: String,
    /// How that is known.
    pub evidence: String,
    /// Whether the value that is there now is one that it wrote; else it is only known to be there
    /// and to write such settings.
    pub certain: bool,
}

/// Adds to a check what the journals and the machine tell of its history.
pub(super) fn trace(
    host: &dyn HostRead,
    snapshot: &Snapshot,
    in_force: &[InForce],
    check: &mut Check,
) {
    let Some(path) = check.path.clone() else { return };
    let now = host.read(&path).ok().map(|text| String::from_utf8_lossy(&text).into_owned());
    // Newest first: the last one that wrote it counts.
    let ours = in_force.iter().rev().filter(|one| one.place == Place::Here).find_map(|one| {
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
            check.suspects = suspects(snapshot, &path);
        }
        _ => {}
    }
}

fn seconds_since(started_ms: u64) -> u64 {
    let now = u64::try_from(clock::boottime().as_millis()).unwrap_or(u64::MAX);
    now.saturating_sub(started_ms) / 1000
}

/// Programs and scripts found on the machine that write this kind of setting.
fn suspects(snapshot: &Snapshot, path: &Path) -> Vec<Suspect> {
    let words = effects(path);
    let writes = |effect: &str| words.iter().any(|word| effect.contains(word));
    snapshot
        .services
        .iter()
        .filter(|service| writes(&service.effect))
        .map(|service| Suspect {
            who: service.name.clone(),
            evidence: format!("{}; it {}", service.evidence, service.effect),
            certain: false,
        })
        .collect()
}

/// What discovery says of those that write such a file (`discover::services`).
fn effects(path: &Path) -> &'static [&'static str] {
    let text = path.to_str().unwrap_or_default();
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    match name {
        _ if text.starts_with("/proc/irq/") => &["interrupts"],
        "rps_cpus" => &["RPS"],
        "rps_flow_cnt" => &["RFS", "rewrites RPS"],
        "xps_cpus" => &["XPS"],
        _ if name.starts_with("scaling_") => &["governor"],
        _ if text.starts_with("/proc/sys/") => &["sysctls"],
        // Rings, coalescing and offloads have no file.
        _ => &["offloads, rings"],
    }
}
