//! `linerate report`: a result file or the record of a sweep as HTML, Markdown or text. The analysis
//! is made anew from the record.

use std::path::Path;

use super::args::{ReportArgs, ReportFormat};
use super::context::Context;
use super::sweep::text;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::experiment::{Analysis, analyse, refuse_starved};
use crate::model::measurement::Experiment;
use crate::model::sweep::{Sweep, SweepPoint};
use crate::store::measured::{self, Measured, SweepDocument};
use crate::{report, store};

/// Runs the command.
pub(super) fn run(context: &Context, args: &ReportArgs) -> Result<ExitCode> {
    let format = args.format.unwrap_or_else(|| by_name(&args.output));
    let mut experiment = match measured::read(&args.result)? {
        Measured::Experiment(experiment) => *experiment,
        Measured::Sweep(sweep) => {
            if context.out.json {
                context.out.json(&SweepDocument::of(&sweep))?;
            } else {
                write(context, args, &of_sweep(context, format, &sweep))?;
            }
            let stands = sweep.runs().any(SweepPoint::is_valid);
            return Ok(if stands { ExitCode::Done } else { ExitCode::Refused });
        }
        Measured::Bench(_) => {
            let what = format!("report on {}", args.result.display());
            return Err(Error::usage(what, "one run of bench is no experiment")
                .hint("set it beside another: linerate compare A B"));
        }
    };
    refuse_starved(&mut experiment);
    let analysis = analyse(&experiment);
    if context.out.json {
        context.out.json(&analysis)?;
        return Ok(code(&analysis));
    }
    write(context, args, &render(format, &experiment, &analysis))?;
    Ok(code(&analysis))
}

fn of_sweep(context: &Context, format: ReportFormat, sweep: &Sweep) -> String {
    match format {
        ReportFormat::Html => report::html::sweep::page(sweep),
        ReportFormat::Markdown => report::sweep::markdown(sweep),
        ReportFormat::Text => text::render(&context.out, sweep) + "\n",
    }
}

fn write(context: &Context, args: &ReportArgs, text: &str) -> Result<()> {
    if args.output == Path::new("-") {
        context.out.data(text)?;
    } else {
        store::write_file("report", &args.output, text.as_bytes())?;
        context.out.say(format_args!("written to {}", args.output.display()));
    }
    Ok(())
}

/// The kind of report that a file name asks for.
pub(super) fn by_name(path: &Path) -> ReportFormat {
    match path.extension().and_then(|e| e.to_str()) {
        Some("html" | "htm") => ReportFormat::Html,
        Some("md" | "markdown") => ReportFormat::Markdown,
        _ => ReportFormat::Text,
    }
}

/// The report of that kind.
pub(super) fn render(format: ReportFormat, experiment: &Experiment, analysis: &Analysis) -> String {
    match format {
        ReportFormat::Html => report::html(experiment, analysis),
        ReportFormat::Markdown => report::markdown(experiment, analysis),
        ReportFormat::Text => report::text(experiment, analysis),
    }
}

/// An experiment of which nothing can be said was refused.
pub(super) fn code(analysis: &Analysis) -> ExitCode {
    if analysis.refused.is_some() { ExitCode::Refused } else { ExitCode::Done }
}
