//! A page for a browser: no script, no network, light and dark, from a phone to paper.
//!
//! Every text goes through maud, which escapes it: a device name or a note may hold anything.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::{Render, basis, chart, clean, sentence};
use crate::model::finding::{Finding, Severity};
use crate::report::document::{Block, Cell, Chart, Document, Figure, Section, Table, Tone, Weight};

pub(super) const STYLE: &str = include_str!("style.css");

/// A self-contained page.
#[derive(Debug, Clone, Copy)]
pub struct Html;

impl Render for Html {
    fn render(&self, document: &Document) -> String {
        let page = markup! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    // Nothing is loaded and nothing runs, whatever a result file holds.
                    meta http-equiv="Content-Security-Policy"
                        content="default-src 'none'; style-src 'unsafe-inline'";
                    title { (document.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body { main {
                    header {
                        h1 { (document.title) }
                        @for line in &document.origin { p { (line) } }
                    }
                    @for part in &document.sections { (section(part)) }
                    footer {
                        @if !document.closing.is_empty() { (sentence(&document.closing)) " " }
                        "Nothing on this page comes from the network."
                    }
                } }
            }
        };
        page.into_string().split('\n').map(clean).collect::<Vec<_>>().join("\n")
    }
}

fn section(section: &Section) -> Markup {
    let class = match section.weight {
        Weight::Verdict { refused: false } => Some("verdict"),
        Weight::Verdict { refused: true } => Some("verdict refused"),
        Weight::Usual | Weight::Detail | Weight::Folded => None,
    };
    // The colours of bars are explained once.
    let mut explained = false;
    let blocks = markup! {
        @for part in &section.blocks {
            @if let Block::Figure(Figure { chart: Chart::Shares(shares), .. }) = part {
                @if !std::mem::replace(&mut explained, true) { (chart::key(shares)) }
            }
            (block(part))
        }
    };
    let title = markup! { @if !section.title.is_empty() { h2 { (section.title) } } };
    markup! {
        section class=[class] {
            @if section.weight == Weight::Folded {
                details { summary { (title) } (blocks) }
            } @else {
                (title) (blocks)
            }
        }
    }
}

fn block(block: &Block) -> Markup {
    match block {
        Block::Heading(text) => markup! { h3 { (text) } },
        Block::Prose(Tone::Lead, text) => markup! { p.sentence { (text) } },
        Block::Prose(tone, text) => markup! { p class=[class(*tone)] { (sentence(text)) } },
        Block::List(items) => markup! { ul { @for item in items { li { (item) } } } },
        Block::Facts(facts) => {
            markup! { dl { @for (label, value) in facts { dt { (label) } dd { (value) } } } }
        }
        Block::Table(table) => self::table(table),
        Block::Finding(number, finding) => self::finding(*number, finding),
        Block::Figure(figure) => self::figure(figure),
        Block::Command(text) => markup! { pre { (text) } },
    }
}

fn class(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Plain | Tone::Lead | Tone::Mark | Tone::Code => None,
        Tone::Soft => Some("soft"),
        Tone::Good => Some("good"),
        Tone::Bad => Some("alarm"),
    }
}

fn figure(figure: &Figure) -> Markup {
    let Some((_, drawing)) = chart::draw(figure) else { return markup! {} };
    markup! {
        @if !figure.heading.is_empty() { h3 { (figure.heading) } }
        figure {
            (drawing)
            @if !figure.caption.is_empty() { figcaption { (sentence(&figure.caption)) } }
        }
    }
}

/// A table. On a phone each row is a block of its own, with the headings beside the cells.
fn table(table: &Table) -> Markup {
    let heading = |at: usize| table.columns.get(at).map_or("", |c| c.heading.as_str());
    let class = |at: usize| {
        table.columns.get(at).and_then(|column| match (column.is_figure, column.is_whole) {
            (true, _) => Some("num"),
            (false, true) => Some("whole"),
            (false, false) => None,
        })
    };
    markup! {
        table {
            thead { tr { @for (at, column) in table.columns.iter().enumerate() {
                th class=[class(at)] scope="col" { (column.heading) }
            } } }
            tbody { @for row in &table.rows {
                tr class=[row.is_best.then_some("best")] {
                    @for (at, cell) in row.cells.iter().enumerate() {
                        @let label = (at > 0 || class(at) == Some("num")).then(|| heading(at));
                        @if at == 0 { th scope="row" data-label=[label] { (self::cell(cell)) } }
                        @else { td class=[class(at)] data-label=[label] { (self::cell(cell)) } }
                    }
                }
            } }
        }
    }
}

fn cell(cell: &Cell) -> Markup {
    match cell.tone {
        Tone::Plain | Tone::Lead => markup! { (cell.text) },
        Tone::Soft => markup! { span.soft { (cell.text) } },
        Tone::Good => markup! { span.chip.good { (cell.text) } },
        Tone::Bad => markup! { span.chip.bad { (cell.text) } },
        Tone::Mark => markup! { span.chip { (cell.text) } },
        Tone::Code => markup! { code { (cell.text) } },
    }
}

fn finding(number: usize, finding: &Finding) -> Markup {
    let chip = match finding.severity {
        Severity::Critical | Severity::Warning => "chip bad",
        Severity::Notice | Severity::Info => "chip",
    };
    markup! {
        h3 { (number) ". " span class=(chip) { (finding.severity) } " " (finding.title) }
        dl {
            @if !finding.evidence.is_empty() {
                dt { "seen" }
                dd { @for seen in &finding.evidence {
                    div { code { (seen.place) } " = " code { (seen.value) } }
                } }
            }
            dt { "costs" } dd { (finding.consequence) }
            @if !finding.remedy.is_empty() {
                dt { "do" } dd { @for step in &finding.remedy { div { (step) } } }
            }
            dt { "why" } dd.soft { (basis(finding)) }
        }
    }
}
