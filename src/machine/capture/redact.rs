//! Redaction: a capture loses all that tells whose router it is: hardware and IP addresses, the host's name,
//! serial numbers, ids and secrets, each replaced by a stand-in. Within one capture equal stays
//! equal, addresses of one network stay in one network, and private stays private, so the capture
//! still explains itself. The table of stand-ins is never written.
//!
//! Kept as they are: loopback, unspecified, broadcast and multicast addresses, net masks, and those
//! set aside for documentation and benchmarks (RFC 2544, 3849, 5737).

pub mod kept;

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::machine::parse::thread_name::concerns_packets;

/// Names that thousands of machines share.
const COMMON_NAMES: &[&str] =
    &["localhost", "openwrt", "friendlywrt", "immortalwrt", "debian", "linux", "(none)", "router"];

/// Files that hold nothing but an id.
const ID_FILES: &[&str] = &[
    "machine-id",
    "serial-number",
    "serial",
    "product_serial",
    "board_serial",
    "chassis_serial",
    "product_uuid",
    "chassis_asset_tag",
    "board_asset_tag",
    "phys_switch_id",
    "phys_port_id",
    "ifalias",
];

/// Replaces what identifies, the same by the same.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Names of the host: the whole one, and its first part and its domain.
    names: Vec<String>,
    /// The host's name is part of a device's, and goes everywhere.
    name_of_device: bool,
    macs: HashMap<[u8; 6], u32>,
    /// By what they are for, then by their first three bytes.
    networks4: HashMap<[u8; 4], HashMap<[u8; 3], u32>>,
    hosts4: HashMap<[u8; 3], HashMap<u8, u32>>,
    networks6: HashMap<u64, u32>,
    hosts6: HashMap<u128, u32>,
    ids: HashMap<Vec<u8>, u32>,
}

