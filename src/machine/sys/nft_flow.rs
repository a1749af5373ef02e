//! A flowtable of our own, in a table of our own, so that no rule of anybody else's is touched.
//!
//! The flowtable that `nft` would write as
//!
//! ```text
//! table inet linerate {
//!     flowtable ft { hook ingress priority 0; devices = { eth0, eth1 }; }
//!     chain forward { type filter hook forward priority 10;
//!                     ct state established flow add @ft; }
//! }
//! ```
//!
//! Behind the chains that firewalls have (priority filter, which is 0): what they drop never gets
//! here. That it is TCP or UDP the expression itself sees to (net/netfilter/nft_flow_offload.c,
//! `nft_flow_offload_eval`).

use std::io;

use rustix::io::Errno;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, attributes, text};
use super::nft::{
    NF_INET_FORWARD, NFNL_SUBSYS_NFTABLES, NFT_MSG_GETRULE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWFLOWTABLE,
    NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFT_REG_1, NFTA_FLOW_TABLE_NAME, NFTA_RULE_TABLE,
    NFTA_TABLE_FLAGS, NFTA_TABLE_NAME, bracket, chain_attrs, expression, flowtable_attrs,
    rule_attrs,
};

// linux/netfilter.h, linux/netfilter/nfnetlink.h
const NFPROTO_INET: u8 = 1;
const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
// linux/netfilter/nf_tables.h
const NFT_MSG_GETTABLE: u8 = 1;
const NFT_MSG_DELTABLE: u8 = 2;
const NFT_MSG_GETCHAIN: u8 = 4;
const NFT_MSG_GETSET: u8 = 10;
const NFT_MSG_GETFLOWTABLE: u8 = 23;
/// NFTA_*_TABLE and NFTA_*_NAME of what lies in a table.
const TABLE_OF: u16 = 1;
const CHAIN_NAME: u16 = 3;
const FLOWTABLE_NAME: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const EXPR_NAME: u16 = 1;
const FLOWTABLE_HW_OFFLOAD: u32 = 1;
const NFTA_CT_DREG: u16 = 1;
const NFTA_CT_KEY: u16 = 2;
const NFT_CT_STATE: u32 = 0;
/// NF_CT_STATE_BIT(IP_CT_ESTABLISHED) (linux/netfilter/nf_conntrack_common.h).
const ESTABLISHED: u32 = 2;
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFT_CMP_NEQ: u32 = 1;
const NFTA_DATA_VALUE: u16 = 1;

/// Our table.
pub const TABLE: &str = "linerate";
/// The flowtable in it.
pub const FLOWTABLE: &str = "ft";
const CHAIN: &str = "forward";
const AFTER_FIREWALLS: u32 = 10;

/// Makes it, in place of one that we made before, in the calling thread's network namespace: one
/// transaction of the kernel, all of it or nothing.
///
/// # Errors
/// EEXIST where a table of that name is not of our making; EOPNOTSUPP where the kernel has no
/// flowtables, or a device can't do it in hardware; ENODEV without one of the devices.
pub fn make(devices: &[&str], hardware: bool) -> io::Result<()> {
    let mut socket = Socket::open(NlFamily::Netfilter)?;
    let mut changes = Vec::new();
    if ours(&mut socket)? {
        changes.push(delete());
    }
    changes.extend(made(devices, hardware));
    transact(&mut socket, changes).map_err(|e| {
        match e.raw_os_error().map(Errno::from_raw_os_error) {
            // The devices were looked at before, so it is the type of flowtable, or an expression.
            Some(Errno::NOENT) => Errno::OPNOTSUPP.into(),
            _ => e,
        }
    })
}

/// Takes it away; nothing to do where there is none.
///
/// # Errors
/// EEXIST where a table of that name is not of our making.
pub fn remove() -> io::Result<()> {
    let mut socket = Socket::open(NlFamily::Netfilter)?;
    if ours(&mut socket)? { transact(&mut socket, vec![delete()]) } else { Ok(()) }
}

/// True if there is a table of that name.
///
/// # Errors
/// EEXIST where it holds anything that we do not put into ours: it is somebody else's, or somebody
/// else's things are in it.
fn ours(socket: &mut Socket) -> io::Result<bool> {
    let none = Attrs::new();
    let mut bodies = |kind: u8| socket.dump(message(kind, NlmF::empty(), &none));
    let named = |body: &Vec<u8>, kind| {
        body.first() == Some(&NFPROTO_INET)
            && attribute(attrs(body), kind).map(text).as_deref() == Some(TABLE)
    };
    if !bodies(NFT_MSG_GETTABLE)?.iter().any(|body| named(body, NFTA_TABLE_NAME)) {
        return Ok(false);
    }
    let is = |body: &Vec<u8>, kind, name| {
        attribute(attrs(body), kind).map(text).as_deref() == Some(name)
    };
    let offloads = |body: &Vec<u8>| {
        let list = attribute(attrs(body), RULE_EXPRESSIONS).unwrap_or_default();
        attributes(list)
            .filter_map(|(_, expression)| attribute(expression, EXPR_NAME).map(text))
            .any(|name| name == "flow_offload")
    };
    let inside = |all: Vec<Vec<u8>>, kind| all.into_iter().filter(move |body| named(body, kind));
    let strange = inside(bodies(NFT_MSG_GETCHAIN)?, TABLE_OF).any(|b| !is(&b, CHAIN_NAME, CHAIN))
        || inside(bodies(NFT_MSG_GETRULE)?, NFTA_RULE_TABLE).any(|b| !offloads(&b))
        || inside(bodies(NFT_MSG_GETFLOWTABLE)?, TABLE_OF)
            .any(|b| !is(&b, FLOWTABLE_NAME, FLOWTABLE))
        || inside(bodies(NFT_MSG_GETSET)?, TABLE_OF).next().is_some();
    if strange { Err(Errno::EXIST.into()) } else { Ok(true) }
}

