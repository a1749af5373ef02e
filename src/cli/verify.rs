//! `linerate verify`: is a plan in force, setting by setting.

use super::args::VerifyArgs;
use super::context::Context;
use super::persist::chosen;
use super::table::Table;
use crate::apply::pending::{Patience, split};
use crate::discover;
use crate::error::Result;
use crate::exit_code::ExitCode;
use crate::store;
use crate::verify::{self, Report, State};

/// Runs the command.
pub(super) fn run(context: &Context, args: &VerifyArgs) -> Result<ExitCode> {
    let host = context.reader();
    let out = &context.out;
    let (path, persisted) = chosen(args.plan.as_deref());
    let plan = store::plan::read(&path)?;
    let snapshot = discover::snapshot(host);
    let patience = if args.pending || persisted { Patience::All } else { Patience::ByPlan };
    let (now, waiting) = split(host, &plan, &snapshot, patience);
    let report = verify::verify(host, &snapshot, &now.candidate).with_pending(waiting);
    if out.json {
        out.json(&Verified { format: "linerate-verify", version: 1, report: &report })?;
    } else {
        out.data(text(context, &report))?;
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

fn text(context: &Context, report: &Report) -> String {
    let out = &context.out;
    let mut table = Table::new(&["setting", "wanted", "is", "state"]);
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
        table.row([
            check.knob.to_string(),
            check.wanted.to_string(),
            check.actual.as_ref().map_or_else(|| "?".into(), ToString::to_string),
            state,
        ]);
    }
    let mut lines = table.lines();
    if let Some(first) = lines.first_mut() {
        *first = out.bold(&*first);
    }
    for (line, check) in lines.iter_mut().skip(1).zip(&report.checks) {
        if check.state != State::InForce {
            *line = out.warn(&*line);
        }
    }
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
