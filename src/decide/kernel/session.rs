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
#[derive(Debug, Clone, PartialEq)]
pub enum CannotBegin {
    /// They are of two architectures.
    Architectures,
    /// They are of two kernel versions.
    Versions,
    /// An option that is to stay as in A is in neither.
    UnknownOption(String),
    /// No option differs that could be switched.
    NothingToSwitch,
    /// One of the files was cut short: the first, or the second.
    Cut(&'static str),
    /// The rates that were given can't be.
    Rates(BadRate),
}

/// The reason why rates can't be what they are said to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BadRate {
    /// B is clearly faster than A.
    Swapped {
        /// Rate of A.
        a: f64,
        /// Rate of B.
        b: f64,
    },
    /// Repeated rates of one kernel are too far apart for one kernel.
    Scattered {
        /// The lowest.
        low: f64,
        /// The highest.
        high: f64,
    },
    /// A kernel between the two is more than twice as fast as A, or not half as fast as B.
    OutOfRange {
        /// The rate.
        rate: f64,
        /// Rate of A.
        a: f64,
        /// Rate of B.
        b: f64,
    },
}

impl BadRate {
    /// Remedy.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Swapped { .. } => {
                "A is the faster kernel: give the two the other way round, in another --dir; if it \
                 was the last answer, --undo takes back the one before"
            }
            Self::Scattered { .. } => {
                "measure again on an idle machine, one kernel at a time, all in one unit"
            }
            Self::OutOfRange { .. } => {
                "the same test in the same unit for all; answer --unclear where it is as measured"
            }
        }
    }
}

impl fmt::Display for BadRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Swapped { a, b } => write!(f, "B is faster than A: {b} and {a}"),
            Self::Scattered { low, high } => {
                write!(f, "one kernel gave {low} and {high}, which is no noise")
            }
            Self::OutOfRange { rate, a, b } => {
                write!(f, "{rate} is far from anything between {b} (B) and {a} (A)")
            }
        }
    }
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
            Self::Cut(_) => Some("copy it again, whole"),
            Self::Rates(why) => Some(why.remedy()),
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
            Self::Cut(which) => write!(f, "the {which} was cut short"),
            Self::Rates(why) => why.fmt(f),
        }
    }
}

/// The reason why an answer can't be used.
#[derive(Debug, Clone, PartialEq)]
pub enum CannotTake {
    /// The search is at its end.
    Ended,
    /// The kernel that was built is in these choices neither as in A nor as in B.
    LikeNeither(Vec<String>),
    /// The configuration of the kernel that was built was cut short.
    Cut,
    /// The rate can't be.
    Rate(BadRate),
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
        if a.arch.is_some() && b.arch.is_some() && a.arch != b.arch {
            return Err(CannotBegin::Architectures);
        }
        if a.release() != b.release() {
            return Err(CannotBegin::Versions);
        }
        if a.cut || lacks_tail(&a, &b) {
            return Err(CannotBegin::Cut("first"));
        }
        if b.cut || lacks_tail(&b, &a) {
            return Err(CannotBegin::Cut("second"));
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
    ///
    /// # Errors
    /// Rates that can't be.
    pub fn take_ends(&mut self, of_a: &[f64], of_b: &[f64]) -> Result<(), CannotBegin> {
        let bad = scattered(of_a).or_else(|| scattered(of_b));
        if let Some(bad) = bad.or_else(|| swapped(mean(of_a)?, mean(of_b)?)) {
            return Err(CannotBegin::Rates(bad));
        }
        let all: BTreeSet<String> = self.choices.groups.iter().map(|g| g.name.clone()).collect();
        for (setup, rates) in [(BTreeSet::new(), of_a), (all, of_b)] {
            for rate in rates {
                self.note(&setup, Outcome::Rate(*rate, None));
            }
        }
        Ok(())
    }

    /// The rate of a kernel so far.
    fn rate(&self, setup: &Setup) -> Option<f64> {
        match self.by_kernel().get(setup)? {
            KernelAnswer::Rates(rates) => mean(&rates.iter().map(|(r, _)| *r).collect::<Vec<_>>()),
            _ => None,
        }
    }

    /// Rates of A and of B.
    fn ends(&self) -> (Option<f64>, Option<f64>) {
        let n = self.choices.groups.len();
        (self.rate(&vec![false; n]), self.rate(&vec![true; n]))
    }

    /// Reason why these can't be the rates of a kernel.
    fn bad(&self, setup: &Setup, rates: &[f64]) -> Option<BadRate> {
        let middle = mean(rates)?;
        let mut all = rates.to_vec();
        all.extend(self.rate(setup));
        let (a, b) = self.ends();
        let none = setup.iter().all(|on| !on);
        let ends = match (none, setup.iter().all(|on| *on)) {
            (true, _) => (Some(middle), b),
            (_, true) => (a, Some(middle)),
            _ => (a, b),
        };
        let (Some(a), Some(b)) = ends else { return scattered(&all) };
        let far = middle > 2.0 * a.max(b) || middle < 0.5 * a.min(b);
        scattered(&all)
            .or_else(|| swapped(a, b))
            .or_else(|| far.then_some(BadRate::OutOfRange { rate: middle, a, b }))
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
                if built.cut {
                    return Err(CannotTake::Cut);
                }
                let really = self.choices.built(built).map_err(CannotTake::LikeNeither)?;
                self.choices.names(&really)
            }
        };
        let rates: Vec<f64> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Rate(rate, _) => Some(*rate),
                Outcome::None(_) => None,
            })
            .collect();
        if let Some(kernel) = self.choices.setup(&setup)
            && let Some(bad) = self.bad(&kernel, &rates)
        {
            return Err(CannotTake::Rate(bad));
        }
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

