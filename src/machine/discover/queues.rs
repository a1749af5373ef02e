//! Queues as the drivers have them: the receive queues that are more than directories, the queues
//! that a line serves, and if a card's hash sees the flows behind a switch's tag.
//!
//! The kernel's own records (netdev netlink) and counts win over statements of drivers' sources.

use std::path::Path;

use super::{number, text};
use crate::machine::host::HostRead;
use crate::model::evidence::Evidence;
use crate::model::order::InOrder;
use crate::model::snapshot::{Irq, IrqRole, NetDev, Receiving, SwitchTag};

/// Fills in the facts that the drivers' sources state.
pub(super) fn settle(host: &dyn HostRead, netdevs: &mut [NetDev], irqs: &mut [Irq]) {
    let conduits: Vec<String> = netdevs.iter().filter_map(|d| d.conduit.clone()).collect();
    for device in netdevs.iter_mut().filter(|d| d.is_hardware()) {
        let file = Path::new("/sys/class/net").join(&device.name).join("dsa/tagging");
        device.tag = tag(device, text(host, &file), conduits.contains(&device.name));
        let lines = irqs.iter().filter(|irq| serves(irq, device) && irq.id.role.receives()).count();
        device.receiving = receiving(host, device, lines);
    }
    for device in netdevs.iter() {
        serve(device, irqs);
    }
}

fn serves(irq: &Irq, device: &NetDev) -> bool {
    irq.id.device == device.name || irq.shared_with.contains(&device.name)
}

/// Receive queues that are more than directories, where a driver has others.
fn receiving(host: &dyn HostRead, device: &NetDev, lines: usize) -> Option<Receiving> {
    if device.rx_queues.len() < 2 {
        return None;
    }
    let only = |queue: u32, by: &str| {
        let known = device.rx_queues.iter().any(|q| q.index == queue);
        let queues = vec![if known { queue } else { 0 }];
        Some(Receiving { queues, by: by.to_owned() })
    };
    match device.driver.as_deref()? {
        // mvneta.c, mvneta_percpu_elect and mvneta_config_rss: everything goes to the default queue,
        // which the RSS table of one entry names.
        "mvneta" => {
            let table = device.settings.rss.as_ref().and_then(|rss| rss.table.first().copied());
            let parameter = || number(host, Path::new("/sys/module/mvneta/parameters/rxq_def"));
            only(table.or_else(parameter).unwrap_or(0), "mvneta.c: one elected queue (rxq_def)")
        }
        // bcmgenet.c, bcmgenet_init_rx_queues: other rings get what n-tuple rules pick for them.
        "bcmgenet" => {
            let rules = device.settings.ntuple.as_ref().and_then(|n| n.get("rules").copied());
            let none = rules.unwrap_or(0) == 0;
            none.then(|| only(0, "bcmgenet.c: the default ring, without n-tuple rules"))?
        }
        // qca-nss-dp hal/dp_ops/edma_dp/edma_v1: IPQ807x and IPQ60xx have one receive ring.
        "nss-dp" | "qca-nss-dp" | "ipq-edma" | "edma" if lines == 1 => {
            only(0, "edma_v1 of qca-nss-dp: one receive ring")
        }
        _ => None,
    }
}

