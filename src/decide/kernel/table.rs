//! The table of options that cost forwarding or WireGuard, and the one of the options' defaults.
//!
//! A line holds for architectures, for versions, and beside other options; what a file does not
//! tell is a third answer, never a guess.

use std::sync::LazyLock;

use super::preemption::PreemptionChoices;
use crate::model::finding::Severity;
use crate::model::kconfig::{Extent, KernelConfig, Value};

const OPTIONS: &str = include_str!("../../../data/kernel-options.txt");
const DEFAULTS: &str = include_str!("../../../data/kernel-defaults.txt");

/// From and to which major and minor version, both included.
type Range = (Option<(u32, u32)>, Option<(u32, u32)>);

/// The reason why a line can't be held against a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Untold {
    Architecture,
    Version,
}

/// Where a line holds.
#[derive(Debug, Clone, PartialEq)]
struct Conditions {
    architectures: Vec<&'static str>,
    after: Vec<&'static str>,
    versions: Range,
}

impl Conditions {
    fn read(conditions: &'static str, versions: &'static str) -> Option<Self> {
        let all = conditions.split([',', ';']).filter(|c| *c != "*");
        let (after, architectures): (Vec<_>, Vec<_>) = all.partition(|c| c.starts_with("after:"));
        let after = after.into_iter().filter_map(|c| c.strip_prefix("after:")).collect();
        Some(Self { architectures, after, versions: range(versions)? })
    }

    fn hold(&self, config: &KernelConfig) -> Result<bool, Untold> {
        let beside = self.after.iter().all(|condition| {
            if let Some(option) = condition.strip_suffix("=n") {
                return config.get(option) == Some(&Value::Off);
            }
            match condition.strip_prefix('!') {
                // Of a part, only the whole can tell that something is not on.
                Some(option) if config.extent == Extent::Part => {
                    config.get(option) == Some(&Value::Off)
                }
                Some(option) => !config.is_on(option),
                None => config.is_on(condition),
            }
        });
        if !beside {
            return Ok(false);
        }
        if !self.architectures.is_empty() {
            let arch = config.arch.as_deref().ok_or(Untold::Architecture)?;
            if !self.architectures.contains(&arch) {
                return Ok(false);
            }
        }
        if self.versions == (None, None) {
            return Ok(true);
        }
        let release = config.release().ok_or(Untold::Version)?;
        let (from, to) = self.versions;
        Ok(from.is_none_or(|from| release >= from) && to.is_none_or(|to| release <= to))
    }
}

fn range(text: &str) -> Option<Range> {
    if text == "*" {
        return Some((None, None));
    }
    let (from, to) = text.split_once('-')?;
    let one = |text: &str| match text.split_once('.') {
        None => text.is_empty().then_some(None),
        Some((major, minor)) => Some(Some((major.parse().ok()?, minor.parse().ok()?))),
    };
    Some((one(from)?, one(to)?))
}

/// Cost of an option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    /// No rate: it makes figures blind, or only the start longer.
    Free,
    /// Nobody measured it, as far as we know.
    NotMeasured,
    /// Somebody measured it.
    Measured {
        /// Share of the rate, worked out from the figures.
        share: f64,
        /// The figures, of what, and where they can be read.
        figures: &'static str,
    },
}

impl Cost {
    /// Reads `-`, `free`, or a measurement: `669 of 1100 Mbit/s: ...` (rates), `11 for 3.4 s: ...`
    /// (times), `x3: ...` (so many times slower) or `3-5 %: ...` (of which the lower end counts).
    fn read(text: &'static str) -> Option<Self> {
        match text {
            "-" => return Some(Self::NotMeasured),
            "free" => return Some(Self::Free),
            _ => {}
        }
        let (figures, _) = text.split_once(": ")?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        let words: Vec<&str> = figures.split(' ').collect();
        let share = match words.as_slice() {
            [with, "of", without, _unit] => 1.0 - number(with)? / number(without)?,
            [with, "for", without, _unit] => 1.0 - number(without)? / number(with)?,
            // Less than so much may be nothing.
            [below, "%"] if below.starts_with('<') => 0.0,
            [range, "%"] => number(range.split('-').next()?)? / 100.0,
            [times] => 1.0 - 1.0 / number(times.strip_prefix('x')?)?,
            _ => return None,
        };
        Some(Self::Measured { share, figures: text })
    }

