//! Settings. Each kind of setting is one row of a table, and one setting of it is a name that stays
//! valid over a reboot.
//!
//! ```text
//!   Knob (rps-cpus, eth0, 2) ─▶ parts ─▶ KnobSpec: path, form, order, words, factor, ...
//!                                          └─▶ apply, verify, persist, plan, tune, show, docs
//! ```
//!
//! In come names and values from files and people; out go rows, and errors for what is invalid.
//! Nothing is read or written here: whatever only a look at the machine can settle is named in the
//! row and looked up by `change/apply`.

mod forms;
mod instances;
pub mod spec;
mod table;
mod topics;
mod value;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

use super::evidence::PollerKey;
use super::snapshot::IrqRole;
pub use instances::policies;
pub use spec::{KnobSpec, Shape, Topic};
use spec::{Range, Rival, Scope};
pub use table::{KNOBS, Knob};
pub use value::Value;

/// Kind and fields of a knob, under the names that plan files, journals and JSON give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Parts<'a> {
    /// Kind of the setting.
    pub kind: &'a str,
    /// Device name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<&'a str>,
    /// Number of a queue, an interrupt line's queue or a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
    /// Role of an interrupt line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<IrqRole>,
    /// Directory name of a frequency policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<&'a str>,
    /// Name within the kind: a sysctl, a service, a parameter of a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn device(kind: &'a str, device: &'a str) -> Self {
        Self { kind, device: Some(device), ..Self::default() }
    }

    fn queue(kind: &'a str, device: &'a str, queue: u32) -> Self {
        Self { queue: Some(queue), ..Self::device(kind, device) }
    }

    fn named(kind: &'a str, device: &'a str, name: &'a str) -> Self {
        Self { name: Some(name), ..Self::device(kind, device) }
    }

    fn policy(kind: &'a str, policy: &'a str) -> Self {
        Self { kind, policy: Some(policy), ..Self::default() }
    }

    fn machine(kind: &'a str, name: Option<&'a str>) -> Self {
        Self { kind, name, ..Self::default() }
    }

    /// A row's template with these fields in it.
    fn fill(&self, template: &str) -> String {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, (field, after))) =
            rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            text.push_str(before);
            match (field, self.queue, self.role) {
                ("device", ..) => text.push_str(self.device.unwrap_or_default()),
                ("policy", ..) => text.push_str(self.policy.unwrap_or_default()),
                ("name", ..) => text.push_str(self.name.unwrap_or_default()),
                ("parts", ..) => text.push_str(&self.name.unwrap_or_default().replace('.', "/")),
                ("queue", Some(queue), _) => text.push_str(&queue.to_string()),
                ("role", _, Some(role)) => text.push_str(&role.to_string()),
                // The reader knows it, and not the knob.
                _ => text.extend(["{", field, "}"]),
            }
            rest = after;
        }
        text + rest
    }
}

/// Rows of a kind; none of a kind that this version does not know.
pub fn rows(kind: &str) -> impl Iterator<Item = &'static KnobSpec> {
    KNOBS.iter().filter(move |row| row.kind == kind)
}

/// The row of a kind and a name within it.
#[must_use]
pub fn row(kind: &str, name: Option<&str>) -> Option<&'static KnobSpec> {
    rows(kind).find(|row| row.name == name || (row.open && name.is_some()))
}

/// Effect of the setting of that name on a forwarded packet. The name is that of a topic, a kind, a
/// name within a kind, a factor, or the last part of a path.
#[must_use]
pub fn about(name: &str) -> Option<&'static Topic> {
    let name = name.to_ascii_lowercase();
    let topics = || KNOBS.iter().map(|row| row.topic);
    topics()
        .find(|topic| topic.name == name)
        .or_else(|| topics().find(|topic| topic.also.contains(&name.as_str())))
        .or_else(|| KNOBS.iter().find(|row| row.names().any(|n| n == name)).map(|row| row.topic))
}

/// Every topic once.
#[must_use]
pub fn topics() -> Vec<&'static Topic> {
    let mut all: Vec<&'static Topic> = Vec::new();
    for row in KNOBS {
        if !all.contains(&row.topic) {
            all.push(row.topic);
        }
    }
    all
}

impl KnobSpec {
    /// Name of the factor that varies it.
    #[must_use]
    pub fn factor(&self) -> String {
        match (self.vary.factor, self.name) {
            (Some(short), _) => short.to_owned(),
            (None, Some(name)) => format!("{}.{name}", self.kind),
            (None, None) => self.kind.to_owned(),
        }
    }

