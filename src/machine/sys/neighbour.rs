//! Neighbours (ARP, neighbour discovery): whether a machine on one of our links is there, though it
//! may answer no ping.

use std::io;
use std::net::IpAddr;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, u16_at, u32_at};
use super::rtnl::index_of;

// linux/rtnetlink.h, linux/neighbour.h
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const NDMSG: usize = 12;
const NUD_REACHABLE: u16 = 0x02;
const NUD_PROBE: u16 = 0x10;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// The kernel's entry for an address on its links; `None` where it has never looked for it there
/// (or on that device).
///
/// # Errors
/// ENODEV; what the kernel answered.
pub fn find(address: IpAddr, device: Option<&str>) -> io::Result<Option<Neighbour>> {
    let ifindex = device.map(index_of).transpose()?;
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
    };
    let mut header = [0; NDMSG];
    if let Some(first) = header.first_mut() {
        *first = family;
    }
    let ask = Message::new(RTM_GETNEIGH, NlmF::empty(), &header, &Attrs::new());
    let all = Socket::open(NlFamily::Route)?.dump(ask)?;
    let found = all.iter().filter_map(|body| {
        let own = attribute(body.get(NDMSG..)?, NDA_DST)? == bytes.as_slice();
        let (index, state) = (u32_at(body, 4)?, u16_at(body, 8)?);
        let here = ifindex.is_none_or(|wanted| wanted == index);
        (own && here).then(|| Neighbour { family, bytes: bytes.clone(), index, state })
    });
    // The same address on two links: the one that answers is the one.
    Ok(found.max_by_key(Neighbour::answers))
}

/// An entry of the kernel's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    family: u8,
    bytes: Vec<u8>,
    index: u32,
    state: u16,
}

impl Neighbour {
    /// True if it has answered since it was asked last, or within the kernel's half minute.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.state & NUD_REACHABLE != 0
    }

    /// Has the kernel ask it at once, by its hardware address, as it does by itself once an entry is
    /// old: packets go on meanwhile (net/core/neighbour.c, `neigh_timer_handler`).
    ///
    /// # Errors
    /// EINVAL where its hardware address is not known: a packet to it makes the kernel ask all.
    pub fn ask(&self) -> io::Result<()> {
        let mut header = vec![self.family, 0, 0, 0];
        header.extend(self.index.to_ne_bytes());
        header.extend(NUD_PROBE.to_ne_bytes());
        header.extend([0, 0]);
        let attrs = Attrs::new().bytes(NDA_DST, &self.bytes);
        let message = Message::new(RTM_NEWNEIGH, NlmF::REPLACE, &header, &attrs);
        Socket::open(NlFamily::Route)?.ask(message).map(drop)
    }
}
