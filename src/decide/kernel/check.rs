//! Options of a kernel that cost forwarding or WireGuard: a table of options, held against
//! a configuration and, where it runs, what it was told when it started.

use std::sync::LazyLock;

use crate::model::finding::{Confidence, Evidence, Finding, Severity};
use crate::model::kconfig::{KernelConfig, PREEMPTION_MODELS, Value};
use crate::model::order::InOrder;
use crate::model::path::KernelFacts;

const TABLE: &str = include_str!("../../../data/kernel-options.txt");

/// From and to which major and minor version, both included.
type Range = (Option<(u32, u32)>, Option<(u32, u32)>);

/// Condition under which an option is worth a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    On,
    Off,
    Below(u64),
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The option, without `CONFIG_`.
    pub option: &'static str,
    wanted: Wanted,
    severity: Severity,
    cost: f64,
    architectures: Vec<&'static str>,
    after: Vec<&'static str>,
    versions: Range,
    consequence: &'static str,
    source: &'static str,
    remedy: String,
    /// Parameters of the kernel command line that take the option's cost away.
    boot: Vec<&'static str>,
}

/// The table.
#[must_use]
pub fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        TABLE.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).filter_map(rule).collect()
    });
    &RULES
}

fn rule(line: &'static str) -> Option<Rule> {
    let mut fields = line.split(" | ").map(str::trim);
    let (option, wanted) = wanted(fields.next()?)?;
    let severity = fields.next()?;
    let cost = fields.next()?.parse().ok()?;
    let conditions: Vec<&str> = fields.next()?.split([',', ';']).collect();
    let (after, architectures): (Vec<_>, Vec<_>) =
        conditions.into_iter().filter(|c| *c != "*").partition(|c| c.starts_with("after:"));
    let versions = versions(fields.next()?)?;
    let (consequence, source, remedy) = (fields.next()?, fields.next()?, fields.next()?);
    let boot = remedy.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    Some(Rule {
        option,
        wanted,
        severity: Severity::ALL.into_iter().find(|s| s.name() == severity)?,
        cost,
        architectures,
        after: after.into_iter().filter_map(|c| c.strip_prefix("after:")).collect(),
        versions,
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

fn versions(text: &str) -> Option<Range> {
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

/// Result of the check.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Options that cost something, the dearest first.
    pub findings: Vec<Finding>,
    /// The preemption model.
    pub preemption: Preemption,
    /// Why some of the table could not be held against this file; empty when all was.
    pub not_judged: Vec<String>,
}

/// How a kernel lets itself be interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// Preemption model that the kernel was built with: `none`, `voluntary`, `full`, `lazy`, `rt`.
    pub built: Option<&'static str>,
    /// True if `preempt=` on the kernel command line chooses another without building anew.
    pub dynamic: bool,
    /// Preemption model in force, and how that is known; `None` for a file.
    pub in_force: Option<(String, String)>,
}

impl Preemption {
    fn of(config: &KernelConfig, running: Option<&KernelFacts>) -> Self {
        let in_force = running.and_then(|facts| {
            Some((facts.preemption.clone()?, facts.preemption_source.clone().unwrap_or_default()))
        });
        Self {
            built: PREEMPTION_MODELS
                .iter()
                .find(|(option, _)| config.is_on(option))
                .map(|(_, m)| *m),
            dynamic: config.is_on("PREEMPT_DYNAMIC"),
            in_force,
        }
    }

    /// One sentence for a person.
    #[must_use]
    pub fn words(&self) -> String {
        let Some(built) = self.built.or_else(|| self.in_force.as_ref().map(|_| "not said")) else {
            return "preemption: not said in this file".to_owned();
        };
        let force = self.in_force.as_ref();
        let force = force
            .filter(|(model, _)| model != built)
            .map_or(String::new(), |(m, how)| format!(", {m} in force ({how})"));
        let change = match (self.built, self.dynamic) {
            (Some("rt"), _) => "; only another kernel changes that",
            (_, true) => {
                "; preempt=none, voluntary or full on the kernel command line chooses, no building"
            }
            (Some(_), false) => "; only building anew changes that",
            (None, false) => "",
        };
        format!("preemption: built with {built}{force}{change}")
    }
}

/// A configuration has more options than this; what has fewer and no heading is a part of one.
const WHOLE: usize = 1000;

/// Holds the table against a configuration. `place` names it in the evidence; `running` are the
/// facts of the running kernel when the configuration is its own.
#[must_use]
pub fn check(config: &KernelConfig, place: &str, running: Option<&KernelFacts>) -> Report {
    let preemption = Preemption::of(config, running);
    let mut findings = Vec::new();
    let (mut unknown_arch, mut unknown_version, mut unmentioned) = (false, false, false);
    let excerpt = config.release().is_none() && config.options.len() < WHOLE;
    for rule in rules() {
        if !rule.applies_after(config) {
            continue;
        }
        if !rule.architectures.is_empty() {
            match config.arch.as_deref().map(family) {
                Some(arch) if rule.architectures.contains(&arch) => {}
                Some(_) => continue,
                None => {
                    unknown_arch = true;
                    continue;
                }
            }
        }
        if rule.versions != (None, None) {
            match config.release() {
                Some(release) if within(release, rule.versions) => {}
                Some(_) => continue,
                None => {
                    unknown_version = true;
                    continue;
                }
            }
        }
        if running.is_some_and(|facts| rule.taken_back(facts)) {
            continue;
        }
        if excerpt && rule.wanted == Wanted::Off && config.get(rule.option).is_none() {
            unmentioned = true;
            continue;
        }
        if let Some(found) = rule.finding(config, place) {
            findings.push(found);
        }
    }
    settle_preemption(&mut findings, &preemption);
    by_cost(&mut findings);
    let mut not_judged = Vec::new();
    if unknown_arch {
        not_judged
            .push("options of one architecture: the file does not say which it is".to_owned());
    }
    if unknown_version {
        let why = "options of some kernel versions: the file has lost its heading with the version";
        not_judged.push(why.to_owned());
    }
    if unmentioned {
        let why = "options that are not mentioned: this is no whole configuration (a defconfig, a \
                   target's part of one)";
        not_judged.push(why.to_owned());
    }
    Report { findings, preemption, not_judged }
}

/// The dearest first.
fn by_cost(findings: &mut [Finding]) {
    findings.order_by(|a, b| {
        let cost = |f: &Finding| (f.cost * 1000.0) as u32;
        b.severity.cmp(&a.severity).then(cost(b).cmp(&cost(a)))
    });
}

/// `i386` and `x86_64` are headings of x86 as well.
fn family(arch: &str) -> &str {
    match arch {
        "i386" | "x86_64" => "x86",
        other => other,
    }
}

fn within(release: (u32, u32), (from, to): Range) -> bool {
    from.is_none_or(|from| release >= from) && to.is_none_or(|to| release <= to)
}

/// The model in force counts, and where it can be chosen at boot nothing need be built.
fn settle_preemption(findings: &mut Vec<Finding>, preemption: &Preemption) {
    let in_force = preemption.in_force.as_ref().map(|(model, _)| model.as_str());
    let is_full = |f: &Finding| f.rule == "kernel-PREEMPT";
    if preemption.dynamic && in_force.is_some_and(|m| m != "full") {
        findings.retain(|f| !is_full(f));
    }
    for finding in findings.iter_mut().filter(|f| is_full(f) && preemption.dynamic) {
        finding.remedy =
            vec!["preempt=none on the kernel command line: nothing need be built".to_owned()];
    }
}

impl Rule {
    fn applies_after(&self, config: &KernelConfig) -> bool {
        self.after.iter().all(|condition| {
            if let Some(option) = condition.strip_suffix("=n") {
                return config.get(option) == Some(&Value::Off);
            }
            match condition.strip_prefix('!') {
                Some(option) => !config.is_on(option),
                None => config.is_on(condition),
            }
        })
    }

    /// A parameter of the kernel command line took the option's cost away.
    fn taken_back(&self, running: &KernelFacts) -> bool {
        running.parameters.iter().any(|given| self.boot.contains(&given.as_str()))
    }

    /// The option's cost can be taken away at boot, without building anew.
    #[must_use]
    pub fn is_boot_choice(&self) -> bool {
        !self.boot.is_empty()
    }

    fn finding(&self, config: &KernelConfig, place: &str) -> Option<Finding> {
        let value = config.get(self.option);
        let matches = match self.wanted {
            Wanted::On => value.is_some_and(Value::is_set),
            Wanted::Off => !value.is_some_and(Value::is_set),
            Wanted::Below(limit) => match value {
                Some(Value::Text(text)) => text.parse::<u64>().is_ok_and(|n| n > 0 && n < limit),
                _ => false,
            },
        };
        if !matches {
            return None;
        }
        let option = self.option;
        let line = match value {
            Some(Value::Off) => format!("# CONFIG_{option} is not set"),
            Some(value) => format!("CONFIG_{option}={value}"),
            None => format!("CONFIG_{option} is not mentioned"),
        };
        let state = match (self.wanted, value) {
            (Wanted::Off, _) => "off".to_owned(),
            (_, Some(Value::Text(text))) => text.clone(),
            _ => "on".to_owned(),
        };
        let known = self.cost > 0.0;
        Some(Finding {
            rule: format!("kernel-{option}"),
            title: format!("{option} is {state}"),
            severity: self.severity,
            confidence: if known { Confidence::Likely } else { Confidence::Possible },
            cost: self.cost,
            evidence: vec![Evidence { place: place.to_owned(), value: line }],
            consequence: self.consequence.to_owned(),
            source: self.source.to_owned(),
            remedy: if self.remedy == "-" { vec![] } else { vec![self.remedy.clone()] },
        })
    }
}

/// True if an option is in the table: the first of those that differ to look at.
#[must_use]
pub fn matters(option: &str) -> Option<&'static Rule> {
    rules().iter().find(|rule| rule.option == option)
}

/// Entry of the table for an option that is on, on such a machine (`uname -m`).
#[must_use]
pub fn on_machine(option: &str, machine: &str) -> Option<&'static Rule> {
    const NAMES: &[(&str, &str)] = &[
        ("aarch64", "arm64"),
        ("arm", "arm"),
        ("mips", "mips"),
        ("riscv", "riscv"),
        ("ppc", "powerpc"),
        ("s390", "s390"),
        ("loongarch", "loongarch"),
    ];
    let arch = NAMES.iter().find(|(name, _)| machine.starts_with(name)).map_or("x86", |(_, a)| *a);
    let applies = |r: &Rule| r.architectures.is_empty() || r.architectures.contains(&arch);
    rules().iter().find(|r| r.option == option && r.wanted == Wanted::On && applies(r))
}

