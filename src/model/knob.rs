//! What can be set: a name that stays valid over a reboot, and a value compared by meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cpuset::CpuSet;
use super::snapshot::IrqId;

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
    /// Receive flow steering entries of a queue (`queues/rx-N/rps_flow_cnt`).
    RpsFlowCnt {
        /// Device name.
        device: String,
        /// Receive queue.
        queue: u32,
    },
    /// Frequency governor of a policy (`cpufreq/policyN/scaling_governor`).
    Governor {
        /// Policy directory name.
        policy: String,
    },
}

impl Knob {
    /// The network device it belongs to, if any.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::IrqAffinity { irq } => Some(&irq.device),
            Self::RpsCpus { device, .. }
            | Self::XpsCpus { device, .. }
            | Self::RpsFlowCnt { device, .. } => Some(device),
            Self::Governor { .. } => None,
        }
    }

    /// Whether setting it to `value` can be meant at all, on whatever machine. Plan and journal
    /// files name devices, and those names become parts of paths that root writes to.
    ///
    /// # Errors
    /// What can't be meant: a name that is no name, a value of another kind, no CPU for an
    /// interrupt.
    pub fn check(&self, value: &Value) -> Result<(), BadSetting> {
        match self {
            Self::Governor { policy } if !is_policy(policy) => {
                return Err(BadSetting::Policy(policy.clone()));
            }
            _ => {}
        }
        if let Some(device) = self.device().filter(|device| !is_device_name(device)) {
            return Err(BadSetting::Device(device.to_owned()));
        }
        let expected = match (self, value) {
            (Self::IrqAffinity { .. }, Value::Cpus(set)) if set.is_empty() => {
                return Err(BadSetting::NoCpu(self.clone()));
            }
            (Self::Governor { .. }, Value::Word(word)) if !is_word(word) => {
                return Err(BadSetting::Governor(word.clone()));
            }
            (
                Self::IrqAffinity { .. } | Self::RpsCpus { .. } | Self::XpsCpus { .. },
                Value::Cpus(_),
            )
            | (Self::RpsFlowCnt { .. }, Value::Count(_))
            | (Self::Governor { .. }, Value::Word(_)) => return Ok(()),
            (Self::RpsFlowCnt { .. }, _) => "a count",
            (Self::Governor { .. }, _) => "a governor's name",
            _ => "a list of CPUs",
        };
        Err(BadSetting::Kind { knob: self.clone(), expected, value: value.clone() })
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

/// A governor's name fits CPUFREQ_NAME_LEN (16 with the final NUL).
fn is_word(word: &str) -> bool {
    (1..16).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_graphic())
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
    /// Not a governor.
    #[error("{0:?} can't be the name of a governor")]
    Governor(String),
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
            Self::RpsFlowCnt { device, queue } => write!(f, "RFS entries of {device} rx-{queue}"),
            Self::Governor { policy } => write!(f, "governor of {policy}"),
        }
    }
}

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// A set of CPUs.
    Cpus(CpuSet),
    /// A count.
    Count(u64),
    /// A word.
    Word(String),
}

impl Value {
    /// The text that is written to the kernel's file (masks in hexadecimal).
    #[must_use]
    pub fn to_kernel(&self) -> String {
        match self {
            Self::Cpus(set) => set.to_mask(),
            Self::Count(n) => n.to_string(),
            Self::Word(word) => word.clone(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(set) if set.is_empty() => f.write_str("off"),
            Self::Cpus(set) if set.len() == 1 => write!(f, "CPU {set}"),
            Self::Cpus(set) => write!(f, "CPUs {set}"),
            Self::Count(n) => write!(f, "{n}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
