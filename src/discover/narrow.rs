//! Discovery of a few devices alone: what an event about one of them needs, at the cost of one.

use std::path::{Path, PathBuf};

use super::{Gaps, cpus, irqs, machine, netdevs, processes};
use crate::host::{HostRead, HostResult, Query};
use crate::model::identity::HostIdentity;
use crate::model::snapshot::Snapshot;

const NET: &str = "/sys/class/net";

/// As [`super::snapshot`], of the devices `names` alone and without what no setting is made by: the
/// kernel's configuration, the forwarding path, who stands on whom, services.
#[must_use]
pub fn devices(host: &dyn HostRead, names: &[String]) -> Snapshot {
    let host = &Narrow { host, names };
    let mut gaps = Gaps::default();
    let (machine, info) = machine::discover(host, &mut gaps);
    let board = machine.board_facts.as_ref();
    let (cpus, possible) = cpus::discover(host, &info, board, &mut gaps);
    let processes = processes::discover(host);
    let netdevs = netdevs::discover(host, &processes, &mut gaps);
    let irqs = irqs::discover(host, &netdevs, board, &mut gaps);
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

/// A machine on which no other network devices are seen.
struct Narrow<'a> {
    host: &'a dyn HostRead,
    names: &'a [String],
}

impl HostRead for Narrow<'_> {
    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        let found = self.host.list(path)?;
        if path != Path::new(NET) {
            return Ok(found);
        }
        Ok(found.into_iter().filter(|name| self.names.contains(name)).collect())
    }

    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        self.host.read(path)
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        self.host.resolve(path)
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
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
