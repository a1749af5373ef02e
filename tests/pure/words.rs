//! Plain English in the sources: a doc comment opens with its subject, and words that readers stumble
//! over stay out. The rooms that are clean are listed; the list grows until it is all of `src/`.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms, files and folders of `src/` whose doc comments open with their subject.
const CLEAN: &[&str] = &[
    "change",
    "cli/agent.rs",
    "cli/apply.rs",
    "cli/capture.rs",
    "cli/check",
    "cli/confirm.rs",
    "cli/context.rs",
    "cli/event.rs",
    "cli/interrupt.rs",
    "cli/persist.rs",
    "cli/profile.rs",
    "cli/rank.rs",
    "cli/record.rs",
    "cli/report.rs",
    "cli/rollback.rs",
    "cli/shared/session.rs",
    "cli/shared/waiting.rs",
    "cli/shared/watching.rs",
    "cli/status.rs",
    "cli/top",
    "cli/tune",
    "cli/verify.rs",
    "cli/watch",
    "decide/diagnose",
    "decide/experiment",
    "decide/kernel",
    "decide/mod.rs",
    "decide/plan/baseline.rs",
    "decide/plan/candidates.rs",
    "decide/plan/channels.rs",
    "decide/plan/choice.rs",
    "decide/plan/cores.rs",
    "decide/plan/cost.rs",
    "decide/plan/costs.rs",
    "decide/plan/factor",
    "decide/plan/flow.rs",
    "decide/plan/gain.rs",
    "decide/plan/index.rs",
    "decide/plan/intake.rs",
    "decide/plan/judge.rs",
    "decide/plan/lookup.rs",
    "decide/plan/mod.rs",
    "decide/plan/not_made.rs",
    "decide/plan/owned.rs",
    "decide/plan/places.rs",
    "decide/plan/planned.rs",
    "decide/plan/pose.rs",
    "decide/plan/problem.rs",
    "decide/plan/profile.rs",
    "decide/plan/recipe.rs",
    "decide/plan/search.rs",
    "decide/plan/spread.rs",
    "decide/plan/tests",
    "decide/plan/tests.rs",
    "decide/plan/traffic.rs",
    "decide/plan/unsteered.rs",
    "decide/plan/way.rs",
    "decide/plan/worlds.rs",
    "decide/profile",
    "decide/rank",
    "decide/watch",
    "error.rs",
    "lib.rs",
    "machine/capture",
    "machine/discover",
    "machine/host",
    "machine/mod.rs",
    "machine/parse",
    "machine/store",
    "machine/sys",
    "main.rs",
    "measure",
    "model/bisect.rs",
    "model/board.rs",
    "model/capacity.rs",
    "model/condition.rs",
    "model/cpuset.rs",
    "model/ethernet.rs",
    "model/evidence.rs",
    "model/feature.rs",
    "model/finding.rs",
    "model/goal.rs",
    "model/histogram.rs",
    "model/identity.rs",
    "model/kconfig.rs",
    "model/knob",
    "model/measurement.rs",
    "model/mod.rs",
    "model/nic.rs",
    "model/order.rs",
    "model/party.rs",
    "model/path.rs",
    "model/plan.rs",
    "model/snapshot.rs",
    "model/stack.rs",
    "model/starved.rs",
    "model/sweep.rs",
    "model/telemetry.rs",
    "model/units.rs",
    "model/watch.rs",
    "report",
];

/// Words with which no doc comment opens: they point at something instead of naming it.
const BARE: &[&str] = &["Its", "What", "Of", "Whether"];

/// Words that are nowhere in clean rooms, and the field's words for them.
const ODD: &[(&str, &str)] = &[
    ("foretold", "predicted"),
    ("leash", "watchdog"),
    ("mercy", "grace period"),
    ("crew", "workers"),
    ("can't be meant", "is invalid"),
    ("handing over", "hand-off"),
    ("handed over", "hand-off"),
];

fn files(below: &Path) -> Vec<PathBuf> {
    if below.is_file() {
        return vec![below.to_owned()];
    }
    let entries = fs::read_dir(below).unwrap_or_else(|e| panic!("{}: {e}", below.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths.flat_map(|path| files(&path)).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    found.sort();
    found
}

/// The text of a doc comment's line.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// The lines of a source that are at odds, as `line: why`.
fn odd(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut within = false;
    for (number, line) in (1..).zip(text.lines()) {
        let doc = doc(line).filter(|doc| !doc.is_empty());
        let first = doc.and_then(|doc| doc.split([' ', '.', ',']).next());
        if let Some(word) = first.filter(|word| !within && BARE.contains(word)) {
            found.push(format!("{number}: the doc comment opens with a bare {word}"));
        }
        within = doc.is_some();
        let lower = line.to_lowercase();
        for (word, better) in ODD.iter().filter(|(word, _)| lower.contains(word)) {
            found.push(format!("{number}: \"{word}\"; say: {better}"));
        }
    }
    found
}

#[test]
fn doc_comments_open_with_their_subject_and_use_the_words_of_the_field() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for path in CLEAN.iter().flat_map(|room| files(&src.join(room))) {
        let name = path.strip_prefix(&src).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        wrong.extend(odd(&text).into_iter().map(|why| format!("src/{name}:{why}")));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn what_is_odd_is_found_and_what_only_looks_so_is_not() {
    let told = "/// Whether it is so.\nfn a();\n\n    /// Name.\n    ///\n    /// What follows.\n\
                //! Of what.\n// It was foretold.\n";
    let lines: Vec<String> =
        odd(told).iter().map(|why| why.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["1", "6", "8"]);
    let plain =
        "/// True if it is so:\n/// What follows is one sentence.\n/// Whatever it is.\n// Its\n";
    assert_eq!(odd(plain), Vec::<String>::new());
}
