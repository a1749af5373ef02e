//! Simulated experiments: known effects and noise, through the real design.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test helper")]

use linerate::decide::experiment::design;
use linerate::model::cpuset::CpuSet;
use linerate::model::goal::{Design, Goal};
use linerate::model::knob::{Knob, Value};
use linerate::model::measurement::{
    Cell, CellRole, CpuUse, DeviceUse, Direction, Ended, EvidenceClass, Experiment, Flow,
    Measurement, Protocol, Refusal, RefusalCode, Scenario, SettingState, SideFigures,
};
use linerate::model::plan::{Candidate, Change};
use linerate::model::snapshot::Machine;
use linerate::model::units::{BitRate, CpuId};

/// The law of a cell's noise, of the same standard deviation but for what dips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Normal.
    Normal,
    /// Student's distribution with 3 degrees of freedom.
    Heavy,
    /// To one side: a rate has a ceiling and falls short of it (gamma, shape 2).
    Gamma,
    /// Two levels, as of a cache or a frequency that holds or does not.
    Bimodal,
    /// A cell is like the one before it (first order, 0.7).
    Alike,
    /// Normal, and one cell in ten dips by 30 to 70 %, as where something else uses the machine.
    Dips,
}

impl Shape {
    pub(crate) const ALL: [Self; 6] =
        [Self::Normal, Self::Heavy, Self::Gamma, Self::Bimodal, Self::Alike, Self::Dips];

    /// The noise of a cell in logarithms, after that of the one before.
    fn draw(self, rng: &mut fastrand::Rng, last: f64, cv: f64) -> f64 {
        cv * match self {
            Self::Normal => normal(rng),
            Self::Heavy => heavy(rng),
            Self::Gamma => {
                let gamma = -((1.0 - rng.f64()).ln() + (1.0 - rng.f64()).ln());
                (2.0 - gamma) / 2.0_f64.sqrt()
            }
            Self::Bimodal => {
                let level = if rng.bool() { 0.95 } else { -0.95 };
                level + (1.0_f64 - 0.95 * 0.95).sqrt() * normal(rng)
            }
            Self::Alike => 0.7 * last / cv + (1.0_f64 - 0.49).sqrt() * normal(rng),
            Self::Dips => {
                let own = normal(rng);
                let dip = if rng.u32(..10) == 0 { (0.3 + 0.4 * rng.f64()).ln() } else { 0.0 };
                own + dip / cv
            }
        }
    }
}

/// What to simulate.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    /// Candidates, the first being the baseline: name and true rate as a multiple of the
    /// baseline's.
    pub(crate) candidates: Vec<(&'static str, f64)>,
    /// Standard deviation of ln(rate) of one cell.
    pub(crate) cv: f64,
    /// Standard deviation that all cells of a block share.
    pub(crate) block_cv: f64,
    /// The law of a cell's noise.
    pub(crate) shape: Shape,
    /// Whether one direction alone is measured.
    pub(crate) one_way: bool,
    /// Change from block to block, as a share; within a block it goes on evenly.
    pub(crate) drift: f64,
    /// Blocks.
    pub(crate) blocks: u32,
    /// Seed of the noise and of the order.
    pub(crate) seed: u64,
}

impl Default for Truth {
    fn default() -> Self {
        Self {
            candidates: vec![
                ("as-found", 1.0),
                ("one-cpu", 0.53),
                ("rps-other", 0.97),
                ("rps-all", 1.012),
            ],
            cv: 0.03,
            block_cv: 0.04,
            shape: Shape::Normal,
            one_way: false,
            drift: 0.0,
            blocks: 10,
            seed: 1,
        }
    }
}

/// One draw of the normal distribution.
pub(crate) fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// One draw of Student's distribution with 3 degrees of freedom, scaled to a standard deviation of 1.
fn heavy(rng: &mut fastrand::Rng) -> f64 {
    let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
    normal(rng) / squares.sqrt()
}

/// Runs the experiment in the mind.
pub(crate) fn simulate(truth: &Truth) -> Experiment {
    let names: Vec<String> = truth.candidates.iter().map(|(n, _)| (*n).to_owned()).collect();
    let mut directions = vec![Direction::Down, Direction::Up];
    directions.truncate(if truth.one_way { 1 } else { 2 });
    let plan = design(&names, &names[0], &directions, truth.blocks, truth.seed).unwrap();
    let mut rng = fastrand::Rng::with_seed(truth.seed ^ 0x9e37_79b9_7f4a_7c15);
    let mut cells = Vec::new();
    let mut noise = 0.0;
    for block in &plan {
        let whole = truth.block_cv * normal(&mut rng);
        for step in &block.steps {
            let since = f64::from(step.position) / block.steps.len() as f64;
            let shared = whole + (f64::from(block.number) + since) * truth.drift.ln_1p();
            let multiple = truth.candidates.iter().find(|(n, _)| *n == step.candidate).unwrap().1;
            for &direction in &step.directions {
                let base = if direction == Direction::Down { 2.5e9_f64 } else { 2.2e9 };
                noise = match truth.cv > 0.0 {
                    true => truth.shape.draw(&mut rng, noise, truth.cv),
                    false => 0.0,
                };
                let ln = (base * multiple).ln() + shared + noise;
                cells.push(Cell {
                    block: block.number,
                    position: step.position,
                    role: step.role,
                    candidate: step.candidate.clone(),
                    measurement: measurement(direction, ln.exp(), multiple < 0.8),
                });
            }
        }
    }
    experiment(truth, names, directions, cells)
}

