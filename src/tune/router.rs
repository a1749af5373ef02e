//! A router under experiment, this one or a lab's: what is set, and that it is put back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::hunt::{Found, Hunt, hunt};
use super::source::Source;
use super::{Limits, Progress, Rig, run};
use crate::apply::{self, Applied, Session, deadman, knob};
use crate::discover;
use crate::error::{Error, Result};
use crate::host::{HostRead, Live};
use crate::model::knob::{Knob, Value};
use crate::model::measurement::{
    Direction, Experiment, Measurement, ReadBack, Refusal, RefusalCode, SettingState,
};
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;
use crate::store::Lock;
use crate::store::deadman::Armed;

/// A router, its snapshot, and the right to change it.
pub struct Router {
    pub(super) host: Live,
    pub(super) lock: Lock,
    pub(super) snapshot: Snapshot,
    leash: Option<Leash>,
    /// What was said while it was taken hold of, a line each.
    pub notes: Vec<String>,
}

/// A dead-man that is put off before every setting: should this process hang or end, its guard
/// puts the router back.
struct Leash {
    armed: RefCell<Armed>,
    reach: Duration,
}

impl Router {
    /// This machine, as the calling process sees it.
    ///
    /// # Errors
    /// Rollback incomplete when an earlier run can't be settled.
    pub fn here(lock: Lock) -> Result<Self> {
        let host = Live::here();
        let notes = apply::settle(&host, &lock)?.notes;
        let snapshot = discover::snapshot(&host);
        Ok(Self::new(host, lock, snapshot, notes))
    }

    pub(super) fn new(host: Live, lock: Lock, snapshot: Snapshot, notes: Vec<String>) -> Self {
        Self { host, lock, snapshot, leash: None, notes }
    }

    /// What it is.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The door to it.
    #[must_use]
    pub fn host(&self) -> &Live {
        &self.host
    }

    /// The right to change it.
    #[must_use]
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// What a setting is now; `None` where there is none.
    #[must_use]
    pub fn current(&self, knob: &Knob) -> Option<Value> {
        let path = knob::path(knob, &self.snapshot).ok()?;
        let text = knob::read_text(&self.host, &path).ok()?;
        knob::meaning(knob, &text).ok()
    }

    /// Takes `armed` for every cell: its deadline is put off to `reach` from each setting on.
    pub fn tie(&mut self, armed: Armed, reach: Duration) {
        self.leash = Some(Leash { armed: RefCell::new(armed), reach });
    }

    /// Takes the dead-man away: everything is as it is to stay.
    ///
    /// # Errors
    /// When the state directory can't be written.
    pub fn untie(&mut self) -> Result<()> {
        match self.leash.take() {
            Some(_) => self.lock.state().disarm(&self.lock),
            None => Ok(()),
        }
    }

    /// Undoes what was made since it was tied.
    ///
    /// # Errors
    /// Rollback incomplete (exit 8).
    pub fn give_up(&mut self, why: &str) -> Result<()> {
        let Some(leash) = self.leash.take() else { return Ok(()) };
        deadman::give_up(&self.host, &self.lock, &leash.armed.into_inner(), why).map(drop)
    }

    /// Leaves what is in force to whoever says `confirm` within `wait`; the guard goes on by
    /// itself.
    ///
    /// # Errors
    /// When the state directory can't be written.
    pub fn hand_over(&mut self, wait: Duration) -> Result<()> {
        let Some(leash) = self.leash.take() else { return Ok(()) };
        let mut armed = leash.armed.into_inner();
        armed.holder = None;
        deadman::put_off(&self.lock, &mut armed, wait)
    }

    fn put_off(&self) -> Result<()> {
        match &self.leash {
            Some(leash) => {
                let mut armed = leash
                    .armed
                    .try_borrow_mut()
                    .map_err(|e| Error::usage("put the dead-man off", e))?;
                deadman::put_off(&self.lock, &mut armed, leash.reach)
            }
            None => Ok(()),
        }
    }

    /// Runs `job` with the router set up as `candidate` says, and puts everything back.
    ///
    /// # Errors
    /// When the settings can't be made or put back, or when the job fails.
    pub fn with<T>(&self, candidate: &Candidate, job: impl FnOnce() -> Result<T>) -> Result<T> {
        self.with_settings(candidate, job).map(|(done, _)| done)
    }

