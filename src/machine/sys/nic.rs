//! A card's settings through the ethtool netlink family: channels, rings, coalescing, flow control,
//! RSS; on old kernels, and for driver and firmware versions, which have no netlink message, by
//! the ioctl.

use std::io;

use rustix::io::Errno;

use super::ethtool::{FAMILY, header, names};
use super::ethtool_ioctl::{
    FIXED, GCHANNELS, GCOALESCE, GDRVINFO, GPAUSEPARAM, GRINGPARAM, GRSSH, GRXFHINDIR, RSS_HEAD,
    ask, ntuple,
};
use super::genl;
use super::netlink::{Attrs, NlFamily, Socket, attribute, attributes, text, u32_at};
use crate::model::nic::{NicSettings, Numbers, Rss};

// linux/ethtool_netlink.h: messages, and the names of their attributes from number 2 on (number 1
// is the header).
const RINGS_GET: u8 = 15;
pub(super) const RINGS: &[&str] =
    &["rx-max", "rx-mini-max", "rx-jumbo-max", "tx-max", "rx", "rx-mini", "rx-jumbo", "tx"];
const CHANNELS_GET: u8 = 17;
pub(super) const CHANNELS: &[&str] =
    &["rx-max", "tx-max", "other-max", "combined-max", "rx", "tx", "other", "combined"];
const COALESCE_GET: u8 = 19;
pub(super) const COALESCE: &[&str] = &[
    "rx-usecs",
    "rx-frames",
    "rx-usecs-irq",
    "rx-frames-irq",
    "tx-usecs",
    "tx-frames",
    "tx-usecs-irq",
    "tx-frames-irq",
    "stats-block-usecs",
    "use-adaptive-rx",
    "use-adaptive-tx",
];
const PAUSE_GET: u8 = 21;
const PAUSE: &[&str] = &["autoneg", "rx", "tx"];
/// ETHTOOL_MSG_EEE_GET (kernel 5.8); the modes of both ends are told from number 2 on, and left out.
const EEE_GET: u8 = 23;
const EEE: &[&str] = &["", "", "active", "enabled", "tx-lpi", "tx-lpi-timer"];
const PAUSE_STATS: u16 = 5;
const PAUSE_STATS_NAMES: [(u16, &str); 2] = [(2, "tx_pause_frames"), (3, "rx_pause_frames")];
const LINKMODES_GET: u8 = 4;
const LINKMODES_OURS: u16 = 3;
const LINKMODES_PEER: u16 = 4;
const HEADER_FLAGS: u16 = 3;
const FLAG_STATS: u32 = 1 << 2;
const RSS_GET: u8 = 38;
const RSS_HFUNC: u16 = 3;
const RSS_INDIR: u16 = 4;
const RSS_HKEY: u16 = 5;
pub(super) const HEADER: u16 = 1;

/// Facts from the driver about `device`; a group that it or this kernel lacks is `None`. Kernels
/// before 5.6 are asked by the old ioctl, and those before 6.3 for RSS.
///
/// # Errors
/// ENODEV for an unknown device.
pub fn settings(device: &str) -> io::Result<NicSettings> {
    let mut settings = match by_netlink(device) {
        Err(e) if e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => by_ioctl(device)?,
        other => other?,
    };
    if settings.rss.is_none() {
        settings.rss = table_and_key(device).or_else(|_| table(device)).ok().flatten();
    }
    settings.ntuple = ntuple(device);
    let mut info = [0; FIXED];
    if ask(device, GDRVINFO, &mut info).is_ok() {
        (settings.driver_version, settings.firmware) = versions(&info);
    }
    Ok(settings)
}

fn by_netlink(device: &str) -> io::Result<NicSettings> {
    let mut socket = Socket::open(NlFamily::Generic)?;
    let family = genl::family(&mut socket, FAMILY)?;
    let attrs = Attrs::new().nest(HEADER, &header(device));
    let mut ask = |command| match socket.ask(genl::request(family, command, &attrs)) {
        Ok(answers) => Ok(answers.into_iter().next()),
        Err(e) if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Err(e),
        // EOPNOTSUPP: the driver or kernel has no such thing. Others are a driver's own (EBUSY
        // while a card is being reset), and no reason to lose the rest.
        Err(e) => {
            log::debug!("ethtool command {command} of {device}: {e}");
            Ok(None)
        }
    };
    let rings = ask(RINGS_GET)?;
    let channels = ask(CHANNELS_GET)?;
    let coalesce = ask(COALESCE_GET)?;
    let pause = ask(PAUSE_GET)?;
    let rss = ask(RSS_GET)?;
    let modes = ask(LINKMODES_GET)?;
    let eee = ask(EEE_GET)?;
    let numbers = |body: Option<Vec<u8>>, names| {
        body.map(|body| numbers(genl::payload(&body), names)).filter(|n| !n.is_empty())
    };
    let modes = modes.as_deref().map(genl::payload);
    let mut pause = numbers(pause, PAUSE);
    if let Some((pause, modes)) = pause.as_mut().zip(modes) {
        pause.extend(pauses(modes));
    }
    Ok(NicSettings {
        channels: numbers(channels, CHANNELS),
        rings: numbers(rings, RINGS),
        coalesce: numbers(coalesce, COALESCE),
        pause,
        eee: numbers(eee, EEE),
        rss: rss.and_then(|body| read_rss(genl::payload(&body))),
        speeds: modes.map(speeds).filter(|n| !n.is_empty()),
        ..NicSettings::default()
    })
}

