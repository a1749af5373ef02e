//! Units and identities as types, so that a CPU number is never taken for an interrupt line.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A logical CPU, by the kernel's number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU{}", self.0)
    }
}

/// A Linux interrupt number. Valid for this boot only: never store it as an identity.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct IrqLine(pub u32);

impl fmt::Display for IrqLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Bits per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitRate(pub f64);

impl BitRate {
    /// Rate of `bytes` moved in `seconds`; zero when no time has passed.
    #[must_use]
    pub fn of(bytes: u64, seconds: f64) -> Self {
        if seconds > 0.0 { Self(bytes as f64 * 8.0 / seconds) } else { Self(0.0) }
    }

    /// In megabits (10^6 bits) per second.
    #[must_use]
    pub fn mbps(self) -> f64 {
        self.0 / 1e6
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} Mbit/s", self.mbps())
    }
}
