//! One ratio over many machines.

use serde::Serialize;

use crate::decide::experiment::stats::{mean, t_interval};
use crate::decide::experiment::{BAND, CONFIDENCE};

/// Machines from which an interval can be told.
const ENOUGH: usize = 3;

/// A ratio over machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// Machines that it rests on.
    pub machines: usize,
    /// Geometric mean of the machines' ratios.
    pub ratio: f64,
    /// Interval of that mean at 95 % for all rows that are compared with one another together
    /// (Bonferroni); `None` with fewer than three machines.
    pub interval: Option<(f64, f64)>,
    /// Where the ratio of one further machine of the kind lies, 95 %; `None` with fewer than three.
    pub next: Option<(f64, f64)>,
    /// The lowest ratio of a machine.
    pub lowest: f64,
    /// The highest ratio of a machine.
    pub highest: f64,
    /// Machines with more, by over 1 %.
    pub faster: usize,
    /// Machines with less, by over 1 %.
    pub slower: usize,
}

impl Spread {
    /// The spread of machines' ratios, given as logarithms, with so many `rivals`, itself included;
    /// `None` of nothing.
    pub(super) fn of(logs: &[f64], rivals: usize) -> Option<Self> {
        let centre = mean(logs)?;
        let n = logs.len() as f64;
        let half = |confidence: f64| {
            let interval = t_interval(logs, confidence).filter(|_| logs.len() >= ENOUGH);
            interval.map(|interval| interval.half)
        };
        let around = |half: f64| ((centre - half).exp(), (centre + half).exp());
        let all = 1.0 - (1.0 - CONFIDENCE) / rivals.max(1) as f64;
        let limit = BAND.ln();
        Some(Self {
            machines: logs.len(),
            ratio: centre.exp(),
            interval: half(all).map(around),
            next: half(CONFIDENCE).map(|half| around(half * (n + 1.0).sqrt())),
            lowest: logs.iter().copied().fold(centre, f64::min).exp(),
            highest: logs.iter().copied().fold(centre, f64::max).exp(),
            faster: logs.iter().filter(|log| **log > limit).count(),
            slower: logs.iter().filter(|log| **log < -limit).count(),
        })
    }

    /// True if the whole interval says that there is more.
    #[must_use]
    pub fn is_shown_faster(&self) -> bool {
        self.interval.is_some_and(|(low, _)| low > BAND)
    }

    /// True if the whole interval says that there is less.
    #[must_use]
    pub fn is_shown_slower(&self) -> bool {
        self.interval.is_some_and(|(_, high)| high < 1.0 / BAND)
    }
}
