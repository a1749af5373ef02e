//! Settings that are no files: netlink, ioctl, scheduler. They have an address that looks like a
//! path and is relative, which no file of the kernel is, so that the journal, read-back, undo and
//! the doors that record or fail treat them as they treat files.
//!
//! ```text
//!   ethtool/eth0/coalesce/rx-usecs      ethtool/eth0/rss        qdisc/eth0
//!   ethtool/eth0/ring/rx                ethtool/eth0/feature/rx-gro-list
//!   ethtool/eth0/channels/combined      napi/eth0/0               service/irqbalance
//!   flow-offload                        packet-steering           poller/radio:phy0/transmit/0
//! ```
//!
//! Reading goes by [`Query`] and files, so a captured machine answers too.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{HostError, HostRead, HostResult, Query, flow, query_as, service, uci};
use crate::machine::parse::thread_name::{self, ThreadName};
use crate::machine::sys::{affinity, ethtool, nic_set, qdisc};
use crate::model::evidence::{PollerKey, PollerOwner, PollerRole};
use crate::model::feature::{Features, Qdisc};
use crate::model::nic::{Napi, NicSettings, Numbers, Rss};
use crate::model::order::InOrder;

/// A setting that is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Interrupt moderation: `rx-usecs`, ..., `adaptive-rx`.
    Coalesce(String, String),
    /// Descriptors: `rx`, `tx`.
    Ring(String, String),
    /// Queues: `combined`, `rx`, `tx`.
    Channels(String, String),
    /// An offload, by the kernel's name.
    Feature(String, String),
    /// The RSS indirection table. Its text is the number of queues it is spread over equally, or
    /// the queue of each bucket with commas between (behind it, if there is just one).
    Rss(String),
    /// The root queueing discipline. Its text is `default` where the kernel chose it, else its
    /// kind, handle and options in hexadecimal.
    Qdisc(String),
    /// CPUs of a NAPI thread of a device, counted from 0 in the order of NAPI numbers.
    NapiThread(String, u32),
    /// CPUs of a thread that polls or transmits for a radio or a driver, by its [`PollerKey`].
    Poller(String),
    /// A service: running or not.
    Service(String),
    /// Established connections past netfilter and routing. Its text is that of
    /// [`crate::model::knob::Knob::FlowOffload`], with words behind it that tell how it came about.
    FlowOffload {
        /// True where OpenWrt's firewall is asked if there is one: it is the machine's, and
        /// nothing to a network namespace of ours.
        by_firewall: bool,
    },
    /// OpenWrt's option network.globals.packet_steering.
    PacketSteering,
}

