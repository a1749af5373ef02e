//! The terminal: its modes, its size, what is drawn on it and what is typed. However the program ends,
//! the terminal is left as it was found.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::{flag, low_level};

use super::keys;
use crate::cli::output;
use crate::error::{Error, Result};
use crate::machine::host::clock;
use crate::machine::sys::poll::{Wanted, are_ready};
use crate::report::render::terminal::steers;
use crate::report::top::{Key, Look, View, draw};

/// Columns and lines of a terminal that does not tell, as serial ones do not.
const USUAL: (u16, u16) = (80, 24);
/// Wait for the rest of a key: at 9600 baud a character takes a millisecond.
const REST: Duration = Duration::from_millis(30);

/// The modes that the terminal was found in, and whether it has a second screen; `None` while it is as it
/// was found.
static FOUND: Mutex<Option<(Termios, bool)>> = Mutex::new(None);

/// The terminal that is drawn on.
pub(super) struct Screen {
    look: Look,
    has_second: bool,
    shown: Buffer,
    signals: UnixStream,
    stop: Arc<AtomicBool>,
}

/// End of a wait.
pub(super) enum Woken {
    /// Keys, or none when the time has come.
    Keys(Vec<Key>),
    /// Another size, or the shell let it go on.
    Redraw,
    /// A signal that ends programs.
    Stop,
    /// Nothing can be typed any more.
    Closed,
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::not_supported("draw on the terminal", e)
}

