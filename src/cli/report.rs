//! `linerate report`: a result file or the record of a sweep as HTML, Markdown or text. The analysis
//! is made anew from the record.

use std::path::{Path, PathBuf};

use clap::Args;

use super::context::Context;
use super::shared::files::Force;
use super::shared::rendered::{ReportFormat, code, deliver};
use crate::decide::experiment::{Analysis, analyse, refuse_starved};
use crate::error::{Error, ExitCode, Result};
use crate::machine::store::measured::{self, Measured, SweepDocument};
use crate::machine::store::result;
use crate::model::sweep::SweepPoint;
use crate::report;
use crate::report::document::Document;

/// `report`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate report                     # linerate-result.json as text
  linerate report linerate-sweep.json -o report.html")]
pub struct ReportArgs {
    /// The result file of `tune`, or the record of `sweep`
    /// [default: the newest linerate-result*.json here]
    #[arg(value_name = "RESULT")]
    pub result: Option<PathBuf>,
    /// Kind of report [default: by the output's name, else text]
    #[arg(long)]
    pub format: Option<ReportFormat>,
    /// File to write; `-` prints it
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &ReportArgs) -> Result<ExitCode> {
    let newest = || result::newest(Path::new(".")).unwrap_or_else(|| "linerate-result.json".into());
    let result = args.result.clone().unwrap_or_else(newest);
    let mut experiment = match measured::read(&result)? {
        Measured::Experiment(experiment) => *experiment,
        Measured::Sweep(sweep) => {
            if context.out.json {
                context.out.json(&SweepDocument::of(&sweep))?;
            } else {
                write(context, args, &report::sweep::document(&sweep))?;
            }
            let stands = sweep.runs().any(SweepPoint::is_valid);
            return Ok(if stands { ExitCode::Done } else { ExitCode::Refused });
        }
        Measured::Bench(_) => {
            let what = format!("report on {}", result.display());
            return Err(Error::usage(what, "one run of bench is no experiment")
                .hint("set it beside another: linerate compare A B"));
        }
    };
    refuse_starved(&mut experiment);
    let analysis = analyse(&experiment);
    if context.out.json {
        let (format, version) = ("linerate-analysis", 1);
        context.out.json(&Analysed { format, version, analysis: &analysis })?;
        return Ok(code(&analysis));
    }
    write(context, args, &report::tune::document(&experiment, &analysis))?;
    Ok(code(&analysis))
}

/// `report --json`.
#[derive(serde::Serialize)]
struct Analysed<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    analysis: &'a Analysis,
}

fn write(context: &Context, args: &ReportArgs, document: &Document) -> Result<()> {
    args.force.check(&args.output)?;
    deliver(&context.out, document, "report", &args.output, args.format)
}
