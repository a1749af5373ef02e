//! What is compared: candidates by name, the combinations of factors, or the space of a search.

use super::args::{FactorArg, TuneArgs};
use crate::cli::output::Output;
use crate::cli::plan as plan_verb;
use crate::cli::table::Table;
use crate::error::{Error, Result};
use crate::experiment;
use crate::model::goal::{Combination, Design, Factor, Predicted, Varied};
use crate::model::knob::Knob;
use crate::model::measurement::{Direction, Experiment};
use crate::model::plan::Candidate;
use crate::plan::factor::{Current, Ground, MOST, Unfit};
use crate::plan::{self, Candidates, Costs, Profile, Request, Traffic, cost, name};
use crate::search::{Climb, Prior};
use crate::tune::Router;

/// What is measured.
pub(super) struct Chosen {
    /// The candidates, the baseline among them.
    pub candidates: Vec<Candidate>,
    /// How they came about.
    pub design: Design,
    /// The baseline's name.
    pub baseline: String,
}

/// A router with all that can be chosen for it.
pub(super) struct Menu<'a> {
    router: &'a Router,
    traffic: Traffic,
    /// As it will be measured: one direction after the other, by streams that take what they get.
    measured: Traffic,
    found: Candidates,
    current: Box<Current<'a>>,
}

