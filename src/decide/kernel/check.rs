//! Options of a kernel that cost forwarding or WireGuard: the table of options, held against
//! a configuration and, where it runs, what it was told when it started.

use std::collections::BTreeSet;

use super::preemption::Preemption;
use super::table::{Cost, Filled, Rule, Untold, Wanted, filled, rules};
use crate::model::finding::{Confidence, Evidence, Finding, Severity};
use crate::model::kconfig::{Extent, KernelConfig, Value};
use crate::model::order::InOrder;
use crate::model::path::KernelFacts;

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

/// Holds the table against a configuration. `place` names it in the evidence; `running` are the
/// facts of the running kernel when the configuration is its own.
#[must_use]
pub fn check(config: &KernelConfig, place: &str, running: Option<&KernelFacts>) -> Report {
    // So few lines are a fragment to be merged with others (`hardening.config`); the shortest
    // defconfigs of Linux 6.12 have 31.
    let is_part = config.extent == Extent::Part
        || config.extent == Extent::Defconfig && config.options.len() <= 30;
    let Filled { config, untold } = filled(config);
    let mentioned = |option: &str| config.get(option).is_some();
    let packaged = config.extent != Extent::Whole && is_openwrts(&config);
    let preemption = Preemption::of(&config, running);
    let mut findings = Vec::new();
    let (mut lacks, mut unmentioned, mut by_packages) = (BTreeSet::new(), false, false);
    for rule in rules() {
        match rule.holds(&config) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(what) => {
                // What is off is no matter, whatever the file lacks.
                if rule.wanted == Wanted::Off || mentioned(rule.option) {
                    lacks.insert(what);
                }
                continue;
            }
        }
        if running.is_some_and(|facts| rule.is_taken_back(&facts.parameters)) {
            continue;
        }
        if rule.wanted == Wanted::Off && !mentioned(rule.option) {
            if let Some((_, what)) = untold.iter().find(|(option, _)| *option == rule.option) {
                lacks.insert(*what);
                continue;
            }
            if is_part {
                unmentioned = true;
                continue;
            }
        }
        if packaged && rule.wanted == Wanted::Off && PACKAGED.contains(&rule.option) {
            by_packages = true;
            continue;
        }
        if rule.is_met(&config) {
            findings.push(rule.finding(&config, place));
        }
    }
    settle_preemption(&mut findings, &preemption);
    by_cost(&mut findings);
    let mut not_judged: Vec<String> = lacks.into_iter().map(|l| l.words().to_owned()).collect();
    if unmentioned {
        let why = "options that are not mentioned: this is a part of a configuration; give the \
                   other parts as well, the most general first";
        not_judged.push(why.to_owned());
    }
    if by_packages {
        let why = "what OpenWrt's packages of modules (kmod-*) build whatever its targets say";
        not_judged.push(format!("{}: {why}", PACKAGED.join(", ")));
    }
    Report { findings, preemption, not_judged }
}

/// Modules that OpenWrt's packages switch on (package/kernel/linux/modules/netfilter.mk), and the
/// configurations of its targets leave off.
const PACKAGED: &[&str] = &["NF_CONNTRACK", "NF_FLOW_TABLE", "NFT_FLOW_OFFLOAD"];

/// True for OpenWrt's configurations, generic or of a target: its own options of flash partitions.
fn is_openwrts(config: &KernelConfig) -> bool {
    config.options.keys().any(|option| option.starts_with("MTD_SPLIT"))
}

impl Untold {
    fn words(self) -> &'static str {
        match self {
            Self::Architecture => "options of one architecture: the file does not say which it is",
            Self::Version => {
                "options of some kernel versions: neither the file nor its name has the version"
            }
        }
    }
}

/// The dearest first.
fn by_cost(findings: &mut [Finding]) {
    findings.order_by(|a, b| {
        let cost = |f: &Finding| (f.cost * 1000.0) as u32;
        b.severity.cmp(&a.severity).then(cost(b).cmp(&cost(a)))
    });
}

/// The model in force counts, and where it can be chosen at boot nothing need be built.
fn settle_preemption(findings: &mut Vec<Finding>, preemption: &Preemption) {
    let in_force = preemption.in_force.as_ref().map(|(model, _)| model.as_str());
    let is_full = |f: &Finding| f.rule == "kernel-PREEMPT";
    if preemption.dynamic && in_force.is_some_and(|m| m != "full") {
        findings.retain(|f| !is_full(f));
    }
    for finding in findings.iter_mut().filter(|f| is_full(f)) {
        let kernel = preemption.kernel;
        let remedy = if preemption.dynamic { kernel.boot() } else { kernel.build() };
        finding.remedy = vec![remedy.to_owned()];
    }
}

