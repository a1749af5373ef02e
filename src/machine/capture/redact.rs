//! Redaction: a capture loses all that tells whose router it is: hardware and IP addresses, the host's name,
//! serial numbers, ids and secrets, each replaced by a stand-in. Within one capture equal stays
//! equal, addresses of one network stay in one network, and private stays private, so the capture
//! still explains itself. The table of stand-ins is never written.
//!
//! Kept as they are: loopback, unspecified, broadcast and multicast addresses, net masks, and those
//! set aside for documentation and benchmarks (RFC 2544, 3849, 5737).

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

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

/// Names of settings with a secret, or with a name of the owner's.
const SECRET_PARTS: &[&str] = &[
    "psk",
    "passw",
    "passphrase",
    "secret",
    "private",
    "public_key",
    "presharedkey",
    "preshared",
    "token",
    "username",
    "serial",
    "ssid",
    "endpoint_host",
    "hostname",
    "domain",
    "credential",
];
const SECRET_NAMES: &[&str] =
    &["key", "key1", "key2", "key3", "key4", "sae", "host", "fqdn", "apikey", "api_key", "pin"];

/// Where scripts lie.
const SCRIPTS: &[&str] = &["/etc/rc.local", "/etc/init.d", "/etc/hotplug.d"];

/// Subjects for which a line of a script stays.
const ABOUT: &[&str] = &[
    "affinity", "irq", "rps", "xps", "flow_cnt", "governor", "cpufreq", "ethtool", "sysctl",
    "threaded", "napi", "offload", "qdisc",
];

/// Replaces what identifies, the same by the same.
#[derive(Debug, Default)]
pub struct Redactor {
    hostname: String,
    macs: HashMap<[u8; 6], u32>,
    /// By what they are for, then by their first three bytes.
    networks4: HashMap<[u8; 4], HashMap<[u8; 3], u32>>,
    hosts4: HashMap<[u8; 3], HashMap<u8, u32>>,
    networks6: HashMap<u64, u32>,
    hosts6: HashMap<u128, u32>,
    ids: HashMap<Vec<u8>, u32>,
}

impl Redactor {
    /// For a machine of that name.
    #[must_use]
    pub fn new(hostname: &str) -> Self {
        let common = COMMON_NAMES.contains(&hostname.to_ascii_lowercase().as_str());
        let hostname = if common { String::new() } else { hostname.to_owned() };
        Self { hostname, ..Self::default() }
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
        if is_free_of_addresses(path, &name) {
            return content.to_vec();
        }
        if ID_FILES.contains(&name.as_str()) {
            return self.id_file(content);
        }
        if name == "hostname" && !self.hostname.is_empty() {
            return b"router\n".to_vec();
        }
        let has_settings = path.starts_with("/etc")
            || path == Path::new("/proc/cmdline")
            || path == Path::new("/proc/cpuinfo");
        // Scripts can hold anything; only what sets the things that we look at is wanted.
        let scripts = SCRIPTS.iter().any(|place| path.starts_with(place));
        let mut clean = Vec::with_capacity(content.len());
        for line in content.split_inclusive(|b| *b == b'\n') {
            if scripts && !about_us(line) {
                clean.extend(b"# left out\n");
            } else if has_settings {
                let line = self.settings(line);
                clean.extend(self.words(&line, true));
            } else {
                clean.extend(self.text(line));
            }
        }
        if path.ends_with("net/route") { self.hex_routes(&clean) } else { clean }
    }

    /// Text without keys of its own: paths, names, netlink answers.
    #[must_use]
    pub fn text(&mut self, text: &[u8]) -> Vec<u8> {
        self.words(text, false)
    }

    /// With the host's name only where people write: many routers are named after their board,
    /// which is worth knowing.
    fn words(&mut self, text: &[u8], with_name: bool) -> Vec<u8> {
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
            if with_name && !self.hostname.is_empty() && word == self.hostname.as_bytes() {
                clean.extend(b"router");
            } else {
                clean.extend(self.word(word));
            }
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
        let address = self.v4(address)?;
        Some([address.as_slice(), port].concat())
    }

    fn address(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        self.mac(word)
            .or_else(|| self.v4(word))
            .or_else(|| self.v6(word))
            .or_else(|| self.named_by_mac(word))
            .or_else(|| self.uuid(word))
            .or_else(|| self.bare_v6(word))
    }

