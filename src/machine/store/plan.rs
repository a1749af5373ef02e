//! Plan files: TOML that a person can read, check and edit.
//!
//! The count of settings stands at the top, so that a file cut at a line's end, which is still
//! good TOML, is not taken for a smaller plan.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Source, read_file, read_from, write_file};
use crate::error::{Error, Result};
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Parts, Shape, Value};
use crate::model::plan::{Candidate, Change, DeviceFact, Model, NotMade, Plan};
use crate::model::snapshot::IrqRole;

const FORMAT: &str = "linerate-plan";
/// Version 2 adds `[model]` and `[[not-made]]`; a plan without them is written as version 1.
const VERSION: i64 = 2;

/// Size limit, in bytes, of a plan: 100 settings take 20 KB.
const MAX_LENGTH: u64 = 4 << 20;

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: i64,
    name: String,
    title: String,
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    hostname: String,
    cpus: CpuSet,
    settings: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Model>,
    #[serde(default, rename = "device")]
    devices: Vec<Device>,
    // Before the settings: a file that is cut here has too few of them.
    #[serde(default, rename = "not-made", skip_serializing_if = "Vec::is_empty")]
    not_made: Vec<NotMade>,
    #[serde(default, rename = "setting")]
    list: Vec<Setting>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    name: String,
    sysfs: String,
    driver: String,
    rx_queues: u32,
    /// True if the device may be away: its settings then wait for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pending: bool,
}

/// One setting. The reason comes last: a setting that was cut short has none.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    knob: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<IrqRole>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    /// Name of a sysctl, an offload feature and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    before: toml::Value,
    after: toml::Value,
    reason: String,
}

/// Text for "no CPU"; for RPS and XPS it means "off".
const NONE: &str = "none";

/// The text of a plan file.
///
/// # Errors
/// A usage error if a setting has no reason: without one, a file that was cut could not be
/// distinguished from a whole one.
pub fn to_text(plan: &Plan) -> Result<String> {
    if let Some(change) = plan.candidate.settings.iter().find(|c| c.reason.is_empty()) {
        return Err(Error::usage("write a plan", format!("{} has no reason", change.knob)));
    }
    let more = plan.model.is_some() || !plan.not_made.is_empty();
    let file = File {
        format: FORMAT.into(),
        version: if more { VERSION } else { 1 },
        name: plan.candidate.name.clone(),
        title: plan.candidate.title.clone(),
        reason: plan.candidate.reason.clone(),
        machine: plan.machine.clone(),
        hostname: plan.hostname.clone(),
        cpus: plan.cpus.clone(),
        settings: plan.candidate.settings.len(),
        model: plan.model.clone(),
        not_made: plan.not_made.clone(),
        devices: plan.devices.iter().map(Device::from).collect(),
        list: plan.candidate.settings.iter().map(Setting::from).collect(),
    };
    let body = toml::to_string(&file).map_err(|e| Error::usage("write a plan", e))?;
    let note = if more { MODEL_NOTE } else { "" };
    Ok(format!("{HEADER}{note}\n{body}"))
}

const HEADER: &str = "\
# A plan of linerate: what to set on one router, and why.
#   linerate apply --confirm 60 FILE
#                           sets it, all or nothing, and undoes it after 60 s unless you
#                           say: linerate confirm      (--dry-run shows the writes)
#   linerate verify FILE    is it in force?
#   linerate rollback       sets everything back
# CPUs are lists such as \"0-2,5\"; \"none\" means off. \"before\" is what was found when the plan
# was made; rollback goes by what it finds when the plan is applied. Who adds or removes a setting
# by hand corrects the count in \"settings\".
";

const MODEL_NOTE: &str = "\
# [model] is what the cost model says, not a measurement: 1.0 is one NATed packet's work in the
# stack on the biggest CPU. [[not-made]] is for the reader: what is not set, and why.
";

/// Writes a plan file, as a whole or not at all.
///
/// # Errors
/// A not-permitted or not-supported error if the file can't be written.
pub fn write(path: &Path, plan: &Plan) -> Result<()> {
    let text = to_text(plan)?;
    write_file("plan", path, text.as_bytes())
}

