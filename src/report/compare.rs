//! Two files side by side.

use super::document::{
    Axis, Block, Chart, Document, Figure, Mark, MarkKind, Section, Strip, Strips, Table,
};
use crate::decide::experiment::compared::{Comparison, Row};

/// The report on the second file against the first.
#[must_use]
pub fn document(comparison: &Comparison) -> Document {
    let Comparison { a, b, rows, .. } = comparison;
    let mut document = Document::new(format!("linerate: {b} against {a}"));
    document.origin = vec![format!("A is {a}, B is {b}")];
    document.closing = "made from the two files alone".to_owned();
    let mut table = Table::new(&["figure", "unit", "A", "B", "B / A", "95 % interval"]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.unit.to_owned(),
            value(row.a, row.values_a, row.remark_a.as_deref()),
            value(row.b, row.values_b, row.remark_b.as_deref()),
            ratio(row),
            interval(row),
        ]);
    }
    let rows: Vec<Strip> = comparison.rows.iter().filter_map(strip).collect();
    let figure = (!rows.is_empty()).then(|| {
        Block::Figure(Figure {
            heading: String::new(),
            title: "Ratios of B to A".to_owned(),
            chart: Chart::Strips(Strips {
                axis: Axis::Ratio { band: 1.0 },
                name: "figure".to_owned(),
                value: "B / A".to_owned(),
                rows,
            }),
            caption: "B / A; right of 1: B has more. Bars are 95 % intervals by what repeats of a \
                      run differ by; rings have no interval, for there was one value"
                .to_owned(),
            in_table: true,
        })
    });
    let table = Block::Table(table.figures([4]));
    document.section(Section::new("B against A").with(figure).with([table]));
    let mut notes = Vec::new();
    for (file, only) in [(a, &comparison.only_a), (b, &comparison.only_b)] {
        if !only.is_empty() {
            notes.push(format!("only in {file}: {}", only.join(", ")));
        }
    }
    notes.extend(comparison.doubts.iter().map(|doubt| format!("note: {doubt}")));
    notes.push(format!("evidence: {}", comparison.class.meaning()));
    document.section(Section::new("How far to trust it").with([Block::List(notes)]));
    document
}

fn value(mean: f64, values: usize, remark: Option<&str>) -> String {
    let of = if values > 1 { format!(" (mean of {values})") } else { String::new() };
    let remark = remark.map(|r| format!(" ({r})")).unwrap_or_default();
    format!("{mean:.0}{of}{remark}")
}

fn ratio(row: &Row) -> String {
    row.ratio.map_or_else(|| "?".to_owned(), |ratio| format!("{ratio:.3}"))
}

fn interval(row: &Row) -> String {
    match (row.ratio, row.interval) {
        (None, _) => "no ratio: one is only known from below".to_owned(),
        (_, Some((low, high))) if low > 1.0 || high < 1.0 => format!("{low:.3} to {high:.3}"),
        (_, Some((low, high))) => format!("{low:.3} to {high:.3}, no difference shown"),
        (_, None) => "no interval possible: a single value".to_owned(),
    }
}

fn strip(row: &Row) -> Option<Strip> {
    let at = row.ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
    let kind = if row.interval.is_some() { MarkKind::Mean } else { MarkKind::Ring };
    Some(Strip {
        name: row.name.clone(),
        words: format!("{} ({})", ratio(row), interval(row)),
        interval: row.interval,
        marks: vec![Mark::new(kind, at)],
        ..Strip::default()
    })
}
