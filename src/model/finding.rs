//! Findings: faults of a router, and what could be better: what, on what evidence, with which consequence,
//! and what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a finding matters; the names are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know: costs nothing, or only makes figures blind.
    Info,
    /// Costs something, or may cost something under load; a well tuned router can have it.
    Notice,
    /// Costs rate or loses packets here.
    Warning,
    /// Is failing now.
    Critical,
}

impl Severity {
    /// All of them, mildest first.
    pub const ALL: [Self; 4] = [Self::Info, Self::Notice, Self::Warning, Self::Critical];

    /// Name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How sure it is that the evidence means what the finding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// It may be meant so.
    Possible,
    /// It follows from how such machines behave.
    Likely,
    /// The values themselves say it.
    Certain,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        })
    }
}

/// A value that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The file, or the command that shows it where no file does.
    pub place: String,
    /// Value.
    pub value: String,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule that found it: a stable name.
    pub rule: String,
    /// Statement of the finding in words, with the devices and CPUs concerned.
    pub title: String,
    /// How much it matters here.
    pub severity: Severity,
    /// How sure it is.
    pub confidence: Confidence,
    /// Share of what the machine could forward that it is expected to cost here, 0 to 1: by the cost
    /// model, by counters, or as measured elsewhere with and without; 0 where nobody knows. It promises
    /// no rate.
    pub cost: f64,
    /// The values seen.
    pub evidence: Vec<Evidence>,
    /// Cost, and where it was measured.
    pub consequence: String,
    /// Who says so.
    pub source: String,
    /// Remedy, step by step.
    pub remedy: Vec<String>,
}

/// A rule that could not look, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// The rule.
    pub rule: String,
    /// The facts that it lacks.
    pub why: String,
}
