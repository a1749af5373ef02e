//! Arguments of `sweep`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::shared::files::Force;
use crate::cli::shared::hosts::HostsArgs;
use crate::cli::shared::loads::{direction, framed, megabits, sender};
use crate::cli::shared::seconds;
use crate::error::{Error, Result};
use crate::measure::lab::{LabSpec, Shape};
use crate::measure::load::Sender;
use crate::measure::search::Preset;
use crate::model::ethernet::Frame;
use crate::model::measurement::{Direction, Protocol, Scenario};
use crate::model::order::InOrder;
use crate::model::sweep::{Goal, SweepKind};

/// Frame sizes of RFC 2544, section 9.1.
const FRAMES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// From the smallest that Linux takes to a full packet of 1500 bytes.
const SEGMENTS: [u32; 6] = [88, 256, 536, 1024, 1412, 1460];
/// IPv4's least, IPv6's, PPPoE, Ethernet, and jumbo frames.
const MTUS: [u32; 5] = [576, 1280, 1492, 1500, 9000];
/// Header bytes of TCP over IPv4 in a packet.
const TCP_IPV4: u32 = 40;
/// Seconds that a quick search may take: of a series of rates, and of each frame size.
const QUICK_RATE: f64 = 60.0;
const QUICK_FRAME: f64 = 20.0;

/// `sweep`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  linerate sweep rate                 # knee, NDR and PDR, in a lab here
  linerate sweep frame --sizes 64,512,1518 --seconds 5m
  linerate sweep mss --scenario nat+vlan --repeats 5")]
pub struct SweepArgs {
    /// The series: rate and frame send UDP and search for NDR and PDR, mss and mtu send TCP
    pub what: What,
    /// Precision: quick (to 2 %, by the median of trials of a second) or rfc2544 (to 0.5 %, not
    /// one packet lost in 60 s; takes long)
    #[arg(long, value_name = "NAME", default_value = "quick")]
    pub preset: PresetName,
    /// Loss that a partial drop rate (PDR) allows, in percent [default: 0.5 with quick, no PDR with
    /// rfc2544]
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub loss: Option<f64>,
    /// Time allowed for everything, in seconds [default: with quick 60, or 20 for each frame size]
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_negative_numbers = true)]
    pub seconds: Option<f64>,
    /// Sizes to go through: frames with FCS, segments or packets in bytes
    #[arg(long, value_delimiter = ',', value_name = "BYTES,...", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub sizes: Vec<u32>,
    /// Frame size of `rate`, with FCS [default: a full packet]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub frame: Option<u32>,
    /// Lowest rate of `rate`, Mbit/s of payload [default: a tenth of the highest]
    #[arg(long, value_name = "RATE", value_parser = megabits, allow_negative_numbers = true)]
    pub from: Option<f64>,
    /// Highest rate, Mbit/s of payload [default: what the generator can send]
    #[arg(long, value_name = "RATE", value_parser = megabits, allow_negative_numbers = true)]
    pub to: Option<f64>,
    /// Rates from the lowest to the highest
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub steps: u32,
    /// Number of measurements of each rate, segment or packet size; an interval needs two at least
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Measured seconds of each run of a series
    #[arg(long, value_name = "TIME", default_value = "0.5", value_parser = seconds)]
    pub run: f64,
    /// Direction: wan to lan (down) or lan to wan (up)
    #[arg(long, default_value = "down", value_parser = direction())]
    pub direction: Direction,
    /// Parallel streams
    #[arg(short = 'P', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub streams: u32,
    /// The way UDP leaves by: socket, packet (AF_PACKET), xdp (AF_XDP, or AF_PACKET where it can't be
    /// had), frames (the better one)
    #[arg(long, value_name = "NAME", value_parser = sender(), default_value = "socket")]
    pub sender: Sender,
    /// Extra filter rules that never match, to make forwarding cost what a real ruleset costs
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "lan", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    pub rules: u32,
    /// Largest IP packet in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, conflicts_with = "lan", value_parser = clap::value_parser!(u32).range(576..=9000))]
    pub mtu: u32,
    /// The lab to build, as for `bench` (see `bench --list`)
    #[arg(long, value_name = "SCENARIO", default_value = "nat")]
    pub scenario: Shape,
    /// Set the lab's router up as this candidate first (see `tune`): as-found, one-cpu, ...
    #[arg(long, value_name = "NAME", default_value = "as-found", conflicts_with = "lan")]
    pub candidate: String,
    /// File for the record [default: linerate-sweep.json, with the time of day where that is there
    /// already]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
    /// Between other machines; last, as its heading holds for what follows
    #[command(flatten)]
    pub wire: HostsArgs,
}

