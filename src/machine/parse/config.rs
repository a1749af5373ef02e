//! A kernel configuration (`/boot/config-*`, unpacked `/proc/config.gz`).

use std::collections::BTreeMap;

use crate::model::kconfig::{Entry, KernelConfig, Value};

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

/// True if a text is a kernel configuration.
#[must_use]
pub fn is_one(bytes: &[u8]) -> bool {
    option(bytes, "").is_some()
}

/// State of `CONFIG_<option>`; `None` when the text is no kernel configuration at all.
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

/// Options that only one architecture has, for files without their heading.
const ARCHITECTURES: &[(&str, &str)] = &[
    ("ARM64", "arm64"),
    ("X86", "x86"),
    ("ARM", "arm"),
    ("MIPS", "mips"),
    ("RISCV", "riscv"),
    ("PPC", "powerpc"),
    ("LOONGARCH", "loongarch"),
    ("S390", "s390"),
];

/// Beginnings of options that only one architecture has.
const CHOICES: &[(&str, &str)] = &[("ARM64_", "arm64"), ("X86_", "x86"), ("MIPS_", "mips")];

/// The whole file; `None` when it is no kernel configuration at all.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<KernelConfig> {
    let text = String::from_utf8_lossy(bytes);
    let mut config = KernelConfig::default();
    for line in text.lines().map(|line| line.trim().trim_start_matches('\u{feff}')) {
        let unset = line.strip_prefix("# CONFIG_").and_then(|l| l.strip_suffix(" is not set"));
        let set = line.strip_prefix("CONFIG_").and_then(|l| l.split_once('='));
        match (set, unset) {
            (Some((name, raw)), _) if is_name(name) => put(&mut config, name, value(raw), raw),
            (_, Some(name)) if is_name(name) => put(&mut config, name, Value::Off, "n"),
            _ if line.starts_with('#') => heading(&mut config, line),
            _ => config.skipped += usize::from(!line.is_empty()),
        }
    }
    if config.arch.is_none() {
        let of = |option: &str| config.get(option) == Some(&Value::On);
        let found = ARCHITECTURES.iter().find(|(o, _)| of(o));
        // A defconfig leaves out anything that its directory implies, but not the choices made for
        // it.
        let chosen = |beginning: &str| {
            let mut options = config.options.iter();
            options.any(|(name, entry)| name.starts_with(beginning) && entry.value.is_set())
        };
        let found = found.or_else(|| CHOICES.iter().find(|(beginning, _)| chosen(beginning)));
        config.arch = found.map(|(_, arch)| (*arch).to_owned());
    }
    (!config.options.is_empty()).then_some(config)
}

/// True if the text can be a symbol of Kconfig: letters, digits and underscores.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads a heading `# Linux/arm64 6.1.55 Kernel Configuration` (scripts/kconfig/confdata.c,
/// `conf_write`).
fn heading(config: &mut KernelConfig, line: &str) {
    let named = line.strip_prefix("# Linux/").and_then(|l| l.strip_suffix("Kernel Configuration"));
    if let Some((arch, version)) = named.and_then(|n| n.trim().split_once(' ')) {
        config.arch = Some(arch.to_owned());
        config.version = Some(version.trim().to_owned());
    }
}

fn put(config: &mut KernelConfig, name: &str, value: Value, raw: &str) {
    let place = config.options.len();
    match config.options.get_mut(name) {
        Some(entry) => {
            if entry.value != value && !config.duplicates.iter().any(|d| d == name) {
                config.duplicates.push(name.to_owned());
            }
            (entry.value, entry.raw) = (value, raw.to_owned());
        }
        None => {
            let raw = raw.to_owned();
            config.options.insert(name.to_owned(), Entry { value, place, raw });
        }
    }
}

/// Value by meaning: `"text"` and `text`, `0x10` and `16`, `n` and "is not set" are the same.
fn value(raw: &str) -> Value {
    match raw {
        "y" => Value::On,
        "m" => Value::Module,
        "n" => Value::Off,
        _ => {
            let plain = raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')).unwrap_or(raw);
            let hex = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X"));
            let number = hex.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            Value::Text(number.map_or_else(|| plain.to_owned(), |n| n.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Setting, Value, option, read, values};

    #[test]
    fn a_whole_file_is_read_by_meaning() {
        let text = "#\r\n# Automatically generated file; DO NOT EDIT.\r\n\
                    # Linux/arm64 6.1.55-v8+ Kernel Configuration\r\nCONFIG_HZ=250\r\n\
                    # CONFIG_RPS is not set\r\nCONFIG_VETH=m\nCONFIG_LOCALVERSION=\"-v8\"\n\
                    CONFIG_BASE=0x10\nCONFIG_XPS=n\nCONFIG_VETH=y\nwhat is this\n";
        let config = read(text.as_bytes()).unwrap();
        assert_eq!(config.arch.as_deref(), Some("arm64"));
        assert_eq!(
            (config.version.as_deref(), config.release()),
            (Some("6.1.55-v8+"), Some((6, 1)))
        );
        let text = |t: &str| Some(Value::Text(t.to_owned()));
        let of = |name: &str| config.get(name).cloned();
        assert_eq!(
            (of("HZ"), of("BASE"), of("LOCALVERSION")),
            (text("250"), text("16"), text("-v8"))
        );
        assert_eq!((of("RPS"), of("XPS")), (Some(Value::Off), Some(Value::Off)));
        assert_eq!((of("VETH"), of("PREEMPT")), (Some(Value::On), None));
        assert_eq!((config.duplicates.as_slice(), config.skipped), (&["VETH".to_owned()][..], 1));
        assert_eq!(config.in_order(), ["HZ", "RPS", "VETH", "LOCALVERSION", "BASE", "XPS"]);
        assert_eq!(read(b"hello\n# a remark\n"), None);
        let bare = read(b"CONFIG_RISCV=y\n").unwrap();
        assert_eq!(bare.arch.as_deref(), Some("riscv"));
        // A Raspberry Pi 5's defconfig.
        let part = read(b"CONFIG_ARCH_BCM2835=y\nCONFIG_ARM64_16K_PAGES=y\n").unwrap();
        assert_eq!(part.arch.as_deref(), Some("arm64"));
    }

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
