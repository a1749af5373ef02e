//! `linerate plan`: what could be changed, from what to what, and why.

use std::path::Path;

use super::args::PlanArgs;
use super::context::Context;
use super::fit::Given;
use super::table::Table;
use crate::apply::knob;
use crate::discover;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::model::knob::{Knob, Value};
use crate::model::measurement::Direction;
use crate::model::plan::{Candidate, NotMade, Plan};
use crate::model::snapshot::Snapshot;
use crate::plan::factor::{Ground, Unfit};
use crate::plan::{self, Candidates, Profile, Request, Traffic, cost, name};
use crate::store;

/// Runs the command.
pub(super) fn run(context: &Context, args: &PlanArgs) -> Result<ExitCode> {
    if args.recipe.as_deref() == Some("list") {
        return recipe_list(context);
    }
    let (mut traffic, costs) = (traffic(args)?, Given::read(args.costs.as_deref())?);
    let snapshot = discover::snapshot(context.reader());
    traffic.costs = costs.on(&snapshot.machine, &context.out);
    let request = Request { profile: args.profile, traffic };
    known_devices(&request.traffic, &snapshot)?;
    let candidates = plan::candidates_for(&snapshot, &request);
    let chosen = match &args.recipe {
        Some(name) => recipe(context, &snapshot, name)?,
        None => {
            let name = args.candidate.as_deref().unwrap_or(&candidates.preferred);
            let current = |knob: &Knob| current(context, &snapshot, knob);
            let ground = Ground { snapshot: &snapshot, current: &current, candidates: &candidates };
            let mut candidate = named(&ground, &request.traffic, name)?;
            if candidates.get(name).is_none() {
                ground.finish(std::slice::from_mut(&mut candidate));
            }
            let not_made = not_made(&candidates, &candidate);
            (candidate, not_made)
        }
    };
    let mut plan = plan::plan_for(&snapshot, chosen.0);
    plan.not_made = chosen.1;
    let best = candidates.get(name::PLANNED).map(|c| c.name.as_str());
    if let Some(planned) =
        candidates.planned.as_ref().filter(|_| best == Some(&plan.candidate.name))
    {
        plan.model = Some(planned.model.clone());
    }
    if let Some(setting) = &args.explain {
        context.out.data(explain(context, &candidates, &plan, setting)?)?;
        return Ok(ExitCode::Done);
    }
    if args.output == Path::new("-") {
        context.out.data(store::plan::to_text(&plan)?)?;
        return Ok(ExitCode::Done);
    }
    store::plan::write(&args.output, &plan)?;
    if context.out.json {
        context.out.json(&Planned {
            format: "linerate-plans",
            version: 1,
            plan: &plan,
            candidates: &candidates.all().cloned().collect::<Vec<_>>(),
        })?;
    } else {
        context.out.data(text(context, &snapshot, &request, &candidates, &plan, args))?;
    }
    Ok(ExitCode::Done)
}

#[derive(serde::Serialize)]
struct Planned<'a> {
    format: &'static str,
    version: u32,
    plan: &'a Plan,
    candidates: &'a [Candidate],
}

/// What the user told of the traffic.
fn traffic(args: &PlanArgs) -> Result<Traffic> {
    let mut traffic = match &args.load {
        None => Traffic::default(),
        Some(path) => {
            let hint = "it holds [packets] with eth0 = 81000, [busy] with 0 = 0.2, or flows = 16";
            let text = store::plan::read_text("load", path, hint)?;
            let what = format!("read load {}", path.display());
            let read: Traffic = text
                .parse::<toml::Table>()
                .and_then(toml::Table::try_into)
                .map_err(|e| Error::usage(what.clone(), e.message()).hint(hint))?;
            read.check().map_err(|why| Error::usage(what, why).hint(hint))?;
            read
        }
    };
    traffic.flows = args.flows.or(traffic.flows);
    Ok(traffic)
}

/// A slip of the pen in a name would be taken for a device without traffic.
fn known_devices(traffic: &Traffic, snapshot: &Snapshot) -> Result<()> {
    let Some(name) = traffic.packets.keys().find(|n| snapshot.netdev(n).is_none()) else {
        return Ok(());
    };
    let all: Vec<&str> = snapshot.netdevs.iter().map(|d| d.name.as_str()).collect();
    Err(Error::usage("use the load", format!("there is no device {name:?} here"))
        .hint(format!("devices here: {}", all.join(", "))))
}

/// The candidate of that name, or an error that names those there are.
pub(super) fn find<'a>(candidates: &'a Candidates, name: &str) -> Result<&'a Candidate> {
    candidates.get(name).ok_or_else(|| {
        let what = format!("find candidate {name:?}");
        match candidates.left_out.iter().find(|(left, _)| *left == name) {
            Some((_, why)) => Error::not_supported(what, format!("left out here: {why}")),
            None => Error::usage(what, "there is no such candidate"),
        }
        .hint(format!(
            "candidates here: {}",
            candidates.all().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
        ))
    })
}