impl Redactor {
    /// For a machine of that name, with devices of these.
    #[must_use]
    pub fn new<'a>(hostname: &str, devices: impl IntoIterator<Item = &'a str>) -> Self {
        let (first, domain) = hostname.split_once('.').unwrap_or((hostname, ""));
        let common = |name: &str| COMMON_NAMES.contains(&name.to_ascii_lowercase().as_str());
        let names: Vec<String> = [hostname, first, domain]
            .into_iter()
            .filter(|name| name.len() > 1 && !common(name))
            .map(str::to_owned)
            .collect();
        let bare = Self { names, ..Self::default() };
        let names_us = |device: &str| bare.nameless(device.as_bytes()) != device.as_bytes();
        let name_of_device = devices.into_iter().any(names_us);
        Self { name_of_device, ..bare }
    }

    /// How many different things were replaced.
    #[must_use]
    pub fn replaced(&self) -> usize {
        let hosts4: usize = self.hosts4.values().map(HashMap::len).sum();
        self.macs.len() + hosts4 + self.hosts6.len() + self.ids.len()
    }

    /// A file's content as it may be given away.
    #[must_use]
    pub fn file(&mut self, path: &Path, content: &[u8]) -> Vec<u8> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if ID_FILES.contains(&name.as_str()) {
            return self.id_file(content);
        }
        // What runs beside the router's work is its owner's business.
        if name == "comm" && !concerns_packets(String::from_utf8_lossy(content).trim()) {
            return b"another\n".to_vec();
        }
        if is_written(path, &name) {
            return self.written(path, content);
        }
        if path == Path::new("/proc/version") {
            return without_builder(&self.nameless(content));
        }
        if is_free_of_addresses(path, &name) {
            return content.to_vec();
        }
        if name == "hostname" && !self.names.is_empty() {
            return b"router\n".to_vec();
        }
        let clean = self.text(content);
        match () {
            () if path.ends_with("net/route") => self.hex_routes(&clean),
            () if name == "cpuinfo" => self.serials(&clean),
            () => clean,
        }
    }

    /// Text that nobody wrote: kernel files, paths, names, netlink answers. The host's name stays in
    /// it unless devices bear it: many routers are named after their board, which is worth knowing.
    #[must_use]
    pub fn text(&mut self, text: &[u8]) -> Vec<u8> {
        match self.name_of_device {
            true => self.words(&self.nameless(text)),
            false => self.words(text),
        }
    }

    /// Text without the host's name, in any case; a short name must stand by itself.
    fn nameless(&self, text: &[u8]) -> Vec<u8> {
        let mut clean = text.to_vec();
        for name in &self.names {
            let mut next = Vec::with_capacity(clean.len());
            let mut rest = clean.as_slice();
            while let Some(first) = rest.first() {
                let found = rest.split_at_checked(name.len()).filter(|(head, tail)| {
                    let ends = |byte: Option<&u8>| !byte.is_some_and(u8::is_ascii_alphanumeric);
                    head.eq_ignore_ascii_case(name.as_bytes())
                        && (name.len() > 4 || (ends(next.last()) && ends(tail.first())))
                });
                match found {
                    Some((_, tail)) => {
                        next.extend(b"router");
                        rest = tail;
                    }
                    None => {
                        next.push(*first);
                        rest = rest.get(1..).unwrap_or_default();
                    }
                }
            }
            clean = next;
        }
        clean
    }

    fn words(&mut self, text: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.first() {
            let length = rest.iter().take_while(|b| is_wordy(**b)).count();
            if length == 0 {
                clean.push(*first);
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let (word, after) = rest.split_at(length);
            clean.extend(self.word(word));
            rest = after;
        }
        clean
    }

    /// Letters, digits, `.`, `:`, `-` and `_` without a break.
    fn word(&mut self, word: &[u8]) -> Vec<u8> {
        // `192.168.1.1:53`, `192.168.1.2-192.168.1.9`, `fe80::1.`: the parts between.
        if let Some(clean) = self.address(word) {
            return clean;
        }
        if let Some(clean) = self.mac_within(word) {
            return clean;
        }
        let mut clean = Vec::with_capacity(word.len());
        for part in word.split_inclusive(|b| matches!(b, b'-' | b'_')) {
            let (body, end) = match part.split_last() {
                Some((last @ (b'-' | b'_'), body)) => (body, std::slice::from_ref(last)),
                _ => (part, &[][..]),
            };
            let dot = body.strip_suffix(b".").or_else(|| body.strip_suffix(b":"));
            let clean_part = self
                .address(body)
                .or_else(|| {
                    Some([self.address(dot?)?, body.last().copied().into_iter().collect()].concat())
                })
                .or_else(|| self.address_and_port(body));
            clean.extend(clean_part.unwrap_or_else(|| body.to_vec()));
            clean.extend(end);
        }
        clean
    }

    fn address_and_port(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        let colon = word.iter().position(|b| *b == b':')?;
        let (address, port) = word.split_at(colon);
        let mut clean = self.v4(address)?;
        // `ip=` of the kernel has a row of them.
        for part in port.split_inclusive(|b| *b == b':') {
            let (part, colon) = match part.split_last() {
                Some((b':', part)) => (part, &b":"[..]),
                _ => (part, &b""[..]),
            };
            clean.extend(self.v4(part).unwrap_or_else(|| part.to_vec()));
            clean.extend(colon);
        }
        Some(clean)
    }

    /// An address with dashes or underscores, in a longer name.
    fn mac_within(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        let ends = |byte: Option<&u8>| !byte.is_some_and(u8::is_ascii_alphanumeric);
        let at = word.windows(17).enumerate().position(|(at, window)| {
            let before = at.checked_sub(1).and_then(|at| word.get(at));
            let separated = matches!(window.get(2), Some(b'-' | b'_'));
            separated && parts_of_mac(window).is_some() && ends(before) && ends(word.get(at + 17))
        })?;
        let (head, rest) = word.split_at_checked(at)?;
        let (found, tail) = rest.split_at_checked(17)?;
        let (head, found) = (self.word(head), self.mac(found)?);
        Some([head, found, self.word(tail)].concat())
    }

    fn address(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        self.mac(word)
            .or_else(|| self.v4(word))
            .or_else(|| self.v6(word))
            .or_else(|| self.named_by_mac(word))
            .or_else(|| self.uuid(word))
            .or_else(|| self.bare_v6(word))
    }

    /// `02:00:5e:10:00:01`, also with dashes or underscores, without leading zeros, `0200.5e10.0001` and
    /// `02005e100001`. Digits alone may be a count, unless the address is known.
    fn mac(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        let (mac, separator) = parts_of_mac(word)?;
        let bare = separator.is_none();
        if bare && word.iter().all(u8::is_ascii_digit) && !self.macs.contains_key(&mac) {
            return None;
        }
        let text = self.stand_in_mac(mac).map(|b| format!("{b:02x}"));
        Some(
            match separator {
                None => text.concat(),
                Some(b'.') => text.chunks(2).map(<[String]>::concat).collect::<Vec<_>>().join("."),
                Some(separator) => text.join(&char::from(separator).to_string()),
            }
            .into_bytes(),
        )
    }

    /// Zero, broadcast and multicast ones name nobody.
    fn stand_in_mac(&mut self, mac: [u8; 6]) -> [u8; 6] {
        let [first, ..] = mac;
        if mac == [0; 6] || first & 1 == 1 {
            return mac;
        }
        let [_, b, c, d] = number(&mut self.macs, mac).to_be_bytes();
        // Locally administered, so that it is nobody's.
        [0x02, 0, 0, b, c, d]
    }

    /// Names that systemd makes of an address: `enx02005e100001`, `wlx...`.
    fn named_by_mac(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        let (kind, digits) = word.split_at_checked(3)?;
        if !matches!(kind, b"enx" | b"wlx" | b"wwx") || digits.len() != 12 {
            return None;
        }
        let mut mac = [0; 6];
        for (byte, part) in mac.iter_mut().zip(digits.chunks(2)) {
            *byte = hex_byte(part)?;
        }
        let text: String = self.stand_in_mac(mac).iter().map(|b| format!("{b:02x}")).collect();
        Some([kind, text.as_bytes()].concat())
    }

    fn v4(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        let address: Ipv4Addr = std::str::from_utf8(word).ok()?.parse().ok()?;
        Some(self.stand_in4(address).to_string().into_bytes())
    }

    fn stand_in4(&mut self, address: Ipv4Addr) -> Ipv4Addr {
        let [a, b, c, d] = address.octets();
        // Base, and how many networks of 256 addresses there are from it.
        let (base, networks) = match (a, b, c) {
            (0 | 127 | 224..=239 | 255, ..)
            | (198, 18..=19, _)
            | (192, 0, 2)
            | (198, 51, 100)
            | (203, 0, 113) => return address,
            // What it is for is worth knowing, and says nothing of whose it is.
            (10, ..) => ([10, 0, 0, 0], 1 << 16),
            (172, 16..=31, _) => ([172, 16, 0, 0], 1 << 12),
            (192, 168, _) => ([192, 168, 0, 0], 1 << 8),
            (100, 64..=127, _) => ([100, 64, 0, 0], 1 << 14),
            (169, 254, _) => ([169, 254, 0, 0], 1 << 8),
            // Reserved: nobody's.
            _ => ([240, 0, 0, 0], 1 << 20),
        };
        if address.octets() == base {
            return address;
        }
        let network = number(self.networks4.entry(base).or_default(), [a, b, c]) % networks;
        let hosts = self.hosts4.entry([a, b, c]).or_default();
        let host = if matches!(d, 0 | 255) { u32::from(d) } else { number(hosts, d) };
        Ipv4Addr::from(u32::from_be_bytes(base).wrapping_add(network << 8).wrapping_add(host))
    }

    fn v6(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        if word.iter().filter(|b| **b == b':').count() < 2 {
            return None;
        }
        let address: Ipv6Addr = std::str::from_utf8(word).ok()?.parse().ok()?;
        Some(self.stand_in6(address).to_string().into_bytes())
    }

    /// 32 digits without colons, as in /proc/net/if_inet6; ids have the same form.
    fn bare_v6(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        if word.len() != 32 || !word.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let bits = u128::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        let clean = u128::from(self.stand_in6(Ipv6Addr::from(bits)));
        Some(format!("{clean:032x}").into_bytes())
    }

    fn stand_in6(&mut self, address: Ipv6Addr) -> Ipv6Addr {
        let bits = u128::from(address);
        let [first, second, ..] = address.segments();
        if bits <= 1 || first >> 8 == 0xff || (first, second) == (0x2001, 0xdb8) {
            return address;
        }
        if let Some(v4) = address.to_ipv4_mapped() {
            return self.stand_in4(v4).to_ipv6_mapped();
        }
        let (network, host) = ((bits >> 64) as u64, bits as u64);
        let base: u128 = match first {
            0xfe80..=0xfebf => 0xfe80 << 112,
            0xfc00..=0xfdff => {
                0xfd00 << 112 | u128::from(number(&mut self.networks6, network)) << 64
            }
            // RFC 9637, documentation.
            _ => 0x3fff << 112 | u128::from(number(&mut self.networks6, network)) << 64,
        };
        let host = if host == 0 { 0 } else { number(&mut self.hosts6, bits) };
        Ipv6Addr::from(base | u128::from(host))
    }

    fn uuid(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        let lengths = word.split(|b| *b == b'-').map(<[u8]>::len);
        let is_uuid = lengths.eq([8, 4, 4, 4, 12])
            && word.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
        is_uuid.then(|| {
            let n = number(&mut self.ids, word.to_ascii_lowercase());
            format!("00000000-0000-4000-8000-{n:012x}").into_bytes()
        })
    }

    /// A file that is an id as a whole; one of hexadecimal digits stays one of that length.
    fn id_file(&mut self, content: &[u8]) -> Vec<u8> {
        let text = content.trim_ascii();
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        if text.is_empty() {
            return content.to_vec();
        }
        let n = number(&mut self.ids, text.to_vec());
        let clean = if text.iter().all(u8::is_ascii_hexdigit) && text.len() >= 8 {
            format!("{n:0width$x}", width = text.len())
        } else {
            format!("redacted-{n}")
        };
        let end = if content.ends_with(b"\n") { "\n" } else { "" };
        format!("{clean}{end}").into_bytes()
    }

    /// `Serial : x`.
    fn serials(&mut self, text: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(text.len());
        for line in text.split_inclusive(|b| *b == b'\n') {
            match line.iter().position(|b| *b == b':').and_then(|at| line.split_at_checked(at + 1))
            {
                Some((key, value)) if key.to_ascii_lowercase().starts_with(b"serial") => {
                    clean.extend([key, b" ", &self.id_file(value)].concat());
                }
                _ => clean.extend(line),
            }
        }
        clean
    }

    /// Destination and gateway as eight digits in the machine's byte order; zero and masks stay.
    fn hex_routes(&mut self, text: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(text.len());
        for line in text.split_inclusive(|b| *b == b'\n') {
            for (at, field) in line.split_inclusive(|b| *b == b'\t').enumerate() {
                let digits = field.strip_suffix(b"\t").unwrap_or(field);
                let value = std::str::from_utf8(digits).ok();
                let value = value.and_then(|t| u32::from_str_radix(t, 16).ok());
                match value.filter(|v| matches!(at, 1 | 2) && *v != 0 && digits.len() == 8) {
                    Some(value) => {
                        let address = Ipv4Addr::from(value.to_ne_bytes());
                        let stand_in = u32::from_ne_bytes(self.stand_in4(address).octets());
                        clean.extend(format!("{stand_in:08X}\t").into_bytes());
                    }
                    None => clean.extend(field),
                }
            }
        }
        clean
    }
}

