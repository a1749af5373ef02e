//! Heat, frequencies, power, buses, tracing and counters: the facts that `check` reads beside the
//! snapshot.

use std::path::{Path, PathBuf};

use super::openwrt::OpenWrt;
use super::{net_file, number, text};
use crate::machine::host::{HostRead, kernel_config};
use crate::machine::parse::{config, packet_sockets, per_cpu, snmp, stat};
use crate::model::condition::{
    Condition, DeviceCondition, Neighbours, PcieLink, Policy, Tracing, UsbLink,
};
use crate::model::snapshot::{Bus, NetDev, Snapshot};

const CPUS: &str = "/sys/devices/system/cpu";
const THERMAL: &str = "/sys/class/thermal";
const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";
const HWMON: &str = "/sys/class/hwmon";

/// Settings of sockets that people set on routers.
const SOCKETS: &[&str] = &[
    "net.core.default_qdisc",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.ip_local_port_range",
];

/// Condition of the machine behind the door; a figure that can't be read is absent.
#[must_use]
pub fn condition(host: &dyn HostRead, snapshot: &Snapshot) -> Condition {
    let uptime = text(host, Path::new("/proc/uptime"));
    let mut found = Condition {
        uptime: uptime.and_then(|t| t.split_whitespace().next()?.parse().ok()),
        under_voltage: under_voltage(host),
        tracing: tracing(host),
        kernel: kernel_config(host, &snapshot.machine.kernel)
            .and_then(|(_, bytes)| config::read(&bytes)),
        ip: snmp::counters(&net_file(host, "snmp"), "Ip"),
        conntrack: per_cpu::sums(&net_file(host, "stat/nf_conntrack")),
        ..Condition::default()
    };
    for device in &snapshot.netdevs {
        found.devices.insert(device.name.clone(), of_device(host, device));
    }
    for name in names(host, &format!("{CPUS}/cpufreq"), "policy") {
        let policy = policy(host, &Path::new(CPUS).join("cpufreq").join(&name));
        found.policies.insert(name, policy);
    }
    for cpu in &snapshot.cpus {
        // drivers/thermal/intel/therm_throt.c
        let dir = PathBuf::from(format!("{CPUS}/cpu{}/thermal_throttle", cpu.id.0));
        let count = number::<u64>(host, &dir.join("core_throttle_count"));
        if let Some(count) = count {
            found.throttled = Some(found.throttled.unwrap_or(0).saturating_add(count));
        }
    }
    thermal(host, &mut found);
    for name in SOCKETS {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        if let Some(value) = text(host, Path::new(&path)) {
            found.sockets.insert((*name).to_owned(), value);
        }
    }
    let clock = |name: &str| text(host, &Path::new(CLOCKS).join(name));
    found.clocksource = clock("current_clocksource");
    let all = clock("available_clocksource").unwrap_or_default();
    found.clocksources.extend(all.split_whitespace().map(str::to_owned));
    let ticks = stat::cpu_ticks(&host.read(Path::new("/proc/stat")).unwrap_or_default());
    found.stolen = ticks
        .iter()
        .map(|t| (t.user.saturating_add(t.system).saturating_add(t.softirq), t.steal))
        .reduce(|(ran, stolen), (r, s)| (ran.saturating_add(r), stolen.saturating_add(s)));
    found.routes6 = routes6(&net_file(host, "rt6_stats"))
        .zip(number(host, Path::new("/proc/sys/net/ipv6/route/max_size")));
    found.taps = packet_sockets::taps(&net_file(host, "packet"));
    let strays = snmp::counters(&net_file(host, "netstat"), "TcpExt");
    found.ip.extend(strays.into_iter().filter(|(name, _)| name == "IPReversePathFilter"));
    let full = |bytes: &[u8]| per_cpu::sums(bytes).get("table_fulls").copied();
    let arp = net_file(host, "stat/arp_cache");
    found.neighbours = full(&arp).map(|overflows| Neighbours {
        overflows: overflows.saturating_add(full(&net_file(host, "stat/ndisc_cache")).unwrap_or(0)),
        entries: per_cpu::entries(&arp),
        most: number(host, Path::new("/proc/sys/net/ipv4/neigh/default/gc_thresh3")),
    });
    found.mtu_fix.extend(OpenWrt::read(host).clamps());
    found
}

/// Names in a directory that begin with `prefix`.
fn names(host: &dyn HostRead, dir: &str, prefix: &str) -> Vec<String> {
    let mut names = host.list(Path::new(dir)).unwrap_or_default();
    names.retain(|name| name.starts_with(prefix));
    names
}

fn of_device(host: &dyn HostRead, device: &NetDev) -> DeviceCondition {
    let dir = Path::new("/sys/class/net").join(&device.name);
    let count = |name: &str| number(host, &dir.join("statistics").join(name));
    DeviceCondition {
        rx_packets: count("rx_packets"),
        tx_packets: count("tx_packets"),
        carrier_changes: number(host, &dir.join("carrier_changes")),
        tx_queue_len: number(host, &dir.join("tx_queue_len")),
        tx_timeouts: device
            .tx_queues
            .iter()
            .filter(|_| device.is_hardware())
            .filter_map(|q| number(host, &dir.join(format!("queues/tx-{}/tx_timeout", q.index))))
            .reduce(u64::saturating_add),
        bond: (device.kind.as_deref() == Some("bond")).then(|| bond(host, &dir)).flatten(),
        // drivers/iommu/iommu.c, iommu_group_show_type (5.11 and later).
        iommu: device
            .is_hardware()
            .then(|| text(host, &dir.join("device/iommu_group/type")))
            .flatten(),
        pcie: matches!(device.bus, Bus::Pci(_)).then(|| pcie(host, &dir)).flatten(),
        usb: matches!(device.bus, Bus::Usb(_)).then(|| usb(host, &dir)).flatten(),
    }
}

