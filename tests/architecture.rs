//! Which module may know of which: effects outside, knowledge inside.
//!
//! The modules under src/ form layers; `ALLOWED` is the table of the edges between them, and a path
//! `crate::x` (or `super::` up to the root) in the source that is not in the table fails, by file and
//! line. Test code (`#[cfg(test)]`, files named tests.rs) may use what it likes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, reason = "tests set their own scene")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Module, and the modules it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    // Pure: the same input gives the same output.
    ("model", &[]),
    ("exit_code", &[]),
    ("error", &["exit_code"]),
    ("parse", &["model"]),
    ("plan", &["model"]),
    // Judges a placement by the planner's cost model, and the kernel by its table of options.
    ("diagnose", &["model", "plan", "kernel"]),
    ("kernel", &["model"]),
    ("profile", &["model"]),
    ("experiment", &["model"]),
    ("rank", &["model"]),
    // Shares the statistics.
    ("search", &["model", "experiment"]),
    // The system: `sys` makes the calls, `host` is the door that everything else goes through.
    ("sys", &["model"]),
    ("host", &["model", "parse", "sys"]),
    // Reads the system.
    ("discover", &["model", "parse", "host", "error", "exit_code"]),
    ("sample", &["model", "parse", "host", "error", "exit_code"]),
    ("capture", &["host"]),
    // Our own files.
    ("store", &["model", "error", "exit_code"]),
    // Writes the system.
    ("apply", &["model", "parse", "host", "sys", "store", "error", "exit_code"]),
    // Reads back what `apply` would write, by its names for places; writes nothing.
    ("verify", &["model", "parse", "host", "apply", "error", "exit_code"]),
    // Writes ordinary files; settings only through `apply`.
    ("persist", &["model", "parse", "host", "discover", "store", "apply", "error", "exit_code"]),
    ("lab", &["model", "parse", "host", "sys", "store", "error", "exit_code"]),
    // Makes traffic and measures it.
    ("load", &["model", "host", "sys", "error", "exit_code"]),
    // Serves and asks for one side of a load; reads settings by `apply`'s names, writes none.
    (
        "agent",
        &[
            "model",
            "parse",
            "host",
            "sys",
            "discover",
            "apply",
            "load",
            "sample",
            "error",
            "exit_code",
        ],
    ),
    (
        "bench",
        &[
            "model",
            "host",
            "sys",
            "experiment",
            "search",
            "lab",
            "load",
            "sample",
            "agent",
            "error",
            "exit_code",
        ],
    ),
    // Puts the stages together.
    (
        "tune",
        &[
            "model",
            "parse",
            "host",
            "sys",
            "discover",
            "plan",
            "experiment",
            "search",
            "store",
            "apply",
            "verify",
            "lab",
            "load",
            "sample",
            "bench",
            "error",
            "exit_code",
        ],
    ),
    // On top; nothing imports them.
    ("report", &["model", "experiment", "rank", "profile", "error", "exit_code"]),
    (
        "cli",
        &[
            "model",
            "parse",
            "host",
            "sys",
            "discover",
            "plan",
            "kernel",
            "profile",
            "experiment",
            "search",
            "store",
            "apply",
            "verify",
            "persist",
            "lab",
            "load",
            "sample",
            "agent",
            "bench",
            "tune",
            "capture",
            "diagnose",
            "rank",
            "report",
            "error",
            "exit_code",
        ],
    ),
    // The program and the list of modules.
    ("main", &["cli", "exit_code"]),
];

const LONG: usize = 500;
const TOO_LONG: usize = 800;
const MAIN_LIMIT: usize = 40;

/// A source file: its path below src/, and its text.
struct Source {
    path: String,
    text: String,
}

/// Reads every Rust file under `directory`.
fn sources(directory: &Path) -> Vec<Source> {
    let mut todo = vec![directory.to_owned()];
    let mut found = Vec::new();
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                found.push(Source { path: name, text: fs::read_to_string(&path).unwrap() });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// All that is wrong with a set of files, as `src/file:line: rule`.
fn violations(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources {
        let code = without_text(&source.text);
        for (line, found) in tokens(&code) {
            if found == "unsafe" && !source.path.starts_with("sys/") {
                wrong.push(format!("src/{}:{line}: unsafe is only for src/sys", source.path));
            }
        }
        let lines = source.text.lines().count();
        if lines > TOO_LONG {
            wrong
                .push(format!("src/{}:{lines}: more than {TOO_LONG} lines; split it", source.path));
        }
        if source.path == "main.rs" && lines >= MAIN_LIMIT {
            wrong.push(format!(
                "src/main.rs:{lines}: main reads as the story, under {MAIN_LIMIT} lines"
            ));
        }
        let module = top_module(&source.path);
        if is_test_file(&source.path) || module == "lib" || module == "testing" {
            continue;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("src/{}:1: module {module} is not in the table", source.path));
            continue;
        };
        for (line, used) in edges(&source.path, &without_tests(&code)) {
            if used != module && !allowed.contains(&used.as_str()) {
                let rule = if used == "testing" {
                    "testing is for tests only".to_owned()
                } else {
                    format!("{module} may use [{}], not {used}", allowed.join(", "))
                };
                wrong.push(format!("src/{}:{line}: {rule}", source.path));
            }
        }
    }
    wrong
}

