//! A lab with its router as the thing to measure and to change.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::{Limits, Progress, Rig, run};
use crate::apply::{self, Session, knob};
use crate::bench;
use crate::discover;
use crate::error::Result;
use crate::host::{HostRead, Live};
use crate::lab::{Lab, LabSpec};
use crate::load::LoadSpec;
use crate::model::cpuset::CpuSet;
use crate::model::measurement::{
    Direction, Experiment, Measurement, Refusal, RefusalCode, SettingState,
};
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;
use crate::store::Lock;

/// From this many usable CPUs on, the load generator gets CPUs of its own.
const ENOUGH_CPUS: usize = 4;

/// A lab, its router's snapshot, and the right to change it.
pub struct Workbench {
    host: Live,
    lock: Lock,
    snapshot: Snapshot,
    bench: bench::Context,
    /// What was said while it was built, a line each.
    pub notes: Vec<String>,
}

impl Workbench {
    /// Builds the lab. With four usable CPUs or more, the upper half is the load generator's and
    /// the planner does not place the router's work there.
    ///
    /// # Errors
    /// As [`Lab::build_until`]; rollback incomplete when an earlier run can't be settled.
    pub fn build(spec: &LabSpec, lock: Lock, stop: &AtomicBool) -> Result<Self> {
        // Before there are namespaces of our own: the kernel gives the numbers of dead ones to new
        // ones, and a dead lab's journal must not pass for this one's.
        let notes = apply::settle(&Live::here(), &lock)?.notes;
        let lab = Lab::build_until(spec, stop)?;
        let host = lab.router_host();
        let mut snapshot = discover::snapshot(&host);
        let generator = generator_cpus(&snapshot.usable_cpus());
        if let Some(taken) = &generator {
            // To the router these are out of bounds, as isolated CPUs are.
            for cpu in snapshot.cpus.iter_mut().filter(|c| taken.contains(c.id)) {
                cpu.isolated = true;
            }
        }
        let bench = bench::Context::of_lab(&lab, lab.path_mtu, generator);
        Ok(Self { host, lock, snapshot, bench, notes })
    }

    /// The router; the generator's CPUs are marked as isolated.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What the load generator and the sampler need.
    #[must_use]
    pub fn bench(&self) -> &bench::Context {
        &self.bench
    }

    /// Runs `job` with the router set up as `candidate` says, and puts everything back.
    ///
    /// # Errors
    /// When the settings can't be made or put back, or when the job fails.
    pub fn with<T>(
        &self,
        candidate: &Candidate,
        job: impl FnOnce(&bench::Context) -> Result<T>,
    ) -> Result<T> {
        let candidates = std::slice::from_ref(candidate);
        let mut session = Session::open(&self.host, &self.snapshot, candidates, &self.lock)?;
        session.set(&candidate.name)?;
        let done = job(&self.bench);
        let restored = session.restore();
        // What could not be put back matters more than what could not be measured.
        restored.and(done)
    }

    /// Runs an experiment (see [`run`]) with `load` in every cell, puts everything back, and notes
    /// how the settings stood before and after.
    ///
    /// # Errors
    /// As [`run`]; rollback incomplete when something could not be put back.
    pub fn experiment(
        &self,
        experiment: &mut Experiment,
        load: &LoadSpec,
        limits: Limits,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<()> {
        let mut settings = self.settings(&experiment.candidates)?;
        let session =
            Session::open(&self.host, &self.snapshot, &experiment.candidates, &self.lock)?;
        experiment.notes.extend(session.notes.iter().cloned());
        let mut rig = LabRig { session, bench: &self.bench, load, stop };
        let ran = run(experiment, &mut rig, limits, stop, progress);
        rig.session.restore()?;
        for setting in &mut settings {
            setting.after = self.text(&PathBuf::from(&setting.path))?;
        }
        experiment.settings = settings;
        ran
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

    fn text(&self, path: &std::path::Path) -> Result<String> {
        self.host.text(path).map_err(|e| {
            crate::error::Error::not_supported(format!("read {}", path.display()), e.reason())
        })
    }
}

/// The CPUs for the load generator: the upper half from [`ENOUGH_CPUS`] on.
fn generator_cpus(usable: &CpuSet) -> Option<CpuSet> {
    (usable.len() >= ENOUGH_CPUS).then(|| usable.iter().skip(usable.len() / 2).collect())
}

struct LabRig<'a> {
    session: Session<'a>,
    bench: &'a bench::Context,
    load: &'a LoadSpec,
    stop: &'a AtomicBool,
}

impl Rig for LabRig<'_> {
    fn set(&mut self, candidate: &Candidate) -> Result<()> {
        self.session.set(&candidate.name).map(drop)
    }

    fn measure(&mut self, candidate: &Candidate, direction: Direction) -> Result<Measurement> {
        let spec = LoadSpec { direction, ..self.load.clone() };
        let mut measurement = bench::measure(self.bench, &spec, self.stop)?;
        let differing = self.session.differing(&candidate.name)?;
        if !differing.is_empty() {
            measurement
                .refusals
                .push(Refusal { code: RefusalCode::SettingsDiffer, why: differing.join("; ") });
        }
        Ok(measurement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gets_cpus_of_its_own_only_where_there_are_enough() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        assert_eq!(generator_cpus(&cpus("0-1")), None);
        assert_eq!(generator_cpus(&cpus("0-2")), None);
        assert_eq!(generator_cpus(&cpus("0-3")), Some(cpus("2-3")));
        assert_eq!(generator_cpus(&cpus("1,3,5,7,9")), Some(cpus("5,7,9")));
    }
}
