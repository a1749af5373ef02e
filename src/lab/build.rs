//! Building a lab, and proving that it is one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::{
    ENDPOINT, LAN_ADDRESS, Lab, LabSpec, PREFIX, ROUTER_LAN, ROUTER_LAN_ADDRESS, ROUTER_WAN,
    ROUTER_WAN_ADDRESS, WAN_ADDRESS,
};
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::HostWrite;
use crate::model::feature::Features;
use crate::sys::ethtool;
use crate::sys::netns::NetnsThread;
use crate::sys::nft::{self, NftError, Ruleset, Step};
use crate::sys::rtnl::{self, VethEnd};

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
        if !MTU.contains(&spec.mtu) {
            let why = format!("{} is not between {} and {}", spec.mtu, MTU.start(), MTU.end());
            return Err(Error::usage("lab: mtu", why));
        }
        if spec.rules > LabSpec::MAX_RULES {
            let why = format!("{} is more than {}", spec.rules, LabSpec::MAX_RULES);
            return Err(Error::usage("lab: rules", why));
        }
        let lab = Self { lan: namespace()?, router: namespace()?, wan: namespace()? };
        lab.link(ROUTER_LAN, &lab.lan, spec.mtu)?;
        lab.link(ROUTER_WAN, &lab.wan, spec.mtu)?;
        configure(
            &lab.router,
            &[(ROUTER_LAN, ROUTER_LAN_ADDRESS), (ROUTER_WAN, ROUTER_WAN_ADDRESS)],
        )?;
        configure(&lab.lan, &[(ENDPOINT, LAN_ADDRESS)])?;
        configure(&lab.wan, &[(ENDPOINT, WAN_ADDRESS)])?;
        in_netns(&lab.lan, "lab: add the default route", || {
            rtnl::add_default_route(ROUTER_LAN_ADDRESS)
        })?;
        let forward = Path::new("/proc/sys/net/ipv4/ip_forward");
        lab.router_host()
            .write(forward, b"1")
            .map_err(|e| Error::new(ExitCode::NotPermitted, "lab: switch on forwarding", e))?;
        let flowtable = spec.flowtable.then_some([ROUTER_LAN, ROUTER_WAN]);
        let rules = Ruleset { wan: ROUTER_WAN, rules: spec.rules, flowtable };
        run(&lab.router, move || nft::load(&rules))?.map_err(|e| ruleset(&e))?;
        lab.check()?;
        Ok(lab)
    }

    fn link(&self, name: &'static str, end: &Arc<NetnsThread>, mtu: u32) -> Result<()> {
        let end = Arc::clone(end);
        run(&self.router, move || {
            let near = VethEnd { name, netns: None };
            let far = VethEnd { name: ENDPOINT, netns: Some(end.as_fd()) };
            rtnl::create_veth(near, far, mtu)
        })?
        .map_err(|e| {
            if is(&e, Errno::OPNOTSUPP) {
                return lacks("veth devices", "CONFIG_VETH").hint(module_hint("veth", "kmod-veth"));
            }
            system("lab: create a veth pair", &e)
        })
    }

    /// One exchange from lan to wan and back: it must arrive from the router's address, and the
    /// answer must find its way (wan has no route to the LAN).
    fn check(&self) -> Result<()> {
        let what = "lab: self-check";
        let refuse = |why: String| {
            Error::new(ExitCode::Refused, what, why)
                .hint("another firewall in the kernel may interfere; `nft list ruleset` shows it")
        };
        let server = in_netns(&self.wan, what, || socket(WAN_ADDRESS))?;
        let target = server.local_addr().map_err(|e| system(what, &e))?;
        let client = in_netns(&self.lan, what, || socket(LAN_ADDRESS))?;
        for _ in 0..ATTEMPTS {
            // Sockets stay in the namespace they were made in, whoever uses them.
            client.send_to(b"lan", target).map_err(|e| system(what, &e))?;
            let Some(source) = receive(&server).map_err(|e| system(what, &e))? else { continue };
            if source.ip() != ROUTER_WAN_ADDRESS {
                return Err(refuse(format!(
                    "packets arrive from {} and not from {ROUTER_WAN_ADDRESS}: no masquerading",
                    source.ip()
                )));
            }
            server.send_to(b"wan", source).map_err(|e| system(what, &e))?;
            if receive(&client).map_err(|e| system(what, &e))? == Some(target) {
                return Ok(());
            }
        }
        Err(refuse(format!("no packet from {LAN_ADDRESS} came to {WAN_ADDRESS} and back")))
    }
}

