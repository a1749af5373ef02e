//! The statistics, each checked against SciPy and statsmodels (fixtures/statistics).

use super::CONFIDENCE;
use crate::model::order::InOrder;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Up to this many blocks all sign patterns are tried (32768, the mirrored half being equal);
/// beyond, a random sample of them.
pub const EXACT_BLOCKS: usize = 16;

/// Sign patterns drawn where they are too many to try all.
pub const DRAWS: u32 = 40_000;

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub mean: f64,
    /// Half of the interval's width.
    pub half: f64,
}

impl Interval {
    /// Lower end.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.mean - self.half
    }

    /// Upper end.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.mean + self.half
    }
}

/// Arithmetic mean; `None` of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle value, or the mean of the two in the middle; `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.order_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(lower.midpoint(upper))
}

/// Student's t such that a share `confidence` lies between minus and plus it.
#[must_use]
pub fn t_quantile(confidence: f64, freedom: f64) -> Option<f64> {
    let upper = 0.5 + confidence / 2.0;
    let law = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(law.inverse_cdf(upper)).filter(|t| t.is_finite())
}

/// Mean with its t interval; `None` for fewer than two values.
#[must_use]
pub fn t_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let mean = mean(values)?;
    let n = values.len() as f64;
    let freedom = n - 1.0;
    let t = t_quantile(confidence, freedom)?;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / freedom;
    Some(Interval { mean, half: t * (variance / n).sqrt() })
}

/// Mean of a series with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesInterval {
    /// The mean.
    pub mean: f64,
    /// Half of the interval's width.
    pub half: f64,
    /// The same if the spread were known and not estimated from these few values: what it comes
    /// down to in a longer series, but for the square root of its length.
    pub wide: f64,
}

/// The fewest values of a series from which an interval is made.
const LEAST_SERIES: usize = 8;

/// Most values that an interval is made of: a longer series is made shorter by taking the means of
/// equally many neighbours, which are less alike than the neighbours themselves.
const MOST_SERIES: usize = 60;

/// Half of the interval over the error of the mean of independent values, as a logarithm: the rows
/// are the powers of the correlation of neighbours as it came out, the columns those of one over the
/// length. For series of the first order of 8 to 60 values and with correlations of 0 to 0.8, this
/// surface lets 93.4 to 96.2 % of the intervals hold the mean (fitted to 4,000 simulated series of
/// each kind, tried on 20,000 others): few values may well look less alike than they are, and no
/// formula for long series knows how often.
const HALF_WIDTH: [[f64; 3]; 3] =
    [[0.688, -0.356, 123.6], [0.208, 37.29, 1.14], [0.666, 38.55, -306.1]];

/// Mean of values that follow each other in time, with its 95 % interval. Neighbours may be alike.
/// `None` for fewer than eight values.
#[must_use]
pub fn series_interval(values: &[f64]) -> Option<SeriesInterval> {
    let middle = mean(values).filter(|_| values.len() >= LEAST_SERIES)?;
    let batch = values.len().div_ceil(MOST_SERIES);
    let off: Vec<f64> =
        values.chunks_exact(batch).filter_map(mean).map(|level| level - middle).collect();
    let n = off.len() as f64;
    let squares: f64 = off.iter().map(|d| d * d).sum();
    if squares <= 0.0 {
        return Some(SeriesInterval { mean: middle, half: 0.0, wide: 0.0 });
    }
    let neighbours: f64 = off.iter().zip(off.iter().skip(1)).map(|(a, b)| a * b).sum();
    let seen = neighbours / squares;
    // The surface is not meant for what swings to and fro.
    let power = |row: &[f64; 3]| row.iter().rev().fold(0.0, |sum, term| sum / n + term);
    let raised = HALF_WIDTH.iter().rev().fold(0.0, |sum, row| sum * seen.max(-0.5) + power(row));
    // Its estimate corrected for the length, as Marriott and Pope do.
    let alike = ((seen + 1.0 / n) / (1.0 - 3.0 / n)).clamp(0.0, 0.9);
    let independent = (n * (1.0 - alike) / (1.0 + alike)).max(1.5);
    let error = (squares / (n * (1.0 - 1.0 / independent)) / independent).sqrt();
    Some(SeriesInterval {
        mean: middle,
        half: raised.exp() * squares.sqrt() / n,
        wide: normal_quantile(CONFIDENCE) * error,
    })
}

