//! Finds a placement: greedy ones and those of peers to start from, local moves from the best of
//! them, and of all that were judged the one with the least regret.
//!
//! ```text
//!   peers, as found ──┐
//!   lines spread,     ├─▶ judged in all worlds ─▶ local moves ─▶ pool ─▶ least regret ─▶ simplest
//!   masks by pattern ─┘                                                   among equals
//! ```
//!
//! The regret of a placement in a world is how far it stays below the best that is known there.
//! `planned` searches again on the machine as planned, until that changes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::cost::prediction;
use super::index::{Bug, IxVec, LineIx, OfLines, OfQueues, PlaceIx, QueueIx};
use super::judge::{Judge, Judged};
use super::problem::{Mask, Placement, Problem, Queue};
use super::unsteered::Unsteered;

/// Distance that the answer may stay below a peer in the middle world ...
pub(crate) const BELOW: f64 = 0.02;
/// ... and in any.
pub(crate) const FAR_BELOW: f64 = 0.10;
/// Steps of arithmetic that a search may take, roughly.
const BUDGET: usize = 12_000_000;

/// The answer, and how good it is known to be.
#[derive(Debug, Clone)]
pub(crate) struct Solution {
    pub(crate) best: Judged,
    /// Placements that were judged.
    pub(crate) judged: u64,
    /// Peers that are better by more than they should be.
    pub(crate) above: Vec<Above>,
    /// Least of the largest loads of the peers, also of those that the planner may not set.
    pub(crate) least: f64,
}

/// A peer that is better than the answer by more than it should be.
#[derive(Debug, Clone)]
pub(crate) struct Above {
    /// Number of the peer.
    pub(crate) number: usize,
    /// Distance that the answer is below it in the middle world, and in any.
    pub(crate) middle: f64,
    pub(crate) any: f64,
    /// True if it is worse elsewhere.
    pub(crate) trades: bool,
    /// Reason why the planner may not set what it sets.
    pub(crate) barred: Option<Barred>,
}

/// Reason why a placement may not be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Barred {
    /// Threads that the scheduler moves are all placed, or all left to it.
    Threads,
    /// Lines that can't be moved, or CPUs that work may not be put on.
    Cpus,
    /// Packets are written to the memory node of their card.
    Node,
    /// The queue gets no RPS.
    Unsteered(Unsteered),
    /// No mask but that of all CPUs is right wherever the thread is that polls.
    Roams,
    /// The CPU of whoever sends them handles the packets.
    Senders,
    /// Masks of several CPUs are not wanted.
    Wide,
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsteered(why) => return why.fmt(f),
            Self::Threads => "it leaves some of the threads that poll to the scheduler",
            Self::Cpus => "it needs lines or CPUs that can't be used",
            Self::Node => "it takes lines off the memory node of their card",
            Self::Roams => "the thread that polls may come to any CPU of its mask",
            Self::Senders => "it leaves packets to the CPU of whoever sends them",
            Self::Wide => "masks of several CPUs are not wanted",
        })
    }
}

/// Finds the placement for a router as it is, and how many it judged. `peers` are placements of other
/// rules: where the search starts, and what the answer must not be worse than. Where the links are
/// full as it is (`carried`), the question is what would be best beyond them.
pub(crate) fn search(
    problem: &Problem,
    peers: &[Placement],
    carried: bool,
) -> Result<(Placement, u64), Bug> {
    let mut search = Search::new(Judge::within(problem, carried)?);
    search.run(peers)?;
    let mut found = search.choose(peers)?.placement;
    search.tidy(&mut found)?;
    Ok((found, search.judged))
}

/// Holds a placement against those of the peers.
pub(crate) fn weigh(
    problem: &Problem,
    peers: &[Placement],
    carried: bool,
    (found, judged): (&Placement, u64),
) -> Result<Solution, Bug> {
    let judge = Judge::within(problem, carried)?;
    let told = Judge::usual(problem, carried)?;
    let best = judge.judge(found)?;
    let mut above = Vec::new();
    let mut least = f64::INFINITY;
    for (number, peer) in peers.iter().enumerate() {
        if problem.is_of_senders(peer)? {
            continue;
        }
        let theirs = judge.judge(peer)?;
        let load = prediction(&judge, &theirs, None)?.map_or(f64::INFINITY, |p| p.largest);
        least = least.min(load);
        let (middle, any) = told.below(&best, &theirs);
        if middle > BELOW || any > FAR_BELOW {
            let trades = told.below(&theirs, &best).1 > 0.005;
            let search = Search::new(Judge::within(problem, carried)?);
            let barred = search.barred(peer)?;
            above.push(Above { number, middle, any, trades, barred });
        }
    }
    Ok(Solution { best, judged, above, least })
}

