//! Every setting that this machine has or could have: the value now, the values that are valid, and
//! whether it can be changed at all. In come the table of knobs and a snapshot; the kernel is read,
//! and nothing written. Evidence that a row names is interpreted here and nowhere else.

use std::path::Path;

use rustix::io::Errno;
use serde::Serialize;

use super::knob::{irreplaceable, meaning, path, read_text};
use crate::machine::host::{HostRead, Query, query_as};
use crate::model::knob::spec::{Absent, Fixed, Range};
use crate::model::knob::{KNOBS, Knob, KnobSpec, Shape, Value, policies};
use crate::model::nic::NicSettings;
use crate::model::snapshot::{Movable, Snapshot};

/// State of a setting: changeable or not, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum State {
    /// Changeable, as far as can be known without writing.
    Changeable,
    /// The setting is there and stays as it is, for this reason.
    Fixed(String),
    /// The setting is not there, for this reason.
    Absent(String),
    /// A captured machine that does not say, or a permission that is missing.
    Unknown(String),
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Setting.
    pub knob: Knob,
    /// Present value, where it is understood.
    pub now: Option<Value>,
    /// Valid values, in words.
    pub allowed: String,
    /// Changeable or not.
    #[serde(flatten)]
    pub state: State,
}

/// All settings in the order of the table: device by device, then policy by policy, then those of
/// the machine.
#[must_use]
pub fn inventory(host: &dyn HostRead, snapshot: &Snapshot) -> Vec<Item> {
    let mut items = Vec::new();
    let settable = || KNOBS.iter().filter(|spec| !spec.only_dragged);
    let mut add = |spec: &KnobSpec, knob: Knob| items.push(item(host, snapshot, spec, knob));
    for device in &snapshot.netdevs {
        for spec in settable() {
            spec.of_device(snapshot, device).into_iter().for_each(|knob| add(spec, knob));
        }
    }
    for policy in policies(snapshot) {
        for spec in settable() {
            spec.of_policy(policy).into_iter().for_each(|knob| add(spec, knob));
        }
    }
    for spec in settable() {
        spec.of_machine().into_iter().for_each(|knob| add(spec, knob));
        spec.of_pollers(snapshot).into_iter().for_each(|knob| add(spec, knob));
    }
    items
}

fn item(host: &dyn HostRead, snapshot: &Snapshot, spec: &KnobSpec, knob: Knob) -> Item {
    let allowed = allowed(host, snapshot, spec, &knob);
    let text = match path(&knob, snapshot) {
        Err(e) => return Item { knob, now: None, allowed, state: State::Absent(e.to_string()) },
        Ok(path) => read_text(host, &path),
    };
    let text = match text {
        Ok(text) => text,
        Err(e) => {
            // A tree that somebody put together does not say what it left out; it has no boot id.
            let partial = e.is_absent() && host.identity().boot_id.is_empty();
            let state = if e.errno == Errno::NODATA || partial {
                State::Unknown("not in this capture".into())
            } else if e.is_absent() || e.errno == Errno::OPNOTSUPP {
                State::Absent(absent(snapshot, spec, &knob).words().into())
            } else {
                State::Unknown(e.reason())
            };
            return Item { knob, now: None, allowed, state };
        }
    };
    let (now, state) = match meaning(&knob, &text) {
        Err(why) => (None, State::Unknown(why)),
        Ok(now) => {
            let fixed = fixed(host, snapshot, spec, &knob, &text);
            (Some(now), fixed.map_or(State::Changeable, State::Fixed))
        }
    };
    Item { knob, now, allowed, state }
}

/// The reason why there is no such setting.
fn absent(snapshot: &Snapshot, spec: &KnobSpec, knob: &Knob) -> Absent {
    let device = knob.device().and_then(|name| snapshot.netdev(name));
    match spec.absent {
        Absent::OneTxQueue if device.is_none_or(|d| d.tx_queues.len() > 1) => Absent::Kernel,
        why => why,
    }
}

/// The reason why it can't be changed, as far as is known without writing.
fn fixed(
    host: &dyn HostRead,
    snapshot: &Snapshot,
    spec: &KnobSpec,
    knob: &Knob,
    text: &str,
) -> Option<String> {
    let device = || knob.device().and_then(|name| snapshot.netdev(name));
    let told = || spec.fixed.words().to_owned();
    match spec.fixed {
        Fixed::Unknown => None,
        Fixed::Line => {
            let Knob::IrqAffinity { irq } = knob else { return None };
            let line = snapshot.irqs.iter().find(|i| i.id == *irq)?;
            let fixed = line.movable == Movable::Fixed;
            fixed.then(|| line.movable_by.clone().unwrap_or_else(told))
        }
        Fixed::Feature => {
            let feature = device()?.features.as_ref()?.get(knob.parts().name?)?;
            (!feature.changeable).then(told)
        }
        Fixed::Veth => {
            let device = device().filter(|d| d.is_veth())?;
            let gro = device.features.as_ref()?.get("rx-gro")?.active;
            (!gro && !device.link.xdp).then(told)
        }
        Fixed::Single => (most(host, spec, knob)? <= 1).then(told),
        Fixed::Flowtable | Fixed::Qdisc | Fixed::AdvertisedRoute => {
            irreplaceable(host, knob, text).map(|why| why.to_string())
        }
    }
}

