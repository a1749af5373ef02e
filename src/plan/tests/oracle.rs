//! The solver against counting through everything, on routers small enough for that.

use proptest::prelude::*;

use crate::model::snapshot::{IrqId, IrqRole};
use crate::model::units::CpuId;
use crate::plan::problem::*;
use crate::plan::solve::{NODES, WORTH, best, masks_for, solve};

/// Every placement there is, by plain counting; shares nothing with the search but the masks.
fn all(problem: &Problem) -> Vec<Placement> {
    let usable: Vec<usize> =
        (0..problem.places.len()).filter(|p| problem.places[*p].usable).collect();
    let mut lines: Vec<Vec<Option<usize>>> = vec![vec![]];
    for line in &problem.lines {
        // On the card's own node, where that has a CPU to use.
        let of_node: Vec<usize> =
            usable.iter().copied().filter(|p| problem.places[*p].node == line.node).collect();
        let own = if line.node.is_none() || of_node.is_empty() { &usable } else { &of_node };
        let places: Vec<Option<usize>> =
            if line.fixed { vec![line.home] } else { own.iter().copied().map(Some).collect() };
        lines = lines
            .iter()
            .flat_map(|l| places.iter().map(move |p| l.iter().copied().chain([*p]).collect()))
            .collect();
    }
    let mut found = Vec::new();
    for lines in lines {
        let mut masks: Vec<Vec<Vec<usize>>> = vec![vec![]];
        for (index, queue) in problem.queues.iter().enumerate() {
            let at = queue.line.and_then(|l| lines[l]);
            let options = masks_for(problem, index, at, &lines);
            masks = masks
                .iter()
                .flat_map(|m| {
                    options.iter().map(move |o| [m.as_slice(), std::slice::from_ref(o)].concat())
                })
                .collect();
        }
        found.extend(masks.into_iter().map(|masks| Placement { lines: lines.clone(), masks }));
    }
    found
}

/// Geometric mean of the patterns' largest loads, from the words of the model.
fn mean_by_hand(problem: &Problem, placement: &Placement) -> f64 {
    let count = problem.patterns.len();
    let product: f64 = (0..count).map(|p| largest_by_hand(problem, placement, p)).product();
    product.powf(1.0 / count as f64)
}

/// Load over capacity the slow way, in floating point and from the words of the model.
fn largest_by_hand(problem: &Problem, placement: &Placement, pattern: usize) -> f64 {
    let n = problem.places.len();
    let of = |amount: &Each| amount[pattern] as f64 / 1e6;
    let mut load: Vec<f64> = problem.places.iter().map(|p| of(&p.base)).collect();
    for (l, line) in problem.lines.iter().enumerate() {
        let Some(at) = placement.lines[l] else { continue };
        load[at] += of(&line.completion);
        for queue in problem.queues.iter().filter(|q| q.line == Some(l)) {
            load[at] += of(&queue.interrupt);
            if line.node.is_some()
                && problem.places[at].node.is_some()
                && line.node != problem.places[at].node
            {
                load[at] += 0.05 * of(&queue.packets);
            }
        }
    }
    for (q, queue) in problem.queues.iter().enumerate() {
        let packets = of(&queue.packets);
        let stack = of(&queue.stack);
        let at = queue.line.and_then(|l| placement.lines[l]);
        let mask = &placement.masks[q];
        if mask.is_empty() {
            if let Some(at) = at {
                load[at] += stack;
            }
            continue;
        }
        let share = problem.flows.largest_share(mask.len());
        let mut others = 0.0;
        for &target in mask {
            let mut work = stack;
            if at != Some(target) {
                work += 0.10 * packets;
                others += 1.0;
            }
            if at.is_some_and(|a| problem.places[a].cluster != problem.places[target].cluster) {
                work += 0.05 * packets;
            }
            load[target] += share * work;
        }
        if let Some(at) = at {
            load[at] += 0.15 * packets * others / mask.len() as f64;
        }
    }
    (0..n)
        .map(|p| {
            let place = &problem.places[p];
            let shared = place.siblings.iter().any(|s| load[*s] >= 0.05);
            load[p] / (place.capacity as f64 / 1_024_000.0 * if shared { 0.62 } else { 1.0 })
        })
        .fold(0.0, f64::max)
}

