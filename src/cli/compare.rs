//! `linerate compare`: the figures of two files side by side.

use std::path::Path;

use super::args::CompareArgs;
use super::context::Context;
use super::output::Output;
use super::table::Table;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::experiment::between;
use crate::model::measurement::{EvidenceClass, Scenario};
use crate::model::sweep::{GoalOutcome, KneeVerdict, Sweep, SweepKind};
use crate::report::html;
use crate::store;
use crate::store::measured::{Measured, read};

/// Runs the command.
pub(super) fn run(context: &Context, args: &CompareArgs) -> Result<ExitCode> {
    let out = &context.out;
    let (a, b) = (side(&args.a)?, side(&args.b)?);
    let differ = differences(&a, &b);
    if !differ.is_empty() && !args.anyway {
        let what = format!("compare {} with {}", args.b.display(), args.a.display());
        return Err(Error::usage(what, format!("not of one kind: {}", differ.join("; ")))
            .hint("measure both in the same way; --anyway sets them side by side nevertheless"));
    }
    let comparison = Comparison::of(&a, &b, differ);
    if comparison.rows.is_empty() {
        let what = format!("compare {} with {}", args.b.display(), args.a.display());
        let why = "no figure of one is in the other";
        return Err(Error::new(ExitCode::Refused, what, why).hint(format!(
            "the first has {}; the second {}",
            list(&comparison.only_a),
            list(&comparison.only_b)
        )));
    }
    if let Some(path) = &args.output {
        let text = match path.extension().and_then(|e| e.to_str()) {
            Some("svg") => html::comparison::svg(&drawn(&comparison)),
            Some("html" | "htm") => html::comparison::page(&drawn(&comparison)),
            _ => text(out, &comparison) + "\n",
        };
        store::write_file("comparison", path, text.as_bytes())?;
        out.say(format_args!("written to {}", path.display()));
    }
    if out.json {
        out.json(&comparison)?;
    } else if args.output.is_none() {
        out.data(text(out, &comparison))?;
    }
    Ok(ExitCode::Done)
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "no figure that stands".to_owned() } else { names.join(", ") }
}

/// A file, as far as it is compared.
struct Side {
    file: String,
    kind: String,
    class: EvidenceClass,
    scenario: Scenario,
    machine: Option<String>,
    figures: Vec<Figure>,
}

/// Values of one thing.
struct Figure {
    name: String,
    unit: &'static str,
    values: Vec<f64>,
    /// Where they lie, of a search.
    remark: Option<String>,
    /// Whether the truth is at the value or anywhere above.
    is_floor: bool,
}

impl Figure {
    fn new(name: String, unit: &'static str, values: Vec<f64>) -> Self {
        Self { name, unit, values, remark: None, is_floor: false }
    }
}

/// The figures of a file that stand, by name, with their values.
pub(super) fn figures(path: &Path) -> Result<Vec<(String, Vec<f64>)>> {
    Ok(side(path)?.figures.into_iter().map(|figure| (figure.name, figure.values)).collect())
}

