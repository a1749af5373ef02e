//! Gain that a plan is expected to bring, in one line: how many times as much, in which range, and
//! which part is full first then.

use std::collections::BTreeMap;

use serde::Serialize;

use super::candidates::{Candidates, Request};
use super::cost::{Ceiling, Model, Prediction, Range};
use super::index::Bug;
use super::name;
use crate::model::knob::Knob;
use crate::model::measurement::Direction;
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;

/// Less than this is no gain.
const NONE: f64 = 1.05;

/// The range over the worlds is made wider: a ratio to this power at its ends ...
const WIDER: f64 = 1.25;
/// ... and at least so much each way. Then 8 of 10 measured ratios lie in it (`docs/planning.md`).
pub const LEAST: f64 = 1.4;

/// A ratio with the range that was calibrated on published outcomes.
#[must_use]
pub fn calibrated(times: Range) -> Range {
    widened(times, LEAST)
}

/// A ratio with its range over the worlds made wider, by so much each way at least.
#[must_use]
pub fn widened(times: Range, least: f64) -> Range {
    let wider = |figure: f64| libm::pow(figure.max(1e-6), WIDER);
    Range {
        low: wider(times.low).min(times.mid / least),
        mid: times.mid,
        high: wider(times.high).max(times.mid * least),
    }
}

/// The gain that is expected of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// The direction that gains most, to which the figures belong.
    pub direction: Direction,
    /// Multiple of the rate as found.
    pub times: Range,
    /// The part that is full first then.
    pub bottleneck: String,
    /// True if the links are full as found.
    pub carried: bool,
    /// Gain with packets so small that no link is full first, where only they gain.
    pub small: Option<(Direction, Range)>,
}

impl Gain {
    /// Makes the gain of one state over another.
    #[must_use]
    pub fn of(now: &Prediction, then: &Prediction) -> Option<Self> {
        let (direction, times) = most(&|direction| then.times(now, direction))?;
        let times = calibrated(times);
        let alone = !now.carried && times.mid < NONE;
        let small = most(&|direction| then.ratio(now, direction));
        let small = small.filter(|(_, times)| alone && times.mid >= NONE);
        let small = small.map(|(direction, times)| (direction, calibrated(times)));
        Some(Self { direction, times, bottleneck: then.full_first(), carried: now.carried, small })
    }

    /// True if the gain is worth a word.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.carried && self.times.mid >= NONE
    }

    /// Words for the gain: `about 1.8 times down (1.4 to 2.3), bottleneck then: CPU2`.
    #[must_use]
    pub fn words(&self) -> String {
        let about = |direction: Direction, times: Range| {
            let way = match direction {
                Direction::Down => "down",
                Direction::Up => "up",
                Direction::Both => "both ways",
            };
            format!(
                "about {:.1} times {way} ({:.1} to {:.1}), bottleneck then: {}",
                times.mid,
                times.low.max(0.9),
                times.high,
                self.bottleneck
            )
        };
        match self.small {
            _ if self.is_any() => about(self.direction, self.times),
            Some((direction, times)) => format!(
                "none with full frames, which fill the links first; with small ones {}",
                about(direction, times)
            ),
            None => "none".into(),
        }
    }
}

/// The direction with the largest figure; of about equal ones the first.
fn most(figure: &dyn Fn(Direction) -> Option<Range>) -> Option<(Direction, Range)> {
    let mut best: Option<(Direction, Range)> = None;
    for direction in [Direction::Down, Direction::Up, Direction::Both] {
        let Some(times) = figure(direction) else { continue };
        if best.is_none_or(|(_, most)| times.mid > most.mid * 1.05) {
            best = Some((direction, times));
        }
    }
    best
}

/// A candidate with what it lets through.
#[derive(Debug, Clone, Serialize)]
pub struct Rated {
    /// Settings of the candidate.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// Rate that the bottleneck lets through by direction, in NATed stack stages of a CPU of
    /// capacity 1024, over the worlds; links are not counted. `None` where the model knows nothing.
    pub rate: Option<BTreeMap<Direction, Range>>,
    /// Rate that bottleneck and links let through, where it is known how much the links carry.
    pub capped: Option<BTreeMap<Direction, Range>>,
    /// Packets of data per second each way, both ways at once, with the 95 % interval that fitted costs
    /// earned (`plan --costs`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Range>,
    /// The ceilings of the shapers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shapers: Vec<Ceiling>,
}

