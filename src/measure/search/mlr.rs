//! The search itself: which trial next.
//!
//! ```text
//!   first trial at the maximum ─▶ its forwarding rate is the first guess
//!   for each goal, from coarse to fine (width 4w, 2w, w; more seconds each time):
//!     confirm the bounds of the coarser step ─▶ one is missing: step outwards, wider each time
//!                                             ─▶ both there: halve, until U - L <= width U
//! ```
//!
//! draft-ietf-bmwg-mlrsearch says what a result is, not how it is come by. What is tried next
//! follows from the loads measured so far and from the bounds of the coarser step alone, so that
//! any order of goals, refused trials and a maximum that shrinks under way need no case of their
//! own. Halving and stepping are on the logarithm of the rate.

use super::goal::{BadGoal, check};
use super::load::{Judgement, Load, Outcome, OutcomeError, Target};
use crate::model::sweep::{Goal, GoalOutcome, GoalResult};

/// Steps on the way to a goal, each twice as fine as the one before.
const COARSER_STEPS: i32 = 2;
/// Rounding must not cost a trial.
const EPSILON: f64 = 1e-9;

/// A trial to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// The rate, in the unit of the search's limits.
    pub rate: f64,
    /// Duration of the trial, seconds.
    pub seconds: f64,
}

/// Next step of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Proposal {
    /// Make this trial and report its outcome.
    Trial(Trial),
    /// All goals are reached, or can't be.
    Done,
}

/// A search for several goals at once.
#[derive(Debug, Clone)]
pub struct Search {
    minimum: f64,
    maximum: f64,
    hunts: Vec<Hunt>,
    /// By rate, lowest first.
    loads: Vec<Load>,
}

/// One goal on its way.
#[derive(Debug, Clone)]
struct Hunt {
    goal: Goal,
    /// Coarsest first; the last is the goal itself.
    targets: Vec<Target>,
    level: usize,
    /// Relevant bounds of the target before.
    hint: Bounds,
}

/// Relevant bounds: the lowest upper bound, and the highest lower bound below it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Bounds {
    lower: Option<f64>,
    upper: Option<f64>,
}

impl Search {
    /// A search from `minimum` to `maximum`, in a unit of the caller's.
    ///
    /// # Errors
    /// Fails if a goal or the limits make no sense.
    pub fn new(goals: &[Goal], minimum: f64, maximum: f64) -> Result<Self, BadGoal> {
        if goals.is_empty() {
            return Err(BadGoal::None);
        }
        goals.iter().try_for_each(check)?;
        if !(minimum > 0.0 && minimum < maximum && maximum.is_finite()) {
            return Err(BadGoal::Rates(minimum, maximum));
        }
        let hunts = goals.iter().map(|goal| Hunt {
            targets: targets(goal),
            goal: goal.clone(),
            level: 0,
            hint: Bounds::default(),
        });
        Ok(Self { minimum, maximum, hunts: hunts.collect(), loads: Vec::new() })
    }

    /// The highest rate that is tried.
    #[must_use]
    pub fn maximum(&self) -> f64 {
        self.maximum
    }

    /// The next trial.
    #[must_use]
    pub fn next(&self) -> Proposal {
        let wanted = self.hunts.iter().filter_map(|hunt| {
            let target = hunt.target()?;
            let rate = self.wanted(target, hunt.hint)?;
            Some((hunt.level, Trial { rate, seconds: target.trial }))
        });
        // Coarse before fine, so that every goal has something when time runs out; then the lower rate,
        // whose outcome says more about higher ones than theirs about it.
        let first = wanted.min_by(|(a, x), (b, y)| {
            a.cmp(b).then(x.rate.total_cmp(&y.rate)).then(y.seconds.total_cmp(&x.seconds))
        });
        first.map_or(Proposal::Done, |(_, trial)| Proposal::Trial(trial))
    }

    /// Takes the outcome of a trial that [`Self::next`] asked for.
    ///
    /// # Errors
    /// Fails if the outcome can't be used; the trial is asked for again.
    pub fn take(&mut self, trial: &Trial, outcome: &Outcome) -> Result<(), OutcomeError> {
        outcome.check()?;
        match self.loads.binary_search_by(|load| load.rate.total_cmp(&trial.rate)) {
            Ok(at) => {
                if let Some(load) = self.loads.get_mut(at) {
                    load.add(trial.seconds, outcome);
                }
            }
            Err(at) => {
                let mut load = Load::new(trial.rate);
                load.add(trial.seconds, outcome);
                self.loads.insert(at, load);
            }
        }
        self.advance();
        Ok(())
    }

