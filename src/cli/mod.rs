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
#[cfg(feature = "measure")]
pub mod sweep;
mod table;
#[cfg(feature = "measure")]
mod tune;
mod usage;
mod verify;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::error::{ExitCode, Result};
use context::Context;
use shared::{Global, waiting};

/// Get a Linux router to line rate, and prove it.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, max_term_width = 100, propagate_version = true)]
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
    Confirm,
    /// Keep a plan in force over reboots and for devices that come later
    Persist(persist::PersistArgs),
    /// Take back what `persist` wrote
    Unpersist(persist::UnpersistArgs),
    /// Show what linerate has changed and not undone
    Status,
    /// Record this machine in one file, for bug reports and to work on it elsewhere
    Capture(capture::CaptureArgs),
    /// Record what the router does, interval after interval, until Ctrl-C: CSV or JSON lines
    Record(record::RecordArgs),
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
            Self::DeadMan(_) | Self::Event(_) | Self::Boot(_) => true,
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return not_run(&e),
    };
    run(&cli).unwrap_or_else(|error| {
        output::print_error(&error);
        error.code()
    })
}

/// Help and version as clap prints them; a mistake in the form of all our errors.
fn not_run(e: &clap::Error) -> ExitCode {
    let asked = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked || e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::print_help(e);
        return if asked { ExitCode::Done } else { ExitCode::Usage };
    }
    let error = usage::error(e);
    output::print_error(&error);
    error.code()
}

fn run(cli: &Cli) -> Result<ExitCode> {
    log::start(cli.global.quiet, cli.global.verbose);
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
        Verb::Status => rollback::status(&context),
        Verb::Capture(args) => capture::run(&context, args),
        Verb::Record(args) => record::run(&context, args),
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
