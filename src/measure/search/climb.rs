//! The best combination of many, without measuring them all.
//!
//! ```text
//!   batch ─▶ measured next to each other ─▶ Belief: how good each combination is, how sure ─┐
//!     ▲                                                                                     │
//!     └── the leader, and those that may yet turn out to be better, until the trials end ◀──┘
//! ```
//!
//! Points that are compared are measured next to each other, as a batch in random order, and batches
//! are compared only as far as the machine is seen to stay alike from one to the next: one that gets
//! slower misleads nobody. A measurement of
//! one point tells of all points that share levels with it (see [`super::belief`]), so the leader is
//! the point with the highest estimate, and a point is measured for what knowing it better is expected
//! to gain over the leader. The leader is in every batch, and so are some points that were never
//! measured and are one change away from the best, whatever is expected of them.
//!
//! The point that it ends with was chosen by its results, so those are no estimate of its effect:
//! that takes an experiment of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::belief::{Belief, Place};
use crate::model::order::InOrder;

/// A level for each factor, by index.
pub type Point = Vec<usize>;

/// Points in a batch: the more, the less of what is measured goes into the batch's own level.
const BATCH: usize = 8;
/// Points in a batch that were never measured: those one change away from the best come first, for no
/// estimate knows a level that is good in good company only, as a CPU that bad company keeps waiting.
const NEW: usize = 4;
/// One trial in so many is kept for the last race, and number of points in that: what was measured
/// least is least known, and one of those may lead by luck.
const RESERVE: usize = 4;
const LAST: usize = 4;
/// Spaces up to this size are weighed as a whole, larger ones by a part of them.
const WHOLE: usize = 2048;
/// Number of points of a larger space that are weighed at first, and that join with every batch.
const PART: (usize, usize) = (256, 32);
/// A point that was refused so often, and never measured, is not asked for again.
const HOPELESS: u32 = 3;

/// Model's estimate for a point: less is better; `None` where the model knows nothing.
pub type Prior<'a> = Box<dyn Fn(&[usize]) -> Option<f64> + 'a>;

/// A search in progress: asks for batches, takes what came of them.
pub struct Climb<'a> {
    sizes: Vec<usize>,
    prior: Prior<'a>,
    /// Mean and standard deviation of the prior over the first points.
    scale: (f64, f64),
    starts: Vec<Point>,
    trials: usize,
    used: usize,
    belief: Belief,
    known: BTreeSet<Point>,
    /// Refusals of points that were never measured.
    refused: BTreeMap<Point, u32>,
    /// The batch that is being measured, by place in the belief's pool.
    batch: Vec<usize>,
    rng: fastrand::Rng,
}

impl<'a> Climb<'a> {
    /// A search among the combinations of as many levels as `sizes` says, in at most `trials`
    /// measurements. `starts` are tried first, best first.
    #[must_use]
    pub fn new(
        sizes: Vec<usize>,
        starts: Vec<Point>,
        trials: usize,
        prior: Prior<'a>,
        seed: u64,
    ) -> Self {
        let fits =
            |p: &Point| p.len() == sizes.len() && p.iter().zip(&sizes).all(|(l, size)| l < size);
        let mut climb = Self {
            starts: starts.into_iter().filter(fits).collect(),
            belief: Belief::new(sizes.len()),
            sizes,
            prior,
            scale: (0.0, 1.0),
            trials,
            used: 0,
            known: BTreeSet::new(),
            refused: BTreeMap::new(),
            batch: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
        };
        let first = climb.first();
        let said: Vec<f64> = first.iter().filter_map(|p| climb.said(p)).collect();
        let n = said.len().max(1) as f64;
        let mean = said.iter().sum::<f64>() / n;
        let sd = (said.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n).sqrt();
        climb.scale = (mean, if sd > 0.0 { sd } else { 1.0 });
        first.into_iter().for_each(|point| climb.meet(point));
        climb
    }

