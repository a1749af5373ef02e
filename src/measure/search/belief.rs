//! Beliefs about every combination after some were measured: an estimate and its uncertainty.
//!
//! A combination's response is the sum of what each of its levels does alone, what two levels do
//! together, what is its own, and a multiple of what a model said of it; each of these is drawn from
//! a normal law, whose widths are those under which the measurements are most likely (a Gaussian
//! process over the factors). The level of the batches is a random walk, with a width of its own. All
//! figures are in units of one measurement's standard deviation.
//!
//! Measurements are taken in one after the other: a row of the Cholesky factor each, and for each
//! point of the pool one further element, by which its estimate and variance are kept up.

use crate::decide::experiment::stats::median;
use crate::model::order::InOrder;

/// Standard deviation of one measurement's logarithm that is assumed before there is any, and how
/// many measurements that assumption is worth.
const NOISE: (f64, f64) = (0.02, 4.0);
/// Variance of the first batch's level and of what a unit of the prior is worth.
const LEVEL: f64 = 1e4;
const SLOPE: f64 = 25.0;
/// So many standard deviations from the estimate a measurement counts.
const FURTHEST: f64 = 4.0;
/// Shares of the variance that levels alone, pairs of them and single combinations account for.
const SHAPES: [[f64; 3]; 5] =
    [[0.96, 0.03, 0.01], [0.8, 0.15, 0.05], [0.5, 0.4, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]];
/// Variances of the change of level from one batch to the next: from a machine that stays alike to one
/// of which only differences within a batch count.
const CHANGES: [f64; 4] = [0.1, 1.0, 10.0, 1000.0];
/// Variances of the responses, as multiples of the noise's: a factor of two from one to the next.
const SPREADS: usize = 12;

/// A combination that is weighed.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The combination.
    pub(super) point: Vec<usize>,
    /// Estimate, in units of the noise.
    pub(super) mean: f64,
    /// How often it was measured.
    pub(super) runs: u32,
    prior: f64,
    variance: f64,
    /// Covariances with the measurements, in the coordinates in which those are independent.
    along: Vec<f64>,
}

/// A measurement.
#[derive(Debug, Clone, Copy)]
struct Seen {
    place: usize,
    batch: u32,
    y: f64,
}

/// The widths of all laws: numbers of one of [`SHAPES`], of a spread, and of one of [`CHANGES`].
type Widths = [usize; 3];

/// The estimates of all points of a pool.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    pool: Vec<Place>,
    seen: Vec<Seen>,
    batch: u32,
    /// Rows of the Cholesky factor of the measurements' covariance, the diagonal last.
    rows: Vec<Vec<f64>>,
    /// Measurements in the coordinates in which they are independent.
    free: Vec<f64>,
    factors: usize,
    widths: Widths,
    sigma: f64,
    /// Level that all measurements are counted from.
    zero: Option<f64>,
    /// Number of measurements from which the widths are estimated anew.
    refit_at: usize,
    /// Covariance of two points by the number of levels that they share.
    shared: Vec<f64>,
}

/// Sum of products, as far as both go: in four sums, which the processor makes at once.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let both = a.len().min(b.len());
    let (a, b) = (a.get(..both).unwrap_or(a), b.get(..both).unwrap_or(b));
    let (fours, rest) = (a.chunks_exact(4), b.chunks_exact(4));
    let tail: f64 = fours.remainder().iter().zip(rest.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; 4];
    for (a, b) in fours.zip(rest) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + tail
}

