//! `linerate kernel bisect`: which kernel to build next, and what was found.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{KernelBisectArgs, Named, of_file};
use crate::cli::compare;
use crate::cli::context::Context;
use crate::cli::output::Output;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::kernel::bisect::{Answer, Ask, Culprit, Goal, Setup, Verdict, search};
use crate::kernel::check::matters;
use crate::kernel::diff::{Group, diff};
use crate::kernel::mixed::Choices;
use crate::model::kconfig::KernelConfig;
use crate::parse::config;
use crate::store::bisect::{Content, Directory, Line, Terms};

/// Why an answer has no rate, in the file of answers.
const NO_BOOT: &str = "no-boot";
const UNCLEAR: &str = "unclear";
const BUILT_OTHERWISE: &str = "built-otherwise";

/// Runs the command.
pub(super) fn run(context: &Context, args: &KernelBisectArgs) -> Result<ExitCode> {
    let out = &context.out;
    let directory = Directory::at(&args.dir);
    if let (Some(a), Some(b)) = (&args.a, &args.b) {
        begin(&directory, args, &of_file(a)?, &of_file(b)?)?;
    }
    let mut bench = Bench::open(&directory)?;
    if bench.content.lost > 0 {
        let lost = bench.content.lost;
        out.say(
            out.warn(format!("{lost} answers were cut short and are left out: give them again")),
        );
    }
    if args.undo {
        let Some(line) = bench.content.lines.pop() else {
            return Err(Error::usage("kernel bisect --undo", "there is no answer to take back"));
        };
        directory.write_answers(&bench.content.terms, &bench.content.lines)?;
        out.say(format_args!("taken back: {}", words(&line)));
    }
    let answers = answers(args)?;
    if !answers.is_empty() {
        bench.take(&directory, answers, args)?;
    }
    let next = bench.search();
    if let Err(ask) = &next {
        directory.write_next(bench.choices.text(&bench.a, &bench.b, &ask.setup).as_bytes())?;
    }
    if out.json {
        out.json(&bench.told(&directory, &next))?;
    } else {
        match &next {
            Ok(verdict) => out.data(bench.verdict(out, verdict))?,
            Err(ask) => out.data(bench.proposal(out, &directory, ask))?,
        }
    }
    Ok(ExitCode::Done)
}

/// Makes the directory, or makes sure that it holds this very search.
fn begin(directory: &Directory, args: &KernelBisectArgs, a: &Named, b: &Named) -> Result<()> {
    let what = || format!("begin a search between {} and {}", a.place, b.place);
    if a.config.arch != b.config.arch {
        return Err(Error::usage(what(), "they are of two architectures"));
    }
    if a.config.release() != b.config.release() {
        return Err(Error::usage(what(), "they are of two kernel versions").hint(
            "build both from one source: copy the older one there, make olddefconfig, and give that",
        ));
    }
    if directory.is_begun() {
        let begun = directory.read()?;
        if begun.a != a.text || begun.b != b.text {
            let why = format!("{} holds another search", directory.path().display());
            return Err(Error::usage(what(), why).hint("name another directory with --dir"));
        }
        return Ok(());
    }
    let keep: BTreeSet<String> = args
        .keep
        .iter()
        .map(|name| name.strip_prefix("CONFIG_").unwrap_or(name).to_owned())
        .collect();
    if let Some(unknown) =
        keep.iter().find(|k| a.config.get(k).is_none() && b.config.get(k).is_none())
    {
        return Err(Error::usage(what(), format!("neither has the option {unknown} of --keep")));
    }
    let smallest = args.smallest.map(|percent| (percent / 100.0).ln_1p());
    let terms = Terms::new(keep, smallest);
    let choices = Choices::of(&diff(&a.config, &b.config), &terms.keep);
    if choices.groups.is_empty() {
        return Err(Error::usage(what(), "no option differs that could be switched"));
    }
    directory.begin(&a.text, &b.text, &terms)?;
    let all: BTreeSet<String> = choices.groups.iter().map(|g| g.name.clone()).collect();
    let line = |as_in_b: &BTreeSet<String>, rate: &f64| Line {
        as_in_b: as_in_b.clone(),
        rate: Some(*rate),
        error: None,
        failed: None,
        from: None,
    };
    let of_a = args.rate_a.iter().map(|rate| line(&BTreeSet::new(), rate));
    let of_b = args.rate_b.iter().map(|rate| line(&all, rate));
    directory.write_answers(&terms, &of_a.chain(of_b).collect::<Vec<_>>())
}

