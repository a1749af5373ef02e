//! Candidates by the names that people write and result files hold.

use std::fmt;

use super::factor::{self, Ground, Unfit};
use super::{Candidates, Profile, Request, Traffic, candidates_for, name, recipe, recipes};
use crate::error::Error;
use crate::model::goal::Factor;
use crate::model::plan::{Candidate, NotMade};

/// The syntax of a candidate's name.
#[derive(Debug, PartialEq)]
pub enum CandidateName<'a> {
    /// `recipe-NAME`: a configuration from the field.
    Recipe(&'a str),
    /// `role-NAME`, once `profile-NAME`: the planner's answer for another use of the router.
    Role(&'a str),
    /// `rps=all irq=0`: a combination of factors, each at one level.
    Combination(Vec<Factor>, Vec<String>),
    /// A name of one of the planner's own candidates.
    Own(&'a str),
}

impl<'a> CandidateName<'a> {
    /// Reads a name; every text is one.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        if let Some(recipe) = text.strip_prefix("recipe-") {
            return Self::Recipe(recipe);
        }
        if let Some(role) = text.strip_prefix("role-").or(text.strip_prefix("profile-")) {
            return Self::Role(role);
        }
        match factor::combination(text) {
            Some((factors, levels)) => Self::Combination(factors, levels),
            None => Self::Own(text),
        }
    }
}

/// A name without a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCandidate {
    /// The name.
    pub wanted: String,
    /// The reason why there is none.
    pub why: Unfit,
    /// The names that there are instead.
    pub hint: Option<String>,
}

impl From<NoCandidate> for Error {
    fn from(none: NoCandidate) -> Self {
        let what = format!("find candidate {:?}", none.wanted);
        let error = match &none.why {
            Unfit::Usage(_) | Unfit::TooMany(_) => Self::usage(what, &none),
            Unfit::NotHere(_) => Self::not_supported(what, &none),
        };
        match none.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl fmt::Display for NoCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

/// Finds one of the planner's own candidates, baselines among them.
///
/// # Errors
/// An error if the candidate was left out on this router, or if there is none of that name; both
/// errors name those that there are.
pub fn find<'a>(candidates: &'a Candidates, wanted: &str) -> Result<&'a Candidate, NoCandidate> {
    candidates.get(wanted).ok_or_else(|| {
        let left_out = candidates.left_out.iter().find(|(left, _)| *left == wanted);
        let names: Vec<&str> = candidates.all().map(|c| c.name.as_str()).collect();
        NoCandidate {
            wanted: wanted.to_owned(),
            why: match left_out {
                Some((_, why)) => Unfit::NotHere(format!("left out here: {why}")),
                None => Unfit::Usage("there is no such candidate".into()),
            },
            hint: Some(format!("candidates here: {}", names.join(", "))),
        }
    })
}

/// Makes the candidate of any name that `tune` reports; the traffic is what another role is
/// planned for.
///
/// # Errors
/// Fails as [`find`] does, and if a recipe, a role, a factor or a level is wrong.
pub fn named(
    ground: &Ground<'_>,
    traffic: &Traffic,
    wanted: &str,
) -> Result<Candidate, NoCandidate> {
    let none =
        |why: Unfit, hint: Option<String>| NoCandidate { wanted: wanted.to_owned(), why, hint };
    match CandidateName::parse(wanted) {
        CandidateName::Recipe(name) => by_recipe(ground, name).map(|(candidate, _)| candidate),
        CandidateName::Role(role) => {
            let profile: Profile = role.parse().map_err(|why| none(Unfit::Usage(why), None))?;
            let request = Request { profile, traffic: traffic.clone() };
            let found = candidates_for(ground.snapshot, &request);
            let planned = find(&found, name::PLANNED)?;
            Ok(Candidate { name: wanted.to_owned(), ..planned.clone() })
        }
        CandidateName::Combination(factors, levels) => {
            ground.combine(&factors, &levels).map_err(|why| {
                none(why, Some("linerate tune --factor list tells what can be set here".into()))
            })
        }
        CandidateName::Own(name) => find(ground.candidates, name).cloned(),
    }
}

/// A configuration from the field, with what of it can't be set here.
pub(super) fn by_recipe(
    ground: &Ground<'_>,
    name: &str,
) -> Result<(Candidate, Vec<NotMade>), NoCandidate> {
    recipe(name, ground.snapshot, ground.current).map_err(|why| {
        let known: Vec<&str> = recipes().iter().map(|r| r.name).collect();
        NoCandidate {
            wanted: format!("recipe-{name}"),
            why: if known.contains(&name) { Unfit::NotHere(why) } else { Unfit::Usage(why) },
            hint: Some(format!("recipes: {}", known.join(", "))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_by_its_form() {
        assert_eq!(CandidateName::parse("recipe-nanopi"), CandidateName::Recipe("nanopi"));
        assert_eq!(CandidateName::parse("role-vpn"), CandidateName::Role("vpn"));
        assert_eq!(CandidateName::parse("profile-vpn"), CandidateName::Role("vpn"));
        assert_eq!(CandidateName::parse("rps-all"), CandidateName::Own("rps-all"));
        let CandidateName::Combination(factors, levels) = CandidateName::parse("rps=all irq=0")
        else {
            panic!("a combination")
        };
        assert_eq!((factors.len(), levels), (2, vec!["all".to_owned(), "0".to_owned()]));
    }
}
