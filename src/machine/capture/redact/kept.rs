//! Files that people write, by allow-lists: what is known to be harmless stays, addresses and names
//! in it replaced; every other value goes. `packaging/capture.sh` has the same lists
//! (`tests/live/capture.rs` holds them equal).

use std::path::Path;

use serde_json::Value;

use super::Redactor;
use crate::machine::parse::{cmdline, uci};

/// Options of OpenWrt's configuration whose values are kept.
pub const OPTIONS: &str = "\
    auto autoneg banirq banmodule bridge_empty broadcast conduit deepestcache defaultroute \
    delegate dest device disabled drop_invalid duplex enable_vlan enabled family \
    flow_offloading flow_offloading_hw forward fullcone gateway ifname igmp_snooping input \
    interval ip6addr ip6assign ip6gw ip6hint ip6prefix ipaddr ipv6 macaddr masq masq6 metric \
    mtu mtu6 mtu_fix name netmask network output packet_steering peerdns ports powerthresh \
    proto reset rxpause speed src steering_flows stp syn_flood synflood_protect txpause \
    txqueuelen type ula_prefix vid vlan vlan_filtering";

/// Kinds of sections whose names are kept: they are names of devices, or OpenWrt's own.
pub const NAMED: &str = "\
    bridge-vlan defaults device globals interface irqbalance switch switch_vlan zone";

/// Names of firewall zones that say nothing of anybody.
pub const ZONES: &str = "\
    * dmz docker guest iot lan modem vpn wan wan6 wwan";

/// Parameters of the kernel that are kept, beside those that `show` tells.
const BOOT: &str = "\
    coherent_pool console debug earlycon net.ifnames noinitrd panic quiet ro rootfstype \
    rootwait rw splash";

/// All parameters of the kernel that are kept.
pub fn boot_parameters() -> impl Iterator<Item = &'static str> {
    cmdline::PARAMETERS.iter().copied().chain(BOOT.split(' '))
}

/// Keys of board.json whose values are kept.
pub const BOARD: &str = "\
    device id ifname index macaddr name need_tag num ports protocol role want_untag";

/// Lines of the files that name a release.
pub const RELEASE: &str = "\
    BUILD_ID DISTRIB_ARCH DISTRIB_DESCRIPTION DISTRIB_ID DISTRIB_RELEASE DISTRIB_REVISION \
    DISTRIB_TARGET ID ID_LIKE NAME PRETTY_NAME VERSION VERSION_CODENAME VERSION_ID";

/// Files and settings that a line of a script is kept for.
const SETTINGS: &str = "\
    smp_affinity smp_affinity_list default_smp_affinity rps_cpus xps_cpus xps_rxqs \
    rps_flow_cnt rps_sock_flow_entries scaling_governor threaded gro_flush_timeout \
    napi_defer_hard_irqs netdev_budget netdev_budget_usecs netdev_max_backlog \
    scaling_min_freq scaling_max_freq";

impl Redactor {
    /// A file that people write.
    pub(super) fn written(&mut self, path: &Path, content: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(content);
        let clean = match path.to_str().unwrap_or_default() {
            "/proc/cmdline" => self.boot(content),
            "/etc/board.json" => self.board(content),
            "/etc/openwrt_release" => self.lines(&text, |line| is_named(line, RELEASE)),
            "/etc/default/irqbalance" | "/etc/sysconfig/irqbalance" => {
                self.lines(&text, |line| line.starts_with("IRQBALANCE_BANNED"))
            }
            "/etc/tuned/active_profile" | "/etc/hostname" => self.lines(&text, |_| true),
            name if name.ends_with("/os-release") => {
                self.lines(&text, |line| is_named(line, RELEASE))
            }
            name if name.starts_with("/etc/linerate/") => {
                self.lines(&text, |line| !line.trim_start().starts_with('#'))
            }
            name if name.starts_with("/etc/config/") => self.sections(content),
            name if name.starts_with("/tmp/.uci/") => self.staged(content),
            name if name.starts_with("/proc/") => return self.arguments(content),
            _ => self.script(&text),
        };
        clean.into_bytes()
    }

