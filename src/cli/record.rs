//! `linerate record`: what the router does, interval after interval, until Ctrl-C.

use std::time::Duration;

use super::args::{RecordArgs, RecordFormat};
use super::context::Context;
use super::interrupt;
use crate::discover;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{HostError, clock};
use crate::model::order::InOrder;
use crate::model::snapshot::Snapshot;
use crate::model::telemetry::Interval;
use crate::report::csv;
use crate::sample::{Telemetry, Watch};
use crate::store;

/// How long one wait may last before the stop flag is looked at again.
const SLICE: Duration = Duration::from_millis(200);

/// Runs the command.
pub(super) fn run(context: &Context, args: &RecordArgs) -> Result<ExitCode> {
    let host = context.live("record")?;
    let watch = watch(context, &args.device)?;
    let stop = interrupt::stop_flag()?;
    let format = match args.format {
        Some(format) => format,
        None if context.out.json => RecordFormat::Jsonl,
        None => RecordFormat::of(args.output.as_deref()),
    };
    let mut file = match &args.output {
        Some(path) => Some(store::Lines::create("recording", path)?),
        None => None,
    };
    let mut put = |line: String| match &mut file {
        Some(file) => file.put(&line),
        None => context.out.data(line),
    };
    let unreadable =
        |e: HostError| Error::not_supported(format!("read {}", e.path.display()), e.reason());
    let (began, own) = (clock::monotonic(), clock::own_cpu());
    let mut telemetry = Telemetry::start(host, watch).map_err(unreadable)?;
    let step = Duration::from_secs_f64(args.interval);
    let end = args.seconds.map(|seconds| began + Duration::from_secs_f64(seconds));
    let (mut written, mut late, mut due) = (0_u64, 0_u64, began + step);
    loop {
        let over = |at: Duration| end.is_some_and(|end| at >= end);
        if !clock::wait_until(end.map_or(due, |end| due.min(end)), SLICE, &stop) {
            break;
        }
        let interval = telemetry.advance().map_err(unreadable)?;
        if written == 0 {
            put(match format {
                RecordFormat::Csv => csv::header(&interval),
                RecordFormat::Jsonl => head(args.interval)?,
            })?;
        }
        put(line(&interval, format)?)?;
        written += 1;
        let now = clock::monotonic();
        due += step;
        // A machine too busy to let us in leaves a longer interval, never a burst of short ones.
        while due <= now {
            due += step;
            late += 1;
        }
        if over(now) {
            break;
        }
    }
    let seconds = clock::monotonic().saturating_sub(began).as_secs_f64().max(1e-9);
    let cpu = clock::own_cpu().saturating_sub(own).as_secs_f64() / seconds;
    let missed = if late > 0 { format!(", {late} missed") } else { String::new() };
    context.out.say(format_args!(
        "{written} intervals in {seconds:.0} s{missed}; recording took {:.2} % of one CPU",
        cpu * 100.0
    ));
    Ok(ExitCode::Done)
}

/// The first of the JSON lines: what the others are.
fn head(interval: f64) -> Result<String> {
    #[derive(serde::Serialize)]
    struct Head {
        format: &'static str,
        version: u32,
        program: &'static str,
        command: Vec<String>,
        interval: f64,
    }
    serde_json::to_string(&Head {
        format: "linerate-recording",
        version: 1,
        program: env!("CARGO_PKG_VERSION"),
        command: std::env::args().collect(),
        interval,
    })
    .map_err(not_json)
}

fn not_json(e: serde_json::Error) -> Error {
    Error::usage("write the interval as JSON", e)
}

/// CPUs, devices and network interrupts of this machine, or of the devices asked for.
fn watch(context: &Context, wanted: &[String]) -> Result<Watch> {
    let snapshot = discover::snapshot(context.reader());
    if let Some(missing) = wanted.iter().find(|name| snapshot.netdev(name).is_none()) {
        let there: Vec<&str> = snapshot.netdevs.iter().map(|d| d.name.as_str()).collect();
        return Err(Error::usage(format!("record device {missing}"), "no such device")
            .hint(format!("devices here: {}", there.join(", "))));
    }
    Ok(watched(&snapshot, wanted))
}

/// What to watch of a machine: all of it, or the devices of those names.
pub(super) fn watched(snapshot: &Snapshot, wanted: &[String]) -> Watch {
    let asked = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let devices = snapshot.netdevs.iter().map(|d| d.name.clone()).filter(|name| asked(name));
    let mut irqs: Vec<_> = snapshot
        .irqs
        .iter()
        .filter(|irq| asked(&irq.id.device) || irq.shared_with.iter().any(|name| asked(name)))
        .map(|irq| (irq.line, irq.action.clone()))
        .collect();
    irqs.order_by(Ord::cmp);
    irqs.dedup();
    Watch {
        cpus: snapshot.cpus.iter().map(|cpu| cpu.id).collect(),
        devices: devices.collect(),
        irqs,
    }
}

fn line(interval: &Interval, format: RecordFormat) -> Result<String> {
    match format {
        RecordFormat::Csv => Ok(csv::row(interval)),
        RecordFormat::Jsonl => serde_json::to_string(interval).map_err(not_json),
    }
}
