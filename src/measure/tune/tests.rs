//! The loop on a simulated rig.

use super::*;
use crate::decide::experiment::analyse;
use crate::machine::store::lines::full_after;
use crate::model::goal::{Design, Goal};
use crate::model::measurement::{
    EvidenceClass, Flow, Protocol, Refusal, RefusalCode, Scenario, SideFigures,
};
use crate::model::snapshot::Machine;

/// A router whose rate is known, and that keeps a diary.
struct Simulated {
    rates: Vec<(&'static str, f64)>,
    diary: Vec<String>,
    stop_after: usize,
    stop_as_error: bool,
    /// Number of measurements after which the WAN's agent is gone.
    lost_after: usize,
    /// Number of calls of `set` after which the next one fails.
    fails_at_set: usize,
    rng: fastrand::Rng,
}

impl Simulated {
    fn new(rates: &[(&'static str, f64)]) -> Self {
        Self {
            rates: rates.to_vec(),
            diary: vec![],
            stop_after: usize::MAX,
            stop_as_error: false,
            lost_after: usize::MAX,
            fails_at_set: usize::MAX,
            rng: fastrand::Rng::with_seed(7),
        }
    }
}

impl Simulated {
    fn count(&self, what: &str) -> usize {
        self.diary.iter().filter(|d| d.starts_with(what)).count()
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

impl Rig for Simulated {
    fn set(&mut self, candidate: &Candidate) -> Result<()> {
        self.diary.push(format!("set {}", candidate.name));
        if self.count("set") > self.fails_at_set {
            return Err(Error::new(ExitCode::RolledBack, "set rps_cpus", "no such queue"));
        }
        Ok(())
    }

    fn lost(&self) -> Option<Error> {
        let gone = self.count("measure") >= self.lost_after;
        gone.then(|| Error::new(ExitCode::Refused, "wan agent", "it has closed the connection"))
    }

    fn measure(&mut self, candidate: &Candidate, direction: Direction) -> Result<Measurement> {
        self.diary.push(format!("measure {} {direction}", candidate.name));
        let last_set = self.diary.iter().rev().find(|d| d.starts_with("set")).unwrap();
        assert_eq!(*last_set, format!("set {}", candidate.name), "measured what was set");
        if self.count("measure") > self.lost_after {
            return Err(self.lost().unwrap());
        }
        if self.count("measure") >= self.stop_after {
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
            refusals: self
                .lost()
                .map(|e| Refusal { code: RefusalCode::NoAcknowledgement, why: e.to_string() })
                .into_iter()
                .collect(),
            notes: vec![],
            series: vec![],
            shift: None,
            precision: None,
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
    run(&mut e, &mut rig, Limits::default(), &stop, &mut Record::nowhere(), &mut |p| {
        seen.push(p.clone())
    })
    .unwrap();
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
    run(&mut e, &mut rig, Limits::default(), &STOP, &mut Record::nowhere(), &mut |_| {}).unwrap();
    assert_eq!(e.ended, Ended::Interrupted);
    assert_eq!(e.cells.len(), 5);
    // Stopped between two runs, the generator does not even begin.
    let mut rig = Simulated::new(&[("a", 1e9), ("b", 2e9)]);
    (rig.stop_after, rig.stop_as_error) = (5, true);
    let mut e = experiment(&["a", "b"], 10);
    STOP.store(false, Ordering::Relaxed);
    run(&mut e, &mut rig, Limits::default(), &STOP, &mut Record::nowhere(), &mut |_| {}).unwrap();
    assert_eq!(e.ended, Ended::Interrupted);
    assert_eq!(e.cells.len(), 4);
}

#[test]
fn narrow_intervals_end_it_early_when_asked_and_the_budget_ends_it_too() {
    let mut rig = Simulated::new(&[("a", 1e9), ("b", 1e9)]);
    let mut e = experiment(&["a", "b"], 100);
    let stop = AtomicBool::new(false);
    let limits = Limits { budget: None, stop_when_precise: true };
    run(&mut e, &mut rig, limits, &stop, &mut Record::nowhere(), &mut |_| {}).unwrap();
    assert_eq!(e.ended, Ended::Precise);
    let mut e = experiment(&["a", "b"], 100);
    let limits = Limits { budget: Some(Duration::ZERO), stop_when_precise: false };
    run(&mut e, &mut rig, limits, &stop, &mut Record::nowhere(), &mut |_| {}).unwrap();
    assert_eq!(e.ended, Ended::Budget);
    assert_eq!(
        e.cells.iter().map(|c| c.block).max(),
        Some(0),
        "one block runs whatever the budget"
    );
}

/// Cells in the order in which they ran, without their figures.
fn order(e: &Experiment) -> Vec<(u32, u32, String, Direction)> {
    let of = |c: &Cell| (c.block, c.position, c.candidate.clone(), c.measurement.direction);
    e.cells.iter().map(of).collect()
}

fn runs(e: &mut Experiment, rig: &mut Simulated, record: &mut Record) -> Result<Option<Error>> {
    run(e, rig, Limits::default(), &AtomicBool::new(false), record, &mut |_| {})
}

const RATES: &[(&str, f64)] = &[("a", 1e9), ("b", 2e9), ("c", 1e9)];

#[test]
fn an_agent_lost_in_block_3_of_10_keeps_every_cell_before() {
    let mut e = experiment(&["a", "b", "c"], 10);
    let mut rig = Simulated::new(RATES);
    rig.lost_after = 25;
    let failure = runs(&mut e, &mut rig, &mut Record::nowhere()).unwrap().unwrap();
    assert_eq!((e.ended, failure.code()), (Ended::LostAgent, ExitCode::Refused));
    assert_eq!((e.cells.len(), e.cells.last().unwrap().block), (25, 2));
    assert!(
        !e.cells[24].measurement.is_valid()
            && e.cells[..24].iter().all(|c| c.measurement.is_valid())
    );
    assert!(e.notes.last().unwrap().contains("wan agent: it has closed the connection"));
    // Lost between two cells, the next one does not begin.
    let mut e = experiment(&["a", "b", "c"], 10);
    let mut rig = Simulated::new(RATES);
    (rig.stop_after, rig.lost_after) = (usize::MAX, 0);
    let failure = runs(&mut e, &mut rig, &mut Record::nowhere()).unwrap();
    assert!(failure.is_some() && e.cells.is_empty() && e.ended == Ended::LostAgent);
}

#[test]
fn a_setting_that_fails_ends_the_experiment_and_keeps_what_was_measured() {
    let mut e = experiment(&["a", "b", "c"], 10);
    let mut rig = Simulated::new(RATES);
    rig.fails_at_set = 7;
    let failure = runs(&mut e, &mut rig, &mut Record::nowhere()).unwrap().unwrap();
    assert_eq!((e.ended, failure.code()), (Ended::FailedSet, ExitCode::RolledBack));
    assert_eq!(e.cells.len(), 14);
}

#[test]
fn cut_short_anywhere_and_gone_on_with_it_is_the_experiment_that_was_begun() {
    let whole = {
        let mut e = experiment(&["a", "b", "c"], 3);
        runs(&mut e, &mut Simulated::new(RATES), &mut Record::nowhere()).unwrap();
        e
    };
    assert_eq!(whole.cells.len(), 30);
    for cut in 0..30 {
        // Killed in a cell; its agent lost in it, so that the cell is refused; a setting failed.
        for end in 0..3 {
            let mut e = experiment(&["a", "b", "c"], 3);
            let mut rig = Simulated::new(RATES);
            match end {
                0 => rig.stop_after = cut + 1,
                1 => rig.lost_after = cut + 1,
                _ => rig.fails_at_set = cut / 2,
            }
            rig.stop_as_error = end == 0;
            runs(&mut e, &mut rig, &mut Record::nowhere()).unwrap();
            assert!(e.ended.is_cut_short(), "{cut} {end}: {:?}", e.ended);
            let mut again = go_on(e, &experiment(&["a", "b", "c"], 3)).unwrap();
            let mut rig = Simulated::new(RATES);
            runs(&mut again, &mut rig, &mut Record::nowhere()).unwrap();
            assert_eq!((order(&again), again.ended), (order(&whole), Ended::Complete), "{cut}");
            assert!(again.cells.iter().all(|c| c.measurement.is_valid()), "{cut} {end}");
            assert!(
                rig.count("measure") <= 30 - cut.saturating_sub(1),
                "nothing is measured twice"
            );
        }
    }
}

#[test]
fn what_is_not_the_same_experiment_is_not_gone_on_with() {
    let now = experiment(&["a", "b"], 3);
    let refused = |change: fn(&mut Experiment)| {
        let mut record = now.clone();
        record.ended = Ended::Killed;
        change(&mut record);
        go_on(record, &now).map(drop)
    };
    assert_eq!(refused(|_| ()), Ok(()));
    assert_eq!(refused(|e| e.machine.id = Some("other".into())), Err(Differs::Machine));
    assert_eq!(refused(|e| e.machine.kernel = "6.1".into()), Err(Differs::Kernel));
    assert_eq!(
        refused(|e| e.fingerprint = Some("85944171f73967e8".into())),
        Err(Differs::Fingerprint)
    );
    assert_eq!(refused(|e| e.class = EvidenceClass::Wire), Err(Differs::Hosts));
    assert_eq!(refused(|e| e.scenario.rules = 1), Err(Differs::Scenario));
    assert_eq!(refused(|e| e.baseline = "b".into()), Err(Differs::Candidates));
    assert_eq!(refused(|e| e.candidates.truncate(1)), Err(Differs::Candidates));
    assert_eq!(refused(|e| e.directions.truncate(1)), Err(Differs::Directions));
    assert_eq!(refused(|e| e.blocks = 4), Err(Differs::Blocks));
    assert_eq!(refused(|e| e.seed = 2), Err(Differs::Seed));
    let guard = |e: &mut Experiment| e.goal.guards.push("up>=-2%".parse().unwrap());
    assert_eq!(refused(guard), Err(Differs::Goal));
    // Its cells were changed by hand.
    let mut e = experiment(&["a", "b"], 3);
    runs(&mut e, &mut Simulated::new(RATES), &mut Record::nowhere()).unwrap();
    e.cells.swap(0, 3);
    let error = runs(&mut e, &mut Simulated::new(RATES), &mut Record::nowhere()).unwrap_err();
    assert_eq!(error.code(), ExitCode::Usage, "{error}");
}

#[test]
fn a_full_disk_ends_it_and_what_was_measured_is_still_told() {
    let (disk, written) = full_after(4);
    let mut record = Record::over(disk);
    let mut e = experiment(&["a", "b", "c"], 10);
    let failure = runs(&mut e, &mut Simulated::new(RATES), &mut record).unwrap().unwrap();
    assert_eq!(e.ended, Ended::RecordNotWritten);
    assert!(failure.remedy().unwrap().contains("full"), "{failure}");
    // The cell that could not be written is in memory, and only whole lines are on the disk.
    assert_eq!(e.cells.len(), 5);
    let written = written.lock().unwrap();
    assert_eq!(
        (written.iter().filter(|b| **b == b'\n').count(), written.last()),
        (4, Some(&b'\n'))
    );
}
