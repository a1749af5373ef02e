//! What four field reports published, as result files (fixtures/experiments): the report must say
//! what follows from them and no more.

use std::fs;

use linerate::decide::experiment::{Verdict, analyse, refuse_starved};
use linerate::machine::store::result::from_json;
use linerate::model::measurement::{Direction, Experiment, RefusalCode};
use linerate::report::render::Form;

use super::report::form;

pub(crate) fn field(name: &str) -> Experiment {
    let path = format!("{}/fixtures/experiments/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let mut experiment = from_json(&fs::read(path).unwrap(), name).unwrap();
    refuse_starved(&mut experiment);
    experiment
}

fn golden(name: &str) {
    let experiment = field(name);
    insta::assert_snapshot!(
        format!("field_{name}"),
        form(Form::Text, &experiment, &analyse(&experiment))
    );
}

#[test]
fn one_run_of_each_of_eight_cells_gives_effects_and_no_claim() {
    golden("fg50e-2x2x2");
    let experiment = field("fg50e-2x2x2");
    let analysis = analyse(&experiment);
    let why = analysis.refused.as_deref().unwrap();
    assert!(why.contains("one replicate has no interval"), "{why}");
    assert!(analysis.candidates.iter().all(|c| c.overall.is_none()));
    assert!(analysis.best.is_none());
    // By hand from the published uploads: means of logarithms with and without.
    let expected = [
        (&["flow_offload"][..], 1.2715),
        (&["irqbalance"], 2.1351),
        (&["steering"], 0.8270),
        (&["flow_offload", "irqbalance"], 0.6413),
        (&["flow_offload", "steering"], 0.5648),
        (&["irqbalance", "steering"], 1.1564),
    ];
    assert_eq!(analysis.effects.len(), expected.len());
    for ((names, ratio), effect) in expected.iter().zip(&analysis.effects) {
        let ours: Vec<&str> = effect.steps.iter().map(|s| s.factor.as_str()).collect();
        assert_eq!(&ours, names);
        assert!(
            (effect.observed.unwrap() - ratio).abs() < 5e-4,
            "{names:?}: {:?}",
            effect.observed
        );
        assert_eq!((effect.effect, effect.verdict), (None, Verdict::NotMeasured));
    }
    for kind in [Form::Text, Form::Markdown, Form::Html] {
        let form = form(kind, &experiment, &analysis);
        assert!(form.contains("no interval"), "{form}");
        assert!(!form.contains("best: "), "a claim without a repeat:\n{form}");
    }
}

#[test]
fn no_benefit_is_what_comes_of_a_placement_without_benefit() {
    golden("r4s-placement");
    let analysis = analyse(&field("r4s-placement"));
    assert_eq!(analysis.usable_blocks, 3);
    let tuned = analysis.candidate("tuned").unwrap();
    assert_eq!(tuned.verdict, Verdict::Undecided(None));
    assert_eq!(analysis.refusals[0].code, RefusalCode::NoAcknowledgement);
    assert!(analysis.best.unwrap().includes("default"));
}

#[test]
fn a_direction_that_starved_is_refused_and_the_full_line_is_compared_by_cpu_time() {
    golden("cm4-placement");
    let experiment = field("cm4-placement");
    let starved: Vec<_> = experiment.cells.iter().filter(|c| !c.measurement.is_valid()).collect();
    assert_eq!(starved.len(), 1);
    assert_eq!(starved[0].measurement.refusals[0].code, RefusalCode::DirectionStarved);
    assert_eq!(
        (starved[0].candidate.as_str(), starved[0].measurement.direction),
        ("default", Direction::Both)
    );
    let analysis = analyse(&experiment);
    let by_cpu: Vec<_> =
        analysis.at_line.iter().filter(|at| at.by_cpu).map(|at| at.direction).collect();
    assert_eq!(by_cpu, [Direction::Down, Direction::Up]);
    // 80.5k packets in 0.55 of a CPU, and 81k in 0.11.
    let down = analysis.candidate("placed").unwrap().observed.directions[0].1.unwrap();
    assert!((down - (81_000.0 / 0.11) / (80_500.0 / 0.55)).abs() < 1e-3, "{down}");
    assert!(analysis.refused.is_some());
}

#[test]
fn three_steps_without_a_repeat_are_ratios_and_no_proof() {
    golden("r76s-steps");
    let analysis = analyse(&field("r76s-steps"));
    let observed = |name| analysis.candidate(name).unwrap().observed.overall.unwrap();
    assert!((observed("step-1") - (706.0_f64 / 606.0 * 928.0 / 771.0).sqrt()).abs() < 1e-9);
    assert!((observed("final") - (2162.0_f64 / 606.0 * 1038.0 / 771.0).sqrt()).abs() < 1e-9);
    assert!(analysis.refused.is_some() && analysis.at_line.is_empty());
}