/// Slope of the least-squares line through `(x, y)` points with its t interval; `None` for fewer
/// than three points or points all at one x.
#[must_use]
pub fn slope(points: &[(f64, f64)], confidence: f64) -> Option<Interval> {
    let n = points.len() as f64;
    let freedom = n - 2.0;
    let t = t_quantile(confidence, freedom)?;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n;
    let sxx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum::<f64>() / sxx;
    let rest: f64 =
        points.iter().map(|p| (p.1 - mean_y - slope * (p.0 - mean_x)).powi(2)).sum::<f64>();
    Some(Interval { mean: slope, half: t * (rest / freedom / sxx).sqrt() })
}

/// Two-sided p of each column by flipping the signs of whole rows (blocks), each compared with
/// the largest |t| over all columns under the same flip: the chance that noise alone makes *any*
/// column look that strong. With one column it is the plain sign-flip test.
///
/// `columns[c][b]` is the contrast of column `c` in block `b`, `None` where it is missing.
/// A column without values has no p.
///
/// The observed pattern is among those counted, so that p is never 0; the smallest possible is
/// [`smallest_p`].
#[must_use]
pub fn sign_flip_max_t(columns: &[Vec<Option<f64>>], seed: u64) -> Vec<Option<f64>> {
    let blocks = columns.iter().map(Vec::len).max().unwrap_or(0);
    let thresholds: Vec<Option<f64>> = columns
        .iter()
        // A pattern that ties with the observed one in exact arithmetic must count as such.
        .map(|column| strength(column, |_| 1.0).map(|(v, n)| t_squared(v * (1.0 - 1e-10), n)))
        .collect();
    let strongest = |sign: &dyn Fn(usize) -> f64| {
        columns
            .iter()
            .filter_map(|column| strength(column, sign))
            .map(|(v, n)| t_squared(v, n))
            .fold(0.0, f64::max)
    };

    let mut reached = vec![0_u32; columns.len()];
    let mut count = |largest: f64| {
        for (reached, threshold) in reached.iter_mut().zip(&thresholds) {
            if threshold.is_some_and(|t| largest >= t) {
                *reached += 1;
            }
        }
    };
    let total = if blocks <= EXACT_BLOCKS {
        // A pattern and its mirror image give the same |t|: the first block keeps its sign.
        let patterns = 1_u32 << blocks.saturating_sub(1);
        for pattern in 0..patterns {
            count(strongest(&|block| if (pattern << 1) >> block & 1 == 1 { -1.0 } else { 1.0 }));
        }
        patterns
    } else {
        let mut rng = fastrand::Rng::with_seed(seed);
        count(strongest(&|_| 1.0));
        for _ in 0..DRAWS {
            let signs: Vec<f64> =
                (0..blocks).map(|_| if rng.bool() { 1.0 } else { -1.0 }).collect();
            count(strongest(&|block| signs.get(block).copied().unwrap_or(1.0)));
        }
        DRAWS + 1
    };
    reached
        .iter()
        .zip(&thresholds)
        .map(|(&reached, threshold)| threshold.map(|_| f64::from(reached) / f64::from(total)))
        .collect()
}

/// How strongly a column points one way: squared sum over n times the sum of squares (0 to 1),
/// and n. It grows with |t| but stays finite where all values are equal.
fn strength(column: &[Option<f64>], sign: impl Fn(usize) -> f64) -> Option<(f64, f64)> {
    let (mut sum, mut squares, mut n) = (0.0, 0.0, 0.0);
    for (block, value) in column.iter().enumerate() {
        if let Some(value) = value {
            sum += value * sign(block);
            squares += value * value;
            n += 1.0;
        }
    }
    (n > 0.0).then(|| (if squares > 0.0 { sum * sum / (n * squares) } else { 0.0 }, n))
}

/// Square of the t statistic from [`strength`].
fn t_squared(strength: f64, n: f64) -> f64 {
    if strength >= 1.0 { f64::INFINITY } else { (n - 1.0) * strength / (1.0 - strength) }
}

/// The smallest two-sided p that a sign-flip test over so many blocks can give.
#[must_use]
pub fn smallest_p(blocks: usize) -> f64 {
    if blocks > EXACT_BLOCKS {
        return 1.0 / f64::from(DRAWS + 1);
    }
    (1.0 - blocks as f64).exp2().min(1.0)
}

