//! Device, queue and role in an interrupt's action name.
//!
//! Drivers name their lines as they like; the forms here were gathered from drivers/net and from
//! captured machines. `eth1` must never match `eth10`.

use crate::model::snapshot::IrqRole;

/// Reads `action` as belonging to a device that drivers may call by any of `names` (its interface
/// name, its bus address, its virtio name). `None` when the action is not of this device.
#[must_use]
pub fn of_device(action: &str, names: &[&str]) -> Option<(u32, IrqRole)> {
    names.iter().filter(|n| !n.is_empty()).find_map(|name| of_name(action, name))
}

/// Reads the queue and role of an action that is known to be of the device in question (its line is
/// in the device's `msi_irqs`), whatever name it carries.
#[must_use]
pub fn queue_and_role(action: &str) -> Option<(u32, IrqRole)> {
    if is_control(action) {
        return Some((0, IrqRole::Control));
    }
    // mlx5_comp3@pci:0000:03:00.0, mlx4-6@0000:03:00.0, mana_q1@pci:...
    if let Some((name, _)) = action.split_once('@') {
        // al_eth of Annapurna Labs: `al-eth-rx-comp-3@pci:...`, `al-eth-tx-comp-0@pci:...`, or
        // `al-eth-msix-all@pci:...` alone (al_eth_main.c, al_eth_setup_int_mode).
        let role = match name {
            "al-eth-msix-all" => return Some((0, IrqRole::Combined)),
            name if name.contains("-rx-comp-") => IrqRole::Rx,
            name if name.contains("-tx-comp-") => IrqRole::Tx,
            _ => IrqRole::Combined,
        };
        return trailing_number(name).map(|queue| (queue, role));
    }
    suffix(action)
}

/// Reads the names of lines that a whole switch shares and that name no device: Qualcomm's EDMA
/// (`edma_rxdesc_20`, `edma_txcmpl_8`, `edma_eth_rx0`), Lantiq's xRX200 (`xrx200_net_rx`), NXP's
/// portals, one for each CPU (`dpio.3`, dpio-driver.c; `QMan portal 3`, qman_portal.c), Airoha's
/// banks (`airoha_eth.0`, airoha_eth.c), Octeon's work queues (`Ethernet`, ethernet-rx.c), and what
/// IPQ80xx's network processors pass to the CPUs (`nss_queue1`, nss_hal.c of qca-nss-drv).
#[must_use]
pub fn of_switch(action: &str) -> Option<(u32, IrqRole)> {
    if action == "Ethernet" {
        return Some((0, IrqRole::Combined));
    }
    let numbered = ["dpio.", "QMan portal ", "airoha_eth."];
    if let Some(number) = numbered.iter().find_map(|p| action.strip_prefix(p)) {
        return Some((number.parse().ok()?, IrqRole::Combined));
    }
    if let Some(rest) = action.strip_prefix("nss_") {
        let queue = rest.strip_prefix("queue").and_then(|number| number.parse().ok());
        return Some(queue.map_or((0, IrqRole::Control), |queue| (queue, IrqRole::Rx)));
    }
    let rest = ["edma_eth_", "edma_", "xrx200_net_"].iter().find_map(|p| action.strip_prefix(p))?;
    let words = rest.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    let queue = trailing_number(rest).unwrap_or(0);
    match words {
        "rxdesc" | "rx" => Some((queue, IrqRole::Rx)),
        "txcmpl" | "tx" => Some((queue, IrqRole::Tx)),
        // rxfill gives buffers back, misc counts errors.
        "rxfill" | "misc" => Some((queue, IrqRole::Control)),
        _ => None,
    }
}

fn of_name(action: &str, name: &str) -> Option<(u32, IrqRole)> {
    // `i40e-eth0-TxRx-0`: the driver may come before the device.
    let at = action.match_indices(name).find_map(|(at, _)| {
        let before = action.get(..at)?.chars().next_back();
        let after = action.get(at + name.len()..)?.chars().next();
        let starts = before.is_none_or(starts_word);
        let ends = after.is_none_or(ends_word);
        (starts && ends).then_some(at)
    })?;
    let rest = action.get(at + name.len()..)?;
    if rest.is_empty() {
        // mlx5_comp3@pci:0000:03:00.0 carries its queue before the address.
        return match action.split_once('@') {
            Some(_) => queue_and_role(action),
            None => Some((0, IrqRole::Combined)),
        };
    }
    if is_control(rest) {
        return Some((0, IrqRole::Control));
    }
    suffix(rest)
}

