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
    /// The kernel's own number of the network namespace (SO_NETNS_COOKIE, Linux 5.14), which it
    /// never gives twice in a boot as it does inodes. `None` where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns_cookie: Option<u64>,
}