/// Gives a plan file that is there another name, which is returned; `None` where there is none, or it
/// says what `plan` does.
///
/// # Errors
/// An error if it can't be renamed.
pub fn set_aside(
    path: &Path,
    plan: &Plan,
    name: impl FnOnce() -> PathBuf,
) -> Result<Option<PathBuf>> {
    if !path.is_file()
        || fs::read(path).is_ok_and(|old| to_text(plan).is_ok_and(|new| old == new.as_bytes()))
    {
        return Ok(None);
    }
    let kept = path.with_file_name(name());
    let renamed = fs::rename(path, &kept);
    renamed.map_err(|e| super::failed(format!("keep {}", path.display()), &e))?;
    Ok(Some(kept))
}

/// Reads a plan file.
///
/// # Errors
/// A usage error (exit 2) that says what is wrong with it: missing, cut, not a plan, from a newer
/// version, a setting that is not known or invalid.
pub fn read(path: &Path) -> Result<Plan> {
    let hint = "linerate plan -o FILE makes one";
    let bytes = read_from(Source::Regular, "plan", path, MAX_LENGTH, hint)?;
    let what = format!("read plan {}", path.display());
    let text =
        String::from_utf8(bytes).map_err(|_| Error::usage(&what, "it is not text").hint(hint))?;
    parse(&text).map_err(|(why, hint)| Error::usage(what, why).hint(hint))
}

/// Text of a small file that the user named; `kind` is the word for it in errors.
///
/// # Errors
/// A usage error (exit 2) if it can't be read, is no text or far too long.
pub fn read_text(kind: &str, path: &Path, hint: &str) -> Result<String> {
    let bytes = read_file(kind, path, MAX_LENGTH, hint)?;
    let what = || format!("read {kind} {}", path.display());
    String::from_utf8(bytes).map_err(|_| Error::usage(what(), "it is not text").hint(hint))
}

