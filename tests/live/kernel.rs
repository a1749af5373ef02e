//! `linerate kernel`: on configurations of distributions, on broken ones, and a whole bisect; and
//! `linerate profile` on the running kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::program;
use serde_json::Value;

fn debian(flavour: &str) -> PathBuf {
    let name = format!("fixtures/kernel/debian-6.1.192-{flavour}.config.gz");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("linerate-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn kernel(&self, args: &[&str]) -> Output {
        let mut command = Command::new(program::path());
        command.arg("kernel").args(args).current_dir(&self.0).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.kernel(&[args, &["--json"]].concat());
        let told = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
        crate::schema::assert_fits("kernel", &told);
        told
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_distributions_kernels_raise_no_alarm_but_the_one_for_low_latency() {
    let scratch = Scratch::new("kernel-check");
    for (flavour, code) in [("amd64", 0), ("cloud", 0), ("rt", 1)] {
        let output = scratch.kernel(&["check", debian(flavour).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(code), "{flavour}: {}", out(&output));
        assert_eq!(out(&output).contains("PREEMPT_RT is on"), flavour == "rt");
    }
    // The same kernel, with the two culprits of the field report built in.
    let slow = "# Linux/arm64 6.1.21-v8+ Kernel Configuration\r\nCONFIG_SMP=y\r\nCONFIG_PREEMPT=y\r\n\
                CONFIG_IRQSOFF_TRACER=y\r\nCONFIG_IRQSOFF_TRACER=y\r\nCONFIG_NEW_AND_UNKNOWN=y\r\n";
    let slow = scratch.file("slow.config", slow.as_bytes());
    let output = scratch.kernel(&["check", slow.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    for words in ["PREEMPT is on", "394 of 669", "IRQSOFF_TRACER is on", "669 of 1100"] {
        assert!(out(&output).contains(words), "{words}: {}", out(&output));
    }
    let output = scratch.kernel(&["check", slow.to_str().unwrap(), "--fail-on", "critical"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn what_is_no_configuration_is_refused_with_its_reason() {
    let scratch = Scratch::new("kernel-bad");
    let whole = fs::read(debian("cloud")).unwrap();
    let big = scratch.0.join("big");
    fs::File::create(&big).unwrap().set_len(100 << 20).unwrap();
    let cases = [
        (scratch.file("cut.gz", &whole[..whole.len() / 2]), "cut short"),
        (scratch.file("text", b"hello\nworld\n"), "no line with an option"),
        (scratch.file("empty", b""), "no line with an option"),
        (big, "far too long"),
        (scratch.0.join("none"), "no such file"),
    ];
    for (path, why) in cases {
        let output = scratch.kernel(&["check", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{}", path.display());
        assert!(err(&output).contains(why), "{why}: {}", err(&output));
        assert!(err(&output).contains("hint:"), "{}", err(&output));
    }
}

#[test]
fn what_matters_of_a_difference_comes_first() {
    let scratch = Scratch::new("kernel-diff");
    let (plain, rt) = (debian("amd64"), debian("rt"));
    let told = scratch.json(&["diff", plain.to_str().unwrap(), rt.to_str().unwrap()]);
    assert_eq!(told["choices"][0]["name"], "PREEMPT", "{told}");
    assert!(told["choices"][0]["why"].as_str().unwrap().contains("threads"));
    let text = out(&scratch.kernel(&["diff", plain.to_str().unwrap(), rt.to_str().unwrap()]));
    assert!(text.contains("PREEMPT_VOLUNTARY: y -> n") && text.contains("PREEMPT_RT: - -> y"));
    // A configuration against itself; a long path folds the line.
    let same = out(&scratch.kernel(&["diff", rt.to_str().unwrap(), rt.to_str().unwrap()]));
    let words: Vec<&str> = same.split_whitespace().collect();
    assert!(words.join(" ").contains("0 choices differ"), "{same}");
    let arm = scratch.file("arm", b"# Linux/arm64 5.4.0 Kernel Configuration\nCONFIG_SMP=y\n");
    let output = scratch.kernel(&["diff", plain.to_str().unwrap(), arm.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(err(&output).contains("two architectures, x86 and arm64"), "{}", err(&output));
}

/// Two options make Debian's cloud kernel slow, one kernel in between does not boot, and one is
/// built otherwise than proposed.
#[test]
#[ignore = "slow: make test runs it"]
fn a_bisect_finds_both_culprits_and_survives_what_happens_on_the_way() {
    let scratch = Scratch::new("kernel-bisect");
    let (a, b) = (debian("amd64"), debian("cloud"));
    let begin = ["bisect", a.to_str().unwrap(), b.to_str().unwrap(), "--keep", "CONFIG_SOUND"];
    let told = scratch.json(&[&begin[..], &["--smallest", "5"]].concat());
    let kept: Vec<&str> =
        told["kept"].as_array().unwrap().iter().map(|k| k.as_str().unwrap()).collect();
    assert!(kept.contains(&"SOUND") && kept.contains(&"EXT4_FS"), "{kept:?}");
    assert!(told["next"]["as_in_b"].as_array().unwrap().is_empty(), "A itself is first");
    let mut kernels = BTreeSet::new();
    let (mut failed, mut otherwise) = (false, false);
    let verdict = loop {
        let told = scratch.json(&["bisect"]);
        let Value::Object(next) = &told["next"] else { break told["verdict"].clone() };
        let as_in_b: BTreeSet<&str> =
            next["as_in_b"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        kernels.insert(as_in_b.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(kernels.len() < 60, "it does not end");
        let config = fs::read_to_string(scratch.0.join("linerate-bisect/next.config")).unwrap();
        assert!(config.contains("CONFIG_EXT4_FS=m") && config.contains("CONFIG_SOUND=m"));
        assert_eq!(!as_in_b.contains("WLAN"), config.contains("CONFIG_WLAN=y"), "as it says");
        let mut rate = 1000.0;
        if as_in_b.contains("WLAN") {
            rate *= 0.6;
        }
        if as_in_b.contains("DRM") {
            rate *= 0.8;
        }
        let rate = rate.to_string();
        let output = match kernels.len() {
            4 if !failed => {
                failed = true;
                scratch.kernel(&["bisect", "--no-boot"])
            }
            6 if !otherwise => {
                // The build turned everything around that it was asked to: it is A.
                otherwise = true;
                let built = debian("amd64");
                scratch.kernel(&["bisect", "--rate", "1000", "--built", built.to_str().unwrap()])
            }
            _ => scratch.kernel(&["bisect", "--rate", &rate]),
        };
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    };
    let culprits: Vec<&str> = verdict["culprits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["choices"][0].as_str().unwrap())
        .collect();
    assert_eq!(BTreeSet::from_iter(culprits), BTreeSet::from(["WLAN", "DRM"]), "{verdict}");
    assert!(kernels.len() <= 36, "{} kernels of 449 choices", kernels.len());
    let text = out(&scratch.kernel(&["bisect"]));
    assert!(text.contains("WLAN y -> n") && text.contains("explain all of it"), "{text}");

    // At the end no answer is taken; one taken back opens it again.
    let output = scratch.kernel(&["bisect", "--rate", "5"]);
    assert_eq!(output.status.code(), Some(2), "{}", out(&output));
    assert!(scratch.json(&["bisect", "--undo"])["next"].is_object());
    // A line cut short is left out, and said.
    let answers = scratch.0.join("linerate-bisect/answers.jsonl");
    let content = fs::read(&answers).unwrap();
    fs::write(&answers, &content[..content.len() - 5]).unwrap();
    let output = scratch.kernel(&["bisect"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(err(&output).contains("cut short"), "{}", err(&output));
    // Another search does not fall into this directory; two architectures are none at all.
    let rt = debian("rt");
    let output = scratch.kernel(&["bisect", a.to_str().unwrap(), rt.to_str().unwrap()]);
    assert!(err(&output).contains("another search"), "{}", err(&output));
    let arm = scratch.file("arm", b"# Linux/arm64 6.1.192 Kernel Configuration\nCONFIG_SMP=y\n");
    let output =
        scratch.kernel(&["bisect", a.to_str().unwrap(), arm.to_str().unwrap(), "--dir", "new"]);
    assert!(err(&output).contains("two architectures"), "{}", err(&output));
    assert!(!scratch.0.join("new").exists());
}

/// Packets through three hundred rules of a lab: most of their time goes to netfilter.
#[test]
#[ignore = "slow: make test runs it"]
fn a_profile_says_that_the_rules_take_the_time() {
    let scratch = Scratch::new("profile");
    let linerate = || {
        let mut command = Command::new(program::path());
        command.current_dir(&scratch.0).env("LINERATE_STATE_DIR", scratch.0.join("state"));
        command
    };
    let probe = linerate().args(["profile", "0.1", "--json"]).output().unwrap();
    if matches!(probe.status.code(), Some(4 | 5)) {
        return eprintln!("SKIPPED (optional) profile: {}", err(&probe));
    }
    assert_eq!(probe.status.code(), Some(0), "{}", err(&probe));
    for attempt in 0.. {
        let mut bench = linerate();
        bench.args(["bench", "nat", "--rules", "300", "--direction", "down", "--seconds", "3"]);
        let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut seen = (0, 0);
        while bench.try_wait().unwrap().is_none() {
            let output =
                linerate().args(["profile", "0.7", "--force", "-o", "f.svg", "--json"]).output();
            let told: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
            crate::schema::assert_fits("profile", &told);
            for cpu in told["cpus"].as_array().unwrap() {
                seen.0 += cpu["packets"].as_u64().unwrap();
                seen.1 += cpu["groups"]["netfilter"].as_u64().unwrap_or(0);
            }
            let svg = fs::read_to_string(scratch.0.join("f.svg")).unwrap();
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        }
        if seen.0 > 100 {
            assert!(seen.1 * 4 > seen.0, "netfilter: {} of {} samples", seen.1, seen.0);
            return;
        }
        assert!(attempt < 5, "no packets are seen while they flow: {seen:?}");
    }
}

/// Sampled by perf and by us at once, while a lab forwards: the dearest functions of packets have
/// the same shares, within two points of a hundred. Samples of the same time are not the same samples,
/// and on a machine that does other things the two do not get the same moments: a fifth of a share
/// that is larger than ten points is allowed.
#[test]
#[ignore = "slow: make test runs it"]
fn a_profile_agrees_with_perf_on_the_dearest_functions() {
    let scratch = Scratch::new("perf");
    if !Command::new("perf").arg("version").output().is_ok_and(|o| o.status.success()) {
        return eprintln!("SKIPPED (optional) profile against perf: no perf here");
    }
    let data = scratch.0.join("perf.data");
    let linerate = || {
        let mut command = Command::new(program::path());
        command.current_dir(&scratch.0).env("LINERATE_STATE_DIR", scratch.0.join("state"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let bench = ["bench", "nat", "--rules", "50", "--direction", "down", "--seconds", "20"];
    let mut bench = linerate().args(bench).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(4));
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-a", "-g", "-F", "997", "-e", "cpu-clock", "-o"]).arg(&data);
    let perf =
        perf.args(["--", "sleep", "12"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let ours = linerate().args(["profile", "12", "--json", "--top", "400"]).output().unwrap();
    let perf = perf.unwrap().wait_with_output().unwrap();
    bench.kill().unwrap();
    bench.wait().unwrap();
    if !perf.status.success() || matches!(ours.status.code(), Some(4 | 5)) {
        return eprintln!("SKIPPED (optional) profile against perf: {} {}", err(&perf), err(&ours));
    }
    let ours: Value = serde_json::from_slice(&ours.stdout).unwrap();
    if ours["source"] != "clock" {
        return eprintln!("SKIPPED (optional) profile against perf: cycles, not the clock");
    }
    let script = Command::new("perf").args(["script", "-F", "ip,sym", "-i"]).arg(&data).output();
    let script = out(&script.unwrap());
    let mut theirs: BTreeMap<String, f64> = BTreeMap::new();
    let mut all = 0.0;
    for chain in script.split("\n\n") {
        let names = chain.lines().filter_map(|line| line.split_whitespace().nth(1));
        let names: Vec<&str> = names.map(|name| name.split('.').next().unwrap()).collect();
        let is_packets = |name: &&str| {
            ["__do_softirq", "handle_softirqs", "do_softirq", "net_rx_action"].contains(name)
        };
        if let (true, Some(first)) = (names.iter().any(is_packets), names.first()) {
            *theirs.entry((*first).to_owned()).or_default() += 1.0;
            all += 1.0;
        }
    }
    let packets: f64 =
        ours["cpus"].as_array().unwrap().iter().map(|c| c["packets"].as_f64().unwrap()).sum();
    if packets < 2000.0 || all < 2000.0 {
        return eprintln!("SKIPPED (optional) profile against perf: {packets} and {all} samples");
    }
    let mut wrong = Vec::new();
    for function in ours["functions"].as_array().unwrap().iter().take(10) {
        let name = function["name"].as_str().unwrap();
        let share = 100.0 * function["samples"].as_f64().unwrap() / packets;
        let other = 100.0 * theirs.get(name).copied().unwrap_or(0.0) / all;
        eprintln!("{name}: {share:.1} % by us, {other:.1} % by perf");
        if (share - other).abs() > f64::max(2.0, other / 5.0) {
            wrong.push(format!("{name}: {share:.1} % by us, {other:.1} % by perf"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?} of {packets} and {all} samples");
}

/// Asked for an hour, so that one that only finds out at the end is one that never comes back.
#[test]
fn a_profile_that_can_not_be_says_why_at_once() {
    let scratch = Scratch::new("denied");
    let program = scratch.0.join("linerate");
    fs::copy(program::path(), &program).unwrap();
    let as_other = |drop: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["120", "setpriv"]).args(drop).arg(&program).args(["profile", "3600"]);
        command.output().unwrap()
    };
    let works = Command::new("setpriv").args(["--bounding-set", "-syslog", "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED (optional) denied profile: no setpriv here, or not root");
    }
    let setting = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().parse::<i32>().ok()
    };
    // Where anybody may look at everything there is nothing to be said.
    if let Some(level) = setting("perf_event_paranoid").filter(|level| *level > 0) {
        let output = as_other(&["--reuid", "65534", "--clear-groups"]);
        assert_eq!(output.status.code(), Some(4), "{}", err(&output));
        let said = err(&output);
        assert!(said.contains(&format!("kernel.perf_event_paranoid is {level} here")), "{said}");
    }
    // CAP_SYSLOG is what /proc/kallsyms asks for; kernel/ksyms_common.c, kallsyms_show_value.
    if setting("perf_event_paranoid").is_some_and(|level| level > 1) {
        let output = as_other(&["--bounding-set", "-syslog"]);
        let said = err(&output);
        if said.contains("perf_event_open") {
            return eprintln!("SKIPPED (optional) profile without symbols: {said}");
        }
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("/proc/kallsyms: it is missing or hides its addresses"), "{said}");
        assert!(said.contains("hint: ") && said.contains("kernel.kptr_restrict"), "{said}");
    }
}
