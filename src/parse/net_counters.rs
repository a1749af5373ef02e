//! Counters of network devices: `/sys/class/net/<device>/statistics/*`, `carrier_changes` and
//! other files that hold one number.

/// What a device has counted since it was made (Documentation/ABI/testing/sysfs-class-net-statistics).
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

    /// From the values of [`NetCounters::FILES`].
    #[must_use]
    pub fn from_files(values: [u64; 6]) -> Self {
        let [rx_packets, rx_bytes, tx_packets, tx_bytes, rx_dropped, tx_dropped] = values;
        Self { rx_packets, rx_bytes, tx_packets, tx_bytes, rx_dropped, tx_dropped }
    }

    /// What was counted between `before` and this. The second value says whether a counter went
    /// back in a way that is no wrap: the device was made anew, so that what it counted before is
    /// lost.
    #[must_use]
    pub fn since(&self, before: &Self) -> (Self, bool) {
        let mut reset = false;
        let mut field = |after: u64, before: u64| {
            let (delta, was_reset) = since(after, before);
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

/// How far a counter went, and whether it was reset on the way.
///
/// Drivers of 32-bit machines keep `unsigned long` counters that wrap at 2^32. A counter that went
/// back from the upper half of 32 bits is taken to have wrapped; any other way back is a reset,
/// after which only the new value is known.
#[must_use]
pub fn since(after: u64, before: u64) -> (u64, bool) {
    const HALF: u64 = 1 << 31;
    match after.checked_sub(before) {
        Some(delta) => (delta, false),
        None if (HALF..HALF * 2).contains(&before) && after < HALF => {
            (HALF * 2 - before + after, false)
        }
        None => (after, true),
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
    fn a_wrap_of_32_bits_is_not_a_reset() {
        assert_eq!(since(10, 3), (7, false));
        assert_eq!(since(5, 0xffff_fffe), (7, false), "wrapped");
        assert_eq!(since(5, 100), (5, true), "made anew");
        assert_eq!(since(5, 1 << 40), (5, true), "64 bits do not wrap in our time");
    }

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
        fn what_was_counted_is_what_is_found(before: u64, counted in 0..1u64 << 40) {
            if let Some(after) = before.checked_add(counted) {
                proptest::prop_assert_eq!(since(after, before), (counted, false));
            }
        }

        #[test]
        fn a_32_bit_counter_wraps_unseen(before in (1u64 << 31)..1 << 32, counted in 0u64..1 << 31) {
            let after = (before + counted) & 0xffff_ffff;
            proptest::prop_assert_eq!(since(after, before), (counted, false));
        }

        #[test]
        fn nothing_makes_it_panic(after: u64, before: u64, bytes: Vec<u8>) {
            let (delta, reset) = since(after, before);
            proptest::prop_assert!(reset || before.wrapping_add(delta) % (1 << 32) == after % (1 << 32));
            proptest::prop_assert!(number(&bytes).is_none_or(|_| bytes.iter().any(u8::is_ascii_digit)));
        }
    }
}
