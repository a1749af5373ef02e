//! Finds the placement with the least largest load, in the geometric mean over the patterns of
//! traffic: branch and bound, exact until its nodes are used up, from then on the best that was
//! found, with the distance to the bound. What is placed only ever adds to a pattern's largest
//! load, and a pattern's bound is one whatever happens in the others: so the product of the
//! patterns' bounds is a bound of the product.
//!
//! Two searches, one after the other: the least largest load; then, among all that come within
//! 1 % of it, the least hand-overs, time lost on slow CPUs, crossings, work on the housekeeping CPU
//! and writes. Each
//! starts from what greedy placement and local moves found.
//!
//! Two things are tried once instead of many times: CPUs that are alike as long as nothing is on
//! them, and lines that are alike, which take CPUs in ascending order.

use super::bound::{Capacity, classes, pieces, twins};
use super::problem::{
    EQUAL, Each, Micro, Minor, Placement, Problem, Score, Step, Tally, each, most, plus, within,
};

/// Placements of one line or queue that are looked at before the search settles for what it has.
pub(crate) const NODES: u64 = 200_000;

/// Of them, one in so many for telling apart what is equally good: on a card with many queues there
/// is no end to that, and what local moves found differs from the best by little.
const TIES: u64 = 10;

/// The answer, and how good it is known to be.
#[derive(Debug, Clone)]
pub(crate) struct Solution {
    pub(crate) placement: Placement,
    /// Largest load over capacity, in millionths: geometric mean over the patterns.
    pub(crate) largest: Micro,
    pub(crate) minor: Minor,
    /// No placement of the kind that is considered has a smaller largest load than this.
    pub(crate) bound: Micro,
    /// Whether the search went through everything: then it is the best there is.
    pub(crate) complete: bool,
    /// Placements of one line or queue that were looked at.
    pub(crate) nodes: u64,
    /// The largest load with hand-overs that were not worth it.
    pub(crate) declined: Option<Micro>,
    /// Whether hand-overs were not looked at, for what is there fills the links without.
    pub(crate) carried: bool,
}

/// What costs for certain has to make the largest load this much smaller, in hundredths of what it
/// is without: hand-overs add work (10 % of all softirq time in one report), and what they gain
/// rests on costs that are defaults. On the R4S of the field report the model has 19 % for them.
pub(crate) const WORTH: u64 = 85;

/// Solves it: interrupts beside one that can't move, and hand-overs, only where they are worth it.
/// The same problem always gets the same answer.
pub(crate) fn solve(problem: &Problem, nodes: u64) -> Solution {
    let stuck = |l: &super::problem::Line| l.fixed && l.home == Some(problem.housekeeping);
    let joined = handed(problem, nodes);
    let beside = |(line, at): (&super::problem::Line, &Option<usize>)| {
        !line.fixed && *at == Some(problem.housekeeping)
    };
    if !problem.lines.iter().any(stuck)
        || usable(problem).count() < 2
        || !problem.lines.iter().zip(&joined.placement.lines).any(beside)
    {
        return joined;
    }
    // Both would wait for each other, and a card's ring is short.
    let mut apart = problem.clone();
    apart.apart = true;
    let apart = handed(&apart, nodes);
    let nodes = joined.nodes + apart.nodes;
    if worth(joined.largest, apart.largest) {
        return Solution { nodes, ..joined };
    }
    Solution { nodes, ..apart }
}

/// Whether the one is so much smaller.
fn worth(one: Micro, other: Micro) -> bool {
    u128::from(one) * 100 < u128::from(other) * u128::from(WORTH)
}

/// Without hand-overs, unless those are worth it, and in no pattern worse.
fn handed(problem: &Problem, nodes: u64) -> Solution {
    let mut still = problem.clone();
    let own = |q: &&mut super::problem::Queue| q.line.is_some() && q.unsteered.is_none();
    if still.queues.iter_mut().filter(own).count() == 0 {
        return best(problem, nodes);
    }
    for queue in still.queues.iter_mut().filter(own) {
        queue.unsteered = Some(String::new());
    }
    let without = best(&still, nodes);
    let caps = problem.tally(&without.placement).largest();
    if problem.carried.is_some_and(|most| caps.iter().zip(&most).all(|(load, most)| load <= most)) {
        return Solution { carried: true, ..without };
    }
    let with = best_within(problem, nodes, &caps.map(Some), Some(&without.placement));
    let nodes = with.nodes + without.nodes;
    if with.minor.handovers == 0 || worth(with.largest, without.largest) {
        return Solution { nodes, ..with };
    }
    Solution { declined: Some(with.largest), nodes, ..without }
}