    /// `02:00:5e:10:00:01`, also with dashes.
    fn mac(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        let separator = *word.get(2)?;
        if word.len() != 17 || !matches!(separator, b':' | b'-') {
            return None;
        }
        let mut mac = [0; 6];
        for (byte, part) in mac.iter_mut().zip(word.split(|b| *b == separator)) {
            *byte = hex_byte(part)?;
        }
        let text = self.stand_in_mac(mac);
        let parts: Vec<String> = text.iter().map(|b| format!("{b:02x}")).collect();
        Some(parts.join(if separator == b':' { ":" } else { "-" }).into_bytes())
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

    /// `option psk 'x'`, `wpa_passphrase=x`, `"token": "x"`, `Serial : x`: the value goes.
    fn settings(&mut self, line: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(line.len());
        let mut rest = line;
        while let Some(first) = rest.first() {
            let length = rest.iter().take_while(|b| is_wordy(**b) && **b != b':').count();
            if length == 0 {
                clean.push(*first);
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let (word, after) = rest.split_at(length);
            clean.extend(word);
            rest = after;
            if is_secret(word) {
                let (gap, value) = value_of(after);
                if !value.is_empty() {
                    clean.extend(after.get(..gap).unwrap_or_default());
                    let n = number(&mut self.ids, value.to_vec());
                    clean.extend(format!("redacted-{n}").into_bytes());
                    rest = after.get(gap + value.len()..).unwrap_or_default();
                }
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

fn about_us(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.starts_with("#!") || ABOUT.iter().any(|word| line.contains(word))
}

fn is_wordy(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_')
}

fn is_secret(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let name = name.trim_matches('.');
    // `kernel.serial=`, but not `console=serial0`: that is a value, and nothing follows it.
    SECRET_NAMES.contains(&name) || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// Where a setting's value begins after its name, and the value.
fn value_of(after: &[u8]) -> (usize, &[u8]) {
    let between = |b: &u8| matches!(b, b' ' | b'\t' | b'\'' | b'"' | b'=' | b':');
    let gap = after.iter().take_while(|b| between(b)).count();
    let (lead, value) = after.split_at(gap);
    let quote = lead.iter().rev().find(|b| matches!(b, b'\'' | b'"'));
    // A JSON name's closing quote is no opening one: `"token": 5`.
    let quoted = quote.filter(|_| lead.last().is_some_and(|l| matches!(l, b'\'' | b'"')));
    let end = value.iter().position(|b| match quoted {
        Some(quote) => b == quote || *b == b'\n',
        None => matches!(b, b' ' | b'\t' | b'\n' | b',' | b'}' | b'\'' | b'"'),
    });
    let value = value.get(..end.unwrap_or(value.len())).unwrap_or_default();
    // `"key": {`, `option key '1'` (which of four keys), yes and no: nothing to hide.
    let plain = value.len() < 2 || value.first().is_some_and(|b| matches!(b, b'{' | b'['));
    if gap == 0 || plain { (gap, &[]) } else { (gap, value) }
}

/// Versions look like addresses: files where they stand and addresses do not.
fn is_free_of_addresses(path: &Path, name: &str) -> bool {
    path.starts_with("/boot")
        || matches!(name, "config.gz" | "os-release" | "osrelease" | "version" | "openwrt_release")
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
        let mut r = Redactor::new("attic");
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
        let mut r = Redactor::new("OpenWrt");
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

    #[test]
    fn secrets_in_settings_go() {
        let mut r = Redactor::new("attic");
        let uci = b"config wifi-iface\n\toption key 'hunter2 and more'\n\toption ssid \"Annas\"\n\
            \toption encryption 'psk2'\n\tlist private_key abc=\n\toption username 'me@isp'\n\
            \toption password 'hunter2 and more'\n\toption key '1'\n\toption proto 'static'\n";
        let clean = r.file(Path::new("/etc/config/wireless"), uci);
        assert_eq!(
            String::from_utf8(clean).unwrap(),
            "config wifi-iface\n\toption key 'redacted-1'\n\toption ssid \"redacted-2\"\n\
            \toption encryption 'psk2'\n\tlist private_key redacted-3\n\toption username 'redacted-4'\n\
            \toption password 'redacted-1'\n\toption key '1'\n\toption proto 'static'\n"
        );
        let json = br#"{"credentials":{"root_password_hash":"$1$x"},"network":{"lan":{"macaddr":"a8:a1:59:01:02:03"}}}"#;
        let clean = String::from_utf8(r.file(Path::new("/etc/board.json"), json)).unwrap();
        assert!(!clean.contains("$1$x") && !clean.contains("a8:a1"), "{clean}");
        assert!(serde_json::from_str::<serde_json::Value>(&clean).is_ok(), "{clean}");
        let line = r.file(Path::new("/proc/cmdline"), b"console=serial0,115200 smsc95xx.macaddr=DC:A6:32:00:00:01 x.serial=0x1234 root=UUID=01234567-89ab-cdef-0123-456789abcdef\n");
        let line = String::from_utf8(line).unwrap();
        assert!(line.starts_with("console=serial0,115200 "), "{line}");
        assert!(
            !line.contains("DC:A6") && !line.contains("1234 ") && !line.contains("89ab"),
            "{line}"
        );
        let info =
            r.file(Path::new("/proc/cpuinfo"), b"Serial\t\t: 10000000abcdef12\nmodel name : x\n");
        assert!(String::from_utf8(info).unwrap().starts_with("Serial\t\t: redacted-"));
    }

    #[test]
    fn of_scripts_only_what_matters_here_stays() {
        let mut r = Redactor::new("attic");
        let script = b"#!/bin/sh\ncurl -u me:geheim x\necho 2 > /proc/irq/24/smp_affinity\n";
        let script = r.file(Path::new("/etc/rc.local"), script);
        assert_eq!(script, b"#!/bin/sh\n# left out\necho 2 > /proc/irq/24/smp_affinity\n");
    }

    #[test]
    fn ids_keep_their_form() {
        let mut r = Redactor::new("attic");
        let id = r.file(Path::new("/etc/machine-id"), b"0123456789abcdef0123456789abcdef\n");
        assert_eq!(id, b"00000000000000000000000000000001\n");
        assert_eq!(r.file(Path::new("/proc/sys/kernel/hostname"), b"attic\n"), b"router\n");
        assert_eq!(r.file(Path::new("/etc/hosts"), b"127.0.1.1 attic\n"), b"127.0.1.1 router\n");
        assert_eq!(r.file(Path::new("/proc/device-tree/model"), b"attic 4"), b"attic 4");
        assert_eq!(r.file(Path::new("/etc/os-release"), b"V=\"5.10.1.2\"\n"), b"V=\"5.10.1.2\"\n");
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_default_route_is_still_one() {
        let mut r = Redactor::new("attic");
        let routes = b"Iface\tDestination\tGateway\nwan\t00000000\t0107A8C0\t0003\n";
        let clean = r.file(Path::new("/proc/net/route"), routes);
        assert_eq!(clean, b"Iface\tDestination\tGateway\nwan\t00000000\t0101A8C0\t0003\n");
    }
}
