//! The threads of a run: started together, timed together, always joined.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use portable_atomic::AtomicU64;
use rustix::thread::{CpuSet as Affinity, sched_setaffinity};

use super::LoadSpec;
use super::half::Role;
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::model::cpuset::CpuSet;
use crate::model::measurement::Direction;

/// Longest time for which any single socket call may block, and so the longest time after the end
/// of a run until every thread notices it.
pub(super) const SOCKET_TIMEOUT: Duration = Duration::from_millis(100);
/// Interval at which a wait checks the stop flag.
const SLICE: Duration = Duration::from_millis(10);
/// Time within which the next connection must be open: two round trips of four seconds, or a first
/// packet that is lost three times.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(8);
/// Time after which payload under way is given up when nothing of it arrives, beside a few round
/// trips.
pub(super) const DRAIN_DEADLINE: Duration = Duration::from_secs(3);
/// Time after which it is not waited for any more although some of it arrives.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// A generator thread holds no more on its stack than a few buffers' addresses; the default of
/// 2 MiB would reserve 1 GiB for 512 threads.
const STACK: usize = 128 << 10;

/// Bytes that one end of a stream has moved. The threads run on different CPUs, so each counter has
/// a cache line of its own (128: two lines are fetched at once on x86).
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Moved(AtomicU64);

impl Moved {
    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Shared {
    gate: Mutex<bool>,
    opened: Condvar,
    /// Senders stop.
    done: AtomicBool,
    /// No sender is at work any more, on either side.
    over: AtomicBool,
    /// Everybody stops at once.
    abort: AtomicBool,
    /// 0 before the window, 1 within, 2 after.
    phase: AtomicU32,
    senders: AtomicUsize,
    alive: AtomicUsize,
}

/// View of the run that a thread has.
pub(super) struct RunView {
    shared: Arc<Shared>,
    seen: u32,
    /// The thread's CPU time when the window opened and closed.
    cpu: [Duration; 2],
}

impl RunView {
    /// To be called once per turn: notes the CPU time when the window has opened or closed. It
    /// costs a load; a thread that sleeps across the edge uses no CPU until it looks.
    pub(super) fn tick(&mut self) {
        let phase = self.shared.phase.load(Ordering::Relaxed);
        if phase != self.seen {
            self.note(phase);
        }
    }

    fn note(&mut self, phase: u32) {
        let now = clock::thread_cpu();
        if self.seen == 0 {
            self.cpu[0] = now;
        }
        self.cpu[1] = now;
        self.seen = phase;
    }

    /// True if senders should go on.
    pub(super) fn sending(&self) -> bool {
        !self.shared.done.load(Ordering::Relaxed)
    }

    /// True if every thread must leave.
    pub(super) fn aborted(&self) -> bool {
        self.shared.abort.load(Ordering::Relaxed)
    }

    /// True if no sender is at work any more, here or on the other side.
    pub(super) fn senders_gone(&self) -> bool {
        self.shared.over.load(Ordering::Relaxed)
    }

