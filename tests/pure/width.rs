//! Text fits the terminal, whatever its width, is ASCII where the locale is, and is not there with `-q`;
//! what is JSON says its format.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::program;
use crate::scene::big;

const BOARD: &str = "fixtures/hosts/rk3576-8-r8169x2-6.1";
const SWITCH: &str = "fixtures/hosts/armada385-2-mvneta+mv88e6xxx-5.15";

/// What is shown of a captured machine.
const OF_HOST: &[&str] = &[
    "show",
    "show cpus",
    "show nics",
    "show irqs",
    "show stack",
    "show path",
    "show kernel",
    "show knobs",
    "check",
    "check --losses",
    "plan",
    "plan --explain rps-cpus",
];

/// What is shown of files, or of nothing but the program.
const OF_FILES: &[&str] = &[
    "check --list",
    "plan --recipe list",
    "kernel check fixtures/kernel/debian-6.1.192-amd64.config.gz -v",
    "kernel diff fixtures/kernel/debian-6.1.192-amd64.config.gz fixtures/kernel/debian-6.1.192-cloud.config.gz --all",
    "kernel diff fixtures/kernel/debian-6.1.192-amd64.config.gz fixtures/kernel/debian-6.1.192-rt.config.gz",
    "report fixtures/experiments/r76s-steps.json",
    "report fixtures/experiments/fg50e-2x2x2.json",
    "report fixtures/experiments/lab-2cpu-nat300.json",
    "report fixtures/formats/sweep-v1.json",
    "bench --list",
    "fit fixtures/experiments/lab-2cpu-nat300.json",
    "compare fixtures/experiments/r4s-placement.json fixtures/experiments/r4s-placement.json",
    "compare --fleet fixtures/experiments",
    "compare --fleet fixtures/hosts",
    "rank fixtures/formats/board-v1.json",
];

fn host(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    let packed = path.join("capture.tar.gz");
    if packed.exists() { packed } else { path }
}

/// Runs a command in the directory of the sources; a plan goes nowhere.
fn run(
    line: &str,
    of: Option<&str>,
    columns: usize,
    change: impl Fn(&mut Command) -> &mut Command,
) -> Output {
    let mut command = Command::new(program::path());
    command.args(line.split(' ')).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.env("COLUMNS", columns.to_string()).env("LC_ALL", "C.UTF-8");
    if let Some(of) = of {
        command.arg("--host").arg(host(of));
    }
    if line == "plan" {
        command.args(["-o", "/dev/null"]);
    }
    change(&mut command);
    command.output().unwrap()
}

fn known(line: &&str) -> bool {
    program::has(line.split(' ').next().unwrap())
}

fn fits(columns: usize) {
    let of_host = [BOARD, SWITCH].into_iter();
    let of_host = of_host.flat_map(|host| OF_HOST.iter().map(move |line| (*line, Some(host))));
    let of_files = OF_FILES.iter().copied().filter(known).map(|line| (line, None));
    for (line, of) in of_host.chain(of_files) {
        let output = run(line, of, columns, |c| c);
        let text = String::from_utf8(output.stdout).unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1 | 6)), "{line}: {told}");
        assert!(!text.is_empty(), "{line}: {told}");
        let long: Vec<_> = text.lines().filter(|l| l.chars().count() > columns).collect();
        assert!(long.is_empty(), "{line} at {columns}: {long:#?}");
    }
}

#[test]
fn text_fits_in_60_columns() {
    fits(60);
}

#[test]
fn text_fits_in_80_columns() {
    fits(80);
}

#[test]
fn text_fits_in_120_columns() {
    fits(120);
}

#[test]
fn prose_is_not_stretched_over_200_columns() {
    fits(200);
    let output = run("check", Some(BOARD), 200, |c| c);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn the_c_locale_gets_ascii() {
    let mut others = 0;
    for line in OF_HOST {
        for of in [BOARD, SWITCH] {
            let text = |locale: &str| run(line, Some(of), 80, |c| c.env("LC_ALL", locale)).stdout;
            assert!(text("C").is_ascii(), "{line}");
            others += usize::from(!text("C.UTF-8").is_ascii());
        }
    }
    assert!(others > 0, "nothing of it would be anything but ASCII");
}

#[test]
fn quiet_commands_say_nothing_and_end_as_they_would() {
    let of_host = OF_HOST.iter().map(|line| (*line, Some(BOARD)));
    let of_files = OF_FILES.iter().copied().filter(known).map(|line| (line, None));
    for (line, of) in of_host.chain(of_files) {
        let (loud, quiet) = (run(line, of, 80, |c| c), run(line, of, 80, |c| c.arg("-q")));
        assert_eq!(loud.status.code(), quiet.status.code(), "{line}");
        assert_eq!(String::from_utf8(quiet.stdout).unwrap(), "", "{line}");
        assert_eq!(String::from_utf8(quiet.stderr).unwrap(), "", "{line}");
    }
}

#[test]
fn every_json_says_its_format_and_version() {
    let of_host = OF_HOST.iter().map(|line| (*line, Some(BOARD)));
    let of_files = OF_FILES.iter().copied().filter(known).map(|line| (line, None));
    for (line, of) in of_host.chain(of_files) {
        let output = run(line, of, 80, |c| c.arg("--json"));
        let value: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{line}: {e}"));
        let format = value["format"].as_str().unwrap_or_else(|| panic!("{line}: no format"));
        assert!(format.starts_with("linerate-"), "{line}: {format}");
        assert!(value["version"].is_u64(), "{line}");
        assert!(quiet_json(line, of) == value, "{line}: another answer with -q");
    }
}

/// `-q` says nothing, but JSON was asked for.
fn quiet_json(line: &str, of: Option<&str>) -> serde_json::Value {
    let output = run(line, of, 80, |c| c.args(["--json", "-q"]));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_first_line_says_where_packets_are_and_what_the_plan_should_give() {
    let output = run("show", Some(BOARD), 200, |c| c);
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap();
    let expected =
        "all packets are handled on CPU0; `linerate plan` should give about 2.7 times down";
    assert!(first.starts_with(expected), "{first}");
    let plan = String::from_utf8(run("plan", Some(BOARD), 200, |c| c).stdout).unwrap();
    let (_, gain) = first.split_once("should give ").unwrap();
    assert!(plan.lines().next().unwrap().contains(gain), "the plan says otherwise: {plan}");
}

#[test]
fn the_plan_of_a_machine_of_96_cpus_is_read_on_one_page() {
    let size = big::Size { cpus: 96, cards: 2, queues: 48, lines: 200 };
    let name = format!("linerate-page-{}.tar.gz", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, crate::scene::archive(&big::machine(size), 1)).unwrap();
    let lines = |more: &[&str]| {
        let text = run("plan", None, 80, |c| {
            c.args(["--candidate", "irq-spread-rps", "--host"]).arg(&file).args(more)
        });
        String::from_utf8(text.stdout).unwrap().lines().count()
    };
    let (short, whole) = (lines(&[]), lines(&["-v"]));
    drop(std::fs::remove_file(&file));
    assert!(short > 20 && short < 60, "{short} lines");
    assert!(whole > 192, "each of the 192 settings has a line with -v, of {whole}");
}
