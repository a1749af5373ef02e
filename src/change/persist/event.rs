//! Applies, when a device appears, the persisted plan's settings of that device, and of those
//! that carry it, as transactions of their own.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::guard::{self, Verdict};
use super::{HOME, PLAN};
use crate::change::apply::pending::{Patience, Waiting, split};
use crate::change::apply::{self, Changer, check_fits};
use crate::error::{Error, Result};
use crate::machine::host::HostRead;
use crate::machine::parse::pppoe;
use crate::machine::store;
use crate::machine::store::disk::Disk;
use crate::machine::store::swap::refused;
use crate::model::knob::Knob;
use crate::model::plan::{Candidate, Change, DeviceFact, Plan};

/// No stack of devices is deeper.
const DEEPEST: usize = 12;

/// Part of the plan that is to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Everything: settings of the machine, and of all devices.
    Everything,
    /// All devices.
    Devices,
    /// A device, and those that carry it.
    Device(String),
}

/// Outcome of an event.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of settings that were written.
    pub written: usize,
    /// Number of settings that were so already.
    pub already: usize,
    /// Settings that wait.
    pub waiting: Vec<Waiting>,
    /// Failures, each with everything of its device as before.
    pub failed: Vec<Error>,
}

/// Decides whether the persisted settings may be applied in this boot, and counts the boot.
///
/// # Errors
/// Fails if the boot can't be counted: then nothing is applied.
pub fn admitted(disk: &dyn Disk, host: &dyn HostRead) -> Result<Verdict> {
    guard::enter(disk, &host.identity().boot_id)
        .map_err(|e| refused("count this boot in", Path::new(HOME), &e))
}

/// The persisted plan; `None` where nothing is persisted.
///
/// # Errors
/// Usage when it is no plan.
pub fn plan(disk: &dyn Disk) -> Result<Option<Plan>> {
    let path = Path::new(PLAN);
    let thing = disk.look(path).map_err(|e| refused("read", path, &e))?;
    let Some(text) = thing.as_text() else { return Ok(None) };
    let parsed = store::plan::parse(text);
    parsed.map(Some).map_err(|(why, hint)| Error::usage(format!("read {PLAN}"), why).hint(hint))
}

/// The devices of the plan that `which` is about, by name.
#[must_use]
pub fn devices(host: &dyn HostRead, plan: &Plan, which: &Which) -> Vec<String> {
    let all = plan.devices.iter().map(|fact| fact.name.clone());
    match which {
        Which::Everything | Which::Devices => all.collect(),
        Which::Device(name) => {
            let stack = carriers(host, name);
            all.filter(|device| stack.contains(device)).collect()
        }
    }
}

/// The devices that have to be looked at for these: they, and those that a setting names beside
/// them.
#[must_use]
pub fn looked_at(plan: &Plan, devices: &[String]) -> Vec<String> {
    let beside: Vec<&Change> = shared(plan).filter(|c| concerns(c, devices)).collect();
    let all = plan.devices.iter().map(|fact| &fact.name);
    let seen = |name: &&String| devices.contains(name) || beside.iter().any(|c| c.concerns(name));
    all.filter(seen).cloned().collect()
}

fn concerns(change: &Change, devices: &[String]) -> bool {
    devices.iter().any(|device| change.concerns(device))
}

/// A device, and those that it stands on down to the ports: VLAN, bridge and bond by their
/// `lower_*` links, PPPoE by its sessions. The kernel does not report whose a session is, and
/// one device too many costs a few reads.
fn carriers(host: &dyn HostRead, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo = vec![(name.to_owned(), 0)];
    while let Some((name, depth)) = todo.pop() {
        if depth > DEEPEST || name.contains('/') || !found.insert(name.clone()) {
            continue;
        }
        let dir = Path::new("/sys/class/net").join(&name);
        let Ok(entries) = host.list(&dir) else { continue };
        let lower = entries.iter().filter_map(|e| e.strip_prefix("lower_")).map(str::to_owned);
        let mut below: Vec<String> = lower.collect();
        // ARPHRD_PPP of linux/if_arp.h.
        if below.is_empty() && host.text(&dir.join("type")).is_ok_and(|kind| kind == "512") {
            below = pppoe::devices(&host.read(Path::new("/proc/net/pppoe")).unwrap_or_default());
        }
        todo.extend(below.into_iter().map(|name| (name, depth + 1)));
    }
    found
}

