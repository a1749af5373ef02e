use super::*;

fn reading(counts: &[(Source, &str, &str, u64)]) -> Reading {
    let mut reading = Reading::default();
    for (source, place, name, value) in counts {
        reading.add(*source, place, name, *value);
    }
    reading
}

fn told(ledger: &Ledger) -> Vec<(Stage, &str, &str, Kind, u64)> {
    let entries = ledger.entries.iter();
    entries.map(|e| (e.stage, e.place.as_str(), e.counter.as_str(), e.kind, e.count())).collect()
}

#[test]
fn losses_stand_in_the_order_of_their_stages_and_none_is_counted_twice() {
    let ledger = ledger(
        &reading(&[
            (Source::Qdisc, "eth0 root tbf 1000 kbit/s", "drops", 30),
            (Source::Qdisc, "eth0 class 1:1 bfifo inner", "drops", 30),
            (Source::Qdisc, "eth0 ingress clsact", "drops", 2),
            (Source::Device, "eth0", "rx_errors", 12),
            (Source::Device, "eth0", "rx_crc_errors", 10),
            (Source::Device, "eth0", "rx_packets", 5000),
            (Source::Driver, "eth0", "rx_missed", 4),
            (Source::Driver, "eth0", "rx_xdp_drop", 3),
            (Source::Driver, "eth0", "tx_pause", 3),
            (Source::Device, "eth0", "rx_missed_errors", 4),
            (Source::Softnet, "CPU0", "dropped", 5),
            (Source::Softnet, "CPU1", "dropped", 6),
            (Source::Softnet, "CPU1", "received_rps", 600),
            (Source::Netstat, "", "InNoRoutes", 0),
            (Source::Rule, "nft inet fw4 forward handle 9", "forward", 7),
        ]),
        None,
    );
    use Kind::{ByRule, Detail, Lost, Sign};
    assert_eq!(
        told(&ledger),
        [
            (Stage::Wire, "eth0", "rx_crc_errors", Lost, 10),
            (Stage::Wire, "eth0", "rx_errors", Lost, 2),
            (Stage::Ring, "eth0", "rx_missed", Detail, 4),
            (Stage::Ring, "eth0", "rx_missed_errors", Lost, 4),
            (Stage::Xdp, "eth0", "rx_xdp_drop", Detail, 3),
            (Stage::Backlog, "CPU0", "dropped", Detail, 5),
            (Stage::RpsBacklog, "CPU1", "dropped", Detail, 6),
            (Stage::Ingress, "eth0 ingress clsact", "drops", ByRule, 2),
            (Stage::Netfilter, "nft inet fw4 forward handle 9", "forward", ByRule, 7),
            (Stage::Qdisc, "eth0 class 1:1 bfifo inner", "drops", Detail, 30),
            (Stage::Qdisc, "eth0 root tbf 1000 kbit/s", "drops", Lost, 30),
            (Stage::Link, "eth0", "tx_pause", Sign, 3),
        ]
    );
    assert_eq!(ledger.lost(), (9, 46));
    assert_eq!(ledger.balance.lost_behind, 30, "ingress is before IP");
}

/// A router of kernel 6.18: 1000 packets, of which the forward hook's rule drops 100 and 20 are too
/// big; both count as forwarded there.
#[test]
fn what_came_in_is_what_went_out_was_consumed_or_lost() {
    let now = [
        (Source::Ip, "", "InReceives", 1000),
        (Source::Ip, "", "ForwDatagrams", 900),
        (Source::Ip, "", "OutTransmits", 780),
        (Source::Ip, "", "FragFails", 20),
        (Source::Ip, "", "InDelivers", 50),
        (Source::Netstat, "", "InNoRoutes", 30),
        (Source::Ip, "", "InHdrErrors", 5),
        (Source::Netstat, "", "InCsumErrors", 5),
        (Source::Rule, "r1", "forward", 100),
        (Source::Rule, "r2", "in", 8),
        (Source::Rule, "r3", "out", 2),
        (Source::Conntrack, "", "drop", 7),
        (Source::Neighbour, "arp_cache", "unresolved_discards", 70),
    ];
    let balance = ledger(&reading(&now), None).balance;
    assert_eq!((balance.received, balance.forwarded, balance.delivered), (1000, 780, 50));
    assert_eq!((balance.lost, balance.unexplained), (30 + 5 + 100 + 8 + 7 + 20, 0));
    assert_eq!(balance.lost_behind, 2, "the neighbours' counter is the whole machine's");
    assert!(balance.may_be.is_empty(), "{balance:?}");
    // Before 6.7 IPv4 counts behind the hook.
    let old: Vec<_> = now
        .into_iter()
        .filter(|(_, _, name, _)| *name != "OutTransmits")
        .map(|(s, p, name, n)| (s, p, name, if name == "ForwDatagrams" { 780 } else { n }))
        .collect();
    let balance = ledger(&reading(&old), None).balance;
    assert_eq!((balance.forwarded, balance.unexplained), (780, 0));
}

