//! Settings that forwarding depends on, before and after a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::machine::host::HostRead;

const DEVICES: &str = "/sys/class/net";
/// Files of each queue; receive queues have the first two, transmit queues the third.
const OF_QUEUES: [&str; 3] = ["rps_cpus", "rps_flow_cnt", "xps_cpus"];
/// Sysctls that matter to forwarding; one that is not per namespace (kernel) or absent (option) is
/// left out.
const SYSCTLS: [&str; 9] = [
    "net/core/rps_sock_flow_entries",
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/dev_weight",
    "net/core/flow_limit_cpu_bitmap",
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/netfilter/nf_conntrack_max",
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
            paths.push(device.join("mtu"));
        }
        let read = |path: PathBuf| host.text(&path).ok().map(|text| (path, text));
        Self(paths.into_iter().filter_map(read).collect())
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
