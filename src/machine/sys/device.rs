//! Devices that stand on others: VLAN, bridge, WireGuard, made through rtnetlink.

use std::io;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, u32_at};
use super::rtnl::{
    IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO, RTM_NEWLINK, ifinfomsg, index_of,
};

// linux/rtnetlink.h, linux/if_link.h
const RTM_GETLINK: u16 = 18;
const IFINFOMSG: usize = 16;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_VLAN_ID: u16 = 1;

/// Makes the 802.1Q device `name` of VLAN `id` on top of `under`.
///
/// # Errors
/// EOPNOTSUPP where the kernel has no VLANs; ENODEV for an unknown device; EEXIST; EPERM.
pub fn create_vlan(name: &str, under: &str, id: u16) -> io::Result<()> {
    let data = Attrs::new().bytes(IFLA_VLAN_ID, &id.to_ne_bytes());
    let attrs = Attrs::new().u32(IFLA_LINK, index_of(under)?);
    create(name, "vlan", attrs, &data)
}

/// Makes a bridge without ports.
///
/// # Errors
/// EOPNOTSUPP where the kernel has no bridges; EEXIST; EPERM.
pub fn create_bridge(name: &str) -> io::Result<()> {
    create(name, "bridge", Attrs::new(), &Attrs::new())
}

/// Makes a WireGuard device without key or peers, with the kernel's default MTU.
///
/// # Errors
/// EOPNOTSUPP where the kernel has no WireGuard; EEXIST; EPERM.
pub fn create_wireguard(name: &str) -> io::Result<()> {
    create(name, "wireguard", Attrs::new(), &Attrs::new())
}

fn create(name: &str, kind: &str, attrs: Attrs, data: &Attrs) -> io::Result<()> {
    let mut info = Attrs::new().text(IFLA_INFO_KIND, kind);
    if !data.as_slice().is_empty() {
        info = info.nest(IFLA_INFO_DATA, data);
    }
    let attrs = attrs.text(IFLA_IFNAME, name).nest(IFLA_LINKINFO, &info);
    let message = Message::new(RTM_NEWLINK, NlmF::CREATE | NlmF::EXCL, &ifinfomsg(0, 0, 0), &attrs);
    Socket::open(NlFamily::Route)?.ask(message).map(drop)
}

/// Makes `port` a port of `bridge`.
///
/// # Errors
/// ENODEV for an unknown device; EPERM.
pub fn enslave(port: &str, bridge: &str) -> io::Result<()> {
    change(port, &Attrs::new().u32(IFLA_MASTER, index_of(bridge)?))
}

/// Sets the largest IP packet in bytes.
///
/// # Errors
/// EINVAL or ERANGE for what the device can't take; ENODEV; EPERM.
pub fn set_mtu(device: &str, mtu: u32) -> io::Result<()> {
    change(device, &Attrs::new().u32(IFLA_MTU, mtu))
}

/// The largest IP packet in bytes.
///
/// # Errors
/// ENODEV for an unknown device.
pub fn mtu(device: &str) -> io::Result<u32> {
    let attrs = Attrs::new().text(IFLA_IFNAME, device);
    let ask = Message::new(RTM_GETLINK, NlmF::empty(), &ifinfomsg(0, 0, 0), &attrs);
    let answers = Socket::open(NlFamily::Route)?.ask(ask)?;
    let told = answers
        .iter()
        .find_map(|body| u32_at(super::netlink::attribute(body.get(IFINFOMSG..)?, IFLA_MTU)?, 0));
    told.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn change(device: &str, attrs: &Attrs) -> io::Result<()> {
    let header = ifinfomsg(index_of(device)?, 0, 0);
    let message = Message::new(RTM_NEWLINK, NlmF::empty(), &header, attrs);
    Socket::open(NlFamily::Route)?.ask(message).map(drop)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::machine::sys::netns::NetnsThread;

    #[test]
    fn devices_are_made_or_their_kind_is_unknown_to_the_kernel() {
        let Ok(netns) = NetnsThread::create() else {
            crate::skip!("network namespaces need root");
        };
        let made = netns.run(|| {
            create_bridge("br0")?;
            set_mtu("br0", 1400)?;
            Ok::<_, io::Error>((
                mtu("br0")?,
                create_vlan("br0.7", "br0", 7),
                create_wireguard("wg0"),
            ))
        });
        let (mtu, vlan, wireguard) = made.unwrap().unwrap();
        assert_eq!(mtu, 1400);
        for answer in [vlan, wireguard] {
            if let Err(e) = answer {
                assert_eq!(Errno::from_io_error(&e), Some(Errno::OPNOTSUPP), "{e}");
            }
        }
        let unknown = netns.run(|| enslave("nobody", "br0")).unwrap().unwrap_err();
        assert_eq!(Errno::from_io_error(&unknown), Some(Errno::NODEV));
    }
}
