//! A router full of secrets, captured: none survives in the file, neither whole nor in part, and what
//! the planner needs is still there.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use linerate::machine::capture::Capture;
use linerate::machine::capture::redact::kept;
use linerate::machine::discover::{condition, snapshot};
use linerate::machine::host::{Archive, HostRead, Tree};

use crate::capture::{script, unpacked};

/// Options that hold something of somebody's.
const OPTIONS: &[&str] = &[
    "password",
    "key",
    "psk",
    "pin",
    "apn",
    "user",
    "username",
    "identity",
    "private_key",
    "public_key",
    "preshared_key",
    "endpoint_host",
    "service",
    "ac",
    "dialnumber",
    "clientid",
    "hostname",
    "sendopts",
    "auth",
    "description",
    "token",
    "proto_password",
    "wpa_psk",
    "anonymous_identity",
    "ca_cert",
];

/// The machine and its secrets.
struct Owner {
    root: PathBuf,
    secrets: Vec<String>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.root));
    }
}

impl Owner {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        let mut owner = Self { root, secrets: Vec::new() };
        owner.write();
        owner
    }

    /// A new secret of two halves, each of which would be one.
    fn secret(&mut self, between: &str) -> String {
        let n = self.secrets.len() / 2;
        let (head, tail) = (format!("Ga{n:03}hy"), format!("Wi{n:03}to"));
        self.secrets.extend([head.clone(), tail.clone()]);
        format!("{head}{between}{tail}")
    }

    /// A secret that has a form of its own.
    fn formed(&mut self, text: &str) -> String {
        self.secrets.push(text.to_owned());
        text.to_owned()
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn write(&mut self) {
        self.put("proc/sys/kernel/hostname", "annas-router\n");
        self.put("proc/sys/kernel/osrelease", "6.6.30\n");
        self.put("sys/devices/system/cpu/online", "0-1\n");
        self.put("sys/devices/system/cpu/present", "0-1\n");
        self.secrets.extend(["annas-router".to_owned(), "Annas-Router".to_owned()]);
        self.device();
        let network = self.network();
        self.put("etc/config/network", network);
        let firewall = format!(
            "config defaults\n\toption flow_offloading '1'\nconfig zone\n\toption name 'wan'\n\
                 \tlist network 'wan'\n\toption masq '1'\nconfig zone\n\toption name '{}'\n\
                 config rule\n\toption name '{}'\n\toption src '{}'\n\toption dest_ip '{}'\n",
            self.secret("_"),
            self.secret(" "),
            self.secret(""),
            self.formed("84.77.66.55"),
        );
        self.put("etc/config/firewall", firewall);
        self.put("etc/config/irqbalance", "config irqbalance 'irqbalance'\n\toption enabled '1'\n");
        self.texts();
    }

    fn device(&mut self) {
        let at = "sys/devices/pci0000:00/0000:00:03.0/net/eth0";
        self.put(&format!("{at}/address"), "a8:a1:59:01:02:03\n");
        self.put(&format!("{at}/mtu"), "1500\n");
        let alias = self.secret(" ");
        self.put(&format!("{at}/ifalias"), format!("{alias}\n"));
        std::fs::create_dir_all(self.root.join("sys/class/net")).unwrap();
        let link = "../../devices/pci0000:00/0000:00:03.0/net/eth0";
        std::os::unix::fs::symlink(link, self.root.join("sys/class/net/eth0")).unwrap();
    }

    /// Every option in every quoting, and addresses in every spelling.
    fn network(&mut self) -> String {
        let mut text = format!("# {}\n", self.secret(" "));
        text += "config interface 'wan'\n\toption device 'eth0'\n\toption proto 'static'\n";
        for option in OPTIONS {
            let [a, b, c, d] = [" ", "'\\''", "\\\"", "\\ "].map(|between| self.secret(between));
            let [e, f, g, h] = ["\n", "{", ";", "#"].map(|between| self.secret(between));
            write!(
                text,
                "\toption {option} '{a}'\n\tlist {option} '{b}'\n\to {option} \"{c}\"\n\
                 \toption {option} {d}\n  option   {option}\t'{e}' # {}\n\toption {option} {{{f}}}\n\
                 \toption '{option}' '[{g}'; option {option} \"{h}\"\n",
                self.secret(":")
            )
            .unwrap();
        }
        for mac in ["A8:A1:59:01:02:03", "a8-a1-59-01-02-03", "a8a1.5901.0203", "a8a159010203"] {
            writeln!(text, "\toption macaddr '{mac}'").unwrap();
        }
        for mac in ["00-11-22-33-44-55", "001122334455", "x_a8-a1-59-01-02-03_y"] {
            writeln!(text, "\toption ifname 'lan-{mac}'").unwrap();
        }
        for address in
            ["84.12.3.4", "84.12.3.4:51820", "84.12.3.4/24 84.12.3.5", "2a02:1:2:3::5/64"]
        {
            writeln!(text, "\toption ipaddr '{address}'\n\tlist unknown {address}").unwrap();
        }
        self.secrets.extend(["84.12.3".to_owned(), "2a02:1:2:3".to_owned()]);
        let url = format!("https://{}@{}/", self.secret(":"), self.secret("."));
        writeln!(text, "\tlist server '{url}'\n\toption device '{url}'").unwrap();
        writeln!(text, "\toption ifname 'wg-Annas-Router2'").unwrap();
        writeln!(text, "config wireguard_wg0 '{}'", self.secret("_")).unwrap();
        writeln!(text, "\toption duid '{}'", self.formed("000100012ab3c4d5a8a159010203")).unwrap();
        writeln!(text, "\toption phone '{}'", self.formed("+4930123456789")).unwrap();
        // A quote that nothing ends.
        writeln!(text, "config interface 'z'\n\toption proto '{}", self.secret("\n")).unwrap();
        text
    }

    fn texts(&mut self) {
        let json = format!(
            "{{\"model\":{{\"id\":\"acme,x\",\"name\":\"Acme X\"}},\"credentials\":{{\"root\":\"{}\",\
             \"list\":[{{\"name\":\"x\"}},\"{}\"],\"pin\":{}}},\"network\":{{\"wan\":{{\"device\":\
             \"eth0\",\"macaddr\":\"a8:a1:59:01:02:03\"}}}},\"system\":{{\"label\":\"{}\"}}}}",
            self.secret("\\\""),
            self.secret(" "),
            self.formed("73519204"),
            self.secret(" "),
        );
        self.put("etc/board.json", json);
        let line = format!(
            "console=ttyS0,115200 isolcpus=1 {} x={} \"y={}\" ip=84.12.3.4:84.12.3.5::255.0.0.0 \
             host=annas-router -- {}\n",
            self.secret(""),
            self.secret(","),
            self.secret(" "),
            self.secret(""),
        );
        self.put("proc/cmdline", line);
        let serial = self.formed("10000000abcdef12");
        self.put("proc/cpuinfo", format!("processor\t: 0\nSerial\t\t: {serial}\n"));
        self.put("proc/version", "Linux version 6.6.30 (anna@annas-router) (gcc) #1 SMP PREEMPT\n");
        self.secrets.push("anna@".into());
        let release =
            format!("NAME='OpenWrt'\nOWNER='{}'\n# {}\n", self.secret(" "), self.secret(" "));
        self.put("etc/os-release", &release);
        self.put("etc/openwrt_release", release.replace("NAME", "DISTRIB_ID"));
        let facts = format!("# {}\n", self.secret(" "));
        self.put("etc/linerate/boards.d/own.toml", facts);
        self.put("sys/firmware/devicetree/base/serial-number", format!("{serial}\0"));
        let script = format!(
            "#!/bin/sh\ncurl -u {} https://x/irq # smp_affinity\necho 2 > /proc/irq/24/smp_affinity # {}\n\
             PASS={}; echo f > $q/rps_cpus\necho {} > /proc/irq/25/smp_affinity\n\
             wget http://{}/rps_cpus?scaling_governor\ngcom pin {}; echo 1 > /proc/irq/26/smp_affinity\n",
            self.secret(":"),
            self.secret(" "),
            self.secret(""),
            self.secret(""),
            self.secret("@"),
            self.formed("84039"),
        );
        for path in [
            "rc.local",
            "hotplug.d/net/20-x",
            "hotplug.d/iface/20-x",
            "udev/rules.d/x.rules",
            "networkd-dispatcher/routable.d/x",
            "NetworkManager/dispatcher.d/x",
            "network/if-up.d/x",
            "init.d/smp_affinity",
        ] {
            self.put(&format!("etc/{path}"), &script);
        }
        self.others();
        let secret = self.secret(" ");
        self.put("etc/default/irqbalance", format!("# {secret}\nIRQBALANCE_BANNED_CPULIST=1\n"));
        let words = [
            "pppd",
            "nic-eth0",
            "user",
            &self.secret("@"),
            "password",
            &self.secret(""),
            "ifname",
            "pppoe-wan",
        ];
        self.put("proc/77/cmdline", words.join("\0") + "\0");
        self.put("proc/77/comm", "pppd\n");
        let staged = format!("network.wan.password='{}'\n", self.secret(" "));
        self.put("tmp/.uci/network", staged + "network.cfg01.packet_steering='2'\n");
    }

    /// Files of other programs, and the name of one, none of which is anybody else's business.
    fn others(&mut self) {
        for (path, text) in [
            ("etc/config/wireless", "config wifi-iface\n\toption ssid '%'\n\toption key \"%\"\n"),
            ("tmp/.uci/wireless", "wireless.cfg01.key='%'\n"),
            ("etc/wpa_supplicant/wpa_supplicant.conf", "network={\n ssid=\"%\"\n psk=\"%\"\n}\n"),
            ("etc/wireguard/wg0.conf", "[Peer]\nPresharedKey = %\nEndpoint = %:51820\n"),
            ("etc/ppp/chap-secrets", "\"%\" * \"%\" *\n"),
            ("etc/ipsec.secrets", "% : PSK \"%\"\n"),
            ("etc/swanctl/swanctl.conf", "secrets { eap-a { id = %; secret = % } }\n"),
            (
                "etc/netplan/01.yaml",
                "wifis: {wlan0: {access-points: {\"%\": {password: \"%\"}}}}\n",
            ),
            ("etc/systemd/network/wg0.netdev", "[WireGuard]\nPrivateKey=%\n"),
            ("etc/NetworkManager/system-connections/x.nmconnection", "[wifi-security]\npsk=%\n"),
            ("etc/openvpn/client.conf", "auth-user-pass %\n<key>\n%\n</key>\n"),
            ("proc/78/comm", "%\n"),
            ("proc/79/comm", "pppd %\n"),
        ] {
            let parts: Vec<&str> = text.split('%').collect();
            let mut whole = parts[0].to_owned();
            for part in &parts[1..] {
                whole += &self.secret("");
                whole += part;
            }
            self.put(path, whole);
        }
    }

    /// Fails if something of the owner's is in the capture.
    fn is_in_none_of(&self, packed: &[u8], kept: &[&str]) {
        let heap = String::from_utf8_lossy(&unpacked(packed)).to_lowercase();
        let joined: String = heap.chars().filter(|c| !":-._".contains(*c)).collect();
        assert!(self.secrets.len() > 400, "{}", self.secrets.len());
        for secret in self.secrets.iter().filter(|s| !kept.contains(&s.as_str())) {
            if let Some(at) = heap.find(&secret.to_lowercase()) {
                let from = heap[..at].char_indices().rev().nth(80).map_or(0, |(at, _)| at);
                panic!("{secret} survives: {:?}", &heap[from..at + secret.len()]);
            }
        }
        for mac in ["a8a159010203", "001122334455"] {
            assert!(!joined.contains(mac), "{mac} survives");
        }
    }
}

