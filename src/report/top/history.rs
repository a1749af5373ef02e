//! The last minutes of each CPU and device, for the small curves.

use std::collections::{BTreeMap, VecDeque};

use crate::decide::diagnose::live::busy;
use crate::model::telemetry::Interval;
use crate::model::units::CpuId;

/// Seconds that are kept.
pub(super) const KEPT: f64 = 300.0;
/// Most intervals that are kept, however short they are.
const MOST: usize = 1000;

/// Values of the last minutes, the oldest first; `None` where one was not known.
pub(super) type Curve = VecDeque<Option<f64>>;

/// All curves.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    seconds: VecDeque<f64>,
    /// Busy time, 0 to 1.
    pub(super) cpus: BTreeMap<CpuId, Curve>,
    /// Bits per second received, and sent.
    pub(super) devices: BTreeMap<String, [Curve; 2]>,
}

impl History {
    pub(super) fn take(&mut self, interval: &Interval) {
        let before = self.seconds.len();
        self.seconds.push_back(interval.seconds);
        for cpu in &interval.cpus {
            put(self.cpus.entry(cpu.cpu).or_default(), before, busy(cpu));
        }
        for device in &interval.devices {
            let [rx, tx] = self.devices.entry(device.device.clone()).or_default();
            put(rx, before, device.rx_bits);
            put(tx, before, device.tx_bits);
        }
        let length = self.seconds.len();
        let all = self.cpus.values_mut().chain(self.devices.values_mut().flatten());
        // One that is no longer told of goes on as unknown.
        all.for_each(|curve| curve.resize(length, None));
        while self.seconds.len() > MOST || self.seconds.iter().sum::<f64>() > KEPT {
            self.seconds.pop_front();
            let all = self.cpus.values_mut().chain(self.devices.values_mut().flatten());
            for curve in all {
                curve.pop_front();
            }
        }
        self.cpus.retain(|_, curve| curve.iter().any(Option::is_some));
        self.devices.retain(|_, [rx, tx]| rx.iter().chain(tx.iter()).any(Option::is_some));
    }

    /// The last `seconds` of a curve in so many columns, each the highest value of its time; time before
    /// the first interval is `None`.
    pub(super) fn columns(&self, curve: &Curve, seconds: f64, columns: usize) -> Vec<Option<f64>> {
        let mut found = vec![None; columns];
        let mut age = 0.0;
        for (value, length) in curve.iter().rev().zip(self.seconds.iter().rev()) {
            // Counted from the newest: every column has as much of the time as any other.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let back = (age / seconds * columns as f64) as usize;
            age += length;
            let Some(place) = columns.checked_sub(back + 1).and_then(|at| found.get_mut(at)) else {
                break;
            };
            *place = match (*place, *value) {
                (Some(a), Some(b)) => Some(f64::max(a, b)),
                (a, b) => a.or(b),
            };
        }
        // An interval that is longer than a column fills the columns before its own.
        let mut newer = None;
        let mut told = false;
        for place in found.iter_mut().rev() {
            told |= place.is_some();
            if place.is_none() && told {
                *place = newer;
            }
            newer = *place;
        }
        let length = age.min(seconds) / seconds * columns as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let unknown = columns.saturating_sub(length.ceil() as usize);
        found.iter_mut().take(unknown).for_each(|place| *place = None);
        found
    }
}

fn put(curve: &mut Curve, before: usize, value: Option<f64>) {
    if curve.len() < before {
        curve.resize(before, None);
    }
    curve.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::telemetry::DeviceRates;

    fn interval(seconds: f64, bits: f64) -> Interval {
        let device = DeviceRates {
            device: "eth0".into(),
            rx_bits: Some(bits),
            rx_packets: None,
            tx_bits: None,
            tx_packets: None,
            dropped: None,
        };
        Interval { seconds, devices: vec![device], ..Interval::default() }
    }

    #[test]
    fn a_column_has_the_highest_value_of_its_time() {
        let mut history = History::default();
        for bits in 1..=8 {
            history.take(&interval(1.0, f64::from(bits)));
        }
        let curve = &history.devices["eth0"][0];
        assert_eq!(history.columns(curve, 8.0, 4), [2.0, 4.0, 6.0, 8.0].map(Some));
        assert_eq!(history.columns(curve, 16.0, 4), [None, None, Some(4.0), Some(8.0)]);
        assert_eq!(history.columns(curve, 4.0, 2), [6.0, 8.0].map(Some));
    }

    #[test]
    fn long_intervals_fill_their_columns_and_old_ones_go() {
        let mut history = History::default();
        history.take(&interval(10.0, 1.0));
        history.take(&interval(10.0, 2.0));
        let curve = history.devices["eth0"][0].clone();
        assert_eq!(history.columns(&curve, 20.0, 4), [1.0, 1.0, 2.0, 2.0].map(Some));
        for _ in 0..2000 {
            history.take(&interval(1.0, 3.0));
        }
        assert!(history.seconds.len() <= 300, "{}", history.seconds.len());
        for _ in 0..301 {
            history.take(&Interval { seconds: 1.0, ..Interval::default() });
        }
        assert!(history.devices.is_empty(), "a device that is gone is forgotten");
    }
}
