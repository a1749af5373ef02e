//! Stops, kills and torn journals.

use super::prelude::*;

#[test]
fn a_stop_before_any_write_restores_everything() {
    let old = router().content();
    for at in 0..=WRITES {
        let (fake, scratch) = (router(), Scratch::new());
        let (stop, count) = (AtomicBool::new(at == 0), AtomicUsize::new(0));
        let door = Faulty::new(&fake, vec![]).at_write(|| {
            if count.fetch_add(1, Ordering::SeqCst) + 1 == at {
                stop.store(true, Ordering::SeqCst);
            }
        });
        let mut changer = begin(&door, &fake, &scratch, "apply").unwrap();
        let error = changer.apply(&spread(), &stop).unwrap_err();
        assert_eq!(error.code(), ExitCode::Interrupted, "{error}");
        drop(changer);
        assert_eq!(door.tried(), 2 * at, "a stop ends it there: so many made, so many undone");
        assert_eq!(fake.content(), old, "stopped at {at}");
        assert!(scratch.is_clean());
    }
}

/// Runs `work` on a door where the process dies, and leaves router and state directory as they
/// were at that moment. `None` when it did not come that far.
pub(crate) fn dies<T>(
    fake: &FakeHost,
    scratch: &Scratch,
    fault: (usize, Fault),
    work: impl FnOnce(&dyn HostWrite) -> T,
) -> bool {
    let kept = std::sync::Mutex::new(None);
    let door = Faulty::new(fake, vec![fault])
        .at_kill(|| *kept.lock().unwrap() = Some((scratch.journals(), fake.content())));
    drop(work(&door));
    drop(door);
    let Some((journals, content)) = kept.into_inner().unwrap() else { return false };
    // The dead process's code ran on; what it did to its own files is undone here.
    assert_eq!(fake.content(), content, "a dead process wrote to the router");
    scratch.put_journals(&journals);
    true
}

#[test]
fn killed_at_any_write_of_apply_the_next_call_restores_everything() {
    let old = router().content();
    for at in 0..WRITES {
        for fault in [Fault::KilledBefore, Fault::KilledAfter] {
            let (fake, scratch) = (router(), Scratch::new());
            let killed = dies(&fake, &scratch, (at, fault.clone()), |door| {
                do_apply(door, &fake, &spread(), &scratch)
            });
            assert!(killed);
            let settled = do_settle(&fake, &scratch).unwrap();
            let written = at + usize::from(fault == Fault::KilledAfter);
            assert_eq!(settled.restored.len(), written);
            assert_eq!(!settled.notes.is_empty(), written > 0, "{:?}", settled.notes);
            assert_eq!(fake.content(), old, "{fault:?} at {at}");
            assert!(scratch.is_clean());
        }
    }
}

#[test]
fn killed_at_any_write_of_rollback_the_next_call_finishes_it() {
    let old = router().content();
    for at in 0..WRITES {
        for fault in [Fault::KilledBefore, Fault::KilledAfter] {
            let (fake, scratch) = (router(), Scratch::new());
            do_apply(&fake, &fake, &one_cpu(), &scratch).unwrap();
            do_apply(&fake, &fake, &spread(), &scratch).unwrap();
            assert!(dies(&fake, &scratch, (at, fault.clone()), |door| do_rollback(door, &scratch)));
            // Either way of going on will do: a changing verb, or rollback again.
            if at % 2 == 0 {
                do_settle(&fake, &scratch).unwrap();
            } else {
                do_rollback(&fake, &scratch).unwrap();
            }
            assert_eq!(fake.content(), old, "{fault:?} at {at}");
            assert!(scratch.is_clean());
        }
    }
}

#[test]
fn a_lying_driver_and_a_kill_leave_nothing_behind() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    // The write leaves neither the old nor the new value, and the process dies on the spot.
    dies(&fake, &scratch, (FIRST_LINE + 2, Fault::KilledAfter), |door| {
        do_apply(door, &fake, &spread(), &scratch)
    });
    fake.meddle(Path::new("/sys/class/net/eth0/queues/rx-0/rps_cpus"), "8");
    do_settle(&fake, &scratch).unwrap();
    assert_eq!(fake.content(), old);
}

#[test]
fn a_journal_torn_at_any_byte_is_safe() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    let new = fake.content();
    let journals = scratch.journals();
    let (path, whole) = journals.first_key_value().unwrap();
    let header = whole.iter().position(|&b| b == b'\n').unwrap() + 1;
    for end in 0..=whole.len() {
        let torn = whole[..end].to_vec();
        scratch.put_journals(&[(path.clone(), torn)].into());
        fake.put_back(&new);
        let settled = do_settle(&fake, &scratch).unwrap_or_else(|e| panic!("cut at {end}: {e}"));
        if end < header {
            // Its header was on the disk before the first write, and was cut since.
            assert_eq!(fake.content(), new, "cut at {end}: nobody knows what to restore");
            assert!(settled.notes[0].contains("its first line is cut"), "{:?}", settled.notes);
            assert!(kept_aside(&scratch), "cut at {end}");
        } else if end < whole.len() {
            assert_eq!(fake.content(), old, "cut at {end}");
            assert!(scratch.is_clean(), "cut at {end}");
        } else {
            assert_eq!(settled, apply::RolledBack::default(), "what is in force must stay so");
            assert_eq!(fake.content(), new);
        }
    }
}

