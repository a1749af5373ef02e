//! `linerate kernel bisect`: which kernel to build next, and what was found.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{KernelBisectArgs, Named, of_file};
use crate::cli::context::Context;
use crate::cli::output::Output;
use crate::cli::shared::figures;
use crate::decide::kernel::bisect::{Ask, Culprit, Verdict};
use crate::decide::kernel::diff::Group;
use crate::decide::kernel::session::{CannotBegin, CannotTake, Outcome, Session};
use crate::error::{Error, ExitCode, Result};
use crate::machine::parse::config;
use crate::machine::store::bisect::{Content, Directory, Terms};
use crate::model::bisect::{BuildAnswer, NoRate};

/// Runs the command.
pub(super) fn run(context: &Context, args: &KernelBisectArgs) -> Result<ExitCode> {
    let out = &context.out;
    let directory = Directory::at(&args.dir);
    if let (Some(a), Some(b)) = (&args.a, &args.b) {
        begin(&directory, args, of_file(a)?, of_file(b)?)?;
    }
    let content = directory.read()?;
    if content.lost > 0 {
        let lost = content.lost;
        out.say(
            out.warn(format!("{lost} answers were cut short and are left out: give them again")),
        );
    }
    let (mut session, terms) = open(&directory, content)?;
    if args.undo {
        let Some(answer) = session.answers.pop() else {
            let why = "there is no answer to take back";
            return Err(Error::usage("kernel bisect --undo", why)
                .hint("linerate kernel bisect --rate X gives one"));
        };
        directory.write_answers(&terms, &session.answers)?;
        out.say(format_args!("taken back: {}", words(&answer)));
    }
    let outcomes = outcomes(args)?;
    if !outcomes.is_empty() {
        take(&mut session, outcomes, args)?;
        directory.write_answers(&terms, &session.answers)?;
    }
    let next = session.next();
    if let Err(ask) = &next {
        directory.write_next(session.proposal(ask).as_bytes())?;
    }
    if out.json {
        out.json(&document(&session, &directory, &next))?;
    } else {
        match &next {
            Ok(verdict) => out.tell(verdict_text(out, &session, verdict))?,
            Err(ask) => out.tell(proposal_text(out, &session, &directory, ask))?,
        }
    }
    Ok(ExitCode::Done)
}

/// Makes the directory, or makes sure that it holds this very search.
fn begin(directory: &Directory, args: &KernelBisectArgs, a: Named, b: Named) -> Result<()> {
    let what = format!("begin a search between {} and {}", a.place, b.place);
    if directory.is_begun() {
        let begun = directory.read()?;
        if begun.a != a.text || begun.b != b.text {
            let why = format!("{} holds another search", directory.path().display());
            return Err(Error::usage(what, why).hint("name another directory with --dir"));
        }
        return Ok(());
    }
    let keep = args.keep.iter().map(|name| name.strip_prefix("CONFIG_").unwrap_or(name).to_owned());
    let terms = Terms::new(keep.collect(), args.smallest.map(|percent| (percent / 100.0).ln_1p()));
    let cannot = |why: CannotBegin| {
        let error = Error::usage(&what, &why);
        match why.remedy() {
            Some(remedy) => error.hint(remedy),
            None => error,
        }
    };
    let mut session =
        Session::begin(a.config, b.config, &terms.keep, terms.smallest).map_err(cannot)?;
    session.take_ends(&args.rate_a, &args.rate_b).map_err(cannot)?;
    directory.begin(&a.text, &b.text, &terms)?;
    directory.write_answers(&terms, &session.answers)
}

/// The search that a directory holds.
fn open(directory: &Directory, content: Content) -> Result<(Session, Terms)> {
    let read = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        config::read(bytes).ok_or_else(|| {
            Error::usage(format!("read {}", path.display()), "it is damaged")
                .hint("remove the directory and begin again")
        })
    };
    let (a, b) = (read("a.config", &content.a)?, read("b.config", &content.b)?);
    let terms = content.terms;
    Ok((Session::resume(a, b, &terms.keep, terms.smallest, content.answers), terms))
}