fn socket(address: Ipv4Addr) -> io::Result<UdpSocket> {
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

/// Offloads off, addresses, everything up.
fn configure(netns: &Arc<NetnsThread>, devices: &'static [(&'static str, Ipv4Addr)]) -> Result<()> {
    in_netns(netns, "lab: set lo up", || rtnl::set_up("lo"))?;
    for (device, address) in devices {
        run(netns, move || without_offloads(device))?.map_err(|e| {
            if is(&e, Errno::OPNOTSUPP) {
                return lacks("ethtool netlink", "CONFIG_ETHTOOL_NETLINK")
                    .hint("it is part of kernels from 5.6 on that are built with it");
            }
            system("lab: switch off offloads", &e)
        })?;
        in_netns(netns, "lab: add an address", move || {
            rtnl::add_address(device, *address, PREFIX)
        })?;
        in_netns(netns, "lab: set a device up", move || rtnl::set_up(device))?;
    }
    Ok(())
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

fn namespace() -> Result<Arc<NetnsThread>> {
    NetnsThread::create().map(Arc::new).map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::INVAL | Errno::NOSYS) => lacks("network namespaces", "CONFIG_NET_NS")
            .hint("it can't be added as a module: take a kernel built with it"),
        Some(Errno::NOSPC) => Error::not_supported("lab: create a network namespace", "too many")
            .hint("raise /proc/sys/user/max_net_namespaces"),
        _ => system("lab: create a network namespace", &e),
    })
}

fn ruleset(error: &NftError) -> Error {
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
    let (what, option, module, package) = match error.step {
        Step::Subsystem => ("nf_tables", "CONFIG_NF_TABLES", "nf_tables", "kmod-nft-core"),
        Step::Table | Step::FilterChain => {
            ("nf_tables for IPv4", "CONFIG_NF_TABLES_IPV4", "nf_tables", "kmod-nft-core")
        }
        Step::NatChain => ("nf_tables NAT", "CONFIG_NFT_NAT", "nft_chain_nat", "kmod-nft-nat"),
        Step::Masquerade => ("masquerading", "CONFIG_NFT_MASQ", "nft_masq", "kmod-nft-nat"),
        Step::Flowtable => {
            ("flowtables", "CONFIG_NF_FLOW_TABLE_INET", "nf_flow_table_inet", "kmod-nft-offload")
        }
        Step::FlowOffload => (
            "flow offload in rules",
            "CONFIG_NFT_FLOW_OFFLOAD",
            "nft_flow_offload",
            "kmod-nft-offload",
        ),
        // Its own module until kernel 5.17.
        Step::Rule => ("counters in rules", "CONFIG_NFT_COUNTER", "nft_counter", "kmod-nft-core"),
    };
    lacks(what, option).hint(module_hint(module, package))
}

/// What the kernel must have, and where it comes from when it is a module: the kernel loads it by
/// itself once it is installed.
fn lacks(what: &str, option: &str) -> Error {
    Error::not_supported("lab", format!("this kernel has no {what} ({option})"))
}

fn module_hint(module: &str, package: &str) -> String {
    format!(
        "try `modprobe {module}`; its package is {package} on OpenWrt, linux-modules-extra or the \
         full kernel image elsewhere"
    )
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

fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

pub(super) fn run<T: Send + 'static>(
    netns: &NetnsThread,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    netns.run(job).map_err(|gone| Error::not_supported("lab", gone))
}

fn in_netns<T: Send + 'static>(
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
            (Step::Subsystem, Errno::PROTONOSUPPORT, "CONFIG_NF_TABLES", "nf_tables"),
            (Step::NatChain, Errno::NOENT, "CONFIG_NFT_NAT", "nft_chain_nat"),
            (Step::Flowtable, Errno::NOENT, "CONFIG_NF_FLOW_TABLE_INET", "nf_flow_table_inet"),
            (Step::Masquerade, Errno::NOENT, "CONFIG_NFT_MASQ", "nft_masq"),
        ] {
            let error = ruleset(&NftError { step, error: errno.into() });
            assert_eq!(error.code(), ExitCode::NotSupported);
            assert!(error.to_string().contains(option), "{error}");
            assert!(error.remedy().unwrap_or_default().contains(module), "{error:?}");
        }
        let denied = NftError { step: Step::Table, error: Errno::PERM.into() };
        assert_eq!(ruleset(&denied).code(), ExitCode::NotPermitted);
        let full = NftError { step: Step::Rule, error: Errno::NOMEM.into() };
        assert!(!ruleset(&full).to_string().contains("CONFIG"), "not a missing feature");
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
