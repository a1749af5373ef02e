//! `/proc/net/pppoe` (drivers/net/ppp/pppoe.c `pppoe_seq_show`): the sessions that the kernel
//! carries, each with the device under it. It does not name the ppp device.
//!
//! ```text
//! Id       Address              Device
//! 64000000 aa:bb:cc:dd:ee:ff eth0.7
//! ```

use super::each_once;

/// Devices that carry PPPoE sessions, in the file's order, each once.
#[must_use]
pub fn devices(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    each_once(text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, device] = words.as_slice() else { return None };
        let session = id.bytes().all(|b| b.is_ascii_hexdigit()) && address.contains(':');
        session.then_some(*device)
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sessions_name_the_device_under_them() {
        let text = b"Id       Address              Device\n64000000 02:00:00:00:00:01 eth0.7\n01000000 02:00:00:00:00:02 eth0.7\nbroken\n";
        assert_eq!(devices(text), ["eth0.7"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            prop_assert!(devices(&bytes).len() <= bytes.len());
        }
    }
}
