//! `/proc/net/tcp` and `tcp6`: TCP sockets with their addresses and owners.

use std::net::{IpAddr, SocketAddr};

/// The user id behind the socket whose own address is `near` and that is connected to `far`.
#[must_use]
pub fn owner(bytes: &[u8], near: SocketAddr, far: SocketAddr) -> Option<u32> {
    let text = String::from_utf8_lossy(bytes);
    let (near, far) = (written(near), written(far));
    text.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let ours = fields.next()? == near && fields.next()? == far;
        // st, queues, timer, retransmits, then the user.
        fields.nth(4).filter(|_| ours)?.parse().ok()
    })
}

/// An address as the kernel writes it (net/ipv4/tcp_ipv4.c, `get_tcp4_sock`): words of the machine's
/// own byte order.
fn written(address: SocketAddr) -> String {
    let words = |octets: &[u8]| -> String {
        let word = |chunk: &[u8]| chunk.try_into().map(u32::from_ne_bytes).unwrap_or(0);
        octets.chunks(4).map(|chunk| format!("{:08X}", word(chunk))).collect()
    };
    let host = match address.ip() {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    };
    format!("{host}:{:04X}", address.port())
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_the_other_end_is_found() {
        // Linux 6.18, a connection over loopback; the owner made 1000.
        let v4 = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     \n\
            \x20  0: 0100007F:E9D3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 337326 1 00000000b51c6fbe 100 0 0 10 0                    \n\
            \x20  2: 0100007F:D95C 0100007F:E9D3 01 00000000:00000000 00:00000000 00000000  1000        0 337327 2 0000000005bb7ae4 20 0 0 10 -1                    \n\
            \x20  4: 0100007F:E9D3 0100007F:D95C 01 00000000:00000000 00:00000000 00000000     0        0 337328 1 00000000ed07b96e 20 0 0 10 -1                    \n";
        let (peer, ours) = ("127.0.0.1:55644".parse().unwrap(), "127.0.0.1:59859".parse().unwrap());
        assert_eq!(owner(v4, peer, ours), Some(1000));
        assert_eq!(owner(v4, ours, peer), Some(0));
        assert_eq!(owner(v4, peer, peer), None);
        let v6 = b"   1: 00000000000000000000000001000000:9062 00000000000000000000000001000000:84A9 01 00000000:00000000 00:00000000 00000000     7        0 337331 2 00000000b1fee61e 20 0 0 10 -1\n";
        assert_eq!(
            owner(v6, "[::1]:36962".parse().unwrap(), "[::1]:33961".parse().unwrap()),
            Some(7)
        );
        assert_eq!(owner(b"x\n\xff", peer, ours), None);
    }
}