    /// Measurements made.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// The points to measure next to each other now, in this order; none when it is over.
    pub fn next_batch(&mut self) -> Vec<Point> {
        let room = BATCH.min(self.trials.saturating_sub(self.used));
        if room < 2 {
            return Vec::new();
        }
        self.belief.begin();
        let mut batch = Vec::new();
        let begun = self.used > 0;
        if !begun {
            let promising = self.belief.promising(room);
            let places = self.starts.iter().filter_map(|start| self.belief.find(start));
            let places = places.chain(promising);
            places.for_each(|place| {
                if !batch.contains(&place) {
                    batch.push(place)
                }
            });
            batch.truncate(room);
            batch.iter().for_each(|place| self.belief.expect(*place));
        } else {
            self.widen();
        }
        let ending = self.used + self.trials / RESERVE >= self.trials;
        let last = if ending { self.best(LAST) } else { Vec::new() };
        let barred = |p: &Place| {
            self.refused.get(&p.point).is_some_and(|n| *n >= HOPELESS)
                || (last.len() > 1 && !last.contains(&p.point))
        };
        let barred: Vec<bool> = self.belief.pool().iter().map(barred).collect();
        let open = |place: usize, batch: &[usize]| {
            !batch.contains(&place) && barred.get(place) == Some(&false)
        };
        if let Some(leader) = self.belief.leader(|place| open(place, &[])) {
            let best = self.best(LAST);
            let mut pick = (!batch.contains(&leader)).then_some(leader);
            while batch.len() < room {
                let new = batch.iter().filter(|place| self.belief.is_new(**place)).count();
                if begun && pick.is_none() && new < NEW {
                    let among = |fits: &dyn Fn(usize) -> bool| {
                        self.belief.rival(leader, |place| open(place, &batch) && fits(place))
                    };
                    let mut near = best.iter();
                    pick = near
                        .find_map(|of| among(&|place| self.belief.is_new_beside(place, of)))
                        .or_else(|| among(&|place| self.belief.is_new(place)));
                }
                let rival = || self.belief.rival(leader, |place| open(place, &batch));
                let Some(next) = pick.take().or_else(rival) else { break };
                self.belief.expect(next);
                batch.push(next);
            }
        }
        if batch.len() < 2 {
            return Vec::new();
        }
        self.rng.shuffle(&mut batch);
        self.used += batch.len();
        self.batch = batch;
        let pool = self.belief.pool();
        self.batch.iter().filter_map(|place| Some(pool.get(*place)?.point.clone())).collect()
    }

    /// Takes the results of the batch: the response of each point in its order, a logarithm of
    /// which more is better; `None` where the point was refused.
    pub fn take(&mut self, responses: &[Option<f64>]) {
        let batch = std::mem::take(&mut self.batch);
        for (place, response) in batch.iter().zip(responses) {
            let Some(found) = self.belief.pool().get(*place) else { continue };
            match response {
                Some(_) => drop(self.refused.insert(found.point.clone(), 0)),
                None if found.runs > 0 => {}
                None => *self.refused.entry(found.point.clone()).or_default() += 1,
            }
        }
        let measured = batch.into_iter().zip(responses);
        let measured: Vec<(usize, f64)> =
            measured.filter_map(|(place, y)| Some((place, (*y)?))).collect();
        self.belief.learn(&measured);
    }

    /// The best of those that were measured, best first.
    #[must_use]
    pub fn best(&self, most: usize) -> Vec<Point> {
        let measured = self.belief.pool().iter().filter(|p| p.runs > 0);
        let mut all: Vec<&Place> = measured.collect();
        all.order_by(|a, b| b.mean.total_cmp(&a.mean));
        all.into_iter().take(most).map(|place| place.point.clone()).collect()
    }

    /// The points that are weighed from the beginning: all, or the starts and some at random.
    fn first(&mut self) -> Vec<Point> {
        let count = self.sizes.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
        let mut points = vec![Vec::new()];
        if count.is_some_and(|n| n <= WHOLE) {
            for &size in &self.sizes {
                let longer =
                    |p: &Point| (0..size).map(|l| [p, &[l][..]].concat()).collect::<Vec<_>>();
                points = points.iter().flat_map(longer).collect();
            }
        } else {
            points = self.starts.clone();
            points.push(vec![0; self.sizes.len()]);
            points.extend((0..PART.0).map(|_| self.random()));
        }
        points
    }

    fn random(&mut self) -> Point {
        self.sizes.iter().map(|size| self.rng.usize(..(*size).max(1))).collect()
    }

