//! A set of CPUs, and the two ways the kernel writes one.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::units::CpuId;

/// A set of logical CPUs. Written as a list (`0-3,6`), or as the kernel's hexadecimal mask by
/// [`CpuSet::to_mask`]. Two sets are equal by meaning, whatever form they were read in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuSet(BTreeSet<CpuId>);

impl CpuSet {
    /// The largest CPU number (exclusive) that a set can hold; the kernel's own limit (`NR_CPUS`)
    /// is 8192 on the largest configurations.
    pub const MAX: u32 = 8192;

    /// No CPU at all. As an RPS mask this means "off".
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// One CPU alone.
    #[must_use]
    pub fn single(cpu: CpuId) -> Self {
        Self([cpu].into())
    }

    /// Whether there is no CPU in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether `cpu` is in it.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.contains(&cpu)
    }

    /// Adds `cpu`; numbers from [`CpuSet::MAX`] on are not representable and are left out.
    pub fn insert(&mut self, cpu: CpuId) {
        if cpu.0 < Self::MAX {
            self.0.insert(cpu);
        }
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.0.first().copied()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = CpuId> + '_ {
        self.0.iter().copied()
    }

    /// The CPUs in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The CPUs in this one only.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Whether every CPU of this one is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// The kernel's mask form: hexadecimal, no `0x`, a comma every 32 bits, highest word first
    /// (lib/bitmap.c, `%*pb`). The empty set is `0`.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(1, |c| c.0 / 32 + 1);
        let mut text = String::new();
        for word in (0..words).rev() {
            let bits = self
                .0
                .range(CpuId(word * 32)..CpuId((word + 1) * 32))
                .fold(0u32, |bits, cpu| bits | 1 << (cpu.0 % 32));
            if text.is_empty() {
                text = format!("{bits:x}");
            } else {
                text.push_str(&format!(",{bits:08x}"));
            }
        }
        text
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(iter: I) -> Self {
        let mut set = Self::empty();
        iter.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

/// The kernel's list form, `0-3,6`; the empty set is the empty text.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().map(|c| c.0).peekable();
        let mut separator = "";
        while let Some(start) = rest.next() {
            let mut end = start;
            while rest.next_if(|&next| next == end + 1).is_some() {
                end += 1;
            }
            if start == end {
                write!(f, "{separator}{start}")?;
            } else {
                write!(f, "{separator}{start}-{end}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// The text is not a list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a CPU list: {0:?}")]
pub struct NotACpuList(pub String);

/// Reads the list form (`0-3,6`; the kernel's stride form `0-6:1/2` is not written by it here).
impl std::str::FromStr for CpuSet {
    type Err = NotACpuList;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || NotACpuList(text.chars().take(80).collect());
        let number =
            |digits: &str| digits.parse::<u32>().ok().filter(|&n| n < Self::MAX).ok_or_else(bad);
        let mut set = Self::empty();
        for part in text.trim().split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (start, end) = match part.split_once('-') {
                Some((start, end)) => (number(start)?, number(end)?),
                None => (number(part)?, number(part)?),
            };
            if start > end {
                return Err(bad());
            }
            (start..=end).for_each(|cpu| set.insert(CpuId(cpu)));
        }
        Ok(set)
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
