//! The dead-man's guard, by a clock of the test's own: when it undoes, that it goes on until it has,
//! and what it tells whoever says `confirm` meanwhile.

use std::cell::{Cell, RefCell};

use super::prelude::*;
use linerate::change::apply::deadman::{self, Confirmed, Guard, Watch};
use linerate::machine::host::clock::{self, Clock};
use linerate::machine::store::deadman::Armed;

type Event<'a> = (u64, Box<dyn FnOnce() + 'a>);

/// A clock that goes on when somebody sleeps, and runs what is due in its milliseconds then.
struct Virtual<'a> {
    start: Duration,
    passed: Cell<Duration>,
    naps: RefCell<Vec<u64>>,
    events: RefCell<Vec<Event<'a>>>,
}

impl<'a> Virtual<'a> {
    fn new() -> Self {
        let (passed, naps, events) = Default::default();
        Self { start: clock::boottime(), passed, naps, events }
    }

    fn at(self, milliseconds: u64, event: impl FnOnce() + 'a) -> Self {
        self.events.borrow_mut().push((milliseconds, Box::new(event)));
        self
    }

    fn passed(&self) -> u64 {
        u64::try_from(self.passed.get().as_millis()).unwrap()
    }
}

impl Clock for Virtual<'_> {
    fn boottime(&self) -> Duration {
        self.start + self.passed.get()
    }

    fn sleep(&self, duration: Duration) {
        self.naps.borrow_mut().push(u64::try_from(duration.as_millis()).unwrap());
        self.passed.set(self.passed.get() + duration);
        assert!(self.passed() < 10_000_000, "it never ends");
        let due = |(at, _): &mut Event<'_>| *at <= self.passed();
        let now: Vec<_> = self.events.borrow_mut().extract_if(.., due).collect();
        now.into_iter().for_each(|(_, event)| event());
    }
}

/// A router with a change in force that waits for `confirm`.
struct Waiting {
    fake: FakeHost,
    scratch: Scratch,
    old: Content,
    armed: Armed,
}

const WAIT: u64 = 60_000;

impl Waiting {
    fn new() -> Self {
        let (fake, scratch) = (router(), Scratch::new());
        let old = fake.content();
        let mut changer = begin(&fake, &fake, &scratch, "apply").unwrap();
        let wait = Duration::from_millis(WAIT);
        let armed = deadman::arm(&fake, changer.lock(), wait, Vec::new()).unwrap();
        changer.apply(&spread(), &GO_ON).unwrap();
        drop(changer);
        Self { fake, scratch, old, armed }
    }

    fn hold(&self) -> Hold<'_> {
        hold(&self.fake, &self.scratch, "test")
    }

    fn waits(&self) -> Option<Armed> {
        self.scratch.state().armed().unwrap()
    }

    /// Runs the guard; gives also the errors that it was told of.
    fn guard(&self, door: &dyn HostWrite, clock: &Virtual<'_>) -> (Watch, Vec<String>) {
        self.guard_that(door, clock, &mut || None)
    }

    fn guard_that(
        &self,
        door: &dyn HostWrite,
        clock: &Virtual<'_>,
        lost: &mut dyn FnMut() -> Option<String>,
    ) -> (Watch, Vec<String>) {
        let (state, mut errors) = (self.scratch.state(), Vec::new());
        let mut failed = |e: &Error| {
            assert!(self.waits().unwrap().undoing.is_some(), "it has to stay armed");
            errors.push(e.to_string());
        };
        let mut guard = Guard {
            host: door,
            state: &state,
            clock,
            remembers: &mut || {},
            lost,
            failed: &mut failed,
        };
        let watch = guard.watch(self.armed.token).unwrap();
        (watch, errors)
    }

    #[track_caller]
    fn assert_undone(&self) {
        assert_eq!(self.fake.content(), self.old);
        assert_eq!(self.waits(), None);
        assert!(self.scratch.journals().is_empty());
    }

    /// Writes that fail: all to the file that is restored first, `tries` times.
    fn failing(&self, errno: Errno, tries: u32) -> Faulty<'_> {
        Faulty::new(&self.fake, vec![(0, Fault::Times(errno, tries - 1))])
    }
}

