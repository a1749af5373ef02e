//! Plain text within so many columns, for a terminal or a file.
//!
//! Columns are counted in characters. That is right for all that this program prints (names of
//! devices, figures, a few arrows and branches of trees), so no table of character widths is
//! linked.

mod table;

use super::terminal::{Style, is_mark, styled};
use super::{Render, basis, clean};
use crate::model::finding::{Finding, Severity};
use crate::report::document::{Block, Document, Section, Table, Tone, Weight};

/// Prose in longer lines than this is hard to read, however wide the terminal is.
pub(crate) const READABLE: usize = 100;

/// Labels of facts longer than this do not push the values further to the right.
const LABEL: usize = 30;

/// Plain text. Sections that are details are left out, and so are drawings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    /// Columns that a line may take.
    pub width: usize,
    /// Headings and warnings stand out by the marks of their styles, for [`super::terminal::shown`].
    pub colour: bool,
}

impl Default for Text {
    /// The width for a file, and for a terminal that does not say how wide it is.
    fn default() -> Self {
        Self { width: 80, colour: false }
    }
}

impl Render for Text {
    fn render(&self, document: &Document) -> String {
        let mut lines = self.prose(Tone::Lead, &document.title);
        lines.extend(document.origin.iter().flat_map(|line| self.prose(Tone::Soft, line)));
        for section in document
            .sections
            .iter()
            .filter(|s| !matches!(s.weight, Weight::Detail | Weight::Folded))
        {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.extend(self.section(section));
        }
        lines.join("\n") + "\n"
    }
}

impl Text {
    fn section(&self, section: &Section) -> Vec<String> {
        let mut lines = Vec::new();
        // What follows a heading, or begins the section, stands close to it.
        let mut close = true;
        if !section.title.is_empty() {
            lines.extend(self.prose(Tone::Lead, &section.title));
        }
        for block in &section.blocks {
            let told = self.block(block);
            let apart = !matches!(block, Block::Prose(..) | Block::List(_));
            if apart && !close && !told.is_empty() {
                lines.push(String::new());
            }
            close = (close && told.is_empty()) || matches!(block, Block::Heading(_));
            lines.extend(told);
        }
        lines
    }

    fn block(&self, block: &Block) -> Vec<String> {
        match block {
            Block::Heading(text) => self.prose(Tone::Lead, text),
            Block::Prose(tone, text) => self.prose(*tone, text),
            Block::List(items) => items.iter().flat_map(|i| self.prose(Tone::Plain, i)).collect(),
            Block::Facts(facts) => self.facts(facts),
            Block::Table(table) => self.table(table),
            Block::Finding(number, finding) => self.finding(*number, finding),
            Block::Figure(_) => Vec::new(),
            Block::Command(text) => text.lines().map(|line| format!("  {}", clean(line))).collect(),
        }
    }

    /// A table, its heading row first.
    #[must_use]
    pub fn table(&self, table: &Table) -> Vec<String> {
        let (mut lines, rows) = self.rows(table);
        lines.extend(rows.into_iter().flatten());
        lines
    }

    /// Lines of a table's heading, and of each of its rows.
    #[must_use]
    pub fn rows(&self, table: &Table) -> (Vec<String>, Vec<Vec<String>>) {
        let (heading, rows) = table::lines(table, self.width);
        (heading.iter().map(|line| self.paint(Some(Style::Lead), line)).collect(), rows)
    }

    /// Lines within the width: what a line is too long for hangs below it. Marks of styles stay.
    #[must_use]
    pub fn folded(&self, text: &str) -> String {
        let fold = |line: &str| match length(line) <= self.width {
            true => line.to_owned(),
            false => {
                let indent = line.chars().take_while(|c| *c == ' ').count().min(self.width / 2) + 4;
                let rest = self.width.saturating_sub(indent);
                wrap_as(line, self.width, rest, str::to_owned)
                    .join(&format!("\n{}", " ".repeat(indent)))
            }
        };
        text.lines().map(fold).collect::<Vec<_>>().join("\n")
    }

    /// The lines of one finding with its number in the list.
    #[must_use]
    pub fn finding(&self, number: usize, finding: &Finding) -> Vec<String> {
        let level = finding.severity.name().to_uppercase();
        let number = format!("{number}. ");
        let head = format!("{level} {}", finding.title);
        let mut lines = hanging(&number, &head, self.readable(), &" ".repeat(number.len()));
        if let Some(first) = lines.first_mut() {
            let style = match finding.severity {
                Severity::Critical | Severity::Warning => Style::Bad,
                Severity::Notice | Severity::Info => Style::Soft,
            };
            let title = first.split_off((number.len() + level.len()).min(first.len()));
            *first = format!("{number}{}", self.paint(Some(style), &level));
            if let Some(title) = title.strip_prefix(' ') {
                *first += &format!(" {}", self.paint(Some(Style::Lead), title));
            }
        }
        let mut put = |label: &str, text: &str, continued: &str| {
            let label = format!("   {label:8} ");
            let indent = format!("{:12}{continued}", "");
            lines.extend(hanging(&label, text, self.readable(), &indent));
        };
        for (at, seen) in finding.evidence.iter().enumerate() {
            let label = if at == 0 { "seen" } else { "" };
            put(label, &format!("{} = {}", seen.place, seen.value), "  ");
        }
        put("costs", &finding.consequence, "");
        for (at, step) in finding.remedy.iter().enumerate() {
            put(if at == 0 { "do" } else { "" }, step, "  ");
        }
        put("why", &basis(finding), "");
        lines
    }

