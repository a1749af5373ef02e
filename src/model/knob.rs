//! What can be set: a name that stays valid over a reboot, and a value compared by meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cpuset::CpuSet;
use super::snapshot::IrqId;
use super::sysctl;

/// A setting of the router.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Knob {
    /// CPUs that an interrupt line may go to (`/proc/irq/N/smp_affinity`).
    IrqAffinity {
        /// The line, by what it is for.
        #[serde(flatten)]
        irq: IrqId,
    },
    /// Receive packet steering of a queue (`queues/rx-N/rps_cpus`); the empty set is "off".
    RpsCpus {
        /// Device name.
        device: String,
        /// Receive queue.
        queue: u32,
    },
    /// Transmit packet steering of a queue (`queues/tx-N/xps_cpus`).
    XpsCpus {
        /// Device name.
        device: String,
        /// Transmit queue.
        queue: u32,
    },
    /// Transmit queue chosen by the queue that a packet came in on (`queues/tx-N/xps_rxqs`).
    XpsRxqs {
        /// Device name.
        device: String,
        /// Transmit queue.
        queue: u32,
    },
    /// Receive flow steering entries of a queue (`queues/rx-N/rps_flow_cnt`).
    RpsFlowCnt {
        /// Device name.
        device: String,
        /// Receive queue.
        queue: u32,
    },
    /// Whether a device's NAPI polls in kernel threads (`threaded`, kernel 5.12).
    ThreadedNapi {
        /// Device name.
        device: String,
    },
    /// How many polls may come up empty before interrupts are switched on again
    /// (`napi_defer_hard_irqs`, kernel 5.8); takes effect with `GroFlushTimeout` above 0 only.
    NapiDeferHardIrqs {
        /// Device name.
        device: String,
    },
    /// Nanoseconds until GRO lets packets go, and until a put-off poll (`gro_flush_timeout`).
    GroFlushTimeout {
        /// Device name.
        device: String,
    },
    /// Frequency governor of a policy (`cpufreq/policyN/scaling_governor`).
    Governor {
        /// Policy directory name.
        policy: String,
    },
    /// Lowest frequency of a policy in kHz (`cpufreq/policyN/scaling_min_freq`).
    MinFrequency {
        /// Policy directory name.
        policy: String,
    },
    /// Highest frequency of a policy in kHz (`cpufreq/policyN/scaling_max_freq`).
    MaxFrequency {
        /// Policy directory name.
        policy: String,
    },
    /// CPUs of a kernel thread that polls for a device (`napi/<device>-<NAPI number>`).
    NapiThread {
        /// Device name.
        device: String,
        /// Which of its threads, from 0 in the order of NAPI numbers: mostly that of the queues.
        #[serde(rename = "queue")]
        thread: u32,
    },
    /// Interrupt moderation of a device (`ethtool -C`).
    Coalesce {
        /// Device name.
        device: String,
        /// One of [`COALESCE`].
        #[serde(rename = "name")]
        parameter: String,
    },
    /// Descriptors of each ring of a device (`ethtool -G`). Most drivers stop the card for it.
    Ring {
        /// Device name.
        device: String,
        /// `rx` or `tx`.
        #[serde(rename = "name")]
        direction: String,
    },
    /// Queues of a device (`ethtool -L`). Queues, interrupt lines and what is set for them come
    /// and go with it.
    Channels {
        /// Device name.
        device: String,
        /// `combined`, `rx` or `tx`.
        #[serde(rename = "name")]
        direction: String,
    },
    /// An offload of a device (`ethtool -K`).
    Offload {
        /// Device name.
        device: String,
        /// The kernel's name (`rx-gro-list`), not ethtool's short one.
        #[serde(rename = "name")]
        feature: String,
    },
    /// Which queue each hash bucket of received packets goes to (`ethtool -X`): a count spreads
    /// them equally over the first queues, a word lists the queue of each bucket (`0,0,1,1`).
    RssTable {
        /// Device name.
        device: String,
    },
    /// The queueing discipline at a device's root, one of [`QDISCS`]; `default` is the one that
    /// the kernel puts there by itself (mq where there are several queues).
    Qdisc {
        /// Device name.
        device: String,
    },
    /// Whether a service runs that sets what we set, one of [`SERVICES`].
    Service {
        /// Its name.
        name: String,
    },
    /// A file under /proc/sys, one of [`sysctl::SYSCTLS`].
    Sysctl {
        /// Its dotted name.
        name: String,
    },
    /// Established connections past netfilter and routing: `off`, or `software` or `hardware`
    /// with the devices that the flowtable takes packets from (`software eth0 eth1`). On OpenWrt
    /// its firewall knows the devices, and the word stands alone.
    FlowOffload,
    /// OpenWrt's own packet steering (`network.globals.packet_steering`): one of [`STEERING`].
    PacketSteering,
}

