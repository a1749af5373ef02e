//! `/proc/net/packet`: the packet sockets of a namespace (net/packet/af_packet.c, packet_seq_show):
//! `sk RefCnt Type Proto Iface R Rmem User Inode`, the protocol in hexadecimal, R 1 while it receives.

/// ETH_P_ALL (linux/if_ether.h): every packet, sent ones too.
const ALL: &str = "0003";

/// Interface indices of the sockets that take packets of all protocols, 0 for all devices; `None`
/// where the file is not there.
#[must_use]
pub fn taps(bytes: &[u8]) -> Option<Vec<u32>> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    lines.next()?;
    let mut found = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, _, ALL, device, "1", ..] = words.as_slice() {
            found.extend(device.parse::<u32>());
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::taps;

    /// Kernel 6.18: for all protocols on one device and on any, for ETH_P_IP, and one that does not run.
    const FILE: &[u8] = include_bytes!("../../../fixtures/proc/packet-6.18");

    #[test]
    fn sockets_for_all_protocols_are_told_from_those_of_one() {
        assert_eq!(taps(FILE), Some(vec![1, 0]));
        assert_eq!(taps(b"sk RefCnt Type Proto  Iface R Rmem   User   Inode\n"), Some(vec![]));
        assert_eq!(taps(b""), None);
        assert_eq!(taps(b"\xff\n\xff 0003\n"), Some(vec![]));
    }
}
