//! `linerate show`: what this router is, on one screen.

mod knobs;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use super::context::Context;
use crate::change::apply::inventory::{Item, inventory};
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::store::json;
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
    let snapshot = discover::snapshot(context.seen()?);
    let out = &context.out;
    if args.part == Some(Part::Knobs) {
        let items = inventory(context.reader(), &snapshot);
        if out.json {
            out.json(&Settings { format: "linerate-knobs", version: 1, knobs: &items })?;
        } else {
            out.tell(knobs::knobs(context, &snapshot, &items).join("\n"))?;
        }
        return Ok(ExitCode::Done);
    }
    if let (true, Some(part)) = (out.json, args.part) {
        out.json(&OfPart::new(part, &snapshot)?)?;
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

/// `show PART --json`: the fields of `show --json` that the part is made of.
#[derive(serde::Serialize)]
struct OfPart {
    format: &'static str,
    version: u32,
    part: &'static str,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl OfPart {
    fn new(part: Part, snapshot: &Snapshot) -> Result<Self> {
        let (part, names): (_, &[&str]) = match part {
            Part::Cpus => ("cpus", &["cpus", "possible"]),
            Part::Nics => ("nics", &["netdevs", "radios"]),
            Part::Irqs => ("irqs", &["irqs"]),
            Part::Stack => ("stack", &["netdevs", "stack"]),
            Part::Path => ("path", &["path", "services"]),
            Part::Kernel => ("kernel", &["machine", "kernel"]),
            Part::Knobs => ("knobs", &[]),
        };
        // By way of the text: writing a snapshot in a second form takes 34 kB of the program.
        let failed = |why: &dyn std::fmt::Display| Error::not_supported("show as JSON", why);
        let text = json::line(&Shown { format: "linerate-show", version: 1, snapshot })
            .map_err(|e| failed(&e))?;
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(text.as_bytes()) else {
            return Err(failed(&"the snapshot is no object"));
        };
        fields.retain(|name, _| names.contains(&name.as_str()));
        Ok(Self { format: "linerate-show-part", version: 1, part, fields })
    }
}

#[derive(serde::Serialize)]
struct Settings<'a> {
    format: &'static str,
    version: u32,
    knobs: &'a [Item],
}
