//! A router's ruleset through nf_tables netlink: masquerading, and rules that never match.
//!
//! The rules that `nft` would write as
//!
//! ```text
//! table ip lab {
//!     flowtable fast { hook ingress priority 0; devices = { wan0, lan0 }; }
//!     chain to-wan { type nat hook postrouting priority 100; oifname "wan0" masquerade; }
//!     chain rules  { type filter hook forward priority 0;
//!                    flow add @fast; meta mark 0x1 counter drop; ... }
//! }
//! ```
//!
//! where masquerading and the flowtable are there only when asked for, and the table is `ip6` for
//! IPv6. Where neither makes the kernel track connections but tracking is asked for, the first rule
//! is `ct state 0x0 counter drop`, which never matches either.
//!
//! A batch is one transaction of the kernel: all of it or nothing (nfnetlink.c,
//! nfnetlink_rcv_batch).

use std::io;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Refused, Socket};

// linux/netfilter/nfnetlink.h
pub(super) const NFNL_SUBSYS_NFTABLES: u8 = 10;
const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
// linux/netfilter/nf_tables.h
pub(super) const NFT_MSG_NEWTABLE: u8 = 0;
pub(super) const NFT_MSG_NEWCHAIN: u8 = 3;
pub(super) const NFT_MSG_NEWRULE: u8 = 6;
pub(super) const NFT_MSG_GETRULE: u8 = 7;
pub(super) const NFT_MSG_NEWFLOWTABLE: u8 = 22;
pub(super) const NFTA_TABLE_NAME: u16 = 1;
pub(super) const NFTA_TABLE_FLAGS: u16 = 2;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
pub(super) const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_FLOWTABLE_TABLE: u16 = 1;
const NFTA_FLOWTABLE_NAME: u16 = 2;
const NFTA_FLOWTABLE_HOOK: u16 = 3;
const NFTA_FLOWTABLE_FLAGS: u16 = 7;
const NFTA_FLOWTABLE_HOOK_NUM: u16 = 1;
const NFTA_FLOWTABLE_HOOK_PRIORITY: u16 = 2;
const NFTA_FLOWTABLE_HOOK_DEVS: u16 = 3;
const NFTA_DEVICE_NAME: u16 = 1;
pub(super) const NFTA_FLOW_TABLE_NAME: u16 = 1;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFT_META_MARK: u32 = 3;
const NFT_META_OIFNAME: u32 = 7;
const NFT_CMP_EQ: u32 = 0;
const NFT_REG_VERDICT: u32 = 0;
pub(super) const NFT_REG_1: u32 = 1;
const NF_DROP: u32 = 0;
const NF_NETDEV_INGRESS: u32 = 0;
pub(super) const NF_INET_FORWARD: u32 = 2;
const NF_INET_POST_ROUTING: u32 = 4;
const NFPROTO_UNSPEC: u8 = 0;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
const NFTA_CT_DREG: u16 = 1;
const NFTA_CT_KEY: u16 = 2;
const NFT_CT_STATE: u32 = 0;
const PRIORITY_FILTER: u32 = 0;
const PRIORITY_SRCNAT: u32 = 100;
/// Longest device name with its NUL; a device name is compared over all of it.
const IFNAMSIZ: usize = 16;

const TABLE: &str = "lab";
const CHAIN_NAT: &str = "to-wan";
const CHAIN_FILTER: &str = "rules";
const FLOWTABLE: &str = "fast";

/// A rule takes 192 bytes and a send at most the socket's buffer (208 KiB by default).
const RULES_PER_BATCH: usize = 500;

/// The step of loading a ruleset that the kernel refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleStep {
    /// Talking to nf_tables at all.
    Subsystem,
    /// A table of the family.
    Table,
    /// A chain for address translation.
    NatChain,
    /// A chain for filtering.
    FilterChain,
    /// The masquerading rule.
    Masquerade,
    /// A flowtable.
    Flowtable,
    /// The rule that puts connections into it.
    FlowOffload,
    /// The rule that makes the kernel track connections.
    Track,
    /// A rule that compares the mark, counts and drops.
    Rule,
}

/// A refused ruleset: nothing of the batch is in force.
#[derive(Debug, thiserror::Error)]
#[error("{step:?}: {error}")]
pub struct NftError {
    /// The step that was refused.
    pub step: RuleStep,
    /// The kernel's answer.
    pub error: io::Error,
}

/// Which packets a ruleset sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `table ip`
    Ipv4,
    /// `table ip6`
    Ipv6,
}

