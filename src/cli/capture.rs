//! `linerate capture`: this machine in one file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::CaptureArgs;
use super::context::Context;
use crate::apply::inventory::inventory;
use crate::capture::{Capture, Summary};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::clock;
use crate::{discover, store};

/// Runs the command.
pub(super) fn run(context: &Context, args: &CaptureArgs) -> Result<ExitCode> {
    let host = context.live("capture this machine")?;
    let out = &context.out;
    let mut capture = Capture::take(host, |door| {
        let snapshot = discover::snapshot(door);
        // What `check` reads beside.
        drop(discover::condition(door, &snapshot));
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
    store::write_file("capture", &args.output, &packed)?;
    if out.json {
        out.json(&Told {
            format: "linerate-capture-summary",
            version: 1,
            file: &args.output,
            bytes: packed.len(),
            summary,
        })?;
    } else {
        out.data(told(&args.output, packed.len(), &summary))?;
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
