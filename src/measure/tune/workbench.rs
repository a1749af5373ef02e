//! A lab with its router as the thing to measure and to change.

use std::sync::atomic::AtomicBool;

use super::router::Router;
use crate::change::apply::Hold;
use crate::error::Result;
use crate::machine::discover;
use crate::measure::bench;
use crate::measure::lab::{Lab, LabSpec};
use crate::model::cpuset::CpuSet;
use crate::model::measurement::ReadBack;
use crate::model::plan::Candidate;

/// From this many usable CPUs on, the load generator gets CPUs of its own.
const ENOUGH_CPUS: usize = 4;

/// A lab with its router, and the right to change it.
pub struct Workbench {
    router: Router,
    bench: bench::Context,
}

impl Workbench {
    /// Builds the lab. With four usable CPUs or more, the upper half is the load generator's and
    /// the planner does not place the router's work there.
    ///
    /// # Errors
    /// As [`Lab::build_until`]; rollback incomplete when an earlier run can't be settled.
    pub fn build(spec: &LabSpec, hold: Hold<'static>, stop: &AtomicBool) -> Result<Self> {
        // Before there are namespaces of our own: the kernel gives the numbers of dead ones to new
        // ones, and a dead lab's journal must not pass for this one's.
        let notes = hold.settle()?.notes;
        let lab = Lab::build_until(spec, stop)?;
        let host = lab.router_host();
        let generator = generator_cpus(&discover::snapshot(&host).usable_cpus());
        let taken = generator.clone().unwrap_or_default();
        let changer = hold.through(host.clone()).changer(move |host| {
            let mut snapshot = discover::snapshot(host);
            // To the router these are out of bounds, as isolated CPUs are.
            for cpu in snapshot.cpus.iter_mut().filter(|c| taken.contains(c.id)) {
                cpu.isolated = true;
            }
            snapshot
        })?;
        let mut bench = bench::Context::of_lab(&lab, lab.path_mtu, generator);
        bench.router_cpus = changer.snapshot().usable_cpus();
        Ok(Self { router: Router::new(host, changer, notes), bench })
    }

    /// The lab's router; the generator's CPUs are marked as isolated there.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Context that the load generator and the sampler need.
    #[must_use]
    pub fn bench(&self) -> &bench::Context {
        &self.bench
    }

    /// Runs `job` with the router set up as `candidate` says, and puts everything back.
    ///
    /// # Errors
    /// Fails if the settings can't be made or put back, or if the job fails.
    pub fn with<T>(
        &self,
        candidate: &Candidate,
        job: impl FnOnce(&bench::Context) -> Result<T>,
    ) -> Result<T> {
        self.with_settings(candidate, job).map(|(done, _)| done)
    }

    /// As [`Workbench::with`], with the candidate's settings as they read when the job was done.
    ///
    /// # Errors
    /// As [`Workbench::with`].
    pub fn with_settings<T>(
        &self,
        candidate: &Candidate,
        job: impl FnOnce(&bench::Context) -> Result<T>,
    ) -> Result<(T, Vec<ReadBack>)> {
        self.router.with_settings(candidate, || job(&self.bench))
    }
}

/// The CPUs for the load generator: the upper half from [`ENOUGH_CPUS`] on.
fn generator_cpus(usable: &CpuSet) -> Option<CpuSet> {
    (usable.len() >= ENOUGH_CPUS).then(|| usable.iter().skip(usable.len() / 2).collect())
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
