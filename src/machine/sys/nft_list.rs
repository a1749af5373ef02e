//! The nf_tables rule set, counted: rules that forwarded packets may meet, masquerading,
//! flowtables. Other programs' rules are read here, so everything is taken as it may come.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, attributes, text};
use super::rule_walk::{Chain, Rule, Walk, is_established};
use crate::model::path::{Flowtable, Nftables};

// linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
const NFT_MSG_GETCHAIN: u16 = 10 << 8 | 4;
const NFT_MSG_GETRULE: u16 = 10 << 8 | 7;
const NFT_MSG_GETFLOWTABLE: u16 = 10 << 8 | 23;
const NFGENMSG: usize = 4;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_TYPE: u16 = 7;
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
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;
const NF_ACCEPT: u32 = 1;
const CT_KEY: u16 = 2;
const CT_STATE: u32 = 0;
const BITWISE_MASK: u16 = 4;
// linux/netfilter/nf_tables_compat.h
const MATCH_NAME: u16 = 1;
const MATCH_REV: u16 = 2;
const MATCH_INFO: u16 = 3;
/// NF_CT_STATE_BIT(IP_CT_ESTABLISHED): the only byte that is not 0 has it, in either order of bytes.
const ESTABLISHED: u8 = 2;
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
const IPV6: u8 = 10;
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

