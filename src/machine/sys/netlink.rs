//! Netlink messages: framing, attributes, one request or batch and its answers.
//!
//! `rustix` gives the socket. Attributes are built here, because nf_tables nests them five deep and
//! its transactions put many messages into one send, for which the typed messages of netlink crates
//! have no form; one encoder then serves rtnetlink, ethtool and nf_tables alike.

use std::io;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::socket::{ask_for_extended_acks, join_group};

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// NLMSG_ERROR: a refusal, or with code 0 an acknowledgement.
const NLMSG_ERROR: u16 = 2;
/// NLMSG_DONE: the end of a dump.
const NLMSG_DONE: u16 = 3;
/// NLMSGERR_ATTR_MSG: the kernel's own words on a refusal.
const NLMSGERR_ATTR_MSG: u16 = 1;
/// NLA_F_NESTED; the bit above it is NLA_F_NET_BYTEORDER.
const NLA_F_NESTED: u16 = 0x8000;
const NLA_TYPE_MASK: u16 = 0x3fff;
/// A dump is written in pieces of at most 32 KiB (af_netlink.c, netlink_recvmsg), and a refusal
/// repeats one message of ours, which stay below this.
const RECEIVE: usize = 64 << 10;
/// A dump that changes happened under is asked for again this many times.
const DUMP_TRIES: u32 = 5;

/// Which part of the kernel a socket talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NlFamily {
    /// Links, addresses, routes, queueing disciplines.
    Route,
    /// Families that are looked up by name (ethtool, netdev).
    Generic,
    /// nf_tables.
    Netfilter,
    /// Nobody, for tests.
    #[cfg(test)]
    Unused,
}

/// Flags of a message (include/uapi/linux/netlink.h); a few bits mean something else in answers
/// and in acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NlmF(u16);

impl NlmF {
    pub(super) const REQUEST: Self = Self(0x1);
    pub(super) const ACK: Self = Self(0x4);
    /// In an answer: the list changed while it was read.
    pub(super) const DUMP_INTR: Self = Self(0x10);
    pub(super) const DUMP: Self = Self(0x300);
    pub(super) const REPLACE: Self = Self(0x100);
    pub(super) const EXCL: Self = Self(0x200);
    pub(super) const CREATE: Self = Self(0x400);
    pub(super) const APPEND: Self = Self(0x800);
    /// In an acknowledgement: the refused message is not repeated in it.
    pub(super) const CAPPED: Self = Self(0x100);
    /// In an acknowledgement: attributes follow.
    pub(super) const ACK_TLVS: Self = Self(0x200);

    pub(super) fn empty() -> Self {
        Self(0)
    }

    /// As they go over the socket.
    pub(super) fn bits(self) -> u16 {
        self.0
    }

    fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for NlmF {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for NlmF {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Attributes under construction. A value too long for its 16-bit length gets a wrong length,
/// which the kernel refuses (EINVAL); no caller has values near that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attrs(Vec<u8>);

impl Attrs {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Any value.
    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let len = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(aligned(self.0.len()), 0);
        self
    }

    /// A number in the machine's byte order.
    pub(super) fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// A number in network byte order, as nf_tables wants it.
    pub(super) fn be32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// A NUL-terminated string.
    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// An attribute that says something by being there.
    pub(super) fn flag(self, kind: u16) -> Self {
        self.bytes(kind, &[])
    }

    /// Attributes inside an attribute.
    pub(super) fn nest(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | NLA_F_NESTED, &inner.0)
    }

    /// Attributes inside an attribute, behind a structure of the family.
    pub(super) fn nest_behind(self, kind: u16, header: &[u8], inner: &Self) -> Self {
        let value: Vec<u8> = header.iter().chain(&inner.0).copied().collect();
        self.bytes(kind | NLA_F_NESTED, &value)
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// Attributes as received; what is cut short ends the walk.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & NLA_TYPE_MASK;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of that kind.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, value)| value)
}

/// A NUL-terminated string value.
pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// A message: its type, its flags, and the family's structure followed by attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) flags: NlmF,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn new(kind: u16, flags: NlmF, header: &[u8], attrs: &Attrs) -> Self {
        let body = header.iter().chain(attrs.as_slice()).copied().collect();
        Self { kind, flags: NlmF::REQUEST | flags, body }
    }

    /// Appends it to `out` as it goes over the socket.
    pub(super) fn encode(&self, sequence: u32, out: &mut Vec<u8>) {
        let len = u32::try_from(HEADER + self.body.len()).unwrap_or(u32::MAX);
        out.extend(len.to_ne_bytes());
        out.extend(self.kind.to_ne_bytes());
        out.extend(self.flags.bits().to_ne_bytes());
        out.extend(sequence.to_ne_bytes());
        out.extend(0_u32.to_ne_bytes());
        out.extend(&self.body);
        out.resize(aligned(out.len()), 0);
    }
}

