//! The program under test: what cargo built, or the program that `LINERATE_TEST_PROGRAM` names. The
//! test driver names a build with fewer verbs there; a test of a verb that it lacks says so.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Where the program lies.
pub(crate) fn path() -> PathBuf {
    let other = std::env::var_os("LINERATE_TEST_PROGRAM");
    other.map_or_else(|| env!("CARGO_BIN_EXE_linerate").into(), PathBuf::from)
}

/// Whether the program has a verb, by its own list of them.
pub(crate) fn has(verb: &str) -> bool {
    static HELP: OnceLock<String> = OnceLock::new();
    let help = HELP.get_or_init(|| {
        let output = Command::new(path()).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    help.lines().any(|line| line.split_whitespace().next() == Some(verb))
}

/// Whether the program lacks a verb; if so, the test that asks is skipped, and says so in the words
/// that the test driver counts.
pub(crate) fn lacks(verb: &str) -> bool {
    let lacks = !has(verb);
    if lacks {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?");
        eprintln!("SKIPPED (optional) {name}: this build has no {verb}");
    }
    lacks
}
