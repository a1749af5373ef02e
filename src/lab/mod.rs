//! A router in a box: three network namespaces on one machine.
//!
//! ```text
//!   lan                        router                        wan
//!   198.18.1.2/24 eth0 ────── lan0 198.18.1.1
//!                             198.18.2.1 wan0 ────── eth0 198.18.2.2/24
//!   default via .1.1          ip_forward, masquerade         no route back to the LAN
//!                             n rules that match nothing
//! ```
//!
//! The namespaces of [`Lab`] have no name: the threads of this process hold them, so whatever
//! ends the process ends the lab. Segmentation and receive offloads are off on all four ends,
//! because veth would else pass 64 KiB super-packets and forwarding would look far too cheap.

mod build;
pub mod named;

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::host::Live;
use crate::sys::netns::NetnsThread;

/// The router's device towards the LAN.
pub const ROUTER_LAN: &str = "lan0";
/// The router's device towards the WAN.
pub const ROUTER_WAN: &str = "wan0";
/// The only device of the `lan` and of the `wan` namespace, beside `lo`.
pub const ENDPOINT: &str = "eth0";
/// The LAN client.
pub const LAN_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
/// The router, as the LAN sees it.
pub const ROUTER_LAN_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
/// The router, as the WAN sees it: the source of all masqueraded traffic.
pub const ROUTER_WAN_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 2, 1);
/// The WAN server.
pub const WAN_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 2, 2);
/// Length of the network part of all of them.
pub const PREFIX: u8 = 24;

/// What the router of a lab is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabSpec {
    /// Filter rules that every forwarded packet passes and none matches: what a real ruleset
    /// costs. At most [`LabSpec::MAX_RULES`].
    pub rules: u32,
    /// Largest IP packet in bytes, on all devices.
    pub mtu: u32,
    /// Whether a software flowtable carries established connections past the rules.
    pub flowtable: bool,
}

impl LabSpec {
    /// More rules than anyone's router has, and still under a second to load.
    pub const MAX_RULES: u32 = 20_000;
}

impl Default for LabSpec {
    fn default() -> Self {
        Self { rules: 0, mtu: 1500, flowtable: false }
    }
}

/// A running lab; gone when the last handle on its namespaces is.
pub struct Lab {
    /// The client's side.
    pub lan: Arc<NetnsThread>,
    /// The router under test.
    pub router: Arc<NetnsThread>,
    /// The server's side.
    pub wan: Arc<NetnsThread>,
}

impl Lab {
    /// The router as a machine: the same code reads and changes it as a real one.
    #[must_use]
    pub fn router_host(&self) -> Live {
        Live::in_netns(Arc::clone(&self.router))
    }
}
