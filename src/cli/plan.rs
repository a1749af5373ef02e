//! `linerate plan`: what could be changed, from what to what, and why.

use std::path::Path;

use super::args::PlanArgs;
use super::context::Context;
use super::table::Table;
use crate::discover;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::model::plan::{Candidate, Plan};
use crate::model::snapshot::Snapshot;
use crate::plan::{self, Candidates, cost};
use crate::store;

/// Runs the command.
pub(super) fn run(context: &Context, args: &PlanArgs) -> Result<ExitCode> {
    let snapshot = discover::snapshot(context.reader());
    let candidates = plan::candidates(&snapshot);
    let name = args.candidate.as_deref().unwrap_or(candidates.preferred);
    let chosen = find(&candidates, name)?;
    let plan = plan::plan_for(&snapshot, chosen.clone());
    if args.output == Path::new("-") {
        context.out.data(store::plan::to_text(&plan)?)?;
        return Ok(ExitCode::Done);
    }
    store::plan::write(&args.output, &plan)?;
    if context.out.json {
        context.out.json(&Planned {
            format: "linerate-plans",
            version: 1,
            plan: &plan,
            candidates: &candidates.list,
        })?;
    } else {
        context.out.data(text(context, &snapshot, &candidates, chosen, args))?;
    }
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Planned<'a> {
    format: &'static str,
    version: u32,
    plan: &'a Plan,
    candidates: &'a [Candidate],
}

/// The candidate of that name, or an error that names those there are.
pub(super) fn find<'a>(candidates: &'a Candidates, name: &str) -> Result<&'a Candidate> {
    candidates.get(name).ok_or_else(|| {
        let what = format!("find candidate {name:?}");
        match candidates.left_out.iter().find(|(left, _)| *left == name) {
            Some((_, why)) => Error::not_supported(what, format!("left out here: {why}")),
            None => Error::usage(what, "there is no such candidate"),
        }
        .hint(format!(
            "candidates here: {}",
            candidates.list.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
        ))
    })
}

fn text(
    context: &Context,
    snapshot: &Snapshot,
    candidates: &Candidates,
    chosen: &Candidate,
    args: &PlanArgs,
) -> String {
    let out = &context.out;
    let mut table = Table::new(&["", "candidate", "largest load", "on", "writes", "what"]);
    for candidate in &candidates.list {
        let predicted = cost::predict(snapshot, candidate);
        table.row([
            if candidate.name == chosen.name { "→".into() } else { String::new() },
            candidate.name.clone(),
            predicted.as_ref().map_or_else(|| "?".into(), |p| format!("{:.2}", p.largest)),
            predicted.as_ref().map_or_else(|| "?".into(), |p| p.bottleneck.to_string()),
            candidate.changes().count().to_string(),
            candidate.title.clone(),
        ]);
    }
    let mut lines = table.lines();
    if let Some(first) = lines.first_mut() {
        *first = out.bold(&*first);
    }
    for (name, why) in &candidates.left_out {
        lines.push(out.dim(format!("   {name} left out: {why}")));
    }
    lines.push(out.dim(
        "   load: work of the busiest CPU per packet, 1.00 = one NATed packet (a model, not a measurement)",
    ));
    lines.push(String::new());
    lines.push(format!("{}: {}", out.bold(&chosen.name), chosen.reason));
    let mut changes = Table::new(&["setting", "now", "then", "why"]);
    for change in chosen.changes() {
        changes.row([
            change.knob.to_string(),
            change.before.to_string(),
            change.after.to_string(),
            change.reason.clone(),
        ]);
    }
    if chosen.changes().next().is_none() {
        lines.push("nothing to change: the router is set up this way already".into());
    } else {
        lines.extend(changes.lines());
    }
    lines.push(String::new());
    let file = args.output.display();
    lines.push(format!("written to {file}; next: linerate apply {file} (undo: linerate rollback)"));
    lines.join("\n")
}