/// The rule set that [`load`] puts in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruleset<'a> {
    /// Which packets it sees.
    pub family: Family,
    /// Everything that leaves through this device is masqueraded.
    pub masquerade: Option<&'a str>,
    /// Rules that every forwarded packet passes and none matches: they ask for the marks from 1
    /// to this, and nothing sets a mark.
    pub rules: u32,
    /// Devices between which a flowtable carries TCP and UDP connections past the rules, once
    /// both directions have been seen; `None` for no flowtable.
    pub flowtable: Option<[&'a str; 2]>,
    /// True if connections are tracked in any case.
    pub track: bool,
}

/// Loads a ruleset in the calling thread's network namespace, which has none of ours yet.
///
/// # Errors
/// What the kernel refused; ENOENT for a chain type, flowtable or expression that it lacks.
pub fn load(ruleset: &Ruleset<'_>) -> Result<(), NftError> {
    let socket = Socket::open(NlFamily::Netfilter)
        .map_err(|error| NftError { step: RuleStep::Subsystem, error })?;
    let mut table = Table { socket, family: ruleset.family };
    table.commit(base(ruleset.masquerade))?;
    if let Some(devices) = ruleset.flowtable {
        table.commit(flowtable(devices))?;
    } else if ruleset.track && ruleset.masquerade.is_none() {
        table.commit(vec![(RuleStep::Track, track())])?;
    }
    let marks: Vec<u32> = (1..=ruleset.rules).collect();
    for part in marks.chunks(RULES_PER_BATCH) {
        table.commit(part.iter().map(|mark| (RuleStep::Rule, never(*mark))).collect())?;
    }
    Ok(())
}

/// How many rules stand in the filter chain (those of a flowtable or of tracking included) of the
/// calling thread's network namespace, in the IPv4 table.
///
/// # Errors
/// What the kernel answered.
pub fn count_rules() -> io::Result<usize> {
    let attrs = Attrs::new().text(NFTA_RULE_TABLE, TABLE).text(NFTA_RULE_CHAIN, CHAIN_FILTER);
    let ask = message(NFT_MSG_GETRULE, NlmF::empty(), &attrs);
    Ok(Socket::open(NlFamily::Netfilter)?.dump(ask)?.len())
}

/// The way to the kernel for one table.
struct Table {
    socket: Socket,
    family: Family,
}

impl Table {
    fn commit(&mut self, mut changes: Vec<(RuleStep, Message)>) -> Result<(), NftError> {
        if self.family == Family::Ipv6 {
            for (_, message) in &mut changes {
                // The family is the first byte of nfgenmsg.
                message.body.iter_mut().take(1).for_each(|family| *family = NFPROTO_IPV6);
            }
        }
        commit(&mut self.socket, changes)
    }
}

fn commit(socket: &mut Socket, changes: Vec<(RuleStep, Message)>) -> Result<(), NftError> {
    let (steps, mut messages): (Vec<RuleStep>, Vec<Message>) = changes.into_iter().unzip();
    // Before kernel 6.10 the batch's own end is never acknowledged, so the last change is.
    if let Some(last) = messages.last_mut() {
        last.flags |= NlmF::ACK;
    }
    messages.insert(0, bracket(NFNL_MSG_BATCH_BEGIN));
    messages.push(bracket(NFNL_MSG_BATCH_END));
    socket.transact(&messages).map_err(|Refused { index, error }| {
        let step = index.checked_sub(1).and_then(|i| steps.get(i)).copied();
        NftError { step: step.unwrap_or(RuleStep::Subsystem), error }
    })
}

fn base(masquerade: Option<&str>) -> Vec<(RuleStep, Message)> {
    let table = Attrs::new().text(NFTA_TABLE_NAME, TABLE).be32(NFTA_TABLE_FLAGS, 0);
    let mut changes = vec![(RuleStep::Table, message(NFT_MSG_NEWTABLE, NlmF::CREATE, &table))];
    if masquerade.is_some() {
        let nat = chain(CHAIN_NAT, "nat", NF_INET_POST_ROUTING, PRIORITY_SRCNAT);
        changes.push((RuleStep::NatChain, nat));
    }
    let filter = chain(CHAIN_FILTER, "filter", NF_INET_FORWARD, PRIORITY_FILTER);
    changes.push((RuleStep::FilterChain, filter));
    if let Some(wan) = masquerade {
        let mut name = wan.as_bytes().to_vec();
        name.resize(IFNAMSIZ, 0);
        let masquerade = rule(
            CHAIN_NAT,
            &[meta(NFT_META_OIFNAME), equals(&name), expression("masq", &Attrs::new())],
        );
        changes.push((RuleStep::Masquerade, masquerade));
    }
    changes
}

