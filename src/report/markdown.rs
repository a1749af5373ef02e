//! The report as Markdown, for an issue or a wiki.

use crate::experiment::Analysis;
use crate::model::measurement::Experiment;

use super::{factors, predicted, words};

/// The report as GitHub-flavoured Markdown.
#[must_use]
pub fn markdown(experiment: &Experiment, analysis: &Analysis) -> String {
    let mut out = format!(
        "# linerate: {} on {}\n\n**{}**\n\n",
        plain(&experiment.scenario.name),
        plain(&experiment.machine.hostname),
        plain(&words::headline(experiment, analysis))
    );
    for step in words::next_steps(experiment, analysis) {
        out += &format!("- next: {}\n", plain(&step));
    }
    out += &format!("\n{}\n", results(experiment, analysis));
    if let Some(rule) = words::best_rule(analysis) {
        out += &format!("Bold: {}. Rates are medians over the blocks.\n\n", plain(&rule));
    }

    for line in words::by_direction(analysis) {
        out += &format!("- {}\n\n", plain(&line));
    }
    out += &effects(analysis);
    out += &foretold(experiment, analysis);

    out += "## How far to trust it\n\n";
    let (_, settings) = words::settings(experiment);
    let trust = words::noise(analysis)
        .into_iter()
        .chain([
            words::refused_summary(analysis),
            settings,
            format!("evidence: {}", experiment.class.meaning()),
        ])
        .chain(words::softirq_note(experiment).map(str::to_owned))
        .chain(experiment.notes.iter().chain(&analysis.notes).cloned());
    for line in trust {
        out += &format!("- {}\n", plain(&line));
    }

    out += "\n## Candidates\n\n";
    for candidate in &experiment.candidates {
        out += &format!(
            "- **{}**: {}; {}\n",
            plain(&candidate.name),
            plain(&candidate.title),
            plain(&candidate.reason)
        );
        for change in candidate.changes() {
            out += &format!(
                "  - {}: {} to {}\n",
                plain(&change.knob.to_string()),
                plain(&change.before.to_string()),
                plain(&change.after.to_string())
            );
        }
    }

    out += "\n## Machine and load\n\n| | |\n|---|---|\n";
    for (label, value) in words::machine(experiment).into_iter().chain(words::scenario(experiment))
    {
        out += &format!("| {label} | {} |\n", plain(&value));
    }
    out += &format!(
        "\n## Repeat\n\n```\n{}\n```\n\nMade by linerate {}.\n",
        words::command(experiment).replace('`', "'").replace(char::is_control, " "),
        plain(&experiment.program)
    );
    out
}

fn results(experiment: &Experiment, analysis: &Analysis) -> String {
    let mut head = vec!["candidate".to_owned()];
    head.extend(experiment.directions.iter().map(|d| format!("{d} Mbit/s")));
    head.push(format!("times {} (95 % CI)", plain(&experiment.baseline)));
    head.push("verdict".to_owned());
    let align: Vec<&str> = std::iter::once("---")
        .chain(experiment.directions.iter().map(|_| "---:"))
        .chain(["---", "---"])
        .collect();
    let mut out = format!("| {} |\n|{}|\n", head.join(" | "), align.join("|"));
    for row in words::rows(experiment, analysis) {
        let name = plain(&row.result.name);
        let mut cells = vec![if row.best { format!("**{name}**") } else { name }];
        cells.extend(row.rates);
        cells.push(row.ratio);
        cells.push(plain(&row.verdict));
        out += &format!("| {} |\n", cells.join(" | "));
    }
    out
}

fn effects(analysis: &Analysis) -> String {
    let rows = factors::rows(analysis);
    if rows.is_empty() {
        return String::new();
    }
    let mut out =
        "## Effects\n\n| effect | times (95 % CI) | verdict |\n|---|---|---|\n".to_owned();
    for row in rows {
        out += &format!("| {} | {} | {} |\n", plain(&row.name), row.ratio, plain(&row.verdict));
    }
    out + &format!("\nHow to read it: {}.\n\n", factors::RULE)
}

fn foretold(experiment: &Experiment, analysis: &Analysis) -> String {
    let pairs = predicted::pairs(experiment, analysis);
    if pairs.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "## Foretold and measured\n\n| {} |\n|---|---:|---:|---:|---|---|\n",
        predicted::HEAD.join(" | ")
    );
    for pair in &pairs {
        let cells = predicted::cells(pair).map(|c| plain(&c));
        out += &format!("| {} |\n", cells.join(" | "));
    }
    if let Some(summary) = predicted::summary(&pairs) {
        out += &format!("\n{}.\n", plain(&summary));
    }
    out + &format!("\n{}.\n\n", predicted::RULE)
}

/// Text that Markdown takes as nothing but text.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
