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
        // The header is on the disk before the first write: without it, nothing was written.
        fake.put_back(if end < header { &old } else { &new });
        let settled = do_settle(&fake, &scratch).unwrap_or_else(|e| panic!("cut at {end}: {e}"));
        if end < whole.len() {
            assert_eq!(fake.content(), old, "cut at {end}");
            assert!(scratch.is_clean(), "cut at {end}");
        } else {
            assert_eq!(settled, apply::RolledBack::default(), "what is in force must stay so");
            assert_eq!(fake.content(), new);
        }
    }
}

#[test]
fn a_damaged_or_newer_journal_is_an_error_and_stays() {
    let (fake, scratch) = (router(), Scratch::new());
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    let (path, whole) = scratch.journals().pop_first().unwrap();
    let whole = String::from_utf8(whole).unwrap();
    for (from, to, said) in [
        ("\"version\":1", "\"version\":2", "newer"),
        ("linerate-journal", "something-else", "not a journal"),
        ("{\"format\"", "{\"format", "damaged"),
        ("\"entries\"", "\"enties\"", "damaged"),
    ] {
        assert!(whole.contains(from), "{from}");
        let bad = whole.replacen(from, to, 1).into_bytes();
        scratch.put_journals(&[(path.clone(), bad)].into());
        for error in
            [do_settle(&fake, &scratch).unwrap_err(), do_rollback(&fake, &scratch).unwrap_err()]
        {
            assert_eq!(error.code(), ExitCode::Usage);
            assert!(error.to_string().contains(said), "{error}");
        }
        assert!(path.exists());
    }
}

proptest! {
    #[test]
    fn no_journal_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(Journal::parse(1, &bytes));
    }
}
