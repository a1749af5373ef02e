//! The rules of the old iptables and ip6tables, counted, through the socket options that their
//! programs use. Only tables that are already there are asked for: asking for another would load
//! it, and so change the path of every packet.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::rule_walk::{Rule, Walk, is_established};
use crate::model::loss::{DropRule, Leg};
use crate::model::order::OneByOne;
use crate::model::path::IptablesTable;

// linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h: the same numbers for both.
const SO_GET_INFO: i32 = 64;
const SO_GET_ENTRIES: i32 = 65;
const IPPROTO_IP: i32 = 0;
const IPPROTO_IPV6: i32 = 41;
/// XT_TABLE_MAXNAMELEN.
const NAME: usize = 32;
/// `struct ipt_getinfo`: name, valid hooks, five hook entries, five underflows, number, size.
const INFO: usize = NAME + 4 + 20 + 20 + 4 + 4;
/// Hooks that a forwarded packet meets: NF_INET_PRE_ROUTING, _FORWARD, _POST_ROUTING.
const FORWARDED: [usize; 3] = [0, 2, 4];
/// A table longer than this is not read (a rule takes some 200 bytes).
const LONGEST: usize = 32 << 20;
/// `struct xt_entry_target`: size, name, revision.
const TARGET: usize = 32;
/// IPT_INV_VIA_OUT.
const INVERTED_OUT: u8 = 2;

/// Head of `struct ipt_get_entries`; the entries follow where 64-bit numbers may stand.
#[repr(C)]
struct Head {
    name: [u8; NAME],
    size: u32,
    entries: [u64; 0],
}

/// Where things lie in a rule (`struct ipt_entry`, `struct ip6t_entry`).
#[derive(Clone, Copy)]
struct Layout {
    level: i32,
    family: AddressFamily,
    /// Bytes of both addresses and their masks, before the names of devices.
    addresses: usize,
    inverted: usize,
    offsets: usize,
}

// ipt_ip is 84 bytes: 16 of addresses, 64 of names and their masks, protocol, flags, inverted
// flags; then nfcache. ip6t_ip6 is 136: 64, 64, protocol, tos, flags, inverted flags, padding.
const V4: Layout = Layout {
    level: IPPROTO_IP,
    family: AddressFamily::INET,
    addresses: 16,
    inverted: 83,
    offsets: 88,
};
const V6: Layout = Layout {
    level: IPPROTO_IPV6,
    family: AddressFamily::INET6,
    addresses: 64,
    inverted: 132,
    offsets: 140,
};

#[expect(unsafe_code, reason = "the C library's call, to which std is linked anyway")]
unsafe extern "C" {
    fn getsockopt(fd: i32, level: i32, name: i32, value: *mut u8, length: *mut u32) -> i32;
}

/// Counts the rules of the tables of that name in the calling thread's network namespace.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN; ENOPROTOOPT where the kernel has no such tables; EFBIG for a table
/// that is too long to read.
pub fn count(ipv6: bool, table: &str) -> io::Result<IptablesTable> {
    let (layout, info, blob) = fetch(ipv6, table)?;
    let mut told = tell(layout, &info, &blob);
    (told.table, told.ipv6) = (table.to_owned(), ipv6);
    // Rules of NAT see the first packet of a connection only.
    told.established_rules = told.established_rules.map(|n| if table == "nat" { 0 } else { n });
    Ok(told)
}

/// All rules of a table as the kernel keeps them, without what they counted: two answers are equal as
/// long as the rules are.
///
/// # Errors
/// As [`count`].
pub fn rules(ipv6: bool, table: &str) -> io::Result<Vec<u8>> {
    let (layout, _, mut blob) = fetch(ipv6, table)?;
    let mut at = 0;
    while let Some((_, next)) = entry(layout, &blob, at) {
        let counters = at + counters_at(layout);
        blob.get_mut(counters..counters + 16).into_iter().flatten().for_each(|byte| *byte = 0);
        at = next;
    }
    Ok(blob)
}

