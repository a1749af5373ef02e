//! How two configurations differ: choices first, and below each what differs only because of it.
//!
//! A `.config` file names an option that could be on and is not (`# CONFIG_X is not set`), and
//! leaves out what can't be on. So an option that both files name was a choice in both; one that
//! only one file names follows from something else, from its parent. Which parent is not written in
//! the file: known selections first, then the option whose name its own begins with, then the one
//! right before it.
//!
//! A defconfig names what somebody chose, and nothing else: there each option is a choice, but for
//! those whose names begin with another that differs. Options of the table are always choices, at
//! their defaults where a file does not mention them.

use std::collections::{BTreeMap, BTreeSet};

use super::family;
use super::table::{matters, stated, strikes};
use crate::model::kconfig::{Extent, KernelConfig, Value};

/// An option that is not the same in both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name, without `CONFIG_`.
    pub name: String,
    /// Value in A; `None` when the file does not mention it.
    pub a: Option<Value>,
    /// Value in B.
    pub b: Option<Value>,
}

impl Difference {
    /// Both files name it: it was chosen.
    fn is_chosen(&self) -> bool {
        self.a.is_some() && self.b.is_some()
    }

    /// True if A has more of it than B: on, where the other is off or can't be on.
    fn more_in_a(&self) -> bool {
        let on = |value: &Option<Value>| value.as_ref().is_some_and(Value::is_set);
        on(&self.a) && !on(&self.b)
    }

    /// `y -> n`.
    #[must_use]
    pub fn change(&self) -> String {
        let of = |v: &Option<Value>| v.as_ref().map_or_else(|| "-".to_owned(), Value::to_string);
        format!("{} -> {}", of(&self.a), of(&self.b))
    }
}

/// A choice that differs, with all that differs because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The option, or the choice among several, that it is about.
    pub name: String,
    /// Options that were chosen differently; never empty.
    pub chosen: Vec<Difference>,
    /// Differences that follow from the choice.
    pub follows: Vec<Difference>,
    /// Cost of the choice in one of the two kernels and not in the other.
    pub cost: Option<Consequence>,
}

/// Cost of an option in one of two kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consequence {
    /// Option, without `CONFIG_`.
    pub option: String,
    /// The kernel that it costs something in: `A` or `B`.
    pub kernel: &'static str,
    /// Cost in words.
    pub words: String,
}

impl Group {
    fn new(name: String, chosen: Difference) -> Self {
        Self { name, chosen: vec![chosen], follows: vec![], cost: None }
    }

    /// The first of its options that costs something in one of the two, and nothing in the other.
    fn consequence(&self, a: &KernelConfig, b: &KernelConfig) -> Option<Consequence> {
        self.chosen.iter().chain(&self.follows).find_map(|difference| {
            let name = difference.name.as_str();
            let (kernel, rule) = match (strikes(name, a), strikes(name, b)) {
                (Some(rule), None) => ("A", rule),
                (None, Some(rule)) => ("B", rule),
                _ => return None,
            };
            Some(Consequence { option: name.to_owned(), kernel, words: rule.consequence() })
        })
    }
}

/// Differences between two configurations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// The choices, in the order of A's file.
    pub groups: Vec<Group>,
    /// Options that only one file names and no choice explains: options that one kernel does not know, when
    /// the versions differ.
    pub only_one: Vec<Difference>,
    /// Facts of the build: compilers, and what the architecture brings.
    pub surroundings: Vec<Difference>,
    /// Why the two are hard to compare; empty when they are not.
    pub warnings: Vec<String>,
    /// Not mentioned means the default in both, and not off.
    pub by_default: bool,
}

/// Sets two configurations side by side.
#[must_use]
pub fn diff(a: &KernelConfig, b: &KernelConfig) -> Diff {
    let by_default = a.extent != Extent::Whole && b.extent != Extent::Whole;
    let mut diff = Diff { warnings: warnings(a, b), by_default, ..Diff::default() };
    let (a, b) = (&stated(a), &stated(b));
    let mut rest = Vec::new();
    for difference in differences(a, b) {
        if family::is_surroundings(&difference.name) {
            diff.surroundings.push(difference);
        } else {
            rest.push(difference);
        }
    }
    let (chosen, follows): (Vec<_>, Vec<_>) = rest.into_iter().partition(Difference::is_chosen);
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for difference in chosen {
        let stands_for = family::choice(&difference.name).unwrap_or(&difference.name).to_owned();
        // What is selected by a choice is named in both files where it has a prompt of its own.
        let from = family::follows(&difference.name).iter().find_map(|p| index.get(*p));
        match index.get(&stands_for).or(from).copied().and_then(|i| diff.groups.get_mut(i)) {
            Some(group) if group.name == stands_for => group.chosen.push(difference),
            Some(group) => group.follows.push(difference),
            None => {
                index.insert(stands_for.clone(), diff.groups.len());
                diff.groups.push(Group::new(stands_for, difference));
            }
        }
    }
    attribute(&mut diff, follows, &index, a, b);
    for group in &mut diff.groups {
        group.cost = group.consequence(a, b);
    }
    diff
}

