//! Facts that an agent reports about its machine.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::token::digest;
use crate::change::apply::inventory::inventory;
use crate::error::{Error, Result};
use crate::machine::discover;
use crate::machine::host::{HostError, HostRead, HostResult, Live, Query};
use crate::machine::parse::{keyvalue, snmp};
use crate::machine::sys::route;
use crate::measure::sample::{CpuCounters, DeviceCounters, Health};
use crate::model::cpuset::CpuSet;
use crate::model::identity::HostIdentity;
use crate::model::party::{Facts, WayOut};

const LOOPBACK: &str = "lo";
/// `ARPHRD_ETHER` (include/uapi/linux/if_arp.h).
const ETHERNET: &str = "1";

/// The machine, and its ways to some addresses.
///
/// # Errors
/// Not supported where there is no way to one of them.
pub(super) fn facts(host: &Live, to: &[IpAddr]) -> Result<Facts> {
    let snapshot = discover::snapshot(host);
    let boot = host.text(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    let fingerprint = discover::fingerprint(&snapshot);
    let cpus = snapshot.usable_cpus().len();
    Ok(Facts {
        program: env!("CARGO_PKG_VERSION").into(),
        hostname: snapshot.machine.hostname,
        kernel: snapshot.machine.kernel,
        arch: snapshot.machine.arch,
        board: snapshot.machine.board.unwrap_or_default(),
        cpu_model: snapshot.machine.cpu_model.unwrap_or_default(),
        virtualisation: snapshot.machine.virtualisation.unwrap_or_default(),
        id: snapshot.machine.id.unwrap_or_default(),
        load_cpus: None,
        boot: short(boot.as_bytes()),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        snapshot: fingerprint,
        ways: to.iter().map(|to| way(host, *to)).collect::<Result<_>>()?,
    })
}

/// CPUs that a program may run on here.
pub(super) fn cpus(host: &Live) -> CpuSet {
    discover::snapshot(host).usable_cpus()
}

/// The first 16 digits of a hash.
fn short(bytes: &[u8]) -> String {
    digest(bytes).chars().take(16).collect()
}

fn way(host: &Live, to: IpAddr) -> Result<WayOut> {
    let what = format!("find the way to {to}");
    let failed = |e: io::Error| Error::not_supported(what.clone(), e);
    let any: SocketAddr = if to.is_ipv6() { ([0u16; 8], 0).into() } else { ([0u8; 4], 0).into() };
    let socket = UdpSocket::bind(any).map_err(failed)?;
    // No packet leaves: the kernel only looks up the way.
    socket.connect((to, 9)).map_err(failed)?;
    let from = socket.local_addr().map_err(failed)?.ip();
    let mut device = route::device_towards(to).map_err(failed)?;
    if device == LOOPBACK && !to.is_loopback() {
        // Its own address: others come by the device that has it.
        device = route::device_with(to).map_err(failed)?;
    }
    let dir = Path::new("/sys/class/net").join(&device);
    let read = |file: &str| host.text(&dir.join(file)).ok()?.parse::<u32>().ok();
    // -1 for a link that is down, and nothing from devices without a link.
    let (mtu, speed) = (read("mtu"), read("speed").filter(|speed| *speed > 0));
    let mut counted = host.list(&dir.join("brif")).unwrap_or_default();
    if counted.is_empty() && counts_frames(host, &dir) {
        counted.push(device.clone());
    }
    Ok(WayOut { to, from, device, counted, mtu: mtu.unwrap_or(1500), speed })
}

/// True if the device counts whole Ethernet frames: VLANs and bridges are known by DEVTYPE, and
/// count what they pass up without its header (net/8021q/vlan_core.c `vlan_do_receive`,
/// net/bridge/br_input.c `br_pass_frame_up`).
fn counts_frames(host: &Live, dir: &Path) -> bool {
    let kind = host.read(&dir.join("uevent")).ok();
    let kind = kind.and_then(|text| keyvalue::value(&text, "DEVTYPE"));
    host.text(&dir.join("type")).is_ok_and(|t| t == ETHERNET)
        && !matches!(kind.as_deref(), Some("vlan" | "bridge" | "bond" | "macvlan"))
}

/// Every setting of the machine that is known, by name.
pub(super) fn settings(host: &Live) -> BTreeMap<String, String> {
    let snapshot = discover::snapshot(host);
    let mut settings = BTreeMap::new();
    for item in inventory(host, &snapshot) {
        if let Some(now) = item.now {
            settings.insert(item.knob.to_string(), now.to_string());
        }
    }
    settings
}

/// Counters at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// CPUs.
    pub cpus: CpuCounters,
    /// Devices.
    pub devices: DeviceCounters,
    /// Clocks and heat.
    pub health: Health,
    /// Datagrams that a program was too slow to take.
    pub overflowed: u64,
    /// Packets that came in fragments and could not be put together.
    pub unassembled: u64,
}

