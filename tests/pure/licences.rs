//! Everything that is linked in, or used to build and test, is under a licence that deny.toml allows.

use std::path::Path;
use std::process::Command;

/// Is an SPDX expression satisfied? Parentheses occur around an `OR` that is one side of an `AND`;
/// old manifests write `/` for `OR`.
fn allowed(expression: &str, allow: &[&str]) -> bool {
    let expression = expression.replace('/', " OR ");
    let all = split_outside(&expression, " AND ");
    if all.len() > 1 {
        return all.iter().all(|part| allowed(part, allow));
    }
    let any = split_outside(&expression, " OR ");
    if any.len() > 1 {
        return any.iter().any(|part| allowed(part, allow));
    }
    let trimmed = expression.trim();
    match trimmed.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(inner) => allowed(inner, allow),
        None => allow.contains(&trimmed),
    }
}

/// Splits where no parenthesis is open.
fn split_outside<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut from, mut level) = (0, 0);
    for (at, ch) in text.char_indices() {
        match ch {
            '(' => level += 1,
            ')' => level -= 1,
            ' ' if level == 0 && at >= from && text[at..].starts_with(separator) => {
                parts.push(&text[from..at]);
                from = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

#[test]
fn an_expression_is_judged_as_a_whole() {
    let allow = ["MIT", "BSD-3-Clause", "Apache-2.0 WITH LLVM-exception"];
    for good in [
        "MIT",
        "MIT OR GPL-2.0",
        "GPL-2.0/MIT",
        "(GPL-2.0 OR MIT) AND BSD-3-Clause",
        "Apache-2.0 WITH LLVM-exception OR X",
    ] {
        assert!(allowed(good, &allow), "{good}");
    }
    for bad in ["GPL-2.0", "", "MIT AND GPL-2.0", "(MIT OR X) AND GPL-2.0", "Apache-2.0"] {
        assert!(!allowed(bad, &allow), "{bad}");
    }
}

#[test]
fn every_dependency_is_under_an_allowed_licence() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules: toml::Table =
        std::fs::read_to_string(top.join("deny.toml")).unwrap().parse().unwrap();
    let allow = rules["licenses"]["allow"].as_array().unwrap();
    let allow: Vec<&str> = allow.iter().map(|l| l.as_str().unwrap()).collect();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &target])
        .current_dir(top)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20, "too few packages to be true");
    let wrong: Vec<_> = packages
        .iter()
        .filter(|p| !allowed(p["license"].as_str().unwrap_or_default(), &allow))
        .map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