/// The candidate of any name that `tune` reports: one of the planner's, `recipe-NAME`, the plan of
/// `profile-NAME`, or a combination of factors as `rps=all irq=0`.
pub(super) fn named(ground: &Ground<'_>, traffic: &Traffic, wanted: &str) -> Result<Candidate> {
    let snapshot = ground.snapshot;
    let what = || format!("find candidate {wanted:?}");
    if let Some(recipe) = wanted.strip_prefix("recipe-") {
        let found = plan::recipe(recipe, snapshot, ground.current);
        return found.map(|(c, _)| c).map_err(|why| Error::not_supported(what(), why));
    }
    if let Some(profile) = wanted.strip_prefix("profile-") {
        let profile: Profile = profile.parse().map_err(|e| Error::usage(what(), e))?;
        let request = Request { profile, traffic: traffic.clone() };
        let found = plan::candidates_for(snapshot, &request);
        let planned = find(&found, name::PLANNED)?;
        return Ok(Candidate { name: wanted.to_owned(), ..planned.clone() });
    }
    match plan::factor::combination(wanted) {
        Some((factors, levels)) => ground.combine(&factors, &levels).map_err(|why| {
            let hint = "linerate tune --factor list tells what can be set here";
            match why {
                Unfit::Usage(why) => Error::usage(what(), why),
                Unfit::NotHere(why) => Error::not_supported(what(), why),
            }
            .hint(hint)
        }),
        None => find(ground.candidates, wanted).cloned(),
    }
}

/// What a setting is now.
fn current(context: &Context, snapshot: &Snapshot, knob: &Knob) -> Option<Value> {
    let path = knob::path(knob, snapshot).ok()?;
    let text = knob::read_text(context.reader(), &path).ok()?;
    knob::meaning(knob, &text).ok()
}

/// What the planner left alone, without what this candidate sets after all.
fn not_made(candidates: &Candidates, candidate: &Candidate) -> Vec<NotMade> {
    let made: Vec<String> = candidate.changes().map(|c| kind(&c.knob)).collect();
    let list = candidates.planned.iter().flat_map(|p| &p.not_made);
    // One service may be stopped, and another be left.
    let stopped = |n: &NotMade| {
        candidate.changes().any(|c| match &c.knob {
            Knob::Service { name } => n.reason.starts_with(name.as_str()),
            knob => *knob == Knob::PacketSteering && n.reason.starts_with(&knob.to_string()),
        })
    };
    let told = |n: &NotMade| match n.setting.as_str() {
        "service" => stopped(n),
        setting => made.iter().any(|m| m == setting),
    };
    list.filter(|n| !told(n)).cloned().collect()
}

/// A knob's kind as plan files have it.
fn kind(knob: &Knob) -> String {
    let form = serde_json::to_value(knob).unwrap_or_default();
    form.get("kind").and_then(|k| k.as_str()).unwrap_or_default().to_owned()
}

fn recipe_list(context: &Context) -> Result<ExitCode> {
    let mut table = Table::new(&["recipe", "what"]);
    for recipe in plan::recipes() {
        table.row([recipe.name.to_owned(), recipe.title]);
        table.row([String::new(), recipe.source]);
    }
    let mut lines = table.lines();
    if let Some(first) = lines.first_mut() {
        *first = context.out.bold(&*first);
    }
    lines.push(String::new());
    lines.push("as one: linerate plan --recipe NAME".into());
    context.out.data(lines.join("\n"))?;
    Ok(ExitCode::Done)
}

fn recipe(context: &Context, snapshot: &Snapshot, name: &str) -> Result<(Candidate, Vec<NotMade>)> {
    let current = |knob: &Knob| current(context, snapshot, knob);
    plan::recipe(name, snapshot, &current).map_err(|why| {
        let known: Vec<&str> = plan::recipes().iter().map(|r| r.name).collect();
        let what = format!("use recipe {name:?}");
        if known.contains(&name) {
            Error::not_supported(what, why)
        } else {
            Error::usage(what, why)
        }
        .hint(format!("recipes: {}", known.join(", ")))
    })
}

fn explain(
    context: &Context,
    candidates: &Candidates,
    plan: &Plan,
    setting: &str,
) -> Result<String> {
    let out = &context.out;
    let known = plan::about(setting).ok_or_else(|| {
        let names: Vec<&str> = plan::SETTINGS.iter().map(|s| s.name).collect();
        Error::usage(format!("explain {setting:?}"), "there is no such setting")
            .hint(format!("settings: {}", names.join(", ")))
    })?;
    let ours = |knob: &Knob| {
        kind(knob) == known.name
            || matches!(knob, Knob::Sysctl { name } if known.also.contains(&name.as_str()))
            || (known.name == "rps-flow-cnt" && knob.to_string().contains("rps_sock_flow"))
    };
    let mut lines = vec![format!("{}: {}", out.bold(known.name), known.text), String::new()];
    let mut table = Table::new(&["setting", "now", "then", "why"]);
    let mut rows = 0;
    for change in plan.candidate.settings.iter().filter(|c| ours(&c.knob)) {
        rows += 1;
        table.row([
            change.knob.to_string(),
            change.before.to_string(),
            change.after.to_string(),
            change.reason.clone(),
        ]);
    }
    let reasons: Vec<&NotMade> = plan.not_made.iter().filter(|n| n.setting == known.name).collect();
    if rows == 0 {
        lines.push(format!("{} does not set it.", plan.candidate.name));
    } else {
        lines.push(format!("in {}:", plan.candidate.name));
        lines.extend(table.lines());
    }
    lines.extend(reasons.iter().map(|n| format!("not set: {}", n.reason)));
    let others: Vec<&str> = candidates
        .all()
        .filter(|c| c.name != plan.candidate.name)
        .filter(|c| c.changes().any(|change| ours(&change.knob)))
        .map(|c| c.name.as_str())
        .collect();
    if !others.is_empty() {
        lines.push(format!("candidates that change it: {}", others.join(", ")));
    }
    Ok(lines.join("\n"))
}

