//! Two records side by side: the figures of each, what makes them no fair pair, and the ratios.

use super::between;
use crate::model::measurement::{EvidenceClass, Experiment, Measurement, Scenario};
use crate::model::sweep::{GoalOutcome, KneeVerdict, Sweep, SweepKind};

/// One record, as far as it is compared.
pub struct Side {
    /// The file that holds it.
    pub file: String,
    /// The kind of record, in words.
    pub kind: String,
    /// The class of evidence.
    pub class: EvidenceClass,
    /// The scenario that was measured.
    pub scenario: Scenario,
    /// The machine's identity, where it is known.
    pub machine: Option<String>,
    /// The figures that stand.
    pub figures: Vec<Figure>,
}

/// A figure with its values.
pub struct Figure {
    /// The figure's name.
    pub name: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// The values.
    pub values: Vec<f64>,
    /// Where the value lies, if a search found it.
    pub remark: Option<String>,
    /// The truth is at the value or anywhere above.
    pub is_floor: bool,
}

impl Figure {
    fn new(name: String, unit: &'static str, values: Vec<f64>) -> Self {
        Self { name, unit, values, remark: None, is_floor: false }
    }
}

impl Side {
    /// The figures of an experiment: one for each candidate and direction.
    #[must_use]
    pub fn of_experiment(file: String, e: Experiment) -> Self {
        let mut figures = Vec::new();
        for candidate in &e.candidates {
            for direction in &e.directions {
                let mine = e.cells.iter().filter(|c| {
                    c.candidate == candidate.name && c.measurement.direction == *direction
                });
                let values = mine.filter(|c| c.measurement.is_valid());
                let values = values.map(|c| c.measurement.rate().mbps()).collect();
                let name = format!("{} {direction}", candidate.name);
                figures.push(Figure::new(name, "Mbit/s", values));
            }
        }
        let (kind, class, machine) = ("tune".into(), e.class, e.machine.id);
        Self { file, kind, class, scenario: e.scenario, machine, figures }
    }

    /// The figures of a sweep.
    #[must_use]
    pub fn of_sweep(file: String, s: Sweep) -> Self {
        Self {
            file,
            kind: format!("sweep of {} {}", s.kind, s.direction),
            class: s.class,
            figures: of_sweep(&s),
            scenario: s.scenario,
            machine: s.machine.id,
        }
    }

    /// The figures of single runs with one candidate.
    #[must_use]
    pub fn of_runs(
        file: String,
        candidate: &str,
        runs: &[Measurement],
        class: EvidenceClass,
        scenario: Scenario,
        machine: Option<String>,
    ) -> Self {
        let valid = runs.iter().filter(|run| run.is_valid());
        let figures = valid.map(|run| {
            let name = format!("{candidate} {}", run.direction);
            Figure::new(name, "Mbit/s", vec![run.rate().mbps()])
        });
        Self { file, kind: "bench".into(), class, figures: figures.collect(), scenario, machine }
    }
}

fn of_sweep(sweep: &Sweep) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    if matches!(sweep.kind, SweepKind::Mss | SweepKind::Mtu) {
        for point in sweep.points.iter().filter(|p| p.is_valid()) {
            let name = format!("{} {}", sweep.kind, point.size);
            match figures.iter_mut().find(|f| f.name == name) {
                Some(figure) => figure.values.push(point.goodput.mbps()),
                None => figures.push(Figure::new(name, "Mbit/s", vec![point.goodput.mbps()])),
            }
        }
    }
    for search in &sweep.searches {
        for result in &search.results {
            let (Some(lower), GoalOutcome::Found | GoalOutcome::AtOrAboveMaximum) =
                (result.lower, result.outcome)
            else {
                continue;
            };
            let lost = result.goal.loss_ratio * 100.0;
            let name = format!("{} ({lost} % lost), {} bytes", result.goal.name, search.frame.0);
            let mut figure = Figure::new(name, "packets/s", vec![lower]);
            figure.is_floor = result.outcome == GoalOutcome::AtOrAboveMaximum;
            figure.remark = Some(match (result.outcome, result.upper) {
                (GoalOutcome::Found, Some(upper)) => format!("below {upper:.0}"),
                _ => "at or above".into(),
            });
            figures.push(figure);
        }
    }
    if let Some(knee) = &sweep.knee
        && let (KneeVerdict::Found, Some(at)) = (knee.verdict, knee.estimate)
    {
        figures.push(Figure::new("knee".into(), "packets/s", vec![at]));
    }
    figures
}

