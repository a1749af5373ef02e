//! CPUs: those that are present, those that may be used, the capacity of each, and their
//! neighbours.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Gaps, cpu_list, cpusets, number, text};
use crate::machine::host::HostRead;
use crate::machine::parse::cpuinfo::{CpuInfo, work_per_cycle};
use crate::machine::parse::{cmdline, cpumask};
use crate::model::capacity::{Capacity, Source};
use crate::model::cpuset::CpuSet;
use crate::model::snapshot::{BoardFacts, Cpu, Governor};
use crate::model::units::CpuId;

const ROOT: &str = "/sys/devices/system/cpu";

/// The kernel's scale of `cpu_capacity` (SCHED_CAPACITY_SCALE).
const FULL: u32 = 1024;

/// The CPUs that are present, and the numbers that are possible.
pub(super) fn discover(
    host: &dyn HostRead,
    info: &CpuInfo,
    board: Option<&BoardFacts>,
    gaps: &mut Gaps,
) -> (Vec<Cpu>, CpuSet) {
    let root = Path::new(ROOT);
    let online = cpu_list(host, &root.join("online")).or_else(|| online_by_files(host, root));
    // A container may hide sysfs; /proc/cpuinfo lists the online CPUs.
    let listed = || info.cpus.keys().copied().collect::<CpuSet>();
    let online = online.unwrap_or_else(|| {
        gaps.add("CPUs", format!("{ROOT}/online can't be read; /proc/cpuinfo was taken instead"));
        listed()
    });
    let present = cpu_list(host, &root.join("present"));
    let present =
        present.unwrap_or_else(|| directories(host, root).iter().chain(online.iter()).collect());
    let possible = cpu_list(host, &root.join("possible")).unwrap_or_else(|| present.clone());
    let apart = Apart::read(host, root, &online);
    let types = CoreTypes::read(host);
    let nodes = numa_nodes(host);
    let mut caches = Caches::default();

    let mut cpus: Vec<Cpu> = present
        .iter()
        .map(|id| {
            let dir = root.join(format!("cpu{}", id.0));
            let record = info.cpus.get(&id);
            let of_topology = |name: &str| number::<i32>(host, &dir.join("topology").join(name));
            let siblings = together(host, &dir, &["core_cpus", "thread_siblings"])
                .unwrap_or_else(|| CpuSet::single(id));
            let [l2, l3] = caches.of(host, &dir, id, &siblings);
            Cpu {
                id,
                online: online.contains(id),
                isolated: !apart.by(id).is_empty(),
                isolated_by: apart.by(id),
                nohz_full: apart.nohz_full.contains(id),
                rcu_nocb: apart.rcu_nocbs.contains(id),
                capacity: Capacity {
                    value: number(host, &dir.join("cpu_capacity")).unwrap_or(0),
                    source: Source::Kernel,
                },
                max_khz: number(host, &dir.join("cpufreq/cpuinfo_max_freq")),
                cluster: cluster(host, &dir, &siblings, &l3).unwrap_or_else(|| CpuSet::single(id)),
                siblings,
                governor: governor(host, &dir.join("cpufreq")),
                core_type: types.of(id).or_else(|| record.and_then(|r| r.core_type.clone())),
                core: of_topology("core_id"),
                package: of_topology("physical_package_id"),
                die: of_topology("die_id"),
                node: nodes.iter().find(|(_, set)| set.contains(id)).map(|(node, _)| *node),
                l2,
                l3,
                crypto: record.map(|r| r.crypto.clone()).unwrap_or_default(),
            }
        })
        .collect();
    number_packages(&mut cpus, |cpu| {
        let dir = root.join(format!("cpu{}", cpu.0));
        together(host, &dir, &["package_cpus", "core_siblings"])
    });
    fill_capacities(host, &mut cpus, board);
    (cpus, possible)
}

