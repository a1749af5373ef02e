//! The ways to set a router up that are worth comparing, each with its reasons.

use std::collections::BTreeMap;

use super::in_force::in_force;
use super::intake::{Intake, Source};
use super::planned::{self, Planned};
use super::profile::Profile;
use super::spread::spread;
use super::traffic::Traffic;
use super::{baseline, channels, flow, gro, name, owned};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::order::OneByOne;
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{Irq, IrqId, Snapshot};
use crate::model::units::CpuId;

/// A request to the planner: the use of the router, and its traffic.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Use that the router is planned for.
    pub profile: Profile,
    /// Known facts of its traffic.
    pub traffic: Traffic,
}

/// Candidates, what was left out and why, and which one the cost model would take.
#[derive(Debug, Clone)]
pub struct Candidates {
    /// Candidates to compare; the first is the router as found.
    pub list: Vec<Candidate>,
    /// Candidates of other tools, and those that change more than where work is done; by name only,
    /// for an experiment takes long enough.
    pub baselines: Vec<Candidate>,
    /// Names of candidates that make no sense here, with the reason.
    pub left_out: Vec<(&'static str, String)>,
    /// Candidates that would set what another sets already: name, and the other's.
    pub folded: Vec<(&'static str, String)>,
    /// The planner's own answer, with what it left alone.
    pub planned: Option<Planned>,
    /// The name the cost model prefers; "as found" unless another is more than 1 % better.
    pub preferred: String,
}

impl Candidates {
    /// The candidate of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Candidate> {
        let named = |name: &str| self.all().find(|c| c.name == name);
        let other = || self.folded.iter().find(|(folded, _)| *folded == name);
        named(name).or_else(|| named(&other()?.1))
    }

    /// All of them, baselines last.
    pub fn all(&self) -> impl Iterator<Item = &Candidate> {
        self.list.iter().chain(&self.baselines)
    }
}

/// Proposes candidates for a router of which nothing more is known.
#[must_use]
pub fn candidates(snapshot: &Snapshot) -> Candidates {
    candidates_for(snapshot, &Request::default())
}

/// Proposes candidates for a router.
#[must_use]
pub fn candidates_for(snapshot: &Snapshot, request: &Request) -> Candidates {
    let maker = Maker { snapshot, intake: Intake::of(snapshot) };
    let mut found = Candidates {
        list: vec![maker.as_found()],
        baselines: Vec::new(),
        left_out: Vec::new(),
        folded: Vec::new(),
        planned: None,
        preferred: name::AS_FOUND.into(),
    };
    let mut take = |name: &'static str, made: Result<Candidate, String>| match made {
        Ok(candidate) => found.list.push(candidate),
        Err(why) => found.left_out.push((name, why)),
    };
    take(name::ONE_CPU, maker.one_cpu());
    take(name::RPS_OTHERS, maker.rps_others());
    take(name::RPS_ALL, maker.rps_all());
    take(name::IRQ_SPREAD, maker.irq_spread(false));
    take(name::IRQ_SPREAD_RPS, maker.irq_spread(true));
    match planned::planned(snapshot, &request.traffic, request.profile) {
        Ok(planned) => {
            let same = |c: &&mut Candidate| sets_the_same(c, &planned.candidate);
            match found.list.iter_mut().find(same) {
                Some(other) if other.name == name::AS_FOUND => {
                    found.folded.push((name::PLANNED, other.name.clone()));
                }
                Some(other) => {
                    // The planner's reasons have figures.
                    other.settings.clone_from(&planned.candidate.settings);
                    other.reason = format!("{}; {}", other.reason, planned.candidate.reason);
                    found.folded.push((name::PLANNED, other.name.clone()));
                }
                None => found.list.push(planned.candidate.clone()),
            }
            found.planned = Some(planned);
        }
        Err(why) => found.left_out.push((name::PLANNED, why)),
    }
    complete(&mut found.list);
    let mut add = |candidate: Candidate| {
        // What the tool leaves alone is as found, also after another candidate's turn.
        let mut with = vec![candidate];
        with.extend(found.list.first().cloned());
        complete(&mut with);
        found.baselines.extend(with.into_iter().next());
    };
    for (name, made) in [
        (name::CHANNELS, channels::candidate(snapshot, &request.traffic, request.profile)),
        (name::FLOWTABLE, flow::candidate(snapshot, "software")),
        (name::HARDWARE, flow::candidate(snapshot, "hardware")),
        (name::OFFLOAD_PLANNED, with_offload(snapshot, request)),
        (name::OPENWRT_1, baseline::openwrt(snapshot, false)),
        (name::OPENWRT_2, baseline::openwrt(snapshot, true)),
        (name::ALL_CPUS, baseline::all_cpus(snapshot)),
        (name::IRQBALANCE, baseline::irqbalance(snapshot)),
    ] {
        match made {
            Ok(candidate) => add(candidate),
            Err(why) => found.left_out.push((name, why)),
        }
    }
    for (name, what) in [(name::GRO_LIST, gro::LISTS), (name::UDP_GRO, gro::UDP)] {
        gro::candidate(snapshot, name, what).into_iter().for_each(&mut add);
    }
    found.preferred = preferred(&found);
    // Where nothing is to be changed, the reasons are the planner's.
    if let (Some(planned), true) = (&found.planned, found.preferred == name::AS_FOUND)
        && let Some(first) = found.list.first_mut()
    {
        first.reason = format!("{}; {}", first.reason, planned.candidate.reason);
    }
    found
}