/// Asking for the state makes the kernel track (nft_ct.c, nft_ct_get_init); no packet has none.
fn track() -> Message {
    let state = Attrs::new().be32(NFTA_CT_KEY, NFT_CT_STATE).be32(NFTA_CT_DREG, NFT_REG_1);
    let state = expression("ct", &state);
    rule(CHAIN_FILTER, &[state, equals(&0_u32.to_ne_bytes()), counter(), drop_packet()])
}

/// Before all rules, so that a connection's first packets pass them and its others do not.
fn flowtable(devices: [&str; 2]) -> Vec<(RuleStep, Message)> {
    let table = flowtable_attrs(TABLE, FLOWTABLE, devices, 0);
    let offload = expression("flow_offload", &Attrs::new().text(NFTA_FLOW_TABLE_NAME, FLOWTABLE));
    vec![
        (RuleStep::Flowtable, message(NFT_MSG_NEWFLOWTABLE, NlmF::CREATE, &table)),
        (RuleStep::FlowOffload, rule(CHAIN_FILTER, &[offload])),
    ]
}

/// A flowtable where packets come in from those devices.
pub(super) fn flowtable_attrs<'a>(
    table: &str,
    name: &str,
    devices: impl IntoIterator<Item = &'a str>,
    flags: u32,
) -> Attrs {
    let list =
        devices.into_iter().fold(Attrs::new(), |list, name| list.text(NFTA_DEVICE_NAME, name));
    let hook = Attrs::new()
        .be32(NFTA_FLOWTABLE_HOOK_NUM, NF_NETDEV_INGRESS)
        .be32(NFTA_FLOWTABLE_HOOK_PRIORITY, PRIORITY_FILTER)
        .nest(NFTA_FLOWTABLE_HOOK_DEVS, &list);
    Attrs::new()
        .text(NFTA_FLOWTABLE_TABLE, table)
        .text(NFTA_FLOWTABLE_NAME, name)
        .nest(NFTA_FLOWTABLE_HOOK, &hook)
        .be32(NFTA_FLOWTABLE_FLAGS, flags)
}

fn never(mark: u32) -> Message {
    rule(
        CHAIN_FILTER,
        &[meta(NFT_META_MARK), equals(&mark.to_ne_bytes()), counter(), drop_packet()],
    )
}

fn counter() -> Attrs {
    expression("counter", &Attrs::new())
}

fn drop_packet() -> Attrs {
    let verdict = Attrs::new().be32(NFTA_VERDICT_CODE, NF_DROP);
    let drop = Attrs::new()
        .be32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT)
        .nest(NFTA_IMMEDIATE_DATA, &Attrs::new().nest(NFTA_DATA_VERDICT, &verdict));
    expression("immediate", &drop)
}

fn chain(name: &str, kind: &str, hook: u32, priority: u32) -> Message {
    message(NFT_MSG_NEWCHAIN, NlmF::CREATE, &chain_attrs(TABLE, name, kind, hook, priority))
}

pub(super) fn chain_attrs(table: &str, name: &str, kind: &str, hook: u32, priority: u32) -> Attrs {
    let hook = Attrs::new().be32(NFTA_HOOK_HOOKNUM, hook).be32(NFTA_HOOK_PRIORITY, priority);
    Attrs::new()
        .text(NFTA_CHAIN_TABLE, table)
        .text(NFTA_CHAIN_NAME, name)
        .text(NFTA_CHAIN_TYPE, kind)
        .nest(NFTA_CHAIN_HOOK, &hook)
}

fn rule(chain: &str, expressions: &[Attrs]) -> Message {
    message(NFT_MSG_NEWRULE, NlmF::CREATE | NlmF::APPEND, &rule_attrs(TABLE, chain, expressions))
}

pub(super) fn rule_attrs(table: &str, chain: &str, expressions: &[Attrs]) -> Attrs {
    let list = expressions.iter().fold(Attrs::new(), |list, e| list.nest(NFTA_LIST_ELEM, e));
    Attrs::new()
        .text(NFTA_RULE_TABLE, table)
        .text(NFTA_RULE_CHAIN, chain)
        .nest(NFTA_RULE_EXPRESSIONS, &list)
}

fn meta(key: u32) -> Attrs {
    let data = Attrs::new().be32(NFTA_META_KEY, key).be32(NFTA_META_DREG, NFT_REG_1);
    expression("meta", &data)
}