/// Pause frames since the device came up, as the kernel counts them for all drivers that tell
/// (`ethtool -I -a`, kernel 5.10); empty where it or the driver does not.
pub fn pause_frames(device: &str) -> Numbers {
    let asked = || -> io::Result<Vec<Vec<u8>>> {
        let mut socket = Socket::open(NlFamily::Generic)?;
        let family = genl::family(&mut socket, FAMILY)?;
        let header = header(device).u32(HEADER_FLAGS, FLAG_STATS);
        socket.ask(genl::request(family, PAUSE_GET, &Attrs::new().nest(HEADER, &header)))
    };
    let answers = asked().unwrap_or_default();
    answers.first().map(|body| read_pause(genl::payload(body))).unwrap_or_default()
}

fn read_pause(body: &[u8]) -> Numbers {
    let stats = attribute(body, PAUSE_STATS).unwrap_or_default();
    let mut found = Numbers::new();
    for (kind, name) in PAUSE_STATS_NAMES {
        let value = attribute(stats, kind).and_then(|value| value.try_into().ok());
        let count = value.map_or(0, u64::from_ne_bytes);
        if count > 0 {
            found.insert(name.to_owned(), count);
        }
    }
    found
}

/// The highest speeds that either end can or offers, by the names of link modes (`1000baseT/Full`).
fn speeds(body: &[u8]) -> Numbers {
    let speed = |name: &str| -> Option<u64> {
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        name.get(..digits)?.parse().ok()
    };
    let most = |names: &[(String, bool)], all: bool| {
        names.iter().filter(|(_, on)| all || *on).filter_map(|(name, _)| speed(name)).max()
    };
    let (ours, peer) = (names(body, LINKMODES_OURS), names(body, LINKMODES_PEER));
    let all = [
        ("able", most(&ours, true)),
        ("advertised", most(&ours, false)),
        ("partner", most(&peer, true)),
    ];
    all.into_iter().filter_map(|(name, speed)| Some((name.to_owned(), speed?))).collect()
}

/// Flow control as both ends offer it: bit 0 symmetric, bit 1 asymmetric.
fn pauses(body: &[u8]) -> Numbers {
    let of = |place, all: bool| {
        let names = names(body, place);
        let offers = |wanted: &str| names.iter().any(|(name, on)| name == wanted && (all || *on));
        let bits = u64::from(offers("Pause")) + 2 * u64::from(offers("Asym_Pause"));
        (!names.is_empty()).then_some(bits)
    };
    let both = [("advertised", of(LINKMODES_OURS, false)), ("partner", of(LINKMODES_PEER, true))];
    both.into_iter().filter_map(|(name, bits)| Some((name.to_owned(), bits?))).collect()
}

/// Numbers of 8 or 32 bits, by the place of their names.
pub(super) fn numbers(body: &[u8], names: &[&str]) -> Numbers {
    attributes(body)
        .filter_map(|(kind, value)| {
            let place = usize::from(kind).checked_sub(2)?;
            let name = names.get(place).filter(|name| !name.is_empty())?;
            let number = match value {
                [one] => u64::from(*one),
                _ => u64::from(u32_at(value, 0)?),
            };
            Some(((*name).to_owned(), number))
        })
        .collect()
}

/// `None` where the device has one queue and so nothing to spread over.
pub(super) fn read_rss(body: &[u8]) -> Option<Rss> {
    let table = attribute(body, RSS_INDIR).unwrap_or_default();
    let table: Vec<u32> = table.chunks_exact(4).filter_map(|word| u32_at(word, 0)).collect();
    let key = attribute(body, RSS_HKEY).unwrap_or_default();
    let function = attribute(body, RSS_HFUNC).and_then(|f| u32_at(f, 0)).unwrap_or(0);
    let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
    (!table.is_empty()).then_some(Rss { table, key, function })
}

/// No card has a larger table (ETH_RXFH_INDIR_NO_CHANGE aside, drivers stay below 4096).
const LARGEST_TABLE: usize = 1 << 16;