/// Probability that a standard normal value is below `z`, to 1e-7 (Abramowitz and Stegun 26.2.17).
#[must_use]
pub fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let sum = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = sum * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// Normal value such that a share `confidence` lies between minus and plus it.
fn normal_quantile(confidence: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 8.0_f64);
    for _ in 0..40 {
        let middle = low.midpoint(high);
        if normal_below(middle) < 0.5 + confidence / 2.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Tukey's studentised range: the width, in standard errors of one mean, that the range of `groups`
/// equal means exceeds with a probability of one minus `confidence`, the standard deviation being
/// known with `freedom` degrees of freedom. To 1e-4; `None` for fewer than two groups.
#[must_use]
pub fn studentised_range(confidence: f64, groups: usize, freedom: f64) -> Option<f64> {
    let two = t_quantile(confidence, freedom)? * std::f64::consts::SQRT_2;
    if groups <= 2 {
        return (groups == 2).then_some(two);
    }
    let others = i32::try_from(groups - 1).ok()?;
    // Probability that the range of as many standard normal values is below `width`.
    let range_below = |width: f64| {
        let step = 1.0 / 8.0;
        let at = |i: i32| {
            let z = f64::from(i) * step;
            (-z * z / 2.0).exp() * (normal_below(z) - normal_below(z - width)).powi(others)
        };
        let sum: f64 = (-64..=64).map(at).sum();
        f64::from(others + 1) * sum * step / std::f64::consts::TAU.sqrt()
    };
    // The same for a standard deviation that is itself estimated: its law, in 60 steps.
    let spread = 1.0 / (2.0 * freedom).sqrt();
    let law: Vec<(f64, f64)> = (-30..=50)
        .map(|i| 1.0 + f64::from(i) * 0.2 * spread)
        .filter(|s| *s > 0.0)
        .map(|s| (s, ((freedom - 1.0) * s.ln() - freedom * (s * s - 1.0) / 2.0).exp()))
        .collect();
    let whole: f64 = law.iter().map(|(_, weight)| weight).sum();
    let below = |q: f64| law.iter().map(|(s, w)| w * range_below(q * s)).sum::<f64>() / whole;
    let (mut low, mut high) = (two, 2.0 * two);
    while below(high) < confidence {
        high *= 1.5;
    }
    while high - low > 1e-4 * low {
        let middle = low.midpoint(high);
        if below(middle) < confidence { low = middle } else { high = middle }
    }
    Some(low.midpoint(high))
}

/// Middle of a symmetric law, and an interval for it, by the ranks of the values (Hodges and
/// Lehmann, Wilcoxon): a few values far away on either side hardly move it. `None` for so few values
/// that no interval of that confidence exists.
#[must_use]
pub fn rank_interval(values: &[f64], confidence: f64) -> Option<(f64, f64, f64)> {
    let mut means: Vec<f64> = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (at, one) in values.iter().enumerate() {
        means.extend(values.iter().skip(at).map(|other| one.midpoint(*other)));
    }
    means.order_by(f64::total_cmp);
    // Of 2^n patterns of signs, the number that give each sum of positive ranks.
    let n = values.len();
    let tail = (1.0 - confidence) / 2.0;
    let cut = if n <= EXACT_BLOCKS {
        let mut ways = vec![0.0; means.len() + 1];
        ways.first_mut().map(|none| *none = 1.0)?;
        for rank in 1..=n {
            for sum in (rank..ways.len()).rev() {
                let more = ways.get(sum - rank).copied().unwrap_or(0.0);
                ways.get_mut(sum).map(|w| *w += more)?;
            }
        }
        let all = (n as f64).exp2();
        let mut below = 0.0;
        ways.iter()
            .take_while(|w| {
                below += **w;
                below / all <= tail
            })
            .count()
    } else {
        let (n, z) = (n as f64, normal_quantile(confidence));
        let sd = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        (n * (n + 1.0) / 4.0 - z * sd).floor() as usize
    };
    let low = *means.get(cut.checked_sub(1)?)?;
    let high = *means.get(means.len().checked_sub(cut)?)?;
    Some((median(&means)?, low, high))
}

/// Holm's adjustment of p values for testing all of them at once, in the order given.
#[must_use]
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = ps.iter().copied().enumerate().collect();
    order.order_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted: Vec<(usize, f64)> = Vec::with_capacity(ps.len());
    let mut floor = 0.0_f64;
    for (rank, (index, p)) in order.into_iter().enumerate() {
        floor = floor.max(((ps.len() - rank) as f64 * p).min(1.0));
        adjusted.push((index, floor));
    }
    adjusted.order_by_key(|(index, _)| *index);
    adjusted.into_iter().map(|(_, p)| p).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Results of SciPy and statsmodels; see fixtures/statistics/generate.py.
    fn oracle(name: &str) -> Vec<Value> {
        let all: Value =
            serde_json::from_str(include_str!("../../../fixtures/statistics/oracle.json")).unwrap();
        let cases = all[name].as_array().unwrap().clone();
        assert!(!cases.is_empty());
        cases
    }

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    }

    fn agree(ours: f64, theirs: &Value, what: &str) {
        let theirs = theirs.as_f64().unwrap();
        let scale = theirs.abs().max(1.0);
        assert!((ours - theirs).abs() <= 1e-9 * scale, "{what}: ours {ours}, oracle {theirs}");
    }

    #[test]
    fn t_quantiles_agree_with_scipy() {
        for case in oracle("t_quantile") {
            let (c, f) = (case["confidence"].as_f64().unwrap(), case["freedom"].as_f64().unwrap());
            agree(t_quantile(c, f).unwrap(), &case["t"], &format!("t({c}, {f})"));
        }
    }

    #[test]
    fn intervals_and_medians_agree_with_scipy() {
        for case in oracle("t_interval") {
            let values = numbers(&case["values"]);
            let ours = t_interval(&values, case["confidence"].as_f64().unwrap()).unwrap();
            agree(ours.mean, &case["mean"], "mean");
            agree(ours.low(), &case["low"], "low");
            agree(ours.high(), &case["high"], "high");
            agree(median(&values).unwrap(), &case["median"], "median");
        }
    }

    #[test]
    fn slopes_agree_with_scipy() {
        for case in oracle("slope") {
            let points: Vec<_> = (0..).map(f64::from).zip(numbers(&case["values"])).collect();
            let ours = slope(&points, 0.95).unwrap();
            agree(ours.mean, &case["slope"], "slope");
            agree(ours.low(), &case["low"], "low");
            agree(ours.high(), &case["high"], "high");
        }
    }

    #[test]
    fn sign_flip_agrees_with_scipys_exact_permutation_test() {
        for case in oracle("sign_flip") {
            let column: Vec<_> = numbers(&case["values"]).into_iter().map(Some).collect();
            let p = sign_flip_max_t(&[column], 1)[0].unwrap();
            agree(p, &case["p"], "p");
        }
    }

    #[test]
    fn max_t_agrees_with_brute_force() {
        for case in oracle("max_t") {
            let columns: Vec<Vec<Option<f64>>> = case["columns"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c.as_array().unwrap().iter().map(Value::as_f64).collect())
                .collect();
            let ps = sign_flip_max_t(&columns, 1);
            for (ours, theirs) in ps.iter().zip(case["p"].as_array().unwrap()) {
                agree(ours.unwrap(), theirs, "max-T p");
            }
        }
    }

    #[test]
    fn holm_agrees_with_statsmodels() {
        for case in oracle("holm") {
            for (ours, theirs) in
                holm(&numbers(&case["p"])).iter().zip(case["adjusted"].as_array().unwrap())
            {
                agree(*ours, theirs, "holm");
            }
        }
    }

    #[test]
    fn beyond_sixteen_blocks_the_sampled_p_is_near_the_exact_one() {
        // 17 blocks, checked against all 65536 half patterns with the same statistic.
        let values: Vec<f64> = (0..17).map(|i| f64::from((i * 7) % 11) - 3.9).collect();
        let observed: f64 = values.iter().sum::<f64>().abs();
        let exact = (0_u32..1 << 16)
            .filter(|pattern| {
                let sum: f64 = values
                    .iter()
                    .enumerate()
                    .map(|(b, v)| if (pattern << 1) >> b & 1 == 1 { -v } else { *v })
                    .sum();
                sum.abs() >= observed - 1e-9
            })
            .count() as f64
            / f64::from(1 << 16);
        let column: Vec<_> = values.into_iter().map(Some).collect();
        let sampled = sign_flip_max_t(std::slice::from_ref(&column), 9)[0].unwrap();
        assert!((sampled - exact).abs() < 0.012, "sampled {sampled}, exact {exact}");
        assert_eq!(sign_flip_max_t(&[column], 9)[0].unwrap(), sampled, "same seed, same p");
    }

    #[test]
    fn the_smallest_p_is_reached_when_all_blocks_agree() {
        for blocks in 2..=10 {
            let column = vec![Some(0.3); blocks];
            let p = sign_flip_max_t(&[column], 1)[0].unwrap();
            assert!((p - smallest_p(blocks)).abs() < 1e-15, "{blocks} blocks: {p}");
        }
        assert!((smallest_p(5) - 1.0 / 16.0).abs() < 1e-15);
    }

    #[test]
    fn the_studentised_range_is_the_one_of_scipy() {
        // scipy 1.17: studentized_range.ppf(0.95, groups, freedom)
        for (groups, freedom, theirs) in [
            (2, 9.0, 3.199_173),
            (3, 10.0, 3.876_777),
            (4, 27.0, 3.870_086),
            (10, 20.0, 5.007_883),
            (16, 135.0, 4.938_145),
            (64, 567.0, 5.841_486),
            (64, 10.0, 7.800_205),
        ] {
            let ours = studentised_range(0.95, groups, freedom).unwrap();
            assert!((ours / theirs - 1.0_f64).abs() < 5e-4, "{groups} {freedom}: {ours}, {theirs}");
        }
        assert_eq!(studentised_range(0.95, 1, 9.0), None);
    }

    #[test]
    fn the_interval_by_ranks_is_that_of_wilcoxons_table() {
        // n = 10, two-sided 5 %: the sum of ranks may be 8, so the 9th mean of each side bounds it.
        let values = [1.0, 2.0, 4.0, 7.0, 11.0, 16.0, 22.0, 29.0, 37.0, 46.0];
        let mut means: Vec<f64> = Vec::new();
        for (at, a) in values.iter().enumerate() {
            means.extend(values.iter().skip(at).map(|b| (a + b) / 2.0));
        }
        means.sort_by(f64::total_cmp);
        let (_, low, high) = rank_interval(&values, 0.95).unwrap();
        assert_eq!((low, high), (means[8], means[means.len() - 9]));
        assert_eq!(rank_interval(&values[..5], 0.95), None, "five can't show 5 %");
        let (middle, _, high) =
            rank_interval(&[1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1e6], 0.95).unwrap();
        assert!((middle - 1.0).abs() < 0.1 && high > 1.0, "{middle} {high}");
        let many: Vec<f64> = (0..101).map(f64::from).collect();
        let (middle, low, high) = rank_interval(&many, 0.95).unwrap();
        assert!(middle == 50.0 && (43.0..46.0).contains(&low) && (54.0..57.0).contains(&high));
    }

    /// Pieces of one run are alike where they follow each other; an interval that took them for
    /// independent would hold the truth in half of the runs.
    #[test]
    fn the_interval_of_a_series_holds_the_truth_also_where_neighbours_are_alike() {
        let mut rng = fastrand::Rng::with_seed(4);
        let mut normal = || {
            let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
            radius * (std::f64::consts::TAU * rng.f64()).cos()
        };
        for length in [10, 15, 20, 30, 45, 60, 300] {
            for alike in [0.0, 0.3, 0.5, 0.7, 0.8] {
                let runs = if length > 60 { 1000 } else { 3000 };
                let mut held = 0;
                for _ in 0..runs {
                    let mut now = normal();
                    let step = |_| {
                        let next = now;
                        now = alike * now + (1.0 - alike * alike).sqrt() * normal();
                        100.0 + next
                    };
                    let values: Vec<f64> = (0..length).map(step).collect();
                    let found = series_interval(&values).unwrap();
                    held += u32::from((found.mean - 100.0).abs() <= found.half);
                }
                let share = f64::from(held) / f64::from(runs);
                println!("{length} pieces, {alike}: {share}");
                assert!((0.93..=0.97).contains(&share), "{length} pieces, {alike}: {share}");
            }
        }
        assert_eq!(series_interval(&[1.0; 7]), None);
        assert_eq!(series_interval(&[5.0; 9]).unwrap().half, 0.0);
    }

    #[test]
    fn nothing_in_nothing_out() {
        assert_eq!(mean(&[]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(t_interval(&[1.0], 0.95), None);
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 2.0)], 0.95), None);
        assert_eq!(slope(&[(1.0, 1.0), (1.0, 2.0), (1.0, 2.0)], 0.95), None);
        assert_eq!(sign_flip_max_t(&[], 1), Vec::<Option<f64>>::new());
        assert_eq!(sign_flip_max_t(&[vec![None, None]], 1), vec![None]);
        assert_eq!(sign_flip_max_t(&[vec![Some(0.0); 4]], 1), vec![Some(1.0)]);
    }
}
