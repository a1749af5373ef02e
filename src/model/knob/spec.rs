//! The columns of the table of knobs: all that a row can state about a setting, with the words for
//! people beside each value.

use crate::model::path::Sort;

/// One row of the table: all that the program knows of a kind of setting.
#[derive(Debug, Clone, Copy)]
pub struct KnobSpec {
    /// Kind in plans, journals and JSON, and the name that `--explain` takes.
    pub kind: &'static str,
    /// Name within a kind that has several rows (`rx-usecs` of `coalesce`). `None` where a kind
    /// has one row, and in the row for all other names of an open kind.
    pub name: Option<&'static str>,
    /// True in the row that stands for every further name of its kind.
    pub open: bool,
    /// Part of the router that has the setting.
    pub scope: Scope,
    /// True of a setting of the machine rather than of a network namespace: other namespaces than
    /// the first do not have it, or not for writing.
    pub global: bool,
    /// The kernel's file, or the relative address of a setting that is no file
    /// (`machine/host/setting.rs`). Fields of the knob stand in braces: `{device}`, `{queue}`,
    /// `{name}`, `{policy}`; `{parts}` is a name with its dots as slashes, and `{line}` the number
    /// that an interrupt has in this boot.
    pub path: &'static str,
    /// Form of the value.
    pub shape: Shape,
    /// Values that are valid, as far as the form alone does not settle it.
    pub range: Range,
    /// Rule by which two values are the same to the kernel.
    pub same: Same,
    /// Place within a transaction.
    pub order: Order,
    /// Other settings that come and go with this one.
    pub reshapes: Reshapes,
    /// Settings that the kernel may change with this one, on the same device, or on all devices where
    /// this one has none: a kind, or a kind, a blank and a name. They are journalled with it, so that
    /// undoing restores them too.
    pub drags: &'static [&'static str],
    /// True if no plan sets it: it is restored with what drags it along.
    pub only_dragged: bool,
    /// Reason why a machine may not have the setting.
    pub absent: Absent,
    /// Evidence that the setting is there and can't be changed.
    pub fixed: Fixed,
    /// Another program that sets the same knob.
    pub rival: Rival,
    /// Sort under which discovery counts programs and scripts that set it; `None` where no such
    /// program is known.
    pub sort: Option<Sort>,
    /// Way in which `persist` keeps the setting.
    pub keep: Keep,
    /// Words for one setting, with fields in braces: `RPS of {device} rx-{queue}`.
    pub label: &'static str,
    /// Words below the heading of its device in `show knobs`; the queue's number follows.
    pub title: &'static str,
    /// Heading in `show knobs` of a setting that has no device and no policy.
    pub heading: &'static str,
    /// True where `show knobs` puts many of them in one line, by state.
    pub listed: bool,
    /// Description of the setting in one line.
    pub what: &'static str,
    /// Effect on a forwarded packet.
    pub topic: &'static Topic,
    /// Way in which `tune` varies the setting.
    pub vary: Vary,
}

/// Effect of a setting, or of several of one idea, on a forwarded packet: `plan --explain`.
#[derive(Debug, PartialEq, Eq)]
pub struct Topic {
    /// Name in plan files (`[[not-made]]`).
    pub name: &'static str,
    /// Further names that people use.
    pub also: &'static [&'static str],
    /// The effect, and when there is none.
    pub text: &'static str,
}

/// Part of the router that has a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The machine or the network namespace as a whole.
    Machine,
    /// A network device.
    Device,
    /// A receive queue of a device.
    RxQueue,
    /// A transmit queue of a device.
    TxQueue,
    /// An interrupt line of a device.
    Line,
    /// A kernel thread that polls for a device.
    Thread,
    /// A frequency policy: CPUs that share a clock.
    Policy,
}

impl Scope {
    /// The word of docs/knobs.md.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Device => "device",
            Self::RxQueue => "receive queue",
            Self::TxQueue => "transmit queue",
            Self::Line => "interrupt line",
            Self::Thread => "NAPI thread",
            Self::Policy => "frequency policy",
        }
    }
}