impl Setting {
    /// The setting at an address.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        let parts: Vec<&str> = path.to_str()?.split('/').collect();
        let own = |text: &str| text.to_owned();
        Some(match *parts.as_slice() {
            ["ethtool", device, "coalesce", name] => Self::Coalesce(own(device), own(name)),
            ["ethtool", device, "ring", name] => Self::Ring(own(device), own(name)),
            ["ethtool", device, "channels", name] => Self::Channels(own(device), own(name)),
            ["ethtool", device, "feature", name] => Self::Feature(own(device), own(name)),
            ["ethtool", device, "rss"] => Self::Rss(own(device)),
            ["qdisc", device] => Self::Qdisc(own(device)),
            ["napi", device, index] => Self::NapiThread(own(device), index.parse().ok()?),
            ["poller", ..] => Self::Poller(own(path.to_str()?.strip_prefix("poller/")?)),
            ["service", name] => Self::Service(own(name)),
            ["flow-offload"] => Self::FlowOffload { by_firewall: true },
            ["packet-steering"] => Self::PacketSteering,
            _ => return None,
        })
    }

    /// True of a setting of the machine, which is neither seen nor set from a network namespace: what is
    /// tried in a lab must not stop a service of the machine that the lab is on.
    pub(super) fn is_of_the_machine(&self) -> bool {
        matches!(self, Self::Service(_) | Self::PacketSteering | Self::Poller(_))
    }

    /// The same setting seen from inside a network namespace.
    pub(super) fn inside(self) -> Self {
        match self {
            Self::FlowOffload { .. } => Self::FlowOffload { by_firewall: false },
            other => other,
        }
    }

    /// The address that leads to it.
    #[must_use]
    pub fn address(&self) -> PathBuf {
        self.to_string().into()
    }

    /// The text that it has now.
    pub(super) fn read(&self, host: &dyn HostRead) -> HostResult<Vec<u8>> {
        let fail = |errno| HostError::new("read", &self.address(), errno);
        // A question that this machine can't answer is a setting that it does not have.
        let absent = |e: HostError| match e.errno {
            Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => fail(Errno::NOENT),
            errno => fail(errno),
        };
        let nic = |device: &str| {
            query_as::<NicSettings>(host, &Query::Nic(device.to_owned())).map_err(absent)
        };
        let number = |group: Option<Numbers>, name: &str| {
            let number = group.and_then(|numbers| numbers.get(name).copied());
            number.map(|n| n.to_string()).ok_or_else(|| fail(Errno::NOENT))
        };
        let text = match self {
            Self::Coalesce(device, name) => number(nic(device)?.coalesce, coalesce_name(name)),
            Self::Ring(device, name) => number(nic(device)?.rings, name),
            Self::Channels(device, name) => number(nic(device)?.channels, name),
            Self::Feature(device, name) => {
                let query = Query::Features(device.clone());
                let features: Features = query_as(host, &query).map_err(absent)?;
                let state = features.get(name).ok_or_else(|| fail(Errno::NOENT))?;
                Ok(u8::from(state.active).to_string())
            }
            Self::Rss(device) => {
                let rss = nic(device)?.rss.ok_or_else(|| fail(Errno::NOENT))?;
                Ok(rss_text(&rss))
            }
            Self::Qdisc(device) => {
                let all: Vec<Qdisc> = query_as(host, &Query::Qdiscs).map_err(absent)?;
                let root = all.iter().find(|q| q.device == *device && q.queue.is_none());
                root.map(qdisc_text).ok_or_else(|| fail(Errno::NOENT))
            }
            Self::NapiThread(device, index) => {
                let pid = thread(host, device, *index).ok_or_else(|| fail(Errno::NOENT))?;
                allowed(host, pid)?.ok_or_else(|| fail(Errno::NODATA))
            }
            Self::Poller(key) => {
                let pid = poller(host, key).ok_or_else(|| fail(Errno::NOENT))?;
                allowed(host, pid)?.ok_or_else(|| fail(Errno::NODATA))
            }
            Self::Service(name) => {
                let runs = service::runs(host, name).ok_or_else(|| fail(Errno::NOENT))?;
                Ok(u8::from(runs).to_string())
            }
            Self::FlowOffload { by_firewall } => flow::read(host, *by_firewall).map_err(fail),
            Self::PacketSteering => uci::steering(host).map_err(fail),
        }?;
        Ok(text.into_bytes())
    }

    /// Sets it on the running system, in the calling thread's network namespace.
    pub(super) fn write(&self, host: &dyn HostRead, value: &[u8]) -> HostResult<()> {
        let fail = |e: io::Error| HostError::from_io("write", &self.address(), &e);
        let bad = || fail(Errno::INVAL.into());
        let text = std::str::from_utf8(value).map_err(|_| bad())?.trim();
        let number = || text.parse::<u32>().map_err(|_| bad());
        let switch = || match text {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(bad()),
        };
        let done = match self {
            Self::Coalesce(device, name) => {
                nic_set::coalesce(device, coalesce_name(name), number()?)
            }
            Self::Ring(device, name) => nic_set::ring(device, name, number()?),
            Self::Channels(device, name) => nic_set::channels(device, name, number()?),
            Self::Feature(device, name) => {
                ethtool::set_features(device, &[(name.as_str(), switch()?)])
            }
            Self::Service(name) => {
                service::set(host, name, switch()?).map_err(std::io::Error::from)
            }
            Self::FlowOffload { by_firewall } => flow::write(host, *by_firewall, text),
            Self::PacketSteering => uci::set_steering(host, text).map_err(std::io::Error::from),
            Self::Rss(device) => {
                let table = match text.parse::<u32>() {
                    Ok(queues) => nic_set::Spread::Equal(queues),
                    Err(_) => nic_set::Spread::Table(rss_table(text).ok_or_else(bad)?),
                };
                nic_set::rss(device, &table)
            }
            Self::Qdisc(device) => {
                let mut words = text.split(' ');
                let kind = words.next().unwrap_or_default();
                match (kind, words.next(), words.next()) {
                    ("default", None, None) => qdisc::reset(device),
                    (kind, None, None) => qdisc::replace(device, kind, 0, &[]),
                    (kind, Some(handle), options) => {
                        let handle = u32::from_str_radix(handle, 16).map_err(|_| bad())?;
                        let options = unhex(options.unwrap_or_default()).ok_or_else(bad)?;
                        qdisc::replace(device, kind, handle, &options)
                    }
                    _ => return Err(bad()),
                }
            }
            Self::NapiThread(device, index) => {
                let pid = thread(host, device, *index).ok_or_else(|| fail(Errno::NOENT.into()))?;
                affinity::set(pid, text)
            }
            Self::Poller(key) => {
                let pid = poller(host, key).ok_or_else(|| fail(Errno::NOENT.into()))?;
                affinity::set(pid, text)
            }
        };
        done.map_err(fail)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coalesce(device, name) => write!(f, "ethtool/{device}/coalesce/{name}"),
            Self::Ring(device, name) => write!(f, "ethtool/{device}/ring/{name}"),
            Self::Channels(device, name) => write!(f, "ethtool/{device}/channels/{name}"),
            Self::Feature(device, name) => write!(f, "ethtool/{device}/feature/{name}"),
            Self::Rss(device) => write!(f, "ethtool/{device}/rss"),
            Self::Qdisc(device) => write!(f, "qdisc/{device}"),
            Self::Service(name) => write!(f, "service/{name}"),
            Self::NapiThread(device, index) => write!(f, "napi/{device}/{index}"),
            Self::Poller(key) => write!(f, "poller/{key}"),
            Self::FlowOffload { .. } => f.write_str("flow-offload"),
            Self::PacketSteering => f.write_str("packet-steering"),
        }
    }
}