/// The rules and policies of a table that drop, with what they counted.
///
/// # Errors
/// As [`count`].
pub fn drops(ipv6: bool, table: &str) -> io::Result<Vec<DropRule>> {
    let (layout, info, blob) = fetch(ipv6, table)?;
    Ok(tell_drops(layout, ipv6, table, &info, &blob))
}

/// Answers of the kernel for a table: its information, and the blob of its rules.
fn fetch(ipv6: bool, table: &str) -> io::Result<(Layout, Vec<u8>, Vec<u8>)> {
    let layout = if ipv6 { V6 } else { V4 };
    let raw = rustix::net::Protocol::from_raw(ipproto::RAW.as_raw());
    let socket = socket_with(layout.family, SocketType::RAW, SocketFlags::CLOEXEC, Some(raw))?;
    let mut name = [0; NAME];
    if table.len() >= NAME {
        return Err(Errno::INVAL.into());
    }
    for (to, from) in name.iter_mut().zip(table.as_bytes()) {
        *to = *from;
    }
    let mut info = vec![0; INFO];
    info.iter_mut().zip(&name).for_each(|(to, from)| *to = *from);
    read(&socket, layout.level, SO_GET_INFO, &mut info)?;
    let size = u32_at(&info, INFO - 4).map_or(0, |n| n as usize);
    if size > LONGEST {
        return Err(Errno::FBIG.into());
    }
    let head = size_of::<Head>();
    let mut entries = vec![0; head + size];
    entries.iter_mut().zip(&name).for_each(|(to, from)| *to = *from);
    let length = u32::try_from(size).unwrap_or(0).to_ne_bytes();
    let place = entries.get_mut(NAME..NAME + 4).into_iter().flatten();
    place.zip(length).for_each(|(to, from)| *to = from);
    read(&socket, layout.level, SO_GET_ENTRIES, &mut entries)?;
    Ok((layout, info, entries.split_off(head)))
}

