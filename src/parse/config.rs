//! A kernel configuration (`/boot/config-*`, unpacked `/proc/config.gz`).

use std::collections::BTreeMap;

/// State of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Built in, or set to a value.
    On,
    /// A module.
    Module,
    /// `# CONFIG_X is not set`, or not mentioned in a file that mentions others.
    Off,
}

/// The state of `CONFIG_<option>`; `None` when the text is no kernel configuration at all.
#[must_use]
pub fn option(bytes: &[u8], option: &str) -> Option<Setting> {
    let text = String::from_utf8_lossy(bytes);
    let mut any = false;
    for line in text.lines().map(str::trim) {
        let set = line.strip_prefix("CONFIG_").and_then(|l| l.split_once('='));
        let unset = line.strip_prefix("# CONFIG_").and_then(|l| l.strip_suffix(" is not set"));
        any |= set.is_some() || unset.is_some();
        match (set, unset) {
            (Some((name, "m")), _) if name == option => return Some(Setting::Module),
            (Some((name, "n")), _) if name == option => return Some(Setting::Off),
            (Some((name, _)), _) if name == option => return Some(Setting::On),
            (_, Some(name)) if name == option => return Some(Setting::Off),
            _ => {}
        }
    }
    any.then_some(Setting::Off)
}

/// The values (`y`, `m`, `250`) of those of the options that are set, in one pass over the text;
/// `None` when it is no kernel configuration at all.
#[must_use]
pub fn values<'a>(bytes: &[u8], options: &[&'a str]) -> Option<BTreeMap<&'a str, String>> {
    let text = String::from_utf8_lossy(bytes);
    let mut any = false;
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        any |= line.starts_with("# CONFIG_") && line.ends_with(" is not set");
        let Some((name, value)) = line.strip_prefix("CONFIG_").and_then(|l| l.split_once('='))
        else {
            continue;
        };
        any = true;
        if value == "n" {
            continue;
        }
        if let Some(option) = options.iter().find(|o| **o == name) {
            found.insert(*option, value.trim_matches('"').to_owned());
        }
    }
    any.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::{Setting, option, values};

    #[test]
    fn several_values_at_once() {
        let text = b"CONFIG_HZ=250\nCONFIG_PREEMPT=y\n# CONFIG_PREEMPT_NONE is not set\n";
        let found = values(text, &["HZ", "PREEMPT", "PREEMPT_NONE"]).unwrap();
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("HZ", "250".into()), ("PREEMPT", "y".into())]
        );
        assert_eq!(values(b"hello", &["HZ"]), None);
    }

    #[test]
    fn set_unset_module_and_absent() {
        let text = b"# CONFIG_IRQ_TIME_ACCOUNTING is not set\r\nCONFIG_VETH=m\nCONFIG_RPS=y\n";
        assert_eq!(option(text, "IRQ_TIME_ACCOUNTING"), Some(Setting::Off));
        assert_eq!(option(text, "VETH"), Some(Setting::Module));
        assert_eq!(option(text, "RPS"), Some(Setting::On));
        assert_eq!(option(text, "XPS"), Some(Setting::Off));
        assert_eq!(option(b"hello", "XPS"), None);
    }

    /// Found by fuzzing: a remark on an option made any text a configuration.
    #[test]
    fn a_remark_on_an_option_is_no_configuration_and_n_is_not_set() {
        let remark = b"HZ is 100\n# CONFIG_PREEMPT=m would be wrong\n";
        assert_eq!((option(remark, "HZ"), values(remark, &["HZ"])), (None, None));
        let off = values(b"CONFIG_PREEMPT=n\n", &["PREEMPT"]);
        assert_eq!(off.map(|set| set.len()), Some(0));
    }
}
