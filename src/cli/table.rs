//! Columns that line up, and lines that end in time.

use crate::report::render::clean;

/// Rows of cells; widths are counted in characters, and colour codes must not be in the cells.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a heading row.
    #[must_use]
    pub(super) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }

    /// Takes out columns that hold nothing but `-`.
    pub(super) fn drop_empty(&mut self) {
        let columns = self.rows.first().map_or(0, Vec::len);
        let told = |c: usize| self.rows.iter().skip(1).any(|r| r.get(c).is_some_and(|t| t != "-"));
        let keep: Vec<bool> = (0..columns).map(told).collect();
        for row in &mut self.rows {
            let mut keep = keep.iter();
            row.retain(|_| keep.next().copied().unwrap_or(true));
        }
    }

    /// The lines: the heading first, no blanks at the ends.
    #[must_use]
    pub(super) fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|c| self.rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max())
            .map(|w| w.unwrap_or(0))
            .collect();
        self.rows
            .iter()
            .map(|row| {
                let cells = row.iter().zip(&widths).map(|(text, &width)| format!("{text:width$}"));
                cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
            })
            .collect()
    }
}

/// Words in lines of at most `width` characters.
pub(super) fn wrap(words: &[&str], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push((*word).to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_line_up_by_characters_not_bytes() {
        let mut table = Table::new(&["a", "bb"]);
        table.row(["→→→".into(), "x".into()]);
        table.row(["y".into()]);
        assert_eq!(table.lines(), ["a    bb", "→→→  x", "y"]);
    }
}
