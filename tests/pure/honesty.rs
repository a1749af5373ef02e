//! Does the verdict keep its promises? Simulated experiments with known truth, seeded.

use crate::simulated::{Shape, Truth, refuse, simulate};
use linerate::decide::experiment::{
    Decision, Leaning, Verdict, analyse, blocks_to_show, compare, decide, precise_enough,
};
use linerate::model::goal::{Combination, Design, Factor, Varied};
use linerate::model::measurement::{CellRole, Direction, Experiment, RefusalCode};
use linerate::model::units::BitRate;

fn two(multiple: f64, cv: f64, blocks: u32, seed: u64) -> Truth {
    Truth {
        candidates: vec![("as-found", 1.0), ("other", multiple)],
        cv,
        blocks,
        seed,
        ..Truth::default()
    }
}

/// A user who tests the same settings under three names must not be told to change anything.
#[test]
fn equal_settings_are_hardly_ever_called_different() {
    let mut claims = 0;
    let mut losers = 0;
    for seed in 0..200 {
        let truth = Truth {
            candidates: vec![("as-found", 1.0), ("a", 1.0), ("b", 1.0), ("c", 1.0)],
            cv: 0.05,
            seed,
            ..Truth::default()
        };
        let analysis = analyse(&simulate(&truth));
        claims += usize::from(
            analysis
                .candidates
                .iter()
                .any(|c| matches!(c.verdict, Verdict::Better | Verdict::Worse)),
        );
        losers += usize::from(!analysis.best.unwrap().behind.is_empty());
    }
    assert!(claims <= 10, "{claims} of 200 A/A runs claimed a difference");
    assert!(losers <= 10, "{losers} of 200 A/A runs left a candidate out of the best set");
}

/// So many equal candidates.
fn equal(count: usize, cv: f64, seed: u64) -> Truth {
    let names = (0..count).map(|n| (&*format!("c{n}").leak(), 1.0));
    Truth { candidates: names.collect(), cv, seed, ..Truth::default() }
}

/// Runs in which one of equal candidates was called slower than the best.
fn excluded(count: usize, cv: f64, dips: bool, runs: u64) -> usize {
    let leaves_one_out = |seed: &u64| {
        let shape = if dips { Shape::Dips } else { Shape::Normal };
        let truth = Truth { shape, block_cv: 0.0, ..equal(count, cv, *seed) };
        !analyse(&simulate(&truth)).best.unwrap().behind.is_empty()
    };
    (0..runs).filter(leaves_one_out).count()
}

#[test]
fn the_best_set_leaves_none_of_many_equal_candidates_out() {
    // A noise of which the band of 1 % takes nothing away.
    for (count, runs) in [(3, 100), (12, 40)] {
        let wrong = excluded(count, 0.1, false, runs);
        assert!(wrong as u64 * 20 <= runs, "{count} equal ones: {wrong} of {runs} runs");
    }
}

/// The table of docs/tune-analysis.md: cargo test --release --test pure `whole_table` -- --ignored
/// --nocapture
#[test]
#[ignore = "slow: ten thousand simulated experiments"]
fn whole_table_of_equal_candidates_and_of_dips() {
    let mut most = 0.0_f64;
    for count in [2, 4, 8, 16, 32, 64] {
        let mut row = format!("| {count} |");
        for (cv, dips) in [(0.02, false), (0.1, false), (0.02, true)] {
            let share = excluded(count, cv, dips, 1000) as f64 / 10.0;
            most = most.max(share);
            row += &format!(" {share:.1} % |");
        }
        println!("{row}");
    }
    assert!(most <= 5.0, "{most} %");
    for one_way in [true, false] {
        for cv in [0.02, 0.05] {
            let truth = Truth { one_way, shape: Shape::Dips, ..two(1.0, cv, 10, 0) };
            println!("{one_way} {cv}: {:?}", dipping(&truth, 5000));
        }
    }
}

/// Noise that is not ours: what each makes of an equal candidate.
fn other_noise(runs: u64) -> Vec<(String, (f64, f64, f64))> {
    let mut rows = Vec::new();
    for one_way in [true, false] {
        for cv in [0.02, 0.1] {
            for shape in Shape::ALL {
                for drift in [0.0, -0.02] {
                    let truth = Truth { one_way, shape, drift, ..two(1.0, cv, 10, 0) };
                    let name = format!("{shape:?}, {cv}, drift {drift}, one way {one_way}");
                    rows.push((name, dipping(&truth, runs)));
                }
            }
        }
    }
    rows
}

