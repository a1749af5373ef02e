//! Counters of network devices: `/sys/class/net/<device>/statistics/*`, `carrier_changes` and
//! other files that hold one number.

use crate::model::evidence::counted;

/// Counts of a device since it was made (Documentation/ABI/testing/sysfs-class-net-statistics).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, link-layer header included.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent, link-layer header included.
    pub tx_bytes: u64,
    /// Received packets dropped by the kernel.
    pub rx_dropped: u64,
    /// Packets dropped instead of sent.
    pub tx_dropped: u64,
}

impl NetCounters {
    /// The files in `statistics/` that are read, in the order of [`NetCounters::from_files`].
    pub const FILES: [&'static str; 6] =
        ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_dropped", "tx_dropped"];

    /// Counters with the values of [`NetCounters::FILES`].
    #[must_use]
    pub fn from_files(values: [u64; 6]) -> Self {
        let [rx_packets, rx_bytes, tx_packets, tx_bytes, rx_dropped, tx_dropped] = values;
        Self { rx_packets, rx_bytes, tx_packets, tx_bytes, rx_dropped, tx_dropped }
    }

    /// Counts between `before` and this. The second value is true if a counter went back in a way
    /// that is no wrap: the device was made anew, so that the counts before are lost.
    #[must_use]
    pub fn since(&self, before: &Self) -> (Self, bool) {
        let mut reset = false;
        let mut field = |after: u64, before: u64| {
            let (delta, was_reset) = counted(after, before);
            reset |= was_reset;
            delta
        };
        let delta = Self {
            rx_packets: field(self.rx_packets, before.rx_packets),
            rx_bytes: field(self.rx_bytes, before.rx_bytes),
            tx_packets: field(self.tx_packets, before.tx_packets),
            tx_bytes: field(self.tx_bytes, before.tx_bytes),
            rx_dropped: field(self.rx_dropped, before.rx_dropped),
            tx_dropped: field(self.tx_dropped, before.tx_dropped),
        };
        (delta, reset)
    }
}

/// The one number in a file; `None` when there is anything else.
#[must_use]
pub fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reset_counter_marks_the_device() {
        let before = NetCounters { rx_packets: 10, tx_bytes: 500, ..NetCounters::default() };
        let after = NetCounters { rx_packets: 4, tx_bytes: 900, ..NetCounters::default() };
        let (delta, reset) = after.since(&before);
        assert_eq!((delta.rx_packets, delta.tx_bytes, reset), (4, 400, true));
    }

    #[test]
    fn a_file_holds_one_number_or_nothing_usable() {
        // `statistics/rx_bytes` and `carrier_changes` end in a newline.
        assert_eq!(number(b"18446744073709551615\n"), Some(u64::MAX));
        assert_eq!(number(b""), None);
        assert_eq!(number(b"1 2"), None);
        assert_eq!(number(b"-1\n"), None);
        assert_eq!(number(b"\xff"), None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes: Vec<u8>) {
            proptest::prop_assert!(number(&bytes).is_none_or(|_| bytes.iter().any(u8::is_ascii_digit)));
        }
    }
}
