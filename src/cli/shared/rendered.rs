//! Documents, printed or written in the form that was asked for.

use std::path::Path;

use clap::ValueEnum;

use crate::cli::output::Output;
use crate::decide::experiment::Analysis;
use crate::error::{ExitCode, Result};
use crate::machine::store;
use crate::report::document::Document;
use crate::report::render::{Form, Render};

/// Kinds of report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One self-contained page
    Html,
    /// Markdown
    Markdown,
    /// Plain text
    Text,
}

impl ReportFormat {
    fn form(self) -> Form {
        match self {
            Self::Html => Form::Html,
            Self::Markdown => Form::Markdown,
            Self::Text => Form::Text,
        }
    }
}

/// Prints a document, or writes it to a file: in the form of `format`, else in the one that the
/// file's name asks for.
pub(in crate::cli) fn deliver(
    out: &Output,
    document: &Document,
    what: &str,
    path: &Path,
    format: Option<ReportFormat>,
) -> Result<()> {
    let form = format.map_or_else(|| Form::by_name(path), ReportFormat::form);
    if path != Path::new("-") {
        store::write_file(what, path, form.render(document).as_bytes())?;
        out.say(format_args!("written to {}", path.display()));
        return Ok(());
    }
    match form {
        Form::Text => out.document(document),
        form => out.data(form.render(document)),
    }
}

/// An experiment of which nothing can be said was refused.
pub(in crate::cli) fn code(analysis: &Analysis) -> ExitCode {
    if analysis.refused.is_some() { ExitCode::Refused } else { ExitCode::Done }
}
