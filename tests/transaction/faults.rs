//! A fault of every kind at every write.

use super::prelude::*;

#[test]
fn whatever_fails_at_whichever_write_all_is_new_or_exactly_old() {
    let old = router().content();
    let new = in_force(&spread());
    for fault in every_fault() {
        for at in 0..WRITES {
            let (fake, scratch) = (router(), Scratch::new());
            let door = Faulty::new(&fake, vec![(at, fault.clone())]);
            let context = format!("{fault:?} at {at}");
            match do_apply(&door, &fake, &spread(), &scratch) {
                Ok(applied) => {
                    assert_eq!(applied.writes.len(), WRITES, "{context}");
                    assert_eq!(fake.content(), new, "{context}");
                }
                Err(error) if error.code() == ExitCode::RollbackIncomplete => {
                    assert!(
                        matches!(fault, Fault::Unreadable(_)),
                        "{context}: only what can't be read can't be restored: {error}"
                    );
                    assert_list_is_complete(&error, &old, &fake.content());
                    assert!(!scratch.is_clean(), "{context}: the journal must stay");
                    // With the fault gone the next run puts it right.
                    do_settle(&fake, &scratch).unwrap();
                    assert_eq!(fake.content(), old, "{context}");
                    assert!(scratch.is_clean(), "{context}");
                }
                Err(error) => {
                    let denied = at == 0
                        && matches!(fault, Fault::Once(Errno::ACCESS | Errno::PERM | Errno::ROFS));
                    let code = if denied { ExitCode::NotPermitted } else { ExitCode::RolledBack };
                    assert_eq!(error.code(), code, "{context}: {error}");
                    assert_eq!(fake.content(), old, "{context}: {error}");
                    assert!(scratch.is_clean(), "{context}: a journal of nothing stays");
                }
            }
        }
    }
}

#[test]
fn a_second_failure_while_rolling_back_leaves_nothing_unsaid() {
    let old = router().content();
    let seconds = [
        Fault::Once(Errno::IO),
        Fault::Always(Errno::IO),
        Fault::Always(Errno::NOSPC),
        Fault::FailsButTakes(Errno::IO),
        Fault::Ignored,
        Fault::ReadsBack("8"),
        Fault::Unreadable(Errno::IO),
    ];
    let mut incomplete = 0;
    for second in &seconds {
        for first in 0..WRITES {
            for at in first + 1..=2 * first {
                let (fake, scratch) = (router(), Scratch::new());
                let faults = vec![(first, Fault::Always(Errno::IO)), (at, second.clone())];
                let door = Faulty::new(&fake, faults);
                let error = do_apply(&door, &fake, &spread(), &scratch).unwrap_err();
                let context = format!("{second:?} at {at} after {first}: {error}");
                if error.code() == ExitCode::RollbackIncomplete {
                    incomplete += 1;
                    assert_list_is_complete(&error, &old, &fake.content());
                    do_settle(&fake, &scratch).unwrap();
                } else {
                    assert_eq!(error.code(), ExitCode::RolledBack, "{context}");
                }
                assert_eq!(fake.content(), old, "{context}");
                assert!(scratch.is_clean(), "{context}");
            }
        }
    }
    assert!(incomplete > 0, "no fault ever hit the rollback");
}

#[test]
fn a_fault_at_every_write_of_rollback_is_survived_or_listed() {
    let old = router().content();
    let mut incomplete = 0;
    for fault in every_fault() {
        for at in 0..WRITES {
            let (fake, scratch) = (router(), Scratch::new());
            do_apply(&fake, &fake, &spread(), &scratch).unwrap();
            let door = Faulty::new(&fake, vec![(at, fault.clone())]);
            let context = format!("{fault:?} at {at}");
            match do_rollback(&door, &scratch) {
                Ok(done) => assert_eq!(done.restored.len(), WRITES, "{context}"),
                Err(error) => {
                    incomplete += 1;
                    assert_list_is_complete(&error, &old, &fake.content());
                    do_rollback(&fake, &scratch).unwrap();
                }
            }
            assert_eq!(fake.content(), old, "{context}");
            assert!(scratch.is_clean(), "{context}");
        }
    }
    assert!(incomplete >= WRITES, "{incomplete}");
}

