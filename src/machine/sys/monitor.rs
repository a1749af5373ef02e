//! Changes to a network namespace's set-up, as the kernel announces them to whoever listens: what
//! was changed and put back shows here too.
//!
//! ```text
//!   open ── RTNLGRP_*, NFNLGRP_NFTABLES ──▶ the socket's buffer ──▶ seen
//! ```

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;

use super::genl;
use super::netlink::{Attrs, Message, NlFamily, NlmF, Notice, Socket, attribute, text, u32_at};

// linux/rtnetlink.h: messages, and the groups that they are sent to.
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const ADDRESSES_AND_ROUTES: std::ops::RangeInclusive<u16> = 20..=25;
const POLICIES: std::ops::RangeInclusive<u16> = 32..=33;
/// Queueing disciplines, their classes and filters.
const DISCIPLINES: std::ops::RangeInclusive<u16> = 36..=46;
/// RTM_NEWCHAIN and RTM_DELCHAIN: chains of such filters.
const CHAINS: std::ops::RangeInclusive<u16> = 100..=101;
/// Link, tc, and of IPv4 and IPv6 addresses, routes and rules.
const ROUTE_GROUPS: [u32; 8] = [1, 4, 5, 7, 8, 9, 11, 19];
// linux/if_link.h
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_XDP: u16 = 43;
const IFLA_EVENT: u16 = 44;
const IFLA_EVENT_FEATURES: u32 = 2;
const IFF_UP: u32 = 1;
const IFINFOMSG: usize = 16;
// linux/netfilter/nfnetlink.h, nf_tables.h: the end of a transaction, and who made it.
const NFNLGRP_NFTABLES: u32 = 7;
const NFT_MSG_NEWGEN: u16 = 10 << 8 | 15;
const NFTA_GEN_PROC_NAME: u16 = 3;
const NFGENMSG: usize = 4;

// linux/genetlink.h, ethtool_netlink.h: the header's length, its attribute in each message, and the
// device's number in it.
const GENLMSGHDR: usize = 4;
const ETHTOOL_A_HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
/// ETHTOOL_MSG_*_NTF (linux/ethtool_netlink.h, kernel 5.6; of RSS 6.17), whatever set it. Those of
/// features come by rtnetlink too, from all kernels.
const CARD: [(u8, &str); 11] = [
    (5, "link modes"),
    (15, "private flags"),
    (17, "ring sizes"),
    (19, "channels"),
    (21, "interrupt coalescing"),
    (23, "flow control"),
    (25, "energy-efficient Ethernet"),
    (31, "error correction"),
    (50, "RSS tables or keys"),
    (52, "RSS contexts"),
    (53, "RSS contexts"),
];

/// A socket that hears of ethtool's settings, and the family's number.
fn listen_to_ethtool() -> io::Result<(Socket, u16)> {
    let mut socket = Socket::open(NlFamily::Generic)?;
    let (family, group) = genl::group(&mut socket, super::ethtool::FAMILY, "monitor")?;
    let listening = Socket::listen(NlFamily::Generic, 0)?;
    listening.join(group)?;
    Ok((listening, family))
}

/// A change that the kernel announced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The rules of nf_tables, by a program of this name; empty where the kernel does not tell.
    Rules(String),
    /// Queueing disciplines of a device, their classes or filters.
    Qdisc(String),
    /// Offload features of a device.
    Features(String),
    /// Another setting of a device's card, named in words.
    Card(String, &'static str),
    /// XDP programs of a device.
    Xdp(String),
    /// Rules of the old iptables, in a table of this name.
    OldRules(String),
    /// A device's MTU, bridge, length of its queue, or whether it is up.
    Device(String),
    /// Which packets take which routing table.
    Policy,
    /// Addresses or routes.
    Routes,
    /// A device that came or went.
    Devices(String),
    /// There were more than the socket's buffer holds.
    TooMany,
}

impl Change {
    /// True if packets may have been forwarded otherwise since.
    #[must_use]
    pub fn is_of_forwarding(&self) -> bool {
        !matches!(self, Self::Routes | Self::Devices(_))
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rules(by) if by.is_empty() => write!(f, "firewall rules (nf_tables)"),
            Self::Rules(by) => write!(f, "firewall rules (nf_tables, by {by})"),
            Self::Qdisc(device) => write!(f, "queueing disciplines of {device}"),
            Self::Features(device) => write!(f, "offload features of {device}"),
            Self::Card(device, what) => write!(f, "{what} of {device}"),
            Self::Xdp(device) => write!(f, "XDP programs of {device}"),
            Self::OldRules(table) => write!(f, "firewall rules ({table})"),
            Self::Device(device) => write!(f, "MTU, bridge, queue length or state of {device}"),
            Self::Policy => write!(f, "routing rules (ip rule)"),
            Self::Routes => write!(f, "addresses or routes"),
            Self::Devices(device) => write!(f, "{device} was made or removed"),
            Self::TooMany => write!(f, "so much that the kernel could not tell all of it"),
        }
    }
}

