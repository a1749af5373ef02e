//! Which room may know of which: effects outside, knowledge inside.
//!
//! A room is a folder of `src/` (`model`), or of one of its groups (`machine/host`). `ALLOWED` is the
//! table of the edges between rooms, and a path in the source that is not in the table fails, by file
//! and line. Below `src/cli` a room is a verb, or one of those that verbs share (`SHARED`). Test code
//! (`#[cfg(test)]`, files named tests.rs) may use what it likes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Folders of `src/` that group rooms.
const GROUPS: &[&str] = &["machine", "decide", "change", "measure", "cli"];

/// Entries of `src/`, files and folders: what fits one glance.
const ENTRIES: usize = 10;

/// Room, and the rooms it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    // Pure: the same input gives the same output.
    ("model", &[]),
    ("error", &[]),
    ("machine/parse", &["model"]),
    // Knows which kernels lose established flows.
    ("decide/plan", &["model", "error", "decide/kernel"]),
    ("decide/kernel", &["model"]),
    ("decide/losses", &["model"]),
    ("decide/watch", &["model"]),
    ("decide/profile", &["model"]),
    ("decide/experiment", &["model"]),
    ("decide/rank", &["model"]),
    // Judges a placement by the planner's cost model, and the kernel by its table of options.
    ("decide/diagnose", &["model", "decide/plan", "decide/kernel"]),
    // Counts over many machines what was measured and found on each.
    ("decide/fleet", &["model", "decide/experiment", "decide/kernel", "decide/diagnose"]),
    // Shares the statistics.
    ("measure/search", &["model", "decide/experiment"]),
    // The system: `sys` makes the calls, `host` is the door that everything else goes through.
    ("machine/sys", &["model"]),
    ("machine/host", &["model", "machine/parse", "machine/sys"]),
    // Reads the system.
    ("machine/discover", &["model", "error", "machine/parse", "machine/host"]),
    ("machine/capture", &["machine/parse", "machine/host"]),
    ("measure/sample", &["model", "error", "machine/parse", "machine/host"]),
    // Our own files.
    ("machine/store", &["model", "error"]),
    // Writes the system.
    (
        "change/apply",
        &["model", "error", "machine/parse", "machine/host", "machine/sys", "machine/store"],
    ),
    // Reads back what `apply` would write, by its names for places; writes nothing.
    ("change/verify", &["model", "error", "machine/parse", "machine/host", "change/apply"]),
    // Writes ordinary files; settings only through `apply`.
    (
        "change/persist",
        &[
            "model",
            "error",
            "machine/parse",
            "machine/host",
            "machine/discover",
            "machine/store",
            "change/apply",
        ],
    ),
    (
        "measure/lab",
        &["model", "error", "machine/parse", "machine/host", "machine/sys", "machine/store"],
    ),
    // Makes traffic and measures it.
    ("measure/load", &["model", "error", "machine/host", "machine/sys"]),
    // Serves and asks for one side of a load; reads settings by `apply`'s names, writes none.
    (
        "measure/agent",
        &[
            "model",
            "error",
            "machine/parse",
            "machine/host",
            "machine/sys",
            "machine/discover",
            "change/apply",
            "measure/load",
            "measure/sample",
        ],
    ),
    (
        "measure/bench",
        &[
            "model",
            "error",
            "machine/host",
            "machine/sys",
            "decide/experiment",
            "measure/search",
            "measure/lab",
            "measure/load",
            "measure/sample",
            "measure/agent",
        ],
    ),
    // Puts the stages together.
    (
        "measure/tune",
        &[
            "model",
            "error",
            "machine/parse",
            "machine/host",
            "machine/sys",
            "machine/discover",
            "machine/store",
            "decide/plan",
            "decide/experiment",
            "change/apply",
            "change/verify",
            "measure/search",
            "measure/lab",
            "measure/load",
            "measure/sample",
            "measure/bench",
        ],
    ),
    // On top; nothing imports them.
    (
        "report",
        &[
            "model",
            "error",
            "decide/plan",
            "decide/diagnose",
            "decide/losses",
            "decide/experiment",
            "decide/fleet",
            "decide/rank",
            "decide/profile",
        ],
    ),
    // The program.
    ("main", &["cli/main"]),
];

