//! The ways to set a router up that are worth comparing, each with its reasons.

use std::collections::BTreeMap;

use super::intake::{Intake, Source};
use super::spread::spread;
use super::{cost, name};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{Irq, IrqId, Snapshot};
use crate::model::units::CpuId;

/// Candidates, what was left out and why, and which one the cost model would take.
#[derive(Debug, Clone)]
pub struct Candidates {
    /// To compare; the first is the router as found.
    pub list: Vec<Candidate>,
    /// Names of candidates that make no sense here, with the reason.
    pub left_out: Vec<(&'static str, String)>,
    /// The name the cost model prefers; "as found" unless another is more than 1 % better.
    pub preferred: &'static str,
}

impl Candidates {
    /// The candidate of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Candidate> {
        self.list.iter().find(|c| c.name == name)
    }
}

/// Proposes candidates for a router.
#[must_use]
pub fn candidates(snapshot: &Snapshot) -> Candidates {
    let maker = Maker { snapshot, intake: Intake::of(snapshot) };
    let mut list = vec![maker.as_found()];
    let mut left_out = Vec::new();
    let mut take = |name: &'static str, made: Result<Candidate, String>| match made {
        Ok(candidate) => list.push(candidate),
        Err(why) => left_out.push((name, why)),
    };
    take(name::ONE_CPU, maker.one_cpu());
    take(name::RPS_OTHERS, maker.rps_others());
    take(name::RPS_ALL, maker.rps_all());
    take(name::IRQ_SPREAD, maker.irq_spread(false));
    take(name::IRQ_SPREAD_RPS, maker.irq_spread(true));
    let preferred = preferred(snapshot, &list);
    Candidates { list, left_out, preferred }
}

/// Within 1 % counts as equal; then the fewest writes win.
fn preferred(snapshot: &Snapshot, list: &[Candidate]) -> &'static str {
    let all = [
        name::AS_FOUND,
        name::ONE_CPU,
        name::RPS_OTHERS,
        name::RPS_ALL,
        name::IRQ_SPREAD,
        name::IRQ_SPREAD_RPS,
    ];
    let scored: Vec<(f64, usize, &'static str)> = list
        .iter()
        .filter_map(|c| {
            let name = all.iter().find(|n| **n == c.name)?;
            Some((cost::predict(snapshot, c)?.largest, c.changes().count(), *name))
        })
        .collect();
    let least = scored.iter().map(|s| s.0).fold(f64::INFINITY, f64::min);
    scored
        .iter()
        .filter(|s| s.0 <= least * 1.01)
        .min_by_key(|s| s.1)
        .map_or(name::AS_FOUND, |s| s.2)
}

struct Maker<'a> {
    snapshot: &'a Snapshot,
    intake: Intake<'a>,
}

