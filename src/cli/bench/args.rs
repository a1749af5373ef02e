//! Arguments of `bench`.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};

use super::driver::DriverArgs;
use crate::cli::shared::files::Force;
use crate::cli::shared::hosts::HostsArgs;
use crate::cli::shared::loads::{LoadArgs, direction, megabits, sender};
use crate::cli::shared::{one_of, seconds};
use crate::measure::lab::Shape;
use crate::measure::load::Sender;
use crate::model::measurement::{Direction, Protocol};

/// `bench`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate bench nat                  # in a lab here; needs root
  linerate bench route+ipv6 --seconds 5s --latency
  linerate bench nat --protocol udp --rate 500M --datagram 200
  linerate bench nat --against iperf3
  linerate bench wireguard --board -o wireguard.json
  linerate bench nat --lan pc1 --wan pc2 --router here")]
pub struct BenchArgs {
    /// The lab to build: route or nat, with +flowtable, +vlan, +pppoe, +bridge, +wireguard, +ipv6
    #[arg(default_value = "nat")]
    pub scenario: Shape,
    /// List the parts of scenarios, what each needs, and whether it is here
    #[arg(long, conflicts_with = "lan")]
    pub list: bool,
    /// The board figure
    #[command(flatten)]
    pub board: BoardArgs,
    /// The load and its lab
    #[command(flatten)]
    pub load: LoadArgs,
    /// Somebody else's generator
    #[command(flatten)]
    pub driver: DriverArgs,
    /// Direction: wan to lan (down), lan to wan (up), or both at once (measures each alone too)
    #[arg(long, default_value = "both", value_parser = direction())]
    pub direction: Direction,
    /// The protocol to send
    #[arg(long, default_value = "tcp", value_parser = protocol())]
    pub protocol: Protocol,
    /// Rate to send at, all streams together, as 500 (Mbit/s) or 2.5G (UDP needs one)
    #[arg(long, value_name = "RATE", value_parser = megabits)]
    pub rate: Option<f64>,
    /// Payload of a UDP datagram in bytes [default: 1400, or what fits the path]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(16..=8972))]
    pub datagram: Option<u32>,
    /// Send UDP as ready-made Ethernet frames, past the sender's IP stack: for small packets
    #[arg(long)]
    pub frames: bool,
    /// The way UDP leaves by: socket, packet (AF_PACKET), xdp (AF_XDP, or AF_PACKET where it can't be
    /// had), frames (the better one, as --frames) [default: socket]
    #[arg(long, value_name = "NAME", value_parser = sender(), conflicts_with = "frames")]
    pub sender: Option<Sender>,
    /// Also probe round trips, idle and beside the load: p50, p99, p99.9
    #[arg(long, conflicts_with_all = ["against", "headroom"])]
    pub latency: bool,
    /// Also measure what each CPU has left for other work beside the load (best with --rate)
    #[arg(long, conflicts_with = "against")]
    pub headroom: bool,
    /// Set the lab's router up as this candidate first (see `tune`): as-found, one-cpu, ...
    #[arg(long, value_name = "NAME", default_value = "as-found", conflicts_with = "lan")]
    pub candidate: String,
    /// Fail (exit 1) when the sum of the directions stays below this
    #[arg(long, value_name = "RATE", value_parser = megabits)]
    pub fail_below: Option<f64>,
    /// Run another generator in turn in the same lab and print the ratio
    #[arg(long, value_name = "DRIVER", conflicts_with = "lan")]
    pub against: Option<Against>,
    /// Pairs to run with --against
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub pairs: u32,
    /// Between other machines; last, as its heading holds for what follows
    #[command(flatten)]
    pub wire: HostsArgs,
}

/// `bench wireguard --board`
#[derive(Debug, Clone, Args)]
pub struct BoardArgs {
    /// WireGuard between two namespaces, as the public table of boards has it (with `wireguard`)
    #[arg(long, conflicts_with = "lan")]
    pub board: bool,
    /// Length of the comparable run; others than 10 s are marked
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds, requires = "board")]
    pub board_seconds: f64,
    /// Runs of each kind for the fuller figure; 0 for none
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100), requires = "board")]
    pub repeats: u32,
    /// Name of the device in the row [default: the firmware's]
    #[arg(long, value_name = "NAME", requires = "board")]
    pub device: Option<String>,
    /// Note in the row
    #[arg(long, value_name = "TEXT", requires = "board")]
    pub note: Option<String>,
    /// File for the result, for `rank`
    #[arg(short, long, value_name = "FILE", requires = "board")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
}

/// Generators to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// The installed iperf3
    Iperf3,
}

fn protocol() -> impl TypedValueParser<Value = Protocol> {
    one_of(&[("tcp", Protocol::Tcp), ("udp", Protocol::Udp)])
}
