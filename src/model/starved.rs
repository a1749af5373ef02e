//! Both directions at once against each alone: whether one starved.

use super::measurement::{Direction, Refusal, RefusalCode};
use super::units::BitRate;

/// A direction below this share of what it does alone is starved ...
const STARVED_SHARE: f64 = 0.30;
/// ... when the other is above this share of its own.
const THRIVING_SHARE: f64 = 0.90;

/// Rates of both directions, each alone or both at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// WAN to LAN.
    pub down: BitRate,
    /// LAN to WAN.
    pub up: BitRate,
}

/// True if a direction starved while both ran: its acknowledgements are stuck behind the other's
/// data, so that the sum says nothing about forwarding.
#[must_use]
pub fn starved(alone: Rates, both: Rates) -> Option<Refusal> {
    let share = |both: BitRate, alone: BitRate| {
        if alone.0 > 0.0 { both.0 / alone.0 } else { 1.0 }
    };
    let (down, up) = (share(both.down, alone.down), share(both.up, alone.up));
    let (poor, poor_share, rich, rich_share) = if down < up {
        (Direction::Down, down, Direction::Up, up)
    } else {
        (Direction::Up, up, Direction::Down, down)
    };
    (poor_share < STARVED_SHARE && rich_share > THRIVING_SHARE).then(|| Refusal {
        code: RefusalCode::DirectionStarved,
        why: format!(
            "{poor} had {:.0} % of its rate alone while {rich} had {:.0} %",
            poor_share * 100.0,
            rich_share * 100.0
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starvation_needs_a_poor_and_a_rich_direction() {
        let rates = |down: f64, up: f64| Rates { down: BitRate(down), up: BitRate(up) };
        // The field report of the Compute Module 4: 928 down, 932 up, both 247 and 887.
        let refusal = starved(rates(928e6, 932e6), rates(247e6, 887e6)).unwrap();
        assert_eq!(refusal.code, RefusalCode::DirectionStarved);
        assert_eq!(refusal.why, "down had 27 % of its rate alone while up had 95 %");
        assert_eq!(starved(rates(900.0, 900.0), rates(280.0, 800.0)), None, "both suffer");
        assert_eq!(starved(rates(900.0, 900.0), rates(450.0, 850.0)), None, "half is not starved");
        assert!(starved(rates(900.0, 900.0), rates(850.0, 10.0)).is_some());
        assert_eq!(starved(rates(0.0, 0.0), rates(0.0, 0.0)), None);
    }
}
