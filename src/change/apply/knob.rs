//! Files of settings on this machine, and the meaning of their text. In come knobs of the table, a
//! snapshot and text; out come paths, values and reasons; the kernel is read, and nothing written.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::machine::host::{HostError, HostRead, offers_flow_offload};
use crate::machine::parse::{cpumask, route};
use crate::model::knob::spec::{Absent, Fixed, Order, Reshapes, Same, Scope};
use crate::model::knob::{Knob, Shape, Value};
use crate::model::order::{InOrder, OneByOne};
use crate::model::plan::Candidate;
use crate::model::snapshot::{Irq, Snapshot};
use crate::model::units::IrqLine;

/// A setting with its place on this machine and the value that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Setting.
    pub knob: Knob,
    /// The kernel's file.
    pub path: PathBuf,
    /// Value that is asked for.
    pub wanted: Value,
    /// A path that exists as long as an interrupt number still is this line's.
    pub witness: Option<PathBuf>,
}

/// The kernel's file of a knob.
///
/// # Errors
/// Usage for a name that can't be one; not supported when the device or its interrupt is not on
/// this machine.
pub fn path(knob: &Knob, snapshot: &Snapshot) -> Result<PathBuf> {
    knob.check_names().map_err(|bad| Error::usage(format!("set {knob}"), bad))?;
    if let Some(device) = knob.device()
        && snapshot.netdev(device).is_none()
    {
        return Err(device_gone(device));
    }
    if is_line(knob) {
        return line(knob, snapshot).map(|irq| affinity_path(knob, irq.line));
    }
    Ok(PathBuf::from(knob.address()))
}

fn line<'a>(knob: &Knob, snapshot: &'a Snapshot) -> Result<&'a Irq> {
    let found = match knob {
        Knob::IrqAffinity { irq } => snapshot.irqs.iter().find(|i| i.id == *irq),
        _ => None,
    };
    found.ok_or_else(|| {
        Error::not_supported(
            format!("find the interrupt line for {knob}"),
            "absent: no line here is that",
        )
        .hint("the driver may have other queues now; make a new plan: linerate plan")
    })
}

fn device_gone(device: &str) -> Error {
    Error::not_supported(
        format!("find device {device}"),
        format!("device {device} is not here any more"),
    )
    .hint("plug it in again, or make a new plan: linerate plan")
}

fn affinity_path(knob: &Knob, line: IrqLine) -> PathBuf {
    PathBuf::from(knob.address().replace("{line}", &line.to_string()))
}

/// True where `path` can be the file of `knob`: a journal is never trusted with a path.
#[must_use]
pub fn path_fits(knob: &Knob, path: &Path) -> bool {
    if knob.check_names().is_err() {
        return false;
    }
    if !is_line(knob) {
        return path == Path::new(&knob.address());
    }
    // Written back, "+5" or "005" would not be the same.
    let number = path.iter().nth(3).and_then(|n| n.to_str()?.parse().ok());
    number.is_some_and(|n| path == affinity_path(knob, IrqLine(n)))
}

fn is_line(knob: &Knob) -> bool {
    knob.spec().is_some_and(|spec| spec.scope == Scope::Line)
}

/// Path and value of every setting of a candidate, in the order of a transaction.
///
/// # Errors
/// Usage for a setting that is invalid, or two values for one file; not supported when a
/// device or interrupt line is not on this machine.
pub fn resolve(snapshot: &Snapshot, candidate: &Candidate) -> Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::with_capacity(candidate.settings.len());
    for setting in &candidate.settings {
        let (knob, wanted) = (setting.knob.clone(), setting.after.clone());
        knob.check(&wanted).map_err(|bad| Error::usage(format!("set {knob}"), bad))?;
        if knob.spec().is_some_and(|spec| spec.only_dragged) {
            let why = "no plan sets it: it is put back with the setting that changes it";
            return Err(Error::usage(format!("set {knob}"), why));
        }
        let path = path(&knob, snapshot)?;
        if let Some(earlier) = targets.iter().find(|t| t.path == path) {
            if same(&knob, &earlier.wanted, &wanted) {
                continue;
            }
            return Err(Error::usage(
                format!("set {knob}: {}", path.display()),
                format!(
                    "{} asks for {wanted}, and for {} by way of {}",
                    candidate.name, earlier.wanted, earlier.knob
                ),
            )
            .hint("devices that share an interrupt line can only have one affinity"));
        }
        let witness = witness(&knob, snapshot);
        targets.push(Target { knob, path, wanted, witness });
    }
    targets.order_by_key(|target| target.knob.spec().map_or(Order::Plain, |spec| spec.order));
    Ok(targets)
}

