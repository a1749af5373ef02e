//! `linerate bench`: one measurement, with its reasons to be refused.

mod args;
mod board;
mod driver;
mod hosts;
mod list;

pub(super) use args::BenchArgs;

use self::args::Against;
use super::context::Context;
use super::interrupt;
use super::output::Output;
use super::shared::loads::framed;
use super::shared::waiting;
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::clock;
use crate::machine::store::measured::Origin;
use crate::measure::bench;
use crate::measure::bench::against::{AgainstIperf3, against_iperf3};
use crate::measure::bench::beside::{Beside, Latency, Seen};
use crate::measure::load::{LoadSpec, Sender};
use crate::measure::tune::Workbench;
use crate::model::histogram::Histogram;
use crate::model::measurement::{
    CpuUse, Direction, EvidenceClass, Measurement, Protocol, Scenario,
};
use crate::model::order::InOrder;
use crate::model::snapshot::Snapshot;
use crate::model::units::BitRate;
use crate::report::document::Table;
use crate::{decide::plan, machine::store, measure::lab};

/// Default payload of a UDP datagram.
const DATAGRAM: u32 = 1400;

/// Runs the command.
pub(super) fn run(context: &Context, args: &BenchArgs) -> Result<ExitCode> {
    if args.list {
        return list::list(context);
    }
    context.live("bench")?;
    if args.wire.hosts().is_some() {
        return hosts::run(context, args);
    }
    if let Some(name) = args.driver.driver {
        return driver::run(context, args, name);
    }
    let out = &context.out;
    let spec = load_spec(args)?;
    let lab = args.load.permitted_lab(args.scenario)?;
    if args.board.board {
        return board::run(context, args);
    }
    let what = format!("bench {}", lab.shape);
    let stop = interrupt::stop_flag()?;
    let lock = waiting::lock(context, &what)?;
    let workbench = Workbench::build(&lab, lock, &stop)?;
    let spec = fitting(&spec, args.datagram, args.scenario.ipv6, workbench.bench().mtu);
    workbench.router().notes.iter().for_each(|note| out.say(note));
    let candidates = plan::candidates(workbench.router().snapshot());
    let candidate = plan::find(&candidates, &args.candidate)?.clone();
    if let Some(Against::Iperf3) = args.against {
        let compared =
            workbench.with(&candidate, |bench| against_iperf3(bench, &spec, args.pairs, &stop))?;
        drop(workbench);
        return against(context, args, &spec, &compared);
    }
    let built = Built {
        shape: lab.shape.to_string(),
        rules: lab.rules,
        flows: lab.flows,
        tracked: (lab.flows > 0).then(|| lab::tracked(&workbench.bench().router)).flatten(),
        path_mtu: workbench.bench().mtu,
    };
    let beside = match (args.latency, args.headroom) {
        (true, _) => Beside::Latency,
        (_, true) => Beside::Headroom,
        _ => Beside::Nothing,
    };
    let started = clock::wall();
    let ((mut runs, seen), settings) = workbench.with_settings(&candidate, |bench| {
        bench::beside::measure_directions(bench, &spec, beside, &stop)
    })?;
    runs.iter_mut().for_each(|run| run.settings.clone_from(&settings));
    let origin = origin(workbench.router().snapshot(), started);
    drop(workbench);
    if out.json {
        out.json(&Benched {
            format: store::measured::BENCH_FORMAT,
            version: store::measured::BENCH_VERSION,
            class: EvidenceClass::Lab,
            origin,
            candidate: &candidate.name,
            scenario: scenario(args, &spec),
            lab: &built,
            runs: &runs,
            beside: &seen,
        })?;
    } else {
        let told = text(context, &built.line(), &candidate.title, EvidenceClass::Lab, &runs);
        out.tell([vec![told], beside_lines(context, &seen)].concat().join("\n"))?;
    }
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Error::interrupted(what));
    }
    if seen.headroom.iter().any(|one| one.disturbed) {
        return Ok(ExitCode::Refused);
    }
    Ok(verdict(context, args, &runs))
}

fn load_spec(args: &BenchArgs) -> Result<LoadSpec> {
    if args.protocol == Protocol::Udp && args.rate.is_none() {
        return Err(Error::usage("bench", "UDP has no rate of its own")
            .hint("say how fast to send, in Mbit/s: --rate 500"));
    }
    let mut spec = args.load.spec(args.direction);
    spec.protocol = args.protocol;
    spec.rate = args.rate.map(|mbit| BitRate(mbit * 1e6));
    spec.datagram = args.datagram.unwrap_or(DATAGRAM) as usize;
    let asked = args.sender.unwrap_or_default();
    spec.sender = if args.frames { Sender::Frames } else { asked };
    framed(spec.sender, args.scenario, args.direction)?;
    spec.check()?;
    Ok(spec)
}

