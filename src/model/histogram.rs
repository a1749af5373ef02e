//! Durations counted in buckets: bounded memory however long the run, and quantiles with a known
//! error.

use serde::{Deserialize, Serialize};

/// Buckets per doubling: a quantile is at most 1/64 (1.6 %) above the true one.
const STEPS: u32 = 64;

/// Largest relative error of a duration.
pub const RESOLUTION: f64 = 1.0 / STEPS as f64;

/// Buckets that a duration can have: exact ones, and those of the 58 doublings above.
const BUCKETS: usize = 59 * STEPS as usize;

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
        // Every duration has a bucket.
        let _put = self.put(u32::try_from(bucket(nanoseconds)).unwrap_or(u32::MAX), 1);
    }

    /// The buckets with something in them, and how much that is.
    pub fn counts(&self) -> impl Iterator<Item = (u32, u64)> {
        let all = (0..).zip(self.counts.iter().copied());
        all.filter(|(_, count)| *count > 0)
    }

    /// Counts `count` durations of a bucket; `false` for one that no duration has.
    #[must_use]
    pub fn put(&mut self, bucket: u32, count: u64) -> bool {
        let at = bucket as usize;
        if at >= BUCKETS {
            return false;
        }
        // What is empty has no place: equal contents are equal.
        if self.counts.len() <= at && count > 0 {
            self.counts.resize(at + 1, 0);
        }
        if let Some(sum) = self.counts.get_mut(at) {
            *sum = sum.saturating_add(count);
        }
        true
    }

    /// Durations seen, those lost included.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(self.lost, |sum, count| sum.saturating_add(*count))
    }

    /// The duration in nanoseconds that a share `q` (0 to 1) of all probes stayed within. `None`
    /// when that many never came back, or nothing was probed: a lost probe is no short one.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = (self.total() as f64 * q.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        self.counts.iter().enumerate().find_map(|(at, count)| {
            seen = seen.saturating_add(*count);
            (seen >= rank).then(|| upper(at))
        })
    }
}

impl Histogram {
    /// The fewest probes that carry a quantile: ten of them lie beyond it.
    #[must_use]
    pub fn needed(q: f64) -> u64 {
        (10.0 / (1.0 - q) - 1e-6).ceil() as u64
    }

    /// Mean in nanoseconds of the shortest `share` (0 to 1) of all durations; `None` where more than
    /// the others never came back, or nothing was probed.
    #[must_use]
    pub fn mean_of_shortest(&self, share: f64) -> Option<f64> {
        let most = (self.total() as f64 * share.clamp(0.0, 1.0)).floor();
        let (mut seen, mut sum) = (0.0, 0.0);
        for (at, count) in self.counts.iter().enumerate() {
            let counts = (*count as f64).min(most - seen);
            sum += counts * upper(at) as f64;
            seen += counts;
        }
        (most >= 1.0 && seen >= most).then(|| sum / most)
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

    #[test]
    fn the_mean_leaves_the_longest_out_and_lost_ones_are_the_longest() {
        let mut seen = Histogram::default();
        assert_eq!(seen.mean_of_shortest(0.95), None);
        (0..19).for_each(|_| seen.add(40));
        seen.add(5000);
        assert_eq!(seen.mean_of_shortest(0.95), Some(40.0));
        assert!(seen.mean_of_shortest(1.0).unwrap() > 280.0);
        seen.lost = 3;
        assert_eq!(seen.mean_of_shortest(0.95), None, "more than 5 % never came back");
        assert_eq!([0.5, 0.99, 0.999].map(Histogram::needed), [20, 1000, 10_000]);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_within_a_64th(value: u64) {
            let top = upper(bucket(value));
            prop_assert!(top >= value);
            prop_assert!((top - value) as f64 <= value as f64 / 64.0);
        }

        #[test]
        fn every_value_has_a_bucket_and_what_was_counted_can_be_told(values: Vec<u64>) {
            let (mut seen, mut again) = (Histogram::default(), Histogram::default());
            values.iter().for_each(|v| seen.add(*v));
            prop_assert_eq!(seen.total(), values.len() as u64);
            for (bucket, count) in seen.counts() {
                prop_assert!(again.put(bucket, count));
            }
            prop_assert_eq!(&again, &seen);
            prop_assert!(bucket(u64::MAX) + 1 == BUCKETS);
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
