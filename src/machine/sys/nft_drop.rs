//! Rules and policies of nf_tables that drop packets, with what they counted. Other programs' rules
//! are read here, so everything is taken as it may come.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, attributes, text};
use super::nft_list::be32;
use crate::model::loss::{DropRule, Leg};

// linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
const NFT_MSG_GETCHAIN: u16 = 10 << 8 | 4;
const NFT_MSG_GETRULE: u16 = 10 << 8 | 7;
const NFGENMSG: usize = 4;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_COUNTERS: u16 = 8;
const HOOK_NUM: u16 = 1;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_HANDLE: u16 = 3;
const RULE_EXPRESSIONS: u16 = 4;
const EXPR_NAME: u16 = 1;
const EXPR_DATA: u16 = 2;
const IMMEDIATE_DATA: u16 = 2;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;
const LOOKUP_DREG: u16 = 3;
const COUNTER_PACKETS: u16 = 2;
const NF_DROP: u32 = 0;
/// Families (NFPROTO_*) with their names.
const FAMILIES: [(u8, &str); 6] =
    [(1, "inet"), (2, "ip"), (3, "arp"), (5, "netdev"), (7, "bridge"), (10, "ip6")];

/// Those of the calling thread's network namespace.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN; EOPNOTSUPP or EINVAL where the kernel has no nf_tables.
pub fn list() -> io::Result<Vec<DropRule>> {
    let mut socket = Socket::open(NlFamily::Netfilter)?;
    let mut dump =
        |kind| socket.dump(Message::new(kind, NlmF::empty(), &[0; NFGENMSG], &Attrs::new()));
    let (chains, rules) = (dump(NFT_MSG_GETCHAIN)?, dump(NFT_MSG_GETRULE)?);
    Ok(tell(&chains, &rules))
}

/// Family, table, chain.
type Chain = (u8, String, String);

/// Meaning of a rule.
#[derive(Default)]
struct Rule {
    jump: Option<String>,
    by_map: bool,
    /// True if it drops or rejects.
    drops: bool,
    /// Packets that came to the verdict; `None` without a counter, or when the rule goes on to
    /// match behind it.
    packets: Option<u64>,
    handle: u64,
}

/// The rules and policies that drop, if the kernel answered these chains and rules.
pub(super) fn tell(chains: &[Vec<u8>], rules: &[Vec<u8>]) -> Vec<DropRule> {
    let mut found = Vec::new();
    let mut hooked: BTreeMap<Chain, Leg> = BTreeMap::new();
    let mut all: BTreeMap<Chain, Vec<Rule>> = BTreeMap::new();
    for body in chains {
        let Some((chain, attrs)) = chain(body, CHAIN_TABLE, CHAIN_NAME) else { continue };
        all.entry(chain.clone()).or_default();
        let Some(hook) = attribute(attrs, CHAIN_HOOK) else { continue };
        let leg = leg(chain.0, attribute(hook, HOOK_NUM).and_then(be32));
        if attribute(attrs, CHAIN_POLICY).and_then(be32) == Some(NF_DROP) {
            let packets = attribute(attrs, CHAIN_COUNTERS).and_then(packets);
            found.push(drop_rule(&chain, "policy", leg, packets));
        }
        hooked.insert(chain, leg);
    }
    for body in rules {
        if let Some((chain, attrs)) = chain(body, RULE_TABLE, RULE_CHAIN) {
            all.entry(chain).or_default().push(rule(attrs));
        }
    }
    // The first stretch that leads to a chain is the one that its drops are counted on.
    let mut legs: BTreeMap<&Chain, Leg> = BTreeMap::new();
    for leg in [Leg::Early, Leg::In, Leg::Forward, Leg::Out] {
        let mut todo: Vec<Chain> =
            hooked.iter().filter(|(_, l)| **l == leg).map(|(c, _)| c.clone()).collect();
        let mut whole: BTreeSet<(u8, String)> = BTreeSet::new();
        while let Some(at) = todo.pop() {
            let Some((chain, rules)) = all.get_key_value(&at) else { continue };
            if legs.contains_key(chain) {
                continue;
            }
            legs.insert(chain, leg);
            for rule in rules {
                todo.extend(rule.jump.iter().map(|to| (at.0, at.1.clone(), to.clone())));
                // Whoever jumps by a map may come anywhere in its table.
                if rule.by_map && whole.insert((at.0, at.1.clone())) {
                    let same = |c: &&Chain| c.0 == at.0 && c.1 == at.1 && !hooked.contains_key(*c);
                    todo.extend(all.keys().filter(same).cloned());
                }
            }
        }
    }
    for (chain, leg) in legs {
        for rule in all.get(chain).into_iter().flatten().filter(|rule| rule.drops) {
            let name = format!("handle {}", rule.handle);
            found.push(drop_rule(chain, &name, leg, rule.packets));
        }
    }
    found
}

