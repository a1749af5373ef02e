//! The verbs that init and hotplug call: `boot` and `event`. Nobody sees their output; what matters
//! goes to the kernel's log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::args::EventArgs;
use super::context::Context;
use super::interrupt;
use super::persist::SKIPPED;
use crate::discover;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::{HostRead, HostWrite, Live, clock};
use crate::model::plan::Plan;
use crate::persist::HOME;
use crate::persist::event::{self, Outcome, Which};
use crate::persist::guard::{self, Verdict};
use crate::store;
use crate::store::disk::Root;
use crate::store::swap::{refused, settle};

/// How long an event waits for its device to be brought up: many drivers ask for their interrupt
/// lines only then, and udev has no event for it.
const BROUGHT_UP: Duration = Duration::from_secs(120);

/// After that lines are looked for again so long later; some come late.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(3)];

/// Runs `event`.
pub(super) fn run(context: &Context, args: &EventArgs) -> Result<ExitCode> {
    let which = match &args.device {
        Some(device) if !args.all => Which::Device(device.clone()),
        _ => Which::Devices,
    };
    let verb = format!("event {}", args.device.as_deref().unwrap_or("--all"));
    go(context, &which, &verb)
}

/// Runs `boot`.
pub(super) fn boot(context: &Context) -> Result<ExitCode> {
    go(context, &Which::Everything, "boot")
}

/// Runs `boot --stayed`.
pub(super) fn stayed(context: &Context) -> Result<ExitCode> {
    let host = context.live("boot")?;
    clock::sleep(guard::LONG_ENOUGH.saturating_sub(clock::boottime()));
    let noted = guard::stayed(&Root::of_environment(), &host.identity().boot_id);
    noted.map_err(|e| refused("write", Path::new(guard::GUARD), &e))?;
    Ok(ExitCode::Done)
}

fn go(context: &Context, which: &Which, verb: &str) -> Result<ExitCode> {
    let done = apply(context, which, verb);
    if let Err(e) = &done {
        tell(context, 4, &e.to_string());
    }
    done
}

fn apply(context: &Context, which: &Which, verb: &str) -> Result<ExitCode> {
    let host = context.live(verb)?;
    let root = Root::of_environment();
    if *which == Which::Everything {
        settle(&root, Path::new(HOME))?;
    }
    let Some(plan) = event::plan(&root)? else { return Ok(ExitCode::Done) };
    let devices = event::devices(host, &plan, which);
    if devices.is_empty() && *which != Which::Everything {
        return Ok(ExitCode::Done);
    }
    let stop = interrupt::stop_flag()?;
    let event = Event { context, host, root, plan, which, devices, verb, stop };
    let Some(mut outcome) = event.once()? else { return Ok(ExitCode::Done) };
    if matches!(which, Which::Device(_)) {
        outcome = event.linger(outcome)?;
    }
    Ok(if outcome.failed.is_empty() { ExitCode::Done } else { ExitCode::RolledBack })
}

/// Something happened, and these settings are to be made.
struct Event<'a> {
    context: &'a Context,
    host: &'a Live,
    root: Root,
    plan: Plan,
    which: &'a Which,
    devices: Vec<String>,
    verb: &'a str,
    stop: Arc<AtomicBool>,
}

impl Event<'_> {
    /// Applies once; `None` where the boot guard says no.
    fn once(&self) -> Result<Option<Outcome>> {
        let Self { context, host, verb, which, .. } = *self;
        let lock = event::lock(&store::state_dir(), verb)?;
        if event::admitted(&self.root, host)? == Verdict::Skip {
            // Not for every device.
            if *which == Which::Everything {
                tell(context, 4, SKIPPED);
            }
            return Ok(None);
        }
        let names = event::looked_at(&self.plan, &self.devices);
        let snapshot = discover::devices(host, &names);
        let outcome =
            event::run(host, &snapshot, &self.plan, which, &self.devices, &lock, &self.stop);
        for error in &outcome.failed {
            tell(context, 4, &format!("{verb}: {error}"));
        }
        if outcome.written > 0 {
            tell(context, 6, &format!("{verb}: {} settings made", outcome.written));
        }
        Ok(Some(outcome))
    }

    /// Waits, for a while, for the lines and queues that a device gets when it is brought up.
    fn linger(&self, mut outcome: Outcome) -> Result<Outcome> {
        let here = self.waiting(&outcome);
        if here.is_empty() {
            return Ok(outcome);
        }
        let deadline = clock::boottime() + BROUGHT_UP;
        let mut pause = Duration::from_millis(20);
        while !here.iter().any(|device| is_up(self.host, device) == Some(true)) {
            if clock::boottime() > deadline || self.stop.load(Ordering::Relaxed) {
                return Ok(outcome);
            }
            clock::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        for pause in AGAIN {
            if self.waiting(&outcome).is_empty() {
                break;
            }
            clock::sleep(pause);
            match self.once()? {
                Some(next) => outcome = next,
                None => break,
            }
        }
        Ok(outcome)
    }

    /// Devices that are here and lack something.
    fn waiting(&self, outcome: &Outcome) -> Vec<String> {
        let all = outcome.waiting.iter().filter_map(|w| w.knob.device());
        all.filter(|device| is_up(self.host, device).is_some()).map(str::to_owned).collect()
    }
}

/// Whether a device is brought up (IFF_UP of linux/if.h); `None` where it is not here.
fn is_up(host: &dyn HostRead, device: &str) -> Option<bool> {
    let flags = host.text(&Path::new("/sys/class/net").join(device).join("flags")).ok()?;
    let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
    Some(flags & 1 == 1)
}

/// A line for the log, at a level of syslog(3).
fn tell(context: &Context, level: u8, text: &str) {
    let line = format!("<{level}>linerate: {text}\n");
    let log = Path::new("/dev/kmsg");
    let here = Root::of_environment().is_here();
    let live = context.live("log").ok().filter(|_| here);
    let kept: Result<()> = match live {
        None => Err(Error::usage("log", "not the running system")),
        Some(host) => host.write(log, line.as_bytes()).map_err(|e| Error::not_supported("log", e)),
    };
    if kept.is_err() {
        context.out.say(text);
    }
}
