//! The old ethtool interface, an ioctl: what it alone can tell (drivers' own counters), and what
//! kernels before 5.6 have no netlink messages for (offload features).

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;

use rustix::io::Errno;

use super::netlink::text;
use super::nic_counters;
use crate::model::feature::{FeatureState, Features};
use crate::model::nic::Numbers;
use crate::model::order::OneByOne;

// linux/sockios.h, linux/ethtool.h
const SIOCETHTOOL: rustix::ioctl::Opcode = 0x8946;
pub(super) const GDRVINFO: u32 = 0x3;
pub(super) const GCOALESCE: u32 = 0xe;
const SCOALESCE: u32 = 0xf;
pub(super) const GRINGPARAM: u32 = 0x10;
const SRINGPARAM: u32 = 0x11;
pub(super) const GPAUSEPARAM: u32 = 0x12;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GRXCLSRLCNT: u32 = 0x2e;
const GSSET_INFO: u32 = 0x37;
pub(super) const GRXFHINDIR: u32 = 0x38;
pub(super) const SRXFHINDIR: u32 = 0x39;
const GFEATURES: u32 = 0x3a;
pub(super) const GCHANNELS: u32 = 0x3c;
const SCHANNELS: u32 = 0x3d;
/// Kernel 3.16 and later: the RSS table with its key.
pub(super) const GRSSH: u32 = 0x46;
/// String sets (enum ethtool_stringset).
const SS_STATS: u32 = 1;
const SS_FEATURES: u32 = 4;
/// ETH_GSTRING_LEN, in words.
const STRING: usize = 8;
/// Words of the largest structure of fixed size: 196 bytes of ethtool_drvinfo, 192 of
/// ethtool_rxnfc.
pub(super) const FIXED: usize = 49;
/// Words of `struct ethtool_rxfh` before the table.
pub(super) const RSS_HEAD: usize = 6;
/// More names than this are not asked for; cards with hundreds of queues have some thousands.
const MOST_STRINGS: usize = 16_384;
/// Names that there is room for. The kernel writes all that a driver has *now*, whatever was asked
/// for (net/ethtool/ioctl.c, ethtool_get_strings and ethtool_get_stats, before 6.19), and channels
/// may be added between the question how many there are and the one for them. What is not written
/// is never touched and so costs no memory.
const ROOM: usize = 4 * MOST_STRINGS;

/// `struct ifreq` with a pointer in its union, and at least as long as the kernel's.
#[repr(C)]
struct IfReq {
    name: [u8; 16],
    data: *mut c_void,
    rest: [usize; 3],
}

/// Words that the kernel may write, or read for a command that sets; `None` for a command that is
/// not one of the above.
fn touched(command: u32, words: &[u32]) -> Option<usize> {
    let second = words.get(1).map_or(0, |n| *n as usize);
    match command {
        GDRVINFO | GCOALESCE | SCOALESCE | GRINGPARAM | SRINGPARAM | GPAUSEPARAM | GCHANNELS
        | SCHANNELS | GRXCLSRLCNT => Some(FIXED),
        // As many entries as the second word says; with another number the kernel answers EINVAL.
        GRXFHINDIR | SRXFHINDIR => Some(FIXED.max(second.checked_add(2)?)),
        // A head of six words, entries and bytes of key as many as it asks for (struct
        // ethtool_rxfh; net/ethtool/ioctl.c, ethtool_get_rxfh).
        GRSSH => {
            let key = words.get(3).map_or(0, |n| *n as usize).div_ceil(4);
            let entries = words.get(2).map_or(0, |n| *n as usize);
            Some(entries.checked_add(key)?.checked_add(RSS_HEAD)?)
        }
        // A number for each bit of a mask of 64.
        GSSET_INFO => Some(4 + 64),
        GSTRINGS => Some(3 + ROOM * STRING),
        GSTATS => Some(2 + ROOM * 2),
        // Four words for each of the blocks that the second word says.
        GFEATURES => Some(second.checked_mul(4)?.checked_add(2)?),
        _ => None,
    }
}

/// Asks, or sets by, one of the commands above; `words` begins with what the command takes, its first word is
/// filled in here.
///
/// # Errors
/// EINVAL for too little room, ENODEV for an unknown device, EOPNOTSUPP where the driver has no
/// such thing.
pub(super) fn ask(device: &str, command: u32, words: &mut [u32]) -> io::Result<()> {
    let mut name = [0; 16];
    let bytes = device.as_bytes();
    // IFNAMSIZ counts the NUL.
    if bytes.len() >= name.len() {
        return Err(Errno::NODEV.into());
    }
    for (to, from) in name.iter_mut().zip(bytes) {
        *to = *from;
    }
    if touched(command, words).is_none_or(|most| words.len() < most) {
        return Err(Errno::INVAL.into());
    }
    match words.first_mut() {
        Some(first) => *first = command,
        None => return Err(Errno::INVAL.into()),
    }
    let mut request = IfReq { name, data: words.as_mut_ptr().cast(), rest: [0; 3] };
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    #[expect(unsafe_code, reason = "the old ethtool interface is an ioctl")]
    // SAFETY: SIOCETHTOOL reads a struct ifreq, which `request` is a longer form of, and reads or
    // writes the command's structure behind its pointer. `words` was checked to have room for all that
    // `touched` says the command may read or write, and outlives the call; for GSTRINGS and GSTATS see
    // `ROOM`.
    unsafe {
        rustix::ioctl::ioctl(
            &socket,
            rustix::ioctl::Updater::<SIOCETHTOOL, IfReq>::new(&mut request),
        )?;
    }
    Ok(())
}

