//! Discovery of a few devices alone: the facts that an event about one of them needs, at the cost
//! of one, however many CPUs and processes there are.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{Gaps, cpus, irqs, machine, netdevs, queues};
use crate::machine::host::{HostError, HostRead, HostResult, Query};
use crate::model::identity::HostIdentity;
use crate::model::snapshot::Snapshot;

const NET: &str = "/sys/class/net";
const CPUS: &str = "/sys/devices/system/cpu";

/// Snapshot of the devices `names` alone, as [`super::snapshot`] makes it, without facts that no
/// setting is made by: the kernel's configuration, the forwarding path, the stack of devices,
/// services, threads, counters, caches. A NAPI thread is looked for when it is set.
#[must_use]
pub fn devices(host: &dyn HostRead, names: &[String]) -> Snapshot {
    let host = &Narrow { host, names };
    let mut gaps = Gaps::default();
    let (machine, info) = machine::discover(host, &mut gaps);
    let board = machine.board_facts.as_ref();
    let (cpus, possible) = cpus::discover(host, &info, board, &mut gaps);
    let mut netdevs = netdevs::discover(host, &[], &mut gaps);
    let mut irqs = irqs::discover(host, &netdevs, board, &mut gaps);
    queues::settle(host, &mut netdevs, &mut irqs);
    Snapshot {
        machine,
        cpus,
        netdevs,
        irqs,
        possible,
        gaps: gaps.into_list(),
        ..Snapshot::default()
    }
}

/// A machine that hides all other network devices, and everything that only a planner looks at.
struct Narrow<'a> {
    host: &'a dyn HostRead,
    names: &'a [String],
}

impl HostRead for Narrow<'_> {
    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        if path.ends_with("cache") && path.starts_with(CPUS) {
            return Err(HostError::new("read", path, Errno::NOENT));
        }
        let found = self.host.list(path)?;
        if path != Path::new(NET) {
            return Ok(found);
        }
        Ok(found.into_iter().filter(|name| self.names.contains(name)).collect())
    }

    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        if path.starts_with(NET) && path.parent().is_some_and(|dir| dir.ends_with("statistics")) {
            return Err(HostError::new("read", path, Errno::NOENT));
        }
        self.host.read(path)
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        self.host.resolve(path)
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        if matches!(query, Query::Counters(_) | Query::QueueCounters(_)) {
            // The answer of a capture that has none.
            return Err(HostError::new("ask", Path::new(NET), Errno::NODATA));
        }
        self.host.query(query)
    }

    fn arch(&self) -> String {
        self.host.arch()
    }

    fn identity(&self) -> HostIdentity {
        self.host.identity()
    }

    fn inode(&self, path: &Path) -> HostResult<u64> {
        self.host.inode(path)
    }
}
