//! The commands in the README and in docs/ are ones that the program takes, and what the first pages say
//! is printed is printed.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use clap::error::ErrorKind;
use linerate::cli::Cli;

use crate::program;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Pages about a captured machine.
const PAGES: [(&str, &str); 2] = [
    ("docs/start-openwrt.md", "fixtures/hosts/rk3576-8-r8169x2-6.1"),
    ("docs/start-debian.md", "fixtures/hosts/x86-4-vmxnet3+e1000e+virtio-6.1/capture.tar.gz"),
];

fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = docs.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    all.push(Path::new(ROOT).join("README.md"));
    all
}

/// Parts of a page between its fences: what stands around blocks, and the blocks.
fn parts(text: &str) -> (String, Vec<&str>) {
    let mut inside = false;
    let (mut prose, mut fenced) = (String::new(), Vec::new());
    for line in text.lines() {
        match (line.trim_start().starts_with("```"), inside) {
            (true, _) => inside = !inside,
            (false, true) => fenced.push(line),
            (false, false) => prose = prose + line + " ",
        }
    }
    (prose, fenced)
}

/// Mistakes of a command that is only mentioned: what it needs is left out.
const LEFT_OUT: [ErrorKind; 5] = [
    ErrorKind::InvalidValue,
    ErrorKind::MissingRequiredArgument,
    ErrorKind::MissingSubcommand,
    ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ErrorKind::DisplayVersion,
];

#[test]
fn every_command_in_the_documentation_is_one_that_the_program_takes() {
    let (mut typed, mut mentioned) = (0, 0);
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let (prose, fenced) = parts(&text);
        let fenced = fenced.iter().map(|line| {
            let line = line.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
            (line.split(['#', '|', '>', '&', ';']).next().unwrap().to_owned(), true)
        });
        let spans = prose.split('`').skip(1).step_by(2);
        // `lab up\|down` in a table is two commands.
        let spans = spans.flat_map(|span| {
            let span = span.replace("\\|", "|");
            let (rest, last) = span.rsplit_once(' ').unwrap_or(("", &span));
            let each = last.split('|').map(|one| (format!("{rest} {one}"), false));
            each.collect::<Vec<_>>()
        });
        for (command, is_typed) in fenced.chain(spans) {
            let command = command.trim();
            let ours = command == "linerate" || command.starts_with("linerate ");
            if !ours || command.contains(['\'', '"', '[', '\\']) || command.contains("...") {
                continue;
            }
            match Cli::try_parse_from(command.split_whitespace()) {
                Err(e) if is_typed || !LEFT_OUT.contains(&e.kind()) => {
                    panic!("{}: {command}: {e}", page.display())
                }
                _ if is_typed => typed += 1,
                _ => mentioned += 1,
            }
        }
    }
    assert!(typed > 30 && mentioned > 60, "only {typed} and {mentioned} commands were found");
}

#[test]
fn every_file_that_the_documentation_names_is_there() {
    let mut pages = pages();
    pages.extend(["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| Path::new(ROOT).join(name)));
    let mut found = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
        for word in text.split(|c| !is_part(c)) {
            let word = word.trim_end_matches(['.', '/']);
            let ours = ["src/", "tests/", "scripts/", "packaging/", "vm/tests/", "fixtures/"];
            let is_file = word.rsplit('/').next().is_some_and(|name| name.contains('.'));
            if ours.iter().any(|start| word.starts_with(start)) && is_file {
                found += 1;
                assert!(Path::new(ROOT).join(word).exists(), "{}: {word}", page.display());
            }
        }
    }
    assert!(found > 30, "only {found} files were found");
}

/// Who cuts off the network by which he came in must not be left without it: whatever shows how to
/// apply shows the way back.
#[test]
fn whatever_teaches_apply_teaches_confirm() {
    let mut files = pages();
    let mut folders = vec![Path::new(ROOT).join("src"), Path::new(ROOT).join("packaging")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let mut taught = 0;
    for file in files {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//!")) {
            for (_, rest) in line.match_indices("linerate apply").map(|(at, _)| line.split_at(at)) {
                // A dry run changes nothing, and at boot nobody is there to confirm.
                let safe = ["--confirm", "--dry-run", "--pending"];
                let safe = safe.iter().any(|option| rest.contains(option));
                assert!(safe, "{}: {line}", file.display());
                taught += 1;
            }
        }
    }
    assert!(taught > 8, "{taught}");
}

/// True if the line is what the pattern says; `...` at its end stands for anything.
fn is_like(line: &str, pattern: &str) -> bool {
    match pattern.strip_suffix("...") {
        Some(start) => line.starts_with(start.trim_end()),
        None => line == pattern,
    }
}

/// Commands of a page's consoles with what they print.
fn consoles(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ linerate ")) {
            blocks.push((command, Vec::new()));
        } else if inside {
            blocks.last_mut().unwrap_or_else(|| panic!("{line}: printed by nothing")).1.push(line);
        }
    }
    blocks
}

#[test]
fn the_pages_say_what_is_printed() {
    let mut compared = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let host = PAGES.iter().find(|(name, _)| page.ends_with(name)).map(|(_, host)| *host);
        let page = page.display();
        for (command, said) in consoles(&text) {
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
    assert!(compared >= 20, "{compared}");
}
