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
use crate::change::apply::{Applied, Changer, Hold, Session, deadman, knob};
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::{HostRead, Live};
use crate::machine::store::Lock;
use crate::machine::store::deadman::Armed;
use crate::machine::store::unfinished::Record;
use crate::model::knob::{Knob, Value};
use crate::model::measurement::{
    Direction, Experiment, Measurement, ReadBack, Refusal, RefusalCode, SettingState,
};
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;

/// A router, its snapshot, and the right to change it.
pub struct Router {
    host: Live,
    changer: Changer<'static>,
    watchdog: Option<Watchdog>,
    /// Messages from when control of the router was taken, a line each.
    pub notes: Vec<String>,
}

/// A watchdog whose deadline is postponed before every setting: should this process hang or end,
/// the guard puts the router back.
struct Watchdog {
    armed: RefCell<Armed>,
    reach: Duration,
}

impl Router {
    /// This machine, as the calling process sees it.
    ///
    /// # Errors
    /// Rollback incomplete if an earlier run can't be settled.
    pub fn here(hold: Hold<'static>) -> Result<Self> {
        let changer = hold.changer(|host| discover::snapshot(host))?;
        Ok(Self::new(Live::here(), changer, Vec::new()))
    }

    /// The router behind `host`, which is the changer's own door.
    pub(super) fn new(host: Live, changer: Changer<'static>, mut notes: Vec<String>) -> Self {
        notes.extend(changer.notes.iter().cloned());
        Self { host, changer, watchdog: None, notes }
    }