impl Rule {
    fn finding(&self, config: &KernelConfig, place: &str) -> Finding {
        let value = config.get(self.option);
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
        let known = matches!(self.cost, Cost::Measured { .. });
        Finding {
            rule: format!("kernel-{option}"),
            title: format!("{option} is {state}"),
            severity: self.severity,
            confidence: if known { Confidence::Likely } else { Confidence::Possible },
            cost: self.cost.share(),
            evidence: vec![Evidence { place: place.to_owned(), value: line }],
            consequence: self.consequence(),
            source: self.source.to_owned(),
            remedy: if self.remedy == "-" { vec![] } else { vec![self.remedy.clone()] },
        }
    }
}

/// Entry of the table for an option that is on, on such a machine (`uname -m`), beside these others.
#[must_use]
pub fn on_machine(option: &str, machine: &str, beside: &[String]) -> Option<&'static Rule> {
    rules().iter().find(|rule| rule.is_of(option, of_machine(machine), beside))
}

/// The kernel's name of the architecture of a machine (`uname -m`).
#[must_use]
pub fn of_machine(machine: &str) -> &'static str {
    const NAMES: &[(&str, &str)] = &[
        ("aarch64", "arm64"),
        ("arm", "arm"),
        ("mips", "mips"),
        ("riscv", "riscv"),
        ("ppc", "powerpc"),
        ("s390", "s390"),
        ("loongarch", "loongarch"),
    ];
    NAMES.iter().find(|(name, _)| machine.starts_with(name)).map_or("x86", |(_, a)| *a)
}

