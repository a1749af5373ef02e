//! Offload features through the ethtool generic-netlink family (kernel 5.6,
//! CONFIG_ETHTOOL_NETLINK).

use std::io;

use rustix::io::Errno;

use super::netlink::{Attrs, NlFamily, Socket, attribute, attributes, text};
use super::{ethtool_ioctl, genl};
use crate::model::feature::{FeatureState, Features};

pub(super) const FAMILY: &str = "ethtool";
// linux/ethtool_netlink.h
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_HW: u16 = 2;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_FEATURES_NOCHANGE: u16 = 5;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;

/// Features of `device` in the calling thread's network namespace: by netlink, on kernels without
/// it by ioctl.
///
/// # Errors
/// ENODEV for an unknown device.
pub fn features(device: &str) -> io::Result<Features> {
    match by_netlink(device) {
        Err(e) if e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
            ethtool_ioctl::features(device)
        }
        other => other,
    }
}

pub(super) fn by_netlink(device: &str) -> io::Result<Features> {
    let mut socket = Socket::open(NlFamily::Generic)?;
    let attrs = Attrs::new().nest(ETHTOOL_A_FEATURES_HEADER, &header(device));
    let family = genl::family(&mut socket, FAMILY)?;
    let answers = socket.ask(genl::request(family, ETHTOOL_MSG_FEATURES_GET, &attrs))?;
    Ok(read_features(answers.first().map(|b| genl::payload(b)).ok_or(Errno::PROTO)?))
}

/// Switches features of `device` on or off, by the kernel's names; those not named stay.
/// A feature that the driver or a dependency keeps as it is does not make this fail: read back.
///
/// # Errors
/// ENODEV for an unknown device; EOPNOTSUPP where the kernel has no ethtool netlink; EINVAL for a
/// name that this kernel does not know; EPERM.
pub fn set_features(device: &str, wanted: &[(&str, bool)]) -> io::Result<()> {
    let mut socket = Socket::open(NlFamily::Generic)?;
    let family = genl::family(&mut socket, FAMILY)?;
    let body = set_body(device, wanted);
    socket.ask(genl::request(family, ETHTOOL_MSG_FEATURES_SET, &body)).map(drop)
}

fn set_body(device: &str, wanted: &[(&str, bool)]) -> Attrs {
    let bits = wanted.iter().fold(Attrs::new(), |bits, (name, on)| {
        let bit = Attrs::new().text(ETHTOOL_A_BITSET_BIT_NAME, name);
        let bit = if *on { bit.flag(ETHTOOL_A_BITSET_BIT_VALUE) } else { bit };
        bits.nest(ETHTOOL_A_BITSET_BITS_BIT, &bit)
    });
    let bitset = Attrs::new().nest(ETHTOOL_A_BITSET_BITS, &bits);
    Attrs::new()
        .nest(ETHTOOL_A_FEATURES_HEADER, &header(device))
        .nest(ETHTOOL_A_FEATURES_WANTED, &bitset)
}

pub(super) fn header(device: &str) -> Attrs {
    Attrs::new().text(ETHTOOL_A_HEADER_DEV_NAME, device)
}

/// The `hw` set names every feature the kernel knows, each with whether the driver lets it
/// change; `active` and `nochange` name only those that are set (net/ethtool/features.c,
/// features_fill_reply).
pub(super) fn read_features(body: &[u8]) -> Features {
    let active = names(body, ETHTOOL_A_FEATURES_ACTIVE);
    let never = names(body, ETHTOOL_A_FEATURES_NOCHANGE);
    let set = |list: &[(String, bool)], name: &str| list.iter().any(|(n, _)| n == name);
    names(body, ETHTOOL_A_FEATURES_HW)
        .into_iter()
        // Bits that this kernel has without a name for them.
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, hw)| {
            let changeable = hw && !set(&never, &name);
            let state = FeatureState { active: set(&active, &name), changeable };
            (name, state)
        })
        .collect()
}

/// The bits of a bit set, by name, each with whether it is set; without a mask those that are named
/// are set.
pub(super) fn names(body: &[u8], set: u16) -> Vec<(String, bool)> {
    let bits = attribute(body, set).and_then(|bitset| attribute(bitset, ETHTOOL_A_BITSET_BITS));
    attributes(bits.unwrap_or_default())
        .filter_map(|(_, bit)| {
            let name = text(attribute(bit, ETHTOOL_A_BITSET_BIT_NAME)?);
            Some((name, attribute(bit, ETHTOOL_A_BITSET_BIT_VALUE).is_some()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Derived from Documentation/networking/ethtool-netlink.rst (bit sets, FEATURES_SET).
    #[test]
    #[cfg(target_endian = "little")]
    fn switching_off_names_the_bit_without_a_value() {
        let body = set_body("lan0", &[("rx-gro", false), ("tx-lro", true)]);
        let expected = [
            b"\x10\0\x01\x80\x09\0\x02\0lan0\0\0\0\0".as_slice(),
            b"\x2c\0\x03\x80\x28\0\x03\x80",
            b"\x10\0\x01\x80\x0b\0\x02\0rx-gro\0\0",
            b"\x14\0\x01\x80\x0b\0\x02\0tx-lro\0\0\x04\0\x03\0",
        ];
        assert_eq!(body.as_slice(), expected.concat());
    }

    #[test]
    fn the_loopback_device_tells_its_features() {
        let features = match features("lo") {
            Ok(features) => features,
            Err(e) if e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                crate::skip!("no ethtool netlink in this kernel");
            }
            Err(e) => panic!("{e}"),
        };
        // `ethtool -k lo`: loopback: on [fixed]; tcp segmentation can be changed.
        assert!(features["loopback"].active && !features["loopback"].changeable);
        assert!(features["tx-tcp-segmentation"].changeable);
        assert_eq!(features_error("no-such-dev"), Some(19));
    }

    fn features_error(device: &str) -> Option<i32> {
        features(device).err().and_then(|e| e.raw_os_error())
    }
}