#[test]
fn a_change_is_undone_at_its_deadline_and_not_before() {
    let scene = Waiting::new();
    let new = scene.fake.content();
    let clock = Virtual::new().at(WAIT - 200, || assert_eq!(scene.fake.content(), new));
    let (watch, errors) = scene.guard(&scene.fake, &clock);
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert_eq!((undone.restored, undone.left), (WRITES, None));
    assert_eq!(undone.why, "not confirmed in time");
    assert_eq!(errors, [""; 0]);
    assert!((WAIT - 100..=WAIT + 100).contains(&clock.passed()), "{}", clock.passed());
    scene.assert_undone();
}

#[test]
fn a_rollback_that_fails_is_tried_again_with_growing_pauses_until_it_succeeds() {
    // What is no passing trouble is tried twice in each rollback and four times in the first, which
    // goes round again for queues and threads; what may pass seven times as often.
    for (errno, tries, failures) in
        [(Errno::ROFS, 20, 9), (Errno::IO, 4, 1), (Errno::BUSY, 42, 2), (Errno::AGAIN, 30, 1)]
    {
        let scene = Waiting::new();
        let (door, clock) = (scene.failing(errno, tries), Virtual::new());
        let (watch, errors) = scene.guard(&door, &clock);
        let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
        assert_eq!((undone.restored, undone.left), (WRITES, None), "{errno:?}");
        assert_eq!(undone.why, "not confirmed in time");
        assert_eq!(errors.len(), failures, "{errno:?}: {errors:?}");
        assert!(errors.iter().all(|e| e.contains("1 setting is not as before")), "{errors:?}");
        let pauses = [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000];
        let naps = clock.naps.borrow();
        assert_eq!(naps[naps.len() - failures..], pauses[..failures], "{errno:?}");
        scene.assert_undone();
    }
}

#[test]
fn a_lock_that_nobody_lets_go_of_delays_the_undo_and_does_not_prevent_it() {
    let scene = Waiting::new();
    // This very process has it, which its guard does not end.
    let held = scene.hold();
    let clock = Virtual::new();
    let (watch, errors) = scene.guard(&scene.fake, &clock);
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert_eq!((undone.restored, undone.left, errors.len()), (WRITES, None, 0));
    assert!(undone.why.contains("is changing settings"), "{}", undone.why);
    assert!((WAIT + 10_000..WAIT + 11_000).contains(&clock.passed()), "{}", clock.passed());
    assert_eq!(scene.fake.content(), scene.old);
    drop(held);
    scene.hold().roll_back(false).unwrap();
    scene.assert_undone();
}

#[test]
fn what_somebody_else_set_is_theirs_and_no_reason_to_try_for_ever() {
    let scene = Waiting::new();
    let path = Path::new("/sys/class/net/eth0/queues/rx-0/rps_cpus");
    scene.fake.meddle(path, "8");
    let clock = Virtual::new();
    let (watch, errors) = scene.guard(&scene.fake, &clock);
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert_eq!((undone.restored, errors.len()), (WRITES - 1, 0));
    assert!(undone.left.unwrap().contains("somebody else set it since"));
    assert_eq!(scene.waits(), None, "the next change need not wait for it");
    assert_eq!(scene.fake.content()[path], "8");
    assert!(!scene.scratch.journals().is_empty(), "rollback --force needs it");
    scene.hold().roll_back(true).unwrap();
    scene.assert_undone();
}

#[test]
fn a_lost_gateway_ends_the_wait_early_and_says_so() {
    let scene = Waiting::new();
    let (clock, mut looks) = (Virtual::new(), 0);
    let mut lost = || {
        looks += 1;
        (looks > 10).then(|| "198.18.0.1 is silent".to_owned())
    };
    let (watch, _) = scene.guard_that(&scene.fake, &clock, &mut lost);
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert_eq!(undone.why, "198.18.0.1 is silent");
    assert!(clock.passed() < 2000, "{}", clock.passed());
    scene.assert_undone();
}

#[test]
fn a_look_at_the_gateways_that_takes_long_delays_nothing() {
    let scene = Waiting::new();
    let clock = Virtual::new();
    let mut slow = || {
        clock.sleep(Duration::from_millis(1700));
        None
    };
    let (watch, _) = scene.guard_that(&scene.fake, &clock, &mut slow);
    assert!(matches!(watch, Watch::Undone(_)), "{watch:?}");
    assert!((WAIT..=WAIT + 100).contains(&clock.passed()), "{}", clock.passed());
    scene.assert_undone();
}