fn is_wordy(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_')
}

/// Files that people write, or programs for them: only what is known to be harmless stays.
fn is_written(path: &Path, name: &str) -> bool {
    let places = ["/etc", "/tmp", "/usr/libexec", "/usr/lib"];
    let kernel = path.parent().is_some_and(|p| p.starts_with("/proc")) && name == "cmdline";
    places.iter().any(|place| path.starts_with(place)) || kernel
}

/// `Linux version 6.1.0 (anna@attic) (gcc ...) ...` names who built it, and where.
fn without_builder(version: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(version);
    let named = |(head, rest): (&str, &str)| {
        let (name, tail) = rest.split_once(')')?;
        name.contains('@').then(|| format!("{head}(builder@host){tail}"))
    };
    text.split_once('(').and_then(named).map_or_else(|| version.to_vec(), String::into_bytes)
}

/// The bytes of a hardware address in any of its spellings, and what stands between them.
fn parts_of_mac(word: &[u8]) -> Option<([u8; 6], Option<u8>)> {
    let separator = word.iter().copied().find(|b| !b.is_ascii_hexdigit());
    let mut digits = Vec::with_capacity(12);
    match separator {
        None => digits.extend(word),
        Some(separator @ (b':' | b'-' | b'_' | b'.')) => {
            let width = if separator == b'.' { 4 } else { 2 };
            for part in word.split(|b| *b == separator) {
                // Only with colons are leading zeros ever left out.
                let short = if separator == b':' { 1 } else { width };
                if !(short..=width).contains(&part.len()) {
                    return None;
                }
                digits.extend(
                    std::iter::repeat_n(b'0', width - part.len()).chain(part.iter().copied()),
                );
            }
        }
        Some(_) => return None,
    }
    let mut mac = [0; 6];
    if digits.len() != 12 {
        return None;
    }
    for (byte, part) in mac.iter_mut().zip(digits.chunks(2)) {
        *byte = hex_byte(part)?;
    }
    Some((mac, separator))
}