fn read(socket: impl AsFd, level: i32, name: i32, value: &mut [u8]) -> io::Result<()> {
    let mut length = u32::try_from(value.len()).map_err(|_| Errno::FBIG)?;
    #[expect(unsafe_code, reason = "getsockopt(2)")]
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes no more than `length`
    // bytes (net/ipv4/netfilter/ip_tables.c compares it with what it has, and refuses).
    let answer = unsafe {
        getsockopt(socket.as_fd().as_raw_fd(), level, name, value.as_mut_ptr(), &raw mut length)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One rule of the blob.
#[derive(Debug)]
struct Entry {
    outgoing: Option<String>,
    target: String,
    /// Verdict of the standard target: a place in the blob to go on at, or below 0 a verdict.
    verdict: Option<i32>,
    /// The first word of another target's data.
    word: u32,
    /// True if it is a verdict to drop, or the target REJECT.
    drops: bool,
    /// Packets that it matched.
    packets: u64,
    /// The name that a user's chain begins with.
    chain: String,
    /// It takes some packets only.
    matches: bool,
    /// It accepts packets of established connections, whatever else they are.
    accepts_established: bool,
}

/// Facts about both kinds of table, if their answers, one after the other, were `bytes`.
pub(super) fn tell_both(bytes: &[u8]) -> [IptablesTable; 2] {
    let (info, blob) = bytes.split_at(bytes.len().min(INFO));
    [(V4, false), (V6, true)].map(|(layout, ipv6)| {
        drop(tell_drops(layout, ipv6, "filter", info, blob));
        tell(layout, info, blob)
    })
}

fn tell(layout: Layout, info: &[u8], blob: &[u8]) -> IptablesTable {
    let valid = u32_at(info, NAME).unwrap_or(0);
    let hooks: BTreeMap<usize, usize> = (0..5)
        .filter(|hook| valid >> hook & 1 == 1)
        .filter_map(|hook| Some((hook, u32_at(info, NAME + 4 + 4 * hook)? as usize)))
        .one_by_one();
    // Chains by the place of their first rule. Each ends with its policy or its return; what
    // begins a user's chain is a rule with the target ERROR that holds the name.
    let mut chains: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
    let mut chain = None;
    let mut at = 0;
    while let Some((entry, next)) = entry(layout, blob, at) {
        if hooks.values().any(|start| *start == at) {
            chain = Some(at);
        }
        if entry.target == "ERROR" {
            chain = Some(next);
        } else if let Some(start) = chain {
            chains.entry(start).or_default().push(entry);
        }
        at = next;
    }
    for rules in chains.values_mut() {
        // The policy or the return.
        drop(rules.pop());
    }
    let starts = hooks.iter().filter(|(hook, _)| FORWARDED.contains(hook));
    let mut todo: Vec<usize> = starts.map(|(_, start)| *start).collect();
    let mut met = BTreeSet::new();
    while let Some(start) = todo.pop() {
        if let (true, Some(rules)) = (met.insert(start), chains.get(&start)) {
            let to = rules.iter().filter_map(|r| usize::try_from(r.verdict?).ok());
            todo.extend(to.filter(|to| chains.contains_key(to)));
        }
    }
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let reached = || chains.iter().filter(|(start, _)| met.contains(start)).flat_map(|(_, r)| r);
    let rewrites = |r: &&Entry| matches!(r.target.as_str(), "MASQUERADE" | "SNAT" | "NETMAP");
    let name = |start: usize| (0, String::new(), format!("{start:x}"));
    let walked = chains.iter().map(|(start, rules)| {
        let rules = rules.iter().map(|rule| Rule {
            jump: rule.verdict.and_then(|to| Some(name(usize::try_from(to).ok()?).2)),
            matches: rule.matches,
            accepts_established: rule.accepts_established,
            ..Rule::default()
        });
        (name(*start), rules.collect())
    });
    let (walked, base) = (walked.one_by_one(), BTreeSet::new());
    let mut walk = Walk::new(&walked, &base);
    let starts = hooks.iter().filter(|(hook, _)| FORWARDED.contains(hook));
    let established = starts.map(|(_, start)| walk.chain(&name(*start), 0).0);
    let established = established.fold(0, u32::saturating_add);
    let offload: Vec<&Entry> = reached().filter(|r| r.target == "FLOWOFFLOAD").collect();
    let devices: BTreeSet<String> =
        reached().filter(rewrites).filter_map(|r| r.outgoing.clone()).one_by_one();
    IptablesTable {
        rules: count(chains.values().map(Vec::len).sum()),
        forward_rules: count(reached().count()),
        established_rules: Some(established),
        nat: reached().any(|r| rewrites(&r)),
        masquerade_devices: devices.into_iter().collect(),
        clamps_mss: Some(reached().any(|r| r.target == "TCPMSS")),
        flow_offload: !offload.is_empty(),
        // XT_FLOWOFFLOAD_HW (OpenWrt's xt_FLOWOFFLOAD.h).
        hardware: offload.iter().any(|r| r.word & 1 == 1),
        ..IptablesTable::default()
    }
}

/// Names of the hooks, and the stretch of a packet's way that each is on.
const HOOKS: [(&str, Leg); 5] = [
    ("PREROUTING", Leg::In),
    ("INPUT", Leg::In),
    ("FORWARD", Leg::Forward),
    ("OUTPUT", Leg::Out),
    ("POSTROUTING", Leg::Out),
];

fn tell_drops(layout: Layout, ipv6: bool, table: &str, info: &[u8], blob: &[u8]) -> Vec<DropRule> {
    let valid = u32_at(info, NAME).unwrap_or(0);
    let hooks = (0..5).zip(HOOKS).filter(|(hook, _)| valid >> hook & 1 == 1);
    let hooks: BTreeMap<usize, (&str, Leg)> = hooks
        .filter_map(|(n, hook)| Some((u32_at(info, NAME + 4 + 4 * n)? as usize, hook)))
        .one_by_one();
    // Chains by the place of their first rule, with their names.
    let mut chains: BTreeMap<usize, (String, Vec<Entry>)> = BTreeMap::new();
    let (mut start, mut at) = (0, 0);
    while let Some((entry, next)) = entry(layout, blob, at) {
        if let Some((name, _)) = hooks.get(&at) {
            start = at;
            chains.insert(start, ((*name).to_owned(), Vec::new()));
        }
        if entry.target == "ERROR" {
            start = next;
            chains.insert(start, (entry.chain, Vec::new()));
        } else if let Some((_, rules)) = chains.get_mut(&start) {
            rules.push(entry);
        }
        at = next;
    }
    let program = if ipv6 { "ip6tables" } else { "iptables" };
    let mut found = Vec::new();
    let mut met = BTreeSet::new();
    for leg in [Leg::In, Leg::Forward, Leg::Out] {
        let mut todo: Vec<usize> =
            hooks.iter().filter(|(_, hook)| hook.1 == leg).map(|(start, _)| *start).collect();
        while let Some(start) = todo.pop() {
            let Some((name, rules)) = chains.get(&start).filter(|_| met.insert(start)) else {
                continue;
            };
            for (number, rule) in rules.iter().enumerate() {
                todo.extend(rule.verdict.and_then(|to| usize::try_from(to).ok()));
                if rule.drops {
                    // A base chain ends with its policy.
                    let is_policy = hooks.contains_key(&start) && number + 1 == rules.len();
                    let number = match is_policy {
                        true => "policy".to_owned(),
                        false => format!("rule {}", number + 1),
                    };
                    let place = format!("{program} {table} {name} {number}");
                    found.push(DropRule { place, leg, ipv6, packets: Some(rule.packets) });
                }
            }
        }
    }
    found
}

/// The matches of a rule.
#[derive(Default)]
struct Matches {
    /// One takes packets of established connections.
    established: bool,
    /// Others leave some packets out.
    more: bool,
}

impl Matches {
    /// Reads the rule up to its target.
    fn of(layout: Layout, rule: &[u8]) -> Self {
        let mut found = Self::default();
        // Addresses, devices, protocol; not the flags, where a goto is told from a jump.
        let plain = rule.get(..=layout.inverted).unwrap_or_default();
        let parts = plain.iter().enumerate().filter(|(at, _)| at + 1 != layout.inverted);
        found.more = parts.into_iter().any(|(_, byte)| *byte != 0);
        let mut at = (layout.offsets + 8).next_multiple_of(align_of::<u64>()) + 16;
        // struct xt_entry_match: as the target's head.
        while let Some(length) = u16_at(rule, at).map(usize::from).filter(|n| *n >= TARGET) {
            let Some(one) = rule.get(at..at + length) else { break };
            let name = text(one.get(2..TARGET - 1).unwrap_or_default());
            let revision = one.get(TARGET - 1).copied().unwrap_or(0);
            let data = one.get(TARGET..).unwrap_or_default();
            match name.as_str() {
                "comment" => {}
                _ if is_established(&name, revision, data) => found.established = true,
                _ => found.more = true,
            }
            at += length;
        }
        found
    }

    fn any(&self) -> bool {
        self.established || self.more
    }
}

/// Text up to a NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// The place of struct xt_counters in a rule: behind `comefrom`, where 64-bit numbers may stand.
fn counters_at(layout: Layout) -> usize {
    (layout.offsets + 8).next_multiple_of(align_of::<u64>())
}

/// The rule at a place, and the place of the next one.
fn entry(layout: Layout, blob: &[u8], at: usize) -> Option<(Entry, usize)> {
    let rest = blob.get(at..)?;
    let target_at = usize::from(u16_at(rest, layout.offsets)?);
    let length = usize::from(u16_at(rest, layout.offsets + 2)?);
    let rest = rest.get(..length).filter(|_| length > 0)?;
    let target = rest.get(target_at..)?;
    let name = text(target.get(2..TARGET - 1)?);
    let word = u32_at(target, TARGET).unwrap_or(0);
    let verdict = i32::from_ne_bytes(word.to_ne_bytes());
    let counters = counters_at(layout);
    let packets = rest.get(counters..counters + 8).and_then(|b| b.try_into().ok());
    let inverted = rest.get(layout.inverted)? & INVERTED_OUT != 0;
    let outgoing = text(rest.get(layout.addresses + 16..layout.addresses + 32)?);
    let matches = Matches::of(layout, rest.get(..target_at)?);
    // -NF_ACCEPT - 1.
    let accepts = name.is_empty() && verdict == -2;
    let entry = Entry {
        matches: matches.any(),
        accepts_established: accepts && matches.established && !matches.more,
        outgoing: Some(outgoing).filter(|name| !name.is_empty() && !inverted),
        // A jump to the very next rule is what a rule without a target is stored as.
        verdict: name.is_empty().then_some(verdict).filter(|to| *to >= 0),
        // -NF_DROP - 1.
        drops: name.is_empty() && verdict == -1 || name == "REJECT",
        packets: packets.map_or(0, u64::from_ne_bytes),
        chain: if name == "ERROR" { text(target.get(TARGET..)?) } else { String::new() },
        target: name,
        word,
    };
    Some((entry, at + length))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    super::netlink::u16_at(bytes, at)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    super::netlink::u32_at(bytes, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::sys::netns::NetnsThread;

    /// A rule as the kernel keeps it, without matches.
    fn rule(layout: Layout, out: &str, target: &str, word: u32) -> Vec<u8> {
        let counters = (layout.offsets + 8).next_multiple_of(8) + 16;
        let length = counters + TARGET + 8;
        let mut bytes = vec![0; length];
        let at = layout.addresses + 16;
        bytes[at..at + out.len()].copy_from_slice(out.as_bytes());
        let offsets = [counters, length].map(|n| u16::try_from(n).unwrap().to_ne_bytes()).concat();
        bytes[layout.offsets..layout.offsets + 4].copy_from_slice(&offsets);
        bytes[counters + 2..counters + 2 + target.len()].copy_from_slice(target.as_bytes());
        bytes[counters + TARGET..counters + TARGET + 4].copy_from_slice(&word.to_ne_bytes());
        bytes
    }

    fn info(hooks: &[(usize, usize)]) -> Vec<u8> {
        let mut info = vec![0; INFO];
        let valid = hooks.iter().fold(0_u32, |all, (hook, _)| all | 1 << hook);
        info[NAME..NAME + 4].copy_from_slice(&valid.to_ne_bytes());
        for (hook, start) in hooks {
            let at = NAME + 4 + 4 * hook;
            info[at..at + 4].copy_from_slice(&u32::try_from(*start).unwrap().to_ne_bytes());
        }
        info
    }

    #[test]
    fn rules_are_those_of_chains_that_a_forwarded_packet_can_come_to() {
        const ACCEPT: u32 = u32::MAX - 1;
        for layout in [V4, V6] {
            let long = rule(layout, "", "", 0).len();
            let place = |n: usize| u32::try_from(n * long).unwrap();
            // INPUT: one rule and the policy. FORWARD: a jump, an offload, the policy. Then a
            // chain that is jumped to, one that is not, and the end.
            let rules = [
                rule(layout, "", "", ACCEPT),
                rule(layout, "", "", ACCEPT),
                rule(layout, "", "", place(6)),
                rule(layout, "", "FLOWOFFLOAD", 1),
                rule(layout, "", "", ACCEPT),
                rule(layout, "", "ERROR", 0),
                rule(layout, "ppp0", "MASQUERADE", 0),
                rule(layout, "", "", u32::MAX - 4),
                rule(layout, "", "ERROR", 0),
                rule(layout, "eth9", "MASQUERADE", 0),
                rule(layout, "", "", u32::MAX - 4),
                rule(layout, "", "ERROR", 0),
            ];
            let info = info(&[(1, 0), (2, 2 * long)]);
            let told = tell(layout, &info, &rules.concat());
            assert_eq!((told.rules, told.forward_rules), (5, 3), "{told:?}");
            assert!(told.nat && told.flow_offload && told.hardware, "{told:?}");
            assert_eq!(told.masquerade_devices, ["ppp0"]);
        }
    }

    /// The rules that iptables put there are the rules that are counted.
    #[test]
    fn the_kernel_tells_the_rules_that_iptables_made() {
        let Ok(netns) = NetnsThread::create() else {
            crate::skip!("no network namespace to be had");
        };
        let run = |line: &'static str| {
            netns.run(move || {
                let mut words = line.split(' ');
                #[expect(clippy::disallowed_methods, reason = "the scene of a test")]
                let mut command = std::process::Command::new(words.next().unwrap());
                command.args(words).output().is_ok_and(|out| out.status.success())
            })
        };
        for line in [
            "iptables-legacy -w -N deep",
            "iptables-legacy -w -A deep -m comment --comment x -j ACCEPT",
            "iptables-legacy -w -A FORWARD -j deep",
            "iptables-legacy -w -A FORWARD -s 198.18.0.0/15",
            "iptables-legacy -w -A INPUT -p tcp --dport 22 -j ACCEPT",
            "iptables-legacy -w -N unused",
            "iptables-legacy -w -A unused -j DROP",
            "iptables-legacy -w -t mangle -A FORWARD -m conntrack --ctstate NEW -j ACCEPT",
            "iptables-legacy -w -t mangle -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            "iptables-legacy -w -t mangle -A FORWARD -s 198.18.0.0/15 -j ACCEPT",
            "iptables-legacy -w -t raw -A PREROUTING -p tcp -m state --state ESTABLISHED -j ACCEPT",
            "iptables-legacy -w -t raw -A PREROUTING -s 198.18.0.0/15",
            "iptables-legacy -w -t nat -A POSTROUTING -o wan7 -j MASQUERADE",
            "ip6tables-legacy -w -A FORWARD -o wan7 -j DROP",
        ] {
            if run(line) != Ok(true) {
                crate::skip!("`{line}` does not work here");
            }
        }
        let told = |ipv6, table: &'static str| netns.run(move || count(ipv6, table)).unwrap();
        let filter = told(false, "filter").unwrap();
        assert_eq!((filter.rules, filter.forward_rules, filter.nat), (5, 3, false), "{filter:?}");
        // The third rule of mangle is behind one that accepts established connections; raw's first
        // accepts some of them only.
        let met = |table| told(false, table).unwrap().established_rules;
        assert_eq!((met("mangle"), met("raw"), met("filter")), (Some(2), Some(2), Some(3)));
        let nat = told(false, "nat").unwrap();
        assert_eq!(nat.established_rules, Some(0));
        assert_eq!((nat.rules, nat.forward_rules, nat.nat), (1, 1, true), "{nat:?}");
        assert_eq!(nat.masquerade_devices, ["wan7"]);
        let v6 = told(true, "filter").unwrap();
        assert_eq!((v6.rules, v6.forward_rules, v6.ipv6), (1, 1, true), "{v6:?}");
        assert!(told(false, "nosuch").is_err());
    }

    proptest! {
        #[test]
        fn any_blob_is_survived(info: Vec<u8>, blob in prop::collection::vec(any::<u8>(), 0..600)) {
            for layout in [V4, V6] {
                let told = tell(layout, &info, &blob);
                prop_assert!(told.forward_rules <= told.rules);
            }
        }
    }
}
