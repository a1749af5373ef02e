//! Subject of a difference between two kernels: forwarding, the network, or something else.

use super::diff::Group;

/// Beginnings of options of the network and its ciphers: what to look at second.
const NETWORK: &[&str] = &[
    "NET",
    "NF_",
    "NFT_",
    "IP_",
    "IPV6",
    "INET",
    "BRIDGE",
    "VLAN",
    "PPP",
    "TUN",
    "WIREGUARD",
    "CRYPTO",
    "BPF",
    "XDP",
    "TCP_",
    "XFRM",
    "VETH",
    "BONDING",
    "IRQ",
    "GENERIC_IRQ",
    "CPU_FREQ",
    "CPU_IDLE",
    "SCHED",
    "RCU",
    "PCI",
    "USB_NET",
    "USB_RTL",
    "R8169",
    "E1000",
    "IGB",
    "IXGBE",
];

/// The subject of a difference, in the order in which people should read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// An option of it costs forwarding in one of the two kernels.
    Forwarding,
    /// An option of it is of the network, interrupts or scheduling.
    Network,
    /// Something else.
    Other,
}

impl Subject {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::Forwarding, Self::Network, Self::Other];

    /// The subject of a choice and of what follows from it.
    #[must_use]
    pub fn of(group: &Group) -> Self {
        let mut all = group.chosen.iter().chain(&group.follows);
        if group.cost.is_some() {
            Self::Forwarding
        } else if all.any(|d| NETWORK.iter().any(|n| d.name.starts_with(n))) {
            Self::Network
        } else {
            Self::Other
        }
    }

    /// The heading above such differences.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Forwarding => "may matter for forwarding",
            Self::Network => "network, interrupts and scheduling",
            Self::Other => "everything else",
        }
    }
}
