//! Addresses, VLAN numbers and XDP of devices through rtnetlink.

use std::collections::BTreeMap;
use std::io;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, text, u16_at, u32_at};
use crate::model::nic::LinkFacts;
use crate::model::order::OneByOne;

// linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VLAN_ID: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const RT_SCOPE_LINK: u8 = 253;

/// Facts from rtnetlink about each device, by name.
///
/// # Errors
/// What the kernel answered.
pub fn facts() -> io::Result<BTreeMap<String, LinkFacts>> {
    let mut socket = Socket::open(NlFamily::Route)?;
    let ask = |kind, header: &[u8]| Message::new(kind, NlmF::empty(), header, &Attrs::new());
    let links = socket.dump(ask(RTM_GETLINK, &[0; IFINFOMSG]))?;
    let addresses = socket.dump(ask(RTM_GETADDR, &[0; IFADDRMSG]))?;
    Ok(join(&links, &addresses))
}

pub(super) fn join(links: &[Vec<u8>], addresses: &[Vec<u8>]) -> BTreeMap<String, LinkFacts> {
    let mut found: BTreeMap<u32, (String, LinkFacts)> =
        links.iter().filter_map(|body| link(body)).one_by_one();
    for body in addresses {
        let (Some(index), Some([family, _, _, scope])) = (u32_at(body, 4), body.first_chunk())
        else {
            continue;
        };
        let Some((_, facts)) = found.get_mut(&index) else { continue };
        match *family {
            AF_INET => facts.ipv4 += 1,
            AF_INET6 if *scope < RT_SCOPE_LINK => facts.ipv6 += 1,
            _ => {}
        }
    }
    found.into_values().collect()
}

fn link(body: &[u8]) -> Option<(u32, (String, LinkFacts))> {
    let attrs = body.get(IFINFOMSG..)?;
    let index = u32_at(body, 4)?;
    let name = text(attribute(attrs, IFLA_IFNAME)?);
    let info = attribute(attrs, IFLA_LINKINFO).unwrap_or_default();
    let is_vlan = attribute(info, IFLA_INFO_KIND).map(text).as_deref() == Some("vlan");
    let data = attribute(info, IFLA_INFO_DATA).filter(|_| is_vlan);
    let xdp = attribute(attrs, IFLA_XDP).and_then(|xdp| attribute(xdp, IFLA_XDP_ATTACHED));
    // With a number of another network namespace the index means nothing here.
    let here = attribute(attrs, IFLA_LINK_NETNSID).is_none();
    let under = attribute(attrs, IFLA_LINK).and_then(|l| u32_at(l, 0));
    let facts = LinkFacts {
        ipv4: 0,
        ipv6: 0,
        vlan: data.and_then(|d| attribute(d, IFLA_VLAN_ID)).and_then(|id| u16_at(id, 0)),
        xdp: xdp.is_some_and(|attached| attached.first().is_some_and(|mode| *mode != 0)),
        link: under.filter(|&l| here && l != 0 && l != index),
    };
    Some((index, (name, facts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_link(index: u32, attrs: &Attrs) -> Vec<u8> {
        let mut body = vec![0; IFINFOMSG];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        [&body, attrs.as_slice()].concat()
    }

    fn address(family: u8, scope: u8, index: u32) -> Vec<u8> {
        [&[family, 24, 0, scope][..], &index.to_ne_bytes()].concat()
    }

    #[test]
    fn a_vlan_has_its_number_and_what_it_stands_on() {
        let data = Attrs::new().bytes(IFLA_VLAN_ID, &7_u16.to_ne_bytes());
        let info = Attrs::new().text(IFLA_INFO_KIND, "vlan").nest(IFLA_INFO_DATA, &data);
        let xdp = Attrs::new().bytes(IFLA_XDP_ATTACHED, &[1]);
        let links = [
            new_link(2, &Attrs::new().text(IFLA_IFNAME, "eth0").nest(IFLA_XDP, &xdp)),
            new_link(5, &Attrs::new().text(IFLA_IFNAME, "wan").u32(IFLA_LINK, 2).nest(18, &info)),
            new_link(
                6,
                &Attrs::new().text(IFLA_IFNAME, "veth0").u32(5, 2).u32(IFLA_LINK_NETNSID, 0),
            ),
            vec![0; 3],
        ];
        let addresses = [
            address(AF_INET, 0, 5),
            address(AF_INET6, RT_SCOPE_LINK, 5),
            address(AF_INET6, 0, 5),
            address(AF_INET, 0, 99),
            vec![2],
        ];
        let found = join(&links, &addresses);
        assert_eq!(found.len(), 3);
        assert!(found["eth0"].xdp);
        let wan = LinkFacts { ipv4: 1, ipv6: 1, vlan: Some(7), xdp: false, link: Some(2) };
        assert_eq!(found["wan"], wan);
        assert_eq!(found["veth0"].link, None);
    }

    #[test]
    fn the_loopback_device_bears_its_address() {
        assert!(facts().unwrap().contains_key("lo"));
    }
}
