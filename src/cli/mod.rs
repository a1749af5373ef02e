//! The command line. In come its words; out go data on stdout, messages on stderr and an exit code.
//!
//! Each verb is a file or folder with its arguments and its `run`, and knows no other verb; what
//! several need is `shared`. A verb parses, calls the stages and renders: it may touch everything
//! below it, and decides nothing that a stage can decide.

#[cfg(feature = "measure")]
pub mod agent;
mod apply;
#[cfg(feature = "measure")]
mod bench;
mod capture;
pub mod check;
#[cfg(feature = "measure")]
mod compare;
mod confirm;
pub mod context;
mod event;
#[cfg(feature = "measure")]
mod fit;
mod interrupt;
#[cfg(feature = "measure")]
pub mod kernel;
#[cfg(feature = "measure")]
mod lab;
mod log;
#[cfg(feature = "measure")]
mod measuring;
pub mod output;
mod persist;
mod plan;
#[cfg(feature = "measure")]
pub mod profile;
#[cfg(feature = "measure")]
mod rank;
mod record;
#[cfg(feature = "measure")]
mod report;
mod rollback;
pub mod shared;
mod show;
mod status;
#[cfg(feature = "measure")]
pub mod sweep;
#[cfg(feature = "top")]
mod top;
#[cfg(feature = "measure")]
mod tune;
mod usage;
mod verify;
mod watch;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::{ExitCode, Result};
use crate::report::render::READABLE;
use context::Context;
use shared::{Global, waiting};

/// First steps, and what scripts may rely on.
const HELP: &str = "Examples:
  linerate show                       # what this router is
  linerate check                      # what holds it back
  linerate plan                       # what could be changed, and why
  linerate apply --confirm 60s        # changed; undone unless you say:
  linerate confirm
  linerate rollback                   # as it was before

Times are 60, 60s, 1m or 500ms; rates are 500 (Mbit/s), 500M or 2.5G.

Exit codes: 0 done; 1 findings, or a figure below its threshold; 2 the command line can't be used; \
3 the plan is not in force; 4 a permission is missing; 5 not possible here or now; 6 the measurement was \
refused; 7 failed and rolled back; 8 the rollback is incomplete; 130 interrupted and restored.";

/// The version, and what was built of it (`scripts/build.sh` knows the commit).
const BUILT: &str = match option_env!("LINERATE_BUILT") {
    Some(text) => text,
    None if cfg!(feature = "full") => {
        concat!(env!("CARGO_PKG_VERSION"), " (features: router, measure, top)")
    }
    None => concat!(env!("CARGO_PKG_VERSION"), " (features: router)"),
};

/// Get a Linux router to line rate, and prove it.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, long_version = BUILT, propagate_version = true, after_help = HELP)]
pub struct Cli {
    /// Options of every command
    #[command(flatten)]
    pub global: Global,
    /// The command
    #[command(subcommand)]
    pub verb: Verb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what this router is, and how its packets are handled today
    Show(show::ShowArgs),
    /// Find what holds this router back, on what evidence, and what to do
    Check(check::CheckArgs),
    /// Work out what could be changed, and why; writes a plan file
    Plan(plan::PlanArgs),
    /// Make the changes of a plan: all or nothing, undone by `rollback`
    Apply(apply::ApplyArgs),
    /// Check that a plan is in force, setting by setting (exit 3 when not)
    Verify(verify::VerifyArgs),
    /// Put everything back exactly as it was before
    Rollback(rollback::RollbackArgs),
    /// Keep what `apply --confirm` did
    #[command(after_help = "Examples:
  linerate apply --confirm 60s
  linerate confirm                    # within the minute, to keep it")]
    Confirm,
    /// Keep a plan in force over reboots and for devices that come later
    Persist(persist::PersistArgs),
    /// Take back what `persist` wrote
    Unpersist(persist::UnpersistArgs),
    /// Show on one page what is applied, waits, is persisted, has drifted (exit 3) and runs
    #[command(after_help = "Examples:
  linerate status
  linerate status --json")]
    Status,
    /// Watch this router for as long as it runs: tell what happens, put back what somebody changed
    Watch(watch::WatchArgs),
    /// Record this machine in one file, for bug reports and to work on it elsewhere
    Capture(capture::CaptureArgs),
    /// Record what the router does, interval after interval, until Ctrl-C: CSV or JSON lines
    Record(record::RecordArgs),
    /// Watch CPUs, devices, hand-offs, drops and the bottleneck live, or play a recording of them
    #[cfg(feature = "top")]
    Top(top::TopArgs),
    /// Everything that measures, compares and reports
    #[cfg(feature = "measure")]
    #[command(flatten)]
    Measuring(Box<measuring::Verb>),
    /// Waits for `confirm` (started by `apply --confirm`)
    #[command(hide = true)]
    DeadMan(confirm::DeadManArgs),
    /// Applies the persisted plan to a device that appeared (called by udev and hotplug)
    #[command(hide = true)]
    Event(event::EventArgs),
    /// Applies the persisted plan when the machine starts (called by its init)
    #[command(hide = true)]
    Boot(event::BootArgs),
}

