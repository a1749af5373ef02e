//! `linerate plan`: what could be changed, from what to what, and why.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::TypedValueParser;

use super::context::Context;
use super::shared::costs::CostsFile;
use super::shared::files::{Force, dated};
use super::shared::{one_of, seconds_or_zero};
use crate::change::apply::knob;
use crate::decide::plan::factor::Ground;
use crate::decide::plan::{self, Candidates, Profile, Request, Traffic, Wanted};
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::store;
use crate::model::knob::{Knob, Value, about, topics};
use crate::model::plan::Plan;
use crate::model::snapshot::Snapshot;
use crate::report::plan as report;

/// `plan`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate plan                       # writes plan.toml, and no more
  linerate plan --explain rps-cpus    # all about one setting
  linerate plan --host capture.tar.gz -o -")]
pub struct PlanArgs {
    /// Take this candidate instead of the one the model prefers; also what tune found to be best:
    /// recipe-NAME, role-NAME, or a combination of factors as 'rps=all irq=0'
    #[arg(long, value_name = "NAME")]
    pub candidate: Option<String>,
    /// The use that the router is planned for
    #[arg(long, alias = "profile", value_name = "NAME", default_value = "router", value_parser = role())]
    pub role: Profile,
    /// A configuration from the field exactly as it was reported; `list` names them
    #[arg(long, value_name = "NAME", conflicts_with = "candidate")]
    pub recipe: Option<String>,
    /// All about one setting (irq-affinity, rps-cpus, xps-cpus, coalesce, ...); writes no plan
    #[arg(long, value_name = "KNOB")]
    pub explain: Option<String>,
    /// A file with what is known of the traffic: TOML with `[packets]` received per second by device, `[busy]`
    /// share of other programs by CPU, flows
    #[arg(long, value_name = "FILE")]
    pub load: Option<PathBuf>,
    /// Costs of the stages on this machine, as `fit` wrote them [default: general figures]
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Number of flows to plan for; 0 for so many that every share is even [default: 16]
    #[arg(long, value_name = "N")]
    pub flows: Option<u32>,
    /// Look at the traffic for this long, to see where the work is; 0 goes by the counters since
    /// boot, as a captured machine does
    #[arg(long, value_name = "TIME", default_value = "3", value_parser = seconds_or_zero)]
    pub sample: f64,
    /// File for the plan; `-` prints it [default: plan.toml; another plan of that name is kept by the
    /// time of day]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
}

fn role() -> impl TypedValueParser<Value = Profile> {
    one_of(&Profile::ALL.map(|role| (role.name(), role)))
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &PlanArgs) -> Result<ExitCode> {
    if args.recipe.as_deref() == Some("list") {
        if context.out.json {
            let recipes = plan::recipes();
            context.out.json(&Recipes { format: "linerate-recipes", version: 1, recipes })?;
        } else {
            context.out.document(&report::recipe_list())?;
        }
        return Ok(ExitCode::Done);
    }
    let (mut traffic, costs) = (traffic(args)?, CostsFile::read(args.costs.as_deref())?);
    let mut snapshot = discover::snapshot(context.seen()?);
    if context.is_live() && args.sample > 0.0 && args.recipe.is_none() && args.explain.is_none() {
        let duration = Duration::from_secs_f64(args.sample);
        discover::sample(context.reader(), &mut snapshot, duration);
    }
    traffic.costs = costs.on(&snapshot.machine, &context.out);
    let request = Request { profile: args.role, traffic };
    known_devices(&request.traffic, &snapshot)?;
    let candidates = plan::candidates_for(&snapshot, &request);
    let current = |knob: &Knob| current(context, &snapshot, knob);
    let ground = Ground { snapshot: &snapshot, current: &current, candidates: &candidates };
    let wanted = match (&args.recipe, &args.candidate) {
        (Some(name), _) => Wanted::Recipe(name),
        (None, Some(name)) => Wanted::Named(name),
        (None, None) => Wanted::Preferred,
    };
    let plan = plan::plan_of(&ground, &request, wanted)?;
    if let Some(setting) = &args.explain {
        explain(context, &candidates, &plan, setting)?;
        return Ok(ExitCode::Done);
    }
    let output = args.output.as_deref().unwrap_or(Path::new("plan.toml"));
    if output == Path::new("-") && context.out.json {
        return Err(Error::usage(
            "plan -o - --json",
            "both the plan and the answer are for stdout",
        )
        .hint("name a file for the plan: -o FILE"));
    }
    if output == Path::new("-") {
        context.out.data(store::plan::to_text(&plan)?)?;
        return Ok(ExitCode::Done);
    }
    if args.output.is_some() {
        args.force.check(output)?;
    } else if !args.force.force
        && let Some(kept) = store::plan::set_aside(output, &plan, || dated("plan.toml"))?
    {
        context.out.say(format_args!("the plan that was here is kept as {}", kept.display()));
    }
    store::plan::write(output, &plan)?;
    if context.out.json {
        context.out.json(&Planned {
            format: "linerate-plans",
            version: 1,
            expects: plan::headline(&snapshot, &request, &candidates, &plan.candidate)
                .map_err(bug)?,
            plan: &plan,
            candidates: &plan::rated(&snapshot, &request, &candidates).map_err(bug)?,
        })?;
    } else if !context.out.is_quiet() {
        let file = output.display().to_string();
        let all = context.out.is_verbose();
        let document =
            report::document(&snapshot, &request, &candidates, &plan, &file, all).map_err(bug)?;
        context.out.document(&document)?;
    }
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Planned<'a> {
    format: &'static str,
    version: u32,
    /// What the plan is expected to bring, as the text's first line says it.
    expects: String,
    plan: &'a Plan,
    candidates: &'a [plan::Rated],
}