/// Unless asked for by number, datagrams that get through in one piece.
fn fitting(spec: &LoadSpec, datagram: Option<u32>, ipv6: bool, mtu: u32) -> LoadSpec {
    let headers = if ipv6 { 40 + 8 } else { 20 + 8 };
    let most = mtu.saturating_sub(headers);
    let datagram = datagram.unwrap_or(DATAGRAM.min(most));
    LoadSpec { datagram: datagram as usize, ..spec.clone() }
}

/// For the record.
fn scenario(args: &BenchArgs, spec: &LoadSpec) -> Scenario {
    let datagram = u32::try_from(spec.datagram).ok();
    Scenario {
        rate: spec.rate,
        datagram: datagram.filter(|_| spec.protocol == Protocol::Udp),
        ..args.load.scenario_of(args.scenario, args.protocol)
    }
}

fn origin(snapshot: &Snapshot, started: String) -> Origin {
    Origin {
        program: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        started,
        machine: snapshot.machine.clone(),
        fingerprint: Some(discover::fingerprint(snapshot)),
    }
}

fn verdict(context: &Context, args: &BenchArgs, runs: &[Measurement]) -> ExitCode {
    if runs.iter().any(|run| !run.is_valid()) {
        return ExitCode::Refused;
    }
    let Some(least) = args.fail_below else { return ExitCode::Done };
    // The run that was asked for is the last; with "both" the two before it measure each alone.
    let rate = runs.last().map_or(0.0, |run| run.rate().mbps());
    if rate < least {
        context.out.say(format_args!("{rate:.0} Mbit/s is below the {least:.0} asked for"));
        return ExitCode::Findings;
    }
    ExitCode::Done
}

fn against(
    context: &Context,
    args: &BenchArgs,
    spec: &LoadSpec,
    compared: &AgainstIperf3,
) -> Result<ExitCode> {
    let out = &context.out;
    if out.json {
        let format = serde_json::json!({ "format": "linerate-against", "version": 1,
            "scenario": scenario(args, spec), "iperf3": compared });
        out.json(&format)?;
        return Ok(ExitCode::Done);
    }
    let mut table = Table::new(&[
        "pair",
        "linerate Mbit/s",
        "iperf3 Mbit/s",
        "linerate CPU s/Gbit",
        "iperf3 CPU s/Gbit",
    ]);
    for (number, pair) in (1..).zip(&compared.pairs) {
        table.row([
            u32::to_string(&number),
            format!("{:.0}", pair.ours.goodput.mbps()),
            format!("{:.0}", pair.theirs.goodput.mbps()),
            format!("{:.3}", pair.ours.cpu_per_gigabit),
            format!("{:.3}", pair.theirs.cpu_per_gigabit),
        ]);
    }
    let mut lines = out.table(&table);
    lines.push(format!(
        "against {}{}, median of {} pairs: {:.2} times its goodput at {:.2} times its CPU per gigabit",
        compared.version,
        if compared.processes > 1 {
            format!(" in {} processes", compared.processes)
        } else {
            String::new()
        },
        compared.pairs.len(),
        compared.goodput_ratio,
        compared.cpu_ratio
    ));
    lines.push(out.dim("CPU: the whole machine, generator and router, all that was not idle"));
    out.tell(lines.join("\n"))?;
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Benched<'a> {
    format: &'static str,
    version: u32,
    class: EvidenceClass,
    origin: Origin,
    candidate: &'a str,
    scenario: Scenario,
    lab: &'a Built,
    runs: &'a [Measurement],
    #[serde(flatten)]
    beside: &'a Seen,
}

/// The lab that was built.
#[derive(serde::Serialize)]
struct Built {
    shape: String,
    rules: u32,
    /// Asked for, and counted back before the load.
    flows: u32,
    tracked: Option<u64>,
    /// Largest IP packet from end to end.
    path_mtu: u32,
}

impl Built {
    fn line(&self) -> String {
        let mut parts = vec![self.shape.clone()];
        if self.rules > 0 {
            parts.push(format!("{} filter rules", self.rules));
        }
        if let Some(tracked) = self.tracked {
            parts.push(format!("{tracked} connections tracked"));
        }
        parts.push(format!("packets up to {} bytes", self.path_mtu));
        parts.join(", ")
    }
}

