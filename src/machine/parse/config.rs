//! A kernel configuration (`/boot/config-*`, unpacked `/proc/config.gz`).

use std::collections::BTreeMap;

use crate::model::kconfig::{Entry, Extent, KernelConfig, Value};

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

/// Options that only one architecture has: its own names for itself, words within its options'
/// names, and beginnings of others. Any of them can be left over in a file of another
/// (`ARM64_ERRATUM_858921` is in Fedora's for x86_64), so they are counted.
type Marks =
    (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);
const ARCHITECTURES: &[Marks] = &[
    ("arm64", &["ARM64"], &["ARM64"], &["ARM_SMMU_V3", "ARM_FFA_"]),
    (
        "x86",
        &["X86", "X86_64", "X86_32"],
        &["X86"],
        &["MICROCODE", "IA32_", "KVM_INTEL", "KVM_AMD"],
    ),
    (
        "arm",
        &["ARM", "AEABI"],
        &["ARMV7", "THUMB2"],
        &[
            "ARM_THUMB",
            "ARM_LPAE",
            "ARM_ERRATA_",
            "ARM_ATAG_",
            "ARM_APPENDED_",
            "CPU_V6",
            "CPU_V7",
            "ARCH_MULTI_V",
            "VFP",
            "NEON",
            "CRYPTO_SHA1_ARM_",
        ],
    ),
    (
        "mips",
        &["MIPS"],
        &["MIPS", "MIPS32", "RALINK", "ATH79"],
        &["CPU_R4", "SOC_MT762", "CAVIUM_OCT"],
    ),
    ("riscv", &["RISCV"], &["RISCV", "RISCV64", "RV64I", "RV32I"], &["SOC_SIFIVE", "SOC_STARFIVE"]),
    ("powerpc", &["PPC", "PPC64"], &["PPC", "PPC64", "POWERNV", "PSERIES", "BOOK3S"], &["MPC8"]),
    ("loongarch", &["LOONGARCH"], &["LOONGARCH", "LOONGSON3"], &["CPU_HAS_L"]),
    ("s390", &["S390"], &["S390"], &["MARCH_Z", "ZCRYPT", "CCW"]),
];

/// Remarks of one word that name the architecture, as distributions' packaging writes them.
const WORDS: &[(&str, &str)] = &[
    ("x86_64", "x86"),
    ("i386", "x86"),
    ("i686", "x86"),
    ("arm64", "arm64"),
    ("aarch64", "arm64"),
    ("arm", "arm"),
    ("armv7hl", "arm"),
    ("riscv", "riscv"),
    ("riscv64", "riscv"),
    ("powerpc", "powerpc"),
    ("ppc64le", "powerpc"),
    ("s390", "s390"),
    ("s390x", "s390"),
];

/// An option that is the architecture's own name counts as so many of the others.
const NAME: usize = 10;
/// One in so many options may be left over from a file of another architecture.
const LEFT_OVER: usize = 300;

/// Options that nobody can choose, which only a build writes. So many of them that are on mean
/// that a build wrote the file; fewer, that somebody took parts from such a file.
const UNCHOSEN: &[&str] = &["HAVE_", "ARCH_HAS_", "ARCH_WANT_", "ARCH_SUPPORTS_", "CC_HAS_"];
const OF_A_BUILD: usize = 60;
const OF_A_PART: usize = 3;
/// Parts are smaller.
const ALL_CHOICES: usize = 1500;

/// The whole file; `None` when it is no kernel configuration at all.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<KernelConfig> {
    let text = String::from_utf8_lossy(bytes);
    let mut config = KernelConfig::default();
    let mut word = None;
    for line in text.lines().map(|line| line.trim().trim_start_matches('\u{feff}')) {
        let unset = line.strip_prefix("# CONFIG_").and_then(|l| l.strip_suffix(" is not set"));
        let set = line.strip_prefix("CONFIG_").and_then(|l| l.split_once('='));
        match (set, unset) {
            (Some((name, raw)), _) if is_name(name) => put(&mut config, name, value(raw), raw),
            (_, Some(name)) if is_name(name) => put(&mut config, name, Value::Off, "n"),
            _ if line.starts_with('#') => {
                heading(&mut config, line);
                let named = line.trim_start_matches('#').trim();
                word = word.or_else(|| WORDS.iter().find(|(w, _)| *w == named));
            }
            _ => config.skipped += usize::from(!line.is_empty()),
        }
    }
    config.extent = match (config.arch.is_some(), unchosen(&config)) {
        (true, _) | (_, OF_A_BUILD..) => Extent::Whole,
        (_, OF_A_PART..) if config.options.len() < ALL_CHOICES => Extent::Part,
        _ => Extent::Defconfig,
    };
    config.cut = is_cut(&text, &config);
    if config.arch.is_none() {
        config.arch = architecture(&config, word.map(|(_, arch)| *arch));
    }
    if let (None, Some(Value::Text(signed))) = (&config.version, config.get("VERSION_SIGNATURE")) {
        // "Ubuntu 6.8.0-31.31-generic 6.8.1"
        config.version = signed.split(' ').nth(1).map(ToOwned::to_owned);
    }
    (!config.options.is_empty()).then_some(config)
}

