//! Network devices with their queues, from /sys/class/net; offloads and qdiscs by netlink.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::io::Errno;

use super::processes::{self, Process};
use super::{Gaps, number, queue_numbers, text};
use crate::machine::host::{HostRead, Query, query_as};
use crate::machine::parse::{cpumask, keyvalue, route, task, vlan};
use crate::model::feature::Qdisc;
use crate::model::nic::{LinkFacts, Napi, NicSettings, Numbers};
use crate::model::snapshot::{Bus, NetDev, RxQueue, TxQueue};

const ROOT: &str = "/sys/class/net";

pub(super) fn discover(host: &dyn HostRead, processes: &[Process], gaps: &mut Gaps) -> Vec<NetDev> {
    let root = Path::new(ROOT);
    let names = gaps.keep("network devices", host.list(root)).unwrap_or_default();
    let kernel = Answers {
        qdiscs: gaps
            .keep("queueing disciplines", query_as(host, &Query::Qdiscs))
            .unwrap_or_default(),
        kinds: gaps.keep("kinds of devices", query_as(host, &Query::LinkKinds)).unwrap_or_default(),
        links: gaps
            .keep("addresses of devices", query_as(host, &Query::Links))
            .unwrap_or_else(|| links_from_files(host)),
        // Before kernel 6.8 nobody knows; that is no gap.
        napis: query_as(host, &Query::Napis).unwrap_or_default(),
    };
    names
        .iter()
        .filter(|name| *name != "lo")
        .filter_map(|name| device(host, gaps, name, &kernel, processes))
        .collect()
}

/// Facts about links where netlink's answer is not there (a captured machine): devices that bear
/// addresses, as far as routes and /proc/net/if_inet6 show, and VLANs.
fn links_from_files(host: &dyn HostRead) -> BTreeMap<String, LinkFacts> {
    let read = |path: &str| host.read(Path::new(path)).unwrap_or_default();
    let mut links: BTreeMap<String, LinkFacts> = BTreeMap::new();
    for device in route::devices(&read("/proc/net/route")) {
        links.entry(device).or_default().ipv4 = 1;
    }
    for device in route::devices_v6(&read("/proc/net/if_inet6")) {
        links.entry(device).or_default().ipv6 += 1;
    }
    for vlan in vlan::config(&read("/proc/net/vlan/config")) {
        links.entry(vlan.device).or_default().vlan = Some(vlan.id);
    }
    links
}

/// Answers of netlink about all devices at once.
struct Answers {
    qdiscs: Vec<Qdisc>,
    kinds: BTreeMap<String, String>,
    links: BTreeMap<String, LinkFacts>,
    napis: Vec<Napi>,
}

fn device(
    host: &dyn HostRead,
    gaps: &mut Gaps,
    name: &str,
    kernel: &Answers,
    processes: &[Process],
) -> Option<NetDev> {
    let dir = Path::new(ROOT).join(name);
    // `bonding_masters` and the like are files among the links.
    let entries = host.list(&dir).ok()?;
    let sysfs = gaps.keep("place of a device", host.resolve(&dir))?;
    let uevent = host.read(&dir.join("uevent")).unwrap_or_default();
    let queues = host.list(&dir.join("queues")).unwrap_or_default();
    let driver = host
        .resolve(&dir.join("device/driver"))
        .ok()
        .and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    let features = gaps
        .keep(&format!("offloads of {name}"), query_as(host, &Query::Features(name.to_owned())));
    let linked = |prefix: &str| -> Vec<String> {
        entries.iter().filter_map(|e| e.strip_prefix(prefix)).map(str::to_owned).collect()
    };
    let ifindex = number(host, &dir.join("ifindex")).unwrap_or(0);
    let bus = bus(host, &dir, &sysfs);
    let settings = if bus == Bus::Virtual {
        NicSettings::default()
    } else {
        let asked = query_as(host, &Query::Nic(name.to_owned()));
        gaps.keep(&format!("settings of {name}"), asked).unwrap_or_default()
    };
    let counters = match &bus {
        Bus::Virtual => Numbers::new(),
        _ => match query_as(host, &Query::Counters(name.to_owned())) {
            // A capture without them reports that for the settings already.
            Err(e) if e.errno == Errno::NODATA => Numbers::new(),
            asked => gaps.keep(&format!("counters of {name}"), asked).unwrap_or_default(),
        },
    };
    let napi_threads = processes::napi_threads(processes, name);
    let mut link = kernel.links.get(name).cloned().unwrap_or_default();
    if link.link.is_none() {
        link.link = number(host, &dir.join("iflink")).filter(|&l| l != 0 && l != ifindex);
    }
    let kind = kernel
        .kinds
        .get(name)
        .cloned()
        .or_else(|| keyvalue::value(&uevent, "DEVTYPE"))
        .or_else(|| kind_by_files(host, &dir, &entries, &bus).map(str::to_owned));
    let full_duplex = match text(host, &dir.join("duplex")).as_deref() {
        Some("full") => Some(true),
        // What these say where they do not know it: the class has no word for duplex, and only newer
        // kernels say "unknown" (drivers/net/usb/usbnet.c, usbnet_get_link_ksettings_internal; openwrt
        // issue 23085).
        Some("half") => match driver.as_deref() {
            Some("cdc_ncm" | "cdc_ether" | "cdc_mbim" | "huawei_cdc_ncm") => None,
            _ => Some(false),
        },
        _ => None,
    };
    Some(NetDev {
        name: name.to_owned(),
        ifindex,
        kind,
        driver,
        bus,
        sysfs,
        settings,
        napis: kernel.napis.iter().filter(|n| n.ifindex == ifindex).cloned().collect(),
        napi_thread_cpus: napi_threads
            .iter()
            .filter_map(|pid| {
                let status = host.read(Path::new(&format!("/proc/{pid}/status"))).ok()?;
                Some((*pid, task::cpus_allowed(&status)?))
            })
            .collect(),
        napi_threads,
        defer_hard_irqs: number(host, &dir.join("napi_defer_hard_irqs")),
        gro_flush_timeout: number(host, &dir.join("gro_flush_timeout")),
        drops: drops(host, &dir.join("statistics")),
        counters,
        link,
        // Reading these from a device that has none is EOPNOTSUPP.
        switch: text(host, &dir.join("phys_switch_id")),
        port: text(host, &dir.join("phys_port_name")),
        conduit: None,
        receiving: None,
        tag: None,
        radio: None,
        ingress_to: None,
        pppoe_over: None,
        operstate: text(host, &dir.join("operstate")).unwrap_or_else(|| "unknown".into()),
        // -1 and 65535 stand for "unknown"; reading it from a device that is down gives EINVAL.
        speed: number::<i64>(host, &dir.join("speed"))
            .and_then(|s| u32::try_from(s).ok())
            .filter(|&s| s > 0 && s != 65535 && s != u32::MAX),
        full_duplex,
        mtu: number(host, &dir.join("mtu")).unwrap_or(0),
        numa_node: number::<i32>(host, &dir.join("device/numa_node"))
            .and_then(|n| u32::try_from(n).ok()),
        rx_queues: queue_numbers(&queues, "rx-")
            .into_iter()
            .map(|index| rx_queue(host, &dir.join(format!("queues/rx-{index}")), index))
            .collect(),
        tx_queues: queue_numbers(&queues, "tx-")
            .into_iter()
            .map(|index| TxQueue {
                index,
                xps: mask(host, &dir.join(format!("queues/tx-{index}/xps_cpus"))),
            })
            .collect(),
        lower: linked("lower_"),
        master: host
            .resolve(&dir.join("master"))
            .ok()
            .and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned())),
        threaded: number::<u32>(host, &dir.join("threaded")).map(|t| t != 0),
        features,
        qdiscs: kernel.qdiscs.iter().filter(|q| q.device == name).cloned().collect(),
    })
}