#[test]
fn no_secret_of_two_hundred_survives_a_capture() {
    let owner = Owner::new("secrets");
    let tree = Tree::open(&owner.root).unwrap();
    let capture = Capture::take(&tree, |door| {
        let found = snapshot(door);
        drop(condition(door, &found));
        for path in
            ["/sys/class/net/eth0/address", "/sys/class/net/eth0/ifalias", "/proc/77/cmdline"]
        {
            door.read(Path::new(path)).unwrap();
        }
    });
    let (packed, _) = capture.pack(&mut capture.redactor()).unwrap();
    owner.is_in_none_of(&packed, &[]);
    let again = Archive::from_bytes(&packed).unwrap();
    // What the planner goes by is as it was.
    let (seen, live) = (snapshot(&again), snapshot(&tree));
    assert_eq!(seen.path.openwrt, live.path.openwrt);
    assert!(seen.path.openwrt.len() >= 2, "{:?}", seen.path.openwrt);
    assert_eq!(seen.stack, live.stack);
    let sets = |s: &linerate::model::snapshot::Snapshot| -> Vec<_> {
        s.services.iter().map(|service| (service.name.clone(), service.sets.clone())).collect()
    };
    assert_eq!(sets(&seen), sets(&live));
    assert!(!sets(&live).is_empty());
}

