//! GitHub-flavoured Markdown, for an issue or a wiki.

use super::terminal::steers;
use super::{Render, basis, sentence};
use crate::model::finding::Finding;
use crate::report::document::{Block, Cell, Document, Figure, Row, Table, Tone};

/// GitHub-flavoured Markdown. Drawings become tables of their figures.
#[derive(Debug, Clone, Copy)]
pub struct Markdown;

impl Render for Markdown {
    fn render(&self, document: &Document) -> String {
        let mut parts = vec![format!("# {}", plain(&document.title))];
        parts.extend(document.origin.iter().map(|line| plain(line)));
        for section in &document.sections {
            let blocks: Vec<String> = section.blocks.iter().filter_map(block).collect();
            if !section.title.is_empty() && !blocks.is_empty() {
                parts.push(format!("## {}", plain(&section.title)));
            }
            parts.extend(blocks);
        }
        if !document.closing.is_empty() {
            parts.push(sentence(&plain(&document.closing)));
        }
        parts.join("\n\n") + "\n"
    }
}

fn block(block: &Block) -> Option<String> {
    Some(match block {
        Block::Heading(text) => format!("### {}", plain(text)),
        Block::Prose(Tone::Lead | Tone::Bad, text) => format!("**{}**", plain(text)),
        Block::Prose(_, text) => sentence(&plain(text)),
        Block::List(items) if items.is_empty() => return None,
        Block::List(items) => list(items.iter().map(|item| plain(item))),
        Block::Facts(facts) => {
            let mut table = Table::new(&["", ""]);
            facts.iter().for_each(|(label, value)| table.row([label.clone(), value.clone()]));
            self::table(&table)
        }
        Block::Table(table) => self::table(table),
        Block::Finding(number, finding) => self::finding(*number, finding),
        Block::Figure(figure) => return self::figure(figure),
        Block::Command(text) => format!("```\n{}\n```", code(text)),
    })
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

fn figure(figure: &Figure) -> Option<String> {
    if figure.in_table {
        return None;
    }
    let mut parts = Vec::new();
    if !figure.heading.is_empty() {
        parts.push(format!("### {}", plain(&figure.heading)));
    }
    parts.push(table(&figure.chart.table()));
    if !figure.caption.is_empty() {
        parts.push(sentence(&plain(&figure.caption)));
    }
    Some(parts.join("\n\n"))
}

fn table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let mut lines = vec![row(table.columns.iter().map(|c| plain(&c.heading)).collect())];
    let rule = table.columns.iter().map(|c| if c.is_figure { "---:" } else { "---" });
    lines.push(format!("|{}|", rule.collect::<Vec<_>>().join("|")));
    for Row { cells, is_best } in &table.rows {
        let text = |(at, cell): (usize, &Cell)| match (at, is_best) {
            (0, true) => format!("**{}**", plain(&cell.text)),
            _ => plain(&cell.text),
        };
        lines.push(row(cells.iter().enumerate().map(text).collect()));
    }
    lines.join("\n")
}

fn finding(number: usize, finding: &Finding) -> String {
    let level = finding.severity.name().to_uppercase();
    let mut lines = vec![format!("{number}. **{level}: {}**", plain(&finding.title))];
    let seen = finding.evidence.iter();
    lines.extend(seen.map(|e| format!("   - seen: {} = {}", plain(&e.place), plain(&e.value))));
    lines.push(format!("   - costs: {}", plain(&finding.consequence)));
    lines.extend(finding.remedy.iter().map(|step| format!("   - do: {}", plain(step))));
    lines.push(format!("   - why: {}", plain(&basis(finding))));
    lines.join("\n")
}

/// Text that ends no code span and no code block.
fn code(text: &str) -> String {
    text.replace('`', "'").replace(|c: char| steers(c) && c != '\n', " ")
}

/// Text that Markdown takes as nothing but text.
fn plain(text: &str) -> String {
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
            c if steers(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
