//! Evidence of where the work was: raw counters of devices, queues, interrupt lines, CPUs and
//! poller threads over a window of time.
//!
//! ```text
//!   boot ──────────────────────────────── now            Window::SinceBoot: what the counters say
//!                              earlier ── later          Window::Sampled: Evidence::difference
//! ```
//!
//! Counts are kept as they are, beside the seconds that they took, so that whoever weighs them can
//! distinguish much evidence from little. A count that is absent was not reported; zero was
//! counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cpuset::CpuSet;
use super::knob::Knob;
use super::path::SoftnetCpu;
use super::snapshot::IrqRole;
use super::units::{CpuId, IrqLine};

/// Counters over one window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Window in which the counters counted.
    pub window: Window,
    /// Packets of each device (`/proc/net/dev`), by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, Moved>,
    /// Packets of the queues that a device's driver reports (`ethtool -S`), by device and ascending
    /// queue number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub queues: BTreeMap<String, Vec<QueueMoved>>,
    /// Interrupts of each line of [`super::snapshot::Snapshot::irqs`], by CPU; CPUs that took none
    /// are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<IrqLine, BTreeMap<CpuId, u64>>,
    /// Receive path counters of each CPU.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub softnet: Vec<SoftnetCpu>,
    /// Time that each CPU spent, by kind of work.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpus: BTreeMap<CpuId, CpuTime>,
    /// Kernel threads that poll or transmit, by owner, role and index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pollers: Vec<Poller>,
    /// Names of what could not be compared: devices, lines and threads that came or went within the
    /// window, and counters that were reset. They are not in the counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// Window of time in which counters counted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Window {
    /// Since the machine booted.
    SinceBoot {
        /// Uptime; `None` where it is not known.
        seconds: Option<f64>,
    },
    /// Between two looks at the running machine.
    Sampled {
        /// Time between the two.
        seconds: f64,
    },
    /// No counter could be read: only the structure of the machine is known.
    #[default]
    None,
}

impl Window {
    /// Length of the window; `None` where it is not known.
    #[must_use]
    pub fn seconds(self) -> Option<f64> {
        match self {
            Self::SinceBoot { seconds } => seconds,
            Self::Sampled { seconds } => Some(seconds),
            Self::None => None,
        }
    }
}

/// Packets that a device moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Moved {
    /// Packets received; after GRO where the driver counts them so.
    pub rx: u64,
    /// Packets sent.
    pub tx: u64,
}

/// Packets that a queue moved, each way where the driver reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueMoved {
    /// Queue number.
    pub index: u32,
    /// Packets received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx: Option<u64>,
    /// Packets sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx: Option<u64>,
}

/// Time that a CPU spent on each kind of work, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTime {
    /// User space.
    pub user: f64,
    /// The kernel on behalf of a process or a kernel thread.
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Soft interrupts; sampled by the tick where the kernel does not account them exactly.
    pub softirq: f64,
    /// Idle, waiting for I/O included.
    pub idle: f64,
}

/// Owner of the packets that a thread polls or sends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "name")]
pub enum PollerOwner {
    /// A network device.
    Device(String),
    /// A Wi-Fi radio, by the name of its phy.
    Radio(String),
    /// A device without queues of its own that a driver polls on behalf of all its network devices
    /// (`mtk_eth` of mtk_eth_soc), by its name, which is empty where the driver gave it none.
    Dummy(String),
    /// A CPU, the owner of its `ksoftirqd`.
    Cpu(CpuId),
}

impl std::fmt::Display for PollerOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Device(name) | Self::Radio(name) => f.write_str(name),
            Self::Dummy(name) if name.is_empty() => f.write_str("unnamed device"),
            Self::Dummy(name) => f.write_str(name),
            Self::Cpu(cpu) => cpu.fmt(f),
        }
    }
}

/// Work that a thread does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PollerRole {
    /// Polls a NAPI instance (`napi/eth0-8193`).
    Napi,
    /// Sends (`mt76-tx phy0`).
    Transmit,
    /// Works through a driver's queue of received or finished packets in a thread of its own
    /// (`mt76-usb-rx phy0`).
    Workqueue,
    /// Runs soft interrupts when they are many, or always where interrupts are threads.
    Ksoftirqd,
}

impl std::fmt::Display for PollerRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Napi => "napi",
            Self::Transmit => "transmit",
            Self::Workqueue => "workqueue",
            Self::Ksoftirqd => "ksoftirqd",
        })
    }
}

