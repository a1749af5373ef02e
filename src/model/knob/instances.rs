//! Settings of a row that a router has: one for each device, queue, line, thread or policy.

use super::spec::Scope;
use super::{Knob, KnobSpec, Parts};
use crate::model::evidence::Poller;
use crate::model::order::InOrder;
use crate::model::snapshot::{Irq, NetDev, Snapshot};

impl KnobSpec {
    /// The settings of a device, in the order of its queues and lines; none for the row of all
    /// further names.
    #[must_use]
    pub fn of_device(&self, snapshot: &Snapshot, device: &NetDev) -> Vec<Knob> {
        let bare = Parts { name: self.name, ..Parts::device(self.kind, &device.name) };
        let each = |numbers: Vec<u32>| {
            let one = |queue| Knob::of(&Parts { queue: Some(queue), ..bare }).ok();
            numbers.into_iter().filter_map(one).collect()
        };
        match self.scope {
            Scope::RxQueue => each(device.rx_queues.iter().map(|q| q.index).collect()),
            Scope::TxQueue => each(device.tx_queues.iter().map(|q| q.index).collect()),
            Scope::Thread => each((0..threads(device)).collect()),
            Scope::Line => {
                let line = |irq: &Irq| {
                    let (queue, role) = (Some(irq.id.queue), Some(irq.id.role));
                    Knob::of(&Parts { queue, role, ..bare }).ok()
                };
                snapshot.irqs_of(&device.name).filter_map(line).collect()
            }
            Scope::Device if !self.open => Knob::of(&bare).into_iter().collect(),
            Scope::Device | Scope::Machine | Scope::Policy => Vec::new(),
        }
    }

    /// The setting of a frequency policy.
    #[must_use]
    pub fn of_policy(&self, policy: &str) -> Option<Knob> {
        let one = self.scope == Scope::Policy;
        one.then(|| Knob::of(&Parts::policy(self.kind, policy)).ok()).flatten()
    }

    /// The settings of threads that poll for no device of their own.
    #[must_use]
    pub fn of_pollers(&self, snapshot: &Snapshot) -> Vec<Knob> {
        let pollers = snapshot.evidence.iter().flat_map(|evidence| &evidence.pollers);
        pollers
            .filter_map(Poller::knob)
            .filter(|k| k.kind() == self.kind && k.device().is_none())
            .collect()
    }

    /// The setting of the machine as a whole.
    #[must_use]
    pub fn of_machine(&self) -> Option<Knob> {
        let one = self.scope == Scope::Machine;
        one.then(|| Knob::of(&Parts::machine(self.kind, self.name)).ok()).flatten()
    }
}

/// Number of threads that poll for a device. Names of threads say nothing of the network namespace;
/// the kernel's own answer does.
fn threads(device: &NetDev) -> u32 {
    let known = device.napis.iter().filter(|napi| napi.pid.is_some()).count();
    let threads = if device.napis.is_empty() { device.napi_threads.len() } else { known };
    u32::try_from(threads).unwrap_or(u32::MAX)
}

/// Names of the frequency policies, sorted.
#[must_use]
pub fn policies(snapshot: &Snapshot) -> Vec<&str> {
    let governors = snapshot.cpus.iter().filter_map(|cpu| cpu.governor.as_ref());
    let mut policies: Vec<&str> = governors.map(|g| g.policy.as_str()).collect();
    policies.order_by(Ord::cmp);
    policies.dedup();
    policies
}