impl Verb {
    /// The verb is there for what it does, not for what it prints.
    fn changes(&self) -> bool {
        match self {
            Self::Apply(args) => !args.dry_run,
            Self::Persist(args) => !args.print,
            Self::Rollback(_) | Self::Confirm | Self::Unpersist(_) | Self::Capture(_) => true,
            Self::DeadMan(_) | Self::Event(_) | Self::Boot(_) | Self::Watch(_) => true,
            #[cfg(feature = "measure")]
            Self::Measuring(verb) => {
                matches!(**verb, measuring::Verb::Tune(_) | measuring::Verb::Lab(_))
            }
            _ => false,
        }
    }

    /// The verb looks at what a change left, and makes none.
    fn only_looks(&self) -> bool {
        match self {
            Self::Show(_) | Self::Plan(_) | Self::Verify(_) | Self::Capture(_) => true,
            #[cfg(feature = "measure")]
            Self::Measuring(verb) => matches!(**verb, measuring::Verb::Report(_)),
            _ => false,
        }
    }
}

/// Parses the command line, runs the verb, prints its error, and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(e) => return not_run(&e),
    };
    run(&cli).unwrap_or_else(|error| {
        output::print_error(&error);
        error.code()
    })
}

/// The command line; help is as wide as all other text.
fn parse() -> std::result::Result<Cli, clap::Error> {
    let mut command = Cli::command().term_width(output::columns().min(READABLE));
    Cli::from_arg_matches(&command.try_get_matches_from_mut(std::env::args_os())?)
        .map_err(|e| e.format(&mut command))
}

/// The command that these words begin with: `linerate lab up`.
fn verb(words: impl Iterator<Item = String>) -> String {
    let mut command = Cli::command();
    let mut named = command.get_name().to_owned();
    for word in words {
        if let Some(one) = command.find_subcommand(word).filter(|one| !one.is_hide_set()).cloned() {
            named = format!("{named} {}", one.get_name());
            command = one;
        }
    }
    named
}

/// Help and version as clap prints them; a mistake in the form of all our errors.
fn not_run(e: &clap::Error) -> ExitCode {
    let asked = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked || e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::print_help(e);
        return if asked { ExitCode::Done } else { ExitCode::Usage };
    }
    let words = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok());
    let error = usage::error(e, &verb(words));
    output::print_error(&error);
    error.code()
}

fn run(cli: &Cli) -> Result<ExitCode> {
    log::start(cli.global.quiet, cli.global.verbose);
    if let Err(e) = interrupt::outlive_limit_of_size() {
        ::log::debug!("{e}");
    }
    let context = Context::new(&cli.global, cli.verb.changes())?;
    if cli.verb.only_looks() {
        waiting::name_overdue(&context);
    }
    match &cli.verb {
        Verb::Show(args) => show::run(&context, args),
        Verb::Check(args) => check::run(&context, args),
        Verb::Plan(args) => plan::run(&context, args),
        Verb::Apply(args) => apply::run(&context, args),
        Verb::Verify(args) => verify::run(&context, args),
        Verb::Rollback(args) => rollback::run(&context, args),
        Verb::Confirm => confirm::run(&context),
        Verb::DeadMan(args) => confirm::guard(&context, args),
        Verb::Persist(args) => persist::run(&context, args),
        Verb::Unpersist(args) => persist::undo(&context, args),
        Verb::Event(args) => event::run(&context, args),
        Verb::Boot(args) => event::boot(&context, args),
        Verb::Status => status::run(&context),
        Verb::Watch(args) => watch::run(&context, args),
        Verb::Capture(args) => capture::run(&context, args),
        Verb::Record(args) => record::run(&context, args),
        #[cfg(feature = "top")]
        Verb::Top(args) => top::run(&context, args),
        #[cfg(feature = "measure")]
        Verb::Measuring(verb) => verb.run(&context),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