/// True if the character may stand before a device's name.
fn starts_word(before: char) -> bool {
    matches!(before, '-' | ':' | '@' | '/' | ' ')
}

/// True if the character may stand after a device's name.
fn ends_word(after: char) -> bool {
    matches!(after, '-' | ':' | '.' | '/' | ' ' | '_')
}

/// All parts of an action, of at most `longest` bytes, that [`of_device`] would take for a name.
pub fn words(action: &str, longest: usize) -> impl Iterator<Item = &str> {
    let starts = action.char_indices().scan(None, |before: &mut Option<char>, (at, c)| {
        let is_start = before.is_none_or(starts_word);
        *before = Some(c);
        Some((at, is_start))
    });
    starts.filter(|(_, is_start)| *is_start).flat_map(move |(start, _)| {
        let rest = action.get(start..).unwrap_or_default();
        let inner = rest.char_indices().filter(|(at, c)| *at > 0 && ends_word(*c));
        let ends = inner.map(|(at, _)| at).chain([rest.len()]).take_while(move |&at| at <= longest);
        ends.filter_map(|end| rest.get(..end))
    })
}

/// Words in names of lines that carry no packets: admin queues, mailboxes, events, link state,
/// errors, clocks, RDMA (i40e and ice `:misc`, ice `:ctrl` and `:ll_ts`, iavf `:mbx`, igb and igc
/// `-unused`, forcedeth `-other`, enic `-err` and `-notify`, nfp `-lsc` and `-exn`, sfc `-ptp`, stmmac
/// `:mac`, `:wol`, `:lpi` and `:safety-ce`, ena `-mgmnt`, mana `hwc`, mlx5 before 5.0 `_pages_eq@` and
/// `_cmd_eq@`, irdma and hinic `CEQ` and `AEQ`, bnxt_re `-nq-` and `_creq`, cxgb4 `-FWeventq`, nicvf
/// `-rbdr-`, octeontx2 `mbox`).
const CONTROL: &[&str] = &[
    "async",
    "fdir",
    "hwc",
    "-config",
    "-misc",
    ":misc",
    ":mbx",
    "mailbox",
    "-event",
    "-link",
    "-mgmnt",
    "-sp-",
    "aenq",
    "adminq",
    "-err",
    "-notify",
    "-lsc",
    "-ptp",
    ":mac",
    ":wol",
    ":lpi",
    ":safety",
    ":sfty",
    ":ctrl",
    ":ll_ts",
    "-unused",
    "-other",
    "-exn",
    "_eq@",
    "ceq",
    "aeq",
    "-nq-",
    "_creq",
    "fweventq",
    "-rbdr",
    "mbox",
    "msix-mgmt",
    "iwlwifi:exception",
];
fn is_control(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    CONTROL.iter().any(|word| text.contains(word))
}

/// Reads `-TxRx-0`, `-Tx-Rx-3`, `-rx-0`, `-tx0`, `-input.0`, `-output.1`, `-fp-2`, `-rxtx-1`,
/// `:txq0`, `_g0_rx`, `-q1-rx`, ` (queue 1)`, `-0`.
fn suffix(text: &str) -> Option<(u32, IrqRole)> {
    let lower = text.to_ascii_lowercase();
    // cxgb4: `enp5s0f4d1 (queue 11)`.
    let lower = lower.trim_end_matches(')');
    // xen-netfront has the queue in the middle: `eth0-q1-rx`.
    let inner = || {
        let (_, rest) = lower.split_once("-q")?;
        rest.split_once('-')?.0.parse().ok()
    };
    let queue = trailing_number(lower).or_else(inner);
    let words: String = lower.chars().filter(char::is_ascii_alphabetic).collect();
    let has = |w: &str| words.contains(w);
    if has("txrx") || has("rxtx") || has("fp") || has("comp") {
        return Some((queue?, IrqRole::Combined));
    }
    // virtio with fewer vectors than queues; alx; be2net and others by bare queue.
    if has("virtqueues") || words.ends_with("txr") || words == "q" || words == "queue" {
        return Some((queue.unwrap_or(0), IrqRole::Combined));
    }
    if words.ends_with("rx") || words.ends_with("rxq") || has("input") {
        return Some((queue.unwrap_or(0), IrqRole::Rx));
    }
    // sfc: `eth0-xdp-4`.
    let sends = ["tx", "txq", "xdp"].iter().any(|end| words.ends_with(end));
    if sends || has("output") {
        return Some((queue.unwrap_or(0), IrqRole::Tx));
    }
    // `eth1-0`: bare vector numbers. Realtek's r8125/r8126 use 0-15 for receive, 16 and 18 for
    // transmit queues 0 and 1, and others for link events.
    let bare = lower.strip_prefix('-')?.parse::<u32>().ok()?;
    match bare {
        0..=15 => Some((bare, IrqRole::Combined)),
        16 | 18 => Some(((bare - 16) / 2, IrqRole::Tx)),
        _ => Some((0, IrqRole::Control)),
    }
}

