//! Writes the manual pages (`man1`) and the completions of bash, zsh and fish into a directory:
//!
//! ```text
//! cargo run --example manual target/manual
//! ```

#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a tool for who packs it")]

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// The line of a verb's help under which its examples stand.
const EXAMPLES: &str = "Examples:";

/// The lines that make an apostrophe of `\\*(Aq`.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory] = arguments.as_slice() else {
        eprintln!("usage: manual DIRECTORY");
        return ExitCode::from(2);
    };
    match write(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("manual: {directory}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the directory and what belongs in it.
pub(crate) fn write(directory: &Path) -> io::Result<()> {
    let mut command = linerate::cli::Cli::command().disable_help_subcommand(true);
    command.build();
    let man = directory.join("man1");
    fs::create_dir_all(&man)?;
    pages(&command, &man, "")?;
    // bash would be offered what the help does not tell of.
    let plain = linerate::cli::Cli::command();
    let verbs = plain.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let mut command =
        Command::new("linerate").args(plain.get_arguments().cloned()).subcommands(verbs);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let to = directory.join(shell.to_string());
        fs::create_dir_all(&to)?;
        clap_complete::generate_to(shell, &mut command, "linerate", &to)?;
    }
    Ok(())
}

/// A page for the command and for each of its own.
fn pages(command: &Command, directory: &Path, parent: &str) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    fs::write(directory.join(format!("{name}.1")), page(command, &name, parent)?)?;
    for one in shown(command) {
        pages(one, directory, &name)?;
    }
    Ok(())
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set())
}

fn page(command: &Command, name: &str, parent: &str) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut out = Vec::new();
    // Without a date, so that two builds of one source are equal.
    writeln!(out, ".TH {name} 1 \"\" \"linerate {}\"", env!("CARGO_PKG_VERSION"))?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut examples = Vec::new();
    let mut prose = Vec::new();
    let mut among = false;
    for line in help.lines() {
        match line {
            EXAMPLES => among = true,
            "" => {
                among = false;
                prose.push(line);
            }
            line if among => examples.push(line.trim_start()),
            line => prose.push(line),
        }
    }
    while prose.last() == Some(&"") {
        prose.pop();
    }
    paragraphs(&prose, &mut out)?;
    man.render_options_section(&mut out)?;
    if shown(command).next().is_some() {
        man.render_subcommands_section(&mut out)?;
    }
    if !examples.is_empty() {
        writeln!(out, ".SH EXAMPLES\n.nf")?;
        let mut lines = Roff::new();
        for line in examples {
            lines.text([roman(line)]);
        }
        lines.to_writer(&mut out)?;
        writeln!(out, ".fi")?;
    }
    let mut also: Vec<String> =
        shown(command).map(|one| format!("{name}-{}", one.get_name())).collect();
    also.extend((!parent.is_empty()).then(|| parent.to_owned()));
    writeln!(out, ".SH \"SEE ALSO\"")?;
    let last = also.len().saturating_sub(1);
    for (at, page) in also.iter().enumerate() {
        writeln!(out, ".BR {} (1){}", page.replace('-', "\\-"), if at < last { "," } else { "" })?;
    }
    // Each part begins as if it were alone, and lists of values with two empty lines.
    let text = String::from_utf8_lossy(&out);
    Ok(format!("{PREAMBLE}{}", text.replace(PREAMBLE, ""))
        .replace(".br\n\n.br\n", ".br\n")
        .into_bytes())
}

/// Prose as paragraphs; an empty line begins another.
fn paragraphs(lines: &[&str], out: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    for line in lines {
        match line.is_empty() {
            true => roff.control("PP", []),
            false => roff.text([roman(*line)]),
        };
    }
    roff.to_writer(out)
}