/// The figures of all runs, why some are refused, and what they are evidence of.
fn text(
    context: &Context,
    line: &str,
    title: &str,
    class: EvidenceClass,
    runs: &[Measurement],
) -> String {
    let out = &context.out;
    let mut lines = vec![out.bold(format_args!("router: {title}")), out.dim(line)];
    lines.extend(runs_lines(out, runs));
    lines.push(out.dim(format_args!("evidence: {}", class.meaning())));
    lines.join("\n")
}

/// Shares of each CPU, or on many CPUs of the busiest and what the others have on the average.
fn softirq(cpus: &[CpuUse]) -> String {
    const EACH: usize = 8;
    const BUSIEST: usize = 3;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    if cpus.len() <= EACH {
        return cpus.iter().map(|c| percent(c.softirq)).collect::<Vec<_>>().join(" ");
    }
    let mut sorted: Vec<&CpuUse> = cpus.iter().collect();
    sorted.order_by(|a, b| b.softirq.total_cmp(&a.softirq));
    let (busiest, others) = sorted.split_at(BUSIEST.min(sorted.len()));
    let mut told: Vec<String> =
        busiest.iter().map(|c| format!("{} {}", c.cpu, percent(c.softirq))).collect();
    let mean = others.iter().map(|c| c.softirq).sum::<f64>() / others.len().max(1) as f64;
    told.push(format!("{} others {}", others.len(), percent(mean)));
    told.join(", ")
}

/// A row for each run, why it is refused, and what one must know.
pub(super) fn runs_lines(out: &Output, runs: &[Measurement]) -> Vec<String> {
    let mut table = Table::new(&[
        "direction",
        "Mbit/s down",
        "Mbit/s up",
        "packet bytes",
        "again/lost",
        "softirq per CPU",
    ]);
    for run in runs {
        let rate = |direction| {
            let flow = run.flows.iter().find(|f| f.direction == direction);
            flow.map_or_else(|| "-".into(), |f| format!("{:.0}", f.goodput.mbps()))
        };
        let again = run.flows.iter().map(|f| match (f.lost, f.received, f.retransmits) {
            (Some(lost), Some(received), _) => format!("{lost} of {}", lost + received),
            (_, _, Some(again)) => again.to_string(),
            _ => "?".into(),
        });
        table.row([
            run.direction.to_string(),
            rate(Direction::Down),
            rate(Direction::Up),
            if run.packet_bytes > 0.0 { format!("{:.0}", run.packet_bytes) } else { "?".into() },
            again.collect::<Vec<_>>().join(" + "),
            softirq(&run.cpus),
        ]);
    }
    let mut lines = out.table(&table);
    for run in runs {
        if let Some(precision) = run.precision.filter(|_| run.is_valid()) {
            let wanted = precision.seconds_for_1_percent.max(1.0);
            let known = match precision.half_width {
                // More than a wild guess needs no decimals.
                half if half > 0.5 => "too short to tell its precision".to_owned(),
                half => format!("± {:.1} % within this run (95 %)", half * 100.0),
            };
            lines.push(out.dim(format_args!(
                "{}: {:.0} Mbit/s {known}; ± 1 % takes about {wanted:.0} s",
                run.direction,
                run.rate().mbps(),
            )));
        }
        for refusal in &run.refusals {
            // Most reasons begin with the direction themselves.
            let why = refusal.why.trim_start_matches(&format!("{}: ", run.direction));
            lines.push(out.warn(format_args!("refused: {}: {why}", run.direction)));
        }
    }
    let kind = |note: &str| note.split(|c: char| c.is_ascii_digit()).next().map(str::to_owned);
    let mut told = Vec::new();
    for note in runs.iter().flat_map(|r| &r.notes) {
        // The same with other numbers says nothing new.
        if !told.contains(&kind(note)) {
            told.push(kind(note));
            lines.push(out.dim(format_args!("note: {note}")));
        }
    }
    lines
}

