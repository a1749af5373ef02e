//! Values of knobs, compared by meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::cpuset::CpuSet;

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// A set of CPUs.
    Cpus(CpuSet),
    /// A set of queues: the same kind of set, of queue numbers.
    Queues(CpuSet),
    /// A count.
    Count(u64),
    /// On or off.
    Switch(bool),
    /// A word, or several with one blank between them.
    Word(String),
}

impl Value {
    /// The text that is written to the kernel's file (masks in hexadecimal).
    #[must_use]
    pub fn to_kernel(&self) -> String {
        match self {
            Self::Cpus(set) | Self::Queues(set) => set.to_mask(),
            Self::Count(n) => n.to_string(),
            Self::Switch(on) => u8::from(*on).to_string(),
            Self::Word(word) => word.clone(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(set) | Self::Queues(set) if set.is_empty() => f.write_str("off"),
            Self::Queues(set) if set.len() == 1 => write!(f, "queue {set}"),
            Self::Queues(set) => write!(f, "queues {set}"),
            Self::Cpus(set) if set.len() == 1 => write!(f, "CPU {set}"),
            Self::Cpus(set) => write!(f, "CPUs {set}"),
            Self::Count(n) => write!(f, "{n}"),
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Word(word) => f.write_str(word),
        }
    }
}
