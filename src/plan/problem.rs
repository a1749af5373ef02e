//! The planner's question as numbers: CPUs, lines and queues, what each stage costs, and what a
//! placement of them comes to.
//!
//! ```text
//!   line on CPU a ── interrupt stage of its queues + completion ──▶ load of a
//!   queue, no RPS ── stack stage ─────────────────────────────────▶ load of a
//!   queue, mask m ── stack stage / spread + take ─────────────────▶ load of each CPU of m
//!                 └─ give ────────────────────────────────────────▶ load of a
//! ```
//!
//! All of it once for each pattern of traffic (both ways at once, one way alone): a placement that
//! is best for one may leave a CPU idle in another.
//!
//! Work is counted in whole millionths, so that adding and taking away come out the same in any
//! order, and one router gets one plan.

pub(crate) use super::amount::{
    Each, Micro, ONE, PATTERNS, Score, each, micro, most, plus, times, within,
};
use super::costs::Costs;
use super::patterns::Pattern;
use crate::model::cpuset::CpuSet;
use crate::model::knob::Knob;
use crate::model::snapshot::IrqId;
use crate::model::units::CpuId;

/// What a CPU can do, in hundredths, while its SMT sibling is busy too.
pub(crate) const SHARED_CORE: u64 = 62;
/// Less work than this leaves the sibling its core.
pub(crate) const BUSY: Micro = 50_000;
/// An interrupt on the housekeeping CPU is worse than packets handed over to it: those wait in a
/// backlog while something else runs, an interrupt's wait in the card, and its ring is short.
const INTERRUPTED: u64 = 4;
/// Largest loads this close together, in hundredths, count as equal.
pub(crate) const EQUAL: u64 = 101;

/// How many flows the traffic is made of: a hash spreads few of them badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flows {
    /// That many; one does not split at all.
    Count(u32),
    /// So many that every share is even.
    Many,
    /// That many, each of which takes what it gets, as TCP does: those on a CPU with few of them
    /// are the faster, and every CPU that has one is filled.
    Adapting(u32),
}

impl Flows {
    /// Largest share, of one, that one of `parts` gets: (1/k)(1 + sqrt((k-1)/f)), at most all. Of
    /// flows that adapt one in so many parts as are expected to have any: k (1 - (1 - 1/k)^f).
    #[must_use]
    pub fn largest_share(self, parts: usize) -> f64 {
        let k = parts.max(1) as f64;
        match self {
            Self::Many => 1.0 / k,
            Self::Count(0 | 1) | Self::Adapting(0) => 1.0,
            Self::Adapting(f) => {
                let missed = (1.0 - 1.0 / k).powi(i32::try_from(f).unwrap_or(i32::MAX));
                1.0 / (k * (1.0 - missed)).max(1.0)
            }
            Self::Count(f) => (1.0 / k * (1.0 + ((k - 1.0) / f64::from(f)).sqrt())).min(1.0),
        }
    }

    pub(crate) fn share(self, parts: usize) -> Micro {
        micro(self.largest_share(parts))
    }
}

impl std::fmt::Display for Flows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(1) | Self::Adapting(1) => f.write_str("one flow"),
            Self::Count(n) | Self::Adapting(n) => write!(f, "{n} flows"),
            Self::Many => f.write_str("many flows"),
        }
    }
}

/// A CPU that work is on or may be put on.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) id: CpuId,
    /// 1 to 1024 of the biggest CPU, times 1000, less what other work takes.
    pub(crate) capacity: u64,
    /// Whether the planner may put work on it: online, not isolated.
    pub(crate) usable: bool,
    /// Places of the same core, without itself.
    pub(crate) siblings: Vec<usize>,
    /// CPUs with the same number share a cluster and a last level cache.
    pub(crate) cluster: usize,
    pub(crate) node: Option<u32>,
    /// Work that is here whatever is placed.
    pub(crate) base: Each,
}

/// What brings packets to a CPU: an interrupt line, or the thread of a NAPI instance.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) irq: IrqId,
    /// Completion stage that runs with it.
    pub(crate) completion: Each,
    /// Where it is today, as an index of places.
    pub(crate) home: Option<usize>,
    /// Whether it has to stay there.
    pub(crate) fixed: bool,
    /// The one CPU that it is pinned to today.
    pub(crate) pinned: Option<usize>,
    /// Which of its device's threads polls for it, and the CPUs of that today, where NAPI runs in
    /// threads: then the thread is what is placed, and the interrupt only wakes it.
    pub(crate) thread: Option<(u32, CpuSet)>,
    pub(crate) node: Option<u32>,
}

impl Line {
    /// What places it.
    pub(crate) fn knob(&self) -> Knob {
        let device = || self.irq.device.clone();
        match &self.thread {
            Some((thread, _)) => Knob::NapiThread { device: device(), thread: *thread },
            None => Knob::IrqAffinity { irq: self.irq.clone() },
        }
    }
}

