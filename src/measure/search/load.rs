//! Judgement of a rate against a goal, by all its trials.
//!
//! Trials of at least the target's length are *long*, others *short*; GL, BL, GS and BS are the
//! seconds of good and bad ones. A short bad trial counts against the rate only as far as short
//! good ones do not make up for it:
//!
//! ```text
//!   bad = BL + max(0, BS - GS e/(1-e))      e: exceed ratio, D: duration sum
//!   W   = max(GL + bad, D)                  what is not yet measured may still turn out either way
//!   W - GL <= W e                           lower bound: also if all that is missing were bad
//!   bad    >  W e                           upper bound: also if all that is missing were good
//! ```
//!
//! The load classification of draft-ietf-bmwg-mlrsearch; the reference implementation judges alike
//! (tests/pure/mlrsearch_oracle.rs).

use crate::model::order::InOrder;
use thiserror::Error;

/// Outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Packets sent.
    pub sent: u64,
    /// Packets lost of them.
    pub lost: u64,
    /// Duration of the trial, seconds.
    pub seconds: f64,
}

/// Reason why an outcome can't be used. The trial has to be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OutcomeError {
    /// Nothing is known of the router then.
    #[error("nothing was sent")]
    NothingSent,
    /// The counts contradict each other.
    #[error("more was lost than sent")]
    MoreLostThanSent,
    /// The trial took no time, so its outcome can't be weighed.
    #[error("it took no time")]
    NoTime,
}

impl Outcome {
    /// Checks that the outcome can be used.
    ///
    /// # Errors
    /// The reason why it can't be used.
    pub fn check(&self) -> Result<(), OutcomeError> {
        if self.sent == 0 {
            Err(OutcomeError::NothingSent)
        } else if self.lost > self.sent {
            Err(OutcomeError::MoreLostThanSent)
        } else if !(self.seconds > 0.0 && self.seconds.is_finite()) {
            Err(OutcomeError::NoTime)
        } else {
            Ok(())
        }
    }

    /// Lost share of what was sent.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        if self.sent > 0 { self.lost as f64 / self.sent as f64 } else { 0.0 }
    }
}

/// A goal, or a coarser step on the way to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Largest lost share of a good trial.
    pub loss_ratio: f64,
    /// Share of the time that may be bad trials.
    pub exceed_ratio: f64,
    /// Seconds of a long trial.
    pub trial: f64,
    /// Seconds of trials that a rate needs.
    pub duration_sum: f64,
    /// Largest distance between the bounds, as a share of the upper one.
    pub width: f64,
}

/// Judgement of a load for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The load meets the target.
    Lower,
    /// The load does not meet the target.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// A rate and all its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The rate.
    pub rate: f64,
    trials: Vec<Tried>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Tried {
    /// As it was meant to be: what is measured is never exact to the last bit, and a trial must not
    /// be short for that.
    asked: f64,
    took: f64,
    loss: f64,
}

impl Load {
    /// A rate without trials.
    #[must_use]
    pub fn new(rate: f64) -> Self {
        Self { rate, trials: Vec::new() }
    }

    /// Adds a trial that was to take `asked` seconds.
    pub fn add(&mut self, asked: f64, outcome: &Outcome) {
        let loss = outcome.loss_ratio();
        self.trials.push(Tried { asked, took: outcome.seconds, loss });
    }

    /// Judgement of this load for the target.
    #[must_use]
    pub fn judge(&self, target: &Target) -> Judgement {
        let sum = |long: bool, good: bool| {
            let of = |t: &&Tried| {
                (t.asked >= target.trial) == long && (t.loss <= target.loss_ratio) == good
            };
            self.trials.iter().filter(of).map(|t| t.took).sum::<f64>()
        };
        let e = target.exceed_ratio;
        let good_long = sum(true, true);
        let bad =
            sum(true, false) + (sum(false, false) - sum(false, true) * e / (1.0 - e)).max(0.0);
        let whole = (good_long + bad).max(target.duration_sum);
        if whole - good_long <= whole * e {
            Judgement::Lower
        } else if bad > whole * e {
            Judgement::Upper
        } else {
            Judgement::Undecided
        }
    }

