//! Every setting that this machine has or could have: what it is now, what it may be, and whether
//! it can be changed at all. Reads only.

use std::path::Path;

use serde::Serialize;

use super::knob::{irreplaceable, meaning, path, read_text};
use crate::host::HostRead;
use crate::model::knob::{COALESCE, Knob, OFFLOAD_MODES, QDISCS, SERVICES, STEERING, Value};
use crate::model::nic::Numbers;
use crate::model::order::InOrder;
use crate::model::snapshot::{Movable, NetDev, Snapshot};
use crate::model::sysctl::SYSCTLS;
use rustix::io::Errno;

/// Whether a setting can be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum State {
    /// As far as can be known without writing.
    Changeable,
    /// It is there and stays as it is, and why.
    Fixed(String),
    /// It is not there, and why.
    Absent(String),
    /// A captured machine that does not say, or a permission that is missing.
    Unknown(String),
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// What is set.
    pub knob: Knob,
    /// What it is now, where that is understood.
    pub now: Option<Value>,
    /// What it may be, in words.
    pub allowed: String,
    /// Whether it can be changed.
    #[serde(flatten)]
    pub state: State,
}

/// Offloads that matter to packets that are passed on; the kernel has sixty, and shows them all in
/// `linerate show nics`.
const OFFLOADS: &[&str] = &[
    "rx-checksum",
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "rx-lro",
    "rx-hashing",
    "rx-ntuple-filter",
    "tx-checksum-ip-generic",
    "tx-scatter-gather",
    "tx-tcp-segmentation",
    "tx-generic-segmentation",
    "tx-udp-segmentation",
    "hw-tc-offload",
];

/// All settings, device by device, then frequencies, then sysctls.
#[must_use]
pub fn inventory(host: &dyn HostRead, snapshot: &Snapshot) -> Vec<Item> {
    let mut knobs: Vec<Knob> = Vec::new();
    for device in &snapshot.netdevs {
        of_device(snapshot, device, &mut knobs);
    }
    let mut policies: Vec<&str> =
        snapshot.cpus.iter().filter_map(|c| Some(c.governor.as_ref()?.policy.as_str())).collect();
    policies.order_by(Ord::cmp);
    policies.dedup();
    for policy in policies {
        let policy = || policy.to_owned();
        knobs.push(Knob::Governor { policy: policy() });
        knobs.push(Knob::MinFrequency { policy: policy() });
        knobs.push(Knob::MaxFrequency { policy: policy() });
    }
    knobs.extend(SERVICES.iter().map(|s| Knob::Service { name: (*s).to_owned() }));
    knobs.push(Knob::PacketSteering);
    knobs.push(Knob::FlowOffload);
    knobs.extend(SYSCTLS.iter().map(|s| Knob::Sysctl { name: s.name.to_owned() }));
    knobs.into_iter().map(|knob| item(host, snapshot, knob)).collect()
}

fn of_device(snapshot: &Snapshot, device: &NetDev, knobs: &mut Vec<Knob>) {
    let name = || device.name.clone();
    for direction in ["combined", "rx", "tx"] {
        knobs.push(Knob::Channels { device: name(), direction: direction.into() });
    }
    for direction in ["rx", "tx"] {
        knobs.push(Knob::Ring { device: name(), direction: direction.into() });
    }
    knobs.push(Knob::RssTable { device: name() });
    for parameter in COALESCE {
        knobs.push(Knob::Coalesce { device: name(), parameter: (*parameter).to_owned() });
    }
    knobs.extend(
        snapshot.irqs_of(&device.name).map(|irq| Knob::IrqAffinity { irq: irq.id.clone() }),
    );
    for queue in device.rx_queues.iter().map(|q| q.index) {
        knobs.push(Knob::RpsCpus { device: name(), queue });
    }
    for queue in device.rx_queues.iter().map(|q| q.index) {
        knobs.push(Knob::RpsFlowCnt { device: name(), queue });
    }
    for queue in device.tx_queues.iter().map(|q| q.index) {
        knobs.push(Knob::XpsCpus { device: name(), queue });
    }
    for queue in device.tx_queues.iter().map(|q| q.index) {
        knobs.push(Knob::XpsRxqs { device: name(), queue });
    }
    knobs.push(Knob::ThreadedNapi { device: name() });
    // Names of threads say nothing of the network namespace; the kernel's own answer does.
    let threads = match device.napis.iter().filter(|n| n.pid.is_some()).count() {
        0 if device.napis.is_empty() => device.napi_threads.len(),
        known => known,
    };
    for thread in 0..u32::try_from(threads).unwrap_or(0) {
        knobs.push(Knob::NapiThread { device: name(), thread });
    }
    knobs.push(Knob::NapiDeferHardIrqs { device: name() });
    knobs.push(Knob::GroFlushTimeout { device: name() });
    knobs.push(Knob::Qdisc { device: name() });
    for feature in OFFLOADS {
        knobs.push(Knob::Offload { device: name(), feature: (*feature).to_owned() });
    }
}

