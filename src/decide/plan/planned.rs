//! The planner's own answer: the placement with the least regret, each setting with its figures,
//! and what was left alone with the reason.

use std::cell::Cell;

use super::cost::{self, Prediction};
use super::in_force::in_force;
use super::index::{Bug, LineIx, PlaceIx, QueueIx};
use super::intake::Intake;
use super::judge::{Judge, Judged};
use super::problem::{Placement, Problem, Tally};
use super::profile::Profile;
use super::search::{self, Solution};
use super::traffic::{Traffic, above};
use super::unsteered::Unsteered;
use super::{candidates, flow, name, not_made, owned, pose, xps};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::plan::{Candidate, Change, Model, NotMade};
use crate::model::snapshot::Snapshot;
use crate::model::units::CpuId;

/// Rounds of planning after the first: each is a search.
const ROUNDS: usize = 6;

/// Reasons that have a figure: of hundreds of settings alike it would take longer than the search.
const FIGURES: usize = 64;

/// The planner's answer for a router.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Settings to make.
    pub candidate: Candidate,
    /// Settings that a user might have expected and that are not made, with the reason.
    pub not_made: Vec<NotMade>,
    /// The model's prediction for the plan.
    pub model: Model,
    /// True if the links are full as it is, in all worlds.
    pub carried: bool,
    /// Searches for a placement that it took.
    pub searches: usize,
    /// Placements that were judged for the reasons of settings alone.
    pub explained: usize,
}

/// A router that is planned for: as found, or with a plan in force.
struct Ground<'a> {
    snapshot: &'a Snapshot,
    intake: Intake<'a>,
    problem: Problem,
    counted: bool,
    /// The links are full before any CPU, in all worlds.
    carried: bool,
    /// Names and placements of what other rules would set.
    names: Vec<String>,
    peers: Vec<Placement>,
}

impl<'a> Ground<'a> {
    fn of(snapshot: &'a Snapshot, traffic: &Traffic, profile: Profile) -> Result<Self, String> {
        let intake = Intake::of(snapshot);
        if intake.devices.is_empty() {
            return Err("no network device is up".into());
        }
        if intake.sources.is_empty() {
            return Err("this kernel has no RPS (CONFIG_RPS)".into());
        }
        let pose::Posed { mut problem, counted } = pose::pose(snapshot, &intake, traffic, profile);
        if problem.usable().next().is_none() {
            return Err("no CPU is usable".into());
        }
        let (names, peers): (Vec<_>, Vec<_>) = candidates::peers(snapshot)
            .into_iter()
            .map(|peer| (peer.name.clone(), cost::place(&problem, &peer)))
            .unzip();
        if !known(&problem, &peers)? {
            return Err("it is not known which CPUs the packets come in on".into());
        }
        let carried = search::is_carried(&problem)?;
        if carried {
            // What can bring nothing is not asked for.
            let steered = problem.queues.iter_mut().filter(|q| q.unsteered.is_none());
            steered.for_each(|queue| queue.unsteered = Some(Unsteered::Links));
        }
        Ok(Self { snapshot, intake, problem, counted, carried, names, peers })
    }
}

/// Plans for a router. The plan is in force in the mind, the rules of others are followed anew, and
/// it is planned for again, until that proposes nothing: so planning on a planned machine changes
/// nothing.
///
/// # Errors
/// An error with the reason if there is nothing to plan.
pub fn planned(
    snapshot: &Snapshot,
    traffic: &Traffic,
    profile: Profile,
) -> Result<Planned, String> {
    let mended = flow::mended(snapshot);
    let snapshot = mended.as_ref().map_or(snapshot, |(_, then)| then);
    let ground = Ground::of(snapshot, traffic, profile)?;
    let Ground { problem, peers, carried, .. } = &ground;
    let (mut found, mut judged) = search::search(problem, peers, *carried)?;
    let mut searches = 1;
    for _ in 0..ROUNDS {
        if found == problem.today() {
            break;
        }
        let solution = search::weigh(problem, &[], *carried, (&found, 0))?;
        let settings = Writer::new(&ground, &solution, false)?.settings(profile)?;
        let then = in_force(snapshot, &Candidate { settings, ..Candidate::default() });
        let again = Ground::of(&then, traffic, profile)?;
        let (next, more) = search::search(&again.problem, &again.peers, again.carried)?;
        judged += more;
        searches += 1;
        if again.carried || next == found {
            break;
        }
        found = next;
    }
    let solution = search::weigh(problem, peers, *carried, (&found, judged))?;
    let writer = Writer::new(&ground, &solution, true)?;
    let mut settings = writer.settings(profile)?;
    settings.extend(mended.as_ref().map(|(change, _)| change.clone()));
    owned::take_over(snapshot, &mut settings);
    let model = writer.model(traffic, profile)?;
    let candidate = Candidate {
        name: name::PLANNED.into(),
        title: "the least regret in all worlds of the cost model".into(),
        reason: writer.reason(&model)?,
        settings,
    };
    let not_made = not_made::list(snapshot, &ground.intake, problem, &candidate, profile);
    let explained = FIGURES - writer.figures.get();
    Ok(Planned { candidate, not_made, model, carried: *carried, searches, explained })
}