    /// Snapshot of the router.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        self.changer.snapshot()
    }

    /// The door to it.
    #[must_use]
    pub fn host(&self) -> &Live {
        &self.host
    }

    /// The right to change it.
    #[must_use]
    pub fn lock(&self) -> &Lock {
        self.changer.lock()
    }

    /// Current value of a setting; `None` where the setting does not exist.
    #[must_use]
    pub fn current(&self, knob: &Knob) -> Option<Value> {
        let path = knob::path(knob, self.snapshot()).ok()?;
        let text = knob::read_text(&self.host, &path).ok()?;
        knob::meaning(knob, &text).ok()
    }

    /// Takes `armed` for every cell: its deadline is put off to `reach` from each setting on.
    pub fn arm(&mut self, armed: Armed, reach: Duration) {
        self.watchdog = Some(Watchdog { armed: RefCell::new(armed), reach });
    }

    /// Removes the watchdog: all settings are as they are to stay. A setting that could not be put
    /// back is left to the guard.
    ///
    /// # Errors
    /// Fails if the state directory can't be written.
    pub fn disarm(&mut self) -> Result<()> {
        match self.watchdog.take() {
            Some(watchdog) => deadman::release(self.lock(), &watchdog.armed.into_inner()),
            None => Ok(()),
        }
    }

    /// Undoes the changes that were made since the watchdog was armed.
    ///
    /// # Errors
    /// Rollback incomplete (exit 8).
    pub fn give_up(&mut self, why: &str) -> Result<()> {
        let Some(watchdog) = self.watchdog.take() else { return Ok(()) };
        deadman::give_up(&self.host, self.lock(), &watchdog.armed.into_inner(), why).map(drop)
    }

    /// Leaves the settings in force to whoever says `confirm` within `wait`; the guard goes on by
    /// itself.
    ///
    /// # Errors
    /// Fails if the state directory can't be written.
    pub fn hand_over(&mut self, wait: Duration) -> Result<()> {
        let Some(watchdog) = self.watchdog.take() else { return Ok(()) };
        let mut armed = watchdog.armed.into_inner();
        armed.holder = None;
        deadman::put_off(self.lock(), &mut armed, wait)
    }

    fn put_off(&self) -> Result<()> {
        match &self.watchdog {
            Some(watchdog) => {
                let mut armed = watchdog
                    .armed
                    .try_borrow_mut()
                    .map_err(|e| Error::usage("put the dead-man off", e))?;
                deadman::put_off(self.lock(), &mut armed, watchdog.reach)
            }
            None => Ok(()),
        }
    }

    /// Sets the router up as `candidate` says, and puts everything back. Returns the kernel's
    /// refusal, if it refuses a setting.
    ///
    /// # Errors
    /// Fails if a setting can't be looked up, journalled or put back.
    pub fn refusal(&self, candidate: &Candidate) -> Result<Option<Error>> {
        self.put_off()?;
        let mut session = self.changer.open(std::slice::from_ref(candidate))?;
        match session.set(&candidate.name) {
            Ok(_) => session.restore().map(|()| None),
            Err(e) if e.code() == ExitCode::RolledBack => Ok(Some(e)),
            Err(e) => Err(e),
        }
    }

    /// Runs `job` with the router set up as `candidate` says, and puts everything back.
    ///
    /// # Errors
    /// Fails if the settings can't be made or put back, or if the job fails.
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
        let mut session = self.changer.open(candidates)?;
        session.set(&candidate.name)?;
        let done = job();
        let settings = session.read_back(&candidate.name);
        let restored = session.restore();
        // What could not be put back matters more than what could not be measured.
        restored.and(done).map(|done| (done, settings))
    }

    /// Runs what is left of an experiment (see [`run`]) with the load of `source` in every cell,
    /// keeps it in `record`, puts everything back, and notes how the settings stood before and
    /// after. Returns the failure that ended it, if one did after something was measured.
    ///
    /// # Errors
    /// As [`run`], or the failure when nothing was measured; rollback incomplete when something
    /// could not be put back.
    pub fn experiment(
        &self,
        experiment: &mut Experiment,
        source: &dyn Source,
        limits: Limits,
        stop: &AtomicBool,
        record: &mut Record,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Option<Error>> {
        let mut settings = self.settings(&experiment.candidates)?;
        let session = self.changer.open(&experiment.candidates)?;
        let mut rig = SessionRig { router: self, session, source, stop };
        let ran = record
            .begin(experiment)
            .and_then(|()| run(experiment, &mut rig, limits, stop, record, progress));
        let restored = rig.session.restore().and_then(|()| {
            settings.iter_mut().try_for_each(|setting| {
                setting.after = self.text(&PathBuf::from(&setting.path))?;
                Ok(())
            })
        });
        experiment.settings = settings;
        // What could not be put back matters more than what could not be measured.
        let failure = restored.err().or(ran?);
        if experiment.cells.is_empty() {
            return failure.map_or(Ok(None), Err);
        }
        if let Err(error) = record.end(experiment) {
            // Every cell is there; how it ended is in the result, which is written next.
            log::warn!("{error}");
        }
        Ok(failure)
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
        let session = self.changer.open(levels)?;
        let mut rig = SessionRig { router: self, session, source, stop };
        let found = hunt(&mut what, &mut rig, stop, progress);
        rig.session.restore()?;
        found
    }

    /// Makes a candidate's settings for good: all or nothing, journalled, until `rollback`.
    ///
    /// # Errors
    /// As [`Changer::apply`].
    pub fn apply(&mut self, candidate: &Candidate, stop: &AtomicBool) -> Result<Applied> {
        self.put_off()?;
        // What was tried may have made queues and lines anew.
        self.changer.look_again();
        self.changer.apply(candidate, stop)
    }

    /// Every setting that a candidate touches, as it stands now.
    fn settings(&self, candidates: &[Candidate]) -> Result<Vec<SettingState>> {
        let mut found = BTreeMap::new();
        for change in candidates.iter().flat_map(|c| &c.settings) {
            let path = knob::path(&change.knob, self.snapshot())?;
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
        self.session.learn(candidate)?;
        self.session.set(&candidate.name).map(drop)
    }

    fn lost(&self) -> Option<Error> {
        self.source.lost()
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
