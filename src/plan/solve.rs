//! Finds the placement with the least largest load: branch and bound, exact until its nodes are
//! used up, from then on the best that was found, with the distance to the bound.
//!
//! Two searches, one after the other: the least largest load; then, among all that come within
//! 1 % of it, the least hand-overs, time lost on slow CPUs, crossings, work on the housekeeping CPU
//! and writes. Each
//! starts from what greedy placement and local moves found.
//!
//! Two things are tried once instead of many times: CPUs that are alike as long as nothing is on
//! them, and lines that are alike, which take CPUs in ascending order.

use super::problem::{BUSY, EQUAL, Micro, Minor, Placement, Problem, SHARED_CORE, Step, Tally};

/// Placements of one line or queue that are looked at before the search settles for what it has.
pub(crate) const NODES: u64 = 200_000;

/// The answer, and how good it is known to be.
#[derive(Debug, Clone)]
pub(crate) struct Solution {
    pub(crate) placement: Placement,
    /// Largest load over capacity, in millionths.
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
}

/// Hand-overs have to make the largest load this much smaller, in hundredths of what it is
/// without: they add work for certain (10 % of all softirq time in one report), and the gain rests
/// on costs that are defaults. On the R4S of the field report the model has 13 % for them.
pub(crate) const WORTH: u64 = 85;

/// Solves it: without hand-overs, unless those are worth it. The same problem always gets the same
/// answer.
pub(crate) fn solve(problem: &Problem, nodes: u64) -> Solution {
    let with = best(problem, nodes);
    if with.minor.handovers == 0 {
        return with;
    }
    let mut still = problem.clone();
    for queue in still.queues.iter_mut().filter(|q| q.line.is_some()) {
        queue.unsteered = queue.unsteered.take().or(Some(String::new()));
    }
    let without = best(&still, nodes);
    if u128::from(with.largest) * 100 < u128::from(without.largest) * u128::from(WORTH) {
        return with;
    }
    Solution { declined: Some(with.largest), nodes: with.nodes + without.nodes, ..without }
}

/// The placement with the least largest load, then the least of the minor things.
pub(crate) fn best(problem: &Problem, nodes: u64) -> Solution {
    let mut start = greedy(problem);
    improve(problem, &mut start, None);
    let mut search = Search::new(problem, start, nodes, None);
    search.run();
    let (load_complete, load_nodes) = (search.complete, search.nodes);
    let bound = if load_complete { search.best_load } else { search.root_bound };
    let least = search.best_load;
    let limit = least.saturating_mul(EQUAL) / 100;

    let mut start = search.best;
    // What is set today may be as good as anything.
    if let Some(today) = as_found(problem)
        && problem.tally(&today).largest().0 <= limit
        && problem.tally(&today).minor < problem.tally(&start).minor
    {
        start = today;
    }
    improve(problem, &mut start, Some(limit));
    let mut search = Search::new(problem, start, nodes, Some(limit));
    search.run();
    let tally = problem.tally(&search.best);
    Solution {
        largest: tally.largest().0,
        minor: tally.minor,
        bound: bound.min(least),
        complete: load_complete && search.complete,
        nodes: load_nodes + search.nodes,
        declined: None,
        placement: search.best,
    }
}