pub(super) fn tell(chains: &[Vec<u8>], rules: &[Vec<u8>], flowtables: &[Vec<u8>]) -> Nftables {
    let mut all: BTreeMap<Chain, Vec<Rule>> = BTreeMap::new();
    let mut todo: Vec<Chain> = Vec::new();
    let mut base: BTreeSet<Chain> = BTreeSet::new();
    let mut filters: Vec<Chain> = Vec::new();
    for body in chains {
        let Some((chain, hook)) = chain(body) else { continue };
        if let Some(hook) = hook {
            let local = chain.0 != NETDEV && LOCAL_HOOKS.contains(&hook);
            if FAMILIES.contains(&chain.0) && !local {
                todo.push(chain.clone());
                // Rules of NAT see the first packet of a connection only, and an IPv4 packet no rules
                // of `ip6`.
                let kind = body.get(NFGENMSG..).and_then(|attrs| attribute(attrs, CHAIN_TYPE));
                if kind.map(text).as_deref() != Some("nat") && chain.0 != IPV6 {
                    filters.push(chain.clone());
                }
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
    let mut walk = Walk::new(&all, &base);
    let established =
        filters.iter().fold(0_u32, |sum, chain| sum.saturating_add(walk.chain(chain, 0).0));
    Nftables {
        established_rules: Some(established),
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
    let mut state = State::default();
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
                let code = verdict.and_then(|v| attribute(v, VERDICT_CODE)).and_then(be32);
                state.accepts |= code == Some(NF_ACCEPT);
            }
            _ => {}
        }
        rule.matches |= !matches!(kind.as_str(), "counter" | "immediate" | "log");
        state.see(&kind, data);
        outgoing_loaded =
            kind == "meta" && attribute(data, META_KEY).and_then(be32) == Some(META_OIFNAME);
    }
    // A map over the state (`ct state vmap { established : accept, ... }`) gives its verdict itself.
    rule.accepts_established = state.is_established() && (state.accepts || rule.by_map);
    Some(((*body.first()?, name(RULE_TABLE)?, name(RULE_CHAIN)?), rule))
}

/// A rule's look at the state of the packet's connection.
#[derive(Default)]
struct State {
    loaded: bool,
    /// It looks at something else too.
    more: bool,
    /// It leaves established connections out.
    other: bool,
    accepts: bool,
}

impl State {
    fn see(&mut self, kind: &str, data: &[u8]) {
        let value = |attr: u16| attribute(data, attr).and_then(|d| attribute(d, DATA_VALUE));
        match kind {
            // iptables-nft keeps the old matches, by name.
            "match" if attribute(data, MATCH_NAME).map(text).as_deref() == Some("comment") => {}
            "match" => {
                let name = attribute(data, MATCH_NAME).map(text).unwrap_or_default();
                let revision = attribute(data, MATCH_REV).and_then(be32).unwrap_or(0);
                let info = attribute(data, MATCH_INFO).unwrap_or_default();
                match is_established(&name, u8::try_from(revision).unwrap_or(0), info) {
                    true => self.loaded = true,
                    false => self.more = true,
                }
            }
            "ct" if attribute(data, CT_KEY).and_then(be32) == Some(CT_STATE) => self.loaded = true,
            "bitwise" => {
                self.other |=
                    value(BITWISE_MASK).is_some_and(|m| m.iter().all(|b| b & ESTABLISHED == 0));
            }
            // `!= 0` after a mask, or the state itself.
            "cmp" => {
                let set = |v: &[u8]| v.iter().any(|byte| *byte != 0);
                let one = value(CMP_DATA).filter(|v| set(v));
                self.other |= one.is_some_and(|v| v.iter().all(|b| b & ESTABLISHED == 0));
            }
            "lookup" | "counter" | "immediate" | "log" => {}
            _ => self.more = true,
        }
    }

    fn is_established(&self) -> bool {
        self.loaded && !self.more && !self.other
    }
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

    fn accepts(kind: &str, mask: u8) -> Vec<u8> {
        let accept = Attrs::new().be32(VERDICT_CODE, NF_ACCEPT);
        let value = |byte: u8| Attrs::new().bytes(DATA_VALUE, &[byte, 0, 0, 0]);
        new_rule(
            kind,
            &[
                ("ct", Attrs::new().be32(CT_KEY, CT_STATE)),
                ("bitwise", Attrs::new().nest(BITWISE_MASK, &value(mask))),
                ("cmp", Attrs::new().nest(CMP_DATA, &value(0))),
                ("counter", Attrs::new()),
                ("immediate", Attrs::new().nest(IMMEDIATE_DATA, &Attrs::new().nest(2, &accept))),
            ],
        )
    }

    #[test]
    fn a_packet_of_an_established_connection_meets_the_rules_before_it_is_accepted() {
        let chains = [new_chain("forward", Some(2)), new_chain("zone", None)];
        let plain = |chain: &str| new_rule(chain, &[("payload", Attrs::new())]);
        let met = |rules: &[Vec<u8>]| tell(&chains, rules, &[]).established_rules;
        let many = || (0..900).map(|_| plain("forward"));
        // ESTABLISHED and RELATED on top; NEW (8) only; at the end.
        let first: Vec<Vec<u8>> = [accepts("forward", 6)].into_iter().chain(many()).collect();
        assert_eq!(met(&first), Some(1));
        let new: Vec<Vec<u8>> = [accepts("forward", 8)].into_iter().chain(many()).collect();
        assert_eq!(met(&new), Some(901));
        let last: Vec<Vec<u8>> = many().chain([accepts("forward", 2)]).collect();
        assert_eq!(met(&last), Some(901));
        // `ct state vmap { established : accept, ... }`, as fw4 has it.
        let state = ("ct", Attrs::new().be32(CT_KEY, CT_STATE));
        let map = ("lookup", Attrs::new().be32(LOOKUP_DREG, 0));
        let vmap: Vec<Vec<u8>> =
            [new_rule("forward", &[state, map])].into_iter().chain(many()).collect();
        assert_eq!(met(&vmap), Some(1));
        // As iptables-nft writes `-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`; and with
        // `--ctdir ORIGINAL` too, which half of the packets do not have.
        let old = |flags: u16| {
            let mut info = [0; 164];
            info[146..148].copy_from_slice(&flags.to_ne_bytes());
            info[150..152].copy_from_slice(&6_u16.to_ne_bytes());
            let data = Attrs::new().text(MATCH_NAME, "conntrack").be32(MATCH_REV, 3);
            let accept = Attrs::new().be32(VERDICT_CODE, NF_ACCEPT);
            let accept = Attrs::new().nest(IMMEDIATE_DATA, &Attrs::new().nest(2, &accept));
            let matched = ("match", data.bytes(MATCH_INFO, &info));
            new_rule("forward", &[matched, ("counter", Attrs::new()), ("immediate", accept)])
        };
        let compat = |flags| met(&[old(flags)].into_iter().chain(many()).collect::<Vec<_>>());
        assert_eq!((compat(1), compat(1 | 1 << 12)), (Some(1), Some(901)));
        // Behind a jump that every packet takes it ends there, behind another one it may.
        let behind = [new_rule("forward", &[jump("zone")]), accepts("zone", 2), plain("forward")];
        assert_eq!(met(&behind), Some(2));
        let some = ("meta", Attrs::new());
        let maybe: Vec<Vec<u8>> = [new_rule("forward", &[some, jump("zone")]), accepts("zone", 2)]
            .into_iter()
            .chain(many())
            .collect();
        assert_eq!(met(&maybe), Some(901));
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
