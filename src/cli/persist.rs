//! `linerate persist` and `unpersist`: a plan that outlasts reboots and reaches devices that come
//! later.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::context::Context;
use super::shared::persisted::{chosen, target, told, write};
use super::shared::syslog;
use crate::change::apply::pending::{Patience, split};
use crate::change::apply::{self, Changer, Hold, check_fits};
use crate::change::persist::{self, Init, Wanted};
use crate::error::{ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::{HostRead, HostWrite, tidy_packet_steering};
use crate::machine::store;
use crate::machine::store::disk::Root;
use crate::model::knob::Knob;

/// `persist`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate persist plan.toml          # in force from the next boot on
  linerate persist --print            # the files that it would write")]
pub struct PersistArgs {
    /// The plan file [default: plan.toml, or else what is persisted]
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Print the files that would be written, and write nothing
    #[arg(long)]
    pub print: bool,
    /// Take this instead of what starts programs here (for images, with LINERATE_ROOT_DIR)
    #[arg(long, value_name = "INIT")]
    pub init: Option<InitName>,
    /// Where the program will lie (for images)
    #[arg(long, value_name = "PATH", hide = true)]
    pub program: Option<String>,
}

/// Program that starts all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InitName {
    /// systemd with udev
    Systemd,
    /// OpenWrt's procd and hotplug.d
    Openwrt,
}

impl From<InitName> for Init {
    fn from(name: InitName) -> Self {
        match name {
            InitName::Systemd => Self::Systemd,
            InitName::Openwrt => Self::OpenWrt,
        }
    }
}

/// `unpersist`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate unpersist                  # removes what `linerate persist` wrote")]
pub struct UnpersistArgs {
    /// Also undo files and settings that somebody else has changed since
    #[arg(long)]
    pub force: bool,
}

/// Runs `persist`.
pub(super) fn run(context: &Context, args: &PersistArgs) -> Result<ExitCode> {
    let out = &context.out;
    let plan = store::plan::read(&chosen(args.plan.as_deref()).0)?;
    let target = target(context, args.init.map(Init::from), args.program.as_deref())?;
    if args.print {
        let files = persist::wanted(target.init, &target.program, &plan, &target.router)?;
        let texts: Vec<String> = files.iter().map(Wanted::printed).collect();
        if out.json {
            out.json(&Printed { format: "linerate-persist-files", version: 1, files: &texts })?;
        } else {
            out.data(texts.join("\n"))?;
            out.say(format_args!("{} files, none written", files.len()));
        }
        return Ok(ExitCode::Done);
    }
    let host = context.live("persist")?;
    let devices: Vec<String> = plan.devices.iter().map(|d| d.name.clone()).collect();
    let look = |host: &dyn HostRead| discover::devices(host, &devices);
    let later = out.later();
    let changer = Changer::begin(host, &store::state_dir(), "persist", Duration::ZERO, look)?;
    changer.notes.iter().for_each(|note| out.say(note));
    if Root::of_environment().is_here() {
        let (now, waiting) = split(host, &plan, changer.snapshot(), Patience::All);
        check_fits(&now, changer.snapshot())?;
        for one in &waiting {
            out.say(format_args!("pending: {} to {}: {}", one.knob, one.wanted, one.why));
        }
    }
    let files = write(context, &target, &plan, changer.lock())?;
    drop(changer);
    if out.json {
        out.json(&Changed { format: "linerate-persist", version: 1, files: &files })?;
    }
    later.print()?;
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Printed<'a> {
    format: &'static str,
    version: u32,
    files: &'a [String],
}

/// `persist --json` and `unpersist --json`: the files written, or undone.
#[derive(serde::Serialize)]
struct Changed<'a> {
    format: &'static str,
    version: u32,
    files: &'a [PathBuf],
}

/// Runs `unpersist`.
pub(super) fn undo(context: &Context, args: &UnpersistArgs) -> Result<ExitCode> {
    let host = context.live("unpersist")?;
    let out = &context.out;
    let root = Root::of_environment();
    let later = out.later();
    let lock = Hold::take(host, &store::state_dir(), "unpersist", Duration::ZERO)?;
    let init = persist::record(&root)?.map(|record| record.init);
    // What is in force by a journal of ours stays so, also where the file said it.
    let steered = apply::status(host, &store::state_dir())?.iter().any(|one| {
        one.journal.header.entries.iter().any(|entry| entry.knob == Knob::PacketSteering)
    });
    let steering = Path::new("packet-steering");
    let value = host.text(steering).ok().filter(|_| steered && root.is_here());
    let undone = persist::unpersist(&root, args.force);
    if let Some(value) = value.as_deref().and_then(|value| value.split(' ').next())
        && let Err(e) = host.write(steering, value.as_bytes())
    {
        log::warn!("{e}");
    }
    if root.is_here() {
        tidy_packet_steering(host);
    }
    if let Some(init) = init {
        told(context, &root, init);
    }
    drop(lock);
    later.print()?;
    let undone: Vec<PathBuf> = undone?.iter().map(|path| root.path(path)).collect();
    if out.json {
        out.json(&Changed { format: "linerate-unpersist", version: 1, files: &undone })?;
    }
    if init.is_none() {
        out.say("nothing is persisted");
        return Ok(ExitCode::Done);
    }
    syslog::note(context, "unpersist: nothing is persisted any more");
    undone.iter().for_each(|path| out.say(format_args!("undid {}", path.display())));
    out.say(
        "nothing is persisted any more; what is in force now stays so until: linerate rollback",
    );
    Ok(ExitCode::Done)
}
