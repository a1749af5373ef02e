//! The commands in the README and in docs/ are ones that the program takes, and what the first pages say
//! is printed is printed.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use linerate::cli::Cli;

use crate::program;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The first pages, and the captured machine that each is about.
const PAGES: [(&str, Option<&str>); 3] = [
    ("docs/start-openwrt.md", Some("fixtures/hosts/rk3576-8-r8169x2-6.1")),
    ("docs/start-debian.md", Some("fixtures/hosts/x86-4-vmxnet3+e1000e+virtio-6.1/capture.tar.gz")),
    ("docs/start-kernels.md", None),
];

fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = docs.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    all.push(Path::new(ROOT).join("README.md"));
    all
}

/// Lines of fenced blocks.
fn fenced(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn every_command_in_the_documentation_is_one_that_the_program_takes() {
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in fenced(&text) {
            let line = line.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
            let Some(rest) = line.strip_prefix("linerate ") else { continue };
            let command = rest.split(['#', '|', '>', '&', ';']).next().unwrap();
            if command.contains(['\'', '"', '[', '\\']) || command.contains("...") {
                continue;
            }
            seen += 1;
            let words = ["linerate"].into_iter().chain(command.split_whitespace());
            if let Err(e) = Cli::try_parse_from(words) {
                panic!("{}: {line}: {e}", page.display());
            }
        }
    }
    assert!(seen > 30, "only {seen} commands were found");
}

/// True if the line is what the pattern says; `...` at its end stands for anything.
fn is_like(line: &str, pattern: &str) -> bool {
    match pattern.strip_suffix("...") {
        Some(start) => line.starts_with(start.trim_end()),
        None => line == pattern,
    }
}

#[test]
fn the_first_pages_say_what_is_printed() {
    let mut compared = 0;
    for (page, host) in PAGES {
        let text = std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        let lines = fenced(&text);
        let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in lines {
            match (line.strip_prefix("$ linerate "), blocks.last_mut()) {
                (Some(command), _) => blocks.push((command, Vec::new())),
                (None, Some((_, said))) => said.push(line),
                (None, None) => panic!("{page}: {line}: printed by nothing"),
            }
        }
        for (command, said) in blocks {
            if said.is_empty() || !program::has(command.split(' ').next().unwrap()) {
                continue;
            }
            let mut run = Command::new(program::path());
            run.args(command.split(' ')).current_dir(ROOT);
            run.env("COLUMNS", "80").env("LC_ALL", "C.UTF-8");
            if let Some(host) = host {
                run.arg("--host").arg(host);
            }
            if command == "plan" {
                run.args(["-o", "/dev/null"]);
            }
            let output = run.output().unwrap();
            assert!(matches!(output.status.code(), Some(0 | 1)), "{page}: {command}");
            let printed = String::from_utf8(output.stdout).unwrap();
            let mut rest = printed.lines();
            for pattern in said {
                assert!(
                    rest.any(|line| is_like(line, pattern)),
                    "{page}: {command} does not print {pattern:?}, but:\n{printed}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared >= 10, "{compared}");
}