/// The attributes behind nfgenmsg.
fn attrs(body: &[u8]) -> &[u8] {
    body.get(4..).unwrap_or_default()
}

fn transact(socket: &mut Socket, mut messages: Vec<Message>) -> io::Result<()> {
    // Before kernel 6.10 the batch's own end is never acknowledged, so the last change is.
    if let Some(last) = messages.last_mut() {
        last.flags |= NlmF::ACK;
    }
    messages.insert(0, bracket(NFNL_MSG_BATCH_BEGIN));
    messages.push(bracket(NFNL_MSG_BATCH_END));
    socket.transact(&messages).map_err(|refused| refused.error)
}

fn delete() -> Message {
    message(NFT_MSG_DELTABLE, NlmF::empty(), &Attrs::new().text(NFTA_TABLE_NAME, TABLE))
}

fn made(devices: &[&str], hardware: bool) -> [Message; 4] {
    let table = Attrs::new().text(NFTA_TABLE_NAME, TABLE).be32(NFTA_TABLE_FLAGS, 0);
    let flags = if hardware { FLOWTABLE_HW_OFFLOAD } else { 0 };
    let flowtable = flowtable_attrs(TABLE, FLOWTABLE, devices.iter().copied(), flags);
    let chain = chain_attrs(TABLE, CHAIN, "filter", NF_INET_FORWARD, AFTER_FIREWALLS);
    let state = Attrs::new().be32(NFTA_CT_KEY, NFT_CT_STATE).be32(NFTA_CT_DREG, NFT_REG_1);
    let value = |n: u32| Attrs::new().bytes(NFTA_DATA_VALUE, &n.to_ne_bytes());
    let established = Attrs::new()
        .be32(NFTA_BITWISE_SREG, NFT_REG_1)
        .be32(NFTA_BITWISE_DREG, NFT_REG_1)
        .be32(NFTA_BITWISE_LEN, 4)
        .nest(NFTA_BITWISE_MASK, &value(ESTABLISHED))
        .nest(NFTA_BITWISE_XOR, &value(0));
    let it_is = Attrs::new()
        .be32(NFTA_CMP_SREG, NFT_REG_1)
        .be32(NFTA_CMP_OP, NFT_CMP_NEQ)
        .nest(NFTA_CMP_DATA, &value(0));
    let add = Attrs::new().text(NFTA_FLOW_TABLE_NAME, FLOWTABLE);
    let rule = rule_attrs(
        TABLE,
        CHAIN,
        &[
            expression("ct", &state),
            expression("bitwise", &established),
            expression("cmp", &it_is),
            expression("flow_offload", &add),
        ],
    );
    [
        // Not over one that came in between.
        message(NFT_MSG_NEWTABLE, NlmF::CREATE | NlmF::EXCL, &table),
        message(NFT_MSG_NEWFLOWTABLE, NlmF::CREATE, &flowtable),
        message(NFT_MSG_NEWCHAIN, NlmF::CREATE, &chain),
        message(NFT_MSG_NEWRULE, NlmF::CREATE | NlmF::APPEND, &rule),
    ]
}

fn message(kind: u8, flags: NlmF, attrs: &Attrs) -> Message {
    // nfgenmsg: family, version 0, resource id 0.
    let kind = u16::from_be_bytes([NFNL_SUBSYS_NFTABLES, kind]);
    Message::new(kind, flags, &[NFPROTO_INET, 0, 0, 0], attrs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages that `nft -f` of Debian's nftables sends for the ruleset in the module's
    /// documentation with the device lo, as strace shows them, without the headers.
    #[cfg(target_endian = "little")]
    const NFT: [&str; 4] = [
        "01000000 0d000100 6c696e65 72617465 00000000 08000200 00000000",
        "01000000 0d000100 6c696e65 72617465 00000000 07000200 66740000 20000380 08000100 00000000
         08000200 00000000 0c000380 07000100 6c6f0000 08000700 00000000",
        "01000000 0d000100 6c696e65 72617465 00000000 0c000300 666f7277 61726400 0b000700 66696c74
         65720000 14000480 08000100 00000002 08000200 0000000a",
        "01000000 0d000100 6c696e65 72617465 00000000 0c000200 666f7277 61726400 b8000480 20000180
         07000100 63740000 14000280 08000200 00000000 08000100 00000001 44000180 0c000100 62697477
         69736500 34000280 08000100 00000001 08000200 00000001 08000300 00000004 0c000480 08000100
         02000000 0c000580 08000100 00000000 2c000180 08000100 636d7000 20000280 08000100 00000001
         08000200 00000001 0c000380 08000100 00000000 24000180 11000100 666c6f77 5f6f6666 6c6f6164
         00000000 0c000280 07000100 66740000",
    ];

    #[test]
    #[cfg(target_endian = "little")]
    fn the_messages_are_those_that_nft_sends() {
        for (ours, nft) in made(&["lo"], false).iter().zip(NFT) {
            let hex: String = ours.body.iter().map(|byte| format!("{byte:02x}")).collect();
            let nft = nft.split_whitespace().collect::<String>();
            assert_eq!(hex, nft);
        }
        let hardware = &made(&["lo"], true)[1].body;
        assert_eq!(hardware[hardware.len() - 4..], [0, 0, 0, 1]);
    }
}