/// Every candidate with what it lets through: for down, up and both; where the sides are not known
/// or make no difference, one figure serves.
///
/// # Errors
/// A bug of the planner.
pub fn rated(
    snapshot: &Snapshot,
    request: &Request,
    candidates: &Candidates,
) -> Result<Vec<Rated>, Bug> {
    let model = Model::new(snapshot, &request.traffic, request.profile);
    let mut all = Vec::new();
    for candidate in candidates.all() {
        let told = model.predict(candidate)?;
        let rate = told.as_ref().map(|p| filled(&p.rates));
        let capped = told.as_ref().filter(|p| !p.capped.is_empty()).map(|p| filled(&p.capped));
        let packets = told.as_ref().and_then(|p| p.packets_within(Direction::Both));
        let shapers = told.map_or_else(Vec::new, |p| p.shapers);
        all.push(Rated { candidate: candidate.clone(), rate, capped, packets, shapers });
    }
    Ok(all)
}

fn filled(rates: &BTreeMap<Direction, Range>) -> BTreeMap<Direction, Range> {
    let mut all = BTreeMap::new();
    for direction in [Direction::Down, Direction::Up, Direction::Both] {
        let other = rates.get(&Direction::Both).or_else(|| rates.values().next());
        if let Some(range) = rates.get(&direction).or(other) {
            all.insert(direction, *range);
        }
    }
    all
}

/// The first lines of a plan: what the candidate is expected to bring, and whether something else
/// is the larger step.
///
/// # Errors
/// A bug of the planner.
pub fn headline(
    snapshot: &Snapshot,
    request: &Request,
    candidates: &Candidates,
    chosen: &Candidate,
) -> Result<String, Bug> {
    let model = Model::new(snapshot, &request.traffic, request.profile);
    let found = candidates.get(name::AS_FOUND);
    let now = found.map(|c| model.predict(c)).transpose()?.flatten();
    let then = model.predict(chosen)?;
    let left = candidates.left_out.iter().find(|(left, _)| *left == name::PLANNED);
    let Some((now, then)) = now.zip(then) else {
        if let Some((_, why)) = left {
            return Ok(format!("expected gain: none: {why}"));
        }
        return Ok("expected gain: not known, for it is not known which CPUs handle the packets \
                   as it is"
            .into());
    };
    let gain = Gain::of(&now, &then);
    let mut line = format!("expected gain: {}", gain.as_ref().map_or("none".into(), Gain::words));
    if now.carried {
        line += ": the links are full before any CPU; leave it";
    } else if snapshot.usable_cpus().len() < 2 {
        line += "; one CPU: nothing to spread";
    }
    for words in then.shapers.iter().filter_map(Ceiling::words) {
        line += &format!("; {words}");
    }
    let offloads = chosen.changes().any(|change| change.knob == Knob::FlowOffload);
    if now.carried || offloads {
        return Ok(line);
    }
    if let Some(hardware) = candidates.get(name::HARDWARE) {
        line += &format!(
            "; hardware flow offload is the larger step, with it established flows pass the CPUs by \
             (linerate plan --candidate {})",
            hardware.name
        );
        return Ok(line);
    }
    let both = candidates.get(name::OFFLOAD_PLANNED).or_else(|| candidates.get(name::FLOWTABLE));
    let Some(both) = both else {
        let lists = candidates.get(name::GRO_LIST).filter(|_| snapshot.usable_cpus().len() < 2);
        if let Some(lists) = lists {
            line += &format!("; worth a measurement: linerate plan --candidate {}", lists.name);
        }
        return Ok(line);
    };
    let Some(offloaded) = model.predict(both)? else { return Ok(line) };
    let more = Gain::of(&now, &offloaded).filter(Gain::is_any);
    let alone = candidates.get(name::FLOWTABLE).map(|c| model.predict(c)).transpose()?.flatten();
    let larger = alone.is_some_and(|alone| {
        let step = |p: &Prediction| now.largest / p.largest;
        step(&alone) > step(&then) * 1.02
    });
    if let Some(more) = more.filter(|_| larger) {
        line += &format!(
            "; flow offload is the larger step, with it {} (linerate plan --candidate {})",
            more.words(),
            both.name
        );
    }
    Ok(line)
}
