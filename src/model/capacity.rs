//! How much work a CPU can do, and how that was learnt.

use serde::{Deserialize, Serialize};

/// How a fact was learnt, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The kernel states it.
    Kernel,
    /// The firmware states it (ACPI CPPC, highest performance), for x86 with two types of cores.
    Firmware,
    /// Derived from what this type of core does per cycle, and its maximum frequency where known.
    CoreType,
    /// A board file states it.
    Board,
    /// Derived from the maximum frequency.
    Frequency,
    /// Nothing is known; all CPUs are taken as equal.
    #[default]
    Assumed,
}

/// Capacity of a CPU; 1024 is the biggest CPU of the machine (the kernel's `cpu_capacity` scale).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capacity {
    /// 1 to 1024.
    pub value: u32,
    /// How it was learnt.
    pub source: Source,
}
