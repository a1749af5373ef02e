//! The load of a measurement and the lab it runs in, for `bench`, `sweep` and `tune`.

use clap::Args;
use clap::builder::TypedValueParser;

use super::{one_of, seconds, seconds_or_zero};
use crate::error::Error;
use crate::measure::lab::{LabSpec, Shape};
use crate::measure::load::{LoadSpec, Sender};
use crate::model::measurement::{Direction, Protocol, Scenario};

/// The load and the lab it runs in.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// Extra filter rules that never match, to make forwarding cost what a real ruleset costs
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "lan", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    pub rules: u32,
    /// Parallel streams; fewer than 16 suffer from unlucky hashing
    #[arg(short = 'P', long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub streams: u32,
    /// Measured seconds of each run
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = seconds)]
    pub seconds: f64,
    /// Seconds left out at the start of each run
    #[arg(long, value_name = "TIME", default_value = "0.3", value_parser = seconds_or_zero)]
    pub omit: f64,
    /// Largest IP packet in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, conflicts_with = "lan", value_parser = clap::value_parser!(u32).range(576..=9000))]
    pub mtu: u32,
    /// Forward established flows through a software flowtable
    #[arg(long, conflicts_with = "lan")]
    pub flowtable: bool,
    /// Connections that the router tracks before the load begins, made by traffic
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "lan", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub flows: u32,
    /// With nat+ipv6: translate IPv6 addresses, which no network should need
    #[arg(long, conflicts_with = "lan")]
    pub nat66: bool,
}

impl LoadArgs {
    /// The lab that it runs in: masquerading, as `nat` asks.
    #[must_use]
    pub fn lab(&self) -> LabSpec {
        self.lab_of(Shape::default())
    }

    /// The lab of a scenario.
    #[must_use]
    pub fn lab_of(&self, scenario: Shape) -> LabSpec {
        let shape = Shape { flowtable: self.flowtable || scenario.flowtable, ..scenario };
        LabSpec { rules: self.rules, mtu: self.mtu, flows: self.flows, shape }
    }

    /// The lab of a scenario, unless it translates IPv6 addresses without --nat66.
    ///
    /// # Errors
    /// Usage for IPv6 that would be translated.
    pub(in crate::cli) fn permitted_lab(&self, scenario: Shape) -> crate::error::Result<LabSpec> {
        let spec = self.lab_of(scenario);
        if !self.nat66 {
            refuse_nat66(spec.shape)?;
        }
        Ok(spec)
    }

    /// Bulk TCP in one direction or both.
    #[must_use]
    pub fn spec(&self, direction: Direction) -> LoadSpec {
        LoadSpec::tcp(direction, self.streams, self.seconds, self.omit)
    }

    /// For the record: `nat`.
    #[must_use]
    pub fn scenario(&self, protocol: Protocol) -> Scenario {
        self.scenario_of(Shape::default(), protocol)
    }

    /// For the record.
    #[must_use]
    pub fn scenario_of(&self, scenario: Shape, protocol: Protocol) -> Scenario {
        Scenario {
            name: self.lab_of(scenario).shape.to_string(),
            rules: self.rules,
            streams: self.streams,
            mtu: self.mtu,
            protocol,
            seconds: self.seconds,
            omit: self.omit,
            flows: self.flows,
            rate: None,
            datagram: None,
        }
    }
}

/// Refuses ready-made frames where a sender of the scenario has no Ethernet device to put them on.
pub(in crate::cli) fn framed(
    sender: Sender,
    scenario: Shape,
    direction: Direction,
) -> crate::error::Result<()> {
    let tunnel = scenario.wireguard || scenario.pppoe;
    if sender == Sender::Socket || !tunnel || direction == Direction::Up {
        return Ok(());
    }
    let why = format!("the WAN's end of {scenario} is no Ethernet device");
    Err(Error::usage("send ready-made frames", why)
        .hint("send by --sender socket, or measure --direction up alone"))
}

/// Refuses a scenario in which IPv6 would be translated.
///
/// # Errors
/// Usage, with the reason why that is not wanted.
pub(in crate::cli) fn refuse_nat66(shape: Shape) -> crate::error::Result<()> {
    if shape.nat && shape.ipv6 {
        let why = "IPv6 has addresses for all: hosts keep their own and the router routes. \
                   Translating them (NAT66) breaks what IPv6 is for";
        return Err(Error::usage(format!("scenario {shape}"), why)
            .hint("route+ipv6 measures what an IPv6 router does; bench --nat66 insists"));
    }
    Ok(())
}

/// Mbit/s of a rate: `500`, `500M`, `2.5G`.
pub(in crate::cli) fn megabits(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'k')) => (text.get(..at), 1e-3),
        Some((at, 'M')) => (text.get(..at), 1.0),
        Some((at, 'G')) => (text.get(..at), 1e3),
        _ => (Some(text), 1.0),
    };
    match number.unwrap_or_default().parse::<f64>().map(|number| number * unit) {
        Ok(m) if m > 0.0 && m < 1e7 => Ok(m),
        Ok(_) => Err("must be more than 0 and less than 10000G".into()),
        Err(_) => Err("a rate is 500 (Mbit/s), 500M or 2.5G".into()),
    }
}

pub(in crate::cli) fn direction() -> impl TypedValueParser<Value = Direction> {
    one_of(&[("down", Direction::Down), ("up", Direction::Up), ("both", Direction::Both)])
}

pub(in crate::cli) fn sender() -> impl TypedValueParser<Value = Sender> {
    one_of(&Sender::ALL.map(|sender| (sender.word(), sender)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_same_everywhere() {
        for (text, is) in [("500", 500.0), ("500M", 500.0), ("2.5G", 2500.0), ("64k", 0.064)] {
            assert_eq!(megabits(text), Ok(is), "{text}");
        }
        for bad in ["", "M", "5 M", "500m", "500Mbit", "-5", "0", "nan", "inf", "10000G", "5\u{e9}"]
        {
            assert!(megabits(bad).is_err(), "{bad}");
        }
    }
}
