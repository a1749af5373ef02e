//! Rules that say what holds a router back.
//!
//! In come a snapshot, its condition and, with `--load`, a window of rates; out go findings, the
//! dearest first, and the rules that could not look. Nothing is read or written.
//!
//! ```text
//!   Snapshot + Condition ──┐
//!   Window (with --load) ──┼─▶ Subject ─▶ every rule ─▶ Findings, ranked │ rules that could not look
//!   plan: the cost model ──┘
//! ```
//!
//! A rule says nothing where it lacks a fact, and then says which. What it calls a warning has to be
//! wrong on any router; what a well tuned one may have on purpose is a notice.

pub mod live;
mod outlook;
mod places;
mod rules;
mod subject;
#[cfg(test)]
mod tests;

pub use outlook::Outlook;
pub use subject::{Subject, Window};

use crate::model::finding::{Confidence, Evidence, Finding, Severity, Unseen};
use crate::model::order::InOrder;

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// Name on the command line and in JSON.
    pub id: &'static str,
    /// The fault that the rule looks for.
    pub what: &'static str,
    /// The cost of that fault.
    pub costs: &'static str,
    /// Where that was measured or is written.
    pub source: &'static str,
    /// The facts that the rule looks at.
    pub reads: &'static str,
    /// The part that `--load` has in the rule: none, more to see, or all.
    pub load: Load,
    look: fn(&Subject<'_>) -> Looked,
}

/// The part that `--load` has in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Nothing.
    Apart,
    /// Rates make it surer or graver.
    Better,
    /// It needs rates.
    Needed,
}

/// Findings of a rule, or the facts that it lacked.
type Looked = Result<Vec<Found>, String>;

/// A finding without what its rule says.
#[derive(Debug)]
struct Found {
    title: String,
    severity: Severity,
    confidence: Confidence,
    /// Share of the rate that it costs here, where that is worked out.
    cost: f64,
    /// Place among others, as such a share, where nobody measured what it costs.
    rank: f64,
    /// True if another finding tells the same cause: what has a cause of its own comes first.
    aside: bool,
    evidence: Vec<Evidence>,
    /// In place of the rule's own.
    consequence: Option<String>,
    remedy: Vec<String>,
}

impl Found {
    /// A finding that the values themselves state.
    fn new(severity: Severity, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            severity,
            confidence: Confidence::Certain,
            cost: 0.0,
            rank: 0.0,
            aside: false,
            evidence: Vec::new(),
            consequence: None,
            remedy: Vec::new(),
        }
    }

    fn sure(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
        self
    }

    /// Puts it among other findings as if it cost that share of the rate, which nobody measured: orders
    /// them, and is never told.
    fn rank(mut self, share: f64) -> Self {
        self.rank = share;
        self
    }

    /// Share of the forwarding rate that it is expected to cost here: by the cost model, by counters, or
    /// by the values themselves.
    fn cost(mut self, share: f64) -> Self {
        self.cost = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self
    }

    fn seen(mut self, place: impl Into<String>, value: impl ToString) -> Self {
        self.evidence.push(Evidence { place: place.into(), value: value.to_string() });
        self
    }

    fn all_seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    fn consequence(mut self, words: impl Into<String>) -> Self {
        self.consequence = Some(words.into());
        self
    }

    /// The consequence in words, which say where nobody measured what it costs.
    fn costs(&self, rule: &Rule) -> String {
        let words = self.consequence.as_deref().unwrap_or(rule.costs);
        match self.rank > 0.0 && self.cost == 0.0 {
            true => format!("{words}; what it costs here was not measured"),
            false => words.to_owned(),
        }
    }

    fn remedy(mut self, step: impl Into<String>) -> Self {
        self.remedy.push(step.into());
        self
    }
}

/// All findings, and the rules that could not look.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diagnosis {
    /// Gravest first, then by expected cost, then in the order of the rules.
    pub findings: Vec<Finding>,
    /// Rules that could not look, and the facts they lacked.
    pub unseen: Vec<Unseen>,
}

/// Rules about where packets are handled: once the plan is in force, none of them finds a thing.
pub const PLACEMENT: &[&str] = &[
    "worker-shares-cpu",
    "lone-cpu",
    "little-cores",
    "immovable-line",
    "isolated-cpus",
    "uneven-load",
    "rps-own-cpu",
    "rps-with-queues",
    "steered-twice",
    "offline-mask",
];

/// All rules, in the order in which they are listed.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    rules::ALL.iter().copied().flatten()
}

/// Asks the rules of those names, or all when there are none.
#[must_use]
pub fn diagnose(subject: &Subject<'_>, only: &[String]) -> Diagnosis {
    let mut told = Diagnosis::default();
    let wanted = |rule: &&Rule| only.is_empty() || only.iter().any(|name| name == rule.id);
    let mut all: Vec<(&Rule, Found)> = Vec::new();
    for rule in rules().filter(wanted) {
        match (rule.look)(subject) {
            Ok(found) => all.extend(found.into_iter().map(|found| (rule, found))),
            Err(why) => told.unseen.push(Unseen { rule: rule.id.to_owned(), why }),
        }
    }
    let share = |found: &Found| if found.aside { -1.0 } else { found.cost.max(found.rank) };
    all.order_by(|(_, a), (_, b)| {
        b.severity.cmp(&a.severity).then_with(|| share(b).total_cmp(&share(a)))
    });
    told.findings.extend(all.into_iter().map(|(rule, found)| Finding {
        consequence: found.costs(rule),
        rule: rule.id.to_owned(),
        title: found.title,
        severity: found.severity,
        confidence: found.confidence,
        cost: found.cost,
        evidence: found.evidence,
        source: rule.source.to_owned(),
        remedy: found.remedy,
    }));
    told
}
