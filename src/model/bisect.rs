//! Answers of a search among kernel configurations, as its file holds them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The reason why a kernel gave no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoRate {
    /// It does not boot, or can't be built.
    NoBoot,
    /// Nothing can be said of it.
    Unclear,
    /// The kernel was built from another configuration than the proposed one.
    BuiltOtherwise,
}

impl NoRate {
    /// The word for it, in files and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoBoot => "no-boot",
            Self::Unclear => "unclear",
            Self::BuiltOtherwise => "built-otherwise",
        }
    }
}

/// The answer for one kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuildAnswer {
    /// Choices that were as in B, by name.
    pub as_in_b: BTreeSet<String>,
    /// The rate, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The rate's standard error as a share of it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Why there is no rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<NoRate>,
    /// Where the figure is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}
