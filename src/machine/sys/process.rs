//! Children that do not outlive us.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// Asks a process to end, or ends it. That it is gone already is no failure.
pub fn end(process: u32, at_once: bool) {
    let signal = if at_once { Signal::KILL } else { Signal::TERM };
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw)
        && let Err(e) = kill_process(pid, signal)
    {
        log::warn!("process {process}: {e}");
    }
}

/// Makes the kernel kill the child when the *thread* that spawns it ends, so also when this
/// process is killed: a child left behind would keep its network namespace alive.
pub fn die_with_parent(command: &mut Command) {
    #[expect(unsafe_code, reason = "prctl(2) between fork and exec")]
    // SAFETY: the closure makes one system call and allocates nothing; prctl is
    // async-signal-safe, as what runs between fork and exec must be.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}
