//! Building a lab, and proving that it is one.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::io::Errno;

use super::needs::{self, Feature};
use super::wan::{self, Stack};
use super::{ENDPOINT, Lab, LabSpec, ROUTER_LAN, ROUTER_WAN, Shape, address, prefill, prefix};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostWrite, Live};
use crate::machine::sys::netns::NetnsThread;
use crate::machine::sys::nft::{self, NftError, RuleStep, Ruleset};
use crate::machine::sys::rtnl::{self, VethEnd};
use crate::machine::sys::{device, ethtool};
use crate::model::feature::Features;

/// The bridge on the LAN side.
const BRIDGE: &str = "br-lan";
/// IPv4 asks for at least this (RFC 791); the most a veth takes (ETH_MAX_MTU).
const MTU: std::ops::RangeInclusive<u32> = 68..=65_535;
/// One answer of the self-check; neighbour discovery included it takes well under a millisecond.
const ANSWER: Duration = Duration::from_millis(200);
/// Attempts of the self-check, for a machine too busy to answer.
const ATTEMPTS: u32 = 10;
const PRIVILEGE: &str = "run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN";

impl Lab {
    /// Builds a lab and checks that it forwards and masquerades.
    ///
    /// # Errors
    /// Exit 2 for a specification out of range, 4 without the privileges, 5 where the kernel lacks
    /// something (named, with how to get it), 6 when the finished lab does not masquerade.
    pub fn build(spec: &LabSpec) -> Result<Self> {
        Self::build_until(spec, &AtomicBool::new(false))
    }

    /// As [`Lab::build`], and ends when `stop` is raised while it waits for a session to come up.
    ///
    /// # Errors
    /// As [`Lab::build`]; interrupted.
    pub fn build_until(spec: &LabSpec, stop: &AtomicBool) -> Result<Self> {
        if !MTU.contains(&spec.mtu) {
            let why = format!("{} is not between {} and {}", spec.mtu, MTU.start(), MTU.end());
            return Err(Error::usage("lab: mtu", why));
        }
        if spec.rules > LabSpec::MAX_RULES {
            let why = format!("{} is more than {}", spec.rules, LabSpec::MAX_RULES);
            return Err(Error::usage("lab: rules", why));
        }
        if spec.flows > LabSpec::MAX_FLOWS {
            let why = format!("{} is more than {}", spec.flows, LabSpec::MAX_FLOWS);
            return Err(Error::usage("lab: flows", why));
        }
        let shape = spec.shape;
        // IPv6 asks for links of at least this (RFC 8200), and a tunnel takes its share.
        if shape.ipv6 && spec.mtu < 1280 {
            let why = format!("{} is less than the 1280 that IPv6 needs", spec.mtu);
            return Err(Error::usage("lab: mtu", why));
        }
        let (lan, router, wan) = (namespace()?, namespace()?, namespace()?);
        if shape.ipv6 {
            [&lan, &router, &wan].into_iter().for_each(trust_own_addresses);
        }
        link(&router, ROUTER_LAN, &lan, spec.mtu)?;
        link(&router, ROUTER_WAN, &wan, spec.mtu)?;
        for (netns, devices) in [
            (&router, [ROUTER_LAN, ROUTER_WAN].as_slice()),
            (&lan, &[ENDPOINT]),
            (&wan, &[ENDPOINT]),
        ] {
            in_netns(netns, "lab: set lo up", || rtnl::set_up("lo"))?;
            for name in devices {
                segment_nothing(netns, name)?;
                in_netns(netns, "lab: set a device up", move || rtnl::set_up(name))?;
            }
        }
        let inside = lan_side(&router, &shape)?;
        give_address(&router, inside, address(shape.ipv6, 1, 1), shape.ipv6)?;
        give_address(&lan, ENDPOINT, address(shape.ipv6, 1, 2), shape.ipv6)?;
        let gateway = address(shape.ipv6, 1, 1);
        in_netns(&lan, "lab: add the default route", move || rtnl::add_default_route(gateway))?;
        let (stack, programs) = wan::build(&router, &wan, spec, stop)?;
        if !shape.nat {
            let back = (address(shape.ipv6, 1, 0), prefix(shape.ipv6));
            let through = stack.router;
            in_netns(&wan, "lab: add the route to the LAN", move || {
                rtnl::add_route(Some(back), through)
            })?;
        }
        let lab = Self {
            lan,
            router,
            wan,
            spec: *spec,
            wan_address: stack.wan,
            path_mtu: stack.mtu,
            counted: stack.counted,
            programs: Arc::new(programs),
        };
        lab.forward(&stack)?;
        lab.check(&stack)?;
        prefill::prefill(&lab)?;
        Ok(lab)
    }