/// A receive queue.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) device: String,
    pub(crate) index: u32,
    /// Index of the line on which its packets arrive; `None` where the sender's CPU brings them.
    pub(crate) line: Option<usize>,
    /// Packets, of all that enter in one direction.
    pub(crate) packets: Each,
    pub(crate) interrupt: Each,
    pub(crate) stack: Each,
    /// Why RPS is not for it, where it is not.
    pub(crate) unsteered: Option<String>,
    /// Today's mask, as places; empty is off.
    pub(crate) before: Vec<usize>,
}

/// What handing a packet over by RPS costs (see [`super::costs::Costs`]).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handing {
    pub(crate) give: Micro,
    pub(crate) take: Micro,
    pub(crate) cross: Micro,
}

impl Handing {
    fn by_default() -> Self {
        let costs = Costs::DEFAULT;
        Self { give: micro(costs.give), take: micro(costs.take), cross: micro(costs.cross) }
    }
}

/// The question.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) places: Vec<Place>,
    pub(crate) lines: Vec<Line>,
    pub(crate) queues: Vec<Queue>,
    /// Index of the place where immovable lines and other programs run.
    pub(crate) housekeeping: usize,
    pub(crate) flows: Flows,
    /// Whether masks of several CPUs are wanted at all.
    pub(crate) wide: bool,
    pub(crate) handing: Handing,
    /// The patterns of traffic; the first is what hand-overs and the like are counted in.
    pub(crate) patterns: Vec<Pattern>,
    /// Whether lines that can be moved stay off the housekeeping CPU.
    pub(crate) apart: bool,
    /// Largest loads at which the links are full all the same; `None` where nobody knows.
    pub(crate) carried: Option<Each>,
    /// The queues of each line.
    of_line: Vec<Vec<usize>>,
    /// Capacity of the fastest CPU that work may be put on.
    fastest: u64,
}

/// An answer: a place for each line, a mask (ascending places, empty is off) for each queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) lines: Vec<Option<usize>>,
    pub(crate) masks: Vec<Vec<usize>>,
}

/// What counts after the largest load, in this order; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Minor {
    /// Packets handed from one CPU to another.
    pub(crate) handovers: Micro,
    /// Time that is lost on CPUs slower than the fastest, and to what packets lose that change cluster
    /// (in work on the fastest): a single flow, and what comes in bursts, waits for it.
    pub(crate) slow: Micro,
    /// Packets that change cluster, cache or memory node.
    pub(crate) crossings: Micro,
    /// Work on the housekeeping CPU, that of interrupts counted [`INTERRUPTED`] times.
    pub(crate) housekeeping: Micro,
    /// Settings to write.
    pub(crate) writes: u64,
}

/// The loads of a placement, added up step by step.
#[derive(Debug, Clone)]
pub(crate) struct Tally<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) load: Vec<Each>,
    /// Of all places: the search asks for it at every node.
    total: [u128; PATTERNS],
    pub(crate) minor: Minor,
    shares: Vec<Micro>,
}

/// What one step adds: work by place, and the minor things.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) work: Vec<(usize, Each)>,
    pub(crate) minor: Minor,
}

impl Queue {
    /// Whether it brings work that is known.
    pub(crate) fn works(&self) -> bool {
        self.stack != Each::default() || self.interrupt != Each::default()
    }
}

impl Problem {
    /// Puts the parts together.
    pub(crate) fn new(
        places: Vec<Place>,
        lines: Vec<Line>,
        queues: Vec<Queue>,
        housekeeping: usize,
        flows: Flows,
        wide: bool,
    ) -> Self {
        let mut of_line = vec![Vec::new(); lines.len()];
        for (index, queue) in queues.iter().enumerate() {
            if let Some(list) = queue.line.and_then(|l| of_line.get_mut(l)) {
                list.push(index);
            }
        }
        let usable = places.iter().filter(|place| place.usable);
        let fastest = usable.map(|place| place.capacity).max().unwrap_or(0);
        let handing = Handing::by_default();
        let patterns = vec![Pattern::default()];
        Self {
            places,
            lines,
            queues,
            housekeeping,
            flows,
            wide,
            handing,
            patterns,
            apart: false,
            carried: None,
            of_line,
            fastest,
        }
    }

    /// How good a placement with those largest loads is.
    pub(crate) fn score(&self, largest: &Each) -> Score {
        Score::of(largest, self.patterns.len())
    }

    /// How much longer than on the fastest CPU that work takes at a place.
    fn slower(&self, at: usize, work: Micro) -> Micro {
        let capacity = self.places.get(at).map_or(0, |place| place.capacity).max(1);
        let longer = self.fastest.saturating_sub(capacity);
        let lost = u128::from(work) * u128::from(longer) / u128::from(capacity);
        u64::try_from(lost).unwrap_or(u64::MAX >> 16)
    }

