//! The loop on a simulated rig.

use super::*;
use crate::experiment::analyse;
use crate::model::goal::{Design, Goal};
use crate::model::measurement::{EvidenceClass, Flow, Protocol, Scenario, SideFigures};
use crate::model::snapshot::Machine;

/// A router whose rate is known, and that keeps a diary.
struct Simulated {
    rates: Vec<(&'static str, f64)>,
    diary: Vec<String>,
    stop_after: usize,
    stop_as_error: bool,
    rng: fastrand::Rng,
}

impl Simulated {
    fn new(rates: &[(&'static str, f64)]) -> Self {
        Self {
            rates: rates.to_vec(),
            diary: vec![],
            stop_after: usize::MAX,
            stop_as_error: false,
            rng: fastrand::Rng::with_seed(7),
        }
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

impl Rig for Simulated {
    fn set(&mut self, candidate: &Candidate) -> Result<()> {
        self.diary.push(format!("set {}", candidate.name));
        Ok(())
    }

    fn measure(&mut self, candidate: &Candidate, direction: Direction) -> Result<Measurement> {
        self.diary.push(format!("measure {} {direction}", candidate.name));
        let last_set = self.diary.iter().rev().find(|d| d.starts_with("set")).unwrap();
        assert_eq!(*last_set, format!("set {}", candidate.name), "measured what was set");
        if self.diary.iter().filter(|d| d.starts_with("measure")).count() >= self.stop_after {
            STOP.store(true, Ordering::Relaxed);
            if self.stop_as_error {
                return Err(Error::interrupted("load"));
            }
        }
        let rate = self.rates.iter().find(|(n, _)| *n == candidate.name).unwrap().1;
        let noise = 1.0 + 0.02 * (self.rng.f64() - 0.5);
        Ok(Measurement {
            direction,
            flows: vec![Flow {
                direction,
                goodput: BitRate(rate * noise),
                bytes: 1,
                retransmits: None,
                lost: None,
                received: None,
                generator_cpu: 0.1,
                sent_by: None,
            }],
            seconds: 1.0,
            packet_bytes: 1514.0,
            cpus: vec![],
            devices: vec![],
            beside: SideFigures::default(),
            refusals: vec![],
            notes: vec![],
            series: vec![],
            settings: vec![],
        })
    }
}

fn experiment(names: &[&str], blocks: u32) -> Experiment {
    let candidate = |name: &&str| Candidate {
        name: (*name).into(),
        title: String::new(),
        reason: String::new(),
        settings: vec![],
    };
    Experiment {
        program: String::new(),
        command: vec![],
        started: String::new(),
        seed: 1,
        class: EvidenceClass::Lab,
        machine: Machine::default(),
        fingerprint: None,
        cpus: vec![],
        scenario: Scenario {
            name: "nat".into(),
            rules: 0,
            streams: 16,
            mtu: 1500,
            protocol: Protocol::Tcp,
            seconds: 1.0,
            omit: 0.3,
            flows: 0,
            rate: None,
            datagram: None,
        },
        link: None,
        agents: Vec::new(),
        quick: false,
        baseline: names[0].into(),
        goal: Goal::default(),
        design: Design::Named,
        candidates: names.iter().map(candidate).collect(),
        predictions: Vec::new(),
        directions: vec![Direction::Down, Direction::Up],
        blocks,
        cells: vec![],
        ended: Ended::Complete,
        settings: vec![],
        notes: vec![],
    }
}

#[test]
fn every_block_measures_every_candidate_between_two_baselines() {
    let mut rig = Simulated::new(&[("a", 1e9), ("b", 2e9), ("c", 1e9)]);
    let mut e = experiment(&["a", "b", "c"], 6);
    let mut seen = Vec::new();
    let stop = AtomicBool::new(false);
    run(&mut e, &mut rig, Limits::default(), &stop, &mut |p| seen.push(p.clone())).unwrap();
    // 3 candidates and 2 more baselines, 2 directions, 6 blocks.
    assert_eq!(e.cells.len(), 5 * 2 * 6);
    assert_eq!(e.ended, Ended::Complete);
    let last = seen.last().unwrap();
    assert_eq!((last.done, last.cells, last.block), (60, 60, 6));
    assert_eq!(last.left, Some(Duration::ZERO));
    let b = analyse(&e).candidate("b").unwrap().clone();
    let text = format!("{:?}", b);
    assert!(text.contains("Better"), "{text}");
}

#[test]
fn a_stop_by_the_user_keeps_what_was_measured() {
    let mut rig = Simulated::new(&[("a", 1e9), ("b", 2e9)]);
    rig.stop_after = 5;
    let mut e = experiment(&["a", "b"], 10);
    STOP.store(false, Ordering::Relaxed);
    run(&mut e, &mut rig, Limits::default(), &STOP, &mut |_| {}).unwrap();
    assert_eq!(e.ended, Ended::Interrupted);
    assert_eq!(e.cells.len(), 5);
    // Stopped between two runs, the generator does not even begin.
    let mut rig = Simulated::new(&[("a", 1e9), ("b", 2e9)]);
    (rig.stop_after, rig.stop_as_error) = (5, true);
    let mut e = experiment(&["a", "b"], 10);
    STOP.store(false, Ordering::Relaxed);
    run(&mut e, &mut rig, Limits::default(), &STOP, &mut |_| {}).unwrap();
    assert_eq!(e.ended, Ended::Interrupted);
    assert_eq!(e.cells.len(), 4);
}

#[test]
fn narrow_intervals_end_it_early_when_asked_and_the_budget_ends_it_too() {
    let mut rig = Simulated::new(&[("a", 1e9), ("b", 1e9)]);
    let mut e = experiment(&["a", "b"], 100);
    let stop = AtomicBool::new(false);
    let limits = Limits { budget: None, stop_when_precise: true };
    run(&mut e, &mut rig, limits, &stop, &mut |_| {}).unwrap();
    assert_eq!(e.ended, Ended::Precise);
    let mut e = experiment(&["a", "b"], 100);
    let limits = Limits { budget: Some(Duration::ZERO), stop_when_precise: false };
    run(&mut e, &mut rig, limits, &stop, &mut |_| {}).unwrap();
    assert_eq!(e.ended, Ended::Budget);
    assert_eq!(
        e.cells.iter().map(|c| c.block).max(),
        Some(0),
        "one block runs whatever the budget"
    );
}
