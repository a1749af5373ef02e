//! `linerate capture`: this machine in one file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::context::Context;
use super::shared::files::Force;
use super::shared::seconds;
use crate::change::apply::inventory::inventory;
use crate::error::{Error, ExitCode, Result};
use crate::machine::capture::{Capture, Summary};
use crate::machine::host::clock;
use crate::{machine::discover, machine::store};

/// `capture`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate capture                    # writes linerate-capture.tar.gz
  linerate capture --review           # prints what is in it, addresses replaced
  linerate capture -o router.tar.gz --samples 10 --interval 500ms")]
pub struct CaptureArgs {
    /// File to write [default: linerate-capture.tar.gz, with the time of day where that is there already]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
    /// Number of readings of the counters
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub samples: u32,
    /// Seconds between two readings
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = seconds)]
    pub interval: f64,
    /// Also print what the capture has of each file, to be looked at before it is given away
    #[arg(long)]
    pub review: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &CaptureArgs) -> Result<ExitCode> {
    let host = context.live("capture this machine")?;
    let out = &context.out;
    let output = args.output.clone().unwrap_or_else(|| args.force.usual("linerate-capture.tar.gz"));
    args.force.check(&output)?;
    let mut capture = Capture::take(host, |door| {
        let snapshot = discover::snapshot(door);
        // What `check` reads beside.
        drop(discover::condition(door, &snapshot));
        drop(discover::losses(door, &snapshot));
        // Reads what discovery does not: limits and sysctls.
        drop(inventory(door, &snapshot));
    });
    for sample in 0..args.samples {
        if sample > 0 {
            out.progress(format_args!("counters {sample} of {}", args.samples));
            clock::sleep(Duration::from_secs_f64(args.interval));
        }
        capture.sample(host);
    }
    out.progress_done();
    let mut redactor = capture.redactor();
    let packed = capture.pack(&mut redactor);
    let (packed, summary) = packed.map_err(|e| Error::usage("pack the capture", e))?;
    store::write_private("capture", &output, &packed)?;
    let kept = if args.review { capture.kept(&mut redactor) } else { BTreeMap::new() };
    if out.json {
        out.json(&Told {
            format: "linerate-capture-summary",
            version: 1,
            file: &output,
            bytes: packed.len(),
            summary,
            kept,
        })?;
    } else {
        for (path, text) in &kept {
            let lines = text.trim_end().lines().map(|line| format!("    {line}"));
            let lines = lines.collect::<Vec<_>>().join("\n");
            out.data(format_args!("{}\n{lines}", out.bold(path)))?;
        }
        out.tell(told(&output, packed.len(), &summary))?;
    }
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Told<'a> {
    format: &'static str,
    version: u32,
    file: &'a PathBuf,
    bytes: usize,
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    kept: BTreeMap<String, String>,
}

fn told(file: &Path, bytes: usize, summary: &Summary) -> String {
    let Summary { files, answers, samples, absent, denied, failed, redacted } = summary;
    let mut text = format!(
        "{}: {} KiB: {files} files, {answers} netlink answers, {samples} samples of counters\n\
         not there: {absent}; not permitted: {denied}; failed: {failed} (recorded as such)\n\
         {redacted} addresses, names and secrets replaced by stand-ins\n",
        file.display(),
        bytes.div_ceil(1024),
    );
    if *denied > 0 {
        text.push_str("run it as root to capture what is not permitted\n");
    }
    text.push_str(&format!("look at it: linerate show --host {}", file.display()));
    text
}