fn warnings(a: &KernelConfig, b: &KernelConfig) -> Vec<String> {
    let mut warnings = Vec::new();
    let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "not said".to_owned());
    if a.arch != b.arch {
        let (a, b) = (said(&a.arch), said(&b.arch));
        warnings.push(format!("two architectures, {a} and {b}: most differences come from that"));
    }
    if (a.extent == Extent::Whole) != (b.extent == Extent::Whole) {
        warnings.push(
            "one names all options and the other only what is not at its default: of the other's, \
             only the defaults of options that matter for forwarding are known"
                .to_owned(),
        );
    }
    if a.release() != b.release() {
        let (a, b) = (said(&a.version), said(&b.version));
        warnings.push(format!(
            "two kernel versions, {a} and {b}: an option that only one has may be unknown to the other"
        ));
    }
    for (name, config) in [("first", a), ("second", b)] {
        if !config.duplicates.is_empty() {
            let which = config.duplicates.join(", ");
            warnings.push(format!("the {name} sets options twice, the last counts: {which}"));
        }
        if config.skipped > 0 {
            let count = config.skipped;
            warnings.push(format!("the {name} has {count} lines that are no option"));
        }
    }
    warnings
}

/// All that differs, in the order of A's file, then what only B has in the order of B's.
fn differences(a: &KernelConfig, b: &KernelConfig) -> Vec<Difference> {
    let mut names = a.in_order();
    names.extend(b.in_order().into_iter().filter(|name| a.get(name).is_none()));
    names
        .into_iter()
        .filter(|name| a.get(name) != b.get(name))
        // "Could be on and is not" and "can't be on" are the same kernel.
        .filter(|name| a.is_on(name) || b.is_on(name))
        .map(|name| Difference {
            name: name.to_owned(),
            a: a.get(name).cloned(),
            b: b.get(name).cloned(),
        })
        .collect()
}

/// Puts what follows under what it follows from.
fn attribute(
    diff: &mut Diff,
    follows: Vec<Difference>,
    index: &BTreeMap<String, usize>,
    a: &KernelConfig,
    b: &KernelConfig,
) {
    let mut placed: BTreeMap<String, usize> = BTreeMap::new();
    for group in diff.groups.iter().enumerate() {
        for difference in &group.1.chosen {
            placed.insert(difference.name.clone(), group.0);
        }
    }
    let only_one: BTreeSet<String> = follows.iter().map(|d| d.name.clone()).collect();
    let (order_a, order_b) = (a.in_order(), b.in_order());
    for difference in follows {
        let in_a = difference.a.is_some();
        let (config, order) = if in_a { (a, &order_a) } else { (b, &order_b) };
        let name = difference.name.as_str();
        let by_choice = || index.get(family::choice(name)?).copied();
        let by_selection = || family::follows(name).iter().find_map(|p| placed.get(*p).copied());
        let by_name = || {
            let parents = beginnings(name);
            parents.into_iter().find_map(|p| {
                let at = *placed.get(p)?;
                more(diff, at, in_a).then_some(at)
            })
        };
        // The nearest before it that differs, with nothing in between that does not.
        let by_place = || {
            let place = config.options.get(name)?.place;
            let before = order.get(..place)?;
            let nearest = before.iter().rev().find(|n| !only_one.contains(**n))?;
            let at = *placed.get(*nearest)?;
            more(diff, at, in_a).then_some(at)
        };
        let at = by_choice().or_else(by_selection);
        let at = match (matters(name).is_some(), diff.by_default) {
            (true, _) => at,
            (false, true) => at.or_else(by_name),
            (false, false) => at.or_else(by_name).or_else(by_place),
        };
        match at.and_then(|at| diff.groups.get_mut(at).map(|g| (at, g))) {
            Some((at, group)) => {
                placed.insert(name.to_owned(), at);
                group.follows.push(difference);
            }
            None if matters(name).is_some() || diff.by_default => {
                placed.insert(name.to_owned(), diff.groups.len());
                diff.groups.push(Group::new(name.to_owned(), difference));
            }
            None => diff.only_one.push(difference),
        }
    }
}

/// True if the group is on in the file that has more: nothing follows from an option being off.
fn more(diff: &Diff, at: usize, in_a: bool) -> bool {
    let Some(group) = diff.groups.get(at) else { return false };
    group
        .chosen
        .iter()
        .any(|d| d.more_in_a() == in_a || (d.a.is_some() && d.b.is_some() && both_set(d)))
}

