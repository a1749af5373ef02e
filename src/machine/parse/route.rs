//! `/proc/net/route` (net/ipv4/fib_trie.c `fib_route_seq_show`): IPv4 routes of the main table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::each_once;
use crate::model::order::InOrder;

/// A default route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Device that the route leaves by.
    pub device: String,
    /// Preference: the lower is preferred.
    pub metric: u32,
    /// Router that the route leads to; `None` on a link that has no other end than one (PPP).
    pub gateway: Option<IpAddr>,
}

/// The default routes, preferred first. Columns: device, destination, gateway, flags, reference
/// count, use, metric, mask; addresses in hexadecimal.
#[must_use]
pub fn defaults(bytes: &[u8]) -> Vec<DefaultRoute> {
    let text = String::from_utf8_lossy(bytes);
    let mut found: Vec<DefaultRoute> = text.lines().skip(1).filter_map(default).collect();
    found.order_by_key(|route| route.metric);
    found
}

/// Flags of a route: RTF_UP; RTF_REJECT marks a route that leads nowhere (linux/route.h).
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

fn default(line: &str) -> Option<DefaultRoute> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let flags = u32::from_str_radix(words.get(3)?, 16).ok()?;
    let everywhere = *words.get(1)? == "00000000" && *words.get(7)? == "00000000";
    (everywhere && flags & UP != 0 && flags & REJECT == 0).then(|| DefaultRoute {
        device: words.first().copied().unwrap_or_default().to_owned(),
        metric: words.get(6).and_then(|m| m.parse().ok()).unwrap_or(u32::MAX),
        gateway: words.get(2).and_then(|word| gateway_v4(word)),
    })
}

/// An address as a number of the machine's own byte order, printed (`%08X` of a `__be32`).
fn gateway_v4(word: &str) -> Option<IpAddr> {
    let bytes = u32::from_str_radix(word, 16).ok()?.to_ne_bytes();
    Some(Ipv4Addr::from(bytes)).filter(|a| !a.is_unspecified()).map(IpAddr::V4)
}

/// An address as 32 digits in the order of the wire (`%pi6`).
fn gateway_v6(word: &str) -> Option<IpAddr> {
    let address = u128::from_str_radix(word, 16).ok().filter(|_| word.len() == 32)?;
    Some(Ipv6Addr::from(address)).filter(|a| !a.is_unspecified()).map(IpAddr::V6)
}

/// `/proc/net/ipv6_route` (net/ipv6/route.c `rt6_info_route`): devices of default routes. Columns:
/// destination, its prefix length, source, its length, next hop, metric, references, use, flags,
/// device.
#[must_use]
pub fn defaults_v6(bytes: &[u8]) -> Vec<DefaultRoute> {
    let text = String::from_utf8_lossy(bytes);
    let mut found: Vec<DefaultRoute> = text
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let flags = u32::from_str_radix(words.get(8)?, 16).ok()?;
            let everywhere = *words.get(1)? == "00" && words.first()?.bytes().all(|b| b == b'0');
            let device = (*words.get(9)?).to_owned();
            (everywhere && flags & UP != 0 && flags & REJECT == 0 && device != "lo").then(|| {
                let metric = words.get(5).and_then(|m| u32::from_str_radix(m, 16).ok());
                let gateway = words.get(4).and_then(|word| gateway_v6(word));
                DefaultRoute { device, metric: metric.unwrap_or(u32::MAX), gateway }
            })
        })
        .collect();
    found.order_by_key(|route| route.metric);
    found
}

/// `/proc/net/ipv6_route`: devices of default routes that a router advertised (linux/ipv6_route.h:
/// RTF_DEFAULT, RTF_ADDRCONF), each once.
#[must_use]
pub fn advertised(bytes: &[u8]) -> Vec<String> {
    const BY_ROUTER: u32 = 0x0005_0000;
    let text = String::from_utf8_lossy(bytes);
    each_once(text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let flags = u32::from_str_radix(words.get(8)?, 16).ok()?;
        let everywhere = *words.get(1)? == "00";
        (everywhere && flags & BY_ROUTER == BY_ROUTER).then_some(*words.get(9)?)
    }))
}

/// Devices of `/proc/net/route` that have a network of their own: a route without a gateway,
/// which comes with an address. Each once.
#[must_use]
pub fn devices(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    each_once(text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, _, "00000000", _, ..] = words.as_slice() else { return None };
        (*device != "*").then_some(*device)
    }))
}

