//! WireGuard devices through their generic netlink family (linux/wireguard.h).
//!
//! The kernel computes the public key that belongs to a private one, and tells it: no
//! cryptography here.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::genl;
use super::netlink::{Attrs, NlFamily, Socket, attribute};

// linux/wireguard.h
const WG_CMD_GET_DEVICE: u8 = 0;
const WG_CMD_SET_DEVICE: u8 = 1;
const WGDEVICE_A_IFNAME: u16 = 2;
const WGDEVICE_A_PRIVATE_KEY: u16 = 3;
const WGDEVICE_A_PUBLIC_KEY: u16 = 4;
const WGDEVICE_A_LISTEN_PORT: u16 = 6;
const WGDEVICE_A_PEERS: u16 = 8;
const WGPEER_A_PUBLIC_KEY: u16 = 1;
const WGPEER_A_ENDPOINT: u16 = 4;
const WGPEER_A_ALLOWEDIPS: u16 = 9;
const WGALLOWEDIP_A_FAMILY: u16 = 1;
const WGALLOWEDIP_A_IPADDR: u16 = 2;
const WGALLOWEDIP_A_CIDR_MASK: u16 = 3;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Members of an array are attributes; their number says nothing.
const MEMBER: u16 = 0;

/// Bytes of a key.
pub const KEY: usize = 32;

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; KEY]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:02x?}...)", self.0.first_chunk::<4>())
    }
}

/// The other end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub key: PublicKey,
    /// Where its datagrams go.
    pub endpoint: SocketAddr,
    /// Networks behind it.
    pub allowed: Vec<(IpAddr, u8)>,
}

/// Gives a device a fresh private key and a port to listen on; its public key.
///
/// # Errors
/// EOPNOTSUPP where the kernel has no WireGuard; ENODEV; EPERM.
pub fn set_up(device: &str, port: u16) -> io::Result<PublicKey> {
    let mut private = [0_u8; KEY];
    let length = getrandom(&mut private, GetRandomFlags::empty())?;
    if length != KEY {
        return Err(Errno::IO.into());
    }
    let mut socket = Socket::open(NlFamily::Generic)?;
    let family = genl::family(&mut socket, "wireguard")?;
    let attrs = Attrs::new()
        .text(WGDEVICE_A_IFNAME, device)
        .bytes(WGDEVICE_A_PRIVATE_KEY, &private)
        .bytes(WGDEVICE_A_LISTEN_PORT, &port.to_ne_bytes());
    socket.ask(genl::request(family, WG_CMD_SET_DEVICE, &attrs))?;
    // WG_CMD_GET_DEVICE only exists as a dump.
    let ask = Attrs::new().text(WGDEVICE_A_IFNAME, device);
    let answers = socket.dump(genl::request(family, WG_CMD_GET_DEVICE, &ask))?;
    let key = answers.iter().find_map(|body| {
        attribute(genl::payload(body), WGDEVICE_A_PUBLIC_KEY)?.try_into().ok().map(PublicKey)
    });
    Ok(key.ok_or(Errno::PROTO)?)
}

/// Adds a peer to a device.
///
/// # Errors
/// As [`set_up`].
pub fn add_peer(device: &str, peer: &Peer) -> io::Result<()> {
    let mut socket = Socket::open(NlFamily::Generic)?;
    let family = genl::family(&mut socket, "wireguard")?;
    socket.ask(genl::request(family, WG_CMD_SET_DEVICE, &peer_attributes(device, peer))).map(drop)
}

fn peer_attributes(device: &str, peer: &Peer) -> Attrs {
    let networks = peer.allowed.iter().fold(Attrs::new(), |list, (address, prefix)| {
        let (family, octets) = match address {
            IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
            IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
        };
        let network = Attrs::new()
            .bytes(WGALLOWEDIP_A_FAMILY, &family.to_ne_bytes())
            .bytes(WGALLOWEDIP_A_IPADDR, &octets)
            .bytes(WGALLOWEDIP_A_CIDR_MASK, &[*prefix]);
        list.nest(MEMBER, &network)
    });
    let entry = Attrs::new()
        .bytes(WGPEER_A_PUBLIC_KEY, &peer.key.0)
        .bytes(WGPEER_A_ENDPOINT, &sockaddr(peer.endpoint))
        .nest(WGPEER_A_ALLOWEDIPS, &networks);
    Attrs::new()
        .text(WGDEVICE_A_IFNAME, device)
        .nest(WGDEVICE_A_PEERS, &Attrs::new().nest(MEMBER, &entry))
}

/// `struct sockaddr_in` or `struct sockaddr_in6` (linux/in.h, linux/in6.h).
fn sockaddr(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::new();
    match address {
        SocketAddr::V4(v4) => {
            bytes.extend(AF_INET.to_ne_bytes());
            bytes.extend(v4.port().to_be_bytes());
            bytes.extend(v4.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(v6) => {
            bytes.extend(AF_INET6.to_ne_bytes());
            bytes.extend(v6.port().to_be_bytes());
            bytes.extend(v6.flowinfo().to_ne_bytes());
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By linux/wireguard.h and netlink(7); the kernel's own judgement is in vm/tests/scenarios.rs.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_peer_is_nested_as_the_kernel_wants_it() {
        let peer = Peer {
            key: PublicKey([7; KEY]),
            endpoint: "198.18.2.2:51820".parse().unwrap(),
            allowed: vec![("198.18.3.0".parse().unwrap(), 24)],
        };
        let expected = [
            b"\x08\0\x02\0wg0\0".as_slice(),
            b"\x60\0\x08\x80\x5c\0\0\x80",
            b"\x24\0\x01\0",
            &[7; KEY],
            b"\x14\0\x04\0\x02\0\xca\x6c\xc6\x12\x02\x02\0\0\0\0\0\0\0\0",
            b"\x20\0\x09\x80\x1c\0\0\x80\x06\0\x01\0\x02\0\0\0",
            b"\x08\0\x02\0\xc6\x12\x03\0\x05\0\x03\0\x18\0\0\0",
        ];
        assert_eq!(peer_attributes("wg0", &peer).as_slice(), expected.concat());
    }

    #[test]
    fn an_ipv6_endpoint_is_as_long_as_the_kernel_checks() {
        let six = sockaddr("[2001:db8:2::2]:51820".parse().unwrap());
        assert_eq!(six.len(), 28);
        assert_eq!(sockaddr("198.18.2.2:1".parse().unwrap()).len(), 16);
    }
}