/// True if the links are full as it is, in all worlds.
pub(crate) fn is_carried(problem: &Problem) -> Result<bool, Bug> {
    let today = problem.today();
    let judge = Judge::new(problem)?;
    Ok(!problem.is_of_senders(&today)? && judge.is_carried(&judge.judge(&today)?.rates))
}

pub(super) struct Search<'a> {
    pub(super) judge: Judge<'a>,
    pub(super) pool: Vec<Judged>,
    known: BTreeMap<Placement, ()>,
    /// Scores of the placements that local moves led to, by their [`number`].
    scores: BTreeMap<u64, f64>,
    judged: u64,
    /// Placements that may still be judged.
    pub(super) left: usize,
    /// And so many more when it comes to choose the simplest.
    pub(super) spare: usize,
    /// True of queues that packets come in on.
    pub(super) busy: IxVec<OfQueues, bool>,
    /// True of lines that have work.
    pub(super) works: IxVec<OfLines, bool>,
}

impl<'a> Search<'a> {
    pub(super) fn new(judge: Judge<'a>) -> Self {
        let problem = judge.problem;
        let (places, ways) = (problem.places.len(), problem.ways.len().max(1));
        let one = 20 * problem.streams.len() * ways
            + 12 * places * ways * judge.worlds.len()
            + problem.lines.len() * ways;
        let all = (BUDGET / one.max(1)).max(40);
        let spare = all / 4;
        let left = all - spare;
        let mut busy = IxVec::from_fn(problem.queues.len(), |_| false);
        for stream in &problem.streams {
            if stream.rate.iter().any(|rate| rate.data + rate.acks > 0.0)
                && let Ok(busy) = busy.at_mut(stream.queue)
            {
                *busy = true;
            }
        }
        let works = problem.lines.ids().map(|line| problem.works(line) != Ok(false)).collect();
        Self {
            judge,
            pool: Vec::new(),
            known: BTreeMap::new(),
            scores: BTreeMap::new(),
            judged: 0,
            left,
            spare,
            busy,
            works,
        }
    }

    /// Queues that packets come in on and that may be steered.
    pub(super) fn steered(&self) -> impl Iterator<Item = (QueueIx, &'a Queue)> + '_ {
        let busy = self.problem().queues.each().zip(self.busy.iter()).filter(|(_, busy)| **busy);
        busy.map(|(queue, _)| queue).filter(|(_, q)| q.unsteered.is_none() && q.has_mask)
    }

    pub(super) fn problem(&self) -> &'a Problem {
        self.judge.problem
    }

    pub(super) fn look(&mut self, placement: &Placement) -> Result<Judged, Bug> {
        self.judged += 1;
        self.left = self.left.saturating_sub(1);
        self.judge.judge(placement)
    }

    pub(super) fn keep(&mut self, judged: Judged) {
        if self.known.insert(judged.placement.clone(), ()).is_none() {
            self.pool.push(judged);
        }
    }

    fn run(&mut self, peers: &[Placement]) -> Result<(), Bug> {
        let today = self.problem().today();
        let mut starts: Vec<Placement> = vec![today];
        starts.extend(peers.iter().cloned());
        let mut lines: Vec<Placement> = starts.clone();
        for pairs in [true, false] {
            for stacks in [true, false] {
                lines.push(self.spread(pairs, stacks)?);
            }
        }
        for arrangement in lines {
            for pattern in Pattern::ALL {
                let mut placement = arrangement.clone();
                self.masks(&mut placement, pattern)?;
                starts.push(placement);
            }
        }
        for start in starts {
            if !self.known.contains_key(&start) && self.is_allowed(&start)? {
                let judged = self.look(&start)?;
                self.keep(judged);
            }
        }
        let mut best: Vec<(f64, usize)> =
            self.pool.iter().enumerate().map(|(at, j)| (j.score, at)).collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let firsts: Vec<Judged> =
            best.iter().take(4).filter_map(|(_, at)| self.pool.get(*at).cloned()).collect();
        for start in firsts {
            let found = self.climb(start)?;
            self.keep(found);
        }
        Ok(())
    }

    /// True if the placement may be set: parts that are as they are today may stay.
    pub(super) fn is_allowed(&self, placement: &Placement) -> Result<bool, Bug> {
        Ok(self.barred(placement)?.is_none())
    }