fn side(path: &Path) -> Result<Side> {
    let file = path.display().to_string();
    Ok(match read(path)? {
        Measured::Experiment(e) => {
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
            Side {
                file,
                kind: "tune".into(),
                class: e.class,
                scenario: e.scenario,
                machine: e.machine.id,
                figures,
            }
        }
        Measured::Sweep(s) => Side {
            file,
            kind: format!("sweep of {} {}", s.kind, s.direction),
            class: s.class,
            figures: of_sweep(&s),
            scenario: s.scenario,
            machine: s.machine.id,
        },
        Measured::Bench(b) => {
            let valid = b.runs.iter().filter(|run| run.is_valid());
            let figures = valid.map(|run| {
                let name = format!("{} {}", b.candidate, run.direction);
                Figure::new(name, "Mbit/s", vec![run.rate().mbps()])
            });
            Side {
                file,
                kind: "bench".into(),
                class: b.class,
                figures: figures.collect(),
                scenario: b.scenario,
                machine: b.origin.and_then(|origin| origin.machine.id),
            }
        }
    })
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

/// What makes the two no fair pair.
fn differences(a: &Side, b: &Side) -> Vec<String> {
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

/// What `compare --json` prints.
#[derive(serde::Serialize)]
struct Comparison {
    format: &'static str,
    version: u32,
    a: String,
    b: String,
    class: EvidenceClass,
    rows: Vec<Row>,
    only_a: Vec<String>,
    only_b: Vec<String>,
    /// Why a reader should doubt it.
    doubts: Vec<String>,
}

#[derive(serde::Serialize)]
struct Row {
    name: String,
    unit: &'static str,
    values_a: usize,
    values_b: usize,
    /// Geometric means.
    a: f64,
    b: f64,
    /// Second over first; `None` where one is only known to be at its value or above.
    ratio: Option<f64>,
    interval: Option<(f64, f64)>,
    remark_a: Option<String>,
    remark_b: Option<String>,
}

impl Comparison {
    fn of(a: &Side, b: &Side, differ: Vec<String>) -> Self {
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

fn text(out: &Output, comparison: &Comparison) -> String {
    let mut lines = vec![out.bold(format_args!("{} against {}", comparison.b, comparison.a))];
    let mut table = Table::new(&["", "unit", "A", "B", "B / A", "95 % interval"]);
    for row in &comparison.rows {
        let (ratio, interval) = ratio_in_words(row);
        table.row([
            row.name.clone(),
            row.unit.to_owned(),
            value(row.a, row.values_a, row.remark_a.as_deref()),
            value(row.b, row.values_b, row.remark_b.as_deref()),
            ratio,
            interval,
        ]);
    }
    lines.extend(table.lines());
    for (file, only) in [(&comparison.a, &comparison.only_a), (&comparison.b, &comparison.only_b)] {
        if !only.is_empty() {
            lines.push(out.dim(format_args!("only in {file}: {}", only.join(", "))));
        }
    }
    lines.extend(comparison.doubts.iter().map(|doubt| out.dim(format_args!("note: {doubt}"))));
    lines.push(out.dim(format_args!("evidence: {}", comparison.class.meaning())));
    lines.join("\n")
}

fn value(mean: f64, values: usize, remark: Option<&str>) -> String {
    let of = if values > 1 { format!(" (mean of {values})") } else { String::new() };
    let remark = remark.map(|r| format!(" ({r})")).unwrap_or_default();
    format!("{mean:.0}{of}{remark}")
}

/// Ratio and interval.
fn ratio_in_words(row: &Row) -> (String, String) {
    let Some(ratio) = row.ratio else {
        return ("?".into(), "no ratio: one is only known from below".into());
    };
    let interval = match row.interval {
        Some((low, high)) if low > 1.0 || high < 1.0 => format!("{low:.3} to {high:.3}"),
        Some((low, high)) => format!("{low:.3} to {high:.3}, no difference shown"),
        None => "no interval possible: a single value".into(),
    };
    (format!("{ratio:.3}"), interval)
}

/// What the page and the drawing show.
fn drawn(comparison: &Comparison) -> html::comparison::Comparison {
    let pair = |row: &Row| {
        let (ratio, interval) = ratio_in_words(row);
        html::comparison::Pair {
            name: row.name.clone(),
            unit: row.unit,
            a: value(row.a, row.values_a, row.remark_a.as_deref()),
            b: value(row.b, row.values_b, row.remark_b.as_deref()),
            ratio: row.ratio,
            interval: row.interval,
            words: format!("{ratio} ({interval})"),
        }
    };
    let mut notes = vec![format!("A is {}, B is {}", comparison.a, comparison.b)];
    for (file, only) in [(&comparison.a, &comparison.only_a), (&comparison.b, &comparison.only_b)] {
        if !only.is_empty() {
            notes.push(format!("only in {file}: {}", only.join(", ")));
        }
    }
    notes.extend(comparison.doubts.iter().cloned());
    notes.push(format!("evidence: {}", comparison.class.meaning()));
    html::comparison::Comparison {
        title: format!("{} against {}", comparison.b, comparison.a),
        pairs: comparison.rows.iter().map(pair).collect(),
        notes,
    }
}
