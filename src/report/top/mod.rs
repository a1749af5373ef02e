//! The live view: its state, and its drawing on a grid of cells. In come intervals and keys; out go a
//! grid, and what a key asks of whoever reads the router. Nothing is read or written here.
//!
//! ```text
//!   r5s  Linux 6.6.8  4 CPUs  12:00:01            title
//!   CPU0 is full: 98 % busy, ...                  the bottleneck
//!   applied fastest, no drift | 61 C | 1416 MHz   condition
//!   CPU   busy ... serves                         pane of the CPUs, or of one of them
//!   eth0  rx tx drops ...                         pane of the devices, or of one of them
//!   q quit  ? help                                keys
//! ```

mod detail;
mod draw;
mod figures;
mod history;
mod paint;
mod state;

pub use draw::{draw, once};
pub use figures::short;
pub use paint::{Look, text};
pub use state::{Ask, Key, Playing, View};

use serde::Serialize;

use crate::decide::diagnose::live::{Bottleneck, bottleneck};
use crate::model::telemetry::Interval;

/// One look as JSON: docs/schema/top.json.
#[derive(Debug, Serialize)]
pub struct Shown<'a> {
    format: &'static str,
    version: u32,
    bottleneck: Bottleneck,
    #[serde(flatten)]
    interval: &'a Interval,
}

impl<'a> Shown<'a> {
    /// An interval, and what it says of the bottleneck.
    #[must_use]
    pub fn of(interval: &'a Interval) -> Self {
        let standing = interval.standing.as_deref().cloned().unwrap_or_default();
        let bottleneck = bottleneck(interval, &standing);
        Self { format: "linerate-top", version: 1, bottleneck, interval }
    }
}
