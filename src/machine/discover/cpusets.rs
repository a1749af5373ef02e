//! CPUs that control groups keep from the scheduler's balancing.

use std::path::{Path, PathBuf};

use super::{cpu_list, number, text};
use crate::machine::host::HostRead;
use crate::model::cpuset::CpuSet;

/// Root of control groups, version 2, and of version 1's cpusets mounted beside it.
const V2: &str = "/sys/fs/cgroup";
const V1: &[(&str, &str)] = &[("/sys/fs/cgroup/cpuset", "cpuset."), ("/dev/cpuset", "")];
/// Groups below the root that are looked at; isolation is set up near the root.
const DEEPEST: usize = 3;
const MOST: usize = 256;

/// Isolated CPUs, and the file that lists them.
pub(super) fn isolated(host: &dyn HostRead, all: &CpuSet) -> Option<(CpuSet, String)> {
    // Kernel 6.7 and later: of all partitions (Documentation/admin-guide/cgroup-v2.rst).
    let file = Path::new(V2).join("cpuset.cpus.isolated");
    if let Some(cpus) = cpu_list(host, &file) {
        return named(cpus, &file);
    }
    if host.read(&Path::new(V2).join("cgroup.controllers")).is_ok() {
        return partitions(host);
    }
    V1.iter().find_map(|(root, prefix)| unbalanced(host, Path::new(root), prefix, all))
}

fn named(cpus: CpuSet, file: &Path) -> Option<(CpuSet, String)> {
    (!cpus.is_empty()).then(|| (cpus, file.to_string_lossy().into_owned()))
}

/// Partitions of kernels before 6.7, which stand at the root or below partitions.
fn partitions(host: &dyn HostRead) -> Option<(CpuSet, String)> {
    let mut found = CpuSet::empty();
    let mut evidence = None;
    for name in host.list(Path::new(V2)).unwrap_or_default().iter().take(MOST) {
        let dir = Path::new(V2).join(name);
        let file = dir.join("cpuset.cpus.partition");
        // `isolated invalid (reason)` is not in force.
        if text(host, &file).as_deref() == Some("isolated") {
            let cpus = cpu_list(host, &dir.join("cpuset.cpus.effective")).unwrap_or_default();
            cpus.iter().for_each(|cpu| found.insert(cpu));
            evidence = evidence.or(Some(file));
        }
    }
    named(found, &evidence?)
}

/// Isolated CPUs of version 1: where the root does not balance, only CPUs of sets that do are in a
/// scheduling domain (kernel/cgroup/cpuset.c, generate_sched_domains).
fn unbalanced(
    host: &dyn HostRead,
    root: &Path,
    prefix: &str,
    all: &CpuSet,
) -> Option<(CpuSet, String)> {
    let flag = |dir: &Path| dir.join(format!("{prefix}sched_load_balance"));
    if number::<u32>(host, &flag(root))? != 0 {
        return None;
    }
    let mut balanced = CpuSet::empty();
    let mut todo: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    let mut seen = 0;
    while let Some((dir, depth)) = todo.pop() {
        let mut on = false;
        if depth > 0 {
            seen += 1;
            match number::<u32>(host, &flag(&dir)) {
                Some(0) => {}
                Some(_) => on = true,
                // A file, not a group.
                None => continue,
            }
        }
        if on {
            let cpus = cpu_list(host, &dir.join(format!("{prefix}cpus"))).unwrap_or_default();
            cpus.iter().for_each(|cpu| balanced.insert(cpu));
        } else if depth < DEEPEST && seen < MOST {
            let names = host.list(&dir).unwrap_or_default();
            let groups = names.iter().filter(|n| !n.contains('.') && !is_own_file(n));
            todo.extend(groups.map(|name| (dir.join(name), depth + 1)));
        }
    }
    named(all.difference(&balanced), &flag(root))
}

/// True if the file is one of a cpuset that has no dot in its name (mounted with noprefix), or of
/// any group.
fn is_own_file(name: &str) -> bool {
    let files = [
        "tasks",
        "notify_on_release",
        "release_agent",
        "cpus",
        "mems",
        "effective_cpus",
        "effective_mems",
        "cpu_exclusive",
        "mem_exclusive",
        "mem_hardwall",
        "memory_migrate",
        "memory_pressure",
        "memory_pressure_enabled",
        "memory_spread_page",
        "memory_spread_slab",
        "sched_load_balance",
        "sched_relax_domain_level",
    ];
    files.contains(&name)
}
