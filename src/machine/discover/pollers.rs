//! Kernel threads that poll or transmit, and the owners of the packets that they take.
//!
//! ```text
//!   napi/eth0-8193                a device's own                       net/core/dev.c
//!   napi/mtk_eth-5, napi/-5       a driver's dummy device              mtk_eth_soc.c, mtk_probe
//!   napi/phy0-7, mt76-tx phy0     a radio                              mt76: dma.c, util.h
//!   ksoftirqd/0                   a CPU                                kernel/softirq.c
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::processes::Process;
use crate::machine::host::HostRead;
use crate::machine::parse::task;
use crate::machine::parse::thread_name::{self, CUT, ThreadName};
use crate::model::evidence::{Poller, PollerOwner, PollerRole};
use crate::model::order::InOrder;
use crate::model::snapshot::{IrqRole, NetDev, Radio};

/// The threads, by owner, role and index.
pub(super) fn discover(
    host: &dyn HostRead,
    processes: &[Process],
    netdevs: &[NetDev],
    radios: &[Radio],
) -> Vec<Poller> {
    let known = Owners { netdevs, radios };
    let mut found: Vec<(Poller, u32)> = processes
        .iter()
        .filter_map(|process| {
            let (owner, role, number) = known.of_thread(&process.name)?;
            Some((poller(host, process, owner, role), number))
        })
        .collect();
    // Those without a number (of transmit queues) come after the others, in the order of their
    // start.
    found.order_by(|(a, m), (b, n)| {
        let key = |number: u32| (number == 0, number);
        (&a.owner, a.role, key(*m), a.pid).cmp(&(&b.owner, b.role, key(*n), b.pid))
    });
    let mut counts: BTreeMap<(PollerOwner, PollerRole), u32> = BTreeMap::new();
    for (poller, _) in &mut found {
        let next = counts.entry((poller.owner.clone(), poller.role)).or_default();
        poller.index = *next;
        *next += 1;
        poller.devices = known.devices(&poller.owner);
    }
    known.tell_apart(&mut found);
    found.into_iter().map(|(poller, _)| poller).collect()
}

fn poller(host: &dyn HostRead, process: &Process, owner: PollerOwner, role: PollerRole) -> Poller {
    let dir = PathBuf::from(format!("/proc/{}", process.pid));
    let stat = host.read(&dir.join("stat")).ok().and_then(|bytes| task::stat(&bytes));
    // A CPU's own threads are bound to it, and there are as many as CPUs.
    let cpus = match &owner {
        PollerOwner::Cpu(cpu) => Some([*cpu].into_iter().collect()),
        _ => host.read(&dir.join("status")).ok().and_then(|bytes| task::cpus_allowed(&bytes)),
    };
    Poller {
        owner,
        role,
        index: 0,
        pid: process.pid,
        name: process.name.clone(),
        polls: None,
        rx: Vec::new(),
        tx: Vec::new(),
        devices: Vec::new(),
        cpus,
        last_cpu: stat.and_then(|s| s.last_cpu),
        cpu_seconds: stat.map(|s| s.cpu_seconds),
        movable: stat.map(|s| s.movable),
    }
}

/// Possible owners of a thread.
struct Owners<'a> {
    netdevs: &'a [NetDev],
    radios: &'a [Radio],
}