    /// Says that no more than `rate` can be offered: trials above it are forgotten, and the maximum
    /// is lowered to it. Not below the minimum; false if it can't be lowered any more.
    pub fn cap(&mut self, rate: f64) -> bool {
        // NaN is no rate.
        let rate = if rate > self.minimum { rate } else { self.minimum };
        if rate >= self.maximum {
            return false;
        }
        self.maximum = rate;
        self.loads.retain(|load| load.rate <= rate);
        for hunt in &mut self.hunts {
            let known = |bound: Option<f64>| bound.filter(|b| *b <= rate);
            hunt.hint = Bounds { lower: known(hunt.hint.lower), upper: known(hunt.hint.upper) };
        }
        self.advance();
        true
    }

    /// Current results, one per goal in their order.
    #[must_use]
    pub fn results(&self) -> Vec<GoalResult> {
        self.hunts.iter().map(|hunt| self.result(hunt)).collect()
    }

    fn result(&self, hunt: &Hunt) -> GoalResult {
        // The finest target of which anything is known.
        let finest = hunt
            .targets
            .iter()
            .rev()
            .map(|target| (target, self.bounds(target)))
            .find(|(_, bounds)| *bounds != Bounds::default());
        let (bounds, throughput) = finest.map_or((Bounds::default(), None), |(target, bounds)| {
            let load = self.loads.iter().find(|load| Some(load.rate) == bounds.lower);
            (bounds, load.map(|load| load.throughput(target)))
        });
        let reached = hunt.targets.last().is_some_and(|t| self.reached(t, self.bounds(t)));
        let outcome = match (reached, bounds) {
            (true, Bounds { lower: Some(_), upper: Some(_) }) => GoalOutcome::Found,
            (true, Bounds { lower: Some(_), upper: None }) => GoalOutcome::AtOrAboveMaximum,
            (true, Bounds { lower: None, .. }) => GoalOutcome::BelowMinimum,
            (false, _) => GoalOutcome::Unfinished,
        };
        GoalResult {
            goal: hunt.goal.clone(),
            outcome,
            lower: bounds.lower,
            upper: bounds.upper,
            throughput,
        }
    }

    /// Goes on to the finer target where one is reached.
    fn advance(&mut self) {
        let mut hunts = std::mem::take(&mut self.hunts);
        for hunt in &mut hunts {
            while let Some(target) = hunt.target() {
                let bounds = self.bounds(target);
                if !self.reached(target, bounds) {
                    break;
                }
                hunt.hint = bounds;
                hunt.level += 1;
            }
        }
        self.hunts = hunts;
    }

    fn bounds(&self, target: &Target) -> Bounds {
        let mut bounds = Bounds::default();
        for load in &self.loads {
            match load.judge(target) {
                Judgement::Lower => bounds.lower = Some(load.rate),
                Judgement::Upper => {
                    bounds.upper = Some(load.rate);
                    break;
                }
                Judgement::Undecided => {}
            }
        }
        bounds
    }

    fn reached(&self, target: &Target, bounds: Bounds) -> bool {
        match bounds {
            Bounds { lower: Some(l), upper: Some(u) } => {
                u - l <= u * target.width * (1.0 + EPSILON)
            }
            Bounds { lower: Some(l), upper: None } => l >= self.maximum,
            Bounds { lower: None, upper: Some(u) } => u <= self.minimum,
            Bounds { lower: None, upper: None } => false,
        }
    }

    /// The rate that this target wants tried; `None` where it is reached.
    fn wanted(&self, target: &Target, hint: Bounds) -> Option<f64> {
        let bounds = self.bounds(target);
        if self.reached(target, bounds) {
            return None;
        }
        // The bounds of the coarser step come first, as far as they may still become bounds of this one.
        let open = |rate: &f64| {
            bounds.lower.is_none_or(|l| *rate > l) && bounds.upper.is_none_or(|u| *rate < u)
        };
        let step = -(-target.width).ln_1p();
        // Halfway between them before either: one of the two is then a bound that needs no trial.
        if let (Some(lower), Some(upper)) = (hint.lower, hint.upper)
            && (upper / lower).ln() <= 2.0 * step * (1.0 + EPSILON)
            && let middle = (lower * upper).sqrt()
            && open(&middle)
        {
            return Some(middle);
        }
        let hinted = [hint.lower, hint.upper].into_iter().flatten().find(open);
        if let Some(rate) = hinted {
            return Some(rate);
        }
        Some(match (bounds.lower, bounds.upper) {
            (None, None) => self.maximum,
            (None, Some(upper)) => self.below(target, upper, step),
            (Some(lower), None) => self.above(target, lower, step),
            (Some(lower), Some(upper)) => self.between(target, lower, upper, step),
        })
    }

