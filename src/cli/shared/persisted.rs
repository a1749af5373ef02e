//! A plan that outlasts reboots: for `persist`, `apply --persist`, `verify`, `status` and events.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::syslog;
use crate::change::apply::pending::{Patience, split};
use crate::change::apply::{self, Drifted, InForce, Whereabouts};
use crate::change::persist::guard;
use crate::change::persist::{self, Init};
use crate::change::verify;
use crate::cli::context::Context;
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::{HostRead, command, tidy_packet_steering};
use crate::machine::store::disk::Root;
use crate::machine::store::{Lock, StateDir};
use crate::model::knob::Knob;
use crate::model::plan::Plan;

/// Path of the program in an image.
const PROGRAM: &str = "/usr/bin/linerate";

/// System that files are written for.
pub(in crate::cli) struct Target {
    pub(in crate::cli) init: Init,
    pub(in crate::cli) program: String,
    pub(in crate::cli) router: persist::Router,
}

/// The plan file that is meant without one being named: plan.toml here, or else the persisted one.
/// Also whether it is that one.
pub(in crate::cli) fn chosen(named: Option<&Path>) -> (PathBuf, bool) {
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
pub(in crate::cli) fn target(
    context: &Context,
    init: Option<Init>,
    program: Option<&str>,
) -> Result<Target> {
    let host = context.reader();
    let here = Root::of_environment().is_here();
    let init = match init {
        Some(init) => init,
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
    let mut router = persist::router(host, &program);
    // What is committed now may be ours.
    if let Ok(Some(record)) = persist::record(&Root::of_environment())
        && let Some(former) = record.former_steering()
    {
        router.former = former.map(str::to_owned);
    }
    Ok(Target { init, program, router })
}

/// Writes the files, all or none, and tells the init of them.
pub(in crate::cli) fn write(
    context: &Context,
    target: &Target,
    plan: &Plan,
    lock: &Lock,
) -> Result<Vec<PathBuf>> {
    let host = context.live("persist")?;
    let out = &context.out;
    let root = Root::of_environment();
    if lock.state().armed()?.is_some() {
        return Err(Error::not_supported("persist", "a change still waits to be confirmed")
            .hint("linerate confirm keeps it; linerate rollback undoes it"));
    }
    let program = Path::new(&target.program);
    if root.is_here() && persist::is_volatile(host, program) {
        let what = format!("persist {}", program.display());
        return Err(Error::not_supported(
            what,
            "the program lies in memory and is gone after a reboot",
        )
        .hint(format!("copy it to {PROGRAM} and call that one")));
    }
    if root.is_here() && target.init == Init::Systemd {
        let runner = Path::new("/usr/bin/systemd-run");
        host.resolve(runner).map_err(|e| Error::not_supported("persist", e))?;
    }
    let files = persist::wanted(target.init, &target.program, plan, &target.router)?;
    let boot_id = root.is_here().then(|| host.identity().boot_id);
    let changed = persist::persist(&root, target.init, plan, &files, boot_id.as_deref())?;
    if changed.is_empty() {
        out.say("persisted already: nothing to write");
        return Ok(Vec::new());
    }
    told(context, &root, target.init);
    if root.is_here() {
        tidy_packet_steering(host);
    }
    syslog::note(context, &format!("persist: {} is applied at every start", plan.candidate.name));
    let changed: Vec<PathBuf> = changed.iter().map(|path| root.path(path)).collect();
    changed.iter().for_each(|path| out.say(format_args!("wrote {}", path.display())));
    out.say(format_args!(
        "{} is applied at every start and to every device that appears; look: linerate status; \
         undo: linerate unpersist",
        plan.candidate.name
    ));
    Ok(changed)
}

/// Has the init read its files anew. The files are right either way, at the latest with the next
/// boot, so a failure is a warning.
pub(in crate::cli) fn told(context: &Context, root: &Root, init: Init) {
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

/// Persisted settings, for `status`.
#[derive(serde::Serialize)]
pub(in crate::cli) struct State {
    pub(in crate::cli) plan: String,
    /// `None` where the record is for root's eyes.
    #[serde(skip_serializing_if = "Option::is_none")]
    init: Option<Init>,
    pub(in crate::cli) skipped: bool,
    pending: Vec<String>,
    /// Settings that are not as the plan has them.
    #[serde(skip)]
    pub(in crate::cli) drifted: Vec<Drifted>,
}

/// Finds what is persisted; `None` where nothing is.
pub(in crate::cli) fn state(host: &dyn HostRead) -> Result<Option<State>> {
    let root = Root::of_environment();
    let plan = persist::event::plan(&root)?;
    let (name, init) = match (persist::record(&root), &plan) {
        (Ok(None), _) => return Ok(None),
        (Ok(Some(record)), _) => (record.plan, Some(record.init)),
        // It has what was in the files before; the plan is for everybody's eyes.
        (Err(e), Some(plan)) if e.code() == ExitCode::NotPermitted => {
            (plan.candidate.name.clone(), None)
        }
        (Err(e), _) => return Err(e),
    };
    let skipped = guard::read(&root).is_some_and(|guard| guard.skip);
    let (pending, drifted) = match plan {
        None => Default::default(),
        Some(plan) => {
            let devices: Vec<String> = plan.devices.iter().map(|d| d.name.clone()).collect();
            let snapshot = discover::devices(host, &devices);
            let (now, waiting) = split(host, &plan, &snapshot, Patience::All);
            let pending =
                waiting.iter().map(|w| format!("{} to {}: {}", w.knob, w.wanted, w.why)).collect();
            let report = verify::verify(host, &snapshot, &now.candidate);
            let drifted = report.drifted().map(|check| Drifted {
                knob: check.knob.clone(),
                wanted: check.wanted.to_string(),
                value: Some(check.wanted.clone()),
                is: check.actual.as_ref().map(ToString::to_string),
            });
            (pending, drifted.collect())
        }
    };
    Ok(Some(State { plan: name, init, skipped, pending, drifted }))
}

/// Changes and plans in force, and the settings that are not as they were left.
pub(in crate::cli) struct Kept {
    pub(in crate::cli) in_force: Vec<InForce>,
    pub(in crate::cli) persisted: Option<State>,
    pub(in crate::cli) drift: Vec<Drifted>,
}

/// Finds them.
pub(in crate::cli) fn kept(host: &dyn HostRead, at: &StateDir) -> Result<Kept> {
    let in_force = apply::status(host, at)?;
    let mut persisted = state(host)?;
    let mut drift = apply::drift(host, &in_force);
    // What was applied since is what counts; where nothing was, the persisted plan.
    let made = |knob: &Knob| {
        let here = in_force.iter().filter(|one| one.place == Whereabouts::Here);
        here.flat_map(|one| &one.journal.header.entries).any(|entry| entry.knob == *knob)
    };
    if let Some(kept) = persisted.as_mut().filter(|kept| !kept.skipped) {
        let kept = std::mem::take(&mut kept.drifted);
        drift.extend(kept.into_iter().filter(|one| !made(&one.knob)));
    }
    Ok(Kept { in_force, persisted, drift })
}

impl State {
    /// For a person: a label and what it says.
    pub(in crate::cli) fn facts(&self) -> Vec<(String, String)> {
        let plan = format!("{} ({}); undo: linerate unpersist", self.plan, persist::PLAN);
        let pending = self.pending.iter().map(|one| ("pending".to_owned(), one.clone()));
        std::iter::once(("persisted".to_owned(), plan)).chain(pending).collect()
    }
}

/// Message of the boot guard.
pub(in crate::cli) const SKIPPED: &str = "persisted settings are skipped: twice in a row the machine did \
     not stay up for 5 minutes with them; to enable them again: linerate persist \
     /etc/linerate/plan.toml";
