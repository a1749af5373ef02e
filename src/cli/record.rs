//! `linerate record`: what the router does, interval after interval, until Ctrl-C.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::context::Context;
use super::interrupt;
use super::shared::watching::{Extent, Watcher};
use super::shared::{interval, seconds};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::store::{self, json};
use crate::model::telemetry::Interval;
use crate::report::csv;

/// Longest wait before the stop flag is looked at again.
const SLICE: Duration = Duration::from_millis(200);

/// `record`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate record                     # to the screen, until Ctrl-C
  linerate record -o router.csv --seconds 10m --device eth0
  linerate record -o router.jsonl --interval 500ms")]
pub struct RecordArgs {
    /// File to write; stdout without it. An existing file is never overwritten
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Form of the lines; CSV unless the file's name ends in .jsonl or --json is given
    #[arg(long, value_name = "FORM")]
    pub format: Option<RecordFormat>,
    /// Seconds between two readings, 0.1 to 10
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = interval)]
    pub interval: f64,
    /// End after this long; without it Ctrl-C does
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Only this device; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
}

/// Forms of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    /// A table with a header, for spreadsheets
    Csv,
    /// One JSON object per line
    Jsonl,
}

impl RecordFormat {
    /// As the file's name says.
    #[must_use]
    pub fn of(file: Option<&std::path::Path>) -> Self {
        let extension = file.and_then(|path| path.extension());
        if extension.is_some_and(|e| e == "jsonl" || e == "ndjson") {
            Self::Jsonl
        } else {
            Self::Csv
        }
    }
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &RecordArgs) -> Result<ExitCode> {
    let stop = interrupt::stop_flag()?;
    let format = match args.format {
        Some(RecordFormat::Csv) if context.out.json => {
            return Err(Error::usage("record --format csv --json", "a table is no JSON")
                .hint("leave one of them out"));
        }
        Some(format) => format,
        None if context.out.json => RecordFormat::Jsonl,
        None => RecordFormat::of(args.output.as_deref()),
    };
    let extent = match format {
        RecordFormat::Csv => Extent::Rates,
        RecordFormat::Jsonl => Extent::Standing,
    };
    let mut watcher = Watcher::start(context, "record", &args.device, extent)?;
    let (began, own) = (clock::monotonic(), clock::own_cpu());
    let mut file = match &args.output {
        Some(path) => Some(store::Lines::create("recording", path)?),
        None => None,
    };
    let mut put = |line: String| match &mut file {
        Some(file) => file.put(&line),
        None => context.out.data(line),
    };
    let step = Duration::from_secs_f64(args.interval);
    let end = args.seconds.map(|seconds| began + Duration::from_secs_f64(seconds));
    let (mut written, mut late, mut due) = (0_u64, 0_u64, began + step);
    loop {
        let over = |at: Duration| end.is_some_and(|end| at >= end);
        if !clock::wait_until(end.map_or(due, |end| due.min(end)), SLICE, &stop) {
            break;
        }
        let interval = watcher.advance()?;
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
    json::line(&Head {
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

fn line(interval: &Interval, format: RecordFormat) -> Result<String> {
    match format {
        RecordFormat::Csv => Ok(csv::row(interval)),
        RecordFormat::Jsonl => json::line(interval).map_err(not_json),
    }
}
