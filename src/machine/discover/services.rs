//! Programs and scripts that set what this program sets: the last writer wins, unless one is
//! stopped.

use std::path::Path;

use super::openwrt::OpenWrt;
use super::processes::{Process, arguments};
use super::text;
use crate::machine::host::HostRead;
use crate::model::path::{Service, ServiceFound, Sort};

const IRQBALANCE: &str = "irqbalance";

/// Running programs, their effect on our settings, and the settings affected.
const PROGRAMS: &[(&str, &str, &[Sort])] = &[
    ("irqbalance", "moves interrupts", &[Sort::Interrupts]),
    (
        "tuned",
        "sets governor, interrupts and sysctls by its profile",
        &[Sort::Governor, Sort::Interrupts, Sort::Sysctls],
    ),
    (
        "NetworkManager",
        "sets offloads, rings and coalescing where a connection says so",
        &[Sort::Card],
    ),
    ("bpftune", "sets sysctls by what it sees", &[Sort::Sysctls]),
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

const WORDS: &[(&str, &str, Sort)] = &[
    ("smp_affinity", "interrupts", Sort::Interrupts),
    ("rps_cpus", "RPS", Sort::Rps),
    ("xps_cpus", "XPS", Sort::Xps),
    ("rps_flow_cnt", "RFS", Sort::Rfs),
    ("scaling_governor", "the governor", Sort::Governor),
];

pub(super) fn discover(
    host: &dyn HostRead,
    processes: &[Process],
    openwrt: &OpenWrt,
) -> Vec<Service> {
    let mut found = Vec::new();
    for process in processes {
        let Some((name, effect, sets)) = PROGRAMS.iter().find(|(n, ..)| *n == process.name) else {
            continue;
        };
        let mut evidence = format!("process {}", process.pid);
        let mut spares = Vec::new();
        if *name == IRQBALANCE {
            spares = bans(host, process.pid, openwrt);
            if !spares.is_empty() {
                evidence = format!("{evidence}; leaves alone {}", spares.join(", "));
            }
        }
        if *name == "tuned" {
            let profile = text(host, Path::new("/etc/tuned/active_profile"));
            evidence.extend(profile.map(|p| format!("; profile {p}")));
        }
        found.push(Service {
            spares,
            found: ServiceFound::Running,
            ..service(name, effect, evidence, sets)
        });
    }
    found.extend(steering(host, openwrt));
    let enabled = openwrt.irqbalance().is_some_and(|(enabled, _)| enabled);
    if enabled && !found.iter().any(|s| s.name == IRQBALANCE) {
        let evidence = "enabled in /etc/config/irqbalance".into();
        found.push(service(IRQBALANCE, "moves interrupts", evidence, &[Sort::Interrupts]));
    }
    for place in SCRIPTS {
        scripts(host, Path::new(place), &mut found);
    }
    found
}

/// Service for OpenWrt's own packet steering: from 24.10 on (which brought the ucode script) unset
/// means on.
fn steering(host: &dyn HostRead, openwrt: &OpenWrt) -> Option<Service> {
    let script = Path::new("/usr/libexec/network/packet-steering.uc");
    let by_default = host.read(script).is_ok();
    let (on, evidence) = match openwrt.global("packet_steering") {
        Some(value) => (value != "0", format!("network.globals.packet_steering={value}")),
        None => (by_default, "network.globals.packet_steering unset, which is 1 here".to_owned()),
    };
    (openwrt.is_there() && on).then(|| {
        let effect = "rewrites RPS on every interface event";
        service("OpenWrt packet steering", effect, evidence, &[Sort::Rps, Sort::Rfs])
    })
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

/// Adds one script, or those of a directory.
fn scripts(host: &dyn HostRead, place: &Path, found: &mut Vec<Service>) {
    let files = match host.list(place) {
        Ok(names) => names.iter().map(|name| place.join(name)).collect(),
        Err(_) => vec![place.to_owned()],
    };
    for file in files {
        let script = text(host, &file).unwrap_or_default();
        let live: Vec<&str> =
            script.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
        let there = |word: &str| live.iter().any(|line| line.contains(word));
        let (words, sets): (Vec<&str>, Vec<Sort>) = WORDS
            .iter()
            .filter(|(word, ..)| there(word))
            .map(|(_, what, sort)| (*what, *sort))
            .unzip();
        if !sets.is_empty() {
            let name = file.display().to_string();
            let effect = format!("sets {}", words.join(", "));
            let by = service(&name, &effect, "words in the script".into(), &sets);
            found.push(Service { found: ServiceFound::Script, ..by });
        }
    }
}

fn service(name: &str, effect: &str, evidence: String, sets: &[Sort]) -> Service {
    let (name, effect) = (name.to_owned(), effect.to_owned());
    Service { name, effect, evidence, sets: sets.to_vec(), ..Service::default() }
}
