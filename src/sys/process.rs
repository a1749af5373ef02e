//! Children that do not outlive us.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

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