    /// Share of the rate that it cost where it was measured; 0 where it was not.
    #[must_use]
    pub fn share(self) -> f64 {
        match self {
            Self::Measured { share, .. } => share,
            Self::Free | Self::NotMeasured => 0.0,
        }
    }
}

/// Condition under which an option is worth a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    On,
    Off,
    Below(u64),
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The option, without `CONFIG_`.
    pub option: &'static str,
    pub(super) wanted: Wanted,
    /// How grave it is.
    pub severity: Severity,
    /// Cost of the option.
    pub cost: Cost,
    conditions: Conditions,
    consequence: &'static str,
    pub(super) source: &'static str,
    /// Remedy; `-` where there is nothing to do.
    pub remedy: String,
    /// Parameters of the kernel command line that take the option's cost away.
    boot: Vec<&'static str>,
}

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The table.
#[must_use]
pub fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| lines(OPTIONS).filter_map(rule).collect());
    &RULES
}

fn rule(line: &'static str) -> Option<Rule> {
    let mut fields = line.split(" | ").map(str::trim);
    let (option, wanted) = wanted(fields.next()?)?;
    let severity = fields.next()?;
    let cost = Cost::read(fields.next()?)?;
    let conditions = Conditions::read(fields.next()?, fields.next()?)?;
    let (consequence, source, remedy) = (fields.next()?, fields.next()?, fields.next()?);
    let boot = remedy.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    Some(Rule {
        option,
        wanted,
        severity: Severity::ALL.into_iter().find(|s| s.name() == severity)?,
        cost,
        conditions,
        consequence,
        source,
        remedy: remedy.replace(['{', '}'], ""),
        boot: boot.map(|(parameter, _)| parameter).collect(),
    })
}

fn wanted(text: &'static str) -> Option<(&'static str, Wanted)> {
    if let Some((option, number)) = text.split_once('<') {
        return Some((option, Wanted::Below(number.parse().ok()?)));
    }
    match text.split_once('=')? {
        (option, "y") => Some((option, Wanted::On)),
        (option, "n") => Some((option, Wanted::Off)),
        _ => None,
    }
}

impl Rule {
    pub(super) fn holds(&self, config: &KernelConfig) -> Result<bool, Untold> {
        self.conditions.hold(config)
    }

    /// The option is as the line says.
    pub(super) fn is_met(&self, config: &KernelConfig) -> bool {
        let value = config.get(self.option);
        match self.wanted {
            Wanted::On => value.is_some_and(Value::is_set),
            Wanted::Off => !value.is_some_and(Value::is_set),
            Wanted::Below(limit) => match value {
                Some(Value::Text(text)) => text.parse::<u64>().is_ok_and(|n| n > 0 && n < limit),
                _ => false,
            },
        }
    }

    /// The option costs something in this configuration, as far as that tells.
    fn strikes(&self, config: &KernelConfig) -> bool {
        self.holds(config) != Ok(false) && self.is_met(config)
    }

    /// True if the line is about an option that is on, on such an architecture, beside these others.
    pub(super) fn is_of(&self, option: &str, arch: &str, beside: &[String]) -> bool {
        let is_beside = |condition: &&str| match condition.strip_prefix('!') {
            Some(other) => !beside.iter().any(|b| b == other),
            None => beside.iter().any(|b| b == condition),
        };
        let of = &self.conditions.architectures;
        self.option == option
            && self.wanted == Wanted::On
            && (of.is_empty() || of.contains(&arch))
            && self.conditions.after.iter().all(is_beside)
    }

    /// One of the parameters that a kernel was started with takes the option's cost away.
    pub(super) fn is_taken_back(&self, parameters: &[String]) -> bool {
        parameters.iter().any(|given| self.boot.contains(&given.as_str()))
    }