    /// Switches on forwarding, and loads the ruleset where there is one.
    fn forward(&self, stack: &Stack) -> Result<()> {
        let LabSpec { rules, flows, shape, .. } = self.spec;
        let switch = if shape.ipv6 {
            "/proc/sys/net/ipv6/conf/all/forwarding"
        } else {
            "/proc/sys/net/ipv4/ip_forward"
        };
        self.router_host()
            .write(Path::new(switch), b"1")
            .map_err(|e| Error::new(ExitCode::NotPermitted, "lab: switch on forwarding", e))?;
        if !shape.nat && !shape.flowtable && rules == 0 && flows == 0 {
            return Ok(());
        }
        let ruleset = Ruleset {
            family: if shape.ipv6 { nft::Family::Ipv6 } else { nft::Family::Ipv4 },
            masquerade: shape.nat.then_some(stack.device),
            rules,
            // The kernel finds its way from VLAN, PPPoE and bridge to what they stand on; a tunnel
            // ends the path (nft_flow_offload.c, nft_dev_forward_path).
            flowtable: shape.flowtable.then_some([ROUTER_LAN, stack.flowtable]),
            track: flows > 0,
        };
        run(&self.router, move || nft::load(&ruleset))?.map_err(|e| ruleset_error(&e, &shape))
    }

    /// One exchange from lan to wan and back: with masquerading it must arrive from the router's
    /// address (and the answer find its way: wan has no route to the LAN), without from the client's.
    fn check(&self, stack: &Stack) -> Result<()> {
        let what = "lab: self-check";
        let refuse = |why: String| {
            Error::new(ExitCode::Refused, what, why)
                .hint("another firewall in the kernel may interfere; `nft list ruleset` shows it")
        };
        let (nat, ipv6) = (self.spec.shape.nat, self.spec.shape.ipv6);
        let lan_address = address(ipv6, 1, 2);
        let expected = if nat { stack.router } else { lan_address };
        let wan_address = self.wan_address;
        let server = in_netns(&self.wan, what, move || socket(wan_address))?;
        let target = server.local_addr().map_err(|e| system(what, &e))?;
        let client = in_netns(&self.lan, what, move || socket(lan_address))?;
        for _ in 0..ATTEMPTS {
            // Sockets stay in the namespace they were made in, whoever uses them.
            client.send_to(b"lan", target).map_err(|e| system(what, &e))?;
            let Some(source) = receive(&server).map_err(|e| system(what, &e))? else { continue };
            if source.ip() != expected {
                let found = source.ip();
                let lack = if nat { ": no masquerading" } else { ": something translates them" };
                return Err(refuse(format!(
                    "packets arrive from {found} and not from {expected}{lack}"
                )));
            }
            server.send_to(b"wan", source).map_err(|e| system(what, &e))?;
            if receive(&client).map_err(|e| system(what, &e))? == Some(target) {
                return Ok(());
            }
        }
        Err(refuse(format!("no packet from {lan_address} came to {wan_address} and back")))
    }
}

/// Own addresses are valid at once: a router asks for its neighbours from its link-local one, and
/// that waits up to two seconds for a duplicate to object (net/ipv6/addrconf.c, addrconf_dad_begin
/// asks both files). A lab has no duplicates.
fn trust_own_addresses(netns: &Arc<NetnsThread>) {
    let host = Live::in_netns(Arc::clone(netns));
    for which in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{which}/accept_dad");
        if let Err(e) = host.write(Path::new(&path), b"0") {
            // The self-check says whether it mattered.
            log::debug!("lab: {e}");
        }
    }
}

/// A veth pair from `near` to the other namespace's [`ENDPOINT`].
pub(super) fn link(
    near: &Arc<NetnsThread>,
    name: &'static str,
    far: &Arc<NetnsThread>,
    mtu: u32,
) -> Result<()> {
    let far = Arc::clone(far);
    run(near, move || {
        let near = VethEnd { name, netns: None };
        let far = VethEnd { name: ENDPOINT, netns: Some(far.as_fd()) };
        rtnl::create_veth(near, far, mtu)
    })?
    .map_err(|e| made("lab: create a veth pair", &e, &needs::VETH))
}

