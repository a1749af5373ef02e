//! The kernel's clocks.

use std::time::Duration;

use rustix::time::ClockId;

/// The clock's time, to the nanosecond; zero for a time before its zero.
#[cfg(not(all(target_env = "musl", target_endian = "big", target_pointer_width = "32")))]
#[must_use]
pub fn read(clock: ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    Duration::new(now.tv_sec.max(0).unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The clock's time, to the nanosecond; zero for a time before its zero.
///
/// musl's `struct timespec` has its nanoseconds in the last four of its sixteen bytes here; rustix 1.1
/// takes them from the four before, where musl pads, and would always find none.
#[cfg(all(target_env = "musl", target_endian = "big", target_pointer_width = "32"))]
#[expect(unsafe_code, reason = "musl's own call, with its own structure")]
#[must_use]
pub fn read(clock: ClockId) -> Duration {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        padding: u32,
        nanoseconds: u32,
    }
    unsafe extern "C" {
        fn __clock_gettime64(clock: i32, now: *mut Timespec) -> i32;
    }
    let mut now = Timespec { seconds: 0, padding: 0, nanoseconds: 0 };
    // SAFETY: `now` is what musl 1.2 declares, and lives until the call returns.
    unsafe { __clock_gettime64(clock as i32, &raw mut now) };
    Duration::new(now.seconds.max(0).unsigned_abs(), now.nanoseconds.min(999_999_999))
}