/// A message that nobody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) kind: u16,
    pub(super) body: Vec<u8>,
}

/// The kernel refused a message of a batch.
#[derive(Debug)]
pub(super) struct Refused {
    /// Which message, counted from 0.
    pub(super) index: usize,
    /// Why.
    pub(super) error: io::Error,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self { index: 0, error }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A netlink socket of one family, in the network namespace of the thread that opened it.
pub(super) struct Socket {
    socket: OwnedFd,
    sequence: u32,
}

impl Socket {
    /// # Errors
    /// EPROTONOSUPPORT where the kernel lacks the family.
    pub(super) fn open(family: NlFamily) -> io::Result<Self> {
        Self::listen(family, 0)
    }

    /// A socket that also gets what is sent to `groups`, a mask.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub(super) fn listen(family: NlFamily, groups: u32) -> io::Result<Self> {
        let protocol = match family {
            NlFamily::Route => None,
            NlFamily::Generic => Some(netlink::GENERIC),
            NlFamily::Netfilter => Some(netlink::NETFILTER),
            #[cfg(test)]
            NlFamily::Unused => Some(netlink::UNUSED),
        };
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        // Kernels before 4.12 know no extended acknowledgement; then refusals just have no words.
        if let Err(error) = ask_for_extended_acks(&socket) {
            log::debug!("netlink without extended acknowledgements: {error}");
        }
        Ok(Self { socket, sequence: 1 })
    }

    /// Takes the messages to one more group, of any number.
    ///
    /// # Errors
    /// ENOENT where there is no such group.
    pub(super) fn join(&self, group: u32) -> io::Result<()> {
        join_group(&self.socket, group)
    }

    /// Messages that came by themselves since the last call.
    ///
    /// # Errors
    /// ENOBUFS if there were more than the socket's buffer holds.
    pub(super) fn news(&self) -> io::Result<Vec<Notice>> {
        let mut notices = Vec::new();
        let mut buffer = vec![0; RECEIVE];
        loop {
            let length = match retry(|| Ok(recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT)?))
            {
                Ok((_, length)) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(notices),
                Err(error) => return Err(error),
            };
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let (Some(length), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let Some(body) = rest.get(HEADER..length) else { break };
                notices.push(Notice { kind, body: body.to_vec() });
                rest = rest.get(aligned(length)..).unwrap_or_default();
            }
        }
    }

    /// Sends one request; the bodies of the answers, in order.
    ///
    /// # Errors
    /// What the kernel answered.
    pub(super) fn ask(&mut self, mut message: Message) -> io::Result<Vec<Vec<u8>>> {
        message.flags |= NlmF::ACK;
        self.exchange(std::slice::from_ref(&message)).map(|a| a.bodies).map_err(|r| r.error)
    }

    /// Lists things; the bodies of the answers, in order.
    ///
    /// # Errors
    /// What the kernel answered; EINTR when the list changed under every attempt.
    pub(super) fn dump(&mut self, mut message: Message) -> io::Result<Vec<Vec<u8>>> {
        message.flags |= NlmF::DUMP;
        for _ in 0..DUMP_TRIES {
            let answers =
                self.exchange(std::slice::from_ref(&message)).map_err(|refused| refused.error)?;
            if !answers.interrupted {
                return Ok(answers.bodies);
            }
        }
        Err(io::Error::from_raw_os_error(rustix::io::Errno::INTR.raw_os_error()))
    }

    /// Lists things, of which `each` sees the bodies, `most` at most; whether that was all. Nothing
    /// else can be asked through the socket when it was not.
    ///
    /// # Errors
    /// What the kernel answered.
    pub(super) fn dump_some(
        self,
        mut message: Message,
        most: usize,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        message.flags |= NlmF::DUMP;
        let mut bytes = Vec::new();
        message.encode(self.sequence, &mut bytes);
        retry(|| Ok(send(&self.socket, &bytes, SendFlags::empty())?))?;
        let mut buffer = vec![0; RECEIVE];
        let mut seen = 0;
        loop {
            let (_, len) = retry(|| Ok(recv(&self.socket, &mut *buffer, RecvFlags::empty())?))?;
            let received = buffer.get(..len).unwrap_or_default();
            let mut answers = Answers::default();
            let end = answers.take(received, self.sequence, self.sequence).map_err(|r| r.error)?;
            answers.bodies.iter().take(most - seen).for_each(|body| each(body));
            seen = most.min(seen + answers.bodies.len());
            if end || seen == most {
                return Ok(end);
            }
        }
    }

    /// Sends messages as one, and reads until the first refusal or the end of the answers to
    /// `last`, a message that asks for an acknowledgement.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) fn transact(&mut self, messages: &[Message]) -> Result<(), Refused> {
        self.exchange(messages).map(drop)
    }

    fn exchange(&mut self, messages: &[Message]) -> Result<Answers, Refused> {
        let first = self.sequence;
        let mut bytes = Vec::new();
        let mut last = first;
        for message in messages {
            message.encode(self.sequence, &mut bytes);
            if message.flags.contains(NlmF::ACK) || message.flags.contains(NlmF::DUMP) {
                last = self.sequence;
            }
            self.sequence = self.sequence.wrapping_add(1);
        }
        retry(|| Ok(send(&self.socket, &bytes, SendFlags::empty())?))?;
        let mut answers = Answers::default();
        let mut buffer = vec![0; RECEIVE];
        loop {
            let (_, len) = retry(|| Ok(recv(&self.socket, &mut *buffer, RecvFlags::empty())?))?;
            let received = buffer.get(..len).unwrap_or_default();
            if answers.take(received, first, last)? {
                return Ok(answers);
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) bodies: Vec<Vec<u8>>,
    interrupted: bool,
}

impl Answers {
    /// Takes in one datagram; whether it held the end.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        first: u32,
        last: u32,
    ) -> Result<bool, Refused> {
        while let (Some(len), Some(kind), Some(flags), Some(sequence)) =
            (u32_at(bytes, 0), u16_at(bytes, 4), u16_at(bytes, 6), u32_at(bytes, 8))
        {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let Some(body) = bytes.get(HEADER..len) else {
                return Err(io::Error::from(io::ErrorKind::InvalidData).into());
            };
            bytes = bytes.get(aligned(len)..).unwrap_or_default();
            let flags = NlmF(flags);
            self.interrupted |= flags.contains(NlmF::DUMP_INTR);
            match kind {
                // A dump that fails half-way says so in the code of its DONE.
                NLMSG_ERROR | NLMSG_DONE => {
                    let code = i32_at(body, 0).unwrap_or(0);
                    if code != 0 {
                        let index = usize::try_from(sequence.wrapping_sub(first)).unwrap_or(0);
                        if let Some(words) = words(body, flags) {
                            log::debug!("netlink: message {index} refused: {words}");
                        }
                        let error = io::Error::from_raw_os_error(code.wrapping_neg());
                        return Err(Refused { index, error });
                    }
                    if sequence == last {
                        return Ok(true);
                    }
                }
                _ => self.bodies.push(body.to_vec()),
            }
        }
        Ok(false)
    }
}

