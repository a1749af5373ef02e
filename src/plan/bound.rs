//! What no placement can do better than: the ground of the search's bound; and what is alike, so that
//! it is tried once.

use super::problem::{BUSY, Each, Micro, Problem, SHARED_CORE, most, plus, times};
use super::solve::{for_lines, on_node, usable};

/// Loads that some CPU has at least in each pattern, whatever is placed where: what a line brings
/// can't be divided, nor a stack stage beyond the widest mask.
pub(super) fn pieces(problem: &Problem) -> Each {
    let capacities = usable(problem).filter_map(|p| problem.places.get(p)).map(|p| p.capacity);
    let fastest = capacities.max().unwrap_or(1).max(1);
    let widest = if problem.wide { usable(problem).count() } else { 1 };
    let shares = problem.shares();
    let least = shares.get(1..=widest).and_then(|s| s.iter().min()).copied().unwrap_or(0);
    let mut all = Each::default();
    for (index, line) in problem.lines.iter().enumerate().filter(|(_, l)| !l.fixed) {
        let mut whole = line.completion;
        for (_, queue) in problem.queues_of(index) {
            whole = plus(&whole, &queue.interrupt);
            if queue.unsteered.is_some() {
                whole = plus(&whole, &queue.stack);
            }
        }
        all = most(&all, &whole);
    }
    for queue in problem.queues.iter().filter(|q| q.unsteered.is_none()) {
        all = most(&all, &queue.stack.map(|stack| times(stack, least)));
    }
    all.map(|work| u64::try_from(load(u128::from(work), u128::from(fastest) * 100)).unwrap_or(0))
}

/// What all CPUs together can do at most: the ground of the bound.
///
/// A core of several threads takes, at a load r, either r times 0.62 of all its threads, or r times
/// its best thread and next to nothing ([`BUSY`]) on the others.
pub(super) struct Capacity {
    /// In the units of [`super::problem::Place::capacity`], times 100.
    sum: u128,
    /// Next to nothing on cores whose best thread alone is better than all together.
    always: u128,
    /// The same on every core with several threads.
    all: u128,
    /// From this load on, in millionths, only `always` counts.
    from: u128,
}

/// Whether work can get to a place: not to another memory node than its cards', unless something
/// runs there already.
fn reached(problem: &Problem) -> impl Fn(usize) -> bool + '_ {
    let node_of = |p: usize| problem.places.get(p).and_then(|p| p.node);
    let mut nodes = std::collections::BTreeSet::new();
    for (index, line) in problem.lines.iter().enumerate() {
        if line.fixed {
            nodes.extend(line.home.map(node_of));
        } else {
            nodes.extend(for_lines(problem, index).map(node_of));
        }
    }
    let spills = |node: &Option<u32>| node.is_none() || on_node(problem, *node).count() < 2;
    let everywhere = nodes.iter().any(spills) || problem.queues.iter().any(|q| q.line.is_none());
    move |place| {
        let idle = problem.places.get(place).is_some_and(|p| p.base == Each::default());
        everywhere || !idle || nodes.contains(&node_of(place))
    }
}

impl Capacity {
    pub(super) fn of(problem: &Problem) -> Self {
        let mut capacity = Self { sum: 0, always: 0, all: 0, from: 0 };
        let reached = reached(problem);
        for (index, place) in problem.places.iter().enumerate() {
            let alone = u128::from(place.capacity) * 100;
            // Each core once, by its first thread.
            if place.siblings.iter().any(|s| *s < index) {
                continue;
            }
            if !place.siblings.iter().chain([&index]).any(|p| reached(*p)) {
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
    pub(super) fn least(&self, work: u128) -> Micro {
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
pub(super) fn twins(problem: &Problem, order: &[usize], minor: bool) -> Vec<Option<usize>> {
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
pub(super) fn classes(problem: &Problem, minor: bool) -> Vec<usize> {
    let named = |keys: Vec<Vec<u64>>| -> Vec<usize> {
        let mut sorted = keys.clone();
        sorted.sort();
        sorted.dedup();
        keys.iter().map(|k| sorted.binary_search(k).unwrap_or(usize::MAX)).collect()
    };
    let first = problem.places.iter().enumerate().map(|(index, place)| {
        let home = problem.housekeeping == index;
        let node = place.node.map_or(0, |n| u64::from(n) + 1);
        let mut key = vec![place.capacity, place.cluster as u64, node, u64::from(home)];
        key.extend(place.base);
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