    /// Waits until `due`, in slices, as long as sending goes on.
    pub(super) fn pause_until(&mut self, due: Duration) {
        while self.sending() {
            self.tick();
            match due.checked_sub(clock::monotonic()) {
                Some(left) if !left.is_zero() => clock::sleep(left.min(SLICE)),
                _ => return,
            }
        }
    }
}

/// Total of one thread.
#[derive(Default)]
pub(super) struct Outcome {
    /// The receiver has acknowledged this stream's end (reported by one of its two threads).
    pub(super) acknowledged: bool,
    pub(super) datagrams: Option<super::Datagrams>,
    pub(super) error: Option<io::Error>,
}

struct Worker {
    direction: Direction,
    thread: JoinHandle<(Outcome, f64)>,
}

/// The threads of one side of a run.
pub(super) struct Workers {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    ready: (Sender<io::Result<()>>, Receiver<io::Result<()>>),
    affinity: Option<Affinity>,
}

/// Total of all threads of one direction.
#[derive(Default)]
pub(super) struct DirectionTotal {
    pub(super) acknowledged: u32,
    pub(super) datagrams: Option<super::Datagrams>,
    pub(super) error: Option<String>,
    pub(super) cpu_seconds: f64,
    pub(super) busiest: f64,
}

/// The measured window.
#[derive(Default)]
pub(super) struct Window {
    /// Seconds.
    pub(super) seconds: f64,
    /// Bytes moved in it, per stream.
    pub(super) moved: Vec<u64>,
    /// Seconds since it opened, and the bytes moved by then, per stream; the last is its close.
    pub(super) pieces: Vec<(f64, Vec<u64>)>,
    /// Bytes moved in all by its close, per stream.
    pub(super) closed: Vec<u64>,
    /// Segments that came in it, per stream; `None` where nobody counts them.
    pub(super) arrived: Vec<Option<Arrived>>,
    /// True if the window was not cut short.
    pub(super) whole: bool,
}

/// Segments of a stream that came at its receiver, whatever their order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    /// Before any payload of the load.
    pub(super) before: u64,
    /// In the window.
    pub(super) within: f64,
}

/// Segments per stream at a time of the window: it takes a moment to ask for all of them.
type Arrivals = (Duration, Vec<Option<u64>>);

fn arrived(
    before: &Arrivals,
    open: &Arrivals,
    close: &Arrivals,
    seconds: f64,
) -> Vec<Option<Arrived>> {
    let share = seconds / close.0.saturating_sub(open.0).as_secs_f64();
    let all = before.1.iter().zip(&open.1).zip(&close.1);
    all.map(|((before, open), close)| {
        let within = close.as_ref()?.saturating_sub((*open)?) as f64 * share;
        Some(Arrived { before: (*before)?, within }).filter(|_| share.is_finite())
    })
    .collect()
}

impl Workers {
    pub(super) fn new(cpus: Option<&CpuSet>) -> Self {
        let affinity = cpus.map(affinity);
        Self { shared: Arc::default(), workers: Vec::new(), ready: channel(), affinity }
    }

    /// Starts a thread that waits for the gate before it runs `body`.
    pub(super) fn spawn(
        &mut self,
        direction: Direction,
        role: Role,
        body: impl FnOnce(&mut RunView) -> Outcome + Send + 'static,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let ready = self.ready.0.clone();
        let affinity = self.affinity;
        shared.alive.fetch_add(1, Ordering::AcqRel);
        if role == Role::Sender {
            shared.senders.fetch_add(1, Ordering::AcqRel);
        }
        let work = move || {
            let leaving = Leaving { shared: Arc::clone(&shared), role };
            let pinned = affinity.map_or(Ok(()), |cpus| sched_setaffinity(None, &cpus));
            let told = ready.send(pinned.map_err(io::Error::from));
            drop(ready);
            if told.is_err() || pinned.is_err() || !shared.wait_at_gate() {
                return (Outcome::default(), 0.0);
            }
            let mut view = RunView { shared, seen: 0, cpu: [Duration::ZERO; 2] };
            let outcome = body(&mut view);
            // A thread may leave before it has seen the window close; one that never saw it open
            // slept all the time.
            if view.seen == 1 {
                view.note(2);
            }
            drop(leaving);
            (outcome, view.cpu[1].saturating_sub(view.cpu[0]).as_secs_f64())
        };
        let name = match role {
            Role::Sender => "load-send",
            Role::Receiver => "load-recv",
        };
        match std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(work) {
            Ok(thread) => {
                self.workers.push(Worker { direction, thread });
                Ok(())
            }
            Err(error) => {
                self.shared.leave(role);
                Err(Error::not_supported("start a load generator thread", error))
            }
        }
    }