/// What the command line says of the kernel: a rate, or why there is none, and where it is from.
type Given = (Option<f64>, Option<&'static str>, Option<String>);

fn answers(args: &KernelBisectArgs) -> Result<Vec<Given>> {
    let mut all: Vec<Given> = args.rate.iter().map(|rate| (Some(*rate), None, None)).collect();
    if args.no_boot {
        all.push((None, Some(NO_BOOT), None));
    }
    if args.unclear {
        all.push((None, Some(UNCLEAR), None));
    }
    if let Some(path) = &args.result {
        let figures = compare::figures(path)?;
        let what = || format!("take a figure from {}", path.display());
        let names = || figures.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>().join(", ");
        let chosen = match &args.figure {
            Some(name) => figures.iter().find(|(n, _)| n == name),
            None if figures.len() > 1 => {
                return Err(Error::usage(what(), format!("it has several: {}", names()))
                    .hint("name one with --figure"));
            }
            None => figures.first(),
        };
        let Some((name, values)) = chosen else {
            return Err(Error::usage(what(), format!("it has: {}", names())));
        };
        let from = Some(format!("{} ({name})", path.display()));
        all.extend(values.iter().map(|rate| (Some(*rate), None, from.clone())));
        if values.is_empty() {
            return Err(Error::new(ExitCode::Refused, what(), "no value of it stands"));
        }
    }
    Ok(all)
}

fn words(line: &Line) -> String {
    match (line.rate, &line.failed) {
        (Some(rate), _) => format!("{rate} with {} choices as in B", line.as_in_b.len()),
        (_, why) => why.clone().unwrap_or_default(),
    }
}

/// A search as far as it is.
struct Bench {
    content: Content,
    a: KernelConfig,
    b: KernelConfig,
    choices: Choices,
}

impl Bench {
    fn open(directory: &Directory) -> Result<Self> {
        let content = directory.read()?;
        let read = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            config::read(bytes).ok_or_else(|| {
                Error::usage(format!("read {}", path.display()), "it is damaged")
                    .hint("remove the directory and begin again")
            })
        };
        let (a, b) = (read("a.config", &content.a)?, read("b.config", &content.b)?);
        let choices = Choices::of(&diff(&a, &b), &content.terms.keep);
        Ok(Self { content, a, b, choices })
    }

    /// The answers by kernel. Of one that both has rates and failed, the rates count.
    fn answers(&self) -> BTreeMap<Setup, Answer> {
        let mut all: BTreeMap<Setup, Answer> = BTreeMap::new();
        for line in &self.content.lines {
            let Some(setup) = self.choices.setup(&line.as_in_b) else { continue };
            match (line.rate, all.get_mut(&setup)) {
                (Some(rate), Some(Answer::Rates(rates))) => rates.push((rate, line.error)),
                (Some(rate), _) => {
                    all.insert(setup, Answer::Rates(vec![(rate, line.error)]));
                }
                (None, None) => {
                    let unclear = line.failed.as_deref() == Some(UNCLEAR);
                    all.insert(setup, if unclear { Answer::Unclear } else { Answer::NoBoot });
                }
                (None, Some(_)) => {}
            }
        }
        all
    }

    fn search(&self) -> std::result::Result<Verdict, Ask> {
        let goal =
            Goal { options: self.choices.groups.len(), smallest: self.content.terms.smallest };
        search(goal, &self.answers())
    }

    /// Writes down what the proposed kernel gave; what was really built counts.
    fn take(
        &mut self,
        directory: &Directory,
        given: Vec<Given>,
        args: &KernelBisectArgs,
    ) -> Result<()> {
        let Err(ask) = self.search() else {
            return Err(Error::usage("take an answer", "the search is at its end")
                .hint("linerate kernel bisect shows what was found; --undo takes an answer back"));
        };
        let proposed = self.choices.names(&ask.setup);
        let mut setup = proposed.clone();
        if let Some(path) = &args.built {
            let built = of_file(path)?;
            match self.choices.built(&built.config) {
                Ok(really) => setup = self.choices.names(&really),
                Err(neither) => {
                    let what = format!("use the answer for {}", built.place);
                    let why = format!("neither as in A nor as in B: {}", neither.join(", "));
                    return Err(Error::usage(what, why)
                        .hint("answer --unclear, and another kernel is proposed"));
                }
            }
        }
        let mut line = |as_in_b: &BTreeSet<String>, (rate, failed, from): Given| {
            self.content.lines.push(Line {
                as_in_b: as_in_b.clone(),
                rate,
                error: None,
                failed: failed.map(str::to_owned),
                from,
            });
        };
        for one in given {
            line(&setup, one);
        }
        if setup != proposed {
            // The proposed one can't be had; another is proposed in its place.
            line(&proposed, (None, Some(BUILT_OTHERWISE), None));
        }
        directory.write_answers(&self.content.terms, &self.content.lines)
    }

    fn heading(&self) -> String {
        let choices = self.choices.groups.len();
        let kept = match self.choices.kept.as_slice() {
            [] => String::new(),
            kept => format!(", {} stay as in A ({})", kept.len(), kept.join(", ")),
        };
        format!("{choices} choices differ{kept}")
    }

    fn proposal(&self, out: &Output, directory: &Directory, ask: &Ask) -> String {
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
        let mut lines = vec![self.heading()];
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
        let left = ask.builds_left;
        lines.push(out.dim(format!(
            "about {left} kernels to build if it is one option; each further one takes up to {} more",
            usize::BITS - all.leading_zeros()
        )));
        lines.join("\n")
    }

    fn verdict(&self, out: &Output, verdict: &Verdict) -> String {
        let mut lines = vec![
            self.heading(),
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
            lines.extend(self.culprit(out, culprit, verdict.smallest));
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

    fn culprit(&self, out: &Output, culprit: &Culprit, smallest: f64) -> Vec<String> {
        let groups: Vec<&Group> =
            culprit.options.iter().filter_map(|i| self.choices.groups.get(*i)).collect();
        let changes: Vec<String> = groups
            .iter()
            .flat_map(|group| &group.chosen)
            .map(|d| format!("{} {}", d.name, d.change()))
            .collect();
        let error = 2.0 * culprit.error * 100.0;
        let effect = share(culprit.effect);
        let mut lines =
            vec![out.bold(format!("  {effect} (+-{error:.1})  {}", changes.join(", ")))];
        if groups.len() > 1 {
            lines.push(format!(
                "      one of these {} choices, or several: no kernel in between could be measured",
                groups.len()
            ));
        }
        if culprit.interacts(smallest)
            && let Some(alone) = culprit.alone
        {
            lines.push(format!(
                "      alone it costs {}: it interacts with the others",
                share(alone)
            ));
        }
        let known = groups.iter().flat_map(|g| &g.chosen).find_map(|d| matters(&d.name));
        lines.extend(known.map(|rule| out.dim(format!("      known: {}", rule.consequence()))));
        lines
    }

    fn told<'a>(
        &'a self,
        directory: &Directory,
        next: &'a std::result::Result<Verdict, Ask>,
    ) -> Told<'a> {
        let names = |options: &[usize]| {
            let groups = options.iter().filter_map(|i| self.choices.groups.get(*i));
            groups.map(|g| g.name.as_str()).collect()
        };
        let ask = next.as_ref().err();
        Told {
            format: "linerate-kernel-bisect",
            version: 1,
            choices: self.choices.groups.len(),
            kept: &self.choices.kept,
            next: ask.map(|ask| Next {
                file: directory.path().join("next.config").display().to_string(),
                as_in_b: self.choices.names(&ask.setup),
                again: ask.again,
                times: ask.times,
                builds_left: ask.builds_left,
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
                        choices: names(&c.options),
                        effect: c.effect.exp_m1(),
                        error: c.error,
                        alone: c.alone.map(f64::exp_m1),
                        interacts: c.interacts(verdict.smallest),
                    })
                    .collect(),
            }),
        }
    }
}

/// A logarithm of a ratio, as percent.
fn share(ln: f64) -> String {
    format!("{:+.1} %", ln.exp_m1() * 100.0)
}

#[derive(Serialize)]
struct Told<'a> {
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
    /// How often to measure it.
    times: usize,
    builds_left: usize,
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
