//! The machines of a measurement over real wires, for its record.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::cpuset::CpuSet;

/// One agent's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Party {
    /// `lan`, `wan` or `router`.
    pub role: String,
    /// What the agent says of its machine.
    #[serde(flatten)]
    pub facts: Facts,
    /// How its clocks differed from the controller's at the beginning.
    pub clock: ClockOffset,
    /// Its settings at the beginning; the router's only, and not where they are what is tried out.
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