/// The device that carries the router's LAN address: the port itself, or a bridge on it.
fn lan_side(router: &Arc<NetnsThread>, shape: &Shape) -> Result<&'static str> {
    if !shape.bridge {
        return Ok(ROUTER_LAN);
    }
    let what = "lab: create a bridge";
    run(router, || device::create_bridge(BRIDGE))?.map_err(|e| made(what, &e, &needs::BRIDGE))?;
    in_netns(router, what, || {
        device::enslave(ROUTER_LAN, BRIDGE)?;
        rtnl::set_up(BRIDGE)
    })?;
    segment_nothing(router, BRIDGE)?;
    Ok(BRIDGE)
}

/// Gives a device an address of a lab's network.
pub(super) fn give_address(
    netns: &Arc<NetnsThread>,
    name: &'static str,
    address: IpAddr,
    ipv6: bool,
) -> Result<()> {
    let length = prefix(ipv6);
    run(netns, move || rtnl::add_address(name, address, length))?.map_err(|e| {
        // EAFNOSUPPORT without IPv6 in the kernel; EACCES where it is switched off for the device
        // (addrconf.c, ipv6_find_idev).
        if ipv6 && (is(&e, Errno::AFNOSUPPORT) || is(&e, Errno::OPNOTSUPP) || is(&e, Errno::ACCESS))
        {
            return needs::IPV6.missing();
        }
        system("lab: add an address", &e)
    })
}

fn socket(address: IpAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, 0))?;
    socket.set_read_timeout(Some(ANSWER))?;
    Ok(socket)
}

fn receive(socket: &UdpSocket) -> io::Result<Option<SocketAddr>> {
    match socket.recv_from(&mut [0; 16]) {
        Ok((_, from)) => Ok(Some(from)),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Switches a device's offloads off.
pub(super) fn segment_nothing(netns: &Arc<NetnsThread>, device: &'static str) -> Result<()> {
    run(netns, move || without_offloads(device))?.map_err(|e| {
        if is(&e, Errno::OPNOTSUPP) {
            return needs::ETHTOOL
                .missing()
                .hint("it is part of kernels from 5.6 on that are built with it");
        }
        system("lab: switch off offloads", &e)
    })
}

/// Switches off whatever makes or keeps packets larger than the MTU, and reads back that it is.
fn without_offloads(device: &str) -> io::Result<()> {
    let before = ethtool::features(device)?;
    let off: Vec<(&str, bool)> = merging(&before).map(|name| (name, false)).collect();
    ethtool::set_features(device, &off)?;
    let after = ethtool::features(device)?;
    match merging(&after).next() {
        None => Ok(()),
        Some(name) => Err(io::Error::other(format!("{device} keeps {name}"))),
    }
}

/// Names of the active, changeable features that merge packets or leave their segmentation to a
/// device, of net/ethtool/common.c: `tx-tcp-segmentation` and its kin, `tx-udp-segmentation`,
/// `tx-generic-segmentation`, `tx-gso-partial`, `tx-gso-list`, `tx-gre-segmentation`, ...;
/// `rx-gro`, `rx-gro-hw`, `rx-gro-list`, `rx-udp-gro-forwarding`, `rx-lro`.
fn merging(features: &Features) -> impl Iterator<Item = &str> {
    features.iter().filter(|(_, state)| state.active && state.changeable).filter_map(|(name, _)| {
        let sends =
            name.starts_with("tx-") && (name.contains("segmentation") || name.contains("-gso-"));
        let receives = name.starts_with("rx-") && (name.contains("gro") || name.contains("lro"));
        (sends || receives).then_some(name.as_str())
    })
}

pub(super) fn namespace() -> Result<Arc<NetnsThread>> {
    NetnsThread::create().map(Arc::new).map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::INVAL | Errno::NOSYS) => needs::NETNS.missing(),
        Some(Errno::NOENT) => {
            Error::not_supported("lab: create a network namespace", "/proc is not mounted")
                .hint("mount -t proc proc /proc")
        }
        Some(Errno::NOSPC) => Error::not_supported("lab: create a network namespace", "too many")
            .hint("raise /proc/sys/user/max_net_namespaces"),
        _ => system("lab: create a network namespace", &e),
    })
}