impl Maker<'_> {
    fn as_found(&self) -> Candidate {
        self.build(
            name::AS_FOUND,
            "as found",
            if self.intake.lines.is_empty() && !self.intake.sources.is_empty() {
                // veth's receive side runs on the CPU of whoever sends (net/core/dev.c, netif_rx).
                "the router as it is: without interrupts each packet is handled on its sender's CPU, \
                 which no network card does; a mark to compare with"
                    .into()
            } else {
                "the router as it is today: what every change has to beat".into()
            },
            &BTreeMap::new(),
            |source| (source.queue.rps.clone().unwrap_or_default(), "as found".into()),
        )
    }

    fn one_cpu(&self) -> Result<Candidate, String> {
        let cpu = self.steerable()?;
        let why = format!("all interrupts on {cpu}");
        let lines: BTreeMap<IrqId, (CpuId, String)> =
            self.intake.movable().map(|irq| (irq.id.clone(), (cpu, why.clone()))).collect();
        if self.intake.lines.is_empty() {
            // Without RPS a veth's packets are handled wherever their sender runs, which no
            // hardware does: a lone interrupt is stood for by an explicit mask of one CPU.
            return Ok(self.build(
                name::ONE_CPU,
                &format!("everything on {cpu} (the lone-interrupt case)"),
                format!(
                    "stands for a router whose one network interrupt lands on {cpu}: there are no \
                     interrupt lines here, so an explicit mask of one CPU takes their place"
                ),
                &lines,
                |_| (CpuSet::single(cpu), format!("all packets on {cpu}")),
            ));
        }
        Ok(self.build(
            name::ONE_CPU,
            &format!("everything on {cpu} (the lone-interrupt case)"),
            format!("what a router does whose network interrupts all land on {cpu}"),
            &lines,
            |_| (CpuSet::empty(), format!("the stack stays on the interrupt's {cpu}")),
        ))
    }

    fn rps_others(&self) -> Result<Candidate, String> {
        let lone = self.steerable()?;
        if self.intake.usable.len() < 2 {
            return Err("there is only one usable CPU".into());
        }
        self.enough_queues()?;
        let others = |source: &Source<'_>| {
            let own = source.arrives_on().unwrap_or(lone);
            let rest = self.intake.usable.difference(&CpuSet::single(own));
            // An immovable line may sit outside the usable CPUs; then all of them are others.
            (rest, format!("{own} is busy with the interrupt; the stack's work goes elsewhere"))
        };
        let title = "RPS to every CPU but the interrupt's";
        let reason = if self.intake.lines.is_empty() {
            format!("keeps {lone}, which stands for the interrupt's CPU, free of the stack's work")
        } else {
            "keeps the CPU that takes the interrupt free for it".into()
        };
        Ok(self.build(name::RPS_OTHERS, title, reason, &BTreeMap::new(), others))
    }

    fn rps_all(&self) -> Result<Candidate, String> {
        self.steerable()?;
        let all = &self.intake.usable;
        if all.len() < 2 {
            return Err("there is only one usable CPU".into());
        }
        self.enough_queues()?;
        Ok(self.build(
            name::RPS_ALL,
            "RPS to all CPUs",
            format!("spreads flows over all {} CPUs by their hash", all.len()),
            &BTreeMap::new(),
            |_| (all.clone(), format!("flows are hashed onto CPUs {all}")),
        ))
    }

    fn irq_spread(&self, with_rps: bool) -> Result<Candidate, String> {
        self.steerable()?;
        let movable = self.intake.movable().count();
        if movable < 2 {
            return Err(match (self.intake.lines.len(), movable) {
                (0, _) => "there are no network interrupts here".into(),
                (_, 0) => "no network interrupt can be moved".into(),
                _ => "there is only one network interrupt to place".into(),
            });
        }
        if self.intake.usable.len() < 2 {
            return Err("there is only one usable CPU".into());
        }
        let placed: BTreeMap<IrqId, (CpuId, String)> = spread(self.snapshot, self.intake.movable())
            .into_iter()
            .map(|(irq, cpu)| (irq, (cpu, self.why_there(cpu))))
            .collect();
        let reason = format!(
            "{movable} network interrupts over {} CPUs, by what each costs and what each CPU can do",
            self.intake.usable.len()
        );
        if !with_rps {
            return Ok(self.build(
                name::IRQ_SPREAD,
                "interrupts spread, RPS off",
                reason,
                &placed,
                |_| (CpuSet::empty(), "the stack follows the interrupt".into()),
            ));
        }
        self.enough_queues()?;
        Ok(self.build(
            name::IRQ_SPREAD_RPS,
            "interrupts spread, RPS to the other CPUs",
            reason,
            &placed,
            |source| {
                let own = source.irq.and_then(|irq| placed.get(&irq.id)).map(|(cpu, _)| *cpu);
                let rest = own.map_or_else(CpuSet::empty, CpuSet::single);
                let others = self.intake.usable.difference(&rest);
                (others, "the stack's work goes to the CPUs that the interrupt leaves free".into())
            },
        ))
    }

    /// The CPU of the lone-interrupt case, when there is anything to steer.
    fn steerable(&self) -> Result<CpuId, String> {
        if self.intake.devices.is_empty() {
            return Err("no network device is up".into());
        }
        if self.intake.sources.is_empty() {
            return Err("this kernel has no RPS (CONFIG_RPS)".into());
        }
        self.intake.lone_cpu().ok_or_else(|| "no CPU is usable".into())
    }

    /// Why a line is put on a CPU.
    fn why_there(&self, cpu: CpuId) -> String {
        let capacity = |id| {
            let known = self.snapshot.cpus.iter().find(|c| c.id == id);
            known.map_or(0, |c| c.capacity.value)
        };
        let most = self.intake.usable.iter().map(capacity).max().unwrap_or(0);
        let alike = self.intake.usable.iter().all(|id| capacity(id) == most);
        if !alike && capacity(cpu) == most {
            format!("{cpu} is one of the biggest and had the least to do for its size")
        } else {
            format!("{cpu} had the least to do for its size")
        }
    }

    /// RPS on top of a queue per CPU only adds interrupts between processors.
    fn enough_queues(&self) -> Result<(), String> {
        let cpus = self.intake.usable.len();
        let covered = |d: &&&crate::model::snapshot::NetDev| {
            let own = |irq: &&&Irq| irq.id.device == d.name && irq.id.role.receives();
            let lines = self.intake.lines.iter().filter(own).count();
            // Queues behind one line are all polled where it lands (mvneta has eight).
            let queues = if lines == 1 { 1 } else { d.rx_queues.len() };
            d.is_hardware() && queues >= cpus && cpus > 1
        };
        if !self.intake.devices.is_empty()
            && self.intake.devices.iter().filter(covered).count() == self.intake.devices.len()
        {
            return Err(format!(
                "every network card has a receive queue for each of the {cpus} CPUs: RPS would \
                 only hand packets around"
            ));
        }
        Ok(())
    }

    fn build(
        &self,
        name: &str,
        title: &str,
        reason: String,
        lines: &BTreeMap<IrqId, (CpuId, String)>,
        rps: impl Fn(&Source<'_>) -> (CpuSet, String),
    ) -> Candidate {
        let line = |irq: &Irq| {
            let before = irq.affinity.clone()?;
            let (after, reason) = match lines.get(&irq.id) {
                Some((cpu, why)) => (CpuSet::single(*cpu), why.clone()),
                None => (before.clone(), "as found".to_owned()),
            };
            Some(Change {
                knob: Knob::IrqAffinity { irq: irq.id.clone() },
                before: Value::Cpus(before),
                after: Value::Cpus(after),
                reason,
            })
        };
        let queue = |source: &Source<'_>| {
            let (after, reason) = rps(source);
            Change {
                knob: Knob::RpsCpus {
                    device: source.device.name.clone(),
                    queue: source.queue.index,
                },
                before: Value::Cpus(source.queue.rps.clone().unwrap_or_default()),
                after: Value::Cpus(after),
                reason,
            }
        };
        let settings = self
            .intake
            .movable()
            .filter_map(line)
            .chain(self.intake.sources.iter().map(queue))
            .collect();
        Candidate { name: name.into(), title: title.into(), reason, settings }
    }
}