    /// Indices of the queues whose packets a line brings.
    pub(crate) fn queues_of(&self, line: usize) -> impl Iterator<Item = (usize, &Queue)> {
        let list = self.of_line.get(line).map_or(&[][..], |l| l.as_slice());
        list.iter().filter_map(|q| Some((*q, self.queues.get(*q)?)))
    }

    /// What comes with a line to the CPU that it is on.
    pub(crate) fn line_step(&self, line: usize, at: usize) -> Step {
        let Some(it) = self.lines.get(line) else { return Step::default() };
        let away = match (it.node, self.places.get(at).and_then(|p| p.node)) {
            (Some(own), Some(there)) => own != there,
            _ => false,
        };
        let mut work = it.completion;
        let mut minor = Minor::default();
        for (_, queue) in self.queues_of(line) {
            work = plus(&work, &queue.interrupt);
            if away {
                work = plus(&work, &queue.packets.map(|n| times(self.handing.cross, n)));
                minor.crossings += within(&queue.packets, 0);
            }
        }
        let first = within(&work, 0);
        minor.slow = self.slower(at, first) + times(self.handing.cross, minor.crossings);
        minor.writes = u64::from(!it.fixed && it.pinned != Some(at));
        if at == self.housekeeping {
            minor.housekeeping = first * INTERRUPTED;
        }
        Step { work: vec![(at, work)], minor }
    }

    /// The work of a queue's stack stage with that mask, its packets arriving at `at`.
    pub(crate) fn queue_step(
        &self,
        queue: usize,
        at: Option<usize>,
        mask: &[usize],
        shares: &[Micro],
    ) -> Step {
        let Some(it) = self.queues.get(queue) else { return Step::default() };
        let mut step = Step::default();
        step.minor.writes = u64::from(it.before != mask);
        let count = mask.len() as u64;
        if mask.is_empty() {
            step.work.extend(at.map(|place| (place, it.stack)));
            step.minor.slow = at.map_or(0, |place| self.slower(place, within(&it.stack, 0)));
        } else {
            let share = shares.get(mask.len()).copied().unwrap_or(ONE);
            let cluster = |place: usize| self.places.get(place).map(|p| p.cluster);
            let packets = within(&it.packets, 0);
            let (mut handed, mut crossed) = (0, 0);
            for &target in mask {
                let mut more = 0;
                if at.is_none_or(|from| from != target) {
                    more += self.handing.take;
                    handed += 1;
                }
                if at.is_some_and(|from| cluster(from) != cluster(target)) {
                    more += self.handing.cross;
                    crossed += 1;
                }
                let work = plus(&it.stack, &it.packets.map(|n| times(more, n)));
                step.work.push((target, work.map(|w| times(share, w))));
            }
            let give = |n: Micro| times(self.handing.give, n * handed / count);
            step.work.extend(at.map(|from| (from, it.packets.map(give))));
            step.minor.handovers = packets * handed / count;
            step.minor.crossings = packets * crossed / count;
            let stack = within(&it.stack, 0);
            let slower: Micro = mask.iter().map(|target| self.slower(*target, stack)).sum();
            step.minor.slow = slower / count + times(self.handing.cross, step.minor.crossings);
        }
        let here = step.work.iter().filter(|(place, _)| *place == self.housekeeping);
        step.minor.housekeeping = here.map(|(_, work)| within(work, 0)).sum();
        step
    }

    /// Whether some packets arrive nobody knows where: in a thread that is free to roam.
    pub(crate) fn is_adrift(&self, placement: &Placement) -> bool {
        let nowhere = |(line, at): (&Line, &Option<usize>)| line.thread.is_some() && at.is_none();
        self.lines.iter().zip(&placement.lines).any(nowhere)
    }

    /// Largest share by number of CPUs in a mask.
    pub(crate) fn shares(&self) -> Vec<Micro> {
        (0..=self.places.len()).map(|k| self.flows.share(k)).collect()
    }

    /// What a placement comes to.
    pub(crate) fn tally(&self, placement: &Placement) -> Tally<'_> {
        let mut tally = Tally::new(self);
        for (line, at) in placement.lines.iter().enumerate() {
            if let Some(at) = at {
                tally.add(&self.line_step(line, *at));
            }
        }
        for (queue, mask) in placement.masks.iter().enumerate() {
            let line = self.queues.get(queue).and_then(|q| q.line);
            let at = line.and_then(|l| placement.lines.get(l).copied().flatten());
            let step = self.queue_step(queue, at, mask, &tally.shares);
            tally.add(&step);
        }
        tally
    }
}

