//! Checks that a plan is for this machine: the machine, devices and CPUs that it was made for.

use crate::error::{Error, Result};
use crate::model::knob::Value;
use crate::model::plan::{DeviceFact, Plan};
use crate::model::snapshot::{NetDev, Snapshot};

/// Checks that a plan fits the machine that it is to be applied to.
///
/// # Errors
/// Usage (exit 2) for another machine: its id, a device at another place or with another driver,
/// fewer queues, a CPU that is not usable here. Not supported (exit 5) when a device is gone.
pub fn check_fits(plan: &Plan, snapshot: &Snapshot) -> Result<()> {
    let anew = "make a plan on this machine: linerate plan";
    let what = format!("use plan {}", plan.candidate.name);
    let other = |why: String| Err(Error::usage(what.clone(), why).hint(anew));
    if let (Some(theirs), Some(ours)) = (&plan.machine, &snapshot.machine.id)
        && theirs != ours
    {
        return other(format!(
            "it is for another machine: {} (id {theirs}), and this is {} (id {ours})",
            plan.hostname, snapshot.machine.hostname
        ));
    }
    for fact in &plan.devices {
        let Some(device) = snapshot.netdev(&fact.name) else {
            let why = format!("device {} is not here any more", fact.name);
            return Err(Error::not_supported(what, why).hint(
                "plug it in again, make a new plan (linerate plan), or let its settings wait for \
                 it: --pending, or `pending = true` under its [[device]]",
            ));
        };
        if let Some(why) = differs(fact, device) {
            return other(why);
        }
    }
    let usable = snapshot.usable_cpus();
    for change in plan.candidate.changes() {
        let Value::Cpus(asked) = &change.after else { continue };
        if let Some(cpu) = asked.difference(&usable).first() {
            let state = match snapshot.cpus.iter().find(|c| c.id == cpu) {
                None => "does not exist here",
                Some(c) if !c.online => "is offline",
                Some(_) => "is isolated",
            };
            return other(format!("{} asks for {cpu}, which {state}", change.knob));
        }
    }
    Ok(())
}

/// Difference between a device and the one that the plan was made for; `None` if it is the same.
fn differs(fact: &DeviceFact, device: &NetDev) -> Option<String> {
    let name = &fact.name;
    let here = device.sysfs.display().to_string();
    let driver = device.driver.as_deref().unwrap_or_default();
    let named = |driver: &str| if driver.is_empty() { "none" } else { driver }.to_owned();
    let queues = device.rx_queues.len();
    if !fact.is_at(&here) {
        Some(format!("{name} is another device here: {here} instead of {}", fact.sysfs))
    } else if driver != fact.driver {
        let (ours, theirs) = (named(driver), named(&fact.driver));
        Some(format!("{name} has another driver here: {ours} instead of {theirs}"))
    } else if u32::try_from(queues).is_ok_and(|n| n < fact.rx_queues) {
        Some(format!(
            "{name} has {queues} receive queues here, and the plan is for {}",
            fact.rx_queues
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ExitCode;
    use crate::machine::store::plan;

    const FIXTURE: &str = include_str!("../../../fixtures/formats/plan-v1.toml");

    #[test]
    fn a_plan_for_another_machine_says_what_is_different() {
        let fake = crate::machine::host::FakeHost::router(4, &[("eth0", 4)]);
        let fitting = || {
            let mut plan = plan::parse(FIXTURE).unwrap();
            plan.devices[0].sysfs = fake.snapshot().netdevs[0].sysfs.display().to_string();
            plan
        };
        assert_eq!(check_fits(&fitting(), &fake.snapshot()), Ok(()));
        let refused = |edit: fn(&mut Plan, &mut Snapshot), said: &str, code: ExitCode| {
            let (mut plan, mut snapshot) = (fitting(), fake.snapshot());
            edit(&mut plan, &mut snapshot);
            let error = check_fits(&plan, &snapshot).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(error.code(), code, "{error}");
            assert!(error.remedy().is_some());
        };
        let other = ExitCode::Usage;
        refused(|p, _| p.machine = Some("ff".into()), "another machine: router", other);
        refused(|p, _| p.devices[0].sysfs.push('x'), "another device", other);
        refused(|p, _| p.devices[0].driver.clear(), "instead of none", other);
        refused(|p, _| p.devices[0].rx_queues = 8, "4 receive queues", other);
        refused(|_, s| s.cpus[3].online = false, "CPU3, which is offline", other);
        refused(|_, s| s.cpus[1].isolated = true, "CPU1, which is isolated", other);
        refused(|_, s| s.cpus.truncate(3), "CPU3, which does not exist here", other);
        let gone = ExitCode::NotSupported;
        refused(|_, s| s.netdevs.clear(), "device eth0 is not here any more", gone);
    }
}
