//! Which of a driver's own counters (`ethtool -S`) tell of loss. Every driver has names of its
//! own, some have thousands: by word, and those of single queues summed.

use std::collections::BTreeMap;

use crate::model::nic::Numbers;

/// Words that mean loss or the pressure that comes before it. Taken from the counter names of
/// drivers/net/ethernet (igb, ixgbe, i40e, ice, mlx4, mlx5, bnxt, ena, mvneta, mvpp2, stmmac,
/// mtk_eth_soc, bcmgenet, r8169, virtio_net, vmxnet3, hv_netvsc) and drivers/net/usb/r8152.c.
const LOSS: &[&str] = &[
    "drop",
    "discard",
    "miss",
    "err",
    "crc",
    "fcs",
    "fifo",
    "overrun",
    "over_run",
    "overflow",
    "ovflow",
    "underrun",
    "underflow",
    "no_buf",
    "nobuf",
    "no_desc",
    "no_dma",
    "out_of_buf",
    "out_of_rx",
    "alloc_fail",
    "fail",
    "exhaust",
    "starv",
    "pause",
    "xon",
    "xoff",
    "oversize",
    "undersize",
    "jabber",
    "abort",
    "timeout",
    "hang",
    "bad_",
    "busy",
    "ring_full",
    "oom",
    "oob",
];

/// Names that hold a word of [`LOSS`] by accident.
const INNOCENT: &[&str] = &["permission", "transmission", "ferr_"];

/// The counters of loss that are not zero. Counters that differ in a number alone (of a queue, a
/// channel, a priority) are summed, with `*` for the number.
pub(super) fn losses(counters: impl Iterator<Item = (String, u64)>) -> Numbers {
    struct Group {
        first: String,
        members: u32,
        sum: u64,
    }
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (name, value) in counters.filter(|(name, _)| is_loss(name)) {
        let group = groups.entry(without_numbers(&name));
        let group = group.or_insert(Group { first: name, members: 0, sum: 0 });
        group.members += 1;
        // A card may count down from -1 (mlx5 answers ~0 for what its firmware lacks).
        group.sum = group.sum.saturating_add(if value == u64::MAX { 0 } else { value });
    }
    let named = |(name, group): (String, Group)| match group.members {
        1 => (group.first, group.sum),
        _ => (name, group.sum),
    };
    groups.into_iter().filter(|(_, group)| group.sum > 0).map(named).collect()
}

fn is_loss(name: &str) -> bool {
    let mut name = name.to_ascii_lowercase().replace([' ', '-', '.'], "_");
    for word in INNOCENT {
        name = name.replace(word, "");
    }
    LOSS.iter().any(|word| name.contains(word))
}

/// `rx_queue_3_drops`: `rx_queue_*_drops`.
fn without_numbers(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '0'..='9' if plain.ends_with('*') => {}
            '0'..='9' => plain.push('*'),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(counters: &[(&str, u64)]) -> Vec<(String, u64)> {
        losses(counters.iter().map(|(name, n)| ((*name).to_owned(), *n))).into_iter().collect()
    }

    /// Names as the drivers' sources have them.
    #[test]
    fn loss_is_kept_and_traffic_is_not() {
        let loss = [
            "rx_no_buffer_count", // igb, e1000e
            "rx_missed_errors",
            "rx_no_dma_resources",  // ixgbe
            "alloc_rx_page_failed", // ixgbe
            "port.rx_dropped",      // i40e
            "rx_out_of_buffer",     // mlx5
            "rx_discards_phy",
            "rx_steer_missed_packets",
            "tx_pause_ctrl_phy",
            "rx_crc_errors.nic",    // ice
            "rx_flow_control_xoff", // e1000e
            "tx_timeout_count",
            "tx_restart_queue_busy",
            "rx_fcs_errors", // mtk_eth_soc
            "rx_overflow",
            "mmc_rx_fifo_overflow", // stmmac
            "rx_watchdog_fail",
            "rx_undersize_pkts",
            "rx_jabbers",
            "pkts rx OOB",     // vmxnet3
            "rx_missed",       // r8169
            "rbuf_ovflow_cnt", // bcmgenet
            "RxOverFlow",      // qca8k
            "RxIngressDrop",   // mt7530
            "sw_in_discards",  // mv88e6xxx
            "bw_in_allowance_exceeded_drop",
            "tx_no_memory_oom", // netvsc spells its own
        ];
        for name in loss {
            assert_eq!(of(&[(name, 3)]), [(name.to_owned(), 3)], "{name}");
        }
        for name in ["rx_packets", "tx_bytes", "tx_queue_0_kicks", "rx_gro_packets", "tx_multicast"]
        {
            assert_eq!(of(&[(name, 3)]), [], "{name}");
        }
        assert_eq!(of(&[("rx_errors", 0)]), [], "what is zero tells nothing");
        assert_eq!(of(&[("rx_err_lane_0_phy", u64::MAX)]), [], "not counted here");
    }

    #[test]
    fn sixty_four_queues_make_one_line() {
        let queues: Vec<(String, u64)> =
            (0..64).map(|n| (format!("rx{n}_drops"), u64::from(n == 5) * 7)).collect();
        let told = losses(queues.into_iter().chain([("tx_3_drops".to_owned(), 1)]));
        let told: Vec<_> = told.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(told, [("rx*_drops", 7), ("tx_3_drops", 1)]);
    }

    proptest! {
        #[test]
        fn any_names_and_values_are_survived(counters: Vec<(String, u64)>) {
            let most = counters.len();
            let told = losses(counters.into_iter());
            prop_assert!(told.len() <= most && told.values().all(|n| *n > 0));
        }
    }
}