/// The answers that the command line gives.
fn outcomes(args: &KernelBisectArgs) -> Result<Vec<Outcome>> {
    let mut all: Vec<Outcome> = args.rate.iter().map(|rate| Outcome::Rate(*rate, None)).collect();
    if args.no_boot {
        all.push(Outcome::None(NoRate::NoBoot));
    }
    if args.unclear {
        all.push(Outcome::None(NoRate::Unclear));
    }
    if let Some(path) = &args.result {
        let figures = figures::read(path)?.figures;
        let what = || format!("take a figure from {}", path.display());
        let names = || figures.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        let chosen = match &args.figure {
            Some(name) => figures.iter().find(|figure| figure.name == *name),
            None if figures.len() > 1 => {
                return Err(Error::usage(what(), format!("it has several: {}", names()))
                    .hint("name one with --figure"));
            }
            None => figures.first(),
        };
        let Some(figure) = chosen else {
            return Err(Error::usage(what(), format!("it has: {}", names())));
        };
        if figure.values.is_empty() {
            return Err(Error::new(ExitCode::Refused, what(), "no value of it stands"));
        }
        let from = format!("{} ({})", path.display(), figure.name);
        all.extend(figure.values.iter().map(|rate| Outcome::Rate(*rate, Some(from.clone()))));
    }
    Ok(all)
}

/// Takes what the proposed kernel gave.
fn take(session: &mut Session, outcomes: Vec<Outcome>, args: &KernelBisectArgs) -> Result<()> {
    let built = args.built.as_deref().map(of_file).transpose()?;
    session.take(outcomes, built.as_ref().map(|named| &named.config)).map_err(|why| match why {
        CannotTake::Ended => Error::usage("take an answer", "the search is at its end")
            .hint("linerate kernel bisect shows what was found; --undo takes an answer back"),
        CannotTake::Rate(why) => Error::usage("take an answer", why).hint(why.remedy()),
        CannotTake::Cut => {
            let place = built.as_ref().map(|named| named.place.as_str()).unwrap_or_default();
            Error::usage(format!("use the answer for {place}"), "it was cut short")
                .hint("give the .config of the build, whole")
        }
        CannotTake::LikeNeither(names) => {
            let place = built.as_ref().map(|named| named.place.as_str()).unwrap_or_default();
            let why = format!("neither as in A nor as in B: {}", names.join(", "));
            Error::usage(format!("use the answer for {place}"), why)
                .hint("answer --unclear, and another kernel is proposed")
        }
    })
}

fn words(answer: &BuildAnswer) -> String {
    match (answer.rate, answer.failed) {
        (Some(rate), _) => format!("{rate} with {} choices as in B", answer.as_in_b.len()),
        (None, why) => why.map(NoRate::word).unwrap_or_default().to_owned(),
    }
}

fn heading(session: &Session) -> String {
    let choices = session.choices.groups.len();
    let kept = match session.choices.kept.as_slice() {
        [] => String::new(),
        kept => format!(", {} stay as in A ({})", kept.len(), kept.join(", ")),
    };
    format!("{choices} choices differ{kept}")
}