fn mean(rates: &[f64]) -> Option<f64> {
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// Rates of one kernel that lie further apart than the two kernels of most searches.
fn scattered(rates: &[f64]) -> Option<BadRate> {
    let low = rates.iter().copied().reduce(f64::min)?;
    let high = rates.iter().copied().reduce(f64::max)?;
    (high > 1.5 * low).then_some(BadRate::Scattered { low, high })
}

/// A is to be the faster one; a few percent may be noise.
fn swapped(a: f64, b: f64) -> Option<BadRate> {
    (b > 1.07 * a).then_some(BadRate::Swapped { a, b })
}

/// True if a file has nothing of a long end of the other: a tenth of it, and twenty options.
fn lacks_tail(cut: &KernelConfig, whole: &KernelConfig) -> bool {
    let order = whole.in_order();
    let missing = order.iter().rev().take_while(|name| cut.get(name).is_none()).count();
    missing >= 20 && missing * 10 >= order.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::parse::config::read;

    fn options(count: usize, value: &str) -> KernelConfig {
        let all: String = (0..count).map(|i| format!("CONFIG_O{i}={value}\n")).collect();
        read(format!("# Linux/arm64 6.1.0 Kernel Configuration\n{all}").as_bytes()).unwrap()
    }

    fn session() -> Session {
        let (a, b) = (options(8, "y"), options(8, "n"));
        Session::begin(a, b, &BTreeSet::new(), None).unwrap()
    }

    fn rates(rates: &[f64]) -> Vec<Outcome> {
        rates.iter().map(|rate| Outcome::Rate(*rate, None)).collect()
    }

    #[test]
    fn rates_that_can_not_be_are_refused_and_nothing_is_kept_of_them() {
        let refused = |a: &[f64], b: &[f64]| session().take_ends(a, b).is_err();
        assert!(refused(&[394.0], &[1100.0]), "swapped");
        assert!(refused(&[1100.0, 394.0], &[390.0]), "two kernels' rates for one");
        assert!(!refused(&[1000.0], &[1010.0]), "noise");
        let mut session = session();
        session.take_ends(&[1100.0], &[394.0]).unwrap();
        let before = session.answers.clone();
        for bad in [&[1.1e9][..], &[12.0], &[700.0, 1100.0]] {
            let why = session.take(rates(bad), None);
            assert!(matches!(why, Err(CannotTake::Rate(_))), "{bad:?}: {why:?}");
        }
        assert_eq!(session.answers, before);
        session.take(rates(&[700.0, 710.0]), None).unwrap();
        // One after the other, as the search asks for them.
        let mut session = self::session();
        session.take(rates(&[394.0]), None).unwrap();
        let why = session.take(rates(&[1100.0]), None);
        assert_eq!(why, Err(CannotTake::Rate(BadRate::Swapped { a: 394.0, b: 1100.0 })));
    }

    #[test]
    fn a_configuration_that_was_cut_short_is_not_searched() {
        let begin = |a, b| Session::begin(a, b, &BTreeSet::new(), None).map(|_| ());
        let whole = || options(300, "y");
        // Not cut as far as one file tells.
        let named = |mut config: KernelConfig| {
            config.cut = false;
            config
        };
        let part = || options(200, "n");
        assert_eq!(begin(named(whole()), named(part())), Err(CannotBegin::Cut("second")));
        assert_eq!(begin(named(part()), named(whole())), Err(CannotBegin::Cut("first")));
        let mut cut = options(300, "n");
        cut.cut = true;
        assert_eq!(begin(named(whole()), cut.clone()), Err(CannotBegin::Cut("second")));
        let mut session = session();
        assert_eq!(session.take(rates(&[1.0]), Some(&cut)), Err(CannotTake::Cut));
    }
}
