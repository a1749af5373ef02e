//! Time. Routers often have no real-time clock, so durations and deadlines never use wall time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::ClockId;

use crate::machine::sys::clock::read;

/// The time that a process waits by: the kernel's, or a test's own.
pub trait Clock {
    /// As [`boottime`].
    fn boottime(&self) -> Duration;
    /// As [`sleep`].
    fn sleep(&self, duration: Duration);
}

/// The kernel's time.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl Clock for System {
    fn boottime(&self) -> Duration {
        boottime()
    }

    fn sleep(&self, duration: Duration) {
        sleep(duration);
    }
}

/// Monotonic time since boot, suspend included (CLOCK_BOOTTIME): for deadlines that other
/// processes share.
#[must_use]
pub fn boottime() -> Duration {
    read(ClockId::Boottime)
}

/// Monotonic time for measuring (CLOCK_MONOTONIC).
#[must_use]
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

/// CPU time that this process has used, all threads.
#[must_use]
pub fn own_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// CPU time that this thread has used.
#[must_use]
pub fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Wall time as RFC 3339 in UTC, to the second.
#[must_use]
pub fn wall() -> String {
    rfc3339(read(ClockId::Realtime).as_secs())
}

/// Wall time in milliseconds since 1970 in UTC.
#[must_use]
pub fn wall_milliseconds() -> u64 {
    u64::try_from(read(ClockId::Realtime).as_millis()).unwrap_or(u64::MAX)
}

/// Sleeps.
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Waits until `due` ([`monotonic`]), looking at `stop` once per `slice`; false when it was raised.
#[must_use = "whether the time was waited for"]
pub fn wait_until(due: Duration, slice: Duration, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        match due.checked_sub(monotonic()) {
            Some(left) if !left.is_zero() => sleep(left.min(slice)),
            _ => return true,
        }
    }
}

/// Seconds since 1970 as `YYYY-MM-DDThh:mm:ssZ` (civil-from-days, H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms").
fn rfc3339(seconds: u64) -> String {
    let days = seconds / 86400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn wall_time_is_a_calendar_date() {
        // `date -u -d @N +%FT%TZ` gives the same.
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_238_645), "2026-11-21T05:24:05Z");
    }
}
