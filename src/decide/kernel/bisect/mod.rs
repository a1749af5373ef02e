//! Which of the options that two configurations differ in make the difference in rate: a search
//! that proposes the next kernel to build and reads the answer.
//!
//! ```text
//!   A (fast)  ................      . as in A, # as in B
//!             ########........      differs from A?  -> look in the first half
//!             ########....####      differs from B?  -> look in the second, the first as in B
//!   B (slow)  ################
//! ```
//!
//! From A to B the rate goes down in steps, one for each culprit; halving finds each step in log2(n)
//! builds. What each half is tried *beside* stays as it is in the chain, so a pair that costs only
//! together shows as one step, and its partner is found by trying the first one alone. At the end
//! two builds prove it: A with the culprits must be as slow as B, and B without them as fast as A.
//!
//! In come the answers so far; out goes the next kernel to build, or the culprits. The search is a
//! pure function of the answers: each call plays it again from the start, and
//! ends where an answer is missing. So a file of answers is all that must be kept.

use std::collections::{BTreeMap, BTreeSet};

/// Figures of one kernel.
#[derive(Debug, Clone, PartialEq)]
pub enum KernelAnswer {
    /// Rates, in any unit, each with its standard error as a share of it where that is known.
    Rates(Vec<(f64, Option<f64>)>),
    /// It does not boot, or can't be built.
    NoBoot,
    /// Nothing can be said.
    Unclear,
}

/// Which options are as in B, by index.
pub type Setup = Vec<bool>;

/// Input of the search.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// How many options there are.
    pub options: usize,
    /// The smallest effect that is looked for, as a logarithm of the rate; `None`: a tenth of the
    /// whole difference, and not less than 2 % and five times the noise.
    pub smallest: Option<f64>,
}

/// The kernel whose answer is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which options are as in B.
    pub setup: Setup,
    /// The same kernel was measured before and has to be measured again: its figure is not certain
    /// enough to decide.
    pub again: bool,
    /// Among how many options the search is looking just now.
    pub among: usize,
    /// How often to measure it, for the next decision.
    pub times: usize,
    /// New kernels that are left to build, if what is looked for is one option.
    pub builds_left: usize,
    /// Measurements that are left, of those kernels and of this one, with the noise so far.
    pub measurements_left: usize,
}

/// An option, or several that could not be told apart, that makes a difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    /// The options, by index; more than one where no kernel in between could be measured.
    pub options: Vec<usize>,
    /// Effect of B's setting on the rate beside the options that were as in B at that step, as a
    /// logarithm (negative: slower).
    pub effect: f64,
    /// Standard error of it.
    pub error: f64,
    /// Effect of the option alone, everything else as in A, where that was measured.
    pub alone: Option<f64>,
}

impl Culprit {
    /// True if the option acts differently beside the others than alone.
    #[must_use]
    pub fn interacts(&self, smallest: f64) -> bool {
        self.alone.is_some_and(|alone| (alone - self.effect).abs() > smallest.max(2.0 * self.error))
    }
}

/// How the search ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Culprits, in the order of the options.
    pub culprits: Vec<Culprit>,
    /// The whole difference from A to B, as a logarithm.
    pub whole: f64,
    /// The part that the culprits do not explain: A with them as in B, against B.
    pub unexplained: f64,
    /// B without them, against A: what would be left to gain.
    pub remaining: f64,
    /// The smallest effect that was looked for.
    pub smallest: f64,
    /// Different kernels that were answered for, A and B not counted.
    pub builds: usize,
}