/// Candidates of the rules of thumb and of other tools: where the planner starts, and which its
/// plan must not be worse than.
#[must_use]
pub fn peers(snapshot: &Snapshot) -> Vec<Candidate> {
    let maker = Maker { snapshot, intake: Intake::of(snapshot) };
    let rules = [
        maker.rps_others(),
        maker.rps_all(),
        maker.irq_spread(false),
        maker.irq_spread(true),
        baseline::openwrt(snapshot, false),
        baseline::openwrt(snapshot, true),
        baseline::irqbalance(snapshot),
    ];
    std::iter::once(maker.as_found()).chain(rules.into_iter().flatten()).collect()
}

/// Flow offload and the plan for the router that has it, as one step.
fn with_offload(snapshot: &Snapshot, request: &Request) -> Result<Candidate, String> {
    let offload = flow::candidate(snapshot, "software")?;
    let offloading = in_force(snapshot, &offload);
    let planned = planned::planned(&offloading, &request.traffic, request.profile)?;
    if planned.candidate.changes().next().is_none() {
        return Err(format!("with flow offload nothing else changes: {}", name::FLOWTABLE));
    }
    let mut settings = offload.settings;
    settings.extend(planned.candidate.settings);
    Ok(Candidate {
        name: name::OFFLOAD_PLANNED.into(),
        title: "flow offload, and the placement for a router that has it".into(),
        reason: format!("{}; {}", offload.reason, planned.candidate.reason),
        settings,
    })
}

/// Makes every candidate state what any of them states: what it does not mention is as found.
pub fn complete(list: &mut [Candidate]) {
    let mut known: BTreeMap<Knob, Value> = BTreeMap::new();
    for change in list.iter().flat_map(|c| &c.settings) {
        known.entry(change.knob.clone()).or_insert_with(|| change.before.clone());
    }
    for candidate in list {
        let own: std::collections::BTreeSet<Knob> =
            candidate.settings.iter().map(|c| c.knob.clone()).one_by_one();
        for (knob, before) in known.iter().filter(|(knob, _)| !own.contains(*knob)) {
            candidate.settings.push(Change {
                knob: knob.clone(),
                before: before.clone(),
                after: before.clone(),
                reason: "as found".into(),
            });
        }
    }
}

fn sets_the_same(one: &Candidate, other: &Candidate) -> bool {
    let values = |c: &Candidate| -> BTreeMap<Knob, Value> {
        c.settings.iter().map(|c| (c.knob.clone(), c.after.clone())).one_by_one()
    };
    // What one does not mention stays as found.
    let unchanged = |a: &Candidate, b: &BTreeMap<Knob, Value>| {
        a.settings.iter().all(|c| match b.get(&c.knob) {
            Some(value) => *value == c.after,
            None => c.before == c.after,
        })
    };
    unchanged(one, &values(other)) && unchanged(other, &values(one))
}

/// The planner's answer, unless it changes nothing or the links are full without it.
fn preferred(found: &Candidates) -> String {
    let Some(best) = found.get(name::PLANNED) else { return name::AS_FOUND.into() };
    let carried = found.planned.as_ref().is_some_and(|p| p.carried);
    // Services are taken over for the placement's sake.
    let placement = |knob: &Knob| {
        matches!(
            knob,
            Knob::IrqAffinity { .. }
                | Knob::NapiThread { .. }
                | Knob::PollerCpus { .. }
                | Knob::RpsCpus { .. }
                | Knob::Service { .. }
                | Knob::PacketSteering
        )
    };
    let asks_more = best.changes().any(|c| !placement(&c.knob));
    let nothing = best.changes().next().is_none();
    if nothing || (carried && !asks_more) { name::AS_FOUND.into() } else { best.name.clone() }
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
            self.intake.movable().map(|irq| (irq.id.clone(), (cpu, why.clone()))).one_by_one();
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
        let why_there = self.why_there();
        let placed: BTreeMap<IrqId, (CpuId, String)> = spread(self.snapshot, self.intake.movable())
            .into_iter()
            .map(|(irq, cpu)| (irq, (cpu, why_there(cpu))))
            .one_by_one();
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

    /// Makes the reason for which a line is put on a CPU.
    fn why_there(&self) -> impl Fn(CpuId) -> String {
        let cpus = self.snapshot.cpus.iter().filter(|c| self.intake.usable.contains(c.id));
        let capacities: BTreeMap<CpuId, u32> = cpus.map(|c| (c.id, c.capacity.value)).one_by_one();
        let most = capacities.values().max().copied();
        let alike = capacities.values().min().copied() == most;
        move |cpu| {
            if !alike && capacities.get(&cpu).copied() == most {
                format!("{cpu} is one of the biggest and had the least to do for its size")
            } else {
                format!("{cpu} had the least to do for its size")
            }
        }
    }

    /// RPS on top of a queue per CPU only adds interrupts between processors.
    fn enough_queues(&self) -> Result<(), String> {
        let cpus = self.intake.usable.len();
        let covered = |d: &&&crate::model::snapshot::NetDev| {
            d.is_hardware() && self.intake.spread(d) >= cpus && cpus > 1
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
        let mut settings: Vec<Change> = self
            .intake
            .movable()
            .filter_map(line)
            .chain(self.intake.sources.iter().map(queue))
            .collect();
        owned::take_over(self.snapshot, &mut settings);
        Candidate { name: name.into(), title: title.into(), reason, settings }
    }
}
