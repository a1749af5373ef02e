//! Ctrl-C, SIGTERM and SIGHUP: a flag that every long-running stage looks at, so that each ends
//! by putting everything back.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::low_level::pipe;

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

/// Signals of a service that goes on until it is ended.
pub(super) struct Signals {
    /// Raised by Ctrl-C and SIGTERM.
    pub(super) stop: Arc<AtomicBool>,
    /// Raised by SIGHUP.
    pub(super) reload: Arc<AtomicBool>,
    /// Readable after each of them, so that none falls between a look at a flag and a wait.
    pub(super) wake: UnixStream,
}

impl Signals {
    /// Listens to them.
    ///
    /// # Errors
    /// When the handlers can't be installed.
    pub(super) fn new() -> Result<Self> {
        let failed = |e| Error::not_supported("install a signal handler", e);
        let (stop, reload) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let (wake, far) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        for (signal, raised) in [(SIGINT, &stop), (SIGTERM, &stop), (SIGHUP, &reload)] {
            flag::register(signal, Arc::clone(raised)).map_err(failed)?;
            let far = far.try_clone().map_err(failed)?;
            pipe::register(signal, far).map_err(failed)?;
        }
        Ok(Self { stop, reload, wake })
    }

    /// Forgets that it was woken.
    pub(super) fn settle(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(1..)) {}
    }
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