    /// Lets points of a large space join: those one change away from the leader, some that are two
    /// changes away, and some at random.
    fn widen(&mut self) {
        let leader = self.belief.leader(|_| true).and_then(|place| self.belief.pool().get(place));
        let Some(leader) = leader.map(|place| place.point.clone()) else { return };
        if self.belief.pool().len() < WHOLE
            && self
                .sizes
                .iter()
                .try_fold(1_usize, |n, s| n.checked_mul(*s))
                .is_none_or(|n| n > WHOLE)
        {
            for factor in 0..self.sizes.len() {
                for level in 0..self.sizes.get(factor).copied().unwrap_or(0) {
                    self.meet(with(&leader, factor, level));
                }
            }
            for _ in 0..PART.1 {
                let (other, factors) = (self.random(), self.sizes.len());
                let (one, two) = (self.rng.usize(..factors), self.rng.usize(..factors));
                let level = |factor: usize| other.get(factor).copied().unwrap_or(0);
                self.meet(with(&with(&leader, one, level(one)), two, level(two)));
                self.meet(other);
            }
        }
    }

    /// Takes a point into the pool, once.
    fn meet(&mut self, point: Point) {
        if self.known.insert(point.clone()) {
            let (mean, sd) = self.scale;
            let said = self.said(&point).map_or(0.0, |said| (mean - said) / sd);
            self.belief.meet(point, said);
        }
    }

    fn said(&self, point: &[usize]) -> Option<f64> {
        (self.prior)(point).filter(|said| said.is_finite())
    }
}

/// The point with another level of one factor.
fn with(point: &[usize], factor: usize, level: usize) -> Point {
    let mut other = point.to_vec();
    if let Some(at) = other.get_mut(factor) {
        *at = level;
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search of which every measurement is what `measure` says.
    fn runs(climb: &mut Climb<'_>, measure: &mut dyn FnMut(&Point) -> Option<f64>) -> usize {
        let mut batches = 0;
        loop {
            let batch = climb.next_batch();
            if batch.is_empty() {
                return batches;
            }
            batches += 1;
            assert!(batches < 1000, "it goes on for ever");
            let different: BTreeSet<_> = batch.iter().collect();
            assert_eq!(different.len(), batch.len(), "a point twice in a batch compares nothing");
            climb.take(&batch.iter().map(&mut *measure).collect::<Vec<_>>());
        }
    }

    #[test]
    fn it_ends_where_every_trial_is_refused_and_when_there_is_nothing_to_compare() {
        let mut climb = Climb::new(vec![2, 2], vec![], 10_000, Box::new(|_| None), 1);
        assert!(runs(&mut climb, &mut |_| None) <= 4, "refused for good is not asked for again");
        assert!(climb.best(1).is_empty());
        let starts = vec![vec![9, 9], vec![2, 2]];
        let mut climb = Climb::new(vec![3, 3], starts, 1, Box::new(|_| None), 1);
        assert!(climb.next_batch().is_empty(), "one trial compares nothing");
        let mut climb = Climb::new(vec![1], vec![], 100, Box::new(|_| None), 1);
        assert!(climb.next_batch().is_empty(), "one combination has nothing to be better than");
    }

    #[test]
    fn the_starts_are_measured_first_and_all_trials_are_used() {
        let starts = vec![vec![2, 1], vec![0, 3]];
        let mut climb = Climb::new(vec![4, 4], starts.clone(), 50, Box::new(|_| None), 3);
        let first = climb.next_batch();
        assert!(starts.iter().all(|start| first.contains(start)), "{first:?}");
        climb.take(&vec![Some(1.0); first.len()]);
        runs(&mut climb, &mut |_| Some(1.0));
        assert!(climb.used() > 48, "{}", climb.used());
    }

    #[test]
    fn a_space_that_is_too_large_to_weigh_as_a_whole_is_searched_all_the_same() {
        // 6 factors of 4 levels; the best level of each is its number.
        let worth = |p: &Point| -> f64 {
            (0..).zip(p).map(|(factor, level)| if *level == factor % 4 { 0.05 } else { 0.0 }).sum()
        };
        let mut climb = Climb::new(vec![4; 6], vec![], 120, Box::new(|_| None), 5);
        let mut rng = fastrand::Rng::with_seed(1);
        runs(&mut climb, &mut |p| Some(worth(p) + 0.02 * (rng.f64() - 0.5)));
        let best = climb.best(1);
        assert!(worth(&best[0]) > 0.24, "{best:?}");
    }
}
