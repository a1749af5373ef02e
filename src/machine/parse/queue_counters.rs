//! Packets of single queues among a driver's own counters (`ethtool -S`).
//!
//! ```text
//!   rx_queue_0_packets  tx_queue_3_packets      igb, ixgbe, ice, virtio_net, hv_netvsc
//!   rx0_packets  tx_0_packets  rxq0_packets     mlx4, mlx5, mana, bcmgenet
//!   rx-0.packets  tx-1.tx_packets               i40e, iavf, sfc
//!   [0]: rx_ucast_packets  0: rcv_pkts          bnxt, bnx2x, qede
//!   queue_0_rx_cnt  q0_rx_pkt_n  tx_q0_pkt      ena, stmmac, essedma
//!   Rx Queue# = 0,  ucast pkts rx               vmxnet3: the number comes first
//! ```
//!
//! A name counts when it is made of such words alone: `rx_queue_0_xdp_packets` counts other packets,
//! and `rx_64_byte_packets` has no queue.

use std::collections::BTreeMap;

use crate::model::evidence::QueueMoved;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Rx,
    Tx,
}

/// Meaning of a counter's name.
#[derive(Default)]
struct Read {
    queue: Option<u32>,
    way: Option<Way>,
    packets: bool,
    /// True if the counter counts some of the packets (unicast, multicast, broadcast).
    part: bool,
}

/// Packets of each queue, by ascending number; empty where the driver reports none. A way whose
/// queues do not begin with 0 is left out: those numbers are something else.
#[must_use]
pub fn queues<'a>(counters: impl Iterator<Item = (&'a str, u64)>) -> Vec<QueueMoved> {
    let mut whole: BTreeMap<(Way, u32), u64> = BTreeMap::new();
    let mut parts: BTreeMap<(Way, u32), u64> = BTreeMap::new();
    // vmxnet3 names a queue by a counter of its own, and the counters that follow are the queue's.
    let mut current: Option<(Way, u32)> = None;
    for (name, value) in counters {
        match name.trim() {
            "Rx Queue#" => current = u32::try_from(value).ok().map(|queue| (Way::Rx, queue)),
            "Tx Queue#" => current = u32::try_from(value).ok().map(|queue| (Way::Tx, queue)),
            name => {
                let Some(read) = read(name).filter(|read| read.packets) else { continue };
                let (Some(way), part) = (read.way, read.part) else { continue };
                let follows = || current.filter(|(now, _)| *now == way).map(|(_, queue)| queue);
                let Some(queue) = read.queue.or_else(follows) else { continue };
                let counts = if part { &mut parts } else { &mut whole };
                let count = counts.entry((way, queue)).or_default();
                *count = count.saturating_add(value);
            }
        }
    }
    parts.extend(whole);
    let mut found: BTreeMap<u32, QueueMoved> = BTreeMap::new();
    for way in [Way::Rx, Way::Tx] {
        if !parts.contains_key(&(way, 0)) {
            continue;
        }
        for ((_, queue), count) in parts.range((way, 0)..=(way, u32::MAX)) {
            let entry = QueueMoved { index: *queue, ..QueueMoved::default() };
            let entry = found.entry(*queue).or_insert(entry);
            match way {
                Way::Rx => entry.rx = Some(*count),
                Way::Tx => entry.tx = Some(*count),
            }
        }
    }
    found.into_values().collect()
}

/// Words of a name that may stand beside queue, way and packets.
const BESIDE: &[&str] = &["queue", "q", "ring", "n"];

/// Meaning of a name; `None` when a word is none of those that name a queue's packets.
fn read(name: &str) -> Option<Read> {
    let mut found = Read::default();
    for word in words(name) {
        if let Ok(number) = word.parse::<u32>() {
            // Two numbers are a range of lengths, or a channel and its queue.
            if found.queue.replace(number).is_some() {
                return None;
            }
            continue;
        }
        match word.to_ascii_lowercase().as_str() {
            "rx" | "rxq" | "rcv" | "rvec" => set(&mut found.way, Way::Rx)?,
            "tx" | "txq" | "xmit" => set(&mut found.way, Way::Tx)?,
            "packets" | "packet" | "pkts" | "pkt" | "frames" | "cnt" => found.packets = true,
            "inpackets" => {
                set(&mut found.way, Way::Rx)?;
                found.packets = true;
            }
            "outpackets" => {
                set(&mut found.way, Way::Tx)?;
                found.packets = true;
            }
            "ucast" | "mcast" | "bcast" => found.part = true,
            other if BESIDE.contains(&other) => {}
            _ => return None,
        }
    }
    Some(found)
}

/// Sets the way; `None` when it was the other way already. nfp counts both ways by vector
/// (`rvec_0_tx_pkts`).
fn set(way: &mut Option<Way>, to: Way) -> Option<()> {
    match way.replace(to) {
        Some(before) if before != to => None,
        _ => Some(()),
    }
}

