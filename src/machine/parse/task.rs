//! `/proc/PID/status` and `/proc/PID/stat` of a kernel thread.

use super::stat::TICKS_PER_SECOND;
use crate::model::cpuset::CpuSet;
use crate::model::units::CpuId;

/// CPUs that the thread may run on (`Cpus_allowed_list`); `None` when the file does not list them.
#[must_use]
pub fn cpus_allowed(bytes: &[u8]) -> Option<CpuSet> {
    let text = String::from_utf8_lossy(bytes);
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().parse().ok()
}

/// Facts about a thread in `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskStat {
    /// CPU time since the thread began, in seconds.
    pub cpu_seconds: f64,
    /// CPU that the thread last ran on.
    pub last_cpu: Option<CpuId>,
    /// True if the thread's affinity may be set (not `PF_NO_SETAFFINITY`, linux/sched.h).
    pub movable: bool,
}

/// Reads `/proc/PID/stat` (fs/proc/array.c, do_task_stat); `None` when it is cut short.
///
/// ```text
/// 14 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0  0    77   ...  17  0  ...
///     name, any bytes            flags            user system    signal CPU
/// ```
#[must_use]
pub fn stat(bytes: &[u8]) -> Option<TaskStat> {
    const PF_NO_SETAFFINITY: u64 = 0x0400_0000;
    // A name may hold spaces and brackets: the last one that closes ends it.
    let end = bytes.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
    // The state is the third field of the file.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)?.saturating_add(field(15)?);
    Some(TaskStat {
        cpu_seconds: ticks as f64 / TICKS_PER_SECOND,
        last_cpu: field(39).and_then(|cpu| u32::try_from(cpu).ok()).map(CpuId),
        movable: field(9)? & PF_NO_SETAFFINITY == 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_list_is_taken_and_not_the_mask() {
        let text = b"Name:\tnapi/eth0-8193\nPid:\t71\nCpus_allowed:\t0c\nCpus_allowed_list:\t2-3\n";
        assert_eq!(cpus_allowed(text), "2-3".parse().ok());
        assert_eq!(cpus_allowed(b"Name:\tx\n"), None);
    }

    #[test]
    fn time_place_and_right_to_move_are_read() {
        // Kernel 6.18, a two-CPU virtual machine.
        let real = b"14 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0 0 77 0 0 20 0 1 0 22 0 0 \
            18446744073709551615 0 0 0 0 0 0 0 2147483647 0 1 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let found = stat(real).unwrap();
        assert_eq!(found, TaskStat { cpu_seconds: 0.77, last_cpu: Some(CpuId(1)), movable: false });
        let napi = b"70 (napi/a) b) 1-3) S 2 0 0 0 -1 2129984 0 0 0 0 5 20 0 0 20 0";
        let found = stat(napi).unwrap();
        assert_eq!(found, TaskStat { cpu_seconds: 0.25, last_cpu: None, movable: true });
        assert_eq!(stat(b"70 (napi/eth0-3) S 2 0 0"), None);
        assert_eq!(stat(b"70 (napi/eth0-3"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "[0-9]{1,3} \\(.{0,16}\\)( [0-9-]{1,21}){0,45}") {
            drop((cpus_allowed(&bytes), stat(&bytes), stat(text.as_bytes())));
        }
    }
}
