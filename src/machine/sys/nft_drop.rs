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
const NFT_MSG_GETSET: u16 = 10 << 8 | 10;
const NFT_MSG_GETSETELEM: u16 = 10 << 8 | 13;
const NFT_MSG_GETOBJ: u16 = 10 << 8 | 19;
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
const LOOKUP_SET: u16 = 1;
const LOOKUP_DREG: u16 = 3;
/// Table and name of a set, of its elements, and of an object alike.
const TABLE: u16 = 1;
const NAME: u16 = 2;
const SET_DATA_TYPE: u16 = 6;
/// NFT_DATA_VERDICT
const DATA_TYPE_VERDICT: u32 = 0xffff_ff00;
const ELEMENTS: u16 = 3;
const ELEMENT_DATA: u16 = 2;
const ELEMENT_EXPR: u16 = 7;
/// Kernel 5.11 and later, where an element has several expressions.
const ELEMENT_EXPRESSIONS: u16 = 11;
const OBJECT_TYPE: u16 = 3;
const OBJECT_DATA: u16 = 4;
const OBJECT_COUNTER: u32 = 1;
const OBJREF_TYPE: u16 = 1;
const OBJREF_NAME: u16 = 2;
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
    let mut dump = |kind, family, attrs: &Attrs| {
        socket.dump(Message::new(kind, NlmF::empty(), &[family, 0, 0, 0], attrs))
    };
    let mut all = |kind| dump(kind, 0, &Attrs::new());
    let (chains, rules) = (all(NFT_MSG_GETCHAIN)?, all(NFT_MSG_GETRULE)?);
    // Named counters came later than rules (kernel 4.10).
    let objects = all(NFT_MSG_GETOBJ).unwrap_or_default();
    let mut elements = Vec::new();
    for body in all(NFT_MSG_GETSET).unwrap_or_default() {
        let Some(((family, table, set), attrs)) = chain(&body, TABLE, NAME) else { continue };
        if attribute(attrs, SET_DATA_TYPE).and_then(be32) == Some(DATA_TYPE_VERDICT) {
            let of = Attrs::new().text(TABLE, &table).text(NAME, &set);
            elements.extend(dump(NFT_MSG_GETSETELEM, family, &of).unwrap_or_default());
        }
    }
    Ok(tell(&chains, &rules, &objects, &elements))
}

/// Family, table, and the name of a chain, a map or a counter.
type Chain = (u8, String, String);

/// Meaning of a rule.
#[derive(Default)]
struct Rule {
    jump: Option<String>,
    /// The map that gives its verdict.
    map: Option<String>,
    /// The named counter that it counts by.
    counter: Option<String>,
    /// True if it goes on to match behind its counter.
    narrows: bool,
    /// True if it drops or rejects.
    drops: bool,
    /// Packets that came to its own counter.
    packets: Option<u64>,
    handle: u64,
}

/// Verdicts of a map.
#[derive(Default)]
struct Verdicts {
    jumps: Vec<String>,
    /// True if an element drops.
    drops: bool,
    /// Packets that such elements dropped; `None` if one of them does not count.
    packets: Option<u64>,
}

/// A named counter, and whether all that it counts is dropped.
struct Named {
    packets: Option<u64>,
    users: u32,
    drops_all: bool,
}

