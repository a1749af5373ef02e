//! Ctrl-C, SIGTERM and SIGHUP: a flag that every long-running stage looks at, so that each ends
//! by putting everything back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::error::{Error, ExitCode, Result};

/// Sets the returned flag on the first signal; the second ends the process at once (a lab is then
/// removed by the kernel, and a router's journal is settled by the next call).
///
/// # Errors
/// When the handlers can't be installed.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The order matters: the second signal finds the flag set and ends the process.
        flag::register_conditional_shutdown(
            signal,
            i32::from(ExitCode::Interrupted as u8),
            Arc::clone(&stop),
        )
        .and_then(|_| flag::register(signal, Arc::clone(&stop)))
        .map_err(|e| Error::not_supported("install a signal handler", e))?;
    }
    Ok(stop)
}

/// A file that may not grow (`ulimit -f`) is an error of its write, and not the end of the process.
///
/// # Errors
/// When the handler can't be installed.
pub(super) fn outlive_limit_of_size() -> std::io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Sets the returned flag on Ctrl-C alone.
///
/// # Errors
/// When the handler can't be installed.
pub(super) fn ctrl_c() -> Result<Arc<AtomicBool>> {
    let pressed = Arc::new(AtomicBool::new(false));
    flag::register(SIGINT, Arc::clone(&pressed))
        .map_err(|e| Error::not_supported("install a signal handler", e))?;
    Ok(pressed)
}