    /// Waits until each thread is in its place.
    pub(super) fn ready(&self, stop: &AtomicBool) -> Result<()> {
        let deadline = clock::monotonic() + CONNECT_DEADLINE;
        let mut missing = self.workers.len();
        while missing > 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::interrupted("load"));
            }
            match self.ready.1.recv_timeout(SLICE) {
                Ok(Ok(())) => missing -= 1,
                Ok(Err(error)) => {
                    return Err(Error::usage("pin the load generator", error)
                        .hint("choose CPUs that are online and allowed for this process"));
                }
                Err(RecvTimeoutError::Timeout) if clock::monotonic() < deadline => {}
                Err(_) => {
                    let why = format!("{missing} threads did not come up in time");
                    return Err(Error::new(ExitCode::Refused, "start the load generator", why));
                }
            }
        }
        Ok(())
    }

    /// Lets all threads go at `start` (monotonic), and takes the counters at both ends of the
    /// window; then the senders stop. All of it on a thread of its own, so that the window is what
    /// was asked for, whoever waits for it and from where.
    pub(super) fn keep_time(
        &self,
        spec: &LoadSpec,
        start: Duration,
        streams: Vec<Arc<Moved>>,
        arrivals: impl Fn() -> Vec<Option<u64>> + Send + 'static,
    ) -> io::Result<JoinHandle<Window>> {
        let shared = Arc::clone(&self.shared);
        let (omit, seconds) = (spec.omit, spec.seconds);
        let work = move || {
            let after = |from: Duration, seconds| {
                clock::wait_until(from + Duration::from_secs_f64(seconds), SLICE, &shared.done)
            };
            let read = || -> Vec<u64> { streams.iter().map(|m| m.get()).collect() };
            let arrivals = || -> Arrivals { (clock::monotonic(), arrivals()) };
            let first = arrivals();
            let began = after(start, 0.0);
            shared.open_gate();
            let omitted = began && after(start, omit);
            let open = clock::monotonic();
            let before = read();
            let opened = arrivals();
            shared.phase.store(1, Ordering::Relaxed);
            let mut pieces: Vec<(f64, Vec<u64>)> = Vec::new();
            let mut piece = || {
                let at = clock::monotonic();
                let moved = before.iter().zip(read()).map(|(b, n)| n.saturating_sub(*b)).collect();
                pieces.push((at.saturating_sub(open).as_secs_f64(), moved));
                at
            };
            let mut whole = omitted;
            for due in edges(seconds) {
                whole = whole && after(open, due);
                if whole {
                    piece();
                }
            }
            let whole = whole && after(open, seconds);
            let close = piece();
            let last = arrivals();
            shared.phase.store(2, Ordering::Relaxed);
            shared.done.store(true, Ordering::Relaxed);
            let moved = pieces.last().map(|(_, moved)| moved.clone()).unwrap_or_default();
            let closed = before.iter().zip(&moved).map(|(before, moved)| before + moved).collect();
            let seconds = close.saturating_sub(open).as_secs_f64();
            let arrived = arrived(&first, &opened, &last, seconds);
            Window { seconds, moved, pieces, closed, arrived, whole }
        };
        std::thread::Builder::new().name("load-time".into()).stack_size(STACK).spawn(work)
    }

    /// Tells the senders to stop; the number of them that have not yet.
    pub(super) fn quiet(&self) -> usize {
        self.shared.done.store(true, Ordering::Relaxed);
        self.shared.senders.load(Ordering::Acquire)
    }

    /// Tells the receivers that nobody sends any more, and waits until `deadline` for what is under
    /// way. `cut` must unblock every socket at once; it is called when that takes too long.
    pub(super) fn finish(&self, deadline: Duration, cut: impl Fn()) {
        self.shared.done.store(true, Ordering::Relaxed);
        self.shared.over.store(true, Ordering::Relaxed);
        while self.shared.alive.load(Ordering::Acquire) > 0 && clock::monotonic() < deadline {
            clock::sleep(Duration::from_millis(2));
        }
        if self.shared.alive.load(Ordering::Acquire) > 0 {
            self.shared.abort.store(true, Ordering::Relaxed);
            cut();
        }
    }

    /// Joins everybody and sums up per direction; `seconds` is the window's length.
    pub(super) fn join(mut self, seconds: f64) -> BTreeMap<Direction, DirectionTotal> {
        self.release();
        let mut totals = BTreeMap::<Direction, DirectionTotal>::new();
        for worker in self.workers.drain(..) {
            let (outcome, cpu) = worker.thread.join().unwrap_or_else(|_| {
                let error = Some(io::Error::other("a load generator thread panicked"));
                (Outcome { error, ..Outcome::default() }, 0.0)
            });
            let total = totals.entry(worker.direction).or_default();
            total.acknowledged += u32::from(outcome.acknowledged);
            total.cpu_seconds += cpu;
            if seconds > 0.0 {
                total.busiest = total.busiest.max(cpu / seconds);
            }
            if let Some(more) = outcome.datagrams {
                total.datagrams.get_or_insert_default().add(more);
            }
            if let (None, Some(error)) = (&total.error, outcome.error) {
                total.error = Some(error.to_string());
            }
        }
        totals
    }

    fn release(&self) {
        self.shared.done.store(true, Ordering::Relaxed);
        self.shared.abort.store(true, Ordering::Relaxed);
        self.shared.close_gate();
    }
}

