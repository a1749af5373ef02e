//! Meaning of the kernel's answer to a write, with words that help a person.

use rustix::io::Errno;

use crate::machine::host::HostError;
use crate::model::knob::Knob;

/// Reason why a setting could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The line can't be moved: a fact about the hardware or driver, not worth a second try.
    Fixed,
    /// The write may work a moment later.
    Transient,
    /// The CPU's table of interrupt vectors is full.
    NoSpace,
    /// The mask names a CPU that is offline or does not exist.
    OfflineCpu,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The file, device or queue is gone.
    Absent,
    /// A permission is missing.
    Denied,
    /// The kernel does not take this value.
    Rejected,
    /// The driver or kernel has no way to set it.
    Unsupported,
    /// The object that we would make exists already and belongs to somebody else.
    Taken,
    /// Anything else.
    Other,
}

/// Classifies the kernel's answer to a write of this knob.
#[must_use]
pub fn classify(knob: &Knob, error: &HostError) -> Class {
    let irq = matches!(knob, Knob::IrqAffinity { .. });
    match error.errno {
        // An immovable line answers EIO, since 6.12 EPERM (kernel/irq/proc.c
        // write_irq_affinity); some PCIe MSI domains answer EINVAL.
        Errno::IO | Errno::PERM | Errno::INVAL if irq => Class::Fixed,
        Errno::AGAIN | Errno::BUSY | Errno::NOMEM | Errno::RANGE | Errno::INTR => Class::Transient,
        Errno::NOSPC if irq => Class::NoSpace,
        Errno::OVERFLOW => Class::OfflineCpu,
        Errno::ROFS => Class::ReadOnly,
        Errno::ACCESS | Errno::PERM => Class::Denied,
        // A thread that the kernel binds itself (PF_NO_SETAFFINITY, kernel/sched/core.c).
        Errno::INVAL if matches!(knob, Knob::NapiThread { .. } | Knob::PollerCpus { .. }) => {
            Class::Unsupported
        }
        Errno::EXIST if *knob == Knob::FlowOffload => Class::Taken,
        Errno::OPNOTSUPP => Class::Unsupported,
        Errno::INVAL => Class::Rejected,
        // "Specified qdisc kind is unknown" (net/sched/sch_api.c qdisc_create).
        Errno::NOENT if matches!(knob, Knob::Qdisc { .. }) => Class::Rejected,
        _ if error.is_absent() => Class::Absent,
        _ => Class::Other,
    }
}

impl Class {
    /// The reason in words for a person; the kernel's own words stand beside it.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Fixed => "fixed: the kernel does not let this interrupt line be moved",
            Self::Transient => "failed: the kernel stayed busy with it over several tries",
            Self::NoSpace => "failed: that CPU has no interrupt vector left",
            Self::OfflineCpu => "failed: the mask names a CPU that is offline or does not exist",
            Self::ReadOnly => "failed: its file system is mounted read-only",
            Self::Absent => "absent: it vanished while the plan was being applied",
            Self::Denied => "failed: a permission is missing",
            Self::Rejected => "failed: the kernel does not take this value",
            Self::Unsupported => "fixed: the driver or kernel has no way to change it",
            Self::Taken => "fixed: an nft table named linerate is there that linerate did not make",
            Self::Other => "failed",
        }
    }

    /// A remedy, where there is one.
    #[must_use]
    pub fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::Fixed => "leave this line where it is: linerate plan --candidate rps-others",
            Self::Transient => "try again",
            Self::NoSpace => "spread the interrupts over more CPUs, or lower the queue count",
            Self::OfflineCpu => "make a new plan on this machine: linerate plan",
            Self::ReadOnly => {
                "in a container, run it on the host; else mount -o remount,rw that file system"
            }
            Self::Absent => "make a new plan on this machine: linerate plan",
            Self::Denied => "run it as root; in a container, on the host",
            Self::Unsupported => {
                "take this setting out of the plan; linerate show knobs tells more"
            }
            Self::Taken => "look at it: nft list table inet linerate",
            Self::Rejected | Self::Other => return None,
        })
    }
}