/// Parameters of [`Knob::Coalesce`]; `adaptive-*` is on or off, the others are counts.
pub const COALESCE: &[&str] =
    &["rx-usecs", "rx-frames", "tx-usecs", "tx-frames", "adaptive-rx", "adaptive-tx"];

/// What [`Knob::Qdisc`] can be set to, all without options.
pub const QDISCS: &[&str] = &["default", "fq", "fq_codel", "cake", "pfifo_fast"];

/// What [`Knob::Service`] may start and stop.
///
/// irqbalance is stopped rather than told of lines to leave alone (`--banirq`,
/// `IRQBALANCE_ARGS`): a ban is a number, which the next boot gives to another line; it is read
/// at the start only, so the program has to be started anew all the same; its file is kept by four
/// distributions in four forms; and of what is left to it, it takes away only lines that carry no
/// packets. What it does with those is not worth a second way to get it wrong.
pub const SERVICES: &[&str] = &["irqbalance"];

/// What [`Knob::FlowOffload`] begins with.
pub const OFFLOAD_MODES: &[&str] = &["off", "software", "hardware"];

/// What [`Knob::PacketSteering`] can be; `unset` means 1 from OpenWrt 24.10 on and 0 before.
pub const STEERING: &[&str] = &["unset", "0", "1", "2"];

/// What kind of value a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A set of CPUs, written as a mask; may be empty.
    Cpus,
    /// A set of queues, written as a mask; may be empty.
    Queues,
    /// A number.
    Count,
    /// On or off, written 1 or 0.
    Switch,
    /// A word without blanks.
    Word,
    /// Words between blanks; which blanks does not matter.
    Words,
    /// A number of queues above 0, or a queue for each of many buckets with commas between.
    Spread,
}

impl Shape {
    /// What it is called where another kind was given.
    fn words(self) -> &'static str {
        match self {
            Self::Cpus => "a list of CPUs",
            Self::Queues => "a list of queues",
            Self::Count => "a count",
            Self::Switch => "on or off",
            Self::Word => "a word",
            Self::Words => "words",
            Self::Spread => "a number of queues or a list of them",
        }
    }
}

