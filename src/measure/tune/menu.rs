//! The choice of what an experiment compares: candidates by name, the combinations of factors, or
//! the space of a search.

use std::fmt;

use super::Router;
use crate::decide::experiment;
use crate::decide::plan::factor::{Current, Ground, LeftOut, Offer, Unfit};
use crate::decide::plan::{self, Candidates, Costs, Profile, Request, Traffic, cost, name};
use crate::error::{Error, Result};
use crate::measure::search::{Climb, Prior};
use crate::model::goal::{Combination, Design, Factor, Predicted, Varied};
use crate::model::knob::Knob;
use crate::model::measurement::{Direction, Experiment};
use crate::model::plan::{Candidate, Change};

/// The request that a choice answers.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Only these candidates, by name; empty for all.
    pub candidates: Vec<String>,
    /// The factors that were named.
    pub factors: Vec<Factor>,
    /// Also the factors that are usually worth varying.
    pub usual_factors: bool,
    /// The baseline under two names, to show what noise alone looks like.
    pub aa: bool,
    /// The baseline, where one was named.
    pub baseline: Option<String>,
    /// A lab's router is measured, not this one.
    pub in_lab: bool,
    /// Packets are forwarded; without that the router's own traffic is measured.
    pub forwards: bool,
    /// Parallel streams.
    pub streams: u32,
    /// Directions to measure in each cell.
    pub directions: Vec<Direction>,
}

/// The candidates of an experiment.
pub struct Chosen {
    /// The candidates, the baseline among them.
    pub candidates: Vec<Candidate>,
    /// The way they were chosen.
    pub design: Design,
    /// The baseline's name.
    pub baseline: String,
    /// Remarks on the choice, for the user.
    pub remarks: Vec<Remark>,
}

/// A remark on a choice, for the user.
#[derive(Debug, Clone, PartialEq)]
pub enum Remark {
    /// A candidate makes no sense on this router.
    NoCandidate {
        /// The candidate's name.
        name: String,
        /// The reason.
        why: String,
    },
    /// Two candidates would set the same, and one is measured.
    Same {
        /// The candidate that is not measured.
        name: String,
        /// The one that is.
        as_name: String,
    },
    /// A number of queues can't change within an experiment and deserves one of its own.
    QueuesApart {
        /// The change of the number.
        change: Box<Change>,
        /// The candidate that makes it.
        candidate: String,
    },
    /// A factor is varied because it usually matters.
    Usual {
        /// The factor with its levels.
        factor: Factor,
        /// The reason.
        why: &'static str,
    },
    /// A factor or level that was asked for can't be had here.
    LeftOut {
        /// The factor, or `factor=level`.
        what: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCandidate { name, why } => write!(f, "{name} left out: {why}"),
            Self::Same { name, as_name } => {
                write!(f, "{name} is the same as {as_name}: measured once")
            }
            Self::QueuesApart { change, candidate } => write!(
                f,
                "worth an experiment of its own: {} {} instead of {} ({}); linerate plan \
                 --candidate {candidate}, apply it, and tune again",
                change.knob, change.after, change.before, change.reason
            ),
            Self::Usual { factor, why } => {
                write!(f, "{}={}: {why}", factor.name, factor.levels.join(","))
            }
            Self::LeftOut { what, why } => write!(f, "{what} left out: {why}"),
        }
    }
}

fn left_out(all: LeftOut) -> impl Iterator<Item = Remark> {
    all.into_iter().map(|(what, why)| Remark::LeftOut { what, why })
}

/// A router with all that can be chosen for it.
pub struct Menu<'a> {
    router: &'a Router,
    asked: Asked,
    traffic: Traffic,
    /// As it will be measured: one direction after the other, by streams that take what they get.
    measured: Traffic,
    found: Candidates,
    current: Box<Current<'a>>,
}

