//! The ratio of two candidates' rates, with its interval.

use serde::Serialize;

use super::{MIN_BLOCKS, stats};

/// Ratios from 1/1.01 to 1.01 are of no practical interest.
pub const BAND: f64 = 1.01;

/// An interval beyond the band without a p to prove it: suggestive, not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leaning {
    /// Looks faster.
    Better,
    /// Looks slower.
    Worse,
}

/// A ratio of rates, estimated from paired contrasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// Blocks that it rests on.
    pub blocks: usize,
    /// Geometric mean of the blocks' ratios; by ranks the middle of the means of each two of them.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Two-sided p, adjusted for everything tested with it; `None` where it was not tested.
    pub p: Option<f64>,
}

impl Effect {
    /// From contrasts of logarithms; `None` with fewer than [`MIN_BLOCKS`] of them.
    pub(super) fn of(contrasts: &[Option<f64>], confidence: f64) -> Option<Self> {
        let values: Vec<f64> = contrasts.iter().copied().flatten().collect();
        if values.len() < MIN_BLOCKS {
            return None;
        }
        let interval = stats::t_interval(&values, confidence)?;
        Some(Self {
            blocks: values.len(),
            ratio: interval.mean.exp(),
            low: interval.low().exp(),
            high: interval.high().exp(),
            confidence,
            p: None,
        })
    }

    /// As [`Effect::of`], by the ranks of the contrasts: for cells of which some dip deep, in blocks
    /// enough for that.
    pub(super) fn by_ranks(contrasts: &[Option<f64>], confidence: f64) -> Option<Self> {
        let plain = Self::of(contrasts, confidence)?;
        let values: Vec<f64> = contrasts.iter().copied().flatten().collect();
        let ranked = stats::rank_interval(&values, confidence);
        Some(ranked.map_or(plain, |(middle, low, high)| Self {
            ratio: middle.exp(),
            low: low.exp(),
            high: high.exp(),
            ..plain
        }))
    }

    /// The effect with an interval of at least `half` on each side, in logarithms.
    pub(super) fn widened(self, half: f64) -> Self {
        Self {
            low: self.low.min(self.ratio * (-half).exp()),
            high: self.high.max(self.ratio * half.exp()),
            ..self
        }
    }

    /// On which side of the band the whole interval lies, if it does.
    #[must_use]
    pub fn side(&self) -> Option<Leaning> {
        if self.low > BAND {
            Some(Leaning::Better)
        } else if self.high < 1.0 / BAND {
            Some(Leaning::Worse)
        } else {
            None
        }
    }

    /// True if the whole interval lies within the band: shown to make no practical difference.
    #[must_use]
    pub fn is_within_band(&self) -> bool {
        self.low >= 1.0 / BAND && self.high <= BAND
    }

    /// Half of the interval's width, as a share (0.01 is 1 %).
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high / self.low).sqrt() - 1.0
    }
}
