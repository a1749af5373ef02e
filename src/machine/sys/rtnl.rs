//! Links, addresses, routes and queueing disciplines through rtnetlink.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, text, u32_at};
use crate::model::feature::Qdisc;
use crate::model::order::{InOrder, OneByOne};

// linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h, linux/veth.h, linux/pkt_sched.h
pub(super) const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
pub(super) const RTM_GETQDISC: u16 = 38;
pub(super) const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
pub(super) const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
pub(super) const IFLA_INFO_KIND: u16 = 1;
pub(super) const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const RTA_DST: u16 = 1;
const RTA_GATEWAY: u16 = 5;
pub(super) const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
pub(super) const TC_H_ROOT: u32 = 0xffff_ffff;
const IFF_UP: u32 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// No duplicate address detection: nobody else is on these links, and it takes two seconds.
const IFA_F_NODAD: u32 = 2;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_UNICAST: u8 = 1;
const IFINFOMSG: usize = 16;
pub(super) const TCMSG: usize = 20;

/// One end of a veth pair.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// Device name.
    pub name: &'a str,
    /// The network namespace it appears in; `None` for the calling thread's.
    pub netns: Option<BorrowedFd<'a>>,
}

/// Creates a veth pair, down, with `mtu` (bytes of an IP packet) and one queue on both ends: newer
/// kernels would give as many queues as CPUs, older ones one, and a lab must not depend on that.
///
/// # Errors
/// EOPNOTSUPP where the kernel has no veth; EEXIST for a name that is taken; EPERM.
pub fn create_veth(near: VethEnd<'_>, far: VethEnd<'_>, mtu: u32) -> io::Result<()> {
    Socket::open(NlFamily::Route)?.ask(new_veth(near, far, mtu)?).map(drop)
}

fn new_veth(near: VethEnd<'_>, far: VethEnd<'_>, mtu: u32) -> io::Result<Message> {
    let none = ifinfomsg(0, 0, 0);
    let peer = Attrs::new().nest_behind(VETH_INFO_PEER, &none, &veth_end(far, mtu)?);
    let info = Attrs::new().text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, &peer);
    let attrs = veth_end(near, mtu)?.nest(IFLA_LINKINFO, &info);
    Ok(Message::new(RTM_NEWLINK, NlmF::CREATE | NlmF::EXCL, &none, &attrs))
}

fn veth_end(end: VethEnd<'_>, mtu: u32) -> io::Result<Attrs> {
    let attrs = Attrs::new()
        .u32(IFLA_MTU, mtu)
        .u32(IFLA_NUM_TX_QUEUES, 1)
        .u32(IFLA_NUM_RX_QUEUES, 1)
        .text(IFLA_IFNAME, end.name);
    Ok(match end.netns {
        Some(fd) => {
            let number = u32::try_from(fd.as_raw_fd()).map_err(|_| Errno::BADF)?;
            attrs.u32(IFLA_NET_NS_FD, number)
        }
        None => attrs,
    })
}

/// Sets a device up.
///
/// # Errors
/// ENODEV for an unknown device; EPERM.
pub fn set_up(device: &str) -> io::Result<()> {
    let attrs = Attrs::new().text(IFLA_IFNAME, device);
    let header = ifinfomsg(0, IFF_UP, IFF_UP);
    let message = Message::new(RTM_NEWLINK, NlmF::empty(), &header, &attrs);
    Socket::open(NlFamily::Route)?.ask(message).map(drop)
}

/// Removes a device (of a veth pair: both ends).
///
/// # Errors
/// ENODEV for an unknown device; EPERM.
pub fn delete(device: &str) -> io::Result<()> {
    let attrs = Attrs::new().text(IFLA_IFNAME, device);
    let message = Message::new(RTM_DELLINK, NlmF::empty(), &ifinfomsg(0, 0, 0), &attrs);
    Socket::open(NlFamily::Route)?.ask(message).map(drop)
}

/// Gives a device an address.
///
/// # Errors
/// ENODEV for an unknown device; EEXIST when it has it already; EPERM.
pub fn add_address(device: &str, address: impl Into<IpAddr>, prefix: u8) -> io::Result<()> {
    let (family, bytes) = octets(address.into());
    let index = index_of(device)?.to_ne_bytes();
    let header: Vec<u8> = [family, prefix, 0, RT_SCOPE_UNIVERSE].into_iter().chain(index).collect();
    let mut attrs = Attrs::new().bytes(IFA_LOCAL, &bytes).bytes(IFA_ADDRESS, &bytes);
    if family == AF_INET6 {
        attrs = attrs.u32(IFA_FLAGS, IFA_F_NODAD);
    }
    let message = Message::new(RTM_NEWADDR, NlmF::CREATE | NlmF::EXCL, &header, &attrs);
    Socket::open(NlFamily::Route)?.ask(message).map(drop)
}

