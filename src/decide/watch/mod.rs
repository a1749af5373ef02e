//! Events of a router that is watched, and settings that are put back: without files, clocks or
//! programs, so that tests let a week pass in a moment.
//!
//! ```text
//!   rates, losses, links ─▶ signs ─▶ health: begins, lasts, is over ─▶ events
//!   settings that differ ──────────▶ drift: told, put back, given up ─▶ events, settings to put back
//! ```
//!
//! Time is what the caller says it is (CLOCK_BOOTTIME): a clock that is set means nothing here. After a
//! gap (suspend, a machine too busy) nothing is told by time alone, for each needs several looks too.

mod drift;
mod health;
mod signs;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use drift::{Changed, Drift};
pub use health::{Health, Sign};
pub use signs::{Links, cpu_and_heat, losses};

use crate::model::knob::Knob;
use crate::model::watch::{Event, Settings};

/// Observations of one look.
#[derive(Debug, Default)]
pub struct Look {
    /// Signs of trouble.
    pub signs: Vec<Sign>,
    /// Settings that somebody else changed; `None` where this look did not see them, as while another
    /// linerate changes settings.
    pub changed: Option<Vec<Changed>>,
}

/// The outcome of a look.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    /// Events, in order.
    pub events: Vec<Event>,
    /// Settings to put back.
    pub put_back: Vec<Knob>,
    /// True if something began or ended that is not certain yet: the next look should come soon.
    pub soon: bool,
}

/// A router that is watched.
#[derive(Debug, Default)]
pub struct Watch {
    /// Troubles.
    pub health: Health,
    /// Settings.
    pub drift: Drift,
}

impl Watch {
    /// Takes a look at the time `at`.
    pub fn look(&mut self, at: Duration, look: Look, settings: &Settings) -> Outcome {
        let (events, soon) = self.health.take(at, look.signs, settings.health.hold);
        let mut outcome = Outcome { events, soon, ..Outcome::default() };
        if let Some(changed) = look.changed {
            self.drift.take(at, changed, settings, &mut outcome);
        }
        outcome
    }
}
