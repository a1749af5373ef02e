//! The command line's types: parsing touches nothing.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::agent::AgentArgs;
use super::check::CheckArgs;
use super::driver::DriverArgs;
use super::kernel::KernelArgs;
use super::profile::ProfileArgs;
use super::sweep::SweepArgs;
use super::tune::TuneArgs;
use super::wire::WireArgs;
use crate::lab::{LabSpec, Shape};
use crate::load::{LoadSpec, Sender};
use crate::model::measurement::{Direction, Protocol, Scenario};
use crate::plan::Profile;
use crate::store::deadman::Target;

/// Get a Linux router to line rate, and prove it.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// Options of every command
    #[command(flatten)]
    pub global: Global,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options that every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// Print JSON (stable, versioned) instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Work on a captured machine: a file of `capture`, or a directory with its proc, sys and etc
    /// (read-only commands)
    #[arg(long, global = true, value_name = "FILE|DIR")]
    pub host: Option<PathBuf>,
    /// Say only what failed
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Colours: NO_COLOR is honoured by auto
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWhen,
}

/// When to colour the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What this router is, and how its packets are handled today
    Show(ShowArgs),
    /// What holds this router back, on what evidence, and what to do
    Check(CheckArgs),
    /// What could be changed, and why; writes a plan file
    Plan(PlanArgs),
    /// Make the changes of a plan: all or nothing, undone by `rollback`
    Apply(ApplyArgs),
    /// Whether a plan is in force, setting by setting (exit 3 when not)
    Verify(VerifyArgs),
    /// Put everything back exactly as it was before
    Rollback(RollbackArgs),
    /// Keep what `apply --confirm` did
    Confirm,
    /// Keep a plan in force over reboots and for devices that come later
    Persist(PersistArgs),
    /// Take back what `persist` wrote
    Unpersist(UnpersistArgs),
    /// What linerate has changed and not undone
    Status,
    /// One measurement, in a lab of network namespaces on this machine, or between two hosts
    Bench(BenchArgs),
    /// Take part in a measurement over real wires: run it on the hosts (see bench --lan)
    Agent(AgentArgs),
    /// Find the best configuration by experiment, with intervals
    Tune(TuneArgs),
    /// Go through rates, frame sizes, segments or MTUs; find the knee, NDR and PDR
    Sweep(SweepArgs),
    /// Set the figures of two result files side by side, with intervals
    Compare(CompareArgs),
    /// Find what forwarding costs here, from results of tune
    Fit(super::fit::FitArgs),
    /// Turn a result file into HTML, Markdown or text
    Report(ReportArgs),
    /// Record this machine in one file, for bug reports and to work on it elsewhere
    Capture(CaptureArgs),
    /// Write down what the router does, interval after interval, until Ctrl-C: CSV or JSON lines
    Record(RecordArgs),
    /// Where this machine's WireGuard figure stands among known boards
    Rank(RankArgs),
    /// Where the time of packets goes on each CPU: driver, netfilter, routing, crypto, locks ...
    Profile(ProfileArgs),
    /// What of a kernel's configuration costs forwarding, how two differ, and which option it is
    Kernel(KernelArgs),
    /// A router in a box: three network namespaces to try things in
    Lab(LabArgs),
    /// Waits for `confirm` (started by `apply --confirm`)
    #[command(hide = true)]
    DeadMan {
        /// Which change
        token: u64,
    },
    /// Applies the persisted plan to a device that appeared (called by udev and hotplug)
    #[command(hide = true)]
    Event(EventArgs),
    /// Applies the persisted plan when the machine starts (called by its init)
    #[command(hide = true)]
    Boot {
        /// Note that the machine stayed up for five minutes, waiting for that
        #[arg(long)]
        stayed: bool,
    },
}

/// `show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Only this part, in detail
    pub part: Option<Part>,
}

/// Parts of `show`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// CPUs with capacity, cluster and governor
    Cpus,
    /// Network devices with queues and offloads
    Nics,
    /// Network interrupts
    Irqs,
    /// What stands on what, down to the ports, and which side is WAN
    Stack,
    /// What a forwarded packet meets, and who else sets what linerate sets
    Path,
    /// Kernel and board
    Kernel,
    /// Every setting: what it is, what it may be, whether it can be changed
    Knobs,
}