    /// Rows of the settings that the kernel may change with this one.
    pub fn dragged(&self) -> impl Iterator<Item = &'static KnobSpec> {
        self.drags.iter().flat_map(|drag| {
            let (kind, name) = match drag.split_once(' ') {
                Some((kind, name)) => (kind, Some(name)),
                None => (*drag, None),
            };
            rows(kind).filter(move |row| name.is_none() || row.name == name)
        })
    }

    /// Names of a single row that people use: its name, the last part of that, and its file.
    fn names(&self) -> impl Iterator<Item = &str> {
        let file = self.path.rsplit('/').next().filter(|file| !file.contains('{'));
        let last = self.name.and_then(|name| name.rsplit('.').next());
        [Some(self.kind), self.name, last, file, self.vary.factor].into_iter().flatten()
    }
}

impl Knob {
    /// Knob made of some fields, even if no such device exists.
    ///
    /// # Errors
    /// An error if this version does not know the kind, or if a field is missing.
    pub fn of(parts: &Parts<'_>) -> Result<Self, BadSetting> {
        let unknown = || BadSetting::Unknown(parts.kind.to_owned());
        let row = rows(parts.kind).next().ok_or_else(unknown)?;
        let needs = |field| Err(BadSetting::Needs(row.kind, field));
        let numbered =
            matches!(row.scope, Scope::RxQueue | Scope::TxQueue | Scope::Line | Scope::Thread);
        if row.scope == Scope::Policy && parts.policy.is_none() {
            return needs("policy");
        }
        if !matches!(row.scope, Scope::Policy | Scope::Machine) && parts.device.is_none() {
            return needs("device");
        }
        if numbered && parts.queue.is_none() {
            return needs("queue");
        }
        if row.scope == Scope::Line && parts.role.is_none() {
            return needs("role");
        }
        if row.name.is_some() && parts.name.is_none() {
            return needs("name");
        }
        let form = serde_json::to_value(parts).map_err(|_| unknown())?;
        serde_json::from_value(form).map_err(|_| unknown())
    }

    /// Row of the table for this knob; `None` for a name that is not in the table.
    #[must_use]
    pub fn spec(&self) -> Option<&'static KnobSpec> {
        let parts = self.parts();
        row(parts.kind, parts.name)
    }

    /// Kind as plan files have it.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.parts().kind
    }

    /// The network device it belongs to, if any.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        self.parts().device
    }

    /// Form of its value; `None` for a name that is not in the table.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        self.spec().map(|spec| spec.shape)
    }

    /// Path of the kernel's file, or the address of a setting that is no file, as far as the knob
    /// alone determines it: the number of an interrupt line stays `{line}`. Empty for a name that
    /// is not in the table.
    #[must_use]
    pub fn address(&self) -> String {
        self.spec().map_or_else(String::new, |spec| self.parts().fill(spec.path))
    }

    /// Words below the heading of its device, and the number of its queue.
    #[must_use]
    pub fn title(&self) -> (String, Option<u32>) {
        let parts = self.parts();
        let title = self.spec().map_or_else(|| self.to_string(), |spec| parts.fill(spec.title));
        (title, parts.queue)
    }

    /// Another program that sets the same knob.
    #[must_use]
    pub fn rival(&self) -> Rival {
        self.spec().map_or(Rival::Nobody, |spec| spec.rival)
    }

    /// True of a setting of the machine rather than of a network namespace.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.spec().is_some_and(|spec| spec.global)
    }

    /// Checks the names in a setting, whatever its value. Plan and journal files name devices, and
    /// those names become parts of paths that root writes to.
    ///
    /// # Errors
    /// An error that holds the name that is invalid.
    pub fn check_names(&self) -> Result<(), BadSetting> {
        let parts = self.parts();
        if let Some(policy) = parts.policy.filter(|policy| !is_policy(policy)) {
            return Err(BadSetting::Policy(policy.to_owned()));
        }
        if let Some(device) = parts.device.filter(|device| !is_device_name(device)) {
            return Err(BadSetting::Device(device.to_owned()));
        }
        let Some(name) = parts.name else { return Ok(()) };
        match self.spec() {
            Some(row) if row.open && !self.is_open_name(name) => {
                Err(BadSetting::Word(name.to_owned()))
            }
            Some(_) => Ok(()),
            None if matches!(self, Self::Sysctl { .. }) => Err(BadSetting::Sysctl(name.to_owned())),
            None => {
                let names: Vec<&str> = rows(parts.kind).filter_map(|row| row.name).collect();
                Err(BadSetting::Name(name.to_owned(), names.join(", ")))
            }
        }
    }

    /// True if the name is one of those that no row lists.
    fn is_open_name(&self, name: &str) -> bool {
        match self {
            Self::PollerCpus { .. } => name.parse::<PollerKey>().is_ok(),
            _ => is_feature(name),
        }
    }

    /// Checks that `value` is valid for the knob, as far as that is the same on every machine.
    ///
    /// # Errors
    /// An error that names the invalid part: a name, a value of another form, a word that is none
    /// of those there are, no CPU for an interrupt.
    pub fn check(&self, value: &Value) -> Result<(), BadSetting> {
        self.check_names()?;
        let Some(spec) = self.spec() else { return Ok(()) };
        match (spec.shape, value) {
            (Shape::Cpus, Value::Cpus(set)) if set.is_empty() && spec.range == Range::SomeCpu => {
                Err(BadSetting::NoCpu(self.clone()))
            }
            (_, Value::Count(0)) if spec.range.excludes_zero() => {
                Err(BadSetting::Nothing(self.clone()))
            }
            (Shape::Word | Shape::Words | Shape::Spread, Value::Word(text)) => {
                spec.check_words(text)
            }
            (Shape::Cpus, Value::Cpus(_))
            | (Shape::Queues, Value::Queues(_))
            | (Shape::Count | Shape::Spread, Value::Count(_))
            | (Shape::Switch, Value::Switch(_)) => Ok(()),
            (shape, _) => Err(BadSetting::Kind {
                knob: self.clone(),
                expected: shape.words(),
                value: value.clone(),
            }),
        }
    }
}