fn text(
    context: &Context,
    snapshot: &Snapshot,
    request: &Request,
    candidates: &Candidates,
    plan: &Plan,
    args: &PlanArgs,
) -> String {
    let out = &context.out;
    let chosen = &plan.candidate;
    let model = cost::Model::new(snapshot, &request.traffic, request.profile);
    let mut table = Table::new(&[
        "",
        "candidate",
        "largest load",
        "on",
        "each way",
        "handed over",
        "writes",
        "what",
    ]);
    let recipe = candidates.get(&chosen.name).is_none().then_some(chosen);
    for candidate in candidates.all().chain(recipe) {
        let predicted = model.predict(candidate);
        let told = |f: &dyn Fn(&cost::Prediction) -> String| {
            predicted.as_ref().map_or_else(|| "?".into(), f)
        };
        table.row([
            if candidate.name == chosen.name { "→".into() } else { String::new() },
            candidate.name.clone(),
            told(&|p| format!("{:.2}", p.largest)),
            told(&|p| p.bottleneck.to_string()),
            match predicted.as_ref().and_then(|p| p.packets(Direction::Both)) {
                Some(packets) => format!("{:.0} packets/s", packets),
                None => "-".into(),
            },
            told(&|p| format!("{:.0} %", p.handovers * 100.0)),
            candidate.changes().count().to_string(),
            candidate.title.clone(),
        ]);
    }
    table.drop_empty();
    let mut lines = table.lines();
    if let Some(first) = lines.first_mut() {
        *first = out.bold(&*first);
    }
    for (name, other) in &candidates.folded {
        lines.push(out.dim(format!("   {name} is the same as {other}")));
    }
    for (name, why) in &candidates.left_out {
        lines.push(out.dim(format!("   {name} left out: {why}")));
    }
    lines.push(out.dim(
        "   load: work of the busiest CPU per packet, 1.00 = one NATed packet's stack stage; handed \
         over: packets that change CPU,",
    ));
    lines.push(out.dim("   100 % = one direction's (a model, not a measurement)"));
    let load = |name: &str| model.predict(candidates.get(name)?).map(|p| p.largest);
    let own = load(&chosen.name).filter(|_| chosen.name == candidates.preferred);
    let least = candidates.list.iter().filter_map(|c| load(&c.name)).fold(f64::INFINITY, f64::min);
    if own.is_some_and(|own| least < own * 0.99) {
        lines.push(out.dim(
            "   what has a smaller load hands packets over for less than 15 %, to the loss of one way, \
             onto the interrupt's",
        ));
        lines.push(out.dim("   own core, or where the links are full without"));
    }
    lines.push(String::new());
    lines.push(format!("{}: {}", out.bold(&chosen.name), chosen.reason));
    if let Some(model) = &plan.model {
        let mix = if request.traffic.packets.is_empty() {
            "both ways at once and each way alone with its acknowledgements"
        } else {
            "the packets of the load file"
        };
        lines.push(format!(
            "made for the profile {}, {mix}, {}; the same with one flow {:.2}, 16 flows {:.2}, many {:.2}",
            model.profile, model.flows, model.one_flow, model.sixteen_flows, model.many_flows
        ));
    }
    let mut changes = Table::new(&["setting", "now", "then", "why"]);
    for change in chosen.changes() {
        changes.row([
            change.knob.to_string(),
            change.before.to_string(),
            change.after.to_string(),
            change.reason.clone(),
        ]);
    }
    lines.push(String::new());
    if chosen.changes().next().is_none() {
        lines.push("nothing to change: the router is set up this way already".into());
    } else {
        lines.extend(changes.lines());
    }
    if !plan.not_made.is_empty() {
        lines.push(String::new());
        let mut table = Table::new(&["not set", "why"]);
        for not in &plan.not_made {
            table.row([not.setting.clone(), not.reason.clone()]);
        }
        lines.extend(table.lines());
    }
    lines.push(String::new());
    let file = args.output.display();
    lines.push(format!("written to {file}; next: linerate apply {file} (undo: linerate rollback)"));
    lines.join("\n")
}
