//! Simulated kernels whose culprits are known.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A board: what each option costs, alone and together, and what does not boot.
#[derive(Debug, Clone, Default)]
struct Board {
    options: usize,
    /// Option, and its effect on ln(rate).
    costs: Vec<(usize, f64)>,
    /// Options that cost something more only together.
    together: Vec<(usize, usize, f64)>,
    /// Either of the two costs it, both no more than one.
    either: Vec<(usize, usize, f64)>,
    /// The first does not boot without the second.
    needs: Vec<(usize, usize)>,
    noise: f64,
}

impl Board {
    fn boots(&self, s: &Setup) -> bool {
        self.needs.iter().all(|(what, needed)| !s[*what] || s[*needed])
    }

    fn rate(&self, s: &Setup, rng: &mut fastrand::Rng) -> f64 {
        let mut ln = 1100.0_f64.ln();
        ln += self.costs.iter().filter(|(i, _)| s[*i]).map(|(_, e)| e).sum::<f64>();
        ln += self.together.iter().filter(|(i, j, _)| s[*i] && s[*j]).map(|t| t.2).sum::<f64>();
        ln += self.either.iter().filter(|(i, j, _)| s[*i] || s[*j]).map(|t| t.2).sum::<f64>();
        // Twelve uniforms make a normal.
        let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        (ln + self.noise * normal).exp()
    }

    /// Plays it to the end: the verdict, the builds (A and B not counted) and the measurements.
    fn bisect(&self, seed: u64) -> (Verdict, usize, usize) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let goal = Goal { options: self.options, smallest: None };
        let mut answers: BTreeMap<Setup, KernelAnswer> = BTreeMap::new();
        let mut measured = 0;
        loop {
            match search(goal, &answers) {
                Ok(verdict) => return (verdict.clone(), verdict.builds, measured),
                Err(ask) => {
                    measured += 1;
                    assert!(measured < 3000, "it does not end: {self:?}");
                    assert_eq!(ask.again, answers.contains_key(&ask.setup));
                    if !self.boots(&ask.setup) {
                        answers.insert(ask.setup, KernelAnswer::NoBoot);
                        continue;
                    }
                    let rate = self.rate(&ask.setup, &mut rng);
                    match answers
                        .entry(ask.setup)
                        .or_insert_with(|| KernelAnswer::Rates(Vec::new()))
                    {
                        KernelAnswer::Rates(rates) => rates.push((rate, None)),
                        _ => unreachable!("measured what does not boot"),
                    }
                }
            }
        }
    }

    fn culprits(&self) -> BTreeSet<usize> {
        let pairs = self.together.iter().chain(&self.either).flat_map(|(i, j, _)| [*i, *j]);
        self.costs.iter().map(|(i, _)| *i).chain(pairs).collect()
    }
}

fn found(verdict: &Verdict) -> BTreeSet<usize> {
    verdict.culprits.iter().flat_map(|c| c.options.iter().copied()).collect()
}

/// Different places among `n`.
fn places<const K: usize>(n: usize, rng: &mut fastrand::Rng) -> [usize; K] {
    let mut all: Vec<usize> = (0..n).collect();
    rng.shuffle(&mut all);
    all[..K].try_into().unwrap()
}

/// Many boards of one kind: all culprits are found, and the median of builds is in bounds.
fn hold(kind: &str, culprits: usize, boards: impl Fn(usize, &mut fastrand::Rng) -> Board) {
    for n in [16, 100, 1000] {
        let mut rng = fastrand::Rng::with_seed(n as u64);
        let mut builds = Vec::new();
        let mut right = 0;
        let rounds = 60;
        for seed in 0..rounds {
            let board = boards(n, &mut rng);
            let (verdict, count, _) = board.bisect(seed);
            builds.push(count);
            if found(&verdict) == board.culprits() {
                right += 1;
            } else if board.noise == 0.0 {
                panic!("{kind}, {n}: {board:?} gives {verdict:?}");
            }
        }
        assert!(right * 100 >= rounds * 95, "{kind}, {n}: only {right} of {rounds} were right");
        builds.sort_unstable();
        let median = builds[builds.len() / 2];
        let bound = 2.0 * (n as f64).log2() * culprits as f64;
        assert!(median as f64 <= bound, "{kind}, {n}: {median} builds, at most {bound:.0}");
    }
}

#[test]
fn one_two_and_three_culprits_are_found() {
    for noise in [0.0, 0.02] {
        hold("one", 1, |options, rng| {
            let [a] = places(options, rng);
            Board { options, costs: vec![(a, -0.5)], noise, ..Board::default() }
        });
        hold("two", 2, |options, rng| {
            let [a, b] = places(options, rng);
            Board { options, costs: vec![(a, -0.53), (b, -0.25)], noise, ..Board::default() }
        });
        hold("three", 3, |options, rng| {
            let [a, b, c] = places(options, rng);
            let costs = vec![(a, -0.5), (b, -0.2), (c, -0.3)];
            Board { options, costs, noise, ..Board::default() }
        });
    }
}

