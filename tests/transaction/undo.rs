//! Apply, rollback and what may come in between.

use super::prelude::*;

#[test]
fn as_wanted_already_writes_nothing_and_leaves_no_journal() {
    let (fake, scratch) = (router(), Scratch::new());
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    let (writes, journals) = (fake.writes(), scratch.journals());
    let again = do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    assert!(again.writes.is_empty());
    assert_eq!(again.already, spread().settings.len());
    assert!(again.notes.iter().any(|n| n.contains("in force already")), "{:?}", again.notes);
    assert_eq!((fake.writes(), scratch.journals()), (writes, journals));
    assert!(verify(&fake, &fake.snapshot(), &spread()).in_force());
}

#[test]
fn several_plans_are_undone_to_the_state_before_the_first() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    let eth1 = Path::new("/sys/class/net/eth1/queues/rx-0/rps_cpus");
    for plan in [spread(), one_cpu(), spread()] {
        do_apply(&fake, &fake, &plan, &scratch).unwrap();
    }
    let listed = apply::status(&fake, &scratch.state()).unwrap();
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|one| one.place == Whereabouts::Here));
    assert!(listed[1].journal.header.what.contains("one-cpu"), "{:?}", listed[1].journal.header);
    assert_ne!(fake.content()[eth1], old[eth1]);
    let done = do_rollback(&fake, &scratch).unwrap();
    assert_eq!(done.journals, 3);
    assert_eq!(fake.content(), old);
    assert!(scratch.is_clean());
    let nothing = do_rollback(&fake, &scratch).unwrap();
    assert!(nothing.restored.is_empty() && nothing.notes[0].contains("nothing to roll back"));
}

#[test]
fn what_others_set_since_is_shown_and_only_overwritten_by_force() {
    let (fake, scratch) = (router(), Scratch::new());
    let old = fake.content();
    let path = Path::new("/sys/class/net/eth0/queues/rx-0/rps_cpus");
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    fake.meddle(path, "8");
    let error = do_rollback(&fake, &scratch).unwrap_err();
    assert_eq!(error.code(), ExitCode::RollbackIncomplete);
    assert!(error.to_string().contains("somebody else"), "{error}");
    assert!(error.remedy().unwrap().contains("--force"));
    assert_list_is_complete(&error, &old, &fake.content());
    let differing = fake.content().iter().filter(|(p, text)| old[*p] != **text).count();
    assert_eq!(differing, 1, "all the rest must be restored");
    assert_eq!(fake.content()[path], "8");
    hold(&fake, &scratch, "rollback").roll_back(true).unwrap();
    assert_eq!(fake.content(), old);
    assert!(scratch.is_clean());
}

#[test]
fn a_device_that_went_is_left_alone_and_a_line_without_a_handler_is_restored() {
    let (fake, scratch) = (router(), Scratch::new());
    let line = Path::new("/proc/irq/24/smp_affinity");
    let before = fake.content()[line].clone();
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    fake.unplug(Path::new("/sys/class/net/eth1"));
    // Its device was set down; the mask waits there for the next handler.
    fake.unplug(Path::new("/proc/irq/24/eth0-0"));
    let done = do_rollback(&fake, &scratch).unwrap();
    assert_eq!(done.notes.iter().filter(|n| n.contains("not here any more")).count(), 2);
    assert_eq!(fake.content()[line], before);
    assert!(scratch.is_clean());
}

#[test]
fn a_reboot_or_a_vanished_namespace_voids_the_journal_and_a_living_one_keeps_it() {
    let here = router().identity();
    let elsewhere = HostIdentity { netns: 4_026_532_999, netns_cookie: Some(9), ..here.clone() };
    // Made in a namespace, and looked at from outside.
    let made_inside = || {
        let (fake, scratch) = (router(), Scratch::new());
        fake.become_host(elsewhere.clone());
        let only = candidate("lab", vec![(rps("eth0", 0), cpus("1"))]);
        do_apply(&fake, &fake, &only, &scratch).unwrap();
        fake.become_host(here.clone());
        (fake, scratch)
    };
    let (fake, scratch) = made_inside();
    let writes = fake.writes();
    let done = do_rollback(&fake, &scratch).unwrap();
    assert!(done.notes[0].contains("namespace is gone"), "{:?}", done.notes);
    assert_eq!(fake.writes(), writes);
    assert!(scratch.is_clean());

    for alive in ["/proc/77/task/78/ns/net", "/run/netns/lab"] {
        let (fake, scratch) = made_inside();
        fake.add_namespace(alive, elsewhere.netns);
        let writes = fake.writes();
        let done = do_rollback(&fake, &scratch).unwrap();
        assert!(done.notes[0].contains("another network namespace"), "{:?}", done.notes);
        assert_eq!(fake.writes(), writes);
        assert!(!scratch.is_clean());
        let place = apply::status(&fake, &scratch.state()).unwrap()[0].place;
        assert_eq!(place, Whereabouts::OtherNamespace);
        // From inside it is undone.
        fake.become_host(elsewhere.clone());
        do_rollback(&fake, &scratch).unwrap();
        assert_eq!(fake.content(), router().content());
    }

    let (fake, scratch) = (router(), Scratch::new());
    do_apply(&fake, &fake, &spread(), &scratch).unwrap();
    let writes = fake.writes();
    fake.become_host(HostIdentity { boot_id: "boot-2".into(), ..here.clone() });
    let done = do_rollback(&fake, &scratch).unwrap();
    assert!(done.notes[0].contains("reboot"), "{:?}", done.notes);
    assert_eq!(fake.writes(), writes);
    assert!(scratch.is_clean());
}

