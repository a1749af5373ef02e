//! Costs fitted from results whose costs are known, and from results that can't tell them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test helpers")]

use linerate::model::measurement::{Direction, Experiment};
use linerate::plan::{Costs, Fit, fit};

use super::common::{Truth, simulate};

/// Costs in ns per packet: all of the way with NAT, a rule, handing over.
const WAY: f64 = 1200.0;
const RULE: f64 = 3.0;
const HAND: f64 = 150.0;

/// An experiment whose CPU time is made of the costs, with some noise.
fn run(rules: u32, noise: f64, seed: u64) -> Experiment {
    let mut experiment = simulate(&Truth { seed, ..Truth::default() });
    experiment.scenario.rules = rules;
    let mut rng = fastrand::Rng::with_seed(seed);
    for cell in &mut experiment.cells {
        let steered = f64::from(u8::from(cell.candidate != "as-found"));
        let took =
            (WAY + RULE * f64::from(rules) + HAND * steered) * (1.0 + noise * (rng.f64() - 0.5));
        let m = &mut cell.measurement;
        let packets = 1e5;
        m.flows[0].bytes = (m.flows[0].goodput.0 * m.seconds / 8.0) as u64;
        m.devices[0].rx_packets = (packets * m.seconds) as u64;
        // Of it a tenth in hard interrupts.
        let busy = took * 1e-9 * packets;
        for (cpu, share) in m.cpus.iter_mut().zip([0.7, 0.3]) {
            cpu.irq = 0.1 * share * busy;
            cpu.softirq = 0.9 * share * busy;
        }
    }
    experiment
}

fn fitted(experiments: &[Experiment]) -> Fit {
    let named: Vec<_> =
        experiments.iter().zip(1..).map(|(e, n)| (format!("{n}.json"), e.clone())).collect();
    fit(&named).unwrap()
}

fn term<'a>(fit: &'a Fit, name: &str) -> &'a linerate::plan::Term {
    fit.terms.iter().find(|t| t.name == name).unwrap()
}

fn near(ours: f64, truth: f64, share: f64, what: &str) {
    assert!((ours / truth - 1.0).abs() <= share, "{what}: {ours} instead of {truth}");
}

#[test]
fn known_costs_are_found_and_what_no_run_has_stays_as_it_was() {
    let fit = fitted(&[run(0, 0.02, 1), run(300, 0.02, 2), run(1000, 0.02, 3)]);
    near(term(&fit, "nat").ns, WAY, 0.01, "way");
    near(term(&fit, "rule").ns, RULE, 0.02, "rule");
    near(term(&fit, "hand-over").ns, HAND, 0.15, "hand-over");
    for name in ["route", "flowtable", "layer", "bridge", "wireguard"] {
        assert_eq!(term(&fit, name).not_found.as_deref(), Some("no run has it"), "{name}");
        assert_eq!(term(&fit, name).error, None, "{name}");
    }
    // Interrupt, stack and completion in the default proportions: 1.5 stack stages.
    near(fit.costs.unit_ns.unwrap(), WAY / 1.5, 0.01, "unit");
    near(fit.costs.rule, RULE / (WAY / 1.5), 0.03, "rule of the unit");
    near(fit.costs.give + fit.costs.take, HAND / (WAY / 1.5), 0.15, "give and take");
    assert_eq!((fit.costs.nat, fit.costs.layer), (1.0, Costs::DEFAULT.layer));
    assert!(fit.residual < 0.02 && fit.foretold.unwrap() < 0.03, "{fit:?}");
    let text = fit.costs.to_toml("", None);
    near(Costs::parse(&text).unwrap().rule, fit.costs.rule, 1e-3, "the file's");
}

#[test]
fn one_number_of_rules_says_nothing_of_a_rule() {
    let fit = fitted(&[run(300, 0.02, 1)]);
    let why = term(&fit, "rule").not_found.clone().unwrap();
    assert!(why.contains("vary it"), "{why}");
    assert_eq!(fit.costs.rule, Costs::DEFAULT.rule);
    // The way takes what rules of the default cost leave of it.
    near(fit.costs.unit_ns.unwrap() * (1.5 + 300.0 * 0.002), WAY + 300.0 * RULE, 0.01, "whole");
}

