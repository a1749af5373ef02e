//! The worlds in which a placement is judged, and what it lets through in each.
//!
//! No single set of costs is true of every router. So a placement is judged in a middle world and in
//! some around it, each of which is wrong in one plausible way: hand-offs cheap or dear, the
//! interrupt stage small or large, SMT siblings of little or of much use, flows spread evenly or
//! badly, one flow that is heavier than all others. What counts in a world is what the bottleneck
//! lets through: packets of data per unit of time, where a CPU of capacity 1024 does one NATed
//! stack stage in a unit.

use super::index::{Bug, IxVec, OfPlaces, OfRoots, OfWays, PlaceIx, RootIx, WayIx};
use super::problem::{Pattern, Problem, Tally, Work};

/// Number of flows that the traffic is made of: a hash spreads few of them badly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Flows {
    /// So many flows, all of one rate; one does not split at all.
    Count(u32),
    /// So many that every share is even.
    Many,
    /// So many flows, each of which takes what it gets, as TCP does: those on a CPU with few of
    /// them are the faster, and every CPU that has one is filled.
    Adapting(u32),
    /// Many, and one that has this part of all packets.
    Heavy(f64),
}

impl Flows {
    /// The share, of one, that the largest of `parts` gets.
    #[must_use]
    pub fn largest_share(self, parts: usize) -> f64 {
        self.share(1.0 / parts.max(1) as f64)
    }

    /// Share of the packets that a CPU has to bear which gets that part of the flows by a hash. Of
    /// flows of one rate p + sqrt(p (1 - p) / f), one standard deviation above the mean; of flows
    /// that adapt the part of the CPUs that have any: p / (1 - (1 - p)^f).
    #[must_use]
    pub fn share(self, part: f64) -> f64 {
        if part <= 0.0 || part >= 1.0 {
            return part.clamp(0.0, 1.0);
        }
        match self {
            Self::Many => part,
            Self::Count(0 | 1) | Self::Adapting(0 | 1) => 1.0,
            Self::Count(f) => (part + (part * (1.0 - part) / f64::from(f)).sqrt()).min(1.0),
            Self::Adapting(f) => {
                part / (1.0 - (1.0 - part).powi(i32::try_from(f).unwrap_or(i32::MAX)))
            }
            Self::Heavy(one) => one + (1.0 - one) * part,
        }
    }

    /// Ratio of that share to the part.
    fn excess(self, part: f64) -> f64 {
        if part > 1e-9 { self.share(part) / part } else { 1.0 }
    }
}

impl std::fmt::Display for Flows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(1) | Self::Adapting(1) => f.write_str("one flow"),
            Self::Count(n) | Self::Adapting(n) => write!(f, "{n} flows"),
            Self::Many => f.write_str("many flows"),
            Self::Heavy(part) => write!(f, "many flows and one of {:.0} %", part * 100.0),
        }
    }
}

/// A set of plausible costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    /// Multiple of the interrupt stage.
    interrupt: f64,
    /// Multiple of the cost of a hand-off.
    hand_off: f64,
    /// Part of its work that a CPU can do while its sibling is busy too.
    smt: f64,
    flows: Flows,
}

/// The middle world, and those around it. The first is the middle.
pub(crate) fn worlds(problem: &Problem) -> Vec<World> {
    let middle = World {
        name: "middle",
        interrupt: 1.0,
        hand_off: 1.0,
        smt: problem.smt.mid,
        flows: problem.flows,
    };
    let mut all = vec![
        middle,
        World { name: "cheap hand-offs", hand_off: 0.5, ..middle },
        World { name: "dear hand-offs", hand_off: 2.0, ..middle },
        World { name: "small interrupt stage", interrupt: 0.6, ..middle },
        World { name: "large interrupt stage", interrupt: 1.6, ..middle },
    ];
    if problem.places.iter().any(|p| !p.siblings.is_empty()) {
        all.push(World { name: "siblings of little use", smt: problem.smt.low, ..middle });
        all.push(World { name: "siblings of much use", smt: problem.smt.high, ..middle });
    }
    if !matches!(problem.flows, Flows::Count(1)) {
        all.push(World { name: "flows spread evenly", flows: Flows::Many, ..middle });
        all.push(World { name: "flows spread badly", flows: Flows::Count(8), ..middle });
        all.push(World { name: "one heavy flow", flows: Flows::Heavy(0.3), ..middle });
    }
    all
}

/// The part of the router that is full first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bottleneck {
    Place(PlaceIx),
    Shaper(RootIx),
}

/// Ratios by which the hash of some flows overloads each CPU: of what arrives, of what is handled.
type Excess = IxVec<OfWays, IxVec<OfPlaces, (f64, f64)>>;

/// Time that the CPUs and locks need for a packet of data of each way in a world.
pub(crate) struct Loads {
    places: IxVec<OfPlaces, f64>,
    locks: IxVec<OfRoots, f64>,
}

impl Work {
    /// Ratios by which the hash of some flows overloads the CPU: of what arrives, and of what is handled.
    fn excess(&self, flows: Flows) -> (f64, f64) {
        (flows.excess(self.arriving), flows.excess(self.handled))
    }