fn top_module(path: &str) -> &str {
    path.split('/').next().unwrap().trim_end_matches(".rs")
}

fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// How many `super::` lead from a file to the root of the crate: 1 for a module of the top level.
fn depth(path: &str) -> usize {
    let parts = path.split('/').count();
    if path.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// The code with comments, strings and characters blanked, lines kept.
fn without_text(text: &str) -> String {
    let c: Vec<char> = text.chars().collect();
    let at = |i: usize| c.get(i).copied().unwrap_or('\0');
    let mut out = String::new();
    let mut i = 0;
    let blank = |from: usize, to: usize, out: &mut String| {
        out.extend(c[from..to.min(c.len())].iter().map(|ch| if *ch == '\n' { '\n' } else { ' ' }));
    };
    while i < c.len() {
        let start = i;
        if at(i) == '/' && at(i + 1) == '/' {
            while i < c.len() && at(i) != '\n' {
                i += 1;
            }
        } else if at(i) == '/' && at(i + 1) == '*' {
            let mut level = 0;
            loop {
                if at(i) == '/' && at(i + 1) == '*' {
                    level += 1;
                    i += 2;
                } else if at(i) == '*' && at(i + 1) == '/' {
                    level -= 1;
                    i += 2;
                } else {
                    i += 1;
                }
                if level == 0 || i >= c.len() {
                    break;
                }
            }
        } else if let Some(hashes) = raw_string(&c, i) {
            let close: String = std::iter::once('"').chain("#".repeat(hashes).chars()).collect();
            i += hashes + 2;
            while i < c.len() && !c[i..].iter().take(hashes + 1).collect::<String>().eq(&close) {
                i += 1;
            }
            i += hashes + 1;
        } else if at(i) == '"' {
            i += 1;
            while i < c.len() && at(i) != '"' {
                i += if at(i) == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if at(i) == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            // A character; a lifetime has no closing quote right behind its first letter.
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < c.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
        } else {
            out.push(at(i));
            i += 1;
            continue;
        }
        blank(start, i, &mut out);
    }
    out
}

/// The number of hashes of a raw string that starts here (`r"`, `r#"`; the `b` or `c` before stays).
fn raw_string(c: &[char], i: usize) -> Option<usize> {
    let before_is_word =
        i > 0 && (c[i - 1].is_alphanumeric() || c[i - 1] == '_') && !matches!(c[i - 1], 'b' | 'c');
    if c[i] != 'r' || before_is_word {
        return None;
    }
    let hashes = c[i + 1..].iter().take_while(|ch| **ch == '#').count();
    (c.get(i + 1 + hashes) == Some(&'"')).then_some(hashes)
}

/// The code with every `#[cfg(test)]` item blanked, lines kept.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = code.to_owned();
    while let Some(start) = out.find(MARK) {
        let mut level = 0_i32;
        let mut end = out.len();
        for (offset, ch) in out[start + MARK.len()..].char_indices() {
            match ch {
                '{' => level += 1,
                '}' => level -= 1,
                _ => {}
            }
            if (ch == '}' || ch == ';') && level == 0 {
                end = start + MARK.len() + offset + 1;
                break;
            }
        }
        let blanked: String =
            out[start..end].chars().map(|ch| if ch == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(start..end, &blanked);
    }
    out
}

/// Words and single punctuation characters with their line.
fn tokens(code: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut word = String::new();
        for ch in line.chars().chain([' ']) {
            if ch.is_alphanumeric() || ch == '_' {
                word.push(ch);
                continue;
            }
            if !word.is_empty() {
                all.push((index + 1, std::mem::take(&mut word)));
            }
            if !ch.is_whitespace() {
                all.push((index + 1, ch.to_string()));
            }
        }
    }
    all
}

/// The modules of the top level that the code names, with the line: `crate::x`, `crate::{x, y::z}`,
/// `linerate::x` (in the program), and `super::` as often as leads to the root.
fn edges(path: &str, code: &str) -> Vec<(usize, String)> {
    let tokens = tokens(code);
    let word = |i: usize| tokens.get(i).map_or("", |t| t.1.as_str());
    let colons = |i: usize| word(i) == ":" && word(i + 1) == ":";
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let mut next = i;
        if (word(i) == "crate" || (word(i) == "linerate" && path == "main.rs")) && colons(i + 1) {
            next = i + 3;
        } else if word(i) == "super" {
            let mut ups = 0;
            while word(next) == "super" && colons(next + 1) {
                ups += 1;
                next += 3;
            }
            // Inline modules would need one more; they exist for tests only, which are blanked.
            if ups != depth(path) {
                i = next.max(i + 1);
                continue;
            }
        }
        if next == i {
            i += 1;
            continue;
        }
        if word(next) == "{" {
            let mut level = 0;
            let mut first = true;
            while next < tokens.len() {
                match word(next) {
                    "{" => level += 1,
                    "}" => level -= 1,
                    "," => {}
                    name if level == 1 && first => found.push((tokens[next].0, name.to_owned())),
                    _ => {}
                }
                first = matches!(word(next), "{" | ",");
                next += 1;
                if level == 0 {
                    break;
                }
            }
        } else if let Some((line, name)) = tokens.get(next) {
            found.push((*line, name.clone()));
        }
        i = next;
    }
    found
}

