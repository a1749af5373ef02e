//! The WAN side of a lab, layer by layer: veth, VLAN, PPPoE, WireGuard.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::build::{give_address, in_netns, made, run, segment_nothing};
use super::{Counted, ENDPOINT, LabSpec, Programs, ROUTER_WAN, address, needs, pppoe, prefix};
use crate::error::{Error, Result};
use crate::machine::sys::netns::NetnsThread;
use crate::machine::sys::rtnl;
use crate::machine::sys::wireguard::{self, Peer};
use crate::machine::sys::{device, ethtool};

/// VLAN that German and other lines use for PPPoE; any number would do.
const VLAN: u16 = 35;
const ROUTER_VLAN: &str = "wan0.35";
const ENDPOINT_VLAN: &str = "eth0.35";
/// Bytes of an 802.1Q tag.
const TAG: u32 = 4;
/// The PPPoE header (RFC 2516) and PPP's protocol number.
const PPPOE: u32 = 6 + 2;
/// The first PPP device of a namespace: units are counted in each (ppp_generic.c, ppp_net).
pub(super) const PPP: &str = "ppp0";
const TUNNEL: &str = "wg0";
/// WireGuard's port by custom.
const PORT: u16 = 51_820;
/// Bytes that WireGuard puts around a packet: outer IP header, UDP, its own 16, and 16 of
/// authentication.
const AROUND_IPV4: u32 = 20 + 8 + 32;
const AROUND_IPV6: u32 = 40 + 8 + 32;

/// The finished WAN side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    /// The router's device that packets for the WAN leave through.
    pub(super) device: &'static str,
    /// The router's address on it.
    pub(super) router: IpAddr,
    /// The server's.
    pub(super) wan: IpAddr,
    /// Largest IP packet.
    pub(super) mtu: u32,
    /// The device that a flowtable hooks on the WAN side.
    pub(super) flowtable: &'static str,
    /// Device and direction where the packets of the WAN are counted.
    pub(super) counted: Counted,
}

pub(super) fn build(
    router: &Arc<NetnsThread>,
    wan: &Arc<NetnsThread>,
    spec: &LabSpec,
    stop: &AtomicBool,
) -> Result<(Stack, Programs)> {
    let shape = spec.shape;
    let mut stack = Stack {
        device: ROUTER_WAN,
        router: address(shape.ipv6, 2, 1),
        wan: address(shape.ipv6, 2, 2),
        mtu: spec.mtu,
        flowtable: ROUTER_WAN,
        counted: Counted::PLAIN,
    };
    let mut far = ENDPOINT;
    let mut programs = Programs::default();
    if shape.vlan {
        vlan(router, ROUTER_VLAN, ROUTER_WAN)?;
        vlan(wan, ENDPOINT_VLAN, ENDPOINT)?;
        (stack.device, far) = (ROUTER_VLAN, ENDPOINT_VLAN);
        stack.counted.header += tag_in_packets(wan)?;
    }
    if shape.pppoe {
        programs = pppoe::connect((router, stack.device), (wan, far), spec.mtu, stop)?;
        stack.mtu = in_netns(router, "lab: read the MTU of ppp0", || device::mtu(PPP))?;
        (stack.device, far) = (PPP, PPP);
        stack.counted.header += PPPOE;
        for netns in [router, wan] {
            segment_nothing(netns, PPP)?;
        }
    }
    // IPCP has agreed on IPv4 addresses already.
    if !shape.pppoe || shape.ipv6 {
        give_address(router, stack.device, stack.router, shape.ipv6)?;
        give_address(wan, far, stack.wan, shape.ipv6)?;
    }
    if shape.wireguard {
        tunnel(router, wan, spec, &mut stack)?;
    }
    Ok((stack, programs))
}

fn vlan(netns: &Arc<NetnsThread>, name: &'static str, under: &'static str) -> Result<()> {
    run(netns, move || device::create_vlan(name, under, VLAN))?
        .map_err(|e| made("lab: create a VLAN device", &e, &needs::VLAN))?;
    segment_nothing(netns, name)?;
    in_netns(netns, "lab: set a VLAN device up", move || rtnl::set_up(name))
}

