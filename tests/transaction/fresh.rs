//! What an earlier run left is put right before anybody looks: interrupt lines and queues are those
//! of now, whichever verb comes next.

use super::prelude::*;
use linerate::change::apply::check_fits;
use linerate::change::persist::event::{self, Which};
use linerate::decide::plan::plan_for;

fn channels(count: u64) -> (Knob, Value) {
    let knob = Knob::Channels { device: "eth0".into(), direction: "combined".into() };
    (knob, Value::Count(count))
}

/// A router on which a run was killed after it had changed the queues of eth0 from two to `count`:
/// settling gives it two again, on interrupt lines with other numbers.
fn cut_short(count: u64) -> (FakeHost, Scratch, BTreeMap<PathBuf, String>) {
    let (fake, scratch) = (router(), Scratch::new());
    let old = settings(&fake);
    let plan = candidate("cut", vec![channels(count), (rps("eth1", 0), cpus("1"))]);
    let killed = crate::kills::dies(&fake, &scratch, (1, Fault::KilledBefore), |door| {
        do_apply(door, &fake, &plan, &scratch)
    });
    assert!(killed);
    (fake, scratch, old)
}

/// All files but those of interrupt lines, whose numbers are never the same again.
fn settings(fake: &FakeHost) -> BTreeMap<PathBuf, String> {
    let mut files = fake.content();
    files.retain(|path, _| !path.starts_with("/proc/irq"));
    files
}

fn line_of(fake: &FakeHost, queue: u32) -> u32 {
    let lines = fake.snapshot().irqs;
    lines.iter().find(|i| i.id.device == "eth0" && i.id.queue == queue).unwrap().line.0
}

fn affinity(fake: &FakeHost, queue: u32) -> String {
    let line = line_of(fake, queue);
    fake.text(Path::new(&format!("/proc/irq/{line}/smp_affinity"))).unwrap()
}

#[test]
fn apply_writes_to_the_lines_that_are_there_after_settling() {
    let (fake, scratch, _) = cut_short(4);
    let stale = line_of(&fake, 0);
    let plan = candidate("irq", vec![(irq("eth0", 0), cpus("2"))]);
    let mut changer = begin(&fake, &fake, &scratch, "apply").unwrap();
    assert!(changer.notes[0].contains("cut short"), "{:?}", changer.notes);
    changer.apply(&plan, &GO_ON).unwrap();
    drop(changer);
    assert_ne!(line_of(&fake, 0), stale, "the scene has to give it another number");
    assert_eq!(affinity(&fake, 0), "4");
    assert!(verify(&fake, &fake.snapshot(), &plan).in_force());
    do_rollback(&fake, &scratch).unwrap();
    assert_eq!(affinity(&fake, 0), "f");
    assert!(scratch.is_clean());
}

#[test]
fn a_session_of_tune_writes_to_the_lines_that_are_there_after_settling() {
    let (fake, scratch, _) = cut_short(4);
    let stale = line_of(&fake, 1);
    let plan = candidate("irq", vec![(irq("eth0", 1), cpus("3"))]);
    let changer = begin(&fake, &fake, &scratch, "tune").unwrap();
    let mut session = changer.open(std::slice::from_ref(&plan)).unwrap();
    session.set("irq").unwrap();
    assert_ne!(line_of(&fake, 1), stale);
    assert_eq!(affinity(&fake, 1), "8");
    session.restore().unwrap();
    assert_eq!(affinity(&fake, 1), "f");
}

#[test]
fn what_is_applied_after_a_trial_of_channels_goes_to_the_lines_of_now() {
    let (fake, scratch) = (router(), Scratch::new());
    let mut changer = begin(&fake, &fake, &scratch, "tune").unwrap();
    let trial = candidate("four", vec![channels(4)]);
    let mut session = changer.open(std::slice::from_ref(&trial)).unwrap();
    session.set("four").unwrap();
    session.restore().unwrap();
    changer.look_again();
    changer.apply(&candidate("irq", vec![(irq("eth0", 0), cpus("1"))]), &GO_ON).unwrap();
    drop(changer);
    assert_eq!(affinity(&fake, 0), "2");
}

#[test]
fn an_event_and_a_boot_write_to_the_lines_that_are_there_after_settling() {
    for which in [Which::Device("eth0".into()), Which::Devices, Which::Everything] {
        let (fake, scratch, _) = cut_short(4);
        let wanted = candidate("kept", vec![(irq("eth0", 0), cpus("1"))]);
        let plan = plan_for(&router().snapshot(), wanted);
        let devices = event::devices(&fake, &plan, &which);
        let mut changer = begin(&fake, &fake, &scratch, "event eth0").unwrap();
        let done = event::run(&mut changer, &plan, &which, &devices, &GO_ON);
        drop(changer);
        assert_eq!((done.written, done.failed.len()), (1, 0), "{which:?}: {done:?}");
        assert_eq!(affinity(&fake, 0), "2", "{which:?}");
    }
}

#[test]
fn persist_judges_a_plan_by_the_queues_that_are_there_after_settling() {
    let (fake, scratch, _) = cut_short(1);
    let plan = plan_for(&router().snapshot(), candidate("two", vec![(rps("eth0", 1), cpus("1"))]));
    assert!(check_fits(&plan, &fake.snapshot()).is_err(), "the scene has to lack a queue");
    let changer = begin(&fake, &fake, &scratch, "persist").unwrap();
    check_fits(&plan, changer.snapshot()).unwrap();
}

#[test]
fn rollback_needs_no_look_and_leaves_nothing_of_what_was_cut_short() {
    let (fake, scratch, old) = cut_short(4);
    do_rollback(&fake, &scratch).unwrap();
    assert_eq!(settings(&fake), old);
    assert!(scratch.is_clean());
}

#[test]
fn nobody_looks_at_the_machine_before_the_lock_is_taken_and_the_rest_settled() {
    let (fake, scratch, _) = cut_short(4);
    let state = scratch.state();
    let look = |host: &dyn HostRead| {
        assert!(state.try_lock("second").is_err(), "without the lock");
        assert!(state.journals().unwrap().whole.is_empty(), "before settling");
        assert_eq!(host.identity(), fake.identity());
        fake.snapshot()
    };
    let changer = Changer::begin(&fake, &state, "apply", Duration::ZERO, look).unwrap();
    assert_eq!(changer.snapshot().netdevs.len(), 2);
}
