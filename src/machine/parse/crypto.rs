//! `/proc/crypto` (crypto/proc.c `c_show`): one paragraph per implementation of an algorithm.

use std::collections::BTreeMap;

/// Name of the algorithm to the driver that the kernel would choose: the highest priority among
/// those that passed their self-test and are not internal helpers.
#[must_use]
pub fn chosen(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut best: BTreeMap<String, (i64, String)> = BTreeMap::new();
    let text = String::from_utf8_lossy(bytes);
    let mut one = Entry::default();
    for line in text.lines().map(str::trim).chain([""]) {
        let Some((key, value)) = line.split_once(':') else {
            if line.is_empty() {
                one = one.file(&mut best);
            }
            continue;
        };
        let value = value.trim();
        match key.trim() {
            "name" => one.name = value.to_owned(),
            "driver" => one.driver = value.to_owned(),
            "priority" => one.priority = value.parse().unwrap_or(0),
            "internal" => one.unusable |= value == "yes",
            "selftest" => one.unusable |= value != "passed",
            _ => {}
        }
    }
    best.into_iter().map(|(name, (_, driver))| (name, driver)).collect()
}

#[derive(Default)]
struct Entry {
    name: String,
    driver: String,
    priority: i64,
    unusable: bool,
}

impl Entry {
    /// Enters the record where it is better than the one there; returns an empty one to go on with.
    fn file(self, best: &mut BTreeMap<String, (i64, String)>) -> Self {
        let better = best.get(&self.name).is_none_or(|(priority, _)| self.priority > *priority);
        if better && !self.unusable && !self.name.is_empty() && !self.driver.is_empty() {
            best.insert(self.name, (self.priority, self.driver));
        }
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_highest_priority_that_passed_its_test_is_chosen() {
        let text = b"name         : chacha20\ndriver       : chacha20-generic\npriority     : 100\nselftest     : passed\ninternal     : no\n\nname         : chacha20\r\ndriver       : chacha20-neon\r\npriority     : 300\r\nselftest     : passed\r\ninternal     : no\r\n\r\nname         : chacha20\ndriver       : chacha20-x\npriority     : 900\nselftest     : unknown\n\nname         : __gcm(aes)\ndriver       : h\npriority     : 500\nselftest     : passed\ninternal     : yes\n";
        assert_eq!(chosen(text), BTreeMap::from([("chacha20".into(), "chacha20-neon".into())]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "((name|driver|priority) *: [a-z0-9]{0,3}\n?){0,9}") {
            let _known = (chosen(&bytes), chosen(text.as_bytes()));
        }
    }
}