/// Sends packets to everywhere, of the gateway's family, through `gateway`.
///
/// # Errors
/// ENETUNREACH when the gateway is on no network of ours; EEXIST; EPERM.
pub fn add_default_route(gateway: impl Into<IpAddr>) -> io::Result<()> {
    add_route(None, gateway.into())
}

/// Sends packets for a network (`None`: for everywhere) through `gateway`.
///
/// # Errors
/// As [`add_default_route`].
pub fn add_route(to: Option<(IpAddr, u8)>, gateway: IpAddr) -> io::Result<()> {
    let (family, bytes) = octets(gateway);
    #[rustfmt::skip]
    let header = [family, to.map_or(0, |(_, prefix)| prefix), 0, 0, RT_TABLE_MAIN, RTPROT_STATIC,
                  RT_SCOPE_UNIVERSE, RTN_UNICAST, 0, 0, 0, 0];
    let mut attrs = Attrs::new();
    if let Some((network, _)) = to {
        attrs = attrs.bytes(RTA_DST, &octets(network).1);
    }
    let attrs = attrs.bytes(RTA_GATEWAY, &bytes);
    let message = Message::new(RTM_NEWROUTE, NlmF::CREATE | NlmF::EXCL, &header, &attrs);
    Socket::open(NlFamily::Route)?.ask(message).map(drop)
}

fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
    }
}

/// Names of all devices by index, in the calling thread's network namespace.
///
/// # Errors
/// What the kernel answered.
pub fn links() -> io::Result<BTreeMap<u32, String>> {
    let message = Message::new(RTM_GETLINK, NlmF::empty(), &ifinfomsg(0, 0, 0), &Attrs::new());
    let answers = Socket::open(NlFamily::Route)?.dump(message)?;
    Ok(answers.iter().filter_map(|body| link(body)).one_by_one())
}

/// Kinds (`veth`, `vlan`, `bridge`, `wireguard`, ...) of the devices that have one, by name: the
/// virtual ones.
///
/// # Errors
/// What the kernel answered.
pub fn link_kinds() -> io::Result<BTreeMap<String, String>> {
    let message = Message::new(RTM_GETLINK, NlmF::empty(), &ifinfomsg(0, 0, 0), &Attrs::new());
    let answers = Socket::open(NlFamily::Route)?.dump(message)?;
    let kind = |body: &Vec<u8>| {
        let info = attribute(body.get(IFINFOMSG..)?, IFLA_LINKINFO)?;
        Some((link(body)?.1, text(attribute(info, IFLA_INFO_KIND)?)))
    };
    Ok(answers.iter().filter_map(kind).one_by_one())
}

pub(super) fn link(body: &[u8]) -> Option<(u32, String)> {
    let name = attribute(body.get(IFINFOMSG..)?, IFLA_IFNAME)?;
    Some((u32_at(body, 4)?, text(name)))
}

/// Queueing disciplines of all devices in the calling thread's network namespace.
///
/// # Errors
/// What the kernel answered.
pub fn qdiscs() -> io::Result<Vec<Qdisc>> {
    let message = Message::new(RTM_GETQDISC, NlmF::empty(), &[0; TCMSG], &Attrs::new());
    let answers = Socket::open(NlFamily::Route)?.dump(message)?;
    Ok(sort_qdiscs(&answers, &links()?))
}

/// Those at a device's root and, below a root that stands for the hardware queues (mq, mqprio),
/// those of the queues; classes' own and ingress ones steer nothing and are left out.
pub(super) fn sort_qdiscs(answers: &[Vec<u8>], links: &BTreeMap<u32, String>) -> Vec<Qdisc> {
    let all: Vec<TcMsg> = answers.iter().filter_map(|body| TcMsg::read(body)).collect();
    // A device has one root; classful ones below it can be many.
    let mut roots: BTreeMap<u32, &TcMsg> = BTreeMap::new();
    for root in all.iter().filter(|q| q.parent == TC_H_ROOT) {
        roots.entry(root.index).or_insert(root);
    }
    let queue = |q: &TcMsg| match q.parent {
        TC_H_ROOT => Some(None),
        parent => {
            let root = roots.get(&q.index)?;
            let class = parent & 0xffff;
            let below = root.kind.starts_with("mq") && parent & 0xffff_0000 == root.handle;
            (below && class > 0).then(|| Some(class - 1))
        }
    };
    let named = |q: &TcMsg| {
        let device = links.get(&q.index)?.clone();
        let queue = queue(q)?;
        // Those of the queues are not set one by one.
        let root = queue.is_none();
        Some(Qdisc {
            device,
            kind: q.kind.clone(),
            queue,
            handle: root.then_some(q.handle),
            options: q.options.clone().filter(|_| root && q.handle != 0),
        })
    };
    let mut found: Vec<Qdisc> = all.iter().filter_map(named).collect();
    found.order_by(|a, b| (&a.device, a.queue).cmp(&(&b.device, b.queue)));
    found
}