/// IPv6 counts behind the hook from 4.17 to 6.6 as IPv4 does (commit 71a1c915238c), and both before it
/// since 6.7: with rules for both families the sum is right on either.
#[test]
fn rules_that_drop_ipv6_at_the_forward_hook_add_up_on_old_and_new_kernels() {
    let of = |early: bool| {
        // 1,000 of each family come; a rule for both drops 60 and 90, one of ip6 another 10.
        let (four, six) = if early { (1000, 1000) } else { (940, 900) };
        let mut counts = vec![
            (Source::Ip, "", "InReceives", 1000),
            (Source::Ip6, "", "Ip6InReceives", 1000),
            (Source::Ip, "", "ForwDatagrams", four),
            (Source::Ip6, "", "Ip6OutForwDatagrams", six),
            (Source::Rule, "nft inet t f handle 1", "forward", 150),
            (Source::Rule, "nft ip6 t f handle 2", "forward6", 10),
        ];
        if early {
            counts.push((Source::Ip, "", "OutTransmits", 940));
            counts.push((Source::Ip6, "", "Ip6OutTransmits", 900));
        }
        ledger(&reading(&counts), None).balance
    };
    for balance in [of(false), of(true)] {
        assert_eq!((balance.forwarded, balance.lost), (1840, 160), "{balance:?}");
        assert_eq!((balance.unexplained, balance.lost_behind), (0, 0), "{balance:?}");
        assert!(balance.may_be.is_empty(), "{balance:?}");
    }
}

#[test]
fn a_loss_that_only_a_driver_counts_is_a_loss_and_one_that_the_kernel_counts_too_is_none() {
    let ledger = ledger(
        &reading(&[
            // r8152, whose counter is nowhere else; r8169, whose counter is rx_missed_errors.
            (Source::Driver, "usb0", "rx_missed", 5),
            (Source::Driver, "pci0", "rx_missed", 6),
            (Source::Device, "pci0", "rx_missed_errors", 6),
            (Source::Driver, "end0", "rbuf_ovflow_cnt", 7),
            (Source::Driver, "mv0", "rxq_3_queue_full_drops", 8),
            (Source::Driver, "lan1", "TxDrop", 9),
            (Source::Driver, "lan1", "RxIngressDrop", 10),
            // Pressure: the frame waits in the card (e1000e).
            (Source::Driver, "em0", "rx_no_buffer_count", 11),
        ]),
        None,
    );
    use Kind::{Detail, Lost};
    assert_eq!(
        told(&ledger),
        [
            (Stage::Ring, "em0", "rx_no_buffer_count", Detail, 11),
            (Stage::Ring, "end0", "rbuf_ovflow_cnt", Lost, 7),
            (Stage::Ring, "mv0", "rxq_3_queue_full_drops", Lost, 8),
            (Stage::Ring, "pci0", "rx_missed", Detail, 6),
            (Stage::Ring, "pci0", "rx_missed_errors", Lost, 6),
            (Stage::Ring, "usb0", "rx_missed", Lost, 5),
            (Stage::Driver, "lan1", "RxIngressDrop", Lost, 10),
            (Stage::Transmit, "lan1", "TxDrop", Lost, 9),
        ]
    );
    assert_eq!((ledger.lost(), ledger.balance.lost_behind), ((0, 45), 9));
}

