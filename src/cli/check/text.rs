//! Findings and rules as text.

use crate::cli::context::Context;
use crate::cli::output::Output;
use crate::cli::table::wrap;
use crate::diagnose::{Diagnosis, Load, rules};
use crate::model::finding::{Finding, Severity};
use crate::model::snapshot::Snapshot;

/// Columns of text behind a label.
const WIDTH: usize = 84;

/// All findings, gravest first, and how many rules could not look.
pub(super) fn render(
    context: &Context,
    snapshot: &Snapshot,
    told: &Diagnosis,
    watched: bool,
) -> String {
    let out = &context.out;
    let mut lines = vec![headline(out, snapshot, told)];
    if snapshot.path.ipv4 == Some(false) && snapshot.path.ipv6 != Some(true) {
        lines.push(out.dim(
            "forwarding is off (net.ipv4.ip_forward = 0): judged as a machine that forwards nothing",
        ));
    }
    for (at, finding) in told.findings.iter().enumerate() {
        lines.push(String::new());
        lines.extend(one(out, at + 1, finding));
    }
    if !told.unseen.is_empty() {
        lines.push(String::new());
        if out.is_verbose() {
            lines.push(out.bold("could not look"));
            for unseen in &told.unseen {
                lines.push(format!("  {:24} {}", unseen.rule, unseen.why));
            }
        } else {
            let count = told.unseen.len();
            let rules = if count == 1 { "1 rule".to_owned() } else { format!("{count} rules") };
            let load = if watched { "" } else { "; --load 10s shows more under traffic" };
            lines.push(out.dim(format!("{rules} could not look (-v says which and why){load}")));
        }
    }
    lines.join("\n")
}

fn headline(out: &Output, snapshot: &Snapshot, told: &Diagnosis) -> String {
    let name = match snapshot.machine.hostname.as_str() {
        "" => "this machine",
        name => name,
    };
    let counts: Vec<String> = Severity::ALL
        .into_iter()
        .rev()
        .filter_map(|severity| {
            let count = told.findings.iter().filter(|f| f.severity == severity).count();
            let word = match (severity, count) {
                (Severity::Warning | Severity::Notice, 2..) => format!("{severity}s"),
                _ => severity.to_string(),
            };
            (count > 0).then(|| format!("{count} {word}"))
        })
        .collect();
    let counts = if counts.is_empty() { "nothing found".to_owned() } else { counts.join(", ") };
    format!("{}: {counts}", out.bold(name))
}

pub(in crate::cli) fn one(out: &Output, number: usize, finding: &Finding) -> Vec<String> {
    let level = finding.severity.name().to_uppercase();
    let level = match finding.severity {
        Severity::Critical | Severity::Warning => out.warn(level),
        _ => out.dim(level),
    };
    let mut lines = vec![format!("{number}. {level} {}", out.bold(&finding.title))];
    let mut put = |label: &str, text: &str, continued: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        for (at, line) in wrap(&words, WIDTH).iter().enumerate() {
            let label = if at == 0 { label } else { "" };
            let indent = if at == 0 { "" } else { continued };
            lines.push(format!("   {label:8} {indent}{line}"));
        }
    };
    for (at, seen) in finding.evidence.iter().enumerate() {
        let label = if at == 0 { "seen" } else { "" };
        put(label, &format!("{} = {}", seen.place, seen.value), "  ");
    }
    put("costs", &finding.consequence, "");
    for (at, step) in finding.remedy.iter().enumerate() {
        put(if at == 0 { "do" } else { "" }, step, "  ");
    }
    let share = match finding.cost {
        cost if cost >= 0.01 => format!(", expected to cost about {:.0} %", cost * 100.0),
        _ => String::new(),
    };
    put(
        "why",
        &format!("{}; {}{share} [{}]", finding.source, finding.confidence, finding.rule),
        "",
    );
    lines
}

/// The rules, for a person.
pub(super) fn list(out: &Output) -> String {
    let mut lines = Vec::new();
    for rule in rules() {
        lines.push(out.bold(rule.id));
        let load = match rule.load {
            Load::Apart => "",
            Load::Better => " (sees more with --load)",
            Load::Needed => " (needs --load)",
        };
        let words = format!("{}{load}", rule.what);
        let words: Vec<&str> = words.split_whitespace().collect();
        lines.extend(wrap(&words, WIDTH).into_iter().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

/// The table of docs/rules.md.
pub(super) fn markdown() -> String {
    let mut lines = vec![
        "| rule | what it looks for | what that costs | source | looks at |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for rule in rules() {
        let load = match rule.load {
            Load::Apart => "",
            Load::Better => "; more with `--load`",
            Load::Needed => "; only with `--load`",
        };
        // Text of rules is broken over lines in the source.
        let words = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            words.join(" ").replace('|', "\\|")
        };
        lines.push(format!(
            "| `{}` | {} | {} | {} | {}{load} |",
            rule.id,
            words(rule.what),
            words(rule.costs),
            words(rule.source),
            words(rule.reads)
        ));
    }
    lines.join("\n")
}