    fn facts(&self, facts: &[(String, String)]) -> Vec<String> {
        let lengths = facts.iter().map(|(label, _)| label.chars().count());
        let wide = lengths.filter(|length| *length <= LABEL).max().unwrap_or(0);
        let indent = " ".repeat(wide + 2);
        let fact = |(label, value): &(String, String)| {
            hanging(&format!("{:wide$}  ", clean(label)), value, self.width, &indent)
        };
        facts.iter().flat_map(fact).collect()
    }

    fn prose(&self, tone: Tone, text: &str) -> Vec<String> {
        if text.is_empty() {
            return Vec::new();
        }
        let style = match tone {
            Tone::Plain | Tone::Mark | Tone::Code => None,
            Tone::Lead => Some(Style::Lead),
            Tone::Soft => Some(Style::Soft),
            Tone::Good => Some(Style::Good),
            Tone::Bad => Some(Style::Bad),
        };
        let lines = hanging("", text, self.readable(), "  ");
        lines.into_iter().map(|line| self.paint(style, &line)).collect()
    }

    fn readable(&self) -> usize {
        self.width.min(READABLE)
    }

    fn paint(&self, style: Option<Style>, text: &str) -> String {
        match style.filter(|_| self.colour) {
            Some(style) => styled(style, text),
            None => text.to_owned(),
        }
    }
}

/// Text in lines of at most `width` characters: the first behind `label`, the others behind
/// `indent`.
fn hanging(label: &str, text: &str, width: usize, indent: &str) -> Vec<String> {
    let first = width.saturating_sub(label.chars().count());
    let rest = width.saturating_sub(indent.chars().count());
    let lines = wrap(text, first, rest);
    let mut lines = lines.into_iter().enumerate().map(|(at, line)| {
        let line = if at == 0 { format!("{label}{line}") } else { format!("{indent}{line}") };
        line.trim_end().to_owned()
    });
    let head = lines.next().unwrap_or_else(|| label.trim_end().to_owned());
    std::iter::once(head).chain(lines).collect()
}

/// Words in lines: the first of at most `first` characters, the others of at most `rest`. Blanks at
/// the beginning stay, for they may be the indent of a tree.
pub(super) fn wrap(text: &str, first: usize, rest: usize) -> Vec<String> {
    wrap_as(text, first, rest, clean)
}

/// Columns that a text takes: marks of styles take none.
fn length(text: &str) -> usize {
    text.chars().filter(|c| !is_mark(*c)).count()
}

/// As [`wrap`], each word as `shown` makes it.
fn wrap_as(text: &str, first: usize, rest: usize, shown: fn(&str) -> String) -> Vec<String> {
    let indent: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut lines: Vec<String> = Vec::new();
    let mut line = indent;
    let mut length = line.chars().count();
    let mut begun = false;
    for word in text.split_whitespace() {
        let word = shown(word);
        let mut word = word.as_str();
        loop {
            let room = if lines.is_empty() { first } else { rest }.max(1);
            let blank = usize::from(begun);
            let count = self::length(word);
            if length + blank + count <= room {
                if begun {
                    line.push(' ');
                }
                line.push_str(word);
                length += blank + count;
                begun = true;
                break;
            }
            // A word that no line holds is cut; any other begins the next line.
            if !begun || count > rest.max(1) {
                let free = room.saturating_sub(length + blank);
                if !begun || free > room / 2 {
                    let cut = cut_at(word, free.max(1));
                    let (head, tail) = word.split_at_checked(cut).unwrap_or((word, ""));
                    if begun {
                        line.push(' ');
                    }
                    line.push_str(head);
                    word = tail;
                }
            }
            lines.push(std::mem::take(&mut line));
            (length, begun) = (0, false);
            if word.is_empty() {
                break;
            }
        }
    }
    if begun || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Place at which to cut a word so that its head has at most `room` characters: behind a separator,
/// if there is one in the second half.
fn cut_at(word: &str, room: usize) -> usize {
    let mut end = word.len();
    let mut separator = None;
    for (count, (at, c)) in word.char_indices().enumerate() {
        if count == room {
            end = at;
            break;
        }
        if count >= room / 2 && matches!(c, '/' | ',' | '=' | ';' | '+' | '-') {
            separator = Some(at + c.len_utf8());
        }
    }
    separator.filter(|at| *at < end).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_asked_and_no_word_is_lost() {
        let text = "one two /sys/devices/system/cpu/cpufreq/policy0/scaling_governor = x three";
        for width in 1..90 {
            let lines = wrap(text, width, width);
            assert!(lines.iter().all(|l| l.chars().count() <= width), "{width}: {lines:?}");
            let bare = |text: &str| text.replace(char::is_whitespace, "");
            assert_eq!(bare(&lines.concat()), bare(text), "{width}: {lines:?}");
        }
    }

    #[test]
    fn long_lines_hang_below_themselves_and_keep_their_styles() {
        let text = Text { width: 20, colour: true };
        let line = format!("  {} and more of it\nshort", styled(Style::Bad, "one two three four"));
        assert_eq!(
            text.folded(&line),
            "  \u{fdd4}one two three four\u{fdd0}\n      and more of it\nshort"
        );
    }

    #[test]
    fn a_long_path_is_cut_behind_a_separator() {
        assert_eq!(wrap("/sys/class/net/eth0/queues", 16, 16), ["/sys/class/net/", "eth0/queues"]);
    }

    #[test]
    fn nothing_in_a_text_steers_the_terminal() {
        let document = Document::new("eth0\x1b[2J\x07\r\nx");
        assert_eq!(Text::default().render(&document), "eth0\u{fffd}[2J\u{fffd} x\n");
    }
}