/// Largest loads that no pattern may exceed, where there is such a thing.
pub(crate) type Caps = [Option<Micro>; super::problem::PATTERNS];

/// The placement with the least largest load, then the least of the minor things.
pub(crate) fn best(problem: &Problem, nodes: u64) -> Solution {
    best_within(problem, nodes, &Caps::default(), None)
}

/// The same within caps; `known` is a placement that keeps them.
pub(crate) fn best_within(
    problem: &Problem,
    nodes: u64,
    caps: &Caps,
    known: Option<&Placement>,
) -> Solution {
    let patterns = problem.patterns.len();
    let score = |placement: &Placement| problem.tally(placement).score();
    let mut start = greedy(problem);
    improve(problem, &mut start, None, caps);
    if let Some(known) = known
        && (exceeds(&problem.tally(&start).largest(), caps) || score(known) < score(&start))
    {
        start = known.clone();
    }
    let mut search = Search::new(problem, start, nodes, None, caps);
    search.run();
    let (load_complete, load_nodes) = (search.complete, search.nodes);
    let least = search.best_load;
    let bound = if load_complete { least } else { search.root_bound.min(least) };
    let limit = least.stretched(EQUAL, patterns);

    let mut start = search.best;
    // What is set today may be as good as anything.
    if let Some(today) = as_found(problem)
        && score(&today) <= limit
        && !exceeds(&problem.tally(&today).largest(), caps)
        && problem.tally(&today).minor < problem.tally(&start).minor
    {
        start = today;
    }
    improve(problem, &mut start, Some(limit), caps);
    let mut search = Search::new(problem, start, nodes.div_ceil(TIES), Some(limit), caps);
    search.run();
    let tally = problem.tally(&search.best);
    Solution {
        largest: tally.mean(),
        minor: tally.minor,
        bound: bound.mean(patterns),
        complete: load_complete && search.complete,
        nodes: load_nodes + search.nodes,
        declined: None,
        carried: false,
        placement: search.best,
    }
}

fn exceeds(largest: &Each, caps: &Caps) -> bool {
    largest.iter().zip(caps).any(|(load, cap)| cap.is_some_and(|cap| *load > cap))
}

/// Today's state, where it is one that the planner could choose.
fn as_found(problem: &Problem) -> Option<Placement> {
    let lines: Vec<_> = problem.lines.iter().map(|l| l.home).collect();
    for (index, (line, home)) in problem.lines.iter().zip(&lines).enumerate() {
        if !line.fixed && !home.is_some_and(|home| for_lines(problem, index).any(|p| p == home)) {
            return None;
        }
    }
    let mut masks = Vec::with_capacity(problem.queues.len());
    for (index, queue) in problem.queues.iter().enumerate() {
        let at = queue.line.and_then(|l| lines.get(l).copied().flatten());
        if !masks_for(problem, index, at, &lines).contains(&queue.before) {
            return None;
        }
        masks.push(queue.before.clone());
    }
    Some(Placement { lines, masks })
}

