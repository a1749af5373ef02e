//! `linerate rollback`: everything back to what it was before.

use std::time::Duration;

use clap::Args;

use super::context::Context;
use super::shared::{syslog, waiting};
use crate::change::apply::Hold;
use crate::error::{ExitCode, Result};
use crate::machine::host::has_notes;
use crate::machine::store;
use crate::report::document::Table;

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
        // What we staged in uci may have been committed before the machine started.
        let mut put_back = Vec::new();
        if (state.path().is_dir() || has_notes(host))
            && let Ok(hold) = Hold::take(host, &state, "rollback", Duration::ZERO)
        {
            put_back = hold.settle()?.notes;
            state.forget_undone(hold.lock())?;
        }
        later.print()?;
        put_back.iter().for_each(|note| {
            out.say(note);
            syslog::note(context, &format!("rollback: {note}"));
        });
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
        out.tell(out.table(&table).join("\n"))?;
    }
    let told = format!("{} settings restored and read back", done.restored.len());
    syslog::note(context, &format!("rollback: {told}"));
    out.say(told);
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Undone {
    format: &'static str,
    version: u32,
    restored: Vec<String>,
}
