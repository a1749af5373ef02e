//! A search between two configurations from its beginning to its verdict, one answer at a time.
//!
//! ```text
//!   A, B ─▶ Session ─▶ next ─▶ Ask: build and measure this kernel ─▶ take(outcomes) ─┐
//!              ▲         └──▶ Verdict                                                │
//!              └───────────────────────── answers ◀─────────────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::bisect::{Ask, Goal, KernelAnswer, Setup, Verdict, search};
use super::diff::{Group, diff};
use super::mixed::Choices;
use crate::model::bisect::{BuildAnswer, NoRate};
use crate::model::kconfig::KernelConfig;

/// The reason why no search can begin between two configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotBegin {
    /// They are of two architectures.
    Architectures,
    /// They are of two kernel versions.
    Versions,
    /// An option that is to stay as in A is in neither.
    UnknownOption(String),
    /// No option differs that could be switched.
    NothingToSwitch,
}

impl CannotBegin {
    /// The remedy, where there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Versions => Some(
                "build both from one source: copy the older one there, make olddefconfig, and give \
                 that",
            ),
            _ => None,
        }
    }
}

impl fmt::Display for CannotBegin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architectures => f.write_str("they are of two architectures"),
            Self::Versions => f.write_str("they are of two kernel versions"),
            Self::UnknownOption(name) => write!(f, "neither has the option {name} of --keep"),
            Self::NothingToSwitch => f.write_str("no option differs that could be switched"),
        }
    }
}

/// The reason why an answer can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotTake {
    /// The search is at its end.
    Ended,
    /// The kernel that was built is in these choices neither as in A nor as in B.
    LikeNeither(Vec<String>),
}

/// The outcome of one kernel.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A rate, and where it is from.
    Rate(f64, Option<String>),
    /// No rate.
    None(NoRate),
}

/// A search as far as it is.
pub struct Session {
    /// The first configuration, the faster one.
    pub a: KernelConfig,
    /// The second.
    pub b: KernelConfig,
    /// The choices that differ.
    pub choices: Choices,
    /// The answers, the oldest first.
    pub answers: Vec<BuildAnswer>,
    smallest: Option<f64>,
}

impl Session {
    /// Begins a search; `keep` stays as in A, and `smallest` is the smallest effect that is looked
    /// for, as a logarithm.
    ///
    /// # Errors
    /// That the two can't be searched.
    pub fn begin(
        a: KernelConfig,
        b: KernelConfig,
        keep: &BTreeSet<String>,
        smallest: Option<f64>,
    ) -> Result<Self, CannotBegin> {
        if a.arch != b.arch {
            return Err(CannotBegin::Architectures);
        }
        if a.release() != b.release() {
            return Err(CannotBegin::Versions);
        }
        if let Some(name) = keep.iter().find(|k| a.get(k).is_none() && b.get(k).is_none()) {
            return Err(CannotBegin::UnknownOption(name.clone()));
        }
        let session = Self::resume(a, b, keep, smallest, Vec::new());
        if session.choices.groups.is_empty() {
            return Err(CannotBegin::NothingToSwitch);
        }
        Ok(session)
    }

    /// Goes on with a search.
    #[must_use]
    pub fn resume(
        a: KernelConfig,
        b: KernelConfig,
        keep: &BTreeSet<String>,
        smallest: Option<f64>,
        answers: Vec<BuildAnswer>,
    ) -> Self {
        let choices = Choices::of(&diff(&a, &b), keep);
        Self { a, b, choices, answers, smallest }
    }

    /// Takes rates of the two kernels that the search is between.
    pub fn take_ends(&mut self, of_a: &[f64], of_b: &[f64]) {
        let all: BTreeSet<String> = self.choices.groups.iter().map(|g| g.name.clone()).collect();
        for (setup, rates) in [(BTreeSet::new(), of_a), (all, of_b)] {
            for rate in rates {
                self.note(&setup, Outcome::Rate(*rate, None));
            }
        }
    }

    fn note(&mut self, as_in_b: &BTreeSet<String>, outcome: Outcome) {
        let (rate, failed, from) = match outcome {
            Outcome::Rate(rate, from) => (Some(rate), None, from),
            Outcome::None(why) => (None, Some(why), None),
        };
        let as_in_b = as_in_b.clone();
        self.answers.push(BuildAnswer { as_in_b, rate, error: None, failed, from });
    }

    /// The answers by kernel. Of one that both has rates and failed, the rates count.
    fn by_kernel(&self) -> BTreeMap<Setup, KernelAnswer> {
        let mut all: BTreeMap<Setup, KernelAnswer> = BTreeMap::new();
        for answer in &self.answers {
            let Some(setup) = self.choices.setup(&answer.as_in_b) else { continue };
            match (answer.rate, all.get_mut(&setup)) {
                (Some(rate), Some(KernelAnswer::Rates(rates))) => rates.push((rate, answer.error)),
                (Some(rate), _) => {
                    all.insert(setup, KernelAnswer::Rates(vec![(rate, answer.error)]));
                }
                (None, None) => {
                    let unclear = answer.failed == Some(NoRate::Unclear);
                    all.insert(
                        setup,
                        if unclear { KernelAnswer::Unclear } else { KernelAnswer::NoBoot },
                    );
                }
                (None, Some(_)) => {}
            }
        }
        all
    }

    /// Searches as far as the answers go.
    ///
    /// # Errors
    /// The kernel whose answer is missing.
    pub fn next(&self) -> Result<Verdict, Ask> {
        let goal = Goal { options: self.choices.groups.len(), smallest: self.smallest };
        search(goal, &self.by_kernel())
    }

    /// The text of the configuration to build.
    #[must_use]
    pub fn proposal(&self, ask: &Ask) -> String {
        self.choices.text(&self.a, &self.b, &ask.setup)
    }

    /// Takes what the proposed kernel gave; `built` is what was really built, which then counts.
    ///
    /// # Errors
    /// That nothing was asked, or that what was built is like neither of the two.
    pub fn take(
        &mut self,
        outcomes: Vec<Outcome>,
        built: Option<&KernelConfig>,
    ) -> Result<(), CannotTake> {
        let Err(ask) = self.next() else { return Err(CannotTake::Ended) };
        let proposed = self.choices.names(&ask.setup);
        let setup = match built {
            None => proposed.clone(),
            Some(built) => {
                let really = self.choices.built(built).map_err(CannotTake::LikeNeither)?;
                self.choices.names(&really)
            }
        };
        for outcome in outcomes {
            self.note(&setup, outcome);
        }
        if setup != proposed {
            // The proposed one can't be had; another is proposed in its place.
            self.note(&proposed, Outcome::None(NoRate::BuiltOtherwise));
        }
        Ok(())
    }

    /// Choices by index.
    pub fn groups<'a>(&'a self, options: &'a [usize]) -> impl Iterator<Item = &'a Group> {
        options.iter().filter_map(|i| self.choices.groups.get(*i))
    }
}