/// The masks worth trying for a queue: off, one CPU, the CPUs of a cluster or all of them (with and
/// without those that are busy with interrupts, and their siblings), and today's.
pub(crate) fn masks_for(
    problem: &Problem,
    queue: usize,
    at: Option<usize>,
    lines: &[Option<usize>],
) -> Vec<Vec<usize>> {
    let Some(it) = problem.queues.get(queue) else { return vec![vec![]] };
    if it.unsteered.is_some() {
        return vec![vec![]];
    }
    // Packets stay on the memory node that they came in on, as long as that has another CPU.
    let node = at.and_then(|at| problem.places.get(at)).and_then(|place| place.node);
    let node = node.filter(|_| on_node(problem, node).any(|p| Some(p) != at));
    let usable: Vec<usize> = on_node(problem, node).collect();
    let core_of = |place: usize| {
        let siblings = problem.places.get(place).map(|p| p.siblings.as_slice());
        siblings.unwrap_or_default().iter().copied().chain([place])
    };
    // The sibling of the interrupt's CPU would slow the interrupt down.
    let core: Vec<usize> = at.into_iter().flat_map(core_of).collect();
    let other_core = usable.iter().any(|p| !core.contains(p));
    // Without a line, "off" would leave the work to whoever sends.
    let mut masks: Vec<Vec<usize>> = if at.is_some() { vec![vec![]] } else { vec![] };
    let away = |p: &usize| Some(*p) != at && !(other_core && core.contains(p));
    masks.extend(usable.iter().copied().filter(away).map(|p| vec![p]));
    if problem.wide {
        // With the interrupt's own CPU only where there is one interrupt for everything: else that
        // CPU has enough to do.
        let lines_with_queues =
            (0..problem.lines.len()).filter(|l| problem.queues_of(*l).next().is_some());
        let alone = core.len() < 2 && lines_with_queues.count() < 2;
        let busy: Vec<usize> = lines.iter().flatten().copied().collect();
        let place = |p: usize| problem.places.get(p);
        let mut clusters: Vec<usize> =
            usable.iter().filter_map(|p| place(*p)).map(|p| p.cluster).collect();
        clusters.sort_unstable();
        clusters.dedup();
        let mut groups: Vec<Option<usize>> = clusters.into_iter().map(Some).collect();
        // A hash gives a small CPU as many flows as a big one.
        let size = |p: &usize| place(*p).map_or(0, |p| p.capacity);
        let (least, most) = (usable.iter().map(size).min(), usable.iter().map(size).max());
        if least.unwrap_or(0) * 10 >= most.unwrap_or(0) * 9 {
            groups.push(None);
        }
        for group in groups {
            let in_group =
                |p: &usize| group.is_none_or(|g| place(*p).is_some_and(|p| p.cluster == g));
            let of_group: Vec<usize> = usable.iter().copied().filter(in_group).collect();
            let without = |out: &dyn Fn(usize) -> bool| -> Vec<usize> {
                of_group.iter().copied().filter(|p| !out(*p)).collect()
            };
            masks.push(without(&|p| core.contains(&p)));
            masks.push(without(&|p| core.contains(&p) || busy.contains(&p)));
            masks.push(without(&|p| busy.iter().any(|b| core_of(*b).any(|c| c == p))));
            if at.is_none() || alone {
                masks.push(of_group.clone());
            }
        }
    }
    if !it.before.is_empty()
        && (problem.wide || it.before.len() == 1)
        && it.before.iter().all(|p| usable.contains(p))
    {
        masks.push(it.before.clone());
    }
    masks.retain(|m| !m.is_empty() || at.is_some());
    let mut seen = std::collections::BTreeSet::new();
    masks.retain(|m| seen.insert(m.clone()));
    if masks.is_empty() { vec![vec![]] } else { masks }
}

/// Heaviest first, each where the largest load grows least.
fn greedy(problem: &Problem) -> Placement {
    let mut tally = Tally::new(problem);
    let mut lines: Vec<Option<usize>> =
        problem.lines.iter().map(|l| if l.fixed { l.home } else { None }).collect();
    for (line, at) in lines.iter().enumerate() {
        if let Some(at) = at {
            tally.add(&problem.line_step(line, *at));
        }
    }
    for line in line_order(problem) {
        // With its stack stages, as if they stayed: they are the most of it.
        let whole = |at: usize| {
            let mut step = problem.line_step(line, at);
            let stack = problem.queues_of(line).map(|(_, q)| q.stack);
            step.work.push((at, stack.fold(Each::default(), |a, b| plus(&a, &b))));
            step
        };
        let best = for_lines(problem, line).min_by_key(|at| {
            let step = whole(*at);
            tally.add(&step);
            // As a sum: a product says nothing where one pattern has no load yet.
            let after: u128 = tally.largest_of(&step).iter().map(|l| u128::from(*l)).sum();
            tally.take(&step);
            (after, step.minor, *at)
        });
        if let Some(at) = best {
            tally.add(&whole(at));
            if let Some(place) = lines.get_mut(line) {
                *place = Some(at);
            }
        }
    }
    let masks = problem
        .queues
        .iter()
        .enumerate()
        .map(|(queue, it)| {
            let at = it.line.and_then(|l| lines.get(l).copied().flatten());
            let masks = masks_for(problem, queue, at, &lines);
            masks.into_iter().next().unwrap_or_default()
        })
        .collect();
    Placement { lines, masks }
}

