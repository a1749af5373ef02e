//! `linerate compare`: the figures of two files side by side, or those of many machines.

mod fleet;

use std::path::{Path, PathBuf};

use clap::Args;

use super::context::Context;
use super::shared::figures;
use super::shared::files::Force;
use super::shared::rendered::deliver;
use crate::decide::experiment::compared::{Comparison, differences};
use crate::error::{Error, ExitCode, Result};
use crate::report;
use crate::report::document::Document;

/// `compare`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate compare before.json after.json
  linerate compare before.json after.json -o compared.svg
  linerate compare --fleet records -o fleet.html")]
pub struct CompareArgs {
    /// The record to compare with: a file of tune, sweep or bench --json
    #[arg(value_name = "A", required_unless_present = "fleet")]
    pub a: Option<PathBuf>,
    /// The record that is compared
    #[arg(value_name = "B", required_unless_present = "fleet")]
    pub b: Option<PathBuf>,
    /// Many machines instead of two records: a directory with records and captures of them, in
    /// directories below it too
    #[arg(long, value_name = "DIR", conflicts_with_all = ["a", "b", "anyway"])]
    pub fleet: Option<PathBuf>,
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
    args.output.iter().try_for_each(|path| args.force.check(path))?;
    match (&args.fleet, &args.a, &args.b) {
        (Some(directory), _, _) => {
            let fleet = fleet::read(directory)?;
            tell(context, args, "fleet report", &report::fleet::document(&fleet), &fleet)
        }
        (None, Some(a), Some(b)) => two(context, args, a, b),
        _ => Err(Error::usage("compare", "there is nothing to compare")
            .hint("compare A B, or compare --fleet DIR")),
    }
}

/// Two records.
fn two(context: &Context, args: &CompareArgs, a: &Path, b: &Path) -> Result<ExitCode> {
    let what = || format!("compare {} with {}", b.display(), a.display());
    let (a, b) = (figures::read(a)?, figures::read(b)?);
    let differ = differences(&a, &b);
    if !differ.is_empty() && !args.anyway {
        return Err(Error::usage(what(), format!("not of one kind: {}", differ.join("; ")))
            .hint("measure both in the same way; --anyway sets them side by side nevertheless"));
    }
    let comparison = Comparison::of(&a, &b, differ);
    if comparison.rows.is_empty() {
        let why = "no figure of one is in the other";
        return Err(Error::new(ExitCode::Refused, what(), why).hint(format!(
            "the first has {}; the second {}",
            list(&comparison.only_a),
            list(&comparison.only_b)
        )));
    }
    tell(context, args, "comparison", &report::compare::document(&comparison), &comparison)
}

/// Writes, and prints what was not written.
fn tell(
    context: &Context,
    args: &CompareArgs,
    what: &str,
    document: &Document,
    json: &impl serde::Serialize,
) -> Result<ExitCode> {
    let out = &context.out;
    if let Some(path) = &args.output {
        deliver(out, document, what, path, None)?;
    }
    if out.json {
        out.json(json)?;
    } else if args.output.is_none() {
        out.document(document)?;
    }
    Ok(ExitCode::Done)
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "no figure that stands".to_owned() } else { names.join(", ") }
}
