//! `linerate rollback` and `linerate status`: what is in force, and how it is undone.

use std::time::Duration;

use clap::Args;

use super::context::Context;
use super::shared::{persisted, waiting};
use super::table::Table;
use crate::change::apply::{self, Hold, Whereabouts, deadman, time_left};
use crate::error::{ExitCode, Result};
use crate::machine::store;

/// `rollback`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate rollback                   # as it was before linerate came")]
pub struct RollbackArgs {
    /// Overwrite values that something else has set since
    #[arg(long)]
    pub force: bool,
}

/// Runs `rollback`.
pub(super) fn run(context: &Context, args: &RollbackArgs) -> Result<ExitCode> {
    let host = context.live("rollback")?;
    let out = &context.out;
    let state = store::state_dir();
    let later = out.later();
    // Without a journal there is nothing to lock, and no right is needed to say so.
    let journals = state.journals()?;
    let nothing = journals.whole.is_empty() && journals.damaged.is_empty();
    if nothing && state.armed()?.is_none() {
        // What a killed process left is cleared away: its lock, a journal that it had not begun.
        if state.path().is_dir()
            && let Ok(hold) = Hold::take(host, &state, "rollback", Duration::ZERO)
        {
            hold.settle()?;
            state.forget_undone(hold.lock())?;
        }
        later.print()?;
        if out.json {
            out.json(&Undone { format: "linerate-rollback", version: 1, restored: Vec::new() })?;
        }
        out.say("nothing to undo: linerate has changed nothing here since the machine started");
        return Ok(ExitCode::Done);
    }
    let done = Hold::take(host, &state, "rollback", waiting::PATIENCE)?.roll_back(args.force)?;
    later.print()?;
    done.notes.iter().for_each(|note| out.say(note));
    if out.json {
        let restored = done.restored.iter().map(|r| r.path.display().to_string()).collect();
        out.json(&Undone { format: "linerate-rollback", version: 1, restored })?;
    } else if !done.restored.is_empty() {
        let mut table = Table::new(&["restored", "at"]);
        for r in &done.restored {
            table.row([r.knob.to_string(), r.path.display().to_string()]);
        }
        out.data(table.lines().join("\n"))?;
    }
    out.say(format_args!("{} settings restored and read back", done.restored.len()));
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Undone {
    format: &'static str,
    version: u32,
    restored: Vec<String>,
}

/// Runs `status`.
pub(super) fn status(context: &Context) -> Result<ExitCode> {
    let host = context.live("status")?;
    let out = &context.out;
    let state = store::state_dir();
    if let Some(armed) = deadman::overdue(host, &state)? {
        // Its guard may be at it, and who may not write can only say so.
        let undone = match Hold::take(host, &state, "status", Duration::ZERO) {
            Ok(hold) => hold.undo_overdue(),
            Err(_) => Ok(vec![waiting::late_by(&armed)]),
        };
        match undone {
            Ok(notes) => notes.iter().for_each(|note| out.say(out.warn(note))),
            Err(e) => out.say(out.warn(format_args!(
                "a change that was never confirmed is not undone yet, and is tried again: {e}"
            ))),
        }
    }
    let in_force = apply::status(host, &state)?;
    let damaged: Vec<String> = state.journals()?.damaged.iter().map(ToString::to_string).collect();
    let (armed, undone) = (state.armed()?, deadman::last_undone(host, &state)?);
    let persisted = persisted::state(host)?;
    if out.json {
        let journals: Vec<_> = in_force.iter().map(|i| &i.journal.header).collect();
        let waiting = armed.as_ref().map(|armed| Waiting {
            seconds_left: time_left(armed).as_secs_f64(),
            watched: armed.watched.iter().map(ToString::to_string).collect(),
        });
        let (format, version) = ("linerate-status", 1);
        out.json(&Status { format, version, journals, damaged, persisted, waiting, undone })?;
        return Ok(ExitCode::Done);
    }
    for journal in &damaged {
        out.data(out.warn(journal))?;
    }
    if let Some(undone) = &undone {
        out.data(out.warn(waiting::sentence(undone)))?;
    }
    let persisted = persisted.map(|state| state.lines(out)).unwrap_or_default();
    if in_force.is_empty() && !damaged.is_empty() {
        return Ok(ExitCode::Done);
    }
    if in_force.is_empty() {
        let nothing = "linerate has changed nothing here since the machine started";
        out.data([vec![nothing.to_owned()], persisted].concat().join("\n"))?;
        return Ok(ExitCode::Done);
    }
    let mut table = Table::new(&["by", "settings", "state", "where"]);
    for i in &in_force {
        table.row([
            i.journal.header.what.clone(),
            i.journal.header.entries.len().to_string(),
            format!("{:?}", i.journal.phase).to_lowercase(),
            match i.place {
                Whereabouts::Here => "here".into(),
                Whereabouts::EarlierBoot => "an earlier boot: gone".into(),
                Whereabouts::GoneNamespace => "a network namespace that is gone".into(),
                Whereabouts::OtherNamespace => "another network namespace".to_owned(),
            },
        ]);
    }
    out.data([table.lines(), persisted].concat().join("\n"))?;
    if let Some(armed) = armed {
        let left = time_left(&armed).as_secs_f64();
        let watching = match waiting::names(&armed.watched) {
            names if names.is_empty() => String::new(),
            names => format!(", or when {names} stops answering"),
        };
        out.say(out.warn(format_args!(
            "undone in {left:.0} s{watching}, unless you say: linerate confirm"
        )));
    }
    out.say("undo: linerate rollback");
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Status<'a> {
    format: &'static str,
    version: u32,
    journals: Vec<&'a store::journal::Header>,
    /// Journals that can't be undone from, and what is known of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persisted: Option<persisted::State>,
    /// The change that is undone unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Waiting>,
    /// The last change that nobody confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    undone: Option<store::deadman::Undone>,
}

#[derive(serde::Serialize)]
struct Waiting {
    seconds_left: f64,
    watched: Vec<String>,
}
