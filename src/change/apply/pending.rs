//! Settings that wait: of a device that is not here at the moment (a PPPoE link that is down, a
//! USB adapter that is out), or of one whose queues or interrupt lines come when it is brought up
//! (e1000e, igb and others ask for their lines in `ndo_open`).

use super::knob::path;
use crate::error::ExitCode;
use crate::machine::host::HostRead;
use crate::model::knob::{Knob, Value};
use crate::model::plan::{DeviceFact, Plan};
use crate::model::snapshot::Snapshot;

/// Devices whose settings may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Devices that come and go by nature, and those that the plan marks as pending.
    ByPlan,
    /// Every device.
    All,
}

/// A setting that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Setting.
    pub knob: Knob,
    /// Value asked for.
    pub wanted: Value,
    /// Device, queue or line that it waits for, in words.
    pub why: String,
}

/// Parts what can be set now from what has to wait. A device that is away and may not be stays
/// in the plan, for which it is then refused.
#[must_use]
pub fn split(
    host: &dyn HostRead,
    plan: &Plan,
    snapshot: &Snapshot,
    patience: Patience,
) -> (Plan, Vec<Waiting>) {
    let mut now = plan.clone();
    let mut waiting = Vec::new();
    let waits = |fact: &DeviceFact| patience == Patience::All || fact.may_be_away();
    for fact in plan.devices.iter().filter(|fact| waits(fact)) {
        let here = snapshot.netdev(&fact.name);
        let mut missing = false;
        now.candidate.settings.retain_mut(|change| {
            if !change.concerns(&fact.name) {
                return true;
            }
            // The other devices that it names need not wait for this one.
            let shared = change.knob.device().is_none();
            let why = match here {
                None => format!("{} is not here", fact.name),
                Some(_) if shared => return true,
                Some(_) => match why_not_yet(host, &change.knob, snapshot) {
                    None => return true,
                    Some(why) => why,
                },
            };
            missing |= !shared;
            let (wanted, rest) = match shared {
                true => change.part_with(&fact.name),
                false => (change.after.clone(), false),
            };
            waiting.push(Waiting { knob: change.knob.clone(), wanted, why });
            rest
        });
        match here {
            None => now.devices.retain(|d| d.name != fact.name),
            // What is asked of the queues that are not here waits already.
            Some(device) if missing => {
                let queues = u32::try_from(device.rx_queues.len()).unwrap_or(u32::MAX);
                let same = now.devices.iter_mut().filter(|d| d.name == fact.name);
                same.for_each(|d| d.rx_queues = d.rx_queues.min(queues));
            }
            Some(_) => {}
        }
    }
    (now, waiting)
}