impl<'a> Menu<'a> {
    /// Looks at what there is; the costs are the model's.
    #[must_use]
    pub fn of(router: &'a Router, costs: Costs, asked: Asked) -> Self {
        let traffic = Traffic { costs, ..Traffic::default() };
        let measured = Traffic {
            flows: Some(asked.streams),
            adapting: true,
            directions: asked.directions.clone(),
            ..traffic.clone()
        };
        let request = Request { traffic: traffic.clone(), ..Request::default() };
        let found = plan::candidates_for(router.snapshot(), &request);
        let current = Box::new(|knob: &Knob| router.current(knob));
        Self { router, asked, traffic, measured, found, current }
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            snapshot: self.router.snapshot(),
            current: &*self.current,
            candidates: &self.found,
        }
    }

    /// Every factor that there is, with its levels here.
    #[must_use]
    pub fn offers(&self) -> Vec<Offer> {
        self.ground().offers()
    }

    /// The factors that were asked for, with a remark for each that is usual.
    fn factors(&self) -> Result<(Vec<Factor>, Vec<Remark>)> {
        let (mut factors, mut remarks) = (self.asked.factors.clone(), Vec::new());
        if self.asked.usual_factors {
            let usual = self.ground().usual();
            if usual.is_empty() && factors.is_empty() {
                let why = "nothing that matters can be varied here";
                return Err(Error::not_supported("choose factors", why)
                    .hint("linerate tune --factor list tells why"));
            }
            for (factor, why) in usual {
                if !factors.iter().any(|f| f.name == factor.name) {
                    remarks.push(Remark::Usual { factor: factor.clone(), why });
                    factors.push(factor);
                }
            }
        }
        Ok((factors, remarks))
    }

    /// Chooses what is measured without a search.
    ///
    /// # Errors
    /// Usage or not supported, for a candidate, factor or level that can't be had.
    pub fn choose(&self) -> Result<Chosen> {
        let (factors, remarks) = self.factors()?;
        match factors.is_empty() {
            true => self.named(remarks),
            false => self.factorial(&factors, remarks),
        }
    }

    /// All that was left out or folded, where nobody named candidates.
    fn omissions(&self) -> Vec<Remark> {
        let left_out = self.found.left_out.iter();
        let left_out = left_out
            .map(|(name, why)| Remark::NoCandidate { name: (*name).into(), why: why.clone() });
        let folded = self.found.folded.iter();
        let folded = folded
            .map(|(name, other)| Remark::Same { name: (*name).into(), as_name: other.clone() });
        let more = self.found.get(name::CHANNELS).into_iter();
        let queues = more.flat_map(|more| {
            let asked = more.changes().filter(|c| matches!(c.knob, Knob::Channels { .. }));
            asked.map(|change| Remark::QueuesApart {
                change: Box::new(change.clone()),
                candidate: more.name.clone(),
            })
        });
        left_out.chain(folded).chain(queues).collect()
    }

    fn named(&self, mut remarks: Vec<Remark>) -> Result<Chosen> {
        let args = &self.asked;
        if args.candidates.is_empty() && !args.aa {
            remarks.extend(self.omissions());
        }
        let baseline = self.usual_baseline();
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
        Ok(Chosen { candidates, design: Design::Named, baseline, remarks })
    }

    /// The lone interrupt is what routers come with; as found, a lab spreads the work over the
    /// senders' CPUs, which no hardware does.
    fn usual_baseline(&self) -> String {
        let usual = || match self.found.get(name::ONE_CPU) {
            Some(_) if self.asked.in_lab => name::ONE_CPU,
            _ => name::AS_FOUND,
        };
        self.asked.baseline.clone().unwrap_or_else(|| usual().to_owned())
    }

    fn find(&self, wanted: &str) -> Result<Candidate> {
        let found = plan::named(&self.ground(), &self.traffic, wanted)?;
        if found.changes().any(|c| matches!(c.knob, Knob::Channels { .. })) {
            let why = "queues and interrupts come and go with channels: they can't change within \
                       an experiment";
            return Err(Error::not_supported(format!("measure {wanted}"), why).hint(format!(
                "linerate plan --candidate {wanted}, apply it, tune again, and compare the results"
            )));
        }
        Ok(found)
    }

    /// The factors with the levels that this kernel takes: each that is more than a fact of the
    /// snapshot is set once. A remark for each that it refuses.
    fn accepted(&self, factors: &[Factor], remarks: &mut Vec<Remark>) -> Result<Vec<Factor>> {
        let ground = self.ground();
        let mut accepted = Vec::new();
        for factor in factors {
            let mut levels = Vec::new();
            for level in &factor.levels {
                let one = (std::slice::from_ref(factor), std::slice::from_ref(level));
                // A level that can't be had at all is told of by `possible`; a service takes
                // seconds to start, and the planner has seen whether it is there.
                let made = ground.combine(one.0, one.1).ok().filter(|made| {
                    let service = |c: &Change| matches!(c.knob, Knob::Service { .. });
                    made.changes().next().is_some() && !made.changes().any(service)
                });
                match made.map(|made| self.router.refusal(&made)).transpose()?.flatten() {
                    None => levels.push(level.clone()),
                    Some(refusal) => remarks.push(Remark::LeftOut {
                        what: format!("{}={level}", factor.name),
                        why: refusal.to_string(),
                    }),
                }
            }
            if levels.len() > 1 || levels.len() == factor.levels.len() {
                accepted.push(Factor { name: factor.name.clone(), levels });
            } else {
                let why = match levels.as_slice() {
                    [only, ..] => format!("{only} is all that is left of it"),
                    [] => "none of its levels is left".to_owned(),
                };
                remarks.push(Remark::LeftOut { what: factor.name.clone(), why });
            }
        }
        if accepted.is_empty() && !factors.is_empty() {
            let why: Vec<String> = remarks.iter().map(ToString::to_string).collect();
            let why = format!("nothing is left to vary: {}", why.join("; "));
            return Err(unfit(Unfit::NotHere(why)));
        }
        Ok(accepted)
    }

    fn factorial(&self, factors: &[Factor], mut remarks: Vec<Remark>) -> Result<Chosen> {
        let ground = self.ground();
        // Too many are refused before the first of them is tried.
        ground.factorial(factors).map_err(unfit)?;
        let factors = self.accepted(factors, &mut remarks)?;
        let (mut candidates, varied, not_here) = ground.factorial(&factors).map_err(unfit)?;
        remarks.extend(left_out(not_here));
        let baseline = self.baseline(&mut candidates)?;
        ground.finish(&mut candidates);
        Ok(Chosen { candidates, design: Design::Factorial(varied), baseline, remarks })
    }

    /// The baseline of combinations, added where it is none of them.
    fn baseline(&self, candidates: &mut Vec<Candidate>) -> Result<String> {
        let first = candidates.first().map(|c| c.name.clone()).unwrap_or_default();
        let wanted = match &self.asked.baseline {
            Some(name) => name.clone(),
            None if !self.asked.in_lab => name::AS_FOUND.to_owned(),
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

    /// The space that a search goes through.
    ///
    /// # Errors
    /// As [`Menu::choose`].
    pub fn space(&self) -> Result<Space> {
        let ground = self.ground();
        let (asked, mut remarks) = self.factors()?;
        let asked = if asked.is_empty() { ground.placements() } else { asked };
        let asked = self.accepted(&asked, &mut remarks)?;
        let (factors, not_here) = ground.possible(&asked).map_err(unfit)?;
        remarks.extend(left_out(not_here));
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
        Ok(Space { factors, levels, remarks, starts })
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
    #[must_use]
    pub fn climb<'b>(&'b self, space: &'b Space, trials: usize, seed: u64) -> Climb<'b> {
        let model = cost::Model::new(self.router.snapshot(), &self.measured, Profile::default());
        let prior: Prior<'b> = Box::new(move |point| {
            let candidate = self.combination(space, point).ok()?;
            let predicted = model.predict(&candidate).ok().flatten()?;
            // Hand-overs tell candidates apart that are alike otherwise, as in the planner.
            Some(predicted.largest + 1e-3 * predicted.handovers)
        });
        let sizes: Vec<usize> = space.factors.iter().map(|f| f.levels.len()).collect();
        Climb::new(sizes, space.starts.clone(), trials, prior, seed)
    }

    /// A combination of a space.
    ///
    /// # Errors
    /// As [`Menu::choose`].
    pub fn combination(&self, space: &Space, point: &[usize]) -> Result<Candidate> {
        self.ground().combine(&space.factors, &space.words(point)).map_err(unfit)
    }

    /// An experiment between the baseline and what a search found.
    ///
    /// # Errors
    /// As [`Menu::choose`].
    pub fn finalists(&self, space: &Space, best: &[Vec<usize>]) -> Result<Chosen> {
        let mut candidates = Vec::new();
        let mut combinations = Vec::new();
        for point in best {
            let candidate = self.combination(space, point)?;
            let (candidate_name, levels) = (candidate.name.clone(), space.words(point));
            combinations.push(Combination { candidate: candidate_name, levels });
            candidates.push(candidate);
        }
        let baseline = self.with_baseline(self.usual_baseline(), &mut candidates)?;
        self.ground().finish(&mut candidates);
        let factors = space.factors.clone();
        Ok(Chosen {
            candidates,
            design: Design::Search(Varied { factors, combinations }),
            baseline,
            remarks: Vec::new(),
        })
    }

    /// Writes down what the model says of every candidate, before anything is measured. It predicts
    /// rates with costs that were fitted, and of forwarding: not of a router's own traffic.
    pub fn predict(&self, experiment: &mut Experiment) {
        let fitted = self.traffic.costs.unit_ns.is_some() && self.asked.forwards;
        let model = cost::Model::new(self.router.snapshot(), &self.measured, Profile::default());
        let payload = experiment::payload(&experiment.scenario);
        let directions = experiment.directions.clone();
        let predict = |candidate: &Candidate| {
            let said = model.predict(candidate).ok().flatten()?;
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

/// The combinations that a search goes through.
pub struct Space {
    /// The factors.
    pub factors: Vec<Factor>,
    /// Every level as a candidate of its own.
    pub levels: Vec<Candidate>,
    /// Remarks on it, for the user.
    pub remarks: Vec<Remark>,
    starts: Vec<Vec<usize>>,
}

impl Space {
    /// The number of combinations; `None` for more than can be counted.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
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
    let list = "linerate tune --factor list tells what can be varied here";
    match why {
        Unfit::TooMany(_) => {
            Error::usage(what, why).hint("--search finds the best without measuring them all")
        }
        Unfit::Usage(_) => Error::usage(what, why).hint(list),
        Unfit::NotHere(_) => Error::not_supported(what, why).hint(list),
    }
}
