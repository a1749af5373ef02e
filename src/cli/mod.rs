//! The command line: one file per verb, on top of everything else.

pub mod agent;
mod apply;
pub mod args;
mod bench;
mod board;
mod capture;
pub mod check;
mod compare;
mod confirm;
pub mod context;
mod driver;
mod event;
mod fit;
mod interrupt;
pub mod kernel;
mod lab;
mod log;
pub mod output;
mod persist;
mod plan;
pub mod profile;
mod rank;
mod record;
mod report;
mod rollback;
mod scenarios;
mod show;
pub mod sweep;
mod table;
mod tune;
mod verify;
pub mod wire;

use clap::Parser;
use clap::error::ErrorKind;

use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use args::{Cli, Verb};
use context::Context;

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
        // Nobody is left to be told when neither stdout nor stderr can be written.
        drop(e.print());
        return if asked { ExitCode::Done } else { ExitCode::Usage };
    }
    let text = e.render().to_string();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let said: Vec<&str> = text.lines().take_while(|l| !l.is_empty()).map(str::trim).collect();
    let said = said.join(" ");
    let error = Error::usage("command line", said.strip_prefix("error: ").unwrap_or(&said))
        .hint(tip.unwrap_or("linerate --help, or --help behind a command, tells what there is"));
    output::print_error(&error);
    error.code()
}

fn run(cli: &Cli) -> Result<ExitCode> {
    log::start(cli.global.quiet, cli.global.verbose);
    let context = Context::new(&cli.global)?;
    confirm::name_overdue(&context, &cli.verb);
    match &cli.verb {
        Verb::Show(args) => show::run(&context, args),
        Verb::Check(args) => check::run(&context, args),
        Verb::Report(args) => report::run(&context, args),
        Verb::Plan(args) => plan::run(&context, args),
        Verb::Apply(args) => apply::run(&context, args),
        Verb::Verify(args) => verify::run(&context, args),
        Verb::Rollback(args) => rollback::run(&context, args),
        Verb::Confirm => confirm::run(&context),
        Verb::DeadMan { token } => confirm::guard(&context, *token),
        Verb::Persist(args) => persist::run(&context, args),
        Verb::Unpersist(args) => persist::undo(&context, args),
        Verb::Event(args) => event::run(&context, args),
        Verb::Boot { stayed: false } => event::boot(&context),
        Verb::Boot { stayed: true } => event::stayed(&context),
        Verb::Status => rollback::status(&context),
        Verb::Bench(args) => bench::run(&context, args),
        Verb::Agent(args) => agent::run(&context, args),
        Verb::Tune(args) => tune::run(&context, args),
        Verb::Sweep(args) => sweep::run(&context, args),
        Verb::Compare(args) => compare::run(&context, args),
        Verb::Fit(args) => fit::run(&context, args),
        Verb::Capture(args) => capture::run(&context, args),
        Verb::Record(args) => record::run(&context, args),
        Verb::Rank(args) => rank::run(&context, args),
        Verb::Profile(args) => profile::run(&context, args),
        Verb::Kernel(args) => kernel::run(&context, args),
        Verb::Lab(args) => lab::run(&context, args),
    }
}