fn drop_rule(chain: &Chain, name: &str, leg: Leg, packets: Option<u64>) -> DropRule {
    let (number, table, chain) = chain;
    let family = FAMILIES.iter().find(|(n, _)| n == number).map_or("?", |(_, name)| name);
    let place = format!("nft {family} {table} {chain} {name}");
    DropRule { place, leg, ipv6: family == "ip6", packets }
}

/// Stretch of a hook. linux/netfilter.h: prerouting, input, forward, output, postrouting, ingress
/// (inet only); netdev has hooks of its own: ingress, egress.
fn leg(family: u8, hook: Option<u32>) -> Leg {
    match (family, hook) {
        (1 | 2 | 10, Some(0 | 1)) => Leg::In,
        (1 | 2 | 10, Some(2)) => Leg::Forward,
        (1 | 2 | 10, Some(3 | 4)) | (5, Some(1)) => Leg::Out,
        _ => Leg::Early,
    }
}

fn chain(body: &[u8], table: u16, name: u16) -> Option<(Chain, &[u8])> {
    let attrs = body.get(NFGENMSG..)?;
    let named = |kind| attribute(attrs, kind).map(text);
    Some(((*body.first()?, named(table)?, named(name)?), attrs))
}

fn rule(attrs: &[u8]) -> Rule {
    let mut rule = Rule {
        handle: attribute(attrs, RULE_HANDLE).and_then(be64).unwrap_or(0),
        ..Rule::default()
    };
    for (_, expression) in attributes(attribute(attrs, RULE_EXPRESSIONS).unwrap_or_default()) {
        let kind = attribute(expression, EXPR_NAME).map(text).unwrap_or_default();
        let data = attribute(expression, EXPR_DATA).unwrap_or_default();
        match kind.as_str() {
            "counter" => rule.packets = packets(data),
            "reject" => rule.drops = true,
            // iptables-nft keeps the old targets, by name (NFTA_TARGET_NAME).
            "target" => rule.drops |= attribute(data, 1).map(text).as_deref() == Some("REJECT"),
            "immediate" => {
                let verdict =
                    attribute(data, IMMEDIATE_DATA).and_then(|d| attribute(d, DATA_VERDICT));
                let code = verdict.and_then(|v| attribute(v, VERDICT_CODE)).and_then(be32);
                rule.drops |= code == Some(NF_DROP);
                rule.jump = verdict.and_then(|v| attribute(v, VERDICT_CHAIN)).map(text);
            }
            "log" => {}
            other => {
                // A match behind the counter lets fewer packets through than were counted.
                rule.packets = None;
                rule.by_map |=
                    other == "lookup" && attribute(data, LOOKUP_DREG).and_then(be32) == Some(0);
            }
        }
    }
    rule
}

fn packets(counters: &[u8]) -> Option<u64> {
    attribute(counters, COUNTER_PACKETS).and_then(be64)
}

