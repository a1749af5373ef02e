//! A change of level within one series: something happened while it was measured.

use super::stats::{mean, t_quantile};

/// Levels of a series before and after a place in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelShift {
    /// Values before it.
    pub at: usize,
    /// Their mean.
    pub before: f64,
    /// Mean of the others.
    pub after: f64,
}

/// The fewest values in which a shift is looked for, and the fewest on either side of it.
const LEAST: (usize, usize) = (8, 2);
/// Share of steady series in which one is found all the same.
const LEVEL: f64 = 0.003;
/// A smaller change is of no interest: of a tenth.
const WORTH_TELLING: f64 = 0.1;

/// The place where a series of positive values falls best into two levels, if these differ by a
/// tenth or more and by more than its noise makes likely, looked for at all places. Neighbours may be
/// alike: the noise counts as that of a series of the first order.
#[must_use]
pub fn level_shift(values: &[f64]) -> Option<LevelShift> {
    let n = values.len();
    if n < LEAST.0 {
        return None;
    }
    let places = LEAST.1..=n - LEAST.1;
    let tried = places.clone().count() as f64;
    let cut = |at: usize| {
        let (left, right) = values.split_at_checked(at)?;
        let (before, after) = (mean(left)?, mean(right)?);
        let off = left.iter().map(|v| v - before).chain(right.iter().map(|v| v - after));
        let off: Vec<f64> = off.collect();
        let squares: f64 = off.iter().map(|d| d * d).sum();
        Some((squares, off, LevelShift { at, before, after }))
    };
    let (squares, off, shift) = places.filter_map(cut).min_by(|a, b| a.0.total_cmp(&b.0))?;
    if !(shift.before > 0.0 && shift.after > 0.0)
        || (shift.after / shift.before).ln().abs() < WORTH_TELLING.ln_1p()
    {
        return None;
    }
    let (n, at) = (n as f64, shift.at as f64);
    let neighbours: f64 = off.iter().zip(off.iter().skip(1)).map(|(a, b)| a * b).sum();
    // The two means, and the choice of the place, take a bit of the correlation with them.
    let alike = if squares > 0.0 { neighbours / squares + 4.0 / n } else { 0.0 }.clamp(0.0, 0.9);
    let error = squares / (n - 2.0) * (1.0 / at + 1.0 / (n - at)) * (1.0 + alike) / (1.0 - alike);
    let t = t_quantile(1.0 - LEVEL / tried, n - 2.0)?;
    ((shift.after - shift.before).powi(2) > t * t * error).then_some(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(rng: &mut fastrand::Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * rng.f64()).cos()
    }

    /// A series of so many values about 100, each like the last by `alike`, and from `at` on at
    /// `level` times that.
    fn series(rng: &mut fastrand::Rng, n: usize, cv: f64, alike: f64, heavy: bool) -> Vec<f64> {
        let mut now = normal(rng);
        let step = |_| {
            let mut draw = normal(rng);
            if heavy {
                draw /= ((0..3).map(|_| normal(rng).powi(2)).sum::<f64>()).sqrt();
            }
            now = alike * now + (1.0 - alike * alike).sqrt() * draw;
            100.0 * (cv * now).exp()
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn steady_series_are_hardly_ever_called_anything_else() {
        let mut rng = fastrand::Rng::with_seed(7);
        for (n, cv, alike, heavy) in [
            (10, 0.02, 0.0, false),
            (10, 0.2, 0.0, false),
            (60, 0.2, 0.0, false),
            (10, 0.2, 0.3, false),
            (60, 0.2, 0.5, false),
            (10, 0.2, 0.0, true),
            (60, 0.05, 0.5, true),
        ] {
            let false_alarms = (0..2000)
                .filter(|_| level_shift(&series(&mut rng, n, cv, alike, heavy)).is_some())
                .count();
            println!("{n} {cv} {alike} {heavy}: {false_alarms} of 2000");
            assert!(false_alarms <= 40, "{n} {cv} {alike} {heavy}: {false_alarms} of 2000");
        }
    }

    #[test]
    fn a_level_that_changes_by_a_third_is_found_where_it_did() {
        let mut rng = fastrand::Rng::with_seed(8);
        let found = (0..200).filter(|_| {
            let mut values = series(&mut rng, 10, 0.03, 0.0, false);
            values.iter_mut().skip(6).for_each(|v| *v *= 0.67);
            level_shift(&values).is_some_and(|shift| shift.at == 6)
        });
        assert!(found.count() >= 195);
        let step = [10.0, 10.0, 10.0, 10.0, 5.0, 5.0, 5.0, 5.0];
        let shift = level_shift(&step).unwrap();
        assert_eq!((shift.at, shift.before, shift.after), (4, 10.0, 5.0));
        assert_eq!(level_shift(&step[..7]), None, "too few");
        assert_eq!(level_shift(&[1.0; 9]), None);
        assert_eq!(level_shift(&[0.0; 9]), None);
    }
}
