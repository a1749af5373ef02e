//! The search for the best combination, on routers whose response to every combination is known.
//!
//! A surface is one of two kinds. *Effects*: each level has an effect of its own (standard deviation
//! 10 %), each two levels one together (8 %). *CPUs*: each factor puts a share of the work on the CPU
//! of its level, CPUs differ, and the rate is what the busiest one lets through. Beside the noise the
//! machine loses 0.05 % with every trial, and one trial in fifty is refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linerate::measure::search::{Climb, Combination, Prior};

use crate::simulated::normal;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Effects,
    Cpus,
}

/// The response of every combination, as a logarithm.
struct Surface {
    sizes: Vec<usize>,
    worth: BTreeMap<Combination, f64>,
}

impl Surface {
    fn new(kind: Kind, sizes: &[usize], rng: &mut fastrand::Rng) -> Self {
        let mut all = vec![vec![]];
        for &size in sizes {
            let longer = |p: &Combination| (0..size).map(|l| [p, &[l][..]].concat()).collect();
            all = all.iter().flat_map::<Vec<_>, _>(longer).collect();
        }
        let most = *sizes.iter().max().unwrap();
        let single: Vec<Vec<f64>> =
            sizes.iter().map(|_| (0..most).map(|_| 0.1 * normal(rng)).collect()).collect();
        let mut together = BTreeMap::new();
        for (one, first) in sizes.iter().enumerate() {
            for (two, second) in sizes.iter().enumerate().skip(one + 1) {
                for at in 0..first * second {
                    together.insert((one, two, at / second, at % second), 0.08 * normal(rng));
                }
            }
        }
        let speed: Vec<f64> = (0..most).map(|_| 0.7 + 0.6 * rng.f64()).collect();
        let idle: Vec<f64> = (0..most).map(|_| 0.3 * rng.f64()).collect();
        let work: Vec<f64> = sizes.iter().map(|_| 0.3 + rng.f64()).collect();
        let effects = |p: &Combination| {
            let mut sum = 0.0;
            for (one, &a) in p.iter().enumerate() {
                sum += single[one][a];
                for (two, &b) in p.iter().enumerate().skip(one + 1) {
                    sum += together[&(one, two, a, b)];
                }
            }
            sum
        };
        let cpus = |p: &Combination| {
            let mut busy = idle.clone();
            p.iter().enumerate().for_each(|(f, &cpu)| busy[cpu] += work[f] / speed[cpu]);
            let soft = busy.iter().map(|b| b.powi(8)).sum::<f64>().powf(0.125);
            -(0.7 * busy.iter().copied().fold(0.0, f64::max) + 0.3 * soft).ln()
        };
        let response = |p: &Combination| if kind == Kind::Effects { effects(p) } else { cpus(p) };
        let worth = all.iter().map(|p| (p.clone(), response(p))).collect();
        Self { sizes: sizes.to_vec(), worth }
    }

    /// Share of the best that a search in `trials` ends with, and that the best of the three
    /// combinations has which it hands on.
    fn search(&self, trials: usize, noise: f64, knows: bool, seed: u64) -> (f64, f64) {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let best = self.worth.values().copied().fold(f64::NEG_INFINITY, f64::max);
        // A model that is off by 5 %, and its ten best guesses.
        let said: BTreeMap<_, _> =
            self.worth.iter().map(|(p, w)| (p.clone(), -w + 0.05 * normal(&mut rng))).collect();
        let mut starts: Vec<_> = self.worth.keys().cloned().collect();
        starts.sort_by(|a, b| said[a].total_cmp(&said[b]));
        starts.truncate(if knows { 10 } else { 0 });
        let prior: Prior<'_> = Box::new(|p| said.get(p).copied().filter(|_| knows));
        let mut climb = Climb::new(self.sizes.clone(), starts, trials, prior, seed);
        let mut lost = 0.0;
        loop {
            let batch = climb.next_batch();
            if batch.is_empty() {
                break;
            }
            let mut measure = |p: &Combination| {
                lost += 0.0005;
                (rng.u32(..50) > 0).then(|| 21.0 + self.worth[p] - lost + noise * normal(&mut rng))
            };
            climb.take(&batch.iter().map(&mut measure).collect::<Vec<_>>());
        }
        assert!(climb.used() <= trials && climb.used() + 1 >= trials, "{} trials", climb.used());
        let shares: Vec<f64> = climb.best(3).iter().map(|p| (self.worth[p] - best).exp()).collect();
        (shares[0], shares.iter().copied().fold(0.0, f64::max))
    }
}

