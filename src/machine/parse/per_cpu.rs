//! `/proc/net/stat/{nf_conntrack,arp_cache,ndisc_cache,rt_cache}`: a line of names, then a line of
//! hexadecimal values for each possible CPU (net/netfilter/nf_conntrack_standalone.c `ct_cpu_seq_show`,
//! net/core/neighbour.c `neigh_stat_seq_show`, net/ipv4/route.c `rt_cpu_seq_show`).

use std::collections::BTreeMap;

/// Sums over the CPUs by name. `entries` is left out: it is no counter, and every line repeats it.
/// Counters of nf_conntrack and of the routes are 32 bits wide on each CPU and wrap.
#[must_use]
pub fn sums(bytes: &[u8]) -> BTreeMap<String, u64> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines {
        for (name, value) in names.iter().zip(line.split_whitespace()) {
            if let (true, Ok(value)) = (*name != "entries", u64::from_str_radix(value, 16)) {
                let sum = found.entry((*name).to_owned()).or_default();
                *sum = sum.saturating_add(value);
            }
        }
    }
    found
}

/// Entries of the table now, which each line repeats.
#[must_use]
pub fn entries(bytes: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::split_whitespace);
    let at = lines.next()?.position(|name| name == "entries")?;
    u64::from_str_radix(lines.next()?.nth(at)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{entries, sums};

    /// A two-CPU virtual machine, kernel 6.18.
    const ARP: &[u8] = include_bytes!("../../../fixtures/proc/arp_cache-6.18");
    /// The form of kernel 5.4, with values made up.
    const OLD: &[u8] = b"entries  searched found new invalid ignore delete delete_list insert \
        insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n\
        0000000a  00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000002 0000000f 00000000 00000000  00000000 00000000 00000000 00000000\n\
        0000000a  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000001 00000003 00000000  00000000 00000000 00000000 00000000\n";

    #[test]
    fn values_are_hexadecimal_and_summed_over_the_cpus() {
        let arp = sums(ARP);
        assert_eq!(arp.get("allocs"), Some(&4));
        assert_eq!(arp.get("unresolved_discards"), Some(&0));
        let old = sums(OLD);
        let of = |name| old.get(name).copied();
        assert_eq!(
            (of("drop"), of("insert_failed"), of("early_drop")),
            (Some(16), Some(3), Some(3))
        );
        assert_eq!(of("entries"), None, "a size, repeated on each line");
        assert_eq!((entries(OLD), entries(ARP)), (Some(10), Some(2)));
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        assert!(sums(b"").is_empty());
        assert!(sums(b"a b\n").is_empty());
        assert_eq!((entries(b"a b\n1 2\n"), entries(b"entries\n")), (None, None));
        assert_eq!(sums(b"a b\nxyz 1\n1\n").get("b"), Some(&1));
    }
}
