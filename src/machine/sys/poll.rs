//! Waiting for descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;

/// Event that a descriptor is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Something to read, a connection to accept, or the end.
    Read = 1,
    /// Room to write, or that a connection is made.
    Write = 4,
}

/// `struct pollfd` (include/uapi/asm-generic/poll.h).
#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

#[expect(unsafe_code, reason = "the C library's call, to which std is linked anyway")]
unsafe extern "C" {
    fn poll(fds: *mut PollFd, count: std::ffi::c_ulong, milliseconds: i32) -> i32;
}

/// Waits until the descriptor is ready, or has failed or ended; false when nothing was until then, or
/// when a signal came first ([`are_ready`]).
///
/// # Errors
/// ENOMEM.
pub fn is_ready(fd: impl AsFd, wanted: Wanted, at_most: Duration) -> io::Result<bool> {
    let [ready] = are_ready([(fd.as_fd(), wanted)], at_most)?;
    Ok(ready)
}

/// Waits until one of the descriptors is ready, or has failed or ended, and tells which are: none when
/// nothing was until then, or when a signal came first. A part of a millisecond counts as a whole one.
///
/// By poll(2) and not ppoll(2): rustix 1.1 has musl's `struct timespec` wrong on 32-bit big-endian
/// machines (see [`super::clock`]), and milliseconds are the same everywhere.
///
/// # Errors
/// ENOMEM.
pub fn are_ready<const N: usize>(
    fds: [(BorrowedFd<'_>, Wanted); N],
    at_most: Duration,
) -> io::Result<[bool; N]> {
    let milliseconds = at_most.as_nanos().div_ceil(1_000_000);
    let milliseconds = i32::try_from(milliseconds).unwrap_or(i32::MAX);
    let mut asked =
        fds.map(|(fd, wanted)| PollFd { fd: fd.as_raw_fd(), events: wanted as i16, revents: 0 });
    #[expect(unsafe_code, reason = "poll(2)")]
    // SAFETY: the descriptors are open while they are borrowed, and `asked` has so many structures.
    let answer = unsafe { poll(asked.as_mut_ptr(), N as std::ffi::c_ulong, milliseconds) };
    if answer < 0 {
        return match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(Errno::INTR.raw_os_error()) => Ok([false; N]),
            e => Err(e),
        };
    }
    Ok(asked.map(|one| one.revents != 0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_wait_ends_with_what_it_is_for_and_otherwise_no_sooner_than_asked() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let none = Duration::ZERO;
        assert!(!is_ready(&ours, Wanted::Read, none).unwrap());
        assert!(is_ready(&ours, Wanted::Write, none).unwrap());
        for asked in [Duration::from_micros(1), Duration::from_millis(30)] {
            let begun = Instant::now();
            assert!(!is_ready(&ours, Wanted::Read, asked).unwrap());
            assert!(begun.elapsed() >= asked, "{:?}", begun.elapsed());
        }
        let both = [(ours.as_fd(), Wanted::Write), (theirs.as_fd(), Wanted::Read)];
        assert_eq!(are_ready(both, none).unwrap(), [true, false]);
        // Longer than a C `int` of milliseconds: what is there already is told at once.
        drop(theirs);
        assert!(is_ready(&ours, Wanted::Read, Duration::MAX).unwrap(), "the end is news too");
    }
}
