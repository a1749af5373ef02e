//! Checks, setting by setting, that a candidate is in force, since when, and who may have changed it.
//!
//! In come a candidate, a snapshot and the journals; out goes a state for each setting. It reads the
//! machine and writes nothing.

mod since;

use std::path::PathBuf;

pub use since::{Since, Suspect, suspects};

use crate::change::apply::InForce;
use crate::change::apply::knob::{meaning, path, read_text, same};
use crate::change::apply::pending::Waiting;
use crate::machine::host::HostRead;
use crate::machine::parse::cpumask;
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};
use crate::model::plan::Candidate;
use crate::model::snapshot::{Snapshot, moves_next};

/// State of a setting.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum State {
    /// The value is as asked for.
    InForce,
    /// The value is something else.
    Drifted,
    /// The setting is not on this machine, for this reason.
    Absent(String),
    /// The setting is there and can't be read, for this reason.
    Unreadable(String),
    /// The setting waits for its device, queue or interrupt line.
    Pending(String),
}

/// Check of one setting.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// Setting.
    pub knob: Knob,
    /// The kernel's file, where there is one.
    pub path: Option<PathBuf>,
    /// Value asked for.
    pub wanted: Value,
    /// Value that is there.
    pub actual: Option<Value>,
    /// CPUs that an interrupt does go to, where the kernel says so. On x86 this follows `actual` only with
    /// the line's next interrupt.
    pub effective: Option<CpuSet>,
    /// State.
    #[serde(flatten)]
    pub state: State,
    /// Time when linerate last set it, as far as its journals know; where it drifted, it was as it
    /// is now at no time before that.
    pub since: Option<Since>,
    /// Programs that may have changed it, where it drifted; empty where nothing is known.
    pub suspects: Vec<Suspect>,
}

impl Check {
    /// True if an interrupt line still goes to a CPU that it was taken away from: its next
    /// interrupt will move it.
    #[must_use]
    pub fn not_moved_yet(&self) -> bool {
        match (&self.state, &self.actual, &self.effective) {
            (State::InForce, Some(Value::Cpus(allowed)), Some(effective)) => {
                moves_next(allowed, effective)
            }
            _ => false,
        }
    }
}

/// States of all settings of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Checks, one per setting, in the candidate's order.
    pub checks: Vec<Check>,
}

impl Report {
    /// True if every setting is as asked for, those that wait for their device aside.
    #[must_use]
    pub fn in_force(&self) -> bool {
        self.drifted().next().is_none()
    }

    /// The settings that are not as asked for.
    pub fn drifted(&self) -> impl Iterator<Item = &Check> {
        let fine = |check: &Check| matches!(check.state, State::InForce | State::Pending(_));
        self.checks.iter().filter(move |check| !fine(check))
    }

    /// The settings that wait for their device.
    pub fn pending(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.state, State::Pending(_)))
    }

    /// Adds settings that wait.
    #[must_use]
    pub fn with_pending(mut self, waiting: Vec<Waiting>) -> Self {
        self.checks.extend(waiting.into_iter().map(|one| Check {
            knob: one.knob,
            path: None,
            wanted: one.wanted,
            actual: None,
            effective: None,
            since: None,
            suspects: Vec::new(),
            state: State::Pending(one.why),
        }));
        self
    }
}

/// Compares every setting of `candidate` with what the kernel has now.
#[must_use]
pub fn verify(host: &dyn HostRead, snapshot: &Snapshot, candidate: &Candidate) -> Report {
    verify_with(host, snapshot, candidate, &[])
}

/// Verifies as [`verify`] does, and adds each setting's history from the journals, oldest first.
#[must_use]
pub fn verify_with(
    host: &dyn HostRead,
    snapshot: &Snapshot,
    candidate: &Candidate,
    in_force: &[InForce],
) -> Report {
    let check = |change: &crate::model::plan::Change| {
        let (knob, wanted) = (change.knob.clone(), change.after.clone());
        let at = path(&knob, snapshot);
        let mut check = Check {
            path: at.as_ref().ok().cloned(),
            knob,
            wanted,
            actual: None,
            effective: None,
            state: State::InForce,
            since: None,
            suspects: Vec::new(),
        };
        match at {
            Err(e) => check.state = State::Absent(e.to_string()),
            Ok(at) => look(host, &at, &mut check),
        }
        since::trace(host, snapshot, in_force, &mut check);
        check
    };
    Report { checks: candidate.settings.iter().map(check).collect() }
}