impl KnobSpec {
    fn check_words(&self, text: &str) -> Result<(), BadSetting> {
        let bad = || Err(BadSetting::Word(text.to_owned()));
        let among = |word: &str, words: &[&str]| match words.contains(&word) {
            true => Ok(()),
            false => Err(BadSetting::Name(word.to_owned(), words.join(", "))),
        };
        match (self.range, self.shape) {
            (Range::Words(words), _) => among(text, words),
            (Range::Mode(modes), _) => {
                let mut words = text.split(' ');
                let mode = words.next().unwrap_or_default();
                among(mode, modes)?;
                match words.find(|device| mode == "off" || !is_device_name(device)) {
                    Some(device) => Err(BadSetting::Device(device.to_owned())),
                    None => Ok(()),
                }
            }
            (_, Shape::Spread) => {
                let mut buckets = text.trim_end_matches(',').split(',');
                if buckets.all(|n| n.parse::<u32>().is_ok()) { Ok(()) } else { bad() }
            }
            (_, Shape::Words) if text.split(' ').all(is_word) => Ok(()),
            _ if is_word(text) => Ok(()),
            _ => bad(),
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        let label = rows(parts.kind).next().map_or(parts.kind, |row| row.label);
        f.write_str(&parts.fill(label))
    }
}

/// True if the kernel accepts the name for a device (net/core/dev.c `dev_valid_name`); IFNAMSIZ
/// counts the final NUL.
fn is_device_name(name: &str) -> bool {
    (1..16).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.bytes().any(|b| matches!(b, b'/' | b':' | 0 | 0x0b) || b.is_ascii_whitespace())
}

/// True if the name is that of a directory under /sys/devices/system/cpu/cpufreq (`policy%u`).
fn is_policy(name: &str) -> bool {
    name.strip_prefix("policy")
        .is_some_and(|n| (1..6).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
}

/// True if the word can name a governor, qdisc or congestion control: they fit 16 bytes with the
/// final NUL (CPUFREQ_NAME_LEN, IFNAMSIZ, TCP_CA_NAME_MAX).
fn is_word(word: &str) -> bool {
    (1..16).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_graphic())
}

/// True if the name can be a feature's: these are the kernel's own strings of at most
/// ETH_GSTRING_LEN (32) bytes with the NUL.
fn is_feature(name: &str) -> bool {
    (1..32).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A setting that is invalid as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// A kind that is not in the table.
    #[error("{0:?} is not a setting that this version knows")]
    Unknown(String),
    /// A missing field that knobs of that kind need.
    #[error("{0} needs {1}")]
    Needs(&'static str, &'static str),
    /// Not a name that the kernel gives to a network device.
    #[error("{0:?} can't be the name of a network device")]
    Device(String),
    /// Not a frequency policy.
    #[error("{0:?} can't be the name of a frequency policy")]
    Policy(String),
    /// Not a sysctl that a plan may set.
    #[error("{0:?} is not a sysctl that this program sets")]
    Sysctl(String),
    /// A name that is none of the valid ones.
    #[error("{0:?} is none of {1}")]
    Name(String, String),
    /// A count of 0: a card without queues or descriptors.
    #[error("{0} can't be 0")]
    Nothing(Knob),
    /// Not a word that the kernel could know.
    #[error("{0:?} can't be the name of anything that the kernel knows")]
    Word(String),
    /// An empty set of CPUs for an interrupt line, which must go to some CPU.
    #[error("{0} is given no CPU to go to")]
    NoCpu(Knob),
    /// A value of the wrong form, e.g. a count for a mask.
    #[error("{knob} takes {expected}, not {value}")]
    Kind {
        /// Setting that was to be made.
        knob: Knob,
        /// Form that it takes.
        expected: &'static str,
        /// Value that was given.
        value: Value,
    },
}
