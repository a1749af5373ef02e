//! What drivers' sources say of their lines beyond the names: numbers, roles, order, and which of
//! them can't be moved.

use super::irqs::{BY_KERNEL, Found};
use crate::model::order::InOrder;
use crate::model::snapshot::{Bus, IrqRole, NetDev};
use crate::parse::interrupts::Interrupts;
use crate::parse::irq_name;

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
        // cpsw.c, cpsw_probe: receive, transmit, then what is neither.
        "cpsw" | "cpsw-switch" => Some(then(&[IrqRole::Rx, IrqRole::Tx], IrqRole::Control)),
        // One for each queue; what comes after is for link events (aq_nic.c, aq_nic_start;
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

/// Lines that a driver forbids to move, where kernels before 6.12 do not tell.
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

/// Where ConnectX-3 names its lines by device, those by its address alone are InfiniBand's (mlx4_en
/// and mlx4_core of kernels before 4.2): packets come by the named ones.
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
