//! Text on its way to a terminal. Styles are marks in a text until [`shown`] turns them into colour
//! codes; everything else that steers a terminal, wherever it came from, is shown as its number.

use std::borrow::Cow;
use std::fmt::Write;

/// Emphasis of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Headings.
    Lead,
    /// Text that matters less.
    Soft,
    /// Text for what is well.
    Good,
    /// Text that needs attention.
    Bad,
}

/// Marks of the styles and of their end, with the colour codes that they stand for. The marks are
/// noncharacters, which no text that is exchanged may hold.
const MARKS: [(char, &str); 5] = [
    ('\u{fdd0}', "\x1b[0m"),
    ('\u{fdd1}', "\x1b[1m"),
    ('\u{fdd2}', "\x1b[2m"),
    ('\u{fdd3}', "\x1b[32m"),
    ('\u{fdd4}', "\x1b[33m"),
];

/// The text with the marks of a style around it.
#[must_use]
pub fn styled(style: Style, text: &str) -> String {
    let mark = match style {
        Style::Lead => '\u{fdd1}',
        Style::Soft => '\u{fdd2}',
        Style::Good => '\u{fdd3}',
        Style::Bad => '\u{fdd4}',
    };
    format!("{mark}{text}\u{fdd0}")
}

/// True if a terminal does more with the character than show it: control characters of both sets,
/// those that change the direction of text, other ends of lines, and our own marks.
#[must_use]
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}' | '\u{fdd0}'..='\u{fdef}')
}

/// True if the character is a mark of a style, which takes no room.
pub(super) fn is_mark(c: char) -> bool {
    MARKS.iter().any(|(mark, _)| *mark == c)
}

/// Text in ASCII, for a terminal that knows no more: what has no likeness is a question mark.
#[must_use]
pub fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{2192}' => out.push('>'),
            '\u{b1}' => out.push_str("+-"),
            '\u{d7}' => out.push('x'),
            '\u{2500}' | '\u{2013}' => out.push('-'),
            '\u{2502}' | '\u{251c}' => out.push('|'),
            '\u{2514}' => out.push('`'),
            '\u{b5}' => out.push('u'),
            c if c.is_ascii() || is_mark(c) || steers(c) => out.push(c),
            _ => out.push('?'),
        }
    }
    Cow::Owned(out)
}

/// The text for a terminal or a file: what steers is escaped as JSON and TOML would (`\u001b`), save
/// ends of lines, tabs and, if `colour` is wanted, the marks of styles.
#[must_use]
pub fn shown(text: &str, colour: bool) -> Cow<'_, str> {
    let escaped = |c: char| steers(c) && c != '\n' && c != '\t';
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        match MARKS.iter().find(|(mark, _)| colour && *mark == c) {
            Some((_, code)) => out.push_str(code),
            // Writing to a string never fails.
            None if escaped(c) => drop(write!(out, "\\u{:04x}", u32::from(c))),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_keeps_what_stands_for_something() {
        assert_eq!(ascii("\u{251c}\u{2500} 5 \u{b1} 1 \u{2192} \u{e4}\n"), "|- 5 +- 1 > ?\n");
        assert!(matches!(ascii("plain"), Cow::Borrowed(_)));
        assert_eq!(shown(&ascii(&styled(Style::Bad, "x")), true), "\x1b[33mx\x1b[0m");
    }

    #[test]
    fn only_our_own_styles_become_colour_codes() {
        let text = styled(Style::Bad, "a\x1b[31mb\r\u{9b}2J\u{202e}c\n");
        assert_eq!(shown(&text, true), "\x1b[33ma\\u001b[31mb\\u000d\\u009b2J\\u202ec\n\x1b[0m");
        assert_eq!(shown("eth0\u{fdd1}", false), "eth0\\ufdd1", "no mark without colours");
        assert!(matches!(shown("→ é\t\n", true), Cow::Borrowed(_)));
    }
}
