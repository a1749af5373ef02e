//! The planner's question as numbers: CPUs, lines, queues and streams of packets, what each stage
//! costs, and how much work a placement puts on which CPU.
//!
//! ```text
//!   line on CPU a ── interrupt stage of its queues, completions ──▶ work of a
//!   queue, no RPS ── stack stage ─────────────────────────────────▶ work of a
//!   queue, mask m ── (stack stage + take) / |m| ──────────────────▶ work of each CPU of m
//!                 └─ give ────────────────────────────────────────▶ work of a
//!   shaper ───────── the work under its lock, whichever CPU does it ▶ time of the lock
//! ```
//!
//! Terms: a *way* is a direction of the traffic (from the WAN, from the LAN), a *stream* the
//! packets of one queue on one way up its device tree, a *line* an interrupt or the thread that
//! polls instead of it, an *upper* device one above a queue's that could steer a second time.
//! Work is counted in NATed stack stages per packet of data of a way.

use super::index::{
    Bug, IxVec, LineIx, OfLines, OfPlaces, OfQueues, OfRoots, OfUppers, OfWays, PlaceIx, QueueIx,
    RootIx, UpperIx, WayIx,
};
use super::unsteered::Unsteered;
use crate::model::cpuset::CpuSet;
use crate::model::knob::Knob;
use crate::model::measurement::Direction;
use crate::model::units::CpuId;

/// CPUs of an RPS mask, ascending; empty is off.
pub(crate) type Mask = Vec<PlaceIx>;

/// A CPU that work is on or may be put on.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) id: CpuId,
    /// 1.0 is a CPU of capacity 1024; less what other work takes.
    pub(crate) capacity: f64,
    /// True if the planner may put work on it: online, not isolated, and no sibling of an isolated
    /// CPU.
    pub(crate) usable: bool,
    /// Places of the same core, without this one.
    pub(crate) siblings: Vec<PlaceIx>,
    /// CPUs with the same number share a cluster and a last level cache.
    pub(crate) cluster: usize,
    pub(crate) node: Option<u32>,
    /// True if no usable CPU is much bigger.
    pub(crate) big: bool,
}

/// A source of packets on a CPU: an interrupt line, or the thread that polls or sends.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Setting that places the line; `None` where nothing can.
    pub(crate) knob: Option<Knob>,
    /// True if it is a thread.
    pub(crate) thread: bool,
    /// Device or radio of the line.
    pub(crate) device: String,
    /// Number that the lines of a pair (receive and transmit of one queue) have in common.
    pub(crate) pair: u32,
    /// CPUs that it is allowed on today.
    pub(crate) before: Option<CpuSet>,
    /// Place where the line is today.
    pub(crate) home: Option<PlaceIx>,
    /// True if the line has to stay there.
    pub(crate) fixed: bool,
    pub(crate) node: Option<u32>,
    /// Completions and sending that run with it, on each way.
    pub(crate) completion: IxVec<OfWays, f64>,
}

/// A receive queue.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) device: String,
    pub(crate) index: u32,
    /// The line on which its packets arrive; `None` where the sender's CPU brings them.
    pub(crate) line: Option<LineIx>,
    /// True if the queue has an RPS mask at all.
    pub(crate) has_mask: bool,
    /// Reason why RPS is not for this queue, where it is not.
    pub(crate) unsteered: Option<Unsteered>,
    /// Today's mask.
    pub(crate) before: Mask,
}

/// A queue of a device above, whose mask steers a second time.
#[derive(Debug, Clone)]
pub(crate) struct Upper {
    pub(crate) device: String,
    pub(crate) queue: u32,
    pub(crate) before: Mask,
}

/// Packets of one queue on one way up through the devices above it.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) queue: QueueIx,
    /// Devices above that have a mask of their own, from below.
    pub(crate) uppers: Vec<UpperIx>,
    /// Packets on each way, for each packet of data of that way.
    pub(crate) rate: IxVec<OfWays, Rate>,
    /// Interrupt stage: driver, NAPI, GRO.
    pub(crate) interrupt: f64,
    /// Stack stage below the first upper device.
    pub(crate) first: f64,
    /// The rest of it.
    pub(crate) stack: f64,
    /// Shapers that its data passes on each way, with the work under their lock.
    pub(crate) shapers: Vec<(RootIx, f64)>,
}

/// Number of packets of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rate {
    /// Packets of data.
    pub(crate) data: f64,
    /// Acknowledgements.
    pub(crate) acks: f64,
}

/// A shaper at the root of a device.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) device: String,
    pub(crate) kind: String,
}