/// The part of a report that costs by being in the kernel and has no other rule to look whether it is in
/// force: debugging and tracing, a notice or graver, the dearest first.
#[must_use]
pub fn debugging(report: Report) -> Vec<Finding> {
    const APART: &[&str] = &[
        "PREEMPT",
        "PREEMPT_RT",
        "CPU_FREQ_DEFAULT_GOV_POWERSAVE",
        "IOMMU_DEFAULT_DMA_STRICT",
        "UNWINDER_FRAME_POINTER",
        "SLUB_TINY",
        "SLOB",
    ];
    let lacks =
        |option: &str| rules().iter().any(|r| r.option == option && r.wanted == Wanted::Off);
    let mut findings = report.findings;
    findings.retain(|f| {
        let option = f.rule.trim_start_matches("kernel-");
        f.severity >= Severity::Notice && !APART.contains(&option) && !lacks(option)
    });
    findings
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

    const PI: &str = "# Linux/arm64 6.1.21 Kernel Configuration\nCONFIG_SMP=y\nCONFIG_RPS=y\n\
        CONFIG_XPS=y\nCONFIG_BQL=y\nCONFIG_RFS_ACCEL=y\nCONFIG_BPF_JIT=y\nCONFIG_WIREGUARD=m\n\
        CONFIG_KERNEL_MODE_NEON=y\nCONFIG_CRYPTO_CHACHA20_NEON=m\nCONFIG_CRYPTO_POLY1305_NEON=m\n\
        CONFIG_NF_CONNTRACK=m\nCONFIG_NF_FLOW_TABLE=m\nCONFIG_NFT_FLOW_OFFLOAD=m\nCONFIG_HZ=250\n\
        CONFIG_JUMP_LABEL=y\nCONFIG_HIGH_RES_TIMERS=y\n";

    #[test]
    fn both_culprits_of_the_field_report_are_named_and_nothing_else_warns() {
        let slow = config(&format!(
            "{PI}CONFIG_PREEMPT=y\n# CONFIG_PREEMPT_NONE is not set\nCONFIG_IRQSOFF_TRACER=y\n\
             CONFIG_TRACE_IRQFLAGS=y\n"
        ));
        let report = check(&slow, "a.config", None);
        let warns = named(&report, Severity::Warning);
        assert_eq!(
            warns,
            ["PREEMPT", "IRQSOFF_TRACER"],
            "what one selects is no finding of its own"
        );
        assert!(report.findings[0].consequence.contains("394 of 669"));
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

    /// Linux 7.0 took PREEMPT_NONE away and refuses preempt=none where there is lazy preemption.
    #[test]
    fn what_is_advised_can_be_had_with_that_version_on_that_architecture() {
        let remedy = |arch: &str, version: &str, more: &str| {
            let text =
                format!("# Linux/{arch} {version} Kernel Configuration\nCONFIG_PREEMPT=y\n{more}");
            let report = check(&config(&text), "x", None);
            let full = report.findings.into_iter().find(|f| f.rule == "kernel-PREEMPT");
            (full.unwrap().remedy.remove(0), report.preemption.words())
        };
        let dynamic = "CONFIG_PREEMPT_DYNAMIC=y\n";
        assert!(remedy("arm64", "6.12.0", "").0.starts_with("build with PREEMPT_NONE"));
        assert!(remedy("arm64", "7.0.0", "").0.starts_with("build with PREEMPT_LAZY"));
        assert!(remedy("arm", "7.3.0", "").0.starts_with("build with PREEMPT_VOLUNTARY"));
        assert!(remedy("x86", "6.18.0", dynamic).0.starts_with("preempt=none"));
        let (boot, words) = remedy("x86", "7.0.0", dynamic);
        assert!(boot.starts_with("preempt=lazy") && !words.contains("preempt=none"), "{words}");
        // A defconfig that still names what is gone gets the default.
        let old = config(
            "# Armbian defconfig generated with 7.1\nCONFIG_PREEMPT_VOLUNTARY=y\n\
                          CONFIG_ARM64_VA_BITS_48=y\n",
        );
        assert_eq!(check(&old, "x", None).preemption.built, Some("lazy"));
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
        let bare = config(
            "CONFIG_KFENCE=y\nCONFIG_KFENCE_SAMPLE_INTERVAL=5\nCONFIG_HAVE_A=y\n\
             CONFIG_HAVE_B=y\nCONFIG_HAVE_C=y\nCONFIG_PREEMPT=y\nCONFIG_WIREGUARD=m\n\
             CONFIG_SLAB=y\nCONFIG_DEBUG_SLAB=y\n",
        );
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
        let armhf = armel.replace("CPU_V6", "NEON");
        let report = check(&config(&armhf), "x", None);
        assert_eq!(named(&report, Severity::Warning), ["KERNEL_MODE_NEON"]);
        // Its 6.12 for real time on arm64: PREEMPT is what PREEMPT_RT brings with it.
        let rt = config(&format!("{PI}CONFIG_PREEMPT=y\nCONFIG_PREEMPT_RT=y\n"));
        assert_eq!(named(&check(&rt, "x", None), Severity::Warning), ["PREEMPT_RT"]);
    }

    /// As target/linux/generic/config-6.6 with a target's.
    #[test]
    fn what_openwrts_packages_switch_on_is_not_said_to_be_off() {
        let own = "# CONFIG_NF_CONNTRACK is not set\n# CONFIG_NF_FLOW_TABLE is not set\n\
                   CONFIG_ARM64=y\nCONFIG_SMP=y\nCONFIG_RPS=y\n";
        let report = check(&config(&format!("{own}CONFIG_MTD_SPLIT_FIRMWARE=y\n")), "x", None);
        assert!(!named(&report, Severity::Info).contains(&"NF_CONNTRACK"));
        assert!(report.not_judged.iter().any(|why| why.contains("kmod-")), "{report:?}");
        // Anybody else's says what it is, and so does what OpenWrt built.
        let built =
            format!("# Linux/arm64 6.6.1 Kernel Configuration\n{own}CONFIG_MTD_SPLIT_FIRMWARE=y\n");
        for other in [own, built.as_str()] {
            let report = check(&config(other), "x", None);
            assert!(named(&report, Severity::Info).contains(&"NF_CONNTRACK"), "{other}");
        }
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
        // Linux 6.12, arch/riscv/configs/64-bit.config: SMP is not off by what that leaves out.
        let fragment =
            config("# Help: Build a 64-bit image\nCONFIG_ARCH_RV64I=y\nCONFIG_64BIT=y\n");
        let report = check(&fragment, "x", None);
        assert_eq!(named(&report, Severity::Info), [""; 0]);
        assert!(report.not_judged.iter().any(|why| why.contains("not mentioned")));
        let silent = config("CONFIG_NET=y\n");
        let words = check(&silent, "x", None).preemption.words();
        assert_eq!(words, "preemption: not said in this file");
    }
}
