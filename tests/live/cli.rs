//! Bad input and bad places: one clear line, a hint, the right exit code, nothing changed.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::program::{self, has, lacks};
use crate::router::{Place, Router, need_root, refused, stderr};

#[test]
fn unknown_flags_and_values_are_usage_errors() {
    let place = Place::new("flags");
    refused(&place.run(&["apply", "--bogus"]), 2, &["--bogus", "hint"]);
    refused(&place.run(&["shwo"]), 2, &["show", "hint"]);
    refused(&place.run(&["apply", "--confirm", "0"]), 2, &["more than 0"]);
    let bare = place.run(&[]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(stderr(&bare).contains("Usage"), "without a command it tells what there is");
    assert_eq!(place.run(&["--help"]).status.code(), Some(0));
    let version = place.run(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    let said = String::from_utf8_lossy(&version.stdout).into_owned();
    let built = if has("top") { "features: router, measure, top)" } else { "features: router)" };
    assert!(said.trim_end().ends_with(built), "{said}");
}

#[test]
fn without_proc_that_is_said_and_not_that_nothing_was_found() {
    need_root!();
    let place = Place::new("no-proc");
    for line in [
        "show",
        "check",
        "check --losses",
        "plan --sample 0 -o p.toml",
        "record --seconds 0.2",
        "top --once",
        "bench nat --seconds 0.1",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        if !program::has(words[0]) {
            continue;
        }
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", "umount -l /proc && exec \"$0\" \"$@\""]);
        command.arg(program::path()).args(words).current_dir(&place.dir);
        command.env("LINERATE_STATE_DIR", place.dir.join("state")).env("COLUMNS", "200");
        let output = command.output().unwrap();
        refused(&output, 5, &["/proc is not mounted", "hint: mount -t proc proc /proc"]);
        assert!(output.stdout.is_empty(), "{line}");
    }
    assert!(!place.dir.join("p.toml").exists());
}

#[test]
fn loads_that_can_not_be_made_are_usage_errors() {
    if lacks("tune") {
        return;
    }
    let place = Place::new("loads");
    refused(&place.run(&["tune", "--bogus"]), 2, &["--bogus", "hint"]);
    refused(&place.run(&["tune", "nat", "--seconds", "0"]), 2, &["more than 0"]);
    refused(&place.run(&["tune", "nat", "--streams", "10000"]), 2, &["128"]);
    refused(&place.run(&["tune", "--factor", "rps=nonsense"]), 2, &["rps=nonsense", "hint"]);
    refused(&place.run(&["tune", "qos"]), 2, &["nat", "flowtable"]);
}

