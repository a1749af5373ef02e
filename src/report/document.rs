//! Reports of the verbs before they have a form: sections of tables, findings, figures and prose.
//!
//! A document is data. It says what a column is, which row stands out and what a drawing shows;
//! where a line ends and how a heading looks is for the renderers ([`super::render`]).

use crate::model::finding::Finding;

/// A report: everything that one verb has to say.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// The subject in one line.
    pub title: String,
    /// Origin of the facts: machine, time, version, files.
    pub origin: Vec<String>,
    /// Sections in reading order.
    pub sections: Vec<Section>,
    /// The last line of a page.
    pub closing: String,
}

impl Document {
    /// A document with a title and nothing else yet.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a section, unless it is empty.
    pub fn section(&mut self, section: Section) {
        if !section.blocks.is_empty() {
            self.sections.push(section);
        }
    }

    /// Adds a section without a heading, unless it is empty.
    pub fn blocks(&mut self, blocks: impl IntoIterator<Item = Block>) {
        self.section(Section { blocks: blocks.into_iter().collect(), ..Section::default() });
    }
}

/// Blocks that belong together.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// The heading; empty where the blocks need none.
    pub title: String,
    /// Weight by which the section stands out.
    pub weight: Weight,
    /// Blocks in reading order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section that every form shows.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// A section that the terminal leaves out, for it has the short version.
    #[must_use]
    pub fn detail(title: impl Into<String>) -> Self {
        Self { title: title.into(), weight: Weight::Detail, blocks: Vec::new() }
    }

    /// A detail that a page unfolds for those who ask how the conclusion came about.
    #[must_use]
    pub fn folded(title: impl Into<String>) -> Self {
        Self { title: title.into(), weight: Weight::Folded, blocks: Vec::new() }
    }

    /// Adds these blocks behind the section's own.
    #[must_use]
    pub fn with(mut self, blocks: impl IntoIterator<Item = Block>) -> Self {
        self.blocks.extend(blocks);
        self
    }
}

/// Weight of a section among the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weight {
    /// The conclusion, and whether it is one that must not be acted on.
    Verdict {
        /// The evidence does not bear a conclusion.
        refused: bool,
    },
    /// A section among others.
    #[default]
    Usual,
    /// A section only for forms that have room.
    Detail,
    /// A [`Weight::Detail`] that a page shows when it is asked for.
    Folded,
}

/// A piece of a section.
#[derive(Debug, Clone)]
pub enum Block {
    /// A heading within the section.
    Heading(String),
    /// A sentence or more.
    Prose(Tone, String),
    /// Sentences or fragments, one to each item.
    List(Vec<String>),
    /// Labels with their values.
    Facts(Vec<(String, String)>),
    /// Rows and columns.
    Table(Table),
    /// A finding on a machine, with its number in the list.
    Finding(usize, Finding),
    /// A drawing.
    Figure(Figure),
    /// Something to type, line by line.
    Command(String),
}

impl Block {
    /// Usual prose.
    #[must_use]
    pub fn prose(text: impl Into<String>) -> Self {
        Self::Prose(Tone::Plain, text.into())
    }

    /// Prose that matters less: how to read a table, where a figure is from.
    #[must_use]
    pub fn note(text: impl Into<String>) -> Self {
        Self::Prose(Tone::Soft, text.into())
    }

    /// Prose that must not be overlooked.
    #[must_use]
    pub fn alarm(text: impl Into<String>) -> Self {
        Self::Prose(Tone::Bad, text.into())
    }
}

/// Degree to which a piece of text stands out, and the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// The text does not stand out.
    #[default]
    Plain,
    /// The one sentence to remember.
    Lead,
    /// The text matters less.
    Soft,
    /// The text says that all is well.
    Good,
    /// The text needs attention.
    Bad,
    /// The text is a verdict that is neither good nor bad.
    Mark,
    /// The text is a path, a value or a command.
    Code,
}

/// Rows under a heading.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Rows in reading order.
    pub rows: Vec<Row>,
}

/// A column: its heading, and how its cells are set.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name and unit.
    pub heading: String,
    /// Figures stand to the right and are never broken over lines.
    pub is_figure: bool,
    /// Cells are never broken over lines: a ratio with its interval.
    pub is_whole: bool,
    /// Order in which columns leave: where there is no room, the column with the highest value
    /// leaves the table first and follows its row as a line of its own.
    pub gives_way: usize,
    /// True if the column is only for forms that have room.
    pub is_detail: bool,
}

