//! Goals of a search, and the usual ones.

use thiserror::Error;

use crate::model::sweep::Goal;

/// Sets of goals with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// NDR and PDR by the median of trials of a second, to 2 %: exploratory.
    Quick,
    /// NDR as RFC 2544, section 26.1 asks for: not one packet lost in a trial of 60 seconds
    /// (section 24). To 0.5 %, as the draft has it.
    Rfc2544,
}

/// Loss that a PDR allows where nothing else is asked for: half a percent, as FD.io's CSIT has it.
const PDR_LOSS: f64 = 0.005;

impl Preset {
    /// Goals of the preset. With `loss` a PDR of that ratio is searched for beside the NDR.
    #[must_use]
    pub fn goals(self, loss: Option<f64>) -> Vec<Goal> {
        let base = match self {
            Self::Quick => Goal {
                name: String::new(),
                loss_ratio: 0.0,
                exceed_ratio: 0.5,
                initial_trial: 0.5,
                final_trial: 1.0,
                duration_sum: 3.0,
                width: 0.02,
            },
            Self::Rfc2544 => Goal {
                name: String::new(),
                loss_ratio: 0.0,
                exceed_ratio: 0.0,
                initial_trial: 1.0,
                final_trial: 60.0,
                duration_sum: 60.0,
                width: 0.005,
            },
        };
        let loss = match self {
            Self::Quick => Some(loss.unwrap_or(PDR_LOSS)),
            Self::Rfc2544 => loss,
        };
        let mut goals = vec![ndr(&base)];
        goals.extend(loss.filter(|ratio| *ratio > 0.0).map(|ratio| pdr(&base, ratio)));
        goals
    }
}

/// The same goal with no loss allowed.
fn ndr(like: &Goal) -> Goal {
    Goal { name: "NDR".into(), loss_ratio: 0.0, ..like.clone() }
}

/// The same goal with a loss of `ratio` allowed.
fn pdr(like: &Goal, ratio: f64) -> Goal {
    Goal { name: "PDR".into(), loss_ratio: ratio, ..like.clone() }
}

/// Reason why a search can't be made.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum BadGoal {
    /// Nothing to search for.
    #[error("no goal")]
    None,
    /// A share that is none.
    #[error("{0} {1} is not a share from 0 to below 1")]
    Share(&'static str, f64),
    /// A width that can't be reached or says nothing.
    #[error("width {0} is not between 0 and 1")]
    Width(f64),
    /// Durations that can't be.
    #[error(
        "durations must be above 0 and grow: first trial {0} s, last trial {1} s, their sum {2} s"
    )]
    Durations(f64, f64, f64),
    /// Rates that can't be.
    #[error("rates must be above 0 and the lowest below the highest: {0} and {1}")]
    Rates(f64, f64),
}

/// The narrowest width: below, a search takes more trials than anyone waits for.
const NARROWEST: f64 = 1e-6;

/// Checks that the goal makes sense. The bounds are those of the draft.
///
/// # Errors
/// The first attribute that is out of its bounds.
pub fn check(goal: &Goal) -> Result<(), BadGoal> {
    for (what, share) in [("loss ratio", goal.loss_ratio), ("exceed ratio", goal.exceed_ratio)] {
        // Not `< 0.0`: that would let NaN pass.
        if !(0.0..1.0).contains(&share) {
            return Err(BadGoal::Share(what, share));
        }
    }
    if !(NARROWEST..1.0).contains(&goal.width) {
        return Err(BadGoal::Width(goal.width));
    }
    let (first, last, sum) = (goal.initial_trial, goal.final_trial, goal.duration_sum);
    if !(first > 0.0 && first <= last && last <= sum && sum.is_finite()) {
        return Err(BadGoal::Durations(first, last, sum));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_goals_that_can_be_searched_for() {
        for preset in [Preset::Quick, Preset::Rfc2544] {
            for loss in [None, Some(0.0), Some(0.001)] {
                let goals = preset.goals(loss);
                assert!(goals.iter().all(|g| check(g) == Ok(())), "{goals:?}");
                assert_eq!(goals[0].loss_ratio, 0.0);
            }
        }
        assert_eq!(Preset::Rfc2544.goals(None).len(), 1, "RFC 2544 knows no PDR");
        assert_eq!(Preset::Quick.goals(Some(0.001))[1].loss_ratio, 0.001);
    }

    #[test]
    fn a_goal_that_makes_no_sense_is_named() {
        let good = Preset::Quick.goals(None)[0].clone();
        for bad in [
            Goal { loss_ratio: 1.0, ..good.clone() },
            Goal { loss_ratio: f64::NAN, ..good.clone() },
            Goal { exceed_ratio: -0.1, ..good.clone() },
            Goal { width: 0.0, ..good.clone() },
            Goal { initial_trial: 0.0, ..good.clone() },
            Goal { final_trial: 9.0, ..good.clone() },
            Goal { duration_sum: f64::INFINITY, ..good.clone() },
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }
}