/// Names what is missing for a setting of a device that is here; `None` if nothing is.
fn why_not_yet(host: &dyn HostRead, knob: &Knob, snapshot: &Snapshot) -> Option<String> {
    match path(knob, snapshot) {
        // An invalid name never becomes valid: that is for `apply` to refuse.
        Err(e) if e.code() == ExitCode::Usage => None,
        Err(e) => Some(e.to_string()),
        Ok(path) => {
            let place = path.parent().unwrap_or(&path);
            let gone = host.list(place).is_err_and(|e| e.is_absent());
            gone.then(|| format!("{} is not here", place.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::FakeHost;
    use crate::model::cpuset::CpuSet;
    use crate::model::plan::{Candidate, Change};
    use crate::model::snapshot::{IrqId, IrqRole};
    use crate::model::units::CpuId;

    fn setting(knob: Knob) -> Change {
        let value = Value::Cpus(CpuSet::single(CpuId(0)));
        Change { knob, before: value.clone(), after: value, reason: "a test".into() }
    }

    fn rps(device: &str, queue: u32) -> Knob {
        Knob::RpsCpus { device: device.into(), queue }
    }

    fn plan(devices: &[(&str, &str)], knobs: Vec<Knob>) -> Plan {
        let fact = |(name, sysfs): &(&str, &str)| DeviceFact {
            name: (*name).into(),
            sysfs: (*sysfs).into(),
            driver: String::new(),
            rx_queues: 2,
            pending: *sysfs == DIALLED,
        };
        Plan {
            machine: None,
            hostname: "router".into(),
            cpus: CpuSet::single(CpuId(0)),
            devices: devices.iter().map(fact).collect(),
            model: None,
            not_made: vec![],
            candidate: Candidate {
                name: "test".into(),
                title: "test".into(),
                reason: "test".into(),
                settings: knobs.into_iter().map(setting).collect(),
            },
        }
    }

    const PORT: &str = "/sys/devices/pci0000:00/0000:00:03.0/net/eth7";
    const DIALLED: &str = "/sys/devices/virtual/net/pppoe-wan";

    #[test]
    fn a_link_that_is_down_waits_and_a_port_that_vanished_does_not() {
        let fake = FakeHost::router(2, &[("eth0", 1)]);
        let knobs = vec![rps("pppoe-wan", 0), rps("eth7", 0), rps("eth0", 0)];
        let devices = [("pppoe-wan", DIALLED), ("eth7", PORT), ("eth0", PORT)];
        let plan = plan(&devices, knobs);
        let (now, waiting) = split(&fake, &plan, &fake.snapshot(), Patience::ByPlan);
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        assert_eq!(waiting[0].why, "pppoe-wan is not here");
        assert!(now.devices.iter().any(|d| d.name == "eth7"), "it must still be refused");
        assert_eq!(now.candidate.settings.len(), 2);
        let (now, waiting) = split(&fake, &plan, &fake.snapshot(), Patience::All);
        assert_eq!((now.candidate.settings.len(), waiting.len()), (1, 2));
        assert_eq!(now.devices.len(), 1);
    }

    #[test]
    fn a_line_or_queue_that_comes_later_waits_where_patience_is_asked_for() {
        let fake = FakeHost::router(2, &[("eth0", 1)]);
        let irq = IrqId { device: "eth0".into(), queue: 5, role: IrqRole::Rx };
        let knobs = vec![rps("eth0", 0), rps("eth0", 1), Knob::IrqAffinity { irq }];
        let plan = plan(&[("eth0", PORT)], knobs);
        let (now, waiting) = split(&fake, &plan, &fake.snapshot(), Patience::All);
        assert_eq!(now.candidate.settings.len(), 1);
        assert_eq!(now.devices[0].rx_queues, 1, "else the plan is refused for its queues");
        assert!(waiting[0].why.contains("rx-1"), "{waiting:?}");
        assert!(waiting[1].why.contains("no line"), "{waiting:?}");
        let (now, waiting) = split(&fake, &plan, &fake.snapshot(), Patience::ByPlan);
        assert_eq!((now.candidate.settings.len(), waiting.len()), (3, 0));
    }

    #[test]
    fn a_flowtable_takes_those_that_are_here_and_waits_for_the_link_that_is_down() {
        let fake = FakeHost::router(2, &[("eth0", 1)]);
        let offload = |devices: &str| Change {
            after: Value::Word(format!("software {devices}")),
            ..setting(Knob::FlowOffload)
        };
        let split_of = |devices: &str, patience| {
            let mut plan = plan(&[("eth0", PORT), ("pppoe-wan", DIALLED), ("eth7", PORT)], vec![]);
            plan.devices.retain(|d| devices.split(' ').any(|name| name == d.name));
            plan.candidate.settings = vec![offload(devices)];
            split(&fake, &plan, &fake.snapshot(), patience)
        };
        let word = |text: &str| Value::Word(text.into());
        let (now, waiting) = split_of("eth0 pppoe-wan", Patience::ByPlan);
        assert_eq!(now.candidate.settings[0].after, word("software eth0"));
        assert_eq!(now.devices.len(), 1, "the plan must not be refused for the other");
        assert_eq!(waiting.len(), 1);
        assert_eq!(waiting[0].wanted, word("software pppoe-wan"));
        assert_eq!(waiting[0].why, "pppoe-wan is not here");
        let (now, waiting) = split_of("pppoe-wan", Patience::ByPlan);
        assert_eq!((now.candidate.settings.len(), waiting.len()), (0, 1), "none is here");
        let (now, waiting) = split_of("eth0 eth7", Patience::ByPlan);
        assert_eq!(now.candidate.settings[0].after, word("software eth0 eth7"));
        assert_eq!((now.devices.len(), waiting.len()), (2, 0), "a port that vanished is refused");
        let (now, waiting) = split_of("eth0 pppoe-wan eth7", Patience::All);
        assert_eq!(now.candidate.settings[0].after, word("software eth0"));
        assert_eq!(waiting.len(), 2);
    }

    #[test]
    fn what_can_not_be_meant_is_refused_and_never_waited_for() {
        let fake = FakeHost::router(2, &[("eth0", 1)]);
        let plan = plan(&[("eth0", DIALLED)], vec![Knob::Governor { policy: "../x".into() }]);
        let (now, waiting) = split(&fake, &plan, &fake.snapshot(), Patience::All);
        assert_eq!((now.candidate.settings.len(), waiting.len()), (1, 0));
    }
}
