//! `linerate rank`: own WireGuard figures among the known ones.

use super::args::RankArgs;
use super::context::Context;
use crate::error::Result;
use crate::exit_code::ExitCode;
use crate::rank::{self, Standing};
use crate::report::{html, ranking};
use crate::store;

/// Runs the command.
pub(super) fn run(context: &Context, args: &RankArgs) -> Result<ExitCode> {
    let out = &context.out;
    let mut standings: Vec<Standing> = Vec::new();
    for file in &args.files {
        let result = store::board::read(file)?;
        for refusal in &result.comparable.refusals {
            out.say(format_args!("{}: refused: {}", file.display(), refusal.why));
        }
        standings.push(rank::standing(&result));
    }
    if let Some(path) = &args.output {
        let known = rank::known();
        let text = match path.extension().and_then(|e| e.to_str()) {
            Some("svg") => html::ranking::svg(&standings, &known),
            Some("html" | "htm") => html::ranking::page(&standings, &known),
            _ => ranking::text(&standings),
        };
        store::write_file("ranking", path, text.as_bytes())?;
        out.say(format_args!("written to {}", path.display()));
    }
    if out.json {
        out.json(&serde_json::json!({
            "format": "linerate-rank", "version": 1,
            "source": ranking::SOURCE, "results": standings,
        }))?;
    } else if args.output.is_none() {
        out.data(ranking::text(&standings))?;
    }
    Ok(ExitCode::Done)
}