/// The series of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Offered rates: knee, NDR, PDR
    Rate,
    /// Largest IP packets
    Mtu,
    /// TCP segment sizes
    Mss,
    /// Frame sizes: NDR and PDR of each
    Frame,
}

/// Sets of goals with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PresetName {
    /// Exploratory
    Quick,
    /// As RFC 2544 asks for
    Rfc2544,
}

impl SweepArgs {
    /// Refuses arguments that are valid alone but not together.
    ///
    /// # Errors
    /// Usage, with what is allowed.
    pub(super) fn check(&self) -> Result<()> {
        let bad = |what: &str, why: String| Err(Error::usage(format!("sweep: {what}"), why));
        if self.direction == Direction::Both {
            return bad("direction", "a rate is searched for one way at a time".into())
                .map_err(|e| e.hint("--direction down, then --direction up"));
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            return bad("from", format!("{from} Mbit/s is not below the highest, {to}"))
                .map_err(|e| e.hint("--from names the lowest rate, --to the highest"));
        }
        if self.what == What::Mtu && self.wire.hosts().is_some() {
            return bad("mtu", "agents change no setting: the way has the MTU that it has".into())
                .map_err(|e| e.hint("`sweep mss` sends smaller segments instead"));
        }
        let udp = matches!(self.what, What::Rate | What::Frame);
        if !udp && (self.from.is_some() || self.to.is_some() || self.loss.is_some()) {
            return bad("rate", "TCP goes as fast as it can and loses nothing in the end".into())
                .map_err(|e| e.hint("--from, --to and --loss are for `sweep rate` and `frame`"));
        }
        if !udp && self.sender != Sender::Socket {
            return bad("sender", "TCP is sent by sockets alone".into())
                .map_err(|e| e.hint("--sender is for `sweep rate` and `frame`"));
        }
        framed(self.sender, self.scenario, self.direction)?;
        if self.what == What::Rate && !self.sizes.is_empty() {
            return bad("sizes", "a series of rates has one frame size".into())
                .map_err(|e| e.hint("name it with --frame, or go through sizes: sweep frame"));
        }
        if self.what != What::Rate && self.frame.is_some() {
            return bad("frame", "only `sweep rate` has one frame size".into())
                .map_err(|e| e.hint("--sizes names those to go through"));
        }
        let (least, most) = self.bounds();
        let sizes = if self.what == What::Rate { vec![self.frame().0] } else { self.sizes() };
        if let Some(size) = sizes.iter().find(|s| !(least..=most).contains(*s)) {
            let what = self.kind().to_string();
            let why = format!("{size} bytes: from {least} to {most} here");
            return bad(&what, why).map_err(|e| match self.what {
                _ if self.wire.hosts().is_some() => e,
                What::Mtu => e.hint("--sizes takes packets that Linux can send over IPv4"),
                _ => e.hint(format!("--mtu is {}; a larger one allows more", self.mtu)),
            });
        }
        Ok(())
    }

    fn bounds(&self) -> (u32, u32) {
        match self.what {
            What::Rate | What::Frame => (64, Frame::of_ip_packet(self.mtu).0),
            What::Mss => (88, self.mtu - TCP_IPV4),
            What::Mtu => (576, 9000),
        }
    }

