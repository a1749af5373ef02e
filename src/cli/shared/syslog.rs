//! Lines for the system's log: the kernel's, from which systemd and OpenWrt's logd take them.

use std::path::Path;

use crate::cli::context::Context;
use crate::error::{Error, Result};
use crate::machine::host::HostWrite;
use crate::machine::store::disk::Root;
use crate::report::render::terminal::shown;

/// Level of what is worth knowing, and of what needs somebody (syslog(3)).
pub(in crate::cli) const INFO: u8 = 6;
pub(in crate::cli) const WARNING: u8 = 4;

/// Writes a line, of the running system alone.
///
/// # Errors
/// Fails where the log can't be written, or this is not about the running system.
pub(in crate::cli) fn line(context: &Context, level: u8, text: &str) -> Result<()> {
    if !Root::of_environment().is_here() {
        return Err(Error::usage("log", "not the running system"));
    }
    let host = context.live("log")?;
    host.write(Path::new("/dev/kmsg"), record(level, text).as_bytes())
        .map_err(|e| Error::not_supported("log", e))
}

/// Most bytes of a record: the kernel refuses longer ones as a whole (`devkmsg_write`, LOG_LINE_MAX is
/// 992).
const MOST: usize = 960;

/// A record of the log: one line, which steers no console, and whose end is left out where it is too
/// long.
fn record(level: u8, text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut record = format!("<{level}>linerate: {}", shown(&words.join(" "), false));
    if record.len() > MOST {
        let cut = (0..=MOST).rev().find(|at| record.is_char_boundary(*at)).unwrap_or(0);
        record.truncate(cut);
        record.push_str(" ...");
    }
    record + "\n"
}

/// Notes what a verb that was called by hand has done, for whoever looks later.
pub(in crate::cli) fn note(context: &Context, text: &str) {
    if let Err(e) = line(context, INFO, text) {
        log::debug!("{e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_that_the_kernel_takes_and_no_console_obeys() {
        assert_eq!(record(6, "apply: 2 settings made"), "<6>linerate: apply: 2 settings made\n");
        let left = "3 settings are not as before:\n  /sys/class/net/a\x1b[2J\r\u{202e}b: 1\n";
        let told = record(WARNING, &left.repeat(40));
        assert!(told.len() <= 992 && told.ends_with(" ...\n"), "{}", told.len());
        assert!(!told.trim_end().contains(|c: char| c.is_control() || c == '\u{202e}'), "{told:?}");
        assert!(record(WARNING, &"ü".repeat(900)).len() <= 992);
    }
}