    /// Reason why a placement may not be set.
    fn barred(&self, placement: &Placement) -> Result<Option<Barred>, Bug> {
        let problem = self.problem();
        let mut roams = None;
        for (index, line) in problem.lines.each() {
            let at = *placement.lines.at(index)?;
            if line.thread
                && !line.fixed
                && line.home.is_none()
                && *roams.get_or_insert(at.is_none()) != at.is_none()
            {
                return Ok(Some(Barred::Threads));
            }
            if at == line.home {
                let away = match at {
                    Some(at) => !problem.places.at(at)?.usable,
                    None => false,
                };
                if away && !line.fixed {
                    return Ok(Some(Barred::Cpus));
                }
                continue;
            }
            match at {
                Some(at) if !line.fixed && problem.places.at(at)?.usable => {
                    if !self.is_near(line.node, at)? {
                        return Ok(Some(Barred::Node));
                    }
                }
                _ => return Ok(Some(Barred::Cpus)),
            }
        }
        for (index, queue) in problem.queues.each() {
            let mask = placement.masks.at(index)?;
            for place in mask {
                if !problem.places.at(*place)?.usable {
                    return Ok(Some(Barred::Cpus));
                }
            }
            if *mask != queue.before && !mask.is_empty() {
                if let Some(why) = &queue.unsteered {
                    return Ok(Some(Barred::Unsteered(why.clone())));
                }
                let roams = match queue.line {
                    Some(line) => placement.lines.at(line)?.is_none(),
                    None => false,
                };
                if roams && mask.len() < problem.usable().count() {
                    return Ok(Some(Barred::Roams));
                }
            }
            if mask.is_empty() && queue.line.is_none() && queue.unsteered.is_none() {
                return Ok(Some(Barred::Senders));
            }
            if !problem.wide && mask.len() > 1 {
                return Ok(Some(Barred::Wide));
            }
        }
        Ok(None)
    }

    /// True if the place, which can be used, is one of those that are [`Search::near`].
    fn is_near(&self, node: Option<u32>, at: PlaceIx) -> Result<bool, Bug> {
        let own = node.is_none() || self.problem().places.at(at)?.node == node;
        Ok(own || self.near(node)?.contains(&at))
    }

    /// Places that a line may be put on: on its card's own memory node where that has any, for each
    /// packet was written there (Documentation/networking/scaling.rst).
    pub(super) fn for_line(&self, line: LineIx) -> Result<Vec<PlaceIx>, Bug> {
        let problem = self.problem();
        let node = problem.lines.at(line)?.node;
        self.near(node)
    }

    /// Places on a memory node that can be used, or all where it has none.
    fn near(&self, node: Option<u32>) -> Result<Vec<PlaceIx>, Bug> {
        let problem = self.problem();
        let mut near = Vec::new();
        for place in problem.usable() {
            if node.is_some() && problem.places.at(place)?.node == node {
                near.push(place);
            }
        }
        Ok(if near.is_empty() { problem.usable().collect() } else { near })
    }

    /// Lines spread over the CPUs, heaviest first, each where the load is least: with the stack
    /// stages of their queues or without, the lines of a pair together or each by itself.
    fn spread(&self, pairs: bool, stacks: bool) -> Result<Placement, Bug> {
        let problem = self.problem();
        let mut placement = problem.today();
        let mut load: Vec<f64> = vec![0.0; problem.places.len()];
        let mut groups: BTreeMap<(String, u32, u32), (f64, Vec<LineIx>)> = BTreeMap::new();
        for (index, line) in problem.lines.each() {
            let mut work: f64 = line.completion.iter().sum();
            for stream in &problem.streams {
                let queue = problem.queues.at(stream.queue)?;
                if queue.line == Some(index) {
                    let packets: f64 = stream.rate.iter().map(|r| r.data + r.acks).sum();
                    let stack = if stacks { stream.first + stream.stack } else { 0.0 };
                    work += packets * (stream.interrupt + stack);
                }
            }
            if let (true, Some(home)) = (line.fixed, line.home)
                && let Some(sum) = load.get_mut(home.number())
            {
                *sum += work;
            }
            // What has no work stays where it may be.
            let home = line.home.map(|at| problem.places.at(at)).transpose()?;
            if !line.fixed && (work > 0.0 || home.is_none_or(|home| !home.usable)) {
                let own = u32::try_from(index.number()).unwrap_or(u32::MAX);
                let alone = if pairs { 0 } else { own };
                let key = (line.device.clone(), line.pair, alone);
                let group = groups.entry(key).or_default();
                group.0 += work;
                group.1.push(index);
            }
        }
        let mut groups: Vec<(f64, Vec<LineIx>)> = groups.into_values().collect();
        // Stable: equal ones stay in the order of their names.
        groups.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (work, lines) in groups {
            let Some(first) = lines.first() else { continue };
            let mut best: Option<(f64, bool, PlaceIx)> = None;
            for place in self.for_line(*first)? {
                let it = problem.places.at(place)?;
                let mut own = load.get(place.number()).copied().unwrap_or(0.0) + work;
                for sibling in &it.siblings {
                    own += 0.6 * load.get(sibling.number()).copied().unwrap_or(0.0);
                }
                let after = own / it.capacity;
                let kept = problem.housekeeping == Some(place);
                let better = best.is_none_or(|(least, worst, _)| {
                    after < least - 1e-9 || (after < least + 1e-9 && worst && !kept)
                });
                if better {
                    best = Some((after, kept, place));
                }
            }
            let Some((_, _, place)) = best else { continue };
            if let Some(sum) = load.get_mut(place.number()) {
                *sum += work;
            }
            for line in lines {
                *placement.lines.at_mut(line)? = Some(place);
            }
        }
        Ok(placement)
    }

