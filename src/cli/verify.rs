//! `linerate verify`: is a plan in force, setting by setting.

use super::args::VerifyArgs;
use super::context::Context;
use super::table::Table;
use crate::discover;
use crate::error::Result;
use crate::exit_code::ExitCode;
use crate::store;
use crate::verify::{self, Report, State};

/// Runs the command.
pub(super) fn run(context: &Context, args: &VerifyArgs) -> Result<ExitCode> {
    let host = context.reader();
    let out = &context.out;
    let plan = store::plan::read(&args.plan)?;
    let snapshot = discover::snapshot(host);
    let report = verify::verify(host, &snapshot, &plan.candidate);
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
    let drifted = report.drifted().count();
    lines.push(if drifted == 0 {
        out.good(format_args!("all {} settings are in force", report.checks.len()))
    } else {
        out.warn(format_args!("{drifted} of {} settings are not in force", report.checks.len()))
    });
    lines.join("\n")
}