fn ruleset_error(error: &NftError, shape: &Shape) -> Error {
    let missing = matches!(
        Errno::from_io_error(&error.error),
        Some(
            Errno::NOENT
                | Errno::OPNOTSUPP
                | Errno::PROTONOSUPPORT
                | Errno::AFNOSUPPORT
                | Errno::INVAL
        )
    );
    if !missing {
        return system("lab: load the ruleset", &error.error);
    }
    let feature = match error.step {
        RuleStep::Subsystem => needs::NFT,
        RuleStep::Table | RuleStep::FilterChain if shape.ipv6 => needs::NFT_IPV6,
        RuleStep::Table | RuleStep::FilterChain => needs::NFT_IPV4,
        RuleStep::NatChain => needs::NFT_NAT,
        RuleStep::Masquerade => needs::MASQUERADE,
        RuleStep::Flowtable => needs::FLOWTABLE,
        RuleStep::FlowOffload => needs::FLOW_OFFLOAD,
        RuleStep::Track => needs::TRACKING,
        RuleStep::Rule => needs::COUNTER,
    };
    feature.missing()
}

/// A device that could not be made: its kind is unknown to the kernel (EOPNOTSUPP, rtnetlink.c), or
/// something else.
pub(super) fn made(what: &str, error: &io::Error, feature: &Feature) -> Error {
    if is(error, Errno::OPNOTSUPP) { feature.missing() } else { system(what, error) }
}

/// A refusal of the kernel that nothing more can be said about, but what privilege would help.
pub(super) fn system(what: &str, error: &io::Error) -> Error {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            Error::not_permitted(what, "operation not permitted").hint(PRIVILEGE)
        }
        _ => Error::not_supported(what, error),
    }
}

pub(super) fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

pub(super) fn run<T: Send + 'static>(
    netns: &NetnsThread,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    netns.run(job).map_err(|gone| Error::not_supported("lab", gone))
}

pub(super) fn in_netns<T: Send + 'static>(
    netns: &NetnsThread,
    what: &'static str,
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    run(netns, job)?.map_err(|e| system(what, &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::feature::FeatureState;

    #[test]
    fn what_the_kernel_lacks_is_named_with_where_it_comes_from() {
        for (step, errno, option, module) in [
            (RuleStep::Subsystem, Errno::PROTONOSUPPORT, "CONFIG_NF_TABLES", "nf_tables"),
            (RuleStep::NatChain, Errno::NOENT, "CONFIG_NFT_NAT", "nft_chain_nat"),
            (RuleStep::Flowtable, Errno::NOENT, "CONFIG_NF_FLOW_TABLE_INET", "nf_flow_table_inet"),
            (RuleStep::Masquerade, Errno::NOENT, "CONFIG_NFT_MASQ", "nft_masq"),
        ] {
            let error = ruleset_error(&NftError { step, error: errno.into() }, &Shape::default());
            assert_eq!(error.code(), ExitCode::NotSupported);
            assert!(error.to_string().contains(option), "{error}");
            assert!(error.remedy().unwrap_or_default().contains(module), "{error:?}");
        }
        let denied = NftError { step: RuleStep::Table, error: Errno::PERM.into() };
        assert_eq!(ruleset_error(&denied, &Shape::default()).code(), ExitCode::NotPermitted);
        let full = NftError { step: RuleStep::Rule, error: Errno::NOMEM.into() };
        assert!(
            !ruleset_error(&full, &Shape::default()).to_string().contains("CONFIG"),
            "not a missing feature"
        );
    }

    #[test]
    fn only_what_makes_or_keeps_large_packets_is_switched_off() {
        let state = |active, changeable| FeatureState { active, changeable };
        // Of `ethtool -k` on a veth (kernel 6.18).
        let features = Features::from(
            [
                ("tx-tcp-segmentation", state(true, true)),
                ("tx-udp-segmentation", state(true, true)),
                ("tx-gso-list", state(true, true)),
                ("tx-gso-robust", state(true, false)),
                ("tx-generic-segmentation", state(true, true)),
                ("tx-tcp-mangleid-segmentation", state(false, true)),
                ("rx-gro", state(true, true)),
                ("rx-gro-list", state(true, true)),
                ("tx-checksum-ip-generic", state(true, true)),
                ("rx-checksum", state(true, true)),
                ("tx-scatter-gather", state(true, true)),
            ]
            .map(|(name, state)| (name.to_owned(), state)),
        );
        let names: Vec<_> = merging(&features).collect();
        assert_eq!(
            names,
            [
                "rx-gro",
                "rx-gro-list",
                "tx-generic-segmentation",
                "tx-gso-list",
                "tx-tcp-segmentation",
                "tx-udp-segmentation",
            ]
        );
    }
}
