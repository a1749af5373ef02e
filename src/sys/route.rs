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
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// The device by which packets to `address` leave.
///
/// # Errors
/// ENETUNREACH where there is no route; what the kernel answered.
pub fn device_towards(address: IpAddr) -> io::Result<String> {
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
    };
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
    }
}
