//! The plan of the candidate that was asked for, and what it says of one topic.

use super::factor::Ground;
use super::lookup::{NoCandidate, by_recipe, named};
use super::{Candidates, Request, name, not_made, plan_for};
use crate::model::knob::{Knob, Topic};
use crate::model::plan::{Candidate, Change, NotMade, Plan};

/// The candidate that a plan is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The one that the cost model prefers.
    Preferred,
    /// The candidate of this name.
    Named(&'a str),
    /// A recipe exactly as it was reported.
    Recipe(&'a str),
}

/// Makes the plan of a candidate, with what it leaves alone and, for the planner's own, what the
/// cost model says of it.
///
/// # Errors
/// An error if there is no such candidate here.
pub fn plan_of(
    ground: &Ground<'_>,
    request: &Request,
    wanted: Wanted<'_>,
) -> Result<Plan, NoCandidate> {
    let candidates = ground.candidates;
    let by_name = |name: &str| {
        let mut candidate = named(ground, &request.traffic, name)?;
        if candidates.get(name).is_none() {
            ground.finish(std::slice::from_mut(&mut candidate));
        }
        let left_alone = left_alone(ground, &candidate);
        Ok((candidate, left_alone))
    };
    let (candidate, left_alone) = match wanted {
        Wanted::Preferred => by_name(&candidates.preferred)?,
        Wanted::Named(name) => by_name(name)?,
        Wanted::Recipe(name) => by_recipe(ground, name)?,
    };
    let mut plan = plan_for(ground.snapshot, candidate);
    plan.not_made = left_alone;
    let best = candidates.get(name::PLANNED).map(|c| c.name.as_str());
    if best == Some(&plan.candidate.name) {
        plan.model = candidates.planned.as_ref().map(|planned| planned.model.clone());
    }
    Ok(plan)
}

/// Settings that the planner left alone and this candidate leaves alone too. Services are gone
/// through anew: one may be stopped, and another be left.
fn left_alone(ground: &Ground<'_>, candidate: &Candidate) -> Vec<NotMade> {
    let made: Vec<&str> = candidate.changes().map(|c| c.knob.kind()).collect();
    let Some(planned) = &ground.candidates.planned else { return Vec::new() };
    let rest = |n: &&NotMade| n.setting != not_made::SERVICE && !made.contains(&n.setting.as_str());
    let mut all: Vec<NotMade> = planned.not_made.iter().filter(rest).cloned().collect();
    all.extend(not_made::services(ground.snapshot, &candidate.settings));
    all
}

/// All that a plan and the other candidates say of one topic.
#[derive(Debug, serde::Serialize)]
pub struct Explanation<'a> {
    /// The plan's settings of it, changed or stated.
    pub settings: Vec<&'a Change>,
    /// Reasons why others are not set.
    pub not_made: Vec<&'a NotMade>,
    /// Other candidates that change it.
    pub others: Vec<&'a str>,
}

/// Gathers what there is on a topic.
#[must_use]
pub fn explain<'a>(candidates: &'a Candidates, plan: &'a Plan, topic: &Topic) -> Explanation<'a> {
    let about = |knob: &Knob| knob.spec().is_some_and(|spec| spec.topic == topic);
    let chosen = &plan.candidate;
    let others = candidates
        .all()
        .filter(|c| c.name != chosen.name && c.changes().any(|change| about(&change.knob)));
    Explanation {
        settings: chosen.settings.iter().filter(|c| about(&c.knob)).collect(),
        not_made: plan.not_made.iter().filter(|n| n.setting == topic.name).collect(),
        others: others.map(|c| c.name.as_str()).collect(),
    }
}
