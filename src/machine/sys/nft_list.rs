//! The nf_tables rule set, counted: rules that forwarded packets may meet, masquerading,
//! flowtables. Other programs' rules are read here, so everything is taken as it may come.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, attributes, text};
use crate::model::path::{Flowtable, Nftables};

// linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
const NFT_MSG_GETCHAIN: u16 = 10 << 8 | 4;
const NFT_MSG_GETRULE: u16 = 10 << 8 | 7;
const NFT_MSG_GETFLOWTABLE: u16 = 10 << 8 | 23;
const NFGENMSG: usize = 4;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const HOOK_NUM: u16 = 1;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const EXPR_NAME: u16 = 1;
const EXPR_DATA: u16 = 2;
const META_KEY: u16 = 2;
const META_OIFNAME: u32 = 7;
const CMP_DATA: u16 = 3;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CHAIN: u16 = 2;
const IMMEDIATE_DATA: u16 = 2;
const LOOKUP_DREG: u16 = 3;
/// NFTA_EXTHDR_OP, NFT_EXTHDR_OP_TCPOPT; NFTA_EXTHDR_SREG is there when the option is written.
const EXTHDR_OP: u16 = 6;
const EXTHDR_TCPOPT: u32 = 1;
const EXTHDR_SREG: u16 = 7;
const NAT_TYPE: u16 = 1;
const NAT_SNAT: u32 = 0;
const FLOWTABLE_TABLE: u16 = 1;
const FLOWTABLE_NAME: u16 = 2;
const FLOWTABLE_HOOK: u16 = 3;
const FLOWTABLE_FLAGS: u16 = 7;
const FLOWTABLE_HW_OFFLOAD: u32 = 1;
const FLOWTABLE_HOOK_DEVS: u16 = 3;
/// inet, ip, ip6, netdev: families whose chains see routed packets.
const FAMILIES: [u8; 4] = [1, 2, 10, 5];
const NETDEV: u8 = 5;
/// input and output: a forwarded packet never meets them.
const LOCAL_HOOKS: [u32; 2] = [1, 3];

/// Counts the rule set of the calling thread's network namespace.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN; EOPNOTSUPP or EINVAL where the kernel has no nf_tables.
pub fn count() -> io::Result<Nftables> {
    let mut socket = Socket::open(NlFamily::Netfilter)?;
    let mut list =
        |kind| socket.dump(Message::new(kind, NlmF::empty(), &[0; NFGENMSG], &Attrs::new()));
    let (chains, rules) = (list(NFT_MSG_GETCHAIN)?, list(NFT_MSG_GETRULE)?);
    // Flowtables came later than rules (kernel 4.16).
    let flowtables = list(NFT_MSG_GETFLOWTABLE).unwrap_or_default();
    Ok(tell(&chains, &rules, &flowtables))
}

/// Family, table, chain.
type Chain = (u8, String, String);

#[derive(Default)]
struct Rule {
    /// Device that it wants the packet to leave by.
    outgoing: Option<String>,
    jump: Option<String>,
    by_map: bool,
    source_nat: bool,
    clamps: bool,
}

pub(super) fn tell(chains: &[Vec<u8>], rules: &[Vec<u8>], flowtables: &[Vec<u8>]) -> Nftables {
    let mut all: BTreeMap<Chain, Vec<Rule>> = BTreeMap::new();
    let mut todo: Vec<Chain> = Vec::new();
    let mut base: BTreeSet<Chain> = BTreeSet::new();
    for body in chains {
        let Some((chain, hook)) = chain(body) else { continue };
        if let Some(hook) = hook {
            let local = chain.0 != NETDEV && LOCAL_HOOKS.contains(&hook);
            if FAMILIES.contains(&chain.0) && !local {
                todo.push(chain.clone());
            }
            base.insert(chain.clone());
        }
        all.entry(chain).or_default();
    }
    for body in rules {
        if let Some((chain, rule)) = rule(body) {
            all.entry(chain).or_default().push(rule);
        }
    }
    // Chains that a forwarded packet may come to. Whoever jumps by a map may come anywhere in its
    // table.
    let mut met: BTreeSet<Chain> = BTreeSet::new();
    let mut whole: BTreeSet<(u8, String)> = BTreeSet::new();
    while let Some(chain) = todo.pop() {
        if !met.insert(chain.clone()) {
            continue;
        }
        for rule in all.get(&chain).into_iter().flatten() {
            let to = rule.jump.iter().map(|name| (chain.0, chain.1.clone(), name.clone()));
            todo.extend(to.filter(|to| all.contains_key(to)));
            // Once for a table: with a map in every chain it would be their square.
            if rule.by_map && whole.insert((chain.0, chain.1.clone())) {
                let same = |c: &&Chain| c.0 == chain.0 && c.1 == chain.1 && !base.contains(*c);
                todo.extend(all.keys().filter(same).filter(|c| !met.contains(*c)).cloned());
            }
        }
    }
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let nat = |chain: &Chain| all.get(chain).into_iter().flatten().any(|r| r.source_nat);
    let mut devices = BTreeSet::new();
    for (chain, rules) in &all {
        for rule in rules {
            let to = rule.jump.as_ref().map(|name| (chain.0, chain.1.clone(), name.clone()));
            if rule.source_nat || to.is_some_and(|to| nat(&to)) {
                devices.extend(rule.outgoing.clone());
            }
        }
    }
    Nftables {
        rules: count(all.values().map(Vec::len).sum()),
        forward_rules: count(met.iter().filter_map(|c| all.get(c)).map(Vec::len).sum()),
        nat: all.keys().any(nat),
        masquerade_devices: devices.into_iter().collect(),
        clamps_mss: Some(all.values().flatten().any(|r| r.clamps)),
        flowtables: flowtables.iter().filter_map(|body| flowtable(body)).collect(),
    }
}