/// Places that a line may be put on: on its card's own memory node where that has any. Each packet
/// was written there, and every vendor's guide asks for it; evening out the nodes is no reason, a
/// card that fills its node wants another card (Documentation/networking/scaling.rst).
pub(super) fn for_lines(problem: &Problem, line: usize) -> impl Iterator<Item = usize> + '_ {
    let node = problem.lines.get(line).and_then(|l| l.node);
    let free = |p: &usize| !(problem.apart && *p == problem.housekeeping);
    let near = on_node(problem, node).filter(free).count() > 0;
    let node = node.filter(|_| near);
    on_node(problem, node).filter(move |p| free(p))
}

/// Usable places on that node; all of them without one.
pub(super) fn on_node(problem: &Problem, node: Option<u32>) -> impl Iterator<Item = usize> + '_ {
    let of = |p: usize| problem.places.get(p).and_then(|p| p.node);
    usable(problem).filter(move |p| node.is_none() || of(*p) == node)
}

pub(super) fn usable(problem: &Problem) -> impl Iterator<Item = usize> + '_ {
    (0..problem.places.len()).filter(|p| problem.places.get(*p).is_some_and(|p| p.usable))
}

/// Movable lines, those with most work first.
fn line_order(problem: &Problem) -> Vec<usize> {
    let work = |line: usize| -> Micro {
        let own = problem.lines.get(line).map_or(Each::default(), |l| l.completion);
        let all = problem.queues_of(line).map(|(_, q)| plus(&q.interrupt, &q.stack));
        all.fold(own, |a, b| plus(&a, &b)).iter().sum()
    };
    let mut order: Vec<usize> = (0..problem.lines.len())
        .filter(|l| problem.lines.get(*l).is_some_and(|l| !l.fixed))
        .collect();
    order.sort_by_cached_key(|line| (std::cmp::Reverse(work(*line)), *line));
    order
}

/// Local moves, one line (with the best mask for its queues) or one mask at a time, until none
/// helps. Without a limit the largest load is made smaller, and then the sum of the squares, which
/// leads across plateaus; with a limit the minor things, the load staying within it.
fn improve(problem: &Problem, placement: &mut Placement, limit: Option<Score>, caps: &Caps) {
    // A large router would spend its whole time here for little.
    const LOOKS: usize = 400_000;
    let mut looks = 0;
    let mut tally = problem.tally(placement);
    let worth = |tally: &Tally<'_>| -> (bool, Option<Score>, u128, Minor) {
        let largest = tally.largest();
        let (over, score) = (exceeds(&largest, caps), problem.score(&largest));
        match limit {
            Some(limit) if score <= limit && !over => (false, None, 0, tally.minor),
            _ => {
                let all = (0..tally.load.len()).flat_map(|p| tally.relative(p));
                let squares = all.map(|r| u128::from(r) * u128::from(r)).sum();
                (over, Some(score), squares, tally.minor)
            }
        }
    };
    loop {
        let mut moved = false;
        for line in line_order(problem) {
            let queues: Vec<usize> = problem.queues_of(line).map(|(q, _)| q).collect();
            let lift = |placement: &Placement, tally: &mut Tally<'_>, put: bool| {
                let at = placement.lines.get(line).copied().flatten();
                let mut steps: Vec<Step> =
                    at.map(|a| problem.line_step(line, a)).into_iter().collect();
                for &queue in &queues {
                    let mask = placement.masks.get(queue).map_or(&[][..], |m| m.as_slice());
                    steps.push(problem.queue_step(queue, at, mask, tally.shares()));
                }
                for step in &steps {
                    if put { tally.add(step) } else { tally.take(step) }
                }
            };
            let mut best = (worth(&tally), placement.clone());
            lift(placement, &mut tally, false);
            for at in for_lines(problem, line) {
                looks += problem.places.len();
                let mut other = placement.clone();
                if let Some(place) = other.lines.get_mut(line) {
                    *place = Some(at);
                }
                for &queue in &queues {
                    if let Some(mask) = other.masks.get_mut(queue) {
                        // A mask of others may not hold its own interrupt's CPU.
                        mask.retain(|p| *p != at);
                    }
                }
                lift(&other, &mut tally, true);
                let now = worth(&tally);
                lift(&other, &mut tally, false);
                if now < best.0 {
                    best = (now, other);
                    moved = true;
                }
            }
            *placement = best.1;
            lift(placement, &mut tally, true);
            if looks > LOOKS {
                return;
            }
        }
        for queue in 0..problem.queues.len() {
            let line = problem.queues.get(queue).and_then(|q| q.line);
            let at = line.and_then(|l| placement.lines.get(l).copied().flatten());
            let current = placement.masks.get(queue).cloned().unwrap_or_default();
            let masks = masks_for(problem, queue, at, &placement.lines);
            if masks.len() < 2 {
                continue;
            }
            let mut best = (worth(&tally), current.clone());
            tally.take(&problem.queue_step(queue, at, &current, &problem.shares()));
            for mask in masks {
                looks += problem.places.len();
                let step = problem.queue_step(queue, at, &mask, &problem.shares());
                tally.add(&step);
                let now = worth(&tally);
                tally.take(&step);
                if now < best.0 {
                    best = (now, mask);
                    moved = true;
                }
            }
            tally.add(&problem.queue_step(queue, at, &best.1, &problem.shares()));
            if let Some(mask) = placement.masks.get_mut(queue) {
                *mask = best.1;
            }
        }
        if !moved || looks > LOOKS {
            return;
        }
    }
}