/// `plan`
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Take this candidate instead of the one the model prefers; also what tune found to be best:
    /// recipe-NAME, profile-NAME, or a combination of factors as 'rps=all irq=0'
    #[arg(long, value_name = "NAME")]
    pub candidate: Option<String>,
    /// What the router is for: router, vpn, endpoint or low-latency
    #[arg(long, value_name = "NAME", default_value = "router", value_parser = profile)]
    pub profile: Profile,
    /// A configuration from the field exactly as it was reported; `list` names them
    #[arg(long, value_name = "NAME", conflicts_with = "candidate")]
    pub recipe: Option<String>,
    /// All about one setting (irq-affinity, rps-cpus, xps-cpus, coalesce, ...); writes no plan
    #[arg(long, value_name = "KNOB")]
    pub explain: Option<String>,
    /// What is known of the traffic: TOML with `[packets]` received per second by device, `[busy]`
    /// share of other programs by CPU, flows
    #[arg(long, value_name = "FILE")]
    pub load: Option<PathBuf>,
    /// What the stages cost on this machine, as `fit` wrote it [default: general figures]
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// How many flows to plan for; 0 for so many that every share is even [default: 16]
    #[arg(long, value_name = "N")]
    pub flows: Option<u32>,
    /// Where to write the plan; `-` prints it
    #[arg(short, long, value_name = "FILE", default_value = "plan.toml")]
    pub output: PathBuf,
}

/// `apply`
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The plan file
    #[arg(value_name = "PLAN", default_value = "plan.toml")]
    pub plan: PathBuf,
    /// Print the exact writes and make none
    #[arg(long)]
    pub dry_run: bool,
    /// Undo everything after this many seconds unless `linerate confirm` comes first
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "dry_run")]
    pub confirm: Option<f64>,
    /// Also keep it in force over reboots and for devices that come later (see `persist`)
    #[arg(long, conflicts_with_all = ["confirm", "dry_run"])]
    pub persist: bool,
    /// Let the settings of any device that is not here wait for it, instead of refusing the plan
    #[arg(long)]
    pub pending: bool,
    /// With --confirm, also undo it as soon as this address stops answering pings that it answered
    /// before; may be repeated [default: the default gateways]
    #[arg(long, value_name = "ADDRESS", requires = "confirm")]
    pub probe: Vec<Target>,
    /// With --confirm, watch no address
    #[arg(long, requires = "confirm", conflicts_with = "probe")]
    pub no_probe: bool,
}

/// `verify`
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The plan file [default: plan.toml, or else what is persisted]
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Call the settings of any device that is not here pending, not drifted
    #[arg(long)]
    pub pending: bool,
}

/// `persist`
#[derive(Debug, Args)]
pub struct PersistArgs {
    /// The plan file [default: plan.toml, or else what is persisted]
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Print the files that would be written, and write nothing
    #[arg(long)]
    pub print: bool,
    /// Take this instead of what starts programs here (for images, with LINERATE_ROOT_DIR)
    #[arg(long, value_name = "INIT")]
    pub init: Option<InitName>,
    /// Where the program will lie (for images)
    #[arg(long, value_name = "PATH", hide = true)]
    pub program: Option<String>,
}

/// What starts programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InitName {
    /// systemd with udev
    Systemd,
    /// OpenWrt's procd and hotplug.d
    Openwrt,
}

/// `unpersist`
#[derive(Debug, Args)]
pub struct UnpersistArgs {
    /// Also undo files and settings that somebody else has changed since
    #[arg(long)]
    pub force: bool,
}

/// `event`
#[derive(Debug, Args)]
pub struct EventArgs {
    /// Every device of the plan
    #[arg(long)]
    pub all: bool,
    /// The device that appeared, as it is called now
    #[arg(required_unless_present = "all")]
    pub device: Option<String>,
}

/// `rollback`
#[derive(Debug, Args)]
pub struct RollbackArgs {
    /// Overwrite values that something else has set since
    #[arg(long)]
    pub force: bool,
}

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
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub seconds: f64,
    /// Seconds left out at the start of each run
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = seconds_or_zero)]
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
    /// With nat+ipv6: translate IPv6 addresses although nobody should
    #[arg(long, conflicts_with = "lan")]
    pub nat66: bool,
}

