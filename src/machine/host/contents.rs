//! State that forwarding depends on and that no file holds: devices, what their cards are set to, the rules of
//! the old iptables. Two readings tell what changed between them, of whatever nobody announces.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::{Change, evidence};
use crate::machine::sys::monitor::Link;
use crate::machine::sys::nic;
use crate::model::nic::NicSettings;

const LOOPBACK: &str = "lo";

/// State of a network namespace at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    links: BTreeMap<u32, Link>,
    cards: BTreeMap<String, NicSettings>,
    /// By program and table, as the kernel keeps them.
    rules: BTreeMap<String, Vec<u8>>,
}

impl Contents {
    /// Reads what there is in the calling thread's namespace.
    pub(super) fn read() -> io::Result<Self> {
        let links = Link::all()?;
        let names = links.values().map(Link::name).filter(|name| *name != LOOPBACK);
        let card = |name: &str| Some((name.to_owned(), nic::settings(name).ok()?));
        let cards = names.filter_map(card).collect();
        Ok(Self { links, cards, rules: evidence::old_rules().unwrap_or_default() })
    }

    /// Changes since `before`; what is not there at both ends is left out, but for
    /// tables of rules.
    #[must_use]
    pub fn changed_since(&self, before: &Self) -> Vec<Change> {
        let links = self.links.iter().filter_map(|(index, now)| {
            now.change_since(before.links.get(index).filter(|then| then.name() == now.name())?)
        });
        let cards = self.cards.iter().flat_map(|(device, now)| {
            let then = before.cards.get(device);
            let parts = then.map(|then| {
                [
                    (now.rings != then.rings, "ring sizes"),
                    (now.channels != then.channels, "channels"),
                    (now.rss != then.rss, "RSS tables or keys"),
                ]
            });
            let changed = parts.into_iter().flatten().filter(|(changed, _)| *changed);
            changed.map(|(_, what)| Change::Card(device.clone(), what))
        });
        let tables: BTreeSet<&String> = self.rules.keys().chain(before.rules.keys()).collect();
        let tables = tables.into_iter();
        let tables = tables.filter(|table| self.rules.get(*table) != before.rules.get(*table));
        let rules = tables.map(|table| Change::OldRules(table.clone()));
        links.chain(cards).chain(rules).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::nic::Rss;

    #[test]
    fn cards_and_old_rules_are_compared_by_what_they_are_set_to() {
        let numbers = |n: u32| Some(BTreeMap::from([("rx".to_owned(), n.into())]));
        let card = |rings, channels, table: &[u32]| NicSettings {
            rings: numbers(rings),
            channels: numbers(channels),
            rss: Some(Rss { table: table.to_vec(), ..Rss::default() }),
            ..NicSettings::default()
        };
        let of = |card: NicSettings, rules: &[u8]| Contents {
            cards: BTreeMap::from([("eth0".to_owned(), card)]),
            rules: BTreeMap::from([("iptables filter".to_owned(), rules.to_vec())]),
            links: BTreeMap::new(),
        };
        let before = of(card(256, 4, &[0, 1]), b"accept");
        assert_eq!(before.changed_since(&before), []);
        let of_card = |what| Change::Card("eth0".into(), what);
        let told = |now: Contents| now.changed_since(&before);
        assert_eq!(told(of(card(512, 4, &[0, 1]), b"accept")), [of_card("ring sizes")]);
        assert_eq!(told(of(card(256, 2, &[0, 1]), b"accept")), [of_card("channels")]);
        assert_eq!(told(of(card(256, 4, &[0, 0]), b"accept")), [of_card("RSS tables or keys")]);
        let rules = Change::OldRules("iptables filter".into());
        assert_eq!(told(of(card(256, 4, &[0, 1]), b"drop")), std::slice::from_ref(&rules));
        assert!(told(Contents::default()).contains(&rules), "a table that went");
    }
}
