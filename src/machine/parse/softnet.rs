//! `/proc/net/softnet_stat` (net/core/net-procfs.c `softnet_seq_show`): one row of hexadecimal
//! columns per online CPU. It covers the whole machine, all network namespaces together.
//!
//! ```text
//! column     0          1        2             9             10          12
//!      processed  dropped  time_squeeze  received_rps  flow_limit   CPU (kernel 5.10 and later)
//! ```

use crate::model::units::CpuId;

/// Counters of one CPU since boot. They are 32 bits wide and wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftnetRow {
    /// Number of the CPU; `None` before kernel 5.10, where row n is the n-th online CPU.
    pub cpu: Option<CpuId>,
    /// Packets taken through the CPU's receive path.
    pub packets: u32,
    /// Packets dropped because its backlog was full (`netdev_max_backlog`).
    pub dropped: u32,
    /// Times a poll ended with work left (`netdev_budget`).
    pub squeezed: u32,
    /// Times another CPU handed packets to it (RPS).
    pub received_rps: u32,
}

/// The rows in the file's order; unreadable ones are left out.
#[must_use]
pub fn softnet(bytes: &[u8]) -> Vec<SoftnetRow> {
    String::from_utf8_lossy(bytes).lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<SoftnetRow> {
    let words = line.split_ascii_whitespace().map(|word| u32::from_str_radix(word, 16));
    let columns = words.collect::<Result<Vec<u32>, _>>().ok()?;
    let at = |column: usize| columns.get(column).copied();
    Some(SoftnetRow {
        cpu: at(12).map(CpuId),
        packets: at(0)?,
        dropped: at(1)?,
        squeezed: at(2)?,
        received_rps: at(9).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A two-CPU virtual machine, kernel 6.18, with RPS to both CPUs, after NAT traffic.
    const REAL: &[u8] = include_bytes!("../../../fixtures/proc/softnet_stat-6.18");
    /// Hand-made in the form that kernel 5.4 prints (11 columns, no CPU number).
    const OLD: &[u8] = include_bytes!("../../../fixtures/proc/softnet_stat-5.4");

    #[test]
    fn rows_name_their_cpu_where_the_kernel_does() {
        let rows = softnet(REAL);
        assert_eq!(
            rows.iter().map(|r| r.cpu).collect::<Vec<_>>(),
            [Some(CpuId(0)), Some(CpuId(1))]
        );
        assert!(rows.iter().all(|r| r.packets > 1_000_000 && r.received_rps > 1000));
        let rows = softnet(OLD);
        assert_eq!(rows.iter().map(|r| r.cpu).collect::<Vec<_>>(), [None, None]);
        assert_eq!((rows[0].packets, rows[0].dropped, rows[0].squeezed), (0x2f_1b3c, 4, 0x11));
    }

    #[test]
    fn a_row_that_is_not_hexadecimal_is_left_out() {
        assert_eq!(softnet(b"0000 0000\nwhat 1 2 3\n\n1 2 3").len(), 1);
        assert_eq!(softnet(b"100000000 0 0"), [], "wider than 32 bits");
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "(([0-9a-f]{0,9} ){0,16}\n?){0,4}", bytes: Vec<u8>) {
            proptest::prop_assert!(softnet(text.as_bytes()).len() <= 4);
            proptest::prop_assert!(softnet(&bytes).len() <= bytes.len());
        }
    }
}
