//! How a kernel lets itself be interrupted, and how else it could.

use crate::model::kconfig::{KernelConfig, PREEMPTION_MODELS};
use crate::model::path::KernelFacts;

/// How a kernel lets itself be interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// Preemption model that the kernel was built with: `none`, `voluntary`, `full`, `lazy`, `rt`.
    pub built: Option<&'static str>,
    /// True if `preempt=` on the kernel command line chooses another without building anew.
    pub dynamic: bool,
    /// Preemption model in force, and how that is known; `None` for a file.
    pub in_force: Option<(String, String)>,
    pub(super) kernel: PreemptionChoices,
}

/// Preemption models that a kernel can be had with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreemptionChoices {
    /// All, none among them: before Linux 7.0.
    WithNone,
    /// Lazy and full: from 7.0 on, where the architecture has lazy preemption
    /// (kernel/Kconfig.preempt; `sched_dynamic_mode` refuses none and voluntary).
    LazyOrFull,
    /// Voluntary and full: from 7.0 on, elsewhere.
    VoluntaryOrFull,
    /// The version is not known.
    Unknown,
}

/// Architectures with lazy preemption in 7.0 (`ARCH_HAS_PREEMPT_LAZY` in arch/*/Kconfig).
const LAZY: &[&str] = &["x86", "arm64", "riscv", "powerpc", "s390", "loongarch"];

impl PreemptionChoices {
    /// Choices of a kernel of this version and architecture.
    #[must_use]
    pub fn of(release: Option<(u32, u32)>, arch: Option<&str>) -> Self {
        match release {
            None => Self::Unknown,
            Some(release) if release < (7, 0) => Self::WithNone,
            Some(_) if arch.is_none_or(|arch| LAZY.contains(&arch)) => Self::LazyOrFull,
            Some(_) => Self::VoluntaryOrFull,
        }
    }

    /// Parameter of the kernel command line that costs the least, where that can choose.
    #[must_use]
    pub fn boot(self) -> &'static str {
        match self {
            Self::WithNone => "preempt=none on the kernel command line: nothing need be built",
            Self::LazyOrFull => {
                "preempt=lazy on the kernel command line: nothing need be built (from 7.0 on the \
                 kernel refuses preempt=none)"
            }
            Self::VoluntaryOrFull => {
                "preempt=voluntary on the kernel command line: nothing need be built"
            }
            Self::Unknown => {
                "preempt=none (from 7.0 on preempt=lazy) on the kernel command line: nothing need \
                 be built"
            }
        }
    }

    /// Model to build with.
    #[must_use]
    pub fn build(self) -> &'static str {
        match self {
            Self::WithNone => "build with PREEMPT_NONE, and measure",
            Self::LazyOrFull => {
                "build with PREEMPT_LAZY, and measure (from 7.0 on there is no PREEMPT_NONE)"
            }
            Self::VoluntaryOrFull => {
                "build with PREEMPT_VOLUNTARY, and measure (from 7.0 on there is no PREEMPT_NONE)"
            }
            Self::Unknown => "build with PREEMPT_NONE (from 7.0 on PREEMPT_LAZY), and measure",
        }
    }

    /// Models that are no more, and that a defconfig may still name.
    pub(super) fn gone(self) -> &'static [&'static str] {
        match self {
            Self::LazyOrFull => &["PREEMPT_NONE", "PREEMPT_VOLUNTARY"],
            Self::VoluntaryOrFull => &["PREEMPT_NONE"],
            Self::WithNone | Self::Unknown => &[],
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::LazyOrFull => "preempt=lazy or full",
            Self::VoluntaryOrFull => "preempt=voluntary or full",
            Self::WithNone | Self::Unknown => "preempt=none, voluntary or full",
        }
    }
}

impl Preemption {
    pub(super) fn of(config: &KernelConfig, running: Option<&KernelFacts>) -> Self {
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
            kernel: PreemptionChoices::of(config.release(), config.arch.as_deref()),
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
            (Some("rt"), _) => "; only another kernel changes that".to_owned(),
            (_, true) => {
                format!("; {} on the kernel command line chooses, no building", self.kernel.words())
            }
            (Some(_), false) => "; only building anew changes that".to_owned(),
            (None, false) => String::new(),
        };
        format!("preemption: built with {built}{force}{change}")
    }
}