/// A path that exists as long as an interrupt number still is this line's.
pub(super) fn witness(knob: &Knob, snapshot: &Snapshot) -> Option<PathBuf> {
    // register_handler_proc (kernel/irq/proc.c) makes this directory for each handler.
    let irq = line(knob, snapshot).ok()?;
    let plain = !irq.action.is_empty() && !irq.action.contains(['/', ',', '\0']);
    plain.then(|| PathBuf::from(format!("/proc/irq/{}/{}", irq.line, irq.action)))
}

/// True where other settings come and go with this one and can be looked up only after it.
pub(super) fn reshapes(knob: &Knob) -> bool {
    knob.spec().is_some_and(|spec| spec.reshapes != Reshapes::Nothing)
}

/// Reason why the present value could not be put back exactly, so that it must not be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Irreplaceable {
    /// This nft table, which is not ours, has a flowtable.
    Flowtable(String),
    /// This queueing discipline has classes, filters or options.
    Qdisc(String),
    /// A router advertised the default route of this device.
    AdvertisedRoute(String),
}

impl Irreplaceable {
    /// Remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::AdvertisedRoute(_) => {
                "set accept_ra of that device to 2, which keeps its routes, or forwarding by hand"
            }
            Self::Flowtable(_) => "two would fight over the same flows; remove that one first",
            Self::Qdisc(_) => {
                "take this setting out of the plan, or remove that queueing discipline first"
            }
        }
    }
}

impl fmt::Display for Irreplaceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flowtable(table) => write!(f, "nft table {table} has a flowtable already"),
            Self::AdvertisedRoute(device) => write!(
                f,
                "the default route of {device} came by router advertisement; the kernel would remove \
                 it, and it could not be put back"
            ),
            Self::Qdisc(kind) => {
                write!(f, "{kind} is the root qdisc, and could not be put back exactly")
            }
        }
    }
}

/// The reason why the present value must not be replaced, if there is one.
pub(super) fn irreplaceable(host: &dyn HostRead, knob: &Knob, text: &str) -> Option<Irreplaceable> {
    match knob.spec()?.fixed {
        // Only switching it on removes them.
        Fixed::AdvertisedRoute if text == "0" => {
            let routes = host.read(Path::new("/proc/thread-self/net/ipv6_route")).ok()?;
            let accepts = |device: &str| {
                let file = format!("/proc/sys/net/ipv6/conf/{device}/accept_ra");
                host.text(Path::new(&file)).ok()
            };
            let lost = |device: &String| accepts(device).is_some_and(|how| how != "2");
            route::advertised(&routes).into_iter().find(lost).map(Irreplaceable::AdvertisedRoute)
        }
        Fixed::Flowtable => {
            let table = text.split(' ').find_map(|word| word.strip_prefix("other:"))?;
            Some(Irreplaceable::Flowtable(table.to_owned()))
        }
        Fixed::Qdisc => {
            let kind = text.split_whitespace().next().unwrap_or_default();
            // The kernel takes for these what it reports of them; others have classes, filters or
            // tables.
            let known = ["default", "fq", "fq_codel", "cake", "pfifo_fast", "pfifo", "bfifo"];
            (!known.contains(&kind)).then(|| Irreplaceable::Qdisc(kind.to_owned()))
        }
        _ => None,
    }
}

/// The text of a kernel file as it has to be written to get the same state back.
///
/// # Errors
/// The kernel's answer.
pub fn read_text(host: &dyn HostRead, path: &Path) -> std::result::Result<String, HostError> {
    let text = host.read(path)?;
    Ok(String::from_utf8_lossy(&text).trim_end_matches(['\n', '\0']).to_owned())
}

/// The value that the text of a knob's file stands for.
///
/// # Errors
/// The text, where this program does not understand it.
pub fn meaning(knob: &Knob, text: &str) -> std::result::Result<Value, String> {
    let unknown = || format!("its text {:?} is not understood", shortened(text));
    let spec = knob.spec().ok_or_else(unknown)?;
    let mask = || cpumask::mask(text.as_bytes()).map_err(|_| unknown());
    let words = |keep: fn(&&str) -> bool| {
        let words: Vec<&str> = text.split_whitespace().filter(keep).collect();
        Ok(Value::Word(words.join(" ")))
    };
    match spec.shape {
        Shape::Cpus => mask().map(Value::Cpus),
        Shape::Queues => mask().map(Value::Queues),
        Shape::Count => text.trim().parse().map(Value::Count).map_err(|_| unknown()),
        Shape::Switch => match text.trim() {
            "0" => Ok(Value::Switch(false)),
            "1" => Ok(Value::Switch(true)),
            _ => Err(unknown()),
        },
        // The handle and options of a qdisc follow its kind.
        Shape::Word => {
            Ok(Value::Word(text.split_whitespace().next().unwrap_or_default().to_owned()))
        }
        Shape::Spread => Ok(match text.trim().parse() {
            Ok(queues) => Value::Count(queues),
            Err(_) => Value::Word(text.trim().to_owned()),
        }),
        // Words with a colon say how it came about (host/flow.rs).
        Shape::Words if spec.same == Same::DeviceSet => words(|word| !word.contains(':')),
        Shape::Words => words(|_| true),
    }
}

