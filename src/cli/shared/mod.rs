//! Shared by several verbs: the global options, arguments that more than one verb takes, and parsers
//! of their values. It imports no verb.

pub(in crate::cli) mod costs;
#[cfg(feature = "measure")]
pub(in crate::cli) mod figures;
#[cfg(feature = "measure")]
pub mod hosts;
#[cfg(feature = "measure")]
pub mod loads;
pub(in crate::cli) mod persisted;
#[cfg(feature = "measure")]
pub(in crate::cli) mod rendered;
pub(in crate::cli) mod second;
pub(in crate::cli) mod waiting;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::model::finding::Severity;

/// Options that every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// Print JSON (stable, versioned) instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Work on a captured machine: a file of `capture`, or a directory with its proc, sys and etc
    /// (read-only commands)
    #[arg(long, global = true, value_name = "FILE|DIR")]
    pub host: Option<PathBuf>,
    /// Say only what failed
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Colours: NO_COLOR is honoured by auto
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWhen,
}

/// When to colour the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A severity by its name.
pub(in crate::cli) fn severity(text: &str) -> Result<Severity, String> {
    let all = Severity::ALL;
    all.into_iter()
        .find(|s| s.name() == text)
        .ok_or_else(|| "one of info, notice, warning, critical".into())
}

pub(in crate::cli) fn seconds(text: &str) -> Result<f64, String> {
    seconds_or_zero(text)
        .and_then(|s| if s > 0.0 { Ok(s) } else { Err("must be more than 0".into()) })
}

pub(in crate::cli) fn seconds_or_zero(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('s').parse::<f64>() {
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok(s),
        Ok(_) => Err("must be between 0 and 86400 seconds".into()),
        Err(_) => Err("not a number of seconds".into()),
    }
}
