//! Connections that the router tracks before the load begins, made by traffic.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::build::in_netns;
use super::{Lab, address, tracked};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostRead, HostWrite, clock};

/// Destination ports of one sending socket; each is a connection of its own.
const PORTS: std::ops::RangeInclusive<u16> = 1024..=65_000;
/// Datagrams sent in a row: a veth's backlog holds 1000 (net.core.netdev_max_backlog).
const BURST: usize = 250;
/// Number of times that the entries still missing are sent again.
const PASSES: u32 = 5;
/// Connections that may be there already.
const SLACK: u64 = 64;
const TIMEOUTS: [&str; 2] = ["nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"];

/// Sends a datagram for each of `spec.flows` connections from the LAN to the WAN, and counts what
/// the router tracks then.
///
/// # Errors
/// Exit 5 where the kernel tracks fewer connections at most; 6 when they did not come about.
pub(super) fn prefill(lab: &Lab) -> Result<()> {
    let flows = u64::from(lab.spec.flows);
    if flows == 0 {
        return Ok(());
    }
    let what = format!("lab: {flows} tracked connections");
    let router = lab.router_host();
    let max = router.text(Path::new("/proc/sys/net/netfilter/nf_conntrack_max"));
    if let Some(max) = max.ok().and_then(|text| text.parse::<u64>().ok())
        && flows + SLACK > max
    {
        return Err(Error::not_supported(what, format!("this machine tracks {max} at most"))
            .hint("raise net.netfilter.nf_conntrack_max, which holds for the whole machine"));
    }
    // In the router's namespace alone; a connection without an answer would be forgotten after 30
    // seconds.
    for name in TIMEOUTS {
        let path = format!("/proc/sys/net/netfilter/{name}");
        router.write(Path::new(&path), b"86400").map_err(|e| {
            Error::not_supported(what.clone(), e).hint("conntrack's timeouts can't be set here")
        })?;
    }
    let (ipv6, target) = (lab.spec.shape.ipv6, lab.wan_address);
    for _ in 0..PASSES {
        // The same sockets' ports on each pass, so that only what is missing comes about.
        in_netns(&lab.lan, "lab: make connections", move || send(flows, ipv6, target))?;
        if tracked(&router).is_some_and(|count| count >= flows) {
            return Ok(());
        }
    }
    let found = tracked(&router).map_or("unknown".into(), |count| count.to_string());
    Err(Error::new(ExitCode::Refused, what, format!("the router tracks {found}")))
}

fn send(flows: u64, ipv6: bool, target: IpAddr) -> std::io::Result<()> {
    let ports: Vec<u16> = PORTS.collect();
    let mut left = flows;
    let mut source = 20_000_u16;
    while left > 0 {
        let socket = UdpSocket::bind((address(ipv6, 1, 2), source))?;
        source += 1;
        for port in ports.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            // Not connected, so that refusals (ICMP: nobody listens) come up nowhere.
            socket.send_to(b"flow", SocketAddr::new(target, *port))?;
            left -= 1;
            if left.is_multiple_of(BURST as u64) {
                clock::sleep(Duration::from_micros(200));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::lab::LabSpec;

    #[test]
    fn as_many_connections_are_tracked_as_were_asked_for() {
        let spec = LabSpec { flows: 3000, ..LabSpec::default() };
        let lab = match Lab::build(&spec) {
            Ok(lab) => lab,
            Err(e) if matches!(e.code(), ExitCode::NotPermitted | ExitCode::NotSupported) => {
                crate::skip!("{e}")
            }
            Err(e) => panic!("{e}"),
        };
        let count = tracked(&lab.router_host()).unwrap();
        // The self-check's own connection is there too.
        assert!((3000..3100).contains(&count), "{count}");
    }
}