fn bug(bug: plan::Bug) -> Error {
    Error::new(ExitCode::NotSupported, "plan", bug)
}

/// The traffic as the user described it.
fn traffic(args: &PlanArgs) -> Result<Traffic> {
    let mut traffic = match &args.load {
        None => Traffic::default(),
        Some(path) => {
            let hint = "it holds [packets] with eth0 = 81000, [busy] with 0 = 0.2, or flows = 16";
            let text = store::plan::read_text("load", path, hint)?;
            let what = format!("read load {}", path.display());
            let bad = |why: &str| Error::usage(what.clone(), why).hint(hint);
            let table = text.parse::<toml::Table>().map_err(|e| bad(e.message()))?;
            if table.is_empty() {
                return Err(bad("it says nothing of the traffic"));
            }
            let read: Traffic = table.try_into().map_err(|e| bad(e.message()))?;
            read.check().map_err(|why| Error::usage(what, why).hint(hint))?;
            read
        }
    };
    traffic.flows = args.flows.or(traffic.flows);
    Ok(traffic)
}

/// Refuses a load with a device that is not here: a misspelt name would count as one without traffic.
fn known_devices(traffic: &Traffic, snapshot: &Snapshot) -> Result<()> {
    let Some(name) = traffic.packets.keys().find(|n| snapshot.netdev(n).is_none()) else {
        return Ok(());
    };
    let all: Vec<&str> = snapshot.netdevs.iter().map(|d| d.name.as_str()).collect();
    Err(Error::usage("use the load", format!("there is no device {name:?} here"))
        .hint(format!("devices here: {}", all.join(", "))))
}

/// The value that a setting has now.
fn current(context: &Context, snapshot: &Snapshot, knob: &Knob) -> Option<Value> {
    let path = knob::path(knob, snapshot).ok()?;
    let text = knob::read_text(context.reader(), &path).ok()?;
    knob::meaning(knob, &text).ok()
}

/// `plan --recipe list --json`.
#[derive(serde::Serialize)]
struct Recipes {
    format: &'static str,
    version: u32,
    recipes: Vec<plan::Recipe>,
}

/// `plan --explain --json`.
#[derive(serde::Serialize)]
struct Explained<'a> {
    format: &'static str,
    version: u32,
    setting: &'a str,
    what: &'a str,
    candidate: &'a str,
    #[serde(flatten)]
    found: &'a plan::Explanation<'a>,
}

fn explain(context: &Context, candidates: &Candidates, plan: &Plan, setting: &str) -> Result<()> {
    let known = about(setting).ok_or_else(|| {
        let names: Vec<&str> = topics().iter().map(|topic| topic.name).collect();
        Error::usage(format!("explain {setting:?}"), "there is no such setting")
            .hint(format!("settings: {}", names.join(", ")))
    })?;
    let found = plan::explain(candidates, plan, known);
    let (name, what) = (known.name, known.text);
    let candidate = plan.candidate.name.as_str();
    if context.out.json {
        let (format, version) = ("linerate-explanation", 1);
        let found = &found;
        let told = Explained { format, version, setting: name, what, candidate, found };
        return context.out.json(&told);
    }
    let plan::Explanation { settings, not_made, others } = &found;
    context.out.document(&report::explained(name, what, candidate, settings, not_made, others))
}