/// True if a text ends within a line; or, of a whole file, within a menu or before "Kernel hacking",
/// which every architecture's Kconfig has last and where `DEBUG_KERNEL` depends on nothing.
fn is_cut(text: &str, config: &KernelConfig) -> bool {
    let last = text.lines().next_back().unwrap_or_default().trim();
    let is_line = match last.strip_prefix("# CONFIG_") {
        Some(rest) => rest.ends_with(" is not set"),
        None => last.is_empty() || last.starts_with('#') || last.contains('='),
    };
    if !text.ends_with('\n') && (!is_line || last.ends_with('=')) {
        return true;
    }
    let mut ends = text.lines().filter_map(|line| line.trim().strip_prefix("# end of "));
    let within = ends.next_back().is_some_and(|menu| menu != "Kernel hacking");
    // Files of a few lines are somebody's example.
    let built = config.extent == Extent::Whole && config.options.len() >= OF_A_BUILD;
    built && (within || config.get("DEBUG_KERNEL").is_none())
}

fn unchosen(config: &KernelConfig) -> usize {
    let on = config.options.iter().filter(|(_, entry)| entry.value.is_set());
    let of_a_build = |name: &str| {
        let named = ARCHITECTURES.iter().any(|(_, names, ..)| names.first() == Some(&name));
        // One is enough for a part: nobody chooses the architecture's own name in a defconfig.
        if named { OF_A_PART } else { usize::from(UNCHOSEN.iter().any(|u| name.starts_with(u))) }
    };
    on.map(|(name, _)| of_a_build(name)).sum()
}

/// The architecture that has more of the evidence than all others together, and not only what may
/// be left over in a large file.
fn architecture(config: &KernelConfig, word: Option<&'static str>) -> Option<String> {
    let of = |(arch, names, words, beginnings): &Marks| {
        let named = names.iter().filter(|n| config.get(n) == Some(&Value::On)).count();
        let marked = config.options.keys().filter(|option| {
            option.split('_').any(|part| words.contains(&part))
                || beginnings.iter().any(|b| option.starts_with(b))
        });
        let named = named + usize::from(word == Some(*arch));
        (named * NAME + marked.count(), *arch)
    };
    let (most, arch) = ARCHITECTURES.iter().map(of).max()?;
    let all: usize = ARCHITECTURES.iter().map(|a| of(a).0).sum();
    (most * 2 > all && most > config.options.len() / LEFT_OVER).then(|| arch.to_owned())
}

/// The version in a file's name: `config-6.6`, `linux-rockchip64-6.18.config`,
/// `config-6.1.0-18-amd64`.
#[must_use]
pub fn version_in(name: &str) -> Option<String> {
    let words = name.split(['-', '_', ' ']).map(|word| {
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        word.get(..digits).unwrap_or_default().trim_end_matches('.')
    });
    // Linux has been at 2.6 and then at 3 and above; a processor's revision is not.
    let mut versions = words.filter(|word| {
        let mut parts = word.split('.').map(str::parse::<u32>);
        matches!((parts.next(), parts.next()), (Some(Ok(3..=9)), Some(Ok(0..=30))))
    });
    versions.next().map(ToOwned::to_owned)
}

