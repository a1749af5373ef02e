//! Costs from measurements: the CPU time that forwarding a packet took on a machine, and how much
//! of it is due to rules, layers and hand-offs.
//!
//! ```text
//!   cells ─▶ points: CPU time per packet, mean of a candidate and direction
//!        y = base + layers * L + rules * R + hand-overs * H + ...     all >= 0
//!   least squares on ln y (Gauss-Newton, damped, bounded) ─▶ what the points can't tell stays
//!        at its default ─▶ the same again without each candidate, then each result ─▶ error of a
//!        prediction
//! ```
//!
//! Interrupt, stack and completion of a packet always come together, so that only their sum shows:
//! their proportions stay at the defaults, as do those of giving and taking. In the lab the CPU
//! time holds the two ends' own interrupts too.

use std::collections::BTreeMap;

use super::costs::Costs;
use crate::model::goal::Quantity;
use crate::model::knob::{Knob, Value};
use crate::model::measurement::{Direction, EvidenceClass, Experiment, Protocol};
use crate::model::plan::Candidate;

/// Parameters are sought from a twentieth to twenty times of what the defaults make of them.
const REACH: f64 = 20.0;

/// A parameter whose logarithm has a larger standard error is not known.
const KNOWN: f64 = 0.35;

/// A column with less of its own than this share is made of the others.
const OWN: f64 = 0.02;

/// Terms that can show in the CPU time of a packet.
const TERMS: [(&str, &str); 8] = [
    ("nat", "a packet's whole way with NAT"),
    ("route", "a packet's whole way without NAT"),
    ("flowtable", "a packet's whole way through a software flowtable"),
    ("layer", "a VLAN or PPPoE layer"),
    ("bridge", "a bridge"),
    ("wireguard", "WireGuard"),
    ("rule", "a filter rule"),
    ("hand-over", "an RPS hand-off, giving and taking"),
];

/// Number of the terms, from the first, that are ways of their own.
const WAYS: usize = 3;

const COUNT: usize = TERMS.len();

fn defaults() -> [f64; COUNT] {
    let c = Costs::DEFAULT;
    let around = c.interrupt + c.completion;
    [
        around + c.nat,
        around + c.route,
        around + c.flowtable,
        c.layer,
        c.bridge,
        c.wireguard,
        c.rule,
        c.give + c.take,
    ]
}

/// Mean of a candidate in one direction.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    /// Number of the file.
    file: usize,
    /// Number of file and candidate.
    group: usize,
    name: String,
    /// Amount of each term that a packet has.
    has: [f64; COUNT],
    /// CPU time per packet, ns.
    took: f64,
}

/// A term, as it was found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Term {
    /// Name of the term.
    pub name: &'static str,
    /// Description of the term.
    pub what: &'static str,
    /// CPU time of one, ns.
    pub ns: f64,
    /// Default of the term, of NAT's stack stage.
    pub default: f64,
    /// Relative standard error (0.05 is 5 %); `None` where it was not found.
    pub error: Option<f64>,
    /// Reason why the term was not found and stays at its default, where that is so.
    pub not_found: Option<String>,
}

/// Result of a fit.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Fit {
    /// The costs; what was not found is as before.
    #[serde(skip)]
    pub costs: Costs,
    /// Time that 1.0 takes, ns.
    pub unit_ns: f64,
    /// Means that it rests on.
    pub points: usize,
    /// Each term.
    pub terms: Vec<Term>,
    /// Root mean square of ln(measured / fitted).
    pub residual: f64,
    /// The worst residual: which candidate and direction, and ln(measured / fitted).
    pub worst: (String, f64),
    /// Error of predictions for candidates that were left out of the fit, root mean square as
    /// before; `None` with fewer than three.
    pub left_out: Option<f64>,
    /// The same with all candidates of a result left out at once, so that its number of rules, its MTU
    /// and its layers are new too; `None` with fewer than three results.
    pub unseen: Option<f64>,
    /// Predictions against results that took no part in it.
    pub tested: Option<Tested>,
    /// Half of a prediction's 95 % interval, in logarithms: twice the largest of these errors, and no
    /// less than [`LEAST_ERROR`].
    pub error: f64,
    /// Acknowledgements for each packet of data, counted; `None` where no cell has them.
    pub acks: Option<f64>,
    /// Remarks that a reader must know.
    pub notes: Vec<String>,
}