#[test]
fn a_confirm_in_time_keeps_the_change_and_ends_the_guard() {
    let scene = Waiting::new();
    let new = scene.fake.content();
    let confirm = || {
        let Confirmed::Kept(left) = scene.hold().confirm().unwrap() else { panic!("kept") };
        assert!(left > Duration::ZERO);
    };
    let (watch, _) = scene.guard(&scene.fake, &Virtual::new().at(5000, confirm));
    assert!(matches!(watch, Watch::Settled), "{watch:?}");
    assert_eq!(scene.fake.content(), new);
    assert!(matches!(scene.hold().confirm().unwrap(), Confirmed::Nothing));
}

#[test]
fn a_confirm_while_the_undoing_is_tried_again_hears_the_truth_and_keeps_nothing() {
    let scene = Waiting::new();
    let door = scene.failing(Errno::ROFS, 100);
    let early = || {
        // The deadline by the kernel's clock is far away: that the undoing was begun is what counts.
        let error = hold(&door, &scene.scratch, "confirm").confirm().unwrap_err();
        assert_eq!(error.code(), ExitCode::RollbackIncomplete);
        let said = error.to_string();
        assert!(said.contains("too late") && said.contains("1 setting is not as before"), "{said}");
        assert!(error.remedy().unwrap().contains("guard goes on"), "{error:?}");
        assert!(scene.waits().is_some(), "it is not confirmed");
    };
    let refused = || {
        let refused = begin(&door, &scene.fake, &scene.scratch, "apply").map(drop).unwrap_err();
        assert_eq!(refused.code(), ExitCode::RollbackIncomplete, "nothing is begun on top of it");
    };
    let late = || {
        let Confirmed::TooLate(undone) = scene.hold().confirm().unwrap() else { panic!("late") };
        assert_eq!((undone.restored, undone.why.as_str()), (WRITES, "not confirmed in time"));
    };
    let clock = Virtual::new().at(WAIT + 150, early).at(WAIT + 350, refused).at(WAIT + 1600, late);
    let (watch, errors) = scene.guard(&door, &clock);
    assert!(matches!(watch, Watch::Settled), "somebody else came to the end of it: {watch:?}");
    assert!(errors.len() >= 3, "{errors:?}");
    scene.assert_undone();
}

#[test]
fn a_rollback_by_hand_that_fails_leaves_the_rest_to_the_guard_which_need_not_wait() {
    let scene = Waiting::new();
    let door = scene.failing(Errno::ROFS, 6);
    let error = hold(&door, &scene.scratch, "rollback").roll_back(false).unwrap_err();
    assert_eq!(error.code(), ExitCode::RollbackIncomplete);
    assert!(scene.waits().is_some());
    let clock = Virtual::new();
    let (watch, errors) = scene.guard(&door, &clock);
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert_eq!((undone.restored, errors.len()), (WRITES, 1));
    assert!(clock.passed() < 1000, "{}", clock.passed());
    scene.assert_undone();
}

#[test]
fn what_was_cut_short_is_undone_and_never_called_kept() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    let killed = super::kills::dies(&fake, &scratch, (5, Fault::KilledAfter), |door| {
        do_apply(door, &fake, &spread(), &scratch)
    });
    assert!(killed);
    let held = hold(&fake, &scratch, "test");
    let mut armed = deadman::arm(&fake, held.lock(), Duration::from_secs(60), Vec::new()).unwrap();
    armed.after = 0;
    scratch.state().arm(held.lock(), &armed).unwrap();
    let Confirmed::TooLate(undone) = held.confirm().unwrap() else { panic!("too late") };
    assert!(undone.why.contains("cut short"), "{undone:?}");
    drop(held);
    assert_eq!(fake.content(), old);
    assert!(scratch.is_clean());
}

#[test]
fn what_a_killed_apply_left_half_done_is_undone_at_once() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    assert!(super::kills::dies(&fake, &scratch, (5, Fault::KilledAfter), |door| {
        do_apply(door, &fake, &spread(), &scratch)
    }));
    let held = hold(&fake, &scratch, "test");
    let wait = Duration::from_millis(WAIT);
    let mut armed = deadman::arm(&fake, held.lock(), wait, Vec::new()).unwrap();
    armed.after = 0;
    scratch.state().arm(held.lock(), &armed).unwrap();
    drop(held);
    let scene = Waiting { fake, scratch, old, armed };
    let held = RefCell::new(Some(scene.hold()));
    // The kernel frees the lock of a process that was killed, and its file stays.
    let lock = scene.scratch.state().path().join("lock");
    let killed = || {
        drop(held.take());
        fs::write(&lock, "1\napply x\n").unwrap();
    };
    let clock = Virtual::new().at(3000, killed);
    let (watch, _) = scene.guard(&scene.fake, &clock);
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert!(undone.why.contains("cut short"), "{undone:?}");
    assert!((3000..3500).contains(&clock.passed()), "{}", clock.passed());
    scene.assert_undone();
}

