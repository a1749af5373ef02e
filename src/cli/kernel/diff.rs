//! `linerate kernel diff`.

use std::path::Path;

use serde::Serialize;

use super::{KernelDiffArgs, Named, of_file, running};
use crate::cli::context::Context;
use crate::cli::output::Output;
use crate::decide::kernel::diff::{Consequence, Diff, Difference, Group, diff};
use crate::decide::kernel::relevance::Subject;
use crate::decide::kernel::table::matters;
use crate::error::{ExitCode, Result};

/// Runs the command.
pub(super) fn run(context: &Context, args: &KernelDiffArgs) -> Result<ExitCode> {
    let out = &context.out;
    let one = |path: &Path| match path == Path::new("-") {
        true => running(context).map(|(named, _)| named),
        false => of_file(path),
    };
    let (a, b) = (one(&args.a)?, one(&args.b)?);
    let found = diff(&a.config, &b.config);
    for warning in &found.warnings {
        out.say(out.warn(warning));
    }
    if out.json {
        out.json(&DiffDocument::of(&a, &b, &found))?;
    } else {
        out.tell(text(out, &a, &b, &found, args.all))?;
    }
    Ok(ExitCode::Done)
}

fn text(out: &Output, a: &Named, b: &Named, found: &Diff, all: bool) -> String {
    let count: usize = found.groups.iter().map(|g| g.chosen.len() + g.follows.len()).sum();
    let mut lines = vec![format!(
        "{} -> {}: {} choices differ ({count} options with what follows)",
        a.place,
        b.place,
        found.groups.len()
    )];
    for subject in Subject::ALL {
        let groups: Vec<&Group> =
            found.groups.iter().filter(|g| Subject::of(g) == subject).collect();
        if groups.is_empty() {
            continue;
        }
        lines.push(String::new());
        lines.push(out.bold(format!("{} ({})", subject.heading(), groups.len())));
        let (makers, rest): (Vec<&Group>, Vec<&Group>) =
            groups.into_iter().partition(|g| !all && maker(g).is_some());
        for group in rest {
            lines.extend(of_group(out, group, all));
        }
        lines.extend(of_makers(out, &makers));
    }
    let rest = |what: &str, these: &[Difference], lines: &mut Vec<String>| {
        if these.is_empty() {
            return;
        }
        lines.push(String::new());
        lines.push(out.bold(format!("{what} ({})", these.len())));
        if all {
            lines.extend(these.iter().map(|d| format!("  {}: {}", d.name, d.change())));
        } else {
            lines.push(out.dim("  --all lists them"));
        }
    };
    rest("only one file names them, without a choice of its own", &found.only_one, &mut lines);
    rest("compilers and what the architecture brings", &found.surroundings, &mut lines);
    lines.join("\n")
}

/// Whose cards a choice is about, and what becomes of them: `REALTEK`, `y -> n`.
fn maker(group: &Group) -> Option<(&str, String)> {
    let [only] = group.chosen.as_slice() else { return None };
    Some((only.name.strip_prefix("NET_VENDOR_")?, only.change()))
}

/// The makers of cards that a kernel has or lacks, one line for each change: a kernel for clouds
/// differs from its sibling by sixty of them.
fn of_makers(out: &Output, groups: &[&Group]) -> Vec<String> {
    let mut changes: Vec<(String, Vec<&str>, usize)> = Vec::new();
    for group in groups {
        let Some((name, change)) = maker(group) else { continue };
        let follows = group.follows.len();
        match changes.iter_mut().find(|(known, ..)| *known == change) {
            Some((_, names, count)) => {
                names.push(name);
                *count += follows;
            }
            None => changes.push((change, vec![name], follows)),
        }
    }
    let mut lines = Vec::new();
    for (change, names, follows) in changes {
        let also = if follows > 0 { out.dim(format!(" (+{follows})")) } else { String::new() };
        lines.push(format!("  NET_VENDOR_*: {change}: {}{also}", names.join(" ")));
    }
    lines
}

fn of_group(out: &Output, group: &Group, all: bool) -> Vec<String> {
    let one = |d: &Difference| format!("{}: {}", d.name, d.change());
    let (telling, quiet): (Vec<_>, Vec<_>) =
        group.follows.iter().partition(|d| matters(&d.name).is_some());
    let chosen: Vec<String> = group.chosen.iter().chain(telling).map(one).collect();
    let mut line = format!("  {}", chosen.join(", "));
    if !quiet.is_empty() && !all {
        line.push_str(&out.dim(format!(" (+{})", quiet.len())));
    }
    let mut lines = vec![line];
    if let Some(Consequence { option, kernel, words }) = &group.cost {
        lines.push(out.dim(format!("      {option} in {kernel}: {words}")));
    }
    if all {
        lines.extend(quiet.into_iter().map(|d| out.dim(format!("      {}", one(d)))));
    }
    lines
}

#[derive(Serialize)]
struct DiffDocument<'a> {
    format: &'static str,
    version: u32,
    a: &'a str,
    b: &'a str,
    warnings: &'a [String],
    choices: Vec<Choice<'a>>,
    only_one: Vec<Change<'a>>,
    surroundings: Vec<Change<'a>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    name: &'a str,
    /// The reason why it may matter for forwarding.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    /// The kernel that it costs something in: `A` or `B`.
    #[serde(skip_serializing_if = "Option::is_none")]
    costs_in: Option<&'static str>,
    chosen: Vec<Change<'a>>,
    follows: Vec<Change<'a>>,
}

#[derive(Serialize)]
struct Change<'a> {
    option: &'a str,
    a: Option<String>,
    b: Option<String>,
}

fn changes(differences: &[Difference]) -> Vec<Change<'_>> {
    let of = |d: &Option<_>| d.as_ref().map(ToString::to_string);
    let one = |d: &'_ Difference| (of(&d.a), of(&d.b));
    let mut all = Vec::new();
    for difference in differences {
        let (a, b) = one(difference);
        all.push(Change { option: &difference.name, a, b });
    }
    all
}

impl<'a> DiffDocument<'a> {
    fn of(a: &'a Named, b: &'a Named, found: &'a Diff) -> Self {
        let mut choices = Vec::new();
        for subject in Subject::ALL {
            for group in found.groups.iter().filter(|g| Subject::of(g) == subject) {
                choices.push(Choice {
                    name: &group.name,
                    why: group.cost.as_ref().map(|cost| cost.words.as_str()),
                    costs_in: group.cost.as_ref().map(|cost| cost.kernel),
                    chosen: changes(&group.chosen),
                    follows: changes(&group.follows),
                });
            }
        }
        Self {
            format: "linerate-kernel-diff",
            version: 1,
            a: &a.place,
            b: &b.place,
            warnings: &found.warnings,
            choices,
            only_one: changes(&found.only_one),
            surroundings: changes(&found.surroundings),
        }
    }
}