/// A cell with a rate given.
pub(crate) fn cell(
    block: u32,
    role: CellRole,
    candidate: &str,
    direction: Direction,
    rate: f64,
) -> Cell {
    let measurement = measurement(direction, rate, false);
    Cell { block, position: 0, role, candidate: candidate.to_owned(), measurement }
}

fn measurement(direction: Direction, rate: f64, one_cpu: bool) -> Measurement {
    let seconds = 2.0;
    let packets = (rate * seconds / 8.0 / 1448.0) as u64;
    let cpu = |id: u32, busy: bool| CpuUse {
        cpu: CpuId(id),
        user: 0.02,
        system: 0.18,
        irq: 0.01,
        softirq: if busy { 0.76 } else { 0.12 },
        idle: if busy { 0.03 } else { 0.67 },
        steal: 0.0,
        packets: match (one_cpu, busy) {
            (true, true) => packets,
            (true, false) => 0,
            (false, _) => packets / 2,
        },
        dropped: 0,
        squeezed: 3,
    };
    Measurement {
        direction,
        flows: vec![Flow {
            direction,
            goodput: BitRate(rate.round()),
            bytes: (rate * 2.5 / 8.0) as u64,
            retransmits: Some(12),
            lost: None,
            received: None,
            generator_cpu: 0.4,
            sent_by: None,
        }],
        seconds,
        packet_bytes: 1514.0,
        cpus: vec![cpu(0, true), cpu(1, !one_cpu)],
        devices: vec![DeviceUse {
            device: "lan0".into(),
            rx_packets: packets,
            rx_bytes: packets * 1514,
            tx_packets: packets / 2,
            tx_bytes: packets * 33,
            dropped: 0,
        }],
        beside: SideFigures::default(),
        refusals: Vec::new(),
        notes: Vec::new(),
        series: Vec::new(),
        shift: None,
        precision: None,
        settings: Vec::new(),
    }
}

/// The mask that a candidate of that name asks for.
fn mask(name: &str) -> CpuSet {
    match name {
        "one-cpu" => CpuSet::single(CpuId(0)),
        "rps-other" => CpuSet::single(CpuId(1)),
        "rps-all" => [CpuId(0), CpuId(1)].into_iter().collect(),
        _ => CpuSet::empty(),
    }
}

fn candidate(name: &str) -> Candidate {
    let (title, reason) = match name {
        "as-found" => ("settings as found", "what every change must beat"),
        "one-cpu" => (
            "all packets on CPU 0",
            "the case of a lone network interrupt: what a single-queue card does by itself",
        ),
        "rps-other" => (
            "RPS to the CPU that takes no interrupt",
            "keeps the protocol work off the CPU that polls the card",
        ),
        "rps-all" => {
            ("RPS to all CPUs", "spreads flows over every CPU when protocol work dominates")
        }
        _ => ("another name", "shows what noise alone looks like"),
    };
    Candidate {
        name: name.to_owned(),
        title: title.to_owned(),
        reason: reason.to_owned(),
        settings: ["lan0", "wan0"]
            .into_iter()
            .map(|device| Change {
                knob: Knob::RpsCpus { device: device.to_owned(), queue: 0 },
                before: Value::Cpus(CpuSet::empty()),
                after: Value::Cpus(mask(name)),
                reason: reason.to_owned(),
            })
            .collect(),
    }
}

fn experiment(
    truth: &Truth,
    names: Vec<String>,
    directions: Vec<Direction>,
    cells: Vec<Cell>,
) -> Experiment {
    Experiment {
        program: "0.1.0".into(),
        command: ["linerate", "tune", "nat", "--rules", "300"].map(str::to_owned).to_vec(),
        started: "2024-05-04T03:02:01Z".into(),
        seed: truth.seed,
        class: EvidenceClass::Lab,
        machine: Machine {
            hostname: "router".into(),
            kernel: "6.1.0-21-arm64".into(),
            arch: "aarch64".into(),
            board: Some("simulated board (no measurement)".into()),
            os: Some("Debian GNU/Linux 12 (bookworm)".into()),
            cpu_model: Some("Cortex-A53".into()),
            virtualisation: None,
            id: Some("0123456789abcdef".into()),
            irq_time_accounting: Some(false),
            ..Machine::default()
        },
        fingerprint: None,
        cpus: vec![CpuId(0), CpuId(1)],
        scenario: Scenario {
            name: "nat".into(),
            rules: 300,
            streams: 16,
            mtu: 1500,
            protocol: Protocol::Tcp,
            seconds: 2.0,
            omit: 0.5,
            flows: 0,
            rate: None,
            datagram: None,
        },
        link: None,
        agents: Vec::new(),
        quick: false,
        baseline: names[0].clone(),
        goal: Goal::default(),
        design: Design::Named,
        candidates: names.iter().map(|n| candidate(n)).collect(),
        predictions: Vec::new(),
        directions,
        blocks: truth.blocks,
        cells,
        ended: Ended::Complete,
        settings: ["lan0", "wan0"]
            .into_iter()
            .map(|device| SettingState {
                name: format!("RPS of {device} rx-0"),
                path: format!("/sys/class/net/{device}/queues/rx-0/rps_cpus"),
                before: "0".into(),
                after: "0".into(),
            })
            .collect(),
        notes: vec!["the load generator shared the router's CPUs".into()],
    }
}

/// Refuses a cell.
pub(crate) fn refuse(cell: &mut Cell, code: RefusalCode, why: &str) {
    cell.measurement.refusals.push(Refusal { code, why: why.to_owned() });
}
