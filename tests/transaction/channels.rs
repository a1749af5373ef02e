//! Queues that come and go with the transaction itself, and what hangs on them.

use super::prelude::*;

fn channels(count: u64) -> (Knob, Value) {
    let knob = Knob::Channels { device: "eth0".into(), direction: "combined".into() };
    (knob, Value::Count(count))
}

/// Four queues instead of two, and settings for a queue that is not there yet.
fn grow() -> Candidate {
    candidate(
        "grow",
        vec![
            (irq("eth0", 3), cpus("3")),
            (irq("eth0", 0), cpus("0")),
            (rps("eth0", 2), cpus("1")),
            channels(4),
            (Knob::RssTable { device: "eth0".into() }, Value::Count(3)),
            (rps("eth1", 0), cpus("2")),
        ],
    )
}

fn shrink() -> Candidate {
    candidate("shrink", vec![(irq("eth0", 0), cpus("3")), channels(1)])
}

/// What somebody set before us: it must be there again.
fn worn() -> FakeHost {
    let fake = router();
    for (path, text) in [
        ("/proc/irq/24/smp_affinity", "4"),
        ("/proc/irq/25/smp_affinity", "8"),
        ("/sys/class/net/eth0/queues/rx-1/rps_cpus", "c"),
        ("/sys/class/net/eth0/queues/tx-1/xps_cpus", "2"),
        ("/sys/class/net/eth0/queues/rx-1/rps_flow_cnt", "64"),
        ("ethtool/eth0/rss", "0,1,1,1"),
    ] {
        fake.write(Path::new(path), text.as_bytes()).unwrap();
    }
    fake
}

/// All settings, interrupt lines by what they are for: their numbers are not the same again.
fn state(fake: &FakeHost) -> BTreeMap<String, String> {
    let lines: BTreeMap<String, String> = fake
        .snapshot()
        .irqs
        .iter()
        .map(|irq| (format!("/proc/irq/{}/", irq.line), format!("line of {}/", irq.id)))
        .collect();
    let name = |path: &Path| {
        let path = path.display().to_string();
        match lines.iter().find(|(line, _)| path.starts_with(line.as_str())) {
            Some((line, id)) => path.replacen(line.as_str(), id, 1),
            None => path,
        }
    };
    fake.content().into_iter().map(|(path, text)| (name(&path), text)).collect()
}

#[test]
fn settings_of_queues_that_the_plan_makes_are_made_after_them() {
    let (fake, scratch) = (worn(), Scratch::new());
    let old = state(&fake);
    let applied = do_apply(&fake, &fake, &grow(), &scratch).unwrap();
    assert_eq!(applied.writes[0].knob, channels(4).0, "channels come first");
    assert!(verify(&fake, &fake.snapshot(), &grow()).in_force());
    assert!(do_apply(&fake, &fake, &grow(), &scratch).unwrap().writes.is_empty());
    let done = do_rollback(&fake, &scratch).unwrap();
    assert_eq!(state(&fake), old, "{:?}", done.notes);
    assert!(done.notes.is_empty(), "{:?}", done.notes);
    assert!(scratch.is_clean());
}

#[test]
fn what_was_set_for_a_queue_that_went_is_set_again_when_it_is_back() {
    let (fake, scratch) = (worn(), Scratch::new());
    let old = state(&fake);
    do_apply(&fake, &fake, &shrink(), &scratch).unwrap();
    assert!(fake.read(Path::new("/sys/class/net/eth0/queues/rx-1/rps_cpus")).is_err());
    do_rollback(&fake, &scratch).unwrap();
    assert_eq!(state(&fake), old);
    assert!(scratch.is_clean());
}

#[test]
fn a_fault_at_any_write_of_it_leaves_all_new_or_exactly_old() {
    for plan in [grow(), shrink()] {
        let (fake, scratch) = (worn(), Scratch::new());
        let old = state(&fake);
        let writes = do_apply(&fake, &fake, &plan, &scratch).unwrap().writes.len();
        let new = state(&fake);
        for fault in every_fault() {
            for at in 0..writes {
                let (fake, scratch) = (worn(), Scratch::new());
                let door = Faulty::new(&fake, vec![(at, fault.clone())]);
                let context = format!("{}: {fault:?} at {at}", plan.name);
                match do_apply(&door, &fake, &plan, &scratch) {
                    Ok(_) => assert_eq!(state(&fake), new, "{context}"),
                    Err(error) if error.code() == ExitCode::RollbackIncomplete => {
                        do_settle(&fake, &scratch).unwrap();
                        assert_eq!(state(&fake), old, "{context}");
                    }
                    Err(error) => assert_eq!(state(&fake), old, "{context}: {error}"),
                }
            }
        }
    }
}

#[test]
fn killed_at_any_write_of_it_the_next_call_restores_everything() {
    for plan in [grow(), shrink()] {
        let old = state(&worn());
        for at in 0..6 {
            for fault in [Fault::KilledBefore, Fault::KilledAfter] {
                let (fake, scratch) = (worn(), Scratch::new());
                let context = format!("{}: {fault:?} at {at}", plan.name);
                let killed = crate::kills::dies(&fake, &scratch, (at, fault), |door| {
                    do_apply(door, &fake, &plan, &scratch)
                });
                if killed {
                    do_settle(&fake, &scratch).unwrap();
                    assert_eq!(state(&fake), old, "{context}");
                    assert!(scratch.is_clean(), "{context}");
                }
            }
        }
    }
}

#[test]
fn what_plan_proposes_for_a_card_with_few_queues_can_be_made_and_undone() {
    let (fake, scratch) = (worn(), Scratch::new());
    let old = state(&fake);
    let mut snapshot = fake.snapshot();
    let card = snapshot.netdevs.iter_mut().find(|d| d.name == "eth0").unwrap();
    let now = card.rx_queues.len() as u64;
    card.settings.channels = Some([("combined".into(), now), ("combined-max".into(), 8)].into());
    let found = linerate::decide::plan::candidates(&snapshot);
    let plan = found.get(linerate::decide::plan::name::CHANNELS).unwrap();
    let lines = plan
        .settings
        .iter()
        .filter(|c| c.knob.device() == Some("eth0") && matches!(c.knob, Knob::IrqAffinity { .. }));
    assert!(lines.count() as u64 > now, "{plan:?}");
    do_apply(&fake, &fake, plan, &scratch).unwrap();
    assert!(verify(&fake, &fake.snapshot(), plan).in_force());
    let done = do_rollback(&fake, &scratch).unwrap();
    assert_eq!(state(&fake), old, "{:?}", done.notes);
    assert!(scratch.is_clean());
}
