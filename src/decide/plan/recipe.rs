//! Configurations from the field, as data (`recipes/*.toml`), set as they were reported. Each
//! setting says whether it can matter to forwarded packets at all.

use serde::Deserialize;

use crate::model::cpuset::CpuSet;
use crate::model::knob::spec::Scope;
use crate::model::knob::{Knob, KnobSpec, Shape, Value, policies, row};
use crate::model::plan::{Candidate, Change, NotMade};
use crate::model::snapshot::{IrqRole, NetDev, Snapshot};

/// Name and text of each file.
const FILES: &[(&str, &str)] = &[
    ("cm4", include_str!("../../../recipes/cm4.toml")),
    ("fg50e", include_str!("../../../recipes/fg50e.toml")),
    ("r4s", include_str!("../../../recipes/r4s.toml")),
    ("r76s", include_str!("../../../recipes/r76s.toml")),
    ("wireguard", include_str!("../../../recipes/wireguard.toml")),
];

/// A recipe's head.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Recipe {
    /// Name that `--recipe` takes.
    pub name: &'static str,
    /// Title of the recipe.
    pub title: String,
    /// Person who reported it, and the result.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    source: String,
    #[serde(rename = "setting")]
    settings: Vec<Setting>,
}

/// A setting, for every device and queue that it names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    /// The knob's kind, as in plan files.
    kind: String,
    /// Device names with `*`, or `driver:NAME`.
    device: Option<String>,
    /// A queue number; all without one.
    queue: Option<u32>,
    /// Role of an interrupt line; any without one.
    role: Option<String>,
    /// Further fields of the knob (`name` of a sysctl).
    #[serde(default)]
    of: toml::Table,
    /// `all`, `none`, `big` (the biggest CPUs), `big N` (the Nth of them, from 0) or a list; a
    /// number, a word, true or false.
    value: toml::Value,
    /// True if the setting can matter to forwarded packets.
    forwarded: bool,
    /// Reason for the setting, or for its not mattering.
    note: String,
}

/// Reads a recipe by way of a table, as plans are read: reading types from the text directly takes
/// far more code.
fn read(text: &str) -> Result<File, toml::de::Error> {
    text.parse::<toml::Table>()?.try_into()
}

/// The heads of all recipes.
#[must_use]
pub fn recipes() -> Vec<Recipe> {
    let head = |(name, text): &(&'static str, &str)| {
        let file = read(text).ok()?;
        Some(Recipe { name, title: file.title, source: file.source })
    };
    FILES.iter().filter_map(head).collect()
}

/// A recipe for a router. `current` reads what a setting is now; `None` where there is none.
///
/// # Errors
/// An error with the reason if the recipe has nothing to set here.
pub fn recipe(
    name: &str,
    snapshot: &Snapshot,
    current: &dyn Fn(&Knob) -> Option<Value>,
) -> Result<(Candidate, Vec<NotMade>), String> {
    let Some((_, text)) = FILES.iter().find(|(n, _)| *n == name) else {
        return Err("there is no such recipe".into());
    };
    let file = read(text).map_err(|e| e.message().to_owned())?;
    let mut settings: Vec<Change> = Vec::new();
    let mut not_made = Vec::new();
    for setting in &file.settings {
        let mut missing = |reason: String| {
            not_made.push(NotMade { setting: setting.kind.clone(), reason });
        };
        let mut knobs = Vec::new();
        for found in setting.knobs(snapshot) {
            match found {
                Ok(some) => knobs.extend(some),
                Err(why) => missing(format!("{why} ({})", setting.note)),
            }
        }
        for knob in knobs {
            let made = setting.wanted(&knob, snapshot).and_then(|after| {
                let before = current(&knob).or_else(|| found(&knob, snapshot));
                let before = before.ok_or("there is no such setting on this machine")?;
                Ok((before, after))
            });
            match made {
                Err(why) => missing(format!("{knob}: {why}")),
                Ok((before, after)) => {
                    let effect = if setting.forwarded {
                        setting.note.clone()
                    } else {
                        format!("no effect on forwarded packets: {}", setting.note)
                    };
                    settings.retain(|c| c.knob != knob);
                    settings.push(Change { knob, before, after, reason: effect });
                }
            }
        }
    }
    if settings.iter().any(|c| c.before != c.after) {
        super::owned::take_over(snapshot, &mut settings);
    }
    if settings.is_empty() {
        let why: Vec<String> =
            not_made.iter().map(|n| format!("{}: {}", n.setting, n.reason)).collect();
        return Err(format!("nothing of it can be set here: {}", why.join("; ")));
    }
    let candidate = Candidate {
        name: format!("recipe-{name}"),
        title: file.title,
        reason: format!("as reported, not as planned: {}", file.source),
        settings,
    };
    Ok((candidate, not_made))
}

