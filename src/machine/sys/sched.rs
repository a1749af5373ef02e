//! How a thread is scheduled.

use std::io;

/// `SCHED_IDLE` (include/uapi/linux/sched.h).
const SCHED_IDLE: i32 = 5;

#[expect(unsafe_code, reason = "the C library's calls, to which std is linked anyway")]
unsafe extern "C" {
    fn pthread_self() -> usize;
    // Not sched_setscheduler(3): musl's refuses on principle, for it means processes.
    fn pthread_setschedparam(thread: usize, policy: i32, parameters: *const [i32; 16]) -> i32;
}

/// Makes the calling thread run only where nothing else wants to: any other thread, however nice,
/// takes the CPU away from it at once.
///
/// # Errors
/// What the kernel answered.
pub fn idle_priority() -> io::Result<()> {
    // `struct sched_param`: the priority, which must be 0 here, and room that musl reserves.
    let parameters = [0_i32; 16];
    #[expect(unsafe_code, reason = "the scheduling policy of this thread")]
    // SAFETY: the thread is the running one, and `parameters` is larger than any `sched_param`.
    let answer =
        unsafe { pthread_setschedparam(pthread_self(), SCHED_IDLE, &raw const parameters) };
    if answer == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(answer)) }
}

#[cfg(test)]
mod tests {
    #[test]
    #[expect(clippy::disallowed_methods, reason = "what the kernel says of this thread")]
    fn the_kernel_knows_the_thread_as_idle() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Field 41 (proc(5)), counted behind the name, which may hold spaces.
            let behind = stat.rsplit_once(')').unwrap().1.to_owned();
            behind.split_whitespace().nth(38).unwrap().parse::<i32>().unwrap()
        };
        assert_ne!(policy(), super::SCHED_IDLE);
        super::idle_priority().unwrap();
        assert_eq!(policy(), super::SCHED_IDLE);
    }
}
