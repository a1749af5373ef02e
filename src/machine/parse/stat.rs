//! `/proc/stat`, the CPU lines (fs/proc/stat.c `show_stat`).
//!
//! ```text
//!       user nice system idle iowait irq softirq steal guest guest_nice     <- ticks of 1/USER_HZ
//! cpu0 31969    0   7080 156932  246   0   11493    89     0          0     <- online CPUs only
//! ```

use crate::model::units::CpuId;

/// Time that one CPU has spent since boot, in ticks of 1/100 s (`USER_HZ` is 100 on every
/// architecture's interface to programs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTicks {
    /// Number of the CPU.
    pub cpu: CpuId,
    /// User space, niced and guests included (the kernel counts guests in `user` already).
    pub user: u64,
    /// The kernel on behalf of a process.
    pub system: u64,
    /// Idle, waiting for I/O included.
    pub idle: u64,
    /// Hard interrupts.
    pub irq: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// Time taken by the hypervisor.
    pub steal: u64,
}

/// Ticks per second in `/proc/stat`.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// The lines `cpuN`, in the file's order. A line with an unreadable number is left out: half a CPU
/// would be worse than none. Columns that older kernels do not have count as 0.
#[must_use]
pub fn cpu_ticks(bytes: &[u8]) -> Vec<CpuTicks> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter_map(line).collect()
}

fn line(text: &str) -> Option<CpuTicks> {
    let mut words = text.split_ascii_whitespace();
    let cpu = CpuId(words.next()?.strip_prefix("cpu")?.parse().ok()?);
    let ticks = words.take(8).map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let at = |column: usize| ticks.get(column).copied().unwrap_or(0);
    // `idle` is the fourth: a line cut before it says nothing.
    ticks.get(3)?;
    Some(CpuTicks {
        cpu,
        user: at(0).saturating_add(at(1)),
        system: at(2),
        idle: at(3).saturating_add(at(4)),
        irq: at(5),
        softirq: at(6),
        steal: at(7),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A two-CPU virtual machine, kernel 6.18, after NAT traffic; the `intr` line cut short.
    const REAL: &[u8] = include_bytes!("../../../fixtures/proc/stat-6.18");

    #[test]
    fn each_cpu_has_its_shares_and_the_sum_line_is_not_a_cpu() {
        let ticks = cpu_ticks(REAL);
        assert_eq!(ticks.iter().map(|t| t.cpu).collect::<Vec<_>>(), [CpuId(0), CpuId(1)]);
        let sum = REAL.split(|&b| b == b'\n').next().unwrap();
        let sum = String::from_utf8_lossy(sum);
        let softirq: u64 = sum.split_ascii_whitespace().nth(7).unwrap().parse().unwrap();
        // The kernel sums nanoseconds before it rounds to ticks.
        assert!(ticks.iter().map(|t| t.softirq).sum::<u64>().abs_diff(softirq) <= 2);
        assert!(ticks.iter().all(|t| t.idle > t.system));
    }

    #[test]
    fn a_cut_or_broken_line_is_no_cpu() {
        assert_eq!(cpu_ticks(b"cpu3 1 2 3"), []);
        assert_eq!(cpu_ticks(b"cpu3 1 2 x 4 5 6 7"), []);
        assert_eq!(cpu_ticks(b"cpu3 1 2 3 4").first().map(|t| (t.user, t.softirq)), Some((3, 0)));
        assert_eq!(cpu_ticks(b"cpux 1 2 3 4\ncpufreq 1 2 3 4"), []);
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "(cpu[0-9]{0,12}( [0-9]{0,25}){0,12}\n?){0,4}", bytes: Vec<u8>) {
            proptest::prop_assert!(cpu_ticks(text.as_bytes()).len() <= 4);
            proptest::prop_assert!(cpu_ticks(&bytes).len() <= bytes.len());
        }
    }
}