/// What the verbs of the command line share. Everything else below `src/cli` is a verb, which may
/// use every room but another verb.
const SHARED: &[&str] = &["cli/shared", "cli/context", "cli/output", "cli/interrupt", "cli/log"];

const LONG: usize = 500;
const TOO_LONG: usize = 800;
const MAIN_LIMIT: usize = 40;

/// A source file: its path below src/, and its text.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A word or a punctuation character, and its line.
pub(crate) type Token = (usize, String);

/// Reads every Rust file under `directory`.
pub(crate) fn sources(directory: &Path) -> Vec<Source> {
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
        let tokens = tokens(&source.text);
        let room = room_of(&source.path);
        for (line, found) in &tokens {
            if found == "unsafe" && room != "machine/sys" {
                wrong.push(format!("src/{}:{line}: unsafe is only for machine/sys", source.path));
            }
        }
        if room == "decide/plan" && !is_test_file(&source.path) {
            wrong.extend(of_the_c_library(&tokens).map(|(line, name)| {
                format!("src/{}:{line}: {name} differs by processor; libm's does not", source.path)
            }));
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
        // `cli/measuring` lists the verbs that measure, as `cli` itself lists all.
        let declares_rooms =
            ["lib", "cli/measuring"].contains(&&*room) || GROUPS.contains(&room.as_str());
        if is_test_file(&source.path) || declares_rooms || room == "machine/testing" {
            continue;
        }
        if room.starts_with("cli/") {
            for (line, used) in edges(&source.path, &without_tests(&tokens)) {
                if used != room && !of_a_verb(&used) {
                    let rule =
                        format!("{room} may use no other verb, and {used} is none it shares");
                    wrong.push(format!("src/{}:{line}: {rule}", source.path));
                }
            }
            continue;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!("src/{}:1: room {room} is not in the table", source.path));
            continue;
        };
        for (line, used) in edges(&source.path, &without_tests(&tokens)) {
            if used != room && !allowed.contains(&used.as_str()) {
                let rule = if used == "machine/testing" {
                    "testing is for tests only".to_owned()
                } else {
                    format!("{room} may use [{}], not {used}", allowed.join(", "))
                };
                wrong.push(format!("src/{}:{line}: {rule}", source.path));
            }
        }
    }
    wrong
}

/// Calls of functions that the C library brings, and whose last digits differ with it: a plan is the same
/// on every processor (`scripts/processors.sh` compares them).
fn of_the_c_library(tokens: &[Token]) -> impl Iterator<Item = (usize, &str)> {
    const NAMES: &[&str] = &["exp", "exp_m1", "ln", "ln_1p", "log2", "log10", "powf", "mul_add"];
    tokens.windows(2).filter_map(|pair| match pair {
        [(_, point), (line, name)] if point == "." && NAMES.contains(&name.as_str()) => {
            Some((*line, name.as_str()))
        }
        _ => None,
    })
}

/// Whether a file of a verb may use a room: all but other verbs. `pub(in crate::cli)` names no verb.
fn of_a_verb(used: &str) -> bool {
    used == "cli" || SHARED.contains(&used) || ALLOWED.iter().any(|(name, _)| *name == used)
}

/// The modules that lead to a file: `machine/host/live.rs` is `machine::host::live`.
fn module_of(path: &str) -> Vec<&str> {
    path.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect()
}

/// The room of a module: its first name, or the first two below a group.
fn room(module: &[&str]) -> String {
    let names = if GROUPS.contains(&module[0]) { 2 } else { 1 };
    module[..names.min(module.len())].join("/")
}

fn room_of(path: &str) -> String {
    room(&module_of(path))
}

pub(crate) fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The words and punctuation of a source; comments are gone, a string is one token.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut all = Vec::new();
    flatten(text.parse().unwrap(), &mut all);
    all
}

fn flatten(stream: TokenStream, all: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::None => ("", ""),
                };
                let doc = all.last().is_some_and(|(_, t)| t == "#" || t == "!")
                    && group.stream().to_string().starts_with("doc ");
                all.push((line, open.to_owned()));
                if !doc {
                    flatten(group.stream(), all);
                }
                all.push((group.span_close().end().line, close.to_owned()));
            }
            other => all.push((line, other.to_string())),
        }
    }
}