/// Name of a thread that stays valid for longer than the thread lives: `radio:phy0/transmit/0`,
/// `dummy:mtk_eth/napi/1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollerKey {
    /// Owner of the packets that the thread takes.
    pub owner: PollerOwner,
    /// Work that the thread does with them.
    pub role: PollerRole,
    /// Place among the owner's threads of that role.
    pub index: u32,
}

impl std::fmt::Display for PollerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.owner {
            PollerOwner::Device(name) => write!(f, "device:{name}")?,
            PollerOwner::Radio(name) => write!(f, "radio:{name}")?,
            PollerOwner::Dummy(name) => write!(f, "dummy:{name}")?,
            PollerOwner::Cpu(cpu) => write!(f, "cpu:{}", cpu.0)?,
        }
        write!(f, "/{}/{}", self.role, self.index)
    }
}

impl std::str::FromStr for PollerKey {
    type Err = ();

    /// Reads the key of an owner that can be placed: not of a CPU, whose thread is bound to it.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/');
        let (Some(owner), Some(role), Some(index), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let (kind, name) = owner.split_once(':').ok_or(())?;
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == ':';
        if name.len() > 32 || name.contains(odd) || (name.is_empty() && kind != "dummy") {
            return Err(());
        }
        let owner = match kind {
            "device" => PollerOwner::Device(name.to_owned()),
            "radio" => PollerOwner::Radio(name.to_owned()),
            "dummy" => PollerOwner::Dummy(name.to_owned()),
            _ => return Err(()),
        };
        let role = [PollerRole::Napi, PollerRole::Transmit, PollerRole::Workqueue]
            .into_iter()
            .find(|known| known.to_string() == role)
            .ok_or(())?;
        Ok(Self { owner, role, index: index.parse().map_err(drop)? })
    }
}

/// A kernel thread that polls or transmits. Owner, role and index are its identity; the process
/// number is this boot's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Poller {
    /// Owner of the packets that the thread takes.
    pub owner: PollerOwner,
    /// Work that the thread does with them.
    pub role: PollerRole,
    /// Place among the owner's threads of that role, by ascending NAPI number.
    pub index: u32,
    /// Process number.
    pub pid: u32,
    /// Name of the thread.
    pub name: String,
    /// Role of the instance that it polls: receives, completes transmissions, or both; `None` where
    /// that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polls: Option<IrqRole>,
    /// Receive queues of each of its devices that it polls, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rx: Vec<u32>,
    /// Transmit queues of each of its devices that it completes, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tx: Vec<u32>,
    /// Network devices whose packets pass through it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// CPUs that it may run on; `None` where that can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// CPU that it last ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_cpu: Option<CpuId>,
    /// CPU time within the window, in seconds, in steps of 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// True if the thread's affinity can be set (not `PF_NO_SETAFFINITY`); `None` where that is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub movable: Option<bool>,
}

impl Poller {
    /// Owner, role and index: what stays when the kernel makes the thread anew.
    #[must_use]
    pub fn identity(&self) -> (&PollerOwner, PollerRole, u32) {
        (&self.owner, self.role, self.index)
    }

    /// Owner, role and index as a text that settings go by, and that [`PollerKey`] reads.
    #[must_use]
    pub fn key(&self) -> PollerKey {
        PollerKey { owner: self.owner.clone(), role: self.role, index: self.index }
    }

    /// Setting of the thread's CPUs; `None` for a thread that is bound to its CPU.
    #[must_use]
    pub fn knob(&self) -> Option<Knob> {
        match (&self.owner, self.role) {
            (PollerOwner::Cpu(_), _) => None,
            (PollerOwner::Device(device), PollerRole::Napi) => {
                Some(Knob::NapiThread { device: device.clone(), thread: self.index })
            }
            _ => Some(Knob::PollerCpus { name: self.key().to_string() }),
        }
    }

    /// True if the thread polls for that device, or sends for it.
    #[must_use]
    pub fn serves(&self, device: &str) -> bool {
        self.devices.iter().any(|d| d == device)
    }
}

/// Advance of a counter, and true if the counter was reset on the way.
///
/// Drivers of 32-bit machines keep `unsigned long` counters that wrap at 2^32. A counter that went
/// back from the upper half of 32 bits is taken to have wrapped; any other way back is a reset,
/// after which only the new value is known.
#[must_use]
pub fn counted(after: u64, before: u64) -> (u64, bool) {
    const HALF: u64 = 1 << 31;
    match after.checked_sub(before) {
        Some(delta) => (delta, false),
        None if (HALF..HALF * 2).contains(&before) && after < HALF => {
            (HALF * 2 - before + after, false)
        }
        None => (after, true),
    }
}