/// Form of a value.
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
    /// Words for an error about a value of another form.
    #[must_use]
    pub fn words(self) -> &'static str {
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

/// Values that are valid. [`super::Knob::check`] holds what is certain on every machine;
/// `apply/inventory.rs` asks this machine for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Every value of the form.
    Any,
    /// Every count, in this unit.
    Unit(&'static str),
    /// At least one CPU.
    SomeCpu,
    /// One of these words.
    Words(&'static [&'static str]),
    /// One of these words, and behind any but `off` the names of devices.
    Mode(&'static [&'static str]),
    /// From 1 to the number of queues that the driver reports.
    Channels,
    /// From 1 to the number of descriptors that the driver reports.
    Rings,
    /// Receive queues of the device, at least one.
    Spread,
    /// A word that the policy's driver lists.
    Governors,
    /// Between the ends that the policy's driver reports, in kHz.
    Frequencies,
    /// A word of this file.
    File(&'static str),
}

impl Range {
    /// True where 0 is invalid: no queue at all, or no ring at all, is a card that does nothing.
    #[must_use]
    pub fn excludes_zero(self) -> bool {
        matches!(self, Self::Channels | Self::Rings | Self::Spread)
    }
}

/// Rule by which two values are the same to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Same {
    /// Equal.
    Exact,
    /// The kernel rounds up to a power of two: `store_rps_dev_flow_table_cnt`
    /// (net/core/net-sysfs.c), `rps_sock_flow_sysctl` (net/core/sysctl_net_core.c).
    PowerOfTwo,
    /// The kernel rounds up to a page of list heads: 512 with 8 bytes in 4 KiB, 16384 with 4 bytes
    /// in 64 KiB (`nf_ct_alloc_hashtable`, net/netfilter/nf_conntrack_core.c).
    Page,
    /// The first word, and the rest as a set: the kernel lists devices in an order of its own.
    DeviceSet,
}

impl Same {
    /// The word of docs/knobs.md.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::PowerOfTwo => "next power of two",
            Self::Page => "next page",
            Self::DeviceSet => "mode and set of devices",
        }
    }
}

/// Place within a transaction, from first to last; undone in reverse. A program that would move
/// interrupts again is stopped first. Queues come and go with the channels, and their interrupt
/// lines, RPS and the RSS table's queues with them; rings are made anew by many drivers, and
/// threads are there once NAPI is threaded. OpenWrt's packet steering comes last: given back, it
/// sets masks of its own at once, over which those from before are then put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Services.
    Service,
    /// Numbers of queues.
    Channels,
    /// Rings.
    Ring,
    /// The RSS table.
    Spread,
    /// Threads that poll.
    Threads,
    /// All that nothing else depends on.
    Plain,
    /// OpenWrt's packet steering.
    Steering,
}

/// Settings that come and go with one, so that they can be looked up only after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reshapes {
    /// None.
    Nothing,
    /// Queues and interrupt lines of the device.
    Queues,
    /// Kernel threads of the device, which matter to nothing but settings of this kind.
    Threads(&'static str),
}

/// Reason why a machine does not have a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// The kernel or the driver lacks it.
    Kernel,
    /// The driver has no such parameter.
    Driver,
    /// The kernel or the network namespace lacks it.
    Namespace,
    /// The kernel has no such file for a device with one transmit queue: `xps_cpus_show`
    /// (net/core/net-sysfs.c) answers ENOENT unless `netif_is_multiqueue`.
    OneTxQueue,
    /// The device is down.
    Down,
    /// Connection tracking is not loaded.
    Conntrack,
    /// `br_netfilter` is not loaded.
    Bridge,
    /// No nf_tables, or no flowtables.
    Flowtable,
    /// The program is not installed.
    Program,
    /// The setting is OpenWrt's.
    OpenWrt,
}