/// How many names a set has; 0 where the device has no such set.
fn count(device: &str, set: u32) -> io::Result<usize> {
    let mut words = [0; 4 + 64];
    // The mask is 64 bits wide, after two words: its low half comes first where bytes do.
    let low = if cfg!(target_endian = "little") { 2 } else { 3 };
    if let Some(mask) = words.get_mut(low) {
        *mask = 1 << set;
    }
    ask(device, GSSET_INFO, &mut words)?;
    // The kernel clears the bits of sets that are not there.
    let there = words.get(low).is_some_and(|mask| *mask != 0);
    let count = words.get(4).filter(|_| there).map_or(0, |n| *n as usize);
    Ok(if count > MOST_STRINGS { 0 } else { count })
}

fn strings(device: &str, set: u32, count: usize) -> io::Result<Vec<String>> {
    let mut words = vec![0; 3 + ROOM * STRING];
    if let Some([to_set, to_count]) = words.get_mut(1..3) {
        (*to_set, *to_count) = (set, u32::try_from(count).unwrap_or(0));
    }
    ask(device, GSTRINGS, &mut words)?;
    let told = words.get(2).map_or(0, |n| *n as usize).min(ROOM);
    let names = words.get(3..).unwrap_or_default().chunks_exact(STRING).take(told);
    Ok(names
        .map(|name| {
            let bytes: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).collect();
            text(&bytes).trim().to_owned()
        })
        .collect())
}

/// The driver's own counters of loss that are not zero; those of single queues summed
/// (see `nic_counters`). Empty where the driver counts nothing.
///
/// # Errors
/// ENODEV for an unknown device.
pub fn counters(device: &str) -> io::Result<Numbers> {
    Ok(nic_counters::losses(own_counters(device)?.into_iter()))
}

/// All that a driver counts, by its names and in its order; empty where it counts nothing.
///
/// # Errors
/// ENODEV for an unknown device.
pub fn own_counters(device: &str) -> io::Result<Vec<(String, u64)>> {
    let none = |e: &io::Error| e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error());
    match count(device, SS_STATS) {
        Ok(0) => Ok(Vec::new()),
        Err(e) if none(&e) => Ok(Vec::new()),
        asked => statistics(device, asked?),
    }
}

/// All that a driver counts, in its order.
fn statistics(device: &str, asked: usize) -> io::Result<Vec<(String, u64)>> {
    let names = strings(device, SS_STATS, asked)?;
    let mut words = vec![0; 2 + ROOM * 2];
    if let Some(room) = words.get_mut(1) {
        *room = u32::try_from(names.len()).unwrap_or(0);
    }
    ask(device, GSTATS, &mut words)?;
    if words.get(1).is_none_or(|n| *n as usize != names.len()) {
        // Channels came or went between the two questions: the names are not those of the values.
        return Err(Errno::AGAIN.into());
    }
    let values = words.get(2..).unwrap_or_default().chunks_exact(2).map(|pair| match pair {
        [first, second] => {
            let [a, b] = [first.to_ne_bytes(), second.to_ne_bytes()];
            let [a0, a1, a2, a3] = a;
            let [b0, b1, b2, b3] = b;
            u64::from_ne_bytes([a0, a1, a2, a3, b0, b1, b2, b3])
        }
        _ => 0,
    });
    Ok(names.into_iter().zip(values).collect())
}

/// Rules that steer flows to queues (n-tuple filters): `rules` there are, `rules-max` there is
/// room for. `None` where the driver has none.
pub(super) fn ntuple(device: &str) -> Option<Numbers> {
    let mut words = [0; FIXED];
    ask(device, GRXCLSRLCNT, &mut words).ok()?;
    // struct ethtool_rxnfc: command, flow type, 64 bits of data (the size of the table, and in bit
    // 31 RX_CLS_LOC_SPECIAL), a flow specification that starts at a multiple of 8 and whose length
    // depends on the alignment of 64 bits, and the number of rules.
    let low = if cfg!(target_endian = "little") { 2 } else { 3 };
    let room = words.get(low)? & 0x7fff_ffff;
    let rules = words.get(size_of::<[u64; 2]>() / 4 + size_of::<FlowSpec>() / 4)?;
    let numbers = [("rules", *rules), ("rules-max", room)];
    Some(numbers.into_iter().map(|(name, n)| (name.to_owned(), u64::from(n))).collect())
}