/// Reason why a text is no plan, and a remedy.
type Unusable = (String, &'static str);

const MAKE_ANEW: &str = "make it anew: linerate plan";

/// Reads the text of a plan file.
///
/// # Errors
/// An error with the reason why it is not a plan that this version can use, and a hint.
pub fn parse(text: &str) -> std::result::Result<Plan, Unusable> {
    let damaged = |e: toml::de::Error| {
        let line = e.span().map(|s| text.get(..s.start).unwrap_or("").lines().count().max(1));
        let place = line.map_or(String::new(), |n| format!(" (line {n})"));
        (format!("it is cut short or damaged: {}{place}", e.message()), MAKE_ANEW)
    };
    let table: toml::Table = text.parse().map_err(damaged)?;
    if table.get("format").and_then(toml::Value::as_str) != Some(FORMAT) {
        return Err(("it is not a plan of linerate".into(), "linerate plan -o FILE makes one"));
    }
    match table.get("version").and_then(toml::Value::as_integer) {
        Some(1..=VERSION) => {}
        Some(v) if v > VERSION => {
            let why = format!("a newer linerate wrote it (format {v}, this one knows {VERSION})");
            return Err((why, "use that version, or make it anew with this one: linerate plan"));
        }
        _ => return Err(("it does not say its version".into(), MAKE_ANEW)),
    }
    let file: File = table.try_into().map_err(damaged)?;
    if file.settings != file.list.len() {
        let why = format!(
            "it is cut short, or was edited: it says settings = {} and has {}",
            file.settings,
            file.list.len()
        );
        return Err((why, "make it anew (linerate plan), or correct the count"));
    }
    let mut settings = Vec::with_capacity(file.list.len());
    for (number, setting) in file.list.into_iter().enumerate() {
        let change = setting.into_change();
        let change = change.map_err(|why| (format!("setting {}: {why}", number + 1), MAKE_ANEW))?;
        if let Some(device) = change.knob.device()
            && !file.devices.iter().any(|d| d.name == device)
        {
            let why = format!("setting {}: it has no [[device]] {device}", number + 1);
            return Err((why, MAKE_ANEW));
        }
        settings.push(change);
    }
    Ok(Plan {
        machine: file.machine,
        hostname: file.hostname,
        cpus: file.cpus,
        devices: file.devices.into_iter().map(DeviceFact::from).collect(),
        model: file.model,
        not_made: file.not_made,
        candidate: Candidate { name: file.name, title: file.title, reason: file.reason, settings },
    })
}

impl From<&DeviceFact> for Device {
    fn from(fact: &DeviceFact) -> Self {
        let DeviceFact { name, sysfs, driver, rx_queues, pending } = fact.clone();
        Self { name, sysfs, driver, rx_queues, pending }
    }
}

impl From<Device> for DeviceFact {
    fn from(device: Device) -> Self {
        let Device { name, sysfs, driver, rx_queues, pending } = device;
        Self { name, sysfs, driver, rx_queues, pending }
    }
}

impl From<&Change> for Setting {
    fn from(change: &Change) -> Self {
        let value = |value: &Value| match value {
            Value::Cpus(set) | Value::Queues(set) if set.is_empty() => NONE.into(),
            Value::Cpus(set) | Value::Queues(set) => set.to_string().into(),
            // TOML has no numbers beyond; nothing that is counted here comes near.
            Value::Count(n) => i64::try_from(*n).unwrap_or(i64::MAX).into(),
            Value::Switch(on) => (*on).into(),
            Value::Word(word) => word.clone().into(),
        };
        let parts = change.knob.parts();
        Self {
            knob: parts.kind.to_owned(),
            device: parts.device.map(str::to_owned),
            queue: parts.queue,
            role: parts.role,
            policy: parts.policy.map(str::to_owned),
            name: parts.name.map(str::to_owned),
            before: value(&change.before),
            after: value(&change.after),
            reason: change.reason.clone(),
        }
    }
}

impl Setting {
    fn into_change(self) -> std::result::Result<Change, String> {
        // A reason in triple quotes that was cut after two of them is good TOML, and empty.
        if self.reason.is_empty() {
            return Err(format!("{} has no reason: the file is cut short", self.knob));
        }
        let parts = Parts {
            kind: &self.knob,
            device: self.device.as_deref(),
            queue: self.queue,
            role: self.role,
            policy: self.policy.as_deref(),
            name: self.name.as_deref(),
        };
        let knob = Knob::of(&parts).map_err(|bad| bad.to_string())?;
        let before = value_of(&knob, &self.before)?;
        let after = value_of(&knob, &self.after)?;
        knob.check(&after).map_err(|e| e.to_string())?;
        Ok(Change { knob, before, after, reason: self.reason })
    }
}

fn value_of(knob: &Knob, value: &toml::Value) -> std::result::Result<Value, String> {
    let bad = || format!("{value} is no value for {knob}");
    // A sysctl that is none of ours is invalid, whatever the value.
    let shape = knob.shape().ok_or_else(|| match knob.check_names() {
        Err(why) => why.to_string(),
        Ok(()) => bad(),
    })?;
    let set = |list: &str| {
        // The empty text is a slip of the pen more often than it is meant.
        let list = if list == NONE {
            ""
        } else if list.trim().is_empty() {
            "?"
        } else {
            list
        };
        list.parse::<CpuSet>().map_err(|_| bad())
    };
    match (shape, value) {
        (Shape::Count | Shape::Spread, toml::Value::Integer(n)) => {
            u64::try_from(*n).map(Value::Count).map_err(|_| bad())
        }
        (Shape::Switch, toml::Value::Boolean(on)) => Ok(Value::Switch(*on)),
        (Shape::Word | Shape::Words | Shape::Spread, toml::Value::String(word)) => {
            Ok(Value::Word(word.clone()))
        }
        (Shape::Cpus, toml::Value::String(list)) => set(list).map(Value::Cpus),
        (Shape::Queues, toml::Value::String(list)) => set(list).map(Value::Queues),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::snapshot::IrqId;

    const FIXTURE: &str = include_str!("../../../fixtures/formats/plan-v1.toml");

    fn plan() -> Plan {
        let change = |knob, before: Value, after: Value| Change {
            knob,
            before,
            after,
            reason: "keeps the interrupt's \"own\" CPU free".into(),
        };
        let cpus = |list: &str| Value::Cpus(list.parse().unwrap());
        let (device, policy) = (String::from("eth0"), String::from("policy0"));
        let irq = IrqId { device: device.clone(), queue: 1, role: IrqRole::Combined };
        Plan {
            machine: Some("00112233445566aa".into()),
            hostname: "router".into(),
            cpus: "0-3".parse().unwrap(),
            devices: vec![DeviceFact {
                name: device.clone(),
                sysfs: "/sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0".into(),
                driver: "virtio_net".into(),
                rx_queues: 4,
                pending: false,
            }],
            model: None,
            not_made: vec![],
            candidate: Candidate {
                name: "irq-spread-rps".into(),
                title: "interrupts spread, RPS to the other CPUs".into(),
                reason: "2 network interrupts over 4 CPUs".into(),
                settings: vec![
                    change(Knob::IrqAffinity { irq }, cpus("0-3"), cpus("1")),
                    change(
                        Knob::RpsCpus { device: device.clone(), queue: 0 },
                        cpus(""),
                        cpus("2-3"),
                    ),
                    change(
                        Knob::XpsCpus { device: device.clone(), queue: 12 },
                        cpus("0"),
                        cpus(""),
                    ),
                    change(
                        Knob::RpsFlowCnt { device, queue: 0 },
                        Value::Count(0),
                        Value::Count(4096),
                    ),
                    change(
                        Knob::Governor { policy },
                        Value::Word("schedutil".into()),
                        Value::Word("performance".into()),
                    ),
                ],
            },
        }
    }

    #[test]
    fn the_first_version_of_the_format_stays_readable_and_is_what_is_written() {
        assert_eq!(parse(FIXTURE).unwrap(), plan());
        assert_eq!(to_text(&plan()).unwrap(), FIXTURE);
    }

    #[test]
    fn every_kind_of_setting_comes_back_from_the_file_as_it_was() {
        let device = || String::from("eth0");
        let policy = || String::from("policy0");
        let sysctl = |name: &str| Knob::Sysctl { name: name.into() };
        let queues = Value::Queues("0-3".parse().unwrap());
        let word = |word: &str| Value::Word(word.into());
        let all = [
            (Knob::XpsRxqs { device: device(), queue: 2 }, queues),
            (Knob::ThreadedNapi { device: device() }, Value::Switch(true)),
            (Knob::NapiDeferHardIrqs { device: device() }, Value::Count(2)),
            (Knob::GroFlushTimeout { device: device() }, Value::Count(200_000)),
            (Knob::MinFrequency { policy: policy() }, Value::Count(600_000)),
            (Knob::MaxFrequency { policy: policy() }, Value::Count(1_800_000)),
            (Knob::NapiThread { device: device(), thread: 1 }, Value::Cpus("2".parse().unwrap())),
            (Knob::Coalesce { device: device(), parameter: "rx-usecs".into() }, Value::Count(8)),
            (
                Knob::Coalesce { device: device(), parameter: "adaptive-rx".into() },
                Value::Switch(false),
            ),
            (Knob::Ring { device: device(), direction: "rx".into() }, Value::Count(1024)),
            (Knob::FlowOffload, word("software eth0 eth1")),
            (Knob::PacketSteering, word("0")),
            (Knob::Channels { device: device(), direction: "combined".into() }, Value::Count(4)),
            (
                Knob::Offload { device: device(), feature: "rx-gro-list".into() },
                Value::Switch(true),
            ),
            (Knob::RssTable { device: device() }, Value::Count(4)),
            (Knob::RssTable { device: device() }, word("0,0,1,1")),
            (Knob::Qdisc { device: device() }, word("fq")),
            (Knob::Service { name: "irqbalance".into() }, Value::Switch(false)),
            (sysctl("net.core.netdev_budget"), Value::Count(600)),
            (sysctl("net.core.default_qdisc"), word("fq")),
            (sysctl("net.core.flow_limit_cpu_bitmap"), Value::Cpus("1".parse().unwrap())),
            (sysctl("net.ipv4.ip_local_port_range"), word("1024 65535")),
            (sysctl("net.ipv4.ip_forward"), Value::Switch(true)),
        ];
        let mut plan = plan();
        plan.candidate.settings = all
            .into_iter()
            .map(|(knob, value)| Change {
                knob,
                before: value.clone(),
                after: value,
                reason: "a test".into(),
            })
            .collect();
        assert_eq!(parse(&to_text(&plan).unwrap()).unwrap(), plan);
        let text = to_text(&plan).unwrap();
        let bad = text.replacen("net.core.netdev_budget", "kernel.core_pattern", 1);
        let why = parse(&bad).unwrap_err().0;
        assert!(why.contains("not a sysctl that this program sets"), "{why}");
        let bad = text.replacen("device = \"eth0\"\nqueue = 2", "queue = 2", 1);
        let why = parse(&bad).unwrap_err().0;
        assert!(why.contains("xps-rxqs needs device"), "{why}");
    }

    #[test]
    fn what_the_planner_says_of_its_plan_comes_back_and_can_not_be_cut_unseen() {
        let mut plan = plan();
        plan.model = Some(Model {
            profile: "router".into(),
            flows: "16 flows".into(),
            largest: 1.5,
            on: crate::model::units::CpuId(4),
            bound: 1.45,
            complete: false,
            nodes: 200_000,
            one_flow: 1.5,
            sixteen_flows: 1.5,
            many_flows: 1.25,
        });
        let xps = NotMade { setting: "xps-cpus".into(), reason: "one TX queue".into() };
        plan.not_made = vec![xps.clone(), xps];
        let text = to_text(&plan).unwrap();
        assert_eq!(text, include_str!("../../../fixtures/formats/plan-v2.toml"));
        assert_eq!(parse(&text).unwrap(), plan);
        for end in 0..text.len() - 1 {
            let Ok(read) = parse(&text[..end]) else { continue };
            assert_eq!(read, plan, "cut at {end}");
        }
    }

    #[test]
    fn a_device_that_may_be_away_is_written_and_read() {
        let text = FIXTURE.replacen("rx_queues = 4\n", "rx_queues = 4\npending = true\n", 1);
        let read = parse(&text).unwrap();
        assert!(read.devices[0].pending);
        assert_eq!(to_text(&read).unwrap(), text);
    }

    #[test]
    fn a_plan_cut_anywhere_is_refused_and_never_taken_for_a_smaller_one() {
        let whole = plan();
        let mut refused = 0;
        for end in 0..FIXTURE.len() {
            match parse(&FIXTURE[..end]) {
                Ok(read) => assert_eq!(read, whole, "cut at {end}"),
                Err((why, hint)) => {
                    assert!(!why.is_empty() && !hint.is_empty());
                    refused += 1;
                }
            }
        }
        assert!(refused >= FIXTURE.len() - 1);
    }

    #[test]
    fn each_way_of_being_no_plan_is_named() {
        let with = |from: &str, to: &str| {
            assert!(FIXTURE.contains(from), "{from}");
            parse(&FIXTURE.replacen(from, to, 1)).unwrap_err().0
        };
        for (from, to, said) in [
            ("linerate-plan", "something", "not a plan"),
            ("version = 1", "version = 3", "newer linerate"),
            ("version = 1", "", "version"),
            ("\"rps-cpus\"", "\"warp-speed\"", "not a setting that this version knows"),
            ("after = \"1\"", "after = \"none\"", "no CPU"),
            ("after = \"2-3\"", "after = \"\"", "no value"),
            ("after = \"2-3\"", "after = 12", "no value"),
            ("after = \"2-3\"", "after = \"3-2\"", "no value"),
            ("after = 4096", "after = -1", "no value"),
            ("device = \"eth0\"", "device = \"../../../etc\"", "can't be the name"),
            ("policy = \"policy0\"", "policy = \"../policy0\"", "can't be the name"),
            ("queue = 12", "queue = -12", "cut short or damaged"),
            ("queue = 12", "quue = 12", "unknown field"),
            ("settings = 5", "settings = 6", "has 5"),
            ("name = \"eth0\"", "name = \"eth7\"", "no [[device]]"),
        ] {
            let why = with(from, to);
            assert!(why.contains(said), "{from} -> {to}: {why}");
        }
        assert!(parse("not = [toml").is_err());
        assert!(parse("").unwrap_err().0.contains("not a plan"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(from in 0..2000usize, length in 0..40usize, junk in ".{0,20}") {
            let start = from.min(FIXTURE.len());
            let end = (start + length).min(FIXTURE.len());
            let mut bytes = FIXTURE.as_bytes().to_vec();
            bytes.splice(start..end, junk.into_bytes());
            drop(parse(&String::from_utf8_lossy(&bytes)));
        }
    }
}
