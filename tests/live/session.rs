//! `apply` in a session that comes in over the network, and the countdown of `apply --confirm` at a
//! terminal.

use std::process::Command;

use crate::confirm::{FAST_WITH_RPS, wait_longer};
use crate::program;
use crate::router::{Router, need_root, refused, stderr, wait_for};
use linerate::measure::lab::WAN_ADDRESS;
use rexpect::session::{PtySession, spawn_command};

impl Router {
    /// As `Place::command` makes it, with nothing that says how this test was started.
    fn bare(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program::path());
        command.args(args).current_dir(&self.place.dir).env("COLUMNS", "200");
        command.env("LINERATE_STATE_DIR", self.place.dir.join("state"));
        for name in ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "TERM"] {
            command.env_remove(name);
        }
        command
    }

    fn is_set(&self) -> bool {
        self.mask("lan0").bytes().any(|b| b.is_ascii_digit() && b != b'0')
    }

    fn planned(name: &str) -> Self {
        let router = Self::new(name);
        let planned = router.run(&["plan", "--candidate", "one-cpu"]);
        assert!(planned.status.success(), "{}", stderr(&planned));
        router
    }

    /// Runs the command at a terminal of its own, up to the end of `talk`; gives the exit code.
    fn at_terminal(
        &self,
        command: Command,
        talk: impl FnOnce(&mut PtySession) + Send + 'static,
    ) -> Option<i32> {
        let ended = self.lab.router.run(move || {
            let mut session = spawn_command(command, Some(60_000)).unwrap();
            talk(&mut session);
            session.exp_eof().unwrap();
            session.process().wait().unwrap()
        });
        match ended.unwrap() {
            rexpect::process::wait::WaitStatus::Exited(_, code) => Some(code),
            _ => None,
        }
    }
}

const SSH: &str = "198.51.100.7 50000 198.51.100.1 22";

#[test]
fn who_comes_in_over_the_network_confirms_or_insists() {
    need_root!();
    let router = Router::planned("afar");
    let mut over_ssh = router.bare(&["apply"]);
    over_ssh.env("SSH_CONNECTION", SSH);
    refused(
        &router.inside(over_ssh),
        2,
        &["SSH from 198.51.100.7", "--confirm 60", "--no-confirm"],
    );
    // sudo takes the variable away; the server is still what it all descends from.
    let server = router.place.dir.join("dropbear");
    std::os::unix::fs::symlink("/bin/sh", &server).unwrap();
    let mut below = Command::new(&server);
    below.args(["-c", &format!("(sh -c '{} apply; exit $?')", program::path().display())]);
    below.current_dir(&router.place.dir).env_remove("SSH_CONNECTION");
    below.env("LINERATE_STATE_DIR", router.place.dir.join("state")).env("COLUMNS", "200");
    refused(&router.inside(below), 2, &["over the network (dropbear)", "--no-confirm"]);
    assert!(!router.is_set());
    for (args, code) in [
        (&["apply", "--dry-run"][..], 0),
        (&["apply", "--confirm", "60", "--no-confirm"], 2),
        (&["apply", "--confirm", "60"], 0),
        (&["rollback"], 0),
        (&["apply", "--no-confirm"], 0),
        (&["rollback"], 0),
    ] {
        let mut command = router.bare(args);
        command.env("SSH_CONNECTION", SSH);
        let done = router.inside(command);
        assert_eq!(done.status.code(), Some(code), "{args:?}: {}", stderr(&done));
    }
    for (answer, code) in [("", 2), ("no", 2), ("y", 0)] {
        let mut command = router.bare(&["apply"]);
        command.env("SSH_CONNECTION", SSH);
        let ended = router.at_terminal(command, move |session| {
            session.exp_string("[y/N]").unwrap();
            session.send_line(answer).unwrap();
        });
        assert_eq!(ended, Some(code), "{answer:?}");
        assert_eq!(router.is_set(), code == 0, "{answer:?}");
    }
    assert!(router.run(&["rollback"]).status.success());
}

#[test]
fn at_a_terminal_enter_keeps_a_change_and_ctrl_c_undoes_it() {
    need_root!();
    let router = Router::planned("countdown");
    let waiting =
        |session: &mut PtySession| session.exp_string("Enter keeps it").map(drop).unwrap();
    let kept = router.at_terminal(router.bare(&["apply", "--confirm", "60"]), move |session| {
        // What was typed before the question is no answer to it.
        session.send_line("").unwrap();
        waiting(session);
        session.exp_string("Enter keeps it").unwrap();
        session.send_line("").unwrap();
        session.exp_string("kept, ").unwrap();
    });
    assert_eq!(kept, Some(0));
    assert!(router.is_set());
    refused(&router.run(&["confirm"]), 5, &["nothing waits"]);
    assert!(router.run(&["rollback"]).status.success());
    let undone = router.at_terminal(router.bare(&["apply", "--confirm", "60"]), move |session| {
        waiting(session);
        session.send_control('c').unwrap();
        session.exp_string("everything was restored").unwrap();
    });
    assert_eq!(undone, Some(130));
    assert!(!router.is_set());
    // Confirmed by somebody else, it ends too.
    let elsewhere = router.place.command(&["confirm"]);
    let kept = router.at_terminal(router.bare(&["apply", "--confirm", "60"]), move |session| {
        let mut elsewhere = elsewhere;
        waiting(session);
        assert!(elsewhere.output().unwrap().status.success());
        session.exp_string("confirmed elsewhere").unwrap();
    });
    assert_eq!(kept, Some(0));
    assert!(router.is_set());
    assert!(router.run(&["rollback"]).status.success());
}

