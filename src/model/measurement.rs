//! Measurements: how they were made, and why they may have to be refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::goal::{Design, Goal, Predicted};
use super::party::Party;
use super::plan::Candidate;
use super::snapshot::Machine;
use super::units::{BitRate, CpuId};

/// Which way the payload flows, seen from the LAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// WAN to LAN.
    Down,
    /// LAN to WAN.
    Up,
    /// Both at once.
    Both,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Both => "both",
        })
    }
}

/// Class of the evidence that a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceClass {
    /// Namespaces and veth on one machine: CPU and kernel forwarding cost, no NIC.
    Lab,
    /// Virtual NICs with real interrupts.
    Vm,
    /// Real NICs, generators on other machines.
    Wire,
}

impl EvidenceClass {
    /// Statement of what a figure of this class does and does not say.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Lab => {
                "lab: network namespaces and veth on one machine. It shows what forwarding costs \
                 this CPU and kernel, not what a network card can do"
            }
            Self::Vm => "vm: virtual network cards with real interrupts inside a virtual machine",
            Self::Wire => "wire: real network cards, load generated on other machines",
        }
    }
}

impl fmt::Display for EvidenceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lab => "lab",
            Self::Vm => "vm",
            Self::Wire => "wire",
        })
    }
}

/// The protocol that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Bulk TCP streams; the figure is goodput at the receiver.
    Tcp,
    /// Numbered UDP datagrams; the figure is what the receiver reports.
    Udp,
}

/// Why a figure can't be trusted. The name is stable and machine-readable; the text says what
/// happened in this case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which rule.
    pub code: RefusalCode,
    /// The event, with the values.
    pub why: String,
}

/// The rules by which a measurement is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalCode {
    /// The receiver did not report what arrived.
    NoAcknowledgement,
    /// Less than 98 % of the asked rate was sent.
    UnderSent,
    /// The load generator was the bottleneck (over 90 % of a CPU of its own).
    GeneratorBound,
    /// Temperature or frequency was throttled during the run.
    Throttled,
    /// A link went down or came up during the run.
    LinkChanged,
    /// Device counters disagree with what the load reports by more than 1 %.
    CountersDisagree,
    /// Packets were larger than the MTU allows: segmentation offload was at work.
    NotMtuSized,
    /// A setting was not what the cell asked for when read back.
    SettingsDiffer,
    /// One direction starved while both ran.
    DirectionStarved,
    /// Packets of somebody else came against the direction that was measured.
    OtherTraffic,
    /// The hypervisor gave the CPUs that forward to others for over 10 % of the time.
    Stolen,
    /// Nothing arrived at all.
    NoTraffic,
    /// The run was cut short.
    Interrupted,
}

/// One CPU over the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Which CPU.
    pub cpu: CpuId,
    /// Share of time in user space, 0 to 1.
    pub user: f64,
    /// Share in the kernel on behalf of a process.
    pub system: f64,
    /// Share in hard interrupts.
    pub irq: f64,
    /// Share in soft interrupts (packet forwarding).
    pub softirq: f64,
    /// Share idle (waiting for I/O included).
    pub idle: f64,
    /// Share that the hypervisor gave to others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steal: f64,
    /// Packets taken through this CPU's softnet queue (`softnet_stat` column 1).
    pub packets: u64,
    /// Packets dropped from its backlog (column 2).
    pub dropped: u64,
    /// Times the budget ran out (column 3).
    pub squeezed: u64,
}

fn is_zero(share: &f64) -> bool {
    *share <= 0.0
}

/// One device of the router over the whole run, omitted seconds included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Device name.
    pub device: String,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, link-layer header included.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent, link-layer header included.
    pub tx_bytes: u64,
    /// Packets dropped, both ways.
    pub dropped: u64,
}

/// Receiver-side result of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Which way; never [`Direction::Both`].
    pub direction: Direction,
    /// Payload that reached the receiving program, per second of the measured window.
    pub goodput: BitRate,
    /// Payload bytes that reached the receiver over the whole run, omitted seconds included.
    pub bytes: u64,
    /// TCP segments sent again; `None` where it is not known.
    pub retransmits: Option<u64>,
    /// Datagrams lost on the way by the receiver's count; `None` for TCP.
    pub lost: Option<u64>,
    /// Datagrams that arrived; `None` for TCP.
    pub received: Option<u64>,
    /// CPU seconds that the generator's threads used per second, user and kernel.
    pub generator_cpu: f64,
    /// Sender of ready-made frames, in words; `None` where the kernel made the frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_by: Option<String>,
}