    /// Sets the masks of all queues by a pattern, and no device above steers again.
    pub(super) fn masks(&self, placement: &mut Placement, pattern: Pattern) -> Result<(), Bug> {
        let problem = self.problem();
        for queue in problem.queues.ids() {
            let mask = self.mask(placement, queue, pattern)?;
            *placement.masks.at_mut(queue)? = mask;
        }
        for mask in placement.uppers.iter_mut() {
            mask.clear();
        }
        Ok(())
    }

    /// The mask of a queue by a pattern; off where nothing is left of it.
    pub(super) fn mask(
        &self,
        placement: &Placement,
        queue: QueueIx,
        pattern: Pattern,
    ) -> Result<Mask, Bug> {
        let problem = self.problem();
        let it = problem.queues.at(queue)?;
        if it.unsteered.is_some() || !it.has_mask {
            let unknown = it.unsteered.as_ref().is_some_and(|why| why.is_unknown());
            return Ok(if unknown { it.before.clone() } else { Vec::new() });
        }
        if !*self.busy.at(queue)? && it.line.is_some() {
            return Ok(it.before.clone());
        }
        let at = match it.line {
            Some(line) => *placement.lines.at(line)?,
            None => None,
        };
        // Packets stay on the memory node that they came in on, as long as that has another CPU.
        let node = at.map(|at| problem.places.at(at)).transpose()?.and_then(|p| p.node);
        let mut near = self.near(node)?;
        if near.iter().all(|p| Some(*p) == at) {
            near = problem.usable().collect();
        }
        let own = at.map(|at| problem.places.at(at)).transpose()?;
        let beside = |place: &PlaceIx| own.is_some_and(|own| own.siblings.contains(place));
        let idle = matches!(pattern, Pattern::Idle | Pattern::BigIdle);
        let busy = if idle { self.polling(placement)? } else { Vec::new() };
        let mut mask = Vec::new();
        for place in near {
            let big = problem.places.at(place)?.big;
            let same = own.map(|o| o.cluster) == Some(problem.places.at(place)?.cluster);
            let arrives = Some(place) == at;
            let kept = match pattern {
                Pattern::Off => at.is_none(),
                Pattern::All => true,
                Pattern::Others => !arrives,
                Pattern::OtherCores => !arrives && !beside(&place),
                Pattern::Idle => !busy.contains(&place),
                Pattern::Big => big,
                Pattern::BigOthers => big && !arrives,
                Pattern::BigIdle => big && !busy.contains(&place),
                Pattern::Cluster => same && !arrives,
            };
            if kept {
                mask.push(place);
            }
        }
        if mask.is_empty() && at.is_none() {
            mask = problem.usable().collect();
        }
        if !problem.wide && mask.len() > 1 {
            mask = self.lightest(placement, &mask)?;
        }
        Ok(mask)
    }

    /// The CPUs that poll.
    fn polling(&self, placement: &Placement) -> Result<Vec<PlaceIx>, Bug> {
        let mut busy = Vec::new();
        for queue in self.problem().queues.iter() {
            if let Some(line) = queue.line {
                busy.extend(*placement.lines.at(line)?);
            }
        }
        Ok(busy)
    }