fn item(host: &dyn HostRead, snapshot: &Snapshot, knob: Knob) -> Item {
    let allowed = allowed(host, snapshot, &knob);
    let text = match path(&knob, snapshot) {
        Err(e) => return Item { knob, now: None, allowed, state: State::Absent(e.to_string()) },
        Ok(path) => read_text(host, &path),
    };
    let text = match text {
        Ok(text) => text,
        Err(e) => {
            // A tree that somebody put together does not say what it left out; it has no boot id.
            let partial = e.is_absent() && host.identity().boot_id.is_empty();
            let state = if e.errno == Errno::NODATA || partial {
                State::Unknown("not in this capture".into())
            } else if e.is_absent() || e.errno == Errno::OPNOTSUPP {
                State::Absent(absent(snapshot, &knob).into())
            } else {
                State::Unknown(e.reason())
            };
            return Item { knob, now: None, allowed, state };
        }
    };
    let (now, state) = match meaning(&knob, &text) {
        Err(why) => (None, State::Unknown(why)),
        Ok(now) => {
            let state = fixed(host, snapshot, &knob, &text).map_or(State::Changeable, State::Fixed);
            (Some(now), state)
        }
    };
    Item { knob, now, allowed, state }
}

/// Why there is no such setting.
fn absent(snapshot: &Snapshot, knob: &Knob) -> &'static str {
    let one_queue = |device: &str| snapshot.netdev(device).is_some_and(|d| d.tx_queues.len() < 2);
    match knob {
        // xps_cpus_show (net/core/net-sysfs.c): ENOENT unless netif_is_multiqueue.
        Knob::XpsCpus { device, .. } | Knob::XpsRxqs { device, .. } if one_queue(device) => {
            "one transmit queue"
        }
        Knob::Sysctl { name } if name.contains("nf_conntrack") => "no connection tracking loaded",
        Knob::Sysctl { name } if name.contains("bridge") => "br_netfilter is not loaded",
        Knob::Service { .. } => "not installed, or not of this namespace",
        Knob::PacketSteering => "not OpenWrt, or not of this namespace",
        Knob::FlowOffload => "no nf_tables or no module nf_flow_table (CONFIG_NF_FLOW_TABLE)",
        Knob::Sysctl { .. } => "not in this kernel or namespace",
        Knob::Qdisc { .. } => "the device is down or has no queue",
        Knob::Coalesce { .. }
        | Knob::Ring { .. }
        | Knob::Channels { .. }
        | Knob::RssTable { .. } => "the driver has none",
        _ => "not in this kernel or driver",
    }
}

/// Why it can't be changed, as far as is known without writing.
fn fixed(host: &dyn HostRead, snapshot: &Snapshot, knob: &Knob, text: &str) -> Option<String> {
    match knob {
        Knob::IrqAffinity { irq } => {
            let line = snapshot.irqs.iter().find(|i| i.id == *irq)?;
            let told = || line.movable_by.clone().unwrap_or_else(|| "the kernel keeps it".into());
            (line.movable == Movable::Fixed).then(told)
        }
        Knob::Offload { device, feature } => {
            let features = snapshot.netdev(device)?.features.as_ref()?;
            (!features.get(feature)?.changeable).then(|| "by the driver".to_owned())
        }
        // dev_set_threaded (net/core/dev.c): EOPNOTSUPP without a NAPI instance, which a veth has
        // with GRO or XDP alone.
        Knob::ThreadedNapi { device } => {
            let device = snapshot.netdev(device).filter(|d| d.is_veth())?;
            let gro = device.features.as_ref()?.get("rx-gro")?.active;
            (!gro && !device.link.xdp).then(|| "a veth without rx-gro has no NAPI".to_owned())
        }
        Knob::Channels { device, direction } => {
            let most = most(host, device, Group::Channels, direction)?;
            (most <= 1).then(|| "it has one".to_owned())
        }
        Knob::FlowOffload => {
            irreplaceable(knob, text).map(|why| why.trim_start_matches("fixed: ").to_owned())
        }
        Knob::Qdisc { .. } => irreplaceable(knob, text)
            .map(|_| "classes or options that could not be put back exactly".to_owned()),
        _ => None,
    }
}

enum Group {
    Channels,
    Rings,
}

/// The largest number that a driver tells.
fn most(host: &dyn HostRead, device: &str, group: Group, name: &str) -> Option<u64> {
    let query = crate::host::Query::Nic(device.to_owned());
    let nic: crate::model::nic::NicSettings = crate::host::query_as(host, &query).ok()?;
    let numbers: Numbers = match group {
        Group::Channels => nic.channels?,
        Group::Rings => nic.rings?,
    };
    numbers.get(&format!("{name}-max")).copied()
}