/// State of a device that forwarding depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    name: String,
    up: bool,
    mtu: Option<u32>,
    master: Option<u32>,
    queue: Option<u32>,
    /// The kernel's own words on its programs.
    xdp: Vec<u8>,
}

impl Link {
    /// All devices of the calling thread's network namespace, by number.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn all() -> io::Result<BTreeMap<u32, Self>> {
        let all = Message::new(RTM_GETLINK, NlmF::empty(), &[0; IFINFOMSG], &Attrs::new());
        let links = Socket::open(NlFamily::Route)?.dump(all)?;
        Ok(links.iter().filter_map(|body| Self::of(body)).collect())
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The change since `then`, if there is one.
    #[must_use]
    pub fn change_since(&self, then: &Self) -> Option<Change> {
        match self == then {
            true => None,
            false if self.xdp != then.xdp => Some(Change::Xdp(self.name.clone())),
            false => Some(Change::Device(self.name.clone())),
        }
    }

    /// Number and state, from a message about a link.
    fn of(body: &[u8]) -> Option<(u32, Self)> {
        let attrs = body.get(IFINFOMSG..)?;
        let number = |kind| attribute(attrs, kind).and_then(|value| u32_at(value, 0));
        let link = Self {
            name: attribute(attrs, IFLA_IFNAME).map(text).unwrap_or_default(),
            up: u32_at(body, 8)? & IFF_UP != 0,
            mtu: number(IFLA_MTU),
            master: number(IFLA_MASTER),
            queue: number(IFLA_TXQLEN),
            xdp: attribute(attrs, IFLA_XDP).unwrap_or_default().to_vec(),
        };
        Some((u32_at(body, 4)?, link))
    }
}

/// Listens to what changes a namespace's set-up, from when it was opened on.
pub struct Monitor {
    sockets: Vec<Socket>,
    links: BTreeMap<u32, Link>,
    /// Number of the ethtool family; no message has the number 0.
    ethtool: u16,
}

impl Monitor {
    /// Listens in the calling thread's network namespace.
    ///
    /// # Errors
    /// What the kernel answered. A kernel without nf_tables has no rules to tell of.
    pub fn open() -> io::Result<Self> {
        let groups = ROUTE_GROUPS.iter().fold(0, |mask, group| mask | 1 << (group - 1));
        let mut sockets = vec![Socket::listen(NlFamily::Route, groups)?];
        match Socket::listen(NlFamily::Netfilter, 1 << (NFNLGRP_NFTABLES - 1)) {
            Ok(socket) => sockets.push(socket),
            Err(error) => log::debug!("nobody tells of nf_tables: {error}"),
        }
        let ethtool = match listen_to_ethtool() {
            Ok((socket, family)) => {
                sockets.push(socket);
                family
            }
            Err(error) => {
                log::debug!("nobody tells of ethtool's settings: {error}");
                0
            }
        };
        // After the sockets listen, so that nothing falls between.
        Ok(Self { sockets, links: Link::all()?, ethtool })
    }

