//! An arm64 machine that poses as a board: QEMU's `virt` with a device tree of our own, in which
//! the CPUs are in clusters of different speed, each with its clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::fdt::{self, Node, cells, strings};
use crate::kernel::run;

pub(crate) const QEMU: &str = "qemu-system-aarch64";

/// What it says it is.
#[derive(Debug, Clone)]
pub struct Board {
    /// `/proc/device-tree/model`.
    pub model: &'static str,
    /// The first word of `compatible`.
    pub compatible: &'static str,
    /// In the order of their CPUs.
    pub clusters: Vec<Cluster>,
}

/// CPUs of one kind on one clock. The kernel makes `cpu_capacity` of speed per MHz times the highest
/// frequency, the biggest 1024 (drivers/base/arch_topology.c, `topology_normalize_cpu_scale`), once
/// cpufreq-dt has told it the frequencies.
#[derive(Debug, Clone, Copy)]
pub struct Cluster {
    /// How many.
    pub cpus: u32,
    /// `capacity-dmips-mhz`.
    pub speed: u32,
    /// What the clock offers, in Hz, lowest first.
    pub frequencies: [u32; 2],
}

impl Board {
    /// How many CPUs it has.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.clusters.iter().map(|c| c.cpus).sum()
    }

    /// The words for QEMU that make the machine, its tree aside.
    pub(crate) fn machine(&self, memory: u32) -> Vec<String> {
        // The third version of the interrupt controller gives each queue a message of its own.
        ["-M", "virt,gic-version=3", "-cpu", "cortex-a57", "-smp"]
            .map(str::to_owned)
            .into_iter()
            .chain([self.cpus().to_string(), "-m".to_owned(), memory.to_string()])
            .collect()
    }

    /// Writes the tree into `scratch`: what this QEMU would give its machine, changed.
    pub(crate) fn tree(&self, memory: u32, scratch: &Path) -> Result<PathBuf> {
        let path = scratch.join("board.dtb");
        let mut dump = Command::new(QEMU);
        dump.args(self.machine(memory)).args(["-display", "none"]);
        dump.arg("-machine").arg(format!("dumpdtb={}", path.display()));
        run(&mut dump)?;
        let bytes = fs::read(&path).map_err(|e| Error::failed(path.display(), e))?;
        let mut root = fdt::parse(&bytes)?;
        self.change(&mut root)?;
        fs::write(&path, fdt::write(&root)).map_err(|e| Error::failed(path.display(), e))?;
        Ok(path)
    }

    fn change(&self, root: &mut Node) -> Result<()> {
        root.set("model", strings(&[self.model]));
        root.set("compatible", strings(&[self.compatible, "linux,dummy-virt"]));
        // QEMU counts its own from 0x8000.
        let mut phandle = 0x9000..;
        let mut next = || phandle.next().unwrap_or_default();
        let mut socket = Node::new("socket0");
        let mut number = 0;
        for (index, cluster) in self.clusters.iter().enumerate() {
            let (table, clock) = (next(), next());
            root.children.push(operating_points(index, table, cluster));
            root.children.push(
                Node::new(format!("cpu-clock-{index}"))
                    .with("compatible", strings(&["fixed-clock"]))
                    .with("#clock-cells", cells(&[0]))
                    .with("clock-frequency", cells(&cluster.frequencies[1..]))
                    .with("phandle", cells(&[clock])),
            );
            let mut place = Node::new(format!("cluster{index}"));
            for core in 0..cluster.cpus {
                let cpu = root.child("cpus")?.child(&format!("cpu@{number}"))?;
                number += 1;
                let handle = cpu.get("phandle").map_or_else(|| cells(&[next()]), <[u8]>::to_vec);
                cpu.set("phandle", handle.clone());
                cpu.set("capacity-dmips-mhz", cells(&[cluster.speed]));
                cpu.set("operating-points-v2", cells(&[table]));
                cpu.set("clocks", cells(&[clock]));
                place.children.push(Node::new(format!("core{core}")).with("cpu", handle));
            }
            socket.children.push(place);
        }
        let cpus = root.child("cpus")?;
        cpus.children.retain(|c| c.name != "cpu-map");
        let mut map = Node::new("cpu-map");
        map.children.push(socket);
        cpus.children.push(map);
        Ok(())
    }
}

fn operating_points(index: usize, phandle: u32, cluster: &Cluster) -> Node {
    let mut table = Node::new(format!("opp-table-{index}"))
        .with("compatible", strings(&["operating-points-v2"]))
        .with("opp-shared", [])
        .with("phandle", cells(&[phandle]));
    for frequency in cluster.frequencies {
        let point = Node::new(format!("opp-{frequency}"));
        table.children.push(point.with("opp-hz", cells(&[0, frequency])));
    }
    table
}
