//! `/proc/net/dev` (net/core/net-procfs.c `dev_seq_show`): packets of every device of the namespace.
//!
//! ```text
//! Inter-|   Receive                                                |  Transmit
//!  face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs ...
//!   eth0: 1296    18000   0    0    0    0     0          0         900      12000   0    ...
//! ```

use crate::model::evidence::Moved;

/// Devices with their packets, in the file's order. Lines that are no device's are skipped.
#[must_use]
pub fn devices(bytes: &[u8]) -> Vec<(String, Moved)> {
    bytes.split(|b| *b == b'\n').filter_map(device).collect()
}

/// Device of a line. A name may hold any byte but a colon, a slash and white space (net/core/dev.c,
/// dev_valid_name), and its counters follow the colon with or without a space.
fn device(line: &[u8]) -> Option<(String, Moved)> {
    let colon = line.iter().position(|b| *b == b':')?;
    let (name, counters) = line.split_at(colon);
    let name = String::from_utf8_lossy(name.trim_ascii()).into_owned();
    let counters = std::str::from_utf8(counters.get(1..)?).ok()?;
    let mut columns = counters.split_ascii_whitespace();
    let rx = columns.nth(1)?.parse().ok()?;
    // Bytes sent are the ninth column.
    let tx = columns.nth(7)?.parse().ok()?;
    (!name.is_empty()).then_some((name, Moved { rx, tx }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A two-CPU virtual machine, kernel 6.18.
    const REAL: &[u8] = include_bytes!("../../../fixtures/proc/net_dev-6.18");

    #[test]
    fn packets_are_the_second_and_the_tenth_column() {
        let found = devices(REAL);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["lo", "ifb0", "ifb1", "eth0"]);
        assert_eq!(found[3].1, Moved { rx: 4_752, tx: 2_725 });
        assert_eq!(found[0].1.rx, found[0].1.tx);
    }

    #[test]
    fn a_counter_may_touch_the_colon_and_a_name_be_of_any_bytes() {
        let text = b"Inter-|   Receive |\n\xff\xfewl\xc3\xa40123456789:9 8 0 0 0 0 0 0 7 6 0 0 0 0 0 0\n x: 1 2\n";
        let found = devices(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, Moved { rx: 8, tx: 6 });
        assert!(found[0].0.ends_with("wlä0123456789"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "([ -~]{0,6}:( [0-9]{0,21}){0,18}\n?){0,4}") {
            prop_assert!(devices(&bytes).len() <= bytes.len());
            prop_assert!(devices(text.as_bytes()).len() <= 4);
        }
    }
}
