//! `linerate lab`: a router in a box, by hand.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::context::Context;
use crate::error::{Error, ExitCode, Result};
use crate::measure::lab::{LabSpec, Shape, named};
use crate::report::document::Table;
use crate::{change::apply::Hold, machine::store};

/// `lab`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate lab up                     # needs root
  linerate lab shell router -- linerate show
  linerate lab down")]
pub struct LabArgs {
    /// The action
    #[command(subcommand)]
    pub action: LabAction,
}

/// Actions on labs.
#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Build one that stays until `lab down`
    #[command(after_help = "Examples:
  linerate lab up --rules 200 --flowtable")]
    Up {
        /// Extra filter rules that never match
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=20_000))]
        rules: u32,
        /// Largest IP packet in bytes
        #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=9000))]
        mtu: u32,
        /// Forward established flows through a software flowtable
        #[arg(long)]
        flowtable: bool,
    },
    /// Remove one, or all; also what a crash left behind
    #[command(after_help = "Examples:
  linerate lab down                   # all labs")]
    Down {
        /// The lab's id; all labs without one
        id: Option<String>,
    },
    /// List the labs that are up
    #[command(after_help = "Examples:
  linerate lab list")]
    List,
    /// A shell, or a command, inside one
    #[command(after_help = "Examples:
  linerate lab shell                  # in the router
  linerate lab shell lan -- ping -c 3 198.18.2.2")]
    Shell {
        /// The lab's id; may be left out when only one is up
        #[arg(long)]
        id: Option<String>,
        /// lan, router or wan
        #[arg(default_value = "router")]
        side: LabSide,
        /// The command; $SHELL without one
        #[arg(last = true)]
        command: Vec<std::ffi::OsString>,
    },
}

/// The namespaces of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabSide {
    /// The client's side
    Lan,
    /// The router
    Router,
    /// The server's side
    Wan,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &LabArgs) -> Result<ExitCode> {
    context.live("lab")?;
    match &args.action {
        LabAction::Up { rules, mtu, flowtable } => {
            let shape = Shape { flowtable: *flowtable, ..Shape::default() };
            up(context, LabSpec { shape, ..LabSpec::nat(*rules, *mtu) })
        }
        LabAction::Down { id } => down(context, id.as_deref()),
        LabAction::List => list(context),
        LabAction::Shell { id, side, command } => shell(id.as_deref(), *side, command),
    }
}

fn up(context: &Context, spec: LabSpec) -> Result<ExitCode> {
    let out = &context.out;
    let lab = named::up(&spec)?;
    if out.json {
        out.json(&Labs::of(&[lab]))?;
        return Ok(ExitCode::Done);
    }
    out.tell(format_args!("lab {} is up", lab.id))?;
    for (role, path) in &lab.namespaces {
        out.tell(format_args!("  {:7} {}", role.name(), path.display()))?;
    }
    out.say("next: linerate lab shell router -- linerate show; remove it: linerate lab down");
    Ok(ExitCode::Done)
}

fn down(context: &Context, id: Option<&str>) -> Result<ExitCode> {
    let out = &context.out;
    let removed = named::down(id)?;
    settle(context)?;
    if out.json {
        let labs: Vec<&str> = removed.iter().map(|r| r.id.as_str()).collect();
        out.json(
            &serde_json::json!({ "format": "linerate-labs-removed", "version": 1, "labs": labs }),
        )?;
        return Ok(ExitCode::Done);
    }
    for lab in &removed {
        out.tell(format_args!(
            "removed lab {}: {} namespaces{}",
            lab.id,
            lab.namespaces.len(),
            if lab.record { "" } else { ", left behind without a record" }
        ))?;
    }
    if removed.is_empty() {
        out.say("no lab is up, and none was left behind");
    }
    Ok(ExitCode::Done)
}

/// A killed run leaves a journal of a namespace that is gone; taking labs down clears it away.
fn settle(context: &Context) -> Result<()> {
    let state = store::state_dir();
    let host = context.live("lab down")?;
    if !state.path().is_dir() {
        return Ok(());
    }
    // Where another run is at work, it settles what it finds.
    let Ok(hold) = Hold::take(host, &state, "lab down", Duration::ZERO) else { return Ok(()) };
    let mut notes = hold.undo_overdue()?;
    notes.extend(hold.settle()?.notes);
    drop(hold);
    notes.iter().for_each(|note| context.out.say(note));
    Ok(())
}

fn list(context: &Context) -> Result<ExitCode> {
    let out = &context.out;
    let labs = named::list()?;
    if out.json {
        out.json(&Labs::of(&labs))?;
        return Ok(ExitCode::Done);
    }
    if labs.is_empty() {
        out.say("no lab is up; linerate lab up makes one");
        return Ok(ExitCode::Done);
    }
    let mut table = Table::new(&["lab", "since", "rules", "mtu", "namespaces"]);
    for lab in &labs {
        let spec =
            |f: fn(&LabSpec) -> u32| lab.spec.as_ref().map_or("?".into(), |s| f(s).to_string());
        table.row([
            lab.id.clone(),
            lab.created.clone().unwrap_or_else(|| "?".into()),
            spec(|s| s.rules),
            spec(|s| s.mtu),
            if lab.is_whole() { "all there".into() } else { "left behind by a crash".to_owned() },
        ]);
    }
    out.tell(out.table(&table).join("\n"))?;
    Ok(ExitCode::Done)
}

/// The exit status of the shell or command becomes ours.
fn shell(id: Option<&str>, side: LabSide, command: &[OsString]) -> Result<ExitCode> {
    let id = match id {
        Some(id) => id.to_owned(),
        None => only_one()?,
    };
    let role = match side {
        LabSide::Lan => named::Role::Lan,
        LabSide::Router => named::Role::Router,
        LabSide::Wan => named::Role::Wan,
    };
    match named::enter(&id, role, command)? {
        0 => Ok(ExitCode::Done),
        status => std::process::exit(i32::from(status)),
    }
}

fn only_one() -> Result<String> {
    let labs = named::list()?;
    match labs.as_slice() {
        [lab] => Ok(lab.id.clone()),
        [] => {
            Err(Error::not_supported("lab shell", "no lab is up").hint("linerate lab up makes one"))
        }
        labs => {
            let ids: Vec<&str> = labs.iter().map(|l| l.id.as_str()).collect();
            Err(Error::usage("lab shell", "several labs are up")
                .hint(format!("choose one with --id: {}", ids.join(", "))))
        }
    }
}

#[derive(serde::Serialize)]
struct Labs<'a> {
    format: &'static str,
    version: u32,
    labs: Vec<JsonLab<'a>>,
}

#[derive(serde::Serialize)]
struct JsonLab<'a> {
    id: &'a str,
    created: Option<&'a str>,
    rules: Option<u32>,
    mtu: Option<u32>,
    namespaces: Vec<String>,
}

impl<'a> Labs<'a> {
    fn of(labs: &'a [named::NamedLab]) -> Self {
        let labs = labs.iter().map(|lab| JsonLab {
            id: &lab.id,
            created: lab.created.as_deref(),
            rules: lab.spec.as_ref().map(|s| s.rules),
            mtu: lab.spec.as_ref().map(|s| s.mtu),
            namespaces: lab.namespaces.iter().map(|(_, p)| p.display().to_string()).collect(),
        });
        Self { format: "linerate-labs", version: 1, labs: labs.collect() }
    }
}
