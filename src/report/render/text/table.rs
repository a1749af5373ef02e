//! Tables within so many columns: cells are broken over lines first, and then columns leave the
//! table and follow their row.
//!
//! ```text
//! device  driver  link        device  driver        device  driver
//! eth0    r8169   up 1G       eth0    r8169         eth0
//!                                 link up 1G            driver r8169; link up 1G
//! ```

use super::{clean, wrap};
use crate::report::document::{Column, Row, Table};

/// Blanks between two columns.
const GAP: usize = 2;

/// Space before the lines that follow a row.
const INDENT: &str = "    ";

/// A column of words may be made this narrow, though no narrower than its longest word.
const NARROW: usize = 12;

/// Words up to this length are not cut by making a column narrow.
const WORD: usize = 24;

/// Lines of the heading, and of each row.
pub(super) fn lines(table: &Table, width: usize) -> (Vec<String>, Vec<Vec<String>>) {
    let marks = table.rows.iter().any(|row| row.is_best);
    let mark = if marks { "  " } else { "" };
    let room = width.saturating_sub(mark.len());
    let columns: Vec<Sizes> =
        table.columns.iter().enumerate().map(|(at, column)| Sizes::of(table, at, column)).collect();
    let told: Vec<usize> =
        table.columns.iter().enumerate().filter(|(_, c)| !c.is_detail).map(|(at, _)| at).collect();
    let mut shown = told.clone();
    let mut widths = fit(&columns, &shown, room);
    while widths.is_none() && shown.len() > 1 {
        // The first column names the row and stays.
        let gives_way = |at: &&usize| table.columns.get(**at).map_or(0, |c| c.gives_way);
        let Some(leaves) = shown.iter().skip(1).max_by_key(gives_way).copied() else { break };
        shown.retain(|at| *at != leaves);
        widths = fit(&columns, &shown, room);
    }
    let widths = widths.unwrap_or_else(|| vec![room; shown.len()]);
    let heading: Row = Row {
        cells: table.columns.iter().map(|column| column.heading.as_str().into()).collect(),
        is_best: false,
    };
    let heading = in_columns(table, &heading, &shown, &widths, mark);
    let mut rows = Vec::new();
    for row in &table.rows {
        let mark = if row.is_best { "* " } else { mark };
        let mut lines = in_columns(table, row, &shown, &widths, mark);
        lines.extend(folded(table, row, &told, &shown, width));
        rows.push(lines);
    }
    (heading, rows)
}

/// Width that a column has by itself, and how narrow it may be made.
struct Sizes {
    natural: usize,
    least: usize,
}

impl Sizes {
    fn of(table: &Table, at: usize, column: &Column) -> Self {
        let longest = |text: &str| text.split_whitespace().map(|w| w.chars().count()).max();
        let heading = longest(&column.heading).unwrap_or(0);
        let (mut natural, mut word) = (column.heading.chars().count(), heading);
        let mut cells = 0;
        for cell in table.rows.iter().filter_map(|row| row.cells.get(at)) {
            let length = cell.text.chars().count();
            natural = natural.max(length);
            cells = cells.max(length);
            word = word.max(longest(&cell.text).unwrap_or(0));
        }
        let least = match column.is_whole {
            true => cells.max(heading),
            false => word.clamp(NARROW, WORD).min(natural),
        };
        Self { natural, least }
    }
}

/// A width for each of the columns shown, or `None` if they can't all be shown.
fn fit(columns: &[Sizes], shown: &[usize], room: usize) -> Option<Vec<usize>> {
    let sizes: Vec<&Sizes> = shown.iter().filter_map(|at| columns.get(*at)).collect();
    let room = room.checked_sub(GAP * sizes.len().saturating_sub(1))?;
    let at_most = |cap: usize| -> Vec<usize> {
        sizes.iter().map(|s| s.natural.min(cap.max(s.least))).collect()
    };
    let fits = |widths: &[usize]| widths.iter().sum::<usize>() <= room;
    let mut best = Some(at_most(0)).filter(|widths| fits(widths))?;
    // All columns are made wider alike, as far as they need it and there is room.
    for cap in 1..=room {
        let widths = at_most(cap);
        if !fits(&widths) {
            break;
        }
        best = widths;
    }
    // What is left goes to those that still want it, from the left.
    let mut left = room.saturating_sub(best.iter().sum());
    for (width, size) in best.iter_mut().zip(&sizes) {
        let more = size.natural.saturating_sub(*width).min(left);
        *width += more;
        left -= more;
    }
    Some(best)
}