    /// Lines that are wanted, without the host's name.
    fn lines(&mut self, text: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let lines = text.split_inclusive('\n').filter(|line| is_wanted(line));
        String::from_utf8_lossy(&self.nameless(lines.collect::<String>().as_bytes())).into_owned()
    }

    /// A value that may stay, without addresses and the host's name.
    fn harmless(&mut self, value: &str) -> String {
        let named = self.nameless(value.as_bytes());
        String::from_utf8_lossy(&self.words(&named)).into_owned()
    }

    fn hidden(&mut self, value: &str) -> String {
        match value {
            "" => String::new(),
            value => {
                format!("redacted-{}", super::number(&mut self.ids, value.as_bytes().to_vec()))
            }
        }
    }

    /// A file of OpenWrt's configuration, written anew. What is no statement is left out.
    fn sections(&mut self, content: &[u8]) -> String {
        let mut clean = String::new();
        let mut kind = String::new();
        for words in uci::statements(content) {
            let mut words = words.iter().map(String::as_str);
            let line = match (words.next().and_then(uci::keyword), words.next(), words.next()) {
                (Some("package"), ..) | (None, ..) | (_, None, _) => continue,
                (Some("config"), Some(named), name) => {
                    kind = self.kind(named);
                    let name = name.filter(|name| !name.is_empty());
                    let name = name.map(|name| quoted(&self.section_name(named, name)));
                    format!(
                        "\nconfig {kind}{}\n",
                        name.map(|n| format!(" {n}")).unwrap_or_default()
                    )
                }
                (Some(keyword), Some(option), value) => {
                    let value = self.option(&kind, option, value.unwrap_or_default());
                    format!("\t{keyword} {} {}\n", self.option_name(option), quoted(&value))
                }
            };
            clean.push_str(&line);
        }
        clean
    }

    /// Options that were set and not committed: `package.section.option='value'`.
    fn staged(&mut self, content: &[u8]) -> String {
        let mut clean = String::new();
        for words in uci::statements(content) {
            let whole = words.concat();
            let (place, value) = whole.split_once('=').unwrap_or((&whole, ""));
            let mut parts = place.splitn(3, '.');
            let (Some(package), Some(_), Some(option)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let value = match whole.contains('=') {
                true => format!("={}", quoted(&self.option("", option, value))),
                false => String::new(),
            };
            let option = self.option_name(option);
            clean.push_str(&format!("{}.cfg.{option}{value}\n", self.harmless(package)));
        }
        clean
    }

    /// `wireguard_vpn` names a device, which is known anyhow.
    fn kind(&mut self, kind: &str) -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if kind.len() <= 32 && kind.bytes().all(plain) {
            self.harmless(kind)
        } else {
            self.hidden(kind)
        }
    }

    fn section_name(&mut self, kind: &str, name: &str) -> String {
        if holds(NAMED, kind) { self.harmless(name) } else { self.hidden(name) }
    }