#[test]
fn scenarios_that_make_no_sense_are_refused_with_words_before_anything_is_built() {
    if lacks("bench") {
        return;
    }
    let place = Place::new("scenarios");
    refused(&place.run(&["bench", "nat+ipv6"]), 2, &["NAT66", "route+ipv6"]);
    refused(&place.run(&["bench", "route+nat"]), 2, &["exclude each other"]);
    let frames = ["--frames", "--protocol", "udp", "--rate", "1"];
    for scenario in ["route+wireguard", "nat+pppoe"] {
        let output = place.run(&[&["bench", scenario], &frames[..]].concat());
        refused(&output, 2, &["no Ethernet device", "--direction up"]);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new("pipe");
    for args in [&["show"][..], &["show", "--json"], &["--help"]] {
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        let output = place.command(args).stdout(Stdio::from(write)).output().unwrap();
        assert_eq!(stderr(&output), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let place = Place::new("full");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.command(&["show"]).stdout(full).output().unwrap();
    refused(&output, 5, &["stdout", "space"]);
}

#[test]
fn no_colour_codes_without_a_terminal_or_when_told() {
    let place = Place::new("colour");
    let plain = place.run(&["show"]).stdout;
    assert!(!plain.contains(&0x1b));
    let forced = place.run(&["show", "--color", "always"]).stdout;
    assert!(forced.contains(&0x1b));
}

#[test]
fn plan_files_that_can_not_be_used_are_named_for_what_they_are() {
    need_root!();
    let place = Place::new("plans");
    let good = place.run(&["plan", "--candidate", "as-found", "-o", "-"]).stdout;
    let good = String::from_utf8(good).unwrap();
    let cut = place.file("cut.toml", &good[..good.len() / 2]);
    let newer = good.replace("\nversion = 1\n", "\nversion = 99\n");
    let newer = newer.replace("\nversion = 2\n", "\nversion = 99\n");
    let newer = place.file("newer.toml", newer);
    let foreign = place.file("foreign.toml", "[package]\nname = \"x\"\n");
    let binary = place.file("binary.toml", [0xff, 0xfe, 0, 1]);
    for verb in ["apply", "verify"] {
        let run = |path: &Path| place.run(&[verb, path.to_str().unwrap()]);
        refused(&run(&cut), 2, &["cut.toml", "hint"]);
        refused(&run(&newer), 2, &["newer.toml", "99", "hint"]);
        refused(&run(&foreign), 2, &["foreign.toml"]);
        refused(&run(&binary), 2, &["binary.toml"]);
        refused(&run(Path::new("absent.toml")), 2, &["absent.toml"]);
    }
}

#[test]
fn without_root_it_says_what_is_needed() {
    need_root!();
    let place = Place::new("nobody");
    // The program may lie where nobody may look.
    let program = place.dir.join("linerate");
    std::fs::copy(program::path(), &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&place.dir, open).unwrap();
    let verbs = [&["tune", "nat"][..], &["bench", "nat"], &["lab", "up"], &["rollback"]];
    for args in verbs.into_iter().filter(|args| has(args[0])) {
        let output = Command::new(&program)
            .args(args)
            .current_dir(&place.dir)
            .env("LINERATE_STATE_DIR", place.dir.join("state"))
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap();
        if args[0] == "rollback" {
            assert_eq!(output.status.code(), Some(0), "nothing to do: {}", stderr(&output));
        } else {
            refused(&output, 4, &["root", "hint"]);
        }
        if place.dir.join("state").exists() {
            std::fs::remove_dir_all(place.dir.join("state")).unwrap();
        }
    }
    let output = Command::new(&program).arg("show").uid(65534).gid(65534).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "show needs no rights: {}", stderr(&output));
}

#[test]
fn without_namespaces_it_says_what_is_missing() {
    need_root!();
    if lacks("tune") {
        return;
    }
    let place = Place::new("nons");
    let script = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$0\" tune nat";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .arg(program::path())
        .current_dir(&place.dir)
        .env("LINERATE_STATE_DIR", place.dir.join("state"))
        .output()
        .unwrap();
    refused(&output, 5, &["namespace", "hint"]);
}

#[test]
fn a_result_holds_what_it_takes_to_make_it_again_and_every_piece_of_each_run() {
    need_root!();
    if lacks("tune") {
        return;
    }
    let place = Place::new("again");
    let done = place.run(&[
        "tune",
        "nat",
        "--seconds",
        "0.3",
        "--omit",
        "0",
        "--blocks",
        "1",
        "--candidates",
        "one-cpu",
        "--directions",
        "up",
        "-P",
        "2",
        "--flows",
        "40",
        "--seed",
        "7",
        "-o",
        "r.json",
    ]);
    assert!(done.status.code().is_some_and(|code| code != 5), "{done:?}");
    let text = std::fs::read(place.dir.join("r.json")).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((&result["seed"], &result["scenario"]["flows"]), (&7.into(), &40.into()));
    assert_eq!(result["fingerprint"].as_str().unwrap().len(), 16);
    assert!(result["command"].as_array().unwrap().contains(&"--flows".into()));
    for cell in result["cells"].as_array().unwrap() {
        let run = &cell["measurement"];
        assert!(!run["series"].as_array().unwrap().is_empty(), "{run}");
        for piece in run["series"].as_array().unwrap() {
            assert_eq!(piece["bytes"].as_array().unwrap().len(), 1, "{piece}");
        }
        // What the candidate asked for was read back, one text for each of its settings.
        let candidates = result["candidates"].as_array().unwrap();
        let asked = candidates.iter().find(|c| c["name"] == cell["candidate"]).unwrap();
        let read: Vec<_> = run["settings"].as_array().into_iter().flatten().collect();
        assert_eq!(read.len(), asked["settings"].as_array().unwrap().len(), "{run}");
        assert!(read.iter().all(|setting| setting["text"].is_string()), "{run}");
    }

    let done = place.run(&["bench", "nat", "--seconds", "0.2", "--direction", "up", "--json"]);
    let bench: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    crate::schema::assert_fits("bench", &bench);
    assert_eq!(bench["origin"]["command"][1], "bench");
    assert_eq!(bench["origin"]["machine"]["kernel"], result["machine"]["kernel"]);
    assert!(!bench["runs"][0]["series"].as_array().unwrap().is_empty());
}

#[test]
fn two_at_once_is_refused_with_the_name_of_the_first() {
    need_root!();
    if lacks("tune") {
        return;
    }
    let place = Place::new("two");
    let mut first = place
        .command(&["tune", "nat", "--seconds", "0.5", "--blocks", "50"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lock = place.dir.join("state/lock");
    while !lock.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let second = place.run(&["tune", "nat"]);
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&first),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(130));
    refused(&second, 5, &[&first.id().to_string(), "tune nat", "hint"]);
}

#[test]
fn where_to_write_is_checked_before_three_minutes_of_measuring() {
    if lacks("tune") {
        return;
    }
    let place = Place::new("where");
    refused(&place.run(&["tune", "nat", "-o", "absent/r.json"]), 2, &["absent", "hint"]);
    refused(&place.run(&["tune", "nat", "--report", "/"]), 2, &["directory"]);
}

#[test]
fn a_captured_machine_is_never_changed() {
    let place = Place::new("captured");
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts/rk3399-6-dwmac+r8169-5.4");
    let verbs = [&["tune", "nat"][..], &["apply"], &["rollback"], &["lab", "up"], &["bench"]];
    for args in verbs.into_iter().filter(|args| has(args[0])) {
        let output = place.command(args).args(["--host", host]).output().unwrap();
        refused(&output, 2, &["captured", "hint"]);
    }
}

#[test]
fn a_verb_does_all_it_does_whatever_becomes_of_its_output() {
    need_root!();
    let router = Router::new("output");
    assert!(router.run(&["plan", "--candidate", "one-cpu"]).status.success());
    let root = router.place.dir.join("root");
    let full =
        || -> Stdio { std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into() };
    let gone = || -> Stdio { rustix::pipe::pipe().unwrap().1.into() };
    for stdout in [&full as &dyn Fn() -> Stdio, &gone] {
        let lost = |args: &[&str]| {
            let mut command = router.place.command(args);
            command.stdout(stdout()).env("LINERATE_ROOT_DIR", &root);
            let output = router.inside(command);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
            let lines = said.lines().filter(|line| line.contains("write to stdout")).count();
            assert_eq!(lines, usize::from(args[0] != "persist"), "{args:?}: {said}");
        };
        lost(&["apply"]);
        assert_eq!(u32::from_str_radix(&router.mask("lan0"), 16).unwrap(), 1);
        lost(&["persist", "--init", "systemd"]);
        assert!(root.join("etc/linerate/plan.toml").is_file());
        let mut command = router.place.command(&["unpersist"]);
        command.stdout(stdout()).env("LINERATE_ROOT_DIR", &root);
        assert_eq!(router.inside(command).status.code(), Some(0));
        assert!(!root.join("etc/linerate/plan.toml").exists());
        lost(&["rollback"]);
        assert_eq!(u32::from_str_radix(&router.mask("lan0"), 16).unwrap(), 0);
    }
}

#[test]
fn quiet_prints_nothing_when_all_is_well() {
    need_root!();
    let router = Router::new("quiet");
    let root = router.place.dir.join("root");
    for line in [
        "plan --candidate one-cpu",
        "apply",
        "verify",
        "persist --init systemd",
        "unpersist",
        "rollback",
        "apply --confirm 60",
        "confirm",
        "rollback",
        "capture --samples 0",
        "show",
        "show knobs",
        "status",
        "bench nat --seconds 0.2 --omit 0 -P 1",
        "sweep mss --sizes 1460 --repeats 1 --run 0.2 -P 1 -o sweep.json",
        "tune nat --blocks 1 --seconds 0.1 --omit 0 -P 1 --candidates as-found -o tuned.json",
        "lab up",
        "lab list",
        "lab down",
    ] {
        if !has(line.split(' ').next().unwrap()) {
            continue;
        }
        let args: Vec<&str> = line.split(' ').chain(["-q"]).collect();
        let mut command = router.place.command(&args);
        command.env("LINERATE_ROOT_DIR", &root);
        let output = router.inside(command);
        // A busy machine's figures may be refused.
        if output.status.code() == Some(6) && ["bench", "sweep", "tune"].contains(&args[0]) {
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
        assert_eq!(said, "", "{line}");
    }
}

#[test]
fn a_plan_that_is_a_pipe_or_a_device_is_refused() {
    let place = Place::new("fifo");
    let pipe = place.dir.join("plan.toml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    refused(&place.run(&["apply"]), 2, &["no regular file", "hint"]);
    refused(&place.run(&["verify", "/dev/zero"]), 2, &["no regular file"]);
}

#[test]
fn a_plan_is_applied_verified_and_undone_on_a_real_kernel() {
    need_root!();
    let router = Router::new("life");
    let ok = |output: &Output, words: &str| {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
        let all = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(output));
        assert!(all.contains(words), "{words:?} is not in: {all}");
    };
    ok(&router.run(&["plan", "--candidate", "one-cpu"]), "plan.toml");
    let dry = router.run(&["apply", "--dry-run"]);
    ok(&dry, "none made");
    assert!(String::from_utf8_lossy(&dry.stdout).contains("echo 1 > /sys/class/net/lan0"));
    assert_eq!(router.mask("lan0").trim_matches('0'), "");
    assert_eq!(router.run(&["verify"]).status.code(), Some(3), "not applied yet");
    ok(&router.run(&["apply"]), "2 settings made");
    assert_eq!(u32::from_str_radix(&router.mask("lan0"), 16).unwrap(), 1);
    ok(&router.run(&["verify"]), "all 2 settings are in force");
    ok(&router.run(&["apply"]), "nothing to write");
    ok(&router.run(&["status"]), "one-cpu");
    // Somebody else's hand in between.
    router.set("lan0", "3");
    let drifted = router.run(&["verify"]);
    assert_eq!(drifted.status.code(), Some(3), "{}", stderr(&drifted));
    let said = String::from_utf8_lossy(&drifted.stdout).into_owned();
    assert!(said.contains("drifted") && said.contains("RPS of lan0 rx-0: changed by: "), "{said}");
    assert!(said.contains(" s ago"), "when linerate set it: {said}");
    refused(&router.run(&["rollback"]), 8, &["lan0", "hint", "--force"]);
    assert_eq!(u32::from_str_radix(&router.mask("lan0"), 16).unwrap(), 3, "left alone");
    ok(&router.run(&["rollback", "--force"]), "restored");
    assert_eq!(u32::from_str_radix(&router.mask("lan0"), 16).unwrap(), 0);
    assert_eq!(u32::from_str_radix(&router.mask("wan0"), 16).unwrap(), 0);
    ok(&router.run(&["rollback"]), "nothing to undo");
    assert!(!router.place.dir.join("state").exists(), "nothing is left behind");
}

#[test]
fn a_device_that_vanished_after_planning_is_named() {
    need_root!();
    let router = Router::new("vanished");
    assert!(router.run(&["plan", "--candidate", "rps-all"]).status.success());
    router.lab.router.run(|| linerate::machine::sys::rtnl::delete("wan0")).unwrap().unwrap();
    refused(&router.run(&["apply"]), 5, &["wan0", "hint"]);
    assert_eq!(router.mask("lan0").trim_matches('0'), "", "nothing was changed");
    assert!(!router.place.dir.join("state").exists(), "nothing is left behind");
}

#[test]
fn a_plan_of_another_machine_is_refused() {
    need_root!();
    let router = Router::new("foreign");
    assert!(router.run(&["plan", "--candidate", "rps-all"]).status.success());
    let path = router.place.dir.join("plan.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let Some(line) = text.lines().find(|l| l.starts_with("machine = ")) else {
        eprintln!("SKIPPED a_plan_of_another_machine_is_refused: there is no /etc/machine-id");
        return;
    };
    std::fs::write(&path, text.replace(line, "machine = \"0123456789abcdef\"")).unwrap();
    refused(&router.run(&["apply"]), 2, &["machine", "hint"]);
}

#[test]
fn a_read_only_sys_changes_nothing_and_says_so() {
    need_root!();
    let router = Router::new("read-only");
    assert!(router.run(&["plan", "--candidate", "rps-all"]).status.success());
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", "mount -o remount,bind,ro /sys && exec \"$0\" apply"])
        .arg(program::path())
        .current_dir(&router.place.dir)
        .env("LINERATE_STATE_DIR", router.place.dir.join("state"));
    refused(&router.inside(command), 4, &["rps_cpus", "read-only", "nothing was changed"]);
    assert!(!router.place.dir.join("state").exists(), "nothing is left behind");
}

#[test]
#[ignore = "slow: make test runs it"]
fn tune_of_the_same_settings_finds_no_difference() {
    need_root!();
    if lacks("tune") {
        return;
    }
    let place = Place::new("aa");
    let output = place.run(&[
        "tune",
        "nat",
        "--aa",
        "--blocks",
        "6",
        "--seconds",
        "0.2",
        "--omit",
        "0.1",
        "--rules",
        "50",
        "--directions",
        "down",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["format"], "linerate-tune");
    crate::schema::assert_fits("tune", &answer);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let again = &answer["analysis"]["candidates"][1];
    assert_eq!(again["name"], "one-cpu-again");
    let verdict = again["verdict"].to_string();
    assert!(!verdict.contains("etter") && !verdict.contains("orse"), "{verdict}");
    assert!(place.dir.join("linerate-result.json").exists());
}
