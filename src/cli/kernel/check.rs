//! `linerate kernel check`.

use serde::Serialize;

use super::{KernelCheckArgs, Named, of_parts, running};
use crate::cli::context::Context;
use crate::decide::kernel::check::{Report, check};
use crate::error::{ExitCode, Result};
use crate::model::finding::{Finding, Severity};

#[derive(Serialize)]
struct CheckDocument<'a> {
    format: &'static str,
    version: u32,
    configuration: &'a str,
    kernel: Option<&'a str>,
    arch: Option<&'a str>,
    preemption_built: Option<&'a str>,
    preemption_dynamic: bool,
    preemption_in_force: Option<&'a str>,
    findings: &'a [Finding],
    not_judged: &'a [String],
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &KernelCheckArgs) -> Result<ExitCode> {
    let out = &context.out;
    let (named, facts) = if args.files.is_empty() {
        let (named, facts) = running(context)?;
        (named, Some(facts))
    } else {
        (of_parts(&args.files)?, None)
    };
    let report = check(&named.config, &named.place, facts.as_ref());
    if out.json {
        out.json(&CheckDocument {
            format: "linerate-kernel-check",
            version: 1,
            configuration: &named.place,
            kernel: named.config.version.as_deref(),
            arch: named.config.arch.as_deref(),
            preemption_built: report.preemption.built,
            preemption_dynamic: report.preemption.dynamic,
            preemption_in_force: report.preemption.in_force.as_ref().map(|(m, _)| m.as_str()),
            findings: &report.findings,
            not_judged: &report.not_judged,
        })?;
    } else {
        out.tell(text(context, &named, &report))?;
    }
    let grave = report.findings.iter().any(|f| f.severity >= args.fail_on);
    Ok(if grave { ExitCode::Findings } else { ExitCode::Done })
}

fn text(context: &Context, named: &Named, report: &Report) -> String {
    let out = &context.out;
    let unknown = "(not said)";
    let heading = format!(
        "Linux {} {}, {} options from {}",
        named.config.version.as_deref().unwrap_or(unknown),
        named.config.arch.as_deref().unwrap_or(unknown),
        named.config.options.len(),
        named.place
    );
    let mut lines = vec![out.bold(heading), report.preemption.words()];
    let (told, quiet): (Vec<_>, Vec<_>) =
        report.findings.iter().partition(|f| f.severity > Severity::Info || out.is_verbose());
    for (at, finding) in told.iter().enumerate() {
        lines.push(String::new());
        lines.extend(out.text().finding(at + 1, finding));
    }
    lines.push(String::new());
    if told.is_empty() {
        lines.push("nothing in it costs forwarding or WireGuard a share worth naming".to_owned());
    }
    if !quiet.is_empty() {
        let names: Vec<&str> =
            quiet.iter().filter_map(|f| f.title.split_once(' ')).map(|(name, _)| name).collect();
        let names = names.join(", ");
        lines.push(out.dim(format!("good to know (-v says more): {names}")));
    }
    for why in &report.not_judged {
        lines.push(out.dim(format!("not judged: {why}")));
    }
    if !named.config.duplicates.is_empty() {
        let names = named.config.duplicates.join(", ");
        lines.push(out.warn(format!("set more than once, the last counts: {names}")));
    }
    if named.config.cut {
        lines.push(out.warn("the file was cut short: what stood behind is not judged rightly"));
    }
    if named.config.skipped > 0 {
        let skipped = named.config.skipped;
        lines.push(out.dim(format!("{skipped} lines are no option and were passed over")));
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n")
}
