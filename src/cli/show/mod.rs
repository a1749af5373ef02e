//! `linerate show`: what this router is, on one screen.

mod knobs;

use clap::{Args, ValueEnum};

use super::context::Context;
use crate::change::apply::inventory::{Item, inventory};
use crate::error::{ExitCode, Result};
use crate::machine::discover;
use crate::model::snapshot::Snapshot;
use crate::report::show;

/// `show`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate show                       # all of this machine, on one screen
  linerate show nics                  # its network devices, with their queues
  linerate show --host capture.tar.gz # one that `linerate capture` recorded")]
pub struct ShowArgs {
    /// Only this part, in detail
    pub part: Option<Part>,
}

/// Parts of `show`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// CPUs with capacity, cluster and governor
    Cpus,
    /// Network devices with queues and offloads
    Nics,
    /// Network interrupts
    Irqs,
    /// Devices on top of others, down to the ports, and which side is WAN
    Stack,
    /// The way of a forwarded packet, and programs that set what linerate sets
    Path,
    /// Kernel and board
    Kernel,
    /// Every setting: what it is, what it may be, whether it can be changed
    Knobs,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<ExitCode> {
    let snapshot = discover::snapshot(context.reader());
    let out = &context.out;
    if args.part == Some(Part::Knobs) {
        let items = inventory(context.reader(), &snapshot);
        if out.json {
            out.json(&Settings { format: "linerate-knobs", version: 1, knobs: &items })?;
        } else {
            out.data(knobs::knobs(context, &snapshot, &items).join("\n"))?;
        }
        return Ok(ExitCode::Done);
    }
    if out.json {
        out.json(&Shown { format: "linerate-show", version: 1, snapshot: &snapshot })?;
        return Ok(ExitCode::Done);
    }
    let document = match args.part.and_then(Part::told) {
        Some(part) => show::detail(&snapshot, part),
        None => show::summary(&snapshot),
    };
    out.document(&document)?;
    Ok(ExitCode::Done)
}

impl Part {
    /// The part that a document tells; `None` for the settings, which are told apart.
    fn told(self) -> Option<show::Part> {
        Some(match self {
            Self::Cpus => show::Part::Cpus,
            Self::Nics => show::Part::Nics,
            Self::Irqs => show::Part::Irqs,
            Self::Stack => show::Part::Stack,
            Self::Path => show::Part::Path,
            Self::Kernel => show::Part::Kernel,
            Self::Knobs => return None,
        })
    }
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    snapshot: &'a Snapshot,
}

#[derive(serde::Serialize)]
struct Settings<'a> {
    format: &'static str,
    version: u32,
    knobs: &'a [Item],
}
