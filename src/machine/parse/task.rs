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
    let (_, field) = fields(bytes)?;
    let ticks = field(14)?.saturating_add(field(15)?);
    Some(TaskStat {
        cpu_seconds: ticks as f64 / TICKS_PER_SECOND,
        last_cpu: field(39).and_then(|cpu| u32::try_from(cpu).ok()).map(CpuId),
        movable: field(9)? & PF_NO_SETAFFINITY == 0,
    })
}

/// Facts about a process in `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// Name of its program.
    pub name: String,
    /// Number of the process that started it.
    pub parent: u32,
    /// True for a thread of the kernel (`PF_KTHREAD`).
    pub of_the_kernel: bool,
    /// CPU time in ticks, user and kernel: its own, and that of children that ended and were waited
    /// for.
    pub ticks: u64,
    /// CPU that it last ran on.
    pub last_cpu: Option<CpuId>,
}

/// As [`stat`], of a process with its ended children; `None` when it is cut short.
#[must_use]
pub fn process(bytes: &[u8]) -> Option<ProcessStat> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let (name, field) = fields(bytes)?;
    Some(ProcessStat {
        name,
        parent: u32::try_from(field(4)?).ok()?,
        of_the_kernel: field(9)? & PF_KTHREAD != 0,
        ticks: (14..=17).try_fold(0, |sum: u64, n| Some(sum.saturating_add(field(n)?)))?,
        last_cpu: field(39).and_then(|cpu| u32::try_from(cpu).ok()).map(CpuId),
    })
}

/// Name and numbered fields of the file; of the latter the third is the first that may be asked for.
fn fields(bytes: &[u8]) -> Option<(String, impl Fn(usize) -> Option<u64>)> {
    // A name may hold spaces and brackets: the last one that closes ends it.
    let end = bytes.iter().rposition(|b| *b == b')')?;
    let begin = bytes.iter().position(|b| *b == b'(')?;
    let name = String::from_utf8_lossy(bytes.get(begin + 1..end)?).into_owned();
    let rest = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
    // The state is the third field of the file.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some((name, move |number: usize| fields.get(number - 3)?.parse::<u64>().ok()))
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
    fn a_process_has_the_time_of_its_ended_children_and_a_thread_of_the_kernel_is_known() {
        // Kernel 6.18: a shell whose children have ended.
        let real = b"7 (sh (x) y) S 1 7 7 0 -1 4194560 5062 1234 0 0 12 34 500 60 20 0 1 0 44 \
            2654208 448 18446744073709551615 1 1 0 0 0 0 0 0 65538 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0\n";
        let found = process(real).unwrap();
        assert_eq!((found.name.as_str(), found.parent, found.ticks), ("sh (x) y", 1, 606));
        assert_eq!((found.of_the_kernel, found.last_cpu), (false, Some(CpuId(1))));
        let kernel = b"14 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0 0 77 0 0 20 0 1 0 22";
        assert!(process(kernel).unwrap().of_the_kernel);
        assert_eq!(process(b"14 (x) S 2 0 0 0 -1 69238848 0 0 0 0 0"), None);
        assert_eq!(process(b")("), None);
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