#[test]
fn a_paused_terminal_keeps_no_change_and_delays_no_guard() {
    need_root!();
    let router = Router::planned("ctrl-s");
    let mask = std::path::PathBuf::from("/sys/class/net/lan0/queues/rx-0/rps_cpus");
    let ended = router.at_terminal(router.bare(&["apply", "--confirm", "3"]), move |session| {
        session.exp_string("Enter keeps it").unwrap();
        session.send_control('s').unwrap();
        let is_set =
            || std::fs::read(&mask).unwrap().iter().any(|b| b"123456789abcdef".contains(b));
        wait_for("undone", || !is_set());
        // An answer that comes too late is none.
        session.send_line("").unwrap();
        session.send_control('q').unwrap();
        session.exp_string("not confirmed in time").unwrap();
    });
    assert_eq!(ended, Some(7));
    assert!(!router.is_set());
}

/// The lock is held all the while, and every cell is told of.
#[test]
#[ignore = "slow: make test runs it"]
fn a_paused_terminal_holds_up_no_experiment_and_what_it_keeps_is_undone_on_time() {
    need_root!();
    if program::lacks("tune") {
        return;
    }
    let router = Router::new("tune-ctrl-s");
    let fake = router.place.file("iperf3", FAST_WITH_RPS);
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = WAN_ADDRESS.to_string();
    let tune = ["tune", "--server", &server, "--factor", "rps=as-found,all", "--seed", "3"];
    let load = ["--blocks", "8", "--seconds", "1", "--omit", "0", "--directions", "up", "-P", "1"];
    let keep = ["--apply", "--confirm", "3", "-o", "tuned.json"];
    let mut command = router.bare(&[&tune[..], &load, &keep].concat());
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", router.place.dir.display()));
    let here = router.place.dir.clone();
    let ended = router.at_terminal(command, move |session| {
        session.exp_string("measuring rps=").unwrap();
        session.send_control('s').unwrap();
        wait_longer("the result", || here.join("tuned.json").exists());
        wait_longer("the end of its time", || here.join("state/undone.json").exists());
        session.send_control('q').unwrap();
        session.exp_string("linerate confirm").unwrap();
    });
    assert_eq!(ended, Some(0));
    assert!(!router.is_set());
    let said = stderr(&router.run(&["confirm"]));
    assert!(said.contains("too late") && said.contains("not confirmed in time"), "{said}");
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_paused_terminal_holds_up_no_sweep() {
    need_root!();
    if program::lacks("sweep") {
        return;
    }
    let router = Router::new("sweep-ctrl-s");
    let sweep = ["sweep", "mss", "--sizes", "1460", "--repeats", "1", "--run", "0.3", "-P", "1"];
    let here = router.place.dir.clone();
    let command = router.bare(&[&sweep[..], &["-o", "sweep.json"]].concat());
    let ended = router.at_terminal(command, move |session| {
        session.send_control('s').unwrap();
        wait_longer("the record", || here.join("sweep.json").exists());
        // A lock that nobody has is no file.
        wait_longer("the lock's end", || !here.join("state/lock").exists());
        session.send_control('q').unwrap();
        session.exp_string("record: sweep.json").unwrap();
    });
    // A figure of a busy machine may be refused.
    assert!(matches!(ended, Some(0 | 6)), "{ended:?}");
}

#[test]
fn status_is_one_page_that_needs_no_root_and_tells_drift_by_its_exit_code() {
    use std::os::unix::process::CommandExt;
    need_root!();
    let router = Router::planned("page");
    let status = |more: &[&str], columns: &str| {
        let mut command = router.bare(&[&["status"], more].concat());
        command.env("COLUMNS", columns);
        router.inside(command)
    };
    let text = |output: &std::process::Output| String::from_utf8(output.stdout.clone()).unwrap();
    let nothing = status(&[], "200");
    assert_eq!(nothing.status.code(), Some(0), "{}", stderr(&nothing));
    assert!(text(&nothing).contains("changed nothing"), "{}", text(&nothing));
    let mut apply = router.bare(&["apply", "--confirm", "300"]);
    apply.env("SSH_CONNECTION", SSH);
    assert!(router.inside(apply).status.success());
    // As nobody: all of it is for everybody's eyes, and nothing is undone by looking.
    let mut command = router.bare(&["status"]);
    command.uid(65534).gid(65534).env("COLUMNS", "200");
    std::fs::set_permissions(
        &router.place.dir,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    for output in [status(&[], "200"), router.inside(command)] {
        let told = text(&output);
        assert_eq!(output.status.code(), Some(0), "{told}{}", stderr(&output));
        for words in [
            "apply plan.toml (one-cpu)",
            " s  ",
            "from 198.51.100.7",
            "unless you say: linerate confirm",
            "every setting is as it was left",
        ] {
            assert!(told.contains(words), "{words:?} is not in: {told}");
        }
    }
    assert!(router.run(&["confirm"]).status.success());
    // Somebody else's hand, on 80 columns.
    router.set("lan0", "2");
    let drifted = status(&[], "80");
    let told = text(&drifted);
    assert_eq!(drifted.status.code(), Some(3), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    assert!(told.contains("drift: 1 setting is not as"), "{told}");
    let line = told.lines().find(|line| line.contains("RPS of lan0 rx-0")).unwrap();
    assert!(line.find("CPU 0") < line.find("CPU 1"), "{line}");
    let json = status(&["--json"], "80");
    assert_eq!(json.status.code(), Some(3));
    let page: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&page["drift"][0]["is"], &page["drift"][0]["wanted"]),
        (&"CPU 1".into(), &"CPU 0".into())
    );
    let by = page["journals"][0]["by"].as_str().unwrap();
    assert!(by.ends_with("from 198.51.100.7"), "{by}");
    router.set("lan0", "1");
    assert_eq!(status(&[], "200").status.code(), Some(0));
    assert!(router.run(&["rollback"]).status.success());
}