/// `struct ethtool_rx_flow_spec`, for its length.
#[repr(C)]
struct FlowSpec {
    flow_type: u32,
    header: [u8; 52],
    header_ext: [u8; 20],
    mask: [u8; 52],
    mask_ext: [u8; 20],
    ring_cookie: u64,
    location: u32,
}

/// Offload features, as [`super::ethtool::features`] tells them where there is netlink.
///
/// # Errors
/// ENODEV for an unknown device.
pub(super) fn features(device: &str) -> io::Result<Features> {
    let names = strings(device, SS_FEATURES, count(device, SS_FEATURES)?)?;
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0; 2 + blocks * 4];
    if let Some(size) = words.get_mut(1) {
        *size = u32::try_from(blocks).unwrap_or(0);
    }
    ask(device, GFEATURES, &mut words)?;
    // Each block: available, requested, active, never changed (struct ethtool_get_features_block).
    let blocks: Vec<&[u32]> = words.get(2..).unwrap_or_default().chunks_exact(4).collect();
    let bit = |at: usize, of: usize| {
        let word = blocks.get(at / 32).and_then(|block| block.get(of));
        word.is_some_and(|word| word >> (at % 32) & 1 == 1)
    };
    let named = names.into_iter().enumerate().filter(|(_, name)| !name.is_empty());
    let states: BTreeMap<String, FeatureState> = named
        .map(|(at, name)| {
            let state = FeatureState { active: bit(at, 2), changeable: bit(at, 0) && !bit(at, 3) };
            (name, state)
        })
        .one_by_one();
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::super::rtnl;
    use super::*;

    #[test]
    fn too_little_room_and_unknown_commands_are_never_passed_on() {
        assert!(ask("lo", GDRVINFO, &mut [0; 9]).is_err());
        assert!(ask("lo", GSTRINGS, &mut [0; FIXED]).is_err());
        assert!(ask("lo", GFEATURES, &mut [0, 9]).is_err());
        // ETHTOOL_RESET
        let refused = ask("lo", 0x34, &mut [0; FIXED]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
        // Setting what the loopback device has not is the driver's to refuse.
        let refused = ask("lo", SRINGPARAM, &mut [0; FIXED]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::OPNOTSUPP.raw_os_error()));
        assert!(ask("a-name-longer-than-a-device", GDRVINFO, &mut [0; FIXED]).is_err());
    }

    #[test]
    fn the_old_way_tells_the_same_features_as_the_new_one() {
        for device in rtnl::links().unwrap().values() {
            let new = match super::super::ethtool::by_netlink(device) {
                Err(e) if e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                    crate::skip!("no ethtool netlink in this kernel");
                }
                Err(e) if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => continue,
                other => other.unwrap(),
            };
            assert!(new.len() > 20, "{device}: {new:?}");
            assert_eq!(features(device).unwrap(), new, "{device}");
        }
        assert_eq!(features("no-such-dev").unwrap_err().raw_os_error(), Some(19));
    }

    #[test]
    fn counters_are_there_or_the_driver_has_none() {
        assert_eq!(counters("lo").unwrap(), Numbers::new(), "loopback counts nothing of its own");
        assert_eq!(counters("no-such-dev").unwrap_err().raw_os_error(), Some(19));
        assert_eq!(ntuple("lo"), None);
        for device in rtnl::links().unwrap().values() {
            for (name, value) in counters(device).unwrap_or_default() {
                assert!(value > 0 && !name.is_empty(), "{device} {name}");
            }
        }
    }

    #[test]
    fn every_name_gets_its_own_value() {
        // veth tells its other end's index, and counts XDP by queue (drivers/net/veth.c).
        let Ok(netns) = super::super::netns::NetnsThread::create() else {
            crate::skip!("no network namespace to be had");
        };
        let made = netns.run(|| {
            let end = |name| rtnl::VethEnd { name, netns: None };
            rtnl::create_veth(end("counted0"), end("counted1"), 1500)
        });
        if let Err(e) = made.unwrap() {
            crate::skip!("no veth: {e}");
        }
        let told = netns.run(|| {
            let asked = count("counted0", SS_STATS).map_err(|e| e.to_string())?;
            let told = statistics("counted0", asked).map_err(|e| e.to_string())?;
            Ok::<_, String>((told, rtnl::links().map_err(|e| e.to_string())?))
        });
        let (told, links) = told.unwrap().unwrap();
        let other = links.iter().find(|(_, name)| *name == "counted1").unwrap().0;
        let of =
            |name: &str| told.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{told:?}"));
        assert_eq!(of("peer_ifindex").1, u64::from(*other), "{told:?}");
        assert_eq!(of("rx_queue_0_xdp_packets").1, 0, "{told:?}");
    }
}
