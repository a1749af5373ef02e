//! `linerate lab`: a router in a box, by hand.

use std::ffi::OsString;

use super::args::{LabAction, LabArgs, Place};
use super::confirm;
use super::context::Context;
use super::table::Table;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::lab::{LabSpec, Shape, named};
use crate::{apply, store};

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
        LabAction::Shell { id, place, command } => shell(id.as_deref(), *place, command),
    }
}

fn up(context: &Context, spec: LabSpec) -> Result<ExitCode> {
    let out = &context.out;
    let lab = named::up(&spec)?;
    if out.json {
        out.json(&Labs::of(&[lab]))?;
        return Ok(ExitCode::Done);
    }
    out.data(format_args!("lab {} is up", lab.id))?;
    for (role, path) in &lab.namespaces {
        out.data(format_args!("  {:7} {}", role.name(), path.display()))?;
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
        out.data(format_args!(
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
    match state.lock("lab down") {
        Ok(lock) => {
            confirm::undo_overdue(context, &lock)?;
            let settled = apply::settle(host, &lock)?;
            settled.notes.iter().for_each(|note| context.out.say(note));
            Ok(())
        }
        // Another run is at work, and settles what it finds.
        Err(_) => Ok(()),
    }
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
    out.data(table.lines().join("\n"))?;
    Ok(ExitCode::Done)
}

/// The exit status of the shell or command becomes ours.
fn shell(id: Option<&str>, place: Place, command: &[OsString]) -> Result<ExitCode> {
    let id = match id {
        Some(id) => id.to_owned(),
        None => only_one()?,
    };
    let role = match place {
        Place::Lan => named::Role::Lan,
        Place::Router => named::Role::Router,
        Place::Wan => named::Role::Wan,
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
        [] => Err(Error::usage("lab shell", "no lab is up").hint("linerate lab up makes one")),
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
