//! Data on stdout, messages on stderr, colours where they help. This is the one door for text:
//! nothing that came from elsewhere steers the terminal behind it.

#![expect(clippy::disallowed_methods, reason = "the door to stdout and stderr")]

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::shared::{ColorWhen, Global};
use crate::error::{Error, ExitCode, Result};
use crate::machine::store::json;
use crate::report::document::{Document, Table};
use crate::report::render::terminal::{Style, ascii, shown, styled};
use crate::report::render::{Render, Text};

/// The fewest columns that text is made for.
const NARROWEST: usize = 40;

/// The ways in which a command prints.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Print JSON.
    pub json: bool,
    quiet: bool,
    /// The verb is there for what it does: its exit code tells of that, whatever becomes of the output.
    changes: bool,
    verbose: bool,
    color: bool,
    stderr_is_terminal: bool,
    width: usize,
}

impl Output {
    /// As the options and the terminal ask, for a verb that `changes` something or that only looks.
    #[must_use]
    pub fn new(global: &Global, changes: bool) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let color = match global.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => std::io::stdout().is_terminal() && !no_color,
        };
        Self {
            json: global.json,
            quiet: global.quiet,
            changes,
            verbose: global.verbose > 0,
            color,
            stderr_is_terminal: std::io::stderr().is_terminal(),
            width: columns(),
        }
    }

    /// Plain text of so many columns.
    #[cfg(test)]
    pub(in crate::cli) fn of_width(width: usize) -> Self {
        Self {
            json: false,
            quiet: false,
            changes: false,
            verbose: false,
            color: false,
            stderr_is_terminal: false,
            width,
        }
    }

    /// Writes data. A reader that has gone away (`| head`) ends a verb that only looks quietly. One that
    /// changes something goes on, says in a line what was not printed, and with `-q` prints only JSON.
    ///
    /// # Errors
    /// When stdout can't be written, of a verb that only looks.
    pub fn data(&self, text: impl Display) -> Result<()> {
        if self.quiet && self.changes && !self.json {
            return Ok(());
        }
        let text = text.to_string();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let stream = if self.changes { Stream::Report } else { Stream::Data };
        put(stream, shown(&text, self.color).into_owned() + end)
    }

    /// Writes text for people: within the width, and nothing with `-q`, for the exit code tells the rest.
    ///
    /// # Errors
    /// As [`Output::data`].
    pub fn tell(&self, text: impl Display) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        self.data(legible(&self.text().folded(&text.to_string())))
    }

    /// Lines of a table within the width.
    #[must_use]
    pub fn table(&self, table: &Table) -> Vec<String> {
        self.text().table(table)
    }

    /// Lets all output of this process wait, in order, until what this gives is dropped: nothing is
    /// printed while a lock is held, for whoever reads it may be paused.
    #[must_use = "the output waits only as long as this is there"]
    pub fn later(&self) -> Later {
        waiting().get_or_insert_default();
        Later(None)
    }

    /// Lets a thread print all output of this process, in order, until what this gives is dropped: a verb
    /// that holds a lock for minutes goes on where whoever reads it is paused.
    #[must_use = "the thread prints only as long as this is there"]
    pub fn aside(&self) -> Later {
        waiting().get_or_insert_default();
        let printer = std::thread::Builder::new().spawn(print_meanwhile);
        // Without a thread it is printed at the end.
        Later(printer.ok())
    }

    /// Writes a document as text, as wide as the terminal.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn document(&self, document: &Document) -> Result<()> {
        self.tell(self.text().render(document))
    }

    /// Text as the terminal shows it: its width, and colours if they are wanted.
    #[must_use]
    pub fn text(&self) -> Text {
        Text { width: self.width, colour: self.color }
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn json(&self, value: &impl serde::Serialize) -> Result<()> {
        let text = json::pretty(value).map_err(|e| Error::usage("write the answer as JSON", e))?;
        self.data(text)
    }

    /// A message to the user, unless asked to be quiet.
    pub fn say(&self, message: impl Display) {
        if !self.quiet {
            to_stderr(&message.to_string(), self.color);
        }
    }

    /// The user asked for nothing but what failed.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The user asked for more.
    #[must_use]
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// A progress line: redrawn in place on a terminal, nothing elsewhere.
    pub fn progress(&self, line: impl Display) {
        if self.stderr_is_terminal && !self.quiet {
            let line = legible(&line.to_string()).replace('\n', " ");
            // The last column stays free: some terminals wrap there.
            let room = terminal_width(std::io::stderr()).unwrap_or(self.width).saturating_sub(1);
            let line: String = line.chars().take(room).collect();
            redraw(&shown(&line, false));
        }
    }

    /// Takes the progress line away.
    pub fn progress_done(&self) {
        if self.stderr_is_terminal && !self.quiet {
            redraw("");
        }
    }

    /// Progress is redrawn in place.
    #[must_use]
    pub fn has_live_progress(&self) -> bool {
        self.stderr_is_terminal && !self.quiet
    }

    /// Headings.
    #[must_use]
    pub fn bold(&self, text: impl Display) -> String {
        self.paint(Style::Lead, text)
    }

    /// Text that matters less.
    #[must_use]
    pub fn dim(&self, text: impl Display) -> String {
        self.paint(Style::Soft, text)
    }

    /// Text that needs attention.
    #[must_use]
    pub fn warn(&self, text: impl Display) -> String {
        self.paint(Style::Bad, text)
    }

    /// Text for what is well.
    #[must_use]
    pub fn good(&self, text: impl Display) -> String {
        self.paint(Style::Good, text)
    }

    fn paint(&self, style: Style, text: impl Display) -> String {
        if self.color { styled(style, &text.to_string()) } else { text.to_string() }
    }
}