fn proposal_text(out: &Output, session: &Session, directory: &Directory, ask: &Ask) -> String {
    let on = ask.setup.iter().filter(|on| **on).count();
    let all = ask.setup.len();
    let next = directory.path().join("next.config");
    let next = next.display();
    let dir = match directory.path().to_str() {
        Some("linerate-bisect") => String::new(),
        _ => format!(" --dir {}", directory.path().display()),
    };
    let which = match on {
        0 => "A itself".to_owned(),
        on if on == all => "B itself, but for what stays as in A".to_owned(),
        on => format!("{on} of {all} choices as in B, looking among {}", ask.among),
    };
    let mut lines = vec![heading(session)];
    if ask.again {
        let times = match ask.times {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        lines.push(out.bold(format!("measure this kernel {times} more: {next}")));
        lines.push(format!("  {which}; what is known of it is too uncertain to decide"));
    } else {
        lines.push(out.bold(format!("build and measure: {next}")));
        lines.push(format!("  {which}"));
        lines.push(format!("  cp {next} .config && make olddefconfig && make"));
    }
    lines.push(format!(
        "then: linerate kernel bisect{dir} --rate RATE (or --result FILE, --no-boot, --unclear), \
         best with --built .config"
    ));
    let (builds, measurements) = (ask.builds_left, ask.measurements_left);
    lines.push(out.dim(format!(
        "about {builds} kernels to build and {measurements} measurements if it is one option; each \
         further one takes up to {} kernels more",
        usize::BITS - all.leading_zeros()
    )));
    lines.join("\n")
}

fn verdict_text(out: &Output, session: &Session, verdict: &Verdict) -> String {
    let mut lines = vec![
        heading(session),
        format!(
            "from A to B: {}; {} kernels were answered for between them",
            share(verdict.whole),
            verdict.builds
        ),
    ];
    if verdict.culprits.is_empty() {
        let smallest = share(-verdict.smallest);
        lines.push(out.bold(format!("no option makes a difference of {smallest} or more")));
        return lines.join("\n");
    }
    for culprit in &verdict.culprits {
        lines.extend(culprit_lines(out, session, culprit, verdict.smallest));
    }
    lines.push(match verdict.unexplained.abs() > verdict.smallest {
        true => out.warn(format!("not explained by them: {}", share(verdict.unexplained))),
        false => "A with these as in B is as B: they explain all of it".to_owned(),
    });
    lines.push(match verdict.remaining.abs() > verdict.smallest {
        true => out.warn(format!(
            "B with these as in A is still {} from A: something else does the same",
            share(verdict.remaining)
        )),
        false => "B with these as in A is as A: nothing else need be changed".to_owned(),
    });
    lines.join("\n")
}

fn culprit_lines(out: &Output, session: &Session, culprit: &Culprit, smallest: f64) -> Vec<String> {
    let groups: Vec<&Group> = session.groups(&culprit.options).collect();
    let changes: Vec<String> = groups
        .iter()
        .flat_map(|group| &group.chosen)
        .map(|d| format!("{} {}", d.name, d.change()))
        .collect();
    let error = 2.0 * culprit.error * 100.0;
    let effect = share(culprit.effect);
    let mut lines = vec![out.bold(format!("  {effect} (+-{error:.1})  {}", changes.join(", ")))];
    if groups.len() > 1 {
        lines.push(format!(
            "      one of these {} choices, or several: no kernel in between could be measured",
            groups.len()
        ));
    }
    if culprit.interacts(smallest)
        && let Some(alone) = culprit.alone
    {
        lines.push(format!("      alone it costs {}: it interacts with the others", share(alone)));
    }
    let known = groups.iter().find_map(|group| group.cost.as_ref());
    lines.extend(known.map(|cost| out.dim(format!("      known: {}", cost.words))));
    lines
}

fn document<'a>(
    session: &'a Session,
    directory: &Directory,
    next: &'a std::result::Result<Verdict, Ask>,
) -> BisectDocument<'a> {
    let ask = next.as_ref().err();
    BisectDocument {
        format: "linerate-kernel-bisect",
        version: 1,
        choices: session.choices.groups.len(),
        kept: &session.choices.kept,
        next: ask.map(|ask| Next {
            file: directory.path().join("next.config").display().to_string(),
            as_in_b: session.choices.names(&ask.setup),
            again: ask.again,
            times: ask.times,
            builds_left: ask.builds_left,
            measurements_left: ask.measurements_left,
        }),
        verdict: next.as_ref().ok().map(|verdict| Found {
            whole: verdict.whole.exp_m1(),
            unexplained: verdict.unexplained.exp_m1(),
            remaining: verdict.remaining.exp_m1(),
            builds: verdict.builds,
            culprits: verdict
                .culprits
                .iter()
                .map(|c| Who {
                    choices: session.groups(&c.options).map(|g| g.name.as_str()).collect(),
                    effect: c.effect.exp_m1(),
                    error: c.error,
                    alone: c.alone.map(f64::exp_m1),
                    interacts: c.interacts(verdict.smallest),
                })
                .collect(),
        }),
    }
}

/// A logarithm of a ratio, as percent.
fn share(ln: f64) -> String {
    format!("{:+.1} %", ln.exp_m1() * 100.0)
}

#[derive(Serialize)]
struct BisectDocument<'a> {
    format: &'static str,
    version: u32,
    choices: usize,
    kept: &'a [String],
    next: Option<Next>,
    verdict: Option<Found<'a>>,
}

#[derive(Serialize)]
struct Next {
    file: String,
    as_in_b: BTreeSet<String>,
    again: bool,
    /// Number of times to measure it.
    times: usize,
    builds_left: usize,
    measurements_left: usize,
}

/// Effects are shares of the rate: -0.39 is 39 % slower.
#[derive(Serialize)]
struct Found<'a> {
    whole: f64,
    unexplained: f64,
    remaining: f64,
    builds: usize,
    culprits: Vec<Who<'a>>,
}

#[derive(Serialize)]
struct Who<'a> {
    choices: Vec<&'a str>,
    effect: f64,
    error: f64,
    alone: Option<f64>,
    interacts: bool,
}