    /// The option's cost can be taken away at boot, without building anew.
    #[must_use]
    pub fn is_boot_choice(&self) -> bool {
        !self.boot.is_empty()
    }

    /// Cost in words, with the measurement or that there is none.
    #[must_use]
    pub fn consequence(&self) -> String {
        let consequence = self.consequence;
        match self.cost {
            Cost::Free => consequence.to_owned(),
            Cost::NotMeasured => format!("{consequence}; cost not measured"),
            Cost::Measured { figures, .. } => format!("{consequence}; measured: {figures}"),
        }
    }
}

/// True if an option is in the table: the first of those that differ to look at.
#[must_use]
pub fn matters(option: &str) -> Option<&'static Rule> {
    rules().iter().find(|rule| rule.option == option)
}

/// The line of the table that an option costs something by in a configuration.
pub(super) fn strikes(option: &str, config: &KernelConfig) -> Option<&'static Rule> {
    rules().iter().find(|rule| rule.option == option && rule.strikes(config))
}

/// One line of the defaults: an option that is on (or has this value) where nobody says otherwise.
struct Default {
    option: &'static str,
    value: Value,
    conditions: Conditions,
}

fn defaults() -> &'static [Default] {
    static ALL: LazyLock<Vec<Default>> =
        LazyLock::new(|| lines(DEFAULTS).filter_map(one).collect());
    &ALL
}

fn one(line: &'static str) -> Option<Default> {
    let mut fields = line.split(" | ").map(str::trim);
    let (option, value) = fields.next()?.split_once('=')?;
    let value = match value {
        "y" => Value::On,
        "m" => Value::Module,
        other => Value::Text(other.to_owned()),
    };
    let conditions = Conditions::read(fields.next()?, fields.next()?)?;
    fields.next().map(|_source| Default { option, value, conditions })
}

/// A configuration with its defaults, and with the options of the table that it could have named and
/// did not as what they are then: off.
pub(super) fn stated(config: &KernelConfig) -> KernelConfig {
    let Filled { mut config, untold } = filled(config);
    if config.extent == Extent::Defconfig {
        let known = rules().iter().filter(|r| untold.iter().all(|(option, _)| *option != r.option));
        for rule in known.filter(|rule| !matches!(rule.wanted, Wanted::Below(_))) {
            config.assume(rule.option, Value::Off);
        }
    }
    config
}

