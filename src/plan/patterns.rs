//! What traffic a placement is judged by: both ways at once, and each way alone with its
//! acknowledgements.
//!
//! ```text
//!             WAN device receives       LAN devices receive
//!   both      1 + acks                  1 + acks, shared out
//!   down      1                         acks
//!   up        acks                      1
//! ```
//!
//! A placement that is best for both ways at once may leave a CPU with nothing but
//! acknowledgements when one way is used, and that is how people use a line and measure it.

use super::intake::Intake;
use super::stages::{Traffic, above};
use crate::model::measurement::Direction;
use crate::model::snapshot::{NetDev, Snapshot};
use crate::model::stack::Side;

/// Bits of a full frame on an Ethernet wire: 1518 bytes with its checksum, and 20 of preamble and
/// gap.
const FRAME: f64 = 8.0 * 1538.0;

/// A pattern of traffic.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Pattern {
    /// What it is, in words.
    pub(crate) words: String,
    /// Which way it goes, where the sides are known.
    pub(crate) direction: Option<Direction>,
    /// Packets that each device of the intake receives, of those that one way carries.
    pub(crate) receives: Vec<f64>,
    /// Packets that it sends.
    pub(crate) sends: Vec<f64>,
    /// Full frames per second and way at which a link is full; `None` where a speed is not known.
    pub(crate) link: Option<f64>,
}

/// The patterns to judge by: those asked for, else all that can be told apart.
pub(super) fn patterns(
    snapshot: &Snapshot,
    intake: &Intake<'_>,
    traffic: &Traffic,
) -> Vec<Pattern> {
    let devices = intake.devices.as_slice();
    let pattern = |words: &str, receives: Vec<f64>| Pattern {
        words: words.to_owned(),
        sends: receives.clone(),
        receives,
        ..Pattern::default()
    };
    if !traffic.packets.is_empty() {
        let rate = |d: &&NetDev| traffic.packets.get(&d.name).copied().unwrap_or(0.0);
        let most = devices.iter().map(rate).fold(0.0, f64::max);
        let part = |d: &&NetDev| if most > 0.0 { rate(d) / most } else { 1.0 };
        return vec![pattern("the packets of the load file", devices.iter().map(part).collect())];
    }
    let acks = traffic.costs.ack;
    let Some(Groups { wan, lan, sided, named }) = groups(snapshot, devices) else {
        return vec![pattern("both ways at once", vec![1.0 + acks; devices.len()])];
    };
    let mix = |data: &[f64], other: &[f64]| -> Vec<f64> {
        data.iter().zip(other).map(|(d, o)| d + acks * o).collect()
    };
    let sum = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
    let full = |data: &[f64]| {
        let of = |(device, part): (&&NetDev, &f64)| {
            Some(f64::from(device.speed?) * 1e6 / FRAME / part).filter(|_| *part > 0.0)
        };
        let used = devices.iter().zip(data).filter(|(_, part)| **part > 0.0);
        let limits: Option<Vec<f64>> = used.map(of).collect();
        limits?.into_iter().reduce(f64::min)
    };
    // A device has a link each way.
    let alone: Vec<f64> = wan.iter().zip(&lan).map(|(w, l)| w.max(*l)).collect();
    let all = |direction| {
        let (words, receives, sends, data) = match direction {
            Direction::Both => {
                let all = sum(&mix(&wan, &lan), &mix(&lan, &wan));
                ("both ways at once".to_owned(), all.clone(), all, &sum(&wan, &lan))
            }
            Direction::Down => (named(true), mix(&wan, &lan), mix(&lan, &wan), &alone),
            Direction::Up => (named(false), mix(&lan, &wan), mix(&wan, &lan), &alone),
        };
        let known = sided || direction == Direction::Both;
        let direction = known.then_some(direction);
        Pattern { words, direction, receives, sends, link: full(data) }
    };
    // On one device, or a switch's conduit, the ways differ in nothing.
    let alike = wan == lan;
    let wanted = |direction: &Direction| match traffic.directions.as_slice() {
        [] => *direction == Direction::Both || !alike,
        asked => asked.contains(direction),
    };
    // Each once, however often it was asked for.
    let directions = [Direction::Both, Direction::Down, Direction::Up];
    directions.into_iter().filter(wanted).map(all).collect()
}

/// Which devices the ways lead between.
struct Groups {
    /// Each device's part of the WAN.
    wan: Vec<f64>,
    /// Each device's part of the LAN.
    lan: Vec<f64>,
    /// Whether it is known which is which.
    sided: bool,
    /// What the way from the WAN is called, or the other.
    named: Box<dyn Fn(bool) -> String>,
}

/// The sides of a router; `None` where its devices can't be told apart.
fn groups(snapshot: &Snapshot, devices: &[&NetDev]) -> Option<Groups> {
    let sides: Vec<Vec<Side>> = devices.iter().map(|d| above(snapshot, &d.name).sides).collect();
    // A device without a side may serve users; it is not taken for idle.
    let on = |side: Side| {
        let is = |s: &Vec<Side>| s.contains(&side) || (s.is_empty() && side == Side::Lan);
        let count = sides.iter().filter(|s| is(s)).count();
        let part = |s: &Vec<Side>| if is(s) { 1.0 / count as f64 } else { 0.0 };
        (count > 0).then(|| sides.iter().map(part).collect::<Vec<f64>>())
    };
    if let (Some(wan), Some(lan)) = (on(Side::Wan), on(Side::Lan)) {
        let named = |down: bool| if down { "down" } else { "up" }.to_owned();
        return Some(Groups { wan, lan, sided: true, named: Box::new(named) });
    }
    // Between two devices there are two ways, whatever they are called.
    let [first, second] = devices else { return None };
    let (first, second) = (first.name.clone(), second.name.clone());
    let named = move |down| format!("from {} alone", if down { &second } else { &first });
    let (wan, lan) = (vec![0.0, 1.0], vec![1.0, 0.0]);
    Some(Groups { wan, lan, sided: false, named: Box::new(named) })
}
