//! A kernel's configuration: what each option is set to, and where its line stood.

use std::collections::BTreeMap;
use std::fmt;

use super::order::InOrder;

/// Value of an option. An option that a file does not mention is none of these: its
/// dependencies are not met there, or that kernel does not know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// `# CONFIG_X is not set`, or `=n`: it could have been on.
    Off,
    /// `=m`.
    Module,
    /// `=y`.
    On,
    /// A number or a text, normalised: no quotes, numbers in decimal.
    Text(String),
}

impl Value {
    /// True if it does anything: on, a module, or a value.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self != Self::Off
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "n",
            Self::Module => "m",
            Self::On => "y",
            Self::Text(text) if text.is_empty() => "\"\"",
            Self::Text(text) => text,
        })
    }
}

/// Preemption models by option, the strongest first (kernel/Kconfig.preempt).
pub const PREEMPTION_MODELS: &[(&str, &str)] = &[
    ("PREEMPT_RT", "rt"),
    ("PREEMPT_LAZY", "lazy"),
    ("PREEMPT", "full"),
    ("PREEMPT_VOLUNTARY", "voluntary"),
    ("PREEMPT_NONE", "none"),
    // What those come to from 5.16 on; OpenWrt's targets name these alone.
    ("PREEMPT_BUILD", "full"),
    ("PREEMPT_VOLUNTARY_BUILD", "voluntary"),
    ("PREEMPT_NONE_BUILD", "none"),
];

/// An option as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Value of the option.
    pub value: Value,
    /// How many options the file mentions before it: what depends on an option follows it.
    pub place: usize,
    /// The value as it is written in the file, for writing it again.
    pub raw: String,
}

/// Major and minor version of a kernel's release (`6.1.0-18-amd64`).
#[must_use]
pub fn release(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((major, minor.parse().ok()?))
}

/// State of an option that a file does not mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// Off: the file is what a build used, and names all that could be on.
    Whole,
    /// At its default: the file names what differs (`make savedefconfig`), or was merged from parts
    /// that do.
    Defconfig,
    /// Whatever another part says (OpenWrt's `target/linux/*/config-*`).
    #[default]
    Part,
}

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelConfig {
    /// State of an option that the file does not mention.
    pub extent: Extent,
    /// The kernel's name of the architecture (`x86`, `arm64`, `mips`), from the heading or from the
    /// option that only one architecture has.
    pub arch: Option<String>,
    /// The kernel's version, from the heading.
    pub version: Option<String>,
    /// Options by name, without `CONFIG_`. Of an option that is set twice the last counts, as for
    /// the kernel's own `make`.
    pub options: BTreeMap<String, Entry>,
    /// Options that the file sets more than once, to different values.
    pub duplicates: Vec<String>,
    /// Lines that are neither an option nor a remark.
    pub skipped: usize,
    /// True if the file ends before its end: within a line, within a menu, or before the options
    /// that every build's file has last.
    pub cut: bool,
}

impl KernelConfig {
    /// Value of an option; `None` when the file does not mention it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.options.get(name).map(|entry| &entry.value)
    }

    /// True if an option is built in or a module.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_set)
    }

    /// The major and minor version (`6`, `1`).
    #[must_use]
    pub fn release(&self) -> Option<(u32, u32)> {
        release(self.version.as_deref()?)
    }

    /// Sets an option that the file does not mention.
    pub fn assume(&mut self, name: &str, value: Value) {
        let (place, raw) = (self.options.len(), value.to_string());
        self.options.entry(name.to_owned()).or_insert(Entry { value, place, raw });
    }

    /// Adds another part, whose values win, as those of OpenWrt's targets over the generic ones.
    pub fn merge(&mut self, part: Self) {
        let first = self.options.len();
        for (name, mut entry) in part.options {
            entry.place += first;
            self.options.insert(name, entry);
        }
        self.arch = part.arch.or_else(|| self.arch.take());
        self.version = part.version.or_else(|| self.version.take());
        self.skipped += part.skipped;
        self.cut |= part.cut;
        self.duplicates.extend(part.duplicates);
        if self.extent == Extent::Part {
            self.extent = Extent::Defconfig;
        }
    }

    /// The names in the order of the file.
    #[must_use]
    pub fn in_order(&self) -> Vec<&str> {
        let mut names: Vec<(usize, &str)> =
            self.options.iter().map(|(name, entry)| (entry.place, name.as_str())).collect();
        names.order_by_key(|(place, _)| *place);
        names.into_iter().map(|(_, name)| name).collect()
    }
}
