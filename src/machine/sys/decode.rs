//! Every decoder of the kernel's answers behind one door each, for fuzzing: apart from that they are
//! nobody's business outside `sys`.

use std::collections::BTreeMap;

use super::netlink::Answers;
use super::{
    ethtool, genl, links, napi, nft_drop, nft_list, nic, nic_counters, qdisc, rtnl, xtables,
};
use crate::model::order::OneByOne;

/// Takes in `bytes` as one datagram, and lets every decoder read the bodies of its messages; where
/// it holds none, the bytes themselves are the body.
pub fn decode_answers(bytes: &[u8]) {
    let mut answers = Answers::default();
    let refused = answers.take(bytes, 0, u32::MAX).is_err();
    let mut bodies = answers.bodies;
    if refused || bodies.is_empty() {
        bodies = vec![bytes.to_vec()];
    }
    let names: BTreeMap<u32, String> = bodies.iter().filter_map(|b| rtnl::link(b)).one_by_one();
    drop(rtnl::sort_qdiscs(&bodies, &names));
    drop(qdisc::tell(&bodies, &names));
    drop(nft_drop::tell(&bodies, &bodies, &bodies, &bodies));
    drop(links::join(&bodies, &bodies));
    drop(napi::join(&bodies, &bodies));
    drop(nft_list::tell(&bodies, &bodies, &bodies));
    for body in bodies.iter().map(|b| genl::payload(b)) {
        drop(nic::numbers(body, &["rx", "tx", "combined"]));
        drop(nic::read_rss(body));
        drop(ethtool::read_features(body));
    }
}

/// Reads `bytes` as a table of iptables and as one of ip6tables: what SO_GET_INFO answers, then
/// what SO_GET_ENTRIES does. Rules that a forwarded packet can come to, and rules in all.
#[must_use]
pub fn decode_tables(bytes: &[u8]) -> [(u32, u32); 2] {
    xtables::tell_both(bytes).map(|table| (table.forward_rules, table.rules))
}

/// Reads `bytes` as a driver's counters, a name and a value to each line; how many tell of loss.
#[must_use]
pub fn decode_counters(bytes: &[u8]) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let counters = text.lines().filter_map(|line| line.rsplit_once(' '));
    let counters = counters.map(|(name, value)| (name.to_owned(), value.parse().unwrap_or(1)));
    nic_counters::losses(counters).len()
}
