//! The planner's own answer: the placement with the least largest load, each setting with its
//! figures, and what was left alone with the reason.

use super::cost::figure;
use super::intake::Intake;
use super::name;
use super::not_made;
use super::owned;
use super::problem::{Placement, Problem, Queue, Tally};
use super::profile::Profile;
use super::solve::{self, Solution};
use super::stages::{self, Traffic};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::plan::{Candidate, Change, Model, NotMade};
use crate::model::snapshot::Snapshot;
use crate::model::units::CpuId;

/// The planner's answer for a router.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What to set.
    pub candidate: Candidate,
    /// What a user might have expected and is not set, with the reason.
    pub not_made: Vec<NotMade>,
    /// What the model says of it.
    pub model: Model,
}

/// Plans for a router.
///
/// # Errors
/// Why there is nothing to plan.
pub fn planned(
    snapshot: &Snapshot,
    traffic: &Traffic,
    profile: Profile,
) -> Result<Planned, String> {
    let intake = Intake::of(snapshot);
    if intake.devices.is_empty() {
        return Err("no network device is up".into());
    }
    if intake.sources.is_empty() {
        return Err("this kernel has no RPS (CONFIG_RPS)".into());
    }
    let problem = stages::pose(snapshot, &intake, traffic, profile);
    if !problem.places.iter().any(|p| p.usable) {
        return Err("no CPU is usable".into());
    }
    if !problem.queues.iter().any(Queue::works) {
        return Err("it is not known which CPUs the packets come in on".into());
    }
    let solution = solve::solve(&problem, solve::NODES);
    let writer = Writer { snapshot, problem: &problem, placement: &solution.placement };
    let mut settings = writer.lines(&intake);
    settings.extend(writer.masks());
    settings.extend(writer.virtual_masks(&intake));
    settings.extend(not_made::profile_settings(snapshot, &intake, profile));
    owned::take_over(snapshot, &mut settings);
    let model = writer.model(&solution, traffic, profile, &intake);
    let candidate = Candidate {
        name: name::PLANNED.into(),
        title: "the least load on the busiest CPU, by the cost model".into(),
        reason: writer.reason(&solution),
        settings,
    };
    let not_made = not_made::list(snapshot, &intake, &problem, &candidate, profile);
    Ok(Planned { candidate, not_made, model })
}

struct Writer<'a> {
    snapshot: &'a Snapshot,
    problem: &'a Problem,
    placement: &'a Placement,
}

