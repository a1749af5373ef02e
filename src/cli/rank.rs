//! `linerate rank`: own WireGuard figures among the known ones.

use std::path::PathBuf;

use clap::Args;

use super::context::Context;
use super::shared::files::Force;
use super::shared::rendered::deliver;
use crate::decide::rank::{self, Standing};
use crate::error::{ExitCode, Result};
use crate::machine::store;
use crate::report::rank as report;

/// `rank`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate bench wireguard --board -o wireguard.json
  linerate rank wireguard.json")]
pub struct RankArgs {
    /// Results of `bench wireguard --board -o FILE`
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// File to write: a drawing (.svg), a page (.html), Markdown (.md), else text
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &RankArgs) -> Result<ExitCode> {
    let out = &context.out;
    args.output.iter().try_for_each(|path| args.force.check(path))?;
    let mut standings: Vec<Standing> = Vec::new();
    for file in &args.files {
        let result = store::board::read(file)?;
        for refusal in &result.comparable.refusals {
            out.say(format_args!("{}: refused: {}", file.display(), refusal.why));
        }
        standings.push(rank::standing(&result));
    }
    let document = report::document(&standings, &rank::known());
    if let Some(path) = &args.output {
        deliver(out, &document, "ranking", path, None)?;
    }
    if out.json {
        out.json(&serde_json::json!({
            "format": "linerate-rank", "version": 1,
            "source": report::SOURCE, "results": standings,
        }))?;
    } else if args.output.is_none() {
        out.document(&document)?;
    }
    Ok(ExitCode::Done)
}
