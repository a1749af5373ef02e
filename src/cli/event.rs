//! The verbs that init and hotplug call: `boot` and `event`. Nobody sees their output; what matters
//! goes to the kernel's log, or where systemd keeps it from that to the journal.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;

use super::context::Context;
use super::interrupt;
use super::shared::persisted::SKIPPED;
use super::shared::syslog::{self, INFO, WARNING};
use crate::change::apply::Hold;
use crate::change::persist::event::{self, Outcome, Which};
use crate::change::persist::files::STEERING_HOOK;
use crate::change::persist::guard::{self, Verdict};
use crate::change::persist::{self, HOME};
use crate::error::{ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::{HostRead, HostWrite, Live, clock, command};
use crate::machine::store;
use crate::machine::store::disk::Root;
use crate::machine::store::swap::{refused, settle};
use crate::model::plan::Plan;

/// Time that an event waits for its device to be brought up: many drivers ask for their interrupt
/// lines only then, and udev has no event for it.
const BROUGHT_UP: Duration = Duration::from_secs(120);

/// Time that another linerate may hold the lock before an event gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// After that lines are looked for again so long later; some come late.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(3)];

/// `event`
#[derive(Debug, Args)]
pub struct EventArgs {
    /// Every device of the plan
    #[arg(long)]
    pub all: bool,
    /// The device that appeared, as it is called now
    #[arg(required_unless_present = "all")]
    pub device: Option<String>,
}

/// `boot`
#[derive(Debug, Args)]
pub struct BootArgs {
    /// Note that the machine stayed up for five minutes, waiting for that
    #[arg(long)]
    stayed: bool,
}

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
pub(super) fn boot(context: &Context, args: &BootArgs) -> Result<ExitCode> {
    if args.stayed {
        return stayed(context);
    }
    go(context, &Which::Everything, "boot")
}

/// Runs `boot --stayed`.
fn stayed(context: &Context) -> Result<ExitCode> {
    let host = context.live("boot")?;
    clock::sleep(guard::LONG_ENOUGH.saturating_sub(clock::boottime()));
    let noted = guard::stayed(&Root::of_environment(), &host.identity().boot_id);
    noted.map_err(|e| refused("write", Path::new(guard::GUARD), &e))?;
    Ok(ExitCode::Done)
}

fn go(context: &Context, which: &Which, verb: &str) -> Result<ExitCode> {
    let done = apply(context, which, verb);
    if let Err(e) = &done {
        tell(context, WARNING, &e.to_string());
    }
    done
}

fn apply(context: &Context, which: &Which, verb: &str) -> Result<ExitCode> {
    let host = context.live(verb)?;
    let root = Root::of_environment();
    let stop = interrupt::stop_flag()?;
    let event = Event { context, host, root, which, verb, stop };
    // Most devices that come and go are in no plan: their events need no lock.
    if event.concerned()?.is_none() && *which != Which::Everything {
        return Ok(ExitCode::Done);
    }
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
    which: &'a Which,
    verb: &'a str,
    stop: Arc<AtomicBool>,
}

impl Event<'_> {
    /// The persisted plan with its devices that the event is about; `None` where nothing is to be
    /// done.
    fn concerned(&self) -> Result<Option<(Plan, Vec<String>)>> {
        let Some(plan) = event::plan(&self.root)? else { return Ok(None) };
        let devices = event::devices(self.host, &plan, self.which);
        let any = !devices.is_empty()
            || *self.which == Which::Everything
            || event::may_place_pollers(self.host, &plan, self.which);
        Ok(any.then_some((plan, devices)))
    }

    /// Applies once; `None` where nothing is persisted or the boot guard says no.
    fn once(&self) -> Result<Option<Outcome>> {
        let Self { context, host, verb, which, .. } = *self;
        let _later = context.out.later();
        let hold = Hold::take(host, &store::state_dir(), verb, PATIENCE)?;
        if *which == Which::Everything {
            settle(&self.root, Path::new(HOME))?;
        }
        // Read under the lock: what was persisted may be another plan by now.
        let Some((plan, devices)) = self.concerned()? else { return Ok(None) };
        if event::admitted(&self.root, host)? == Verdict::Skip {
            // Not for every device.
            if *which == Which::Everything {
                tell(context, WARNING, SKIPPED);
                self.steer_as_before();
            }
            return Ok(None);
        }
        let names = event::looked_at(&plan, &devices);
        let mut changer = hold.changer(|host| discover::devices(host, &names))?;
        changer.notes.iter().for_each(|note| tell(context, WARNING, note));
        let outcome = event::run(&mut changer, &plan, which, &devices, &self.stop);
        for error in &outcome.failed {
            tell(context, WARNING, &format!("{verb}: {error}"));
        }
        if outcome.written > 0 {
            tell(context, INFO, &format!("{verb}: {} settings made", outcome.written));
        }
        Ok(Some(outcome))
    }

    /// Lets OpenWrt's own packet steering act, as it was set before, where the plan that took it over is
    /// skipped.
    fn steer_as_before(&self) {
        let Ok(Some(record)) = persist::record(&self.root) else { return };
        let Some(former) = record.former_steering().filter(|_| self.root.is_here()) else { return };
        // Its service runs our hook, which looks at the boot guard; before 24.10 there is none, and the
        // option is what counts.
        let told = if self.host.read(Path::new(STEERING_HOOK)).is_ok() {
            let reload = command::run("/etc/init.d/packet_steering", &["reload"], PATIENCE);
            reload.map(drop).map_err(|e| e.to_string())
        } else {
            let value = former.unwrap_or("unset").as_bytes();
            self.host.write(Path::new("packet-steering"), value).map_err(|e| e.to_string())
        };
        if let Err(why) = told {
            tell(self.context, WARNING, &format!("OpenWrt's packet steering: {why}"));
        }
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

/// Tells whether a device is brought up (IFF_UP of linux/if.h); `None` where it is not here.
fn is_up(host: &dyn HostRead, device: &str) -> Option<bool> {
    let flags = host.text(&Path::new("/sys/class/net").join(device).join("flags")).ok()?;
    let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
    Some(flags & 1 == 1)
}

/// A line for the log; for whoever called it where there is none.
fn tell(context: &Context, level: u8, text: &str) {
    if syslog::line(context, level, text).is_err() {
        context.out.say(text);
    }
}