#[test]
fn what_apply_itself_could_not_put_back_is_left_to_the_guard_at_once() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    let faults = vec![(8, Fault::Always(Errno::IO)), (10, Fault::Times(Errno::ROFS, 5))];
    let door = Faulty::new(&fake, faults);
    let mut changer = begin(&door, &fake, &scratch, "apply").unwrap();
    let wait = Duration::from_millis(WAIT);
    let armed = deadman::arm(&fake, changer.lock(), wait, Vec::new()).unwrap();
    let error = changer.apply(&spread(), &GO_ON).unwrap_err();
    assert_eq!(error.code(), ExitCode::RollbackIncomplete, "{error}");
    deadman::release(changer.lock(), &armed).unwrap();
    drop(changer);
    drop(door);
    let scene = Waiting { fake, scratch, old, armed };
    let clock = Virtual::new();
    let (watch, _) = scene.guard(&scene.fake, &clock);
    assert!(matches!(watch, Watch::Undone(_)), "{watch:?}");
    assert!(clock.passed() < 1000, "{}", clock.passed());
    scene.assert_undone();
    // What is in force as a whole, or undone as a whole, needs no guard.
    let scene = Waiting::new();
    let held = scene.hold();
    deadman::release(held.lock(), &scene.armed).unwrap();
    assert_eq!(scene.waits(), None);
}

/// Puts something in the place of a file of ours, or this text.
fn put_instead(file: &Path, damage: &str) {
    match damage {
        "gone" => {}
        "directory" => fs::create_dir_all(file.join("x")).unwrap(),
        "pipe" => rustix::fs::mkfifoat(rustix::fs::CWD, file, 0o600.into()).unwrap(),
        text => fs::write(file, text).unwrap(),
    }
}

#[test]
fn a_file_that_is_damaged_cut_or_removed_confirms_nothing_and_is_written_anew() {
    for damage in ["gone", "", "{\"token\":", "not one\n", "directory", "pipe"] {
        let scene = Waiting::new();
        let file = scene.scratch.state().path().join("deadman.json");
        let whole = fs::read(&file).unwrap();
        let damaged = || {
            fs::remove_file(&file).unwrap();
            put_instead(&file, damage);
        };
        let anew = || {
            assert_eq!(fs::read(&file).unwrap(), whole, "{damage:?}");
            damaged();
        };
        let new = scene.fake.content();
        let still = || {
            assert_eq!(scene.fake.content(), new, "{damage:?}: before the deadline");
            assert!(!scene.scratch.state().has_lock_file());
        };
        let clock = Virtual::new().at(5000, damaged).at(5300, anew).at(WAIT - 200, still);
        let (watch, _) = scene.guard(&scene.fake, &clock);
        let Watch::Undone(undone) = watch else { panic!("{damage:?}: {watch:?}") };
        assert_eq!((undone.restored, undone.why.as_str()), (WRITES, "not confirmed in time"));
        assert!((WAIT - 100..=WAIT + 100).contains(&clock.passed()), "{}", clock.passed());
        scene.assert_undone();
    }
}