prop_compose! {
    fn any_problem()(
        sizes in prop::collection::vec((prop::sample::select(vec![400u64, 800, 1024]), 0..2usize), 2..5),
        smt in any::<bool>(),
        lines in prop::collection::vec((any::<bool>(), 0..3u64, 0..4usize), 1..4),
        veth in any::<bool>(),
        flows in prop::sample::select(vec![Flows::Count(1), Flows::Count(16), Flows::Many]),
        wide in any::<bool>(),
        unsteered in any::<bool>(),
        housekeeping in 0..2usize,
        isolated in any::<bool>(),
        ways in any::<bool>(),
    ) -> Problem {
        // Both ways at once, and each of two sides alone.
        let at = |side: usize, work: Micro| match ways {
            true if side == 0 => [work * 5 / 4, work, work / 4],
            true => [work * 5 / 4, work / 4, work],
            false => [work, 0, 0],
        };
        let n = sizes.len();
        let places: Vec<Place> = sizes.iter().enumerate().map(|(i, (size, cluster))| Place {
            id: CpuId(i as u32),
            capacity: size * 1000,
            usable: !(isolated && i == n - 1),
            siblings: if smt && (i ^ 1) < n { vec![i ^ 1] } else { vec![] },
            cluster: *cluster,
            node: Some(*cluster as u32),
            base: [0; 3],
        }).collect();
        let mut queues = Vec::new();
        let made: Vec<Line> = lines.iter().enumerate().map(|(i, (fixed, kind, home))| {
            let device = format!("eth{i}");
            queues.push(Queue {
                device: device.clone(), index: 0, line: Some(i), packets: at(i % 2, ONE),
                interrupt: at(i % 2, 350_000),
                stack: at(i % 2, [1_000_000, 550_000, 1_250_000][*kind as usize]),
                unsteered: (unsteered && i == 0).then(|| "not for it".into()),
                before: if *kind == 1 { vec![1] } else { vec![] },
            });
            Line {
                irq: IrqId { device, queue: 0, role: IrqRole::Combined },
                completion: at(1 - i % 2, 150_000), home: Some(home % n), fixed: *fixed,
                pinned: (*kind == 0).then_some(home % n), node: (*kind == 2).then_some(0),
                thread: None,
            }
        }).collect();
        if veth {
            queues.push(Queue {
                device: "veth".into(), index: 0, line: None, packets: at(1, ONE), interrupt: [0; 3],
                stack: at(1, 1_000_000), unsteered: None, before: vec![],
            });
        }
        let mut problem = Problem::new(places, made, queues, housekeeping, flows, wide);
        problem.patterns = vec![Default::default(); if ways { 3 } else { 1 }];
        problem
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// If this fails, a router gets a worse plan than there is, or one that claims too much.
    #[test]
    fn no_placement_is_better_than_the_answer(problem in any_problem()) {
        let every = all(&problem);
        prop_assume!(every.len() <= 60_000);
        let judged: Vec<(Score, Minor)> = every.iter().map(|p| {
            let tally = problem.tally(p);
            (tally.score(), tally.minor)
        }).collect();
        let patterns = problem.patterns.len();
        let least = judged.iter().map(|j| j.0).min().unwrap();
        let limit = least.stretched(EQUAL, patterns);
        let mean = least.mean(patterns);
        let minor = judged.iter().filter(|j| j.0 <= limit).map(|j| j.1).min().unwrap();
        let answer = best(&problem, 100 * NODES);
        prop_assert!(answer.complete);
        prop_assert_eq!(answer.bound, mean);
        prop_assert!(answer.largest <= mean * EQUAL / 100 + 1, "{} of {mean}", answer.largest);
        prop_assert_eq!(answer.minor, minor);
        prop_assert!(every.contains(&answer.placement));
        // The tally against the model's words.
        let by_hand = mean_by_hand(&problem, &answer.placement);
        prop_assert!((answer.largest as f64 / 1e6 - by_hand).abs() < 1e-4, "{by_hand}");
    }

    /// Packets are handed over only where that brings something, and nobody loses by it.
    #[test]
    fn hand_overs_have_to_be_worth_it(problem in any_problem()) {
        let still = |p: &Placement| {
            problem.queues.iter().zip(&p.masks).all(|(queue, mask)| match (queue.line, mask.as_slice()) {
                (None, _) | (_, []) => true,
                (Some(line), [one]) => p.lines[line] == Some(*one),
                _ => false,
            })
        };
        // Of two that are both fixed nothing is asked.
        let stuck = problem.lines.iter().any(|l| l.fixed && l.home == Some(problem.housekeeping));
        prop_assume!(!stuck);
        let every = all(&problem);
        prop_assume!(every.len() <= 60_000);
        let answer = solve(&problem, 100 * NODES);
        let without = every.iter().filter(|p| still(p)).map(|p| problem.tally(p).mean()).min();
        let without = without.unwrap();
        let largest = problem.tally(&answer.placement).largest();
        if still(&answer.placement) {
            prop_assert!(answer.largest <= without * EQUAL / 100 + 1);
            prop_assert!(answer.declined.is_none_or(|with| with * 100 >= answer.largest * WORTH));
        } else {
            prop_assert!(answer.largest * 100 < without * EQUAL * WORTH / 100);
            // The best without them is among those that are no better in any pattern.
            let no_better = |p: &&Placement| {
                let other = problem.tally(p).largest();
                largest.iter().zip(&other).all(|(own, other)| own <= other)
            };
            prop_assert!(every.iter().filter(|p| still(p)).any(|p| no_better(&p)));
        }
    }

    /// Out of nodes it still answers, and its bound is still true.
    #[test]
    fn a_search_that_is_cut_short_says_so_and_its_bound_holds(problem in any_problem(), cap in 0..40u64) {
        let whole = best(&problem, 100 * NODES);
        let cut = best(&problem, cap);
        prop_assert!(cut.nodes <= 2 * cap);
        prop_assert!(cut.bound <= whole.bound, "{} > {}", cut.bound, whole.bound);
        prop_assert!(cut.largest >= whole.bound);
        if cut.complete {
            prop_assert_eq!(cut.bound, whole.bound);
        }
    }
}

/// Packets of two cards must not wait for each other where that can be had for little.
#[test]
fn a_line_joins_one_that_can_not_move_only_where_that_is_worth_it() {
    let mut problem = server(4, 2, 1);
    for queue in &mut problem.queues {
        queue.unsteered = None;
    }
    problem.lines[0].fixed = true;
    let free = best(&problem, NODES);
    let answer = solve(&problem, NODES);
    assert_ne!(answer.placement.lines[1], Some(0), "{answer:?}");
    assert!(answer.largest * WORTH <= free.largest * 100);
    // With one other CPU, which has a twentieth of its size, there is no choice.
    let mut small = server(2, 2, 1);
    small.lines[0].fixed = true;
    small.places[1].capacity /= 20;
    assert_eq!(solve(&small, NODES).placement.lines[1], Some(0));
}

/// `devices` cards of `queues` queues, a line each, on `cpus` equal CPUs.
pub(super) fn server(cpus: usize, devices: usize, queues: usize) -> Problem {
    let places = (0..cpus)
        .map(|i| Place {
            id: CpuId(i as u32),
            capacity: 1_024_000,
            usable: true,
            siblings: vec![],
            cluster: i / 8,
            node: Some((i / 8 % 2) as u32),
            base: [0; 3],
        })
        .collect();
    let each = ONE / queues as u64;
    let of = |i: usize| format!("eth{}", i / queues);
    let lines = (0..devices * queues).map(|i| Line {
        irq: IrqId { device: of(i), queue: (i % queues) as u32, role: IrqRole::Combined },
        completion: [each * 15 / 100, 0, 0],
        home: Some(0),
        fixed: false,
        pinned: None,
        node: None,
        thread: None,
    });
    let list = (0..devices * queues).map(|i| Queue {
        device: of(i),
        index: (i % queues) as u32,
        line: Some(i),
        packets: [each, 0, 0],
        interrupt: [each * 35 / 100, 0, 0],
        stack: [each, 0, 0],
        unsteered: Some("queues cover the CPUs".into()),
        before: vec![],
    });
    Problem::new(places, lines.collect(), list.collect(), 0, Flows::Many, true)
}

/// Nodes, not time: the bench prints the time. Were equal CPUs and lines not tried once only, none
/// of these would end.
#[test]
fn large_routers_are_planned_within_the_nodes_and_evenly() {
    for (cpus, devices, queues) in [(8, 2, 8), (8, 1, 16), (96, 2, 48), (256, 8, 64)] {
        let problem = server(cpus, devices, queues);
        let answer = solve(&problem, NODES);
        assert!(answer.nodes <= 2 * NODES);
        let gap = answer.largest as f64 / answer.bound as f64 - 1.0;
        assert!(gap < 0.01, "{cpus} CPUs: {} against {}", answer.largest, answer.bound);
        let mut per_cpu = vec![0; cpus];
        answer.placement.lines.iter().for_each(|l| per_cpu[l.unwrap()] += 1);
        let even = devices * queues / cpus;
        assert!(per_cpu.iter().all(|n| *n == even), "{cpus} CPUs: {per_cpu:?}");
    }
}

/// Half of the CPUs idle, and it is right: their memory is not where the packets are. The bound
/// knows it too.
#[test]
fn a_card_with_more_queues_than_its_node_has_cpus_stays_there() {
    let mut problem = server(32, 1, 32);
    problem.lines.iter_mut().for_each(|l| l.node = Some(1));
    problem.queues.iter_mut().for_each(|q| q.unsteered = None);
    let answer = solve(&problem, NODES);
    let nodes: Vec<_> = problem.places.iter().map(|p| p.node).collect();
    let far = |p: &usize| nodes[*p] != Some(1);
    assert!(!answer.placement.lines.iter().flatten().any(far), "{answer:?}");
    assert!(!answer.placement.masks.iter().flatten().any(far), "{answer:?}");
    let gap = answer.largest as f64 / answer.bound as f64 - 1.0;
    assert!(gap < 0.01, "{} against {}", answer.largest, answer.bound);
    // A node without a CPU to use is no reason to leave a line where it is.
    problem.places.iter_mut().filter(|p| p.node == Some(1)).for_each(|p| p.usable = false);
    let answer = solve(&problem, NODES);
    assert!(answer.placement.lines.iter().flatten().all(far), "{answer:?}");
}
