//! The WireGuard figure of a board: one machine, two network namespaces, a tunnel between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::measurement::{CpuUse, Direction, EvidenceClass, Refusal};
use super::snapshot::Machine;
use super::units::{BitRate, CpuId};

/// One TCP load through the tunnel. Up is from the namespace that stands for the host to the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardRun {
    /// Which way.
    pub direction: Direction,
    /// Parallel streams.
    pub streams: u32,
    /// Measured seconds.
    pub seconds: f64,
    /// Payload that the sender handed to the kernel, per second: what `iperf3` calls the sender's.
    pub sender: BitRate,
    /// Payload that arrived, per second.
    pub receiver: BitRate,
    /// TCP segments sent again.
    pub retransmits: Option<u64>,
    /// Per CPU.
    pub cpus: Vec<CpuUse>,
    /// Why it can't be trusted; empty when it can.
    pub refusals: Vec<Refusal>,
}

impl BoardRun {
    /// CPUs that worked for more than a twentieth of the time.
    #[must_use]
    pub fn cores(&self) -> Vec<CpuId> {
        self.cpus.iter().filter(|c| c.idle < 0.95).map(|c| c.cpu).collect()
    }
}

/// A CPU as a reader of the figure must know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardCpu {
    /// Number.
    pub cpu: CpuId,
    /// `Cortex-A76`, `P-core`, ...
    pub core_type: Option<String>,
    /// Highest frequency in kHz.
    pub max_khz: Option<u64>,
    /// `performance`, `schedutil`, ...
    pub governor: Option<String>,
    /// Instructions for cryptography.
    pub crypto: Vec<String>,
}

/// Everything that is known of a board's figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardResult {
    /// The program's version.
    pub program: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// Class of the evidence.
    pub class: EvidenceClass,
    /// Where it ran.
    pub machine: Machine,
    /// Device and CPU as in the row.
    pub device: String,
    /// The user's note.
    pub note: Option<String>,
    /// The run that compares with the public table: one stream, up, 10 seconds.
    pub comparable: BoardRun,
    /// The Markdown row.
    pub row: String,
    /// The fuller figure: both directions, one and several streams, repeated.
    pub runs: Vec<BoardRun>,
    /// Largest IP packet in the tunnel.
    pub tunnel_mtu: u32,
    /// The machine's CPUs.
    pub cpus: Vec<BoardCpu>,
    /// Those that worked in the comparable run.
    pub cores_used: Vec<CpuId>,
    /// Implementation in force per algorithm, as /proc/crypto tells.
    pub crypto: BTreeMap<String, String>,
    /// Loaded modules that implement cryptography; WireGuard uses their fast library functions.
    pub crypto_modules: Vec<String>,
    /// Firewall rules in the two namespaces: none, they are new.
    pub firewall_rules: u32,
    /// Rules of the machine itself, which the figure is without; `None` where not known.
    pub host_firewall_rules: Option<u32>,
    /// Notes that a reader must know to judge it.
    pub notes: Vec<String>,
}
