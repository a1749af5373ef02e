//! A set of CPUs, and the two ways the kernel writes one.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::units::CpuId;

/// A set of logical CPUs. Written as a list (`0-3,6`), or as the kernel's hexadecimal mask by
/// [`CpuSet::to_mask`]. Two sets are equal by meaning, whatever form they were read in.
///
/// Kept as bits, 64 to a word, lowest first, without empty words at the end: a machine with hundreds
/// of CPUs has thousands of sets of them.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuSet(Vec<u64>);

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
        Self::from_iter([cpu])
    }

    /// True if there is no CPU in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if `cpu` is in it.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.get((cpu.0 / 64) as usize).is_some_and(|word| word >> (cpu.0 % 64) & 1 == 1)
    }

    /// Adds `cpu`; numbers from [`CpuSet::MAX`] on are not representable and are left out.
    pub fn insert(&mut self, cpu: CpuId) {
        if cpu.0 < Self::MAX {
            self.add((cpu.0 / 64) as usize, 1 << (cpu.0 % 64));
        }
    }

    /// Adds `bits` to word `at`.
    fn add(&mut self, at: usize, bits: u64) {
        if bits == 0 {
            return;
        }
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        if let Some(word) = self.0.get_mut(at) {
            *word |= bits;
        }
    }

    /// Adds the CPUs from `first` to `last`, which is below [`CpuSet::MAX`].
    fn insert_range(&mut self, first: u32, last: u32) {
        for at in first / 64..=last / 64 {
            let from = first.saturating_sub(at * 64).min(63);
            let to = last.saturating_sub(at * 64).min(63);
            self.add(at as usize, u64::MAX << from & u64::MAX >> (63 - to));
        }
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = CpuId> + '_ {
        let words = self.0.iter().enumerate();
        words.flat_map(|(at, word)| Bits { first: at as u32 * 64, left: *word })
    }

    /// The CPUs in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::trimmed(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours & theirs).collect())
    }

    /// The CPUs in this one only.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let theirs = other.0.iter().chain(std::iter::repeat(&0));
        Self::trimmed(self.0.iter().zip(theirs).map(|(ours, theirs)| ours & !theirs).collect())
    }

    /// True if every CPU of this one is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    fn trimmed(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self(words)
    }

    /// The kernel's mask form: hexadecimal, no `0x`, a comma every 32 bits, highest word first
    /// (lib/bitmap.c, `%*pb`). The empty set is `0`.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let halves = self.0.iter().rev().flat_map(|word| [word >> 32, word & 0xffff_ffff]);
        let mut text = String::new();
        for half in halves.skip_while(|half| *half == 0) {
            if text.is_empty() {
                text = format!("{half:x}");
            } else {
                text.push_str(&format!(",{half:08x}"));
            }
        }
        if text.is_empty() { "0".into() } else { text }
    }
}

/// The CPUs of one word that are left to tell.
struct Bits {
    first: u32,
    left: u64,
}

impl Iterator for Bits {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        let bit = (self.left != 0).then(|| self.left.trailing_zeros())?;
        self.left &= self.left - 1;
        Some(CpuId(self.first + bit))
    }
}

impl DoubleEndedIterator for Bits {
    fn next_back(&mut self) -> Option<CpuId> {
        let bit = (self.left != 0).then(|| 63 - self.left.leading_zeros())?;
        self.left &= !(1 << bit);
        Some(CpuId(self.first + bit))
    }
}

/// As sorted lists of numbers compare.
impl Ord for CpuSet {
    fn cmp(&self, other: &Self) -> Ordering {
        let word = |set: &Self, at: usize| set.0.get(at).copied().unwrap_or(0);
        let longest = self.0.len().max(other.0.len());
        let Some(at) = (0..longest).find(|at| word(self, *at) != word(other, *at)) else {
            return Ordering::Equal;
        };
        // The first number that only one of them has: the other goes on with a larger one, or is
        // at its end.
        let (ours, theirs) = (word(self, at), word(other, at));
        let first = 1_u64 << (ours ^ theirs).trailing_zeros();
        let goes_on = |set: &Self, word: u64| word > first || set.0.len() > at + 1;
        match ours & first != 0 {
            true if goes_on(other, theirs & !(first - 1)) => Ordering::Less,
            true => Ordering::Greater,
            false if goes_on(self, ours & !(first - 1)) => Ordering::Greater,
            false => Ordering::Less,
        }
    }
}

impl PartialOrd for CpuSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
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
        let mut rest = self.iter().map(|c| c.0).peekable();
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
            set.insert_range(start, end);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_compare_as_the_lists_of_their_numbers() {
        let lists = ["", "0", "0-1", "0-1,64", "0,2", "0,64", "1", "1,63-64", "63", "64", "64-65"];
        let sets: Vec<CpuSet> = lists.iter().map(|list| list.parse().unwrap()).collect();
        for a in &sets {
            for b in &sets {
                assert_eq!(a.cmp(b), a.iter().cmp(b.iter()), "{a} and {b}");
            }
            let back: Vec<CpuId> = a.iter().rev().collect();
            assert!(back.iter().rev().copied().eq(a.iter()), "{a}");
        }
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_sorted_list_of_numbers(
            ours in proptest::collection::btree_set(0..200_u32, 0..20),
            theirs in proptest::collection::btree_set(0..200_u32, 0..20),
        ) {
            let set = |of: &BTreeSet<u32>| of.iter().copied().map(CpuId).collect::<CpuSet>();
            let list = |of: &CpuSet| of.iter().map(|c| c.0).collect::<BTreeSet<u32>>();
            let (a, b) = (set(&ours), set(&theirs));
            prop_assert_eq!(list(&a), ours.clone());
            prop_assert_eq!(a.len(), ours.len());
            prop_assert_eq!(a.first().map(|c| c.0), ours.first().copied());
            prop_assert_eq!(list(&a.intersection(&b)), &ours & &theirs);
            prop_assert_eq!(list(&a.difference(&b)), &ours - &theirs);
            prop_assert_eq!(a.is_subset(&b), ours.is_subset(&theirs));
            prop_assert_eq!(a.cmp(&b), ours.cmp(&theirs));
            prop_assert_eq!(a == b, ours == theirs);
            prop_assert_eq!(a.difference(&a), CpuSet::empty());
            prop_assert_eq!(a.to_string().parse::<CpuSet>().unwrap(), a);
        }

        #[test]
        fn a_range_is_its_numbers(first in 0..300_u32, more in 0..300_u32) {
            let range: CpuSet = format!("{first}-{}", first + more).parse().unwrap();
            let numbers: CpuSet = (first..=first + more).map(CpuId).collect();
            prop_assert_eq!(range, numbers);
        }
    }
}