/// The rules and policies that drop, if the kernel answered these chains, rules, objects, and elements
/// of maps.
pub(super) fn tell(
    chains: &[Vec<u8>],
    rules: &[Vec<u8>],
    objects: &[Vec<u8>],
    elements: &[Vec<u8>],
) -> Vec<DropRule> {
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
    let maps = verdicts(elements);
    let mut named: BTreeMap<Chain, Named> = BTreeMap::new();
    for body in objects {
        let Some((name, attrs)) = chain(body, TABLE, NAME) else { continue };
        if attribute(attrs, OBJECT_TYPE).and_then(be32) == Some(OBJECT_COUNTER) {
            let packets = attribute(attrs, OBJECT_DATA).and_then(packets);
            named.insert(name, Named { packets, users: 0, drops_all: true });
        }
    }
    for (at, rules) in &all {
        for rule in rules {
            let Some(counter) = rule.counter.as_ref().and_then(|name| named.get_mut(&of(at, name)))
            else {
                continue;
            };
            counter.users += 1;
            counter.drops_all &= rule.drops && !rule.narrows;
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
                todo.extend(rule.jump.iter().map(|to| of(&at, to)));
                let Some(map) = &rule.map else { continue };
                if let Some(verdicts) = maps.get(&of(&at, map)) {
                    todo.extend(verdicts.jumps.iter().map(|to| of(&at, to)));
                } else if whole.insert((at.0, at.1.clone())) {
                    // Whoever jumps by a map that can't be read may come anywhere in its table.
                    let same = |c: &&Chain| c.0 == at.0 && c.1 == at.1 && !hooked.contains_key(*c);
                    todo.extend(all.keys().filter(same).cloned());
                }
            }
        }
    }
    let mut told: BTreeSet<Chain> = BTreeSet::new();
    for (chain, leg) in legs {
        for rule in all.get(chain).into_iter().flatten() {
            let handle = format!("handle {}", rule.handle);
            if let Some((map, verdicts)) = rule.map.as_ref().and_then(|map| {
                let map = of(chain, map);
                maps.get(&map).map(|verdicts| (map, verdicts))
            }) && verdicts.drops
                && told.insert(map.clone())
            {
                let name = format!("{handle}, map {}", map.2);
                found.push(drop_rule(chain, &name, leg, verdicts.packets));
            }
            if !rule.drops {
                continue;
            }
            let counter = rule.counter.as_ref().map(|name| of(chain, name));
            let counted = counter.as_ref().and_then(|at| named.get(at)).filter(|n| n.drops_all);
            match (counted, counter) {
                // Several rules count by it, and all of them drop: one line for all.
                (Some(one), Some(counter)) if one.users > 1 => {
                    if told.insert(counter.clone()) {
                        let name = format!("counter {}", counter.2);
                        found.push(drop_rule(
                            &(chain.0, chain.1.clone(), name),
                            "",
                            leg,
                            one.packets,
                        ));
                    }
                }
                (Some(one), _) => found.push(drop_rule(chain, &handle, leg, one.packets)),
                // A match behind the counter lets fewer packets through than were counted.
                _ => {
                    let packets = rule.packets.filter(|_| !rule.narrows);
                    found.push(drop_rule(chain, &handle, leg, packets));
                }
            }
        }
    }
    found
}

