//! Predictions of the cost model: the rate that a candidate's bottleneck lets through, in the
//! middle world and around it. They order candidates before anything was measured; with costs that
//! were fitted on the machine the model also predicts a rate. Only a measurement is a claim.

use std::collections::BTreeMap;

use serde::Serialize;

use super::in_force::in_force;
use super::index::Bug;
use super::intake::Intake;
use super::judge::{Judge, Judged};
use super::pose;
use super::problem::{Placement, Problem};
use super::profile::Profile;
use super::traffic::Traffic;
use super::worlds::{Bottleneck, links};
use super::{cores, gro};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::measurement::Direction;
use crate::model::order::OneByOne;
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::Snapshot;
use crate::model::units::CpuId;

/// A figure in the middle world, and the least and the most in any.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The least in any world.
    pub low: f64,
    /// The figure in the middle world.
    pub mid: f64,
    /// The most in any world.
    pub high: f64,
}

impl Range {
    /// Makes a range of figures by world, the first of them the middle world's.
    fn of(figures: &[f64]) -> Option<Self> {
        let mid = *figures.first()?;
        let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let high = figures.iter().copied().fold(0.0, f64::max);
        Some(Self { low, mid, high })
    }
}

/// The most that a shaper lets through: one CPU at a time is under its lock, however many there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceiling {
    /// The device that is shaped.
    pub device: String,
    /// The queueing discipline.
    pub kind: String,
    /// Rate at which its lock is never free, as those of the candidate.
    pub rate: f64,
    /// The same in packets per second: where the unit of work takes as long as it can, and as it
    /// usually does; `None` where nobody knows.
    pub packets: Option<(f64, f64)>,
}

impl Ceiling {
    /// Words for it, with full frames: `cake on eth1 lets through 0.9 to 3.6 Gbit/s of full frames`.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let (low, high) = self.packets?;
        let rate = |packets: f64| packets * 8.0 * 1514.0 / 1e9;
        let (low, high) = (format!("{:.1}", rate(low)), format!("{:.1}", rate(high)));
        let range = if low == high { low } else { format!("{low} to {high}") };
        Some(format!("{} on {} lets through {range} Gbit/s of full frames", self.kind, self.device))
    }
}

/// A prediction of the model for one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Load of the busiest CPU relative to its capacity, in the geometric mean over the patterns of
    /// traffic in the middle world; smaller is better. 1.0 is the NATed stack stage of every packet
    /// of one direction on a CPU of full capacity.
    pub largest: f64,
    /// The CPU that is full first.
    pub bottleneck: CpuId,
    /// The shaper whose lock is full before any CPU, where that is so.
    pub shaper: Option<String>,
    /// Packets handed from one CPU to another, of those of one direction.
    pub handovers: f64,
    /// Load of the busiest CPU in each pattern whose direction is known.
    pub loads: BTreeMap<Direction, f64>,
    /// Rate that the bottleneck lets through in each direction, in NATed stack stages of a CPU of
    /// capacity 1024 for each unit of time; of both directions their sum. Links are not counted.
    pub rates: BTreeMap<Direction, Range>,
    /// Rate that bottleneck and links let through, where it is known how much the links carry.
    pub capped: BTreeMap<Direction, Range>,
    /// True if the links fill before any CPU in all worlds.
    pub carried: bool,
    /// The ceilings of the shapers.
    pub shapers: Vec<Ceiling>,
    /// Rates by world, without the links: for ratios world by world.
    worlds: BTreeMap<Direction, Vec<f64>>,
    /// Rates at which the links are full where the unit takes as long as usual, and at most.
    links: BTreeMap<Direction, (f64, f64)>,
    /// Costs that were fitted: time that 1.0 takes, and how well they predict.
    fitted: Option<Fitted>,
}

/// Time that 1.0 takes, ns, and half of the 95 % interval of what follows from it, in logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fitted {
    unit_ns: f64,
    error: Option<f64>,
}

impl Fitted {
    /// Takes them from costs; `None` of the default ones.
    pub(super) fn of(costs: &super::Costs) -> Option<Self> {
        Some(Self { unit_ns: costs.unit_ns?, error: costs.error })
    }
}

