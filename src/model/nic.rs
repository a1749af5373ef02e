//! A network card's own settings: what ethtool and the netdev netlink family tell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Named numbers, by the kernel's names in lower case with dashes (`rx-usecs`, `combined-max`).
pub type Numbers = BTreeMap<String, u64>;

/// Facts from ethtool about a device. A group is `None` where the driver or kernel has no such thing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NicSettings {
    /// Driver version as the driver prints it (often the kernel's release).
    pub driver_version: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Queues: `rx`, `tx`, `other`, `combined`, and each with `-max`.
    pub channels: Option<Numbers>,
    /// Descriptors: `rx`, `rx-mini`, `rx-jumbo`, `tx`, and each with `-max`.
    pub rings: Option<Numbers>,
    /// Interrupt moderation: microseconds, frames and `use-adaptive-*` (0 or 1).
    pub coalesce: Option<Numbers>,
    /// Flow control: `autoneg`, `rx`, `tx`, each 0 or 1; and as the ends offer it in the link's
    /// negotiation, `advertised` and `partner`, each where it is told: bit 0 symmetric, bit 1
    /// asymmetric (ETHTOOL_MSG_LINKMODES_GET, kernel 5.6).
    pub pause: Option<Numbers>,
    /// The highest speeds of copper's negotiation, in Mbit/s: `able` that the port supports,
    /// `advertised` that it offers, `partner` that the other end offers, each where it is told
    /// (ETHTOOL_MSG_LINKMODES_GET, kernel 5.6).
    pub speeds: Option<Numbers>,
    /// Energy-efficient Ethernet: `active`, `enabled`, `tx-lpi` (0 or 1), `tx-lpi-timer` in us
    /// (ETHTOOL_MSG_EEE_GET, kernel 5.8).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eee: Option<Numbers>,
    /// How received packets are spread over the queues.
    pub rss: Option<Rss>,
    /// Rules that steer flows to queues (n-tuple filters): `rules` there are, `rules-max` there is
    /// room for. Whether the card may take them is the feature `rx-ntuple-filter`.
    pub ntuple: Option<Numbers>,
}

/// Receive side scaling.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rss {
    /// Queue of each hash bucket.
    pub table: Vec<u32>,
    /// The hash key in hexadecimal.
    pub key: String,
    /// Bits of the hash function: 1 Toeplitz, 2 XOR, 4 CRC32.
    pub function: u32,
}

/// A NAPI instance: what polls queues, on whose interrupt, in which thread (netdev netlink family,
/// kernel 6.8 and later).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Napi {
    /// The kernel's number; valid for this boot only.
    pub id: u32,
    /// Interface index of its device.
    pub ifindex: u32,
    /// Interrupt line, where the driver tells.
    pub irq: Option<u32>,
    /// Thread, where NAPI is threaded.
    pub pid: Option<u32>,
    /// Hard interrupts put off while polling empty (per NAPI from kernel 6.13).
    pub defer_hard_irqs: Option<u32>,
    /// Nanoseconds until GRO lets packets go.
    pub gro_flush_timeout: Option<u64>,
    /// Receive queues that it polls.
    pub rx: Vec<u32>,
    /// Transmit queues that it completes.
    pub tx: Vec<u32>,
}

/// Facts from rtnetlink about a virtual device beside its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkFacts {
    /// IPv4 addresses that it bears.
    pub ipv4: u32,
    /// IPv6 addresses that it bears, link-local ones left out.
    pub ipv6: u32,
    /// VLAN number of a VLAN device.
    pub vlan: Option<u16>,
    /// True if an XDP program is attached.
    pub xdp: bool,
    /// Interface index of the device it stands on, in the same namespace (IFLA_LINK).
    pub link: Option<u32>,
}
