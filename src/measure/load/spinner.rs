//! CPU time that is left for other work: a thread per CPU that runs only where nothing else wants
//! to, and counts how far it comes.
//!
//! The count per second on the idle machine is the measure; the share of it that remains beside a
//! load is the headroom. Unlike idle time it sees what the load costs in cache and frequency too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{CpuSet as Affinity, sched_setaffinity};

use super::workers::Moved;
use crate::error::{Error, Result};
use crate::machine::host::clock;
use crate::machine::sys::sched;
use crate::model::cpuset::CpuSet;
use crate::model::units::CpuId;

/// Slices of the calibration; the best of them counts, for no slice can be too fast.
const SLICES: u32 = 10;
const SLICE: Duration = Duration::from_millis(100);
/// Steps of work between two looks at the stop flag: tens of microseconds.
const STEPS: u32 = 20_000;
const STACK: usize = 64 << 10;

/// Spinning threads; dropping them ends them.
pub struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<(CpuId, Arc<Moved>, JoinHandle<()>)>,
}

/// Counts of all spinners at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Time of the reading, on the monotonic clock of their machine.
    pub at: Duration,
    /// Turns of each.
    pub counts: Vec<(CpuId, u64)>,
}

impl Progress {
    /// Work per second on each CPU since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<(CpuId, f64)> {
        let seconds = self.at.saturating_sub(before.at).as_secs_f64();
        let both = self.counts.iter().zip(&before.counts);
        both.filter(|_| seconds > 0.0)
            .map(|((cpu, now), (_, then))| (*cpu, now.saturating_sub(*then) as f64 / seconds))
            .collect()
    }
}

impl Spinners {
    /// Starts one on each of `cpus`.
    ///
    /// # Errors
    /// Not supported if a thread can't be had or put on its CPU.
    pub fn start(cpus: &CpuSet) -> Result<Self> {
        let mut spinners = Self { stop: Arc::default(), threads: Vec::new() };
        for cpu in cpus.iter() {
            let failed = |e: io::Error| Error::not_supported(format!("spin on {cpu}"), e);
            let (stop, count) = (spinners.stop.clone(), Arc::new(Moved::default()));
            let (told, ready) = std::sync::mpsc::channel();
            let thread = {
                let count = count.clone();
                let name = std::thread::Builder::new().name(format!("lr-spin-{}", cpu.0));
                name.stack_size(STACK).spawn(move || {
                    let placed = place(cpu);
                    let runs = placed.is_ok();
                    // The receiver is there until it has heard this.
                    drop(told.send(placed));
                    if runs {
                        spin(&stop, &count);
                    }
                })
            };
            spinners.threads.push((cpu, count, thread.map_err(failed)?));
            ready.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(failed)?;
        }
        Ok(spinners)
    }

    /// Current count of each spinner.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let counts = self.threads.iter().map(|(cpu, count, _)| (*cpu, count.get()));
        Progress { counts: counts.collect(), at: clock::monotonic() }
    }
}

/// Spinners somewhere.
pub trait Spinning: Sync {
    /// Current count of each spinner.
    ///
    /// # Errors
    /// Fails if their machine is gone.
    fn progress(&self) -> Result<Progress>;
}

impl Spinning for Spinners {
    fn progress(&self) -> Result<Progress> {
        Ok(Self::progress(self))
    }
}

/// Work per second that each CPU does when there is nothing else: the best of several slices,
/// about a second in all.
///
/// # Errors
/// As [`Spinning::progress`].
pub fn calibrate(spinners: &dyn Spinning, stop: &AtomicBool) -> Result<Vec<(CpuId, f64)>> {
    let mut best: Vec<(CpuId, f64)> = Vec::new();
    for _ in 0..SLICES {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let before = spinners.progress()?;
        clock::sleep(SLICE);
        let rates = spinners.progress()?.since(&before);
        best.resize(rates.len(), (CpuId(0), 0.0));
        for (best, rate) in best.iter_mut().zip(rates) {
            *best = (rate.0, best.1.max(rate.1));
        }
    }
    Ok(best)
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, _, thread) in self.threads.drain(..) {
            // A spinner has nothing to say at its end.
            drop(thread.join());
        }
    }
}

fn place(cpu: CpuId) -> io::Result<()> {
    let mut only = Affinity::new();
    let index = usize::try_from(cpu.0).unwrap_or(usize::MAX);
    if index >= Affinity::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    only.set(index);
    sched_setaffinity(None, &only)?;
    sched::idle_priority()
}

fn spin(stop: &AtomicBool, count: &Moved) {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..STEPS {
            // Marsaglia's xorshift: no memory, and no compiler sees through it.
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        count.add(u64::from(std::hint::black_box(x) != 0));
    }
}
