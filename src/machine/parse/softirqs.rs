//! `/proc/softirqs` (fs/proc/softirqs.c `show_softirqs`).
//!
//! ```text
//!                     CPU0       CPU1       <- possible CPUs, not only those online
//!       NET_TX:          4          8
//!       NET_RX:       2353       3368
//! ```

use crate::model::units::CpuId;

/// Number of times one CPU ran each of the two kinds of softirq that carry packets, since boot. The
/// kernel's counters are 32 bits wide and wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetSoftirqs {
    /// Number of the CPU.
    pub cpu: CpuId,
    /// Receive polls (`NET_RX`).
    pub rx: u32,
    /// Transmit completions and deferred sends (`NET_TX`).
    pub tx: u32,
}

/// One entry per column of the header. A row that is missing or too short counts as 0; a column
/// that names no CPU is left out.
#[must_use]
pub fn net_softirqs(bytes: &[u8]) -> Vec<NetSoftirqs> {
    let text = String::from_utf8_lossy(bytes);
    let row = |name: &str| -> Vec<u32> {
        let counts = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
        let words = counts.unwrap_or_default().split_ascii_whitespace();
        words.map(|word| word.parse().unwrap_or(0)).collect()
    };
    let (rx, tx) = (row("NET_RX:"), row("NET_TX:"));
    let header = text.lines().next().unwrap_or_default().split_ascii_whitespace();
    header
        .enumerate()
        .filter_map(|(column, name)| {
            let cpu = CpuId(name.strip_prefix("CPU")?.parse().ok()?);
            let at = |row: &[u32]| row.get(column).copied().unwrap_or(0);
            Some(NetSoftirqs { cpu, rx: at(&rx), tx: at(&tx) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_rows_are_found_by_name_and_columns_by_cpu() {
        // Kernel 6.18, two CPUs, rows left out.
        let real = b"                    CPU0       CPU1       \n          HI:          0          0\n      \
                     NET_TX:          4          8\n      NET_RX:       2353       3368\n";
        let expected = [
            NetSoftirqs { cpu: CpuId(0), rx: 2353, tx: 4 },
            NetSoftirqs { cpu: CpuId(1), rx: 3368, tx: 8 },
        ];
        assert_eq!(net_softirqs(real), expected);
    }

    #[test]
    fn what_is_cut_or_strange_counts_as_nothing() {
        assert!(net_softirqs(b"").is_empty());
        assert!(net_softirqs(b"\xff\xfe CPUx\nNET_RX: 1\n").is_empty());
        let cut = net_softirqs(b" CPU0 CPU7\nNET_RX: 5\nNET_TX: 1 99999999999999999999");
        assert_eq!(cut[0], NetSoftirqs { cpu: CpuId(0), rx: 5, tx: 1 });
        assert_eq!(cut[1], NetSoftirqs { cpu: CpuId(7), rx: 0, tx: 0 });
    }
}
