//! Arguments of `kernel`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::shared::severity;
use crate::model::finding::Severity;

/// `kernel`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate kernel check               # the running kernel
  linerate kernel diff a.config b.config
  linerate kernel bisect fast.config slow.config --rate-a 940 --rate-b 700")]
pub struct KernelArgs {
    /// The action
    #[command(subcommand)]
    pub action: KernelAction,
}

/// Actions on kernel configurations.
#[derive(Debug, Subcommand)]
pub enum KernelAction {
    /// Find the options of a kernel's configuration that cost forwarding or WireGuard, with remedies
    Check(KernelCheckArgs),
    /// Show how two configurations differ: choices, those that matter for forwarding first
    Diff(KernelDiffArgs),
    /// Find the options that make one kernel slower than another, build by build
    Bisect(Box<KernelBisectArgs>),
}

/// `kernel check`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate kernel check               # the running kernel
  linerate kernel check a.config --fail-on critical
  linerate kernel check config-generic config-target")]
pub struct KernelCheckArgs {
    /// A .config file or defconfig, plain or packed with gzip; or its parts, the most general first
    /// (OpenWrt's generic and its target's) [default: the running kernel's, or --host's]
    #[arg(value_name = "CONFIG")]
    pub files: Vec<PathBuf>,
    /// Exit with 1 when a finding is at least this grave
    #[arg(long, value_name = "LEVEL", default_value = "warning", value_parser = severity())]
    pub fail_on: Severity,
}

/// `kernel diff`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate kernel diff a.config b.config
  linerate kernel diff - b.config     # against the running kernel")]
pub struct KernelDiffArgs {
    /// A .config file, plain or packed with gzip; - for the running kernel's
    pub a: PathBuf,
    /// Another
    pub b: PathBuf,
    /// Also list what follows from each choice, and what only differs by compiler
    #[arg(long)]
    pub all: bool,
}

/// `kernel bisect`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate kernel bisect fast.config slow.config --rate-a 940 --rate-b 700
  linerate kernel bisect --rate 905   # what the proposed kernel gave
  linerate kernel bisect --no-boot    # it did not start")]
pub struct KernelBisectArgs {
    /// Configuration of one kernel, the faster one [default: go on with the search in --dir]
    #[arg(requires = "b")]
    pub a: Option<PathBuf>,
    /// Configuration of the other
    pub b: Option<PathBuf>,
    /// Directory of the search
    #[arg(long, value_name = "DIR", default_value = "linerate-bisect")]
    pub dir: PathBuf,
    /// Options that stay as in A, beside those that a machine needs to boot
    #[arg(long, value_delimiter = ',', value_name = "OPTION,...", requires = "a")]
    pub keep: Vec<String>,
    /// Smallest effect to look for, in percent of the rate [default: a tenth of the difference, at
    /// least 2 and five times the noise]
    #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "a")]
    pub smallest: Option<f64>,
    /// Rate that A gave, in any unit; once for each measurement
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "a")]
    pub rate_a: Vec<f64>,
    /// Rate that B gave
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "a")]
    pub rate_b: Vec<f64>,
    /// The answer: what the proposed kernel gave
    #[arg(long, value_name = "RATE", value_parser = rate, group = "answer", conflicts_with = "a")]
    pub rate: Vec<f64>,
    /// The answer, from a result file of bench, tune or bench wireguard --board
    #[arg(long, value_name = "FILE", group = "answer", conflicts_with = "a")]
    pub result: Option<PathBuf>,
    /// The figure of the result file
    #[arg(long, value_name = "NAME", requires = "result")]
    pub figure: Option<String>,
    /// The answer: it does not boot, or can't be built
    #[arg(long, group = "answer", conflicts_with = "a")]
    pub no_boot: bool,
    /// The answer: nothing can be said of it
    #[arg(long, group = "answer", conflicts_with = "a")]
    pub unclear: bool,
    /// The .config that was really built, after make olddefconfig
    #[arg(long, value_name = "CONFIG", requires = "answer")]
    pub built: Option<PathBuf>,
    /// Take the last answer back
    #[arg(long, conflicts_with_all = ["a", "answer"])]
    pub undo: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if value > 0.0 && value < 100.0 => Ok(value),
        _ => Err("more than 0 and less than 100".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("a rate is more than 0".to_owned()),
    }
}