#[test]
fn busy_for_a_moment_is_waited_out_and_busy_for_good_is_not() {
    let (fake, scratch) = (router(), Scratch::new());
    let door = Faulty::new(&fake, vec![(3, Fault::Times(Errno::BUSY, 4))]);
    do_apply(&door, &fake, &spread(), &scratch).unwrap();
    do_rollback(&fake, &scratch).unwrap();
    let old = fake.content();
    let door = Faulty::new(&fake, vec![(3, Fault::Always(Errno::BUSY))]);
    let error = do_apply(&door, &fake, &spread(), &scratch).unwrap_err();
    assert_eq!(error.code(), ExitCode::RolledBack);
    assert!(error.to_string().contains("stayed busy"), "{error}");
    assert!(door.tried() < 40, "tries must be bounded: {}", door.tried());
    assert_eq!(fake.content(), old);
}

#[test]
fn a_line_that_cant_be_moved_is_called_fixed_and_is_not_tried_again() {
    for errno in [Errno::IO, Errno::PERM, Errno::INVAL] {
        let (fake, scratch) = (router(), Scratch::new());
        let door = Faulty::new(&fake, vec![(FIRST_LINE, Fault::Always(errno))]);
        let error = do_apply(&door, &fake, &spread(), &scratch).unwrap_err();
        assert!(error.to_string().contains("fixed:"), "{error}");
        assert!(error.to_string().contains("/proc/irq/24/smp_affinity"), "{error}");
        assert!(error.remedy().is_some());
        assert_eq!(door.tried(), 2 * FIRST_LINE + 1, "those before are made and undone");
    }
}

#[test]
fn a_setting_that_cant_be_read_stops_everything_before_the_first_write() {
    for (errno, code) in [
        (Errno::IO, ExitCode::NotSupported),
        (Errno::ACCESS, ExitCode::NotPermitted),
        (Errno::NOENT, ExitCode::NotSupported),
    ] {
        // The read before these looks for a note of what was staged in uci.
        for at in 1..=spread().settings.len() {
            let (fake, scratch) = (router(), Scratch::new());
            let door = Faulty::new(&fake, vec![]).failing_read(at, errno);
            let error = do_apply(&door, &fake, &spread(), &scratch).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert_eq!(door.tried(), 0, "{errno:?} at {at}");
            assert!(scratch.is_clean());
        }
    }
}

#[test]
fn a_device_that_vanished_is_named_and_nothing_is_written() {
    let (fake, scratch) = (router(), Scratch::new());
    let snapshot = fake.snapshot();
    fake.unplug(Path::new("/sys/class/net/eth1"));
    let mut changer =
        Changer::begin(&fake, &scratch.state(), "apply", Duration::ZERO, |_| snapshot.clone())
            .unwrap();
    let error = changer.apply(&spread(), &GO_ON).unwrap_err();
    assert_eq!(error.code(), ExitCode::NotSupported);
    assert!(error.to_string().contains("device eth1 is not here any more"), "{error}");
    assert_eq!(fake.writes(), 0);
}

#[test]
fn what_can_not_be_meant_is_refused_before_anything_is_touched() {
    for settings in [
        vec![(rps("../../../../etc", 0), cpus("1"))],
        vec![(rps("", 0), cpus("1"))],
        vec![(irq("eth0", 0), cpus(""))],
        vec![(rps("eth0", 0), Value::Count(1))],
        vec![(rps("eth0", 0), cpus("1")), (rps("eth0", 0), cpus("2"))],
    ] {
        let (fake, scratch) = (router(), Scratch::new());
        let error = do_apply(&fake, &fake, &candidate("bad", settings), &scratch).unwrap_err();
        assert_eq!(error.code(), ExitCode::Usage, "{error}");
        assert_eq!(fake.writes(), 0);
        assert!(scratch.is_clean());
    }
}