impl Screen {
    /// Looks whether there is a terminal to draw on, and changes nothing yet.
    pub(super) fn check(colour: bool) -> Result<Self> {
        let refused = |why: &str| {
            failed(why).hint(
                "linerate record writes the same as lines, and linerate top --once prints one look",
            )
        };
        if !isatty(io::stdin()) || !output::is_terminal() {
            return Err(refused("stdin and stdout are no terminal"));
        }
        let term = std::env::var("TERM").unwrap_or_default();
        if matches!(term.as_str(), "" | "dumb" | "unknown" | "vt52") {
            return Err(refused(&format!("it has no cursor that can be moved (TERM={term})")));
        }
        let has_none = term.starts_with("vt") || term.ends_with("-m") || term.ends_with("-mono");
        let (signals, theirs) = UnixStream::pair().map_err(failed)?;
        signals.set_nonblocking(true).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT] {
            let end = theirs.try_clone().map_err(failed)?;
            low_level::pipe::register(signal, end).map_err(failed)?;
        }
        Ok(Self {
            look: Look { colour: colour && !has_none, ascii: output::is_ascii() },
            has_second: !term.starts_with("vt") && term != "linux" && term != "ansi",
            shown: Buffer::default(),
            signals,
            stop,
        })
    }

    /// Takes the terminal. It is given back when this is dropped, and by a panic.
    pub(super) fn open(&mut self) -> Result<()> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                give_back();
                usual(info);
            }));
        });
        let found = tcgetattr(io::stdin()).map_err(failed)?;
        let mut raw = found.clone();
        raw.make_raw();
        *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = Some((found, self.has_second));
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(failed)?;
        let second = if self.has_second { "\x1b[?1049h" } else { "" };
        output::to_screen(&format!("{second}\x1b[?25l")).map_err(failed)?;
        self.shown = Buffer::default();
        Ok(())
    }

    /// Stops, as the shell's Ctrl-Z does, until the shell lets it go on.
    pub(super) fn suspend(&mut self) -> Result<()> {
        give_back();
        rustix::process::kill_current_process_group(Signal::TSTP).map_err(failed)?;
        self.open()
    }

    /// Draws the view; only what is not there already is sent.
    pub(super) fn show(&mut self, view: &View) -> Result<()> {
        let area = size();
        let mut next = Buffer::empty(area);
        draw(view, &mut next, self.look);
        let mut sent = String::new();
        if self.shown.area != area {
            sent += "\x1b[0m\x1b[2J";
            self.shown = Buffer::empty(area);
        }
        let (mut at, mut style) = (None, None);
        for (x, y, cell) in self.shown.diff(&next) {
            if at != Some((x, y)) {
                sent += &format!("\x1b[{};{}H", y + 1, x + 1);
            }
            let now = (cell.fg, cell.modifier);
            if style != Some(now) {
                sent += &codes(now.0, now.1);
                style = Some(now);
            }
            let symbol = harmless(cell);
            sent += symbol;
            // Wide characters move the cursor by more.
            at = symbol.is_ascii().then_some((x + 1, y));
        }
        if style.is_some() {
            sent += "\x1b[0m";
        }
        self.shown = next;
        if sent.is_empty() { Ok(()) } else { output::to_screen(&sent).map_err(failed) }
    }

    /// Waits for keys, a signal or `due`.
    pub(super) fn wait(&mut self, due: Duration) -> Result<Woken> {
        let mut typed = Vec::new();
        let mut until = due;
        loop {
            let left = until.saturating_sub(clock::monotonic());
            let stdin = io::stdin();
            let two = [(stdin.as_fd(), Wanted::Read), (self.signals.as_fd(), Wanted::Read)];
            let [keys, signals] = are_ready(two, left).map_err(failed)?;
            if signals {
                // How many there were does not matter.
                drop(self.signals.read(&mut [0; 64]));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Woken::Stop);
            }
            // A signal ended the wait, and what it says can be read now.
            if !keys && !signals && clock::monotonic() < until {
                continue;
            }
            if keys {
                let mut bytes = [0; 64];
                match rustix::io::read(io::stdin(), &mut bytes) {
                    Ok(0) | Err(Errno::IO) => return Ok(Woken::Closed),
                    Ok(length) => typed.extend(bytes.iter().take(length)),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(e) => return Err(failed(e)),
                }
                if keys::is_cut(&typed) {
                    until = clock::monotonic() + REST;
                    continue;
                }
            }
            if signals && typed.is_empty() {
                // The shell may have set other modes meanwhile.
                give_back();
                self.open()?;
                return Ok(Woken::Redraw);
            }
            return Ok(Woken::Keys(keys::keys(&typed)));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Leaves the terminal as it was found. Does nothing where that is done.
fn give_back() {
    let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((modes, has_second)) = found else { return };
    // Nobody is left to be told.
    drop(match has_second {
        true => output::to_screen("\x1b[0m\x1b[?25h\x1b[?1049l"),
        false => output::to_screen("\x1b[0m\x1b[H\x1b[2J\x1b[?25h"),
    });
    tcsetattr(io::stdin(), OptionalActions::Drain, &modes).unwrap_or_default();
}

/// Columns and lines: what COLUMNS and LINES say, else what the terminal says.
fn size() -> Rect {
    let said = |name| std::env::var(name).ok().and_then(|text| text.parse::<u16>().ok());
    let told = tcgetwinsize(io::stdin()).ok();
    let one = |name, told: Option<u16>, usual| {
        let told = told.filter(|n| *n > 0).or_else(|| said(name).filter(|n| *n > 0));
        told.unwrap_or(usual)
    };
    let width = one("COLUMNS", told.map(|size| size.ws_col), USUAL.0);
    let height = one("LINES", told.map(|size| size.ws_row), USUAL.1);
    // A grid of more cells than 65,535 is none that a person reads.
    let width = width.min(1000);
    Rect::new(0, 0, width, height.min(u16::MAX / width))
}

/// A cell's text. It came through [`draw`], which lets nothing pass that steers a terminal; this holds it.
fn harmless(cell: &Cell) -> &str {
    if cell.symbol().contains(steers) { "?" } else { cell.symbol() }
}

/// Codes of a style (ECMA-48, SGR).
fn codes(colour: Color, modifier: Modifier) -> String {
    let mut codes = "\x1b[0".to_owned();
    for (one, code) in [(Modifier::BOLD, ";1"), (Modifier::REVERSED, ";7")] {
        codes += if modifier.contains(one) { code } else { "" };
    }
    codes += match colour {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Blue => ";34",
        Color::Magenta => ";35",
        Color::DarkGray => ";90",
        _ => "",
    };
    codes + "m"
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rexpect::session::spawn_command;

    use super::Screen;

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was_found() {
        const INSIDE: &str = "LINERATE_TEST_PANICS_ON_A_TERMINAL";
        if std::env::var_os(INSIDE).is_some() {
            let mut screen = Screen::check(false).unwrap();
            screen.open().unwrap();
            // The program aborts when it panics: nothing is dropped.
            std::mem::forget(screen);
            panic!("as planned");
        }
        let script = "found=$(stty -g); \"$0\" \"$@\"; echo \"ended $?\"; \
                      [ \"$(stty -g)\" = \"$found\" ] && echo as-found || stty -a";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", std::thread::current().name().unwrap()]);
        command.env(INSIDE, "1").env("TERM", "xterm");
        let mut terminal = spawn_command(command, Some(60_000)).unwrap();
        for said in ["\x1b[?1049h", "\x1b[?25h\x1b[?1049l", "as planned", "ended 101", "as-found"] {
            terminal.exp_string(said).unwrap_or_else(|e| panic!("{said:?}: {e}"));
        }
    }
}
