//! The measured window in pieces: what arrived, what each CPU did, what the devices moved.

use crate::decide::experiment::{CONFIDENCE, stats};
use crate::machine::host::{HostRead, HostResult};
use crate::measure::load::LoadPiece;
use crate::measure::sample::{CpuCounters, DeviceCounters};
use crate::model::measurement::{CpuUse, DeviceUse, Piece, Precision};

/// The counters at a piece's edge.
pub struct Reading {
    pub(super) cpus: CpuCounters,
    pub(super) devices: DeviceCounters,
}

impl Reading {
    pub(super) fn take(host: &dyn HostRead, devices: &[&str]) -> HostResult<Self> {
        Ok(Self { cpus: CpuCounters::read(host)?, devices: DeviceCounters::read(host, devices)? })
    }
}

/// Use of each CPU from the first reading to the last.
pub(super) fn cpus(readings: &[Reading]) -> Vec<CpuUse> {
    match readings {
        [open, .., close] => close.cpus.since(&open.cpus),
        _ => Vec::new(),
    }
}

/// `readings` are one more than `pieces`: one at each edge.
pub(super) fn pieces(pieces: &[LoadPiece], readings: &[Reading]) -> Vec<Piece> {
    let edges = readings.iter().zip(readings.iter().skip(1));
    pieces.iter().zip(edges).map(|(piece, (then, now))| one(piece, then, now)).collect()
}

/// Precision of the rate over all flows and pieces.
pub(super) fn precision(pieces: &[LoadPiece]) -> Option<Precision> {
    // The last piece is what the window had left.
    let usual = stats::median(&pieces.iter().map(|p| p.seconds).collect::<Vec<_>>())?;
    let whole = pieces.iter().filter(|p| p.seconds > usual / 2.0);
    let rate = |p: &LoadPiece| p.bytes.iter().sum::<u64>() as f64 / p.seconds;
    let rates: Vec<f64> = whole.map(rate).collect();
    let found = stats::series_interval(&rates, CONFIDENCE)?;
    let half_width = found.half / found.mean;
    let wanted = 0.01;
    let needed = (found.wide / found.mean / wanted).powi(2) * usual * rates.len() as f64;
    half_width.is_finite().then(|| Precision {
        half_width: rounded(half_width),
        seconds_for_1_percent: (needed * 10.0).ceil() / 10.0,
    })
}

fn one(piece: &LoadPiece, then: &Reading, now: &Reading) -> Piece {
    let cpus = now.cpus.since(&then.cpus);
    let devices = now.devices.since(&then.devices).devices;
    let share = |of: fn(&CpuUse) -> f64| cpus.iter().map(|c| rounded(of(c))).collect();
    let count = |of: fn(&DeviceUse) -> u64| devices.iter().map(of).collect();
    Piece {
        at: rounded(piece.at),
        seconds: rounded(piece.seconds),
        bytes: piece.bytes.clone(),
        busy: share(|c| c.user + c.system + c.irq + c.softirq),
        softirq: share(|c| c.softirq),
        packets: cpus.iter().map(|c| c.packets).collect(),
        rx_packets: count(|d| d.rx_packets),
        tx_packets: count(|d| d.tx_packets),
        dropped: count(|d| d.dropped),
    }
}

/// Rounds to a tenth of a thousandth: ticks of 10 ms allow no more, and a file holds thousands of
/// these.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}
