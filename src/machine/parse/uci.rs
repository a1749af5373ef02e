//! OpenWrt's configuration files (`/etc/config/*`): sections with options and lists.
//!
//! ```text
//! config zone                    # a type, and for some a name
//!         option name 'wan'
//!         list network 'wan'
//!         list network 'wan6'
//! ```

/// A section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// Type of the section.
    pub kind: String,
    /// Name of the section; empty for an anonymous one.
    pub name: String,
    values: Vec<(String, String)>,
}

impl Section {
    /// The value of an option; the last one wins.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.values.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The values of a list; an option with blanks counts as one too, as OpenWrt takes it.
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of = self.values.iter().filter(move |(key, _)| key == name);
        of.flat_map(|(_, value)| value.split_whitespace())
    }
}

/// The value of an option that was set or taken away with `uci` and not committed: lines of
/// `/tmp/.uci/<package>`, `package.section.option='value'` and `-package.section.option`. The outer
/// `None` says that nothing is staged for it, the inner that it was taken away. Sections without a
/// name have one here that only libuci makes up (`cfg01e63d`), so any section will do: an option
/// asked for is one that only one kind of section has.
#[must_use]
pub fn staged(bytes: &[u8], option: &str) -> Option<Option<String>> {
    statements(bytes).iter().map(|words| words.concat()).rev().find_map(|line| {
        let (place, value) = match line.split_once('=') {
            Some((place, value)) => (place, Some(value.to_owned())),
            None => (line.strip_prefix('-')?, None),
        };
        let mut parts = place.trim().splitn(3, '.');
        (parts.nth(2) == Some(option)).then_some(value)
    })
}

/// The sections in order. Lines that are none of `config`, `option`, `list` are left out.
#[must_use]
pub fn sections(bytes: &[u8]) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    for words in statements(bytes) {
        let mut words = words.iter().map(String::as_str);
        match (words.next().and_then(keyword), words.next(), words.next()) {
            (Some("config"), Some(kind), name) => found.push(Section {
                kind: kind.to_owned(),
                name: name.unwrap_or_default().to_owned(),
                values: Vec::new(),
            }),
            (Some("option" | "list"), Some(key), Some(value)) => {
                if let Some(section) = found.last_mut() {
                    section.values.push((key.to_owned(), value.to_owned()));
                }
            }
            _ => {}
        }
    }
    found
}

/// The keyword that a statement begins with, written out: libuci also takes its first letter
/// (file.c, `uci_parse_line`).
#[must_use]
pub fn keyword(word: &str) -> Option<&'static str> {
    let known = ["package", "config", "option", "list"];
    known.into_iter().find(|k| *k == word || (word.len() == 1 && k.starts_with(word)))
}

/// Statements as words, as libuci splits them (file.c, `parse_str`): one a line or ended by `;`, quotes
/// hold blanks and ends of lines, a backslash takes the next character as it is, `#` starts a comment.
/// A quote that nothing ends takes its statement with it.
#[must_use]
pub fn statements(bytes: &[u8]) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(bytes);
    let mut statements = Vec::new();
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\\', None | Some('"')) => match chars.next() {
                // The line goes on.
                Some('\n') | None => {}
                Some(c) => word.get_or_insert_default().push(c),
            },
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => {
                if chars.by_ref().any(|c| c == '\n') {
                    statements.push(std::mem::take(&mut words));
                }
            }
            ('\n' | ';', None) => {
                words.extend(word.take());
                statements.push(std::mem::take(&mut words));
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_none() {
        words.extend(word);
        statements.push(words);
    }
    statements.retain(|words| !words.is_empty());
    statements
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sections_options_and_lists() {
        let text = b"\nconfig zone\n\toption name\t\t'wan'\n\tlist network 'wan'\n\tlist   network\t\"wan6\"\n\toption masq '1' # out\r\nconfig interface 'lan'\n\toption device 'br-lan'\n\toption ifname 'eth0 eth1'\noption\nwhat is this\n";
        let found = sections(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].kind, "zone");
        assert_eq!(found[0].option("masq"), Some("1"));
        assert_eq!(found[0].list("network").collect::<Vec<_>>(), ["wan", "wan6"]);
        assert_eq!(found[1].name, "lan");
        assert_eq!(found[1].list("ifname").collect::<Vec<_>>(), ["eth0", "eth1"]);
        assert_eq!(found[1].option("masq"), None);
    }

    #[test]
    fn what_was_set_last_and_not_committed_is_what_counts() {
        let text =
            b"firewall.cfg01e63d.flow_offloading='0'\nfirewall.cfg01e63d.flow_offloading='1'\n\
            -firewall.cfg01e63d.flow_offloading_hw\nfirewall.lan='zone'\n";
        assert_eq!(staged(text, "flow_offloading"), Some(Some("1".into())));
        assert_eq!(staged(text, "flow_offloading_hw"), Some(None));
        assert_eq!(staged(text, "lan"), None);
        assert_eq!(staged(b"", "flow_offloading"), None);
    }

    #[test]
    fn quotes_and_statements_are_those_of_libuci() {
        for (text, words) in [
            ("option a 'x y'", &["option", "a", "x y"][..]),
            ("option a 'it'\\''s'", &["option", "a", "it's"]),
            ("option a \"x\\\"y\"", &["option", "a", "x\"y"]),
            ("option a x\\ y", &["option", "a", "x y"]),
            ("option a 'two\nlines' # no", &["option", "a", "two\nlines"]),
            ("option a \\\n b", &["option", "a", "b"]),
        ] {
            assert_eq!(statements(text.as_bytes()), [words], "{text}");
        }
        assert_eq!(statements(b"config x; option a b\n").len(), 2);
        assert_eq!(sections(b"c zone\no masq 1\n").len(), 1);
        assert_eq!(statements(b"option a 'open\nconfig y\n").len(), 0, "libuci refuses the file");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "((config|option|list) ?['\"]?[a-z ]{0,4}['\"]?\n?){0,8}") {
            let _known = (sections(&bytes), sections(text.as_bytes()), staged(&bytes, "a"));
        }
    }
}