/// The old structures hold the same numbers in the same order as the attributes, behind the
/// command.
fn by_ioctl(device: &str) -> io::Result<NicSettings> {
    let read = |command, names: &[&str]| -> io::Result<Option<Numbers>> {
        let mut words = [0; FIXED];
        match ask(device, command, &mut words) {
            Ok(()) => {
                let values = words.iter().skip(1).map(|w| u64::from(*w));
                let mut found: Numbers =
                    names.iter().map(ToString::to_string).zip(values).collect();
                // As netlink has it: what can be none at most is not there.
                let none: Vec<String> = found
                    .iter()
                    .filter(|(_, most)| **most == 0)
                    .filter_map(|(name, _)| name.strip_suffix("-max").map(str::to_owned))
                    .collect();
                found.retain(|name, _| !none.iter().any(|n| n == name.trim_end_matches("-max")));
                Ok(Some(found))
            }
            Err(e) if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Err(e),
            Err(_) => Ok(None),
        }
    };
    Ok(NicSettings {
        channels: read(GCHANNELS, CHANNELS)?,
        rings: read(GRINGPARAM, RINGS)?,
        coalesce: read(GCOALESCE, COALESCE)?,
        pause: read(GPAUSEPARAM, PAUSE)?,
        ..NicSettings::default()
    })
}

/// The RSS table and its key, also asked for twice; kernels before 3.16 have no such command.
fn table_and_key(device: &str) -> io::Result<Option<Rss>> {
    let mut head = [0; RSS_HEAD];
    ask(device, GRSSH, &mut head)?;
    let size = |at: usize| head.get(at).and_then(|n| usize::try_from(*n).ok()).unwrap_or(0);
    let (entries, key) = (size(2), size(3));
    if entries == 0 || entries > LARGEST_TABLE || key > LARGEST_TABLE {
        return Ok(None);
    }
    let mut words = vec![0; RSS_HEAD + entries + key.div_ceil(4)];
    words.iter_mut().zip(head).skip(2).take(2).for_each(|(to, from)| *to = from);
    ask(device, GRSSH, &mut words)?;
    Ok(Some(read_table_and_key(&words, entries, key)))
}

fn read_table_and_key(words: &[u32], entries: usize, key: usize) -> Rss {
    let (table, rest) =
        words.get(RSS_HEAD..).and_then(|w| w.split_at_checked(entries)).unwrap_or_default();
    let bytes = rest.iter().flat_map(|word| word.to_ne_bytes()).take(key);
    // The function is the first byte of its word.
    let function = words.get(4).map_or(0, |word| u32::from(word.to_ne_bytes()[0]));
    let key = bytes.map(|byte| format!("{byte:02x}")).collect();
    Rss { table: table.to_vec(), key, function }
}

/// The RSS table: asked for once with room for none, which answers how long it is.
pub(super) fn table(device: &str) -> io::Result<Option<Rss>> {
    let mut words = vec![0; FIXED];
    ask(device, GRXFHINDIR, &mut words)?;
    let size = words.get(1).and_then(|n| usize::try_from(*n).ok()).unwrap_or(0);
    if size == 0 || size > LARGEST_TABLE {
        return Ok(None);
    }
    words = vec![0; FIXED.max(size + 2)];
    if let Some(room) = words.get_mut(1) {
        *room = u32::try_from(size).unwrap_or(0);
    }
    ask(device, GRXFHINDIR, &mut words)?;
    let table = words.into_iter().skip(2).take(size).collect();
    Ok(Some(Rss { table, key: String::new(), function: 0 }))
}