/// Standard deviation of one figure that comes without its own, as a share: what a repeated iperf3
/// on an idle board shows. The spread of repeated figures takes its place as they come in.
const NOISE: f64 = 0.02;
/// How many degrees of freedom that guess is worth.
const GUESS: f64 = 4.0;
/// Logarithm of the odds, a thousand to one, that a difference must have for being none or for being
/// the smallest effect, whichever lies nearer (Wald's sequential test of one against the other).
const CERTAIN: f64 = 6.9;
/// The smallest effect that is looked for unasked, in standard deviations of one figure.
const FINEST: f64 = 5.0;
/// How often one kernel is measured at most.
const REPEATS: usize = 8;
/// Other ways to halve, when a kernel can't be measured.
const ATTEMPTS: u64 = 10;
/// Rounds of looking for what the culprits do not explain.
const ROUNDS: usize = 4;
/// Up to this many culprits each is also tried alone.
const ALONE: usize = 4;

/// A figure: logarithm of the rate, and the variance of that.
#[derive(Debug, Clone, Copy)]
struct Figure {
    ln: f64,
    variance: f64,
}

type Looked<T> = Result<T, Ask>;

/// Plays the search with the answers that are there.
///
/// # Errors
/// The kernel to measure next.
pub fn search(goal: Goal, answers: &BTreeMap<Setup, KernelAnswer>) -> Result<Verdict, Ask> {
    let noise = noise(answers);
    Search { goal, answers, noise, smallest: 0.0, among: goal.options, like: Vec::new() }.run()
}

struct Search<'a> {
    goal: Goal,
    answers: &'a BTreeMap<Setup, KernelAnswer>,
    /// Standard deviation of one figure.
    noise: f64,
    smallest: f64,
    among: usize,
    /// Kernels that are as fast as each other, as far as could be told.
    like: Vec<BTreeSet<Setup>>,
}