    /// Downwards from an upper bound: to the rate that it forwarded, or by steps that double.
    fn below(&self, target: &Target, upper: f64, step: f64) -> f64 {
        let tried = self.judged(target, Judgement::Upper);
        let mut rate = upper * (-step * doubled(tried)).exp();
        // Only the first time: where a share is lost at every rate, each forwarding rate would be just
        // that share below the last.
        if tried <= 1
            && let Some(guess) = self.guess(target, upper)
        {
            rate = rate.min(guess);
        }
        if rate < self.minimum * step.exp() { self.minimum } else { rate }
    }

    /// Upwards from a lower bound, by steps that double.
    fn above(&self, target: &Target, lower: f64, step: f64) -> f64 {
        let rate = lower * (step * doubled(self.judged(target, Judgement::Lower))).exp();
        if rate > self.maximum * (-step).exp() { self.maximum } else { rate }
    }

    /// Between two bounds: in the middle, unless the upper one shows where to look.
    fn between(&self, target: &Target, lower: f64, upper: f64, step: f64) -> f64 {
        let middle = (lower * upper).sqrt();
        // Less than two widths: either half is narrow enough.
        if (upper / lower).ln() <= 2.0 * step {
            return middle;
        }
        match self.guess(target, upper) {
            // Below the middle it can't do worse than halving.
            Some(guess) if guess > lower * step.exp() && guess < middle => guess,
            // It holds: the bound may be right above it.
            Some(guess) if (guess / lower).ln().abs() <= step => (lower * step.exp()).min(middle),
            _ => middle,
        }
    }

    /// The rate at which this load would just lose what is allowed, if it forwards no more than it
    /// did.
    fn guess(&self, target: &Target, rate: f64) -> Option<f64> {
        let load = self.loads.iter().find(|load| load.rate == rate)?;
        Some(load.forwarded()? / (1.0 - target.loss_ratio))
    }

    fn judged(&self, target: &Target, judgement: Judgement) -> usize {
        self.loads.iter().filter(|load| load.judge(target) == judgement).count()
    }
}

impl Hunt {
    fn target(&self) -> Option<&Target> {
        self.targets.get(self.level)
    }
}

/// 1, 2, 4, ... for one, two, three loads that were tried in vain.
fn doubled(tried: usize) -> f64 {
    f64::from(i32::try_from(tried.clamp(1, 60)).unwrap_or(60) - 1).exp2()
}