/// A configuration with the defaults of what it does not mention.
pub(super) struct Filled {
    pub config: KernelConfig,
    /// Options whose default depends on what the file does not tell.
    pub untold: Vec<(&'static str, Untold)>,
}

/// Fills in what a file leaves out: nothing where it is whole.
pub(super) fn filled(config: &KernelConfig) -> Filled {
    let mut filled = Filled { config: config.clone(), untold: Vec::new() };
    if config.extent == Extent::Whole {
        return filled;
    }
    // `make` passes over a choice that is no more, and takes the default.
    let choices = PreemptionChoices::of(config.release(), config.arch.as_deref());
    for gone in choices.gone() {
        filled.config.options.remove(*gone);
    }
    for line in defaults() {
        if filled.config.get(line.option).is_some() {
            continue;
        }
        match line.conditions.hold(&filled.config) {
            Ok(true) => filled.config.assume(line.option, line.value.clone()),
            Ok(false) => {}
            Err(untold) => filled.untold.push((line.option, untold)),
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::parse::{config, gzip};

    macro_rules! defconfig {
        ($name:literal) => {
            ($name, include_bytes!(concat!("../../../fixtures/kernel/defconfigs/", $name)))
        };
    }

    #[test]
    fn every_line_of_both_tables_is_read_and_says_all_it_must() {
        assert_eq!(rules().len(), lines(OPTIONS).count(), "a line is not understood");
        assert_eq!(defaults().len(), lines(DEFAULTS).count(), "a default is not understood");
        let known = ["x86", "arm64", "arm", "mips", "riscv", "powerpc", "s390", "loongarch"];
        for rule in rules() {
            assert!(rule.consequence.len() > 10 && rule.source.len() > 3, "{rule:?}");
            assert!(rule.conditions.architectures.iter().all(|a| known.contains(a)), "{rule:?}");
            let warns = rule.severity >= Severity::Warning;
            assert!(!warns || rule.remedy != "-", "a warning says what to do: {rule:?}");
        }
        for line in defaults() {
            assert!(line.conditions.architectures.iter().all(|a| known.contains(a)));
        }
    }

    /// No figure without a measurement that one can look up: ours, or a publication with the figure.
    #[test]
    fn every_cost_is_a_measurement_with_its_place_or_is_none() {
        const PLACES: &[&str] = &["field report WG", "Linux commit ", "Kconfig", ".rst"];
        let mut measured = 0;
        for rule in rules() {
            let words = rule.consequence();
            match rule.cost {
                Cost::Measured { share, figures } => {
                    assert!((0.0..1.0).contains(&share), "{rule:?}");
                    let place = figures.rsplit_once('(').map_or("", |(_, place)| place);
                    assert!(PLACES.iter().any(|p| place.contains(p)), "no place: {figures}");
                    assert!(words.contains(figures), "{words}");
                    measured += 1;
                }
                Cost::NotMeasured => assert!(words.ends_with("; cost not measured"), "{words}"),
                Cost::Free => assert!(!words.contains('%'), "{words}"),
            }
            // Prose has no percentages of its own.
            assert!(!rule.consequence.contains('%'), "{rule:?}");
        }
        assert!(measured >= 5, "{measured}");
    }

    #[test]
    fn a_cost_is_worked_out_from_its_figures() {
        let share = |text| Cost::read(text).map(Cost::share);
        let near = |text, value: f64| (share(text).unwrap() - value).abs() < 1e-3;
        assert!(near("669 of 1100 Mbit/s: WireGuard (x)", 0.3918));
        assert!(near("11 for 3.4 s: hackbench (x)", 0.6909));
        assert!(near("3-5 %: (x)", 0.03) && near("<1 %: (x)", 0.0) && near("x3: (x)", 0.6667));
        assert_eq!((share("-"), share("free")), (Some(0.0), Some(0.0)));
        assert_eq!(
            (share("0.4"), share("about half: x"), share("a of b c: x")),
            (None, None, None)
        );
    }

    /// Defconfigs of Linux, and the options that are on once the kernel's own Kconfig files have
    /// been through them (fixtures/kernel/README.md).
    #[test]
    fn what_a_defconfig_leaves_out_is_as_the_kernels_own_files_have_it() {
        const ON: &str = include_str!("../../../fixtures/kernel/defconfigs/on.txt");
        const FILES: &[(&str, &[u8])] = &[
            defconfig!("arm64-defconfig-6.12.gz"),
            defconfig!("arm64-defconfig-7.3.gz"),
            defconfig!("x86-x86_64_defconfig-7.3.gz"),
            defconfig!("arm-mvebu_v7_defconfig-6.12.gz"),
            defconfig!("riscv-defconfig-6.1.gz"),
            defconfig!("mips-gpr_defconfig-5.10.gz"),
        ];
        let asked: Vec<&str> = ON.split_whitespace().filter(|word| !word.ends_with(':')).collect();
        for (name, packed) in FILES {
            let truth = ON.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let truth: Vec<&str> = truth.unwrap().split(' ').collect();
            let text = gzip::unpack(packed, 1 << 20).unwrap();
            let mut config = config::read(&text).unwrap();
            assert_eq!(config.extent, Extent::Defconfig, "{name}");
            let (arch, version) = (name.split('-').next(), config::version_in(name));
            assert!(config.arch.is_none() || config.arch.as_deref() == arch, "{name}");
            (config.arch, config.version) = (arch.map(ToOwned::to_owned), version);
            let filled = filled(&config).config;
            for option in &asked {
                // Nothing asks for these on other architectures.
                let few = ["IOMMU_DEFAULT_DMA_STRICT", "64BIT"].contains(option);
                if !few || matches!(arch, Some("arm64" | "x86")) {
                    assert_eq!(filled.is_on(option), truth.contains(option), "{name}: {option}");
                }
            }
        }
    }
}