impl Evidence {
    /// True if no counter of packets, interrupts or the receive path was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.lines.is_empty() && self.softnet.is_empty()
    }

    /// Packets of a device in both directions; `None` where they were not counted.
    #[must_use]
    pub fn packets(&self, device: &str) -> Option<u64> {
        self.devices.get(device).map(|moved| moved.rx.saturating_add(moved.tx))
    }

    /// Interrupts of a line over all CPUs; `None` where they were not counted.
    #[must_use]
    pub fn interrupts(&self, line: IrqLine) -> Option<u64> {
        let counts = self.lines.get(&line)?;
        Some(counts.values().fold(0, |sum, count| sum.saturating_add(*count)))
    }

    /// Packets that all devices received; 0 where none were counted.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.devices.values().fold(0, |sum, moved| sum.saturating_add(moved.rx))
    }

    /// Source and number of the counts, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let packets = self.received();
        match self.window {
            Window::None => "the structure of the machine alone: it has no counters".to_owned(),
            _ if packets == 0 => "the structure of the machine: no packets were counted".to_owned(),
            Window::Sampled { seconds } => {
                format!("a look at the traffic for {seconds:.0} s: {packets} packets received")
            }
            Window::SinceBoot { seconds: Some(seconds) } => {
                let hours = seconds / 3600.0;
                format!("counters since boot, {hours:.1} hours: {packets} packets received")
            }
            Window::SinceBoot { seconds: None } => {
                format!("counters since boot: {packets} packets received")
            }
        }
    }

    /// The pollers of a device.
    pub fn pollers_of<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a Poller> {
        self.pollers.iter().filter(move |p| p.serves(device))
    }

    /// Counts between two looks that lie `seconds` apart.
    ///
    /// Counters that only one of the looks has are left out and named in [`Evidence::changed`]: a
    /// line that comes may carry another's counts, and one that goes takes its own along. Threads
    /// are those of the later look; one that is new has no CPU time.
    #[must_use]
    pub fn difference(earlier: &Self, later: &Self, seconds: f64) -> Self {
        let mut changed = Changed::default();
        let devices = changed.common("device", &earlier.devices, &later.devices, |was, is| {
            let ((rx, new_rx), (tx, new_tx)) = (counted(is.rx, was.rx), counted(is.tx, was.tx));
            (!new_rx && !new_tx).then_some(Moved { rx, tx })
        });
        let queues =
            changed.common("queues of", &earlier.queues, &later.queues, |was, is| queues(was, is));
        let lines = changed.common("interrupt", &earlier.lines, &later.lines, |was, is| {
            let mut counts = BTreeMap::new();
            for (cpu, after) in is {
                let (count, reset) = counted(*after, was.get(cpu).copied().unwrap_or(0));
                if reset {
                    return None;
                }
                if count > 0 {
                    counts.insert(*cpu, count);
                }
            }
            // A CPU that is gone from the table (offline) took an unknown number.
            Some(counts)
        });
        let softnet = softnet(&earlier.softnet, &later.softnet);
        // The kernel's idle time is known to go back by a tick now and then (fs/proc/stat.c,
        // get_idle_time): that is no time.
        let spent = |after: f64, before: f64| (after - before).max(0.0);
        let both =
            later.cpus.iter().filter_map(|(cpu, is)| Some((cpu, is, earlier.cpus.get(cpu)?)));
        let cpus = both.map(|(cpu, is, was)| {
            let time = CpuTime {
                user: spent(is.user, was.user),
                system: spent(is.system, was.system),
                irq: spent(is.irq, was.irq),
                softirq: spent(is.softirq, was.softirq),
                idle: spent(is.idle, was.idle),
            };
            (*cpu, time)
        });
        let cpus = cpus.collect();
        let pollers = later.pollers.iter().map(|is| {
            let was = earlier.pollers.iter().find(|p| p.pid == is.pid && p.name == is.name);
            let cpu_seconds = match (is.cpu_seconds, was.and_then(|p| p.cpu_seconds)) {
                (Some(after), Some(before)) => Some(spent(after, before)),
                _ => None,
            };
            Poller { cpu_seconds, ..is.clone() }
        });
        let pollers = pollers.collect();
        let window = Window::Sampled { seconds: seconds.max(0.0) };
        let changed = changed.list;
        Self { window, devices, queues, lines, softnet, cpus, pollers, changed }
    }
}