impl Sample {
    /// Reads them.
    ///
    /// # Errors
    /// The error of the kernel, or of a file that was not sent.
    pub fn read(host: &dyn HostRead, devices: &[String]) -> Result<Self> {
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        let unreadable =
            |e: HostError| Error::not_supported(format!("read {}", e.path.display()), e.reason());
        Ok(Self {
            cpus: CpuCounters::read(host).map_err(unreadable)?,
            devices: DeviceCounters::read(host, &devices).map_err(unreadable)?,
            health: Health::read(host),
            overflowed: overflowed(host),
            unassembled: unassembled(host),
        })
    }
}

const OVERFLOWED6: &str = "Udp6RcvbufErrors";

/// Datagrams for which the receiving socket had no room, since boot; 0 where no file reports it.
/// The files are net/ipv4/proc.c `snmp_seq_show` and net/ipv6/proc.c `snmp6_seq_show`.
fn overflowed(host: &dyn HostRead) -> u64 {
    let four = host.read(Path::new("/proc/net/snmp")).unwrap_or_default();
    let four = snmp::counters(&four, "Udp").get("RcvbufErrors").copied().unwrap_or(0);
    let six = host.read(Path::new("/proc/net/snmp6")).unwrap_or_default();
    let six = String::from_utf8_lossy(&six);
    let six = six.lines().find_map(|line| line.strip_prefix(OVERFLOWED6)?.trim().parse().ok());
    four.saturating_add(six.unwrap_or(0))
}

/// The same for IPv4 packets whose fragments did not all come; 0 where no file reports it.
fn unassembled(host: &dyn HostRead) -> u64 {
    let four = host.read(Path::new("/proc/net/snmp")).unwrap_or_default();
    snmp::counters(&four, "Ip").get("ReasmFails").copied().unwrap_or(0)
}

/// Files as they were read at the agent: its side fills them from the machine, the controller's
/// reads them again by the same code.
pub struct Files {
    live: Option<Live>,
    files: Mutex<BTreeMap<String, String>>,
}

impl Files {
    /// Files that came from an agent.
    #[must_use]
    pub fn sent(files: BTreeMap<String, String>) -> Self {
        Self { live: None, files: Mutex::new(files) }
    }

    fn hold(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostRead for Files {
    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        let name = path.display().to_string();
        match &self.live {
            None => {
                let text = self.hold().get(&name).map(|text| text.clone().into_bytes());
                text.ok_or_else(|| HostError::new("read", path, Errno::NOENT))
            }
            Some(live) => {
                let bytes = live.read(path)?;
                self.hold().insert(name, String::from_utf8_lossy(&bytes).into_owned());
                Ok(bytes)
            }
        }
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        if let Some(live) = &self.live {
            return live.list(path);
        }
        let mut names: Vec<String> = Vec::new();
        for file in self.hold().keys() {
            let below = Path::new(file).strip_prefix(path).ok();
            let first = below.and_then(|below| below.iter().next()?.to_str());
            // The files are in order: those of one directory follow each other.
            if let Some(first) = first.filter(|first| names.last().is_none_or(|l| l != first)) {
                names.push(first.to_owned());
            }
        }
        Ok(names)
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        Err(HostError::new("resolve", path, Errno::NOENT))
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        Err(HostError::new("query", Path::new(&query.name()), Errno::NOENT))
    }

    fn arch(&self) -> String {
        String::new()
    }

    fn identity(&self) -> HostIdentity {
        HostIdentity { boot_id: String::new(), netns: 0, netns_cookie: None }
    }
}

/// The files that counters are read from, as they are now.
pub(super) fn sample(host: &Live, devices: &[String]) -> Result<BTreeMap<String, String>> {
    let files = Files { live: Some(host.clone()), files: Mutex::default() };
    Sample::read(&files, devices)?;
    let mut files = files.files.into_inner().unwrap_or_else(PoisonError::into_inner);
    // What is sent while a run goes on may pass the router: only the lines that are looked at.
    for (path, wanted) in
        [("/proc/stat", "cpu"), ("/proc/net/snmp", "Udp:"), ("/proc/net/snmp6", OVERFLOWED6)]
    {
        if let Some(text) = files.get_mut(path) {
            let kept = text.lines().filter(|line| line.starts_with(wanted));
            *text = kept.flat_map(|line| [line, "\n"]).collect();
        }
    }
    Ok(files)
}