/// Differences that make the two no fair pair.
#[must_use]
pub fn differences(a: &Side, b: &Side) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |what: &str, a: String, b: String| {
        if a != b {
            found.push(format!("{what} {a} and {b}"));
        }
    };
    check("evidence", a.class.to_string(), b.class.to_string());
    check("records of", a.kind.clone(), b.kind.clone());
    let (x, y) = (&a.scenario, &b.scenario);
    check("scenario", x.name.clone(), y.name.clone());
    check("rules", x.rules.to_string(), y.rules.to_string());
    check("streams", x.streams.to_string(), y.streams.to_string());
    check("MTU", x.mtu.to_string(), y.mtu.to_string());
    check("protocol", format!("{:?}", x.protocol), format!("{:?}", y.protocol));
    check("tracked connections", x.flows.to_string(), y.flows.to_string());
    let rate = |s: &Scenario| s.rate.map_or("no rate".to_owned(), |rate| rate.to_string());
    check("rate", rate(x), rate(y));
    let datagram = |s: &Scenario| s.datagram.map_or("none".to_owned(), |bytes| bytes.to_string());
    check("datagrams of", datagram(x), datagram(y));
    found
}

/// Two records side by side, as `compare --json` prints them.
#[derive(serde::Serialize)]
pub struct Comparison {
    format: &'static str,
    version: u32,
    /// The file of the first.
    pub a: String,
    /// The file of the second.
    pub b: String,
    /// The first one's class of evidence.
    pub class: EvidenceClass,
    /// Figures that both have.
    pub rows: Vec<Row>,
    /// Figures that the first has alone.
    pub only_a: Vec<String>,
    /// Figures that the second has alone.
    pub only_b: Vec<String>,
    /// Reasons for a reader to doubt it.
    pub doubts: Vec<String>,
}

/// A figure that both records have.
#[derive(serde::Serialize)]
pub struct Row {
    /// The figure's name.
    pub name: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// How many values the first has.
    pub values_a: usize,
    /// How many values the second has.
    pub values_b: usize,
    /// Geometric mean of the first.
    pub a: f64,
    /// Geometric mean of the second.
    pub b: f64,
    /// Second over first; `None` where one is only known to be at its value or above.
    pub ratio: Option<f64>,
    /// The ratio's 95 % interval, where both have several values.
    pub interval: Option<(f64, f64)>,
    /// A remark on the first.
    pub remark_a: Option<String>,
    /// A remark on the second.
    pub remark_b: Option<String>,
}

impl Comparison {
    /// Compares `b` with `a`; `differ` is what [`differences`] found.
    #[must_use]
    pub fn of(a: &Side, b: &Side, differ: Vec<String>) -> Self {
        let mut rows = Vec::new();
        for figure in &a.figures {
            let Some(other) = b.figures.iter().find(|o| o.name == figure.name) else { continue };
            let Some(between) = between(&figure.values, &other.values) else { continue };
            let known = !(figure.is_floor || other.is_floor);
            rows.push(Row {
                name: figure.name.clone(),
                unit: figure.unit,
                values_a: figure.values.len(),
                values_b: other.values.len(),
                a: between.a,
                b: between.b,
                ratio: known.then_some(between.ratio),
                interval: between.interval.filter(|_| known),
                remark_a: figure.remark.clone(),
                remark_b: other.remark.clone(),
            });
        }
        let rest = |figures: &[Figure]| -> Vec<String> {
            let names = figures.iter().map(|f| &f.name);
            names.filter(|name| !rows.iter().any(|row| row.name == **name)).cloned().collect()
        };
        let mut doubts = vec![
            "two runs at two times: what changed between them is in the ratio and not in its interval"
                .to_owned(),
        ];
        doubts.extend(differ.iter().map(|d| format!("not of one kind: {d}")));
        if a.machine.is_some() && b.machine.is_some() && a.machine != b.machine {
            doubts.push("two machines".into());
        }
        if (a.scenario.seconds, a.scenario.omit) != (b.scenario.seconds, b.scenario.omit) {
            doubts
                .push(format!("runs of {} s and of {} s", a.scenario.seconds, b.scenario.seconds));
        }
        let (only_a, only_b) = (rest(&a.figures), rest(&b.figures));
        Self {
            format: "linerate-compare",
            version: 1,
            a: a.file.clone(),
            b: b.file.clone(),
            class: a.class,
            rows,
            only_a,
            only_b,
            doubts,
        }
    }
}