fn chain(body: &[u8]) -> Option<(Chain, Option<u32>)> {
    let attrs = body.get(NFGENMSG..)?;
    let name = |kind| attribute(attrs, kind).map(text);
    let hook = attribute(attrs, CHAIN_HOOK)
        .map(|hook| attribute(hook, HOOK_NUM).and_then(be32).unwrap_or(u32::MAX));
    Some(((*body.first()?, name(CHAIN_TABLE)?, name(CHAIN_NAME)?), hook))
}

fn rule(body: &[u8]) -> Option<(Chain, Rule)> {
    let attrs = body.get(NFGENMSG..)?;
    let name = |kind| attribute(attrs, kind).map(text);
    let mut rule = Rule::default();
    let mut outgoing_loaded = false;
    for (_, expression) in attributes(attribute(attrs, RULE_EXPRESSIONS).unwrap_or_default()) {
        let kind = attribute(expression, EXPR_NAME).map(text).unwrap_or_default();
        let data = attribute(expression, EXPR_DATA).unwrap_or_default();
        match kind.as_str() {
            "masq" => rule.source_nat = true,
            "nat" => {
                rule.source_nat |= attribute(data, NAT_TYPE).and_then(be32) == Some(NAT_SNAT);
            }
            "exthdr" => {
                rule.clamps |= attribute(data, EXTHDR_SREG).is_some()
                    && attribute(data, EXTHDR_OP).and_then(be32) == Some(EXTHDR_TCPOPT);
            }
            // iptables-nft keeps the old targets, by name (NFTA_TARGET_NAME).
            "target" => rule.clamps |= attribute(data, 1).map(text).as_deref() == Some("TCPMSS"),
            "lookup" => rule.by_map |= attribute(data, LOOKUP_DREG).and_then(be32) == Some(0),
            "cmp" if outgoing_loaded => {
                let value = attribute(data, CMP_DATA).and_then(|d| attribute(d, DATA_VALUE));
                rule.outgoing = value.map(text).filter(|name| !name.is_empty());
            }
            "immediate" => {
                let verdict =
                    attribute(data, IMMEDIATE_DATA).and_then(|d| attribute(d, DATA_VERDICT));
                rule.jump = verdict.and_then(|v| attribute(v, VERDICT_CHAIN)).map(text);
            }
            _ => {}
        }
        outgoing_loaded =
            kind == "meta" && attribute(data, META_KEY).and_then(be32) == Some(META_OIFNAME);
    }
    Some(((*body.first()?, name(RULE_TABLE)?, name(RULE_CHAIN)?), rule))
}

fn flowtable(body: &[u8]) -> Option<Flowtable> {
    let attrs = body.get(NFGENMSG..)?;
    let name = |kind| attribute(attrs, kind).map(text);
    let hook = attribute(attrs, FLOWTABLE_HOOK).unwrap_or_default();
    let devices = attribute(hook, FLOWTABLE_HOOK_DEVS).unwrap_or_default();
    let flags = attribute(attrs, FLOWTABLE_FLAGS).and_then(be32).unwrap_or(0);
    Some(Flowtable {
        name: format!("{} {}", name(FLOWTABLE_TABLE)?, name(FLOWTABLE_NAME)?),
        devices: attributes(devices).map(|(_, device)| text(device)).collect(),
        hardware: flags & FLOWTABLE_HW_OFFLOAD != 0,
    })
}