#[test]
fn journals_that_are_damaged_or_removed_are_written_anew_and_undone_from() {
    type Harm = fn(&Path);
    let harms: [Harm; 6] = [
        |state| {
            fs::remove_file(state.join("journal-0001")).unwrap();
            put_instead(&state.join("journal-0001"), "directory");
        },
        |state| {
            fs::remove_file(state.join("journal-0001")).unwrap();
            put_instead(&state.join("journal-0001"), "pipe");
        },
        |state| fs::remove_dir_all(state).unwrap(),
        |state| fs::remove_file(state.join("journal-0001")).unwrap(),
        |state| fs::write(state.join("journal-0001"), "{\"format\":").unwrap(),
        |state| {
            let path = state.join("journal-0001");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replacen("rps_cpus", "rps_cpuz", 1)).unwrap();
        },
    ];
    for (number, harm) in harms.into_iter().enumerate() {
        let scene = Waiting::new();
        let state = scene.scratch.state().path().to_owned();
        let (whole, new) = (scene.scratch.journals(), scene.fake.content());
        let anew = || {
            assert_eq!(scene.scratch.journals(), whole, "harm {number}");
            assert_eq!(scene.waits().as_ref(), Some(&scene.armed), "harm {number}");
            harm(&state);
        };
        let still = || assert_eq!(scene.fake.content(), new, "harm {number}: too early");
        let clock = Virtual::new()
            .at(5000, || harm(&state))
            .at(5300, anew)
            .at(WAIT - 200, still)
            .at(WAIT - 50, || harm(&state));
        let (watch, errors) = scene.guard(&scene.fake, &clock);
        let Watch::Undone(undone) = watch else { panic!("harm {number}: {watch:?}") };
        assert_eq!((undone.restored, undone.left), (WRITES, None), "harm {number}");
        assert!(errors.is_empty(), "harm {number}: {errors:?}");
        assert!((WAIT - 100..=WAIT + 100).contains(&clock.passed()), "{}", clock.passed());
        scene.assert_undone();
        // A confirmation and a rollback count all the same.
        for confirmed in [true, false] {
            let scene = Waiting::new();
            let state = scene.scratch.state().path().to_owned();
            let end = || match confirmed {
                true => assert!(matches!(scene.hold().confirm().unwrap(), Confirmed::Kept(_))),
                false => drop(scene.hold().roll_back(false).unwrap()),
            };
            let clock = Virtual::new().at(5000, || harm(&state)).at(7000, end);
            assert!(matches!(scene.guard(&scene.fake, &clock).0, Watch::Settled), "harm {number}");
            assert!(clock.passed() < 7500, "{}", clock.passed());
            assert_eq!(
                scene.fake.content(),
                if confirmed { new.clone() } else { scene.old.clone() }
            );
        }
    }
}

#[test]
fn a_guard_whose_files_are_gone_for_good_goes_by_its_memory_and_ends() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 3] = [
        ("not a directory", |state| {
            fs::remove_dir_all(state).unwrap();
            fs::write(state, "").unwrap();
        }),
        ("others than its user can write to it", |state| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(state, fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("is a directory", |state| fs::create_dir(state.join("lock")).unwrap()),
    ];
    for (why, harm) in harms {
        for trouble in [0, 20] {
            let scene = Waiting::new();
            let door = match trouble {
                0 => Faulty::new(&scene.fake, Vec::new()),
                tries => scene.failing(Errno::ROFS, tries),
            };
            let state = scene.scratch.state().path().to_owned();
            let new = scene.fake.content();
            let still = || assert_eq!(scene.fake.content(), new, "{why}: too early");
            let clock = Virtual::new().at(5000, || harm(&state)).at(WAIT - 200, still);
            let (known, mut failures) = (scene.scratch.state(), 0);
            let watch = Guard {
                host: &door,
                state: &known,
                clock: &clock,
                remembers: &mut || {},
                lost: &mut || None,
                failed: &mut |_| failures += 1,
            }
            .watch(scene.armed.token)
            .unwrap();
            let Watch::Undone(undone) = watch else { panic!("{why}: {watch:?}") };
            assert!(undone.why.starts_with("not confirmed in time, and its files"), "{undone:?}");
            assert!(undone.why.contains(why), "{}", undone.why);
            assert_eq!((undone.restored, undone.left), (WRITES, None), "{why}");
            assert_eq!(scene.fake.content(), scene.old, "{why}");
            assert_eq!(failures > 0, trouble > 0, "{why}: it is tried again");
            let late = if trouble > 0 { 60_000 } else { 600 };
            assert!((WAIT..WAIT + late).contains(&clock.passed()), "{}", clock.passed());
        }
    }
}

/// Runs `work` as somebody who may read a file only where its mode says so, root or not.
fn without_privilege<T>(work: impl FnOnce() -> T) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let all = capabilities(None).unwrap();
    let mut less = all;
    less.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, less).unwrap();
    let done = work();
    set_capabilities(None, all).unwrap();
    done
}