/// Predictions against measurements that took no part in the fit.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Tested {
    /// Means of a candidate in a direction.
    pub points: usize,
    /// Root mean square of ln(measured / predicted).
    pub error: f64,
    /// The worst of them.
    pub worst: (String, f64),
}

/// No prediction is known better than this: 10 %.
pub const LEAST_ERROR: f64 = 0.095_3;

impl Fit {
    /// Tries it on results that took no part in it; its predictions are as uncertain as those show.
    ///
    /// # Errors
    /// An error with the reason if nothing can be compared.
    pub fn tested(mut self, experiments: &[(String, Experiment)]) -> Result<Self, String> {
        let predicted =
            |p: &Point| self.terms.iter().zip(&p.has).map(|(term, n)| term.ns * n).sum::<f64>();
        let points = points(experiments);
        let errors = points.iter().map(|p| (p.name.clone(), libm::log(p.took / predicted(p))));
        let errors: Vec<(String, f64)> = errors.filter(|(_, e)| e.is_finite()).collect();
        let worst = errors.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).cloned();
        let worst = worst.ok_or("no cell to test with has both packets and CPU time")?;
        let all: Vec<f64> = errors.iter().map(|(_, e)| *e).collect();
        let error = root_mean_square(&all);
        self.error = self.error.max(2.0 * error);
        self.costs.error = Some(self.error);
        self.tested = Some(Tested { points: errors.len(), error, worst });
        Ok(self)
    }
}