pub(super) fn be32(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*value.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INET: u8 = 1;

    fn body(attrs: &Attrs) -> Vec<u8> {
        [&[INET, 0, 0, 0], attrs.as_slice()].concat()
    }

    fn new_chain(name: &str, hook: Option<u32>) -> Vec<u8> {
        let attrs = Attrs::new().text(CHAIN_TABLE, "fw4").text(CHAIN_NAME, name);
        body(&match hook {
            Some(hook) => attrs.nest(CHAIN_HOOK, &Attrs::new().be32(HOOK_NUM, hook)),
            None => attrs,
        })
    }

    fn new_rule(chain: &str, expressions: &[(&str, Attrs)]) -> Vec<u8> {
        let list = expressions.iter().fold(Attrs::new(), |list, (name, data)| {
            list.nest(1, &Attrs::new().text(EXPR_NAME, name).nest(EXPR_DATA, data))
        });
        let attrs = Attrs::new().text(RULE_TABLE, "fw4").text(RULE_CHAIN, chain);
        body(&attrs.nest(RULE_EXPRESSIONS, &list))
    }

    fn jump(to: &str) -> (&'static str, Attrs) {
        let verdict = Attrs::new().be32(1, u32::MAX - 2).text(VERDICT_CHAIN, to);
        ("immediate", Attrs::new().nest(IMMEDIATE_DATA, &Attrs::new().nest(2, &verdict)))
    }

    fn leaves_by(device: &str) -> [(&'static str, Attrs); 2] {
        let name = Attrs::new().text(DATA_VALUE, device);
        [
            ("meta", Attrs::new().be32(META_KEY, META_OIFNAME)),
            ("cmp", Attrs::new().nest(CMP_DATA, &name)),
        ]
    }

    /// As OpenWrt's fw4 makes it: postrouting jumps to a chain per zone, which masquerades.
    #[test]
    fn masquerading_behind_a_jump_names_the_device() {
        let chains = [
            new_chain("forward", Some(2)),
            new_chain("input", Some(1)),
            new_chain("srcnat", Some(4)),
            new_chain("srcnat_wan", None),
            new_chain("input_wan", None),
        ];
        let [load, compare] = leaves_by("pppoe-wan");
        let rules = [
            new_rule("forward", &[("counter", Attrs::new())]),
            new_rule("input", &[jump("input_wan")]),
            new_rule("input_wan", &[]),
            new_rule("srcnat", &[load, compare, jump("srcnat_wan")]),
            new_rule("srcnat_wan", &[("masq", Attrs::new())]),
            vec![0],
        ];
        let devices = Attrs::new().text(1, "eth0").text(1, "br-lan");
        let hook = Attrs::new().nest(FLOWTABLE_HOOK_DEVS, &devices);
        let flow = Attrs::new().text(1, "fw4").text(2, "ft").nest(FLOWTABLE_HOOK, &hook).be32(7, 1);
        let found = tell(&chains, &rules, &[body(&flow)]);
        assert_eq!((found.rules, found.forward_rules, found.nat), (5, 3, true));
        assert_eq!(found.masquerade_devices, ["pppoe-wan"]);
        let fast = Flowtable {
            name: "fw4 ft".into(),
            devices: vec!["eth0".into(), "br-lan".into()],
            hardware: true,
        };
        assert_eq!(found.flowtables, [fast]);
    }

    /// `tcp option maxseg size set rt mtu` writes the option; reading it (a match) clamps nothing.
    #[test]
    fn a_rule_that_writes_the_segment_size_is_told_from_one_that_reads_it() {
        let chains = [new_chain("forward", Some(2))];
        let option = || Attrs::new().be32(EXTHDR_OP, EXTHDR_TCPOPT);
        let of = |data: Attrs, name: &str| {
            tell(&chains, &[new_rule("forward", &[(name, data)])], &[]).clamps_mss
        };
        assert_eq!(of(option().be32(EXTHDR_SREG, 1), "exthdr"), Some(true));
        assert_eq!(of(option().be32(1, 1), "exthdr"), Some(false));
        assert_eq!(of(Attrs::new().text(1, "TCPMSS"), "target"), Some(true));
        assert_eq!(of(Attrs::new().text(1, "LOG"), "target"), Some(false));
    }

    #[test]
    fn a_map_may_lead_anywhere_in_its_table_and_loops_end() {
        let chains = [new_chain("forward", Some(2)), new_chain("a", None), new_chain("b", None)];
        let map = ("lookup", Attrs::new().be32(LOOKUP_DREG, 0));
        let rules = [
            new_rule("forward", &[map]),
            new_rule("a", &[jump("b")]),
            new_rule("b", &[jump("a")]),
            new_rule("b", &[jump("gone")]),
        ];
        assert_eq!(tell(&chains, &rules, &[]).forward_rules, 4);
    }

    #[test]
    fn a_map_in_each_of_thousands_of_chains_is_no_square() {
        let map = || ("lookup", Attrs::new().be32(LOOKUP_DREG, 0));
        let names: Vec<String> = (0..5000).map(|n| format!("chain-{n}")).collect();
        let chains: Vec<Vec<u8>> =
            names.iter().map(|name| new_chain(name, (name == "chain-0").then_some(2))).collect();
        let rules: Vec<Vec<u8>> = names.iter().map(|name| new_rule(name, &[map()])).collect();
        assert_eq!(tell(&chains, &rules, &[]).forward_rules, 5000);
    }
}