/// Numbers packages in order, as lscpu does, where the firmware numbers none (-1: POWER, s390) or
/// gives several the same number (s390's sockets of different books, some Itaniums).
fn number_packages(cpus: &mut [Cpu], of: impl Fn(CpuId) -> Option<CpuSet>) {
    let mut packages: Vec<(CpuSet, Option<i32>)> = Vec::new();
    for cpu in cpus.iter().filter(|c| c.online) {
        if !packages.iter().any(|(set, _)| set.contains(cpu.id))
            && let Some(set) = of(cpu.id)
        {
            packages.push((set, cpu.package));
        }
    }
    let unnumbered = |(at, (_, number)): (usize, &(CpuSet, Option<i32>))| {
        number.is_none_or(|n| n < 0) || packages.iter().skip(at + 1).any(|(_, n)| n == number)
    };
    if packages.len() < 2 || !packages.iter().enumerate().any(unnumbered) {
        return;
    }
    for (number, (set, _)) in (0..).zip(&packages) {
        cpus.iter_mut().filter(|c| set.contains(c.id)).for_each(|c| c.package = Some(number));
    }
}

/// CPUs that are kept from ordinary work.
struct Apart {
    isolated: CpuSet,
    /// CPUs isolated by a cpuset rather than at boot, and the cpuset's file.
    partition: Option<(CpuSet, String)>,
    nohz_full: CpuSet,
    rcu_nocbs: CpuSet,
}

impl Apart {
    fn read(host: &dyn HostRead, root: &Path, online: &CpuSet) -> Self {
        let list = |name: &str| cpu_list(host, &root.join(name)).unwrap_or_default();
        Self {
            isolated: list("isolated"),
            partition: cpusets::isolated(host, online),
            nohz_full: list("nohz_full"),
            rcu_nocbs: rcu_nocbs(host).unwrap_or_default(),
        }
    }

    /// Files that list a CPU as isolated.
    fn by(&self, id: CpuId) -> Vec<String> {
        let at_boot = [(&self.isolated, "isolated"), (&self.nohz_full, "nohz_full")];
        let at_boot = at_boot.into_iter().map(|(set, name)| (set, format!("{ROOT}/{name}")));
        let later = self.partition.iter().map(|(set, file)| (set, file.clone()));
        at_boot.chain(later).filter(|(set, _)| set.contains(id)).map(|(_, file)| file).collect()
    }
}

/// CPUs of `rcu_nocbs=`, which sysfs does not list.
pub(super) fn rcu_nocbs(host: &dyn HostRead) -> Option<CpuSet> {
    let line = host.read(Path::new("/proc/cmdline")).ok()?;
    let value = cmdline::parameter(&line, "rcu_nocbs")?;
    if value.is_empty() || value == "all" {
        return cpu_list(host, &Path::new(ROOT).join("possible"));
    }
    value.parse().ok()
}

