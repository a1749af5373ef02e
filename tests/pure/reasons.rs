//! A reason is a type: nothing in the program decides by reading prose.
//!
//! Three forms are refused in code that is not test code: a search in what is named like prose
//! (`why.starts_with(..)`), a search in the text of a value (`e.to_string().contains(..)`), and a
//! search for words of prose (`w.starts_with("it is not known")`). What parses texts of others (the
//! kernel's files, configurations, the output of programs) is in `machine/parse`, or in `ALLOWED`.

use std::path::Path;

use crate::architecture::{Source, Token, is_test_file, sources, tokens, without_tests};

/// Methods that search a text.
const SEARCHES: &[&str] =
    &["starts_with", "ends_with", "contains", "strip_prefix", "strip_suffix", "find", "split_once"];

/// Names of prose.
const PROSE: &[&str] = &[
    "why",
    "reason",
    "message",
    "error",
    "refusal",
    "hint",
    "note",
    "remark",
    "what",
    "warning",
    "consequence",
];

/// Methods that hand the same text on.
const PASSED_ON: &[&str] = &[
    "as_str",
    "as_ref",
    "as_deref",
    "trim",
    "to_lowercase",
    "unwrap_or_default",
    "clone",
    "borrow",
];

/// File, a text that stands on the line, and whose text it is.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("error.rs", "(os error", "Rust's own words for an error of the system"),
    ("machine/host/error.rs", "(os error", "Rust's own words for an error of the system"),
    ("cli/usage.rs", " is not in ", "what clap says of a range"),
    ("measure/bench/driver.rs", "connection refused", "what iperf printed"),
    ("measure/bench/driver.rs", "process on port", "what iperf printed"),
    ("measure/bench/driver.rs", "iperf version 2", "what iperf printed"),
    ("measure/load/iperf2.rs", "connected with", "what iperf 2 printed"),
    ("measure/load/iperf3.rs", "why.contains", "what iperf3 printed"),
];

/// Places that still read our own prose; each is to become a type, and then to go from here.
const LEFT: &[(&str, &str, &str)] = &[
    ("change/apply/covered.rs", "starts_with(verb)", "what a journal was begun for"),
    ("decide/plan/not_made.rs", "flow offload", "the notes of a board file"),
];

fn violations(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources {
        if is_test_file(&source.path) || source.path.starts_with("machine/parse/") {
            continue;
        }
        let tokens = without_tests(&tokens(&source.text));
        let lines: Vec<&str> = source.text.lines().collect();
        for at in 0..tokens.len() {
            let Some((line, rule)) = prose(&tokens, at) else { continue };
            let text = lines.get(line - 1).copied().unwrap_or_default();
            let known =
                |(path, part, _): &&(&str, &str, &str)| *path == source.path && text.contains(part);
            if !ALLOWED.iter().chain(LEFT).any(|allowed| known(&allowed)) {
                wrong.push(format!("src/{}:{line}: {rule}: {}", source.path, text.trim()));
            }
        }
    }
    wrong
}

/// The rule that a search at this place breaks, with its line.
fn prose(tokens: &[Token], at: usize) -> Option<(usize, &'static str)> {
    let word = |i: usize| tokens.get(i).map_or("", |t| t.1.as_str());
    if word(at) != "." || !SEARCHES.contains(&word(at + 1)) || word(at + 2) != "(" {
        return None;
    }
    let line = tokens[at + 1].0;
    if is_sentence(word(at + 3)) && word(at + 4) == ")" {
        return Some((line, "searches for prose"));
    }
    let mut end = at;
    loop {
        let called = end >= 3 && word(end - 1) == ")" && word(end - 2) == "(";
        let name = if called { word(end - 3) } else { word(end.wrapping_sub(1)) };
        if called && matches!(name, "to_string" | "message" | "reason" | "words") {
            return Some((line, "searches the text of a value"));
        }
        if called && PASSED_ON.contains(&name) && end >= 4 && word(end - 4) == "." {
            end -= 4;
            continue;
        }
        return (!called && PROSE.contains(&name)).then_some((line, "searches in prose"));
    }
}

/// Whether a literal has two words in a row.
fn is_sentence(token: &str) -> bool {
    let Some(text) = token.strip_prefix('"').and_then(|t| t.strip_suffix('"')) else {
        return false;
    };
    let words: Vec<&str> = text.split(' ').collect();
    let is_word = |w: &str| w.len() > 1 && w.chars().all(|c| c.is_ascii_lowercase());
    words.windows(2).any(|pair| is_word(pair[0]) && is_word(pair[1]))
}

#[test]
fn nothing_decides_by_reading_prose() {
    let wrong = violations(&sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn each_form_of_reading_prose_is_caught() {
    let judge = |text: &str| {
        violations(&[Source {
            path: "decide/plan/a.rs".into(),
            text: format!("fn f() {{ {text} }}"),
        }])
    };
    for bad in [
        "if n.reason.starts_with(name.as_str()) {}",
        "let a = why.as_deref().unwrap_or_default().contains(\"up to\");",
        "if e.to_string().contains(&missing) {}",
        "if error.message().contains(\"x\") {}",
        "all.filter(|w| w.starts_with(\"it is not known\"));",
        "match what.strip_prefix(\"no \") { _ => {} }",
    ] {
        assert_eq!(judge(bad).len(), 1, "{bad}: {:?}", judge(bad));
    }
    for good in [
        "if name.starts_with(\"eth\") {}",
        "if line.split_once('=').is_some() {}",
        "let a = run.notes.iter().find(|n| n.is_bad());",
        "if reasons.contains(&code) {}",
        "#[cfg(test)] mod tests { fn g() { why.contains(\"x\"); } }",
    ] {
        assert_eq!(judge(good), Vec::<String>::new(), "{good}");
    }
}
