//! State that must stay the same while something is measured, and what became of it.

use super::{Health, Settings};
use crate::machine::host::{Change, Contents, Live, Monitor};

/// A host of a run on this machine.
pub struct Watched {
    /// Name in words; empty where whoever asks knows.
    pub name: &'static str,
    /// The door to it.
    pub host: Live,
    /// True if the CPUs of its interrupts count.
    pub interrupts: bool,
}

/// Hosts of a run at one end of it, the router first. What is changed and put back within shows too,
/// where the kernel tells of it.
#[derive(Default)]
pub struct Held {
    health: Health,
    hosts: Vec<HeldHost>,
}

/// Name of a host, and the state of its system.
struct HeldHost {
    name: &'static str,
    settings: Settings,
    contents: Contents,
    /// From before the run on.
    monitor: Option<Monitor>,
}

/// Changes to state that should have stayed the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotHeld {
    /// Limits that held the machine back.
    pub throttled: Vec<String>,
    /// Changes that forwarding may depend on.
    pub differing: Vec<String>,
    /// Changes that need not concern the load.
    pub noted: Vec<String>,
}

impl Held {
    /// Reads hosts of this machine, by name, and listens to what changes from now on.
    #[must_use]
    pub fn before(hosts: &[Watched]) -> Self {
        Self::read(hosts, true)
    }

    /// Reads them again.
    #[must_use]
    pub fn after(hosts: &[Watched]) -> Self {
        Self::read(hosts, false)
    }

    fn read(hosts: &[Watched], listen: bool) -> Self {
        let held = hosts.iter().map(|Watched { name, host, interrupts }| {
            let unheard = |error| log::debug!("changes of {name} are not heard of: {error}");
            HeldHost {
                name,
                monitor: if listen { host.monitor().map_err(unheard).ok() } else { None },
                contents: host.contents().unwrap_or_default(),
                settings: match interrupts {
                    true => Settings::with_interrupts(host),
                    false => Settings::read(host),
                },
            }
        });
        let held = held.collect();
        let health = hosts.first().map(|first| Health::read(&first.host)).unwrap_or_default();
        Self { health, hosts: held }
    }

    /// The router's settings.
    #[must_use]
    pub fn settings(&self) -> Option<&Settings> {
        self.hosts.first().map(|host| &host.settings)
    }

    /// The same with another word on its machine's health.
    #[must_use]
    pub fn with_health(self, health: Health) -> Self {
        Self { health, ..self }
    }

    /// Changes since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> NotHeld {
        let mut not_held = NotHeld {
            throttled: self.health.throttled_since(&before.health),
            ..NotHeld::default()
        };
        for (number, (now, then)) in self.hosts.iter().zip(&before.hosts).enumerate() {
            let named = |what: &str| match now.name {
                "" => what.to_owned(),
                name => format!("{name}: {what}"),
            };
            // The router's own are known by their paths.
            let settings = now.settings.changed_since(&then.settings);
            let settings = settings.into_iter().map(|what| match number {
                0 => what,
                _ => named(&what),
            });
            not_held.differing.extend(settings);
            let mut changes = then.monitor.as_ref().map(Monitor::seen).unwrap_or_default();
            for change in now.contents.changed_since(&then.contents) {
                if !changes.contains(&change) {
                    changes.push(change);
                }
            }
            let (of_forwarding, noted): (Vec<Change>, Vec<Change>) =
                changes.into_iter().partition(Change::is_of_forwarding);
            let told = |change: Change| named(&format!("{change} changed during the run"));
            not_held.differing.extend(of_forwarding.into_iter().map(told));
            not_held.noted.extend(noted.into_iter().map(told));
        }
        not_held
    }
}