/// Today's state, where it is one that the planner could choose.
fn as_found(problem: &Problem) -> Option<Placement> {
    let lines: Vec<_> = problem.lines.iter().map(|l| l.home).collect();
    let usable = |place: &usize| problem.places.get(*place).is_some_and(|p| p.usable);
    for (line, home) in problem.lines.iter().zip(&lines) {
        if !line.fixed && !home.as_ref().is_some_and(usable) {
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
    let usable: Vec<usize> = (0..problem.places.len())
        .filter(|p| problem.places.get(*p).is_some_and(|p| p.usable))
        .collect();
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
            step.work.push((at, problem.queues_of(line).map(|(_, q)| q.stack).sum()));
            step
        };
        let best = usable(problem).min_by_key(|at| {
            let step = whole(*at);
            tally.add(&step);
            let after = tally.largest_of(&step);
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

fn usable(problem: &Problem) -> impl Iterator<Item = usize> + '_ {
    (0..problem.places.len()).filter(|p| problem.places.get(*p).is_some_and(|p| p.usable))
}

/// Movable lines, those with most work first.
fn line_order(problem: &Problem) -> Vec<usize> {
    let work = |line: usize| -> Micro {
        let own = problem.lines.get(line).map_or(0, |l| l.completion);
        own + problem.queues_of(line).map(|(_, q)| q.interrupt + q.stack).sum::<Micro>()
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
fn improve(problem: &Problem, placement: &mut Placement, limit: Option<Micro>) {
    // A large router would spend its whole time here for little.
    const LOOKS: usize = 400_000;
    let mut looks = 0;
    let mut tally = problem.tally(placement);
    let worth = |tally: &Tally<'_>| -> (u128, u128, Minor) {
        let largest = u128::from(tally.largest().0);
        match limit {
            Some(limit) if largest <= u128::from(limit) => (0, 0, tally.minor),
            _ => {
                let all = (0..tally.load.len()).map(|p| u128::from(tally.relative(p)));
                (1 + largest, all.map(|r| r * r).sum(), tally.minor)
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
            for at in usable(problem) {
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
    rest: Vec<Micro>,
    capacity: Capacity,
    limit: Option<Micro>,
    cap: u64,
    nodes: u64,
    complete: bool,
    root_bound: Micro,
    best: Placement,
    best_load: Micro,
    best_minor: Minor,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, start: Placement, cap: u64, limit: Option<Micro>) -> Self {
        let order = line_order(problem);
        let tally = problem.tally(&start);
        let mut search = Self {
            twin: twins(problem, &order, limit.is_some()),
            class: classes(problem, limit.is_some()),
            rest: Vec::new(),
            capacity: Capacity::of(problem),
            problem,
            order,
            limit,
            cap,
            nodes: 0,
            complete: true,
            root_bound: 0,
            best_load: tally.largest().0,
            best_minor: tally.minor,
            best: start,
        };
        // Stack stages of queues without a place yet, plus what the lines bring.
        let stack: Micro = problem.queues.iter().map(|q| q.stack).sum();
        let brought = |line: usize| -> Micro {
            problem.lines.get(line).map_or(0, |l| l.completion)
                + problem.queues_of(line).map(|(_, q)| q.interrupt).sum::<Micro>()
        };
        let mut rest = stack + search.order.iter().map(|l| brought(*l)).sum::<Micro>();
        search.rest.push(rest);
        for line in &search.order {
            rest -= brought(*line);
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
        let largest = tally.largest().0;
        let rest = self.rest.first().copied().unwrap_or(0);
        self.root_bound = largest.max(self.even(&tally, rest));
        let mut placement = Placement { lines, masks: vec![vec![]; problem.queues.len()] };
        self.line(0, &mut tally, &mut placement, largest);
    }

    /// The largest load if what is left could be spread evenly.
    fn even(&self, tally: &Tally<'_>, rest: Micro) -> Micro {
        self.capacity.least(tally.total() + u128::from(rest))
    }

    /// Whether nothing below here can be better than what is known.
    fn hopeless(&self, tally: &Tally<'_>, largest: Micro, rest: Micro) -> bool {
        let least = largest.max(self.even(tally, rest));
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
        largest: Micro,
    ) {
        let rest = self.rest.get(depth).copied().unwrap_or(0);
        if self.hopeless(tally, largest, rest) {
            return;
        }
        let Some(&line) = self.order.get(depth) else {
            return self.queue(0, tally, placement, largest, rest);
        };
        let not_before = self.twin.get(depth).copied().flatten();
        let not_before = not_before.and_then(|t| placement.lines.get(t).copied().flatten());
        let mut options = Vec::new();
        let mut fresh = std::collections::BTreeSet::new();
        for at in usable(self.problem) {
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
            let after = largest.max(tally.largest_of(&step));
            tally.take(&step);
            options.push((after, at, step));
        }
        options.sort_by_key(|(after, at, step)| match self.limit {
            None => (*after, Minor::default(), *at),
            Some(_) => (0, step.minor, *at),
        });
        for (after, at, step) in options {
            tally.add(&step);
            set(&mut placement.lines, line, Some(at));
            self.line(depth + 1, tally, placement, after);
            tally.take(&step);
        }
        set(&mut placement.lines, line, None);
    }

    fn queue(
        &mut self,
        queue: usize,
        tally: &mut Tally<'_>,
        placement: &mut Placement,
        largest: Micro,
        rest: Micro,
    ) {
        if self.hopeless(tally, largest, rest) {
            return;
        }
        let Some(it) = self.problem.queues.get(queue) else {
            self.best = placement.clone();
            self.best_load = largest;
            self.best_minor = tally.minor;
            return;
        };
        let at = it.line.and_then(|l| placement.lines.get(l).copied().flatten());
        let rest = rest - it.stack;
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
            let after = largest.max(tally.largest_of(&step));
            tally.take(&step);
            options.push((after, mask, step));
        }
        // Stable: equals stay in the order of the masks.
        options.sort_by_key(|(after, _, step)| match self.limit {
            None => (*after, Minor::default()),
            Some(_) => (0, step.minor),
        });
        for (after, mask, step) in options {
            tally.add(&step);
            set(&mut placement.masks, queue, mask);
            self.queue(queue + 1, tally, placement, after, rest);
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

/// What all CPUs together can do at most: the ground of the bound.
///
/// A core of several threads takes, at a load r, either r times 0.62 of all its threads, or r times
/// its best thread and next to nothing ([`BUSY`]) on the others.
struct Capacity {
    /// In the units of [`super::problem::Place::capacity`], times 100.
    sum: u128,
    /// Next to nothing on cores whose best thread alone is better than all together.
    always: u128,
    /// The same on every core with several threads.
    all: u128,
    /// From this load on, in millionths, only `always` counts.
    from: u128,
}

impl Capacity {
    fn of(problem: &Problem) -> Self {
        let mut capacity = Self { sum: 0, always: 0, all: 0, from: 0 };
        for (index, place) in problem.places.iter().enumerate() {
            let alone = u128::from(place.capacity) * 100;
            // Each core once, by its first thread.
            if place.siblings.iter().any(|s| *s < index) {
                continue;
            }
            let others = place.siblings.iter().filter_map(|s| problem.places.get(*s));
            let threads = || others.clone().map(|p| u128::from(p.capacity)).chain([alone / 100]);
            let best = threads().max().unwrap_or(0) * 100;
            let slack = u128::from(BUSY) * place.siblings.len() as u128;
            let together = threads().sum::<u128>() * u128::from(SHARED_CORE);
            capacity.all += slack;
            if place.siblings.is_empty() || together <= best {
                capacity.sum += best;
                capacity.always += slack;
            } else {
                capacity.sum += together;
                capacity.from = capacity.from.max(load(slack, together - best) + 1);
            }
        }
        capacity
    }

    /// The least largest load, in millionths, that so much work can come to.
    fn least(&self, work: u128) -> Micro {
        let most = load(work.saturating_sub(self.always), self.sum);
        let least =
            if most >= self.from { most } else { load(work.saturating_sub(self.all), self.sum) };
        u64::try_from(least).unwrap_or(u64::MAX)
    }
}

/// Work over capacity (times 100), in millionths of the biggest CPU's.
fn load(work: u128, capacity: u128) -> u128 {
    work * 1_024_000 * 100 / capacity.max(1)
}

/// For each line in the order, the latest one before it that is just like it: same work, same
/// queues, and where writes count (`minor`) pinned to the same CPU today.
fn twins(problem: &Problem, order: &[usize], minor: bool) -> Vec<Option<usize>> {
    let key = |line: usize| {
        let it = problem.lines.get(line)?;
        let mut queues: Vec<_> = problem
            .queues_of(line)
            .map(|(_, q)| {
                (q.packets, q.interrupt, q.stack, q.unsteered.is_some(), q.before.clone())
            })
            .collect();
        queues.sort();
        Some((it.completion, it.node, minor.then_some(it.pinned), queues))
    };
    let keys: Vec<_> = order.iter().map(|l| key(*l)).collect();
    (0..order.len())
        .map(|index| {
            let mine = keys.get(index)?;
            let before = keys.get(..index)?.iter().rposition(|other| other == mine)?;
            order.get(before).copied()
        })
        .collect()
}

/// A number for each CPU: those with the same one can stand for each other while nothing is on
/// them. Two rounds, for the siblings have to be alike as well.
fn classes(problem: &Problem, minor: bool) -> Vec<usize> {
    let named = |keys: Vec<Vec<u64>>| -> Vec<usize> {
        let mut sorted = keys.clone();
        sorted.sort();
        sorted.dedup();
        keys.iter().map(|k| sorted.binary_search(k).unwrap_or(usize::MAX)).collect()
    };
    let first = problem.places.iter().enumerate().map(|(index, place)| {
        let home = problem.housekeeping == index;
        let node = place.node.map_or(0, |n| u64::from(n) + 1);
        let mut key = vec![place.capacity, place.cluster as u64, node, place.base, u64::from(home)];
        key.push(u64::from(place.usable));
        // Today's masks are options of their own.
        for queue in &problem.queues {
            if queue.unsteered.is_none() && !queue.before.is_empty() {
                key.push(u64::from(queue.before.contains(&index)));
            }
        }
        let pinned = |l: &super::problem::Line| l.pinned == Some(index);
        if minor && problem.lines.iter().any(pinned) {
            key.push(index as u64 + 2);
        }
        key
    });
    let first = named(first.collect());
    let second = problem.places.iter().enumerate().map(|(index, place)| {
        let of = |p: usize| first.get(p).map_or(0, |c| *c as u64);
        let mut key: Vec<u64> = place.siblings.iter().map(|s| of(*s)).collect();
        key.sort_unstable();
        key.insert(0, of(index));
        key
    });
    named(second.collect())
}
