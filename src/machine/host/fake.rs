//! A router in memory, for tests of everything that writes. It answers like a kernel: masks are
//! printed with the kernel's own padding whatever was written, a mask with an unknown CPU is
//! EOVERFLOW, an interrupt without a CPU is EINVAL.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{HostError, HostRead, HostResult, HostWrite, Query, Setting};
use crate::model::capacity::{Capacity, Source};
use crate::model::cpuset::CpuSet;
use crate::model::identity::HostIdentity;
use crate::model::order::InOrder;
use crate::model::snapshot::{
    Bus, Cpu, Governor, Irq, IrqId, IrqRole, Machine, Movable, NetDev, RxQueue, Snapshot, TxQueue,
};
use crate::model::units::{CpuId, IrqLine};

/// How a file takes what is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A mask; with `irq`, one that must hold a CPU.
    Mask { irq: bool },
    /// A count that is rounded up to a power of two.
    Count,
    /// A count taken as it is.
    Number,
    /// 0 or 1.
    Switch,
    /// Two numbers, printed with a tab between them (proc_dointvec).
    Range,
    /// The queues of a device: they and their interrupt lines come and go by it.
    Channels,
    /// An equal spread or a table; the empty text is the driver's own.
    Spread,
    /// A root qdisc, with a handle of its own unless it is the default.
    Qdisc,
    /// Words taken as they are.
    Words,
    /// One of the governors.
    Governor,
    /// Not writable.
    Fixed,
}

#[derive(Debug, Clone)]
struct FakeFile {
    kind: Kind,
    text: String,
}

#[derive(Debug, Default)]
struct Memory {
    files: BTreeMap<PathBuf, FakeFile>,
    inodes: BTreeMap<PathBuf, u64>,
    writes: usize,
    /// Device and queue of each line, from [`FIRST_LINE`] on.
    lines: Vec<Option<(String, u32)>>,
}

/// A router in memory.
#[derive(Debug)]
pub struct FakeHost {
    cpus: u32,
    devices: Vec<String>,
    identity: Mutex<HostIdentity>,
    memory: Mutex<Memory>,
}

const GOVERNORS: [&str; 3] = ["performance", "schedutil", "powersave"];
const FIRST_LINE: u32 = 24;

impl FakeHost {
    /// A router with CPUs 0 to `cpus` - 1, all online, and devices with so many queues each; every
    /// queue has one interrupt line, and every device starts with RPS off.
    #[must_use]
    pub fn router(cpus: u32, devices: &[(&str, u32)]) -> Self {
        let host = Self {
            cpus,
            devices: devices.iter().map(|(name, _)| (*name).to_owned()).collect(),
            identity: Mutex::new(HostIdentity {
                boot_id: "boot-1".into(),
                netns: 4_026_531_840,
                netns_cookie: Some(1),
            }),
            memory: Mutex::new(Memory::default()),
        };
        let all: CpuSet = (0..cpus).map(CpuId).collect();
        let all = host.print(&all);
        {
            let mut memory = hold(&host.memory);
            for (device, queues) in devices {
                (0..*queues).for_each(|queue| host.add_queue(&mut memory, device, queue));
            }
            let mut add = |path: String, kind, text: &str| {
                memory.files.insert(path.into(), FakeFile { kind, text: text.to_owned() });
            };
            for (device, queues) in devices {
                let ethtool = format!("ethtool/{device}");
                add(format!("{ethtool}/channels/combined"), Kind::Channels, &queues.to_string());
                add(format!("{ethtool}/ring/rx"), Kind::Number, "256");
                add(format!("{ethtool}/coalesce/rx-usecs"), Kind::Number, "50");
                add(format!("{ethtool}/coalesce/adaptive-rx"), Kind::Switch, "1");
                add(format!("{ethtool}/feature/rx-gro-list"), Kind::Switch, "0");
                add(format!("{ethtool}/rss"), Kind::Spread, &queues.to_string());
                add(format!("qdisc/{device}"), Kind::Qdisc, "default");
                add(format!("napi/{device}/0"), Kind::Mask { irq: true }, &all);
                let device = format!("/sys/class/net/{device}");
                add(format!("{device}/threaded"), Kind::Switch, "0");
                add(format!("{device}/napi_defer_hard_irqs"), Kind::Number, "0");
                add(format!("{device}/gro_flush_timeout"), Kind::Number, "0");
            }
            add("service/irqbalance".into(), Kind::Switch, "1");
            add("packet-steering".into(), Kind::Words, "unset");
            add("flow-offload".into(), Kind::Words, "off");
            let policy = "/sys/devices/system/cpu/cpufreq/policy0";
            add(format!("{policy}/scaling_governor"), Kind::Governor, "schedutil");
            add(format!("{policy}/scaling_min_freq"), Kind::Number, "600000");
            add(format!("{policy}/scaling_max_freq"), Kind::Number, "1800000");
            let sysctl = |name: &str| format!("/proc/sys/net/{name}");
            add(sysctl("core/rps_sock_flow_entries"), Kind::Count, "0");
            add(sysctl("core/netdev_budget"), Kind::Number, "300");
            add(sysctl("ipv4/ip_local_port_range"), Kind::Range, "32768\t60999");
        }
        host.add_namespace("/proc/1/task/1/ns/net", 4_026_531_840);
        host
    }