/// The largest number that a driver reports.
fn most(host: &dyn HostRead, spec: &KnobSpec, knob: &Knob) -> Option<u64> {
    let parts = knob.parts();
    let nic: NicSettings = query_as(host, &Query::Nic(parts.device?.to_owned())).ok()?;
    let numbers = if spec.range == Range::Channels { nic.channels? } else { nic.rings? };
    numbers.get(&format!("{}-max", parts.name?)).copied()
}

/// The values that it may have, for people.
fn allowed(host: &dyn HostRead, snapshot: &Snapshot, spec: &KnobSpec, knob: &Knob) -> String {
    let cpus = || snapshot.usable_cpus().to_string();
    let parts = knob.parts();
    let device = parts.device.and_then(|name| snapshot.netdev(name));
    let queues = device.map_or(0, |d| d.rx_queues.len());
    match spec.range {
        Range::SomeCpu => format!("CPUs {}", cpus()),
        Range::Unit(unit) => unit.to_owned(),
        Range::Words(words) => words.join(" "),
        Range::Mode(modes) => format!("{}, with devices", modes.join(" ")),
        Range::Channels | Range::Rings => match most(host, spec, knob) {
            Some(1) => "1".to_owned(),
            Some(n) => format!("1-{n}"),
            None => "a count".to_owned(),
        },
        Range::Spread => format!("over 1-{queues}, a list"),
        Range::Governors => snapshot
            .cpus
            .iter()
            .filter_map(|c| c.governor.as_ref())
            .find(|g| Some(g.policy.as_str()) == parts.policy)
            .map_or_else(String::new, |g| g.available.join(" ")),
        Range::Frequencies => {
            let end = |file| host.text(&Path::new(&knob.address()).with_file_name(file));
            match (end("cpuinfo_min_freq"), end("cpuinfo_max_freq")) {
                (Ok(least), Ok(most)) => format!("{least}-{most} kHz"),
                _ => "kHz".into(),
            }
        }
        Range::File(path) => host.text(Path::new(path)).unwrap_or_else(|_| "a name".into()),
        Range::Any => match spec.shape {
            Shape::Switch => "on off".into(),
            Shape::Count => "a count".into(),
            Shape::Cpus => format!("off, CPUs {}", cpus()),
            Shape::Queues => match queues.saturating_sub(1) {
                0 => "off, queue 0".into(),
                last => format!("off, queues 0-{last}"),
            },
            Shape::Word | Shape::Words | Shape::Spread => "a name".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::FakeHost;

    #[test]
    fn what_is_there_is_told_from_what_is_fixed_and_what_is_absent() {
        let fake = FakeHost::router(4, &[("eth0", 2)]);
        let mut snapshot = fake.snapshot();
        snapshot.irqs[1].movable = Movable::Fixed;
        snapshot.irqs[1].movable_by = Some("managed by the driver".into());
        let items = inventory(&fake, &snapshot);
        let find = |text: &str| items.iter().find(|i| i.knob.to_string() == text).unwrap();
        let rps = find("RPS of eth0 rx-1");
        assert_eq!((&rps.state, rps.allowed.as_str()), (&State::Changeable, "off, CPUs 0-3"));
        assert_eq!(rps.now, Some(Value::Cpus("".parse().unwrap())));
        let line = find("IRQ affinity of eth0 queue 1 rx+tx");
        assert_eq!(line.state, State::Fixed("managed by the driver".into()));
        assert_eq!(find("IRQ affinity of eth0 queue 0 rx+tx").state, State::Changeable);
        assert!(matches!(find("tx channels of eth0").state, State::Absent(_)));
        assert_eq!(find("governor of policy0").allowed, "performance schedutil powersave");
        assert_eq!(find("net.core.netdev_budget").now, Some(Value::Count(300)));
        assert!(matches!(find("net.netfilter.nf_conntrack_max").state, State::Absent(_)));
        fake.meddle(Path::new("qdisc/eth0"), "htb 10000 0800");
        let items = inventory(&fake, &snapshot);
        let qdisc = items.iter().find(|i| matches!(i.knob, Knob::Qdisc { .. })).unwrap();
        assert!(matches!(qdisc.state, State::Fixed(_)), "{qdisc:?}");
    }
}