/// The other table of docs/tune-analysis.md: `cargo test --release --test pure whole_table --
/// --ignored --nocapture`.
#[test]
#[ignore = "slow: five thousand simulated experiments"]
fn whole_table_of_other_noise() {
    let rows = other_noise(5000 / 48 + 1);
    let mean = |of: fn(&(f64, f64, f64)) -> f64| {
        rows.iter().map(|(_, row)| of(row)).sum::<f64>() / rows.len() as f64
    };
    for (name, (better, worse, held)) in &rows {
        println!("{name}: better {better:.3}, worse {worse:.3}, coverage {held:.3}");
    }
    let (better, worse, held) = (mean(|r| r.0), mean(|r| r.1), mean(|r| r.2));
    println!("all: better {better:.4}, worse {worse:.4}, coverage {held:.4}");
    assert!(better <= 0.025 && worse <= 0.025 && (0.93..=0.97).contains(&held));
}

#[test]
fn noise_that_is_not_ours_makes_no_candidate_better_or_worse() {
    let rows = other_noise(12);
    let mean = |of: fn(&(f64, f64, f64)) -> f64| {
        rows.iter().map(|(_, row)| of(row)).sum::<f64>() / rows.len() as f64
    };
    let (better, worse, held) = (mean(|r| r.0), mean(|r| r.1), mean(|r| r.2));
    assert!(better <= 0.03 && worse <= 0.03, "better {better}, worse {worse}: {rows:?}");
    assert!((0.92..=0.98).contains(&held), "coverage {held}: {rows:?}");
}

/// "As fast" is a claim like any other.
#[test]
fn what_is_called_as_fast_is_hardly_ever_slower() {
    let mut wrong = 0;
    let mut said = 0;
    for seed in 0..200 {
        let candidates = vec![("as-found", 1.0), ("b", 1.3), ("c", 1.3), ("d", 1.3 / 1.011)];
        let truth = Truth { candidates, cv: 0.006, seed, ..Truth::default() };
        let best = analyse(&simulate(&truth)).best.unwrap();
        said += usize::from(!best.tied.is_empty());
        let apart = |name: &str| (name == "d") != (best.leader == "d");
        wrong += usize::from(best.tied.iter().any(|name| apart(name)));
        let open = best.undecided.iter().all(|name| best.includes(name));
        assert!(open && !best.includes("as-found"));
    }
    assert!(wrong <= 10 && said >= 100, "{wrong} of {said}");
}

/// What a run advises, and whether that is at least as fast as what is there, in truth.
fn wrong_advice(runs: u64) -> (u64, Vec<String>) {
    let mut wrong = Vec::new();
    let mut made = 0;
    let designs: [&[f64]; 5] = [
        &[1.0, 1.0],
        &[1.0, 1.0, 1.0, 1.0],
        &[1.0, 1.005, 0.995, 0.98],
        &[1.0, 1.05, 1.0, 0.9],
        &[1.0; 8],
    ];
    'all: for seed in 0.. {
        for multiples in designs {
            for shape in Shape::ALL {
                for (one_way, cv) in [(true, 0.02), (false, 0.1)] {
                    if made == runs {
                        break 'all;
                    }
                    made += 1;
                    let names = ["as-found", "b", "c", "d", "e", "f", "g", "h"];
                    let candidates = names.into_iter().zip(multiples.iter().copied()).collect();
                    let truth = Truth { candidates, cv, one_way, shape, seed, ..Truth::default() };
                    let experiment = simulate(&truth);
                    let decision = decide(&experiment, &analyse(&experiment));
                    if let Decision::Apply { candidate } = decision {
                        let fact =
                            truth.candidates.iter().find(|(n, _)| *n == candidate).unwrap().1;
                        if fact < 1.01 {
                            wrong.push(format!("{candidate} {fact} of {truth:?}"));
                        }
                    }
                }
            }
            if made < runs {
                made += 1;
                let none = factorial(1.0, 1.0, 1.0, 0.05, seed);
                if let Decision::Apply { candidate } = decide(&none, &analyse(&none)) {
                    wrong.push(format!("{candidate} of a factorial"));
                }
            }
        }
    }
    (made, wrong)
}

#[test]
fn advice_is_hardly_ever_wrong() {
    let (made, wrong) = wrong_advice(260);
    assert!(wrong.len() as u64 * 50 <= made, "{} of {made}: {wrong:#?}", wrong.len());
}