#[test]
fn interrupts_moved_from_inside_a_namespace_are_restored_after_it_is_gone() {
    let (fake, scratch) = (router(), Scratch::new());
    let (old, here) = (fake.content(), fake.identity());
    fake.become_host(HostIdentity { netns: 4_026_532_999, netns_cookie: Some(9), ..here.clone() });
    do_apply(&fake, &fake, &candidate("lab", vec![(irq("eth0", 0), cpus("3"))]), &scratch).unwrap();
    fake.become_host(here);
    assert_eq!(do_rollback(&fake, &scratch).unwrap().restored.len(), 1);
    assert_eq!(fake.content(), old);
}

#[test]
fn two_at_once_the_second_hears_of_the_first_and_changes_nothing() {
    let (fake, scratch) = (router(), Scratch::new());
    let second = std::sync::Mutex::new(None);
    let door = Faulty::new(&fake, vec![]).at_write(|| {
        second
            .lock()
            .unwrap()
            .get_or_insert_with(|| do_apply(&fake, &fake, &one_cpu(), &scratch).unwrap_err());
    });
    do_apply(&door, &fake, &spread(), &scratch).unwrap();
    drop(door);
    let error = second.into_inner().unwrap().unwrap();
    assert_eq!(error.code(), ExitCode::NotSupported);
    let said = format!("another linerate (pid {}, \"apply test\")", std::process::id());
    assert!(error.to_string().contains(&said), "{error}");
    assert!(error.remedy().is_some());
    assert_eq!(fake.content(), in_force(&spread()));
}

#[test]
fn a_wide_plan_costs_each_setting_a_write_and_few_readings() {
    let fake = FakeHost::router(64, &[("eth0", 32)]);
    let cost = |queues: u32| {
        let scratch = Scratch::new();
        let settings =
            (0..queues).flat_map(|q| [(irq("eth0", q), cpus("1")), (rps("eth0", q), cpus("2-63"))]);
        let plan = candidate("wide", settings.collect());
        let door = Faulty::new(&fake, vec![]);
        let applied = do_apply(&door, &fake, &plan, &scratch).unwrap();
        assert_eq!(applied.writes.len(), 2 * queues as usize);
        do_rollback(&fake, &scratch).unwrap();
        (door.tried(), door.readings())
    };
    let (few, many) = (cost(2), cost(32));
    assert_eq!((few.0, many.0), (4, 64), "one write for each setting");
    // What it was, what it is now; more than a few would be a reading of all for each.
    assert!(many.1 <= 3 * 64 && few.1 * 16 >= many.1, "{few:?} {many:?}");
}

#[test]
fn a_namespace_that_got_the_inode_of_one_that_is_gone_is_not_taken_for_it() {
    let here = router().identity();
    let of = |netns_cookie| HostIdentity { netns: 4_026_532_999, netns_cookie, ..here.clone() };
    let only = candidate("lab", vec![(rps("eth0", 0), cpus("1"))]);
    // Made in one namespace, undone in another; without cookies nobody can tell them apart.
    for (made, undone, is_same) in [
        (Some(7), Some(7), true),
        (Some(7), Some(8), false),
        (None, Some(8), true),
        (Some(7), None, true),
    ] {
        let (fake, scratch) = (router(), Scratch::new());
        fake.become_host(of(made));
        do_apply(&fake, &fake, &only, &scratch).unwrap();
        let applied = fake.content();
        fake.become_host(of(undone));
        let done = do_rollback(&fake, &scratch).unwrap();
        assert_eq!(done.restored.len(), usize::from(is_same), "{made:?} {undone:?}");
        assert_eq!(fake.content() == applied, !is_same);
        assert!(is_same || done.notes[0].contains("namespace is gone"), "{:?}", done.notes);
        assert!(scratch.is_clean());
    }
}