/// What it may be.
fn allowed(host: &dyn HostRead, snapshot: &Snapshot, knob: &Knob) -> String {
    let cpus = || snapshot.usable_cpus().to_string();
    let upto = |most: Option<u64>| match most {
        Some(1) => "1".to_owned(),
        Some(n) => format!("1-{n}"),
        None => "a count".to_owned(),
    };
    let words = |list: &[&str]| list.join(" ");
    match knob {
        Knob::IrqAffinity { .. } | Knob::NapiThread { .. } => format!("CPUs {}", cpus()),
        Knob::RpsCpus { .. } | Knob::XpsCpus { .. } => format!("off, CPUs {}", cpus()),
        Knob::XpsRxqs { device, .. } => {
            let most = snapshot.netdev(device).map_or(0, |d| d.rx_queues.len());
            match most.saturating_sub(1) {
                0 => "off, queue 0".into(),
                last => format!("off, queues 0-{last}"),
            }
        }
        Knob::Channels { device, direction } => {
            upto(most(host, device, Group::Channels, direction))
        }
        Knob::Ring { device, direction } => upto(most(host, device, Group::Rings, direction)),
        Knob::RssTable { device } => {
            let queues = snapshot.netdev(device).map_or(0, |d| d.rx_queues.len());
            format!("over 1-{queues}, a list")
        }
        Knob::Governor { policy } => snapshot
            .cpus
            .iter()
            .filter_map(|c| c.governor.as_ref())
            .find(|g| g.policy == *policy)
            .map_or_else(String::new, |g| g.available.join(" ")),
        Knob::MinFrequency { policy } | Knob::MaxFrequency { policy } => {
            let end = |file: &str| {
                host.text(&Path::new("/sys/devices/system/cpu/cpufreq").join(policy).join(file))
            };
            match (end("cpuinfo_min_freq"), end("cpuinfo_max_freq")) {
                (Ok(least), Ok(most)) => format!("{least}-{most} kHz"),
                _ => "kHz".into(),
            }
        }
        Knob::Qdisc { .. } => words(QDISCS),
        Knob::PacketSteering => words(STEERING),
        Knob::FlowOffload => format!("{}, with devices", words(OFFLOAD_MODES)),
        Knob::GroFlushTimeout { .. } => "nanoseconds".into(),
        Knob::Coalesce { parameter, .. } if parameter.ends_with("usecs") => "microseconds".into(),
        Knob::Sysctl { name } if name == "net.ipv4.tcp_congestion_control" => host
            .text(Path::new("/proc/sys/net/ipv4/tcp_available_congestion_control"))
            .unwrap_or_else(|_| "a name".into()),
        _ => match knob.shape() {
            Some(crate::model::knob::Shape::Switch) => "on off".into(),
            Some(crate::model::knob::Shape::Count) => "a count".into(),
            Some(crate::model::knob::Shape::Cpus) => format!("off, CPUs {}", cpus()),
            _ => "a name".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::FakeHost;

    #[test]
    fn what_is_there_is_told_from_what_is_fixed_and_what_is_absent() {
        let fake = FakeHost::router(4, &[("eth0", 2)]);
        let mut snapshot = fake.snapshot();
        snapshot.irqs[1].movable = Movable::Fixed;
        snapshot.irqs[1].movable_by = Some("managed by the driver".into());
        let items = inventory(&fake, &snapshot);
        let find = |text: &str| items.iter().find(|i| i.knob.to_string() == text).unwrap();
        let rps = find("RPS of eth0 rx-1");
        assert_eq!((&rps.state, rps.allowed.as_str()), (&State::Changeable, "off, CPUs 0-3"));
        assert_eq!(rps.now, Some(Value::Cpus("".parse().unwrap())));
        let line = find("IRQ affinity of eth0 queue 1 rx+tx");
        assert_eq!(line.state, State::Fixed("managed by the driver".into()));
        assert_eq!(find("IRQ affinity of eth0 queue 0 rx+tx").state, State::Changeable);
        assert!(matches!(find("tx channels of eth0").state, State::Absent(_)));
        assert_eq!(find("governor of policy0").allowed, "performance schedutil powersave");
        assert_eq!(find("net.core.netdev_budget").now, Some(Value::Count(300)));
        assert!(matches!(find("net.netfilter.nf_conntrack_max").state, State::Absent(_)));
        fake.meddle(Path::new("qdisc/eth0"), "htb 10000 0800");
        let items = inventory(&fake, &snapshot);
        let qdisc = items.iter().find(|i| matches!(i.knob, Knob::Qdisc { .. })).unwrap();
        assert!(matches!(qdisc.state, State::Fixed(_)), "{qdisc:?}");
    }
}
