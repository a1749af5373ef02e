//! Changing a card's settings: through the ethtool netlink family, on kernels before 5.6 and for
//! the RSS table by the ioctl.

use std::io;

use rustix::io::Errno;

use super::ethtool::{FAMILY, header};
use super::ethtool_ioctl::{FIXED, GCHANNELS, GCOALESCE, GRINGPARAM, GRXFHINDIR, SRXFHINDIR, ask};
use super::genl;
use super::netlink::{Attrs, NlFamily, Socket};
use super::nic::{self, CHANNELS, COALESCE, HEADER, RINGS};

/// A group of numbers of one message and one ioctl.
struct Group {
    /// linux/ethtool_netlink.h; the attributes are numbered from 2 on in the order of the names.
    message: u8,
    names: &'static [&'static str],
    /// linux/ethtool.h; the command that sets is the next number.
    get: u32,
}

const RINGS_SET: Group = Group { message: 16, names: RINGS, get: GRINGPARAM };
const CHANNELS_SET: Group = Group { message: 18, names: CHANNELS, get: GCHANNELS };
const COALESCE_SET: Group = Group { message: 20, names: COALESCE, get: GCOALESCE };

/// Sets one number of interrupt moderation, by the names of [`crate::model::nic::NicSettings`].
///
/// # Errors
/// EOPNOTSUPP where the driver can't; EINVAL for a number that it does not take; ENODEV; EPERM.
pub fn coalesce(device: &str, name: &str, value: u32) -> io::Result<()> {
    set(device, &COALESCE_SET, name, value)
}

/// Sets the number of descriptors of the `rx` or `tx` rings. Most drivers stop the card for that.
///
/// # Errors
/// As [`coalesce`].
pub fn ring(device: &str, name: &str, value: u32) -> io::Result<()> {
    set(device, &RINGS_SET, name, value)
}

/// Sets the number of `combined`, `rx` or `tx` queues. Interrupt lines are made anew by that.
///
/// # Errors
/// As [`coalesce`]; EINVAL too while the RSS table names a queue that would go.
pub fn channels(device: &str, name: &str, value: u32) -> io::Result<()> {
    set(device, &CHANNELS_SET, name, value)
}

fn set(device: &str, group: &Group, name: &str, value: u32) -> io::Result<()> {
    let place = group.names.iter().position(|n| *n == name).ok_or(Errno::INVAL)?;
    match by_netlink(device, group, name, place, value) {
        // No such family (before 5.6), or no such message in it: the old way says which.
        Err(e) if e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
            by_ioctl(device, group, place, value)
        }
        other => other,
    }
}

fn by_netlink(device: &str, group: &Group, name: &str, place: usize, value: u32) -> io::Result<()> {
    let mut socket = Socket::open(NlFamily::Generic)?;
    let family = genl::family(&mut socket, FAMILY)?;
    let body = body(device, name, place, value)?;
    socket.ask(genl::request(family, group.message, &body)).map(drop)
}

fn body(device: &str, name: &str, place: usize, value: u32) -> io::Result<Attrs> {
    let kind = u16::try_from(place + 2).map_err(|_| Errno::INVAL)?;
    let attrs = Attrs::new().nest(HEADER, &header(device));
    Ok(if name.starts_with("use-") {
        attrs.bytes(kind, &[u8::from(value != 0)])
    } else {
        attrs.u32(kind, value)
    })
}

/// The structure is read, one number of it changed, and all of it written.
fn by_ioctl(device: &str, group: &Group, place: usize, value: u32) -> io::Result<()> {
    let mut words = [0; FIXED];
    ask(device, group.get, &mut words)?;
    // Behind the command stand the numbers, in the order of the attributes.
    *words.get_mut(place + 1).ok_or(Errno::INVAL)? = value;
    ask(device, group.get + 1, &mut words)
}

/// How hash buckets are given to queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spread {
    /// In turn over so many queues.
    Equal(u32),
    /// One by one.
    Table(Vec<u32>),
}

/// Sets the RSS indirection table. An equal spread over all receive queues is the driver's own
/// again where that is what the driver does: only then may the number of queues change later
/// without the table being in the way (net/ethtool/common.c, netif_is_rxfh_configured).
///
/// # Errors
/// EOPNOTSUPP where the driver can't; EINVAL for a queue that is not there or a table of another
/// length; ENODEV; EPERM.
pub fn rss(device: &str, spread: &Spread) -> io::Result<()> {
    let mut words = vec![0; FIXED];
    ask(device, GRXFHINDIR, &mut words)?;
    let size = words.get(1).copied().unwrap_or(0);
    if size == 0 {
        return Err(Errno::OPNOTSUPP.into());
    }
    let table: Vec<u32> = match spread {
        Spread::Equal(0) => return Err(Errno::INVAL.into()),
        Spread::Equal(queues) => (0..*queues).cycle().zip(0..size).map(|(q, _)| q).collect(),
        Spread::Table(table) if u32::try_from(table.len()) == Ok(size) => table.clone(),
        Spread::Table(_) => return Err(Errno::INVAL.into()),
    };
    if matches!(spread, Spread::Equal(_)) {
        // A size of 0 asks for the driver's own (linux/ethtool.h, struct ethtool_rxfh_indir).
        let mut reset = vec![0; FIXED];
        if ask(device, SRXFHINDIR, &mut reset).is_ok()
            && nic::table(device)?.is_some_and(|rss| rss.table == table)
        {
            return Ok(());
        }
    }
    let mut words: Vec<u32> = [0, size].into_iter().chain(table).collect();
    words.resize(words.len().max(FIXED), 0);
    ask(device, SRXFHINDIR, &mut words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Derived from Documentation/networking/ethtool-netlink.rst, COALESCE_SET: `tx-usecs` is
    /// attribute 6, a u32; `use-adaptive-rx` 11, a u8.
    #[test]
    #[cfg(target_endian = "little")]
    fn numbers_go_out_in_the_width_that_the_kernel_checks() {
        let place = |name| COALESCE.iter().position(|n| *n == name).unwrap();
        let of = |name, value| body("lan0", name, place(name), value).unwrap();
        let head = b"\x10\0\x01\x80\x09\0\x02\0lan0\0\0\0\0".as_slice();
        assert_eq!(of("tx-usecs", 7).as_slice(), [head, b"\x08\0\x06\0\x07\0\0\0"].concat());
        assert_eq!(of("use-adaptive-rx", 1).as_slice(), [head, b"\x05\0\x0b\0\x01\0\0\0"].concat());
    }

    #[test]
    fn loopback_has_nothing_of_this_and_nobody_else_does_either() {
        let errno = |r: io::Result<()>| r.unwrap_err().raw_os_error().unwrap();
        assert_eq!(errno(ring("lo", "rx", 64)), Errno::OPNOTSUPP.raw_os_error());
        assert_eq!(errno(rss("lo", &Spread::Equal(1))), Errno::OPNOTSUPP.raw_os_error());
        assert_eq!(errno(channels("no-such-dev", "rx", 1)), Errno::NODEV.raw_os_error());
        assert_eq!(errno(coalesce("lo", "no-such-name", 1)), Errno::INVAL.raw_os_error());
    }
}
