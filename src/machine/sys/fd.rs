//! Closing a descriptor and hearing about it.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

/// Closes a descriptor; some kernel files report a refused write only here, and dropping a
/// [`std::fs::File`] would lose that.
///
/// # Errors
/// What close(2) answered.
pub fn close(fd: impl Into<OwnedFd>) -> io::Result<()> {
    #[expect(unsafe_code, reason = "close(2) with its error")]
    // SAFETY: the descriptor is owned here and given up by `into_raw_fd`, so it is closed once.
    unsafe {
        Ok(rustix::io::try_close(fd.into().into_raw_fd())?)
    }
}
