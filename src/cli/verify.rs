//! `linerate verify`: is a plan in force, setting by setting.

use std::path::PathBuf;

use clap::Args;

use super::context::Context;
use super::shared::persisted::chosen;
use super::shared::waiting::in_one_unit;
use crate::change::apply;
use crate::change::apply::pending::{Patience, split};
use crate::change::persist;
use crate::change::verify::{self, Check, Report, State};
use crate::error::{ExitCode, Result};
use crate::machine::discover;
use crate::machine::store;
use crate::machine::store::disk::Root;
use crate::model::cpuset::CpuSet;
use crate::model::knob::Value;
use crate::report::document::Table;

/// `verify`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate verify                     # of plan.toml, or of what is persisted
  linerate verify plan.toml --json    # exit code 3: not all in force")]
pub struct VerifyArgs {
    /// The plan file [default: plan.toml, or else what is persisted]
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Call the settings of any device that is not here pending, not drifted
    #[arg(long)]
    pub pending: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &VerifyArgs) -> Result<ExitCode> {
    let host = context.seen()?;
    let out = &context.out;
    let (path, persisted) = chosen(args.plan.as_deref());
    let plan = store::plan::read(&path)?;
    // The same plan by another name is as patient.
    let kept = persist::event::plan(&Root::of_environment()).ok().flatten();
    let persisted = persisted || kept.is_some_and(|kept| kept == plan);
    let snapshot = discover::snapshot(host);
    let patience = if args.pending || persisted { Patience::All } else { Patience::ByPlan };
    let (now, waiting) = split(host, &plan, &snapshot, patience);
    // Of this machine alone; who may not read the journals learns less.
    let journals = match context.live("verify") {
        Ok(live) => apply::status(live, &store::state_dir()).ok(),
        Err(_) => None,
    };
    let told = journals.as_deref().unwrap_or_default();
    let report = verify::verify_with(host, &snapshot, &now.candidate, told).with_pending(waiting);
    if out.json {
        out.json(&Verified { format: "linerate-verify", version: 1, report: &report })?;
    } else if !(out.is_quiet() && report.in_force()) {
        out.tell(text(context, &report, journals.is_some()))?;
    }
    Ok(if report.in_force() { ExitCode::Done } else { ExitCode::Drift })
}

#[derive(serde::Serialize)]
struct Verified<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    report: &'a Report,
}

/// When linerate last set it.
fn since(check: &Check, journals_known: bool) -> String {
    match &check.since {
        Some(since) => format!("{} ago", in_one_unit(since.seconds_ago)),
        None if journals_known && check.state == State::InForce => "not by linerate".into(),
        None => "unknown".into(),
    }
}

/// Names who changed what drifted, or says that it is unknown.
fn changed_by(check: &Check) -> String {
    let who: Vec<String> = check
        .suspects
        .iter()
        .map(|s| match s.certain {
            true => format!("{} ({})", s.who, s.evidence),
            false => format!("perhaps {} ({})", s.who, s.evidence),
        })
        .collect();
    let who = if who.is_empty() { "unknown".to_owned() } else { who.join("; ") };
    format!("{}: changed by: {who}", check.knob)
}

fn text(context: &Context, report: &Report, journals_known: bool) -> String {
    let out = &context.out;
    let mut table = Table::new(&["setting", "wanted", "is", "effective", "state", "set"]);
    for check in &report.checks {
        let state = match &check.state {
            State::InForce if check.not_moved_yet() => {
                "in force, moves with its next interrupt".to_owned()
            }
            State::InForce => "in force".into(),
            State::Drifted => "drifted".into(),
            State::Pending(why) => format!("pending: {why}"),
            State::Absent(why) => format!("absent: {why}"),
            State::Unreadable(why) => format!("unreadable: {why}"),
        };
        let effective = |cpus: &CpuSet| Value::Cpus(cpus.clone()).to_string();
        table.row([
            check.knob.to_string(),
            check.wanted.to_string(),
            check.actual.as_ref().map_or_else(|| "?".into(), ToString::to_string),
            // Only interrupts have it.
            check.effective.as_ref().map_or_else(|| "-".into(), effective),
            state,
            since(check, journals_known),
        ]);
    }
    if !report.checks.is_empty() {
        table.drop_empty();
    }
    let (mut lines, rows) = out.text().rows(&table);
    for (row, check) in rows.into_iter().zip(&report.checks) {
        let is_well = check.state == State::InForce;
        lines.extend(row.into_iter().map(|line| if is_well { line } else { out.warn(line) }));
    }
    lines.extend(report.drifted().filter(|c| c.state == State::Drifted).map(changed_by));
    let (drifted, waiting) = (report.drifted().count(), report.pending().count());
    let here = report.checks.len() - waiting;
    lines.push(if drifted > 0 {
        out.warn(format_args!("{drifted} of {here} settings are not in force"))
    } else {
        out.good(format_args!("all {here} settings are in force"))
    });
    if waiting > 0 {
        lines.push(format!("{waiting} are pending: they wait for their device"));
    }
    lines.join("\n")
}