/// One of the two searches.
struct Search<'a> {
    problem: &'a Problem,
    order: Vec<usize>,
    /// For each line, the one before it in `order` that is just like it.
    twin: Vec<Option<usize>>,
    /// CPUs with the same number are alike as long as nothing is on them.
    class: Vec<usize>,
    /// Work that is still to be placed when so many lines are.
    rest: Vec<Each>,
    /// What no placement's largest load is less than, for there are pieces of that size.
    pieces: Each,
    capacity: Capacity,
    limit: Option<Score>,
    caps: Caps,
    cap: u64,
    nodes: u64,
    complete: bool,
    root_bound: Score,
    best: Placement,
    best_load: Score,
    best_minor: Minor,
}

impl<'a> Search<'a> {
    fn new(
        problem: &'a Problem,
        start: Placement,
        cap: u64,
        limit: Option<Score>,
        caps: &Caps,
    ) -> Self {
        let order = line_order(problem);
        let tally = problem.tally(&start);
        let mut search = Self {
            twin: twins(problem, &order, limit.is_some()),
            class: classes(problem, limit.is_some()),
            rest: Vec::new(),
            pieces: pieces(problem),
            caps: *caps,
            capacity: Capacity::of(problem),
            problem,
            order,
            limit,
            cap,
            nodes: 0,
            complete: true,
            root_bound: tally.score(),
            best_load: tally.score(),
            best_minor: tally.minor,
            best: start,
        };
        // Stack stages of queues without a place yet, plus what the lines bring.
        let sum =
            |all: &mut dyn Iterator<Item = Each>| all.fold(Each::default(), |a, b| plus(&a, &b));
        let brought = |line: usize| -> Each {
            let own = problem.lines.get(line).map_or(Each::default(), |l| l.completion);
            plus(&own, &sum(&mut problem.queues_of(line).map(|(_, q)| q.interrupt)))
        };
        let stack = sum(&mut problem.queues.iter().map(|q| q.stack));
        let mut rest = plus(&stack, &sum(&mut search.order.iter().map(|l| brought(*l))));
        search.rest.push(rest);
        for line in &search.order {
            let less = brought(*line);
            rest = each(|p| within(&rest, p).saturating_sub(within(&less, p)));
            search.rest.push(rest);
        }
        search
    }

    fn run(&mut self) {
        let problem = self.problem;
        let mut tally = Tally::new(problem);
        let lines: Vec<Option<usize>> =
            problem.lines.iter().map(|l| if l.fixed { l.home } else { None }).collect();
        for (line, at) in lines.iter().enumerate() {
            if let Some(at) = at {
                tally.add(&problem.line_step(line, *at));
            }
        }
        let largest = tally.largest();
        let rest = self.rest.first().copied().unwrap_or_default();
        self.root_bound = problem.score(&self.least(&tally, &largest, &rest));
        let mut placement = Placement { lines, masks: vec![vec![]; problem.queues.len()] };
        self.line(0, &mut tally, &mut placement, &largest);
    }

    /// What the largest loads are at least: what they are, what they are if the rest could be
    /// spread evenly, and the largest piece.
    fn least(&self, tally: &Tally<'_>, largest: &Each, rest: &Each) -> Each {
        let known = most(largest, &self.pieces);
        each(|p| {
            let work = tally.total(p) + u128::from(within(rest, p));
            within(&known, p).max(self.capacity.least(work))
        })
    }

