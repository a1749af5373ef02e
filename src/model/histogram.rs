//! Durations counted in buckets: bounded memory however long the run, and quantiles with a known
//! error.

use serde::{Deserialize, Serialize};

/// Buckets per doubling: a quantile is at most 1/64 (1.6 %) above the true one.
const STEPS: u32 = 64;

/// How often which duration was seen, and how often none ever came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Histogram {
    /// Count per bucket; see [`upper`].
    counts: Vec<u64>,
    /// Probes that never came back.
    pub lost: u64,
}

impl Histogram {
    /// Counts a duration in nanoseconds.
    pub fn add(&mut self, nanoseconds: u64) {
        let at = bucket(nanoseconds);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
    }

    /// Durations seen, those lost included.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.lost
    }

    /// The duration in nanoseconds that a share `q` (0 to 1) of all probes stayed within. `None`
    /// when that many never came back, or nothing was probed: a lost probe is no short one.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = (self.total() as f64 * q.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(at, count)| {
            seen += count;
            (seen >= rank).then(|| upper(at))
        })
    }
}

/// The bucket of a value: exact below [`STEPS`], then [`STEPS`] buckets for each doubling.
fn bucket(value: u64) -> usize {
    let doublings = (value / u64::from(STEPS)).checked_ilog2().map_or(0, |n| n + 1);
    if doublings == 0 {
        return usize::try_from(value).unwrap_or(usize::MAX);
    }
    let shift = doublings - 1;
    let within = (value >> shift) - u64::from(STEPS);
    (doublings * STEPS) as usize + usize::try_from(within).unwrap_or(0)
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let steps = STEPS as usize;
    let (doublings, within) = (bucket / steps, (bucket % steps) as u64);
    match u32::try_from(doublings).unwrap_or(u32::MAX).checked_sub(1) {
        None => within,
        Some(shift) => {
            let first = u128::from(u64::from(STEPS) + within) << shift.min(63);
            let width = 1_u128 << shift.min(63);
            u64::try_from(first + width - 1).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_within_a_64th(value: u64) {
            let top = upper(bucket(value));
            prop_assert!(top >= value);
            prop_assert!((top - value) as f64 <= value as f64 / 64.0);
        }

        #[test]
        fn larger_values_are_in_later_buckets(a: u64, b: u64) {
            prop_assert!(a > b || bucket(a) <= bucket(b));
        }
    }

    #[test]
    fn quantiles_count_the_lost_as_longest() {
        let mut seen = Histogram::default();
        assert_eq!(seen.quantile(0.5), None);
        (1..=98).for_each(|n| seen.add(n * 1_000_000));
        seen.lost = 2;
        let near = |q: f64, expected: u64| {
            let found = seen.quantile(q).unwrap() as f64;
            assert!((1.0..1.016).contains(&(found / expected as f64)), "{q}: {found}");
        };
        near(0.5, 50_000_000);
        near(0.98, 98_000_000);
        assert_eq!(seen.quantile(0.99), None, "two of a hundred never came back");
        assert_eq!(seen.total(), 100);
    }
}