/// `ethtool -C` says `adaptive-rx` where the kernel's header has USE_ADAPTIVE_RX.
fn coalesce_name(name: &str) -> &str {
    match name {
        "adaptive-rx" => "use-adaptive-rx",
        "adaptive-tx" => "use-adaptive-tx",
        other => other,
    }
}

/// Spread equally, bucket i goes to queue i mod n (ethtool_rxfh_indir_default).
fn rss_text(rss: &Rss) -> String {
    let queues = rss.table.iter().max().map_or(0, |most| most.saturating_add(1));
    if queues > 0 && rss.table.iter().zip((0..queues).cycle()).all(|(is, equal)| *is == equal) {
        return queues.to_string();
    }
    let list: Vec<String> = rss.table.iter().map(ToString::to_string).collect();
    match list.as_slice() {
        [one] => format!("{one},"),
        _ => list.join(","),
    }
}

fn rss_table(text: &str) -> Option<Vec<u32>> {
    text.trim_end_matches(',').split(',').map(|n| n.parse().ok()).collect()
}

/// A discipline that the kernel put there has the handle 0 (attach_default_qdiscs); whatever somebody
/// asked for has another.
fn qdisc_text(root: &Qdisc) -> String {
    match (root.handle, &root.options) {
        (Some(0), _) => "default".into(),
        (Some(handle), Some(options)) => format!("{} {handle:x} {options}", root.kind),
        (Some(handle), None) => format!("{} {handle:x}", root.kind),
        // A capture of an older version.
        (None, _) => root.kind.clone(),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<char> = text.chars().collect();
    let byte = |pair: &[char]| match pair {
        [high, low] => u8::try_from(high.to_digit(16)? * 16 + low.to_digit(16)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

/// Number of the process that polls for a device: what the kernel says (6.8 and later), else by
/// its name, which says nothing of the network namespace.
fn thread(host: &dyn HostRead, device: &str, index: u32) -> Option<u32> {
    let index = usize::try_from(index).ok()?;
    let ifindex: u32 = host
        .text(Path::new(&format!("/sys/class/net/{device}/ifindex")))
        .ok()
        .and_then(|text| text.parse().ok())?;
    if let Ok(napis) = query_as::<Vec<Napi>>(host, &Query::Napis) {
        let mut own: Vec<Napi> = napis.into_iter().filter(|n| n.ifindex == ifindex).collect();
        own.order_by_key(|n| n.id);
        return own.into_iter().filter_map(|n| n.pid).nth(index);
    }
    let owner = PollerOwner::Device(device.to_owned());
    named(host, &owner, PollerRole::Napi).get(index).copied()
}

/// Number of the process that a key names.
fn poller(host: &dyn HostRead, key: &str) -> Option<u32> {
    let key: PollerKey = key.parse().ok()?;
    let index = usize::try_from(key.index).ok()?;
    named(host, &key.owner, key.role).get(index).copied()
}

/// The threads of an owner and a role by their names, in the order that discovery counts them in.
fn named(host: &dyn HostRead, owner: &PollerOwner, role: PollerRole) -> Vec<u32> {
    let number = |name: &str| -> Option<u32> {
        match (thread_name::read(name)?, role, owner) {
            (
                ThreadName::Napi { device, number },
                PollerRole::Napi,
                PollerOwner::Device(name) | PollerOwner::Radio(name) | PollerOwner::Dummy(name),
            ) => {
                let unnamed = name.is_empty() && device == "dummy#";
                (device == name || unnamed).then_some(number)
            }
            (ThreadName::Mt76 { worker, radio }, role, PollerOwner::Radio(name)) => {
                let transmits = worker == "tx";
                let alike = match role {
                    PollerRole::Transmit => transmits,
                    PollerRole::Workqueue => !transmits,
                    PollerRole::Napi | PollerRole::Ksoftirqd => false,
                };
                (alike && radio == name).then_some(0)
            }
            _ => None,
        }
    };
    let all = host.list(Path::new("/proc")).unwrap_or_default();
    let mut found: Vec<(bool, u32, u32)> = all
        .iter()
        .filter_map(|name| name.parse::<u32>().ok())
        .filter_map(|pid| {
            let name = host.text(Path::new(&format!("/proc/{pid}/comm"))).ok()?;
            let number = number(&name)?;
            Some((number == 0, number, pid))
        })
        .collect();
    found.order_by(Ord::cmp);
    found.into_iter().map(|(_, _, pid)| pid).collect()
}

/// The mask of CPUs that a process may run on; `None` where its status does not tell.
fn allowed(host: &dyn HostRead, pid: u32) -> HostResult<Option<String>> {
    let status = host.text(Path::new(&format!("/proc/{pid}/status")))?;
    let mask = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed:"));
    Ok(mask.map(|m| m.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::knob::KNOBS;

    #[test]
    fn every_address_of_the_table_leads_to_its_setting_and_no_file_is_one() {
        for row in KNOBS.iter().filter(|row| !row.path.starts_with('/')) {
            let fields = [("{device}", "eth0.7"), ("{queue}", "3"), ("{name}", "rx-usecs")];
            let filled = fields.iter().fold(row.path.to_owned(), |p, (f, to)| p.replace(f, to));
            let setting = Setting::at(Path::new(&filled));
            let setting = setting.unwrap_or_else(|| panic!("{filled} can't be read or written"));
            assert_eq!(setting.address(), Path::new(&filled));
        }
        for text in ["/sys/class/net/eth0/threaded", "napi/eth0/x", "ethtool/eth0", "", "qdisc"] {
            assert_eq!(Setting::at(Path::new(text)), None, "{text}");
        }
    }

    #[test]
    fn an_equal_spread_is_told_from_a_table_of_ones_own() {
        let text = |table: &[u32]| rss_text(&Rss { table: table.to_vec(), ..Rss::default() });
        assert_eq!(text(&[0, 1, 2, 0, 1, 2, 0, 1]), "3");
        assert_eq!(text(&[0, 0, 0]), "1");
        assert_eq!(text(&[0, 0, 1, 1]), "0,0,1,1");
        assert_eq!(text(&[2]), "2,");
        for table in [&[0, 0, 1, 1][..], &[2]] {
            assert_eq!(rss_table(&text(table)).unwrap(), table);
        }
        assert_eq!(rss_table("1,x"), None);
    }

    #[test]
    fn what_the_kernel_chose_itself_is_told_from_what_somebody_put_there() {
        let root = |handle, options: Option<&str>| {
            qdisc_text(&Qdisc {
                device: "eth0".into(),
                kind: "fq".into(),
                queue: None,
                handle,
                options: options.map(str::to_owned),
            })
        };
        assert_eq!(root(Some(0), Some("00ff")), "default");
        assert_eq!(root(Some(0x8001_0000), Some("00ff")), "fq 80010000 00ff");
        assert_eq!(root(None, None), "fq");
        assert_eq!(unhex("00ff"), Some(vec![0, 255]));
        assert_eq!((unhex("0"), unhex("zz"), unhex("")), (None, None, Some(vec![])));
    }

    /// A /proc of threads' names, each allowed on the CPUs of its number.
    struct Threads(&'static [(u32, &'static str)]);

    impl HostRead for Threads {
        fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
            let absent = || HostError::new("read", path, Errno::NOENT);
            if let Some(setting) = Setting::at(path) {
                return setting.read(self);
            }
            let mut parts = path.iter().skip(2).map(|part| part.to_string_lossy());
            let (pid, file) = (parts.next().ok_or_else(absent)?, parts.next());
            let found = self.0.iter().find(|(of, _)| of.to_string() == pid);
            let (pid, name) = found.ok_or_else(absent)?;
            match file.as_deref() {
                Some("comm") => Ok(format!("{name}\n").into_bytes()),
                Some("status") => Ok(format!("Cpus_allowed:\t{pid:x}\n").into_bytes()),
                _ => Err(absent()),
            }
        }

        fn list(&self, _: &Path) -> HostResult<Vec<String>> {
            Ok(self.0.iter().map(|(pid, _)| pid.to_string()).collect())
        }

        fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
            Ok(path.to_owned())
        }

        fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
            Err(query.failed(Errno::NODATA))
        }

        fn arch(&self) -> String {
            String::new()
        }

        fn identity(&self) -> crate::model::identity::HostIdentity {
            unreachable!("no setting asks for it")
        }
    }

    #[test]
    fn a_thread_is_found_by_its_owner_and_role_whatever_its_number_is_now() {
        let before = Threads(&[
            (1, "init"),
            (3, "napi/mtk_eth-6"),
            (4, "napi/mtk_eth-5"),
            (5, "mt76-tx phy0"),
            (6, "napi/phy0-7"),
            (7, "napi/phy0-0"),
            (8, "napi/-9"),
            (9, "mt76-usb-rx phy0"),
        ]);
        let of = |host: &Threads, key: &str| {
            let text = host.read(&Path::new("poller").join(key)).ok()?;
            String::from_utf8(text).ok()
        };
        for (key, mask) in [
            ("dummy:mtk_eth/napi/0", Some("4")),
            ("dummy:mtk_eth/napi/1", Some("3")),
            ("dummy:mtk_eth/napi/2", None),
            ("radio:phy0/transmit/0", Some("5")),
            ("radio:phy0/napi/0", Some("6")),
            ("radio:phy0/napi/1", Some("7")),
            ("radio:phy0/workqueue/0", Some("9")),
            ("dummy:/napi/0", Some("8")),
            ("radio:phy1/napi/0", None),
            ("rx-usecs", None),
        ] {
            assert_eq!(of(&before, key).as_deref(), mask, "{key}");
        }
        // The driver made its threads anew.
        let after = Threads(&[(15, "napi/mtk_eth-13"), (12, "napi/mtk_eth-14")]);
        assert_eq!(of(&after, "dummy:mtk_eth/napi/1").as_deref(), Some("c"));
    }
}
