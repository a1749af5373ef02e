//! ICMP echo: whether an address answers, for IPv4 and IPv6.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recvfrom, sendto,
    socket_with,
};

// RFC 792 and RFC 4443.
const REQUEST_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;

/// One address that is asked again and again.
#[derive(Debug)]
pub struct Echo {
    socket: OwnedFd,
    to: SocketAddr,
    /// A raw socket: it sees what all others get, and in IPv4 the IP header too.
    raw: bool,
    ident: u16,
    sequence: u16,
}

impl Echo {
    /// To `address`, in the calling thread's network namespace; a link-local one needs the name of
    /// its `device`.
    ///
    /// # Errors
    /// ENODEV for a device that is not here; EPERM or EACCES without CAP_NET_RAW where
    /// net.ipv4.ping_group_range leaves the caller out too; EAFNOSUPPORT without IPv6.
    pub fn open(address: IpAddr, device: Option<&str>) -> io::Result<Self> {
        let (family, protocol) = match address {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, raw) = match socket_with(family, SocketType::RAW, flags, Some(protocol)) {
            Ok(socket) => (socket, true),
            Err(Errno::PERM | Errno::ACCESS) => {
                (socket_with(family, SocketType::DGRAM, flags, Some(protocol))?, false)
            }
            Err(e) => return Err(e.into()),
        };
        let to = match address {
            IpAddr::V4(v4) => SocketAddr::V4(SocketAddrV4::new(v4, 0)),
            IpAddr::V6(v6) => {
                let scope = match device {
                    Some(name) => rustix::net::netdevice::name_to_index(&socket, name)?,
                    None => 0,
                };
                SocketAddr::V6(SocketAddrV6::new(v6, 0, 0, scope))
            }
        };
        Ok(Self { socket, to, raw, ident: fastrand::u16(..), sequence: 0 })
    }

    /// Sends one request.
    ///
    /// # Errors
    /// ENETUNREACH, EHOSTUNREACH, ENETDOWN, ...: it can't get out.
    pub fn send(&mut self) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let kind = if self.to.is_ipv4() { REQUEST_V4 } else { REQUEST_V6 };
        let ([i0, i1], [s0, s1]) = (self.ident.to_be_bytes(), self.sequence.to_be_bytes());
        let mut packet = [kind, 0, 0, 0, i0, i1, s0, s1];
        if self.to.is_ipv4() {
            // Of IPv6 the kernel makes the sum itself (net/ipv6/raw.c `rawv6_push_pending_frames`).
            let [c0, c1] = checksum(&packet).to_be_bytes();
            packet = [kind, 0, c0, c1, i0, i1, s0, s1];
        }
        sendto(&self.socket, &packet, SendFlags::DONTWAIT, &self.to)?;
        Ok(())
    }

    /// True if an answer has come since this was asked last. Never waits.
    #[must_use]
    pub fn answered(&self) -> bool {
        let mut found = false;
        // Bounded, for a raw socket sees other programs' answers too.
        for _ in 0..1000 {
            let mut buffer = [0; 256];
            match recvfrom(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((length, _, from)) => {
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    let packet = buffer.get(..length).unwrap_or(&buffer);
                    found |= from.is_some_and(|f| f.ip() == self.to.ip()) && self.is_ours(packet);
                }
                // An error that came by ICMP is told once, here; what follows may be an answer.
                Err(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::CONNREFUSED | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        found
    }

    fn is_ours(&self, packet: &[u8]) -> bool {
        let header = match packet.first() {
            Some(first) if self.raw && self.to.is_ipv4() => usize::from(first & 0xf) * 4,
            _ => 0,
        };
        let Some([kind, _, _, _, i0, i1, _, _]) =
            packet.get(header..).and_then(|p| p.first_chunk())
        else {
            return false;
        };
        let reply = if self.to.is_ipv4() { REPLY_V4 } else { REPLY_V6 };
        // Of a ping socket the kernel chose the identifier, and hands out no others.
        *kind == reply && (!self.raw || u16::from_be_bytes([*i0, *i1]) == self.ident)
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::{Duration, Instant};

    use super::*;

    /// True if an answer comes within a second.
    fn asks(address: IpAddr) -> io::Result<bool> {
        let mut echo = Echo::open(address, None)?;
        echo.send()?;
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            if echo.answered() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(false)
    }

    #[test]
    fn what_is_up_answers_and_what_is_down_does_not() {
        let Ok(netns) = crate::machine::sys::netns::NetnsThread::create() else {
            crate::skip!("network namespaces need root");
        };
        let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
        let asked = netns.run(move || {
            let down = asks(v4);
            crate::machine::sys::rtnl::set_up("lo").unwrap();
            (down, asks(v4), asks(v6), std::path::Path::new("/proc/net/if_inet6").exists())
        });
        let (down, up, up_v6, has_v6) = asked.unwrap();
        assert!(!down.unwrap_or(false));
        assert!(up.unwrap());
        assert_eq!(up_v6.unwrap_or(false), has_v6);
    }

    #[test]
    fn the_sum_over_a_request_is_that_of_the_rfc() {
        assert_eq!(checksum(&[8, 0, 0, 0, 0, 1, 0, 1]), 0xf7fd);
        assert_eq!(checksum(&[8, 0, 0xf7, 0xfd, 0, 1, 0, 1]), 0);
        assert_eq!(checksum(&[0xff, 0xff, 0xff]), 0x00ff);
    }
}
