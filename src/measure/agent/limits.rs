//! Limits that an agent's owner sets, whatever a controller asks for.

use std::net::IpAddr;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::measure::load::half::Run;
use crate::model::units::BitRate;

/// A network by address and length of its prefix: `198.18.0.0/15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    address: IpAddr,
    length: u32,
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || "not a network: 198.18.0.0/15, 2001:db8::/32, 198.51.100.7".to_owned();
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = if length.is_empty() { most } else { length.parse().map_err(|_| wrong())? };
        if length > most { Err(wrong()) } else { Ok(Self { address, length }) }
    }
}

impl Net {
    fn holds(self, other: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u32| (a ^ b) >> (width - self.length).min(127) == 0;
        match (self.address, other.to_canonical()) {
            _ if self.length == 0 => self.address.is_ipv4() == other.to_canonical().is_ipv4(),
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// The most that an agent does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Rate of each direction.
    pub rate: Option<BitRate>,
    /// Seconds of a run, with what is left out of its window.
    pub seconds: Option<f64>,
    /// Controllers, and hosts that load is sent to; empty for all.
    pub allow: Vec<Net>,
}

impl Limits {
    /// True if the address is one of those that are allowed.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|net| net.holds(address))
    }

    /// Checks an address that load or probes are to be sent to.
    ///
    /// # Errors
    /// Not permitted if it is none of those that are allowed.
    pub fn check_address(&self, address: IpAddr) -> Result<()> {
        match self.allows(address) {
            true => Ok(()),
            false => Err(Error::not_permitted(format!("send to {address}"), "the agent may not")
                .hint("its owner allows networks by --allow")),
        }
    }

    /// Checks rate and length of a run.
    ///
    /// # Errors
    /// Not permitted beyond what is allowed.
    pub fn check(&self, run: &Run) -> Result<()> {
        let spec = &run.spec;
        if let Some(most) = self.rate
            && spec.rate.is_none_or(|rate| rate.0 > most.0)
        {
            let why = format!("this agent sends at most {:.0} Mbit/s", most.mbps());
            return Err(Error::not_permitted("load", why)
                .hint(format!("--rate {:.0}, or the agent's --max-rate", most.mbps())));
        }
        match self.seconds {
            Some(most) if spec.omit + spec.seconds > most => Err(Error::not_permitted(
                "load",
                format!("this agent takes part for {most} s at most"),
            )
            .hint("--seconds, or the agent's --max-seconds")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_own_addresses() {
        for (net, address, holds) in [
            ("198.18.0.0/15", "198.19.255.1", true),
            ("198.18.0.0/15", "198.20.0.1", false),
            ("198.18.1.2", "198.18.1.3", false),
            ("0.0.0.0/0", "198.18.1.3", true),
            ("0.0.0.0/0", "::1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("198.18.0.0/15", "::ffff:198.18.1.1", true),
        ] {
            let net: Net = net.parse().unwrap();
            assert_eq!(net.holds(address.parse().unwrap()), holds, "{net:?} {address}");
        }
        for bad in ["", "198.18.0.0/33", "x/8", "198.18.0.0/-1"] {
            assert!(bad.parse::<Net>().is_err(), "{bad}");
        }
    }
}
