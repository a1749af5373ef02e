//! The measured window in pieces: what arrived, what each CPU did, what the devices moved.

use crate::decide::experiment::{level_shift, stats};
use crate::machine::host::{HostRead, HostResult};
use crate::measure::load::{LoadPiece, Moment};
use crate::measure::sample::{CpuCounters, DeviceCounters, Others, Programs, Settings};
use crate::model::cpuset::CpuSet;
use crate::model::measurement::{CpuUse, DeviceUse, Piece, Precision, Shift};
use crate::model::units::BitRate;

/// The counters at a piece's edge.
#[derive(Default)]
pub struct Reading {
    pub(super) cpus: CpuCounters,
    pub(super) devices: DeviceCounters,
    pub(super) beside: Beside,
}

/// State of this machine at a piece's edge: all programs where the window begins and ends, the
/// settings between.
#[derive(Default)]
pub(super) struct Beside {
    programs: Option<Programs>,
    settings: Option<Settings>,
}

impl Beside {
    pub(super) fn look(host: &dyn HostRead, moment: Moment) -> Self {
        match moment {
            Moment::Within => Self { settings: Some(Settings::read(host)), programs: None },
            Moment::WindowOpens | Moment::WindowCloses => {
                Self { programs: Some(Programs::read(host)), settings: None }
            }
        }
    }
}

impl Reading {
    pub(super) fn take(host: &dyn HostRead, devices: &[&str], at: Moment) -> HostResult<Self> {
        Ok(Self {
            cpus: CpuCounters::read(host)?,
            devices: DeviceCounters::read(host, devices)?,
            beside: Beside::look(host, at),
        })
    }
}

/// Settings that were others between the window's ends than `before`.
pub(super) fn changed(readings: &[Reading], before: &Settings) -> Vec<String> {
    let looks = readings.iter().filter_map(|reading| reading.beside.settings.as_ref());
    looks.flat_map(|settings| settings.changed_since(before)).collect()
}

/// CPU time of other programs on `cpus` within the window; `None` where nobody looked.
pub(super) fn others(readings: &[Reading], cpus: &CpuSet) -> Option<Others> {
    let programs = |reading: Option<&Reading>| reading?.beside.programs.clone();
    let (open, close) = (programs(readings.first())?, programs(readings.last())?);
    Some(close.others_since(&open, std::process::id(), cpus))
}

/// The window's pieces but for the last if that is what the window had left: seconds from its
/// opening to the end of each, and rate over all flows in bytes per second.
fn rates(pieces: &[LoadPiece]) -> Vec<(f64, f64)> {
    let usual = stats::median(&pieces.iter().map(|p| p.seconds).collect::<Vec<_>>());
    let whole = pieces.iter().filter(|p| usual.is_some_and(|usual| p.seconds > usual / 2.0));
    whole.map(|p| (p.at, p.bytes.iter().sum::<u64>() as f64 / p.seconds)).collect()
}

/// The change of the rate's level within the window.
pub(super) fn shift(pieces: &[LoadPiece]) -> Option<Shift> {
    let rates = rates(pieces);
    let found = level_shift(&rates.iter().map(|(_, rate)| *rate).collect::<Vec<_>>())?;
    let (at, _) = rates.get(found.at.checked_sub(1)?)?;
    let rate = |bytes: f64| BitRate((bytes * 8.0).round());
    Some(Shift { at: rounded(*at), before: rate(found.before), after: rate(found.after) })
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
    let usual = stats::median(&pieces.iter().map(|p| p.seconds).collect::<Vec<_>>())?;
    let rates: Vec<f64> = rates(pieces).into_iter().map(|(_, rate)| rate).collect();
    let found = stats::series_interval(&rates)?;
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
