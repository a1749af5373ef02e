//! A real kernel's files, and a real kill -9.

use super::prelude::*;

/// A network namespace's loopback: the one device that every kernel has, with a real `rps_cpus`.
fn loopback() -> Option<(std::sync::Arc<NetnsThread>, Live, Snapshot)> {
    let netns = std::sync::Arc::new(NetnsThread::create().ok()?);
    let live = Live::in_netns(netns.clone());
    Some((netns, live, FakeHost::router(1, &[("lo", 1)]).snapshot()))
}

fn loopback_plans() -> [Candidate; 2] {
    let rfs = || Knob::RpsFlowCnt { device: "lo".into(), queue: 0 };
    [
        candidate("on", vec![(rps("lo", 0), cpus("0")), (rfs(), Value::Count(1000))]),
        candidate("more", vec![(rfs(), Value::Count(64)), (rps("lo", 0), cpus(""))]),
    ]
}

fn loopback_files(live: &Live) -> Vec<Vec<u8>> {
    ["rps_cpus", "rps_flow_cnt"]
        .map(|file| live.read(&Path::new("/sys/class/net/lo/queues/rx-0").join(file)).unwrap())
        .to_vec()
}

#[test]
fn a_real_kernel_takes_a_plan_and_gives_it_back() {
    let Some((_netns, live, snapshot)) = loopback() else {
        skip("network namespaces need root");
        return;
    };
    let scratch = Scratch::new();
    let old = loopback_files(&live);
    let [on, more] = loopback_plans();
    for plan in [&on, &more] {
        let applied = apply_live(&live, &snapshot, plan, &scratch).unwrap();
        assert_eq!(applied.writes.len(), 2);
        assert!(verify(&live, &snapshot, plan).in_force());
        assert!(apply::prepare(&live, &snapshot, plan).unwrap().writes.is_empty());
    }
    assert!(!verify(&live, &snapshot, &on).in_force());
    // From outside, the namespace of this journal is one that lives.
    let status = apply::status(&Live::here(), &scratch.state()).unwrap();
    assert_eq!(status[0].place, Whereabouts::OtherNamespace);
    do_rollback(&live, &scratch).unwrap();
    assert_eq!(loopback_files(&live), old);
    assert!(scratch.is_clean());
}

#[test]
fn once_a_real_namespace_is_gone_so_is_its_journal() {
    let Some((netns, live, snapshot)) = loopback() else {
        skip("network namespaces need root");
        return;
    };
    let scratch = Scratch::new();
    let [on, _] = loopback_plans();
    apply_live(&live, &snapshot, &on, &scratch).unwrap();
    drop((live, netns));
    let done = do_rollback(&Live::here(), &scratch).unwrap();
    assert!(done.restored.is_empty());
    assert!(done.notes[0].contains("namespace is gone"), "{:?}", done.notes);
    assert!(scratch.is_clean());
}

/// A namespace with a device of its own, a plan for it, and what runs `ip` there.
fn with_device() -> Option<(std::sync::Arc<NetnsThread>, Live, Snapshot, Candidate)> {
    let netns = std::sync::Arc::new(NetnsThread::create().ok()?);
    ip(&netns, "link add wan0 type veth peer name far0");
    let live = Live::in_netns(netns.clone());
    let snapshot = FakeHost::router(1, &[("wan0", 1), ("far0", 1)]).snapshot();
    let rfs = || Knob::RpsFlowCnt { device: "wan0".into(), queue: 0 };
    let plan = candidate("wan", vec![(rps("wan0", 0), cpus("0")), (rfs(), Value::Count(64))]);
    Some((netns, live, snapshot, plan))
}

fn ip(netns: &NetnsThread, arguments: &'static str) {
    let run = move || {
        std::process::Command::new("ip").args(arguments.split(' ')).status().unwrap().success()
    };
    assert!(netns.run(run).unwrap(), "ip {arguments}");
}

fn steering(live: &Live, device: &str) -> (u64, String) {
    let queue = PathBuf::from(format!("/sys/class/net/{device}/queues/rx-0"));
    let mask = live.text(&queue.join("rps_cpus")).unwrap().replace(',', "");
    let flows = live.text(&queue.join("rps_flow_cnt")).unwrap();
    (u64::from_str_radix(&mask, 16).unwrap(), flows)
}

