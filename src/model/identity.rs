//! Which machine, boot and network namespace something belongs to.

use serde::{Deserialize, Serialize};

/// Where a journal's writes were made. Runtime settings die with the boot, and those of a network
/// namespace die with the namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostIdentity {
    /// `/proc/sys/kernel/random/boot_id`, empty where it can't be read.
    pub boot_id: String,
    /// Inode of the network namespace (`/proc/self/ns/net`), 0 where it can't be read.
    pub netns: u64,
}