/// True if the text can be a symbol of Kconfig: letters, digits and underscores.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads a heading `# Linux/arm64 6.1.55 Kernel Configuration` (scripts/kconfig/confdata.c,
/// `conf_write`), or Armbian's `# Armbian defconfig generated with 6.18`.
fn heading(config: &mut KernelConfig, line: &str) {
    if let Some((_, version)) = line.split_once(" defconfig generated with ") {
        config.version = Some(version.trim().to_owned());
    }
    let named = line.strip_prefix("# Linux/").and_then(|l| l.strip_suffix("Kernel Configuration"));
    if let Some((arch, version)) = named.and_then(|n| n.trim().split_once(' ')) {
        let arch = WORDS.iter().find(|(word, _)| *word == arch).map_or(arch, |(_, arch)| *arch);
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
    use super::{Extent, Setting, Value, option, read, values, version_in};

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

    /// Fedora's configuration for x86_64 has an erratum of arm64 in it, and no heading.
    #[test]
    fn the_architecture_is_what_most_of_the_evidence_says() {
        let arch = |text: &str| read(text.as_bytes()).unwrap().arch;
        let fedora = "# x86_64\nCONFIG_ARM64_ERRATUM_858921=y\nCONFIG_SMP=y\n\
                      CONFIG_CRYPTO_CHACHA20_X86_64=m\nCONFIG_X86_ACPI_CPUFREQ=m\n";
        assert_eq!(arch(fedora).as_deref(), Some("x86"));
        assert_eq!(arch("CONFIG_ARM64_VA_BITS_48=y\nCONFIG_X86_PLATFORM=y\n"), None);
        // One option among thousands is left over, and says nothing.
        let many: String = (0..3000).map(|i| format!("CONFIG_DRIVER_{i}=m\n")).collect();
        assert_eq!(arch(&format!("{many}CONFIG_ARM64_ERRATUM_858921=y\n")), None);
    }

    #[test]
    fn the_version_is_in_the_heading_the_signature_or_the_name() {
        let version = |text: &str| read(text.as_bytes()).unwrap().version;
        let armbian = "# Armbian defconfig generated with 6.18\nCONFIG_SYSVIPC=y\n";
        assert_eq!(version(armbian).as_deref(), Some("6.18"));
        let ubuntu = "CONFIG_VERSION_SIGNATURE=\"Ubuntu 6.8.0-31.31-generic 6.8.1\"\n";
        assert_eq!(version(ubuntu).as_deref(), Some("6.8.0-31.31-generic"));
        assert_eq!(version("CONFIG_A=y\n"), None);
        let named = |name| version_in(name);
        assert_eq!(named("config-6.6").as_deref(), Some("6.6"));
        assert_eq!(named("linux-rockchip64-6.18.config").as_deref(), Some("6.18"));
        assert_eq!(named("config-6.1.0-18-amd64").as_deref(), Some("6.1.0"));
        assert_eq!(named("linux-bcm2711-current.config"), None);
        assert_eq!(named("x86_64_defconfig.gz"), None);
    }

    #[test]
    fn a_file_that_was_cut_short_is_known() {
        let options: String = (0..70).map(|i| format!("CONFIG_HAVE_{i}=y\n")).collect();
        let whole = format!(
            "# Linux/arm64 6.1.0 Kernel Configuration\n# General setup\n{options}# end of General \
             setup\nCONFIG_DEBUG_KERNEL=y\nCONFIG_KGDB=y\n# end of Kernel hacking\n"
        );
        let cut = |text: &str| read(text.as_bytes()).unwrap().cut;
        assert!(!cut(&whole) && !cut(whole.trim_end()) && !cut("CONFIG_A=y\nCONFIG_B=m"));
        for end in ["CONFIG_DEBUG", "CONFIG_KGDB", "KGDB=y", "# end of Kernel"] {
            assert!(cut(whole.split_at(whole.find(end).unwrap()).0), "{end}");
        }
        assert!(cut("CONFIG_A=y\nCONFIG_B") && cut("CONFIG_A=y\n# CONFIG_B is n"));
    }

    /// As OpenWrt's, Fedora's and Armbian's.
    #[test]
    fn parts_defconfigs_and_whole_files_are_told_apart() {
        let extent = |text: &str| read(text.as_bytes()).unwrap().extent;
        assert_eq!(extent("# Linux/arm64 6.1.0 Kernel Configuration\nCONFIG_A=y\n"), Extent::Whole);
        assert_eq!(extent("CONFIG_ARM64=y\nCONFIG_SMP=y\n"), Extent::Part);
        assert_eq!(extent("CONFIG_SYSVIPC=y\nCONFIG_NO_HZ=y\n"), Extent::Defconfig);
        let built: String = (0..70).map(|i| format!("CONFIG_HAVE_{i}=y\n")).collect();
        assert_eq!(extent(&built), Extent::Whole);
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