/// Message of the kernel beside the code of a refusal: the attributes stand behind the code and
/// the refused message (only its header when the answer is capped).
fn words(body: &[u8], flags: NlmF) -> Option<String> {
    if !flags.contains(NlmF::ACK_TLVS) {
        return None;
    }
    let refused = if flags.contains(NlmF::CAPPED) {
        HEADER
    } else {
        aligned(usize::try_from(u32_at(body, 4)?).ok()?)
    };
    attribute(body.get(4 + refused..)?, NLMSGERR_ATTR_MSG).map(text)
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_to_four_and_read_back() {
        let attrs = Attrs::new().text(1, "wan0").flag(2).nest(3, &Attrs::new().be32(4, 7));
        // netlink(7): length without padding, type, value, padding.
        #[cfg(target_endian = "little")]
        assert_eq!(
            attrs.as_slice(),
            b"\x09\0\x01\0wan0\0\0\0\0\x04\0\x02\0\x0c\0\x03\x80\x08\0\x04\0\0\0\0\x07"
        );
        let read: Vec<_> = attributes(attrs.as_slice()).collect();
        assert_eq!(read.len(), 3);
        assert_eq!(text(read[0].1), "wan0");
        assert_eq!(attribute(read[2].1, 4), Some(&[0, 0, 0, 7][..]));
    }

    #[test]
    fn attributes_cut_short_end_the_walk() {
        let attrs = Attrs::new().u32(1, 1).u32(2, 2);
        for cut in 0..attrs.as_slice().len() {
            assert!(attributes(&attrs.as_slice()[..cut]).count() < 2);
        }
        assert_eq!(attributes(&[0, 0, 1, 0]).count(), 0, "a length below 4 must not loop");
    }

    #[test]
    fn a_refusal_names_the_message_and_the_reason() {
        let request = Message::new(16, NlmF::ACK, &[], &Attrs::new());
        let mut refused = Vec::new();
        request.encode(12, &mut refused);
        let body = (-1_i32).to_ne_bytes().into_iter().chain(refused).collect::<Vec<_>>();
        let mut bytes = Vec::new();
        Message { kind: NLMSG_ERROR, flags: NlmF::empty(), body }.encode(12, &mut bytes);
        let refused = Answers::default().take(&bytes, 10, 14).unwrap_err();
        assert_eq!(refused.index, 2);
        assert_eq!(refused.error.raw_os_error(), Some(1));
    }

    #[test]
    fn an_unknown_family_is_an_error() {
        let error = Socket::open(NlFamily::Unused).err().unwrap();
        assert!(error.raw_os_error().is_some());
    }
}
