//! Programs that set what a plan sets (`rival` in the table of knobs) are stopped by the plan:
//! whoever writes last wins, and a plan that is overwritten a minute later was never in force.

use crate::model::knob::spec::Rival;
use crate::model::knob::{Knob, Value};
use crate::model::path::{Service, ServiceFound};
use crate::model::plan::Change;
use crate::model::snapshot::Snapshot;

const IRQBALANCE: &str = "irqbalance";

fn is_steering(service: &Service) -> bool {
    service.name == Knob::PacketSteering.to_string()
}

/// Adds what has to be stopped for `settings` to stay, where it runs and they touch what it sets.
pub(super) fn take_over(snapshot: &Snapshot, settings: &mut Vec<Change>) {
    let changes = || settings.iter().filter(|c| c.before != c.after);
    let moves = changes().any(|c| c.knob.rival() == Rival::Irqbalance);
    // OpenWrt steers what has hardware under it, and so leaves a lab's devices alone.
    let hardware = |name: &str| snapshot.netdev(name).is_some_and(|d| d.is_hardware());
    let steered = |c: &Change| c.knob.rival() == Rival::Steering;
    let steers = changes().any(|c| steered(c) && c.knob.device().is_some_and(hardware));
    let has = |knob: &Knob| settings.iter().any(|c| c.knob == *knob);
    let mut more = Vec::new();
    let service = Knob::Service { name: IRQBALANCE.into() };
    // Enabled and not running, it has nothing that could be stopped.
    let running = |s: &&Service| s.name == IRQBALANCE && s.found == ServiceFound::Running;
    if moves && !has(&service) && snapshot.services.iter().any(|s| running(&s)) {
        more.push(Change {
            knob: service,
            before: Value::Switch(true),
            after: Value::Switch(false),
            reason: "it runs, and would move these interrupts again".into(),
        });
    }
    if steers
        && !has(&Knob::PacketSteering)
        && snapshot.services.iter().any(is_steering)
        && let Some(before) = steering_now(snapshot)
    {
        more.push(Change {
            knob: Knob::PacketSteering,
            before,
            after: Value::Word("0".into()),
            reason: "it would set RPS and NAPI threads anew after every interface event".into(),
        });
    }
    settings.extend(more);
}

/// True where a plan's settings stop a service.
pub(super) fn is_taken_over(service: &Service, settings: &[Change]) -> bool {
    settings.iter().any(|change| match (&change.knob, &change.after) {
        (Knob::Service { name }, Value::Switch(false)) => *name == service.name,
        (Knob::PacketSteering, Value::Word(word)) => word == "0" && is_steering(service),
        _ => false,
    })
}

/// The option as discovery found it; `None` where this is no OpenWrt.
pub(super) fn steering_now(snapshot: &Snapshot) -> Option<Value> {
    let set = snapshot.path.openwrt.get("packet_steering").cloned();
    let known =
        snapshot.path.firewall || set.is_some() || snapshot.services.iter().any(is_steering);
    known.then(|| Value::Word(set.unwrap_or_else(|| "unset".into())))
}