fn drop_rule(chain: &Chain, name: &str, leg: Leg, packets: Option<u64>) -> DropRule {
    let (number, table, chain) = chain;
    let family = FAMILIES.iter().find(|(n, _)| n == number).map_or("?", |(_, name)| name);
    let place = format!("nft {family} {table} {chain} {name}").trim_end().to_owned();
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

/// A chain, map or counter of that name in the table of another.
fn of(other: &Chain, name: &str) -> Chain {
    (other.0, other.1.clone(), name.to_owned())
}

/// Verdicts of maps by their elements.
fn verdicts(elements: &[Vec<u8>]) -> BTreeMap<Chain, Verdicts> {
    let mut maps: BTreeMap<Chain, Verdicts> = BTreeMap::new();
    for body in elements {
        let Some((map, attrs)) = chain(body, TABLE, NAME) else { continue };
        let map = maps.entry(map).or_default();
        for (_, element) in attributes(attribute(attrs, ELEMENTS).unwrap_or_default()) {
            let verdict = attribute(element, ELEMENT_DATA).and_then(|d| attribute(d, DATA_VERDICT));
            map.jumps.extend(verdict.and_then(|v| attribute(v, VERDICT_CHAIN)).map(text));
            if verdict.and_then(|v| attribute(v, VERDICT_CODE)).and_then(be32) != Some(NF_DROP) {
                continue;
            }
            let several = attribute(element, ELEMENT_EXPRESSIONS).unwrap_or_default();
            let all = attributes(several).map(|(_, expression)| expression);
            let count = attribute(element, ELEMENT_EXPR).into_iter().chain(all).find_map(|e| {
                let is_counter = attribute(e, EXPR_NAME).map(text).as_deref() == Some("counter");
                attribute(e, EXPR_DATA).filter(|_| is_counter).and_then(packets)
            });
            let sum = if map.drops { map.packets } else { Some(0) };
            map.packets = sum.zip(count).map(|(sum, count)| sum.saturating_add(count));
            map.drops = true;
        }
    }
    maps
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
            "counter" => (rule.packets, rule.narrows) = (packets(data), false),
            "objref" if attribute(data, OBJREF_TYPE).and_then(be32) == Some(OBJECT_COUNTER) => {
                rule.counter = attribute(data, OBJREF_NAME).map(text);
                rule.narrows = false;
            }
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
                rule.narrows = true;
                if other == "lookup" && attribute(data, LOOKUP_DREG).and_then(be32) == Some(0) {
                    rule.map = attribute(data, LOOKUP_SET).map(text);
                }
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
        let found = tell(&chains, &rules, &[], &[]);
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

    fn object(name: &str, packets: u64) -> Vec<u8> {
        let attrs = Attrs::new().text(TABLE, "t").text(NAME, name).be32(OBJECT_TYPE, 1);
        body(1, &attrs.nest(OBJECT_DATA, &counted(packets)))
    }

    fn element(code: u32, chain: Option<&str>, counts: Option<(u16, u64)>) -> Attrs {
        let mut verdict = Attrs::new().be32(VERDICT_CODE, code);
        if let Some(chain) = chain {
            verdict = verdict.text(VERDICT_CHAIN, chain);
        }
        let data = Attrs::new().nest(DATA_VERDICT, &verdict);
        let one = Attrs::new().nest(ELEMENT_DATA, &data);
        let Some((place, n)) = counts else { return one };
        let counter = Attrs::new().text(EXPR_NAME, "counter").nest(EXPR_DATA, &counted(n));
        match place {
            ELEMENT_EXPR => one.nest(place, &counter),
            _ => one.nest(place, &Attrs::new().nest(1, &counter)),
        }
    }

    fn map(name: &str, elements: &[Attrs]) -> Vec<u8> {
        let list = elements.iter().fold(Attrs::new(), |list, one| list.nest(1, one));
        body(1, &Attrs::new().text(TABLE, "t").text(NAME, name).nest(ELEMENTS, &list))
    }

    /// `counter name "x" drop`: exact where all that x counts is dropped.
    #[test]
    fn a_named_counter_counts_for_the_rules_that_use_it_where_all_of_them_drop() {
        let chains = [new_chain(1, "fwd", Some(2), None)];
        let by = |name: &str| {
            let reference = Attrs::new().be32(OBJREF_TYPE, 1).text(OBJREF_NAME, name);
            ("objref", reference)
        };
        let drop = || verdict(NF_DROP, None);
        let rules = [
            new_rule(1, "fwd", 1, &[("cmp", Attrs::new()), by("one"), drop()]),
            new_rule(1, "fwd", 2, &[by("both"), drop()]),
            new_rule(1, "fwd", 3, &[by("both"), ("reject", Attrs::new())]),
            new_rule(1, "fwd", 4, &[by("mixed"), drop()]),
            new_rule(1, "fwd", 5, &[by("mixed"), verdict(1, None)]),
            new_rule(1, "fwd", 6, &[by("early"), ("cmp", Attrs::new()), drop()]),
            new_rule(1, "fwd", 7, &[by("gone"), drop()]),
        ];
        let objects =
            [object("one", 4), object("both", 9), object("mixed", 50), object("early", 60)];
        let found = tell(&chains, &rules, &objects, &[]);
        let found: Vec<_> = found.iter().map(|d| (d.place.as_str(), d.packets)).collect();
        assert_eq!(
            found,
            [
                ("nft inet t fwd handle 1", Some(4)),
                ("nft inet t counter both", Some(9)),
                ("nft inet t fwd handle 4", None),
                ("nft inet t fwd handle 6", None),
                ("nft inet t fwd handle 7", None),
            ]
        );
    }

    /// `udp dport vmap { 7 counter : drop, 8 : jump sub }`
    #[test]
    fn a_map_that_drops_is_told_with_what_its_elements_counted_and_leads_where_they_jump() {
        let chains = [
            new_chain(1, "fwd", Some(2), None),
            new_chain(1, "sub", None, None),
            new_chain(1, "other", None, None),
        ];
        let by = |name: &str| ("lookup", Attrs::new().text(LOOKUP_SET, name).be32(LOOKUP_DREG, 0));
        let counter = |n| ("counter", counted(n));
        let rules = [
            new_rule(1, "fwd", 1, &[by("__map0")]),
            new_rule(1, "fwd", 2, &[by("half")]),
            new_rule(1, "fwd", 3, &[by("accepts")]),
            new_rule(1, "fwd", 4, &[by("__map0")]),
            new_rule(1, "sub", 5, &[counter(3), verdict(NF_DROP, None)]),
            new_rule(1, "other", 6, &[counter(3), verdict(NF_DROP, None)]),
        ];
        let elements = [
            map(
                "__map0",
                &[
                    element(NF_DROP, None, Some((ELEMENT_EXPR, 7))),
                    element(JUMP, Some("sub"), None),
                ],
            ),
            map("__map0", &[element(NF_DROP, None, Some((ELEMENT_EXPRESSIONS, 5)))]),
            map(
                "half",
                &[element(NF_DROP, None, None), element(NF_DROP, None, Some((ELEMENT_EXPR, 2)))],
            ),
            map("accepts", &[element(1, None, Some((ELEMENT_EXPR, 2)))]),
            vec![1],
        ];
        let told = |elements: &[Vec<u8>]| -> Vec<(String, Option<u64>)> {
            let found = tell(&chains, &rules, &[], elements);
            found.into_iter().map(|d| (d.place, d.packets)).collect()
        };
        let expected = [
            ("nft inet t fwd handle 1, map __map0".to_owned(), Some(12)),
            ("nft inet t fwd handle 2, map half".to_owned(), None),
            ("nft inet t sub handle 5".to_owned(), Some(3)),
        ];
        assert_eq!(told(&elements), expected);
        // Of maps that can't be read it is only known that they may lead anywhere.
        let blind = ["nft inet t other handle 6", "nft inet t sub handle 5"];
        assert_eq!(told(&[]), blind.map(|place| (place.to_owned(), Some(3))));
    }
}
