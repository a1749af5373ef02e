//! Where the line, and not the router, sets the rate; and where one direction starves the other.
//!
//! At 98 % of what a link can carry, equal rates say nothing of the settings. Where all candidates
//! get there in a direction, that direction is compared by what they still differ in: how many
//! packets a second of CPU time forwards. As long as one stays below, rates are compared: it may
//! spend little CPU time on a packet and yet carry less.

use std::collections::BTreeMap;

use serde::Serialize;

use super::stats;
use crate::model::ethernet::{Encapsulation, tcp_ceiling, tcp_payload, udp_ceiling};
use crate::model::goal::Quantity;
use crate::model::measurement::{Cell, Direction, EvidenceClass, Experiment, Protocol, Scenario};
use crate::model::starved::{Rates, starved};
use crate::model::units::BitRate;

/// From this share of what the line can carry, a rate tells of the line and not of the router.
const CENSORED_FROM: f64 = 0.98;

/// A direction in which candidates fill the line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtLine {
    /// Which way.
    pub direction: Direction,
    /// Candidates most of whose cells do.
    pub candidates: Vec<String>,
    /// True if the direction is compared by CPU time for each packet instead of by rate.
    pub by_cpu: bool,
}

/// The most payload that the line carries in one direction; `None` in a lab, where there is none.
#[must_use]
pub fn ceiling(experiment: &Experiment) -> Option<BitRate> {
    let scenario = &experiment.scenario;
    let encapsulation = encapsulation(scenario);
    let link = experiment.link.filter(|l| l.0.is_finite() && l.0 > 0.0)?;
    Some(match scenario.protocol {
        Protocol::Tcp => tcp_ceiling(link, encapsulation, scenario.mtu),
        Protocol::Udp => udp_ceiling(link, encapsulation, scenario.mtu),
    })
}

fn encapsulation(scenario: &Scenario) -> Encapsulation {
    match (scenario.has("wireguard"), scenario.has("pppoe"), scenario.has("vlan")) {
        (true, ..) => Encapsulation::WireGuard,
        (_, true, true) => Encapsulation::PppoeVlan,
        (_, true, false) => Encapsulation::Pppoe,
        (_, false, true) => Encapsulation::Vlan,
        (_, false, false) => Encapsulation::Plain,
    }
}

/// TCP payload of a full packet of a scenario, bytes. IPv6's longer header is not counted: 1.4 %.
#[must_use]
pub fn payload(scenario: &Scenario) -> u32 {
    tcp_payload(encapsulation(scenario), scenario.mtu)
}

/// True if one of the cell's directions fills the line.
pub(super) fn fills(cell: &Cell, ceiling: Option<BitRate>) -> bool {
    let enough = |line: BitRate| {
        cell.measurement.flows.iter().any(|f| f.goodput.0 >= CENSORED_FROM * line.0)
    };
    ceiling.is_some_and(enough)
}

/// Natural logarithm of the packets that a second of CPU time forwards: more is better. `None`
/// where the record has no such figures.
pub(super) fn per_cpu_second(cell: &Cell, class: EvidenceClass) -> Option<f64> {
    let measurement = &cell.measurement;
    let packets = Quantity::PacketRate.of(measurement, class)?;
    let busy = Quantity::CpuPerGigabit.of(measurement, class)? * measurement.rate().0 / 1e9;
    let each = packets / busy;
    (each.is_finite() && each > 0.0).then(|| each.ln())
}

/// The directions in which candidates fill the line.
pub(super) fn at_line(experiment: &Experiment) -> Vec<AtLine> {
    let ceiling = ceiling(experiment);
    if ceiling.is_none() {
        return Vec::new();
    }
    let of = |direction: Direction| {
        let usable = || {
            let cells = experiment.cells.iter();
            cells.filter(move |c| c.measurement.direction == direction && usable_rate(c).is_some())
        };
        let (mut candidates, mut measured) = (Vec::new(), 0);
        for candidate in &experiment.candidates {
            let (mut all, mut full) = (0, 0);
            for cell in usable().filter(|c| c.candidate == candidate.name) {
                all += 1;
                full += usize::from(fills(cell, ceiling));
            }
            measured += usize::from(all > 0);
            if full * 2 > all {
                candidates.push(candidate.name.clone());
            }
        }
        let known = || usable().all(|c| per_cpu_second(c, experiment.class).is_some());
        let by_cpu = measured > 1 && candidates.len() == measured && known();
        AtLine { direction, candidates, by_cpu }
    };
    let each = experiment.directions.iter().map(|d| of(*d));
    each.filter(|at| !at.candidates.is_empty()).collect()
}

/// Rate of a cell in bit/s if it counts: not refused, and a positive number (a zero has no
/// logarithm, and a load that moved nothing measured nothing).
#[must_use]
pub fn usable_rate(cell: &Cell) -> Option<f64> {
    let rate = cell.measurement.rate().0;
    (cell.measurement.is_valid() && rate.is_finite() && rate > 0.0).then_some(rate)
}

/// Refuses the cells of both directions in which one starved: against the same candidate's cells of
/// each direction alone in the same block. Without those nothing can be said.
pub fn refuse_starved(experiment: &mut Experiment) {
    let mut alone: BTreeMap<(u32, String, Direction), Vec<f64>> = BTreeMap::new();
    for cell in &experiment.cells {
        let direction = cell.measurement.direction;
        if let (Some(rate), true) = (usable_rate(cell), direction != Direction::Both) {
            alone.entry((cell.block, cell.candidate.clone(), direction)).or_default().push(rate);
        }
    }
    let both = experiment
        .cells
        .iter_mut()
        .filter(|c| c.measurement.direction == Direction::Both && c.measurement.is_valid());
    for cell in both {
        let single = |direction| {
            let rates = alone.get(&(cell.block, cell.candidate.clone(), direction))?;
            stats::mean(rates).map(BitRate)
        };
        let together = |direction| {
            let flows = &cell.measurement.flows;
            flows.iter().find(|f| f.direction == direction).map(|f| f.goodput)
        };
        let rates = |of: &dyn Fn(Direction) -> Option<BitRate>| {
            Some(Rates { down: of(Direction::Down)?, up: of(Direction::Up)? })
        };
        if let (Some(alone), Some(together)) = (rates(&single), rates(&together)) {
            cell.measurement.refusals.extend(starved(alone, together));
        }
    }
}