struct TcMsg {
    index: u32,
    handle: u32,
    parent: u32,
    kind: String,
    options: Option<String>,
}

impl TcMsg {
    fn read(body: &[u8]) -> Option<Self> {
        Some(Self {
            index: u32_at(body, 4)?,
            handle: u32_at(body, 8)?,
            parent: u32_at(body, 12)?,
            kind: text(attribute(body.get(TCMSG..)?, TCA_KIND)?),
            options: attribute(body.get(TCMSG..)?, TCA_OPTIONS)
                .map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        })
    }
}

pub(super) fn index_of(device: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    Ok(rustix::net::netdevice::name_to_index(&socket, device)?)
}

/// `struct ifinfomsg`; index 0 leaves the device to IFLA_IFNAME.
pub(super) fn ifinfomsg(index: u32, flags: u32, change: u32) -> [u8; IFINFOMSG] {
    let mut header = [0; IFINFOMSG];
    for (at, value) in header.chunks_exact_mut(4).skip(1).zip([index, flags, change]) {
        at.copy_from_slice(&value.to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of what `ip link add a0 mtu 1400 numtxqueues 1 numrxqueues 1 type veth peer name
    /// b0 mtu 1400 numtxqueues 1 numrxqueues 1` sends (iproute2 of Debian, `strace -e write=all
    /// -e trace=sendmsg`), but for the bits that mark nesting and the NUL behind `veth`, which
    /// iproute2 leaves out and the kernel takes either way.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_veth_pair_is_asked_for_as_ip_link_does() {
        let end = |name| VethEnd { name, netns: None };
        let message = new_veth(end("a0"), end("b0"), 1400).unwrap();
        assert_eq!(message.kind, 16);
        assert_eq!(message.flags.bits(), 0x601, "REQUEST | EXCL | CREATE");
        let expected = [
            &[0; 16],
            b"\x08\0\x04\0\x78\x05\0\0\x08\0\x1f\0\x01\0\0\0".as_slice(),
            b"\x08\0\x20\0\x01\0\0\0\x07\0\x03\0a0\0\0",
            b"\x48\0\x12\x80\x09\0\x01\0veth\0\0\0\0\x38\0\x02\x80\x34\0\x01\x80",
            &[0; 16],
            b"\x08\0\x04\0\x78\x05\0\0\x08\0\x1f\0\x01\0\0\0",
            b"\x08\0\x20\0\x01\0\0\0\x07\0\x03\0b0\0\0",
        ];
        assert_eq!(message.body, expected.concat());
    }

    fn tc(index: u32, handle: u32, parent: u32, kind: &str) -> Vec<u8> {
        let mut body = vec![0; 4];
        for value in [index, handle, parent, 0] {
            body.extend(value.to_ne_bytes());
        }
        body.extend(Attrs::new().text(TCA_KIND, kind).as_slice());
        body
    }

    /// As `tc qdisc show` prints a multi-queue device: `mq 8001: root`, `fq_codel 0: parent
    /// 8001:2`, an ingress one at ffff:fff1, and htb's inner class.
    #[test]
    fn queue_disciplines_keep_their_queue_and_inner_ones_are_left_out() {
        let answers = [
            tc(2, 0x8001_0000, TC_H_ROOT, "mq"),
            tc(2, 0, 0x8001_0002, "fq_codel"),
            tc(2, 0, 0x8001_0001, "pfifo_fast"),
            tc(2, 0xffff_0000, 0xffff_fff1, "clsact"),
            tc(3, 0x1_0000, TC_H_ROOT, "htb"),
            tc(3, 0x10_0000, 0x1_0010, "sfq"),
            tc(9, 0, TC_H_ROOT, "noqueue"),
            vec![1, 2, 3],
        ];
        let links = BTreeMap::from([(2, "eth0".to_owned()), (3, "eth1".to_owned())]);
        let found = sort_qdiscs(&answers, &links);
        let found: Vec<_> =
            found.iter().map(|q| (q.device.as_str(), q.kind.as_str(), q.queue)).collect();
        assert_eq!(
            found,
            [
                ("eth0", "mq", None),
                ("eth0", "pfifo_fast", Some(0)),
                ("eth0", "fq_codel", Some(1)),
                ("eth1", "htb", None),
            ]
        );
    }

    #[test]
    fn the_loopback_device_is_listed_and_unknown_ones_are_refused() {
        assert!(links().unwrap().values().any(|name| name == "lo"));
        qdiscs().unwrap();
        assert_eq!(index_of("no-such-dev").unwrap_err().raw_os_error(), Some(19));
    }
}