    /// Whether nothing below here can be better than what is known.
    fn hopeless(&self, tally: &Tally<'_>, largest: &Each, rest: &Each) -> bool {
        if exceeds(largest, &self.caps) {
            return true;
        }
        let least = self.problem.score(&self.least(tally, largest, rest));
        match self.limit {
            None => least >= self.best_load,
            Some(limit) => least > limit || tally.minor >= self.best_minor,
        }
    }

    fn spent(&mut self) -> bool {
        if self.nodes >= self.cap {
            self.complete = false;
        } else {
            self.nodes += 1;
        }
        !self.complete
    }

    fn line(
        &mut self,
        depth: usize,
        tally: &mut Tally<'_>,
        placement: &mut Placement,
        largest: &Each,
    ) {
        let rest = self.rest.get(depth).copied().unwrap_or_default();
        if self.hopeless(tally, largest, &rest) {
            return;
        }
        let Some(&line) = self.order.get(depth) else {
            return self.queue(0, tally, placement, largest, &rest);
        };
        let problem = self.problem;
        let not_before = self.twin.get(depth).copied().flatten();
        let not_before = not_before.and_then(|t| placement.lines.get(t).copied().flatten());
        let mut options = Vec::new();
        let mut fresh = std::collections::BTreeSet::new();
        for at in for_lines(problem, line) {
            if not_before.is_some_and(|before| at < before) {
                continue;
            }
            if self.untouched(tally, at) && !self.class.get(at).is_some_and(|c| fresh.insert(*c)) {
                continue;
            }
            if self.spent() {
                return;
            }
            let step = self.problem.line_step(line, at);
            tally.add(&step);
            let after = most(largest, &tally.largest_of(&step));
            tally.take(&step);
            options.push((after, at, step));
        }
        options.sort_by_key(|(after, at, step)| match self.limit {
            None => (Some(problem.score(after)), Minor::default(), *at),
            Some(_) => (None, step.minor, *at),
        });
        for (after, at, step) in options {
            tally.add(&step);
            set(&mut placement.lines, line, Some(at));
            self.line(depth + 1, tally, placement, &after);
            tally.take(&step);
        }
        set(&mut placement.lines, line, None);
    }

    fn queue(
        &mut self,
        queue: usize,
        tally: &mut Tally<'_>,
        placement: &mut Placement,
        largest: &Each,
        rest: &Each,
    ) {
        let problem = self.problem;
        if self.hopeless(tally, largest, rest) {
            return;
        }
        let Some(it) = self.problem.queues.get(queue) else {
            self.best = placement.clone();
            self.best_load = problem.score(largest);
            self.best_minor = tally.minor;
            return;
        };
        let at = it.line.and_then(|l| placement.lines.get(l).copied().flatten());
        let rest = each(|p| within(rest, p).saturating_sub(within(&it.stack, p)));
        let mut options = Vec::new();
        let mut fresh = std::collections::BTreeSet::new();
        for mask in masks_for(self.problem, queue, at, &placement.lines) {
            if let [one] = mask.as_slice()
                && self.untouched(tally, *one)
                && !self.class.get(*one).is_some_and(|c| fresh.insert(*c))
            {
                continue;
            }
            if self.spent() {
                return;
            }
            let step = self.problem.queue_step(queue, at, &mask, tally.shares());
            tally.add(&step);
            let after = most(largest, &tally.largest_of(&step));
            tally.take(&step);
            options.push((after, mask, step));
        }
        // Stable: equals stay in the order of the masks.
        options.sort_by_key(|(after, _, step)| match self.limit {
            None => (Some(problem.score(after)), Minor::default()),
            Some(_) => (None, step.minor),
        });
        for (after, mask, step) in options {
            tally.add(&step);
            set(&mut placement.masks, queue, mask);
            self.queue(queue + 1, tally, placement, &after, &rest);
            tally.take(&step);
        }
        set(&mut placement.masks, queue, vec![]);
    }

    /// Nothing was placed on it or on its core yet.
    fn untouched(&self, tally: &Tally<'_>, place: usize) -> bool {
        let bare = |p: usize| match (self.problem.places.get(p), tally.load.get(p)) {
            (Some(place), Some(load)) => place.base == *load,
            _ => false,
        };
        let siblings = self.problem.places.get(place).map(|p| p.siblings.as_slice());
        bare(place) && siblings.unwrap_or_default().iter().all(|s| bare(*s))
    }
}

fn set<T>(list: &mut [T], index: usize, value: T) {
    if let Some(slot) = list.get_mut(index) {
        *slot = value;
    }
}
