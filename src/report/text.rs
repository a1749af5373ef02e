//! What a terminal shows at the end of `tune`.

use crate::experiment::Analysis;
use crate::model::measurement::Experiment;

use super::{factors, predicted, words};

/// The report as plain text, the verdict first. Control characters in names are replaced, so that
/// a result file from elsewhere can't steer the terminal.
#[must_use]
pub fn text(experiment: &Experiment, analysis: &Analysis) -> String {
    let mut lines = vec![words::headline(experiment, analysis), String::new()];
    let (restored, settings) = words::settings(experiment);
    if !restored {
        lines.push(settings.clone());
        lines.push(String::new());
    }
    lines.extend(table(experiment, analysis));
    if let Some(rule) = words::best_rule(analysis) {
        lines.push(format!("* {rule}"));
    }
    lines.extend(words::by_direction(analysis));
    lines.extend(effects(analysis));
    lines.extend(foretold(experiment, analysis));
    lines.push(String::new());

    lines.extend(words::noise(analysis));
    lines.push(words::refused_summary(analysis));
    if restored {
        lines.push(settings);
    }
    lines.push(format!("evidence: {}", experiment.class.meaning()));
    lines
        .extend(experiment.notes.iter().chain(&analysis.notes).map(|note| format!("note: {note}")));
    lines.extend(
        words::next_steps(experiment, analysis).into_iter().map(|step| format!("next: {step}")),
    );
    let text = lines.join("\n") + "\n";
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

fn table(experiment: &Experiment, analysis: &Analysis) -> Vec<String> {
    let rows = words::rows(experiment, analysis);
    let mut table = vec![head(experiment)];
    table.extend(rows.into_iter().map(|row| {
        let mark = if row.best { "* " } else { "  " };
        let mut cells = vec![format!("{mark}{}", row.result.name)];
        cells.extend(row.rates);
        cells.push(row.ratio);
        cells.push(row.verdict);
        cells
    }));

    let columns = experiment.directions.len() + 3;
    // Rates are figures and stand to the right, words to the left.
    aligned(&table, &|column| (1..columns - 2).contains(&column))
}

/// What the factors do, where there are any.
fn effects(analysis: &Analysis) -> Vec<String> {
    let rows = factors::rows(analysis);
    if rows.is_empty() {
        return Vec::new();
    }
    let mut table = vec![vec!["  effect".to_owned(), "times (95 % CI)".to_owned()]];
    table.extend(rows.into_iter().map(|r| vec![format!("  {}", r.name), r.ratio, r.verdict]));
    let mut lines = vec![String::new()];
    lines.extend(aligned(&table, &|_| false));
    lines.push(format!("  ({})", factors::RULE));
    lines
}

/// What the model said beforehand, where it said anything.
fn foretold(experiment: &Experiment, analysis: &Analysis) -> Vec<String> {
    let pairs = predicted::pairs(experiment, analysis);
    if pairs.is_empty() {
        return Vec::new();
    }
    let row = |cells: [String; 6]| {
        let mut cells = cells.to_vec();
        if let Some(first) = cells.first_mut() {
            first.insert_str(0, "  ");
        }
        cells
    };
    let mut table = vec![row(predicted::HEAD.map(str::to_owned))];
    table.extend(pairs.iter().map(|p| row(predicted::cells(p))));
    let mut lines = vec![String::new()];
    lines.extend(aligned(&table, &|column| column == 1 || column == 2));
    lines.extend(predicted::summary(&pairs).map(|summary| format!("  ({summary})")));
    lines
}

fn aligned(table: &[Vec<String>], to_the_right: &dyn Fn(usize) -> bool) -> Vec<String> {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        table.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    table
        .iter()
        .map(|cells| {
            let padded: Vec<String> = cells
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| {
                    if to_the_right(column) {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            padded.join("  ").trim_end().to_owned()
        })
        .collect()
}

fn head(experiment: &Experiment) -> Vec<String> {
    let mut head = vec!["  candidate".to_owned()];
    head.extend(experiment.directions.iter().map(|d| format!("{d} Mbit/s")));
    head.push(format!("times {} (95 % CI)", experiment.baseline));
    head.push("verdict".to_owned());
    head
}
