//! `linerate compare`: the figures of two files side by side.

use std::path::PathBuf;

use clap::Args;

use super::context::Context;
use super::shared::figures;
use super::shared::files::Force;
use super::shared::rendered::deliver;
use crate::decide::experiment::compared::{Comparison, differences};
use crate::error::{Error, ExitCode, Result};
use crate::report;

/// `compare`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate compare before.json after.json
  linerate compare before.json after.json -o compared.svg")]
pub struct CompareArgs {
    /// The record to compare with: a file of tune, sweep or bench --json
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The record that is compared
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// File to write: a drawing (.svg), a page (.html), Markdown (.md), else text
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
    /// Also if they are not of one kind: other scenario, other class of evidence
    #[arg(long)]
    pub anyway: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &CompareArgs) -> Result<ExitCode> {
    let out = &context.out;
    let (a, b) = (figures::read(&args.a)?, figures::read(&args.b)?);
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
    let document = report::compare::document(&comparison);
    args.output.iter().try_for_each(|path| args.force.check(path))?;
    if let Some(path) = &args.output {
        deliver(out, &document, "comparison", path, None)?;
    }
    if out.json {
        out.json(&comparison)?;
    } else if args.output.is_none() {
        out.document(&document)?;
    }
    Ok(ExitCode::Done)
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "no figure that stands".to_owned() } else { names.join(", ") }
}
