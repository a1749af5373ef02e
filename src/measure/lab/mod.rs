//! A router in a box: three network namespaces on one machine.
//!
//! In comes a shape with its numbers of rules and flows; out comes a lab that forwards, or an error
//! that names the missing feature or program. Only namespaces that this module made, and the files
//! that name and describe them, are touched; devices and settings of the machine stay as they are.
//!
//! ```text
//!   lan                        router                        wan
//!   198.18.1.2/24 eth0 ────── lan0 198.18.1.1
//!                             198.18.2.1 wan0 ────── eth0 198.18.2.2/24
//!   default via .1.1          ip_forward, masquerade         no route back to the LAN
//!                             n rules that match nothing
//!
//!   bridge     br-lan on lan0                                                 [`Shape`] says which
//!   vlan       wan0.35 on wan0 ──────────── eth0.35
//!   pppoe      ppp0 on that ─────────────── ppp0 (pppoe-server)
//!   wireguard  wg0 198.18.3.1 ════════════════ wg0 198.18.3.2
//!   route      without masquerade: wan has a route to the LAN
//!   ipv6       2001:db8:1::/64 and so on instead of 198.18.1.0/24
//! ```
//!
//! The namespaces of [`Lab`] have no name: the threads of this process hold them, so whatever
//! ends the process ends the lab. Segmentation and receive offloads are off on all four ends,
//! because veth would else pass 64 KiB super-packets and forwarding would look far too cheap.

mod build;
pub mod named;
pub mod needs;
pub mod pair;
mod pppoe;
mod prefill;
mod shape;
mod wan;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

pub use pppoe::Programs;
pub use shape::Shape;

use crate::machine::host::{HostRead, Live};
use crate::machine::sys::netns::NetnsThread;

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

/// The networks of a lab by number: 1 is the LAN, 2 what the router shares with the WAN, 3 a
/// tunnel's inside. Host 1 is the router, host 2 the other side.
fn address(ipv6: bool, network: u8, host: u8) -> IpAddr {
    if ipv6 {
        Ipv6Addr::new(0x2001, 0xdb8, network.into(), 0, 0, 0, 0, host.into()).into()
    } else {
        Ipv4Addr::new(198, 18, network, host).into()
    }
}

/// Length of the network part.
fn prefix(ipv6: bool) -> u8 {
    if ipv6 { 64 } else { PREFIX }
}

/// Specification of a lab's router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabSpec {
    /// Filter rules that every forwarded packet passes and none matches: what a real ruleset
    /// costs. At most [`LabSpec::MAX_RULES`].
    pub rules: u32,
    /// Largest IP packet in bytes on the Ethernet links; a tunnel carries less.
    pub mtu: u32,
    /// Connections that the router tracks before the load begins. At most
    /// [`LabSpec::MAX_FLOWS`].
    pub flows: u32,
    /// Parts of the path that packets take.
    pub shape: Shape,
}

impl LabSpec {
    /// More rules than anyone's router has, and still under a second to load.
    pub const MAX_RULES: u32 = 20_000;
    /// Some 300 MB of kernel memory.
    pub const MAX_FLOWS: u32 = 1_000_000;

    /// Masquerading and nothing else.
    #[must_use]
    pub fn nat(rules: u32, mtu: u32) -> Self {
        Self { rules, mtu, ..Self::default() }
    }
}

impl Default for LabSpec {
    fn default() -> Self {
        Self { rules: 0, mtu: 1500, flows: 0, shape: Shape::default() }
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
    /// Specification that the lab was built to.
    pub spec: LabSpec,
    /// Address at which the load reaches the server: inside the tunnel where there is one.
    pub wan_address: IpAddr,
    /// Largest IP packet that gets from end to end, bytes.
    pub path_mtu: u32,
    /// Way in which the router's devices count packets from the WAN.
    pub counted: Counted,
    /// Programs that the lab needs; they end with the last user.
    pub programs: Arc<Programs>,
}

/// Device where the packets that the WAN sends are counted, and the bytes that are counted with
/// each of them beside its IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Device of the router.
    pub device: &'static str,
    /// True if the packets are counted as they leave the router through the device, and not as they
    /// come in: behind a tunnel that pads, only the inner packets have a size that can be compared.
    pub leaving: bool,
    /// Bytes of link layer and encapsulation per packet in the device's count.
    pub header: u32,
}

impl Counted {
    /// The Ethernet header: what a veth counts beside the IP packet.
    pub const ETHERNET: u32 = 14;
    /// As they come in from the WAN's veth.
    pub const PLAIN: Self = Self { device: ROUTER_WAN, leaving: false, header: Self::ETHERNET };
}

impl Lab {
    /// The router as a machine: the same code reads and changes it as a real one.
    #[must_use]
    pub fn router_host(&self) -> Live {
        Live::in_netns(Arc::clone(&self.router))
    }
}

/// Connections that a router tracks now; `None` where the kernel does not report it.
#[must_use]
pub fn tracked(router: &Live) -> Option<u64> {
    router.text(Path::new("/proc/sys/net/netfilter/nf_conntrack_count")).ok()?.parse().ok()
}

/// Connections of a protocol (`tcp`, `udp`) that a flowtable carries now; `None` where the kernel
/// does not list connections (CONFIG_NF_CONNTRACK_PROCFS).
#[must_use]
pub fn offloaded(router: &Live, protocol: &str) -> Option<u64> {
    let list = router.read(Path::new("/proc/thread-self/net/nf_conntrack")).ok()?;
    let text = String::from_utf8_lossy(&list);
    // `ipv4 2 tcp 6 src=198.18.1.2 ... [OFFLOAD] ...` (nf_conntrack_standalone.c, ct_seq_show)
    let carried = |line: &&str| {
        line.split_whitespace().nth(2) == Some(protocol) && line.contains("[OFFLOAD]")
    };
    u64::try_from(text.lines().filter(carried).count()).ok()
}