impl Knob {
    /// The network device it belongs to, if any.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::IrqAffinity { irq } => Some(&irq.device),
            Self::RpsCpus { device, .. }
            | Self::XpsCpus { device, .. }
            | Self::XpsRxqs { device, .. }
            | Self::RpsFlowCnt { device, .. }
            | Self::ThreadedNapi { device }
            | Self::NapiDeferHardIrqs { device }
            | Self::GroFlushTimeout { device }
            | Self::NapiThread { device, .. }
            | Self::Coalesce { device, .. }
            | Self::Ring { device, .. }
            | Self::Channels { device, .. }
            | Self::Offload { device, .. }
            | Self::RssTable { device }
            | Self::Qdisc { device } => Some(device),
            Self::Governor { .. }
            | Self::MinFrequency { .. }
            | Self::MaxFrequency { .. }
            | Self::Service { .. }
            | Self::FlowOffload
            | Self::PacketSteering
            | Self::Sysctl { .. } => None,
        }
    }

    /// What kind of value it takes; `None` for a sysctl that is not one of ours.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        Some(match self {
            Self::IrqAffinity { .. }
            | Self::RpsCpus { .. }
            | Self::XpsCpus { .. }
            | Self::NapiThread { .. } => Shape::Cpus,
            Self::XpsRxqs { .. } => Shape::Queues,
            Self::RpsFlowCnt { .. }
            | Self::NapiDeferHardIrqs { .. }
            | Self::GroFlushTimeout { .. }
            | Self::MinFrequency { .. }
            | Self::MaxFrequency { .. }
            | Self::Ring { .. }
            | Self::Channels { .. } => Shape::Count,
            Self::Coalesce { parameter, .. } if !parameter.starts_with("adaptive") => Shape::Count,
            Self::ThreadedNapi { .. }
            | Self::Coalesce { .. }
            | Self::Offload { .. }
            | Self::Service { .. } => Shape::Switch,
            Self::RssTable { .. } => Shape::Spread,
            Self::Governor { .. } | Self::Qdisc { .. } | Self::PacketSteering => Shape::Word,
            Self::FlowOffload => Shape::Words,
            Self::Sysctl { name } => sysctl::find(name)?.shape,
        })
    }

    /// Whether OpenWrt's packet steering writes it too: RPS and RFS, NAPI's threads from 24.10 on
    /// (packet-steering.uc), XPS before (packet-steering.sh).
    #[must_use]
    pub fn is_steered(&self) -> bool {
        matches!(
            self,
            Self::RpsCpus { .. }
                | Self::RpsFlowCnt { .. }
                | Self::XpsCpus { .. }
                | Self::NapiThread { .. }
        )
    }

    /// Whether it belongs to the machine rather than to a network namespace.
    #[must_use]
    pub fn is_global(&self) -> bool {
        match self {
            Self::IrqAffinity { .. }
            | Self::Governor { .. }
            | Self::MinFrequency { .. }
            | Self::MaxFrequency { .. }
            | Self::PacketSteering
            | Self::Service { .. } => true,
            Self::Sysctl { name } => sysctl::find(name).is_some_and(|s| s.global),
            _ => false,
        }
    }

    /// Whether its names can be meant at all, whatever the value. Plan and journal files name
    /// devices, and those names become parts of paths that root writes to.
    ///
    /// # Errors
    /// A name that is no name.
    pub fn check_names(&self) -> Result<(), BadSetting> {
        match self {
            Self::Governor { policy }
            | Self::MinFrequency { policy }
            | Self::MaxFrequency { policy }
                if !is_policy(policy) =>
            {
                return Err(BadSetting::Policy(policy.clone()));
            }
            Self::Sysctl { name } if sysctl::find(name).is_none() => {
                return Err(BadSetting::Sysctl(name.clone()));
            }
            Self::Service { name } if !SERVICES.contains(&name.as_str()) => {
                return Err(BadSetting::Name(name.clone(), SERVICES.join(", ")));
            }
            Self::Coalesce { parameter: name, .. } if !COALESCE.contains(&name.as_str()) => {
                return Err(BadSetting::Name(name.clone(), COALESCE.join(", ")));
            }
            Self::Ring { direction: name, .. } if !matches!(name.as_str(), "rx" | "tx") => {
                return Err(BadSetting::Name(name.clone(), "rx, tx".into()));
            }
            Self::Channels { direction: name, .. }
                if !matches!(name.as_str(), "combined" | "rx" | "tx") =>
            {
                return Err(BadSetting::Name(name.clone(), "combined, rx, tx".into()));
            }
            Self::Offload { feature, .. } if !is_feature(feature) => {
                return Err(BadSetting::Word(feature.clone()));
            }
            _ => {}
        }
        match self.device().filter(|device| !is_device_name(device)) {
            Some(device) => Err(BadSetting::Device(device.to_owned())),
            None => Ok(()),
        }
    }

    /// Whether setting it to `value` can be meant at all, on whatever machine.
    ///
    /// # Errors
    /// What can't be meant: a name that is no name, a value of another kind, no CPU for an
    /// interrupt.
    pub fn check(&self, value: &Value) -> Result<(), BadSetting> {
        self.check_names()?;
        let Some(shape) = self.shape() else { return Ok(()) };
        let fits = match (shape, value) {
            (Shape::Cpus, Value::Cpus(set)) => {
                let needs = matches!(self, Self::IrqAffinity { .. } | Self::NapiThread { .. });
                if set.is_empty() && needs {
                    return Err(BadSetting::NoCpu(self.clone()));
                }
                true
            }
            (Shape::Word, Value::Word(word)) => {
                let other_qdisc =
                    matches!(self, Self::Qdisc { .. }) && !QDISCS.contains(&word.as_str());
                if other_qdisc {
                    return Err(BadSetting::Name(word.clone(), QDISCS.join(", ")));
                }
                if *self == Self::PacketSteering && !STEERING.contains(&word.as_str()) {
                    return Err(BadSetting::Name(word.clone(), STEERING.join(", ")));
                }
                if !is_word(word) {
                    return Err(BadSetting::Word(word.clone()));
                }
                true
            }
            (Shape::Words, Value::Word(text)) if *self == Self::FlowOffload => {
                check_offload(text)?;
                true
            }
            (Shape::Words, Value::Word(text)) => {
                if text.split(' ').any(|word| !is_word(word)) {
                    return Err(BadSetting::Word(text.clone()));
                }
                true
            }
            (Shape::Spread, Value::Word(table)) => {
                if table.trim_end_matches(',').split(',').any(|n| n.parse::<u32>().is_err()) {
                    return Err(BadSetting::Word(table.clone()));
                }
                true
            }
            // No queue at all, and no ring at all, is a card that does nothing.
            (_, Value::Count(0))
                if matches!(
                    self,
                    Self::RssTable { .. } | Self::Channels { .. } | Self::Ring { .. }
                ) =>
            {
                return Err(BadSetting::Nothing(self.clone()));
            }
            (Shape::Spread, Value::Count(_))
            | (Shape::Queues, Value::Queues(_))
            | (Shape::Count, Value::Count(_))
            | (Shape::Switch, Value::Switch(_)) => true,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(BadSetting::Kind { knob: self.clone(), expected: shape.words(), value: value.clone() })
    }
}

