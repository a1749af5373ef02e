//! Offload features of a device, as `ethtool -k` names them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// State of one offload feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureState {
    /// True if it is in force.
    pub active: bool,
    /// True if the driver lets it be changed.
    pub changeable: bool,
}

/// All features of a device by the kernel's names (`tx-tcp-segmentation`, `rx-gro`, ...;
/// net/ethtool/common.c `netdev_features_strings`).
pub type Features = BTreeMap<String, FeatureState>;

/// A queueing discipline at the root of a device or of one of its transmit queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qdisc {
    /// Device name.
    pub device: String,
    /// Kind, e.g. `fq_codel`, `noqueue`, `mq`.
    pub kind: String,
    /// The transmit queue it stands under when the root is `mq`; `None` for the root itself.
    pub queue: Option<u32>,
    /// Handle of a root, 0 where the kernel put it there by itself; `None` where it was not
    /// asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<u32>,
    /// Options of a root that somebody asked for as netlink attributes, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
}
