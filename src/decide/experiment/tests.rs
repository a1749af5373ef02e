//! Which cells count, which candidate may be applied, and what may be the best: on experiments with
//! figures made up for it.

use super::*;
use crate::model::measurement::{
    Cell, CellRole, Direction, Experiment, Flow, Measurement, Refusal, RefusalCode,
};
use crate::model::plan::Candidate;
use crate::model::units::BitRate;

/// A record of the oldest format, without its cells.
fn experiment(candidates: &[&str]) -> Experiment {
    let bytes = include_bytes!("../../../fixtures/formats/result-v1.json");
    let mut experiment = crate::machine::store::result::from_json(bytes, "result-v1").unwrap();
    let named =
        |name: &&str| Candidate { name: (*name).into(), ..experiment.candidates[0].clone() };
    experiment.candidates = candidates.iter().map(named).collect();
    experiment.baseline = candidates[0].into();
    experiment.cells.clear();
    experiment
}

/// One run with a rate in Mbit/s for each of its directions.
fn cell(block: u32, candidate: &str, rates: &[(Direction, f64)]) -> Cell {
    let flow = |&(direction, mbit): &(Direction, f64)| Flow {
        direction,
        goodput: BitRate(mbit * 1e6),
        bytes: 1_000_000,
        retransmits: None,
        lost: None,
        received: None,
        generator_cpu: 0.1,
        sent_by: None,
    };
    let direction = if let [(only, _)] = rates { *only } else { Direction::Both };
    let measurement = Measurement {
        flows: rates.iter().map(flow).collect(),
        seconds: 1.0,
        packet_bytes: 1514.0,
        ..Measurement::blank(direction)
    };
    Cell { block, position: 0, role: CellRole::Body, candidate: candidate.into(), measurement }
}

#[test]
fn the_best_candidate_that_keeps_every_guard_may_be_applied_and_no_other() {
    let mut tried = experiment(&["as-found", "fast", "faster"]);
    tried.directions = vec![Direction::Down];
    tried.blocks = 7;
    for block in 0..7 {
        let noise = 1.0 + f64::from(block) / 1000.0;
        for (name, rate) in [("as-found", 100.0), ("fast", 150.0), ("faster", 200.0)] {
            tried.cells.push(cell(block, name, &[(Direction::Down, rate * noise)]));
        }
    }
    let with = |guards: &[&str]| {
        let mut tried = tried.clone();
        tried.goal.guards = guards.iter().map(|guard| guard.parse().unwrap()).collect();
        decide(&tried, &analyse(&tried))
    };
    let apply = |candidate: &str| Decision::Apply { candidate: candidate.into() };
    assert_eq!(with(&[]), apply("faster"));
    assert_eq!(with(&["throughput<=1000"]), apply("faster"));
    assert_eq!(with(&["throughput<=180"]), apply("fast"), "the other one breaks it");
    let Decision::Leave { why } = with(&["throughput<=120"]) else { panic!("both break it") };
    assert!(why.contains("fast: ") && why.contains("faster: "), "{why}");
    let Decision::Leave { why } = with(&["p99<=5"]) else { panic!("nobody measured it") };
    assert!(why.contains("not measured"), "{why}");
}

#[test]
fn of_both_directions_at_once_only_valid_cells_are_refused_for_a_starved_one() {
    use Direction::{Down, Up};
    let starved = cell(1, "as-found", &[(Down, 5.0), (Up, 100.0)]);
    let mut already = starved.clone();
    already.measurement.refusals.push(Refusal { code: RefusalCode::UnderSent, why: "x".into() });
    let mut tried = experiment(&["as-found"]);
    tried.cells = vec![
        cell(1, "as-found", &[(Down, 100.0)]),
        cell(1, "as-found", &[(Up, 100.0)]),
        starved,
        already,
        cell(1, "as-found", &[(Down, 60.0), (Up, 60.0)]),
        // Nothing to compare with in its block.
        cell(2, "as-found", &[(Down, 5.0), (Up, 100.0)]),
    ];
    refuse_starved(&mut tried);
    let codes: Vec<Vec<RefusalCode>> = tried
        .cells
        .iter()
        .map(|cell| cell.measurement.refusals.iter().map(|r| r.code).collect())
        .collect();
    let starved = vec![RefusalCode::DirectionStarved];
    let before = vec![RefusalCode::UnderSent];
    assert_eq!(codes, [vec![], vec![], starved, before, vec![], vec![]]);
}

#[test]
fn what_is_tied_with_the_leader_may_be_the_best_and_what_trails_may_not() {
    let best = Best {
        leader: "a".into(),
        tied: vec!["b".into()],
        undecided: vec!["c".into()],
        behind: Vec::new(),
        unknown: vec!["d".into()],
    };
    let may: Vec<bool> = ["a", "b", "c", "d", "e"].map(|name| best.includes(name)).to_vec();
    assert_eq!(may, [true, true, true, false, false]);
}
