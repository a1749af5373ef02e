//! A series of measurements over a rate, a frame size, an MSS or an MTU, and what was searched in it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ethernet::{Frame, PacketRate};
use super::measurement::{Direction, EvidenceClass, Refusal, Scenario};
use super::party::Party;
use super::snapshot::Machine;
use super::units::BitRate;

/// Goal of a search: the highest rate at which not more is lost than this, and how sure one
/// wants to be of it. The attributes are those of a search goal in draft-ietf-bmwg-mlrsearch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// `NDR` where nothing may be lost, `PDR` where a little may.
    pub name: String,
    /// A trial that loses a larger share than this is a bad one; 0 to below 1.
    pub loss_ratio: f64,
    /// The share of the measured time that may be bad trials; 0 to below 1. 0.5 asks for the median
    /// trial, 0 for every one.
    pub exceed_ratio: f64,
    /// Seconds of the first, coarse trials.
    pub initial_trial: f64,
    /// Seconds of the trials that count in full.
    pub final_trial: f64,
    /// Seconds of trials that a rate needs to be judged.
    pub duration_sum: f64,
    /// How far apart the bounds may end up, as a share of the upper one.
    pub width: f64,
}

/// Result of a goal. The rates are in the unit that was searched in: packets per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// How it ended.
    pub outcome: GoalOutcome,
    /// The highest rate that met the goal, below the lowest that did not.
    pub lower: Option<f64>,
    /// The lowest rate that did not meet it.
    pub upper: Option<f64>,
    /// Conditional throughput: what was forwarded at the lower bound in the trial at the exceed
    /// ratio's quantile.
    pub throughput: Option<f64>,
}

/// How the search for a goal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoalOutcome {
    /// Two bounds no further apart than the goal's width.
    Found,
    /// Irregular: the highest rate that could be offered still met the goal.
    AtOrAboveMaximum,
    /// Irregular: even the lowest rate did not meet it.
    BelowMinimum,
    /// Stopped before it was known; the bounds, where there are any, are coarser than asked for.
    Unfinished,
}

impl fmt::Display for GoalOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Found => "found",
            Self::AtOrAboveMaximum => "at or above the offered maximum",
            Self::BelowMinimum => "below the lowest rate tried",
            Self::Unfinished => "unfinished",
        })
    }
}

/// Where what is achieved stops following what is offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// How it was told.
    pub verdict: KneeVerdict,
    /// The share of the offered rate that may be missing while it still "follows".
    pub tolerance: f64,
    /// The highest offered rate up to which every one was followed.
    pub holds_up_to: Option<f64>,
    /// The lowest offered rate above it that clearly was not followed.
    pub fails_at: Option<f64>,
    /// Where the two straight pieces meet that fit best; between the two above.
    pub estimate: Option<f64>,
    /// The highest rate that was offered.
    pub maximum: f64,
    /// True if repeats back the verdict with an interval; otherwise single values decided.
    pub has_intervals: bool,
}

/// Kinds of [`Knee`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KneeVerdict {
    /// It lies between two of the offered rates.
    Found,
    /// Every offered rate was followed: no knee up to the maximum offered.
    NoneUpToMaximum,
    /// Not even the lowest was followed.
    BelowLowest,
    /// Some rates are neither clearly followed nor clearly not: repeat them more often.
    Undecided,
}

/// The quantity that a sweep goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepKind {
    /// Offered rates of UDP.
    Rate,
    /// Frame sizes of UDP.
    Frame,
    /// Segment sizes of TCP.
    Mss,
    /// Largest IP packets, TCP.
    Mtu,
}

impl fmt::Display for SweepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "rate",
            Self::Frame => "frame",
            Self::Mss => "mss",
            Self::Mtu => "mtu",
        })
    }
}

/// Why a sweep, or a search in it, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepEnd {
    /// All was measured.
    Complete,
    /// The time allowed was used up.
    Budget,
    /// Too many runs in a row were refused, or no rate could be offered steadily.
    Refused,
    /// The user stopped it.
    Interrupted,
}

/// The bottleneck of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The load generator could not send what was asked for.
    Sender,
    /// Packets were lost behind the router, by the generator's own receiver.
    Receiver,
    /// The router.
    Router,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Router => "router",
        })
    }
}

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// The frame size, MSS or MTU in bytes; with a rate, the frame size.
    pub size: u32,
    /// The frame of a full packet.
    pub frame: Frame,
    /// Rate that was asked for; `None` for as fast as it goes.
    pub asked: Option<PacketRate>,
    /// Rate that was sent; `None` for TCP.
    pub offered: Option<PacketRate>,
    /// Rate that arrived; with TCP, of packets that the router received from the loaded side.
    pub achieved: PacketRate,
    /// Payload that arrived.
    pub goodput: BitRate,
    /// Datagrams sent; `None` for TCP.
    pub sent: Option<u64>,
    /// Datagrams lost; `None` for TCP, and where the receiver did not report.
    pub lost: Option<u64>,
    /// Length of the measured window, seconds.
    pub seconds: f64,
    /// Busy share of the router's busiest CPU, 0 to 1; `None` where nobody looked at it.
    pub busiest_cpu: Option<f64>,
    /// Bottleneck, where that is known.
    pub limit: Option<Limit>,
    /// Why it can't be trusted; empty when it can.
    pub refusals: Vec<Refusal>,
}

impl SweepPoint {
    /// Lost share of what was sent; `None` where it is not known.
    #[must_use]
    pub fn loss_ratio(&self) -> Option<f64> {
        let (sent, lost) = (self.sent?, self.lost?);
        (sent > 0).then(|| lost as f64 / sent as f64)
    }

    /// True if the figure stands.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.refusals.is_empty()
    }
}

/// A search over the rate at one frame size, with every trial of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateSearch {
    /// The frame.
    pub frame: Frame,
    /// The highest rate that could be, or was to be, offered.
    pub maximum: PacketRate,
    /// Reason why the maximum is below the rate that was asked for, if it is.
    pub capped: Option<String>,
    /// Why it was given up, if it was.
    pub gave_up: Option<String>,
    /// Trials in the order they ran, refused ones included.
    pub trials: Vec<SweepPoint>,
    /// One per goal.
    pub results: Vec<GoalResult>,
    /// Why it ended.
    pub ended: SweepEnd,
}

/// Everything that a sweep recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
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
    /// The scenario that was built and sent.
    pub scenario: Scenario,
    /// How the router was set up.
    pub candidate: String,
    /// The quantity that it went through.
    pub kind: SweepKind,
    /// Which way the payload flowed.
    pub direction: Direction,
    /// True if it was asked to be quick: exploratory, not a proof.
    pub quick: bool,
    /// The series, in the order it ran; refused runs included.
    pub points: Vec<SweepPoint>,
    /// Searches for NDR and PDR.
    pub searches: Vec<RateSearch>,
    /// Knee of a rate series, in packets per second.
    pub knee: Option<Knee>,
    /// Why it ended.
    pub ended: SweepEnd,
    /// Who took part over real wires; nobody in a lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Party>,
    /// Notes that a reader must know to judge it.
    pub notes: Vec<String>,
}

impl Sweep {
    /// All runs, those of searches included.
    pub fn runs(&self) -> impl Iterator<Item = &SweepPoint> {
        self.points.iter().chain(self.searches.iter().flat_map(|s| &s.trials))
    }
}