impl Owners<'_> {
    /// Owner, role, and the number that orders the threads of one owner.
    fn of_thread(&self, name: &str) -> Option<(PollerOwner, PollerRole, u32)> {
        let napi = |owner, number| Some((owner, PollerRole::Napi, number));
        match thread_name::read(name)? {
            ThreadName::Ksoftirqd(cpu) => Some((PollerOwner::Cpu(cpu), PollerRole::Ksoftirqd, 0)),
            ThreadName::Napi { device, number } if self.is_device(device) => {
                napi(PollerOwner::Device(device.to_owned()), number)
            }
            ThreadName::Napi { device, number } if self.is_radio(device) => {
                napi(PollerOwner::Radio(device.to_owned()), number)
            }
            ThreadName::Napi { device, number } => {
                let cut = (name.len() == CUT).then(|| self.begun(device)).flatten();
                let dummy = if device == "dummy#" { "" } else { device };
                let dummy = PollerOwner::Dummy(dummy.to_owned());
                napi(cut.map_or(dummy, PollerOwner::Device), number)
            }
            // A long name of a device leaves no room for the number.
            ThreadName::Cut(begin) => napi(PollerOwner::Device(self.begun(begin)?), 0),
            ThreadName::Mt76 { worker, radio } => {
                let mut of_driver = self.radios.iter().filter(|r| drives_mt76(r));
                let radio = match self.radios.iter().find(|r| r.name == radio) {
                    Some(radio) => radio.name.clone(),
                    None if !radio.is_empty() && name.len() != CUT => radio.to_owned(),
                    // Cut short, the one radio of that driver is meant.
                    None => of_driver.next().filter(|_| of_driver.next().is_none())?.name.clone(),
                };
                let transmits = worker == "tx";
                let role = if transmits { PollerRole::Transmit } else { PollerRole::Workqueue };
                Some((PollerOwner::Radio(radio), role, 0))
            }
        }
    }

    fn is_device(&self, name: &str) -> bool {
        self.netdevs.iter().any(|d| d.name == name)
    }

    fn is_radio(&self, name: &str) -> bool {
        let number = name.strip_prefix("phy").unwrap_or_default();
        let numbered = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        numbered || self.radios.iter().any(|r| r.name == name)
    }

    /// Name of the one device whose name, with the dash behind it, begins with `begin`.
    fn begun(&self, begin: &str) -> Option<String> {
        let mut all = self.netdevs.iter().filter(|d| format!("{}-", d.name).starts_with(begin));
        let first = all.next()?;
        all.next().is_none().then(|| first.name.clone())
    }

    /// Network devices whose packets an owner's threads take.
    fn devices(&self, owner: &PollerOwner) -> Vec<String> {
        let names = |wanted: &dyn Fn(&NetDev) -> bool| -> Vec<String> {
            self.netdevs.iter().filter(|d| wanted(d)).map(|d| d.name.clone()).collect()
        };
        match owner {
            PollerOwner::Cpu(_) => Vec::new(),
            PollerOwner::Device(name) => vec![name.clone()],
            PollerOwner::Radio(name) => {
                let card = self.radios.iter().find(|r| r.name == *name).map(|r| r.card.as_str());
                let on_card = |radio: &Radio| radio.name == *name || Some(&*radio.card) == card;
                let radios = self.radios.iter().filter(|radio| on_card(radio));
                let devices: Vec<String> = radios.flat_map(|r| r.devices.clone()).collect();
                let mut cards = self.radios.iter().map(|r| r.card.as_str());
                let first = cards.next();
                let one_card = first.is_some() && cards.all(|card| Some(card) == first);
                // The phy that the card began with may be gone, and its threads keep the name.
                match devices.is_empty() && card.is_none() && one_card {
                    true => names(&|d| d.radio.is_some()),
                    false => devices,
                }
            }
            PollerOwner::Dummy(name) => {
                let drivers: Vec<&str> = DUMMIES
                    .iter()
                    .filter(|(dummy, _)| dummy == name)
                    .map(|(_, driver)| *driver)
                    .filter(|driver| self.netdevs.iter().any(|d| driven(d, driver)))
                    .collect();
                // Without a name it may be any driver's; with two drivers the owner is not known.
                match drivers.as_slice() {
                    [driver] => names(&|d| driven(d, driver)),
                    _ => Vec::new(),
                }
            }
        }
    }

    /// Finds the queues that each thread polls: by the kernel (6.8), else by the drivers' sources.
    fn tell_apart(&self, found: &mut [(Poller, u32)]) {
        let total = |found: &[(Poller, u32)], owner: &PollerOwner| {
            let mine = |p: &&(Poller, u32)| p.0.owner == *owner && p.0.role == PollerRole::Napi;
            u32::try_from(found.iter().filter(mine).count()).unwrap_or(u32::MAX)
        };
        for at in 0..found.len() {
            let Some((poller, number)) = found.get(at) else { continue };
            if poller.role != PollerRole::Napi {
                continue;
            }
            let (all, index) = (total(found, &poller.owner), poller.index);
            let device = match poller.devices.as_slice() {
                [only] => self.netdevs.iter().find(|d| d.name == *only),
                _ => None,
            };
            let napis = device.into_iter().flat_map(|d| &d.napis);
            let told = napis.into_iter().find(|napi| napi.pid == Some(poller.pid));
            let told = told.filter(|napi| !napi.rx.is_empty() || !napi.tx.is_empty());
            let (rx, tx, polls) = match (told, &poller.owner, device) {
                (Some(napi), ..) => {
                    let polls = match (napi.rx.is_empty(), napi.tx.is_empty()) {
                        (false, true) => IrqRole::Rx,
                        (true, _) => IrqRole::Tx,
                        (false, false) => IrqRole::Combined,
                    };
                    (napi.rx.clone(), napi.tx.clone(), Some(polls))
                }
                // mtk_eth_soc.c, mtk_probe: the one that completes is added first.
                (None, PollerOwner::Dummy(name), _) if name == MTK && all > 1 => match index {
                    0 => (Vec::new(), Vec::new(), Some(IrqRole::Tx)),
                    n => (vec![n - 1], Vec::new(), Some(IrqRole::Rx)),
                },
                // ipqess.c, ipqess_axi_probe: transmit and receive of each ring, in turns, where the
                // kernel numbers both.
                (None, _, Some(d)) if is_ipqess(d) && *number > 0 && all == 8 => {
                    match (index % 2, index / 2) {
                        (0, queue) => (Vec::new(), vec![queue], Some(IrqRole::Tx)),
                        (_, queue) => (vec![queue], Vec::new(), Some(IrqRole::Rx)),
                    }
                }
                // netif_napi_add_tx: an instance that busy sockets can't poll gets no number.
                (None, PollerOwner::Device(_) | PollerOwner::Radio(_), _) if *number == 0 => {
                    let cut = matches!(thread_name::read(&poller.name), Some(ThreadName::Cut(_)));
                    (Vec::new(), Vec::new(), (!cut).then_some(IrqRole::Tx))
                }
                _ => (Vec::new(), Vec::new(), None),
            };
            if let Some((poller, _)) = found.get_mut(at) {
                (poller.rx, poller.tx, poller.polls) = (rx, tx, polls);
            }
        }
    }
}

