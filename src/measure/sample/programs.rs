//! CPU time that other programs took while something was measured.

use std::collections::BTreeMap;
use std::path::Path;

use crate::machine::host::HostRead;
use crate::machine::parse::stat::TICKS_PER_SECOND;
use crate::machine::parse::task::{ProcessStat, process};
use crate::model::cpuset::CpuSet;

/// All processes at one moment, without threads of the kernel: those may be at work for the packets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Programs(BTreeMap<u32, ProcessStat>);

/// CPU time of other programs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Others {
    /// Seconds of one CPU, all of them together.
    pub seconds: f64,
    /// Name of the program that took most, and its seconds.
    pub most: Option<(String, f64)>,
}

impl Programs {
    /// Reads what there is; a process that ends meanwhile is left out.
    #[must_use]
    pub fn read(host: &dyn HostRead) -> Self {
        let stat = |name: String| {
            let number: u32 = name.parse().ok()?;
            let bytes = host.read(&Path::new("/proc").join(name).join("stat")).ok()?;
            Some((number, process(&bytes).filter(|p| !p.of_the_kernel)?))
        };
        let names = host.list(Path::new("/proc")).unwrap_or_default();
        Self(names.into_iter().filter_map(stat).collect())
    }

    /// CPU time between `before` and this of all programs but process `ours` and what it started,
    /// as far as they run on `cpus`.
    #[must_use]
    pub fn others_since(&self, before: &Self, ours: u32, cpus: &CpuSet) -> Others {
        let mut took: BTreeMap<u32, u64> = BTreeMap::new();
        for (number, now) in &self.0 {
            let then = before.0.get(number).map_or(0, |then| then.ticks);
            took.insert(*number, now.ticks.saturating_sub(then));
        }
        // Whoever waited for a process that has ended got all of its time, also what is older.
        for (number, then) in before.0.iter().filter(|(number, _)| !self.0.contains_key(number)) {
            let heir = before.line(*number).find(|number| self.0.contains_key(number));
            if let Some(ticks) = heir.and_then(|heir| took.get_mut(&heir)) {
                *ticks = ticks.saturating_sub(then.ticks);
            }
        }
        let mut others = Others::default();
        for (number, ticks) in took {
            let Some(own) = self.0.get(&number) else { continue };
            let runs_there = own.last_cpu.is_none_or(|cpu| cpus.contains(cpu));
            if !runs_there || self.line(number).any(|one| one == ours) {
                continue;
            }
            let seconds = ticks as f64 / TICKS_PER_SECOND;
            others.seconds += seconds;
            if others.most.as_ref().is_none_or(|(_, most)| seconds > *most) {
                others.most = Some((own.name.clone(), seconds));
            }
        }
        others
    }

    /// A process, the one that started it, and so on.
    fn line(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        // As many as there are: a parent's number may have been given anew meanwhile.
        let up = |number: &u32| self.0.get(number).map(|own| own.parent);
        std::iter::successors(Some(number), up).take(self.0.len() + 1)
    }
}
