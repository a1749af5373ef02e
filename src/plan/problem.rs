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
//! Work is counted in whole millionths, so that adding and taking away come out the same in any
//! order, and one router gets one plan.

use super::costs::Costs;
use crate::model::cpuset::CpuSet;
use crate::model::knob::Knob;
use crate::model::snapshot::IrqId;
use crate::model::units::CpuId;

/// Millionths: of one NATed stack stage for work and loads, of one packet for amounts.
pub(crate) type Micro = u64;

/// One, in [`Micro`].
pub(crate) const ONE: Micro = 1_000_000;

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
}

impl Flows {
    /// Largest share, of one, that one of `parts` gets: (1/k)(1 + sqrt((k-1)/f)), at most all.
    #[must_use]
    pub fn largest_share(self, parts: usize) -> f64 {
        let k = parts.max(1) as f64;
        match self {
            Self::Many => 1.0 / k,
            Self::Count(0 | 1) => 1.0,
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
            Self::Count(1) => f.write_str("one flow"),
            Self::Count(n) => write!(f, "{n} flows"),
            Self::Many => f.write_str("many flows"),
        }
    }
}

/// A positive figure as [`Micro`].
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(crate) fn micro(value: f64) -> Micro {
    if value.is_nan() { 0 } else { (value * ONE as f64).round().clamp(0.0, 1e15) as Micro }
}

/// `a` times `b`, both in millionths.
pub(crate) fn times(a: Micro, b: Micro) -> Micro {
    let product = u128::from(a) * u128::from(b) / u128::from(ONE);
    u64::try_from(product).unwrap_or(u64::MAX)
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
    pub(crate) base: Micro,
}

/// What brings packets to a CPU: an interrupt line, or the thread of a NAPI instance.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) irq: IrqId,
    /// Completion stage that runs with it.
    pub(crate) completion: Micro,
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
    pub(crate) packets: Micro,
    pub(crate) interrupt: Micro,
    pub(crate) stack: Micro,
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
    pub(crate) load: Vec<Micro>,
    /// Of all places: the search asks for it at every node.
    total: u128,
    pub(crate) minor: Minor,
    shares: Vec<Micro>,
}

/// What one step adds: work by place, and the minor things.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) work: Vec<(usize, Micro)>,
    pub(crate) minor: Minor,
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
        Self { places, lines, queues, housekeeping, flows, wide, handing, of_line, fastest }
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
            work += queue.interrupt;
            if away {
                work += times(self.handing.cross, queue.packets);
                minor.crossings += queue.packets;
            }
        }
        minor.slow = self.slower(at, work) + times(self.handing.cross, minor.crossings);
        minor.writes = u64::from(!it.fixed && it.pinned != Some(at));
        if at == self.housekeeping {
            minor.housekeeping = work * INTERRUPTED;
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
            step.minor.slow = at.map_or(0, |place| self.slower(place, it.stack));
        } else {
            let share = shares.get(mask.len()).copied().unwrap_or(ONE);
            let cluster = |place: usize| self.places.get(place).map(|p| p.cluster);
            let (mut handed, mut crossed) = (0, 0);
            for &target in mask {
                let mut work = it.stack;
                if at.is_none_or(|from| from != target) {
                    work += times(self.handing.take, it.packets);
                    handed += 1;
                }
                if at.is_some_and(|from| cluster(from) != cluster(target)) {
                    work += times(self.handing.cross, it.packets);
                    crossed += 1;
                }
                step.work.push((target, times(share, work)));
            }
            let handed_over = it.packets * handed / count;
            step.work.extend(at.map(|from| (from, times(self.handing.give, handed_over))));
            step.minor.handovers = handed_over;
            step.minor.crossings = it.packets * crossed / count;
            let slower: Micro = mask.iter().map(|target| self.slower(*target, it.stack)).sum();
            step.minor.slow = slower / count + times(self.handing.cross, step.minor.crossings);
        }
        let here = step.work.iter().filter(|(place, _)| *place == self.housekeeping);
        step.minor.housekeeping = here.map(|(_, work)| work).sum();
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
            total: problem.places.iter().map(|p| u128::from(p.base)).sum(),
            minor: Minor::default(),
            shares: problem.shares(),
        }
    }

    pub(crate) fn shares(&self) -> &[Micro] {
        &self.shares
    }

    pub(crate) fn total(&self) -> u128 {
        self.total
    }

    pub(crate) fn add(&mut self, step: &Step) {
        for (place, work) in &step.work {
            if let Some(load) = self.load.get_mut(*place) {
                let before = *load;
                *load = load.saturating_add(*work);
                self.total += u128::from(*load - before);
            }
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
            if let Some(load) = self.load.get_mut(*place) {
                let before = *load;
                *load = load.saturating_sub(*work);
                self.total -= u128::from(before - *load);
            }
        }
        let (m, s) = (&mut self.minor, &step.minor);
        m.handovers -= s.handovers;
        m.slow -= s.slow;
        m.crossings -= s.crossings;
        m.housekeeping -= s.housekeeping;
        m.writes -= s.writes;
    }

    /// Load over capacity of one place, in millionths: never falls when work is added anywhere.
    pub(crate) fn relative(&self, place: usize) -> Micro {
        let (Some(it), Some(load)) = (self.problem.places.get(place), self.load.get(place)) else {
            return 0;
        };
        let busy = |other: &usize| self.load.get(*other).is_some_and(|l| *l >= BUSY);
        let part = if it.siblings.iter().any(busy) { SHARED_CORE } else { 100 };
        let whole = u128::from(*load) * 1_024_000 * 100;
        u64::try_from(whole / u128::from((it.capacity * part).max(1))).unwrap_or(u64::MAX)
    }

    /// The largest of the places that a step touched, siblings included.
    pub(crate) fn largest_of(&self, step: &Step) -> Micro {
        let mut largest = 0;
        for (place, _) in &step.work {
            largest = largest.max(self.relative(*place));
            let siblings = self.problem.places.get(*place).map(|p| p.siblings.as_slice());
            for sibling in siblings.unwrap_or_default() {
                largest = largest.max(self.relative(*sibling));
            }
        }
        largest
    }

    /// The largest load over capacity, and the lowest place that has it.
    pub(crate) fn largest(&self) -> (Micro, usize) {
        let all = (0..self.load.len()).map(|place| (self.relative(place), place));
        all.max_by_key(|(load, place)| (*load, std::cmp::Reverse(*place))).unwrap_or((0, 0))
    }
}