fn kept_aside(scratch: &Scratch) -> bool {
    scratch.journals().is_empty() && scratch.0.join("state/damaged-0001").exists()
}

#[test]
fn a_journal_that_was_never_whole_means_that_nothing_was_written() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    let path = scratch.0.join("state/journal-0001.new");
    scratch.put_journals(&[(path, b"{\"format\":\"linerate-jour".to_vec())].into());
    assert_eq!(do_settle(&fake, &scratch).unwrap(), apply::RolledBack::default());
    assert_eq!(fake.content(), old);
    assert!(scratch.is_clean());
}

#[test]
fn a_newer_journal_is_an_error_and_stays() {
    let (fake, scratch) = (router(), Scratch::new());
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    let path = scratch.journals().pop_first().unwrap().0;
    let newer = b"{\"format\":\"linerate-journal\",\"version\":3}\n".to_vec();
    scratch.put_journals(&[(path.clone(), newer)].into());
    for error in
        [do_settle(&fake, &scratch).unwrap_err(), do_rollback(&fake, &scratch).unwrap_err()]
    {
        assert_eq!(error.code(), ExitCode::Usage);
        assert!(error.to_string().contains("newer"), "{error}");
    }
    assert!(path.exists());
}

#[test]
fn a_damaged_journal_is_reported_with_what_can_be_read_kept_aside_and_in_nobodys_way() {
    let (fake, scratch) = (router(), Scratch::new());
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    let new = fake.content();
    let (path, whole) = scratch.journals().pop_first().unwrap();
    let whole = String::from_utf8(whole).unwrap();
    for (from, to) in [
        ("linerate-journal", "something-else"),
        ("{\"format\"", "{\"format"),
        ("\"entries\"", "\"enties\""),
        ("\"version\":2", "\"version\":1"),
        ("\"before\":\"0\"", "\"before\":\"3\""),
    ] {
        assert!(whole.contains(from), "{from}");
        let bad = whole.replacen(from, to, 1).into_bytes();
        scratch.put_journals(&[(path.clone(), bad)].into());
        let error = do_rollback(&fake, &scratch).unwrap_err();
        assert_eq!(error.code(), ExitCode::RollbackIncomplete, "{error}");
        let said = error.to_string();
        for word in ["damaged-0001", "apply", "/proc/irq/", ": before 0"] {
            assert!(said.contains(word), "{from}: no {word} in {said}");
        }
        assert_eq!(fake.content(), new, "{from}: nothing is restored from it");
        assert!(kept_aside(&scratch), "{from}");
        // It was reported, and the next change goes on; its number is a new one.
        let again = do_rollback(&fake, &scratch).unwrap();
        assert!(again.notes[0].contains("damaged-0001"), "{:?}", again.notes);
        do_apply(&fake, &fake, &one_cpu(), &scratch).unwrap();
        assert!(scratch.0.join("state/journal-0002").exists());
        do_rollback(&fake, &scratch).unwrap();
        assert_eq!(fake.content(), new);
    }
}

/// Whatever byte of a journal is another: nothing is restored but what was there before, and what
/// is not restored is reported.
#[test]
fn a_flipped_digit_anywhere_in_a_journal_is_found_and_nothing_wrong_is_restored() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    let new = fake.content();
    let journals = scratch.journals();
    let (path, whole) = journals.first_key_value().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for at in 0..whole.len() {
        let mut bad = whole.clone();
        bad[at] ^= 1 << random.u8(0..8);
        scratch.put_journals(&[(path.clone(), bad)].into());
        fake.put_back(&new);
        let (notes, whole_back) = match do_rollback(&fake, &scratch) {
            Ok(done) => (done.notes.join("\n"), true),
            Err(error) => (error.to_string(), false),
        };
        for (setting, now) in fake.content() {
            assert!(
                now == old[&setting] || now == new[&setting],
                "{at}: {} is {now}",
                setting.display()
            );
        }
        // The last newline says nothing but that a kill did not cut the line.
        let told = notes.contains("not what was written") || notes.contains("damaged");
        assert!(told || at + 1 == whole.len(), "{at}: {notes}");
        if whole_back {
            assert_eq!(fake.content(), old, "{at}: {notes}");
        }
    }
}

proptest! {
    #[test]
    fn no_journal_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(Journal::parse(1, &bytes));
    }
}