/// Compares two values of a knob by the row's rule: the kernel rounds some, and orders others anew.
#[must_use]
pub fn same(knob: &Knob, wanted: &Value, actual: &Value) -> bool {
    let rule = knob.spec().map_or(Same::Exact, |spec| spec.same);
    match (rule, wanted, actual) {
        _ if wanted == actual => true,
        (Same::DeviceSet, Value::Word(wanted), Value::Word(actual)) => {
            let parts = |text: &str| {
                let mut words = text.split(' ').map(str::to_owned);
                (words.next(), words.collect::<BTreeSet<_>>())
            };
            parts(wanted) == parts(actual)
        }
        (Same::PowerOfTwo, Value::Count(wanted), Value::Count(actual)) => {
            let rounded = |n: u64| if n == 0 { Some(0) } else { n.checked_next_power_of_two() };
            rounded(*wanted) == rounded(*actual)
        }
        (Same::Page, Value::Count(wanted), Value::Count(actual)) => {
            (9..=14).any(|bits| wanted.checked_next_multiple_of(1 << bits) == Some(*actual))
        }
        _ => false,
    }
}

/// True where `now` is the rest of a value of ours after devices went: the kernel takes a device that
/// goes out of its flowtable (net/netfilter/nf_tables_api.c, `nf_tables_flowtable_event`).
#[must_use]
pub(super) fn remnant(knob: &Knob, ours: &str, now: &str) -> bool {
    if knob.spec().is_none_or(|spec| spec.same != Same::DeviceSet) {
        return false;
    }
    let (Ok(Value::Word(ours)), Ok(Value::Word(now))) = (meaning(knob, ours), meaning(knob, now))
    else {
        return false;
    };
    let mut own = ours.split(' ');
    let mut left = now.split(' ');
    let mode = own.next();
    let own: BTreeSet<&str> = own.one_by_one();
    mode == left.next() && mode != Some("off") && left.all(|device| own.contains(device))
}

/// Compares two texts of a knob's file as [`same`] compares values.
#[must_use]
pub fn same_text(knob: &Knob, one: &str, other: &str) -> bool {
    match (meaning(knob, one), meaning(knob, other)) {
        (Ok(one), Ok(other)) => same(knob, &one, &other),
        _ => one.trim() == other.trim(),
    }
}