/// Versions look like addresses: files where they stand and addresses do not.
fn is_free_of_addresses(path: &Path, name: &str) -> bool {
    path.starts_with("/boot") || matches!(name, "config.gz" | "osrelease" | "version")
}

fn hex_byte(text: &[u8]) -> Option<u8> {
    let valid = text.len() == 2 && text.iter().all(u8::is_ascii_hexdigit);
    valid.then(|| u8::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()).flatten()
}

/// The number of a thing: the next free one for a new thing.
fn number<K: std::hash::Hash + Eq>(known: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = u32::try_from(known.len()).unwrap_or(u32::MAX).saturating_add(1);
    *known.entry(key).or_insert(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(redactor: &mut Redactor, text: &str) -> String {
        String::from_utf8(redactor.text(text.as_bytes())).unwrap()
    }

    #[test]
    fn equal_stays_equal_and_networks_stay_together() {
        let mut r = Redactor::new("attic", []);
        let first = text(&mut r, "inet 192.168.7.1/24 brd 192.168.7.255 via 192.168.7.20");
        assert_eq!(first, "inet 192.168.1.1/24 brd 192.168.1.255 via 192.168.1.2");
        assert_eq!(text(&mut r, "192.168.7.20:53"), "192.168.1.2:53");
        assert_eq!(text(&mut r, "84.12.3.4-84.12.3.9"), "240.0.1.1-240.0.1.2");
        assert_eq!(text(&mut r, "a8:a1:59:01:02:03 on attic"), "02:00:00:00:00:01 on attic");
        assert_eq!(text(&mut r, "A8:A1:59:01:02:03"), "02:00:00:00:00:01");
        assert_eq!(text(&mut r, "enxa8a159010203: up"), "enx020000000001: up");
        assert_eq!(text(&mut r, "2a02:1:2:3::5/64"), "3fff:0:0:1::1/64");
        assert_eq!(text(&mut r, "2a02:1:2:3::/64"), "3fff:0:0:1::/64");
        assert_eq!(
            text(&mut r, "2a0200010002000300000000 00000005"),
            "2a0200010002000300000000 00000005"
        );
        assert_eq!(
            text(&mut r, "2a020001000200030000000000000005"),
            "3fff0000000000010000000000000001"
        );
    }

    #[test]
    fn what_names_nobody_stays() {
        let mut r = Redactor::new("OpenWrt", []);
        for same in [
            "127.0.0.1 ::1 0.0.0.0/0 ::/0 255.255.255.0 224.0.0.1 ff02::1 10.0.0.0/8",
            "198.18.0.1 2001:db8::1 192.0.2.7 ff:ff:ff:ff:ff:ff 00:00:00:00:00:00 01:00:5e:00:00:01",
            "PCI-MSIX-0000:00:03.0 1-edge virtio1-input.0 usb4 fe300000.ethernet xhci-hcd.0.auto",
            "ffffffff,00000003 0-3,6 6.6.30 OpenWrt 10:20:30 fd00",
            " 24:  10628015   0  GICv3  44 Level     eth0",
            "0000000a 00000000 00000012",
        ] {
            assert_eq!(text(&mut r, same), same);
        }
        assert_eq!(r.replaced(), 0);
    }

    fn file(redactor: &mut Redactor, path: &str, text: &str) -> String {
        String::from_utf8(redactor.file(Path::new(path), text.as_bytes())).unwrap()
    }

    #[test]
    fn of_settings_only_known_ones_stay() {
        let mut r = Redactor::new("attic", []);
        let uci = "# Annas\nconfig wireguard_vpn 'anna'\n\toption key 'hunter2 and more'\n\toption ssid \"Annas\"\n\
            \toption username me@isp; option password 'hunter2 and more'\n\toption pin {1234}\n\
            config interface 'wan'\n\toption proto 'pppoe'\n\toption device attic.7\n\tlist note 'two\nlines'\n";
        assert_eq!(
            file(&mut r, "/etc/config/network", uci),
            "\nconfig wireguard_vpn 'redacted-1'\n\toption key 'redacted-2'\n\toption ssid 'redacted-3'\n\
            \toption username 'redacted-4'\n\toption password 'redacted-2'\n\toption pin 'redacted-5'\n\
            \nconfig interface 'wan'\n\toption proto 'pppoe'\n\toption device 'router.7'\n\tlist note 'redacted-6'\n"
        );
        let json = r#"{"credentials":{"root_password_hash":"$1$x","pin":1234},"network":{"lan":{"macaddr":"a8:a1:59:01:02:03"}}}"#;
        let clean = file(&mut r, "/etc/board.json", json);
        let expected = r#"{"credentials":{"pin":0,"root_password_hash":"redacted-7"},"network":{"lan":{"macaddr":"02:00:00:00:00:01"}}}"#;
        assert_eq!(clean, expected);
        let line = "console=serial0,115200 smsc95xx.macaddr=a8:a1:59:01:02:03 x.serial=0x1234 geheim isolcpus=2-3";
        assert_eq!(
            file(&mut r, "/proc/cmdline", line),
            "console=serial0,115200 smsc95xx.macaddr=02:00:00:00:00:01 x.serial=redacted-8 redacted-9 isolcpus=2-3\n"
        );
        let info = file(&mut r, "/proc/cpuinfo", "Serial\t\t: 10000000abcdef12\nmodel name : x\n");
        assert_eq!(info, "Serial\t\t: 000000000000000a\nmodel name : x\n");
        let words = "irqbalance\0--banirq=3\0--secret\0x\0";
        assert_eq!(
            file(&mut r, "/proc/7/cmdline", words),
            "irqbalance\0--banirq=3\0redacted-11\0redacted-12\0"
        );
    }

    #[test]
    fn of_scripts_only_what_matters_here_stays() {
        let mut r = Redactor::new("attic", []);
        let script = "#!/bin/sh\ncurl -u me:geheim x; echo 2 > /proc/irq/24/smp_affinity # geheim\n\
            ATTR{queues/rx-0/rps_cpus}=\"geheim\"\n# echo geheim > /proc/irq/1/smp_affinity\n";
        assert_eq!(
            file(&mut r, "/etc/rc.local", script),
            "# left out\necho 2 > /proc/irq/24/smp_affinity\necho _ > rps_cpus\n# left out\n"
        );
    }

    #[test]
    fn a_hardware_address_goes_in_every_spelling() {
        let mut r = Redactor::new("attic", []);
        for (is, clean) in [
            ("a8:a1:59:01:02:03", "02:00:00:00:00:01"),
            ("a8-a1-59-01-02-03", "02-00-00-00-00-01"),
            ("A8A159010203", "020000000001"),
            ("a8a1.5901.0203", "0200.0000.0001"),
            ("a8:a1:59:1:2:3", "02:00:00:00:00:01"),
            ("wan_a8a159010203", "wan_020000000001"),
            ("x-a8-a1-59-01-02-03-y", "x-02-00-00-00-00-01-y"),
            ("123456789012", "123456789012"),
            ("ip=84.12.3.4:84.12.3.1:84.12.3.2", "ip=240.0.1.1:240.0.1.2:240.0.1.3"),
        ] {
            assert_eq!(text(&mut r, is), clean);
        }
    }

    #[test]
    fn the_hosts_name_goes_also_as_part_of_a_longer_one() {
        let mut r = Redactor::new("Attic-7.example.org", ["eth0"]);
        let clean =
            file(&mut r, "/etc/openwrt_release", "DISTRIB_ID='myattic-7x EXAMPLE.org'\nURL=x\n");
        assert_eq!(clean, "DISTRIB_ID='myrouterx router'\n");
        assert_eq!(text(&mut r, "wg-attic-7"), "wg-attic-7", "no device bears it");
        assert_eq!(text(&mut Redactor::new("attic-7", ["wg-attic-7"]), "wg-attic-7"), "wg-router");
        let version = file(&mut r, "/proc/version", "Linux version 6.1.0 (anna@attic-7) (gcc) #1");
        assert_eq!(version, "Linux version 6.1.0 (builder@host) (gcc) #1");
    }

    #[test]
    fn ids_keep_their_form() {
        let mut r = Redactor::new("attic", []);
        let id = r.file(Path::new("/etc/machine-id"), b"0123456789abcdef0123456789abcdef\n");
        assert_eq!(id, b"00000000000000000000000000000001\n");
        assert_eq!(r.file(Path::new("/proc/sys/kernel/hostname"), b"attic\n"), b"router\n");
        assert_eq!(r.file(Path::new("/etc/hosts"), b"127.0.1.1 attic\n"), b"# left out\n");
        assert_eq!(r.file(Path::new("/proc/device-tree/model"), b"attic 4"), b"attic 4");
        assert_eq!(
            r.file(Path::new("/etc/os-release"), b"ID=\"5.10.1.2\"\n"),
            b"ID=\"5.10.1.2\"\n"
        );
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_default_route_is_still_one() {
        let mut r = Redactor::new("attic", []);
        let routes = b"Iface\tDestination\tGateway\nwan\t00000000\t0107A8C0\t0003\n";
        let clean = r.file(Path::new("/proc/net/route"), routes);
        assert_eq!(clean, b"Iface\tDestination\tGateway\nwan\t00000000\t0101A8C0\t0003\n");
    }
}
