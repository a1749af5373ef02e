//! Questions whose answer is no file: netlink and the like.
//!
//! Every answer is JSON of a typed value of `model`, so that it can be recorded, captured and
//! replayed like a file. A new question is a variant of [`Query`], its name, and its answer in
//! `live`; nothing else changes.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{HostError, HostRead, HostResult, evidence};
use crate::machine::parse::queue_counters;
use crate::machine::sys::{ethtool, ethtool_ioctl, links, napi, nft_list, nic, qdisc, rtnl};

/// A question to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// Offload features of a device: [`crate::model::feature::Features`]; ENODEV for an unknown
    /// device.
    Features(String),
    /// Queueing disciplines of all devices: a list of [`crate::model::feature::Qdisc`].
    Qdiscs,
    /// Kinds of virtual devices (`veth`, `vlan`, `bridge`, ...) by device name: a map of text.
    LinkKinds,
    /// Channels, rings, coalescing, RSS, firmware of a device:
    /// [`crate::model::nic::NicSettings`]; ENODEV for an unknown device.
    Nic(String),
    /// Addresses, VLAN numbers, XDP: a map of [`crate::model::nic::LinkFacts`] by device name.
    Links,
    /// NAPI instances: a list of [`crate::model::nic::Napi`]; EOPNOTSUPP before kernel 6.8.
    Napis,
    /// The nf_tables rule set, counted: [`crate::model::path::Nftables`].
    Nftables,
    /// A driver's own counters of loss that are not zero: [`crate::model::nic::Numbers`]; ENODEV
    /// for an unknown device.
    Counters(String),
    /// Packets of the queues of a device, as far as its driver tells: a list of
    /// [`crate::model::evidence::QueueMoved`]; ENODEV for an unknown device.
    QueueCounters(String),
    /// The rules of the old iptables, counted: a list of [`crate::model::path::IptablesTable`], of
    /// tables that are loaded; EPERM.
    Iptables,
    /// Connections that a flowtable forwards: [`crate::model::path::BoundFlows`].
    BoundFlows,
    /// Flows bound in packet engines whose files lie in debugfs: a map of numbers by path.
    PpeFlows,
    /// Rules and policies of netfilter that drop, with what they counted: a list of
    /// [`crate::model::loss::DropRule`]; EPERM.
    DropRules,
    /// Counters of the queueing disciplines: a list of [`crate::model::loss::QdiscCounts`].
    QdiscCounts,
    /// Interrupt lines whose affinity the kernel gives nobody the right to write: a list of
    /// numbers. Told by kernels from 6.12 on; older ones let the write fail.
    FixedIrqs,
}

impl Query {
    /// Stable name; in a captured machine the answer lies in `linerate/<name>.json`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Features(device) => format!("features/{device}"),
            Self::Qdiscs => "qdiscs".into(),
            Self::LinkKinds => "link_kinds".into(),
            Self::Nic(device) => format!("nic/{device}"),
            Self::Links => "links".into(),
            Self::Napis => "napis".into(),
            Self::Nftables => "nftables".into(),
            Self::Counters(device) => format!("counters/{device}"),
            Self::QueueCounters(device) => format!("queue_counters/{device}"),
            Self::Iptables => "iptables".into(),
            Self::BoundFlows => "bound_flows".into(),
            Self::PpeFlows => "ppe_flows".into(),
            Self::DropRules => "drop_rules".into(),
            Self::QdiscCounts => "qdisc_counts".into(),
            Self::FixedIrqs => "fixed_irqs".into(),
        }
    }

    /// The failure of this question.
    #[must_use]
    pub fn failed(&self, errno: Errno) -> HostError {
        HostError::new("query", Path::new(&self.name()), errno)
    }
}

/// Asks and takes the answer as a value.
///
/// # Errors
/// As [`HostRead::query`]; EBADMSG when the answer is not of that form (a capture made by hand or
/// by another version).
pub fn query_as<T: DeserializeOwned>(
    host: &(impl HostRead + ?Sized),
    query: &Query,
) -> HostResult<T> {
    let answer = host.query(query)?;
    serde_json::from_slice(&answer).map_err(|_| query.failed(Errno::BADMSG))
}

/// The running kernel's answer, in the calling thread's network namespace.
pub(super) fn live(query: &Query) -> HostResult<Vec<u8>> {
    match query {
        Query::Features(device) => json(ethtool::features(device)),
        Query::Qdiscs => json(rtnl::qdiscs()),
        Query::LinkKinds => json(rtnl::link_kinds()),
        Query::Nic(device) => json(nic::settings(device)),
        Query::Links => json(links::facts()),
        Query::Napis => json(napi::napis()),
        Query::Nftables => json(nft_list::count()),
        Query::Counters(device) => json(ethtool_ioctl::counters(device).map(|own| {
            // Drivers that count pause frames by names of their own tell more.
            let told = own.keys().any(|name| name.contains("pause") || name.contains("xoff"));
            if told { own } else { nic::pause_frames(device).into_iter().chain(own).collect() }
        })),
        Query::QueueCounters(device) => json(ethtool_ioctl::own_counters(device).map(|own| {
            queue_counters::queues(own.iter().map(|(name, value)| (name.as_str(), *value)))
        })),
        Query::Iptables => json(evidence::iptables()),
        Query::BoundFlows => json(evidence::bound_flows()),
        Query::PpeFlows => json(evidence::ppe_flows()),
        Query::DropRules => json(evidence::drop_rules()),
        Query::QdiscCounts => json(qdisc::counts()),
        Query::FixedIrqs => json(evidence::fixed_irqs()),
    }
    .map_err(|e| HostError::from_io("query", Path::new(&query.name()), &e))
}

fn json<T: Serialize>(answer: io::Result<T>) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&answer?)?)
}