/// Collector of the names of what could not be compared.
#[derive(Default)]
struct Changed {
    list: Vec<String>,
}

impl Changed {
    /// Counters that both looks have, as `since` combines the two; `None` for counters that were
    /// reset.
    fn common<K: Ord + Clone + std::fmt::Display, V, D>(
        &mut self,
        kind: &str,
        earlier: &BTreeMap<K, V>,
        later: &BTreeMap<K, V>,
        since: impl Fn(&V, &V) -> Option<D>,
    ) -> BTreeMap<K, D> {
        let mut found = BTreeMap::new();
        for (key, is) in later {
            match earlier.get(key).map(|was| since(was, is)) {
                Some(Some(difference)) => {
                    found.insert(key.clone(), difference);
                }
                Some(None) => self.list.push(format!("{kind} {key} was reset")),
                None => self.list.push(format!("{kind} {key} came")),
            }
        }
        let gone = earlier.keys().filter(|key| !later.contains_key(key));
        self.list.extend(gone.map(|key| format!("{kind} {key} went")));
        found
    }
}

/// Queues by number; channels that were changed in between make all of them incomparable.
fn queues(was: &[QueueMoved], is: &[QueueMoved]) -> Option<Vec<QueueMoved>> {
    if was.len() != is.len() {
        return None;
    }
    let since = |after: Option<u64>, before: Option<u64>| match (after, before) {
        (Some(after), Some(before)) => match counted(after, before) {
            (_, true) => Err(()),
            (count, false) => Ok(Some(count)),
        },
        _ => Ok(None),
    };
    let pairs = is.iter().zip(was);
    let all = pairs.map(|(is, was)| {
        let same = is.index == was.index;
        let (rx, tx) = (since(is.rx, was.rx).ok()?, since(is.tx, was.tx).ok()?);
        same.then_some(QueueMoved { index: is.index, rx, tx })
    });
    all.collect()
}

