//! TCP through a WireGuard tunnel between two namespaces: a board's figure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rules::{self, Facts, FlowFacts};
use super::{SETTLE, pause, told};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostResult, Live};
use crate::measure::lab::pair::Pair;
use crate::measure::load::{self, Ends, LoadSpec, Moment};
use crate::measure::sample::{CpuCounters, Health};
use crate::model::board::BoardRun;
use crate::model::measurement::Direction;
use crate::model::units::BitRate;

/// Extent of the measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// Seconds of the run that compares with the public table.
    pub comparable: f64,
    /// Runs of each kind for the fuller figure.
    pub repeats: u32,
    /// Seconds of each of those.
    pub seconds: f64,
    /// Seconds before that do not count.
    pub omit: f64,
    /// Streams of those with several.
    pub streams: u32,
}

/// Measurements; cut short by `stop`, the runs so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// One stream, up, nothing omitted.
    pub comparable: BoardRun,
    /// Both directions, one stream and several, in turn.
    pub runs: Vec<BoardRun>,
}

/// Measures. `progress` gets the description of the next run.
///
/// # Errors
/// As [`load::run`]; interrupted if `stop` came before the first run had ended.
pub fn measure(
    pair: &Pair,
    extent: &Extent,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Measured> {
    let ends = Ends {
        lan: Arc::clone(&pair.one),
        wan: Arc::clone(&pair.other),
        wan_address: pair.address,
        // Where the scheduler wants them: that is what the table's figures have.
        cpus: None,
    };
    progress("the comparable run: one stream, host to namespace");
    let first = LoadSpec::tcp(Direction::Up, 1, extent.comparable, 0.0);
    let comparable = once(&ends, &first, stop)?;
    if stop.load(Ordering::Relaxed) {
        return Err(Error::interrupted("bench wireguard --board"));
    }
    let mut runs = Vec::new();
    for repeat in 1..=extent.repeats {
        for streams in [1, extent.streams] {
            for direction in [Direction::Up, Direction::Down] {
                if stop.load(Ordering::Relaxed) {
                    return Ok(Measured { comparable, runs });
                }
                progress(&format!(
                    "round {repeat} of {}: {streams} streams {direction}",
                    extent.repeats
                ));
                let spec = LoadSpec::tcp(direction, streams, extent.seconds, extent.omit);
                match once(&ends, &spec, stop) {
                    Ok(run) => runs.push(run),
                    Err(e) if e.code() == ExitCode::Interrupted => {
                        return Ok(Measured { comparable, runs });
                    }
                    Err(e) => return Err(e),
                }
            }
        }
    }
    Ok(Measured { comparable, runs })
}

fn once(ends: &Ends, spec: &LoadSpec, stop: &AtomicBool) -> Result<BoardRun> {
    let host = Live::here();
    pause(SETTLE, stop);
    let health = Health::read(&host);
    let mut edges = Vec::new();
    let mut edge = |moment: Moment| {
        if moment != Moment::Within {
            edges.push(CpuCounters::read(&host));
        }
    };
    let load = load::run(ends, spec, stop, &mut edge)?;
    let throttled = Health::read(&host).throttled_since(&health);
    let cpus = match told(edges.into_iter().collect::<HostResult<Vec<_>>>())?.as_slice() {
        [open, close] => close.since(open),
        _ => Vec::new(),
    };
    let flows = load.flows.iter().map(|flow| FlowFacts {
        against: None,
        acknowledged: true,
        direction: flow.direction,
        asked: None,
        sent_rate: BitRate::of(flow.window_sent, load.seconds),
        window_bytes: flow.window_bytes,
        bytes: flow.bytes,
        sent_at_most: None,
        unacknowledged: flow.unacknowledged,
        error: flow.error.clone(),
        busiest_thread: flow.busiest_thread,
        header_bytes: flow.header_bytes,
        // With offloads a device counts larger pieces than packets: nothing to compare with.
        device: None,
    });
    let facts = Facts {
        stolen: 0.0,
        seconds: 0.0,
        flows: flows.collect(),
        interrupted: load.interrupted,
        shared_cpus: true,
        mtu: u32::MAX,
        beside: 0,
        throttled,
        changed: Vec::new(),
        differing: Vec::new(),
    };
    let sum = |bytes: fn(&load::FlowResult) -> u64| {
        BitRate::of(load.flows.iter().map(bytes).sum(), load.seconds)
    };
    Ok(BoardRun {
        direction: spec.direction,
        streams: spec.streams,
        seconds: load.seconds,
        sender: sum(|f| f.window_sent),
        receiver: sum(|f| f.window_bytes),
        retransmits: load.flows.iter().map(|f| f.retransmits).sum(),
        cpus,
        refusals: rules::refusals(&facts),
    })
}