/// Bytes of VLAN tag that the router's veth counts: none where the tag stands beside the packet, as
/// the sending veth leaves it there unless that is switched off (net/core/dev.c,
/// validate_xmit_vlan).
fn tag_in_packets(wan: &Arc<NetnsThread>) -> Result<u32> {
    let features = in_netns(wan, "lab: read offloads", || ethtool::features(ENDPOINT))?;
    let beside = features.get("tx-vlan-hw-insert").is_some_and(|state| state.active);
    Ok(if beside { 0 } else { TAG })
}

/// WireGuard from the router to the server over what there is so far.
fn tunnel(
    router: &Arc<NetnsThread>,
    wan: &Arc<NetnsThread>,
    spec: &LabSpec,
    stack: &mut Stack,
) -> Result<()> {
    let ipv6 = spec.shape.ipv6;
    let inside = (address(ipv6, 3, 1), address(ipv6, 3, 2));
    let host = if ipv6 { 128 } else { 32 };
    // Masqueraded, the LAN is not seen from the other site.
    let mut behind = vec![(inside.0, host)];
    if !spec.shape.nat {
        behind.push((address(ipv6, 1, 0), prefix(ipv6)));
    }
    let ends = [
        End { netns: router, outside: stack.router, inside: inside.0, networks: behind },
        End { netns: wan, outside: stack.wan, inside: inside.1, networks: vec![(inside.1, host)] },
    ];
    let around = if ipv6 { AROUND_IPV6 } else { AROUND_IPV4 };
    let mtu = join(&ends, ipv6, stack.mtu.checked_sub(around))?;
    for end in &ends {
        segment_nothing(end.netns, TUNNEL)?;
    }
    stack.device = TUNNEL;
    (stack.router, stack.wan) = inside;
    stack.mtu = mtu;
    stack.flowtable = TUNNEL;
    // wg0 counts its own padding; the LAN's veth sees what was inside.
    stack.counted = Counted { device: super::ROUTER_LAN, leaving: true, header: Counted::ETHERNET };
    Ok(())
}

/// One end of a tunnel.
pub(super) struct End<'a> {
    pub(super) netns: &'a Arc<NetnsThread>,
    /// Outer address, on the device that carries the tunnel.
    pub(super) outside: IpAddr,
    /// Inner address, in the tunnel.
    pub(super) inside: IpAddr,
    /// Networks whose packets the other end sends into the tunnel.
    pub(super) networks: Vec<(IpAddr, u8)>,
}

/// Makes `wg0` at both ends, each with the other as its peer, and returns the MTU. That is the
/// kernel's default (1420), unless no more than `fits` bytes fit.
pub(super) fn join(ends: &[End<'_>; 2], ipv6: bool, fits: Option<u32>) -> Result<u32> {
    let what = "lab: set up WireGuard";
    let mut keys = Vec::new();
    for end in ends {
        run(end.netns, || device::create_wireguard(TUNNEL))?
            .map_err(|e| made(what, &e, &needs::WIREGUARD))?;
        keys.push(in_netns(end.netns, what, || wireguard::set_up(TUNNEL, PORT))?);
    }
    let mut mtu = 0;
    let [a, b] = ends;
    for ((here, there), key) in [(a, b), (b, a)].into_iter().zip(keys.into_iter().rev()) {
        let peer = Peer {
            key,
            endpoint: SocketAddr::new(there.outside, PORT),
            allowed: there.networks.clone(),
        };
        mtu = in_netns(here.netns, what, move || {
            wireguard::add_peer(TUNNEL, &peer)?;
            let usual = device::mtu(TUNNEL)?;
            let mtu = usual.min(fits.unwrap_or(0));
            if mtu < usual {
                device::set_mtu(TUNNEL, mtu)?;
            }
            Ok::<_, io::Error>(mtu)
        })?;
        if ipv6 && mtu < 1280 {
            let why = format!("{mtu} bytes are left in the tunnel, less than the 1280 of IPv6");
            return Err(Error::usage("lab: mtu", why).hint("raise --mtu"));
        }
        give_address(here.netns, TUNNEL, here.inside, ipv6)?;
        in_netns(here.netns, what, || rtnl::set_up(TUNNEL))?;
    }
    Ok(mtu)
}