/// Settings of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    /// Settings that belong to no device.
    Machine,
    /// Settings of one device.
    Device(&'a str),
    /// Settings that belong to no device and name some: the flowtable, for those that are here.
    Shared,
    /// Threads of radios and drivers, which come with devices under names of their own.
    Pollers,
}

/// Sets what can be set now. Each device is a transaction of its own, so that one that refuses
/// something does not keep the others from theirs. The changer's snapshot has to hold those devices,
/// and those that are named beside them ([`looked_at`]).
#[must_use]
pub fn run(
    changer: &mut Changer<'_>,
    plan: &Plan,
    which: &Which,
    devices: &[String],
    stop: &AtomicBool,
) -> Outcome {
    let mut outcome = Outcome::default();
    let machine = (*which == Which::Everything).then_some(Part::Machine);
    let each = devices.iter().map(|device| Part::Device(device));
    let shared = shared(plan).any(|change| concerns(change, devices)).then_some(Part::Shared);
    let pollers = (machine.is_none() && places_pollers(plan)).then_some(Part::Pollers);
    for one in machine.into_iter().chain(each).chain(shared).chain(pollers) {
        let part = part(plan, one);
        let (now, waiting) = split(changer.host(), &part, changer.snapshot(), Patience::All);
        outcome.waiting.extend(waiting);
        let done =
            check_fits(&now, changer.snapshot()).and_then(|()| changer.apply(&now.candidate, stop));
        match done {
            Ok(applied) => {
                outcome.written += applied.writes.len();
                outcome.already += applied.already;
            }
            Err(e) => outcome.failed.push(e),
        }
    }
    if outcome.written > 0
        && let Err(e) = apply::forget_covered(changer.lock())
    {
        log::warn!("{e}");
    }
    outcome
}

/// The settings that belong to no device and name some.
fn shared(plan: &Plan) -> impl Iterator<Item = &Change> {
    let named = |change: &Change| plan.devices.iter().any(|fact| change.concerns(&fact.name));
    let all = plan.candidate.settings.iter();
    all.filter(move |change| change.knob.device().is_none() && named(change))
}

/// True if the plan places threads that come with devices which it does not name, and this may be
/// such a device: one with hardware behind it.
#[must_use]
pub fn may_place_pollers(host: &dyn HostRead, plan: &Plan, which: &Which) -> bool {
    let has_hardware = match which {
        Which::Everything | Which::Devices => true,
        Which::Device(name) => {
            let device = Path::new("/sys/class/net").join(name).join("device");
            !name.contains('/') && host.resolve(&device).is_ok()
        }
    };
    has_hardware && places_pollers(plan)
}

fn places_pollers(plan: &Plan) -> bool {
    plan.candidate.settings.iter().any(is_poller)
}

fn is_poller(change: &Change) -> bool {
    matches!(change.knob, Knob::PollerCpus { .. })
}

fn part(plan: &Plan, which: Part<'_>) -> Plan {
    let all = &plan.candidate;
    let (settings, name): (Vec<Change>, String) = match which {
        Part::Device(device) => {
            let own = all.settings.iter().filter(|c| c.knob.device() == Some(device));
            (own.cloned().collect(), format!("{} on {device}", all.name))
        }
        Part::Shared => (shared(plan).cloned().collect(), all.name.clone()),
        Part::Pollers => {
            let own = all.settings.iter().filter(|change| is_poller(change));
            (own.cloned().collect(), all.name.clone())
        }
        Part::Machine => {
            let none = all.settings.iter().filter(|c| c.knob.device().is_none());
            let rest = none.filter(|c| !shared(plan).any(|s| s == *c));
            (rest.cloned().collect(), all.name.clone())
        }
    };
    let touched = |fact: &&DeviceFact| settings.iter().any(|c| c.concerns(&fact.name));
    // Of what several devices share, none needs all its queues.
    let needed = |fact: &DeviceFact| match which {
        Part::Shared => DeviceFact { rx_queues: 0, ..fact.clone() },
        _ => fact.clone(),
    };
    let devices = plan.devices.iter().filter(touched).map(needed).collect();
    Plan { devices, candidate: Candidate { name, settings, ..all.clone() }, ..plan.clone() }
}