/// Runs of letters and of digits.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let first = rest.chars().next()?;
        let same =
            |c: char| c.is_ascii_alphanumeric() && c.is_ascii_digit() == first.is_ascii_digit();
        let end = rest.find(|c: char| !same(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(counters: &[(&str, u64)]) -> Vec<(u32, Option<u64>, Option<u64>)> {
        queues(counters.iter().copied()).into_iter().map(|q| (q.index, q.rx, q.tx)).collect()
    }

    /// Names as the drivers' sources have them: igb_ethtool.c, i40e_ethtool.c, en_stats.c (mlx5),
    /// bnxt_ethtool.c, ena_ethtool.c, stmmac_ethtool.c, aq_ethtool.c, enetc_ethtool.c, macb_main.c,
    /// qede_ethtool.c, be_ethtool.c, idpf_ethtool.c, edma_ethtool.c.
    #[test]
    fn every_drivers_names_of_a_queue_are_understood() {
        for (rx, tx) in [
            ("rx_queue_1_packets", "tx_queue_1_packets"),
            ("rx-1.packets", "tx-1.packets"),
            ("rx-1.rx_packets", "tx-1.tx_packets"),
            ("rx1_packets", "tx1_packets"),
            ("rx_1_packets", "tx_1_pkts"),
            ("rxq1_packets", "txq1_packets"),
            ("rxq1: frames", "txq1: frames"),
            ("[1]: rx_ucast_packets", "[1]: tx_ucast_packets"),
            ("queue_1_rx_cnt", "queue_1_tx_cnt"),
            ("q1_rx_pkt_n", "q1_tx_pkt_n"),
            ("q1_rx_packets", "q1_tx_packets"),
            ("Queue[1] InPackets", "Queue[1] OutPackets"),
            ("rx ring  1 frames", "tx ring  1 frames"),
            ("1: rcv_pkts", "1: xmit_pkts"),
            ("rxq1: rx_pkts", "txq1: tx_pkts"),
            ("rx_q-1_pkts", "tx_q-1_pkts"),
            ("rx_q1_pkt", "tx_q1_pkt"),
            ("rx_packets[1]", "tx_packets[1]"),
        ] {
            let zero = |name: &str| name.replacen('1', "0", 1);
            let (rx0, tx0) = (zero(rx), zero(tx));
            let told = of(&[(&rx0, 5), (rx, 7), (&tx0, 1), (tx, 2)]);
            assert_eq!(told, [(0, Some(5), Some(1)), (1, Some(7), Some(2))], "{rx} {tx}");
        }
    }

    #[test]
    fn what_counts_something_else_is_no_queue() {
        for name in [
            "rx_packets",
            "rx_queue_0_bytes",
            "rx_queue_0_drops",
            "rx_queue_0_xdp_packets",
            "rx0_lro_packets",
            "rx_0_to_64_byte_packets",
            "rx_prio0_packets",
            "tx_0_rx_0_packets",
            "ch0_poll",
            "q0_tx_irq_n",
        ] {
            assert_eq!(of(&[(name, 3)]), [], "{name}");
        }
        assert_eq!(of(&[("rx_64_frames", 3), ("rx_128_frames", 2)]), [], "lengths, not queues");
    }

    #[test]
    fn kinds_of_packets_are_summed_unless_the_sum_is_told() {
        let parts = [("[0]: rx_ucast_packets", 3), ("[0]: rx_mcast_packets", 4)];
        assert_eq!(of(&parts), [(0, Some(7), None)]);
        assert_eq!(of(&[("rx0_packets", 9), ("rx0_mcast_packets", 4)]), [(0, Some(9), None)]);
    }

    /// drivers/net/vmxnet3/vmxnet3_ethtool.c.
    #[test]
    fn vmxnet3_says_the_queue_before_its_counters() {
        let told = of(&[
            ("Tx Queue#", 0),
            ("  TSO pkts tx", 9),
            ("  ucast pkts tx", 4),
            ("  bcast pkts tx", 1),
            ("Rx Queue#", 0),
            ("  LRO pkts rx", 9),
            ("  ucast pkts rx", 6),
            ("Rx Queue#", 1),
            ("  ucast pkts rx", 8),
            ("tx timeout count", 0),
        ]);
        assert_eq!(told, [(0, Some(6), Some(5)), (1, Some(8), None)]);
    }

    proptest! {
        #[test]
        fn any_names_and_values_are_survived(counters: Vec<(String, u64)>) {
            let told = queues(counters.iter().map(|(name, n)| (name.as_str(), *n)));
            prop_assert!(told.len() <= counters.len());
            prop_assert!(told.windows(2).all(|pair| pair[0].index < pair[1].index));
        }

        #[test]
        fn words_of_such_names_are_survived(
            counters in proptest::collection::vec(("[rtxq]{1,2}[0-9:_ .\\[\\]]{0,12}(packets|pkt|ucast)?", any::<u64>()), 0..8)
        ) {
            let told = queues(counters.iter().map(|(name, n)| (name.as_str(), *n)));
            prop_assert!(told.len() <= counters.len());
        }
    }
}