impl LoadArgs {
    /// The lab that it runs in: masquerading, as `nat` asks.
    #[must_use]
    pub fn lab(&self) -> LabSpec {
        self.lab_of(ScenarioName::default())
    }

    /// The lab of a scenario.
    #[must_use]
    pub fn lab_of(&self, scenario: ScenarioName) -> LabSpec {
        let shape = Shape { flowtable: self.flowtable || scenario.flowtable, ..scenario };
        LabSpec { rules: self.rules, mtu: self.mtu, flows: self.flows, shape }
    }

    /// Bulk TCP in one direction or both.
    #[must_use]
    pub fn spec(&self, direction: Direction) -> LoadSpec {
        LoadSpec::tcp(direction, self.streams, self.seconds, self.omit)
    }

    /// For the record: `nat`.
    #[must_use]
    pub fn scenario(&self, protocol: Protocol) -> Scenario {
        self.scenario_of(ScenarioName::default(), protocol)
    }

    /// For the record.
    #[must_use]
    pub fn scenario_of(&self, scenario: ScenarioName, protocol: Protocol) -> Scenario {
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

/// What a lab is built as: `nat+flowtable+vlan`.
pub use crate::lab::Shape as ScenarioName;

/// `bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to build: route or nat, with +flowtable, +vlan, +pppoe, +bridge, +wireguard, +ipv6
    #[arg(default_value = "nat")]
    pub scenario: ScenarioName,
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
    /// Which way: wan to lan (down), lan to wan (up), or both at once (measures each alone too)
    #[arg(long, default_value = "both", value_parser = direction)]
    pub direction: Direction,
    /// What to send
    #[arg(long, default_value = "tcp", value_parser = protocol)]
    pub protocol: Protocol,
    /// Rate to send at in Mbit/s, all streams together (UDP needs one)
    #[arg(long, value_name = "MBIT", value_parser = megabits)]
    pub rate: Option<f64>,
    /// Payload of a UDP datagram in bytes [default: 1400, or what fits the path]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(16..=8972))]
    pub datagram: Option<u32>,
    /// Send UDP as ready-made Ethernet frames, past the sender's IP stack: for small packets
    #[arg(long)]
    pub frames: bool,
    /// What UDP leaves by: socket, packet (AF_PACKET), xdp (AF_XDP, or AF_PACKET where it can't be
    /// had), frames (the better one, as --frames) [default: socket]
    #[arg(long, value_name = "NAME", value_parser = sender, conflicts_with = "frames")]
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
    /// Fail (exit 1) when the sum of the directions stays below this many Mbit/s
    #[arg(long, value_name = "MBIT", value_parser = megabits)]
    pub fail_below: Option<f64>,
    /// Run another generator in turn in the same lab and print the ratio
    #[arg(long, value_name = "DRIVER", conflicts_with = "lan")]
    pub against: Option<Against>,
    /// Pairs to run with --against
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub pairs: u32,
    /// Between other machines; last, as its heading holds for what follows
    #[command(flatten)]
    pub wire: WireArgs,
}

/// `bench wireguard --board`
#[derive(Debug, Clone, Args)]
pub struct BoardArgs {
    /// WireGuard between two namespaces, as the public table of boards has it (with `wireguard`)
    #[arg(long, conflicts_with = "lan")]
    pub board: bool,
    /// Seconds of the comparable run; other lengths than 10 are marked
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds, requires = "board")]
    pub board_seconds: f64,
    /// Runs of each kind for the fuller figure; 0 for none
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100), requires = "board")]
    pub repeats: u32,
    /// What the device is called in the row [default: what the firmware says]
    #[arg(long, value_name = "NAME", requires = "board")]
    pub device: Option<String>,
    /// Note in the row
    #[arg(long, value_name = "TEXT", requires = "board")]
    pub note: Option<String>,
    /// Where to write the result, for `rank`
    #[arg(short, long, value_name = "FILE", requires = "board")]
    pub output: Option<PathBuf>,
}

/// `rank`
#[derive(Debug, Args)]
pub struct RankArgs {
    /// Results of `bench wireguard --board -o FILE`
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Where to write it: a drawing (.svg), a page (.html), else text
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Generators to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// The installed iperf3
    Iperf3,
}