fn equals(value: &[u8]) -> Attrs {
    let data = Attrs::new()
        .be32(NFTA_CMP_SREG, NFT_REG_1)
        .be32(NFTA_CMP_OP, NFT_CMP_EQ)
        .nest(NFTA_CMP_DATA, &Attrs::new().bytes(NFTA_DATA_VALUE, value));
    expression("cmp", &data)
}

pub(super) fn expression(name: &str, data: &Attrs) -> Attrs {
    Attrs::new().text(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, data)
}

fn message(kind: u8, flags: NlmF, attrs: &Attrs) -> Message {
    // nfgenmsg: family, version 0, resource id 0.
    let kind = u16::from_be_bytes([NFNL_SUBSYS_NFTABLES, kind]);
    Message::new(kind, flags, &[NFPROTO_IPV4, 0, 0, 0], attrs)
}

pub(super) fn bracket(kind: u16) -> Message {
    let header = [NFPROTO_UNSPEC, 0, 0, NFNL_SUBSYS_NFTABLES];
    Message::new(kind, NlmF::empty(), &header, &Attrs::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages that `nft -f` of Debian's nftables sends for the ruleset in the module's
    /// documentation, as `strace -e write=all -e trace=sendmsg` shows them, without the headers.
    #[cfg(target_endian = "little")]
    const NFT: [&str; 7] = [
        "02000000 08000100 6c616200 08000200 00000000",
        "02000000 08000100 6c616200 0b000300 746f2d77 616e0000 08000700 6e617400 14000480
         08000100 00000004 08000200 00000064",
        "02000000 08000100 6c616200 0a000300 72756c65 73000000 0b000700 66696c74 65720000
         14000480 08000100 00000002 08000200 00000000",
        "02000000 08000100 6c616200 0b000200 746f2d77 616e0000 74000480 24000180 09000100
         6d657461 00000000 14000280 08000200 00000007 08000100 00000001 38000180 08000100
         636d7000 2c000280 08000100 00000001 08000200 00000000 18000380 14000100 77616e30
         00000000 00000000 00000000 14000180 09000100 6d617371 00000000 04000280",
        "02000000 08000100 6c616200 0a000200 72756c65 73000000 98000480 24000180 09000100
         6d657461 00000000 14000280 08000200 00000003 08000100 00000001 2c000180 08000100
         636d7000 20000280 08000100 00000001 08000200 00000000 0c000380 08000100 01000000
         14000180 0c000100 636f756e 74657200 04000280 30000180 0e000100 696d6d65 64696174
         65000000 1c000280 08000100 00000000 10000280 0c000280 08000100 00000000",
        "02000000 08000100 6c616200 09000200 66617374 00000000 30000380 08000100 00000000
         08000200 00000000 1c000380 09000100 77616e30 00000000 09000100 6c616e30 00000000
         08000700 00000000",
        "02000000 08000100 6c616200 0a000200 72756c65 73000000 2c000480 28000180 11000100
         666c6f77 5f6f6666 6c6f6164 00000000 10000280 09000100 66617374 00000000",
    ];

    #[test]
    #[cfg(target_endian = "little")]
    fn the_messages_are_those_that_nft_sends() {
        let mut ours: Vec<Message> = base(Some("wan0")).into_iter().map(|(_, m)| m).collect();
        ours.push(never(1));
        ours.extend(flowtable(["wan0", "lan0"]).into_iter().map(|(_, m)| m));
        assert_eq!(ours.len(), NFT.len());
        for (ours, nft) in ours.iter().zip(NFT) {
            let hex: String = ours.body.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, nft.split_whitespace().collect::<String>());
        }
        let kinds: Vec<u16> = ours.iter().map(|m| m.kind).collect();
        assert_eq!(kinds, [0x0a00, 0x0a03, 0x0a03, 0x0a06, 0x0a06, 0x0a16, 0x0a06]);
        assert_eq!(bracket(16).body, [0, 0, 0, 10]);
    }

    #[test]
    fn a_batch_of_rules_fits_a_socket_buffer() {
        let mut bytes = Vec::new();
        for sequence in 0..u32::try_from(RULES_PER_BATCH).unwrap() {
            never(sequence).encode(sequence, &mut bytes);
        }
        // net.core.wmem_default of a small machine (SK_WMEM_MAX for 256 packets of 256 bytes).
        assert!(bytes.len() < 160 << 10, "{}", bytes.len());
    }
}
