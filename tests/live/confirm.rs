//! `apply --confirm`: what nobody confirms is undone, whatever ends, and sooner where the router is
//! cut off.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::program::{has, lacks};
use crate::router::{Router, guard_of, guards_of, need_root, refused, stderr, wait_for};
use linerate::machine::sys::rtnl;
use linerate::measure::lab::{ENDPOINT, WAN_ADDRESS};

impl Router {
    /// The mask of the LAN's port, as a number.
    fn lan(&self) -> u32 {
        u32::from_str_radix(&self.mask("lan0"), 16).unwrap()
    }

    fn plan(&self, candidate: &str, file: &str) {
        let planned = self.run(&["plan", "--candidate", candidate, "-o", file]);
        assert!(planned.status.success(), "{}", stderr(&planned));
    }

    fn ok(&self, args: &[&str]) -> Output {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        output
    }

    fn said(&self, args: &[&str]) -> String {
        let output = self.run(args);
        String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output)
    }

    /// Applies, and kills the guards: nobody is left to undo it.
    fn apply_without_guard(&self) {
        self.ok(&["apply", "--confirm", "3"]);
        for guard in guards_of(&self.place.dir) {
            rustix::process::kill_process(guard, rustix::process::Signal::KILL).unwrap();
        }
    }
}

