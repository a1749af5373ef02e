//! What is left for other work, against a load whose share of the CPU is known: a thread that takes
//! so much of it and no more.

use linerate::measure::load::spinner::{Progress, Spinners};
use linerate::model::cpuset::CpuSet;
use linerate::model::units::CpuId;

use super::*;

/// Takes `share` of a CPU until it is told to stop; returns the share that it really took.
fn burn(cpu: CpuId, share: f64, stop: &AtomicBool) -> f64 {
    let mut only = rustix::thread::CpuSet::new();
    only.set(cpu.0 as usize);
    rustix::thread::sched_setaffinity(None, &only).unwrap();
    let used = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let (begun, before) = (Instant::now(), used());
    while !stop.load(Ordering::Relaxed) {
        if used() - before < share * begun.elapsed().as_secs_f64() {
            for n in 0..5000_u32 {
                std::hint::black_box(n);
            }
        } else {
            thread::sleep(Duration::from_millis(1));
        }
    }
    (used() - before) / begun.elapsed().as_secs_f64()
}

/// CPU seconds that the spinner of `cpu` has had (Documentation/scheduler/sched-stats.rst).
fn spun(cpu: CpuId) -> f64 {
    let name = format!("lr-spin-{}", cpu.0);
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let read = |task: &std::fs::DirEntry, file| {
        std::fs::read_to_string(task.path().join(file)).unwrap_or_default()
    };
    let task = tasks.map(Result::unwrap).find(|t| read(t, "comm").trim() == name).unwrap();
    let ns: f64 = read(&task, "schedstat").split(' ').next().unwrap().parse().unwrap();
    ns / 1e9
}

/// How far the spinner has come, by its own count and by the kernel's, at one moment: a reading in the
/// midst of which something else had this CPU is none.
fn reading(spinners: &Spinners, cpu: CpuId) -> (Progress, f64, Instant) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let begun = Instant::now();
        let read = (spinners.progress(), spun(cpu), begun);
        if begun.elapsed() < Duration::from_millis(5) || Instant::now() > until {
            return read;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// What the spinner tells of a stretch of time, and its share of the CPU then by the kernel's count.
fn stretch(spinners: &Spinners, cpu: CpuId) -> (f64, f64) {
    let (before, had, begun) = reading(spinners, cpu);
    thread::sleep(Duration::from_millis(1500));
    let (after, has, ended) = reading(spinners, cpu);
    let seconds = ended.saturating_duration_since(begun).as_secs_f64();
    (Progress::since(&after, &before)[0].1, (has - had) / seconds)
}

/// One comparison: the share told and that which was left by the kernel's count, both of what there
/// was without the burner, and what the burner took where nearly all the rest was free. `None` where
/// the CPU is so busy that an idle-priority thread hardly runs.
fn compared(spinners: &Spinners, cpu: CpuId, share: f64) -> Option<(f64, f64, Option<f64>)> {
    let (alone, free) = stretch(spinners, cpu);
    let stop = AtomicBool::new(false);
    let (beside, had, took) = thread::scope(|scope| {
        let burner = scope.spawn(|| burn(cpu, share, &stop));
        let (beside, had) = stretch(spinners, cpu);
        stop.store(true, Ordering::Relaxed);
        (beside, had, burner.join().unwrap())
    });
    let quiet = free > 0.97 && had + took > 0.97;
    (free > 0.2 && had > 0.1).then(|| (beside / alone, had / free, quiet.then_some(took)))
}

#[test]
#[ignore = "slow: make test runs it"]
fn headroom_is_right_within_a_few_points_where_the_load_is_known() {
    /// What a hypervisor that takes the CPU away for a moment may spoil.
    const TRIES: u32 = 4;
    let _alone = alone();
    let cpu =
        linerate::machine::discover::snapshot(&linerate::machine::host::Live::here()).usable_cpus();
    let cpu = cpu.first().unwrap();
    let spinners = Spinners::start(&CpuSet::single(cpu)).unwrap();
    let mut quiet = Vec::new();
    for share in [0.2, 0.34, 0.7] {
        let mut tried = Vec::new();
        for _ in 0..TRIES {
            let Some((told, left, took)) = compared(&spinners, cpu, share) else { break };
            tried.push((told, left, took));
            // Whatever else runs on this machine: the work is that of the CPU time which was left;
            // where little else does, of what the burner did not take.
            let right = (told - left).abs() < 0.1
                && took.is_none_or(|took| (told - (1.0 - took)).abs() < 0.06);
            if right {
                quiet.extend(took.map(|_| (share, told)));
                tried.clear();
                break;
            }
        }
        assert!(tried.len() < TRIES as usize, "{share}: (told, left, taken) {tried:?}");
    }
    // The gain of a report from a CM4: fourteen points more for other work.
    if let [(a, more), (b, less), ..] = quiet.as_slice()
        && (*a, *b) == (0.2, 0.34)
    {
        assert!((more - less - 0.14).abs() < 0.08, "{quiet:?}");
    }
    eprintln!("{} of 3 stretches without other work on {cpu}: {quiet:?}", quiet.len());
}
