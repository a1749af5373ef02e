//! One run against another, made at another time or on another machine.
//!
//! Nothing is paired here, and whatever changed between the runs is in the ratio without being in its
//! interval: the repeats of a run only tell how much one run varies in itself. That is why cells of
//! one experiment are compared within blocks instead (see [`super::analyse`]).

use super::CONFIDENCE;
use super::stats::{mean, t_quantile};

/// The values of a run against those of another.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Between {
    /// Geometric mean of the first.
    pub a: f64,
    /// Geometric mean of the second.
    pub b: f64,
    /// Second over first.
    pub ratio: f64,
    /// The ratio's 95 % interval; `None` where either has a single value.
    pub interval: Option<(f64, f64)>,
}

/// Compares `b` with `a` by Welch's interval of the logarithms; `None` where either has no value
/// above zero.
#[must_use]
pub fn between(a: &[f64], b: &[f64]) -> Option<Between> {
    let logs = |values: &[f64]| -> Vec<f64> {
        values.iter().filter(|v| **v > 0.0 && v.is_finite()).map(|v| v.ln()).collect()
    };
    let (a, b) = (logs(a), logs(b));
    let (mean_a, mean_b) = (mean(&a)?, mean(&b)?);
    let difference = mean_b - mean_a;
    let half = half_width((&a, mean_a), (&b, mean_b));
    Some(Between {
        a: mean_a.exp(),
        b: mean_b.exp(),
        ratio: difference.exp(),
        interval: half.map(|half| ((difference - half).exp(), (difference + half).exp())),
    })
}

/// Half the width of Welch's interval, with the degrees of freedom by Welch and Satterthwaite.
fn half_width((a, mean_a): (&[f64], f64), (b, mean_b): (&[f64], f64)) -> Option<f64> {
    // Variance of the mean, and its share of the degrees of freedom.
    let part = |values: &[f64], mean: f64| {
        let freedom = values.len() as f64 - 1.0;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        (freedom > 0.0).then(|| {
            let variance = squares / freedom / values.len() as f64;
            (variance, variance * variance / freedom)
        })
    };
    let ((var_a, weight_a), (var_b, weight_b)) = (part(a, mean_a)?, part(b, mean_b)?);
    let variance = var_a + var_b;
    if variance <= 0.0 {
        return Some(0.0);
    }
    Some(t_quantile(CONFIDENCE, variance * variance / (weight_a + weight_b))? * variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_one_of_scipy() {
        // scipy 1.17.1: ttest_ind(log(b), log(a), equal_var=False).confidence_interval()
        let a = [941.2, 938.7, 940.1, 935.5];
        let b = [1012.3, 1030.9, 998.4, 1021.7, 1005.0];
        let ours = between(&a, &b).unwrap();
        let (low, high) = ours.interval.unwrap();
        for (ours, theirs) in [
            (ours.ratio, 1.079_586_177_858_635_6),
            (low, 1.062_789_854_003_051),
            (high, 1.096_647_950_705_851_7),
        ] {
            assert!((ours - theirs).abs() < 1e-9, "{ours} {theirs}");
        }
    }

    #[test]
    fn a_single_value_has_no_interval() {
        assert_eq!(between(&[100.0], &[110.0, 111.0]).unwrap().interval, None);
        let single = between(&[100.0], &[110.0]).unwrap();
        assert!((single.ratio - 1.1).abs() < 1e-12 && single.interval.is_none());
        assert_eq!(
            between(&[100.0; 3], &[50.0; 3]).unwrap().interval.map(|i| i.0 < 0.51),
            Some(true)
        );
    }

    #[test]
    fn what_is_no_rate_is_left_out() {
        assert_eq!(between(&[], &[1.0]), None);
        assert_eq!(between(&[0.0, f64::NAN], &[1.0]), None);
    }
}