    /// The snapshot that discovery would give.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let all: CpuSet = (0..self.cpus).map(CpuId).collect();
        let governor = Governor {
            policy: "policy0".into(),
            current: "schedutil".into(),
            available: GOVERNORS.map(String::from).to_vec(),
        };
        let cpu = |id| Cpu {
            id,
            online: true,
            isolated: false,
            capacity: Capacity { value: 1024, source: Source::Assumed },
            max_khz: None,
            siblings: CpuSet::single(id),
            cluster: all.clone(),
            governor: Some(governor.clone()),
            ..Cpu::default()
        };
        let lines: Vec<(IrqLine, (String, u32))> = self.lines();
        let queues = |device: &str| -> Vec<u32> {
            lines.iter().filter(|(_, of)| of.0 == device).map(|(_, of)| of.1).collect()
        };
        let netdev = |(index, name): (usize, &String)| NetDev {
            name: name.clone(),
            ifindex: u32::try_from(index).unwrap_or(0) + 2,
            kind: None,
            driver: Some("virtio_net".into()),
            bus: Bus::Virtio(format!("virtio{index}")),
            sysfs: format!("/sys/devices/pci0000:00/0000:00:0{index}.0/net/{name}").into(),
            operstate: "up".into(),
            speed: None,
            full_duplex: None,
            mtu: 1500,
            numa_node: None,
            rx_queues: queues(name)
                .into_iter()
                .map(|index| RxQueue { index, rps: Some(CpuSet::empty()), flow_cnt: Some(0) })
                .collect(),
            tx_queues: queues(name)
                .into_iter()
                .map(|index| TxQueue { index, xps: Some(CpuSet::empty()) })
                .collect(),
            lower: Vec::new(),
            master: None,
            threaded: None,
            features: None,
            qdiscs: Vec::new(),
            ..NetDev::default()
        };
        Snapshot {
            machine: Machine {
                hostname: "fake".into(),
                id: Some("00112233445566aa".into()),
                ..Machine::default()
            },
            cpus: (0..self.cpus).map(CpuId).map(cpu).collect(),
            netdevs: self.devices.iter().enumerate().map(netdev).collect(),
            irqs: self
                .lines()
                .into_iter()
                .map(|(line, (device, queue))| Irq {
                    line,
                    action: format!("{device}-{queue}"),
                    id: IrqId { device, queue, role: IrqRole::Combined },
                    chip: "PCI-MSIX".into(),
                    counts: Vec::new(),
                    affinity: Some(all.clone()),
                    effective: Some(CpuSet::single(CpuId(0))),
                    movable: Movable::Presumed,
                    shared_with: Vec::new(),
                    learnt: "made up".into(),
                    ..Irq::default()
                })
                .collect(),
            ..Snapshot::default()
        }
    }

    /// Lines with device and queue, by device and queue.
    fn lines(&self) -> Vec<(IrqLine, (String, u32))> {
        let memory = hold(&self.memory);
        let taken = memory.lines.iter().zip(FIRST_LINE..);
        let mut lines: Vec<(IrqLine, (String, u32))> =
            taken.filter_map(|(of, line)| Some((IrqLine(line), of.clone()?))).collect();
        let place = |name: &String| self.devices.iter().position(|d| d == name);
        lines.order_by_key(|(_, (device, queue))| (place(device), *queue));
        lines
    }

    /// A queue as the kernel makes it, its interrupt on a number that was never used before.
    fn add_queue(&self, memory: &mut Memory, device: &str, queue: u32) {
        let line = FIRST_LINE + u32::try_from(memory.lines.len()).unwrap_or(0);
        memory.lines.push(Some((device.to_owned(), queue)));
        let all = self.print(&(0..self.cpus).map(CpuId).collect());
        let none = self.print(&CpuSet::empty());
        let mut add = |path: String, kind, text: &str| {
            memory.files.insert(path.into(), FakeFile { kind, text: text.to_owned() });
        };
        let queues = format!("/sys/class/net/{device}/queues");
        add(format!("{queues}/rx-{queue}/rps_cpus"), Kind::Mask { irq: false }, &none);
        add(format!("{queues}/rx-{queue}/rps_flow_cnt"), Kind::Count, "0");
        add(format!("{queues}/tx-{queue}/xps_cpus"), Kind::Mask { irq: false }, &none);
        add(format!("{queues}/tx-{queue}/xps_rxqs"), Kind::Mask { irq: false }, &none);
        let irq = format!("/proc/irq/{line}");
        add(format!("{irq}/smp_affinity"), Kind::Mask { irq: true }, &all);
        add(format!("{irq}/effective_affinity"), Kind::Fixed, &self.print_first());
        add(format!("{irq}/{device}-{queue}/spurious"), Kind::Fixed, "0");
    }

    /// Gives a device so many queues: those that go lose what was set for them, and all of its
    /// interrupt lines are made anew, as virtio_net and most drivers do it.
    fn change_queues(&self, memory: &mut Memory, device: &str, count: u32) {
        let mut kept: BTreeMap<PathBuf, FakeFile> = BTreeMap::new();
        let queues = PathBuf::from(format!("/sys/class/net/{device}/queues"));
        for queue in 0..count {
            for name in [format!("rx-{queue}"), format!("tx-{queue}")] {
                let directory = queues.join(name);
                let files = memory.files.iter().filter(|(path, _)| path.starts_with(&directory));
                kept.extend(files.map(|(path, file)| (path.clone(), file.clone())));
            }
        }
        memory.files.retain(|path, _| !path.starts_with(&queues));
        for (index, of) in memory.lines.iter_mut().enumerate() {
            if of.as_ref().is_some_and(|(name, _)| name == device) {
                *of = None;
                let line = FIRST_LINE + u32::try_from(index).unwrap_or(0);
                let directory = PathBuf::from(format!("/proc/irq/{line}"));
                memory.files.retain(|path, _| !path.starts_with(&directory));
            }
        }
        (0..count).for_each(|queue| self.add_queue(memory, device, queue));
        memory.files.extend(kept);
        // netif_set_real_num_rx_queues: a spread of the driver's own follows.
        if let Some(rss) = memory.files.get_mut(Path::new(&format!("ethtool/{device}/rss"))) {
            rss.text = count.to_string();
        }
    }

    /// Every file with its text: what has to be the same byte for byte.
    #[must_use]
    pub fn content(&self) -> BTreeMap<PathBuf, String> {
        let memory = hold(&self.memory);
        memory.files.iter().map(|(path, file)| (path.clone(), file.text.clone())).collect()
    }

    /// Puts the content of another moment back, missing files included.
    pub fn put_back(&self, content: &BTreeMap<PathBuf, String>) {
        let mut memory = hold(&self.memory);
        memory.files.retain(|path, _| content.contains_key(path));
        for (path, file) in &mut memory.files {
            if let Some(text) = content.get(path) {
                file.text.clone_from(text);
            }
        }
    }

    /// How many writes succeeded.
    #[must_use]
    pub fn writes(&self) -> usize {
        hold(&self.memory).writes
    }

    /// Sets a file's text as another program would, past every rule.
    pub fn meddle(&self, path: &Path, text: &str) {
        if let Some(file) = hold(&self.memory).files.get_mut(path) {
            text.clone_into(&mut file.text);
        }
    }

    /// Takes away everything whose path starts with `prefix`: a device was unplugged, an
    /// interrupt line freed.
    pub fn unplug(&self, prefix: &Path) {
        let mut memory = hold(&self.memory);
        memory.files.retain(|path, _| !path.starts_with(prefix));
        memory.inodes.retain(|path, _| !path.starts_with(prefix));
    }

    /// Says which boot and network namespace it is from now on.
    pub fn become_host(&self, identity: HostIdentity) {
        *hold(&self.identity) = identity;
    }

    /// Adds a network namespace's file.
    pub fn add_namespace(&self, path: &str, inode: u64) {
        hold(&self.memory).inodes.insert(path.into(), inode);
    }

    /// The kernel's text of a mask: as many digits as there are CPUs, a comma every 32 bits
    /// (lib/vsprintf.c `bitmap_string`). Independent of [`CpuSet::to_mask`] on purpose.
    fn print(&self, set: &CpuSet) -> String {
        let mut digits = String::new();
        for nibble in (0..self.cpus.div_ceil(4)).rev() {
            let bits = (0..4).filter(|b| set.contains(CpuId(nibble * 4 + b))).map(|b| 1 << b);
            digits.push_str(&format!("{:x}", bits.sum::<u32>()));
            if nibble > 0 && nibble % 8 == 0 {
                digits.push(',');
            }
        }
        digits
    }

    fn print_first(&self) -> String {
        self.print(&CpuSet::single(CpuId(0)))
    }

    /// The kernel's reading of a mask; a bit beyond the last CPU is EOVERFLOW.
    fn scan(&self, text: &str) -> Result<CpuSet, Errno> {
        let mut set = CpuSet::empty();
        for (word, chunk) in text.rsplit(',').enumerate() {
            if chunk.is_empty() || chunk.len() > 8 {
                return Err(Errno::INVAL);
            }
            for (place, digit) in chunk.chars().rev().enumerate() {
                let bits = digit.to_digit(16).ok_or(Errno::INVAL)?;
                for bit in (0..4).filter(|b| bits >> b & 1 == 1) {
                    let cpu = u32::try_from(word * 32 + place * 4).unwrap_or(u32::MAX) + bit;
                    if cpu >= self.cpus {
                        return Err(Errno::OVERFLOW);
                    }
                    set.insert(CpuId(cpu));
                }
            }
        }
        Ok(set)
    }

    /// Content of a file after `text` was written to it.
    fn taken(&self, kind: Kind, text: &str) -> Result<String, Errno> {
        let text = text.trim_end_matches('\n');
        match kind {
            Kind::Mask { irq } => {
                let set = self.scan(text)?;
                if irq && set.is_empty() { Err(Errno::INVAL) } else { Ok(self.print(&set)) }
            }
            Kind::Count => {
                let count: u64 = text.parse().map_err(|_| Errno::INVAL)?;
                let rounded = if count == 0 { Some(0) } else { count.checked_next_power_of_two() };
                rounded.map(|n| n.to_string()).ok_or(Errno::INVAL)
            }
            Kind::Number => text.parse::<u32>().map(|n| n.to_string()).map_err(|_| Errno::INVAL),
            Kind::Switch if matches!(text, "0" | "1") => Ok(text.to_owned()),
            Kind::Switch => Err(Errno::INVAL),
            Kind::Range => {
                let numbers: Result<Vec<u32>, _> =
                    text.split_whitespace().map(str::parse).collect();
                match numbers.as_deref() {
                    Ok([from, to]) if from <= to => Ok(format!("{from}\t{to}")),
                    _ => Err(Errno::INVAL),
                }
            }
            Kind::Channels => match text.parse::<u32>() {
                Ok(1..=64) => Ok(text.to_owned()),
                _ => Err(Errno::INVAL),
            },
            Kind::Spread | Kind::Words => Ok(text.to_owned()),
            Kind::Qdisc => match text.split(' ').collect::<Vec<_>>().as_slice() {
                ["default"] | [_, _, ..] => Ok(text.to_owned()),
                [kind] => Ok(format!("{kind} 80010000")),
                [] => Err(Errno::INVAL),
            },
            Kind::Governor if GOVERNORS.contains(&text) => Ok(text.to_owned()),
            Kind::Governor => Err(Errno::INVAL),
            Kind::Fixed => Err(Errno::ACCESS),
        }
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostRead for FakeHost {
    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        let memory = hold(&self.memory);
        let file = memory.files.get(path);
        let file = file.ok_or_else(|| HostError::new("read", path, Errno::NOENT))?;
        Ok(format!("{}\n", file.text).into_bytes())
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        let memory = hold(&self.memory);
        let mut names: Vec<String> = memory
            .files
            .keys()
            .chain(memory.inodes.keys())
            .filter_map(|file| file.strip_prefix(path).ok()?.iter().next())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.order_by(Ord::cmp);
        names.dedup();
        if names.is_empty() {
            return Err(HostError::new("list", path, Errno::NOENT));
        }
        Ok(names)
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        Ok(path.to_owned())
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        match query {
            Query::Qdiscs => Ok(b"[]".to_vec()),
            Query::LinkKinds | Query::Links => Ok(b"{}".to_vec()),
            // As an old kernel answers what it does not know.
            _ => Err(query.failed(Errno::OPNOTSUPP)),
        }
    }

    fn arch(&self) -> String {
        "x86_64".into()
    }

    fn identity(&self) -> HostIdentity {
        hold(&self.identity).clone()
    }

    fn inode(&self, path: &Path) -> HostResult<u64> {
        let memory = hold(&self.memory);
        let inode = memory.inodes.get(path).copied();
        inode.ok_or_else(|| HostError::new("resolve", path, Errno::NOENT))
    }
}

impl HostWrite for FakeHost {
    fn write(&self, path: &Path, value: &[u8]) -> HostResult<()> {
        let fail = |errno| HostError::new("write", path, errno);
        let text = std::str::from_utf8(value).map_err(|_| fail(Errno::INVAL))?;
        let mut memory = hold(&self.memory);
        let file = memory.files.get_mut(path).ok_or_else(|| fail(Errno::NOENT))?;
        file.text = self.taken(file.kind, text).map_err(fail)?;
        memory.writes += 1;
        if let Some(Setting::Channels(device, _)) = Setting::at(path) {
            let count = text.trim().parse().map_err(|_| fail(Errno::INVAL))?;
            self.change_queues(&mut memory, &device, count);
        }
        Ok(())
    }
}
