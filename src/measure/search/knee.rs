//! Knee: the rate at which the achieved rate stops following the offered one.
//!
//! ```text
//!   achieved                      The share achieved / offered of each offered rate, with its t
//!      │        ___________       interval over the repeats, says whether the rate was followed: at
//!      │      ╱ |                 least 1 - tolerance. The knee lies between the highest rate up to
//!      │    ╱   |                 which all were followed and the next that clearly was not.
//!      │  ╱     |                 Within these two, the estimate is where the straight line through
//!      └────────┴────────────     the origin and the best line through the rest meet (least squares).
//!        holds  fails   offered
//! ```
//!
//! The line is laid through the median of each rate's repeats: one run in which the machine stood
//! still widens the bracket, as it must, but does not move the estimate.
//!
//! A threshold decides and not the fit alone: a router that collapses behind its knee, or one that
//! loses a little everywhere, has a best fit as well, but it says nothing.

use crate::decide::experiment::CONFIDENCE;
use crate::decide::experiment::stats::{mean, median, t_interval};
use crate::model::order::InOrder;
use crate::model::sweep::{Knee, KneeVerdict};

/// The share of the offered rate that may be missing: what a generator's own unevenness makes.
pub const TOLERANCE: f64 = 0.02;
/// Points of the grid on which the best place for the knee is looked for.
const GRID: u32 = 400;

/// One run: any two rates of the same unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Offered rate.
    pub offered: f64,
    /// Achieved rate.
    pub achieved: f64,
    /// Mark of the offered rate that the point repeats: points with the same mark belong together,
    /// since the rate that is really sent differs a little from run to run.
    pub level: f64,
}

struct Level {
    offered: f64,
    followed: Followed,
    repeated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    Yes,
    No,
    Unclear,
}

/// Finds the knee; `None` without a point that says anything.
#[must_use]
pub fn knee(points: &[Point], tolerance: f64) -> Option<Knee> {
    let mut points: Vec<Point> =
        points.iter().copied().filter(|p| p.offered > 0.0 && p.achieved.is_finite()).collect();
    points.order_by(|a, b| a.level.total_cmp(&b.level));
    let levels: Vec<Level> =
        points.chunk_by(|a, b| a.level == b.level).filter_map(|l| level(l, tolerance)).collect();
    let maximum = levels.last()?.offered;
    // Rates that are unclear belong to neither side: the knee may be at any of them.
    let holding = levels.iter().take_while(|l| l.followed == Followed::Yes).last();
    let failing = levels.iter().find(|l| l.followed == Followed::No);
    let verdict = match (holding, failing) {
        (Some(_), Some(_)) => KneeVerdict::Found,
        (None, Some(_)) => KneeVerdict::BelowLowest,
        (_, None) if levels.iter().all(|l| l.followed == Followed::Yes) => {
            KneeVerdict::NoneUpToMaximum
        }
        (_, None) => KneeVerdict::Undecided,
    };
    let (holds_up_to, fails_at) = (holding.map(|l| l.offered), failing.map(|l| l.offered));
    let middles: Vec<Point> =
        points.chunk_by(|a, b| a.level == b.level).filter_map(middle).collect();
    let estimate = holds_up_to.zip(fails_at).map(|(from, to)| fit(&middles, from, to));
    let has_intervals = levels.iter().all(|l| l.repeated);
    Some(Knee { verdict, tolerance, holds_up_to, fails_at, estimate, maximum, has_intervals })
}

fn level(points: &[Point], tolerance: f64) -> Option<Level> {
    let shares: Vec<f64> = points.iter().map(|p| p.achieved / p.offered).collect();
    let offered = mean(&points.iter().map(|p| p.offered).collect::<Vec<_>>())?;
    let least = 1.0 - tolerance;
    let interval = t_interval(&shares, CONFIDENCE);
    let followed = match interval {
        Some(i) if i.low() >= least => Followed::Yes,
        Some(i) if i.high() < least => Followed::No,
        Some(_) => Followed::Unclear,
        None if mean(&shares)? >= least => Followed::Yes,
        None => Followed::No,
    };
    Some(Level { offered, followed, repeated: interval.is_some() })
}

/// The medians of an offered rate's repeats.
fn middle(points: &[Point]) -> Option<Point> {
    let of = |value: fn(&Point) -> f64| median(&points.iter().map(value).collect::<Vec<_>>());
    let level = points.first()?.level;
    Some(Point { offered: of(|p| p.offered)?, achieved: of(|p| p.achieved)?, level })
}

