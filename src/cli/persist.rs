//! `linerate persist` and `unpersist`: a plan that outlasts reboots and reaches devices that come
//! later.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::{InitName, PersistArgs, UnpersistArgs};
use super::context::Context;
use super::output::Output;
use crate::apply::pending::{Patience, split};
use crate::discover;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{HostRead, command};
use crate::model::plan::Plan;
use crate::persist::guard;
use crate::persist::{self, Init, Wanted};
use crate::store;
use crate::store::Lock;
use crate::store::disk::Root;

/// Where the program lies in an image.
const PROGRAM: &str = "/usr/bin/linerate";

/// What files are written for.
pub(super) struct Target {
    init: Init,
    program: String,
    router: persist::Router,
}

/// The plan file that is meant without one being named: plan.toml here, or else the persisted one.
/// Also whether it is that one.
pub(super) fn chosen(named: Option<&Path>) -> (PathBuf, bool) {
    let kept = Root::of_environment().path(Path::new(persist::PLAN));
    let here = PathBuf::from("plan.toml");
    let path = match named {
        Some(path) => path.to_owned(),
        None if !here.exists() && kept.exists() => kept.clone(),
        None => here,
    };
    let persisted = path == kept;
    (path, persisted)
}

/// Finds out what to write files for.
pub(super) fn target(
    context: &Context,
    init: Option<InitName>,
    program: Option<&str>,
) -> Result<Target> {
    let host = context.reader();
    let here = Root::of_environment().is_here();
    let init = match init {
        Some(InitName::Systemd) => Init::Systemd,
        Some(InitName::Openwrt) => Init::OpenWrt,
        None => persist::detect(host)?,
    };
    let program = match program {
        Some(program) => program.to_owned(),
        None if !here => PROGRAM.to_owned(),
        None => std::env::current_exe()
            .map_err(|e| Error::not_supported("find this program", e))?
            .to_string_lossy()
            .into_owned(),
    };
    let router = persist::router(host, &program);
    Ok(Target { init, program, router })
}