    /// Changes since it was opened, or since they were last asked for; each once.
    #[must_use]
    pub fn seen(&self) -> Vec<Change> {
        let mut found = std::collections::BTreeSet::new();
        for socket in &self.sockets {
            match socket.news() {
                Ok(notices) => found.extend(notices.iter().filter_map(|n| self.change(n))),
                Err(e) if e.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                    found.insert(Change::TooMany);
                }
                Err(e) => log::debug!("changes of the set-up are not known: {e}"),
            }
        }
        found.into_iter().collect()
    }

    fn change(&self, notice: &Notice) -> Option<Change> {
        let body = notice.body.as_slice();
        let named = |index: u32| {
            self.links.get(&index).map_or_else(|| format!("device {index}"), |l| l.name.clone())
        };
        match notice.kind {
            NFT_MSG_NEWGEN => {
                let by = body.get(NFGENMSG..).and_then(|a| attribute(a, NFTA_GEN_PROC_NAME));
                Some(Change::Rules(by.map(text).unwrap_or_default()))
            }
            RTM_NEWLINK | RTM_DELLINK => {
                // A bridge's word on one of its ports is of another family.
                let (index, now) = Link::of(body).filter(|_| body.first() == Some(&0))?;
                let attrs = body.get(IFINFOMSG..)?;
                let event = attribute(attrs, IFLA_EVENT).and_then(|value| u32_at(value, 0));
                match self.links.get(&index) {
                    Some(_) if notice.kind == RTM_DELLINK => Some(Change::Devices(now.name)),
                    None => Some(Change::Devices(now.name)),
                    Some(_) if event == Some(IFLA_EVENT_FEATURES) => {
                        Some(Change::Features(now.name))
                    }
                    Some(then) => now.change_since(then),
                }
            }
            kind if kind == self.ethtool => {
                let (_, what) = CARD.iter().find(|(number, _)| Some(number) == body.first())?;
                let header = attribute(body.get(GENLMSGHDR..)?, ETHTOOL_A_HEADER)?;
                let index = attribute(header, ETHTOOL_A_HEADER_DEV_INDEX);
                let device = named(index.and_then(|value| u32_at(value, 0))?);
                Some(Change::Card(device, what))
            }
            kind if ADDRESSES_AND_ROUTES.contains(&kind) => Some(Change::Routes),
            kind if POLICIES.contains(&kind) => Some(Change::Policy),
            kind if DISCIPLINES.contains(&kind) || CHAINS.contains(&kind) => {
                Some(Change::Qdisc(named(u32_at(body, 4)?)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::netns::NetnsThread;
    use super::super::rtnl::{self, VethEnd};
    use super::*;

    fn notice(kind: u16, header: &[u8], attrs: &Attrs) -> Notice {
        Notice { kind, body: header.iter().chain(attrs.as_slice()).copied().collect() }
    }

    fn about(index: u32, flags: u32) -> Vec<u8> {
        let mut header = vec![0; 4];
        header.extend(index.to_ne_bytes());
        header.extend(flags.to_ne_bytes());
        header.resize(IFINFOMSG, 0);
        header
    }

    #[test]
    fn each_kind_of_news_is_told_by_what_it_is_about() {
        let link = Link { name: "wan0".into(), up: true, mtu: Some(1500), ..Link::default() };
        let links = BTreeMap::from([(7, link)]);
        let monitor = Monitor { sockets: vec![], links, ethtool: 21 };
        let same = Attrs::new().text(IFLA_IFNAME, "wan0").u32(IFLA_MTU, 1500);
        let of = |kind, header: &[u8], attrs: &Attrs| monitor.change(&notice(kind, header, attrs));
        assert_eq!(of(RTM_NEWLINK, &about(7, IFF_UP), &same), None, "carrier, counters");
        let mtu = Attrs::new().text(IFLA_IFNAME, "wan0").u32(IFLA_MTU, 1400);
        let device = Some(Change::Device("wan0".into()));
        assert_eq!(of(RTM_NEWLINK, &about(7, IFF_UP), &mtu), device);
        assert_eq!(of(RTM_NEWLINK, &about(7, 0), &same), device, "down");
        let features = same.clone().u32(IFLA_EVENT, IFLA_EVENT_FEATURES);
        let told = of(RTM_NEWLINK, &about(7, IFF_UP), &features);
        assert_eq!(told, Some(Change::Features("wan0".into())));
        let other = Attrs::new().text(IFLA_IFNAME, "veth1");
        let told = of(RTM_NEWLINK, &about(9, 0), &other);
        assert_eq!(told, Some(Change::Devices("veth1".into())));
        let told = of(36, &about(7, 0), &Attrs::new());
        assert_eq!(told, Some(Change::Qdisc("wan0".into())));
        let by = Attrs::new().text(NFTA_GEN_PROC_NAME, "nft");
        let told = of(NFT_MSG_NEWGEN, &[0; NFGENMSG], &by);
        assert_eq!(told, Some(Change::Rules("nft".into())));
        assert_eq!(of(24, &[], &Attrs::new()), Some(Change::Routes));
        assert_eq!(of(32, &[], &Attrs::new()), Some(Change::Policy));
        let of_card = Attrs::new().nest(1, &Attrs::new().u32(1, 7).text(2, "wan0"));
        assert_eq!(
            of(21, &[17, 1, 0, 0], &of_card),
            Some(Change::Card("wan0".into(), "ring sizes"))
        );
        assert_eq!(of(21, &[27, 1, 0, 0], &of_card), None, "a cable test");
        let xdp = same.clone().nest(IFLA_XDP, &Attrs::new().bytes(2, &[1]).u32(4, 30));
        let told = of(RTM_NEWLINK, &about(7, IFF_UP), &xdp);
        assert_eq!(told, Some(Change::Xdp("wan0".into())));
        assert_eq!(of(RTM_NEWLINK, &[0; 3], &Attrs::new()), None);
        assert_eq!(of(28, &[], &Attrs::new()), None, "neighbours come and go");
    }

    #[test]
    fn the_kernel_tells_what_was_changed_also_when_it_was_put_back() {
        let Ok(netns) = NetnsThread::create() else {
            eprintln!("SKIPPED the_kernel_tells_what_was_changed: no namespace can be made here");
            return;
        };
        let end = |name| VethEnd { name, netns: None };
        netns.run(move || rtnl::create_veth(end("a"), end("b"), 1500)).unwrap().unwrap();
        let monitor = netns.run(Monitor::open).unwrap().unwrap();
        assert_eq!(monitor.seen(), [], "nothing happened");
        let set = |value: &'static str| {
            netns.run(move || std::fs::write("/sys/class/net/a/mtu", value)).unwrap().unwrap();
        };
        set("1400");
        set("1500");
        assert_eq!(monitor.seen(), [Change::Device("a".into())]);
        assert_eq!(monitor.seen(), [], "told once");
    }
}