fn look(host: &dyn HostRead, path: &std::path::Path, check: &mut Check) {
    let text = match read_text(host, path) {
        Ok(text) => text,
        Err(e) if e.is_absent() => {
            check.state = State::Absent(e.reason());
            return;
        }
        Err(e) => {
            check.state = State::Unreadable(e.reason());
            return;
        }
    };
    match meaning(&check.knob, &text) {
        Err(why) => check.state = State::Unreadable(why),
        Ok(actual) => {
            if !same(&check.knob, &check.wanted, &actual) {
                check.state = State::Drifted;
            }
            check.actual = Some(actual);
        }
    }
    if matches!(check.knob, Knob::IrqAffinity { .. }) {
        let text = host.read(&path.with_file_name("effective_affinity")).ok();
        check.effective = text.and_then(|text| cpumask::mask(&text).ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::FakeHost;
    use crate::model::plan::Change;
    use crate::model::snapshot::{IrqId, IrqRole};

    fn wanting(settings: Vec<(Knob, Value)>) -> Candidate {
        let change = |(knob, after): (Knob, Value)| Change {
            knob,
            before: after.clone(),
            after,
            reason: String::new(),
        };
        Candidate {
            name: "test".into(),
            title: String::new(),
            reason: String::new(),
            settings: settings.into_iter().map(change).collect(),
        }
    }

    #[test]
    fn drift_absence_and_a_line_that_has_not_moved_yet_are_told_apart() {
        let fake = FakeHost::router(4, &[("eth0", 1)]);
        let cpus = |list: &str| Value::Cpus(list.parse().unwrap());
        let rps = |device: &str| Knob::RpsCpus { device: device.into(), queue: 0 };
        let irq = Knob::IrqAffinity {
            irq: IrqId { device: "eth0".into(), queue: 0, role: IrqRole::Combined },
        };
        let candidate =
            wanting(vec![(rps("eth0"), cpus("1")), (rps("eth1"), cpus("1")), (irq, cpus("2"))]);
        let irq_path = std::path::Path::new("/proc/irq/24/smp_affinity");
        fake.meddle(irq_path, "00000004");
        let report = verify(&fake, &fake.snapshot(), &candidate);
        assert!(!report.in_force());
        assert_eq!(report.checks[0].state, State::Drifted);
        assert_eq!(report.checks[0].actual, Some(cpus("")));
        assert!(matches!(report.checks[1].state, State::Absent(_)));
        assert_eq!(report.checks[2].state, State::InForce);
        assert!(report.checks[2].not_moved_yet());
        assert_eq!(report.drifted().count(), 2);
    }

    /// A journal that set RPS of eth0 rx-0, begun at this millisecond of the boot.
    fn journal(what: &str, started_ms: u64, after: &str) -> InForce {
        use crate::machine::store::journal::{Entry, Header, Journal, Phase, Progress};
        let knob = Knob::RpsCpus { device: "eth0".into(), queue: 0 };
        let fake = FakeHost::router(4, &[("eth0", 1)]);
        let entry = Entry {
            path: path(&knob, &fake.snapshot()).unwrap(),
            knob,
            before: "0".into(),
            after: vec![after.into()],
            witness: None,
            ifindex: None,
        };
        let header = Header::new(fake.identity(), started_ms, what.into(), vec![entry]);
        let progress = vec![Progress::Done];
        let journal = Journal { progress, phase: Phase::Applied, ..Journal::new(1, header) };
        InForce { journal, place: crate::change::apply::Whereabouts::Here }
    }

    #[test]
    fn who_changed_it_is_told_as_far_as_it_is_known() {
        use crate::model::path::{Service, Sort};
        let fake = FakeHost::router(4, &[("eth0", 1)]);
        let knob = Knob::RpsCpus { device: "eth0".into(), queue: 0 };
        let at = path(&knob, &fake.snapshot()).unwrap();
        let wanted = wanting(vec![(knob, Value::Cpus("1".parse().unwrap()))]);
        let check = |snapshot: &Snapshot, text: &str, journals: &[InForce]| {
            fake.meddle(&at, text);
            verify_with(&fake, snapshot, &wanted, journals).checks.remove(0)
        };
        let bare = fake.snapshot();
        let ours = [journal("apply plan.toml (rps)", 5, "2")];
        // Ours, and since when; without a journal nobody knows.
        let fine = check(&bare, "2", &ours);
        assert_eq!((fine.state, fine.since.unwrap().boottime_ms), (State::InForce, 5));
        assert_eq!(check(&bare, "2", &[]).since, None);
        // Drifted, and nobody in sight.
        let drifted = check(&bare, "4", &ours);
        assert_eq!(drifted.suspects, []);
        assert_eq!(drifted.since.unwrap().by, "apply plan.toml (rps)");
        // Another linerate's journal is proof; a program that writes such settings is a suspicion,
        // and one that writes others is none.
        let later = [ours[0].clone(), journal("apply other.toml (rps-all)", 9, "f")];
        let other = check(&bare, "f", &later);
        assert!(other.suspects[0].certain && other.suspects[0].who.contains("other.toml"));
        let mut busy = fake.snapshot();
        let service = |name: &str, sets: &[Sort]| Service {
            name: name.into(),
            sets: sets.to_vec(),
            ..Service::default()
        };
        busy.services = vec![
            service("irqbalance", &[Sort::Interrupts]),
            service("OpenWrt packet steering", &[Sort::Rps, Sort::Rfs]),
        ];
        let named = check(&busy, "4", &ours).suspects;
        let names: Vec<&str> = named.iter().map(|s| s.who.as_str()).collect();
        assert_eq!(names, ["OpenWrt packet steering"]);
        assert!(!named[0].certain);
        // A journal of another network namespace says nothing of this one.
        let mut elsewhere = later;
        elsewhere[1].place = crate::change::apply::Whereabouts::OtherNamespace;
        assert_eq!(check(&bare, "f", &elsewhere).suspects, []);
    }

    #[test]
    fn a_value_that_means_nothing_is_unreadable_and_never_in_force() {
        let fake = FakeHost::router(4, &[("eth0", 1)]);
        let knob = Knob::RpsCpus { device: "eth0".into(), queue: 0 };
        let at = path(&knob, &fake.snapshot()).unwrap();
        fake.meddle(&at, "garbage");
        let wanted = Value::Cpus(CpuSet::empty());
        let report = verify(&fake, &fake.snapshot(), &wanting(vec![(knob, wanted)]));
        assert!(matches!(report.checks[0].state, State::Unreadable(_)));
        assert!(!report.in_force());
    }
}
