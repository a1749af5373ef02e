//! Reasons why a queue gets no RPS whatever the loads.

use std::fmt;

/// The reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unsteered {
    /// The NAPI of the queue runs in threads, and which CPU polls is not known.
    Threads,
    /// The CPU that takes the queue's interrupts is not known.
    UnknownCpu,
    /// The machine has only one usable CPU.
    OneCpu,
    /// The flows of the queue are offloaded to hardware.
    Hardware,
    /// The links are full before any CPU.
    Links,
    /// Somebody measured that it does harm on this board.
    Board(String),
    /// A card has a hardware queue for every CPU.
    Queues { device: String, queues: usize, cpus: usize },
}

impl Unsteered {
    /// True if nothing is known, rather than something that speaks against RPS.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Threads | Self::UnknownCpu)
    }
}

impl fmt::Display for Unsteered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads => {
                f.write_str("it is not known which CPU polls: its NAPI runs in threads")
            }
            Self::UnknownCpu => f.write_str("it is not known which CPU takes its interrupts"),
            Self::OneCpu => f.write_str("there is only one usable CPU"),
            Self::Hardware => {
                f.write_str("its flows are offloaded to hardware: there is no stack stage to move")
            }
            Self::Links => f.write_str(
                "the links are full before any CPU: handing packets over could bring nothing",
            ),
            Self::Board(source) => {
                write!(f, "measured on this board: packet steering makes it slower ({source})")
            }
            Self::Queues { device, queues, cpus } => write!(
                f,
                "{device} has {queues} hardware queues for {cpus} CPUs: RPS would only add \
                 interrupts between CPUs"
            ),
        }
    }
}