/// A run that failed half-way leaves no thread behind.
impl Drop for Workers {
    fn drop(&mut self) {
        self.release();
        for worker in self.workers.drain(..) {
            if worker.thread.join().is_err() {
                log::warn!("a load generator thread panicked");
            }
        }
    }
}

impl super::Datagrams {
    fn add(&mut self, more: Self) {
        self.sent += more.sent;
        self.received += more.received;
        self.lost += more.lost;
        self.duplicates += more.duplicates;
        self.reordered += more.reordered;
    }
}

impl Shared {
    /// Waits for the start; true if the run begins, false if it was called off.
    fn wait_at_gate(&self) -> bool {
        let mut open = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        !self.abort.load(Ordering::Relaxed)
    }

    fn open_gate(&self) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    /// Lets threads that still wait leave, as `abort` is set.
    fn close_gate(&self) {
        self.open_gate();
    }

    fn leave(&self, role: Role) {
        if role == Role::Sender {
            self.senders.fetch_sub(1, Ordering::AcqRel);
        }
        self.alive.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts its thread out, also when that panics: nobody waits for the dead.
struct Leaving {
    shared: Arc<Shared>,
    role: Role,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.shared.leave(self.role);
    }
}

/// CPUs beyond what the system call's fixed set can name (1024) are left out.
fn affinity(cpus: &CpuSet) -> Affinity {
    let mut set = Affinity::new();
    for cpu in cpus.iter().filter_map(|cpu| usize::try_from(cpu.0).ok()) {
        if cpu < Affinity::MAX_CPU {
            set.set(cpu);
        }
    }
    set
}

/// Edges between the pieces of a window, in seconds from its opening: a tenth of the window apart,
/// but no less than a tenth of a second and no more than one, and never more than a thousand.
pub(super) fn edges(window: f64) -> impl Iterator<Item = f64> {
    let step = (window / 10.0).clamp(0.1, 1.0).max(window / 1000.0);
    let pieces = (window / step).round().max(1.0);
    (1..pieces as u32).map(move |number| f64::from(number) * window / pieces)
}

/// Time at which the next `bytes` may go, so that `sent` bytes so far keep to `rate` (bytes per
/// second).
pub(super) fn due(started: Duration, sent: u64, rate: f64) -> Duration {
    started + Duration::try_from_secs_f64(sent as f64 / rate).unwrap_or(Duration::MAX / 4)
}
