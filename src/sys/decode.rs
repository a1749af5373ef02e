//! Every decoder of the kernel's netlink answers behind one door, for fuzzing: apart from that they
//! are nobody's business outside `sys`.

use std::collections::BTreeMap;

use super::netlink::Answers;
use super::{ethtool, genl, links, napi, nft_list, nic, rtnl};

/// Takes in `bytes` as one datagram, and lets every decoder read the bodies of its messages; where
/// it holds none, the bytes themselves are the body.
pub fn decode_answers(bytes: &[u8]) {
    let mut answers = Answers::default();
    let refused = answers.take(bytes, 0, u32::MAX).is_err();
    let mut bodies = answers.bodies;
    if refused || bodies.is_empty() {
        bodies = vec![bytes.to_vec()];
    }
    let names: BTreeMap<u32, String> = bodies.iter().filter_map(|b| rtnl::link(b)).collect();
    drop(rtnl::sort_qdiscs(&bodies, &names));
    drop(links::join(&bodies, &bodies));
    drop(napi::join(&bodies, &bodies));
    drop(nft_list::tell(&bodies, &bodies, &bodies));
    for body in bodies.iter().map(|b| genl::payload(b)) {
        drop(nic::numbers(body, &["rx", "tx", "combined"]));
        drop(nic::read_rss(body));
        drop(ethtool::read_features(body));
    }
}