#[test]
#[ignore = "slow: two thousand simulated experiments"]
fn whole_table_of_advice() {
    let (made, wrong) = wrong_advice(2000);
    println!("wrong advice in {} of {made} runs: {wrong:#?}", wrong.len());
    assert!(wrong.len() as u64 * 100 <= made);
}

/// Shares of runs in which an equal candidate was called better, worse, and in which its interval held
/// the truth.
fn dipping(truth: &Truth, runs: u64) -> (f64, f64, f64) {
    let (mut better, mut worse, mut held) = (0, 0, 0);
    for seed in 0..runs {
        let analysis = analyse(&simulate(&Truth { seed, ..truth.clone() }));
        let other = analysis.candidate("other").unwrap();
        better += u32::from(other.verdict == Verdict::Better);
        worse += u32::from(other.verdict == Verdict::Worse);
        let effect = other.overall.unwrap();
        held += u32::from(effect.low <= 1.0 && 1.0 <= effect.high);
    }
    let share = |n: u32| f64::from(n) / runs as f64;
    (share(better), share(worse), share(held))
}

/// Another job on the machine for one cell in ten: the baseline, measured three times a block, would dip
/// more often and less deep than the others.
#[test]
fn cells_that_dip_make_no_candidate_better_or_worse() {
    for one_way in [true, false] {
        let truth = Truth { one_way, shape: Shape::Dips, ..two(1.0, 0.02, 10, 0) };
        let (better, worse, held) = dipping(&truth, 400);
        assert!(better <= 0.025 && worse <= 0.025, "better {better}, worse {worse}");
        assert!((0.92..=0.98).contains(&held), "coverage {held}");
    }
    let analysis = analyse(&simulate(&Truth { shape: Shape::Dips, ..two(1.5, 0.02, 10, 4) }));
    assert_eq!(analysis.candidate("other").unwrap().verdict, Verdict::Better);
    assert!(analysis.notes.iter().any(|n| n.contains("by ranks")), "{:?}", analysis.notes);
}

/// The CPU is cold when a block begins: what was measured there is of the baseline alone.
#[test]
fn a_claim_that_rests_on_the_cells_that_open_the_blocks_is_not_applied() {
    let mut experiment = simulate(&two(1.0, 0.002, 10, 3));
    for cell in experiment.cells.iter_mut().filter(|c| c.role == CellRole::Open) {
        cell.measurement.flows[0].goodput.0 *= 0.92;
    }
    let analysis = analyse(&experiment);
    assert_eq!(analysis.candidate("other").unwrap().verdict, Verdict::Better);
    let Decision::Leave { why } = decide(&experiment, &analysis) else {
        panic!("it would be applied")
    };
    assert!(why.contains("not by ranks"), "{why}");
    let better = simulate(&two(1.1, 0.01, 10, 3));
    let decision = decide(&better, &analyse(&better));
    assert_eq!(decision, Decision::Apply { candidate: "other".into() });
}

/// One direction alone has twice the variance: it takes more blocks, and the analysis says how many.
#[test]
fn with_one_direction_the_blocks_that_it_asks_for_show_a_gain_of_3_percent() {
    assert!(blocks_to_show(0.03, 0.02, 2) <= 10);
    let needed = blocks_to_show(0.03, 0.02, 1);
    let found = (0..40)
        .filter(|&seed| {
            let truth = Truth { one_way: true, ..two(1.03, 0.02, needed, seed) };
            analyse(&simulate(&truth)).candidate("other").unwrap().verdict == Verdict::Better
        })
        .count();
    assert!((11..=20).contains(&needed) && found >= 35, "{found} of 40 in {needed} blocks");
    let few = analyse(&simulate(&Truth { one_way: true, ..two(1.0, 0.04, 10, 1) }));
    assert!(few.notes.iter().any(|n| n.contains("may be missed")), "{:?}", few.notes);
}

/// A gain of 3 % in a steady lab must not be missed.
#[test]
fn a_real_gain_is_found() {
    // Both directions halve the variance; the claim needs the interval beyond 1 %, not beyond 0.
    let found = (0..200)
        .filter(|&seed| {
            let analysis = analyse(&simulate(&two(1.03, 0.02, 10, seed)));
            analysis.candidate("other").unwrap().verdict == Verdict::Better
        })
        .count();
    assert!(found >= 180, "a gain of 3 % was found in {found} of 200 runs");
}