impl Search<'_> {
    fn run(mut self) -> Looked<Verdict> {
        let n = self.goal.options;
        let none = vec![false; n];
        let all = vec![true; n];
        let a = self.end(&none)?;
        let b = self.end(&all)?;
        let whole = b.ln - a.ln;
        // Finer than five times the noise would take many measurements of each kernel.
        let finest = (FINEST * self.noise).max(0.02);
        self.smallest = self.goal.smallest.unwrap_or((whole.abs() / 10.0).max(finest));
        let mut found: Vec<Culprit> = Vec::new();
        if self.differ(&none, &all)? {
            let every: Vec<usize> = (0..n).collect();
            self.halve(&none, &all, &every, &mut found)?;
        }
        let (mut unexplained, mut remaining) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            let culprits = setup_of(n, &found);
            let others: Vec<usize> = (0..n).filter(|i| !on(&culprits, *i)).collect();
            let before = found.len();
            self.among = others.len();
            // A with the culprits is as slow as B, or something else is needed for it.
            if let Some(alone) = self.figure(&culprits)? {
                unexplained = b.ln - alone.ln;
                if !found.is_empty() && self.differ(&culprits, &all)? {
                    self.halve(&culprits, &all, &others, &mut found)?;
                }
            }
            if found.len() > before {
                continue;
            }
            // B without them is as fast as A, or something else does the same.
            let rest: Setup = culprits.iter().map(|c| !c).collect();
            if let Some(rest_figure) = self.figure(&rest)? {
                remaining = rest_figure.ln - a.ln;
                if !found.is_empty() && self.differ(&none, &rest)? {
                    self.halve(&none, &rest, &others, &mut found)?;
                }
            }
            if found.len() == before {
                break;
            }
        }
        found.sort_by(|x, y| x.options.cmp(&y.options));
        if (2..=ALONE).contains(&found.len()) {
            for culprit in &mut found {
                let alone = setup_of(n, std::slice::from_ref(culprit));
                self.among = 1;
                culprit.alone = self.figure(&alone)?.map(|f| f.ln - a.ln);
            }
        }
        let builds = self.answers.keys().filter(|s| **s != none && **s != all).count();
        Ok(Verdict {
            culprits: found,
            whole,
            unexplained,
            remaining,
            smallest: self.smallest,
            builds,
        })
    }

    /// A or B themselves, which must have figures.
    fn end(&self, setup: &Setup) -> Looked<Figure> {
        self.figure(setup)?.ok_or_else(|| self.ask(setup, true, 1))
    }

    fn ask(&self, setup: &Setup, again: bool, times: usize) -> Ask {
        let halvings = usize::BITS - self.among.saturating_sub(1).leading_zeros();
        // Two more prove what was found.
        let checks = 2;
        let builds_left = usize::try_from(halvings).unwrap_or(0) + checks;
        // Before the two ends are known nobody can tell how fine the difference is.
        let each = if self.smallest > 0.0 { self.repeats(0.0) } else { 1 };
        let measurements_left = times + builds_left * each;
        Ask {
            setup: setup.clone(),
            again,
            times,
            among: self.among,
            builds_left,
            measurements_left,
        }
    }

    /// How often a kernel must be measured to tell no difference from the smallest effect, against
    /// one whose figure has this variance.
    fn repeats(&self, against: f64) -> usize {
        let wanted = self.smallest * self.smallest / 2.0 / CERTAIN - against;
        let wanted = self.noise * self.noise / wanted.max(1e-9);
        (1..REPEATS).find(|n| *n as f64 >= wanted).unwrap_or(REPEATS)
    }

    /// Rate of a kernel; `None` when it gives nothing that can be used.
    fn figure(&self, setup: &Setup) -> Looked<Option<Figure>> {
        match self.answers.get(setup) {
            None => Err(self.ask(setup, false, 1)),
            Some(KernelAnswer::NoBoot | KernelAnswer::Unclear) => Ok(None),
            Some(KernelAnswer::Rates(rates)) => Ok(pool(rates, self.noise)),
        }
    }

    /// Rate of a kernel and of all that were found to be like it.
    fn level(&self, setup: &Setup, own: Figure) -> Figure {
        let like = self.like.iter().find(|like| like.contains(setup));
        let rates = like.into_iter().flatten().filter_map(|s| match self.answers.get(s) {
            Some(KernelAnswer::Rates(rates)) => Some(rates.as_slice()),
            _ => None,
        });
        pool(&rates.collect::<Vec<_>>().concat(), self.noise).unwrap_or(own)
    }

    /// Notes that two kernels are alike, and with them all that are like either.
    fn note_alike(&mut self, one: &Setup, other: &Setup) {
        let mut all: BTreeSet<Setup> = [one.clone(), other.clone()].into();
        self.like.retain_mut(|like| {
            let apart = !like.contains(one) && !like.contains(other);
            if !apart {
                all.append(like);
            }
            apart
        });
        self.like.push(all);
    }

    /// True if two kernels that were measured differ by the smallest effect. Figures on the edge
    /// are asked for again.
    fn differ(&mut self, one: &Setup, other: &Setup) -> Looked<bool> {
        let (Some(x), Some(y)) = (self.figure(one)?, self.figure(other)?) else { return Ok(false) };
        // Two that came to be alike through others are compared by themselves.
        let known = self.like.iter().any(|like| like.contains(one) && like.contains(other));
        let (x, y) = if known { (x, y) } else { (self.level(one, x), self.level(other, y)) };
        let difference = (x.ln - y.ln).abs();
        let edge = self.smallest / 2.0;
        let is_certain =
            (difference - edge).abs() * self.smallest > CERTAIN * (x.variance + y.variance);
        let mut noisier = [(x.variance, one, y), (y.variance, other, x)];
        if y.variance > x.variance {
            noisier.swap(0, 1);
        }
        for (_, setup, against) in noisier.into_iter().filter(|_| !is_certain) {
            let done = self.times(setup);
            if done < REPEATS {
                let times = self.repeats(against.variance).saturating_sub(done);
                return Err(self.ask(setup, true, times.clamp(1, REPEATS - done)));
            }
        }
        if difference <= edge {
            self.note_alike(one, other);
        }
        Ok(difference > edge)
    }

    fn times(&self, setup: &Setup) -> usize {
        match self.answers.get(setup) {
            Some(KernelAnswer::Rates(rates)) => rates.len(),
            _ => 0,
        }
    }

    /// Finds the steps between two kernels that differ in `options`, which are as in A in `low` and
    /// as in B in `high`.
    fn halve(
        &mut self,
        low: &Setup,
        high: &Setup,
        options: &[usize],
        found: &mut Vec<Culprit>,
    ) -> Looked<()> {
        self.among = options.len();
        if !self.differ(low, high)? {
            return Ok(());
        }
        if options.len() > 1 {
            for attempt in 0..ATTEMPTS {
                let (first, second) = halves(options, attempt);
                let mut middle = low.clone();
                first.iter().for_each(|i| set(&mut middle, *i));
                self.among = options.len();
                if self.figure(&middle)?.is_none() {
                    continue;
                }
                self.halve(low, &middle, &first, found)?;
                return self.halve(&middle, high, &second, found);
            }
        }
        let (Some(x), Some(y)) = (self.figure(low)?, self.figure(high)?) else { return Ok(()) };
        found.push(Culprit {
            options: options.to_vec(),
            effect: y.ln - x.ln,
            error: (x.variance + y.variance).sqrt(),
            alone: None,
        });
        Ok(())
    }
}