impl<'a> Menu<'a> {
    /// Looks at what there is; the costs are the model's.
    pub(super) fn of(router: &'a Router, costs: Costs, args: &TuneArgs) -> Self {
        let traffic = Traffic { costs, ..Traffic::default() };
        let measured = Traffic {
            flows: Some(args.load.streams),
            adapting: true,
            directions: args.directions.clone(),
            ..traffic.clone()
        };
        let request = Request { traffic: traffic.clone(), ..Request::default() };
        let found = plan::candidates_for(router.snapshot(), &request);
        Self { router, traffic, measured, found, current: Box::new(|knob| router.current(knob)) }
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            snapshot: self.router.snapshot(),
            current: &*self.current,
            candidates: &self.found,
        }
    }

    /// `--factor list`
    pub(super) fn list(&self, out: &Output) -> Result<()> {
        let offers = self.ground().offers();
        if out.json {
            let listed: Vec<_> = offers
                .iter()
                .map(|o| {
                    serde_json::json!({
                        "factor": o.name, "what": o.what, "levels": o.levels, "missing": o.why,
                    })
                })
                .collect();
            return out.json(&serde_json::json!({
                "format": "linerate-factors", "version": 1, "factors": listed,
            }));
        }
        let mut table = Table::new(&["factor", "levels here", "also", "what"]);
        let (here, not): (Vec<_>, Vec<_>) = offers.into_iter().partition(|o| !o.levels.is_empty());
        for offer in here {
            let what = match &offer.why {
                Some(why) => format!("{} (not all: {why})", offer.what),
                None => offer.what.to_owned(),
            };
            table.row([
                offer.name.to_owned(),
                offer.levels.join(","),
                offer.further.to_owned(),
                what,
            ]);
        }
        let mut lines = table.lines();
        if let Some(first) = lines.first_mut() {
            *first = out.bold(&*first);
        }
        let left = |o: &plan::factor::Offer| {
            out.dim(format!(
                "{} can't be had here: {}",
                o.name,
                o.why.as_deref().unwrap_or("no level")
            ))
        };
        lines.extend(not.iter().map(left));
        lines.push(out.dim(
            "also sysctl.NAME=VALUE,... and offload.FEATURE=on,off; every factor takes as-found",
        ));
        out.data(lines.join("\n"))
    }

    /// What `--factor` asks for, with what is usual explained.
    fn factors(&self, args: &TuneArgs, out: &Output) -> Result<Vec<Factor>> {
        let mut factors = args.named();
        if args.factor.contains(&FactorArg::Default) {
            let usual = self.ground().usual();
            if usual.is_empty() && factors.is_empty() {
                return Err(Error::not_supported(
                    "choose factors",
                    "nothing that matters can be varied here",
                )
                .hint("linerate tune --factor list tells why"));
            }
            for (factor, why) in usual {
                if !factors.iter().any(|f| f.name == factor.name) {
                    out.say(format_args!("{}={}: {why}", factor.name, factor.levels.join(",")));
                    factors.push(factor);
                }
            }
        }
        Ok(factors)
    }

    /// What is measured without a search.
    pub(super) fn choose(&self, args: &TuneArgs, out: &Output) -> Result<Chosen> {
        let factors = self.factors(args, out)?;
        if factors.is_empty() { self.named(args, out) } else { self.factorial(args, &factors, out) }
    }

    fn named(&self, args: &TuneArgs, out: &Output) -> Result<Chosen> {
        if args.candidates.is_empty() && !args.aa {
            for (name, why) in &self.found.left_out {
                out.say(out.dim(format!("{name} left out: {why}")));
            }
            for (name, other) in &self.found.folded {
                out.say(out.dim(format!("{name} is the same as {other}: measured once")));
            }
            if let Some(more) = self.found.get(name::CHANNELS) {
                let asked = more.changes().filter(|c| matches!(c.knob, Knob::Channels { .. }));
                for change in asked {
                    out.say(format_args!(
                        "worth an experiment of its own: {} {} instead of {} ({}); linerate plan \
                         --candidate {}, apply it, and tune again",
                        change.knob, change.after, change.before, change.reason, more.name
                    ));
                }
            }
        }
        let baseline = self.usual_baseline(args);
        let base = self.find(&baseline)?;
        let mut candidates = vec![base.clone()];
        if args.aa {
            candidates.push(Candidate {
                name: format!("{baseline}-again"),
                title: format!("{} (the same settings under another name)", base.title),
                reason: "shows what noise alone looks like here".into(),
                settings: base.settings,
            });
        } else if args.candidates.is_empty() {
            candidates.clone_from(&self.found.list);
        } else {
            for name in args.candidates.iter().filter(|n| **n != baseline) {
                let candidate = self.find(name)?;
                if !candidates.iter().any(|c| c.name == candidate.name) {
                    candidates.push(candidate);
                }
            }
        }
        // None inherits from the one before it.
        self.ground().finish(&mut candidates);
        Ok(Chosen { candidates, design: Design::Named, baseline })
    }

    /// The lone interrupt is what routers come with; as found, a lab spreads the work over the
    /// senders' CPUs, which no hardware does.
    fn usual_baseline(&self, args: &TuneArgs) -> String {
        let usual = || match self.found.get(name::ONE_CPU) {
            Some(_) if !args.is_here() => name::ONE_CPU,
            _ => name::AS_FOUND,
        };
        args.baseline.clone().unwrap_or_else(|| usual().to_owned())
    }

    fn find(&self, wanted: &str) -> Result<Candidate> {
        let found = plan_verb::named(&self.ground(), &self.traffic, wanted)?;
        if found.changes().any(|c| matches!(c.knob, Knob::Channels { .. })) {
            let why = "queues and interrupts come and go with channels: they can't change within \
                       an experiment";
            return Err(Error::not_supported(format!("measure {wanted}"), why).hint(format!(
                "linerate plan --candidate {wanted}, apply it, tune again, and compare the results"
            )));
        }
        Ok(found)
    }

    fn factorial(&self, args: &TuneArgs, factors: &[Factor], out: &Output) -> Result<Chosen> {
        let ground = self.ground();
        let (mut candidates, varied, left_out) = ground.factorial(factors).map_err(unfit)?;
        for (what, why) in left_out {
            out.say(out.warn(format_args!("{what} left out: {why}")));
        }
        let baseline = self.baseline(args, &mut candidates)?;
        ground.finish(&mut candidates);
        Ok(Chosen { candidates, design: Design::Factorial(varied), baseline })
    }

    /// The baseline of combinations, added where it is none of them.
    fn baseline(&self, args: &TuneArgs, candidates: &mut Vec<Candidate>) -> Result<String> {
        let first = candidates.first().map(|c| c.name.clone()).unwrap_or_default();
        let wanted = match &args.baseline {
            Some(name) => name.clone(),
            None if args.is_here() => name::AS_FOUND.to_owned(),
            None => return Ok(first),
        };
        self.with_baseline(wanted, candidates)
    }

    fn with_baseline(&self, wanted: String, candidates: &mut Vec<Candidate>) -> Result<String> {
        if candidates.iter().any(|c| c.name == wanted) {
            return Ok(wanted);
        }
        if wanted != name::AS_FOUND {
            let base = self.find(&wanted)?;
            candidates.insert(0, base);
            return Ok(wanted);
        }
        // A combination that changes nothing is the router as found.
        if let Some(same) = candidates.iter().find(|c| c.changes().next().is_none()) {
            return Ok(same.name.clone());
        }
        candidates.insert(0, as_found());
        Ok(wanted)
    }

    /// What is searched.
    pub(super) fn space(&self, args: &TuneArgs, out: &Output) -> Result<Space> {
        let ground = self.ground();
        let asked = self.factors(args, out)?;
        let asked = if asked.is_empty() { ground.placements() } else { asked };
        let (factors, left_out) = ground.possible(&asked).map_err(unfit)?;
        for (what, why) in left_out {
            out.say(out.warn(format_args!("{what} left out: {why}")));
        }
        if factors.iter().any(|f| f.name == "irqbalance") {
            return Err(Error::usage(
                "search",
                "irqbalance takes many seconds to settle: a search can't judge it",
            )
            .hint("vary it without --search"));
        }
        let mut levels = vec![as_found()];
        for (at, factor) in factors.iter().enumerate() {
            for level in &factor.levels {
                let mut made = ground
                    .combine(std::slice::from_ref(factor), std::slice::from_ref(level))
                    .map_err(unfit)?;
                made.name = format!("{at} {level}");
                levels.push(made);
            }
        }
        let starts = self.starts(&factors);
        Ok(Space { factors, levels, starts })
    }

    /// Combinations that are what a candidate of the planner is.
    fn starts(&self, factors: &[Factor]) -> Vec<Vec<usize>> {
        let ground = self.ground();
        let of = |candidate: &Candidate| -> Option<Vec<usize>> {
            let asks =
                |knob: &Knob| candidate.settings.iter().find(|c| c.knob == *knob).map(|c| &c.after);
            let at = |factor: &Factor| {
                factor.levels.iter().position(|level| {
                    let changes = ground.level(&factor.name, level).unwrap_or_default();
                    !changes.is_empty()
                        && changes.iter().all(|c| *asks(&c.knob).unwrap_or(&c.before) == c.after)
                })
            };
            factors.iter().map(at).collect()
        };
        let preferred = self.found.get(&self.found.preferred).into_iter();
        preferred.chain(self.found.list.iter()).filter_map(of).collect()
    }

    /// A search of a space in at most `trials`.
    pub(super) fn climb<'b>(&'b self, space: &'b Space, trials: usize, seed: u64) -> Climb<'b> {
        let model = cost::Model::new(self.router.snapshot(), &self.measured, Profile::default());
        let prior: Prior<'b> = Box::new(move |point| {
            let candidate = self.combination(space, point).ok()?;
            let predicted = model.predict(&candidate)?;
            // Hand-overs tell candidates apart that are alike otherwise, as in the planner.
            Some(predicted.largest + 1e-3 * predicted.handovers)
        });
        let sizes: Vec<usize> = space.factors.iter().map(|f| f.levels.len()).collect();
        let mut starts = space.starts.clone();
        let count = sizes.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
        if count.is_some_and(|n| n <= ENUMERATED) {
            starts.extend(best_by(&sizes, &prior));
        }
        Climb::new(sizes, starts, trials, prior, seed)
    }

    /// A combination of a space.
    pub(super) fn combination(&self, space: &Space, point: &[usize]) -> Result<Candidate> {
        self.ground().combine(&space.factors, &space.words(point)).map_err(unfit)
    }

    /// An experiment between the baseline and what a search found.
    pub(super) fn finalists(
        &self,
        args: &TuneArgs,
        space: &Space,
        best: &[Vec<usize>],
    ) -> Result<Chosen> {
        let mut candidates = Vec::new();
        let mut combinations = Vec::new();
        for point in best {
            let candidate = self.combination(space, point)?;
            let (candidate_name, levels) = (candidate.name.clone(), space.words(point));
            combinations.push(Combination { candidate: candidate_name, levels });
            candidates.push(candidate);
        }
        let baseline = self.with_baseline(self.usual_baseline(args), &mut candidates)?;
        self.ground().finish(&mut candidates);
        let factors = space.factors.clone();
        Ok(Chosen {
            candidates,
            design: Design::Search(Varied { factors, combinations }),
            baseline,
        })
    }

    /// What the model says of every candidate, before anything is measured. Rates it foretells with
    /// costs that were fitted, and of forwarding: not of a router's own traffic.
    pub(super) fn predict(&self, args: &TuneArgs, experiment: &mut Experiment) {
        let fitted = self.traffic.costs.unit_ns.is_some() && args.server.is_none();
        let model = cost::Model::new(self.router.snapshot(), &self.measured, Profile::default());
        let payload = experiment::payload(&experiment.scenario);
        let directions = experiment.directions.clone();
        let predict = |candidate: &Candidate| {
            let said = model.predict(candidate)?;
            let rate = |direction: &Direction| Some((*direction, said.rate(payload, *direction)?));
            Some(Predicted {
                candidate: candidate.name.clone(),
                largest: said.largest,
                bottleneck: said.bottleneck,
                rates: directions.iter().filter(|_| fitted).filter_map(rate).collect(),
            })
        };
        experiment.predictions = experiment.candidates.iter().filter_map(predict).collect();
    }
}