/// `/proc/net/if_inet6` (net/ipv6/addrconf.c `if6_seq_show`): the device of each address that is
/// neither link-local nor loopback. Columns: address, index, prefix length, scope, flags, device.
#[must_use]
pub fn devices_v6(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, _, _, scope, _, device] = words.as_slice() else { return None };
            // IPV6_ADDR_LOOPBACK, IPV6_ADDR_LINKLOCAL (net/ipv6.h)
            let scope = u8::from_str_radix(scope, 16).ok()?;
            (scope & 0x30 == 0).then(|| (*device).to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Linux 6.18, in a namespace of two ends of a veth, one of which sent a router advertisement.
    const ADVERTISED: &[u8] = b"\
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001       b0
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001       a0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe80000000000000d4fee5fffe0efe74 00000400 00000001 00000000 00450003       a0
fe80000000000000688217fffe347956 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000003 00000000 80200001       a0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";

    #[test]
    fn a_default_route_that_a_router_advertised_is_told_from_others() {
        assert_eq!(advertised(ADVERTISED), ["a0"]);
        let by_hand = String::from_utf8_lossy(ADVERTISED).replace("00450003", "00000003");
        assert_eq!(advertised(by_hand.as_bytes()), [""; 0]);
    }

    #[test]
    fn default_routes_by_metric_without_rejects() {
        let text = b"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            wwan0\t00000000\t010A0A0A\t0003\t0\t0\t700\t00000000\t0\t0\t0\n\
            pppoe-wan\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n\
            br-lan\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            *\t00000000\t00000000\t0200\t0\t0\t9\t00000000\t0\t0\t0\n\
            cut\t00000000\n";
        let found: Vec<_> = defaults(text).into_iter().map(|r| r.device).collect();
        assert_eq!(found, ["pppoe-wan", "wwan0"]);
        assert_eq!(devices(text), ["pppoe-wan", "br-lan"]);
        let zero = "0".repeat(32);
        let text = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n"
        );
        let found: Vec<_> = defaults_v6(text.as_bytes()).into_iter().map(|r| r.device).collect();
        assert_eq!(found, ["eth0"]);
    }

    #[test]
    fn only_a_route_to_everywhere_that_is_up_and_rejects_nothing_is_a_default_of_ipv6() {
        let zero = "0".repeat(32);
        let line = |to: &str, bits: &str, flags: &str, device: &str| {
            format!("{to} {bits} {zero} 00 {zero} 00000400 1 0 {flags} {device}\n")
        };
        let network = format!("20010db8{}", "0".repeat(24));
        let text = [
            line(&zero, "00", "00000001", "eth0"),
            line(&network, "20", "00000001", "network0"),
            line(&zero, "40", "00000001", "zeros0"),
            line(&network, "00", "00000001", "odd0"),
            line(&zero, "00", "00000000", "down0"),
            line(&zero, "00", "00000201", "reject0"),
            line(&zero, "00", "00000001", "lo"),
        ];
        let found = defaults_v6(text.concat().as_bytes());
        let found: Vec<_> = found.into_iter().map(|r| r.device).collect();
        assert_eq!(found, ["eth0"]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_gateway_of_a_default_route_is_an_address_and_a_link_without_one_has_none() {
        let text = b"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
            eth0\t00000000\t010012C6\t0003\t0\t0\t5\t00000000\n\
            pppoe-wan\t00000000\t00000000\t0001\t0\t0\t9\t00000000\n";
        let found: Vec<_> = defaults(text).into_iter().map(|r| r.gateway).collect();
        assert_eq!(found, [Some("198.18.0.1".parse().unwrap()), None]);
        let zero = "0".repeat(32);
        let text = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 1 0 00000003 eth0\n\
             {zero} 00 {zero} 00 {zero} 00000500 1 0 00000001 ppp0\n"
        );
        let found: Vec<_> = defaults_v6(text.as_bytes()).into_iter().map(|r| r.gateway).collect();
        assert_eq!(found, [Some("fe80::1".parse().unwrap()), None]);
    }

    #[test]
    fn global_addresses_name_their_devices() {
        let text = b"fd000000000000000000000000000064 05 40 00 80     eth0\n\
            fe8000000000000000fc00fffe000001 05 40 20 80     eth0\n\
            00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(devices_v6(text), ["eth0"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _routes = (defaults(&bytes), defaults_v6(&bytes), devices(&bytes), devices_v6(&bytes));
        }
    }
}