    fn option_name(&mut self, name: &str) -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.len() <= 32 && name.bytes().all(plain) {
            name.to_owned()
        } else {
            self.hidden(name)
        }
    }

    fn option(&mut self, kind: &str, option: &str, value: &str) -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:/ *+-!,".contains(&b);
        let of_zone = option == "src" || option == "dest" || (option == "name" && kind == "zone");
        let is_kept = match option {
            "name" if kind != "zone" => matches!(kind, "device" | "switch"),
            _ if of_zone => holds(ZONES, value),
            _ => holds(OPTIONS, option),
        };
        // `@lan` stands for another network; anywhere else an @ has an account before it.
        let bare = value.strip_prefix('@').unwrap_or(value);
        match is_kept && bare.len() <= 256 && bare.bytes().all(plain) && !bare.contains("//") {
            true => self.harmless(value),
            false => self.hidden(value),
        }
    }

    fn boot(&mut self, content: &[u8]) -> String {
        let words = cmdline::words(content);
        let clean = words.iter().map(|word| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let named = key.rsplit('.').next().unwrap_or_default();
            match boot_parameters().any(|known| known == key) {
                true => self.harmless(word),
                false if named == "macaddr" => format!("{key}={}", self.harmless(value)),
                false if word.contains('=') => {
                    format!("{}={}", self.harmless(key), self.hidden(value))
                }
                false => self.hidden(word),
            }
        });
        clean.collect::<Vec<_>>().join(" ") + "\n"
    }

    /// Arguments of a program, each ended by a zero byte: the program, the devices of pppd, and what
    /// irqbalance leaves alone.
    fn arguments(&mut self, content: &[u8]) -> Vec<u8> {
        let words: Vec<_> = content.split(|b| *b == 0).map(String::from_utf8_lossy).collect();
        let mut before = "";
        let mut clean = Vec::new();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| !word.is_empty()) {
            let keeps = matches!(&**word, "ifname" | "unit" | "--banirq")
                || matches!(before, "ifname" | "unit" | "--banirq");
            let kept =
                keeps || at == 0 || word.starts_with("nic-") || word.starts_with("--banirq=");
            let word_now = if kept { self.harmless(word) } else { self.hidden(word) };
            clean.extend(word_now.into_bytes());
            clean.push(0);
            before = word;
        }
        clean
    }

    fn board(&mut self, content: &[u8]) -> String {
        match serde_json::from_slice::<Value>(content) {
            Ok(value) => self.json("", value).to_string(),
            Err(_) => "{}".to_owned(),
        }
    }

    fn json(&mut self, key: &str, value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let entry =
                    |(key, value): (String, Value)| (self.harmless(&key), self.json(&key, value));
                Value::Object(map.into_iter().map(entry).collect())
            }
            Value::Array(list) => list.into_iter().map(|value| self.json(key, value)).collect(),
            Value::String(text) if holds(BOARD, key) => self.harmless(&text).into(),
            Value::String(text) => self.hidden(&text).into(),
            Value::Number(_) if !holds(BOARD, key) => 0.into(),
            other => other,
        }
    }

    /// The settings that a script writes, and nothing else of its lines.
    fn script(&mut self, text: &str) -> String {
        let mut clean = String::new();
        for line in text.lines().map(str::trim) {
            let code = line.split('#').next().unwrap_or_default();
            let statements = code.split([';', '&', '|', '(', ')', '`']);
            let mut kept: Vec<String> = statements.filter_map(statement).collect();
            if kept.is_empty() && !line.starts_with('#') {
                let named = SETTINGS.split(' ').filter(|name| line.contains(name));
                kept.extend(named.map(|name| format!("echo _ > {name}")));
            }
            match kept.is_empty() {
                true => clean.push_str("# left out"),
                false => clean.push_str(&kept.join("; ")),
            }
            clean.push('\n');
        }
        self.harmless(&clean)
    }
}

/// Command that writes to a kernel file of ours: `echo 2 > /proc/irq/24/smp_affinity`.
fn statement(text: &str) -> Option<String> {
    let words: Vec<&str> =
        text.split([' ', '\t', '"', '\'', '>', '<']).filter(|w| !w.is_empty()).collect();
    let is_setting = |word: &&&str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        let path = ["/proc/irq/", "/proc/sys/net/", "/sys/class/net/", "/sys/devices/", "$"];
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._/$*-:".contains(&b);
        holds(SETTINGS, name)
            && word.len() <= 128
            && word.bytes().all(plain)
            && path.iter().any(|start| word.starts_with(start))
    };
    let place = words.iter().find(is_setting)?;
    let value = words.get(1).filter(|w| words.first() == Some(&"echo") && is_mask(w));
    Some(format!("echo {} > {place}", value.unwrap_or(&"_")))
}

/// Masks, lists, numbers and governors.
fn is_mask(word: &str) -> bool {
    let governors = ["performance", "schedutil", "ondemand", "powersave", "conservative"];
    let mask = |b: u8| b.is_ascii_hexdigit() || matches!(b, b',' | b'-' | b'x');
    governors.contains(&word) || (word.len() <= 10 && word.bytes().all(mask))
}

fn holds(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

fn is_named(line: &str, names: &str) -> bool {
    line.split_once('=').is_some_and(|(name, _)| holds(names, name))
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}