/// Ways to choose `k` of `n`.
fn choose(n: usize, k: usize) -> f64 {
    if k > n {
        return 0.0;
    }
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

fn shared(factors: usize, [shape, spread, _]: Widths) -> Vec<f64> {
    let [alone, pairs, own] = SHAPES.get(shape).copied().unwrap_or([1.0, 0.0, 0.0]);
    let variance = 2_f64.powi(i32::try_from(spread).unwrap_or(0));
    let share = |same: usize, order: usize| choose(same, order) / choose(factors, order).max(1.0);
    let of = |same: usize| {
        let whole = if same == factors { 0.5 } else { 0.0 };
        let triples = if factors > 3 { 0.5 * share(same, 3) } else { whole };
        variance * (alone * share(same, 1) + pairs * share(same, 2) + own * (whole + triples))
    };
    (0..=factors).map(of).collect()
}

impl Belief {
    pub(super) fn new(factors: usize) -> Self {
        let widths = [1, 5, 1];
        Self {
            pool: Vec::new(),
            seen: Vec::new(),
            batch: 0,
            rows: Vec::new(),
            free: Vec::new(),
            factors,
            widths,
            sigma: NOISE.0,
            zero: None,
            refit_at: 8,
            shared: shared(factors, widths),
        }
    }

    pub(super) fn pool(&self) -> &[Place] {
        &self.pool
    }

    pub(super) fn find(&self, point: &[usize]) -> Option<usize> {
        self.pool.iter().position(|p| p.point == point)
    }

    /// Takes a point into the pool, with what the model says of it (more is better).
    pub(super) fn meet(&mut self, point: Vec<usize>, prior: f64) {
        let mut place =
            Place { point, mean: 0.0, runs: 0, prior, variance: 0.0, along: Vec::new() };
        place.variance = covariance(&self.shared, &place, &place);
        for (at, seen) in (0..self.rows.len()).zip(&self.seen) {
            if let Some(measured) = self.pool.get(seen.place) {
                let cov = covariance(&self.shared, &place, measured);
                self.extend(&mut place, cov, at);
            }
        }
        self.pool.push(place);
    }

    /// The points that the model likes best, best first; none where it knows nothing.
    pub(super) fn promising(&self, most: usize) -> Vec<usize> {
        let liked = self.pool.iter().enumerate().filter(|(_, place)| place.prior > 0.0);
        let mut liked: Vec<(usize, f64)> = liked.map(|(at, place)| (at, place.prior)).collect();
        liked.order_by(|a, b| b.1.total_cmp(&a.1));
        liked.into_iter().take(most).map(|(at, _)| at).collect()
    }

    /// Begins a batch.
    pub(super) fn begin(&mut self) {
        self.batch += 1;
    }

    /// The point with the highest estimate.
    pub(super) fn leader(&self, open: impl Fn(usize) -> bool) -> Option<usize> {
        let places = self.pool.iter().enumerate().filter(|(at, _)| open(*at));
        places.max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean)).map(|(at, _)| at)
    }

    /// The point of which one more measurement is expected to gain most over the leader (the
    /// knowledge gradient): a tie of two that are well known has nothing left to gain.
    pub(super) fn rival(&self, leader: usize, open: impl Fn(usize) -> bool) -> Option<usize> {
        let first = self.pool.get(leader)?;
        let gain = |other: &Place| {
            let both = covariance(&self.shared, first, other) - dot(&first.along, &other.along);
            let sd = ((other.variance - both).abs() / (other.variance + 1.0).sqrt()).max(1e-9);
            expected_gain((other.mean - first.mean) / sd) + sd.ln()
        };
        let places = self.pool.iter().enumerate().filter(|(at, _)| *at != leader && open(*at));
        let gains = places.map(|(at, place)| (at, gain(place)));
        gains.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    /// True of a point that was never measured.
    pub(super) fn is_new(&self, place: usize) -> bool {
        self.pool.get(place).is_some_and(|p| p.runs == 0)
    }

    /// True of a point that was never measured and is one change away from another.
    pub(super) fn is_new_beside(&self, place: usize, other: &[usize]) -> bool {
        let changes = |p: &Place| p.point.iter().zip(other).filter(|(a, b)| a != b).count();
        self.is_new(place) && self.pool.get(place).is_some_and(|p| changes(p) == 1)
    }

    /// Counts on a measurement of a point in this batch.
    pub(super) fn expect(&mut self, place: usize) {
        self.seen.push(Seen { place, batch: self.batch, y: 0.0 });
        self.add_row();
    }

    /// Takes in what was measured of the batch that was counted on. A point that was measured before
    /// and lies further from its estimate than noise and ignorance explain is taken as far as they
    /// do: one cell in which the machine was busy must not outweigh all others. The first time
    /// nobody knows what is far.
    pub(super) fn learn(&mut self, measured: &[(usize, f64)]) {
        self.seen.retain(|s| s.batch != self.batch);
        let before = self.seen.len();
        self.rebuild(before);
        let off = |&(at, y): &(usize, f64)| Some(y - self.sigma * self.pool.get(at)?.mean);
        let known = |(at, _): &&(usize, f64)| !self.is_new(*at);
        let level = median(&measured.iter().filter(known).filter_map(off).collect::<Vec<_>>())
            .or_else(|| median(&measured.iter().filter_map(off).collect::<Vec<_>>()));
        self.zero = self.zero.or(level);
        let zero = self.zero.unwrap_or(0.0);
        for &(at, y) in measured {
            let Some(place) = self.pool.get_mut(at) else { continue };
            let (mean, sd) = (self.sigma * place.mean, self.sigma * (1.0 + place.variance).sqrt());
            let expected = level.unwrap_or(0.0) + mean;
            let most = if place.runs == 0 { f64::INFINITY } else { FURTHEST * sd };
            let y = expected + (y - expected).clamp(-most, most) - zero;
            place.runs += 1;
            self.seen.push(Seen { place: at, batch: self.batch, y });
        }
        if self.seen.len() >= self.refit_at {
            self.refit_at = self.seen.len() * 5 / 4 + 1;
            self.refit();
            self.rebuild(0);
        } else {
            self.rebuild(before);
        }
    }

    /// Computes the rows from `from` on anew.
    fn rebuild(&mut self, from: usize) {
        self.rows.truncate(from);
        self.free.truncate(from);
        for place in &mut self.pool {
            place.variance = covariance(&self.shared, place, place);
            place.along.truncate(from);
            place.variance -= dot(&place.along, &place.along);
            place.mean = dot(&place.along, &self.free);
        }
        while self.rows.len() < self.seen.len() {
            self.add_row();
        }
    }

    fn add_row(&mut self) {
        let at = self.rows.len();
        let Some((row, free)) = self.row(at, &self.shared, self.widths) else { return };
        self.rows.push(row);
        self.free.push(free);
        let Some(measured) = self.seen.get(at).and_then(|s| self.pool.get(s.place)).cloned() else {
            return;
        };
        let mut pool = std::mem::take(&mut self.pool);
        for place in &mut pool {
            let cov = covariance(&self.shared, place, &measured);
            self.extend(place, cov, at);
        }
        self.pool = pool;
    }

    /// Row `at` of the factor and what is new in the measurement.
    fn row(&self, at: usize, shared: &[f64], widths: Widths) -> Option<(Vec<f64>, f64)> {
        let change = CHANGES.get(widths[2]).copied().unwrap_or(1.0);
        let this = self.seen.get(at)?;
        let place = self.pool.get(this.place)?;
        let mut row: Vec<f64> = Vec::with_capacity(at + 1);
        for (other, above) in self.seen.iter().zip(&self.rows) {
            let level = LEVEL + change * f64::from(other.batch.min(this.batch));
            let cov = covariance(shared, place, self.pool.get(other.place)?) + level;
            let diagonal = above.last().copied().unwrap_or(1.0);
            row.push((cov - dot(&row, above)) / diagonal);
        }
        let level = LEVEL + change * f64::from(this.batch);
        let own = covariance(shared, place, place) + level + 1.0 - dot(&row, &row);
        let diagonal = own.max(1e-9).sqrt();
        let free = (this.y / self.sigma - dot(&row, &self.free)) / diagonal;
        row.push(diagonal);
        Some((row, free))
    }

    /// Takes row `at` into the estimate of a point that has the covariance `cov` with it.
    fn extend(&self, place: &mut Place, cov: f64, at: usize) {
        let (Some(row), Some(free)) = (self.rows.get(at), self.free.get(at)) else { return };
        let element = (cov - dot(&place.along, row)) / row.last().copied().unwrap_or(1.0);
        place.along.push(element);
        place.variance -= element * element;
        place.mean += element * free;
    }

    /// Finds widths under which the measurements are likelier.
    fn refit(&mut self) {
        let mut best = (f64::NEG_INFINITY, self.widths, self.sigma);
        let mut tried: Vec<Widths> = Vec::new();
        loop {
            let from = best.1;
            let [shape, spread, change] = from;
            let near = [
                from,
                [shape + 1, spread, change],
                [shape.wrapping_sub(1), spread, change],
                [shape, spread + 1, change],
                [shape, spread.wrapping_sub(1), change],
                [shape, spread, change + 1],
                [shape, spread, change.wrapping_sub(1)],
            ];
            for widths in near {
                let [shape, spread, change] = widths;
                let is_one = shape < SHAPES.len() && spread < SPREADS && change < CHANGES.len();
                if is_one && !tried.contains(&widths) {
                    tried.push(widths);
                    let (likelihood, sigma) = self.likelihood(widths);
                    if likelihood > best.0 {
                        best = (likelihood, widths, sigma);
                    }
                }
            }
            if best.1 == from {
                break;
            }
        }
        (_, self.widths, self.sigma) = best;
        self.shared = shared(self.factors, self.widths);
    }

    /// Logarithm of the likelihood of all measurements, and the noise under which it is largest.
    fn likelihood(&mut self, widths: Widths) -> (f64, f64) {
        let shared = shared(self.factors, widths);
        self.sigma = 1.0;
        self.rows.clear();
        self.free.clear();
        let mut determinant = 0.0;
        for at in 0..self.seen.len() {
            let Some((row, free)) = self.row(at, &shared, widths) else { break };
            determinant += row.last().copied().unwrap_or(1.0).ln();
            self.rows.push(row);
            self.free.push(free);
        }
        let (noise, worth) = NOISE;
        let n = worth + self.seen.len() as f64;
        let variance = (noise * noise * worth + dot(&self.free, &self.free)) / n;
        (-n / 2.0 * variance.ln() - determinant, variance.sqrt())
    }
}

fn covariance(shared: &[f64], a: &Place, b: &Place) -> f64 {
    let same = a.point.iter().zip(&b.point).filter(|(a, b)| a == b).count();
    shared.get(same).copied().unwrap_or(0.0) + SLOPE * a.prior * b.prior
}

/// Logarithm of the expectation of what a standard normal value, moved by `z`, has above zero.
fn expected_gain(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z < -3.0 {
        // By the tail's expansion: the difference of two nearly equal figures is noise there.
        return -z * z / 2.0 - 2.0 * (-z).ln() - std::f64::consts::TAU.sqrt().ln();
    }
    (density + z * below(z)).max(1e-300).ln()
}

/// Probability of a standard normal value below `z`, to 1e-7 (Abramowitz and Stegun 26.2.17).
fn below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let sum = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = sum * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z > 0.0 { 1.0 - tail } else { tail }
}