/// Runs `persist`.
pub(super) fn run(context: &Context, args: &PersistArgs) -> Result<ExitCode> {
    let out = &context.out;
    let plan = store::plan::read(&chosen(args.plan.as_deref()).0)?;
    let target = target(context, args.init, args.program.as_deref())?;
    if args.print {
        let files = persist::wanted(target.init, &target.program, &plan, target.router)?;
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
    if Root::of_environment().is_here() {
        let devices: Vec<String> = plan.devices.iter().map(|d| d.name.clone()).collect();
        let snapshot = discover::devices(host, &devices);
        let (now, waiting) = split(host, &plan, &snapshot, Patience::All);
        store::plan::check_machine(&now, &snapshot)?;
        for one in &waiting {
            out.say(format_args!("pending: {} to {}: {}", one.knob, one.wanted, one.why));
        }
    }
    let lock = store::state_dir().lock("persist")?;
    write(context, &target, &plan, &lock)?;
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Printed<'a> {
    format: &'static str,
    version: u32,
    files: &'a [String],
}

/// Writes the files, all or none, and tells the init of them.
pub(super) fn write(context: &Context, target: &Target, plan: &Plan, lock: &Lock) -> Result<()> {
    let host = context.live("persist")?;
    let out = &context.out;
    let root = Root::of_environment();
    if lock.state().armed()?.is_some() {
        return Err(Error::usage("persist", "a change still waits to be confirmed")
            .hint("linerate confirm keeps it; linerate rollback undoes it"));
    }
    let program = Path::new(&target.program);
    if root.is_here() && persist::is_volatile(host, program) {
        let what = format!("persist {}", program.display());
        return Err(Error::usage(what, "the program lies in memory and is gone after a reboot")
            .hint(format!("copy it to {PROGRAM} and call that one")));
    }
    if root.is_here() && target.init == Init::Systemd {
        let runner = Path::new("/usr/bin/systemd-run");
        host.resolve(runner).map_err(|e| Error::not_supported("persist", e))?;
    }
    let files = persist::wanted(target.init, &target.program, plan, target.router)?;
    let boot_id = root.is_here().then(|| host.identity().boot_id);
    let changed = persist::persist(&root, target.init, plan, &files, boot_id.as_deref())?;
    if changed.is_empty() {
        out.say("persisted already: nothing to write");
        return Ok(());
    }
    told(context, &root, target.init);
    changed.iter().for_each(|path| out.say(format_args!("wrote {}", root.path(path).display())));
    out.say(format_args!(
        "{} is applied at every start and to every device that appears; look: linerate status; \
         undo: linerate unpersist",
        plan.candidate.name
    ));
    Ok(())
}

/// Has the init read its files anew. The files are right either way, at the latest with the next
/// boot, so a failure is a warning.
fn told(context: &Context, root: &Root, init: Init) {
    if !root.is_here() {
        return;
    }
    let commands: &[(&str, &[&str])] = match init {
        Init::Systemd => {
            &[("systemctl", &["daemon-reload"]), ("udevadm", &["control", "--reload"])]
        }
        // hotplug-call looks for its scripts at every event.
        Init::OpenWrt => &[],
    };
    for (program, arguments) in commands {
        let why = match command::run(program, arguments, Duration::from_secs(20)) {
            Ok(ended) if ended.code == Some(0) => continue,
            Ok(ended) => String::from_utf8_lossy(&ended.output).trim().to_owned(),
            Err(e) => e.reason(),
        };
        let line = format!(
            "{program} {}: {why}; it is in force from the next boot on",
            arguments.join(" ")
        );
        context.out.say(context.out.warn(line));
    }
}

/// Runs `unpersist`.
pub(super) fn undo(context: &Context, args: &UnpersistArgs) -> Result<ExitCode> {
    context.live("unpersist")?;
    let out = &context.out;
    let root = Root::of_environment();
    let lock = store::state_dir().lock("unpersist")?;
    let init = persist::record(&root)?.map(|record| record.init);
    let undone = persist::unpersist(&root, args.force);
    if let Some(init) = init {
        told(context, &root, init);
    }
    drop(lock);
    let undone = undone?;
    if init.is_none() {
        out.say("nothing is persisted");
        return Ok(ExitCode::Done);
    }
    undone.iter().for_each(|path| out.say(format_args!("undid {}", root.path(path).display())));
    out.say(
        "nothing is persisted any more; what is in force now stays so until: linerate rollback",
    );
    Ok(ExitCode::Done)
}

/// What `status` tells of persisted settings.
#[derive(serde::Serialize)]
pub(super) struct State {
    plan: String,
    init: Init,
    skipped: bool,
    pending: Vec<String>,
}

/// What is persisted; `None` where nothing is.
pub(super) fn state(host: &dyn HostRead) -> Result<Option<State>> {
    let root = Root::of_environment();
    let Some(record) = persist::record(&root)? else { return Ok(None) };
    let skipped = guard::read(&root).is_some_and(|guard| guard.skip);
    let pending = match persist::event::plan(&root)? {
        None => Vec::new(),
        Some(plan) => {
            let devices: Vec<String> = plan.devices.iter().map(|d| d.name.clone()).collect();
            let snapshot = discover::devices(host, &devices);
            let (_, waiting) = split(host, &plan, &snapshot, Patience::All);
            waiting.iter().map(|w| format!("{} to {}: {}", w.knob, w.wanted, w.why)).collect()
        }
    };
    Ok(Some(State { plan: record.plan, init: record.init, skipped, pending }))
}

impl State {
    /// For a person.
    pub(super) fn lines(&self, out: &Output) -> Vec<String> {
        let mut lines =
            vec![format!("persisted: {} ({}); undo: linerate unpersist", self.plan, persist::PLAN)];
        if self.skipped {
            lines.push(out.warn(SKIPPED));
        }
        lines.extend(self.pending.iter().map(|one| format!("pending: {one}")));
        lines
    }
}

/// What the boot guard says.
pub(super) const SKIPPED: &str = "persisted settings are skipped: twice in a row the machine did \
     not stay up for 5 minutes with them; to enable them again: linerate persist \
     /etc/linerate/plan.toml";
