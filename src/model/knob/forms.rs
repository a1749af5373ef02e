//! Forms of rows: settings of one sort differ in a name, a form of value and a word.

use super::spec::{
    Absent, Fixed, Keep, KnobSpec, Order, Range, Reshapes, Rival, Rule, Same, Scope, Shape, Topic,
    Vary,
};
use super::topics;
use crate::model::path::Sort;

/// A factor that nobody is offered, and that sets every such setting.
pub(super) const ON_REQUEST: Vary =
    Vary { factor: None, levels: &[], further: "", rule: Rule::Each };

/// A factor with a short name and levels worth trying.
pub(super) const fn factor(name: &'static str, levels: &'static [&'static str]) -> Vary {
    Vary { factor: Some(name), levels, ..ON_REQUEST }
}

/// A file of a device, in the form that most have.
pub(super) const DEVICE: KnobSpec = KnobSpec {
    kind: "",
    name: None,
    open: false,
    scope: Scope::Device,
    global: false,
    path: "",
    shape: Shape::Count,
    range: Range::Any,
    same: Same::Exact,
    order: Order::Plain,
    reshapes: Reshapes::Nothing,
    drags: &[],
    only_dragged: false,
    absent: Absent::Kernel,
    fixed: Fixed::Unknown,
    rival: Rival::Nobody,
    sort: Some(Sort::Card),
    keep: Keep::Plan,
    label: "",
    title: "",
    heading: "other",
    listed: false,
    what: "",
    topic: &topics::OFFLOADS,
    vary: ON_REQUEST,
};

pub(super) const CHANNELS: KnobSpec = KnobSpec {
    kind: "channels",
    path: "ethtool/{device}/channels/{name}",
    range: Range::Channels,
    order: Order::Channels,
    reshapes: Reshapes::Queues,
    // Queues that go lose their steering, and interrupt lines are made anew and go to any CPU.
    drags: &["rps-cpus", "rps-flow-cnt", "xps-cpus", "xps-rxqs", "irq-affinity", "rss-table"],
    absent: Absent::Driver,
    fixed: Fixed::Single,
    label: "{name} channels of {device}",
    title: "channels {name}",
    topic: &topics::CHANNELS,
    vary: Vary { rule: Rule::Never, ..ON_REQUEST },
    ..DEVICE
};

pub(super) const RING: KnobSpec = KnobSpec {
    kind: "ring",
    path: "ethtool/{device}/ring/{name}",
    range: Range::Rings,
    order: Order::Ring,
    absent: Absent::Driver,
    label: "{name} ring of {device}",
    title: "ring {name}",
    topic: &topics::RING,
    vary: Vary { further: "descriptors", ..ON_REQUEST },
    ..DEVICE
};

pub(super) const COALESCE: KnobSpec = KnobSpec {
    kind: "coalesce",
    path: "ethtool/{device}/coalesce/{name}",
    absent: Absent::Driver,
    label: "{name} of {device}",
    title: "{name}",
    topic: &topics::COALESCE,
    ..DEVICE
};

pub(super) const fn coalesce(name: &'static str, shape: Shape, what: &'static str) -> KnobSpec {
    KnobSpec { name: Some(name), shape, what, ..COALESCE }
}

pub(super) const fn moderation(name: &'static str, what: &'static str) -> KnobSpec {
    KnobSpec { range: Range::Unit("microseconds"), ..coalesce(name, Shape::Count, what) }
}

pub(super) const RX_QUEUE: KnobSpec = KnobSpec { scope: Scope::RxQueue, ..DEVICE };

pub(super) const TX_QUEUE: KnobSpec = KnobSpec {
    scope: Scope::TxQueue,
    absent: Absent::OneTxQueue,
    topic: &topics::XPS_CPUS,
    ..DEVICE
};

pub(super) const fn offload(name: &'static str, what: &'static str) -> KnobSpec {
    KnobSpec { name: Some(name), what, ..OFFLOAD }
}

pub(super) const OFFLOAD: KnobSpec = KnobSpec {
    kind: "offload",
    path: "ethtool/{device}/feature/{name}",
    shape: Shape::Switch,
    fixed: Fixed::Feature,
    label: "{name} of {device}",
    title: "{name}",
    listed: true,
    what: "any other offload, by the kernel's name (`linerate show nics` has them all)",
    topic: &topics::OFFLOADS,
    ..DEVICE
};

pub(super) const POLICY: KnobSpec = KnobSpec {
    scope: Scope::Policy,
    global: true,
    range: Range::Frequencies,
    sort: Some(Sort::Governor),
    topic: &topics::GOVERNOR,
    ..DEVICE
};

/// A sysctl of the network namespace. Which are: net/core/sysctl_net_core.c (`netns_core_table`
/// has none of these), net/ipv4/sysctl_net_ipv4.c, net/netfilter/nf_conntrack_standalone.c (the
/// table's size is writable in the first namespace alone), net/bridge/br_netfilter_hooks.c (since
/// 5.3).
pub(super) const fn sysctl(
    name: &'static str,
    shape: Shape,
    topic: &'static Topic,
    what: &'static str,
) -> KnobSpec {
    KnobSpec {
        kind: "sysctl",
        name: Some(name),
        scope: Scope::Machine,
        path: "/proc/sys/{parts}",
        shape,
        absent: Absent::Namespace,
        sort: Some(Sort::Sysctls),
        label: "{name}",
        title: "{name}",
        heading: "sysctl",
        what,
        topic,
        ..DEVICE
    }
}

/// A sysctl that the kernel changes with another one, and that no plan sets.
pub(super) const fn dragged(name: &'static str, what: &'static str) -> KnobSpec {
    KnobSpec {
        only_dragged: true,
        vary: Vary { rule: Rule::Never, ..ON_REQUEST },
        ..sysctl(name, Shape::Count, &topics::FORWARDING, what)
    }
}

/// The same of each device.
pub(super) const fn dragged_of_device(
    name: &'static str,
    path: &'static str,
    what: &'static str,
) -> KnobSpec {
    KnobSpec {
        kind: "device-sysctl",
        scope: Scope::Device,
        path,
        label: "{name} of {device}",
        ..dragged(name, what)
    }
}

/// A sysctl of the machine.
pub(super) const fn global(
    name: &'static str,
    shape: Shape,
    topic: &'static Topic,
    what: &'static str,
) -> KnobSpec {
    KnobSpec { global: true, ..sysctl(name, shape, topic, what) }
}

pub(super) const fn bridge(name: &'static str, what: &'static str) -> KnobSpec {
    KnobSpec { absent: Absent::Bridge, ..sysctl(name, Shape::Switch, &topics::BRIDGE, what) }
}

pub(super) const fn conntrack(name: &'static str, what: &'static str) -> KnobSpec {
    KnobSpec { absent: Absent::Conntrack, ..global(name, Shape::Count, &topics::CONNTRACK, what) }
}
