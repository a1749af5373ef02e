//! Which way this machine would send a packet.

use std::io;
use std::net::IpAddr;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, u32_at};
use super::rtnl;

/// `RTM_GETROUTE`, `RTA_DST`, `RTA_OIF` and the length of `struct rtmsg` (linux/rtnetlink.h).
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTMSG: usize = 12;
/// `RTM_GETADDR`, `IFA_ADDRESS`, `IFA_LOCAL` and the length of `struct ifaddrmsg` (linux/if_addr.h).
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFADDRMSG: usize = 8;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
    }
}

/// The device that has this address of the machine's own.
///
/// # Errors
/// `AddrNotAvailable` where none has; what the kernel answered.
pub fn device_with(address: IpAddr) -> io::Result<String> {
    let (family, bytes) = family_and_bytes(address);
    let ask = Message::new(RTM_GETADDR, NlmF::empty(), &[0; IFADDRMSG], &Attrs::new());
    let index = Socket::open(NlFamily::Route)?.dump(ask)?.into_iter().find_map(|body| {
        let attrs = body.get(IFADDRMSG..)?;
        // Of a point-to-point link IFA_ADDRESS is the other end; IPv6 has IFA_LOCAL only there.
        let own = attribute(attrs, IFA_LOCAL).or_else(|| attribute(attrs, IFA_ADDRESS))?;
        (body.first() == Some(&family) && own == bytes).then(|| u32_at(&body, 4))?
    });
    index
        .and_then(|index| rtnl::links().ok()?.remove(&index))
        .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// The device by which packets to `address` leave.
///
/// # Errors
/// ENETUNREACH where there is no route; what the kernel answered.
pub fn device_towards(address: IpAddr) -> io::Result<String> {
    let (family, bytes) = family_and_bytes(address);
    let mut header = [0; RTMSG];
    header[0] = family;
    header[1] = if family == AF_INET { 32 } else { 128 };
    let attrs = Attrs::new().bytes(RTA_DST, &bytes);
    let ask = Message::new(RTM_GETROUTE, NlmF::empty(), &header, &attrs);
    let answers = Socket::open(NlFamily::Route)?.ask(ask)?;
    let out = |body: &Vec<u8>| u32_at(attribute(body.get(RTMSG..)?, RTA_OIF)?, 0);
    let index = answers.iter().find_map(out);
    index
        .and_then(|index| rtnl::links().ok()?.remove(&index))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NetworkUnreachable, "no device leads there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_is_reached_by_the_loopback_device() {
        for address in ["127.0.0.1", "127.1.2.3"] {
            assert_eq!(device_towards(address.parse().unwrap()).unwrap(), "lo");
        }
        assert_eq!(device_with("127.0.0.1".parse().unwrap()).unwrap(), "lo");
        let error = device_with("192.0.2.1".parse().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