    /// The CPU of a mask with the fewest lines, where one alone is wanted.
    fn lightest(&self, placement: &Placement, mask: &Mask) -> Result<Mask, Bug> {
        let busy = self.polling(placement)?;
        let count = |place: &PlaceIx| busy.iter().filter(|b| *b == place).count();
        let kept = |place: &PlaceIx| self.problem().housekeeping == Some(*place);
        Ok(mask.iter().min_by_key(|p| (count(p), kept(p), **p)).copied().into_iter().collect())
    }

    /// Local moves, until none is better or the budget is used up: a line or a pair of them to
    /// another CPU, with its queues' masks by some pattern; the masks of a card or of one queue.
    fn climb(&mut self, start: Judged) -> Result<Judged, Bug> {
        let mut best = start;
        loop {
            let mut better = false;
            for moved in self.moves(&best.placement)? {
                if self.left == 0 {
                    return Ok(best);
                }
                let number = number(&moved);
                let worse = |score: &f64| *score <= best.score + 1e-6;
                if moved == best.placement
                    || self.scores.get(&number).is_some_and(worse)
                    || !self.is_allowed(&moved)?
                {
                    continue;
                }
                let judged = self.look(&moved)?;
                self.scores.insert(number, judged.score);
                if judged.score > best.score + 1e-6 {
                    best = judged;
                    better = true;
                }
            }
            if !better {
                return Ok(best);
            }
        }
    }

    /// Neighbours of a placement.
    fn moves(&self, from: &Placement) -> Result<Vec<Placement>, Bug> {
        let problem = self.problem();
        let mut all = Vec::new();
        for (index, line) in problem.lines.each().filter(|(_, line)| !line.fixed) {
            let queues: Vec<QueueIx> = problem.queues_of(index).collect();
            let together: Vec<LineIx> = problem
                .lines_of(&line.device)
                .filter(|l| problem.lines.at(*l).is_ok_and(|l| l.pair == line.pair && !l.fixed))
                .collect();
            for place in self.for_line(index)? {
                if all.len() > self.left {
                    return Ok(all);
                }
                let mut moved = from.clone();
                *moved.lines.at_mut(index)? = Some(place);
                all.push(moved.clone());
                for pattern in [Pattern::Others, Pattern::Off, Pattern::Idle] {
                    let mut steered = moved.clone();
                    for queue in &queues {
                        let mask = self.mask(&moved, *queue, pattern)?;
                        *steered.masks.at_mut(*queue)? = mask;
                    }
                    all.push(steered);
                }
                if together.len() > 1 {
                    for line in &together {
                        *moved.lines.at_mut(*line)? = Some(place);
                    }
                    all.push(moved);
                }
            }
        }
        let mut devices: Vec<&str> = problem.queues.iter().map(|q| q.device.as_str()).collect();
        devices.dedup();
        for device in devices {
            let own: Vec<QueueIx> =
                self.steered().filter(|(_, q)| q.device == device).map(|(at, _)| at).collect();
            for pattern in Pattern::ALL {
                let mut moved = from.clone();
                for queue in &own {
                    let mask = self.mask(&moved, *queue, pattern)?;
                    *moved.masks.at_mut(*queue)? = mask;
                }
                all.push(moved);
            }
            for queue in own {
                if all.len() > self.left {
                    return Ok(all);
                }
                for place in problem.usable() {
                    let mut alone = from.clone();
                    *alone.masks.at_mut(queue)? = vec![place];
                    all.push(alone);
                    let mut other = from.clone();
                    let mask = other.masks.at_mut(queue)?;
                    match mask.binary_search(&place) {
                        Ok(at) => {
                            mask.remove(at);
                        }
                        Err(at) => mask.insert(at, place),
                    }
                    all.push(other);
                }
            }
        }
        Ok(all)
    }
}

/// Number that tells placements apart, in less room than they take.
fn number(placement: &Placement) -> u64 {
    let mut hasher = DefaultHasher::new();
    placement.hash(&mut hasher);
    hasher.finish()
}

/// Rule by which the masks of queues are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    Off,
    All,
    Others,
    OtherCores,
    Idle,
    Big,
    BigOthers,
    BigIdle,
    Cluster,
}

impl Pattern {
    pub(super) const ALL: [Self; 9] = [
        Self::Off,
        Self::Others,
        Self::OtherCores,
        Self::Idle,
        Self::All,
        Self::Big,
        Self::BigOthers,
        Self::BigIdle,
        Self::Cluster,
    ];
}