/// The two kinds of cores of hybrid x86 CPUs, from their performance counter devices.
struct CoreTypes([(&'static str, CpuSet); 3]);

impl CoreTypes {
    fn read(host: &dyn HostRead) -> Self {
        let set = |unit: &str| {
            cpu_list(host, &Path::new("/sys/devices").join(unit).join("cpus")).unwrap_or_default()
        };
        Self([
            ("P-core", set("cpu_core")),
            ("E-core", set("cpu_atom")),
            ("LP E-core", set("cpu_lowpower")),
        ])
    }

    fn of(&self, cpu: CpuId) -> Option<String> {
        let of = self.0.iter().find(|(_, set)| set.contains(cpu));
        of.map(|(name, _)| (*name).to_owned())
    }
}

/// Fills in capacities where the kernel states none: by the firmware's figures for hybrid CPUs, by
/// type of core, by board file, by highest frequency, else all equal.
fn fill_capacities(host: &dyn HostRead, cpus: &mut [Cpu], board: Option<&BoardFacts>) {
    if cpus.iter().filter(|c| c.online).all(|c| c.capacity.value > 0) {
        // Nothing is known of offline CPUs; they carry no work either.
        cpus.iter_mut().filter(|c| c.capacity.value == 0).for_each(|c| c.capacity.value = FULL);
        return;
    }
    let (source, raw) = raw_capacities(host, cpus, board);
    let most = raw.iter().copied().max().unwrap_or(0).max(1);
    for (cpu, raw) in cpus.iter_mut().zip(raw) {
        let scaled = u32::try_from(raw * u64::from(FULL) / most).unwrap_or(FULL).max(1);
        cpu.capacity = match raw {
            // The capacity of an offline CPU is not known.
            0 => Capacity { value: FULL, source: Source::Assumed },
            _ => Capacity { value: scaled, source },
        };
    }
}

/// A measure of each CPU on a scale of its own; 0 where it is not known.
fn raw_capacities(
    host: &dyn HostRead,
    cpus: &[Cpu],
    board: Option<&BoardFacts>,
) -> (Source, Vec<u64>) {
    let known = |raw: &[u64]| cpus.iter().zip(raw).all(|(c, raw)| !c.online || *raw > 0);
    let fastest = cpus.iter().filter_map(|c| c.max_khz).max();
    // If one CPU's frequency is not known, none counts.
    let told = cpus.iter().all(|c| !c.online || c.max_khz.is_some());
    let cycles = |cpu: &Cpu| cpu.max_khz.or(fastest).filter(|_| told).unwrap_or(1);
    let differ = |of: fn(&Cpu) -> Option<&str>| {
        let mut types = cpus.iter().filter(|c| c.online).map(of);
        let first = types.next();
        types.any(|t| Some(t) != first)
    };
    let mixed = differ(|c| c.core_type.as_deref());
    if mixed {
        // intel_pstate scales hybrid CPUs by this figure.
        let cppc = |c: &Cpu| {
            let path = format!("{ROOT}/cpu{}/acpi_cppc/highest_perf", c.id.0);
            number::<u64>(host, Path::new(&path)).unwrap_or(0)
        };
        let raw: Vec<u64> = cpus.iter().map(cppc).collect();
        if known(&raw) {
            return (Source::Firmware, raw);
        }
        let by_type = |c: &Cpu| {
            let per_cycle = c.core_type.as_deref().and_then(work_per_cycle).unwrap_or(0);
            u64::from(per_cycle).saturating_mul(cycles(c))
        };
        let raw: Vec<u64> = cpus.iter().map(by_type).collect();
        if known(&raw) {
            return (Source::CoreType, raw);
        }
    }
    if let Some(board) = board.filter(|b| !b.per_cycle.is_empty()) {
        let by_board = |c: &Cpu| {
            let per_cycle = board.per_cycle.get(c.id.0 as usize).copied().unwrap_or(0);
            u64::from(per_cycle).saturating_mul(cycles(c))
        };
        let raw: Vec<u64> = cpus.iter().map(by_board).collect();
        if known(&raw) {
            return (Source::Board, raw);
        }
    }
    if told && fastest.is_some() {
        return (Source::Frequency, cpus.iter().map(|c| c.max_khz.unwrap_or(0)).collect());
    }
    (Source::Assumed, vec![1; cpus.len()])
}

/// CPUs that belong together: the kernel's cluster, else those that share a level 3 cache, else
/// the package.
fn cluster(host: &dyn HostRead, dir: &Path, siblings: &CpuSet, l3: &CpuSet) -> Option<CpuSet> {
    // cluster_id is 65535 or -1 where the kernel knows of no clusters; then a cluster would be a
    // single core. x86 kernels call a core's own threads a cluster (they share a level 2 cache).
    let known =
        text(host, &dir.join("topology/cluster_id")).is_some_and(|id| id != "-1" && id != "65535");
    let by_cluster = known.then(|| together(host, dir, &["cluster_cpus"])).flatten();
    by_cluster
        .filter(|set| set.len() > siblings.len())
        .or_else(|| Some(l3.clone()).filter(|set| set.len() > siblings.len()))
        .or_else(|| together(host, dir, &["package_cpus", "core_siblings"]))
}

/// Set in the first of the topology files that is there.
fn together(host: &dyn HostRead, dir: &Path, names: &[&str]) -> Option<CpuSet> {
    let dir = dir.join("topology");
    names
        .iter()
        .find_map(|name| set(host, &dir.join(format!("{name}_list")), &dir.join(name)))
        .filter(|set| !set.is_empty())
}

/// A set of CPUs from its list file, or from its mask file: kernels before 2.6.27 have no lists,
/// and dumps of machines often hold the masks only.
fn set(host: &dyn HostRead, list: &Path, mask: &Path) -> Option<CpuSet> {
    cpu_list(host, list).or_else(|| cpumask::mask(&host.read(mask).ok()?).ok())
}

/// Numbers of the directories `cpu0`, `cpu1`, ...
fn directories(host: &dyn HostRead, root: &Path) -> CpuSet {
    let names = host.list(root).unwrap_or_default();
    names.iter().filter_map(|n| n.strip_prefix("cpu")?.parse().ok()).map(CpuId).collect()
}

/// The online CPUs of a kernel without a list of them: offline ones have no topology, or say so.
fn online_by_files(host: &dyn HostRead, root: &Path) -> Option<CpuSet> {
    let all = directories(host, root);
    let dir = |id: CpuId| root.join(format!("cpu{}", id.0));
    let up = |id: &CpuId| number::<u32>(host, &dir(*id).join("online")) != Some(0);
    let with_topology: CpuSet =
        all.iter().filter(up).filter(|id| host.list(&dir(*id).join("topology")).is_ok()).collect();
    Some(with_topology).filter(|set| !set.is_empty())
}

/// Sets that share a cache, each read once: with hundreds of CPUs it matters.
#[derive(Default)]
struct Caches {
    l2: HashMap<CpuId, CpuSet>,
    l3: HashMap<CpuId, CpuSet>,
}

impl Caches {
    /// The CPUs that share the level 2 and the level 3 cache of `cpu`.
    fn of(
        &mut self,
        host: &dyn HostRead,
        dir: &Path,
        cpu: CpuId,
        siblings: &CpuSet,
    ) -> [CpuSet; 2] {
        let find = |sets: &HashMap<CpuId, CpuSet>| sets.get(&cpu).cloned();
        let (l2, l3) = (find(&self.l2), find(&self.l3));
        if let (Some(l2), Some(l3)) = (&l2, &l3) {
            return [l2.clone(), l3.clone()];
        }
        for name in host.list(&dir.join("cache")).unwrap_or_default() {
            let dir = dir.join("cache").join(&name);
            let sets = match number::<u32>(host, &dir.join("level")) {
                Some(2) if l2.is_none() => &mut self.l2,
                Some(3) if l3.is_none() => &mut self.l3,
                _ => continue,
            };
            // Where a dump's list and mask differ, the mask is what its authors put right.
            let map = host.read(&dir.join("shared_cpu_map")).ok();
            let shared = map.and_then(|mask| cpumask::mask(&mask).ok());
            let shared = shared.or_else(|| cpu_list(host, &dir.join("shared_cpu_list")));
            // Itanium kernels leave the mask of a core's own cache empty.
            let shared = shared.filter(|s| s.contains(cpu)).unwrap_or_else(|| siblings.clone());
            for member in shared.iter() {
                sets.entry(member).or_insert_with(|| shared.clone());
            }
        }
        [find(&self.l2).unwrap_or_default(), find(&self.l3).unwrap_or_default()]
    }
}

fn numa_nodes(host: &dyn HostRead) -> Vec<(u32, CpuSet)> {
    let root = Path::new("/sys/devices/system/node");
    let names = host.list(root).unwrap_or_default();
    let node = |name: &String| {
        let number = name.strip_prefix("node")?.parse().ok()?;
        let dir = root.join(name);
        Some((number, set(host, &dir.join("cpulist"), &dir.join("cpumap"))?))
    };
    names.iter().filter_map(node).collect()
}

fn governor(host: &dyn HostRead, dir: &Path) -> Option<Governor> {
    let current = text(host, &dir.join("scaling_governor"))?;
    let policy: PathBuf = host.resolve(dir).ok()?;
    let available = text(host, &dir.join("scaling_available_governors")).unwrap_or_default();
    Some(Governor {
        policy: policy.file_name()?.to_string_lossy().into_owned(),
        current,
        available: available.split_whitespace().map(str::to_owned).collect(),
    })
}