/// True if any packet's CPU is known, or can be set.
fn known(problem: &Problem, peers: &[Placement]) -> Result<bool, Bug> {
    for stream in &problem.streams {
        let queue = problem.queues.at(stream.queue)?;
        if queue.line.is_some() {
            return Ok(true);
        }
        for peer in peers {
            if !peer.masks.at(stream.queue)?.is_empty() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

struct Writer<'a> {
    ground: &'a Ground<'a>,
    solution: &'a Solution,
    judge: Judge<'a>,
    /// Reasons are wanted, which cost a judgement each.
    told: bool,
    /// Largest load of the plan.
    largest: Option<f64>,
    /// Reasons that may still have a figure.
    figures: Cell<usize>,
}

impl<'a> Writer<'a> {
    fn new(ground: &'a Ground<'a>, solution: &'a Solution, told: bool) -> Result<Self, Bug> {
        let judge = Judge::new(&ground.problem)?;
        let own = cost::prediction(&judge, &solution.best, None)?;
        let (largest, figures) = (own.map(|p| p.largest), Cell::new(FIGURES));
        Ok(Self { ground, solution, judge, told, largest, figures })
    }

    /// Settings that make the placement.
    fn settings(&self, profile: Profile) -> Result<Vec<Change>, Bug> {
        let Ground { snapshot, intake, .. } = self.ground;
        let mut settings = self.lines()?;
        settings.extend(self.masks()?);
        settings.extend(self.uppers()?);
        if profile == Profile::Endpoint {
            let more = xps::masks(snapshot, intake, &settings);
            settings.extend(more);
        }
        settings.extend(not_made::profile_settings(snapshot, intake, profile));
        Ok(settings)
    }

    fn placement(&self) -> &Placement {
        &self.solution.best.placement
    }

    fn id(&self, place: PlaceIx) -> Result<CpuId, Bug> {
        Ok(self.ground.problem.places.at(place)?.id)
    }

    fn predicted(&self, judged: &Judged) -> Result<Option<Prediction>, Bug> {
        cost::prediction(&self.judge, judged, None)
    }

    /// Part of the plan's rate that is left when one thing is placed differently; 1 where it is not
    /// worked out.
    fn otherwise(&self, change: impl FnOnce(&mut Placement)) -> Result<f64, Bug> {
        let Some(left) = self.figures.get().checked_sub(1) else { return Ok(1.0) };
        self.figures.set(left);
        let mut other = self.placement().clone();
        change(&mut other);
        let theirs = self.predicted(&self.judge.judge(&other)?)?;
        Ok(match (self.largest, theirs) {
            (Some(own), Some(theirs)) => own / theirs.largest,
            _ => 1.0,
        })
    }

    fn lines(&self) -> Result<Vec<Change>, Bug> {
        let stays = *self.placement() == self.ground.problem.today();
        let mut all = Vec::new();
        for (index, line) in self.ground.problem.lines.each() {
            let place = *self.placement().lines.at(index)?;
            let (Some(before), Some(place), Some(knob)) = (&line.before, place, &line.knob) else {
                continue;
            };
            if line.fixed {
                continue;
            }
            let reason = self.why_there(index, place)?;
            // Where nothing moves there is no need to pin what stays, nor what has no work.
            let idle = line.home == Some(place) && !self.ground.problem.works(index)?;
            let after =
                if stays || idle { before.clone() } else { CpuSet::single(self.id(place)?) };
            all.push(Change {
                knob: knob.clone(),
                before: Value::Cpus(before.clone()),
                after: Value::Cpus(after),
                reason,
            });
        }
        Ok(all)
    }

    fn why_there(&self, index: LineIx, place: PlaceIx) -> Result<String, Bug> {
        if !self.told {
            return Ok(String::new());
        }
        let line = self.ground.problem.lines.at(index)?;
        let cpu = self.id(place)?;
        let capacity = self.ground.snapshot.cpus.iter().find(|c| c.id == cpu);
        let size = match capacity {
            Some(c) if self.uneven() => format!(" (capacity {} of 1024)", c.capacity.value),
            _ => String::new(),
        };
        let reason = match line.home {
            Some(home) if home != place => {
                let left = self.otherwise(|p| {
                    if let Ok(at) = p.lines.at_mut(index) {
                        *at = Some(home);
                    }
                })?;
                let there = self.id(home)?;
                if left < 0.99 {
                    format!(
                        "to {cpu}{size}; left on {there}, the router would let through {} of it",
                        part(left)
                    )
                } else {
                    format!("to {cpu}{size}: {there} is relieved")
                }
            }
            Some(_) => format!("held on {cpu}{size}, where it is"),
            None => format!("to {cpu}{size}"),
        };
        let reason = if self.is_beside_its_receive_line(index, place)? {
            format!(
                "{reason}; it has room beside the receive line, whose stack stage goes elsewhere"
            )
        } else {
            reason
        };
        Ok(if line.thread {
            format!("polls in this thread, not in the interrupt: {reason}")
        } else {
            reason
        })
    }

    /// True of a line that only completes, on the CPU of a line that receives for the same card and
    /// hands the stack stage over.
    fn is_beside_its_receive_line(&self, index: LineIx, place: PlaceIx) -> Result<bool, Bug> {
        let device = &self.ground.problem.lines.at(index)?.device;
        if self.ground.problem.queues_of(index).next().is_some() {
            return Ok(false);
        }
        for (number, queue) in
            self.ground.problem.queues.each().filter(|(_, q)| q.device == *device)
        {
            let mask = self.placement().masks.at(number)?;
            let at = queue.line.map(|l| self.placement().lines.at(l)).transpose()?.copied();
            if at.flatten() == Some(place) && !mask.is_empty() && !mask.contains(&place) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn uneven(&self) -> bool {
        let mut sizes =
            self.ground.snapshot.cpus.iter().filter(|c| c.online).map(|c| c.capacity.value);
        let first = sizes.next();
        sizes.any(|s| Some(s) != first)
    }

    fn masks(&self) -> Result<Vec<Change>, Bug> {
        let mut all = Vec::new();
        for (index, queue) in self.ground.problem.queues.each() {
            let unknown = queue.unsteered.as_ref().is_some_and(|why| why.is_unknown());
            if !queue.has_mask || unknown {
                continue;
            }
            let mask = self.placement().masks.at(index)?;
            let source = self.ground.snapshot.netdev(&queue.device);
            let rx = source.and_then(|d| d.rx_queues.iter().find(|q| q.index == queue.index));
            let Some(before) = rx.and_then(|q| q.rps.clone()) else { continue };
            let set = self.ground.problem.set(mask)?;
            // A mask may name CPUs that are not here; as long as it means the same it stays.
            let after = if *mask == queue.before { before.clone() } else { set };
            all.push(Change {
                knob: Knob::RpsCpus { device: queue.device.clone(), queue: queue.index },
                before: Value::Cpus(before),
                after: Value::Cpus(after),
                reason: self.why_mask(index)?,
            });
        }
        Ok(all)
    }

    fn why_mask(&self, index: QueueIx) -> Result<String, Bug> {
        if !self.told {
            return Ok(String::new());
        }
        let queue = self.ground.problem.queues.at(index)?;
        let mask = self.placement().masks.at(index)?;
        let at = queue.line.map(|l| self.placement().lines.at(l)).transpose()?.copied().flatten();
        let at = at.map(|at| self.id(at)).transpose()?;
        let line = queue.line.map(|l| self.ground.problem.lines.at(l)).transpose()?;
        let thread = line.is_some_and(|line| line.thread);
        if let Some(why) = queue.unsteered.as_ref().filter(|_| mask.is_empty()) {
            return Ok(format!("off: {why}"));
        }
        Ok(match (at, mask.as_slice()) {
            (Some(cpu), []) => {
                let with = if thread { "thread that polls" } else { "interrupt" };
                format!("off: the stack stage stays on {cpu} with the {with}")
            }
            (None, []) => "off".into(),
            (None, _) if thread => {
                "the scheduler moves the thread that polls: the stack stage goes to all CPUs".into()
            }
            (None, _) => {
                "there is no interrupt here: the mask says where the packets are handled".into()
            }
            (Some(cpu), _) => {
                let without = self.otherwise(|p| {
                    if let Ok(mask) = p.masks.at_mut(index) {
                        mask.clear();
                    }
                })?;
                let takes = if thread { "polls" } else { "takes the interrupt" };
                if without < 0.99 {
                    format!(
                        "{cpu} {takes}; with the stack stage there too the router would let through \
                         {} of it",
                        part(without)
                    )
                } else {
                    format!("{cpu} {takes}; the stack stage goes elsewhere")
                }
            }
        })
    }

    /// Masks of devices above: a second hand-off.
    fn uppers(&self) -> Result<Vec<Change>, Bug> {
        let mut all = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        for (index, upper) in self.ground.problem.uppers.each() {
            told.push(&upper.device);
            let mask = self.placement().uppers.at(index)?;
            let device = self.ground.snapshot.netdev(&upper.device);
            let rx = device.and_then(|d| d.rx_queues.iter().find(|q| q.index == upper.queue));
            let Some(before) = rx.and_then(|q| q.rps.clone()) else { continue };
            if before.is_empty() && mask.is_empty() {
                continue;
            }
            let after = if *mask == upper.before {
                before.clone()
            } else {
                self.ground.problem.set(mask)?
            };
            let reason = if after.is_empty() {
                "off: its packets are placed at the device below, whose hash looks inside VLAN, \
                 PPPoE and switch tags already; a second hand-off only costs"
            } else {
                "steers what comes up here"
            };
            all.push(Change {
                knob: Knob::RpsCpus { device: upper.device.clone(), queue: upper.queue },
                before: Value::Cpus(before),
                after: Value::Cpus(after),
                reason: reason.into(),
            });
        }
        // What stands on a device whose traffic nobody counted.
        let steered = self.placement().masks.iter().any(|mask| !mask.is_empty());
        for queue in self.ground.problem.queues.iter().filter(|_| steered) {
            for name in above(self.ground.snapshot, &queue.device).names {
                let Some(device) =
                    self.ground.snapshot.netdev(name).filter(|d| !told.contains(&&*d.name))
                else {
                    continue;
                };
                told.push(&device.name);
                for rx in &device.rx_queues {
                    let Some(before) = rx.rps.clone().filter(|set| !set.is_empty()) else {
                        continue;
                    };
                    all.push(Change {
                        knob: Knob::RpsCpus { device: device.name.clone(), queue: rx.index },
                        before: Value::Cpus(before),
                        after: Value::Cpus(CpuSet::empty()),
                        reason: format!(
                            "off: its packets are placed at {}; a second hand-off only costs",
                            queue.device
                        ),
                    });
                }
            }
        }
        Ok(all)
    }

    fn reason(&self, model: &Model) -> Result<String, Bug> {
        let mut text = if self.ground.counted {
            "who the traffic is of was counted".to_owned()
        } else {
            "who the traffic is of was not counted, or too little: each port of a side is taken for \
             as busy as the others"
                .to_owned()
        };
        text += &format!(
            "; judged in {} worlds of costs and {} of traffic ({})",
            self.judge.worlds.len(),
            self.ground.problem.patterns.len(),
            self.ground
                .problem
                .patterns
                .iter()
                .map(|p| p.words.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        );
        for root in self.ground.problem.roots.iter() {
            text += &format!(
                "; {} on {} runs under one lock, on one CPU at a time",
                root.kind, root.device
            );
        }
        if self.ground.carried {
            return Ok(text + "; the links are full before any CPU in all of them");
        }
        for above in &self.solution.above {
            let Some(peer) = self.ground.names.get(above.number) else { continue };
            let more = |below: f64| 100.0 * below.max(0.0) / (1.0 - below.min(0.99));
            let middle = match more(above.middle) {
                little if little < 0.5 => String::new(),
                much => format!("{much:.0} % more in the middle world and "),
            };
            let more = format!(
                "{peer} lets through up to {middle}{:.0} % more in one of the worlds",
                more(above.any)
            );
            text += &match (&above.barred, above.trades) {
                (Some(why), _) => format!("; {more}, and is left: {why}"),
                (None, true) => format!("; {more}, and less elsewhere"),
                (None, false) => format!("; {more}, for more to set"),
            };
        }
        text += &gap(model.largest, model.bound);
        Ok(text)
    }

    fn model(&self, traffic: &Traffic, profile: Profile) -> Result<Model, Bug> {
        let intake = &self.ground.intake;
        let best = &self.solution.best;
        let with = |flows: u32| -> Result<f64, Bug> {
            let traffic = Traffic { flows: Some(flows), ..traffic.clone() };
            let problem = pose::pose(self.ground.snapshot, intake, &traffic, profile).problem;
            let judge = Judge::new(&problem)?;
            let judged = judge.judge(&best.placement)?;
            let told = cost::prediction(&judge, &judged, None)?;
            Ok(rounded(told.map_or(0.0, |p| p.largest)))
        };
        let told = self.predicted(best)?;
        let largest = told.as_ref().map_or(0.0, |p| p.largest);
        let bound = self.bound(largest)?;
        Ok(Model {
            profile: profile.name().into(),
            flows: self.ground.problem.flows.to_string(),
            largest: rounded(largest),
            on: told.map_or(CpuId(0), |p| p.bottleneck),
            bound: rounded(bound),
            complete: bound > 0.0 && bound >= largest * 0.999,
            nodes: self.solution.judged,
            one_flow: with(1)?,
            sixteen_flows: with(16)?,
            many_flows: with(0)?,
        })
    }

    /// No placement has a smaller largest load in the middle world: all work evenly on all usable
    /// CPUs, or what can't leave its CPU, or the stages of one line on the biggest CPU. A stack stage
    /// that leaves costs a hand-off. 0 if nothing is known of a pattern's work.
    fn bound(&self, largest: f64) -> Result<f64, Bug> {
        let problem = &self.ground.problem;
        let mut still = problem.today();
        for (queue, mask) in problem.queues.iter().zip(still.masks.iter_mut()) {
            mask.clear();
            // Without a line the mask alone says where the work is.
            if queue.line.is_none() && queue.has_mask {
                mask.extend(problem.usable().next());
            }
        }
        still.uppers.iter_mut().for_each(Vec::clear);
        let tally: Tally = problem.tally(&still)?;
        let mut logs = 0.0;
        for pattern in &problem.patterns {
            let mut all = 0.0;
            for (way, part) in &pattern.ways {
                for work in tally.work.at(*way)?.iter() {
                    let own = work.rest + work.interrupt + work.data_interrupt + work.data_stack;
                    all += part * (own + work.handed + work.data_take);
                }
            }
            let (mut lines, mut stuck) = (Vec::new(), vec![0.0; problem.places.len()]);
            for (index, line) in problem.lines.each() {
                let mut own = 0.0;
                for (way, part) in &pattern.ways {
                    own += part * line.completion.at(*way)?;
                    for stream in &problem.streams {
                        let queue = problem.queues.at(stream.queue)?;
                        if queue.line != Some(index) {
                            continue;
                        }
                        let stays = queue.before.is_empty()
                            && (queue.unsteered.is_some() || !queue.has_mask);
                        let stack = stream.first + stream.stack;
                        let stack = if stays { stack } else { stack.min(problem.hand_off.give) };
                        let rate = stream.rate.at(*way)?;
                        own += part * (rate.data + rate.acks) * (stream.interrupt + stack);
                    }
                }
                match line.home.filter(|_| line.fixed).and_then(|at| stuck.get_mut(at.number())) {
                    Some(sum) => *sum += own,
                    None => lines.push(own),
                }
            }
            let (mut capacity, mut biggest, mut least) = (0.0, 0.0_f64, 0.0_f64);
            for (place, stuck) in problem.places.iter().zip(&stuck) {
                if !place.usable && *stuck == 0.0 {
                    continue;
                }
                least = least.max(stuck / place.capacity);
                let mut siblings = place.siblings.iter().filter_map(|s| problem.places.at(*s).ok());
                let shared = siblings.any(|sibling| sibling.usable);
                capacity += place.capacity * if shared { problem.smt.mid.max(0.5) } else { 1.0 };
                biggest = biggest.max(place.capacity);
            }
            least = least.max(all / capacity.max(1e-9));
            least = lines.iter().fold(least, |most, own| most.max(own / biggest.max(1e-9)));
            if least <= 0.0 {
                return Ok(0.0);
            }
            logs += libm::log(least);
        }
        let bound = libm::exp(logs / problem.patterns.len().max(1) as f64);
        Ok(bound.min(largest).min(self.solution.least))
    }
}

/// Words for how far a plan may be from the bound.
pub(super) fn gap(largest: f64, bound: f64) -> String {
    let gap = largest / bound - 1.0;
    if bound <= 0.0 {
        "; how much better another placement could be is not known, for nobody knows where all of \
         that traffic is handled"
            .into()
    } else if gap < 0.005 {
        "; over all of that traffic no placement does better in the middle world".into()
    } else {
        let percent = 100.0 * gap;
        format!("; over all of that traffic no placement can be more than {percent:.0} % better")
    }
}

/// A part in words: 0.62 of it.
fn part(of: f64) -> String {
    format!("{of:.2}")
}

/// A thousandth says more than the model knows.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
