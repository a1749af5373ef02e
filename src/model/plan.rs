//! Plans: settings to change, with the old and the new value, and why.

use serde::{Deserialize, Serialize};

use super::knob::{Knob, Value};

/// Name of the candidate that changes nothing: what its user has today.
pub const AS_FOUND: &str = "as-found";

/// Name of the candidate that puts all packets on one CPU, as a lone interrupt would have it.
pub const ONE_CPU: &str = "one-cpu";

/// One setting to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The setting.
    pub knob: Knob,
    /// Value when the plan was made.
    pub before: Value,
    /// Value that it is to have.
    pub after: Value,
    /// Why.
    pub reason: String,
}

impl Change {
    /// True if it is about that device: its own, or one that its value names, which has to be here
    /// as well for it to be made.
    #[must_use]
    pub fn concerns(&self, device: &str) -> bool {
        match (&self.knob, &self.after) {
            (Knob::FlowOffload, Value::Word(words)) => {
                words.split(' ').skip(1).any(|d| d == device)
            }
            (knob, _) => knob.device() == Some(device),
        }
    }

    /// Takes a device out of a value that names it among others. Gives the value for it alone, and
    /// whether anything is left to be made without it.
    pub fn part_with(&mut self, device: &str) -> (Value, bool) {
        let Value::Word(words) = &self.after else { return (self.after.clone(), false) };
        let mode = words.split(' ').next().unwrap_or_default();
        let alone = Value::Word(format!("{mode} {device}"));
        let rest: Vec<&str> = words.split(' ').filter(|word| *word != device).collect();
        let any = rest.len() > 1;
        self.after = Value::Word(rest.join(" "));
        (alone, any)
    }
}

/// A named way to set the router up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Candidate {
    /// Short name (`as-found`, `one-cpu`, `rps-all`, ...): unique within a run, and how the
    /// command line, the result file and the report refer to it.
    pub name: String,
    /// Title for a person.
    pub title: String,
    /// Why it is worth trying.
    pub reason: String,
    /// Every setting it asks for, those that are as wanted already included: a candidate states
    /// the whole of what it steers, so that candidates can follow each other in any order.
    pub settings: Vec<Change>,
}

impl Candidate {
    /// The settings that differ from what was found.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.settings.iter().filter(|c| c.before != c.after)
    }
}

/// Facts that a machine must share with a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFact {
    /// Device name.
    pub name: String,
    /// Path under /sys/devices.
    pub sysfs: String,
    /// Driver, empty where there is none.
    pub driver: String,
    /// Receive queues.
    pub rx_queues: u32,
    /// True if it may be away, its settings then waiting for it: a dialled or tunnelled link when
    /// the plan was made, or what the plan's reader wrote there.
    pub pending: bool,
}

impl DeviceFact {
    /// True if its settings wait while it is away, rather than make the plan unusable. A USB adapter
    /// can be pulled.
    #[must_use]
    pub fn may_be_away(&self) -> bool {
        self.pending || self.sysfs.split('/').any(is_bus)
    }

    /// True if a device that lies at `sysfs` today is this one. Buses and virtio devices are
    /// numbered in the order in which they were found, which another boot may change.
    #[must_use]
    pub fn is_at(&self, sysfs: &str) -> bool {
        place(&self.sysfs).eq(place(sysfs))
    }
}

/// `usb2`, a USB bus (drivers/usb/core/usb.c, `usb_alloc_dev`).
fn is_bus(part: &str) -> bool {
    numbered(part, "usb")
}

fn numbered(part: &str, prefix: &str) -> bool {
    let number = part.strip_prefix(prefix);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The parts of a path under /sys/devices without numbers that a boot gives.
fn place(sysfs: &str) -> impl Iterator<Item = &str> {
    let mut behind_bus = false;
    sysfs.split('/').map(move |part| {
        if is_bus(part) {
            behind_bus = true;
            "usb"
        } else if numbered(part, "virtio") {
            "virtio"
        } else if behind_bus && part.starts_with(|c: char| c.is_ascii_digit()) {
            // `2-1.4` and `2-1.4:1.0`: the bus, then the ports that lead there.
            part.split_once('-').map_or(part, |(_, ports)| ports)
        } else {
            part
        }
    })
}

/// A setting that a user might expect and that a plan does not make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotMade {
    /// Name, as `plan --explain` takes it.
    pub setting: String,
    /// Why not.
    pub reason: String,
}

/// Prediction of the cost model for a plan: a model, not a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Purpose of the plan: `router`, `vpn`, `endpoint`, `low-latency`.
    pub profile: String,
    /// How many flows it was made for: `16 flows`.
    pub flows: String,
    /// Largest load over capacity, in the geometric mean over the patterns of traffic (both ways at
    /// once, and each way alone, where those differ); 1.0 is one NATed packet's stack stage on the
    /// biggest CPU.
    pub largest: f64,
    /// The CPU that has most to do on the whole.
    pub on: super::units::CpuId,
    /// No placement of those considered has a smaller one than this; 0 if that is not known.
    pub bound: f64,
    /// True if the search went through everything.
    pub complete: bool,
    /// How many steps it took.
    pub nodes: u64,
    /// The largest load of the same plan with one flow, which does not split,
    pub one_flow: f64,
    /// with 16 flows
    pub sixteen_flows: f64,
    /// and with so many that every share is even.
    pub many_flows: f64,
}

/// A plan as written to a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Hash of the machine's id (see [`super::snapshot::Machine::id`]).
    pub machine: Option<String>,
    /// Host name, for the reader.
    pub hostname: String,
    /// CPUs that were usable.
    pub cpus: super::cpuset::CpuSet,
    /// Devices it touches.
    pub devices: Vec<DeviceFact>,
    /// Prediction of the cost model, for a plan that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Settings that are not made, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_made: Vec<NotMade>,
    /// Settings to make.
    pub candidate: Candidate,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(sysfs: &str) -> DeviceFact {
        let (name, driver) = (String::from("eth1"), String::new());
        DeviceFact { name, sysfs: sysfs.into(), driver, rx_queues: 1, pending: false }
    }

    #[test]
    fn a_device_is_the_same_after_a_boot_that_numbers_buses_anew() {
        let usb = "/sys/devices/platform/ff600000.usb/xhci-hcd.0.auto/usb5/5-1/5-1:1.0/net/eth1";
        assert!(fact(usb).is_at(&usb.replace("usb5/5-1/5-1:", "usb4/4-1/4-1:")));
        assert!(!fact(usb).is_at(&usb.replace("5-1", "5-2")), "another port");
        let virtio = "/sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth1";
        assert!(fact(virtio).is_at(&virtio.replace("virtio0", "virtio7")));
        assert!(!fact(virtio).is_at(&virtio.replace("03.0", "04.0")), "another slot");
        assert!(!fact(virtio).is_at(usb));
    }

    #[test]
    fn what_comes_and_goes_by_itself_may_be_away_and_a_soldered_port_may_not() {
        let dialled = fact("/sys/devices/virtual/net/pppoe-wan");
        assert!(DeviceFact { pending: true, ..dialled }.may_be_away());
        assert!(
            fact("/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/net/eth1").may_be_away()
        );
        let port = "/sys/devices/pci0000:00/0000:00:03.0/net/eth1";
        assert!(!fact(port).may_be_away());
        assert!(DeviceFact { pending: true, ..fact(port) }.may_be_away());
    }
}
