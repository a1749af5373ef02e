//! Notes that stages make in passing, on stderr: warnings always, more with `-v`, all with `-vv`.

use log::{LevelFilter, Log, Metadata, Record};

use super::output::to_stderr;

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = record.level().as_str().to_lowercase();
        to_stderr(&format!("linerate: {level}: {}", record.args()), false);
    }

    fn flush(&self) {}
}

/// Begins logging at the level that the options ask for.
pub(super) fn start(quiet: bool, verbose: u8) {
    static STDERR: Stderr = Stderr;
    // Fails only when another logger is there already, which then serves as well.
    if log::set_logger(&STDERR).is_ok() {
        log::set_max_level(match (quiet, verbose) {
            (true, _) => LevelFilter::Off,
            (false, 0) => LevelFilter::Warn,
            (false, 1) => LevelFilter::Info,
            (false, _) => LevelFilter::Trace,
        });
    }
}
