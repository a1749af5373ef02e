//! What to change, from what to what, and why.

use serde::{Deserialize, Serialize};

use super::knob::{Knob, Value};

/// Name of the candidate that puts all packets on one CPU, as a lone interrupt would have it: the
/// planner makes it, and headlines compare with it.
pub const ONE_CPU: &str = "one-cpu";

/// One setting to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What is set.
    pub knob: Knob,
    /// What it was when the plan was made.
    pub before: Value,
    /// What it is to be.
    pub after: Value,
    /// Why.
    pub reason: String,
}

/// A named way to set the router up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Short name (`as-found`, `one-cpu`, `rps-all`, ...): unique within a run, and how the
    /// command line, the result file and the report refer to it.
    pub name: String,
    /// What it is, for a person.
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

/// What must be so for a plan to fit the machine.
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
}

/// A plan as written to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Hash of the machine's id (see [`super::snapshot::Machine::id`]).
    pub machine: Option<String>,
    /// Host name, for the reader.
    pub hostname: String,
    /// CPUs that were usable.
    pub cpus: super::cpuset::CpuSet,
    /// Devices it touches.
    pub devices: Vec<DeviceFact>,
    /// What to set.
    pub candidate: Candidate,
}