#[test]
fn what_drowns_in_noise_is_not_found() {
    let mut without = run(0, 0.0, 1);
    let mut rng = fastrand::Rng::with_seed(7);
    for candidate in ["as-found", "one-cpu", "rps-other", "rps-all"] {
        let factor = 0.7 + 0.6 * rng.f64();
        for cell in without.cells.iter_mut().filter(|c| c.candidate == candidate) {
            cell.measurement.cpus.iter_mut().for_each(|c| c.softirq *= factor);
        }
    }
    let fit = fitted(&[without]);
    let hand = term(&fit, "hand-over");
    assert!(hand.not_found.is_some() && hand.error.is_none(), "{hand:?}");
    assert_eq!(fit.costs.give, Costs::DEFAULT.give);
    assert!(fit.foretold.unwrap() > 0.05, "the error is told: {fit:?}");
}

#[test]
fn odd_results_are_refused_or_fitted_and_never_nonsense() {
    assert!(fit(&[]).is_err());
    let mut bare = run(0, 0.0, 1);
    bare.cells.iter_mut().for_each(|c| c.measurement.cpus.clear());
    assert!(fit(&[("bare".into(), bare)]).is_err());
    let mut broken = run(0, 0.02, 1);
    for (n, cell) in broken.cells.iter_mut().enumerate() {
        match n % 4 {
            0 => cell.measurement.flows[0].goodput.0 = f64::NAN,
            1 => cell.measurement.devices.clear(),
            2 => cell.measurement.cpus[0].softirq = f64::INFINITY,
            _ => {}
        }
    }
    let fit = fitted(&[broken]);
    assert!(fit.residual.is_finite() && fit.costs.unit_ns.unwrap().is_finite(), "{fit:?}");
    let mut one = run(0, 0.02, 1);
    one.candidates.truncate(1);
    one.directions = vec![Direction::Down];
    let fit = fitted(&[one]);
    assert_eq!(fit.foretold, None);
}

/// SciPy's least_squares on the same means (fixtures/statistics/generate.py).
#[test]
fn the_fit_agrees_with_scipy() {
    let all: serde_json::Value =
        serde_json::from_str(include_str!("../../fixtures/statistics/oracle.json")).unwrap();
    let oracle = &all["fit"][0];
    let mut experiments = Vec::new();
    for file in oracle["files"].as_array().unwrap() {
        let mut experiment = run(u32::try_from(file["rules"].as_u64().unwrap()).unwrap(), 0.0, 1);
        experiment.directions = vec![Direction::Down];
        experiment.cells.retain(|c| c.measurement.direction == Direction::Down && c.block == 0);
        for cell in &mut experiment.cells {
            let took = file["took"][&cell.candidate].as_f64().unwrap();
            let m = &mut cell.measurement;
            m.cpus.truncate(1);
            m.flows[0].goodput.0 = 1e9;
            m.seconds = 2.0;
            m.flows[0].bytes = 250_000_000;
            m.devices[0].rx_packets = 200_000;
            (m.cpus[0].irq, m.cpus[0].softirq) = (0.0, took * 1e-9 * 1e5);
        }
        experiments.push(experiment);
    }
    let fit = fitted(&experiments);
    for (name, ours) in [("nat", "way"), ("rule", "rule"), ("hand-over", "hand")] {
        let (theirs, se) =
            (oracle[ours]["ns"].as_f64().unwrap(), oracle[ours]["error"].as_f64().unwrap());
        let term = term(&fit, name);
        near(term.ns, theirs, 1e-7, name);
        near(term.error.unwrap(), se, 1e-5, name);
    }
    near(fit.residual, oracle["residual"].as_f64().unwrap(), 1e-7, "residual");
}