/// The number of `eth1-17`, for drivers that count their queues so (bnx2, sfc, cxgb3), without
/// Realtek's meaning of 16 and up.
#[must_use]
pub fn vector(action: &str, device: &str) -> Option<u32> {
    action.strip_prefix(device)?.strip_prefix('-')?.parse().ok()
}

fn trailing_number(text: &str) -> Option<u32> {
    let digits = text.len() - text.bytes().rev().take_while(u8::is_ascii_digit).count();
    text.get(digits..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use IrqRole::{Combined, Control, Rx, Tx};

    #[test]
    fn words_are_what_may_be_a_name() {
        let all: Vec<&str> = words("i40e-eth0.7:x", 9).collect();
        assert_eq!(all, ["i40e", "i40e-eth0", "eth0", "eth0.7", "eth0.7:x", "x"]);
        assert_eq!(words("", 9).count(), 0);
        assert_eq!(words("eth10", 4).count(), 0);
    }

    #[test]
    fn the_forms_that_drivers_use() {
        type Case = (&'static str, &'static [&'static str], Option<(u32, IrqRole)>);
        let cases: &[Case] = &[
            ("eth0", &["eth0"], Some((0, Combined))),
            ("end0", &["end0"], Some((0, Combined))),
            ("eth0-TxRx-0", &["eth0"], Some((0, Combined))),
            ("eth0-rx-0", &["eth0"], Some((0, Rx))),
            ("eth4-tx-0", &["eth4"], Some((0, Tx))),
            ("eth6-rxtx-3", &["eth6"], Some((3, Combined))),
            ("eth1-0", &["eth1"], Some((0, Combined))),
            ("eth1-16", &["eth1"], Some((0, Tx))),
            ("eth1-18", &["eth1"], Some((1, Tx))),
            ("eth1-21", &["eth1"], Some((0, Control))),
            ("i40e-eth0-TxRx-7", &["eth0"], Some((7, Combined))),
            ("ens5-Tx-Rx-2", &["ens5"], Some((2, Combined))),
            ("eth0-fp-1", &["eth0"], Some((1, Combined))),
            ("mlx5_comp3@pci:0000:03:00.0", &["eth0", "0000:03:00.0"], Some((3, Combined))),
            ("mlx4-6@0000:03:00.0", &["0000:03:00.0"], Some((6, Combined))),
            ("mlx5_async0@pci:0000:03:00.0", &["0000:03:00.0"], Some((0, Control))),
            ("virtio0-input.0", &["eth0", "virtio0"], Some((0, Rx))),
            ("virtio0-output.1", &["virtio0"], Some((1, Tx))),
            ("virtio0-config", &["virtio0"], Some((0, Control))),
            ("eth0_g0_rx", &["eth0"], Some((0, Rx))),
            ("eth0-q1-rx", &["eth0"], Some((1, Rx))),
            ("eth0-q3-tx", &["eth0"], Some((3, Tx))),
            ("eth0:rx-2", &["eth0"], Some((2, Rx))),
            ("15100000.ethernet", &["eth0", "15100000.ethernet"], Some((0, Combined))),
            ("c080000.ethernet:txq0", &["c080000.ethernet"], Some((0, Tx))),
            ("8000000.ethernet-tx0", &["8000000.ethernet"], Some((0, Tx))),
            ("i40e-0000:03:00.0:fdir-TxRx-0", &["0000:03:00.0"], Some((0, Control))),
            // Names as the drivers' sources make them.
            ("ice-eth0-TxRx-5", &["eth0"], Some((5, Combined))),
            ("iavf-eth0-TxRx-1", &["eth0"], Some((1, Combined))),
            ("hns3-0000:7d:00.0-TxRx-4", &["0000:7d:00.0"], Some((4, Combined))),
            ("gve-ntfy-blk3@pci:0000:00:04.0", &["0000:00:04.0"], Some((3, Combined))),
            ("mana_q2@pci:7870:00:00.0", &["7870:00:00.0"], Some((2, Combined))),
            ("eth0-rxtx0", &["eth0"], Some((0, Combined))),
            ("eth0-txrx-1", &["eth0"], Some((1, Combined))),
            ("eth0-TxR-0", &["eth0"], Some((0, Combined))),
            ("eth0-Rx3", &["eth0"], Some((3, Rx))),
            ("eth0-q2", &["eth0"], Some((2, Combined))),
            ("virtio0-virtqueues", &["virtio0"], Some((0, Combined))),
            ("eth0_g0_tx", &["eth0"], Some((0, Tx))),
            // The same drivers' lines without packets.
            ("i40e-0000:03:00.0:misc", &["0000:03:00.0"], Some((0, Control))),
            ("ice-0000:3b:00.0:misc", &["0000:3b:00.0"], Some((0, Control))),
            ("iavf-0000:3b:02.0:mbx", &["0000:3b:02.0"], Some((0, Control))),
            ("gve-mgmnt@pci:0000:00:04.0", &["0000:00:04.0"], Some((0, Control))),
            ("mana_hwc@pci:7870:00:00.0", &["7870:00:00.0"], Some((0, Control))),
            ("ena-mgmnt@pci:0000:00:05.0", &["0000:00:05.0"], Some((0, Control))),
            ("mlx4-async@pci:0000:03:00.0", &["0000:03:00.0"], Some((0, Control))),
            ("eth0-sp-0", &["eth0"], Some((0, Control))),
            ("eth0-event-4", &["eth0"], Some((0, Control))),
            ("eth0-err", &["eth0"], Some((0, Control))),
            ("eth0-notify", &["eth0"], Some((0, Control))),
            ("eth0-lsc", &["eth0"], Some((0, Control))),
            ("eth0:mac", &["eth0"], Some((0, Control))),
            ("eth0:safety-ue", &["eth0"], Some((0, Control))),
            // From /proc/interrupts of people's reports: metal-images#136 (ice, E810),
            // irqbalance#202 (cxgb4), compute-virtual-ethernet-linux#30 (gve), nemu#82 (i40e).
            ("ice-0000:65:00.0:ctrl-TxRx-0", &["0000:65:00.0"], Some((0, Control))),
            ("ice-lan1-TxRx-2", &["lan1"], Some((2, Combined))),
            ("ice-0000:65:00.1:ll_ts", &["0000:65:00.1"], Some((0, Control))),
            ("enp5s0f4d1 (queue 11)", &["enp5s0f4d1"], Some((11, Combined))),
            ("enp5s0f4-FWeventq", &["enp5s0f4"], Some((0, Control))),
            ("i40e-enP1s15-TxRx-1", &["enP1s15"], Some((1, Combined))),
            // As the sources of older and rarer drivers have them.
            ("mlx5_pages_eq@pci:0000:03:00.0", &["0000:03:00.0"], Some((0, Control))),
            ("mlx5_cmd_eq@pci:0000:03:00.0", &["0000:03:00.0"], Some((0, Control))),
            ("irdma-0000:31:00.0-AEQCEQ-0", &["0000:31:00.0"], Some((0, Control))),
            ("bnxt_re-nq-1@pci:0000:19:00.0", &["0000:19:00.0"], Some((0, Control))),
            ("bnxt_qplib_creq@pci:0000:19:00.0", &["0000:19:00.0"], Some((0, Control))),
            ("ens1f0np0-TxRx-7", &["ens1f0np0"], Some((7, Combined))),
            ("enp3s0-unused", &["enp3s0"], Some((0, Control))),
            ("eth0-other", &["eth0"], Some((0, Control))),
            ("eth0-xdp-4", &["eth0"], Some((4, Tx))),
            ("eth2-rbdr-0", &["eth2"], Some((0, Control))),
            ("enp125s0f0_rxq3", &["enp125s0f0"], Some((3, Rx))),
            ("al-eth-rx-comp-3@pci:0000:00:01.0", &["0000:00:01.0"], Some((3, Rx))),
            ("al-eth-tx-comp-0@pci:0000:00:01.0", &["0000:00:01.0"], Some((0, Tx))),
            ("al-eth-msix-mgmt@pci:0000:00:01.0", &["0000:00:01.0"], Some((0, Control))),
            ("al-eth-msix-all@pci:0000:00:01.0", &["0000:00:01.0"], Some((0, Combined))),
            ("hinic_ceq0@pci:0000:0b:00.0", &["0000:0b:00.0"], Some((0, Control))),
            ("ibmvnic-30000003-tx1", &["30000003"], Some((1, Tx))),
            ("19000000.eth", &["eth0", "19000000.eth"], Some((0, Combined))),
            ("c080000.ethernet:rxq3", &["c080000.ethernet"], Some((3, Rx))),
            // Not of this device.
            ("eth10-TxRx-0", &["eth1"], None),
            ("mana_q2@pci:7870:00:00.1", &["7870:00:00.0"], None),
            ("eth10", &["eth1"], None),
            ("eth10-rx-0", &["eth1"], None),
            ("virtio10-input.0", &["virtio1"], None),
            ("veth0-rx-0", &["eth0"], None),
            ("dw-mci", &["eth0"], None),
        ];
        for (action, names, expected) in cases {
            assert_eq!(of_device(action, names), *expected, "{action} of {names:?}");
        }
    }

    #[test]
    fn a_line_known_to_be_of_the_device_needs_no_name() {
        assert_eq!(queue_and_role("mlx5_comp11@pci:0000:03:00.0"), Some((11, Combined)));
        assert_eq!(queue_and_role("oldname-TxRx-2"), Some((2, Combined)));
        assert_eq!(queue_and_role("mana_q1@pci:7870:00:00.0"), Some((1, Combined)));
        assert_eq!(queue_and_role("nothing known"), None);
    }

    #[test]
    fn lines_of_a_whole_switch_name_no_device() {
        let cases = [
            ("edma_rxdesc_20", Some((20, Rx))),
            ("edma_rxdesc", Some((0, Rx))),
            ("edma_txcmpl_8", Some((8, Tx))),
            ("edma_rxfill_4", Some((4, Control))),
            ("edma_misc", Some((0, Control))),
            ("edma_eth_rx3", Some((3, Rx))),
            ("edma_eth_tx12", Some((12, Tx))),
            ("xrx200_net_rx", Some((0, Rx))),
            ("xrx200_net_tx", Some((0, Tx))),
            ("dpio.3", Some((3, Combined))),
            ("QMan portal 2", Some((2, Combined))),
            ("airoha_eth.1", Some((1, Combined))),
            ("Ethernet", Some((0, Combined))),
            // qosmio/openwrt-ipq issue 46, nss-packages pull request 21.
            ("nss_queue0", Some((0, Rx))),
            ("nss_queue3", Some((3, Rx))),
            ("nss_empty_buf_queue", Some((0, Control))),
            ("nss_coredump_complete", Some((0, Control))),
            ("edma", None),
            ("sdma_rx", None),
        ];
        for (action, expected) in cases {
            assert_eq!(of_switch(action), expected, "{action}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_is_found_is_one_of_the_words(action in "[a-c0-1:@./ _-]{0,12}", name in "[a-c0-1:.-]{1,5}") {
            if of_device(&action, &[&name]).is_some() {
                prop_assert!(words(&action, name.len()).any(|w| w == name));
            }
        }

        #[test]
        fn any_name_is_survived(action: String, name: String) {
            let _known = (of_device(&action, &[&name]), queue_and_role(&action), of_switch(&action));
        }
    }
}