#[test]
fn journals_that_cant_be_read_delay_the_undo_by_a_moment_and_never_prevent_it() {
    use std::os::unix::fs::PermissionsExt;
    let mode_of = |scene: &Waiting, file: &str, mode: u32| {
        let file = scene.scratch.state().path().join(file);
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |scene: &Waiting, mode: u32| mode_of(scene, "journal-0001", mode);
    // From the start, so that the guard does not even know what it waits for.
    for file in ["deadman.json", "journal-0001"] {
        let scene = Waiting::new();
        mode_of(&scene, file, 0);
        let clock = Virtual::new().at(2000, || mode_of(&scene, file, 0o644));
        let (watch, errors) = without_privilege(|| scene.guard(&scene.fake, &clock));
        assert!(matches!(watch, Watch::Undone(_)) && errors.is_empty(), "{file}: {watch:?}");
        assert!((WAIT - 100..=WAIT + 100).contains(&clock.passed()), "{file}: {}", clock.passed());
        scene.assert_undone();
    }
    // For a moment, as when descriptors are short: nothing is missing then.
    let scene = Waiting::new();
    let new = scene.fake.content();
    let still = || assert_eq!(scene.fake.content(), new, "too early");
    let clock = Virtual::new()
        .at(WAIT - 1000, || mode(&scene, 0))
        .at(WAIT - 200, still)
        .at(WAIT + 100, || mode(&scene, 0o644));
    let (watch, errors) = without_privilege(|| scene.guard(&scene.fake, &clock));
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert_eq!((undone.restored, undone.left), (WRITES, None));
    assert_eq!(undone.why, "not confirmed in time");
    assert!(errors[0].contains("journal-0001: permission denied"), "{errors:?}");
    scene.assert_undone();
    // For good, and one of a newer version that was not there before: by what the guard knows.
    type Harm<'a> = &'a dyn Fn(&Waiting);
    let newer = |scene: &Waiting| {
        let other = scene.scratch.state().path().join("journal-0007");
        fs::write(other, "{\"format\":\"linerate-journal\",\"version\":3}\n").unwrap();
    };
    let harms: [(Harm, &str); 2] = [(&|s| mode(s, 0), "journal-0001"), (&newer, "newer")];
    for (harm, word) in harms {
        let scene = Waiting::new();
        let new = scene.fake.content();
        let still = || assert_eq!(scene.fake.content(), new, "{word}: too early");
        let clock = Virtual::new().at(5000, || harm(&scene)).at(WAIT - 200, still);
        let (watch, errors) = without_privilege(|| scene.guard(&scene.fake, &clock));
        let Watch::Undone(undone) = watch else { panic!("{word}: {watch:?}") };
        assert_eq!((undone.restored, undone.left), (WRITES, None), "{word}");
        assert!(undone.why.contains("its files could not be used"), "{}", undone.why);
        assert!(undone.why.contains(word), "{}", undone.why);
        assert!(errors.len() == 2 && errors[0].contains(word), "{errors:?}");
        assert!((WAIT..WAIT + 1000).contains(&clock.passed()), "{}", clock.passed());
        assert_eq!(scene.fake.content(), scene.old, "{word}");
    }
}

#[test]
fn a_change_made_where_the_journals_were_removed_is_left_alone() {
    let scene = Waiting::new();
    let meanwhile = || {
        fs::remove_dir_all(scene.scratch.state().path()).unwrap();
        do_apply(&scene.fake, &scene.fake, &one_cpu(), &scene.scratch).unwrap();
    };
    let (watch, _) = scene.guard(&scene.fake, &Virtual::new().at(5000, meanwhile));
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert!(undone.left.unwrap().contains("somebody else set it since"));
    let (now, made) = (scene.fake.content(), in_force(&one_cpu()));
    for (path, text) in &now {
        let theirs = made[path] != router().content()[path];
        assert_eq!(*text, if theirs { &made } else { &scene.old }[path], "{}", path.display());
    }
}

#[test]
fn a_deadline_with_a_digit_changed_is_not_believed() {
    let scene = Waiting::new();
    let file = scene.scratch.state().path().join("deadman.json");
    let whole = fs::read(&file).unwrap();
    for (at, byte) in whole.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        let mut other = whole.clone();
        other[at] = if *byte == b'9' { b'0' } else { byte + 1 };
        fs::write(&file, &other).unwrap();
        assert_eq!(scene.waits(), None, "{}", String::from_utf8_lossy(&other));
    }
    // Earlier versions wrote no checksum.
    let json = whole.iter().rposition(|&byte| byte == b' ').unwrap();
    fs::write(&file, &whole[..json]).unwrap();
    assert_eq!(scene.waits().as_ref(), Some(&scene.armed));
}