/// Rates that can be used, as logarithms, with their own errors.
fn usable(rates: &[(f64, Option<f64>)]) -> impl Iterator<Item = (f64, Option<f64>)> {
    let these = rates.iter().filter(|(rate, _)| rate.is_finite() && *rate > 0.0);
    these.map(|(rate, error)| (rate.ln(), error.filter(|e| e.is_finite())))
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let count = values.clone().map(|_| 1.0).sum::<f64>();
    (count > 0.0).then(|| (values.sum::<f64>() / count, count))
}

/// The standard deviation of one figure: that of all that were repeated, with a guess that counts
/// less the more there are.
fn noise(answers: &BTreeMap<Setup, KernelAnswer>) -> f64 {
    let (mut squares, mut freedom) = (NOISE * NOISE * GUESS, GUESS);
    for answer in answers.values() {
        let KernelAnswer::Rates(rates) = answer else { continue };
        let values: Vec<f64> = usable(rates).map(|(ln, _)| ln).collect();
        let Some((middle, count)) = mean(values.iter().copied()) else { continue };
        squares += values.iter().map(|ln| (ln - middle) * (ln - middle)).sum::<f64>();
        freedom += count - 1.0;
    }
    (squares / freedom).sqrt()
}

/// The figure of repeated rates.
fn pool(rates: &[(f64, Option<f64>)], noise: f64) -> Option<Figure> {
    let values: Vec<(f64, Option<f64>)> = usable(rates).collect();
    let (ln, count) = mean(values.iter().map(|(ln, _)| *ln))?;
    let squares = values.iter().map(|(_, error)| error.unwrap_or(noise).powi(2)).sum::<f64>();
    Some(Figure { ln, variance: squares / count / count })
}

/// Two halves; each attempt another way. The first keeps the order, in which what depends on an
/// option follows it; the second swaps them, for a kernel that needs both of a pair.
fn halves(options: &[usize], attempt: u64) -> (Vec<usize>, Vec<usize>) {
    let mut options = options.to_vec();
    let middle = options.len().div_ceil(2);
    match attempt {
        0 => {}
        1 => options.rotate_left(middle),
        _ => fastrand::Rng::with_seed(attempt).shuffle(&mut options),
    }
    let cut = if attempt == 1 { options.len() - middle } else { middle };
    let second = options.split_off(cut);
    (options, second)
}

fn on(setup: &Setup, index: usize) -> bool {
    setup.get(index).copied().unwrap_or(false)
}

fn set(setup: &mut Setup, index: usize) {
    if let Some(bit) = setup.get_mut(index) {
        *bit = true;
    }
}

fn setup_of(n: usize, culprits: &[Culprit]) -> Setup {
    let mut setup = vec![false; n];
    culprits.iter().flat_map(|c| &c.options).for_each(|i| set(&mut setup, *i));
    setup
}

#[cfg(test)]
mod tests;
