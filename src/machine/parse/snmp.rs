//! `/proc/net/snmp`: a line of names, then a line of values, for each protocol (net/ipv4/proc.c,
//! snmp_seq_show).

use std::collections::BTreeMap;

/// The counters of one protocol (`Ip`), by name; empty where it is not there.
#[must_use]
pub fn counters(bytes: &[u8], protocol: &str) -> BTreeMap<String, u64> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| *name == protocol)
        .map(|(_, rest)| rest);
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return BTreeMap::new();
    };
    let pairs = names.split_whitespace().zip(values.split_whitespace());
    let mut found = BTreeMap::new();
    // `Forwarding 2` is no counter, and `DefaultTTL` none either; they do no harm. MaxConn is -1.
    found.extend(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))));
    found
}

#[cfg(test)]
mod tests {
    use super::counters;

    #[test]
    fn names_and_values_are_paired_within_a_protocol() {
        let text = b"Ip: Forwarding InReceives FragFails\nIp: 1 900 7\nTcp: MaxConn X\nTcp: -1 5\n";
        let ip = counters(text, "Ip");
        assert_eq!((ip.get("InReceives"), ip.get("FragFails")), (Some(&900), Some(&7)));
        assert_eq!(counters(text, "Tcp").len(), 1);
        assert!(counters(b"Ip: A B\n", "Ip").is_empty());
        assert!(counters(b"\xff:::\n", "Ip").is_empty());
    }
}
