//! `linerate check`: what holds this router back, on what evidence, and what to do about it.

mod losses;

use std::time::Duration;

use clap::Args;

use super::context::Context;
use super::interrupt;
use super::shared::{seconds, severity};
use crate::decide::diagnose::{self, Diagnosis, Load, Subject, Window};
use crate::decide::losses::{Ledger, ledger};
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::{HostError, clock};
use crate::measure::sample::{Telemetry, Watch};
use crate::model::condition::Condition;
use crate::model::finding::{Finding, Severity, Unseen};
use crate::model::snapshot::Snapshot;
use crate::report::check as report;

/// `check`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate check                      # by what can be read at once
  linerate check --load 10s           # watches the traffic first
  linerate check --losses 10s         # where packets are lost, stage by stage")]
pub struct CheckArgs {
    /// Only these rules (`--list` names them)
    #[arg(value_name = "RULE")]
    pub rules: Vec<String>,
    /// Exit with 1 when a finding is at least this grave
    #[arg(long, value_name = "LEVEL", default_value = "warning", value_parser = severity())]
    pub fail_on: Severity,
    /// Watch the router for this long first, so that rules see rates; best while traffic flows
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub load: Option<f64>,
    /// Show where packets are lost, stage by stage: since boot and, with TIME, what rises meanwhile
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        value_parser = seconds,
        conflicts_with_all = ["rules", "load", "list", "fail_on"]
    )]
    pub losses: Option<Option<f64>>,
    /// List the rules, what each looks for and what it costs
    #[arg(long, conflicts_with_all = ["rules", "load"])]
    pub list: bool,
    /// Print the rules as the table of docs/rules.md
    #[arg(long, hide = true)]
    pub markdown: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &CheckArgs) -> Result<ExitCode> {
    let out = &context.out;
    if args.list || args.markdown {
        match (out.json, args.markdown) {
            (true, _) => out.json(&Rules::all())?,
            (_, true) => out.data(report::markdown())?,
            _ => out.document(&report::list())?,
        }
        return Ok(ExitCode::Done);
    }
    if let Some(seconds) = args.losses {
        return losses::run(context, seconds);
    }
    if let Some(unknown) = args.rules.iter().find(|name| diagnose::rules().all(|r| r.id != **name))
    {
        let is_near = |id: &&str| !unknown.is_empty() && id.contains(unknown.as_str());
        let near = diagnose::rules().map(|r| r.id).find(is_near);
        let hint = near.map_or_else(
            || "linerate check --list names them".to_owned(),
            |id| format!("did you mean {id}? linerate check --list names all"),
        );
        return Err(Error::usage(format!("check {unknown:?}"), "no such rule").hint(hint));
    }
    let Some(Looked { snapshot, condition, window, lost }) = look(context, args.load)? else {
        out.say("interrupted: nothing was changed");
        return Ok(ExitCode::Interrupted);
    };
    let subject = Subject::new(&snapshot, &condition, window.as_ref());
    let told = diagnose::diagnose(&subject, &args.rules);
    if out.json {
        out.json(&CheckDocument::of(&snapshot, &subject, &told, lost.as_ref()))?;
    } else {
        let watched = window.is_some();
        let mut document = report::document(&snapshot, &told, watched, out.is_verbose());
        if let Some(lost) = &lost {
            crate::report::losses::beside(&mut document, lost);
        }
        out.document(&document)?;
    }
    let grave = told.findings.iter().any(|f| f.severity >= args.fail_on);
    Ok(if grave { ExitCode::Findings } else { ExitCode::Done })
}

struct Looked {
    snapshot: Snapshot,
    condition: Condition,
    window: Option<Window>,
    lost: Option<Ledger>,
}

/// Looks, for a while if asked to; `None` when interrupted meanwhile.
fn look(context: &Context, load: Option<f64>) -> Result<Option<Looked>> {
    let host = context.seen()?;
    let snapshot = discover::snapshot(host);
    let condition = discover::condition(host, &snapshot);
    let Some(seconds) = load else {
        return Ok(Some(Looked { snapshot, condition, window: None, lost: None }));
    };
    // Rates of a capture are those of its counters, which stand still.
    let host = context.live("check --load")?;
    let stop = interrupt::stop_flag()?;
    let unreadable =
        |e: HostError| Error::not_supported(format!("read {}", e.path.display()), e.reason());
    let watch = Watch::of(&snapshot, &[]);
    let counters = discover::losses(host, &snapshot);
    let mut telemetry = Telemetry::start(host, watch).map_err(unreadable)?;
    let until = clock::monotonic() + Duration::from_secs_f64(seconds);
    context.out.say(format_args!("watching for {seconds} s; traffic should flow meanwhile"));
    if !clock::wait_until(until, Duration::from_millis(200), &stop) {
        return Ok(None);
    }
    let rates = telemetry.advance().map_err(unreadable)?;
    let lost = ledger(&discover::losses(host, &snapshot), Some((&counters, rates.seconds)));
    let (before, before_condition) = (snapshot, condition);
    let snapshot = discover::snapshot(host);
    let condition = discover::condition(host, &snapshot);
    let window = Window { seconds: rates.seconds, rates, before, before_condition };
    Ok(Some(Looked { snapshot, condition, window: Some(window), lost: Some(lost) }))
}

/// `check --json`.
#[derive(serde::Serialize)]
struct CheckDocument<'a> {
    format: &'static str,
    version: u32,
    hostname: &'a str,
    kernel: &'a str,
    board: Option<&'a str>,
    /// Seconds that it was watched for.
    watched: Option<f64>,
    /// Largest load over capacity by the cost model: as it is, and as it could be.
    model: Option<Model>,
    findings: &'a [Finding],
    unseen: &'a [Unseen],
    /// Where packets were lost meanwhile, as in docs/schema/losses.json.
    #[serde(skip_serializing_if = "Option::is_none")]
    losses: Option<losses::Losses<'a>>,
}

#[derive(serde::Serialize)]
struct Model {
    found: f64,
    planned: f64,
}

impl<'a> CheckDocument<'a> {
    fn of(
        snapshot: &'a Snapshot,
        subject: &Subject<'_>,
        told: &'a Diagnosis,
        lost: Option<&'a Ledger>,
    ) -> Self {
        Self {
            format: "linerate-check",
            version: 1,
            hostname: &snapshot.machine.hostname,
            kernel: &snapshot.machine.kernel,
            board: snapshot.machine.board.as_deref(),
            watched: subject.window.map(|w| w.seconds),
            model: subject.outlook().map(|o| Model { found: o.found(), planned: o.planned() }),
            findings: &told.findings,
            unseen: &told.unseen,
            losses: lost.map(Into::into),
        }
    }
}

/// `check --list --json`.
#[derive(serde::Serialize)]
struct Rules {
    format: &'static str,
    version: u32,
    rules: Vec<One>,
}

#[derive(serde::Serialize)]
struct One {
    id: &'static str,
    what: &'static str,
    costs: &'static str,
    source: &'static str,
    reads: &'static str,
    load: &'static str,
}

impl Rules {
    fn all() -> Self {
        let rules = diagnose::rules().map(|r| One {
            id: r.id,
            what: r.what,
            costs: r.costs,
            source: r.source,
            reads: r.reads,
            load: match r.load {
                Load::Apart => "no",
                Load::Better => "better",
                Load::Needed => "needed",
            },
        });
        Self { format: "linerate-rules", version: 1, rules: rules.collect() }
    }
}
