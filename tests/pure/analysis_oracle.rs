//! A whole analysis against one made by NumPy, SciPy and statsmodels from the same cells
//! (fixtures/statistics/generate.py): that the right cells are paired with the right ones.

use crate::simulated::{Truth, cell, refuse, simulate};
use linerate::decide::experiment::{Effect, analyse};
use linerate::model::goal::{Combination, Design, Factor, Varied};
use linerate::model::measurement::{CellRole, Direction, Experiment, RefusalCode};
use serde_json::Value;

fn oracle(of: &str) -> Value {
    let all: Value =
        serde_json::from_str(include_str!("../../fixtures/statistics/oracle.json")).unwrap();
    all[of][0].clone()
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
}

#[test]
fn a_whole_analysis_agrees_with_scipy() {
    let oracle = oracle("analysis");
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
        assert_eq!(best.includes(name), !apart, "{name}");
        if let Some(trailing) = behind_by(name) {
            // Tukey's range is computed to a ten-thousandth of itself.
            let ours = &trailing.behind_by;
            agree(ours.ratio, &theirs["ratio"], name);
            for (ours, theirs) in [(ours.low, &theirs["low"]), (ours.high, &theirs["high"])] {
                assert!((ours / theirs.as_f64().unwrap() - 1.0).abs() < 1e-5, "{name}: {ours}");
            }
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

#[test]
fn the_effects_of_a_factorial_agree_with_scipy() {
    let oracle = oracle("factorial");
    let (first, second) = (["off", "on"], ["low", "mid", "high"]);
    let names: Vec<(String, Vec<String>)> = first
        .iter()
        .flat_map(|a| {
            second.iter().map(move |b| (format!("{a} {b}"), vec![(*a).into(), (*b).into()]))
        })
        .collect();
    let mut experiment = simulate(&Truth::default());
    let like = experiment.candidates[0].clone();
    let named =
        |name: &String| linerate::model::plan::Candidate { name: name.clone(), ..like.clone() };
    experiment.candidates = names.iter().map(|(name, _)| named(name)).collect();
    experiment.baseline = names[0].0.clone();
    experiment.directions = vec![Direction::Down];
    let factor = |name: &str, levels: &[&str]| Factor {
        name: name.into(),
        levels: levels.iter().map(|l| (*l).to_owned()).collect(),
    };
    experiment.design = Design::Factorial(Varied {
        factors: vec![factor("first", &first), factor("second", &second)],
        combinations: names
            .iter()
            .map(|(name, levels)| Combination { candidate: name.clone(), levels: levels.clone() })
            .collect(),
    });
    experiment.cells.clear();
    for (block, row) in (0..).zip(oracle["rates"].as_array().unwrap()) {
        for ((name, _), rate) in names.iter().zip(row.as_array().unwrap()) {
            let Some(rate) = rate.as_f64() else { continue };
            experiment.cells.push(cell(block, CellRole::Body, name, Direction::Down, rate));
        }
    }
    let effects = analyse(&experiment).effects;
    let theirs = oracle["effects"].as_array().unwrap();
    assert_eq!(effects.len(), theirs.len());
    for (ours, theirs) in effects.iter().zip(theirs) {
        let parts: Vec<String> =
            ours.steps.iter().map(|s| format!("{} {}", s.factor, s.to)).collect();
        assert_eq!(parts.join(" "), theirs["name"].as_str().unwrap());
        let ours = ours.effect.unwrap();
        same_effect(&ours, theirs, &parts.join(" "));
        agree(ours.p.unwrap(), &theirs["p"], "p");
    }
}
