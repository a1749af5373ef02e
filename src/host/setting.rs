//! Settings that are no files: netlink, ioctl, scheduler. They have an address that looks like a
//! path and is relative, which no file of the kernel is, so that the journal, read-back, undo and
//! the doors that record or fail treat them as they treat files.
//!
//! ```text
//!   ethtool/eth0/coalesce/rx-usecs      ethtool/eth0/rss        qdisc/eth0
//!   ethtool/eth0/ring/rx                ethtool/eth0/feature/rx-gro-list
//!   ethtool/eth0/channels/combined      napi/eth0/0               service/irqbalance
//!   flow-offload                        packet-steering
//! ```
//!
//! Reading goes by [`Query`] and files, so a captured machine answers too.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{HostError, HostRead, HostResult, Query, flow, query_as, service, uci};
use crate::model::feature::{Features, Qdisc};
use crate::model::nic::{Napi, NicSettings, Numbers, Rss};
use crate::model::order::InOrder;
use crate::sys::{affinity, ethtool, nic_set, qdisc};

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
    /// Whether a service runs.
    Service(String),
    /// Established connections past netfilter and routing. Its text is that of
    /// [`crate::model::knob::Knob::FlowOffload`], with words behind it that tell how it came about.
    FlowOffload {
        /// Whether OpenWrt's firewall is asked where there is one: it is the machine's, and
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
            ["service", name] => Self::Service(own(name)),
            ["flow-offload"] => Self::FlowOffload { by_firewall: true },
            ["packet-steering"] => Self::PacketSteering,
            _ => return None,
        })
    }

    /// Whether it is the machine's, and so neither seen nor set from a network namespace: what is
    /// tried in a lab must not stop a service of the machine that the lab is on.
    pub(super) fn is_of_the_machine(&self) -> bool {
        matches!(self, Self::Service(_) | Self::PacketSteering)
    }

    /// The same setting seen from inside a network namespace.
    pub(super) fn inside(self) -> Self {
        match self {
            Self::FlowOffload { .. } => Self::FlowOffload { by_firewall: false },
            other => other,
        }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> PathBuf {
        self.to_string().into()
    }

    /// Its text now.
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
                let status = host.text(Path::new(&format!("/proc/{pid}/status")))?;
                let mask = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed:"));
                mask.map(|m| m.trim().to_owned()).ok_or_else(|| fail(Errno::NODATA))
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

/// What the kernel put there itself has the handle 0 (attach_default_qdiscs); whatever somebody
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
    let prefix = format!("napi/{device}-");
    let names = host.list(Path::new("/proc")).ok()?;
    let mut found: Vec<(u32, u32)> = names
        .iter()
        .filter_map(|pid| {
            let name = host.text(Path::new(&format!("/proc/{}/comm", pid.parse::<u32>().ok()?)));
            Some((name.ok()?.strip_prefix(&prefix)?.parse().ok()?, pid.parse().ok()?))
        })
        .collect();
    found.order_by(Ord::cmp);
    found.get(index).map(|(_, pid)| *pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_its_setting_and_no_file_is_one() {
        for text in [
            "ethtool/eth0/coalesce/rx-usecs",
            "ethtool/eth0.7/ring/tx",
            "ethtool/eth0/channels/combined",
            "ethtool/eth0/feature/rx-gro-list",
            "ethtool/eth0/rss",
            "qdisc/pppoe-wan",
            "napi/eth0/3",
            "service/irqbalance",
            "flow-offload",
            "packet-steering",
        ] {
            let setting = Setting::at(Path::new(text)).unwrap();
            assert_eq!(setting.address(), Path::new(text));
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
}