/// The part of a report that costs by being in the kernel and has no other rule to look whether it is in
/// force: debugging and tracing, a notice or graver, the dearest first.
#[must_use]
pub fn debugging(report: Report) -> Vec<Finding> {
    const APART: &[&str] = &["PREEMPT", "PREEMPT_RT", "CPU_FREQ_DEFAULT_GOV_POWERSAVE"];
    let lacks =
        |option: &str| rules().iter().any(|r| r.option == option && r.wanted == Wanted::Off);
    let mut findings = report.findings;
    findings.retain(|f| {
        let option = f.rule.trim_start_matches("kernel-");
        f.severity >= Severity::Notice && !APART.contains(&option) && !lacks(option)
    });
    findings
}

impl Rule {
    /// Cost in words.
    #[must_use]
    pub fn consequence(&self) -> &'static str {
        self.consequence
    }

    /// How grave it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Share of the rate that it cost where it was measured; 0 where it was not.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// Remedy.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::parse::config::read;

    fn config(text: &str) -> KernelConfig {
        read(text.as_bytes()).unwrap()
    }

    fn named(report: &Report, at_least: Severity) -> Vec<&str> {
        let these = report.findings.iter().filter(|f| f.severity >= at_least);
        these.map(|f| f.rule.trim_start_matches("kernel-")).collect()
    }

    #[test]
    fn every_line_of_the_table_is_read_and_says_all_it_must() {
        let lines = TABLE.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).count();
        let rules = rules();
        assert_eq!(rules.len(), lines, "a line is not understood");
        for rule in rules {
            assert!(rule.consequence.len() > 10 && rule.source.len() > 3, "{rule:?}");
            assert!((0.0..1.0).contains(&rule.cost), "{rule:?}");
            let known = ["x86", "arm64", "arm", "mips", "riscv", "powerpc", "s390", "loongarch"];
            assert!(rule.architectures.iter().all(|a| known.contains(a)), "{rule:?}");
            let warns = rule.severity >= Severity::Warning;
            assert!(!warns || rule.remedy != "-", "a warning says what to do: {rule:?}");
        }
    }

    const PI: &str = "# Linux/arm64 6.1.21 Kernel Configuration\nCONFIG_SMP=y\nCONFIG_RPS=y\n\
        CONFIG_XPS=y\nCONFIG_BQL=y\nCONFIG_RFS_ACCEL=y\nCONFIG_BPF_JIT=y\nCONFIG_WIREGUARD=m\n\
        CONFIG_KERNEL_MODE_NEON=y\nCONFIG_CRYPTO_CHACHA20_NEON=m\nCONFIG_CRYPTO_POLY1305_NEON=m\n\
        CONFIG_NF_CONNTRACK=m\nCONFIG_NF_FLOW_TABLE=m\nCONFIG_NFT_FLOW_OFFLOAD=m\nCONFIG_HZ=250\n";

    #[test]
    fn both_culprits_of_the_field_report_are_named_and_nothing_else_warns() {
        let slow = config(&format!(
            "{PI}CONFIG_PREEMPT=y\n# CONFIG_PREEMPT_NONE is not set\nCONFIG_IRQSOFF_TRACER=y\n\
             CONFIG_TRACE_IRQFLAGS=y\n"
        ));
        let report = check(&slow, "a.config", None);
        let warns = named(&report, Severity::Warning);
        assert_eq!(warns, ["PREEMPT", "IRQSOFF_TRACER", "TRACE_IRQFLAGS"]);
        assert!(report.findings[0].consequence.contains("394 -> 669"));
        assert_eq!(report.preemption.built, Some("full"));
        assert!(report.preemption.words().contains("only building anew"));
        let fast =
            config(&format!("{PI}CONFIG_PREEMPT_NONE=y\n# CONFIG_IRQSOFF_TRACER is not set\n"));
        assert_eq!(named(&check(&fast, "b.config", None), Severity::Notice), [""; 0]);
    }

    #[test]
    fn what_is_in_force_counts_where_it_can_be_chosen_at_boot() {
        let dynamic = config(&format!("{PI}CONFIG_PREEMPT=y\nCONFIG_PREEMPT_DYNAMIC=y\n"));
        let report = check(&dynamic, "x", None);
        assert_eq!(named(&report, Severity::Warning), ["PREEMPT"]);
        assert!(report.findings[0].remedy[0].contains("nothing need be built"));
        let facts = |model: &str| KernelFacts {
            preemption: Some(model.to_owned()),
            preemption_source: Some("debugfs sched/preempt".to_owned()),
            ..KernelFacts::default()
        };
        let report = check(&dynamic, "x", Some(&facts("none")));
        assert_eq!(named(&report, Severity::Warning), [""; 0]);
        assert!(report.preemption.words().contains("none in force (debugfs"));
        let report = check(&dynamic, "x", Some(&facts("full")));
        assert_eq!(named(&report, Severity::Warning), ["PREEMPT"]);
    }

    #[test]
    fn architecture_version_and_what_an_option_needs_are_minded() {
        let mips = config("# Linux/mips 5.15.0 Kernel Configuration\nCONFIG_WIREGUARD=m\n");
        let report = check(&mips, "x", None);
        let all = named(&report, Severity::Info);
        assert!(all.contains(&"CRYPTO_POLY1305_MIPS") && !all.contains(&"CRYPTO_POLY1305_NEON"));
        // CPU_MIPS32_R2 is not this processor, and without SMP there is nothing to spread.
        assert!(!all.contains(&"CRYPTO_CHACHA_MIPS") && !all.contains(&"RPS"), "{all:?}");
        let new = config(
            "# Linux/arm64 6.18.0 Kernel Configuration\nCONFIG_WIREGUARD=m\n\
                          CONFIG_SMP=y\nCONFIG_KERNEL_MODE_NEON=y\n",
        );
        assert!(!named(&check(&new, "x", None), Severity::Info).contains(&"CRYPTO_CHACHA20_NEON"));
        let bare = config("CONFIG_KFENCE=y\nCONFIG_KFENCE_SAMPLE_INTERVAL=5\n");
        let report = check(&bare, "x", None);
        assert_eq!(report.not_judged.len(), 3, "{:?}", report.not_judged);
        assert!(named(&report, Severity::Notice).contains(&"KFENCE_SAMPLE_INTERVAL"));
        let off = config("CONFIG_KFENCE=y\nCONFIG_KFENCE_SAMPLE_INTERVAL=0\n");
        assert!(
            !named(&check(&off, "x", None), Severity::Info).contains(&"KFENCE_SAMPLE_INTERVAL")
        );
    }

    #[test]
    fn distributions_own_kernels_are_not_blamed_for_what_they_cannot_have() {
        // Debian's 6.1 for armel: ARMv6 and older have no NEON.
        let armel = "# Linux/arm 6.1.176 Kernel Configuration\nCONFIG_CPU_V6=y\n\
                     CONFIG_WIREGUARD=m\nCONFIG_CRYPTO_CHACHA20_NEON=m\nCONFIG_CRYPTO_POLY1305_ARM=m\n";
        assert_eq!(named(&check(&config(armel), "x", None), Severity::Warning), [""; 0]);
        let armhf = armel.replace("CPU_V6", "CPU_V7");
        let report = check(&config(&armhf), "x", None);
        assert_eq!(named(&report, Severity::Warning), ["KERNEL_MODE_NEON"]);
        // Its 6.12 for real time on arm64: PREEMPT is what PREEMPT_RT brings with it.
        let rt = config(&format!("{PI}CONFIG_PREEMPT=y\nCONFIG_PREEMPT_RT=y\n"));
        assert_eq!(named(&check(&rt, "x", None), Severity::Warning), ["PREEMPT_RT"]);
    }

    #[test]
    fn a_part_of_a_configuration_is_not_blamed_for_what_it_leaves_out() {
        // As OpenWrt's target/linux/mediatek/filogic/config-6.6.
        let part = config(
            "CONFIG_64BIT=y\nCONFIG_ARM64=y\nCONFIG_SMP=y\nCONFIG_RPS=y\n\
             CONFIG_PREEMPT_NONE_BUILD=y\n# CONFIG_XPS is not set\n",
        );
        let report = check(&part, "x", None);
        assert_eq!(named(&report, Severity::Info), ["XPS"]);
        assert_eq!(report.preemption.built, Some("none"));
        assert!(report.not_judged.iter().any(|why| why.contains("not mentioned")));
        let silent = config("CONFIG_NET=y\n");
        let words = check(&silent, "x", None).preemption.words();
        assert_eq!(words, "preemption: not said in this file");
    }
}