#[test]
fn who_takes_the_file_away_and_is_no_guard_leaves_the_undoing_to_the_next_call() {
    let remove = |scene: &Waiting| {
        fs::remove_file(scene.scratch.state().path().join("deadman.json")).unwrap();
    };
    // Its guard was killed too: nothing is begun on top of it.
    let scene = Waiting::new();
    remove(&scene);
    let changer = begin(&scene.fake, &scene.fake, &scene.scratch, "apply").unwrap();
    assert!(changer.notes[0].contains("never confirmed"), "{:?}", changer.notes);
    drop(changer);
    scene.assert_undone();
    // A rollback by hand is nobody else's business any more.
    let scene = Waiting::new();
    let by_hand = || {
        remove(&scene);
        scene.hold().roll_back(false).unwrap();
    };
    let clock = Virtual::new().at(5000, by_hand);
    assert!(matches!(scene.guard(&scene.fake, &clock).0, Watch::Settled));
    assert!(clock.passed() < 6000, "{}", clock.passed());
    scene.assert_undone();
    // A confirmation counts, also after the file was gone for a while.
    let scene = Waiting::new();
    let new = scene.fake.content();
    let confirm = || assert!(matches!(scene.hold().confirm().unwrap(), Confirmed::Kept(_)));
    let clock = Virtual::new().at(5000, || remove(&scene)).at(7000, confirm);
    assert!(matches!(scene.guard(&scene.fake, &clock).0, Watch::Settled));
    assert_eq!(scene.fake.content(), new);
    drop(begin(&scene.fake, &scene.fake, &scene.scratch, "apply").unwrap());
    assert_eq!(scene.fake.content(), new, "what was confirmed stays");
}

#[test]
fn whoever_does_not_let_go_of_the_lock_at_the_deadline_is_ended() {
    use std::os::unix::process::ExitStatusExt;
    let scene = Waiting::new();
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let held = RefCell::new(Some(scene.hold()));
    let (pid, child) = (child.id(), RefCell::new(&mut child));
    fs::write(scene.scratch.state().path().join("lock"), format!("{pid}\napply x\n")).unwrap();
    let spared = || assert!(child.borrow_mut().try_wait().unwrap().is_none(), "too early");
    let gone = || {
        assert_eq!(child.borrow_mut().wait().unwrap().signal(), Some(9));
        drop(held.take());
    };
    let clock = Virtual::new().at(WAIT - 100, spared).at(WAIT + 500, gone);
    let (watch, _) = scene.guard(&scene.fake, &clock);
    assert!(matches!(watch, Watch::Undone(_)), "{watch:?}");
    assert!(clock.passed() < WAIT + 700, "{}", clock.passed());
    scene.assert_undone();
}

#[test]
fn the_guard_of_an_earlier_change_leaves_a_later_one_alone() {
    let scene = Waiting::new();
    let later = || {
        let held = scene.hold();
        held.lock().state().disarm(held.lock(), scene.armed.token).unwrap();
        deadman::arm(&scene.fake, held.lock(), Duration::from_secs(600), Vec::new()).unwrap();
    };
    let new = scene.fake.content();
    let (watch, _) = scene.guard(&scene.fake, &Virtual::new().at(3000, later));
    assert!(matches!(watch, Watch::Settled), "{watch:?}");
    assert_ne!(scene.waits().unwrap().token, scene.armed.token);
    // Nor does one that comes too late to see its own.
    let (watch, _) = scene.guard(&scene.fake, &Virtual::new());
    assert!(matches!(watch, Watch::Settled), "{watch:?}");
    assert_eq!(scene.fake.content(), new);
}

#[test]
fn a_trial_is_undone_as_soon_as_its_process_lets_go_of_the_lock() {
    let scene = Waiting::new();
    let held = RefCell::new(Some(scene.hold()));
    let mut armed = scene.armed.clone();
    armed.holder = Some(std::process::id());
    scene.scratch.state().arm(held.borrow().as_ref().unwrap().lock(), &armed).unwrap();
    let clock = Virtual::new().at(7000, || drop(held.take()));
    let (watch, _) = scene.guard(&scene.fake, &clock);
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert!(undone.why.contains("ended without putting it back"), "{undone:?}");
    assert!((7000..7500).contains(&clock.passed()), "{}", clock.passed());
    scene.assert_undone();
}

