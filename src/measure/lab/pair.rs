//! Two network namespaces and a WireGuard tunnel over a veth pair between them: the form in which
//! the public table of boards was measured (docs/board.md).
//!
//! ```text
//!   one ("the host")                                other
//!   eth0 198.18.2.1 ───────── veth ───────── eth0 198.18.2.2
//!   wg0  198.18.3.1 ═══════ WireGuard ══════ wg0  198.18.3.2
//! ```
//!
//! Unlike in a lab with a router, offloads stay as the kernel has them: a host's own traffic goes
//! into a tunnel in large pieces, and the table's figures have that in them.

use std::net::IpAddr;
use std::sync::Arc;

use super::build::{give_address, in_netns, link, namespace};
use super::wan::{End, join};
use super::{ENDPOINT, address};
use crate::error::Result;
use crate::machine::sys::netns::NetnsThread;
use crate::machine::sys::rtnl;

/// Device of the first namespace.
const NEAR: &str = "eth0";
/// The Ethernet MTU that setup scripts leave alone.
const MTU: u32 = 1500;

/// A running pair; gone when the last handle on its namespaces is.
pub struct Pair {
    /// Namespace that stands for the host.
    pub one: Arc<NetnsThread>,
    /// The other namespace.
    pub other: Arc<NetnsThread>,
    /// Address of `other` inside the tunnel.
    pub address: IpAddr,
    /// Largest IP packet in the tunnel: the kernel's default.
    pub mtu: u32,
}

impl Pair {
    /// Builds it.
    ///
    /// # Errors
    /// Exit 4 without the privileges, 5 where the kernel lacks something (named, with how to get
    /// it).
    pub fn build() -> Result<Self> {
        let (one, other) = (namespace()?, namespace()?);
        link(&one, NEAR, &other, MTU)?;
        for (netns, device, host) in [(&one, NEAR, 1), (&other, ENDPOINT, 2)] {
            in_netns(netns, "lab: set lo up", || rtnl::set_up("lo"))?;
            give_address(netns, device, address(false, 2, host), false)?;
            in_netns(netns, "lab: set a device up", move || rtnl::set_up(device))?;
        }
        let end = |netns, host| End {
            netns,
            outside: address(false, 2, host),
            inside: address(false, 3, host),
            networks: vec![(address(false, 3, host), 32)],
        };
        let mtu = join(&[end(&one, 1), end(&other, 2)], false, Some(MTU))?;
        Ok(Self { one, other, address: address(false, 3, 2), mtu })
    }
}