const MTK: &str = "mtk_eth";

/// Dummy devices by name, and the drivers that poll by them: mtk_eth_soc.c (OpenWrt's
/// 702-net-ethernet-mtk_eth_soc-enable-threaded-NAPI.patch, which named it later than it made it
/// threaded), and ath10k and ath11k with OpenWrt's patches for threaded NAPI.
const DUMMIES: &[(&str, &str)] =
    &[(MTK, "mtk_soc_eth"), ("", "mtk_soc_eth"), ("", "ath10k"), ("", "ath11k")];

fn driven(device: &NetDev, driver: &str) -> bool {
    let own = device.driver.as_deref().unwrap_or_default();
    own == driver || own.strip_prefix(driver).is_some_and(|rest| rest.starts_with('_'))
}

fn drives_mt76(radio: &Radio) -> bool {
    radio.driver.as_deref().is_some_and(|d| d.starts_with("mt76") || d.starts_with("mt79"))
}

fn is_ipqess(device: &NetDev) -> bool {
    device.driver.as_deref().is_some_and(|d| d.contains("ipqess"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::FakeHost;

    fn netdev(name: &str, driver: &str, radio: Option<&str>) -> NetDev {
        NetDev {
            name: name.into(),
            driver: Some(driver.into()),
            radio: radio.map(str::to_owned),
            ..NetDev::default()
        }
    }

    fn radio(name: &str, driver: &str, card: &str, devices: &[&str]) -> Radio {
        Radio {
            name: name.into(),
            driver: Some(driver.into()),
            card: card.into(),
            devices: devices.iter().map(|d| (*d).to_owned()).collect(),
            lines: Vec::new(),
        }
    }

    fn threads(names: &[&str], netdevs: &[NetDev], radios: &[Radio]) -> Vec<Poller> {
        let processes: Vec<Process> = (70..)
            .zip(names)
            .map(|(pid, name)| Process { pid, name: (*name).to_owned() })
            .collect();
        discover(&FakeHost::router(1, &[]), &processes, netdevs, radios)
    }

    fn told(pollers: &[Poller]) -> Vec<String> {
        let line = |p: &Poller| {
            let polls = p.polls.map_or("?".to_owned(), |r| r.to_string());
            format!("{} {} {} {polls} [{}]", p.owner, p.role, p.index, p.devices.join(" "))
        };
        pollers.iter().map(line).collect()
    }

    #[test]
    fn mediateks_threads_are_those_of_all_its_devices() {
        let devices = [
            netdev("eth0", "mtk_soc_eth", None),
            netdev("eth1", "mtk_soc_eth", None),
            netdev("phy0.2-ap0", "mt7996e", Some("phy0")),
            netdev("phy1-ap0", "mt7996e", Some("phy1")),
        ];
        let radios = [
            radio("phy0", "mt7996e", "0000:01:00.0", &["phy0.2-ap0"]),
            radio("phy1", "mt7996e", "0000:01:00.0", &["phy1-ap0"]),
        ];
        let names =
            ["napi/mtk_eth-6", "napi/mtk_eth-5", "napi/phy0-7", "mt76-tx phy0", "napi/phy0-0"];
        assert_eq!(
            told(&threads(&names, &devices, &radios)),
            [
                "phy0 napi 0 ? [phy0.2-ap0 phy1-ap0]",
                "phy0 napi 1 tx [phy0.2-ap0 phy1-ap0]",
                "phy0 transmit 0 ? [phy0.2-ap0 phy1-ap0]",
                "mtk_eth napi 0 tx [eth0 eth1]",
                "mtk_eth napi 1 rx [eth0 eth1]",
            ]
        );
    }

    #[test]
    fn a_thread_of_a_device_without_a_name_is_the_one_drivers_that_has_such() {
        let mtk = [netdev("eth0", "mtk_soc_eth", None)];
        for name in ["napi/-5", "napi/dummy#-5"] {
            assert_eq!(told(&threads(&[name], &mtk, &[])), ["unnamed device napi 0 ? [eth0]"]);
        }
        let both =
            [netdev("eth0", "mtk_soc_eth", None), netdev("wlan0", "ath10k_pci", Some("phy0"))];
        assert_eq!(told(&threads(&["napi/-5"], &both, &[])), ["unnamed device napi 0 ? []"]);
    }

    #[test]
    fn names_that_older_kernels_cut_are_still_the_devices() {
        let devices = [netdev("enp1s0f0", "igb", None), netdev("enp1s0f1", "igb", None)];
        let found = threads(&["napi/enp1s0f0-8", "napi/enp1s0f1-8"], &devices, &[]);
        assert_eq!(told(&found), ["enp1s0f0 napi 0 ? [enp1s0f0]", "enp1s0f1 napi 0 ? [enp1s0f1]"]);
        let long = [netdev("enp1s0f0np0", "mlx5_core", None)];
        let found = threads(&["napi/enp1s0f0np", "napi/enp1s0f0np"], &long, &[]);
        assert_eq!(
            told(&found),
            ["enp1s0f0np0 napi 0 ? [enp1s0f0np0]", "enp1s0f0np0 napi 1 ? [enp1s0f0np0]"]
        );
    }

    #[test]
    fn ipqess_has_a_thread_for_each_way_of_each_ring() {
        let devices = [netdev("eth0", "ipqess-edma", None)];
        let names: Vec<String> = (8193..8201).map(|n| format!("napi/eth0-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = threads(&names, &devices, &[]);
        assert_eq!(found[3].rx, [1]);
        assert_eq!(found[6].tx, [3]);
    }

    #[test]
    fn any_name_is_survived() {
        let names =
            ["napi/", "napi/-", "mt76-", "mt76- ", "ksoftirqd/x", "napi/é€-1", "mt76-tx phy9"];
        assert_eq!(told(&threads(&names, &[], &[])), ["phy9 transmit 0 ? []", "é€ napi 0 ? []"]);
    }
}