/// Drivers of Intel's cards give vectors consecutive rings, as evenly as they go (ixgbe_lib.c,
/// ixgbe_alloc_q_vectors; igb_main.c; i40e_main.c, i40e_vsi_map_rings_to_vectors).
const CONSECUTIVE: &[&str] = &["igb", "igbvf", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice"];

/// Finds the queues that each line of a device serves.
fn serve(device: &NetDev, irqs: &mut [Irq]) {
    let count = |wanted: fn(IrqRole) -> bool| {
        let own = irqs.iter().filter(|irq| irq.id.device == device.name);
        own.filter(|irq| wanted(irq.id.role)).count()
    };
    let completes = |role: IrqRole| role.carries_packets() && role != IrqRole::Rx;
    let (receivers, completers) = (count(IrqRole::receives), count(completes));
    let driver = device.driver.as_deref().unwrap_or_default();
    let consecutive = CONSECUTIVE.contains(&driver);
    let rx: Vec<u32> = match &device.receiving {
        Some(real) => real.queues.clone(),
        None => device.rx_queues.iter().map(|q| q.index).collect(),
    };
    let tx: Vec<u32> = device.tx_queues.iter().map(|q| q.index).collect();
    for irq in irqs.iter_mut().filter(|irq| irq.id.device == device.name) {
        let own = irq.id.queue;
        let share = |queues: &[u32], lines: usize| match (lines, queues.len()) {
            // One line for all of them: one source, and one place.
            (1, _) => queues.to_vec(),
            (lines, all) if consecutive && all > lines => group(queues, lines, own),
            // essedma has four transmit lines for each queue (edma_axi.c, edma_axi_probe).
            (lines, all) if all > 1 && lines > all && lines.is_multiple_of(all) => {
                let group = usize::try_from(own).unwrap_or(usize::MAX) / (lines / all);
                queues.get(group).copied().into_iter().collect()
            }
            _ => vec![own],
        };
        let napi = device.napis.iter().find(|napi| napi.irq == Some(irq.line.0));
        let told = napi.filter(|napi| !napi.rx.is_empty() || !napi.tx.is_empty());
        let (mut rx, mut tx) = match told {
            Some(napi) => (napi.rx.clone(), napi.tx.clone()),
            None => (share(&rx, receivers), share(&tx, completers)),
        };
        // The number in its identity says as much.
        let known = |queues: &[u32]| queues == [own].as_slice();
        if !irq.id.role.receives() || known(&rx) {
            rx.clear();
        }
        if !completes(irq.id.role) || known(&tx) {
            tx.clear();
        }
        (irq.rx, irq.tx) = (rx, tx);
    }
}

/// Queues of one of so many vectors: the first vectors have one more where they do not come out
/// even.
fn group(queues: &[u32], lines: usize, line: u32) -> Vec<u32> {
    let line = usize::try_from(line).unwrap_or(usize::MAX);
    let (each, more) = (queues.len() / lines, queues.len() % lines);
    let first = line.saturating_mul(each).saturating_add(line.min(more));
    let size = each + usize::from(line < more);
    queues.iter().skip(first).take(size).copied().collect()
}

/// Tags after the payload, which leave every header where a card looks for it (net/dsa/tag_rtl8_4.c
/// rtl8_4t, tag_ksz.c, tag_trailer.c, tag_hellcreek.c, tag_xrs700x.c).
const BEHIND: &[&str] =
    &["rtl8_4t", "ksz8795", "ksz9477", "ksz9893", "lan937x", "trailer", "hellcreek", "xrs700x"];

/// Tags that are VLAN tags, which cards look past (net/dsa/tag_8021q.c and its users).
const VLANS: &[&str] = &["ocelot-8021q", "sja1105", "vsc73xx-8021q"];

/// Drivers whose hardware reads the tag of its own switch, by protocol: mtk_eth_soc.c (MTK_CDMP_STAG_EN,
/// mtk_hw_init), airoha_eth.c (CDM ingress with STAG), bcmsysport.c (RXCHK_BRCM_TAG_EN).
const READS: &[(&str, &str)] = &[
    ("mtk_soc_eth", "mtk"),
    ("airoha_eth", "mtk"),
    ("brcm-systemport", "brcm"),
    ("brcm-systemport", "brcm-prepend"),
];

/// Tag on a conduit's packets, by the name of its protocol where the kernel reports it.
fn tag(device: &NetDev, protocol: Option<String>, is_conduit: bool) -> Option<SwitchTag> {
    let protocol = protocol.filter(|protocol| protocol != "none");
    let driver = device.driver.as_deref().unwrap_or_default();
    // The switch of IPQ40xx passes the port in the descriptor (ipqess.c, ipqess_rx_poll;
    // net/dsa/tag_oob.c), and the ring is chosen by a hash of the flow.
    let beside = ["ipqess", "essedma"].iter().any(|known| driver.contains(known));
    let protocol = match protocol {
        Some(protocol) => protocol,
        None if is_conduit && beside => "oob".to_owned(),
        None => return None,
    };
    let known = protocol.as_str();
    let (hashed, by) = match () {
        () if known == "oob" => (true, "the tag is in the descriptor (net/dsa/tag_oob.c)"),
        () if BEHIND.contains(&known) => (true, "the tag is behind the payload (net/dsa)"),
        () if VLANS.contains(&known) => (true, "the tag is a VLAN tag (net/dsa/tag_8021q.c)"),
        () if READS.contains(&(driver, known)) => (true, "the driver's hardware reads the tag"),
        () => (false, "the tag stands before the headers that cards hash (net/dsa)"),
    };
    Some(SwitchTag { protocol, hashed: Some(hashed), by: by.to_owned() })
}

/// Number of packets or interrupts from which a count shows how a card spreads them.
const ENOUGH: u64 = 100_000;
/// Number of packets after which a queue that had none gets none.
const MILLIONS: u64 = 1_000_000;

/// Updates the tags and receiving queues of devices by the counters.
pub(super) fn prove(netdevs: &mut [NetDev], irqs: &[Irq], evidence: &Evidence) {
    for device in netdevs.iter_mut().filter(|d| d.rx_queues.len() > 1) {
        let (counts, by) = match by_queue(device, evidence) {
            counts if counts.is_empty() => (by_line(device, irqs), "interrupts of each line"),
            counts => (counts, "packets of each queue"),
        };
        let all: u64 = counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
        let used = counts.iter().filter(|(_, count)| *count >= all.div_ceil(1000)).count();
        if let Some(tag) = device.tag.as_mut().filter(|_| all >= ENOUGH && used > 1)
            && tag.hashed != Some(true)
        {
            (tag.hashed, tag.by) = (Some(true), format!("{by}: {used} queues take them"));
        }
        let taking = counts.iter().filter(|(_, count)| *count > 0);
        let taking: Vec<u32> = taking.map(|(queue, _)| *queue).collect();
        if all >= MILLIONS && device.receiving.is_none() && taking.len() < counts.len() {
            let by = format!("{by}: the others had none of {all}");
            device.receiving = Some(Receiving { queues: taking, by });
        }
    }
}

/// Packets of every receive queue; empty unless the driver reports all of them.
fn by_queue(device: &NetDev, evidence: &Evidence) -> Vec<(u32, u64)> {
    let told = evidence.queues.get(&device.name).map(Vec::as_slice).unwrap_or_default();
    let counts = device.rx_queues.iter().map(|queue| {
        let told = told.iter().find(|t| t.index == queue.index)?;
        Some((queue.index, told.rx?))
    });
    counts.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Interrupts of every receive queue; empty unless each has a line of its own. A line that is polled
/// in a hurry has few interrupts, but none only without packets.
fn by_line(device: &NetDev, irqs: &[Irq]) -> Vec<(u32, u64)> {
    let lines = irqs.iter().filter(|irq| irq.id.device == device.name);
    let lines: Vec<&Irq> =
        lines.filter(|irq| irq.id.role.receives() && irq.rx.is_empty()).collect();
    let counts = device.rx_queues.iter().map(|queue| {
        let line = lines.iter().find(|irq| irq.id.queue == queue.index)?;
        let count = line.counts.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        Some((queue.index, count))
    });
    let mut counts: Vec<(u32, u64)> = counts.collect::<Option<_>>().unwrap_or_default();
    counts.order_by(Ord::cmp);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::FakeHost;
    use crate::model::evidence::QueueMoved;
    use crate::model::snapshot::{Bus, IrqId, RxQueue, TxQueue};
    use crate::model::units::{CpuId, IrqLine};

    fn card(driver: &str, rx: u32, tx: u32) -> NetDev {
        NetDev {
            name: "eth0".into(),
            driver: Some(driver.into()),
            bus: Bus::Platform("x".into()),
            rx_queues: (0..rx).map(|index| RxQueue { index, rps: None, flow_cnt: None }).collect(),
            tx_queues: (0..tx).map(|index| TxQueue { index, xps: None }).collect(),
            ..NetDev::default()
        }
    }

    fn line(number: u32, queue: u32, role: IrqRole, count: u64) -> Irq {
        Irq {
            line: IrqLine(number),
            id: IrqId { device: "eth0".into(), queue, role },
            counts: vec![(CpuId(0), count)],
            ..Irq::default()
        }
    }

    fn settled(device: NetDev, mut irqs: Vec<Irq>) -> (NetDev, Vec<Irq>) {
        let mut netdevs = vec![device];
        settle(&FakeHost::router(1, &[]), &mut netdevs, &mut irqs);
        prove(&mut netdevs, &irqs, &Evidence::default());
        (netdevs.remove(0), irqs)
    }

    #[test]
    fn mvnetas_eight_queues_are_one() {
        let (device, irqs) =
            settled(card("mvneta", 8, 8), vec![line(36, 0, IrqRole::Combined, 8_000_000)]);
        assert_eq!(device.receiving.unwrap().queues, [0]);
        assert_eq!((irqs[0].receives(0), irqs[0].receives(1)), (true, false));
        assert_eq!(irqs[0].tx, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn one_line_for_several_queues_serves_all_of_them() {
        let (device, irqs) = settled(card("x", 4, 1), vec![line(36, 0, IrqRole::Combined, 9)]);
        assert_eq!(device.receiving, None);
        assert_eq!(irqs[0].rx, [0, 1, 2, 3]);
        assert!(irqs[0].receives(3) && irqs[0].tx.is_empty());
    }

    #[test]
    fn intels_vectors_take_consecutive_rings() {
        let lines = (0..3).map(|n| line(40 + n, n, IrqRole::Combined, 5)).collect();
        let (_, irqs) = settled(card("ixgbe", 8, 8), lines);
        let all: Vec<&[u32]> = irqs.iter().map(|irq| irq.rx.as_slice()).collect();
        assert_eq!(all, [&[0, 1, 2][..], &[3, 4, 5], &[6, 7]]);
    }

    #[test]
    fn essedmas_sixteen_transmit_lines_are_four_queues() {
        let lines = (0..16).map(|n| line(72 + n, n, IrqRole::Tx, 5)).collect();
        let (_, irqs) = settled(card("essedma", 4, 4), lines);
        assert_eq!(
            (&irqs[3].tx[..], &irqs[7].tx[..], &irqs[15].tx[..]),
            (&[0][..], &[1][..], &[3][..])
        );
    }

    #[test]
    fn a_queue_without_a_packet_in_millions_does_not_receive() {
        let lines = |counts: [u64; 3]| {
            (0..3).zip(counts).map(|(n, c)| line(40 + n, n, IrqRole::Combined, c)).collect()
        };
        let (device, _) = settled(card("x", 3, 3), lines([9_000_000, 0, 40]));
        assert_eq!(device.receiving.unwrap().queues, [0, 2]);
        let (device, _) = settled(card("x", 3, 3), lines([900, 0, 40]));
        assert_eq!(device.receiving, None, "too few to tell");
    }

    #[test]
    fn a_tag_is_hashed_past_where_sources_or_counters_say_so() {
        let tagged = |driver: &str, protocol: &str| {
            let mut device = card(driver, 2, 2);
            device.tag = tag(&device, Some(protocol.to_owned()), true);
            [device]
        };
        let hashed = |netdevs: &[NetDev]| netdevs[0].tag.as_ref().and_then(|tag| tag.hashed);
        for (driver, protocol, expected) in [
            ("ipqess-edma", "oob", true),
            ("al_eth", "rtl8_4t", true),
            ("al_eth", "rtl8_4", false),
            ("mtk_soc_eth", "mtk", true),
            ("mvneta", "mtk", false),
            ("mvpp2", "edsa", false),
            ("fsl_enetc", "ocelot-8021q", true),
        ] {
            assert_eq!(hashed(&tagged(driver, protocol)), Some(expected), "{driver} {protocol}");
        }
        assert!(tagged("igb", "none")[0].tag.is_none());
        let mut netdevs = tagged("mvpp2", "edsa");
        let told = [600_000, 500_000].into_iter().zip(0..);
        let queues = told.map(|(n, index)| QueueMoved { index, rx: Some(n), tx: None }).collect();
        let evidence =
            Evidence { queues: [("eth0".to_owned(), queues)].into(), ..Evidence::default() };
        prove(&mut netdevs, &[], &evidence);
        assert_eq!(hashed(&netdevs), Some(true));
    }
}