#[test]
fn every_module_keeps_to_its_layer() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.len() > 30, "the sources were not found");
    for source in &sources {
        let lines = source.text.lines().count();
        if lines > LONG {
            println!("warning: src/{}: {lines} lines, {LONG} is a smell", source.path);
        }
    }
    let wrong = violations(&sources);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_table_has_no_cycle() {
    // With each module removed once all it may use is removed, nothing may be left.
    let mut left: Vec<_> = ALLOWED.to_vec();
    let mut done = BTreeSet::new();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|(name, uses)| {
            let free = uses.iter().all(|u| done.contains(u));
            if free {
                done.insert(*name);
            }
            !free
        });
        assert!(left.len() < before, "a cycle among {left:?}");
    }
}

/// What is found in one made-up file.
fn judge(path: &str, text: &str) -> Vec<String> {
    violations(&[Source { path: path.into(), text: text.into() }])
}

#[test]
fn a_forbidden_path_is_caught_in_each_of_its_forms() {
    for (path, text) in [
        ("plan/bad.rs", "\nuse crate::host::HostRead;\n"),
        ("plan/bad.rs", "\nuse crate::{\n    model::knob::{Knob, Value}, host::HostRead};\n"),
        ("plan/bad.rs", "\nfn f() { crate::host::clock::now(); }\n"),
        ("plan/bad.rs", "\nuse super::super::host::HostRead;\n"),
        ("plan/mod.rs", "\nuse super::host;\n"),
        ("plan/deep/bad.rs", "\nuse super::super::super::host;\n"),
        ("plan.rs", "\nuse super::host;\n"),
        ("plan/bad.rs", "#[cfg(test)] mod tests { use crate::host::A; }\nuse crate::host::A;"),
        ("plan/bad.rs", "// it's\nconst A: char = '\"'; use crate::host::A; const B: char = '\"';"),
    ] {
        let wrong = judge(path, text);
        assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
        assert!(wrong[0].ends_with("plan may use [model], not host"), "{wrong:?}");
        let line = text.lines().position(|l| l.contains("host") && !l.contains("mod tests"));
        assert!(wrong[0].starts_with(&format!("src/{path}:{}:", line.unwrap() + 1)), "{wrong:?}");
    }
}

#[test]
fn what_only_looks_like_a_path_is_left_alone() {
    for text in [
        "//! See [`crate::host::HostRead`].\n/* crate::host /* nested */ unsafe */\n",
        "const A: &str = \"crate::host unsafe \\\" \"; const B: &str = r#\"\"crate::host\"#;\n",
        "use crate::model::host;\nuse super::host;\n",
        "#[cfg(test)]\nmod tests {\n    use crate::host::tree;\n    fn f() { crate::skip!(\"x\"); }\n}\n",
        "#[cfg(test)]\nmod tests;\n",
        "fn f<'a>(host: &'a str) -> &'a str { host }\n",
    ] {
        assert_eq!(judge("plan/good.rs", text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(judge("plan/tests.rs", "use crate::host::tree;\n"), Vec::<String>::new());
}

#[test]
fn the_other_rules_are_caught_too() {
    let long = "\n".repeat(TOO_LONG + 1);
    for (path, text, rule) in [
        ("host/live.rs", "fn f() {\n    unsafe { g() }\n}", "src/host/live.rs:2: unsafe"),
        ("plan/a.rs", long.as_str(), "more than 800 lines"),
        ("main.rs", &long[..MAIN_LIMIT], "src/main.rs:40: main reads"),
        ("host/a.rs", "crate::testing::f();", "testing is for tests only"),
        ("novel/mod.rs", "", "module novel is not in the table"),
        ("host/a.rs", "use crate::cli::args;", "host may use [model, parse, sys], not cli"),
    ] {
        let wrong = judge(path, text);
        assert!(wrong.len() == 1 && wrong[0].contains(rule), "{rule}: {wrong:?}");
    }
    assert_eq!(judge("sys/netns.rs", "unsafe { g() }"), Vec::<String>::new());
}