/// The knee between two rates that leaves the smallest squares: y = x up to it, a line of any slope
/// from there on.
fn fit(points: &[Point], from: f64, to: f64) -> f64 {
    let mut best = (f64::INFINITY, from);
    for i in 0..=GRID {
        let knee = from + (to - from) * f64::from(i) / f64::from(GRID);
        let behind = || points.iter().filter(|p| p.offered > knee).map(|p| (p.offered - knee, p));
        let (mut xx, mut xy) = (0.0, 0.0);
        for (x, p) in behind() {
            xx += x * x;
            xy += x * (p.achieved - knee);
        }
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        let line = |offered: f64| {
            if offered > knee { knee + slope * (offered - knee) } else { offered }
        };
        let squares: f64 = points.iter().map(|p| (p.achieved - line(p.offered)).powi(2)).sum();
        if squares < best.0 {
            best = (squares, knee);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points at each offered rate, with a little noise of both signs.
    fn curve(offered: &[f64], repeats: usize, device: impl Fn(f64) -> f64) -> Vec<Point> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut points = Vec::new();
        for &level in offered {
            for _ in 0..repeats {
                let offered = level * (1.0 + 0.002 * (random.f64() - 0.5));
                let achieved = device(offered) * (1.0 - 0.004 * random.f64());
                points.push(Point { offered, achieved, level });
            }
        }
        points
    }

    fn tens() -> Vec<f64> {
        (1..=15).map(|i| f64::from(i) * 10.0).collect()
    }

    #[test]
    fn the_knee_of_a_plateau_lies_where_it_is() {
        for capacity in [23.0, 75.0, 96.0, 131.0] {
            let knee = knee(&curve(&tens(), 4, |x| x.min(capacity)), TOLERANCE).unwrap();
            assert_eq!(knee.verdict, KneeVerdict::Found);
            let (holds, fails) = (knee.holds_up_to.unwrap(), knee.fails_at.unwrap());
            assert!(holds <= capacity * 1.02 && capacity <= fails, "{capacity}: {knee:?}");
            assert!((knee.estimate.unwrap() / capacity - 1.0).abs() < 0.02, "{capacity}: {knee:?}");
            assert!(knee.has_intervals);
        }
    }

    #[test]
    fn a_collapse_behind_the_knee_does_not_move_it() {
        // Receive livelock: the more comes in, the less gets through.
        let collapse = |x: f64| if x <= 75.0 { x } else { (75.0 - 2.0 * (x - 75.0)).max(2.0) };
        let knee = knee(&curve(&tens(), 3, collapse), TOLERANCE).unwrap();
        assert_eq!(knee.verdict, KneeVerdict::Found);
        assert!((70.0..=80.0).contains(&knee.estimate.unwrap()), "{knee:?}");
    }

    #[test]
    fn a_run_in_which_the_machine_stood_still_does_not_move_the_estimate() {
        let mut points = curve(&tens(), 5, |x| x.min(75.0));
        let stalled = points.iter_mut().find(|p| p.level == 60.0).unwrap();
        stalled.achieved *= 0.6;
        let knee = knee(&points, TOLERANCE).unwrap();
        assert!(knee.holds_up_to.unwrap() < 51.0, "60 is not clear: {knee:?}");
        assert!((knee.estimate.unwrap() / 75.0 - 1.0).abs() < 0.02, "{knee:?}");
    }

    #[test]
    fn no_knee_is_told_where_none_was_reached() {
        let knee = knee(&curve(&tens(), 3, |x| x), TOLERANCE).unwrap();
        assert_eq!(knee.verdict, KneeVerdict::NoneUpToMaximum);
        assert!((knee.maximum - 150.0).abs() < 1.0);
        assert_eq!((knee.estimate, knee.fails_at), (None, None));
    }

    #[test]
    fn what_never_followed_has_its_knee_below() {
        let knee = knee(&curve(&tens(), 3, |x| 0.5 * x), TOLERANCE).unwrap();
        assert_eq!(knee.verdict, KneeVerdict::BelowLowest);
        assert_eq!((knee.holds_up_to, knee.estimate), (None, None));
    }

    #[test]
    fn rates_that_are_unclear_widen_the_bracket() {
        // At 70 every other run loses 6 %.
        let mut points = curve(&[50.0, 60.0, 80.0, 90.0], 4, |x| x.min(65.0));
        for share in [1.0, 0.94, 1.0, 0.94] {
            points.push(Point { offered: 70.0, achieved: 70.0 * share, level: 70.0 });
        }
        let knee = knee(&points, TOLERANCE).unwrap();
        assert_eq!(knee.verdict, KneeVerdict::Found);
        assert!(knee.holds_up_to.unwrap() < 61.0 && knee.fails_at.unwrap() > 79.0, "{knee:?}");
        let unclear: Vec<Point> = points.into_iter().filter(|p| p.level <= 70.0).collect();
        assert_eq!(super::knee(&unclear, TOLERANCE).unwrap().verdict, KneeVerdict::Undecided);
    }

    #[test]
    fn single_values_decide_but_say_so() {
        let knee = knee(&curve(&tens(), 1, |x| x.min(75.0)), TOLERANCE).unwrap();
        assert_eq!(knee.verdict, KneeVerdict::Found);
        assert!(!knee.has_intervals);
        assert!(super::knee(&[], TOLERANCE).is_none());
        let nothing = Point { offered: 0.0, achieved: f64::NAN, level: 0.0 };
        assert!(super::knee(&[nothing], TOLERANCE).is_none());
    }

    /// The FG50E (fixtures/sweeps/fg50e-upload.csv): both ways at once, the upload holds to
    /// about 75.
    #[test]
    fn the_upload_of_an_fg50e_holds_to_about_75() {
        let text = include_str!("../../../fixtures/sweeps/fg50e-upload.csv");
        let mut points = Vec::new();
        for row in text.lines().filter(|l| !l.starts_with('#') && !l.starts_with("offered")) {
            let mut cells = row.split(',').map(|cell| cell.parse::<f64>().unwrap());
            let (offered, achieved) = (cells.next().unwrap(), cells.next().unwrap());
            points.push(Point { offered, achieved, level: offered });
        }
        assert!(points.len() >= 20);
        let knee = knee(&points, TOLERANCE).unwrap();
        assert_eq!(knee.verdict, KneeVerdict::Found);
        assert_eq!((knee.holds_up_to, knee.fails_at), (Some(75.0), Some(100.0)), "{knee:?}");
    }
}
