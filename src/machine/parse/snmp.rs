//! `/proc/net/snmp` and `/proc/net/netstat`: a line of names, then a line of values, for each protocol
//! (net/ipv4/proc.c, snmp_seq_show, netstat_seq_show). `/proc/net/snmp6`: a name and its value on each
//! line (net/ipv6/proc.c, snmp6_seq_show).

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

/// The counters of `/proc/net/snmp6`, by name.
#[must_use]
pub fn flat(bytes: &[u8]) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse)) {
            found.insert(name.to_owned(), value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{counters, flat};

    /// A two-CPU virtual machine, kernel 6.18.
    #[test]
    fn the_files_of_a_kernel_are_read_by_their_names() {
        let netstat = include_bytes!("../../../fixtures/proc/netstat-6.18");
        assert_eq!(counters(netstat, "IpExt").get("InNoECTPkts"), Some(&19630));
        assert!(counters(netstat, "TcpExt").contains_key("IPReversePathFilter"));
        let snmp = include_bytes!("../../../fixtures/proc/snmp-6.18");
        assert!(counters(snmp, "Ip").contains_key("OutTransmits"));
        assert_eq!(counters(snmp, "Ip").get("InReceives"), Some(&19630));
        let snmp6 = flat(include_bytes!("../../../fixtures/proc/snmp6-6.18"));
        assert_eq!(
            (snmp6.get("Ip6InOctets"), snmp6.get("Ip6OutRequests")),
            (Some(&128), Some(&10))
        );
        assert!(flat(b"\xff\nIp6A\nIp6B x\nIp6C -1\n").is_empty());
    }

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