/// A row of a table.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Cells of the row, as many as there are columns, or fewer.
    pub cells: Vec<Cell>,
    /// True if the row is one of the best, or the one chosen.
    pub is_best: bool,
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Text of the cell.
    pub text: String,
    /// Tone by which the text stands out.
    pub tone: Tone,
}

impl Cell {
    /// A cell that stands out.
    #[must_use]
    pub fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}

impl Table {
    /// An empty table. The columns further to the right give way first.
    #[must_use]
    pub fn new<T: ToString>(headings: &[T]) -> Self {
        let column = |(at, heading): (usize, &T)| Column {
            heading: heading.to_string(),
            is_figure: false,
            is_whole: false,
            gives_way: at,
            is_detail: false,
        };
        Self { columns: headings.iter().enumerate().map(column).collect(), rows: Vec::new() }
    }

    /// Marks the columns at these places as figures.
    #[must_use]
    pub fn figures(mut self, places: impl IntoIterator<Item = usize>) -> Self {
        for place in places {
            if let Some(column) = self.columns.get_mut(place) {
                (column.is_figure, column.is_whole) = (true, true);
            }
        }
        self
    }

    /// Marks the column at this place as one that is never broken over lines.
    #[must_use]
    pub fn whole(mut self, place: usize) -> Self {
        if let Some(column) = self.columns.get_mut(place) {
            column.is_whole = true;
        }
        self
    }

    /// Lets the columns at these places give way before all others, the first of them first.
    #[must_use]
    pub fn gives_way(mut self, places: &[usize]) -> Self {
        let all = self.columns.len();
        for (at, place) in places.iter().rev().enumerate() {
            if let Some(column) = self.columns.get_mut(*place) {
                column.gives_way = all + at;
            }
        }
        self
    }

    /// Marks the column at this place as one that a terminal leaves out.
    #[must_use]
    pub fn detail(mut self, place: usize) -> Self {
        if let Some(column) = self.columns.get_mut(place) {
            column.is_detail = true;
        }
        self
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.mark(false, cells);
    }

    /// Adds a row that may be one of the best.
    pub fn mark<C: Into<Cell>>(&mut self, is_best: bool, cells: impl IntoIterator<Item = C>) {
        self.rows.push(Row { cells: cells.into_iter().map(Into::into).collect(), is_best });
    }

    /// Takes out columns that hold nothing but `-`.
    pub fn drop_empty(&mut self) {
        let says =
            |c: usize| self.rows.iter().any(|r| r.cells.get(c).is_some_and(|c| c.text != "-"));
        let keep: Vec<bool> = (0..self.columns.len()).map(says).collect();
        let mut columns = keep.iter();
        self.columns.retain(|_| columns.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut cells = keep.iter();
            row.cells.retain(|_| cells.next().copied().unwrap_or(true));
        }
    }
}

/// A drawing, as data.
#[derive(Debug, Clone)]
pub struct Figure {
    /// A heading above it; may be empty.
    pub heading: String,
    /// Description of the drawing, for those who do not see it.
    pub title: String,
    /// Data that are drawn.
    pub chart: Chart,
    /// Advice on how to read the drawing; may be empty.
    pub caption: String,
    /// A table of the same section holds the same figures.
    pub in_table: bool,
}

/// Data of a drawing, by its form.
#[derive(Debug, Clone)]
pub enum Chart {
    /// Values in rows, all on one axis.
    Strips(Strips),
    /// Values over other values.
    Curve(Curve),
    /// Shares of a whole as bars.
    Shares(Shares),
    /// Shares as the depth of a colour.
    Heat(Heat),
}

/// Rows on one horizontal axis.
#[derive(Debug, Clone)]
pub struct Strips {
    /// The axis below.
    pub axis: Axis,
    /// Name of the rows, for a table of them: `candidate`.
    pub name: String,
    /// Name of the values, for a table of them: `ratio to as-found`.
    pub value: String,
    /// Rows from top to bottom.
    pub rows: Vec<Strip>,
}

/// The axis of [`Strips`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Axis {
    /// Ratios, on a logarithmic scale around 1. The band holds ratios that make no practical
    /// difference: 1.01 is from 1/1.01 to 1.01.
    Ratio {
        /// End of the band; 1 is no band.
        band: f64,
    },
    /// Values from zero.
    FromZero {
        /// A value that the axis has to hold: drawings of one section can be compared.
        highest: f64,
    },
    /// Rates in Mbit/s over several powers of ten.
    Decades,
}