#[test]
fn the_script_keeps_secrets_out_as_well() {
    let owner = Owner::new("script-secrets");
    let file = owner.root.join("capture.tar.gz");
    let args = ["-r", owner.root.to_str().unwrap(), "-o", file.to_str().unwrap(), "-n", "0"];
    let Some(made) = script(&args) else {
        eprintln!("SKIPPED the_script_keeps_secrets_out_as_well: no busybox");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let packed = std::fs::read(&file).unwrap();
    owner.is_in_none_of(&packed, &[]);
    let again = Archive::from_bytes(&packed).unwrap();
    let network = again.text(Path::new("/etc/config/network")).unwrap();
    assert!(network.contains("config interface 'wan'\n\toption device 'eth0'"), "{network}");
    let board = again.text(Path::new("/etc/board.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    assert_eq!(board["model"]["name"], "Acme X");
    assert_eq!(board["network"]["wan"]["device"], "eth0");
    let line = again.text(Path::new("/proc/cmdline")).unwrap();
    assert!(line.starts_with("console=ttyS0,115200 isolcpus=1 redacted-"), "{line}");
}

#[test]
fn the_script_keeps_what_the_program_keeps() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/capture.sh");
    let text = std::fs::read_to_string(path).unwrap();
    let lists = text.split("<<'LISTS'\n").nth(1).unwrap().split("LISTS").next().unwrap();
    let of_script = |kind: &str| -> Vec<&str> {
        let lines =
            lists.lines().filter_map(|line| line.split_once(' ').filter(|(k, _)| *k == kind));
        lines.flat_map(|(_, words)| words.split(' ')).collect()
    };
    for (kind, words) in [
        ("options", kept::OPTIONS),
        ("named", kept::NAMED),
        ("zones", kept::ZONES),
        ("board", kept::BOARD),
        ("release", kept::RELEASE),
    ] {
        assert_eq!(of_script(kind), words.split(' ').collect::<Vec<_>>(), "{kind}");
    }
    assert_eq!(of_script("boot"), kept::boot_parameters().collect::<Vec<_>>());
}