#[test]
fn a_token_bucket_in_a_class_has_its_loss_where_it_stands_and_its_root_the_rest() {
    let drops = |bucket, root| {
        ledger(
            &reading(&[
                (Source::Qdisc, "eth0 root prio", "drops", root),
                (Source::Qdisc, "eth0 class 1:3 tbf 1000 kbit/s inner", "drops", bucket),
                (Source::Qdisc, "eth0 class 8001:1 bfifo inner", "drops", bucket),
            ]),
            None,
        )
    };
    use Kind::{Detail, Lost};
    let bucket = "eth0 class 1:3 tbf 1000 kbit/s inner";
    let inner = (Stage::Qdisc, "eth0 class 8001:1 bfifo inner", "drops", Detail, 30);
    let one = drops(30, 30);
    assert_eq!(told(&one), [(Stage::Qdisc, bucket, "drops", Lost, 30), inner]);
    let more = drops(30, 34);
    assert_eq!(
        told(&more),
        [
            (Stage::Qdisc, bucket, "drops", Lost, 30),
            inner,
            (Stage::Qdisc, "eth0 root prio", "drops", Lost, 4)
        ]
    );
    assert_eq!(more.balance.lost_behind, 34);
}

#[test]
fn what_nobody_counted_is_said_with_what_it_may_be() {
    let mut now = reading(&[
        (Source::Ip, "", "InReceives", 100),
        (Source::Ip, "", "ForwDatagrams", 60),
        (Source::Ip, "", "OutRequests", 15),
        (Source::Ip, "", "OutTransmits", 70),
        (Source::Netstat, "", "InMcastPkts", 12),
    ]);
    now.uncounted.push("nft inet t in policy".into());
    let balance = ledger(&now, None).balance;
    // 40 were neither forwarded nor delivered; 5 count as forwarded, and no device got them.
    assert_eq!((balance.forwarded, balance.unexplained), (55, 45));
    let words = balance.may_be.join("\n");
    assert!(words.contains("nobody here wants, at most (12)"), "{words}");
    assert!(words.contains("nft inet t in policy"), "{words}");
}

#[test]
fn a_window_counts_what_rose_in_it_and_keeps_what_was_since_boot() {
    let before = reading(&[
        (Source::Device, "eth0", "rx_dropped", 100),
        (Source::Device, "eth0", "tx_dropped", u64::from(u32::MAX) - 4),
        (Source::Ip, "", "InReceives", 1000),
    ]);
    let now = reading(&[
        (Source::Device, "eth0", "rx_dropped", 140),
        // A driver of a 32-bit machine.
        (Source::Device, "eth0", "tx_dropped", 5),
        (Source::Driver, "eth0", "rx_no_buffer", 8),
        (Source::Ip, "", "InReceives", 1300),
    ]);
    let ledger = ledger(&now, Some((&before, 4.0)));
    let of = |name: &str| {
        let entry = ledger.entries.iter().find(|e| e.counter == name).unwrap();
        (entry.since_boot, entry.watched, entry.per_second)
    };
    assert_eq!(of("rx_dropped"), (140, Some(40), Some(10.0)));
    assert_eq!(of("tx_dropped"), (5, Some(10), Some(2.5)));
    assert_eq!(of("rx_no_buffer"), (8, Some(8), Some(2.0)));
    assert_eq!(ledger.balance.received, 300);
}

proptest::proptest! {
    /// Whatever the counters say: no overflow, and the balance adds up.
    #[test]
    fn the_balance_adds_up_for_any_counters(values in proptest::collection::vec(0_u64..1 << 40, 64)) {
        let mut now = Reading::default();
        for (class, value) in CLASSES.iter().zip(values.iter().cycle()) {
            now.add(class.source, "x", class.name, *value);
        }
        for (name, value) in ["InReceives", "ForwDatagrams", "InDelivers"].iter().zip(&values) {
            now.add(Source::Ip, "", name, *value);
        }
        let balance = ledger(&now, None).balance;
        let sum = balance.forwarded + balance.delivered + balance.merged + balance.lost;
        proptest::prop_assert_eq!(
            balance.received.cast_signed(),
            sum.cast_signed() + balance.unexplained
        );
    }
}