/// A value for a person: what the text means, or the text.
#[must_use]
pub fn told(knob: &Knob, text: &str) -> String {
    meaning(knob, text).map_or_else(|_| format!("{:?}", shortened(text)), |value| value.to_string())
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The error for a knob whose file is missing: its device went, or this kernel has no such setting.
pub(super) fn absent(host: &dyn HostRead, knob: &Knob, path: &Path) -> Error {
    if let Some(device) = knob.device()
        && host.list(&Path::new("/sys/class/net").join(device)).is_err()
    {
        return device_gone(device);
    }
    if knob.spec().is_some_and(|spec| spec.absent == Absent::Flowtable) {
        let why = offers_flow_offload(host).err().unwrap_or_else(|| "no nf_tables".into());
        return Error::not_supported(format!("set {knob}"), format!("absent: {why}"))
            .hint("load it: modprobe nf_flow_table; or take another kernel");
    }
    Error::not_supported(
        format!("set {knob}: {}", path.display()),
        "absent: this kernel or driver has no such setting",
    )
    .hint("make a new plan on this machine: linerate plan")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::FakeHost;
    use crate::model::snapshot::{IrqId, IrqRole};

    fn rps(device: &str) -> Knob {
        Knob::RpsCpus { device: device.into(), queue: 2 }
    }

    #[test]
    fn a_knob_leads_to_its_file_and_an_interrupt_to_its_line_of_today() {
        let fake = FakeHost::router(4, &[("eth0", 4), ("eth1", 1)]);
        let snapshot = fake.snapshot();
        let path = |knob| path(&knob, &snapshot).unwrap().display().to_string();
        assert_eq!(path(rps("eth0")), "/sys/class/net/eth0/queues/rx-2/rps_cpus");
        let xps = Knob::XpsCpus { device: "eth0".into(), queue: 1 };
        assert_eq!(path(xps), "/sys/class/net/eth0/queues/tx-1/xps_cpus");
        let id = IrqId { device: "eth1".into(), queue: 0, role: IrqRole::Combined };
        let line = snapshot.irqs.iter().find(|i| i.id == id).unwrap().line;
        assert_eq!(path(Knob::IrqAffinity { irq: id }), format!("/proc/irq/{line}/smp_affinity"));
        let device = || String::from("eth0");
        for (knob, file) in [
            (
                Knob::XpsRxqs { device: device(), queue: 3 },
                "/sys/class/net/eth0/queues/tx-3/xps_rxqs",
            ),
            (Knob::ThreadedNapi { device: device() }, "/sys/class/net/eth0/threaded"),
            (
                Knob::NapiDeferHardIrqs { device: device() },
                "/sys/class/net/eth0/napi_defer_hard_irqs",
            ),
            (Knob::GroFlushTimeout { device: device() }, "/sys/class/net/eth0/gro_flush_timeout"),
            (
                Knob::MinFrequency { policy: "policy4".into() },
                "/sys/devices/system/cpu/cpufreq/policy4/scaling_min_freq",
            ),
            (
                Knob::MaxFrequency { policy: "policy4".into() },
                "/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq",
            ),
            (
                Knob::Sysctl { name: "net.ipv6.conf.all.forwarding".into() },
                "/proc/sys/net/ipv6/conf/all/forwarding",
            ),
        ] {
            assert_eq!(path(knob), file);
        }
    }

    #[test]
    fn a_path_from_a_journal_must_be_the_knobs_own() {
        let irq =
            Knob::IrqAffinity { irq: IrqId { device: "eth0".into(), queue: 0, role: IrqRole::Rx } };
        assert!(path_fits(&irq, Path::new("/proc/irq/24/smp_affinity")));
        for path in
            ["/proc/irq/../sys/kernel/core_pattern", "/proc/irq/024/smp_affinity", "/etc/passwd"]
        {
            assert!(!path_fits(&irq, Path::new(path)), "{path}");
        }
        let ring = Knob::Ring { device: "eth0".into(), direction: "rx".into() };
        assert!(path_fits(&ring, Path::new("ethtool/eth0/ring/rx")));
        for path in ["ethtool/eth0/ring/tx", "/ethtool/eth0/ring/rx", "ethtool/eth1/ring/rx"] {
            assert!(!path_fits(&ring, Path::new(path)), "{path}");
        }
        assert!(path_fits(&rps("eth0"), Path::new("/sys/class/net/eth0/queues/rx-2/rps_cpus")));
        assert!(!path_fits(&rps("eth0"), Path::new("/sys/class/net/eth0/queues/rx-3/rps_cpus")));
        assert!(!path_fits(&rps("../x"), Path::new("/sys/class/net/../x/queues/rx-2/rps_cpus")));
    }

    #[test]
    fn values_are_compared_as_the_kernel_understands_them() {
        assert!(same_text(&rps("eth0"), "00000000,00000003", "3"));
        assert!(!same_text(&rps("eth0"), "3", "2"));
        let rfs = Knob::RpsFlowCnt { device: "eth0".into(), queue: 0 };
        assert!(same_text(&rfs, "1000", "1024"));
        assert!(!same_text(&rfs, "0", "1"));
        assert!(!same_text(&rfs, "1024", "2048"));
        let sysctl = |name: &str| Knob::Sysctl { name: name.into() };
        assert!(same_text(&sysctl("net.ipv4.ip_local_port_range"), "32768\t60999", "32768 60999"));
        assert!(!same_text(&sysctl("net.ipv4.ip_local_port_range"), "32768\t60999", "32768 6099"));
        assert!(same_text(&sysctl("net.core.rps_sock_flow_entries"), "30000", "32768"));
        assert!(!same_text(&sysctl("net.core.netdev_budget"), "300", "512"));
        let buckets = sysctl("net.netfilter.nf_conntrack_buckets");
        assert!(same_text(&buckets, "60000", "60416"));
        assert!(!same_text(&buckets, "60000", "131072"));
        let threaded = Knob::ThreadedNapi { device: "eth0".into() };
        let rss = Knob::RssTable { device: "eth0".into() };
        assert!(same_text(&rss, "4", "4") && !same_text(&rss, "4", "0,0,1,1"));
        let qdisc = Knob::Qdisc { device: "eth0".into() };
        assert!(same_text(&qdisc, "fq 80010000 08000100", "fq"));
        assert!(!same_text(&qdisc, "fq 80010000 08000100", "default"));
        let fake = FakeHost::router(4, &[("eth0", 1)]);
        assert_eq!(irreplaceable(&fake, &qdisc, "fq 80010000 08000100"), None);
        assert!(irreplaceable(&fake, &qdisc, "htb 10000 08000100").is_some());
        assert!(meaning(&threaded, "2").is_err(), "a mode that we do not know is not \"on\"");
    }
}