    /// As [`Router::with`], with the candidate's settings as they read when the job was done.
    ///
    /// # Errors
    /// As [`Router::with`].
    pub fn with_settings<T>(
        &self,
        candidate: &Candidate,
        job: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Vec<ReadBack>)> {
        let candidates = std::slice::from_ref(candidate);
        let mut session = Session::open(&self.host, &self.snapshot, candidates, &self.lock)?;
        session.set(&candidate.name)?;
        let done = job();
        let settings = session.read_back(&candidate.name);
        let restored = session.restore();
        // What could not be put back matters more than what could not be measured.
        restored.and(done).map(|done| (done, settings))
    }

    /// Runs an experiment (see [`run`]) with the load of `source` in every cell, puts everything
    /// back, and notes how the settings stood before and after.
    ///
    /// # Errors
    /// As [`run`]; rollback incomplete when something could not be put back.
    pub fn experiment(
        &self,
        experiment: &mut Experiment,
        source: &dyn Source,
        limits: Limits,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<()> {
        let mut settings = self.settings(&experiment.candidates)?;
        let session =
            Session::open(&self.host, &self.snapshot, &experiment.candidates, &self.lock)?;
        experiment.notes.extend(session.notes.iter().cloned());
        let mut rig = SessionRig { router: self, session, source, stop };
        let ran = run(experiment, &mut rig, limits, stop, progress);
        rig.session.restore()?;
        for setting in &mut settings {
            setting.after = self.text(&PathBuf::from(&setting.path))?;
        }
        experiment.settings = settings;
        ran
    }

    /// Searches (see [`hunt`]) with the load of `source`, and puts everything back. `levels` are
    /// candidates that between them set every value of every setting that may be tried.
    ///
    /// # Errors
    /// As [`hunt`]; rollback incomplete when something could not be put back.
    pub fn search(
        &self,
        mut what: Hunt<'_>,
        levels: &[Candidate],
        source: &dyn Source,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Found> {
        let session = Session::open(&self.host, &self.snapshot, levels, &self.lock)?;
        let mut rig = SessionRig { router: self, session, source, stop };
        let found = hunt(&mut what, &mut rig, stop, progress);
        rig.session.restore()?;
        found
    }

    /// Makes a candidate's settings for good: all or nothing, journalled, until `rollback`.
    ///
    /// # Errors
    /// As [`apply::apply_looking`].
    pub fn apply(&self, candidate: &Candidate, stop: &AtomicBool) -> Result<Applied> {
        self.put_off()?;
        let look = || discover::snapshot(&self.host);
        apply::apply_looking(&self.host, &self.snapshot, &look, candidate, &self.lock, stop)
    }

    /// Every setting that a candidate touches, as it stands now.
    fn settings(&self, candidates: &[Candidate]) -> Result<Vec<SettingState>> {
        let mut found = BTreeMap::new();
        for change in candidates.iter().flat_map(|c| &c.settings) {
            let path = knob::path(&change.knob, &self.snapshot)?;
            if let Entry::Vacant(new) = found.entry(path) {
                let before = self.text(new.key())?;
                new.insert((change.knob.to_string(), before));
            }
        }
        let states = found.into_iter().map(|(path, (name, before))| SettingState {
            name,
            path: path.display().to_string(),
            after: String::new(),
            before,
        });
        Ok(states.collect())
    }

    fn text(&self, path: &Path) -> Result<String> {
        self.host
            .text(path)
            .map_err(|e| Error::not_supported(format!("read {}", path.display()), e.reason()))
    }
}

struct SessionRig<'a> {
    router: &'a Router,
    session: Session<'a>,
    source: &'a dyn Source,
    stop: &'a AtomicBool,
}

impl Rig for SessionRig<'_> {
    fn set(&mut self, candidate: &Candidate) -> Result<()> {
        self.router.put_off()?;
        self.session.learn(&self.router.snapshot, candidate)?;
        self.session.set(&candidate.name).map(drop)
    }

    fn measure(&mut self, candidate: &Candidate, direction: Direction) -> Result<Measurement> {
        let mut measurement = self.source.measure(direction, self.stop)?;
        measurement.settings = self.session.read_back(&candidate.name);
        let differing = self.session.differing(&candidate.name)?;
        if !differing.is_empty() {
            measurement
                .refusals
                .push(Refusal { code: RefusalCode::SettingsDiffer, why: differing.join("; ") });
        }
        Ok(measurement)
    }
}
