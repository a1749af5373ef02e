//! Findings, and the rules that find them.

use super::document::{Block, Document, Section};
use crate::decide::diagnose::{Diagnosis, Load, Rule, rules};
use crate::model::finding::Severity;
use crate::model::snapshot::Snapshot;

/// All findings, gravest first, and the rules that could not look: by name, or how many.
#[must_use]
pub fn document(
    snapshot: &Snapshot,
    diagnosis: &Diagnosis,
    watched: bool,
    verbose: bool,
) -> Document {
    let mut document = Document::new(headline(snapshot, diagnosis));
    if snapshot.path.ipv4 == Some(false) && snapshot.path.ipv6 != Some(true) {
        document.origin.push(
            "forwarding is off (net.ipv4.ip_forward = 0): judged as a machine that forwards nothing"
                .to_owned(),
        );
    }
    let findings = diagnosis.findings.iter().enumerate();
    document.blocks(findings.map(|(at, finding)| Block::Finding(at + 1, finding.clone())));
    let unseen = &diagnosis.unseen;
    if verbose {
        let facts = unseen.iter().map(|u| (u.rule.clone(), u.why.clone())).collect();
        let facts = (!unseen.is_empty()).then_some(Block::Facts(facts));
        document.section(Section::new("could not look").with(facts));
    } else if !unseen.is_empty() {
        let rules = match unseen.len() {
            1 => "1 rule".to_owned(),
            count => format!("{count} rules"),
        };
        let load = if watched { "" } else { "; --load 10s shows more under traffic" };
        let note = format!("{rules} could not look (-v says which and why){load}");
        document.blocks([Block::note(note)]);
    }
    document
}

fn headline(snapshot: &Snapshot, diagnosis: &Diagnosis) -> String {
    let name = match snapshot.machine.hostname.as_str() {
        "" => "this machine",
        name => name,
    };
    let counts: Vec<String> = Severity::ALL
        .into_iter()
        .rev()
        .filter_map(|severity| {
            let count = diagnosis.findings.iter().filter(|f| f.severity == severity).count();
            let word = match (severity, count) {
                (Severity::Warning | Severity::Notice, 2..) => format!("{severity}s"),
                _ => severity.to_string(),
            };
            (count > 0).then(|| format!("{count} {word}"))
        })
        .collect();
    let counts = if counts.is_empty() { "nothing found".to_owned() } else { counts.join(", ") };
    let first = diagnosis.findings.first().map_or(0.0, |finding| finding.cost);
    let cost = match first {
        share if share >= 0.01 => {
            format!("; the first is expected to cost about {:.0} %", share * 100.0)
        }
        _ => String::new(),
    };
    format!("{name}: {counts}{cost}")
}

/// The rules with what each looks for.
#[must_use]
pub fn list() -> Document {
    let mut document = Document::default();
    let rule = |rule: &Rule| {
        let load = match rule.load {
            Load::Apart => "",
            Load::Better => " (sees more with --load)",
            Load::Needed => " (needs --load)",
        };
        [Block::Heading(rule.id.to_owned()), Block::prose(format!("{}{load}", rule.what))]
    };
    document.blocks(rules().flat_map(rule));
    document
}

/// The table of docs/rules.md.
#[must_use]
pub fn markdown() -> String {
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