#[test]
fn a_device_that_was_renamed_is_restored_under_its_new_name() {
    let Some((netns, live, snapshot, plan)) = with_device() else {
        skip("network namespaces need root");
        return;
    };
    let off = (0, "0".to_owned());
    for twice in [false, true] {
        let scratch = Scratch::new();
        let applied = apply_live(&live, &snapshot, &plan, &scratch);
        assert_eq!(applied.unwrap().writes.len(), 2);
        assert_ne!(steering(&live, "wan0"), off);
        ip(&netns, "link set wan0 name uplink0");
        if twice {
            // Somebody else's device has the old name now, and settings of its own.
            ip(&netns, "link set far0 name wan0");
            let queue = Path::new("/sys/class/net/wan0/queues/rx-0");
            live.write(&queue.join("rps_cpus"), b"1").unwrap();
            live.write(&queue.join("rps_flow_cnt"), b"64").unwrap();
        }
        let done = do_rollback(&live, &scratch).unwrap();
        assert_eq!(done.restored.len(), 2);
        assert!(done.notes.iter().any(|n| n == "wan0 is called uplink0 now"), "{:?}", done.notes);
        assert_eq!(steering(&live, "uplink0"), off);
        assert!(scratch.is_clean());
        if twice {
            assert_eq!(steering(&live, "wan0"), (1, "64".to_owned()), "it is not ours");
        } else {
            ip(&netns, "link set uplink0 name wan0");
        }
    }
}

#[test]
fn a_device_that_went_away_and_came_again_is_a_new_one() {
    let Some((netns, live, snapshot, plan)) = with_device() else {
        skip("network namespaces need root");
        return;
    };
    let scratch = Scratch::new();
    apply_live(&live, &snapshot, &plan, &scratch).unwrap();
    ip(&netns, "link delete wan0");
    ip(&netns, "link add wan0 type veth peer name far0");
    // What it has, somebody gave it since.
    live.write(Path::new("/sys/class/net/wan0/queues/rx-0/rps_cpus"), b"1").unwrap();
    let done = do_rollback(&live, &scratch).unwrap();
    assert!(done.restored.is_empty());
    assert_eq!(done.notes.iter().filter(|n| n.contains("not here any more")).count(), 2);
    assert_eq!(steering(&live, "wan0").0, 1);
    assert!(scratch.is_clean());
}

/// What the child of the next test runs: a session that never ends by itself.
#[test]
fn child_that_changes_settings_until_it_is_killed() {
    let Some(netns) = std::env::var_os("LINERATE_TEST_NETNS") else { return };
    let netns = std::sync::Arc::new(NetnsThread::enter(Path::new(&netns)).unwrap());
    let live = Live::in_netns(netns);
    let state = linerate::machine::store::state_dir();
    let look = |_: &dyn HostRead| FakeHost::router(1, &[("lo", 1)]).snapshot();
    let changer = Changer::begin(&live, &state, "tune nat", Duration::ZERO, look).unwrap();
    let mut session = changer.open(&loopback_plans()).unwrap();
    loop {
        session.set("on").unwrap();
        session.set("more").unwrap();
    }
}