/// Kind of a device where neither netlink nor its uevent states it.
fn kind_by_files(
    host: &dyn HostRead,
    dir: &Path,
    entries: &[String],
    bus: &Bus,
) -> Option<&'static str> {
    let has = |entry: &str| entries.iter().any(|e| e == entry);
    // linux/if_arp.h: ARPHRD_PPP; ARPHRD_NONE is what layer 3 tunnels have.
    let hardware_type = || number::<u32>(host, &dir.join("type"));
    match () {
        () if has("bridge") => Some("bridge"),
        () if has("bonding") => Some("bond"),
        () if has("tun_flags") => Some("tun"),
        () if has("phy80211") || has("wireless") => Some("wlan"),
        () if *bus == Bus::Virtual && hardware_type() == Some(512) => Some("ppp"),
        () => None,
    }
}

/// Counters of loss that are not zero.
fn drops(host: &dyn HostRead, dir: &Path) -> Numbers {
    let names = host.list(dir).unwrap_or_default();
    let lossy = |name: &&String| {
        let name = name.as_str();
        name.ends_with("_errors") || name.ends_with("_dropped") || name == "collisions"
    };
    names
        .iter()
        .filter(lossy)
        .filter_map(|name| Some((name.clone(), number(host, &dir.join(name))?)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn rx_queue(host: &dyn HostRead, dir: &Path, index: u32) -> RxQueue {
    RxQueue {
        index,
        rps: mask(host, &dir.join("rps_cpus")),
        flow_cnt: number(host, &dir.join("rps_flow_cnt")),
    }
}

fn mask(host: &dyn HostRead, path: &Path) -> Option<crate::model::cpuset::CpuSet> {
    cpumask::mask(&host.read(path).ok()?).ok()
}

/// Hardware that the device is attached to. A USB adapter's interrupts are its host controller's:
/// the part of the sysfs path before `usbN`.
fn bus(host: &dyn HostRead, dir: &Path, sysfs: &Path) -> Bus {
    let base = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let Ok(device) = host.resolve(&dir.join("device")) else { return Bus::Virtual };
    let name = base(&device).unwrap_or_default();
    let subsystem = host.resolve(&dir.join("device/subsystem")).ok().and_then(|p| base(&p));
    match subsystem.as_deref() {
        Some("pci") => Bus::Pci(name),
        Some("platform") => Bus::Platform(name),
        Some("virtio") => Bus::Virtio(name),
        Some("usb") => {
            let parts: Vec<_> = sysfs.iter().map(|p| p.to_string_lossy()).collect();
            let hub = parts.iter().position(|p| {
                p.strip_prefix("usb").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
            });
            let controller = hub.and_then(|at| at.checked_sub(1)).and_then(|at| parts.get(at));
            Bus::Usb(controller.map(ToString::to_string).unwrap_or_default())
        }
        Some(other) => Bus::Other(other.to_owned()),
        None => Bus::Other("unknown".to_owned()),
    }
}