/// Versions of driver and firmware of a `struct ethtool_drvinfo`; `None` each where the driver
/// tells none.
fn versions(info: &[u32]) -> (Option<String>, Option<String>) {
    let bytes: Vec<u8> = info.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // After the command: driver, version, firmware version, 32 bytes each.
    let field = |at: usize| {
        let value = text(bytes.get(at..at + 32).unwrap_or_default());
        Some(value.trim().to_owned()).filter(|v| !v.is_empty() && v != "N/A")
    };
    (field(36), field(68))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_widths_by_the_place_of_their_names() {
        let body = Attrs::new()
            .nest(HEADER, &header("eth0"))
            .u32(2, 50)
            .u32(6, 7)
            .bytes(11, &[1])
            .u32(99, 1);
        let found = numbers(body.as_slice(), COALESCE);
        let found: Vec<_> = found.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(found, [("rx-usecs", 50), ("tx-usecs", 7), ("use-adaptive-rx", 1)]);
    }

    /// Derived from Documentation/networking/ethtool-netlink.rst (LINKMODES_GET, PAUSE_GET).
    #[test]
    fn both_ends_speeds_and_pause_frames_are_read() {
        let bits = |bits: &[(&str, bool)]| {
            let bits = bits.iter().fold(Attrs::new(), |all, (name, on)| {
                let bit = Attrs::new().text(2, name);
                all.nest(1, &if *on { bit.flag(3) } else { bit })
            });
            Attrs::new().nest(3, &bits)
        };
        let ours = [("Autoneg", true), ("100baseT/Full", true), ("1000baseT/Full", false)];
        let peer = [("10baseT/Half", false), ("100baseT/Full", false), ("Pause", false)];
        let body = Attrs::new()
            .nest(HEADER, &header("eth0"))
            .nest(LINKMODES_OURS, &bits(&ours))
            .nest(LINKMODES_PEER, &bits(&peer));
        let found = speeds(body.as_slice());
        let found: Vec<_> = found.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(found, [("able", 1000), ("advertised", 100), ("partner", 100)]);
        assert_eq!(speeds(&[]), Numbers::new());
        let offers = pauses(body.as_slice());
        let offers: Vec<_> = offers.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(offers, [("advertised", 0), ("partner", 1)]);
        assert_eq!(pauses(&[]), Numbers::new());
        let stats = Attrs::new().bytes(2, &7_u64.to_ne_bytes()).bytes(3, &0_u64.to_ne_bytes());
        let found = read_pause(Attrs::new().nest(PAUSE_STATS, &stats).as_slice());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("tx_pause_frames".to_owned(), 7)]);
        assert_eq!(pause_frames("no-such-dev"), Numbers::new());
    }

    /// Derived from Documentation/networking/ethtool-netlink.rst (EEE_GET).
    #[test]
    fn energy_efficient_ethernet_is_read_without_its_modes() {
        let modes = Attrs::new().u32(2, 4).bytes(4, &[0x28, 0, 0, 0]);
        let body = Attrs::new()
            .nest(HEADER, &header("eth0"))
            .nest(2, &modes)
            .nest(3, &modes)
            .bytes(4, &[1])
            .bytes(5, &[1])
            .bytes(6, &[0])
            .u32(7, 20);
        let found = numbers(body.as_slice(), EEE);
        let found: Vec<_> = found.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(found, [("active", 1), ("enabled", 1), ("tx-lpi", 0), ("tx-lpi-timer", 20)]);
    }

    #[test]
    fn rss_is_a_table_and_a_key() {
        let table: Vec<u8> = [0_u32, 1, 0, 1].iter().flat_map(|q| q.to_ne_bytes()).collect();
        let body = Attrs::new().u32(RSS_HFUNC, 1).bytes(RSS_INDIR, &table).bytes(5, &[0x6d, 5]);
        let rss = read_rss(body.as_slice()).unwrap();
        assert_eq!(rss, Rss { table: vec![0, 1, 0, 1], key: "6d05".into(), function: 1 });
        assert_eq!(read_rss(&[]), None);
    }

    #[test]
    fn the_ioctl_tells_table_key_and_function() {
        // struct ethtool_rxfh: command, context, 4 entries, 6 bytes of key, Toeplitz.
        let bytes: Vec<u8> = [GRSSH, 0, 4, 6, 0, 0, 0, 1, 0, 1]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .chain([0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0, 0])
            .collect();
        let mut words: Vec<u32> =
            bytes.chunks_exact(4).map(|w| u32::from_ne_bytes(w.try_into().unwrap())).collect();
        words[4] = u32::from_ne_bytes([1, 0, 0, 0]);
        let rss = read_table_and_key(&words, 4, 6);
        let key = "6d5a56da255b".to_owned();
        assert_eq!(rss, Rss { table: vec![0, 1, 0, 1], key, function: 1 });
        assert_eq!(read_table_and_key(&[], 4, 6), Rss::default());
        // Without RSS it is refused, and never an empty table.
        assert!(table_and_key("lo").is_err());
    }

    #[test]
    fn an_unknown_device_is_refused_and_loopback_has_no_rings() {
        assert_eq!(settings("no-such-dev").unwrap_err().raw_os_error(), Some(19));
        let settings = settings("lo").unwrap();
        assert_eq!((settings.rings, settings.channels, settings.firmware), (None, None, None));
    }

    /// Both ways must say the same of every device of this machine.
    #[test]
    fn the_old_way_says_what_the_new_one_does() {
        for device in super::super::rtnl::links().unwrap().values() {
            let new = match by_netlink(device) {
                Err(e) if e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                    crate::skip!("no ethtool netlink in this kernel");
                }
                Err(e) if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => continue,
                other => other.unwrap(),
            };
            let old = by_ioctl(device).unwrap();
            assert_eq!(new.channels, old.channels, "{device}");
            for (new, old) in [(new.rings, old.rings), (new.coalesce, old.coalesce)] {
                // Netlink leaves out what the driver can't set, where the ioctl says 0.
                for (name, value) in new.unwrap_or_default() {
                    assert_eq!(old.as_ref().unwrap().get(&name), Some(&value), "{device} {name}");
                }
            }
        }
    }
}
