//! Pacing: the times at which datagrams with a rate leave.
//!
//! As soon as one is due, those of the next millisecond go with it. A sender that is late makes up
//! for it in bursts that no queue takes for one, and never faster than a little above the rate; one
//! that must be steady makes up for next to nothing.

use std::time::Duration;

use super::udp::BATCH;

/// Highest rate, as a multiple of the one asked for, at which datagrams that a stall held back are
/// sent: as a burst they would overflow queues on the way, and look like loss at a rate that was
/// never asked for.
const CATCH_UP: f64 = 1.1;
/// A steady sender makes up for less than this, in seconds: a timer that came late, not a stall.
const LATE: f64 = 0.010;
/// So many in a row are no burst to any queue; a thread that waits for a CPU for longer than the
/// gap between two datagrams needs them to keep its rate.
const FEW: usize = 8;

/// Schedule of the datagrams that have a rate. Seconds count from `began`.
pub(super) struct Pace {
    /// Time from one datagram to the next.
    gap: f64,
    /// Datagrams that always go at once: 1 ms worth.
    batch: usize,
    steady: bool,
    began: Duration,
    /// Time at which the next datagram is due by the rate.
    due: f64,
    /// Time at which all datagrams so far would have gone at [`CATCH_UP`] times the rate.
    full: f64,
}

impl Pace {
    /// `rate` in bytes per second.
    pub(super) fn new(rate: f64, size: usize, steady: bool, began: Duration) -> Self {
        let batch = ((rate * 0.001 / size as f64) as usize).clamp(1, BATCH);
        Self { gap: size as f64 / rate, batch, steady, began, due: 0.0, full: 0.0 }
    }

    /// Datagrams that may go at once when they are late.
    fn most(&self) -> usize {
        self.batch.max(FEW)
    }

    /// Time at which the next datagram may go.
    pub(super) fn when(&self) -> Duration {
        let at = self.due.max(self.full - self.most() as f64 * self.gap / CATCH_UP);
        self.began + Duration::try_from_secs_f64(at).unwrap_or_default()
    }

    /// Number of datagrams that may go now.
    pub(super) fn count(&mut self, now: Duration) -> usize {
        let now = now.saturating_sub(self.began).as_secs_f64();
        if self.steady {
            self.due = self.due.max(now - LATE.max(self.most() as f64 * self.gap));
        }
        let late = ((now - self.due) / self.gap).max(0.0) as usize;
        (late + 1).clamp(self.batch, self.most())
    }

    /// So many were tried to be sent, and so many went.
    pub(super) fn went(&mut self, now: Duration, tried: usize, sent: usize) {
        let now = now.saturating_sub(self.began).as_secs_f64();
        self.full = self.full.max(now) + tried as f64 * self.gap / CATCH_UP;
        self.due += sent as f64 * self.gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends through a pace for `seconds` of simulated time, standing still from one time to
    /// another; gives when each datagram went.
    fn simulate(steady: bool, seconds: f64, still: (f64, f64)) -> Vec<f64> {
        // 1000 datagrams of 1000 bytes a second.
        let mut pace = Pace::new(1e6, 1000, steady, Duration::ZERO);
        let mut went = Vec::new();
        let mut now = 0.0_f64;
        loop {
            now = now.max(pace.when().as_secs_f64());
            if (still.0..still.1).contains(&now) {
                now = still.1;
            }
            if now >= seconds {
                return went;
            }
            let at = Duration::from_secs_f64(now);
            let count = pace.count(at);
            assert!((1..=FEW).contains(&count));
            pace.went(at, count, count);
            went.extend(std::iter::repeat_n(now, count));
        }
    }

    #[test]
    fn a_stall_is_made_up_for_slowly_or_not_at_all() {
        let busiest = |went: &[f64]| {
            let count = |from: f64| went.iter().filter(|t| (from..from + 0.1).contains(*t)).count();
            (0..100).map(|i| count(f64::from(i) * 0.02)).max().unwrap()
        };
        let made_up = simulate(false, 2.0, (0.5, 0.6));
        assert!((1998..=2008).contains(&made_up.len()), "{}", made_up.len());
        assert!((108..=120).contains(&busiest(&made_up)), "{}", busiest(&made_up));
        // All of it but 10 ms worth is gone for good.
        let steady = simulate(true, 2.0, (0.5, 0.6));
        assert!((1905..=1915).contains(&steady.len()), "{}", steady.len());
        assert!(busiest(&steady) <= 112, "{}", busiest(&steady));
        // A timer that comes a little late takes nothing away.
        let late = simulate(true, 2.0, (0.5, 0.508));
        assert!((1998..=2008).contains(&late.len()), "{}", late.len());
    }

    #[test]
    fn a_thread_that_is_always_woken_late_keeps_its_rate() {
        let mut pace = Pace::new(1e6, 1000, true, Duration::ZERO);
        let (mut now, mut sent) = (0.0, 0);
        while now < 2.0 {
            now = pace.when().as_secs_f64().max(now) + 0.005;
            let at = Duration::from_secs_f64(now);
            let count = pace.count(at);
            pace.went(at, count, count);
            sent += count;
        }
        assert!((1980..=2010).contains(&sent), "{sent}");
    }
}
