//! Lines for the system's log: the kernel's, from which systemd and OpenWrt's logd take them.

use std::path::Path;

use crate::cli::context::Context;
use crate::error::{Error, Result};
use crate::machine::host::HostWrite;
use crate::machine::store::disk::Root;

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
    let line = format!("<{level}>linerate: {text}\n");
    host.write(Path::new("/dev/kmsg"), line.as_bytes()).map_err(|e| Error::not_supported("log", e))
}

/// Notes what a verb that was called by hand has done, for whoever looks later.
pub(in crate::cli) fn note(context: &Context, text: &str) {
    if let Err(e) = line(context, INFO, text) {
        log::debug!("{e}");
    }
}
