//! The machine changes between plan, apply and rollback: exactly-old, or a complete list.

use super::prelude::*;

/// A machine of another time: the same boot, other devices, queues or CPUs.
fn later(cpus: u32, devices: &[(&str, u32)]) -> FakeHost {
    FakeHost::router(cpus, devices)
}

#[test]
fn a_plan_for_devices_queues_or_cpus_that_changed_is_refused_or_undone() {
    for (changed, said) in [
        (later(4, &[("uplink0", 2), ("eth1", 1)]), "device eth0 is not here"),
        (later(4, &[("eth0", 2)]), "device eth1 is not here"),
        (later(4, &[("eth0", 1), ("eth1", 1)]), "no line here is that"),
        // A mask that names a CPU which is not there any more.
        (later(2, &[("eth0", 2), ("eth1", 1)]), "offline"),
    ] {
        let scratch = Scratch::new();
        let old = changed.content();
        let error = do_apply(&changed, &changed, &spread(), &scratch).unwrap_err();
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert!([ExitCode::NotSupported, ExitCode::RolledBack].contains(&error.code()), "{error}");
        assert_eq!(changed.content(), old, "{error}");
        assert!(scratch.is_clean());
    }
}

#[test]
fn what_changed_since_apply_is_restored_gone_or_listed_and_never_guessed() {
    for (changed, restored, gone, listed) in [
        // Made anew: as at the start, and nothing is to be done.
        (later(4, &[("eth0", 2), ("eth1", 1)]), 0, 0, 0),
        // Fewer queues, so that the lines have other numbers, and the RSS table is another's.
        (later(4, &[("eth0", 1), ("eth1", 1)]), 0, 1, 1),
        // All that was set of eth0.
        (later(4, &[("eth1", 1)]), 0, 11, 0),
        // The lines have changed places: neither is written by the other's entry.
        (later(4, &[("eth1", 1), ("eth0", 2)]), 0, 2, 0),
        // Two CPUs less: the masks are what the kernel made of them, not what anybody wrote here.
        (later(2, &[("eth0", 2), ("eth1", 1)]), 0, 0, 3),
    ] {
        let (fake, scratch) = (router(), Scratch::new());
        do_apply(&fake, &fake, &spread(), &scratch).unwrap();
        let before = changed.content();
        match do_rollback(&changed, &scratch) {
            Ok(done) => {
                assert_eq!(listed, 0);
                assert_eq!(done.restored.len(), restored);
                let told = done.notes.iter().filter(|n| n.contains("not here any more")).count();
                assert_eq!(told, gone, "{:?}", done.notes);
                assert!(scratch.is_clean());
            }
            Err(error) => {
                assert_eq!(error.code(), ExitCode::RollbackIncomplete, "{error}");
                let lines = error.to_string().lines().filter(|l| l.contains("wanted")).count();
                assert_eq!(lines, listed, "{error}");
                assert!(!scratch.is_clean(), "the journal must stay");
            }
        }
        assert_eq!(changed.content(), before);
    }
}