/// `report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The result file of `tune`, or the record of `sweep`
    #[arg(value_name = "RESULT", default_value = "linerate-result.json")]
    pub result: PathBuf,
    /// Kind of report [default: by the output's name, else text]
    #[arg(long)]
    pub format: Option<ReportFormat>,
    /// Where to write it; `-` prints it
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Kinds of report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One self-contained page
    Html,
    /// Markdown
    Markdown,
    /// Plain text
    Text,
}

/// `compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// What to compare with: a file of tune, sweep or bench --json
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// What is compared
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Where to write it: a drawing (.svg), a page (.html), else text
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also if they are not of one kind: other scenario, other class of evidence
    #[arg(long)]
    pub anyway: bool,
}

/// `capture`
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Where to write it
    #[arg(short, long, value_name = "FILE", default_value = "linerate-capture.tar.gz")]
    pub output: PathBuf,
    /// How often to read the counters
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub samples: u32,
    /// Seconds between two readings
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub interval: f64,
}

/// `record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// File to write; stdout without it. An existing file is never overwritten
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Form of the lines; CSV unless the file's name ends in .jsonl or --json is given
    #[arg(long, value_name = "FORM")]
    pub format: Option<RecordFormat>,
    /// Seconds between two readings, 0.1 to 10
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    pub interval: f64,
    /// End after this long; without it Ctrl-C does
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Only this device; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
}

/// Forms of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    /// A table with a header, for spreadsheets
    Csv,
    /// One JSON object per line
    Jsonl,
}

impl RecordFormat {
    /// As the file's name says.
    #[must_use]
    pub fn of(file: Option<&std::path::Path>) -> Self {
        let extension = file.and_then(|path| path.extension());
        if extension.is_some_and(|e| e == "jsonl" || e == "ndjson") {
            Self::Jsonl
        } else {
            Self::Csv
        }
    }
}

/// `lab`
#[derive(Debug, Args)]
pub struct LabArgs {
    /// What to do with labs
    #[command(subcommand)]
    pub action: LabAction,
}

/// What to do with labs.
#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Build one that stays until `lab down`
    Up {
        /// Extra filter rules that never match
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=20_000))]
        rules: u32,
        /// Largest IP packet in bytes
        #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=9000))]
        mtu: u32,
        /// Forward established flows through a software flowtable
        #[arg(long)]
        flowtable: bool,
    },
    /// Remove one, or all; also what a crash left behind
    Down {
        /// Its id; all labs without one
        id: Option<String>,
    },
    /// List the labs that are up
    List,
    /// A shell, or a command, inside one
    Shell {
        /// Its id; may be left out when only one is up
        #[arg(long)]
        id: Option<String>,
        /// lan, router or wan
        #[arg(default_value = "router")]
        place: Place,
        /// The command; $SHELL without one
        #[arg(last = true)]
        command: Vec<std::ffi::OsString>,
    },
}

/// The namespaces of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// The client's side
    Lan,
    /// The router
    Router,
    /// The server's side
    Wan,
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    seconds_or_zero(text)
        .and_then(|s| if s > 0.0 { Ok(s) } else { Err("must be more than 0".into()) })
}

fn interval(text: &str) -> Result<f64, String> {
    seconds(text).and_then(|s| {
        if (0.1..=10.0).contains(&s) { Ok(s) } else { Err("must be between 0.1 and 10".into()) }
    })
}

fn seconds_or_zero(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('s').parse::<f64>() {
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok(s),
        Ok(_) => Err("must be between 0 and 86400 seconds".into()),
        Err(_) => Err("not a number of seconds".into()),
    }
}

pub(super) fn megabits(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(m) if m.is_finite() && m > 0.0 && m < 1e7 => Ok(m),
        _ => Err("a rate in Mbit/s, above 0 and below 10000000".into()),
    }
}

fn profile(text: &str) -> Result<Profile, String> {
    text.parse()
}

pub(super) fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "down" => Ok(Direction::Down),
        "up" => Ok(Direction::Up),
        "both" => Ok(Direction::Both),
        _ => Err("one of down, up, both".into()),
    }
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        _ => Err("tcp or udp".into()),
    }
}

pub(super) fn sender(text: &str) -> Result<Sender, String> {
    let known = Sender::ALL.into_iter().find(|sender| sender.word() == text);
    known.ok_or_else(|| format!("one of {}", Sender::ALL.map(Sender::word).join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