    /// Those asked for, or the usual ones as far as they fit.
    pub(super) fn sizes(&self) -> Vec<u32> {
        if !self.sizes.is_empty() {
            let mut sizes = self.sizes.clone();
            sizes.order_by(Ord::cmp);
            sizes.dedup();
            return sizes;
        }
        let usual: &[u32] = match self.what {
            What::Rate => &[],
            What::Frame => &FRAMES,
            What::Mss => &SEGMENTS,
            What::Mtu => &MTUS,
        };
        let (least, most) = self.bounds();
        usual.iter().copied().filter(|size| (least..=most).contains(size)).collect()
    }

    /// The frame of a series of rates.
    pub(super) fn frame(&self) -> Frame {
        self.frame.map_or_else(|| Frame::of_ip_packet(self.mtu), Frame)
    }

    pub(super) fn goals(&self) -> Vec<Goal> {
        let preset = match self.preset {
            PresetName::Quick => Preset::Quick,
            PresetName::Rfc2544 => Preset::Rfc2544,
        };
        preset.goals(self.loss)
    }

    pub(super) fn is_quick(&self) -> bool {
        self.preset == PresetName::Quick
    }

    pub(super) fn kind(&self) -> SweepKind {
        match self.what {
            What::Rate => SweepKind::Rate,
            What::Mtu => SweepKind::Mtu,
            What::Mss => SweepKind::Mss,
            What::Frame => SweepKind::Frame,
        }
    }

    fn protocol(&self) -> Protocol {
        match self.what {
            What::Rate | What::Frame => Protocol::Udp,
            What::Mss | What::Mtu => Protocol::Tcp,
        }
    }

    /// Seconds for everything; `None` is as long as it takes.
    pub(super) fn budget(&self) -> Option<f64> {
        self.seconds.or(match (self.preset, self.what) {
            (PresetName::Rfc2544, _) | (_, What::Mss | What::Mtu) => None,
            (PresetName::Quick, What::Rate) => Some(QUICK_RATE),
            (PresetName::Quick, What::Frame) => Some(QUICK_FRAME * self.sizes().len() as f64),
        })
    }

    /// The announcement of what will be measured, with the time it takes.
    pub(super) fn announcement(&self) -> String {
        let sizes = self.sizes().iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let what = match self.what {
            What::Rate => format!(
                "offering {} rates {} times in frames of {} bytes, then searching",
                self.steps,
                self.repeats,
                self.frame().0
            ),
            What::Frame => format!("searching at frames of {sizes} bytes"),
            What::Mss => format!("TCP with segments of {sizes} bytes, {} times", self.repeats),
            What::Mtu => format!("TCP with packets of {sizes} bytes, {} times", self.repeats),
        };
        let runs = f64::from(self.repeats) * self.sizes().len() as f64;
        let long = match (self.budget(), self.what) {
            (Some(budget), _) => format!("at most {budget:.0} s"),
            (None, What::Mss | What::Mtu) => format!("about {:.0} s", runs * (self.run + 0.5)),
            (None, _) => "until it is known: a trial takes up to 60 s; Ctrl-C keeps what was \
                          measured"
                .to_owned(),
        };
        format!("{what}, {} streams {}: {long}", self.streams, self.direction)
    }

    pub(super) fn lab(&self, mtu: u32) -> LabSpec {
        LabSpec { shape: self.scenario, ..LabSpec::nat(self.rules, mtu) }
    }

    /// For the record; with `mtu`, the one of the command line.
    pub(super) fn scenario(&self) -> Scenario {
        Scenario {
            name: self.scenario.to_string(),
            rules: self.rules,
            streams: self.streams,
            mtu: self.mtu,
            protocol: self.protocol(),
            seconds: self.run,
            omit: if self.protocol() == Protocol::Tcp {
                crate::measure::bench::sweep::TCP_OMIT
            } else {
                0.0
            },
            flows: 0,
            rate: None,
            datagram: None,
        }
    }
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(p) if (0.0..100.0).contains(&p) => Ok(p / 100.0),
        _ => Err("a percentage from 0 to below 100".into()),
    }
}