/// Trials that `tune --search` takes for so many combinations.
fn trials(sizes: &[usize]) -> usize {
    (sizes.iter().product::<usize>() * 5 / 4).clamp(96, 400)
}

/// Percentages of `seeds` searches that end within 2 % of the best; with the best alone, and among
/// the three.
fn reached(
    kind: Kind,
    sizes: &[usize],
    noise: f64,
    knows: bool,
    seeds: std::ops::Range<u64>,
) -> (f64, f64) {
    let count = seeds.end - seeds.start;
    let (mut alone, mut among) = (0, 0);
    for seed in seeds {
        let surface = Surface::new(kind, sizes, &mut fastrand::Rng::with_seed(seed));
        let (first, three) = surface.search(trials(sizes), noise, knows, seed);
        alone += u32::from(first >= 0.98);
        among += u32::from(three >= 0.98);
    }
    let percent = |n: u32| 100.0 * f64::from(n) / count as f64;
    (percent(alone), percent(among))
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_search_of_few_combinations_ends_within_2_percent_of_the_best() {
    for kind in [Kind::Effects, Kind::Cpus] {
        for noise in [0.02, 0.05] {
            let (alone, among) = reached(kind, &[2, 2, 2], noise, false, 0..20);
            assert!(alone >= 95.0 && among >= 95.0, "noise {noise}: {alone} %, {among} %");
        }
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_search_of_many_combinations_ends_within_2_percent_of_the_best() {
    let (alone, _) = reached(Kind::Cpus, &[4, 4, 4], 0.02, false, 0..4);
    assert!(alone >= 95.0, "{alone} %");
    let (alone, _) = reached(Kind::Effects, &[3, 3, 4, 4, 4], 0.02, true, 0..1);
    assert!(alone >= 95.0, "{alone} %");
}

/// Levels that are good in good company only were never tried in it: of 20 searches 6 ended 5 to 16 %
/// below the best, with most of their trials spent on what was tied for the first place.
#[test]
#[ignore = "slow: make test runs it"]
fn a_search_of_576_placements_tries_every_cpu_in_good_company() {
    let (alone, _) = reached(Kind::Cpus, &[24, 24], 0.02, false, 0..2);
    assert!(alone >= 95.0, "{alone} %");
}

/// The table of docs/tune.md: cargo test --release --test pure `whole_table` -- --ignored --nocapture
#[test]
#[ignore = "slow: an hour; its figures change with the search alone"]
fn whole_table_of_the_search() {
    let mut table = String::new();
    let mut least = 100.0_f64;
    let shapes: [(&str, &[usize]); 4] = [
        ("2x2x2", &[2, 2, 2]),
        ("4x4x4x4", &[4, 4, 4, 4]),
        ("24x24", &[24, 24]),
        ("3x3x4x4x4", &[3, 3, 4, 4, 4]),
    ];
    for (name, sizes) in shapes {
        for (kind, surface) in [(Kind::Effects, "effects"), (Kind::Cpus, "CPUs")] {
            for noise in [0.02, 0.05] {
                for (knows, model) in [(true, "good"), (false, "none")] {
                    let (alone, among) = reached(kind, sizes, noise, knows, 0..300);
                    let trials = trials(sizes);
                    let noise = noise * 100.0;
                    let row = format!(
                        "| {name} | {surface} | {noise:.0} % | {model} | {trials} | {alone:.0} % | {among:.0} % |"
                    );
                    println!("{row}");
                    writeln!(table, "{row}").unwrap();
                    least = least.min(alone);
                }
            }
        }
    }
    assert!(least >= 95.0, "{table}");
}
