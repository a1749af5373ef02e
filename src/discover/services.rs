//! Programs and scripts that set what we set: whoever wins last wins, unless one is stopped.

use std::path::Path;

use super::openwrt::OpenWrt;
use super::processes::{Process, arguments};
use super::text;
use crate::host::HostRead;
use crate::model::path::Service;

/// Running programs, and what they do to our settings.
const PROGRAMS: &[(&str, &str)] = &[
    ("irqbalance", "moves interrupts"),
    ("tuned", "sets governor, interrupts and sysctls by its profile"),
    ("NetworkManager", "sets offloads, rings and coalescing where a connection says so"),
    ("bpftune", "sets sysctls by what it sees"),
];

/// Places of scripts that set steering; each file in a directory that has one of the words.
const SCRIPTS: &[&str] = &[
    "/etc/rc.local",
    "/etc/hotplug.d/net",
    "/etc/hotplug.d/iface",
    "/etc/udev/rules.d",
    "/etc/init.d/smp_affinity",
    "/etc/init.d/set_smp_affinity",
    "/usr/libexec/platform/packet-steering.sh",
    "/etc/networkd-dispatcher/routable.d",
    "/etc/NetworkManager/dispatcher.d",
    "/etc/network/if-up.d",
];

const WORDS: &[(&str, &str)] = &[
    ("smp_affinity", "interrupts"),
    ("rps_cpus", "RPS"),
    ("xps_cpus", "XPS"),
    ("rps_flow_cnt", "RFS"),
    ("scaling_governor", "the governor"),
];

pub(super) fn discover(
    host: &dyn HostRead,
    processes: &[Process],
    openwrt: &OpenWrt,
) -> Vec<Service> {
    let mut found = Vec::new();
    for process in processes {
        let Some((name, effect)) = PROGRAMS.iter().find(|(name, _)| *name == process.name) else {
            continue;
        };
        let mut evidence = format!("process {}", process.pid);
        if *name == "irqbalance" {
            let bans = bans(host, process.pid, openwrt);
            if !bans.is_empty() {
                evidence = format!("{evidence}; leaves alone {}", bans.join(", "));
            }
        }
        if *name == "tuned" {
            let profile = text(host, Path::new("/etc/tuned/active_profile"));
            evidence.extend(profile.map(|p| format!("; profile {p}")));
        }
        add(&mut found, name, effect, evidence);
    }
    steering(host, openwrt, &mut found);
    let enabled = openwrt.irqbalance().is_some_and(|(enabled, _)| enabled);
    if enabled && !found.iter().any(|s| s.name == "irqbalance") {
        add(
            &mut found,
            "irqbalance",
            "moves interrupts",
            "enabled in /etc/config/irqbalance".into(),
        );
    }
    for place in SCRIPTS {
        scripts(host, Path::new(place), &mut found);
    }
    found
}

/// OpenWrt's own: from 24.10 on (which brought the ucode script) unset means on.
fn steering(host: &dyn HostRead, openwrt: &OpenWrt, found: &mut Vec<Service>) {
    let script = Path::new("/usr/libexec/network/packet-steering.uc");
    let by_default = host.read(script).is_ok();
    let (on, evidence) = match openwrt.global("packet_steering") {
        Some(value) => (value != "0", format!("network.globals.packet_steering={value}")),
        None => (by_default, "network.globals.packet_steering unset, which is 1 here".to_owned()),
    };
    if openwrt.is_there() && on {
        add(found, "OpenWrt packet steering", "rewrites RPS on every interface event", evidence);
    }
}

fn bans(host: &dyn HostRead, pid: u32, openwrt: &OpenWrt) -> Vec<String> {
    let words = arguments(host, pid);
    let mut bans: Vec<String> = words
        .iter()
        .enumerate()
        .filter_map(|(at, word)| match word.strip_prefix("--banirq") {
            Some("") => words.get(at + 1).cloned(),
            Some(value) => value.strip_prefix('=').map(str::to_owned),
            None => None,
        })
        .map(|line| format!("irq {line}"))
        .collect();
    let listed = openwrt.irqbalance().map(|(_, bans)| bans).unwrap_or_default();
    bans.extend(listed.iter().map(|line| format!("irq {line}")));
    for file in ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"] {
        let text = text(host, Path::new(file)).unwrap_or_default();
        let set = text.lines().map(str::trim).filter(|l| l.starts_with("IRQBALANCE_BANNED"));
        bans.extend(set.map(str::to_owned));
    }
    bans
}

/// One script, or those of a directory.
fn scripts(host: &dyn HostRead, place: &Path, found: &mut Vec<Service>) {
    let files = match host.list(place) {
        Ok(names) => names.iter().map(|name| place.join(name)).collect(),
        Err(_) => vec![place.to_owned()],
    };
    for file in files {
        let script = text(host, &file).unwrap_or_default();
        let live: Vec<&str> =
            script.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
        let sets: Vec<&str> = WORDS
            .iter()
            .filter(|(word, _)| live.iter().any(|line| line.contains(word)))
            .map(|(_, what)| *what)
            .collect();
        if !sets.is_empty() {
            let name = file.display().to_string();
            add(found, &name, &format!("sets {}", sets.join(", ")), "words in the script".into());
        }
    }
}

fn add(found: &mut Vec<Service>, name: &str, effect: &str, evidence: String) {
    found.push(Service { name: name.to_owned(), effect: effect.to_owned(), evidence });
}