/// The goal's targets, coarsest first: the width halves, and the seconds grow by equal factors from
/// the first trial's to the sum.
fn targets(goal: &Goal) -> Vec<Target> {
    let growth = goal.initial_trial / goal.duration_sum;
    (0..=COARSER_STEPS)
        .rev()
        .map(|coarser| {
            let share = f64::from(coarser) / f64::from(COARSER_STEPS);
            let duration_sum = goal.duration_sum * growth.powf(share);
            let step = -(-goal.width).ln_1p() * f64::from(coarser).exp2();
            Target {
                loss_ratio: goal.loss_ratio,
                exceed_ratio: goal.exceed_ratio,
                trial: goal.final_trial.min(duration_sum),
                duration_sum,
                width: if coarser == 0 { goal.width } else { -(-step).exp_m1() },
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::search::Preset;

    /// Drives a search against a device that loses this share at a rate; the trials it took.
    fn run(search: &mut Search, device: impl Fn(f64) -> f64) -> Vec<Trial> {
        let mut trials = Vec::new();
        while let Proposal::Trial(trial) = search.next() {
            let sent = (trial.rate * trial.seconds) as u64;
            let lost = (device(trial.rate) * sent as f64).round() as u64;
            search.take(&trial, &Outcome { sent, lost, seconds: trial.seconds }).unwrap();
            trials.push(trial);
            assert!(trials.len() < 2000, "{:?}", search.results());
        }
        trials
    }

    fn capacity(most: f64) -> impl Fn(f64) -> f64 {
        move |rate| (1.0 - most / rate).max(0.0)
    }

    fn quick(maximum: f64) -> Search {
        Search::new(&Preset::Quick.goals(None), maximum / 1000.0, maximum).unwrap()
    }

    #[test]
    fn ndr_and_pdr_of_a_plain_device_are_found_in_few_trials() {
        for most in [2_000.0, 31_234.0, 700_000.0, 990_000.0] {
            let mut search = quick(1e6);
            let trials = run(&mut search, capacity(most));
            for result in search.results() {
                assert_eq!(result.outcome, GoalOutcome::Found);
                let truth = most / (1.0 - result.goal.loss_ratio);
                let (lower, upper) = (result.lower.unwrap(), result.upper.unwrap());
                // One packet of a trial is the finest loss there is.
                assert!(lower <= truth * 1.001 && truth <= upper, "{truth}: {result:?}");
                assert!((upper - lower) / upper <= 0.02 + 1e-6);
                assert!((result.throughput.unwrap() / lower.min(most) - 1.0).abs() < 0.001);
            }
            assert!(trials.len() <= 40, "{} trials for {most}", trials.len());
        }
    }

    #[test]
    fn what_holds_at_the_maximum_is_at_or_above_it_and_never_more_precise() {
        let mut search = quick(5_000.0);
        run(&mut search, capacity(1e9));
        for result in search.results() {
            assert_eq!(result.outcome, GoalOutcome::AtOrAboveMaximum);
            assert_eq!((result.lower, result.upper), (Some(5_000.0), None));
        }
    }

    #[test]
    fn what_loses_at_every_rate_is_below_the_minimum() {
        let mut search = quick(1e6);
        let trials = run(&mut search, |_| 0.002);
        let results = search.results();
        assert_eq!(results[0].outcome, GoalOutcome::BelowMinimum);
        assert_eq!((results[0].lower, results[0].upper), (None, Some(1e3)));
        assert_eq!(results[1].outcome, GoalOutcome::AtOrAboveMaximum, "0.2 % is within the PDR");
        assert!(trials.len() < 60, "{}", trials.len());
    }

    #[test]
    fn a_higher_rate_that_loses_less_does_not_count() {
        // Loss only between 300 and 400 thousand: no NDR above it is to be relied on.
        let mut search = quick(1e6);
        run(&mut search, |rate| if (3e5..4e5).contains(&rate) || rate > 8e5 { 0.1 } else { 0.0 });
        let ndr = &search.results()[0];
        let lower = ndr.lower.unwrap();
        assert!(lower <= 8e5 && ndr.upper.unwrap() > lower, "{ndr:?}");
    }

    #[test]
    fn a_maximum_that_can_not_be_offered_becomes_the_maximum() {
        let mut search = quick(1e6);
        let Proposal::Trial(first) = search.next() else { panic!("a trial") };
        assert_eq!(first.rate, 1e6);
        assert!(search.cap(4e5));
        assert!(!search.cap(5e5), "it never grows back");
        let trials = run(&mut search, capacity(1e9));
        assert!(trials.iter().all(|t| t.rate <= 4e5));
        let results = search.results();
        assert!(results.iter().all(|r| r.outcome == GoalOutcome::AtOrAboveMaximum));
        assert_eq!(results[0].lower, Some(4e5));
        // Also in the midst of it.
        let mut search = quick(1e6);
        let Proposal::Trial(first) = search.next() else { panic!("a trial") };
        search.take(&first, &Outcome { sent: 100, lost: 50, seconds: 1.0 }).unwrap();
        assert!(search.cap(6e5));
        run(&mut search, capacity(5e5));
        assert!(search.results()[0].lower.unwrap() <= 5e5);
    }

    #[test]
    fn an_outcome_that_says_nothing_is_asked_for_again() {
        let mut search = quick(1e6);
        let Proposal::Trial(first) = search.next() else { panic!("a trial") };
        assert!(search.take(&first, &Outcome { sent: 0, lost: 0, seconds: 1.0 }).is_err());
        assert_eq!(search.next(), Proposal::Trial(first));
        assert!(!search.cap(f64::NAN) || search.maximum() >= 1e3);
    }

    #[test]
    fn a_search_that_is_cut_short_tells_what_it_has() {
        let mut search = quick(1e6);
        let unknown = search.results();
        assert!(unknown.iter().all(|r| r.outcome == GoalOutcome::Unfinished && r.lower.is_none()));
        for _ in 0..6 {
            let Proposal::Trial(trial) = search.next() else { break };
            let lost = (capacity(3e5)(trial.rate) * 1e6) as u64;
            search
                .take(&trial, &Outcome { sent: 1_000_000, lost, seconds: trial.seconds })
                .unwrap();
        }
        for result in search.results() {
            assert_eq!(result.outcome, GoalOutcome::Unfinished);
            assert!(result.lower.unwrap() <= 3.1e5 && result.upper.unwrap() >= 3e5, "{result:?}");
        }
    }

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let goals = Preset::Quick.goals(None);
        for (low, high) in
            [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (1.0, f64::INFINITY), (f64::NAN, 1.0)]
        {
            assert!(Search::new(&goals, low, high).is_err(), "{low} {high}");
        }
        assert!(Search::new(&[], 1.0, 2.0).is_err());
    }
}