    /// Conditional throughput: the rate without the loss of the long trial at the exceed ratio's
    /// quantile, trials that are missing counted as lost completely. Meant for lower bounds.
    #[must_use]
    pub fn throughput(&self, target: &Target) -> f64 {
        let mut long: Vec<&Tried> =
            self.trials.iter().filter(|t| t.asked >= target.trial).collect();
        long.order_by(|a, b| a.loss.total_cmp(&b.loss));
        let measured: f64 = long.iter().map(|t| t.took).sum();
        let mut left = target.duration_sum.max(measured) * (1.0 - target.exceed_ratio);
        let mut loss = 1.0;
        for trial in long {
            loss = trial.loss;
            left -= trial.took;
            if left <= 0.0 {
                break;
            }
        }
        if left > 0.0 {
            loss = 1.0;
        }
        self.rate * (1.0 - loss)
    }

    /// The highest rate at which it forwarded, by any trial; `None` without one.
    #[must_use]
    pub(super) fn forwarded(&self) -> Option<f64> {
        let least = self.trials.iter().map(|t| t.loss).min_by(f64::total_cmp)?;
        Some(self.rate * (1.0 - least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NDR: Target =
        Target { loss_ratio: 0.0, exceed_ratio: 0.5, trial: 1.0, duration_sum: 3.0, width: 0.01 };

    /// Trials as (seconds asked and taken, packets lost of a thousand).
    fn load(trials: &[(f64, u64)]) -> Load {
        let mut load = Load::new(1000.0);
        for &(seconds, lost) in trials {
            load.add(seconds, &Outcome { sent: 1000, lost, seconds });
        }
        load
    }

    #[test]
    fn a_load_is_decided_as_soon_as_what_is_missing_can_not_change_it() {
        use Judgement::*;
        for (trials, judgement) in [
            (&[][..], Undecided),
            (&[(1.0, 0)], Undecided),
            (&[(1.0, 0), (1.0, 0)], Lower),
            (&[(1.0, 1), (1.0, 1)], Upper),
            (&[(1.0, 1), (1.0, 0)], Undecided),
            (&[(1.0, 1), (1.0, 0), (1.0, 0)], Lower),
            // Short trials alone never make a lower bound, but they do make an upper one.
            (&[(0.5, 0), (0.5, 0), (0.5, 0), (0.5, 0)], Undecided),
            (&[(0.5, 1), (0.5, 1), (0.5, 1), (0.5, 1)], Upper),
            (&[(0.5, 1), (0.5, 1), (0.5, 1), (0.5, 1), (0.5, 0), (0.5, 0)], Undecided),
        ] {
            assert_eq!(load(trials).judge(&NDR), judgement, "{trials:?}");
        }
    }

    #[test]
    fn with_no_exceed_ratio_a_single_bad_trial_decides() {
        let strict = Target { exceed_ratio: 0.0, ..NDR };
        assert_eq!(load(&[(1.0, 0), (0.1, 1)]).judge(&strict), Judgement::Upper);
        assert_eq!(load(&[(1.0, 0), (1.0, 0)]).judge(&strict), Judgement::Undecided);
        assert_eq!(load(&[(1.0, 0); 3]).judge(&strict), Judgement::Lower);
    }

    #[test]
    fn throughput_is_that_of_the_worst_trial_that_had_to_be_good() {
        let partial = Target { loss_ratio: 0.01, ..NDR };
        let load = load(&[(1.0, 2), (1.0, 8)]);
        assert_eq!(load.judge(&partial), Judgement::Lower);
        assert_eq!(load.throughput(&partial), 992.0);
    }

    #[test]
    fn outcomes_that_say_nothing_are_turned_away() {
        let good = Outcome { sent: 10, lost: 1, seconds: 1.0 };
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Outcome { sent: 0, ..good },
            Outcome { lost: 11, ..good },
            Outcome { seconds: 0.0, ..good },
            Outcome { seconds: f64::NAN, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