/// Round trips, and what was left of the CPUs.
fn beside_lines(context: &Context, seen: &Seen) -> Vec<String> {
    let out = &context.out;
    let mut lines = Vec::new();
    if !seen.latency.is_empty() {
        let mut table = Table::new(&["round trip, ms", "p50", "p99", "p99.9", "probes", "lost"]);
        let time = |seconds: Option<f64>, q: f64, of: &Latency| match seconds {
            Some(seconds) => format!("{:.3}", seconds * 1e3),
            None if of.probes < Histogram::needed(q) => "-".into(),
            None => "lost".into(),
        };
        let row = |name: String, l: &Latency| {
            let times = [(l.p50, 0.5), (l.p99, 0.99), (l.p999, 0.999)]
                .map(|(seconds, q)| time(seconds, q, l));
            let [p50, p99, p999] = times;
            [name, p50, p99, p999, l.probes.to_string(), l.lost.to_string()]
        };
        let mut told = Vec::new();
        for one in &seen.latency {
            table.row(row(format!("idle, before {}", one.direction), &one.idle));
            table.row(row(format!("loaded, {}", one.direction), &one.loaded));
            let increase = one.increase.map(|s| format!("{:+.3} ms by the load", s * 1e3));
            let often =
                one.per_minute.map(|often| format!("{often:.0} round trips per minute under it"));
            let parts: Vec<String> = increase.into_iter().chain(often).collect();
            if !parts.is_empty() {
                told.push(format!("{}: {}", one.direction, parts.join(", ")));
            }
            if one.loaded.rate < 0.95 * one.asked {
                told.push(context.out.warn(format_args!(
                    "{}: {:.0} probes a second instead of {:.0}: the probing program had to wait for a \
                     CPU, so long waits may be missing",
                    one.direction, one.loaded.rate, one.asked
                )));
            }
        }
        let few =
            seen.latency.iter().flat_map(|one| [&one.idle, &one.loaded]).any(|l| l.p999.is_none());
        if few {
            told.push(context.out.dim(format_args!(
                "a quantile needs ten probes beyond it: p99 1000, p99.9 10000 (--seconds 50)"
            )));
        }
        lines.extend(out.table(&table));
        lines.extend(told);
    }
    if !seen.headroom.is_empty() {
        let mut table = Table::new(&["left for other work", "idle CPUs", "per CPU"]);
        for one in &seen.headroom {
            let cpus = one.cpus.iter().map(|c| {
                let half = c.half.map(|h| format!(" ± {:.0}", h * 100.0)).unwrap_or_default();
                format!("{} {:.0}{half} %", c.cpu, c.share * 100.0)
            });
            let cpus = cpus.collect::<Vec<_>>().join(", ");
            table.row([format!("beside {}", one.direction), format!("{:.2}", one.idle_cpus), cpus]);
        }
        lines.extend(out.table(&table));
        if seen.headroom.iter().any(|one| one.disturbed) {
            lines.push(out.warn(
                "refused: the machine was busy with something else while it was calibrated; try \
                 again on a quiet one",
            ));
        }
        lines.push(out.dim(
            "work of an idle-priority thread as a share of what it did just before, without the \
             load, ± the 95 % interval by tenths of a second; the CPU shares above count that \
             thread too",
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::store::measured::{Measured, from_json};

    /// Runs as they were recorded, on so many CPUs and with all that may be said of one.
    fn recorded(cpus: usize) -> Vec<Measurement> {
        let record = include_bytes!("../../../fixtures/experiments/lab-2cpu-nat300.json");
        let Ok(Measured::Experiment(experiment)) = from_json(record, "recorded") else { panic!() };
        let mut runs: Vec<Measurement> =
            experiment.cells.into_iter().take(3).map(|cell| cell.measurement).collect();
        for run in &mut runs {
            let cpu = run.cpus[0].clone();
            run.cpus = vec![cpu; cpus];
        }
        let why =
            "down: CPU0 ran at 600 of 1500 MHz for 3.1 of 10 s, which is no figure of this router";
        runs[1].refusals = vec![crate::model::measurement::Refusal {
            code: crate::model::measurement::RefusalCode::Throttled,
            why: why.into(),
        }];
        runs
    }

    #[test]
    fn the_text_of_a_measurement_fits_the_terminal_on_two_cpus_and_on_many() {
        for cpus in [2, 16, 96] {
            let runs = recorded(cpus);
            for width in [60, 80, 200] {
                let out = Output::of_width(width);
                let text = out.text().folded(&runs_lines(&out, &runs).join("\n"));
                let long = text.lines().find(|line| line.chars().count() > width);
                assert_eq!(long, None, "{cpus} CPUs at {width}:\n{text}");
                assert!(text.contains("Mbit/s down") && text.contains("refused: "), "{text}");
                assert!(text.lines().count() < 60, "{cpus} CPUs at {width}:\n{text}");
            }
        }
    }
}
