//! Does the verdict keep its promises? Simulated experiments with known truth, seeded.

mod common;

use common::{Truth, refuse, simulate};
use linerate::experiment::{
    Leaning, Options, Verdict, analyse, analyse_with, compare, precise_enough,
};
use linerate::model::measurement::{Direction, RefusalCode};
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

#[test]
fn a_95_percent_interval_holds_the_truth_95_times_in_100() {
    let runs = 2000;
    let held = (0..runs)
        .filter(|&seed| {
            let experiment = simulate(&two(1.2, 0.05, 8, seed));
            let effect = compare(&experiment, "other", "as-found").unwrap();
            effect.low <= 1.2 && 1.2 <= effect.high
        })
        .count();
    let share = held as f64 / runs as f64;
    assert!((0.93..=0.97).contains(&share), "coverage {share}");
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

#[test]
fn at_the_lines_rate_the_figure_is_called_the_lines() {
    let experiment = simulate(&two(1.0, 0.001, 10, 5));
    let options = Options { line_rate: Some(BitRate(2.4e9)) };
    let analysis = analyse_with(&experiment, &options);
    assert!(analysis.candidates[0].rates[0].censored > 0);
    assert!(analysis.notes[0].contains("the line limits"), "{:?}", analysis.notes);
    assert!(analyse(&experiment).notes.is_empty(), "no line, no limit");
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