/// The tokens without those of `#[cfg(test)]` items.
pub(crate) fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let marked = tokens[i..].iter().map(|t| t.1.as_str()).take(mark.len()).eq(mark);
        if !marked {
            kept.push(tokens[i].clone());
            i += 1;
            continue;
        }
        i += mark.len();
        let mut level = 0;
        while i < tokens.len() {
            match tokens[i].1.as_str() {
                "{" | "(" | "[" => level += 1,
                "}" | ")" | "]" => level -= 1,
                _ => {}
            }
            let ends = level == 0 && matches!(tokens[i].1.as_str(), "}" | ";");
            i += 1;
            if ends {
                break;
            }
        }
    }
    kept
}

/// The rooms that a file names, with the line: by `crate::`, `super::` (up to the root or a group),
/// and in the program by `linerate::`, each also with a list in braces.
fn edges(path: &str, tokens: &[Token]) -> Vec<(usize, String)> {
    let word = |i: usize| tokens.get(i).map_or("", |t| t.1.as_str());
    let colons = |i: usize| word(i) == ":" && word(i + 1) == ":";
    let here = module_of(path);
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let start = i;
        let mut base = None;
        if (word(i) == "crate" || (word(i) == "linerate" && path == "main.rs")) && colons(i + 1) {
            (base, i) = (Some(Vec::new()), i + 3);
        } else if word(i) == "super" && colons(i + 1) {
            let mut up = here.clone();
            while word(i) == "super" && colons(i + 1) {
                up.pop();
                i += 3;
            }
            base = Some(up);
        }
        match base {
            Some(base) => i = tree(tokens, i, base, &mut found),
            None => i = start + 1,
        }
    }
    found
}

/// Follows a path, or a list of paths in braces, below `base`; returns where it ends.
fn tree<'a>(
    tokens: &'a [Token],
    start: usize,
    base: Vec<&'a str>,
    found: &mut Vec<(usize, String)>,
) -> usize {
    let word = |i: usize| tokens.get(i).map_or("", |t| t.1.as_str());
    let enough = base.first().is_some_and(|first| base.len() > 1 || !GROUPS.contains(first));
    if enough {
        found.push((tokens[start.min(tokens.len() - 1)].0, room(&base)));
        return start;
    }
    if word(start) != "{" {
        let mut longer = base;
        longer.push(word(start));
        let has_more = word(start + 1) == ":" && word(start + 2) == ":";
        let next = if has_more { start + 3 } else { start + 1 };
        // A macro of ours stands at the root: `crate::skip!`.
        if word(start + 1) == "!" {
            return next;
        }
        if GROUPS.contains(&longer[0]) && longer.len() == 1 && has_more {
            return tree(tokens, next, longer, found);
        }
        found.push((tokens[start].0, room(&longer)));
        return start + 1;
    }
    let (mut i, mut level, mut first) = (start, 0, false);
    while i < tokens.len() {
        match word(i) {
            "{" => level += 1,
            "}" => level -= 1,
            "," => {}
            _ if level == 1 && first => {
                i = tree(tokens, i, base.clone(), found);
                first = false;
                continue;
            }
            _ => {}
        }
        first = level == 1 && matches!(word(i), "{" | ",");
        i += 1;
        if level == 0 {
            break;
        }
    }
    i
}

#[test]
fn every_room_keeps_to_its_layer() {
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
fn the_tree_fits_one_glance() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = fs::read_dir(src).unwrap().count();
    assert!(entries <= ENTRIES, "src/ has {entries} entries, {ENTRIES} are the most");
}