#[test]
fn what_nobody_confirms_is_undone_at_its_deadline() {
    need_root!();
    let router = Router::new("deadman");
    assert!(router.run(&["plan", "--candidate", "one-cpu"]).status.success());
    let begun = std::time::Instant::now();
    let applied = router.run(&["apply", "--confirm", "1.5"]);
    assert!(applied.status.success(), "{}", stderr(&applied));
    assert!(stderr(&applied).contains("linerate confirm"), "{}", stderr(&applied));
    assert_eq!(u32::from_str_radix(&router.mask("lan0"), 16).unwrap(), 1);
    wait_for("undone", || router.mask("lan0").trim_matches('0').is_empty());
    // How much later, below half a minute, depends on what else the machine does.
    assert!(begun.elapsed() >= Duration::from_millis(1500), "before its deadline");
    // Whoever comes back is told what happened, once.
    wait_for("its reason", || router.place.dir.join("state/undone.json").exists());
    let status = router.run(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(said.contains("not confirmed in time: 2 settings were put back"), "{said}");
    wait_for("the guard's end", || !router.place.dir.join("state/lock").exists());
    refused(&router.run(&["confirm"]), 7, &["too late", "not confirmed in time", "hint"]);
    assert!(!router.place.dir.join("state").exists(), "nothing is left behind");
    refused(&router.run(&["confirm"]), 5, &["nothing waits", "hint"]);
}

#[test]
#[ignore = "slow: make test runs it"]
fn what_is_confirmed_stays_and_an_earlier_change_is_not_undone_with_a_later_one() {
    need_root!();
    let router = Router::new("confirmed");
    let mask = |device: &str| u32::from_str_radix(&router.mask(device), 16).unwrap();
    assert!(router.run(&["plan", "--candidate", "one-cpu"]).status.success());
    assert!(router.run(&["apply", "--confirm", "10"]).status.success());
    let kept = router.run(&["confirm"]);
    assert!(kept.status.success(), "{}", stderr(&kept));
    std::thread::sleep(std::time::Duration::from_secs(11));
    assert_eq!(mask("lan0"), 1, "kept");
    // On top of it, another one that nobody confirms; its guard is killed.
    assert!(router.run(&["plan", "--candidate", "rps-all", "-o", "all.toml"]).status.success());
    assert!(router.run(&["apply", "all.toml", "--confirm", "0.5"]).status.success());
    assert_ne!(mask("lan0"), 1);
    let guard = guard_of(&router.place.dir);
    // SIGHUP is what it is there to survive.
    rustix::process::kill_process(guard, rustix::process::Signal::HUP).unwrap();
    wait_for("the later one undone", || mask("lan0") == 1);
    assert_eq!(mask("wan0"), 1, "the earlier one is in force");
    let undone = router.run(&["rollback"]);
    assert!(undone.status.success(), "{}", stderr(&undone));
    assert_eq!((mask("lan0"), mask("wan0")), (0, 0));
}

#[test]
fn no_signal_but_kill_ends_the_guard_before_its_change_is_undone() {
    need_root!();
    let router = Router::new("signals");
    router.plan("one-cpu", "plan.toml");
    router.ok(&["apply", "--confirm", "6"]);
    // All but SIGKILL and SIGSTOP, to both of them.
    let (kept, both) = ([9, 19], guards_of(&router.place.dir));
    let numbers: Vec<String> =
        (1..=64).filter(|n| !kept.contains(n)).map(|n| n.to_string()).collect();
    let [first, second] = both.map(rustix::process::Pid::as_raw_pid);
    let send = format!(
        "for n in {}; do kill -$n {first} && kill -$n {second} || exit; done",
        numbers.join(" ")
    );
    assert!(Command::new("sh").args(["-c", &send]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(guards_of(&router.place.dir), both, "they are still there");
    assert_eq!(router.lan(), 1, "and waits");
    wait_for("undone", || router.lan() == 0);
}

#[test]
fn a_change_whose_guards_are_both_stopped_is_undone_by_the_next_call() {
    use rustix::process::{Signal, kill_process};
    need_root!();
    let router = Router::new("bothstopped");
    router.plan("one-cpu", "plan.toml");
    router.ok(&["apply", "--confirm", "1"]);
    let both = guards_of(&router.place.dir);
    both.iter().for_each(|guard| kill_process(*guard, Signal::STOP).unwrap());
    wait_for("its deadline", || stderr(&router.run(&["show"])).contains("still in force"));
    assert_eq!(router.lan(), 1, "nobody was there to undo it");
    refused(&router.run(&["confirm"]), 7, &["too late", "its guard was gone"]);
    assert_eq!(router.lan(), 0);
    // Once they go on they find it settled, and write nothing anew.
    both.iter().for_each(|guard| kill_process(*guard, Signal::CONT).unwrap());
    // Whoever is to reap them may be slow; the arguments go with the end.
    let arguments = |guard: &rustix::process::Pid| format!("/proc/{}/cmdline", guard.as_raw_pid());
    wait_for("their end", || {
        both.iter().all(|guard| std::fs::read(arguments(guard)).map_or(true, |it| it.is_empty()))
    });
    assert!(!router.place.dir.join("state").exists(), "nothing is left behind");
}

#[test]
fn files_that_are_damaged_as_soon_as_apply_is_done_keep_nothing_in_force() {
    need_root!();
    let router = Router::new("atonce");
    router.plan("one-cpu", "plan.toml");
    let state = router.place.dir.join("state");
    for _ in 0..3 {
        router.ok(&["apply", "--confirm", "1", "--no-probe"]);
        std::fs::remove_file(state.join("deadman.json")).unwrap();
        std::fs::write(state.join("journal-0001"), "x").unwrap();
        wait_for("undone", || router.lan() == 0);
        wait_for("its end", || !state.join("lock").exists());
        router.run(&["confirm"]);
    }
}

#[test]
fn a_limit_of_file_sizes_ends_neither_apply_nor_its_guard() {
    need_root!();
    let router = Router::new("limited");
    router.plan("one-cpu", "plan.toml");
    // In blocks of 512 bytes (1024 in some shells): nothing, the file of the dead-man, some of a journal.
    for blocks in ["0", "1", "2", "100"] {
        let line = format!("ulimit -f {blocks}; exec \"$@\"");
        let apply = router.place.command(&["apply", "--confirm", "1", "--no-probe", "plan.toml"]);
        let mut command = Command::new("sh");
        command.args(["-c", &line, "sh"]).arg(apply.get_program()).args(apply.get_args());
        let set = apply.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set).current_dir(&router.place.dir);
        let done = router.inside(command);
        let said = stderr(&done);
        match done.status.code() {
            Some(0) if blocks != "0" => {}
            Some(5) if blocks != "100" => {
                assert!(said.contains("file too large"), "{blocks}: {said}")
            }
            _ => panic!("{blocks}: {:?}: {said}", done.status),
        }
        wait_for("undone", || router.lan() == 0);
        wait_for("its end", || !router.place.dir.join("state/lock").exists());
        router.run(&["confirm"]);
        assert!(!router.place.dir.join("state").exists(), "{blocks}: nothing is left behind");
    }
}

#[test]
fn a_change_whose_guard_was_killed_is_undone_by_the_next_call() {
    need_root!();
    let router = Router::new("noguard");
    let mask = || u32::from_str_radix(&router.mask("lan0"), 16).unwrap();
    assert!(router.run(&["plan", "--candidate", "one-cpu"]).status.success());
    router.apply_without_guard();
    wait_for("its deadline", || stderr(&router.run(&["show"])).contains("still in force"));
    assert_eq!(mask(), 1, "nobody was there to undo it");
    assert!(router.run(&["plan", "--candidate", "as-found", "-o", "same.toml"]).status.success());
    let next = router.run(&["apply", "same.toml"]);
    assert!(stderr(&next).contains("never confirmed"), "{}", stderr(&next));
    assert!(router.run(&["rollback"]).status.success());
    assert_eq!(mask(), 0);
}

#[test]
#[ignore = "slow: make test runs it"]
fn an_overdue_change_is_named_by_what_reads_and_undone_by_whatever_writes_next() {
    need_root!();
    let router = Router::new("overdue");
    router.plan("one-cpu", "plan.toml");
    router.plan("as-found", "same.toml");
    for verb in [
        &["rollback"][..],
        &["confirm"],
        &["status"],
        &["lab", "down"],
        &["apply", "same.toml"],
        &["tune", "nat", "--blocks", "1", "--budget", "0.1", "--seconds", "0.1", "--omit", "0"],
    ] {
        if !has(verb[0]) {
            continue;
        }
        router.apply_without_guard();
        wait_for("its deadline", || stderr(&router.run(&["show"])).contains("still in force"));
        assert_eq!(router.lan(), 1, "{verb:?}: nobody was there to undo it");
        for reading in [&["show"][..], &["plan", "-o", "-"], &["verify"]] {
            let said = stderr(&router.run(reading));
            assert!(
                said.contains("still in force") && said.contains("linerate rollback"),
                "{said}"
            );
            assert_eq!(router.lan(), 1, "{reading:?} must not write");
        }
        let output = router.run(verb);
        assert_eq!(router.lan(), 0, "{verb:?}: {}", stderr(&output));
        if verb == ["confirm"] {
            refused(&output, 7, &["too late", "its guard was gone"]);
        } else if verb != ["rollback"] {
            assert!(stderr(&output).contains("never confirmed"), "{verb:?}: {}", stderr(&output));
        }
        router.run(&["confirm"]);
        assert!(!router.place.dir.join("state").exists(), "{verb:?}: nothing is left behind");
    }
}

#[test]
fn while_a_change_waits_nothing_else_is_begun() {
    need_root!();
    let router = Router::new("waits");
    router.plan("one-cpu", "plan.toml");
    router.plan("rps-all", "all.toml");
    router.ok(&["apply", "--confirm", "30"]);
    let status = router.said(&["status"]);
    assert!(status.contains("unless you say: linerate confirm"), "{status}");
    // On top of it, it would become permanent unseen, or hold the lock when the deadline comes.
    let verbs = [
        &["apply", "all.toml"][..],
        &["apply", "all.toml", "--confirm", "5"],
        &["tune", "nat"],
        &["bench", "nat"],
    ];
    for verb in verbs.into_iter().filter(|verb| has(verb[0])) {
        refused(&router.run(verb), 5, &["waits to be confirmed", "linerate rollback"]);
    }
    assert_eq!(router.lan(), 1);
    router.ok(&["rollback"]);
    assert_eq!(router.lan(), 0);
    refused(&router.run(&["confirm"]), 5, &["nothing waits"]);
    assert!(!router.place.dir.join("state").exists(), "nothing is left behind");
}

#[test]
fn the_terminal_goes_away_with_everything_in_it_and_the_change_is_undone() {
    need_root!();
    let router = Router::new("terminal");
    router.plan("one-cpu", "plan.toml");
    let mut command = router.place.command(&["apply", "--confirm", "6"]);
    command.env("TERM", "dumb");
    let session = router.lab.router.run(move || {
        let mut session = rexpect::session::spawn_command(command, Some(20_000)).unwrap();
        session.exp_string("linerate confirm").unwrap();
        // Hangs up: SIGHUP to whoever still has it as its terminal.
        drop(session);
    });
    session.unwrap();
    assert_eq!(router.lan(), 1);
    wait_for("undone", || router.lan() == 0);
}

#[test]
#[ignore = "slow: make test runs it"]
fn apply_is_killed_at_any_moment_and_the_change_is_undone() {
    need_root!();
    let router = Router::new("killed");
    router.plan("one-cpu", "plan.toml");
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..8 {
        let mut command = router.place.command(&["apply", "--confirm", "1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let pause = Duration::from_micros(random.u64(1_000..60_000));
        let killed = router.lab.router.run(move || {
            let mut child = command.spawn().unwrap();
            std::thread::sleep(pause);
            child.kill().unwrap();
            child.wait().unwrap()
        });
        killed.unwrap();
        // Killed between arming and starting the guard, nothing was written yet.
        std::thread::sleep(Duration::from_millis(1200));
        wait_for("undone", || router.lan() == 0);
        router.run(&["confirm"]);
    }
}

/// Calls of each kind that an `apply` makes: files found, read and written, netlink, the journal and the
/// lock. Killed before the first, the last, and some in between.
#[test]
#[ignore = "slow: make test runs it"]
fn apply_is_killed_at_exact_system_calls_and_the_change_is_undone() {
    need_root!();
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("SKIPPED apply_is_killed_at_exact_system_calls...: strace is not installed");
        return;
    }
    let router = Router::new("calls");
    router.plan("one-cpu", "plan.toml");
    let state = router.place.dir.join("state");
    let traced = |options: &[&str]| {
        let apply = router.place.command(&["apply", "--confirm", "0.5", "--no-probe", "plan.toml"]);
        let mut command = Command::new("strace");
        command.args(["-qq", "-o", "trace"]).args(options);
        command.arg(apply.get_program()).args(apply.get_args()).current_dir(&router.place.dir);
        command.envs(apply.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = router.inside(command);
        let trace = std::fs::read_to_string(router.place.dir.join("trace")).unwrap();
        wait_longer("undone", || router.lan() == 0);
        // Killed before the guard was started, it has written nothing, and left its files.
        router.run(&["confirm"]);
        router.ok(&["rollback"]);
        wait_longer("nothing left behind", || !state.exists());
        (ended, trace)
    };
    let mut killed = 0;
    for call in ["openat", "statx", "sendto", "rename", "fsync", "flock", "write"] {
        let (ended, trace) = traced(&["-e", &format!("trace={call}")]);
        assert!(ended.status.success(), "{call}: {}", stderr(&ended));
        let made = trace.lines().filter(|line| line.starts_with(call)).count();
        let mut moments = [1, made / 3, made * 2 / 3, made].to_vec();
        moments.retain(|moment| *moment > 0);
        moments.dedup();
        for moment in moments {
            let inject = format!("inject={call}:signal=KILL:when={moment}");
            let (ended, _) = traced(&["-e", &format!("trace={call}"), "-e", &inject]);
            killed += usize::from(!ended.status.success());
        }
    }
    assert!(killed >= 20, "{killed} kills");
}

#[test]
#[ignore = "slow: make test runs it"]
fn confirm_in_the_moment_of_the_deadline_is_one_or_the_other_and_says_which() {
    need_root!();
    let router = Router::new("race");
    router.plan("one-cpu", "plan.toml");
    let (mut kept, mut late) = (0, 0);
    for step in 0..12 {
        router.ok(&["apply", "--confirm", "0.3"]);
        // How long starting takes differs by machine and load: around the deadline, early and late.
        std::thread::sleep(Duration::from_millis(step * 30));
        let answer = router.run(&["confirm"]);
        match answer.status.code() {
            Some(0) => {
                kept += 1;
                std::thread::sleep(Duration::from_millis(500));
                assert_eq!(router.lan(), 1, "it said kept");
                router.ok(&["rollback"]);
            }
            Some(7) => {
                late += 1;
                assert_eq!(router.lan(), 0, "it said too late");
            }
            _ => panic!("{}", stderr(&answer)),
        }
        assert_eq!(router.lan(), 0);
    }
    assert!(late > 0, "kept {kept}, late {late}");
}

/// The router's default gateway is the lab's wan side, or an address that nobody has.
fn with_gateway(name: &str, gateway: std::net::Ipv4Addr) -> Router {
    let router = Router::new(name);
    router.lab.router.run(move || rtnl::add_default_route(gateway)).unwrap().unwrap();
    router.plan("one-cpu", "plan.toml");
    router
}

fn cut(router: &Router) {
    let command = || Command::new("ip").args(["link", "set", ENDPOINT, "down"]).status().unwrap();
    assert!(router.lab.wan.run(command).unwrap().success());
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_gateway_that_answered_and_does_not_any_more_ends_the_wait_early() {
    need_root!();
    let router = with_gateway("cut", WAN_ADDRESS);
    let begun = Instant::now();
    let applied = router.ok(&["apply", "--confirm", "60"]);
    let said = stderr(&applied);
    assert!(said.contains("watching 198.18.2.2"), "{said}");
    assert!(router.said(&["status"]).contains("or when 198.18.2.2 stops answering"));
    // It answers all the time: nothing happens.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(router.lan(), 1);
    cut(&router);
    while router.lan() != 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(50),
            "undone only by its deadline, if at all"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    // The veth lost its carrier, so it is given time to come back.
    assert!(begun.elapsed() > Duration::from_secs(20), "some silence is to be borne");
    wait_for("its reason", || router.place.dir.join("state/undone.json").exists());
    let told = "198.18.2.2 answered before the change and has not for 20 s";
    let status = router.said(&["status"]);
    assert!(status.contains(told), "{status}");
    wait_for("the guard's end", || !router.place.dir.join("state/lock").exists());
    refused(&router.run(&["confirm"]), 7, &["too late", told]);
    assert!(!router.place.dir.join("state").exists(), "nothing is left behind");
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_gateway_that_answers_no_ping_is_watched_as_a_neighbour() {
    need_root!();
    let router = with_gateway("noping", WAN_ADDRESS);
    let mute = || std::fs::write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1");
    // /proc/sys/net is that of the thread's own namespace.
    router.lab.wan.run(mute).unwrap().unwrap();
    let said = stderr(&router.ok(&["apply", "--confirm", "120"]));
    assert!(said.contains("198.18.2.2 answers no ping"), "{said}");
    assert!(said.contains("watching 198.18.2.2"), "{said}");
    // It answers all the time, for longer than silence is borne.
    std::thread::sleep(Duration::from_secs(11));
    assert_eq!(router.lan(), 1, "{}", router.said(&["status"]));
    // Its link stays up, and it is gone.
    let gone = || Command::new("ip").args(["addr", "flush", "dev", ENDPOINT]).status().unwrap();
    assert!(router.lab.wan.run(gone).unwrap().success());
    let begun = Instant::now();
    while router.lan() != 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(90),
            "undone only by its deadline, if at all"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    wait_for("its reason", || router.place.dir.join("state/undone.json").exists());
    let status = router.said(&["status"]);
    assert!(
        status.contains("198.18.2.2 answered before the change and has not for 8 s"),
        "{status}"
    );
}

#[test]
#[ignore = "slow: make test runs it"]
fn what_never_answered_or_must_not_be_asked_ends_nothing_early() {
    need_root!();
    let nobody = std::net::Ipv4Addr::new(198, 18, 2, 77);
    let (silent, unasked) = (with_gateway("silent", nobody), with_gateway("unasked", WAN_ADDRESS));
    let said = stderr(&silent.ok(&["apply", "--confirm", "60"]));
    assert!(said.contains("198.18.2.77 is not watched: it does not answer"), "{said}");
    let said = stderr(&unasked.ok(&["apply", "--confirm", "60", "--no-probe"]));
    assert!(!said.contains("watch"), "{said}");
    cut(&silent);
    cut(&unasked);
    std::thread::sleep(Duration::from_secs(11));
    for router in [&silent, &unasked] {
        assert_eq!(router.lan(), 1);
        router.ok(&["confirm"]);
        router.ok(&["rollback"]);
    }
}

#[test]
fn an_address_to_watch_is_checked_before_anything_is_changed() {
    need_root!();
    let router = Router::new("address");
    router.plan("one-cpu", "plan.toml");
    for wrong in ["gateway", "198.18.0", "fe80::1"] {
        refused(&router.run(&["apply", "--confirm", "9", "--probe", wrong]), 2, &[wrong]);
    }
    refused(&router.run(&["apply", "--probe", "198.18.2.2"]), 2, &["confirm"]);
    assert_eq!(router.lan(), 0);
    let said = stderr(&router.ok(&["apply", "--confirm", "9", "--probe", "198.18.2.2"]));
    assert!(said.contains("watching 198.18.2.2"), "{said}");
    router.ok(&["rollback"]);
}

#[test]
fn what_a_killed_process_left_of_its_own_is_cleared_away() {
    need_root!();
    let router = Router::new("leftovers");
    let state = router.place.dir.join("state");
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&state)
        .unwrap();
    // Killed with the lock, before its journal's first line was whole.
    std::fs::write(state.join("lock"), "1\napply plan.toml\n").unwrap();
    std::fs::write(state.join("journal-0001.new"), "{\"format\":\"linerate-jour").unwrap();
    // Or while it armed the dead-man.
    std::fs::write(state.join(".deadman.json.1f00cafe"), "{").unwrap();
    let said = router.said(&["rollback"]);
    assert!(said.contains("nothing to undo"), "{said}");
    assert!(!state.exists(), "nothing is left behind");
}

#[test]
fn a_killed_guard_has_a_second_one_behind_it() {
    use rustix::process::{Signal, kill_process};
    need_root!();
    let router = Router::new("second");
    router.plan("one-cpu", "plan.toml");
    for killed in [0, 1] {
        router.ok(&["apply", "--confirm", "2"]);
        kill_process(guards_of(&router.place.dir)[killed], Signal::KILL).unwrap();
        assert_eq!(router.lan(), 1, "it waits");
        wait_for("undone", || router.lan() == 0);
        wait_for("its reason", || router.place.dir.join("state/undone.json").exists());
        let said = router.said(&["status"]);
        assert!(said.contains("not confirmed in time: 2 settings were put back"), "{said}");
        wait_for("the guard's end", || !router.place.dir.join("state/lock").exists());
    }
}

#[test]
fn a_change_is_undone_whoever_reads_what_apply_prints() {
    need_root!();
    let router = Router::new("paused");
    router.plan("one-cpu", "plan.toml");
    // A pipe that is full, and whose reader does not read: a terminal that is paused by Ctrl-S.
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    let mut full = &writer;
    std::io::Write::write_all(&mut full, &[b'x'; 4096]).unwrap();
    let mut command = router.place.command(&["apply", "--confirm", "2"]);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut apply = router.lab.router.run(move || command.spawn().unwrap()).unwrap();
    wait_for("a change that waits", || router.lan() == 1);
    wait_for("undone", || router.lan() == 0);
    assert!(apply.try_wait().unwrap().is_none(), "it is still printing");
    // Nobody else has to wait for it either.
    router.ok(&["rollback"]);
    drop(reader);
    apply.wait().unwrap();
}

#[test]
fn an_apply_that_is_stopped_is_ended_at_the_deadline_and_undone() {
    use rustix::process::{Pid, Signal, kill_process};
    need_root!();
    let router = Router::new("stopped");
    router.plan("one-cpu", "plan.toml");
    let state = router.place.dir.join("state");
    let mut caught = 0;
    for _ in 0..20 {
        let mut command = router.place.command(&["apply", "--confirm", "1.5", "--no-probe"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut apply = router.lab.router.run(move || command.spawn().unwrap()).unwrap();
        let id = Pid::from_raw(i32::try_from(apply.id()).unwrap()).unwrap();
        // As soon as anything is on the disk that has to be undone; a fast one may be done by then.
        let journal = state.join("journal-0001");
        while !journal.exists() && apply.try_wait().unwrap().is_none() {}
        if apply.try_wait().unwrap().is_none() {
            kill_process(id, Signal::STOP).unwrap();
        }
        let has_lock = apply.try_wait().unwrap().is_none() && state.join("lock").exists();
        caught += usize::from(has_lock);
        std::thread::sleep(Duration::from_millis(1500));
        wait_for("undone", || router.lan() == 0 && !journal.exists());
        if apply.try_wait().unwrap().is_none() {
            kill_process(id, Signal::CONT).unwrap();
        }
        let ended = apply.wait().unwrap();
        assert!(!has_lock || !ended.success(), "it had the lock and was not ended");
        wait_for("the guard's end", || !state.join("lock").exists());
        router.run(&["confirm"]);
        if caught == 2 {
            return;
        }
    }
    panic!("apply was never stopped with the lock");
}

/// Waits until `done`, a minute at most: loaded machines take their time.
#[track_caller]
pub(crate) fn wait_longer(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_tune_of_the_router_itself_leaves_it_as_found_however_it_ends() {
    need_root!();
    if lacks("tune") {
        return;
    }
    if Command::new("iperf3").arg("-v").output().is_err() {
        eprintln!("SKIPPED a_tune_of_the_router_itself...: iperf3 is not installed");
        return;
    }
    let router = Router::new("tunekill");
    let mut server = Command::new("iperf3");
    server.args(["-s"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = router.lab.wan.run(move || server.spawn().unwrap()).unwrap();
    let address = WAN_ADDRESS.to_string();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::HUP] {
        let mut command = router.place.command(&[
            "tune",
            "--server",
            &address,
            "--factor",
            "rps=off,one,all",
            "--blocks",
            "50",
            "--seconds",
            "1",
            "--omit",
            "0",
            "--directions",
            "up",
            "-P",
            "2",
        ]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut tune = router.lab.router.run(move || command.spawn().unwrap()).unwrap();
        wait_longer("a setting on trial", || router.lan() != 0);
        let id = i32::try_from(tune.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
        tune.wait().unwrap();
        wait_longer("as found", || router.lan() == 0);
        wait_longer("the guard's end", || {
            let state = router.place.dir.join("state");
            !state.join("deadman.json").exists() && !state.join("lock").exists()
        });
        assert!(router.said(&["status"]).contains("changed nothing"), "nothing is left to undo");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

/// An iperf3 that is twice as fast where RPS is on, and needs neither time nor a server.
pub(crate) const FAST_WITH_RPS: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo "iperf 3.16 (cJSON 1.7.15)"; exit; }
read mask </sys/class/net/lan0/queues/rx-0/rps_cpus
case $mask in *[1-9a-f]*) rate=200 ;; *) rate=100 ;; esac
rate=$rate$(($$ % 10))00000
sum="{\"bytes\": 5000000, \"seconds\": 1, \"bits_per_second\": $rate}"
echo "{\"start\": {\"version\": \"iperf 3.16\"}, \"end\": {\"sum_sent\": $sum, \"sum_received\": $sum}}"
"#;

#[test]
#[ignore = "slow: make test runs it"]
fn what_is_better_is_applied_only_if_it_keeps_what_must_be_kept() {
    need_root!();
    if lacks("tune") {
        return;
    }
    let router = Router::new("tuneguard");
    let fake = router.place.file("iperf3", FAST_WITH_RPS);
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", router.place.dir.display(), std::env::var("PATH").unwrap());
    let tune = |guard: &str| {
        let address = WAN_ADDRESS.to_string();
        let fixed = ["tune", "--server", &address, "--factor", "rps=as-found,all", "--apply"];
        let load = ["--blocks", "8", "--seconds", "1", "--omit", "0", "--directions", "up"];
        let rest = ["-P", "1", "--json", "--seed", "3", "--guard", guard];
        let mut command = router.place.command(&[&fixed[..], &load, &rest].concat());
        command.env("PATH", &path);
        let done = router.inside(command);
        let json: serde_json::Value = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", stderr(&done)));
        crate::schema::assert_fits("tune", &json);
        (json, stderr(&done), done.status.code())
    };
    // The better one is at twice as much, and everything is below a terabit.
    for (guard, kept) in [("up<+50%", false), ("up>=1000000", false), ("up>=+50%", true)] {
        let (json, said, code) = tune(guard);
        assert_eq!(code, Some(0), "{guard}: {said}");
        let better = json["analysis"]["candidates"].as_array().unwrap().iter();
        let better: Vec<_> = better.filter(|c| c["verdict"]["is"] == "better").collect();
        assert_eq!(better.len(), 1, "{guard}: {}", json["analysis"]["candidates"]);
        assert_eq!(json["guards"][0]["candidate"], "rps=all", "{}", json["guards"]);
        let decision = if kept { "apply" } else { "leave" };
        assert_eq!(json["decision"]["decision"], decision, "{guard}: {}", json["decision"]);
        assert!(said.contains(if kept { "is in force" } else { "left as found" }), "{said}");
        assert_eq!(router.lan() != 0, kept, "{guard}: {said}");
        let status = router.said(&["status"]);
        assert_eq!(status.contains("changed nothing"), !kept, "{guard}: {status}");
    }
    router.ok(&["rollback"]);
    assert_eq!(router.lan(), 0);
}