/// Fits the costs to the cells of experiments (a name for each, as a person knows it).
///
/// # Errors
/// An error with the reason if nothing can be fitted.
pub fn fit(experiments: &[(String, Experiment)]) -> Result<Fit, String> {
    let points = points(experiments);
    if points.is_empty() {
        return Err("no cell has both packets and CPU time".into());
    }
    let solution = solve(&points).ok_or_else(|| {
        format!("{} are too few for what there is to find", count(points.len(), "mean"))
    })?;
    let errors: Vec<f64> =
        points.iter().map(|p| libm::log(p.took / solution.foretell(&p.has))).collect();
    let worst = points
        .iter()
        .zip(&errors)
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
        .map_or((String::new(), 0.0), |(p, e)| (p.name.clone(), *e));
    let unit = solution.unit();
    let acks = acks(experiments);
    let costs = solution.costs();
    let residual = root_mean_square(&errors);
    let by_candidate = left_out(&points, |p| p.group);
    let unseen = left_out(&points, |p| p.file);
    let largest = by_candidate.into_iter().chain(unseen).fold(residual, f64::max);
    let error = (2.0 * largest).max(LEAST_ERROR);
    Ok(Fit {
        costs: Costs { ack: acks.unwrap_or(costs.ack), error: Some(error), ..costs },
        unseen,
        tested: None,
        error,
        unit_ns: unit,
        points: points.len(),
        terms: solution.terms(),
        residual,
        worst,
        left_out: by_candidate,
        acks,
        notes: notes(experiments),
    })
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn root_mean_square(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().map(|v| v * v).sum();
    (sum / values.len().max(1) as f64).sqrt()
}

fn notes(experiments: &[(String, Experiment)]) -> Vec<String> {
    let mut notes = Vec::new();
    let all = |test: &dyn Fn(&Experiment) -> bool| experiments.iter().any(|(_, e)| test(e));
    if all(&|e| e.class == EvidenceClass::Lab) {
        notes.push(
            "in the lab the softirq time of a packet holds what its two ends took: as limits of \
             this router's rate they are too high"
                .to_owned(),
        );
    }
    if all(&|e| e.machine.irq_time_accounting == Some(false)) {
        notes.push(
            "softirq time was sampled by the tick and not timed (CONFIG_IRQ_TIME_ACCOUNTING is \
             off)"
                .to_owned(),
        );
    }
    let machine = |e: &Experiment| (e.machine.id.clone(), e.machine.hostname.clone());
    if let Some((_, first)) = experiments.first()
        && all(&|e| machine(e) != machine(first))
    {
        notes.push("the results are of different machines: the unit is a mean of theirs".into());
    }
    notes
}

/// Packets that came in on the other one of two devices for each that brought data, while TCP went
/// one way: geometric mean.
fn acks(experiments: &[(String, Experiment)]) -> Option<f64> {
    let tcp = experiments.iter().filter(|(_, e)| e.scenario.protocol == Protocol::Tcp);
    let cells = tcp.flat_map(|(_, e)| &e.cells).map(|cell| &cell.measurement);
    let alone = cells.filter(|m| m.is_valid() && m.direction != Direction::Both);
    let logs: Vec<f64> = alone
        .filter_map(|m| match m.devices.as_slice() {
            [one, other] => {
                let (one, other) = (one.rx_packets as f64, other.rx_packets as f64);
                Some(libm::log(one.min(other) / one.max(other))).filter(|ln| ln.is_finite())
            }
            _ => None,
        })
        .collect();
    (!logs.is_empty()).then(|| libm::exp(logs.iter().sum::<f64>() / logs.len() as f64))
}

/// Means over the valid cells of each candidate in each direction.
fn points(experiments: &[(String, Experiment)]) -> Vec<Point> {
    let mut points = Vec::new();
    let mut group = 0;
    for (number, (file, experiment)) in experiments.iter().enumerate() {
        for candidate in &experiment.candidates {
            group += 1;
            let has = has(experiment, candidate);
            let mut each: BTreeMap<_, (f64, f64)> = BTreeMap::new();
            let valid = experiment.cells.iter().filter(|c| c.measurement.is_valid());
            for cell in valid.filter(|c| c.candidate == candidate.name) {
                let m = &cell.measurement;
                let of = |quantity: Quantity| quantity.of(m, experiment.class);
                let (Some(packets), Some(cpu)) =
                    (of(Quantity::PacketRate), of(Quantity::CpuPerGigabit))
                else {
                    continue;
                };
                // CPU seconds per second, over packets per second.
                let took = cpu * m.rate().0 / packets;
                if took.is_finite() && took > 0.0 {
                    let (sum, n) = each.entry(m.direction).or_default();
                    *sum += libm::log(took);
                    *n += 1.0;
                }
            }
            points.extend(each.into_iter().map(|(direction, (sum, n))| Point {
                file: number,
                group,
                name: format!("{file}: {} {direction}", candidate.name),
                has,
                took: libm::exp(sum / n),
            }));
        }
    }
    points
}

/// Amount of each term that a packet has on a router set up like that.
fn has(experiment: &Experiment, candidate: &Candidate) -> [f64; COUNT] {
    let scenario = &experiment.scenario;
    let part = |part: &str| scenario.has(part);
    let share = |yes: bool| f64::from(u8::from(yes));
    let offloads = candidate.settings.iter().any(|c| {
        c.knob == Knob::FlowOffload
            && matches!(&c.after, Value::Word(w) if w.starts_with("software"))
    });
    let flowtable = part("flowtable") || offloads;
    let masks = || {
        candidate.settings.iter().filter_map(|c| match (&c.knob, &c.after) {
            (Knob::RpsCpus { .. }, Value::Cpus(set)) => Some(!set.is_empty()),
            _ => None,
        })
    };
    let steered = masks().filter(|on| *on).count() as f64 / masks().count().max(1) as f64;
    [
        share(part("nat") && !flowtable),
        share(!part("nat") && !flowtable),
        share(flowtable),
        share(part("vlan")) + share(part("pppoe")),
        share(part("bridge")),
        share(part("wireguard")),
        if flowtable { 0.0 } else { f64::from(scenario.rules) },
        steered,
    ]
}

/// Values that were found for the terms.
struct Solution {
    /// The way that most points have: what is not found is taken as the defaults' share of it.
    reference: usize,
    ns: [f64; COUNT],
    errors: [Option<f64>; COUNT],
    why_not: [Option<String>; COUNT],
}

impl Solution {
    fn unit(&self) -> f64 {
        at(&self.ns, self.reference) / at(&defaults(), self.reference)
    }

    fn foretell(&self, has: &[f64; COUNT]) -> f64 {
        self.ns.iter().zip(has).map(|(ns, n)| ns * n).sum()
    }

    fn costs(&self) -> Costs {
        let unit = self.unit();
        let mut costs = Costs::DEFAULT;
        let around = costs.interrupt + costs.completion;
        let found = |term: usize| at(&self.ns, term) / unit;
        // A way's own stage, of at least something.
        let stage = |term: usize| (found(term) - around).max(0.01);
        costs.route = stage(1);
        costs.flowtable = stage(2);
        costs.layer = found(3);
        costs.bridge = found(4);
        costs.wireguard = found(5);
        costs.rule = found(6);
        let handing = found(7) / (costs.give + costs.take);
        costs.give *= handing;
        costs.take *= handing;
        costs.unit_ns = Some(unit);
        // Where nothing has NAT, its stage keeps its proportion to the reference; where the
        // reference is another way, everything is brought to NAT's unit.
        let nat = stage(0);
        if (nat - 1.0).abs() > 1e-12 {
            for part in [
                &mut costs.interrupt,
                &mut costs.completion,
                &mut costs.route,
                &mut costs.flowtable,
                &mut costs.layer,
                &mut costs.bridge,
                &mut costs.wireguard,
                &mut costs.rule,
                &mut costs.give,
                &mut costs.take,
                &mut costs.cross,
                &mut costs.tag,
                &mut costs.shaper,
                &mut costs.air_receive,
                &mut costs.air_send,
                &mut costs.air_done,
                &mut costs.local,
                &mut costs.foreign_queue,
            ] {
                *part /= nat;
            }
            costs.unit_ns = Some(unit * nat);
        }
        costs
    }

    fn terms(&self) -> Vec<Term> {
        let parts = self.ns.iter().zip(defaults()).zip(&self.errors).zip(&self.why_not);
        TERMS
            .iter()
            .zip(parts)
            .map(|((name, what), (((ns, default), error), why))| Term {
                name,
                what,
                ns: *ns,
                default,
                error: *error,
                not_found: why.clone(),
            })
            .collect()
    }
}

fn at(values: &[f64], index: usize) -> f64 {
    values.get(index).copied().unwrap_or(0.0)
}

/// The terms that the points can tell apart, with their values; `None` with too few points.
fn solve(points: &[Point]) -> Option<Solution> {
    let default = defaults();
    let uses = |term: usize| points.iter().filter(|p| at(&p.has, term) > 0.0).count();
    let reference = (0..WAYS).rev().max_by_key(|t| uses(*t))?;
    let mut why_not: [Option<String>; COUNT] = Default::default();
    let mut chosen = independent(points, reference, &mut why_not);
    loop {
        // With nothing left over there is no error to state.
        while chosen.len() >= points.len() && chosen.len() > 1 {
            let term = chosen.pop()?;
            set(&mut why_not, term, "there are too few runs to tell it apart".into());
        }
        let (values, errors) = least_squares(points, &chosen, reference)?;
        let unit = at(&values, 0) / at(&default, reference);
        // The reference stays: everything is stated in it.
        let unknown = chosen.iter().enumerate().skip(1).map(|(place, term)| {
            let reach = libm::log(at(&values, place) / (unit * at(&default, *term))).abs();
            let error = errors.as_ref().map_or(f64::INFINITY, |e| at(e, place));
            let stuck = reach >= libm::log(REACH) - 1e-6;
            (*term, at(&values, place), error, stuck)
        });
        let worst = unknown
            .filter(|(_, _, error, stuck)| *stuck || error.is_nan() || *error > KNOWN)
            .max_by(|a, b| a.2.total_cmp(&b.2));
        if let Some((term, value, error, stuck)) = worst {
            let why = if stuck {
                "it would come out below a twentieth or above twenty times its default: what it \
                 does is lost in what runs differ by"
                    .to_owned()
            } else {
                format!(
                    "the runs leave it anywhere from {:.1} to {:.1} ns",
                    value * libm::exp(-2.0 * error),
                    value * libm::exp(2.0 * error)
                )
            };
            set(&mut why_not, term, why);
            chosen.retain(|t| *t != term);
            continue;
        }
        let mut ns = default.map(|d| d * unit);
        let mut found = [None; COUNT];
        for (place, term) in chosen.iter().enumerate() {
            if let Some(slot) = ns.get_mut(*term) {
                *slot = at(&values, place);
            }
            if let (Some(slot), Some(errors)) = (found.get_mut(*term), &errors) {
                *slot = Some(at(errors, place));
            }
        }
        return Some(Solution { reference, ns, errors: found, why_not });
    }
}

fn set(why_not: &mut [Option<String>; COUNT], term: usize, why: String) {
    if let Some(slot) = why_not.get_mut(term) {
        *slot = Some(why);
    }
}

/// The terms whose share in the points is not made of the others', the reference first.
fn independent(
    points: &[Point],
    reference: usize,
    why_not: &mut [Option<String>; COUNT],
) -> Vec<usize> {
    let default = defaults();
    let whole: Vec<f64> = points
        .iter()
        .map(|p| p.has.iter().zip(&default).map(|(n, d)| n * d).sum::<f64>())
        .collect();
    let mut chosen = Vec::new();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for term in std::iter::once(reference).chain((0..COUNT).filter(|t| *t != reference)) {
        let mut column: Vec<f64> = points
            .iter()
            .zip(&whole)
            .map(|(p, whole)| at(&p.has, term) * at(&default, term) / whole)
            .collect();
        let before = dot(&column, &column);
        if before <= 0.0 {
            set(why_not, term, "no run has it".into());
            continue;
        }
        for known in &basis {
            let along = dot(&column, known);
            for (value, known) in column.iter_mut().zip(known) {
                *value -= along * known;
            }
        }
        let left = dot(&column, &column);
        if left < OWN * OWN * before {
            set(why_not, term, "all runs have as much of it: vary it".into());
            continue;
        }
        let length = left.sqrt();
        column.iter_mut().for_each(|v| *v /= length);
        basis.push(column);
        chosen.push(term);
    }
    chosen
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Values of the chosen terms in ns, the reference first, and the standard errors of their
/// logarithms (`None` without a point more than terms); `None` if there is nothing to solve.
fn least_squares(
    points: &[Point],
    chosen: &[usize],
    reference: usize,
) -> Option<(Vec<f64>, Option<Vec<f64>>)> {
    let default = defaults();
    // What is not chosen goes along with the reference.
    let rows: Vec<Vec<f64>> = points
        .iter()
        .map(|p| {
            let along: f64 = (0..COUNT)
                .filter(|t| !chosen.contains(t))
                .map(|t| at(&p.has, t) * at(&default, t))
                .sum();
            let own = chosen.iter().map(|t| at(&p.has, *t));
            let mut row: Vec<f64> = own.collect();
            if let Some(first) = row.first_mut() {
                *first += along / at(&default, reference);
            }
            row
        })
        .collect();
    let start: Vec<f64> = chosen.iter().map(|t| at(&default, *t)).collect();
    let scale = points.iter().zip(&rows).map(|(p, row)| libm::log(p.took / dot(row, &start)));
    let scale = libm::exp(scale.sum::<f64>() / points.len() as f64);
    if !scale.is_finite() {
        return None;
    }
    let start: Vec<f64> = start.iter().map(|d| libm::log(d * scale)).collect();
    let residuals = |logs: &[f64]| -> Vec<f64> {
        let values: Vec<f64> = logs.iter().copied().map(libm::exp).collect();
        points.iter().zip(&rows).map(|(p, row)| libm::log(p.took / dot(row, &values))).collect()
    };
    let mut logs = start.clone();
    let mut errors = residuals(&logs);
    let mut damping = 1e-3;
    for _ in 0..500 {
        let jacobian = jacobian(&rows, &logs);
        let (mut normal, gradient) = normal(&jacobian, &errors);
        for (index, row) in normal.iter_mut().enumerate() {
            if let Some(value) = row.get_mut(index) {
                *value *= 1.0 + damping;
                *value += 1e-300;
            }
        }
        let step = invert(&normal).map(|inverse| -> Vec<f64> {
            inverse.iter().map(|row| dot(row, &gradient)).collect()
        })?;
        let next: Vec<f64> = logs
            .iter()
            .zip(&step)
            .zip(&start)
            .map(|((l, s), start)| {
                (l + s).clamp(start - libm::log(REACH), start + libm::log(REACH))
            })
            .collect();
        let moved = logs.iter().zip(&next).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let tried = residuals(&next);
        if dot(&tried, &tried) <= dot(&errors, &errors) {
            (logs, errors) = (next, tried);
            damping = (damping / 10.0_f64).max(1e-12);
            if moved < 1e-12 {
                break;
            }
        } else if damping > 1e12 {
            break;
        } else {
            damping *= 10.0;
        }
    }
    let freedom = points.len().saturating_sub(chosen.len());
    let variance = dot(&errors, &errors) / freedom.max(1) as f64;
    let spread = || {
        let (normal, _) = normal(&jacobian(&rows, &logs), &errors);
        let inverse = invert(&normal)?;
        Some(inverse.iter().enumerate().map(|(i, row)| (variance * at(row, i)).sqrt()).collect())
    };
    let spread: Option<Vec<f64>> = if freedom > 0 { spread() } else { None };
    Some((logs.iter().copied().map(libm::exp).collect(), spread))
}

/// Change of each point's ln(fitted) with the logarithm of each value.
fn jacobian(rows: &[Vec<f64>], logs: &[f64]) -> Vec<Vec<f64>> {
    let values: Vec<f64> = logs.iter().copied().map(libm::exp).collect();
    rows.iter()
        .map(|row| {
            let whole = dot(row, &values);
            row.iter().zip(&values).map(|(n, v)| n * v / whole).collect()
        })
        .collect()
}

/// The normal equations: matrix and right side.
fn normal(jacobian: &[Vec<f64>], errors: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let width = jacobian.first().map_or(0, Vec::len);
    let mut matrix = vec![vec![0.0; width]; width];
    let mut right = vec![0.0; width];
    for (row, error) in jacobian.iter().zip(errors) {
        for ((own, right), line) in row.iter().zip(&mut right).zip(&mut matrix) {
            *right += own * error;
            line.iter_mut().zip(row).for_each(|(sum, other)| *sum += own * other);
        }
    }
    (matrix, right)
}

/// The inverse by Gauss and Jordan, with pivots; `None` for a singular matrix.
fn invert(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let mut wide: Vec<Vec<f64>> = matrix
        .iter()
        .enumerate()
        .map(|(i, row)| {
            let unit = (0..n).map(|j| f64::from(u8::from(i == j)));
            row.iter().copied().chain(unit).collect()
        })
        .collect();
    for column in 0..n {
        let size = |row: usize| wide.get(row).map_or(0.0, |r| at(r, column).abs());
        let pivot = (column..n).max_by(|a, b| size(*a).total_cmp(&size(*b)))?;
        wide.swap(column, pivot);
        let mut line = wide.get(column)?.clone();
        let by = at(&line, column);
        if !by.is_normal() {
            return None;
        }
        line.iter_mut().for_each(|v| *v /= by);
        for (row, other) in wide.iter_mut().enumerate() {
            let times = at(other, column);
            if row == column {
                other.clone_from(&line);
            } else {
                other.iter_mut().zip(&line).for_each(|(v, l)| *v -= times * l);
            }
        }
    }
    Some(wide.iter().map(|row| row.iter().skip(n).copied().collect()).collect())
}

/// Error of the costs for what took no part in finding them: each part in turn, all points of the
/// same number; `None` with fewer than three parts.
fn left_out(points: &[Point], part: fn(&Point) -> usize) -> Option<f64> {
    let mut parts: Vec<usize> = points.iter().map(part).collect();
    parts.dedup();
    if parts.len() < 3 {
        return None;
    }
    let mut errors = Vec::new();
    for one in parts {
        let rest: Vec<Point> = points.iter().filter(|p| part(p) != one).cloned().collect();
        let solution = solve(&rest)?;
        let own = points.iter().filter(|p| part(p) == one);
        errors.extend(own.map(|p| libm::log(p.took / solution.foretell(&p.has))));
    }
    Some(root_mean_square(&errors))
}