/// Differences of the softnet counters: the kernel's are `unsigned int` and wrap.
fn softnet(earlier: &[SoftnetCpu], later: &[SoftnetCpu]) -> Vec<SoftnetCpu> {
    let both = later.iter().filter_map(|is| Some((is, earlier.iter().find(|w| w.cpu == is.cpu)?)));
    both.map(|(is, was)| SoftnetCpu {
        cpu: is.cpu,
        packets: is.packets.wrapping_sub(was.packets),
        dropped: is.dropped.wrapping_sub(was.dropped),
        squeezed: is.squeezed.wrapping_sub(was.squeezed),
        received_rps: is.received_rps.wrapping_sub(was.received_rps),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn look(rx: u64, line: u32, counts: &[(u32, u64)]) -> Evidence {
        Evidence {
            devices: [("eth0".to_owned(), Moved { rx, tx: 7 })].into(),
            lines: [(IrqLine(line), counts.iter().map(|(c, n)| (CpuId(*c), *n)).collect())].into(),
            ..Evidence::default()
        }
    }

    #[test]
    fn counters_that_wrap_at_32_bits_are_counted_on() {
        let last = u64::from(u32::MAX);
        let was = look(last - 9, 30, &[(0, last - 1), (1, 5)]);
        let is = look(90, 30, &[(0, 8), (1, 5)]);
        let found = Evidence::difference(&was, &is, 3.0);
        assert_eq!(found.devices["eth0"], Moved { rx: 100, tx: 0 });
        assert_eq!(found.lines[&IrqLine(30)], [(CpuId(0), 10)].into());
        assert_eq!(found.window, Window::Sampled { seconds: 3.0 });
        assert_eq!(found.changed, [""; 0]);
    }

    #[test]
    fn a_counter_that_was_reset_counts_for_nothing_and_is_named() {
        let found = Evidence::difference(&look(500, 30, &[(0, 9)]), &look(2, 30, &[(0, 3)]), 3.0);
        assert!(found.devices.is_empty() && found.lines.is_empty());
        assert_eq!(found.changed, ["device eth0 was reset", "interrupt 30 was reset"]);
    }

    #[test]
    fn lines_that_come_and_go_between_the_looks_are_left_out() {
        let found = Evidence::difference(&look(1, 30, &[(0, 9)]), &look(2, 31, &[(0, 9)]), 3.0);
        assert!(found.lines.is_empty());
        assert_eq!(found.changed, ["interrupt 31 came", "interrupt 30 went"]);
        assert_eq!(found.devices["eth0"].rx, 1);
    }

    #[test]
    fn channels_that_changed_between_the_looks_leave_no_queue() {
        let with = |queues: &[u32]| Evidence {
            queues: [(
                "eth0".to_owned(),
                queues.iter().map(|q| QueueMoved { index: *q, rx: Some(9), tx: None }).collect(),
            )]
            .into(),
            ..Evidence::default()
        };
        assert!(Evidence::difference(&with(&[0, 1]), &with(&[0]), 1.0).queues.is_empty());
        assert!(Evidence::difference(&with(&[0, 1]), &with(&[0, 2]), 1.0).queues.is_empty());
        let same = Evidence::difference(&with(&[0, 1]), &with(&[0, 1]), 1.0);
        assert_eq!(same.queues["eth0"][1], QueueMoved { index: 1, rx: Some(0), tx: None });
    }

    #[test]
    fn a_thread_that_is_new_has_no_cpu_time_yet() {
        let thread = |pid: u32, seconds: f64| Poller {
            owner: PollerOwner::Dummy("mtk_eth".into()),
            role: PollerRole::Napi,
            index: 1,
            pid,
            name: "napi/mtk_eth-6".into(),
            polls: Some(IrqRole::Rx),
            rx: vec![0],
            tx: Vec::new(),
            devices: vec!["eth0".into()],
            cpus: None,
            last_cpu: None,
            cpu_seconds: Some(seconds),
            movable: Some(true),
        };
        let look =
            |pid, seconds| Evidence { pollers: vec![thread(pid, seconds)], ..Evidence::default() };
        let found = Evidence::difference(&look(70, 4.0), &look(70, 5.5), 3.0);
        assert_eq!(found.pollers_of("eth0").next().unwrap().cpu_seconds, Some(1.5));
        let found = Evidence::difference(&look(70, 4.0), &look(71, 5.5), 3.0);
        assert_eq!(found.pollers[0].cpu_seconds, None);
    }

    #[test]
    fn a_key_is_read_as_it_is_written_and_nothing_else_is_one() {
        for text in ["radio:phy0/transmit/0", "dummy:/napi/1", "device:eth0/workqueue/12"] {
            assert_eq!(text.parse::<PollerKey>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "phy0/transmit/0",
            "radio:/transmit/0",
            "radio:phy0/transmit",
            "radio:phy0/send/0",
            "radio:../x/napi/0",
            "cpu:0/ksoftirqd/0",
            "radio:phy 0/napi/0",
            "radio:phy0/napi/-1",
        ] {
            assert_eq!(text.parse::<PollerKey>(), Err(()), "{text}");
        }
    }

    #[test]
    fn a_snapshot_of_an_earlier_version_has_no_evidence() {
        let found: super::super::snapshot::Snapshot = serde_json::from_str("{}").unwrap();
        assert_eq!(found.evidence, None);
        assert_eq!(serde_json::from_str::<Evidence>("{}").unwrap(), Evidence::default());
        let one = look(3, 30, &[(0, 9)]);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), one);
    }

    #[test]
    fn a_wrap_of_32_bits_is_not_a_reset() {
        assert_eq!(counted(10, 3), (7, false));
        assert_eq!(counted(5, 0xffff_fffe), (7, false), "wrapped");
        assert_eq!(counted(5, 100), (5, true), "made anew");
        assert_eq!(counted(5, 1 << 40), (5, true), "64 bits do not wrap in our time");
    }

    proptest! {
        #[test]
        fn what_was_counted_is_what_is_found(before: u64, more in 0..1u64 << 40) {
            if let Some(after) = before.checked_add(more) {
                prop_assert_eq!(counted(after, before), (more, false));
            }
        }

        #[test]
        fn a_32_bit_counter_wraps_unseen(before in (1u64 << 31)..1 << 32, more in 0u64..1 << 31) {
            prop_assert_eq!(counted((before + more) & 0xffff_ffff, before), (more, false));
        }

        #[test]
        fn any_two_looks_have_a_difference(a: u64, b: u64, n: u32, m: u32, seconds: f64) {
            let (was, is) = (look(a, n, &[(n, a), (m, b)]), look(b, n, &[(m, a)]));
            let found = Evidence::difference(&was, &is, seconds);
            prop_assert!(found.window.seconds().unwrap() >= 0.0);
        }
    }
}