/// A mode and, unless it is off, devices.
fn check_offload(text: &str) -> Result<(), BadSetting> {
    let mut words = text.split(' ');
    let mode = words.next().unwrap_or_default();
    if !OFFLOAD_MODES.contains(&mode) {
        return Err(BadSetting::Name(mode.to_owned(), OFFLOAD_MODES.join(", ")));
    }
    match words.find(|device| mode == "off" || !is_device_name(device)) {
        Some(device) => Err(BadSetting::Device(device.to_owned())),
        None => Ok(()),
    }
}

/// The kernel's own rule (net/core/dev.c `dev_valid_name`); IFNAMSIZ counts the final NUL.
fn is_device_name(name: &str) -> bool {
    (1..16).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.bytes().any(|b| matches!(b, b'/' | b':' | 0 | 0x0b) || b.is_ascii_whitespace())
}

/// Directory names under /sys/devices/system/cpu/cpufreq (`policy%u`).
fn is_policy(name: &str) -> bool {
    name.strip_prefix("policy")
        .is_some_and(|n| (1..6).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Names of governors, qdiscs and congestion controls fit 16 bytes with the final NUL
/// (CPUFREQ_NAME_LEN, IFNAMSIZ, TCP_CA_NAME_MAX).
fn is_word(word: &str) -> bool {
    (1..16).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_graphic())
}

/// Feature names are the kernel's own strings of at most ETH_GSTRING_LEN (32) bytes with the NUL.
fn is_feature(name: &str) -> bool {
    (1..32).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A setting that can't be meant as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// Not a name that the kernel gives to a network device.
    #[error("{0:?} can't be the name of a network device")]
    Device(String),
    /// Not a frequency policy.
    #[error("{0:?} can't be the name of a frequency policy")]
    Policy(String),
    /// Not a sysctl that a plan may set.
    #[error("{0:?} is not a sysctl that this program sets")]
    Sysctl(String),
    /// None of those that there are.
    #[error("{0:?} is none of {1}")]
    Name(String, String),
    /// A card without queues or descriptors.
    #[error("{0} can't be 0")]
    Nothing(Knob),
    /// Not a word that the kernel could know.
    #[error("{0:?} can't be the name of anything that the kernel knows")]
    Word(String),
    /// An interrupt line must go to some CPU.
    #[error("{0} is given no CPU to go to")]
    NoCpu(Knob),
    /// A count for a mask, or the like.
    #[error("{knob} takes {expected}, not {value}")]
    Kind {
        /// What was to be set.
        knob: Knob,
        /// What it takes.
        expected: &'static str,
        /// What was given.
        value: Value,
    },
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IrqAffinity { irq } => write!(f, "IRQ affinity of {irq}"),
            Self::RpsCpus { device, queue } => write!(f, "RPS of {device} rx-{queue}"),
            Self::XpsCpus { device, queue } => write!(f, "XPS of {device} tx-{queue}"),
            Self::XpsRxqs { device, queue } => {
                write!(f, "XPS by receive queue of {device} tx-{queue}")
            }
            Self::RpsFlowCnt { device, queue } => write!(f, "RFS entries of {device} rx-{queue}"),
            Self::ThreadedNapi { device } => write!(f, "threaded NAPI of {device}"),
            Self::NapiDeferHardIrqs { device } => write!(f, "napi_defer_hard_irqs of {device}"),
            Self::GroFlushTimeout { device } => write!(f, "gro_flush_timeout of {device}"),
            Self::NapiThread { device, thread } => write!(f, "NAPI thread {thread} of {device}"),
            Self::Coalesce { device, parameter } => write!(f, "{parameter} of {device}"),
            Self::Ring { device, direction } => write!(f, "{direction} ring of {device}"),
            Self::Channels { device, direction } => write!(f, "{direction} channels of {device}"),
            Self::Offload { device, feature } => write!(f, "{feature} of {device}"),
            Self::RssTable { device } => write!(f, "RSS table of {device}"),
            Self::Qdisc { device } => write!(f, "root qdisc of {device}"),
            Self::Governor { policy } => write!(f, "governor of {policy}"),
            Self::MinFrequency { policy } => write!(f, "lowest frequency of {policy}"),
            Self::MaxFrequency { policy } => write!(f, "highest frequency of {policy}"),
            Self::Service { name } => write!(f, "service {name}"),
            Self::Sysctl { name } => f.write_str(name),
            Self::FlowOffload => f.write_str("flow offload"),
            Self::PacketSteering => f.write_str("OpenWrt packet steering"),
        }
    }
}

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// A set of CPUs.
    Cpus(CpuSet),
    /// A set of queues: the same kind of set, of queue numbers.
    Queues(CpuSet),
    /// A count.
    Count(u64),
    /// On or off.
    Switch(bool),
    /// A word, or several with one blank between them.
    Word(String),
}