/// A direction of the traffic.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// The direction; `None` where the sides of the router are not known.
    pub(crate) direction: Option<Direction>,
    pub(crate) words: String,
    /// Packets of data per second at which its links are full; `None` where a speed is not known.
    pub(crate) link: Option<f64>,
    /// Work that every usable CPU has for each packet of data, e.g. encryption.
    pub(crate) everywhere: f64,
}

/// A pattern of traffic that a placement is judged by: ways that run at once, with their parts.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// The direction whose rate the pattern gives; where the sides are not known, by the order of
    /// devices.
    pub(crate) slot: Option<Direction>,
    /// The direction, where the sides are known.
    pub(crate) direction: Option<Direction>,
    pub(crate) words: String,
    pub(crate) ways: Vec<(WayIx, f64)>,
}

/// Cost of handing a packet to another CPU by RPS (see [`super::costs::Costs`]).
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandOff {
    pub(crate) give: f64,
    pub(crate) take: f64,
    pub(crate) cross: f64,
}

/// The question.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) places: IxVec<OfPlaces, Place>,
    pub(crate) lines: IxVec<OfLines, Line>,
    pub(crate) queues: IxVec<OfQueues, Queue>,
    pub(crate) uppers: IxVec<OfUppers, Upper>,
    pub(crate) roots: IxVec<OfRoots, Root>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) ways: IxVec<OfWays, Way>,
    pub(crate) patterns: Vec<Pattern>,
    /// The place where immovable lines and other programs run.
    pub(crate) housekeeping: Option<PlaceIx>,
    pub(crate) hand_off: HandOff,
    /// True if masks of several CPUs are wanted at all.
    pub(crate) wide: bool,
    /// Nanoseconds that 1.0 takes on a CPU of capacity 1024; `None` where nobody knows.
    pub(crate) unit: Option<super::cores::Unit>,
    /// SMT: what a CPU can do while its sibling is busy, of what it can do alone.
    pub(crate) smt: Smt,
    /// Flows of the traffic.
    pub(crate) flows: super::worlds::Flows,
}

/// Part of its work that a CPU can do while its sibling is busy: usually, at least, at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Smt {
    pub(crate) low: f64,
    pub(crate) mid: f64,
    pub(crate) high: f64,
}

/// An answer: a place for each line, a mask for each queue and for each device above.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Placement {
    pub(crate) lines: IxVec<OfLines, Option<PlaceIx>>,
    pub(crate) masks: IxVec<OfQueues, Mask>,
    pub(crate) uppers: IxVec<OfUppers, Mask>,
}

/// Work of a CPU on one way, apart by what it depends on: worlds weigh the parts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Work {
    /// Work that no world changes: completions, sending, stack stages of acknowledgements.
    pub(crate) rest: f64,
    /// Interrupt stages of acknowledgements.
    pub(crate) interrupt: f64,
    /// Hand-offs of acknowledgements.
    pub(crate) handed: f64,
    /// Interrupt stages of data, its hand-offs by this CPU, and the part of the data they are of.
    pub(crate) data_interrupt: f64,
    pub(crate) data_give: f64,
    pub(crate) arriving: f64,
    /// Stack stages of data, its hand-offs to this CPU, and the part of the data they are of.
    pub(crate) data_stack: f64,
    pub(crate) data_take: f64,
    pub(crate) handled: f64,
}

/// Work and hand-offs that a placement brings about, by place.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Work by way and place.
    pub(crate) work: IxVec<OfWays, IxVec<OfPlaces, Work>>,
    /// Time of each shaper's lock by way.
    pub(crate) locks: IxVec<OfWays, IxVec<OfRoots, f64>>,
    /// Packets of data handed from one CPU to another: mean over the ways.
    pub(crate) hand_offs: f64,
    /// Packets of data that change cluster, cache or memory node.
    pub(crate) crossings: f64,
}

