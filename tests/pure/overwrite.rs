//! Nothing that is there already is overwritten without `--force`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::program::{self, has};

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = format!("linerate-overwrite-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn run(&self, line: &str) -> Output {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let line = line.replace("FIXTURES", fixtures.to_str().unwrap());
        let mut command = Command::new(program::path());
        command.args(line.split(' ')).current_dir(&self.0).env("COLUMNS", "200");
        command.output().unwrap()
    }

    fn names(&self, start: &str) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(start)).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_file_that_is_there_is_overwritten_by_force_alone() {
    let place = Place::new("named");
    let host = "--host FIXTURES/hosts/rk3399-6-dwmac+r8169-5.4";
    let verbs = [
        ("plan", format!("plan -o FILE {host}")),
        ("report", "report FIXTURES/formats/result-v1.json -o FILE".to_owned()),
        (
            "compare",
            "compare FIXTURES/formats/result-v1.json FIXTURES/formats/result-v1.json -o FILE"
                .to_owned(),
        ),
        ("rank", "rank FIXTURES/formats/board-v1.json -o FILE".to_owned()),
    ];
    for (verb, line) in verbs.iter().filter(|(verb, _)| has(verb)) {
        let file = place.0.join(format!("{verb}.html"));
        let line = line.replace("FILE", file.to_str().unwrap());
        std::fs::write(&file, "theirs").unwrap();
        let refused = place.run(&line);
        assert_eq!(refused.status.code(), Some(2), "{line}: {}", stderr(&refused));
        let said = stderr(&refused);
        assert!(said.contains("there already") && said.contains("--force"), "{said}");
        assert_eq!(std::fs::read(&file).unwrap(), b"theirs", "{line}");
        let forced = place.run(&format!("{line} --force"));
        assert_eq!(forced.status.code(), Some(0), "{line}: {}", stderr(&forced));
        assert_ne!(std::fs::read(&file).unwrap(), b"theirs", "{line}");
    }
}

#[test]
fn a_usual_name_that_is_taken_costs_nobody_a_file() {
    let place = Place::new("usual");
    let plan = |candidate: &str| {
        let host = "--host FIXTURES/hosts/rk3399-6-dwmac+r8169-5.4";
        let done = place.run(&format!("plan --candidate {candidate} {host}"));
        assert!(done.status.success(), "{}", stderr(&done));
        stderr(&done)
    };
    plan("one-cpu");
    let first = std::fs::read(place.0.join("plan.toml")).unwrap();
    plan("one-cpu");
    assert_eq!(place.names("plan"), ["plan.toml"], "the same plan twice");
    let said = plan("rps-all");
    let kept = place.names("plan-");
    assert_eq!(kept.len(), 1, "{said}");
    assert!(said.contains(&kept[0]), "{said}");
    assert_eq!(std::fs::read(place.0.join(&kept[0])).unwrap(), first);
    assert_ne!(std::fs::read(place.0.join("plan.toml")).unwrap(), first);
    for count in [1, 2] {
        let done = place.run("capture --samples 0");
        assert!(done.status.success(), "{}", stderr(&done));
        assert_eq!(place.names("linerate-capture").len(), count);
    }
    if has("report") {
        let result = "formats/result-v1.json";
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(result);
        std::fs::copy(from, place.0.join("linerate-result-20261122-164000.json")).unwrap();
        let done = place.run("report");
        assert!(done.status.success(), "the newest one is meant: {}", stderr(&done));
    }
}
