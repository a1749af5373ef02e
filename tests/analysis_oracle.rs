//! A whole analysis against one made by NumPy, SciPy and statsmodels from the same cells
//! (fixtures/statistics/generate.py): that the right cells are paired with the right ones.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "test helpers")]

mod common;

use common::{Truth, cell, refuse, simulate};
use linerate::experiment::{Effect, analyse};
use linerate::model::measurement::{CellRole, Direction, Experiment, RefusalCode};
use serde_json::Value;

fn oracle() -> Value {
    let all: Value =
        serde_json::from_str(include_str!("../fixtures/statistics/oracle.json")).unwrap();
    all["analysis"][0].clone()
}

fn experiment(oracle: &Value) -> Experiment {
    let mut experiment = simulate(&Truth::default());
    experiment.cells = oracle["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let role = match row[1].as_str().unwrap() {
                "open" => CellRole::Open,
                "close" => CellRole::Close,
                _ => CellRole::Body,
            };
            let direction = if row[3] == "down" { Direction::Down } else { Direction::Up };
            let block = u32::try_from(row[0].as_u64().unwrap()).unwrap();
            let rate = row[4].as_f64().unwrap();
            let mut cell = cell(block, role, row[2].as_str().unwrap(), direction, rate);
            if row[5] == true {
                refuse(&mut cell, RefusalCode::Throttled, "hot");
            }
            cell
        })
        .collect();
    experiment
}

fn agree(ours: f64, theirs: &Value, what: &str) {
    let theirs = theirs.as_f64().unwrap();
    assert!((ours - theirs).abs() <= 1e-9, "{what}: ours {ours}, oracle {theirs}");
}

fn same_effect(ours: &Effect, theirs: &Value, what: &str) {
    assert_eq!(ours.blocks as u64, theirs["blocks"].as_u64().unwrap(), "{what}: blocks");
    agree(ours.ratio, &theirs["ratio"], what);
    agree(ours.low, &theirs["low"], what);
    agree(ours.high, &theirs["high"], what);
    agree(ours.median, &theirs["median"], what);
}

#[test]
fn a_whole_analysis_agrees_with_scipy() {
    let oracle = oracle();
    let analysis = analyse(&experiment(&oracle));

    for theirs in oracle["overall"].as_array().unwrap() {
        let name = theirs["name"].as_str().unwrap();
        let ours = analysis.candidate(name).unwrap().overall.unwrap();
        same_effect(&ours, theirs, name);
        agree(ours.p.unwrap(), &theirs["p"], &format!("p of {name}"));
    }
    for theirs in oracle["directions"].as_array().unwrap() {
        let name = theirs["name"].as_str().unwrap();
        let ways = &analysis.candidate(name).unwrap().directions;
        let way = ways.iter().find(|(d, _)| theirs["direction"] == d.to_string()).unwrap();
        let ours = way.1.unwrap();
        let what = format!("{name} {}", way.0);
        same_effect(&ours, theirs, &what);
        agree(ours.p.unwrap(), &theirs["p"], &format!("p of {what}"));
    }
    let best = analysis.best.unwrap();
    assert_eq!(oracle["leader"], best.leader);
    let behind_by = |name: &str| best.behind.iter().find(|t| t.name == name);
    let mut compared = 0;
    for theirs in oracle["leader_against"].as_array().unwrap() {
        let name = theirs["name"].as_str().unwrap();
        let apart = theirs["low"].as_f64().unwrap() > 1.01;
        assert_eq!(behind_by(name).is_some(), apart, "{name}");
        assert_eq!(best.tied.iter().any(|t| t == name), !apart, "{name}");
        if let Some(trailing) = behind_by(name) {
            same_effect(&trailing.behind_by, theirs, name);
            compared += 1;
        }
    }
    assert!(compared > 0, "the example must leave someone behind");
    assert_eq!(oracle["pairs"].as_u64().unwrap(), analysis.noise.pairs as u64);
    agree(analysis.noise.cv.unwrap(), &oracle["cv"], "cv");
    let drift = analysis.noise.drift.unwrap();
    agree(drift.per_block, &oracle["drift"][0], "drift");
    agree(drift.low, &oracle["drift"][1], "drift low");
    agree(drift.high, &oracle["drift"][2], "drift high");
    assert_eq!((analysis.cells, analysis.refused_cells), (108, 5));
}
