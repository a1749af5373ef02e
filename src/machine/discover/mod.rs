//! Discovery of this router: reads the system through the door and makes a [`Snapshot`].
//!
//! In comes a [`HostRead`]: the running machine, or a captured one. Out goes a [`Snapshot`], in
//! which anything that can't be read is a [`Gap`], not an error: a container without /proc/irq
//! still has CPUs and devices worth showing. Nothing may be touched: discovery only reads, and sets
//! nothing.

mod boards;
mod condition;
mod cpus;
mod cpusets;
mod engines;
mod evidence;
mod fingerprint;
mod irq_drivers;
mod irqs;
mod kernel;
mod losses;
mod machine;
mod narrow;
mod netdevs;
mod openwrt;
mod path;
mod pollers;
mod processes;
mod queues;
mod radios;
mod services;
mod shapers;
mod stack;

use std::path::Path;

pub use condition::condition;
pub use evidence::{look, sample};
pub use fingerprint::fingerprint;
pub use losses::losses;
pub use narrow::devices;

use crate::machine::host::{HostError, HostRead};
use crate::model::cpuset::CpuSet;
use crate::model::order::InOrder;
use crate::model::snapshot::{Gap, Snapshot};

/// Looks at the machine behind the door.
#[must_use]
pub fn snapshot(host: &dyn HostRead) -> Snapshot {
    let mut gaps = Gaps::default();
    let (mut machine, info) = machine::discover(host, &mut gaps);
    let (kernel, exact) = kernel::discover(host, &machine.kernel);
    machine.irq_time_accounting = exact;
    let board = machine.board_facts.as_ref();
    let (cpus, possible) = cpus::discover(host, &info, board, &mut gaps);
    let processes = processes::discover(host);
    let openwrt = openwrt::OpenWrt::read(host);
    let mut netdevs = netdevs::discover(host, &processes, &mut gaps);
    netdevs.order_by(|a, b| a.name.cmp(&b.name));
    stack::link(host, &mut netdevs, &processes, &openwrt);
    radios::name(host, &mut netdevs);
    shapers::link(&mut netdevs);
    let mut irqs = irqs::discover(host, &netdevs, board, &mut gaps);
    queues::settle(host, &mut netdevs, &mut irqs);
    let path = path::discover(host, &cpus, &openwrt, &mut gaps);
    let stack = stack::discover(host, &netdevs, &openwrt, &path);
    let services = services::discover(host, &processes, &openwrt);
    let radios = radios::discover(host, &netdevs, &irqs);
    let pollers = pollers::discover(host, &processes, &netdevs, &radios);
    let evidence = evidence::since_boot(host, &netdevs, &irqs, &path.softnet, pollers);
    queues::prove(&mut netdevs, &irqs, &evidence);
    let gaps = gaps.into_list();
    Snapshot {
        machine,
        cpus,
        netdevs,
        irqs,
        gaps,
        possible,
        stack,
        path,
        kernel,
        services,
        radios,
        evidence: Some(evidence),
    }
}

/// Collector of everything that could not be learnt.
#[derive(Default)]
struct Gaps {
    list: Vec<Gap>,
    /// Names of the questions that a captured machine was never asked.
    unasked: Vec<String>,
}

impl Gaps {
    fn add(&mut self, what: impl Into<String>, why: impl std::fmt::Display) {
        self.list.push(Gap { what: what.into(), why: why.to_string() });
    }

    fn into_list(mut self) -> Vec<Gap> {
        // `offloads of eth0` and `offloads of eth1` make `offloads of eth0, eth1`.
        self.unasked.order_by(Ord::cmp);
        let mut what = String::new();
        let mut last = "";
        for one in &self.unasked {
            let (group, device) = one.split_once(" of ").unwrap_or((one, ""));
            let (separator, name) = match what.is_empty() {
                true => ("", one.as_str()),
                false if group == last => (", ", device),
                false => ("; ", one.as_str()),
            };
            what = format!("{what}{separator}{name}");
            last = group;
        }
        if !what.is_empty() {
            self.add(what, "not in this capture");
        }
        self.list
    }

    /// Keeps a value; a failure other than absence is a gap.
    fn keep<T>(&mut self, what: &str, result: Result<T, HostError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(e) if e.is_absent() => None,
            Err(e) if e.errno == rustix::io::Errno::NODATA => {
                self.unasked.push(what.to_owned());
                None
            }
            Err(e) => {
                self.add(what, e);
                None
            }
        }
    }
}

/// A small file as text; `None` where it is absent or can't be read.
fn text(host: &dyn HostRead, path: &Path) -> Option<String> {
    host.text(path).ok().filter(|t| !t.is_empty())
}

/// Content of a file of /proc/net, of the namespace that the door leads into: /proc/net itself is
/// that of the process, whichever thread reads it. Kernels before 3.17 and trees made by hand have
/// no other.
fn net_file(host: &dyn HostRead, name: &str) -> Vec<u8> {
    let read = |root: &str| host.read(&Path::new(root).join(name)).ok();
    read("/proc/thread-self/net").or_else(|| read("/proc/net")).unwrap_or_default()
}

/// A number in a small file.
fn number<T: std::str::FromStr>(host: &dyn HostRead, path: &Path) -> Option<T> {
    text(host, path)?.parse().ok()
}

/// A CPU list file (`0-3,6`); an empty file is the empty set.
fn cpu_list(host: &dyn HostRead, path: &Path) -> Option<CpuSet> {
    host.text(path).ok()?.parse().ok()
}

/// Queue directories `rx-0`, `rx-1`, ... in numeric order.
fn queue_numbers(names: &[String], prefix: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        names.iter().filter_map(|n| n.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.order_by(Ord::cmp);
    numbers
}
