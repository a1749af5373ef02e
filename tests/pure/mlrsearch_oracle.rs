//! Our search beside the one of MLRsearch's authors (PyPI, MLRsearch 1.2.1) on the same simulated
//! devices: fixtures/statistics/generate-mlrsearch.py.

use linerate::measure::search::{Judgement, Load, Outcome, Proposal, Search, Target};
use linerate::model::sweep::{Goal, GoalOutcome, GoalResult};
use serde_json::Value;

fn oracle() -> Value {
    serde_json::from_str(include_str!("../../fixtures/statistics/mlrsearch-oracle.json")).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn goals(rows: &Value) -> Vec<Goal> {
    let goal = |row: &Value| Goal {
        name: String::new(),
        loss_ratio: number(&row[0]),
        exceed_ratio: number(&row[1]),
        initial_trial: number(&row[2]),
        final_trial: number(&row[3]),
        duration_sum: number(&row[4]),
        width: number(&row[5]),
    };
    rows.as_array().unwrap().iter().map(goal).collect()
}

/// The share that a device loses, as `loss` of the generator.
fn loss(kind: i64, a: f64, b: f64, rate: f64) -> f64 {
    match kind {
        0 => (1.0 - a / rate).max(0.0),
        1 if rate > a => 1.0 - (a / rate).powf(1.0 + b),
        2 if rate > a => (b * (rate / a).log2()).min(1.0),
        3 => b.max(1.0 - a / rate),
        4 if rate > a => b,
        _ => 0.0,
    }
}

/// Runs a search to its end; the trials it took, and their length in seconds.
fn run(search: &mut Search, count: f64, mut device: impl FnMut(f64) -> f64) -> (u64, f64) {
    let (mut trials, mut seconds) = (0, 0.0);
    while let Proposal::Trial(trial) = search.next() {
        let lost = (device(trial.rate) * count).round() as u64;
        let outcome = Outcome { sent: count as u64, lost, seconds: trial.seconds };
        search.take(&trial, &outcome).unwrap();
        trials += 1;
        seconds += trial.seconds;
        assert!(trials < 5000, "no end: {:?}", search.results());
    }
    (trials, seconds)
}

/// A missing bound is the limit it would lie behind.
fn same_bounds(ours: &GoalResult, lower: &Value, upper: &Value, what: &str) {
    let expected = match (lower.is_null(), upper.is_null()) {
        (false, false) => GoalOutcome::Found,
        (false, true) => GoalOutcome::AtOrAboveMaximum,
        (true, false) => GoalOutcome::BelowMinimum,
        (true, true) => panic!("{what}: the oracle found nothing"),
    };
    assert_eq!(ours.outcome, expected, "{what}: {ours:?}, oracle {lower} {upper}");
    for (ours_bound, theirs) in [(ours.lower, lower), (ours.upper, upper)] {
        assert_eq!(ours_bound.is_some(), !theirs.is_null(), "{what}");
        let (Some(ours_bound), Some(theirs)) = (ours_bound, theirs.as_f64()) else { continue };
        let apart = (ours_bound - theirs).abs() / ours_bound.max(theirs);
        // The fixture has seven digits.
        assert!(
            apart <= ours.goal.width + 1e-6,
            "{what}: {ours_bound} and {theirs} are {apart} apart: {ours:?}"
        );
    }
}

#[test]
fn on_thousands_of_devices_the_bounds_are_those_of_the_reference() {
    let oracle = oracle();
    let sets: Vec<Vec<Goal>> = oracle["goals"].as_array().unwrap().iter().map(goals).collect();
    let (minimum, maximum) = (number(&oracle["minimum"]), number(&oracle["maximum"]));
    let count = number(&oracle["count"]);
    let curves = oracle["curves"].as_array().unwrap();
    assert!(curves.len() >= 3000);
    let (mut trials, mut kinds) = (0, [0_u32; 3]);
    let mut seconds = vec![0.0; sets.len()];
    for curve in curves {
        let (kind, a, b) = (curve[0].as_i64().unwrap(), number(&curve[1]), number(&curve[2]));
        let set = usize::try_from(curve[3].as_u64().unwrap()).unwrap();
        let mut search = Search::new(&sets[set], minimum, maximum).unwrap();
        let (tried, took) = run(&mut search, count, |rate| loss(kind, a, b, rate));
        trials += tried;
        seconds[set] += took;
        for (i, ours) in search.results().iter().enumerate() {
            let what = format!("{curve}, goal {i}");
            same_bounds(ours, &curve[4 + 2 * i], &curve[5 + 2 * i], &what);
            kinds[ours.outcome as usize] += 1;
        }
    }
    assert!(kinds.iter().all(|k| *k > 100), "every kind of outcome occurs: {kinds:?}");
    let theirs = oracle["trials"].as_u64().unwrap();
    println!("{trials} trials, the reference {theirs}");
    for (ours, theirs) in seconds.iter().zip(oracle["seconds"].as_array().unwrap()) {
        let theirs = number(theirs);
        println!("{ours:.0} s of trials, the reference {theirs:.0}: {:.3}", ours / theirs);
        assert!(*ours <= theirs * 1.05, "{ours} s of trials, the reference needs {theirs}");
    }
}

#[test]
fn loads_are_judged_as_the_reference_does_whatever_their_trials() {
    let oracle = oracle();
    let mut seen = [0_u32; 3];
    for case in oracle["judged"].as_array().unwrap() {
        let target = Target {
            loss_ratio: number(&case[0]),
            exceed_ratio: number(&case[1]),
            trial: number(&case[2]),
            duration_sum: number(&case[3]),
            width: 0.01,
        };
        let mut load = Load::new(1000.0);
        for trial in case[4].as_array().unwrap() {
            let (seconds, lost) = (number(&trial[1]), trial[2].as_u64().unwrap());
            load.add(number(&trial[0]), &Outcome { sent: 1000, lost, seconds });
        }
        let judgement = load.judge(&target);
        let expected = match case[5].as_str().unwrap() {
            "L" => Judgement::Lower,
            "U" => Judgement::Upper,
            _ => Judgement::Undecided,
        };
        assert_eq!(judgement, expected, "{case}");
        seen[judgement as usize] += 1;
        let theirs = 1000.0 * (1.0 - number(&case[6]));
        let ours = load.throughput(&target);
        assert!((ours - theirs).abs() < 1e-6, "{case}: {ours}, oracle {theirs}");
    }
    assert!(seen.iter().all(|n| *n > 50), "{seen:?}");
}

/// Nobody gets the same noise twice: what must agree is where the results lie.
#[test]
fn on_devices_with_noise_the_results_lie_where_those_of_the_reference_do() {
    let oracle = oracle();
    let goals = goals(&oracle["goals"][2]);
    let (minimum, maximum) = (number(&oracle["minimum"]), number(&oracle["maximum"]));
    let count = number(&oracle["count"]);
    for device in oracle["noisy"].as_array().unwrap() {
        let (capacity, spread) = (number(&device["capacity"]), number(&device["spread"]));
        let hiccup = number(&device["hiccup"]);
        let mut lowers = vec![Vec::new(); goals.len()];
        for seed in 0..40 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut search = Search::new(&goals, minimum, maximum).unwrap();
            run(&mut search, count, |rate| {
                // A normal deviate by Box and Muller.
                let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                let deviate = radius * (std::f64::consts::TAU * random.f64()).cos();
                let mut now = capacity * (1.0 - (deviate * spread).abs());
                if random.f64() < hiccup {
                    now *= 0.8;
                }
                (1.0 - now / rate).max(0.0)
            });
            for (of, result) in lowers.iter_mut().zip(search.results()) {
                of.push(result.lower.unwrap_or(minimum));
            }
        }
        for (i, of) in lowers.iter_mut().enumerate() {
            of.sort_by(f64::total_cmp);
            let theirs: Vec<f64> =
                device["lower_10_50_90"][i].as_array().unwrap().iter().map(number).collect();
            let ours = [of[4], of[20], of[35]];
            println!("{capacity} {spread} {hiccup}: ours {ours:?}, reference {theirs:?}");
            let apart = (ours[1] / theirs[1] - 1.0).abs();
            // The median of 40 results, each only known to the goal's width.
            assert!(
                apart <= goals[i].width + spread,
                "goal {i} of {device}: median {}, the reference's {}",
                ours[1],
                theirs[1]
            );
        }
    }
}
