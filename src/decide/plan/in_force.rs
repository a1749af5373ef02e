//! The machine as it is with a candidate in force: what the planner looks at again, to see whether
//! it would change anything more.

use super::{channels, flow, threads};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::plan::Candidate;
use crate::model::snapshot::{NetDev, Snapshot};

/// Makes the machine as it is with a candidate in force. Settings by which no plan is made (a ring's
/// size, a parameter that is no number) are left out.
#[must_use]
pub fn in_force(snapshot: &Snapshot, candidate: &Candidate) -> Snapshot {
    let grown = channels::asked(snapshot, candidate);
    let offloading = flow::offloaded(grown.as_ref().unwrap_or(snapshot), candidate);
    let mut then = offloading.or(grown).unwrap_or_else(|| snapshot.clone());
    for change in candidate.changes() {
        set(&mut then, &change.knob, &change.after);
    }
    then
}

fn set(machine: &mut Snapshot, knob: &Knob, value: &Value) {
    let device = knob.device().map(str::to_owned);
    let own = |d: &&mut NetDev| Some(&d.name) == device.as_ref();
    match (knob, value) {
        (Knob::IrqAffinity { irq }, Value::Cpus(cpus)) => {
            for line in machine.irqs.iter_mut().filter(|i| i.id == *irq) {
                line.affinity = Some(cpus.clone());
                if line.effective.as_ref().is_none_or(|at| at.intersection(cpus).is_empty()) {
                    line.effective = cpus.first().map(CpuSet::single);
                }
            }
        }
        (Knob::RpsCpus { queue, .. }, Value::Cpus(cpus)) => {
            let queues = machine.netdevs.iter_mut().filter(own).flat_map(|d| &mut d.rx_queues);
            queues.filter(|q| q.index == *queue).for_each(|rx| rx.rps = Some(cpus.clone()));
        }
        (Knob::XpsCpus { queue, .. }, Value::Cpus(cpus)) => {
            let queues = machine.netdevs.iter_mut().filter(own).flat_map(|d| &mut d.tx_queues);
            queues.filter(|q| q.index == *queue).for_each(|tx| tx.xps = Some(cpus.clone()));
        }
        (Knob::RpsFlowCnt { queue, .. }, Value::Count(count)) => {
            let queues = machine.netdevs.iter_mut().filter(own).flat_map(|d| &mut d.rx_queues);
            queues.filter(|q| q.index == *queue).for_each(|rx| rx.flow_cnt = Some(*count));
        }
        (Knob::NapiThread { thread, .. }, Value::Cpus(cpus)) => {
            for device in machine.netdevs.iter_mut().filter(own) {
                if let Some(pid) = threads::threads_of(device).get(*thread as usize) {
                    device.napi_thread_cpus.insert(*pid, cpus.clone());
                }
            }
        }
        (Knob::PollerCpus { .. }, Value::Cpus(cpus)) => {
            let pollers = machine.evidence.iter_mut().flat_map(|e| &mut e.pollers);
            let own = pollers.filter(|p| p.knob().as_ref() == Some(knob));
            own.for_each(|poller| poller.cpus = Some(cpus.clone()));
        }
        (Knob::ThreadedNapi { .. }, Value::Switch(on)) => {
            machine.netdevs.iter_mut().filter(own).for_each(|d| d.threaded = Some(*on));
        }
        (Knob::NapiDeferHardIrqs { .. }, Value::Count(count)) => {
            machine.netdevs.iter_mut().filter(own).for_each(|d| d.defer_hard_irqs = Some(*count));
        }
        (Knob::GroFlushTimeout { .. }, Value::Count(count)) => {
            machine.netdevs.iter_mut().filter(own).for_each(|d| d.gro_flush_timeout = Some(*count));
        }
        (Knob::Coalesce { parameter, .. }, Value::Count(count)) => {
            for known in machine.netdevs.iter_mut().filter(own) {
                let known = known.settings.coalesce.iter_mut().flatten();
                known.filter(|(name, _)| *name == parameter).for_each(|(_, n)| *n = *count);
            }
        }
        (Knob::Sysctl { name }, Value::Count(count)) => {
            machine.path.sysctls.insert(name.clone(), *count);
        }
        (Knob::Governor { policy }, Value::Word(word)) => {
            let known = machine.cpus.iter_mut().filter_map(|cpu| cpu.governor.as_mut());
            known.filter(|g| g.policy == *policy).for_each(|g| g.current.clone_from(word));
        }
        (Knob::Service { name }, Value::Switch(false)) => {
            machine.services.retain(|s| s.name != *name);
        }
        (Knob::PacketSteering, Value::Word(word)) => {
            machine.path.openwrt.insert("packet_steering".into(), word.clone());
            machine.services.retain(|s| word != "0" || s.name != knob.to_string());
        }
        _ => {}
    }
}