impl Problem {
    /// Places that work may be put on.
    pub(crate) fn usable(&self) -> impl Iterator<Item = PlaceIx> + '_ {
        self.places.each().filter(|(_, place)| place.usable).map(|(at, _)| at)
    }

    /// Today's placement.
    pub(crate) fn today(&self) -> Placement {
        Placement {
            lines: self.lines.iter().map(|line| line.home).collect(),
            masks: self.queues.iter().map(|queue| queue.before.clone()).collect(),
            uppers: self.uppers.iter().map(|upper| upper.before.clone()).collect(),
        }
    }

    /// True if some packets are handled nobody knows where: on the CPU of whoever sends them.
    pub(crate) fn is_of_senders(&self, placement: &Placement) -> Result<bool, Bug> {
        for stream in &self.streams {
            let queue = self.queues.at(stream.queue)?;
            if queue.line.is_none() && placement.masks.at(stream.queue)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds up the work and hand-offs that a placement brings about.
    pub(crate) fn tally(&self, placement: &Placement) -> Result<Tally, Bug> {
        let places = self.places.len();
        let mut tally = Tally {
            work: self.ways.ids().map(|_| IxVec::from_fn(places, |_| Work::default())).collect(),
            locks: self.ways.ids().map(|_| self.roots.ids().map(|_| 0.0).collect()).collect(),
            hand_offs: 0.0,
            crossings: 0.0,
        };
        for (index, line) in self.lines.each() {
            self.complete(&mut tally, index, line, *placement.lines.at(index)?)?;
        }
        for (way, it) in self.ways.each().filter(|(_, it)| it.everywhere > 0.0) {
            for place in self.usable() {
                tally.work.at_mut(way)?.at_mut(place)?.rest += it.everywhere;
            }
        }
        let mut targets = Vec::new();
        for stream in &self.streams {
            self.flow(&mut tally, stream, placement, &mut targets)?;
        }
        let ways = self.ways.len().max(1) as f64;
        tally.hand_offs /= ways;
        tally.crossings /= ways;
        Ok(tally)
    }

    /// Completions run where their line is.
    fn complete(
        &self,
        tally: &mut Tally,
        index: LineIx,
        line: &Line,
        at: Option<PlaceIx>,
    ) -> Result<(), Bug> {
        if line.completion.iter().all(|work| *work == 0.0) {
            return Ok(());
        }
        let Some(place) = at.or_else(|| self.roaming(index, line)) else { return Ok(()) };
        for (way, work) in line.completion.each() {
            tally.work.at_mut(way)?.at_mut(place)?.rest += work;
        }
        Ok(())
    }

    /// Place of a thread that the scheduler moves: on one CPU at a time, and on a small one as well
    /// as on any.
    fn roaming(&self, index: LineIx, line: &Line) -> Option<PlaceIx> {
        let allowed = |place: &Place| {
            place.usable && line.before.as_ref().is_none_or(|set| set.contains(place.id))
        };
        let mut own: Vec<PlaceIx> =
            self.places.each().filter(|(_, p)| allowed(p)).map(|(at, _)| at).collect();
        if own.is_empty() {
            own = self.usable().collect();
        }
        let size = |at: &PlaceIx| self.places.at(*at).map_or(0.0, |p| p.capacity);
        own.sort_by(|a, b| size(a).total_cmp(&size(b)).then(a.cmp(b)));
        own.get(index.number() % own.len().max(1)).copied()
    }

    /// Adds a stream's stages. `targets` is room for where its packets are handled.
    fn flow(
        &self,
        tally: &mut Tally,
        stream: &Stream,
        placement: &Placement,
        targets: &mut Vec<(PlaceIx, f64)>,
    ) -> Result<(), Bug> {
        let queue = self.queues.at(stream.queue)?;
        let mask = placement.masks.at(stream.queue)?;
        targets.clear();
        let line = queue.line.map(|l| self.lines.at(l)).transpose()?;
        let at = queue.line.map(|l| placement.lines.at(l)).transpose()?.copied().flatten();
        let roaming = match (queue.line, line) {
            (Some(index), Some(line)) => self.roaming(index, line),
            _ => None,
        };
        targets.extend(at.or(roaming).map(|place| (place, 1.0)));
        let far = match (line.and_then(|l| l.node), at) {
            (Some(node), Some(at)) => self.places.at(at)?.node.is_some_and(|own| own != node),
            _ => false,
        };
        for (way, rate) in stream.rate.each() {
            for (place, part) in targets.iter() {
                let work = tally.work.at_mut(way)?.at_mut(*place)?;
                let cost = stream.interrupt + if far { self.hand_off.cross } else { 0.0 };
                work.interrupt += rate.acks * part * cost;
                work.data_interrupt += rate.data * part * cost;
                work.arriving += rate.data * part;
            }
            tally.crossings += if far { rate.data } else { 0.0 };
        }
        if !mask.is_empty() {
            self.hand_over(tally, stream, targets, mask)?;
        }
        let mut first = stream.first;
        for upper in &stream.uppers {
            let mask = placement.uppers.at(*upper)?;
            if mask.is_empty() {
                continue;
            }
            self.handle(tally, stream, targets, first, false)?;
            first = 0.0;
            // One hash over one mask gives the CPU that the packet is on.
            let same = targets.len() == mask.len()
                && targets.iter().zip(mask).all(|((place, _), other)| place == other);
            if !same {
                self.hand_over(tally, stream, targets, mask)?;
            }
        }
        self.handle(tally, stream, targets, first + stream.stack, true)
    }

    /// Hands a stream's packets over to a mask.
    fn hand_over(
        &self,
        tally: &mut Tally,
        stream: &Stream,
        targets: &mut Vec<(PlaceIx, f64)>,
        mask: &Mask,
    ) -> Result<(), Bug> {
        let part = 1.0 / mask.len() as f64;
        let HandOff { give, take, cross } = self.hand_off;
        for (from, share) in targets.iter() {
            let cluster = self.places.at(*from)?.cluster;
            for to in mask {
                let moved = share * part;
                let crosses = self.places.at(*to)?.cluster != cluster;
                let own = from == to;
                // On its own CPU a packet still goes by way of the backlog.
                let taking =
                    if own { take / 2.0 } else { take } + if crosses { cross } else { 0.0 };
                let giving = if own { 0.0 } else { give };
                for (way, rate) in stream.rate.each() {
                    let work = tally.work.at_mut(way)?;
                    let giver = work.at_mut(*from)?;
                    giver.handed += rate.acks * moved * giving;
                    giver.data_give += rate.data * moved * giving;
                    let taker = work.at_mut(*to)?;
                    taker.handed += rate.acks * moved * taking;
                    taker.data_take += rate.data * moved * taking;
                    if !own {
                        tally.hand_offs += rate.data * moved;
                    }
                    if crosses {
                        tally.crossings += rate.data * moved;
                    }
                }
            }
        }
        if targets.is_empty() {
            // Nobody brings it: the mask alone says where a veth's packets are handled.
            for to in mask {
                for (way, rate) in stream.rate.each() {
                    let taker = tally.work.at_mut(way)?.at_mut(*to)?;
                    taker.handed += rate.acks * part * take;
                    taker.data_take += rate.data * part * take;
                    tally.hand_offs += rate.data * part;
                }
            }
        }
        targets.clear();
        targets.extend(mask.iter().map(|place| (*place, part)));
        Ok(())
    }

    /// Adds a part of the stack stage where the packets are; the last part has the shapers.
    fn handle(
        &self,
        tally: &mut Tally,
        stream: &Stream,
        targets: &[(PlaceIx, f64)],
        cost: f64,
        last: bool,
    ) -> Result<(), Bug> {
        for (place, part) in targets {
            let capacity = self.places.at(*place)?.capacity;
            for (way, rate) in stream.rate.each() {
                let work = tally.work.at_mut(way)?.at_mut(*place)?;
                work.rest += rate.acks * part * cost;
                work.data_stack += rate.data * part * cost;
                if last {
                    work.handled += rate.data * part;
                    for (root, held) in &stream.shapers {
                        *tally.locks.at_mut(way)?.at_mut(*root)? +=
                            rate.data * part * held / capacity;
                    }
                }
            }
        }
        Ok(())
    }

    /// The lines of a card, by its device's name.
    pub(crate) fn lines_of<'a>(&'a self, device: &'a str) -> impl Iterator<Item = LineIx> + 'a {
        self.lines.each().filter(move |(_, line)| line.device == device).map(|(index, _)| index)
    }

    /// The queues whose packets a line brings.
    pub(crate) fn queues_of(&self, line: LineIx) -> impl Iterator<Item = QueueIx> + '_ {
        self.queues.each().filter(move |(_, q)| q.line == Some(line)).map(|(index, _)| index)
    }

    /// True if packets come in or are completed by a line.
    pub(crate) fn works(&self, line: LineIx) -> Result<bool, Bug> {
        for stream in &self.streams {
            if stream.rate.iter().any(|rate| rate.data + rate.acks > 0.0)
                && self.queues.at(stream.queue)?.line == Some(line)
            {
                return Ok(true);
            }
        }
        Ok(self.lines.at(line)?.completion.iter().any(|work| *work > 0.0))
    }

    /// CPUs as a set.
    pub(crate) fn set(&self, mask: &[PlaceIx]) -> Result<CpuSet, Bug> {
        let mut set = CpuSet::empty();
        for place in mask {
            set.insert(self.places.at(*place)?.id);
        }
        Ok(set)
    }

    /// The places of those CPUs that are here.
    pub(crate) fn mask(&self, set: &CpuSet) -> Mask {
        self.places.each().filter(|(_, p)| set.contains(p.id)).map(|(at, _)| at).collect()
    }
}