fn be64(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*value.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(family: u8, attrs: &Attrs) -> Vec<u8> {
        [&[family, 0, 0, 0], attrs.as_slice()].concat()
    }

    fn new_chain(
        family: u8,
        name: &str,
        hook: Option<u32>,
        policy: Option<Option<u64>>,
    ) -> Vec<u8> {
        let mut attrs = Attrs::new().text(CHAIN_TABLE, "t").text(CHAIN_NAME, name);
        if let Some(hook) = hook {
            attrs = attrs.nest(CHAIN_HOOK, &Attrs::new().be32(HOOK_NUM, hook));
        }
        if let Some(count) = policy {
            attrs = attrs.be32(CHAIN_POLICY, NF_DROP);
            if let Some(count) = count {
                attrs = attrs.nest(CHAIN_COUNTERS, &counted(count));
            }
        }
        body(family, &attrs)
    }

    fn counted(packets: u64) -> Attrs {
        Attrs::new().bytes(1, &0_u64.to_be_bytes()).bytes(COUNTER_PACKETS, &packets.to_be_bytes())
    }

    fn verdict(code: u32, chain: Option<&str>) -> (&'static str, Attrs) {
        let mut verdict = Attrs::new().be32(VERDICT_CODE, code);
        if let Some(chain) = chain {
            verdict = verdict.text(VERDICT_CHAIN, chain);
        }
        let data = Attrs::new().nest(DATA_VERDICT, &verdict);
        ("immediate", Attrs::new().nest(IMMEDIATE_DATA, &data))
    }

    fn new_rule(family: u8, chain: &str, handle: u64, expressions: &[(&str, Attrs)]) -> Vec<u8> {
        let list = expressions.iter().fold(Attrs::new(), |list, (name, data)| {
            list.nest(1, &Attrs::new().text(EXPR_NAME, name).nest(EXPR_DATA, data))
        });
        let attrs = Attrs::new().text(RULE_TABLE, "t").text(RULE_CHAIN, chain);
        let attrs = attrs.bytes(RULE_HANDLE, &handle.to_be_bytes());
        body(family, &attrs.nest(RULE_EXPRESSIONS, &list))
    }

    const JUMP: u32 = u32::MAX - 2;

    #[test]
    fn a_drop_is_told_with_its_count_its_place_and_its_stretch() {
        let chains = [
            new_chain(1, "in", Some(1), Some(None)),
            new_chain(1, "fwd", Some(2), Some(Some(9))),
            new_chain(1, "sub", None, None),
            new_chain(10, "post", Some(4), None),
            new_chain(5, "eth0", Some(0), None),
            new_chain(1, "unused", None, None),
        ];
        let counter = |n| ("counter", counted(n));
        let rules = [
            new_rule(1, "fwd", 1, &[counter(100), verdict(JUMP, Some("sub"))]),
            new_rule(1, "sub", 2, &[("cmp", Attrs::new()), counter(7), verdict(NF_DROP, None)]),
            new_rule(1, "sub", 3, &[counter(50), ("cmp", Attrs::new()), verdict(NF_DROP, None)]),
            new_rule(1, "sub", 4, &[counter(5), ("log", Attrs::new()), ("reject", Attrs::new())]),
            new_rule(1, "sub", 5, &[counter(5), verdict(1, None)]),
            new_rule(10, "post", 6, &[counter(3), verdict(NF_DROP, None)]),
            new_rule(5, "eth0", 7, &[counter(4), verdict(NF_DROP, None)]),
            new_rule(1, "unused", 8, &[counter(4), verdict(NF_DROP, None)]),
            vec![1],
        ];
        let found = tell(&chains, &rules);
        let found: Vec<_> =
            found.iter().map(|d| (d.place.as_str(), d.leg, d.ipv6, d.packets)).collect();
        assert_eq!(
            found,
            [
                ("nft inet t in policy", Leg::In, false, None),
                ("nft inet t fwd policy", Leg::Forward, false, Some(9)),
                ("nft inet t sub handle 2", Leg::Forward, false, Some(7)),
                ("nft inet t sub handle 3", Leg::Forward, false, None),
                ("nft inet t sub handle 4", Leg::Forward, false, Some(5)),
                ("nft netdev t eth0 handle 7", Leg::Early, false, Some(4)),
                ("nft ip6 t post handle 6", Leg::Out, true, Some(3)),
            ]
        );
    }
}
