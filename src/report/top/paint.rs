//! Text and curves on the grid. Every text goes through [`Canvas::text`]: nothing in a name of the machine
//! steers the terminal.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use crate::report::render::terminal;

/// Abilities of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// Colours.
    pub colour: bool,
    /// No character outside ASCII.
    pub ascii: bool,
}

/// Emphasis of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Lead,
    Soft,
    Good,
    Bad,
    Chosen,
}

/// Parts of a bar: softirq, irq, system, user. Each has a sign of its own, so that colours only repeat
/// what the signs say.
pub(super) const PARTS: [(&str, &str, Color); 4] = [
    ("\u{2588}", "#", Color::Red),
    ("\u{2593}", "%", Color::Magenta),
    ("\u{2592}", "=", Color::Blue),
    ("\u{2591}", "-", Color::Green),
];

/// Heights of a curve.
const HEIGHTS: [(&str, &str); 8] = [
    ("\u{2581}", "_"),
    ("\u{2582}", "."),
    ("\u{2583}", ":"),
    ("\u{2584}", "-"),
    ("\u{2585}", "="),
    ("\u{2586}", "+"),
    ("\u{2587}", "*"),
    ("\u{2588}", "#"),
];

/// A part of the grid that is drawn on, line by line.
pub(super) struct Canvas<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) area: Rect,
    pub(super) look: Look,
}

impl Canvas<'_> {
    fn style(&self, tone: Tone) -> Style {
        let coloured = |colour: Color, otherwise: Modifier| match self.look.colour {
            true => Style::new().fg(colour),
            false => Style::new().add_modifier(otherwise),
        };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Lead => Style::new().add_modifier(Modifier::BOLD),
            Tone::Soft => coloured(Color::DarkGray, Modifier::empty()),
            Tone::Good => coloured(Color::Green, Modifier::empty()),
            Tone::Bad => coloured(Color::Yellow, Modifier::BOLD),
            Tone::Chosen => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// Columns of the canvas.
    pub(super) fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    /// Lines of the canvas.
    pub(super) fn height(&self) -> usize {
        usize::from(self.area.height)
    }

    /// The part of it that begins at a line and has so many.
    pub(super) fn lines(&mut self, from: usize, count: usize) -> Canvas<'_> {
        let from = small(from).min(self.area.height);
        let height = small(count).min(self.area.height - from);
        let area = Rect { y: self.area.y + from, height, ..self.area };
        Canvas { buffer: &mut *self.buffer, area, look: self.look }
    }

    /// Puts a text into so many columns of a line; one that is too long ends in a mark.
    pub(super) fn text(&mut self, x: usize, y: usize, width: usize, tone: Tone, text: &str) {
        let style = self.style(tone);
        let room = width.min(self.width().saturating_sub(x));
        if y >= self.height() || room == 0 {
            return;
        }
        let text = clean(text, self.look);
        let (x, y) = (self.area.x + small(x), self.area.y + small(y));
        let (end, _) = self.buffer.set_stringn(x, y, &text, room, style);
        let told = usize::from(end.saturating_sub(x));
        if told + 1 >= room && columns(&text) > room {
            let mark = if self.look.ascii { "~" } else { "\u{2026}" };
            self.buffer.set_stringn(x + small(room) - 1, y, mark, 1, style);
        }
    }

    /// Puts a text to the right of so many columns.
    pub(super) fn right(&mut self, x: usize, y: usize, width: usize, tone: Tone, text: &str) {
        let free = width.saturating_sub(columns(&clean(text, self.look)));
        self.text(x + free, y, width - free, tone, text);
    }

    /// Marks a whole line as the chosen one.
    pub(super) fn choose(&mut self, y: usize) {
        if y < self.height() {
            let area = Rect { y: self.area.y + small(y), height: 1, ..self.area };
            self.buffer.set_style(area, self.style(Tone::Chosen));
        }
    }

    /// Draws the shares of a CPU's time in so many columns, in the order of [`PARTS`].
    pub(super) fn bar(&mut self, x: usize, y: usize, width: usize, shares: [f64; 4]) {
        if y >= self.height() {
            return;
        }
        let (mut sum, mut from) = (0.0, 0);
        for (share, (sign, plain, colour)) in shares.iter().zip(PARTS) {
            sum += share.clamp(0.0, 1.0);
            let to = width.min(rounded(sum * width as f64));
            let sign = if self.look.ascii { plain } else { sign };
            let style = if self.look.colour { Style::new().fg(colour) } else { Style::new() };
            for at in from..to {
                self.cell(x + at, y, sign, style);
            }
            from = from.max(to);
        }
    }

    /// Draws a curve in one line, as high as `highest` at most. What is not known stays blank.
    pub(super) fn curve(&mut self, x: usize, y: usize, values: &[Option<f64>], highest: f64) {
        if y >= self.height() {
            return;
        }
        let style = self.style(Tone::Good);
        for (at, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let share = if highest > 0.0 { (value / highest).clamp(0.0, 1.0) } else { 0.0 };
            let level = rounded(share * (HEIGHTS.len() - 1) as f64);
            let Some((sign, plain)) = HEIGHTS.get(level) else { continue };
            self.cell(x + at, y, if self.look.ascii { plain } else { sign }, style);
        }
    }

    fn cell(&mut self, x: usize, y: usize, sign: &str, style: Style) {
        let place = (self.area.x + small(x), self.area.y + small(y));
        if x < self.width()
            && let Some(cell) = self.buffer.cell_mut(place)
        {
            cell.set_symbol(sign).set_style(style);
        }
    }
}

/// A text as any terminal may have it.
fn clean(text: &str, look: Look) -> String {
    let text = terminal::shown(text, false).replace(['\n', '\t'], " ");
    if look.ascii { terminal::ascii(&text).into_owned() } else { text }
}

/// Columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    ratatui_core::text::Span::raw(text).width()
}

fn small(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
fn rounded(value: f64) -> usize {
    value.max(0.0).round() as usize
}

/// The lines of a grid as plain text.
#[must_use]
pub fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let mut all = String::new();
    for row in buffer.content.chunks(width) {
        let (mut line, mut skip) = (String::new(), 0_usize);
        for cell in row {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            line.push_str(cell.symbol());
            skip = columns(cell.symbol()).saturating_sub(1);
        }
        all.push_str(line.trim_end());
        all.push('\n');
    }
    all
}
