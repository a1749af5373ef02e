//! `sweep` and `compare` as a user meets them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::alone;
use serde_json::Value;

struct Place {
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("linerate-sweep-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command
            .args(args)
            .current_dir(&self.dir)
            .env("LINERATE_STATE_DIR", self.dir.join("state"))
            // Sentences are looked for in one line.
            .env("COLUMNS", "200")
            .env_remove("RUST_BACKTRACE");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, name: &str) -> Value {
        let kept = serde_json::from_slice(&std::fs::read(self.dir.join(name)).unwrap()).unwrap();
        crate::schema::assert_fits(name, &kept);
        kept
    }

    /// A fixture with something in it changed.
    fn changed(&self, fixture: &str, name: &str, change: impl FnOnce(&mut Value)) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/formats").join(fixture);
        let mut value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        change(&mut value);
        std::fs::write(self.dir.join(name), value.to_string()).unwrap();
        name.to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a lab can be had; says so if not.
fn labs(what: &str) -> bool {
    use linerate::error::ExitCode;
    use linerate::measure::lab::{Lab, LabSpec};
    match Lab::build(&LabSpec::default()) {
        Ok(_) => true,
        Err(e) if matches!(e.code(), ExitCode::NotPermitted | ExitCode::NotSupported) => {
            eprintln!("SKIPPED {what}: {e}");
            false
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn what_can_not_be_swept_is_a_usage_error_before_anything_is_built() {
    let place = Place::new("usage");
    for (args, words) in [
        (&["rate", "--seconds", "0"][..], &["more than 0"][..]),
        (&["rate", "-P", "10000"], &["from 1 to 128"]),
        (&["rate", "--to", "-5"], &["-5", "must be more than 0"]),
        (&["rate", "--to", "1e99"], &["less than"]),
        (&["rate", "--to", "nan"], &["nan"]),
        (&["rate", "--from", "50", "--to", "20"], &["50", "20"]),
        (&["rate", "--loss", "100"], &["percentage"]),
        (&["rate", "--direction", "both"], &["one way", "hint"]),
        (&["rate", "--sizes", "64"], &["--frame"]),
        (&["rate", "--frame", "9000"], &["9000", "1518", "--mtu"]),
        (&["frame", "--sizes", "64,63"], &["63", "from 64 to 1518"]),
        (&["mss", "--sizes", "87"], &["87", "88"]),
        (&["mss", "--to", "5"], &["TCP", "hint"]),
        (&["mtu", "--sizes", "99999"], &["99999"]),
        (&["frame", "--preset", "rfc1"], &["rfc2544"]),
        (&["rate", "-o", "no/dir/x.json"], &["no such directory", "mkdir"]),
        (&[], &["WHAT"]),
    ] {
        let output = place.run(&[&["sweep"], args].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(words.iter().all(|w| text.contains(w)), "{args:?}: {words:?} not in {text}");
        assert_eq!(text.lines().filter(|l| l.starts_with("linerate: ")).count(), 1, "{text}");
    }
    assert!(!place.dir.join("state").exists(), "nothing was begun");
}

#[test]
fn a_rate_that_the_router_carries_is_at_or_above_it_and_has_no_knee() {
    let _alone = alone();
    if !labs("a_rate_that_the_router_carries_is_at_or_above_it_and_has_no_knee") {
        return;
    }
    let place = Place::new("rate");
    let args =
        "sweep rate --to 2 --steps 3 --repeats 2 --run 0.3 -P 1 --seconds 30 -o s.json --json";
    let output = place.run(&args.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, place.json("s.json"), "what is printed is what is kept");
    assert_eq!((&printed["format"], &printed["version"]), (&"linerate-sweep".into(), &1.into()));
    assert_eq!(printed["class"], "lab");
    let points = printed["points"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    for point in points {
        assert_eq!(point["frame"], 1518);
        // A busy machine may starve the sender; then it says so.
        let starved = point["limit"] == "sender";
        assert!(starved || point["sent"].as_u64().unwrap() >= 4, "{point}");
    }
    let search = &printed["searches"][0];
    for result in search["results"].as_array().unwrap() {
        assert_ne!(result["outcome"], "below-minimum", "{search}");
    }
    assert_eq!(search["results"].as_array().unwrap().len(), 2, "NDR and PDR");
}

#[test]
fn segments_and_packet_sizes_stand_beside_the_wire_arithmetic() {
    let _alone = alone();
    if !labs("segments_and_packet_sizes_stand_beside_the_wire_arithmetic") {
        return;
    }
    let place = Place::new("mss");
    let run = |what: &str, sizes: &str| {
        let output = place.run(&[
            "sweep",
            what,
            "--sizes",
            sizes,
            "--run",
            "0.2",
            "--repeats",
            "1",
            "-P",
            "2",
            "--force",
            "-o",
            "m.json",
        ]);
        assert!([0, 6].contains(&output.status.code().unwrap()), "{}", stderr(&output));
        stdout(&output)
    };
    let text = run("mss", "88,1460");
    let row = text
        .lines()
        .find(|l| l.trim_start().starts_with("88 "))
        .unwrap_or_else(|| panic!("{text}"));
    for cell in ["146", "166", "753012"] {
        assert!(row.split_whitespace().any(|word| word == cell), "{cell} is not in {row}");
    }
    let text = run("mtu", "1500,576");
    let row = text
        .lines()
        .find(|l| l.trim_start().starts_with("1500 "))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains("1538") && row.contains("941.5"), "{row}");
    let sizes: Vec<_> = place.json("m.json")["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [576, 1500], "each size was measured in a lab of its own");
}

#[test]
fn what_was_measured_before_ctrl_c_is_kept() {
    let _alone = alone();
    if !labs("what_was_measured_before_ctrl_c_is_kept") {
        return;
    }
    let place = Place::new("interrupt");
    let args = "sweep rate --to 2 --steps 100 --repeats 100 --run 0.2 -P 1 --seconds 600 -o s.json";
    let mut command = place.command(&args.split(' ').collect::<Vec<_>>());
    command.env("TERM", "dumb");
    let mut session = rexpect::session::spawn_command(command, Some(90_000)).unwrap();
    // The progress line of the first point.
    session.exp_string("bytes: ").unwrap();
    session.send_control('c').unwrap();
    let said = session.exp_eof().unwrap();
    let status = session.process.wait().unwrap();
    assert!(
        matches!(status, rexpect::process::wait::WaitStatus::Exited(_, 130)),
        "{status:?}: {said}"
    );
    let kept = place.json("s.json");
    assert_eq!(kept["ended"], "interrupted");
    assert!(!kept["points"].as_array().unwrap().is_empty(), "{kept}");
    assert!(said.contains("stopped before it was finished"), "{said}");
}

#[test]
fn files_that_are_not_of_one_kind_are_compared_only_when_told() {
    let place = Place::new("kinds");
    let sweep = place.changed("sweep-v1.json", "sweep.json", |_| {});
    let result = place.changed("result-v1.json", "result.json", |_| {});
    let wire = place.changed("sweep-v1.json", "wire.json", |v| v["class"] = "wire".into());
    let rules =
        place.changed("sweep-v1.json", "rules.json", |v| v["scenario"]["rules"] = 300.into());
    for (other, why) in
        [(&result, "records of"), (&wire, "evidence lab and wire"), (&rules, "rules")]
    {
        let output = place.run(&["compare", &sweep, other]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(why) && text.contains("--anyway"), "{text}");
    }
    let output = place.run(&["compare", "--anyway", &sweep, &wire]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("not of one kind: evidence lab and wire"));
    let missing = place.run(&["compare", &sweep, "none.json"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("none.json") && stderr(&missing).contains("hint: "));
}

#[test]
fn repeats_give_an_interval_and_a_floor_gives_no_ratio() {
    let place = Place::new("intervals");
    let result = place.changed("result-v1.json", "result.json", |_| {});
    let output = place.run(&["compare", "--json", &result, &result]);
    let same: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(same["format"], "linerate-compare");
    let rows = same["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let ratio = row["ratio"].as_f64().unwrap();
        assert!((ratio - 1.0).abs() < 1e-12, "{row}");
        let many = row["values_a"].as_u64().unwrap() > 1;
        assert_eq!(row["interval"].is_array(), many, "{row}");
    }
    assert!(same["doubts"][0].as_str().unwrap().contains("two times"));
    // The fixture's NDR held at the maximum; found 10 % lower, there is still no ratio.
    let floor = place.changed("sweep-v1.json", "floor.json", |_| {});
    let found = place.changed("sweep-v1.json", "found.json", |v| {
        for result in v["searches"][0]["results"].as_array_mut().unwrap() {
            result["outcome"] = "found".into();
            result["upper"] = (result["lower"].as_f64().unwrap() * 0.9).into();
            result["lower"] = (result["lower"].as_f64().unwrap() * 0.89).into();
        }
    });
    let text = stdout(&place.run(&["compare", &floor, &found]));
    assert!(text.contains("at or above") && text.contains("no ratio"), "{text}");
    let text = stdout(&place.run(&["compare", &found, &found]));
    assert!(text.contains("no interval possible") && text.contains("1.000"), "{text}");
}

#[test]
fn a_disk_that_is_full_at_the_end_does_not_take_what_was_measured() {
    let _alone = alone();
    if !labs("a_disk_that_is_full_at_the_end_does_not_take_what_was_measured") {
        return;
    }
    let place = Place::new("full");
    let quick = ["sweep", "mss", "--sizes", "1460", "--repeats", "1", "--run", "0.2"];
    let ran = place.run(&[&quick[..], &["-o", "/dev/full"]].concat());
    assert_eq!(ran.status.code(), Some(5), "{}", stderr(&ran));
    assert!(stderr(&ran).contains("no space left"), "{}", stderr(&ran));
    assert!(
        stdout(&ran).contains("1460") && stdout(&ran).contains("evidence:"),
        "{}",
        stdout(&ran)
    );
}

#[test]
fn a_record_can_be_reported_on_and_one_that_is_cut_short_is_refused_in_words() {
    let place = Place::new("report");
    let whole = place.changed("sweep-v1.json", "sweep.json", |_| ());
    let text = place.run(&["report", &whole]);
    assert_eq!(text.status.code(), Some(0), "{}", stderr(&text));
    assert!(stdout(&text).contains("NDR (0.00 % lost)"), "{}", stdout(&text));
    for (name, begins) in [("s.html", "<!DOCTYPE html>"), ("s.md", "# linerate: sweep of rate")] {
        let ran = place.run(&["report", &whole, "-o", name]);
        assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
        let written = std::fs::read_to_string(place.dir.join(name)).unwrap();
        assert!(written.starts_with(begins), "{written}");
    }
    let bytes = std::fs::read(place.dir.join(&whole)).unwrap();
    std::fs::write(place.dir.join("half.json"), &bytes[..bytes.len() / 2]).unwrap();
    let half = place.run(&["report", "half.json"]);
    assert_eq!(half.status.code(), Some(2));
    assert!(stderr(&half).contains("cut short"), "{}", stderr(&half));
}