fn both_set(difference: &Difference) -> bool {
    let set = |v: &Option<Value>| v.as_ref().is_some_and(Value::is_set);
    set(&difference.a) && set(&difference.b)
}

/// `SND_HDA_CODEC` begins with `SND_HDA` and with `SND`, the longest first.
fn beginnings(name: &str) -> Vec<&str> {
    let cuts = name.rmatch_indices('_').filter(|(at, _)| *at > 0);
    cuts.filter_map(|(at, _)| name.get(..at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::parse::config::read;

    fn config(text: &str) -> KernelConfig {
        read(text.as_bytes()).unwrap()
    }

    fn names(differences: &[Difference]) -> Vec<&str> {
        differences.iter().map(|d| d.name.as_str()).collect()
    }

    #[test]
    fn what_follows_from_a_choice_is_folded_below_it() {
        let a = config(
            "# Linux/arm64 6.1.0 Kernel Configuration\n# CONFIG_PREEMPT_NONE is not set\n\
             CONFIG_PREEMPT=y\nCONFIG_PREEMPTION=y\nCONFIG_PREEMPT_COUNT=y\nCONFIG_HZ_250=y\n\
             CONFIG_HZ=250\nCONFIG_SND=m\nCONFIG_SND_HDA=m\n# CONFIG_SND_SOC is not set\n\
             CONFIG_IRQSOFF_TRACER=y\nCONFIG_TRACE_IRQFLAGS=y\nCONFIG_VETH=m\nCONFIG_GCC_VERSION=1\n",
        );
        let b = config(
            "# Linux/arm64 6.1.0 Kernel Configuration\nCONFIG_PREEMPT_NONE=y\n\
             # CONFIG_PREEMPT is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n# CONFIG_SND is not set\n\
             # CONFIG_IRQSOFF_TRACER is not set\nCONFIG_VETH=m\nCONFIG_GCC_VERSION=2\n",
        );
        let found = diff(&a, &b);
        let heads: Vec<&str> = found.groups.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(heads, ["PREEMPT", "SND", "IRQSOFF_TRACER"]);
        assert_eq!(names(&found.groups[0].chosen), ["PREEMPT_NONE", "PREEMPT"]);
        assert_eq!(names(&found.groups[0].follows), ["PREEMPTION", "PREEMPT_COUNT"]);
        // SND_SOC could be on in A and is not: the same kernel as without it.
        assert_eq!(names(&found.groups[1].follows), ["SND_HDA"]);
        assert_eq!(names(&found.groups[2].follows), ["TRACE_IRQFLAGS"]);
        assert_eq!(names(&found.surroundings), ["GCC_VERSION"]);
        assert!(found.only_one.is_empty() && found.warnings.is_empty(), "{found:?}");
        assert_eq!(found.groups[2].chosen[0].change(), "y -> n");
    }

    const WHOLE: &str = "# Linux/arm64 6.1.0 Kernel Configuration\n";

    fn whole(text: &str) -> KernelConfig {
        config(&format!("{WHOLE}{text}"))
    }

    #[test]
    fn a_child_without_its_parents_name_follows_what_stands_right_before_it() {
        let a =
            whole("CONFIG_NET=y\nCONFIG_WLAN=y\nCONFIG_ATH9K=m\nCONFIG_ATH9K_PCI=y\nCONFIG_X=y\n");
        let b = whole("CONFIG_NET=y\n# CONFIG_WLAN is not set\nCONFIG_X=y\n");
        let found = diff(&a, &b);
        assert_eq!(names(&found.groups[0].follows), ["ATH9K", "ATH9K_PCI"]);
        // And what is on does not follow from something being off.
        let found = diff(&b, &whole("CONFIG_NET=y\nCONFIG_WLAN=y\nCONFIG_ATH9K=m\nCONFIG_X=m\n"));
        assert_eq!(names(&found.groups[0].follows), ["ATH9K"]);
        assert_eq!(found.groups[1].name, "X");
    }

    #[test]
    fn two_architectures_two_versions_and_broken_files_are_said() {
        let a = config("# Linux/x86 6.1.0 Kernel Configuration\nCONFIG_A=y\nCONFIG_A=n\n");
        let b = config("# Linux/arm64 5.4.1 Kernel Configuration\nCONFIG_A=y\n???\n");
        let warnings = diff(&a, &b).warnings.join("\n");
        for word in ["architectures", "versions", "twice, the last counts: A", "1 lines"] {
            assert!(warnings.contains(word), "{warnings}");
        }
    }

    #[test]
    fn a_configuration_differs_from_itself_in_nothing() {
        let a = whole("CONFIG_A=y\nCONFIG_B=\"x\"\n");
        assert_eq!(diff(&a, &a), Diff::default());
        assert_eq!(diff(&a, &whole("CONFIG_B=x\r\nCONFIG_A=y\r\n")), Diff::default());
    }
}