impl Writer<'_> {
    fn id(&self, place: usize) -> CpuId {
        self.problem.places.get(place).map_or(CpuId(0), |p| p.id)
    }

    fn set(&self, places: &[usize]) -> CpuSet {
        places.iter().map(|p| self.id(*p)).collect()
    }

    /// Largest load when one thing is placed differently.
    fn otherwise(&self, change: impl FnOnce(&mut Placement)) -> f64 {
        let mut other = self.placement.clone();
        change(&mut other);
        figure(self.problem.tally(&other).mean())
    }

    /// The load of a place where it is largest.
    fn load(&self, tally: &Tally<'_>, place: usize) -> String {
        format!("{:.2}", figure(tally.relative(place).into_iter().max().unwrap_or(0)))
    }

    /// Largest loads, for a person: on the whole, and in each pattern.
    fn loads(&self, tally: &Tally<'_>) -> String {
        let all = self.problem.patterns.iter().zip(tally.largest()).enumerate();
        let each: Vec<String> = all
            .map(|(n, (pattern, load))| {
                let at = self.id(tally.fullest(n));
                match self.problem.patterns.len() {
                    1 => format!("{:.2}, on {at}", figure(load)),
                    _ => format!("{:.2} {}, on {at}", figure(load), pattern.words),
                }
            })
            .collect();
        match each.as_slice() {
            [one] => one.clone(),
            several => format!("{:.2} on the whole ({})", figure(tally.mean()), several.join("; ")),
        }
    }

    fn lines(&self, intake: &Intake<'_>) -> Vec<Change> {
        let tally = self.problem.tally(self.placement);
        let largest = figure(tally.mean());
        let mut all = Vec::new();
        for (index, line) in self.problem.lines.iter().enumerate() {
            let irq = intake.lines.iter().find(|i| i.id == line.irq);
            let before = match &line.thread {
                Some((_, cpus)) => Some(cpus.clone()),
                None => irq.and_then(|i| i.affinity.clone()),
            };
            let place = self.placement.lines.get(index).copied().flatten();
            let (Some(before), Some(place), false) = (before, place, line.fixed) else { continue };
            let cpu = self.id(place);
            let capacity = self.snapshot.cpus.iter().find(|c| c.id == cpu);
            let size = match capacity {
                Some(c) if self.uneven() => format!(" (capacity {} of 1024)", c.capacity.value),
                _ => String::new(),
            };
            let own = self.load(&tally, place);
            let reason = match line.home {
                Some(home) if home != place => {
                    let moved = self.otherwise(|p| {
                        if let Some(at) = p.lines.get_mut(index) {
                            *at = Some(home);
                        }
                    });
                    let there = self.id(home);
                    if moved > largest {
                        format!(
                            "{cpu}{size} then has a load of {own}; left on {there}, the largest \
                             load would be {moved:.2} instead of {largest:.2}"
                        )
                    } else {
                        format!("{cpu}{size} then has a load of {own}, and {there} is relieved")
                    }
                }
                Some(_) => format!("stays on {cpu}{size}, which then has a load of {own}"),
                None => format!("{cpu}{size} then has a load of {own}"),
            };
            let reason = match line.thread {
                Some(_) => format!("polls in this thread, not in the interrupt: {reason}"),
                None => reason,
            };
            all.push(Change {
                knob: line.knob(),
                before: Value::Cpus(before),
                after: Value::Cpus(CpuSet::single(cpu)),
                reason,
            });
        }
        all
    }

    fn uneven(&self) -> bool {
        let mut sizes = self.snapshot.cpus.iter().filter(|c| c.online).map(|c| c.capacity.value);
        let first = sizes.next();
        sizes.any(|s| Some(s) != first)
    }

    fn masks(&self) -> Vec<Change> {
        let largest = figure(self.problem.tally(self.placement).mean());
        let mut all = Vec::new();
        for (index, queue) in self.problem.queues.iter().enumerate() {
            let mask = self.placement.masks.get(index).map_or(&[][..], |m| m.as_slice());
            let at = queue.line.and_then(|l| self.placement.lines.get(l).copied().flatten());
            let with = |mask: Vec<usize>| {
                self.otherwise(|p| {
                    if let Some(slot) = p.masks.get_mut(index) {
                        *slot = mask;
                    }
                })
            };
            let reason = match (&queue.unsteered, at) {
                (Some(why), _) if why.starts_with("it is not known") => continue,
                (Some(why), _) => format!("off: {why}"),
                (None, Some(at)) if mask.is_empty() => {
                    let cpu = self.id(at);
                    let others =
                        solve::masks_for(self.problem, index, Some(at), &self.placement.lines);
                    let best = others.into_iter().filter(|m| !m.is_empty()).map(with);
                    let best = best.fold(f64::INFINITY, f64::min);
                    if best.is_finite() {
                        format!(
                            "off: the stack stage stays on {cpu} with the interrupt; handing it over \
                             would make the largest load {best:.2} at best, and it is {largest:.2}"
                        )
                    } else {
                        format!("off: the stack stage stays on {cpu} with the interrupt")
                    }
                }
                (None, None) => format!(
                    "there is no interrupt here: the mask says where the packets are handled; \
                     largest load {largest:.2}"
                ),
                (None, Some(at)) => {
                    let cpu = self.id(at);
                    let without = with(vec![]);
                    let spread = match mask.len() {
                        1 => String::new(),
                        k => format!(
                            "; of {} one of them gets {:.0} % at most",
                            self.problem.flows,
                            self.problem.flows.largest_share(k) * 100.0
                        ),
                    };
                    format!(
                        "{cpu} takes the interrupt; with the stack stage there too the largest \
                         load would be {without:.2} instead of {largest:.2}{spread}"
                    )
                }
            };
            let source = self.snapshot.netdev(&queue.device);
            let rx = source.and_then(|d| d.rx_queues.iter().find(|q| q.index == queue.index));
            let before = rx.and_then(|q| q.rps.clone()).unwrap_or_default();
            all.push(Change {
                knob: Knob::RpsCpus { device: queue.device.clone(), queue: queue.index },
                before: Value::Cpus(before),
                after: Value::Cpus(self.set(mask)),
                reason,
            });
        }
        all
    }

    /// Masks on VLAN, PPPoE and bridge devices hand packets over a second time.
    fn virtual_masks(&self, intake: &Intake<'_>) -> Vec<Change> {
        let mut all = Vec::new();
        for device in &self.snapshot.netdevs {
            let stands_on = intake.devices.iter().find(|d| {
                stages::above(self.snapshot, &d.name).names.contains(device.name.as_str())
            });
            let Some(parent) = stands_on.filter(|_| !device.is_hardware()) else { continue };
            for queue in &device.rx_queues {
                let Some(before) = queue.rps.clone().filter(|set| !set.is_empty()) else {
                    continue;
                };
                all.push(Change {
                    knob: Knob::RpsCpus { device: device.name.clone(), queue: queue.index },
                    before: Value::Cpus(before),
                    after: Value::Cpus(CpuSet::empty()),
                    reason: format!(
                        "off: its packets were placed at {}, whose hash looks inside VLAN and \
                         PPPoE already; a second hand-over only costs",
                        parent.name
                    ),
                });
            }
        }
        all
    }

    fn today(&self) -> Placement {
        Placement {
            lines: self.problem.lines.iter().map(|l| l.home).collect(),
            masks: self.problem.queues.iter().map(|q| q.before.clone()).collect(),
        }
    }

    fn reason(&self, solution: &Solution) -> String {
        let tally = self.problem.tally(&solution.placement);
        let mut text = format!("largest load {}", self.loads(&tally));
        let senders = self.problem.queues.iter().any(|q| q.line.is_none() && q.before.is_empty());
        let today = self.today();
        if !senders && !self.problem.is_adrift(&today) {
            text += &format!("; as found {}", self.loads(&self.problem.tally(&today)));
        }
        if solution.carried {
            text += "; by what is known of these CPUs the links are full before them: handing \
                     packets over (RPS) could bring nothing";
        }
        if let Some(declined) = solution.declined {
            text += &format!(
                "; handing packets over (RPS) would bring {:.2}, and less than {} % is not worth it",
                figure(declined),
                100 - solve::WORTH
            );
        }
        text + &match gap(solution) {
            _ if solution.complete => "; searched to the end".into(),
            gap if gap <= 0.0 => "; no placement has a smaller one".into(),
            gap => format!(
                "; search ended after {} steps, at most {:.1} % above the best",
                solution.nodes,
                gap * 100.0
            ),
        }
    }

    fn model(
        &self,
        solution: &Solution,
        traffic: &Traffic,
        profile: Profile,
        intake: &Intake<'_>,
    ) -> Model {
        let with = |flows: u32| {
            let traffic = Traffic { flows: Some(flows), ..traffic.clone() };
            let problem = stages::pose(self.snapshot, intake, &traffic, profile);
            rounded(figure(problem.tally(&solution.placement).mean()))
        };
        let at = self.problem.tally(&solution.placement).busiest();
        Model {
            profile: profile.name().into(),
            flows: self.problem.flows.to_string(),
            largest: rounded(figure(solution.largest)),
            on: self.id(at),
            bound: rounded(figure(solution.bound)),
            complete: solution.complete,
            nodes: solution.nodes,
            one_flow: with(1),
            sixteen_flows: with(16),
            many_flows: with(0),
        }
    }
}

/// How far the best may lie below, as a share.
fn gap(solution: &Solution) -> f64 {
    if solution.largest == 0 {
        return 0.0;
    }
    1.0 - figure(solution.bound) / figure(solution.largest)
}

/// A thousandth says more than the model knows.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