/// Columns of a line: what COLUMNS says, else what the terminal says, else what a file gets. Text
/// in fewer than [`NARROWEST`] columns can't be read.
pub(super) fn columns() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_width(std::io::stdout());
    let columns = asked.filter(|columns| *columns > 0).or_else(terminal);
    columns.unwrap_or(Text::default().width).max(NARROWEST)
}

fn terminal_width(terminal: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// True in the C locale, which has nothing but ASCII.
pub(super) fn is_ascii() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let locale = said.into_iter().find(|value| !value.is_empty());
    locale.is_some_and(|locale| locale == "C" || locale == "POSIX")
}

/// True if stdout is a terminal.
#[cfg(feature = "top")]
pub(super) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Sends what draws a screen: codes that place the cursor, and text that steers nothing.
#[cfg(feature = "top")]
pub(super) fn to_screen(codes: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(codes.as_bytes())?;
    out.flush()
}

/// The text as the locale can show it.
fn legible(text: &str) -> String {
    match is_ascii() {
        true => ascii(text).into_owned(),
        false => text.to_owned(),
    }
}

/// Prints an error in the project's form.
pub fn print_error(error: &Error) {
    if error.code() == ExitCode::Done {
        return;
    }
    to_stderr(&format!("linerate: {error}"), false);
    if let Some(hint) = error.remedy() {
        to_stderr(&format!("hint: {hint}"), false);
    }
}

/// Help of the command line, on the stream that clap means it for.
pub(super) fn print_help(help: &clap::Error) {
    let text = help.render().to_string();
    // Nobody is left to be told when neither stdout nor stderr can be written.
    match help.use_stderr() {
        true => to_stderr(text.trim_end(), false),
        false => drop(std::io::stdout().lock().write_all(shown(&text, false).as_bytes())),
    }
}

/// A line of its own. Nobody is left to be told when stderr can't be written.
pub(super) fn to_stderr(text: &str, color: bool) {
    let text = match terminal_width(std::io::stderr()) {
        Some(width) => Text { width: width.max(NARROWEST), colour: color }.folded(text),
        None => text.to_owned(),
    };
    drop(put(Stream::Messages, format!("{}\n", shown(&legible(&text), color))));
}

/// A line in place of the last one; `line` steers nothing.
fn redraw(line: &str) {
    drop(put(Stream::Progress, format!("\r\x1b[K{line}")));
}