#[test]
fn a_real_loss_is_found_and_leaves_the_best_set() {
    let found = (0..100)
        .filter(|&seed| {
            let analysis = analyse(&simulate(&two(0.9, 0.02, 10, seed)));
            analysis.candidate("other").unwrap().verdict == Verdict::Worse
                && !analysis.best.unwrap().includes("other")
        })
        .count();
    assert!(found >= 98, "a loss of 10 % was found in {found} of 100 runs");
}

/// How often the interval of a candidate that is 1.2 times the baseline holds 1.2.
fn coverage(truth: &Truth, runs: u64) -> f64 {
    let held = (0..runs)
        .filter(|&seed| {
            let experiment = simulate(&Truth { seed, ..truth.clone() });
            let effect = compare(&experiment, "other", "as-found").unwrap();
            effect.low <= 1.2 && 1.2 <= effect.high
        })
        .count();
    held as f64 / runs as f64
}

/// What noise there may be: normal; with outliers (three degrees of freedom); a machine that slows
/// down by 2 % from block to block, also while a block runs.
fn noises() -> [(&'static str, Truth); 3] {
    let normal = two(1.2, 0.05, 10, 0);
    [
        ("normal", normal.clone()),
        ("heavy-tailed", Truth { shape: Shape::Heavy, ..normal.clone() }),
        ("linear drift", Truth { drift: -0.02, ..normal }),
    ]
}

fn assert_coverage(runs: u64) {
    for (name, truth) in noises() {
        let share = coverage(&truth, runs);
        eprintln!("{name}: {share} of {runs} intervals held the truth");
        assert!((0.93..=0.97).contains(&share), "{name}: coverage {share}");
    }
}

#[test]
fn a_95_percent_interval_holds_the_truth_95_times_in_100() {
    assert_coverage(1500);
}

/// `cargo test --release --test honesty -- --ignored --nocapture`; docs/tune-analysis.md has what
/// came out.
#[test]
#[ignore = "30,000 simulated experiments"]
fn a_95_percent_interval_holds_the_truth_over_10_000_simulations() {
    assert_coverage(10_000);
}

/// Two by two by two: `rps`, `offload` and `governor`, with the given effects as multiples.
fn factorial(rps: f64, offload: f64, together: f64, cv: f64, seed: u64) -> Experiment {
    let names = ["000", "001", "010", "011", "100", "101", "110", "111"];
    let multiple = |name: &str| {
        let on = |at: usize| name.as_bytes()[at] == b'1';
        let (a, b) = (on(0), on(1));
        (if a { rps } else { 1.0 })
            * (if b { offload } else { 1.0 })
            * (if a && b { together } else { 1.0 })
    };
    let candidates = names.iter().map(|n| (*n, multiple(n))).collect();
    let mut experiment = simulate(&Truth { candidates, cv, blocks: 10, seed, ..Truth::default() });
    let level = |c: char| if c == '1' { "on" } else { "off" }.to_owned();
    let combination = |name: &&str| Combination {
        candidate: (*name).to_owned(),
        levels: name.chars().map(level).collect(),
    };
    let factor = |name: &str| Factor { name: name.into(), levels: vec!["off".into(), "on".into()] };
    experiment.design = Design::Factorial(Varied {
        factors: ["rps", "offload", "governor"].map(factor).to_vec(),
        combinations: names.iter().map(combination).collect(),
    });
    experiment
}

#[test]
fn a_factorial_finds_each_factor_and_what_two_do_together() {
    let analysis = analyse(&factorial(1.3, 0.8, 1.2, 0.02, 4));
    let found: Vec<(String, f64, Verdict)> = analysis
        .effects
        .iter()
        .map(|e| {
            let names: Vec<&str> = e.steps.iter().map(|s| s.factor.as_str()).collect();
            (names.join(" "), e.effect.unwrap().ratio, e.verdict)
        })
        .collect();
    // Averaged over the other: half of what both do together is counted with each.
    let half = 1.2_f64.sqrt();
    let expected = [
        ("rps", 1.3 * half, Some(Verdict::Better)),
        ("offload", 0.8 * half, Some(Verdict::Worse)),
        ("governor", 1.0, None),
        ("rps offload", 1.2, Some(Verdict::Better)),
        ("rps governor", 1.0, None),
        ("offload governor", 1.0, None),
    ];
    assert_eq!(found.len(), expected.len());
    for ((name, ratio, verdict), (what, truth, claim)) in found.iter().zip(expected) {
        assert_eq!(name, what);
        assert!((ratio / truth - 1.0).abs() < 0.03, "{name}: {ratio} instead of {truth}");
        match claim {
            Some(claim) => assert_eq!(*verdict, claim, "{name}"),
            None => assert!(!matches!(verdict, Verdict::Better | Verdict::Worse), "{name}"),
        }
    }
}

#[test]
fn factors_that_do_nothing_are_hardly_ever_called_effects() {
    let claims = (0..200)
        .filter(|&seed| {
            let effects = analyse(&factorial(1.0, 1.0, 1.0, 0.05, seed)).effects;
            effects.iter().any(|e| matches!(e.verdict, Verdict::Better | Verdict::Worse))
        })
        .count();
    assert!(claims <= 10, "{claims} of 200 runs claimed an effect");
}

#[test]
fn a_factorial_with_a_hole_gives_no_effects_and_says_so() {
    let mut experiment = factorial(1.3, 0.9, 1.0, 0.02, 4);
    if let Design::Factorial(varied) = &mut experiment.design {
        varied.combinations.pop();
    }
    let analysis = analyse(&experiment);
    assert!(analysis.effects.is_empty());
    assert!(
        analysis.notes.iter().any(|n| n.contains("not every combination")),
        "{:?}",
        analysis.notes
    );
}

#[test]
fn no_practical_difference_is_said_when_it_is_known() {
    let truth = two(1.0, 0.004, 10, 3);
    let analysis = analyse(&simulate(&truth));
    assert_eq!(analysis.candidate("other").unwrap().verdict, Verdict::NoPracticalDifference);
    assert!(precise_enough(&simulate(&truth)));
    assert!(!precise_enough(&simulate(&two(1.0, 0.05, 10, 3))), "too wide to stop");
    assert!(
        !precise_enough(&simulate(&two(1.0, 0.0001, 5, 3))),
        "with 5 blocks no p of 0.05 can come out, however narrow the interval"
    );
}

#[test]
fn five_blocks_suggest_but_do_not_prove() {
    let analysis = analyse(&simulate(&two(2.0, 0.02, 5, 1)));
    let other = analysis.candidate("other").unwrap();
    assert_eq!(other.verdict, Verdict::Undecided(Some(Leaning::Better)));
    assert!((other.overall.unwrap().p.unwrap() - 1.0 / 16.0).abs() < 1e-12);
    assert!(analysis.exploratory.iter().any(|why| why.contains("1 in 16")), "{analysis:?}");
}

#[test]
fn two_blocks_are_refused() {
    let analysis = analyse(&simulate(&two(2.0, 0.02, 2, 1)));
    assert_eq!(analysis.refused.as_deref(), Some("2 usable blocks; at least 3 are needed"));
    assert!(analysis.best.is_none());
    assert_eq!(analysis.candidate("other").unwrap().verdict, Verdict::NotMeasured);
}

/// Interleaving is there for this: the machine gets 4 % slower with every block.
#[test]
fn drift_is_reported_and_does_not_spoil_the_ratio() {
    let truth = Truth { drift: -0.04, block_cv: 0.0, ..two(1.5, 0.01, 10, 5) };
    let analysis = analyse(&simulate(&truth));
    let drift = analysis.noise.drift.unwrap();
    assert!(drift.is_shown() && (drift.per_block + 0.04).abs() < 0.005, "{drift:?}");
    let effect = analysis.candidate("other").unwrap().overall.unwrap();
    assert!((effect.ratio - 1.5).abs() < 0.03 && effect.half_width() < 0.02, "{effect:?}");
}

#[test]
fn the_noise_floor_is_the_noise() {
    let truth = Truth { blocks: 200, ..two(1.0, 0.05, 200, 5) };
    let noise = analyse(&simulate(&truth)).noise;
    assert_eq!(noise.pairs, 400);
    assert!((noise.cv.unwrap() - 0.05).abs() < 0.005, "{noise:?}");
}

#[test]
fn refused_cells_are_left_out_and_counted_but_outliers_stay() {
    let mut experiment = simulate(&two(1.5, 0.01, 10, 5));
    let clean = analyse(&experiment).candidate("other").unwrap().overall.unwrap();
    let hit = experiment
        .cells
        .iter_mut()
        .find(|c| c.candidate == "other" && c.measurement.direction == Direction::Up)
        .unwrap();
    hit.measurement.flows[0].goodput.0 /= 10.0;

    let with_outlier = analyse(&experiment).candidate("other").unwrap().overall.unwrap();
    assert_eq!(with_outlier.blocks, 10, "an outlier without a reason is data");
    assert!(with_outlier.ratio < clean.ratio - 0.1);

    let hit = experiment
        .cells
        .iter_mut()
        .find(|c| c.candidate == "other" && c.measurement.direction == Direction::Up)
        .unwrap();
    refuse(hit, RefusalCode::Throttled, "CPU0 at 600 of 1500 MHz");
    let analysis = analyse(&experiment);
    let effect = analysis.candidate("other").unwrap().overall.unwrap();
    assert_eq!(effect.blocks, 9, "a block with one direction missing is not comparable");
    assert!((effect.ratio - clean.ratio).abs() < 0.02);
    assert_eq!((analysis.cells, analysis.refused_cells), (80, 1));
    assert_eq!(analysis.refusals[0].code, RefusalCode::Throttled);
    assert_eq!(analysis.refusals[0].example, "CPU0 at 600 of 1500 MHz");
}

#[test]
fn a_block_whose_baseline_lost_a_cell_still_counts() {
    let mut experiment = simulate(&two(1.5, 0.01, 10, 5));
    refuse(&mut experiment.cells[0], RefusalCode::NoTraffic, "nothing arrived");
    assert_eq!(analyse(&experiment).candidate("other").unwrap().overall.unwrap().blocks, 10);
}

/// A line of 2.65 Gbit/s: TCP at 2.5 Gbit/s fills it.
fn at_line(multiple: f64) -> Experiment {
    let mut experiment = simulate(&two(multiple, 0.001, 10, 5));
    experiment.cells.retain(|c| c.measurement.direction == Direction::Down);
    experiment.directions = vec![Direction::Down];
    for cell in &mut experiment.cells {
        cell.measurement.flows[0].goodput =
            BitRate(2.5e9 * if cell.candidate == "other" { multiple.min(1.0) } else { 1.0 });
    }
    experiment.link = Some(BitRate(2.65e9));
    experiment
}

#[test]
fn where_all_fill_the_line_cpu_time_is_compared_and_not_the_rate() {
    let mut experiment = at_line(1.0);
    for cell in &mut experiment.cells {
        let saves = if cell.candidate == "other" { 0.5 } else { 1.0 };
        for cpu in &mut cell.measurement.cpus {
            cpu.softirq *= saves;
            cpu.irq *= saves;
        }
    }
    let analysis = analyse(&experiment);
    assert!(analysis.at_line[0].by_cpu);
    let other = analysis.candidate("other").unwrap();
    assert!((other.overall.unwrap().ratio - 2.0).abs() < 0.05, "{:?}", other.overall);
    assert_eq!(other.verdict, Verdict::Better);
    assert!((other.rates[0].mean.unwrap().0 - 2.5e9).abs() < 1e6, "the table still has rates");
    assert!(analysis.notes[0].contains("the line limits"), "{:?}", analysis.notes);

    experiment.link = None;
    let analysis = analyse(&experiment);
    assert!(analysis.at_line.is_empty() && analysis.notes.is_empty(), "no line, no limit");
    assert_eq!(analysis.candidate("other").unwrap().verdict, Verdict::NoPracticalDifference);
}

/// It may spend little CPU time on a packet and yet carry half.
#[test]
fn where_one_stays_below_the_line_rates_are_compared() {
    let analysis = analyse(&at_line(0.5));
    assert_eq!(analysis.at_line[0].candidates, ["as-found"]);
    assert!(!analysis.at_line[0].by_cpu);
    assert!((analysis.candidate("other").unwrap().overall.unwrap().ratio - 0.5).abs() < 1e-3);
    assert!(analysis.notes[0].contains("lower bounds"), "{:?}", analysis.notes);
}

#[test]
fn without_cpu_figures_the_full_line_is_only_noted() {
    let mut experiment = at_line(1.0);
    experiment.cells.iter_mut().for_each(|c| c.measurement.cpus.clear());
    let analysis = analyse(&experiment);
    assert!(!analysis.at_line[0].by_cpu);
    assert!(analysis.notes[0].contains("the line limits"), "{:?}", analysis.notes);
}

#[test]
fn comparing_the_other_way_round_gives_the_inverse() {
    let experiment = simulate(&Truth::default());
    let there = compare(&experiment, "rps-all", "one-cpu").unwrap();
    let back = compare(&experiment, "one-cpu", "rps-all").unwrap();
    assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
    assert!((there.low * back.high - 1.0).abs() < 1e-12);
    assert!(compare(&experiment, "rps-all", "rps-all").is_none());
    assert!(compare(&experiment, "rps-all", "no such").is_none());
}