/// A row of [`Strips`].
#[derive(Debug, Clone, Default)]
pub struct Strip {
    /// Name of the row.
    pub name: String,
    /// The values in words.
    pub words: String,
    /// Part of the row above that is not part of one.
    pub is_part: bool,
    /// Height of a lane under the marks in pixels; 0 is no lane.
    pub lane: f64,
    /// A broad bar from zero to here.
    pub bar: Option<f64>,
    /// True if the row is one of the best, or the one chosen.
    pub is_best: bool,
    /// A thin bar: the 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// A thin line between two marks.
    pub between: Option<(f64, f64)>,
    /// Single values.
    pub marks: Vec<Mark>,
}

/// A value that is drawn.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The value.
    pub at: f64,
    /// Kind of the value.
    pub kind: MarkKind,
    /// Height in the lane, from 0 (top) to 1.
    pub height: f64,
    /// Words that appear when the mark is pointed at.
    pub words: String,
}

impl Mark {
    /// A mark in the middle of its lane.
    #[must_use]
    pub fn new(kind: MarkKind, at: f64) -> Self {
        Self { at, kind, height: 0.5, words: String::new() }
    }
}

/// Kind of a value that a mark stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// A single measurement.
    Single,
    /// A single measurement of another kind: the ends of a block, the trials of a search.
    Trial,
    /// A mean, or what was found.
    Mean,
    /// A value without an interval, or a prediction.
    Ring,
}

/// Values over other values.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Name of the values across.
    pub across: String,
    /// Name of the values up.
    pub up: String,
    /// True if the axis across counts blocks; else it starts at 0.
    pub counts: bool,
    /// Lowest and highest value up.
    pub range: (f64, f64),
    /// Height in pixels.
    pub height: f64,
    /// True if heights are drawn by their square root, so that a thousandth differs visibly from
    /// nothing.
    pub by_root: bool,
    /// Horizontal lines with their names.
    pub levels: Vec<(f64, String)>,
    /// The level that is neither gain nor loss.
    pub zero: Option<f64>,
    /// Draws where up and across are equal.
    pub diagonal: bool,
    /// A range of values across that stands out.
    pub shaded: Option<(f64, f64)>,
    /// Values across that stand out, with their names where they are to be said.
    pub found: Vec<(f64, String)>,
    /// The line: across, up.
    pub line: Vec<(f64, f64)>,
    /// Single values: across, up.
    pub points: Vec<(f64, f64, MarkKind)>,
    /// A value up in words.
    pub words: fn(f64) -> String,
}

/// Shares of a whole as bars, a row each.
#[derive(Debug, Clone)]
pub struct Shares {
    /// Name of the rows: `CPU`.
    pub name: String,
    /// Names of the parts of a bar; the rest of a bar is the last of them.
    pub parts: [String; 3],
    /// Name of the text at the end of a bar, for a table of them.
    pub beside: String,
    /// Rows from top to bottom: name, the first two shares, the text at the end.
    pub rows: Vec<(String, [f64; 2], String)>,
}

/// Shares as the depth of a colour.
#[derive(Debug, Clone)]
pub struct Heat {
    /// Name of the rows.
    pub name: String,
    /// The columns' names.
    pub columns: Vec<String>,
    /// Rows: a name, and a share for each column.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl Chart {
    /// The figures that are drawn, for forms that can't draw and readers who can't see.
    #[must_use]
    pub fn table(&self) -> Table {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        match self {
            Self::Strips(strips) => {
                let mut table = Table::new(&[&strips.name, &strips.value]);
                let mut whole = "";
                for strip in &strips.rows {
                    let name = match strip.is_part {
                        true => format!("{whole} {}", strip.name),
                        false => strip.name.clone(),
                    };
                    if !strip.is_part {
                        whole = &strip.name;
                    }
                    table.row([name, strip.words.clone()]);
                }
                table
            }
            Self::Curve(curve) => {
                let mut table = Table::new(&[&curve.across, &curve.up]).figures([0, 1]);
                for (across, up) in &curve.line {
                    table.row([format!("{across:.0}"), (curve.words)(*up)]);
                }
                table
            }
            Self::Shares(shares) => {
                let [first, second, _] = &shares.parts;
                let mut table = Table::new(&[&shares.name, first, second, &shares.beside]);
                table = table.figures([1, 2, 3]);
                for (name, [a, b], beside) in &shares.rows {
                    table.row([name.clone(), percent(*a), percent(*b), beside.clone()]);
                }
                table
            }
            Self::Heat(heat) => {
                let headings: Vec<&String> =
                    std::iter::once(&heat.name).chain(&heat.columns).collect();
                let mut table = Table::new(&headings).figures(1..headings.len());
                for (name, shares) in &heat.rows {
                    let shares = shares.iter().map(|share| percent(*share));
                    table.row(std::iter::once(name.clone()).chain(shares));
                }
                table
            }
        }
    }
}