impl Absent {
    /// Words for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Kernel => "not in this kernel or driver",
            Self::Driver => "the driver has none",
            Self::Namespace => "not in this kernel or namespace",
            Self::OneTxQueue => "one transmit queue",
            Self::Down => "the device is down or has no queue",
            Self::Conntrack => "no connection tracking loaded",
            Self::Bridge => "br_netfilter is not loaded",
            Self::Flowtable => "no nf_tables or no module nf_flow_table (CONFIG_NF_FLOW_TABLE)",
            Self::Program => "not installed, or not of this namespace",
            Self::OpenWrt => "not OpenWrt, or not of this namespace",
        }
    }
}

/// Evidence that a setting is there and can't be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fixed {
    /// None that is known without writing.
    Unknown,
    /// The kernel keeps the interrupt line where it is.
    Line,
    /// The driver does not let the offload be switched.
    Feature,
    /// A veth without GRO and XDP has no NAPI instance: `dev_set_threaded` (net/core/dev.c)
    /// answers EOPNOTSUPP.
    Veth,
    /// The driver reports that one is the most.
    Single,
    /// Another table than ours has a flowtable.
    Flowtable,
    /// A queueing discipline whose classes, filters or options could not be put back exactly.
    Qdisc,
    /// A default route that a router advertised, and that the kernel removes for good when forwarding
    /// is switched on (net/ipv6/route.c `rt6_purge_dflt_routers`).
    AdvertisedRoute,
}

impl Fixed {
    /// Words for people, as far as the machine does not report more.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Line => "the kernel keeps it",
            Self::Feature => "by the driver",
            Self::Veth => "a veth without rx-gro has no NAPI",
            Self::Single => "it has one",
            Self::Flowtable => "another nft table has a flowtable",
            Self::Qdisc => "its options could not be put back exactly",
            Self::AdvertisedRoute => "a default route by router advertisement would be lost",
        }
    }
}

/// Another program that sets a knob too: whoever writes last wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// None.
    Nobody,
    /// irqbalance moves interrupts.
    Irqbalance,
    /// OpenWrt's packet steering: RPS and RFS, NAPI's threads from 24.10 on (packet-steering.uc),
    /// XPS before (packet-steering.sh).
    Steering,
}

/// Way in which `persist` keeps a setting over a reboot and the coming and going of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The plan is applied at boot, and its settings of a device when the device appears.
    Plan,
    /// The same; on systemd once more after the service's own unit, which starts late.
    Late,
    /// The same on systemd; on OpenWrt an option of its configuration (`machine/host/uci.rs`),
    /// which its own service reads.
    Uci,
}

impl Keep {
    /// Words of docs/knobs.md: for systemd, and for OpenWrt.
    #[must_use]
    pub fn words(self, scope: Scope) -> (&'static str, &'static str) {
        let boot = matches!(scope, Scope::Machine | Scope::Policy);
        match self {
            Self::Plan if boot => ("linerate.service", "/etc/init.d/linerate"),
            Self::Plan => {
                ("linerate.service, udev event", "/etc/init.d/linerate, hotplug.d net and iface")
            }
            Self::Late => ("linerate.service, linerate-services.service", "/etc/init.d/linerate"),
            Self::Uci => ("-", "network.globals.packet_steering"),
        }
    }
}

/// Way in which `tune` varies a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vary {
    /// Short name of the factor. Without one it is the kind, with its prefix where it has several
    /// rows: `sysctl.net.core.dev_weight`.
    pub factor: Option<&'static str>,
    /// Levels worth trying; a factor without any is not offered, and taken all the same.
    pub levels: &'static [&'static str],
    /// Words for further levels.
    pub further: &'static str,
    /// Rule for the settings of a level.
    pub rule: Rule,
}

/// Rule for the settings of a level of a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The level is the value of every such setting where packets enter.
    Each,
    /// The same; `others` is what the candidate of that name sets.
    Rps,
    /// The same, of lines that can be moved; `spread` gives each a CPU of its own.
    Irq,
    /// Entries of the socket table, shared out over the queues.
    Rfs,
    /// Microseconds with the driver's own choice switched off, or `adaptive`.
    Coalescing,
    /// The devices of the mode are found on the machine.
    FlowOffload,
    /// OpenWrt's own switch, or elsewhere the masks that it would set.
    Steering,
    /// One experiment can't vary it: queues and interrupt lines come and go with it.
    Never,
}