#[test]
fn a_trial_that_is_handed_over_waits_for_confirm_and_for_its_new_deadline() {
    let scene = Waiting::new();
    let new = scene.fake.content();
    let held = RefCell::new(Some(scene.hold()));
    let mut armed = scene.armed.clone();
    armed.holder = Some(std::process::id());
    scene.scratch.state().arm(held.borrow().as_ref().unwrap().lock(), &armed).unwrap();
    let hand_over = || {
        let held = held.take().unwrap();
        armed.holder = None;
        deadman::put_off(held.lock(), &mut armed, Duration::from_millis(2 * WAIT)).unwrap();
    };
    let still = || assert_eq!(scene.fake.content(), new);
    let clock = Virtual::new().at(7000, hand_over).at(WAIT + 5000, still);
    let (watch, _) = scene.guard(&scene.fake, &clock);
    let Watch::Undone(undone) = watch else { panic!("{watch:?}") };
    assert_eq!(undone.why, "not confirmed in time");
    assert!(clock.passed() > 2 * WAIT - 1000, "{}", clock.passed());
    scene.assert_undone();
}

#[test]
fn a_deadline_that_is_put_off_while_the_guard_waits_for_the_lock_counts() {
    let scene = Waiting::new();
    let held = RefCell::new(Some(scene.hold()));
    let put_off = || {
        let held = held.take().unwrap();
        let mut armed = scene.armed.clone();
        deadman::put_off(held.lock(), &mut armed, Duration::from_millis(3 * WAIT)).unwrap();
    };
    let clock = Virtual::new().at(WAIT + 500, put_off);
    let (watch, _) = scene.guard(&scene.fake, &clock);
    assert!(matches!(watch, Watch::Undone(_)), "{watch:?}");
    assert!(clock.passed() > 3 * WAIT - 1000, "{}", clock.passed());
}

#[test]
fn only_the_process_that_has_the_lock_is_ended_when_a_trial_is_overdue() {
    let scene = Waiting::new();
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let held = RefCell::new(Some(scene.hold()));
    let mut armed = scene.armed.clone();
    // A process of that number that has nothing to do with it: the lock's file names another.
    armed.holder = Some(child.id());
    scene.scratch.state().arm(held.borrow().as_ref().unwrap().lock(), &armed).unwrap();
    let lock = scene.scratch.state().path().join("lock");
    let (named, child) = (child.id(), RefCell::new(&mut child));
    let spared = || assert!(child.borrow_mut().try_wait().unwrap().is_none(), "not its own");
    let name_it = || fs::write(&lock, format!("{named}\ntune\n")).unwrap();
    let gone = || {
        child.borrow_mut().wait().unwrap();
        drop(held.take());
    };
    let clock =
        Virtual::new().at(WAIT + 5000, spared).at(WAIT + 5001, name_it).at(WAIT + 6000, gone);
    let (watch, _) = scene.guard(&scene.fake, &clock);
    assert!(matches!(watch, Watch::Undone(_)), "{watch:?}");
    scene.assert_undone();
}

#[test]
fn a_change_of_another_boot_or_namespace_is_overdue_at_once_or_never() {
    let scene = Waiting::new();
    let state = scene.scratch.state();
    let overdue = || deadman::overdue(&scene.fake, &state).unwrap().is_some();
    assert!(!overdue(), "its deadline has not come");
    let here = scene.fake.identity();
    scene.fake.become_host(HostIdentity { boot_id: "boot-2".into(), ..here.clone() });
    assert!(overdue(), "the reboot undid it");
    scene.fake.add_namespace("/run/netns/lab", 4_026_532_999);
    scene.fake.become_host(here.clone());
    let held = scene.hold();
    let mut armed = scene.armed.clone();
    armed.deadline_ms = 0;
    state.arm(held.lock(), &armed).unwrap();
    assert!(overdue());
    armed.host = HostIdentity { netns: 4_026_532_999, netns_cookie: Some(9), ..here };
    state.arm(held.lock(), &armed).unwrap();
    assert!(!overdue(), "only what is in there can undo it");
    let error = held.confirm().unwrap_err();
    assert!(error.to_string().contains("another network namespace"), "{error}");
    assert!(held.admit().is_err());
}
