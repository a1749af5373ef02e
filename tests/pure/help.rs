//! The help of each verb: examples that can be typed, the options of every command apart, within the
//! width; and manual pages and completions made of it, as their own tools read them.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{CommandFactory, Parser};
use linerate::cli::Cli;

use crate::program;

#[path = "../../examples/manual.rs"]
#[allow(dead_code, reason = "a program of its own")]
mod manual;

/// Every command that the help names, with its words: `lab up`.
fn commands() -> Vec<(String, clap::Command)> {
    fn walk(words: &str, command: &clap::Command, all: &mut Vec<(String, clap::Command)>) {
        all.push((words.to_owned(), command.clone()));
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            walk(format!("{words} {}", one.get_name()).trim(), one, all);
        }
    }
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut all = Vec::new();
    walk("", &command, &mut all);
    all
}

/// The lines under `Examples:`.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    lines.by_ref().take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_verb_has_examples_that_can_be_typed() {
    for (words, command) in commands() {
        let examples = examples(&command);
        assert!(!examples.is_empty(), "{words}: no example");
        let mut own = false;
        for line in examples {
            assert!(line.chars().count() <= 80, "{words}: {line}");
            let typed: Vec<&str> = line.split('#').next().unwrap().split_whitespace().collect();
            assert_eq!(typed.first(), Some(&"linerate"), "{words}: {line}");
            if let Err(e) = Cli::try_parse_from(&typed) {
                panic!("{words}: {line}: {e}");
            }
            own |= typed[1..].join(" ").starts_with(&words);
        }
        assert!(own, "{words}: its examples show something else");
    }
}

fn help(words: &str, columns: u32) -> String {
    let output = Command::new(program::path())
        .args(words.split_whitespace())
        .arg("--help")
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_is_within_the_width_and_the_options_of_every_command_are_apart() {
    for (words, _) in commands() {
        if words.split(' ').next().is_some_and(|verb| !verb.is_empty() && !program::has(verb)) {
            continue;
        }
        for columns in [60, 80, 200] {
            let text = help(&words, columns);
            let long = text.lines().find(|line| line.chars().count() > columns.min(100) as usize);
            assert_eq!(long, None, "{words} at {columns}");
        }
        let text = help(&words, 80);
        let apart = text.find("Options of every command:").unwrap_or_else(|| panic!("{words}"));
        let own = text.find("\nOptions:").unwrap_or_else(|| panic!("{words}"));
        assert!(own < apart, "{words}");
        let of_every = &text[apart..];
        for option in ["--json", "--host <", "-q, --quiet", "-v, --verbose", "--color"] {
            assert!(of_every.contains(&format!(" {option}")), "{words}: {option}");
        }
    }
}

/// A directory with the manual, gone with this.
struct Manual(PathBuf);

impl Manual {
    fn new(name: &str) -> Self {
        let dir = format!("linerate-manual-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        manual::write(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Manual {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// What a tool says of a file; `None` if it is not here, which is told and counted.
fn told_by(tool: &str, args: &[&str], file: &Path) -> Option<String> {
    match Command::new(tool).args(args).arg(file).output() {
        Ok(output) => {
            let texts = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
            Some(texts.concat())
        }
        Err(_) => {
            let name = std::thread::current().name().unwrap_or("?").to_owned();
            eprintln!("SKIPPED (optional) {name}: no {tool} here");
            None
        }
    }
}

#[test]
fn every_verb_has_a_page_that_mandoc_reads_without_a_complaint() {
    let manual = Manual::new("pages");
    for (words, command) in commands() {
        let page = format!("linerate {words}").trim().replace(' ', "-") + ".1";
        let path = manual.0.join("man1").join(&page);
        let text = std::fs::read_to_string(&path).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "\"SEE ALSO\""] {
            assert!(text.contains(&format!(".SH {section}\n")), "{page}: {section}");
        }
        let told = command.get_arguments().filter(|a| !a.is_hide_set());
        for option in told.filter_map(|a| a.get_long()) {
            assert!(text.contains(&option.replace('-', "\\-")), "{page}: --{option}");
        }
        if let Some(told) = told_by("mandoc", &["-Tlint", "-Wwarning"], &path) {
            let told = told.lines().filter(|line| !line.contains("missing date"));
            assert_eq!(told.collect::<Vec<_>>(), [""; 0], "{page}");
        }
    }
}

#[test]
fn every_shell_reads_its_completions() {
    let manual = Manual::new("shells");
    for (shell, file) in
        [("bash", "bash/linerate.bash"), ("zsh", "zsh/_linerate"), ("fish", "fish/linerate.fish")]
    {
        if let Some(told) = told_by(shell, &["-n"], &manual.0.join(file)) {
            assert_eq!(told, "", "{shell}");
        }
    }
    let complete = "source \"$0\"; COMP_CWORD=$#; COMP_WORDS=(linerate \"$@\"); \
                    _linerate linerate \"${@: -1}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; echo \"${COMPREPLY[@]}\"";
    let complete = |words: &[&str]| {
        let output = Command::new("bash")
            .args(["-c", complete])
            .arg(manual.0.join("bash/linerate.bash"))
            .args(words)
            .output()
            .ok()?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let Some(verbs) = complete(&["ver"]) else { return };
    assert_eq!(verbs, "verify");
    assert_eq!(complete(&["show", "ni"]).unwrap(), "nics");
    assert_eq!(complete(&["bench", "--direction", "d"]).unwrap(), "down");
    assert_eq!(complete(&["dead"]).unwrap(), "", "hidden");
}