#[test]
fn a_pair_that_costs_only_together_is_found_and_told() {
    for noise in [0.0, 0.02] {
        hold("together", 2, |options, rng| {
            let [a, b] = places(options, rng);
            Board { options, together: vec![(a, b, -0.6)], noise, ..Board::default() }
        });
    }
    let board = Board { options: 50, together: vec![(7, 30, -0.6)], ..Board::default() };
    let (verdict, ..) = board.bisect(1);
    let late = verdict.culprits.iter().find(|c| c.options == [30]).unwrap();
    assert!(late.interacts(verdict.smallest), "{verdict:?}");
}

#[test]
fn of_two_that_do_the_same_both_are_found() {
    hold("either", 2, |options, rng| {
        let [a, b] = places(options, rng);
        Board { options, either: vec![(a, b, -0.6)], noise: 0.01, ..Board::default() }
    });
}

#[test]
fn one_that_costs_more_beside_another_is_told() {
    let board = Board {
        options: 120,
        costs: vec![(11, -0.4), (90, -0.2)],
        together: vec![(11, 90, -0.3)],
        ..Board::default()
    };
    let (verdict, ..) = board.bisect(3);
    assert_eq!(found(&verdict), [11, 90].into());
    let late = &verdict.culprits[1];
    assert!((late.effect + 0.5).abs() < 1e-9 && (late.alone.unwrap() + 0.2).abs() < 1e-9);
    assert!(late.interacts(verdict.smallest));
    assert!(verdict.unexplained.abs() < 1e-9 && verdict.remaining.abs() < 1e-9);
}

#[test]
fn kernels_that_do_not_boot_are_gone_around() {
    for (count, noise) in [(1, 0.0), (3, 0.0), (3, 0.02)] {
        hold("no boot", 2, |options, rng| {
            let [a, b, ..] = places::<8>(options, rng);
            // An option that needs a later one: the worst that can be for halves in order. Never
            // both ways, for then nothing could tell the two apart.
            let needs = (0..count).map(|_| places::<2>(options, rng));
            let needs = needs.map(|[x, y]| (x.min(y), x.max(y)));
            let costs = vec![(a, -0.5), (b, -0.3)];
            Board { options, costs, needs: needs.collect(), noise, ..Board::default() }
        });
    }
}

/// A needs B and B needs A to boot: no kernel tells them apart, and that is what is said.
#[test]
fn what_no_kernel_tells_apart_is_named_together() {
    let board = Board {
        options: 20,
        costs: vec![(4, -0.5)],
        needs: vec![(4, 5), (5, 4)],
        ..Board::default()
    };
    let (verdict, ..) = board.bisect(1);
    assert_eq!(verdict.culprits.len(), 1);
    assert_eq!(verdict.culprits[0].options, [4, 5]);
}

#[test]
fn kernels_that_are_equally_fast_end_it_at_once() {
    let board = Board { options: 500, noise: 0.01, ..Board::default() };
    let (verdict, builds, _) = board.bisect(5);
    assert!(verdict.culprits.is_empty() && builds <= 1, "{verdict:?}");
}

#[test]
fn unclear_answers_and_nonsense_do_not_stop_it() {
    let goal = Goal { options: 4, smallest: None };
    let mut answers = BTreeMap::new();
    answers
        .insert(vec![false; 4], KernelAnswer::Rates(vec![(f64::NAN, None), (1000.0, Some(0.001))]));
    answers.insert(vec![true; 4], KernelAnswer::Rates(vec![(500.0, Some(f64::INFINITY))]));
    let mut count = 0;
    while let Err(ask) = search(goal, &answers) {
        count += 1;
        assert!(count < 300);
        answers.insert(
            ask.setup,
            if ask.again {
                KernelAnswer::Rates(vec![(1.0, None); 9])
            } else {
                KernelAnswer::Unclear
            },
        );
    }
    // No options at all, and no usable figure of A.
    let none = Goal { options: 0, smallest: Some(0.1) };
    assert!(search(none, &BTreeMap::new()).is_err());
    let bad = BTreeMap::from([(vec![], KernelAnswer::NoBoot)]);
    assert!(search(none, &bad).is_err_and(|ask| ask.again));
}

/// With figures that repeat within one percent a kernel is seldom measured more than a few times.
#[test]
fn with_one_percent_of_noise_three_measurements_of_a_kernel_are_enough() {
    for effect in [-1.03, -0.5, -0.22, -0.1] {
        let (mut times, mut right) = (Vec::new(), 0);
        for seed in 0..40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let [a] = places(300, &mut rng);
            let costs = vec![(a, effect)];
            let board = Board { options: 300, costs, noise: 0.01, ..Board::default() };
            let (verdict, builds, measured) = board.bisect(seed);
            right += usize::from(found(&verdict) == [a].into());
            times.push(measured as f64 / (builds + 2) as f64);
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        assert!(right >= 38, "{effect}: only {right} of 40 were right");
        assert!(median <= 3.0, "{effect}: {median}");
    }
}
