//! Data of `linerate watch`: the owner's wishes, what happened, and what others may read of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::knob::KNOBS;

/// Contents of /etc/linerate/watch.toml; what the file leaves out is as here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Seconds between two looks.
    pub every: f64,
    /// Answer to settings that somebody changed, by kind of setting; `default` is for all others.
    pub drift: BTreeMap<String, Policy>,
    /// Limits from which on something is told.
    pub health: Limits,
    /// Programs that run at events.
    pub events: Events,
    /// Places where metrics can be had.
    pub metrics: Exposure,
}

impl Default for Settings {
    fn default() -> Self {
        let (health, events) = (Limits::default(), Events::default());
        let (drift, metrics) = (BTreeMap::new(), Exposure::default());
        Self { every: 10.0, drift, health, events, metrics }
    }
}

impl Settings {
    /// Policy for a kind of setting.
    #[must_use]
    pub fn policy(&self, kind: &str) -> Policy {
        let told = self.drift.get(kind).or_else(|| self.drift.get("default"));
        told.copied().unwrap_or_default()
    }

    /// The first thing in it that is invalid, in words.
    ///
    /// # Errors
    /// The words.
    pub fn check(&self) -> Result<(), String> {
        let known = |kind: &str| kind == "default" || KNOBS.iter().any(|row| row.kind == kind);
        if let Some(kind) = self.drift.keys().find(|kind| !known(kind)) {
            return Err(format!("[drift] {kind}: there is no such kind of setting"));
        }
        let Limits { cpu, temperature, losses, hold, .. } = &self.health;
        let fine = [
            ("every", self.every, 1.0..=600.0),
            ("[health] cpu", *cpu, 0.1..=1.0),
            ("[health] temperature", *temperature, 0.0..=200.0),
            ("[health] losses", *losses, 0.0..=1e9),
            ("[health] hold", *hold, 0.0..=86_400.0),
            ("[events] limit", self.events.limit, 0.1..=600.0),
        ];
        match fine.iter().find(|(_, value, range)| !range.contains(value)) {
            None => Ok(()),
            Some((name, value, range)) => {
                Err(format!("{name} = {value}: it must be {} to {}", range.start(), range.end()))
            }
        }
    }
}

/// Answer to a setting that somebody else changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The setting is put back, and that is told; three times within an hour at most.
    PutBack,
    /// The change is told.
    #[default]
    Tell,
    /// The change is nobody's business.
    Leave,
}

/// Limits from which on something is told.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Share of a CPU's time in the kernel and not idle, from which on it is full.
    pub cpu: f64,
    /// Degrees Celsius of the hottest zone.
    pub temperature: f64,
    /// Packets lost per second at one stage.
    pub losses: f64,
    /// Seconds for which a trouble must be gone before that is told.
    pub hold: f64,
    /// True if the gateways of the default routes are asked for an answer.
    pub gateways: bool,
    /// Rules of `check` that are told when they find something that is at least a warning.
    pub rules: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        let rules = ["under-voltage", "conntrack-full", "neighbour-overflow"];
        Self {
            cpu: 0.95,
            temperature: 80.0,
            losses: 10.0,
            hold: 30.0,
            gateways: true,
            rules: rules.map(str::to_owned).to_vec(),
        }
    }
}

/// Programs that run at events.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Events {
    /// True if the programs in /etc/linerate/events.d are run.
    pub run: bool,
    /// Seconds after which such a program is killed.
    pub limit: f64,
}

impl Default for Events {
    fn default() -> Self {
        Self { run: true, limit: 10.0 }
    }
}

/// Places where metrics can be had.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exposure {
    /// Directory that node_exporter's textfile collector reads.
    pub textfile: Option<String>,
    /// Address of the loopback with a port, or path of a socket.
    pub listen: Option<String>,
}

/// Phase of what an event tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Trouble began.
    Raised,
    /// Trouble is over.
    Cleared,
    /// The event has no end of its own.
    Told,
}

impl Phase {
    /// The word in JSON and in the environment of programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Cleared => "cleared",
            Self::Told => "told",
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Stable name: `wan-lost`, `drift`, or a rule of `check`.
    pub event: String,
    /// Phase.
    pub phase: Phase,
    /// Device, CPU, stage, gateway or setting; empty for the whole router.
    pub place: String,
    /// Sentence for a person.
    pub words: String,
}

impl Event {
    /// An event without an end of its own.
    #[must_use]
    pub fn told(event: &str, place: impl Into<String>, words: impl Into<String>) -> Self {
        Self {
            event: event.to_owned(),
            phase: Phase::Told,
            place: place.into(),
            words: words.into(),
        }
    }
}

/// State of a watch that runs, for `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// Process.
    pub pid: u32,
    /// Time of its start, in milliseconds since boot (CLOCK_BOOTTIME).
    pub since_ms: u64,
    /// Number of events so far.
    pub events: u64,
    /// The last event, and when it was, in milliseconds since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Last>,
    /// Troubles that last, as their first events told them.
    pub troubles: Vec<Event>,
}

/// The last event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// Milliseconds since boot (CLOCK_BOOTTIME).
    pub at_ms: u64,
    /// Event.
    #[serde(flatten)]
    pub event: Event,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_the_default_and_what_is_wrong_is_named() {
        let read = |text: &str| toml::from_str::<Settings>(text);
        assert_eq!(read("").unwrap(), Settings::default());
        let some =
            read("every = 5\n[drift]\nrps-cpus = \"put-back\"\ndefault = \"leave\"").unwrap();
        assert_eq!(some.check(), Ok(()));
        assert_eq!(some.policy("rps-cpus"), Policy::PutBack);
        assert_eq!(some.policy("governor"), Policy::Leave);
        assert_eq!(Settings::default().policy("governor"), Policy::Tell);
        assert!(read("evry = 5").is_err());
        assert!(read("[drift]\nrps-cpus = \"fight\"").is_err());
        for (text, wrong) in [
            ("every = 0", "every = 0"),
            ("every = nan", "every"),
            ("[drift]\nrps = \"tell\"", "[drift] rps"),
            ("[health]\ncpu = 95", "cpu = 95"),
            ("[events]\nlimit = 0", "limit"),
        ] {
            let why = read(text).unwrap().check().unwrap_err();
            assert!(why.contains(wrong), "{text}: {why}");
        }
    }
}