#[test]
fn kill_9_at_twenty_random_moments_and_all_is_as_before() {
    use std::os::fd::{AsFd, AsRawFd};
    let Some((netns, live, _)) = loopback() else {
        skip("network namespaces need root");
        return;
    };
    let old = loopback_files(&live);
    let inside = format!("/proc/{}/fd/{}", std::process::id(), netns.as_fd().as_raw_fd());
    let mut random = fastrand::Rng::with_seed(9);
    let (mut cut_short, mut restored) = (0, 0);
    for _ in 0..20 {
        let scratch = Scratch::new();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kernel::child_that_changes_settings_until_it_is_killed"])
            .env("LINERATE_TEST_NETNS", &inside)
            .env(linerate::machine::store::STATE_DIR_VARIABLE, scratch.state().path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_micros(random.u64(1_000..40_000)));
        assert!(child.try_wait().unwrap().is_none(), "the child must not end by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        cut_short += usize::from(!scratch.journals().is_empty());
        restored += do_settle(&live, &scratch).unwrap().restored.len();
        assert_eq!(loopback_files(&live), old);
        assert!(scratch.is_clean());
    }
    assert!(cut_short > 5 && restored > 5, "the kills came too early: {cut_short}, {restored}");
}

#[test]
fn a_state_directory_that_runs_full_in_the_middle_rolls_everything_back() {
    use rustix::mount::{MountFlags, mount};
    let Ok(netns) = NetnsThread::create() else {
        skip("mounting needs root");
        return;
    };
    let scratch = Scratch::new();
    let dir = scratch.0.clone();
    // Two pages of room, in the mount namespace of that thread alone; the name's length decides
    // where in the transaction it is used up.
    let outcomes = netns.run(move || {
        let dir = dir.join("small");
        fs::create_dir(&dir).unwrap();
        mount("small", &dir, "tmpfs", MountFlags::empty(), Some(c"size=8k,mode=700")).unwrap();
        let state = StateDir::at(&dir);
        let old = router().content();
        let mut outcomes = BTreeMap::new();
        for length in (3_000..6_000).step_by(10) {
            let fake = router();
            let hold = Hold::take(&fake, &state, "a", Duration::ZERO).expect("no room is needed");
            // The lock's own line would take the page.
            fs::OpenOptions::new().write(true).truncate(true).open(dir.join("lock")).unwrap();
            let plan = Candidate { name: "n".repeat(length), ..spread() };
            let mut changer = hold.changer(|_| fake.snapshot()).unwrap();
            let code = match changer.apply(&plan, &GO_ON) {
                Ok(_) => {
                    drop(changer);
                    Hold::take(&fake, &state, "a", Duration::ZERO)
                        .unwrap()
                        .roll_back(false)
                        .unwrap();
                    ExitCode::Done
                }
                Err(error) => error.code(),
            };
            assert_eq!(fake.content(), old, "{code:?}");
            assert!(state.journals().unwrap().whole.is_empty(), "{code:?}");
            *outcomes.entry(code as u8).or_insert(0) += 1;
        }
        outcomes
    });
    let codes: Vec<u8> = outcomes.unwrap().into_keys().collect();
    let expected = [ExitCode::Done, ExitCode::NotSupported, ExitCode::RolledBack].map(|c| c as u8);
    assert_eq!(codes, expected, "in force; no room to begin; no room to go on");
}

#[test]
fn on_a_full_state_directory_rollback_confirm_and_the_guard_work() {
    use linerate::change::apply::deadman::{self, Confirmed, Guard, Watch};
    use linerate::machine::host::clock::System;
    use rustix::mount::{MountFlags, mount};
    let Ok(netns) = NetnsThread::create() else {
        skip("mounting needs root");
        return;
    };
    let scratch = Scratch::new();
    let dir = scratch.0.clone();
    let ways = move || {
        for way in ["rollback", "confirm", "guard"] {
            let (fake, state) = (router(), StateDir::at(dir.join(way)));
            let old = fake.content();
            fs::create_dir(state.path()).unwrap();
            mount(way, state.path(), "tmpfs", MountFlags::empty(), Some(c"size=64k,mode=700"))
                .unwrap();
            let look = |_: &dyn HostRead| fake.snapshot();
            let mut changer = Changer::begin(&fake, &state, "apply", Duration::ZERO, look).unwrap();
            let wait = Duration::from_secs(if way == "guard" { 0 } else { 60 });
            let armed = deadman::arm(&fake, changer.lock(), wait, Vec::new()).unwrap();
            changer.apply(&spread(), &GO_ON).unwrap();
            drop(changer);
            let new = fake.content();
            assert_ne!(new, old);
            // Somebody else's file takes every page that is left.
            let mut filler = fs::File::create(state.path().join("filler")).unwrap();
            while std::io::Write::write(&mut filler, &[1; 512]).is_ok() {}
            assert!(fs::write(state.path().join("more"), "x").is_err(), "there is room");
            let take = || Hold::take(&fake, &state, way, Duration::ZERO).unwrap();
            match way {
                "rollback" => {
                    let done = take().roll_back(false).unwrap();
                    assert_eq!(done.restored.len(), WRITES);
                }
                "confirm" => {
                    assert!(matches!(take().confirm().unwrap(), Confirmed::Kept(_)));
                }
                _ => {
                    let mut guard = Guard {
                        host: &fake,
                        state: &state,
                        clock: &System,
                        remembers: &mut || {},
                        lost: &mut || None,
                        failed: &mut |e| panic!("{e}"),
                    };
                    let watch = guard.watch(armed.token).unwrap();
                    assert!(matches!(watch, Watch::Undone(_)), "{watch:?}");
                }
            }
            assert_eq!(fake.content(), if way == "confirm" { new } else { old }, "{way}");
            assert_eq!(state.armed().unwrap(), None, "{way}");
        }
    };
    netns.run(ways).unwrap();
}

#[allow(clippy::print_stderr, reason = "read by the test driver")]
pub(crate) fn skip(why: &str) {
    eprintln!("SKIPPED {}: {why}", std::thread::current().name().unwrap_or("?"));
}