impl Prediction {
    /// Packets of data per second each way at which the busiest CPU is full in that pattern; `None`
    /// without costs that were fitted.
    #[must_use]
    pub fn packets(&self, direction: Direction) -> Option<f64> {
        let load = self.loads.get(&direction).filter(|load| **load > 0.0)?;
        Some(1e9 / (self.fitted?.unit_ns * load))
    }

    /// [`Prediction::packets`] with the 95 % interval that the fitted costs earned; `None` where nobody
    /// knows it.
    #[must_use]
    pub fn packets_within(&self, direction: Direction) -> Option<Range> {
        let (mid, error) = (self.packets(direction)?, self.fitted?.error?);
        Some(Range { low: mid * libm::exp(-error), mid, high: mid * libm::exp(error) })
    }

    /// Payload at that rate, bit/s, with so many bytes in a packet; of both directions at once
    /// their sum.
    #[must_use]
    pub fn rate(&self, payload: u32, direction: Direction) -> Option<f64> {
        let ways = if direction == Direction::Both { 2.0 } else { 1.0 };
        Some(ways * self.packets(direction)? * 8.0 * f64::from(payload))
    }

    /// Name of what is full first.
    #[must_use]
    pub fn full_first(&self) -> String {
        match &self.shaper {
            Some(shaper) => format!("the shaper on {shaper}"),
            None => self.bottleneck.to_string(),
        }
    }

    /// Multiple of another state's rate, world by world, whatever the links carry.
    #[must_use]
    pub fn ratio(&self, other: &Self, direction: Direction) -> Option<Range> {
        let (own, theirs) = (self.worlds.get(&direction)?, other.worlds.get(&direction)?);
        let pairs = own.iter().zip(theirs).filter(|(_, theirs)| **theirs > 0.0);
        Range::of(&pairs.map(|(own, theirs)| own / theirs).collect::<Vec<f64>>())
    }

    /// Multiple of another state's rate, world by world: with links that fill as they usually do in
    /// the middle, and as early and as late as they can at the ends.
    #[must_use]
    pub fn times(&self, other: &Self, direction: Direction) -> Option<Range> {
        let (own, theirs) = (self.worlds.get(&direction)?, other.worlds.get(&direction)?);
        let unknown = (f64::INFINITY, f64::INFINITY);
        let (usual, most) = self.links.get(&direction).copied().unwrap_or(unknown);
        let ratios = |link: f64| -> Vec<f64> {
            let pairs = own.iter().zip(theirs).filter(|(_, theirs)| **theirs > 0.0);
            pairs.map(|(own, theirs)| own.min(link) / theirs.min(link)).collect()
        };
        let (usually, late) = (Range::of(&ratios(usual))?, Range::of(&ratios(most))?);
        let early = Range::of(&ratios(most * cores::USUAL * cores::USUAL))?;
        let low = early.low.min(usually.low).min(late.low);
        let high = early.high.max(usually.high).max(late.high);
        Some(Range { low, mid: usually.mid, high })
    }
}

/// A router in the cost model: many candidates are judged by it.
#[derive(Debug)]
pub struct Model<'a> {
    snapshot: &'a Snapshot,
    traffic: Traffic,
    profile: Profile,
    problem: Problem,
    opaque: bool,
}

