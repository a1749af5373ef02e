//! Many candidates in turn under one journal.

use super::kills::dies;
use super::prelude::*;

#[test]
fn a_session_goes_from_candidate_to_candidate_and_back() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    let changer = begin(&fake, &fake, &scratch, "tune nat").unwrap();
    let mut session = changer.open(&[spread(), one_cpu()]).unwrap();
    assert_eq!(fake.writes(), 0);
    assert_eq!(session.set("spread").unwrap(), WRITES);
    assert_eq!(fake.content(), in_force(&spread()));
    assert_eq!(session.set("spread").unwrap(), 0);
    session.set("one-cpu").unwrap();
    assert_eq!(fake.content(), in_force(&one_cpu()), "what one-cpu does not mention is as found");
    assert_eq!(session.differing("one-cpu").unwrap(), Vec::<String>::new());
    assert_eq!(session.differing("spread").unwrap().len(), WRITES);
    assert_eq!(session.set("unknown").unwrap_err().code(), ExitCode::Usage);
    session.set("spread").unwrap();
    session.restore().unwrap();
    drop(changer);
    assert_eq!(fake.content(), old);
    assert!(scratch.is_clean());
}

#[test]
fn a_session_that_is_dropped_or_fails_restores_too() {
    let old = router().content();
    for at in 0..2 * WRITES {
        let (fake, scratch) = (router(), Scratch::new());
        let door = Faulty::new(&fake, vec![(at, Fault::Always(Errno::IO))]);
        let changer = begin(&door, &fake, &scratch, "tune nat").unwrap();
        let mut session = changer.open(&[spread(), one_cpu()]).unwrap();
        let failed = ["spread", "one-cpu"].iter().find_map(|name| session.set(name).err());
        if let Some(error) = failed {
            let restored = error.code() == ExitCode::RolledBack;
            if restored {
                assert_eq!(fake.content(), old, "at {at}");
                assert_eq!(session.set("spread").unwrap_err().code(), ExitCode::Usage);
            } else {
                assert_list_is_complete(&error, &old, &fake.content());
            }
        }
        drop(session);
        drop(changer);
        do_settle(&fake, &scratch).unwrap();
        assert_eq!(fake.content(), old, "at {at}");
        assert!(scratch.is_clean(), "at {at}");
    }
}

#[test]
fn a_session_killed_at_any_write_is_settled_by_the_next_call() {
    let old = router().content();
    let mut kills = 0;
    for at in 0.. {
        let (fake, scratch) = (router(), Scratch::new());
        let fault = if at % 2 == 0 { Fault::KilledBefore } else { Fault::KilledAfter };
        let killed = dies(&fake, &scratch, (at, fault), |door| {
            let changer = begin(door, &fake, &scratch, "tune nat")?;
            let mut session = changer.open(&[spread(), one_cpu()])?;
            for name in ["spread", "one-cpu", "spread", "one-cpu"] {
                session.set(name)?;
            }
            session.restore()
        });
        if !killed {
            break;
        }
        kills += 1;
        do_settle(&fake, &scratch).unwrap();
        assert_eq!(fake.content(), old, "killed at {at}");
        assert!(scratch.is_clean(), "killed at {at}");
    }
    assert!(kills > 3 * WRITES, "{kills}");
}