impl<'a> Tally<'a> {
    pub(crate) fn new(problem: &'a Problem) -> Self {
        Self {
            problem,
            load: problem.places.iter().map(|p| p.base).collect(),
            total: std::array::from_fn(|pattern| {
                problem.places.iter().map(|p| u128::from(within(&p.base, pattern))).sum()
            }),
            minor: Minor::default(),
            shares: problem.shares(),
        }
    }

    pub(crate) fn shares(&self) -> &[Micro] {
        &self.shares
    }

    pub(crate) fn total(&self, pattern: usize) -> u128 {
        self.total.get(pattern).copied().unwrap_or(0)
    }

    /// Adds to the load of a place, or takes away.
    fn change(&mut self, place: usize, work: &Each, by: fn(u64, u64) -> u64) {
        let Some(load) = self.load.get_mut(place) else { return };
        for ((load, work), total) in load.iter_mut().zip(work).zip(&mut self.total) {
            let before = *load;
            *load = by(before, *work);
            *total = *total + u128::from(*load) - u128::from(before);
        }
    }

    pub(crate) fn add(&mut self, step: &Step) {
        for (place, work) in &step.work {
            self.change(*place, work, u64::saturating_add);
        }
        let (m, s) = (&mut self.minor, &step.minor);
        m.handovers += s.handovers;
        m.slow += s.slow;
        m.crossings += s.crossings;
        m.housekeeping += s.housekeeping;
        m.writes += s.writes;
    }

    pub(crate) fn take(&mut self, step: &Step) {
        for (place, work) in &step.work {
            self.change(*place, work, u64::saturating_sub);
        }
        let (m, s) = (&mut self.minor, &step.minor);
        m.handovers -= s.handovers;
        m.slow -= s.slow;
        m.crossings -= s.crossings;
        m.housekeeping -= s.housekeeping;
        m.writes -= s.writes;
    }

    /// Load over capacity of one place, in millionths: never falls when work is added anywhere.
    pub(crate) fn relative(&self, place: usize) -> Each {
        let (Some(it), Some(load)) = (self.problem.places.get(place), self.load.get(place)) else {
            return Each::default();
        };
        let busy = |other: &usize, pattern: usize| {
            self.load.get(*other).is_some_and(|l| within(l, pattern) >= BUSY)
        };
        let patterns = self.problem.patterns.len();
        each(|pattern| {
            let load = within(load, pattern);
            if pattern >= patterns || load == 0 {
                return 0;
            }
            let shared = it.siblings.iter().any(|other| busy(other, pattern));
            let part = if shared { SHARED_CORE } else { 100 };
            // Loads and capacities that fit a router do so without the wider division.
            match load.checked_mul(1_024_000 * 100) {
                Some(whole) => whole / (it.capacity * part).max(1),
                None => u64::MAX,
            }
        })
    }

    /// The largest of the places that a step touched, siblings included.
    pub(crate) fn largest_of(&self, step: &Step) -> Each {
        let mut largest = Each::default();
        for (place, _) in &step.work {
            largest = most(&largest, &self.relative(*place));
            let siblings = self.problem.places.get(*place).map(|p| p.siblings.as_slice());
            for sibling in siblings.unwrap_or_default() {
                largest = most(&largest, &self.relative(*sibling));
            }
        }
        largest
    }

    /// The largest load over capacity in each pattern.
    pub(crate) fn largest(&self) -> Each {
        (0..self.load.len()).fold(Each::default(), |all, place| most(&all, &self.relative(place)))
    }

    /// How good it is.
    pub(crate) fn score(&self) -> Score {
        self.problem.score(&self.largest())
    }

    /// Geometric mean of the largest loads, in millionths.
    pub(crate) fn mean(&self) -> Micro {
        self.score().mean(self.problem.patterns.len())
    }

    /// The lowest place that is full first in a pattern.
    pub(crate) fn fullest(&self, pattern: usize) -> usize {
        let all = (0..self.load.len()).map(|at| (within(&self.relative(at), pattern), at));
        all.max_by_key(|(load, at)| (*load, std::cmp::Reverse(*at))).map_or(0, |(_, at)| at)
    }

    /// The lowest place that has most to do on the whole, each pattern at the rate at which its
    /// busiest is full.
    pub(crate) fn busiest(&self) -> usize {
        let largest = self.largest();
        let use_of = |at: usize| -> Micro {
            let own = self.relative(at);
            let parts = own.iter().zip(&largest).filter(|(_, most)| **most > 0);
            parts
                .map(|(own, most)| {
                    u64::try_from(u128::from(*own) * 1000 / u128::from(*most)).unwrap_or(0)
                })
                .sum()
        };
        let all = (0..self.load.len()).map(|at| (use_of(at), at));
        all.max_by_key(|(used, at)| (*used, std::cmp::Reverse(*at))).map_or(0, |(_, at)| at)
    }
}