fn in_columns(
    table: &Table,
    row: &Row,
    shown: &[usize],
    widths: &[usize],
    mark: &str,
) -> Vec<String> {
    // What fits keeps its blanks: they may be the branches of a tree.
    let lines = |text: &str, width: usize| match text.chars().count() <= width {
        true => vec![clean(text)],
        false => wrap(text, width, width),
    };
    let cells: Vec<Vec<String>> = shown
        .iter()
        .zip(widths)
        .map(|(at, width)| row.cells.get(*at).map_or_else(Vec::new, |c| lines(&c.text, *width)))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |n: usize| {
        let padded = cells.iter().zip(widths).zip(shown).map(|((lines, &width), at)| {
            let text = lines.get(n).map_or("", String::as_str);
            match table.columns.get(*at).is_some_and(|column| column.is_figure) {
                true => format!("{text:>width$}"),
                false => format!("{text:<width$}"),
            }
        });
        let blank = " ".repeat(mark.len());
        let mark = if n == 0 { mark } else { &blank };
        let line = format!("{mark}{}", padded.collect::<Vec<_>>().join(&" ".repeat(GAP)));
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// The cells that are not shown in columns, with their headings.
fn folded(table: &Table, row: &Row, told: &[usize], shown: &[usize], width: usize) -> Vec<String> {
    let cells = table.columns.iter().zip(&row.cells).enumerate();
    let left_out = cells.filter(|(at, (_, cell))| {
        told.contains(at) && !shown.contains(at) && !cell.text.is_empty() && cell.text != "-"
    });
    let words = left_out.map(|(_, (column, cell))| {
        format!("{} {}", column.heading, clean(&cell.text)).trim().to_owned()
    });
    let words = words.collect::<Vec<_>>().join("; ");
    if words.is_empty() {
        return Vec::new();
    }
    let room = width.saturating_sub(INDENT.len());
    wrap(&words, room, room).into_iter().map(|line| format!("{INDENT}{line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(table: &Table, width: usize) -> Vec<String> {
        let (mut heading, rows) = lines(table, width);
        heading.extend(rows.into_iter().flatten());
        heading
    }

    #[test]
    fn columns_line_up_by_characters_not_bytes() {
        let mut table = Table::new(&["a", "bb"]);
        table.row(["→→→", "x"]);
        table.row(["y"]);
        assert_eq!(all(&table, 80), ["a    bb", "→→→  x", "y"]);
    }

    #[test]
    fn a_narrow_table_breaks_words_first_and_folds_columns_then() {
        let mut table = Table::new(&["device", "packets per second", "why"]).figures([1]);
        table.mark(true, ["eth0", "81274", "it is the only one that has a queue"]);
        table.row(["eth1", "-", ""]);
        let wide = all(&table, 80);
        assert_eq!(wide[1], "* eth0                 81274  it is the only one that has a queue");
        let narrow = all(&table, 36);
        let expected = [
            "  device   packets per  why",
            "                second",
            "* eth0           81274  it is the",
            "                        only one",
            "                        that has a",
            "                        queue",
            "  eth1               -",
        ];
        assert_eq!(narrow, expected);
        let folded = all(&table, 20);
        assert!(folded.contains(&"    why it is the".to_owned()), "{folded:#?}");
        for width in 8..80 {
            let lines = all(&table, width);
            assert!(lines.iter().all(|l| l.chars().count() <= width), "{width}: {lines:#?}");
        }
    }
}
