//! `linerate report`: a result file as HTML, Markdown or text. The analysis is made anew from the
//! record.

use std::path::Path;

use super::args::{ReportArgs, ReportFormat};
use super::context::Context;
use crate::error::Result;
use crate::exit_code::ExitCode;
use crate::experiment::{Analysis, analyse, refuse_starved};
use crate::model::measurement::Experiment;
use crate::{report, store};

/// Runs the command.
pub(super) fn run(context: &Context, args: &ReportArgs) -> Result<ExitCode> {
    let mut experiment = store::result::read(&args.result)?;
    refuse_starved(&mut experiment);
    let analysis = analyse(&experiment);
    if context.out.json {
        context.out.json(&analysis)?;
        return Ok(code(&analysis));
    }
    let format = args.format.unwrap_or_else(|| by_name(&args.output));
    let text = render(format, &experiment, &analysis);
    if args.output == Path::new("-") {
        context.out.data(text)?;
    } else {
        store::write_file("report", &args.output, text.as_bytes())?;
        context.out.say(format_args!("written to {}", args.output.display()));
    }
    Ok(code(&analysis))
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