impl Value {
    /// The text that is written to the kernel's file (masks in hexadecimal).
    #[must_use]
    pub fn to_kernel(&self) -> String {
        match self {
            Self::Cpus(set) | Self::Queues(set) => set.to_mask(),
            Self::Count(n) => n.to_string(),
            Self::Switch(on) => u8::from(*on).to_string(),
            Self::Word(word) => word.clone(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(set) | Self::Queues(set) if set.is_empty() => f.write_str("off"),
            Self::Queues(set) if set.len() == 1 => write!(f, "queue {set}"),
            Self::Queues(set) => write!(f, "queues {set}"),
            Self::Cpus(set) if set.len() == 1 => write!(f, "CPU {set}"),
            Self::Cpus(set) => write!(f, "CPUs {set}"),
            Self::Count(n) => write!(f, "{n}"),
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Word(word) => f.write_str(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_offload_takes_a_mode_and_devices_and_nothing_else() {
        let check = |text: &str| Knob::FlowOffload.check(&Value::Word(text.into())).is_ok();
        for good in ["off", "software", "software eth0 br-lan", "hardware lan1 wan.7"] {
            assert!(check(good), "{good}");
        }
        for bad in ["", "on", "off eth0", "software eth0  eth1", "software ../x", "software a:b"] {
            assert!(!check(bad), "{bad}");
        }
        let steer = |text: &str| Knob::PacketSteering.check(&Value::Word(text.into())).is_ok();
        assert!(steer("0") && steer("unset") && !steer("3") && !steer("on"));
    }

    fn rps(device: &str) -> Knob {
        Knob::RpsCpus { device: device.into(), queue: 0 }
    }

    #[test]
    fn a_plan_file_cant_lead_a_write_out_of_sysfs() {
        let off = Value::Cpus(CpuSet::empty());
        for name in ["", ".", "..", "../../etc", "a/b", "a\0b", "eth0\n", "a b", "0123456789abcdef"]
        {
            assert!(rps(name).check(&off).is_err(), "{name:?}");
        }
        for name in ["eth0", "br-lan", "eth0.100", "pppoe-wan", "a..b", "0123456789abcde"] {
            assert_eq!(rps(name).check(&off), Ok(()), "{name:?}");
        }
        for policy in ["policy", "policy0/../x", "..", "cpu0", ""] {
            let knob = Knob::Governor { policy: policy.into() };
            assert!(knob.check(&Value::Word("performance".into())).is_err(), "{policy:?}");
        }
        let knob = Knob::Governor { policy: "policy10".into() };
        assert_eq!(knob.check(&Value::Word("performance".into())), Ok(()));
        assert!(knob.check(&Value::Word("a\nb".into())).is_err());
    }

    #[test]
    fn an_interrupt_needs_a_cpu_and_a_mask_is_no_count() {
        let irq =
            IrqId { device: "eth0".into(), queue: 0, role: super::super::snapshot::IrqRole::Rx };
        let irq = Knob::IrqAffinity { irq };
        assert_eq!(irq.check(&Value::Cpus(CpuSet::empty())), Err(BadSetting::NoCpu(irq.clone())));
        assert!(irq.check(&Value::Count(3)).is_err());
        assert!(rps("eth0").check(&Value::Word("3".into())).is_err());
    }

    #[test]
    fn only_sysctls_of_the_list_can_be_set_each_to_what_it_takes() {
        let sysctl = |name: &str| Knob::Sysctl { name: name.into() };
        for name in
            ["kernel.core_pattern", "net.core", "net/core/dev_weight", "", "net.core.dev_weight\n"]
        {
            assert!(sysctl(name).check(&Value::Count(1)).is_err(), "{name:?}");
        }
        let word = |word: &str| Value::Word(word.into());
        let qdisc = sysctl("net.core.default_qdisc");
        assert_eq!(qdisc.check(&word("fq_codel")), Ok(()));
        for bad in ["", "fq codel", "a-name-longer-than-any-of-them", "fq\n"] {
            assert!(qdisc.check(&word(bad)).is_err(), "{bad:?}");
        }
        assert!(qdisc.check(&Value::Count(1)).is_err());
        let ports = sysctl("net.ipv4.ip_local_port_range");
        assert_eq!(ports.check(&word("1024 65535")), Ok(()));
        assert!(ports.check(&word("1024\t65535\n0")).is_err());
        assert_eq!(sysctl("net.ipv4.ip_forward").check(&Value::Switch(true)), Ok(()));
    }

    #[test]
    fn what_is_set_by_netlink_is_checked_as_strictly() {
        let device = || String::from("eth0");
        let coalesce = |name: &str| Knob::Coalesce { device: device(), parameter: name.into() };
        let channels = |name: &str| Knob::Channels { device: device(), direction: name.into() };
        let qdisc = Knob::Qdisc { device: device() };
        let rss = Knob::RssTable { device: device() };
        let word = |word: &str| Value::Word(word.into());
        let offload = |name: &str| Knob::Offload { device: device(), feature: name.into() };
        for (knob, value) in [
            (coalesce("rx-usecs"), Value::Count(0)),
            (coalesce("adaptive-rx"), Value::Switch(true)),
            (channels("combined"), Value::Count(1)),
            (qdisc.clone(), word("fq")),
            (rss.clone(), Value::Count(2)),
            (rss.clone(), word("0,0,1,1")),
            (offload("rx-gro-list"), Value::Switch(false)),
        ] {
            assert_eq!(knob.check(&value), Ok(()), "{knob} {value}");
        }
        for (knob, value) in [
            (coalesce("rx-usecs"), Value::Switch(true)),
            (coalesce("rx-usecs-irq/.."), Value::Count(1)),
            (channels("combined"), Value::Count(0)),
            (channels("other"), Value::Count(1)),
            (qdisc, word("htb")),
            (rss.clone(), Value::Count(0)),
            (rss, word("0,x")),
            (offload("../../x"), Value::Switch(false)),
        ] {
            assert!(knob.check(&value).is_err(), "{knob} {value}");
        }
    }

    #[test]
    fn every_sysctl_of_the_list_is_a_file_below_proc_sys_net() {
        for one in sysctl::SYSCTLS {
            assert!(one.path().starts_with("/proc/sys/net/"), "{}", one.name);
            assert!(!one.path().contains(".."), "{}", one.name);
            assert_eq!(sysctl::find(one.name), Some(one), "twice in the list?");
        }
    }
}
