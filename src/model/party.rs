//! The machines of a measurement over real wires, for its record.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::cpuset::CpuSet;

/// The part of a machine in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartyRole {
    /// The host behind the router.
    Lan,
    /// The host before the router.
    Wan,
    /// The router.
    Router,
}

impl fmt::Display for PartyRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lan => "lan",
            Self::Wan => "wan",
            Self::Router => "router",
        })
    }
}

/// One value for each party of a measurement: the two hosts always, the router where it has an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parties<T> {
    /// Value of the host behind the router.
    pub lan: T,
    /// Value of the host before the router.
    pub wan: T,
    /// Value of the router.
    pub router: Option<T>,
}

impl<T> Parties<T> {
    /// All that there are: LAN, WAN, router.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.lan, &self.wan].into_iter().chain(&self.router)
    }

    /// The same parties, by reference.
    pub fn as_ref(&self) -> Parties<&T> {
        Parties { lan: &self.lan, wan: &self.wan, router: self.router.as_ref() }
    }

    /// Pairs of the values here and there; the router where both have one.
    pub fn zip<U>(self, other: Parties<U>) -> Parties<(T, U)> {
        Parties {
            lan: (self.lan, other.lan),
            wan: (self.wan, other.wan),
            router: self.router.zip(other.router),
        }
    }

    /// The same parties with what `of` makes of each.
    ///
    /// # Errors
    /// The first that `of` returns.
    pub fn try_map<U, E>(self, mut of: impl FnMut(T) -> Result<U, E>) -> Result<Parties<U>, E> {
        Ok(Parties {
            lan: of(self.lan)?,
            wan: of(self.wan)?,
            router: self.router.map(of).transpose()?,
        })
    }
}

/// One agent's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Party {
    /// The part that it has.
    pub role: PartyRole,
    /// Facts from the agent about its machine.
    #[serde(flatten)]
    pub facts: Facts,
    /// How its clocks differed from the controller's at the beginning.
    pub clock: ClockOffset,
    /// Settings at the beginning; the router's only, and not where they are what is tried out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of the program.
    pub program: String,
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Architecture.
    pub arch: String,
    /// Board or product name; empty where nothing tells.
    pub board: String,
    /// CPU model; empty where nothing tells.
    pub cpu_model: String,
    /// Hypervisor; empty where none shows itself.
    pub virtualisation: String,
    /// Hash of its machine-id, as in [`super::snapshot::Machine`]; empty without one.
    pub id: String,
    /// This boot of it, hashed: two agents with the same are on one machine.
    pub boot: String,
    /// CPUs that are online.
    pub cpus: u32,
    /// The CPUs that its load's threads run on; `None` leaves it to the scheduler.
    pub load_cpus: Option<CpuSet>,
    /// Hash of what discovery read, as `fingerprint` elsewhere: the same machine in the same state has
    /// the same.
    pub snapshot: String,
    /// For each address that was asked for.
    pub ways: Vec<WayOut>,
}

/// The way to an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayOut {
    /// The address.
    pub to: IpAddr,
    /// The machine's own address on that way.
    pub from: IpAddr,
    /// The device that packets leave by.
    pub device: String,
    /// The devices that count the packets on the wire: itself, or the ports of a bridge. Empty where
    /// no device counts whole frames (PPP, VLANs and tunnels count on another layer).
    pub counted: Vec<String>,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Speed of the link, Mbit/s, where the device tells.
    pub speed: Option<u32>,
}

/// How an agent's clocks differ from the controller's, by the shortest of several round trips: the
/// agent read its clock at some time within it, so half of it is the uncertainty (as in NTP,
/// RFC 5905 section 8).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The agent's monotonic clock less the controller's, seconds.
    pub monotonic: f64,
    /// The agent's wall clock less the controller's, seconds.
    pub wall: f64,
    /// Both may be wrong by this many seconds; the wall clock's by half a millisecond more.
    pub uncertainty: f64,
}
