//! Facts about lines that drivers' sources state beyond the names: numbers, roles, order, and which
//! of them can't be moved.

use super::irqs::{BY_KERNEL, Found};
use crate::machine::parse::interrupts::{Interrupts, Row};
use crate::machine::parse::irq_name;
use crate::model::order::InOrder;
use crate::model::snapshot::{Bus, IrqRole, NetDev};

/// Numbers and roles of lines whose names alone mislead.
pub(super) fn as_the_driver_counts(device: &NetDev, found: &mut [Found<'_>]) {
    let told = |line: &Found<'_>| line.learnt != BY_KERNEL;
    match device.driver.as_deref().unwrap_or_default() {
        // tg3.c, tg3_mem_rx_acquire: with several vectors the first one receives nothing, and
        // receive queue 0 is `eth0-rx-1`.
        "tg3" if found.len() > 1 => {
            for line in found.iter_mut().filter(|l| told(l)) {
                match line.role {
                    IrqRole::Tx | IrqRole::Control => {}
                    _ if irq_name::vector(&line.action, &device.name).is_some() => {
                        line.role = IrqRole::Control;
                    }
                    _ => line.queue = line.queue.saturating_sub(1),
                }
            }
        }
        // gve.h, gve_tx_idx_to_ntfy and gve_rx_idx_to_ntfy: the first half of the blocks transmits.
        // The driver was called gvnic before 6.2.
        "gve" | "gvnic" => {
            let blocks = found.iter().filter(|l| told(l) && l.role == IrqRole::Combined).count();
            let half = u32::try_from(blocks / 2).unwrap_or(u32::MAX);
            for line in found.iter_mut().filter(|l| told(l) && l.role == IrqRole::Combined) {
                (line.role, line.queue) = match line.queue.checked_sub(half) {
                    Some(queue) => (IrqRole::Rx, queue),
                    None => (IrqRole::Tx, line.queue),
                };
            }
        }
        "" => {}
        // r8125_n.c: it asks for as many vectors as the chip has; those past the queues in use are
        // silent.
        driver if driver.starts_with("r81") => {
            let queues = u32::try_from(device.rx_queues.len()).unwrap_or(u32::MAX);
            let past = |l: &&mut Found<'_>| l.role == IrqRole::Combined && l.queue >= queues;
            if queues > 0 {
                found.iter_mut().filter(|l| told(l)).filter(past).for_each(|line| {
                    line.role = IrqRole::Control;
                });
            }
        }
        _ => {
            for line in found.iter_mut().filter(|l| told(l)) {
                if let Some(queue) = irq_name::vector(&line.action, &device.name) {
                    (line.queue, line.role) = (queue, IrqRole::Combined);
                }
            }
        }
    }
}

/// Roles of several lines that a driver asked for by one and the same name, in their order.
pub(super) fn alike(device: &NetDev, found: &[Found<'_>]) -> Option<Vec<IrqRole>> {
    let first = found.first()?;
    if found.len() < 2 || found.iter().any(|f| f.action != first.action) {
        return None;
    }
    let then = |first: &[IrqRole], rest: IrqRole| -> Vec<IrqRole> {
        first.iter().copied().chain(std::iter::repeat(rest)).take(found.len()).collect()
    };
    match device.driver.as_deref()? {
        // The default queue's receive work comes by the first, nearly all completions by the
        // second (bcmgenet.c, bcmgenet_isr0 and _isr1).
        "bcmgenet" if found.len() == 2 => Some(vec![IrqRole::Rx, IrqRole::Tx]),
        // mtk_eth_soc.c, mtk_probe: irq[1] is transmit, irq[2] receive.
        "mtk_soc_eth" if found.len() == 2 => Some(vec![IrqRole::Tx, IrqRole::Rx]),
        // cpsw.c, cpsw_probe: receive, transmit, then lines that are neither.
        "cpsw" | "cpsw-switch" => Some(then(&[IrqRole::Rx, IrqRole::Tx], IrqRole::Control)),
        // One for each queue; the lines after those are for link events (aq_nic.c, aq_nic_start;
        // mvpp2_main.c, mvpp2_open).
        "atlantic" | "mvpp2" => {
            let queues = vec![IrqRole::Combined; device.rx_queues.len().max(1)];
            Some(then(&queues, IrqRole::Control))
        }
        // stmmac_main.c, stmmac_request_irq_single: the MAC's line, then wake-up and LPI.
        // starfive-eth-plat is StarFive's own kernel's.
        dwmac
            if ["dwmac", "stmmac", "ethqos", "starfive-eth"]
                .iter()
                .any(|name| dwmac.contains(name)) =>
        {
            Some(then(&[IrqRole::Combined], IrqRole::Control))
        }
        _ => None,
    }
}

/// Reason why a driver forbids to move a line, where kernels before 6.12 do not report it.
pub(super) fn fixed_by_driver(device: &NetDev, found: &Found<'_>) -> Option<String> {
    let driver = device.driver.as_deref()?;
    if driver == "mvneta" && found.row.chip == "MPIC" {
        return Some(
            "mvneta's line is each CPU's own (mvneta.c, mvneta_percpu_isr; irq-armada-370-xp.c)"
                .to_owned(),
        );
    }
    let own = driver == "mvpp2" && device.rx_queues.len() > 1;
    (own && found.role.carries_packets())
        .then(|| "mvpp2 keeps one for each CPU (mvpp2_main.c, mvpp2_irqs_init)".to_owned())
}

/// Makes lines named by address alone InfiniBand's, where ConnectX-3 names others by device
/// (mlx4_en and mlx4_core of kernels before 4.2): packets come by the named ones.
pub(super) fn by_address(device: &NetDev, found: &mut [Found<'_>]) {
    let named = |line: &Found<'_>| irq_name::of_device(&line.action, &[&device.name]).is_some();
    if found.iter().any(|line| named(line) && line.role.carries_packets()) {
        found.iter_mut().filter(|l| l.learnt != BY_KERNEL && l.action.contains('@')).for_each(
            |l| {
                l.role = IrqRole::Control;
            },
        );
    }
}

/// Lines of a device whose driver asks for them by its own name (mvneta before 4.4): the first is
/// the first device's, by address, if there are as many of them as devices.
pub(super) fn in_order_of_the_driver<'a>(
    device: &NetDev,
    netdevs: &[NetDev],
    table: &'a Interrupts<'a>,
) -> Option<Found<'a>> {
    let address = |d: &NetDev| match &d.bus {
        Bus::Platform(name) => Some(name.clone()),
        _ => None,
    };
    let (driver, own) = (device.driver.as_ref()?, address(device)?);
    let mut rows = table.rows.iter().filter(|row| row.actions.contains(driver));
    let alike = netdevs.iter().filter(|d| d.driver.as_ref() == Some(driver));
    let mut places: Vec<String> = alike.filter_map(address).collect();
    places.order_by(Ord::cmp);
    places.dedup();
    let at = places.iter().position(|place| *place == own)?;
    if rows.clone().count() != places.len() {
        return None;
    }
    let (row, action) = (rows.nth(at)?, driver.clone());
    let learnt = "name of the driver, order";
    Some(Found { row, action, queue: 0, role: IrqRole::Combined, learnt })
}

/// Numbers lines by rank where they carry the numbers of the hardware's rings and the device has as
/// many queues as lines: IPQ40xx receives on rings 0, 2, 4 and 6 and sends on 0, 4, 8 and 12 of its
/// four queues (ipqess.c, ipqess_rx_ring_alloc; essedma's edma_axi.c names its lines by ring too).
pub(super) fn by_rank(device: &NetDev, found: &mut [Found<'_>]) {
    let (rx, tx) = (device.rx_queues.len(), device.tx_queues.len());
    for (role, queues) in [(IrqRole::Rx, rx), (IrqRole::Tx, tx)] {
        let of_role = |line: &&Found<'_>| line.role == role && line.learnt != BY_KERNEL;
        let mut numbers: Vec<u32> = found.iter().filter(of_role).map(|line| line.queue).collect();
        numbers.order_by(Ord::cmp);
        let outside = numbers.last().is_some_and(|last| *last as usize >= queues);
        if !outside || numbers.len() != queues {
            continue;
        }
        for line in found.iter_mut().filter(|line| line.role == role && line.learnt != BY_KERNEL) {
            let rank = numbers.iter().position(|number| *number == line.queue);
            line.queue = rank.and_then(|rank| u32::try_from(rank).ok()).unwrap_or(line.queue);
        }
    }
}

/// Roles by the beginnings of the names that drivers give the lines of a card whatever its device
/// is called: Wi-Fi of Qualcomm (ath11k's and ath12k's pcic.c and ahb.c: packets come by the `DP`
/// or `reo2host` lines and are completed by `wbm2host`; `ce` are commands), and VDSL of MaxLinear's
/// VRX518 (vrx518_tc: `ptm_dl` receives, `aca-txo` completes) and Lantiq (ltq_ptm_vdsl.c).
const BY_CARD: &[(&str, IrqRole)] = &[
    ("DP_EXT_IRQ", IrqRole::Combined),
    ("reo2host-destination-ring", IrqRole::Rx),
    ("wbm2host-tx-completions-ring", IrqRole::Tx),
    ("bhi", IrqRole::Control),
    ("mhi", IrqRole::Control),
    ("ce", IrqRole::Control),
    ("ptm_dl", IrqRole::Rx),
    ("aca-txo", IrqRole::Tx),
    ("ptm_mailbox_isr", IrqRole::Combined),
];

/// The action among those of a line that is known to be of a card, and its role; the one that
/// carries packets where several share the line.
pub(super) fn of_card(actions: &[String]) -> Option<(&String, IrqRole)> {
    let role = |action: &str| {
        let (_, role) = BY_CARD.iter().find(|(name, _)| {
            let rest = action.strip_prefix(name);
            rest.is_some_and(|rest| {
                rest.bytes().all(|b| b.is_ascii_digit() || b"-_er".contains(&b))
            })
        })?;
        Some(*role)
    };
    let known = actions.iter().filter_map(|action| Some((action, role(action)?)));
    known.clone().find(|(_, role)| role.carries_packets()).or_else(|| known.clone().next())
}

/// Lines of Wi-Fi cards that are named by their driver and that nothing else leads to: the first is
/// the first card's, by place on the bus, if there are as many of them as cards (`mt7996e`, and
/// `mt7996e-hif` for the second interface of the same card; `mwlwifi`; `ath10k_ahb`). MediaTek's
/// Wi-Fi inside a SoC has a driver of another name (mt7915/soc.c, mt7615/soc.c).
pub(super) fn of_wifi_driver<'a>(
    device: &NetDev,
    netdevs: &[NetDev],
    table: &'a Interrupts<'a>,
) -> Vec<Found<'a>> {
    let name = |driver: &str| match driver {
        "mt798x-wmac" => "mt7915e".to_owned(),
        "mt7622-wmac" => "mt7615e".to_owned(),
        other => other.to_owned(),
    };
    let is_wifi = |d: &&NetDev| d.kind.as_deref() == Some("wlan");
    let Some(driver) = device.driver.as_deref().filter(|_| is_wifi(&device)) else {
        return Vec::new();
    };
    let place = |d: &NetDev| match &d.bus {
        Bus::Pci(place) | Bus::Platform(place) => Some(place.clone()),
        _ => None,
    };
    let alike = netdevs.iter().filter(is_wifi).filter(|d| d.driver.as_deref() == Some(driver));
    let mut places: Vec<String> = alike.filter_map(place).collect();
    places.order_by(Ord::cmp);
    places.dedup();
    let Some(at) = place(device).and_then(|own| places.iter().position(|p| *p == own)) else {
        return Vec::new();
    };
    let (own, second) = (name(driver), format!("{}-hif", name(driver)));
    let mut found = Vec::new();
    for (queue, action) in (0..).zip([own, second]) {
        let mut rows = table.rows.iter().filter(|row| row.actions.contains(&action));
        if rows.clone().count() == places.len()
            && let Some(row) = rows.nth(at)
        {
            let (role, learnt) = (IrqRole::Combined, "name of the driver, order");
            found.push(Found { row, action, queue, role, learnt });
        }
    }
    if found.is_empty() && places.len() == 1 && matches!(device.bus, Bus::Platform(_)) {
        found = of_rings(driver, table);
    }
    found
}

/// Lines of a Wi-Fi card inside a SoC that bear the names of its rings, counted from one (ath11k's and
/// ath12k's ahb.c, `irq_name`).
fn of_rings<'a>(driver: &str, table: &'a Interrupts<'a>) -> Vec<Found<'a>> {
    if !["ath11k", "ath12k"].iter().any(|own| driver.starts_with(own)) {
        return Vec::new();
    }
    let of_row = |row: &'a Row<'a>| {
        let (action, role) = of_card(&row.actions)?;
        let ring = action.rsplit("-ring").next()?.parse::<u32>().ok()?;
        let (queue, learnt) = (ring.saturating_sub(1), "name of the ring");
        Some(Found { row, action: action.clone(), queue, role, learnt })
    };
    table.rows.iter().filter_map(of_row).collect()
}
