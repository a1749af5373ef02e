//! `linerate confirm`, and the guard that undoes a change without it.

use std::path::Path;

use clap::Args;

use super::context::Context;
use super::shared::{second, syslog, waiting};
use crate::change::apply::deadman::{Guard, Watch};
use crate::change::apply::probe::Watcher;
use crate::error::{ExitCode, Result};
use crate::machine::host::HostWrite;
use crate::machine::host::clock::System;
use crate::machine::store;
use crate::machine::store::deadman::Undone;
use crate::machine::sys::spawn;

/// `dead-man`
#[derive(Debug, Args)]
pub struct DeadManArgs {
    /// The change's number
    token: u64,
    /// Watch no address: the first one does
    #[arg(long)]
    second: bool,
}

/// Runs `confirm`.
pub(super) fn run(context: &Context) -> Result<ExitCode> {
    waiting::confirm(context)
}

/// The guard itself. It has no terminal; what it did goes to the kernel's log, and to whoever says
/// `confirm` or `status`.
pub(super) fn guard(context: &Context, args: &DeadManArgs) -> Result<ExitCode> {
    let host = context.live("dead-man")?;
    let state = store::state_dir();
    if let Err(e) = spawn::stay_detached() {
        log::warn!("{e}");
    }
    // Not the one that is ended when memory is short.
    if let Err(e) = host.write(Path::new("/proc/self/oom_score_adj"), b"-1000") {
        log::debug!("{e}");
    }
    // Where it can't be read now, its gateways are not watched; its deadline is.
    let armed = state.armed().ok().flatten().filter(|_| !args.second);
    let targets = armed.map(|armed| armed.watched).unwrap_or_default();
    let mut watcher = Watcher::new(host, &targets);
    let (mut failures, mut is_told) = (0_u32, false);
    let mut guard = Guard {
        host,
        state: &state,
        clock: &System,
        remembers: &mut || {
            if !std::mem::replace(&mut is_told, true)
                && let Err(e) = spawn::let_go()
            {
                log::warn!("{e}");
            }
        },
        lost: &mut || watcher.lost(host),
        failed: &mut |e| {
            // Once: the log is for other things too.
            failures += 1;
            if failures == 1 {
                log(context, &format!("a change that nobody confirmed is not undone yet: {e}"));
            }
        },
    };
    let ended = guard.watch(args.token);
    second::call_off(host, args.token);
    let said = match ended? {
        Watch::Settled => return Ok(ExitCode::Done),
        Watch::Undone(Undone { why, left: Some(left), .. }) => format!("{why}: {left}"),
        Watch::Undone(Undone { why, restored, .. }) => {
            format!("{why}: {restored} settings restored to what they were")
        }
    };
    log(context, &said);
    Ok(ExitCode::Done)
}

/// A line for the log, or at least for whoever runs this by hand.
fn log(context: &Context, text: &str) {
    if let Err(e) = syslog::line(context, syslog::WARNING, text) {
        log::warn!("{e}");
    }
}
