//! Rules that a packet of an established connection meets at most: a walk over chains, for nf_tables
//! and for the old iptables alike.

use std::collections::{BTreeMap, BTreeSet};

/// The kernel lets jumps nest 16 deep (NFT_JUMP_STACK_SIZE).
const DEEPEST: usize = 16;

/// Family, table, chain.
pub(super) type Chain = (u8, String, String);

/// A rule, as far as it says where a packet goes.
#[derive(Default)]
pub(super) struct Rule {
    /// Device that it wants the packet to leave by.
    pub(super) outgoing: Option<String>,
    pub(super) jump: Option<String>,
    pub(super) by_map: bool,
    pub(super) source_nat: bool,
    pub(super) clamps: bool,
    /// It takes some packets only.
    pub(super) matches: bool,
    /// It accepts packets of established connections, whatever else they are.
    pub(super) accepts_established: bool,
}

/// Rules that a packet of an established connection meets at most.
pub(super) struct Walk<'a> {
    all: &'a BTreeMap<Chain, Vec<Rule>>,
    base: &'a BTreeSet<Chain>,
    /// Rules from the top of a chain, and whether it is accepted there; 0 while it is being counted.
    known: BTreeMap<Chain, (u32, bool)>,
    /// The most that a map of a table may lead to.
    maps: BTreeMap<(u8, String), u32>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(all: &'a BTreeMap<Chain, Vec<Rule>>, base: &'a BTreeSet<Chain>) -> Self {
        Self { all, base, known: BTreeMap::new(), maps: BTreeMap::new() }
    }
}

impl Walk<'_> {
    pub(super) fn chain(&mut self, chain: &Chain, depth: usize) -> (u32, bool) {
        if let Some(known) = self.known.get(chain) {
            return *known;
        }
        self.known.insert(chain.clone(), (0, false));
        let mut told = (0_u32, false);
        // What is met on a way that ends early, against what follows.
        let mut early = 0_u32;
        let all = self.all;
        for rule in all.get(chain).into_iter().flatten().filter(|_| depth <= DEEPEST) {
            told.0 = told.0.saturating_add(1);
            if rule.accepts_established {
                told.1 = true;
                break;
            }
            let inner = match &rule.jump {
                Some(name) => self.chain(&(chain.0, chain.1.clone(), name.clone()), depth + 1),
                None if rule.by_map => (self.map(chain, depth), false),
                None => continue,
            };
            match (inner.1, rule.matches) {
                (true, true) => early = early.max(told.0.saturating_add(inner.0)),
                (accepted, _) => {
                    told = (told.0.saturating_add(inner.0), accepted);
                    if accepted {
                        break;
                    }
                }
            }
        }
        told.0 = told.0.max(early);
        self.known.insert(chain.clone(), told);
        told
    }

    /// A map leads to one chain of its table, and which is not known here.
    fn map(&mut self, chain: &Chain, depth: usize) -> u32 {
        let table = (chain.0, chain.1.clone());
        if let Some(known) = self.maps.get(&table) {
            return *known;
        }
        self.maps.insert(table.clone(), 0);
        let all = self.all;
        let mut most = 0;
        for other in all.keys().filter(|c| c.0 == table.0 && c.1 == table.1) {
            if !self.base.contains(other) {
                most = most.max(self.chain(other, depth + 1).0);
            }
        }
        self.maps.insert(table, most);
        most
    }
}

/// Bits of the state of a connection, XT_CONNTRACK_STATE_BIT(IP_CT_ESTABLISHED).
const ESTABLISHED: u16 = 2;
/// XT_CONNTRACK_STATE: what a match of revisions 1 to 3 looks at.
const BY_STATE: u16 = 1;

/// True if a match of iptables (`conntrack`, `state`) takes packets of established connections and looks
/// at nothing else; `data` is its part behind the head (linux/netfilter/xt_conntrack.h, xt_state.h).
pub(super) fn is_established(name: &str, revision: u8, data: &[u8]) -> bool {
    let word = |at: usize| {
        let two = data.get(at..at + 2).and_then(|b| b.first_chunk());
        two.map_or(0, |b| u16::from_ne_bytes(*b))
    };
    // Eight addresses of 16 bytes, two times, a protocol and four ports come first.
    let (flags, inverted) = (word(146), word(148));
    let mask = match (name, revision) {
        ("state", _) => {
            let mask = data.first_chunk().map_or(0, |b| u32::from_ne_bytes(*b));
            return mask & u32::from(ESTABLISHED) != 0;
        }
        ("conntrack", 1) => data.get(150).copied().map_or(0, u16::from),
        ("conntrack", 2 | 3) => word(150),
        _ => 0,
    };
    flags == BY_STATE && inverted & BY_STATE == 0 && mask & ESTABLISHED != 0
}