/// Spaces up to this size are ranked by the model as a whole.
const ENUMERATED: usize = 4096;
/// So many of them are starts.
const STARTS: usize = 10;

fn best_by(sizes: &[usize], prior: &Prior<'_>) -> Vec<Vec<usize>> {
    let mut point = vec![0; sizes.len()];
    let mut best: Vec<(f64, Vec<usize>)> = Vec::new();
    loop {
        if let Some(load) = prior(&point) {
            let at = best.iter().position(|(l, _)| load < *l).unwrap_or(best.len());
            best.insert(at, (load, point.clone()));
            best.truncate(STARTS);
        }
        // The next one, as an odometer counts.
        let mut places = point.iter_mut().zip(sizes);
        let carried = places.all(|(digit, size)| {
            *digit += 1;
            let over = *digit >= *size;
            if over {
                *digit = 0;
            }
            over
        });
        if carried {
            return best.into_iter().map(|(_, point)| point).collect();
        }
    }
}

/// What a search goes through.
pub(super) struct Space {
    /// The factors.
    pub factors: Vec<Factor>,
    /// Every level as a candidate of its own.
    pub levels: Vec<Candidate>,
    starts: Vec<Vec<usize>>,
}

impl Space {
    /// Combinations; `None` for more than can be counted.
    pub(super) fn count(&self) -> Option<usize> {
        self.factors.iter().try_fold(1_usize, |n, f| n.checked_mul(f.levels.len()))
    }

    fn words(&self, point: &[usize]) -> Vec<String> {
        let level = |(factor, at): (&Factor, &usize)| factor.levels.get(*at).cloned();
        self.factors.iter().zip(point).filter_map(level).collect()
    }
}

fn as_found() -> Candidate {
    Candidate {
        name: name::AS_FOUND.into(),
        title: "as found".into(),
        reason: "the router as it is today: what every change has to beat".into(),
        settings: Vec::new(),
    }
}

fn unfit(why: Unfit) -> Error {
    let what = "choose what is varied";
    match why {
        Unfit::Usage(why) => {
            let many = why.contains(&format!("up to {MOST}"));
            let hint = if many {
                "--search finds the best without measuring them all"
            } else {
                "linerate tune --factor list tells what can be varied here"
            };
            Error::usage(what, why).hint(hint)
        }
        Unfit::NotHere(why) => Error::not_supported(what, why)
            .hint("linerate tune --factor list tells what can be varied here"),
    }
}