#[test]
fn the_table_has_no_cycle() {
    // With each room removed once all it may use is removed, nothing may be left.
    let mut left: Vec<_> = ALLOWED.iter().filter(|(name, _)| *name != "main").collect();
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
        ("decide/rank/bad.rs", "\nuse crate::machine::host::HostRead;\n"),
        (
            "decide/rank/bad.rs",
            "\nuse crate::{\n    model::knob::{Knob, Value}, machine::host::HostRead};\n",
        ),
        ("decide/rank/bad.rs", "\nuse crate::machine::{host::HostRead};\n"),
        ("decide/rank/bad.rs", "\nfn f() { crate::machine::host::clock::now(); }\n"),
        ("decide/rank/bad.rs", "\nuse super::super::super::machine::host::HostRead;\n"),
        ("decide/rank/mod.rs", "\nuse super::super::machine::host;\n"),
        ("decide/rank.rs", "\nuse super::super::machine::{host};\n"),
        (
            "decide/rank/bad.rs",
            "#[cfg(test)] mod tests { use crate::machine::host::A; }\nuse crate::machine::host::A;",
        ),
        (
            "decide/rank/bad.rs",
            "// it's\nconst A: char = '\"'; use crate::machine::host::A; const B: char = '\"';",
        ),
    ] {
        let wrong = judge(path, text);
        assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
        assert!(wrong[0].ends_with("decide/rank may use [model], not machine/host"), "{wrong:?}");
        let line = text.lines().position(|l| l.contains("host") && !l.contains("mod tests"));
        assert!(wrong[0].starts_with(&format!("src/{path}:{}:", line.unwrap() + 1)), "{wrong:?}");
    }
    // A neighbour in the same group is another room.
    let wrong = judge("decide/rank/bad.rs", "use super::super::kernel::check;");
    assert!(wrong.len() == 1 && wrong[0].ends_with("not decide/kernel"), "{wrong:?}");
}

#[test]
fn what_only_looks_like_a_path_is_left_alone() {
    for text in [
        "//! See [`crate::machine::host::HostRead`].\n/* crate::host /* nested */ unsafe */\n",
        "const A: &str = \"crate::host unsafe \\\" \"; const B: &str = r#\"\"crate::host\"#;\n",
        "use crate::model::host;\nuse super::host;\n",
        "#[cfg(test)]\nmod tests {\n    use crate::machine::host::tree;\n    fn f() { crate::skip!(\"x\"); }\n}\n",
        "#[cfg(test)]\nmod tests;\n",
        "fn f<'a>(host: &'a str) -> &'a str { host }\n",
    ] {
        assert_eq!(judge("decide/plan/good.rs", text), Vec::<String>::new(), "{text}");
    }
    let tests = judge("decide/plan/tests.rs", "use crate::machine::host::tree;\n");
    assert_eq!(tests, Vec::<String>::new());
}

#[test]
fn the_other_rules_are_caught_too() {
    let long = "\n".repeat(TOO_LONG + 1);
    for (path, text, rule) in [
        (
            "machine/host/live.rs",
            "fn f() {\n    unsafe { g() }\n}",
            "src/machine/host/live.rs:2: unsafe",
        ),
        ("decide/plan/a.rs", long.as_str(), "more than 800 lines"),
        ("decide/plan/a.rs", "fn f(a: f64) -> f64 {\n    a.exp()\n}", "a.rs:2: exp differs"),
        ("main.rs", &long[..MAIN_LIMIT], "src/main.rs:40: main reads"),
        ("machine/host/a.rs", "fn a() { crate::machine::testing::f(); }", "testing is for tests"),
        ("novel/mod.rs", "", "room novel is not in the table"),
        (
            "machine/host/a.rs",
            "use crate::cli::args;",
            "machine/host may use [model, machine/parse, machine/sys], not cli/args",
        ),
        (
            "cli/plan.rs",
            "use super::tune::TuneArgs;",
            "cli/plan may use no other verb, and cli/tune",
        ),
        ("cli/tune/args.rs", "use crate::cli::bench::framed;", "cli/bench"),
        ("cli/shared/mod.rs", "use super::{context::Context, plan};", "cli/plan"),
        ("cli/context.rs", "use crate::machine::novel::A;", "machine/novel"),
    ] {
        let wrong = judge(path, text);
        assert!(wrong.len() == 1 && wrong[0].contains(rule), "{rule}: {wrong:?}");
    }
    let verb = "use super::args::A; use crate::cli::shared::B; use crate::decide::plan::C;";
    assert_eq!(
        judge("cli/tune/mod.rs", &verb.replace("super::args", "self::args")),
        Vec::<String>::new()
    );
    assert_eq!(judge("cli/tune/choose.rs", verb), Vec::<String>::new());
    assert_eq!(judge("machine/sys/netns.rs", "fn f() { unsafe { g() } }"), Vec::<String>::new());
}