/// Value that discovery found: a capture has not every file that a setting is written to.
fn found(knob: &Knob, snapshot: &Snapshot) -> Option<Value> {
    let rx = |device: &str, queue: u32| {
        snapshot.netdev(device)?.rx_queues.iter().find(|q| q.index == queue)
    };
    match knob {
        Knob::IrqAffinity { irq } => {
            let line = snapshot.irqs.iter().find(|i| i.id == *irq)?;
            line.affinity.clone().map(Value::Cpus)
        }
        Knob::RpsCpus { device, queue } => rx(device, *queue)?.rps.clone().map(Value::Cpus),
        Knob::RpsFlowCnt { device, queue } => rx(device, *queue)?.flow_cnt.map(Value::Count),
        Knob::FlowOffload => Some(super::flow::found(snapshot)),
        Knob::PacketSteering => super::owned::steering_now(snapshot),
        _ => None,
    }
}

impl Setting {
    /// The knobs that it names, device by device, or why there is none.
    fn knobs(&self, snapshot: &Snapshot) -> Vec<Result<Vec<Knob>, String>> {
        let name = self.of.get("name").and_then(toml::Value::as_str);
        let Some(row) = row(&self.kind, name) else {
            return vec![Err("this version has no way to set it yet".into())];
        };
        if row.scope == Scope::Machine {
            return vec![Ok(row.of_machine().into_iter().collect())];
        }
        if row.scope == Scope::Policy {
            let all: Vec<Knob> =
                policies(snapshot).into_iter().filter_map(|p| row.of_policy(p)).collect();
            let none = || "the kernel shows no frequency governor here".to_owned();
            return vec![if all.is_empty() { Err(none()) } else { Ok(all) }];
        }
        let pattern = self.device.as_deref().unwrap_or("*");
        let devices: Vec<&NetDev> =
            snapshot.netdevs.iter().filter(|d| matches(pattern, d)).collect();
        if devices.is_empty() {
            return vec![Err(format!("no device here is {pattern}"))];
        }
        devices.into_iter().map(|device| self.of_device(row, snapshot, device)).collect()
    }

    fn of_device(
        &self,
        row: &KnobSpec,
        snapshot: &Snapshot,
        device: &NetDev,
    ) -> Result<Vec<Knob>, String> {
        // With one TX queue the kernel has no such setting (net/core/net-sysfs.c).
        if row.scope == Scope::TxQueue && device.tx_queues.len() < 2 {
            return Err(format!("{}: one TX queue, no effect", device.name));
        }
        let asked = |knob: &Knob| {
            let parts = knob.parts();
            let role = parts.role.is_none_or(|role| match self.role.as_deref() {
                Some("rx") => role.receives(),
                Some("tx") => role == IrqRole::Tx,
                _ => role.carries_packets(),
            });
            role && self.queue.is_none_or(|queue| parts.queue == Some(queue))
        };
        let mut knobs = row.of_device(snapshot, device);
        knobs.retain(asked);
        match knobs.is_empty() && row.scope == Scope::Line {
            true => Err(format!("{} has no such interrupt", device.name)),
            false => Ok(knobs),
        }
    }

    /// The value for a knob.
    fn wanted(&self, knob: &Knob, snapshot: &Snapshot) -> Result<Value, String> {
        let bad = || format!("{} is no value for it", self.value);
        let value = match (knob.shape(), &self.value) {
            (_, toml::Value::String(mode)) if *knob == Knob::FlowOffload => {
                super::flow::wanted(snapshot, mode)?
            }
            (Some(Shape::Cpus), toml::Value::String(words)) => {
                Value::Cpus(cpus(words, snapshot).ok_or_else(bad)?)
            }
            (Some(Shape::Count), toml::Value::Integer(n)) => {
                Value::Count(u64::try_from(*n).map_err(|_| bad())?)
            }
            (Some(Shape::Switch), toml::Value::Boolean(on)) => Value::Switch(*on),
            (Some(Shape::Word | Shape::Words), toml::Value::String(word)) => {
                Value::Word(word.clone())
            }
            _ => return Err(bad()),
        };
        knob.check(&value).map_err(|e| e.to_string())?;
        if let Value::Cpus(set) = &value {
            let online: CpuSet = snapshot.cpus.iter().filter(|c| c.online).map(|c| c.id).collect();
            let away = set.difference(&online);
            if !away.is_empty() {
                return Err(format!("there is no CPU {away} here"));
            }
        }
        Ok(value)
    }
}

/// The CPUs that a recipe's words mean here.
fn cpus(words: &str, snapshot: &Snapshot) -> Option<CpuSet> {
    let usable = || snapshot.cpus.iter().filter(|c| c.online && !c.isolated);
    let most = usable().map(|c| c.capacity.value).max()?;
    let mut big = usable().filter(|c| c.capacity.value == most).map(|c| c.id);
    match words {
        "all" => Some(snapshot.usable_cpus()),
        "none" => Some(CpuSet::empty()),
        "big" => Some(big.collect()),
        _ => match words.strip_prefix("big ") {
            Some(n) => big.nth(n.parse().ok()?).map(CpuSet::single),
            None => words.parse().ok(),
        },
    }
}

/// `driver:NAME`, or a name with `*` for any letters.
fn matches(pattern: &str, device: &NetDev) -> bool {
    if let Some(driver) = pattern.strip_prefix("driver:") {
        return device.driver.as_deref() == Some(driver);
    }
    match pattern.split_once('*') {
        None => device.name == pattern,
        Some((start, end)) => {
            let rest = device.name.strip_prefix(start);
            rest.is_some_and(|r| r.ends_with(end)) && device.operstate != "down"
        }
    }
}