impl<'a> Model<'a> {
    /// The model of a router for that traffic and profile.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, traffic: &Traffic, profile: Profile) -> Self {
        let intake = Intake::of(snapshot);
        let problem = pose::pose(snapshot, &intake, traffic, profile).problem;
        let opaque = problem.queues.is_empty();
        Self { snapshot, traffic: traffic.clone(), profile, problem, opaque }
    }

    /// Judges a candidate. `None` where packets are handled on the CPU of whoever sends them (veth
    /// without RPS): the model knows nothing of the senders. `None` too where they are put together,
    /// which depends on the traffic.
    ///
    /// # Errors
    /// A bug of the planner.
    pub fn predict(&self, candidate: &Candidate) -> Result<Option<Prediction>, Bug> {
        if self.opaque || gro::is_asked(candidate) {
            return Ok(None);
        }
        // What changes the stages themselves, not only their places.
        let ends_here = self.profile == Profile::Endpoint;
        let rebuilds = |change: &&Change| match change.knob {
            Knob::Channels { .. } | Knob::FlowOffload => true,
            Knob::XpsCpus { .. } => ends_here,
            _ => false,
        };
        if candidate.changes().any(|change| rebuilds(&change)) {
            let part = |settings: Vec<Change>| Candidate { settings, ..Candidate::default() };
            let (first, rest): (Vec<_>, Vec<_>) =
                candidate.settings.iter().cloned().partition(|change| rebuilds(&change));
            let rebuilt = in_force(self.snapshot, &part(first));
            return Model::new(&rebuilt, &self.traffic, self.profile).predict(&part(rest));
        }
        let placement = place(&self.problem, candidate);
        if self.problem.is_of_senders(&placement)? {
            return Ok(None);
        }
        let judge = Judge::new(&self.problem)?;
        let judged = judge.judge(&placement)?;
        prediction(&judge, &judged, Fitted::of(&self.traffic.costs))
    }
}

/// Prediction for a judged placement; `None` where no packet has any work.
pub(super) fn prediction(
    judge: &Judge<'_>,
    judged: &Judged,
    fitted: Option<Fitted>,
) -> Result<Option<Prediction>, Bug> {
    let problem = judge.problem;
    let rates = &judged.rates;
    let Some(middle) = rates.rates.first() else { return Ok(None) };
    if middle.is_empty() || middle.contains(&0.0) {
        return Ok(None);
    }
    let parts: Vec<f64> =
        problem.patterns.iter().map(|p| p.ways.iter().map(|(_, part)| part).sum()).collect();
    let loads: Vec<f64> = middle.iter().zip(&parts).map(|(rate, parts)| parts / rate).collect();
    let largest = mean(&loads);
    let mut first: Option<(f64, Bottleneck)> = None;
    for (load, at) in loads.iter().zip(&rates.bottlenecks) {
        if let Some(at) = at
            && first.is_none_or(|(most, _)| *load > most * (1.0 + 1e-9))
        {
            first = Some((*load, *at));
        }
    }
    let (bottleneck, shaper) = match first.map(|(_, at)| at) {
        Some(Bottleneck::Place(place)) => (problem.places.at(place)?.id, None),
        Some(Bottleneck::Shaper(root)) => {
            let cpu = problem.housekeeping.map(|at| problem.places.at(at)).transpose()?;
            let device = problem.roots.at(root)?.device.clone();
            (cpu.map_or(CpuId(0), |p| p.id), Some(device))
        }
        None => return Ok(None),
    };
    let mut of: BTreeMap<Direction, Vec<usize>> = BTreeMap::new();
    for (number, pattern) in problem.patterns.iter().enumerate() {
        if let Some(slot) = pattern.slot {
            of.entry(slot).or_default().push(number);
        }
    }
    let figures = |patterns: &[usize], capped: bool| -> Vec<f64> {
        let row = |row: &Vec<f64>| {
            let own = row.iter().enumerate().filter(|(p, _)| patterns.contains(p));
            let own: Vec<f64> =
                own.map(|(p, rate)| if capped { rate.min(judge.link(p)) } else { *rate }).collect();
            mean(&own)
        };
        rates.rates.iter().map(row).collect()
    };
    let usual = links(problem, problem.unit.map(|unit| unit.usual))?;
    let most = links(problem, problem.unit.map(|unit| unit.most))?;
    let full = |patterns: &[usize], links: &[Option<f64>]| {
        let own = links.iter().enumerate().filter(|(p, _)| patterns.contains(p));
        let own: Option<Vec<f64>> = own.map(|(_, link)| *link).collect();
        own.map(|own| mean(&own))
    };
    let known = |patterns: &[usize]| patterns.iter().all(|p| judge.link(*p).is_finite());
    let ranges = |capped: bool| -> BTreeMap<Direction, Range> {
        let all = of.iter().filter(|(_, patterns)| !capped || known(patterns));
        all.filter_map(|(slot, p)| Some((*slot, Range::of(&figures(p, capped))?))).one_by_one()
    };
    let mut known_loads: BTreeMap<Direction, Vec<f64>> = BTreeMap::new();
    for (pattern, load) in problem.patterns.iter().zip(&loads) {
        if let Some(direction) = pattern.direction {
            known_loads.entry(direction).or_default().push(*load);
        }
    }
    Ok(Some(Prediction {
        largest,
        bottleneck,
        shaper,
        handovers: judged.hand_offs,
        loads: known_loads.into_iter().map(|(d, loads)| (d, mean(&loads))).one_by_one(),
        rates: ranges(false),
        capped: ranges(true),
        carried: judge.is_carried(rates),
        shapers: ceilings(problem, &judged.placement)?,
        worlds: of.iter().map(|(slot, p)| (*slot, figures(p, false))).one_by_one(),
        links: of
            .iter()
            .filter_map(|(slot, p)| Some((*slot, (full(p, &usual)?, full(p, &most)?))))
            .one_by_one(),
        fitted,
    }))
}

