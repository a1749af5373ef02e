//! Settings that forwarding depends on, before and after a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::machine::host::HostRead;

const DEVICES: &str = "/sys/class/net";
const INTERRUPTS: &str = "/proc/irq";
/// Files of each queue; receive queues have the first two, transmit queues the third.
const OF_QUEUES: [&str; 3] = ["rps_cpus", "rps_flow_cnt", "xps_cpus"];
/// Files of each device.
const OF_DEVICES: [&str; 4] = ["mtu", "threaded", "gro_flush_timeout", "napi_defer_hard_irqs"];
/// Sysctls that matter to forwarding; one that is not per namespace (kernel) or absent (option) is
/// left out.
const SYSCTLS: [&str; 12] = [
    "net/core/rps_sock_flow_entries",
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/dev_weight",
    "net/core/flow_limit_cpu_bitmap",
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/netfilter/nf_conntrack_max",
    "net/ipv4/fib_multipath_hash_policy",
    // Of the hosts that send and receive.
    "net/ipv4/tcp_congestion_control",
    "net/core/default_qdisc",
];

/// The router's settings at one moment, as the kernel reports them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings(BTreeMap<PathBuf, String>);

impl Settings {
    /// Reads what there is. Absent and unreadable files are left out.
    #[must_use]
    pub fn read(host: &dyn HostRead) -> Self {
        let mut paths: Vec<PathBuf> =
            SYSCTLS.iter().map(|name| Path::new("/proc/sys").join(name)).collect();
        for device in host.list(Path::new(DEVICES)).unwrap_or_default() {
            let device = Path::new(DEVICES).join(device);
            let queues = device.join("queues");
            for queue in host.list(&queues).unwrap_or_default() {
                paths.extend(OF_QUEUES.map(|file| queues.join(&queue).join(file)));
            }
            paths.extend(OF_DEVICES.map(|file| device.join(file)));
        }
        let read = |path: PathBuf| host.text(&path).ok().map(|text| (path, text));
        Self(paths.into_iter().filter_map(read).collect())
    }

    /// The same, with the CPUs of all interrupts.
    #[must_use]
    pub fn with_interrupts(host: &dyn HostRead) -> Self {
        let mut settings = Self::read(host);
        for line in host.list(Path::new(INTERRUPTS)).unwrap_or_default() {
            let path = Path::new(INTERRUPTS).join(line).join("smp_affinity_list");
            if let Ok(text) = host.text(&path) {
                settings.0.insert(path, text);
            }
        }
        settings
    }

    /// Settings that are no longer as they were `before`. One that is not there at both ends is
    /// left out.
    #[must_use]
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let both = self.0.iter().filter_map(|(path, now)| Some((path, now, before.0.get(path)?)));
        both.filter(|(_, now, then)| now != then)
            .map(|(path, now, then)| {
                format!("{} changed from {then} to {now} during the run", path.display())
            })
            .collect()
    }
}