    /// All of it in a world.
    fn sum(&self, world: &World, (arriving, handled): (f64, f64)) -> f64 {
        self.rest
            + world.interrupt * self.interrupt
            + world.hand_off * self.handed
            + arriving * (world.interrupt * self.data_interrupt + world.hand_off * self.data_give)
            + handled * (self.data_stack + world.hand_off * self.data_take)
    }
}

impl Tally {
    /// Load over capacity of every CPU and lock in a world, for one packet of data of a way.
    /// `excess` is that of the world's flows.
    fn loads(
        &self,
        problem: &Problem,
        world: &World,
        way: WayIx,
        excess: &Excess,
    ) -> Result<Loads, Bug> {
        let work = self.work.at(way)?.iter().zip(excess.at(way)?.iter());
        let own: IxVec<OfPlaces, f64> = work
            .zip(problem.places.iter())
            .map(|((work, excess), place)| work.sum(world, *excess) / place.capacity)
            .collect();
        // While a sibling is busy as well, a CPU is slower: with one full and the other busy for a
        // part of the time, the full one needs so much longer.
        let slower = (1.0 - world.smt) / world.smt;
        let mut places = own.clone();
        for ((load, place), alone) in places.iter_mut().zip(problem.places.iter()).zip(own.iter()) {
            if *alone > 0.0 {
                for sibling in &place.siblings {
                    *load += slower * own.at(*sibling)?;
                }
            }
        }
        Ok(Loads { places, locks: self.locks.at(way)?.clone() })
    }

    /// Rate that the bottleneck lets through in a pattern, ways added up, and the bottleneck
    /// itself; `None` where nothing has work. `loads` are those of each way.
    pub(crate) fn rate(
        loads: &IxVec<OfWays, Loads>,
        pattern: &Pattern,
    ) -> Result<Option<(f64, Bottleneck)>, Bug> {
        let mut largest: Option<(f64, Bottleneck)> = None;
        let mut take = |load: f64, at: Bottleneck| {
            if load > 0.0 && largest.is_none_or(|(most, _)| load > most * (1.0 + 1e-9)) {
                largest = Some((load, at));
            }
        };
        let Some(shape) = loads.iter().next() else { return Ok(None) };
        for place in shape.places.ids() {
            let mut sum = 0.0;
            for (way, part) in &pattern.ways {
                sum += part * loads.at(*way)?.places.at(place)?;
            }
            take(sum, Bottleneck::Place(place));
        }
        for root in shape.locks.ids() {
            let mut sum = 0.0;
            for (way, part) in &pattern.ways {
                sum += part * loads.at(*way)?.locks.at(root)?;
            }
            take(sum, Bottleneck::Shaper(root));
        }
        let parts: f64 = pattern.ways.iter().map(|(_, part)| part).sum();
        Ok(largest.map(|(load, at)| (parts / load, at)))
    }
}

/// Rates that a placement lets through: a row for each world, a figure for each pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rates {
    /// Rates by world and pattern; 0 where nothing has work.
    pub(crate) rates: Vec<Vec<f64>>,
    /// The bottleneck of each pattern in the middle world.
    pub(crate) bottlenecks: Vec<Option<Bottleneck>>,
}

/// Judges a tally in all worlds and patterns.
pub(crate) fn judge(problem: &Problem, worlds: &[World], tally: &Tally) -> Result<Rates, Bug> {
    let mut rates = Vec::with_capacity(worlds.len());
    let mut bottlenecks = Vec::new();
    let excess = |flows: Flows| -> Excess {
        let of = |work: &IxVec<OfPlaces, Work>| work.iter().map(|w| w.excess(flows)).collect();
        tally.work.iter().map(of).collect()
    };
    // Most worlds have the flows of the middle one.
    let mut known = (problem.flows, excess(problem.flows));
    for (number, world) in worlds.iter().enumerate() {
        if known.0 != world.flows {
            known = (world.flows, excess(world.flows));
        }
        let mut loads: IxVec<OfWays, Loads> = IxVec::default();
        for way in problem.ways.ids() {
            loads.push(tally.loads(problem, world, way, &known.1)?);
        }
        let mut row = Vec::with_capacity(problem.patterns.len());
        for pattern in &problem.patterns {
            let found = Tally::rate(&loads, pattern)?;
            row.push(found.map_or(0.0, |(rate, _)| rate));
            if number == 0 {
                bottlenecks.push(found.map(|(_, at)| at));
            }
        }
        rates.push(row);
    }
    Ok(Rates { rates, bottlenecks })
}

/// The rate at which the links of each pattern are full, in the same unit, with what the unit takes;
/// `None` where a link's speed is not known.
pub(crate) fn links(problem: &Problem, unit_ns: Option<f64>) -> Result<Vec<Option<f64>>, Bug> {
    let mut all = Vec::new();
    for pattern in &problem.patterns {
        let mut sum = Some(0.0);
        for (way, _) in &pattern.ways {
            let link = problem.ways.at(*way)?.link;
            sum = match (sum, link, unit_ns) {
                (Some(sum), Some(link), Some(unit)) => Some(sum + link * unit / 1e9),
                _ => None,
            };
        }
        all.push(sum);
    }
    Ok(all)
}
