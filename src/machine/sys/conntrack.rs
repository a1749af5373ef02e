//! Tracked connections that a flowtable has taken over, by ctnetlink.

use std::io;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute};
use crate::model::path::BoundFlows;

// linux/netfilter/nfnetlink.h, nfnetlink_conntrack.h: subsystem 1, IPCTNL_MSG_CT_GET
const CT_GET: u16 = 1 << 8 | 1;
const NFGENMSG: usize = 4;
const CTA_STATUS: u16 = 3;
const CTA_STATUS_MASK: u16 = 26;
// linux/netfilter/nf_conntrack_common.h: IPS_OFFLOAD, IPS_HW_OFFLOAD
const OFFLOAD: u32 = 1 << 14;
const HW_OFFLOAD: u32 = 1 << 15;

/// Counts connections in the calling thread's network namespace, of `most` at most. Kernels from
/// 5.15 on send those that are bound only, so that the rest costs nothing.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN; EINVAL or EOPNOTSUPP where the kernel has no ctnetlink.
pub fn bound(most: usize) -> io::Result<BoundFlows> {
    let socket = Socket::open(NlFamily::Netfilter)?;
    // Kernels that do not know the filter leave it out of account and tell of all connections.
    let wanted = Attrs::new().be32(CTA_STATUS, OFFLOAD).be32(CTA_STATUS_MASK, OFFLOAD);
    let mut found = BoundFlows { by: "ctnetlink".into(), ..BoundFlows::default() };
    let request = Message::new(CT_GET, NlmF::empty(), &[0; NFGENMSG], &wanted);
    let complete = socket.dump_some(request, most, |body| count(&mut found, body))?;
    found.complete = complete;
    Ok(found)
}

fn count(found: &mut BoundFlows, body: &[u8]) {
    let attrs = body.get(NFGENMSG..).unwrap_or_default();
    let status = attribute(attrs, CTA_STATUS).and_then(|value| value.try_into().ok());
    let status = status.map_or(0, u32::from_be_bytes);
    found.bound += u64::from(status & OFFLOAD != 0);
    found.hardware += u64::from(status & HW_OFFLOAD != 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_the_status_tell_what_is_bound() {
        let mut found = BoundFlows::default();
        // SEEN_REPLY | ASSURED | CONFIRMED; with OFFLOAD; with both.
        for status in [0xe, 0x400e, 0xc00e] {
            let attrs = Attrs::new().be32(8, 7).be32(CTA_STATUS, status);
            count(&mut found, &[&[0; NFGENMSG], attrs.as_slice()].concat());
        }
        count(&mut found, &[]);
        assert_eq!((found.bound, found.hardware), (2, 1));
    }

    #[test]
    fn a_namespace_without_connections_has_none_that_are_bound() {
        let Ok(netns) = super::super::netns::NetnsThread::create() else {
            crate::skip!("no network namespace to be had");
        };
        match netns.run(|| bound(10)).unwrap() {
            Ok(found) => assert_eq!((found.bound, found.complete), (0, true)),
            Err(e) => crate::skip!("no ctnetlink: {e}"),
        }
    }
}
