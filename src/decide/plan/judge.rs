//! Judges placements: what they let through in every world, capped by the links.

use super::index::Bug;
use super::problem::{Placement, Problem};
use super::worlds::{Rates, World, judge, links, worlds};

/// Weight of the middle world in the local search.
const MIDDLE: f64 = 4.0;

/// Power of what CPUs could do beyond a full link: the local search goes on there, for small packets.
const BEYOND: f64 = 0.05;

/// A placement with what it lets through.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) placement: Placement,
    pub(crate) rates: Rates,
    pub(crate) hand_offs: f64,
    /// Score by which the local search climbs.
    pub(crate) score: f64,
}

/// Judges placements of one problem.
pub(crate) struct Judge<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) worlds: Vec<World>,
    links: Vec<Option<f64>>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(problem: &'a Problem) -> Result<Self, Bug> {
        let most = problem.unit.map(|unit| unit.most);
        Ok(Self { problem, worlds: worlds(problem), links: links(problem, most)? })
    }

    /// Makes a judge by what packets usually take: what tables tell.
    pub(crate) fn usual(problem: &'a Problem, carried: bool) -> Result<Self, Bug> {
        let usual = problem.unit.filter(|_| !carried).map(|unit| unit.usual);
        Ok(Self { problem, worlds: worlds(problem), links: links(problem, usual)? })
    }

    /// Makes a judge within the links, or beyond them where they are full as it is.
    pub(crate) fn within(problem: &'a Problem, carried: bool) -> Result<Self, Bug> {
        if carried { Ok(Self::uncapped(problem)) } else { Self::new(problem) }
    }

    /// Makes a judge that leaves the links out.
    pub(crate) fn uncapped(problem: &'a Problem) -> Self {
        Self { problem, worlds: worlds(problem), links: Vec::new() }
    }

    /// Rate that the links let through in a pattern, at least.
    pub(crate) fn link(&self, pattern: usize) -> f64 {
        self.links.get(pattern).copied().flatten().unwrap_or(f64::INFINITY)
    }

    /// True if the links fill before any CPU, in all worlds.
    pub(crate) fn is_carried(&self, rates: &Rates) -> bool {
        let full = |row: &Vec<f64>| {
            !row.is_empty() && row.iter().enumerate().all(|(p, rate)| *rate >= self.link(p))
        };
        rates.rates.iter().all(full)
    }

    pub(crate) fn judge(&self, placement: &Placement) -> Result<Judged, Bug> {
        let tally = self.problem.tally(placement)?;
        let rates = judge(self.problem, &self.worlds, &tally)?;
        let mut score = 0.0;
        for (number, row) in rates.rates.iter().enumerate() {
            let weight = if number == 0 { MIDDLE } else { 1.0 };
            for (pattern, rate) in row.iter().enumerate() {
                score += weight * libm::log(beyond(*rate, self.link(pattern)).max(1e-12));
            }
        }
        // Loss on the way decides between placements that are equally good.
        score -= 1e-3 * tally.hand_offs + 1e-4 * tally.crossings;
        Ok(Judged { placement: placement.clone(), rates, hand_offs: tally.hand_offs, score })
    }

    /// Figures of a placement that regret is counted in: capped by the links.
    pub(crate) fn figures<'b>(
        &'b self,
        judged: &'b Judged,
    ) -> impl Iterator<Item = (usize, f64)> + 'b {
        let rows = judged.rates.rates.iter().enumerate();
        rows.flat_map(move |(world, row)| {
            row.iter().enumerate().map(move |(p, rate)| (world, rate.min(self.link(p))))
        })
    }

    /// Logarithm of what the CPUs let through in the middle world, whatever the links do: mean of the
    /// patterns.
    pub(crate) fn reach(judged: &Judged) -> f64 {
        let middle = judged.rates.rates.first().map_or(&[] as &[f64], Vec::as_slice);
        let logs: f64 = middle.iter().map(|rate| libm::log(rate.max(1e-12))).sum();
        logs / middle.len().max(1) as f64
    }

    /// Distance of one below another: in the middle world, and in any.
    pub(crate) fn below(&self, one: &Judged, other: &Judged) -> (f64, f64) {
        let (mut middle, mut any) = (0.0_f64, 0.0_f64);
        for ((world, own), (_, theirs)) in self.figures(one).zip(self.figures(other)) {
            if theirs > 0.0 {
                let regret = 1.0 - own / theirs;
                any = any.max(regret);
                if world == 0 {
                    middle = middle.max(regret);
                }
            }
        }
        (middle, any)
    }

    /// The same over all patterns at once (geometric mean), so that one direction makes up for
    /// another.
    pub(crate) fn below_on_the_whole(&self, one: &Judged, other: &Judged) -> (f64, f64) {
        let mut worlds: Vec<(f64, f64)> = vec![(0.0, 0.0); self.worlds.len()];
        for ((world, own), (_, theirs)) in self.figures(one).zip(self.figures(other)) {
            if let Some((sum, patterns)) = worlds.get_mut(world).filter(|_| theirs > 0.0) {
                *sum += libm::log((own / theirs).max(1e-9));
                *patterns += 1.0;
            }
        }
        let below = |(sum, patterns): &(f64, f64)| 1.0 - libm::exp(sum / f64::max(*patterns, 1.0));
        let any = worlds.iter().map(below).fold(0.0, f64::max);
        (worlds.first().map_or(0.0, below).max(0.0), any)
    }
}

/// Rate, or the link's with a little more for what is beyond it.
fn beyond(rate: f64, link: f64) -> f64 {
    if rate <= link { rate } else { link * libm::pow(rate / link, BEYOND) }
}