/// Figures that were taken beside a run, as far as it was asked for and can be had.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SideFigures {
    /// Half of the round trips beside the load took no longer, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// 99 of 100, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// Idle CPUs left: work that threads of the lowest priority still got done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_cpus: Option<f64>,
    /// Temperature of the hottest zone right after the run, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hottest: Option<f64>,
}

impl SideFigures {
    /// True if nothing was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One run of a load through the router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Which way the payload flowed.
    pub direction: Direction,
    /// Result per direction (one, or two with [`Direction::Both`]).
    pub flows: Vec<Flow>,
    /// Length of the measured window, seconds.
    pub seconds: f64,
    /// Mean size of the packets that the router received from the loaded side, bytes with
    /// link-layer header.
    pub packet_bytes: f64,
    /// Per CPU over the measured window.
    pub cpus: Vec<CpuUse>,
    /// The router's devices over the whole run.
    pub devices: Vec<DeviceUse>,
    /// Figures that were taken beside it.
    #[serde(default, skip_serializing_if = "SideFigures::is_empty")]
    pub beside: SideFigures,
    /// Why it can't be trusted; empty when it can.
    pub refusals: Vec<Refusal>,
    /// Notes that a reader must know to judge it.
    pub notes: Vec<String>,
    /// The measured window in pieces; empty where it was recorded before there were any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Piece>,
    /// The level of the rate changed within the window; `None` where it did not, or where nobody can
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<Shift>,
    /// How well the window tells the rate; `None` with too few pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// The settings that were asked for, as they read just after the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<ReadBack>,
}

impl Measurement {
    /// Nothing, yet.
    #[must_use]
    pub fn blank(direction: Direction) -> Self {
        Self {
            direction,
            flows: Vec::new(),
            seconds: 0.0,
            packet_bytes: 0.0,
            cpus: Vec::new(),
            devices: Vec::new(),
            beside: SideFigures::default(),
            refusals: Vec::new(),
            notes: Vec::new(),
            series: Vec::new(),
            shift: None,
            precision: None,
            settings: Vec::new(),
        }
    }

    /// True if the figure stands.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Sum of the receivers' goodput over the directions.
    #[must_use]
    pub fn rate(&self) -> BitRate {
        BitRate(self.flows.iter().map(|f| f.goodput.0).sum())
    }
}

/// Precision of the rate of a single run, from how much its pieces vary; what changes from run to run
/// is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// Half of the rate's 95 % interval, as a share of the rate.
    pub half_width: f64,
    /// Length of a window that would tell the rate to 1 %, seconds.
    pub seconds_for_1_percent: f64,
}

/// A change of the rate's level within a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Seconds from the opening of the window.
    pub at: f64,
    /// Mean rate before it.
    pub before: BitRate,
    /// Mean rate after it.
    pub after: BitRate,
}

/// A piece of the measured window. Lists are in the order of the measurement's own: `bytes` of its
/// flows, what is said of CPUs of its `cpus`, of devices of its `devices`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Seconds from the opening of the window to the end of this piece.
    pub at: f64,
    /// Length, seconds.
    pub seconds: f64,
    /// Payload bytes that reached the receivers, by flow.
    pub bytes: Vec<u64>,
    /// Share of time that was not idle, 0 to 1, by CPU.
    pub busy: Vec<f64>,
    /// Share in soft interrupts, by CPU.
    pub softirq: Vec<f64>,
    /// Packets through the softnet queue, by CPU.
    pub packets: Vec<u64>,
    /// Packets received, by device.
    pub rx_packets: Vec<u64>,
    /// Packets sent, by device.
    pub tx_packets: Vec<u64>,
    /// Packets dropped both ways, by device.
    pub dropped: Vec<u64>,
}

/// A setting as it read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBack {
    /// Which setting, for a person.
    pub name: String,
    /// Exact text; `None` where it could not be read.
    pub text: Option<String>,
}