/// Ways out, and who depends on them.
#[derive(Debug, Clone, Copy)]
enum Stream {
    /// Stdout, which the verb is there for.
    Data,
    /// Stdout, of a verb that is there for what it does.
    Report,
    /// Stderr.
    Messages,
    /// A line on stderr that the next one of its kind replaces.
    Progress,
}

/// That a report could not be printed is said once.
static LOST: AtomicBool = AtomicBool::new(false);

/// Output that waits until a lock is given back, or for the thread that prints it.
#[derive(Debug, Default)]
struct Waiting {
    all: Vec<(Stream, String)>,
    /// No more of it comes.
    over: bool,
}

/// `None` where output is printed at once.
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

/// Tells the thread that there is more to print, or that no more comes.
static MORE: Condvar = Condvar::new();

fn waiting() -> MutexGuard<'static, Option<Waiting>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(stream: Stream, text: String) -> Result<()> {
    if let Some(waiting) = waiting().as_mut() {
        if matches!(stream, Stream::Progress)
            && matches!(waiting.all.last(), Some((Stream::Progress, _)))
        {
            waiting.all.pop();
        }
        waiting.all.push((stream, text));
        MORE.notify_all();
        return Ok(());
    }
    print(stream, &text)
}

fn print(stream: Stream, text: &str) -> Result<()> {
    match stream {
        Stream::Messages | Stream::Progress => {
            drop(std::io::stderr().lock().write_all(text.as_bytes()));
            Ok(())
        }
        Stream::Data | Stream::Report => {
            let mut out = std::io::stdout().lock();
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            drop(out);
            written.or_else(|e| {
                if matches!(stream, Stream::Report) {
                    if !LOST.swap(true, Ordering::Relaxed) {
                        to_stderr(
                            &format!("linerate: write to stdout: {e}; nothing else is amiss"),
                            false,
                        );
                    }
                    return Ok(());
                }
                Err(if e.kind() == std::io::ErrorKind::BrokenPipe {
                    Error::new(ExitCode::Done, "write to stdout", e)
                } else {
                    Error::not_supported("write to stdout", e)
                        .hint("make room where it goes, or let it go elsewhere")
                })
            })
        }
    }
}

/// Prints in order; after a failure of stdout only the messages.
fn print_all(all: Vec<(Stream, String)>, mut printed: Result<()>) -> Result<()> {
    for (stream, text) in all {
        if printed.is_ok() || matches!(stream, Stream::Messages) {
            printed = printed.and(print(stream, &text));
        }
    }
    printed
}

/// The thread of [`Output::aside`].
fn print_meanwhile() -> Result<()> {
    let mut printed = Ok(());
    let mut waits = waiting();
    loop {
        match waits.as_mut() {
            Some(now) if !now.all.is_empty() => {
                let all = std::mem::take(&mut now.all);
                // Nobody waits for who reads it.
                drop(waits);
                printed = print_all(all, printed);
                waits = waiting();
            }
            Some(now) if !now.over => {
                waits = MORE.wait(waits).unwrap_or_else(PoisonError::into_inner);
            }
            _ => break,
        }
    }
    *waits = None;
    printed
}

/// Output that waits ([`Output::later`]), or that a thread prints ([`Output::aside`]).
#[derive(Debug)]
pub struct Later(Option<JoinHandle<Result<()>>>);

impl Later {
    /// Prints what waited.
    ///
    /// # Errors
    /// When stdout can't be written; the messages are printed all the same.
    pub fn print(mut self) -> Result<()> {
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(printer) = self.0.take() {
            if let Some(now) = waiting().as_mut() {
                now.over = true;
            }
            MORE.notify_all();
            // A panic ends the whole program.
            return printer.join().unwrap_or(Ok(()));
        }
        // Not in an argument, which would hold on to it while printing.
        let all = waiting().take().unwrap_or_default().all;
        print_all(all, Ok(()))
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        // Where an error ends the verb, that is the one to report.
        drop(self.flush());
    }
}