/// The ceilings of the shapers with that placement.
fn ceilings(problem: &Problem, placement: &Placement) -> Result<Vec<Ceiling>, Bug> {
    if problem.roots.is_empty() {
        return Ok(Vec::new());
    }
    let tally = problem.tally(placement)?;
    let mut all = Vec::new();
    for (index, root) in problem.roots.each() {
        let mut held = 0.0_f64;
        for way in problem.ways.ids() {
            held = held.max(*tally.locks.at(way)?.at(index)?);
        }
        if held > 0.0 {
            let packets = problem.unit.map(|u| (1e9 / (u.most * held), 1e9 / (u.usual * held)));
            let (device, kind) = (root.device.clone(), root.kind.clone());
            all.push(Ceiling { device, kind, rate: 1.0 / held, packets });
        }
    }
    Ok(all)
}

/// Geometric mean.
fn mean(figures: &[f64]) -> f64 {
    let logs: f64 = figures.iter().map(|f| libm::log(f.max(1e-12))).sum();
    libm::exp(logs / figures.len().max(1) as f64)
}

/// Placement of lines and stack stages that a candidate makes.
pub(super) fn place(problem: &Problem, candidate: &Candidate) -> Placement {
    let wanted: BTreeMap<&Knob, &Value> =
        candidate.settings.iter().map(|c| (&c.knob, &c.after)).one_by_one();
    let cpus = |knob: &Knob| match wanted.get(knob) {
        Some(Value::Cpus(set)) => Some(set),
        _ => None,
    };
    let at = |cpu: CpuId| problem.places.find(|p| p.id == cpu);
    let lines = problem.lines.iter().map(|line| {
        let set = line.knob.as_ref().and_then(cpus);
        // Within a mask of several the kernel picks one; where it may stay, it does.
        let home = line.home.and_then(|home| problem.places.at(home).ok());
        let stays = |set: &CpuSet| home.is_some_and(|place| set.contains(place.id));
        match set {
            // Threads that poll are not moved with the interrupt.
            Some(set) if !line.fixed && line.before.as_ref() != Some(set) && !stays(set) => {
                set.first().and_then(at)
            }
            _ => line.home,
        }
    });
    let mask = |device: &str, queue: u32, before: &Vec<_>| {
        let set = cpus(&Knob::RpsCpus { device: device.to_owned(), queue });
        set.map_or_else(|| before.clone(), |set| problem.mask(set))
    };
    Placement {
        lines: lines.collect(),
        masks: problem.queues.iter().map(|q| mask(&q.device, q.index, &q.before)).collect(),
        uppers: problem.uppers.iter().map(|u| mask(&u.device, u.queue, &u.before)).collect(),
    }
}

/// Predicts a candidate for a router of which nothing more is known.
///
/// # Errors
/// A bug of the planner.
pub fn predict(snapshot: &Snapshot, candidate: &Candidate) -> Result<Option<Prediction>, Bug> {
    Model::new(snapshot, &Traffic::default(), Profile::Router).predict(candidate)
}