/// The scenario that was built and sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// `nat`.
    pub name: String,
    /// Extra never-matching filter rules on the forward path.
    pub rules: u32,
    /// Parallel streams.
    pub streams: u32,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// The protocol that is sent.
    pub protocol: Protocol,
    /// Measured seconds per run.
    pub seconds: f64,
    /// Seconds left out at the start of each run.
    pub omit: f64,
    /// Connections that the router was to track before the load began.
    #[serde(default)]
    pub flows: u32,
    /// Rate that was asked for, payload per direction; absent for as fast as it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// UDP payload per datagram, bytes; absent for TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagram: Option<u32>,
}

impl Scenario {
    /// True if its name has that part: `nat+vlan` has `vlan`.
    #[must_use]
    pub fn has(&self, part: &str) -> bool {
        self.name.split('+').any(|p| p == part)
    }
}

/// Where in a block a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellRole {
    /// The baseline that opens the block.
    Open,
    /// A candidate in its random place.
    Body,
    /// The baseline that closes the block.
    Close,
}

/// One candidate measured in one direction in one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Block number from 0.
    pub block: u32,
    /// Place within the block from 0.
    pub position: u32,
    /// Role of the place.
    pub role: CellRole,
    /// Candidate name.
    pub candidate: String,
    /// How it went.
    pub measurement: Measurement,
}

/// Why an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All blocks were run.
    Complete,
    /// The intervals were narrow enough.
    Precise,
    /// The time allowed was used up.
    Budget,
    /// The user stopped it.
    Interrupted,
    /// An agent was lost.
    LostAgent,
    /// A candidate's settings could not be made.
    FailedSet,
    /// A cell could not be measured at all.
    FailedMeasurement,
    /// A measured cell could not be written to the record.
    RecordNotWritten,
    /// The process ended without a word: killed, or the power went.
    Killed,
}

impl Ended {
    /// The reason in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Complete => "all blocks were run",
            Self::Precise => "the intervals were narrow enough",
            Self::Budget => "the time allowed was used up",
            Self::Interrupted => "interrupted by the user",
            Self::LostAgent => "an agent was lost",
            Self::FailedSet => "a candidate could not be set",
            Self::FailedMeasurement => "a cell could not be measured",
            Self::RecordNotWritten => "the record could not be written",
            Self::Killed => "the process was killed, or the power went",
        }
    }

    /// True if nothing of the design is left to measure.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Complete | Self::Precise)
    }

    /// True if something ended it that is no part of the design: cells are missing at random.
    #[must_use]
    pub fn is_cut_short(self) -> bool {
        !matches!(self, Self::Complete | Self::Precise | Self::Budget)
    }
}

/// How a setting stood before, during nothing but the run, and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingState {
    /// Which setting, for a person.
    pub name: String,
    /// Where it lives.
    pub path: String,
    /// Exact text before the run.
    pub before: String,
    /// Exact text after the run.
    pub after: String,
}

/// Everything that an experiment recorded. The analysis is a function of this alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The program's version.
    pub program: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// Seed of the random order.
    pub seed: u64,
    /// Class of the evidence.
    pub class: EvidenceClass,
    /// Where it ran.
    pub machine: Machine,
    /// Hash of what discovery read of the machine: equal where CPUs, devices, interrupts and
    /// settings were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// CPUs of the machine, for the reader.
    pub cpus: Vec<CpuId>,
    /// The scenario that was built and sent.
    pub scenario: Scenario,
    /// Rate of the slowest link that the load crossed, bit/s on the wire; `None` in a lab, which
    /// has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<BitRate>,
    /// Who took part over real wires; nobody in a lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Party>,
    /// True if it was asked to be quick: exploratory, not a proof.
    pub quick: bool,
    /// Name of the candidate that the others are compared with.
    pub baseline: String,
    /// Objective and guards.
    #[serde(default, skip_serializing_if = "Goal::is_plain")]
    pub goal: Goal,
    /// How the candidates were chosen.
    #[serde(default, skip_serializing_if = "Design::is_named")]
    pub design: Design,
    /// The compared candidates.
    pub candidates: Vec<Candidate>,
    /// Predictions of the cost model; nothing of those that it knows nothing of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Predicted>,
    /// Directions that were measured in each cell.
    pub directions: Vec<Direction>,
    /// Blocks that were asked for.
    pub blocks: u32,
    /// All cells in the order they ran.
    pub cells: Vec<Cell>,
    /// Why it ended.
    pub ended: Ended,
    /// The router's settings before and after, to show that all was put back.
    pub settings: Vec<SettingState>,
    /// Notes that a reader must know to judge it.
    pub notes: Vec<String>,
}