/// Entries that count against `max_size` (net/ipv6/route.c, `rt6_stats_seq_show`: seven hexadecimal
/// numbers, of which the sixth).
fn routes6(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    u64::from_str_radix(text.split_whitespace().nth(5)?, 16).ok()
}

/// Mode and hash of a bond: `802.3ad 4`, `layer2 0` (drivers/net/bonding/bond_sysfs.c).
fn bond(host: &dyn HostRead, dir: &Path) -> Option<(String, String)> {
    let word = |name: &str| {
        let text = text(host, &dir.join("bonding").join(name))?;
        Some(text.split_whitespace().next()?.to_owned())
    };
    Some((word("mode")?, word("xmit_hash_policy")?))
}

/// PCIe link of a device. drivers/pci/pci-sysfs.c: `5.0 GT/s PCIe` (`5 GT/s` before 5.10),
/// `Unknown`; absent without PCIe.
fn pcie(host: &dyn HostRead, dir: &Path) -> Option<PcieLink> {
    let dir = host.resolve(&dir.join("device")).ok()?;
    let speed = |name: &str| {
        let text = text(host, &dir.join(name))?;
        let rate: f64 = text.split_whitespace().next()?.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        (0.1..1e4).contains(&rate).then_some((rate * 10.0).round() as u32)
    };
    let width = |name: &str| number::<u32>(host, &dir.join(name)).filter(|w| (1..=32).contains(w));
    Some(PcieLink {
        speed: speed("current_link_speed")?,
        width: width("current_link_width")?,
        speed_max: speed("max_link_speed"),
        width_max: width("max_link_width"),
        // drivers/pci/pcie/aspm.c, aspm_attr_show_common (5.5 and later).
        sleeps: number::<u32>(host, &dir.join("link/l1_aspm")).map(|on| on != 0),
        place: dir.display().to_string(),
    })
}

/// USB link of a device: the network device hangs on an interface (`2-1:1.0`) of the USB device
/// (`2-1`).
fn usb(host: &dyn HostRead, dir: &Path) -> Option<UsbLink> {
    let interface = host.resolve(&dir.join("device")).ok()?;
    let device = interface.parent()?;
    Some(UsbLink {
        megabits: number(host, &device.join("speed"))?,
        version: text(host, &device.join("version")),
        place: device.display().to_string(),
    })
}

fn policy(host: &dyn HostRead, dir: &Path) -> Policy {
    Policy {
        driver: text(host, &dir.join("scaling_driver")),
        governor: text(host, &dir.join("scaling_governor")),
        // `<unsupported>` under the others.
        asked: number(host, &dir.join("scaling_setspeed")),
        cpus: text(host, &dir.join("related_cpus")).unwrap_or_default(),
        min: number(host, &dir.join("scaling_min_freq")),
        max: number(host, &dir.join("scaling_max_freq")),
        hardware_min: number(host, &dir.join("cpuinfo_min_freq")),
        hardware_max: number(host, &dir.join("cpuinfo_max_freq")),
    }
}

fn thermal(host: &dyn HostRead, found: &mut Condition) {
    for name in host.list(Path::new(THERMAL)).unwrap_or_default() {
        let dir = Path::new(THERMAL).join(&name);
        let kind = text(host, &dir.join("type")).unwrap_or_default();
        if name.starts_with("thermal_zone") {
            if let Some(temperature) = number(host, &dir.join("temp")) {
                found.zones.insert(format!("{name} ({kind})"), temperature);
            }
        } else if (kind == "Processor" || kind.contains("cpu"))
            && let Some(state) = number(host, &dir.join("cur_state"))
        {
            found.cooling.insert(format!("{THERMAL}/{name}/cur_state ({kind})"), state);
        }
    }
}

/// File and state of the alarm for low voltage. drivers/hwmon/raspberrypi-hwmon.c: the alarm stays
/// while the firmware reports low voltage.
fn under_voltage(host: &dyn HostRead) -> Option<(String, bool)> {
    names(host, HWMON, "hwmon").into_iter().find_map(|name| {
        let dir = Path::new(HWMON).join(name);
        (text(host, &dir.join("name"))? == "rpi_volt").then_some(())?;
        let file = dir.join("in0_lcrit_alarm");
        Some((file.display().to_string(), number::<u32>(host, &file)? != 0))
    })
}

fn tracing(host: &dyn HostRead) -> Option<Tracing> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].into_iter().find_map(|place| {
        let dir = Path::new(place);
        Some(Tracing {
            tracer: text(host, &dir.join("current_tracer"))?,
            on: number::<u32>(host, &dir.join("tracing_on")) == Some(1),
            events: matches!(text(host, &dir.join("events/enable")).as_deref(), Some("1" | "X")),
            place: place.to_owned(),
        })
    })
}
